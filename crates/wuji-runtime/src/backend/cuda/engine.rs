//! The stream of a GPU, the interrupt flag of its kernels, and its pending launches.

use super::context::CudaContext;
use super::error::amount;
use super::garbage::{Garbage, Resource};
use super::graph::CudaGraph;
use super::memory::{DeviceBuffer, Pinned};
use super::pending::{LaunchInfo, PendingLaunch, PendingLaunches, ReportSlot, Reported};
use super::queue::Queue;
use super::staging::Staging;
use super::stream::{CudaEvent, CudaStream};
use crate::interrupt;
use crate::print_sink::PrintSink;
use crate::report::Collected;
use crate::stop::{Reason, Stop, stopped};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::{Duration, Instant};
use wuji_ir::module::Module;
use wuji_ir::{Error, Result};

#[derive(Debug)]
pub(crate) struct CudaEngine {
    pub(crate) stream: CudaStream,
    /// A second stream, for copies that must reach the device while kernels run.
    aside: CudaStream,
    /// The interrupt flag: kernels leave their loops when it is not zero.
    interrupt: DeviceBuffer,
    staging: Staging,
    /// Where small copies arrive that are enqueued with the work whose results they are.
    arrivals: Pinned,
    /// An event for streams that wait for each other.
    handed_over: CudaEvent,
    pending: PendingLaunches,
    queue: Queue,
    garbage: Garbage,
    print_sink: Arc<PrintSink>,
    stop: Arc<Stop>,
    limit: Option<Duration>,
    /// A reference event with its host time, to convert event times. Only with a time limit.
    clock: Option<(CudaEvent, Instant)>,
    /// Held while the stream captures a graph: it must not be queried then.
    capturing: Mutex<()>,
}

/// A waiting thread polls without sleeping for this long.
const BUSY_POLL: Duration = Duration::from_micros(200);
const NAP: Duration = Duration::from_micros(50);
/// The driver copies at most so many bytes of pageable memory at once; for more, it waits for the work before.
const COPIED_AT_ONCE: usize = 1 << 16;

/// Bytes of copies that are enqueued with the work before them.
const ARRIVALS: usize = 1 << 16;

/// The note of an error that a later call returns.
const LATER: &str =
    "it was launched earlier: launches on a GPU are asynchronous, unless WUJI_LAUNCH_BLOCKING is 1";

/// Reports of finished launches.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    /// The reports of the launch that the caller waits for.
    pub(crate) own: Option<Collected>,
    /// The first problem of any other launch, with those of the rest.
    pub(crate) error: Option<Error>,
    /// Whether launches were interrupted.
    pub(crate) stopped: bool,
}

impl CudaEngine {
    pub(crate) fn new(
        ordinal: usize,
        print_sink: &Arc<PrintSink>,
        stop: &Arc<Stop>,
        limit: Option<Duration>,
    ) -> Result<Arc<CudaEngine>> {
        let context = CudaContext::new(ordinal)?;
        let stream = context.stream()?;
        let clock = limit.map(|_| context.event()).transpose()?;
        let engine = CudaEngine {
            pending: PendingLaunches::new(&context, &stream)?,
            stream,
            aside: context.stream()?,
            interrupt: context.alloc(64)?,
            staging: Staging::default(),
            arrivals: context.pinned(ARRIVALS)?,
            handed_over: context.untimed_event()?,
            queue: Queue::default(),
            garbage: Garbage::default(),
            print_sink: print_sink.clone(),
            stop: stop.clone(),
            limit,
            clock: clock.map(|event| (event, Instant::now())),
            capturing: Mutex::new(()),
        };
        // SAFETY: the buffer is our own, and has this size.
        unsafe { engine.stream.fill(engine.interrupt.address(), 64, 0) }?;
        if let Some((event, _)) = &engine.clock {
            engine.stream.record(event)?;
        }
        engine.stream.synchronize()?;
        Ok(Arc::new(engine))
    }

    pub(crate) fn context(&self) -> &Arc<CudaContext> {
        self.stream.context()
    }

    /// The address of the interrupt flag.
    pub(crate) fn interrupt(&self) -> u64 {
        self.interrupt.address()
    }

    /// Whether all sites of a module fit the report buffer.
    pub(crate) fn suits(module: &Module) -> Result<()> {
        PendingLaunches::fits(module)
    }

    /// Before a launch: checks for reports of earlier launches, without waiting. A kernel that prints waits for those
    /// with reports, so that there is room for its lines. An error is that of an earlier launch.
    pub(crate) fn before_launch(&self, prints: bool) -> Result<()> {
        if self.stop.reason().is_some() && (self.pending.is_empty() || self.stream.query()?) {
            // The interrupt was meant for launches that are done.
            self.stop.forget();
        }
        let asked = self.stop.reason().is_some();
        if asked || self.pending.has_reports() && (prints || self.stream.query()?) {
            return self.finish();
        }
        Ok(())
    }

    /// Registers a launch before it is enqueued.
    pub(crate) fn enter(&self, info: Arc<LaunchInfo>) -> Result<PendingLaunch> {
        self.enter_queue(info.module.tasks.len())?;
        loop {
            match self.pending.slot(&self.stream, info.module.sites.len())? {
                ReportSlot::Free(at) => return Ok(self.pending.enter(at, info)),
                ReportSlot::Taken => self.finish()?,
            }
        }
    }

    /// Whether to enqueue nothing more of a launch that runs since `begun`: on an interrupt, or after the time limit.
    pub(crate) fn stops(&self, name: &str, begun: Instant) -> bool {
        if self.pending.are_stopped() {
            return true;
        }
        if !interrupt::poll() {
            self.stop.now(Reason::Given);
        }
        let late = self.limit.is_some_and(|limit| begun.elapsed() > limit);
        let reason = self.stop.reason().or(late.then_some(Reason::TimeLimit));
        if let Some(reason) = reason {
            let error = stopped(&[name.to_owned()], reason, self.limit);
            self.pending.stopped(error);
        }
        reason.is_some()
    }

    /// Waits until there is room in the queue of the driver. An error if that is interrupted.
    pub(crate) fn enter_queue(&self, tasks: usize) -> Result<()> {
        self.queue.enter(&self.stream, tasks.max(1), |mark| {
            self.wait_until(|| mark.done())?;
            interrupt::check()
        })
    }

    /// Registers a launch in a graph, until the graph is dropped.
    pub(crate) fn keep_slot(&self, info: LaunchInfo) -> Result<PendingLaunch> {
        self.pending.keep(info)
    }

    /// Frees the slots of a dropped graph's launches.
    pub(crate) fn release_slots(&self, numbers: &[u64]) {
        self.pending.release_slots(numbers);
    }

    /// Registers a graph before it is launched.
    pub(crate) fn replays(&self, info: &Arc<LaunchInfo>) -> Result<()> {
        self.enter_queue(1)?;
        self.pending.enter_graph(info);
        Ok(())
    }

    /// Marks the end of a launch that was enqueued.
    pub(crate) fn entered(&self) -> Result<()> {
        if self.limit.is_some() {
            let end = self.context().event()?;
            self.stream.record(&end)?;
            self.pending.ends_with(end);
        }
        Ok(())
    }

    /// Waits for all pending launches. On an interrupt or after the time limit, kernels are stopped; the error is kept
    /// until reports are collected.
    pub(crate) fn wait(&self) -> Result<()> {
        self.wait_until(|| self.stream.query())?;
        self.collect();
        Ok(())
    }

    /// Waits until some of the pending launches are done. Polls the interrupt callback of the thread.
    fn wait_until(&self, is_done: impl Fn() -> Result<bool>) -> Result<()> {
        if is_done()? {
            return Ok(());
        }
        let begun = Instant::now();
        let _watched = self.stop.watch();
        let mut stopping = false;
        let mut polled = begun;
        while !is_done()? {
            if !stopping && polled.elapsed() > interrupt::PERIOD {
                polled = Instant::now();
                if !interrupt::poll() {
                    self.stop.now(Reason::Given);
                }
            }
            if !stopping && let Some(error) = self.to_be_stopped(begun.elapsed() > BUSY_POLL)? {
                stopping = true;
                self.pending.stopped(error);
                self.set_interrupt(1)?;
            }
            if begun.elapsed() > BUSY_POLL {
                std::thread::sleep(NAP);
            } else {
                std::hint::spin_loop();
            }
        }
        if stopping {
            self.set_interrupt(0)?;
        }
        Ok(())
    }

    /// Frees memory or code that kernels may use, at any time and on any thread: at once if none is pending, otherwise
    /// after the next wait. The report slots of launches in graphs are freed with it.
    pub(super) fn free(&self, resource: impl Resource, slots: Vec<u64>) {
        self.garbage.put(resource, slots);
        self.collect();
    }

    /// Frees what was dropped, if no kernel is pending.
    fn collect(&self) {
        // During a capture the stream must not be queried, and nothing that kernels use is freed.
        let _none = match self.capturing.try_lock() {
            Ok(none) => none,
            Err(TryLockError::Poisoned(none)) => none.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        // A failed device runs nothing.
        let slots = (self.garbage).collect(|| self.stream.query().unwrap_or(true));
        self.release_slots(&slots);
    }

    /// Before an allocation: waits for the memory of dropped fields.
    pub(super) fn reclaim(&self) -> Result<()> {
        if self.garbage.is_empty() {
            Ok(())
        } else {
            self.wait()
        }
    }

    /// Captures the work that `work` enqueues. Nothing that kernels use is dropped during it.
    pub(crate) fn capture(&self, work: impl FnOnce() -> Result<()>) -> Result<CudaGraph> {
        let _now = (self.capturing.lock()).unwrap_or_else(PoisonError::into_inner);
        self.stream.capture(|_| work())
    }

    /// The reason to stop kernels, if there is one.
    fn to_be_stopped(&self, check_clock: bool) -> Result<Option<Error>> {
        if let Some(reason) = self.stop.reason() {
            let names = self.pending.kernels();
            if names.is_empty() {
                return Ok(None);
            }
            return Ok(Some(stopped(&names, reason, self.limit)));
        }
        let (Some(limit), Some((zero, at)), true) = (self.limit, &self.clock, check_clock) else {
            return Ok(None);
        };
        let late = self.pending.late(limit, |event| {
            let ms = event.elapsed_ms(zero)?;
            Ok(*at + Duration::from_secs_f64(f64::from(ms.max(0.0)) / 1e3))
        })?;
        Ok(late.map(|name| stopped(&[name], Reason::TimeLimit, self.limit)))
    }

    fn set_interrupt(&self, word: u32) -> Result<()> {
        // SAFETY: the buffer is our own; four of its bytes are set.
        unsafe {
            self.aside
                .copy_in(self.interrupt.address(), &word.to_ne_bytes())
        }?;
        self.aside.synchronize()
    }

    /// Waits for all pending launches, and collects their reports. Printed lines go to the print sink, except those of
    /// the launch that the caller waits for.
    pub(crate) fn settle(&self, own: Option<u64>) -> Result<Settled> {
        self.wait()?;
        let (reported, stopped) = self.pending.gather(&self.stream)?;
        let refused = self.pending.refusal();
        let mut settled = Settled::default();
        let mut errors = Vec::new();
        for Reported {
            number,
            collected,
            error,
        } in reported
        {
            if own == Some(number) {
                settled.own = Some(collected);
                continue;
            }
            self.print_sink.keep(collected);
            let Some(error) = error else { continue };
            let error = match &refused {
                Some(why) if error.code == "W0407" => why.notes.iter().cloned().fold(
                    error.note(format!("out of memory for cells: {}", why.message)),
                    Error::note,
                ),
                None if error.code == "W0407" => {
                    let memory = amount(self.context().info().memory);
                    error.note(format!(
                        "cells, fields and arrays share {memory} of the GPU"
                    ))
                }
                Some(_) | None => error,
            };
            errors.extend(self.print_sink.take(error.note(LATER)));
        }
        settled.stopped = !stopped.is_empty();
        errors.extend(stopped);
        settled.error = merge_errors(errors);
        Ok(settled)
    }

    /// The same if the caller waits for no particular launch.
    pub(crate) fn finish(&self) -> Result<()> {
        match self.settle(None)?.error {
            None => Ok(()),
            Some(error) => Err(error),
        }
    }

    /// Stores an allocation error for cells, which matters once the cells are needed.
    pub(crate) fn refused(&self, error: Error) {
        self.pending.refused(error);
    }

    /// Whether there are no pending launches and no pending errors.
    pub(crate) fn is_settled(&self) -> bool {
        self.pending.is_empty()
    }

    /// Copies bytes to the device, after all pending work.
    pub(crate) fn send(&self, to: u64, bytes: &[u8]) -> Result<()> {
        if bytes.len() > COPIED_AT_ONCE {
            // The driver would wait, and cannot be interrupted.
            self.wait()?;
            interrupt::check()?;
        }
        // SAFETY: callers own that much memory there; the bytes are ordinary memory.
        unsafe { self.staging.send(&self.stream, to, bytes) }
    }

    /// Copies bytes from the device, after all pending work. Reports stay buffered.
    pub(crate) fn fetch(&self, bytes: &mut [u8], from: u64) -> Result<()> {
        self.wait()?;
        // SAFETY: callers own that much memory there.
        unsafe { self.staging.fetch(&self.stream, bytes, from) }
    }

    /// Enqueues a copy from the device, if it is a small one. The caller holds the device lock until [`Self::arrived`].
    pub(crate) fn ask(&self, from: u64, bytes: u64) -> Result<()> {
        let bytes = bytes as usize;
        if bytes > ARRIVALS {
            return Ok(());
        }
        // SAFETY: the buffer is large enough, nothing else uses it under the lock, and it lives as long as the stream.
        unsafe {
            let to = std::slice::from_raw_parts_mut(self.arrivals.host(), bytes);
            self.stream.copy_out(to, from)
        }
    }

    /// The bytes that [`Self::ask`] was called for last, after a wait; larger ones are copied now.
    pub(crate) fn arrived(&self, from: u64, bytes: u64) -> Result<Vec<u8>> {
        let mut own = vec![0; bytes as usize];
        if own.len() > ARRIVALS {
            self.fetch(&mut own, from)?;
        } else {
            // SAFETY: the copy is done, and the buffer has that many bytes.
            let from = unsafe { std::slice::from_raw_parts(self.arrivals.host(), own.len()) };
            own.copy_from_slice(from);
        }
        Ok(own)
    }

    /// Copies bytes on the device.
    pub(crate) fn copy(&self, to: u64, from: u64, bytes: u64) -> Result<()> {
        // SAFETY: callers own that much memory on both sides.
        unsafe { self.stream.copy(to, from, bytes) }
    }

    /// Later work waits for the current work of another stream.
    ///
    /// # Safety
    /// The handle is that of a live stream of the same device.
    pub(crate) unsafe fn wait_for_stream(&self, raw: usize) -> Result<()> {
        // SAFETY: guaranteed by the caller; the borrowed stream is dropped before we return.
        let other = unsafe { self.context().foreign_stream(raw) };
        other.record(&self.handed_over)?;
        self.stream.wait(&self.handed_over)
    }

    /// Another stream waits for the current work of this one.
    ///
    /// # Safety
    /// As for [`CudaEngine::wait_for_stream`].
    pub(crate) unsafe fn stream_waits(&self, raw: usize) -> Result<()> {
        // SAFETY: as above.
        let other = unsafe { self.context().foreign_stream(raw) };
        self.stream.record(&self.handed_over)?;
        other.wait(&self.handed_over)
    }

    pub(crate) fn zero(&self, at: u64, bytes: u64) -> Result<()> {
        // SAFETY: callers own that much memory there.
        unsafe { self.stream.fill(at, bytes, 0) }
    }
}

/// The first of several errors, with the others as notes.
pub(crate) fn merge_errors(errors: Vec<Error>) -> Option<Error> {
    const TOLD: usize = 4;
    let mut errors = errors.into_iter();
    let mut first = errors.next()?;
    let mut more = 0;
    for (k, other) in errors.enumerate() {
        if k >= TOLD {
            more += 1;
            continue;
        }
        let place = other.at.as_ref().map(|at| format!(" at {at}"));
        let note = format!("also: {}{}", other.message, place.unwrap_or_default());
        first = first.note(note);
    }
    match more {
        0 => Some(first),
        _ => Some(first.note(format!("and in {more} more launches"))),
    }
}

impl Drop for CudaEngine {
    fn drop(&mut self) {
        // Memory that kernels use is freed right after this.
        let _ = self.wait();
    }
}
