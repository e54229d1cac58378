//! Managed memory: a range of addresses whose pages the driver allocates, filled with zeros, when a kernel first
//! accesses them.
//!
//! The pages stay on the device. Only if the device has no memory left, the driver moves some to the host, and back when
//! they are accessed; kernels then become slow.

use super::context::CudaContext;
use super::library::{Address, ask, call};
use super::stream::CudaStream;
use std::ops::Range;
use std::sync::Arc;
use wuji_ir::Result;

/// Managed memory; freed when dropped, after all pending work of the device.
#[derive(Debug)]
pub struct Managed {
    context: Arc<CudaContext>,
    base: Address,
    size: u64,
}

impl CudaContext {
    /// Managed memory. Its pages are allocated on first access, if [`DeviceInfo::pages_on_demand`] says so.
    ///
    /// [`DeviceInfo::pages_on_demand`]: super::DeviceInfo::pages_on_demand
    pub fn managed(self: &Arc<Self>, bytes: u64) -> Result<Managed> {
        /// `CU_MEM_ATTACH_GLOBAL`.
        const GLOBAL: u32 = 1;
        /// `CU_MEM_ADVISE_SET_PREFERRED_LOCATION`.
        const PREFER: i32 = 3;
        let _entered = self.enter()?;
        let mut base = 0;
        let size = bytes.max(1);
        // SAFETY: it writes one address; the context is current.
        unsafe {
            ask!(
                self.driver,
                cuMemAllocManaged(&mut base, size as usize, GLOBAL)
            )
        }
        .map_err(|failed| failed.allocating(size))?;
        let managed = Managed {
            context: self.clone(),
            base,
            size,
        };
        // SAFETY: the range was just allocated.
        unsafe {
            call!(
                self.driver,
                cuMemAdvise(base, size as usize, PREFER, self.device)
            )
        }?;
        Ok(managed)
    }
}

impl Managed {
    pub(super) fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    /// The address of its first byte.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// The number of addresses.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Allocates the pages of a range (relative to the base), so that kernels launched in this stream afterwards do not
    /// wait for them.
    pub fn prefetch(&self, range: Range<u64>, stream: &CudaStream) -> Result<()> {
        let end = range.end.min(self.size);
        if range.start >= end {
            return Ok(());
        }
        // SAFETY: the range is a part of this memory, which is freed after all pending work.
        unsafe { stream.prefetch(self.base + range.start, end - range.start) }
    }
}

impl Drop for Managed {
    fn drop(&mut self) {
        if let Ok(_entered) = self.context.enter() {
            // SAFETY: it was allocated in this context and no other code frees it. The driver waits for pending users.
            let _ = unsafe { call!(self.context.driver, cuMemFree(self.base)) };
        }
    }
}
