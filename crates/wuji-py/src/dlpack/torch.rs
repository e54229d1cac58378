//! Import of torch tensors by the functions that torch's own `__dlpack__` calls, which takes several times as long.

use super::{Consumer, ImportedTensor, LEGACY, described};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCapsule, PyType};
use wuji::dynamic::Owner;

/// Functions of torch.
struct Torch {
    tensor: Py<PyType>,
    to_dlpack: Py<PyAny>,
    current_stream: Py<PyAny>,
}

static TORCH: PyOnceLock<Torch> = PyOnceLock::new();

impl Torch {
    /// `None` before torch is imported, and for versions without these functions.
    fn get(py: Python<'_>) -> Option<&Torch> {
        TORCH.get(py).or_else(|| {
            let modules = py.import(pyo3::intern!(py, "sys")).ok()?;
            let modules = modules.getattr(pyo3::intern!(py, "modules")).ok()?;
            let torch = modules.get_item(pyo3::intern!(py, "torch")).ok()?;
            let functions = torch.getattr(pyo3::intern!(py, "_C")).ok()?;
            let tensor = torch.getattr(pyo3::intern!(py, "Tensor")).ok()?;
            let to_dlpack = functions.getattr(pyo3::intern!(py, "_to_dlpack")).ok()?;
            let new = Torch {
                tensor: tensor.cast_into::<PyType>().ok()?.unbind(),
                to_dlpack: to_dlpack.unbind(),
                current_stream: current_stream_function(&torch).ok()?.unbind(),
            };
            Some(TORCH.get_or_init(py, || new))
        })
    }
}

/// A function of the number of a device: what `torch.cuda.current_stream` calls, without the object around the result, if there
/// is such a function.
fn current_stream_function<'py>(torch: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = torch.py();
    let quick = torch
        .getattr(pyo3::intern!(py, "_C"))
        .and_then(|c| c.getattr(pyo3::intern!(py, "_cuda_getCurrentRawStream")));
    quick.or_else(|_| {
        let cuda = py.import(pyo3::intern!(py, "torch.cuda"))?;
        cuda.getattr(pyo3::intern!(py, "current_stream"))
    })
}

/// The current stream of a device in terms of the protocol.
fn current_stream(function: &Bound<'_, PyAny>, device: u32) -> PyResult<usize> {
    let py = function.py();
    let stream = function.call1((device,))?;
    let raw: usize = match stream.extract() {
        Ok(raw) => raw,
        Err(_) => stream
            .getattr(pyo3::intern!(py, "cuda_stream"))?
            .extract()?,
    };
    // Torch uses 0 for the default stream.
    Ok(raw.max(LEGACY))
}

/// Torch's current stream, if this is a tensor of torch. Other libraries do not tell.
pub(super) fn stream_of(value: &Bound<'_, PyAny>, device: u32) -> PyResult<Option<usize>> {
    let py = value.py();
    let module = value.get_type().module()?;
    let module = module.to_str()?;
    if module != "torch" && !module.starts_with("torch.") {
        return Ok(None);
    }
    let torch = py.import(pyo3::intern!(py, "torch"))?;
    current_stream(&current_stream_function(&torch)?, device).map(Some)
}

/// An exported tensor.
pub(super) struct TorchExport<'py> {
    torch: &'py Torch,
    capsule: Bound<'py, PyCapsule>,
}

/// Exports a tensor of torch; `None` for other objects, and for tensors that `__dlpack__` has to refuse or to convert.
pub(super) fn export<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<TorchExport<'py>>> {
    let py = value.py();
    let Some(torch) = Torch::get(py) else {
        return Ok(None);
    };
    if !value.is_instance(torch.tensor.bind(py))? {
        return Ok(None);
    }
    let is = |name: &Bound<'py, pyo3::types::PyString>| -> PyResult<bool> {
        value.call_method0(name)?.extract()
    };
    // Torch would export memory that does not have the values of the tensor.
    if is(pyo3::intern!(py, "is_neg"))? {
        return Err(PyBufferError::new_err(
            "the tensor is the negative of its memory (`is_neg()`); pass `tensor.resolve_neg()`",
        ));
    }
    // Torch says why it refuses these.
    if is(pyo3::intern!(py, "is_conj"))? {
        return Ok(None);
    }
    // With gradients it is exported only after `detach`, which shares its memory.
    let tracked: bool = value
        .getattr(pyo3::intern!(py, "requires_grad"))?
        .extract()?;
    let value = if tracked {
        value.call_method0(pyo3::intern!(py, "detach"))?
    } else {
        value.clone()
    };
    let Ok(capsule) = torch.to_dlpack.bind(py).call1((value,)) else {
        return Ok(None);
    };
    let capsule = capsule.cast_into::<PyCapsule>().ok();
    Ok(capsule.map(|capsule| TorchExport { torch, capsule }))
}

impl<'py> TorchExport<'py> {
    /// The tensor for a consumer, whose stream has to wait for that of torch.
    pub(super) fn import(self, consumer: Consumer) -> PyResult<Option<ImportedTensor<'py>>> {
        let (Some(found), writable) = described(&self.capsule)? else {
            return Ok(None);
        };
        let device = match found.memory.0 {
            Owner::Host => None,
            Owner::Cuda(number) => Some(number),
        };
        let py = self.capsule.py();
        let function = self.torch.current_stream.bind(py);
        let stream = device.map(|n| current_stream(function, n)).transpose()?;
        Ok(Some(ImportedTensor {
            found,
            writable,
            stream,
            waits: device.is_some() && device == consumer.map(|c| c.0),
            capsule: self.capsule,
        }))
    }
}
