//! Privatization: scattered atomics go to per-worker copies of a field or an array, which are merged after the task.
//!
//! A field qualifies if the task only applies one kind of atomic to it and does not use the old values, if all its
//! elements exist, and if the gain outweighs the merge:
//!
//! - a copy has at most [`MOST_BYTES`];
//! - if the number of iterations is known, they make at least one update per [`BYTES_PER_UPDATE`] bytes;
//! - if it is unknown, a copy has at most [`MOST_BYTES_UNKNOWN`], and the launch decides how many workers get one.
//!
//! Worker 0 uses the field itself, so a launch on one thread has no overhead.
//!
//! Of a field of which the task updates only a [slice](slices), copies of the slice suffice.
//!
//! An [array](arrays) qualifies like a field, if its shape is known.
//!
//! In deterministic worlds the number of workers is fixed. Float updates of temps, and the updates at the end of
//! chunks where reductions store their results, are privatized too.

mod arrays;
mod scattered;
mod slices;
mod upkeep;

pub use slices::slices;

use crate::analysis::cost::likely_trips;
use crate::analysis::merging::{BYTES_PER_UPDATE, merged_bytes};
use crate::analysis::uses::used_values;
use crate::options::Target;
use crate::passes::Cx;
use rustc_hash::{FxHashMap, FxHashSet};
use scattered::scattered_fields;
use wuji_ir::entities::{Array, Field, Func, Node, Region, Temp, Tree};
use wuji_ir::layout::TreeMemory;
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::Imm;
use wuji_ir::{Error, Result, infer};

/// Bytes of one worker's copies for one task.
const MOST_BYTES: u64 = 64 << 20;
/// The same if the trip count is unknown.
const MOST_BYTES_UNKNOWN: u64 = 1 << 20;
/// Fields this small are merged at negligible cost.
const FEW_BYTES: u64 = 4096;

/// The pass; the [module](self) describes it.
pub fn privatize(m: &mut Module, cx: &mut Cx) -> Result<()> {
    if !has_workers(cx) {
        return Ok(());
    }
    let mut out = Vec::new();
    for mut task in std::mem::take(&mut m.tasks) {
        let plan = plan(m, &task, cx.options.deterministic)?;
        let Some(plan) = plan.filter(|_| cx.fuel()) else {
            out.push(task);
            continue;
        };
        redirect(m, task.func, &plan);
        let (fills, merges) = upkeep::tasks(m, &plan.groups, &task);
        task.copies = Copies::Uses {
            fields: plan.fields,
            arrays: plan.arrays,
            temps: plan.temps,
            updates: plan.updates,
        };
        out.extend(fills);
        out.push(task);
        out.extend(merges);
    }
    m.tasks = out;
    Ok(())
}

/// Whether several workers run a task. GPUs have too many threads for a copy each, and fast atomics.
fn has_workers(cx: &Cx) -> bool {
    let alone = cx.options.threads == 1 && !cx.options.deterministic;
    !alone && cx.options.target == Target::Cpu
}

/// Fields of one node, whose elements are adjacent in memory.
struct Group {
    tree: Tree,
    node: Node,
    /// The part of the fields that is updated; of all of them the same.
    slice: Option<Slice>,
    memory: TreeMemory,
    fields: Vec<(Field, AtomicOp)>,
}

impl Group {
    fn bytes(&self, m: &Env) -> u64 {
        let fields = self.fields.iter().map(|f| f.0);
        merged_bytes(m, &self.memory, self.node, fields) / self.slices(m)
    }

    /// The number of slices of which one is updated.
    fn slices(&self, m: &Env) -> u64 {
        let extents = &m.trees[self.tree].nodes[self.node].extents;
        self.slice.map_or(1, |_| extents[0].1)
    }
}

struct PrivatizationPlan {
    fields: Vec<(Field, AtomicOp)>,
    arrays: Vec<(Array, AtomicOp)>,
    temps: Vec<(Temp, AtomicOp)>,
    groups: Vec<Group>,
    updates: u64,
}

/// Decides which fields and arrays of a task to privatize.
fn plan(m: &Module, task: &Task, deterministic: bool) -> Result<Option<PrivatizationPlan>> {
    let TaskKind::Chunks { dims, unit, hints } = &task.kind else {
        return Ok(None);
    };
    if hints.serial || task.lists.is_some() {
        return Ok(None);
    }
    let f = &m.funcs[task.func];
    let mut groups = groups(m, &task.slices, &scattered_fields(m, f, &task.slices))?;
    let mut left = match iterations(dims, *unit) {
        Some(_) => MOST_BYTES,
        None => MOST_BYTES_UNKNOWN,
    };
    let mut is_worth = |bytes: u64, updates: u64| {
        let paid = iterations(dims, *unit).map_or(u64::MAX, |n| {
            n.saturating_mul(updates).saturating_mul(BYTES_PER_UPDATE)
        });
        // The results of chunks are cheap to merge, in any required order.
        let ends = deterministic && updates == 0 && bytes <= FEW_BYTES;
        let worth = ends || updates > 0 && bytes <= left.min(paid);
        left -= if worth { bytes } else { 0 };
        worth
    };
    groups.retain(|group| {
        let own = |space: &Space| matches!(space, Space::Tree(_, f) if has(&group.fields, *f));
        is_worth(group.bytes(m), updates(m, f, f.entry, &own))
    });
    let mut arrays = arrays::candidates(m, f, deterministic);
    arrays.retain(|(array, _)| {
        let own = |space: &Space| matches!(space, Space::Array(a) if a == array);
        is_worth(arrays::bytes(m, *array), updates(m, f, f.entry, &own))
    });
    let temps = if deterministic {
        added_up(m, f)
    } else {
        Vec::new()
    };
    let fields: Vec<_> = groups.iter().flat_map(|g| g.fields.clone()).collect();
    let some = !groups.is_empty() || !arrays.is_empty() || !temps.is_empty();
    let private = |space: &Space| match space {
        Space::Tree(_, field) => has(&fields, *field),
        Space::Array(array) => has(&arrays, *array),
        Space::Private(..)
        | Space::Nodes(_)
        | Space::Bytes(_)
        | Space::Streamed(_)
        | Space::Temps => false,
    };
    let updates = updates(m, f, f.entry, &private);
    Ok(some.then_some(PrivatizationPlan {
        updates,
        temps,
        fields,
        arrays,
        groups,
    }))
}

fn has<K: PartialEq>(found: &[(K, AtomicOp)], key: K) -> bool {
    found.iter().any(|(other, _)| *other == key)
}

/// Temps that a task only updates, each by one operation; empty if it accesses temps in another way that other
/// threads could observe.
fn added_up(m: &Env, f: &Function) -> Vec<(Temp, AtomicOp)> {
    let used = used_values(f);
    let (offsets, size) = m.temp_offsets();
    let temp_at = |offset: i128| {
        let last = offsets.iter().rposition(|at| i128::from(*at) <= offset)?;
        (offset < i128::from(size)).then(|| Temp::from_u32(last as u32))
    };
    let mut found: Vec<(Temp, AtomicOp)> = Vec::new();
    let mut read: FxHashSet<Temp> = FxHashSet::default();
    let mut fits = true;
    let mut seen_calls = false;
    f.walk(|inst| {
        let data = &f.insts[inst];
        let offset = || f.constant(*data.args.first()?).and_then(Imm::as_int);
        if let Op::MemAtomic(op, Space::Temps, Sharing::Shared) = &data.op {
            let plain = *op != AtomicOp::Exchange && !used.contains(&data.results[0]);
            match offset().and_then(temp_at).filter(|_| plain) {
                None => fits = false,
                Some(temp) => match found.iter().find(|(other, _)| *other == temp) {
                    None => found.push((temp, *op)),
                    Some((_, other)) => fits &= other == op,
                },
            }
        }
        if let Op::MemLoad(Space::Temps, _) = data.op {
            match offset().and_then(temp_at) {
                None => fits = false,
                Some(temp) => {
                    read.insert(temp);
                }
            }
        }
        if let Op::MemStore(Space::Temps) | Op::MemCompareExchange(Space::Temps) = data.op {
            fits = false;
        }
        seen_calls |= data.op.callee().is_some();
    });
    // A callee might access them in any way.
    fits &= !seen_calls && found.iter().all(|(temp, _)| !read.contains(temp));
    fits &= found.iter().all(|(temp, op)| {
        let scalars = m.structs.flatten(m.temps[*temp].ty);
        scalars.iter().all(|s| infer::atomic(*op, *s).is_ok())
    });
    if fits { found } else { Vec::new() }
}

/// Estimates the scalars that one iteration updates. Atomics outside of loops run once per chunk and do not count.
fn updates(m: &Env, f: &Function, region: Region, private: &dyn Fn(&Space) -> bool) -> u64 {
    let in_loop = region != f.entry;
    let mut sum = 0u64;
    for inst in &f.regions[region].insts {
        let inside = |r: &Region| updates(m, f, *r, private);
        let data = &f.insts[*inst];
        if let Op::MemAtomic(_, space, Sharing::Shared) = &data.op
            && in_loop
            && private(space)
        {
            let scalars = m.structs.flatten(f.ty(data.args[1])).len();
            sum = sum.saturating_add(scalars as u64);
        }
        sum = sum.saturating_add(match data.op.control() {
            None => 0,
            Some(ControlOp::If) => data.regions.iter().map(inside).max().unwrap_or(0),
            // Rarely executed.
            Some(ControlOp::For(_, ForKind::Boundary)) => 0,
            Some(ControlOp::For(_, ForKind::Serial)) => {
                let turns = likely_trips(f, *inst).unwrap_or(UNKNOWN_TRIPS);
                data.regions
                    .iter()
                    .map(inside)
                    .sum::<u64>()
                    .saturating_mul(turns)
            }
            Some(ControlOp::Loop(_)) => {
                let once: u64 = data.regions.iter().map(inside).sum();
                once.saturating_mul(UNKNOWN_TRIPS)
            }
            Some(
                ControlOp::Block(_) | ControlOp::For(_, ForKind::Parallel) | ControlOp::ForEach(..),
            ) => data.regions.iter().map(inside).sum(),
        });
    }
    sum
}

/// The assumed trip count of a loop with unknown bounds.
const UNKNOWN_TRIPS: u64 = 4;

/// The number of iterations of a loop with known bounds.
fn iterations(dims: &[RangeDim], unit: u64) -> Option<u64> {
    dims.iter().try_fold(unit, |all, dim| {
        Some(all.saturating_mul(dim.constant_count()?))
    })
}

fn groups(m: &Env, slices: &[Slice], fields: &[(Field, AtomicOp)]) -> Result<Vec<Group>> {
    let mut groups: Vec<Group> = Vec::new();
    let mut places = FxHashMap::default();
    for (field, op) in fields {
        let data = &m.fields[*field];
        let slice = slices.iter().find(|s| s.field == *field).copied();
        let index = slice.map(|s| (s.param, s.offset));
        let key = (data.tree, data.node, index);
        let at = match places.get(&key) {
            Some(at) => *at,
            None => {
                let tree = &m.trees[data.tree];
                let memory = TreeMemory::of(tree, &m.fields, &m.structs).ok_or_else(|| {
                    let why = format!("{} is larger than 2^62 bytes", data.tree);
                    Error::new("W0106", why)
                })?;
                groups.push(Group {
                    tree: data.tree,
                    node: data.node,
                    slice,
                    memory,
                    fields: Vec::new(),
                });
                places.insert(key, groups.len() - 1);
                groups.len() - 1
            }
        };
        groups[at].fields.push((*field, *op));
    }
    Ok(groups)
}

/// Redirects the task's atomics to the worker's copies.
fn redirect(m: &mut Module, func: Func, plan: &PrivatizationPlan) {
    for inst in m.funcs[func].insts.values_mut() {
        if let Op::MemAtomic(_, space, sharing) = &mut inst.op
            && let Space::Tree(tree, field) = *space
            && has(&plan.fields, field)
        {
            *space = Space::Private(tree, field);
            *sharing = Sharing::Owned;
        }
        if let Op::MemAtomic(_, Space::Array(array), sharing) = &mut inst.op
            && has(&plan.arrays, *array)
        {
            *sharing = Sharing::Owned;
        }
        if let Op::MemAtomic(_, Space::Temps, sharing) = &mut inst.op
            && !plan.temps.is_empty()
        {
            *sharing = Sharing::Owned;
        }
    }
}
