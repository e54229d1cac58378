//! Constructors of nodes. They fold constants, drop neutral operands, move signs outwards and order operands that may be exchanged, so
//! that expressions which differ in these only are one node.

use crate::arena::{Arena, Id, Node};
use crate::op::{Binary, Compare, Logic, Op, Unary};

impl Arena {
    /// An operation on a number. Constants are folded and signs moved outwards.
    pub fn unary(&mut self, op: Unary, a: Id) -> Id {
        if let Some(x) = self.as_const(a) {
            return self.constant(op.apply(x));
        }
        if let Node::Unary(inner, x) = self.node(a) {
            if op == Unary::Neg && inner == op {
                return x;
            }
            if op == Unary::Abs && inner == Unary::Neg {
                return self.unary(op, x);
            }
            if op == Unary::Abs && matches!(inner, Unary::Abs | Unary::Sqrt | Unary::Exp) {
                return a;
            }
        }
        self.intern(Op::Unary(op), a.0, 0)
    }

    /// An operation on two numbers. Constants are folded, neutral operands dropped, signs moved outwards, and operands that may be
    /// exchanged are ordered.
    pub fn binary(&mut self, op: Binary, a: Id, b: Id) -> Id {
        if let (Some(x), Some(y)) = (self.as_const(a), self.as_const(b)) {
            return self.constant(op.apply(x, y));
        }
        match op {
            Binary::Add => self.add(a, b),
            Binary::Mul => self.mul(a, b),
            Binary::Div => self.div(a, b),
            Binary::Pow => self.pow(a, b),
            Binary::Rem | Binary::Min | Binary::Max | Binary::Atan2 => {
                self.intern(Op::Binary(op), a.0, b.0)
            }
        }
    }

    /// A comparison of two numbers.
    pub fn compare(&mut self, op: Compare, a: Id, b: Id) -> Id {
        if let (Some(x), Some(y)) = (self.as_const(a), self.as_const(b)) {
            return self.constant(f64::from(op.apply(x, y)));
        }
        self.ordered(Op::Compare(op), a, b)
    }

    /// The opposite of a truth value.
    pub fn not(&mut self, a: Id) -> Id {
        if let Some(x) = self.as_const(a) {
            return self.constant(f64::from(x == 0.0));
        }
        if let Node::Not(x) = self.node(a) {
            return x;
        }
        self.intern(Op::Not, a.0, 0)
    }

    /// An operation on two truth values. None of the result's operands is a constant, so that no operation on truth values has to take
    /// numbers.
    pub fn logic(&mut self, op: Logic, a: Id, b: Id) -> Id {
        let (constant, other) = match (self.as_const(a), self.as_const(b)) {
            (Some(x), Some(y)) => return self.constant(f64::from(op.apply(x != 0.0, y != 0.0))),
            (Some(x), None) => (x != 0.0, b),
            (None, Some(y)) => (y != 0.0, a),
            (None, None) => return self.ordered(Op::Logic(op), a, b),
        };
        // The result depends on the other operand, or on none.
        if op.apply(constant, true) == op.apply(constant, false) {
            return self.constant(f64::from(constant));
        }
        other
    }

    fn ordered(&mut self, op: Op, a: Id, b: Id) -> Id {
        if op.commutes() && a > b {
            return self.intern(op, b.0, a.0);
        }
        self.intern(op, a.0, b.0)
    }

    fn add(&mut self, a: Id, b: Id) -> Id {
        if self.is_const(a, 0.0) {
            return b;
        }
        if self.is_const(b, 0.0) {
            return a;
        }
        self.ordered(Op::Binary(Binary::Add), a, b)
    }

    /// The operand of a negation, and whether there was one.
    fn without_sign(&self, a: Id) -> (Id, bool) {
        match self.negated(a) {
            Some(x) => (x, true),
            None => (a, false),
        }
    }

    fn signed(&mut self, negative: bool, a: Id) -> Id {
        if negative {
            self.unary(Unary::Neg, a)
        } else {
            a
        }
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
            self.unary(Unary::Neg, b)
        } else if self.is_const(b, -1.0) {
            self.unary(Unary::Neg, a)
        } else {
            self.ordered(Op::Binary(Binary::Mul), a, b)
        };
        self.signed(s != t, product)
    }

    fn div(&mut self, a: Id, b: Id) -> Id {
        let ((a, s), (b, t)) = (self.without_sign(a), self.without_sign(b));
        let quotient = if self.is_const(a, 0.0) || self.is_const(b, 1.0) {
            a
        } else if self.is_const(b, -1.0) {
            self.unary(Unary::Neg, a)
        } else {
            self.intern(Op::Binary(Binary::Div), a.0, b.0)
        };
        self.signed(s != t, quotient)
    }

    /// A power. Small whole exponents become products.
    fn pow(&mut self, a: Id, b: Id) -> Id {
        match self.as_const(b) {
            Some(0.5) => self.unary(Unary::Sqrt, a),
            Some(n) if n.fract() == 0.0 && n.abs() <= 16.0 => self.power(a, n as i32),
            _ => self.intern(Op::Binary(Binary::Pow), a.0, b.0),
        }
    }

    /// A power with a whole exponent, by repeated squaring.
    pub fn power(&mut self, a: Id, exponent: i32) -> Id {
        let mut result = self.constant(1.0);
        let (mut square, mut rest) = (a, exponent.unsigned_abs());
        while rest > 0 {
            if rest & 1 == 1 {
                result = self.binary(Binary::Mul, result, square);
            }
            rest >>= 1;
            if rest > 0 {
                square = self.binary(Binary::Mul, square, square);
            }
        }
        if exponent < 0 {
            let one = self.constant(1.0);
            result = self.binary(Binary::Div, one, result);
        }
        result
    }

    /// `a - b`.
    pub fn sub(&mut self, a: Id, b: Id) -> Id {
        let negative = self.unary(Unary::Neg, b);
        self.binary(Binary::Add, a, negative)
    }

    /// The alternatives of a `Select`.
    pub(crate) fn pair(&mut self, a: Id, b: Id) -> Id {
        self.intern(Op::Pair, a.0, b.0)
    }

    /// `a` where the condition holds, `b` elsewhere.
    pub fn select(&mut self, condition: Id, a: Id, b: Id) -> Id {
        match self.as_const(condition) {
            Some(0.0) => b,
            Some(_) => a,
            None if a == b => a,
            None => {
                let pair = self.pair(a, b);
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
            Node::Not(a) => self.not(of(a)),
            Node::Binary(op, a, b) => self.binary(op, of(a), of(b)),
            Node::Compare(op, a, b) => self.compare(op, of(a), of(b)),
            Node::Logic(op, a, b) => self.logic(op, of(a), of(b)),
            Node::Select(c, a, b) => self.select(of(c), of(a), of(b)),
            Node::Pair(a, b) => self.pair(of(a), of(b)),
        }
    }

    /// The node of an operation on operands; `None` if it takes others. A `Select` takes its alternatives, or the `Pair` of them; a chain
    /// takes any number of terms.
    pub fn apply(&mut self, op: Op, operands: &[Id]) -> Option<Id> {
        let known = |id: &Id| (id.at() < self.len()).then(|| self.op(*id));
        let number = |id: &Id| known(id).is_some_and(Op::is_number);
        let mask = |id: &Id| known(id).is_some_and(|op| op.is_mask() || op == Op::Const);
        match (op, operands) {
            (Op::Unary(op), [a]) if number(a) => Some(self.unary(op, *a)),
            (Op::Not, [a]) if mask(a) => Some(self.not(*a)),
            (Op::Binary(op), [first, rest @ ..])
                if operands.iter().all(number) && (rest.len() == 1 || op.is_chain()) =>
            {
                let add = |sum: Id, term: &Id| self.binary(op, sum, *term);
                Some(rest.iter().fold(*first, add))
            }
            (Op::Compare(op), [a, b]) if number(a) && number(b) => Some(self.compare(op, *a, *b)),
            (Op::Logic(op), [a, b]) if mask(a) && mask(b) => Some(self.logic(op, *a, *b)),
            (Op::Pair, [a, b]) if number(a) && number(b) => Some(self.pair(*a, *b)),
            (Op::Select, [condition, a, b]) if mask(condition) && number(a) && number(b) => {
                Some(self.select(*condition, *a, *b))
            }
            (Op::Select, [condition, pair]) if mask(condition) && known(pair).is_some() => {
                let (a, b) = self.as_pair(*pair)?;
                Some(self.select(*condition, a, b))
            }
            (
                Op::Const
                | Op::Input
                | Op::Unary(_)
                | Op::Not
                | Op::Binary(_)
                | Op::Compare(_)
                | Op::Logic(_)
                | Op::Pair
                | Op::Select,
                _,
            ) => None,
        }
    }
}
