//! Wuji: a language and compiler for visual computing.
//!
//! A [`World`] is one device; fields live in it, in the memory that [`World::layout`] describes, and
//! kernels run in it.
//!
//! ```
//! use wuji::prelude::*;
//!
//! #[kernel]
//! fn saxpy(x: &Field<f32, 1>, y: &Field<f32, 1>, a: f32) {
//!     // Iterations run in parallel; `+=` on an element is atomic where it has to be.
//!     for [i] in x {
//!         y[[i]] += a * x[[i]];
//!     }
//! }
//!
//! fn main() -> wuji::Result<()> {
//!     let world = World::cpu()?;
//!     let x = world.field::<f32, 1>("x", 1000)?;
//!     let y = world.layout(|root| root.dense(I, 125).dense(I, 8).place("y"))?;
//!     x.fill(3.0)?;
//!     saxpy(&x, &y, 2.0)?;
//!     assert_eq!(y.get(999)?, 6.0);
//!     Ok(())
//! }
//! ```
//!
//! Architecture invariant: no function here panics on user input, and none is `unsafe` except
//! [`WorldBuilder::unchecked`], where the user promises that accesses are in bounds.

// The macros say `::wuji`, here too.
extern crate self as wuji;

pub mod algorithms;
pub mod args;
pub mod array;

mod autodiff;
pub mod axes;
pub mod bundle;
pub mod cells;
mod checkpoint;
mod conversions;
pub mod dynamic;
pub mod element;
mod features;
pub mod field;
pub mod files;
mod graph;
mod host;
pub mod lang;
pub mod launch;
pub mod layout;
mod lazy;
pub mod linalg;
pub mod math;
mod nd_array;
#[cfg(feature = "ndarray")]
mod ndarrays;
pub mod nested;
mod option;
mod part;
#[cfg(feature = "png")]
pub mod pictures;
mod plain;
pub mod quantized;
mod services;
mod specialize;
#[cfg(test)]
mod tests;
pub mod tune;
#[cfg(feature = "viewer")]
pub mod viewer;
pub mod world;

pub use array::{Array, ArrayMut, SharedArray};
pub use autodiff::{Differentiable, GradReport, Param, SavedField, StepPlan, StepReport, Tape};
pub use bundle::Fields;
pub use cells::Cells;
pub use element::Element;
pub use field::{Field, Window};
pub use graph::Graph;
pub use lang::simt;
pub use layout::{MemoryReport, Node, NodeReport, Tree, WorldReport};
pub use lazy::{FlowGraph, LazyStatistics};
pub use nd_array::NdArray;
pub use world::{World, WorldBuilder};
pub use wuji_compile::{Decision, KeptCode, Math, Remark};
pub use wuji_ir::{Error, Position, Result};
pub use wuji_macros::{Element, Fields, func, kernel};
pub use wuji_runtime::cache::{Cache, Choice as CacheChoice};
pub use wuji_runtime::cuda::LibdeviceChoice;
pub use wuji_runtime::cuda::{DeviceInfo as CudaDevice, devices as cuda_devices};
pub use wuji_runtime::log::Level;
pub use wuji_runtime::profile::{self, Profiler};
pub use wuji_runtime::{Interrupter, Progress, Tier};

// Names that macro expansions use.
#[doc(hidden)]
pub use lang::private as __private;

/// The names that most programs need.
pub mod prelude {
    pub use crate::axes::{I, IJ, IJK, IJKL, J, JI, K, L};
    pub use crate::lang::*;
    pub use crate::quantized::{QuantizedType, qfixed, qfixed_scaled, qfloat, qint};
    pub use crate::{
        Array, ArrayMut, Cells, Element, Field, Fields, Math, NdArray, Param, SharedArray, Tier,
        World, func, kernel,
    };
}
