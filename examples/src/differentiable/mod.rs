//! Differentiable simulators: each computes the gradient of a loss by a tape, and reaches a goal by gradient descent.
//!
//! A [`Simulator`] runs in a [`Study`], which has its world and the number of iterations, and shows the progress. It returns a
//! [`Report`]: the losses, the goal, and an animation of what it found. So a simulator contains only its kernels, its fields, its
//! optimization and its pictures.

pub mod billiards;
pub mod book;
mod choice;
pub mod descent;
pub mod diffmpm;
pub mod diffmpm3d;
pub mod electric;
pub mod liquid;
pub mod mass_spring;
pub mod newton;
pub mod plot;
pub mod rigid_body;
pub mod rollout;
pub mod smoke;
mod study;
pub mod target;
pub mod volume_renderer;
pub mod water_renderer;
pub mod wave;

pub use choice::Choice;
pub use descent::{Adam, Parameter, descend};
pub use study::{Outcome, Report, Results, Study};

use clap::Args;
use std::path::PathBuf;

/// A differentiable simulator.
#[derive(Clone, Copy, Debug)]
pub struct Simulator {
    /// Its name on the command line.
    pub name: &'static str,
    /// One line: what is simulated, and what is optimized.
    pub about: &'static str,
    /// The long description in its help.
    pub long: &'static str,
    /// What the optimization reaches.
    pub goal: &'static str,
    /// The meaning of `--size`, and its default.
    pub size: (&'static str, usize),
    /// The default number of iterations.
    pub iterations: usize,
    /// Runs it.
    pub run: fn(&Study) -> Outcome<Report>,
    /// Its source code, and the path of its file.
    pub file: &'static str,
    /// The source code.
    pub source: &'static str,
}

impl Simulator {
    /// The end of its help.
    fn details(&self) -> String {
        let (what, size) = self.size;
        let (goal, iterations, name) = (self.goal, self.iterations, self.name);
        format!(
            "Goal: {goal}.\n--size: {what} (default {size}). --iterations: default {iterations}. Writes {name}.gif and {name}.png.\nSource: {}, {} lines.",
            self.file,
            self.lines(),
        )
    }

    /// Lines of code, without blank lines, comments and tests.
    pub fn lines(&self) -> usize {
        let code = self.source.split("#[cfg(test)]").next().unwrap_or_default();
        let counts = |line: &&str| !line.is_empty() && !line.starts_with("//");
        code.lines().map(str::trim).filter(counts).count()
    }
}

/// Options of all simulators.
#[derive(Args, Clone, Debug, Default)]
pub struct Options {
    /// Output path: a directory, or a file that ends in .gif, .png or .mp4.
    ///
    /// The animation shows what the optimization found. A .png beside it has some of its frames and a plot of the losses;
    /// `--out x.png` writes only this. The default is the current directory.
    #[arg(long, value_name = "PATH")]
    pub out: Option<PathBuf>,
    /// Problem size: cells or particles, as described in the help of the simulator.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16_384))]
    pub size: Option<u32>,
    /// Iterations of the optimization.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub iterations: Option<u32>,
    /// Run on the first CUDA device.
    #[arg(long)]
    pub cuda: bool,
    /// Number of worker threads; by default one per core.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024), conflicts_with = "cuda")]
    pub threads: Option<u32>,
}

/// All simulators, in the order of the paper.
pub const ALL: &[&Simulator] = &[
    &diffmpm::DIFFMPM,
    &diffmpm3d::DIFFMPM3D,
    &liquid::LIQUID_SIMULATOR,
    &smoke::SMOKE,
    &wave::WAVE,
    &mass_spring::MASS_SPRING,
    &billiards::BILLIARDS,
    &rigid_body::RIGID_BODY,
    &water_renderer::WATER_RENDERER,
    &volume_renderer::VOLUME_RENDERER,
    &electric::ELECTRIC,
    &newton::NEWTON,
    &rollout::ROLLOUT,
];

/// The list of simulators, one line each.
pub fn list() -> String {
    let width = ALL.iter().map(|s| s.name.len()).max().unwrap_or(0);
    let line = |s: &&Simulator| format!("  {:width$}  {}\n", s.name, s.about);
    ALL.iter().map(line).collect()
}

/// Runs a simulator, and writes its files.
pub fn perform(simulator: &'static Simulator, options: &Options) -> Outcome<Results> {
    let study = Study::new(simulator, options)?;
    let report = (simulator.run)(&study)?;
    study.end(report)
}

#[cfg(test)]
mod tests;
