//! What is accessed: elements, addresses, and what is known about them.

use super::lex::shortened;
use super::parse_body::Body;
use crate::diag::Result;
use crate::module::*;
use crate::ops::*;
use smallvec::{SmallVec, smallvec};

impl Body<'_, '_> {
    pub(super) fn access(&mut self, default: Activation) -> Result<(Access, Values)> {
        let (activation, guard) = self.modifiers(default)?;
        self.element(activation, guard)
    }

    /// `.known_active.inbounds`
    pub(super) fn modifiers(&mut self, default: Activation) -> Result<(Activation, Guard)> {
        let mut activation = None;
        let mut guard = Guard::Checked;
        while self.p.c.eat(".") {
            let at = self.p.c.here();
            let word = self.p.c.word("an activation mode or `inbounds`")?;
            if word == "inbounds" && guard == Guard::Checked {
                guard = Guard::InBounds;
            } else if word == "silent" && guard == Guard::Checked {
                guard = Guard::Silent;
            } else if let (Some(a), None) = (Activation::from_name(word), activation) {
                activation = Some(a);
            } else {
                let why = format!("`{}` is not a mode of an access here", shortened(word));
                return Err(self
                    .p
                    .c
                    .error("W0002", at, why)
                    .help("there are: never, if_absent, known_active, inbounds, silent"));
            }
        }
        Ok((activation.unwrap_or(default), guard))
    }

    /// `f0[v0, v1].1.[v5]`
    pub(super) fn element(
        &mut self,
        activation: Activation,
        guard: Guard,
    ) -> Result<(Access, Values)> {
        let place = self.p.place(Some(self.f.locals.len()))?;
        self.p.c.expect("[")?;
        let mut args = Values::new();
        if !self.p.c.eat("]") {
            args = self.values()?;
            self.p.c.expect("]")?;
        }
        let mut path = SmallVec::new();
        while self.p.c.eat(".") {
            if self.p.c.eat("[") {
                args.push(self.value()?);
                self.p.c.expect("]")?;
                path.push(Step::Dynamic);
            } else {
                let k = self.p.c.number("a component", u64::from(u32::MAX))? as u32;
                path.push(Step::Const(k));
            }
        }
        let access = Access {
            place,
            path,
            activation,
            guard,
        };
        Ok((access, args))
    }

    /// `T0.f0 [v0], v1`
    pub(super) fn memory(&mut self) -> Result<(Space, Values)> {
        let space = self.space()?;
        let args = self.offset()?;
        Ok((space, args))
    }

    /// `[v0], v1`
    pub(super) fn offset(&mut self) -> Result<Values> {
        self.p.c.expect("[")?;
        let offset = self.value()?;
        self.p.c.expect("]")?;
        self.more(smallvec![offset])
    }

    /// `f32x8 T0.f0 + 0, T0.f1 + 4 every 8`
    pub(super) fn rows(&mut self) -> Result<Interleaved> {
        let ty = self.p.ty()?;
        let mut columns = SmallVec::new();
        loop {
            let space = self.space()?;
            self.p.c.expect("+")?;
            columns.push((space, self.p.c.signed("a number of bytes")?));
            if !self.p.c.eat(",") {
                break;
            }
        }
        self.p.c.expect_word("every")?;
        let stride = self.p.c.signed("a number of bytes")?;
        Ok(Interleaved {
            ty,
            stride,
            columns,
        })
    }

    pub(super) fn space(&mut self) -> Result<Space> {
        Ok(if self.p.c.eat_word("temps") {
            Space::Temps
        } else if self.p.c.peek_id("a").is_some() {
            Space::Array(self.p.array()?)
        } else {
            let trees = self.p.m.trees.len();
            let tree = self
                .p
                .known("T", "memory like `T0.f0`, `a0` or `temps`", trees)?;
            self.p.c.expect(".")?;
            if self.p.c.eat_word("nodes") {
                Space::Nodes(tree)
            } else if self.p.c.eat_word("bytes") {
                Space::Bytes(tree)
            } else if self.p.c.eat_word("streamed") {
                Space::Streamed(tree)
            } else {
                let field = self.p.field()?;
                if self.p.c.eat(".") {
                    self.p.c.expect_word("private")?;
                    Space::Private(tree, field)
                } else {
                    Space::Tree(tree, field)
                }
            }
        })
    }
}
