//! A module that a device can run, and what has to be known of it at every launch.

use crate::copies::{CopyPlan, Upkeep};
use crate::cuda::code::{CudaCode, Image};
use crate::cuda::engine::Engine;
use crate::memory::DeviceLock;
use crate::profile::Kernel;
use crate::report::Collector;
use crate::sparse::{ListPlan, SparsePlan};
use crate::tier::{Tier, TieredCode};
use smallvec::SmallVec;
use std::sync::Arc;
use wuji_ir::entities::{Field, Temp, Tree};
use wuji_ir::layout::{TreeMemory, header};
use wuji_ir::module::{Bound, Copies, Module, RangeDim, TaskKind};
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

#[derive(Debug)]
pub(crate) struct TaskPlan {
    /// Its number in the code.
    pub(crate) number: usize,
    pub(crate) ordinal: u32,
    /// The list of active cells that it makes.
    pub(crate) list: Option<ListPlan>,
    /// `None` for serial code.
    pub(crate) chunks: Option<ChunkPlan>,
    /// What it needs when its workers update copies of trees.
    pub(crate) copies: Option<CopyPlan>,
}

#[derive(Debug)]
pub(crate) struct ChunkPlan {
    pub(crate) dims: SmallVec<[(BoundSource, BoundSource); 1]>,
    /// Iterations in a unit.
    pub(crate) unit: u64,
    /// Iterations that the user wants in a chunk.
    pub(crate) block: Option<u32>,
    /// In order, on one thread.
    pub(crate) serial: bool,
    /// Iterations that are worth handing out.
    pub(crate) grain_size: u64,
    /// On a GPU, each iteration has a thread of its own.
    pub(crate) cooperative: bool,
}

/// Where a bound of a loop is found at launch.
#[derive(Copy, Clone, Debug)]
pub(crate) enum BoundSource {
    Const(i64),
    Slot(usize, Scalar),
    Temp(usize, Scalar),
    /// A word in the memory of a tree.
    Tree(usize, u64),
}

impl ChunkPlan {
    /// How many units there are, at every launch.
    fn known_units(&self) -> Result<u64> {
        let mut units = 1u64;
        for dim in &self.dims {
            let (BoundSource::Const(lo), BoundSource::Const(hi)) = *dim else {
                return Err(broken("a task that keeps copies has no fixed size"));
            };
            units = units.saturating_mul(hi.saturating_sub(lo).max(0) as u64);
        }
        Ok(units)
    }
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
        let (tasks, temp_size, result) = Program::plans(&module)?;
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
        let (tasks, temp_size, result) = Program::plans(&module)?;
        let code = CudaCode::new(engine, &module, image, tasks, (temp_size, result))?;
        Program::new(lock, module, Code::Cuda(Box::new(code)), kernel)
    }

    /// How the tasks of a lowered module are launched, how many bytes their temps take, and where the scalars of the
    /// result are there.
    #[allow(clippy::type_complexity)]
    fn plans(module: &Module) -> Result<(Vec<TaskPlan>, usize, Vec<(Scalar, usize)>)> {
        let (temps, temp_size) = module.temp_offsets();
        let slots = module.param_slots();
        let place = |bound: Bound| match bound {
            Bound::Const(c) => Ok(BoundSource::Const(c)),
            Bound::Param(p) => {
                let ty = module.params.get(p as usize).and_then(|p| p.ty.as_scalar());
                let scalar = ty.ok_or_else(|| broken("a loop bound is no scalar parameter"))?;
                Ok(BoundSource::Slot(slots[p as usize], scalar))
            }
            Bound::Temp(t) => {
                let ty = module.temps.get(t).and_then(|t| t.ty.as_scalar());
                let scalar = ty.ok_or_else(|| broken("a loop bound is no scalar temp"))?;
                Ok(BoundSource::Temp(offset(&temps, t), scalar))
            }
            Bound::List(tree, node) => {
                let memory = tree_memory(module, tree)?;
                let node = memory.node(node);
                let node = node.ok_or_else(|| broken("a list of a node that has none"))?;
                Ok(BoundSource::Tree(
                    tree.as_u32() as usize,
                    node.header + header::LISTED,
                ))
            }
        };
        let mut tasks: Vec<TaskPlan> = Vec::new();
        let mut fills = SmallVec::new();
        for (k, task) in module.tasks.iter().enumerate() {
            let chunks = match &task.kind {
                TaskKind::Serial => None,
                TaskKind::Chunks { dims, unit, hints } => {
                    let both = |d: &RangeDim| Ok((place(d.lo)?, place(d.hi)?));
                    Some(ChunkPlan {
                        dims: dims.iter().map(both).collect::<Result<_>>()?,
                        unit: (*unit).max(1),
                        block: hints.block_size,
                        serial: hints.serial,
                        grain_size: hints.grain_size.map_or(1, u64::from),
                        cooperative: hints.cooperative,
                    })
                }
                TaskKind::Range { .. } | TaskKind::Cells { .. } => {
                    return Err(broken("a task was left that is neither serial nor chunks"));
                }
            };
            let upkeep = || match &chunks {
                Some(plan) => Ok(Upkeep {
                    number: k,
                    units: plan.known_units()?,
                }),
                None => Err(broken("copies are merged by serial code")),
            };
            let copies = match &task.copies {
                Copies::None => None,
                Copies::Uses {
                    fields,
                    temps: own,
                    updates,
                } => {
                    let mut plan = CopyPlan::of(module, fields, *updates)?;
                    for (temp, op) in own {
                        let scalars = module.structs.scalar_offsets(module.temps[*temp].ty);
                        let at = offset(&temps, *temp);
                        let scalars = scalars.into_iter();
                        plan.temps
                            .extend(scalars.map(|(s, within)| (at + within as usize, s, *op)));
                    }
                    plan.fills = std::mem::take(&mut fills);
                    Some(plan)
                }
                Copies::Fills(_) => {
                    fills.push(upkeep()?);
                    continue;
                }
                Copies::Merges(_) => {
                    let user = tasks.last_mut().and_then(|t| t.copies.as_mut());
                    let user = user.ok_or_else(|| broken("copies are merged that nobody uses"))?;
                    user.merges.push(upkeep()?);
                    continue;
                }
            };
            tasks.push(TaskPlan {
                number: k,
                copies,
                ordinal: task.ordinal,
                list: match task.lists {
                    None => None,
                    Some((tree, node)) => {
                        let memory = tree_memory(module, tree)?;
                        let number = tree.as_u32() as usize;
                        ListPlan::of(number, &module.trees[tree], &memory, node)
                    }
                },
                chunks,
            });
        }
        let result = match module.result {
            Some(t) => module
                .structs
                .scalar_offsets(module.temps[t].ty)
                .into_iter()
                .map(|(scalar, at)| (scalar, offset(&temps, t) + at as usize))
                .collect(),
            None => Vec::new(),
        };
        Ok((tasks, temp_size as usize, result))
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

fn offset(temps: &[u64], temp: Temp) -> usize {
    temps[temp.as_u32() as usize] as usize
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
