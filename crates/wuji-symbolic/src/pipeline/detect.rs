//! Detects blocks: values that share intermediates which nothing else uses, such as the entries of the dense matrix of an element.
//!
//! Values of an element depend on the same inputs. So nodes with the same inputs are candidates for a block; its values are those that
//! are outputs, or that nodes with other inputs use. A block pays when intermediates disappear into it.

use super::supports::{EMPTY, LARGE, Set, supports};
use crate::arena::Id;
use crate::op::{Op, Unary};
use crate::trace::Trace;

/// What detection knows about a node.
#[derive(Copy, Clone, Debug)]
pub(super) struct Known {
    /// Something uses it.
    pub(super) used: bool,
    /// It is an output.
    pub(super) output: bool,
    /// It is an intermediate, unless it disappears into a block.
    pub(super) shared: bool,
    /// It belongs to a block already.
    pub(super) tagged: bool,
}

/// Nodes with the same inputs.
#[derive(Copy, Clone, Debug, Default)]
struct Candidate {
    /// Values that are outputs, or that other nodes use.
    values: u32,
    /// Intermediates that only these nodes use.
    hidden: u32,
    cost: u32,
    tagged: bool,
}

impl Candidate {
    fn pays(&self) -> bool {
        let work = self.cost > 2 * self.values && self.cost <= MOST_COST;
        self.values > 1 && self.hidden > 0 && work && !self.tagged
    }
}

/// The complexity of a block, at most. Its code is compiled as one loop body.
const MOST_COST: u32 = 1 << 14;

/// Several sets of inputs.
const MANY: Set = LARGE - 1;
/// No set of inputs.
const NONE: Set = LARGE - 2;

/// The values of each block, in the order of their first values.
pub(super) fn detect(trace: &Trace, known: impl Fn(Id) -> Known) -> Vec<Vec<Id>> {
    let (supports, count) = supports(&trace.arena);
    let users = users(trace, &supports, &known);
    let mut candidates = vec![Candidate::default(); count];
    let is_value = |id: Id, facts: Known| {
        let exported = facts.output || users[id.at()] != supports[id.at()];
        let stored = facts.output || !is_transparent(trace.arena.op(id));
        facts.used && exported && stored
    };
    let inner = || {
        let computed = |id: &Id| !trace.arena.op(*id).is_leaf() && known(*id).used;
        let small = |id: &Id| !matches!(supports[id.at()], EMPTY | LARGE);
        trace.arena.ids().filter(computed).filter(small)
    };
    for id in inner() {
        let facts = known(id);
        if facts.shared
            && !facts.output
            && let Some(user) = candidates.get_mut(users[id.at()] as usize)
        {
            user.hidden += 1;
        }
        let own = &mut candidates[supports[id.at()] as usize];
        own.cost = own.cost.saturating_add(trace.arena.op(id).cost());
        own.tagged |= facts.tagged;
        own.values += u32::from(is_value(id, facts));
    }
    let mut number_of = vec![NONE; count];
    let mut blocks: Vec<Vec<Id>> = Vec::new();
    for id in inner().filter(|id| is_value(*id, known(*id))) {
        let set = supports[id.at()] as usize;
        if !candidates[set].pays() {
            continue;
        }
        if number_of[set] == NONE {
            number_of[set] = blocks.len() as u32;
            blocks.push(Vec::with_capacity(candidates[set].values as usize));
        }
        blocks[number_of[set] as usize].push(id);
    }
    blocks
}

/// The inputs of the nodes that use each node.
fn users(trace: &Trace, supports: &[Set], known: impl Fn(Id) -> Known) -> Vec<Set> {
    let mut users = vec![NONE; trace.arena.len()];
    let merge = |a: Set, b: Set| if a == NONE || a == b { b } else { MANY };
    for id in trace.arena.ids().rev().filter(|id| known(*id).used) {
        let mut own = supports[id.at()];
        if is_transparent(trace.arena.op(id)) && users[id.at()] != NONE {
            own = users[id.at()];
        }
        trace.arena.fold(id, (), |(), child| {
            users[child.at()] = merge(users[child.at()], own);
        });
    }
    users
}

/// Whether users of a node compute it again from its operands: memory has no truth values, and a sign costs nothing.
fn is_transparent(op: Op) -> bool {
    !op.is_number() || op == Op::Unary(Unary::Neg)
}
