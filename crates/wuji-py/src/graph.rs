//! Recorded launches.

use crate::waiting::waiting;
use pyo3::prelude::*;

/// A sequence of launches, replayed as a whole. It does not keep Python's arrays alive; its owner does.
#[pyclass(frozen, module = "wuji._native")]
pub(crate) struct Graph {
    pub(crate) graph: wuji::Graph,
}

#[pymethods]
impl Graph {
    fn launch(&self, py: Python<'_>) -> PyResult<()> {
        waiting(py, || self.graph.launch())
    }

    fn __len__(&self) -> usize {
        self.graph.len()
    }

    fn __repr__(&self) -> String {
        format!("Graph({:?})", self.graph)
    }
}
