//! Reports of running kernels, and their messages.

use crate::flush::Flush;
use crate::stop::{Reason, Stop};
use smallvec::SmallVec;
use std::ffi::c_void;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use wuji_ir::entities::{Field, Site};
use wuji_ir::interp::{Printed, Report};
use wuji_ir::message::format_message;
use wuji_ir::module::{MAX_CALL_DEPTH, Module, SiteKind};
use wuji_ir::ops::Place;
use wuji_ir::types::{Imm, Scalar};
use wuji_ir::{Error, Position};
use wuji_llvm::abi::LaunchContext;
use wuji_llvm::cuda::REPORT_WRITTEN;

/// The most reports of one site whose arguments are kept; the others are only counted.
const DETAILS: u64 = 16;
/// The most printed lines of one launch; the others are only counted.
const LINES: usize = 1 << 16;

/// Collects the reports of one launch from all threads concurrently.
#[derive(Debug)]
pub(crate) struct Collector {
    /// The number of reports of each site.
    counts: Box<[AtomicU64]>,
    any: AtomicBool,
    /// One more than the last task in which an iteration ended early; tasks run in order.
    stopped: AtomicU64,
    notes: Mutex<Vec<Note>>,
    dropped_lines: AtomicU64,
}

#[derive(Debug)]
struct Note {
    site: Site,
    task: u32,
    args: SmallVec<[u64; 4]>,
}

/// The target of `LaunchContext::host`.
#[derive(Debug)]
pub(crate) struct TaskHost<'a> {
    pub(crate) module: &'a Module,
    pub(crate) collector: &'a Collector,
    pub(crate) task: u32,
    pub(crate) stop: &'a Stop,
}

impl TaskHost<'_> {
    pub(crate) fn pointer(&self) -> *const c_void {
        std::ptr::from_ref(self).cast()
    }
}

/// The function that compiled code calls when it reports something.
///
/// # Safety
/// `context.host` points to a [`TaskHost`] and `args` to `count` slots.
pub(crate) unsafe extern "C" fn report(
    context: *const LaunchContext,
    site: u32,
    args: *const u64,
    count: u32,
) {
    // SAFETY: the launch sets a `TaskHost` that outlives its tasks.
    let host = unsafe { &*(*context).host.cast::<TaskHost<'_>>() };
    let args = match count {
        0 => &[][..],
        // SAFETY: compiled code passes `count` slots.
        _ => unsafe { std::slice::from_raw_parts(args, count as usize) },
    };
    host.collector.take(host, site, args);
}

/// The function that compiled code calls when the word that it polls is not zero. Returns whether it is to return.
///
/// # Safety
/// `context.host` points to a [`TaskHost`].
pub(crate) unsafe extern "C" fn poll(context: *const LaunchContext) -> u32 {
    // SAFETY: the launch has put a `TaskHost` there that outlives its tasks.
    let host = unsafe { &*(*context).host.cast::<TaskHost<'_>>() };
    // Compiled code cannot unwind: after a panic, the launch ends.
    let left = Flush::suspended(|| catch_unwind(AssertUnwindSafe(|| host.stop.is_left())));
    u32::from(left.unwrap_or_else(|_| {
        host.stop.now(Reason::Given);
        true
    }))
}

impl Collector {
    pub(crate) fn new(module: &Module) -> Collector {
        Collector {
            counts: module.sites.keys().map(|_| AtomicU64::new(0)).collect(),
            any: AtomicBool::new(false),
            stopped: AtomicU64::new(0),
            notes: Mutex::default(),
            dropped_lines: AtomicU64::new(0),
        }
    }

    fn take(&self, host: &TaskHost<'_>, site: u32, args: &[u64]) {
        let Some(counter) = self.counts.get(site as usize) else {
            return;
        };
        let site = Site::from_u32(site);
        let before = counter.fetch_add(1, Ordering::Relaxed);
        self.any.store(true, Ordering::Relaxed);
        let kind = &host.module.sites[site].kind;
        if matches!(kind, SiteKind::Assert(_) | SiteKind::TooDeep(_)) {
            let stopped = u64::from(host.task) + 1;
            self.stopped.store(stopped, Ordering::Relaxed);
        }
        let is_print = matches!(kind, SiteKind::Print(_));
        if !is_print && before >= DETAILS {
            return;
        }
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if is_print && notes.len() >= LINES {
            self.dropped_lines.fetch_add(1, Ordering::Relaxed);
            return;
        }
        notes.push(Note {
            site,
            task: host.task,
            args: args.into(),
        });
    }

    /// Adds the reports of kernels on a device: the count of each site, and records of words.
    pub(crate) fn absorb(&self, module: &Module, counts: &[u64], words: &[u64]) {
        for (counter, count) in self.counts.iter().zip(counts) {
            counter.fetch_add(*count, Ordering::Relaxed);
        }
        self.any.store(true, Ordering::Relaxed);
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lines = 0;
        let mut rest = words;
        while let [first, _launch, task, tail @ ..] = rest {
            // The buffer was full; no complete record follows.
            if first & REPORT_WRITTEN == 0 {
                break;
            }
            let (site, count) = (*first as u32, ((*first & !REPORT_WRITTEN) >> 32) as usize);
            let Some((args, after)) = tail.split_at_checked(count) else {
                break;
            };
            rest = after;
            if site as usize >= self.counts.len() {
                break;
            }
            let (site, task) = (Site::from_u32(site), *task as u32);
            let serial = task.is_multiple_of(2);
            match module.sites[site].kind {
                SiteKind::Print(_) => lines += 1,
                SiteKind::Assert(_) | SiteKind::TooDeep(_) if serial => {
                    self.stopped.store(u64::from(task) + 1, Ordering::Relaxed);
                }
                _ => {}
            }
            notes.push(Note {
                site,
                task,
                args: args.into(),
            });
        }
        let printed = module.sites.iter().zip(counts);
        let printed = printed.filter(|((_, s), _)| matches!(s.kind, SiteKind::Print(_)));
        let all: u64 = printed.map(|(_, count)| *count).sum();
        self.dropped_lines
            .fetch_add(all.saturating_sub(lines), Ordering::Relaxed);
    }

    /// Whether an iteration of the last task ended early.
    pub(crate) fn stopped(&self, task: u32) -> bool {
        self.stopped.load(Ordering::Relaxed) == u64::from(task) + 1
    }

    /// Returns all reports, and resets the collector. `None` if there were none.
    pub(crate) fn drain(&self, module: &Module) -> Option<Collected> {
        if !self.any.swap(false, Ordering::Relaxed) {
            return None;
        }
        self.stopped.store(0, Ordering::Relaxed);
        let mut notes = {
            let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *notes)
        };
        let mut out = Collected {
            dropped_lines: self.dropped_lines.swap(0, Ordering::Relaxed),
            ..Collected::default()
        };
        for (counter, data) in self.counts.iter().zip(module.sites.values()) {
            let count = counter.swap(0, Ordering::Relaxed);
            if count > 0 && !matches!(data.kind, SiteKind::Print(_)) {
                out.total += count;
            }
        }
        // A stable sort keeps the order of lines of one iteration.
        notes.sort_by_key(|n| (n.task, iteration(module, n)));
        for note in notes {
            let data = &module.sites[note.site];
            let values = typed(module, &data.kind, &note.args);
            match &data.kind {
                SiteKind::Print(message) => out.printed.push(Printed {
                    task: note.task,
                    iteration: note.args.first().copied().unwrap_or(0),
                    text: format_message(
                        &module.structs,
                        &module.messages[*message],
                        values.get(1..).unwrap_or(&[]),
                    ),
                }),
                SiteKind::OutOfRange(_)
                | SiteKind::ReadOutOfRange(_)
                | SiteKind::BadIndex { .. }
                | SiteKind::Assert(_)
                | SiteKind::TooDeep(_)
                | SiteKind::OutOfMemory(..)
                | SiteKind::ListFull(_) => out.reports.push(Report {
                    kind: data.kind.clone(),
                    span: data.span,
                    task: note.task,
                    iteration: None,
                    values,
                }),
            }
        }
        Some(out)
    }
}

/// Lines are sorted by iteration; other reports have none, and are sorted by their arguments.
fn iteration(module: &Module, note: &Note) -> (u64, SmallVec<[u64; 4]>) {
    match module.sites[note.site].kind {
        SiteKind::Print(_) => (note.args.first().copied().unwrap_or(0), SmallVec::new()),
        _ => (0, note.args.clone()),
    }
}

/// The typed arguments of a report.
fn typed(module: &Module, kind: &SiteKind, args: &[u64]) -> Vec<Imm> {
    let i64s = |n: usize| std::iter::repeat_n(Scalar::I64, n).collect::<Vec<_>>();
    let holes = |message: &wuji_ir::entities::Message| {
        module.messages[*message]
            .holes()
            .flat_map(|ty| module.structs.flatten(ty))
            .collect::<Vec<_>>()
    };
    let types = match kind {
        SiteKind::OutOfRange(_)
        | SiteKind::ReadOutOfRange(_)
        | SiteKind::BadIndex { .. }
        | SiteKind::TooDeep(_)
        | SiteKind::OutOfMemory(..)
        | SiteKind::ListFull(_) => i64s(args.len()),
        SiteKind::Assert(message) => holes(message),
        SiteKind::Print(message) => {
            let mut types = i64s(1);
            types.extend(holes(message));
            types
        }
    };
    types
        .into_iter()
        .zip(args)
        .map(|(ty, bits)| Imm::from_bits(ty, *bits))
        .collect()
}

/// All reports of a launch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Collected {
    /// Some of the problems, by task.
    pub reports: Vec<Report>,
    /// The total number of problems.
    pub total: u64,
    /// Printed lines, by task and iteration.
    pub printed: Vec<Printed>,
    /// The number of dropped lines.
    pub dropped_lines: u64,
}

/// The context for formatting the messages of reports.
pub struct ReportContext<'a> {
    /// The program that reported.
    pub module: &'a Module,
    /// The name of a field, if the module does not have it.
    pub field_name: &'a dyn Fn(Field) -> Option<String>,
    /// The extents of the arrays of the launch.
    pub array_extents: &'a [Vec<i64>],
}

impl std::fmt::Debug for ReportContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ReportContext({})", self.module.name)
    }
}

impl Collected {
    /// The error of the launch: the first problem in full, others in a note. `None` without problems.
    pub fn error(&self, context: &ReportContext<'_>) -> Option<Error> {
        let first = self.reports.first()?;
        let mut error = context.error_of(first)?;
        let here = |r: &&Report| r.span == first.span && r.kind == first.kind;
        let others = self.reports.iter().filter(|r| !here(r));
        let mut reported = Vec::new();
        for other in others {
            let Some(Error {
                message: mut note, ..
            }) = context.error_of(other)
            else {
                continue;
            };
            if let Some(at) = Position::of(context.module, other.span) {
                let _ = write!(note, " at {at}");
            }
            if !reported.contains(&note) {
                reported.push(note);
            }
        }
        const TOLD: usize = 4;
        let more = reported.len().saturating_sub(TOLD);
        for note in reported.into_iter().take(TOLD) {
            error = error.note(format!("also: {note}"));
        }
        if more > 0 {
            error = error.note(format!("and {more} more places"));
        }
        if self.total > 1 {
            error = error.note(format!("{} problems in this launch", self.total));
        }
        Some(error)
    }
}

impl ReportContext<'_> {
    /// The error of a report; `None` for a printed line.
    fn error_of(&self, report: &Report) -> Option<Error> {
        let m = self.module;
        let kernel = &m.name;
        let numbers: Vec<i128> = report.values.iter().filter_map(|v| v.as_int()).collect();
        let error = match &report.kind {
            SiteKind::OutOfRange(place) => {
                let (what, bounds) = self.place(*place);
                let error = Error::new(
                    "W0401",
                    format!("kernel `{kernel}` wrote to {what} outside of its bounds"),
                )
                .note(format!("the index is {numbers:?}, {bounds}"));
                error.help("such a write is dropped; guard it with an `if`")
            }
            SiteKind::ReadOutOfRange(place) => {
                let (what, bounds) = self.place(*place);
                Error::new(
                    "W0401",
                    format!("kernel `{kernel}` read {what} outside of its bounds"),
                )
                .note(format!("the index is {numbers:?}, {bounds}"))
                .help("such a read gives zero; guard it with an `if`")
            }
            SiteKind::BadIndex { len } => {
                let index = numbers.first().copied().unwrap_or(0);
                Error::new(
                    "W0402",
                    format!("kernel `{kernel}` used index {index} of {len} components"),
                )
            }
            SiteKind::Assert(message) => {
                let text = format_message(&m.structs, &m.messages[*message], &report.values);
                Error::new(
                    "W0403",
                    format!("assertion failed in kernel `{kernel}`: {text}"),
                )
            }
            SiteKind::TooDeep(func) => {
                let name = &m.funcs[*func].name;
                Error::new(
                    "W0404",
                    format!(
                        "function `{name}` recursed deeper than {MAX_CALL_DEPTH} calls in kernel `{kernel}`"
                    ),
                )
                .help("end the recursion earlier, or use a loop")
            }
            SiteKind::OutOfMemory(tree, node) => {
                let kind = m.trees[*tree].nodes[*node].kind.name();
                Error::new(
                    "W0407",
                    format!("kernel `{kernel}` ran out of memory for cells of a {kind} node"),
                )
                .note("writes to the missing cells are lost; all other writes are done")
                .help("deactivate cells that are not needed, or raise the world's memory limit")
            }
            SiteKind::ListFull(field) => {
                let (what, _) = self.place(Place::Field(*field));
                let capacity = numbers.first().copied().unwrap_or(0);
                Error::new(
                    "W0408",
                    format!("kernel `{kernel}` appended to a full list of {what}"),
                )
                .note(format!(
                    "a list holds at most {capacity} elements; `append` returned -1"
                ))
                .help("make the extent of the dynamic node larger")
            }
            SiteKind::Print(_) => return None,
        };
        Some(error.at(Position::of(m, report.span)))
    }

    /// The name of a place, and a description of its bounds.
    fn place(&self, place: Place) -> (String, String) {
        let list = |ranges: Vec<String>| format!("its elements are [{}]", ranges.join(", "));
        match place {
            Place::Field(f) => {
                let name =
                    (self.field_name)(f).unwrap_or_else(|| self.module.fields[f].name.clone());
                let domain = self.module.fields[f].domain(&self.module.trees);
                let ranges = domain
                    .iter()
                    .map(|(lo, extent)| format!("{lo}..{}", i128::from(*lo) + i128::from(*extent)));
                (format!("field `{name}`"), list(ranges.collect()))
            }
            Place::Array(a) => {
                let extents = self.array_extents.get(a.as_u32() as usize);
                let ranges = extents.into_iter().flatten().map(|e| format!("0..{e}"));
                let name = &self.module.arrays[a].name;
                (format!("array `{name}`"), list(ranges.collect()))
            }
            Place::Local(_) => ("a local array".into(), "beyond its end".into()),
            Place::Temp(_) => ("a temporary".into(), "which has one element".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_that_did_not_fit_the_buffer_are_counted() {
        let text = "message m0 \"{i32}\"\nsite w0 print m0\n";
        let module = wuji_ir::text::parse(text, "m.wir").unwrap();
        let collector = Collector::new(&module);
        let record = |n: u64| [REPORT_WRITTEN | 2 << 32, 7, 1, n, 40 + n];
        // Three lines were printed; the buffer had room for two and part of the third, which was not written.
        let mut words = [record(0), record(1)].concat();
        words.extend([0, 0, 0, 0]);
        collector.absorb(&module, &[3], &words);
        let reported = collector.drain(&module).unwrap();
        let lines: Vec<&str> = reported.printed.iter().map(|p| p.text.as_str()).collect();
        assert_eq!(lines, ["40", "41"]);
        assert_eq!(reported.dropped_lines, 1);
        assert_eq!(collector.drain(&module), None);
    }
}
