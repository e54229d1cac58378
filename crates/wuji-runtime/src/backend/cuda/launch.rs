//! A launch on a GPU.

use super::engine::CudaEngine;
use super::memory::DeviceBuffer;
use super::pending::{LaunchInfo, PendingLaunch};
use super::program::{CudaProgram, GpuTask};
use super::stream::CudaEvent;
use super::tree::DeviceTree;
use crate::array::{ArrayArg, Owner};
use crate::backend::LaunchRequest;
use crate::backend::tasks::{BoundSource, ChunkPlan, DimPlan, RepeatPlan, Word, read_temp, units};
use crate::launch::{Bindings, Outcome};
use crate::overlap::OverlapGroup;
use crate::program::Program;
use crate::report::Collected;
use smallvec::SmallVec;
use std::ffi::c_void;
use std::mem::{offset_of, size_of};
use std::sync::{Arc, PoisonError};
use std::time::Instant;
use wuji_ir::interp::Report;
use wuji_ir::module::SiteKind;
use wuji_ir::random::task_key;
use wuji_ir::{Error, Result};
use wuji_llvm::abi::ArrayView;
use wuji_llvm::cuda::DeviceHeader;

/// The most blocks of a grid.
const MOST_BLOCKS: u64 = (1 << 31) - 1;
/// If each thread would get fewer iterations than this, the grid has one thread per iteration.
const FEW_ITERATIONS: u64 = 16;

/// Enqueues the tasks of a program, and synchronizes if the caller needs their results.
pub(super) fn run(request: &LaunchRequest<'_>, code: &CudaProgram) -> Result<Outcome> {
    let LaunchRequest {
        program,
        bindings,
        profiler,
        ..
    } = *request;
    let engine = &code.engine;
    let not_launched = |e: Error| {
        let name = &program.module.name;
        e.note(format!("kernel `{name}` was not launched"))
    };
    engine.before_launch(code.prints).map_err(not_launched)?;
    for tree in activated(code, bindings) {
        tree.before_launch()?;
    }
    let arrays = Staged::all(engine, bindings.arrays)?;
    let pending = engine
        .enter(known_info(code, program, bindings))
        .map_err(not_launched)?;
    let how = Enqueue {
        name: &program.module.name,
        seed: request.seed,
        launch: request.number,
        timed: profiler.is_some(),
        pending,
    };
    let sizes = enqueue(&how, code, bindings, &arrays)?;
    for tree in activated(code, bindings) {
        tree.after_launch()?;
    }
    engine.entered()?;
    let wanted = !code.result.is_empty() || !arrays.is_empty() || profiler.is_some();
    if !wanted && !request.wait {
        return Ok(Outcome::default());
    }
    if !code.result.is_empty() {
        ask_temps(code)?;
    }
    let settled = engine.settle(Some(pending.number))?;
    if let Some(profiler) = profiler {
        for (task, begin, end) in sizes {
            let ms = end.elapsed_ms(&begin)?;
            let time = std::time::Duration::from_secs_f64(f64::from(ms.max(0.0)) / 1e3);
            let begin = profiler.now().saturating_sub(time);
            profiler.timed(&program.kernel, task.plan.number, 1, (begin, time));
        }
    }
    for staged in &arrays {
        staged.copy_back(engine, bindings.arrays)?;
    }
    let ended_early = |c: &Collected| c.reports.iter().any(ends_kernel);
    let failed = settled.own.as_ref().is_some_and(ended_early);
    let mut outcome = Outcome {
        result: SmallVec::new(),
        collected: settled.own.map(Box::new),
        earlier: settled.error.map(Box::new),
    };
    if !code.result.is_empty() && !failed && !settled.stopped {
        let temps = arrived_temps(code)?;
        let scalars = code.result.iter();
        let scalars = scalars.map(|(scalar, at)| read_temp(&temps, *at, *scalar));
        outcome.result.extend(scalars);
    }
    Ok(outcome)
}

/// The trees in which a launch may activate cells.
pub(super) fn activated<'a>(
    code: &'a CudaProgram,
    bindings: &'a Bindings<'_>,
) -> impl Iterator<Item = &'a DeviceTree> {
    let trees = bindings.trees.iter().zip(&code.activates);
    trees
        .filter(|(_, activates)| **activates)
        .filter_map(|(memory, _)| memory.storage_if())
}

/// The [`LaunchInfo`] of the program's last launch, if it is the same.
fn known_info(code: &CudaProgram, program: &Program, bindings: &Bindings<'_>) -> Arc<LaunchInfo> {
    let mut last = code.info.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = &*last {
        let trees = bindings.trees.iter().zip(&known.names);
        let arrays = bindings.arrays.iter().map(ArrayArg::extents);
        if known.names.len() == bindings.trees.len()
            && trees
                .into_iter()
                .all(|(memory, names)| memory.has_names(names))
            && arrays.eq(known.extents.iter().map(Vec::as_slice))
        {
            return known.clone();
        }
    }
    last.insert(Arc::new(launch_info(program, bindings)))
        .clone()
}

/// The data for describing the reports of a launch once it is done.
pub(super) fn launch_info(program: &Program, bindings: &Bindings<'_>) -> LaunchInfo {
    let arrays = bindings.arrays.iter();
    LaunchInfo {
        module: program.module.clone(),
        names: bindings.trees.iter().map(|m| m.names()).collect(),
        extents: arrays.map(|a| a.extents().to_vec()).collect(),
    }
}

/// How tasks are enqueued.
pub(super) struct Enqueue<'a> {
    /// The kernel.
    pub(super) name: &'a str,
    pub(super) seed: u64,
    pub(super) launch: u64,
    pub(super) timed: bool,
    pub(super) pending: PendingLaunch,
}

/// Enqueues all tasks; returns events around each, if they are timed.
pub(super) fn enqueue<'c>(
    how: &Enqueue<'_>,
    code: &'c CudaProgram,
    bindings: &Bindings<'_>,
    arrays: &[Staged],
) -> Result<Vec<(&'c GpuTask, CudaEvent, CudaEvent)>> {
    let (engine, pending) = (&code.engine, &how.pending);
    let mut words = arguments(code, bindings, arrays);
    if code.temps.bytes() > 0 {
        engine.zero(code.temps.address(), code.temps.bytes())?;
    }
    let mut sizes = Vec::new();
    let mut ahead = RunAhead {
        name: how.name,
        begun: None,
        loops: SmallVec::new(),
    };
    let mut at = 0;
    while let Some(task) = code.tasks.get(at) {
        at += 1;
        let header = DeviceHeader {
            temps: code.temps.address(),
            interrupt: engine.interrupt(),
            reports: pending.reports,
            log: pending.log,
            random_key: task_key(how.seed, how.launch, u64::from(task.plan.ordinal)),
            launch: pending.number,
            ordinal: u64::from(task.plan.ordinal),
        };
        put_header(&mut words, &header);
        let Some(grid) = grid(code, task, bindings)? else {
            continue;
        };
        let begin = if how.timed {
            let begin = engine.context().event()?;
            engine.stream.record(&begin)?;
            Some(begin)
        } else {
            None
        };
        let mut parameters = [words.as_mut_ptr().cast::<c_void>()];
        // SAFETY: the kernel takes the words by value, as many as `layout` says. The memory they point to was checked
        // to be what the code was compiled for, and stays allocated until the stream is synchronized: the memory and
        // code of dropped trees and programs are freed after it.
        unsafe {
            engine.stream.launch(
                &task.function,
                [grid, 1, 1],
                [task.block, 1, 1],
                0,
                &mut parameters,
            )?;
        }
        if let Some(begin) = begin {
            let end = engine.context().event()?;
            engine.stream.record(&end)?;
            sizes.push((task, begin, end));
        }
        if let Some(repeat) = &task.plan.repeat
            && ahead.repeats(code, at, repeat)?
        {
            engine.enter_queue(at - repeat.first)?;
            at = repeat.first;
        }
    }
    Ok(sizes)
}

/// The most iterations of a loop around tasks that are enqueued before the host knows whether they run.
const MOST_AHEAD: u32 = 64;

/// Loops around tasks. The device knows which tasks are next and skips the others, so that the host can enqueue iterations
/// ahead, and looks only now and then whether a loop goes on.
struct RunAhead<'a> {
    /// The kernel.
    name: &'a str,
    /// Since when it runs for certain.
    begun: Option<Instant>,
    /// By the number of the last task.
    loops: SmallVec<[(usize, Ahead); 2]>,
}

#[derive(Copy, Clone)]
struct Ahead {
    /// Iterations until the host looks.
    left: u32,
    /// Iterations that it enqueued last time before it looked.
    batch: u32,
}

impl RunAhead<'_> {
    /// Whether the tasks of a loop are enqueued again.
    fn repeats(&mut self, code: &CudaProgram, last: usize, repeat: &RepeatPlan) -> Result<bool> {
        let known = self.loops.iter().position(|(l, _)| *l == last);
        let known = known.unwrap_or_else(|| {
            let first = Ahead { left: 0, batch: 1 };
            self.loops.push((last, first));
            self.loops.len() - 1
        });
        let ahead = &mut self.loops[known].1;
        if ahead.left > 0 {
            ahead.left -= 1;
            return Ok(true);
        }
        let goes_on = repeat.continues(&fetch_temps(code)?);
        let begun = *self.begun.get_or_insert_with(Instant::now);
        let continues = goes_on && !code.engine.stops(self.name, begun);
        ahead.batch = if continues {
            (2 * ahead.batch).min(MOST_AHEAD)
        } else {
            // The loop may come again.
            (ahead.batch / 2).max(1)
        };
        ahead.left = ahead.batch - 1;
        Ok(continues)
    }
}

/// Whether a report is from serial code and has ended the kernel. Ordinals of serial tasks are even.
fn ends_kernel(report: &Report) -> bool {
    report.task.is_multiple_of(2)
        && matches!(report.kind, SiteKind::Assert(_) | SiteKind::TooDeep(_))
}

/// The number of blocks of a task; `None` if there is nothing to do.
fn grid(code: &CudaProgram, task: &GpuTask, bindings: &Bindings<'_>) -> Result<Option<u32>> {
    let many = |plan: &&ChunkPlan| task.block > 1 || plan.cooperative;
    let Some(plan) = task.plan.chunks.as_ref().filter(many) else {
        return Ok(Some(1));
    };
    if plan.cooperative {
        return exact_grid(code, task, plan, bindings);
    }
    let unknown = |p: BoundSource| matches!(p, BoundSource::Temp(..) | BoundSource::Tree(..));
    if plan.dims.iter().flat_map(DimPlan::bounds).any(unknown) {
        return Ok(Some(task.blocks));
    }
    let units = units(plan, bindings, |_: Word| 0)?;
    if units == 0 {
        return Ok(None);
    }
    let block = u64::from(task.block);
    let exact = units.div_ceil(block);
    // Few iterations per thread are not worth a loop, and a larger grid balances the load. But every block updates the
    // results of a reduction, one after the other.
    let few = exact <= u64::from(task.blocks) * FEW_ITERATIONS && !task.reduces;
    let blocks = if few || exact <= u64::from(task.blocks) {
        exact
    } else {
        u64::from(task.blocks)
    };
    Ok(Some(blocks.min(MOST_BLOCKS) as u32))
}

/// The number of blocks with one thread per iteration. If the number of iterations depends on earlier tasks, this
/// synchronizes.
fn exact_grid(
    code: &CudaProgram,
    task: &GpuTask,
    plan: &ChunkPlan,
    bindings: &Bindings<'_>,
) -> Result<Option<u32>> {
    let in_temp = |p: BoundSource| matches!(p, BoundSource::Temp(..));
    let temps = if plan.dims.iter().flat_map(DimPlan::bounds).any(in_temp) {
        fetch_temps(code)?
    } else {
        Vec::new()
    };
    let units = units(plan, bindings, |word| match word {
        Word::Temp(at, scalar) => read_temp(&temps, at, scalar),
        // Loops over lists are not cooperative.
        Word::Tree(..) => 0,
    })?;
    match units.div_ceil(u64::from(task.block)) {
        0 => Ok(None),
        n if n <= MOST_BLOCKS => Ok(Some(n as u32)),
        n => Err(Error::new(
            "W0406",
            format!("a parallel loop needs {n} thread blocks, more than a GPU supports"),
        )
        .help("make its ranges smaller, or its blocks larger")),
    }
}

/// The temps of the last tasks. Waits for them.
fn fetch_temps(code: &CudaProgram) -> Result<Vec<u64>> {
    ask_temps(code)?;
    code.engine.wait()?;
    arrived_temps(code)
}

/// Enqueues a copy of the temps.
fn ask_temps(code: &CudaProgram) -> Result<()> {
    code.engine.ask(code.temps.address(), code.temps.bytes())
}

/// The temps that were asked for, after a wait.
fn arrived_temps(code: &CudaProgram) -> Result<Vec<u64>> {
    let bytes = (code.engine).arrived(code.temps.address(), code.temps.bytes())?;
    let words = bytes.chunks_exact(8);
    Ok(words
        .map(|w| w.try_into().map_or(0, u64::from_le_bytes))
        .collect())
}

/// The by-value parameters of kernels, with room for the header.
fn arguments(
    code: &CudaProgram,
    bindings: &Bindings<'_>,
    arrays: &[Staged],
) -> SmallVec<[u64; 32]> {
    let layout = code.layout;
    let mut words = SmallVec::from_elem(0, layout.size.div_ceil(8));
    let trees = bindings.trees.iter();
    for (to, memory) in words[layout.trees / 8..].iter_mut().zip(trees) {
        *to = memory
            .storage_if::<DeviceTree>()
            .map_or(0, DeviceTree::base);
    }
    let params = &mut words[layout.params / 8..];
    params[..bindings.params.len()].copy_from_slice(bindings.params);
    let each = size_of::<ArrayView>() / 8;
    for (k, arg) in bindings.arrays.iter().enumerate() {
        let mut view = arg.view();
        let staged = arrays.iter().find(|s| s.group.members.contains(&k));
        let base = match (arg.owner(), staged) {
            (Owner::Cuda(_), _) => view.base as u64,
            (Owner::Host, None) => 0,
            (Owner::Host, Some(s)) => {
                s.buffer.address() + (view.base as usize - s.group.start) as u64
            }
        };
        view.base = base as *mut u8;
        let to = &mut words[layout.arrays / 8 + k * each..][..each];
        let (extents, strides) = (
            offset_of!(ArrayView, extents) / 8,
            offset_of!(ArrayView, strides) / 8,
        );
        to[offset_of!(ArrayView, base) / 8] = base;
        for (axis, (extent, stride)) in view.extents.iter().zip(view.strides).enumerate() {
            to[extents + axis] = *extent as u64;
            to[strides + axis] = stride as u64;
        }
    }
    words
}

fn put_header(words: &mut [u64], header: &DeviceHeader) {
    let all = [
        (offset_of!(DeviceHeader, temps), header.temps),
        (offset_of!(DeviceHeader, interrupt), header.interrupt),
        (offset_of!(DeviceHeader, reports), header.reports),
        (offset_of!(DeviceHeader, log), header.log),
        (offset_of!(DeviceHeader, random_key), header.random_key),
        (offset_of!(DeviceHeader, launch), header.launch),
        (offset_of!(DeviceHeader, ordinal), header.ordinal),
    ];
    for (at, value) in all {
        words[at / 8] = value;
    }
}

/// Host arrays that overlap each other, copied to the device for one launch.
#[derive(Debug)]
pub(super) struct Staged {
    group: OverlapGroup,
    buffer: DeviceBuffer,
}

impl Staged {
    /// Device arrays are not copied.
    fn all(engine: &Arc<CudaEngine>, arrays: &[ArrayArg<'_>]) -> Result<Vec<Staged>> {
        let groups = OverlapGroup::all(arrays).into_iter();
        let groups = groups.filter(|g| g.members.iter().all(|k| arrays[*k].owner() == Owner::Host));
        groups
            .map(|group| {
                let buffer = engine.context().alloc((group.end - group.start) as u64)?;
                engine.send(buffer.address(), &group.copy_in(arrays))?;
                Ok(Staged { group, buffer })
            })
            .collect()
    }

    fn copy_back(&self, engine: &CudaEngine, arrays: &[ArrayArg<'_>]) -> Result<()> {
        if !self.group.members.iter().any(|k| arrays[*k].is_writable()) {
            return Ok(());
        }
        let mut bytes = vec![0; self.group.end - self.group.start];
        engine.fetch(&mut bytes, self.buffer.address())?;
        self.group.copy_out(arrays, &bytes);
        Ok(())
    }
}

/// An error: a GPU does not support something.
pub(crate) fn unsupported(what: &str) -> Error {
    Error::new("W0525", format!("{what} is not supported on a GPU"))
}
