//! Compiled code and its launch plan.

use super::tiered::TieredCode;
use crate::backend::tasks::LaunchPlan;
use crate::backend::{Executable, Loaded};
use crate::flush::Flush;
use crate::profile::Kernel;
use crate::program::{broken, tree_memory};
use crate::remarks::Remarks;
use crate::report::Collector;
use crate::sparse::SparsePlan;
use crate::tier::Tier;
use std::sync::Arc;
use wuji_ir::module::Module;
use wuji_ir::{Error, Result};
use wuji_llvm::CompiledKernel;

/// A program of the CPU backend.
#[derive(Debug)]
pub(crate) struct NativeProgram {
    pub(crate) code: Arc<TieredCode>,
    pub(crate) plan: LaunchPlan,
    /// Plans of trees with sparse nodes.
    pub(crate) sparse: Vec<Option<SparsePlan>>,
    /// Used under the device lock.
    pub(crate) collector: Collector,
    /// Chunks, and the copies they use, do not depend on the number of threads.
    pub(crate) deterministic: bool,
    pub(crate) flush: Flush,
}

impl NativeProgram {
    /// For a lowered module.
    pub(crate) fn new(
        module: &Module,
        code: TieredCode,
        deterministic: bool,
        flush: Flush,
    ) -> Result<NativeProgram> {
        for k in 0..module.tasks.len() {
            code.task(k).ok_or_else(|| broken("a task has no code"))?;
        }
        let sparse = module
            .trees
            .iter()
            .map(|(id, tree)| Ok(SparsePlan::of(tree, &tree_memory(module, id)?)))
            .collect::<Result<_>>()?;
        let plan = LaunchPlan::of(module)?;
        code.versions
            .exempt(|number| plan.tasks.iter().any(|t| t.number == number));
        Ok(NativeProgram {
            code: Arc::new(code),
            plan,
            sparse,
            collector: Collector::new(module),
            deterministic,
            flush,
        })
    }

    pub(crate) fn loaded(
        self,
        module: Module,
        kernel: Arc<Kernel>,
        remarks: Arc<Remarks>,
    ) -> Loaded {
        Loaded {
            kernel: Some(kernel),
            remarks: Some(remarks),
            ..Loaded::new(module, self)
        }
    }
}

impl Executable for NativeProgram {
    fn tier(&self) -> Option<Tier> {
        Some(self.code.tier())
    }

    fn machine_code(&self) -> Option<&CompiledKernel> {
        Some(self.code.first_code())
    }

    fn take_error(&self) -> Option<Error> {
        self.code.take_error()
    }
}
