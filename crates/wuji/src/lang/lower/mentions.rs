//! Which variables a piece of source mentions, and whether control leaves it in the middle.

use crate::lang::ast::{Adapter, Block, Choice, Domain, Expr, Kind, Range, Text};
use rustc_hash::FxHashSet;

/// All variables that an expression reads, writes or calls.
pub(super) fn mentions(e: &'static Expr) -> FxHashSet<u32> {
    let mut found = FxHashSet::default();
    let mut waiting = vec![e];
    while let Some(e) = waiting.pop() {
        visit(&e.kind, &mut found, &mut waiting);
    }
    found
}

/// Whether an expression has a part that `is` something.
fn has(e: &'static Expr, is: impl Fn(&Kind) -> bool) -> bool {
    let mut found = FxHashSet::default();
    let mut waiting = vec![e];
    while let Some(e) = waiting.pop() {
        if is(&e.kind) {
            return true;
        }
        visit(&e.kind, &mut found, &mut waiting);
    }
    false
}

/// Whether an expression has a `break` or `continue` of a loop.
pub(super) fn leaves_loop(e: &'static Expr, number: u32) -> bool {
    has(
        e,
        |k| matches!(k, Kind::Break(n, _) | Kind::Continue(n) if *n == number),
    )
}

/// Whether an expression has a `return`.
pub(super) fn returns(e: &'static Expr) -> bool {
    has(e, |k| matches!(k, Kind::Return(_) | Kind::Try(_)))
}

fn visit(kind: &'static Kind, found: &mut FxHashSet<u32>, next: &mut Vec<&'static Expr>) {
    match kind {
        Kind::Int(..)
        | Kind::Float(..)
        | Kind::Bool(_)
        | Kind::Const(_)
        | Kind::Continue(_)
        | Kind::Break(_, None)
        | Kind::Return(None)
        | Kind::Let(_, None) => {}
        Kind::Var(var) | Kind::Query(_, var, None) => {
            found.insert(*var);
        }
        Kind::Query(_, var, Some(axis)) => {
            found.insert(*var);
            next.push(axis);
        }
        Kind::Unary(_, a)
        | Kind::Cast(a, _)
        | Kind::Field(a, _)
        | Kind::Loop(_, a)
        | Kind::Break(_, Some(a))
        | Kind::Return(Some(a))
        | Kind::Let(_, Some(a))
        | Kind::Len(a)
        | Kind::Try(a)
        | Kind::Closure(_, a)
        | Kind::LetRef(_, a)
        | Kind::LetData(_, a)
        | Kind::LetClosure(_, _, a) => next.push(a),
        Kind::Binary(_, a, b)
        | Kind::And(a, b)
        | Kind::Or(a, b)
        | Kind::Repeat(a, b)
        | Kind::While(_, a, b)
        | Kind::Assign(a, b)
        | Kind::AssignOp(_, a, b)
        | Kind::AssignExtreme(_, a, b) => next.extend([*a, *b]),
        Kind::Tuple(list) | Kind::Array(list) | Kind::Call(_, list) | Kind::Method(_, _, list) => {
            next.extend(*list);
        }
        Kind::OwnUnary(_, _, list) => next.extend(*list),
        Kind::OwnBinary(_, _, list) | Kind::OwnAssign(_, _, list) => next.extend(*list),
        Kind::CallClosure(var, list) => {
            found.insert(*var);
            next.extend(*list);
        }
        Kind::Cell(_, var, list, value) => {
            found.insert(*var);
            next.extend(*list);
            next.extend(*value);
        }
        Kind::Index(a, list) | Kind::Existing(a, list) | Kind::Atomic(_, a, list) => {
            next.push(a);
            next.extend(*list);
        }
        Kind::Struct(_, _, fields, rest) => {
            next.extend(fields.iter().map(|f| &f.1));
            next.extend(*rest);
        }
        Kind::Block(Block {
            statements, value, ..
        }) => {
            next.extend(*statements);
            next.extend(*value);
        }
        Kind::If(a, b, c) => {
            next.extend([*a, *b]);
            next.extend(*c);
        }
        Kind::Match(a, arms) => {
            next.push(a);
            for arm in *arms {
                choice(&arm.pat, next);
                next.extend(arm.guard);
                next.push(&arm.body);
            }
        }
        Kind::For(f) => {
            match &f.domain {
                Domain::Range(r) => range(r, next),
                Domain::Grid(ranges) => ranges.iter().for_each(|r| range(r, next)),
                Domain::Data(var) => {
                    found.insert(*var);
                }
            }
            next.push(&f.body);
        }
        Kind::LetElse(pat, value, other) => {
            choice(pat, next);
            next.extend([*value, *other]);
        }
        Kind::Print(Text { args, .. }) => next.extend(*args),
        Kind::Assert(cond, Text { args, .. }) => {
            next.push(cond);
            next.extend(*args);
        }
    }
}

fn choice(pat: &'static Choice, next: &mut Vec<&'static Expr>) {
    match pat {
        Choice::Any => {}
        Choice::Bind(_, _, inner) => choice(inner, next),
        Choice::Value(e) => next.push(e),
        Choice::Range(low, high, _) => {
            next.extend(low);
            next.extend(high);
        }
        Choice::Variant(_, fields) => fields.iter().for_each(|f| choice(&f.1, next)),
        Choice::Or(choices) => choices.iter().for_each(|c| choice(c, next)),
    }
}

fn range(r: &'static Range, next: &mut Vec<&'static Expr>) {
    next.extend([&r.low, &r.high]);
    for adapter in r.adapters {
        match adapter {
            Adapter::Rev => {}
            Adapter::StepBy(step) => next.push(step),
        }
    }
}
