//! Turns parallel tasks into functions over chunks of units, with explicit loops in memory order.
//!
//! The iteration space is a list of dimensions, slowest first: the axes of a range, or for the cells of a field the
//! axes of every node on its path, so that the innermost loop is contiguous in memory. Trailing dimensions of
//! constant size become a full loop nest, *one unit*; the others are collapsed. If the last dimension is large or
//! unknown, a chunk runs along it in rows, so that iterations need no division.
//!
//! On a GPU a unit is one iteration, and neighbouring threads take neighbouring iterations.

mod dims;
mod nest;
mod order;
mod sparse;
mod temps;
mod threads;

use crate::analysis::cost;
use crate::options::{Options, Target};
use crate::passes::Cx;
use crate::rewrite::Substitution;
use dims::{MANY, cell_dims, cut_tiles, few, is_short, row_length, rows, split, tiles};
use nest::extents;
use sparse::{ListLoop, Mask};
use temps::TempValues;
use threads::prepare_threads;
use wuji_ir::Result;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Field, Func, Inst, Label, Region, Value};
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{I64, Scalar, Type};

/// The pass; the [module](self) describes it.
pub fn loops(m: &mut Module, cx: &mut Cx) -> Result<()> {
    let options = cx.options.clone();
    let temps = TempValues::of(m);
    let mut tasks = Vec::new();
    for mut task in std::mem::take(&mut m.tasks) {
        match task.kind.clone() {
            TaskKind::Serial => serial(m, task.func),
            TaskKind::Chunks { .. } => {}
            TaskKind::Range { dims, hints } => {
                let mut dims: Vec<Dim> = dims
                    .iter()
                    .enumerate()
                    .map(|(k, d)| Dim {
                        bounds: *d,
                        index: k,
                        scale: 1,
                    })
                    .collect();
                if options.target == Target::Cpu && !hints.serial && cx.uses("interchange") {
                    let f = &m.funcs[task.func];
                    order::sort_by_stride(&m.env, f, &f.params()[m.params.len()..], &mut dims);
                }
                let space = IterationSpace {
                    dims,
                    list: None,
                    origins: &[],
                    hints,
                    compact: false,
                };
                task.kind = chunk(m, task.func, space, &temps, &options);
            }
            TaskKind::Cells { field, hints } => {
                let origins: Vec<i64> = m.fields[field].axes.iter().map(|a| a.1).collect();
                let (list, dims) = match sparse::plan(m, field) {
                    Some((list, dims)) => (Some(list), dims),
                    None => (None, cell_dims(m, field, hints.serial)),
                };
                if let Some(list) = &list {
                    if hints.serial {
                        return Err(sparse::refuse_serial(m, field, &task));
                    }
                    tasks.extend(list.list_tasks(m, &task, cx)?);
                }
                let space = IterationSpace {
                    dims,
                    list: list.map(|l| (l, field)),
                    origins: &origins,
                    hints,
                    compact: compacts(m, task.func, cx),
                };
                task.kind = chunk(m, task.func, space, &temps, &options);
            }
        }
        tasks.push(task);
    }
    m.tasks = tasks;
    Ok(())
}

/// Serial code runs as iteration 0.
fn serial(m: &mut Module, func: Func) {
    let zero = wuji_ir::types::Imm::zero(Scalar::I64);
    for inst in m.funcs[func].insts.values_mut() {
        if inst.op == Op::Iteration {
            inst.op = Op::Const(zero);
        }
    }
}

/// One dimension: `scale *` its number is added to one index of the loop.
struct Dim {
    bounds: RangeDim,
    index: usize,
    scale: i64,
}

impl Dim {
    fn constant_extent(&self) -> Option<u64> {
        self.bounds.constant_count()
    }

    /// The numbers of a stepped dimension begin tiles, and the last tile may be cut off.
    fn is_stepped(&self) -> bool {
        self.bounds.step.get() > 1
    }
}

/// The loop over a task's iterations, before it is emitted.
struct IterationSpace<'a> {
    dims: Vec<Dim>,
    /// The list of active cells of the loop, and the field they belong to.
    list: Option<(ListLoop, Field)>,
    /// Added to each index; empty means zeros.
    origins: &'a [i64],
    hints: LoopHints,
    /// On a GPU, the threads of an entry take its active cells.
    compact: bool,
}

/// Whether finding the active cells of an entry costs less than threads that do nothing.
fn compacts(m: &Module, func: Func, cx: &Cx) -> bool {
    let f = &m.funcs[func];
    cx.options.target == Target::Cuda
        && cx.uses("compact_masks")
        && cost::work(f, f.entry) >= sparse::WORTH_COMPACTING
}

/// How a loop is divided into units.
struct Schedule {
    /// How many leading dimensions are collapsed; `None`: a chunk runs along rows.
    outer: Option<usize>,
    /// On a GPU, a thread block takes an entry of the list.
    blocks: bool,
}

/// Turns the function of a parallel task into one that runs a chunk of it.
fn chunk(
    m: &mut Module,
    func: Func,
    mut space: IterationSpace<'_>,
    temps: &TempValues,
    options: &Options,
) -> TaskKind {
    let Module { env, funcs, .. } = m;
    let f = &mut funcs[func];
    let kernel_params = env.params.len();
    let body = f.entry;
    let old_params: Vec<Value> = f.params().to_vec();
    let (params, mut subst) = replace_entry(env, f);
    let schedule = schedule(env, f, body, &mut space, options);
    lift_skip(f, body);
    if space.hints.cooperative {
        // The entry gets this code before anything else; the body is not part of the function yet.
        let threads = space.hints.threads();
        prepare_threads(&mut Builder::new(env, f), body, threads, &mut subst);
    }
    let old_indices = old_params[kernel_params..].to_vec();
    let index_types = old_indices.iter().map(|v| f.ty(*v)).collect();
    let entry = f.entry;
    let mut b = Builder::new(env, f);
    let mut nest = Nest {
        kind: if space.hints.serial {
            ForKind::Serial
        } else {
            ForKind::Parallel
        },
        short: options.target == Target::Cuda && few(&space.dims),
        gpu: options.target == Target::Cuda,
        compact: space.compact,
        bounds: Vec::new(),
        dims: &space.dims,
        tiled: None,
        mask: None,
        domain: space.list.as_ref().map(|(_, f)| extents(b.env, *f)),
        body,
        origins: space.origins,
        index_types,
        old_indices,
        subst,
    };
    nest.load_bounds(&mut b, &params, temps);
    let (begin, end) = (params[kernel_params], params[kernel_params + 1]);
    match (&space.list, schedule.outer) {
        (Some((list, _)), _) => match options.target {
            Target::Cpu => nest.entries(&mut b, list, begin, end),
            Target::Cuda if schedule.blocks => nest.blocks(&mut b, list, begin, end),
            Target::Cuda => nest.elements(&mut b, list, begin, end),
        },
        (None, Some(outer)) => nest.units(&mut b, outer, begin, end),
        (None, None) => nest.rows(&mut b, begin, end),
    }
    b.region = entry;
    b.end(Term::Return(Values::new()));
    let subst = nest.subst;
    subst.apply(f);
    env.signatures[func] = f.signature();
    task_kind(&space, &schedule, options.target)
}

/// Replaces the entry region by one that takes the kernel's parameters and the range of a chunk. The old one
/// becomes the body of the loop.
fn replace_entry(env: &Env, f: &mut Function) -> (Vec<Value>, Substitution) {
    let old: Vec<Value> = f.params().to_vec();
    let mut types: Vec<Type> = env.params.iter().map(|p| p.ty).collect();
    types.extend([I64, I64]);
    f.entry = f.add_region(&types);
    let new: Vec<Value> = f.params().to_vec();
    let mut subst = Substitution::new();
    for (old, new) in old.iter().zip(&new[..env.params.len()]) {
        subst.set(*old, *new);
    }
    (new, subst)
}

/// Chooses the schedule of a loop. On a GPU this may change the dimensions.
fn schedule(
    env: &Env,
    f: &Function,
    body: Region,
    space: &mut IterationSpace<'_>,
    options: &Options,
) -> Schedule {
    let hints = &space.hints;
    let outer = match options.target {
        Target::Cpu => split(&space.dims),
        Target::Cuda => {
            let short =
                space.list.is_none() && !hints.serial && !hints.cooperative && is_short(f, body);
            let from = options.rows_from.unwrap_or(MANY);
            if short && rows(&mut space.dims, from, row_length(env, f, body)) {
                tiles(f, body, &mut space.dims);
                Some(space.dims.len() - 1)
            } else {
                if short {
                    cut_tiles(f, body, &mut space.dims);
                }
                Some(space.dims.len())
            }
        }
    };
    // Threads of a block share the loops inside of an entry, so there have to be some.
    let iterations = (space.list.as_ref()).map_or(1, |(list, _)| list.unit(&space.dims));
    let uses = |name: &str| !options.without.iter().any(|w| w == name);
    let blocks = options.target == Target::Cuda
        && iterations > 1
        && uses("scratchpads")
        && keeps_near(f, body, |field| {
            cost::sums_pay(env, field, options.sm)
                || cost::sorting_pays(iterations, 1)
                    && uses("sorted_sums")
                    && !options.deterministic
        });
    Schedule { outer, blocks }
}

/// The resulting kind of the task: the dimensions whose units are collapsed, and the unit size.
fn task_kind(space: &IterationSpace<'_>, schedule: &Schedule, target: Target) -> TaskKind {
    let (dims, hints) = (&space.dims, space.hints);
    let Some((list, _)) = &space.list else {
        let outer = schedule.outer.unwrap_or(dims.len());
        let extents = dims[outer..].iter().filter_map(Dim::constant_extent);
        let spread = LoopHints {
            block_size: hints.block_size.or(small_blocks(&dims[..outer])),
            ..hints
        };
        return TaskKind::Chunks {
            dims: dims[..outer].iter().map(|d| d.bounds).collect(),
            unit: extents.product(),
            hints: match target {
                Target::Cuda if !hints.cooperative && !hints.serial => spread,
                Target::Cuda | Target::Cpu => hints,
            },
        };
    };
    let unit = list.unit(dims);
    match target {
        Target::Cpu => TaskKind::Chunks {
            unit,
            dims: vec![list.bounds()],
            hints,
        },
        Target::Cuda if schedule.blocks => TaskKind::Chunks {
            unit,
            dims: vec![list.bounds()],
            hints: LoopHints {
                blocks: true,
                block_size: hints.block_size.or(Some(threads_for(unit))),
                ..hints
            },
        },
        Target::Cuda => {
            let inside = RangeDim::new(
                Bound::Const(0),
                Bound::Const(i64::try_from(unit).unwrap_or(i64::MAX)),
            );
            TaskKind::Chunks {
                unit: 1,
                dims: vec![list.bounds(), inside],
                hints,
            }
        }
    }
}

/// Whether some field should have a scratchpad in shared memory; `sums_pay` says whether that is faster for sums into a
/// field.
fn keeps_near(f: &Function, body: Region, sums_pay: impl Fn(Field) -> bool) -> bool {
    let (mut cached, mut added) = (Vec::new(), Vec::new());
    for inst in f.insts_in(body) {
        let op = &f.insts[inst].op;
        if let Op::Cache(field) = op {
            cached.push(*field);
        }
        if let Op::Atomic(_, access) = op
            && let Place::Field(field) = access.place
        {
            added.push(field);
        }
    }
    let pays = |field: &Field| !added.contains(field) || sums_pay(*field);
    cached.iter().any(pays)
}

/// The thread block size for this many elements: at most one thread per element, but enough to fill and flush the
/// scratchpads.
fn threads_for(elements: u64) -> u32 {
    elements.clamp(64, 256).next_multiple_of(WARP.into()) as u32
}

/// Multiprocessors of a large GPU.
const MULTIPROCESSORS: u64 = 128;

/// The block size for few units, so that all multiprocessors have some of them.
fn small_blocks(dims: &[Dim]) -> Option<u32> {
    let mut extents = dims.iter().map(Dim::constant_extent);
    let units = extents.try_fold(1u64, |n, e| n.checked_mul(e?))?;
    let each = units.div_ceil(MULTIPROCESSORS).max(1);
    let threads = each.checked_next_multiple_of(WARP.into())?;
    let threads = u32::try_from(threads).ok()?;
    (threads < THREADS).then_some(threads)
}

/// Moves the early return of a body out of the loop, so that the whole chunk is skipped.
fn lift_skip(f: &mut Function, body: Region) {
    let &[load, step, later, branch, ..] = &f.regions[body].insts[..] else {
        return;
    };
    let result = |inst: Inst| f.insts[inst].results.first();
    let temp = matches!(&f.insts[load].op, Op::Load(a) if matches!(a.place, Place::Temp(_)));
    let compares = matches!(f.insts[step].op, Op::Const(_))
        && f.insts[later].op == Op::Compare(CmpOp::Gt)
        && (f.insts[later].args.first(), f.insts[later].args.get(1))
            == (result(load), result(step));
    let data = &f.insts[branch];
    let skips = data.op == Op::If
        && data.args.first() == result(later)
        && data.regions.iter().all(|r| f.regions[*r].insts.is_empty())
        && matches!(f.regions[data.regions[0]].term, Term::Return(_))
        && matches!(f.regions[data.regions[1]].term, Term::Yield(_));
    if temp && compares && skips {
        let entry = f.entry;
        let skip: Vec<Inst> = f.regions[body].insts.drain(..4).collect();
        f.regions[entry].insts.extend(skip);
    }
}

#[derive(Copy, Clone)]
struct Bounds {
    lo: Value,
    hi: Value,
    extent: Value,
}

struct Nest<'a> {
    /// The kind of the loops: iterations with the hint `serial` stay in order.
    kind: ForKind,
    /// Unit numbers are split in 32 bits.
    short: bool,
    gpu: bool,
    /// The threads of an entry take its active cells.
    compact: bool,
    dims: &'a [Dim],
    /// The loop over units, if stepped dimensions are among them.
    tiled: Option<Label>,
    /// The mask of active cells of a box.
    mask: Option<Mask>,
    /// Extents of the indices, if they differ from the product of the dimensions.
    domain: Option<Vec<u64>>,
    /// Every dimension's `lo`, `hi` and extent, `i64`.
    bounds: Vec<Bounds>,
    body: Region,
    /// Added to each index; empty means zeros.
    origins: &'a [i64],
    index_types: Vec<Type>,
    old_indices: Vec<Value>,
    subst: Substitution,
}
