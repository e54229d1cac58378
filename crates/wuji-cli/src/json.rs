//! Just enough JSON to write one object a line.

use std::fmt::Write;

/// An object under construction.
#[derive(Debug)]
pub(crate) struct Object(String);

impl Object {
    pub(crate) fn new() -> Object {
        Object(String::from("{"))
    }

    pub(crate) fn text(mut self, name: &str, value: &str) -> Object {
        self.name(name);
        quote(&mut self.0, value);
        self
    }

    /// Six digits behind the point; what is no number is `null`.
    pub(crate) fn number(mut self, name: &str, value: f64) -> Object {
        self.name(name);
        if value.is_finite() {
            let _ = write!(self.0, "{value:.6}");
        } else {
            self.0.push_str("null");
        }
        self
    }

    pub(crate) fn count(mut self, name: &str, value: u64) -> Object {
        self.name(name);
        let _ = write!(self.0, "{value}");
        self
    }

    pub(crate) fn null(mut self, name: &str) -> Object {
        self.name(name);
        self.0.push_str("null");
        self
    }

    pub(crate) fn end(mut self) -> String {
        self.0.push('}');
        self.0
    }

    fn name(&mut self, name: &str) {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        quote(&mut self.0, name);
        self.0.push(':');
    }
}

fn quote(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects() {
        let object = Object::new().text("a", "say \"x\"\n").count("b", 3);
        let object = object.number("c", 0.5).number("d", f64::NAN).null("e");
        assert_eq!(
            object.end(),
            r#"{"a":"say \"x\"\u000a","b":3,"c":0.500000,"d":null,"e":null}"#
        );
        assert_eq!(Object::new().end(), "{}");
    }
}
