//! DLPack: import of foreign tensors, export of arrays. The structures are those of `dlpack.h`.

mod torch;

use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods, PyDict};
use smallvec::SmallVec;
use std::ffi::{CStr, c_void};
use std::ptr::NonNull;
use wuji::dynamic::{Owner, device};
use wuji_ir::types::Scalar;

const NAME: &CStr = c"dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";
/// Device types: host memory; pinned host memory; CUDA memory; CUDA managed memory.
const CPU: i32 = 1;
const CPU_PINNED: [i32; 2] = [3, 11];
const CUDA: i32 = 2;
const CUDA_MANAGED: i32 = 13;
/// Stream numbers of the protocol: the legacy default stream, and no synchronization.
pub(crate) const LEGACY: usize = 1;
const NO_STREAM: i64 = -1;

#[repr(C)]
#[derive(Copy, Clone)]
struct Device {
    kind: i32,
    number: i32,
}

#[repr(C)]
#[derive(Copy, Clone)]
struct DataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device: Device,
    rank: i32,
    dtype: DataType,
    shape: *mut i64,
    /// In elements; null for a contiguous tensor.
    strides: *mut i64,
    byte_offset: u64,
}

/// The same since version 1 of the protocol.
#[repr(C)]
struct ManagedVersioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut ManagedVersioned)>,
    flags: u64,
    tensor: Tensor,
}

/// In `flags`: the tensor is read-only.
const READ_ONLY: u64 = 1;

/// A tensor with its deleter.
#[repr(C)]
struct Managed {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

/// The decoded description of a tensor.
pub(crate) struct TensorInfo {
    pub(crate) memory: (Owner, *mut u8),
    pub(crate) scalar: Scalar,
    pub(crate) extents: SmallVec<[i64; 4]>,
    /// In bytes.
    pub(crate) strides: SmallVec<[i64; 4]>,
}

/// The owner of a device's memory; `None` if it is not accessible.
fn owner(kind: i32, number: i32) -> Option<Owner> {
    match kind {
        CPU => Some(Owner::Host),
        kind if CPU_PINNED.contains(&kind) => Some(Owner::Host),
        CUDA | CUDA_MANAGED => Some(Owner::Cuda(u32::try_from(number).ok()?)),
        _ => None,
    }
}

/// The device in terms of the protocol.
pub(crate) fn device_of(owner: Owner) -> (i32, i32) {
    match owner {
        Owner::Host => (CPU, 0),
        Owner::Cuda(number) => (CUDA, number as i32),
    }
}

/// The stream that a consumer announces; `None` if it synchronizes itself.
pub(crate) fn stream_of_consumer(stream: Option<&Bound<'_, PyAny>>) -> PyResult<Option<usize>> {
    let Some(stream) = stream.filter(|s| !s.is_none()) else {
        return Ok(Some(LEGACY));
    };
    match stream.extract::<i64>()? {
        NO_STREAM => Ok(None),
        n if n > 0 => Ok(Some(n as usize)),
        n => Err(PyBufferError::new_err(format!(
            "{n} is not a CUDA stream: 1 is the default stream, -1 disables synchronization"
        ))),
    }
}

impl Tensor {
    /// Decodes the tensor; `None` if its memory is not accessible or its type is not supported.
    fn read(&self) -> Option<TensorInfo> {
        let t = self;
        let owner = owner(t.device.kind, t.device.number)?;
        let scalar = match (t.dtype.code, t.dtype.bits, t.dtype.lanes) {
            (0, 8, 1) => Scalar::I8,
            (0, 16, 1) => Scalar::I16,
            (0, 32, 1) => Scalar::I32,
            (0, 64, 1) => Scalar::I64,
            (1, 8, 1) => Scalar::U8,
            (1, 16, 1) => Scalar::U16,
            (1, 32, 1) => Scalar::U32,
            (1, 64, 1) => Scalar::U64,
            (2, 16, 1) => Scalar::F16,
            (2, 32, 1) => Scalar::F32,
            (2, 64, 1) => Scalar::F64,
            (6, 8, 1) => Scalar::Bool,
            _ => return None,
        };
        let rank = usize::try_from(t.rank).ok()?;
        // SAFETY: a tensor has one extent per axis, and one stride per axis or none.
        let list = |p: *mut i64| unsafe {
            match (rank, NonNull::new(p)) {
                (0, _) => Some(&[][..]),
                (_, Some(p)) => Some(std::slice::from_raw_parts(p.as_ptr(), rank)),
                (_, None) => None,
            }
        };
        let size = i64::from(scalar.bytes());
        let extents: SmallVec<[i64; 4]> = list(t.shape)?.into();
        let strides = match list(t.strides) {
            Some(strides) => strides.iter().map(|s| s.wrapping_mul(size)).collect(),
            None => packed(&extents, size),
        };
        Some(TensorInfo {
            memory: (
                owner,
                t.data.cast::<u8>().wrapping_add(t.byte_offset as usize),
            ),
            scalar,
            extents,
            strides,
        })
    }
}

/// Returns contiguous strides.
pub(crate) fn packed(extents: &[i64], size: i64) -> SmallVec<[i64; 4]> {
    let mut strides = SmallVec::from_elem(0, extents.len());
    let mut step = size;
    for (stride, extent) in strides.iter_mut().zip(extents).rev() {
        *stride = step;
        step = step.wrapping_mul((*extent).max(1));
    }
    strides
}

/// An imported tensor. Its memory stays valid while this lives.
pub(crate) struct ImportedTensor<'py> {
    pub(crate) found: TensorInfo,
    pub(crate) writable: bool,
    /// On a GPU: the stream of its other users, and whether our stream still has to wait for it.
    pub(crate) stream: Option<usize>,
    pub(crate) waits: bool,
    /// Its destructor releases the memory.
    pub(crate) capsule: Bound<'py, PyCapsule>,
}

/// The consumer of a tensor: the number of a GPU and the stream that will use it.
pub(crate) type Consumer = Option<(u32, usize)>;

/// Returns the GPU and stream of a world's kernels.
pub(crate) fn consumer(world: &wuji::World) -> Consumer {
    let device = device(world);
    let gpu = device.gpu().map(|gpu| gpu.ordinal as u32);
    gpu.zip(device.stream())
}

/// Imports the tensor of an object if its memory is accessible. A producer on a GPU makes the consumer's stream wait for its pending work;
/// without a consumer, nothing waits.
pub(crate) fn tensor<'py>(
    value: &Bound<'py, PyAny>,
    consumer: Consumer,
) -> PyResult<Option<ImportedTensor<'py>>> {
    let py = value.py();
    if let Some(quick) = torch::export(value)? {
        return quick.import(consumer);
    }
    // Torch exports a tensor with gradients only after `detach`, which shares its memory.
    let tracked = value.getattr(pyo3::intern!(py, "requires_grad"));
    let detached = match tracked.and_then(|t| t.extract::<bool>()) {
        Ok(true) => value.call_method0(pyo3::intern!(py, "detach"))?,
        Ok(false) | Err(_) => value.clone(),
    };
    let value = &detached;
    let Ok(export) = value.getattr(pyo3::intern!(py, "__dlpack__")) else {
        return Ok(None);
    };
    let Ok(device) = value.call_method0(pyo3::intern!(py, "__dlpack_device__")) else {
        return Ok(None);
    };
    let (kind, number): (i32, i32) = device.extract()?;
    let (capsule, stream, waits) = match owner(kind, number) {
        None => return Ok(None),
        Some(Owner::Host) => (exported(&export, None)?, None, false),
        Some(Owner::Cuda(n)) => {
            // On another device the tensor cannot be used; the launch reports that.
            let ours = consumer.filter(|(m, _)| *m == n).map(|c| c.1 as i64);
            match torch::stream_of(value, n)? {
                // Synchronize our stream ourselves: torch would create event and stream objects for it.
                Some(theirs) => {
                    let capsule = exported(&export, Some(NO_STREAM))?;
                    (capsule, Some(theirs), ours.is_some())
                }
                // Other libraries are assumed to use the default stream.
                None => {
                    let capsule = exported(&export, Some(ours.unwrap_or(NO_STREAM)))?;
                    (capsule, Some(LEGACY), false)
                }
            }
        }
    };
    let Ok(capsule) = capsule.cast_into::<PyCapsule>() else {
        return Ok(None);
    };
    let (found, writable) = described(&capsule)?;
    Ok(found.map(|found| ImportedTensor {
        found,
        writable,
        stream,
        waits,
        capsule,
    }))
}

/// Decodes the tensor in a capsule, and whether it is writable.
fn described(capsule: &Bound<'_, PyCapsule>) -> PyResult<(Option<TensorInfo>, bool)> {
    let versioned = capsule.name()?.is_some_and(|name| {
        // SAFETY: the name is only compared.
        unsafe { name.as_cstr() == VERSIONED }
    });
    if !versioned {
        let tensor = capsule.pointer_checked(Some(NAME))?;
        // SAFETY: a capsule of this name holds such a tensor while it lives.
        let tensor = unsafe { tensor.cast::<Managed>().as_ref() };
        return Ok((tensor.tensor.read(), true));
    }
    let tensor = capsule.pointer_checked(Some(VERSIONED))?;
    // SAFETY: as above; the version comes first in all versions.
    let tensor = unsafe { tensor.cast::<ManagedVersioned>().as_ref() };
    if tensor.major != 1 {
        let major = tensor.major;
        let what =
            format!("DLPack version {major} is not supported; the newest supported version is 1");
        return Err(PyBufferError::new_err(what));
    }
    Ok((tensor.tensor.read(), tensor.flags & READ_ONLY == 0))
}

/// Calls `__dlpack__`, with version 1 of the protocol if the producer supports it.
fn exported<'py>(export: &Bound<'py, PyAny>, stream: Option<i64>) -> PyResult<Bound<'py, PyAny>> {
    let py = export.py();
    let Some(stream) = stream else {
        return export.call0();
    };
    let options = PyDict::new(py);
    options.set_item(pyo3::intern!(py, "stream"), stream)?;
    options.set_item(pyo3::intern!(py, "max_version"), (1, 0))?;
    match export.call((), Some(&options)) {
        // The producer predates versions.
        Err(error) if error.is_instance_of::<PyTypeError>(py) => {
            options.del_item(pyo3::intern!(py, "max_version"))?;
            export.call((), Some(&options))
        }
        called => called,
    }
}

/// An exported array.
struct Export {
    managed: Managed,
    extents: Vec<i64>,
    strides: Vec<i64>,
    _owner: Py<PyAny>,
}

/// Exports memory as a capsule. `strides` are in bytes.
///
/// # Safety
/// The memory must stay valid while `owner` lives.
pub(crate) unsafe fn export<'py>(
    owner: Bound<'py, PyAny>,
    (device, base): (Owner, *mut u8),
    scalar: Scalar,
    extents: &[i64],
    strides: &[i64],
) -> PyResult<Bound<'py, PyAny>> {
    let py = owner.py();
    let code = match scalar {
        Scalar::Bool => 6,
        s if s.is_float() => 2,
        s if s.is_signed_int() => 0,
        _ => 1,
    };
    let size = scalar.bytes();
    let (kind, number) = device_of(device);
    let mut export = Box::new(Export {
        managed: Managed {
            tensor: Tensor {
                data: base.cast(),
                device: Device { kind, number },
                rank: extents.len() as i32,
                dtype: DataType {
                    code,
                    bits: (size * 8) as u8,
                    lanes: 1,
                },
                shape: std::ptr::null_mut(),
                strides: std::ptr::null_mut(),
                byte_offset: 0,
            },
            context: std::ptr::null_mut(),
            deleter: Some(release),
        },
        extents: extents.to_vec(),
        strides: strides.iter().map(|s| s / i64::from(size)).collect(),
        _owner: owner.unbind(),
    });
    export.managed.tensor.shape = export.extents.as_mut_ptr();
    export.managed.tensor.strides = export.strides.as_mut_ptr();
    let raw = Box::into_raw(export);
    // SAFETY: the pointer comes from a new box, which the deleter frees.
    unsafe {
        (*raw).managed.context = raw.cast();
        let managed = &raw mut (*raw).managed;
        let capsule = ffi::PyCapsule_New(managed.cast(), NAME.as_ptr(), Some(release_unconsumed));
        if capsule.is_null() {
            release(managed);
        }
        Bound::from_owned_ptr_or_err(py, capsule)
    }
}

/// The deleter: the consumer calls it at the end, from any thread.
unsafe extern "C" fn release(managed: *mut Managed) {
    // SAFETY: the context is the box from `export`, and the deleter is called once.
    let export = unsafe { Box::from_raw((*managed).context.cast::<Export>()) };
    crate::exit::attach(|_| drop(export));
}

/// The destructor of a capsule. It still has its name if the tensor was never consumed.
unsafe extern "C" fn release_unconsumed(capsule: *mut ffi::PyObject) {
    // SAFETY: the capsule is alive; while it has this name, it owns the tensor.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, NAME.as_ptr()) == 0 {
            return;
        }
        let managed = ffi::PyCapsule_GetPointer(capsule, NAME.as_ptr()).cast::<Managed>();
        if let Some(deleter) = managed.as_ref().and_then(|m| m.deleter) {
            deleter(managed);
        }
    }
}
