//! Components of elements that are known at run time only, where components are not next to each other in memory: loads
//! become selections of all components, writes become branches.

use super::Substitution;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Inst, Value};
use wuji_ir::layout::FieldData;
use wuji_ir::module::{Env, Function, InstData, SiteData, SiteKind, Values};
use wuji_ir::ops::*;
use wuji_ir::types::{Scalar, Type};

/// Expands run-time components in accesses of the fields for which `wanted` holds.
pub fn expand_dynamic_components(
    m: &mut Env,
    f: &mut Function,
    wanted: impl Fn(&FieldData) -> bool,
) {
    let mut subst = Substitution::new();
    for region in f.walk_regions() {
        let insts = std::mem::take(&mut f.regions[region].insts);
        for inst in insts {
            if !is_dynamic(m, f, inst, &wanted) {
                f.regions[region].insts.push(inst);
                continue;
            }
            let mut b = Builder::new(m, f);
            b.region = region;
            b.span = b.func.spans[inst];
            let data = b.func.insts[inst].clone();
            let new = expanded(&mut b, &data);
            if let (Some(old), Some(new)) = (data.results.first(), new) {
                subst.set(*old, new);
            }
        }
    }
    subst.apply(f);
}

fn is_dynamic(m: &Env, f: &Function, inst: Inst, wanted: impl Fn(&FieldData) -> bool) -> bool {
    f.insts[inst].op.access().is_some_and(|a| match a.place {
        Place::Field(field) => a.dynamic_steps() > 0 && wanted(&m.fields[field]),
        Place::Array(_) | Place::Local(_) | Place::Temp(_) => false,
    })
}

/// One access for each value of the first run-time component. Those may have more of them.
fn expanded(b: &mut Builder, data: &InstData) -> Option<Value> {
    let OpClass::Access(op, access) = data.op.class() else {
        return None;
    };
    let Some(step) = access.path.iter().position(|s| *s == Step::Dynamic) else {
        let inst = b.push(data.op.clone(), &data.args);
        return b.func.insts[inst].results.first().copied();
    };
    let (elem, rank) = b.env.place_elem(b.func, access.place);
    let count = components(b, elem, &access.path[..step]);
    let index = b.convert(data.args[rank], Scalar::I64);
    let mut args = data.args.clone();
    args.remove(rank);
    let with = |k: u32| {
        let mut access = access.clone();
        access.path[step] = Step::Const(k);
        InstData {
            op: op.on(access),
            args: args.clone(),
            ..data.clone()
        }
    };
    match op {
        AccessOp::Load => {
            let ty = data.results.first().map(|v| b.func.ty(*v))?;
            let mut value = b.zero(ty);
            for k in 0..count {
                let component = expanded(b, &with(k))?;
                let number = b.i64(k.into());
                let this = b.compare(CmpOp::Eq, index, number);
                value = b.select(this, component, value);
            }
            Some(value)
        }
        AccessOp::Store | AccessOp::Atomic(_) | AccessOp::CompareExchange => {
            let ty: Vec<Type> = data.results.iter().map(|v| b.func.ty(*v)).collect();
            let mut found: Values = Values::new();
            for v in &data.args[..rank + access.dynamic_steps()] {
                found.push(b.convert(*v, Scalar::I64));
            }
            let report = (access.guard == Guard::Checked).then(|| {
                let (kind, span) = (SiteKind::OutOfRange(access.place), b.span);
                (b.env.sites.push(SiteData { kind, span }), found)
            });
            branch(b, (index, 0, count), &ty, &with, &report)
        }
    }
}

type Outside = Option<(wuji_ir::entities::Site, Values)>;

/// `if index == k { access of component k } else ...`
fn branch(
    b: &mut Builder,
    (index, k, count): (Value, u32, u32),
    ty: &[Type],
    with: &dyn Fn(u32) -> InstData,
    outside: &Outside,
) -> Option<Value> {
    if k == count {
        if let Some((site, found)) = outside {
            b.push(Op::Report(*site), found);
        }
        return ty.first().map(|t| b.zero(*t));
    }
    let number = b.i64(k.into());
    let this = b.compare(CmpOp::Eq, index, number);
    let inst = b.if_else(
        this,
        ty,
        |b| expanded(b, &with(k)).into_iter().collect(),
        |b| {
            branch(b, (index, k + 1, count), ty, with, outside)
                .into_iter()
                .collect()
        },
    );
    b.func.insts[inst].results.first().copied()
}

/// The number of components of what a path without run-time components leads to.
fn components(b: &Builder, mut ty: Type, path: &[Step]) -> u32 {
    for step in path {
        let Step::Const(k) = step else { continue };
        ty = b.env.structs.component(ty, *k).unwrap_or(ty);
    }
    b.env.structs.arity(ty)
}
