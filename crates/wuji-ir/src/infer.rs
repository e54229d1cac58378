//! The type rules: the result types of an operation for given argument types, or the reason why they do not
//! match.

use crate::entities::{Field, Node, Tree};
use crate::module::{Env, Function};
use crate::ops::*;
use crate::types::{BOOL, I32, I64, Scalar, Type, U32, U64};
use crate::verify::MAX_COMPONENTS;
use smallvec::{SmallVec, smallvec};

/// The types of the results of an instruction.
pub type Types = SmallVec<[Type; 1]>;

/// Result types of `op` for arguments of types `args`. For operations with regions the results are those that
/// the instruction declares, and only the arguments are checked here.
pub fn results(m: &Env, f: &Function, op: &Op, args: &[Type]) -> Result<Option<Types>, String> {
    if let Some(n) = op.info().arity {
        count(args, n.into())?;
    }
    match op.class() {
        OpClass::Constant(imm) => one(Type::Scalar(imm.ty)),
        OpClass::Elementwise(op) => one(elementwise(op, args)?),
        OpClass::Component(op) => one(component_op(m, op, args)?),
        OpClass::Reduce(op) => one(reduce(op, args[0])?),
        OpClass::Algebra(op) => one(algebra(op, args)?),
        OpClass::Query(op) => one(query(m, op)?),
        OpClass::Hint(op) => hint(op, args),
        OpClass::Access(op, a) => access_op(m, f, op, a, args),
        OpClass::Cell(op, field) => cell(m, op, field, args),
        OpClass::TreeAccess(op, tree, node) => tree_access(m, op, tree, node, args),
        OpClass::Memory(op) => memory_op(m, op, args),
        OpClass::Control(op) => control(op, args),
        OpClass::Call(callee) => {
            let callee = &m.signatures[callee];
            count(args, callee.params.len())?;
            for (a, p) in args.iter().zip(&callee.params) {
                same(*a, *p)?;
            }
            Ok(Some(callee.results.iter().copied().collect()))
        }
        OpClass::Random => one(U64),
        OpClass::Thread(op) => thread(op, args),
        OpClass::Check(op) => check(m, op, args),
    }
}

fn one(ty: Type) -> Result<Option<Types>, String> {
    Ok(Some(smallvec![ty]))
}

fn none() -> Result<Option<Types>, String> {
    Ok(Some(Types::new()))
}

fn count(args: &[Type], n: usize) -> Result<(), String> {
    if args.len() == n {
        Ok(())
    } else {
        Err(format!("takes {n} arguments, found {}", args.len()))
    }
}

fn elementwise(op: ElementwiseOp, args: &[Type]) -> Result<Type, String> {
    match op {
        ElementwiseOp::Unary(op) => {
            unary(op, args[0])?;
            Ok(args[0])
        }
        ElementwiseOp::Binary(op) => {
            same(args[0], args[1])?;
            binary(op, args[0])?;
            Ok(args[0])
        }
        ElementwiseOp::Compare(op) => {
            same(args[0], args[1])?;
            if !op.defined_on().contains(numeric(args[0])?) {
                return Err("`bool` has no order".into());
            }
            Ok(args[0].with_elem(Scalar::Bool))
        }
        ElementwiseOp::Select => {
            same(args[1], args[2])?;
            if args[0] != BOOL
                && (args[1].elem().is_none() || args[0] != args[1].with_elem(Scalar::Bool))
            {
                return Err(format!("the condition is `{}`, not `bool`", args[0]));
            }
            Ok(args[1])
        }
        ElementwiseOp::Fma => {
            same(args[0], args[1])?;
            same(args[0], args[2])?;
            float(args[0])?;
            Ok(args[0])
        }
        ElementwiseOp::Convert(to) => {
            numeric(args[0])?;
            Ok(args[0].with_elem(to))
        }
        ElementwiseOp::Bitcast(to) => {
            let from = numeric(args[0])?;
            if from.bits() != to.bits() {
                return Err(format!("`{from}` and `{to}` differ in width"));
            }
            Ok(args[0].with_elem(to))
        }
    }
}

fn component_op(m: &Env, op: ComponentOp<'_>, args: &[Type]) -> Result<Type, String> {
    match op {
        ComponentOp::Splat(ty) => {
            if !matches!(ty, Type::Vector(..) | Type::Matrix(..)) {
                return Err(format!("`{ty}` is neither vector nor matrix"));
            }
            same(args[0], Type::Scalar(numeric(ty)?))?;
            Ok(ty)
        }
        ComponentOp::Compose(ty) => {
            let arity = m.structs.arity(ty);
            if matches!(ty, Type::Scalar(_)) {
                return Err("a scalar has no components".into());
            }
            count(args, arity as usize)?;
            for (k, a) in args.iter().enumerate() {
                same(*a, component(m, ty, k as u32)?)?;
            }
            Ok(ty)
        }
        ComponentOp::Extract(k) => component(m, args[0], k),
        ComponentOp::Insert(k) => {
            same(args[1], component(m, args[0], k)?)?;
            Ok(args[0])
        }
        ComponentOp::ExtractDyn => {
            int_scalar(args[1])?;
            component(m, lanes(args[0])?, 0)
        }
        ComponentOp::InsertDyn => {
            int_scalar(args[1])?;
            same(args[2], component(m, lanes(args[0])?, 0)?)?;
            Ok(args[0])
        }
        ComponentOp::Shuffle(mask) => {
            let Type::Vector(s, n) = args[0] else {
                return Err(format!("`{}` is not a vector", args[0]));
            };
            if mask.is_empty() || mask.len() > 255 || mask.iter().any(|k| u16::from(*k) >= n) {
                return Err(format!("a component is not among the {n} of the vector"));
            }
            Ok(Type::Vector(s, mask.len() as u16))
        }
    }
}

fn reduce(op: ReduceOp, ty: Type) -> Result<Type, String> {
    let s = numeric(lanes(ty)?)?;
    if op.binary().defined_on().contains(s) {
        return Ok(Type::Scalar(s));
    }
    Err(if s.is_float() {
        "floats have no bits".into()
    } else {
        "`bool` has no arithmetic".into()
    })
}

fn algebra(op: AlgebraOp, args: &[Type]) -> Result<Type, String> {
    match op {
        AlgebraOp::MatMul => match (args[0], args[1]) {
            (Type::Matrix(s, r, k), Type::Matrix(t, k2, c)) if s == t && k == k2 && arith(s) => {
                sized(Type::Matrix(s, r, c))
            }
            (Type::Matrix(s, r, k), Type::Vector(t, k2)) if s == t && k == k2 && arith(s) => {
                Ok(Type::Vector(s, r))
            }
            (a, b) => Err(format!("cannot multiply `{a}` by `{b}`")),
        },
        AlgebraOp::Transpose => match args[0] {
            Type::Matrix(s, r, c) => Ok(Type::Matrix(s, c, r)),
            t => Err(format!("`{t}` is not a matrix")),
        },
        AlgebraOp::Dot => {
            same(args[0], args[1])?;
            match args[0] {
                Type::Vector(s, _) if arith(s) => Ok(Type::Scalar(s)),
                t => Err(format!("`{t}` is not a vector of numbers")),
            }
        }
        AlgebraOp::Cross => {
            same(args[0], args[1])?;
            match args[0] {
                Type::Vector(s, 3) if arith(s) => Ok(Type::Vector(s, 3)),
                Type::Vector(s, 2) if arith(s) => Ok(Type::Scalar(s)),
                t => Err(format!("the cross product of `{t}` is not defined")),
            }
        }
        AlgebraOp::Outer => match (args[0], args[1]) {
            (Type::Vector(s, r), Type::Vector(t, c)) if s == t && arith(s) => {
                sized(Type::Matrix(s, r, c))
            }
            (a, b) => Err(format!("no outer product of `{a}` and `{b}`")),
        },
        AlgebraOp::Determinant => Ok(Type::Scalar(square(args[0])?)),
        AlgebraOp::Inverse => {
            square(args[0])?;
            Ok(args[0])
        }
    }
}

/// The type, if it is not too large.
fn sized(ty: Type) -> Result<Type, String> {
    if ty.too_large() {
        return Err(format!("`{ty}` has more than {MAX_COMPONENTS} components"));
    }
    Ok(ty)
}

/// The element type of a matrix that has a determinant.
fn square(ty: Type) -> Result<Scalar, String> {
    match ty {
        Type::Matrix(s, r, c) if r == c && r <= 4 && s.is_float() => Ok(s),
        t => Err(format!(
            "`{t}` is not a square float matrix of at most 4 rows"
        )),
    }
}

fn query(m: &Env, op: QueryOp) -> Result<Type, String> {
    match op {
        QueryOp::ArrayExtent(a, axis) | QueryOp::ArrayStride(a, axis) => {
            if axis >= m.arrays[a].rank {
                return Err(format!("{a} has {} axes", m.arrays[a].rank));
            }
            Ok(I64)
        }
        QueryOp::RandomKey => Ok(U64),
        QueryOp::Iteration => Ok(I64),
    }
}

fn hint(op: HintOp, args: &[Type]) -> Result<Option<Types>, String> {
    match op {
        HintOp::AssumeRange(lo, hi) => {
            int_scalar(args[0])?;
            same(args[0], args[1])?;
            if lo >= hi {
                return Err(format!("the range {lo}..{hi} is empty"));
            }
            one(args[0])
        }
        HintOp::Unique(_) => {
            int_scalar(args[0])?;
            one(args[0])
        }
        HintOp::Cache(_) => none(),
    }
}

fn access_op(
    m: &Env,
    f: &Function,
    op: AccessOp,
    a: &Access,
    args: &[Type],
) -> Result<Option<Types>, String> {
    let (ty, rest) = access(m, f, a, args)?;
    if op == AccessOp::Load {
        if !rest.is_empty() {
            return Err("too many arguments".into());
        }
        return one(ty);
    }
    writable(m, a)?;
    operands(rest, ty, op.operands())?;
    match op {
        AccessOp::Load => one(ty),
        AccessOp::Store => none(),
        AccessOp::Atomic(op) => {
            for s in m.structs.flatten(ty) {
                atomic(op, s)?;
            }
            one(ty)
        }
        AccessOp::CompareExchange => {
            if ty.as_scalar().is_none() {
                return Err(format!("`{ty}` is too large to be exchanged at once"));
            }
            one(ty)
        }
    }
}

fn cell(m: &Env, op: CellOp, field: Field, args: &[Type]) -> Result<Option<Types>, String> {
    let rank = m.fields[field].rank();
    let on_list = matches!(op, CellOp::Append | CellOp::Length);
    if on_list || op == CellOp::DeactivateChunk {
        dynamic_index(m, field)?;
    }
    count(args, rank - usize::from(on_list))?;
    args.iter().try_for_each(|i| int_scalar(*i).map(|_| ()))?;
    let tree = &m.trees[m.fields[field].tree];
    let leaves = m.leaves(field);
    let mut kinds = leaves
        .iter()
        .map(|leaf| tree.nodes[m.fields[leaf.field].node].kind);
    match (op, kinds.find(|kind| !kind.is_sparse())) {
        (CellOp::IsActive, _) => one(BOOL),
        (CellOp::Deactivate | CellOp::DeactivateChunk, Some(kind)) => Err(format!(
            "cells of a {} node cannot be deactivated one by one",
            kind.name()
        )),
        (CellOp::Activate | CellOp::Deactivate | CellOp::DeactivateChunk, _) => none(),
        (CellOp::Append | CellOp::Length, _) => one(I32),
    }
}

fn tree_access(
    m: &Env,
    op: TreeAccessOp,
    tree: Tree,
    node: Node,
    args: &[Type],
) -> Result<Option<Types>, String> {
    let data = &m.trees[tree].nodes[node];
    let path = m.trees[tree].path_info(node);
    let operands = data.kind.format().operands(op, path);
    let missing = || format!("a {} node has no such operation", data.kind.name());
    count(args, operands.ok_or_else(missing)?)?;
    args.iter().try_for_each(|a| same(*a, I64))?;
    match op {
        TreeAccessOp::Find | TreeAccessOp::Ensure | TreeAccessOp::Length => one(I64),
        TreeAccessOp::Push => Ok(Some(smallvec![I64; 2])),
        TreeAccessOp::Test => one(BOOL),
        TreeAccessOp::Touch | TreeAccessOp::Drop => none(),
        TreeAccessOp::Entry => {
            let axes = m.trees[tree].axes(node).len();
            Ok(Some(smallvec![I64; 3 + axes]))
        }
    }
}

fn memory_op(m: &Env, op: MemoryOp<'_>, args: &[Type]) -> Result<Option<Types>, String> {
    match op {
        MemoryOp::MemLoad(_, ty) => {
            memory(args, 0, |_| Ok(ty))?;
            one(ty)
        }
        MemoryOp::MemStore(_) => {
            memory(args, 1, |rest| Ok(rest[0]))?;
            none()
        }
        MemoryOp::MemAtomic(op, ..) => {
            same(args[0], I64)?;
            for s in m.structs.flatten(args[1]) {
                atomic(op, s)?;
            }
            one(args[1])
        }
        MemoryOp::MemCompareExchange(_) => {
            same(args[0], I64)?;
            same(args[1], args[2])?;
            one(args[1])
        }
        MemoryOp::LoadInterleaved(rows) => {
            interleaved(rows, 0, args)?;
            Ok(Some(smallvec![rows.ty; rows.columns.len()]))
        }
        MemoryOp::StoreInterleaved(rows) => {
            interleaved(rows, rows.columns.len(), args)?;
            none()
        }
        MemoryOp::AddInterleaved(spaces) => {
            rows(spaces.len(), args)?;
            none()
        }
    }
}

/// Checks the arguments; the results follow from the regions.
fn control(op: ControlOp<'_>, args: &[Type]) -> Result<Option<Types>, String> {
    match op {
        ControlOp::If => {
            same(args[0], BOOL)?;
            Ok(None)
        }
        ControlOp::Loop(_) | ControlOp::Block(_) => Ok(None),
        ControlOp::For(..) => {
            if args.len() < 3 {
                return Err("takes lo, hi and step".into());
            }
            int_scalar(args[0])?;
            same(args[0], args[1])?;
            same(args[0], args[2])?;
            Ok(None)
        }
        ControlOp::ForEach(_, domain, _) => {
            count(args, domain.arguments())?;
            for pair in args.chunks(2) {
                int_scalar(pair[0])?;
                same(pair[0], pair[1])?;
            }
            none()
        }
    }
}

fn thread(op: ThreadOp, args: &[Type]) -> Result<Option<Types>, String> {
    match op.info().ty {
        ThreadType::Nothing => none(),
        ThreadType::Query(ty) => one(ty),
        ThreadType::Vote(ty) => {
            same(args[0], BOOL)?;
            one(ty)
        }
        ThreadType::Match(ty) => {
            scalar(args[0])?;
            one(ty)
        }
        ThreadType::Exchange => {
            scalar(args[0])?;
            same(args[1], I32)?;
            one(args[0])
        }
        ThreadType::Sum => {
            same(args[0], U32)?;
            match args[1].as_scalar() {
                Some(s) if arith(s) => one(args[1]),
                _ => Err(format!("`{}` is not a number", args[1])),
            }
        }
    }
}

fn check(m: &Env, op: CheckOp, args: &[Type]) -> Result<Option<Types>, String> {
    match op {
        CheckOp::Print(msg) => message(m, msg, args)?,
        CheckOp::Assert(msg) => {
            let Some((cond, rest)) = args.split_first() else {
                return Err("takes a condition".into());
            };
            same(*cond, BOOL)?;
            message(m, msg, rest)?;
        }
        CheckOp::CheckIndex(_) => int_scalar(args[0])?,
        CheckOp::Report(_) => {}
    }
    none()
}

/// The index of a field in a dynamic node that runs along the list.
pub fn dynamic_index(m: &Env, field: Field) -> Result<usize, String> {
    let data = &m.fields[field];
    let tree = &m.trees[data.tree];
    let Some(axis) = tree.list_axis(data.node) else {
        let kind = tree.nodes[data.node].kind.name();
        return Err(format!("{field} is in a {kind} node, not in a dynamic one"));
    };
    if !m.is_in_one_node(field) {
        return Err(format!("the components of {field} are in several lists"));
    }
    let index = data.axes.iter().position(|a| a.0 == axis);
    index.ok_or_else(|| "no index runs along the list".into())
}

/// The type of the accessed component, and the arguments after indices and dynamic steps.
fn access<'a>(
    m: &Env,
    f: &Function,
    a: &Access,
    args: &'a [Type],
) -> Result<(Type, &'a [Type]), String> {
    let (elem, rank) = m.place_elem(f, a.place);
    if args.len() < rank + a.dynamic_steps() {
        return Err(format!("takes {rank} indices, found {}", args.len()));
    }
    // Threads write components concurrently: a write must not touch neighbouring components.
    let shared = matches!(a.place, Place::Local(l) if f.locals[l].shared);
    if shared && a.dynamic_steps() > 0 {
        return Err("components of a shared array's elements are constant".into());
    }
    let (indices, mut rest) = args.split_at(rank);
    for i in indices {
        int_scalar(*i)?;
    }
    let mut ty = elem;
    for step in &a.path {
        ty = match step {
            Step::Const(k) => component(m, ty, *k)?,
            Step::Dynamic => {
                int_scalar(rest[0])?;
                rest = &rest[1..];
                component(m, lanes(ty)?, 0)?
            }
        };
    }
    Ok((ty, rest))
}

/// Offsets of lanes, a vector for each element of a row, and an optional mask.
fn rows(parts: usize, args: &[Type]) -> Result<(), String> {
    if parts == 0 || (args.len() != 1 + parts && args.len() != 2 + parts) {
        return Err(format!(
            "takes offsets, {parts} vectors and perhaps a mask, found {} arguments",
            args.len()
        ));
    }
    let Type::Vector(Scalar::I64 | Scalar::I32, n) = args[0] else {
        return Err(format!("the offsets are `{}`", args[0]));
    };
    for part in &args[1..=parts] {
        same(*part, args[1])?;
        match part {
            Type::Vector(s, k) if *k == n && arith(*s) => {}
            other => return Err(format!("`{other}` has no number for each of {n} lanes")),
        }
    }
    match args.get(1 + parts) {
        Some(mask) => same(*mask, Type::Vector(Scalar::Bool, n)),
        None => Ok(()),
    }
}

/// An offset, this many vectors, and an optional mask; rows must not overlap.
fn interleaved(rows: &Interleaved, vectors: usize, args: &[Type]) -> Result<(), String> {
    let Type::Vector(s, n) = rows.ty else {
        return Err(format!("a column is `{}`, not a vector", rows.ty));
    };
    let bytes = i64::from(s.bytes());
    let (Some((_, first)), Some((_, last))) = (rows.columns.first(), rows.columns.last()) else {
        return Err("there are no columns".into());
    };
    let apart = |pair: &[(Space, i64)]| pair[1].1 >= pair[0].1.saturating_add(bytes);
    let fits = last.checked_sub(*first).is_some_and(|d| {
        u64::try_from(d.saturating_add(bytes)).is_ok_and(|d| d <= rows.stride.unsigned_abs())
    });
    if !rows.columns.windows(2).all(apart) || !fits {
        return Err("columns overlap".into());
    }
    let even = |(_, at): &(Space, i64)| (at - first) % bytes == 0;
    if rows.stride % bytes != 0 || !rows.columns.iter().all(even) {
        return Err(format!("columns are not a multiple of {bytes} bytes apart"));
    }
    if args.len() != 1 + vectors && args.len() != 2 + vectors {
        return Err(format!(
            "takes an offset, {vectors} vectors and perhaps a mask, found {} arguments",
            args.len()
        ));
    }
    same(args[0], I64)?;
    args[1..=vectors]
        .iter()
        .try_for_each(|t| same(*t, rows.ty))?;
    match args.get(1 + vectors) {
        Some(mask) => same(*mask, Type::Vector(Scalar::Bool, n)),
        None => Ok(()),
    }
}

/// An offset, or one for each lane of a vector; `operands` values; an optional mask.
fn memory(
    args: &[Type],
    operands: usize,
    moved: impl FnOnce(&[Type]) -> Result<Type, String>,
) -> Result<(), String> {
    if args.len() != 1 + operands && args.len() != 2 + operands {
        return Err(format!(
            "takes an offset, {operands} operands and perhaps a mask, found {} arguments",
            args.len()
        ));
    }
    let moved = moved(&args[1..])?;
    match args[0] {
        I64 => {}
        Type::Vector(Scalar::I64 | Scalar::I32, n) => match moved {
            Type::Vector(_, k) if k == n => {}
            other => return Err(format!("{n} offsets for a `{other}`")),
        },
        other => return Err(format!("the offset is `{other}`, not `i64`")),
    }
    match (args.get(1 + operands), moved) {
        (None, _) => Ok(()),
        (Some(Type::Vector(Scalar::Bool, n)), Type::Vector(_, k)) if *n == k => Ok(()),
        (Some(mask), other) => Err(format!("`{mask}` is not a mask for a `{other}`")),
    }
}

fn writable(m: &Env, a: &Access) -> Result<(), String> {
    match a.place {
        Place::Array(a) if !m.arrays[a].writable => Err(format!("{a} is read-only")),
        Place::Array(_) | Place::Field(_) | Place::Local(_) | Place::Temp(_) => Ok(()),
    }
}

fn operands(rest: &[Type], ty: Type, n: usize) -> Result<(), String> {
    if rest.len() != n {
        return Err(format!(
            "takes {n} operands after the indices, found {}",
            rest.len()
        ));
    }
    rest.iter().try_for_each(|t| same(*t, ty))
}

fn message(m: &Env, msg: crate::entities::Message, args: &[Type]) -> Result<(), String> {
    let holes: Vec<Type> = m.messages[msg].holes().collect();
    if holes.len() != args.len() {
        return Err(format!(
            "the message has {} holes, found {} values",
            holes.len(),
            args.len()
        ));
    }
    holes.iter().zip(args).try_for_each(|(h, a)| same(*a, *h))
}

fn same(found: Type, expected: Type) -> Result<(), String> {
    if found == expected {
        Ok(())
    } else {
        Err(format!("expected `{expected}`, found `{found}`"))
    }
}

fn component(m: &Env, ty: Type, k: u32) -> Result<Type, String> {
    m.structs
        .component(ty, k)
        .ok_or_else(|| format!("`{ty}` has no component {k}"))
}

fn lanes(ty: Type) -> Result<Type, String> {
    match ty {
        Type::Vector(..) | Type::Matrix(..) => Ok(ty),
        Type::Scalar(_) | Type::Struct(_) => Err(format!("`{ty}` is neither vector nor matrix")),
    }
}

fn numeric(ty: Type) -> Result<Scalar, String> {
    ty.elem().ok_or_else(|| format!("`{ty}` is a struct"))
}

fn float(ty: Type) -> Result<(), String> {
    if numeric(ty)?.is_float() {
        Ok(())
    } else {
        Err(format!("`{ty}` is not a float type"))
    }
}

fn int_scalar(ty: Type) -> Result<(), String> {
    match ty.as_scalar() {
        Some(s) if s.is_int() => Ok(()),
        _ => Err(format!("`{ty}` is not an integer")),
    }
}

fn scalar(ty: Type) -> Result<(), String> {
    match ty.as_scalar() {
        Some(_) => Ok(()),
        None => Err(format!("`{ty}` is not a scalar")),
    }
}

fn arith(s: Scalar) -> bool {
    s != Scalar::Bool
}

/// Whether a unary operation is defined on the elements of a type.
pub fn unary(op: UnOp, ty: Type) -> Result<(), String> {
    defined(op.name(), op.defined_on(), ty)
}

/// Whether a binary operation is defined on the elements of a type.
pub fn binary(op: BinOp, ty: Type) -> Result<(), String> {
    defined(op.name(), op.defined_on(), ty)
}

fn defined(name: &str, on: ScalarSet, ty: Type) -> Result<(), String> {
    if on.contains(numeric(ty)?) {
        Ok(())
    } else {
        Err(format!("`{name}` is not defined on `{ty}`"))
    }
}

/// Whether an atomic is defined on a scalar type.
pub fn atomic(op: AtomicOp, s: Scalar) -> Result<(), String> {
    if op.defined_on().contains(s) {
        Ok(())
    } else {
        Err(format!("atomic `{}` is not defined on `{s}`", op.name()))
    }
}
