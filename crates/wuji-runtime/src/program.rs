//! A module that a device can run, with its launch data.

use crate::backend::{DeferredExecutable, Executable, Loaded, expect_executable};
use crate::memory::DeviceLock;
use crate::profile::{Kernel, Part, Profiler};
use crate::tier::Tier;
use std::sync::Arc;
use wuji_ir::entities::{Field, Tree};
use wuji_ir::layout::TreeMemory;
use wuji_ir::module::Module;
use wuji_ir::types::{Imm, Scalar};
use wuji_ir::{Error, Result};
use wuji_llvm::CompiledKernel;

/// A module that a device has loaded.
#[derive(Debug)]
pub struct Program {
    pub(crate) module: Arc<Module>,
    /// The backend's executable.
    pub(crate) executable: DeferredExecutable,
    /// The size of each tree.
    pub(crate) tree_sizes: Vec<u64>,
    /// The scalars of the by-value parameters, one per slot.
    pub(crate) params: Vec<Scalar>,
    /// Size and alignment of the elements of each array.
    pub(crate) array_elements: Vec<(u64, u64)>,
    /// The scalars of the result.
    pub(crate) result: Option<Vec<Scalar>>,
    /// The lock of its device.
    pub(crate) lock: Arc<DeviceLock>,
    /// The record of the profiler.
    pub(crate) kernel: Arc<Kernel>,
}

impl Program {
    pub(crate) fn new(
        lock: &Arc<DeviceLock>,
        profiler: &Profiler,
        loaded: Loaded,
    ) -> Result<Program> {
        let Loaded {
            module,
            executable,
            kernel,
            ..
        } = loaded;
        let tree_sizes = module
            .trees
            .keys()
            .map(|tree| Ok(tree_memory(&module, tree)?.size))
            .collect::<Result<_>>()?;
        let result = match (module.result, module.kernel_func()) {
            (Some(t), _) => Some(module.structs.flatten(module.temps[t].ty)),
            (None, Some(f)) => f.results.first().map(|ty| module.structs.flatten(*ty)),
            (None, None) => None,
        };
        Ok(Program {
            lock: lock.clone(),
            tree_sizes,
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
            kernel: kernel.unwrap_or_else(|| profiler.enter(&module)),
            module: Arc::new(module),
            executable,
        })
    }

    /// The module as the device runs it: lowered, unless it is interpreted.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// The backend's executable. An error if it is from another backend.
    pub fn executable<E: Executable>(&self) -> Result<&E> {
        expect_executable(self.executable.get()?)
    }

    /// Makes its machine code, unless that was made when it was loaded.
    pub fn make_code(&self) -> Result<()> {
        self.executable.get().map(|_| ())
    }

    /// Whether its machine code was made.
    pub fn has_code(&self) -> bool {
        self.executable.made().is_some()
    }

    /// The tier of the current code, `Fast` or `Best`; `None` if the module is interpreted, or has not run yet.
    pub fn tier(&self) -> Option<Tier> {
        self.executable.made()?.tier()
    }

    /// The machine code of the host that the program started with, if there is any.
    pub fn compiled(&self) -> Option<&CompiledKernel> {
        self.executable.made()?.machine_code()
    }

    /// Tells the profiler which kernels were fused into this one, once.
    pub fn set_parts(&self, parts: Vec<Part>) {
        self.kernel.set_parts(parts);
    }

    /// An error unless the program was loaded on the device with this lock.
    pub(crate) fn check_owner(&self, lock: &Arc<DeviceLock>) -> Result<()> {
        if Arc::ptr_eq(&self.lock, lock) {
            return Ok(());
        }
        Err(Error::new(
            "W0118",
            "the program was loaded on another device",
        ))
    }
}

pub(crate) fn broken(why: &str) -> Error {
    Error::new(
        "W0502",
        format!("the compiler generated invalid code: {why}"),
    )
    .help("this is a bug in Wuji; please report it with the kernel")
}

pub(crate) fn tree_memory(module: &Module, tree: Tree) -> Result<TreeMemory> {
    TreeMemory::of(&module.trees[tree], &module.fields, &module.structs)
        .ok_or_else(|| Error::new("W0106", format!("{tree} is larger than 2^62 bytes")))
}

/// The integer in the low bytes of a slot.
pub(crate) fn integer(scalar: Scalar, bits: u64) -> i128 {
    Imm::from_bits(scalar, bits).as_int().unwrap_or(0)
}

/// The address function of a field in the memory of its tree.
pub fn field_address(module: &Module, field: Field) -> Result<crate::address::Address> {
    let data = &module.fields[field];
    let memory = tree_memory(module, data.tree)?;
    let tree = &module.trees[data.tree];
    Ok(crate::address::Address::of(tree, &memory, field, data))
}
