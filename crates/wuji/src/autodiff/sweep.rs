//! The reverse sweep of a tape: gradient kernels in reverse order, on the values that they need.

use crate::autodiff::derive::DerivedTrees;
use crate::autodiff::levels::Levels;
use crate::autodiff::modes::{can_record, records};
use crate::autodiff::recorder::{
    CUSTOM, DEACTIVATED, NOTHING, OVERWRITTEN, RecordedKernel, Recorder, UnitState, Variant,
};
use crate::autodiff::saves::{Snapshot, Unit};
use crate::autodiff::tape::Seed;
use crate::launch::{Compiled, Launch};
use crate::world::{World, lock};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use wuji_compile::autodiff::{CellVersion, UseKind};
use wuji_ir::{Error, Result};

impl Recorder {
    /// Runs the gradients in reverse order. With a seed, the gradient of the loss is 1 then.
    pub(crate) fn backward(&self, world: &World, seed: Option<&Seed>) -> Result<()> {
        can_record(world)?;
        let copied = self.units.iter().find(|u| !u.copies.is_empty());
        if let Some(unit) = copied.filter(|_| records(world)) {
            let name = unit.unit.name();
            let what = format!(
                "an outer tape cannot record gradients that need earlier values of field `{name}`"
            );
            return Err(Error::new("W0739", what)
                .note("the inner tape has copied the field, because its launches overwrite it")
                .help(
                    "keep a history axis, `x[[t + 1, i]] = ..`, so that nothing is overwritten",
                ));
        }
        let levels = Levels::of(self, world)?;
        if let Some(seed) = seed {
            seed.fill(&levels)?;
        }
        self.sweep(world, &levels, Restored::new(self)?)?;
        levels.finish(self)
    }

    fn sweep(&self, world: &World, levels: &Levels, mut restored: Restored<'_>) -> Result<()> {
        for (number, entry) in self.entries.iter().enumerate().rev() {
            if entry.params == CUSTOM {
                (self.custom[entry.what as usize])()?;
                continue;
            }
            if entry.params == NOTHING {
                continue;
            }
            if entry.params == OVERWRITTEN {
                let field = &self.fields[entry.what as usize].handle;
                levels.expect_adjoint(field)?.clear()?;
                continue;
            }
            if entry.params == DEACTIVATED {
                for elements in &self.deactivated[entry.what as usize] {
                    let adjoint = levels.expect_adjoint(&elements.field)?;
                    elements.end_adjoints(&adjoint)?;
                }
                continue;
            }
            let variant = &self.variants[entry.what as usize];
            let kernel = &self.kernels[variant.kernel as usize];
            restored.bring(kernel, number)?;
            let derived = levels.derived(self, variant.kernel);
            let gradient = self.gradient(world, variant, derived)?;
            let arrays = derived.array_args(&[])?;
            let start = entry.params as usize;
            let launched = Launch {
                compiled: &gradient,
                params: &self.params[start..start + kernel.slots],
                trees: &derived.trees,
                arrays: &arrays,
                scalars: &derived.scalars,
                array_fields: &derived.array_fields,
                owners: &[],
            }
            .run(world)?;
            if let Some(error) = launched.error {
                return Err(error);
            }
        }
        restored.finish()
    }

    fn gradient(
        &self,
        world: &World,
        variant: &Variant,
        derived: &DerivedTrees,
    ) -> Result<Arc<Compiled>> {
        let mut gradient = lock(&variant.gradient);
        if let Some(gradient) = &*gradient {
            return Ok(gradient.clone());
        }
        let kernel = &self.kernels[variant.kernel as usize];
        let found = derived.gradient(world, &kernel.compiled, &variant.overwritten)?;
        Ok(gradient.insert(found).clone())
    }
}

/// Units while gradients run, which get their last values back at the end.
struct Restored<'t> {
    recorder: &'t Recorder,
    /// Of each unit with copies: its last values, and what it has now.
    units: FxHashMap<u32, (Snapshot, Version)>,
}

/// Which values a unit has.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Version {
    Last,
    /// Those of a copy.
    Copy(usize),
    /// Not all fields have those of one copy.
    Mixed,
}

impl Version {
    /// The values from before the launch with a number.
    fn before(state: &UnitState, launch: usize) -> Version {
        let first = state.copies.partition_point(|c| c.before < launch);
        if first < state.copies.len() {
            Version::Copy(first)
        } else {
            Version::Last
        }
    }
}

impl<'t> Restored<'t> {
    fn new(recorder: &'t Recorder) -> Result<Restored<'t>> {
        let mut units = FxHashMap::default();
        for (number, state) in recorder.units.iter().enumerate() {
            if !state.copies.is_empty() {
                let number = number as u32;
                let last = state.unit.take(&recorder.skipped(number))?;
                units.insert(number, (last, Version::Last));
            }
        }
        Ok(Restored { recorder, units })
    }

    /// Gives fields and trees the values that the gradient kernel of a launch needs.
    fn bring(&mut self, kernel: &RecordedKernel, launch: usize) -> Result<()> {
        for (number, (last, now)) in &mut self.units {
            let state = &self.recorder.units[*number as usize];
            let fields = &self.recorder.fields;
            let own = |kind: UseKind| {
                let uses = kernel.uses.iter().filter(move |u| u.kind == kind);
                uses.filter(|u| fields[u.field as usize].unit == *number)
            };
            let cells = kernel.cells.iter().find(|c| c.unit == *number);
            let activates = cells.is_some_and(|c| c.activates.is_some());
            let version = cells.and_then(|c| c.needs).map(|n| n.0);
            let any_old = own(UseKind::NeedsOld).next().is_some();
            let any_new = own(UseKind::NeedsNew).next().is_some();
            let old = Version::before(state, launch);
            let new = Version::before(state, launch + 1);
            let get = |version: Version, last: &Snapshot| -> Result<()> {
                match version {
                    Version::Copy(n) => state.unit.restore(&state.copies[n].copy, None),
                    Version::Last => state.unit.restore(last, None),
                    Version::Mixed => Ok(()),
                }
            };
            // Of a field: where old values are needed, the others are the same before and after the launch.
            let is_tree = matches!(state.unit, Unit::Tree(_));
            let whole = !is_tree || !(activates || any_new);
            let wanted = match version {
                Some(CellVersion::Old) => old,
                _ if any_old && whole => old,
                Some(CellVersion::Same | CellVersion::New | CellVersion::Mixed) => new,
                None if any_old || any_new => new,
                None => continue,
            };
            if *now != wanted {
                get(wanted, last)?;
                *now = wanted;
            }
            if wanted == old || !any_old {
                continue;
            }
            // Gradients may be in cells that the launch has activated, so the tree is the new one with old values.
            let copy = match old {
                Version::Copy(n) => &state.copies[n].copy,
                Version::Last | Version::Mixed => &*last,
            };
            if let Snapshot::Tree(copy, _) = copy {
                for field_use in own(UseKind::NeedsOld) {
                    copy.restore_field(&fields[field_use.field as usize].handle)?;
                }
                *now = Version::Mixed;
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        self.restore()
    }

    fn restore(&mut self) -> Result<()> {
        for (number, (last, now)) in self.units.drain() {
            if now != Version::Last {
                let state = &self.recorder.units[number as usize];
                state.unit.restore(&last, Some(&state.first))?;
            }
        }
        Ok(())
    }
}

impl Drop for Restored<'_> {
    fn drop(&mut self) {
        // After an error, which is worth more than another one.
        let _ = self.restore();
    }
}
