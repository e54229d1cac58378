//! The hash-consed DAG of a trace.
//!
//! Nodes are columns: an operation and two operands, 9 bytes. An [index](crate::index) makes equal nodes one node. Operands have
//! smaller ids than their node, so a loop over the ids visits operands first, and every analysis is a loop.

use crate::index::{Chain, Columns, Index, Row};
use crate::op::{Binary, Compare, Logic, Op, Unary};

/// The number of a node.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Id(pub u32);

impl Id {
    #[inline]
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

/// How many nodes there may be; more have no numbers.
#[derive(Copy, Clone, Debug)]
struct Limit(usize);

impl Default for Limit {
    fn default() -> Limit {
        Limit(u32::MAX as usize)
    }
}

/// A hash-consed DAG.
#[derive(Clone, Debug, Default)]
pub struct Arena {
    nodes: Columns,
    index: Index,
    limit: Limit,
    /// There was no memory, or there were more nodes than ids.
    full: bool,
}

impl Arena {
    /// An arena for fewer nodes than usual.
    #[cfg(test)]
    pub(crate) fn limited(nodes: usize) -> Arena {
        Arena {
            limit: Limit(nodes),
            ..Arena::default()
        }
    }

    /// The number of nodes.
    #[inline]
    pub fn len(&self) -> usize {
        self.nodes.ops.len()
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.nodes.ops.is_empty()
    }

    /// Bytes of the nodes and their index.
    pub fn bytes(&self) -> usize {
        self.nodes.bytes() + self.index.bytes()
    }

    /// Whether nodes were dropped, because there was no memory or no id for them.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// The operation of a node.
    #[inline]
    pub fn op(&self, id: Id) -> Op {
        Op::ALL[usize::from(self.nodes.ops[id.at()])]
    }

    /// Its operands, the first `op.arity()` of two. Those of a `Select` are its condition and a `Pair`.
    #[inline]
    pub(crate) fn operands(&self, id: Id) -> ([Id; 2], usize) {
        let at = id.at();
        (
            [Id(self.nodes.a[at]), Id(self.nodes.b[at])],
            self.op(id).arity(),
        )
    }

    /// Its operands.
    #[inline]
    pub(crate) fn children(&self, id: Id) -> impl Iterator<Item = Id> + use<> {
        let (operands, arity) = self.operands(id);
        operands.into_iter().take(arity)
    }

    /// Folds its operands.
    #[inline]
    pub(crate) fn fold<R>(&self, id: Id, first: R, mut step: impl FnMut(R, Id) -> R) -> R {
        let (operands, arity) = self.operands(id);
        match arity {
            0 => first,
            1 => step(first, operands[0]),
            _ => {
                let first = step(first, operands[0]);
                step(first, operands[1])
            }
        }
    }

    /// All ids, operands before their nodes.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = Id> + use<> {
        (0..self.nodes.ops.len() as u32).map(Id)
    }

    /// A node with its operands.
    #[inline]
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
                Node::Select(Id(a), Id(self.nodes.a[pair]), Id(self.nodes.b[pair]))
            }
            Op::Pair => Node::Pair(Id(a), Id(b)),
        }
    }

    /// The value of a constant.
    #[inline]
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
    #[inline]
    pub(crate) fn negated(&self, id: Id) -> Option<Id> {
        let negation = self.op(id) == Op::Unary(Unary::Neg);
        negation.then(|| Id(self.nodes.a[id.at()]))
    }

    #[inline]
    pub(crate) fn is_const(&self, id: Id, value: f64) -> bool {
        self.as_const(id) == Some(value)
    }

    /// The columns of a node, as files have them.
    #[inline]
    pub(crate) fn raw(&self, id: Id) -> (Op, u32, u32) {
        (self.op(id), self.nodes.a[id.at()], self.nodes.b[id.at()])
    }

    /// The node with these columns, without any simplification.
    #[inline]
    pub(crate) fn intern(&mut self, op: Op, a: u32, b: u32) -> Id {
        let row = Row {
            op: op.code(),
            a,
            b,
        };
        let space = self.index.len() == self.len() && self.len() < self.nodes.ops.capacity();
        if !space && !self.grow() {
            self.full = true;
            return Id(0);
        }
        match self.index.find(&self.nodes, row) {
            Ok(found) => Id(found),
            Err(chain) => self.push(row, chain),
        }
    }

    fn push(&mut self, row: Row, chain: Chain) -> Id {
        let id = self.len() as u32;
        self.nodes.push(row);
        if !self.index.insert(&self.nodes, chain) {
            self.full = true;
            return Id(0);
        }
        Id(id)
    }

    /// Frees the index. It is built again if nodes are added.
    pub(crate) fn freeze(&mut self) {
        self.index = Index::default();
        self.nodes.shrink();
    }

    /// Makes space for a fifth as many more nodes.
    fn grow(&mut self) -> bool {
        let more = self.len() / 5 + 64;
        let missing = self.len() - self.index.len();
        if self.full
            || self.len() + more >= self.limit.0
            || !self.nodes.reserve(more)
            || !self.index.reserve(missing + more)
        {
            return false;
        }
        // Nodes are missing after the index was freed.
        (self.index.len()..self.len()).all(|at| {
            let chain = self.index.find(&self.nodes, self.nodes.row(at));
            chain.is_err_and(|chain| self.index.insert(&self.nodes, chain))
        })
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
    use std::collections::HashMap;

    #[test]
    fn a_node_takes_at_most_24_bytes_at_any_size() {
        let mut arena = Arena::default();
        for k in 0..30_000 {
            arena.input(0, k);
            let most = 24 * arena.len() + 1024;
            assert!(arena.bytes() <= most, "{} for {k} nodes", arena.bytes());
        }
    }

    /// Some operands have few users, one has many, and many nodes have a constant operand.
    #[test]
    fn equal_nodes_are_one_node_whatever_their_operands() {
        let (mut arena, mut known) = (Arena::default(), HashMap::new());
        let leaves: Vec<Id> = (0..40).map(|k| arena.input(0, k)).collect();
        let popular = arena.input(1, 0);
        let constant = arena.constant(2.5);
        let mut random = 1u64;
        for round in 0..20_000 {
            random = crate::hash::mix(random);
            let pick = |n: u64| Id(n as u32 % arena.len() as u32);
            let (a, b) = match random % 4 {
                0 => (pick(random >> 8), popular),
                1 => (pick(random >> 8), constant),
                2 => (leaves[round % 40], leaves[(random >> 8) as usize % 40]),
                _ => (pick(random >> 8), pick(random >> 36)),
            };
            let row = (
                Op::Binary(Binary::ALL[(random >> 60) as usize % 3]),
                a.0,
                b.0,
            );
            let before = arena.len();
            let id = arena.intern(row.0, row.1, row.2);
            assert_eq!(id, *known.entry(row).or_insert(id));
            assert_eq!(arena.len() > before, id.at() == before);
            assert_eq!(arena.raw(id), row);
            if round % 7000 == 0 {
                arena.freeze();
            }
        }
        assert!(arena.bytes() <= 24 * arena.len() + 1024);
    }

    #[test]
    fn a_full_arena_keeps_its_nodes() {
        let mut arena = Arena::limited(1000);
        let nodes: Vec<Id> = (0..2000).map(|k| arena.input(0, k)).collect();
        assert!(arena.is_full() && arena.len() < 1000);
        let last = arena.len() - 1;
        assert_eq!(nodes[last], Id(last as u32));
        assert_eq!(arena.raw(nodes[last]), (Op::Input, 0, last as u32));
    }

    #[test]
    fn equal_nodes_are_one_node_after_the_index_was_freed() {
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
