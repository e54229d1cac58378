//! Arrays: on the host, or on the GPU of their world.

use crate::buffer::{BorrowedArray, Bytes, SendArray, StreamOrder, format_of};
use crate::convert::{element, index, number, parse_plain, slot, slots};
use crate::dlpack;
use crate::error::{OrRaise, raised, unfit};
use crate::waiting::{detached, public, waiting};
use crate::world::World;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use smallvec::SmallVec;
use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};
use wuji::dynamic::{
    Array, ArrayArg, ArrayOwner, HostArray, Owner, Way, device, read_slot, write_slot,
};
use wuji::{Error, Result};
use wuji_ir::types::{Scalar, Type};

const MAX_RANK: usize = 8;

/// A zero-initialized array.
#[pyclass(frozen, module = "wuji._native")]
pub(crate) struct Ndarray {
    store: Store,
    size: usize,
    ty: Type,
    scalar: Scalar,
    rank: usize,
    /// Extents of the array, then of an element.
    extents: Box<[isize]>,
    /// In bytes.
    strides: Box<[isize]>,
    /// Extents and strides as `i64`, for kernels.
    wide: (SmallVec<[i64; 4]>, SmallVec<[i64; 4]>),
}

/// The memory of the elements.
enum Store {
    /// Counts as memory of its world.
    Host(HostArray),
    Device {
        array: Array,
        /// Streams of consumers that may still use the exported memory.
        shared: Mutex<Vec<usize>>,
    },
}

/// Bytes per copied chunk.
const PIECE: usize = 1 << 16;
const DEVICE_PIECE: usize = 64 << 20;
/// The legacy default stream.
const DEFAULT_STREAM: usize = 1;

impl Ndarray {
    pub(crate) fn memory(&self) -> (Owner, *mut u8) {
        match &self.store {
            Store::Host(host) => (Owner::Host, host.base()),
            Store::Device { array, .. } => array.place(),
        }
    }

    /// Others get the address.
    fn export(&self, py: Python<'_>) -> PyResult<()> {
        self.ensure_open()?;
        match &self.store {
            Store::Host(host) => waiting(py, || host.export()),
            Store::Device { array, .. } => waiting(py, || array.export().map(|_| ())),
        }
    }

    /// For launches that wait; `None` if others use the memory.
    pub(crate) fn owner(&self) -> Option<ArrayOwner> {
        match &self.store {
            Store::Host(host) => host.owner(),
            Store::Device { array, .. } => array.owner(),
        }
    }

    /// Runs launches that wait, before something else than a launch uses the memory.
    pub(crate) fn before_access(&self, py: Python<'_>) -> PyResult<()> {
        match &self.store {
            Store::Host(host) if host.may_wait() => waiting(py, || host.before_access()),
            Store::Device { array, .. } if array.may_wait() => {
                waiting(py, || array.before_access())
            }
            Store::Host(_) | Store::Device { .. } => Ok(()),
        }
    }

    /// Raises when the world of the array was closed.
    pub(crate) fn ensure_open(&self) -> PyResult<()> {
        match &self.store {
            Store::Host(host) => host.ensure_open(),
            Store::Device { array, .. } => array.ensure_open(),
        }
        .map_err(|error| crate::exit::attach(|py| public(py, &error)))
    }

    /// The world whose device holds the elements.
    pub(crate) fn world(&self) -> Option<&wuji::World> {
        match &self.store {
            Store::Host(_) => None,
            Store::Device { array, .. } => Some(array.world()),
        }
    }

    /// Streams of consumers that may use the memory.
    pub(crate) fn shared_with(&self) -> Vec<usize> {
        match &self.store {
            Store::Host(_) => Vec::new(),
            Store::Device { shared, .. } => {
                let shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
                shared.clone()
            }
        }
    }

    /// Reads bytes from an offset; the range is in bounds.
    fn load(&self, py: Python<'_>, offset: usize, into: &mut [u8]) -> PyResult<()> {
        match &self.store {
            Store::Host(host) => {
                self.ensure_open()?;
                self.before_access(py)?;
                // SAFETY: the caller guarantees that the range is in bounds.
                unsafe {
                    let from = host.base().add(offset);
                    std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len());
                }
                Ok(())
            }
            Store::Device { array, .. } => {
                self.wait_for_others(py)?;
                waiting(py, || array.read(offset, into))
            }
        }
    }

    fn store(&self, py: Python<'_>, offset: usize, from: &[u8]) -> PyResult<()> {
        match &self.store {
            Store::Host(host) => {
                self.ensure_open()?;
                self.before_access(py)?;
                // SAFETY: the caller guarantees that the range is in bounds.
                unsafe {
                    let to = host.base().add(offset);
                    std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len());
                }
                Ok(())
            }
            Store::Device { array, .. } => {
                self.wait_for_others(py)?;
                waiting(py, || array.write(offset, from))?;
                self.make_others_wait(py)
            }
        }
    }

    /// StreamOrder the following work of our stream after the work of consumers.
    fn wait_for_others(&self, py: Python<'_>) -> PyResult<()> {
        let Some(world) = self.world() else {
            return Ok(());
        };
        for stream in self.shared_with() {
            // SAFETY: only default streams are stored; they live as long as their device.
            waiting(py, || unsafe { device(world).wait_for_stream(stream) })?;
        }
        Ok(())
    }

    fn make_others_wait(&self, py: Python<'_>) -> PyResult<()> {
        let Some(world) = self.world() else {
            return Ok(());
        };
        for stream in self.shared_with() {
            // SAFETY: as above.
            waiting(py, || unsafe { device(world).stream_waits(stream) })?;
        }
        Ok(())
    }

    fn piece(&self) -> usize {
        match self.store {
            Store::Host(_) => PIECE,
            Store::Device { .. } => DEVICE_PIECE,
        }
    }

    pub(crate) fn scalar(&self) -> Scalar {
        self.scalar
    }

    pub(crate) fn all_extents(&self) -> &[i64] {
        &self.wide.0
    }

    pub(crate) fn all_strides(&self) -> &[i64] {
        &self.wide.1
    }

    fn make(ty: Type, shape: &[i64], world: Option<&wuji::World>) -> Result<Ndarray> {
        let Some(scalar) = ty.elem() else {
            let what = format!("array elements cannot have type `{ty}`");
            return Err(Error::new("W0107", what));
        };
        if shape.len() > MAX_RANK {
            let n = shape.len();
            let what = format!("an array cannot have {n} axes; the maximum is {MAX_RANK}");
            return Err(Error::new("W0117", what));
        }
        if let Some(bad) = shape.iter().find(|e| **e < 0) {
            let what = format!("an array cannot have extent {bad}");
            return Err(Error::new("W0117", what));
        }
        let mut extents: SmallVec<[i64; 4]> = shape.into();
        match ty {
            Type::Scalar(_) | Type::Struct(_) => {}
            Type::Vector(_, n) => extents.push(n.into()),
            Type::Matrix(_, r, c) => extents.extend([r.into(), c.into()]),
        }
        let too_large = || {
            let what = format!("not enough memory for an array of shape {shape:?} of `{ty}`");
            Error::new("W0110", what).help("use a smaller shape")
        };
        let size = i64::from(scalar.bytes());
        let bytes = if extents.contains(&0) {
            Some(0)
        } else {
            extents.iter().try_fold(size, |n, e| n.checked_mul(*e))
        };
        let bytes = bytes.and_then(|b| usize::try_from(b).ok());
        let bytes = bytes.filter(|b| *b <= isize::MAX as usize);
        let bytes = bytes.ok_or_else(too_large)?;
        let store = match world {
            Some(world) if world.is_on_gpu() => Store::Device {
                array: Array::new(world, bytes as u64)?,
                shared: Mutex::default(),
            },
            world => Store::Host(HostArray::new(world, bytes as u64)?),
        };
        let strides = dlpack::packed(&extents, size);
        let narrow = |list: &[i64]| list.iter().map(|n| *n as isize).collect::<Box<[isize]>>();
        Ok(Ndarray {
            store,
            size: bytes,
            ty,
            scalar,
            rank: shape.len(),
            extents: narrow(&extents),
            strides: narrow(&strides),
            wide: (extents, strides),
        })
    }

    /// Returns the byte offset of an element.
    fn locate(&self, at: &[i64]) -> Result<usize> {
        let shape = &self.wide.0[..self.rank];
        let inside =
            at.len() == self.rank && at.iter().zip(shape).all(|(c, e)| (0..*e).contains(c));
        if !inside {
            let what = format!("an array of shape {shape:?} has no element {at:?}");
            return Err(Error::new("W0111", what));
        }
        let offset: i64 = at.iter().zip(&self.wide.1).map(|(c, s)| c * s).sum();
        Ok(offset as usize)
    }

    fn lanes(&self) -> usize {
        self.ty.lanes().unwrap_or(1) as usize
    }

    fn part(&self, at: &[i64], component: usize) -> Result<usize> {
        if component >= self.lanes() {
            let what = format!(
                "an element of type `{}` has no component {component}",
                self.ty
            );
            return Err(Error::new("W0111", what));
        }
        Ok(self.locate(at)? + component * self.scalar.bytes() as usize)
    }

    /// Loads scalars from an offset; the range is in bounds.
    fn slots(&self, py: Python<'_>, offset: usize, count: usize) -> PyResult<SmallVec<[u64; 4]>> {
        let size = self.scalar.bytes() as usize;
        let mut bytes: SmallVec<[u8; 32]> = SmallVec::from_elem(0, count * size);
        self.load(py, offset, &mut bytes)?;
        let parts = bytes.chunks_exact(size);
        Ok(parts.map(|part| read_slot(self.scalar, part)).collect())
    }

    /// Casts to an array of ours on a GPU, which has no host memory to borrow.
    pub(crate) fn on_device<'a, 'py>(
        value: &'a Bound<'py, PyAny>,
    ) -> Option<&'a Bound<'py, Ndarray>> {
        let own = value.cast::<Ndarray>().ok()?;
        (!matches!(own.get().memory().0, Owner::Host)).then_some(own)
    }

    /// Copies all bytes to or from an object on the same GPU. Returns whether it did.
    fn exchange(&self, py: Python<'_>, value: &Bound<'_, PyAny>, way: Way) -> PyResult<bool> {
        let Store::Device { array, .. } = &self.store else {
            return Ok(false);
        };
        let all = (self.scalar, self.size as u64);
        let Some(lent) = BorrowedArray::on_same_gpu(value, array.world(), all, way)? else {
            return Ok(false);
        };
        let count = lent.extents().iter().product::<i64>();
        let step = i64::from(self.scalar.bytes());
        // SAFETY: the borrowed memory holds `count` contiguous scalars while `lent` lives.
        let there = unsafe {
            ArrayArg::lent(
                lent.memory,
                (self.scalar, 1),
                &[count],
                &[step],
                lent.writable,
            )
        };
        let (near, order) = (SendArray(there.or_raise()?), &lent.order);
        self.wait_for_others(py)?;
        let done = waiting(py, || {
            let work = || array.exchange(&near.array(), way);
            StreamOrder::around(&[order], array.world(), work)
        })?;
        self.make_others_wait(py)?;
        Ok(done)
    }

    /// Checks the number of bytes.
    fn expect(&self, size: usize) -> PyResult<()> {
        if size == self.size {
            return Ok(());
        }
        let what = format!("the array has {} bytes, the elements {size}", self.size);
        let error = Error::new("W0112", what);
        Err(raised(
            &error.help("pass an array of the same type and shape"),
        ))
    }

    /// Writes all bytes.
    pub(crate) fn write_all(&self, py: Python<'_>, bytes: &[u8]) -> PyResult<()> {
        self.expect(bytes.len())?;
        for start in (0..self.size).step_by(self.piece().max(1)) {
            let end = (start + self.piece()).min(self.size);
            self.store(py, start, &bytes[start..end])?;
        }
        Ok(())
    }

    /// Reads all bytes.
    pub(crate) fn all(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        let mut bytes = vec![0; self.size];
        for start in (0..self.size).step_by(self.piece().max(1)) {
            let end = (start + self.piece()).min(self.size);
            self.load(py, start, &mut bytes[start..end])?;
        }
        Ok(bytes)
    }

    fn copy_bytes_from(&self, py: Python<'_>, other: &Ndarray) -> PyResult<()> {
        self.expect(other.size)?;
        let mut piece = vec![0; self.piece().min(self.size)];
        for start in (0..self.size).step_by(piece.len().max(1)) {
            let n = piece.len().min(self.size - start);
            other.load(py, start, &mut piece[..n])?;
            self.store(py, start, &piece[..n])?;
        }
        Ok(())
    }

    fn bytes(&self, slots: &[u64]) -> SmallVec<[u8; 32]> {
        let size = self.scalar.bytes() as usize;
        let mut bytes: SmallVec<[u8; 32]> = SmallVec::from_elem(0, slots.len() * size);
        for (part, slot) in bytes.chunks_exact_mut(size).zip(slots) {
            write_slot(self.scalar, *slot, part);
        }
        bytes
    }
}

#[pymethods]
impl Ndarray {
    #[new]
    #[pyo3(signature = (r#type, shape, world=None))]
    fn new(
        py: Python<'_>,
        r#type: &str,
        shape: Vec<i64>,
        world: Option<&World>,
    ) -> PyResult<Ndarray> {
        let ty = parse_plain(r#type)?;
        let world = world.map(|w| w.world.clone());
        detached(py, || Ndarray::make(ty, &shape, world.as_ref()))?.or_raise()
    }

    #[getter]
    fn r#type(&self) -> String {
        self.ty.to_string()
    }

    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.wide.0[..self.rank])
    }

    fn get<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let at = self.locate(&self::index(index)?).or_raise()?;
        element(py, self.ty, &self.slots(py, at, self.lanes())?)
    }

    fn set(
        &self,
        py: Python<'_>,
        index: &Bound<'_, PyTuple>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let at = self
            .locate(&self::index(index).map_err(|e| unfit(py, e))?)
            .or_raise()?;
        self.store(
            py,
            at,
            &self.bytes(&slots(self.ty, value).map_err(|e| unfit(py, e))?),
        )
    }

    fn get_part<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyTuple>,
        component: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let at = self.part(&self::index(index)?, component).or_raise()?;
        let slot = self.slots(py, at, 1)?;
        number(py, self.scalar, slot.first().copied().unwrap_or(0))
    }

    fn set_part(
        &self,
        py: Python<'_>,
        index: &Bound<'_, PyTuple>,
        component: usize,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let at = self
            .part(&self::index(index).map_err(|e| unfit(py, e))?, component)
            .or_raise()?;
        self.store(
            py,
            at,
            &self.bytes(&[slot(self.scalar, value).map_err(|e| unfit(py, e))?]),
        )
    }

    fn fill(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let element = self.bytes(&slots(self.ty, value).map_err(|e| unfit(py, e))?);
        if element.is_empty() {
            return Ok(());
        }
        if let Store::Device { array, .. } = &self.store {
            self.wait_for_others(py)?;
            waiting(py, || array.fill(&element))?;
            return self.make_others_wait(py);
        }
        let count = (PIECE / element.len()).clamp(1, (self.size / element.len()).max(1));
        let piece = element.repeat(count);
        for start in (0..self.size).step_by(piece.len()) {
            let n = piece.len().min(self.size - start);
            self.store(py, start, &piece[..n])?;
        }
        Ok(())
    }

    fn read_into(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>) -> PyResult<()> {
        if self.exchange(py, buffer, Way::ToArray)? {
            return Ok(());
        }
        if let Some(other) = Ndarray::on_device(buffer) {
            return other.get().copy_bytes_from(py, self);
        }
        let mut to = Bytes::writable(buffer, self.size as u64)?;
        let mut piece = vec![0; self.piece().min(self.size)];
        for start in (0..self.size).step_by(piece.len().max(1)) {
            let n = piece.len().min(self.size - start);
            self.load(py, start, &mut piece[..n])?;
            to.put(&piece[..n]);
        }
        Ok(())
    }

    fn write_from(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>) -> PyResult<()> {
        if self.exchange(py, buffer, Way::FromArray)? {
            return Ok(());
        }
        if let Some(other) = Ndarray::on_device(buffer) {
            return self.copy_bytes_from(py, other.get());
        }
        let mut from = Bytes::readable(buffer, self.size as u64)?;
        let mut piece = vec![0; self.piece().min(self.size)];
        for start in (0..self.size).step_by(piece.len().max(1)) {
            let n = piece.len().min(self.size - start);
            from.take(&mut piece[..n]);
            self.store(py, start, &piece[..n])?;
        }
        Ok(())
    }

    /// Whether the memory was exported by DLPack.
    #[getter]
    fn is_shared(&self) -> bool {
        !self.shared_with().is_empty()
    }

    /// Copies all elements from an array of the same type and shape.
    fn copy_from(&self, py: Python<'_>, other: &Ndarray) -> PyResult<()> {
        if self.ty != other.ty || self.wide.0 != other.wide.0 {
            let what = "`copy_from` needs an array of the same type and shape";
            return Err(raised(&Error::new("W0112", what)));
        }
        if let (Store::Device { array, .. }, Store::Device { array: from, .. }) =
            (&self.store, &other.store)
            && array.world() == from.world()
        {
            self.wait_for_others(py)?;
            other.wait_for_others(py)?;
            waiting(py, || array.copy_from(from))?;
            other.make_others_wait(py)?;
            return self.make_others_wait(py);
        }
        self.copy_bytes_from(py, other)
    }

    #[pyo3(signature = (*, stream=None, **options))]
    fn __dlpack__<'py>(
        slf: &Bound<'py, Self>,
        stream: Option<Bound<'py, PyAny>>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let own = slf.get();
        // Keywords of newer protocol versions may be ignored, except for a requested copy.
        if let Some(copy) = options.and_then(|o| o.get_item("copy").ok().flatten())
            && copy.is_truthy()?
        {
            let what = "the array cannot export a copy; use `to_numpy()`";
            return Err(PyBufferError::new_err(what));
        }
        own.export(slf.py())?;
        if let Store::Device { array, shared } = &own.store {
            let stream = dlpack::stream_of_consumer(stream.as_ref())?;
            if let Some(stream) = stream {
                let world = array.world();
                // SAFETY: the consumer announces a stream of its own on this device.
                waiting(slf.py(), || unsafe { device(world).stream_waits(stream) })?;
            }
            // Only default streams are remembered, because they are never destroyed.
            let known = stream.unwrap_or(DEFAULT_STREAM).min(DEFAULT_STREAM);
            let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
            if !shared.contains(&known) {
                shared.push(known);
            }
        }
        let (extents, strides) = (&own.wide.0, &own.wide.1);
        // SAFETY: the memory lives as long as the array.
        unsafe {
            dlpack::export(
                slf.clone().into_any(),
                own.memory(),
                own.scalar,
                extents,
                strides,
            )
        }
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        dlpack::device_of(self.memory().0)
    }

    /// The buffer protocol.
    ///
    /// # Safety
    /// Called by the interpreter, with a view to fill.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("the view is null"));
        }
        let own = slf.get();
        let (Owner::Host, base) = own.memory() else {
            let what = "the array is on a GPU: use `to_numpy()` or DLPack";
            return Err(PyBufferError::new_err(what));
        };
        own.export(slf.py())?;
        let given = |flag: c_int| flags & flag == flag;
        let wants = |flag: c_int, p: *mut isize| if given(flag) { p } else { std::ptr::null_mut() };
        if given(ffi::PyBUF_F_CONTIGUOUS) && own.extents.len() > 1 {
            return Err(PyBufferError::new_err("the array is row-major"));
        }
        // SAFETY: the interpreter passes a valid view. Its pointers are valid while the array lives, and the view holds the array.
        unsafe {
            (*view).buf = base.cast();
            (*view).len = own.size as isize;
            (*view).readonly = 0;
            (*view).itemsize = own.scalar.bytes() as isize;
            (*view).format = if given(ffi::PyBUF_FORMAT) {
                format_of(own.scalar).as_ptr().cast_mut()
            } else {
                std::ptr::null_mut()
            };
            (*view).ndim = own.extents.len() as c_int;
            (*view).shape = wants(ffi::PyBUF_ND, own.extents.as_ptr().cast_mut());
            (*view).strides = wants(ffi::PyBUF_STRIDES, own.strides.as_ptr().cast_mut());
            (*view).suboffsets = std::ptr::null_mut();
            (*view).internal = std::ptr::null_mut();
            (*view).obj = slf.into_ptr();
        }
        Ok(())
    }

    fn __repr__(&self) -> String {
        format!("Ndarray({}, {:?})", self.ty, &self.wide.0[..self.rank])
    }
}
