//! Simulations with quantized storage: each runs the same kernels with fields of machine types and with packed fields.
//!
//! A [`Simulation`] runs in a [`Run`], which has its world, its size and its steps. It returns a [`Report`]: memory and time of
//! each layout, and a picture. So a simulation contains only its kernels, its layouts and its picture.

pub mod book;
pub mod life;
pub mod mpm;
pub mod smoke;

use crate::progress::Progress;
use clap::Args;
use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;
use wuji::World;
use wuji::tune::{Trial, Tuned};
use wuji::viewer::Picture;

/// A result with any error.
pub type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// A simulation with quantized storage.
#[derive(Clone, Copy, Debug)]
pub struct Simulation {
    /// Its name on the command line.
    pub name: &'static str,
    /// One line: what is simulated, and how it is stored.
    pub about: &'static str,
    /// The long description on its page.
    pub long: &'static str,
    /// The meaning of `--size`, its default, and a size for a large GPU.
    pub size: (&'static str, usize, usize),
    /// The default number of steps.
    pub steps: usize,
    /// Runs it.
    pub run: fn(&Run) -> Outcome<Report>,
    /// One run of the search for types.
    pub tune: Option<fn(&Run, &Trial<'_>) -> wuji::Result<()>>,
    /// Its source code, and the path of its file.
    pub file: &'static str,
    /// The source code.
    pub source: &'static str,
}

impl Simulation {
    /// Lines of code, without blank lines, comments and tests.
    pub fn lines(&self) -> usize {
        let code = self.source.split("#[cfg(test)]").next().unwrap_or_default();
        let counts = |line: &&str| !line.is_empty() && !line.starts_with("//");
        code.lines().map(str::trim).filter(counts).count()
    }
}

/// Options of all simulations.
#[derive(Args, Clone, Debug, Default)]
pub struct Options {
    /// Output path: a directory, or a file that ends in .png. The default is the current directory.
    #[arg(long, value_name = "PATH")]
    pub out: Option<PathBuf>,
    /// Problem size: cells along each side.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(8..=262_144))]
    pub size: Option<u32>,
    /// Steps or generations.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=100_000_000))]
    pub steps: Option<u32>,
    /// Run on the first CUDA device.
    #[arg(long)]
    pub cuda: bool,
    /// Number of worker threads; by default one per core.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024), conflicts_with = "cuda")]
    pub threads: Option<u32>,
}

/// What a simulation runs with.
#[derive(Clone, Debug)]
pub struct Run {
    /// The world.
    pub world: World,
    /// The problem size.
    pub size: usize,
    /// The number of steps.
    pub steps: usize,
}

/// Memory and time of one layout.
#[derive(Clone, Debug)]
pub struct Row {
    /// The name of the layout.
    pub layout: &'static str,
    /// Bytes of a particle or a cell.
    pub bytes: f64,
    /// Milliseconds of a step, if the layout fits into memory.
    pub time: Option<f64>,
    /// Statistics of the result.
    pub note: String,
}

impl Row {
    /// A layout that does not fit into memory.
    pub fn too_large(layout: &'static str, bytes: f64) -> Row {
        Row {
            layout,
            bytes,
            time: None,
            note: String::new(),
        }
    }
}

/// Whether fields could not be allocated because memory is too small, on the host or on the device.
pub fn does_not_fit(error: &wuji::Error) -> bool {
    matches!(error.code, "W0110" | "W0522")
}

/// What a simulation measured.
#[derive(Clone, Debug)]
pub struct Report {
    /// The problem size.
    pub what: String,
    /// What `bytes` of a row counts: a particle, or a cell.
    pub unit: &'static str,
    /// The measurements, one row per layout.
    pub rows: Vec<Row>,
    /// The result of each layout, side by side.
    pub picture: Picture,
}

impl Report {
    /// The size, and a line for each layout.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n", self.what);
        for row in &self.rows {
            let result = match row.time {
                Some(time) => format!("{time:>9.3} ms per step; {}", row.note),
                None => "does not fit into memory".to_string(),
            };
            text += &format!(
                "  {:<14} {:>8.3} bytes per {}, {result}\n",
                row.layout, row.bytes, self.unit
            );
        }
        text
    }
}

/// Runs the steps, and returns the milliseconds of one. The first step compiles, so it is not measured.
pub fn time_steps(
    world: &World,
    steps: usize,
    mut step: impl FnMut(usize) -> wuji::Result<()>,
) -> wuji::Result<f64> {
    step(0)?;
    world.synchronize()?;
    let start = Instant::now();
    for n in 1..steps {
        step(n)?;
    }
    world.synchronize()?;
    Ok(start.elapsed().as_secs_f64() * 1e3 / steps.saturating_sub(1).max(1) as f64)
}

/// All simulations.
pub const ALL: &[&Simulation] = &[&mpm::MPM, &life::LIFE, &smoke::SMOKE];

/// The list of simulations, one line each.
pub fn list() -> String {
    let width = ALL.iter().map(|s| s.name.len()).max().unwrap_or(0);
    let line = |s: &&Simulation| {
        let (what, size, large) = s.size;
        format!(
            "  {:width$}  {}\n  {:width$}  --size: {what}, default {size}, on a large GPU {large}; --steps: default {}\n",
            s.name, s.about, "", s.steps
        )
    };
    ALL.iter().map(line).collect()
}

fn prepare(simulation: &Simulation, options: &Options) -> Outcome<Run> {
    let mut world = World::builder();
    if options.cuda {
        world = world.cuda(0);
    }
    if let Some(threads) = options.threads {
        world = world.threads(threads as usize);
    }
    Ok(Run {
        world: world.build()?,
        size: options.size.map_or(simulation.size.1, |n| n as usize),
        steps: options.steps.map_or(simulation.steps, |n| n as usize),
    })
}

/// Searches the types of a simulation with the least memory for an error.
pub fn tune(simulation: &Simulation, options: &Options, error: f64) -> Outcome<Tuned> {
    let Some(program) = simulation.tune else {
        let name = simulation.name;
        return Err(format!("{name} has no types to choose: its cells are bits").into());
    };
    let run = prepare(simulation, options)?;
    let mut bar = Progress::new(1);
    let mut total = 0;
    let search = wuji::tune::quant().error(error).progress(move |step| {
        if step.total != total {
            total = step.total;
            bar = Progress::new(total);
        }
        bar.show(step.done, step.note);
    });
    Ok(search.run(|trial| program(&run, trial))?)
}

/// Runs a simulation. Returns its report and the picture that it wrote.
pub fn perform(simulation: &Simulation, options: &Options) -> Outcome<(Report, PathBuf)> {
    let run = prepare(simulation, options)?;
    let name = format!("{}.png", simulation.name);
    let file = match &options.out {
        None => PathBuf::from(name),
        Some(path) if path.extension().is_some() && !path.is_dir() => path.clone(),
        Some(folder) => {
            std::fs::create_dir_all(folder)?;
            folder.join(name)
        }
    };
    let report = (simulation.run)(&run)?;
    let save = report.picture.save_png(&file);
    save.map_err(|e| format!("cannot write {}: {e}", file.display()))?;
    Ok((report, file))
}

#[cfg(test)]
mod tests;
