//! Events of the window.

/// An event of the window. Positions are in units of the picture: 0 to 1 from left to right and from bottom to top.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// A key was pressed or released.
    Key {
        /// The key.
        key: Key,
        /// Whether it was pressed.
        down: bool,
    },
    /// A button of the mouse was pressed or released.
    Button {
        /// The button.
        button: Button,
        /// Whether it was pressed.
        down: bool,
        /// Where the pointer is: 0 to 1, y up.
        at: [f32; 2],
    },
    /// The pointer has moved.
    Pointer {
        /// Where the pointer is: 0 to 1, y up.
        at: [f32; 2],
    },
    /// The wheel: positive is away from the user.
    Scroll {
        /// How far; up is positive.
        by: f32,
        /// Where the pointer is: 0 to 1, y up.
        at: [f32; 2],
    },
    /// The window was closed, or the connection to its display was lost. It is the last event.
    Close,
}

/// A button of the mouse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Button {
    /// The left button.
    Left,
    /// The middle button, or the wheel.
    Middle,
    /// The right button.
    Right,
}

/// A key, by its label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// A character as it is typed: `Char('a')`, `Char(' ')`.
    Char(char),
    /// Enter, on either part of the keyboard.
    Enter,
    /// Escape.
    Escape,
    /// Backspace.
    Backspace,
    /// Tab.
    Tab,
    /// Delete.
    Delete,
    /// Home.
    Home,
    /// End.
    End,
    /// Page up.
    PageUp,
    /// Page down.
    PageDown,
    /// The left arrow.
    Left,
    /// The right arrow.
    Right,
    /// The up arrow.
    Up,
    /// The down arrow.
    Down,
    /// Shift, on either side.
    Shift,
    /// Control, on either side.
    Control,
    /// Alt, on either side.
    Alt,
    /// A function key, from 1.
    Function(u8),
    /// Another key, by its X11 keysym.
    Other(u32),
}

impl Key {
    /// The key of an X11 keysym.
    pub(crate) fn from_keysym(keysym: u32) -> Key {
        match keysym {
            // Latin-1 characters are themselves; other Unicode characters have a flag bit.
            0x20..=0x7e | 0xa0..=0xff => {
                char::from_u32(keysym).map_or(Key::Other(keysym), Key::Char)
            }
            0x0100_0000..=0x0110_ffff => {
                char::from_u32(keysym & 0x00ff_ffff).map_or(Key::Other(keysym), Key::Char)
            }
            0xff0d | 0xff8d => Key::Enter,
            0xff1b => Key::Escape,
            0xff08 => Key::Backspace,
            0xff09 => Key::Tab,
            0xffff => Key::Delete,
            0xff50 => Key::Home,
            0xff57 => Key::End,
            0xff55 => Key::PageUp,
            0xff56 => Key::PageDown,
            0xff51 => Key::Left,
            0xff52 => Key::Up,
            0xff53 => Key::Right,
            0xff54 => Key::Down,
            0xffe1 | 0xffe2 => Key::Shift,
            0xffe3 | 0xffe4 => Key::Control,
            0xffe9 | 0xffea => Key::Alt,
            0xffbe..=0xffd5 => Key::Function((keysym - 0xffbd) as u8),
            // The digits of the numeric keypad.
            0xffb0..=0xffb9 => {
                char::from_digit(keysym - 0xffb0, 10).map_or(Key::Other(keysym), Key::Char)
            }
            _ => Key::Other(keysym),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keysyms() {
        for (keysym, key) in [
            (0x61, Key::Char('a')),
            (0x20, Key::Char(' ')),
            (0xe4, Key::Char('ä')),
            (0x0100_221e, Key::Char('∞')),
            (0xff1b, Key::Escape),
            (0xffbe, Key::Function(1)),
            (0xffb7, Key::Char('7')),
            (0x0100_d800, Key::Other(0x0100_d800)),
            (0, Key::Other(0)),
        ] {
            assert_eq!(Key::from_keysym(keysym), key);
        }
    }
}
