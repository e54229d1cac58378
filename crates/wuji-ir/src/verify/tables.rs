//! Verifies types, arrays, temps, messages, sites, signatures and tasks.

use super::{MAX_COMPONENTS, MAX_STRUCT_DEPTH, ids};
use crate::diag::{Error, Position, Result};
use crate::entities::*;
use crate::layout::Axis;
use crate::module::*;
use crate::ops::{AtomicOp, Place};
use crate::types::{I32, I64, Scalar, Type};

/// Every struct only refers to earlier ones, and none exceeds the depth and size limits.
pub(super) fn structs(m: &Module) -> Result<()> {
    let mut sizes: Vec<(u64, u32)> = Vec::new();
    for (id, ty) in &m.structs.0 {
        let (mut components, mut depth) = (1u64, 1u32);
        for (name, field) in &ty.fields {
            let what = || format!("field `{name}` of struct {id}");
            shape(*field, what)?;
            let (count, below) = match field {
                Type::Struct(inner) => match sizes.get(inner.as_u32() as usize) {
                    Some(size) => *size,
                    None => {
                        return Err(Error::new(
                            "W0021",
                            format!(
                                "{} has type {inner}, which is not defined before it",
                                what()
                            ),
                        ));
                    }
                },
                Type::Scalar(_) | Type::Vector(..) | Type::Matrix(..) => {
                    (u64::from(field.lanes().unwrap_or(1)), 0)
                }
            };
            components = components.saturating_add(count);
            depth = depth.max(below + 1);
        }
        if components > MAX_COMPONENTS {
            let why = format!("struct {id} has more than {MAX_COMPONENTS} components");
            return Err(Error::new("W0021", why));
        }
        if depth > MAX_STRUCT_DEPTH {
            let why = format!("struct {id} nests more than {MAX_STRUCT_DEPTH} structs");
            return Err(Error::new("W0021", why));
        }
        sizes.push((components, depth));
    }
    Ok(())
}

fn shape(ty: Type, what: impl Fn() -> String) -> Result<()> {
    match ty {
        Type::Vector(_, 0) | Type::Matrix(_, 0, _) | Type::Matrix(_, _, 0) => Err(Error::new(
            "W0021",
            format!("{} has type `{ty}`, which has no components", what()),
        )),
        Type::Vector(..) | Type::Matrix(..) if ty.too_large() => Err(Error::new(
            "W0021",
            format!(
                "{} has type `{ty}`, which has more than {MAX_COMPONENTS} components",
                what()
            ),
        )),
        Type::Scalar(_) | Type::Vector(..) | Type::Matrix(..) | Type::Struct(_) => Ok(()),
    }
}

/// A type of the module: its struct exists, its sizes are at least 1.
pub(super) fn ty(m: &Module, ty: Type, what: impl Fn() -> String) -> Result<()> {
    if let Type::Struct(id) = ty
        && !m.structs.0.is_valid(id)
    {
        let why = format!("{} has type {id}, which is not defined", what());
        return Err(Error::new("W0021", why));
    }
    shape(ty, what)
}

pub(super) fn places(m: &Module) -> Result<()> {
    for (id, array) in &m.arrays {
        ty(m, array.elem, || format!("array {id}"))?;
        if usize::from(array.rank) > Axis::COUNT {
            let why = format!(
                "array {id} has {} axes; at most {} are possible",
                array.rank,
                Axis::COUNT
            );
            return Err(Error::new("W0024", why));
        }
    }
    for (id, temp) in &m.temps {
        ty(m, temp.ty, || format!("temp {id}"))?;
    }
    for (k, p) in m.params.iter().enumerate() {
        ty(m, p.ty, || format!("parameter p{k}"))?;
    }
    Ok(())
}

pub(super) fn messages(m: &Module) -> Result<()> {
    for (id, message) in &m.messages {
        for piece in &message.pieces {
            let Piece::Hole { ty: hole, format } = piece else {
                continue;
            };
            ty(m, *hole, || format!("a hole of message {id}"))?;
            let scalars = m.structs.flatten(*hole);
            let for_floats = format.precision.is_some() || format.radix.is_for_floats();
            if for_floats && scalars.iter().all(|s| !s.is_float()) {
                let why = format!(
                    "a hole of message {id} gives a precision to `{hole}`, which has no float"
                );
                return Err(Error::new("W0024", why));
            }
            if format.radix.is_for_ints() && scalars.iter().all(|s| !s.is_int()) {
                let why = format!(
                    "a hole of message {id} gives a radix to `{hole}`, which has no integer"
                );
                return Err(Error::new("W0024", why));
            }
        }
    }
    Ok(())
}

pub(super) fn sites(m: &Module) -> Result<()> {
    for (id, site) in &m.sites {
        let known = match site.kind {
            SiteKind::OutOfRange(place) | SiteKind::ReadOutOfRange(place) => match place {
                Place::Field(f) => m.fields.is_valid(f),
                Place::Array(a) => m.arrays.is_valid(a),
                Place::Temp(t) => m.temps.is_valid(t),
                // Which function the local is of is known where the site is reported.
                Place::Local(_) => true,
            },
            SiteKind::BadIndex { .. } => true,
            SiteKind::Assert(message) | SiteKind::Print(message) => m.messages.is_valid(message),
            SiteKind::TooDeep(func) => m.funcs.is_valid(func),
            SiteKind::OutOfMemory(tree, node) => ids::walk(m, tree, node).is_ok(),
            SiteKind::ListFull(f) => m.fields.is_valid(f),
        };
        if !known {
            let why = format!("site {id} names something that is not defined");
            return Err(Error::new("W0020", why).at(Position::of(m, site.span)));
        }
    }
    Ok(())
}

/// Signatures are checked before any body, because calls need them.
pub(super) fn signatures(m: &Module) -> Result<()> {
    if m.signatures.len() != m.funcs.len() {
        let why = format!(
            "{} functions are declared and {} are defined",
            m.signatures.len(),
            m.funcs.len()
        );
        return Err(Error::new("W0020", why));
    }
    for (id, f) in &m.funcs {
        let named = || named(m, id);
        let Some(entry) = f.regions.get(f.entry) else {
            let why = format!("{} has no entry region", named());
            return Err(Error::new("W0020", why));
        };
        for (k, p) in entry.params.iter().enumerate() {
            let Some(value) = f.values.get(*p) else {
                let why = format!("parameter {k} of {} is not defined", named());
                return Err(Error::new("W0020", why));
            };
            ty(m, value.ty, || format!("parameter {k} of {}", named()))?;
        }
        for result in &f.results {
            ty(m, *result, || format!("the result of {}", named()))?;
        }
        if let Some(reverse) = f.reverse
            && !(m.signatures.get(reverse)).is_some_and(|s| f.is_reversed_by(s, &m.structs))
        {
            let why = format!("{reverse} cannot be the reverse of {}", named());
            return Err(Error::new("W0020", why).note(
                "it takes the parameters, the results and their adjoints, and returns the adjoints of the parameters",
            ));
        }
        if m.signatures[id] != f.signature() {
            let why = format!(
                "{} does not have the signature it is declared with",
                named()
            );
            return Err(Error::new("W0020", why));
        }
        for (l, local) in &f.locals {
            ty(m, local.ty, || format!("local {l} of {}", named()))?;
            if local.len == Some(0) {
                let why = format!("local array {l} of {} has no elements", named());
                return Err(Error::new("W0024", why));
            }
            if local.shared && local.len.is_none() {
                let why = format!("shared local {l} of {} is not an array", named());
                return Err(Error::new("W0024", why));
            }
        }
    }
    let Some(kernel) = m.kernel else {
        return Ok(());
    };
    if !m.funcs.is_valid(kernel) {
        let why = format!("the kernel {kernel} is not defined");
        return Err(Error::new("W0020", why));
    }
    let results = &m.funcs[kernel].results;
    if results.len() > 1 {
        let why = format!(
            "the kernel {} returns {} values; a kernel has at most one result",
            named(m, kernel),
            results.len()
        );
        return Err(Error::new("W0035", why).help("return a struct, a vector or a matrix"));
    }
    takes(m, kernel, "the kernel", &[])
}

/// A function takes the parameters of the kernel, as they are or scalar by scalar, and then `more`.
fn takes(m: &Module, func: Func, who: &str, more: &[Type]) -> Result<()> {
    let f = &m.funcs[func];
    let found: Vec<Type> = f.params().iter().map(|p| f.ty(*p)).collect();
    let mut whole: Vec<Type> = m.params.iter().map(|p| p.ty).collect();
    let mut scalars: Vec<Type> = m
        .params
        .iter()
        .flat_map(|p| m.structs.flatten(p.ty))
        .map(Type::Scalar)
        .collect();
    whole.extend(more);
    scalars.extend(more);
    if found == whole || found == scalars {
        return Ok(());
    }
    Err(Error::new(
        "W0035",
        format!(
            "{who} {} takes ({}); its parameters should be ({})",
            named(m, func),
            type_list(&found),
            type_list(&whole)
        ),
    ))
}

pub(super) fn type_list(types: &[Type]) -> String {
    let words: Vec<String> = types.iter().map(Type::to_string).collect();
    words.join(", ")
}

/// `fn1 "paint"`
pub(super) fn named(m: &Module, func: Func) -> String {
    match m.funcs.get(func) {
        Some(f) if !f.name.is_empty() => format!("{func} \"{}\"", f.name),
        _ => func.to_string(),
    }
}

pub(super) fn tasks(m: &Module) -> Result<()> {
    if m.result.is_some_and(|t| !m.temps.is_valid(t)) {
        return Err(Error::new("W0020", "the result's temp is not defined"));
    }
    if let (Some(kernel), Some(task)) = (m.kernel, m.tasks.first()) {
        let why = format!("the module has a kernel, {kernel}, and tasks; it has one or the other");
        return Err(Error::new("W0035", why).at(Position::of(m, task.span)));
    }
    for (k, t) in m.tasks.iter().enumerate() {
        let before = k.checked_sub(1).map(|k| &m.tasks[k]);
        let sound = task(m, t).and_then(|()| flow(m, t, before));
        sound.map_err(|e| e.at(Position::of(m, t.span)))?;
    }
    Ok(())
}

/// Checks the control flow around a task.
fn flow(m: &Module, task: &Task, before: Option<&Task>) -> Result<()> {
    let wrong = |why: &str| {
        Err(Error::new(
            "W0035",
            format!("task \"{}\": {why}", task.name),
        ))
    };
    if before.is_some_and(|b| b.flow.step > task.flow.step) {
        return wrong("its step is smaller than that of the task before it");
    }
    let Some(Repeat { temp, from }) = task.flow.repeat else {
        return Ok(());
    };
    if m.temps.get(temp).map(|t| t.ty) != Some(I32) {
        return wrong("it repeats by a temp that is not an `i32`");
    }
    if task.kind != TaskKind::Serial {
        return wrong("only serial tasks repeat others");
    }
    if from > task.flow.step {
        return wrong("it repeats from a later step");
    }
    Ok(())
}

fn task(m: &Module, task: &Task) -> Result<()> {
    let who = format!("task \"{}\":", task.name);
    let Some(f) = m.funcs.get(task.func) else {
        let why = format!("{who} {} is not defined", task.func);
        return Err(Error::new("W0020", why));
    };
    if !f.results.is_empty() {
        let why = format!("{who} {} has a result; tasks have none", task.func);
        return Err(Error::new("W0035", why));
    }
    // A task's function has as many indices at the end as its domain has axes.
    let indices = |rank: usize| -> Result<Vec<Type>> {
        let params = f.params();
        let Some(at) = params.len().checked_sub(rank) else {
            let why = format!("{who} {} does not take {rank} indices", named(m, task.func));
            return Err(Error::new("W0035", why));
        };
        Ok(params[at..].iter().map(|p| f.ty(*p)).collect())
    };
    if let Some((tree, node)) = task.lists {
        ids::walk(m, tree, node).map_err(|why| Error::new("W0020", format!("{who} {why}")))?;
    }
    let sound = slices(m, task).and_then(|()| copies(m, task));
    sound.map_err(|why| Error::new("W0020", format!("{who} {why}")))?;
    match &task.kind {
        TaskKind::Serial => takes(m, task.func, &who, &[]),
        TaskKind::Range { dims, .. } => {
            bounds(m, &who, dims)?;
            if dims.iter().any(|dim| dim.step.get() > 1) {
                let why = format!("{who} only the dimensions of chunks have steps");
                return Err(Error::new("W0035", why));
            }
            let indices = indices(dims.len())?;
            for ty in &indices {
                integer(&who, *ty)?;
            }
            for (dim, ty) in dims.iter().zip(&indices) {
                let (lo, hi) = index_range(*ty);
                for (bound, past) in [(dim.lo, 0), (dim.hi, 1)] {
                    if let Bound::Const(n) = bound
                        && (i128::from(n) < lo || i128::from(n) > hi + past)
                    {
                        let why = format!("{who} the bound {n} does not fit `{ty}`");
                        return Err(Error::new("W0035", why));
                    }
                }
            }
            takes(m, task.func, &who, &indices)
        }
        TaskKind::Cells { field, .. } => {
            let Some(data) = m.fields.get(*field) else {
                let why = format!("{who} {field} is not defined");
                return Err(Error::new("W0020", why));
            };
            let indices = indices(data.rank())?;
            for ty in &indices {
                integer(&who, *ty)?;
            }
            holds_domain(m, *field, &indices)
                .map_err(|why| Error::new("W0035", format!("{who} {why}")))?;
            takes(m, task.func, &who, &indices)
        }
        TaskKind::Chunks { dims, unit, .. } => {
            bounds(m, &who, dims)?;
            if *unit == 0 {
                let why = format!("{who} a unit has at least one iteration");
                return Err(Error::new("W0035", why));
            }
            takes(m, task.func, &who, &[I64, I64])
        }
    }
}

/// Slices are of fields with an axis, at parameters that are integers.
fn slices(m: &Module, task: &Task) -> std::result::Result<(), String> {
    for slice in &task.slices {
        let field = slice.field;
        if m.fields.get(field).is_none_or(|data| data.rank() == 0) {
            return Err(format!("{field} has no slices"));
        }
        let number = slice.param.map(|p| m.params.get(p as usize));
        let is_integer = |p: &Param| p.ty.as_scalar().is_some_and(|s| s.is_int());
        if number.is_some_and(|p| !p.is_some_and(is_integer)) {
            return Err(format!("the slice of {field} is not at an integer"));
        }
    }
    Ok(())
}

/// Copies refer to existing trees and to fields without sparse nodes, in tasks of chunks.
fn copies(m: &Module, task: &Task) -> std::result::Result<(), String> {
    match &task.copies {
        Copies::None => return Ok(()),
        Copies::Uses {
            fields,
            arrays,
            temps,
            updates: _,
        } => {
            for (array, op) in arrays {
                let Some(data) = m.arrays.get(*array) else {
                    return Err(format!("{array} is not defined"));
                };
                if data.shape.is_none() {
                    return Err(format!(
                        "{array} has no known shape; workers have no copies of it"
                    ));
                }
                if *op == AtomicOp::Exchange {
                    return Err(format!("exchanges of {array} cannot be merged"));
                }
            }
            if let Some((temp, _)) = temps.iter().find(|(t, _)| !m.temps.is_valid(*t)) {
                return Err(format!("{temp} is not defined"));
            }
            for (field, op) in fields {
                let Some(data) = m.fields.get(*field) else {
                    return Err(format!("{field} is not defined"));
                };
                if !m.trees[data.tree].sparse_path(data.node).is_empty() {
                    return Err(format!("{field} is sparse; workers have no copies of it"));
                }
                if *op == AtomicOp::Exchange {
                    return Err(format!("exchanges of {field} cannot be merged"));
                }
            }
        }
        Copies::Fills(tree) | Copies::Merges(tree) => {
            if !m.trees.is_valid(*tree) {
                return Err(format!("{tree} is not defined"));
            }
        }
    }
    match task.kind {
        TaskKind::Chunks { .. } => Ok(()),
        TaskKind::Serial | TaskKind::Range { .. } | TaskKind::Cells { .. } => {
            Err("only tasks of chunks can use copies of trees".into())
        }
    }
}

fn integer(who: &str, ty: Type) -> Result<()> {
    match ty.as_scalar() {
        Some(s) if s.is_int() => Ok(()),
        _ => Err(Error::new(
            "W0035",
            format!("{who} the index has type `{ty}`, not an integer type"),
        )),
    }
}

fn bounds(m: &Module, who: &str, dims: &[RangeDim]) -> Result<()> {
    for bound in dims.iter().flat_map(|d| [d.lo, d.hi]) {
        let (name, ty) = match bound {
            Bound::Const(_) => continue,
            Bound::Param(p) => (format!("p{p}"), m.params.get(p as usize).map(|p| p.ty)),
            Bound::Sum { base, scalar, .. } => {
                let (name, ty) = match base {
                    BoundBase::Param(p) => {
                        (format!("p{p}"), m.params.get(p as usize).map(|p| p.ty))
                    }
                    BoundBase::Extent(a, axis) => {
                        let array = m.arrays.get(a).filter(|array| axis < array.rank);
                        (format!("extent {a}.{axis}"), array.map(|_| I64))
                    }
                };
                integer(who, Type::Scalar(scalar))?;
                (name, ty)
            }
            Bound::Temp(t) => (t.to_string(), m.temps.get(t).map(|t| t.ty)),
            Bound::List(tree, node) => {
                let found = ids::walk(m, tree, node).map(|()| I64);
                (format!("list {tree}.{node}"), found.ok())
            }
        };
        match ty.map(Type::as_scalar) {
            None => {
                let why = format!("{who} the bound {name} is not defined");
                return Err(Error::new("W0020", why));
            }
            Some(Some(s)) if s.is_int() => {}
            Some(_) => {
                let why = format!("{who} the bound {name} is not an integer");
                return Err(Error::new("W0035", why));
            }
        }
    }
    Ok(())
}

fn index_range(ty: Type) -> (i128, i128) {
    ty.as_scalar()
        .and_then(Scalar::int_range)
        .unwrap_or((0, -1))
}

/// Whether indices of the given types reach every cell of a field.
pub(super) fn holds_domain(
    m: &Module,
    field: Field,
    indices: &[Type],
) -> std::result::Result<(), String> {
    let domain = m.fields[field].domain(&m.trees);
    if domain.len() != indices.len() {
        return Err(format!(
            "{field} has {} axes, found {} indices",
            domain.len(),
            indices.len()
        ));
    }
    for ((from, extent), ty) in domain.iter().zip(indices) {
        let (first, last) = (
            i128::from(*from),
            i128::from(*from) + i128::from(*extent) - 1,
        );
        let (lo, hi) = index_range(*ty);
        if first < lo || last > hi {
            return Err(format!(
                "an index of type `{ty}` cannot hold the coordinates {first} to {last} of {field}"
            ));
        }
    }
    Ok(())
}
