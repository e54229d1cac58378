//! `a * b + c` rounded once, where the product goes into sums of its region only: then it is not computed at all.
//!
//! In fast math, what is added to `a * b + c * d` goes to the inner product: three operations become two.

use super::{Insertions, float_args, insert};
use crate::options::Math;
use crate::passes::Cx;
use crate::rewrite::Structure;
use rustc_hash::{FxHashMap, FxHashSet};
use wuji_ir::entities::{Inst, Value};
use wuji_ir::module::Function;
use wuji_ir::ops::{BinOp, Op, UnOp};

/// Fused sums in a row that a summand is passed down.
const MAX_CHAIN: usize = 8;

/// Fuses products into sums, except into those that accumulate: their order is open, and vectorizing them is worth more. Says
/// whether there was one.
pub(super) fn fuse(f: &mut Function, accumulations: &FxHashSet<Inst>, cx: &mut Cx) -> bool {
    let sums: Vec<Inst> = sums(f, accumulations);
    if sums.is_empty() {
        return false;
    }
    let mut fusing = Fusing {
        structure: Structure::of(f),
        uses: uses(f, &sums),
        reassociates: cx.options.math == Math::Fast,
        new: Insertions::default(),
        f,
    };
    let mut changed = false;
    for sum in sums {
        changed |= fusing.sum(sum, cx);
    }
    let new = fusing.new;
    insert(f, new);
    changed
}

/// Sums and differences that may be fused with a product, in program order.
fn sums(f: &Function, accumulations: &FxHashSet<Inst>) -> Vec<Inst> {
    let mut found = Vec::new();
    f.walk(|inst| {
        let args = float_args(f, inst, BinOp::Add).or_else(|| float_args(f, inst, BinOp::Sub));
        // A square of a product stays one.
        if args.is_some_and(|(a, b)| a != b) && !accumulations.contains(&inst) {
            found.push(inst);
        }
    });
    found
}

/// How often a value is used, and how often by one of the sums.
#[derive(Copy, Clone, Default)]
struct Uses {
    all: u32,
    by_sums: u32,
}

fn uses(f: &Function, sums: &[Inst]) -> FxHashMap<Value, Uses> {
    let sums: FxHashSet<Inst> = sums.iter().copied().collect();
    let mut found: FxHashMap<Value, Uses> = FxHashMap::default();
    for region in f.walk_regions() {
        for inst in &f.regions[region].insts {
            for arg in &f.insts[*inst].args {
                let uses = found.entry(*arg).or_default();
                uses.all += 1;
                uses.by_sums += u32::from(sums.contains(inst));
            }
        }
        for arg in f.regions[region].term.args() {
            found.entry(*arg).or_default().all += 1;
        }
    }
    found
}

struct Fusing<'a> {
    f: &'a mut Function,
    structure: Structure,
    uses: FxHashMap<Value, Uses>,
    reassociates: bool,
    new: Insertions,
}

impl Fusing<'_> {
    fn sum(&mut self, sum: Inst, cx: &mut Cx) -> bool {
        let (op, a, b) = {
            let data = &self.f.insts[sum];
            let Op::Binary(op) = data.op else {
                return false;
            };
            (op, data.args[0], data.args[1])
        };
        let minus = op == BinOp::Sub;
        if let Some((x, y)) = self.product(sum, b).filter(|_| cx.fuel()) {
            let x = if minus { self.negated(sum, x) } else { x };
            self.become_fused(sum, x, y, a);
            return true;
        }
        if let Some((x, y)) = self.product(sum, a).filter(|_| cx.fuel()) {
            let c = if minus { self.negated(sum, b) } else { b };
            self.become_fused(sum, x, y, c);
            return true;
        }
        if !self.reassociates {
            return false;
        }
        if let Some(chain) = self.chain(sum, a).filter(|_| cx.fuel()) {
            let c = if minus { self.negated(sum, b) } else { b };
            self.pass_down(sum, &chain, c);
            return true;
        }
        if minus {
            return false;
        }
        let Some(chain) = self.chain(sum, b).filter(|_| cx.fuel()) else {
            return false;
        };
        self.pass_down(sum, &chain, a);
        true
    }

    /// The factors of a product whose only uses are sums of its region, including `sum`.
    fn product(&self, sum: Inst, value: Value) -> Option<(Value, Value)> {
        let def = self.f.def(value)?;
        let uses = self.uses.get(&value)?;
        let alone = uses.all == uses.by_sums && self.is_beside(def, sum);
        alone.then(|| float_args(self.f, def, BinOp::Mul)).flatten()
    }

    /// Whether two instructions run equally often.
    fn is_beside(&self, a: Inst, b: Inst) -> bool {
        self.structure.region_of[a] == self.structure.region_of[b]
    }

    /// The fused sums from `value` down to a product, outermost first, where each is used by the next alone.
    fn chain(&self, sum: Inst, mut value: Value) -> Option<Vec<Inst>> {
        let mut found = Vec::new();
        while found.len() <= MAX_CHAIN {
            let def = self.f.def(value)?;
            let once = self.uses.get(&value).is_some_and(|u| u.all == 1);
            if !once || !self.is_beside(def, sum) {
                return None;
            }
            found.push(def);
            if float_args(self.f, def, BinOp::Mul).is_some() {
                return (found.len() > 1).then_some(found);
            }
            if self.f.insts[def].op != Op::Fma {
                return None;
            }
            value = self.f.insts[def].args[2];
        }
        None
    }

    /// Adds `c` to the product at the end of a chain.
    fn pass_down(&mut self, sum: Inst, chain: &[Inst], mut c: Value) {
        let (outer, inner) = (chain[0], &chain[1..]);
        for step in inner.iter().rev() {
            let (x, y) = (self.f.insts[*step].args[0], self.f.insts[*step].args[1]);
            c = self.before(sum, Op::Fma, &[x, y, c]);
            self.uses.insert(c, Uses { all: 1, by_sums: 0 });
        }
        let (x, y) = (self.f.insts[outer].args[0], self.f.insts[outer].args[1]);
        self.become_fused(sum, x, y, c);
    }

    fn become_fused(&mut self, sum: Inst, x: Value, y: Value, c: Value) {
        let data = &mut self.f.insts[sum];
        data.op = Op::Fma;
        data.args = [x, y, c].into_iter().collect();
    }

    fn negated(&mut self, sum: Inst, value: Value) -> Value {
        self.before(sum, Op::Unary(UnOp::Neg), &[value])
    }

    /// A new instruction in front of a sum.
    fn before(&mut self, sum: Inst, op: Op, args: &[Value]) -> Value {
        let ty = self.f.ty(args[0]);
        let span = self.f.spans[sum];
        let inst = self
            .f
            .add_inst(op, args.iter().copied().collect(), &[ty], span);
        self.structure.region_of[inst] = self.structure.region_of[sum];
        self.new.entry(sum).or_default().push(inst);
        self.f.result(inst)
    }
}
