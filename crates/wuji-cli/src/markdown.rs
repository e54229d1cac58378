//! Renders Markdown pages of the book for a terminal: the subset that the error index uses.

use crate::paint::Paint;

/// Prose is wrapped at this width.
const WIDTH: usize = 88;

/// Renders a page.
pub(crate) fn page(text: &str, paint: Paint) -> String {
    let mut out = String::new();
    let mut paragraph = String::new();
    // The info string of the current code block.
    let mut code: Option<&str> = None;
    for line in text.lines() {
        if let Some(kind) = line.trim_start().strip_prefix("```") {
            flush(&mut paragraph, &mut out, paint);
            code = match code {
                None => Some(kind),
                Some(_) => None,
            };
            gap(&mut out);
            continue;
        }
        if let Some(kind) = code {
            // Hidden lines of the book.
            if kind.starts_with("rust") && (line == "#" || line.starts_with("# ")) {
                continue;
            }
            out.push_str(format!("    {}", paint.code(line)).trim_end());
            out.push('\n');
        } else if line.trim().is_empty() {
            flush(&mut paragraph, &mut out, paint);
            gap(&mut out);
        } else if let Some(title) = heading(line) {
            flush(&mut paragraph, &mut out, paint);
            out.push_str(&paint.bold(title));
            out.push_str("\n\n");
        } else if line.starts_with('|') {
            flush(&mut paragraph, &mut out, paint);
            // Skips the separator between the head and the body of a table.
            if !line.chars().all(|c| "|-: ".contains(c)) {
                out.push_str(&self::line(line, paint));
                out.push('\n');
            }
        } else if line.trim_start().starts_with("- ") {
            flush(&mut paragraph, &mut out, paint);
            paragraph.push_str(line);
        } else {
            if !paragraph.is_empty() {
                paragraph.push(' ');
            }
            paragraph.push_str(line.trim());
        }
    }
    flush(&mut paragraph, &mut out, paint);
    let end = out.trim_end().len();
    out.truncate(end);
    out.push('\n');
    out
}

/// Adds an empty line, unless there is one.
fn gap(out: &mut String) {
    if !out.is_empty() && !out.ends_with("\n\n") {
        out.push('\n');
    }
}

fn heading(line: &str) -> Option<&str> {
    let title = line.trim_start_matches('#');
    (title.len() < line.len()).then(|| title.strip_prefix(' '))?
}

fn flush(paragraph: &mut String, out: &mut String, paint: Paint) {
    if paragraph.is_empty() {
        return;
    }
    let text = std::mem::take(paragraph);
    let item = text.starts_with("- ");
    let mut width = 0;
    let mut filled = String::new();
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if width > 0 && width + 1 + length > WIDTH {
            filled.push('\n');
            width = 0;
            if item {
                filled.push_str("  ");
                width = 2;
            }
        } else if width > 0 {
            filled.push(' ');
            width += 1;
        }
        filled.push_str(word);
        width += length;
    }
    out.push_str(&line(&filled, paint));
    out.push('\n');
}

/// Renders inline code, bold text and links.
pub(crate) fn line(text: &str, paint: Paint) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['`', '*', '[']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let part = if let Some(code) = rest.strip_prefix('`') {
            code.split_once('`').map(|(code, after)| {
                let shown = if paint.is_on() {
                    paint.code(code)
                } else {
                    format!("`{code}`")
                };
                (shown, after)
            })
        } else if let Some(strong) = rest.strip_prefix("**") {
            let parts = strong.split_once("**");
            parts.map(|(strong, after)| (paint.bold(strong), after))
        } else if let Some(link) = rest.strip_prefix('[') {
            link.split_once("](").and_then(|(name, after)| {
                let (_, after) = after.split_once(')')?;
                // A nested bracket is not a link.
                (!name.contains(['[', ']'])).then(|| (line(name, paint), after))
            })
        } else {
            None
        };
        match part {
            Some((shown, after)) => {
                out.push_str(&shown);
                rest = after;
            }
            None => {
                let next = rest.chars().next().map_or(0, char::len_utf8);
                out.push_str(&rest[..next]);
                rest = &rest[next..];
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    const PAGE: &str = "# W0001: a `thing`\n\nText that is *long*, with **strong words** and a [link](other.md), and which goes on\nfor more than one line so that it has to be filled anew.\n\n- one\n- two\n\n| a | b |\n|---|---|\n| 1 | `2` |\n\n```rust,error\n# hidden\nlet x = a[0] * 2;\n\nf(x);\n```\n\n```text\nerror\n```\n\nUnbalanced ` and ** and [ stay.\n";

    #[test]
    fn pages_without_colour() {
        expect![[r#"
            W0001: a `thing`

            Text that is *long*, with strong words and a link, and which goes on for
            more than one line so that it has to be filled anew.

            - one
            - two

            | a | b |
            | 1 | `2` |

                let x = a[0] * 2;

                f(x);

                error

            Unbalanced ` and ** and [ stay.
        "#]]
        .assert_eq(&page(PAGE, Paint::OFF));
    }

    #[test]
    fn colours_replace_markup() {
        assert_eq!(
            line("a `b` **c**", Paint::ON),
            "a \x1b[36mb\x1b[0m \x1b[1mc\x1b[0m"
        );
    }

    #[test]
    fn all_pages_render() {
        for code in wuji_ir::codes::all() {
            let shown = page(code.page, Paint::OFF);
            assert!(shown.starts_with(code.code) && shown.ends_with('\n'));
            assert!(!shown.contains("```") && !shown.contains("**"), "{shown}");
        }
    }
}
