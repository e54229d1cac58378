//! One device of this process as a world uses it: a queue of work, a word that stops kernels, a word that they tell with.

use super::context::Context;
use super::memory::{Buffer, Pinned};
use super::stream::Stream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use wuji_ir::Result;

#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) stream: Stream,
    /// For what has to reach the device while kernels run.
    aside: Stream,
    /// Not zero: kernels leave their loops.
    interrupt: Buffer,
    /// Set by a kernel that reports something.
    told: Pinned,
}

/// Somebody who waits looks without rest for so long; then he sleeps between two looks.
const IMPATIENT: Duration = Duration::from_micros(200);
const NAP: Duration = Duration::from_micros(50);

impl Engine {
    pub(crate) fn new(ordinal: usize) -> Result<Arc<Engine>> {
        let context = Context::new(ordinal)?;
        let engine = Engine {
            stream: context.stream()?,
            aside: context.stream()?,
            interrupt: context.alloc(64)?,
            told: context.pinned(64)?,
        };
        // SAFETY: the buffer is our own, and as long.
        unsafe { engine.stream.fill(engine.interrupt.address(), 64, 0) }?;
        engine.stream.synchronize()?;
        Ok(Arc::new(engine))
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        self.stream.context()
    }

    /// The address of the word that stops kernels.
    pub(crate) fn interrupt(&self) -> u64 {
        self.interrupt.address()
    }

    /// The address of the word that kernels set when they report something.
    pub(crate) fn told(&self) -> u64 {
        self.told.device()
    }

    /// Whether a kernel has reported something since this was asked last. The stream has done all its work.
    pub(crate) fn take_told(&self) -> bool {
        // SAFETY: the word is our own, and aligned; kernels only ever store to it.
        let word = unsafe { &*self.told.host().cast::<AtomicU64>() };
        word.swap(0, Ordering::Acquire) != 0
    }

    /// Waits until everything is done that was asked for. When the word asks for it, kernels are stopped.
    pub(crate) fn wait(&self, stop: &AtomicU32) -> Result<()> {
        let begun = Instant::now();
        let mut stopping = false;
        while !self.stream.query()? {
            if !stopping && stop.load(Ordering::Relaxed) != 0 {
                stopping = true;
                self.set_interrupt(1)?;
            }
            if begun.elapsed() > IMPATIENT {
                std::thread::sleep(NAP);
            } else {
                std::hint::spin_loop();
            }
        }
        if stopping {
            self.set_interrupt(0)?;
        }
        Ok(())
    }

    fn set_interrupt(&self, word: u32) -> Result<()> {
        // SAFETY: the buffer is our own; four of its bytes are set.
        unsafe {
            self.aside
                .copy_in(self.interrupt.address(), &word.to_ne_bytes())
        }?;
        self.aside.synchronize()
    }

    /// Copies bytes to the device, behind everything that it was asked to do before.
    pub(crate) fn send(&self, to: u64, bytes: &[u8]) -> Result<()> {
        // SAFETY: callers own that much memory there, and the bytes are ordinary memory.
        unsafe { self.stream.copy_in(to, bytes) }
    }

    /// Copies bytes from the device once it has done everything it was asked to do before.
    pub(crate) fn fetch(&self, bytes: &mut [u8], from: u64) -> Result<()> {
        // SAFETY: callers own that much memory there; the copy is waited for.
        unsafe { self.stream.copy_out(bytes, from) }?;
        self.stream.synchronize()
    }

    pub(crate) fn zero(&self, at: u64, bytes: u64) -> Result<()> {
        // SAFETY: callers own that much memory there.
        unsafe { self.stream.fill(at, bytes, 0) }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Memory that kernels use goes right after this.
        let _ = self.stream.synchronize();
    }
}
