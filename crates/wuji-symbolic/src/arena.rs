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
    Const(f64),
    /// An element of an input.
    Input {
        array: u32,
        index: u32,
    },
    Unary(Unary, Id),
    Not(Id),
    Binary(Binary, Id, Id),
    Compare(Compare, Id, Id),
    Logic(Logic, Id, Id),
    /// Condition, value where it holds, value where it does not.
    Select(Id, Id, Id),
    /// The values of a `Select`, which knows them.
    Pair(Id, Id),
}

/// More nodes have no numbers.
const MOST: usize = u32::MAX as usize;

/// What a bucket has for a node.
enum Slot {
    Known(u32),
    /// The node is not in the table, and belongs here.
    Empty(usize),
    Full,
}

/// A hash-consed DAG.
#[derive(Clone, Debug, Default)]
pub struct Arena {
    /// Codes of operations.
    ops: Vec<u8>,
    a: Vec<u32>,
    b: Vec<u32>,
    /// Ids by the hash of their node, with linear probing. At most four fifths full.
    table: Vec<Bucket>,
    /// The last ids with some hashes: most nodes that exist were made or found a moment ago.
    recent: Vec<u32>,
    /// There was no memory, or there were more nodes than ids.
    full: bool,
}

/// Slots of the table in one cache line.
const SLOTS: usize = 12;

/// A part of the table.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
struct Bucket {
    ids: [u32; SLOTS],
    /// A few bits of the hash of each id; 0 for none. Other nodes are told apart without a look at them.
    tags: [u8; SLOTS],
}

/// How many recent ids are known, in the fastest cache.
const RECENT: usize = 4096;

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
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Bytes of the nodes and their table.
    pub fn bytes(&self) -> usize {
        let table = size_of::<Bucket>() * self.table.capacity();
        self.ops.capacity() + 4 * (self.a.capacity() + self.b.capacity()) + table
    }

    /// Whether nodes were dropped, because there was no memory or no id for them.
    pub fn is_full(&self) -> bool {
        self.full
    }

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
        let slots = SLOTS * self.table.len();
        if self.ops.len() * 5 >= slots * 4 && !self.grow() {
            self.full = true;
            return Id(0);
        }
        let op = op.code();
        let hash = key(op, a, b);
        let recent = (hash >> 8) as usize % RECENT;
        let known = self.recent[recent];
        if self.is(known as usize, op, a, b) {
            return Id(known);
        }
        let mut at = self.bucket(hash);
        let id = loop {
            match self.find(at, hash, (op, a, b)) {
                Slot::Known(id) => break id,
                Slot::Empty(slot) => {
                    let id = self.ops.len() as u32;
                    self.table[at].ids[slot] = id;
                    self.table[at].tags[slot] = tag(hash);
                    self.ops.push(op);
                    self.a.push(a);
                    self.b.push(b);
                    break id;
                }
                Slot::Full => at = self.after(at),
            }
        };
        self.recent[recent] = id;
        Id(id)
    }

    fn is(&self, id: usize, op: u8, a: u32, b: u32) -> bool {
        id < self.ops.len() && self.a[id] == a && self.b[id] == b && self.ops[id] == op
    }

    /// Looks for a node in a bucket.
    fn find(&self, bucket: usize, hash: u64, (op, a, b): (u8, u32, u32)) -> Slot {
        let bucket = &self.table[bucket];
        for (slot, found) in bucket.tags.iter().enumerate() {
            if *found == 0 {
                return Slot::Empty(slot);
            }
            let id = bucket.ids[slot];
            if *found == tag(hash) && self.is(id as usize, op, a, b) {
                return Slot::Known(id);
            }
        }
        Slot::Full
    }

    /// The bucket that a hash belongs to.
    fn bucket(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.table.len() as u128) >> 64) as usize
    }

    fn after(&self, bucket: usize) -> usize {
        if bucket + 1 == self.table.len() {
            0
        } else {
            bucket + 1
        }
    }

    /// Frees the table. It is built again if nodes are added.
    pub(crate) fn freeze(&mut self) {
        (self.table, self.recent) = (Vec::new(), Vec::new());
        self.ops.shrink_to_fit();
        self.a.shrink_to_fit();
        self.b.shrink_to_fit();
    }

    /// Makes space for half as many more nodes.
    fn grow(&mut self) -> bool {
        let buckets = (self.ops.len() * 15 / 8).div_ceil(SLOTS).max(4);
        let nodes = buckets * SLOTS * 4 / 5 + 1;
        if nodes >= MOST {
            return false;
        }
        let more = nodes - self.ops.len();
        // The old table is not needed, only the columns.
        self.table = Vec::new();
        let reserved = self.table.try_reserve_exact(buckets).is_ok()
            && self.ops.try_reserve_exact(more).is_ok()
            && self.a.try_reserve_exact(more).is_ok()
            && self.b.try_reserve_exact(more).is_ok();
        if !reserved {
            return false;
        }
        self.recent.resize(RECENT, u32::MAX);
        self.table.resize(buckets, Bucket::default());
        for id in 0..self.ops.len() {
            let hash = key(self.ops[id], self.a[id], self.b[id]);
            let mut at = self.bucket(hash);
            let slot = loop {
                match self.table[at].tags.iter().position(|tag| *tag == 0) {
                    Some(slot) => break slot,
                    None => at = self.after(at),
                }
            };
            self.table[at].ids[slot] = id as u32;
            self.table[at].tags[slot] = tag(hash);
        }
        true
    }

    pub fn constant(&mut self, value: f64) -> Id {
        let bits = value.to_bits();
        self.intern(Op::Const, (bits >> 32) as u32, bits as u32)
    }

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
            let most = 24 * arena.len() + 2048;
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
