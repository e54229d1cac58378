//! Which variables a piece of source mentions, and whether control leaves it in the middle.

use crate::lang::ast::{
    Adapter, At, Atomic, Binary, Block, Choice, Domain, Expr, Kind, Range, Text,
};
use rustc_hash::{FxHashMap, FxHashSet};

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
fn has(e: &'static Expr, mut is: impl FnMut(&Kind) -> bool) -> bool {
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

/// Whether control leaves the body of a loop before its end, other than to the next iteration.
pub(super) fn leaves(body: &'static Expr, own: u32) -> bool {
    let mut inside = FxHashSet::default();
    has(body, |k| {
        match k {
            Kind::While(n, ..) | Kind::Loop(n, _) | Kind::Block(Block { label: Some(n), .. }) => {
                inside.insert(*n);
            }
            Kind::For(f) => {
                inside.insert(f.label);
            }
            _ => {}
        }
        false
    });
    returns(body)
        || has(body, |k| match k {
            Kind::Break(n, _) => !inside.contains(n),
            Kind::Continue(n) => *n != own && !inside.contains(n),
            _ => false,
        })
}

/// How a variable is changed.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum By {
    /// An operator whose order does not matter.
    Operator,
    Assignment,
    /// It may be: the variable is the receiver of a method.
    Method,
}

/// A place where a variable is changed.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) at: At,
    pub(super) var: u32,
    pub(super) by: By,
}

/// What an expression does with variables.
#[derive(Default, Debug)]
pub(super) struct Uses {
    pub(super) changes: Vec<Change>,
    /// Variables whose values are read, with one position each.
    pub(super) reads: FxHashMap<u32, At>,
    /// Closures that are called.
    pub(super) closures: Vec<u32>,
}

impl Uses {
    /// Adds those of an expression.
    pub(super) fn add(&mut self, e: &'static Expr) {
        let mut found = FxHashSet::default();
        let mut waiting = vec![e];
        while let Some(e) = waiting.pop() {
            match &e.kind {
                Kind::Var(var) => {
                    self.reads.insert(*var, e.at);
                }
                Kind::AssignOp(op, place, value) => {
                    self.change(e.at, place, by(*op), &mut waiting);
                    waiting.push(value);
                }
                Kind::OwnAssign(_, op, [place, value]) => {
                    self.change(e.at, place, by(*op), &mut waiting);
                    waiting.push(value);
                }
                Kind::AssignExtreme(_, place, value) => {
                    self.change(e.at, place, By::Operator, &mut waiting);
                    waiting.push(value);
                }
                Kind::Assign(place, value) => match extreme(place, value) {
                    Some((_, value)) => {
                        self.change(e.at, place, By::Operator, &mut waiting);
                        waiting.push(value);
                    }
                    None => {
                        self.change(e.at, place, By::Assignment, &mut waiting);
                        waiting.push(value);
                    }
                },
                Kind::LetRef(_, place) => self.change(e.at, place, By::Assignment, &mut waiting),
                Kind::Method(_, _, list) => {
                    if let Some(var) = list.first().and_then(root) {
                        let (at, by) = (e.at, By::Method);
                        self.changes.push(Change { at, var, by });
                    }
                    waiting.extend(*list);
                }
                Kind::CallClosure(var, list) => {
                    if !self.closures.contains(var) {
                        self.closures.push(*var);
                    }
                    waiting.extend(*list);
                }
                kind => visit(kind, &mut found, &mut waiting),
            }
        }
    }

    /// Adds the change of a place, without a read of its variable.
    fn change(
        &mut self,
        at: At,
        mut place: &'static Expr,
        by: By,
        waiting: &mut Vec<&'static Expr>,
    ) {
        if let Some(var) = root(place) {
            self.changes.push(Change { at, var, by });
        }
        loop {
            match &place.kind {
                Kind::Var(_) => return,
                Kind::Field(base, _) => place = base,
                Kind::Index(base, indices) => {
                    waiting.extend(*indices);
                    place = base;
                }
                _ => return waiting.push(place),
            }
        }
    }
}

/// The operation and the operand of `s = s.max(v)` or `s = s.min(v)`.
pub(super) fn extreme(
    place: &'static Expr,
    value: &'static Expr,
) -> Option<(Atomic, &'static Expr)> {
    let (Kind::Var(var), Kind::Method(_, name, [receiver, operand])) = (&place.kind, &value.kind)
    else {
        return None;
    };
    let op = match *name {
        "min" => Atomic::Min,
        "max" => Atomic::Max,
        _ => return None,
    };
    matches!(&receiver.kind, Kind::Var(same) if same == var).then_some((op, operand))
}

/// The variable that a place is a part of.
pub(super) fn root(place: &'static Expr) -> Option<u32> {
    match &place.kind {
        Kind::Var(var) => Some(*var),
        Kind::Field(base, _) | Kind::Index(base, _) => root(base),
        _ => None,
    }
}

fn by(op: Binary) -> By {
    if op.atomic().is_some() {
        By::Operator
    } else {
        By::Assignment
    }
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
