//! Records: what is stored next to each cell of a hash node, and the keys of cells.

use crate::nodes::Services;
use crate::nodes::level::At;
use crate::nodes::words::*;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Tree, Value};
use wuji_ir::layout::{Arena, PathInfo, record};
use wuji_ir::module::Env;
use wuji_ir::ops::*;

/// What identifies a cell of a hash node.
#[derive(Clone, Debug)]
pub(super) struct Key {
    /// The generation of its container, where containers have one.
    pub(super) generation: Option<Value>,
    /// In the tree, in the order of the axes on the path.
    pub(super) coords: Vec<Value>,
}

/// The records of a hash node.
#[derive(Clone, Debug)]
pub(super) struct Records {
    pub(super) tree: Tree,
    pub(super) arena: Arena,
    pub(super) path: PathInfo,
    /// The coordinates that are compared: all, or those that cells of one container differ in.
    compared: Vec<usize>,
}

impl Records {
    pub(super) fn of(s: &Services, m: &Env, (tree, node): At) -> Records {
        let data = &m.trees[tree];
        let path = data.path_info(node);
        let own = |axis| data.nodes[node].extents.iter().any(|e| e.0 == axis);
        let axes = data.axes(node).into_iter().enumerate();
        let compared = axes.filter(|(_, axis)| !path.below_sparse || own(*axis));
        Records {
            tree,
            arena: s.arena(tree, node),
            path,
            compared: compared.map(|(k, _)| k).collect(),
        }
    }

    /// Splits the operands of a tree access: the container, if it has a generation, and the coordinates.
    pub(super) fn operands<'a>(&self, operands: &'a [Value]) -> (Option<Value>, &'a [Value]) {
        match operands.split_first() {
            Some((container, coords)) if self.path.below_sparse => (Some(*container), coords),
            _ => (None, operands),
        }
    }

    /// Operands of a tree access, and words of a key.
    pub(super) fn operand_count(&self) -> usize {
        usize::from(self.path.below_sparse) + self.path.axes
    }

    /// The key that functions get as their parameters.
    pub(super) fn key(&self, params: &[Value]) -> Key {
        let (generation, coords) = self.operands(params);
        Key {
            generation,
            coords: coords.to_vec(),
        }
    }

    /// The words of a key that distinguish cells.
    pub(super) fn distinct(&self, key: &Key) -> Vec<Value> {
        let coords = self.compared.iter().map(|k| key.coords[*k]);
        key.generation.into_iter().chain(coords).collect()
    }

    /// Offset of the cell with a number.
    pub(super) fn cell(&self, b: &mut Builder, number: Value) -> Value {
        let bytes = times(b, number, self.arena.cell as i64);
        plus(b, bytes, self.arena.data as i64)
    }

    /// Offset of the record with a number.
    pub(super) fn at(&self, b: &mut Builder, number: Value) -> Value {
        let each = record::container(self.path.axes) + u64::from(self.path.below_sparse);
        let words = times(b, number, each as i64);
        word(b, self.arena.records, words)
    }

    /// Offset of the record of a cell.
    pub(super) fn of_cell(&self, b: &mut Builder, cell: Value) -> Value {
        let bytes = plus(b, cell, -(self.arena.data as i64));
        let (number, _) = divide(b, bytes, self.arena.cell);
        self.at(b, number)
    }

    /// The generation of a cell's container, 0 when the cell is inactive.
    pub(super) fn generation(&self, b: &mut Builder, at: Value) -> Value {
        self.load(b, at, record::GENERATION)
    }

    pub(super) fn coordinates(&self, b: &mut Builder, at: Value) -> Vec<Value> {
        let axes = 0..self.path.axes;
        axes.map(|k| self.coordinate(b, at, k)).collect()
    }

    fn coordinate(&self, b: &mut Builder, at: Value, axis: usize) -> Value {
        self.load(b, at, record::COORDINATES + axis as u64)
    }

    /// Where the cell's container is, for containers with generations.
    pub(super) fn container(&self, b: &mut Builder, at: Value) -> Value {
        self.load(b, at, record::container(self.path.axes))
    }

    /// The key of an active cell.
    pub(super) fn read_key(&self, b: &mut Builder, at: Value) -> Key {
        let generation = self.path.below_sparse;
        Key {
            generation: generation.then(|| self.generation(b, at)),
            coords: self.coordinates(b, at),
        }
    }

    /// Makes a cell active. Its generation comes last: then the record is complete.
    pub(super) fn write(&self, b: &mut Builder, at: Value, key: &Key, container: Option<Value>) {
        for (k, c) in key.coords.iter().enumerate() {
            self.store(b, at, record::COORDINATES + k as u64, *c);
        }
        if let Some(container) = container {
            self.store(b, at, record::container(self.path.axes), container);
        }
        let one = b.i64(1);
        let generation = key.generation.unwrap_or(one);
        self.store(b, at, record::GENERATION, generation);
    }

    /// Makes a cell inactive.
    pub(super) fn erase(&self, b: &mut Builder, at: Value) {
        let zero = b.i64(0);
        self.store(b, at, record::GENERATION, zero);
    }

    /// Whether a slot holds the cell with a key.
    pub(super) fn is_same(&self, b: &mut Builder, cell: Value, key: &Key) -> Value {
        let zero = b.i64(0);
        let real = b.compare(CmpOp::Gt, cell, zero);
        // Without a cell, the record of the first one is read; the result is false.
        let first = b.i64(self.arena.data as i64);
        let cell = b.select(real, cell, first);
        let at = self.of_cell(b, cell);
        let mut same = real;
        let mut compare = |b: &mut Builder, stored: Value, wanted: Value| {
            let equal = b.compare(CmpOp::Eq, stored, wanted);
            same = b.binary(BinOp::And, same, equal);
        };
        if let Some(generation) = key.generation {
            let stored = self.generation(b, at);
            compare(b, stored, generation);
        }
        for k in &self.compared {
            let stored = self.coordinate(b, at, *k);
            compare(b, stored, key.coords[*k]);
        }
        same
    }

    fn load(&self, b: &mut Builder, at: Value, word: u64) -> Value {
        let at = plus(b, at, 8 * word as i64);
        load(b, self.tree, at)
    }

    fn store(&self, b: &mut Builder, at: Value, word: u64, value: Value) {
        let at = plus(b, at, 8 * word as i64);
        store(b, self.tree, at, value);
    }
}
