//! Code on a device.

use super::context::CudaContext;
use super::library::{RawFunction, RawLink, RawModule, ask, call};
use std::ffi::{CStr, c_int, c_uint, c_void};
use std::sync::Arc;
use wuji_ir::Result;

/// Size of the buffer for messages of the driver's assembler.
const LOG: usize = 8192;

/// Options of the driver's assembler, with its log buffer.
struct Assembler {
    errors: Vec<u8>,
    /// `CUjit_option`: the error log buffer and its size.
    options: [c_int; 2],
    values: [*mut c_void; 2],
}

impl Assembler {
    fn new() -> Assembler {
        let mut errors = vec![0; LOG];
        let values = [errors.as_mut_ptr().cast(), LOG as *mut c_void];
        Assembler {
            errors,
            options: [5, 6],
            values,
        }
    }

    fn count(&self) -> c_uint {
        self.options.len() as c_uint
    }

    fn log(&self) -> String {
        let text = CStr::from_bytes_until_nul(&self.errors);
        text.map(|text| text.to_string_lossy().trim().to_string())
            .unwrap_or_default()
    }
}

/// PTX as the driver requires it: null-terminated text. Machine code contains its length.
fn image(code: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    if code.starts_with(b"\x7fELF") || code.last() == Some(&0) {
        code.into()
    } else {
        [code, b"\0"].concat().into()
    }
}

impl CudaContext {
    /// Loads PTX, which the driver compiles, or machine code made from it ([`CudaContext::assemble`]).
    pub fn load(self: &Arc<Self>, code: &[u8]) -> Result<CudaModule> {
        let _entered = self.enter()?;
        let mut assembler = Assembler::new();
        let image = image(code);
        let mut raw = RawModule::NULL;
        // SAFETY: the image is terminated as its kind requires; options and values match and are live.
        unsafe {
            ask!(
                self.driver,
                cuModuleLoadDataEx(
                    &mut raw,
                    image.as_ptr().cast(),
                    assembler.count(),
                    assembler.options.as_ptr(),
                    assembler.values.as_mut_ptr(),
                )
            )
        }
        .map_err(|failed| failed.loading(&assembler.log()))?;
        Ok(CudaModule(Arc::new(Loaded {
            context: self.clone(),
            raw,
        })))
    }

    /// Compiles PTX to machine code for this device, to be loaded later.
    pub fn assemble(self: &Arc<Self>, ptx: &[u8]) -> Result<Vec<u8>> {
        /// `CU_JIT_INPUT_PTX`.
        const PTX: c_int = 1;
        /// A linker, destroyed when dropped.
        struct Link<'a>(&'a CudaContext, RawLink);
        impl Drop for Link<'_> {
            fn drop(&mut self) {
                // SAFETY: it is not in use any more.
                let _ = unsafe { call!(self.0.driver, cuLinkDestroy(self.1)) };
            }
        }
        let _entered = self.enter()?;
        let mut assembler = Assembler::new();
        let image = image(ptx);
        let mut link = Link(self, RawLink::NULL);
        let mut run = || {
            // SAFETY: options and values belong together and outlive the linker.
            unsafe {
                ask!(
                    self.driver,
                    cuLinkCreate(
                        assembler.count(),
                        assembler.options.as_ptr(),
                        assembler.values.as_mut_ptr(),
                        &mut link.1,
                    )
                )
            }?;
            // SAFETY: the text is null-terminated, and the terminator counts; there are no options.
            unsafe {
                ask!(
                    self.driver,
                    cuLinkAddData(
                        link.1,
                        PTX,
                        image.as_ptr().cast(),
                        image.len(),
                        c"kernel".as_ptr(),
                        0,
                        std::ptr::null(),
                        std::ptr::null_mut(),
                    )
                )
            }?;
            let (mut code, mut bytes) = (std::ptr::null_mut(), 0);
            // SAFETY: it writes an address and a size.
            unsafe { ask!(self.driver, cuLinkComplete(link.1, &mut code, &mut bytes)) }?;
            Ok((code, bytes))
        };
        let done = run();
        let (code, bytes) =
            done.map_err(|failed: super::error::Failed| failed.loading(&assembler.log()))?;
        // SAFETY: the linker owns that many bytes until it is destroyed; they are copied.
        Ok(unsafe { std::slice::from_raw_parts(code.cast::<u8>(), bytes) }.to_vec())
    }
}

#[derive(Debug)]
struct Loaded {
    context: Arc<CudaContext>,
    raw: RawModule,
}

impl Drop for Loaded {
    fn drop(&mut self) {
        if let Ok(_entered) = self.context.enter() {
            // SAFETY: functions keep their module alive, so it is not in use. Callers keep functions until launches are
            // done.
            let _ = unsafe { call!(self.context.driver, cuModuleUnload(self.raw)) };
        }
    }
}

/// Code that a device can run; unloaded when it and its functions are dropped.
#[derive(Clone, Debug)]
pub struct CudaModule(Arc<Loaded>);

impl CudaModule {
    /// A kernel by its name.
    pub fn function(&self, name: &CStr) -> Result<Function> {
        let context = &self.0.context;
        let _entered = context.enter()?;
        let mut raw = RawFunction::NULL;
        // SAFETY: the module is loaded, the name is a C string.
        unsafe {
            call!(
                context.driver,
                cuModuleGetFunction(&mut raw, self.0.raw, name.as_ptr())
            )
        }?;
        Ok(Function {
            module: self.0.clone(),
            raw,
        })
    }
}

/// A kernel that can be launched. It keeps its code loaded.
#[derive(Clone, Debug)]
pub struct Function {
    module: Arc<Loaded>,
    pub(super) raw: RawFunction,
}

/// The resources that a kernel uses.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct FunctionAttributes {
    /// Per thread.
    pub registers: u32,
    /// Bytes of local memory per thread: spilled registers and arrays.
    pub local_bytes: u32,
    /// Bytes of static shared memory.
    pub shared_bytes: u32,
    /// The most threads of a block.
    pub threads: u32,
}

impl Function {
    /// The registers and the memory that the function uses.
    pub fn attributes(&self) -> Result<FunctionAttributes> {
        let context = &self.module.context;
        let _entered = context.enter()?;
        let get = |attribute: c_int| -> Result<u32> {
            let mut value = 0;
            // SAFETY: it writes one number.
            unsafe {
                call!(
                    context.driver,
                    cuFuncGetAttribute(&mut value, attribute, self.raw)
                )
            }?;
            Ok(value.max(0) as u32)
        };
        // The numbers are those of `CUfunction_attribute`.
        Ok(FunctionAttributes {
            threads: get(0)?,
            shared_bytes: get(1)?,
            local_bytes: get(3)?,
            registers: get(4)?,
        })
    }

    /// The occupancy: how many blocks of this many threads a multiprocessor runs at a time, each with this much dynamic
    /// shared memory.
    pub fn max_active_blocks(&self, threads: u32, shared: usize) -> Result<u32> {
        let context = &self.module.context;
        let _entered = context.enter()?;
        let mut blocks = 0;
        // SAFETY: it writes one number.
        unsafe {
            call!(
                context.driver,
                cuOccupancyMaxActiveBlocksPerMultiprocessor(
                    &mut blocks,
                    self.raw,
                    threads as c_int,
                    shared
                )
            )
        }?;
        Ok(blocks.max(0) as u32)
    }

    /// Allows launches with this much dynamic shared memory; the default limit is 48 KiB.
    pub fn set_max_dynamic_shared(&self, bytes: u32) -> Result<()> {
        /// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
        const DYNAMIC_SHARED: c_int = 8;
        let context = &self.module.context;
        let _entered = context.enter()?;
        // SAFETY: the function is loaded.
        unsafe {
            call!(
                context.driver,
                cuFuncSetAttribute(self.raw, DYNAMIC_SHARED, bytes as c_int)
            )
        }
    }
}
