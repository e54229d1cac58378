//! Splits indices into a part that is uniform in a block and a part within the block.

use crate::analysis::affine::{Affine, AffineAnalysis, Range};
use crate::rewrite::Structure;
use wuji_ir::entities::{Inst, Region, Value};
use wuji_ir::module::Function;
use wuji_ir::ops::{BinOp, Op};

/// An index, split.
pub(super) struct Parts {
    /// Without its constant, except that of a distant origin.
    pub(super) shared: Affine,
    pub(super) offset: Affine,
    pub(super) range: (i64, i64),
    pub(super) assumed: Option<Inst>,
}

impl Parts {
    pub(super) fn of(
        f: &Function,
        affine: &mut AffineAnalysis<'_>,
        structure: &Structure,
        body: Region,
        index: Value,
    ) -> Option<Parts> {
        let expr = affine.expr(index);
        let whole = f.ty(index).as_scalar()?.int_range()?;
        let mut shared = Affine::default();
        let mut offset = Affine::constant(expr.constant);
        let mut range: Range = (expr.constant.into(), expr.constant.into());
        let mut assumed = None;
        for (v, c) in &expr.terms {
            let here = structure.def_region(f, *v)?;
            let fixed = here == body || !structure.is_inside(here, body);
            if fixed {
                shared = shared.add_scaled(&Affine::atom(*v), *c)?;
                continue;
            }
            // Near an expression that is uniform in the block: by assumption, or because it is clamped.
            let near = match assumption(f, *v) {
                _ if *c != 1 => None,
                Some((inst, base, lo, hi)) if assumed.is_none() => {
                    Some((Some(inst), affine.expr(base), lo, hi - 1))
                }
                _ => clamped(f, affine, *v).map(|(base, lo, hi)| (None, base, lo, hi)),
            };
            let near = near.filter(|(_, base, ..)| {
                base.terms.iter().all(|(t, _)| {
                    let at = structure.def_region(f, *t);
                    at.is_some_and(|r| r == body || !structure.is_inside(r, body))
                })
            });
            let (lo, hi) = match near {
                Some((inst, base, lo, hi)) => {
                    let constant = base.constant;
                    let base = base.add_scaled(&Affine::constant(constant), -1)?;
                    shared = shared.add_scaled(&base, 1)?;
                    offset = offset.add_scaled(&base, -1)?;
                    assumed = assumed.or(inst);
                    (
                        i128::from(lo) + i128::from(constant),
                        i128::from(hi) + i128::from(constant),
                    )
                }
                None => {
                    let (lo, hi) = affine.range(*v);
                    let (a, b) = (lo.checked_mul((*c).into())?, hi.checked_mul((*c).into())?);
                    (a.min(b), a.max(b))
                }
            };
            offset = offset.add_scaled(&Affine::atom(*v), *c)?;
            range = (range.0 + lo, range.1 + hi);
        }
        // The origin of an unbounded field is far from zero; that part is the same for all blocks.
        let far = (range.0 + (1 << 19)).div_euclid(1 << 20) << 20;
        let origin = Affine::constant(i64::try_from(far).ok()?);
        shared = shared.add_scaled(&origin, 1)?;
        offset = offset.add_scaled(&origin, -1)?;
        range = (range.0 - far, range.1 - far);
        let near = |n: i128| n.abs() < 1 << 20;
        if !near(range.0) || !near(range.1) {
            return None;
        }
        // A machine integer may wrap where its affine expression does not.
        let (lo, hi) = affine.range_of(&expr);
        if assumed.is_none() && (lo < whole.0 || hi > whole.1) {
            let (lo, hi) = affine.range_of(&shared);
            if lo + range.0 < whole.0 || hi + range.1 > whole.1 {
                return None;
            }
        }
        Some(Parts {
            shared,
            offset,
            range: (range.0 as i64, range.1 as i64),
            assumed,
        })
    }
}

/// An assumption about a value: where it is made, its base and range.
fn assumption(f: &Function, v: Value) -> Option<(Inst, Value, i64, i64)> {
    let inst = f.def(v)?;
    let data = &f.insts[inst];
    if let Op::Convert(_) = data.op {
        return assumption(f, data.args[0]);
    }
    let Op::AssumeRange(lo, hi) = data.op else {
        return None;
    };
    Some((inst, data.args[1], lo, hi))
}

/// The bounds that a value is clamped to, relative to an affine expression, as in `clamp(x, 4 * i, 4 * i + 3)`.
fn clamped(f: &Function, affine: &mut AffineAnalysis<'_>, v: Value) -> Option<(Affine, i64, i64)> {
    let data = &f.insts[f.def(v)?];
    if let Op::Convert(_) = data.op {
        return clamped(f, affine, data.args[0]);
    }
    let Op::Binary(outer @ (BinOp::Min | BinOp::Max)) = data.op else {
        return None;
    };
    let inner = if outer == BinOp::Min {
        BinOp::Max
    } else {
        BinOp::Min
    };
    let whole = f.ty(v).as_scalar()?.int_range()?;
    for (a, limit) in [(0, 1), (1, 0)] {
        let Some(inside) = f.def(data.args[a]).map(|d| &f.insts[d]) else {
            continue;
        };
        if inside.op != Op::Binary(inner) {
            continue;
        }
        let first = affine.expr(data.args[limit]);
        for second in &inside.args {
            let second = affine.expr(*second);
            // The machine compares integers, not affine expressions: neither may wrap.
            let wraps = [&first, &second].iter().any(|expr| {
                let (lo, hi) = affine.range_of(expr);
                lo < whole.0 || hi > whole.1
            });
            let (low, high) = if outer == BinOp::Min {
                (&second, &first)
            } else {
                (&first, &second)
            };
            if !wraps && low.terms == high.terms && low.constant <= high.constant {
                let base = low.add_scaled(&Affine::constant(low.constant), -1)?;
                return Some((base, low.constant, high.constant));
            }
        }
    }
    None
}
