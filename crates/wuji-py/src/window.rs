//! The window of `GUI` and `ui.Window`: shows frames, returns events.

use crate::canvas::Canvas;
use crate::frame::Frame;
use pyo3::prelude::*;
use std::sync::{Mutex, MutexGuard, PoisonError};
use wuji_viewer::{Button, Event, Key, Viewer};

/// A window on the display; raises `OSError` without one.
#[pyclass(frozen, module = "wuji._native")]
pub(crate) struct Window {
    viewer: Mutex<Viewer>,
}

/// An event: kind, key or button, whether it was pressed, and the cursor position.
type WindowEvent = (&'static str, String, bool, f32, f32);

#[pymethods]
impl Window {
    #[new]
    #[pyo3(signature = (title, position=None))]
    fn new(title: &str, position: Option<[i16; 2]>) -> PyResult<Window> {
        // The caller limits the frame rate and handles Escape.
        let mut builder = Viewer::builder(title)
            .headless(false)
            .close_on_escape(false)
            .fps(f64::INFINITY);
        if let Some(position) = position {
            builder = builder.position(position);
        }
        Ok(Window {
            viewer: Mutex::new(builder.build()?),
        })
    }

    /// Shows a frame. The first one opens the window.
    fn show(&self, py: Python<'_>, canvas: &Canvas) -> PyResult<()> {
        let picture = canvas.picture(py);
        Ok(crate::exit::detach(py, || self.viewer().show(&picture))?)
    }

    /// Shows the frame of a `ui.Window`.
    fn show_frame(&self, py: Python<'_>, frame: &Frame) -> PyResult<()> {
        let picture = frame.picture(py);
        Ok(crate::exit::detach(py, || self.viewer().show(&picture))?)
    }

    /// Returns the events since the last call.
    fn events(&self) -> Vec<WindowEvent> {
        let mut viewer = self.viewer();
        let events = viewer.events().into_iter();
        let [x, y] = viewer.pointer().unwrap_or([0.0; 2]);
        events.map(|event| window_event(event, [x, y])).collect()
    }

    fn close(&self) {
        self.viewer().close();
    }

    /// Whether the window is open.
    fn is_open(&self) -> bool {
        self.viewer().is_open()
    }
}

impl Window {
    fn viewer(&self) -> MutexGuard<'_, Viewer> {
        self.viewer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn window_event(event: Event, pointer: [f32; 2]) -> WindowEvent {
    let [x, y] = pointer;
    match event {
        Event::Key { key, down } => ("key", name(key), down, x, y),
        Event::Button {
            button,
            down,
            at: [x, y],
        } => {
            let name = match button {
                Button::Left => "LMB",
                Button::Middle => "MMB",
                Button::Right => "RMB",
            };
            ("button", name.to_string(), down, x, y)
        }
        Event::Pointer { at: [x, y] } => ("move", String::new(), false, x, y),
        Event::Scroll { by, at: [x, y] } => ("wheel", String::new(), by > 0.0, x, y),
        Event::Close => ("close", String::new(), true, x, y),
    }
}

/// Returns X11's name of a key; letters are returned as typed.
fn name(key: Key) -> String {
    let name = match key {
        Key::Char(c) => return c.to_string(),
        Key::Function(n) => return format!("F{n}"),
        Key::Other(0xffe5) => "Caps_Lock",
        Key::Other(code) => return format!("Key{code}"),
        Key::Enter => "Return",
        Key::Escape => "Escape",
        Key::Backspace => "BackSpace",
        Key::Tab => "Tab",
        Key::Delete => "Delete",
        Key::Home => "Home",
        Key::End => "End",
        Key::PageUp => "Prior",
        Key::PageDown => "Next",
        Key::Left => "Left",
        Key::Right => "Right",
        Key::Up => "Up",
        Key::Down => "Down",
        Key::Shift => "Shift",
        Key::Control => "Control",
        Key::Alt => "Alt",
    };
    name.to_string()
}
