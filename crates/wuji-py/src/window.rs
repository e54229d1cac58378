//! A window for `GUI`: pictures go in, what the person does comes out.

use crate::pictures::picture;
use pyo3::prelude::*;
use std::sync::{Mutex, MutexGuard, PoisonError};
use wuji_viewer::{Button, Event, Key, Viewer};

/// A window on the display; `OSError` where there is none.
#[pyclass(frozen, module = "wuji._native")]
pub(crate) struct Window {
    viewer: Mutex<Viewer>,
}

/// What happened: its kind, which key or button, whether it went down, and where the pointer was.
type Heard = (&'static str, String, bool, f32, f32);

#[pymethods]
impl Window {
    #[new]
    fn new(title: &str) -> PyResult<Window> {
        // Whoever shows frames says how often; Escape is a key like any other.
        let viewer = Viewer::builder(title)
            .headless(false)
            .close_on_escape(false)
            .fps(f64::INFINITY)
            .build()?;
        Ok(Window {
            viewer: Mutex::new(viewer),
        })
    }

    /// Shows rows of RGBA from top to bottom. The window opens with the first picture.
    fn show(&self, py: Python<'_>, width: usize, height: usize, rgba: &[u8]) -> PyResult<()> {
        let picture = picture(width, height, 4, rgba)?;
        Ok(py.detach(|| self.viewer().show(&picture))?)
    }

    /// What has happened since the last call.
    fn events(&self) -> Vec<Heard> {
        let mut viewer = self.viewer();
        let heard = viewer.events().into_iter();
        let [x, y] = viewer.pointer().unwrap_or([0.0; 2]);
        heard.map(|event| told(event, [x, y])).collect()
    }

    fn close(&self) {
        self.viewer().close();
    }

    /// Whether nobody has closed it.
    fn is_open(&self) -> bool {
        self.viewer().is_open()
    }
}

impl Window {
    fn viewer(&self) -> MutexGuard<'_, Viewer> {
        self.viewer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn told(event: Event, pointer: [f32; 2]) -> Heard {
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

/// Keys by the names that X has for them; letters as they are typed.
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
