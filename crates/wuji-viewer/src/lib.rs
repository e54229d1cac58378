//! Shows pictures while they are computed: in a window, or as PNG, GIF and MP4 files if there is no display.
//!
//! ```no_run
//! use wuji_viewer::{Picture, Viewer};
//!
//! fn main() -> std::io::Result<()> {
//!     let mut viewer = Viewer::new("gradient")?;
//!     let mut t = 0u8;
//!     while viewer.is_open() {
//!         let picture = Picture::from_fn(256, 256, |x, y| [x as u8, y as u8, t]);
//!         viewer.show(&picture)?;             // waits for its time
//!         t = t.wrapping_add(1);
//!     }
//!     viewer.finish()?;
//!     Ok(())
//! }
//! ```
//!
//! Without a display (`DISPLAY` is not set, there is no server, or `WUJI_HEADLESS=1`) the same program prints a
//! message, writes `gradient.gif` and ends after 120 frames.
//!
//! [`Framebuffer`] draws circles, lines, triangles and text; [`Scene`] draws meshes, particles and lines in space.
//!
//! Architecture invariants: this crate does not depend on Wuji, only on pictures; `wuji`'s feature `viewer` converts
//! fields to pictures. It implements the X11 protocol without a C library: a lost connection is treated as a closed
//! window, where Xlib would exit the process.

pub mod animation;
pub mod canvas;
pub mod event;
pub mod framebuffer;
pub mod picture;
pub mod recording;
pub mod scene;
mod video;
pub mod viewer;
mod x11;

pub use animation::Animation;
pub use canvas::{Canvas, Light, light};
pub use event::{Button, Event, Key};
pub use framebuffer::{Framebuffer, Pixel, opaque};
pub use picture::Picture;
pub use recording::Recording;
pub use scene::{Camera, Scene};
pub use viewer::{Frame, Viewer, ViewerBuilder};
