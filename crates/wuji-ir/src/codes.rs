//! The error index: every code with its page of the book.
//!
//! A page is `docs/errors/CODE.md`. Its first line is `# CODE: title`. The rest explains the error, shows a
//! program that causes it with its message, and how to fix it. The package `wuji-book` runs those programs
//! and compares the messages; it also checks that every code has a page.

/// An error code and its documentation.
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

/// The entry of a code in any spelling: `W0401`, `w0401` or `401`.
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
            page: include_str!(concat!("../errors/", stringify!($code), ".md")),
        }),*];
    };
}

// Sorted: `find` uses a binary search.
codes! {
    W0001 W0002 W0003 W0004 W0005 W0006 W0007 W0008 W0020 W0021
    W0022 W0023 W0024 W0025 W0026 W0027 W0028 W0029 W0030 W0031
    W0032 W0034 W0035 W0101 W0102 W0103 W0104 W0105 W0106 W0107
    W0110 W0111 W0112 W0113 W0114 W0115 W0116 W0117 W0118 W0119
    W0120 W0121 W0122 W0123 W0124 W0125 W0126 W0127 W0128 W0129
    W0130 W0131 W0132 W0133 W0134 W0135 W0136 W0137 W0138 W0140 W0141 W0142 W0150 W0151 W0160 W0161 W0162 W0163 W0200 W0204 W0205 W0211 W0212 W0213 W0227
    W0228 W0230 W0235 W0236 W0238 W0239 W0240 W0241 W0242 W0243 W0245
    W0250 W0251 W0252 W0253 W0254 W0290 W0300 W0301 W0302 W0303 W0310
    W0312 W0313 W0320 W0330 W0331 W0340 W0341 W0350 W0351 W0352 W0353 W0401 W0402 W0403 W0404
    W0405 W0406 W0407 W0408 W0409 W0410 W0490 W0491 W0493 W0494
    W0495 W0496 W0497 W0498 W0501 W0502 W0503 W0504 W0506 W0507 W0508
    W0509 W0510 W0511 W0512 W0513 W0514 W0515 W0516 W0520 W0521 W0522
    W0523 W0524 W0525 W0526 W0530 W0531 W0532 W0533 W0534 W0600 W0601 W0602 W0603 W0604 W0605 W0606 W0607
    W0608 W0609 W0610 W0611 W0612 W0701 W0702 W0703 W0704 W0705 W0706 W0710 W0711 W0720 W0721
    W0730 W0731 W0732 W0733 W0734 W0735 W0736 W0737 W0738 W0739
    W0740 W0741 W0742 W0801 W0802 W0803 W0804 W0805 W0806
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
    fn codes_are_found_in_any_spelling() {
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
