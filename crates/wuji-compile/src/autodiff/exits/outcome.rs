//! The ways in which control leaves a sequence of instructions, and how two of them join.

use rustc_hash::FxHashSet;
use wuji_ir::build::Builder;
use wuji_ir::entities::*;
use wuji_ir::module::{Function, Term, Values};
use wuji_ir::ops::{BinOp, Op, UnOp};
use wuji_ir::types::{BOOL, Type};

/// Where control goes.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Exit {
    /// To the next instruction.
    Next,
    Break(Label),
    Continue(Label),
    Return,
}

/// When control goes there.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Taken {
    Always,
    Never,
    If(Value),
    Unless(Value),
}

impl Taken {
    pub(super) fn not(self) -> Taken {
        match self {
            Taken::Always => Taken::Never,
            Taken::Never => Taken::Always,
            Taken::If(v) => Taken::Unless(v),
            Taken::Unless(v) => Taken::If(v),
        }
    }

    fn flag(self) -> Option<Value> {
        match self {
            Taken::Always | Taken::Never => None,
            Taken::If(v) | Taken::Unless(v) => Some(v),
        }
    }

    /// As a value at the end of the current region.
    pub(super) fn value(self, b: &mut Builder) -> Value {
        match self {
            Taken::Always => b.bool(true),
            Taken::Never => b.bool(false),
            Taken::If(v) => v,
            Taken::Unless(v) => b.unary(UnOp::Not, v),
        }
    }
}

#[derive(Clone, Debug)]
struct End {
    exit: Exit,
    values: Values,
    /// `None`: when no other one is taken.
    taken: Option<Taken>,
}

/// All ways out of a sequence of instructions, each with its values. There is none if control never leaves. All
/// but one of several say when they are taken.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    ends: Vec<End>,
}

impl Outcome {
    /// Control never leaves.
    pub(super) fn never() -> Outcome {
        Outcome::default()
    }

    pub(super) fn only(exit: Exit, values: Values) -> Outcome {
        Outcome {
            ends: vec![End {
                exit,
                values,
                taken: None,
            }],
        }
    }

    pub(super) fn has(&self, exit: Exit) -> bool {
        self.values(exit).is_some()
    }

    pub(super) fn is_only(&self, exit: Exit) -> bool {
        self.ends.len() == 1 && self.has(exit)
    }

    pub(super) fn is_never(&self) -> bool {
        self.ends.is_empty()
    }

    pub(super) fn values(&self, exit: Exit) -> Option<&Values> {
        let end = self.ends.iter().find(|e| e.exit == exit)?;
        Some(&end.values)
    }

    /// Replaces the values of an exit.
    pub(super) fn set_values(&mut self, exit: Exit, values: Values) {
        if let Some(end) = self.ends.iter_mut().find(|e| e.exit == exit) {
            end.values = values;
        }
    }

    pub(super) fn rename(mut self, from: Exit, to: Exit) -> Outcome {
        for end in &mut self.ends {
            if end.exit == from {
                end.exit = to;
            }
        }
        self
    }

    /// The outcome where one exit is known not to be taken.
    pub(super) fn without(mut self, exit: Exit) -> Outcome {
        self.ends.retain(|e| e.exit != exit);
        if self.ends.iter().all(|e| e.taken.is_some())
            && let Some(first) = self.ends.first_mut()
        {
            first.taken = None;
        }
        self
    }

    /// When an exit is taken; instructions for it go to the end of the current region.
    pub(super) fn taken(&self, b: &mut Builder, exit: Exit) -> Taken {
        let Some(end) = self.ends.iter().find(|e| e.exit == exit) else {
            return Taken::Never;
        };
        if let Some(taken) = end.taken {
            return taken;
        }
        let others = self.ends.iter().filter_map(|e| e.taken);
        let other = others.collect::<Vec<_>>().into_iter().reduce(|x, y| {
            let (x, y) = (x.value(b), y.value(b));
            Taken::If(b.binary(BinOp::Or, x, y))
        });
        other.map_or(Taken::Always, Taken::not)
    }

    /// Replaces every value and flag.
    pub(super) fn map(&mut self, mut to: impl FnMut(Value) -> Value) {
        for end in &mut self.ends {
            for v in &mut end.values {
                *v = to(*v);
            }
            end.taken = end.taken.map(|taken| match taken {
                Taken::Always | Taken::Never => taken,
                Taken::If(v) => Taken::If(to(v)),
                Taken::Unless(v) => Taken::Unless(to(v)),
            });
        }
    }
}

/// The values that a region defines itself, not counting those of regions inside it.
pub(super) fn defined_in(f: &Function, region: Region) -> FxHashSet<Value> {
    let data = &f.regions[region];
    let results = data.insts.iter().flat_map(|i| &f.insts[*i].results);
    data.params.iter().chain(results).copied().collect()
}

/// One side of an `if`.
pub(super) struct Side {
    pub(super) region: Region,
    pub(super) outcome: Outcome,
}

/// Ends the two sides of an `if` in `yield`, and appends it to the current region.
pub(super) fn join(b: &mut Builder, condition: Taken, then: Side, otherwise: Side) -> Outcome {
    let (condition, sides) = match condition {
        Taken::Unless(v) => (v, [otherwise, then]),
        Taken::If(v) => (v, [then, otherwise]),
        Taken::Always | Taken::Never => (condition.value(b), [then, otherwise]),
    };
    let inst = b
        .func
        .add_inst(Op::If, [condition].into_iter().collect(), &[], b.span);
    let inside = [0, 1].map(|k| defined_in(b.func, sides[k].region));
    let mut join = Join {
        b,
        inst,
        condition,
        inside,
        slots: Vec::new(),
        regions: [sides[0].region, sides[1].region],
    };
    let outcome = join.outcome(&sides[0].outcome, &sides[1].outcome);
    join.finish();
    outcome
}

struct Join<'a, 'b> {
    b: &'a mut Builder<'b>,
    inst: Inst,
    condition: Value,
    /// The values that each side defines.
    inside: [FxHashSet<Value>; 2],
    /// For each result, what each side yields; `None` is zero.
    slots: Vec<[Option<Value>; 2]>,
    regions: [Region; 2],
}

impl Join<'_, '_> {
    fn outcome(&mut self, then: &Outcome, otherwise: &Outcome) -> Outcome {
        let mut exits: Vec<Exit> = then.ends.iter().map(|e| e.exit).collect();
        let more = otherwise.ends.iter().map(|e| e.exit);
        exits.extend(more.filter(|e| !then.has(*e)));
        let rest = self.untested(&exits, then, otherwise);
        let mut joined = Outcome::never();
        for (k, exit) in exits.iter().enumerate() {
            let taken = (k != rest).then(|| self.taken(*exit, then, otherwise));
            joined.ends.push(End {
                exit: *exit,
                values: self.values(then.values(*exit), otherwise.values(*exit)),
                taken,
            });
        }
        joined
    }

    /// The exit that has no flag: one whose flag would be a new result.
    fn untested(&self, exits: &[Exit], then: &Outcome, otherwise: &Outcome) -> usize {
        let is_free = |exit: &Exit| {
            let (a, b) = (then.has(*exit), otherwise.has(*exit));
            a != b && (if a { then } else { otherwise }).is_only(*exit)
        };
        let costly = exits.iter().rposition(|e| !is_free(e));
        costly.unwrap_or(exits.len().saturating_sub(1))
    }

    fn values(&mut self, a: Option<&Values>, b: Option<&Values>) -> Values {
        let n = a.or(b).map_or(0, |v| v.len());
        (0..n)
            .map(|k| self.value([a.map(|v| v[k]), b.map(|v| v[k])]))
            .collect()
    }

    /// The value that two sides give, where a side without one does not matter.
    fn value(&mut self, sides: [Option<Value>; 2]) -> Value {
        let outside = |k: usize| {
            sides[k].is_none_or(|v| !self.inside[0].contains(&v) && !self.inside[1].contains(&v))
        };
        if let Some(v) = sides[0].or(sides[1])
            && outside(0)
            && outside(1)
            && sides.iter().flatten().all(|other| *other == v)
        {
            return v;
        }
        let same = self
            .slots
            .iter()
            .position(|slot| *slot == sides)
            .map(|k| self.b.func.insts[self.inst].results[k]);
        same.unwrap_or_else(|| {
            let ty = sides[0].or(sides[1]).map_or(BOOL, |v| self.b.func.ty(v));
            self.slot(ty, sides)
        })
    }

    fn slot(&mut self, ty: Type, sides: [Option<Value>; 2]) -> Value {
        self.slots.push(sides);
        self.b.func.add_result(self.inst, ty)
    }

    fn taken(&mut self, exit: Exit, then: &Outcome, otherwise: &Outcome) -> Taken {
        let mut sides = [
            self.on_side(0, |b| then.taken(b, exit)),
            self.on_side(1, |b| otherwise.taken(b, exit)),
        ];
        // A side that control never leaves does not matter.
        let stays = [then.is_never(), otherwise.is_never()];
        for k in 0..2 {
            let flag = sides[1 - k].flag();
            if stays[k] && flag.is_none_or(|v| !self.is_inside(v)) {
                sides[k] = sides[1 - k];
            }
        }
        match sides {
            [Taken::Always, Taken::Never] => return Taken::If(self.condition),
            [Taken::Never, Taken::Always] => return Taken::Unless(self.condition),
            [a, b] if a == b && a.flag().is_none_or(|v| !self.is_inside(v)) => return a,
            _ => {}
        }
        // Flags that both say when it is not taken are yielded as they are.
        let inverse = sides
            .iter()
            .all(|s| matches!(s, Taken::Unless(_) | Taken::Always | Taken::Never));
        let values = [0, 1].map(|k| {
            let side = if inverse { sides[k].not() } else { sides[k] };
            (!stays[k]).then(|| self.on_side(k, |b| side.value(b)))
        });
        let flag = self.value(values);
        if inverse {
            Taken::Unless(flag)
        } else {
            Taken::If(flag)
        }
    }

    fn is_inside(&self, v: Value) -> bool {
        self.inside.iter().any(|side| side.contains(&v))
    }

    /// Runs `make` at the end of one side.
    fn on_side<T>(&mut self, side: usize, make: impl FnOnce(&mut Builder) -> T) -> T {
        let outer = std::mem::replace(&mut self.b.region, self.regions[side]);
        let before = self.b.func.regions[self.regions[side]].insts.len();
        let made = make(self.b);
        let new = &self.b.func.regions[self.regions[side]].insts[before..];
        let results = new.iter().flat_map(|i| &self.b.func.insts[*i].results);
        self.inside[side].extend(results);
        self.b.region = outer;
        made
    }

    fn finish(mut self) {
        for k in 0..2 {
            let region = self.regions[k];
            let slots = self.slots.clone();
            let results = self.b.func.insts[self.inst].results.clone();
            let yields: Values = slots
                .iter()
                .zip(results)
                .map(|(slot, result)| {
                    let ty = self.b.func.ty(result);
                    slot[k].unwrap_or_else(|| self.on_side(k, |b| b.zero(ty)))
                })
                .collect();
            self.b.func.regions[region].term = Term::Yield(yields);
        }
        self.b.func.insts[self.inst].regions.extend(self.regions);
        self.b.func.regions[self.b.region].insts.push(self.inst);
    }
}
