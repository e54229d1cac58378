//! Loads the NVIDIA driver at run time.
//!
//! Building does not need CUDA: the functions that we call are declared here and looked up by name. Names carry
//! versions if the driver has several functions of one name.

use super::error::Failed;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::fmt;
use std::path::PathBuf;
use std::sync::OnceLock;
use wuji_ir::{Error, Result};

/// The result code of driver functions; zero is success.
pub(super) type Code = c_int;

/// An address in the memory of a device.
pub(super) type Address = u64;

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Copy, Clone, PartialEq, Eq, Debug)]
        #[repr(transparent)]
        pub(super) struct $name(pub(super) *mut c_void);

        impl $name {
            pub(super) const NULL: $name = $name(std::ptr::null_mut());
        }

        // SAFETY: an opaque handle of the driver, which any thread may pass back to it.
        unsafe impl Send for $name {}
        // SAFETY: as above; it is never dereferenced here.
        unsafe impl Sync for $name {}
    )*};
}

handles! {
    RawContext
    RawStream
    RawEvent
    RawModule
    RawFunction
    RawGraph
    /// A graph that can be launched.
    RawGraphExec
    /// A linker of the driver.
    RawLink
}

/// `CUmemLocation`: a device by its number.
#[derive(Copy, Clone, Debug)]
#[repr(C)]
pub(super) struct Location {
    pub(super) kind: c_int,
    pub(super) id: c_int,
}

impl Location {
    pub(super) fn device(id: c_int) -> Location {
        Location { kind: 1, id }
    }
}

/// `CUmemAllocationProp`: physical memory of a device.
#[derive(Debug)]
#[repr(C)]
pub(super) struct AllocationProperties {
    pub(super) kind: c_int,
    pub(super) handle_kinds: c_int,
    pub(super) location: Location,
    pub(super) windows: *mut c_void,
    pub(super) flags: [u8; 8],
}

impl AllocationProperties {
    /// Pinned memory (`CU_MEM_ALLOCATION_TYPE_PINNED`) that is not shared with other processes.
    pub(super) fn of(device: c_int) -> AllocationProperties {
        AllocationProperties {
            kind: 1,
            handle_kinds: 0,
            location: Location::device(device),
            windows: std::ptr::null_mut(),
            flags: [0; 8],
        }
    }
}

/// `CUmemAccessDesc`: access rights of mapped memory.
#[derive(Debug)]
#[repr(C)]
pub(super) struct AccessDescription {
    pub(super) location: Location,
    pub(super) flags: c_int,
}

impl AccessDescription {
    pub(super) fn read_write(device: c_int) -> AccessDescription {
        AccessDescription {
            location: Location::device(device),
            flags: 3,
        }
    }
}

/// One side of a `CUDA_MEMCPY2D`.
#[derive(Copy, Clone, Debug)]
#[repr(C)]
pub struct Side {
    x_bytes: usize,
    y: usize,
    kind: c_uint,
    host: *const c_void,
    device: Address,
    array: *mut c_void,
    pitch: usize,
}

impl Side {
    /// Host memory.
    pub fn host(at: *const u8) -> Side {
        Side {
            x_bytes: 0,
            y: 0,
            kind: 1,
            host: at.cast(),
            device: 0,
            array: std::ptr::null_mut(),
            pitch: 0,
        }
    }

    /// Device memory.
    pub fn device(at: Address) -> Side {
        Side {
            kind: 2,
            device: at,
            ..Side::host(std::ptr::null())
        }
    }

    /// Starting at an offset, with this pitch.
    pub(super) fn row(self, offset: u64, pitch: u64) -> Side {
        let host = self.host.cast::<u8>();
        Side {
            host: match self.kind {
                1 => host.wrapping_add(offset as usize).cast(),
                _ => self.host,
            },
            device: match self.kind {
                1 => 0,
                _ => self.device + offset,
            },
            pitch: pitch as usize,
            ..self
        }
    }
}

/// `CUDA_MEMCPY2D`.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Copy2d {
    pub(super) from: Side,
    pub(super) to: Side,
    pub(super) width_bytes: usize,
    pub(super) height: usize,
}

macro_rules! functions {
    ($(fn $name:ident($($type:ty),* $(,)?) = $($symbol:literal)|+;)*) => {
        /// The functions of the driver that we call.
        #[allow(non_snake_case)]
        pub(super) struct Functions {
            $(pub(super) $name: unsafe extern "C" fn($($type),*) -> Code,)*
        }

        impl Functions {
            /// Looks up all functions; an error is the name of a missing one.
            ///
            /// # Safety
            /// The library is open, and is the driver (or compatible with it).
            unsafe fn of(library: *mut c_void) -> std::result::Result<Functions, &'static CStr> {
                Ok(Functions {$(
                    $name: {
                        let symbols: &[&'static CStr] = &[$($symbol),+];
                        let address = symbol(library, symbols).ok_or(symbols[0])?;
                        // SAFETY: functions of these names have this type in the driver's interface, which never
                        // changes the meaning of a name.
                        unsafe {
                            std::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($type),*) -> Code,
                            >(address)
                        }
                    },
                )*})
            }
        }
    };
}

functions! {
    fn cuInit(c_uint) = c"cuInit";
    fn cuGetErrorName(Code, *mut *const c_char) = c"cuGetErrorName";
    fn cuGetErrorString(Code, *mut *const c_char) = c"cuGetErrorString";

    fn cuDeviceGetCount(*mut c_int) = c"cuDeviceGetCount";
    fn cuDeviceGet(*mut c_int, c_int) = c"cuDeviceGet";
    fn cuDeviceGetName(*mut c_char, c_int, c_int) = c"cuDeviceGetName";
    fn cuDeviceTotalMem(*mut usize, c_int) = c"cuDeviceTotalMem_v2";
    fn cuDeviceGetAttribute(*mut c_int, c_int, c_int) = c"cuDeviceGetAttribute";
    fn cuDevicePrimaryCtxRetain(*mut RawContext, c_int) = c"cuDevicePrimaryCtxRetain";
    fn cuCtxGetCurrent(*mut RawContext) = c"cuCtxGetCurrent";
    fn cuCtxSetCurrent(RawContext) = c"cuCtxSetCurrent";
    fn cuCtxSynchronize() = c"cuCtxSynchronize";
    fn cuCtxSetLimit(c_int, usize) = c"cuCtxSetLimit";

    fn cuMemGetInfo(*mut usize, *mut usize) = c"cuMemGetInfo_v2";
    fn cuMemAlloc(*mut Address, usize) = c"cuMemAlloc_v2";
    fn cuMemFree(Address) = c"cuMemFree_v2";
    fn cuMemAllocManaged(*mut Address, usize, c_uint) = c"cuMemAllocManaged";
    fn cuMemAdvise(Address, usize, c_int, c_int) = c"cuMemAdvise";
    fn cuMemHostAlloc(*mut *mut c_void, usize, c_uint) = c"cuMemHostAlloc";
    fn cuMemFreeHost(*mut c_void) = c"cuMemFreeHost";
    fn cuMemHostGetDevicePointer(*mut Address, *mut c_void, c_uint) = c"cuMemHostGetDevicePointer_v2";

    fn cuMemGetAllocationGranularity(*mut usize, *const AllocationProperties, c_int) = c"cuMemGetAllocationGranularity";
    fn cuMemAddressReserve(*mut Address, usize, usize, Address, u64) = c"cuMemAddressReserve";
    fn cuMemAddressFree(Address, usize) = c"cuMemAddressFree";
    fn cuMemCreate(*mut u64, usize, *const AllocationProperties, u64) = c"cuMemCreate";
    fn cuMemRelease(u64) = c"cuMemRelease";
    fn cuMemMap(Address, usize, usize, u64, u64) = c"cuMemMap";
    fn cuMemUnmap(Address, usize) = c"cuMemUnmap";
    fn cuMemSetAccess(Address, usize, *const AccessDescription, usize) = c"cuMemSetAccess";

    fn cuModuleLoadDataEx(*mut RawModule, *const c_void, c_uint, *const c_int, *mut *mut c_void) = c"cuModuleLoadDataEx";
    fn cuModuleUnload(RawModule) = c"cuModuleUnload";
    fn cuModuleGetFunction(*mut RawFunction, RawModule, *const c_char) = c"cuModuleGetFunction";
    fn cuLinkCreate(c_uint, *const c_int, *mut *mut c_void, *mut RawLink) = c"cuLinkCreate_v2";
    fn cuLinkAddData(RawLink, c_int, *const c_void, usize, *const c_char, c_uint, *const c_int, *mut *mut c_void) = c"cuLinkAddData_v2";
    fn cuLinkComplete(RawLink, *mut *mut c_void, *mut usize) = c"cuLinkComplete";
    fn cuLinkDestroy(RawLink) = c"cuLinkDestroy";
    fn cuFuncGetAttribute(*mut c_int, c_int, RawFunction) = c"cuFuncGetAttribute";
    fn cuFuncSetAttribute(RawFunction, c_int, c_int) = c"cuFuncSetAttribute";
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(*mut c_int, RawFunction, c_int, usize) = c"cuOccupancyMaxActiveBlocksPerMultiprocessor";

    fn cuStreamCreate(*mut RawStream, c_uint) = c"cuStreamCreate";
    fn cuStreamDestroy(RawStream) = c"cuStreamDestroy_v2";
    fn cuStreamSynchronize(RawStream) = c"cuStreamSynchronize";
    fn cuStreamQuery(RawStream) = c"cuStreamQuery";
    fn cuStreamWaitEvent(RawStream, RawEvent, c_uint) = c"cuStreamWaitEvent";
    fn cuEventCreate(*mut RawEvent, c_uint) = c"cuEventCreate";
    fn cuEventDestroy(RawEvent) = c"cuEventDestroy_v2";
    fn cuEventRecord(RawEvent, RawStream) = c"cuEventRecord";
    fn cuEventQuery(RawEvent) = c"cuEventQuery";
    fn cuEventSynchronize(RawEvent) = c"cuEventSynchronize";
    fn cuEventElapsedTime(*mut f32, RawEvent, RawEvent) = c"cuEventElapsedTime" | c"cuEventElapsedTime_v2";

    fn cuLaunchKernel(
        RawFunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, RawStream, *mut *mut c_void, *mut *mut c_void,
    ) = c"cuLaunchKernel";
    fn cuMemcpyHtoDAsync(Address, *const c_void, usize, RawStream) = c"cuMemcpyHtoDAsync_v2";
    fn cuMemcpyDtoHAsync(*mut c_void, Address, usize, RawStream) = c"cuMemcpyDtoHAsync_v2";
    fn cuMemcpyDtoDAsync(Address, Address, usize, RawStream) = c"cuMemcpyDtoDAsync_v2";
    fn cuMemcpy2DAsync(*const Copy2d, RawStream) = c"cuMemcpy2DAsync_v2";
    fn cuMemsetD8Async(Address, u8, usize, RawStream) = c"cuMemsetD8Async";
    fn cuMemsetD32Async(Address, c_uint, usize, RawStream) = c"cuMemsetD32Async";
    fn cuMemPrefetchAsync(Address, usize, c_int, RawStream) = c"cuMemPrefetchAsync";

    fn cuStreamBeginCapture(RawStream, c_int) = c"cuStreamBeginCapture_v2";
    fn cuStreamEndCapture(RawStream, *mut RawGraph) = c"cuStreamEndCapture";
    fn cuGraphInstantiate(*mut RawGraphExec, RawGraph, u64) = c"cuGraphInstantiateWithFlags";
    fn cuGraphDestroy(RawGraph) = c"cuGraphDestroy";
    fn cuGraphExecDestroy(RawGraphExec) = c"cuGraphExecDestroy";
    fn cuGraphLaunch(RawGraphExec, RawStream) = c"cuGraphLaunch";
}

impl fmt::Debug for Functions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Functions")
    }
}

/// Calls a function of the driver by name, in an `unsafe` block: the caller is responsible for the arguments. Returns
/// `Result<(), Failed>`; after a fatal failure nothing is called any more.
macro_rules! ask {
    ($driver:expr, $name:ident($($argument:expr),* $(,)?)) => {{
        let driver: &'static $crate::backend::cuda::library::Functions = $driver;
        match $crate::backend::cuda::error::healthy() {
            Ok(()) => {
                let code = (driver.$name)($($argument),*);
                $crate::backend::cuda::error::checked(driver, stringify!($name), code)
            }
            Err(failed) => Err(failed),
        }
    }};
}
pub(super) use ask;

/// The same, with our error type.
macro_rules! call {
    ($driver:expr, $name:ident($($argument:expr),* $(,)?)) => {
        $crate::backend::cuda::library::ask!($driver, $name($($argument),*))
            .map_err($crate::backend::cuda::error::Failed::error)
    };
}
pub(super) use call;

/// Environment variable with the path of the driver's library; if it is set, no other path is searched.
const VARIABLE: &str = "WUJI_CUDA_DRIVER";

/// File names of the driver's library; the second one is for unusual installations.
const FILES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];

/// An open library. It is never closed, because drivers do not support unloading.
struct Library(*mut c_void);

// SAFETY: a handle of the loader; every thread may look up symbols in it.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

/// Opens the library once, or returns the reasons why it could not be opened.
fn library() -> &'static std::result::Result<Library, Vec<String>> {
    static LIBRARY: OnceLock<std::result::Result<Library, Vec<String>>> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let mut reasons = Vec::new();
        for place in places() {
            match open(&place) {
                Ok(library) => return Ok(library),
                Err(why) => reasons.push(why),
            }
        }
        Err(reasons)
    })
}

fn places() -> Vec<PathBuf> {
    match std::env::var_os(VARIABLE).filter(|v| !v.is_empty()) {
        Some(place) => vec![place.into()],
        None => FILES.map(PathBuf::from).into(),
    }
}

fn open(place: &std::path::Path) -> std::result::Result<Library, String> {
    use std::os::unix::ffi::OsStrExt;
    let name = CString::new(place.as_os_str().as_bytes()).map_err(|e| e.to_string())?;
    // SAFETY: the name is a C string; any program may run the initializers of the driver.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL) };
    if !library.is_null() {
        return Ok(Library(library));
    }
    // SAFETY: the message is valid until the next call on this thread; it is copied.
    let why = unsafe {
        let text = libc::dlerror();
        if text.is_null() {
            format!("{} cannot be loaded", place.display())
        } else {
            CStr::from_ptr(text).to_string_lossy().into_owned()
        }
    };
    Err(why)
}

/// The first of these symbols that the library has.
fn symbol(library: *mut c_void, names: &[&CStr]) -> Option<*mut c_void> {
    names.iter().find_map(|name| {
        // SAFETY: the library is open, the name is a C string.
        let address = unsafe { libc::dlsym(library, name.as_ptr()) };
        (!address.is_null()).then_some(address)
    })
}

/// The driver, loaded and initialized once per process.
pub(super) fn driver() -> Result<&'static Functions> {
    static DRIVER: OnceLock<Result<Functions>> = OnceLock::new();
    DRIVER.get_or_init(load).as_ref().map_err(Error::clone)
}

fn load() -> Result<Functions> {
    let missing = || Error::new("W0520", "there is no CUDA driver");
    let help = format!(
        "install NVIDIA's driver (`{}`), or set {VARIABLE} to the path of its library; the CPU does without: `World::cpu()`",
        FILES[0]
    );
    let library = match library() {
        Ok(library) => library.0,
        Err(reasons) => {
            let error = missing().help(help);
            return Err(reasons.iter().cloned().fold(error, Error::note));
        }
    };
    // SAFETY: the library is open; it is the driver by its name, or by the user's setting.
    let functions = unsafe { Functions::of(library) }.map_err(|name| {
        missing()
            .note(format!(
                "the library has no function `{}`",
                name.to_string_lossy()
            ))
            .help("install a driver for CUDA 11.4 or newer; the CPU does without: `World::cpu()`")
    })?;
    // SAFETY: any program may call it, with zero; it precedes all other calls.
    let code = unsafe { (functions.cuInit)(0) };
    if code != 0 {
        let why = Failed::describe(&functions, code);
        return Err(Error::new("W0520", "there is no CUDA device")
            .note(format!("the driver cannot be initialized: {why}"))
            .help(
                "`nvidia-smi` shows what the driver sees; the CPU does without: `World::cpu()`",
            ));
    }
    Ok(functions)
}

/// The NVIDIA driver, usable or not.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Driver {
    /// The newest version of CUDA that it supports, as the driver encodes it: 12040 is 12.4. `None` if it is unknown.
    pub cuda: Option<u32>,
}

impl Driver {
    /// Looks for the driver's library; `None` if this machine has none.
    pub fn find() -> Option<Driver> {
        let library = library().as_ref().ok()?;
        let Some(address) = symbol(library.0, &[c"cuDriverGetVersion"]) else {
            return Some(Driver { cuda: None });
        };
        // SAFETY: the function has this type in the driver's interface. It can be called before initialization.
        let get: unsafe extern "C" fn(*mut c_int) -> Code = unsafe { std::mem::transmute(address) };
        let mut version = 0;
        // SAFETY: as above; it writes one number.
        let failed = unsafe { get(&mut version) };
        let version = u32::try_from(version).ok().filter(|_| failed == 0);
        Some(Driver {
            cuda: version.filter(|v| *v != 0),
        })
    }
}

impl fmt::Display for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cuda {
            Some(version) => write!(f, "CUDA {}.{}", version / 1000, version % 1000 / 10),
            None => write!(f, "CUDA, of unknown version"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_for_the_driver_does_not_fail() {
        assert_eq!(Driver::find(), Driver::find());
        let reported = Driver { cuda: Some(12040) }.to_string();
        assert_eq!(reported, "CUDA 12.4");
    }

    /// The sizes in the driver's header on 64-bit Linux.
    #[test]
    fn structures_have_the_sizes_of_the_driver() {
        assert_eq!(size_of::<AllocationProperties>(), 32);
        assert_eq!(size_of::<AccessDescription>(), 12);
        assert_eq!(size_of::<Copy2d>(), 128);
    }
}
