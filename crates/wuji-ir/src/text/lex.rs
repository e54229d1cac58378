//! The lexer: a cursor that reads words, numbers, strings and punctuation.
//!
//! The parser drives it, because the same characters mean different things in different contexts: `.1.0` is a
//! path in an access, and `1.0` a number after `const`.

use crate::diag::{Error, Position, Result};
use cranelift_entity::EntityRef;

/// A position in a text.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    pub(super) text: &'a str,
    file: &'a str,
    /// Byte offset of what comes next, white space and comments included.
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str, file: &'a str) -> Cursor<'a> {
        Cursor { text, file, at: 0 }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Skips white space and comments, and returns the position of the next token.
    pub(super) fn here(&mut self) -> usize {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            if !trimmed.starts_with(';') {
                return self.at;
            }
            self.at += trimmed.find('\n').unwrap_or(trimmed.len());
        }
    }

    pub(super) fn is_at_end(&mut self) -> bool {
        self.here() == self.text.len()
    }

    /// An error at a byte offset of the text.
    pub(super) fn error(&self, code: &'static str, at: usize, message: impl Into<String>) -> Error {
        let before = &self.text[..at];
        let start = before.rfind('\n').map_or(0, |n| n + 1);
        Error::new(code, message).at(Some(Position {
            file: self.file.to_owned(),
            line: before.matches('\n').count() as u32 + 1,
            column: before[start..].chars().count() as u32 + 1,
        }))
    }

    /// "expected this, found that", at the next token.
    pub(super) fn expected(&mut self, what: &str) -> Error {
        let at = self.here();
        let found = self.describe_next();
        self.error("W0002", at, format!("expected {what}, found {found}"))
    }

    fn describe_next(&mut self) -> String {
        self.here();
        let rest = self.rest();
        match rest.chars().next() {
            None => "the end of the text".to_owned(),
            Some(c) if is_word(c) => {
                let word: String = rest.chars().take_while(|c| is_word(*c)).take(40).collect();
                format!("`{word}`")
            }
            Some('"') => "a string".to_owned(),
            Some(c) if c.is_control() => format!("the character {:#x}", u32::from(c)),
            Some(c) => format!("`{c}`"),
        }
    }

    /// The next run of letters, digits and underscores, if there is one.
    pub(super) fn peek_word(&mut self) -> Option<&'a str> {
        self.here();
        let rest = self.rest();
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        (end > 0).then(|| &rest[..end])
    }

    pub(super) fn word(&mut self, what: &str) -> Result<&'a str> {
        match self.peek_word() {
            Some(word) => {
                self.at += word.len();
                Ok(word)
            }
            None => Err(self.expected(what)),
        }
    }

    /// Consumes the word if it comes next.
    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        let found = self.peek_word() == Some(word);
        if found {
            self.at += word.len();
        }
        found
    }

    pub(super) fn expect_word(&mut self, word: &str) -> Result<()> {
        if self.eat_word(word) {
            Ok(())
        } else {
            Err(self.expected(&format!("`{word}`")))
        }
    }

    pub(super) fn peeks(&mut self, punctuation: &str) -> bool {
        self.here();
        self.rest().starts_with(punctuation)
    }

    /// Consumes the punctuation if it comes next.
    pub(super) fn eat(&mut self, punctuation: &str) -> bool {
        let found = self.peeks(punctuation);
        if found {
            self.at += punctuation.len();
        }
        found
    }

    pub(super) fn expect(&mut self, punctuation: &str) -> Result<()> {
        if self.eat(punctuation) {
            Ok(())
        } else {
            Err(self.expected(&format!("`{punctuation}`")))
        }
    }

    /// The number of an id with the given prefix, if one comes next.
    pub(super) fn peek_id(&mut self, prefix: &str) -> Option<u32> {
        id_number(self.peek_word()?, prefix)
    }

    /// An id with the given prefix, like `v12`, and its position.
    pub(super) fn id<E: EntityRef>(&mut self, prefix: &str, what: &str) -> Result<(E, usize)> {
        let at = self.here();
        match self.peek_id(prefix) {
            Some(number) => {
                self.word(what)?;
                Ok((E::new(number as usize), at))
            }
            None => Err(self.expected(what)),
        }
    }

    /// A run of decimal digits no greater than `max`.
    pub(super) fn number(&mut self, what: &str, max: u64) -> Result<u64> {
        let at = self.here();
        let word = match self.peek_word() {
            Some(word) if word.bytes().all(|b| b.is_ascii_digit()) => word,
            _ => return Err(self.expected(what)),
        };
        self.at += word.len();
        match word.parse::<u64>() {
            Ok(number) if number <= max => Ok(number),
            _ => Err(self.error(
                "W0005",
                at,
                format!("{what} is at most {max}, found {}", shortened(word)),
            )),
        }
    }

    /// A decimal number with an optional sign.
    pub(super) fn signed(&mut self, what: &str) -> Result<i64> {
        let at = self.here();
        let negative = self.eat("-");
        let magnitude = self.number(what, 1 << 63)?;
        let value = if negative {
            -i128::from(magnitude)
        } else {
            i128::from(magnitude)
        };
        i64::try_from(value)
            .map_err(|_| self.error("W0005", at, format!("{what} does not fit 64 bits")))
    }

    /// The characters of a constant: up to white space or punctuation that is not part of a number.
    pub(super) fn literal(&mut self) -> Result<&'a str> {
        self.here();
        let rest = self.rest();
        let end = rest
            .find(|c| !(is_word(c) || matches!(c, '.' | '+' | '-')))
            .unwrap_or(rest.len());
        if end == 0 {
            return Err(self.expected("a constant"));
        }
        self.at += end;
        Ok(&rest[..end])
    }

    /// A string in double quotes.
    pub(super) fn string(&mut self, what: &str) -> Result<String> {
        let start = self.here();
        if !self.eat("\"") {
            return Err(self.expected(what));
        }
        let mut out = String::new();
        loop {
            let at = self.at;
            match self.next_char() {
                None | Some('\n') => {
                    return Err(self.error("W0001", start, "this string has no end"));
                }
                Some('"') => return Ok(out),
                Some('\\') => out.push(self.escape(at)?),
                Some(c) => out.push(c),
            }
        }
    }

    fn escape(&mut self, at: usize) -> Result<char> {
        let unknown = |c: &Cursor<'a>| {
            c.error(
                "W0001",
                at,
                "unknown escape; there are \\\" \\\\ \\n \\r \\t \\u{...}",
            )
        };
        match self.next_char() {
            Some('"') => Ok('"'),
            Some('\\') => Ok('\\'),
            Some('n') => Ok('\n'),
            Some('r') => Ok('\r'),
            Some('t') => Ok('\t'),
            Some('u') if self.rest().starts_with('{') => {
                let body = self.rest();
                let Some(end) = body.find('}').filter(|end| *end <= 9) else {
                    return Err(unknown(self));
                };
                self.at += end + 1;
                u32::from_str_radix(&body[1..end], 16)
                    .ok()
                    .and_then(char::from_u32)
                    .ok_or_else(|| self.error("W0001", at, "no such character"))
            }
            _ => Err(unknown(self)),
        }
    }

    fn next_char(&mut self) -> Option<char> {
        let c = self.rest().chars().next()?;
        self.at += c.len_utf8();
        Some(c)
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The number in an id's spelling: the prefix, then digits, below the largest id.
pub(super) fn id_number(word: &str, prefix: &str) -> Option<u32> {
    let digits = word.strip_prefix(prefix)?;
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok().filter(|n| *n < u32::MAX)
}

/// A piece of text for an error message, cut when it is long.
pub(super) fn shortened(text: &str) -> String {
    if text.chars().count() <= 40 {
        text.to_owned()
    } else {
        text.chars().take(37).chain("...".chars()).collect()
    }
}

/// A string as it is written in the text.
pub(super) fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Whether a struct field's name can stand without quotes.
pub(super) fn is_plain_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(is_word)
}
