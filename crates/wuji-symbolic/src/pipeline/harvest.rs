//! Harvests the leaves of all members of a group into columns.
//!
//! A column has the leaf that each member has at one position of the template. Equal columns become one slot of the template, and a
//! column with the same constant for all members becomes that constant.

use super::bug;
use super::group::{Group, Operand, Source, Step};
use crate::arena::{Arena, Id};
use crate::parallel;
use crate::trace::Trace;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use wuji_ir::Result;

/// The expression that all members of a group share. Its inputs are slots.
#[derive(Clone, Debug)]
pub struct Template {
    /// Its nodes.
    pub arena: Arena,
    /// What it stores.
    pub roots: Vec<Id>,
}

/// The leaves at one position, of all members.
#[derive(Clone, Debug)]
pub struct Column {
    /// Where they are loaded from.
    pub source: Source,
    /// Nodes of the trace.
    pub nodes: Vec<Id>,
}

/// The result of [`harvest`].
#[derive(Debug)]
pub struct Harvested {
    /// The shared expression.
    pub template: Template,
    /// By slot.
    pub columns: Vec<Column>,
    /// Where each root is stored: the outputs have a number, intermediates get positions later.
    pub stores: Vec<Source>,
}

/// What a leaf of the code is in the template.
#[derive(Copy, Clone)]
enum Leaf {
    Slot(u32),
    Uniform(f64),
}

/// Harvests the leaves of a group.
pub fn harvest(trace: &Trace, group: &Group) -> Result<Harvested> {
    let steps = group.steps();
    let sources = leaf_sources(&steps);
    if group.leaves.len() != group.units.len() * sources.len() {
        return Err(bug("the members of a group have different leaves"));
    }
    let (leaves, columns) = merge_columns(trace, &sources, &group.leaves);
    let (template, stores) = build(&steps, &leaves)?;
    Ok(Harvested {
        template,
        columns,
        stores,
    })
}

fn leaf_sources(steps: &[Step]) -> Vec<Source> {
    let mut sources = Vec::new();
    let mut add = |operand: &Operand| {
        if let Operand::Leaf(source) = operand {
            sources.push(*source);
        }
    };
    for step in steps {
        match step {
            Step::Compute(_, operands) => operands.iter().for_each(&mut add),
            Step::Store(_, operand) => add(operand),
        }
    }
    sources
}

/// A thread copies at least so many leaves.
const LEAST: usize = 1 << 16;

/// The leaves of all members at one position, and a hash of them.
struct Strand {
    nodes: Vec<Id>,
    hash: u64,
}

/// Leaves follow each other member by member; their columns.
fn strands(columns: usize, members: &[Id]) -> Vec<Strand> {
    let count = members.len().checked_div(columns).unwrap_or(0);
    let least = LEAST.div_ceil(count.max(1));
    let parts = parallel::parts(columns, least, |range| {
        let empty = |_| Strand {
            nodes: Vec::with_capacity(count),
            hash: 3,
        };
        let mut strands: Vec<Strand> = range.clone().map(empty).collect();
        for member in members.chunks_exact(columns) {
            for (strand, node) in strands.iter_mut().zip(&member[range.clone()]) {
                let mixed = strand.hash.rotate_left(23) ^ u64::from(node.0);
                strand.hash = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                strand.nodes.push(*node);
            }
        }
        strands
    });
    parts.into_iter().flatten().collect()
}

/// The columns that differ. Leaves follow each other member by member.
fn merge_columns(trace: &Trace, sources: &[Source], members: &[Id]) -> (Vec<Leaf>, Vec<Column>) {
    let mut columns: Vec<Column> = Vec::new();
    let mut found: FxHashMap<u64, Vec<u32>> = FxHashMap::default();
    let mut leaves = Vec::with_capacity(sources.len());
    for (source, strand) in sources.iter().zip(strands(sources.len(), members)) {
        let Strand { nodes, hash } = strand;
        let first = nodes.first().copied().unwrap_or(Id(0));
        let uniform = nodes.iter().all(|n| *n == first);
        if let Some(value) = trace.arena.as_const(first).filter(|_| uniform) {
            leaves.push(Leaf::Uniform(value));
            continue;
        }
        let same = found.entry(hash).or_default();
        let known = same
            .iter()
            .copied()
            .find(|slot| columns[*slot as usize].nodes == nodes);
        let slot = known.unwrap_or_else(|| {
            let slot = columns.len() as u32;
            same.push(slot);
            columns.push(Column {
                source: *source,
                nodes,
            });
            slot
        });
        leaves.push(Leaf::Slot(slot));
    }
    (leaves, columns)
}

/// The template of a code.
fn build(steps: &[Step], leaves: &[Leaf]) -> Result<(Template, Vec<Source>)> {
    let mut arena = Arena::default();
    let (mut roots, mut stores) = (Vec::new(), Vec::new());
    let mut values: Vec<Id> = Vec::new();
    let mut next = leaves.iter();
    let mut operand = |arena: &mut Arena, values: &[Id], o: &Operand| match o {
        Operand::Instruction(n) => values.get(*n as usize).copied(),
        Operand::Leaf(_) => next.next().map(|leaf| match leaf {
            Leaf::Slot(slot) => arena.input(0, *slot),
            Leaf::Uniform(value) => arena.constant(*value),
        }),
    };
    let broken = || bug("the code of a group is inconsistent");
    for step in steps {
        match step {
            Step::Compute(op, operands) => {
                let operands: Option<SmallVec<[Id; 4]>> = operands
                    .iter()
                    .map(|o| operand(&mut arena, &values, o))
                    .collect();
                let value = operands.and_then(|operands| arena.apply(*op, &operands));
                values.push(value.ok_or_else(broken)?);
            }
            Step::Store(source, o) => {
                roots.push(operand(&mut arena, &values, o).ok_or_else(broken)?);
                stores.push(*source);
            }
        }
    }
    Ok((Template { arena, roots }, stores))
}
