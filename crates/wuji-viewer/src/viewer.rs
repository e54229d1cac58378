//! The viewer: a window if there is a display, otherwise a file, for the same program.

use std::borrow::Cow;
use std::collections::HashSet;
use std::io;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::event::{Button, Event, Key};
use crate::picture::Picture;
use crate::recording::Recording;
use crate::x11::Display;

/// Number of frames without a display, where no user can close the window.
const HEADLESS_FRAMES: usize = 120;

/// What a viewer can show: a picture, or something that can be converted to one.
pub trait Frame {
    /// The error type of the conversion.
    type Error;
    /// The picture to show.
    fn picture(&self) -> Result<Cow<'_, Picture>, Self::Error>;
    /// Converts an I/O error of writing a file.
    fn failed(error: io::Error) -> Self::Error;
}

impl Frame for Picture {
    type Error = io::Error;

    fn picture(&self) -> io::Result<Cow<'_, Picture>> {
        Ok(Cow::Borrowed(self))
    }

    fn failed(error: io::Error) -> io::Error {
        error
    }
}

/// Shows a sequence of pictures.
#[derive(Debug)]
pub struct Viewer {
    title: String,
    output: Output,
    recording: Option<Recording>,
    limit: Option<usize>,
    frames: usize,
    pace: Pace,
    close_on_escape: bool,
    events: Vec<Event>,
    input: Input,
}

#[derive(Debug)]
enum Output {
    Window(Box<Display>),
    /// No window, with the reason.
    Headless(String),
    /// The window was closed, with the reason.
    Closed(String),
}

/// Pressed keys and buttons, and the position of the pointer.
#[derive(Debug, Default)]
struct Input {
    keys: HashSet<Key>,
    buttons: HashSet<Button>,
    pointer: Option<[f32; 2]>,
}

/// The options of a viewer; see [`Viewer::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct ViewerBuilder {
    title: String,
    fps: f64,
    record: Option<PathBuf>,
    frames: Option<usize>,
    headless: Option<bool>,
    display: Option<String>,
    position: Option<[i16; 2]>,
    close_on_escape: bool,
    quiet: bool,
}

impl ViewerBuilder {
    /// The maximal frame rate, also of the recording: 60 by default.
    pub fn fps(mut self, fps: f64) -> ViewerBuilder {
        self.fps = fps;
        self
    }

    /// Also records to a file: see [`Recording`] for the formats. Without a display the default is `TITLE.gif`.
    pub fn record(mut self, path: impl Into<PathBuf>) -> ViewerBuilder {
        self.record = Some(path.into());
        self
    }

    /// Closes after this many frames. Without a display the default is 120.
    pub fn frames(mut self, frames: usize) -> ViewerBuilder {
        self.frames = Some(frames);
        self
    }

    /// No window even if there is a display; with `false`, an error if there is none.
    pub fn headless(mut self, headless: bool) -> ViewerBuilder {
        self.headless = Some(headless);
        self
    }

    /// Another display than that of `DISPLAY`.
    pub fn display(mut self, name: impl Into<String>) -> ViewerBuilder {
        self.display = Some(name.into());
        self
    }

    /// Where the upper left corner of the window is on the screen, in pixels. By default, the window manager chooses.
    pub fn position(mut self, position: [i16; 2]) -> ViewerBuilder {
        self.position = Some(position);
        self
    }

    /// Whether the Escape key closes the window; it does by default.
    pub fn close_on_escape(mut self, close: bool) -> ViewerBuilder {
        self.close_on_escape = close;
        self
    }

    /// Does not print a message to standard error if there is no window.
    pub fn quiet(mut self) -> ViewerBuilder {
        self.quiet = true;
        self
    }

    /// Connects to the display, or determines why there is none.
    pub fn build(self) -> io::Result<Viewer> {
        let output = match self.open() {
            Ok(display) => Output::Window(Box::new(display)),
            Err(why) if self.headless == Some(false) => {
                return Err(io::Error::new(
                    io::ErrorKind::NotConnected,
                    format!("no window: {why}"),
                ));
            }
            Err(why) => Output::Headless(why),
        };
        let windowless = matches!(output, Output::Headless(_));
        let record = match self.record {
            None if windowless => Some(PathBuf::from(file_name(&self.title))),
            record => record,
        };
        let recording = record
            .map(|path| Recording::new(path, self.fps.min(50.0)))
            .transpose()?;
        let limit = self.frames.or(windowless.then_some(HEADLESS_FRAMES));
        if let (Output::Headless(why), Some(recording), false) = (&output, &recording, self.quiet) {
            let frames = limit.unwrap_or(HEADLESS_FRAMES);
            // `eprintln!` would panic on a full device.
            let _ = writeln!(
                std::io::stderr(),
                "no window ({why}): writing {frames} frames to {}",
                recording.path().display()
            );
        }
        Ok(Viewer {
            title: self.title,
            output,
            recording,
            limit,
            frames: 0,
            pace: Pace::new(self.fps),
            close_on_escape: self.close_on_escape,
            events: Vec::new(),
            input: Input::default(),
        })
    }

    fn open(&self) -> Result<Display, String> {
        let asked = std::env::var_os("WUJI_HEADLESS").is_some_and(|v| !v.is_empty() && v != "0");
        match self.headless {
            Some(true) => return Err("the program disabled it".to_string()),
            None if asked => return Err("WUJI_HEADLESS is set".to_string()),
            _ => {}
        }
        let display = match &self.display {
            Some(name) => name.clone(),
            None => std::env::var("DISPLAY").unwrap_or_default(),
        };
        if display.is_empty() {
            return Err("DISPLAY is not set".to_string());
        }
        Display::open(Some(&display), self.position).map_err(|e| format!("display {display}: {e}"))
    }
}

/// The default file for a window with this title.
fn file_name(title: &str) -> String {
    let kept = |c: char| {
        if c.is_alphanumeric() || "-_".contains(c) {
            c
        } else {
            '_'
        }
    };
    let name: String = title.chars().map(kept).take(80).collect();
    if name.is_empty() {
        "viewer.gif".to_string()
    } else {
        format!("{name}.gif")
    }
}

impl Viewer {
    /// A window with this title, or a file `TITLE.gif` if there is no display.
    pub fn new(title: impl Into<String>) -> io::Result<Viewer> {
        Viewer::builder(title).build()
    }

    /// A viewer with options.
    pub fn builder(title: impl Into<String>) -> ViewerBuilder {
        ViewerBuilder {
            title: title.into(),
            fps: 60.0,
            record: None,
            frames: None,
            headless: None,
            display: None,
            position: None,
            close_on_escape: true,
            quiet: false,
        }
    }

    /// Whether to show another frame: the window is open, the display is connected, and the frame limit is not reached.
    pub fn is_open(&self) -> bool {
        !matches!(self.output, Output::Closed(_))
            && self.limit.is_none_or(|limit| self.frames < limit)
    }

    /// Why there is no window, if there is none.
    pub fn without_window(&self) -> Option<&str> {
        match &self.output {
            Output::Window(_) => None,
            Output::Headless(why) | Output::Closed(why) => Some(why),
        }
    }

    /// Frames shown so far.
    pub fn frames(&self) -> usize {
        self.frames
    }

    /// Shows a picture and waits until it is time for the next one. The window opens with the first picture, in its
    /// size, and may be resized later. Pictures after the window was closed are dropped.
    pub fn show<F: Frame>(&mut self, frame: &F) -> Result<(), F::Error> {
        if !self.is_open() {
            return Ok(());
        }
        let picture = frame.picture()?;
        self.show_picture(&picture).map_err(F::failed)
    }

    fn show_picture(&mut self, picture: &Picture) -> io::Result<()> {
        picture.check()?;
        if let Some(recording) = &mut self.recording {
            recording.push(picture)?;
        }
        self.frames += 1;
        if let Output::Window(display) = &mut self.output {
            let shown = display.show(&self.title, picture);
            self.lost(shown);
            self.poll();
            self.pace.wait();
            self.poll();
        }
        Ok(())
    }

    /// The events since the last call. There are none without a window.
    pub fn events(&mut self) -> Vec<Event> {
        self.poll();
        std::mem::take(&mut self.events)
    }

    /// The last position of the pointer, in units of the picture: 0 to 1, to the right and up.
    pub fn pointer(&self) -> Option<[f32; 2]> {
        self.input.pointer
    }

    /// Whether a key is held down.
    pub fn is_key_down(&self, key: Key) -> bool {
        self.input.keys.contains(&key)
    }

    /// Whether a button is held down.
    pub fn is_button_down(&self, button: Button) -> bool {
        self.input.buttons.contains(&button)
    }

    /// Changes the title.
    pub fn set_title(&mut self, title: impl Into<String>) {
        self.title = title.into();
        if let Output::Window(display) = &self.output {
            let done = display.retitle(&self.title);
            self.lost(done);
        }
    }

    /// Closes the window.
    pub fn close(&mut self) {
        self.close_because("the program closed it".to_string());
    }

    /// Closes the window and finishes the recording; returns the path of the file, if there is one.
    pub fn finish(mut self) -> io::Result<Option<PathBuf>> {
        self.close();
        self.write()
    }

    /// The path of the recording.
    pub fn recording(&self) -> Option<&Path> {
        self.recording.as_ref().map(Recording::path)
    }

    fn write(&mut self) -> io::Result<Option<PathBuf>> {
        self.recording.take().map_or(Ok(None), Recording::finish)
    }

    /// Processes the events of the display.
    fn poll(&mut self) {
        let Output::Window(display) = &mut self.output else {
            return;
        };
        match display.events() {
            Ok(events) => events.into_iter().for_each(|event| self.take(event)),
            Err(lost) => self.lost(Err(lost)),
        }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Key { key, down: true } => {
                self.input.keys.insert(key);
                if key == Key::Escape && self.close_on_escape {
                    self.events.push(event);
                    return self.close_because("Escape was pressed".to_string());
                }
            }
            Event::Key { key, down: false } => {
                self.input.keys.remove(&key);
            }
            Event::Button { button, down, at } => {
                self.input.pointer = Some(at);
                if down {
                    self.input.buttons.insert(button)
                } else {
                    self.input.buttons.remove(&button)
                };
            }
            Event::Pointer { at } | Event::Scroll { at, .. } => self.input.pointer = Some(at),
            Event::Close => return self.close_because("the window was closed".to_string()),
        }
        self.events.push(event);
    }

    fn lost(&mut self, done: Result<(), crate::x11::Lost>) {
        if let Err(error) = done {
            self.close_because(format!("the connection to the display was lost: {error}"));
        }
    }

    fn close_because(&mut self, why: String) {
        if !matches!(self.output, Output::Closed(_)) {
            self.output = Output::Closed(why);
            self.input = Input::default();
            self.events.push(Event::Close);
        }
    }
}

impl Drop for Viewer {
    /// Finishes the recording, if that was not done.
    fn drop(&mut self) {
        if let Err(error) = self.write() {
            let _ = writeln!(std::io::stderr(), "{error}");
        }
    }
}

/// Frame pacing. A late frame does not shorten the following ones.
#[derive(Debug)]
struct Pace {
    frame: Duration,
    next: Option<Instant>,
}

impl Pace {
    fn new(fps: f64) -> Pace {
        let fps = if fps.is_finite() {
            fps.clamp(0.1, 1000.0)
        } else {
            1000.0
        };
        Pace {
            frame: Duration::from_secs_f64(1.0 / fps),
            next: None,
        }
    }

    /// How long to wait at `now`.
    fn ahead(&mut self, now: Instant) -> Duration {
        let due = self.next.map_or(now, |next| next.max(now));
        let wait = due - now;
        self.next = Some(due + self.frame);
        wait
    }

    fn wait(&mut self) {
        let wait = self.ahead(Instant::now());
        if !wait.is_zero() {
            std::thread::sleep(wait);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_at_even_times() {
        let mut pace = Pace::new(100.0);
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        assert_eq!(pace.ahead(at(0)), Duration::ZERO);
        assert_eq!(pace.ahead(at(4)), Duration::from_millis(6));
        assert_eq!(pace.ahead(at(11)), Duration::from_millis(9));
        // Late by three frames: the next one is not early.
        assert_eq!(pace.ahead(at(60)), Duration::ZERO);
        assert_eq!(pace.ahead(at(61)), Duration::from_millis(9));
        Pace::new(f64::NAN).wait();
        Pace::new(-1.0).wait();
    }

    #[test]
    fn titles_become_file_names() {
        assert_eq!(file_name("wave equation: 2-D"), "wave_equation__2-D.gif");
        assert_eq!(file_name("../x"), "___x.gif");
        assert_eq!(file_name(""), "viewer.gif");
    }

    #[test]
    fn without_a_display_frames_go_to_a_file() {
        let folder = std::env::temp_dir().join(format!("wuji-headless-{}", std::process::id()));
        let path = folder.join("x.gif");
        let mut viewer = Viewer::builder("x")
            .headless(true)
            .record(&path)
            .frames(3)
            .quiet()
            .build()
            .unwrap();
        assert_eq!(viewer.without_window(), Some("the program disabled it"));
        let mut shown = 0;
        while viewer.is_open() {
            viewer
                .show(&Picture::from_fn(8, 8, |_, _| [shown * 9; 3]))
                .unwrap();
            shown += 1;
        }
        assert_eq!((shown, viewer.frames()), (3, 3));
        assert!(viewer.events().is_empty() && viewer.pointer().is_none());
        // Not an error, and not recorded.
        viewer.show(&Picture::from_fn(8, 8, |_, _| [0; 3])).unwrap();
        assert_eq!(viewer.finish().unwrap(), Some(path.clone()));
        let file = std::fs::File::open(&path).unwrap();
        let mut decoder = gif::DecodeOptions::new().read_info(file).unwrap();
        let mut frames = 0;
        while decoder.read_next_frame().unwrap().is_some() {
            frames += 1;
        }
        assert_eq!(frames, 3);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_required_window_is_an_error_without_a_display() {
        let error = Viewer::builder("x")
            .display(":4711")
            .headless(false)
            .build()
            .unwrap_err();
        assert!(error.to_string().contains(":4711"), "{error}");
        let viewer = Viewer::builder("x")
            .display("nonsense")
            .quiet()
            .build()
            .unwrap();
        assert!(viewer.without_window().unwrap().contains("nonsense"));
    }
}
