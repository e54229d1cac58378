//! How a value is written into a message: what stands after the colon of a hole.

use std::fmt::{self, Write};

/// A format as in Rust: `>8.3`, `+`, `08`, `#x`.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Format {
    /// The character that fills the width; a blank if there is none.
    pub fill: Option<char>,
    /// Where the value is in its width.
    pub align: Option<Align>,
    /// A sign in front of positive numbers too.
    pub plus: bool,
    /// A prefix in front of numbers that are not decimal.
    pub prefix: bool,
    /// Zeros between the sign and the digits.
    pub zeros: bool,
    /// The least number of characters.
    pub width: Option<u16>,
    /// Digits after the point.
    pub precision: Option<u8>,
    /// The base of integers, or the notation of floats.
    pub radix: Radix,
}

/// Where a value is in its width.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Align {
    /// At the left, `<`.
    Left,
    /// In the center, `^`.
    Center,
    /// At the right, `>`.
    Right,
}

/// The base of integers, or the notation of floats.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, Default)]
pub enum Radix {
    /// Base 10.
    #[default]
    Decimal,
    /// Base 2, `b`.
    Binary,
    /// Base 8, `o`.
    Octal,
    /// Base 16 with small letters, `x`.
    LowerHex,
    /// Base 16 with capital letters, `X`.
    UpperHex,
    /// With an exponent, for floats.
    LowerExp,
    /// With an exponent, `E`.
    UpperExp,
}

impl Radix {
    /// Whether only integers are written so.
    pub fn is_for_ints(self) -> bool {
        match self {
            Radix::Binary | Radix::Octal | Radix::LowerHex | Radix::UpperHex => true,
            Radix::Decimal | Radix::LowerExp | Radix::UpperExp => false,
        }
    }

    /// Whether only floats are written so.
    pub fn is_for_floats(self) -> bool {
        match self {
            Radix::LowerExp | Radix::UpperExp => true,
            Radix::Decimal | Radix::Binary | Radix::Octal | Radix::LowerHex | Radix::UpperHex => {
                false
            }
        }
    }

    fn letter(self) -> Option<char> {
        match self {
            Radix::Decimal => None,
            Radix::Binary => Some('b'),
            Radix::Octal => Some('o'),
            Radix::LowerHex => Some('x'),
            Radix::UpperHex => Some('X'),
            Radix::LowerExp => Some('e'),
            Radix::UpperExp => Some('E'),
        }
    }
}

fn align(c: char) -> Option<Align> {
    match c {
        '<' => Some(Align::Left),
        '^' => Some(Align::Center),
        '>' => Some(Align::Right),
        _ => None,
    }
}

impl Format {
    /// With so many digits after the point.
    pub fn with_precision(precision: Option<u8>) -> Format {
        Format {
            precision,
            ..Format::default()
        }
    }

    /// Reads what stands after the colon; `None` if it is not a format.
    pub fn parse(text: &str) -> Option<Format> {
        let mut format = Format::default();
        let mut rest = text;
        let mut chars = text.chars();
        match (chars.next(), chars.next()) {
            (Some('{' | '}'), _) => return None,
            (Some(fill), Some(c)) if align(c).is_some() => {
                (format.fill, format.align) = (Some(fill), align(c));
                rest = chars.as_str();
            }
            (Some(c), _) if align(c).is_some() => {
                format.align = align(c);
                rest = &text[1..];
            }
            _ => {}
        }
        let mut flag = |c: char| match rest.strip_prefix(c) {
            Some(after) => {
                rest = after;
                true
            }
            None => false,
        };
        format.plus = flag('+');
        format.prefix = flag('#');
        format.zeros = flag('0');
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (width, after) = rest.split_at(digits);
        if !width.is_empty() {
            format.width = Some(width.parse().ok()?);
        }
        rest = after;
        if let Some(after) = rest.strip_prefix('.') {
            let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let (precision, after) = after.split_at(digits);
            format.precision = Some(precision.parse().ok()?);
            rest = after;
        }
        format.radix = match rest {
            "" => Radix::Decimal,
            "b" => Radix::Binary,
            "o" => Radix::Octal,
            "x" => Radix::LowerHex,
            "X" => Radix::UpperHex,
            "e" => Radix::LowerExp,
            "E" => Radix::UpperExp,
            _ => return None,
        };
        Some(format)
    }

    /// Appends a number or word, given as its sign, its prefix and the rest, in the width that it has.
    pub(crate) fn pad(
        &self,
        out: &mut String,
        negative: bool,
        prefix: &str,
        text: &str,
        natural: Align,
    ) {
        let sign = match (negative, self.plus) {
            (true, _) => "-",
            (false, true) => "+",
            (false, false) => "",
        };
        let prefix = if self.prefix { prefix } else { "" };
        let used = sign.len() + prefix.len() + text.chars().count();
        let missing = usize::from(self.width.unwrap_or(0)).saturating_sub(used);
        let (before, zeros, after) = match (self.zeros, self.align.unwrap_or(natural)) {
            (true, _) => (0, missing, 0),
            (false, Align::Left) => (0, 0, missing),
            (false, Align::Right) => (missing, 0, 0),
            (false, Align::Center) => (missing / 2, 0, missing - missing / 2),
        };
        let fill = self.fill.unwrap_or(' ');
        out.extend(std::iter::repeat_n(fill, before));
        out.push_str(sign);
        out.push_str(prefix);
        out.extend(std::iter::repeat_n('0', zeros));
        out.push_str(text);
        out.extend(std::iter::repeat_n(fill, after));
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(align) = self.align {
            if let Some(fill) = self.fill {
                f.write_char(fill)?;
            }
            f.write_char(match align {
                Align::Left => '<',
                Align::Center => '^',
                Align::Right => '>',
            })?;
        }
        for (set, c) in [(self.plus, '+'), (self.prefix, '#'), (self.zeros, '0')] {
            if set {
                f.write_char(c)?;
            }
        }
        if let Some(width) = self.width {
            write!(f, "{width}")?;
        }
        if let Some(precision) = self.precision {
            write!(f, ".{precision}")?;
        }
        match self.radix.letter() {
            Some(letter) => f.write_char(letter),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_read_and_written() {
        for text in [
            "", ">8.3", "*^12", "+", "08", "#x", "<5", "+08.2e", "#010b", ">>4",
        ] {
            let format = Format::parse(text).expect(text);
            assert_eq!(format.to_string(), text);
        }
    }

    #[test]
    fn others_are_refused() {
        for text in [
            ".", "8$", ".*", "?", "8 ", "99999999", ".999", "}>4", "xx", "-",
        ] {
            assert_eq!(Format::parse(text), None, "{text}");
        }
    }
}
