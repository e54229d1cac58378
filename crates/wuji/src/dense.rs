//! Elements of dense layouts as bytes: filled and copied where they are, on the host or on a GPU.

use crate::ask::Ask;
use crate::services::Service;
use std::ops::Range;
use wuji_ir::Result;
use wuji_runtime::Memory;
use wuji_runtime::address::Address;
use wuji_runtime::array::ArrayArg;
use wuji_runtime::memory::repeat;

/// From so many bytes on, elements of a GPU that do not lie side by side are filled by a kernel: fewer are quicker fetched than it is
/// compiled.
const BY_KERNEL: usize = 1 << 16;

/// Elements with coordinates in a window, of some bytes each.
#[derive(Copy, Clone)]
pub(crate) struct Elements<'a> {
    pub(crate) address: &'a Address,
    pub(crate) window: &'a [(u64, u64)],
    pub(crate) size: usize,
}

impl Elements<'_> {
    /// From the first to the last byte.
    pub(crate) fn span(&self) -> Range<usize> {
        self.address.span(self.window, self.size)
    }

    fn count(&self) -> usize {
        let extents = self.window.iter().map(|(lo, hi)| hi.saturating_sub(*lo));
        extents.map(|e| e as usize).product()
    }

    /// Whether nothing lies between them.
    pub(crate) fn cover_their_span(&self) -> bool {
        self.count() * self.size == self.span().len()
    }

    /// Whether they lie row by row without gaps.
    pub(crate) fn are_in_rows(&self) -> bool {
        self.count() == 0 || self.address.is_one_run(self.window, self.size)
    }

    /// Puts a pattern into all of them. Gives whether that is done; otherwise a kernel should do it.
    pub(crate) fn fill(&self, memory: &Memory, pattern: &[u8]) -> Result<bool> {
        let span = self.span();
        if memory.is_on_device() {
            if self.cover_their_span() {
                return memory.fill(span, pattern).map(|()| true);
            }
            if span.len() >= BY_KERNEL {
                return Ok(false);
            }
        }
        let mut guard = memory.lock();
        // What lies between the elements stays.
        guard.fetch(span.clone())?;
        let bytes = guard.bytes_mut();
        self.address.runs(self.window, |run| {
            let bytes = &mut bytes[run.bytes(self.size)];
            match run.stride == self.size {
                true => repeat(bytes, pattern),
                false => scatter(bytes, run.stride.max(self.size), pattern),
            }
        });
        guard.send(span).map(|()| true)
    }
}

/// Puts a pattern to every so many bytes. Sizes of numbers are known to the compiler.
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

/// One side of a copy: all elements of a field.
pub(crate) struct Side<'a> {
    pub(crate) ask: &'a Ask<'a>,
    pub(crate) elements: Elements<'a>,
    /// The ends of the domain, as services take them.
    pub(crate) corners: Vec<u64>,
    pub(crate) extents: Vec<usize>,
}

impl Side<'_> {
    fn memory(&self) -> &Memory {
        &self.ask.body.memory
    }
}

/// Copies all elements of a field to those of another one of the same shape without the host, if both are on the same GPU. Gives whether
/// that is done.
pub(crate) fn copy_on_device(to: &Side<'_>, from: &Side<'_>) -> Result<bool> {
    let near = from.memory().is_near(to.memory());
    if !from.memory().is_on_device() || !near {
        return Ok(false);
    }
    if std::ptr::eq(to.memory(), from.memory()) && to.elements.span() == from.elements.span() {
        return Ok(true);
    }
    if to.elements.are_in_rows() && from.elements.are_in_rows() {
        let (to_span, span) = (to.elements.span(), from.elements.span());
        to.memory().copy_part(to_span.start, from.memory(), span)?;
        return Ok(true);
    }
    if from.elements.span().len() < BY_KERNEL {
        return Ok(false);
    }
    // Row by row in between: either side finds its elements in its own way.
    let size = from.elements.size;
    let bytes = (from.elements.count() * size) as u64;
    let between = match from.ask.room_on_device(bytes) {
        // The host may have more.
        Err(error) if error.code == "W0522" => return Ok(false),
        other => other?,
    };
    let array = |writable| ArrayArg::in_memory(&between, size, &from.extents, writable);
    let read = [array(true)?];
    from.ask.serve(Service::ReadBox, &from.corners, &read)?;
    let write = [array(false)?];
    to.ask.serve(Service::WriteBox, &to.corners, &write)?;
    Ok(true)
}
