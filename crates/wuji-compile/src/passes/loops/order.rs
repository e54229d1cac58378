//! The order of a range's dimensions: the innermost one runs along memory.

use super::Dim;
use super::dims::cell_dims;
use crate::analysis::affine::AffineAnalysis;
use crate::rewrite::Structure;
use rustc_hash::FxHashMap;
use wuji_ir::entities::Value;
use wuji_ir::module::{Env, Function};
use wuji_ir::ops::{Op, Place};

/// Bits of the distance between neighbours along an axis, relative to the next faster one. Only the order counts.
const AXIS_BITS: u32 = 8;

/// A store counts as much as this many loads: it takes a load and a write of the line.
const STORE: u64 = 2;

/// Sorts dimensions by the distance in memory that a step along each of them takes, the longest first, if that brings
/// another dimension to the inside. `indices` are the loop's indices.
pub(super) fn sort_by_stride(m: &Env, f: &Function, indices: &[Value], dims: &mut [Dim]) {
    if dims.len() < 2 {
        return;
    }
    let strides = strides(m, f, indices);
    let stride = |dim: &Dim| strides[dim.index];
    let Some(least) = dims.iter().map(stride).min() else {
        return;
    };
    // Without an access that runs along all of them, there is nothing to gain.
    let last = dims.last().map_or(0, stride);
    if least == 0 || least == last {
        return;
    }
    dims.sort_by_key(|dim| std::cmp::Reverse(stride(dim)));
}

/// For each index, the sum of its distances in all accesses.
fn strides(m: &Env, f: &Function, indices: &[Value]) -> Vec<u64> {
    let structure = Structure::of(f);
    let mut affine = AffineAnalysis::new(f, &structure);
    let mut known: FxHashMap<Place, Vec<u64>> = FxHashMap::default();
    let mut sums = vec![0u64; indices.len()];
    f.walk(|inst| {
        let data = &f.insts[inst];
        let Some(access) = data.op.access() else {
            return;
        };
        let axes = known
            .entry(access.place)
            .or_insert_with(|| axis_strides(m, access.place));
        let weight = if matches!(data.op, Op::Load(_)) {
            1
        } else {
            STORE
        };
        for (arg, stride) in data.args.iter().zip(axes.iter()) {
            let expr = affine.expr(*arg);
            for (sum, index) in sums.iter_mut().zip(indices) {
                if expr.coefficient(*index) != 0 {
                    *sum = sum.saturating_add(weight * stride);
                }
            }
        }
    });
    sums
}

/// For each axis of a field or array, a number that is larger for larger distances between neighbours.
fn axis_strides(m: &Env, place: Place) -> Vec<u64> {
    let of_rank = |rank: usize| (0..rank).rev().map(distance).collect();
    match place {
        Place::Array(a) => of_rank(m.arrays[a].rank.into()),
        Place::Field(field) => {
            let dims = cell_dims(m, field, false);
            let order = (0..m.fields[field].rank()).map(|index| {
                let from_last = dims.iter().rev().position(|d| d.index == index);
                distance(from_last.unwrap_or(0))
            });
            order.collect()
        }
        Place::Local(_) | Place::Temp(_) => Vec::new(),
    }
}

fn distance(axes_inside: usize) -> u64 {
    1 << (AXIS_BITS * axes_inside.min(4) as u32)
}
