//! The examples: each one file, one kernel or a few, one picture.
//!
//! An [`Example`] gets a [`Stage`], which has a world for it, calls it frame by frame, shows and records what it draws, and times it. So an
//! example is its kernels, its fields and its picture, and nothing else.

pub mod book;
pub mod cloth;
pub mod coral;
pub mod fluid;
pub mod gray_scott;
pub mod isosurface;
pub mod julia;
pub mod life;
pub mod mpm88;
pub mod nbody;
pub mod path_tracer;
pub mod sparse;
mod stage;
pub mod surface;
pub mod wave;

mod choice;
pub use choice::Choice;
pub use stage::{Closing, Outcome, Stage, Turn};

use clap::Args;
use std::path::PathBuf;
use wuji::viewer::Picture;

/// An entry of the gallery.
#[derive(Clone, Copy, Debug)]
pub struct Example {
    pub name: &'static str,
    /// One line: what is seen, and what it shows of the language.
    pub about: &'static str,
    /// What it is about, for those who ask for its help.
    pub long: &'static str,
    /// What `--size` means, and its default.
    pub size: (&'static str, usize),
    /// Frames that it has unless told otherwise.
    pub frames: usize,
    pub media: Media,
    pub run: fn(&mut Stage) -> Outcome<Closing>,
    /// Its own code, and where it is.
    pub file: &'static str,
    pub source: &'static str,
}

/// What an example leaves behind unless told otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// An animation, NAME.gif.
    Moving,
    /// The last frame, NAME.png.
    Still,
}

impl Example {
    pub fn extension(&self) -> &'static str {
        match self.media {
            Media::Moving => "gif",
            Media::Still => "png",
        }
    }

    /// What its help ends with.
    fn details(&self) -> String {
        let (what, size) = self.size;
        format!(
            "Here --size is {what}, {size} unless given, and there are {} frames. It writes {}.{}.\nThe code: {}, {} lines.",
            self.frames,
            self.name,
            self.extension(),
            self.file,
            self.lines(),
        )
    }

    /// Lines of code, without empty ones, comments and tests.
    pub fn lines(&self) -> usize {
        let code = self.source.split("#[cfg(test)]").next().unwrap_or_default();
        let counts = |line: &&str| !line.is_empty() && !line.starts_with("//");
        code.lines().map(str::trim).filter(counts).count()
    }
}

/// How an example is to be run.
#[derive(Args, Clone, Debug, Default)]
pub struct Options {
    /// Where the picture goes: a folder, or a file that ends in .gif, .png or .mp4.
    ///
    /// A .png keeps the last frame; `x-####.png` is one file for each frame. An .mp4 needs the program `ffmpeg`. Unless
    /// this is given, the picture goes to the folder you are in.
    #[arg(long, value_name = "PATH")]
    pub out: Option<PathBuf>,
    /// How large: cells, particles or pixels, as the example's own help says.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16_384))]
    pub size: Option<u32>,
    /// How many frames.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub frames: Option<u32>,
    /// Shows it live in a window, until that is closed (Escape does); records only with --out.
    #[arg(long)]
    pub view: bool,
    /// Opens the picture when it is done.
    #[arg(long)]
    pub open: bool,
    /// Worker threads, instead of one for each core.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
}

/// What came of a run.
#[derive(Debug)]
pub struct Report {
    /// The last frame.
    pub picture: Option<Picture>,
    pub files: Vec<PathBuf>,
    /// What was computed, how fast, and how long it took to compile.
    pub closing: String,
}

/// All examples, the simple ones first.
pub const ALL: [&Example; 16] = [
    &julia::JULIA,
    &life::LIFE,
    &wave::WAVE,
    &gray_scott::GRAY_SCOTT,
    &nbody::NBODY,
    &fluid::FLUID,
    &cloth::CLOTH,
    &mpm88::MPM88,
    &path_tracer::PATH_TRACER,
    &isosurface::ISOSURFACE,
    &coral::CORAL,
    &sparse::MPM3D,
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
    let closing = (example.run)(&mut stage)?;
    stage.end(closing)
}

#[cfg(test)]
mod tests;
