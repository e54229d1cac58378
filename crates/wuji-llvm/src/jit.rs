//! The JIT compiler: compiles kernels and keeps them loaded.

use crate::abi::TaskFn;
use crate::codegen::{self, Tuning};
use crate::diagnostics::with_frames;
use crate::exit::{self, Use};
use crate::link::{Linker, Loaded};
use crate::optimize::{self, Effort};
use crate::perf;
use crate::room::room_for_llvm;
use crate::stack::{Frame, MOST_STACK, task_stack};
use crate::target::{Host, Machines, llvm_version};
use crate::threads::{on_large_stack, on_threads};
use inkwell::module::Module;
use inkwell::targets::{FileType, TargetMachine, TargetTriple};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wuji_compile::Lowered;
use wuji_ir::{Error, Result};

/// Options of a [`Jit`].
#[derive(Clone, Debug)]
pub struct JitOptions {
    /// The processor to compile for; by default the one that is running.
    pub host: Option<Host>,
    /// Preferred vector width in bits; by default the best one for the processor.
    pub vector_bits: Option<u32>,
    /// How much LLVM optimizes.
    pub effort: Effort,
    /// Threads that compile the tasks of one kernel; by default one per core.
    pub threads: Option<usize>,
    /// Write symbols for `perf`, and keep frame pointers. The environment variable `WUJI_PERF=1` does the
    /// same.
    pub perf: bool,
    /// Register loaded code with gdb. The environment variable `WUJI_GDB=1` does the same.
    pub debugger: bool,
    /// Run LLVM's verifier before its passes.
    pub verify: bool,
    /// Let loops call glibc's vector math, except in strict mode.
    pub vector_math: bool,
}

impl Default for JitOptions {
    fn default() -> JitOptions {
        JitOptions {
            host: None,
            vector_bits: None,
            effort: Effort::Full,
            threads: None,
            perf: false,
            debugger: false,
            verify: cfg!(debug_assertions),
            vector_math: true,
        }
    }
}

/// Compiles kernels for one processor and loads them into this process.
///
/// ```
/// use wuji_llvm::{Jit, JitOptions};
/// let jit = Jit::new(&JitOptions::default())?;
/// assert_ne!(jit.host().cpu, "native");
/// # Ok::<(), wuji_ir::Error>(())
/// ```
#[derive(Debug)]
pub struct Jit {
    linker: Arc<Linker>,
    host: Host,
    /// The version of LLVM.
    version: String,
    machines: Machines,
    tuning: Tuning,
    options: JitOptions,
}

/// Machine code of a kernel, not loaded yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Object {
    /// Object files.
    pub code: Vec<Vec<u8>>,
    /// The symbol of each task, in order.
    pub symbols: Vec<String>,
    /// Bytes of stack that each task takes at most, with everything that it calls.
    pub stacks: Vec<u64>,
    /// How long each step took.
    pub timings: Timings,
}

/// The time of a compilation by phase. Threads run concurrently, so the sum of the phases may exceed the
/// total.
#[derive(Copy, Clone, PartialEq, Eq, Default, Debug)]
pub struct Timings {
    /// Wuji IR to LLVM IR.
    pub build: Duration,
    /// The time of LLVM's optimizations.
    pub optimize: Duration,
    /// LLVM IR to machine code.
    pub emit: Duration,
    /// The time of linking.
    pub link: Duration,
    /// Wall time.
    pub total: Duration,
}

impl Timings {
    /// Adds the phases of a part of the work.
    fn add(&mut self, part: &Timings) {
        self.build += part.build;
        self.optimize += part.optimize;
        self.emit += part.emit;
    }
}

/// The time of a compilation on one thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Profile {
    /// Wuji IR to LLVM IR.
    pub build: Duration,
    /// Each of LLVM's passes, in order; a pass may occur several times.
    pub passes: Vec<(&'static str, Duration)>,
    /// LLVM IR to machine code.
    pub emit: Duration,
    /// The time of linking.
    pub link: Duration,
    /// The size of the object.
    pub bytes: usize,
}

/// The code of a task.
///
/// Calling it is unsafe: the context must be valid as [`crate::abi::LaunchContext`] defines, the kernel must outlive the call, and
/// the stack of the thread must have room.
#[derive(Copy, Clone, Debug)]
pub struct CompiledTask {
    /// Its function.
    pub entry: TaskFn,
    /// Bytes of stack that it takes at most, with everything that it calls.
    pub stack: u64,
}

/// A kernel that can be launched. Dropping it unloads its code, so the owner makes sure that no launch is in
/// flight.
#[derive(Debug)]
pub struct CompiledKernel {
    linker: Arc<Linker>,
    /// Taken when dropped.
    loaded: Option<Loaded>,
    tasks: Vec<CompiledTask>,
    symbols: Vec<String>,
    timings: Timings,
}

impl CompiledKernel {
    /// The code of a task; `None` if the index is out of range.
    pub fn task(&self, index: usize) -> Option<CompiledTask> {
        self.tasks.get(index).copied()
    }

    /// The code of all tasks, in order.
    pub fn tasks(&self) -> &[CompiledTask] {
        &self.tasks
    }

    /// The symbols of the tasks, as profilers and debuggers show them.
    pub fn symbols(&self) -> &[String] {
        &self.symbols
    }

    /// How long each step took.
    pub fn timings(&self) -> &Timings {
        &self.timings
    }
}

impl Drop for CompiledKernel {
    fn drop(&mut self) {
        if let Some(loaded) = self.loaded.take() {
            self.linker.unload(loaded);
        }
    }
}

/// The form that [`Jit::text`] prints.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Text {
    /// LLVM IR as code generation made it.
    Ir,
    /// LLVM IR after the passes.
    OptimizedIr,
    /// Assembly text.
    Assembly,
}

impl Jit {
    /// A compiler for the processor that it runs on.
    pub fn new(options: &JitOptions) -> Result<Jit> {
        let _use = Use::begin()?;
        let asked = |name: &str| std::env::var_os(name).is_some_and(|v| v != "0" && !v.is_empty());
        let mut options = options.clone();
        options.perf |= asked("WUJI_PERF");
        options.debugger |= asked("WUJI_GDB");
        let host = options.host.clone().map_or_else(Host::detect, Ok)?;
        let version = llvm_version()?;
        let machines = Machines::default();
        // Fail here rather than when compiling the first kernel.
        let level = optimize::codegen_level(options.effort);
        machines.release(level, host.machine(level)?);
        let tuning = Tuning {
            vector_bits: options
                .vector_bits
                .unwrap_or_else(|| host.preferred_vector_bits()),
            frame_pointers: options.perf,
            vector_math: options.vector_math,
        };
        Ok(Jit {
            linker: Arc::new(Linker::new(options.debugger)?),
            host,
            version,
            machines,
            tuning,
            options,
        })
    }

    /// The vector width to use, in bits.
    pub fn vector_bits(&self) -> u32 {
        self.tuning.vector_bits
    }

    /// The processor.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Everything about this JIT that affects the generated code.
    pub fn identity(&self) -> String {
        let (host, tuning) = (&self.host, &self.tuning);
        let (triple, cpu, features) = (&host.triple, &host.cpu, &host.features);
        format!("LLVM {} {triple} {cpu} {features} {tuning:?}", self.version)
    }

    /// Compiles and loads a kernel.
    pub fn compile(&self, lowered: &Lowered) -> Result<CompiledKernel> {
        self.compile_with(lowered, self.options.effort)
    }

    /// Like [`Jit::compile`], with its own effort.
    pub fn compile_with(&self, lowered: &Lowered, effort: Effort) -> Result<CompiledKernel> {
        let started = Instant::now();
        let object = self.build_with(lowered, effort)?;
        let mut kernel = self.load(&object)?;
        kernel.timings.total = started.elapsed();
        Ok(kernel)
    }

    /// Like [`Jit::build_with`], on one thread, for compilation in the background. Between tasks, and between
    /// LLVM's passes and its instruction selection, it calls `stopped` to ask whether the compilation is
    /// cancelled.
    pub fn build_in_background(
        &self,
        lowered: &Lowered,
        effort: Effort,
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<Object> {
        let started = Instant::now();
        let symbols = symbols(lowered);
        let parts = on_large_stack(|| {
            let tasks = symbols.iter().enumerate();
            tasks
                .map(|(task, symbol)| {
                    let names = std::slice::from_ref(symbol);
                    self.build_part(lowered, &[task], names, effort, stopped)
                })
                .collect::<Result<Vec<Part>>>()
        })?;
        Ok(Object::of(parts, symbols, started.elapsed()))
    }

    /// Like [`Jit::build_in_background`], for one task.
    pub fn build_task_in_background(
        &self,
        lowered: &Lowered,
        task: usize,
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<Object> {
        let started = Instant::now();
        let symbols: Vec<String> = symbols(lowered).into_iter().skip(task).take(1).collect();
        let part =
            on_large_stack(|| self.build_part(lowered, &[task], &symbols, Effort::Full, stopped))?;
        let part = Part {
            stacks: part
                .stacks
                .into_iter()
                .map(|(_, stack)| (0, stack))
                .collect(),
            ..part
        };
        Ok(Object::of(vec![part], symbols, started.elapsed()))
    }

    /// Compiles a kernel. Threads compile its tasks in parallel, one LLVM module per thread.
    pub fn build(&self, lowered: &Lowered) -> Result<Object> {
        self.build_with(lowered, self.options.effort)
    }

    /// As [`Jit::build`], with an effort of its own. Where quick code would need too much stack, better code is tried.
    pub fn build_with(&self, lowered: &Lowered, effort: Effort) -> Result<Object> {
        self.build_unless(lowered, effort, &|| false)
    }

    /// As [`Jit::build_with`], unless `stopped` says between two steps that the code is not wanted any more.
    pub fn build_unless(
        &self,
        lowered: &Lowered,
        effort: Effort,
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<Object> {
        let made = self.build_at(lowered, effort, stopped);
        match made {
            Err(error) if error.code == "W0331" && effort == Effort::Fast => {
                self.build_at(lowered, Effort::Full, stopped)
            }
            made => made,
        }
    }

    fn build_at(
        &self,
        lowered: &Lowered,
        effort: Effort,
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<Object> {
        let started = Instant::now();
        let symbols = symbols(lowered);
        let parts = self.parts(lowered);
        let work = parts.iter().map(|part| {
            let names: Vec<String> = part.iter().map(|t| symbols[*t].clone()).collect();
            move || self.build_part(lowered, part, &names, effort, stopped)
        });
        let done = on_threads(work.collect());
        let done = done.into_iter().collect::<Result<Vec<Part>>>()?;
        Ok(Object::of(done, symbols, started.elapsed()))
    }

    /// Loads an object from [`Jit::build`]. The code is trusted.
    pub fn load(&self, object: &Object) -> Result<CompiledKernel> {
        let started = Instant::now();
        let code: Vec<&[u8]> = object.code.iter().map(Vec::as_slice).collect();
        let loaded = self.linker.load(&code, &object.symbols)?;
        let tasks = loaded
            .addresses
            .iter()
            .enumerate()
            .map(|(k, address)| CompiledTask {
                // SAFETY: the symbol is a function that code generation has given this type.
                entry: unsafe { std::mem::transmute::<usize, TaskFn>(*address as usize) },
                stack: object.stacks.get(k).copied().unwrap_or(MOST_STACK),
            })
            .collect();
        if self.options.perf {
            perf::note(&code, &object.symbols, &loaded.addresses);
        }
        let mut timings = object.timings;
        timings.link = started.elapsed();
        timings.total += timings.link;
        Ok(CompiledKernel {
            linker: self.linker.clone(),
            loaded: Some(loaded),
            tasks,
            symbols: object.symbols.clone(),
            timings,
        })
    }

    /// The kernel in a textual form of LLVM.
    pub fn text(&self, lowered: &Lowered, what: Text) -> Result<String> {
        let symbols = symbols(lowered);
        let all: Vec<usize> = (0..symbols.len()).collect();
        let effort = self.options.effort;
        on_large_stack(|| {
            let made = self.with_module(lowered, &all, &symbols, effort, |module, machine, _| {
                if what != Text::Ir {
                    optimize::run(module, machine, effort, longest(lowered, &all))?;
                }
                if what != Text::Assembly {
                    return Ok(module.print_to_string().to_string());
                }
                let text = machine
                    .write_to_memory_buffer(module, FileType::Assembly)
                    .map_err(refused)?;
                Ok(String::from_utf8_lossy(text.as_slice()).into_owned())
            });
            Ok(made?.0)
        })
    }

    /// Compiles a kernel on one thread and measures the time of each pass.
    pub fn profile(&self, lowered: &Lowered, effort: Effort) -> Result<Profile> {
        let symbols = symbols(lowered);
        let all: Vec<usize> = (0..symbols.len()).collect();
        let ((mut profile, code), _) = on_large_stack(|| {
            self.with_module(lowered, &all, &symbols, effort, |module, machine, build| {
                let size = longest(lowered, &all);
                let passes = optimize::run_timed(module, machine, effort, size)?;
                let started = Instant::now();
                let code = machine
                    .write_to_memory_buffer(module, FileType::Object)
                    .map_err(refused)?;
                let profile = Profile {
                    build,
                    passes,
                    emit: started.elapsed(),
                    link: Duration::ZERO,
                    bytes: code.as_slice().len(),
                };
                Ok((profile, code.as_slice().to_vec()))
            })
        })?;
        let object = Object {
            code: vec![code],
            symbols,
            stacks: Vec::new(),
            timings: Timings::default(),
        };
        profile.link = self.load(&object)?.timings.link;
        Ok(profile)
    }

    /// Distributes the tasks over threads, the largest first to the least loaded.
    fn parts(&self, lowered: &Lowered) -> Vec<Vec<usize>> {
        let module = lowered.module();
        let threads = self.options.threads.unwrap_or_else(|| {
            std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
        });
        let mut weighed: Vec<(usize, usize)> = module
            .tasks
            .iter()
            .map(|task| module.funcs[task.func].insts.len())
            .enumerate()
            .map(|(task, weight)| (weight, task))
            .collect();
        weighed.sort_unstable_by(|a, b| b.cmp(a));
        let count = threads.clamp(1, weighed.len().max(1));
        let mut parts = vec![(0usize, Vec::new()); count];
        for (weight, task) in weighed {
            if let Some(part) = parts.iter_mut().min_by_key(|p| p.0) {
                part.0 += weight.max(1);
                part.1.push(task);
            }
        }
        parts
            .into_iter()
            .map(|p| p.1)
            .filter(|p| !p.is_empty())
            .collect()
    }

    fn build_part(
        &self,
        lowered: &Lowered,
        tasks: &[usize],
        symbols: &[String],
        effort: Effort,
        stopped: &dyn Fn() -> bool,
    ) -> Result<Part> {
        let check_stopped = || {
            if stopped() || exit::is_exiting() {
                Err(exit::cancelled())
            } else {
                Ok(())
            }
        };
        check_stopped()?;
        room_for_llvm(longest(lowered, tasks))?;
        let compile = |module: &Module<'_>, machine: &TargetMachine, build| {
            check_stopped()?;
            let started = Instant::now();
            let size = longest(lowered, tasks);
            optimize::run(module, machine, effort, size)?;
            check_stopped()?;
            let optimized = Instant::now();
            let object = machine
                .write_to_memory_buffer(module, FileType::Object)
                .map_err(refused)?;
            let timings = Timings {
                build,
                optimize: optimized - started,
                emit: optimized.elapsed(),
                ..Timings::default()
            };
            Ok((object.as_slice().to_vec(), timings))
        };
        let ((code, timings), frames) =
            self.with_module(lowered, tasks, symbols, effort, compile)?;
        let names = |frame: &&Frame| !symbols.contains(&frame.function);
        let called: Vec<&Frame> = frames.iter().filter(names).collect();
        let stacks = tasks.iter().zip(symbols).map(|(task, symbol)| {
            let own = frames.iter().find(|frame| frame.function == *symbol);
            Ok((*task, task_stack(symbol, own, &called)?))
        });
        Ok(Part {
            code,
            stacks: stacks.collect::<Result<_>>()?,
            timings,
        })
    }

    /// Builds a module in a context of its own and passes it to `work`. Returns also the frames of the functions that became
    /// machine code.
    fn with_module<T>(
        &self,
        lowered: &Lowered,
        tasks: &[usize],
        symbols: &[String],
        effort: Effort,
        work: impl FnOnce(&Module<'_>, &TargetMachine, Duration) -> Result<T>,
    ) -> Result<(T, Vec<Frame>)> {
        let started = Instant::now();
        with_frames(|context| {
            let level = optimize::codegen_level(effort);
            let machine = self.machines.take(&self.host, level)?;
            let module = codegen::build(context, lowered, tasks, symbols, &self.host, self.tuning)?;
            finish_module(&module, &self.host, &machine, self.options.verify)?;
            let done = work(&module, &machine, started.elapsed());
            self.machines.release(level, machine);
            done
        })
    }
}

/// The machine code of some tasks.
struct Part {
    code: Vec<u8>,
    /// Tasks, and the bytes of stack that they take.
    stacks: Vec<(usize, u64)>,
    timings: Timings,
}

impl Object {
    fn of(parts: Vec<Part>, symbols: Vec<String>, total: Duration) -> Object {
        let mut object = Object {
            code: Vec::new(),
            stacks: vec![MOST_STACK; symbols.len()],
            symbols,
            timings: Timings::default(),
        };
        for part in parts {
            object.code.push(part.code);
            object.timings.add(&part.timings);
            for (task, stack) in part.stacks {
                object.stacks[task] = stack;
            }
        }
        object.timings.total = total;
        object
    }
}

/// Sets the target of a finished module and verifies it.
pub(crate) fn finish_module(
    module: &Module<'_>,
    host: &Host,
    machine: &TargetMachine,
    verify: bool,
) -> Result<()> {
    module.set_triple(&TargetTriple::create(&host.triple));
    module.set_data_layout(&machine.get_target_data().get_data_layout());
    if verify {
        module.verify().map_err(|e| {
            Error::new("W0503", "the generated LLVM IR is not valid").note(e.to_string())
        })?;
    }
    Ok(())
}

pub(crate) fn refused(e: inkwell::support::LLVMString) -> Error {
    Error::new("W0503", "LLVM could not compile the kernel").note(e.to_string())
}

/// The number of instructions of the longest function of the tasks.
fn longest(lowered: &Lowered, tasks: &[usize]) -> usize {
    let module = lowered.module();
    tasks
        .iter()
        .map(|t| module.funcs[module.tasks[*t].func].insts.len())
        .max()
        .unwrap_or(0)
}

/// `wuji.<kernel>.<task>`, made unique.
fn symbols(lowered: &Lowered) -> Vec<String> {
    let module = lowered.module();
    let mut taken = HashSet::new();
    module
        .tasks
        .iter()
        .map(|task| {
            let mut name = if task.name.starts_with(&module.name) {
                format!("wuji.{}", task.name)
            } else {
                format!("wuji.{}.{}", module.name, task.name)
            };
            while !taken.insert(name.clone()) {
                name.push('\'');
            }
            name
        })
        .collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::diagnostics::in_context;
    use inkwell::OptimizationLevel;
    use inkwell::memory_buffer::MemoryBuffer;
    use wuji_compile::Options;

    fn lowered() -> Lowered {
        let text = "tree T0 { place f0 }\nfield f0: i32 in T0.S0 ()\nkernel fn0 \"k\"() {\nv0: i32 = const 1\nstore f0[], v0\nreturn\n}\n";
        let module = wuji_ir::text::parse(text, "k.wir").unwrap();
        wuji_compile::compile(module, &Options::default()).unwrap()
    }

    /// Compiles LLVM IR on this thread.
    pub(crate) fn assembly(ir: &str) -> Result<Vec<u8>> {
        let machine = Host::detect()?.machine(OptimizationLevel::Default)?;
        in_context(|context| {
            let buffer = MemoryBuffer::create_from_memory_range_copy(ir.as_bytes(), "ir");
            let module = context.create_module_from_ir(buffer).map_err(refused)?;
            let text = machine.write_to_memory_buffer(&module, FileType::Assembly);
            Ok(text.map_err(refused)?.as_slice().to_vec())
        })
    }

    /// The message is the one on the page of its code.
    pub(crate) fn check(error: &Error, expected: &str) {
        assert_eq!(error.to_string(), expected);
        let page = wuji_ir::codes::find(error.code).unwrap().page;
        assert!(page.contains(expected), "{page}");
    }

    /// Invalid inline assembly represents everything that LLVM may reject during code generation.
    #[test]
    fn code_that_llvm_rejects_is_an_error() {
        let jit = Jit::new(&JitOptions::default()).unwrap();
        let lowered = lowered();
        let symbols = symbols(&lowered);
        let made = jit.with_module(
            &lowered,
            &[0],
            &symbols,
            Effort::Fast,
            |module, machine, _| {
                module.set_inline_assembly("\tnonsense %rax\n");
                let object = machine.write_to_memory_buffer(module, FileType::Object);
                object.map_err(refused).map(|o| o.as_slice().len())
            },
        );
        check(
            &made.unwrap_err(),
            "error[W0503]: LLVM could not compile the kernel\n  = note: <inline asm>:1:2: invalid instruction mnemonic 'nonsense'\n        nonsense %rax\n        ^~~~~~~~",
        );
    }
}
