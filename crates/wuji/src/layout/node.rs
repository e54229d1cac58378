//! Nodes of a tree under construction.

use super::packed::Pack;
use super::{Elem, PlacedField, TreeInner, nothing};
use crate::args::TypeOf;
use crate::autodiff::Derivative;
use crate::axes::{Axes, Extents};
use crate::cells::Cells;
use crate::element::Element;
use crate::field::Field;
use crate::world::here;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use wuji_ir::entities;
use wuji_ir::layout::{Axis, CellOrder, Child, NodeKind, TreeData};
use wuji_ir::{Error, Result};

/// A node of a tree under construction: add nodes below it, or place fields in its cells. Several nodes and fields below
/// one node share its cells.
///
/// The first error of a layout is returned when it is complete.
#[derive(Copy, Clone)]
pub struct Node<'a> {
    pub(super) build: &'a Build,
    pub(super) node: entities::Node,
    pub(super) offset: Option<([i64; Axis::COUNT], usize)>,
}

impl fmt::Debug for Node<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node({})", self.node)
    }
}

pub(super) struct Build {
    pub(super) tree: Arc<TreeInner>,
    pub(super) state: RefCell<State>,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) data: TreeData,
    pub(super) fields: Vec<PlacedField>,
    pub(super) names: Vec<String>,
    /// Of every field: whether its origin was given.
    pub(super) offset: Vec<bool>,
    /// Bit structs.
    pub(super) packs: Vec<Pack>,
    /// Hash nodes whose extents follow from what is below them.
    pub(crate) unbounded: Vec<entities::Node>,
    /// The derivatives of fields that are placed in this tree, too.
    pub(super) links: Vec<(entities::Field, Derivative, entities::Field)>,
    /// Extents and origins are those of a complete tree.
    pub(super) resolved: bool,
    /// The first thing that went wrong.
    pub(super) error: Option<Error>,
}

impl State {
    pub(super) fn fail(&mut self, error: Error) {
        self.error.get_or_insert(error);
    }
}

/// More levels than any layout needs; paths from leaf to root stay short.
const MAX_DEPTH: usize = 64;
/// Bits of the number of a cell along a Z-curve.
const MORTON_BITS: u32 = 62;

impl<'a> Node<'a> {
    /// A node of contiguous cells, the last axis fastest, in each cell of this node.
    #[track_caller]
    pub fn dense(self, axes: impl Into<Axes>, extents: impl Into<Extents>) -> Node<'a> {
        let at = Location::caller();
        self.add(NodeKind::Dense, axes.into(), extents.into(), at)
    }

    /// As [`dense`](Node::dense), with one bit per cell: whether the cell is active. Inactive
    /// cells keep their memory, so lookups are cheap.
    #[track_caller]
    pub fn bitmasked(self, axes: impl Into<Axes>, extents: impl Into<Extents>) -> Node<'a> {
        let at = Location::caller();
        self.add(NodeKind::Bitmasked, axes.into(), extents.into(), at)
    }

    /// A node with one pointer per cell: a cell has memory while it is active.
    #[track_caller]
    pub fn pointer(self, axes: impl Into<Axes>, extents: impl Into<Extents>) -> Node<'a> {
        let at = Location::caller();
        self.add(NodeKind::Pointer, axes.into(), extents.into(), at)
    }

    /// An unbounded node: its cells are found by hashing their coordinates. Fields below it have elements at every `i32`
    /// along these axes, negative ones too, so no node above splits them.
    #[track_caller]
    pub fn hash(self, axes: impl Into<Axes>) -> Node<'a> {
        let at = Location::caller();
        let axes: Axes = axes.into();
        self.added(at, |state| state.add_unbounded(self.node, &axes.list()))
    }

    /// As [`hash`](Node::hash), with a bounded number of cells along each axis.
    #[track_caller]
    pub fn hash_sized(self, axes: impl Into<Axes>, extents: impl Into<Extents>) -> Node<'a> {
        let at = Location::caller();
        self.add(NodeKind::Hash, axes.into(), extents.into(), at)
    }

    /// A list of at most `most` cells along one axis in each cell of this node. It grows at its end,
    /// by `append` or by writes; memory is allocated in chunks, which are larger for longer lists.
    #[track_caller]
    pub fn dynamic(self, axis: impl Into<Axes>, most: impl Into<Extents>) -> Node<'a> {
        self.list(
            NodeKind::dynamic(0),
            axis.into(),
            most.into(),
            Location::caller(),
        )
    }

    fn list(
        self,
        kind: NodeKind,
        axis: Axes,
        most: Extents,
        at: &'static Location<'static>,
    ) -> Node<'a> {
        let extents = match &most {
            Extents::All(n) => std::slice::from_ref(n),
            Extents::Each(list) => list,
        };
        let kind = kind.format().with_defaults(extents);
        self.add(kind, axis, most, at)
    }

    /// As [`dynamic`](Node::dynamic), with memory for `chunk` cells at a time, or for the whole list if it is shorter.
    #[track_caller]
    pub fn dynamic_chunked(
        self,
        axis: impl Into<Axes>,
        most: impl Into<Extents>,
        chunk: u32,
    ) -> Node<'a> {
        let at = Location::caller();
        if chunk == 0 {
            let error = Error::new("W0123", "a dynamic node has chunks of 0 cells");
            let error = error.help("a chunk is at least 1 cell; 32 to 1024 are usual");
            self.build.state.borrow_mut().fail(error.at(Some(here(at))));
            return self;
        }
        self.list(NodeKind::dynamic(chunk), axis.into(), most.into(), at)
    }

    /// Orders the cells of this node along a Z-curve (Morton order), so that neighbours along every axis are
    /// near in memory. Only the memory layout changes.
    #[track_caller]
    pub fn morton(self) -> Node<'a> {
        let at = here(Location::caller());
        let state = &mut *self.build.state.borrow_mut();
        if let Err(error) = state.order_by_morton(self.node) {
            state.fail(error.at(Some(at)));
        }
        self
    }

    fn add(
        self,
        kind: NodeKind,
        axes: Axes,
        extents: Extents,
        at: &'static Location<'static>,
    ) -> Node<'a> {
        self.added(at, |state| {
            state.add(self.node, kind, &axes.list(), extents)
        })
    }

    /// The node that `add` adds; this one after an error.
    fn added(
        self,
        at: &'static Location<'static>,
        add: impl FnOnce(&mut State) -> Result<entities::Node>,
    ) -> Node<'a> {
        let state = &mut *self.build.state.borrow_mut();
        let mut below = self;
        match add(state) {
            Ok(node) => below.node = node,
            Err(error) => state.fail(error.at(Some(here(at)))),
        }
        below
    }

    /// The smallest coordinate along each index, for what is placed from here on: `x[[-32, 0]]` is
    /// the first element of a field placed after `.offset([-32, 0])`.
    pub fn offset<const D: usize>(self, offset: [i64; D]) -> Node<'a> {
        let mut from = [0; Axis::COUNT];
        for (to, value) in from.iter_mut().zip(offset) {
            *to = value;
        }
        Node {
            offset: Some((from, D)),
            ..self
        }
    }

    /// Puts an element of a field into every cell of this node. The field has one index for each
    /// axis that was split on the way here, in the order of the alphabet.
    #[track_caller]
    pub fn place<T: Element, const D: usize>(self, name: &str) -> Field<T, D> {
        let field = self.put::<D>(name, T::ir_type, false, Location::caller());
        Field::new(self.build.tree.clone(), field)
    }

    /// The cells of this node themselves, for kernels and the host to query, loop over and
    /// activate. One coordinate is one cell: block `[i, j]` of a node above blocks of 8 x 8 holds
    /// the elements `[8 * i .. 8 * i + 8, 8 * j .. 8 * j + 8]`, negative ones too.
    #[track_caller]
    pub fn cells<const D: usize>(self, name: &str) -> Cells<D> {
        let field = self.put::<D>(name, nothing, true, Location::caller());
        Cells::new(self.build.tree.clone(), field)
    }

    fn put<const D: usize>(
        self,
        name: &str,
        elem: TypeOf,
        view: bool,
        at: &'static Location<'static>,
    ) -> entities::Field {
        let state = &mut *self.build.state.borrow_mut();
        let offset = self.offset.as_ref().map(|(from, n)| (&from[..], *n));
        let put = state
            .can_place(self.node, name, D)
            .and_then(|()| state.put(self.node, name, Elem::Typed(elem), view, offset));
        match put {
            Ok(field) => field,
            Err(error) => {
                state.fail(error.at(Some(here(at))));
                entities::Field::from_u32(0)
            }
        }
    }
}

fn split_above(axis: Axis, above: &str) -> Error {
    let what =
        format!("a hash node without bounds splits axis `{axis}`, which {above} splits, too");
    Error::new("W0120", what)
        .note("a field has every coordinate along an axis without bounds, so the hash node is the first that splits it")
        .help("use `hash_sized` here, or put the hash node above")
}

impl State {
    /// Adds a node below another one.
    pub(crate) fn add(
        &mut self,
        parent: entities::Node,
        kind: NodeKind,
        axes: &[Axis],
        extents: Extents,
    ) -> Result<entities::Node> {
        let axes = checked_axes(&self.data, parent, kind, axes)?;
        let extents = checked_extents(kind, &axes, extents)?;
        let parent = if kind.is_bit_array() {
            self.node_of_words(parent, &axes)
        } else {
            parent
        };
        Ok(self.data.add(parent, kind, &extents))
    }

    /// A hash node without bounds below another one.
    pub(crate) fn add_unbounded(
        &mut self,
        parent: entities::Node,
        axes: &[Axis],
    ) -> Result<entities::Node> {
        let path = self.data.path(parent);
        for axis in axes {
            let splits = |n: &&entities::Node| {
                let extents = &self.data.nodes[**n].extents;
                extents.iter().any(|e| e.0 == *axis)
            };
            if let Some(above) = path.iter().rev().find(splits) {
                return Err(split_above(*axis, &self.data.describe(*above)));
            }
        }
        let node = self.add(parent, NodeKind::Hash, axes, Extents::All(1))?;
        self.unbounded.push(node);
        Ok(node)
    }

    /// A dense node below another one, with extents that are valid.
    pub(super) fn add_dense(
        &mut self,
        parent: entities::Node,
        extents: &[(Axis, u64)],
    ) -> entities::Node {
        self.data.add(parent, NodeKind::Dense, extents)
    }

    /// A bit array below another node.
    pub(super) fn add_bit_array(
        &mut self,
        parent: entities::Node,
        axes: &[Axis],
        extents: Extents,
    ) -> Result<entities::Node> {
        self.add(parent, NodeKind::BitArray, axes, extents)
    }

    /// Words have all axes of their bit array, if only with one cell.
    fn node_of_words(&mut self, parent: entities::Node, axes: &[Axis]) -> entities::Node {
        let split = self.data.axes(parent);
        let missing = axes.iter().filter(|a| !split.contains(a));
        let missing: Vec<(Axis, u64)> = missing.map(|a| (*a, 1)).collect();
        if missing.is_empty() {
            parent
        } else {
            self.add_dense(parent, &missing)
        }
    }

    /// Orders the cells of a node along a Z-curve.
    pub(crate) fn order_by_morton(&mut self, node: entities::Node) -> Result<()> {
        morton(&self.data, node)?;
        self.data.nodes[node].order = CellOrder::Morton;
        Ok(())
    }

    /// Whether a field of this name and rank can be placed in the cells of a node.
    pub(super) fn can_place(&self, node: entities::Node, name: &str, rank: usize) -> Result<()> {
        self.is_new_name(name)?;
        self.has_rank(node, name, rank)
    }

    /// An error if the layout has a field of this name.
    pub(super) fn is_new_name(&self, name: &str) -> Result<()> {
        if !name.is_empty() && self.names.iter().any(|n| n == name) {
            let what = format!("this layout has a field `{name}` already");
            return Err(Error::new("W0136", what)
                .note("errors, reports and saved fields refer to a field by its name")
                .help("give the field another name, or place it in a layout of its own"));
        }
        Ok(())
    }

    fn has_rank(&self, node: entities::Node, name: &str, rank: usize) -> Result<()> {
        let axes = self.data.axes(node);
        if axes.len() == rank {
            return Ok(());
        }
        let names: Vec<String> = axes.iter().map(|a| format!("`{a}`")).collect();
        let n = axes.len();
        let split = match n {
            0 => "no axis is".to_owned(),
            1 => format!("one axis ({}) is", names[0]),
            _ => format!("{n} axes ({}) are", names.join(", ")),
        };
        Err(Error::new(
            "W0103",
            format!("field `{name}` has rank {rank}, but {split} split above it"),
        )
        .help(format!("place it as a field of rank {n}")))
    }

    /// Places a field, or a view, in the cells of a node. The offset has its numbers, and how many were given: those beyond
    /// the number of axes are counted, but not stored.
    pub(crate) fn put(
        &mut self,
        node: entities::Node,
        name: &str,
        elem: Elem,
        view: bool,
        offset: Option<(&[i64], usize)>,
    ) -> Result<entities::Field> {
        let axes = self.data.axes(node);
        let rank = axes.len();
        if let Some((_, n)) = offset.filter(|o| o.1 != rank) {
            return Err(Error::new(
                "W0104",
                format!("field `{name}` of rank {rank} has an offset of {n} numbers"),
            )
            .help("give one number for each index"));
        }
        let from = |k: usize| offset.map_or(0, |(from, _)| from[k]);
        let axes = axes.into_iter().enumerate().map(|(k, a)| (a, from(k)));
        let field = entities::Field::from_u32(self.fields.len() as u32);
        self.data.nodes[node].children.push(Child::Place(field));
        self.fields.push(PlacedField {
            node,
            axes: axes.collect(),
            elem,
            view,
            packing: None,
            components: Vec::new(),
        });
        self.names.push(name.to_owned());
        self.offset.push(offset.is_some());
        Ok(field)
    }
}

/// Whether a node may stand below its parent, over these axes.
fn checked_axes(
    data: &TreeData,
    parent: entities::Node,
    kind: NodeKind,
    axes: &[Axis],
) -> Result<SmallVec<[Axis; 3]>> {
    let what = kind.name();
    if axes.is_empty() {
        return Err(
            Error::new("W0102", format!("a {what} node needs at least one axis"))
                .help("place fields of rank 0 directly in the root"),
        );
    }
    if let Some(twice) = (1..axes.len()).find(|k| axes[..*k].contains(&axes[*k])) {
        let axis = axes[twice];
        return Err(
            Error::new("W0102", format!("a {what} node splits axis `{axis}` twice"))
                .help("split it again in a node below this one"),
        );
    }
    let path = data.path(parent);
    if path.len() > MAX_DEPTH {
        return Err(Error::new(
            "W0106",
            format!("a tree has at most {MAX_DEPTH} levels"),
        ));
    }
    kind.format().check_axes(data, parent, axes)?;
    let lists = path.into_iter().filter_map(|n| data.list_axis(n));
    for axis in lists {
        if axes.contains(&axis) {
            return Err(Error::new(
                "W0121",
                format!("a {what} node splits axis `{axis}`, along which the dynamic node above it is a list"),
            )
            .note("the index along a list is an axis of its own")
            .help("use another axis for one of the two"));
        }
    }
    Ok(axes.iter().copied().collect())
}

fn checked_extents(
    kind: NodeKind,
    axes: &[Axis],
    extents: Extents,
) -> Result<SmallVec<[(Axis, u64); 3]>> {
    let extents: SmallVec<[i128; 3]> = match extents {
        Extents::All(extent) => axes.iter().map(|_| extent).collect(),
        Extents::Each(extents) if extents.len() == axes.len() => extents,
        Extents::Each(extents) => {
            let (n, m) = (axes.len(), extents.len());
            return Err(Error::new("W0102", format!("{n} axes have {m} extents"))
                .help("give one extent for each axis, or one number for all of them"));
        }
    };
    kind.format().check_extents(&extents)?;
    let checked = axes.iter().zip(&extents).map(|(axis, extent)| {
        let positive = u64::try_from(*extent).ok().filter(|e| *e > 0);
        let positive = positive.ok_or_else(|| {
            Error::new("W0101", format!("axis `{axis}` has extent {extent}"))
                .help("an extent is at least 1")
        })?;
        Ok((*axis, positive))
    });
    checked.collect()
}

fn morton(data: &TreeData, node: entities::Node) -> Result<()> {
    let what = data.describe(node);
    let data = &data.nodes[node];
    if !data.kind.format().supports_morton() {
        return Err(Error::new(
            "W0122",
            format!("{what} has no cells that can be put along a Z-curve"),
        )
        .help("`morton` follows `dense`, `bitmasked` or `pointer`"));
    }
    if let Some((axis, extent)) = data.extents.iter().find(|e| !e.1.is_power_of_two()) {
        return Err(Error::new(
            "W0122",
            format!("{what} is put along a Z-curve, but has extent {extent} along `{axis}`"),
        )
        .help("a Z-curve needs extents that are powers of two"));
    }
    let bits: u32 = data.extents.iter().map(|e| e.1.trailing_zeros()).sum();
    if bits > MORTON_BITS {
        return Err(
            Error::new("W0122", format!("{what} has too many cells for a Z-curve"))
                .help("make the extents smaller"),
        );
    }
    Ok(())
}
