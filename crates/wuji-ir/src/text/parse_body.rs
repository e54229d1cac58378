//! Functions, regions and statements.

use super::lex::shortened;
use super::literal;
use super::parse::Parser;
use super::parse_items::too_deep;
use crate::diag::Result;
use crate::entities::*;
use crate::module::*;
use crate::ops::*;
use crate::types::{Imm, Scalar, Type};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

impl Parser<'_> {
    /// `fn0 "name"(v0: f32) -> f32 { ... }`, with `inline`, `uninterrupted`, `precise`, `once`, `ordered`, `outlined` or `many_threads` in front of the name
    pub(super) fn function(&mut self) -> Result<()> {
        let _: Func = self.next_id("fn", self.m.funcs.len())?;
        let traits = Traits {
            inline: self.c.eat_word("inline"),
            uninterrupted: self.c.eat_word("uninterrupted"),
            precise: self.c.eat_word("precise"),
            once: self.c.eat_word("once"),
            ordered: self.c.eat_word("ordered"),
            outlined: self.c.eat_word("outlined"),
            many_threads: self.c.eat_word("many_threads"),
        };
        let name = self.name()?;
        let mut body = Body {
            p: self,
            f: Function::new(name, &[], &[]),
            values: FxHashMap::default(),
            labels: FxHashMap::default(),
        };
        body.f.traits = traits;
        body.p.c.expect("(")?;
        let entry = body.f.entry;
        body.params(entry)?;
        if body.p.c.eat("->") {
            loop {
                let ty = body.p.ty()?;
                body.f.results.push(ty);
                if !body.p.c.eat(",") {
                    break;
                }
            }
        }
        if body.p.c.eat_word("reverse") {
            body.f.reverse = Some(body.p.func()?);
        }
        body.p.c.expect("{")?;
        loop {
            if body.p.c.eat_word("local") {
                body.local(false)?;
            } else if body.p.c.eat_word("shared") {
                body.local(true)?;
            } else {
                break;
            }
        }
        body.region(entry, 0)?;
        let f = body.f;
        self.m.add_func(f);
        Ok(())
    }
}

/// A function that is being parsed.
pub(super) struct Body<'p, 'a> {
    pub(super) p: &'p mut Parser<'a>,
    pub(super) f: Function,
    /// By the numbers of the text.
    values: FxHashMap<u32, Value>,
    labels: FxHashMap<u32, Label>,
}

/// A result before its instruction exists: number, position in the text, type.
type Named = (Value, usize, Type);

impl Body<'_, '_> {
    fn local(&mut self, shared: bool) -> Result<()> {
        let _: Local = self.p.next_id("l", self.f.locals.len())?;
        let name = self.p.name()?;
        self.p.c.expect(":")?;
        let ty = self.p.ty()?;
        let len = if self.p.c.eat("[") {
            let len = self.p.c.number("a length", u64::from(u32::MAX))? as u32;
            self.p.c.expect("]")?;
            Some(len)
        } else {
            None
        };
        let roles = [LocalRole::Accumulator, LocalRole::Scratchpad];
        let named = |role: &LocalRole| role.name().is_some_and(|word| self.p.c.eat_word(word));
        let role = roles.into_iter().find(named).unwrap_or_default();
        self.f.locals.push(LocalData {
            name,
            ty,
            len,
            shared,
            role,
        });
        Ok(())
    }

    /// The rest of a region after its `{`, with its `}`.
    fn region(&mut self, region: Region, depth: usize) -> Result<()> {
        let at = self.p.c.here();
        if depth > MAX_NESTING {
            return Err(too_deep(self.p, at, "regions"));
        }
        loop {
            let start = self.p.c.here();
            if let Some(term) = self.term()? {
                let span = self.p.position(start)?;
                let data = &mut self.f.regions[region];
                data.term = term;
                data.term_span = span;
                return self.p.c.expect("}");
            }
            self.statement(region, depth)?;
        }
    }

    fn term(&mut self) -> Result<Option<Term>> {
        Ok(Some(match self.p.c.peek_word() {
            Some("yield") => {
                self.p.c.word("a terminator")?;
                Term::Yield(self.values()?)
            }
            Some("return") => {
                self.p.c.word("a terminator")?;
                Term::Return(self.values()?)
            }
            Some("break") => {
                self.p.c.word("a terminator")?;
                Term::Break(self.label()?, self.parenthesised()?)
            }
            Some("continue") => {
                self.p.c.word("a terminator")?;
                Term::Continue(self.label()?, self.parenthesised()?)
            }
            Some("unreachable") => {
                self.p.c.word("a terminator")?;
                Term::Unreachable
            }
            _ => return Ok(None),
        }))
    }

    fn statement(&mut self, region: Region, depth: usize) -> Result<()> {
        let start = self.p.c.here();
        let mut results: SmallVec<[Named; 1]> = SmallVec::new();
        if self.p.c.peek_id("v").is_some() {
            loop {
                results.push(self.named()?);
                if !self.p.c.eat(",") {
                    break;
                }
            }
            self.p.c.expect("=")?;
        }
        let at = self.p.c.here();
        let word = match self.p.c.peek_word() {
            Some(word) => self.p.c.word(word)?,
            None => return Err(self.p.c.expected("a statement")),
        };
        // The only operations with two-word names.
        let word = match word {
            "add" if self.p.c.eat(".interleaved") => "add.interleaved",
            "load" if self.p.c.eat(".interleaved") => "load.interleaved",
            "store" if self.p.c.eat(".interleaved") => "store.interleaved",
            word => word,
        };
        match word {
            "if" | "loop" | "for" | "block" | "foreach" => {
                self.structured(word, region, &results, (start, depth))
            }
            _ => {
                let (op, args) = self.simple(word, at, &results)?;
                let inst = self.instruction(region, op, args, &results)?;
                self.f.spans_set(inst, self.p.position(start)?);
                Ok(())
            }
        }
    }

    /// Makes an instruction with its named results and appends it.
    fn instruction(
        &mut self,
        region: Region,
        op: Op,
        args: Values,
        results: &[Named],
    ) -> Result<Inst> {
        let inst = self.f.add_inst(op, args, &[], Span::UNKNOWN);
        for (name, at, ty) in results {
            let value = self.f.add_result(inst, *ty);
            self.define(*name, *at, value)?;
        }
        self.f.regions[region].insts.push(inst);
        Ok(inst)
    }

    fn define(&mut self, name: Value, at: usize, value: Value) -> Result<()> {
        if self.values.insert(name.as_u32(), value).is_some() {
            let why = format!("{name} is defined twice");
            return Err(self.p.c.error("W0004", at, why));
        }
        Ok(())
    }

    /// `if`, `loop`, `for`, `block` and `foreach`, with their regions.
    fn structured(
        &mut self,
        word: &str,
        region: Region,
        results: &[Named],
        (start, depth): (usize, usize),
    ) -> Result<()> {
        if word == "if" {
            let cond = self.value()?;
            let inst = self.instruction(region, Op::If, smallvec![cond], results)?;
            self.body(inst, &[], depth)?;
            self.p.c.expect_word("else")?;
            self.body(inst, &[], depth)?;
            self.f.spans_set(inst, self.p.position(start)?);
            return Ok(());
        }
        let kind = if word == "for" && self.p.c.eat(".") {
            if self.p.c.eat_word("boundary") {
                ForKind::Boundary
            } else {
                self.p.c.expect_word("parallel")?;
                ForKind::Parallel
            }
        } else {
            ForKind::Serial
        };
        let label = self.new_label()?;
        let mut params: Vec<Named> = Vec::new();
        let mut args = Values::new();
        let op = match word {
            "loop" => {
                self.carried(&mut params, &mut args)?;
                Op::Loop(label)
            }
            "for" => {
                params.push(self.named()?);
                self.p.c.expect_word("in")?;
                args.push(self.value()?);
                self.p.c.expect("..")?;
                args.push(self.value()?);
                self.p.c.expect_word("step")?;
                args.push(self.value()?);
                self.carried(&mut params, &mut args)?;
                Op::For(label, kind)
            }
            "block" => Op::Block(label),
            _ => {
                self.p.c.expect("(")?;
                let mut first = true;
                while !self.p.c.eat(")") {
                    if !first {
                        self.p.c.expect(",")?;
                    }
                    first = false;
                    params.push(self.named()?);
                }
                self.p.c.expect_word("in")?;
                let domain = self.domain(&mut args)?;
                Op::ForEach(label, domain, self.p.hints()?)
            }
        };
        let inst = self.instruction(region, op, args, results)?;
        self.body(inst, &params, depth)?;
        self.f.spans_set(inst, self.p.position(start)?);
        Ok(())
    }

    fn domain(&mut self, args: &mut Values) -> Result<Domain> {
        if self.p.c.peek_id("f").is_some() {
            return self.p.field().map(Domain::Field);
        }
        if self.p.c.eat("(") {
            self.p.c.expect(")")?;
            return Ok(Domain::Range { rank: 0 });
        }
        let at = self.p.c.here();
        let mut rank = 0usize;
        loop {
            args.push(self.value()?);
            self.p.c.expect("..")?;
            args.push(self.value()?);
            rank += 1;
            if !self.p.c.eat(",") {
                break;
            }
        }
        match u8::try_from(rank) {
            Ok(rank) => Ok(Domain::Range { rank }),
            Err(_) => Err(self.p.c.error("W0005", at, "too many ranges")),
        }
    }

    /// `(v2: i32 = v0, ...)`, left out when nothing is carried.
    fn carried(&mut self, params: &mut Vec<Named>, args: &mut Values) -> Result<()> {
        if !self.p.c.eat("(") {
            return Ok(());
        }
        loop {
            params.push(self.named()?);
            self.p.c.expect("=")?;
            args.push(self.value()?);
            if !self.p.c.eat(",") {
                return self.p.c.expect(")");
            }
        }
    }

    /// `{ ... }`, a new region of an instruction.
    fn body(&mut self, inst: Inst, params: &[Named], depth: usize) -> Result<()> {
        self.p.c.expect("{")?;
        let region = self.f.add_region(&[]);
        self.f.insts[inst].regions.push(region);
        for (name, at, ty) in params {
            let value = self.f.add_region_param(region, *ty);
            self.define(*name, *at, value)?;
        }
        self.region(region, depth + 1)
    }

    /// The parameters of the function after the `(`, with the `)`.
    fn params(&mut self, region: Region) -> Result<()> {
        let mut first = true;
        while !self.p.c.eat(")") {
            if !first {
                self.p.c.expect(",")?;
            }
            first = false;
            let (name, at, ty) = self.named()?;
            let value = self.f.add_region_param(region, ty);
            self.define(name, at, value)?;
        }
        Ok(())
    }

    /// Operations without regions.
    fn simple(&mut self, word: &str, at: usize, results: &[Named]) -> Result<(Op, Values)> {
        if let Some(op) = Op::regular(word) {
            let args = if op.info().arity == Some(0) {
                Values::new()
            } else {
                self.values()?
            };
            return Ok((op, args));
        }
        if let Some(op) = CellOp::from_name(word) {
            let field = self.p.field()?;
            self.p.c.expect("[")?;
            let mut args = Values::new();
            if !self.p.c.eat("]") {
                args = self.values()?;
                self.p.c.expect("]")?;
            }
            return Ok((Op::Cell(op, field), args));
        }
        if let Some(op) = TreeAccessOp::from_name(word) {
            let (tree, node) = self.p.node_of_tree()?;
            return Ok((Op::TreeAccess(op, tree, node), self.parenthesised()?));
        }
        match word {
            "const" => {
                let imm = self.constant(word, at, results)?;
                Ok((Op::Const(imm), Values::new()))
            }
            "convert" => {
                let to = self.result_elem(word, at, results)?;
                Ok((Op::Convert(to), self.values()?))
            }
            "bitcast" => {
                let to = self.result_elem(word, at, results)?;
                Ok((Op::Bitcast(to), self.values()?))
            }
            "splat" => {
                let ty = self.result_type(word, at, results)?;
                Ok((Op::Splat(ty), self.values()?))
            }
            "compose" => {
                let ty = self.result_type(word, at, results)?;
                if self.p.c.eat("(") {
                    self.p.c.expect(")")?;
                    return Ok((Op::Compose(ty), Values::new()));
                }
                Ok((Op::Compose(ty), self.values()?))
            }
            "extract" | "insert" => self.component(word == "extract"),
            "shuffle" => {
                let args = self.values()?;
                self.p.c.expect("[")?;
                let mask = self
                    .p
                    .list("]", |p| Ok(p.c.number("a component", 255)? as u8))?;
                Ok((Op::Shuffle(SmallVec::from_vec(mask)), args))
            }
            "reduce" => {
                let op = self.named_op("add mul min max and or", ReduceOp::from_name)?;
                Ok((Op::Reduce(op), self.values()?))
            }
            "load" => {
                let (access, args) = self.access(Activation::Never)?;
                Ok((Op::Load(access), args))
            }
            "store" => {
                let (access, args) = self.access(Activation::IfAbsent)?;
                let args = self.more(args)?;
                Ok((Op::Store(access), args))
            }
            "atomic" => {
                let (activation, guard) = self.modifiers(Activation::IfAbsent)?;
                let op = self.atomic_op()?;
                let (access, args) = self.element(activation, guard)?;
                let args = self.more(args)?;
                Ok((Op::Atomic(op, access), args))
            }
            "cmpxchg" => {
                let (access, args) = self.access(Activation::IfAbsent)?;
                let args = self.more(args)?;
                Ok((Op::CompareExchange(access), args))
            }
            "assume_range" => {
                let args = self.values()?;
                let (lo, hi) = self.p.range()?;
                Ok((Op::AssumeRange(lo, hi), args))
            }
            "unique" => {
                let args = self.values()?;
                Ok((Op::Unique(self.p.count()?), args))
            }
            "cache" => Ok((Op::Cache(self.p.field()?), Values::new())),
            "extent" | "stride" => {
                let array = self.p.array()?;
                self.p.c.expect(".")?;
                let axis = self.p.c.number("an axis", 255)? as u8;
                let op = if word == "extent" {
                    Op::ArrayExtent(array, axis)
                } else {
                    Op::ArrayStride(array, axis)
                };
                Ok((op, Values::new()))
            }
            "memload" => {
                let ty = self.result_type(word, at, results)?;
                let (space, args) = self.memory()?;
                Ok((Op::MemLoad(space, ty), args))
            }
            "memstore" => {
                let (space, args) = self.memory()?;
                Ok((Op::MemStore(space), args))
            }
            "mematomic" => {
                let sharing = if self.p.c.eat(".") {
                    self.p.c.expect_word("owned")?;
                    Sharing::Owned
                } else {
                    Sharing::Shared
                };
                let op = self.atomic_op()?;
                let (space, args) = self.memory()?;
                Ok((Op::MemAtomic(op, space, sharing), args))
            }
            "add.interleaved" => {
                let mut spaces = smallvec![self.space()?];
                while self.p.c.eat(",") {
                    spaces.push(self.space()?);
                }
                Ok((Op::AddInterleaved(spaces), self.offset()?))
            }
            "load.interleaved" => {
                let rows = self.rows()?;
                Ok((Op::LoadInterleaved(rows), self.offset()?))
            }
            "store.interleaved" => {
                let rows = self.rows()?;
                Ok((Op::StoreInterleaved(rows), self.offset()?))
            }
            "memcmpxchg" => {
                let (space, args) = self.memory()?;
                Ok((Op::MemCompareExchange(space), args))
            }
            "call" => {
                let func = self.p.func()?;
                if !self.p.c.peeks("(") {
                    return Err(self.p.c.expected("`(`"));
                }
                Ok((Op::Call(func), self.parenthesised()?))
            }
            "print" => {
                let message = self.p.message()?;
                Ok((Op::Print(message), self.parenthesised()?))
            }
            "assert" => {
                let mut args: Values = smallvec![self.value()?];
                self.p.c.expect(",")?;
                let message = self.p.message()?;
                args.extend(self.parenthesised()?);
                Ok((Op::Assert(message), args))
            }
            "check_index" => {
                let index = self.value()?;
                self.p.c.expect("<")?;
                let len = self.p.c.number("a length", u64::from(u32::MAX))? as u32;
                Ok((Op::CheckIndex(len), smallvec![index]))
            }
            "report" => {
                let sites = self.p.m.sites.len();
                let site = self.p.known("w", "a site like `w0`", sites)?;
                Ok((Op::Report(site), self.parenthesised()?))
            }
            other => Err(self.p.c.error(
                "W0002",
                at,
                format!(
                    "`{}` is neither an operation nor a terminator",
                    shortened(other)
                ),
            )),
        }
    }

    /// `1.5` or `nan(0x7fc00001)`, of the type of the result.
    fn constant(&mut self, word: &str, at: usize, results: &[Named]) -> Result<Imm> {
        let ty = self.result_elem(word, at, results)?;
        let at = self.p.c.here();
        let text = self.p.c.literal()?;
        let imm = if text == "nan" && self.p.c.eat("(") {
            let bits = self.p.c.word("the bits of a NaN")?;
            self.p.c.expect(")")?;
            literal::nan(bits, ty)
        } else {
            literal::constant(text, ty)
        };
        imm.map_err(|why| self.p.c.error("W0005", at, why))
    }

    /// `v0.2` or `v0[v1]`, and for `insert` the new component.
    fn component(&mut self, extract: bool) -> Result<(Op, Values)> {
        let mut args: Values = smallvec![self.value()?];
        let op = if self.p.c.eat("[") {
            args.push(self.value()?);
            self.p.c.expect("]")?;
            if extract {
                Op::ExtractDyn
            } else {
                Op::InsertDyn
            }
        } else if self.p.c.eat(".") {
            let k = self.p.c.number("a component", u64::from(u32::MAX))? as u32;
            if extract {
                Op::Extract(k)
            } else {
                Op::Insert(k)
            }
        } else {
            return Err(self.p.c.expected("`.` or `[`"));
        };
        let args = self.more(args)?;
        Ok((op, args))
    }

    fn atomic_op(&mut self) -> Result<AtomicOp> {
        self.named_op("add mul min max and or xor exchange", AtomicOp::from_name)
    }

    pub(super) fn named_op<T>(
        &mut self,
        names: &str,
        find: impl Fn(&str) -> Option<T>,
    ) -> Result<T> {
        match self.p.c.peek_word().and_then(find) {
            Some(op) => {
                self.p.c.word("an operation")?;
                Ok(op)
            }
            None => Err(self.p.c.expected(&format!("one of: {names}"))),
        }
    }

    /// The type of the one result, for operations that take their target from it.
    fn result_type(&self, word: &str, at: usize, results: &[Named]) -> Result<Type> {
        match results {
            [(_, _, ty)] => Ok(*ty),
            _ => Err(self
                .p
                .c
                .error("W0002", at, format!("`{word}` has one result"))),
        }
    }

    fn result_elem(&self, word: &str, at: usize, results: &[Named]) -> Result<Scalar> {
        let ty = self.result_type(word, at, results)?;
        ty.elem().ok_or_else(|| {
            self.p
                .c
                .error("W0002", at, format!("`{word}` does not give a struct"))
        })
    }

    /// `v0: f32`
    fn named(&mut self) -> Result<Named> {
        let (name, at) = self.p.c.id::<Value>("v", "a value like `v0`")?;
        self.p.c.expect(":")?;
        Ok((name, at, self.p.ty()?))
    }

    pub(super) fn value(&mut self) -> Result<Value> {
        let (name, at) = self.p.c.id::<Value>("v", "a value like `v0`")?;
        match self.values.get(&name.as_u32()) {
            Some(v) => Ok(*v),
            None => Err(self.p.undefined(at, &name)),
        }
    }

    /// `v0, v1`, maybe empty.
    pub(super) fn values(&mut self) -> Result<Values> {
        let mut out = Values::new();
        if self.p.c.peek_id("v").is_some() {
            out.push(self.value()?);
            out = self.more(out)?;
        }
        Ok(out)
    }

    /// `, v0, v1`, maybe empty, behind what is there.
    pub(super) fn more(&mut self, mut args: Values) -> Result<Values> {
        while self.p.c.eat(",") {
            args.push(self.value()?);
        }
        Ok(args)
    }

    /// `(v0, v1)`; nothing is an empty list.
    fn parenthesised(&mut self) -> Result<Values> {
        let mut out = Values::new();
        if self.p.c.eat("(") && !self.p.c.eat(")") {
            out = self.values()?;
            self.p.c.expect(")")?;
        }
        Ok(out)
    }

    fn new_label(&mut self) -> Result<Label> {
        let (name, at) = self.p.c.id::<Label>("L", "a label like `L0`")?;
        let label = self.f.fresh_label();
        if self.labels.insert(name.as_u32(), label).is_some() {
            let why = format!("{name} is defined twice");
            return Err(self.p.c.error("W0004", at, why));
        }
        Ok(label)
    }

    fn label(&mut self) -> Result<Label> {
        let (name, at) = self.p.c.id::<Label>("L", "a label like `L0`")?;
        match self.labels.get(&name.as_u32()) {
            Some(l) => Ok(*l),
            None => Err(self.p.undefined(at, &name)),
        }
    }
}

impl Function {
    fn spans_set(&mut self, inst: Inst, span: Span) {
        if span.is_known() {
            self.spans[inst] = span;
        }
    }
}
