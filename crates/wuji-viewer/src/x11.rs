//! A window of the X Window System, also on Wayland (XWayland). Only the core protocol: no extension, no C library.
//!
//! A failed connection is an error value; the viewer treats it as a closed window.

use x11rb::connection::{Connection, RequestConnection as _};
use x11rb::errors::{ConnectionError, ReplyError, ReplyOrIdError};
use x11rb::properties::{WmHints, WmSizeHints, WmSizeHintsSpecification};
use x11rb::protocol::Event as XEvent;
use x11rb::protocol::xproto::{
    AtomEnum, ConnectionExt as _, CreateGCAux, CreateWindowAux, EventMask, Gcontext,
    GetKeyboardMappingReply, ImageFormat, ImageOrder, KeyButMask, PropMode, Visualtype, Window,
    WindowClass,
};
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;

use crate::event::{Button, Event, Key};
use crate::picture::Picture;

/// The error that ended the connection to a display.
pub(crate) type Lost = Box<dyn std::error::Error>;

/// A connection to a display, and its window once there is something to show.
pub(crate) struct Display {
    connection: RustConnection,
    screen: usize,
    format: Format,
    keys: GetKeyboardMappingReply,
    first_key: u8,
    delete_window: u32,
    /// The upper left corner of the window on the screen, if the program has chosen one.
    position: Option<[i16; 2]>,
    window: Option<Shown>,
}

impl std::fmt::Debug for Display {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Display {{ screen: {}, format: {:?} }}",
            self.screen, self.format
        )
    }
}

struct Shown {
    window: Window,
    context: Gcontext,
    /// The window size, in pixels.
    size: (u16, u16),
    /// The current picture, for redrawing.
    picture: Picture,
    /// The buffer of one frame, reused for the next.
    buffer: Vec<u8>,
    stale: bool,
}

/// The pixel format of the server.
#[derive(Clone, Copy, Debug)]
struct Format {
    depth: u8,
    bytes: usize,
    /// Lines are padded to a multiple of this many bytes.
    pad: usize,
    masks: [u32; 3],
    big_endian: bool,
}

impl Format {
    /// Shifts a channel to its mask, and truncates it to its width.
    fn pixel(&self, pixel: [u8; 3]) -> u32 {
        let mut packed = 0;
        for (mask, value) in self.masks.into_iter().zip(pixel) {
            let (shift, width) = (mask.trailing_zeros() % 32, mask.count_ones());
            let value = u32::from(value);
            let value = if width < 8 {
                value >> (8 - width)
            } else {
                value << (width - 8)
            };
            packed |= value << shift & mask;
        }
        packed
    }

    /// Whether a pixel is blue, green, red and a byte that does not matter, as nearly everywhere.
    fn is_bgrx(&self) -> bool {
        self.masks == [0xff0000, 0xff00, 0xff] && self.bytes == 4 && !self.big_endian
    }

    fn write_row(&self, pixels: impl Iterator<Item = [u8; 3]>, out: &mut [u8]) {
        if self.is_bgrx() {
            for (out, [r, g, b]) in out.as_chunks_mut().0.iter_mut().zip(pixels) {
                *out = [b, g, r, 0];
            }
        } else {
            for (out, pixel) in out.chunks_exact_mut(self.bytes).zip(pixels) {
                self.write(pixel, out);
            }
        }
    }

    fn write(&self, pixel: [u8; 3], out: &mut [u8]) {
        let packed = self.pixel(pixel);
        for (k, byte) in out.iter_mut().enumerate() {
            let place = if self.big_endian {
                self.bytes - 1 - k
            } else {
                k
            };
            *byte = (packed >> (8 * place)) as u8;
        }
    }

    fn line(&self, width: usize) -> usize {
        (width * self.bytes).next_multiple_of(self.pad)
    }
}

impl Display {
    /// Connects to the display of this name, or to that in `DISPLAY`.
    pub(crate) fn open(name: Option<&str>, position: Option<[i16; 2]>) -> Result<Display, Lost> {
        let (connection, screen) = x11rb::connect(name)?;
        let setup = connection.setup();
        let root = setup.roots.get(screen).ok_or("the display has no screen")?;
        let visual = root
            .allowed_depths
            .iter()
            .flat_map(|depth| &depth.visuals)
            .find(|visual| visual.visual_id == root.root_visual)
            .ok_or("the screen has no colours that we know")?;
        let Visualtype {
            red_mask,
            green_mask,
            blue_mask,
            ..
        } = *visual;
        let pixmap = setup
            .pixmap_formats
            .iter()
            .find(|format| format.depth == root.root_depth)
            .filter(|format| format.bits_per_pixel >= 16)
            .ok_or("the screen shows fewer than 65536 colours")?;
        let format = Format {
            depth: root.root_depth,
            bytes: usize::from(pixmap.bits_per_pixel / 8),
            pad: usize::from(pixmap.scanline_pad / 8).max(1),
            masks: [red_mask, green_mask, blue_mask],
            big_endian: setup.image_byte_order == ImageOrder::MSB_FIRST,
        };
        let (first_key, last_key) = (setup.min_keycode, setup.max_keycode);
        let keys = connection
            .get_keyboard_mapping(first_key, last_key - first_key + 1)?
            .reply()?;
        let delete_window = connection
            .intern_atom(false, b"WM_DELETE_WINDOW")?
            .reply()?
            .atom;
        Ok(Display {
            screen,
            format,
            keys,
            first_key,
            delete_window,
            position,
            window: None,
            connection,
        })
    }

    /// Shows a picture; the first one opens the window.
    pub(crate) fn show(&mut self, title: &str, picture: &Picture) -> Result<(), Lost> {
        match &mut self.window {
            Some(shown) => shown.picture.clone_from(picture),
            None => self.window = Some(self.create(title, picture)?),
        }
        self.draw()?;
        Ok(())
    }

    pub(crate) fn retitle(&self, title: &str) -> Result<(), Lost> {
        if let Some(shown) = &self.window {
            self.name(shown.window, title)?;
            self.connection.flush()?;
        }
        Ok(())
    }

    fn name(&self, window: Window, title: &str) -> Result<(), ReplyError> {
        let c = &self.connection;
        let name = c.intern_atom(false, b"_NET_WM_NAME")?.reply()?.atom;
        let utf8 = c.intern_atom(false, b"UTF8_STRING")?.reply()?.atom;
        c.change_property8(PropMode::REPLACE, window, name, utf8, title.as_bytes())?;
        c.change_property8(
            PropMode::REPLACE,
            window,
            AtomEnum::WM_NAME,
            AtomEnum::STRING,
            title.as_bytes(),
        )?;
        Ok(())
    }

    fn create(&self, title: &str, picture: &Picture) -> Result<Shown, ReplyOrIdError> {
        let c = &self.connection;
        let screen = &c.setup().roots[self.screen];
        // Small pictures are enlarged, large ones are reduced to fit.
        let room = |side: u16| (usize::from(side) * 9 / 10).max(1);
        let (room_x, room_y) = (room(screen.width_in_pixels), room(screen.height_in_pixels));
        let longest = picture.width.max(picture.height).max(1);
        let times = (480 / longest).max(1);
        let (mut width, mut height) = (picture.width * times, picture.height * times);
        if width > room_x || height > room_y {
            let scale = (room_x as f64 / width as f64).min(room_y as f64 / height as f64);
            width = ((width as f64 * scale) as usize).max(1);
            height = ((height as f64 * scale) as usize).max(1);
        }
        let size = (width as u16, height as u16);
        let [x, y] = self.position.unwrap_or_default();
        let window = c.generate_id()?;
        let events = EventMask::EXPOSURE
            | EventMask::STRUCTURE_NOTIFY
            | EventMask::KEY_PRESS
            | EventMask::KEY_RELEASE
            | EventMask::BUTTON_PRESS
            | EventMask::BUTTON_RELEASE
            | EventMask::POINTER_MOTION;
        c.create_window(
            screen.root_depth,
            window,
            screen.root,
            x,
            y,
            size.0,
            size.1,
            0,
            WindowClass::INPUT_OUTPUT,
            screen.root_visual,
            &CreateWindowAux::new()
                .background_pixel(screen.black_pixel)
                .event_mask(events),
        )?;
        self.name(window, title)?;
        let protocols = c.intern_atom(false, b"WM_PROTOCOLS")?.reply()?.atom;
        c.change_property32(
            PropMode::REPLACE,
            window,
            protocols,
            AtomEnum::ATOM,
            &[self.delete_window],
        )?;
        // Standard properties: the name of the program, its input hint, and its minimal size.
        c.change_property8(
            PropMode::REPLACE,
            window,
            AtomEnum::WM_CLASS,
            AtomEnum::STRING,
            b"wuji\0Wuji\0",
        )?;
        let mut hints = WmHints::new();
        hints.input = Some(true);
        hints.set(c, window)?;
        let mut sizes = WmSizeHints::new();
        sizes.min_size = Some((32, 32));
        if self.position.is_some() {
            let by_user = WmSizeHintsSpecification::UserSpecified;
            sizes.position = Some((by_user, i32::from(x), i32::from(y)));
        }
        sizes.set_normal_hints(c, window)?;
        let context = c.generate_id()?;
        c.create_gc(context, window, &CreateGCAux::new())?;
        c.map_window(window)?;
        c.flush()?;
        Ok(Shown {
            window,
            context,
            size,
            picture: picture.clone(),
            buffer: Vec::new(),
            stale: true,
        })
    }

    /// Sends the picture, scaled to the window with its aspect ratio kept.
    fn draw(&mut self) -> Result<(), ConnectionError> {
        let Some(shown) = &mut self.window else {
            return Ok(());
        };
        let place = fit(shown.size, (shown.picture.width, shown.picture.height));
        let line = self.format.line(place.width);
        shown.buffer.resize(line * place.height, 0);
        let picture = &shown.picture;
        let columns = (0..place.width).map(|x| x * picture.width / place.width);
        let columns: Vec<usize> = columns.collect();
        for (row, out) in shown.buffer.chunks_exact_mut(line).enumerate() {
            let from = row * picture.height / place.height * picture.width;
            let row = &picture.pixels[from..from + picture.width];
            self.format.write_row(columns.iter().map(|x| row[*x]), out);
        }
        // Requests have a maximal size, so the picture is sent in stripes.
        let stripe = (self.connection.maximum_request_bytes().saturating_sub(64) / line).max(1);
        for (k, bytes) in shown.buffer.chunks(line * stripe).enumerate() {
            self.connection.put_image(
                ImageFormat::Z_PIXMAP,
                shown.window,
                shown.context,
                place.width as u16,
                (bytes.len() / line) as u16,
                place.x as i16,
                (place.y + k * stripe) as i16,
                0,
                self.format.depth,
                bytes,
            )?;
        }
        shown.stale = false;
        self.connection.flush()
    }

    /// The events since the last call.
    pub(crate) fn events(&mut self) -> Result<Vec<Event>, Lost> {
        let mut events = Vec::new();
        while let Some(event) = self.connection.poll_for_event()? {
            self.translate(event, &mut events)?;
        }
        if self.window.as_ref().is_some_and(|shown| shown.stale) {
            self.draw()?;
        }
        Ok(events)
    }

    fn translate(&mut self, event: XEvent, events: &mut Vec<Event>) -> Result<(), Lost> {
        match event {
            XEvent::KeyPress(press) | XEvent::KeyRelease(press) => events.push(Event::Key {
                key: self.key(press.detail, press.state),
                down: press.response_type & 0x7f == x11rb::protocol::xproto::KEY_PRESS_EVENT,
            }),
            XEvent::ButtonPress(press) | XEvent::ButtonRelease(press) => {
                let down =
                    press.response_type & 0x7f == x11rb::protocol::xproto::BUTTON_PRESS_EVENT;
                let at = self.place(press.event_x, press.event_y);
                let button = |button| Event::Button { button, down, at };
                match press.detail {
                    1 => events.push(button(Button::Left)),
                    2 => events.push(button(Button::Middle)),
                    3 => events.push(button(Button::Right)),
                    4 if down => events.push(Event::Scroll { by: 1.0, at }),
                    5 if down => events.push(Event::Scroll { by: -1.0, at }),
                    _ => {}
                }
            }
            XEvent::MotionNotify(motion) => events.push(Event::Pointer {
                at: self.place(motion.event_x, motion.event_y),
            }),
            XEvent::ConfigureNotify(now) => {
                if let Some(shown) = &mut self.window {
                    let size = (now.width.max(1), now.height.max(1));
                    if size != shown.size {
                        shown.size = size;
                        shown.stale = true;
                        self.connection
                            .clear_area(false, shown.window, 0, 0, 0, 0)?;
                    }
                }
            }
            XEvent::Expose(_) => {
                if let Some(shown) = &mut self.window {
                    shown.stale = true;
                }
            }
            XEvent::MappingNotify(_) => {
                let count = self.connection.setup().max_keycode - self.first_key + 1;
                self.keys = self
                    .connection
                    .get_keyboard_mapping(self.first_key, count)?
                    .reply()?;
            }
            XEvent::ClientMessage(message) if message.data.as_data32()[0] == self.delete_window => {
                events.push(Event::Close);
            }
            XEvent::DestroyNotify(_) => events.push(Event::Close),
            _ => {}
        }
        Ok(())
    }

    /// The meaning of a key with the current modifiers.
    fn key(&self, code: u8, state: KeyButMask) -> Key {
        let columns = usize::from(self.keys.keysyms_per_keycode);
        let start = usize::from(code.saturating_sub(self.first_key)) * columns;
        let at = |column: usize| {
            let keysym = self.keys.keysyms.get(start + column).copied();
            keysym.filter(|keysym| column < columns && *keysym != 0)
        };
        let plain = at(0).unwrap_or(0);
        let shifted = state.contains(KeyButMask::SHIFT);
        // Capitals without their own column are derived from the letter.
        let key = match Key::from_keysym(if shifted {
            at(1).unwrap_or(plain)
        } else {
            plain
        }) {
            Key::Char(c) if shifted != state.contains(KeyButMask::LOCK) => {
                c.to_uppercase().next().map_or(Key::Char(c), Key::Char)
            }
            key => key,
        };
        match key {
            Key::Other(0) => Key::Other(u32::from(code)),
            key => key,
        }
    }

    /// A pixel of the window in units of the picture, upwards.
    fn place(&self, x: i16, y: i16) -> [f32; 2] {
        let Some(shown) = &self.window else {
            return [0.0; 2];
        };
        let place = fit(shown.size, (shown.picture.width, shown.picture.height));
        let unit =
            |c: i16, from: usize, extent: usize| (f32::from(c) + 0.5 - from as f32) / extent as f32;
        [
            unit(x, place.x, place.width),
            1.0 - unit(y, place.y, place.height),
        ]
    }
}

/// The area of the picture in its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Viewport {
    x: usize,
    y: usize,
    width: usize,
    height: usize,
}

/// The largest centred area with the aspect ratio of the picture.
fn fit(window: (u16, u16), picture: (usize, usize)) -> Viewport {
    let (w, h) = (usize::from(window.0).max(1), usize::from(window.1).max(1));
    let (pw, ph) = (picture.0.max(1), picture.1.max(1));
    let (width, height) = if w * ph <= h * pw {
        (w, (w * ph / pw).max(1))
    } else {
        ((h * pw / ph).max(1), h)
    };
    Viewport {
        x: (w - width) / 2,
        y: (h - height) / 2,
        width,
        height,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_keep_their_proportions() {
        let place = |x, y, width, height| Viewport {
            x,
            y,
            width,
            height,
        };
        assert_eq!(fit((640, 320), (640, 320)), place(0, 0, 640, 320));
        assert_eq!(fit((640, 400), (64, 32)), place(0, 40, 640, 320));
        assert_eq!(fit((700, 320), (640, 320)), place(30, 0, 640, 320));
        assert_eq!(fit((1, 9), (600, 2)), place(0, 4, 1, 1));
    }

    #[test]
    fn pixels_of_all_depths() {
        let format = |masks, bytes, big_endian| Format {
            depth: 24,
            bytes,
            pad: 4,
            masks,
            big_endian,
        };
        let usual = format([0xff0000, 0xff00, 0xff], 4, false);
        let mut out = [0; 4];
        usual.write([1, 2, 3], &mut out);
        assert_eq!(out, [3, 2, 1, 0]);
        assert_eq!(usual.line(3), 12);
        let mut row = [9; 12];
        let pixels = [[1, 2, 3], [4, 5, 6]];
        usual.write_row(pixels.into_iter(), &mut row);
        assert_eq!(row, [3, 2, 1, 0, 6, 5, 4, 0, 9, 9, 9, 9]);
        format([0xff0000, 0xff00, 0xff], 4, true).write([1, 2, 3], &mut out);
        assert_eq!(out, [0, 1, 2, 3]);
        let small = format([0xf800, 0x7e0, 0x1f], 2, false);
        assert_eq!(small.pixel([255, 0, 8]), 0xf801);
        assert_eq!(small.line(3), 8);
        let mut row = [9; 6];
        small.write_row([[255, 0, 8], [0; 3]].into_iter(), &mut row);
        assert_eq!(row, [0x01, 0xf8, 0, 0, 9, 9]);
        let deep = format([0x3ff00000, 0xffc00, 0x3ff], 4, false);
        assert_eq!(deep.pixel([1, 0, 1]), 1 << 22 | 4);
    }
}
