//! What a program consists of.

use crate::pipeline::Analysis;
use crate::pipeline::group::Source;
use crate::pipeline::place::{GroupLoop, Index};
use std::collections::BTreeSet;
use std::fmt;
use wuji_ir::types::Scalar;

/// One group: a loop of the kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupInfo {
    /// Groups of a level need nothing of each other.
    pub level: u32,
    /// Members of the group: iterations of the loop.
    pub members: u64,
    /// Operations per member.
    pub operations: u64,
    /// Subexpressions that are computed once and used several times.
    pub locals: u64,
    /// Values loaded and stored per member.
    pub reads: u64,
    /// Values stored per member.
    pub writes: u64,
    /// Entries of tables per member.
    pub indices: u64,
    /// Constants loaded per member.
    pub constants: u64,
}

/// What a program consists of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explanation {
    /// Nodes of the traced expressions.
    pub nodes: u64,
    /// The groups, in the order of their levels.
    pub groups: Vec<GroupInfo>,
    /// Values that are stored for later groups.
    pub intermediates: u64,
    /// Bytes of the tables of indices and constants.
    pub index_bytes: u64,
    /// Bytes of the tables of constants.
    pub constant_bytes: u64,
    /// Bytes that a run reads and writes, if nothing is cached.
    pub bytes_moved: u64,
    /// Blocks that were ignored, because parts of them depend on each other.
    pub dissolved_blocks: usize,
    /// Whether the analysis of the trace is from the kernel cache.
    pub cached: bool,
}

impl Explanation {
    pub(crate) fn new(analysis: &Analysis, scalar: Scalar) -> Explanation {
        let size = u64::from(scalar.bytes());
        let groups: Vec<GroupInfo> = analysis.groups.iter().map(describe).collect();
        let sum = |of: fn(&GroupInfo) -> u64| groups.iter().map(|g| g.members * of(g)).sum::<u64>();
        let (index_bytes, constant_bytes) = (4 * sum(|g| g.indices), size * sum(|g| g.constants));
        let values = sum(|g| g.reads) + sum(|g| g.writes);
        Explanation {
            nodes: analysis.nodes as u64,
            intermediates: analysis.intermediates as u64,
            index_bytes,
            constant_bytes,
            bytes_moved: index_bytes + constant_bytes + size * values,
            dissolved_blocks: analysis.dissolved_blocks,
            cached: false,
            groups,
        }
    }
}

fn describe(group: &GroupLoop) -> GroupInfo {
    let arena = &group.template.arena;
    let starts = |indices: &mut dyn Iterator<Item = Index>| -> u64 {
        let tables = indices.filter_map(|index| match index {
            Index::Affine { .. } => None,
            Index::Table { start, .. } => Some(start),
        });
        tables.collect::<BTreeSet<usize>>().len() as u64
    };
    let values = || group.reads.iter().filter(|r| r.source != Source::Constant);
    let mut indices = values()
        .map(|r| r.index)
        .chain(group.writes.iter().map(|w| w.index));
    let computed = |n: &usize| group.locals[*n] && !arena.op(crate::arena::Id(*n as u32)).is_leaf();
    GroupInfo {
        level: group.level,
        members: u64::from(group.members),
        operations: arena.ids().filter(|id| arena.op(*id).cost() > 0).count() as u64,
        locals: (0..arena.len()).filter(computed).count() as u64,
        reads: values().count() as u64,
        writes: group.writes.len() as u64,
        indices: starts(&mut indices),
        constants: (group.reads.len() - values().count()) as u64,
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} nodes, {} groups, {} intermediates, {} bytes of indices, {} bytes of constants, {} bytes moved",
            self.nodes,
            self.groups.len(),
            self.intermediates,
            self.index_bytes,
            self.constant_bytes,
            self.bytes_moved
        )?;
        if self.dissolved_blocks > 0 {
            writeln!(
                f,
                "{} blocks were ignored: parts of them depend on each other through other values",
                self.dissolved_blocks
            )?;
        }
        if self.cached {
            writeln!(f, "the analysis is from the kernel cache")?;
        }
        writeln!(
            f,
            "level   members operations locals reads writes indices constants"
        )?;
        for g in &self.groups {
            writeln!(
                f,
                "{:>5} {:>9} {:>10} {:>6} {:>5} {:>6} {:>7} {:>9}",
                g.level,
                g.members,
                g.operations,
                g.locals,
                g.reads,
                g.writes,
                g.indices,
                g.constants
            )?;
        }
        Ok(())
    }
}
