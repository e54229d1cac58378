//! Copies of sparse trees: which cells are active, and what is in them.

use crate::autodiff::Extent;
use crate::autodiff::saves::merge;
use crate::host::{ActiveCells, CellPart, FieldHandle};
use crate::layout::TreeInner;
use crate::services::{Service, Subject};
use std::cmp::Ordering;
use std::sync::Arc;
use wuji_ir::entities::{Field, Node};
use wuji_ir::{Error, Result};
use wuji_runtime::array::ArrayArg;

/// The active cells of a tree at some time, with the values of its fields.
pub(crate) struct TreeCopy {
    nodes: Vec<NodeCells>,
    fields: Vec<(Field, ActiveCells)>,
}

/// The active cells of a sparse node.
pub(crate) struct NodeCells {
    pub(crate) node: Node,
    pub(crate) rank: usize,
    pub(crate) rows: usize,
    /// Those of one cell after the other.
    pub(crate) coordinates: Vec<u64>,
}

/// The elements of a tree that are active when a tape begins, of each field that is a gradient. Other elements have no first value,
/// so there is no derivative with respect to it.
#[derive(Default)]
pub(crate) struct First(Vec<(Field, Arc<Vec<i32>>)>);

impl First {
    pub(crate) fn of(tree: &Arc<TreeInner>) -> Result<First> {
        let gradients = tree.gradients().into_iter();
        let found = gradients.map(|field| {
            let cells = active(&handle(tree, field), false)?;
            Ok((field, cells.coordinates))
        });
        Ok(First(found.collect::<Result<_>>()?))
    }
}

fn handle(tree: &Arc<TreeInner>, field: Field) -> FieldHandle {
    FieldHandle {
        tree: tree.clone(),
        field,
    }
}

/// The fields of a tree with memory of their own: no views of cells, words instead of what is packed in them, and components instead of
/// what is split.
fn fields(tree: &Arc<TreeInner>) -> Result<Vec<Field>> {
    let fields = tree.body()?.shape.fields.iter().enumerate();
    let fields = fields.filter(|(_, f)| !f.view && f.packing.is_none() && f.components.is_empty());
    Ok(fields.map(|(n, _)| Field::from_u32(n as u32)).collect())
}

/// Elements of a field that are active, with their values or without.
pub(crate) fn active(field: &FieldHandle, values: bool) -> Result<ActiveCells> {
    let size = if values { field.size()? } else { 0 };
    let access = field.access()?;
    access.export_cells(access.domain().len(), size)
}

/// The same, of one part of the elements, which has about `room` of them.
pub(crate) fn active_part(
    field: &FieldHandle,
    values: bool,
    part: CellPart,
    room: u64,
) -> Result<ActiveCells> {
    let size = if values { field.size()? } else { 0 };
    let access = field.access()?;
    access.export_part(part, room, (access.domain().len(), size))
}

impl TreeCopy {
    /// Bytes of a copy, or about as many.
    pub(crate) fn bytes_of(tree: &Arc<TreeInner>, skipped: &[Field]) -> Result<u64> {
        let mut bytes = 0u64;
        for field in fields(tree)?.into_iter().filter(|f| !skipped.contains(f)) {
            let field = handle(tree, field);
            let (access, size) = (field.access()?, field.size()?);
            let rank = access.domain().len() as u64;
            let own = access.count()?.saturating_mul(size as u64 + 4 * rank);
            bytes = bytes.saturating_add(own);
        }
        Ok(bytes)
    }

    /// Copies all fields but some.
    pub(crate) fn take(tree: &Arc<TreeInner>, skipped: &[Field]) -> Result<TreeCopy> {
        let shape = &tree.body()?.shape.data;
        let sparse = shape.nodes.iter().filter(|(_, n)| n.kind.is_sparse());
        let nodes = sparse.map(|(node, _)| NodeCells::of(tree, node, shape.axes(node).len()));
        let nodes = nodes.collect::<Result<_>>()?;
        let mut copies: Vec<(Field, ActiveCells)> = Vec::new();
        for field in fields(tree)?.into_iter().filter(|f| !skipped.contains(f)) {
            let mut cells = active(&handle(tree, field), true)?;
            // Fields of the same cells share their coordinates.
            let same = copies
                .iter()
                .find(|(_, c)| c.coordinates == cells.coordinates);
            if let Some((_, known)) = same {
                cells.coordinates = known.coordinates.clone();
            }
            copies.push((field, cells));
        }
        Ok(TreeCopy {
            nodes,
            fields: copies,
        })
    }

    /// Makes the tree what it was. The fields that were not copied keep their values where their elements are active still.
    /// With `first`, it is an error if one of its gradients is lost.
    pub(crate) fn restore(&self, tree: &Arc<TreeInner>, first: Option<&First>) -> Result<()> {
        let own = |field: &Field| self.fields.iter().any(|(f, _)| f == field);
        let mut kept = Vec::new();
        for field in fields(tree)?.into_iter().filter(|f| !own(f)) {
            kept.push((field, active(&handle(tree, field), true)?));
        }
        tree.world.run_pending()?;
        tree.body()?.memory.lock()?.clear()?;
        for node in &self.nodes {
            node.activate(tree)?;
        }
        for (field, cells) in self.fields.iter().chain(&kept) {
            import(&handle(tree, *field), cells)?;
        }
        for (field, first) in first.iter().flat_map(|f| &f.0) {
            if let Some((_, cells)) = kept.iter().find(|(f, _)| f == field) {
                check_loss(&handle(tree, *field), cells, first)?;
            }
        }
        Ok(())
    }

    /// Gives one field the values that it had, where its elements are active. If it is packed, those that share its exponent get theirs, too.
    pub(crate) fn restore_field(&self, field: &FieldHandle) -> Result<()> {
        let shape = &field.tree.body()?.shape;
        let packed = shape.rounded_together(field.field);
        if !packed.is_empty() {
            let mut words = shape.own_bits(&packed).into_iter();
            return words.try_for_each(|(word, bits)| {
                let word = handle(&field.tree, word);
                restore_bits(&word, self.cells_of(&word), bits)
            });
        }
        field.clear()?;
        self.cells_of(field)
            .map_or(Ok(()), |cells| import(field, cells))
    }

    fn cells_of(&self, field: &FieldHandle) -> Option<&ActiveCells> {
        let found = self.fields.iter().find(|(f, _)| *f == field.field);
        found.map(|(_, cells)| cells)
    }
}

/// Gives some bits of active words the values that they had. Those of cells that were not active become zero.
pub(crate) fn restore_bits(
    word: &FieldHandle,
    then: Option<&ActiveCells>,
    mask: u64,
) -> Result<()> {
    let mut now = active(word, true)?;
    let (rank, size) = (word.domain()?.len(), word.size()?);
    let bytes_of = |cells: &ActiveCells| -> Vec<u8> {
        cells.values.iter().flat_map(|w| w.to_ne_bytes()).collect()
    };
    let old = then.map(bytes_of).unwrap_or_default();
    let mut rows = (then
        .iter()
        .flat_map(|c| c.coordinates.chunks_exact(rank.max(1))))
    .zip(old.chunks_exact(size))
    .peekable();
    let mut new = bytes_of(&now);
    let zero = vec![0; size];
    // Both are sorted.
    for (at, own) in (now.coordinates.chunks_exact(rank.max(1))).zip(new.chunks_exact_mut(size)) {
        while rows.next_if(|row| row.0 < at).is_some() {}
        let from = rows
            .next_if(|row| row.0 == at)
            .map_or(&zero[..], |row| row.1);
        merge(own, from, mask);
    }
    let words = now.values.iter_mut().zip(new.as_chunks().0);
    words.for_each(|(word, chunk)| *word = u64::from_ne_bytes(*chunk));
    import(word, &now)
}

pub(crate) fn import(field: &FieldHandle, cells: &ActiveCells) -> Result<()> {
    field.access()?.import_active(cells, field.size()?)
}

impl NodeCells {
    pub(crate) fn of(tree: &Arc<TreeInner>, node: Node, rank: usize) -> Result<NodeCells> {
        let room = NodeCells::count(tree, node)?;
        NodeCells::list(tree, (node, rank), None, room)
    }

    /// How many cells are active.
    pub(crate) fn count(tree: &Arc<TreeInner>, node: Node) -> Result<u64> {
        let found = tree.serve(Subject::Node(node), Service::Count, &[], &[])?;
        Ok(found.first().copied().unwrap_or(0))
    }

    /// One part of the cells, which has about `room` of them; all cells if there is none.
    pub(crate) fn list(
        tree: &Arc<TreeInner>,
        (node, rank): (Node, usize),
        part: Option<CellPart>,
        mut room: u64,
    ) -> Result<NodeCells> {
        let (service, params) = match part {
            Some(part) => (Service::ListCellsPart, part.params().to_vec()),
            None => (Service::ListCells, Vec::new()),
        };
        loop {
            let rows = room as usize;
            let mut coordinates = Vec::new();
            let words = rows.checked_mul(rank.max(1));
            if words.is_none_or(|n| coordinates.try_reserve_exact(n).is_err()) {
                let what = format!("no memory for the coordinates of {rows} cells");
                return Err(Error::new("W0110", what));
            }
            coordinates.resize(words.unwrap_or(0), 0);
            let array = ArrayArg::opaque(&mut coordinates, 8, &[rows, rank], true)?;
            let found = tree.serve(Subject::Node(node), service, &params, &[array])?;
            let found = found.first().copied().unwrap_or(0);
            // Another thread may have activated more cells since they were counted.
            if found > room {
                room = found;
                continue;
            }
            coordinates.truncate(found as usize * rank);
            return Ok(NodeCells {
                node,
                rank,
                rows: found as usize,
                coordinates,
            });
        }
    }

    pub(crate) fn activate(&self, tree: &Arc<TreeInner>) -> Result<()> {
        let mut coordinates = self.coordinates.clone();
        let array = ArrayArg::opaque(&mut coordinates, 8, &[self.rows, self.rank], false)?;
        let subject = Subject::Node(self.node);
        let done = tree.serve(subject, Service::ActivateCells, &[], &[array]);
        done.map(|_| ())
    }
}

/// An error if values other than zero were in some of the first elements, which are not active now.
fn check_loss(field: &FieldHandle, before: &ActiveCells, first: &[i32]) -> Result<()> {
    let rank = field.domain()?.len();
    let now = active(field, false)?;
    let size = field.size()?;
    let bytes: Vec<u8> = before.values.iter().flat_map(|w| w.to_ne_bytes()).collect();
    let new = missing(&before.coordinates, first, rank);
    let lost = missing(&before.coordinates, &now.coordinates, rank);
    let mut lost = lost
        .into_iter()
        .filter(|row| new.binary_search(row).is_err());
    let lost = lost.find(|row| bytes[row * size..(row + 1) * size].iter().any(|b| *b != 0));
    let Some(row) = lost else {
        return Ok(());
    };
    let at = &before.coordinates[row * rank..(row + 1) * rank];
    let what = format!(
        "the gradient at {at:?} is lost: field `{}` is in a cell that is not active any more",
        field.name()
    );
    Err(Error::new("W0741", what)
        .note("a gradient that `lazy_grad` places lives in the cells of its field, and the tape has deactivated the cell")
        .help("use `x.needs_grad()?`: then the gradient has a tree of its own"))
}

/// The numbers of the rows of sorted coordinates that another one does not have.
fn missing(before: &[i32], after: &[i32], rank: usize) -> Vec<usize> {
    if rank == 0 {
        return Vec::new();
    }
    let mut rest = after.chunks_exact(rank).peekable();
    let mut missing = Vec::new();
    for (n, row) in before.chunks_exact(rank).enumerate() {
        while rest.next_if(|r| (*r).cmp(row) == Ordering::Less).is_some() {}
        if rest.peek() != Some(&row) {
            missing.push(n);
        }
    }
    missing
}

/// Elements that a launch, or the host, has deactivated: their adjoints end there.
pub(crate) struct Deactivated {
    pub(crate) field: FieldHandle,
    before: Arc<Vec<i32>>,
    /// Those that are active no more; all of them without.
    rows: Option<Vec<i32>>,
}

impl Deactivated {
    /// A field before cells of its tree are deactivated.
    pub(crate) fn before(field: &FieldHandle) -> Result<Deactivated> {
        Ok(Deactivated {
            field: field.clone(),
            before: active(field, false)?.coordinates,
            rows: None,
        })
    }

    /// The same coordinates as others are stored once.
    pub(crate) fn share(&mut self, others: &[Deactivated]) {
        if let Some(same) = others.iter().find(|o| o.before == self.before) {
            self.before = same.before.clone();
        }
    }

    /// After that: whether there are such elements.
    pub(crate) fn after(&mut self) -> Result<bool> {
        let rank = self.field.domain()?.len();
        let now = active(&self.field, false)?.coordinates;
        let missing = missing(&self.before, &now, rank);
        let any = !missing.is_empty();
        if missing.len() * rank < self.before.len() {
            let rows = missing.iter().map(|n| &self.before[n * rank..][..rank]);
            self.rows = Some(rows.flatten().copied().collect());
            self.before = Arc::default();
        }
        Ok(any)
    }

    /// Makes the tangents of the elements zero, where they are active.
    pub(crate) fn end_tangents(&self, tangent: &FieldHandle) -> Result<()> {
        let rank = self.field.domain()?.len().max(1);
        tangent.tree.before_write(tangent.field, Extent::Some)?;
        if tangent.is_dense()? {
            return set_zero(tangent, self.coordinates(), rank);
        }
        let own = self.coordinates();
        let inactive = missing(&own, &active(tangent, false)?.coordinates, rank);
        let rows = own.chunks_exact(rank).enumerate();
        let rows = rows.filter(|(n, _)| inactive.binary_search(n).is_err());
        let rows: Vec<i32> = rows.flat_map(|(_, row)| row).copied().collect();
        set_zero(tangent, Arc::new(rows), rank)
    }

    fn coordinates(&self) -> Arc<Vec<i32>> {
        match &self.rows {
            Some(rows) => Arc::new(rows.clone()),
            None => self.before.clone(),
        }
    }

    /// Makes the adjoints of the elements zero.
    pub(crate) fn end_adjoints(&self, adjoint: &FieldHandle) -> Result<()> {
        let rank = self.field.domain()?.len().max(1);
        set_zero(adjoint, self.coordinates(), rank)
    }
}

/// Makes elements at some coordinates zero.
fn set_zero(field: &FieldHandle, coordinates: Arc<Vec<i32>>, rank: usize) -> Result<()> {
    let rows = coordinates.len() / rank;
    if rows == 0 {
        return Ok(());
    }
    let size = field.size()?;
    let cells = ActiveCells {
        rows,
        coordinates,
        values: vec![0; (rows * size).div_ceil(8)],
    };
    import(field, &cells)
}

#[cfg(test)]
mod tests {
    use super::missing;

    #[test]
    fn rows_are_compared_in_order() {
        let before = [0, 1, 0, 5, 2, 0, 3, 3];
        assert_eq!(missing(&before, &[0, 1, 2, 0, 9, 9], 2), [1, 3]);
        assert_eq!(missing(&before, &[], 2), [0, 1, 2, 3]);
        assert_eq!(missing(&before, &before, 2), [0usize; 0]);
    }
}
