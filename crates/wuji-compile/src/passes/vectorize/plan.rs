//! The vector width of a loop, or the reason why it stays scalar.

use super::consecutive_add::adds_consecutive;
use super::cost::{CostModel, Machine};
use super::interleave::Groups;
use super::locals::{Role, Roles, local_of};
use super::shapes::{Shape, Shapes};
use wuji_ir::entities::*;
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{I64, Imm, Scalar};

pub(super) struct VectorPlan {
    pub(super) lanes: u16,
    /// The interleave factor: vectors per lane group, to hide latency.
    pub(super) parts: usize,
    /// Whether to emit an unmasked loop over full groups and a masked epilogue; otherwise everything is masked.
    pub(super) main: bool,
    /// The trip count, if it is known.
    pub(super) trips: Option<i64>,
    /// Bytes of the private arrays of all lanes.
    pub(super) bytes: u64,
    /// The loop only has contiguous memory accesses.
    pub(super) straight: bool,
}

/// Longer bodies are emitted only once, with masks.
const MOST_TWICE: usize = 500;

/// The most bytes of private arrays of all lanes.
const MOST_LOCAL_BYTES: u64 = 64 << 10;

/// Loops with fewer iterations are not vectorized.
const FEWEST: i64 = 4;

/// Vector registers that an inner loop may use.
const REGISTERS: usize = 24;

/// Statistics of a loop body.
#[derive(Default)]
struct Count {
    insts: usize,
    /// Varying instructions, with 64 bits or less.
    varying: usize,
    serial: usize,
    gathers: usize,
    /// Transcendental functions.
    functions: usize,
    widest: u32,
    has_loop: bool,
}

impl VectorPlan {
    pub(super) fn of(
        (m, f): (&Module, &Function),
        inst: Inst,
        shapes: &Shapes,
        roles: &Roles,
        groups: &Groups,
        machine: Machine,
        cost: bool,
    ) -> Result<VectorPlan, String> {
        let data = &f.insts[inst];
        let body = data.regions[0];
        if f.ty(data.args[0]) != I64 || data.args.len() != 3 {
            return Err("its index is not an `i64`, or it has carried values".into());
        }
        if number(f, data.args[2]) != Some(1) {
            return Err("its step is not 1".into());
        }
        let mut count = Count::default();
        look((m, f), body, shapes, groups, &mut count)?;
        let trips = number(f, data.args[1])
            .zip(number(f, data.args[0]))
            .map(|(hi, lo)| (hi - lo).max(0));
        // For memory-bound loops, half of the widest vectors would straddle two cache lines.
        let streams = !count.has_loop && count.gathers == 0 && count.serial == 0;
        let bits = if streams && count.functions == 0 {
            machine.vector_bits.min(256)
        } else {
            machine.vector_bits
        };
        let native = i64::from(bits / (8 * count.widest.max(4)));
        let mut lanes = native.clamp(2, 64);
        if let Some(n) = trips {
            if n < FEWEST {
                return Err(format!("it has {n} iterations"));
            }
            while lanes > n {
                lanes /= 2;
            }
        }
        if cost && count.serial * 6 > count.varying {
            return Err("most of it runs lane by lane".into());
        }
        let model = CostModel {
            f,
            shapes,
            roles,
            groups,
            machine,
            lanes: lanes as u16,
        };
        let speedup = model.of_region(body).speedup(lanes as u16);
        if cost && speedup < 1.0 {
            return Err(format!(
                "vectors would take {:.1} times as long",
                1.0 / speedup
            ));
        }
        let bytes = private_bytes(f, body, roles) * lanes as u64;
        if bytes > MOST_LOCAL_BYTES {
            return Err(format!("its local arrays take {bytes} bytes for all lanes"));
        }
        for (local, _) in roles.sums() {
            identity(f, local).ok_or("a sum does not start at a constant")?;
        }
        let mut parts = if bytes > 4096 || count.serial > 0 || count.gathers > 4 {
            1
        } else {
            parts(f, body, shapes, &count)
        };
        if let Some(n) = trips {
            let group = |parts: usize| lanes * parts as i64;
            while parts > 1 && n % group(parts) != 0 && n < 8 * group(parts) {
                parts /= 2;
            }
        }
        Ok(VectorPlan {
            lanes: lanes as u16,
            parts,
            main: count.insts * parts <= MOST_TWICE,
            trips,
            bytes,
            straight: streams,
        })
    }
}

fn number(f: &Function, v: Value) -> Option<i64> {
    f.constant(v)
        .and_then(Imm::as_int)
        .and_then(|n| i64::try_from(n).ok())
}

/// Inner loops have loop-carried dependences; interleaving several vectors hides their latency.
fn parts(f: &Function, body: Region, shapes: &Shapes, count: &Count) -> usize {
    if !count.has_loop {
        // Short bodies need several vectors in flight to memory.
        return match count.insts {
            ..=16 => 4,
            17..=48 => 2,
            _ => 1,
        };
    }
    let mut most = 4;
    for i in f.insts_in(body) {
        let data = &f.insts[i];
        if !matches!(data.op, Op::Loop(_) | Op::For(..)) {
            continue;
        }
        let live = live_in(f, data.regions[0], shapes);
        let (size, inner) = size(f, data.regions[0]);
        let fits = if size > 64 || inner {
            1
        } else {
            REGISTERS / live.max(1)
        };
        most = most.min(fits.max(1));
    }
    if most >= 4 {
        4
    } else if most >= 2 {
        2
    } else {
        1
    }
}

/// The vectors that are live across iterations of a loop.
fn live_in(f: &Function, body: Region, shapes: &Shapes) -> usize {
    let mut inside = rustc_hash::FxHashSet::default();
    let mut seen = rustc_hash::FxHashSet::default();
    let regions = f.regions_in(body);
    for r in &regions {
        inside.extend(f.regions[*r].params.iter().copied());
        for i in &f.regions[*r].insts {
            inside.extend(f.insts[*i].results.iter().copied());
        }
    }
    for r in regions {
        let used = f.regions[r]
            .insts
            .iter()
            .flat_map(|i| f.insts[*i].args.iter())
            .chain(f.regions[r].term.args());
        seen.extend(
            used.copied()
                .filter(|v| !inside.contains(v) && !shapes.is_uniform(*v)),
        );
    }
    let carried = f.regions[body]
        .params
        .iter()
        .filter(|p| !shapes.is_uniform(**p))
        .count();
    seen.len() + carried
}

fn size(f: &Function, region: Region) -> (usize, bool) {
    let is_loop = |i: Inst| matches!(f.insts[i].op, Op::Loop(_) | Op::For(..));
    let inside = f.insts_in(region);
    (inside.clone().count(), inside.clone().any(is_loop))
}

fn look(
    (m, f): (&Module, &Function),
    region: Region,
    shapes: &Shapes,
    groups: &Groups,
    count: &mut Count,
) -> Result<(), String> {
    if let Term::Return(_) = f.regions[region].term {
        return Err("an iteration returns from its function".into());
    }
    for i in &f.regions[region].insts {
        let data = &f.insts[*i];
        count.insts += 1;
        let varies = data
            .results
            .iter()
            .any(|r| shapes.shape(*r) == Shape::Varying);
        count.varying += usize::from(varies);
        match data.op.lanes() {
            LaneClass::PerVector => {
                let function = matches!(
                    data.op.cost(),
                    CostClass::Function | CostClass::LongFunction
                );
                count.functions += usize::from(varies && function);
            }
            LaneClass::MemoryAccess => {
                let s = if let Op::MemLoad(_, ty) = data.op {
                    ty.elem()
                } else {
                    f.ty(data.args[1]).elem()
                };
                width(s, count);
                if !groups.contains(*i) {
                    gather(shapes, data, s, count);
                }
            }
            LaneClass::LocalAccess => {
                let local = local_of(&data.op).map(|l| &f.locals[l]);
                if let Some(array) = local.filter(|l| l.len.is_some()) {
                    width(array.ty.elem(), count);
                }
            }
            LaneClass::LaneByLane => {
                if let Some(callee) = data.op.callee() {
                    // The call is inlined, so every lane runs the callee's instructions.
                    let callee = &m.funcs[callee];
                    count.serial += if callee.traits.inline {
                        callee.insts.len()
                    } else {
                        4
                    };
                } else if data.op.space().is_some() {
                    width(f.ty(data.args[1]).elem(), count);
                    count.serial += usize::from(!adds_consecutive(f, shapes, data));
                }
            }
            LaneClass::Branching => {
                count.has_loop |= matches!(data.op, Op::For(..) | Op::Loop(_));
                if let Op::For(..) = data.op {
                    let bounds = data.args[..3].iter().all(|v| shapes.is_uniform(*v));
                    if !bounds && number(f, data.args[2]).is_none_or(|s| s == 0) {
                        return Err("a loop inside has a step that varies".into());
                    }
                }
            }
            LaneClass::Never => {
                return Err(format!("`{}` cannot be vectorized", data.op.name()));
            }
        }
        for r in &data.regions {
            look((m, f), *r, shapes, groups, count)?;
        }
    }
    Ok(())
}

fn width(s: Option<Scalar>, count: &mut Count) {
    count.widest = count.widest.max(s.map_or(4, Scalar::bytes));
}

fn gather(shapes: &Shapes, data: &InstData, s: Option<Scalar>, count: &mut Count) {
    let run = s.map_or(0, |s| i64::from(s.bytes()));
    match shapes.shape(data.args[0]) {
        Shape::Uniform => {}
        Shape::Strided(stride) if stride == run => {}
        Shape::Strided(_) | Shape::Varying => count.gathers += 1,
    }
}

fn private_bytes(f: &Function, body: Region, roles: &Roles) -> u64 {
    let mut found = rustc_hash::FxHashSet::default();
    for i in f.insts_in(body) {
        found.extend(local_of(&f.insts[i].op));
    }
    found
        .into_iter()
        .filter(|l| roles.of(*l) == Role::Private)
        .map(|l| {
            let data = &f.locals[l];
            let bytes = u64::from(data.ty.elem().map_or(8, Scalar::bytes));
            bytes * u64::from(data.len.unwrap_or(1))
        })
        .sum()
}

/// The initial value of an accumulator.
pub(super) fn identity(f: &Function, local: Local) -> Option<Imm> {
    f.regions[f.entry].insts.iter().find_map(|i| {
        let data = &f.insts[*i];
        let stores = matches!(data.op, Op::Store(_)) && local_of(&data.op) == Some(local);
        stores.then(|| f.constant(data.args[0])).flatten()
    })
}
