//! A module that a device can run, and what has to be known of it at every launch.

use crate::backend::cpu::tier::{Tier, TieredCode};
use crate::backend::cuda::code::{CudaCode, Image};
use crate::backend::cuda::engine::Engine;
use crate::backend::tasks::{LaunchPlan, TaskPlan};
use crate::memory::DeviceLock;
use crate::profile::Kernel;
use crate::report::Collector;
use crate::sparse::SparsePlan;
use std::sync::Arc;
use wuji_ir::entities::{Field, Tree};
use wuji_ir::layout::TreeMemory;
use wuji_ir::module::Module;
use wuji_ir::types::{Imm, Scalar};
use wuji_ir::{Error, Result};
use wuji_llvm::CompiledKernel;

/// A module made ready for one device.
#[derive(Debug)]
pub struct Program {
    pub(crate) module: Arc<Module>,
    pub(crate) code: Code,
    /// Bytes of each tree.
    pub(crate) tree_sizes: Vec<u64>,
    /// Of the trees that have sparse nodes.
    pub(crate) sparse: Vec<Option<SparsePlan>>,
    /// The scalars of the by-value parameters, one per slot.
    pub(crate) params: Vec<Scalar>,
    /// Size and alignment of the elements of each array.
    pub(crate) array_elements: Vec<(u64, u64)>,
    /// The scalars of the result.
    pub(crate) result: Option<Vec<Scalar>>,
    /// Of the device it was made for; who holds it has the collector for himself.
    pub(crate) lock: Arc<DeviceLock>,
    pub(crate) collector: Collector,
    /// Chunks, and the copies they work on, are the same whatever runs them.
    pub(crate) deterministic: bool,
    /// What the profiler knows of it.
    pub(crate) kernel: Arc<Kernel>,
}

// One for each kernel: its size does not matter.
#[allow(clippy::large_enum_variant)]
#[derive(Debug)]
pub(crate) enum Code {
    Native(Native),
    Cuda(Box<CudaCode>),
    /// The interpreter runs the module as it is.
    Interpreted,
}

/// Machine code and how it is launched.
#[derive(Debug)]
pub(crate) struct Native {
    pub(crate) code: Arc<TieredCode>,
    pub(crate) tasks: Vec<TaskPlan>,
    /// Bytes of all temps.
    pub(crate) temp_size: usize,
    /// Where the scalars of the result are in the temps.
    pub(crate) result: Vec<(Scalar, usize)>,
}

impl Program {
    /// A module that is interpreted.
    pub(crate) fn interpreted(
        lock: &Arc<DeviceLock>,
        module: Module,
        kernel: Arc<Kernel>,
    ) -> Result<Program> {
        Program::new(lock, module, Code::Interpreted, kernel)
    }

    /// A lowered module with its machine code.
    pub(crate) fn native(
        lock: &Arc<DeviceLock>,
        module: Module,
        code: TieredCode,
        kernel: Arc<Kernel>,
    ) -> Result<Program> {
        for k in 0..module.tasks.len() {
            code.task(k).ok_or_else(|| broken("a task has no code"))?;
        }
        let LaunchPlan {
            tasks,
            temp_size,
            result,
        } = LaunchPlan::of(&module)?;
        let native = Native {
            code: Arc::new(code),
            tasks,
            temp_size,
            result,
        };
        Program::new(lock, module, Code::Native(native), kernel)
    }

    /// A lowered module with its kernels on a device.
    pub(crate) fn cuda(
        lock: &Arc<DeviceLock>,
        engine: &Arc<Engine>,
        module: Module,
        image: Image,
        kernel: Arc<Kernel>,
    ) -> Result<Program> {
        let plan = LaunchPlan::of(&module)?;
        let code = CudaCode::new(engine, &module, image, plan)?;
        Program::new(lock, module, Code::Cuda(Box::new(code)), kernel)
    }

    fn new(
        lock: &Arc<DeviceLock>,
        module: Module,
        code: Code,
        kernel: Arc<Kernel>,
    ) -> Result<Program> {
        let tree_sizes = module
            .trees
            .keys()
            .map(|tree| Ok(tree_memory(&module, tree)?.size))
            .collect::<Result<_>>()?;
        let sparse = module
            .trees
            .iter()
            .map(|(id, tree)| Ok(SparsePlan::of(tree, &tree_memory(&module, id)?)))
            .collect::<Result<_>>()?;
        let result = match (module.result, module.kernel_func()) {
            (Some(t), _) => Some(module.structs.flatten(module.temps[t].ty)),
            (None, Some(f)) => f.results.first().map(|ty| module.structs.flatten(*ty)),
            (None, None) => None,
        };
        Ok(Program {
            lock: lock.clone(),
            tree_sizes,
            sparse,
            params: module
                .params
                .iter()
                .flat_map(|p| module.structs.flatten(p.ty))
                .collect(),
            array_elements: module
                .arrays
                .values()
                .map(|a| module.structs.size_align(a.elem))
                .collect(),
            result,
            collector: Collector::new(&module),
            deterministic: false,
            kernel,
            module: Arc::new(module),
            code,
        })
    }

    /// The module as the device runs it: lowered, unless it is interpreted.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// `Fast` or `Best`: of the machine code that is in use now, unless the module is interpreted.
    pub fn tier(&self) -> Option<Tier> {
        match &self.code {
            Code::Native(native) => Some(native.code.tier()),
            Code::Cuda(_) => Some(Tier::Best),
            Code::Interpreted => None,
        }
    }

    /// The machine code that is in use now, unless the module is interpreted.
    pub fn compiled(&self) -> Option<&CompiledKernel> {
        match &self.code {
            Code::Native(native) => Some(native.code.now()),
            Code::Cuda(_) | Code::Interpreted => None,
        }
    }
}

pub(crate) fn broken(why: &str) -> Error {
    Error::new(
        "W0502",
        format!("the compiler made code that cannot run: {why}"),
    )
    .help("this is a bug of Wuji; please report it with the kernel")
}

pub(crate) fn tree_memory(module: &Module, tree: Tree) -> Result<TreeMemory> {
    TreeMemory::of(&module.trees[tree], &module.fields, &module.structs)
        .ok_or_else(|| Error::new("W0106", format!("{tree} is larger than 2^62 bytes")))
}

/// An integer in the low bytes of a slot.
pub(crate) fn integer(scalar: Scalar, bits: u64) -> i128 {
    Imm::from_bits(scalar, bits).as_int().unwrap_or(0)
}

/// How elements of a field are found in the memory of its tree.
pub fn field_address(module: &Module, field: Field) -> Result<crate::address::Address> {
    let data = &module.fields[field];
    let memory = tree_memory(module, data.tree)?;
    let tree = &module.trees[data.tree];
    Ok(crate::address::Address::of(tree, &memory, field, data))
}
