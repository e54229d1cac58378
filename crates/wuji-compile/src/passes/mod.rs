//! The pass table: every pass once, in order, with a sentence about what it does.

pub mod activations;
pub mod bounds;
pub mod cooperative;
pub mod demote_atomics;
pub mod grain_size;
pub mod inline;
pub mod legality;
pub mod loops;
pub mod lower_access;
pub mod lower_checks;
pub mod lower_math;
pub mod lower_tree_access;
pub mod merge_guards;
pub mod narrow_indices;
pub mod observed_order;
pub mod offload;
pub mod overflow;
pub mod privatize;
pub mod promote;
pub mod reductions;
pub mod scalarize;
pub mod scratchpads;
pub mod serialize_small;
pub mod simplify;
pub mod vectorize;
pub mod vectorize_loads;

use crate::options::Options;
use crate::remark::Remark;
use std::fmt;
use std::time::Duration;
use wuji_ir::Result;
use wuji_ir::module::Module;

/// Whether the pipeline can do without a pass.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum PassKind {
    /// Later passes and backends rely on it.
    Lowering,
    /// Can be switched off; asks for fuel before each rewrite.
    Optimization,
}

/// One row of the table.
#[derive(Copy, Clone)]
pub struct Pass {
    pub name: &'static str,
    pub sentence: &'static str,
    pub kind: PassKind,
    pub run: fn(&mut Module, &mut Cx) -> Result<()>,
}

impl fmt::Debug for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.sentence)
    }
}

macro_rules! passes {
    ($($kind:ident $name:ident = $run:path: $sentence:literal,)*) => {
        /// Every pass, in the order in which the pipeline runs them.
        pub const PASSES: &[Pass] = &[$(Pass {
            name: stringify!($name),
            sentence: $sentence,
            kind: PassKind::$kind,
            run: $run,
        }),*];
    };
}

passes! {
    Lowering promote = promote::promote: "locals that are not arrays become values",
    Optimization inline = inline::inline: "bodies of functions take the place of calls",
    Lowering overflow = overflow::overflow: "in debug mode, arithmetic behind an index is checked",
    Optimization simplify = simplify::simplify: "constants, algebra, common parts and dead code",
    Lowering offload = offload::offload: "the kernel becomes serial and parallel tasks",
    Lowering cooperative = cooperative::cooperative: "iterations that work together can be threads of a block",
    Optimization demote_atomics = demote_atomics::demote_atomics: "plain updates where an address belongs to one iteration",
    Lowering observed_order = observed_order::observed_order: "nothing tells the order of iterations, where that is asked for",
    Optimization activations = activations::activations: "writes to a loop's own active cell need not activate it",
    Lowering lower_checks = lower_checks::lower_checks: "assertions, prints, random numbers and recursion become plain instructions",
    Lowering loops = loops::loops: "parallel tasks become loops over chunks, in memory order",
    Optimization reductions = reductions::reductions: "atomics on one address go to an accumulator first",
    Optimization scratchpads = scratchpads::scratchpads: "what blocks of loops touch of cached fields goes to local arrays",
    Optimization bounds = bounds::bounds: "accesses are proved inside, or loops are split so that they are",
    Lowering lower_access = lower_access::lower_access: "accesses become loads and stores at byte offsets",
    Optimization simplify_lowered = simplify::simplify: "the same again, on addresses",
    Optimization merge_guards = merge_guards::merge_guards: "on a GPU, accesses under one guard stand under one `if`",
    Lowering lower_tree_access = lower_tree_access::lower_tree_access: "steps down a tree become loads, stores and calls",
    Optimization privatize = privatize::privatize: "atomics that scatter go to copies that workers have for themselves",
    Lowering serialize_small = serialize_small::serialize_small: "tasks that are better off on one thread need no atomics",
    Lowering scalarize = scalarize::scalarize: "vectors, matrices and structs become scalars",
    Optimization cleanup = simplify::simplify: "the same again, on scalars",
    Optimization vectorize_loads = vectorize_loads::vectorize_loads: "on a GPU, inner loops read four neighbours at a time",
    Optimization narrow_indices = narrow_indices::narrow_indices: "on a GPU, offsets into small trees have 32 bits",
    Lowering grain_size = grain_size::grain_size: "how many iterations are worth handing to a thread",
    Lowering lower_math = lower_math::lower_math: "mathematical functions are written out, where there is no library of them",
    Optimization vectorize = vectorize::vectorize: "several iterations of parallel loops run at a time",
    Lowering legality = legality::legality: "what backends rely on holds",
}

/// Parts of passes that can be left out on their own, each with a sentence: the pass goes without.
pub const SWITCHES: &[(&str, &str)] = &[
    (
        "access_lowering",
        "walks to elements are part of the code around them, not calls of functions that walk from the root",
    ),
    (
        "entries",
        "walks start at the cell that a loop over a list is at",
    ),
    (
        "neighbours",
        "loads beside a loop's block find the blocks around it once",
    ),
    (
        "list_reuse",
        "lists of active cells are kept while no cell comes or goes",
    ),
    (
        "interleave",
        "what lanes access a constant distance apart is loaded and stored as a whole",
    ),
    (
        "cache_hints",
        "what the user says of caching is done; without it, costs decide",
    ),
    (
        "tiles",
        "pads for what loops over blocks scatter and gather, where nobody has asked for them",
    ),
    ("streams", "what long loops only write goes past the caches"),
    (
        "vector_cost",
        "loops run several iterations at a time only where that is thought to pay",
    ),
];

/// The row of a pass, by name.
pub fn find(name: &str) -> Option<&'static Pass> {
    PASSES.iter().find(|p| p.name == name)
}

/// How long one run of a pass took.
#[derive(Copy, Clone, Debug)]
pub struct Timing {
    pub pass: &'static str,
    pub time: Duration,
}

/// Called with the name of a pass and the module it left.
pub type PrintAfter<'a> = Box<dyn FnMut(&'static str, &Module) + 'a>;

/// What a compilation carries from pass to pass.
#[derive(Default)]
pub struct Cx<'a> {
    pub options: Options,
    pub timings: Vec<Timing>,
    /// What the tasks were right after offloading.
    pub sources: Vec<crate::analysis::effects::Source>,
    /// What became of parallel loops.
    pub remarks: Vec<Remark>,
    pub print_after: Option<PrintAfter<'a>>,
    spent: u64,
}

impl<'a> Cx<'a> {
    pub fn new(options: &Options) -> Cx<'a> {
        Cx {
            options: options.clone(),
            ..Cx::default()
        }
    }

    /// Asks for one optional rewrite. Once it says no, it always does.
    pub fn fuel(&mut self) -> bool {
        if self.options.fuel.is_some_and(|limit| self.spent >= limit) {
            return false;
        }
        self.spent += 1;
        true
    }

    /// Optional rewrites done so far: the upper end of a bisection.
    pub fn spent(&self) -> u64 {
        self.spent
    }

    /// Whether a part of a pass, named in [`SWITCHES`], is to be used.
    pub fn uses(&self, switch: &str) -> bool {
        debug_assert!(SWITCHES.iter().any(|s| s.0 == switch));
        !self.options.without.iter().any(|w| w == switch)
    }

    /// Whether a pass is to run.
    pub fn wants(&self, pass: &Pass) -> bool {
        pass.kind == PassKind::Lowering || !self.options.without.iter().any(|w| w == pass.name)
    }
}

impl fmt::Debug for Cx<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cx")
            .field("options", &self.options)
            .field("timings", &self.timings)
            .field("spent", &self.spent)
            .finish_non_exhaustive()
    }
}
