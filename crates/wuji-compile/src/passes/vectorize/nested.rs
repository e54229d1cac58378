//! The loops to vectorize: innermost parallel loops, or serial loops inside them that run along memory.
//!
//! If an iteration is a row, a vector of iterations would gather a column. A serial loop along the row is vectorized
//! instead, if its iterations are independent. Independence is easy to see after access lowering: different fields never
//! overlap, and offsets are affine.

use super::innermost;
use crate::analysis::affine::{Affine, AffineAnalysis};
use crate::analysis::uses::used_values;
use crate::rewrite::Structure;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::smallvec;
use wuji_ir::entities::*;
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{I64, Imm, Scalar};

/// Loops with fewer iterations are not worth it.
const FEWEST: i128 = 32;

/// The loops of a function to vectorize. Their indices are `i64`; where that takes a change of the function, it is the
/// second result.
pub(super) fn choose(m: &Env, f: &Function) -> (Vec<Inst>, Option<Function>) {
    let outer = innermost(f);
    let used = used_values(f);
    let has_loops = |p: &Inst| serial_loops(f, f.insts[*p].regions[0]).next().is_some();
    if !outer.iter().any(has_loops) {
        return (outer, None);
    }
    let structure = Structure::of(f);
    let mut affine = AffineAnalysis::new(f, &structure);
    let mut chosen = Vec::new();
    let mut narrow = Vec::new();
    for parallel in outer {
        let rows = rows(m, &mut affine, &used, parallel);
        narrow.extend(rows.iter().copied().filter(|l| index_type(f, *l) != I64));
        if rows.is_empty() {
            chosen.push(parallel);
        }
        chosen.extend(rows);
    }
    if narrow.is_empty() {
        return (chosen, None);
    }
    let mut wide = f.clone();
    for inst in narrow {
        if let Some(region) = structure.region_of[inst].expand() {
            count_in_64_bits(&mut wide, region, inst);
        }
    }
    (chosen, Some(wide))
}

fn index_type(f: &Function, inst: Inst) -> wuji_ir::types::Type {
    f.ty(f.insts[inst].args[0])
}

/// Serial loops without loops inside.
fn serial_loops(f: &Function, body: Region) -> impl Iterator<Item = Inst> + '_ {
    let is_loop = |i: Inst| matches!(f.insts[i].op, Op::For(..) | Op::Loop(_));
    f.insts_in(body).filter(move |i| {
        matches!(f.insts[*i].op, Op::For(_, ForKind::Serial))
            && !f.insts_in(f.insts[*i].regions[0]).any(is_loop)
    })
}

/// The loops along memory in an iteration of a parallel loop; none if the iterations are along memory.
fn rows(
    m: &Env,
    affine: &mut AffineAnalysis<'_>,
    used: &FxHashSet<Value>,
    parallel: Inst,
) -> Vec<Inst> {
    let f = affine.func;
    let body = f.insts[parallel].regions[0];
    let outer = f.regions[body].params[0];
    let (mut found, mut along_inner, mut along_outer) = (Vec::new(), 0, 0);
    for inst in serial_loops(f, body) {
        let Some(accesses) = accesses(affine, used, inst) else {
            return Vec::new();
        };
        if accesses.is_empty() {
            continue;
        }
        if !are_independent(m, affine, inst, &accesses) {
            return Vec::new();
        }
        let index = f.regions[f.insts[inst].regions[0]].params[0];
        let along = |v: Value| {
            let runs = |a: &&MemoryAccess| a.offset.coefficient(v) == a.bytes;
            accesses.iter().filter(runs).count()
        };
        along_inner += along(index);
        along_outer += along(outer);
        found.push(inst);
    }
    if along_inner > along_outer {
        found
    } else {
        Vec::new()
    }
}

struct MemoryAccess {
    space: Space,
    stores: bool,
    /// An addition to memory of the thread, which has consecutive addresses.
    adds: bool,
    offset: Affine,
    bytes: i64,
}

/// The memory accesses of a loop; `None` if it does anything that a vectorized serial loop cannot do.
fn accesses(
    affine: &mut AffineAnalysis<'_>,
    used: &FxHashSet<Value>,
    inst: Inst,
) -> Option<Vec<MemoryAccess>> {
    let f = affine.func;
    let data = &f.insts[inst];
    let Op::For(label, _) = data.op else {
        return None;
    };
    let number = |k: usize| f.constant(data.args[k]).and_then(Imm::as_int);
    let short = number(1)
        .zip(number(0))
        .is_some_and(|(hi, lo)| hi - lo < FEWEST);
    let body = data.regions[0];
    let stays = |r: &Region| match f.regions[*r].term {
        Term::Continue(l, _) => l == label,
        Term::Yield(_) | Term::Unreachable => true,
        Term::Break(..) | Term::Return(_) => false,
    };
    let scalar = f.ty(data.args[0]).as_scalar();
    if data.args.len() != 3
        || number(2) != Some(1)
        || short
        || scalar.is_none_or(|s| s == Scalar::U64)
        || !f.regions_in(body).iter().all(stays)
    {
        return None;
    }
    let index = f.regions[body].params[0];
    let mut found = Vec::new();
    for i in f.insts_in(body) {
        let data = &f.insts[i];
        if let Op::MemAtomic(AtomicOp::Add, space, Sharing::Owned) = data.op {
            let access = MemoryAccess {
                space,
                stores: true,
                adds: true,
                offset: affine.expr(data.args[0]),
                bytes: i64::from(f.ty(data.args[1]).as_scalar()?.bytes()),
            };
            if used.contains(&data.results[0]) || access.offset.coefficient(index) != access.bytes {
                return None;
            }
            found.push(access);
            continue;
        }
        match data.op.lanes() {
            LaneClass::PerVector => {}
            LaneClass::Branching if data.op == Op::If => {}
            LaneClass::MemoryAccess => {
                let (space, ty, stores) = if let Op::MemLoad(space, ty) = data.op {
                    (space, ty, false)
                } else if let Op::MemStore(space) = data.op {
                    (space, f.ty(data.args[1]), true)
                } else {
                    return None;
                };
                found.push(MemoryAccess {
                    space,
                    stores,
                    adds: false,
                    offset: affine.expr(data.args[0]),
                    bytes: i64::from(ty.as_scalar()?.bytes()),
                });
            }
            LaneClass::Branching
            | LaneClass::LocalAccess
            | LaneClass::LaneByLane
            | LaneClass::Never => return None,
        }
    }
    Some(found)
}

/// Whether no iteration of a serial loop touches what another one writes.
fn are_independent(
    m: &Env,
    affine: &AffineAnalysis<'_>,
    inst: Inst,
    accesses: &[MemoryAccess],
) -> bool {
    let f = affine.func;
    let body = f.insts[inst].regions[0];
    let index = f.regions[body].params[0];
    let mut spaces: FxHashMap<Space, Vec<&MemoryAccess>> = FxHashMap::default();
    for access in accesses {
        spaces.entry(access.space).or_default().push(access);
    }
    let arrays = spaces.keys().filter(|s| matches!(s, Space::Array(_)));
    let one_array = arrays.count() < 2;
    spaces.iter().all(|(space, uses)| {
        if uses.iter().all(|u| !u.stores) {
            return !matches!(space, Space::Bytes(_) | Space::Streamed(_));
        }
        let apart = match space {
            Space::Tree(..) => true,
            Space::Array(a) => m.arrays[*a].contiguous && (one_array || m.arrays[*a].unaliased),
            Space::Nodes(_)
            | Space::Bytes(_)
            | Space::Streamed(_)
            | Space::Private(..)
            | Space::Temps => false,
        };
        // Their order does not matter, and lanes of one addition have different addresses.
        if uses.iter().all(|u| u.adds) {
            return apart || matches!(space, Space::Private(..));
        }
        let first = uses[0];
        let step = first.offset.coefficient(index);
        let invariant = |v: Value| v == index || affine.structure.is_invariant(f, v, body);
        apart
            && first.offset.terms.iter().all(|t| invariant(t.0))
            && uses.iter().all(|u| {
                let distance = u.offset.add_scaled(&first.offset, -1);
                let distance = distance.and_then(|d| d.as_constant());
                let bytes = u.bytes.max(first.bytes);
                distance.is_some_and(|d| {
                    d.saturating_abs().saturating_add(bytes) <= step.saturating_abs()
                })
            })
    })
}

/// Rewrites a loop with a narrower index to count in 64 bits.
fn count_in_64_bits(f: &mut Function, region: Region, inst: Inst) {
    let span = f.spans[inst];
    let bounds: Values = f.insts[inst].args[..3].into();
    let mut wide: Vec<Inst> = Vec::new();
    for v in bounds {
        wide.push(f.add_inst(Op::Convert(Scalar::I64), smallvec![v], &[I64], span));
    }
    for (k, w) in wide.iter().enumerate() {
        f.insts[inst].args[k] = f.result(*w);
    }
    // The step is a constant, and stays one.
    f.insts[wide[2]].op = Op::Const(Imm::int(Scalar::I64, 1));
    f.insts[wide[2]].args.clear();
    if let Some(at) = f.regions[region].insts.iter().position(|i| *i == inst) {
        f.regions[region].insts.splice(at..at, wide);
    }
    let body = f.insts[inst].regions[0];
    let index = f.regions[body].params[0];
    let Some(s) = f.ty(index).as_scalar() else {
        return;
    };
    let counter = f.add_region_param(body, I64);
    f.regions[body].params.pop();
    f.regions[body].params[0] = counter;
    f.values[counter].def = ValueDef::Param(body, 0);
    let narrow = f.add_inst(Op::Convert(s), smallvec![counter], &[], span);
    f.insts[narrow].results.push(index);
    f.values[index].def = ValueDef::Result(narrow, 0);
    f.regions[body].insts.insert(0, narrow);
}
