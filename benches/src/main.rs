//! Benchmarks against hand-written loops; run by `cargo xtask bench`.

mod algorithms;
mod case;
mod cpp;
mod flow;
mod forms;
mod gpu;
mod gradients;
mod host;
mod launches;
mod measure;
mod paper;
mod pool;
mod quantized;
mod serve;
mod sparse;
mod starts;
mod study;
mod symbolic;
mod tiers;
mod transfer;
mod workloads;

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use regex_lite::Regex;
use wuji::{Math, Tier, World};

use case::{Case, Contender};
use cpp::Cpp;
use measure::{Clock, Row, interleave};
use pool::Pool;
use study::{Bench, Study};

const HELP: &str = "\
wuji-bench [--filter REGEX] [--json FILE] [--guard] [--cpp LIBRARY] [--pairs N] [--threads N] [--cpu-time] [--without NAMES] [--list] [--gpu] [--flow] [--paper] [--paper-size] [--tasks] [--serve NAME] [--fast-math]

`cargo xtask help bench` explains the options.";

/// The metric of rows that compare checked with unchecked accesses.
const GUARD: &str = "guard_ratio";

struct Options {
    filter: Option<Regex>,
    json: Option<String>,
    cpp: Option<String>,
    guard: bool,
    clock: Clock,
    pairs: usize,
    threads: usize,
    /// Optimizations that are disabled in all worlds.
    without: Vec<String>,
    list: bool,
    /// Run on a GPU.
    gpu: bool,
    /// Print the tables of inter-kernel optimization.
    flow: bool,
    /// Print the tables of the paper on sparse data structures.
    paper: bool,
    /// Programs in the size of their paper.
    paper_size: bool,
    /// List the tasks of a run in the tables of inter-kernel optimization.
    tasks: bool,
    /// A workload to run on request from another process.
    serve: Option<String>,
    math: Math,
}

impl Options {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Option<Options>, String> {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let mut options = Options {
            filter: None,
            json: None,
            cpp: None,
            guard: false,
            clock: Clock::Wall,
            pairs: 15,
            threads: cores,
            without: Vec::new(),
            list: false,
            gpu: false,
            flow: false,
            paper: false,
            paper_size: false,
            tasks: false,
            serve: None,
            math: Math::default(),
        };
        while let Some(word) = words.next() {
            let (name, mut attached) = match word.split_once('=') {
                Some((name, value)) => (name.to_string(), Some(value.to_string())),
                None => (word, None),
            };
            let mut value = || {
                attached
                    .take()
                    .or_else(|| words.next())
                    .ok_or(format!("`{name}` needs a value"))
            };
            let number = |text: String| match text.parse() {
                Ok(n) if n > 0 => Ok(n),
                _ => Err(format!("`{text}`: expected a positive number")),
            };
            match name.as_str() {
                "--filter" => options.filter = Some(regex(&value()?)?),
                "--json" => options.json = Some(value()?),
                "--cpp" => options.cpp = Some(value()?),
                "--guard" => options.guard = true,
                "--cpu-time" => (options.clock, options.threads) = (Clock::Cpu, 1),
                "--pairs" => options.pairs = number(value()?)?,
                "--threads" => options.threads = number(value()?)?,
                "--without" => {
                    let names = value()?;
                    options.without = names.split(',').map(str::to_owned).collect();
                }
                "--list" => options.list = true,
                "--gpu" => options.gpu = true,
                "--flow" => options.flow = true,
                "--paper" => options.paper = true,
                "--paper-size" => options.paper_size = true,
                "--tasks" => options.tasks = true,
                "--serve" => options.serve = Some(value()?),
                "--fast-math" => options.math = Math::Fast,
                "--help" | "-h" => return Ok(None),
                other => return Err(format!("unknown option `{other}`\n\n{HELP}")),
            }
        }
        Ok(Some(options))
    }
}

fn regex(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|e| format!("`--filter {text}`: {e}"))
}

fn main() -> ExitCode {
    let child = starts::child().or_else(gpu::child);
    let outcome = match (child, Options::parse(std::env::args().skip(1))) {
        (Some(done), _) => done,
        (None, parsed) => run(parsed),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(parsed: Result<Option<Options>, String>) -> Result<(), String> {
    match parsed {
        Ok(None) => {
            println!("{HELP}");
            Ok(())
        }
        Ok(Some(options)) => bench(&options),
        Err(message) => Err(message),
    }
}

fn bench(options: &Options) -> Result<(), String> {
    let filter = options.filter.as_ref();
    let wanted = |name: &str| filter.is_none_or(|filter| filter.is_match(name));
    if options.flow {
        return flow_tables(options, wanted);
    }
    if options.paper {
        return paper_tables(options, wanted);
    }
    if options.gpu {
        return gpu::run(wanted, options.json.as_deref(), &options.without);
    }
    let mut cases: Vec<Box<dyn Case>> = workloads::all();
    if let Some(name) = &options.serve {
        let case = cases.iter().find(|case| case.name() == name);
        let case = case.ok_or(format!("unknown workload `{name}`; `--list` shows all"))?;
        return serve::serve(&**case, &world(options, Tier::Auto, true)?, options.clock);
    }
    cases.retain(|case| wanted(case.name()));
    let mut studies: Vec<Box<dyn Study>> = launches::all();
    studies.extend(starts::all());
    studies.extend(algorithms::all());
    studies.extend(sparse::all());
    studies.extend(gradients::all());
    studies.extend(quantized::all());
    studies.extend(flow::all());
    studies.extend(symbolic::all());
    studies.extend(forms::all());
    studies.extend(tiers::all());
    studies.retain(|study| wanted(study.name()));
    if options.list {
        let list = |name, size, metric| println!("{name:<21} {size:<16} {metric}");
        for case in &cases {
            list(case.name(), case.size(), case.metric());
        }
        for study in &studies {
            list(study.name(), study.size(), study.metric());
        }
        return Ok(());
    }
    if cases.is_empty() && studies.is_empty() {
        return Err("no workload matches; `--list` shows all".into());
    }
    let mut json = match &options.json {
        None => None,
        Some(path) => {
            Some(std::fs::File::create(path).map_err(|e| format!("cannot write {path}: {e}"))?)
        }
    };
    let cpp = match &options.cpp {
        None => None,
        Some(path) => {
            let cpp = Cpp::open(path)?;
            cpp.set_threads(options.threads)?;
            Some(cpp)
        }
    };
    let pool = Arc::new(Pool::new(options.threads));
    println!(
        "{} threads, {:?}, median of {} pairs\n",
        options.threads,
        host::Level::detect(),
        options.pairs
    );
    println!("{}", Row::heading());
    let mut guards = Vec::new();
    let mut report = |row: &Row| {
        println!("{}", row.line());
        match &mut json {
            None => Ok(()),
            Some(file) => writeln!(file, "{}", row.json())
                .map_err(|e| format!("cannot write the results: {e}")),
        }
    };
    for case in &cases {
        for row in rows(&**case, &pool, cpp.as_ref(), options)? {
            report(&row)?;
            if row.metric == GUARD {
                guards.push(row.ratio);
            }
        }
    }
    let bench = Bench {
        pool,
        threads: options.threads,
        pairs: options.pairs,
        clock: options.clock,
        without: options.without.clone(),
    };
    for study in &studies {
        for row in study.rows(&bench)? {
            report(&row)?;
        }
    }
    if guards.len() > 1 {
        let mean = (guards.iter().map(|r| r.ln()).sum::<f64>() / guards.len() as f64).exp();
        report(&Row {
            workload: "geomean".into(),
            size: format!("{} workloads", guards.len()),
            backend: "cpu".into(),
            metric: GUARD.into(),
            value: mean,
            reference: 1.0,
            ratio: mean,
            compile_ms: None,
        })?;
    }
    Ok(())
}

/// The tables of inter-kernel optimization.
fn flow_tables(options: &Options, wanted: impl Fn(&str) -> bool) -> Result<(), String> {
    let size = match (options.gpu, options.paper_size) {
        (true, _) => flow::Size::Gpu,
        (false, true) => flow::Size::Paper,
        (false, false) => flow::Size::Quick,
    };
    let request = flow::tables::Request {
        size,
        rounds: options.pairs,
        clock: options.clock,
        json: options.json.as_deref(),
        backend: if options.gpu { "cuda" } else { "cpu" },
        tasks: options.tasks,
    };
    let worlds = |lazy: bool, without: &[&str]| {
        let never = options.without.iter().map(String::as_str);
        let without: Vec<&str> = without.iter().copied().chain(never).collect();
        let builder = World::builder()
            .cache(wuji::CacheChoice::Off)
            .tier(Tier::Best)
            .math(options.math)
            .lazy(lazy)
            .without(&without);
        let builder = if options.gpu {
            builder.cuda(0)
        } else {
            builder.threads(options.threads)
        };
        builder.build().map_err(|e| e.to_string())
    };
    flow::tables::print(&request, &worlds, wanted)
}

/// The tables of the paper on sparse data structures.
fn paper_tables(options: &Options, wanted: impl Fn(&str) -> bool) -> Result<(), String> {
    use paper::measure::{Device, Request, Threads};
    let worlds = |threads: Threads, without: &[&str]| {
        let never = options.without.iter().map(String::as_str);
        let without: Vec<&str> = without.iter().copied().chain(never).collect();
        let builder = World::builder()
            .cache(wuji::CacheChoice::Off)
            .tier(Tier::Best)
            .math(options.math)
            .without(&without);
        let builder = match (options.gpu, threads) {
            (true, _) => builder.cuda(0),
            (false, Threads::All) => builder.threads(options.threads),
            (false, Threads::One) => builder.threads(1),
        };
        builder.build().map_err(|e| e.to_string())
    };
    let request = Request {
        size: if options.paper_size {
            paper::Size::Paper
        } else {
            paper::Size::Small
        },
        pairs: options.pairs,
        clock: options.clock,
        json: options.json.as_deref(),
        pool: Arc::new(Pool::new(options.threads)),
        worlds: &worlds,
        device: if options.gpu {
            Device::Gpu
        } else {
            Device::Cpu
        },
    };
    if options.list {
        paper::tables::list(&request);
        return Ok(());
    }
    paper::tables::print(&request, wanted)
}

/// A fresh world, so that its kernels are not compiled yet.
fn world(options: &Options, tier: Tier, checked: bool) -> Result<World, String> {
    let without: Vec<&str> = options.without.iter().map(String::as_str).collect();
    let builder = World::builder()
        .cache(wuji::CacheChoice::Off)
        .threads(options.threads)
        .tier(tier)
        .math(options.math)
        .without(&without);
    let builder = if checked {
        builder
    } else {
        // SAFETY: only `wuji_inside` gets such a world, and its kernels have no out-of-range accesses.
        unsafe { builder.unchecked() }
    };
    builder.build().map_err(|e| e.to_string())
}

/// The rows of one workload.
fn rows(
    case: &dyn Case,
    pool: &Arc<Pool>,
    cpp: Option<&Cpp>,
    options: &Options,
) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    {
        let mut reference = case.reference(pool);
        // Like a user's program: fast code first, and the best code before anything is compared.
        let world = world(options, Tier::Auto, true)?;
        let mut wuji = case.wuji(&world).map_err(|e| e.to_string())?;
        let cold = agree(case, options.clock, "Wuji", &mut *reference, &mut *wuji)?;
        world.finish_compiling().map_err(|e| e.to_string())?;
        let pair = interleave(&mut *wuji, &mut *reference, options.pairs, options.clock)?;
        rows.push(Row {
            workload: case.name().into(),
            size: case.size(),
            backend: "cpu".into(),
            metric: case.metric().into(),
            value: case.work() / pair.first_s,
            reference: case.work() / pair.second_s,
            ratio: pair.ratio,
            compile_ms: Some((cold - pair.first_s).max(0.0) * 1e3),
        });
    }
    if options.guard {
        let mut checked = case
            .wuji(&world(options, Tier::Best, true)?)
            .map_err(|e| e.to_string())?;
        let mut unchecked = case
            .wuji_inside(&world(options, Tier::Best, false)?)
            .map_err(|e| e.to_string())?;
        agree(
            case,
            options.clock,
            "unchecked Wuji",
            &mut *checked,
            &mut *unchecked,
        )?;
        let pair = interleave(&mut *checked, &mut *unchecked, options.pairs, options.clock)?;
        rows.push(Row {
            workload: case.name().into(),
            size: case.size(),
            backend: "cpu".into(),
            metric: GUARD.into(),
            value: case.work() / pair.first_s,
            reference: case.work() / pair.second_s,
            ratio: pair.ratio,
            compile_ms: None,
        });
    }
    if let Some(cpp) = cpp {
        let mut reference = case.reference(pool);
        let mut other = case.cpp(cpp, options.threads)?;
        agree(
            case,
            options.clock,
            "the C++ loop",
            &mut *reference,
            &mut *other,
        )?;
        let pair = interleave(&mut *reference, &mut *other, options.pairs, options.clock)?;
        rows.push(Row {
            workload: case.name().into(),
            size: case.size(),
            backend: "reference".into(),
            metric: case.metric().into(),
            value: case.work() / pair.first_s,
            reference: case.work() / pair.second_s,
            ratio: pair.ratio,
            compile_ms: None,
        });
    }
    Ok(rows)
}

/// Runs both once from the same start and compares the results. Returns the seconds that the second one took.
fn agree(
    case: &dyn Case,
    clock: Clock,
    whose: &str,
    a: &mut dyn Contender,
    b: &mut dyn Contender,
) -> Result<f64, String> {
    a.run()?;
    let start = clock.now();
    b.run()?;
    let seconds = clock.now() - start;
    let far = case.difference(&b.result()?, &a.result()?);
    if far <= case.tolerance() {
        return Ok(seconds);
    }
    Err(format!(
        "{}: {whose} and the reference disagree: {far:.1e} is more than {:.1e}",
        case.name(),
        case.tolerance()
    ))
}
