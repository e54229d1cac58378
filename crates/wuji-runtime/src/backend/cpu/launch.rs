//! A launch of compiled code.

use super::background::Background;
use super::copies::CopyLaunch;
use super::pool::Pool;
use super::program::NativeProgram;
use super::tiered::TieredCode;
use crate::array::ArrayArg;
use crate::backend::LaunchRequest;
use crate::backend::tasks::{ChunkPlan, TaskPlan, Word, read_temp, units};
use crate::flush::Flush;
use crate::launch::{Bindings, Outcome};
use crate::memory::Memory;
use crate::report::{TaskHost, poll, report};
use crate::sparse::ListPlan;
use crate::stack::Stacks;
use crate::stop::StopFlag;
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::Instant;
use wuji_compile::nodes::UPKEEP;
use wuji_ir::Result;
use wuji_ir::random::task_key;
use wuji_llvm::abi::{ArrayView, LaunchContext};

/// The number of threads that chunks are sized for in deterministic worlds.
const FIXED_THREADS: u64 = 8;
/// The largest chunk in iterations, so that launches of any length can be stopped between two chunks.
const CHUNK_MAX: u64 = 1 << 20;
/// Chunks per thread, for load balancing.
const CHUNKS_PER_THREAD: u64 = 64;
/// Units that fill a cache line with the smallest elements.
const LINE_UNITS: u64 = 64;

/// A launch of machine code.
pub(super) struct NativeLaunch<'a> {
    pub(super) pool: &'a Pool,
    pub(super) background: &'a Background,
    pub(super) threads: u64,
    pub(super) request: &'a LaunchRequest<'a>,
    pub(super) native: &'a NativeProgram,
}

/// The memory of a launch, as code sees it.
struct Views {
    trees: SmallVec<[*mut u8; 8]>,
    arrays: SmallVec<[ArrayView; 2]>,
}

impl Views {
    fn of(bindings: &Bindings<'_>) -> Views {
        Views {
            trees: bindings.trees.iter().map(|m| m.base()).collect(),
            arrays: bindings.arrays.iter().map(ArrayArg::view).collect(),
        }
    }
}

impl NativeLaunch<'_> {
    pub(super) fn run(&self) -> Result<Outcome> {
        let native = self.native;
        let mut temps: SmallVec<[u64; 16]> = SmallVec::new();
        temps.resize(native.plan.temp_size.div_ceil(8), 0);
        let started = native.code.is_watched().then(Instant::now);
        let ended = self.run_tasks(&mut temps, started);
        if let Some(started) = started {
            native.code.add_spent(started.elapsed());
        }
        // In any case, the next launch must not see reports of this one.
        let collected = native.collector.drain(self.request.program.module());
        let finished = ended?;
        let mut outcome = Outcome {
            collected: collected.map(Box::new),
            ..Outcome::default()
        };
        if finished {
            let scalars = native.plan.result.iter();
            let scalars = scalars.map(|(scalar, at)| read_temp(&temps, *at, *scalar));
            outcome.result.extend(scalars);
        }
        Ok(outcome)
    }

    /// Returns whether the kernel ran to its end.
    fn run_tasks(&self, temps: &mut [u64], started: Option<Instant>) -> Result<bool> {
        let LaunchRequest {
            program,
            bindings,
            interrupt,
            profiler,
            ..
        } = *self.request;
        let views = Views::of(bindings);
        let mut over = false;
        let mut at = 0;
        while let Some(task) = self.native.plan.tasks.get(at) {
            at += 1;
            // Deactivated cells are collected even after an interrupt. Otherwise they would occupy memory until a later
            // launch.
            let keeps_up = task.ordinal == UPKEEP && task.list.is_none();
            if over && !keeps_up {
                continue;
            }
            let begin = profiler.map(|p| (p, p.now()));
            let list = match &task.list {
                None => None,
                Some(plan) => match ListUpdate::begin(plan, bindings.trees[plan.tree]) {
                    Some(list) => Some(list),
                    None => continue,
                },
            };
            let units = self.units(task, temps)?;
            let host = TaskHost {
                module: program.module(),
                collector: &self.native.collector,
                task: task.ordinal,
                stop: interrupt.stop(),
            };
            let context = self.context(task, &views, temps, &host);
            let code = TaskCode {
                code: &self.native.code,
                background: self.background,
                number: task.number,
                units,
                interrupt: (!keeps_up).then_some(interrupt),
                started,
                flush: self.native.flush,
                stacks: Stacks::default(),
            };
            self.run_units(task, &code, (&context, &views), units, temps)?;
            code.stacks.finish()?;
            if let Some(list) = list
                && !self.is_interrupted()
            {
                list.finish(self.native.deterministic);
            }
            if let Some((profiler, begin)) = begin {
                let unit = task.chunks.as_ref().map_or(1, |p| p.unit);
                let iterations = units.saturating_mul(unit);
                profiler.task(&program.kernel, task.number, iterations, begin);
            }
            // An assertion that fails in serial code ends the kernel.
            let serial = task.chunks.is_none();
            let stopped = serial && self.native.collector.stopped(task.ordinal);
            over |= stopped || self.is_interrupted();
            if let Some(repeat) = &task.repeat
                && !over
                && repeat.continues(temps)
            {
                at = repeat.first;
            }
        }
        Ok(!over)
    }

    /// What the code of a task gets.
    fn context(
        &self,
        task: &TaskPlan,
        views: &Views,
        temps: &mut [u64],
        host: &TaskHost<'_>,
    ) -> LaunchContext {
        let LaunchRequest {
            bindings,
            interrupt,
            ..
        } = *self.request;
        LaunchContext {
            params: bindings.params.as_ptr(),
            trees: views.trees.as_ptr(),
            arrays: views.arrays.as_ptr(),
            temps: temps.as_mut_ptr().cast(),
            interrupt: interrupt.word(),
            random_key: task_key(
                self.request.seed,
                self.request.number,
                u64::from(task.ordinal),
            ),
            report,
            poll,
            host: host.pointer(),
            // Worker 0 uses the trees.
            copies: views.trees.as_ptr(),
        }
    }

    fn is_interrupted(&self) -> bool {
        self.request.interrupt.stop().reason().is_some()
    }

    /// The number of units of a task.
    fn units(&self, task: &TaskPlan, temps: &[u64]) -> Result<u64> {
        let Some(plan) = &task.chunks else {
            return Ok(1);
        };
        units(plan, self.request.bindings, |word| match word {
            Word::Temp(at, scalar) => read_temp(temps, at, scalar),
            Word::Tree(tree, at) => self.request.bindings.trees[tree].word(at),
        })
    }

    /// Runs the units of a task: on the calling thread, or in chunks on the pool.
    fn run_units(
        &self,
        task: &TaskPlan,
        code: &TaskCode<'_>,
        (context, views): (&LaunchContext, &Views),
        units: u64,
        temps: &mut [u64],
    ) -> Result<()> {
        let deterministic = self.native.deterministic;
        let plan = task.chunks.as_ref();
        // Chunks of deterministic kernels do not depend on the number of threads, and lists are generated in order.
        let threads = if deterministic {
            FIXED_THREADS
        } else {
            self.threads
        };
        let grain = plan
            .filter(|_| !deterministic || task.list.is_none())
            .and_then(|plan| grain_of(plan, units, threads));
        let shared = Shared(context);
        let run = |begin: i64, end: i64| {
            let Shared(context) = &shared;
            code.run(context, begin, end);
        };
        let Some(grain) = grain else {
            // One thread. Code can change between two chunks, and versions are compared chunk by chunk.
            let measured = !deterministic && code.code.versions.is_measured(code.number);
            let cut = plan
                .filter(|_| measured)
                .and_then(|p| trial_grain(p, units));
            let grain = cut.unwrap_or(units).max(1);
            let mut begin = 0;
            while begin < units && !code.interrupt.is_some_and(StopFlag::is_set) {
                let end = begin.saturating_add(grain).min(units);
                run(begin as i64, end as i64);
                begin = end;
            }
            return Ok(());
        };
        let Some(copies) = &task.copies else {
            if !deterministic {
                return self.pool.run_on(
                    usize::MAX,
                    units as i64,
                    grain as i64,
                    code.interrupt.map(StopFlag::word),
                    &|_, begin, end| run(begin, end),
                );
            }
            let chunks = units.div_ceil(grain) as i64;
            let stop = code.interrupt.map(StopFlag::word);
            return self
                .pool
                .run_on(usize::MAX, chunks, 1, stop, &|_, from, to| {
                    for chunk in from as u64..to as u64 {
                        let end = (chunk + 1).saturating_mul(grain).min(units);
                        run((chunk * grain) as i64, end as i64);
                    }
                });
        };
        let launch = CopyLaunch {
            plan: copies,
            code: &self.native.code,
            flush: self.native.flush,
            pool: self.pool,
            threads: self.threads,
            stop: code.interrupt.map(StopFlag::word),
            trees: self.request.bindings.trees,
            arrays: &views.arrays,
            lock: &self.request.program.lock,
            context,
        };
        let unit = plan.map_or(1, |p| p.unit);
        let work = |context: &LaunchContext, begin, end| code.run(context, begin, end);
        if deterministic {
            launch.run_in_order((units, unit), grain, temps, &work)
        } else {
            launch.run((units, unit), grain, &work)
        }
    }
}

/// The code of one task, for workers.
struct TaskCode<'a> {
    code: &'a Arc<TieredCode>,
    background: &'a Background,
    /// Its index in the code.
    number: usize,
    /// All units of the task.
    units: u64,
    /// What ends it between two chunks; `None`: nothing does.
    interrupt: Option<StopFlag<'a>>,
    /// When the launch began, if the kernel may become hot.
    started: Option<Instant>,
    flush: Flush,
    stacks: Stacks,
}

impl TaskCode<'_> {
    fn run(&self, context: &LaunchContext, begin: i64, end: i64) {
        // Code of short loops does not poll the flag.
        if let Some(interrupt) = self.interrupt
            && interrupt.is_set()
        {
            return;
        }
        if let Some(started) = self.started
            && self.code.is_watched()
            && self.code.hot_after(started.elapsed())
        {
            self.background.ask(self.code);
        }
        let units = (end - begin) as u64;
        let whole = units == self.units;
        let (Some(task), measured) = self.code.choose(self.number, units, whole) else {
            // All tiers of a program have the same number of tasks.
            return;
        };
        let shared = Shared(context);
        self.stacks.run(task.stack, || {
            let Shared(context) = &shared;
            self.flush.around(|| {
                // SAFETY: `check` has seen that memory, arrays and slots are those the code was made for, `context` outlives
                // the call, the units are within the task's, and the stack has room.
                unsafe { (task.entry)(*context, begin, end) }
            });
        });
        if let Some(measured) = measured
            && !self.interrupt.is_some_and(StopFlag::is_set)
            && let Some((task, step)) = self.code.versions.note(measured)
        {
            self.background.follow(self.code, task, step);
        }
    }
}

/// A list of active cells that a task generates.
struct ListUpdate<'a> {
    plan: &'a ListPlan,
    memory: &'a Memory,
    stamp: u64,
}

impl<'a> ListUpdate<'a> {
    /// `None` when the list is up to date.
    fn begin(plan: &'a ListPlan, memory: &'a Memory) -> Option<ListUpdate<'a>> {
        let stamp = plan.begin(memory)?;
        Some(ListUpdate {
            plan,
            memory,
            stamp,
        })
    }

    fn finish(&self, deterministic: bool) {
        if deterministic {
            self.plan.sort(self.memory);
        }
        self.plan.finish(self.memory, self.stamp);
    }
}

/// A context that several threads read.
struct Shared<'a>(&'a LaunchContext);

// SAFETY: nothing writes to a context, and what it points to is shared by design: parameters and
// addresses are only read, memory follows the rules for races in `docs/ir.md`, the host side of
// `report` is a `TaskHost`, which is `Sync`.
unsafe impl Sync for Shared<'_> {}
// SAFETY: as above.
unsafe impl Send for Shared<'_> {}

/// Units per chunk; `None` when the calling thread runs all of them.
fn grain_of(plan: &ChunkPlan, units: u64, threads: u64) -> Option<u64> {
    let per_unit = |iterations: u64| iterations.div_ceil(plan.unit).max(1);
    let iterations = units.saturating_mul(plan.unit);
    if units < 2 || threads < 2 || plan.serial {
        return None;
    }
    if let Some(block) = plan.block {
        let grain = per_unit(u64::from(block));
        return (grain < units).then_some(grain);
    }
    // Waking another thread costs more than the work it would get.
    if iterations < 2 * plan.grain_size {
        return None;
    }
    let even = units.div_ceil(threads * CHUNKS_PER_THREAD);
    // Chunks begin at cache line boundaries, if they are large enough.
    let even = if even >= 16 * LINE_UNITS {
        even.next_multiple_of(LINE_UNITS)
    } else {
        even
    };
    let grain = even.min(per_unit(CHUNK_MAX)).max(per_unit(plan.grain_size));
    (grain < units).then_some(grain)
}

/// Units per chunk of a task that runs on one thread, while its code may change; `None` if it is too small.
fn trial_grain(plan: &ChunkPlan, units: u64) -> Option<u64> {
    let per_unit = |iterations: u64| iterations.div_ceil(plan.unit).max(1);
    let grain = units.div_ceil(CHUNKS_PER_THREAD);
    let grain = grain
        .min(per_unit(CHUNK_MAX))
        .max(per_unit(plan.grain_size));
    (grain < units).then_some(grain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(unit: u64, block: Option<u32>) -> ChunkPlan {
        ChunkPlan {
            dims: SmallVec::new(),
            unit,
            block,
            serial: false,
            grain_size: 128,
            cooperative: false,
        }
    }

    #[test]
    fn trials_cut_tasks_of_one_thread() {
        let serial = ChunkPlan {
            serial: true,
            ..plan(1, None)
        };
        assert_eq!(grain_of(&serial, 1 << 18, 1), None);
        assert_eq!(trial_grain(&serial, 1 << 18), Some(1 << 12));
        assert_eq!(trial_grain(&serial, 1000), Some(128));
        assert_eq!(trial_grain(&serial, 128), None);
        assert_eq!(trial_grain(&serial, 0), None);
        assert_eq!(trial_grain(&plan(320, None), 640), Some(10));
        assert_eq!(trial_grain(&serial, 1 << 40), Some(CHUNK_MAX));
    }

    #[test]
    fn grains() {
        assert_eq!(grain_of(&plan(1, None), 0, 8), None);
        assert_eq!(grain_of(&plan(1, None), 100, 8), None);
        assert_eq!(grain_of(&plan(1, None), 1 << 20, 1), None);
        assert_eq!(grain_of(&plan(1, None), 1 << 20, 8), Some(1 << 11));
        assert_eq!(grain_of(&plan(1, None), 1000, 8), Some(128));
        assert_eq!(grain_of(&plan(320, None), 640, 2), Some(5));
        assert_eq!(grain_of(&plan(1, Some(4)), 100, 2), Some(4));
        assert_eq!(grain_of(&plan(64, Some(4)), 100, 2), Some(1));
        let cheap = ChunkPlan {
            grain_size: 20_000,
            ..plan(1, None)
        };
        assert_eq!(grain_of(&cheap, 39_999, 8), None);
        assert_eq!(grain_of(&cheap, 40_000, 8), Some(20_000));
        assert_eq!(grain_of(&cheap, 1 << 30, 8), Some(1 << 20));
        let serial = ChunkPlan {
            serial: true,
            ..plan(1, Some(4))
        };
        assert_eq!(grain_of(&serial, 1 << 20, 8), None);
    }
}
