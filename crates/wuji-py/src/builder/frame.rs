//! The function under construction: where instructions go, and how regions open and close.

use super::Misfit;
use wuji_ir::entities::{Func, Inst, Label, Region, Value};
use wuji_ir::infer;
use wuji_ir::module::{Function, Module, Span, Term, Values};
use wuji_ir::ops::Op;
use wuji_ir::types::Type;

/// A function under construction, and the regions of it that are open.
#[derive(Clone)]
pub(super) struct Frame {
    pub(super) func: Function,
    /// Its number in the module; the kernel has none yet.
    pub(super) target: Option<Func>,
    /// The innermost last; never empty.
    pub(super) open: Vec<Open>,
}

/// A region that instructions go to.
#[derive(Clone)]
pub(super) struct Open {
    /// Behind a jump, one that nobody owns.
    region: Region,
    pub(super) owner: Owner,
    pub(super) label: Option<Label>,
    /// It has ended in a jump.
    pub(super) closed: bool,
    /// Somewhere around it is a region that ended before it began.
    dead: bool,
    /// Something inside of it breaks to its label.
    broken: bool,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Owner {
    Function,
    If(Inst),
    /// Whether the first side has ended in a jump.
    Else(Inst, bool),
    For,
    Loop,
    Block,
    ForEach,
}

impl Owner {
    fn name(self) -> &'static str {
        match self {
            Owner::Function => "function",
            Owner::If(_) => "if",
            Owner::Else(..) => "else",
            Owner::For => "for",
            Owner::Loop => "loop",
            Owner::Block => "block",
            Owner::ForEach => "foreach",
        }
    }
}

/// More than any verifier takes, so that what is refused is refused there.
const MAX_OPEN: usize = 400;

impl Frame {
    pub(super) fn new(func: Function, target: Option<Func>) -> Frame {
        let body = Open {
            region: func.entry,
            owner: Owner::Function,
            label: None,
            closed: false,
            dead: false,
            broken: false,
        };
        Frame {
            func,
            target,
            open: vec![body],
        }
    }

    pub(super) fn value(&self, number: u32) -> Result<Value, Misfit> {
        let value = Value::from_u32(number);
        match self.func.values.is_valid(value) {
            true => Ok(value),
            false => Err(Misfit(format!("there is no value {number}"))),
        }
    }

    fn top(&mut self) -> Result<&mut Open, Misfit> {
        self.open
            .last_mut()
            .ok_or_else(|| Misfit("no region is open".into()))
    }

    /// Whether the innermost region has ended in a jump.
    pub(super) fn closed(&self) -> bool {
        self.open.last().is_some_and(|o| o.closed)
    }

    /// Appends an instruction whose results follow from its arguments.
    pub(super) fn push(
        &mut self,
        m: &Module,
        span: Span,
        op: Op,
        args: &[Value],
    ) -> Result<Inst, Misfit> {
        let types: Vec<Type> = args.iter().map(|a| self.func.ty(*a)).collect();
        let results = infer::results(m, &self.func, &op, &types).map_err(Misfit)?;
        let args: Values = args.iter().copied().collect();
        let results = results.unwrap_or_default();
        let inst = self.func.add_inst(op, args, &results, span);
        let region = self.top()?.region;
        self.func.regions[region].insts.push(inst);
        Ok(inst)
    }

    /// Appends instructions that were made on the side.
    pub(super) fn append(&mut self, insts: Vec<Inst>) -> Result<(), Misfit> {
        let region = self.top()?.region;
        self.func.regions[region].insts.extend(insts);
        Ok(())
    }

    /// Opens a region of an instruction.
    pub(super) fn enter(
        &mut self,
        inst: Inst,
        owner: Owner,
        label: Option<Label>,
        params: &[Type],
    ) -> Result<Values, Misfit> {
        if self.open.len() >= MAX_OPEN {
            return Err(Misfit("regions are nested too deep".into()));
        }
        let region = self.func.add_region(params);
        self.func.insts[inst].regions.push(region);
        let around = self.top()?;
        let dead = around.dead || around.closed;
        self.open.push(Open {
            region,
            owner,
            label,
            closed: false,
            dead,
            broken: false,
        });
        Ok(self.func.regions[region].params.clone())
    }

    /// Ends the innermost region. What follows goes to a region that nobody owns.
    pub(super) fn end(&mut self, term: Term, span: Span) -> Result<(), Misfit> {
        let scratch = self.func.add_region(&[]);
        let top = self.top()?;
        let region = std::mem::replace(&mut top.region, scratch);
        top.closed = true;
        let data = &mut self.func.regions[region];
        data.term = term;
        data.term_span = span;
        Ok(())
    }

    /// Closes the innermost region, which has to be of this kind, as it ends by itself; tells whether control can come out behind what it
    /// belongs to, as far as this region is concerned.
    pub(super) fn leave(
        &mut self,
        fits: impl FnOnce(Owner) -> bool,
        what: &str,
        span: Span,
    ) -> Result<(Owner, bool), Misfit> {
        let (owner, label, closed) = match self.open.last() {
            Some(top) if fits(top.owner) => (top.owner, top.label, top.closed),
            Some(top) => {
                let open = top.owner.name();
                return Err(Misfit(format!("`{what}` is ended, but `{open}` is open")));
            }
            None => return Err(Misfit("no region is open".into())),
        };
        if !closed {
            let none = Values::new();
            let term = match (owner, label) {
                (Owner::For | Owner::Loop | Owner::ForEach, Some(label)) => {
                    Term::Continue(label, none)
                }
                _ => Term::Yield(none),
            };
            self.end(term, span)?;
        }
        let broken = self.open.pop().is_some_and(|o| o.broken);
        let falls = match owner {
            Owner::For | Owner::ForEach => true,
            Owner::Loop => broken,
            Owner::Block => broken || !closed,
            Owner::If(_) | Owner::Else(..) | Owner::Function => !closed,
        };
        Ok((owner, falls))
    }

    /// Control does not come out behind the last instruction.
    pub(super) fn unreachable(&mut self, span: Span) -> Result<(), Misfit> {
        match self.closed() {
            true => Ok(()),
            false => self.end(Term::Unreachable, span),
        }
    }

    /// The loop or block around that has this label.
    pub(super) fn target(&mut self, label: u32) -> Result<(Label, Owner), Misfit> {
        let label = Label::from_u32(label);
        let found = self.open.iter().rev().find(|o| o.label == Some(label));
        match found {
            Some(open) => Ok((label, open.owner)),
            None => Err(Misfit(format!(
                "{label} names no loop or block around this"
            ))),
        }
    }

    /// Notes that something breaks to a label, unless it is never run.
    pub(super) fn breaks(&mut self, label: Label) {
        if self.open.last().is_some_and(|o| o.dead || o.closed) {
            return;
        }
        if let Some(open) = self.open.iter_mut().find(|o| o.label == Some(label)) {
            open.broken = true;
        }
    }

    /// The finished function.
    pub(super) fn finish(mut self, span: Span) -> Result<(Function, Option<Func>), Misfit> {
        match &self.open[..] {
            [body] if body.closed => {}
            [_] if self.func.results.is_empty() => self.end(Term::Return(Values::new()), span)?,
            [_] => {
                let name = &self.func.name;
                return Err(Misfit(format!(
                    "`{name}` comes to its end without its result"
                )));
            }
            _ => {
                let open = self.open.last().map_or("", |o| o.owner.name());
                return Err(Misfit(format!("`{open}` is still open")));
            }
        }
        Ok((self.func, self.target))
    }
}
