//! Whether the iterations of a serial loop are independent of each other.

use crate::analysis::affine::{Affine, AffineAnalysis};
use rustc_hash::{FxHashMap, FxHashSet};
use wuji_ir::entities::{Inst, Label, Region, Value};
use wuji_ir::module::{Env, Function, Term};
use wuji_ir::ops::*;
use wuji_ir::types::{Imm, Scalar};

/// Which updates by several iterations do not make them dependent.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Reductions {
    /// None: their order matters.
    InOrder,
    /// Those of elements that are the same throughout a region.
    OfOneElement(Region),
    OfAnyElement,
}

/// The accesses of a loop to memory that it writes.
pub(crate) struct Accesses {
    written: FxHashMap<Place, Vec<Use>>,
}

struct Use {
    /// Without dynamic steps into an element.
    indices: Vec<Value>,
    writes: bool,
    /// The operation of an atomic whose result is not used.
    update: Option<AtomicOp>,
}

impl Accesses {
    /// The accesses of a loop's body; `None` if it has other effects.
    pub(crate) fn of(m: &Env, f: &Function, body: Region) -> Option<Accesses> {
        let mut used: FxHashSet<Value> = FxHashSet::default();
        let mut arrays: FxHashSet<Place> = FxHashSet::default();
        let mut all: FxHashMap<Place, (bool, Vec<Use>)> = FxHashMap::default();
        for region in f.regions_in(body) {
            used.extend(f.regions[region].term.args());
            for inst in &f.regions[region].insts {
                used.extend(&f.insts[*inst].args);
            }
        }
        for inst in f.insts_in(body) {
            let data = &f.insts[inst];
            let OpClass::Access(op, access) = data.op.class() else {
                if can_reorder(&data.op) {
                    continue;
                }
                return None;
            };
            let update = match op {
                AccessOp::Load | AccessOp::Store => None,
                AccessOp::Atomic(op) => {
                    let unused = op != AtomicOp::Exchange && !used.contains(&f.result(inst));
                    unused.then_some(op)
                }
                AccessOp::CompareExchange => return None,
            };
            if let Place::Local(_) = access.place {
                return None;
            }
            if let Place::Array(_) = access.place {
                arrays.insert(access.place);
            }
            let rank = m.place_elem(f, access.place).1;
            let writes = data.op.written_access().is_some();
            let entry = all.entry(access.place).or_default();
            entry.0 |= writes;
            entry.1.push(Use {
                indices: data.args[..rank].to_vec(),
                writes,
                update,
            });
        }
        let written: FxHashMap<Place, Vec<Use>> = all
            .into_iter()
            .filter(|(_, (written, _))| *written)
            .map(|(place, (_, uses))| (place, uses))
            .collect();
        let alone = arrays.len() == 1;
        let plain = written.keys().all(|place| match place {
            Place::Field(field) => {
                let data = &m.fields[*field];
                data.packing.is_none() && !m.trees[data.tree].is_sparse()
            }
            Place::Array(a) => m.arrays[*a].contiguous && (alone || m.arrays[*a].unaliased),
            // Sums of the kernel's variables.
            Place::Temp(_) => true,
            Place::Local(_) => false,
        });
        plain.then_some(Accesses { written })
    }

    /// Whether an instruction gives the same in every iteration of an inner loop.
    pub(crate) fn can_repeat(&self, f: &Function, inst: Inst) -> bool {
        match f.insts[inst].op.access() {
            None => true,
            Some(access) => !self.written.contains_key(&access.place),
        }
    }

    /// Whether no two iterations of the loop `inner` touch the same element, if one of them writes it, apart from
    /// updates that commute.
    pub(crate) fn are_independent(
        &self,
        affine: &mut AffineAnalysis<'_>,
        inner: Inst,
        reductions: Reductions,
    ) -> bool {
        self.written.values().all(|uses| {
            let reduced = || match reductions {
                Reductions::InOrder => false,
                Reductions::OfOneElement(region) => {
                    all_commute(uses) && are_invariant(affine, region, uses)
                }
                Reductions::OfAnyElement => all_commute(uses),
            };
            reduced() || own_axis(affine, inner, uses.iter()) || apart(affine, inner, uses)
        })
    }
}

/// Whether an operation that accesses no element does the same in any order of iterations. Branches and loops do, if what
/// is inside does.
fn can_reorder(op: &Op) -> bool {
    let called = op.callee().is_some() || matches!(op, Op::ForEach(..));
    let plain = matches!(op.effect(), Effect::Pure | Effect::Control);
    !called && plain || matches!(op, Op::CheckIndex(_))
}

/// Whether some index is different in each iteration of a loop, and the same for all uses in an iteration.
fn own_axis<'u>(
    affine: &mut AffineAnalysis<'_>,
    inner: Inst,
    uses: impl Iterator<Item = &'u Use> + Clone,
) -> bool {
    let f = affine.func;
    let body = f.insts[inner].regions[0];
    let counter = f.regions[body].params[0];
    let Some(first) = uses.clone().next() else {
        return true;
    };
    let rank = uses.clone().map(|u| u.indices.len()).min().unwrap_or(0);
    (0..rank).any(|axis| {
        let first = first.indices[axis];
        let expr = affine.expr(first);
        let same = uses.clone().all(|u| {
            let index = u.indices[axis];
            f.ty(index) == f.ty(first) && affine.expr(index) == expr
        });
        same && counts(affine, first, &expr, counter, body)
    })
}

/// The most pairs of a write and another use that are compared.
const MOST: usize = 1024;

/// Whether every write and every other use have an axis of their own, or are at different places along an axis in all iterations:
/// layers `k` and `k - 1`.
fn apart(affine: &mut AffineAnalysis<'_>, inner: Inst, uses: &[Use]) -> bool {
    let writes = uses.iter().filter(|u| u.writes);
    if writes.clone().count() * uses.len() > MOST {
        return false;
    }
    let body = affine.func.insts[inner].regions[0];
    writes.into_iter().all(|w| {
        uses.iter().all(|u| {
            in_other_layers(affine, body, w, u) || own_axis(affine, inner, [w, u].into_iter())
        })
    })
}

/// Whether two uses differ in an index by a constant, in all iterations of a loop.
fn in_other_layers(affine: &mut AffineAnalysis<'_>, body: Region, a: &Use, b: &Use) -> bool {
    let f = affine.func;
    a.indices.iter().zip(&b.indices).any(|(a, b)| {
        let expr = affine.expr(*a);
        let distance = affine.expr(*b).add_scaled(&expr, -1);
        let distance = distance.and_then(|d| d.as_constant()).unwrap_or(0);
        let bits = f.ty(*a).as_scalar().map_or(0, Scalar::bits);
        let invariant = |v: &Value| affine.structure.is_invariant(f, *v, body);
        f.ty(*a) == f.ty(*b)
            && distance != 0
            && i128::from(distance).unsigned_abs() < 1u128 << bits
            && expr.terms.iter().all(|(v, _)| invariant(v))
    })
}

/// Whether an index is `counter` or `-counter`, plus what does not change in the loop, without wrapping onto itself.
fn counts(
    affine: &mut AffineAnalysis<'_>,
    index: Value,
    expr: &Affine,
    counter: Value,
    body: Region,
) -> bool {
    let f = affine.func;
    let bits = f.ty(index).as_scalar().map_or(0, Scalar::bits);
    let (lo, hi) = affine.range(counter);
    let invariant = |v: Value| affine.structure.is_invariant(f, v, body);
    matches!(expr.coefficient(counter), 1 | -1)
        && hi.saturating_sub(lo) < 1i128 << bits
        && expr
            .terms
            .iter()
            .all(|(v, _)| *v == counter || invariant(*v))
}

/// Whether all uses have indices from outside of a region.
fn are_invariant(affine: &AffineAnalysis<'_>, region: Region, uses: &[Use]) -> bool {
    let f = affine.func;
    let outside =
        |v: &Value| f.constant(*v).is_some() || affine.structure.is_invariant(f, *v, region);
    uses.iter().all(|u| u.indices.iter().all(outside))
}

/// Whether all uses are updates by one operation that commutes.
fn all_commute(uses: &[Use]) -> bool {
    uses.iter()
        .all(|u| u.update.is_some() && u.update == uses[0].update)
}

/// Whether a loop counts up by one, and nothing leaves it early.
pub(crate) fn runs_to_its_end(f: &Function, inst: Inst) -> bool {
    let data = &f.insts[inst];
    let Op::For(label, ForKind::Serial) = data.op else {
        return false;
    };
    let inside = data.regions[0];
    let stays = |r: &Region| match f.regions[*r].term {
        Term::Continue(l, _) => l == label || !encloses(f, l, inside),
        Term::Break(l, _) => !encloses(f, l, inside) && l != label,
        Term::Yield(_) | Term::Unreachable => true,
        Term::Return(_) => false,
    };
    f.constant(data.args[2]).and_then(Imm::as_int) == Some(1)
        && f.regions_in(inside).iter().all(stays)
}

/// Whether a label belongs to an instruction around a region, and not inside it.
fn encloses(f: &Function, label: Label, region: Region) -> bool {
    !f.insts_in(region)
        .any(|i| f.insts[i].op.label() == Some(label))
}
