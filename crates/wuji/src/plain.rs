//! The promise that vectors and matrices lie on the host as they do in the memory of kernels.

// A promise about layout, which a trait of the runtime asks for; nothing unsafe is done here.
#![allow(unsafe_code)]

use crate::element::ScalarElement;
use crate::lang::{Matrix, Vector};
use wuji_ir::types::Scalar;
use wuji_runtime::array::Plain;

// SAFETY: transparent around an array of scalars.
unsafe impl<T: ScalarElement, const N: usize> Plain for Vector<T, N> {
    const PART: Scalar = T::PART;
    const LANES: usize = N;
}

// SAFETY: transparent around an array of rows, which are arrays of scalars.
unsafe impl<T: ScalarElement, const R: usize, const C: usize> Plain for Matrix<T, R, C> {
    const PART: Scalar = T::PART;
    const LANES: usize = R * C;
}
