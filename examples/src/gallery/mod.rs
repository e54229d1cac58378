//! The examples: one file each, with one kernel or a few, and one picture.
//!
//! An [`Example`] runs on a [`Stage`], which creates its world, calls it for each frame, displays and records its picture, and measures it.
//! So an example contains only its kernels, its fields and its picture.

pub mod arap;
pub mod book;
pub mod cholesky;
pub mod cloth;
pub mod coral;
pub mod fluid;
pub mod gray_scott;
pub mod isosurface;
pub mod julia;
pub mod large_steps;
pub mod lazy_mpm;
pub mod life;
pub mod mpm88;
pub mod nbody;
pub mod newton;
pub mod path_tracer;
pub mod sparse;
mod stage;
pub mod surface;
pub mod wave;

mod choice;
pub use choice::Choice;
pub use stage::{FrameInput, Outcome, Stage, Summary};

use clap::Args;
use std::path::PathBuf;
use wuji::viewer::Picture;

/// An entry of the gallery.
#[derive(Clone, Copy, Debug)]
pub struct Example {
    /// Its name on the command line.
    pub name: &'static str,
    /// One line: the picture, and the language features that it shows.
    pub about: &'static str,
    /// The long description in its help.
    pub long: &'static str,
    /// The meaning of `--size`, and its default.
    pub size: (&'static str, usize),
    /// The default number of frames.
    pub frames: usize,
    /// What it writes: a picture or a film.
    pub media: Media,
    /// Runs it.
    pub run: fn(&mut Stage) -> Outcome<Summary>,
    /// Its source code, and the path of its file.
    pub file: &'static str,
    /// The source code.
    pub source: &'static str,
}

/// The default output of an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// An animation, NAME.gif.
    Moving,
    /// The last frame, NAME.png.
    Still,
}

impl Example {
    /// The extension of its file.
    pub fn extension(&self) -> &'static str {
        match self.media {
            Media::Moving => "gif",
            Media::Still => "png",
        }
    }

    /// The end of its help.
    fn details(&self) -> String {
        let (what, size) = self.size;
        format!(
            "--size: {what} (default {size}). --frames: default {}. Writes {}.{}.\nSource: {}, {} lines.",
            self.frames,
            self.name,
            self.extension(),
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

/// Options of all examples.
#[derive(Args, Clone, Debug, Default)]
pub struct Options {
    /// Output path: a directory, or a file that ends in .gif, .png or .mp4.
    ///
    /// A .png keeps the last frame; `x-####.png` writes one file per frame. An .mp4 needs the program `ffmpeg`. The default
    /// is the current directory.
    #[arg(long, value_name = "PATH")]
    pub out: Option<PathBuf>,
    /// Problem size: cells, particles or pixels, as described in the help of the example.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16_384))]
    pub size: Option<u32>,
    /// Number of frames.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub frames: Option<u32>,
    /// Run in a lazy world: launches wait, and loops are fused across kernels.
    #[arg(long)]
    pub lazy: bool,
    /// Show it live in a window, until you close it (Escape does); records only with --out.
    #[arg(long)]
    pub view: bool,
    /// Open the result when it is done.
    #[arg(long)]
    pub open: bool,
    /// Number of worker threads; by default one per core.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
}

/// The result of a run.
#[derive(Debug)]
pub struct Report {
    /// The last frame.
    pub picture: Option<Picture>,
    /// The files that were written.
    pub files: Vec<PathBuf>,
    /// A summary: problem size, speed and compile time.
    pub summary: String,
}

/// All examples, in order of complexity.
pub const ALL: [&Example; 23] = [
    &julia::JULIA,
    &life::LIFE,
    &wave::WAVE,
    &gray_scott::GRAY_SCOTT,
    &nbody::NBODY,
    &fluid::FLUID,
    &cloth::CLOTH,
    &newton::NEWTON,
    &large_steps::LARGE_STEPS,
    &arap::ARAP,
    &mpm88::MPM88,
    &lazy_mpm::LAZY_MPM,
    &path_tracer::PATH_TRACER,
    &isosurface::ISOSURFACE,
    &coral::CORAL,
    &sparse::MPM3D,
    &sparse::SNOW,
    &sparse::SAND,
    &sparse::FLUID,
    &sparse::FEM,
    &sparse::MGPCG,
    &sparse::CONVOLUTION,
    &sparse::VOLUME,
];

/// The list of examples, one line each.
pub fn list() -> String {
    let width = ALL.iter().map(|e| e.name.len()).max().unwrap_or(0);
    let line = |e: &&Example| format!("  {:width$}  {}\n", e.name, e.about);
    ALL.iter().map(line).collect()
}

/// Runs an example to its end.
pub fn perform(example: &'static Example, options: &Options) -> Outcome<Report> {
    let mut stage = Stage::new(example, options)?;
    let summary = (example.run)(&mut stage)?;
    stage.end(summary)
}

/// Options for a small problem whose picture is still meaningful: for tests.
pub fn small(example: &Example) -> Options {
    let (size, frames) = match example.name {
        "julia" => (48, 3),
        "life" => (48, 24),
        "wave" => (64, 30),
        "gray_scott" => (64, 4),
        "nbody" => (256, 4),
        "fluid" => (48, 24),
        "cloth" => (24, 8),
        "newton" => (8, 5),
        "large_steps" => (7, 5),
        "arap" => (10, 4),
        "mpm88" => (64, 6),
        "lazy_mpm" => (64, 6),
        "path_tracer" => (48, 2),
        "isosurface" => (16, 2),
        "coral" => (20, 2),
        _ => (1, 2),
    };
    Options {
        size: Some(size),
        frames: Some(frames),
        ..Options::default()
    }
}

#[cfg(test)]
mod tests;
