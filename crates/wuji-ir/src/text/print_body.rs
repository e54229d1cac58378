//! Function bodies as text.

use super::number::Numbering;
use super::print::{PlaceName, position, print_hints};
use crate::entities::*;
use crate::module::*;
use crate::ops::*;
use std::fmt::{self, Write};

/// Prints regions and instructions of one function with dense numbers.
///
/// It also prints functions that the verifier rejects, so it assumes nothing: an undefined value is `v?7`,
/// and a surplus argument of an operation is added at the end.
pub(crate) struct BodyPrinter<'a> {
    f: &'a Function,
    n: Numbering,
    files: usize,
    pub(super) out: &'a mut String,
}

impl<'a> BodyPrinter<'a> {
    pub(crate) fn new(f: &'a Function, files: usize, out: &'a mut String) -> BodyPrinter<'a> {
        BodyPrinter {
            f,
            n: Numbering::of(f),
            files,
            out,
        }
    }

    /// `(v0: f32) -> f32 {` and a line end.
    pub(super) fn signature(&mut self) -> fmt::Result {
        let params: Values = match self.f.regions.get(self.f.entry) {
            Some(entry) => entry.params.clone(),
            None => Values::new(),
        };
        self.out.push('(');
        self.definitions(&params)?;
        self.out.push(')');
        for (k, ty) in self.f.results.iter().enumerate() {
            let lead = if k == 0 { " -> " } else { ", " };
            write!(self.out, "{lead}{ty}")?;
        }
        if let Some(reverse) = self.f.reverse {
            write!(self.out, " reverse {reverse}")?;
        }
        self.out.push_str(" {\n");
        Ok(())
    }

    /// The instructions and the terminator of a region, a line each.
    pub(super) fn region(&mut self, region: Region, depth: usize) -> fmt::Result {
        let f = self.f;
        let indent = "  ".repeat(depth.min(MAX_NESTING));
        let Some(data) = f.regions.get(region) else {
            return writeln!(self.out, "{indent}?{region}");
        };
        if depth > MAX_NESTING + 1 {
            return writeln!(self.out, "{indent}...");
        }
        for inst in &data.insts {
            self.out.push_str(&indent);
            self.inst(*inst, Some(depth))?;
            self.out.push('\n');
        }
        self.out.push_str(&indent);
        self.term(&data.term)?;
        position(data.term_span, self.files, self.out)?;
        self.out.push('\n');
        Ok(())
    }

    /// One instruction; with a depth, its regions too, otherwise as `{ ... }`.
    pub(crate) fn inst(&mut self, inst: Inst, depth: Option<usize>) -> fmt::Result {
        let f = self.f;
        let Some(data) = f.insts.get(inst) else {
            return write!(self.out, "?{inst}");
        };
        self.definitions(&data.results)?;
        if !data.results.is_empty() {
            self.out.push_str(" = ");
        }
        self.operation(data, depth)?;
        if depth.is_some() {
            position(f.spans[inst], self.files, self.out)?;
        }
        Ok(())
    }

    pub(crate) fn term(&mut self, term: &Term) -> fmt::Result {
        match term {
            Term::Yield(values) => self.keyword_list("yield", values),
            Term::Break(l, values) => self.exit("break", *l, values),
            Term::Continue(l, values) => self.exit("continue", *l, values),
            Term::Return(values) => self.keyword_list("return", values),
            Term::Unreachable => self.out.write_str("unreachable"),
        }
    }

    fn operation(&mut self, data: &InstData, depth: Option<usize>) -> fmt::Result {
        let args = &data.args[..];
        let name = data.op.name();
        match data.op.class() {
            OpClass::Constant(imm) => write!(self.out, "{name} {imm}"),
            OpClass::Elementwise(_)
            | OpClass::Algebra(_)
            | OpClass::Thread(_)
            | OpClass::Random => self.keyword_list(name, args),
            OpClass::Component(op) => self.component(name, op, args),
            OpClass::Reduce(op) => {
                write!(self.out, "{name} {} ", op.name())?;
                self.list(args)
            }
            OpClass::Query(op) => {
                self.keyword_list(name, args)?;
                match op {
                    QueryOp::ArrayExtent(a, axis) | QueryOp::ArrayStride(a, axis) => {
                        write!(self.out, " {a}.{axis}")
                    }
                    QueryOp::RandomKey | QueryOp::Iteration => Ok(()),
                }
            }
            OpClass::Hint(op) => {
                self.keyword_list(name, args)?;
                match op {
                    HintOp::AssumeRange(lo, hi) => write!(self.out, " [{lo}, {hi}]"),
                    HintOp::Unique(None) => Ok(()),
                    HintOp::Unique(Some(count)) => write!(self.out, " of {count}"),
                    HintOp::Cache(field) => write!(self.out, " {field}"),
                }
            }
            OpClass::Access(op, a) => self.access(name, op, a, args),
            OpClass::Cell(_, field) => {
                write!(self.out, "{name} {field}[")?;
                self.list(args)?;
                self.out.push(']');
                Ok(())
            }
            OpClass::TreeAccess(_, tree, node) => {
                write!(self.out, "{name} {tree}.{node} (")?;
                self.list(args)?;
                self.out.push(')');
                Ok(())
            }
            OpClass::Memory(op) => self.memory(name, op, args),
            OpClass::Control(op) => self.control(name, op, data, depth),
            OpClass::Call(func) => {
                write!(self.out, "{name} {func}(")?;
                self.list(args)?;
                self.out.push(')');
                Ok(())
            }
            OpClass::Check(op) => self.check(name, op, args),
        }
    }

    fn component(&mut self, name: &str, op: ComponentOp<'_>, args: &[Value]) -> fmt::Result {
        match op {
            ComponentOp::Compose(_) if args.is_empty() => write!(self.out, "{name} ()"),
            ComponentOp::Splat(_) | ComponentOp::Compose(_) => self.keyword_list(name, args),
            ComponentOp::Extract(k) | ComponentOp::Insert(k) => {
                let (v, rest) = split(args);
                write!(self.out, "{name} ")?;
                self.list(v)?;
                write!(self.out, ".{k}")?;
                self.more(rest)
            }
            // `extract v0[v1]`, `insert v0[v1], v2`
            ComponentOp::ExtractDyn | ComponentOp::InsertDyn => {
                let (aggregate, rest) = split(args);
                let (index, rest) = split(rest);
                write!(self.out, "{name} ")?;
                self.list(aggregate)?;
                self.out.push('[');
                self.list(index)?;
                self.out.push(']');
                self.more(rest)
            }
            ComponentOp::Shuffle(mask) => {
                self.keyword_list(name, args)?;
                write!(self.out, " {mask:?}")
            }
        }
    }

    fn memory(&mut self, name: &str, op: MemoryOp<'_>, args: &[Value]) -> fmt::Result {
        self.out.push_str(name);
        match op {
            MemoryOp::MemLoad(space, _)
            | MemoryOp::MemStore(space)
            | MemoryOp::MemCompareExchange(space) => {
                self.out.push(' ');
                self.space(&space)?;
            }
            MemoryOp::MemAtomic(op, space, sharing) => {
                self.out.push_str(match sharing {
                    Sharing::Shared => "",
                    Sharing::Owned => ".owned",
                });
                write!(self.out, " {} ", op.name())?;
                self.space(&space)?;
            }
            MemoryOp::LoadInterleaved(rows) | MemoryOp::StoreInterleaved(rows) => {
                self.out.push(' ');
                self.rows(rows)?;
            }
            MemoryOp::AddInterleaved(spaces) => {
                for (k, space) in spaces.iter().enumerate() {
                    self.out.push_str(if k > 0 { ", " } else { " " });
                    self.space(space)?;
                }
            }
        }
        self.offset(args)
    }

    fn control(
        &mut self,
        name: &str,
        op: ControlOp<'_>,
        data: &InstData,
        depth: Option<usize>,
    ) -> fmt::Result {
        let args = &data.args[..];
        self.out.push_str(name);
        match op {
            ControlOp::If => {
                self.keyword_list("", args)?;
                for (k, region) in data.regions.iter().enumerate() {
                    if k > 0 {
                        self.out.push_str(" else");
                    }
                    self.braced(*region, depth)?;
                }
                return Ok(());
            }
            ControlOp::Loop(l) => {
                self.out.push(' ');
                self.label(l)?;
                self.carried(data, 0, args)?;
            }
            ControlOp::For(l, kind) => {
                self.out.push_str(match kind {
                    ForKind::Serial => " ",
                    ForKind::Parallel => ".parallel ",
                    ForKind::Boundary => ".boundary ",
                });
                self.label(l)?;
                self.out.push(' ');
                if let Some(index) = self.body_params(data).first() {
                    self.definitions(&[*index])?;
                }
                self.out.push_str(" in ");
                let (bounds, rest) = args.split_at(args.len().min(3));
                for (v, lead) in bounds.iter().zip(["", "..", " step "]) {
                    self.out.push_str(lead);
                    self.value(*v)?;
                }
                self.carried(data, 1, rest)?;
            }
            ControlOp::Block(l) => {
                self.out.push(' ');
                self.label(l)?;
                self.more(args)?;
            }
            ControlOp::ForEach(l, domain, hints) => {
                self.out.push(' ');
                self.label(l)?;
                self.out.push_str(" (");
                self.definitions(&self.body_params(data))?;
                self.out.push_str(") in ");
                self.domain(domain, args)?;
                print_hints(hints, self.out)?;
            }
        }
        self.bodies(data, depth)
    }

    fn domain(&mut self, domain: &Domain, args: &[Value]) -> fmt::Result {
        match domain {
            Domain::Field(f) => write!(self.out, "{f}")?,
            Domain::Range { .. } if args.is_empty() => self.out.push_str("()"),
            Domain::Range { .. } => {
                for (k, v) in args.iter().enumerate() {
                    self.out.push_str(match k {
                        0 => "",
                        k if k % 2 == 1 => "..",
                        _ => ", ",
                    });
                    self.value(*v)?;
                }
            }
        }
        Ok(())
    }

    fn check(&mut self, name: &str, op: CheckOp, args: &[Value]) -> fmt::Result {
        match op {
            CheckOp::Print(m) => {
                write!(self.out, "{name} {m}")?;
                self.parenthesised(args)
            }
            CheckOp::Assert(m) => {
                let (cond, holes) = split(args);
                write!(self.out, "{name} ")?;
                self.list(cond)?;
                write!(self.out, ", {m}")?;
                self.parenthesised(holes)
            }
            CheckOp::CheckIndex(len) => {
                self.keyword_list(name, args)?;
                write!(self.out, " < {len}")
            }
            CheckOp::Report(site) => {
                write!(self.out, "{name} {site}")?;
                self.parenthesised(args)
            }
        }
    }

    fn access(&mut self, name: &str, op: AccessOp, a: &Access, args: &[Value]) -> fmt::Result {
        self.out.push_str(name);
        if a.activation != op.default_activation() {
            write!(self.out, ".{}", a.activation.name())?;
        }
        self.out.push_str(match a.guard {
            Guard::Checked => "",
            Guard::Silent => ".silent",
            Guard::InBounds => ".inbounds",
        });
        if let AccessOp::Atomic(op) = op {
            write!(self.out, " {}", op.name())?;
        }
        write!(self.out, " {}[", PlaceName(a.place))?;
        let steps = a.dynamic_steps();
        let indices = args.len().saturating_sub(steps + op.operands());
        let (indices, rest) = args.split_at(indices);
        self.list(indices)?;
        self.out.push(']');
        let (steps, rest) = rest.split_at(rest.len().min(steps));
        let mut steps = steps.iter();
        for step in &a.path {
            match step {
                Step::Const(k) => write!(self.out, ".{k}")?,
                Step::Dynamic => {
                    self.out.push_str(".[");
                    self.list(steps.next().map_or(&[], std::slice::from_ref))?;
                    self.out.push(']');
                }
            }
        }
        self.more(rest)
    }

    fn rows(&mut self, rows: &Interleaved) -> fmt::Result {
        write!(self.out, "{} ", rows.ty)?;
        for (k, (space, at)) in rows.columns.iter().enumerate() {
            self.out.push_str(if k > 0 { ", " } else { "" });
            self.space(space)?;
            write!(self.out, " + {at}")?;
        }
        write!(self.out, " every {}", rows.stride)
    }

    fn space(&mut self, space: &Space) -> fmt::Result {
        match space {
            Space::Tree(tree, field) => write!(self.out, "{tree}.{field}")?,
            Space::Nodes(tree) => write!(self.out, "{tree}.nodes")?,
            Space::Bytes(tree) => write!(self.out, "{tree}.bytes")?,
            Space::Streamed(tree) => write!(self.out, "{tree}.streamed")?,
            Space::Array(array) => write!(self.out, "{array}")?,
            Space::Temps => self.out.push_str("temps"),
            Space::Private(tree, field) => write!(self.out, "{tree}.{field}.private")?,
        }
        Ok(())
    }

    fn offset(&mut self, args: &[Value]) -> fmt::Result {
        let (offset, rest) = split(args);
        self.out.push_str(" [");
        self.list(offset)?;
        self.out.push(']');
        self.more(rest)
    }

    /// ` (v2: i32 = v0)`, the region's parameters from `skip` on with their initial values.
    fn carried(&mut self, data: &InstData, skip: usize, initial: &[Value]) -> fmt::Result {
        let params = self.body_params(data);
        let params = params.get(skip..).unwrap_or(&[]);
        if params.is_empty() && initial.is_empty() {
            return Ok(());
        }
        self.out.push_str(" (");
        for k in 0..params.len().max(initial.len()) {
            if k > 0 {
                self.out.push_str(", ");
            }
            if let Some(p) = params.get(k) {
                self.definitions(&[*p])?;
            }
            if let Some(v) = initial.get(k) {
                self.out.push_str(" = ");
                self.value(*v)?;
            }
        }
        self.out.push(')');
        Ok(())
    }

    fn body_params(&self, data: &InstData) -> Values {
        data.regions
            .first()
            .and_then(|r| self.f.regions.get(*r))
            .map_or(Values::new(), |r| r.params.clone())
    }

    fn bodies(&mut self, data: &InstData, depth: Option<usize>) -> fmt::Result {
        data.regions
            .iter()
            .try_for_each(|region| self.braced(*region, depth))
    }

    fn braced(&mut self, region: Region, depth: Option<usize>) -> fmt::Result {
        let Some(depth) = depth else {
            return self.out.write_str(" { ... }");
        };
        self.out.push_str(" {\n");
        self.region(region, depth + 1)?;
        write!(self.out, "{}}}", "  ".repeat(depth.min(MAX_NESTING)))
    }

    fn exit(&mut self, word: &str, label: Label, values: &[Value]) -> fmt::Result {
        write!(self.out, "{word} ")?;
        self.label(label)?;
        self.parenthesised(values)
    }

    pub(crate) fn label(&mut self, label: Label) -> fmt::Result {
        match self.n.label(label) {
            Some(l) => write!(self.out, "{l}"),
            None => write!(self.out, "L?{}", label.as_u32()),
        }
    }

    pub(crate) fn value(&mut self, value: Value) -> fmt::Result {
        match self.n.value(value) {
            Some(v) => write!(self.out, "{v}"),
            None => write!(self.out, "v?{}", value.as_u32()),
        }
    }

    /// `v0, v1`
    fn list(&mut self, values: &[Value]) -> fmt::Result {
        for (k, v) in values.iter().enumerate() {
            if k > 0 {
                self.out.push_str(", ");
            }
            self.value(*v)?;
        }
        Ok(())
    }

    /// `, v0, v1`
    fn more(&mut self, values: &[Value]) -> fmt::Result {
        for v in values {
            self.out.push_str(", ");
            self.value(*v)?;
        }
        Ok(())
    }

    /// ` (v0, v1)`; nothing when empty.
    fn parenthesised(&mut self, values: &[Value]) -> fmt::Result {
        if !values.is_empty() {
            self.out.push_str(" (");
            self.list(values)?;
            self.out.push(')');
        }
        Ok(())
    }

    /// `word v0, v1`
    fn keyword_list(&mut self, word: &str, values: &[Value]) -> fmt::Result {
        self.out.push_str(word);
        if !values.is_empty() {
            self.out.push(' ');
        }
        self.list(values)
    }

    /// `v0: f32, v1: i32`
    fn definitions(&mut self, values: &[Value]) -> fmt::Result {
        for (k, v) in values.iter().enumerate() {
            if k > 0 {
                self.out.push_str(", ");
            }
            self.value(*v)?;
            match self.f.values.get(*v) {
                Some(data) => write!(self.out, ": {}", data.ty)?,
                None => self.out.push_str(": ?"),
            }
        }
        Ok(())
    }
}

/// The first value, if any, and the others.
fn split(args: &[Value]) -> (&[Value], &[Value]) {
    args.split_at(args.len().min(1))
}
