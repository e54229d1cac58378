//! DLPack: tensors of other libraries, and ours for them. The structures are those of `dlpack.h`.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use smallvec::SmallVec;
use std::ffi::{CStr, c_void};
use std::ptr::NonNull;
use wuji_ir::types::Scalar;

const NAME: &CStr = c"dltensor";
/// Ordinary memory; and memory that a GPU can reach, too.
pub(crate) const CPU: i32 = 1;
const CPU_PINNED: [i32; 2] = [3, 11];

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

/// A tensor, and who takes it back.
#[repr(C)]
pub(crate) struct Managed {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

/// What a tensor says of itself.
pub(crate) struct Found {
    pub(crate) base: *mut u8,
    pub(crate) scalar: Scalar,
    pub(crate) extents: SmallVec<[i64; 4]>,
    /// In bytes.
    pub(crate) strides: SmallVec<[i64; 4]>,
}

impl Managed {
    /// `None` when it is nothing that the processor can read, or not made of numbers of ours.
    pub(crate) fn read(&self) -> Option<Found> {
        let t = &self.tensor;
        if t.device.kind != CPU && !CPU_PINNED.contains(&t.device.kind) {
            return None;
        }
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
            base: t.data.cast::<u8>().wrapping_add(t.byte_offset as usize),
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

/// The tensor of an object that has one in memory of the processor, and the capsule that keeps it.
pub(crate) fn tensor<'py>(
    value: &Bound<'py, PyAny>,
) -> PyResult<Option<(NonNull<Managed>, Bound<'py, PyCapsule>)>> {
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
    let (kind, _): (i32, i32) = device.extract()?;
    if kind != CPU && !CPU_PINNED.contains(&kind) {
        return Ok(None);
    }
    let capsule = export.call0()?;
    let Ok(capsule) = capsule.cast_into::<PyCapsule>() else {
        return Ok(None);
    };
    let tensor = capsule.pointer_checked(Some(NAME))?;
    Ok(Some((tensor.cast(), capsule)))
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
    base: *mut u8,
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
    let mut export = Box::new(Export {
        managed: Managed {
            tensor: Tensor {
                data: base.cast(),
                device: Device {
                    kind: CPU,
                    number: 0,
                },
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
