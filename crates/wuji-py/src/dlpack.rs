//! DLPack: tensors of other libraries, and ours for them. The structures are those of `dlpack.h`.

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
/// Ordinary memory; memory that a GPU can reach, too; memory of NVIDIA's GPUs, and such that moves between them and the host.
const CPU: i32 = 1;
const CPU_PINNED: [i32; 2] = [3, 11];
const CUDA: i32 = 2;
const CUDA_MANAGED: i32 = 13;
/// The legacy default stream, and no stream at all, as they are named in the protocol.
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
    /// In elements; nothing when there are no gaps.
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

/// In `flags`: nobody may write to it.
const READ_ONLY: u64 = 1;

/// A tensor, and who takes it back.
#[repr(C)]
struct Managed {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

/// What a tensor says of itself.
pub(crate) struct Found {
    pub(crate) place: (Owner, *mut u8),
    pub(crate) scalar: Scalar,
    pub(crate) extents: SmallVec<[i64; 4]>,
    /// In bytes.
    pub(crate) strides: SmallVec<[i64; 4]>,
}

/// Whose memory a device of the protocol is; `None` where we cannot go.
fn owner(kind: i32, number: i32) -> Option<Owner> {
    match kind {
        CPU => Some(Owner::Host),
        kind if CPU_PINNED.contains(&kind) => Some(Owner::Host),
        CUDA | CUDA_MANAGED => Some(Owner::Cuda(u32::try_from(number).ok()?)),
        _ => None,
    }
}

/// A device as the protocol has it.
pub(crate) fn device_of(owner: Owner) -> (i32, i32) {
    match owner {
        Owner::Host => (CPU, 0),
        Owner::Cuda(number) => (CUDA, number as i32),
    }
}

/// The stream that a consumer says it will use; `None` when it takes care of itself.
pub(crate) fn stream_of_consumer(stream: Option<&Bound<'_, PyAny>>) -> PyResult<Option<usize>> {
    let Some(stream) = stream.filter(|s| !s.is_none()) else {
        return Ok(Some(LEGACY));
    };
    match stream.extract::<i64>()? {
        NO_STREAM => Ok(None),
        n if n > 0 => Ok(Some(n as usize)),
        n => Err(PyBufferError::new_err(format!(
            "{n} is no stream of CUDA: 1 is the default stream, -1 means that nobody has to wait"
        ))),
    }
}

impl Tensor {
    /// `None` when it is nothing that we can reach, or not made of numbers of ours.
    fn read(&self) -> Option<Found> {
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
        // SAFETY: a tensor has as many extents as axes, and strides or none.
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
        Some(Found {
            place: (
                owner,
                t.data.cast::<u8>().wrapping_add(t.byte_offset as usize),
            ),
            scalar,
            extents,
            strides,
        })
    }
}

/// Strides without gaps.
pub(crate) fn packed(extents: &[i64], size: i64) -> SmallVec<[i64; 4]> {
    let mut strides = SmallVec::from_elem(0, extents.len());
    let mut step = size;
    for (stride, extent) in strides.iter_mut().zip(extents).rev() {
        *stride = step;
        step = step.wrapping_mul((*extent).max(1));
    }
    strides
}

/// A tensor of somebody else, which stays where it is while this lives.
pub(crate) struct Borrowed<'py> {
    pub(crate) found: Found,
    pub(crate) writable: bool,
    /// Of a tensor of a GPU: the stream of those who use it besides us; and whether nobody has told ours yet to wait for it.
    pub(crate) stream: Option<usize>,
    pub(crate) waits: bool,
    /// Its destructor gives the memory back.
    pub(crate) capsule: Bound<'py, PyCapsule>,
}

/// Who wants a tensor: the number of a GPU, and the stream that is going to use it.
pub(crate) type Consumer = Option<(u32, usize)>;

/// What kernels of a world are to tensors.
pub(crate) fn consumer(world: &wuji::World) -> Consumer {
    let device = device(world);
    let gpu = device.gpu().map(|gpu| gpu.ordinal as u32);
    gpu.zip(device.stream())
}

/// The tensor of an object that has one where we can reach it. A producer on a GPU makes the consumer's stream wait for what it has
/// still to do; without a consumer, nobody waits.
pub(crate) fn tensor<'py>(
    value: &Bound<'py, PyAny>,
    consumer: Consumer,
) -> PyResult<Option<Borrowed<'py>>> {
    let py = value.py();
    // A tensor that torch takes gradients of is handed out only when it is detached, which shares its memory.
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
            // Of another device, nothing can be done with it but to say so.
            let ours = consumer.filter(|(m, _)| *m == n).map(|c| c.1 as i64);
            match stream_of_torch(value, n)? {
                // Our stream is made to wait here, without the objects that torch makes for it.
                Some(theirs) => {
                    let capsule = exported(&export, Some(NO_STREAM))?;
                    (capsule, Some(theirs), ours.is_some())
                }
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
    let versioned = capsule.name()?.is_some_and(|name| {
        // SAFETY: the name is compared at once.
        unsafe { name.as_cstr() == VERSIONED }
    });
    let (found, writable) = if versioned {
        let tensor = capsule.pointer_checked(Some(VERSIONED))?;
        // SAFETY: what a capsule of this name holds, as long as it lives; the version comes first in all versions.
        let tensor = unsafe { tensor.cast::<ManagedVersioned>().as_ref() };
        if tensor.major != 1 {
            let major = tensor.major;
            let what = format!("a tensor of version {major} of DLPack; 1 is the newest known");
            return Err(PyBufferError::new_err(what));
        }
        (tensor.tensor.read(), tensor.flags & READ_ONLY == 0)
    } else {
        let tensor = capsule.pointer_checked(Some(NAME))?;
        // SAFETY: as above.
        let tensor = unsafe { tensor.cast::<Managed>().as_ref() };
        (tensor.tensor.read(), true)
    };
    Ok(found.map(|found| Borrowed {
        found,
        writable,
        stream,
        waits,
        capsule,
    }))
}

/// What a producer hands out: in the newer form if it knows that.
fn exported<'py>(export: &Bound<'py, PyAny>, stream: Option<i64>) -> PyResult<Bound<'py, PyAny>> {
    let py = export.py();
    let Some(stream) = stream else {
        return export.call0();
    };
    let options = PyDict::new(py);
    options.set_item(pyo3::intern!(py, "stream"), stream)?;
    options.set_item(pyo3::intern!(py, "max_version"), (1, 0))?;
    match export.call((), Some(&options)) {
        // It has never heard of versions.
        Err(error) if error.is_instance_of::<PyTypeError>(py) => {
            options.del_item(pyo3::intern!(py, "max_version"))?;
            export.call((), Some(&options))
        }
        called => called,
    }
}

/// The stream on which torch works at the moment, if this is a tensor of torch's. Others do not say; they are thought to use the default one.
fn stream_of_torch(value: &Bound<'_, PyAny>, device: u32) -> PyResult<Option<usize>> {
    let py = value.py();
    let module = value.get_type().module()?;
    let module = module.to_str()?;
    if module != "torch" && !module.starts_with("torch.") {
        return Ok(None);
    }
    // What `current_stream` asks, without an object around the answer.
    let quick = py.import(pyo3::intern!(py, "torch"))?;
    let quick = quick.getattr(pyo3::intern!(py, "_C"));
    let quick = quick.and_then(|c| c.getattr(pyo3::intern!(py, "_cuda_getCurrentRawStream")));
    let raw: usize = match quick {
        Ok(quick) => quick.call1((device,))?.extract()?,
        Err(_) => {
            let cuda = py.import(pyo3::intern!(py, "torch.cuda"))?;
            let stream = cuda.call_method1(pyo3::intern!(py, "current_stream"), (device,))?;
            stream
                .getattr(pyo3::intern!(py, "cuda_stream"))?
                .extract()?
        }
    };
    // Torch has 0 for the default stream.
    Ok(Some(raw.max(LEGACY)))
}

/// What of ours somebody else is given.
struct Export {
    managed: Managed,
    extents: Vec<i64>,
    strides: Vec<i64>,
    _owner: Py<PyAny>,
}

/// Memory of ours as a capsule. `strides` are in bytes.
///
/// # Safety
/// The memory stays where it is while `owner` lives.
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
            deleter: Some(give_back),
        },
        extents: extents.to_vec(),
        strides: strides.iter().map(|s| s / i64::from(size)).collect(),
        _owner: owner.unbind(),
    });
    export.managed.tensor.shape = export.extents.as_mut_ptr();
    export.managed.tensor.strides = export.strides.as_mut_ptr();
    let raw = Box::into_raw(export);
    // SAFETY: the pointer is that of a new box, which the deleter takes back.
    unsafe {
        (*raw).managed.context = raw.cast();
        let managed = &raw mut (*raw).managed;
        let capsule = ffi::PyCapsule_New(managed.cast(), NAME.as_ptr(), Some(unused));
        if capsule.is_null() {
            give_back(managed);
        }
        Bound::from_owned_ptr_or_err(py, capsule)
    }
}

/// What whoever took the tensor calls in the end, from any thread.
unsafe extern "C" fn give_back(managed: *mut Managed) {
    // SAFETY: the context is the box that `export` has made, and this is called once.
    let export = unsafe { Box::from_raw((*managed).context.cast::<Export>()) };
    Python::attach(|_| drop(export));
}

/// A capsule goes. If nobody took the tensor, it still has its name.
unsafe extern "C" fn unused(capsule: *mut ffi::PyObject) {
    // SAFETY: the capsule is ours; while it has this name, it holds the tensor.
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
