//! The pipeline of LLVM passes.
//!
//! The code comes from our own passes: no exceptions, no globals, few calls, and loops that are already
//! rotated. The interprocedural passes of `default<O3>` and most of its repetitions find nothing there, and
//! its SLP vectorizer dominates the compile time of long straight-line code. This pipeline gives the same
//! loops in a third of the time.

use inkwell::OptimizationLevel;
use inkwell::module::Module;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::TargetMachine;
use std::time::{Duration, Instant};
use wuji_ir::{Error, Result};

/// The optimization effort of LLVM.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum Effort {
    /// No passes: to inspect code generation, and to isolate bugs in the passes.
    None,
    /// Fast compilation: the first tier of a kernel.
    Fast,
    /// All of LLVM's usual optimizations.
    #[default]
    Full,
}

/// One iteration is enough for clean code; verifying the fixed point takes time.
const COMBINE: &str = "instcombine<max-iterations=1;no-verify-fixpoint>";

/// Inlines the functions that request it. They exist only if our passes do not lower accesses
/// (`access_lowering`).
const INLINE: &str = "always-inline";

/// Promotes locals to registers, merges equal values and normalizes loops.
///
/// These passes found nothing worth their time in 17 kernels of the benchmarks and examples: `sccp`, `bdce`,
/// `adce`, `loop-load-elim`, and further rounds of `instcombine` and `simplifycfg` (`docs/performance.md`).
const CLEAN: &[&str] = &[
    "sroa<modify-cfg>",
    "early-cse<memssa>",
    "simplifycfg<keep-loops;speculate-blocks;simplify-cond-branch>",
    COMBINE,
    "loop-mssa(loop-rotate<header-duplication>,licm<allowspeculation>,simple-loop-unswitch<no-nontrivial;trivial>)",
    "loop(loop-idiom,indvars,loop-deletion,loop-unroll-full)",
    "sroa<modify-cfg>",
    "gvn",
    COMBINE,
    "correlated-propagation",
    "dse",
    "loop-mssa(licm<allowspeculation>)",
    "simplifycfg<keep-loops;hoist-common-insts;sink-common-insts>",
];

const VECTORIZE: &[&str] = &[
    "loop(loop-rotate<header-duplication>,loop-deletion)",
    "loop-vectorize",
    COMBINE,
];

/// SLP vectorization of straight-line code; in long code it takes longer than everything else.
const STRAIGHT_LINE: &[&str] = &["slp-vectorizer"];

const FINISH: &[&str] = &[
    "vector-combine",
    "loop-unroll<O2>",
    "infer-alignment",
    "loop-mssa(licm<allowspeculation>)",
    "instsimplify",
    "div-rem-pairs",
    "simplifycfg<no-keep-loops>",
];

const GPU_FINISH: &[&str] = &[
    "loop-unroll<O2>",
    "infer-alignment",
    "early-cse<memssa>",
    COMBINE,
    "loop-mssa(licm<allowspeculation>)",
    "load-store-vectorizer",
    "simplifycfg<no-keep-loops>",
];

/// The SLP vectorizer skips functions with more instructions than this.
const MAX_STRAIGHT_LINE: usize = 256;

/// The fast tier: only promotes values to registers.
const FAST: &[&str] = &["sroa<modify-cfg>", "early-cse"];

/// One entry of the pipeline.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// A function pass with its options, in LLVM's notation.
    Pass(&'static str),
    /// A module pass.
    Whole(&'static str),
    /// All functions run the passes before this point first.
    Barrier,
}

/// The pipeline for a module whose longest function has `size` instructions.
pub(crate) fn steps(effort: Effort, size: usize) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut add = |passes: &[&'static str]| steps.extend(passes.iter().map(|p| Step::Pass(p)));
    match effort {
        Effort::None => {}
        Effort::Fast => add(FAST),
        Effort::Full => {
            steps.push(Step::Whole(INLINE));
            let mut add =
                |passes: &[&'static str]| steps.extend(passes.iter().map(|p| Step::Pass(p)));
            add(CLEAN);
            steps.push(Step::Barrier);
            let mut add =
                |passes: &[&'static str]| steps.extend(passes.iter().map(|p| Step::Pass(p)));
            add(VECTORIZE);
            if size <= MAX_STRAIGHT_LINE {
                add(STRAIGHT_LINE);
            }
            add(FINISH);
        }
    }
    steps
}

/// The pipeline in LLVM's notation.
fn pipeline(steps: &[Step]) -> String {
    let whole = steps.iter().filter_map(|s| match s {
        Step::Whole(pass) => Some((*pass).to_owned()),
        Step::Pass(_) | Step::Barrier => None,
    });
    let functions = steps.split(|s| *s == Step::Barrier).map(|part| {
        let passes: Vec<&str> = part.iter().filter_map(|s| s.pass()).collect();
        format!("function<eager-inv>({})", passes.join(","))
    });
    whole.chain(functions).collect::<Vec<_>>().join(",")
}

impl Step {
    fn pass(self) -> Option<&'static str> {
        match self {
            Step::Pass(pass) => Some(pass),
            Step::Whole(_) | Step::Barrier => None,
        }
    }

    /// The entry as a pipeline of its own, with its name.
    fn alone(self) -> Option<(&'static str, String)> {
        match self {
            Step::Pass(pass) => Some((pass, format!("function({pass})"))),
            Step::Whole(pass) => Some((pass, pass.to_owned())),
            Step::Barrier => None,
        }
    }
}

/// The effort of instruction selection and register allocation.
pub(crate) fn codegen_level(effort: Effort) -> OptimizationLevel {
    match effort {
        Effort::None | Effort::Full => OptimizationLevel::Default,
        // `Less` takes nearly as long as `Default`. `None` selects instructions one by one and allocates
        // registers block by block, in linear time.
        Effort::Fast => OptimizationLevel::None,
    }
}

/// Runs the pipeline; `size` is the number of instructions of the longest function.
pub(crate) fn run(
    module: &Module<'_>,
    machine: &TargetMachine,
    effort: Effort,
    size: usize,
) -> Result<()> {
    let steps = steps(effort, size);
    if steps.is_empty() {
        return Ok(());
    }
    run_text(module, machine, &pipeline(&steps))
}

/// Runs the passes one by one and measures each. Analyses are recomputed for each pass, so the sum exceeds
/// the time of [`run`].
pub(crate) fn run_timed(
    module: &Module<'_>,
    machine: &TargetMachine,
    effort: Effort,
    size: usize,
) -> Result<Vec<(&'static str, Duration)>> {
    let passes = steps(effort, size).into_iter().filter_map(Step::alone);
    passes
        .map(|(pass, text)| {
            let started = Instant::now();
            run_text(module, machine, &text)?;
            Ok((pass, started.elapsed()))
        })
        .collect()
}

/// Runs the pipeline for GPUs, without vectorization.
pub(crate) fn run_for_gpu(module: &Module<'_>, machine: &TargetMachine) -> Result<()> {
    let mut steps = vec![Step::Whole(INLINE)];
    steps.push(Step::Pass("infer-address-spaces"));
    steps.extend(CLEAN.iter().map(|p| Step::Pass(p)));
    steps.push(Step::Pass("infer-address-spaces"));
    steps.extend(GPU_FINISH.iter().map(|p| Step::Pass(p)));
    run_text(module, machine, &pipeline(&steps))
}

fn run_text(module: &Module<'_>, machine: &TargetMachine, passes: &str) -> Result<()> {
    module
        .run_passes(passes, machine, PassBuilderOptions::create())
        .map_err(|e| Error::new("W0503", "LLVM rejected the pass pipeline").note(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Host;
    use inkwell::context::Context;

    #[test]
    fn unknown_passes_are_an_error() {
        let context = Context::create();
        let module = context.create_module("m");
        let machine = Host::detect()
            .unwrap()
            .machine(codegen_level(Effort::Fast))
            .unwrap();
        let error = run_text(&module, &machine, "no-such-pass").unwrap_err();
        assert_eq!(
            error.to_string(),
            "error[W0503]: LLVM rejected the pass pipeline\n  = note: unknown pass name 'no-such-pass'"
        );
    }
}
