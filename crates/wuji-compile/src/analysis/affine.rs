//! Affine expressions of integers, such as `2*v3 + v7 - 1`, and value ranges.
//!
//! An affine expression has terms over *atoms*: values that are not decomposed further (loop indices, parameters,
//! loaded numbers). Machine integers wrap and affine expressions do not, but a value is equal to its expression
//! modulo 2^width. So if the expression is known to lie in the range of the value's type, for example because it
//! was compared with the bounds of a field, the two are equal.

use cranelift_entity::SecondaryMap;
use smallvec::SmallVec;
use wuji_ir::entities::{Region, Value};
use wuji_ir::module::{Function, ValueDef};
use wuji_ir::ops::{BinOp, CmpOp, MOST_THREADS, Op, ThreadOp, UnOp, WARP};
use wuji_ir::types::Scalar;

use crate::rewrite::Structure;

/// The sum of `coefficient * value` over the terms, plus a constant.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Affine {
    /// Sorted by value, no zero coefficients.
    pub terms: SmallVec<[(Value, i64); 4]>,
    /// The constant term.
    pub constant: i64,
}

impl Affine {
    /// An expression without values.
    pub fn constant(c: i64) -> Affine {
        Affine {
            terms: SmallVec::new(),
            constant: c,
        }
    }

    /// The value itself, with coefficient 1.
    pub fn atom(v: Value) -> Affine {
        Affine {
            terms: smallvec::smallvec![(v, 1)],
            constant: 0,
        }
    }

    /// The constant, if there are no values.
    pub fn as_constant(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.constant)
    }

    /// `self + factor * other`; `None` on overflow.
    pub fn add_scaled(&self, other: &Affine, factor: i64) -> Option<Affine> {
        let mut out = Affine {
            terms: SmallVec::new(),
            constant: self
                .constant
                .checked_add(other.constant.checked_mul(factor)?)?,
        };
        let (mut a, mut b) = (self.terms.iter().peekable(), other.terms.iter().peekable());
        loop {
            let (value, coefficient) = match (a.peek(), b.peek()) {
                (None, None) => break,
                (Some(x), Some(y)) if x.0 == y.0 => {
                    let sum = (x.0, x.1.checked_add(y.1.checked_mul(factor)?)?);
                    a.next();
                    b.next();
                    sum
                }
                (Some(x), y) if y.is_none_or(|y| x.0 < y.0) => {
                    let term = **x;
                    a.next();
                    term
                }
                (_, Some(y)) => {
                    let term = (y.0, y.1.checked_mul(factor)?);
                    b.next();
                    term
                }
                (Some(x), None) => {
                    let term = **x;
                    a.next();
                    term
                }
            };
            if coefficient != 0 {
                out.terms.push((value, coefficient));
            }
        }
        Some(out)
    }

    /// Every coefficient times a factor; `None` on overflow.
    pub fn scaled(&self, factor: i64) -> Option<Affine> {
        Affine::default().add_scaled(self, factor)
    }

    /// The coefficient of a value; 0 if it is not in the expression.
    pub fn coefficient(&self, v: Value) -> i64 {
        self.terms.iter().find(|t| t.0 == v).map_or(0, |t| t.1)
    }

    /// The expression without the term of `v`.
    pub fn without(&self, v: Value) -> Affine {
        Affine {
            terms: self.terms.iter().copied().filter(|t| t.0 != v).collect(),
            constant: self.constant,
        }
    }
}

/// A closed range of integers.
pub type Range = (i128, i128);

fn fits(r: Range, within: Range) -> bool {
    within.0 <= r.0 && r.1 <= within.1
}

/// The affine expression of an operation on integers of a type, if it has one.
fn sum_or_product(op: BinOp, ty: Scalar, a: &Affine, b: &Affine) -> Option<Affine> {
    let (constant, factor) = (a.as_constant(), b.as_constant());
    if op == BinOp::Add {
        a.add_scaled(b, 1)
    } else if op == BinOp::Sub {
        a.add_scaled(b, -1)
    } else if op == BinOp::Mul {
        match (constant, factor) {
            (_, Some(c)) => a.scaled(c),
            (Some(c), _) => b.scaled(c),
            (None, None) => None,
        }
    } else if op == BinOp::Shl {
        let amount = factor.map(|c| c.rem_euclid(ty.bits().into()));
        let amount = amount.filter(|c| *c < 31);
        amount.and_then(|c| a.scaled(1 << c))
    } else {
        None
    }
}

/// The range of an operation on two ranges of integers of a type, if it is known.
fn binary_range(op: BinOp, ty: Scalar, a: Range, b: Range) -> Option<Range> {
    let constant = |r: Range| (r.0 == r.1).then_some(r.0);
    if op == BinOp::Add {
        return Some((a.0 + b.0, a.1 + b.1));
    }
    if op == BinOp::Sub {
        return Some((a.0 - b.1, a.1 - b.0));
    }
    if op == BinOp::Mul {
        let corners = [
            a.0.checked_mul(b.0)?,
            a.0.checked_mul(b.1)?,
            a.1.checked_mul(b.0)?,
            a.1.checked_mul(b.1)?,
        ];
        return Some((*corners.iter().min()?, *corners.iter().max()?));
    }
    if op == BinOp::Min {
        return Some((a.0.min(b.0), a.1.min(b.1)));
    }
    if op == BinOp::Max {
        return Some((a.0.max(b.0), a.1.max(b.1)));
    }
    if op == BinOp::And {
        let mask = [b, a].into_iter().filter_map(constant).find(|m| *m >= 0);
        return mask.map(|mask| (0, mask));
    }
    let by = constant(b)?;
    if op == BinOp::Div && by > 0 {
        return Some((a.0 / by, a.1 / by));
    }
    if op == BinOp::Rem && by > 0 {
        let low = if a.0 < 0 { -(by - 1) } else { 0 };
        return Some((low.max(a.0.min(0)), (by - 1).min(a.1.max(0))));
    }
    let amount = by.rem_euclid(ty.bits().into());
    (op == BinOp::Shr).then(|| (a.0 >> amount, a.1 >> amount))
}

fn thread_range(op: ThreadOp) -> Option<Range> {
    let (warp, threads) = (i128::from(WARP), i128::from(MOST_THREADS));
    match op {
        ThreadOp::Index => Some((0, threads - 1)),
        ThreadOp::BlockSize => Some((1, threads)),
        ThreadOp::Block => Some((0, i128::from(i32::MAX) - 1)),
        ThreadOp::Blocks => Some((1, i128::from(i32::MAX))),
        ThreadOp::Lane => Some((0, warp - 1)),
        ThreadOp::BarrierCount => Some((0, threads)),
        ThreadOp::Barrier
        | ThreadOp::BarrierAll
        | ThreadOp::BarrierAny
        | ThreadOp::ActiveMask
        | ThreadOp::Ballot
        | ThreadOp::MatchAny
        | ThreadOp::Shuffle(_)
        | ThreadOp::Segment
        | ThreadOp::SegmentSum
        | ThreadOp::WarpBarrier
        | ThreadOp::BlockFence
        | ThreadOp::GridFence => None,
    }
}

/// The range of a side of a selection, where it is selected.
enum Side {
    Never,
    Within(Range),
}

/// Affine expressions and ranges of the integers of a function, computed on demand.
#[derive(Debug)]
pub struct AffineAnalysis<'f> {
    /// The function that is analyzed.
    pub func: &'f Function,
    /// Its regions.
    pub structure: &'f Structure,
    exprs: SecondaryMap<Value, Option<Affine>>,
    ranges: SecondaryMap<Value, Option<Range>>,
    budget: u32,
}

/// The maximal depth of one query; a value beyond it is an atom.
const LOOK_BACK: u32 = 64;

impl<'f> AffineAnalysis<'f> {
    /// An analysis without results so far.
    pub fn new(func: &'f Function, structure: &'f Structure) -> AffineAnalysis<'f> {
        AffineAnalysis {
            func,
            structure,
            exprs: SecondaryMap::new(),
            ranges: SecondaryMap::new(),
            budget: LOOK_BACK,
        }
    }

    /// The affine expression of an integer value.
    pub fn expr(&mut self, v: Value) -> Affine {
        if let Some(known) = &self.exprs[v] {
            return known.clone();
        }
        if self.budget == 0 {
            return Affine::atom(v);
        }
        self.budget -= 1;
        let expr = self.derive_expr(v).unwrap_or_else(|| Affine::atom(v));
        self.budget += 1;
        self.exprs[v] = Some(expr.clone());
        expr
    }

    fn derive_expr(&mut self, v: Value) -> Option<Affine> {
        let f = self.func;
        let inst = f.def(v)?;
        let data = &f.insts[inst];
        if let Op::Const(imm) = data.op {
            return Some(Affine::constant(i64::try_from(imm.as_int()?).ok()?));
        }
        if let Op::Convert(_) = data.op {
            let source = data.args[0];
            let from = f.ty(source).as_scalar()?;
            let limits = from.int_range()?;
            f.ty(v).as_scalar().filter(|s| s.is_int())?;
            let expr = self.expr(source);
            return fits(self.range_of(&expr), limits).then_some(expr);
        }
        if data.op == Op::Unary(UnOp::Neg) {
            return self.expr(data.args[0]).scaled(-1);
        }
        let Op::Binary(op) = data.op else {
            return None;
        };
        let ty = f.ty(v).as_scalar().filter(|s| s.is_int())?;
        let (a, b) = (self.expr(data.args[0]), self.expr(data.args[1]));
        sum_or_product(op, ty, &a, &b)
    }

    /// Whether a value depends only on loop indices, parameters and constants, so that it is not loaded from
    /// memory, which a race may change between two uses.
    pub fn is_steady(&mut self, v: Value) -> bool {
        let f = self.func;
        // Values created by a rewrite are not analyzed.
        if v.as_u32() as usize >= f.values.len() {
            return false;
        }
        self.expr(v)
            .terms
            .iter()
            .all(|(v, _)| self.is_steady_atom(*v))
    }

    /// Like [`AffineAnalysis::is_steady`], for an atom of an expression.
    pub fn is_steady_atom(&self, v: Value) -> bool {
        let f = self.func;
        match f.values[v].def {
            ValueDef::Param(region, k) => {
                let owner = self.structure.owner[region].expand();
                region == f.entry
                    || (k == 0 && owner.is_some_and(|o| matches!(f.insts[o].op, Op::For(..))))
            }
            ValueDef::Result(inst, _) => matches!(
                f.insts[inst].op,
                Op::ArrayExtent(..) | Op::Const(_) | Op::Unary(UnOp::Freeze)
            ),
        }
    }

    /// Whether a value is computed from steady atoms alone, by whatever arithmetic.
    fn is_from_steady(&self, v: Value, budget: u32) -> bool {
        let f = self.func;
        let Some(inst) = f.def(v) else {
            return self.is_steady_atom(v);
        };
        let data = &f.insts[inst];
        let computes = matches!(
            data.op,
            Op::Binary(_) | Op::Unary(_) | Op::Convert(_) | Op::Compare(_) | Op::Select
        );
        if !computes || budget == 0 {
            return self.is_steady_atom(v);
        }
        let share = budget / data.args.len().max(1) as u32;
        (data.args.iter()).all(|a| self.is_from_steady(*a, share.min(budget - 1)))
    }

    /// The range of an affine expression, from the ranges of its terms.
    pub fn range_of(&mut self, expr: &Affine) -> Range {
        let mut range = (i128::from(expr.constant), i128::from(expr.constant));
        for (v, c) in &expr.terms {
            let (lo, hi) = self.range(*v);
            let (a, b) = (
                lo.saturating_mul((*c).into()),
                hi.saturating_mul((*c).into()),
            );
            range = (
                range.0.saturating_add(a.min(b)),
                range.1.saturating_add(a.max(b)),
            );
        }
        range
    }

    /// The range of an integer value.
    pub fn range(&mut self, v: Value) -> Range {
        if let Some(known) = self.ranges[v] {
            return known;
        }
        let Some(all) = self.func.ty(v).as_scalar().and_then(Scalar::int_range) else {
            return (i128::MIN, i128::MAX);
        };
        if self.budget == 0 {
            return all;
        }
        self.budget -= 1;
        // A loop index may depend on itself through carried values; start with the full range.
        self.ranges[v] = Some(all);
        let range = self
            .derive_range(v)
            .filter(|r| fits(*r, all))
            .unwrap_or(all);
        self.budget += 1;
        self.ranges[v] = Some(range);
        range
    }

    fn derive_range(&mut self, v: Value) -> Option<Range> {
        let f = self.func;
        let inst = match f.values[v].def {
            ValueDef::Result(inst, _) => inst,
            ValueDef::Param(region, 0) => return self.index_range(region),
            ValueDef::Param(..) => return None,
        };
        let data = &f.insts[inst];
        if let Op::Const(imm) = data.op {
            return imm.as_int().map(|c| (c, c));
        }
        if let Op::Thread(op) = data.op {
            return thread_range(op);
        }
        if let Op::Binary(op) = data.op {
            let (a, b) = (self.range(data.args[0]), self.range(data.args[1]));
            return binary_range(op, f.ty(v).as_scalar()?, a, b);
        }
        if let Op::Convert(_) = data.op {
            f.ty(data.args[0]).as_scalar().filter(|s| !s.is_float())?;
            return Some(self.range(data.args[0]));
        }
        if data.op == Op::Unary(UnOp::Freeze) {
            return Some(self.range(data.args[0]));
        }
        if data.op == Op::Select {
            return match (self.range_where(v, true)?, self.range_where(v, false)?) {
                (Side::Never, Side::Within(r)) | (Side::Within(r), Side::Never) => Some(r),
                (Side::Within(a), Side::Within(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
                (Side::Never, Side::Never) => None,
            };
        }
        matches!(data.op, Op::ArrayExtent(..)).then_some((0, 1 << 60))
    }

    /// The range of a side of a selection, where its condition holds or does not. A comparison with a constant says more of a
    /// side that is as far from the number it compares, as in `select(j - 1 >= 0, j - 1, n - 1)`.
    fn range_where(&mut self, selection: Value, holds: bool) -> Option<Side> {
        let f = self.func;
        let [condition, yes, no] = f.insts[f.def(selection)?].args[..] else {
            return None;
        };
        let side = if holds { yes } else { no };
        let range = self.range(side);
        let Some((least, most)) = self.limits(condition, holds, side) else {
            return Some(Side::Within(range));
        };
        let narrowed = (range.0.max(least), range.1.min(most));
        if narrowed.0 <= narrowed.1 {
            Some(Side::Within(narrowed))
        } else {
            Some(Side::Never)
        }
    }

    /// What the outcome of a comparison says of a number that differs by a constant from the compared one.
    fn limits(&mut self, condition: Value, holds: bool, number: Value) -> Option<Range> {
        let f = self.func;
        let data = &f.insts[f.def(condition)?];
        let Op::Compare(op) = data.op else {
            return None;
        };
        // What a race may change is not known to be what was compared.
        self.is_from_steady(data.args[0], LOOK_BACK).then_some(())?;
        let compared = self.exact(data.args[0])?;
        let with = i128::from(self.exact(data.args[1])?.as_constant()?);
        let offset = self.exact(number)?.add_scaled(&compared, -1)?;
        let offset = i128::from(offset.as_constant()?);
        let all = self.range_of(&compared);
        let without = |c: i128| match c {
            c if c == all.0 => (c + 1, all.1),
            c if c == all.1 => (all.0, c - 1),
            _ => all,
        };
        let (least, most) = match (op, holds) {
            (CmpOp::Ge, true) | (CmpOp::Lt, false) => (with, all.1),
            (CmpOp::Gt, true) | (CmpOp::Le, false) => (with + 1, all.1),
            (CmpOp::Le, true) | (CmpOp::Gt, false) => (all.0, with),
            (CmpOp::Lt, true) | (CmpOp::Ge, false) => (all.0, with - 1),
            (CmpOp::Eq, true) | (CmpOp::Ne, false) => (with, with),
            (CmpOp::Eq, false) | (CmpOp::Ne, true) => without(with),
        };
        Some((least + offset, most + offset))
    }

    /// The expression of an integer, if its arithmetic does not wrap.
    pub fn exact(&mut self, v: Value) -> Option<Affine> {
        let limits = self.func.ty(v).as_scalar()?.int_range()?;
        let expr = self.expr(v);
        fits(self.range_of(&expr), limits).then_some(expr)
    }

    /// Range of the index of a `for`: within its bounds.
    fn index_range(&mut self, region: Region) -> Option<Range> {
        let f = self.func;
        let owner = self.structure.owner[region].expand()?;
        let data = &f.insts[owner];
        let Op::For(..) = data.op else { return None };
        let (lo, hi) = (self.range(data.args[0]), self.range(data.args[1]));
        let step = f.constant(data.args[2])?.as_int()?;
        if step > 0 {
            Some((lo.0, (hi.1 - 1).max(lo.0)))
        } else {
            Some(((hi.0 + 1).min(lo.1), lo.1))
        }
    }
}
