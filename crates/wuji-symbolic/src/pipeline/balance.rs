//! Long chains become trees of short ones, whose parts are computed in parallel.
//!
//! The sum of a million terms is a chain of a million additions. As one expression it would be a loop body of a million instructions;
//! cut into pieces it would be pieces that wait for each other. As a tree it is a few groups with many members.

use super::Options;
use crate::arena::{Arena, Id};
use crate::op::{Binary, Op};
use crate::trace::Trace;

/// Chains with more terms are divided.
const LONGEST: u8 = 64;
/// The terms of a part.
const PART: usize = 16;

/// The result of [`balance`].
#[derive(Debug, Default)]
pub struct Balanced {
    /// `None` if there is no long chain.
    pub trace: Option<Trace>,
    /// Parts of chains, which become intermediates.
    pub partial_sums: Vec<Id>,
    /// How often each node is used by nodes and outputs that are used themselves.
    pub references: Vec<u32>,
}

impl Balanced {
    fn unchanged(references: Vec<u32>) -> Balanced {
        Balanced {
            references,
            ..Balanced::default()
        }
    }
}

/// How often each node is used by nodes and outputs that are used themselves.
fn references(trace: &Trace) -> Vec<u32> {
    let mut counts = vec![0u32; trace.arena.len()];
    for id in trace.outputs.iter().flatten() {
        counts[id.at()] = counts[id.at()].saturating_add(1);
    }
    for id in trace.arena.ids().rev() {
        if counts[id.at()] > 0 {
            for child in trace.arena.children(id) {
                counts[child.at()] = counts[child.at()].saturating_add(1);
            }
        }
    }
    counts
}

/// Divides long chains of additions and multiplications.
pub fn balance(trace: &Trace, options: &Options) -> Balanced {
    let counts = references(trace);
    if !options.merge_chains {
        return Balanced::unchanged(counts);
    }
    let arena = &trace.arena;
    // Empty without blocks.
    let mut tagged = vec![
        false;
        if trace.blocks.is_empty() {
            0
        } else {
            arena.len()
        }
    ];
    (trace.blocks.iter().flatten()).for_each(|id| tagged[id.at()] = true);
    let is_tagged = |id: Id| tagged.get(id.at()) == Some(&true);
    let continues =
        |op: Op, child: Id| arena.op(child) == op && counts[child.at()] == 1 && !is_tagged(child);
    let terms = terms(arena, continues);
    let long = |id: &Id| terms[id.at()] > LONGEST && counts[id.at()] > 0;
    if !arena.ids().any(|id| long(&id)) {
        return Balanced::unchanged(counts);
    }
    let mut inside = vec![false; arena.len()];
    for id in arena.ids().rev().filter(|id| arena.op(*id).is_chain()) {
        if inside[id.at()] || long(&id) {
            let parts = arena.children(id);
            (parts.filter(|c| continues(arena.op(id), *c))).for_each(|c| inside[c.at()] = true);
        }
    }
    rebuild(trace, &counts, &terms, &inside, continues)
}

/// The number of terms of the chain that ends in each node; 255 for more.
fn terms(arena: &Arena, continues: impl Fn(Op, Id) -> bool) -> Vec<u8> {
    let mut terms = vec![1u8; arena.len()];
    for id in arena.ids() {
        let op = arena.op(id);
        if op.is_chain() {
            let of = |child: Id| {
                if continues(op, child) {
                    terms[child.at()]
                } else {
                    1
                }
            };
            let [a, b] = arena.operands(id).0.map(of);
            terms[id.at()] = a.saturating_add(b);
        }
    }
    terms
}

fn rebuild(
    trace: &Trace,
    counts: &[u32],
    terms: &[u8],
    inside: &[bool],
    continues: impl Fn(Op, Id) -> bool,
) -> Balanced {
    let old = &trace.arena;
    let mut arena = Arena::default();
    let mut new = vec![Id(0); old.len()];
    let mut partial_sums = Vec::new();
    for id in old.ids() {
        if counts[id.at()] == 0 || inside[id.at()] {
            continue;
        }
        let op = old.op(id);
        new[id.at()] = match op {
            Op::Binary(long) if long.is_chain() && terms[id.at()] > LONGEST => {
                let chain = chain(old, id, |child| continues(op, child));
                let moved = chain.into_iter().map(|t| new[t.at()]).collect();
                tree(&mut arena, long, moved, &mut partial_sums)
            }
            // Its `Select` rebuilds it.
            Op::Pair => Id(0),
            Op::Const
            | Op::Input
            | Op::Unary(_)
            | Op::Not
            | Op::Binary(_)
            | Op::Compare(_)
            | Op::Logic(_)
            | Op::Select => arena.rebuild(old.node(id), |child| new[child.at()]),
        };
    }
    arena.freeze();
    let moved = |ids: &Vec<Id>| -> Vec<Id> { ids.iter().map(|id| new[id.at()]).collect() };
    let used = |ids: &&Vec<Id>| ids.iter().all(|id| counts[id.at()] > 0);
    let trace = Trace {
        outputs: trace.outputs.iter().map(moved).collect(),
        blocks: trace.blocks.iter().filter(used).map(moved).collect(),
        inputs: trace.inputs.clone(),
        arena,
    };
    Balanced {
        references: references(&trace),
        trace: Some(trace),
        partial_sums,
    }
}

/// The terms of a chain, in the order of the program.
pub(super) fn chain(arena: &Arena, id: Id, continues: impl Fn(Id) -> bool) -> Vec<Id> {
    let mut terms = Vec::new();
    let mut work: Vec<Id> = Vec::new();
    let expand = |id: Id, work: &mut Vec<Id>| {
        let (operands, _) = arena.operands(id);
        // Operands are ordered by id: the rest of a chain is the newer one, but comes first in the program.
        let (a, b) = (operands[0], operands[1]);
        if continues(b) && !continues(a) {
            work.extend([a, b]);
        } else {
            work.extend([b, a]);
        }
    };
    expand(id, &mut work);
    while let Some(next) = work.pop() {
        if continues(next) {
            expand(next, &mut work);
        } else {
            terms.push(next);
        }
    }
    terms
}

fn tree(arena: &mut Arena, op: Binary, mut terms: Vec<Id>, partial_sums: &mut Vec<Id>) -> Id {
    while terms.len() > PART {
        let parts = terms.chunks(PART).map(|part| {
            let sum = fold(arena, op, part);
            if part.len() > 1 {
                partial_sums.push(sum);
            }
            sum
        });
        terms = parts.collect();
    }
    fold(arena, op, &terms)
}

fn fold(arena: &mut Arena, op: Binary, terms: &[Id]) -> Id {
    let (first, rest) = terms.split_first().unwrap_or((&Id(0), &[]));
    rest.iter().fold(*first, |sum, t| arena.binary(op, sum, *t))
}
