//! Chooses the types and the layout of fields: the fewest bits with which a program still computes what it should, and the
//! nodes with which it is the fastest.
//!
//! [`layout()`] runs a program over candidate layouts and measures it. [`quant`] runs a program with the ordinary types of its fields, and observes the numbers that each field has. Then it runs the
//! program with [quantized types](crate::quantized), compares the outputs, and searches the combinations of types with the least
//! memory and the smallest error.
//!
//! ```
//! use wuji::prelude::*;
//!
//! #[kernel]
//! fn decay(x: &Field<f32, 1>) {
//!     for [i] in x {
//!         x[[i]] *= 0.9;
//!     }
//! }
//!
//! # fn main() -> wuji::Result<()> {
//! let world = World::interpreter()?;
//! let tuned = wuji::tune::quant().error(1e-2).run(|trial| {
//!     let x = world.layout(|root| trial.place::<f32, 1>(root.dense(I, 8), "x"))?;
//!     x.copy_from(&[1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3])?;
//!     for _ in 0..4 {
//!         decay(&x)?;
//!     }
//!     trial.output("x", &x)
//! })?;
//! println!("{tuned}"); // the ranges, the Pareto front, and code
//! assert!(tuned.point().error <= 1e-2 && tuned.point().bytes <= 16);
//! # Ok(())
//! # }
//! ```

mod layouts;
mod model;
mod modules;
mod packing;
mod quant;
mod report;
mod search;
mod storage;
mod trial;
mod watch;

#[cfg(test)]
mod tests;

pub use layouts::*;
pub use modules::{field_name, field_named, retype, tunable};
pub use packing::{NodeLayout, Pack};
pub use quant::{Quant, quant};
pub use search::{
    Goal, Norm, Observation, Output, Point, Request, Step, StoragePlan, Tuned, search, unknown,
};
pub use storage::{Range, Storage, TunedField};
pub use trial::{Trial, element};
pub use watch::Watch;
pub(crate) use watch::WatchCell;
