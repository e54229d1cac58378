//! The hash-consed DAG of a trace.
//!
//! Nodes are columns: an operation and two operands, 9 bytes. A hash table of ids makes equal nodes one node. Operands have smaller
//! ids than their node, so a loop over the ids visits operands first, and every analysis is a loop.

use crate::op::{Binary, Compare, Logic, Op, Unary};

/// The number of a node.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Id(pub u32);

impl Id {
    pub(crate) fn at(self) -> usize {
        self.0 as usize
    }
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "n{}", self.0)
    }
}

/// A node as its readers see it.
#[derive(Copy, Clone, PartialEq, Debug)]
pub enum Node {
    /// A constant.
    Const(f64),
    /// An element of an input.
    Input {
        /// The number of the input.
        array: u32,
        /// The number of its element.
        index: u32,
    },
    /// A function of one number.
    Unary(Unary, Id),
    /// The negation of a condition.
    Not(Id),
    /// An operation on two numbers.
    Binary(Binary, Id, Id),
    /// A comparison.
    Compare(Compare, Id, Id),
    /// An operation on two conditions.
    Logic(Logic, Id, Id),
    /// Condition, value where it holds, value where it does not.
    Select(Id, Id, Id),
    /// The values of a `Select`, which knows them.
    Pair(Id, Id),
}

/// More nodes have no numbers.
const MOST: usize = u32::MAX as usize;

/// A hash-consed DAG.
#[derive(Clone, Debug, Default)]
pub struct Arena {
    /// Codes of operations.
    ops: Vec<u8>,
    a: Vec<u32>,
    b: Vec<u32>,
    /// Ids by the hash of their node, with linear probing. At most four fifths full.
    table: Vec<u32>,
    /// A few bits of the hash of each id in the table; 0 for none. Most other nodes are rejected without loading them.
    tags: Vec<u8>,
    /// There was no memory, or there were more nodes than ids.
    full: bool,
}

/// Mixes the bits of a number.
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The bits of a hash that do not select the slot.
fn tag(hash: u64) -> u8 {
    hash as u8 | 1
}

fn key(op: u8, a: u32, b: u32) -> u64 {
    let operands = u64::from(a) << 32 | u64::from(b);
    mix(mix(operands).wrapping_add((u64::from(op) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

impl Arena {
    /// The number of nodes.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Bytes of the nodes and their table.
    pub fn bytes(&self) -> usize {
        let table = self.tags.capacity() + 4 * self.table.capacity();
        self.ops.capacity() + 4 * (self.a.capacity() + self.b.capacity()) + table
    }

    /// Whether nodes were dropped, because there was no memory or no id for them.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// The operation of a node.
    pub fn op(&self, id: Id) -> Op {
        Op::ALL[usize::from(self.ops[id.at()])]
    }

    /// Its operands, the first `op.arity()` of two. Those of a `Select` are its condition and a `Pair`.
    pub(crate) fn operands(&self, id: Id) -> ([Id; 2], usize) {
        let at = id.at();
        ([Id(self.a[at]), Id(self.b[at])], self.op(id).arity())
    }

    /// Its operands.
    pub(crate) fn children(&self, id: Id) -> impl Iterator<Item = Id> + use<> {
        let (operands, arity) = self.operands(id);
        operands.into_iter().take(arity)
    }

    /// All ids, operands before their nodes.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = Id> + use<> {
        (0..self.ops.len() as u32).map(Id)
    }

    /// A node with its operands.
    pub fn node(&self, id: Id) -> Node {
        let (op, a, b) = self.raw(id);
        match op {
            Op::Const => Node::Const(f64::from_bits(u64::from(a) << 32 | u64::from(b))),
            Op::Input => Node::Input { array: a, index: b },
            Op::Unary(op) => Node::Unary(op, Id(a)),
            Op::Not => Node::Not(Id(a)),
            Op::Binary(op) => Node::Binary(op, Id(a), Id(b)),
            Op::Compare(op) => Node::Compare(op, Id(a), Id(b)),
            Op::Logic(op) => Node::Logic(op, Id(a), Id(b)),
            Op::Select => {
                let pair = b as usize;
                Node::Select(Id(a), Id(self.a[pair]), Id(self.b[pair]))
            }
            Op::Pair => Node::Pair(Id(a), Id(b)),
        }
    }

    /// The value of a constant.
    pub fn as_const(&self, id: Id) -> Option<f64> {
        if self.op(id) != Op::Const {
            return None;
        }
        let (_, a, b) = self.raw(id);
        Some(f64::from_bits(u64::from(a) << 32 | u64::from(b)))
    }

    /// The alternatives of a `Select`.
    pub(crate) fn as_pair(&self, id: Id) -> Option<(Id, Id)> {
        if let Node::Pair(a, b) = self.node(id) {
            return Some((a, b));
        }
        None
    }

    /// The operand of a negation.
    pub(crate) fn negated(&self, id: Id) -> Option<Id> {
        let negation = self.op(id) == Op::Unary(Unary::Neg);
        negation.then(|| Id(self.a[id.at()]))
    }

    pub(crate) fn is_const(&self, id: Id, value: f64) -> bool {
        self.as_const(id) == Some(value)
    }

    /// The columns of a node, as files have them.
    pub(crate) fn raw(&self, id: Id) -> (Op, u32, u32) {
        (self.op(id), self.a[id.at()], self.b[id.at()])
    }

    /// The node with these columns, without any simplification.
    pub(crate) fn intern(&mut self, op: Op, a: u32, b: u32) -> Id {
        if self.ops.len() * 5 >= self.table.len() * 4 && !self.grow() {
            self.full = true;
            return Id(0);
        }
        let op = op.code();
        let hash = key(op, a, b);
        let mut at = self.slot(hash);
        while self.tags[at] != 0 {
            if self.tags[at] == tag(hash) {
                let found = self.table[at] as usize;
                if self.a[found] == a && self.b[found] == b && self.ops[found] == op {
                    return Id(found as u32);
                }
            }
            at = self.after(at);
        }
        let id = self.ops.len() as u32;
        self.table[at] = id;
        self.tags[at] = tag(hash);
        self.ops.push(op);
        self.a.push(a);
        self.b.push(b);
        Id(id)
    }

    fn slot(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.table.len() as u128) >> 64) as usize
    }

    fn after(&self, slot: usize) -> usize {
        if slot + 1 == self.table.len() {
            0
        } else {
            slot + 1
        }
    }

    /// Frees the table. It is built again if nodes are added.
    pub(crate) fn freeze(&mut self) {
        (self.table, self.tags) = (Vec::new(), Vec::new());
        self.ops.shrink_to_fit();
        self.a.shrink_to_fit();
        self.b.shrink_to_fit();
    }

    /// Makes space for half as many more nodes.
    fn grow(&mut self) -> bool {
        let slots = (self.ops.len() / 8 * 15).max(64);
        let nodes = slots * 4 / 5 + 1;
        if nodes >= MOST {
            return false;
        }
        let more = nodes - self.ops.len();
        // The old table is not needed, only its columns.
        (self.table, self.tags) = (Vec::new(), Vec::new());
        let reserved = self.table.try_reserve_exact(slots).is_ok()
            && self.tags.try_reserve_exact(slots).is_ok()
            && self.ops.try_reserve_exact(more).is_ok()
            && self.a.try_reserve_exact(more).is_ok()
            && self.b.try_reserve_exact(more).is_ok();
        if !reserved {
            return false;
        }
        self.table.resize(slots, 0);
        self.tags.resize(slots, 0);
        for id in 0..self.ops.len() {
            let hash = key(self.ops[id], self.a[id], self.b[id]);
            let mut at = self.slot(hash);
            while self.tags[at] != 0 {
                at = self.after(at);
            }
            self.table[at] = id as u32;
            self.tags[at] = tag(hash);
        }
        true
    }

    /// The node of a constant.
    pub fn constant(&mut self, value: f64) -> Id {
        let bits = value.to_bits();
        self.intern(Op::Const, (bits >> 32) as u32, bits as u32)
    }

    /// The node of an element of an input.
    pub fn input(&mut self, array: u32, index: u32) -> Id {
        self.intern(Op::Input, array, index)
    }

    /// Values of all nodes, in `f64`. Truth values are 1 and 0; a `Pair` has none.
    pub fn evaluate(&self, input: impl Fn(u32, u32) -> f64) -> Vec<f64> {
        let mut values: Vec<f64> = Vec::with_capacity(self.len());
        for id in self.ids() {
            let number = |id: Id| values[id.at()];
            let truth = |id: Id| values[id.at()] != 0.0;
            let value = match self.node(id) {
                Node::Const(value) => value,
                Node::Input { array, index } => input(array, index),
                Node::Unary(op, a) => op.apply(number(a)),
                Node::Not(a) => f64::from(!truth(a)),
                Node::Binary(op, a, b) => op.apply(number(a), number(b)),
                Node::Compare(op, a, b) => f64::from(op.apply(number(a), number(b))),
                Node::Logic(op, a, b) => f64::from(op.apply(truth(a), truth(b))),
                Node::Select(c, a, b) => number(if truth(c) { a } else { b }),
                Node::Pair(..) => f64::NAN,
            };
            values.push(value);
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_takes_at_most_24_bytes_at_any_size() {
        let mut arena = Arena::default();
        for k in 0..30_000 {
            arena.input(0, k);
            let most = 24 * arena.len() + 1024;
            assert!(arena.bytes() <= most, "{} for {k} nodes", arena.bytes());
        }
    }

    #[test]
    fn equal_nodes_are_one_node_after_the_table_was_freed() {
        let mut arena = Arena::default();
        let nodes: Vec<Id> = (0..5000).map(|k| arena.input(0, k)).collect();
        let before = arena.bytes();
        arena.freeze();
        assert!(arena.bytes() < before);
        for (k, node) in (0..).zip(&nodes) {
            assert_eq!(arena.input(0, k), *node);
        }
        assert_eq!(arena.input(0, 5000), Id(5000));
    }
}
