//! Settings of a device.

use crate::backend::BackendKind;
use crate::backend::cuda::LibdeviceChoice;
use crate::cache;
use crate::log::Level;
use crate::tier::Tier;
use std::time::Duration;
use wuji_ir::{Error, Result};

/// More threads than this is a mistake.
const MAX_THREADS: usize = 1024;

#[derive(Clone, Debug, Default)]
pub struct DeviceOptions {
    pub backend: BackendKind,
    /// All cores when `None`.
    pub threads: Option<usize>,
    pub seed: u64,
    /// Bytes that all trees together may take; most of the machine's when `None`, and then no dense tree may be larger than
    /// what is available when it is made.
    pub memory_limit: Option<u64>,
    /// How good the code of kernels is, and how soon it is there.
    pub tier: Tier,
    /// Where code is kept from one run of the program to the next.
    pub cache: cache::Choice,
    /// Bytes that the cache may take; what the environment says, or [`cache::DEFAULT_LIMIT`], when `None`.
    pub cache_limit: Option<u64>,
    /// Which messages are logged; what the environment says, or warnings, when `None`.
    pub log: Option<Level>,
    /// How long one launch may take; unlimited when `None`.
    pub time_limit: Option<Duration>,
    /// Whether every launch is synchronous, on a GPU too; what the environment says when `None`.
    pub wait_for_launches: Option<bool>,
    /// Whether kernels on a GPU use functions of NVIDIA's `libdevice`.
    pub libdevice: LibdeviceChoice,
}

impl DeviceOptions {
    /// How many threads run kernels.
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
