//! Options of a device.

use crate::backend::BackendKind;
use crate::backend::cuda::LibdeviceChoice;
use crate::cache;
use crate::log::Level;
use crate::tier::Tier;
use std::time::Duration;
use wuji_ir::{Error, Result};

/// The most threads.
const MAX_THREADS: usize = 1024;

/// How a device runs kernels.
#[derive(Clone, Debug, Default)]
pub struct DeviceOptions {
    /// What runs them.
    pub backend: BackendKind,
    /// The number of threads; all cores if `None`.
    pub threads: Option<usize>,
    /// The seed of random numbers.
    pub seed: u64,
    /// The memory limit of all trees together, in bytes. If `None`, most of the machine's memory, and no dense tree may
    /// exceed the memory that is available when it is created.
    pub memory_limit: Option<u64>,
    /// The quality of code, and how soon it is available.
    pub tier: Tier,
    /// Where compiled code is cached.
    pub cache: cache::Choice,
    /// The size limit of the cache in bytes; if `None`, that of the environment, or [`cache::DEFAULT_LIMIT`].
    pub cache_limit: Option<u64>,
    /// The log level; if `None`, that of the environment, or warnings.
    pub log: Option<Level>,
    /// The time limit of one launch; unlimited if `None`.
    pub time_limit: Option<Duration>,
    /// Whether every launch is synchronous, on a GPU too; if `None`, as the environment says.
    pub wait_for_launches: Option<bool>,
    /// Whether kernels on a GPU use NVIDIA's `libdevice`.
    pub libdevice: LibdeviceChoice,
}

impl DeviceOptions {
    /// The number of threads that run kernels.
    pub(crate) fn thread_count(&self) -> Result<usize> {
        match self.threads {
            Some(0) => Err(Error::new("W0115", "a world needs at least one thread")
                .help("leave the number out to use all cores")),
            Some(n) if n > MAX_THREADS => Err(Error::new(
                "W0115",
                format!("{n} threads are more than the {MAX_THREADS} a world can have"),
            )),
            Some(n) => Ok(n),
            None => Ok(std::thread::available_parallelism().map_or(1, usize::from)),
        }
    }

    /// Whether every launch is synchronous.
    pub(crate) fn waits(&self) -> bool {
        let asked = || {
            ["WUJI_LAUNCH_BLOCKING", "CUDA_LAUNCH_BLOCKING"]
                .iter()
                .any(|name| std::env::var_os(name).is_some_and(|v| v == "1"))
        };
        self.wait_for_launches.unwrap_or_else(asked)
    }
}
