//! Scratchpads in the shared memory of a GPU.
//!
//! A thread block processes one list entry at a time. Its threads fill the scratchpads, synchronize, run the
//! iterations, synchronize, and flush the sums.

use super::sorted::SortedSums;
use super::{
    Arrays, Block, MOST_SHARED_BYTES, Order, Pad, Use, behind, compare_assumptions, no_pad, planned,
};
use crate::analysis::cost::sums_pay;
use crate::nodes::words::divide;
use crate::passes::Cx;
use crate::remark::Decision;
use crate::rewrite::materialize;
use crate::rewrite::replace_uses;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Field, Region, Value};
use wuji_ir::module::*;
use wuji_ir::ops::*;

/// Scratchpads for fields with a cache hint, in blocks of so many threads.
pub(super) fn from_hints(
    m: &mut Env,
    f: &mut Function,
    cx: &mut Cx,
    fields: Vec<(Field, Option<Block>)>,
    threads: u32,
) -> Vec<Decision> {
    let (sm, mut bytes) = (cx.options.sm, 0);
    let (pads, mut decisions) = planned(m, f, cx, fields, |pad| {
        let with_it = bytes + pad.bytes(m);
        if with_it > MOST_SHARED_BYTES {
            return Some(format!(
                "scratchpads of a block would have more than {MOST_SHARED_BYTES} bytes"
            ));
        }
        bytes = with_it;
        None
    });
    let (sums, pads): (Vec<Pad>, Vec<Pad>) = pads
        .into_iter()
        .partition(|pad| pad.kind == Use::Scatter && !sums_pay(m, pad.field, sm));
    decisions.extend(sorted_sums(m, f, cx, &sums, (threads, pads.is_empty())));
    if !compare_assumptions(m, f, &pads, None) {
        let why = "the assumptions are not in one region".to_owned();
        decisions.extend(pads.iter().map(|pad| no_pad(m, pad.field, why.clone())));
        return decisions;
    }
    let mut all = Vec::new();
    if let Some(pad) = pads.iter().find(|pad| pad.kind == Use::Scatter) {
        separate_neighbours(m, f, pad.block.body);
    }
    for pad in pads {
        decisions.push(pad.decision(m, 0));
        let arrays = pad.arrays(m, f, true);
        pad.redirect_all(m, f, arrays);
        all.push((pad, arrays));
    }
    surround(m, f, &all);
    decisions
}

/// Sums of floats where shared memory cannot add them: by sorted iterations, if possible.
fn sorted_sums(
    m: &mut Env,
    f: &mut Function,
    cx: &mut Cx,
    sums: &[Pad],
    (threads, alone): (u32, bool),
) -> Vec<Decision> {
    if sums.is_empty() {
        return Vec::new();
    }
    let plan = if cx.options.deterministic {
        Err("their order would depend on the run".into())
    } else if !cx.uses("sorted_sums") {
        Err("it is switched off".into())
    } else if !alone {
        Err("other fields have scratchpads".into())
    } else {
        SortedSums::new(m, f, sums, threads)
    };
    match plan {
        Ok(plan) => {
            plan.apply(m, f, sums);
            let decision = |pad: &Pad| Decision::SortedSums {
                field: m.fields[pad.field].name.clone(),
                elements: pad.len().unwrap_or(1),
            };
            sums.iter().map(decision).collect()
        }
        Err(why) => {
            let why = format!(
                "sums of floats are faster in the field itself on this GPU, and are not sorted: {why}"
            );
            sums.iter()
                .map(|pad| no_pad(m, pad.field, why.clone()))
                .collect()
        }
    }
}

/// Neighbouring elements of an entry are close in space and would update the same nodes at the same time. So the
/// threads of a warp take elements that are far apart.
fn separate_neighbours(m: &mut Env, f: &mut Function, body: Region) {
    for inst in f.regions[body].insts.clone() {
        let data = &f.insts[inst];
        let Op::For(_, ForKind::Parallel) = data.op else {
            continue;
        };
        let Some(n) = f.constant(data.args[1]).and_then(|imm| imm.as_int()) else {
            continue;
        };
        if n <= i128::from(WARP) || n % i128::from(WARP) != 0 {
            continue;
        }
        let region = data.regions[0];
        let index = f.regions[region].params[0];
        let rest = std::mem::take(&mut f.regions[region].insts);
        let mut b = Builder::new(m, f);
        b.region = region;
        let (round, lane) = divide(&mut b, index, WARP.into());
        let apart = b.i64((n / i128::from(WARP)) as i64);
        let first = b.binary(BinOp::Mul, lane, apart);
        let permuted = b.binary(BinOp::Add, first, round);
        let built = std::mem::replace(&mut f.regions[region].insts, rest);
        replace_uses(f, index, permuted);
        f.regions[region].insts.splice(0..0, built);
    }
}

/// Fills all scratchpads at the start of a block, and flushes them at its end.
fn surround(m: &mut Env, f: &mut Function, pads: &[(Pad, Arrays)]) {
    let Some((first, _)) = pads.first() else {
        return;
    };
    let body = first.block.body;
    let shared = pads.iter().flat_map(|(pad, _)| &pad.shared);
    let needed = shared.flat_map(|s| s.terms.iter().map(|t| t.0));
    let at = behind(f, body, needed);
    let after = f.regions[body].insts.split_off(at);
    let span = first.touches.first().map(|t| f.spans[t.inst]);
    let term = f.regions[body].term.clone();
    let mut b = Builder::new(m, f);
    b.region = body;
    b.span = span.unwrap_or(Span::UNKNOWN);
    let mut bases = Vec::new();
    for (pad, arrays) in pads {
        let own: Vec<Value> = pad.shared.iter().map(|s| materialize(&mut b, s)).collect();
        pad.fill(&mut b, &own, *arrays, Order::Threads);
        bases.push(own);
    }
    b.barrier();
    b.func.regions[body].insts.extend(after);
    // Do not refill them while other threads still read.
    b.barrier();
    for ((pad, arrays), own) in pads.iter().zip(&bases) {
        pad.flush(&mut b, own, *arrays, Order::Threads);
    }
    if pads.iter().any(|(pad, _)| pad.kind == Use::Scatter) {
        b.barrier();
    }
    b.end(term);
}

impl Pad {
    pub(super) fn bytes(&self, m: &Env) -> u64 {
        let own = m.structs.size_align(m.fields[self.field].elem).0;
        let flag = u64::from(self.kind == Use::Scatter);
        self.len().map_or(u64::MAX / 2, |len| len * (own + flag))
    }

    /// The threads of a block take elements in turn.
    pub(super) fn by_threads(
        &self,
        b: &mut Builder,
        mut visit: impl FnMut(&mut Builder, Value, &[Value]),
    ) {
        let len = self.len().unwrap_or(1);
        let (lo, hi, one) = (b.i64(0), b.i64(len as i64), b.i64(1));
        b.for_range(ForKind::Parallel, (lo, hi, one), &[], |b, _, index, _| {
            let mut offsets = Vec::new();
            let mut rest = index;
            for (extent, (lo, _)) in self.extents().iter().zip(&self.ranges).rev() {
                let (above, digit) = divide(b, rest, *extent);
                let lowest = b.i64(*lo);
                offsets.push(b.binary(BinOp::Add, digit, lowest));
                rest = above;
            }
            offsets.reverse();
            visit(b, index, &offsets);
            Values::new()
        });
    }
}
