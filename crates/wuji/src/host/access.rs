//! One call of the host on a field or view: checks, activation, lists and exports, whatever nodes are above.

use crate::autodiff::{Elements, Extent};
use crate::element::Element;
use crate::layout::{TreeBody, TreeInner};
use crate::services::{Service, Subject};
use crate::world::here;
use smallvec::SmallVec;
use std::ops::Range;
use std::panic::Location;
use std::sync::Arc;
use wuji_ir::entities::{self, Node};
use wuji_ir::layout::NodeKind;
use wuji_ir::types::Structs;
use wuji_ir::{Error, Result};
use wuji_runtime::Memory;
use wuji_runtime::address::Address;
use wuji_runtime::array::ArrayArg;

/// A field or view, and the line of the user that accesses it.
pub(crate) struct HostAccess<'a> {
    tree: &'a TreeInner,
    pub(crate) body: &'a TreeBody,
    field: entities::Field,
    caller: &'static Location<'static>,
}

impl<'a> HostAccess<'a> {
    #[track_caller]
    pub(crate) fn new(tree: &'a TreeInner, field: entities::Field) -> Result<HostAccess<'a>> {
        let caller = Location::caller();
        (tree.world.before_host_access()).map_err(|e| e.at(Some(here(caller))))?;
        Ok(HostAccess {
            tree,
            body: tree.body().map_err(|e| e.at(Some(here(caller))))?,
            field,
            caller,
        })
    }

    fn place(&self) -> usize {
        self.field.as_u32() as usize
    }

    pub(crate) fn name(&self) -> &'a str {
        self.body.names.get(self.place()).map_or("", String::as_str)
    }

    /// Smallest coordinate and extent along each index.
    pub(crate) fn domain(&self) -> &'a [(i64, u64)] {
        &self.body.domains[self.place()]
    }

    /// How elements are found; `None` where a node is sparse or the field is packed or split, and only kernels find them.
    pub(crate) fn address(&self) -> Option<&'a Address> {
        let placed = &self.body.shape.fields[self.place()];
        let own = placed.packing.is_none() && placed.components.is_empty();
        self.body.addresses.get(self.place()).filter(|_| own)
    }

    fn node(&self) -> Node {
        self.body.shape.fields[self.place()].node
    }

    fn kind(&self) -> NodeKind {
        self.body.shape.data.nodes[self.node()].kind
    }

    /// The nodes that hold parts of an element, each once.
    fn nodes(&self) -> SmallVec<[Node; 1]> {
        self.body.shape.nodes_of(self.field)
    }

    pub(crate) fn fail(&self, code: &'static str, message: impl Into<String>) -> Error {
        Error::new(code, message).at(Some(here(self.caller)))
    }

    /// Runs a service on this field.
    pub(crate) fn serve(
        &self,
        service: Service,
        params: &[u64],
        arrays: &[ArrayArg<'_>],
    ) -> Result<u64> {
        let slots = self.slots(service, params, arrays)?;
        Ok(slots.first().copied().unwrap_or(0))
    }

    pub(crate) fn slots(
        &self,
        service: Service,
        params: &[u64],
        arrays: &[ArrayArg<'_>],
    ) -> Result<SmallVec<[u64; 4]>> {
        let subject = Subject::Field(self.field);
        let slots = self.tree.serve(subject, service, params, arrays);
        slots.map_err(|e| e.or_at(here(self.caller)))
    }

    /// Tells the tapes of this thread that the field is about to change.
    pub(crate) fn before_write(&self, extent: Extent) -> Result<()> {
        let informed = self.tree.before_write(self.field, extent);
        informed.map_err(|e| e.or_at(here(self.caller)))
    }

    /// In forward mode, makes the tangents of elements zero that the host writes to.
    pub(crate) fn end_tangents(&self, elements: &Elements<'_>) -> Result<()> {
        let ended = self.tree.end_tangents(self.field, elements);
        ended.map_err(|e| e.or_at(here(self.caller)))
    }

    /// Allocates zeroed memory on the device of the field.
    pub(crate) fn allocate_on_device(&self, bytes: u64) -> Result<Memory> {
        let memory = self.tree.world.device().reserve(bytes);
        memory.map_err(|e| e.or_at(here(self.caller)))
    }

    /// Whether an index is in the domain.
    pub(crate) fn contains(&self, at: &[i64]) -> bool {
        let mut domain = self.domain().iter().zip(at);
        domain.all(|(domain, c)| inside(*domain, *c))
    }

    pub(crate) fn inside(&self, at: &[i64]) -> Result<()> {
        if self.contains(at) {
            Ok(())
        } else {
            Err(self.outside(at))
        }
    }

    #[cold]
    pub(crate) fn outside(&self, at: &[i64]) -> Error {
        let name = self.name();
        let bounds: Vec<String> = self
            .domain()
            .iter()
            .map(|(from, extent)| format!("{from}..{}", from + *extent as i64))
            .collect();
        self.fail("W0111", format!("field `{name}` has no element {at:?}"))
            .note(format!("its elements are [{}]", bounds.join(", ")))
    }

    /// Reads bytes `part` of one element. `None` in a sparse layout, where [`HostAccess::load`] reads it.
    pub(crate) fn read<R>(
        &self,
        at: &[i64],
        part: Range<usize>,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        self.inside(at)?;
        let Some(address) = self.address() else {
            return Ok(None);
        };
        let offset = address.offset(at.iter().copied());
        let range = offset + part.start..offset + part.end;
        let mut guard = self.body.memory.lock()?;
        guard.fetch(range.clone())?;
        Ok(Some(read(&guard.bytes()[range])))
    }

    /// Writes bytes `part` of one element. Returns false in a sparse layout, where [`HostAccess::store`] writes it.
    pub(crate) fn write(
        &self,
        at: &[i64],
        part: Range<usize>,
        write: impl FnOnce(&mut [u8]),
    ) -> Result<bool> {
        self.inside(at)?;
        let Some(address) = self.address() else {
            return Ok(false);
        };
        self.before_write(Extent::Some)?;
        self.end_tangents(&Elements::One(at, part.clone()))?;
        let offset = address.offset(at.iter().copied());
        let range = offset + part.start..offset + part.end;
        let mut guard = self.body.memory.lock()?;
        write(&mut guard.bytes_mut()[range.clone()]);
        guard.send(range).map(|()| true)
    }

    /// The scalars of one element, read by a kernel.
    pub(crate) fn load(&self, at: &[i64]) -> Result<SmallVec<[u64; 4]>> {
        self.slots(Service::Get, &words(at), &[])
    }

    /// Writes the scalars of one element by a kernel, which activates it.
    pub(crate) fn store(&self, at: &[i64], value: &[u64]) -> Result<()> {
        let mut params = words(at);
        params.extend(value);
        self.serve(Service::Set, &params, &[])?;
        self.end_tangents(&Elements::One(at, 0..self.size()))
    }

    pub(crate) fn is_active(&self, at: &[i64]) -> Result<bool> {
        Ok(self.contains(at) && self.serve(Service::IsActive, &words(at), &[])? != 0)
    }

    pub(crate) fn activate(&self, at: &[i64]) -> Result<()> {
        self.inside(at)?;
        self.serve(Service::Activate, &words(at), &[]).map(|_| ())
    }

    pub(crate) fn deactivate(&self, at: &[i64]) -> Result<()> {
        let nodes = self.nodes();
        let mut kinds = nodes.iter().map(|n| self.body.shape.data.nodes[*n].kind);
        if let Some(kind) = kinds.find(|kind| !kind.is_sparse()) {
            let (name, kind) = (self.name(), kind.name());
            return Err(self
                .fail(
                    "W0125",
                    format!("`{name}` is in a {kind} node, whose cells cannot be deactivated one by one"),
                )
                .note("they come and go with the cell around them")
                .help("deactivate a cell of a sparse node above: `let blocks = node.cells(\"blocks\")` in the layout"));
        }
        if !self.contains(at) {
            return Ok(());
        }
        self.serve(Service::Deactivate, &words(at), &[]).map(|_| ())
    }

    /// Deactivates all cells of the innermost sparse node on the way.
    pub(crate) fn deactivate_all(&self) -> Result<()> {
        let data = &self.body.shape.data;
        let mut innermost: Vec<Node> = Vec::new();
        for node in self.nodes() {
            let Some(node) = data.sparse_path(node).last().copied() else {
                let name = self.name();
                return Err(self
                    .fail(
                        "W0125",
                        format!("all nodes above `{name}` are dense: nothing can be deactivated"),
                    )
                    .help("`fill` its elements with zero"));
            };
            if !innermost.contains(&node) {
                innermost.push(node);
            }
        }
        for node in innermost {
            let (subject, service) = (Subject::Node(node), Service::DeactivateAll);
            self.tree.serve(subject, service, &[], &[])?;
        }
        Ok(())
    }

    /// Whether a list is in the domain; an error when there are no lists.
    fn has_list(&self, at: &[i64]) -> Result<bool> {
        if self.nodes().len() > 1 {
            let what = format!("the components of `{}` are in several lists", self.name());
            return Err(self
                .fail("W0126", what)
                .help("place all components in one `dynamic` node to append to it"));
        }
        if let Some(list) = self.body.shape.data.list_axis(self.node()) {
            let axes = &self.body.shape.fields[self.place()].axes;
            let others = axes.iter().zip(self.domain());
            let others = others.filter(|((axis, _), _)| *axis != list);
            return Ok(others.zip(at).all(|((_, domain), c)| inside(*domain, *c)));
        }
        let (name, kind) = (self.name(), self.kind().name());
        Err(self
            .fail(
                "W0126",
                format!("`{name}` is in a {kind} node, which is not a list"),
            )
            .help("lists are made with `dynamic` in the layout"))
    }

    /// Appends a cell; the scalars of its value are in `value`.
    pub(crate) fn append(&self, at: &[i64], value: &[u64]) -> Result<i32> {
        if !self.has_list(at)? {
            let name = self.name();
            return Err(self.fail("W0111", format!("`{name}` has no list {at:?}")));
        }
        let mut params = words(at);
        params.extend(value);
        let index = self.serve(Service::Append, &params, &[])? as i32;
        let new = self.appended(at, index);
        self.end_tangents(&Elements::One(&new, 0..self.size()))?;
        Ok(index)
    }

    /// The coordinates of a cell of a list.
    fn appended(&self, at: &[i64], index: i32) -> Vec<i64> {
        let list = self.body.shape.data.list_axis(self.node());
        let axes = self.body.shape.fields[self.place()].axes.iter();
        let mut others = at.iter().copied();
        let coordinates = axes.map(|(axis, _)| {
            if Some(*axis) == list {
                i64::from(index)
            } else {
                others.next().unwrap_or(0)
            }
        });
        coordinates.collect()
    }

    /// Bytes of an element.
    fn size(&self) -> usize {
        let mut structs = Structs::default();
        let ty = self.body.shape.fields[self.place()]
            .elem
            .enter(&mut structs);
        structs.size_align(ty).0 as usize
    }

    pub(crate) fn length(&self, at: &[i64]) -> Result<i32> {
        if !self.has_list(at)? {
            return Ok(0);
        }
        Ok(self.serve(Service::Length, &words(at), &[])? as i32)
    }

    pub(crate) fn count(&self) -> Result<u64> {
        self.serve(Service::Count, &[], &[])
    }

    /// Coordinates, and values where `size` is not 0, of all active cells, row by row.
    pub(crate) fn export<const D: usize>(&self, size: usize) -> Result<(Vec<[i32; D]>, Vec<u64>)> {
        let found = self.export_cells(D, size)?;
        let row = |n: usize| std::array::from_fn(|k| found.coordinates[n * D + k]);
        Ok(((0..found.rows).map(row).collect(), found.values))
    }

    /// The same, for a rank that is known at run time.
    pub(crate) fn export_cells(&self, rank: usize, size: usize) -> Result<ActiveCells> {
        let service = match size {
            0 => Service::List,
            _ => Service::Export,
        };
        self.export_by(service, &[], self.count()?, (rank, size))
    }

    /// The same, of one part of the active cells, which has about `room` of them.
    pub(crate) fn export_part(
        &self,
        part: CellPart,
        room: u64,
        (rank, size): (usize, usize),
    ) -> Result<ActiveCells> {
        let service = match size {
            0 => Service::ListPart,
            _ => Service::ExportPart,
        };
        self.export_by(service, &part.params(), room, (rank, size))
    }

    fn export_by(
        &self,
        service: Service,
        params: &[u64],
        mut room: u64,
        (rank, size): (usize, usize),
    ) -> Result<ActiveCells> {
        self.fits_i32()?;
        loop {
            let mut coordinates = self.buffer(room, rank.max(1) as u64 * 4)?;
            let mut values = self.buffer(room, size as u64)?;
            let rows = room as usize;
            let mut arrays = vec![ArrayArg::opaque(&mut coordinates, 4, &[rows, rank], true)?];
            if size > 0 {
                arrays.push(ArrayArg::opaque(&mut values, size, &[rows], true)?);
            }
            let found = self.serve(service, params, &arrays)?;
            drop(arrays);
            // Another thread may have activated more cells since they were counted.
            if found > room {
                room = found;
                continue;
            }
            return Ok(sorted(&coordinates, &values, found as usize, (rank, size)));
        }
    }

    /// Activates the cells at all coordinates; those with values get them.
    pub(crate) fn import<const D: usize>(
        &self,
        coordinates: &[[i32; D]],
        values: Option<(&mut [u64], usize)>,
    ) -> Result<()> {
        let flat = coordinates.as_flattened();
        self.import_cells((coordinates.len(), D), flat, values)
    }

    /// The same, for a rank that is known at run time.
    pub(crate) fn import_cells(
        &self,
        (rows, rank): (usize, usize),
        coordinates: &[i32],
        values: Option<(&mut [u64], usize)>,
    ) -> Result<()> {
        let writes = values.is_some();
        self.import_by(Service::Import, (rows, rank), coordinates, values)?;
        if writes {
            self.end_tangents(&Elements::Rows(coordinates))?;
        }
        Ok(())
    }

    /// Gives active elements values; others stay inactive.
    pub(crate) fn import_active(&self, cells: &ActiveCells, size: usize) -> Result<()> {
        let rank = self.domain().len();
        let mut values = cells.values.clone();
        let values = Some((&mut values[..], size));
        let rows = (cells.rows, rank);
        self.import_by(Service::ImportActive, rows, &cells.coordinates, values)
    }

    fn import_by(
        &self,
        service: Service,
        (rows, rank): (usize, usize),
        coordinates: &[i32],
        values: Option<(&mut [u64], usize)>,
    ) -> Result<()> {
        for at in coordinates.chunks_exact(rank.max(1)) {
            let at: SmallVec<[i64; 4]> = at.iter().map(|c| i64::from(*c)).collect();
            self.inside(&at)?;
        }
        let mut buffer = self.buffer(rows as u64, rank.max(1) as u64 * 4)?;
        for (n, c) in coordinates.iter().enumerate() {
            buffer[n / 2] |= u64::from(*c as u32) << (n % 2 * 32);
        }
        let mut arrays = vec![ArrayArg::opaque(&mut buffer, 4, &[rows, rank], false)?];
        if let Some((values, size)) = values {
            arrays.push(ArrayArg::opaque(values, size, &[rows], false)?);
        }
        self.serve(service, &[], &arrays).map(|_| ())
    }

    /// Zeroed words for `count` things of `size` bytes.
    pub(crate) fn buffer(&self, count: u64, size: u64) -> Result<Vec<u64>> {
        let words = count.checked_mul(size).map(|n| n.div_ceil(8) as usize);
        let mut buffer = Vec::new();
        let fits = words.is_some_and(|n| buffer.try_reserve_exact(n).is_ok());
        if !fits {
            return Err(self.fail("W0110", format!("no memory for a copy of {count} elements")));
        }
        buffer.resize(words.unwrap_or(0), 0);
        Ok(buffer)
    }

    /// Coordinates in lists are `i32`, as in kernels. Below a hash node some exceed that if the size of a
    /// block does not divide the extent; only kernels with wider integers write there.
    fn fits_i32(&self) -> Result<()> {
        let fits = self.domain().iter().all(|(from, extent)| {
            let last = i128::from(*from) + i128::from(*extent) - 1;
            i32::try_from(*from).is_ok() && i32::try_from(last).is_ok()
        });
        if fits || self.is_unbounded() {
            return Ok(());
        }
        let name = self.name();
        Err(self
            .fail(
                "W0127",
                format!("the coordinates of `{name}` do not fit into `i32`"),
            )
            .help("give the field an `offset` that has 0 in its middle, or read a `window` of it"))
    }

    /// Whether a node above has no bounds.
    pub(crate) fn is_unbounded(&self) -> bool {
        let path = self.body.shape.data.path(self.node());
        path.iter().any(|n| self.body.unbounded.contains(n))
    }
}

/// Whether a coordinate is in a domain: smallest one and extent, whose end fits `i64`.
fn inside((from, extent): (i64, u64), c: i64) -> bool {
    c >= from && (c.wrapping_sub(from) as u64) < extent
}

/// Indices as parameters.
pub(crate) fn words(at: &[i64]) -> Vec<u64> {
    at.iter().map(|c| *c as u64).collect()
}

pub(crate) fn with_value<T: Element>(mut params: Vec<u64>, value: T) -> Vec<u64> {
    let start = params.len();
    params.resize(start + T::SCALARS, 0);
    value.to_slots(&mut params[start..]);
    params
}

/// One of several parts of the active cells of a node. Which cells are in it depends on their coordinates only.
#[derive(Copy, Clone)]
pub(crate) struct CellPart {
    pub(crate) number: u64,
    /// How many parts there are.
    pub(crate) of: u64,
}

impl CellPart {
    /// The parameters of a service.
    pub(crate) fn params(self) -> [u64; 2] {
        [self.number, self.of]
    }
}

/// Active cells: how many, where they are, and what is in them.
pub(crate) struct ActiveCells {
    pub(crate) rows: usize,
    /// Those of one cell after the other.
    pub(crate) coordinates: Arc<Vec<i32>>,
    /// Elements as they lie in the memory of kernels.
    pub(crate) values: Vec<u64>,
}

/// The exported rows in the order of their coordinates: loops find them in any order.
fn sorted(
    coordinates: &[u64],
    values: &[u64],
    rows: usize,
    (rank, size): (usize, usize),
) -> ActiveCells {
    let coordinate = |n: usize| (coordinates[n / 2] >> (n % 2 * 32)) as u32 as i32;
    let found: Vec<i32> = (0..rows * rank).map(coordinate).collect();
    let row = |n: usize| &found[n * rank..(n + 1) * rank];
    let mut order: Vec<usize> = (0..rows).collect();
    order.sort_unstable_by_key(|n| row(*n));
    let mut bytes = vec![0u8; (rows * size).next_multiple_of(8)];
    if size > 0 {
        let found: Vec<u8> = values.iter().flat_map(|w| w.to_ne_bytes()).collect();
        for (to, from) in order.iter().enumerate() {
            let from = &found[from * size..(from + 1) * size];
            bytes[to * size..(to + 1) * size].copy_from_slice(from);
        }
    }
    let words = bytes.chunks_exact(8).map(|chunk| {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        u64::from_ne_bytes(word)
    });
    ActiveCells {
        rows,
        coordinates: Arc::new(order.iter().flat_map(|n| row(*n)).copied().collect()),
        values: words.collect(),
    }
}

/// Elements as they lie in the memory of kernels.
pub(crate) fn pack<T: Element>(values: &[T], buffer: &mut [u64]) {
    let mut bytes = vec![0u8; buffer.len() * 8];
    for (n, value) in values.iter().enumerate() {
        value.write(&mut bytes[n * T::SIZE..]);
    }
    for (word, chunk) in buffer.iter_mut().zip(bytes.chunks_exact(8)) {
        let mut own = [0; 8];
        own.copy_from_slice(chunk);
        *word = u64::from_ne_bytes(own);
    }
}

pub(crate) fn unpack<T: Element>(buffer: &[u64], count: usize) -> Vec<T> {
    let bytes: Vec<u8> = buffer.iter().flat_map(|w| w.to_ne_bytes()).collect();
    (0..count).map(|n| T::read(&bytes[n * T::SIZE..])).collect()
}
