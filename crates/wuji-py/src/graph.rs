//! Launches that were recorded.

use crate::waiting::waiting;
use pyo3::prelude::*;

/// Launches that are run as a whole. It keeps no arrays of Python's: whoever has it does.
#[pyclass(frozen, module = "wuji._native")]
pub(crate) struct Graph {
    pub(crate) world: wuji::World,
    pub(crate) graph: wuji::Graph,
}

#[pymethods]
impl Graph {
    fn launch(&self, py: Python<'_>) -> PyResult<()> {
        waiting(py, &self.world, || self.graph.launch())
    }

    fn __len__(&self) -> usize {
        self.graph.len()
    }

    fn __repr__(&self) -> String {
        format!("Graph({:?})", self.graph)
    }
}
