//! Finds the active cells of a node, and writes their entries.

use crate::nodes::Services;
use crate::nodes::cell_order::descend;
use crate::nodes::kinds::level_functions;
use crate::nodes::level::{At, LevelFunctions, ScanSource, ScannedWord};
use crate::nodes::words::*;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Node, Tree, Value};
use wuji_ir::layout::{Axis, ListEntry, NodeData, TreeData, header};
use wuji_ir::module::{Env, Values};
use wuji_ir::ops::*;
use wuji_ir::types::{I64, Scalar};

/// Words that are tested together, as one mask.
const GROUP: u64 = 64;

/// An entry of a list.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) offset: Value,
    /// Mask or count.
    pub(crate) extra: Value,
    /// Number of the first cell in its container.
    pub(crate) first: Value,
    /// One per axis on the path to the node, in the order of the axes.
    pub(crate) coords: Vec<Value>,
}

/// What a visit of a unit's entries computes. A number is carried from one entry to the next.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Visit {
    /// The number of entries so far.
    Count,
    /// The position of the next entry in the list.
    Write,
    /// Nothing: each entry claims its own position.
    Claim,
}

/// Finds the active cells of one node.
pub(crate) struct Scan {
    s: Services,
    at: At,
    data: TreeData,
    /// The sparse node above, whose list is complete.
    above: Option<Node>,
    /// Pointers or words that a unit reads.
    block: u64,
    level: &'static dyn LevelFunctions,
}

impl Scan {
    pub(super) fn new(
        m: &Env,
        s: Services,
        (tree, node): At,
        above: Option<Node>,
        block: u64,
    ) -> Scan {
        let data = m.trees[tree].clone();
        Scan {
            s,
            at: (tree, node),
            level: level_functions(data.nodes[node].kind),
            data,
            above,
            block,
        }
    }

    pub(crate) fn at(&self) -> At {
        self.at
    }

    pub(crate) fn data(&self) -> &NodeData {
        &self.data.nodes[self.at.1]
    }

    /// All axes on the path to the node.
    pub(crate) fn axes(&self) -> Vec<Axis> {
        self.data.axes(self.at.1)
    }

    pub(crate) fn services(&self) -> &Services {
        &self.s
    }

    /// Pointers or words that a unit reads.
    pub(crate) fn block(&self) -> u64 {
        self.block
    }

    pub(super) fn source(&self) -> ScanSource {
        self.level.scan_source(self.data())
    }

    /// Turns the coordinates of a container into those of one of its cells.
    pub(crate) fn descend(&self, b: &mut Builder, number: Value, coords: &mut [Value]) {
        descend(b, self.data(), &self.axes(), number, coords);
    }

    /// Coordinates with another one along the node's list.
    pub(crate) fn along_list(&self, coords: &[Value], number: Value) -> Vec<Value> {
        along_list(&self.data, self.at.1, coords, number)
    }

    /// The dense nodes between the sparse node above and this one.
    fn between(&self) -> Vec<Node> {
        let path = self.data.path(self.at.1);
        let start = match self.above {
            Some(above) => path.iter().position(|n| *n == above).map_or(0, |k| k + 1),
            None => 1,
        };
        path[start..path.len() - 1].to_vec()
    }

    /// Pointers or words that are read below one cell of the node above.
    pub(super) fn slots(&self) -> u64 {
        let dense = self.between();
        let dense = dense
            .iter()
            .fold(1u64, |n, d| n.saturating_mul(self.data.nodes[*d].cells()));
        dense.saturating_mul(self.source().slots())
    }

    /// Visits the entries of one unit.
    pub(super) fn unit(
        &self,
        b: &mut Builder,
        unit: Value,
        (count, visit): (Value, Visit),
    ) -> Value {
        if self.source() == ScanSource::Arena {
            return self.level.scan_arena(self, b, unit, (count, visit));
        }
        let tree = self.at.0;
        let blocks = self.slots().div_ceil(self.block);
        let Some(above) = self.above else {
            let root = self.s.memory[tree].node_offset[self.data.root()];
            let root = b.i64(root as i64);
            return self.cell(b, (root, &[]), unit, (count, visit));
        };
        let (entry, block) = divide(b, unit, blocks);
        let words = self.s.entry(b, tree, above, entry);
        let (offset, extra, first) = (words[0], words[1], words[2]);
        let coords = words[3..].to_vec();
        let data = &self.data.nodes[above];
        let cell = self.s.memory[tree].cell_size[above];
        match data.kind.format().list_entry() {
            ListEntry::Cell => self.cell(b, (offset, &coords), block, (count, visit)),
            ListEntry::Chunk { .. } => fold_to(b, extra, count, |b, k, count| {
                let bytes = times(b, k, cell as i64);
                let at = b.binary(BinOp::Add, offset, bytes);
                let number = b.binary(BinOp::Add, first, k);
                let coords = along_list(&self.data, above, &coords, number);
                self.cell(b, (at, &coords), block, (count, visit))
            }),
            ListEntry::MaskWord => {
                let all = b.i64(64);
                let axes = self.data.axes(above);
                fold_to(b, all, count, |b, k, count| {
                    let shifted = b.binary(BinOp::Shr, extra, k);
                    let one = b.i64(1);
                    let bit = b.binary(BinOp::And, shifted, one);
                    let set = not_zero(b, bit);
                    choose(
                        b,
                        set,
                        |b| {
                            let number = b.binary(BinOp::Add, first, k);
                            let level = level_functions(data.kind);
                            let at = level.cell_offset(&self.s, b, (tree, above), offset, number);
                            let mut coords = coords.clone();
                            descend(b, data, &axes, number, &mut coords);
                            self.cell(b, (at, &coords), block, (count, visit))
                        },
                        |_| count,
                    )
                })
            }
        }
    }

    /// One block of the slots below a cell of the node above.
    fn cell(
        &self,
        b: &mut Builder,
        cell: (Value, &[Value]),
        block: Value,
        (count, visit): (Value, Visit),
    ) -> Value {
        let own = self.source().slots();
        if self.in_groups() {
            return self.groups(b, cell, block, (count, visit));
        }
        if self.block == 1 {
            let (dense, slot) = divide(b, block, own);
            let (container, coords) = self.container(b, cell, dense);
            return self.slot(b, (container, &coords), slot, (count, visit));
        }
        let first = times(b, block, self.block as i64);
        let total = b.i64(self.slots() as i64);
        let left = b.binary(BinOp::Sub, total, first);
        let most = b.i64(self.block as i64);
        let in_block = b.binary(BinOp::Min, left, most);
        fold_to(b, in_block, count, |b, k, count| {
            let slot = b.binary(BinOp::Add, first, k);
            let (dense, slot) = divide(b, slot, own);
            let (container, coords) = self.container(b, cell, dense);
            self.slot(b, (container, &coords), slot, (count, visit))
        })
    }

    /// Whether words can be tested in groups of 64 that do not reach into another container.
    fn in_groups(&self) -> bool {
        match self.source() {
            ScanSource::Words(own) => {
                self.block.is_multiple_of(GROUP)
                    && (own.is_multiple_of(GROUP) || own == self.slots())
            }
            ScanSource::Containers | ScanSource::Arena => false,
        }
    }

    /// As `cell`, a group of words at a time: a vectorized loop without branches turns the words that are not zero into a
    /// mask; then there is one step for each bit.
    fn groups(
        &self,
        b: &mut Builder,
        cell: (Value, &[Value]),
        block: Value,
        (count, visit): (Value, Visit),
    ) -> Value {
        let tree = self.at.0;
        let (total, own) = (self.slots(), self.source().slots());
        let first = times(b, block, self.block as i64);
        let groups = if total.is_multiple_of(self.block) {
            b.i64((self.block / GROUP) as i64)
        } else {
            let last = b.i64(total.div_ceil(GROUP) as i64);
            let before = times(b, block, (self.block / GROUP) as i64);
            let left = b.binary(BinOp::Sub, last, before);
            let most = b.i64((self.block / GROUP) as i64);
            b.binary(BinOp::Min, left, most)
        };
        fold_to(b, groups, count, |b, group, count| {
            let before = times(b, group, GROUP as i64);
            let joint = b.binary(BinOp::Add, first, before);
            let (dense, slot) = divide(b, joint, own);
            let (container, coords) = self.container(b, cell, dense);
            let most = b.i64(GROUP as i64);
            let in_group = if total.is_multiple_of(GROUP) {
                most
            } else {
                let total = b.i64(total as i64);
                let left = b.binary(BinOp::Sub, total, joint);
                b.binary(BinOp::Min, left, most)
            };
            let words = word_at(b, container, slot);
            let zero = b.i64(0);
            let filled = fold_to(b, in_group, zero, |b, k, filled| {
                let at = word_at(b, words, k);
                // No task modifies the tree while lists are made, so several words may be loaded together.
                let found = b.value(Op::MemLoad(Space::Bytes(tree), I64), &[at]);
                let there = not_zero(b, found);
                let bit = b.convert(there, Scalar::I64);
                match visit {
                    Visit::Count => b.binary(BinOp::Add, filled, bit),
                    Visit::Write | Visit::Claim => {
                        let bit = b.binary(BinOp::Shl, bit, k);
                        b.binary(BinOp::Or, filled, bit)
                    }
                }
            });
            match visit {
                Visit::Count => b.binary(BinOp::Add, count, filled),
                Visit::Write | Visit::Claim => each_bit(b, filled, count, |b, bit, count| {
                    let slot = b.binary(BinOp::Add, slot, bit);
                    let at = word_at(b, container, slot);
                    let found = load(b, tree, at);
                    self.word(b, (container, &coords), (slot, found), (count, visit))
                }),
            }
        })
    }

    /// From a cell of the node above, through the dense cell with the given joint number, to the start of this
    /// node; and its coordinates, one per axis on the path to this node.
    fn container(
        &self,
        b: &mut Builder,
        (cell, above_coords): (Value, &[Value]),
        dense: Value,
    ) -> (Value, Vec<Value>) {
        let memory = &self.s.memory[self.at.0];
        let axes = self.axes();
        let above_axes = match self.above {
            Some(above) => self.data.axes(above),
            None => Vec::new(),
        };
        let zero = b.i64(0);
        let mut coords: Vec<Value> = axes
            .iter()
            .map(|a| {
                let at = above_axes.iter().position(|x| x == a);
                at.map_or(zero, |k| above_coords[k])
            })
            .collect();
        let between = self.between();
        let mut offset = cell;
        let mut rest = dense;
        for (k, node) in between.iter().enumerate() {
            let below: u64 = between[k + 1..]
                .iter()
                .map(|n| self.data.nodes[*n].cells())
                .product();
            let (number, low) = divide(b, rest, below);
            rest = low;
            offset = plus(b, offset, memory.node_offset[*node] as i64);
            let level = level_functions(self.data.nodes[*node].kind);
            offset = level.cell_offset(&self.s, b, (self.at.0, *node), offset, number);
            descend(b, &self.data.nodes[*node], &axes, number, &mut coords);
        }
        (
            plus(b, offset, memory.node_offset[self.at.1] as i64),
            coords,
        )
    }

    /// One pointer or word, or one container.
    fn slot(
        &self,
        b: &mut Builder,
        container: (Value, &[Value]),
        slot: Value,
        (count, visit): (Value, Visit),
    ) -> Value {
        match self.source() {
            ScanSource::Arena => count,
            ScanSource::Containers => self
                .level
                .scan_container(self, b, container, (count, visit)),
            ScanSource::Words(_) => {
                let at = word_at(b, container.0, slot);
                let found = load(b, self.at.0, at);
                let there = not_zero(b, found);
                choose(
                    b,
                    there,
                    |b| self.word(b, container, (slot, found), (count, visit)),
                    |_| count,
                )
            }
        }
    }

    /// A word that is not zero.
    fn word(
        &self,
        b: &mut Builder,
        (container, coords): (Value, &[Value]),
        (number, found): (Value, Value),
        (count, visit): (Value, Visit),
    ) -> Value {
        let word = ScannedWord {
            container,
            coords,
            number,
            found,
        };
        let entry = self.level.word_entry(self, b, word);
        self.visit(b, visit, &entry, count)
    }

    pub(crate) fn visit(
        &self,
        b: &mut Builder,
        visit: Visit,
        entry: &Entry,
        count: Value,
    ) -> Value {
        match visit {
            Visit::Count => plus(b, count, 1),
            Visit::Write => {
                self.write(b, count, entry);
                plus(b, count, 1)
            }
            Visit::Claim => {
                let (tree, node) = self.at;
                let listed = self.s.node(tree, node).header + header::LISTED;
                let one = b.i64(1);
                let number = add_at(b, tree, listed, one);
                self.write(b, number, entry);
                count
            }
        }
    }

    fn write(&self, b: &mut Builder, number: Value, entry: &Entry) {
        let (tree, node) = self.at;
        let list = &self.s.node(tree, node).list;
        let words = times(b, number, list.words as i64);
        let at = word(b, list.entries, words);
        let all = [entry.offset, entry.extra, entry.first];
        for (k, v) in all.iter().chain(&entry.coords).enumerate() {
            let at = plus(b, at, 8 * k as i64);
            store(b, tree, at, *v);
        }
    }
}

/// Coordinates of a node that is a list, with another one along the list.
fn along_list(data: &TreeData, node: Node, coords: &[Value], number: Value) -> Vec<Value> {
    let list = data.list_axis(node);
    let axes = data.axes(node);
    let pairs = axes.iter().zip(coords);
    pairs
        .map(|(a, c)| if list == Some(*a) { number } else { *c })
        .collect()
}

impl Services {
    /// The words of an entry of a node's list.
    pub(in crate::nodes) fn entry(
        &self,
        b: &mut Builder,
        tree: Tree,
        node: Node,
        number: Value,
    ) -> Values {
        let list = &self.node(tree, node).list;
        let words = times(b, number, list.words as i64);
        let at = word(b, list.entries, words);
        (0..list.words)
            .map(|k| {
                let at = plus(b, at, 8 * k as i64);
                load(b, tree, at)
            })
            .collect()
    }
}
