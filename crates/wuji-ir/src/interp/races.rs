//! Detects races between writes of a parallel task. Iterations may update one element by atomics, and may
//! store equal values; a plain store with another write of a different value is a race, whose outcome depends
//! on the schedule. Passes must not introduce races.
//!
//! A wrong hint that iterations have different values makes passes introduce races, so it is always checked.

use super::error::{NOT_UNIQUE, RACE};
use super::launch::Launch;
use super::store::Relative;
use crate::Result;
use crate::entities::{Field, Inst, Tree};
use crate::module::Span;
use crate::types::Imm;
use rustc_hash::FxHashMap;

/// A scalar in memory.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Cell {
    Field(Field, Relative, usize),
    Tree(Tree, i64),
    /// Buffer and byte.
    Host(usize, i64),
}

#[derive(Debug, Default)]
pub(super) struct Races {
    /// The current iteration, in execution order.
    iteration: u64,
    writes: FxHashMap<Cell, Write>,
}

#[derive(Debug)]
struct Write {
    iteration: u64,
    /// The stored value, if the write was not atomic.
    plain: Option<Imm>,
}

impl Races {
    pub(super) fn next_iteration(&mut self) {
        self.iteration += 1;
    }

    /// Records a write; `false` if it races.
    fn note(&mut self, cell: Cell, plain: Option<Imm>) -> bool {
        let iteration = self.iteration;
        let Some(last) = self.writes.get_mut(&cell) else {
            self.writes.insert(cell, Write { iteration, plain });
            return true;
        };
        let fine = last.iteration == iteration || last.plain == plain;
        // A plain store of an iteration is remembered even if an atomic follows.
        last.plain = if last.iteration == iteration {
            plain.or(last.plain)
        } else {
            plain
        };
        last.iteration = iteration;
        fine
    }
}

impl Launch<'_, '_> {
    /// A parallel task begins.
    pub(super) fn watch(&mut self, serial: bool) {
        self.races = (self.machine.watch_races && !serial).then(Races::default);
    }

    pub(super) fn watch_next_iteration(&mut self) {
        if let Some(races) = &mut self.races {
            races.next_iteration();
        }
    }

    /// A write of the current iteration: a plain store of a value, or an atomic.
    pub(super) fn watch_write(
        &mut self,
        cell: impl FnOnce(&Self) -> Option<Cell>,
        plain: Option<Imm>,
        span: Span,
    ) -> Result<()> {
        if self.races.is_none() {
            return Ok(());
        }
        let Some(cell) = cell(self) else {
            return Ok(());
        };
        let fine = match &mut self.races {
            Some(races) => races.note(cell.clone(), plain),
            None => true,
        };
        if fine {
            Ok(())
        } else {
            let why = format!("iterations race for {cell:?}");
            Err(self.error(RACE, why, span))
        }
    }

    /// Checks a hint that the current iteration has a value that no other one has, and that it is below a number.
    ///
    /// In an inner loop the hint means nothing, because an iteration has several values.
    pub(super) fn check_unique(
        &mut self,
        inst: Inst,
        value: Imm,
        count: Option<u64>,
    ) -> Result<()> {
        let (Some(iteration), Some(value), true) = (
            self.scope.iteration,
            value.as_int(),
            self.is_in_body_of_iteration(),
        ) else {
            return Ok(());
        };
        let span = self.func().spans[inst];
        if let Some(count) = count
            && !(0..i128::from(count)).contains(&value)
        {
            let why = format!("{value} is not one of the {count} numbers of all iterations");
            return Err(self.error(NOT_UNIQUE, why, span));
        }
        let first = self.scope.unique.entry((inst, value)).or_insert(iteration);
        if *first == iteration {
            return Ok(());
        }
        let why = format!("{value} is not unique: iterations {first} and {iteration} have it");
        Err(self.error(NOT_UNIQUE, why, span))
    }
}
