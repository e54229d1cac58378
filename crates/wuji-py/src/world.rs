//! Worlds.

use crate::error::{OrRaise, raised};
use crate::graph::Graph;
use crate::waiting::{detached, not_printed, waiting};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::time::Duration;
use wuji::dynamic::device;
use wuji::{CacheChoice, Error, Interrupter, Level, LibdeviceChoice, Math, Tier};

/// A device with its memory and kernels.
#[pyclass(frozen, module = "wuji._native")]
pub(crate) struct World {
    pub(crate) world: wuji::World,
    interrupter: Interrupter,
}

fn unknown(what: &str, given: &str, known: &str) -> PyErr {
    let error = Error::new("W0115", format!("unknown {what} `{given}`"));
    raised(&error.help(format!("use one of {known}")))
}

fn level(name: &str) -> PyResult<Level> {
    match name {
        // Errors are exceptions, so there is nothing to log.
        "off" | "error" => Ok(Level::Off),
        "warn" => Ok(Level::Warn),
        "info" => Ok(Level::Info),
        "debug" | "trace" => Ok(Level::Debug),
        other => Err(unknown(
            "log level",
            other,
            "`off`, `error`, `warn`, `info`, `debug` and `trace`",
        )),
    }
}

/// Prints through `sys.stdout`, which programs may replace.
fn print_line(py: Python<'_>, line: &str) -> PyResult<()> {
    let stdout = py.import("sys")?.getattr("stdout")?;
    if stdout.is_none() {
        return Ok(());
    }
    stdout.call_method1("write", (line,))?;
    Ok(())
}

/// Lists the NVIDIA GPUs with name and compute capability. Raises without a driver.
#[pyfunction]
pub(crate) fn cuda_devices(py: Python<'_>) -> PyResult<Vec<(String, (u32, u32))>> {
    let devices = crate::exit::detach(py, wuji::cuda_devices).or_raise()?;
    let devices = devices.into_iter();
    Ok(devices.map(|d| (d.name, d.capability)).collect())
}

#[pymethods]
impl World {
    #[new]
    #[pyo3(signature = (*, interpreter=false, cuda=None, threads=None, math="default", seed=0, debug=false, check_reads=false, check_precision=None, deterministic=false,
        memory_limit=None, cache=None, cache_limit=None, log=None, tier=None, time_limit=None, wait_for_launches=None, libdevice=None, without=Vec::new(),
        lazy=false, window=None, printer=None, dropped=None))]
    fn new(
        py: Python<'_>,
        interpreter: bool,
        cuda: Option<u32>,
        threads: Option<usize>,
        math: &str,
        seed: u64,
        debug: bool,
        check_reads: bool,
        check_precision: Option<u32>,
        deterministic: bool,
        memory_limit: Option<u64>,
        cache: Option<&str>,
        cache_limit: Option<u64>,
        log: Option<&str>,
        tier: Option<&str>,
        time_limit: Option<f64>,
        wait_for_launches: Option<bool>,
        libdevice: Option<PathBuf>,
        without: Vec<String>,
        lazy: bool,
        window: Option<usize>,
        printer: Option<Py<PyAny>>,
        dropped: Option<Py<PyAny>>,
    ) -> PyResult<World> {
        let mut builder = wuji::World::builder()
            .math(math_mode(math)?)
            .seed(seed)
            .debug(debug)
            .check_reads(check_reads)
            .check_precision(check_precision)
            .deterministic(deterministic);
        // Without it, the environment decides.
        if lazy {
            builder = builder.lazy(true);
        }
        if let Some(launches) = window {
            builder = builder.window(launches);
        }
        if interpreter {
            builder = builder.interpreter();
        }
        if let Some(device) = cuda {
            builder = builder.cuda(device);
        }
        if let Some(threads) = threads {
            builder = builder.threads(threads);
        }
        if let Some(bytes) = memory_limit {
            builder = builder.memory_limit(bytes);
        }
        match cache {
            None => {}
            Some("off") => builder = builder.cache(CacheChoice::Off),
            Some(folder) => builder = builder.cache(CacheChoice::Folder(folder.into())),
        }
        if let Some(bytes) = cache_limit {
            builder = builder.cache_limit(bytes);
        }
        if let Some(name) = log {
            builder = builder.log(level(name)?);
        }
        if let Some(name) = tier {
            builder = builder.tier(tier_named(name)?);
        }
        if let Some(seconds) = time_limit {
            let limit = Duration::try_from_secs_f64(seconds);
            let limit = limit.map_err(|e| PyValueError::new_err(format!("time_limit: {e}")))?;
            builder = builder.time_limit(limit);
        }
        if let Some(wait) = wait_for_launches {
            builder = builder.wait_for_launches(wait);
        }
        match libdevice {
            None => {}
            Some(path) if path.as_os_str() == "off" => {
                builder = builder.libdevice(LibdeviceChoice::Off);
            }
            Some(path) => builder = builder.libdevice(LibdeviceChoice::At(path)),
        }
        let names: Vec<&str> = without.iter().map(String::as_str).collect();
        builder = builder.without(&names);
        let world = detached(py, || builder.build())?.map_err(|mut error| {
            error.at = None;
            raised(&error)
        })?;
        call_back(&world, printer, dropped);
        let interrupter = world.interrupter();
        Ok(World { world, interrupter })
    }

    #[getter]
    fn threads(&self) -> usize {
        self.world.threads()
    }

    #[getter]
    fn cuda_stream(&self) -> Option<usize> {
        self.world.cuda_stream()
    }

    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        waiting(py, || {
            self.world.synchronize().map_err(|mut error| {
                // A location in this file means nothing to the user.
                if error.at.as_ref().is_some_and(|at| at.file == file!()) {
                    error.at = None;
                }
                error
            })
        })
    }

    /// Runs the launches that wait in a lazy world.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        waiting(py, || {
            self.world.flush().map_err(|mut error| {
                if error.at.as_ref().is_some_and(|at| at.file == file!()) {
                    error.at = None;
                }
                error
            })
        })
    }

    /// What a lazy world has done: launches, their tasks, tasks that ran, windows, known windows, tasks that were made.
    fn lazy_statistics(&self) -> (u64, u64, u64, u64, u64, u64) {
        let s = self.world.lazy_statistics();
        (
            s.launches,
            s.launched_tasks,
            s.tasks,
            s.windows,
            s.known_windows,
            s.made,
        )
    }

    /// The launches that wait in a lazy world, before or after optimization, as `text`, `dot` or `svg`.
    fn flow_graph(&self, py: Python<'_>, format: &str, optimized: bool) -> PyResult<String> {
        let (before, after) = crate::exit::detach(py, || self.world.flow_graph());
        let graph = if optimized { after } else { before };
        match format {
            "text" => Ok(graph.to_string()),
            "dot" => Ok(graph.dot()),
            "svg" => Ok(graph.svg()),
            other => Err(unknown("format", other, "`text`, `dot` and `svg`")),
        }
    }

    /// Records the launches that a function makes on this thread.
    fn record(&self, py: Python<'_>, launches: Py<PyAny>) -> PyResult<Graph> {
        // Without the GIL, since it waits for launches of other threads, which may need it.
        let (recorded, raised) = crate::exit::detach(py, || {
            let mut raised = None;
            let recorded = self.world.record(|| {
                let called = crate::exit::attach(|py| launches.call0(py).map(|_| ()));
                called.map_err(|error| {
                    raised = Some(error);
                    wuji::Error::new("W0134", "recording of the graph was aborted")
                })
            });
            (recorded, raised)
        });
        if let Some(error) = raised {
            return Err(error);
        }
        let graph = recorded.map_err(|mut error| {
            error.at = None;
            crate::error::raised(&error)
        })?;
        Ok(Graph { graph })
    }

    fn kernels(&self) -> usize {
        self.world.kernels()
    }

    fn finish_compiling(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.world.finish_compiling())?.or_raise()
    }

    fn explain(&self) -> Vec<String> {
        self.world
            .explain()
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    fn memory_report(&self, py: Python<'_>) -> PyResult<String> {
        let report = waiting(py, || self.world.memory_report())?;
        Ok(report.to_string())
    }

    fn memory_used(&self) -> u64 {
        self.world.memory_used()
    }

    fn set_log_level(&self, level: &str) -> PyResult<()> {
        self.world.set_log_level(self::level(level)?);
        Ok(())
    }

    fn profile(&self, on: bool) {
        if on {
            self.world.profiler().start()
        } else {
            self.world.profiler().stop()
        }
    }

    fn profile_clear(&self) {
        self.world.profiler().clear();
    }

    fn profile_tasks(&self) -> Vec<(String, String, u64, f64, f64, f64, f64)> {
        let mut rows = Vec::new();
        for kernel in self.world.kernel_history() {
            for task in kernel.tasks.into_iter().filter(|t| t.count > 0) {
                let total = task.total.as_secs_f64();
                rows.push((
                    kernel.name.clone(),
                    task.name,
                    task.count,
                    total,
                    task.least.as_secs_f64(),
                    total / task.count as f64,
                    task.most.as_secs_f64(),
                ));
            }
        }
        rows
    }

    fn profile_trace(&self) -> String {
        self.world.profiler().trace()
    }

    fn profile_report(&self) -> String {
        self.world.profiler().report().to_string()
    }

    fn cache_folder(&self) -> Option<String> {
        let folder = self.world.cache()?.folder();
        Some(folder.to_string_lossy().into_owned())
    }

    fn interrupt(&self) {
        self.interrupter.interrupt();
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || wuji::dynamic::close(&self.world))?.or_raise()
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.world)
    }
}

fn math_mode(name: &str) -> PyResult<Math> {
    Ok(match name {
        "strict" => Math::Strict,
        "default" => Math::default(),
        "fast" => Math::Fast,
        other => {
            return Err(unknown(
                "math mode",
                other,
                "`strict`, `default` and `fast`",
            ));
        }
    })
}

fn tier_named(name: &str) -> PyResult<Tier> {
    Ok(match name {
        "fast" => Tier::Fast,
        "best" => Tier::Best,
        "both" => Tier::Auto,
        other => return Err(unknown("tier", other, "`fast`, `best` and `both`")),
    })
}

/// Calls Python functions with lines that kernels print, and with errors that no call returned.
fn call_back(world: &wuji::World, printer: Option<Py<PyAny>>, dropped: Option<Py<PyAny>>) {
    device(world).set_printer(move |line| {
        crate::exit::attach(|py| {
            let printed = match &printer {
                Some(printer) => printer.call1(py, (line,)).map(|_| ()),
                None => print_line(py, line),
            };
            printed.map_err(|exception| not_printed(py, exception))
        })
    });
    if let Some(dropped) = dropped {
        device(world).on_async_error(&["W0401", "W0402"], move |error| {
            crate::exit::attach(|py| {
                if let Err(error) = dropped.call1(py, (&error.message, error.to_string())) {
                    error.write_unraisable(py, None);
                }
            });
        });
    }
}
