//! Checks what backends rely on, so that whatever they cannot do is named here, with its position.
//!
//! Tasks are `serial` or `chunks`; all values are scalars, or vectors of one scalar per lane; memory is touched by byte offset, locals by
//! an index that is inside; nothing is left of checks, messages and random numbers but reports.

use super::Cx;
use cranelift_entity::SecondaryMap;
use wuji_ir::entities::*;
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::Type;
use wuji_ir::{Error, Position, Result};

/// Bytes of locals that one function of a task may have: they live on the stack of a worker.
const MAX_LOCAL_BYTES: u64 = 256 << 10;

/// The same for functions that call themselves, of which there may be many activations.
const MAX_RECURSIVE_LOCAL_BYTES: u64 = 4 << 10;

/// Bytes of shared arrays that a task may have: what every GPU has for a block without being asked.
const MAX_SHARED_BYTES: u64 = 48 << 10;

pub fn legality(module: &mut Module, _: &mut Cx) -> Result<()> {
    let m = &*module;
    if m.kernel.is_some() {
        return Err(internal("the kernel has not been split into tasks"));
    }
    let mut reached: SecondaryMap<Func, bool> = SecondaryMap::new();
    let mut work = Vec::new();
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
        work.push((task.func, MAX_LOCAL_BYTES));
    }
    while let Some((func, local_bytes)) = work.pop() {
        if std::mem::replace(&mut reached[func], true) {
            continue;
        }
        let f = &m.funcs[func];
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
                if let Op::Call(callee) = f.insts[*inst].op {
                    work.push((callee, MAX_RECURSIVE_LOCAL_BYTES));
                }
            }
        }
    }
    Ok(())
}

fn internal(message: impl Into<String>) -> Error {
    Error::new("W0330", message).note("this is a mistake of the compiler, not of the kernel")
}

/// A function of a task takes the scalars of the kernel's parameters, then `begin` and `end`.
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

/// A scalar, or what `vectorize` makes of one.
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
    match &data.op {
        Op::Const(_)
        | Op::Unary(_)
        | Op::Binary(_)
        | Op::Compare(_)
        | Op::Select
        | Op::Fma
        | Op::Convert(_)
        | Op::Bitcast(_)
        | Op::ArrayExtent(..)
        | Op::ArrayStride(..)
        | Op::MemAtomic(..)
        | Op::MemCompareExchange(_)
        | Op::AddInterleaved(_)
        | Op::If
        | Op::Loop(_)
        | Op::For(..)
        | Op::Block(_)
        | Op::Call(_)
        | Op::RandomKey
        | Op::Thread(_)
        | Op::Report(_) => Ok(()),
        Op::MemLoad(space, ty) => {
            lanes(*ty).map_err(|why| format!("loads {why}"))?;
            writable(m, *space, false)
        }
        Op::MemStore(space) => writable(m, *space, true),
        Op::LoadInterleaved(rows) => lanes(rows.ty).map_err(|why| format!("loads {why}")),
        Op::StoreInterleaved(rows) => rows
            .columns
            .iter()
            .try_for_each(|(space, _)| writable(m, *space, true)),
        Op::Load(access) | Op::Store(access) => local_access(f, access),
        Op::Atomic(_, access) | Op::CompareExchange(access) if matches!(access.place, Place::Local(l) if f.locals[l].shared) => {
            local_access(f, access)
        }
        Op::Atomic(..) | Op::CompareExchange(_) => Err("an atomic has not been lowered".into()),
        Op::Cache(_) | Op::AssumeRange(..) => Err("a hint has been left".into()),
        Op::Cell(..) | Op::TreeAccess(..) => Err("a walk down a tree has not been lowered".into()),
        Op::Splat(_)
        | Op::Compose(_)
        | Op::Extract(_)
        | Op::ExtractDyn
        | Op::InsertDyn
        | Op::Reduce(_) => Ok(()),
        Op::Insert(_)
        | Op::Shuffle(_)
        | Op::MatMul
        | Op::Transpose
        | Op::Dot
        | Op::Cross
        | Op::Outer
        | Op::Determinant
        | Op::Inverse => Err("an aggregate has not been taken apart".into()),
        Op::ForEach(..) => Err("a parallel loop is inside of a task".into()),
        Op::Random | Op::Iteration => Err("random numbers have not been lowered".into()),
        Op::Print(_) | Op::Assert(_) | Op::CheckIndex(_) => {
            Err("a check has not been lowered".into())
        }
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
        return Err("a local has not been taken apart".into());
    }
    if f.locals[local].len.is_some() && access.guard != Guard::InBounds {
        return Err(format!("an index of {local} is not known to be inside"));
    }
    Ok(())
}
