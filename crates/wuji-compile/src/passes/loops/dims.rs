//! The dimensions of an iteration space: their order, and the choice of units.

use super::Dim;
use rustc_hash::FxHashSet;
use std::num::NonZeroU32;
use wuji_ir::entities::Region;
use wuji_ir::layout::{GPU_VECTOR, TreeMemory};
use wuji_ir::module::*;
use wuji_ir::ops::*;

/// The most iterations of one unit.
const UNIT_LIMIT: u64 = 1 << 14;
/// The least number of units, so that threads can share them.
const MIN_UNITS: u64 = 64;

/// The dimensions of a field's cells in memory order, or in index order if requested.
pub(super) fn cell_dims(m: &Env, field: wuji_ir::entities::Field, index_order: bool) -> Vec<Dim> {
    let data = &m.fields[field];
    let tree = &m.trees[data.tree];
    let dim = |extent: u64, index: usize, scale: u64| Dim {
        bounds: RangeDim::new(
            Bound::Const(0),
            Bound::Const(i64::try_from(extent).unwrap_or(i64::MAX)),
        ),
        index,
        scale: scale as i64,
    };
    if index_order {
        let domain = data.domain(&m.trees);
        return domain
            .iter()
            .enumerate()
            .map(|(k, (_, e))| dim(*e, k, 1))
            .collect();
    }
    let path = tree.path(data.node);
    let mut dims = Vec::new();
    for (level, node) in path.iter().enumerate() {
        for (axis, extent) in &tree.nodes[*node].extents {
            let Some(index) = data.axes.iter().position(|a| a.0 == *axis) else {
                continue;
            };
            let scale: u64 = path[level + 1..]
                .iter()
                .flat_map(|n| &tree.nodes[*n].extents)
                .filter(|e| e.0 == *axis)
                .map(|e| e.1)
                .product();
            dims.push(dim(*extent, index, scale));
        }
    }
    dims
}

/// The most neighbours that one GPU thread takes: the elements of a 16-byte load.
const ROW: u64 = 4;
/// The least number of iterations for that, so that all threads are occupied.
pub(super) const MANY: u64 = 1 << 20;
/// Iterations of at most this many instructions are memory-bound.
const SHORT: u64 = 64;

/// How many neighbours one GPU thread takes, so that the loads and stores of neighbouring threads are adjacent: as many as a load has of
/// the largest cell or element that an iteration accesses.
pub(super) fn row_length(m: &Env, f: &Function, body: Region) -> u64 {
    let bytes = |place: Place| match place {
        Place::Field(field) => {
            let data = &m.fields[field];
            let memory = TreeMemory::of(&m.trees[data.tree], &m.fields, &m.structs);
            memory.map_or(0, |memory| memory.cell_size[data.node])
        }
        Place::Array(a) => m.structs.size_align(m.arrays[a].elem).0,
        Place::Local(_) | Place::Temp(_) => 0,
    };
    let insts = f.insts_in(body);
    let places = insts.filter_map(|i| f.insts[i].op.access().map(|a| a.place));
    let places: FxHashSet<Place> = places.collect();
    let largest = places.into_iter().map(bytes).max().unwrap_or(0);
    if largest.is_power_of_two() && largest <= GPU_VECTOR {
        (GPU_VECTOR / largest).min(ROW)
    } else {
        ROW
    }
}

/// Makes rows of so many neighbours in memory the innermost dimension, if there are enough of them.
pub(super) fn rows(dims: &mut Vec<Dim>, from: u64, row: u64) -> bool {
    let mut total = dims.iter().map(Dim::constant_extent);
    let total = total.try_fold(1u64, |n, e| n.checked_mul(e?));
    let Some(last) = dims.last() else {
        return false;
    };
    let (Some(extent), Bound::Const(0)) = (last.constant_extent(), last.bounds.lo) else {
        return false;
    };
    if row == 1 || total.is_none_or(|t| t < from) || !extent.is_multiple_of(row) {
        return false;
    }
    let (index, scale) = (last.index, last.scale);
    let dim = |extent: u64, scale: i64| Dim {
        bounds: RangeDim::new(Bound::Const(0), Bound::Const(extent as i64)),
        index,
        scale,
    };
    dims.pop();
    dims.push(dim(extent / row, scale * row as i64));
    dims.push(dim(row, scale));
    true
}

/// Threads of a block along both sides of a tile; the product is the block size.
const TILE: (u64, u64) = (8, 32);
/// This many loads of one field look like a stencil.
const STENCIL: usize = 3;

/// For stencils, the threads of a block take a tile of the last two dimensions instead of a row, so that their
/// loads hit the cache.
pub(super) fn tiles(f: &Function, body: Region, dims: &mut Vec<Dim>) {
    if !is_stencil(f, body) {
        return;
    }
    // The last dimension is the row of neighbours.
    let [.., above, along, _row] = &dims[..] else {
        return;
    };
    let whole = |dim: &Dim, side: u64| {
        let extent = dim.constant_extent().filter(|e| e.is_multiple_of(side));
        extent.filter(|_| dim.bounds.lo == Bound::Const(0))
    };
    let (Some(high), Some(wide)) = (whole(above, TILE.0), whole(along, TILE.1)) else {
        return;
    };
    let new = [
        part(above, high / TILE.0, TILE.0),
        part(along, wide / TILE.1, TILE.1),
        part(above, TILE.0, 1),
        part(along, TILE.1, 1),
    ];
    let row = dims.pop();
    dims.truncate(dims.len() - 2);
    dims.extend(new);
    dims.extend(row);
}

/// The same for a range whose extents are unknown, or not divisible: tiles at its end are cut off.
pub(super) fn cut_tiles(f: &Function, body: Region, dims: &mut Vec<Dim>) {
    let [.., above, along] = &dims[..] else {
        return;
    };
    // A field may have several dimensions for one index.
    let plain = |dim: &Dim| dims.iter().filter(|d| d.index == dim.index).count() == 1;
    let large = |dim: &Dim, side: u64| dim.constant_extent().is_none_or(|e| e >= side);
    let fits = plain(above) && plain(along) && large(above, TILE.0) && large(along, TILE.1);
    if !fits || !is_stencil(f, body) {
        return;
    }
    let stepped = |like: &Dim, side: u64| Dim {
        bounds: RangeDim {
            step: NonZeroU32::new(side as u32).unwrap_or(NonZeroU32::MIN),
            ..like.bounds
        },
        ..*like
    };
    let new = [
        stepped(above, TILE.0),
        stepped(along, TILE.1),
        part(above, TILE.0, 1),
        part(along, TILE.1, 1),
    ];
    dims.truncate(dims.len() - 2);
    dims.extend(new);
}

/// Numbers from zero, which count for an index as often as given.
fn part(like: &Dim, extent: u64, times: u64) -> Dim {
    Dim {
        bounds: RangeDim::new(Bound::Const(0), Bound::Const(extent as i64)),
        index: like.index,
        scale: like.scale * times as i64,
    }
}

fn is_stencil(f: &Function, body: Region) -> bool {
    let mut loads: Vec<(Place, usize)> = Vec::new();
    for inst in f.insts_in(body) {
        if let Op::Load(access) = &f.insts[inst].op {
            match loads.iter_mut().find(|l| l.0 == access.place) {
                Some(found) => found.1 += 1,
                None => loads.push((access.place, 1)),
            }
        }
    }
    loads.iter().any(|l| l.1 >= STENCIL)
}

/// Whether an iteration is short: few instructions and no loops.
pub(super) fn is_short(f: &Function, body: Region) -> bool {
    let mut count = 0;
    for inst in f.insts_in(body) {
        let op = &f.insts[inst].op;
        if matches!(op, Op::For(..) | Op::Loop(_) | Op::Call(_) | Op::Cell(..)) {
            return false;
        }
        let serial = matches!(
            op,
            Op::Atomic(..) | Op::CompareExchange(_) | Op::Print(_) | Op::Random
        );
        count += match op.elementwise() {
            Some(_) => op.cost().units(),
            None if serial => 8,
            None => 1,
        };
    }
    count <= SHORT
}

/// Whether unit numbers fit in 32 bits.
pub(super) fn few(dims: &[Dim]) -> bool {
    let mut extents = dims.iter().map(Dim::constant_extent);
    let total = extents.try_fold(1u64, |n, e| n.checked_mul(e?));
    total.is_some_and(|t| t < 1 << 31)
}

/// How many leading dimensions are collapsed into the unit number; the rest is one unit. `None`: collapse in rows.
pub(super) fn split(dims: &[Dim]) -> Option<usize> {
    let extents: Vec<Option<u64>> = dims.iter().map(Dim::constant_extent).collect();
    let total: Option<u64> = extents.iter().try_fold(1u64, |n, e| n.checked_mul((*e)?));
    // Collapsed, an empty domain has no units; as a nest inside units it would be entered for nothing.
    if dims.len() <= 1 || extents.contains(&Some(0)) {
        return Some(dims.len());
    }
    for k in 1..dims.len() {
        let Some(unit) = extents[k..]
            .iter()
            .try_fold(1u64, |n, e| n.checked_mul((*e)?))
        else {
            continue;
        };
        let outer = extents[..k]
            .iter()
            .try_fold(1u64, |n, e| n.checked_mul((*e)?));
        let enough = outer.is_none_or(|n| n >= MIN_UNITS) || total.is_some_and(|t| t < 1 << 12);
        if unit <= UNIT_LIMIT && enough {
            return Some(k);
        }
    }
    None
}
