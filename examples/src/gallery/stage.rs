//! The environment of an example: a world, a timer, a progress bar, a window or a file.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{Example, Media, Options, Report};
use crate::progress::Progress;
use wuji::World;
use wuji::viewer::{Button, Event, Key, Picture, Viewer};

/// A result with any error.
pub type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// Frames per second of windows and files.
const FPS: f64 = 30.0;

/// The environment that an example runs in.
#[derive(Debug)]
pub struct Stage {
    example: &'static Example,
    options: Options,
    world: World,
    viewer: Viewer,
    /// The output path without its extension, for examples that write additional files.
    stem: PathBuf,
    files: Vec<PathBuf>,
    last: Option<Picture>,
    /// The time of each frame, without displaying it.
    times: Vec<Duration>,
}

/// The number of a frame, and the user input since the last one.
#[derive(Clone, Debug, Default)]
pub struct FrameInput {
    /// The number of the frame.
    pub frame: usize,
    /// The position of the pointer while the left button is down: 0 to 1, y up.
    pub pointer: Option<[f32; 2]>,
    /// Keys that were pressed.
    pub keys: Vec<Key>,
}

/// The summary that an example prints: `WHAT, RATE UNITS/s on THREADS threads, compiled in TIME`.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The problem size: `12200 particles on 128x128`.
    pub what: String,
    /// The unit of work, in the plural, and how many of them a frame has.
    pub unit: &'static str,
    /// Units of work in a frame.
    pub per_frame: usize,
}

impl Summary {
    /// A summary.
    pub fn new(what: impl Into<String>, per_frame: usize, unit: &'static str) -> Summary {
        Summary {
            what: what.into(),
            unit,
            per_frame,
        }
    }
}

impl Stage {
    pub(super) fn new(example: &'static Example, options: &Options) -> Outcome<Stage> {
        let file = file(example, options.out.as_deref());
        let stem = file.with_extension("");
        let mut viewer = Viewer::builder(example.name).fps(FPS).quiet();
        if !options.view {
            viewer = viewer.headless(true);
        }
        if !options.view || options.out.is_some() {
            viewer = viewer.record(&file);
        }
        // A window stays open until the user closes it.
        match options.frames {
            Some(frames) => viewer = viewer.frames(frames as usize),
            None if !options.view => viewer = viewer.frames(example.frames),
            None => {}
        }
        let viewer = viewer.build()?;
        let viewer = match (options.view, viewer.without_window()) {
            (true, Some(why)) => {
                let frames = options.frames.map_or(example.frames, |n| n as usize);
                eprintln!(
                    "no window ({why}): writing {frames} frames to {}",
                    file.display()
                );
                let builder = Viewer::builder(example.name)
                    .fps(FPS)
                    .quiet()
                    .headless(true);
                builder.record(&file).frames(frames).build()?
            }
            _ => viewer,
        };
        let mut world = World::builder();
        if let Some(threads) = options.threads {
            world = world.threads(threads as usize);
        }
        if options.lazy {
            world = world.lazy(true);
        }
        Ok(Stage {
            example,
            options: options.clone(),
            world: world.build()?,
            viewer,
            stem,
            files: Vec::new(),
            last: None,
            times: Vec::new(),
        })
    }

    /// A world as the options say.
    pub fn world(&self) -> World {
        self.world.clone()
    }

    /// The value of `--size`, or the default.
    pub fn size(&self) -> usize {
        self.options
            .size
            .map_or(self.example.size.1, |n| n as usize)
    }

    /// The expected number of frames.
    pub fn frames(&self) -> usize {
        self.options
            .frames
            .map_or(self.example.frames, |n| n as usize)
    }

    /// Calls `step` and `picture` for each frame.
    pub fn play(
        &mut self,
        mut step: impl FnMut(&FrameInput) -> wuji::Result<()>,
        mut picture: impl FnMut() -> wuji::Result<Picture>,
    ) -> Outcome {
        let total = self.frames();
        let mut progress = Progress::new(total);
        // A still image needs only the last frame, unless a window shows all of them.
        let each = self.example.media == Media::Moving
            || self.viewer.without_window().is_none()
            || self
                .viewer
                .recording()
                .is_some_and(|path| !keeps_last(path));
        let mut frame = 0;
        while self.viewer.is_open() && (each || frame < total) {
            let input = self.input(frame);
            let start = Instant::now();
            step(&input)?;
            self.world.flush()?;
            self.times.push(start.elapsed());
            frame += 1;
            if each || frame == total {
                let picture = picture()?;
                self.viewer.show(&picture)?;
                self.last = Some(picture);
            }
            if self.viewer.without_window().is_some() {
                progress.show(frame, self.example.name);
            }
        }
        Ok(())
    }

    fn input(&mut self, frame: usize) -> FrameInput {
        let keys = self
            .viewer
            .events()
            .into_iter()
            .filter_map(|event| match event {
                Event::Key { key, down: true } => Some(key),
                _ => None,
            });
        FrameInput {
            frame,
            keys: keys.collect(),
            pointer: self
                .viewer
                .pointer()
                .filter(|_| self.viewer.is_button_down(Button::Left)),
        }
    }

    /// The path of an additional file next to the picture, whose folder exists.
    pub fn beside(&mut self, extension: &str) -> Outcome<PathBuf> {
        let path = self.stem.with_extension(extension);
        if let Some(folder) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder)
                .map_err(|e| format!("cannot write {}: {e}", path.display()))?;
        }
        self.files.push(path.clone());
        Ok(path)
    }

    /// The last frame so far.
    pub fn last(&self) -> Option<&Picture> {
        self.last.as_ref()
    }

    pub(super) fn end(mut self, summary: Summary) -> Outcome<Report> {
        // The first frame includes compilation, so the rate is that of the others.
        let frames = if self.times.len() > 1 {
            &self.times[1..]
        } else {
            &self.times[..]
        };
        let seconds = frames.iter().sum::<Duration>().as_secs_f64();
        let rate = (frames.len() * summary.per_frame) as f64 / seconds.max(1e-9);
        let rate = if rate < 10.0 {
            format!("{rate:.1}")
        } else {
            format!("{rate:.0}")
        };
        let summary = format!(
            "{}, {rate} {}/s on {} threads, {}",
            summary.what,
            summary.unit,
            self.world.threads(),
            compiled(&self.world),
        );
        self.files.extend(self.viewer.finish()?);
        Ok(Report {
            picture: self.last,
            files: self.files,
            summary,
        })
    }
}

/// Whether a file keeps only the last frame.
fn keeps_last(path: &Path) -> bool {
    path.extension()
        .is_some_and(|e| e.eq_ignore_ascii_case("png"))
        && !path.to_string_lossy().contains('#')
}

/// The output file of an example; in a directory it has the name of the example.
fn file(example: &Example, out: Option<&Path>) -> PathBuf {
    let name = format!("{}.{}", example.name, example.extension());
    match out {
        None => PathBuf::from(name),
        Some(path) if path.extension().is_some() && !path.is_dir() => path.to_path_buf(),
        Some(folder) => folder.join(name),
    }
}

/// The time that launches waited for compilation, without background compilation.
fn compiled(world: &World) -> String {
    let history = world.kernel_history();
    let first: Vec<_> = history
        .iter()
        .filter_map(|kernel| kernel.compilations.first())
        .collect();
    let time = first
        .iter()
        .map(|made| made.time)
        .sum::<Duration>()
        .as_secs_f64()
        * 1e3;
    let cached = !first.is_empty() && first.iter().all(|made| made.cached);
    if cached {
        format!("loaded from the cache in {time:.0} ms")
    } else {
        format!("compiled in {time:.0} ms")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gallery::{julia::JULIA, path_tracer::PATH_TRACER};

    #[test]
    fn output_paths_follow_the_options() {
        assert_eq!(file(&JULIA, None), Path::new("julia.gif"));
        assert_eq!(file(&PATH_TRACER, None), Path::new("path_tracer.png"));
        assert_eq!(
            file(&JULIA, Some(Path::new("a/b"))),
            Path::new("a/b/julia.gif")
        );
        assert_eq!(
            file(&JULIA, Some(Path::new("a/b.mp4"))),
            Path::new("a/b.mp4")
        );
        assert!(keeps_last(Path::new("x.png")) && !keeps_last(Path::new("x-##.png")));
    }
}
