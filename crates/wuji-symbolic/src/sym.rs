//! The symbolic scalar.
//!
//! A [`Sym`] is a constant or a node of the trace that its thread records. Arithmetic on constants needs no trace. Arithmetic on nodes
//! adds nodes. What cannot be recorded, such as a branch on a value, ends the recording with an error that names the line.

use crate::arena::{Arena, Id};
use crate::op::{Binary, Compare, Logic, Unary};
use crate::recording::{LOST, Recording, here, is_recording, refuse, too_large, with_recording};
use std::fmt;
use std::panic::Location;
use wuji_ir::Error;

/// A scalar that records what is computed from it.
///
/// ```
/// use wuji_symbolic::{Sym, Trace};
/// # fn main() -> wuji::Result<()> {
/// let trace = Trace::record(&[2], |x| vec![vec![x[0][0] * x[0][1] + 1.0]])?;
/// assert_eq!(trace.evaluate(&[&[3.0, 4.0]])?, [[13.0]]);
/// # Ok(())
/// # }
/// ```
#[derive(Copy, Clone)]
pub struct Sym {
    /// Number of its trace; 0 for a constant.
    trace: u32,
    /// The bits of a constant, or a node.
    bits: u64,
}

/// A truth value that depends on the inputs, for [`Real::select`](crate::Real::select).
#[derive(Copy, Clone, Debug)]
pub struct Mask(pub(crate) Sym);

impl Sym {
    /// A constant.
    pub const fn new(value: f64) -> Sym {
        Sym {
            trace: 0,
            bits: value.to_bits(),
        }
    }

    /// Its value, if it is a constant.
    pub fn as_const(self) -> Option<f64> {
        (self.trace == 0).then(|| f64::from_bits(self.bits))
    }

    const fn lost() -> Sym {
        Sym {
            trace: LOST,
            bits: 0,
        }
    }

    pub(crate) fn is_same(self, other: Sym) -> bool {
        self.trace == other.trace && self.bits == other.bits && self.trace != LOST
    }

    /// The node in the trace that is recorded.
    #[track_caller]
    pub(crate) fn node(self, recording: &mut Recording) -> Id {
        if self.trace == 0 {
            return recording.arena.constant(f64::from_bits(self.bits));
        }
        if self.trace != recording.number {
            refuse(foreign(Location::caller()));
        }
        Id(self.bits as u32)
    }

    /// Adds nodes to the trace that is recorded.
    pub(crate) fn build(caller: &Location<'_>, add: impl FnOnce(&mut Recording) -> Id) -> Sym {
        let built = with_recording(|recording| {
            let node = add(recording);
            if recording.arena.is_full() {
                refuse(too_large().at(Some(here(caller))));
            }
            Sym::of(recording, node)
        });
        built.unwrap_or(Sym::lost())
    }

    /// The symbol of a node.
    pub(crate) fn of(recording: &Recording, node: Id) -> Sym {
        match recording.arena.as_const(node) {
            Some(value) => Sym::new(value),
            None => Sym {
                trace: recording.number,
                bits: u64::from(node.0),
            },
        }
    }

    /// A number that only equal symbols of a trace share.
    pub(crate) fn key(self) -> u64 {
        self.bits ^ u64::from(self.trace) << 32
    }

    #[track_caller]
    pub(crate) fn unary(self, op: Unary) -> Sym {
        let caller = Location::caller();
        match self.as_const() {
            Some(a) => Sym::new(op.apply(a)),
            None => Sym::build(caller, |r| {
                let a = self.node_at(r, caller);
                r.arena.unary(op, a)
            }),
        }
    }

    #[track_caller]
    pub(crate) fn binary(self, op: Binary, other: Sym) -> Sym {
        let caller = Location::caller();
        if let (Some(a), Some(b)) = (self.as_const(), other.as_const()) {
            return Sym::new(op.apply(a, b));
        }
        self.join(other, caller, |arena, a, b| arena.binary(op, a, b))
    }

    /// A node from two symbols.
    fn join(
        self,
        other: Sym,
        caller: &Location<'_>,
        add: impl FnOnce(&mut Arena, Id, Id) -> Id,
    ) -> Sym {
        Sym::build(caller, |r| {
            let (a, b) = (self.node_at(r, caller), other.node_at(r, caller));
            add(&mut r.arena, a, b)
        })
    }

    #[track_caller]
    pub(crate) fn compare(self, op: Compare, other: Sym) -> Mask {
        let caller = Location::caller();
        Mask(match (self.as_const(), other.as_const()) {
            (Some(a), Some(b)) => Sym::new(f64::from(op.apply(a, b))),
            (None, _) | (_, None) => self.join(other, caller, |m, a, b| m.compare(op, a, b)),
        })
    }

    #[track_caller]
    pub(crate) fn choose(condition: Mask, a: Sym, b: Sym) -> Sym {
        let caller = Location::caller();
        match condition.as_const() {
            Some(true) => a,
            Some(false) => b,
            None => Sym::build(caller, |r| {
                let condition = condition.0.node_at(r, caller);
                let (a, b) = (a.node_at(r, caller), b.node_at(r, caller));
                r.arena.select(condition, a, b)
            }),
        }
    }

    pub(crate) fn node_at(self, recording: &mut Recording, caller: &Location<'_>) -> Id {
        if self.trace == 0 || self.trace == recording.number {
            return self.node(recording);
        }
        refuse(foreign(caller))
    }

    /// Ends the recording: the program asks for something that depends on the value. Without a recording there is nothing to end.
    pub(crate) fn refuse_question(self, question: &str, caller: &Location<'_>) {
        if !is_recording() {
            return;
        }
        let what = format!("{question} depends on values that are not known while tracing");
        refuse(
            Error::new("W0801", what)
                .at(Some(here(caller)))
                .note("a trace is recorded once and used for all values, so all of them take the same path")
                .help("choose between two values: `T::select(a.less(b), x, y)`, or `min`, `max` and `abs`"),
        )
    }
}

impl Mask {
    fn as_const(self) -> Option<bool> {
        self.0.as_const().map(|x| x != 0.0)
    }

    #[track_caller]
    pub(crate) fn logic(self, op: Logic, other: Mask) -> Mask {
        let caller = Location::caller();
        Mask(match (self.as_const(), other.as_const()) {
            (Some(a), Some(b)) => Sym::new(f64::from(op.apply(a, b))),
            (None, _) | (_, None) => self.0.join(other.0, caller, |m, a, b| m.logic(op, a, b)),
        })
    }

    #[track_caller]
    pub(crate) fn opposite(self) -> Mask {
        let caller = Location::caller();
        Mask(match self.as_const() {
            Some(a) => Sym::new(f64::from(!a)),
            None => Sym::build(caller, |r| {
                let a = self.0.node_at(r, caller);
                r.arena.not(a)
            }),
        })
    }
}

fn foreign(caller: &Location<'_>) -> Error {
    Error::new("W0802", "a symbolic value is used outside of its trace")
        .at(Some(here(caller)))
        .note("it belongs to a trace that has ended, or that another thread records")
        .help("pass values in as inputs, and out as outputs")
}

/// Asks that values are computed together, in one loop iteration: for the entries of a small dense matrix that share work. It is a
/// hint, and on numbers it does nothing.
#[track_caller]
pub fn block(values: &[Sym]) {
    let caller = Location::caller();
    with_recording(|recording| {
        let nodes: Vec<Id> = (values.iter().filter(|v| v.as_const().is_none()))
            .map(|v| v.node_at(recording, caller))
            .collect();
        recording.blocks.push(nodes);
    });
}

impl fmt::Debug for Sym {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_const() {
            Some(value) => write!(f, "{value:?}"),
            None => write!(f, "n{}", self.bits),
        }
    }
}

impl fmt::Display for Sym {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl Default for Sym {
    fn default() -> Sym {
        Sym::new(0.0)
    }
}

impl From<f64> for Sym {
    fn from(value: f64) -> Sym {
        Sym::new(value)
    }
}

impl From<f32> for Sym {
    fn from(value: f32) -> Sym {
        Sym::new(f64::from(value))
    }
}

/// Equal when both are constants, or one node. Whether two nodes have the same value is not known while tracing.
impl PartialEq for Sym {
    #[track_caller]
    fn eq(&self, other: &Sym) -> bool {
        if let (Some(a), Some(b)) = (self.as_const(), other.as_const()) {
            return a == b;
        }
        if self.is_same(*other) {
            return true;
        }
        self.refuse_question("a comparison", Location::caller());
        false
    }
}

impl PartialOrd for Sym {
    #[track_caller]
    fn partial_cmp(&self, other: &Sym) -> Option<std::cmp::Ordering> {
        if let (Some(a), Some(b)) = (self.as_const(), other.as_const()) {
            return a.partial_cmp(&b);
        }
        self.refuse_question("a comparison", Location::caller());
        None
    }

    #[track_caller]
    fn lt(&self, other: &Sym) -> bool {
        self.ordering(other, Location::caller()) == Some(std::cmp::Ordering::Less)
    }

    #[track_caller]
    fn le(&self, other: &Sym) -> bool {
        let found = self.ordering(other, Location::caller());
        found.is_some_and(std::cmp::Ordering::is_le)
    }

    #[track_caller]
    fn gt(&self, other: &Sym) -> bool {
        self.ordering(other, Location::caller()) == Some(std::cmp::Ordering::Greater)
    }

    #[track_caller]
    fn ge(&self, other: &Sym) -> bool {
        let found = self.ordering(other, Location::caller());
        found.is_some_and(std::cmp::Ordering::is_ge)
    }
}

impl Sym {
    fn ordering(&self, other: &Sym, caller: &Location<'_>) -> Option<std::cmp::Ordering> {
        if let (Some(a), Some(b)) = (self.as_const(), other.as_const()) {
            return a.partial_cmp(&b);
        }
        self.refuse_question("a comparison", caller);
        None
    }
}
