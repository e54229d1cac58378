//! Products, quotients and square roots: equal factors cancel.

use super::Simplify;
use crate::arena::{Arena, Id, Node};
use crate::op::{Binary, Unary};
use rustc_hash::FxHashMap;

/// Factors of a product or quotient with their exponents, in halves: a square root counts one.
struct Factors {
    constant: f64,
    constants: u32,
    order: Vec<Id>,
    exponents: FxHashMap<Id, i32>,
    /// Two factors have the same base, and one of them is a divisor or a root.
    cancels: bool,
}

/// The factors of a product or quotient are multiplied together. More of them could exceed the range of floats where each quotient alone
/// does not.
const MOST_FACTORS: usize = 12;

/// The factors of a product or quotient; `None` if it has too many.
fn collect(arena: &Arena, id: Id, rules: &Simplify) -> Option<Factors> {
    let mut found = Factors {
        constant: 1.0,
        constants: 0,
        order: Vec::new(),
        exponents: FxHashMap::default(),
        cancels: false,
    };
    let mut work = vec![(id, 2)];
    let mut leaves = 0;
    while let Some((id, exponent)) = work.pop() {
        leaves += usize::from(!matches!(arena.node(id), Node::Binary(..)));
        if leaves + work.len() > MOST_FACTORS {
            return None;
        }
        match arena.node(id) {
            Node::Binary(Binary::Mul, a, b) => work.extend([(b, exponent), (a, exponent)]),
            Node::Binary(Binary::Div, a, b) if rules.fractions => {
                work.extend([(b, -exponent), (a, exponent)]);
            }
            Node::Unary(Unary::Neg, a) => {
                found.constant = -found.constant;
                work.push((a, exponent));
            }
            Node::Const(value) => {
                found.constants += 1;
                if exponent > 0 {
                    found.constant *= value;
                } else {
                    found.constant /= value;
                }
            }
            Node::Unary(Unary::Sqrt, a) if rules.roots => found.add(a, exponent / 2),
            Node::Input { .. }
            | Node::Unary(..)
            | Node::Not(_)
            | Node::Binary(..)
            | Node::Compare(..)
            | Node::Logic(..)
            | Node::Select(..)
            | Node::Pair(..) => found.add(id, exponent),
        }
    }
    Some(found)
}

impl Factors {
    fn add(&mut self, base: Id, exponent: i32) {
        let Some(known) = self.exponents.get_mut(&base) else {
            self.order.push(base);
            self.exponents.insert(base, exponent);
            return;
        };
        self.cancels |= exponent % 2 != 0 || *known % 2 != 0 || (exponent < 0) != (*known < 0);
        *known += exponent;
    }
}

/// Cancels equal factors. A product or quotient without such factors stays as it is.
pub(super) fn reduce(arena: &mut Arena, id: Id, rules: &Simplify) -> Id {
    let Some(found) = collect(arena, id, rules) else {
        return id;
    };
    if !found.cancels && found.constants < 2 {
        return id;
    }
    let (mut above, mut below) = (arena.constant(found.constant), arena.constant(1.0));
    for base in &found.order {
        let exponent = found.exponents[base];
        let side = if exponent > 0 { &mut above } else { &mut below };
        let whole = arena.power(*base, exponent.abs() / 2);
        *side = arena.binary(Binary::Mul, *side, whole);
        if exponent % 2 != 0 {
            let root = arena.unary(Unary::Sqrt, *base);
            *side = arena.binary(Binary::Mul, *side, root);
        }
    }
    arena.binary(Binary::Div, above, below)
}

/// The square root of a square, and absolute values of what is never negative.
pub(super) fn root(arena: &mut Arena, id: Id) -> Id {
    match arena.node(id) {
        Node::Unary(Unary::Sqrt, a) => {
            if let Node::Binary(Binary::Mul, x, y) = arena.node(a)
                && x == y
            {
                let size = arena.unary(Unary::Abs, x);
                return root(arena, size);
            }
            id
        }
        Node::Unary(Unary::Abs, a) if is_nonnegative(arena, a, 0) => a,
        Node::Const(_)
        | Node::Input { .. }
        | Node::Unary(..)
        | Node::Not(_)
        | Node::Binary(..)
        | Node::Compare(..)
        | Node::Logic(..)
        | Node::Select(..)
        | Node::Pair(..) => id,
    }
}

fn is_nonnegative(arena: &Arena, id: Id, depth: u32) -> bool {
    let both = |a, b| is_nonnegative(arena, a, depth + 1) && is_nonnegative(arena, b, depth + 1);
    if depth > 8 {
        return false;
    }
    match arena.node(id) {
        Node::Const(value) => value >= 0.0,
        Node::Unary(Unary::Abs | Unary::Sqrt | Unary::Exp | Unary::Exp2, _) => true,
        Node::Binary(Binary::Mul, a, b) => a == b || both(a, b),
        Node::Binary(Binary::Add | Binary::Div | Binary::Max | Binary::Min, a, b) => both(a, b),
        Node::Input { .. }
        | Node::Unary(..)
        | Node::Not(_)
        | Node::Binary(..)
        | Node::Compare(..)
        | Node::Logic(..)
        | Node::Select(..)
        | Node::Pair(..) => false,
    }
}
