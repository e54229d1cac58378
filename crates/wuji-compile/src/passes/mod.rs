//! The pass table: every pass once, in order, with a one-line description.

pub mod activations;
pub mod bit_vectorize;
pub mod bounds;
pub mod collapse;
pub mod cooperative;
pub mod demote_atomics;
pub mod flatten_loops;
pub mod grain_size;
pub mod inline;
pub mod inline_math;
pub mod large_values;
pub mod legality;
pub mod loops;
pub mod lower_access;
pub mod lower_checks;
pub mod lower_math;
pub mod lower_quantized;
pub mod lower_tree_access;
pub mod merge_guards;
pub mod narrow_indices;
pub mod observed_order;
pub mod offload;
pub mod overflow;
pub mod parallelize;
pub mod privatize;
pub mod promote;
pub mod reductions;
pub mod relax_math;
pub mod scalarize;
pub mod scratchpads;
pub mod serialize_small;
pub mod simplify;
pub mod split_fields;
pub mod split_sums;
pub mod vectorize;
pub mod vectorize_loads;

use crate::options::Options;
use crate::remark::Remark;
use std::fmt;
use std::time::Duration;
use wuji_ir::Result;
use wuji_ir::module::Module;

/// Whether a pass is required.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum PassKind {
    /// Later passes and backends rely on it.
    Lowering,
    /// Can be disabled; asks for fuel before each rewrite.
    Optimization,
}

/// One row of the table.
#[derive(Copy, Clone)]
pub struct Pass {
    /// The name, as in `--passes`.
    pub name: &'static str,
    /// What it does, in a few words.
    pub sentence: &'static str,
    /// Whether it is required.
    pub kind: PassKind,
    /// The pass.
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
    Lowering split_fields = split_fields::split_fields: "accesses of split fields become accesses of the fields of their components",
    Lowering large_values = large_values::large_values: "large vectors and matrices are arrays, and operations on them loops",
    Lowering promote = promote::promote: "locals that are not arrays become values",
    Optimization inline = inline::inline: "functions are inlined",
    Lowering overflow = overflow::overflow: "in debug mode, arithmetic behind an index and stores of quantized numbers are checked",
    Optimization simplify = simplify::simplify: "constant folding, algebra, common subexpressions and dead code",
    Optimization parallelize = parallelize::parallelize: "loops in serial code run in parallel, where their iterations are independent",
    Optimization collapse = collapse::collapse: "serial loops with independent iterations are dimensions of the parallel loop around them",
    Optimization split_sums = split_sums::split_sums: "on a GPU, threads share the long sums of few iterations",
    Lowering offload = offload::offload: "the kernel becomes serial and parallel tasks",
    Lowering cooperative = cooperative::cooperative: "cooperative iterations can be threads of a block",
    Optimization bit_vectorize = bit_vectorize::bit_vectorize: "loops over single bits handle a word at a time",
    Lowering lower_quantized = lower_quantized::lower_quantized: "accesses of packed fields become accesses of their words",
    Optimization demote_atomics = demote_atomics::demote_atomics: "plain updates where an address belongs to one iteration",
    Lowering observed_order = observed_order::observed_order: "in deterministic worlds, no result depends on the order of iterations",
    Optimization activations = activations::activations: "writes to the current cell of a loop do not activate it",
    Lowering lower_checks = lower_checks::lower_checks: "assertions, prints, random numbers and recursion become plain instructions",
    Lowering loops = loops::loops: "parallel tasks become loops over chunks, in memory order",
    Optimization reductions = reductions::reductions: "atomics on one address go to an accumulator first",
    Optimization scratchpads = scratchpads::scratchpads: "accesses of a block to cached fields go to local arrays",
    Optimization slices = privatize::slices: "fields of which a task updates one slice are found, for `privatize`",
    Optimization bounds = bounds::bounds: "accesses are proved in range, or loops are split so that they are",
    Lowering lower_access = lower_access::lower_access: "accesses become loads and stores at byte offsets",
    Optimization simplify_lowered = simplify::simplify: "`simplify` again, on addresses",
    Optimization merge_guards = merge_guards::merge_guards: "on a GPU, accesses under the same guard share one `if`",
    Lowering lower_tree_access = lower_tree_access::lower_tree_access: "tree accesses become loads, stores and calls",
    Optimization privatize = privatize::privatize: "scattered atomics go to per-worker copies of the field",
    Lowering serialize_small = serialize_small::serialize_small: "tasks that are faster on one thread use no atomics",
    Lowering scalarize = scalarize::scalarize: "vectors, matrices and structs become scalars, or vectors of a register",
    Optimization cleanup = simplify::simplify: "`simplify` again, on scalars",
    Optimization vectorize_loads = vectorize_loads::vectorize_loads: "on a GPU, inner loops read four neighbours at a time",
    Optimization narrow_indices = narrow_indices::narrow_indices: "on a GPU, offsets into small trees have 32 bits",
    Lowering grain_size = grain_size::grain_size: "the smallest number of iterations per chunk",
    Lowering lower_math = lower_math::lower_math: "mathematical functions are expanded, where there is no math library",
    Optimization relax_math = relax_math::relax_math: "products are contracted, and divisions share reciprocals, where the math mode allows it",
    Optimization inline_math = inline_math::inline_math: "on a CPU, short mathematical functions are inlined",
    Optimization flatten_loops = flatten_loops::flatten_loops: "on a GPU, divergent loops within an iteration are steps of the loop around them",
    Optimization vectorize = vectorize::vectorize: "parallel loops are vectorized",
    Lowering legality = legality::legality: "the invariants of backends are checked",
}

/// Parts of passes that can be disabled separately, each with a one-line description.
pub const SWITCHES: &[(&str, &str)] = &[
    (
        "peel",
        "iterations at periodic and clamped boundaries are loops of their own",
    ),
    (
        "task_fusion",
        "in lazy worlds, tasks over the same iterations become one",
    ),
    (
        "dead_store_elimination",
        "in lazy worlds, what is overwritten before anything reads it is not stored",
    ),
    (
        "task_dataflow",
        "in lazy worlds, a fused task does not load what it has stored or loaded before",
    ),
    (
        "activation_demotion",
        "in lazy worlds, a task does not activate cells that are active already",
    ),
    (
        "halo_recomputation",
        "in lazy worlds, a task computes what it reads around its elements, if nothing else needs it stored",
    ),
    (
        "horizontal_fusion",
        "in lazy worlds, small tasks that do not depend on each other are iterations of one loop",
    ),
    (
        "task_locality",
        "in lazy worlds, tasks run after others that have used the same fields, where they may",
    ),
    (
        "window_replay",
        "in lazy worlds on a GPU, a window that comes again with the same arguments is replayed as a graph",
    ),
    (
        "access_lowering",
        "tree accesses are lowered to inline code, not to calls of accessors that start at the root",
    ),
    (
        "entries",
        "tree accesses start at the current cell of a loop over a list",
    ),
    (
        "neighbours",
        "loads near the block of a loop find the neighbouring blocks once",
    ),
    (
        "stencil_versions",
        "on a GPU, unrolled accesses around an element have two versions, one without bounds checks",
    ),
    (
        "list_reuse",
        "lists of active cells are reused until a cell is activated or deactivated",
    ),
    (
        "compact_masks",
        "on a GPU, the first threads of a mask word take its active cells, if an iteration is long",
    ),
    (
        "interchange",
        "the innermost dimension of a range is the one that runs along memory",
    ),
    (
        "interleave",
        "accesses of lanes at a constant stride become interleaved loads and stores",
    ),
    (
        "cache_hints",
        "cache hints of the user are followed; without this, the cost model decides",
    ),
    (
        "tiles",
        "scratchpads for scatters and gathers of loops over blocks, without a hint of the user",
    ),
    (
        "sorted_sums",
        "on a GPU, iterations of a block that add floats to a scratchpad are sorted by cell, and lanes with the same cell add once",
    ),
    (
        "streams",
        "long loops that only write use non-temporal stores",
    ),
    (
        "read_only_cache",
        "on a GPU, what a task does not write is read through the read-only cache",
    ),
    (
        "store_fusion",
        "stores of one iteration to members of a word are one store",
    ),
    (
        "quantized_ownership",
        "stores to words that belong to one iteration are not atomic",
    ),
    (
        "component_vectors",
        "vectors of the program whose components fill a register stay vectors",
    ),
    (
        "flatten_cost",
        "on a GPU, loops are flattened only if they are divergent and the cost model expects a gain",
    ),
    (
        "vector_cost",
        "loops are vectorized only if the cost model expects a gain",
    ),
];

/// The row of a pass, by name.
pub fn find(name: &str) -> Option<&'static Pass> {
    PASSES.iter().find(|p| p.name == name)
}

/// How long one run of a pass took.
#[derive(Copy, Clone, Debug)]
pub struct Timing {
    /// The name of the pass.
    pub pass: &'static str,
    /// How long it ran.
    pub time: Duration,
}

/// Called with the name of a pass and the module it left.
pub type PrintAfter<'a> = Box<dyn FnMut(&'static str, &Module) + 'a>;

/// The state that a compilation passes from pass to pass.
#[derive(Default)]
pub struct Cx<'a> {
    /// What the code is for.
    pub options: Options,
    /// How long each pass ran.
    pub timings: Vec<Timing>,
    /// The tasks right after offloading.
    pub sources: Vec<crate::analysis::effects::Source>,
    /// Remarks about parallel loops.
    pub remarks: Vec<Remark>,
    /// Called with the module after some passes.
    pub print_after: Option<PrintAfter<'a>>,
    /// Whether functions keep their reverse sweeps, and stay functions for that.
    pub(crate) keeps_reverse: bool,
    spent: u64,
}

impl<'a> Cx<'a> {
    /// A context without results so far.
    pub fn new(options: &Options) -> Cx<'a> {
        Cx {
            options: options.clone(),
            ..Cx::default()
        }
    }

    /// Asks for one optional rewrite. Once it is refused, all later ones are.
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

    /// Whether a part of a pass, listed in [`SWITCHES`], is enabled.
    pub fn uses(&self, switch: &str) -> bool {
        debug_assert!(SWITCHES.iter().any(|s| s.0 == switch));
        !self.options.without.iter().any(|w| w == switch)
    }

    /// Whether a pass is enabled.
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
