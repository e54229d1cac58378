//! Reading `; run:` lines: what a launch starts from, and what it leaves.
//!
//! ```text
//! ; run: p0 = 2.5, f0 = [0, 1] => f0 = [1, 2], result = 3
//! ; run: a0(2, 3) = [0..6], seed = 7 => a0 = [6*1.5], reports = [out_of_range]
//! ; run: => f0[-3, 4] = (1, 2), f1 ~ [0.84147098], prints = ["x = 1"]
//! ; run: active f0 = [(0, 0), (-8, 3)] => active f0 = [], f1[2, 5] = 1.5
//! ; run: a0 = [0..8], a1(3) = a0 at 4 strides (8) => a1 = [3*1]
//! ```
//!
//! Brackets and parentheses group as one likes: what counts are the scalars, in row-major order and
//! within an element depth first. `3*0` stands for three zeros, `0..4` for `0, 1, 2, 3`, `seq(3, 0.5, 2)`
//! for `0.5, 2.5, 4.5` (how many, the first, the step). `~` allows
//! 4 ulps instead of none. What is not mentioned is zero before and stays as it was after; an array's
//! extents may be left out when it has one axis. An array may lie in the memory of an earlier one: from
//! a byte offset on, with strides in bytes, without gaps unless it says so. `active` lists the coordinates of
//! all elements of a field that exist; what is absent before reads as zero. Reports are the kinds of
//! problems met, each once.

use wuji_ir::entities::{Array, Field};

/// One side of the arrow.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Side {
    pub(super) entries: Vec<Entry>,
}

#[derive(Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) target: Target,
    /// `~` instead of `=`.
    pub(super) approximate: bool,
    /// The scalars as they are written.
    pub(super) words: Vec<String>,
    /// The array whose memory it lies in, instead of scalars.
    pub(super) view: Option<View>,
}

/// Where an array lies in the memory of another one, in bytes.
#[derive(Debug, PartialEq)]
pub(super) struct View {
    pub(super) of: Array,
    pub(super) at: i64,
    pub(super) strides: Option<Vec<i64>>,
}

#[derive(Debug, PartialEq)]
pub(super) enum Target {
    Field(Field),
    Element(Field, Vec<i64>),
    /// Which elements of a field exist.
    Active(Field),
    Array(Array, Option<Vec<i64>>),
    Param(usize),
    Seed,
    Launch,
    Result,
    Reports,
    Prints,
}

pub(super) fn read(line: &str) -> Result<(Side, Side), String> {
    let mut reader = Reader { rest: line };
    let before = reader.side("=>")?;
    reader.expect("=>")?;
    let after = reader.side("")?;
    if !reader.rest.is_empty() {
        return Err(format!("unexpected `{}`", reader.rest));
    }
    Ok((before, after))
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn peeks(&mut self, text: &str) -> bool {
        self.rest = self.rest.trim_start();
        self.rest.starts_with(text)
    }

    fn eat(&mut self, text: &str) -> bool {
        let found = self.peeks(text);
        if found {
            self.rest = &self.rest[text.len()..];
        }
        found
    }

    fn expect(&mut self, text: &str) -> Result<(), String> {
        if self.eat(text) {
            Ok(())
        } else {
            Err(format!("expected `{text}` before `{}`", self.rest))
        }
    }

    /// Letters, digits, `_`, `.`, `+`, `-`.
    fn word(&mut self) -> Result<&'a str, String> {
        self.rest = self.rest.trim_start();
        let end = self
            .rest
            .find(|c: char| !(c.is_alphanumeric() || "_.+-".contains(c)))
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        if word.is_empty() {
            return Err(format!("expected a word before `{}`", self.rest));
        }
        self.rest = rest;
        Ok(word)
    }

    fn side(&mut self, end: &str) -> Result<Side, String> {
        let mut side = Side::default();
        self.rest = self.rest.trim_start();
        if self.rest.is_empty() || (!end.is_empty() && self.peeks(end)) {
            return Ok(side);
        }
        loop {
            let target = self.target()?;
            let approximate = self.eat("~");
            if !approximate {
                self.expect("=")?;
            }
            let mut words = Vec::new();
            let view = self.view()?;
            if view.is_none() {
                self.value(&mut words)?;
            }
            side.entries.push(Entry {
                target,
                approximate,
                words,
                view,
            });
            if !self.eat(",") {
                return Ok(side);
            }
        }
    }

    fn target(&mut self) -> Result<Target, String> {
        let word = self.word()?;
        let numbered = |prefix: &str| -> Option<u32> { word.strip_prefix(prefix)?.parse().ok() };
        match word {
            "result" => return Ok(Target::Result),
            "reports" => return Ok(Target::Reports),
            "prints" => return Ok(Target::Prints),
            "seed" => return Ok(Target::Seed),
            "launch" => return Ok(Target::Launch),
            _ => {}
        }
        if word == "active" {
            let word = self.word()?;
            let number = word.strip_prefix('f').and_then(|n| n.parse().ok());
            let number = number.ok_or(format!("`{word}` is no field"))?;
            return Ok(Target::Active(Field::from_u32(number)));
        }
        if let Some(n) = numbered("f") {
            let field = Field::from_u32(n);
            return Ok(match self.eat("[") {
                true => Target::Element(field, self.numbers("]")?),
                false => Target::Field(field),
            });
        }
        if let Some(n) = numbered("a") {
            let extents = match self.eat("(") {
                true => Some(self.numbers(")")?),
                false => None,
            };
            return Ok(Target::Array(Array::from_u32(n), extents));
        }
        if let Some(n) = numbered("p") {
            return Ok(Target::Param(n as usize));
        }
        Err(format!(
            "`{word}` is nothing that a launch starts from or leaves"
        ))
    }

    /// `a0 at 4 strides (8)`, if an array is named.
    fn view(&mut self) -> Result<Option<View>, String> {
        if !self.peeks("a") {
            return Ok(None);
        }
        let word = self.word()?;
        let number = word.strip_prefix('a').and_then(|n| n.parse().ok());
        let of = number.ok_or(format!("`{word}` is no array"))?;
        let mut view = View {
            of: Array::from_u32(of),
            at: 0,
            strides: None,
        };
        if self.eat("at ") {
            let word = self.word()?;
            view.at = word.parse().map_err(|_| format!("`{word}` is no number"))?;
        }
        if self.eat("strides") {
            self.expect("(")?;
            view.strides = Some(self.numbers(")")?);
        }
        Ok(Some(view))
    }

    fn numbers(&mut self, close: &str) -> Result<Vec<i64>, String> {
        let mut out = Vec::new();
        while !self.eat(close) {
            let word = self.word()?;
            out.push(word.parse().map_err(|_| format!("`{word}` is no number"))?);
            self.eat(",");
        }
        Ok(out)
    }

    fn value(&mut self, out: &mut Vec<String>) -> Result<(), String> {
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
        let word = self.word()?;
        if word == "seq" && self.peeks("(") {
            return self.sequence(out);
        }
        if self.eat("*") {
            let count: usize = word.parse().map_err(|_| format!("`{word}` is no count"))?;
            let mut repeated = Vec::new();
            self.value(&mut repeated)?;
            for _ in 0..count {
                out.extend(repeated.iter().cloned());
            }
        } else if let Some((lo, hi)) = word.split_once("..") {
            let number = |w: &str| w.parse::<i64>().map_err(|_| format!("`{w}` is no number"));
            out.extend((number(lo)?..number(hi)?).map(|n| n.to_string()));
        } else {
            out.push(word.to_owned());
        }
        Ok(())
    }

    /// `(3, 0.5, 2)` behind `seq`.
    fn sequence(&mut self, out: &mut Vec<String>) -> Result<(), String> {
        let mut words = Vec::new();
        self.value(&mut words)?;
        let numbers: Vec<f64> = words.iter().filter_map(|w| w.parse().ok()).collect();
        let &[count, first, step] = &numbers[..] else {
            return Err("`seq` takes how many, the first and the step".to_owned());
        };
        out.extend((0..count as u32).map(|k| (first + f64::from(k) * step).to_string()));
        Ok(())
    }

    /// The rest of a string; `\n`, `\"` and `\\` are the only escapes.
    fn string(&mut self, out: &mut Vec<String>) -> Result<(), String> {
        let mut text = String::new();
        let mut chars = self.rest.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    out.push(text);
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
        Err("a string has no end".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let (before, after) =
            read(r#"p0 = -2.5e-3, a1(2, 3) = [2*(0..3)], seed = 7 => f0[-1, 2] = (1, nan), f1 ~ [], prints = ["a, \"b\""]"#)
                .unwrap();
        let words = |side: &Side, k: usize| side.entries[k].words.join(" ");
        assert_eq!(before.entries[0].target, Target::Param(0));
        assert_eq!(words(&before, 0), "-2.5e-3");
        let shape = Some(vec![2, 3]);
        assert_eq!(
            before.entries[1].target,
            Target::Array(Array::from_u32(1), shape)
        );
        assert_eq!(words(&before, 1), "0 1 2 0 1 2");
        assert_eq!(before.entries[2].target, Target::Seed);
        let element = Target::Element(Field::from_u32(0), vec![-1, 2]);
        assert_eq!(after.entries[0].target, element);
        assert_eq!(words(&after, 0), "1 nan");
        assert!(after.entries[1].approximate);
        assert_eq!(words(&after, 2), "a, \"b\"");
        let (_, after) = read("=> active f2 = [(1, -2), (3, 4)]").unwrap();
        assert_eq!(after.entries[0].target, Target::Active(Field::from_u32(2)));
        assert_eq!(words(&after, 0), "1 -2 3 4");
        let (_, after) = read("=> f0 = [seq(3, 0.5, -2), 1]").unwrap();
        assert_eq!(words(&after, 0), "0.5 -1.5 -3.5 1");
        let (before, _) = read("a1(2) = a0 at -4 strides (8, -1), p0 = 1 =>").unwrap();
        let view = View {
            of: Array::from_u32(0),
            at: -4,
            strides: Some(vec![8, -1]),
        };
        assert_eq!(before.entries[0].view, Some(view));
        assert_eq!(words(&before, 1), "1");
        assert_eq!(read("=>").unwrap(), (Side::default(), Side::default()));
        for bad in [
            "",
            "f0 = 1",
            "=> q = 1",
            "f0 1 =>",
            "=> f0 = [1",
            "=> prints = [\"x]",
        ] {
            read(bad).unwrap_err();
        }
    }
}
