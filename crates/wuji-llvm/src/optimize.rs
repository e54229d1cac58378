//! LLVM's passes, in the order and choice that suit our code.
//!
//! The code comes from our own passes: no exceptions, no globals, hardly a call, structured loops that
//! are rotated already. So what `default<O3>` does between functions, and most of its repetitions, find
//! nothing; and its SLP vectorizer takes most of the time of long straight-line code. This list gives
//! the same loops in a third of the time.

use inkwell::module::Module;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::TargetMachine;
use wuji_ir::{Error, Result};

/// How much work LLVM puts into the code.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum Effort {
    /// No passes: to look at code generation, and to find faults in the passes.
    None,
    #[default]
    Full,
}

/// One round is enough where code is clean; checking that a second finds nothing takes time.
const COMBINE: &str = "instcombine<max-iterations=1;no-verify-fixpoint>";

/// Locals to registers, equal values merged, loops in order.
const CLEAN: &[&str] = &[
    "sroa<modify-cfg>",
    "early-cse<memssa>",
    "simplifycfg<keep-loops;speculate-blocks;simplify-cond-branch>",
    COMBINE,
    "loop-mssa(loop-rotate<header-duplication>,licm<allowspeculation>,simple-loop-unswitch<no-nontrivial;trivial>)",
    "simplifycfg<keep-loops>",
    COMBINE,
    "loop(loop-idiom,indvars,loop-deletion,loop-unroll-full)",
    "sroa<modify-cfg>",
    "gvn",
    "sccp",
    "bdce",
    COMBINE,
    "correlated-propagation",
    "adce",
    "dse",
    "loop-mssa(licm<allowspeculation>)",
    "simplifycfg<keep-loops;hoist-common-insts;sink-common-insts>",
    COMBINE,
];

const VECTORIZE: &[&str] = &[
    "loop(loop-rotate<header-duplication>,loop-deletion)",
    "loop-vectorize",
    "loop-load-elim",
    COMBINE,
    "simplifycfg<forward-switch-cond;switch-range-to-icmp;switch-to-lookup;no-keep-loops;hoist-common-insts;sink-common-insts>",
];

/// Finds vectors in straight-line code; in long code it takes longer than everything else.
const STRAIGHT_LINE: &[&str] = &["slp-vectorizer"];

const FINISH: &[&str] = &[
    "vector-combine",
    COMBINE,
    "loop-unroll<O2>",
    "infer-alignment",
    "loop-mssa(licm<allowspeculation>)",
    "instsimplify",
    "div-rem-pairs",
    "simplifycfg<no-keep-loops>",
];

/// Functions of more instructions than this are left alone by the SLP vectorizer.
const MAX_STRAIGHT_LINE: usize = 256;

/// The list in LLVM's notation.
fn pipeline(straight_line: bool) -> String {
    let mut vectorize = VECTORIZE.to_vec();
    if straight_line {
        vectorize.extend(STRAIGHT_LINE);
    }
    vectorize.extend(FINISH);
    format!(
        "function<eager-inv>({}),function<eager-inv>({})",
        CLEAN.join(","),
        vectorize.join(",")
    )
}

/// Runs the passes; `size` is the number of instructions of the longest function.
pub(crate) fn run(
    module: &Module<'_>,
    machine: &TargetMachine,
    effort: Effort,
    size: usize,
) -> Result<()> {
    if effort == Effort::None {
        return Ok(());
    }
    let passes = pipeline(size <= MAX_STRAIGHT_LINE);
    let options = PassBuilderOptions::create();
    module
        .run_passes(&passes, machine, options)
        .map_err(|e| Error::new("W0503", "LLVM refused its passes").note(e.to_string()))
}
