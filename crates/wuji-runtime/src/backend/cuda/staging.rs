//! Copies between pageable host memory and a device, through two pinned staging buffers: while one piece is in flight,
//! the next one is prepared.

use super::context::CudaContext;
use super::memory::Pinned;
use super::stream::{CudaEvent, CudaStream};
use std::sync::{Arc, Mutex, PoisonError};
use wuji_ir::Result;

/// Bytes of a piece. Shorter copies are not staged.
const PIECE: usize = 4 << 20;

#[derive(Debug, Default)]
pub(super) struct Staging(Mutex<Option<[Stage; 2]>>);

#[derive(Debug)]
struct Stage {
    memory: Pinned,
    /// The event after its last copy.
    passed: CudaEvent,
}

impl Stage {
    fn new(context: &Arc<CudaContext>) -> Result<Stage> {
        Ok(Stage {
            memory: context.pinned(PIECE)?,
            passed: context.untimed_event()?,
        })
    }

    /// The first bytes of the buffer.
    ///
    /// # Safety
    /// Its last copy is done, and no other code has the bytes.
    #[allow(clippy::mut_from_ref)]
    unsafe fn bytes(&self, count: usize) -> &mut [u8] {
        // SAFETY: there are that many; the rest is guaranteed by the caller.
        unsafe { std::slice::from_raw_parts_mut(self.memory.host(), count.min(PIECE)) }
    }
}

impl Staging {
    fn with<R>(
        &self,
        stream: &CudaStream,
        work: impl FnOnce(&[Stage; 2]) -> Result<R>,
    ) -> Result<R> {
        let mut stages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let stages = match &mut *stages {
            Some(stages) => stages,
            none => {
                let context = stream.context();
                none.insert([Stage::new(context)?, Stage::new(context)?])
            }
        };
        work(stages)
    }

    /// Copies bytes to the device, after the stream's pending work. `bytes` may be reused when this returns.
    ///
    /// # Safety
    /// That much memory is allocated at `to` until the copy is done.
    pub(super) unsafe fn send(&self, stream: &CudaStream, to: u64, bytes: &[u8]) -> Result<()> {
        if bytes.len() <= PIECE {
            // SAFETY: guaranteed by the caller; the bytes are ordinary memory.
            return unsafe { stream.copy_in(to, bytes) };
        }
        self.with(stream, |stages| {
            for (k, piece) in bytes.chunks(PIECE).enumerate() {
                let stage = &stages[k % 2];
                stage.passed.synchronize()?;
                // SAFETY: its last copy is done, and we hold the lock; the rest is guaranteed by the caller.
                unsafe {
                    let own = stage.bytes(piece.len());
                    own.copy_from_slice(piece);
                    stream.copy_in(to + (k * PIECE) as u64, own)?;
                }
                stream.record(&stage.passed)?;
            }
            Ok(())
        })
    }

    /// Copies bytes from the device, after the stream's pending work, and waits for them.
    ///
    /// # Safety
    /// That much memory is allocated at `from`.
    pub(super) unsafe fn fetch(
        &self,
        stream: &CudaStream,
        bytes: &mut [u8],
        from: u64,
    ) -> Result<()> {
        if bytes.len() <= PIECE {
            // SAFETY: guaranteed by the caller; the copy is synchronized.
            unsafe { stream.copy_out(bytes, from) }?;
            return stream.synchronize();
        }
        self.with(stream, |stages| {
            let ask = |k: usize, count: usize| {
                let stage = &stages[k % 2];
                // SAFETY: its content has been consumed; the rest is guaranteed by the caller.
                unsafe {
                    let own = stage.bytes(count);
                    stream.copy_out(own, from + (k * PIECE) as u64)?;
                }
                stream.record(&stage.passed)
            };
            for stage in stages {
                stage.passed.synchronize()?;
            }
            let sizes: Vec<usize> = bytes.chunks(PIECE).map(<[u8]>::len).collect();
            ask(0, sizes[0])?;
            for (k, piece) in bytes.chunks_mut(PIECE).enumerate() {
                if let Some(next) = sizes.get(k + 1) {
                    ask(k + 1, *next)?;
                }
                stages[k % 2].passed.synchronize()?;
                // SAFETY: its copy is done, and we hold the lock.
                piece.copy_from_slice(unsafe { stages[k % 2].bytes(piece.len()) });
            }
            Ok(())
        })
    }
}
