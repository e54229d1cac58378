//! Coloured output for terminals.

use std::io::{self, IsTerminal};

/// Whether and how text is coloured.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Paint {
    on: bool,
}

impl Paint {
    #[cfg(test)]
    pub(crate) const OFF: Paint = Paint { on: false };
    #[cfg(test)]
    pub(crate) const ON: Paint = Paint { on: true };

    pub(crate) fn for_output() -> Paint {
        Paint::when(io::stdout().is_terminal())
    }

    pub(crate) fn for_errors() -> Paint {
        Paint::when(io::stderr().is_terminal())
    }

    /// `NO_COLOR` with any value disables colours, and so does a terminal without them.
    fn when(terminal: bool) -> Paint {
        let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty());
        let dumb = set("TERM").is_none_or(|term| term == "dumb");
        Paint {
            on: terminal && !dumb && set("NO_COLOR").is_none(),
        }
    }

    pub(crate) fn is_on(self) -> bool {
        self.on
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.on {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    pub(crate) fn code(self, text: &str) -> String {
        self.with("36", text)
    }

    /// An error with its code, notes and position highlighted.
    pub(crate) fn error(self, text: &str) -> String {
        if !self.on {
            return text.to_owned();
        }
        let mut lines = Vec::new();
        for line in text.lines() {
            let painted = match line.split_once(": ") {
                Some((head, rest)) if lines.is_empty() && head.starts_with("error[") => {
                    format!("{}: {}", self.with("1;31", head), self.bold(rest))
                }
                Some((head, rest)) if head.trim_start().starts_with("= ") => {
                    format!("{}: {rest}", self.with("1;36", head))
                }
                _ if line.trim_start().starts_with("--> ") => self.with("34", line),
                _ if line.trim().starts_with('|') && line.trim_end().ends_with('^') => {
                    self.with("1;31", line)
                }
                _ => line.to_owned(),
            };
            lines.push(painted);
        }
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_keep_their_text() {
        let error = wuji_ir::Error::new("W0001", "this is: wrong")
            .note("a: b")
            .help("c");
        let text = error.to_string();
        assert_eq!(Paint::OFF.error(&text), text);
        let painted = Paint::ON.error(&text);
        assert!(painted.starts_with("\x1b[1;31merror[W0001]\x1b[0m: "));
        let mut plain = painted;
        while let Some(start) = plain.find('\x1b') {
            let end = start + plain[start..].find('m').unwrap();
            plain.replace_range(start..=end, "");
        }
        assert_eq!(plain, text);
    }
}
