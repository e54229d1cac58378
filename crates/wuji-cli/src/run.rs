//! `wuji run`: launches of a kernel.

use crate::failure::{Done, Failure, say, tell};
use crate::input::{Input, Text};
use crate::options::{CompileArgs, MathMode, duration};
use clap::{Args, ValueEnum};
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use wuji_ir::module::Module;
use wuji_runtime::script::{self, Run as Line, ScriptTarget, Source, Start, Subject};
use wuji_runtime::{Device, DeviceOptions};

#[derive(Args, Debug)]
#[command(after_help = "\
Values are written as in `; run:` lines (docs/ir.md, \"Runs\"): `p0 = 3` is the first parameter, `f0 = [0..8]` a field,
`f0[2, 3] = 1` one element, `a0(2, 3) = [6*0]` an array with its extents, `seed = 7`. `3*0` is `0, 0, 0`.
What is not mentioned starts at zero, arrays with no elements.

Examples (the files are in the folder of the sources):
  wuji run crates/wuji-cli/kernels/squares.wir       its own runs, compared with what they say
  wuji run crates/wuji-cli/kernels/squares.wir --set 'p0 = 3, f0 = [0..8]'
  wuji run crates/wuji-cli/kernels/squares.wir --set 'p0 = 3' --backend interpreter
  wuji run crates/wuji-cli/kernels/julia.wir --launches 100 --tier best --time
  wuji run crates/wuji-cli/kernels/mpm2d.wir --time-limit 5s --profile
")]
pub(crate) struct Run {
    #[command(flatten)]
    input: Input,

    /// What runs the kernel.
    #[arg(long, default_value = "cpu")]
    backend: Backend,

    /// Values to start from, such as `p0 = 3, f0 = [0..8]`; may be given several times. The file's own runs are
    /// left alone then.
    #[arg(long, value_name = "VALUES")]
    set: Vec<String>,

    /// How often the kernel is launched. What several launches leave is not compared with what the file says.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    launches: u64,

    /// Threads that run parallel loops; all cores when left out.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,

    /// How good the code is, and how soon it is there.
    #[arg(long, default_value = "auto")]
    tier: Tier,

    /// Say on the standard error output how long compilation and launches took.
    #[arg(long)]
    time: bool,

    /// Print tables of where the time went on the standard error output.
    #[arg(long)]
    profile: bool,

    /// Write a trace of compilations and launches that Perfetto and `chrome://tracing` show.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,

    /// A launch that takes longer ends with an error; like `5s` or `200ms`.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    time_limit: Option<Duration>,

    /// Print all elements, however many there are.
    #[arg(long)]
    full: bool,

    #[command(flatten)]
    compile: CompileArgs,
}

#[derive(ValueEnum, Copy, Clone, PartialEq, Eq, Debug)]
enum Backend {
    /// Machine code.
    Cpu,
    /// The interpreter that defines what kernels mean.
    Interpreter,
    /// The first NVIDIA GPU.
    Cuda,
}

#[derive(ValueEnum, Copy, Clone, PartialEq, Eq, Debug)]
enum Tier {
    /// Quick code first, better code when the kernel proves hot.
    Auto,
    /// Quick code.
    Fast,
    /// The best code, however long it takes.
    Best,
}

/// What to launch, and what it should leave.
struct Planned {
    /// The line of the file that says so.
    line: Option<Line>,
    start: Start,
}

impl Run {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Done {
        let text = Text::read(&self.input.file)?;
        let module = text.module()?;
        let planned = self.plan(&text, &module)?;
        // Strict, so that results are those of the interpreter.
        let options = self.compile.options(MathMode::Strict);
        let device = self.device()?;
        let began = Instant::now();
        let mut subject = Subject::new(&device, &module, &options)?;
        if self.time {
            say(&format!("ready after {}", shown(began.elapsed())));
        }
        if self.profile || self.trace.is_some() {
            device.profiler().start();
        }
        device.stop_on_ctrl_c()?;
        let mut failed = false;
        for one in &planned {
            if let Some(Line { at: Some(at), .. }) = &one.line {
                writeln!(out, "; {}:{}", at.file, at.line)?;
            }
            failed |= !self.launch(&module, &mut subject, one, out)?;
        }
        if self.profile {
            say(device.profiler().report().to_string().trim_end());
        }
        if let Some(path) = &self.trace {
            device.profiler().write_trace(path)?;
        }
        match failed {
            true => Err(Failure::Told),
            false => Ok(()),
        }
    }

    fn device(&self) -> Done<Device> {
        Ok(Device::new(&DeviceOptions {
            backend: match self.backend {
                Backend::Cpu => wuji_runtime::Backend::Cpu,
                Backend::Interpreter => wuji_runtime::Backend::Interpreter,
                Backend::Cuda => wuji_runtime::Backend::Cuda(0),
            },
            threads: self.threads,
            tier: match self.tier {
                Tier::Auto => wuji_runtime::Tier::Auto,
                Tier::Fast => wuji_runtime::Tier::Fast,
                Tier::Best => wuji_runtime::Tier::Best,
            },
            time_limit: self.time_limit,
            ..DeviceOptions::default()
        })?)
    }

    /// What `--set` says; else what the file says; else one run from zero.
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

    /// Runs from one start, and prints what is left. Says whether all went well; if not, why was told.
    fn launch(
        &self,
        module: &Module,
        subject: &mut Subject<'_>,
        planned: &Planned,
        out: &mut dyn Write,
    ) -> Done<bool> {
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
            tell_times(&mut times);
        }
        if let Some(error) = stopped {
            out.flush()?;
            tell(&match error.code {
                // The runtime speaks to people who write programs.
                "W0409" => error.help("give it more time: `--time-limit`"),
                _ => error,
            });
            return Ok(false);
        }
        subject.finish()?;
        write!(out, "{}", script::tell(subject, self.full)?)?;
        out.flush()?;
        let expected = planned.line.as_ref().filter(|_| self.launches == 1);
        let reports_are_expected = expected.is_some_and(|line| {
            let mut targets = line.after.iter().map(|entry| &entry.target);
            targets.any(|target| *target == ScriptTarget::Reports)
        });
        let reported = subject.reported().filter(|_| !reports_are_expected);
        if let Some(error) = &reported {
            tell(error);
        }
        if subject.dropped_lines() > 0 {
            let lines = subject.dropped_lines();
            say(&format!(
                "{lines} more lines were printed than there is room for"
            ));
        }
        let checked = expected.map(|line| script::check(module, line, start, subject));
        if let Some(Err(error)) = &checked {
            tell(error);
        }
        Ok(reported.is_none() && !matches!(checked, Some(Err(_))))
    }
}

/// The first launch, and the others from least to most.
fn tell_times(times: &mut [Duration]) {
    let first = times[0];
    say(&format!("the first launch took {}", shown(first)));
    let others = &mut times[1..];
    others.sort();
    if let [least, .., most] = others {
        let (least, most) = (*least, *most);
        let median = others[others.len() / 2];
        say(&format!(
            "{} more took {} each at the median, {} at least, {} at most",
            others.len(),
            shown(median),
            shown(least),
            shown(most)
        ));
    }
}

/// A time with three digits or so.
fn shown(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        s if s < 1e-3 => format!("{:.1} us", s * 1e6),
        s if s < 1.0 => format!("{:.2} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}
