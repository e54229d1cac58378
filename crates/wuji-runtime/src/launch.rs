//! Launches: arguments, outcome, and the common work of a device.

use crate::array::{ArrayArg, Owner, unaliased};
use crate::backend::LaunchRequest;
use crate::device::Device;
use crate::interrupt::PolledLaunch;
use crate::log::Level;
use crate::memory::Memory;
use crate::program::Program;
use crate::report::Collected;
use crate::stop::{Watchdog, stopped};
use smallvec::SmallVec;
use wuji_ir::interp::STOPPED;
use wuji_ir::{Error, Result};

/// The arguments of a launch.
#[derive(Debug)]
pub struct Bindings<'a> {
    /// One slot per scalar of the by-value parameters, the value in the low bytes.
    pub params: &'a [u64],
    /// One per tree of the module.
    pub trees: &'a [&'a Memory],
    /// One per array of the module.
    pub arrays: &'a [ArrayArg<'a>],
}

/// The outcome of a launch, besides its effect on memory.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The scalars of the result, one per slot; empty if the kernel has no result or ended early.
    pub result: SmallVec<[u64; 4]>,
    /// `None` if nothing was reported or printed.
    pub collected: Option<Box<Collected>>,
    /// An error of earlier asynchronous launches.
    pub earlier: Option<Box<Error>>,
}

/// Checks that the bindings match the program.
pub(crate) fn check(device: &Device, program: &Program, bindings: &Bindings<'_>) -> Result<()> {
    let module = &program.module;
    if bindings.params.len() != program.params.len()
        || bindings.trees.len() != program.tree_sizes.len()
        || bindings.arrays.len() != program.array_elements.len()
    {
        return wrong(format!(
            "kernel `{}` needs {} parameter slots, {} trees and {} arrays; it was given {}, {} and {}",
            module.name,
            program.params.len(),
            program.tree_sizes.len(),
            program.array_elements.len(),
            bindings.params.len(),
            bindings.trees.len(),
            bindings.arrays.len(),
        ));
    }
    check_trees(device, program, bindings)?;
    check_arrays(device, program, bindings)
}

fn wrong(what: String) -> Result<()> {
    Err(Error::new("W0118", what))
}

fn check_trees(device: &Device, program: &Program, bindings: &Bindings<'_>) -> Result<()> {
    for (n, (memory, size)) in bindings.trees.iter().zip(&program.tree_sizes).enumerate() {
        if !device.owns(memory) {
            return wrong(format!("tree {n} belongs to another world"));
        }
        // It may have been freed while this launch waited for the lock.
        if memory.is_released() {
            return Err(released());
        }
        if (memory.size() as u64) < *size {
            return wrong(format!("tree {n} is smaller than the kernel expects"));
        }
        // Compiled code relies on trees not aliasing each other.
        if bindings.trees[..n]
            .iter()
            .any(|m| std::ptr::eq(*m, *memory))
        {
            return wrong(format!("tree {n} is bound twice"));
        }
    }
    Ok(())
}

fn check_arrays(device: &Device, program: &Program, bindings: &Bindings<'_>) -> Result<()> {
    let module = &program.module;
    if bindings.arrays.is_empty() {
        return Ok(());
    }
    let elements = program.array_elements.iter();
    for ((arg, data), (size, align)) in bindings
        .arrays
        .iter()
        .zip(module.arrays.values())
        .zip(elements)
    {
        let name = &data.name;
        reachable(device.capabilities().owner, arg.owner(), name)?;
        if arg.rank() != usize::from(data.rank) {
            let (has, needs) = (arg.rank(), data.rank);
            return wrong(format!("array `{name}` has {has} axes, not {needs}"));
        }
        if !arg.holds(data.elem, *size, *align) {
            return wrong(format!(
                "array `{name}` has other elements than `{}`",
                data.elem
            ));
        }
        if data.writable && !arg.is_writable() {
            return wrong(format!("array `{name}` can only be read"));
        }
        // Compiled code relies on an iteration owning the element at its index.
        if data.writable && !arg.elements_apart() {
            let what = format!("array `{name}` is written to, but its elements overlap");
            return Err(Error::new("W0117", what)
                .help("use strides with which every element has a place of its own"));
        }
        if data.contiguous && !arg.is_contiguous() {
            return wrong(format!("array `{name}` has gaps"));
        }
        if data
            .shape
            .as_ref()
            .is_some_and(|shape| !arg.has_shape(shape))
        {
            return wrong(format!("array `{name}` has another shape"));
        }
    }
    for (data, alone) in module.arrays.values().zip(unaliased(bindings.arrays)) {
        if data.unaliased && !alone {
            return wrong(format!("array `{}` overlaps another one", data.name));
        }
    }
    Ok(())
}

/// Whether kernels on one device can use an array on another. Host arrays are copied to GPUs.
fn reachable(kernels: Owner, array: Owner, name: &str) -> Result<()> {
    if array == Owner::Host || array == kernels {
        return Ok(());
    }
    let what = format!("array `{name}` lies on {array}, and the kernel runs on {kernels}");
    Err(Error::new("W0133", what)
        .help("copy it there first (PyTorch: `.cpu()`, `.to(..)`), or use a world on its device"))
}

/// The error for a tree whose memory was freed.
pub fn released() -> Error {
    Error::new("W0131", "the tree of this field was destroyed")
        .note("its memory was freed by `destroy`, or with its world")
        .help("make a new layout")
}

impl Device {
    /// Runs a program once, after all earlier launches. A backend may return before it is done, if it has no result and
    /// no host arrays; the next synchronizing call returns its reports.
    pub fn run(&self, program: &Program, bindings: &Bindings<'_>) -> Result<Outcome> {
        self.run_with(program, bindings, None, self.waits())
    }

    /// Runs a program once and waits for it.
    pub fn run_to_end(&self, program: &Program, bindings: &Bindings<'_>) -> Result<Outcome> {
        self.run_with(program, bindings, None, true)
    }

    /// Runs a program and waits for it, with a given seed and launch number for random numbers.
    pub fn run_as(
        &self,
        program: &Program,
        bindings: &Bindings<'_>,
        seed: u64,
        launch: u64,
    ) -> Result<Outcome> {
        self.run_with(program, bindings, Some((seed, launch)), true)
    }

    fn run_with(
        &self,
        program: &Program,
        bindings: &Bindings<'_>,
        random: Option<(u64, u64)>,
        wait: bool,
    ) -> Result<Outcome> {
        // Not under the lock: it takes long.
        program.make_code()?;
        let mut launches = self.lock.take()?;
        let random = random.unwrap_or((self.seed(), *launches));
        let outcome = self.run_locked(program, bindings, random, wait, &mut launches);
        drop(launches);
        let printed = self.lock.print_sink.flush();
        outcome.and_then(|outcome| printed.map(|()| outcome))
    }

    fn run_locked(
        &self,
        program: &Program,
        bindings: &Bindings<'_>,
        (seed, number): (u64, u64),
        wait: bool,
        launches: &mut u64,
    ) -> Result<Outcome> {
        program.check_owner(&self.lock)?;
        check(self, program, bindings)?;
        let executable = program.executable.get()?;
        if let Some(error) = executable.take_error() {
            return Err(error);
        }
        *launches = launches.wrapping_add(1);
        program.kernel.count_launch();
        self.log().say(Level::Debug, || {
            format!("launch of kernel `{}`", program.module.name)
        });
        let request = LaunchRequest {
            program,
            executable,
            bindings,
            seed,
            number,
            wait,
            interrupt: self.env.stop.flag(),
            memory_left: self.memory_left(),
            profiler: self.profiler().is_on().then(|| self.profiler()),
        };
        if self.capabilities().asynchronous {
            self.backend.run(&request)
        } else {
            self.run_supervised(&request)
        }
    }

    /// Runs a launch and waits for it, unless it is interrupted or exceeds the time limit.
    fn run_supervised(&self, request: &LaunchRequest<'_>) -> Result<Outcome> {
        let stop = &self.env.stop;
        if let Some(watchdog) = &self.watchdog {
            watchdog.begin()?;
        }
        let polled = PolledLaunch::begin(stop)?;
        stop.begin();
        let outcome = self.backend.run(request);
        drop(polled);
        if let Some(watchdog) = &self.watchdog {
            watchdog.end();
        }
        let Some(reason) = stop.end() else {
            return outcome;
        };
        // An error of the launch itself takes precedence.
        if let Err(error) = outcome
            && error.code != STOPPED
        {
            return Err(error);
        }
        let limit = self.watchdog.as_ref().map(Watchdog::limit);
        let name = &request.program.module.name;
        Err(stopped(std::slice::from_ref(name), reason, limit))
    }
}
