//! Foreign arrays: the buffer protocol, DLPack, and our own.

use crate::dlpack::{self, Consumer};
use crate::error::raised;
use crate::ndarray::Ndarray;
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};
use smallvec::SmallVec;
use std::ffi::CStr;
use std::ptr::NonNull;
use wuji::Error;
use wuji::dynamic::{ArrayArg, ArrayOwner, Owner, Way, device};
use wuji_ir::types::Scalar;

/// Maximum number of axes, including those of elements.
pub(crate) const MAX_AXES: usize = 10;

/// ImportedTensor memory of an array. It stays valid while this lives.
pub(crate) struct BorrowedArray<'py> {
    pub(crate) memory: (Owner, *mut u8),
    pub(crate) order: StreamOrder,
    pub(crate) scalar: Scalar,
    rank: usize,
    extents: [i64; MAX_AXES],
    /// In bytes.
    strides: [i64; MAX_AXES],
    pub(crate) writable: bool,
    /// Of an array of ours, for launches that wait.
    pub(crate) owner: Option<ArrayOwner>,
    _keep: Keep<'py>,
}

/// CUDA streams that use the memory besides ours.
#[derive(Default)]
pub(crate) struct StreamOrder {
    /// Streams that ours must wait for.
    pub(crate) before: SmallVec<[usize; 1]>,
    /// Streams that must wait for ours afterwards.
    pub(crate) after: SmallVec<[usize; 1]>,
}

impl StreamOrder {
    /// Runs work on our stream, ordered after and before the work of other streams on the same memory.
    pub(crate) fn around<T>(
        all: &[&StreamOrder],
        world: &wuji::World,
        work: impl FnOnce() -> wuji::Result<T>,
    ) -> wuji::Result<T> {
        let device = device(world);
        for stream in all.iter().flat_map(|o| &o.before) {
            // SAFETY: the users of the memory have announced this stream.
            unsafe { device.wait_for_stream(*stream) }?;
        }
        let done = work();
        for stream in all.iter().flat_map(|o| &o.after) {
            // SAFETY: as above. Even if the work failed, what it may still do is ordered before theirs.
            unsafe { device.stream_waits(*stream) }?;
        }
        done
    }

    /// The order for an array of ours in a kernel with this stream.
    fn of_own(array: &Ndarray, consumer: Consumer) -> StreamOrder {
        let mut order = StreamOrder::default();
        let Some(world) = array.world() else {
            return order;
        };
        let own = device(world).stream();
        let others = own.filter(|s| consumer.is_some_and(|c| c.1 != *s));
        for stream in array.shared_with().into_iter().chain(others) {
            order.before.push(stream);
            order.after.push(stream);
        }
        order
    }
}

/// An array during a copy that runs without the GIL.
pub(crate) struct SendArray<'a>(pub(crate) ArrayArg<'a>);

// SAFETY: the array is borrowed from an object that the caller holds until the copy returns.
unsafe impl Send for SendArray<'_> {}

impl<'a> SendArray<'a> {
    pub(crate) fn array(self) -> ArrayArg<'a> {
        self.0
    }
}

/// Keeps the memory alive.
enum Keep<'py> {
    Buffer {
        _view: View,
    },
    /// Its destructor releases the memory.
    Capsule {
        _capsule: Bound<'py, PyCapsule>,
    },
    /// An array of ours, which the caller holds.
    Own,
}

/// An acquired buffer view, released on drop. It has a place of its own, because its lists may point into it.
pub(crate) struct View(Box<ffi::Py_buffer>);

impl View {
    /// Pins the memory of an object until the view is dropped.
    pub(crate) fn new(object: &Bound<'_, PyAny>, flags: i32) -> PyResult<View> {
        let mut raw = Box::new(ffi::Py_buffer::new());
        // SAFETY: the object is alive and the view is ours.
        if unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &raw mut *raw, flags) } != 0 {
            return Err(PyErr::fetch(object.py()));
        }
        Ok(View(raw))
    }

    /// Its first byte and the number of bytes.
    pub(crate) fn bytes(&self) -> (*mut u8, usize) {
        (self.0.buf.cast(), self.0.len as usize)
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: `PyObject_GetBuffer` filled the view. Views are only dropped with the GIL held.
        unsafe { ffi::PyBuffer_Release(&raw mut *self.0) };
    }
}

impl<'py> BorrowedArray<'py> {
    pub(crate) fn extents(&self) -> &[i64] {
        &self.extents[..self.rank]
    }

    pub(crate) fn strides(&self) -> &[i64] {
        &self.strides[..self.rank]
    }

    /// Whether the elements are contiguous in row-major order.
    pub(crate) fn is_contiguous(&self) -> bool {
        let mut step = i64::from(self.scalar.bytes());
        for (extent, stride) in self.extents().iter().zip(self.strides()).rev() {
            if *extent != 1 && *stride != step {
                return self.extents().contains(&0);
            }
            step = step.wrapping_mul(*extent);
        }
        true
    }

    /// Borrows the memory of an object, once launches that wait have run; `None` if it is not an array of numbers in accessible memory.
    pub(crate) fn of(
        value: &Bound<'py, PyAny>,
        consumer: Consumer,
    ) -> PyResult<Option<BorrowedArray<'py>>> {
        BorrowedArray::lend(value, consumer, None)
    }

    /// The same for a launch in a world, which may wait after others there.
    pub(crate) fn for_launch(
        value: &Bound<'py, PyAny>,
        consumer: Consumer,
        world: &wuji::World,
    ) -> PyResult<Option<BorrowedArray<'py>>> {
        BorrowedArray::lend(value, consumer, Some(world))
    }

    fn lend(
        value: &Bound<'py, PyAny>,
        consumer: Consumer,
        world: Option<&wuji::World>,
    ) -> PyResult<Option<BorrowedArray<'py>>> {
        if let Ok(own) = value.cast::<Ndarray>() {
            return BorrowedArray::of_own(own, consumer, world);
        }
        // SAFETY: the object is alive.
        if unsafe { ffi::PyObject_CheckBuffer(value.as_ptr()) } != 0 {
            match BorrowedArray::of_buffer(value) {
                // The object refuses, for example because the protocol cannot express its type. Try the other protocols; arrays on a GPU end up
                // here, too.
                Err(error)
                    if error.is_instance_of::<PyBufferError>(value.py())
                        || error.is_instance_of::<PyTypeError>(value.py()) => {}
                // NumPy cannot name the type of the elements, such as dates.
                Err(error) if error.is_instance_of::<PyValueError>(value.py()) => return Ok(None),
                found => return found,
            }
        }
        // The frontend wraps our class.
        if let Ok(inner) = value.getattr(pyo3::intern!(value.py(), "_native"))
            && let Ok(own) = inner.cast::<Ndarray>()
        {
            return BorrowedArray::of_own(own, consumer, world);
        }
        let Some(borrowed) = dlpack::tensor(value, consumer)? else {
            return Ok(None);
        };
        let (found, writable) = (borrowed.found, borrowed.writable);
        let keep = Keep::Capsule {
            _capsule: borrowed.capsule,
        };
        let (extents, strides) = (&found.extents, &found.strides);
        let lent = BorrowedArray::new(found.memory, found.scalar, extents, strides, writable, keep);
        Ok(lent.map(|mut lent| {
            let before = borrowed.stream.filter(|_| borrowed.waits);
            lent.order.before.extend(before);
            lent.order.after.extend(borrowed.stream);
            lent
        }))
    }

    /// Borrows memory on the GPU of a world to copy all elements to or from; `None` if it lies elsewhere. Its type and size must match.
    pub(crate) fn on_same_gpu(
        value: &Bound<'py, PyAny>,
        world: &wuji::World,
        (scalar, bytes): (Scalar, u64),
        way: Way,
    ) -> PyResult<Option<BorrowedArray<'py>>> {
        let consumer = dlpack::consumer(world);
        let Some((number, _)) = consumer else {
            return Ok(None);
        };
        let lent = BorrowedArray::of(value, consumer)?;
        let Some(lent) = lent.filter(|lent| lent.memory.0 == Owner::Cuda(number)) else {
            return Ok(None);
        };
        if lent.scalar != scalar || !lent.is_contiguous() {
            let what = format!("the array must be contiguous with elements of type `{scalar}`");
            return Err(raised(&Error::new("W0112", what)));
        }
        let count = lent.extents().iter().product::<i64>() as u64;
        let found = count * u64::from(scalar.bytes());
        if found != bytes {
            let what = format!("the array has {found} bytes, the elements {bytes}");
            return Err(raised(&Error::new("W0112", what)));
        }
        match way {
            Way::ToArray if !lent.writable => Err(PyBufferError::new_err("the array is read-only")),
            Way::ToArray | Way::FromArray => Ok(Some(lent)),
        }
    }

    fn of_own(
        array: &Bound<'py, Ndarray>,
        consumer: Consumer,
        world: Option<&wuji::World>,
    ) -> PyResult<Option<BorrowedArray<'py>>> {
        let (py, array) = (array.py(), array.get());
        array.ensure_open()?;
        let owner = array.owner();
        let owner = owner.filter(|owner| world == Some(owner.world()));
        if owner.is_none() {
            array.before_access(py)?;
        }
        let lent = BorrowedArray::new(
            array.memory(),
            array.scalar(),
            array.all_extents(),
            array.all_strides(),
            true,
            Keep::Own,
        );
        Ok(lent.map(|mut lent| {
            lent.order = StreamOrder::of_own(array, consumer);
            lent.owner = owner;
            lent
        }))
    }

    fn of_buffer(value: &Bound<'py, PyAny>) -> PyResult<Option<BorrowedArray<'py>>> {
        let view = View::new(value, ffi::PyBUF_RECORDS_RO)?;
        let raw = &view.0;
        let rank = raw.ndim as usize;
        // SAFETY: with these flags both lists have `ndim` entries. They may point into the view itself, which does not move.
        let (extents, strides) = unsafe {
            let list = |p: *mut isize| match (rank, NonNull::new(p)) {
                (0, _) | (_, None) => &[][..],
                (_, Some(p)) => std::slice::from_raw_parts(p.as_ptr(), rank),
            };
            (list(raw.shape), list(raw.strides))
        };
        let wide = |list: &[isize]| -> smallvec::SmallVec<[i64; MAX_AXES]> {
            list.iter().map(|n| *n as i64).collect()
        };
        let (extents, strides) = (wide(extents), wide(strides));
        // SAFETY: the format of a view is a C string or null.
        let format = NonNull::new(raw.format).map(|p| unsafe { CStr::from_ptr(p.as_ptr()) });
        let scalar = scalar_of(format.map(CStr::to_bytes), raw.itemsize as usize);
        let (base, writable) = (raw.buf.cast(), raw.readonly == 0);
        let keep = Keep::Buffer { _view: view };
        let memory = (Owner::Host, base);
        Ok(scalar.and_then(|scalar| {
            BorrowedArray::new(memory, scalar, &extents, &strides, writable, keep)
        }))
    }

    fn new(
        memory: (Owner, *mut u8),
        scalar: Scalar,
        extents: &[i64],
        strides: &[i64],
        writable: bool,
        keep: Keep<'py>,
    ) -> Option<BorrowedArray<'py>> {
        let rank = extents.len();
        if rank > MAX_AXES || strides.len() != rank {
            return None;
        }
        let mut lent = BorrowedArray {
            memory,
            order: StreamOrder::default(),
            scalar,
            rank,
            extents: [0; MAX_AXES],
            strides: [0; MAX_AXES],
            writable,
            owner: None,
            _keep: keep,
        };
        lent.extents[..rank].copy_from_slice(extents);
        lent.strides[..rank].copy_from_slice(strides);
        Some(lent)
    }
}

/// Returns the scalar type of a `struct` format in native byte order.
fn scalar_of(format: Option<&[u8]>, size: usize) -> Option<Scalar> {
    let (order, code) = match format {
        None => (b'@', b'B'),
        Some([code]) => (b'@', *code),
        Some([order, code]) => (*order, *code),
        Some(_) => return None,
    };
    if !matches!(order, b'@' | b'=' | b'<' | b'|') && size > 1 {
        return None;
    }
    match (code, size) {
        (b'?', 1) => Some(Scalar::Bool),
        (b'b' | b'h' | b'i' | b'l' | b'q' | b'n', _) => match size {
            1 => Some(Scalar::I8),
            2 => Some(Scalar::I16),
            4 => Some(Scalar::I32),
            8 => Some(Scalar::I64),
            _ => None,
        },
        (b'B' | b'H' | b'I' | b'L' | b'Q' | b'N', _) => match size {
            1 => Some(Scalar::U8),
            2 => Some(Scalar::U16),
            4 => Some(Scalar::U32),
            8 => Some(Scalar::U64),
            _ => None,
        },
        (b'e', 2) => Some(Scalar::F16),
        (b'f', 4) => Some(Scalar::F32),
        (b'd', 8) => Some(Scalar::F64),
        _ => None,
    }
}

/// Returns the `struct` format of a scalar type.
pub(crate) fn format_of(scalar: Scalar) -> &'static CStr {
    match scalar {
        Scalar::Bool => c"?",
        Scalar::I8 => c"b",
        Scalar::I16 => c"h",
        Scalar::I32 => c"i",
        Scalar::I64 => c"q",
        Scalar::U8 => c"B",
        Scalar::U16 => c"H",
        Scalar::U32 => c"I",
        Scalar::U64 => c"Q",
        Scalar::F16 => c"e",
        Scalar::F32 => c"f",
        Scalar::F64 => c"d",
    }
}

/// A cursor over the bytes of a contiguous buffer.
pub(crate) struct Bytes {
    at: *mut u8,
    left: usize,
    _view: View,
}

// SAFETY: the view pins the memory until it is dropped, which happens with the GIL held: work without the GIL only borrows it. Other
// threads may access the bytes meanwhile, as with any array shared by two Python threads; no references to them are created.
unsafe impl Send for Bytes {}

impl Bytes {
    pub(crate) fn writable(buffer: &Bound<'_, PyAny>, size: u64) -> PyResult<Bytes> {
        Bytes::new(buffer, size, ffi::PyBUF_C_CONTIGUOUS | ffi::PyBUF_WRITABLE)
    }

    pub(crate) fn readable(buffer: &Bound<'_, PyAny>, size: u64) -> PyResult<Bytes> {
        Bytes::new(buffer, size, ffi::PyBUF_C_CONTIGUOUS)
    }

    fn new(buffer: &Bound<'_, PyAny>, size: u64, flags: i32) -> PyResult<Bytes> {
        let view = View::new(buffer, flags)?;
        let (at, left) = view.bytes();
        let bytes = Bytes {
            at,
            left,
            _view: view,
        };
        if left as u64 != size {
            let what = format!("the buffer has {left} bytes, the elements {size}");
            let error = Error::new("W0112", what);
            return Err(raised(
                &error.help("pass an array of the same type and shape"),
            ));
        }
        Ok(bytes)
    }

    /// Writes the next bytes.
    pub(crate) fn put(&mut self, piece: &[u8]) {
        let n = piece.len().min(self.left);
        // SAFETY: the view has at least `n` bytes left and is writable; the core's memory does not overlap it.
        unsafe {
            std::ptr::copy_nonoverlapping(piece.as_ptr(), self.at, n);
            self.at = self.at.add(n);
        }
        self.left -= n;
    }

    /// Reads the next bytes.
    pub(crate) fn take(&mut self, piece: &mut [u8]) {
        let n = piece.len().min(self.left);
        // SAFETY: the view has at least `n` bytes left.
        unsafe {
            std::ptr::copy_nonoverlapping(self.at, piece.as_mut_ptr(), n);
            self.at = self.at.add(n);
        }
        self.left -= n;
    }
}

/// Describes an array: scalar type, shape, C-contiguous, writable.
#[pyfunction]
pub(crate) fn describe_array<'py>(
    py: Python<'py>,
    value: &Bound<'py, PyAny>,
) -> PyResult<Option<(&'static str, Bound<'py, PyTuple>, bool, bool)>> {
    let Some(lent) = BorrowedArray::of(value, None)? else {
        return Ok(None);
    };
    let shape = PyTuple::new(py, lent.extents())?;
    let name = lent.scalar.name();
    Ok(Some((name, shape, lent.is_contiguous(), lent.writable)))
}
