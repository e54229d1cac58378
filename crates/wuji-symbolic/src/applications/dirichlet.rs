//! The symmetric Dirichlet energy of a map of triangles to the plane (figure 11).

use crate::definite::local_hessian;
use crate::derivatives::gradient;
use crate::real::Real;
use crate::sym::Sym;
use wuji_ir::Result;

/// The inverse of the edges of a triangle at rest, by rows, and its area.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct Rest {
    /// The inverse, by rows.
    pub inverse: [f64; 4],
    /// The area.
    pub area: f64,
}

impl Rest {
    /// The shape of a triangle with corners in the plane.
    pub fn new(corners: [[f64; 2]; 3]) -> Rest {
        let edge = |n: usize| [0, 1].map(|k| corners[n][k] - corners[0][k]);
        let (u, v) = (edge(1), edge(2));
        let determinant = u[0] * v[1] - u[1] * v[0];
        let inverse = [v[1], -v[0], -u[1], u[0]].map(|x| x / determinant);
        let area = 0.5 * determinant.abs();
        Rest { inverse, area }
    }

    /// The entries of the Jacobian of the map, by rows, as sums of coordinates: those of each corner have these factors.
    fn factors(&self) -> [[f64; 3]; 2] {
        let [a, b, c, d] = self.inverse;
        [[-a - c, a, c], [-b - d, b, d]]
    }
}

/// The energy of a triangle whose corners are at `x`: three times two coordinates.
pub fn energy<T: Real>(rest: &Rest, x: &[T]) -> T {
    let (square, determinant) = invariants(rest, x);
    let inverse = square / (determinant * determinant);
    (square + inverse) * T::from_f64(rest.area)
}

/// The squared norm of the Jacobian, and its determinant.
fn invariants<T: Real>(rest: &Rest, x: &[T]) -> (T, T) {
    let [first, second] = rest.factors();
    let entry = |row: usize, factors: [f64; 3]| -> T {
        let terms = (0..3).map(|n| x[2 * n + row] * T::from_f64(factors[n]));
        terms.sum()
    };
    let (a, b) = (entry(0, first), entry(0, second));
    let (c, d) = (entry(1, first), entry(1, second));
    (a * a + b * b + c * c + d * d, a * d - b * c)
}

/// Gradient and Hessian of the energy of one triangle, by differentiation: 6 and 36 numbers.
pub fn derived(rest: &Rest, x: &[Sym]) -> Result<Vec<Sym>> {
    let energy = energy(rest, x);
    let mut all = gradient(energy, x);
    all.extend(local_hessian(energy, x)?);
    crate::block(&all);
    Ok(all)
}

/// Gradient and Hessian of the energy of one triangle, by hand.
///
/// With `s` the squared norm of the Jacobian and `d` its determinant, the energy is `area * (s + s / d^2)`. Both are quadratic, so
/// their second derivatives are constants.
pub fn by_hand<T: Real>(rest: &Rest, x: &[T]) -> Vec<T> {
    let (s, d) = invariants(rest, x);
    let [first, second] = rest.factors();
    let number = T::from_f64;
    let (mut slope_s, mut slope_d) = ([T::zero(); 6], [T::zero(); 6]);
    let (mut second_s, mut second_d) = ([0.0; 36], [0.0; 36]);
    for n in 0..3 {
        for m in 0..3 {
            let same = 2.0 * (first[n] * first[m] + second[n] * second[m]);
            let mixed = first[n] * second[m] - second[n] * first[m];
            for k in 0..2 {
                second_s[6 * (2 * n + k) + 2 * m + k] = same;
            }
            second_d[6 * (2 * n) + 2 * m + 1] = mixed;
            second_d[6 * (2 * n + 1) + 2 * m] = -mixed;
        }
    }
    for row in 0..6 {
        for column in 0..6 {
            slope_s[row] += x[column] * number(second_s[6 * row + column]);
            slope_d[row] += x[column] * number(second_d[6 * row + column]);
        }
    }
    let (area, inverse) = (number(rest.area), T::one() / d);
    let square = inverse * inverse;
    let by_s = area * (T::one() + square);
    let by_d = area * number(-2.0) * s * square * inverse;
    let by_sd = area * number(-2.0) * square * inverse;
    let by_dd = area * number(6.0) * s * square * square;
    let mut all: Vec<T> = (0..6)
        .map(|k| by_s * slope_s[k] + by_d * slope_d[k])
        .collect();
    for row in 0..6 {
        for column in 0..6 {
            let mixed = slope_s[row] * slope_d[column] + slope_d[row] * slope_s[column];
            let quadratic = by_s * number(second_s[6 * row + column])
                + by_d * number(second_d[6 * row + column]);
            all.push(quadratic + by_sd * mixed + by_dd * slope_d[row] * slope_d[column]);
        }
    }
    all
}
