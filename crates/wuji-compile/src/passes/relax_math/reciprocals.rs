//! Divisions by one number become products with its reciprocal: several in a region, or one in a loop that the number comes
//! into from outside.

use super::{Insertions, float_args, insert};
use crate::passes::Cx;
use crate::rewrite::Structure;
use rustc_hash::FxHashMap;
use wuji_ir::entities::{Inst, Region, Value};
use wuji_ir::module::Function;
use wuji_ir::ops::{BinOp, Op};
use wuji_ir::types::{Imm, Type};

/// Divisions by one number, of which the reciprocal is computed in one region.
#[derive(Default)]
struct Group {
    divisions: Vec<Inst>,
    /// What the reciprocal is computed in front of.
    before: Option<Inst>,
    /// The reciprocal is computed outside a loop that divides.
    outside: bool,
}

pub(super) fn share(f: &mut Function, cx: &mut Cx) {
    let mut new = Insertions::default();
    for ((divisor, _), group) in groups(f) {
        let pays = group.outside || group.divisions.len() > 1;
        let Some(before) = group.before.filter(|_| pays && cx.fuel()) else {
            continue;
        };
        let span = f.spans[group.divisions[0]];
        let ty = f.ty(divisor);
        let Some(s) = ty.elem() else { continue };
        let mut add = |f: &mut Function, op: Op, args: &[Value], ty: Type| {
            let inst = f.add_inst(op, args.iter().copied().collect(), &[ty], span);
            new.entry(before).or_default().push(inst);
            f.result(inst)
        };
        let mut one = add(f, Op::Const(Imm::float(s, 1.0)), &[], Type::Scalar(s));
        if ty.as_scalar().is_none() {
            one = add(f, Op::Splat(ty), &[one], ty);
        }
        let reciprocal = add(f, Op::Binary(BinOp::Div), &[one, divisor], ty);
        for division in group.divisions {
            let data = &mut f.insts[division];
            data.op = Op::Binary(BinOp::Mul);
            data.args[1] = reciprocal;
        }
    }
    insert(f, new);
}

/// Divisions by what is no constant, grouped by divisor and by the region that its reciprocal belongs to, in program order.
fn groups(f: &Function) -> Vec<((Value, Region), Group)> {
    let structure = Structure::of(f);
    let mut found: Vec<((Value, Region), Group)> = Vec::new();
    let mut place: FxHashMap<(Value, Region), usize> = FxHashMap::default();
    f.walk(|inst| {
        let Some((dividend, divisor)) = float_args(f, inst, BinOp::Div) else {
            return;
        };
        let one = f
            .constant(dividend)
            .and_then(Imm::as_float)
            .is_some_and(|x| x == 1.0);
        if one || f.constant(divisor).is_some() {
            return;
        }
        let Some((region, before)) = home(f, &structure, inst, divisor) else {
            return;
        };
        let at = *place.entry((divisor, region)).or_insert_with(|| {
            found.push(((divisor, region), Group::default()));
            found.len() - 1
        });
        let group = &mut found[at].1;
        group.divisions.push(inst);
        group.before.get_or_insert(before);
        group.outside |= before != inst;
    });
    found
}

/// Where the reciprocal is computed: in front of the outermost loop around the division that the divisor comes into from
/// outside, else in front of the division.
fn home(f: &Function, structure: &Structure, inst: Inst, divisor: Value) -> Option<(Region, Inst)> {
    let defined = structure.def_region(f, divisor)?;
    let mut region = structure.region_of[inst].expand()?;
    let mut best = (region, inst);
    while region != defined {
        let owner = structure.owner[region].expand()?;
        region = structure.region_of[owner].expand()?;
        if matches!(f.insts[owner].op, Op::For(..) | Op::Loop(_)) {
            best = (region, owner);
        }
    }
    Some(best)
}
