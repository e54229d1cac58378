//! Launch plans of lowered modules, shared by backends with compiled code.

use crate::backend::cpu::copies::{CopyPlan, Upkeep};
use crate::launch::Bindings;
use crate::program::{broken, integer, tree_memory};
use crate::sparse::ListPlan;
use smallvec::SmallVec;
use wuji_ir::entities::{Array, Field, Node, Temp, Tree};
use wuji_ir::layout::header;
use wuji_ir::module::{
    Bound, BoundBase, Copies, Module, RangeDim, Repeat, Slice, Task, TaskFlow, TaskKind,
};
use wuji_ir::ops::AtomicOp;
use wuji_ir::types::{Imm, Scalar};
use wuji_ir::{Error, Result};

/// How to launch a lowered module.
#[derive(Debug)]
pub(crate) struct LaunchPlan {
    pub(crate) tasks: Vec<TaskPlan>,
    /// Bytes of all temps.
    pub(crate) temp_size: usize,
    /// The scalars of the result and their offsets in the temps.
    pub(crate) result: Vec<(Scalar, usize)>,
}

#[derive(Debug)]
pub(crate) struct TaskPlan {
    /// Its index in the code.
    pub(crate) number: usize,
    pub(crate) ordinal: u32,
    /// The list of active cells that it generates.
    pub(crate) list: Option<ListPlan>,
    /// `None` for serial code.
    pub(crate) chunks: Option<ChunkPlan>,
    /// The plan of a privatized task.
    pub(crate) copies: Option<CopyPlan>,
    pub(crate) step: u32,
    pub(crate) repeat: Option<RepeatPlan>,
}

/// The end of a loop around tasks.
#[derive(Copy, Clone, Debug)]
pub(crate) struct RepeatPlan {
    /// Where the temp is that has the next step.
    temp: usize,
    /// The last step of the loop.
    step: u32,
    /// The first task of the loop.
    pub(crate) first: usize,
}

impl RepeatPlan {
    /// Whether the loop continues.
    pub(crate) fn continues(&self, temps: &[u64]) -> bool {
        integer(Scalar::I32, read_temp(temps, self.temp, Scalar::I32)) <= i128::from(self.step)
    }
}

#[derive(Debug)]
pub(crate) struct ChunkPlan {
    pub(crate) dims: SmallVec<[DimPlan; 1]>,
    /// Iterations in a unit.
    pub(crate) unit: u64,
    /// Iterations per chunk that the user requests.
    pub(crate) block: Option<u32>,
    /// In order, on one thread.
    pub(crate) serial: bool,
    /// The grain size in iterations.
    pub(crate) grain_size: u64,
    /// On a GPU, each iteration has its own thread.
    pub(crate) cooperative: bool,
}

/// A dimension of a loop, with the sources of its bounds.
#[derive(Copy, Clone, Debug)]
pub(crate) struct DimPlan {
    lo: BoundSource,
    hi: BoundSource,
    /// Bounds and step as in the module.
    dim: RangeDim,
}

impl DimPlan {
    pub(crate) fn bounds(&self) -> [BoundSource; 2] {
        [self.lo, self.hi]
    }
}

/// The source of a loop bound at launch.
#[derive(Copy, Clone, Debug)]
pub(crate) enum BoundSource {
    Const(i64),
    Slot(usize, Scalar),
    /// The extent of an array along an axis.
    Extent(usize, usize),
    Temp(usize, Scalar),
    /// A word in the memory of a tree.
    Tree(usize, u64),
}

impl ChunkPlan {
    /// The number of units, if it is constant.
    fn known_units(&self) -> Result<u64> {
        let mut units = 1u64;
        for dim in &self.dims {
            let Some(count) = dim.dim.constant_count() else {
                return Err(broken("a task that keeps copies has no fixed size"));
            };
            units = units.saturating_mul(count);
        }
        Ok(units)
    }
}

impl LaunchPlan {
    pub(crate) fn of(module: &Module) -> Result<LaunchPlan> {
        let (temps, temp_size) = module.temp_offsets();
        let planner = Planner {
            module,
            temps,
            slots: module.param_slots(),
        };
        Ok(LaunchPlan {
            tasks: planner.tasks()?,
            temp_size: temp_size as usize,
            result: planner.result(),
        })
    }
}

/// Plans the launch of a module.
struct Planner<'m> {
    module: &'m Module,
    /// Offsets of the temps.
    temps: Vec<u64>,
    /// The first slot of each parameter.
    slots: Vec<usize>,
}

impl Planner<'_> {
    fn tasks(&self) -> Result<Vec<TaskPlan>> {
        let mut tasks: Vec<TaskPlan> = Vec::new();
        let mut fills = SmallVec::new();
        for (number, task) in self.module.tasks.iter().enumerate() {
            let chunks = self.chunks(task)?;
            let copies = match &task.copies {
                Copies::None => None,
                Copies::Uses {
                    fields,
                    arrays,
                    temps,
                    updates,
                } => {
                    let places = (&fields[..], &arrays[..]);
                    let mut plan = self.copies(places, &task.slices, temps, *updates)?;
                    plan.fills = std::mem::take(&mut fills);
                    Some(plan)
                }
                Copies::Fills(_) => {
                    fills.push(upkeep(number, chunks.as_ref())?);
                    continue;
                }
                Copies::Merges(_) => {
                    let user = tasks.last_mut().and_then(|t| t.copies.as_mut());
                    let user = user.ok_or_else(|| broken("copies are merged that no task uses"))?;
                    user.merges.push(upkeep(number, chunks.as_ref())?);
                    continue;
                }
            };
            let list = match task.lists {
                None => None,
                Some((tree, node)) => self.list(tree, node)?,
            };
            let TaskFlow { step, repeat } = task.flow;
            let repeat = repeat.map(|Repeat { temp, from }| RepeatPlan {
                temp: self.offset(temp),
                step,
                first: tasks.partition_point(|t| t.step < from),
            });
            tasks.push(TaskPlan {
                step,
                repeat,
                number,
                ordinal: task.ordinal,
                list,
                chunks,
                copies,
            });
        }
        Ok(tasks)
    }

    fn chunks(&self, task: &Task) -> Result<Option<ChunkPlan>> {
        match &task.kind {
            TaskKind::Serial => Ok(None),
            TaskKind::Chunks { dims, unit, hints } => {
                let both = |dim: &RangeDim| {
                    Ok(DimPlan {
                        lo: self.bound(dim.lo)?,
                        hi: self.bound(dim.hi)?,
                        dim: *dim,
                    })
                };
                Ok(Some(ChunkPlan {
                    dims: dims.iter().map(both).collect::<Result<_>>()?,
                    unit: (*unit).max(1),
                    block: hints.block_size,
                    serial: hints.serial,
                    grain_size: hints.grain_size.map_or(1, u64::from),
                    cooperative: hints.cooperative,
                }))
            }
            TaskKind::Range { .. } | TaskKind::Cells { .. } => {
                Err(broken("a task was left that is neither serial nor chunks"))
            }
        }
    }

    fn bound(&self, bound: Bound) -> Result<BoundSource> {
        let module = self.module;
        match bound {
            Bound::Const(c) => Ok(BoundSource::Const(c)),
            Bound::Param(p) => {
                let ty = module.params.get(p as usize).and_then(|p| p.ty.as_scalar());
                let scalar = ty.ok_or_else(|| broken("a loop bound is not a scalar parameter"))?;
                Ok(BoundSource::Slot(self.slots[p as usize], scalar))
            }
            Bound::Sum { base, .. } => match base {
                BoundBase::Param(p) => self.bound(Bound::Param(p)),
                BoundBase::Extent(a, axis) => {
                    Ok(BoundSource::Extent(a.as_u32() as usize, usize::from(axis)))
                }
            },
            Bound::Temp(t) => {
                let ty = module.temps.get(t).and_then(|t| t.ty.as_scalar());
                let scalar = ty.ok_or_else(|| broken("a loop bound is not a scalar temp"))?;
                Ok(BoundSource::Temp(self.offset(t), scalar))
            }
            Bound::List(tree, node) => {
                let memory = tree_memory(module, tree)?;
                let node = memory.node(node);
                let node = node.ok_or_else(|| broken("a list of a node that has none"))?;
                let word = node.header + header::LISTED;
                Ok(BoundSource::Tree(tree.as_u32() as usize, word))
            }
        }
    }

    fn copies(
        &self,
        (fields, arrays): (&[(Field, AtomicOp)], &[(Array, AtomicOp)]),
        slices: &[Slice],
        temps: &[(Temp, AtomicOp)],
        updates: u64,
    ) -> Result<CopyPlan> {
        let module = self.module;
        let mut plan = CopyPlan::of(module, fields, arrays, slices, updates)?;
        for (temp, op) in temps {
            let scalars = module.structs.scalar_offsets(module.temps[*temp].ty);
            let start = self.offset(*temp);
            let scalars = scalars.into_iter();
            plan.temps
                .extend(scalars.map(|(s, within)| (start + within as usize, s, *op)));
        }
        Ok(plan)
    }

    fn list(&self, tree: Tree, node: Node) -> Result<Option<ListPlan>> {
        let memory = tree_memory(self.module, tree)?;
        let number = tree.as_u32() as usize;
        Ok(ListPlan::of(
            number,
            &self.module.trees[tree],
            &memory,
            node,
        ))
    }

    fn result(&self) -> Vec<(Scalar, usize)> {
        let Some(temp) = self.module.result else {
            return Vec::new();
        };
        let scalars = (self.module.structs).scalar_offsets(self.module.temps[temp].ty);
        let start = self.offset(temp);
        scalars
            .into_iter()
            .map(|(scalar, within)| (scalar, start + within as usize))
            .collect()
    }

    fn offset(&self, temp: Temp) -> usize {
        self.temps[temp.as_u32() as usize] as usize
    }
}

/// A task that initializes or merges copies.
fn upkeep(number: usize, chunks: Option<&ChunkPlan>) -> Result<Upkeep> {
    let chunks = chunks.ok_or_else(|| broken("copies are merged by serial code"))?;
    Ok(Upkeep {
        number,
        units: chunks.known_units()?,
    })
}

/// A scalar at a byte offset in the temps, zero-extended. It does not cross a word.
pub(crate) fn read_temp(temps: &[u64], at: usize, scalar: Scalar) -> u64 {
    let word = temps.get(at / 8).copied().unwrap_or(0).to_ne_bytes();
    let bytes = word.iter().skip(at % 8).take(scalar.bytes() as usize);
    let mut own = [0; 8];
    for (to, from) in own.iter_mut().zip(bytes) {
        *to = *from;
    }
    // Compiled code is for little-endian processors.
    u64::from_le_bytes(own)
}

/// Stores a scalar at a byte offset in the temps.
pub(crate) fn write_temp(temps: &mut [u64], at: usize, value: Imm) {
    let Some(word) = temps.get_mut(at / 8) else {
        return;
    };
    let mut bytes = word.to_le_bytes();
    let own = value.bits().to_le_bytes();
    let scalar = own.iter().take(value.ty.bytes() as usize);
    for (to, from) in bytes.iter_mut().skip(at % 8).zip(scalar) {
        *to = *from;
    }
    *word = u64::from_le_bytes(bytes);
}

/// A number that earlier tasks have computed.
pub(crate) enum Word {
    Temp(usize, Scalar),
    Tree(usize, u64),
}

/// The number of units of a task.
pub(crate) fn units(
    plan: &ChunkPlan,
    bindings: &Bindings<'_>,
    word: impl Fn(Word) -> u64,
) -> Result<u64> {
    let source = |place: BoundSource| match place {
        BoundSource::Const(c) => i128::from(c),
        BoundSource::Slot(at, scalar) => integer(scalar, bindings.params[at]),
        BoundSource::Extent(array, axis) => i128::from(bindings.arrays[array].extents()[axis]),
        BoundSource::Temp(at, scalar) => integer(scalar, word(Word::Temp(at, scalar))),
        BoundSource::Tree(tree, at) => i128::from(word(Word::Tree(tree, at))),
    };
    let value = |place: BoundSource, bound: Bound| match bound {
        Bound::Sum { plus, scalar, .. } => Bound::sum(source(place), plus, scalar),
        Bound::Const(_) | Bound::Param(_) | Bound::Temp(_) | Bound::List(..) => source(place),
    };
    let mut total = 1u128;
    for DimPlan { lo, hi, dim } in &plan.dims {
        let count = dim.count(value(*lo, dim.lo), value(*hi, dim.hi));
        total = total.saturating_mul(count);
    }
    // An empty dimension makes the loop empty, regardless of the others.
    match u64::try_from(total) {
        Ok(n) if n <= i64::MAX as u64 => Ok(n),
        _ => Err(
            Error::new("W0406", "a parallel loop has more than 2^63 iterations")
                .help("make its ranges smaller"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(dims: &[(BoundSource, BoundSource)], dim: RangeDim) -> Result<u64> {
        let dims = dims.iter().map(|(lo, hi)| DimPlan {
            lo: *lo,
            hi: *hi,
            dim,
        });
        let plan = ChunkPlan {
            dims: dims.collect(),
            unit: 1,
            block: None,
            serial: false,
            grain_size: 128,
            cooperative: false,
        };
        let bindings = Bindings {
            params: &[u64::MAX],
            trees: &[],
            arrays: &[],
        };
        units(&plan, &bindings, |_| 7)
    }

    #[test]
    fn counting_units() {
        let plain = RangeDim::new(Bound::Const(0), Bound::Const(0));
        let count = |dims: &[(BoundSource, BoundSource)]| count(dims, plain);
        let c = BoundSource::Const;
        assert_eq!(count(&[(c(2), c(5)), (c(-1), c(1))]).unwrap(), 6);
        assert_eq!(count(&[(c(5), c(2)), (c(0), c(i64::MAX))]).unwrap(), 0);
        let minus_one = BoundSource::Slot(0, Scalar::I32);
        assert_eq!(
            count(&[(minus_one, BoundSource::Temp(0, Scalar::U8))]).unwrap(),
            8
        );
        let big = BoundSource::Slot(0, Scalar::U64);
        assert_eq!(count(&[(c(0), big)]).unwrap_err().code, "W0406");
        assert_eq!(
            count(&[(c(i64::MIN), c(i64::MAX))]).unwrap_err().code,
            "W0406"
        );
    }

    #[test]
    fn counting_units_with_steps_and_sums() {
        let step = |step: u32| RangeDim {
            step: step.try_into().unwrap(),
            ..RangeDim::new(Bound::Const(0), Bound::Const(0))
        };
        let c = BoundSource::Const;
        assert_eq!(count(&[(c(3), c(19))], step(8)).unwrap(), 2);
        assert_eq!(count(&[(c(3), c(20))], step(8)).unwrap(), 3);
        assert_eq!(count(&[(c(3), c(3))], step(8)).unwrap(), 0);
        assert_eq!(
            count(&[(c(i64::MIN), c(i64::MAX))], step(8)).unwrap(),
            1 << 61
        );
        let sum = |plus: i64, scalar: Scalar| {
            let base = BoundBase::Param(0);
            RangeDim::new(Bound::Const(0), Bound::Sum { base, plus, scalar })
        };
        // The parameter is -1.
        let minus_one = BoundSource::Slot(0, Scalar::I32);
        let of = |dim: RangeDim| count(&[(c(0), minus_one)], dim).unwrap();
        assert_eq!(of(sum(11, Scalar::I32)), 10);
        assert_eq!(of(sum(-5, Scalar::I32)), 0);
        assert_eq!(of(sum(-5, Scalar::U8)), 250);
        assert_eq!(of(sum(i64::from(i32::MIN), Scalar::I32)), 0x7fff_ffff);
    }
}
