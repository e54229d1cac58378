//! Checks the invariants that backends rely on, so that unsupported code is reported here, with its position.
//!
//! Tasks are `serial` or `chunks`. All values are scalars, or vectors of one scalar per lane. Memory is accessed by
//! byte offset, locals by an index in range. Checks, messages and random numbers have been lowered to reports.

use super::Cx;
use rustc_hash::FxHashSet;
use wuji_ir::entities::*;
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::Type;
use wuji_ir::{Error, Position, Result};

/// The most bytes of locals of one function: they are on the stack of a worker.
const MAX_LOCAL_BYTES: u64 = 256 << 10;

/// The same for recursive functions, which may have many activations.
const MAX_RECURSIVE_LOCAL_BYTES: u64 = 4 << 10;

/// The most bytes of shared arrays of a task: the static shared memory that every GPU has.
const MAX_SHARED_BYTES: u64 = 48 << 10;

/// The pass; the [module](self) describes it.
pub fn legality(module: &mut Module, _: &mut Cx) -> Result<()> {
    let m = &*module;
    if m.kernel.is_some() {
        return Err(internal("the kernel was not split into tasks"));
    }
    for task in &m.tasks {
        match task.kind {
            TaskKind::Serial | TaskKind::Chunks { .. } => {}
            TaskKind::Range { .. } | TaskKind::Cells { .. } => {
                return Err(internal(format!(
                    "the task `{}` has not become a loop",
                    task.name
                )));
            }
        }
        check_params(m, task)?;
    }
    let tasks: FxHashSet<Func> = m.tasks.iter().map(|task| task.func).collect();
    for func in m.called_by(m.tasks.iter().map(|task| task.func)) {
        let f = &m.funcs[func];
        let local_bytes = if tasks.contains(&func) {
            MAX_LOCAL_BYTES
        } else {
            MAX_RECURSIVE_LOCAL_BYTES
        };
        check_locals(m, f, local_bytes)?;
        for ty in &f.results {
            scalar(*ty).map_err(|why| internal(format!("`{}` returns {why}", f.name)))?;
        }
        for region in f.walk_regions() {
            for p in &f.regions[region].params {
                lanes(f.ty(*p)).map_err(|why| internal(format!("a parameter is {why}")))?;
            }
            for inst in &f.regions[region].insts {
                check(m, f, *inst).map_err(|why| {
                    let op = &f.insts[*inst].op;
                    internal(format!("{why} (`{op:?}` in `{}`)", f.name))
                        .at(Position::of(m, f.spans[*inst]))
                })?;
            }
        }
    }
    Ok(())
}

fn internal(message: impl Into<String>) -> Error {
    Error::new("W0330", message).note("this is a bug in the compiler, not in the kernel")
}

/// The function of a task takes the scalars of the kernel's parameters, then `begin` and `end`.
fn check_params(m: &Module, task: &Task) -> Result<()> {
    let slots = m.param_slots().last().copied().unwrap_or(0);
    let own = match task.kind {
        TaskKind::Chunks { .. } => 2,
        TaskKind::Serial | TaskKind::Range { .. } | TaskKind::Cells { .. } => 0,
    };
    let found = m.funcs[task.func].params().len();
    if found == slots + own {
        return Ok(());
    }
    Err(internal(format!(
        "the task `{}` takes {found} scalars instead of {}",
        task.name,
        slots + own
    )))
}

fn check_locals(m: &Env, f: &Function, limit: u64) -> Result<()> {
    let mut bytes = 0u64;
    let mut shared = 0u64;
    for local in f.locals.values() {
        lanes(local.ty).map_err(|why| internal(format!("`{}` is {why}", local.name)))?;
        let (size, _) = m.structs.size_align(local.ty);
        if local.shared {
            shared += (size * u64::from(local.len.unwrap_or(1))).next_multiple_of(16);
            if shared > MAX_SHARED_BYTES {
                return Err(Error::new(
                    "W0351",
                    format!("the shared arrays of `{}` are too large", f.name),
                )
                .note(format!(
                    "together they may have {MAX_SHARED_BYTES} bytes, which all threads of a block have in common"
                ))
                .help("share fewer elements at a time, or keep them in a field"));
            }
            continue;
        }
        bytes += size * u64::from(local.len.unwrap_or(1));
        if bytes > limit {
            return Err(Error::new(
                "W0331",
                format!("the local arrays of `{}` are too large", f.name),
            )
            .note(format!("together they may have {limit} bytes"))
            .help("keep large arrays in a field, with one more axis"));
        }
    }
    Ok(())
}

fn scalar(ty: Type) -> std::result::Result<(), String> {
    match ty.as_scalar() {
        Some(_) => Ok(()),
        None => Err(format!("`{ty}`, not a scalar")),
    }
}

/// A scalar, or a vector of lanes from `vectorize`.
fn lanes(ty: Type) -> std::result::Result<(), String> {
    match ty {
        Type::Scalar(_) => Ok(()),
        Type::Vector(_, n) if n.is_power_of_two() => Ok(()),
        Type::Vector(..) | Type::Matrix(..) | Type::Struct(_) => {
            Err(format!("`{ty}`, neither a scalar nor a vector of lanes"))
        }
    }
}

fn check(m: &Env, f: &Function, inst: Inst) -> std::result::Result<(), String> {
    let data = &f.insts[inst];
    for v in data.results.iter().chain(&data.args) {
        lanes(f.ty(*v)).map_err(|why| format!("{v} is {why}"))?;
    }
    let stage = data.op.info().stage;
    if matches!(stage, Stage::Frontend | Stage::Intermediate) {
        return Err(left_over(&data.op).into());
    }
    match data.op.class() {
        OpClass::Memory(op) => match op {
            MemoryOp::MemLoad(space, ty) => {
                lanes(ty).map_err(|why| format!("loads {why}"))?;
                writable(m, space, false)
            }
            MemoryOp::MemStore(space) => writable(m, space, true),
            MemoryOp::LoadInterleaved(rows) => lanes(rows.ty).map_err(|why| format!("loads {why}")),
            MemoryOp::StoreInterleaved(rows) => rows
                .columns
                .iter()
                .try_for_each(|(space, _)| writable(m, *space, true)),
            MemoryOp::MemAtomic(_, _, Sharing::Shared)
                if f.ty(data.args[1]).as_scalar().is_none() =>
            {
                Err("updates shared memory by a vector".into())
            }
            MemoryOp::MemAtomic(..)
            | MemoryOp::MemCompareExchange(_)
            | MemoryOp::AddInterleaved(_) => Ok(()),
        },
        OpClass::Access(AccessOp::Load | AccessOp::Store, access) => local_access(f, access),
        OpClass::Access(AccessOp::Atomic(_) | AccessOp::CompareExchange, access) => {
            match access.place {
                Place::Local(l) if f.locals[l].shared => local_access(f, access),
                Place::Local(_) | Place::Field(_) | Place::Array(_) | Place::Temp(_) => {
                    Err("an atomic has not been lowered".into())
                }
            }
        }
        OpClass::Constant(_)
        | OpClass::Elementwise(_)
        | OpClass::Component(_)
        | OpClass::Reduce(_)
        | OpClass::Algebra(_)
        | OpClass::Query(_)
        | OpClass::Hint(_)
        | OpClass::Cell(..)
        | OpClass::TreeAccess(..)
        | OpClass::Control(_)
        | OpClass::Call(_)
        | OpClass::Random
        | OpClass::Thread(_)
        | OpClass::Check(_) => Ok(()),
    }
}

/// Describes an operation that should have been lowered.
fn left_over(op: &Op) -> &'static str {
    match op.class() {
        OpClass::Constant(_)
        | OpClass::Elementwise(_)
        | OpClass::Component(_)
        | OpClass::Reduce(_)
        | OpClass::Algebra(_) => "an aggregate was not scalarized",
        OpClass::Hint(_) => "a hint has been left",
        OpClass::Access(..) | OpClass::Memory(_) => "an access has not been lowered",
        OpClass::Cell(..) | OpClass::TreeAccess(..) => "a tree access has not been lowered",
        OpClass::Control(_) => "a parallel loop is inside of a task",
        OpClass::Call(_) | OpClass::Thread(_) => "an operation has not been lowered",
        OpClass::Random | OpClass::Query(_) => "random numbers have not been lowered",
        OpClass::Check(_) => "a check has not been lowered",
    }
}

fn writable(m: &Env, space: Space, writes: bool) -> std::result::Result<(), String> {
    match space {
        Space::Array(a) if writes && !m.arrays[a].writable => Err(format!("{a} is read-only")),
        Space::Array(_)
        | Space::Tree(..)
        | Space::Nodes(_)
        | Space::Bytes(_)
        | Space::Streamed(_)
        | Space::Temps
        | Space::Private(..) => Ok(()),
    }
}

fn local_access(f: &Function, access: &Access) -> std::result::Result<(), String> {
    let Place::Local(local) = access.place else {
        return Err("an access has not been lowered to bytes".into());
    };
    let lane = matches!(f.locals[local].ty, Type::Vector(..)) && access.path.len() == 1;
    if !access.path.is_empty() && !lane {
        return Err("a local was not scalarized".into());
    }
    if f.locals[local].len.is_some() && access.guard != Guard::InBounds {
        return Err(format!("an index of {local} is not known to be inside"));
    }
    Ok(())
}
