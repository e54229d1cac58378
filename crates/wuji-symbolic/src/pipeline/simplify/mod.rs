//! Algebraic simplification of a template.
//!
//! All rules give an expression that is equal for real numbers, where both are defined. Rounding may differ; sums can be left alone
//! where cancellation matters.

mod equal;
mod products;
mod sums;

use super::harvest::Template;
use crate::arena::{Arena, Id, Node};
use crate::op::{Binary, Op, Unary};
use equal::Equal;

/// Which rules are used.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Simplify {
    /// `x*y + x*z` becomes `x*(y + z)`.
    pub factors: bool,
    /// `x*y/x` becomes `y`.
    pub fractions: bool,
    /// `x + y - x` becomes `y`. Switch it off where cancellation matters: sums are then left as they are, and nothing is factored out
    /// of them.
    pub sums: bool,
    /// `sqrt(x)*sqrt(x)` becomes `x`, and `sqrt(x*x)` becomes `abs(x)`.
    pub roots: bool,
    /// Expressions whose algebraic hash is a small whole number, or that of another one, become that.
    pub constants: bool,
}

impl Default for Simplify {
    fn default() -> Simplify {
        Simplify {
            factors: true,
            fractions: true,
            sums: true,
            roots: true,
            constants: true,
        }
    }
}

impl Simplify {
    /// No rule.
    pub fn none() -> Simplify {
        Simplify {
            factors: false,
            fractions: false,
            sums: false,
            roots: false,
            constants: false,
        }
    }
}

/// Simplifies a template, operands first.
pub fn simplify(template: &Template, rules: &Simplify, hash_mask: u64) -> Template {
    if *rules == Simplify::none() {
        return template.clone();
    }
    let old = &template.arena;
    let inner = inner_nodes(template);
    let mut arena = Arena::default();
    let mut equal = Equal::new(hash_mask);
    let mut new = vec![Id(0); old.len()];
    for id in old.ids() {
        if old.op(id) == Op::Pair {
            continue;
        }
        let built = arena.rebuild(old.node(id), |child| new[child.at()]);
        new[id.at()] = if inner[id.at()] {
            built
        } else {
            rewrite(&mut arena, &mut equal, built, rules)
        };
    }
    let roots: Vec<Id> = template.roots.iter().map(|r| new[r.at()]).collect();
    compacted(&arena, &roots)
}

/// Nodes that are a part of a sum or product that is simplified as a whole.
fn inner_nodes(template: &Template) -> Vec<bool> {
    let arena = &template.arena;
    let mut uses = vec![0u32; arena.len()];
    let mut user = vec![Op::Const; arena.len()];
    for root in &template.roots {
        uses[root.at()] += 2;
    }
    for id in arena.ids().rev() {
        for child in arena.children(id) {
            uses[child.at()] += 1;
            user[child.at()] = arena.op(id);
        }
    }
    let is_inner = |id: Id| {
        let (op, user) = (arena.op(id), user[id.at()]);
        let sum = |op| op == Op::Binary(Binary::Add);
        let product = |op| matches!(op, Op::Binary(Binary::Mul | Binary::Div));
        uses[id.at()] == 1 && (sum(op) && sum(user) || product(op) && product(user))
    };
    arena.ids().map(is_inner).collect()
}

fn rewrite(arena: &mut Arena, equal: &mut Equal, id: Id, rules: &Simplify) -> Id {
    let mut id = id;
    match arena.node(id) {
        Node::Binary(Binary::Add, ..) => {
            if rules.sums {
                id = sums::collect(arena, id);
            }
            if rules.factors && rules.sums {
                id = sums::factor(arena, id);
            }
        }
        Node::Binary(Binary::Mul | Binary::Div, ..) if rules.fractions || rules.roots => {
            id = products::reduce(arena, id, rules);
        }
        Node::Unary(Unary::Sqrt | Unary::Abs, _) if rules.roots => id = products::root(arena, id),
        Node::Const(_)
        | Node::Input { .. }
        | Node::Unary(..)
        | Node::Not(_)
        | Node::Binary(..)
        | Node::Compare(..)
        | Node::Logic(..)
        | Node::Select(..)
        | Node::Pair(..) => {}
    }
    // An expression that cancels is a sum.
    let sum = arena.op(id) == Op::Binary(Binary::Add);
    if rules.constants && (rules.sums || !sum) {
        id = equal.replace(arena, id);
    }
    id
}

/// A template without nodes that its roots do not need.
fn compacted(arena: &Arena, roots: &[Id]) -> Template {
    let mut used = vec![false; arena.len()];
    for root in roots {
        used[root.at()] = true;
    }
    for id in arena.ids().rev() {
        if used[id.at()] {
            arena.children(id).for_each(|c| used[c.at()] = true);
        }
    }
    let mut out = Arena::default();
    let mut new = vec![Id(0); arena.len()];
    for id in arena.ids().filter(|id| used[id.at()]) {
        if arena.op(id) != Op::Pair {
            new[id.at()] = out.rebuild(arena.node(id), |child| new[child.at()]);
        }
    }
    Template {
        roots: roots.iter().map(|r| new[r.at()]).collect(),
        arena: out,
    }
}

/// The complexity of an expression as a tree.
fn complexity(arena: &Arena, id: Id) -> u32 {
    const MOST: u32 = 10_000;
    let mut sum = 0u32;
    let mut work = vec![id];
    while let Some(id) = work.pop() {
        sum += arena.op(id).cost().max(u32::from(!arena.op(id).is_leaf()));
        if sum > MOST {
            break;
        }
        work.extend(arena.children(id));
    }
    sum
}
