//! The scalars of packed elements.

use wuji_ir::build::Builder;
use wuji_ir::entities::{Field, Value};
use wuji_ir::env::Env;
use wuji_ir::module::Values;
use wuji_ir::ops::{Op, Step};
use wuji_ir::types::Type;

/// The type of what a path in an element leads to, and its first scalar. The path has no run-time components.
pub fn part(m: &Env, field: Field, path: &[Step]) -> (Type, usize) {
    let structs = &m.structs;
    let mut ty = m.fields[field].elem;
    let mut first = 0;
    for step in path {
        let Step::Const(k) = step else { continue };
        let before = (0..*k).filter_map(|c| structs.component(ty, c));
        first += before.map(|t| structs.flatten(t).len()).sum::<usize>();
        ty = structs.component(ty, *k).unwrap_or(ty);
    }
    (ty, first)
}

/// Adds the scalars of a value.
pub fn decompose(b: &mut Builder<'_>, value: Value, out: &mut Values) {
    let ty = b.func.ty(value);
    let arity = b.env.structs.arity(ty);
    if arity == 0 && ty.as_scalar().is_some() {
        out.push(value);
        return;
    }
    for k in 0..arity {
        let part = b.value(Op::Extract(k), &[value]);
        decompose(b, part, out);
    }
}
