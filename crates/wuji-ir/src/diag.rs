//! The error type, and how it is displayed.

use crate::module::{Env, Span};
use std::fmt;

/// A resolved source position.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Position {
    /// The path, as the frontend knows it.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
}

impl Position {
    /// The position of a span; `None` if it is unknown.
    pub fn of(env: &Env, span: Span) -> Option<Position> {
        let file = env.files.get(span.file)?;
        span.is_known().then(|| Position {
            file: file.clone(),
            line: span.line,
            column: span.column,
        })
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// What went wrong, where, why, and what to do next.
#[derive(Clone, PartialEq, Eq)]
pub struct Error {
    /// A stable code such as `W0203`; `wuji explain` describes it.
    pub code: &'static str,
    /// One sentence, without a period.
    pub message: String,
    /// The place in the source.
    pub at: Option<Position>,
    /// Further lines, each after `note:`.
    pub notes: Vec<String>,
    /// What to do about it.
    pub help: Option<String>,
}

/// A result with an [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error without a place.
    pub fn new(code: &'static str, message: impl Into<String>) -> Error {
        Error {
            code,
            message: message.into(),
            at: None,
            notes: Vec::new(),
            help: None,
        }
    }

    /// Sets the place.
    pub fn at(mut self, at: Option<Position>) -> Error {
        self.at = at.or(self.at);
        self
    }

    /// Sets the position, unless it is known already.
    pub fn or_at(mut self, at: Position) -> Error {
        self.at.get_or_insert(at);
        self
    }

    /// Adds a note.
    pub fn note(mut self, note: impl Into<String>) -> Error {
        self.notes.push(note.into());
        self
    }

    /// Sets the help.
    pub fn help(mut self, help: impl Into<String>) -> Error {
        self.help = Some(help.into());
        self
    }
}

/// `error[W0203]: ...`, the source line with a caret when the file can be read, notes and help.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error[{}]: {}", self.code, self.message)?;
        let mut margin = String::from("  ");
        if let Some(at) = &self.at {
            write!(f, "\n  --> {at}")?;
            if let Some(line) = source_line(at) {
                margin = " ".repeat(at.line.to_string().len() + 1);
                let column = (at.column as usize).saturating_sub(1);
                write!(
                    f,
                    "\n{margin}|\n{} | {line}\n{margin}| {}^",
                    at.line,
                    " ".repeat(column)
                )?;
            }
        }
        for note in &self.notes {
            write!(f, "\n{margin}= note: {note}")?;
        }
        if let Some(help) = &self.help {
            write!(f, "\n{margin}= help: {help}")?;
        }
        Ok(())
    }
}

/// As `Display`, because `fn main() -> wuji::Result<()>` and `unwrap` show errors with `Debug`.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn source_line(at: &Position) -> Option<String> {
    let text = std::fs::read_to_string(&at.file).ok()?;
    let line = text.lines().nth(at.line.checked_sub(1)? as usize)?;
    Some(line.replace('\t', " "))
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_is_what_display_is() {
        let at = Position {
            file: "no_such_file.rs".into(),
            line: 3,
            column: 7,
        };
        let error = Error::new("W0401", "out of bounds").at(Some(at));
        let error = error.note("the index is 4").help("guard it");
        let text = "error[W0401]: out of bounds\n  --> no_such_file.rs:3:7\n  = note: the index is 4\n  = help: guard it";
        assert_eq!(format!("{error:?}"), text);
        assert_eq!(format!("{error:#?}"), text);
        assert_eq!(error.to_string(), text);
    }
}
