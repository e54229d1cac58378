//! The trace that a thread records.

use crate::arena::{Arena, Id};
use crate::sym::Sym;
use crate::trace::{Trace, length};
use std::cell::RefCell;
use std::panic::Location;
use std::sync::atomic::{AtomicU32, Ordering};
use wuji_ir::{Error, Position, Result};

/// A trace under construction.
#[derive(Debug)]
pub(crate) struct Recording {
    pub(crate) number: u32,
    pub(crate) arena: Arena,
    /// Values that are to be computed together.
    pub(crate) blocks: Vec<Vec<Id>>,
}

thread_local! {
    static RECORDING: RefCell<Option<Recording>> = const { RefCell::new(None) };
}

/// Numbers traces, so that a value of one is not taken for a value of another.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// The number of values that belong to no trace that can still be recorded.
pub(crate) const LOST: u32 = u32::MAX;

/// Ends a recording; [`run`] catches it.
struct Refused(Error);

pub(crate) fn here(caller: &Location<'_>) -> Position {
    Position {
        file: caller.file().to_string(),
        line: caller.line(),
        column: caller.column(),
    }
}

pub(crate) fn refuse(error: Error) -> ! {
    // No panic: hooks do not run, and `run` turns it into its result.
    std::panic::resume_unwind(Box::new(Refused(error)))
}

pub(crate) fn too_large() -> Error {
    Error::new("W0805", "the trace has too many operations")
        .note("there is no memory for its nodes, or there are more than 4 billion of them")
        .help("trace a part of the computation, and run it for all parts")
}

pub(crate) fn is_recording() -> bool {
    RECORDING.with(|r| r.borrow().is_some())
}

/// Works on the trace that is recorded, if there is one.
pub(crate) fn with_recording<R>(work: impl FnOnce(&mut Recording) -> R) -> Option<R> {
    RECORDING.with(|r| r.borrow_mut().as_mut().map(work))
}

/// The nodes of values in the trace that is recorded.
#[track_caller]
pub(crate) fn nodes(values: &[Sym]) -> Vec<Id> {
    let caller = Location::caller();
    let nodes = with_recording(|recording| {
        let nodes = values.iter().map(|v| v.node_at(recording, caller));
        nodes.collect()
    });
    nodes.unwrap_or_default()
}

/// Continues a recording with what a function computes. Recordings may be nested; values of the outer one are foreign to the inner one.
fn run<R>(recording: Recording, fill: impl FnOnce() -> R) -> (Option<Recording>, Result<R>) {
    struct Restore(Option<Recording>);
    impl Drop for Restore {
        fn drop(&mut self) {
            RECORDING.with(|r| *r.borrow_mut() = self.0.take());
        }
    }
    let _outer = Restore(RECORDING.with(|r| r.borrow_mut().replace(recording)));
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(fill));
    let recorded = RECORDING.with(|r| r.borrow_mut().take());
    let result = result.or_else(|payload| match payload.downcast::<Refused>() {
        Ok(refused) => Err(refused.0),
        Err(other) => std::panic::resume_unwind(other),
    });
    (recorded, result)
}

/// Records a trace in steps, for frontends whose code does not run inside of one Rust function.
///
/// ```
/// use wuji_symbolic::{Real, Recorder};
/// # fn main() -> wuji::Result<()> {
/// let mut recorder = Recorder::new(&[2])?;
/// let x = recorder.inputs();
/// let product = recorder.record(|| x[0][0] * x[0][1])?;
/// let root = recorder.record(|| product.sqrt())?;
/// let trace = recorder.finish(&[vec![root]])?;
/// assert_eq!(trace.evaluate(&[&[2.0, 8.0]])?, [[4.0]]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Recorder {
    /// `None` only while a step runs.
    recording: Option<Recording>,
    inputs: Vec<u32>,
}

impl Recorder {
    /// A trace of inputs with these numbers of elements.
    pub fn new(lengths: &[usize]) -> Result<Recorder> {
        let inputs: Vec<u32> = (lengths.iter().map(|n| length(*n))).collect::<Result<_>>()?;
        let mut arena = Arena::default();
        // All inputs first: their ids are then in the order of their positions.
        for (array, n) in (0..).zip(&inputs) {
            (0..*n).for_each(|index| {
                arena.input(array, index);
            });
        }
        let number = NEXT.fetch_add(1, Ordering::Relaxed) % (LOST - 1) + 1;
        let recording = Recording {
            number,
            arena,
            blocks: Vec::new(),
        };
        let recorder = Recorder {
            recording: Some(recording),
            inputs,
        };
        recorder.checked()
    }

    fn checked(self) -> Result<Recorder> {
        match &self.recording {
            Some(recording) if !recording.arena.is_full() => Ok(self),
            _ => Err(too_large()),
        }
    }

    /// The elements of all inputs.
    pub fn inputs(&self) -> Vec<Vec<Sym>> {
        let mut next = 0;
        let mut input = |n: &u32| -> Vec<Sym> {
            let first = next;
            next += n;
            (first..next).filter_map(|id| self.symbol(Id(id))).collect()
        };
        self.inputs.iter().map(&mut input).collect()
    }

    /// Runs a function that computes with symbols of this trace.
    pub fn record<R>(&mut self, fill: impl FnOnce() -> R) -> Result<R> {
        let Some(recording) = self.recording.take() else {
            return Err(too_large());
        };
        let (recorded, result) = run(recording, fill);
        self.recording = recorded;
        match &self.recording {
            Some(recording) if !recording.arena.is_full() => result,
            _ => result.and(Err(too_large())),
        }
    }

    /// The symbol of a number of this trace.
    pub fn symbol(&self, node: Id) -> Option<Sym> {
        let recording = self.recording.as_ref()?;
        let known = node.at() < recording.arena.len() && recording.arena.op(node).is_number();
        known.then(|| Sym::of(recording, node))
    }

    /// The nodes of symbols.
    pub fn nodes(&mut self, symbols: &[Sym]) -> Result<Vec<Id>> {
        self.record(|| nodes(symbols))
    }

    /// The nodes of the trace so far.
    pub fn arena(&mut self) -> Option<&mut Arena> {
        self.recording.as_mut().map(|r| &mut r.arena)
    }

    /// The trace with these outputs.
    pub fn finish(mut self, outputs: &[Vec<Sym>]) -> Result<Trace> {
        let mut ids = Vec::with_capacity(outputs.len());
        for output in outputs {
            length(output.len())?;
            ids.push(self.nodes(output)?);
        }
        let Some(Recording {
            mut arena, blocks, ..
        }) = self.recording
        else {
            return Err(too_large());
        };
        arena.freeze();
        Ok(Trace {
            arena,
            inputs: self.inputs,
            outputs: ids,
            blocks,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited() -> Recorder {
        let mut recorder = Recorder::new(&[1]).unwrap();
        let recording = recorder.recording.as_mut().unwrap();
        recording.arena = Arena::limited(1000);
        recording.arena.input(0, 0);
        recorder
    }

    #[test]
    fn a_trace_that_is_too_large_is_an_error_at_its_line() {
        let mut recorder = limited();
        let x = recorder.inputs()[0][0];
        let line = line!() + 1;
        let sum = recorder.record(|| (0..5000).fold(x, |sum, k| sum * x + f64::from(k)));
        let error = sum.unwrap_err();
        assert_eq!(error.code, "W0805");
        assert_eq!(error.at.map(|p| p.line), Some(line));
        // Nothing can be recorded any more.
        assert_eq!(recorder.record(|| x).unwrap_err().code, "W0805");
        assert_eq!(recorder.finish(&[vec![x]]).unwrap_err().code, "W0805");
    }
}
