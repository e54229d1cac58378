//! The interface between node kinds and the rest of the compiler.

use super::lists::{Entry, Scan, Visit};
use super::words::*;
use super::{Service, Services};
use crate::analysis::affine::Affine;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Func, Node, Tree, Value};
use wuji_ir::layout::NodeData;
use wuji_ir::module::{Env, Values};
use wuji_ir::ops::BinOp;

/// A node of a tree.
pub(crate) type At = (Tree, Node);

/// The level functions of a node kind: the code that is emitted for one node of this kind.
///
/// The verifier has checked that the kind has an operation (`LevelFormat::operands`); the defaults are for kinds that do not
/// have it. They emit nothing.
pub(crate) trait LevelFunctions: Sync {
    // ---- address steps ----

    /// From the start of the node to one of its cells.
    fn step(&self, path: &mut dyn PathStep);

    /// The operands that deactivate the cell of `path`.
    fn drop_operands(&self, path: &mut dyn PathStep) -> Vec<Value> {
        let number = path.number();
        let container = path.container();
        vec![path.materialize(&container), path.materialize(&number)]
    }

    /// Where a cell lies, for kinds whose cells are in their container. A kind with inherited activity must not override it:
    /// the host computes addresses of dense fields itself.
    fn cell_offset(
        &self,
        s: &Services,
        b: &mut Builder,
        (tree, node): At,
        container: Value,
        number: Value,
    ) -> Value {
        let bytes = times(b, number, s.memory[tree].cell_size[node] as i64);
        let cell = b.binary(BinOp::Add, container, bytes);
        plus(b, cell, s.memory[tree].first_cell[node] as i64)
    }

    // ---- operations on cells ----

    /// `TreeAccessOp::Find`.
    fn find(&self, s: &mut Services, b: &mut Builder, at: At, operands: &[Value]) -> Value {
        let _ = (s, at, operands);
        b.i64(0)
    }

    /// `TreeAccessOp::Ensure`.
    fn ensure(&self, s: &mut Services, b: &mut Builder, at: At, operands: &[Value]) -> Value {
        let _ = (s, at, operands);
        b.i64(0)
    }

    /// `TreeAccessOp::Test`.
    fn test(&self, b: &mut Builder, at: At, container: Value, number: Value) -> Value {
        let _ = (at, container, number);
        b.bool(true)
    }

    /// `TreeAccessOp::Touch` on a cell that is inactive, in a container that exists.
    fn touch(&self, s: &mut Services, b: &mut Builder, at: At, container: Value, number: Value) {
        let _ = (s, b, at, container, number);
    }

    /// The function for `TreeAccessOp::Drop`.
    fn drop_function(&self, s: &mut Services, m: &mut Env, at: At, operands: usize) -> Func {
        let (tree, node) = at;
        s.function(m, (Service::Drop, tree, node), (operands, 0), |s, b, p| {
            let exists = s.exists(b, tree, p[0]);
            when(b, exists, |b| self.deactivate(s, b, at, p));
            Vec::new()
        })
    }

    /// `TreeAccessOp::Drop` in a container that exists.
    fn deactivate(&self, s: &mut Services, b: &mut Builder, at: At, operands: &[Value]) {
        let _ = (s, b, at, operands);
    }

    /// `TreeAccessOp::Push`.
    fn push(&self, s: &mut Services, b: &mut Builder, at: At, container: Value) -> Values {
        let _ = (s, at, container);
        [b.i64(-1), b.i64(0)].into_iter().collect()
    }

    /// `TreeAccessOp::Length`.
    fn length(&self, b: &mut Builder, at: At, container: Value) -> Value {
        let _ = (at, container);
        b.i64(0)
    }

    // ---- lists of active cells ----

    /// How active cells are found when the list is made.
    fn scan_source(&self, data: &NodeData) -> ScanSource {
        let _ = data;
        ScanSource::Containers
    }

    /// The entry of a word that is not zero, for [`ScanSource::Words`].
    fn word_entry(&self, scan: &Scan, b: &mut Builder, word: ScannedWord<'_>) -> Entry {
        let _ = scan;
        Entry {
            offset: word.found,
            extra: b.i64(1),
            first: word.number,
            coords: word.coords.to_vec(),
        }
    }

    /// Visits the active cells of a container, for [`ScanSource::Containers`]. `count` is passed from entry to entry.
    fn scan_container(
        &self,
        scan: &Scan,
        b: &mut Builder,
        (container, coords): (Value, &[Value]),
        (count, visit): (Value, Visit),
    ) -> Value {
        let _ = (scan, b, container, coords, visit);
        count
    }

    /// Visits the active cells of one unit of the arena, for [`ScanSource::Arena`].
    fn scan_arena(
        &self,
        scan: &Scan,
        b: &mut Builder,
        unit: Value,
        (count, visit): (Value, Visit),
    ) -> Value {
        let _ = (scan, b, unit, visit);
        count
    }

    // ---- collection ----

    /// Deactivates all cells of a container, with everything below them.
    fn clear(&self, s: &mut Services, b: &mut Builder, at: At, container: Value);

    /// How a collection starts if `clear` leaves cells behind; `None` if it deactivates them all.
    fn sweep(&self, s: &mut Services, m: &mut Env, at: At) -> Option<Sweep> {
        let _ = (s, m, at);
        None
    }

    /// Called after deactivated cells were recycled, on a CPU.
    fn after_recycling(&self, s: &mut Services, b: &mut Builder, at: At) {
        let _ = (s, b, at);
    }
}

/// The steps that deactivate the cells of cleared containers.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Sweep {
    /// `()`: stores the number of cells to visit in the temp of collections.
    pub(crate) size: Func,
    /// `(begin, end)`: visits some of them.
    pub(crate) sweep: Func,
}

/// The memory that a scan for active cells reads.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum ScanSource {
    /// This many words at the start of each container. A word is zero if none of its cells is active.
    Words(u64),
    /// Each container as a whole.
    Containers,
    /// All cells that were ever allocated, wherever their containers are.
    Arena,
}

impl ScanSource {
    /// Words, or containers, that are read per container.
    pub(super) fn slots(self) -> u64 {
        match self {
            ScanSource::Words(count) => count,
            ScanSource::Containers => 1,
            ScanSource::Arena => 0,
        }
    }
}

/// A word that a scan has read.
#[derive(Copy, Clone, Debug)]
pub(crate) struct ScannedWord<'a> {
    /// Offset of the container.
    pub(crate) container: Value,
    /// Of the container: one per axis on the path to the node.
    pub(crate) coords: &'a [Value],
    /// Number of the word in the container.
    pub(crate) number: Value,
    pub(crate) found: Value,
}

/// One step of the path from the root to a leaf, during access lowering.
pub(crate) trait PathStep {
    fn data(&self) -> &NodeData;

    /// Offset of the node in the tree, where the step starts.
    fn container(&self) -> Affine;

    /// Offset of the first cell in the container.
    fn first_cell(&self) -> i64;

    /// The number of the cell in its container. Consumes this node's part of the indices.
    fn number(&mut self) -> Affine;

    /// The coordinates of the cell in the tree, one per axis on the path, in their order. Consumes this node's part of the
    /// indices, too.
    fn tree_coordinates(&mut self) -> Vec<Affine>;

    /// Whether a node above is sparse.
    fn below_sparse(&self) -> bool;

    fn divide(&mut self, a: &Affine, by: u64) -> (Affine, Affine);

    fn materialize(&mut self, a: &Affine) -> Value;

    /// Goes to an allocated cell, or to an allocation of several: finds it, or allocates it if the access activates.
    fn find(&mut self, operands: &[Value]);

    /// Tests whether a cell of a container is active, or activates it, as the access requires.
    fn test_or_touch(&mut self, container: &Affine, number: &Affine);

    /// Advances by `bytes` and this many cells.
    fn advance(&mut self, cells: &Affine, bytes: i64);
}
