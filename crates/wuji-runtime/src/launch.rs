//! Running a program once.

use crate::array::{ArrayArg, Owner, unaliased};
use crate::copies::CopyLaunch;
use crate::device::{Backend, Device};
use crate::memory::Memory;
use crate::pool::Pool;
use crate::profile::Profiler;
use crate::program::{BoundSource, ChunkPlan, Native, Program, integer};
use crate::report::{Collected, TaskHost, report};
use crate::tier::Background;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;
use wuji_compile::nodes::UPKEEP;
use wuji_ir::random::task_key;
use wuji_ir::types::{Imm, Scalar};
use wuji_ir::{Error, Result};
use wuji_llvm::abi::{ArrayView, LaunchContext};

/// What a program works on.
#[derive(Debug)]
pub struct Bindings<'a> {
    /// One slot per scalar of the by-value parameters, the value in the low bytes.
    pub params: &'a [u64],
    /// One per tree of the module.
    pub trees: &'a [&'a Memory],
    /// One per array of the module.
    pub arrays: &'a [ArrayArg<'a>],
}

/// What a launch left besides the memory it worked on.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The scalars of the result, one per slot; none when the kernel gives none or ended early.
    pub result: SmallVec<[u64; 4]>,
    /// `None` when nothing was reported or printed.
    pub collected: Option<Box<Collected>>,
    /// What went wrong in launches before this one that nobody had waited for.
    pub earlier: Option<Box<Error>>,
}

/// Chunks are made for so many threads where they must not depend on how many there are.
const FIXED_THREADS: u64 = 8;
/// Chunks have no more iterations, so that launches of any length can be stopped between two of them.
const CHUNK_MAX: u64 = 1 << 20;
/// Chunks per thread, so that threads which got easy ones can take more, and all end at about the same time.
const CHUNKS_PER_THREAD: u64 = 64;
/// Bytes of a cache line: as many of the smallest elements fill one.
const LINE_UNITS: u64 = 64;

/// Checks that what is bound is what the program was made for.
pub(crate) fn check(device: &Device, program: &Program, bindings: &Bindings<'_>) -> Result<()> {
    let module = &program.module;
    let wrong = |what: String| Err(Error::new("W0118", what));
    if bindings.params.len() != program.params.len()
        || bindings.trees.len() != program.tree_sizes.len()
        || bindings.arrays.len() != program.array_elements.len()
    {
        return wrong(format!(
            "kernel `{}` needs {} parameter slots, {} trees and {} arrays; it was given {}, {} and {}",
            module.name,
            program.params.len(),
            program.tree_sizes.len(),
            program.array_elements.len(),
            bindings.params.len(),
            bindings.trees.len(),
            bindings.arrays.len(),
        ));
    }
    for (n, (memory, size)) in bindings.trees.iter().zip(&program.tree_sizes).enumerate() {
        if !device.owns(memory) {
            return wrong(format!("tree {n} belongs to another world"));
        }
        // Somebody may have given it back while this launch waited for its turn.
        if memory.is_released() {
            return Err(released());
        }
        if (memory.size() as u64) < *size {
            return wrong(format!("tree {n} is smaller than the kernel expects"));
        }
        // Two trees never overlap; compiled code relies on it.
        if bindings.trees[..n]
            .iter()
            .any(|m| std::ptr::eq(*m, *memory))
        {
            return wrong(format!("tree {n} is bound twice"));
        }
    }
    if bindings.arrays.is_empty() {
        return Ok(());
    }
    let elements = program.array_elements.iter();
    for ((arg, data), (size, align)) in bindings
        .arrays
        .iter()
        .zip(module.arrays.values())
        .zip(elements)
    {
        let name = &data.name;
        reachable(device.backend(), arg.owner(), name)?;
        if arg.rank() != usize::from(data.rank) {
            let (has, needs) = (arg.rank(), data.rank);
            return wrong(format!("array `{name}` has {has} axes, not {needs}"));
        }
        if !arg.holds(data.elem, *size, *align) {
            return wrong(format!(
                "array `{name}` has other elements than `{}`",
                data.elem
            ));
        }
        if data.writable && !arg.is_writable() {
            return wrong(format!("array `{name}` can only be read"));
        }
        // What one iteration writes at its own index belongs to it; compiled code relies on it.
        if data.writable && !arg.elements_apart() {
            let what = format!("array `{name}` is written to, but its elements overlap");
            return Err(Error::new("W0117", what)
                .help("use strides with which every element has a place of its own"));
        }
        if data.contiguous && !arg.is_contiguous() {
            return wrong(format!("array `{name}` has gaps"));
        }
    }
    for (data, alone) in module.arrays.values().zip(unaliased(bindings.arrays)) {
        if data.unaliased && !alone {
            return wrong(format!("array `{}` overlaps another one", data.name));
        }
    }
    Ok(())
}

/// Whether the kernels of a world can use an array. What the host has is copied to GPUs.
fn reachable(backend: Backend, owner: Owner, name: &str) -> Result<()> {
    let (n, here) = match (owner, backend) {
        (Owner::Host, _) => return Ok(()),
        (Owner::Cuda(n), Backend::Cuda(m)) if n == m => return Ok(()),
        (Owner::Cuda(n), Backend::Cuda(m)) => (n, format!("on CUDA device {m}")),
        (Owner::Cuda(n), Backend::Cpu | Backend::Interpreter) => (n, "on the CPU".to_owned()),
    };
    let what = format!("array `{name}` lies on CUDA device {n}, and the kernel runs {here}");
    Err(Error::new("W0133", what)
        .help("copy it there first (PyTorch: `.cpu()`, `.to(..)`), or use a world on its device"))
}

/// What is said of a tree whose memory was given back.
pub fn released() -> Error {
    Error::new("W0131", "the tree of this field was destroyed")
        .note("its memory was given back by `destroy`, or with its world")
        .help("make a new layout")
}

/// What a native launch needs of its device.
#[derive(Debug)]
pub(crate) struct Engine<'a> {
    pub(crate) pool: &'a Pool,
    pub(crate) background: &'a Background,
    pub(crate) threads: u64,
    pub(crate) interrupt: &'a AtomicU32,
    pub(crate) seed: u64,
    /// Number of the launch.
    pub(crate) launch: u64,
    /// Set while tasks are timed.
    pub(crate) profiler: Option<&'a Profiler>,
}

/// Runs machine code. The caller holds the turn of the device and has checked the bindings.
pub(crate) fn run_native(
    engine: &Engine<'_>,
    program: &Program,
    native: &Native,
    bindings: &Bindings<'_>,
) -> Result<Outcome> {
    let mut temps: SmallVec<[u64; 16]> = SmallVec::new();
    temps.resize(native.temp_size.div_ceil(8), 0);
    let watch = native.code.is_watched().then(Instant::now);
    let ended = run_tasks(engine, program, native, bindings, &mut temps, watch);
    if let Some(started) = watch {
        native.code.add_spent(started.elapsed());
    }
    // Whatever happened, the next launch finds no reports of this one.
    let collected = program.collector.drain(&program.module);
    let finished = ended?;
    let mut outcome = Outcome {
        collected: collected.map(Box::new),
        ..Outcome::default()
    };
    if finished {
        let scalars = native.result.iter();
        let scalars = scalars.map(|(scalar, at)| read_temp(&temps, *at, *scalar));
        outcome.result.extend(scalars);
    }
    Ok(outcome)
}

/// Whether the kernel has come to its end.
fn run_tasks(
    engine: &Engine<'_>,
    program: &Program,
    native: &Native,
    bindings: &Bindings<'_>,
    temps: &mut [u64],
    watch: Option<Instant>,
) -> Result<bool> {
    let trees: SmallVec<[*mut u8; 8]> = bindings.trees.iter().map(|m| m.base()).collect();
    let arrays: SmallVec<[ArrayView; 2]> = bindings.arrays.iter().map(ArrayArg::view).collect();
    let mut over = false;
    for task in &native.tasks {
        // What a task has deactivated is collected even if it was interrupted, or else it would take memory until some
        // later launch does so.
        let keeps_up = task.ordinal == UPKEEP && task.list.is_none();
        if over && !keeps_up {
            continue;
        }
        let begin = engine.profiler.map(|p| (p, p.now()));
        let list = task.list.as_ref().map(|l| (l, bindings.trees[l.tree]));
        let stamp = match list {
            None => None,
            Some((plan, memory)) => match plan.begin(memory) {
                Some(stamp) => Some(stamp),
                None => continue,
            },
        };
        let units = match &task.chunks {
            None => 1,
            Some(plan) => units(plan, bindings.params, |place| match place {
                Word::Temp(at, scalar) => read_temp(temps, at, scalar),
                Word::Tree(tree, at) => bindings.trees[tree].word(at),
            })?,
        };
        let host = TaskHost {
            module: &program.module,
            collector: &program.collector,
            task: task.ordinal,
        };
        let context = LaunchContext {
            params: bindings.params.as_ptr(),
            trees: trees.as_ptr(),
            arrays: arrays.as_ptr(),
            temps: temps.as_mut_ptr().cast(),
            interrupt: engine.interrupt,
            random_key: task_key(engine.seed, engine.launch, u64::from(task.ordinal)),
            report,
            host: host.pointer(),
            // Worker 0 works on the trees.
            copies: trees.as_ptr(),
        };
        let work = |context: &LaunchContext, begin: i64, end: i64| {
            // Loops that end by themselves do not look at it.
            if !keeps_up && engine.interrupt.load(Ordering::Relaxed) != 0 {
                return;
            }
            if let Some(started) = watch
                && native.code.is_watched()
                && native.code.hot_after(started.elapsed())
            {
                engine.background.ask(&native.code);
            }
            let Some(task) = native.code.task(task.number) else {
                // All code of a program has as many tasks.
                return;
            };
            // SAFETY: `check` has seen that memory, arrays and slots are those the code was made
            // for, `context` outlives the call, and the units are within the task's.
            unsafe { task(context, begin, end) };
        };
        let shared = Shared(&context);
        let run = |begin: i64, end: i64| {
            let Shared(context) = &shared;
            work(context, begin, end);
        };
        let plan = task.chunks.as_ref();
        // Where results must not depend on threads, neither do chunks; and lists are made in order.
        let threads = match program.deterministic {
            true => FIXED_THREADS,
            false => engine.threads,
        };
        let grain = plan
            .filter(|_| !program.deterministic || list.is_none())
            .and_then(|plan| grain_of(plan, units, threads));
        match (grain, &task.copies) {
            (Some(grain), None) if program.deterministic => {
                let chunks = units.div_ceil(grain) as i64;
                engine.pool.run(chunks, 1, &|from, to| {
                    for chunk in from as u64..to as u64 {
                        let end = (chunk + 1).saturating_mul(grain).min(units);
                        run((chunk * grain) as i64, end as i64);
                    }
                })?;
            }
            (Some(grain), None) => engine.pool.run(units as i64, grain as i64, &run)?,
            (Some(grain), Some(copies)) => {
                let launch = CopyLaunch {
                    plan: copies,
                    code: &native.code,
                    pool: engine.pool,
                    threads: engine.threads,
                    trees: bindings.trees,
                    context: &context,
                };
                let unit = plan.map_or(1, |p| p.unit);
                match program.deterministic {
                    true => launch.run_in_order((units, unit), grain, temps, &work)?,
                    false => launch.run((units, unit), grain, &work)?,
                }
            }
            (None, _) if units == 0 => {}
            (None, _) => run(0, units as i64),
        }
        let interrupted = engine.interrupt.load(Ordering::Relaxed) != 0;
        if let (Some((plan, memory)), Some(stamp), false) = (list, stamp, interrupted) {
            if program.deterministic {
                plan.sort(memory);
            }
            plan.finish(memory, stamp);
        }
        if let Some((profiler, begin)) = begin {
            let iterations = units.saturating_mul(plan.map_or(1, |p| p.unit));
            profiler.task(&program.kernel, task.number, iterations, begin);
        }
        // An assertion that fails in serial code ends the kernel.
        let serial = task.chunks.is_none();
        let stopped = serial && program.collector.stopped(task.ordinal);
        over |= stopped || engine.interrupt.load(Ordering::Relaxed) != 0;
    }
    Ok(!over)
}

/// A context that several threads look at.
struct Shared<'a>(&'a LaunchContext);

// SAFETY: nothing writes to a context, and what it points to is shared by design: parameters and
// addresses are only read, memory follows the rules for races in `docs/ir.md`, the host side of
// `report` is a `TaskHost`, which is `Sync`.
unsafe impl Sync for Shared<'_> {}
// SAFETY: as above.
unsafe impl Send for Shared<'_> {}

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

/// Puts a scalar at a byte offset in the temps.
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

/// A number that earlier tasks have left.
pub(crate) enum Word {
    Temp(usize, Scalar),
    Tree(usize, u64),
}

/// How many units a task has.
pub(crate) fn units(plan: &ChunkPlan, params: &[u64], word: impl Fn(Word) -> u64) -> Result<u64> {
    let value = |place: BoundSource| match place {
        BoundSource::Const(c) => i128::from(c),
        BoundSource::Slot(at, scalar) => integer(scalar, params[at]),
        BoundSource::Temp(at, scalar) => integer(scalar, word(Word::Temp(at, scalar))),
        BoundSource::Tree(tree, at) => i128::from(word(Word::Tree(tree, at))),
    };
    let mut total = 1u128;
    for (lo, hi) in &plan.dims {
        let count = (value(*hi) - value(*lo)).max(0) as u128;
        total = total.saturating_mul(count);
    }
    // An empty dimension makes the loop empty however long the others are.
    match u64::try_from(total) {
        Ok(n) if n <= i64::MAX as u64 => Ok(n),
        _ => Err(
            Error::new("W0406", "a parallel loop has more than 2^63 iterations")
                .help("make its ranges smaller"),
        ),
    }
}

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
    // Waking another thread costs more than what it would get.
    if iterations < 2 * plan.grain_size {
        return None;
    }
    let even = units.div_ceil(threads * CHUNKS_PER_THREAD);
    // Chunks begin at whole cache lines, where there is room for that.
    let even = match even >= 16 * LINE_UNITS {
        true => even.next_multiple_of(LINE_UNITS),
        false => even,
    };
    let grain = even.min(per_unit(CHUNK_MAX)).max(per_unit(plan.grain_size));
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

    #[test]
    fn counting_units() {
        let dims = |dims: &[(BoundSource, BoundSource)]| ChunkPlan {
            dims: dims.iter().copied().collect(),
            unit: 1,
            block: None,
            serial: false,
            grain_size: 128,
            cooperative: false,
        };
        let count = |d: &[(BoundSource, BoundSource)]| units(&dims(d), &[u64::MAX], |_| 7);
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
}
