//! Devices and their primary contexts.

use super::budget::Budget;
use super::error::Failed;
use super::library::{Functions, RawContext, ask, call, driver};
use std::ffi::{CStr, c_int};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use wuji_ir::module::MAX_CALL_DEPTH;
use wuji_ir::{Error, Result};

/// Properties of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceInfo {
    /// Its number, from zero (`CUDA_VISIBLE_DEVICES` hides and renumbers devices).
    pub ordinal: usize,
    /// The name that the driver gives.
    pub name: String,
    /// The compute capability, as in `sm_90`: 9 and 0.
    pub capability: (u32, u32),
    /// The number of streaming multiprocessors.
    pub multiprocessors: u32,
    /// Total memory in bytes.
    pub memory: u64,
    /// The most shared memory per block, in bytes.
    pub shared_per_block: u32,
    /// Bytes of shared memory of a multiprocessor.
    pub shared_per_multiprocessor: u32,
    /// Registers of a multiprocessor.
    pub registers_per_multiprocessor: u32,
    /// The most threads resident on a multiprocessor.
    pub threads_per_multiprocessor: u32,
    /// The most thread blocks resident on a multiprocessor.
    pub blocks_per_multiprocessor: u32,
    /// Threads of a warp.
    pub warp: u32,
    /// Bytes of the second-level cache.
    pub l2_bytes: u64,
    /// The clock rate in kilohertz.
    pub clock_khz: u32,
    /// Whether addresses can be reserved and mapped later.
    pub maps_memory: bool,
    /// Whether pages of managed memory are allocated when a kernel accesses them.
    pub pages_on_demand: bool,
}

impl DeviceInfo {
    fn of(driver: &'static Functions, ordinal: usize, device: c_int) -> Result<DeviceInfo> {
        let mut name = [0u8; 256];
        // SAFETY: it writes at most 256 bytes, the last of them a zero.
        unsafe {
            call!(
                driver,
                cuDeviceGetName(name.as_mut_ptr().cast(), name.len() as c_int, device)
            )
        }?;
        let mut memory = 0;
        // SAFETY: it writes one number.
        unsafe { call!(driver, cuDeviceTotalMem(&mut memory, device)) }?;
        let get = |attribute: c_int| -> Result<u32> {
            let mut value = 0;
            // SAFETY: as above.
            unsafe { call!(driver, cuDeviceGetAttribute(&mut value, attribute, device)) }?;
            Ok(value.max(0) as u32)
        };
        // The numbers are those of `CUdevice_attribute`.
        Ok(DeviceInfo {
            ordinal,
            name: CStr::from_bytes_until_nul(&name)
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default(),
            capability: (get(75)?, get(76)?),
            multiprocessors: get(16)?,
            memory: memory as u64,
            shared_per_block: get(97)?,
            shared_per_multiprocessor: get(81)?,
            registers_per_multiprocessor: get(82)?,
            threads_per_multiprocessor: get(39)?,
            blocks_per_multiprocessor: get(106)?,
            warp: get(10)?,
            l2_bytes: get(38)?.into(),
            clock_khz: get(13)?,
            maps_memory: get(102)? != 0,
            pages_on_demand: get(89)? != 0,
        })
    }
}

/// All devices, in the driver's order.
pub fn devices() -> Result<Vec<DeviceInfo>> {
    let driver = driver()?;
    (0..count(driver)?)
        .map(|ordinal| DeviceInfo::of(driver, ordinal, handle(driver, ordinal)?))
        .collect()
}

fn count(driver: &'static Functions) -> Result<usize> {
    let mut count = 0;
    // SAFETY: it writes one number.
    unsafe { call!(driver, cuDeviceGetCount(&mut count)) }?;
    Ok(usize::try_from(count).unwrap_or(0))
}

fn handle(driver: &'static Functions, ordinal: usize) -> Result<c_int> {
    let mut device = 0;
    // SAFETY: as above.
    unsafe { call!(driver, cuDeviceGet(&mut device, ordinal as c_int)) }?;
    Ok(device)
}

/// The *primary context* of a device: the one that libraries such as PyTorch use too, so that their addresses and
/// streams are valid here.
///
/// There is one per device and process. It is created on first use (0.2 s) and kept until the process ends, as those
/// libraries do, because it may be the current context of threads.
#[derive(Debug)]
pub struct CudaContext {
    pub(super) driver: &'static Functions,
    pub(super) device: c_int,
    raw: RawContext,
    info: DeviceInfo,
    /// Stack size per thread in bytes; the driver starts with its default.
    stack: Mutex<usize>,
    /// What sparse trees share, once there is one.
    budget: OnceLock<Budget>,
}

/// The driver's default stack size per thread.
const STACK: usize = 1024;
/// The most local memory of a thread, on all devices.
const MOST_STACK: u64 = 512 << 10;

impl CudaContext {
    /// The context of a device by its number.
    pub fn new(ordinal: usize) -> Result<Arc<CudaContext>> {
        static CONTEXTS: Mutex<Vec<Arc<CudaContext>>> = Mutex::new(Vec::new());
        let driver = driver()?;
        super::error::healthy().map_err(Failed::error)?;
        let mut contexts = CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner);
        let known = contexts.iter().find(|c| c.info.ordinal == ordinal);
        if let Some(context) = known {
            return Ok(context.clone());
        }
        let count = count(driver)?;
        if ordinal >= count {
            let (message, note) = match count {
                0 => (
                    "there is no CUDA device".to_string(),
                    "the driver has none".to_string(),
                ),
                1 => (
                    format!("there is no CUDA device {ordinal}"),
                    "there is one, with number 0".into(),
                ),
                _ => (
                    format!("there is no CUDA device {ordinal}"),
                    format!("there are {count}, counted from 0"),
                ),
            };
            return Err(Error::new("W0520", message)
                .note(note)
                .help("`wuji doctor` shows the devices; CUDA_VISIBLE_DEVICES may hide some"));
        }
        let device = handle(driver, ordinal)?;
        let info = DeviceInfo::of(driver, ordinal, device)?;
        let mut raw = RawContext::NULL;
        // SAFETY: it writes a handle, which stays valid, because it is never released.
        unsafe { call!(driver, cuDevicePrimaryCtxRetain(&mut raw, device)) }?;
        let context = Arc::new(CudaContext {
            driver,
            device,
            raw,
            info,
            stack: Mutex::new(STACK),
            budget: OnceLock::new(),
        });
        contexts.push(context.clone());
        Ok(context)
    }

    /// The properties of the GPU.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// Free and total memory in bytes.
    pub fn free_memory(&self) -> Result<(u64, u64)> {
        let _entered = self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: it writes two numbers; the context is current.
        unsafe { call!(self.driver, cuMemGetInfo(&mut free, &mut total)) }?;
        Ok((free as u64, total as u64))
    }

    /// The memory that sparse trees share.
    pub(super) fn budget(self: &Arc<Self>) -> Result<&Budget> {
        if let Some(budget) = self.budget.get() {
            return Ok(budget);
        }
        let new = Budget::new(self)?;
        Ok(self.budget.get_or_init(|| new))
    }

    /// The same, if there has been a sparse tree.
    pub(super) fn known_budget(&self) -> Option<&Budget> {
        self.budget.get()
    }

    /// Sets the stack size per thread that the recursive functions of a kernel need; it never decreases. An error if the
    /// device cannot have that much.
    pub fn need_stack(&self, bytes: usize, kernel: &str) -> Result<()> {
        let mut stack = self.stack.lock().unwrap_or_else(PoisonError::into_inner);
        if bytes <= *stack {
            return Ok(());
        }
        let most = self.most_stack();
        if bytes > most {
            return Err(Error::new(
                "W0331",
                format!("the recursive functions of `{kernel}` need {bytes} bytes of stack; at most {most} fit on the GPU"),
            )
            .note(format!("every thread has a stack for {MAX_CALL_DEPTH} nested calls"))
            .help("keep the data in a field, or make vectors, matrices and arrays smaller"));
        }
        const STACK_SIZE: c_int = 0;
        let _entered = self.enter()?;
        // SAFETY: it takes two numbers; the context is current.
        unsafe { ask!(self.driver, cuCtxSetLimit(STACK_SIZE, bytes)) }
            .map_err(|failed| failed.allocating(bytes as u64 * self.resident_threads()))?;
        *stack = bytes;
        Ok(())
    }

    /// The largest stack per thread. The driver allocates one for every thread that can be resident, here in at most half of
    /// the memory.
    fn most_stack(&self) -> usize {
        (self.info.memory / 2 / self.resident_threads()).min(MOST_STACK) as usize
    }

    fn resident_threads(&self) -> u64 {
        let info = &self.info;
        (u64::from(info.multiprocessors) * u64::from(info.threads_per_multiprocessor)).max(1)
    }

    /// Waits until the device has finished all work of this process.
    pub fn synchronize(&self) -> Result<()> {
        let _entered = self.enter()?;
        // SAFETY: the context is current.
        unsafe { call!(self.driver, cuCtxSynchronize()) }
    }

    /// Makes the context current on the calling thread, until the guard is dropped. The driver is asked for the current
    /// one, because other libraries set it too.
    pub fn enter(&self) -> Result<Entered> {
        let mut before = RawContext::NULL;
        // SAFETY: it writes a handle.
        unsafe { call!(self.driver, cuCtxGetCurrent(&mut before)) }?;
        let mut entered = Entered {
            driver: self.driver,
            restore: None,
        };
        if before != self.raw {
            // SAFETY: the context is never released.
            unsafe { call!(self.driver, cuCtxSetCurrent(self.raw)) }?;
            // A thread without a context keeps that of device 0, as with other libraries.
            if before != RawContext::NULL || self.info.ordinal != 0 {
                entered.restore = Some(before);
            }
        }
        Ok(entered)
    }
}

/// A scope in which a context is current.
#[derive(Debug)]
#[must_use]
pub struct Entered {
    driver: &'static Functions,
    restore: Option<RawContext>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(before) = self.restore {
            // SAFETY: it was current before, so it is a context or none. A failure cannot be handled here.
            let _ = unsafe { call!(self.driver, cuCtxSetCurrent(before)) };
        }
    }
}
