//! Branches and loops other than `for`.

use super::MISTAKE;
use super::binding::Val;
use super::body::{Body, Exit, LoopTarget, Next, get};
use crate::lang::ast::{At, Block, Node};
use wuji_ir::Result;
use wuji_ir::entities::{Inst, Label, Value};
use wuji_ir::module::{Term, Values};
use wuji_ir::ops::Op;
use wuji_ir::types::Imm;

impl Body<'_, '_> {
    pub(super) fn block(&mut self, at: At, block: &'static Block) -> Result<Val> {
        let Some(number) = block.label else {
            return self.statements(block);
        };
        self.at(at);
        let label = self.f.fresh_label();
        let inst = self.push_open(Op::Block(label), &[]);
        let target = LoopTarget {
            breaks: Exit { label, inst },
            continues: Next::Break(label),
        };
        self.frame_mut().loops.insert(number, target);
        self.block_body(inst, |b| b.statements(block))
    }

    /// An instruction whose results come from its regions.
    pub(super) fn push_open(&mut self, op: Op, args: &[Value]) -> Inst {
        self.build().push_typed(op, args, &[])
    }

    /// Fills the region of a block.
    pub(super) fn block_body(
        &mut self,
        inst: Inst,
        fill: impl FnOnce(&mut Self) -> Result<Val>,
    ) -> Result<Val> {
        let (region, val) = self.region(&[], |b, _| {
            let val = fill(b)?;
            b.yields(inst, &val)?;
            Ok(val)
        })?;
        self.own(inst, region);
        let falls_through = !matches!(val, Val::Never) || self.is_left(inst);
        if !falls_through {
            self.end(Term::Unreachable);
            return Ok(Val::Never);
        }
        Ok(self.result_of(inst))
    }

    /// Ends a region that hands a value to its owner.
    fn yields(&mut self, inst: Inst, val: &Val) -> Result<()> {
        match val {
            Val::Never => {}
            Val::Unit => self.end(Term::Yield(Values::new())),
            Val::Value(v) => {
                self.leaves_with(inst, val);
                self.end(Term::Yield([*v].into_iter().collect()));
            }
            Val::Array(_) => {
                return Err(self
                    .fail(
                        self.here(),
                        "W0204",
                        "an array cannot be the value of a block or branch",
                    )
                    .help("declare the array first, and fill it in each branch"));
            }
        }
        Ok(())
    }

    /// Whether anything breaks out of an instruction.
    pub(super) fn is_left(&self, inst: Inst) -> bool {
        let Some(label) = self.f.insts[inst].op.label() else {
            return true;
        };
        let mut regions: Vec<_> = self.f.insts[inst].regions.to_vec();
        while let Some(r) = regions.pop() {
            let data = &self.f.regions[r];
            if matches!(data.term, Term::Break(l, _) if l == label) {
                return true;
            }
            for i in &data.insts {
                regions.extend(&self.f.insts[*i].regions);
            }
        }
        false
    }

    fn statements(&mut self, block: &'static Block) -> Result<Val> {
        for s in block.statements {
            if let Val::Never = self.expr(s)? {
                return Ok(Val::Never);
            }
        }
        match block.value {
            Some(value) => self.expr(value),
            None => Ok(Val::Unit),
        }
    }

    /// `if`, with each side filled by a function.
    pub(super) fn branch(
        &mut self,
        cond: Value,
        then: impl FnOnce(&mut Self) -> Result<Val>,
        other: impl FnOnce(&mut Self) -> Result<Val>,
    ) -> Result<Val> {
        let inst = self.push_open(Op::If, &[cond]);
        let (a, x) = self.region(&[], |b, _| {
            let val = then(b)?;
            b.yields(inst, &val)?;
            Ok(val)
        })?;
        let (c, y) = self.region(&[], |b, _| {
            let val = other(b)?;
            b.yields(inst, &val)?;
            Ok(val)
        })?;
        self.own(inst, a);
        self.own(inst, c);
        match (x, y) {
            (Val::Never, Val::Never) => {
                self.end(Term::Unreachable);
                Ok(Val::Never)
            }
            _ => Ok(self.result_of(inst)),
        }
    }

    pub(super) fn if_expr(
        &mut self,
        at: At,
        cond: Node,
        then: Node,
        other: Option<Node>,
    ) -> Result<Val> {
        let c = get!(self.value(cond));
        // A known condition leaves one side, and the other need not even make sense: `if D == 3 { v[2] }`.
        if let Some(known) = self.constant(c).and_then(Imm::as_bool) {
            return match (known, other) {
                (true, _) => self.expr(then),
                (false, Some(other)) => self.expr(other),
                (false, None) => Ok(Val::Unit),
            };
        }
        self.at(at);
        self.branch(
            c,
            |b| b.expr(then),
            |b| match other {
                Some(other) => b.expr(other),
                None => Ok(Val::Unit),
            },
        )
    }

    pub(super) fn while_loop(
        &mut self,
        at: At,
        number: u32,
        cond: Node,
        body: Node,
    ) -> Result<Val> {
        self.endless(at, number, |b, label| {
            let c = get!(b.value(cond));
            b.at(at);
            if b.constant(c).and_then(Imm::as_bool) != Some(true) {
                let stay = |_: &mut Self| Ok(Val::Unit);
                b.branch(c, stay, |b| {
                    b.end(Term::Break(label, Values::new()));
                    Ok(Val::Never)
                })?;
            }
            b.expr(body)
        })
    }

    pub(super) fn endless_loop(&mut self, at: At, number: u32, body: Node) -> Result<Val> {
        self.endless(at, number, |b, _| b.expr(body))
    }

    fn endless(
        &mut self,
        at: At,
        number: u32,
        fill: impl FnOnce(&mut Self, Label) -> Result<Val>,
    ) -> Result<Val> {
        self.at(at);
        let label = self.f.fresh_label();
        let inst = self.push_open(Op::Loop(label), &[]);
        let target = LoopTarget {
            breaks: Exit { label, inst },
            continues: Next::Continue(label),
        };
        self.frame_mut().loops.insert(number, target);
        let (region, ()) = self.region(&[], |b, _| {
            if !matches!(fill(b, label)?, Val::Never) {
                b.end(Term::Continue(label, Values::new()));
            }
            Ok(())
        })?;
        self.own(inst, region);
        if self.is_left(inst) {
            Ok(self.result_of(inst))
        } else {
            self.end(Term::Unreachable);
            Ok(Val::Never)
        }
    }

    fn target(&self, at: At, number: u32) -> Result<LoopTarget> {
        let target = self.frame().loops.get(&number).copied();
        target.ok_or_else(|| self.fail(at, MISTAKE, "there is no loop around this"))
    }

    pub(super) fn break_expr(&mut self, at: At, number: u32, value: Option<Node>) -> Result<Val> {
        let exit = self.target(at, number)?.breaks;
        let val = match value {
            Some(value) => self.expr(value)?,
            None => Val::Unit,
        };
        self.at(at);
        self.leave(at, exit, val)
    }

    /// Leaves an instruction, with a value or without.
    pub(super) fn leave(&mut self, at: At, exit: Exit, val: Val) -> Result<Val> {
        match val {
            Val::Never => {}
            Val::Unit => self.end(Term::Break(exit.label, Values::new())),
            Val::Value(v) => {
                self.leaves_with(exit.inst, &val);
                self.end(Term::Break(exit.label, [v].into_iter().collect()));
            }
            Val::Array(_) => return Err(self.no_array(at)),
        }
        Ok(Val::Never)
    }

    pub(super) fn continue_expr(&mut self, at: At, number: u32) -> Result<Val> {
        let term = match self.target(at, number)?.continues {
            Next::Continue(label) => Term::Continue(label, Values::new()),
            Next::Break(label) => Term::Break(label, Values::new()),
        };
        self.at(at);
        self.end(term);
        Ok(Val::Never)
    }

    pub(super) fn return_expr(&mut self, at: At, value: Option<Node>) -> Result<Val> {
        let val = match value {
            Some(value) => self.expr(value)?,
            None => Val::Unit,
        };
        self.at(at);
        self.returns(at, val)
    }

    /// Leaves the function.
    pub(super) fn returns(&mut self, at: At, val: Val) -> Result<Val> {
        match self.frame().exit {
            Some(exit) => self.leave(at, exit, val),
            None => {
                match val {
                    Val::Never => {}
                    Val::Unit => self.end(Term::Return(Values::new())),
                    Val::Value(v) => self.end(Term::Return([v].into_iter().collect())),
                    Val::Array(_) => return Err(self.no_array(at)),
                }
                Ok(Val::Never)
            }
        }
    }
}
