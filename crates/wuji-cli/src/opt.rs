//! `wuji opt`: runs compiler passes on a kernel.

use crate::failure::{Done, Failure, print_line};
use crate::input::Text;
use crate::options::{CompileArgs, MathMode};
use clap::error::ErrorKind;
use clap::{Args, ValueEnum};
use std::cell::RefCell;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use wuji_compile::passes::{SWITCHES, Timing};
use wuji_compile::{
    Cx, Functions, Libdevice, Lowered, PASSES, PassKind, autodiff, compile_with, run_pass,
};
use wuji_ir::Error;
use wuji_ir::module::Module;
use wuji_ir::verify::verify;
use wuji_llvm::{Host, Jit, JitOptions};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples (paths are relative to the repository):
  wuji opt --list                                    list the passes and switches
  wuji opt crates/wuji-cli/kernels/squares.wir       print the kernel after all passes
  wuji opt crates/wuji-cli/kernels/squares.wir --passes promote,inline,simplify
  wuji opt crates/wuji-cli/kernels/squares.wir --print-after loops,vectorize
  wuji opt crates/wuji-cli/kernels/mpm2d.wir --time-passes --emit asm > mpm2d.s
  wuji opt crates/wuji-cli/kernels/julia.wir --without vectorize --emit llvm-opt
  wuji opt crates/wuji-cli/kernels/julia.wir --emit ptx --sm 80
  wuji opt crates/wuji-cli/kernels/squares.wir --differentiate reverse --passes simplify
  wuji opt crates/wuji-cli/kernels/mpm3d.wir --passes promote | wuji opt - --passes inline
")]
pub(crate) struct Opt {
    /// A kernel in textual IR (docs/ir.md); `-` is standard input.
    #[arg(value_name = "FILE", required_unless_present = "list")]
    file: Option<String>,

    /// Differentiate the kernel first.
    #[arg(long, value_name = "MODE")]
    differentiate: Option<Mode>,

    /// Run these passes, in this order, separated by commas; by default the whole pipeline.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    passes: Option<Vec<String>>,

    /// Print the kernel after these passes, or after `all`, instead of only at the end.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    print_after: Vec<String>,

    /// What to print at the end.
    #[arg(long, value_name = "WHAT")]
    emit: Option<Emit>,

    /// Print the time of each pass and the number of optional rewrites to standard error.
    #[arg(long)]
    time_passes: bool,

    /// Compile for this number of threads; by default the number of cores.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,

    /// List the passes and the switches that disable parts of them.
    #[arg(long, exclusive = true)]
    list: bool,

    /// The target to compile for.
    #[arg(long, value_name = "MACHINE")]
    target: Option<Machine>,

    /// The compute capability for PTX: 90 is 9.0.
    #[arg(long, value_name = "NUMBER", default_value_t = 90, value_parser = clap::value_parser!(u32).range(70..=999))]
    sm: u32,

    /// For `--target cuda`: NVIDIA's library of mathematical functions, usually called `libdevice.10.bc`; by default not used.
    #[arg(long, value_name = "FILE")]
    libdevice: Option<PathBuf>,

    #[command(flatten)]
    compile: CompileArgs,
}

#[derive(ValueEnum, Copy, Clone, PartialEq, Eq, Debug)]
enum Emit {
    /// Wuji's IR.
    Ir,
    /// LLVM IR before LLVM's passes.
    Llvm,
    /// LLVM IR after LLVM's passes.
    LlvmOpt,
    /// Assembly.
    Asm,
    /// PTX for an NVIDIA GPU.
    Ptx,
}

#[derive(ValueEnum, Copy, Clone, PartialEq, Eq, Debug)]
enum Mode {
    /// The gradient kernel: adjoints of inputs from those of outputs.
    Reverse,
    /// The kernel with tangents beside all values.
    Forward,
}

#[derive(ValueEnum, Copy, Clone, PartialEq, Eq, Debug)]
enum Machine {
    Cpu,
    Cuda,
}

impl Opt {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Done {
        if self.list {
            return list(out);
        }
        let emit = self.emit.unwrap_or(Emit::Ir);
        if self.passes.is_some() && emit != Emit::Ir {
            let why =
                "LLVM requires the whole pipeline: `--emit` and `--passes` cannot be combined";
            return Err(Failure::usage("opt", ErrorKind::ArgumentConflict, why));
        }
        for name in self.print_after.iter().filter(|n| *n != "all") {
            known(name)?;
        }
        for name in self.passes.iter().flatten() {
            known(name)?;
        }
        let text = Text::read(self.file.as_deref().unwrap_or("-"))?;
        let located = text.module()?;
        let mut options = self.compile.options(MathMode::Default);
        let cores = || std::thread::available_parallelism().map_or(1, usize::from) as u32;
        options.threads = self.threads.unwrap_or_else(cores);
        if self.compile.vector_bits.is_none() {
            options.vector_bits = Host::detect()?.preferred_vector_bits();
        }
        options.fma = Host::detect()?.has("fma");
        let by_default = match emit {
            Emit::Ptx => Machine::Cuda,
            Emit::Ir | Emit::Llvm | Emit::LlvmOpt | Emit::Asm => Machine::Cpu,
        };
        let machine = self.target.unwrap_or(by_default);
        if machine != by_default && emit != Emit::Ir {
            let why = "`--emit ptx` requires `--target cuda`; `llvm`, `llvm-opt` and `asm` require `--target cpu`";
            return Err(Failure::usage("opt", ErrorKind::ArgumentConflict, why));
        }
        match (&self.libdevice, machine) {
            (None, _) => {}
            (Some(path), Machine::Cuda) => {
                options.functions = Functions::Libdevice(Arc::new(Libdevice::read(path)?));
            }
            (Some(_), Machine::Cpu) => {
                let why = "`--libdevice` requires `--target cuda`";
                return Err(Failure::usage("opt", ErrorKind::ArgumentConflict, why));
            }
        }
        if machine == Machine::Cuda {
            options = options.for_cuda(self.sm);
        }
        // The callback cannot return an error, so a failed write is reported afterwards.
        let written = RefCell::new(Ok(()));
        let sink = RefCell::new(&mut *out);
        let mut cx = Cx::new(&options);
        if !self.print_after.is_empty() {
            cx.print_after = Some(Box::new(|pass, module| {
                let wanted = |n: &String| n == pass || n == "all";
                let mut written = written.borrow_mut();
                if written.is_ok() && self.print_after.iter().any(wanted) {
                    *written = writeln!(sink.borrow_mut(), "; after {pass}\n{module}");
                }
            }));
        }
        // Without added source positions, so that the output stays readable.
        let result = self.passes(text.as_written()?, &mut cx);
        let (timings, spent) = (std::mem::take(&mut cx.timings), cx.spent());
        drop(cx);
        written.into_inner()?;
        let (result, timings) = match result {
            Ok(Made::All(lowered)) => {
                let timings = lowered.timings().to_vec();
                (Ok(Made::All(lowered)), timings)
            }
            other => (other, timings),
        };
        if self.time_passes {
            print_times(&timings);
        }
        if self.time_passes || self.compile.fuel.is_some() {
            print_line(&format!("{spent} optional rewrites"));
        }
        let made = match result {
            // Compiles again with source positions, for a better error.
            Err(_) => self.passes(located, &mut Cx::new(&options))?,
            Ok(made) => made,
        };
        // Everything that was requested has been printed.
        if self.emit.is_none() && !self.print_after.is_empty() {
            return Ok(());
        }
        self.emit(emit, &made, out)
    }

    fn passes(&self, module: Module, cx: &mut Cx<'_>) -> Done<Made> {
        let mut module = match self.differentiate {
            None => module,
            Some(Mode::Reverse) => autodiff::gradient_of(module)?,
            Some(Mode::Forward) => autodiff::tangent_of(module)?,
        };
        let Some(passes) = &self.passes else {
            return Ok(Made::All(Box::new(compile_with(module, cx)?)));
        };
        for pass in passes {
            run_pass(pass, &mut module, cx)?;
            let broken = |e: Error| e.note(format!("the pass `{pass}` produced this"));
            verify(&module).map_err(broken)?;
        }
        Ok(Made::Some(Box::new(module)))
    }

    fn emit(&self, emit: Emit, made: &Made, out: &mut dyn Write) -> Done {
        let lowered = match made {
            Made::Some(module) => return Ok(write!(out, "{module}")?),
            Made::All(lowered) if emit == Emit::Ir => {
                return Ok(write!(out, "{}", lowered.module())?);
            }
            Made::All(lowered) => lowered,
        };
        if emit == Emit::Ptx {
            return Ok(write!(
                out,
                "{}",
                wuji_llvm::cuda::ptx(lowered, self.sm)?.text
            )?);
        }
        let jit = Jit::new(&JitOptions {
            vector_bits: Some(lowered.options().vector_bits).filter(|bits| *bits != 0),
            ..JitOptions::default()
        })?;
        let what = match emit {
            Emit::Ir | Emit::Llvm => wuji_llvm::Text::Ir,
            Emit::LlvmOpt => wuji_llvm::Text::OptimizedIr,
            Emit::Asm | Emit::Ptx => wuji_llvm::Text::Assembly,
        };
        Ok(write!(out, "{}", jit.text(lowered, what)?)?)
    }
}

/// The result of the passes.
enum Made {
    All(Box<Lowered>),
    Some(Box<Module>),
}

/// Checks that a pass of this name exists.
fn known(name: &str) -> Done {
    let found = PASSES.iter().any(|p| p.name == name);
    if found {
        Ok(())
    } else {
        // Returns the compiler's error, which suggests a name.
        Ok(run_pass(name, &mut Module::default(), &mut Cx::default())?)
    }
}

fn list(out: &mut dyn Write) -> Done {
    writeln!(out, "passes, in order (those marked * can be disabled):")?;
    for pass in PASSES {
        let mark = match pass.kind {
            PassKind::Lowering => ' ',
            PassKind::Optimization => '*',
        };
        writeln!(out, "{mark} {:<18} {}", pass.name, pass.sentence)?;
    }
    writeln!(out, "\nparts of passes that can be disabled:")?;
    for (name, sentence) in SWITCHES {
        writeln!(out, "* {name:<18} {sentence}")?;
    }
    Ok(())
}

fn print_times(timings: &[Timing]) {
    let whole: Duration = timings.iter().map(|t| t.time).sum();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    print_line(&format!("{:>10} {:>7}  pass", "ms", "share"));
    for t in timings {
        let share = 100.0 * t.time.as_secs_f64() / whole.as_secs_f64().max(1e-12);
        print_line(&format!("{:>10.3} {share:>6.1}%  {}", ms(t.time), t.pass));
    }
    print_line(&format!("{:>10.3} {:>7}  all", ms(whole), ""));
}
