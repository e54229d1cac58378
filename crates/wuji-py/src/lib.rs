//! The extension module of Wuji's Python package: worlds, memory, a builder of kernels, launches.
//!
//! `python/wuji/_native.pyi` says what it has. The language is in Python: what is here does what it is told, quickly, and refuses what
//! does not fit.
//!
//! Architecture invariant: nothing that Python code can do here panics or leaves its memory. The interpreter is released
//! while kernels compile and run.

// The protocols of Python are made of pointers.
#![allow(unsafe_code)]
// Signatures are Python's.
#![allow(clippy::too_many_arguments)]

mod buffer;
mod builder;
mod convert;
mod dlpack;
mod error;
mod field;
mod graph;
mod layout;
mod linalg;
mod ndarray;
mod pictures;
mod program;
mod waiting;
mod window;
mod world;

use pyo3::prelude::*;

/// Ends what runs in the background. Python calls it before it takes itself apart.
#[pyfunction]
fn before_exit(py: Python<'_>) {
    py.detach(wuji::dynamic::before_exit);
}

/// Worlds, memory, a builder of kernels, launches.
#[pymodule]
#[pyo3(name = "_native")]
fn native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add("NativeError", m.py().get_type::<error::NativeError>())?;
    m.add_class::<graph::Graph>()?;
    m.add_class::<world::World>()?;
    m.add_class::<layout::Layout>()?;
    m.add_class::<layout::Tree>()?;
    m.add_class::<field::Field>()?;
    m.add_class::<ndarray::Ndarray>()?;
    m.add_class::<builder::Builder>()?;
    m.add_class::<program::Program>()?;
    linalg::register(m)?;
    m.add_class::<window::Window>()?;
    m.add_class::<pictures::Recording>()?;
    m.add_function(wrap_pyfunction!(pictures::read_png, m)?)?;
    m.add_function(wrap_pyfunction!(pictures::write_png, m)?)?;
    m.add_function(wrap_pyfunction!(before_exit, m)?)?;
    m.add_function(wrap_pyfunction!(world::cuda_devices, m)?)?;
    m.add_function(wrap_pyfunction!(buffer::describe_array, m)?)
}
