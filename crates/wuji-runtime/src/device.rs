//! A device: its memory, its turn order, and how it runs modules.

use crate::memory::{Memory, Turn};
use std::sync::Arc;
use wuji_ir::{Error, Result};

/// What runs the kernels of a device.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum Backend {
    /// Machine code on the processor.
    #[default]
    Cpu,
    /// The interpreter that defines what kernels mean.
    Interpreter,
}

#[derive(Clone, Debug, Default)]
pub struct DeviceOptions {
    pub backend: Backend,
    /// All cores when `None`.
    pub threads: Option<usize>,
    pub seed: u64,
}

/// More threads than this is a mistake.
const MAX_THREADS: usize = 1024;

/// Something that runs kernels, with the memory they work on.
#[derive(Debug)]
pub struct Device {
    turn: Arc<Turn>,
    backend: Backend,
    threads: usize,
    seed: u64,
}

impl Device {
    pub fn new(options: &DeviceOptions) -> Result<Device> {
        let threads = match options.threads {
            Some(0) => {
                return Err(Error::new("W0115", "a world needs at least one thread")
                    .help("leave the number out to use all cores"));
            }
            Some(n) if n > MAX_THREADS => {
                return Err(Error::new(
                    "W0115",
                    format!("{n} threads are more than the {MAX_THREADS} a world can have"),
                ));
            }
            Some(n) => n,
            None => std::thread::available_parallelism().map_or(1, usize::from),
        };
        Ok(Device {
            turn: Arc::default(),
            backend: options.backend,
            threads: match options.backend {
                Backend::Cpu => threads,
                Backend::Interpreter => 1,
            },
            seed: options.seed,
        })
    }

    pub fn backend(&self) -> Backend {
        self.backend
    }

    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Zeroed memory of this device.
    pub fn reserve(&self, size: u64) -> Result<Memory> {
        Memory::reserve(&self.turn, size)
    }

    /// Bytes of all memory of this device that is still alive.
    pub fn memory_used(&self) -> u64 {
        self.turn.used()
    }
}
