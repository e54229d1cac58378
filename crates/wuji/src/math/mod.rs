//! Functions of graphics and simulation, for kernels and the host alike: shaping, quaternions, rotations, complex numbers, noise.
//!
//! ```
//! use wuji::math::{Quat, fbm, perlin2, smoothstep};
//! use wuji::prelude::*;
//!
//! #[kernel]
//! fn terrain(height: &Field<f32, 2>, normal: &Field<Vec3, 2>, turn: Quat) {
//!     for [i, j] in height {
//!         let p = vec2(i as f32, j as f32) * 0.1;
//!         let h = fbm(|p| perlin2(p), p, 5, 2.0, 0.5);
//!         height[[i, j]] = smoothstep(-0.5, 0.5, h);
//!         normal[[i, j]] = turn.rotate(vec3(0.0, 0.0, 1.0));
//!     }
//! }
//!
//! # fn main() -> wuji::Result<()> {
//! let world = World::cpu()?;
//! let height = world.field("height", [64, 64])?;
//! let normal = world.field("normal", [64, 64])?;
//! let turn = Quat::from_axis_angle(vec3(1.0, 0.0, 0.0), 0.5); // on the host
//! terrain(&height, &normal, turn)?;
//! assert_eq!(normal.get([3, 4])?, turn.rotate(vec3(0.0, 0.0, 1.0)));
//! # Ok(())
//! # }
//! ```

mod complex;
mod noise;
mod quaternion;
mod rotation;
mod shaping;

pub use crate::lang::{clamp, max, min, mix};
pub use complex::{Complex, DComplex};
pub use noise::{
    fbm, hash, perlin1, perlin2, perlin3, simplex2, simplex3, value_noise1, value_noise2,
    value_noise3,
};
pub use quaternion::{DQuat, Quat, Quaternion};
pub use rotation::{direction, rotation2, rotation3, scaling, translation};
pub use shaping::{
    fract, inverse_mix, modulo, refract, saturate, sign, smootherstep, smoothstep, step,
};
