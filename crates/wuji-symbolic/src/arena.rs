//! The hash-consed DAG of a trace.
//!
//! Nodes are columns: an operation and two operands, 9 bytes. A hash table of ids makes equal nodes one node. Operands have smaller
//! ids than their node, so a loop over the ids visits operands first, and every analysis is a loop.

use crate::op::Op;

/// The number of a node.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
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
    Unary(Op, Id),
    Binary(Op, Id, Id),
    /// Condition, value where it holds, value where it does not.
    Select(Id, Id, Id),
}

const EMPTY: u32 = u32::MAX;

/// A hash-consed DAG.
#[derive(Clone, Debug, Default)]
pub struct Arena {
    ops: Vec<Op>,
    a: Vec<u32>,
    b: Vec<u32>,
    /// Ids by the hash of their node, with linear probing. Between half and three quarters full.
    table: Vec<u32>,
    /// There was no memory, or there were more nodes than ids.
    full: bool,
}

/// Mixes the bits of a number.
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn key(op: Op, a: u32, b: u32) -> u64 {
    let operands = u64::from(a) << 32 | u64::from(b);
    mix(mix(operands).wrapping_add((op as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
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
        self.ops.capacity() + 4 * (self.a.capacity() + self.b.capacity() + self.table.capacity())
    }

    /// Whether nodes were dropped, because there was no memory or no id for them.
    pub fn is_full(&self) -> bool {
        self.full
    }

    pub fn op(&self, id: Id) -> Op {
        self.ops[id.at()]
    }

    /// Its operands, the first `op.arity()` of two. Those of a `Select` are its condition and a `Pair`.
    pub(crate) fn operands(&self, id: Id) -> ([Id; 2], usize) {
        let at = id.at();
        ([Id(self.a[at]), Id(self.b[at])], self.ops[at].arity())
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
        let at = id.at();
        let (op, a, b) = (self.ops[at], self.a[at], self.b[at]);
        if op == Op::Const {
            return Node::Const(f64::from_bits(u64::from(a) << 32 | u64::from(b)));
        }
        if op == Op::Input {
            return Node::Input { array: a, index: b };
        }
        if op == Op::Select {
            let pair = b as usize;
            return Node::Select(Id(a), Id(self.a[pair]), Id(self.b[pair]));
        }
        if op.arity() == 1 {
            return Node::Unary(op, Id(a));
        }
        Node::Binary(op, Id(a), Id(b))
    }

    /// The value of a constant.
    pub fn as_const(&self, id: Id) -> Option<f64> {
        match self.node(id) {
            Node::Const(value) => Some(value),
            Node::Input { .. } | Node::Unary(..) | Node::Binary(..) | Node::Select(..) => None,
        }
    }

    fn is_const(&self, id: Id, value: f64) -> bool {
        self.as_const(id) == Some(value)
    }

    /// The columns of a node, as files have them.
    pub(crate) fn raw(&self, id: Id) -> (Op, u32, u32) {
        (self.ops[id.at()], self.a[id.at()], self.b[id.at()])
    }

    /// The node with these columns, without any simplification.
    pub(crate) fn intern(&mut self, op: Op, a: u32, b: u32) -> Id {
        if self.ops.len() * 4 >= self.table.len() * 3 && !self.grow() {
            self.full = true;
            return Id(0);
        }
        let mut at = self.slot(key(op, a, b));
        loop {
            let found = self.table[at];
            if found == EMPTY {
                break;
            }
            let f = found as usize;
            if self.ops[f] == op && self.a[f] == a && self.b[f] == b {
                return Id(found);
            }
            at = (at + 1) % self.table.len();
        }
        let id = self.ops.len() as u32;
        self.table[at] = id;
        self.ops.push(op);
        self.a.push(a);
        self.b.push(b);
        Id(id)
    }

    fn slot(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.table.len() as u128) >> 64) as usize
    }

    /// Makes space for more nodes. The columns grow by a quarter and the table by a half, so that little of them is unused.
    fn grow(&mut self) -> bool {
        let slots = (self.table.len() + self.table.len() / 2).max(64);
        let nodes = slots / 4 * 3 + 1;
        if nodes >= EMPTY as usize {
            return false;
        }
        let more = nodes - self.ops.len();
        let mut table: Vec<u32> = Vec::new();
        let reserved = table.try_reserve_exact(slots).is_ok()
            && self.ops.try_reserve_exact(more).is_ok()
            && self.a.try_reserve_exact(more).is_ok()
            && self.b.try_reserve_exact(more).is_ok();
        if !reserved {
            return false;
        }
        table.resize(slots, EMPTY);
        self.table = table;
        for id in 0..self.ops.len() {
            let mut at = self.slot(key(self.ops[id], self.a[id], self.b[id]));
            while self.table[at] != EMPTY {
                at = (at + 1) % self.table.len();
            }
            self.table[at] = id as u32;
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

    /// An operation on one operand. Constants are folded and signs moved outwards.
    pub fn unary(&mut self, op: Op, a: Id) -> Id {
        debug_assert_eq!(op.arity(), 1);
        if let Some(x) = self.as_const(a) {
            return self.constant(op.apply(x, 0.0));
        }
        if let Node::Unary(inner, x) = self.node(a) {
            if matches!(op, Op::Neg | Op::Not) && inner == op {
                return x;
            }
            if op == Op::Abs && inner == Op::Neg {
                return self.unary(Op::Abs, x);
            }
            if op == Op::Abs && matches!(inner, Op::Abs | Op::Sqrt | Op::Exp) {
                return a;
            }
        }
        self.intern(op, a.0, 0)
    }

    /// An operation on two operands. Constants are folded, neutral operands dropped, signs moved outwards, and operands that may be
    /// exchanged are ordered.
    pub fn binary(&mut self, op: Op, a: Id, b: Id) -> Id {
        debug_assert_eq!(op.arity(), 2);
        if let (Some(x), Some(y)) = (self.as_const(a), self.as_const(b)) {
            return self.constant(op.apply(x, y));
        }
        match op {
            Op::Add => self.add(a, b),
            Op::Mul => self.mul(a, b),
            Op::Div => self.div(a, b),
            Op::Pow => self.pow(a, b),
            Op::And | Op::Or => self.connect(op, a, b),
            Op::Const
            | Op::Input
            | Op::Neg
            | Op::Abs
            | Op::Floor
            | Op::Ceil
            | Op::Round
            | Op::Trunc
            | Op::Sqrt
            | Op::Sin
            | Op::Cos
            | Op::Tan
            | Op::Asin
            | Op::Acos
            | Op::Atan
            | Op::Sinh
            | Op::Cosh
            | Op::Tanh
            | Op::Exp
            | Op::Exp2
            | Op::Log
            | Op::Log2
            | Op::Log10
            | Op::Not
            | Op::Rem
            | Op::Min
            | Op::Max
            | Op::Atan2
            | Op::Lt
            | Op::Le
            | Op::Eq
            | Op::Select
            | Op::Pair => self.ordered(op, a, b),
        }
    }

    fn ordered(&mut self, op: Op, a: Id, b: Id) -> Id {
        if op.commutes() && a > b {
            return self.intern(op, b.0, a.0);
        }
        self.intern(op, a.0, b.0)
    }

    /// `And` and `Or`. No mask is a constant, so that no operation on masks has to take numbers.
    fn connect(&mut self, op: Op, a: Id, b: Id) -> Id {
        let (constant, other) = match (self.as_const(a), self.as_const(b)) {
            (Some(x), _) => (x != 0.0, b),
            (None, Some(x)) => (x != 0.0, a),
            (None, None) => return self.ordered(op, a, b),
        };
        if constant == (op == Op::And) {
            other
        } else {
            self.constant(f64::from(constant))
        }
    }

    fn add(&mut self, a: Id, b: Id) -> Id {
        if self.is_const(a, 0.0) {
            return b;
        }
        if self.is_const(b, 0.0) {
            return a;
        }
        self.ordered(Op::Add, a, b)
    }

    /// The operand of a negation, and whether there was one.
    fn without_sign(&self, a: Id) -> (Id, bool) {
        match self.node(a) {
            Node::Unary(Op::Neg, x) => (x, true),
            Node::Const(_)
            | Node::Input { .. }
            | Node::Unary(..)
            | Node::Binary(..)
            | Node::Select(..) => (a, false),
        }
    }

    fn signed(&mut self, negative: bool, a: Id) -> Id {
        if negative { self.unary(Op::Neg, a) } else { a }
    }

    fn mul(&mut self, a: Id, b: Id) -> Id {
        let ((a, s), (b, t)) = (self.without_sign(a), self.without_sign(b));
        let product = if self.is_const(a, 0.0) || self.is_const(b, 0.0) {
            return self.constant(0.0);
        } else if self.is_const(a, 1.0) {
            b
        } else if self.is_const(b, 1.0) {
            a
        } else if self.is_const(a, -1.0) {
            self.unary(Op::Neg, b)
        } else if self.is_const(b, -1.0) {
            self.unary(Op::Neg, a)
        } else {
            self.ordered(Op::Mul, a, b)
        };
        self.signed(s != t, product)
    }

    fn div(&mut self, a: Id, b: Id) -> Id {
        let ((a, s), (b, t)) = (self.without_sign(a), self.without_sign(b));
        let quotient = if self.is_const(a, 0.0) || self.is_const(b, 1.0) {
            a
        } else if self.is_const(b, -1.0) {
            self.unary(Op::Neg, a)
        } else {
            self.intern(Op::Div, a.0, b.0)
        };
        self.signed(s != t, quotient)
    }

    /// A power. Small whole exponents become products.
    fn pow(&mut self, a: Id, b: Id) -> Id {
        match self.as_const(b) {
            Some(0.5) => self.unary(Op::Sqrt, a),
            Some(n) if n.fract() == 0.0 && n.abs() <= 16.0 => self.power(a, n as i32),
            _ => self.intern(Op::Pow, a.0, b.0),
        }
    }

    /// A power with a whole exponent, by repeated squaring.
    pub fn power(&mut self, a: Id, exponent: i32) -> Id {
        let mut result = self.constant(1.0);
        let (mut square, mut rest) = (a, exponent.unsigned_abs());
        while rest > 0 {
            if rest & 1 == 1 {
                result = self.binary(Op::Mul, result, square);
            }
            rest >>= 1;
            if rest > 0 {
                square = self.binary(Op::Mul, square, square);
            }
        }
        if exponent < 0 {
            let one = self.constant(1.0);
            result = self.binary(Op::Div, one, result);
        }
        result
    }

    pub fn sub(&mut self, a: Id, b: Id) -> Id {
        let negative = self.unary(Op::Neg, b);
        self.binary(Op::Add, a, negative)
    }

    /// `a` where the condition holds, `b` elsewhere.
    pub fn select(&mut self, condition: Id, a: Id, b: Id) -> Id {
        match self.as_const(condition) {
            Some(0.0) => b,
            Some(_) => a,
            None if a == b => a,
            None => {
                let pair = self.intern(Op::Pair, a.0, b.0);
                self.intern(Op::Select, condition.0, pair.0)
            }
        }
    }

    /// The same node on other operands, with the simplifications of the constructors.
    pub(crate) fn rebuild(&mut self, node: Node, of: impl Fn(Id) -> Id) -> Id {
        match node {
            Node::Const(value) => self.constant(value),
            Node::Input { array, index } => self.input(array, index),
            Node::Unary(op, a) => self.unary(op, of(a)),
            Node::Binary(op, a, b) => self.binary(op, of(a), of(b)),
            Node::Select(c, a, b) => self.select(of(c), of(a), of(b)),
        }
    }

    /// Values of all nodes, in `f64`; a `Pair` has none.
    pub fn evaluate(&self, input: impl Fn(u32, u32) -> f64) -> Vec<f64> {
        let mut values: Vec<f64> = Vec::with_capacity(self.len());
        for id in self.ids() {
            let value = match self.node(id) {
                Node::Const(value) => value,
                Node::Input { array, index } => input(array, index),
                Node::Unary(op, a) => op.apply(values[a.at()], 0.0),
                Node::Binary(op, a, b) => op.apply(values[a.at()], values[b.at()]),
                Node::Select(c, a, b) => {
                    let chosen = if values[c.at()] != 0.0 { a } else { b };
                    values[chosen.at()]
                }
            };
            values.push(value);
        }
        values
    }
}
