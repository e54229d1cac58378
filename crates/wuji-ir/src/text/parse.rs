//! The parser: its state, and what items and bodies share.

use super::lex::{Cursor, id_number, shortened};
use crate::diag::{Error, Result};
use crate::entities::*;
use crate::module::*;
use crate::ops::{LoopHints, Place};
use crate::types::{Scalar, Structs, Type};
use cranelift_entity::EntityRef;

/// Reads a module. `file` is what error positions call the text.
///
/// Only the syntax is checked here, and that the named entities exist; [`verify`](crate::verify::verify)
/// checks the rest.
pub fn parse(text: &str, file: &str) -> Result<Module> {
    read(text, file, None)
}

/// Like [`parse`], for hand-written modules: entities without a position get that of the text, so that errors
/// of the verifier, of passes and of launches refer to `file`.
pub fn parse_located(text: &str, file: &str) -> Result<Module> {
    read(text, file, Some(Lines::of(text)))
}

fn read(text: &str, file: &str, lines: Option<Lines>) -> Result<Module> {
    let mut p = Parser {
        c: Cursor::new(text, file),
        m: Module::default(),
        lines,
        placed: Vec::new(),
        mentioned: Vec::new(),
    };
    while !p.c.is_at_end() {
        p.item()?;
    }
    for (field, at) in &p.placed {
        if !p.m.fields.is_valid(*field) {
            return Err(p.undefined(*at, field));
        }
    }
    for (func, at) in &p.mentioned {
        if !p.m.funcs.is_valid(*func) {
            return Err(p.undefined(*at, func));
        }
    }
    if p.lines.is_some() {
        let own = p.m.files.push(file.to_owned());
        name_own_file(&mut p.m, own);
    }
    Ok(p.m)
}

/// The id of the text itself among the files, until all declared files are known.
fn own_file() -> File {
    File::from_u32(u32::MAX - 1)
}

fn name_own_file(m: &mut Module, own: File) {
    let name = |span: &mut Span| {
        if span.file == own_file() {
            span.file = own;
        }
    };
    for f in m.funcs.values_mut() {
        f.spans.values_mut().for_each(name);
        f.regions.values_mut().for_each(|r| name(&mut r.term_span));
    }
    m.sites.values_mut().for_each(|s| name(&mut s.span));
    m.tasks.iter_mut().for_each(|t| name(&mut t.span));
}

/// Where the lines of a text start.
pub(super) struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Lines {
        let ends = text.match_indices('\n').map(|(at, _)| at + 1);
        Lines(std::iter::once(0).chain(ends).collect())
    }

    fn span(&self, text: &str, at: usize) -> Span {
        let line = self.0.partition_point(|start| *start <= at);
        let start = self.0[line.max(1) - 1];
        Span {
            file: own_file(),
            line: line as u32,
            column: text[start..at].chars().count() as u32 + 1,
        }
    }
}

pub(super) struct Parser<'a> {
    pub(super) c: Cursor<'a>,
    pub(super) m: Module,
    /// Set if entities without a position get that of the text.
    pub(super) lines: Option<Lines>,
    /// Fields that trees place but that are defined later, with positions.
    pub(super) placed: Vec<(Field, usize)>,
    /// Functions that were called or named, maybe before their definition, with positions.
    pub(super) mentioned: Vec<(Func, usize)>,
}

impl Parser<'_> {
    pub(super) fn undefined(&self, at: usize, id: &impl std::fmt::Display) -> Error {
        self.c.error("W0003", at, format!("{id} is not defined"))
    }

    /// The id of a definition, which must be the next of its table.
    pub(super) fn next_id<E: EntityRef + std::fmt::Display>(
        &mut self,
        prefix: &str,
        count: usize,
    ) -> Result<E> {
        let (id, at) = self.c.id::<E>(prefix, &format!("`{prefix}{count}`"))?;
        if id.index() == count {
            Ok(id)
        } else {
            Err(self.c.error(
                "W0004",
                at,
                format!("definitions are numbered in order: expected {prefix}{count}, found {id}"),
            ))
        }
    }

    /// A mention of something that must be among the first `count` of its table.
    pub(super) fn known<E: EntityRef + std::fmt::Display>(
        &mut self,
        prefix: &str,
        what: &str,
        count: usize,
    ) -> Result<E> {
        let (id, at) = self.c.id::<E>(prefix, what)?;
        if id.index() < count {
            Ok(id)
        } else {
            Err(self.undefined(at, &id))
        }
    }

    pub(super) fn func(&mut self) -> Result<Func> {
        let (func, at) = self.c.id::<Func>("fn", "a function like `fn0`")?;
        self.mentioned.push((func, at));
        Ok(func)
    }

    pub(super) fn field(&mut self) -> Result<Field> {
        let count = self.m.fields.len();
        self.known("f", "a field like `f0`", count)
    }

    pub(super) fn array(&mut self) -> Result<Array> {
        let count = self.m.arrays.len();
        self.known("a", "an array like `a0`", count)
    }

    pub(super) fn message(&mut self) -> Result<Message> {
        let count = self.m.messages.len();
        self.known("m", "a message like `m0`", count)
    }

    /// A place; local ones are those of a function with that many, `None` outside of a function.
    pub(super) fn place(&mut self, locals: Option<usize>) -> Result<Place> {
        let at = self.c.here();
        let word = self.c.peek_word().unwrap_or("");
        if id_number(word, "f").is_some() {
            self.field().map(Place::Field)
        } else if id_number(word, "a").is_some() {
            self.array().map(Place::Array)
        } else if id_number(word, "t").is_some() {
            let count = self.m.temps.len();
            self.known("t", "a temp", count).map(Place::Temp)
        } else if id_number(word, "l").is_some() {
            let (local, _) = self.c.id::<Local>("l", "a local")?;
            if locals.is_some_and(|n| local.index() >= n) {
                return Err(self.undefined(at, &local));
            }
            Ok(Place::Local(local))
        } else {
            Err(self.c.expected("a place like `f0`, `a0`, `l0` or `t0`"))
        }
    }

    pub(super) fn ty(&mut self) -> Result<Type> {
        let at = self.c.here();
        let word = self.c.word("a type")?;
        if let Some(n) = id_number(word, "s")
            && n as usize >= self.m.structs.0.len()
        {
            return Err(self.undefined(at, &word));
        }
        type_from(word, &self.m.structs).ok_or_else(|| {
            self.c
                .error("W0002", at, format!("`{}` is not a type", shortened(word)))
        })
    }

    /// A name in quotes; none is the empty one.
    pub(super) fn name(&mut self) -> Result<String> {
        if self.c.peeks("\"") {
            self.c.string("a name")
        } else {
            Ok(String::new())
        }
    }

    pub(super) fn hints(&mut self) -> Result<LoopHints> {
        let mut hints = LoopHints::default();
        loop {
            if self.c.eat_word("block_size") {
                let size = self.c.number("a block size", u64::from(u32::MAX))?;
                hints.block_size = Some(size as u32);
            } else if self.c.eat_word("least") {
                let least = self
                    .c
                    .number("a number of iterations", u64::from(u32::MAX))?;
                hints.grain_size = Some(least as u32);
            } else if self.c.eat_word("serial") {
                hints.serial = true;
            } else if self.c.eat_word("simd") {
                hints.simd = Some(true);
            } else if self.c.eat_word("scalar") {
                hints.simd = Some(false);
            } else if self.c.eat_word("cooperative") {
                hints.cooperative = true;
            } else if self.c.eat_word("blocks") {
                hints.blocks = true;
            } else if self.c.eat_word("uncounted") {
                hints.uncounted = true;
            } else {
                return Ok(hints);
            }
        }
    }

    /// `@F0:12:9`, if there is one; `start` is the position of the entity that it belongs to.
    pub(super) fn position(&mut self, start: usize) -> Result<Span> {
        if !self.c.eat("@") {
            let own = |lines: &Lines| lines.span(self.c.text, start);
            return Ok(self.lines.as_ref().map_or(Span::UNKNOWN, own));
        }
        let files = self.m.files.len();
        let file = self.known("F", "a file like `F0`", files)?;
        self.c.expect(":")?;
        let at = self.c.here();
        let line = self.c.number("a line", u64::from(u32::MAX))? as u32;
        if line == 0 {
            return Err(self.c.error("W0005", at, "lines are counted from 1"));
        }
        self.c.expect(":")?;
        let column = self.c.number("a column", u64::from(u32::MAX))? as u32;
        Ok(Span { file, line, column })
    }

    /// Items separated by commas until the closing punctuation, which is taken.
    pub(super) fn list<T>(
        &mut self,
        close: &str,
        mut item: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut out = Vec::new();
        if self.c.eat(close) {
            return Ok(out);
        }
        loop {
            out.push(item(self)?);
            if !self.c.eat(",") {
                self.c.expect(close)?;
                return Ok(out);
            }
        }
    }
}

/// The type a word spells, if any: `f32`, `f32x3`, `f32x2x3`, `s0`.
pub(super) fn type_from(word: &str, structs: &Structs) -> Option<Type> {
    if let Some(n) = id_number(word, "s") {
        return ((n as usize) < structs.0.len()).then(|| Type::Struct(StructId::from_u32(n)));
    }
    let mut parts = word.split('x');
    let elem = Scalar::from_name(parts.next()?)?;
    let mut size = || match parts.next() {
        None => Some(None),
        Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => {
            digits.parse::<u16>().ok().filter(|n| *n > 0).map(Some)
        }
        Some(_) => None,
    };
    let ty = match (size()?, size()?) {
        (None, _) => Type::Scalar(elem),
        (Some(n), None) => Type::Vector(elem, n),
        (Some(rows), Some(columns)) => Type::Matrix(elem, rows, columns),
    };
    parts.next().is_none().then_some(ty)
}
