//! Functions of the language that are written in it, and so run on the host and in kernels alike.

use super::random;
use wuji_macros::func;

/// A random number from the normal distribution with mean 0 and deviation 1.
#[func]
pub fn random_normal() -> f32 {
    // Never zero, so the logarithm is finite.
    let u = 1.0 - random::<f32>();
    let angle = random::<f32>() * std::f32::consts::TAU;
    (-2.0 * u.ln()).sqrt() * angle.cos()
}
