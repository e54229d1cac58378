//! Gradients against finite differences.

use crate::autodiff::checkpoints::Watcher;
use crate::autodiff::recorder::Recorder;
use crate::autodiff::tape::seed_of;
use crate::autodiff::{Derivative, InMode, Mode, Param, can_record};
use crate::dynamic;
use crate::element::Element;
use crate::field::Field;
use crate::host::FieldHandle;
use crate::layout::Tree;
use crate::nd_array::NdArray;
use crate::world::{World, here};
use std::fmt;
use std::panic::Location;
use wuji_ir::types::{Imm, Scalar};
use wuji_ir::{Error, Position, Result};

/// A field, array or parameter with a gradient.
pub trait Differentiable: private::Input {}

impl<T: private::Input> Differentiable for T {}

mod private {
    use super::{FieldHandle, Result};

    #[derive(Debug)]
    pub struct Subject<'f>(pub(crate) &'f FieldHandle);

    pub trait Input {
        #[doc(hidden)]
        fn subject(&self) -> Subject<'_>;

        /// The field has changed.
        #[doc(hidden)]
        fn changed(&self) -> Result<()>;
    }
}

impl<T: Element, const D: usize> private::Input for Field<T, D> {
    fn subject(&self) -> private::Subject<'_> {
        private::Subject(self.handle())
    }

    fn changed(&self) -> Result<()> {
        Ok(())
    }
}

impl<T: Element, const D: usize> private::Input for NdArray<T, D> {
    fn subject(&self) -> private::Subject<'_> {
        private::Subject(self.handle())
    }

    fn changed(&self) -> Result<()> {
        Ok(())
    }
}

impl<T: Element> private::Input for Param<T> {
    fn subject(&self) -> private::Subject<'_> {
        private::Subject(self.handle())
    }

    fn changed(&self) -> Result<()> {
        self.reload()
    }
}

/// What [`World::grad_check`] has compared.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct GradReport {
    /// The number of directions in which the gradient was compared with differences.
    pub directions: usize,
    /// How often the program has run.
    pub runs: usize,
    /// The largest relative error.
    pub error: f64,
}

impl fmt::Display for GradReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} directions, {} runs: relative error {:.1e}",
            self.directions, self.runs, self.error
        )
    }
}

/// Directions of all elements of an input, and the most elements that are checked one by one.
const DIRECTIONS: usize = 3;
const ELEMENTS: usize = 64;
/// How many of them an error shows.
const SHOWN: usize = 5;

/// One input: its elements, and their gradient.
struct Input<'i> {
    of: &'i dyn Differentiable,
    field: dynamic::Field,
    scalar: Scalar,
    parts: usize,
    places: Vec<Vec<i64>>,
    values: Vec<f64>,
    gradient: Vec<f64>,
}

impl<'i> Input<'i> {
    fn new(of: &'i dyn Differentiable) -> Result<Input<'i>> {
        let handle = of.subject().0;
        let gradient = handle.expect_derivative(Derivative::Adjoint)?;
        let (field, gradient) = (dynamic_of(handle)?, dynamic_of(&gradient)?);
        let scalars = handle.scalars()?;
        let mut input = Input {
            of,
            scalar: scalars.first().copied().unwrap_or(Scalar::F64),
            parts: scalars.len(),
            places: places(handle)?,
            values: Vec::new(),
            gradient: Vec::new(),
            field,
        };
        input.values = input.read(&input.field)?;
        input.gradient = input.read(&gradient)?;
        Ok(input)
    }

    fn read(&self, field: &dynamic::Field) -> Result<Vec<f64>> {
        let mut out = Vec::new();
        for place in &self.places {
            let slots = field.get(place)?;
            out.extend(slots.iter().map(|bits| float(self.scalar, *bits)));
        }
        Ok(out)
    }

    /// Moves it by `step` along a direction.
    fn set(&self, direction: &[f64], step: f64) -> Result<()> {
        for (n, place) in self.places.iter().enumerate() {
            let range = n * self.parts..(n + 1) * self.parts;
            if direction[range.clone()].iter().all(|d| *d == 0.0) {
                continue;
            }
            let moved = range.map(|k| {
                let value = self.values[k] + step * direction[k];
                Imm::float(self.scalar, value).bits()
            });
            self.field.set(place, &moved.collect::<Vec<u64>>())?;
        }
        self.of.changed()
    }

    fn name(&self, entry: usize) -> String {
        let place = &self.places[entry / self.parts];
        let index: Vec<String> = place.iter().map(i64::to_string).collect();
        let name = self.of.subject().0.name();
        let part = if self.parts > 1 {
            format!(".{}", entry % self.parts)
        } else {
            String::new()
        };
        format!("{name}[[{}]]{part}", index.join(", "))
    }
}

fn float(scalar: Scalar, bits: u64) -> f64 {
    Imm::from_bits(scalar, bits).as_float().unwrap_or(0.0)
}

fn dynamic_of(handle: &FieldHandle) -> Result<dynamic::Field> {
    let tree = Tree {
        inner: handle.tree.clone(),
    };
    dynamic::Field::of(&tree, handle.field.as_u32())
}

/// The coordinates of all elements; in a sparse field, of the active ones.
fn places(handle: &FieldHandle) -> Result<Vec<Vec<i64>>> {
    let domain = handle.domain()?;
    if !handle.is_dense()? {
        let (rows, found) = dynamic_of(handle)?.active()?;
        let rank = domain.len();
        let row = |n: usize| found[n * rank..(n + 1) * rank].iter();
        return Ok((0..rows)
            .map(|n| row(n).map(|c| i64::from(*c)).collect())
            .collect());
    }
    let mut places = vec![Vec::new()];
    for (from, extent) in domain {
        let axis = *from..*from + *extent as i64;
        places = places
            .iter()
            .flat_map(|place: &Vec<i64>| {
                axis.clone().map(move |c| {
                    let mut place = place.clone();
                    place.push(c);
                    place
                })
            })
            .collect();
    }
    Ok(places)
}

/// The machine epsilon of a type of floats.
fn epsilon(scalar: Scalar) -> f64 {
    match scalar {
        Scalar::F64 => f64::EPSILON,
        Scalar::F32 => f64::from(f32::EPSILON),
        _ => 2f64.powi(-10),
    }
}

struct Check<'c> {
    loss: dynamic::Field,
    scalar: Scalar,
    watcher: Box<Watcher>,
    launches: &'c mut dyn FnMut() -> Result<()>,
    runs: usize,
}

/// A derivative in a direction: the gradient's, that of differences, and how far these are off.
struct Compared {
    gradient: f64,
    difference: f64,
    uncertainty: f64,
}

impl Compared {
    fn error(&self) -> f64 {
        let scale = self.gradient.abs().max(self.difference.abs());
        (self.gradient - self.difference).abs() / scale.max(1e-300)
    }

    fn is_wrong(&self, tolerance: f64) -> bool {
        let (a, b) = (self.gradient, self.difference);
        let allowed = tolerance * a.abs().max(b.abs()) + 4.0 * self.uncertainty;
        // Also if one of them is no number.
        let difference = (a - b).abs();
        difference.is_nan() || difference > allowed
    }
}

impl Check<'_> {
    /// The loss with an input moved.
    fn value(&mut self, input: &Input<'_>, direction: &[f64], step: f64) -> Result<f64> {
        self.runs += 1;
        self.watcher.restore_first()?;
        input.set(direction, step)?;
        (self.launches)()?;
        let place = vec![0; self.loss_rank()?];
        let bits = self.loss.get(&place)?.first().copied().unwrap_or(0);
        input.set(direction, 0.0)?;
        Ok(float(self.scalar, bits))
    }

    fn loss_rank(&self) -> Result<usize> {
        Ok(self.loss.handle().domain()?.len())
    }

    /// Central differences with several steps; the two that agree best are right.
    fn compare(&mut self, input: &Input<'_>, direction: &[f64]) -> Result<Compared> {
        let squares = input.values.iter().map(|v| v * v).sum::<f64>();
        let size = (squares / input.values.len().max(1) as f64).sqrt().max(1.0);
        let epsilon = epsilon(input.scalar).max(epsilon(self.scalar));
        let start = size * epsilon.cbrt() * 4.0;
        let mut previous: Option<f64> = None;
        let mut best = (f64::NAN, f64::INFINITY);
        for k in 0..5 {
            let step = start / 4f64.powi(k);
            let high = self.value(input, direction, step)?;
            let low = self.value(input, direction, -step)?;
            let difference = (high - low) / (2.0 * step);
            let rounding = epsilon * (high.abs() + low.abs()) / step;
            if let Some(previous) = previous {
                let off = (difference - previous).abs() + rounding;
                if off < best.1 || best.0.is_nan() {
                    best = (difference, off);
                }
            }
            previous = Some(difference);
        }
        let terms = input.gradient.iter().zip(direction);
        Ok(Compared {
            gradient: terms.map(|(g, d)| g * d).sum(),
            difference: best.0,
            uncertainty: best.1,
        })
    }
}

/// Signs that look random, and are the same each time.
fn signs(count: usize, seed: usize) -> Vec<f64> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(seed as u64 + 1);
    let sign = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        if state >> 63 == 0 { 1.0 } else { -1.0 }
    };
    (0..count).map(sign).collect()
}

impl World {
    /// Runs a program, and compares the gradients of a loss with finite differences along random directions, in the precision of the fields:
    /// `f64` is best. Where they differ, the error shows the worst elements of up to 64.
    ///
    /// The program must do the same each time that it runs. Fields have their values from before in the end, and gradients those of the loss.
    ///
    /// ```
    /// use wuji::prelude::*;
    ///
    /// #[kernel]
    /// fn waves(x: &Field<f64, 1>, loss: &Field<f64, 0>) {
    ///     for [i] in x {
    ///         loss[[]] += x[[i]].sin() * x[[i]];
    ///     }
    /// }
    ///
    /// # fn main() -> wuji::Result<()> {
    /// let world = World::cpu()?;
    /// let x = world.field::<f64, 1>("x", 8)?.needs_grad()?;
    /// let loss = world.scalar::<f64>("loss")?.needs_grad()?;
    /// x.fill(0.7)?;
    /// let report = world.grad_check(&loss, &[&x], || waves(&x, &loss))?;
    /// assert!(report.error < 1e-6);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn grad_check(
        &self,
        loss: &impl Differentiable,
        inputs: &[&dyn Differentiable],
        mut launches: impl FnMut() -> Result<()>,
    ) -> Result<GradReport> {
        let at = here(Location::caller());
        self.check_gradients(loss.subject().0, inputs, &mut launches)
            .map_err(|e| e.or_at(at))
    }

    fn check_gradients(
        &self,
        loss: &FieldHandle,
        inputs: &[&dyn Differentiable],
        launches: &mut dyn FnMut() -> Result<()>,
    ) -> Result<GradReport> {
        can_record(self)?;
        if self.modes().innermost(|mode| mode.is_some()) {
            return Err(Error::new("W0734", "`grad_check` cannot be part of a tape")
                .help("call it outside of `tape`, `record_tape` and `forward_mode`"));
        }
        let seed = seed_of(loss)?;
        let watching = InMode::enter(self, Mode::Watch(Box::default()))?;
        launches()?;
        let watcher = match watching.finish() {
            Some(Mode::Watch(watcher)) => watcher,
            Some(
                Mode::Paused | Mode::Replaced | Mode::Gradient | Mode::Tangent | Mode::Tape(_),
            )
            | None => {
                return Err(Error::new("W0734", "the check has ended already"));
            }
        };
        watcher.restore_first()?;
        self.clear_gradients()?;
        let (tape, ()) = self.recorded(&mut *launches)?;
        tape.backward(self, Some(&seed))?;
        let mut check = Check {
            loss: dynamic_of(loss)?,
            scalar: loss.scalars()?.first().copied().unwrap_or(Scalar::F64),
            watcher,
            launches,
            runs: 2,
        };
        let inputs = inputs.iter().map(|input| Input::new(*input));
        let mut inputs = inputs.collect::<Result<Vec<_>>>()?;
        // Gradients may be part of the state: those of a tape inside of the program.
        check.watcher.restore_first()?;
        for input in &mut inputs {
            input.values = input.read(&input.field)?;
        }
        let found = check.all(&inputs, &tape);
        check.watcher.restore_first()?;
        found
    }
}

impl Check<'_> {
    fn all(&mut self, inputs: &[Input<'_>], tape: &Recorder) -> Result<GradReport> {
        let (mut directions, mut worst) = (0, 0f64);
        for input in inputs {
            let epsilon = epsilon(input.scalar).max(epsilon(self.scalar));
            let tolerance = 10.0 * epsilon.sqrt();
            for seed in 0..DIRECTIONS {
                let compared = self.compare(input, &signs(input.values.len(), seed))?;
                if compared.is_wrong(tolerance) {
                    return Err(self.explain(input, &compared, tolerance, tape)?);
                }
                directions += 1;
                if compared.uncertainty < tolerance * compared.difference.abs() {
                    worst = worst.max(compared.error());
                }
            }
        }
        Ok(GradReport {
            directions,
            runs: self.runs,
            error: worst,
        })
    }

    /// The error, with the worst elements.
    fn explain(
        &mut self,
        input: &Input<'_>,
        whole: &Compared,
        tolerance: f64,
        tape: &Recorder,
    ) -> Result<Error> {
        let count = input.values.len();
        let stride = count.div_ceil(ELEMENTS).max(1);
        let mut wrong = Vec::new();
        for entry in (0..count).step_by(stride) {
            let mut direction = vec![0.0; count];
            direction[entry] = 1.0;
            let compared = self.compare(input, &direction)?;
            if compared.is_wrong(tolerance) {
                wrong.push((entry, compared));
            }
        }
        wrong.sort_by(|a, b| b.1.error().total_cmp(&a.1.error()));
        let name = input.of.subject().0.name();
        let what = format!("the gradient of field `{name}` differs from finite differences");
        let mut error = Error::new("W0742", what);
        for (entry, compared) in wrong.iter().take(SHOWN) {
            error = error.note(format!(
                "{}: the gradient is {}, differences give {:.6}",
                input.name(*entry),
                compared.gradient,
                compared.difference
            ));
        }
        if wrong.is_empty() {
            error = error.note(format!(
                "along a direction of all elements, the gradient gives {}, and differences give {:.6}",
                whole.gradient, whole.difference
            ));
        }
        for at in read_at(tape, input.of.subject().0) {
            error = error.note(format!("a kernel reads the field at {at}"));
        }
        Ok(error.help("check custom gradients of the kernels that read it; kinks and random numbers have no derivative"))
    }
}

/// Where kernels on a tape read a field.
fn read_at(tape: &Recorder, field: &FieldHandle) -> Vec<Position> {
    let mut found = tape.read_at(field);
    found.truncate(SHOWN);
    found
}
