//! The extension module of Wuji's Python package: worlds, memory, a kernel builder, launches.
//!
//! `python/wuji/_native.pyi` declares its interface. The language itself is implemented in Python; this module only does the work that
//! must be fast, and rejects invalid input.
//!
//! Architecture invariant: no call from Python panics or corrupts memory. The GIL is released while kernels compile and run.

// Python's protocols are defined with raw pointers.
#![allow(unsafe_code)]
// Python defines the signatures.
#![allow(clippy::too_many_arguments)]

mod buffer;
mod builder;
mod canvas;
mod convert;
mod dlpack;
mod error;
mod exit;
mod field;
mod frame;
mod graph;
mod layout;
mod linalg;
mod ndarray;
mod numbers;
mod pictures;
mod program;
mod quantized;
mod saved;
mod scene;
mod symbolic;
mod tune;
mod vertices;
mod waiting;
mod window;
mod world;

use pyo3::prelude::*;
use pyo3::types::PyFrozenSet;
use wuji::dynamic::NodeKind;

/// Worlds, memory, a kernel builder, launches.
#[pymodule]
#[pyo3(name = "_native")]
fn native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    let kinds = || NodeKind::BELOW_ROOT.into_iter();
    m.add(
        "NODE_KINDS",
        PyFrozenSet::new(m.py(), kinds().map(|k| k.name()))?,
    )?;
    let sparse = kinds().filter(NodeKind::is_sparse).map(|k| k.name());
    m.add("SPARSE_KINDS", PyFrozenSet::new(m.py(), sparse)?)?;
    m.add("NativeError", m.py().get_type::<error::NativeError>())?;
    m.add("ArgumentError", m.py().get_type::<error::ArgumentError>())?;
    m.add_class::<graph::Graph>()?;
    m.add_class::<world::World>()?;
    m.add_class::<layout::Layout>()?;
    m.add_class::<layout::Tree>()?;
    m.add_class::<quantized::Quantized>()?;
    m.add_class::<tune::Watch>()?;
    m.add_class::<tune::Tuned>()?;
    m.add_function(wrap_pyfunction!(tune::tune_quant, m)?)?;
    m.add_class::<field::Field>()?;
    m.add_class::<field::PackedBits>()?;
    m.add_class::<ndarray::Ndarray>()?;
    m.add_class::<builder::Builder>()?;
    m.add_class::<program::Program>()?;
    m.add_function(wrap_pyfunction!(saved::load_program, m)?)?;
    linalg::register(m)?;
    symbolic::register(m)?;
    m.add_class::<window::Window>()?;
    m.add_class::<canvas::Canvas>()?;
    m.add_class::<frame::Frame>()?;
    m.add_function(wrap_pyfunction!(frame::check_corners, m)?)?;
    m.add_class::<scene::Scene>()?;
    m.add_function(wrap_pyfunction!(scene::camera_matrices, m)?)?;
    m.add_function(wrap_pyfunction!(canvas::text_width, m)?)?;
    m.add_class::<pictures::Recording>()?;
    m.add_function(wrap_pyfunction!(pictures::read_png, m)?)?;
    m.add_function(wrap_pyfunction!(pictures::write_png, m)?)?;
    m.add_function(wrap_pyfunction!(exit::before_exit, m)?)?;
    m.add_function(wrap_pyfunction!(exit::locked, m)?)?;
    m.add_function(wrap_pyfunction!(world::cuda_devices, m)?)?;
    m.add_function(wrap_pyfunction!(buffer::describe_array, m)?)
}
