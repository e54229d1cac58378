//! The environment of a simulator: a world, a progress bar, and the files of its results.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::{Options, Simulator, plot};
use crate::progress::Progress;
use wuji::World;
use wuji::viewer::{Picture, Recording};

/// A result with any error.
pub type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// Frames per second of animations.
const FPS: f64 = 25.0;

/// The environment that a simulator runs in.
#[derive(Debug)]
pub struct Study {
    simulator: &'static Simulator,
    options: Options,
    world: World,
    start: Instant,
}

/// What a simulator found.
#[derive(Clone, Debug)]
pub struct Report {
    /// The problem size: `128x128 cells, 256 steps`.
    pub what: String,
    /// The loss before each iteration.
    pub losses: Vec<f64>,
    /// The goal: some loss is at most this.
    pub goal: f64,
    /// An animation of the result. All frames have the same size.
    pub frames: Vec<Picture>,
}

impl Report {
    /// The smallest loss.
    pub fn best(&self) -> f64 {
        self.losses.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// Whether the last loss is as small as the goal.
    pub fn is_reached(&self) -> bool {
        self.best() <= self.goal
    }

    /// Some frames from the first to the last.
    pub fn stills(&self, count: usize) -> impl Iterator<Item = &Picture> {
        let last = self.frames.len().saturating_sub(1);
        let chosen = (0..count).filter_map(move |n| self.frames.get(last * n / (count - 1).max(1)));
        chosen.take(self.frames.len())
    }

    /// The first, middle and last frames, and a plot of the losses.
    pub fn picture(&self) -> Picture {
        let mut pictures: Vec<_> = self.stills(3).cloned().collect();
        let height = pictures.first().map_or(240, |p| p.height).max(160);
        let size = [height * 3 / 2, height];
        pictures.push(plot::losses(&self.losses, self.goal, size));
        plot::beside(&pictures)
    }
}

/// The report of a run, and the files that it wrote.
#[derive(Clone, Debug)]
pub struct Results {
    /// The losses.
    pub report: Report,
    /// The files that were written.
    pub files: Vec<PathBuf>,
    /// A summary: problem size, losses and time.
    pub summary: String,
}

impl Study {
    pub(super) fn new(simulator: &'static Simulator, options: &Options) -> Outcome<Study> {
        let mut world = World::builder();
        if options.cuda {
            world = world.cuda(0);
        }
        if let Some(threads) = options.threads {
            world = world.threads(threads as usize);
        }
        let world = world.build()?;
        // An output path that cannot be used is an error now.
        let study = Study {
            simulator,
            options: options.clone(),
            world,
            start: Instant::now(),
        };
        Recording::new(study.file(), FPS)?;
        Ok(study)
    }

    /// A world as the options say.
    pub fn world(&self) -> World {
        self.world.clone()
    }

    /// The value of `--size`, or the default.
    pub fn size(&self) -> usize {
        self.options
            .size
            .map_or(self.simulator.size.1, |n| n as usize)
    }

    /// The value of `--iterations`, or the default.
    pub fn iterations(&self) -> usize {
        self.options
            .iterations
            .map_or(self.simulator.iterations, |n| n as usize)
    }

    /// Calls `step` for each iteration, which returns its loss. Losses that are not finite are an error.
    pub fn optimize(&self, mut step: impl FnMut(usize) -> wuji::Result<f64>) -> Outcome<Vec<f64>> {
        let total = self.iterations();
        let mut progress = Progress::new(total);
        let mut losses = Vec::with_capacity(total);
        for iteration in 0..total {
            let loss = step(iteration)?;
            if !loss.is_finite() {
                return Err(format!("the loss of iteration {iteration} is {loss}").into());
            }
            losses.push(loss);
            progress.show(iteration + 1, &format!("loss {loss:.4}"));
        }
        Ok(losses)
    }

    /// The file of the animation; in a directory it has the name of the simulator.
    fn file(&self) -> PathBuf {
        let name = format!("{}.gif", self.simulator.name);
        match &self.options.out {
            None => PathBuf::from(name),
            Some(path) if path.extension().is_some() && !path.is_dir() => path.clone(),
            Some(folder) => folder.join(name),
        }
    }

    pub(super) fn end(&self, report: Report) -> Outcome<Results> {
        let seconds = self.start.elapsed().as_secs_f64();
        let summary = format!(
            "{}: loss {:.4} at first, {:.4} after {} iterations; goal {:.4}, {}; {seconds:.1} s",
            report.what,
            report.losses.first().copied().unwrap_or(f64::NAN),
            report.best(),
            report.losses.len(),
            report.goal,
            if report.is_reached() {
                "reached"
            } else {
                "not reached"
            },
        );
        let files = write(&self.file(), &report)?;
        Ok(Results {
            report,
            files,
            summary,
        })
    }
}

/// Writes the animation, and the picture of frames and losses beside it.
fn write(path: &Path, report: &Report) -> Outcome<Vec<PathBuf>> {
    let still = path.with_extension("png");
    let mut files = Vec::new();
    if still != path {
        let mut recording = Recording::new(path, FPS)?;
        for frame in &report.frames {
            recording.push(frame)?;
        }
        files.extend(recording.finish()?);
    }
    report.picture().save_png(&still)?;
    files.push(still);
    Ok(files)
}
