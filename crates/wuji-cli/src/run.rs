//! `wuji run`: launches a kernel.

use crate::failure::{Done, Failure, print_error, print_line};
use crate::input::{Input, Text};
use crate::options::{CompileArgs, MathMode, duration};
use clap::{Args, ValueEnum};
use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wuji_ir::Error;
use wuji_ir::module::Module;
use wuji_runtime::{BackendKind, Device, DeviceOptions};
use wuji_tools::script::{self, Run as Line, ScriptTarget, Source, Start, Subject};

#[derive(Args, Debug)]
#[command(after_help = "\
VALUES has the syntax of `; run:` lines (docs/ir.md, \"Runs\"): `p0 = 3` sets the first parameter, `f0 = [0..8]` a field,
`f0[2, 3] = 1` one element, `a0(2, 3) = [6*0]` an array with its extents, `seed = 7`. `3*0` means `0, 0, 0`.
Everything else starts at zero; arrays start empty.

Examples (paths are relative to the repository):
  wuji run crates/wuji-cli/kernels/squares.wir       run and check the `; run:` lines of the file
  wuji run crates/wuji-cli/kernels/squares.wir --set 'p0 = 3, f0 = [0..8]'
  wuji run crates/wuji-cli/kernels/squares.wir --set 'p0 = 3' --backend interpreter
  wuji run crates/wuji-cli/kernels/julia.wir --launches 100 --tier best --time
  wuji run crates/wuji-cli/kernels/mpm2d.wir --time-limit 5s --profile
")]
pub(crate) struct Run {
    #[command(flatten)]
    input: Input,

    /// The backend that runs the kernel.
    #[arg(long, default_value = "cpu")]
    backend: Backend,

    /// Input values, such as `p0 = 3, f0 = [0..8]`; may be repeated. Ignores the `; run:` lines of the file.
    #[arg(long, value_name = "VALUES")]
    set: Vec<String>,

    /// Number of launches. The outputs of several launches are not compared with the file.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    launches: u64,

    /// Number of worker threads; by default all cores.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,

    /// Compilation tier.
    #[arg(long, default_value = "auto")]
    tier: Tier,

    /// Print the times of compilation and launches to standard error.
    #[arg(long)]
    time: bool,

    /// Print a profile to standard error.
    #[arg(long)]
    profile: bool,

    /// Write a trace of compilations and launches for Perfetto or `chrome://tracing`.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,

    /// Stop a launch that takes longer, such as `5s` or `200ms`.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    time_limit: Option<Duration>,

    /// Print all elements of large fields.
    #[arg(long)]
    full: bool,

    #[command(flatten)]
    compile: CompileArgs,
}

#[derive(ValueEnum, Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Backend {
    /// Machine code.
    Cpu,
    /// The reference interpreter.
    Interpreter,
    /// The first NVIDIA GPU.
    Cuda,
}

impl Backend {
    pub(crate) fn kind(self) -> BackendKind {
        match self {
            Backend::Cpu => BackendKind::Cpu,
            Backend::Interpreter => BackendKind::Interpreter,
            Backend::Cuda => BackendKind::Cuda(0),
        }
    }
}

#[derive(ValueEnum, Copy, Clone, PartialEq, Eq, Debug)]
enum Tier {
    /// Quickly compiled code first, optimized code when the kernel is hot.
    Auto,
    /// Quickly compiled code.
    Fast,
    /// Optimized code.
    Best,
    /// Optimized code that is not vectorized.
    Scalar,
}

/// Inputs and expected outputs of a run.
struct Planned {
    /// The `; run:` line of the file.
    line: Option<Line>,
    start: Start,
}

impl Run {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Done {
        let text = Text::read(&self.input.file)?;
        let module = text.module()?;
        let planned = self.plan(&text, &module)?;
        // Strict, so that results match the interpreter.
        let options = self.compile.options(MathMode::Strict);
        let device = self.device()?;
        let began = Instant::now();
        let mut subject = Subject::new(&device, &module, &options)?;
        if self.time {
            print_line(&format!("ready after {}", shown(began.elapsed())));
        }
        if self.profile || self.trace.is_some() {
            device.profiler().start();
        }
        device.stop_on_ctrl_c()?;
        let closed = print_lines(&device);
        let mut failed = false;
        for one in &planned {
            if let Some(Line { at: Some(at), .. }) = &one.line {
                writeln!(out, "; {}:{}", at.file, at.line)?;
            }
            let launched = self.launch(&module, &mut subject, one, out);
            if closed.load(Ordering::Relaxed) {
                return Err(io::Error::from(ErrorKind::BrokenPipe).into());
            }
            match launched {
                Ok(Ok(checked)) => failed |= !checked,
                Ok(Err(error)) => {
                    print_error(&error);
                    failed = true;
                }
                Err(failure) => return Err(failure),
            }
        }
        if self.profile {
            print_line(device.profiler().report().to_string().trim_end());
        }
        if let Some(path) = &self.trace {
            device.profiler().write_trace(path)?;
        }
        if failed {
            Err(Failure::Reported)
        } else {
            Ok(())
        }
    }

    fn device(&self) -> Done<Device> {
        Ok(Device::new(&DeviceOptions {
            backend: self.backend.kind(),
            threads: self.threads,
            tier: match self.tier {
                Tier::Auto => wuji_runtime::Tier::Auto,
                Tier::Fast => wuji_runtime::Tier::Fast,
                Tier::Best => wuji_runtime::Tier::Best,
                Tier::Scalar => wuji_runtime::Tier::Scalar,
            },
            time_limit: self.time_limit,
            ..DeviceOptions::default()
        })?)
    }

    /// The run of `--set`; else those of the file; else one run from zero.
    fn plan(&self, text: &Text, module: &Module) -> Done<Vec<Planned>> {
        if !self.set.is_empty() {
            let read = || {
                let mut entries = Vec::new();
                for set in &self.set {
                    entries.extend(Source::new(set.as_str()).before()?);
                }
                Start::new(module, &entries)
            };
            let start = read().map_err(Failure::Usage)?;
            return Ok(vec![Planned { line: None, start }]);
        }
        let mut planned = Vec::new();
        for source in script::runs(&text.text, &text.name) {
            let line = source.run()?;
            let start = Start::new(module, &line.before)?;
            let line = Some(line);
            planned.push(Planned { line, start });
        }
        if planned.is_empty() {
            let start = Start::new(module, &[])?;
            planned.push(Planned { line: None, start });
        }
        Ok(planned)
    }

    /// Runs once and prints the outputs. Returns whether they are as expected; if not, the difference was printed. The inner
    /// error is that of a launch.
    fn launch(
        &self,
        module: &Module,
        subject: &mut Subject<'_>,
        planned: &Planned,
        out: &mut dyn Write,
    ) -> Done<Result<bool, Error>> {
        let start = &planned.start;
        subject.begin(start)?;
        let mut times = Vec::new();
        let mut stopped = None;
        for _ in 0..self.launches {
            let began = Instant::now();
            if let Err(error) = subject.launch(start) {
                stopped = Some(error);
                break;
            }
            times.push(began.elapsed());
        }
        if self.time && !times.is_empty() {
            print_times(&mut times);
        }
        if let Some(error) = stopped {
            out.flush()?;
            return Ok(Err(match error.code {
                // The runtime's help is about the Rust API.
                "W0409" => error.help("raise the limit with `--time-limit`"),
                _ => error,
            }));
        }
        subject.finish()?;
        write!(out, "{}", script::print_outputs(subject, self.full)?)?;
        out.flush()?;
        let expected = planned.line.as_ref().filter(|_| self.launches == 1);
        let reports_are_expected = expected.is_some_and(|line| {
            let mut targets = line.after.iter().map(|entry| &entry.target);
            targets.any(|target| *target == ScriptTarget::Reports)
        });
        let reported = subject.reported().filter(|_| !reports_are_expected);
        if let Some(error) = &reported {
            print_error(error);
        }
        if subject.dropped_lines() > 0 {
            let lines = subject.dropped_lines();
            print_line(&format!(
                "{lines} printed lines were dropped: the buffer is full"
            ));
        }
        let checked = expected.map(|line| script::check(module, line, start, subject));
        if let Some(Err(error)) = &checked {
            print_error(error);
        }
        Ok(Ok(reported.is_none() && !matches!(checked, Some(Err(_)))))
    }
}

/// Prints the time of the first launch, and median, minimum and maximum of the others.
/// Prints what kernels print. Returns whether standard output is a pipe that was closed.
fn print_lines(device: &Device) -> Arc<AtomicBool> {
    let closed = Arc::new(AtomicBool::new(false));
    let found = closed.clone();
    device.set_printer(move |line| {
        writeln!(io::stdout().lock(), "{line}").map_err(|e| {
            if e.kind() == ErrorKind::BrokenPipe {
                found.store(true, Ordering::Relaxed);
            }
            let note = format!("standard output: {e}");
            Error::new("W0516", "cannot print what a kernel prints").note(note)
        })
    });
    closed
}

fn print_times(times: &mut [Duration]) {
    let first = times[0];
    print_line(&format!("first launch: {}", shown(first)));
    let others = &mut times[1..];
    others.sort();
    if let [least, .., most] = others {
        let (least, most) = (*least, *most);
        let median = others[others.len() / 2];
        print_line(&format!(
            "{} more launches: median {}, minimum {}, maximum {}",
            others.len(),
            shown(median),
            shown(least),
            shown(most)
        ));
    }
}

/// A time with about three significant digits.
fn shown(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        s if s < 1e-3 => format!("{:.1} us", s * 1e6),
        s if s < 1.0 => format!("{:.2} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}
