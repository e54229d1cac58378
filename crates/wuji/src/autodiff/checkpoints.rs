//! Gradients of many steps in bounded memory: copies of the state at some steps, from which the others are computed again.

use crate::autodiff::derive::written;
use crate::autodiff::recorder::Recorder;
use crate::autodiff::saves::{Snapshot, Storage, Unit, WholeTree};
use crate::autodiff::tape::{Seed, seed_of};
use crate::autodiff::trees::First;
use crate::autodiff::{Differentiable, InMode, Mode, can_record};
use crate::host::FieldHandle;
use crate::launch::Launch;
use crate::world::{World, here};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;
use std::fmt;
use std::panic::Location;
use wuji_ir::entities;
use wuji_ir::{Error, Result};

/// The fields that launches write to: the state of a simulation.
#[derive(Default)]
pub(crate) struct Watcher {
    kernels: FxHashSet<SmallVec<[usize; 6]>>,
    units: Vec<Watched>,
    storage: Storage,
}

/// What changes, and what it was until then.
struct Watched {
    unit: Unit,
    first: Snapshot,
    active: First,
}

impl Watcher {
    /// Notes what a launch that is about to run writes to, with a copy of what it was until now.
    pub(crate) fn prepare(&mut self, launch: &Launch<'_>) -> Result<()> {
        let key = launch.address();
        if self.kernels.contains(&key) {
            return Ok(());
        }
        for place in written(launch.compiled.source()?) {
            if let Some(handle) = launch.field_of(place) {
                self.add(&handle)?;
            }
        }
        for used in launch.compiled.cell_uses()?.iter() {
            let changed = used.activates.or(used.deactivates);
            let tree = launch.trees.get(used.tree.as_u32() as usize);
            if let Some(tree) = tree.filter(|_| changed.is_some()) {
                self.add_unit(Unit::Tree(WholeTree(tree.clone())))?;
            }
        }
        self.kernels.insert(key);
        Ok(())
    }

    /// Adds a field that is about to be written to.
    pub(crate) fn add(&mut self, handle: &FieldHandle) -> Result<()> {
        self.add_unit(Unit::of(handle)?)
    }

    /// Adds what is about to change.
    pub(crate) fn add_unit(&mut self, unit: Unit) -> Result<()> {
        if self.units.iter().all(|known| known.unit != unit) {
            self.units.push(Watched {
                first: unit.take_to(self.storage, &gradients_in(&unit)?)?,
                active: unit.first()?,
                unit,
            });
        }
        Ok(())
    }

    fn state(&self) -> Result<State> {
        let units = self.units.iter().map(|watched| &watched.unit);
        units
            .map(|u| u.take_to(self.storage, &gradients_in(u)?))
            .collect()
    }

    /// Goes back to a state. What is not in it had its first values then.
    /// At the end, it is an error if gradients are lost.
    fn restore(&self, state: &State, end: bool) -> Result<()> {
        for (n, watched) in self.units.iter().enumerate() {
            let values = state.get(n).unwrap_or(&watched.first);
            let first = end.then_some(&watched.active);
            watched.unit.restore(values, first)?;
        }
        Ok(())
    }

    /// Goes back to the first values.
    pub(crate) fn restore_first(&self) -> Result<()> {
        self.restore(&State::new(), false)
    }

    fn bytes(&self) -> Result<u64> {
        let units = self.units.iter().map(|watched| &watched.unit);
        units.map(|u| u.bytes(&gradients_in(u)?)).sum()
    }
}

/// The fields of a sparse tree that are gradients. They are no part of the state.
fn gradients_in(unit: &Unit) -> Result<Vec<entities::Field>> {
    match unit {
        Unit::Field(_) | Unit::Packed(_) => Ok(Vec::new()),
        Unit::Tree(WholeTree(tree)) => Ok(tree.gradients()),
    }
}

/// Copies of the first units of a watcher.
type State = Vec<Snapshot>;

/// How [`World::tape_steps`] has spent memory and time.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct StepReport {
    /// The number of steps.
    pub steps: usize,
    /// How many steps have run in all, each at least once.
    pub runs: usize,
    /// The most copies of the state at one time, the first and the last one included.
    pub copies: usize,
    /// Bytes of one copy of the state.
    pub state_bytes: u64,
}

impl StepReport {
    /// Bytes of the most copies at one time.
    pub fn peak_bytes(&self) -> u64 {
        self.state_bytes.saturating_mul(self.copies as u64)
    }

    /// How often each step has run, on average.
    pub fn runs_per_step(&self) -> f64 {
        self.runs as f64 / self.steps.max(1) as f64
    }
}

impl fmt::Display for StepReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} steps, each run {:.1} times; {} copies of {} bytes, {} in all",
            self.steps,
            self.runs_per_step(),
            self.copies,
            self.state_bytes,
            self.peak_bytes()
        )
    }
}

/// How much memory [`World::tape_steps`] may take, and where. A number is a number of copies.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct StepPlan {
    most: Most,
    storage: Storage,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Most {
    /// Copies of the state, besides the first and the last one.
    Copies(usize),
    /// Bytes of all copies.
    Bytes(u64),
}

impl StepPlan {
    /// So many copies of the state at a time, besides the first and the last one.
    pub fn copies(count: usize) -> StepPlan {
        StepPlan {
            most: Most::Copies(count),
            storage: Storage::Near,
        }
    }

    /// As many copies as fit into so many bytes.
    pub fn within(bytes: u64) -> StepPlan {
        StepPlan {
            most: Most::Bytes(bytes),
            storage: Storage::Near,
        }
    }

    /// Copies are in the memory of the host. On the processor, they are there anyway.
    pub fn on_host(self) -> StepPlan {
        StepPlan {
            storage: Storage::Host,
            ..self
        }
    }
}

impl From<usize> for StepPlan {
    fn from(copies: usize) -> StepPlan {
        StepPlan::copies(copies)
    }
}

struct Steps<'s> {
    world: &'s World,
    step: &'s mut dyn FnMut(usize) -> Result<()>,
    steps: usize,
    seed: Seed,
    watcher: Option<Box<Watcher>>,
    last: Option<State>,
    runs: usize,
    /// Copies now, and the most of them.
    copies: (usize, usize),
}

impl Steps<'_> {
    fn watcher(&mut self) -> &mut Watcher {
        self.watcher.get_or_insert_default()
    }

    fn count_copy(&mut self) {
        self.copies.0 += 1;
        self.copies.1 = self.copies.1.max(self.copies.0);
    }

    /// How many copies a plan allows, besides the first and the last state.
    fn slots(&mut self, most: Most) -> Result<usize> {
        let bytes = match most {
            Most::Copies(count) => return Ok(count.min(self.steps)),
            Most::Bytes(bytes) => bytes,
        };
        // The first step shows what the state is.
        self.advance(0..1)?;
        let state = self.watcher().bytes()?.max(1);
        self.watcher().restore_first()?;
        let all = bytes / state;
        if all < 2 {
            let what = format!("the states of `tape_steps` do not fit into {bytes} bytes");
            return Err(Error::new("W0737", what)
                .note(format!("a copy of the state has {state} bytes, and there are at least two: the first and the last one"))
                .help("allow more bytes, or let the steps write to fewer fields"));
        }
        Ok(usize::try_from(all - 2).map_or(self.steps, |n| n.min(self.steps)))
    }

    /// Runs a step; gives its tape if there is to be one.
    fn run(&mut self, step: usize, recorded: bool) -> Result<Option<Box<Recorder>>> {
        self.runs += 1;
        let watcher = self.watcher.take().unwrap_or_default();
        let watching = InMode::enter(self.world, Mode::Watch(watcher))?;
        let done = if recorded {
            let recorder = Box::new(Recorder::new(self.world).continuing());
            let taping = InMode::enter(self.world, Mode::Tape(recorder))?;
            let done = (self.step)(step);
            let tape = taping.finish();
            done.map(|()| match tape {
                Some(Mode::Tape(recorder)) => Some(recorder),
                Some(
                    Mode::Paused | Mode::Replaced | Mode::Gradient | Mode::Tangent | Mode::Watch(_),
                )
                | None => None,
            })
        } else {
            (self.step)(step).map(|()| None)
        };
        if let Some(Mode::Watch(watcher)) = watching.finish() {
            self.watcher = Some(watcher);
        }
        done
    }

    fn advance(&mut self, steps: std::ops::Range<usize>) -> Result<()> {
        for step in steps {
            self.run(step, false)?;
        }
        Ok(())
    }

    /// Runs a step and its gradient.
    fn differentiate(&mut self, step: usize) -> Result<()> {
        let tape = self.run(step, true)?;
        if step + 1 == self.steps {
            self.last = Some(self.watcher().state()?);
            self.count_copy();
            self.seed.fill_gradient()?;
        }
        match tape {
            Some(recorder) => recorder.backward(self.world, None),
            None => Ok(()),
        }
    }

    /// The gradients of steps `from..to`, where the fields have the state `start` from before them.
    fn reverse(&mut self, start: &State, from: usize, mut to: usize, slots: usize) -> Result<()> {
        loop {
            let length = to - from;
            if length <= 1 {
                return self.differentiate(from);
            }
            if slots == 0 {
                self.advance(from..to - 1)?;
                self.differentiate(to - 1)?;
                to -= 1;
            } else {
                let middle = from + first_part(length as u64, slots as u64) as usize;
                self.advance(from..middle)?;
                let state = self.watcher().state()?;
                self.count_copy();
                self.reverse(&state, middle, to, slots - 1)?;
                self.copies.0 -= 1;
                to = middle;
            }
            self.watcher().restore(start, false)?;
        }
    }
}

/// Steps that `slots` copies can reverse if each step runs at most `runs` times more: the binomial coefficient.
fn reach(slots: u64, runs: u64) -> u64 {
    let mut reach = 1u64;
    for k in 1..=slots.min(runs) {
        let Some(product) = reach.checked_mul(slots + runs + 1 - k) else {
            return u64::MAX;
        };
        reach = product / k;
    }
    reach
}

/// How many steps to run before the next copy, so that few steps run again: the binomial schedule. `slots` copies are left besides
/// that of the start.
fn first_part(steps: u64, slots: u64) -> u64 {
    let slots = slots + 1;
    let mut runs = 1;
    while reach(slots, runs) < steps {
        runs += 1;
    }
    let least = if runs < 2 { 1 } else { reach(slots, runs - 2) };
    let part = least.max(steps.saturating_sub(reach(slots - 1, runs)));
    part.clamp(1, steps - 1)
}

impl World {
    /// Runs `step(0)`, `step(1)` and so on, and computes the gradients of a loss, as [`World::tape`] does. The steps may overwrite
    /// their state: at most so many copies of it are kept at a time, besides the first and the last state, or as many as fit into the memory of
    /// a [`StepPlan`]. From them, steps are
    /// computed again by the binomial schedule: with `s` copies, the steps run `r` times for `C(s + 1 + r, r)` of them.
    ///
    /// The state is every field that the steps write to. A step must do the same each time that it runs.
    ///
    /// ```
    /// use wuji::prelude::*;
    ///
    /// #[kernel]
    /// fn step(x: &Field<f64, 1>) {
    ///     for [i] in x {
    ///         x[[i]] = x[[i]].sin();
    ///     }
    /// }
    ///
    /// #[kernel]
    /// fn sum(x: &Field<f64, 1>, loss: &Field<f64, 0>) {
    ///     for [i] in x {
    ///         loss[[]] += x[[i]];
    ///     }
    /// }
    ///
    /// # fn main() -> wuji::Result<()> {
    /// let world = World::cpu()?;
    /// let x = world.field::<f64, 1>("x", 8)?.needs_grad()?;
    /// let loss = world.scalar::<f64>("loss")?.needs_grad()?;
    /// x.fill(1.0)?;
    /// let report = world.tape_steps(&loss, 100, 5, |t| {
    ///     step(&x)?;
    ///     if t == 99 { sum(&x, &loss)? }
    ///     Ok(())
    /// })?;
    /// assert!(report.copies <= 7 && report.runs <= 400);
    /// # let (mut y, mut d) = (1f64, 1f64);
    /// # for _ in 0..100 { d *= y.cos(); y = y.sin(); }
    /// # assert!((x.grad()?.get(3)? - d).abs() < 1e-12);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn tape_steps(
        &self,
        loss: &impl Differentiable,
        steps: usize,
        plan: impl Into<StepPlan>,
        mut step: impl FnMut(usize) -> Result<()>,
    ) -> Result<StepReport> {
        let at = here(Location::caller());
        self.steps(loss.subject().0, steps, plan.into(), &mut step)
            .map_err(|e| e.or_at(at))
    }

    pub(crate) fn steps(
        &self,
        loss: &FieldHandle,
        steps: usize,
        plan: StepPlan,
        step: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<StepReport> {
        can_record(self)?;
        if self.modes().innermost(|mode| mode.is_some()) {
            return Err(
                Error::new("W0734", "`tape_steps` cannot be part of another tape")
                    .help("call it outside of `tape`, `record_tape` and `forward_mode`"),
            );
        }
        let seed = seed_of(loss)?;
        self.clear_gradients()?;
        let mut all = Steps {
            world: self,
            step,
            steps,
            seed,
            watcher: None,
            last: None,
            runs: 0,
            copies: (1, 1),
        };
        all.watcher().storage = plan.storage;
        if steps > 0 {
            let slots = all.slots(plan.most)?;
            all.reverse(&State::new(), 0, steps, slots)?;
        }
        let last = all.last.take().unwrap_or_default();
        all.watcher().restore(&last, true)?;
        Ok(StepReport {
            steps,
            runs: all.runs,
            copies: all.copies.1,
            state_bytes: all.watcher().bytes()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of steps that run in all, and the most copies besides the start.
    fn simulate(from: u64, mut to: u64, slots: u64) -> (u64, u64) {
        let (mut runs, mut most) = (0, 0);
        loop {
            let length = to - from;
            if length <= 1 {
                return (runs + 1, most);
            }
            if slots == 0 {
                runs += length;
                to -= 1;
            } else {
                let middle = from + first_part(length, slots);
                let (inner, copies) = simulate(middle, to, slots - 1);
                runs += middle - from + inner;
                most = most.max(copies + 1);
                to = middle;
            }
        }
    }

    #[test]
    fn reaches_are_binomial_coefficients() {
        assert_eq!(reach(3, 2), 10);
        assert_eq!(reach(1, 7), 8);
        assert_eq!(reach(10, 10), 184_756);
    }

    /// The fewest runs, by trying every schedule.
    fn fewest(length: usize, slots: usize, known: &mut [Vec<u64>]) -> u64 {
        if length == 1 {
            return 1;
        }
        if slots == 0 {
            return (length * (length + 1) / 2) as u64;
        }
        if known[slots][length] == 0 {
            let splits = 1..length;
            let all = splits
                .map(|m| m as u64 + fewest(length - m, slots - 1, known) + fewest(m, slots, known));
            let best = all.min().unwrap_or(0);
            known[slots][length] = best;
        }
        known[slots][length]
    }

    #[test]
    fn the_schedule_runs_as_few_steps_as_any() {
        let mut known = vec![vec![0; 80]; 7];
        for slots in 0..7 {
            for length in 1..80 {
                let (runs, copies) = simulate(0, length as u64, slots as u64);
                assert_eq!(runs, fewest(length, slots, &mut known), "{length} {slots}");
                assert!(copies <= slots as u64);
            }
        }
    }

    #[test]
    fn long_runs_need_few_copies() {
        let (runs, copies) = simulate(0, 100_000, 20);
        assert!(runs < 620_000, "{runs}");
        assert_eq!(copies, 20);
    }
}
