//! Vectors, matrices and quaternions from and to those of other libraries, each behind a feature of its name.

#[cfg(feature = "glam")]
mod glam;
#[cfg(feature = "mint")]
mod mint;
#[cfg(feature = "nalgebra")]
mod nalgebra;
