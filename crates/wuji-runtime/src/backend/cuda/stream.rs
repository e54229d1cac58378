//! Streams: queues of asynchronous work, executed in order. Events: markers in a stream.

use super::context::CudaContext;
use super::error::NOT_READY;
use super::library::{Copy2d, Functions, RawEvent, RawStream, Side, ask, call};
use super::module::Function;
use std::ffi::c_void;
use std::sync::Arc;
use wuji_ir::Result;

/// The largest pitch of a 2D copy (`CU_DEVICE_ATTRIBUTE_MAX_PITCH` of all devices).
const MOST_PITCH: u64 = i32::MAX as u64;

impl CudaContext {
    /// A new stream that does not synchronize with the default stream.
    pub fn stream(self: &Arc<Self>) -> Result<CudaStream> {
        /// `CU_STREAM_NON_BLOCKING`.
        const NON_BLOCKING: u32 = 1;
        let _entered = self.enter()?;
        let mut raw = RawStream::NULL;
        // SAFETY: it writes a handle; the context is current.
        unsafe { call!(self.driver, cuStreamCreate(&mut raw, NON_BLOCKING)) }?;
        Ok(CudaStream {
            context: self.clone(),
            raw,
            owned: true,
        })
    }

    /// Borrows a foreign stream by its handle: 0 and 1 are the legacy default stream, 2 is the calling thread's.
    ///
    /// # Safety
    /// It is a stream of this context, and is not destroyed before the result is dropped.
    pub unsafe fn foreign_stream(self: &Arc<Self>, raw: usize) -> CudaStream {
        CudaStream {
            context: self.clone(),
            raw: RawStream(raw as *mut c_void),
            owned: false,
        }
    }

    /// An event with a timestamp.
    pub fn event(self: &Arc<Self>) -> Result<CudaEvent> {
        self.event_of(0)
    }

    /// An event without a timestamp, which is cheaper.
    pub fn untimed_event(self: &Arc<Self>) -> Result<CudaEvent> {
        /// `CU_EVENT_DISABLE_TIMING`.
        const DISABLE_TIMING: u32 = 2;
        self.event_of(DISABLE_TIMING)
    }

    fn event_of(self: &Arc<Self>, flags: u32) -> Result<CudaEvent> {
        let _entered = self.enter()?;
        let mut raw = RawEvent::NULL;
        // SAFETY: it writes a handle; the context is current.
        unsafe { call!(self.driver, cuEventCreate(&mut raw, flags)) }?;
        Ok(CudaEvent {
            context: self.clone(),
            raw,
        })
    }
}

/// A queue of work for a device.
#[derive(Debug)]
pub struct CudaStream {
    pub(super) context: Arc<CudaContext>,
    pub(super) raw: RawStream,
    owned: bool,
}

/// Rows of bytes with a constant pitch, on both sides of a copy.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Rows {
    /// Bytes of a row.
    pub bytes: u64,
    /// The number of rows.
    pub count: u64,
    /// The pitch at the destination; at least the length of a row.
    pub to_stride: u64,
    /// The pitch at the source.
    pub from_stride: u64,
}

impl CudaStream {
    /// The context of the stream.
    pub fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    /// The handle, for other libraries.
    pub fn raw(&self) -> usize {
        self.raw.0 as usize
    }

    /// Enqueues work, unless `amount` is zero.
    fn enqueue(
        &self,
        amount: u64,
        call: impl FnOnce(&'static Functions, RawStream) -> Result<()>,
    ) -> Result<()> {
        if amount == 0 {
            return Ok(());
        }
        let _entered = self.context.enter()?;
        call(self.context.driver, self.raw)
    }

    /// Launches a kernel on a grid of blocks, each with this many bytes of dynamic shared memory.
    ///
    /// # Safety
    /// There are as many parameters as the kernel has, each a pointer to a value of its type (they are read before this
    /// returns). The memory that the kernel accesses stays allocated, and its code loaded, until it is done.
    pub unsafe fn launch(
        &self,
        function: &Function,
        grid: [u32; 3],
        block: [u32; 3],
        shared: u32,
        parameters: &mut [*mut c_void],
    ) -> Result<()> {
        let ([gx, gy, gz], [bx, by, bz]) = (grid, block);
        let (function, extra) = (function.raw, std::ptr::null_mut());
        let parameters = parameters.as_mut_ptr();
        // SAFETY: guaranteed by the caller.
        self.enqueue(1, |driver, raw| unsafe {
            call!(
                driver,
                cuLaunchKernel(
                    function, gx, gy, gz, bx, by, bz, shared, raw, parameters, extra
                )
            )
        })
    }

    /// Copies bytes to the device. Pageable memory may be reused when this returns.
    ///
    /// # Safety
    /// That much memory is allocated at `to` until the copy is done; pinned memory stays unchanged until then.
    pub unsafe fn copy_in(&self, to: u64, from: &[u8]) -> Result<()> {
        let (at, bytes) = (from.as_ptr().cast(), from.len());
        // SAFETY: guaranteed by the caller.
        self.enqueue(bytes as u64, |driver, raw| unsafe {
            call!(driver, cuMemcpyHtoDAsync(to, at, bytes, raw))
        })
    }

    /// Copies bytes from the device. They are valid once the stream is synchronized.
    ///
    /// # Safety
    /// That much memory is allocated at `from`; `to` is neither read nor written nor freed until the copy is done.
    pub unsafe fn copy_out(&self, to: &mut [u8], from: u64) -> Result<()> {
        let (at, bytes) = (to.as_mut_ptr().cast(), to.len());
        // SAFETY: guaranteed by the caller.
        self.enqueue(bytes as u64, |driver, raw| unsafe {
            call!(driver, cuMemcpyDtoHAsync(at, from, bytes, raw))
        })
    }

    /// Copies bytes on the device.
    ///
    /// # Safety
    /// That much memory is allocated on both sides until the copy is done; they do not overlap.
    pub unsafe fn copy(&self, to: u64, from: u64, bytes: u64) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        self.enqueue(bytes, |driver, raw| unsafe {
            call!(driver, cuMemcpyDtoDAsync(to, from, bytes as usize, raw))
        })
    }

    /// Fills memory of the device with a byte.
    ///
    /// # Safety
    /// That much memory is allocated until it is done.
    pub unsafe fn fill(&self, at: u64, bytes: u64, byte: u8) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        self.enqueue(bytes, |driver, raw| unsafe {
            call!(driver, cuMemsetD8Async(at, byte, bytes as usize, raw))
        })
    }

    /// Moves pages of managed memory to the device.
    ///
    /// # Safety
    /// They are allocated until it is done.
    pub unsafe fn prefetch(&self, at: u64, bytes: u64) -> Result<()> {
        let device = self.context.device;
        // SAFETY: guaranteed by the caller.
        self.enqueue(bytes, |driver, raw| unsafe {
            call!(driver, cuMemPrefetchAsync(at, bytes as usize, device, raw))
        })
    }

    /// Fills memory of the device with a 32-bit number.
    ///
    /// # Safety
    /// That much memory is allocated until it is done; the address is a multiple of four.
    pub unsafe fn fill_words(&self, at: u64, count: u64, word: u32) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        self.enqueue(count, |driver, raw| unsafe {
            call!(driver, cuMemsetD32Async(at, word, count as usize, raw))
        })
    }

    /// Copies rows between host and device memory: with one call if the driver supports the pitch, else one by one.
    ///
    /// # Safety
    /// As for [`CudaStream::copy_in`], [`CudaStream::copy_out`] and [`CudaStream::copy`], for all rows on both sides.
    pub unsafe fn copy_rows(&self, to: Side, from: Side, rows: Rows) -> Result<()> {
        let together = rows.to_stride.max(rows.from_stride) <= MOST_PITCH
            && rows.to_stride.min(rows.from_stride) >= rows.bytes;
        let (calls, height) = if together {
            (1, rows.count)
        } else {
            (rows.count, 1)
        };
        // The pitch of a single row does not matter.
        let pitch = |stride: u64| if together { stride } else { 0 };
        self.enqueue(rows.bytes.min(rows.count), |driver, raw| {
            for row in 0..calls {
                let copy = Copy2d {
                    from: from.row(row * rows.from_stride, pitch(rows.from_stride)),
                    to: to.row(row * rows.to_stride, pitch(rows.to_stride)),
                    width_bytes: rows.bytes as usize,
                    height: height as usize,
                };
                // SAFETY: guaranteed by the caller.
                unsafe { call!(driver, cuMemcpy2DAsync(&copy, raw)) }?;
            }
            Ok(())
        })
    }

    /// Waits until all work is done.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the stream is live.
        self.enqueue(1, |driver, raw| unsafe {
            call!(driver, cuStreamSynchronize(raw))
        })
    }

    /// Whether all work is done.
    pub fn query(&self) -> Result<bool> {
        let _entered = self.context.enter()?;
        // SAFETY: the stream is live.
        match unsafe { ask!(self.context.driver, cuStreamQuery(self.raw)) } {
            Ok(()) => Ok(true),
            Err(failed) if failed.code == NOT_READY => Ok(false),
            Err(failed) => Err(failed.error()),
        }
    }

    /// Records an event after the work so far.
    pub fn record(&self, event: &CudaEvent) -> Result<()> {
        // SAFETY: both are live.
        self.enqueue(1, |driver, raw| unsafe {
            call!(driver, cuEventRecord(event.raw, raw))
        })
    }

    /// Later work waits for an event of another stream.
    pub fn wait(&self, event: &CudaEvent) -> Result<()> {
        // SAFETY: both are live.
        self.enqueue(1, |driver, raw| unsafe {
            call!(driver, cuStreamWaitEvent(raw, event.raw, 0))
        })
    }
}

impl Drop for CudaStream {
    fn drop(&mut self) {
        if !self.owned {
            return;
        }
        if let Ok(_entered) = self.context.enter() {
            // SAFETY: no other code has it. Pending work is still executed.
            let _ = unsafe { call!(self.context.driver, cuStreamDestroy(self.raw)) };
        }
    }
}

/// An event in a stream.
#[derive(Debug)]
pub struct CudaEvent {
    context: Arc<CudaContext>,
    raw: RawEvent,
}

impl CudaEvent {
    /// Whether it is complete; an event that was never recorded is.
    pub fn done(&self) -> Result<bool> {
        let _entered = self.context.enter()?;
        // SAFETY: the event is live.
        match unsafe { ask!(self.context.driver, cuEventQuery(self.raw)) } {
            Ok(()) => Ok(true),
            Err(failed) if failed.code == NOT_READY => Ok(false),
            Err(failed) => Err(failed.error()),
        }
    }

    /// Waits until it is complete.
    pub fn synchronize(&self) -> Result<()> {
        let _entered = self.context.enter()?;
        // SAFETY: the event is live.
        unsafe { call!(self.context.driver, cuEventSynchronize(self.raw)) }
    }

    /// Milliseconds from an earlier event to this one; both are complete and have timestamps.
    pub fn elapsed_ms(&self, since: &CudaEvent) -> Result<f32> {
        let _entered = self.context.enter()?;
        let mut time = 0.0;
        // SAFETY: both are live; it writes one number.
        unsafe {
            call!(
                self.context.driver,
                cuEventElapsedTime(&mut time, since.raw, self.raw)
            )
        }?;
        Ok(time)
    }
}

impl Drop for CudaEvent {
    fn drop(&mut self) {
        if let Ok(_entered) = self.context.enter() {
            // SAFETY: no other code has it; the driver keeps it while a stream needs it.
            let _ = unsafe { call!(self.context.driver, cuEventDestroy(self.raw)) };
        }
    }
}
