//! Pending launches and their buffered reports.
//!
//! Each launch gets a number and a *slot*: a few words of device memory with a counter per site. Details go to one log
//! that all launches append to, with their numbers. A kernel that reports also sets a host word, so nothing is copied
//! if there are no reports. Slots come from a ring with two halves; when one is full, the other is reused once its
//! launches are done.

use super::context::CudaContext;
use super::memory::{DeviceBuffer, Pinned};
use super::stream::{CudaEvent, CudaStream};
use crate::report::{Collected, Collector, ReportContext};
use smallvec::SmallVec;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::mem::size_of;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use wuji_ir::entities::Field;
use wuji_ir::module::Module;
use wuji_ir::{Error, Result};
use wuji_llvm::cuda::{DeviceLog, DeviceReports, REPORT_WORDS, REPORT_WRITTEN};

/// Words of one half of the ring, and of the region for graphs after it.
const HALF: usize = 1 << 14;
const ALL: usize = 3 * HALF;
/// Words of the log, for details of problems and printed lines.
const LOG_WORDS: usize = 1 << 20;

const LOG_HEAD: usize = size_of::<DeviceLog>() / 8;
const SLOT_HEAD: usize = size_of::<DeviceReports>() / 8;

#[derive(Debug)]
pub(super) struct PendingLaunches {
    log: DeviceBuffer,
    ring: DeviceBuffer,
    /// Set by a kernel that reports something.
    reported: Pinned,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Number of the last launch.
    number: u64,
    /// The half of the ring in use, and the words allocated in it.
    half: usize,
    taken: usize,
    /// Pending launches, in order.
    pending: VecDeque<Pending>,
    /// Launches in graphs, by their numbers, which are reused in each replay.
    graphs: BTreeMap<u64, InGraph>,
    /// How many of them are known to be done, and the time of the last one.
    past: usize,
    began: Option<Instant>,
    /// Events after the launches with slots in each half.
    marks: [Option<CudaEvent>; 2],
    /// Why launches were interrupted; not returned yet.
    stopped: Vec<Error>,
    /// Why there is no memory for more cells.
    refused: Option<Error>,
}

/// A launch in a graph.
#[derive(Debug)]
struct InGraph {
    slot: usize,
    info: LaunchInfo,
    /// Its graph was dropped; its reports are still returned.
    gone: bool,
}

/// A launch that may be in flight. The launch of a whole graph has no slot.
#[derive(Debug)]
struct Pending {
    number: u64,
    /// The half of the ring that contains its slot.
    half: usize,
    slot: Option<usize>,
    info: Arc<LaunchInfo>,
    /// With a time limit: the event after it, and the time when it was enqueued.
    end: Option<(CudaEvent, Instant)>,
}

/// The data for describing the reports of a launch once it is done.
#[derive(Debug)]
pub(crate) struct LaunchInfo {
    pub(crate) module: Arc<Module>,
    /// Names of the fields of each tree, if they differ from the module's.
    pub(crate) names: SmallVec<[Option<Arc<[String]>>; 2]>,
    /// Extents of the arrays of the launch.
    pub(crate) extents: Vec<Vec<i64>>,
}

impl LaunchInfo {
    fn field_name(&self, field: Field) -> Option<String> {
        let fields = &self.module.fields;
        let tree = fields.get(field)?.tree;
        let first = fields.iter().find(|(_, f)| f.tree == tree)?.0;
        let names = self.names.get(tree.as_u32() as usize)?.as_ref()?;
        let place = field.as_u32() - first.as_u32();
        names.get(place as usize).cloned()
    }

    fn error_of(&self, collected: &Collected) -> Option<Error> {
        collected.error(&ReportContext {
            module: &self.module,
            field_name: &|field| self.field_name(field),
            array_extents: &self.extents,
        })
    }
}

/// The slot of a launch.
#[derive(Copy, Clone, Debug)]
pub(crate) struct PendingLaunch {
    pub(crate) number: u64,
    pub(crate) reports: u64,
    pub(crate) log: u64,
}

/// The reports of a finished launch.
#[derive(Debug)]
pub(crate) struct Reported {
    pub(crate) number: u64,
    pub(crate) collected: Collected,
    pub(crate) error: Option<Error>,
}

/// The result of a slot allocation.
pub(super) enum ReportSlot {
    Free(usize),
    /// A launch with a slot in the next half is not done, or has reported something.
    Taken,
}

impl PendingLaunches {
    pub(super) fn new(context: &Arc<CudaContext>, stream: &CudaStream) -> Result<PendingLaunches> {
        let pending = PendingLaunches {
            log: context.alloc(8 * (LOG_HEAD + LOG_WORDS) as u64)?,
            ring: context.alloc(8 * ALL as u64)?,
            reported: context.pinned(64)?,
            state: Mutex::default(),
        };
        // SAFETY: both buffers are our own, and have this size.
        unsafe {
            stream.fill(pending.ring.address(), pending.ring.bytes(), 0)?;
            stream.fill(pending.log.address(), pending.log.bytes(), 0)?;
        }
        pending.reset_log(stream)?;
        Ok(pending)
    }

    fn reset_log(&self, stream: &CudaStream) -> Result<()> {
        let head = [0, LOG_WORDS as u64, self.reported.device()];
        let bytes: Vec<u8> = head.iter().flat_map(|w| w.to_le_bytes()).collect();
        // SAFETY: the buffer is our own, and longer; the bytes are ordinary memory.
        unsafe { stream.copy_in(self.log.address(), &bytes) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reported_word(&self) -> &AtomicU64 {
        // SAFETY: the word is our own, and aligned; kernels only store to it.
        unsafe { &*self.reported.host().cast::<AtomicU64>() }
    }

    /// Whether a launch has reported something since the last collection.
    pub(super) fn has_reports(&self) -> bool {
        self.reported_word().load(Ordering::Acquire) != 0
    }

    pub(super) fn is_empty(&self) -> bool {
        let state = self.state();
        state.pending.is_empty() && state.stopped.is_empty()
    }

    /// An error if a module has more sites than a slot can have.
    pub(super) fn fits(module: &Module) -> Result<()> {
        if SLOT_HEAD + module.sites.len() <= HALF {
            Ok(())
        } else {
            Err(super::launch::unsupported(
                "a kernel with this many report sites",
            ))
        }
    }

    /// Allocates a slot in the ring.
    pub(super) fn slot(&self, stream: &CudaStream, sites: usize) -> Result<ReportSlot> {
        let mut state = self.state();
        let words = SLOT_HEAD + sites;
        let half = state.half;
        if state.taken + words <= HALF {
            let at = half * HALF + state.taken;
            state.taken += words;
            return Ok(ReportSlot::Free(at));
        }
        let next = 1 - half;
        if state.marks[half].is_none() {
            let mark = stream.context().untimed_event()?;
            stream.record(&mark)?;
            state.marks[half] = Some(mark);
        }
        if let Some(mark) = &state.marks[next]
            && !mark.done()?
        {
            return Ok(ReportSlot::Taken);
        }
        if self.has_reports() {
            return Ok(ReportSlot::Taken);
        }
        state.marks[next] = None;
        while state.pending.front().is_some_and(|p| p.half == next) {
            state.pending.pop_front();
            state.past = state.past.saturating_sub(1);
        }
        (state.half, state.taken) = (next, words);
        Ok(ReportSlot::Free(next * HALF))
    }

    /// Registers a launch that is about to be enqueued.
    pub(super) fn enter(&self, slot: usize, info: Arc<LaunchInfo>) -> PendingLaunch {
        let mut state = self.state();
        state.number += 1;
        let number = state.number;
        let half = slot / HALF;
        state.pending.push_back(Pending {
            number,
            half,
            slot: Some(slot),
            info,
            end: None,
        });
        self.launch(number, slot)
    }

    fn launch(&self, number: u64, slot: usize) -> PendingLaunch {
        PendingLaunch {
            number,
            reports: self.ring.address() + 8 * slot as u64,
            log: self.log.address(),
        }
    }

    /// Allocates a slot for a launch in a graph.
    pub(super) fn keep(&self, info: LaunchInfo) -> Result<PendingLaunch> {
        let mut state = self.state();
        let words = SLOT_HEAD + info.module.sites.len();
        let mut taken: Vec<(usize, usize)> = state
            .graphs
            .values()
            .map(|g| (g.slot, g.slot + SLOT_HEAD + g.info.module.sites.len()))
            .collect();
        taken.sort_unstable();
        let mut slot = 2 * HALF;
        for (from, to) in taken {
            if slot + words <= from {
                break;
            }
            slot = to;
        }
        if slot + words > ALL {
            return Err(Error::new("W0134", "too many launches in graphs")
                .note("the report buffer has room for some thousand launches in graphs")
                .help("drop graphs that are not needed, or make them shorter"));
        }
        state.number += 1;
        let number = state.number;
        let gone = false;
        state.graphs.insert(number, InGraph { slot, info, gone });
        Ok(self.launch(number, slot))
    }

    /// Frees the slots of a dropped graph; its reports are collected like others.
    pub(super) fn release_slots(&self, numbers: &[u64]) {
        let mut state = self.state();
        for number in numbers {
            if let Some(launch) = state.graphs.get_mut(number) {
                launch.gone = true;
            }
        }
        if !self.has_reports() {
            state.graphs.retain(|_, launch| !launch.gone);
        }
    }

    /// A graph is about to be launched.
    pub(super) fn enter_graph(&self, info: &Arc<LaunchInfo>) {
        let mut state = self.state();
        state.number += 1;
        let (number, half) = (state.number, state.half);
        state.pending.push_back(Pending {
            number,
            half,
            slot: None,
            info: info.clone(),
            end: None,
        });
    }

    /// Sets the event after the last launch.
    pub(super) fn ends_with(&self, end: CudaEvent) {
        if let Some(last) = self.state().pending.back_mut() {
            last.end = Some((end, Instant::now()));
        }
    }

    /// The kernel that exceeds the time limit, if any. `clock` returns the time of an event.
    pub(super) fn late(
        &self,
        limit: Duration,
        clock: impl Fn(&CudaEvent) -> Result<Instant>,
    ) -> Result<Option<String>> {
        let mut state = self.state();
        while let Some(launch) = state.pending.get(state.past) {
            let Some((end, asked)) = &launch.end else {
                break;
            };
            if !end.done()? {
                let began = state.began.map_or(*asked, |b| b.max(*asked));
                let late = began.elapsed() > limit;
                return Ok(late.then(|| launch.info.module.name.clone()));
            }
            state.began = Some(clock(end)?);
            state.past += 1;
        }
        Ok(None)
    }

    /// The names of kernels that may be in flight, without duplicates.
    pub(super) fn kernels(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for launch in &self.state().pending {
            let name = &launch.info.module.name;
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        names
    }

    pub(super) fn refused(&self, error: Error) {
        self.state().refused = Some(error);
    }

    pub(super) fn refusal(&self) -> Option<Error> {
        self.state().refused.clone()
    }

    /// Keeps why launches were interrupted until the next synchronizing call.
    pub(super) fn stopped(&self, error: Error) {
        self.state().stopped.push(error);
    }

    /// Whether launches were interrupted since the last synchronizing call.
    pub(super) fn are_stopped(&self) -> bool {
        !self.state().stopped.is_empty()
    }

    /// The reports of all launches, in order, and why some were interrupted. The stream is idle.
    pub(super) fn gather(&self, stream: &CudaStream) -> Result<(Vec<Reported>, Vec<Error>)> {
        let mut state = self.state();
        let pending = std::mem::take(&mut state.pending);
        let stopped = std::mem::take(&mut state.stopped);
        state.marks = [None, None];
        (state.half, state.taken, state.past, state.began) = (0, 0, 0, None);
        drop(state);
        if self.reported_word().swap(0, Ordering::Acquire) == 0 {
            self.state().graphs.retain(|_, launch| !launch.gone);
            return Ok((Vec::new(), stopped));
        }
        let ring = words(stream, self.ring.address(), ALL)?;
        let head = words(stream, self.log.address(), LOG_HEAD)?;
        let written = (head[0] as usize).min(LOG_WORDS);
        let first = self.log.address() + 8 * LOG_HEAD as u64;
        let log = words(stream, first, written)?;
        // Clear the buffers, so that old reports are not seen again.
        // SAFETY: both buffers are our own, and have this size.
        unsafe {
            stream.fill(self.ring.address(), self.ring.bytes(), 0)?;
            stream.fill(first, 8 * written as u64, 0)?;
        }
        self.reset_log(stream)?;
        let records = by_launch(&log);
        let mut reported = Vec::new();
        let mut collect = |number: u64, slot: usize, info: &LaunchInfo| {
            let module = &info.module;
            let counts = &ring[slot + SLOT_HEAD..][..module.sites.len()];
            if counts.iter().all(|c| *c == 0) {
                return;
            }
            let collector = Collector::new(module);
            let records = records.get(&number).map_or(&[][..], Vec::as_slice);
            collector.absorb(module, counts, records);
            if let Some(collected) = collector.drain(module) {
                reported.push(Reported {
                    number,
                    error: info.error_of(&collected),
                    collected,
                });
            }
        };
        for launch in pending {
            if let Some(slot) = launch.slot {
                collect(launch.number, slot, &launch.info);
            }
        }
        let mut state = self.state();
        for (number, launch) in &state.graphs {
            collect(*number, launch.slot, &launch.info);
        }
        state.graphs.retain(|_, launch| !launch.gone);
        Ok((reported, stopped))
    }
}

/// The consecutive records of each launch.
fn by_launch(log: &[u64]) -> HashMap<u64, Vec<u64>> {
    let mut records: HashMap<u64, Vec<u64>> = HashMap::new();
    let mut rest = log;
    while let [first, launch, ..] = rest {
        // The buffer was full; no complete record follows.
        if first & REPORT_WRITTEN == 0 {
            break;
        }
        let count = ((*first & !REPORT_WRITTEN) >> 32) as usize;
        let Some((record, after)) = rest.split_at_checked(REPORT_WORDS as usize + count) else {
            break;
        };
        records.entry(*launch).or_default().extend(record);
        rest = after;
    }
    records
}

fn words(stream: &CudaStream, at: u64, count: usize) -> Result<Vec<u64>> {
    let mut bytes = vec![0; 8 * count];
    // SAFETY: callers own that much memory there; the copy is synchronized.
    unsafe { stream.copy_out(&mut bytes, at) }?;
    stream.synchronize()?;
    let words = bytes.chunks_exact(8);
    Ok(words
        .map(|w| w.try_into().map_or(0, u64::from_le_bytes))
        .collect())
}
