//! From a trace to loops over tables, one plain function per stage.
//!
//! ```text
//! balance      long chains become trees of short ones
//! decompose    expressions that several others use become intermediates with memory of their own
//! group        expressions of the same structure and level become members of a group
//! harvest      the leaves of all members become columns; equal columns become one, uniform constants part of the template
//! simplify     the template of a group is simplified, once for all members
//! locals       subexpressions of a template that are used several times are computed once
//! place        members are sorted, intermediates get positions, columns that are affine need no table
//! emit         a module of the IR with a parallel loop per group
//! ```
//!
//! Every stage is a loop over the nodes of the trace, or over the leaves of all members. So time and memory are linear in the trace.

pub mod balance;
pub mod decompose;
mod detect;
pub mod emit;
pub mod group;
pub mod harvest;
pub mod locals;
pub mod place;
pub mod simplify;
mod supports;
#[cfg(test)]
mod tests;

use crate::recording::too_large;
use crate::trace::Trace;
use simplify::Simplify;
use wuji_ir::{Error, Result};

/// Switches and thresholds of the stages.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// Sums and products are flattened and ordered, so that the order of their terms does not matter for grouping.
    pub merge_chains: bool,
    /// Expressions that several others use are computed once.
    pub global_decomposition: bool,
    /// Values that [`block`](crate::block) names are computed together.
    pub tagging: bool,
    /// Values that depend on the same inputs and share intermediates are computed together, as if [`block`](crate::block) named them.
    pub detect_blocks: bool,
    /// Rules for the template of a group.
    pub simplify: Simplify,
    /// Subexpressions that a template uses several times are computed once.
    pub local_decomposition: bool,
    /// Members of a group are sorted by address.
    pub sort_members: bool,
    /// Columns that are affine, or at a constant distance from another one, need no table.
    pub coalesce: bool,
    /// An intermediate is used at least so often.
    pub min_references: u32,
    /// An intermediate has at least this complexity.
    pub min_complexity: u32,
    /// An expression of more complexity is divided, even if its parts are used once.
    pub max_complexity: u32,
    /// More groups are an error: each is compiled.
    pub max_groups: usize,
    /// Bits of hashes that are used; tests force collisions with few.
    #[doc(hidden)]
    pub hash_mask: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            merge_chains: true,
            global_decomposition: true,
            tagging: true,
            detect_blocks: false,
            simplify: Simplify::default(),
            local_decomposition: true,
            sort_members: true,
            coalesce: true,
            min_references: 2,
            min_complexity: 3,
            max_complexity: 2048,
            max_groups: 1024,
            hash_mask: u64::MAX,
        }
    }
}

impl Options {
    /// Every stage that can be switched off is off: expressions are only grouped.
    pub fn none() -> Options {
        Options {
            merge_chains: false,
            global_decomposition: false,
            tagging: false,
            detect_blocks: false,
            simplify: Simplify::none(),
            local_decomposition: false,
            sort_members: false,
            coalesce: false,
            ..Options::default()
        }
    }
}

/// Everything that a program needs: its loops and the tables that they read.
#[derive(Clone, Debug)]
pub struct Analysis {
    /// The loops, in the order in which they run.
    pub groups: Vec<place::GroupLoop>,
    /// The tables.
    pub tables: place::Tables,
    /// How many intermediates there are.
    pub intermediates: usize,
    /// Elements of inputs and outputs.
    pub inputs: Vec<u32>,
    /// Elements of outputs.
    pub outputs: Vec<u32>,
    /// Blocks that were ignored, because parts of them depend on each other through other expressions.
    pub dissolved_blocks: usize,
    /// Nodes of the trace.
    pub nodes: usize,
    /// Whether loops compute shared subexpressions once.
    pub local_decomposition: bool,
}

/// A broken invariant between stages.
pub(crate) fn bug(what: &str) -> Error {
    Error::new("W0330", what).note("this is a bug in the compiler, not in the traced function")
}

/// Runs all stages but the last.
pub fn analyze(trace: &Trace, options: &Options) -> Result<Analysis> {
    let mut balanced = balance::balance(trace, options);
    let rebuilt = balanced.trace.take();
    if rebuilt.as_ref().is_some_and(|trace| trace.arena.is_full()) {
        return Err(too_large());
    }
    let trace = rebuilt.as_ref().unwrap_or(trace);
    let units = decompose::decompose(trace, balanced, options);
    let groups = group::group(trace, &units, options);
    if groups.len() > options.max_groups {
        let what = format!(
            "the trace has {} different kinds of expressions; at most {} are compiled",
            groups.len(),
            options.max_groups
        );
        return Err(Error::new("W0805", what)
            .note("code is generated for each kind, and pays where many expressions share it")
            .help("trace a computation that repeats, or raise `Options::max_groups`"));
    }
    let mut placer = place::Placer::new(trace, &units, options);
    // The leaves of a group are freed when it is placed.
    for group in groups {
        let harvested = harvest::harvest(trace, &group)?;
        let template =
            simplify::simplify(&harvested.template, &options.simplify, options.hash_mask);
        let locals = locals::locals(&template, options.local_decomposition);
        placer.place(&group, harvested, template, locals);
    }
    let mut analysis = placer.finish();
    analysis.dissolved_blocks = units.dissolved_blocks;
    let tables = &analysis.tables;
    check_entries(analysis.intermediates)?;
    check_entries(tables.indices.len())?;
    check_entries(tables.constants.len())?;
    Ok(analysis)
}

/// Indices into tables have 32 bits.
fn check_entries(entries: usize) -> Result<()> {
    if entries > i32::MAX as usize {
        let what = "the tables of the trace have more than 2147483647 entries";
        let help = "trace a part of the computation, and run it for all parts";
        return Err(Error::new("W0805", what).help(help));
    }
    Ok(())
}
