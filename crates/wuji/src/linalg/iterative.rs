//! Solvers that only multiply with the matrix.

use crate::axes;
use crate::field::Field;
use crate::files::at_caller;
use crate::lang::Float;
use std::panic::Location;
use wuji_ir::{Error, Result};
use wuji_macros::kernel;

/// When an iterative solver stops.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Stop {
    /// The norm of the residual, relative to that of the right-hand side.
    pub tolerance: f64,
    /// The number of steps.
    pub max_steps: u32,
}

/// A residual of a millionth, or 1000 steps.
impl Default for Stop {
    fn default() -> Stop {
        Stop {
            tolerance: 1e-6,
            max_steps: 1000,
        }
    }
}

/// What an iterative solver did.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct SolveReport {
    /// How many steps it took.
    pub steps: u32,
    /// The norm of the residual, relative to that of the right-hand side.
    pub residual: f64,
    /// Whether the residual is within the tolerance.
    pub converged: bool,
}

#[kernel]
fn dot<T: Float, const D: usize>(a: &Field<T, D>, b: &Field<T, D>) -> f64 {
    let mut sum = 0.0;
    for i in a {
        sum += a[i].cast::<f64>() * b[i].cast::<f64>();
    }
    sum
}

/// `to = a + s * b`
#[kernel]
fn combine<T: Float, const D: usize>(to: &Field<T, D>, a: &Field<T, D>, s: T, b: &Field<T, D>) {
    for i in to {
        to[i] = a[i] + s * b[i];
    }
}

/// Solves `A x = b` for a symmetric positive definite matrix by conjugate gradients, starting at `x`. `apply(x, y)` computes
/// `y = A x`, usually by a kernel; it gets fields of the shape of `x`.
#[track_caller]
pub fn conjugate_gradient<T: Float, const D: usize>(
    apply: impl Fn(&Field<T, D>, &Field<T, D>) -> Result<()>,
    b: &Field<T, D>,
    x: &Field<T, D>,
    stop: Stop,
) -> Result<SolveReport> {
    let caller = Location::caller();
    let solved = System::new(apply, b, x).and_then(|system| system.conjugate_gradient(stop));
    at_caller(solved, caller)
}

/// Solves `A x = b` for any invertible matrix by the stabilized biconjugate gradient method, starting at `x`. `apply(x, y)` is as
/// in [`conjugate_gradient`], and is called twice in a step.
#[track_caller]
pub fn bicgstab<T: Float, const D: usize>(
    apply: impl Fn(&Field<T, D>, &Field<T, D>) -> Result<()>,
    b: &Field<T, D>,
    x: &Field<T, D>,
    stop: Stop,
) -> Result<SolveReport> {
    let caller = Location::caller();
    let solved = System::new(apply, b, x).and_then(|system| system.bicgstab(stop));
    at_caller(solved, caller)
}

struct System<'a, T, const D: usize, A> {
    apply: A,
    b: &'a Field<T, D>,
    x: &'a Field<T, D>,
}

impl<'a, T: Float, const D: usize, A> System<'a, T, D, A>
where
    A: Fn(&Field<T, D>, &Field<T, D>) -> Result<()>,
{
    fn new(apply: A, b: &'a Field<T, D>, x: &'a Field<T, D>) -> Result<Self> {
        for field in [b, x] {
            if !field.is_dense()? {
                let what = format!("a solver cannot use the sparse field `{}`", field.name());
                return Err(Error::new("W0141", what).help("use a dense field"));
            }
        }
        if b.domain()? != x.domain()? {
            let (b_shape, x_shape) = (b.shape()?, x.shape()?);
            let what = format!(
                "the right-hand side `{}` and the solution `{}` have other elements",
                b.name(),
                x.name()
            );
            let note = format!("their shapes are {b_shape:?} and {x_shape:?}");
            return Err(Error::new("W0141", what).note(note));
        }
        if b.handle() == x.handle() || b.world() != x.world() {
            let what = format!(
                "a solver needs another field than `{}` for its solution, in the same world",
                b.name()
            );
            return Err(Error::new("W0141", what));
        }
        Ok(System { apply, b, x })
    }

    /// A field with the elements of the solution.
    fn vector(&self, name: &str) -> Result<Field<T, D>> {
        let (shape, offset) = (self.x.shape()?, self.x.offset()?);
        self.x.world().layout(|root| match D {
            0 => root.place(name),
            _ => root.dense(axes::first(D), shape).offset(offset).place(name),
        })
    }

    /// `b - A x`
    fn residual(&self) -> Result<Field<T, D>> {
        let r = self.vector("residual")?;
        (self.apply)(self.x, &r)?;
        combine(&r, self.b, -T::ONE, &r)?;
        Ok(r)
    }

    fn conjugate_gradient(&self, stop: Stop) -> Result<SolveReport> {
        let r = self.residual()?;
        let (p, q) = (self.vector("direction")?, self.vector("image")?);
        combine(&p, &r, T::ZERO, &r)?;
        let whole = dot(self.b, self.b)?;
        let goal = stop.tolerance * stop.tolerance * whole;
        let mut left = dot(&r, &r)?;
        let mut steps = 0;
        while left > goal && steps < stop.max_steps {
            (self.apply)(&p, &q)?;
            let length = left / dot(&p, &q)?;
            if !length.is_finite() {
                break;
            }
            combine(self.x, self.x, T::from_f64(length), &p)?;
            combine(&r, &r, T::from_f64(-length), &q)?;
            let before = std::mem::replace(&mut left, dot(&r, &r)?);
            combine(&p, &r, T::from_f64(left / before), &p)?;
            steps += 1;
        }
        Ok(report(steps, left, whole, goal))
    }

    fn bicgstab(&self, stop: Stop) -> Result<SolveReport> {
        let r = self.residual()?;
        let (shadow, p) = (self.vector("shadow residual")?, self.vector("direction")?);
        let (v, t) = (self.vector("image")?, self.vector("second image")?);
        combine(&shadow, &r, T::ZERO, &r)?;
        combine(&p, &r, T::ZERO, &r)?;
        let whole = dot(self.b, self.b)?;
        let goal = stop.tolerance * stop.tolerance * whole;
        let mut rho = dot(&shadow, &r)?;
        let mut left = dot(&r, &r)?;
        let mut steps = 0;
        while left > goal && steps < stop.max_steps {
            (self.apply)(&p, &v)?;
            let alpha = rho / dot(&shadow, &v)?;
            if !alpha.is_finite() {
                break;
            }
            // Half a step: `r` is the residual after it.
            combine(&r, &r, T::from_f64(-alpha), &v)?;
            combine(self.x, self.x, T::from_f64(alpha), &p)?;
            (self.apply)(&r, &t)?;
            let omega = dot(&t, &r)? / dot(&t, &t)?;
            // The residual may be zero now.
            let omega = if omega.is_finite() { omega } else { 0.0 };
            combine(self.x, self.x, T::from_f64(omega), &r)?;
            combine(&p, &p, T::from_f64(-omega), &v)?;
            combine(&r, &r, T::from_f64(-omega), &t)?;
            left = dot(&r, &r)?;
            steps += 1;
            let before = std::mem::replace(&mut rho, dot(&shadow, &r)?);
            let beta = rho / before * (alpha / omega);
            if !beta.is_finite() {
                break;
            }
            combine(&p, &r, T::from_f64(beta), &p)?;
        }
        Ok(report(steps, left, whole, goal))
    }
}

/// The residual and the right-hand side are squares of norms here.
fn report(steps: u32, left: f64, whole: f64, goal: f64) -> SolveReport {
    let residual = if whole > 0.0 {
        (left / whole).sqrt()
    } else {
        left.sqrt()
    };
    SolveReport {
        steps,
        residual,
        converged: left <= goal,
    }
}
