//! Lines of code, without blank lines and comments.

/// The lines of code in a text between `ANCHOR: name` and `ANCHOR_END: name`, for any of the names.
pub fn count(source: &str, anchors: &[&str]) -> usize {
    let mut inside = false;
    let mut lines = 0;
    for line in source.lines().map(str::trim) {
        if let Some(comment) = line.strip_prefix("//") {
            let comment = comment.trim();
            let named = |prefix| comment.strip_prefix(prefix).map(str::trim);
            if named("ANCHOR:").is_some_and(|name| anchors.contains(&name)) {
                inside = true;
            } else if named("ANCHOR_END:").is_some_and(|name| anchors.contains(&name)) {
                inside = false;
            }
        } else if inside && !line.is_empty() {
            lines += 1;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_blank_lines_do_not_count() {
        let text = "\
fn before() {}
// ANCHOR: a
/// Documentation.
fn f() {

    g(); // counts
}
// ANCHOR_END: a
fn between() {}
// ANCHOR: b
fn h() {}
// ANCHOR_END: b
";
        assert_eq!(count(text, &["a"]), 3);
        assert_eq!(count(text, &["a", "b"]), 4);
        assert_eq!(count(text, &["c"]), 0);
    }
}
