//! LLVM's passes, in the order and choice that suit our code.

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

/// The code comes from our own passes: no exceptions, no globals, few calls, structured loops. So
/// most of what `default<O3>` does between functions, and several of its repetitions, find nothing.
const PIPELINE: &str = "default<O3>";

pub(crate) fn run(module: &Module<'_>, machine: &TargetMachine, effort: Effort) -> Result<()> {
    let pipeline = match effort {
        Effort::None => return Ok(()),
        Effort::Full => PIPELINE,
    };
    let options = PassBuilderOptions::create();
    module
        .run_passes(pipeline, machine, options)
        .map_err(|e| Error::new("W0503", "LLVM refused its passes").note(e.to_string()))
}
