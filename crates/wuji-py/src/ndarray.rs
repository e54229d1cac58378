//! Arrays of the host that belong to us.

use crate::buffer::{Bytes, format_of};
use crate::convert::{element, index, number, parse_plain, slot, slots};
use crate::dlpack;
use crate::error::OrRaise;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use smallvec::SmallVec;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::c_int;
use std::ptr::NonNull;
use wuji::dynamic::{read_slot, write_slot};
use wuji::{Error, Result};
use wuji_ir::types::{Scalar, Type};

/// As aligned as any vector of a kernel likes.
const ALIGN: usize = 64;
const MAX_RANK: usize = 8;

#[repr(align(64))]
struct Aligned;

/// Zeroed memory of the host with a shape.
#[pyclass(frozen, module = "wuji._native")]
pub(crate) struct Ndarray {
    memory: NonNull<u8>,
    layout: Layout,
    ty: Type,
    scalar: Scalar,
    rank: usize,
    /// Those of the shape, then those of an element.
    extents: Box<[isize]>,
    /// In bytes.
    strides: Box<[isize]>,
    /// The same once more, as kernels have them.
    wide: (SmallVec<[i64; 4]>, SmallVec<[i64; 4]>),
}

// SAFETY: the memory is reached through pointers only, never by reference. Threads that race for elements race as they do for those of any
// array of Python.
unsafe impl Send for Ndarray {}
// SAFETY: as above.
unsafe impl Sync for Ndarray {}

impl Drop for Ndarray {
    fn drop(&mut self) {
        if self.layout.size() > 0 {
            // SAFETY: it was allocated with this layout, and whoever uses it holds the array.
            unsafe { dealloc(self.memory.as_ptr(), self.layout) };
        }
    }
}

impl Ndarray {
    pub(crate) fn base(&self) -> *mut u8 {
        self.memory.as_ptr()
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

    fn make(ty: Type, shape: &[i64]) -> Result<Ndarray> {
        let Some(scalar) = ty.elem() else {
            let what = format!("an array has elements of type `{ty}`");
            return Err(Error::new("W0107", what));
        };
        if shape.len() > MAX_RANK {
            let n = shape.len();
            let what = format!("an array has {n} axes; {MAX_RANK} are the most");
            return Err(Error::new("W0117", what));
        }
        if let Some(bad) = shape.iter().find(|e| **e < 0) {
            let what = format!("an array has extent {bad}");
            return Err(Error::new("W0117", what));
        }
        let mut extents: SmallVec<[i64; 4]> = shape.into();
        match ty {
            Type::Scalar(_) | Type::Struct(_) => {}
            Type::Vector(_, n) => extents.push(n.into()),
            Type::Matrix(_, r, c) => extents.extend([r.into(), c.into()]),
        }
        let too_large = || {
            let what = format!("no memory for an array of shape {shape:?} of `{ty}`");
            Error::new("W0110", what).help("make it smaller")
        };
        let size = i64::from(scalar.bytes());
        let bytes = match extents.contains(&0) {
            true => Some(0),
            false => extents.iter().try_fold(size, |n, e| n.checked_mul(*e)),
        };
        let bytes = bytes.and_then(|b| usize::try_from(b).ok());
        let layout = bytes.and_then(|b| Layout::from_size_align(b, ALIGN).ok());
        let layout = layout.ok_or_else(too_large)?;
        let memory = match layout.size() {
            // Nobody reads it, but it has to be aligned.
            0 => NonNull::<Aligned>::dangling().cast(),
            // SAFETY: the size is not zero.
            _ => NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(too_large)?,
        };
        let strides = dlpack::packed(&extents, size);
        let narrow = |list: &[i64]| list.iter().map(|n| *n as isize).collect::<Box<[isize]>>();
        Ok(Ndarray {
            memory,
            layout,
            ty,
            scalar,
            rank: shape.len(),
            extents: narrow(&extents),
            strides: narrow(&strides),
            wide: (extents, strides),
        })
    }

    /// Where an element is.
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

    /// The scalar at an offset that is inside.
    fn load(&self, offset: usize) -> u64 {
        let (mut bytes, n) = ([0; 8], self.scalar.bytes() as usize);
        // SAFETY: the offset is that of a scalar inside of the memory.
        unsafe {
            std::ptr::copy_nonoverlapping(self.base().add(offset), bytes.as_mut_ptr(), n);
        }
        read_slot(self.scalar, &bytes)
    }

    fn store(&self, offset: usize, slot: u64) {
        let (mut bytes, n) = ([0; 8], self.scalar.bytes() as usize);
        write_slot(self.scalar, slot, &mut bytes);
        // SAFETY: the offset is that of a scalar inside of the memory.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.base().add(offset), n);
        }
    }
}

#[pymethods]
impl Ndarray {
    #[new]
    fn new(r#type: &str, shape: Vec<i64>) -> PyResult<Ndarray> {
        Ndarray::make(parse_plain(r#type)?, &shape).or_raise()
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
        let size = self.scalar.bytes() as usize;
        let parts = (0..self.lanes()).map(|k| self.load(at + k * size));
        let parts: SmallVec<[u64; 4]> = parts.collect();
        element(py, self.ty, &parts)
    }

    fn set(&self, index: &Bound<'_, PyTuple>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let at = self.locate(&self::index(index)?).or_raise()?;
        let size = self.scalar.bytes() as usize;
        for (k, slot) in slots(self.ty, value)?.iter().enumerate() {
            self.store(at + k * size, *slot);
        }
        Ok(())
    }

    fn get_part<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyTuple>,
        component: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let at = self.part(&self::index(index)?, component).or_raise()?;
        number(py, self.scalar, self.load(at))
    }

    fn set_part(
        &self,
        index: &Bound<'_, PyTuple>,
        component: usize,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let at = self.part(&self::index(index)?, component).or_raise()?;
        self.store(at, slot(self.scalar, value)?);
        Ok(())
    }

    fn fill(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let value = slots(self.ty, value)?;
        let size = self.scalar.bytes() as usize;
        py.detach(|| {
            let scalars = self.layout.size() / size;
            for (n, slot) in (0..scalars).zip(value.iter().cycle()) {
                self.store(n * size, *slot);
            }
        });
        Ok(())
    }

    fn read_into(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>) -> PyResult<()> {
        let size = self.layout.size();
        let mut to = Bytes::writable(buffer, size as u64)?;
        py.detach(|| {
            let mut piece = [0; 4096];
            for start in (0..size).step_by(piece.len()) {
                let n = piece.len().min(size - start);
                // SAFETY: so many bytes are left in the memory.
                unsafe {
                    std::ptr::copy_nonoverlapping(self.base().add(start), piece.as_mut_ptr(), n);
                }
                to.put(&piece[..n]);
            }
        });
        Ok(())
    }

    fn write_from(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>) -> PyResult<()> {
        let size = self.layout.size();
        let mut from = Bytes::readable(buffer, size as u64)?;
        py.detach(|| {
            let mut piece = [0; 4096];
            for start in (0..size).step_by(piece.len()) {
                let n = piece.len().min(size - start);
                from.take(&mut piece[..n]);
                // SAFETY: so many bytes are left in the memory.
                unsafe {
                    std::ptr::copy_nonoverlapping(piece.as_ptr(), self.base().add(start), n);
                }
            }
        });
        Ok(())
    }

    #[pyo3(signature = (*, stream=None, **options))]
    fn __dlpack__<'py>(
        slf: &Bound<'py, Self>,
        stream: Option<Bound<'py, PyAny>>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // Newer protocols are offered by keywords that one may ignore.
        let _ = (stream, options);
        let own = slf.get();
        let (extents, strides) = (&own.wide.0, &own.wide.1);
        // SAFETY: the memory lives as long as the array.
        unsafe {
            dlpack::export(
                slf.clone().into_any(),
                own.base(),
                own.scalar,
                extents,
                strides,
            )
        }
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        (dlpack::CPU, 0)
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
            return Err(PyBufferError::new_err("there is no view to fill"));
        }
        let own = slf.get();
        let given = |flag: c_int| flags & flag == flag;
        let wants = |flag: c_int, p: *mut isize| match given(flag) {
            true => p,
            false => std::ptr::null_mut(),
        };
        if given(ffi::PyBUF_F_CONTIGUOUS) && own.extents.len() > 1 {
            return Err(PyBufferError::new_err("the array lies row by row"));
        }
        // SAFETY: the view is the interpreter's. What it points to lives as long as the array, which the view holds.
        unsafe {
            (*view).buf = own.base().cast();
            (*view).len = own.layout.size() as isize;
            (*view).readonly = 0;
            (*view).itemsize = own.scalar.bytes() as isize;
            (*view).format = match given(ffi::PyBUF_FORMAT) {
                true => format_of(own.scalar).as_ptr().cast_mut(),
                false => std::ptr::null_mut(),
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
