//! Settings of a world.

use super::{Inner, World, here};
use crate::autodiff::Modes;
use crate::graph::RecorderCell;
use crate::lazy::Lazy;
use crate::specialize::{Budget, Specialized};
use crate::tune::WatchCell;
use std::panic::Location;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;
use wuji_compile::{Bounds, Math, Options};
use wuji_ir::Result;
use wuji_runtime::cache::Choice as CacheChoice;
use wuji_runtime::cuda::LibdeviceChoice;
use wuji_runtime::log::Level;
use wuji_runtime::{BackendKind, Device, DeviceOptions, Tier};

/// Settings of a [`World`].
#[derive(Clone, Debug, Default)]
pub struct WorldBuilder {
    device: DeviceOptions,
    options: Options,
    debug_said: bool,
    check_reads_said: bool,
    pub(crate) check_precision: Option<Option<u32>>,
    lazy: Option<bool>,
    specialize: Option<bool>,
    window: Option<usize>,
}

impl WorldBuilder {
    /// Number of worker threads; default: all cores.
    pub fn threads(mut self, threads: usize) -> WorldBuilder {
        self.device.threads = Some(threads);
        self
    }

    /// The floating-point mode: strict, default or fast.
    pub fn math(mut self, math: Math) -> WorldBuilder {
        self.options.math = math;
        self
    }

    /// The seed of `random`.
    pub fn seed(mut self, seed: u64) -> WorldBuilder {
        self.device.seed = seed;
        self
    }

    /// Maximum number of bytes of all trees of this world. A dense tree beyond it is refused; a kernel that activates more cells
    /// of a sparse tree fails with an out-of-memory error.
    ///
    /// Default: nine tenths of the memory of the machine, or of the process's control group, and a dense tree must also fit into
    /// the memory available at the time. The system allocates the pages of a dense tree at first touch: for a tree that is larger
    /// than memory but touched sparsely, set a limit that is large enough.
    ///
    /// ```
    /// use wuji::prelude::*;
    /// # fn main() -> wuji::Result<()> {
    /// let world = World::builder().memory_limit(1 << 43).build()?;
    /// let x = world.field::<f32, 1>("x", 1u64 << 40)?;
    /// x.set(1i64 << 39, 1.0)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn memory_limit(mut self, bytes: u64) -> WorldBuilder {
        self.device.memory_limit = Some(bytes);
        self
    }

    /// The compilation tiers.
    ///
    /// By default kernels start in a first tier that compiles in a third of the time or less. A hot kernel, one that has run for
    /// as long as its compilation took, is compiled again in the background; the better code replaces the old one between two
    /// chunks, even in the middle of a launch. [`Tier::Best`] waits for the best code at the first launch; [`Tier::Fast`] never
    /// compiles it. Versions of a task are measured against each other, and the fastest is kept; `explain` says so. All tiers give the same bits, in every math mode, except for float reductions over parallel loops, whose order is
    /// unspecified; [`deterministic`](WorldBuilder::deterministic) worlds fix it, and use the best tier.
    ///
    /// ```
    /// use wuji::prelude::*;
    /// # fn main() -> wuji::Result<()> {
    /// let world = World::builder().tier(Tier::Best).build()?;
    /// # let x = world.field::<f32, 1>("x", [4])?;
    /// # x.fill(1.0)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn tier(mut self, tier: Tier) -> WorldBuilder {
        self.device.tier = tier;
        self
    }

    /// The folder of the kernel cache. Default: a folder of the user; see [`CacheChoice::Usual`]. If a folder that is named here
    /// cannot be used, that is an error; if the usual one cannot be used, a log message.
    ///
    /// ```
    /// use wuji::{CacheChoice, World};
    /// # fn main() -> wuji::Result<()> {
    /// let world = World::builder().cache(CacheChoice::Off).build()?;
    /// assert!(world.cache().is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn cache(mut self, choice: CacheChoice) -> WorldBuilder {
        self.device.cache = choice;
        self
    }

    /// Maximum size of the kernel cache in bytes. Default: `WUJI_CACHE_LIMIT` megabytes, or one gigabyte. The least recently used
    /// entries are evicted first.
    pub fn cache_limit(mut self, bytes: u64) -> WorldBuilder {
        self.device.cache_limit = Some(bytes);
        self
    }

    /// The log level. Default: the environment variable `WUJI_LOG`, or warnings.
    pub fn log(mut self, level: Level) -> WorldBuilder {
        self.device.log = Some(level);
        self
    }

    /// Time limit of one launch. A launch that exceeds it is interrupted with an error; what it has written stays. Default: none.
    ///
    /// ```
    /// use std::time::Duration;
    /// use wuji::prelude::*;
    ///
    /// #[kernel]
    /// fn never_ends(_world: &World) {
    ///     let mut n = 0;
    ///     while n >= 0 {
    ///         n = (n + 1) % 7;
    ///     }
    /// }
    ///
    /// # fn main() -> wuji::Result<()> {
    /// let world = World::builder().time_limit(Duration::from_millis(50)).build()?;
    /// assert_eq!(never_ends(&world).unwrap_err().code, "W0409");
    /// # Ok(())
    /// # }
    /// ```
    pub fn time_limit(mut self, limit: Duration) -> WorldBuilder {
        self.device.time_limit = Some(limit);
        self
    }

    /// Makes every launch on a GPU synchronous: its own call returns what it reports. Otherwise launches are asynchronous, and the
    /// next synchronizing call returns their reports. Default: synchronous in debug worlds, and if the environment variable
    /// `WUJI_LAUNCH_BLOCKING` (or `CUDA_LAUNCH_BLOCKING`) is 1. Launches on the CPU are always synchronous.
    pub fn wait_for_launches(mut self, wait: bool) -> WorldBuilder {
        self.device.wait_for_launches = Some(wait);
        self
    }

    /// Whether kernels on a GPU call NVIDIA's `libdevice` for the mathematical functions that are faster there. Default: if it is
    /// found, at the path in the environment variable `WUJI_LIBDEVICE` (or `off`) or in the CUDA installation. Strict mode never
    /// uses it.
    pub fn libdevice(mut self, choice: LibdeviceChoice) -> WorldBuilder {
        self.device.libdevice = choice;
        self
    }

    /// Adds checks that cost time: overflow of index arithmetic, numbers that do not fit a quantized type or [become zero](WorldBuilder::check_precision) there, and [out-of-range reads](WorldBuilder::check_reads). Default: whether the environment variable `WUJI_DEBUG` is 1.
    /// Out-of-range writes and failed assertions are reported in every world.
    ///
    /// ```
    /// use wuji::prelude::*;
    ///
    /// #[kernel]
    /// fn far(x: &Field<i32, 1>, step: i32) {
    ///     for [i] in x {
    ///         x[[i * step]] = 1; // 2 * 2^31 wraps to 0
    ///     }
    /// }
    ///
    /// # fn main() -> wuji::Result<()> {
    /// let world = World::builder().debug(true).build()?;
    /// let x = world.field::<i32, 1>("x", 4)?;
    /// let error = far(&x, i32::MAX).unwrap_err();
    /// assert!(error.message.contains("an index overflows: 2 * 2147483647"), "{error}");
    /// # Ok(())
    /// # }
    /// ```
    pub fn debug(mut self, debug: bool) -> WorldBuilder {
        self.options.debug = debug;
        self.debug_said = true;
        self
    }

    /// Reports out-of-bounds reads as errors. Without it, such a read gives zero, which is no error. Costs time. Default: whether the world
    /// is a [debug](WorldBuilder::debug) world.
    ///
    /// ```
    /// use wuji::prelude::*;
    ///
    /// #[kernel]
    /// fn shift(x: &Field<i32, 1>, y: &Field<i32, 1>) {
    ///     for [i] in x {
    ///         y[[i]] = x[[i + 1]]; // zero at the end
    ///     }
    /// }
    ///
    /// # fn main() -> wuji::Result<()> {
    /// let world = World::builder().check_reads(true).build()?;
    /// let (x, y) = (world.field::<i32, 1>("x", 4)?, world.field::<i32, 1>("y", 4)?);
    /// let error = shift(&x, &y).unwrap_err();
    /// assert!(error.message.contains("read field `x` outside of its bounds"), "{error}");
    /// # Ok(())
    /// # }
    /// ```
    pub fn check_reads(mut self, check: bool) -> WorldBuilder {
        self.options.check_reads = check;
        self.check_reads_said = true;
        self
    }

    /// Disables optimizations by name, for ablation studies. The results of kernels do not change. An unknown name is an error of
    /// the first compilation.
    ///
    /// ```
    /// use wuji::prelude::*;
    /// # fn main() -> wuji::Result<()> {
    /// let world = World::builder().without(&["simplify", "list_reuse"]).build()?;
    /// # let x = world.field::<f32, 1>("x", [4])?;
    /// # x.fill(1.0)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn without(mut self, optimizations: &[&str]) -> WorldBuilder {
        let names = optimizations.iter().map(|name| (*name).to_owned());
        self.options.without.extend(names);
        self
    }

    /// Makes results bitwise reproducible from run to run and for any number of threads: float reductions and loops over sparse
    /// fields have a fixed order. Kernels that observe the order of iterations, for example by the old value of an atomic, are
    /// refused. Scatters become slower; those into sparse fields run on one thread.
    ///
    /// ```
    /// use wuji::prelude::*;
    /// #[kernel]
    /// fn total(x: &Field<f32, 1>) -> f32 {
    ///     let mut sum = 0.0;
    ///     for [i] in x {
    ///         sum += x[[i]];
    ///     }
    ///     sum
    /// }
    /// # fn main() -> wuji::Result<()> {
    /// let mut sums = Vec::new();
    /// for threads in [1, 2, 3, 8] {
    ///     let world = World::builder().threads(threads).deterministic(true).build()?;
    ///     let x = world.field::<f32, 1>("x", [10_000])?;
    ///     x.copy_from(&(0..10_000).map(|i| 0.1 * i as f32).collect::<Vec<_>>())?;
    ///     sums.push(total(&x)?);
    /// }
    /// assert!(sums.iter().all(|s| *s == sums[0]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn deterministic(mut self, deterministic: bool) -> WorldBuilder {
        self.options.deterministic = deterministic;
        self
    }

    /// Makes launches wait in a window until something needs their results; then they are optimized together: loops over the same
    /// elements become one, and what is overwritten before anything reads it is not computed. Kernels do not change. Host access to
    /// fields, [`World::synchronize`], [`World::flush`], kernels with a result, prints or host arrays, and a full window run what
    /// waits. Errors of a launch are returned then, with its source line. Default: whether the environment variable `WUJI_LAZY` is 1.
    /// Debug worlds are never lazy.
    pub fn lazy(mut self, lazy: bool) -> WorldBuilder {
        self.lazy = Some(lazy);
        self
    }

    /// Whether a kernel that is launched again and again with the same loop bounds and array shapes gets code in which these are
    /// constants: such loops are divided like loops over fields, and accesses need no checks. The code is made after half a second of
    /// such launches, in at most a tenth of the time, or by [`World::finish_compiling`]; launches with other arguments run the general
    /// code. Default: on GPUs; on CPUs only kernels with arguments in periodic or clamped indices, such as `n` in `(i + 1) % n`, and
    /// kernels that scatter into arrays. Debug and deterministic worlds never do.
    pub fn specialize(mut self, specialize: bool) -> WorldBuilder {
        self.specialize = Some(specialize);
        self
    }

    /// How many launches fill the window of a lazy world. Default: 64.
    pub fn window(mut self, launches: usize) -> WorldBuilder {
        self.window = Some(launches);
        self
    }

    /// SIMD width in bits: 128, 256 or 512. Default: what suits the processor. Wider vectors than the processor has are split.
    pub fn vector_bits(mut self, bits: u32) -> WorldBuilder {
        self.options.vector_bits = bits;
        self
    }

    /// Interprets kernels instead of compiling them.
    pub fn interpreter(mut self) -> WorldBuilder {
        self.device.backend = BackendKind::Interpreter;
        self
    }

    /// Runs kernels on an NVIDIA GPU, by its number.
    pub fn cuda(mut self, device: u32) -> WorldBuilder {
        self.device.backend = BackendKind::Cuda(device);
        self
    }

    /// Removes the bounds checks of fields and arrays.
    ///
    /// # Safety
    /// With this, no kernel that runs in the world may access an element outside its field, array or
    /// local array, not even to read it.
    // The one promise that the user can make; nothing unsafe happens here.
    #[allow(unsafe_code)]
    pub unsafe fn unchecked(mut self) -> WorldBuilder {
        self.options.bounds = Bounds::Unchecked;
        self
    }

    /// Builds the world.
    #[track_caller]
    pub fn build(mut self) -> Result<World> {
        let at = here(Location::caller());
        if !self.debug_said {
            self.options.debug = std::env::var_os("WUJI_DEBUG").is_some_and(|v| v == "1");
        }
        if !self.check_reads_said {
            self.options.check_reads = self.options.debug;
        }
        self.options.precision = (self.check_precision).unwrap_or(self.options.debug.then_some(0));
        if self.options.debug {
            self.device.wait_for_launches.get_or_insert(true);
        }
        let device = Device::new(&self.device)
            .and_then(|device| device.allows(&self.options).map(|()| device))
            .map_err(|e| e.at(Some(at)))?;
        let lazy = self
            .lazy
            .unwrap_or_else(|| std::env::var_os("WUJI_LAZY").is_some_and(|v| v == "1"));
        // A debug world tells what is wrong with a launch at once.
        let lazy = lazy && !self.options.debug;
        let lazy = lazy.then(|| {
            let limited = self.device.time_limit.is_some();
            Lazy::new(&self.options, self.window, !limited)
        });
        let specialize = match self.specialize {
            _ if self.options.debug || self.options.deterministic => None,
            Some(specialize) => specialize.then_some(Specialized::All),
            None if device.gpu().is_some() => Some(Specialized::All),
            None => Some(Specialized::OnCpu {
                threads: device.threads(),
            }),
        };
        Ok(World {
            inner: Arc::new(Inner {
                device,
                seed: self.device.seed,
                specialization: specialize.map(Budget::new),
                options: self.options,
                shapes: Mutex::default(),
                kernels: RwLock::default(),
                services: RwLock::default(),
                trees: Mutex::default(),
                arrays: Mutex::default(),
                loaded: Mutex::default(),
                closed: AtomicBool::new(false),
                recorder: RecorderCell::default(),
                recording: AtomicBool::new(false),
                lazy,
                modes: Modes::default(),
                watch: WatchCell::default(),
                gradient_remarks: Mutex::default(),
            }),
        })
    }
}
