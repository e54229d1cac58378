//! Privatized copies of trees and [arrays](super::array_copies), one for each worker, so that updates of fields and arrays need no atomics.
//!
//! Worker 0 updates the tree itself. Every other worker has a copy, which is allocated on first use and kept with the
//! tree. Between launches all elements of a copy are identities: a worker's results are merged right after the task, in
//! the order of the workers.

use super::array_copies::ArrayPlan;
use super::pool::Pool;
use super::storage::{CpuStorage, TreeCopy};
use super::tiered::TieredCode;
use crate::backend::tasks::{read_temp, write_temp};
use crate::flush::Flush;
use crate::memory::{DeviceLock, Memory};
use crate::program::{broken, tree_memory};
use crate::stack::Stacks;
use crate::stop::is_reason;
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use wuji_compile::analysis::merging::{BYTES_PER_UPDATE, merged_bytes};
use wuji_compile::rewrite::scalar_identity;
use wuji_ir::entities::{Array, Field, Node, Tree};
use wuji_ir::layout::TreeMemory;
use wuji_ir::module::{Module, Slice};
use wuji_ir::ops::{AtomicOp, BinOp};
use wuji_ir::types::{Imm, Scalar};
use wuji_ir::{Error, Result};
use wuji_llvm::abi::{ArrayView, LaunchContext};

/// The plan of a privatized task.
#[derive(Debug, Default)]
pub(crate) struct CopyPlan {
    trees: SmallVec<[TreePlan; 1]>,
    arrays: Vec<ArrayPlan>,
    pub(crate) fills: SmallVec<[Upkeep; 1]>,
    pub(crate) merges: SmallVec<[Upkeep; 1]>,
    /// Scalar temps that are privatized: their offsets and operations.
    pub(crate) temps: SmallVec<[(usize, Scalar, AtomicOp); 2]>,
    /// The approximate number of scalars that an iteration updates.
    updates: u64,
    /// Bytes to merge per worker.
    bytes: u64,
}

/// The privatized fields of one tree.
#[derive(Debug)]
struct TreePlan {
    tree: usize,
    /// Bytes of the tree that contain its fields.
    size: u64,
    /// Bytes to merge.
    bytes: u64,
    /// Fields that are copied as a whole.
    fields: Neutral,
    /// Fields of which slices are copied. They are not known to be identities.
    sliced: Neutral,
}

/// The offset of each field, and the operation for whose identity it is initialized.
pub(crate) type Neutral = SmallVec<[(u64, AtomicOp); 4]>;

/// A task that initializes or merges a copy.
#[derive(Debug)]
pub(crate) struct Upkeep {
    /// Its index in the code.
    pub(crate) number: usize,
    pub(crate) units: u64,
}

/// The result of an atomic.
fn applied(op: AtomicOp, old: Imm, value: Imm) -> Imm {
    let op = match op {
        AtomicOp::Add => BinOp::Add,
        AtomicOp::Mul => BinOp::Mul,
        AtomicOp::Min => BinOp::Min,
        AtomicOp::Max => BinOp::Max,
        AtomicOp::And => BinOp::And,
        AtomicOp::Or => BinOp::Or,
        AtomicOp::Xor => BinOp::Xor,
        AtomicOp::Exchange => return value,
    };
    wuji_ir::eval::binary(op, old, value).unwrap_or(value)
}

/// Blocks of a copy that one thread processes alone: waking another one would take as long.
const FEW_UNITS: u64 = 16;

impl CopyPlan {
    /// The plan for fields and arrays of a module, without upkeep tasks yet.
    pub(crate) fn of(
        module: &Module,
        fields: &[(Field, AtomicOp)],
        arrays: &[(Array, AtomicOp)],
        slices: &[Slice],
        updates: u64,
    ) -> Result<CopyPlan> {
        let mut plan = CopyPlan {
            updates: updates.max(1),
            ..CopyPlan::default()
        };
        for (array, op) in arrays {
            let array = ArrayPlan::of(module, *array, *op)
                .ok_or_else(|| broken("copies of an array of unknown shape"))?;
            plan.bytes = plan.bytes.saturating_add(array.bytes());
            plan.arrays.push(array);
        }
        let mut nodes: Vec<(Tree, Node)> = Vec::new();
        for (field, op) in fields {
            let data = &module.fields[*field];
            let memory = tree_memory(module, data.tree)?;
            let tree = &module.trees[data.tree];
            let path = tree.path(data.node);
            let first = path
                .iter()
                .map(|n| memory.node_offset[*n] + memory.first_cell[*n])
                .sum::<u64>()
                + memory.place(*field);
            let number = data.tree.as_u32() as usize;
            let at = match plan.trees.iter().position(|t| t.tree == number) {
                Some(at) => at,
                None => {
                    plan.trees.push(TreePlan {
                        tree: number,
                        size: root_end(tree.root(), &memory),
                        bytes: 0,
                        fields: Neutral::new(),
                        sliced: Neutral::new(),
                    });
                    plan.trees.len() - 1
                }
            };
            if slices.iter().any(|s| s.field == *field) {
                let all = merged_bytes(module, &memory, data.node, std::iter::once(*field));
                let bytes = all / data.domain(&module.trees)[0].1.max(1);
                plan.trees[at].sliced.push((first, *op));
                plan.trees[at].bytes += bytes;
                plan.bytes += bytes;
                continue;
            }
            plan.trees[at].fields.push((first, *op));
            if !nodes.contains(&(data.tree, data.node)) {
                nodes.push((data.tree, data.node));
                let here = |f: &Field| {
                    let other = &module.fields[*f];
                    (other.tree, other.node) == (data.tree, data.node)
                };
                let whole = |f: &Field| slices.iter().all(|s| s.field != *f);
                let beside = fields.iter().map(|f| f.0).filter(here).filter(whole);
                let bytes = merged_bytes(module, &memory, data.node, beside);
                plan.trees[at].bytes += bytes;
                plan.bytes += bytes;
            }
        }
        Ok(plan)
    }

    /// The number of workers for a loop with this many iterations.
    fn workers(&self, iterations: u64, threads: u64) -> usize {
        let updates = iterations.saturating_mul(self.updates);
        let copies = updates.saturating_mul(BYTES_PER_UPDATE) / self.bytes.max(1);
        threads.min(copies.saturating_add(1)) as usize
    }
}

/// The fixed number of workers in deterministic worlds, for any number of threads.
const FIXED_WORKERS: u64 = 8;

/// The end of the root cell; fields beyond it may be inactive.
fn root_end(root: Node, memory: &TreeMemory) -> u64 {
    memory.node_offset[root] + memory.cell_size[root]
}

/// The launch of a privatized task.
pub(crate) struct CopyLaunch<'a> {
    pub(crate) plan: &'a CopyPlan,
    pub(crate) code: &'a TieredCode,
    pub(crate) flush: Flush,
    pub(crate) pool: &'a Pool,
    pub(crate) threads: u64,
    /// Not zero: the remaining chunks are skipped.
    pub(crate) stop: Option<&'a AtomicU32>,
    pub(crate) trees: &'a [&'a Memory],
    pub(crate) arrays: &'a [ArrayView],
    pub(crate) lock: &'a Arc<DeviceLock>,
    /// The context of worker 0, which updates the trees and arrays themselves.
    pub(crate) context: &'a LaunchContext,
}

/// The contexts of the workers; they point into the tables.
struct Contexts {
    list: Vec<LaunchContext>,
    _tables: Vec<Tables>,
}

/// The memory of one worker.
struct Tables {
    trees: SmallVec<[*mut u8; 8]>,
    /// Empty if none is privatized.
    arrays: Vec<ArrayView>,
}

// SAFETY: as for the context of a launch: nothing writes to it, and what it points to is shared by design; each copy is
// used by one worker only.
unsafe impl Sync for Contexts {}

impl Contexts {
    fn of(&self, worker: usize) -> &LaunchContext {
        &self.list[worker]
    }

    fn workers(&self) -> usize {
        self.list.len()
    }
}

impl CopyLaunch<'_> {
    /// Runs the units of a task on the chosen number of workers, then merges their copies.
    pub(crate) fn run(
        &self,
        (units, unit): (u64, u64),
        grain: u64,
        work: &(dyn Fn(&LaunchContext, i64, i64) + Sync),
    ) -> Result<()> {
        let wanted = self
            .plan
            .workers(units.saturating_mul(unit), self.threads)
            .min(units.div_ceil(grain.max(1)) as usize);
        let contexts = self.contexts(wanted)?;
        let workers = contexts.workers();
        let worked: Vec<AtomicBool> = (0..workers).map(|_| AtomicBool::new(false)).collect();
        self.pool.run_on(
            workers,
            units as i64,
            grain as i64,
            self.stop,
            &|worker, begin, end| {
                worked[worker].store(true, Ordering::Relaxed);
                work(contexts.of(worker), begin, end);
            },
        )?;
        let worked: SmallVec<[usize; 8]> = (1..workers)
            .filter(|w| worked[*w].load(Ordering::Relaxed))
            .collect();
        self.merge(&contexts, &worked)
    }

    /// Merges the copies of workers, in their order.
    fn merge(&self, contexts: &Contexts, worked: &[usize]) -> Result<()> {
        if !worked.is_empty() {
            for merge in &self.plan.merges {
                self.upkeep(merge, contexts, worked)?;
            }
        }
        for tree in &self.plan.trees {
            let mut copies = self.trees[tree.tree].storage::<CpuStorage>()?.copies();
            for copy in copies.iter_mut().take(contexts.workers() - 1) {
                copy.neutral.extend(tree.fields.iter().copied());
            }
        }
        for array in &self.plan.arrays {
            array.merge(self.pool, self.arrays, contexts.workers(), worked)?;
        }
        Ok(())
    }

    /// Runs the units of a task on a number of workers that does not depend on the number of threads: each has a part
    /// of the units, and runs it chunk by chunk, in order.
    pub(crate) fn run_in_order(
        &self,
        (units, unit): (u64, u64),
        grain: u64,
        temps: &mut [u64],
        work: &(dyn Fn(&LaunchContext, i64, i64) + Sync),
    ) -> Result<()> {
        let iterations = units.saturating_mul(unit);
        let wanted = match self.plan.bytes {
            0 => FIXED_WORKERS as usize,
            _ => self.plan.workers(iterations, FIXED_WORKERS),
        };
        let mut contexts = self.contexts(wanted)?;
        let workers = contexts.workers();
        if workers < wanted {
            return Err(Error::new(
                "W0110",
                "not enough memory for the per-worker copies of trees that a deterministic world needs",
            )
            .help(
                "make the fields that the kernel adds to smaller, or use a world that is not deterministic",
            ));
        }
        let mut own: Vec<Vec<u64>> = Vec::new();
        for worker in 1..workers {
            let mut buffer = temps.to_vec();
            for (at, scalar, op) in &self.plan.temps {
                write_temp(&mut buffer, *at, scalar_identity(*op, *scalar));
            }
            contexts.list[worker].temps = buffer.as_mut_ptr().cast();
            own.push(buffer);
        }
        contexts.list[0].temps = temps.as_mut_ptr().cast();
        let begin_of = |worker: usize| {
            let share = u128::from(units) * worker as u128 / workers as u128;
            share as u64
        };
        let stop = self.stop;
        self.pool.run(workers as i64, 1, &|from, to| {
            for worker in from as usize..to as usize {
                let (mut begin, end) = (begin_of(worker), begin_of(worker + 1));
                let stopped = || stop.is_some_and(is_reason);
                while begin < end && !stopped() {
                    let next = (begin + grain).min(end);
                    work(contexts.of(worker), begin as i64, next as i64);
                    begin = next;
                }
            }
        })?;
        let all: SmallVec<[usize; 8]> = (1..workers).collect();
        self.merge(&contexts, &all)?;
        for buffer in &own {
            for (at, scalar, op) in &self.plan.temps {
                let value = Imm::from_bits(*scalar, read_temp(buffer, *at, *scalar));
                let old = Imm::from_bits(*scalar, read_temp(temps, *at, *scalar));
                write_temp(temps, *at, applied(*op, old, value));
            }
        }
        Ok(())
    }

    /// Contexts for workers, with initialized copies; fewer if memory runs out. While the task runs, no copy counts as
    /// initialized.
    fn contexts(&self, workers: usize) -> Result<Contexts> {
        let mut tables: Vec<Tables> = Vec::new();
        let mut stale: SmallVec<[usize; 8]> = SmallVec::new();
        for worker in 1..workers {
            let mut table: SmallVec<[*mut u8; 8]> = self.trees.iter().map(|t| t.base()).collect();
            let mut ready = true;
            let mut found = true;
            for tree in &self.plan.trees {
                let memory = self.trees[tree.tree];
                let mut copies = memory.storage::<CpuStorage>()?.copies();
                if copies.len() < worker {
                    match TreeCopy::new(memory, tree.size, tree.bytes) {
                        Ok(copy) => copies.push(copy),
                        Err(_) => found = false,
                    }
                }
                let Some(copy) = copies.get_mut(worker - 1) else {
                    found = false;
                    break;
                };
                ready &=
                    tree.sliced.is_empty() && tree.fields.iter().all(|f| copy.neutral.contains(f));
                let used = || tree.fields.iter().chain(&tree.sliced);
                copy.neutral.retain(|(at, _)| used().all(|f| f.0 != *at));
                table[tree.tree] = copy.base();
            }
            let mut arrays = Vec::new();
            if !self.plan.arrays.is_empty() {
                arrays.extend_from_slice(self.arrays);
                let mut plans = self.plan.arrays.iter();
                found = found && plans.all(|array| array.lend(worker, self.lock, &mut arrays));
            }
            if !found {
                break;
            }
            if !ready {
                stale.push(worker);
            }
            let trees = table;
            tables.push(Tables { trees, arrays });
        }
        let own = tables.iter().map(|table| LaunchContext {
            copies: table.trees.as_ptr(),
            arrays: match table.arrays.as_slice() {
                [] => self.context.arrays,
                arrays => arrays.as_ptr(),
            },
            ..*self.context
        });
        let list = std::iter::once(LaunchContext { ..*self.context })
            .chain(own)
            .collect();
        let contexts = Contexts {
            list,
            _tables: tables,
        };
        if !stale.is_empty() {
            for fill in &self.plan.fills {
                self.upkeep(fill, &contexts, &stale)?;
            }
        }
        Ok(contexts)
    }

    /// Runs an upkeep task for the copies of some workers, block by block in their order.
    fn upkeep(&self, task: &Upkeep, contexts: &Contexts, workers: &[usize]) -> Result<()> {
        let (code, flush) = (self.code, self.flush);
        let stacks = Stacks::default();
        let run = |begin: i64, end: i64| {
            let Some(task) = code.task(task.number) else {
                // All tiers of a program have the same number of tasks.
                return;
            };
            for worker in workers {
                stacks.run(task.stack, || {
                    flush.around(|| {
                        // SAFETY: the context is that of a launch whose bindings were checked, with copies as large as
                        // the part of the tree in which the fields are; no two threads have the same units; the stack has
                        // room.
                        unsafe { (task.entry)(contexts.of(*worker), begin, end) }
                    });
                });
            }
        };
        if task.units <= FEW_UNITS {
            run(0, task.units as i64);
        } else {
            let grain = (task.units / (4 * self.threads.max(1))).max(1);
            self.pool.run(task.units as i64, grain as i64, &run)?;
        }
        stacks.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_worth_their_copies() {
        let plan = CopyPlan {
            updates: 27,
            bytes: 27 * 4 * 1000,
            ..CopyPlan::default()
        };
        assert_eq!(plan.workers(0, 8), 1);
        assert_eq!(plan.workers(999, 8), 1);
        assert_eq!(plan.workers(1000, 8), 2);
        assert_eq!(plan.workers(3000, 8), 4);
        assert_eq!(plan.workers(u64::MAX, 8), 8);
    }
}
