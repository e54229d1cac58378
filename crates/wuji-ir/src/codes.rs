//! The error index: every code with its page of the book.
//!
//! A page is `docs/errors/CODE.md`. Its first line is `# CODE: title`; what follows says what the error
//! means, shows a program that causes it and the message that program gets, and how to mend it.
//! The package `wuji-book` runs those programs and compares; it also looks for codes without a page.

/// An error code, and what there is to know about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Code {
    /// As errors print it, like `W0401`.
    pub code: &'static str,
    /// The page of the book, in Markdown.
    pub page: &'static str,
}

impl Code {
    /// One line, without a full stop.
    pub fn title(&self) -> &'static str {
        let line = self.page.lines().next().unwrap_or_default();
        line.split_once(": ").map_or(line, |(_, title)| title)
    }

    /// The page without its first line.
    pub fn text(&self) -> &'static str {
        let rest = self.page.split_once('\n').map_or("", |(_, rest)| rest);
        rest.trim_start_matches('\n')
    }
}

/// All codes, in order.
pub fn all() -> &'static [Code] {
    CODES
}

/// The entry of a code, however it was typed: `W0401`, `w0401` or `401`.
pub fn find(code: &str) -> Option<&'static Code> {
    let code = code.trim();
    let digits = code.strip_prefix(['W', 'w']).unwrap_or(code);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let number: u32 = digits.parse().ok()?;
    let spelled = format!("W{number:04}");
    let at = CODES.binary_search_by(|c| c.code.cmp(&spelled)).ok()?;
    Some(&CODES[at])
}

macro_rules! codes {
    ($($code:ident)*) => {
        const CODES: &[Code] = &[$(Code {
            code: stringify!($code),
            page: include_str!(concat!("../../../docs/errors/", stringify!($code), ".md")),
        }),*];
    };
}

// In order: `find` searches by halves.
codes! {
    W0101
    W0401
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_in_order_and_pages_begin_with_them() {
        assert!(CODES.windows(2).all(|w| w[0].code < w[1].code));
        for code in all() {
            let start = format!("# {}: ", code.code);
            assert!(code.page.starts_with(&start), "{}", code.code);
            assert!(!code.title().is_empty() && !code.title().ends_with('.'));
            assert!(!code.text().is_empty());
        }
    }

    #[test]
    fn codes_are_found_however_they_are_typed() {
        for code in all() {
            let number = code.code.trim_start_matches(['W', '0']);
            for spelling in [code.code, &code.code.to_lowercase(), number] {
                assert_eq!(find(spelling), Some(code));
            }
        }
        for other in [
            "",
            "W",
            "W9999",
            "E0308",
            "W-1",
            "99999999999999999999",
            "WW0401",
        ] {
            assert_eq!(find(other), None);
        }
    }
}
