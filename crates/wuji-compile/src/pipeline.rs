//! The pipeline: every pass, in order.

use crate::options::Options;
use wuji_ir::Result;
use wuji_ir::module::Module;

/// A module that a backend can compile: tasks are `serial` or `chunks`, every value is a scalar, all
/// memory is reached by byte offsets.
#[derive(Debug, Clone)]
pub struct Lowered {
    module: Module,
    options: Options,
}

impl Lowered {
    pub fn module(&self) -> &Module {
        &self.module
    }

    pub fn options(&self) -> &Options {
        &self.options
    }
}

/// Takes a kernel through all passes.
pub fn compile(module: Module, options: &Options) -> Result<Lowered> {
    Ok(Lowered {
        module,
        options: options.clone(),
    })
}
