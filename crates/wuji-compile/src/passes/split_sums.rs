//! On a GPU: the threads of a warp share the long sums of a loop that has too few iterations to occupy the device.
//!
//! An iteration is run by several lanes. Each of them takes every so many terms of the sum, starting with its own; then
//! they add up what they have, and the first lane goes on.

use crate::analysis::sums::{Sum, UseCounts, sums};
use crate::options::{Math, Target};
use crate::passes::Cx;
use crate::rewrite::{Structure, Substitution};
use wuji_ir::Result;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Inst, Region, Value};
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{I32, Imm, Scalar, Type};

/// Threads that occupy a large GPU.
const THREADS: i128 = 1 << 17;
/// Shorter sums are not worth the exchange.
const FEWEST_TERMS: i128 = 512;
/// Threads per block.
const BLOCK: u32 = 128;

/// The pass; the [module](self) describes it.
pub fn split_sums(m: &mut Module, cx: &mut Cx) -> Result<()> {
    let Some(kernel) = m.kernel else {
        return Ok(());
    };
    if cx.options.target != Target::Cuda {
        return Ok(());
    }
    let reassociates = cx.options.math == Math::Fast;
    let mut plans = plans(&m.env, &m.funcs[kernel], reassociates);
    plans.retain(|_| cx.fuel());
    for plan in plans {
        plan.apply(&mut m.env, &mut m.funcs[kernel]);
    }
    Ok(())
}

/// A loop whose sums are split.
struct SplitLoop {
    foreach: Inst,
    /// The coordinates of its iterations.
    range: (i128, i128),
    inner: Inst,
    sums: Vec<Sum>,
    lanes: i128,
}

fn plans(env: &Env, f: &Function, reassociates: bool) -> Vec<SplitLoop> {
    let loops: Vec<(Inst, (i128, i128))> = (f.regions[f.entry].insts.iter())
        .filter_map(|i| Some((*i, few_iterations(env, f, *i)?)))
        .collect();
    if loops.is_empty() {
        return Vec::new();
    }
    let (structure, uses) = (Structure::of(f), UseCounts::of(f));
    let plan = |(foreach, range): (Inst, (i128, i128))| {
        let body = f.insts[foreach].regions[0];
        let inner = (f.regions[body].insts.iter().copied())
            .find(|i| is_long_sum(f, &structure, (body, *i)))?;
        let sums = sums(f, &uses, inner)?;
        let count = u32::try_from(range.1 - range.0).ok()?;
        let lanes = (THREADS / i128::from(count)).min(WARP.into()) as u32;
        let exact = |s: &Sum| {
            let scalars = env.structs.flatten(f.ty(f.insts[inner].args[3 + s.number]));
            scalars.iter().all(|s| !s.is_float())
        };
        let legal = !sums.is_empty()
            && sums
                .iter()
                .all(|s| can_share(s.op) && s.through.is_empty() && (reassociates || exact(s)))
            && is_plain(f, body, inner);
        legal.then(|| SplitLoop {
            foreach,
            range,
            inner,
            sums,
            lanes: lanes.next_power_of_two().into(),
        })
    };
    loops.into_iter().filter_map(plan).collect()
}

/// The coordinates of a loop along one axis that leaves most of the device idle.
fn few_iterations(env: &Env, f: &Function, inst: Inst) -> Option<(i128, i128)> {
    let data = &f.insts[inst];
    let Op::ForEach(_, domain, hints) = &data.op else {
        return None;
    };
    let range = match domain {
        Domain::Range { rank: 1 } => {
            let number = |k: usize| f.constant(data.args[k]).and_then(Imm::as_int);
            (number(0)?, number(1)?)
        }
        Domain::Range { .. } => return None,
        Domain::Field(field) => {
            let data = &env.fields[*field];
            let tree = &env.trees[data.tree];
            let dense = tree.sparse_path(data.node).is_empty() && data.packing.is_none();
            let [(axis, from)] = data.axes[..] else {
                return None;
            };
            let extent = i128::from(tree.extent(data.node, axis));
            dense.then_some((from.into(), i128::from(from) + extent))?
        }
    };
    let count = range.1 - range.0;
    let plain = *hints == LoopHints::default();
    (plain && count > 0 && count <= THREADS / 2).then_some(range)
}

/// Whether an instruction of a loop's body adds up many terms, and does nothing else.
fn is_long_sum(f: &Function, structure: &Structure, (body, inst): (Region, Inst)) -> bool {
    let data = &f.insts[inst];
    let Op::For(label, ForKind::Serial) = data.op else {
        return false;
    };
    let number = |k: usize| f.constant(data.args[k]).and_then(Imm::as_int);
    let inside = data.regions[0];
    let long = match (number(0), number(1)) {
        (Some(lo), Some(hi)) => hi - lo >= FEWEST_TERMS,
        (Some(_), None) => structure.is_invariant(f, data.args[1], body),
        (None, _) => false,
    };
    let reads = |i: Inst| {
        let op = &f.insts[i].op;
        let quiet = matches!(op.effect(), Effect::Pure | Effect::Reads | Effect::Control);
        quiet && op.callee().is_none()
    };
    let ends = |r: &Region| match f.regions[*r].term {
        Term::Continue(l, _) | Term::Break(l, _) => {
            l == label && matches!(f.regions[*r].term, Term::Continue(..))
                || f.insts_in(inside).any(|i| f.insts[i].op.label() == Some(l))
        }
        Term::Yield(_) | Term::Unreachable => true,
        Term::Return(_) => false,
    };
    long && number(2) == Some(1)
        && f.insts_in(inside).all(reads)
        && f.regions_in(inside).iter().all(ends)
}

fn can_share(op: AtomicOp) -> bool {
    matches!(op, AtomicOp::Add | AtomicOp::Min | AtomicOp::Max)
}

/// Whether all lanes may run what is before the sum, and one of them what is behind it.
fn is_plain(f: &Function, body: Region, inner: Inst) -> bool {
    let insts = &f.regions[body].insts;
    let before = insts.iter().take_while(|i| **i != inner);
    let repeats = |i: &Inst| matches!(f.insts[*i].op.effect(), Effect::Pure | Effect::Reads);
    let numbered = |i: Inst| {
        let op = &f.insts[i].op;
        let local = |a: &Access| matches!(a.place, Place::Local(_) | Place::Temp(_));
        matches!(
            op,
            Op::Random | Op::Print(_) | Op::Assert(_) | Op::Call(_) | Op::Thread(_)
        ) || op.access().is_some_and(local)
    };
    before.into_iter().all(repeats)
        && !f.insts_in(body).any(numbered)
        && matches!(f.regions[body].term, Term::Continue(..))
}

impl SplitLoop {
    fn apply(&self, env: &mut Env, f: &mut Function) {
        let body = f.insts[self.foreach].regions[0];
        let lane = self.widen(env, f, body);
        let insts = std::mem::take(&mut f.regions[body].insts);
        let at = insts.iter().position(|i| *i == self.inner);
        let (before, behind) = insts.split_at(at.unwrap_or(0));
        f.regions[body].insts = before.to_vec();
        let mut b = Builder::new(env, f);
        b.region = body;
        let firsts = self.start_at(&mut b, lane);
        b.func.regions[body].insts.push(self.inner);
        let mut totals = Substitution::new();
        for (sum, first) in self.sums.iter().zip(firsts) {
            let own = b.func.insts[self.inner].results[sum.number];
            let total = self.add_up(&mut b, own, sum.op);
            let total = if sum.op == AtomicOp::Add {
                b.binary(BinOp::Add, first, total)
            } else {
                total
            };
            totals.set(own, total);
        }
        let zero = b.int(Scalar::I32, 0);
        let is_first = b.compare(CmpOp::Eq, lane, zero);
        let branch = b.push_typed(Op::If, &[is_first], &[]);
        let [rest, nothing] = [f.add_region(&[]), f.add_region(&[])];
        for region in [rest, nothing] {
            f.regions[region].term = Term::Yield(Values::new());
        }
        f.regions[rest].insts = behind[1..].to_vec();
        f.insts[branch].regions.extend([rest, nothing]);
        for region in f.regions_in(rest) {
            for inst in f.regions[region].insts.clone() {
                totals.apply_to_inst(f, inst);
            }
            totals.apply_to_term(f, region);
        }
    }

    /// Gives the loop a second dimension; returns its index.
    fn widen(&self, env: &mut Env, f: &mut Function, body: Region) -> Value {
        let index = f.ty(f.regions[body].params[0]);
        let scalar = index.as_scalar().unwrap_or(Scalar::I32);
        let aside = f.add_region(&[]);
        let mut b = Builder::new(env, f);
        b.region = aside;
        let (lo, hi) = (b.int(scalar, self.range.0), b.int(scalar, self.range.1));
        let (zero, lanes) = (b.int(Scalar::I32, 0), b.int(Scalar::I32, self.lanes));
        let bounds = std::mem::take(&mut f.regions[aside].insts);
        let entry = f.entry;
        let at = f.regions[entry]
            .insts
            .iter()
            .position(|i| *i == self.foreach);
        let at = at.unwrap_or(0);
        f.regions[entry].insts.splice(at..at, bounds);
        let data = &mut f.insts[self.foreach];
        data.args = [lo, hi, zero, lanes].into_iter().collect();
        if let Op::ForEach(_, domain, hints) = &mut data.op {
            *domain = Domain::Range { rank: 2 };
            hints.cooperative = true;
            hints.block_size = Some(BLOCK);
        }
        f.add_region_param(body, I32)
    }

    /// Each lane takes every so many terms; returns what the sums started with.
    fn start_at(&self, b: &mut Builder, lane: Value) -> Vec<Value> {
        let data = b.func.insts[self.inner].clone();
        let scalar = b.func.ty(data.args[0]).as_scalar().unwrap_or(Scalar::I32);
        let own = b.convert(lane, scalar);
        let lo = b.binary(BinOp::Add, data.args[0], own);
        let step = b.int(scalar, self.lanes);
        b.func.insts[self.inner].args[0] = lo;
        b.func.insts[self.inner].args[2] = step;
        let mut firsts = Vec::new();
        for sum in &self.sums {
            let first = data.args[3 + sum.number];
            firsts.push(first);
            if sum.op == AtomicOp::Add {
                let zero = b.zero(b.func.ty(first));
                b.func.insts[self.inner].args[3 + sum.number] = zero;
            }
        }
        firsts
    }

    /// The sum of a value over the lanes of an iteration.
    fn add_up(&self, b: &mut Builder, own: Value, op: AtomicOp) -> Value {
        let combine = if op == AtomicOp::Min {
            BinOp::Min
        } else if op == AtomicOp::Max {
            BinOp::Max
        } else {
            BinOp::Add
        };
        let ty = b.func.ty(own);
        let mut total = own;
        let mut distance = self.lanes / 2;
        while distance > 0 {
            let by = b.int(Scalar::I32, distance);
            let other = exchange(b, total, ty, by);
            total = b.binary(combine, total, other);
            distance /= 2;
        }
        total
    }
}

/// A value of another lane, component by component.
fn exchange(b: &mut Builder, v: Value, ty: Type, by: Value) -> Value {
    let shuffle = Op::Thread(ThreadOp::Shuffle(Shuffle::Xor));
    if let Type::Scalar(_) = ty {
        return b.value(shuffle, &[v, by]);
    }
    let parts: Vec<Value> = (0..b.env.structs.arity(ty))
        .map(|k| {
            let part = b.value(Op::Extract(k), &[v]);
            b.value(shuffle.clone(), &[part, by])
        })
        .collect();
    b.value(Op::Compose(ty), &parts)
}
