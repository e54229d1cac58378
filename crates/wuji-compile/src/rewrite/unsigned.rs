//! Rewrites parallel loops over `u64` to count from 0 in `i64`, the index type of tasks.

use smallvec::smallvec;
use wuji_ir::entities::{Inst, Region, Value};
use wuji_ir::module::{Function, InstData, Span, ValueDef, Values};
use wuji_ir::ops::{BinOp, CmpOp, Domain, Op};
use wuji_ir::types::{BOOL, I64, Imm, Scalar, Type, U64};

/// Rewrites every `foreach` that runs along `u64` bounds which are not constants
/// within `i64`: the index becomes `lo + k` for `k` in `0..hi - lo`. There are fewer than 2^62 points, so
/// `k` always fits.
pub fn count_unsigned(f: &mut Function) {
    for region in f.walk_regions() {
        count_in(f, region);
    }
}

fn count_in(f: &mut Function, region: Region) {
    let mut out = Vec::new();
    for inst in std::mem::take(&mut f.regions[region].insts) {
        if matches!(f.insts[inst].op, Op::ForEach(_, Domain::Range { .. }, _)) {
            for axis in 0..f.insts[inst].args.len() / 2 {
                let (lo, hi) = (
                    f.insts[inst].args[2 * axis],
                    f.insts[inst].args[2 * axis + 1],
                );
                if f.ty(lo) == U64 && !(is_small(f, lo) && is_small(f, hi)) {
                    count_axis(f, inst, axis, lo, hi, &mut out);
                }
            }
        }
        out.push(inst);
    }
    f.regions[region].insts = out;
}

/// A constant that `i64` holds, or the extent of an array.
fn is_small(f: &Function, v: Value) -> bool {
    let constant = f.constant(v).and_then(Imm::as_int);
    let op = |v: Value| f.def(v).map(|def| &f.insts[def]);
    let extent = op(v).is_some_and(|convert| {
        let of = convert.args.first().and_then(|of| op(*of));
        let is_extent = |of: &InstData| matches!(of.op, Op::ArrayExtent(..));
        matches!(convert.op, Op::Convert(_)) && of.is_some_and(is_extent)
    });
    extent || constant.is_some_and(|c| i64::try_from(c).is_ok())
}

fn count_axis(
    f: &mut Function,
    foreach: Inst,
    axis: usize,
    lo: Value,
    hi: Value,
    before: &mut Vec<Inst>,
) {
    let span = f.spans[foreach];
    let mut push = |f: &mut Function, op: Op, args: Values, ty: Type| {
        let inst = f.add_inst(op, args, &[ty], span);
        before.push(inst);
        f.result(inst)
    };
    let nothing = push(f, Op::Const(Imm::zero(Scalar::U64)), smallvec![], U64);
    let some = push(f, Op::Compare(CmpOp::Lt), smallvec![lo, hi], BOOL);
    let distance = push(f, Op::Binary(BinOp::Sub), smallvec![hi, lo], U64);
    let points = push(f, Op::Select, smallvec![some, distance, nothing], U64);
    let points = push(f, Op::Convert(Scalar::I64), smallvec![points], I64);
    let zero = push(f, Op::Const(Imm::zero(Scalar::I64)), smallvec![], I64);
    f.insts[foreach].args[2 * axis] = zero;
    f.insts[foreach].args[2 * axis + 1] = points;

    // The old index is the result of an addition now.
    let region = f.insts[foreach].regions[0];
    let index = f.regions[region].params[axis];
    let counter = f.add_region_param(region, I64);
    f.regions[region].params.pop();
    f.regions[region].params[axis] = counter;
    f.values[counter].def = ValueDef::Param(region, axis as u16);
    let wide = f.add_inst(
        Op::Convert(Scalar::U64),
        smallvec![counter],
        &[U64],
        Span::UNKNOWN,
    );
    let args = smallvec![lo, f.result(wide)];
    let sum = f.add_inst(Op::Binary(BinOp::Add), args, &[], Span::UNKNOWN);
    f.insts[sum].results.push(index);
    f.values[index].def = ValueDef::Result(sum, 0);
    f.regions[region].insts.splice(0..0, [wide, sum]);
}
