//! References for benchmarks: copies, and hand-written kernels.

use bytemuck::Pod;
use std::ffi::{CString, c_void};
use std::sync::Arc;
use wuji_ir::{Error, Result};
use wuji_runtime::cuda::driver::{CudaContext, CudaModule, CudaStream, DeviceBuffer};

/// Kernels in PTX, and memory for them.
#[derive(Debug)]
pub struct Reference {
    context: Arc<CudaContext>,
    stream: CudaStream,
    module: CudaModule,
    buffers: Vec<DeviceBuffer>,
}

/// A kernel with the number of its blocks, threads per block, and arguments.
#[derive(Clone, Debug)]
pub struct Launch<'a> {
    /// Its name.
    pub kernel: &'a str,
    /// Thread blocks.
    pub blocks: u32,
    /// Threads in each of them.
    pub threads: u32,
    /// Its arguments, each in the low bytes of a word.
    pub words: Vec<u64>,
}

impl Reference {
    /// Loads PTX on a GPU.
    pub fn new(ordinal: usize, ptx: &str) -> Result<Reference> {
        let context = CudaContext::new(ordinal)?;
        Ok(Reference {
            stream: context.stream()?,
            module: context.load(ptx.as_bytes())?,
            buffers: Vec::new(),
            context,
        })
    }

    /// Allocates zeroed memory for the lifetime of this value. Returns its address.
    pub fn alloc(&mut self, bytes: u64) -> Result<u64> {
        let buffer = self.context.alloc(bytes)?;
        let at = buffer.address();
        // SAFETY: the memory is our own and has this size.
        unsafe { self.stream.fill(at, bytes, 0) }?;
        self.stream.synchronize()?;
        self.buffers.push(buffer);
        Ok(at)
    }

    /// Allocates memory that holds these values. Returns its address.
    pub fn upload<T: Pod>(&mut self, values: &[T]) -> Result<u64> {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        let at = self.alloc(bytes.len() as u64)?;
        // SAFETY: the memory is our own and has this size.
        unsafe { self.stream.copy_in(at, bytes) }?;
        self.stream.synchronize()?;
        Ok(at)
    }

    /// Values from allocated memory.
    pub fn download<T: Pod>(&self, at: u64, count: usize) -> Result<Vec<T>> {
        let mut values = vec![T::zeroed(); count];
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut values);
        if !self.owns(at, bytes.len() as u64) {
            return Err(Error::new("W0118", "a copy exceeds its memory"));
        }
        // SAFETY: the memory is our own, and the copy is awaited.
        unsafe { self.stream.copy_out(bytes, at) }?;
        self.stream.synchronize()?;
        Ok(values)
    }

    /// Whether a range is inside allocated memory.
    fn owns(&self, at: u64, bytes: u64) -> bool {
        self.buffers
            .iter()
            .any(|b| at >= b.address() && at + bytes <= b.address() + b.bytes())
    }

    /// Seconds that a copy takes.
    pub fn copy(&self, to: u64, from: u64, bytes: u64) -> Result<f64> {
        if !self.owns(to, bytes) || !self.owns(from, bytes) {
            return Err(Error::new("W0118", "a copy exceeds its memory"));
        }
        // SAFETY: both are our own memory.
        self.time(|| unsafe { self.stream.copy(to, from, bytes) })
    }

    /// Seconds that a kernel takes.
    ///
    /// # Safety
    /// The kernel takes these words, and accesses only memory of this reference.
    pub unsafe fn launch(
        &self,
        kernel: &str,
        blocks: u32,
        threads: u32,
        words: &[u64],
    ) -> Result<f64> {
        let launch = Launch {
            kernel,
            blocks,
            threads,
            words: words.to_vec(),
        };
        // SAFETY: guaranteed by the caller.
        unsafe { self.launch_all(&[launch]) }
    }

    /// Seconds from the start of the first to the end of the last of some kernels, which run one after the other.
    ///
    /// # Safety
    /// Every kernel takes its words, and accesses only memory of this reference.
    pub unsafe fn launch_all(&self, launches: &[Launch<'_>]) -> Result<f64> {
        let mut prepared = Vec::with_capacity(launches.len());
        for launch in launches {
            let name = CString::new(launch.kernel)
                .map_err(|_| Error::new("W0118", "a name contains a null byte"))?;
            prepared.push((self.module.function(&name)?, launch, launch.words.clone()));
        }
        self.time(|| {
            prepared
                .iter_mut()
                .try_for_each(|(function, launch, words)| {
                    let mut parameters: Vec<*mut c_void> = words
                        .iter_mut()
                        .map(|w| std::ptr::from_mut(w).cast())
                        .collect();
                    let (blocks, threads) = ([launch.blocks, 1, 1], [launch.threads, 1, 1]);
                    // SAFETY: guaranteed by the caller.
                    unsafe {
                        self.stream
                            .launch(function, blocks, threads, 0, &mut parameters)
                    }
                })
        })
    }

    fn time(&self, work: impl FnOnce() -> Result<()>) -> Result<f64> {
        let (begin, end) = (self.context.event()?, self.context.event()?);
        self.stream.record(&begin)?;
        work()?;
        self.stream.record(&end)?;
        end.synchronize()?;
        Ok(f64::from(end.elapsed_ms(&begin)?) / 1e3)
    }
}
