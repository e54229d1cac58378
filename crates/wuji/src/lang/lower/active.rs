//! Loops over the active elements of a sparse field, inside of the control flow of a kernel.
//!
//! Only a parallel loop finds them. In the serial code of a kernel it is a task between others, wherever it stands; what
//! its iterations share is checked here, because only the launch knows which fields are sparse.

use super::binding::{Binding, Val};
use super::body::Body;
use super::mentions::{By, Change, Uses, leaves, root};
use crate::lang::ast::{At, Expr, For};
use wuji_ir::entities::{Field, Local};
use wuji_ir::module::TempData;
use wuji_ir::ops::LoopHints;
use wuji_ir::types::Type;
use wuji_ir::verify::is_numbered;
use wuji_ir::{Error, Result};

impl Body<'_, '_> {
    /// Whether elements of a field need not exist.
    pub(super) fn is_sparse(&self, field: Field) -> bool {
        let m = &self.cx.module;
        let data = &m.fields[field];
        !m.trees[data.tree].sparse_path(data.node).is_empty()
    }

    /// A loop over a sparse field in serial code.
    pub(super) fn active_for(&mut self, at: At, f: &'static For) -> Result<Val> {
        if leaves(&f.body, f.label) {
            return Err(self
                .fail(
                    at,
                    "W0252",
                    "a loop over a sparse field cannot be left in the middle: its iterations run at once",
                )
                .help("`continue` ends one iteration; a loop over a range runs in order"));
        }
        let uses = self.uses(f);
        for change in &uses.changes {
            self.check_change(change)?;
        }
        for change in uses.changes.iter().filter(|c| c.by == By::Operator) {
            match self.outer(change.var) {
                Some(Binding::Local(local, ty)) => {
                    self.check_read(change.var, &uses)?;
                    self.share(change.var, local, ty);
                }
                Some(Binding::Temp(..)) => self.check_read(change.var, &uses)?,
                Some(_) | None => {}
            }
        }
        // Values from before are not those of every round, and values from here are not known elsewhere.
        self.snapshots.clear();
        let outside = self.frame().vars.clone();
        let val = self.parallel_for(at, f, &f.domain, LoopHints::default())?;
        self.snapshots.clear();
        // A copy of the loop declares its own variables.
        for (var, known) in self.frame_mut().vars.iter_mut().zip(&outside) {
            if known.is_none() {
                *var = None;
            }
        }
        self.frame_mut().vars.truncate(outside.len());
        self.check_numbers(at)?;
        Ok(val)
    }

    /// Refuses what needs numbers of iterations: the last instruction is the loop.
    fn check_numbers(&self, at: At) -> Result<()> {
        let body = self.last().and_then(|i| self.f.insts[i].regions.first());
        if !body.is_some_and(|body| is_numbered(&self.f, *body)) {
            return Ok(());
        }
        Err(self
            .fail(
                at,
                "W0252",
                "a loop over a sparse field inside of control flow neither draws random numbers nor prints nor calls recursive functions",
            )
            .help("make the loop a kernel of its own, and launch it where it is now"))
    }

    /// What the body does with variables, also through closures that it calls.
    fn uses(&self, f: &'static For) -> Uses {
        let mut uses = Uses::default();
        uses.add(&f.body);
        let mut known = 0;
        while let Some(var) = uses.closures.get(known).copied() {
            known += 1;
            if let Some(Binding::Closure(closure)) = self.outer(var) {
                uses.add(closure.body);
            }
        }
        uses
    }

    fn outer(&self, var: u32) -> Option<Binding> {
        self.frame().vars.get(var as usize).cloned().flatten()
    }

    /// Refuses changes of variables around the loop that are no reductions.
    fn check_change(&self, change: &Change) -> Result<()> {
        let reduced = match (self.outer(change.var), change.by) {
            (Some(Binding::Local(_, ty) | Binding::Temp(_, ty)), By::Operator) => {
                !matches!(ty, Type::Struct(_))
            }
            (Some(Binding::Local(..) | Binding::Temp(..)), By::Assignment) => false,
            (Some(Binding::Array(_)), By::Operator | By::Assignment | By::Method) => false,
            (Some(Binding::Empty | Binding::Place(_)), By::Operator | By::Assignment) => false,
            (Some(_) | None, By::Operator | By::Assignment | By::Method) => true,
        };
        if reduced {
            Ok(())
        } else {
            Err(self.shared(change.at, change.var))
        }
    }

    /// Moves a variable to memory that all iterations reach, wherever it was accessed so far.
    fn share(&mut self, var: u32, local: Local, ty: Type) {
        let temp = self.cx.module.temps.push(TempData { ty });
        self.f.move_to_temp(local, temp);
        self.set(var, Binding::Temp(temp, ty));
    }

    /// Refuses reads of what the loop reduces into.
    fn check_read(&self, var: u32, uses: &Uses) -> Result<()> {
        let Some(at) = uses.reads.get(&var) else {
            return Ok(());
        };
        Err(self
            .fail(
                *at,
                "W0252",
                format!(
                    "`{}` is being summed up by this loop over a sparse field: its value is known after the loop",
                    self.name(var)
                ),
            )
            .help("take the value into a variable of its own before the loop"))
    }

    /// Refuses `&mut` of what every iteration has a copy of.
    pub(super) fn check_lent(&self, e: &'static Expr) -> Result<()> {
        let here = self.parallel && self.captured_in == self.frame_count();
        let captured = |var: u32| self.captured.iter().any(|(known, _)| *known == var);
        match root(e) {
            Some(var) if here && captured(var) => Err(self.shared(e.at, var)),
            Some(_) | None => Ok(()),
        }
    }

    fn shared(&self, at: At, var: u32) -> Error {
        let name = self.name(var);
        self.fail(
            at,
            "W0252",
            format!(
                "the iterations of a loop over a sparse field run at once, so they cannot change `{name}`, which all of them share"
            ),
        )
        .help("reduce with `+=`, `*=`, `&=`, `|=`, `^=`, `s = s.min(..)` or `s = s.max(..)`, or declare the variable inside of the loop")
    }
}
