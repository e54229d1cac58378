//! Sums: like terms are collected, common factors are factored out.

use crate::arena::{Arena, Id, Node};
use crate::op::{Binary, Unary};
use rustc_hash::FxHashMap;

/// The terms of a sum with their coefficients, where products of constants and sums are expanded.
fn linear_terms(arena: &Arena, id: Id) -> Vec<(Id, f64)> {
    let mut terms = Vec::new();
    let mut work = vec![(id, 1.0)];
    while let Some((id, scale)) = work.pop() {
        match arena.node(id) {
            Node::Binary(Binary::Add, a, b) => work.extend([(b, scale), (a, scale)]),
            Node::Unary(Unary::Neg, a) => work.push((a, -scale)),
            Node::Binary(Binary::Mul, a, b) => match (arena.as_const(a), arena.as_const(b)) {
                (Some(c), _) => work.push((b, scale * c)),
                (_, Some(c)) => work.push((a, scale * c)),
                (None, None) => terms.push((id, scale)),
            },
            Node::Const(_)
            | Node::Input { .. }
            | Node::Unary(..)
            | Node::Not(_)
            | Node::Binary(..)
            | Node::Compare(..)
            | Node::Logic(..)
            | Node::Select(..)
            | Node::Pair(..) => terms.push((id, scale)),
        }
    }
    terms
}

/// Adds up terms that differ only by a coefficient. A sum without such terms stays as it is.
pub(super) fn collect(arena: &mut Arena, id: Id) -> Id {
    let terms = linear_terms(arena, id);
    let mut order: Vec<Id> = Vec::new();
    let mut sums: FxHashMap<Id, f64> = FxHashMap::default();
    let mut constant = 0.0;
    for (base, scale) in &terms {
        if let Some(value) = arena.as_const(*base) {
            constant += value * scale;
            continue;
        }
        let sum = sums.entry(*base).or_insert_with(|| {
            order.push(*base);
            0.0
        });
        *sum += scale;
    }
    let count = order.len() + usize::from(constant != 0.0);
    if count == terms.len() {
        return id;
    }
    let mut result = arena.constant(constant);
    for base in order {
        let scale = arena.constant(sums[&base]);
        let term = arena.binary(Binary::Mul, scale, base);
        result = arena.binary(Binary::Add, result, term);
    }
    result
}

/// The terms of a sum, with a sign.
fn signed_terms(arena: &Arena, id: Id) -> Vec<Term> {
    let mut terms = Vec::new();
    let mut work = vec![id];
    while let Some(id) = work.pop() {
        if let Node::Binary(Binary::Add, a, b) = arena.node(id) {
            work.extend([b, a]);
            continue;
        }
        let (id, negative) = match arena.negated(id) {
            Some(positive) => (positive, true),
            None => (id, false),
        };
        let factors = product_factors(arena, id);
        terms.push(Term { negative, factors });
    }
    terms
}

#[derive(Clone)]
struct Term {
    negative: bool,
    factors: Vec<Id>,
}

fn product_factors(arena: &Arena, id: Id) -> Vec<Id> {
    let mut factors = Vec::new();
    let mut work = vec![id];
    while let Some(id) = work.pop() {
        if let Node::Binary(Binary::Mul, a, b) = arena.node(id) {
            work.extend([b, a]);
        } else {
            factors.push(id);
        }
    }
    factors
}

/// Factors out what most terms have in common, again and again. A sum without common factors stays as it is.
pub(super) fn factor(arena: &mut Arena, id: Id) -> Id {
    let terms = signed_terms(arena, id);
    if most_common(&terms).is_none() {
        return id;
    }
    sum_of(arena, terms)
}

/// The factor that most terms have, if two terms have one.
fn most_common(terms: &[Term]) -> Option<Id> {
    // How many terms have it, and the last of them.
    let mut counts: FxHashMap<Id, (u32, usize)> = FxHashMap::default();
    let mut order = Vec::new();
    for (number, term) in terms.iter().enumerate() {
        for factor in &term.factors {
            let entry = counts.entry(*factor).or_insert_with(|| {
                order.push(*factor);
                (0, usize::MAX)
            });
            if entry.1 != number {
                *entry = (entry.0 + 1, number);
            }
        }
    }
    let mut best = None;
    for factor in order {
        let count = counts[&factor].0;
        if count >= 2 && best.is_none_or(|(_, most)| count > most) {
            best = Some((factor, count));
        }
    }
    best.map(|(factor, _)| factor)
}

fn sum_of(arena: &mut Arena, terms: Vec<Term>) -> Id {
    let mut parts: Vec<Id> = Vec::new();
    let mut rest = terms;
    while let Some(common) = most_common(&rest) {
        let mut inside = Vec::new();
        let mut outside = Vec::new();
        for mut term in rest {
            match term.factors.iter().position(|f| *f == common) {
                Some(at) => {
                    term.factors.remove(at);
                    inside.push(term);
                }
                None => outside.push(term),
            }
        }
        let sum = sum_of(arena, inside);
        parts.push(arena.binary(Binary::Mul, common, sum));
        rest = outside;
    }
    for term in rest {
        let mut product = arena.constant(1.0);
        for factor in &term.factors {
            product = arena.binary(Binary::Mul, product, *factor);
        }
        let term = if term.negative {
            arena.unary(Unary::Neg, product)
        } else {
            product
        };
        parts.push(term);
    }
    let zero = arena.constant(0.0);
    parts
        .into_iter()
        .fold(zero, |sum, p| arena.binary(Binary::Add, sum, p))
}
