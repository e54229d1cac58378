//! Two loops as one: its first iterations are those of the first loop, the others those of the second.

use crate::combine::{Build, Combined, Entered, Part, Piece};
use wuji_compile::rewrite::{copy_body, copy_inst};
use wuji_ir::build::Builder;
use wuji_ir::entities::{Region, Value};
use wuji_ir::module::{Env, Function, Span, Term, Values};
use wuji_ir::ops::{BinOp, CmpOp, Domain, LoopHints, Op};
use wuji_ir::types::{I64, Type};

/// The iterations of a part: first index and extent of each axis. Serial code has no axes.
pub(crate) type Axes = Vec<(i64, u64)>;

/// How many iterations there are; `None` if too many to count.
pub(crate) fn count(axes: &[(i64, u64)]) -> Option<i64> {
    axes.iter()
        .try_fold(1i64, |all, (_, n)| all.checked_mul(i64::try_from(*n).ok()?))
}

/// One loop that runs the iterations of both parts, in any order. No iteration of a part ends early. `None` if the parts cannot be in one
/// module.
pub(crate) fn beside(name: &str, parts: &[(Part<'_>, Axes); 2]) -> Option<Combined> {
    let [(first, a), (second, b)] = parts;
    let (in_first, in_second) = (count(a)?, count(b)?);
    let mut build = Build::new(name);
    let (mut f, entered) = build.enter_all(&[first.clone(), second.clone()])?;
    let label = f.fresh_label();
    let body = f.add_region(&[I64]);
    let index = f.regions[body].params[0];
    let [fine, other] = [f.add_region(&[]), f.add_region(&[])];
    let mut b = Builder::new(&mut build.module.env, &mut f);
    b.region = body;
    let end = b.i64(in_first);
    let is_first = b.compare(CmpOp::Lt, index, end);
    let branch = b.push_typed(Op::If, &[is_first], &[]);
    b.end(Term::Continue(label, Values::new()));
    b.region = other;
    let rest = b.binary(BinOp::Sub, index, end);
    f.insts[branch].regions.extend([fine, other]);
    let places = [(fine, index), (other, rest)];
    for ((place, (part, axes)), entered) in places.into_iter().zip(parts).zip(&entered) {
        let into = Into { place, axes };
        into.copy(&mut build.module.env, &mut f, part, entered)?;
    }
    let entry = f.entry;
    let mut b = Builder::new(&mut build.module.env, &mut f);
    b.region = entry;
    let (from, to) = (b.i64(0), b.i64(in_first.checked_add(in_second)?));
    let domain = Domain::Range { rank: 1 };
    let op = Op::ForEach(label, domain, LoopHints::default());
    let looped = f.add_inst(op, [from, to].into_iter().collect(), &[], Span::UNKNOWN);
    f.insts[looped].regions.push(body);
    f.regions[entry].insts.push(looped);
    Some(build.finish(f))
}

/// Where the iterations of a part go, and the number of the iteration there.
struct Into<'a> {
    place: (Region, Value),
    axes: &'a [(i64, u64)],
}

impl Into<'_> {
    fn copy(
        &self,
        env: &mut Env,
        f: &mut Function,
        part: &Part<'_>,
        entered: &Entered,
    ) -> Option<()> {
        let (region, number) = self.place;
        let mut copy = entered.copy_into(f);
        match &part.piece {
            Piece::Serial(insts) => {
                for inst in insts {
                    let new = copy_inst(&entered.from, *inst, copy.f, &mut copy.map);
                    copy.f.regions[region].insts.push(new);
                }
            }
            Piece::Loop(inst) => {
                copy.provide_for(*inst);
                let mut map = copy.map;
                let body = entered.from.insts[*inst].regions[0];
                let params = entered.from.regions[body].params.clone();
                let mut b = Builder::new(env, f);
                b.region = region;
                let indices = self.indices(&mut b, number);
                for (param, index) in params.iter().zip(indices) {
                    let Type::Scalar(scalar) = entered.from.ty(*param) else {
                        return None;
                    };
                    map.set(*param, b.convert(index, scalar));
                }
                copy_body(&entered.from, body, f, region, &mut map);
            }
        }
        f.regions[region].term = Term::Yield(Values::new());
        Some(())
    }

    /// The indices of an iteration, as `i64`.
    fn indices(&self, b: &mut Builder<'_>, number: Value) -> Vec<Value> {
        let mut rest = number;
        let mut out = Vec::new();
        for (k, (first, extent)) in self.axes.iter().enumerate().rev() {
            let at = if k == 0 {
                rest
            } else {
                let extent = b.i64(*extent as i64);
                let at = b.binary(BinOp::Rem, rest, extent);
                rest = b.binary(BinOp::Div, rest, extent);
                at
            };
            let first = b.i64(*first);
            out.push(b.binary(BinOp::Add, at, first));
        }
        out.reverse();
        out
    }
}
