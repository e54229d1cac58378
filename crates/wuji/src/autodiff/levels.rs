//! Tapes around others: a gradient that the inner one computes is a value for the outer one.
//!
//! The outer tape cannot use the same field for its own adjoints. So its reverse sweep puts them into a stand-in, and moves them to
//! the gradient at the end.

use crate::autodiff::Derivative;
use crate::autodiff::derive::DerivedTrees;
use crate::autodiff::modes::is_recorded_or_forward;
use crate::autodiff::recorder::{CUSTOM, FieldKey, Recorder, key_of};
use crate::autodiff::saves::{Copy, Storage};
use crate::autodiff::trees::{active, import};
use crate::host::FieldHandle;
use crate::world::World;
use rustc_hash::FxHashMap;
use std::sync::atomic::Ordering;
use wuji_ir::{Error, Result};

/// Where the adjoints of a reverse sweep are, if not in the gradients of the fields.
#[derive(Default)]
pub(super) struct Levels {
    /// The stand-ins of gradients.
    stand_ins: FxHashMap<FieldKey, StandIn>,
    /// Of each kernel on the tape that has a gradient.
    derived: Vec<Option<DerivedTrees>>,
}

struct StandIn {
    gradient: FieldHandle,
    instead: FieldHandle,
}

impl Levels {
    /// Allocates what a tape needs; an error if it cannot run its gradients.
    pub(super) fn of(recorder: &Recorder, world: &World) -> Result<Levels> {
        let mut levels = Levels::default();
        let both = |key: &FieldKey| recorder.accessed.contains(key);
        if !recorder.adjoints.iter().any(both) {
            return Ok(levels);
        }
        let used = recorder.fields.iter().map(|f| &f.handle);
        let held = recorder.kernels.iter().flat_map(|k| {
            let arrays = k.derived.array_fields.iter();
            arrays.chain(&k.derived.scalars).map(|(_, field)| field)
        });
        for field in used.chain(held) {
            let Some(gradient) = field.derivative(Derivative::Adjoint) else {
                continue;
            };
            let key = key_of(&gradient);
            if both(&key) && !levels.stand_ins.contains_key(&key) {
                refuse(recorder, world, &gradient)?;
                let instead = field.stand_in()?;
                levels.stand_ins.insert(key, StandIn { gradient, instead });
            }
        }
        for kernel in &recorder.kernels {
            let find = |field: &FieldHandle| levels.adjoint(field);
            let derived = if kernel.derived.is_empty() {
                None
            } else {
                Some(kernel.derived.with_adjoints(&kernel.compiled, &find)?)
            };
            levels.derived.push(derived);
        }
        Ok(levels)
    }

    /// Where the adjoint of a field is.
    pub(super) fn adjoint(&self, field: &FieldHandle) -> Option<FieldHandle> {
        let gradient = field.derivative(Derivative::Adjoint)?;
        Some(self.instead_of(gradient))
    }

    /// The same, where it has to be there.
    pub(super) fn expect_adjoint(&self, field: &FieldHandle) -> Result<FieldHandle> {
        Ok(self.instead_of(field.expect_derivative(Derivative::Adjoint)?))
    }

    /// The field for the adjoints of a gradient.
    pub(super) fn instead_of(&self, gradient: FieldHandle) -> FieldHandle {
        match self.stand_ins.get(&key_of(&gradient)) {
            Some(stand_in) => stand_in.instead.clone(),
            None => gradient,
        }
    }

    /// The derivatives of a kernel on the tape.
    pub(super) fn derived<'d>(&'d self, recorder: &'d Recorder, kernel: u32) -> &'d DerivedTrees {
        let own = self.derived.get(kernel as usize).and_then(Option::as_ref);
        own.unwrap_or(&recorder.kernels[kernel as usize].derived)
    }

    /// Moves adjoints to the gradients, once no kernel needs their values any more.
    pub(super) fn finish(&self, recorder: &Recorder) -> Result<()> {
        for StandIn { gradient, instead } in self.stand_ins.values() {
            recorder.is_spent.store(true, Ordering::Relaxed);
            if gradient.is_dense()? && instead.is_dense()? {
                Copy::take(instead, Storage::Near)?.restore(gradient)?;
                continue;
            }
            gradient.clear()?;
            import(gradient, &active(instead, true)?)?;
        }
        Ok(())
    }
}

/// An error if a tape cannot have a stand-in for a gradient.
fn refuse(recorder: &Recorder, world: &World, gradient: &FieldHandle) -> Result<()> {
    let name = gradient.name();
    let fail = |why: &str, help: &str| {
        let what = format!("field `{name}` is a value and a gradient on one tape");
        let error = Error::new("W0739", what).note(why.to_owned());
        Err(error.help(help.to_owned()))
    };
    if is_recorded_or_forward(world) {
        return fail(
            "another tape, or forward mode, is around the tape: it would need third derivatives",
            "nest two tapes, or run one tape in `forward_mode`",
        );
    }
    if recorder.is_spent.load(Ordering::Relaxed) {
        return fail(
            "its values are gone: the gradients of this tape have overwritten them",
            "call `backward` once, and record the tape again",
        );
    }
    if recorder.entries.iter().any(|e| e.params == CUSTOM) {
        return fail(
            "the tape has a custom gradient, which adds to the field itself",
            "do not use the gradient on the tape, or remove the custom gradient",
        );
    }
    Ok(())
}
