//! Parses runs.

use super::items::{Item, Items};
use wuji_ir::entities::{Array, Field};
use wuji_ir::{Error, Position, Result};

/// A syntax error.
const UNREADABLE: &str = "W0008";
/// The deepest nesting of brackets.
const DEEPEST: usize = 32;

/// The inputs and expected outputs of a launch.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The position of its start.
    pub at: Option<Position>,
    /// The inputs.
    pub before: Vec<Entry>,
    /// The expected outputs.
    pub after: Vec<Entry>,
}

/// One entry, such as `f0 = [0, 1]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// What has the values.
    pub target: ScriptTarget,
    /// `~` instead of `=`.
    pub approximate: bool,
    /// The values.
    pub items: Items,
    /// The array whose memory it shares, instead of scalars.
    pub view: Option<View>,
    at: Option<Position>,
    /// The source text, if it is not from a file.
    text: String,
}

/// The layout of an array in the memory of another one, in bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// The array with the memory.
    pub of: Array,
    /// The position of the first element.
    pub at: i64,
    /// The distances along each axis; `None` for row-major order.
    pub strides: Option<Vec<i64>>,
}

/// What an entry gives values to.
#[derive(Clone, Debug, PartialEq)]
pub enum ScriptTarget {
    /// All elements of a field.
    Field(Field),
    /// One element of a field.
    Element(Field, Vec<i64>),
    /// The active elements of a field.
    Active(Field),
    /// An array, with its extents if they are given.
    Array(Array, Option<Vec<i64>>),
    /// A parameter by value.
    Param(usize),
    /// The seed of random numbers.
    Seed,
    /// The number of the launch.
    Launch,
    /// The result of the kernel.
    Result,
    /// What is reported.
    Reports,
    /// What is printed.
    Prints,
}

impl Entry {
    /// An error at the position of the entry.
    pub(super) fn error(&self, code: &'static str, message: impl Into<String>) -> Error {
        let error = Error::new(code, message).at(self.at.clone());
        match self.at {
            Some(_) => error,
            None => error.note(format!("in `{}`", self.text)),
        }
    }
}

/// Source text with its position.
#[derive(Clone, Debug)]
pub struct Source {
    text: String,
    /// The offsets of pieces of the text, and their positions in the file.
    pieces: Vec<(usize, Position)>,
}

/// The `; run:` lines of a file of textual IR. A line continues on the next one if that is a comment indented by six.
/// Lines after `; output:` are ignored.
pub fn runs(text: &str, file: &str) -> Vec<Source> {
    let mut found: Vec<Source> = Vec::new();
    let mut continues = false;
    for (number, line) in text.lines().enumerate() {
        if line.trim_end() == "; output:" {
            break;
        }
        let first = line.strip_prefix("; run:");
        let more = line.strip_prefix(";      ").filter(|_| continues);
        continues = first.is_some() || more.is_some();
        let Some(rest) = first.or(more) else {
            continue;
        };
        let rest = rest.trim_start();
        let at = Position {
            file: file.to_owned(),
            line: number as u32 + 1,
            column: line[..line.len() - rest.len()].chars().count() as u32 + 1,
        };
        if first.is_some() {
            found.push(Source {
                text: String::new(),
                pieces: Vec::new(),
            });
        }
        if let Some(source) = found.last_mut() {
            if !source.text.is_empty() {
                source.text.push(' ');
            }
            source.pieces.push((source.text.len(), at));
            source.text.push_str(rest.trim_end());
        }
    }
    found
}

impl Source {
    /// Text that is not from a file.
    pub fn new(text: impl Into<String>) -> Source {
        Source {
            text: text.into(),
            pieces: Vec::new(),
        }
    }

    /// The position of a byte of the text.
    fn position(&self, offset: usize) -> Option<Position> {
        let (start, at) = self
            .pieces
            .iter()
            .rev()
            .find(|(start, _)| *start <= offset)?;
        let before = self.text.get(*start..offset).unwrap_or("");
        Some(Position {
            column: at.column + before.chars().count() as u32,
            ..at.clone()
        })
    }

    /// Both sides of an arrow.
    pub fn run(&self) -> Result<Run> {
        let mut reader = self.reader();
        let before = reader.side("=>")?;
        reader.expect("=>")?;
        let after = reader.side("")?;
        reader.end()?;
        Ok(Run {
            at: self.position(0),
            before,
            after,
        })
    }

    /// The inputs of a launch, without an arrow.
    pub fn before(&self) -> Result<Vec<Entry>> {
        let mut reader = self.reader();
        let entries = reader.side("")?;
        reader.end()?;
        Ok(entries)
    }

    fn reader(&self) -> Reader<'_> {
        Reader {
            source: self,
            rest: &self.text,
            depth: 0,
        }
    }
}

/// Truncates a text for messages.
fn shortened(text: &str) -> String {
    const SHOWN: usize = 40;
    let line = text.lines().next().unwrap_or("").trim();
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line.to_owned(),
    }
}

struct Reader<'a> {
    source: &'a Source,
    rest: &'a str,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn offset(&self) -> usize {
        self.source.text.len() - self.rest.len()
    }

    fn error(&mut self, message: impl Into<String>) -> Error {
        self.skip();
        self.error_at(self.offset(), message)
    }

    fn error_at(&self, offset: usize, message: impl Into<String>) -> Error {
        let at = self.source.position(offset);
        let error = Error::new(UNREADABLE, message);
        match at {
            Some(_) => error.at(at),
            None => error.note(format!("in `{}`", shortened(&self.source.text))),
        }
    }

    fn expected(&mut self, what: &str) -> Error {
        self.skip();
        let before = match self.rest {
            "" => "at the end".to_owned(),
            rest => format!("before `{}`", shortened(rest)),
        };
        self.error(format!("expected {what} {before}"))
    }

    /// Skips white space and comments.
    fn skip(&mut self) {
        self.rest = self.rest.trim_start();
        while let Some(comment) = self.rest.strip_prefix(';') {
            let end = comment.find('\n').unwrap_or(comment.len());
            self.rest = comment[end..].trim_start();
        }
    }

    fn peeks(&mut self, text: &str) -> bool {
        self.skip();
        self.rest.starts_with(text)
    }

    fn eat(&mut self, text: &str) -> bool {
        let found = self.peeks(text);
        if found {
            self.rest = &self.rest[text.len()..];
        }
        found
    }

    fn expect(&mut self, text: &str) -> Result<()> {
        if self.eat(text) {
            Ok(())
        } else {
            Err(self.expected(&format!("`{text}`")))
        }
    }

    fn end(&mut self) -> Result<()> {
        self.skip();
        match self.rest {
            "" => Ok(()),
            rest => Err(self.error(format!("unexpected `{}`", shortened(rest)))),
        }
    }

    /// Letters, digits, `_`, `.`, `+`, `-`.
    fn word(&mut self, what: &str) -> Result<&'a str> {
        self.skip();
        let end = self
            .rest
            .find(|c: char| !(c.is_alphanumeric() || "_.+-".contains(c)))
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        if word.is_empty() {
            return Err(self.expected(what));
        }
        self.rest = rest;
        Ok(word)
    }

    /// Entries, separated by commas or line breaks.
    fn side(&mut self, end: &str) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        self.skip();
        if self.rest.is_empty() || (!end.is_empty() && self.peeks(end)) {
            return Ok(entries);
        }
        loop {
            entries.push(self.entry()?);
            if self.eat(",") {
                continue;
            }
            let used = &self.source.text[..self.offset()];
            let blank = &used[used.trim_end().len()..];
            let next_line = blank.contains('\n');
            if self.rest.is_empty() || !next_line || (!end.is_empty() && self.peeks(end)) {
                return Ok(entries);
            }
        }
    }

    fn entry(&mut self) -> Result<Entry> {
        self.skip();
        let start = self.offset();
        let target = self.target()?;
        let approximate = self.eat("~");
        if !approximate {
            self.expect("=")?;
        }
        let mut items = Items::default();
        let view = self.view()?;
        if view.is_none() {
            self.value(&mut items)?;
        }
        Ok(Entry {
            target,
            approximate,
            items,
            view,
            at: self.source.position(start),
            text: shortened(&self.source.text[start..self.offset()]),
        })
    }

    fn target(&mut self) -> Result<ScriptTarget> {
        self.skip();
        let start = self.offset();
        let word = self.word("a field, an array or a parameter")?;
        let numbered = |prefix: &str| -> Option<u32> { number(word.strip_prefix(prefix)?) };
        match word {
            "result" => return Ok(ScriptTarget::Result),
            "reports" => return Ok(ScriptTarget::Reports),
            "prints" => return Ok(ScriptTarget::Prints),
            "seed" => return Ok(ScriptTarget::Seed),
            "launch" => return Ok(ScriptTarget::Launch),
            "active" => {
                let word = self.word("a field")?;
                let found = word.strip_prefix('f').and_then(number);
                return match found {
                    Some(n) => Ok(ScriptTarget::Active(Field::from_u32(n))),
                    None => Err(self.error_at(start, format!("`{word}` is not a field"))),
                };
            }
            _ => {}
        }
        if let Some(n) = numbered("f") {
            let field = Field::from_u32(n);
            return Ok(if self.eat("[") {
                ScriptTarget::Element(field, self.numbers("]")?)
            } else {
                ScriptTarget::Field(field)
            });
        }
        if let Some(n) = numbered("a") {
            let extents = if self.eat("(") {
                Some(self.numbers(")")?)
            } else {
                None
            };
            return Ok(ScriptTarget::Array(Array::from_u32(n), extents));
        }
        if let Some(n) = numbered("p") {
            return Ok(ScriptTarget::Param(n as usize));
        }
        Err(self
            .error_at(start, format!("`{word}` is not an input or output of a launch"))
            .help("there are `p0`, `f0`, `f0[1, 2]`, `active f0`, `a0`, `a0(2, 3)`, `seed` and `launch`; behind `=>` also `result`, `reports` and `prints`"))
    }

    /// `a0 at 4 strides (8)`, if an array is named.
    fn view(&mut self) -> Result<Option<View>> {
        if !self.peeks("a") {
            return Ok(None);
        }
        let start = self.offset();
        let word = self.word("an array")?;
        let Some(of) = word.strip_prefix('a').and_then(number) else {
            return Err(self.error_at(start, format!("`{word}` is not an array")));
        };
        let mut view = View {
            of: Array::from_u32(of),
            at: 0,
            strides: None,
        };
        if self.eat("at ") {
            view.at = self.number()?;
        }
        if self.eat("strides") {
            self.expect("(")?;
            view.strides = Some(self.numbers(")")?);
        }
        Ok(Some(view))
    }

    fn number(&mut self) -> Result<i64> {
        self.skip();
        let start = self.offset();
        let word = self.word("a number")?;
        let number = word.parse();
        number.map_err(|_| self.error_at(start, format!("`{word}` is not a number")))
    }

    fn numbers(&mut self, close: &str) -> Result<Vec<i64>> {
        let mut out = Vec::new();
        while !self.eat(close) {
            out.push(self.number()?);
            self.eat(",");
        }
        Ok(out)
    }

    fn value(&mut self, out: &mut Items) -> Result<()> {
        if self.depth == DEEPEST {
            return Err(self.error("values are nested too deeply"));
        }
        self.depth += 1;
        let done = self.value_inside(out);
        self.depth -= 1;
        done
    }

    fn value_inside(&mut self, out: &mut Items) -> Result<()> {
        for (open, close) in [("[", "]"), ("(", ")")] {
            if self.eat(open) {
                while !self.eat(close) {
                    self.value(out)?;
                    if !self.eat(",") {
                        self.expect(close)?;
                        break;
                    }
                }
                return Ok(());
            }
        }
        if self.eat("\"") {
            return self.string(out);
        }
        self.skip();
        let start = self.offset();
        let word = self.word("a value")?;
        if word == "seq" && self.peeks("(") {
            return self.sequence(start, out);
        }
        if self.eat("*") {
            let Ok(count) = word.parse() else {
                return Err(self.error_at(start, format!("`{word}` is not a count")));
            };
            let mut repeated = Items::default();
            self.value(&mut repeated)?;
            if !repeated.is_empty() {
                out.0.push(Item::Repeat(count, repeated));
            }
        } else if let Some((lo, hi)) = word.split_once("..") {
            let bound = |w: &str| {
                let number = w.parse::<i64>();
                number.map_err(|_| self.error_at(start, format!("`{w}` is not a number")))
            };
            out.0.push(Item::Range(bound(lo)?, bound(hi)?));
        } else {
            out.0.push(Item::Word(word.to_owned()));
        }
        Ok(())
    }

    /// `(3, 0.5, 2)` after `seq`.
    fn sequence(&mut self, start: usize, out: &mut Items) -> Result<()> {
        let wrong = "`seq` takes a count, the first value and the step";
        let mut items = Items::default();
        self.value(&mut items)?;
        let numbers: Vec<f64> = match items.len() {
            3 => items.words().map_err(|e| self.error_at(start, e))?,
            _ => return Err(self.error_at(start, wrong)),
        }
        .iter()
        .filter_map(|w| w.parse().ok())
        .collect();
        let &[count, first, step] = &numbers[..] else {
            return Err(self.error_at(start, wrong));
        };
        out.0.push(Item::Sequence {
            count: count as u64,
            first,
            step,
        });
        Ok(())
    }

    /// The rest of a string; `\n`, `\"` and `\\` are the only escapes.
    fn string(&mut self, out: &mut Items) -> Result<()> {
        let start = self.offset() - 1;
        let mut text = String::new();
        let mut chars = self.rest.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    out.0.push(Item::Word(text));
                    return Ok(());
                }
                '\\' => match chars.next() {
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, c)) => text.push(c),
                    None => break,
                },
                c => text.push(c),
            }
        }
        Err(self.error_at(start, "unterminated string"))
    }
}

/// The number of an id; the largest one is reserved.
fn number(digits: &str) -> Option<u32> {
    digits.parse().ok().filter(|n| *n < u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn read(text: &str) -> Result<(Vec<Entry>, Vec<Entry>)> {
        Source::new(text).run().map(|run| (run.before, run.after))
    }

    fn words(side: &[Entry], k: usize) -> String {
        side[k].items.words().unwrap().join(" ")
    }

    #[test]
    fn lines_are_parsed() {
        let (before, after) =
            read(r#"p0 = -2.5e-3, a1(2, 3) = [2*(0..3)], seed = 7 => f0[-1, 2] = (1, nan), f1 ~ [], prints = ["a, \"b\""]"#)
                .unwrap();
        assert_eq!(before[0].target, ScriptTarget::Param(0));
        assert_eq!(words(&before, 0), "-2.5e-3");
        let shape = Some(vec![2, 3]);
        assert_eq!(
            before[1].target,
            ScriptTarget::Array(Array::from_u32(1), shape)
        );
        assert_eq!(words(&before, 1), "0 1 2 0 1 2");
        assert_eq!(before[2].target, ScriptTarget::Seed);
        let element = ScriptTarget::Element(Field::from_u32(0), vec![-1, 2]);
        assert_eq!(after[0].target, element);
        assert_eq!(words(&after, 0), "1 nan");
        assert!(after[1].approximate);
        assert_eq!(words(&after, 2), "a, \"b\"");
        let (_, after) = read("=> active f2 = [(1, -2), (3, 4)]").unwrap();
        assert_eq!(after[0].target, ScriptTarget::Active(Field::from_u32(2)));
        assert_eq!(words(&after, 0), "1 -2 3 4");
        let (_, after) = read("=> f0 = [seq(3, 0.5, -2), 1]").unwrap();
        assert_eq!(words(&after, 0), "0.5 -1.5 -3.5 1");
        let (before, _) = read("a1(2) = a0 at -4 strides (8, -1), p0 = 1 =>").unwrap();
        let view = View {
            of: Array::from_u32(0),
            at: -4,
            strides: Some(vec![8, -1]),
        };
        assert_eq!(before[0].view, Some(view));
        assert_eq!(words(&before, 1), "1");
        assert_eq!(read("=>").unwrap(), (Vec::new(), Vec::new()));
    }

    #[test]
    fn line_breaks_separate_entries() {
        let text = "p0 = 1 ; the first\nf0 = [1,\n  2]\n; nothing\nf1 = 3\n";
        let before = Source::new(text).before().unwrap();
        assert_eq!(before.len(), 3);
        assert_eq!(words(&before, 1), "1 2");
        assert_eq!(words(&before, 2), "3");
        Source::new("p0 = 1 f0 = 2").before().unwrap_err();
        assert_eq!(Source::new("").before().unwrap(), []);
    }

    #[test]
    fn items_are_expanded_lazily() {
        let (before, _) = read("f0 = [99999999999*(0..9999999999)], f1 = [99*[]] =>").unwrap();
        assert_eq!(before[0].items.len(), u64::MAX);
        before[0].items.words().unwrap_err();
        assert_eq!(words(&before, 1), "");
    }

    #[test]
    fn files_have_runs() {
        let text = "; test: run\n; run: p0 = 1,\n;      p1 = ? => f0 = 2\n;      q\nkernel\n;      not this\n; output:\n; run: nor this\n";
        let found = runs(text, "x.wir");
        assert_eq!(found.len(), 1);
        let error = found[0].run().unwrap_err();
        assert_eq!(error.at.unwrap().to_string(), "x.wir:3:13");
    }

    #[track_caller]
    fn refused(text: &str, expected: Expect) {
        expected.assert_eq(&format!("{}\n", read(text).unwrap_err()));
    }

    #[test]
    fn syntax_errors() {
        refused(
            "",
            expect![[r#"
                error[W0008]: expected `=>` at the end
                  = note: in ``
            "#]],
        );
        refused(
            "f0 = 1",
            expect![[r#"
                error[W0008]: expected `=>` at the end
                  = note: in `f0 = 1`
            "#]],
        );
        refused(
            "=> q = 1",
            expect![[r#"
                error[W0008]: `q` is not an input or output of a launch
                  = note: in `=> q = 1`
                  = help: there are `p0`, `f0`, `f0[1, 2]`, `active f0`, `a0`, `a0(2, 3)`, `seed` and `launch`; behind `=>` also `result`, `reports` and `prints`
            "#]],
        );
        refused(
            "f0 1 =>",
            expect![[r#"
                error[W0008]: expected `=` before `1 =>`
                  = note: in `f0 1 =>`
            "#]],
        );
        refused(
            "=> f0 = [1",
            expect![[r#"
                error[W0008]: expected `]` at the end
                  = note: in `=> f0 = [1`
            "#]],
        );
        refused(
            "=> prints = [\"x]",
            expect![[r#"
                error[W0008]: unterminated string
                  = note: in `=> prints = ["x]`
            "#]],
        );
        refused(
            "active x = [] =>",
            expect![[r#"
                error[W0008]: `x` is not a field
                  = note: in `active x = [] =>`
            "#]],
        );
        refused(
            "f0 = [many*0] =>",
            expect![[r#"
                error[W0008]: `many` is not a count
                  = note: in `f0 = [many*0] =>`
            "#]],
        );
        refused(
            "f0 = [0..n] =>",
            expect![[r#"
                error[W0008]: `n` is not a number
                  = note: in `f0 = [0..n] =>`
            "#]],
        );
        refused(
            "f0 = seq(1, 2) =>",
            expect![[r#"
                error[W0008]: `seq` takes a count, the first value and the step
                  = note: in `f0 = seq(1, 2) =>`
            "#]],
        );
        refused(
            "f0[x] = 1 =>",
            expect![[r#"
                error[W0008]: `x` is not a number
                  = note: in `f0[x] = 1 =>`
            "#]],
        );
        refused(
            "a1(2) = array =>",
            expect![[r#"
                error[W0008]: `array` is not an array
                  = note: in `a1(2) = array =>`
            "#]],
        );
        refused(
            &format!("f0 = {} =>", "[".repeat(10_000)),
            expect![[r#"
                error[W0008]: values are nested too deeply
                  = note: in `f0 = [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[...`
            "#]],
        );
    }
}
