//! The kernel language: its types, and how a `#[kernel]` becomes IR.
//!
//! A kernel is ordinary Rust. rustc checks it and infers its types; what the language does not have is
//! an error at its place in the source.
//!
//! ```
//! use wuji::prelude::*;
//!
//! #[func]
//! fn brightness(n: i32) -> f32 {
//!     1.0 - n as f32 * 0.02
//! }
//!
//! #[kernel]
//! fn paint(pixels: &Field<f32, 2>, t: f32) -> f32 {
//!     let mut sum = 0.0;
//!     for [i, j] in pixels {
//!         let c = vec2(-0.8, t.cos() * 0.2);
//!         let mut z = vec2(i as f32 / 8.0 - 1.0, j as f32 / 8.0 - 0.5) * 2.0;
//!         let mut n = 0;
//!         while z.norm() < 20.0 && n < 50 {
//!             z = vec2(z.x * z.x - z.y * z.y, z.x * z.y * 2.0) + c;
//!             n += 1;
//!         }
//!         pixels[[i, j]] = brightness(n);
//!         sum += pixels[[i, j]];
//!     }
//!     sum
//! }
//!
//! # fn main() -> wuji::Result<()> {
//! let world = World::interpreter()?;
//! let pixels = world.field::<f32, 2>("pixels", [16, 8])?;
//! let sum = paint(&pixels, 0.3)?;
//! assert!(sum > 0.0);
//! # Ok(())
//! # }
//! ```
//!
//! **Parameters** are elements by value ([`Element`](crate::Element)), and references to data: `&Field<T, D>`, [`&Cells<D>`](crate::Cells),
//! `&[T]`, `&mut [T]`, [`&Array<T, D>`](crate::Array), [`&mut ArrayMut<T, D>`](crate::ArrayMut). A kernel runs in the
//! world of its fields; one without fields takes `world: &World`. Calling it gives a `Result` of what it returns.
//!
//! **Loops.** A `for` directly in the body of a kernel is parallel: over a range (`0..n`, with `step_by` and `rev`), over
//! [`grid([0..n, 0..m])`](grid), over all coordinates of a field or array. `for [i, j] in x` gives one number for each axis,
//! `for i in x` an index vector, for code that works in any dimension. [`serial(..)`](serial) around the domain makes it an
//! ordinary loop, [`block_size(64, ..)`](block_size) says how many iterations a thread takes at a time, [`simd(..)`](simd) and
//! [`scalar(..)`](scalar) whether they run several per instruction. All other loops are
//! ordinary ones; [`unroll(..)`](unroll) makes a copy of the body for each number of a constant range.
//!
//! **Elements** are `x[[i, j]]`, `x[i]` with an index vector, and `x[i]` with an integer for one axis, of any integer type.
//! What is outside reads as zero and is reported when it is written. `+= -= *= &= |= ^=` on an element are atomic,
//! and so are `x.at([i, j]).fetch_add(v)` and its relatives, which give the old value.
//!
//! **Sparse data.** Loops over a field visit the elements that exist; writes bring them about, reads do not. Fields and
//! [`Cells`](crate::Cells) have `is_active`, `activate`, `deactivate`, `append` and `length`; `x.no_activate([i, j]) = v` writes only
//! where something is.
//!
//! **Variables outside of a parallel loop** can be read in it, and reduced: with the operators above, and with
//! `s = s.min(v)` and `s = s.max(v)`.
//!
//! **Threads of a GPU that work together**: shared arrays, barriers, warps. See [`simt`].
//!
//! **Functions.** A `#[func]` can be called from kernels, may be generic, recursive or a method, may take `&mut` and closures, and
//! without fields it also runs on the host; calling one with fields or arrays there does not compile. In front of an `impl` or a `trait`,
//! `#[func]` stands for all of its functions; of `impl Add for T`, it makes the operator one of kernels. Calls of other functions are
//! compile errors. Closures are bound with `let`, or passed to a `#[func]`, and see the variables around them.
//!
//! **Types** are numbers, `bool`, vectors, matrices, tuples, arrays, `Option`, and structs and enums with `#[derive(Element)]`.
//!
//! Differences from Rust on the host: integers wrap; dividing by zero gives 0; an index outside of a vector or local
//! array gives zero and is reported; assignments evaluate their right side first.
//!
//! # How it works
//!
//! A call of a kernel goes through these steps:
//!
//! 1. The expansion binds each argument: `let mut call = launch::Call::new(name, key); call.arg(x); ...`,
//!    where `key` is a `TypeId` that identifies the instance of a kernel (its type and const arguments
//!    included; captured constants follow from those).
//! 2. `call.run::<R>(&|| -> Recording)` looks for code by the key and by what the arguments are
//!    specialised for. Only when there is none, it makes the recording, fills a module with structs,
//!    trees, fields and arrays, and calls [`lower`](lower()) for the unlowered kernel.
//!
//! `ast` is the source as data, `record` reads back what rustc found out, `shadow` is what the rest of an expansion is made
//! of, and [`lower`](lower()) puts it together.

#[doc(hidden)]
pub mod ast;
mod builtin;
pub(crate) mod calls;
mod decomposition_gradients;
pub(crate) mod decompositions;
mod library;
pub mod lower;
mod math;
mod matrix;
mod num;
#[doc(hidden)]
pub mod operators;
mod parts;
#[doc(hidden)]
pub mod private;
mod record;
#[doc(hidden)]
pub mod recording;
mod shadow;
pub mod simt;
mod vector;

pub use half::f16;
pub use library::random_normal;
pub use lower::lower;
pub use math::{
    Mix, Ordered, Random, RandomRange, assume_in_range, clamp, loop_permutation, loop_unique, max,
    min, mix, random, random_range, select,
};
pub use matrix::*;
pub use num::{Float, Int, Num, Signed};
pub use shadow::{Grid, block_size, cache, grid, scalar, serial, simd, unroll};
pub use vector::*;
