//! A program on a GPU: its kernels and launch data.

use super::engine::CudaEngine;
use super::memory::DeviceBuffer;
use super::module::{CudaModule, Function};
use super::pending::LaunchInfo;
use crate::backend::Executable;
use crate::backend::tasks::{LaunchPlan, TaskPlan};
use crate::program::broken;
use crate::tier::Tier;
use std::ffi::CString;
use std::sync::{Arc, Mutex};
use wuji_ir::Result;
use wuji_ir::entities::Func;
use wuji_ir::module::{LocalRole, Module, SiteKind};
use wuji_ir::ops::{Op, Space};
use wuji_ir::types::Scalar;
use wuji_llvm::cuda::{DeviceLayout, Ptx, threads_of_block};
use wuji_llvm::{Object, Timings};

#[derive(Debug)]
pub(crate) struct CudaProgram {
    pub(crate) engine: Arc<CudaEngine>,
    pub(crate) tasks: Vec<GpuTask>,
    pub(crate) layout: DeviceLayout,
    pub(crate) temps: Arc<DeviceBuffer>,
    /// Offsets of the result's scalars in the temps.
    pub(crate) result: Vec<(Scalar, usize)>,
    /// Whether it prints.
    pub(crate) prints: bool,
    /// Whether it draws random numbers.
    pub(crate) draws: bool,
    /// For each tree: whether a launch may activate cells.
    pub(crate) activates: Vec<bool>,
    /// The info of the last launch, which the next one usually shares.
    pub(crate) info: Mutex<Option<Arc<LaunchInfo>>>,
    module: CudaModule,
}

#[derive(Debug)]
pub(crate) struct GpuTask {
    pub(crate) plan: TaskPlan,
    pub(crate) function: Function,
    /// Block size.
    pub(crate) block: u32,
    /// Blocks that are resident on the whole device.
    pub(crate) blocks: u32,
    /// Whether the threads of a block reduce values together.
    pub(crate) reduces: bool,
}

impl Executable for CudaProgram {
    fn tier(&self) -> Option<Tier> {
        Some(Tier::Best)
    }
}

impl Drop for CudaProgram {
    fn drop(&mut self) {
        // Its kernels may still be running.
        let code = (self.module.clone(), self.temps.clone());
        self.engine.free(code, Vec::new());
    }
}

/// The code of a program, with its properties: everything that is cached.
///
/// The code is PTX. The driver caches the machine code that it compiles. Machine code that is extracted to be cached
/// elsewhere is slower, by a third in some kernels.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Image {
    code: Vec<u8>,
    /// Names of the kernels of all tasks.
    kernels: Vec<String>,
    /// Stack size per thread for recursive functions; else 0.
    stack: usize,
    /// For each tree: whether a launch may activate cells.
    activates: Vec<bool>,
    /// For each task: whether the threads of a block reduce values together.
    reduces: Vec<bool>,
    /// Whether it draws random numbers.
    draws: bool,
}

impl Image {
    pub(crate) fn new(module: &Module, ptx: &Ptx) -> Image {
        let activates = module.trees.keys().map(|tree| {
            let mut found = false;
            for f in module.funcs.values() {
                f.walk(|inst| {
                    found |= matches!(f.insts[inst].op,
                        Op::MemCompareExchange(Space::Nodes(t)) | Op::MemAtomic(_, Space::Nodes(t), _) if t == tree);
                });
            }
            found
        });
        let draws = module.funcs.values().any(|f| {
            let mut found = false;
            f.walk(|inst| found |= matches!(f.insts[inst].op, Op::Random | Op::RandomKey));
            found
        });
        Image {
            draws,
            code: ptx.text.clone().into_bytes(),
            kernels: ptx.kernels.clone(),
            stack: ptx.stack,
            activates: activates.collect(),
            reduces: module
                .tasks
                .iter()
                .map(|t| reduces(module, t.func))
                .collect(),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.code.len()
    }

    /// The cached form: after the names come the stack size, whether it draws random numbers, the trees, and the tasks.
    pub(crate) fn object(&self, timings: Timings) -> Object {
        let mut symbols = self.kernels.clone();
        symbols.push(self.stack.to_string());
        symbols.push(self.draws.to_string());
        for bits in [&self.activates, &self.reduces] {
            let digits = bits.iter().map(|bit| if *bit { '1' } else { '0' });
            symbols.push(digits.collect());
        }
        Object {
            code: vec![self.code.clone()],
            symbols,
            stacks: Vec::new(),
            timings,
        }
    }

    pub(crate) fn of_object(object: Object) -> Option<Image> {
        let mut kernels = object.symbols;
        let bits = |digits: String| digits.chars().map(|c| c == '1').collect();
        let reduces = bits(kernels.pop()?);
        let activates = bits(kernels.pop()?);
        let draws = kernels.pop()?.parse().ok()?;
        let stack = kernels.pop()?.parse().ok()?;
        Some(Image {
            draws,
            code: object.code.into_iter().next()?,
            kernels,
            stack,
            activates,
            reduces,
        })
    }
}

impl CudaProgram {
    pub(crate) fn new(
        engine: &Arc<CudaEngine>,
        module: &Module,
        image: Image,
        plan: LaunchPlan,
    ) -> Result<CudaProgram> {
        let context = engine.context();
        CudaEngine::suits(module)?;
        if image.stack > 0 {
            context.need_stack(image.stack, &module.name)?;
        }
        let loaded = context.load(&image.code)?;
        let mut tasks = Vec::new();
        for plan in plan.tasks {
            let name = image.kernels.get(plan.number);
            let name = name.and_then(|n| CString::new(n.as_str()).ok());
            let name = name.ok_or_else(|| broken("a task has no code"))?;
            let function = loaded.function(&name)?;
            let block = threads_of_block(&module.tasks[plan.number]);
            let each = function.max_active_blocks(block, 0)?.max(1);
            tasks.push(GpuTask {
                reduces: image.reduces.get(plan.number).copied().unwrap_or(true),
                plan,
                block,
                blocks: each * context.info().multiprocessors,
                function,
            });
        }
        Ok(CudaProgram {
            engine: engine.clone(),
            tasks,
            layout: DeviceLayout::of(module),
            temps: Arc::new(context.alloc(plan.temp_size as u64)?),
            result: plan.result,
            draws: image.draws,
            prints: module
                .sites
                .values()
                .any(|s| matches!(s.kind, SiteKind::Print(_))),
            activates: image.activates,
            info: Mutex::default(),
            module: loaded,
        })
    }
}

/// Whether the threads of a block reduce values together in a task.
fn reduces(module: &Module, func: Func) -> bool {
    let mut locals = module.funcs[func].locals.values();
    locals.any(|l| l.role == LocalRole::Accumulator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cached_image_has_all_properties() {
        let image = Image {
            code: b"code".to_vec(),
            kernels: vec!["one".into(), "two".into()],
            stack: 4096,
            activates: vec![false, true, false],
            reduces: vec![true, false],
            draws: true,
        };
        let object = image.object(Timings::default());
        assert_eq!(Image::of_object(object), Some(image));
    }
}
