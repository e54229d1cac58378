//! Values that a loop carries only to add to them.

use rustc_hash::FxHashMap;
use wuji_ir::entities::{Inst, Region, Value};
use wuji_ir::module::{Function, Term};
use wuji_ir::ops::{AtomicOp, BinOp, ControlOp, ForKind, Op};
use wuji_ir::types::BOOL;

/// A carried value to which every iteration applies one operation that commutes.
pub(crate) struct Sum {
    /// Its number among the carried values.
    pub(crate) number: usize,
    pub(crate) op: AtomicOp,
    pub(crate) updates: Vec<Update>,
    /// Loops inside that carry it, too, with its number there.
    pub(crate) through: Vec<(Inst, usize)>,
}

/// One update of a sum.
pub(crate) struct Update {
    /// The instruction behind which everything is known that it depends on.
    pub(crate) after: Inst,
    pub(crate) operand: Value,
    /// Conditions that must have these values.
    pub(crate) conditions: Vec<(Value, bool)>,
}

/// How often each value is used.
pub(crate) struct UseCounts(FxHashMap<Value, u32>);

impl UseCounts {
    pub(crate) fn of(f: &Function) -> UseCounts {
        let mut counts = FxHashMap::default();
        let mut count = |v: &Value| *counts.entry(*v).or_default() += 1;
        for r in f.walk_regions() {
            for inst in &f.regions[r].insts {
                f.insts[*inst].args.iter().for_each(&mut count);
            }
            f.regions[r].term.args().iter().for_each(&mut count);
        }
        UseCounts(counts)
    }

    fn get(&self, v: Value) -> u32 {
        self.0.get(&v).copied().unwrap_or(0)
    }
}

/// The sums of a loop; `None` if it carries anything else.
pub(crate) fn sums(f: &Function, uses: &UseCounts, inst: Inst) -> Option<Vec<Sum>> {
    let data = &f.insts[inst];
    let body = data.regions[0];
    let carried = data.args.len() - 3;
    (0..carried)
        .map(|number| Sum::of(f, uses, (inst, body), number))
        .collect()
}

impl Sum {
    fn of(
        f: &Function,
        uses: &UseCounts,
        (inst, body): (Inst, Region),
        number: usize,
    ) -> Option<Sum> {
        let carried = f.regions[body].params[number + 1];
        let mut chain = Chain {
            f,
            uses,
            carried,
            op: None,
            updates: Vec::new(),
            through: Vec::new(),
            select: None,
            conditions: Vec::new(),
            passed: 0,
            earlier: FxHashMap::default(),
        };
        chain.follow_rounds((inst, body), number)?;
        Some(Sum {
            number,
            op: chain.op.unwrap_or(AtomicOp::Add),
            updates: chain.updates,
            through: chain.through,
        })
    }
}

/// Follows a carried value backwards through the updates.
struct Chain<'a> {
    f: &'a Function,
    uses: &'a UseCounts,
    carried: Value,
    op: Option<AtomicOp>,
    updates: Vec<Update>,
    through: Vec<(Inst, usize)>,
    /// The outermost `select` around the current value, and the conditions under which it counts.
    select: Option<Inst>,
    conditions: Vec<(Value, bool)>,
    /// Uses of the carried value that were found.
    passed: u32,
    /// The sums so far that a value is computed from on every path, latest first.
    earlier: FxHashMap<Value, Vec<Value>>,
}

impl Chain<'_> {
    /// Follows what the iterations of a loop carry on.
    fn follow_rounds(&mut self, (inst, body): (Inst, Region), number: usize) -> Option<()> {
        let f = self.f;
        let label = f.insts[inst].op.label()?;
        let jumps = |r: &Region| match &f.regions[*r].term {
            Term::Continue(l, _) | Term::Break(l, _) => *l == label,
            Term::Yield(_) | Term::Return(_) | Term::Unreachable => false,
        };
        let ends: Vec<Region> = f.regions_in(body).into_iter().filter(jumps).collect();
        for end in &ends {
            let Term::Continue(_, values) = &f.regions[*end].term else {
                return None;
            };
            let known = self.updates.len();
            self.follow(values[number])?;
            // No other iteration may end between an update and the end that it is for: it would be lost there.
            let own = &self.updates[known..];
            if ends.len() > 1
                && !own
                    .iter()
                    .all(|u| comes_last(f, (body, &ends), *end, u.after))
            {
                return None;
            }
        }
        // Every use of the value hands it on.
        (self.passed == self.uses.get(self.carried)).then_some(())
    }

    /// Follows a sum through a loop inside.
    fn follow_loop(&mut self, inst: Inst, number: usize) -> Option<()> {
        let data = &self.f.insts[inst];
        let body = data.regions[0];
        let own = self.f.regions[body].params[number + 1];
        let around = (
            std::mem::replace(&mut self.carried, own),
            std::mem::take(&mut self.passed),
        );
        self.follow_rounds((inst, body), number)?;
        (self.carried, self.passed) = around;
        self.through.push((inst, number));
        self.follow(data.args[3 + number])
    }

    fn follow(&mut self, v: Value) -> Option<()> {
        if v == self.carried {
            self.passed += 1;
            return Some(());
        }
        // Nothing else may see the sum so far.
        if self.uses.get(v) != 1 {
            return None;
        }
        self.follow_definition(v)
    }

    fn follow_definition(&mut self, v: Value) -> Option<()> {
        let inst = self.f.def(v)?;
        let data = &self.f.insts[inst];
        if let Op::Binary(op) = data.op {
            return self.follow_update(inst, atomic(op)?);
        }
        if data.op == Op::Select {
            return self.follow_select(inst);
        }
        // The conditions of a `select` behind it are not known inside.
        if self.select.is_some() {
            return None;
        }
        let number = data.results.iter().position(|r| *r == v)?;
        match data.op.control()? {
            ControlOp::For(_, ForKind::Serial) => self.follow_loop(inst, number),
            ControlOp::If => self.follow_branches(inst, number),
            ControlOp::For(_, ForKind::Parallel | ForKind::Boundary)
            | ControlOp::Loop(_)
            | ControlOp::Block(_)
            | ControlOp::ForEach(..) => None,
        }
    }

    fn follow_update(&mut self, inst: Inst, op: AtomicOp) -> Option<()> {
        if self.op.is_some_and(|other| other != op) {
            return None;
        }
        self.op = Some(op);
        let args = &self.f.insts[inst].args;
        let sides = [(args[0], args[1]), (args[1], args[0])];
        let (sum, operand) = sides.into_iter().find(|(sum, _)| self.leads_here(*sum))?;
        self.updates.push(Update {
            after: self.select.unwrap_or(inst),
            operand,
            conditions: self.conditions.clone(),
        });
        self.follow(sum)
    }

    fn follow_select(&mut self, inst: Inst) -> Option<()> {
        let args = &self.f.insts[inst].args;
        if self.f.ty(args[0]) != BOOL {
            return None;
        }
        let start = self.common(&[args[1], args[2]]).into_iter().next()?;
        self.follow_from(start, |chain| {
            let around = chain.select;
            chain.select = around.or(Some(inst));
            for (holds, side) in [(true, args[1]), (false, args[2])] {
                chain.conditions.push((args[0], holds));
                chain.follow(side)?;
                chain.conditions.pop();
            }
            chain.select = around;
            Some(())
        })
    }

    fn follow_branches(&mut self, inst: Inst, number: usize) -> Option<()> {
        let f = self.f;
        let ends = yields(f, inst, number);
        let inside = |v: &Value| {
            let mut regions = f.insts[inst].regions.iter();
            f.def(*v)
                .is_some_and(|d| regions.any(|r| f.insts_in(*r).any(|i| i == d)))
        };
        let start = self.common(&ends).into_iter().find(|v| !inside(v))?;
        self.follow_from(start, |chain| chain.follow_regions(inst, number))
    }

    /// Follows alternatives that all start from one sum, and then that sum.
    fn follow_from(
        &mut self,
        start: Value,
        alternatives: impl FnOnce(&mut Self) -> Option<()>,
    ) -> Option<()> {
        if start == self.carried {
            return alternatives(self);
        }
        let around = (
            std::mem::replace(&mut self.carried, start),
            std::mem::take(&mut self.passed),
        );
        alternatives(self)?;
        let all = self.passed == self.uses.get(start);
        (self.carried, self.passed) = around;
        if all {
            self.follow_definition(start)
        } else {
            None
        }
    }

    /// The sums so far that all of several values are computed from, latest first.
    fn common(&mut self, values: &[Value]) -> Vec<Value> {
        let mut lists = values.iter().map(|v| self.history(*v));
        let Some(mut first) = lists.next() else {
            return Vec::new();
        };
        for list in lists {
            first.retain(|v| list.contains(v));
        }
        first
    }

    /// The value, and the sums so far that it is computed from on every path, latest first.
    fn history(&mut self, v: Value) -> Vec<Value> {
        if let Some(known) = self.earlier.get(&v) {
            return known.clone();
        }
        let mut all = vec![v];
        if v != self.carried
            && let Some(inst) = self.f.def(v)
        {
            all.extend(self.history_of(inst, v));
        }
        self.earlier.insert(v, all.clone());
        all
    }

    fn history_of(&mut self, inst: Inst, v: Value) -> Vec<Value> {
        let data = &self.f.insts[inst];
        if let Op::Binary(_) = data.op {
            let before = data.args.iter().find(|a| self.leads_here(**a));
            return before.map_or_else(Vec::new, |a| self.history(*a));
        }
        if data.op == Op::Select {
            return self.common(&[data.args[1], data.args[2]]);
        }
        let Some(number) = data.results.iter().position(|r| *r == v) else {
            return Vec::new();
        };
        match data.op.control() {
            Some(ControlOp::For(..)) => self.history(data.args[3 + number]),
            Some(ControlOp::If) => {
                let ends = yields(self.f, inst, number);
                self.common(&ends)
            }
            Some(ControlOp::Loop(_) | ControlOp::Block(_) | ControlOp::ForEach(..)) | None => {
                Vec::new()
            }
        }
    }

    fn follow_regions(&mut self, inst: Inst, number: usize) -> Option<()> {
        for r in &self.f.insts[inst].regions {
            match &self.f.regions[*r].term {
                Term::Yield(values) => {
                    let known = self.updates.len();
                    self.follow(values[number])?;
                    // An update before the branch would count in both.
                    let inside = |u: &Update| self.f.insts_in(*r).any(|i| i == u.after);
                    if !self.updates[known..].iter().all(inside) {
                        return None;
                    }
                }
                // What continues is followed by itself.
                Term::Unreachable | Term::Continue(..) => {}
                Term::Break(..) | Term::Return(_) => return None,
            }
        }
        Some(())
    }

    /// Whether a value is the sum so far.
    fn leads_here(&self, v: Value) -> bool {
        if v == self.carried {
            return true;
        }
        let Some(inst) = self.f.def(v) else {
            return false;
        };
        let data = &self.f.insts[inst];
        if let Op::Binary(op) = data.op {
            return atomic(op).is_some() && data.args.iter().any(|a| self.leads_here(*a));
        }
        if data.op == Op::Select {
            return data.args[1..].iter().any(|a| self.leads_here(*a));
        }
        let Some(number) = data.results.iter().position(|r| *r == v) else {
            return false;
        };
        match data.op.control() {
            Some(ControlOp::For(..)) => self.leads_here(data.args[3 + number]),
            Some(ControlOp::If) => data.regions.iter().any(|r| match &self.f.regions[*r].term {
                Term::Yield(values) => self.leads_here(values[number]),
                Term::Break(..) | Term::Continue(..) | Term::Return(_) | Term::Unreachable => false,
            }),
            Some(ControlOp::Loop(_) | ControlOp::Block(_) | ControlOp::ForEach(..)) | None => false,
        }
    }
}

/// What the branches of an `if` yield as one of its results.
fn yields(f: &Function, inst: Inst, number: usize) -> Vec<Value> {
    let ends = f.insts[inst].regions.iter();
    ends.filter_map(|r| match &f.regions[*r].term {
        Term::Yield(values) => Some(values[number]),
        Term::Break(..) | Term::Continue(..) | Term::Return(_) | Term::Unreachable => None,
    })
    .collect()
}

/// Whether all other ends of an iteration are before an instruction in the program, and none is in a loop.
fn comes_last(f: &Function, (body, ends): (Region, &[Region]), own: Region, update: Inst) -> bool {
    let mut passed = Vec::new();
    let found = look_for(f, body, update, &mut passed);
    let others = ends.iter().filter(|end| **end != own);
    found && others.into_iter().all(|end| passed.contains(end))
}

/// Collects the regions that end before an instruction, those of loops left out. Whether it is there.
fn look_for(f: &Function, region: Region, inst: Inst, passed: &mut Vec<Region>) -> bool {
    for i in &f.regions[region].insts {
        if *i == inst {
            return true;
        }
        let data = &f.insts[*i];
        let before = passed.len();
        let found = data.regions.iter().any(|r| look_for(f, *r, inst, passed));
        if data.op.label().is_some() {
            // An earlier round of a loop may come after a later instruction.
            passed.truncate(before);
        }
        if found {
            return true;
        }
    }
    passed.push(region);
    false
}

/// The atomic operation with the same meaning, if it commutes.
fn atomic(op: BinOp) -> Option<AtomicOp> {
    let pairs = [
        (BinOp::Add, AtomicOp::Add),
        (BinOp::Mul, AtomicOp::Mul),
        (BinOp::Min, AtomicOp::Min),
        (BinOp::Max, AtomicOp::Max),
        (BinOp::And, AtomicOp::And),
        (BinOp::Or, AtomicOp::Or),
        (BinOp::Xor, AtomicOp::Xor),
    ];
    pairs.iter().find(|(b, _)| *b == op).map(|(_, a)| *a)
}
