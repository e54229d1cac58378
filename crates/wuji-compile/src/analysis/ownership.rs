//! Which memory belongs to one iteration of a parallel loop.
//!
//! An address belongs to one iteration if its indices are the loop's own, each exactly once up to a constant offset, if
//! all other writes to the same memory in this task use the same indices along these axes, and if no callee writes to
//! it.

use super::affine::{Affine, AffineAnalysis};
use crate::rewrite::Structure;
use rustc_hash::{FxHashMap, FxHashSet};
use std::hash::Hash;
use wuji_ir::entities::Value;
use wuji_ir::module::{Function, Module};
use wuji_ir::ops::{Op, Place};
use wuji_ir::types::Scalar;

/// The memory whose elements each belong to one iteration. `K` names memory: places, or what places share.
#[derive(Clone, Debug)]
pub struct Ownership<K> {
    owned: FxHashSet<K>,
}

impl<K: Copy + Eq + Hash> Ownership<K> {
    /// Of a task's function, whose parameters from `first_index` on are the indices of the loop. `names` gives the memory
    /// of a place.
    pub fn of<I: IntoIterator<Item = K>>(
        m: &Module,
        f: &Function,
        first_index: usize,
        names: impl Fn(Place) -> I,
    ) -> Ownership<K> {
        let indices = &f.params()[first_index..];
        let structure = Structure::of(f);
        let mut affine = AffineAnalysis::new(f, &structure);
        // The axes with the loop's indices, and the indices that all writes use there, if they are the same.
        let mut owners: FxHashMap<K, Option<Vec<(usize, Affine)>>> = FxHashMap::default();
        f.walk(|inst| {
            let data = &f.insts[inst];
            let Some(access) = data.op.written_access() else {
                return;
            };
            let rank = m.place_elem(f, access.place).1;
            let own = own_axes(f, &mut affine, &data.args[..rank], indices);
            for name in names(access.place) {
                owners
                    .entry(name)
                    .and_modify(|o| {
                        if *o != own {
                            *o = None;
                        }
                    })
                    .or_insert_with(|| own.clone());
            }
        });
        for id in m.called_from(f) {
            let g = &m.funcs[id];
            g.walk(|inst| {
                if let Some(access) = g.insts[inst].op.written_access() {
                    owners.extend(names(access.place).into_iter().map(|name| (name, None)));
                }
            });
        }
        let owned = owners.into_iter().filter(|(_, own)| own.is_some());
        Ownership {
            owned: owned.map(|(name, _)| name).collect(),
        }
    }

    /// Whether the name is owned.
    pub fn contains(&self, name: &K) -> bool {
        self.owned.contains(name)
    }
}

/// The axes with the loop's indices, if different iterations have different elements.
fn own_axes(
    f: &Function,
    affine: &mut AffineAnalysis<'_>,
    at: &[Value],
    indices: &[Value],
) -> Option<Vec<(usize, Affine)>> {
    let exprs: Vec<Affine> = at.iter().map(|v| affine.expr(*v)).collect();
    if let Some(axis) = exprs.iter().position(|expr| is_unique(f, expr)) {
        return Some(vec![(axis, exprs[axis].clone())]);
    }
    let distinct = at.iter().zip(&exprs).all(|(v, expr)| {
        let (lo, hi) = affine.range_of(expr);
        let bits = f.ty(*v).as_scalar().map_or(0, Scalar::bits);
        hi.saturating_sub(lo) < 1i128 << bits
    });
    (distinct && belongs_to_iteration(&exprs, indices)).then(|| {
        let axes = exprs.into_iter().enumerate();
        let own = |expr: &Affine| indices.iter().any(|index| expr.coefficient(*index) != 0);
        axes.filter(|(_, expr)| own(expr)).collect()
    })
}

/// Whether an index is one that the program says is another one in every iteration. In an inner loop it is many.
fn is_unique(f: &Function, expr: &Affine) -> bool {
    let [(v, factor)] = expr.terms[..] else {
        return false;
    };
    matches!(factor, 1 | -1)
        && f.def(v).is_some_and(|inst| {
            matches!(f.insts[inst].op, Op::Unique(_)) && f.regions[f.entry].insts.contains(&inst)
        })
}

/// Whether different iterations have different indices: every loop index occurs in exactly one of them, with
/// coefficient 1 or -1, plus a constant.
fn belongs_to_iteration(exprs: &[Affine], indices: &[Value]) -> bool {
    indices.iter().all(|index| {
        exprs.iter().filter(|f| f.coefficient(*index) != 0).count() == 1
            && exprs.iter().any(|f| {
                f.terms.len() == 1 && f.terms[0].0 == *index && matches!(f.terms[0].1, 1 | -1)
            })
    })
}
