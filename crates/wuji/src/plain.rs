//! The promise that vectors and matrices lie on the host as they do in the memory of kernels.

// Promises about layout, which traits of the runtime and of bytemuck ask for; nothing unsafe is done here.
#![allow(unsafe_code)]

use crate::element::ScalarElement;
#[cfg(feature = "bytemuck")]
use crate::lang::Float;
use crate::lang::{Matrix, Vector};
#[cfg(feature = "bytemuck")]
use crate::math::{Complex, Quaternion};
#[cfg(feature = "bytemuck")]
use bytemuck::{Pod, Zeroable};
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

// SAFETY: transparent around an array of components, for which all zeros are a value.
#[cfg(feature = "bytemuck")]
unsafe impl<T: Zeroable, const N: usize> Zeroable for Vector<T, N> {}

// SAFETY: transparent around an array of components, which have no padding and no invalid bits.
#[cfg(feature = "bytemuck")]
unsafe impl<T: Pod, const N: usize> Pod for Vector<T, N> {}

// SAFETY: transparent around an array of rows, which are arrays of components.
#[cfg(feature = "bytemuck")]
unsafe impl<T: Zeroable, const R: usize, const C: usize> Zeroable for Matrix<T, R, C> {}

// SAFETY: transparent around an array of rows, which are arrays of components.
#[cfg(feature = "bytemuck")]
unsafe impl<T: Pod, const R: usize, const C: usize> Pod for Matrix<T, R, C> {}

// SAFETY: all members have one type, for which all zeros are a value.
#[cfg(feature = "bytemuck")]
unsafe impl<T: Float + Zeroable> Zeroable for Quaternion<T> {}

// SAFETY: the layout is that of C and all members have one type, so there is no padding.
#[cfg(feature = "bytemuck")]
unsafe impl<T: Float + Pod> Pod for Quaternion<T> {}

// SAFETY: all members have one type, for which all zeros are a value.
#[cfg(feature = "bytemuck")]
unsafe impl<T: Float + Zeroable> Zeroable for Complex<T> {}

// SAFETY: the layout is that of C and all members have one type, so there is no padding.
#[cfg(feature = "bytemuck")]
unsafe impl<T: Float + Pod> Pod for Complex<T> {}
