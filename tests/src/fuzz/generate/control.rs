//! Branches, loops, blocks and their exits.

use super::types::any_int;
use super::{Generator, JumpTarget, JumpTargetKind};
use wuji_ir::entities::Value;
use wuji_ir::module::{Term, Values};
use wuji_ir::ops::*;
use wuji_ir::types::{I32, Imm, Scalar, Type};

fn values(list: impl IntoIterator<Item = Value>) -> Values {
    list.into_iter().collect()
}

impl Generator<'_> {
    fn all(&mut self, types: &[Type]) -> Values {
        values(
            types
                .iter()
                .map(|t| self.value(*t, 1))
                .collect::<Vec<Value>>(),
        )
    }

    fn some_types(&mut self, most: usize) -> Vec<Type> {
        (0..self.dice.below(most + 1))
            .map(|_| self.any_type())
            .collect()
    }

    /// Fills a region with statements and a terminator: an exit, or that of `normal`.
    fn fill(&mut self, count: usize, normal: impl FnOnce(&mut Self) -> Term) {
        let term = if !self.statements(count) {
            Term::Unreachable
        } else {
            let leave = if self.dice.chance(if self.body.loops > 0 { 22 } else { 10 }) {
                self.exit()
            } else {
                None
            };
            match leave {
                Some(term) => term,
                None => normal(self),
            }
        };
        self.b().end(term);
    }

    /// A random exit.
    fn exit(&mut self) -> Option<Term> {
        let ways = self.body.targets.len() + usize::from(self.body.may_return);
        if ways == 0 {
            return None;
        }
        let way = self.dice.below(ways);
        let Some(target) = self.body.targets.get(way).cloned() else {
            let results = self.body.f.results.clone();
            return Some(Term::Return(self.all(&results)));
        };
        let label = target.label;
        Some(match target.kind {
            JumpTargetKind::Block(results) => Term::Break(label, self.all(&results)),
            JumpTargetKind::Loop {
                counter,
                carried,
                results,
            } => {
                if self.dice.chance(50) {
                    Term::Break(label, self.all(&results))
                } else {
                    Term::Continue(label, self.next_turn(counter, &carried))
                }
            }
            JumpTargetKind::For(carried) => {
                if self.dice.chance(50) {
                    Term::Break(label, self.all(&carried))
                } else {
                    Term::Continue(label, self.all(&carried))
                }
            }
            JumpTargetKind::ForEach => Term::Continue(label, Values::new()),
        })
    }

    fn next_turn(&mut self, counter: Value, carried: &[Type]) -> Values {
        let one = self.b().int(Scalar::I32, 1);
        let next = self.b().binary(BinOp::Add, counter, one);
        let mut all = values([next]);
        all.extend(self.all(carried));
        all
    }

    /// `if condition { ... }` without results. `then` returns whether control reaches its end.
    pub(super) fn if_statement(&mut self, condition: Value, then: impl FnOnce(&mut Self) -> bool) {
        let inst = self.b().push_typed(Op::If, &[condition], &[]);
        let yes = self.region(&[], |g, _| {
            let term = if then(g) {
                Term::Yield(Values::new())
            } else {
                Term::Unreachable
            };
            g.b().end(term);
        });
        let no = self.region(&[], |g, _| g.b().end(Term::Yield(Values::new())));
        self.body.f.insts[inst].regions.extend([yes, no]);
    }

    /// An `if` with statements on both sides.
    pub(super) fn branch(&mut self) -> bool {
        let condition = self.condition(2);
        let types = self.some_types(2);
        let inst = self.b().push_typed(Op::If, &[condition], &types);
        for side in 0..2 {
            let count = if side == 1 && self.dice.chance(50) {
                0
            } else {
                self.dice.between(1, 3) as usize
            };
            let region = self.region(&[], |g, _| {
                g.fill(count, |g| Term::Yield(g.all(&types)));
            });
            self.body.f.insts[inst].regions.push(region);
        }
        let data = &self.body.f.insts[inst];
        let falls = data
            .regions
            .iter()
            .any(|r| matches!(self.body.f.regions[*r].term, Term::Yield(_)));
        let results = data.results.clone();
        self.body.visible.extend(results);
        falls
    }

    pub(super) fn block(&mut self) -> bool {
        let types = self.some_types(2);
        let label = self.body.f.fresh_label();
        let inst = self.b().push_typed(Op::Block(label), &[], &types);
        self.body.targets.push(JumpTarget {
            label,
            kind: JumpTargetKind::Block(types.clone()),
        });
        let count = self.dice.between(1, 4) as usize;
        let region = self.region(&[], |g, _| {
            g.fill(count, |g| Term::Yield(g.all(&types)));
        });
        self.body.targets.pop();
        self.body.f.insts[inst].regions.push(region);
        let results = self.body.f.insts[inst].results.clone();
        self.body.visible.extend(results);
        self.comes_out(inst)
    }

    /// Whether a block or loop is left by a `yield` or `break`.
    fn comes_out(&self, inst: wuji_ir::entities::Inst) -> bool {
        let f = &self.body.f;
        let label = f.insts[inst].op.label();
        let region = f.insts[inst].regions[0];
        if matches!(f.regions[region].term, Term::Yield(_)) {
            return true;
        }
        let mut work = vec![region];
        while let Some(r) = work.pop() {
            if matches!(f.regions[r].term, Term::Break(l, _) if Some(l) == label) {
                return true;
            }
            for i in &f.regions[r].insts {
                work.extend(&f.insts[*i].regions);
            }
        }
        false
    }

    /// A `loop` that ends at the latest by its counter.
    pub(super) fn counted_loop(&mut self) {
        if self.body.loops >= 2 {
            return;
        }
        let carried = self.some_types(2);
        let results = self.some_types(2);
        let start = self.b().int(Scalar::I32, 0);
        let mut args = vec![start];
        args.extend(self.all(&carried));
        let most = self.dice.between(0, 5);
        let label = self.body.f.fresh_label();
        let inst = self.b().push_typed(Op::Loop(label), &args, &results);
        let mut params = vec![I32];
        params.extend(&carried);
        self.body.loops += 1;
        let region = self.region(&params, |g, p| {
            let counter = p[0];
            g.body.indices.push((counter, 0, most));
            let most = g.b().int(Scalar::I32, i128::from(most));
            let more = g.b().compare(CmpOp::Lt, counter, most);
            let check = g.b().push_typed(Op::If, &[more], &[]);
            let on = g.region(&[], |g, _| g.b().end(Term::Yield(Values::new())));
            let stop = g.region(&[], |g, _| {
                let values = g.all(&results);
                g.b().end(Term::Break(label, values));
            });
            g.body.f.insts[check].regions.extend([on, stop]);
            g.body.targets.push(JumpTarget {
                label,
                kind: JumpTargetKind::Loop {
                    counter,
                    carried: carried.clone(),
                    results: results.clone(),
                },
            });
            let count = g.dice.between(1, 3) as usize;
            g.fill(count, |g| {
                let next = g.next_turn(counter, &carried);
                Term::Continue(label, next)
            });
            g.body.targets.pop();
            g.body.indices.pop();
        });
        self.body.loops -= 1;
        self.body.f.insts[inst].regions.push(region);
        let values = self.body.f.insts[inst].results.clone();
        self.body.visible.extend(values);
    }

    /// Bounds and step of a `for` with few iterations, and the range of its index.
    fn for_bounds(&mut self) -> ([Value; 3], i64, i64) {
        let s = any_int(self.dice);
        let (least, most) = s.int_range().unwrap_or((0, 0));
        let turns = i128::from(self.dice.between(0, 5));
        let down = s.is_signed_int() && self.dice.chance(30);
        let step = i128::from(*self.dice.pick(&[1, 1, 1, 1, 2, 3])) * if down { -1 } else { 1 };
        // Small numbers, or the end of the type's range, where an index could wrap.
        let (lo, hi) = if self.dice.chance(10) {
            if down {
                (least + turns, least)
            } else {
                (most - turns, most)
            }
        } else {
            let lo = i128::from(self.dice.between(-3, 5));
            (
                lo,
                lo + turns * step + i128::from(self.dice.below(2) as i64) * step.signum(),
            )
        };
        let (lo, hi) = (lo.clamp(least, most), hi.clamp(least, most));
        let zero = self.dice.chance(3);
        let step = if zero { 0 } else { step };
        let mut bound = self.b().imm(Imm::int(s, hi));
        let small = i128::from(i64::MIN) <= lo && lo < 100 && hi.abs() < 100;
        if small && self.dice.chance(50) {
            // A bound that is known only at run time, within the same range.
            let x = self.value(Type::Scalar(s), 1);
            bound = if down {
                self.b().binary(BinOp::Max, x, bound)
            } else {
                self.b().binary(BinOp::Min, x, bound)
            };
        }
        let mut b = self.b();
        let (first, step) = (b.imm(Imm::int(s, lo)), b.imm(Imm::int(s, step)));
        let range = |x: i128| x.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        ([first, bound, step], range(lo.min(hi)), range(lo.max(hi)))
    }

    pub(super) fn for_loop(&mut self) {
        if self.body.loops >= 2 {
            return;
        }
        let (bounds, lo, hi) = self.for_bounds();
        let carried = self.some_types(2);
        let mut args = bounds.to_vec();
        args.extend(self.all(&carried));
        let label = self.body.f.fresh_label();
        let op = Op::For(label, ForKind::Serial);
        let inst = self.b().push_typed(op, &args, &carried);
        let mut params = vec![self.ty(bounds[0])];
        params.extend(&carried);
        self.body.loops += 1;
        self.body.targets.push(JumpTarget {
            label,
            kind: JumpTargetKind::For(carried.clone()),
        });
        let region = self.region(&params, |g, p| {
            g.body.indices.push((p[0], lo, hi));
            let count = g.dice.between(1, 3) as usize;
            g.fill(count, |g| Term::Continue(label, g.all(&carried)));
            g.body.indices.pop();
        });
        self.body.targets.pop();
        self.body.loops -= 1;
        self.body.f.insts[inst].regions.push(region);
        let values = self.body.f.insts[inst].results.clone();
        self.body.visible.extend(values);
    }
}
