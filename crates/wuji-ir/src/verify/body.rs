//! Verifies function bodies: visibility of values, types, regions and terminators.

use super::{ids, tables};
use crate::diag::{Error, Position, Result};
use crate::entities::*;
use crate::infer;
use crate::module::*;
use crate::ops::*;
use crate::text::BodyPrinter;
use crate::types::{I64, Type};
use cranelift_entity::EntitySet;

pub(super) fn function(m: &Module, func: Func) -> Result<()> {
    let mut checker = Checker {
        m,
        f: &m.funcs[func],
        func,
        visible: EntitySet::new(),
        seen_insts: EntitySet::new(),
        seen_regions: EntitySet::new(),
        seen_labels: EntitySet::new(),
        owners: Vec::new(),
    };
    checker.region(checker.f.entry)
}

/// A walk over one function.
struct Checker<'a> {
    m: &'a Module,
    f: &'a Function,
    func: Func,
    visible: EntitySet<Value>,
    seen_insts: EntitySet<Inst>,
    seen_regions: EntitySet<Region>,
    seen_labels: EntitySet<Label>,
    /// The instructions that own the enclosing regions, outermost first.
    owners: Vec<Inst>,
}

type Check = std::result::Result<(), (&'static str, String)>;

fn wrong<T>(
    code: &'static str,
    why: impl Into<String>,
) -> std::result::Result<T, (&'static str, String)> {
    Err((code, why.into()))
}

impl Checker<'_> {
    fn region(&mut self, region: Region) -> Result<()> {
        let data = &self.f.regions[region];
        for (k, p) in data.params.iter().enumerate() {
            self.definition(*p, ValueDef::Param(region, k as u16))
                .map_err(|e| self.in_function(e))?;
            self.visible.insert(*p);
        }
        for &inst in &data.insts {
            if !self.f.insts.is_valid(inst) {
                return Err(self.in_function(("W0020", format!("{inst} is not defined"))));
            }
            if !self.seen_insts.insert(inst) {
                let why = "this instruction is in the function twice".to_owned();
                return Err(self.at_inst(inst, ("W0025", why)));
            }
            self.operation(inst).map_err(|e| self.at_inst(inst, e))?;
            self.regions(inst)?;
            for v in &self.f.insts[inst].results {
                self.visible.insert(*v);
            }
        }
        self.terminator(region)
            .map_err(|e| self.at_term(region, e))?;
        // Definitions of this region go out of scope.
        for inst in &data.insts {
            for v in &self.f.insts[*inst].results {
                self.visible.remove(*v);
            }
        }
        for p in &data.params {
            self.visible.remove(*p);
        }
        Ok(())
    }

    /// Checks an instruction: arguments, types, and the number of regions.
    fn operation(&mut self, inst: Inst) -> Check {
        let data = &self.f.insts[inst];
        ids::operation(self.m, self.f, &data.op).or_else(|why| wrong("W0020", why))?;
        let args = self.arguments(&data.args)?;
        for (k, v) in data.results.iter().enumerate() {
            self.definition(*v, ValueDef::Result(inst, k as u16))?;
        }
        let results: Vec<Type> = data.results.iter().map(|v| self.f.ty(*v)).collect();
        let expected =
            infer::results(self.m, self.f, &data.op, &args).or_else(|why| wrong("W0026", why))?;
        if let Some(expected) = expected
            && expected[..] != results[..]
        {
            return wrong(
                "W0027",
                format!(
                    "the results are ({}), but it gives ({})",
                    tables::type_list(&results),
                    tables::type_list(&expected)
                ),
            );
        }
        if let Some(label) = data.op.label() {
            if label.as_u32() >= self.f.labels {
                return wrong("W0030", "its label is not one of the function's");
            }
            if !self.seen_labels.insert(label) {
                return wrong("W0030", "its label names another loop or block too");
            }
        }
        self.shape(data, &args, &results)
    }

    /// The types of the arguments, which must all be visible.
    fn arguments(&self, args: &[Value]) -> std::result::Result<Vec<Type>, (&'static str, String)> {
        for v in args {
            if !self.visible.contains(*v) {
                let name = self.printed(|p| p.value(*v));
                return wrong("W0025", format!("{name} is not visible here"));
            }
        }
        Ok(args.iter().map(|v| self.f.ty(*v)).collect())
    }

    /// Checks that a value is defined where it says, once, and has a type.
    fn definition(&self, value: Value, def: ValueDef) -> Check {
        let Some(data) = self.f.values.get(value) else {
            return wrong("W0020", format!("{value} is not defined"));
        };
        if data.def != def {
            return wrong(
                "W0025",
                format!("{value} is defined here but says it is by {:?}", data.def),
            );
        }
        ids::value_type(self.m, data.ty).or_else(|why| wrong("W0021", why))
    }

    fn shape(&self, data: &InstData, args: &[Type], results: &[Type]) -> Check {
        let count = data.op.control().map_or(0, ControlOp::regions);
        if data.regions.len() != count {
            return wrong(
                "W0032",
                format!("it has {} regions instead of {count}", data.regions.len()),
            );
        }
        let mut params = Vec::new();
        for r in &data.regions {
            let Some(region) = self.f.regions.get(*r) else {
                return wrong("W0020", format!("{r} is not defined"));
            };
            for p in &region.params {
                match self.f.values.get(*p) {
                    Some(v) => params.push(v.ty),
                    None => return wrong("W0020", format!("{p} is not defined")),
                }
            }
        }
        if let Some(op) = data.op.control() {
            return self.region_params((op, data), &params, args, results);
        }
        if let Op::Call(func) = data.op {
            if self.m.kernel == Some(func) {
                return wrong("W0035", "the kernel cannot be called");
            }
            if self.m.funcs[func].locals.values().any(|l| l.shared) {
                return wrong("W0035", "a function with shared arrays cannot be called");
            }
        }
        if let Op::Report(site) = data.op {
            return self.report(site, args);
        }
        let is_exchange = matches!(data.op, Op::MemCompareExchange(_));
        if is_exchange && results.iter().any(|t| t.as_scalar().is_none()) {
            return wrong("W0026", "only a scalar can be exchanged at once");
        }
        Ok(())
    }

    /// The parameters of an instruction's regions follow from its arguments.
    fn region_params(
        &self,
        (op, data): (ControlOp<'_>, &InstData),
        params: &[Type],
        args: &[Type],
        results: &[Type],
    ) -> Check {
        match op {
            ControlOp::If | ControlOp::Block(_) => {
                same_types("W0032", "its regions take", params, &[])
            }
            ControlOp::Loop(_) => same_types("W0032", "its region takes", params, args),
            ControlOp::For(..) => {
                let mut expected = vec![args[0]];
                expected.extend(&args[3..]);
                same_types("W0032", "its region takes", params, &expected)?;
                same_types("W0027", "the results are", results, &args[3..])
            }
            ControlOp::ForEach(_, domain, hints) => {
                self.foreach(data, (domain, hints), params, args)
            }
        }
    }

    fn is_foreach(&self, inst: Inst) -> bool {
        matches!(self.f.insts[inst].op, Op::ForEach(..))
    }

    fn foreach(
        &self,
        data: &InstData,
        (domain, hints): (&Domain, LoopHints),
        params: &[Type],
        args: &[Type],
    ) -> Check {
        if self.m.kernel != Some(self.func) || self.owners.iter().any(|i| self.is_foreach(*i)) {
            return wrong(
                "W0031",
                "`foreach` is only allowed in the serial code of a kernel",
            );
        }
        if (!self.owners.is_empty() || hints.uncounted)
            && (hints.cooperative || data.regions.iter().any(|r| is_numbered(self.f, *r)))
        {
            return wrong(
                "W0031",
                "a `foreach` that belongs to serial code is not cooperative, draws no random numbers, and neither prints nor calls",
            );
        }
        if hints.block_size == Some(0) {
            return wrong("W0031", "a block has at least one iteration");
        }
        match domain {
            Domain::Range { .. } => {
                let expected: Vec<Type> = args.iter().step_by(2).copied().collect();
                same_types("W0032", "its region takes", params, &expected)
            }
            Domain::Field(field) => {
                for ty in params {
                    if !ty.as_scalar().is_some_and(|s| s.is_int()) {
                        let why = format!("an index has type `{ty}`, not an integer type");
                        return wrong("W0032", why);
                    }
                }
                tables::holds_domain(self.m, *field, params).or_else(|why| wrong("W0032", why))
            }
        }
    }

    /// Checks that a report has the arguments of its site.
    fn report(&self, site: Site, args: &[Type]) -> Check {
        // Holes stay whole until `scalarize`: compare their scalars.
        let flat = |types: &[Type]| -> Vec<Type> {
            let scalars = types.iter().flat_map(|t| self.m.structs.flatten(*t));
            scalars.map(Type::Scalar).collect()
        };
        let scalars = |message: Message| -> Vec<Type> {
            flat(&self.m.messages[message].holes().collect::<Vec<_>>())
        };
        let expected = match self.m.sites[site].kind {
            SiteKind::OutOfRange(Place::Local(l)) | SiteKind::ReadOutOfRange(Place::Local(l))
                if !self.f.locals.is_valid(l) =>
            {
                return wrong("W0020", format!("{l} is not defined"));
            }
            // Run-time components follow the indices.
            SiteKind::OutOfRange(place) | SiteKind::ReadOutOfRange(place) => {
                vec![I64; self.m.place_elem(self.f, place).1.max(args.len())]
            }
            SiteKind::BadIndex { .. } => vec![I64],
            SiteKind::Assert(message) => scalars(message),
            SiteKind::Print(message) => {
                let mut types = vec![I64];
                types.extend(scalars(message));
                types
            }
            SiteKind::TooDeep(_) | SiteKind::OutOfMemory(..) => Vec::new(),
            SiteKind::ListFull(_) => vec![I64],
        };
        same_types("W0026", "it reports", &flat(args), &expected)
    }

    fn regions(&mut self, inst: Inst) -> Result<()> {
        let regions = &self.f.insts[inst].regions;
        if regions.is_empty() {
            return Ok(());
        }
        self.owners.push(inst);
        if self.owners.len() > MAX_NESTING {
            let why = format!("regions nest at most {MAX_NESTING} deep");
            return Err(self.in_function(("W0006", why)));
        }
        for r in regions {
            if *r == self.f.entry || !self.seen_regions.insert(*r) {
                let why = "its region belongs to another instruction too".to_owned();
                return Err(self.at_inst(inst, ("W0032", why)));
            }
            self.region(*r)?;
        }
        self.owners.pop();
        Ok(())
    }

    fn terminator(&self, region: Region) -> Check {
        let data = &self.f.regions[region];
        let found = self.arguments(data.term.args())?;
        let owner = self.owners.last().map(|i| &self.f.insts[*i]);
        match &data.term {
            Term::Yield(_) => match owner {
                Some(inst) if matches!(inst.op, Op::If | Op::Block(_)) => {
                    let results: Vec<Type> = inst.results.iter().map(|v| self.f.ty(*v)).collect();
                    same_types("W0029", "it yields", &found, &results)
                }
                _ => wrong(
                    "W0028",
                    "only the regions of `if` and `block` end in `yield`",
                ),
            },
            Term::Break(label, _) => {
                let target = self.target(*label)?;
                if matches!(target.op, Op::ForEach(..)) {
                    return wrong("W0028", "a `foreach` cannot be left by `break`");
                }
                let results: Vec<Type> = target.results.iter().map(|v| self.f.ty(*v)).collect();
                same_types("W0029", "it leaves with", &found, &results)
            }
            Term::Continue(label, _) => {
                let target = self.target(*label)?;
                let params: Vec<Type> = target
                    .regions
                    .first()
                    .map(|r| &self.f.regions[*r].params[..])
                    .unwrap_or(&[])
                    .iter()
                    .map(|v| self.f.ty(*v))
                    .collect();
                let carried = match target.op.control() {
                    Some(ControlOp::Loop(_)) => &params[..],
                    Some(ControlOp::For(..)) => &params[1..],
                    Some(ControlOp::ForEach(..)) => &[],
                    Some(ControlOp::If | ControlOp::Block(_)) | None => {
                        return wrong("W0028", "the target of `continue` is a loop, not a block");
                    }
                };
                same_types("W0029", "it continues with", &found, carried)
            }
            Term::Return(_) => {
                if self.owners.iter().any(|i| self.is_foreach(*i)) {
                    return wrong("W0028", "`return` cannot leave a `foreach`");
                }
                same_types("W0029", "it returns", &found, &self.f.results)
            }
            Term::Unreachable => match data.insts.last() {
                Some(last) if !self.falls_through(*last) => Ok(()),
                _ => wrong(
                    "W0034",
                    "`unreachable` is only allowed after an instruction that never falls through",
                ),
            },
        }
    }

    /// The enclosing instruction with a label.
    fn target(&self, label: Label) -> std::result::Result<&InstData, (&'static str, String)> {
        // Nothing leaves an iteration of a `foreach`.
        let foreach = self.owners.iter().rposition(|i| self.is_foreach(*i));
        let owners = self.owners[foreach.unwrap_or(0)..].iter().rev();
        let mut owners = owners.map(|i| &self.f.insts[*i]);
        match owners.find(|i| i.op.label() == Some(label)) {
            Some(inst) => Ok(inst),
            None => {
                let name = self.printed(|p| p.label(label));
                wrong(
                    "W0030",
                    format!("{name} is not the label of an enclosing loop or block"),
                )
            }
        }
    }

    /// Whether control can continue after an instruction that has been checked.
    fn falls_through(&self, inst: Inst) -> bool {
        let data = &self.f.insts[inst];
        let yields = || {
            data.regions
                .iter()
                .any(|r| matches!(self.f.regions[*r].term, Term::Yield(_)))
        };
        match data.op.control() {
            Some(ControlOp::If) => yields(),
            Some(ControlOp::Block(l)) => yields() || self.breaks(inst, l),
            Some(ControlOp::Loop(l)) => self.breaks(inst, l),
            Some(ControlOp::For(..) | ControlOp::ForEach(..)) | None => true,
        }
    }

    /// Whether anything inside an instruction breaks to a label.
    fn breaks(&self, inst: Inst, label: Label) -> bool {
        let f = self.f;
        let ends = |r: &Region| matches!(f.regions[*r].term, Term::Break(l, _) if l == label);
        let inside = |r: &Region| f.insts_in(*r).any(|i| f.insts[i].regions.iter().any(ends));
        (f.insts[inst].regions.iter()).any(|r| ends(r) || inside(r))
    }

    fn printed(&self, print: impl FnOnce(&mut BodyPrinter<'_>) -> std::fmt::Result) -> String {
        let mut out = String::new();
        // Writing to a string does not fail.
        let _ = print(&mut BodyPrinter::new(self.f, 0, &mut out));
        out
    }

    fn in_function(&self, (code, why): (&'static str, String)) -> Error {
        Error::new(code, why).note(format!("in {}", tables::named(self.m, self.func)))
    }

    fn at_inst(&self, inst: Inst, (code, why): (&'static str, String)) -> Error {
        let text = self.printed(|p| p.inst(inst, None));
        self.located(code, why, &text, self.f.spans[inst])
    }

    fn at_term(&self, region: Region, (code, why): (&'static str, String)) -> Error {
        let data = &self.f.regions[region];
        let text = self.printed(|p| p.term(&data.term));
        self.located(code, why, &text, data.term_span)
    }

    fn located(&self, code: &'static str, why: String, text: &str, span: Span) -> Error {
        Error::new(code, why)
            .at(Position::of(self.m, span))
            .note(format!("in {}: `{text}`", tables::named(self.m, self.func)))
    }
}

fn same_types(code: &'static str, what: &str, found: &[Type], expected: &[Type]) -> Check {
    if found == expected {
        return Ok(());
    }
    wrong(
        code,
        format!(
            "{what} ({}), expected ({})",
            tables::type_list(found),
            tables::type_list(expected)
        ),
    )
}

/// Whether iterations of a `foreach` need numbers that are different in every round of a loop around it.
pub fn is_numbered(f: &Function, body: Region) -> bool {
    f.insts_in(body).any(|i| {
        let op = &f.insts[i].op;
        matches!(op, Op::Random | Op::Print(_) | Op::Call(_))
    })
}
