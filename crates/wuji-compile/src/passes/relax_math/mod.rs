//! Does what the math mode allows beyond rounding every operation as written.
//!
//! A product that goes into sums is fused into each of them ([`fuse`]); in fast math, divisions by one number share its
//! reciprocal ([`reciprocals`]). LLVM could do both, but only in the best tier. This pass runs before tiers part, so all
//! tiers of a kernel round alike. On a GPU there is one tier, and LLVM decides.

mod fuse;
mod reciprocals;

use crate::analysis::accumulators::accumulations;
use crate::options::{Math, Target};
use crate::passes::Cx;
use crate::rewrite::sweep;
use rustc_hash::FxHashMap;
use wuji_ir::Result;
use wuji_ir::entities::{Inst, Value};
use wuji_ir::module::{Function, Module};
use wuji_ir::ops::{BinOp, Op};
use wuji_ir::types::{Scalar, Type};

/// The pass; the [module](self) describes it.
pub fn relax_math(m: &mut Module, cx: &mut Cx) -> Result<()> {
    let (math, target) = (cx.options.math, cx.options.target);
    if math == Math::Strict || target != Target::Cpu {
        return Ok(());
    }
    for f in m.funcs.values_mut() {
        if f.traits.precise {
            continue;
        }
        if math == Math::Fast {
            reciprocals::share(f, cx);
        }
        if cx.options.fma && fuse::fuse(f, &accumulations(f), cx) {
            sweep(f);
        }
    }
    Ok(())
}

/// New instructions, by the instruction that they come before.
type Insertions = FxHashMap<Inst, Vec<Inst>>;

/// Puts new instructions in front of others.
fn insert(f: &mut Function, mut new: Insertions) {
    if new.is_empty() {
        return;
    }
    for region in f.walk_regions() {
        let old = std::mem::take(&mut f.regions[region].insts);
        let mut all = Vec::with_capacity(old.len());
        for inst in old {
            all.extend(new.remove(&inst).into_iter().flatten());
            all.push(inst);
        }
        f.regions[region].insts = all;
    }
}

/// The arguments of a binary operation on `f32` or `f64`. `f16` has no fused instruction on most processors.
fn float_args(f: &Function, inst: Inst, op: BinOp) -> Option<(Value, Value)> {
    let data = &f.insts[inst];
    let wide = |v: Value| {
        let (Type::Scalar(s) | Type::Vector(s, _)) = f.ty(v) else {
            return false;
        };
        matches!(s, Scalar::F32 | Scalar::F64)
    };
    (data.op == Op::Binary(op) && wide(data.args[0])).then(|| (data.args[0], data.args[1]))
}
