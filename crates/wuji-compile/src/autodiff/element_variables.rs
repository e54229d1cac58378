//! Scalar promotion: an element that belongs to an iteration, and that its serial loops update, becomes a variable.
//!
//! The iteration loads the element at its start and stores it at its end. Then the rounds of its loops carry a value, which the
//! reverse sweep can restore, and overwrite no memory.

use super::presence::{Presence, owned_places};
use crate::passes::promote::promote_function;
use crate::rewrite::{Structure, Substitution, combine, sweep};
use wuji_ir::Result;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Inst, Local, Region, Value};
use wuji_ir::module::{Env, Function, LocalData, LocalRole, Values};
use wuji_ir::ops::{Access, AccessOp, Op, OpClass, Place};

/// Promotes the elements that serial loops update, in a function in normal form.
pub(super) fn promote_elements(env: &mut Env, f: &mut Function) -> Result<()> {
    let found = elements(env, f);
    if found.is_empty() {
        return Ok(());
    }
    for element in &found {
        promote_element(env, f, element);
    }
    promote_function(env, f)?;
    sweep(f);
    Ok(())
}

/// A place of which the iterations of a parallel loop access only their own element.
struct Element {
    control: Inst,
    place: Place,
    name: String,
    accesses: Vec<Inst>,
}

fn elements(env: &Env, f: &Function) -> Vec<Element> {
    let structure = Structure::of(f);
    let presence = Presence {
        env,
        f,
        structure: &structure,
    };
    let mut out = Vec::new();
    for (control, place) in owned_places(env, f) {
        let Place::Field(field) = place else {
            continue;
        };
        let body: Vec<Inst> = f.insts_in(f.insts[control].regions[0]).collect();
        let accesses: Vec<Inst> = (body.iter().copied())
            .filter(|i| f.insts[*i].op.access().is_some_and(|a| a.place == place))
            .collect();
        if body.iter().all(|i| keeps_elements(f, *i))
            && accesses.iter().all(|i| is_simple(&presence, *i))
            && is_updated_in_loop(f, &structure, control, &accesses)
        {
            out.push(Element {
                control,
                place,
                name: env.fields[field].name.clone(),
                accesses,
            });
        }
    }
    // The set has no order.
    out.sort_by_key(|e| (e.control, e.accesses.first().copied()));
    out
}

/// Whether elements are only changed by accesses: there are no cells that come and go, and no calls.
fn keeps_elements(f: &Function, inst: Inst) -> bool {
    let op = &f.insts[inst].op;
    match op.class() {
        OpClass::Cell(..)
        | OpClass::TreeAccess(..)
        | OpClass::Memory(_)
        | OpClass::Call(_)
        | OpClass::Thread(_) => false,
        OpClass::Control(_) => !matches!(op, Op::ForEach(..)),
        OpClass::Access(..)
        | OpClass::Constant(_)
        | OpClass::Elementwise(_)
        | OpClass::Component(_)
        | OpClass::Reduce(_)
        | OpClass::Algebra(_)
        | OpClass::Query(_)
        | OpClass::Hint(_)
        | OpClass::Random
        | OpClass::Check(_) => true,
    }
}

/// Whether a variable can take the place of the element.
fn is_simple(presence: &Presence<'_>, inst: Inst) -> bool {
    let data = &presence.f.insts[inst];
    let OpClass::Access(op, access) = data.op.class() else {
        return false;
    };
    let address = &data.args[..data.args.len() - op.operands()];
    match op {
        AccessOp::CompareExchange => false,
        AccessOp::Load | AccessOp::Store | AccessOp::Atomic(_) => {
            presence.is_present(inst, access, address)
        }
    }
}

/// Whether a serial loop writes to the element, and the iteration loads it.
fn is_updated_in_loop(
    f: &Function,
    structure: &Structure,
    control: Inst,
    accesses: &[Inst],
) -> bool {
    let is_in_loop = |inst: Inst| {
        let mut outer = structure.parent(inst);
        while let Some(owner) = outer.filter(|o| *o != control) {
            if matches!(f.insts[owner].op, Op::For(..) | Op::Loop(_)) {
                return true;
            }
            outer = structure.parent(owner);
        }
        false
    };
    let writes = |i: &Inst| f.insts[*i].op.written_access().is_some();
    let loads = |i: &Inst| matches!(f.insts[*i].op, Op::Load(_));
    accesses.iter().any(|i| writes(i) && is_in_loop(*i)) && accesses.iter().any(loads)
}

/// Loads the element into a variable, replaces it, and stores it at the end.
fn promote_element(env: &mut Env, f: &mut Function, element: &Element) {
    let Place::Field(field) = element.place else {
        return;
    };
    let local = f.locals.push(LocalData {
        name: element.name.clone(),
        ty: env.fields[field].elem,
        len: None,
        shared: false,
        role: LocalRole::Variable,
    });
    let body = f.insts[element.control].regions[0];
    let address: Values = f.regions[body].params.as_slice().into();
    let mut replaced = Substitution::new();
    for region in regions(f, body) {
        let insts = std::mem::take(&mut f.regions[region].insts);
        for inst in insts {
            if element.accesses.contains(&inst) {
                replace(env, f, region, inst, local, &mut replaced);
            } else {
                f.regions[region].insts.push(inst);
            }
        }
    }
    let first = element.accesses.first().map(|i| f.spans[*i]);
    let last = element.accesses.last().map(|i| f.spans[*i]);
    let rest = std::mem::take(&mut f.regions[body].insts);
    let mut b = Builder::new(env, f);
    b.region = body;
    b.span = first.unwrap_or(b.span);
    let value = b.load(element.place, &address);
    b.store(Place::Local(local), &[], value);
    b.func.regions[body].insts.extend(rest);
    b.span = last.unwrap_or(b.span);
    let value = b.load(Place::Local(local), &[]);
    b.store(element.place, &address, value);
    replaced.apply(f);
}

fn regions(f: &Function, body: Region) -> Vec<Region> {
    let mut out = vec![body];
    let inner = f.insts_in(body).flat_map(|i| f.insts[i].regions.clone());
    out.extend(inner);
    out
}

/// Adds the access of a variable that takes the place of an access to its element.
fn replace(
    env: &mut Env,
    f: &mut Function,
    region: Region,
    inst: Inst,
    local: Local,
    replaced: &mut Substitution,
) {
    let OpClass::Access(op, access) = f.insts[inst].op.class() else {
        return;
    };
    let variable = |access: Access| Access {
        place: Place::Local(local),
        ..access
    };
    let path = access.path.clone();
    let read = variable(Access {
        path: path.clone(),
        ..Access::read(Place::Local(local))
    });
    let write = variable(Access {
        path,
        ..Access::write(Place::Local(local))
    });
    let result: Option<Value> = f.insts[inst].results.first().copied();
    let operand = f.insts[inst].args.last().copied();
    let span = f.spans[inst];
    let mut b = Builder::new(env, f);
    b.region = region;
    b.span = span;
    match (op, operand, result) {
        (AccessOp::Store, Some(value), _) => {
            b.push(Op::Store(write), &[value]);
        }
        (AccessOp::Atomic(op), Some(value), Some(result)) => {
            let old = b.value(Op::Load(read), &[]);
            let new = combine(&mut b, op, old, value);
            b.push(Op::Store(write), &[new]);
            replaced.set(result, old);
        }
        (AccessOp::Load, _, Some(result)) => {
            let value = b.value(Op::Load(read), &[]);
            replaced.set(result, value);
        }
        (
            AccessOp::Load | AccessOp::Store | AccessOp::Atomic(_) | AccessOp::CompareExchange,
            ..,
        ) => {}
    }
}
