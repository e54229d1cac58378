//! A box of elements as bytes: read, written, filled and copied in place, on the host or on a GPU.

use crate::autodiff::{Elements, Extent};
use crate::host::HostAccess;
use crate::services::Service;
use smallvec::SmallVec;
use std::ops::Range;
use wuji_ir::{Error, Result};
use wuji_runtime::Memory;
use wuji_runtime::address::Address;
use wuji_runtime::array::ArrayArg;
use wuji_runtime::memory::{Way, repeat};

/// A kernel fills or copies strided elements on a GPU from this many bytes on; fewer are fetched faster than it compiles.
const BY_KERNEL: usize = 1 << 16;

/// Half-open ranges, counted from the smallest coordinate of each index.
pub(crate) type Window = SmallVec<[(u64, u64); 4]>;

/// The elements of a field with coordinates in a window, each of `size` bytes.
pub(crate) struct ElementBox<'a> {
    access: &'a HostAccess<'a>,
    window: Window,
    size: usize,
}

impl<'a> ElementBox<'a> {
    pub(crate) fn new(access: &'a HostAccess<'a>, window: Window, size: usize) -> ElementBox<'a> {
        ElementBox {
            access,
            window,
            size,
        }
    }

    /// All elements of a bounded field; `help` says what to do with an unbounded one.
    pub(crate) fn whole(
        access: &'a HostAccess<'a>,
        size: usize,
        help: &str,
    ) -> Result<ElementBox<'a>> {
        if access.is_unbounded() {
            let name = access.name();
            let what = format!(
                "field `{name}` has no bounds, so its elements cannot be listed row by row"
            );
            return Err(access.fail("W0129", what).help(help));
        }
        let window = access.domain().iter().map(|d| (0, d.1)).collect();
        Ok(ElementBox::new(access, window, size))
    }

    /// Number of elements, saturated.
    pub(crate) fn count(&self) -> u64 {
        let extents = self.window.iter().map(|(lo, hi)| hi.saturating_sub(*lo));
        extents.fold(1, u64::saturating_mul)
    }

    /// Number of bytes without gaps, saturated.
    pub(crate) fn bytes(&self) -> u64 {
        self.count().saturating_mul(self.size as u64)
    }

    /// How elements are found; `None` where a node is sparse, and only kernels find them.
    fn address(&self) -> Option<&'a Address> {
        self.access.address()
    }

    fn memory(&self) -> &'a Memory {
        &self.access.body.memory
    }

    /// Whether it is all of the field.
    fn extent(&self) -> Extent {
        let domain = self.access.domain().iter();
        if domain.map(|d| (0, d.1)).eq(self.window.iter().copied()) {
            Extent::Whole
        } else {
            Extent::Some
        }
    }

    /// Tells the modes of this thread that the elements are about to change.
    fn before_write(&self) -> Result<()> {
        let extent = self.extent();
        self.access.before_write(extent)?;
        match extent {
            Extent::Whole => Ok(()),
            Extent::Some => self.access.end_tangents(&Elements::Box(&self.window)),
        }
    }

    /// From the first to the last byte.
    fn span(&self, address: &Address) -> Range<usize> {
        address.span(&self.window, self.size)
    }

    /// Whether the elements fill their span, in any order.
    fn is_gapless(&self, address: &Address) -> bool {
        self.count() as usize * self.size == self.span(address).len()
    }

    /// Whether the elements lie row by row without gaps.
    fn is_contiguous(&self, address: &Address) -> bool {
        self.count() == 0 || address.is_one_run(&self.window, self.size)
    }

    /// The corners of the box, as services take them.
    fn corners(&self) -> Vec<u64> {
        let domain = self.access.domain();
        let corner = |end: fn(&(u64, u64)) -> u64| {
            let ends = self.window.iter().zip(domain);
            ends.map(move |(w, (from, _))| (*from as u64).wrapping_add(end(w)))
        };
        corner(|w| w.0).chain(corner(|w| w.1)).collect()
    }

    /// The shape as an array argument has it; a field without indices is an array of one element.
    fn extents(&self) -> Vec<usize> {
        if self.window.is_empty() {
            return vec![1];
        }
        let extents = self.window.iter().map(|(lo, hi)| hi.saturating_sub(*lo));
        extents.map(|e| e as usize).collect()
    }

    /// Visits all elements row by row, in runs of bytes with a stride from element to element. Inactive ones are zero.
    pub(crate) fn read(&self, mut visit: impl FnMut(&[u8], usize)) -> Result<()> {
        let size = self.size;
        let Some(address) = self.address() else {
            let mut buffer = self.access.buffer(self.count(), size as u64)?;
            let array = ArrayArg::opaque(&mut buffer, size, &self.extents(), true)?;
            self.access
                .serve(Service::ReadBox, &self.corners(), &[array])?;
            let bytes: Vec<u8> = buffer.iter().flat_map(|w| w.to_ne_bytes()).collect();
            visit(&bytes[..self.bytes() as usize], size);
            return Ok(());
        };
        let mut guard = self.memory().lock()?;
        guard.fetch(self.span(address))?;
        let bytes = guard.bytes();
        address.runs(&self.window, |run| {
            visit(&bytes[run.bytes(size)], run.stride.max(size));
        });
        Ok(())
    }

    /// Visits all elements as [`ElementBox::read`] does, and keeps what the visitor leaves in them. Activates all of them.
    pub(crate) fn write(&self, mut visit: impl FnMut(&mut [u8], usize)) -> Result<()> {
        self.before_write()?;
        let size = self.size;
        let Some(address) = self.address() else {
            let mut buffer = self.access.buffer(self.count(), size as u64)?;
            let mut bytes = vec![0; buffer.len() * 8];
            visit(&mut bytes[..self.bytes() as usize], size);
            for (word, chunk) in buffer.iter_mut().zip(bytes.as_chunks().0) {
                *word = u64::from_ne_bytes(*chunk);
            }
            let array = ArrayArg::opaque(&mut buffer, size, &self.extents(), false)?;
            let corners = self.corners();
            return (self.access.serve(Service::WriteBox, &corners, &[array])).map(|_| ());
        };
        let mut guard = self.memory().lock()?;
        let span = self.span(address);
        // Bytes between the elements keep their values.
        if !self.is_gapless(address) {
            guard.fetch(span.clone())?;
        }
        let bytes = guard.bytes_mut();
        address.runs(&self.window, |run| {
            visit(&mut bytes[run.bytes(size)], run.stride.max(size));
        });
        guard.send(span)
    }

    /// Stores one value, as bytes, in all elements of a dense layout. Returns false where a kernel should do it.
    pub(crate) fn fill(&self, pattern: &[u8]) -> Result<bool> {
        let Some(address) = self.address() else {
            return Ok(false);
        };
        self.before_write()?;
        let (memory, span) = (self.memory(), self.span(address));
        if memory.is_on_device() {
            if self.is_gapless(address) {
                return memory.fill(span, pattern).map(|()| true);
            }
            if span.len() >= BY_KERNEL {
                return Ok(false);
            }
        }
        let mut guard = memory.lock()?;
        // Bytes between the elements keep their values.
        guard.fetch(span.clone())?;
        let bytes = guard.bytes_mut();
        address.runs(&self.window, |run| {
            let bytes = &mut bytes[run.bytes(self.size)];
            if run.stride == self.size {
                repeat(bytes, pattern);
            } else {
                scatter(bytes, run.stride.max(self.size), pattern);
            }
        });
        guard.send(span).map(|()| true)
    }

    /// Stores one value, as scalars, in all elements; activates them in a sparse layout.
    pub(crate) fn fill_by_kernel(&self, value: &[u64]) -> Result<()> {
        self.before_write()?;
        let mut params = self.corners();
        params.extend(value);
        (self.access.serve(Service::FillBox, &params, &[])).map(|_| ())
    }

    /// Copies between the elements and an array of the same shape, where the array is.
    pub(crate) fn exchange(&self, way: Way, array: ArrayArg<'_>) -> Result<()> {
        let own = self.extents();
        let its = array.extents();
        let same = its.iter().map(|e| *e as usize).eq(own.iter().copied());
        if !same || !array.is_contiguous() {
            let name = self.access.name();
            let what = format!("field `{name}` and an array have different shapes");
            return Err(Error::new("W0112", what).note(format!("{own:?} and {its:?}")));
        }
        if way == Way::FromArray {
            self.before_write()?;
        }
        if let Some(address) = self.address()
            && self.is_contiguous(address)
            && (self.memory()).exchange(self.span(address), &array, way)?
        {
            return Ok(());
        }
        let service = match way {
            Way::ToArray => Service::ReadBox,
            Way::FromArray => Service::WriteBox,
        };
        (self.access.serve(service, &self.corners(), &[array])).map(|_| ())
    }

    /// Gives some bits of words the values that they have in an array of the same shape, where the words are.
    pub(crate) fn write_bits(&self, mask: u64, array: ArrayArg<'_>) -> Result<()> {
        self.before_write()?;
        let mut params = self.corners();
        params.push(mask);
        let done = self.access.serve(Service::WriteBits, &params, &[array]);
        done.map(|_| ())
    }

    /// Copies from a box of the same shape without the host, if both are dense and on the same GPU. Returns whether it did.
    pub(crate) fn copy_on_device(&self, from: &ElementBox<'_>) -> Result<bool> {
        let (Some(own), Some(its)) = (self.address(), from.address()) else {
            return Ok(false);
        };
        let (to_memory, from_memory) = (self.memory(), from.memory());
        if !from_memory.is_on_device() || !from_memory.is_near(to_memory) {
            return Ok(false);
        }
        let (to_span, span) = (self.span(own), from.span(its));
        if std::ptr::eq(to_memory, from_memory) && to_span == span {
            return Ok(true);
        }
        self.before_write()?;
        if self.is_contiguous(own) && from.is_contiguous(its) {
            to_memory.copy_part(to_span.start, from_memory, span)?;
            return Ok(true);
        }
        if span.len() < BY_KERNEL {
            return Ok(false);
        }
        self.copy_through_array(from)
    }

    /// Copies by way of an array on the device, in which elements lie row by row.
    fn copy_through_array(&self, from: &ElementBox<'_>) -> Result<bool> {
        let between = match from.access.allocate_on_device(from.bytes()) {
            // The host may have more memory.
            Err(error) if error.code == "W0522" => return Ok(false),
            other => other?,
        };
        let extents = from.extents();
        let array = |writable| ArrayArg::in_memory(&between, from.size, &extents, writable);
        let read = [array(true)?];
        from.access
            .serve(Service::ReadBox, &from.corners(), &read)?;
        let write = [array(false)?];
        self.access
            .serve(Service::WriteBox, &self.corners(), &write)?;
        Ok(true)
    }
}

/// Stores a pattern at every multiple of a stride. Common sizes are known to the compiler.
fn scatter(bytes: &mut [u8], stride: usize, pattern: &[u8]) {
    fn sized<const N: usize>(bytes: &mut [u8], stride: usize, pattern: &[u8; N]) {
        for element in bytes.chunks_mut(stride) {
            if let Some(start) = element.first_chunk_mut() {
                *start = *pattern;
            }
        }
    }
    if let Ok(pattern) = pattern.try_into() {
        sized::<4>(bytes, stride, pattern);
    } else if let Ok(pattern) = pattern.try_into() {
        sized::<8>(bytes, stride, pattern);
    } else if let Ok(pattern) = pattern.try_into() {
        sized::<12>(bytes, stride, pattern);
    } else {
        for element in bytes.chunks_mut(stride) {
            element[..pattern.len()].copy_from_slice(pattern);
        }
    }
}
