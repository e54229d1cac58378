//! The function under construction: where instructions go, and how regions open and close.

use super::Invalid;
use wuji_ir::entities::{Func, Inst, Label, Local, Region, Temp, Value};
use wuji_ir::infer;
use wuji_ir::module::{Function, Module, Span, Term, Values};
use wuji_ir::ops::{Op, Place};
use wuji_ir::types::Type;

/// A function under construction and its open regions.
#[derive(Clone)]
pub(super) struct Frame {
    pub(super) func: Function,
    /// The function's id in the module; `None` for the kernel.
    pub(super) target: Option<Func>,
    /// Innermost last; never empty.
    pub(super) open: Vec<Open>,
    /// Variables that iterations of parallel loops share, and where they are.
    pub(super) shared: Vec<(Local, Temp)>,
}

/// An open region, to which instructions are appended.
#[derive(Clone)]
pub(super) struct Open {
    /// After a jump: an unowned region that collects dead code.
    region: Region,
    pub(super) owner: Owner,
    pub(super) label: Option<Label>,
    /// The region has ended in a jump.
    pub(super) closed: bool,
    /// An enclosing region was closed before this one was opened.
    dead: bool,
    /// A jump inside breaks to its label.
    broken: bool,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Owner {
    Function,
    If(Inst),
    /// Whether the `then` region ended in a jump.
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

/// More than the verifier accepts, so that the verifier reports excessive nesting.
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
            shared: Vec::new(),
        }
    }

    /// Moves a variable to memory that all iterations reach.
    pub(super) fn share(&mut self, local: Local, temp: Temp) {
        self.shared.push((local, temp));
        self.func.move_to_temp(local, temp);
    }

    /// Where a variable is.
    pub(super) fn variable(&self, local: Local) -> Place {
        let shared = self.shared.iter().find(|(known, _)| *known == local);
        shared.map_or(Place::Local(local), |(_, temp)| Place::Temp(*temp))
    }

    pub(super) fn value(&self, number: u32) -> Result<Value, Invalid> {
        let value = Value::from_u32(number);
        if self.func.values.is_valid(value) {
            Ok(value)
        } else {
            Err(Invalid(format!("unknown value {number}")))
        }
    }

    fn top(&mut self) -> Result<&mut Open, Invalid> {
        self.open
            .last_mut()
            .ok_or_else(|| Invalid("no region is open".into()))
    }

    /// Whether the innermost region has ended in a jump.
    pub(super) fn closed(&self) -> bool {
        self.open.last().is_some_and(|o| o.closed)
    }

    /// Appends an instruction; its result types follow from its arguments.
    pub(super) fn push(
        &mut self,
        m: &Module,
        span: Span,
        op: Op,
        args: &[Value],
    ) -> Result<Inst, Invalid> {
        let types: Vec<Type> = args.iter().map(|a| self.func.ty(*a)).collect();
        let results = infer::results(m, &self.func, &op, &types).map_err(Invalid)?;
        let args: Values = args.iter().copied().collect();
        let results = results.unwrap_or_default();
        let inst = self.func.add_inst(op, args, &results, span);
        let region = self.top()?.region;
        self.func.regions[region].insts.push(inst);
        Ok(inst)
    }

    /// Appends instructions that were built in another region.
    pub(super) fn append(&mut self, insts: Vec<Inst>) -> Result<(), Invalid> {
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
    ) -> Result<Values, Invalid> {
        if self.open.len() >= MAX_OPEN {
            return Err(Invalid("regions are nested too deep".into()));
        }
        let region = self.func.add_region(params);
        self.func.insts[inst].regions.push(region);
        let enclosing = self.top()?;
        let dead = enclosing.dead || enclosing.closed;
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

    /// Ends the innermost region with a terminator. Later instructions go to an unowned region.
    pub(super) fn end(&mut self, term: Term, span: Span) -> Result<(), Invalid> {
        let scratch = self.func.add_region(&[]);
        let top = self.top()?;
        let region = std::mem::replace(&mut top.region, scratch);
        top.closed = true;
        let data = &mut self.func.regions[region];
        data.term = term;
        data.term_span = span;
        Ok(())
    }

    /// Closes the innermost region, which must have this kind of owner. Returns whether control can reach the code after the owner, as far as
    /// this region is concerned.
    pub(super) fn leave(
        &mut self,
        fits: impl FnOnce(Owner) -> bool,
        what: &str,
        span: Span,
    ) -> Result<(Owner, bool), Invalid> {
        let (owner, label, closed) = match self.open.last() {
            Some(top) if fits(top.owner) => (top.owner, top.label, top.closed),
            Some(top) => {
                let open = top.owner.name();
                return Err(Invalid(format!("`{what}` is ended, but `{open}` is open")));
            }
            None => return Err(Invalid("no region is open".into())),
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

    /// Marks the code after the last instruction as unreachable.
    pub(super) fn unreachable(&mut self, span: Span) -> Result<(), Invalid> {
        if self.closed() {
            Ok(())
        } else {
            self.end(Term::Unreachable, span)
        }
    }

    /// Finds the enclosing loop or block with this label.
    pub(super) fn target(&mut self, label: u32) -> Result<(Label, Owner), Invalid> {
        let label = Label::from_u32(label);
        let found = self.open.iter().rev().find(|o| o.label == Some(label));
        match found {
            Some(open) => Ok((label, open.owner)),
            None => Err(Invalid(format!(
                "no enclosing loop or block has the label {label}"
            ))),
        }
    }

    /// Records a break to a label, unless it is unreachable.
    pub(super) fn breaks(&mut self, label: Label) {
        if self.open.last().is_some_and(|o| o.dead || o.closed) {
            return;
        }
        if let Some(open) = self.open.iter_mut().find(|o| o.label == Some(label)) {
            open.broken = true;
        }
    }

    /// Returns the finished function.
    pub(super) fn finish(mut self, span: Span) -> Result<(Function, Option<Func>), Invalid> {
        match &self.open[..] {
            [body] if body.closed => {}
            [_] if self.func.results.is_empty() => self.end(Term::Return(Values::new()), span)?,
            [_] => {
                let name = &self.func.name;
                return Err(Invalid(format!(
                    "`{name}` ends without returning its result"
                )));
            }
            _ => {
                let open = self.open.last().map_or("", |o| o.owner.name());
                return Err(Invalid(format!("`{open}` is still open")));
            }
        }
        Ok((self.func, self.target))
    }
}
