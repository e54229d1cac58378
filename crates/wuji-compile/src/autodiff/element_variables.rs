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
use wuji_ir::module::{Env, Function, LocalData, LocalRole, Term, Values};
use wuji_ir::ops::{Access, AccessOp, BinOp, CmpOp, Op, OpClass, Place};
use wuji_ir::types::Scalar;

/// Promotes the elements that serial loops update, in a function in normal form.
pub(super) fn promote_elements(env: &mut Env, f: &mut Function) -> Result<()> {
    let found = elements(env, f);
    if found.is_empty() {
        return Ok(());
    }
    for element in &found {
        promote_element(env, f, element, &mut Substitution::new());
    }
    promote_function(env, f)?;
    sweep(f);
    Ok(())
}

/// An element that a variable can take the place of while a region runs.
pub(super) struct Element {
    pub region: Region,
    pub place: Place,
    pub address: Values,
    pub name: String,
    pub accesses: Vec<Inst>,
    /// Whether the indices are known to be in range.
    pub is_inside: bool,
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
        let region = f.insts[control].regions[0];
        let body: Vec<Inst> = f.insts_in(region).collect();
        let accesses: Vec<Inst> = (body.iter().copied())
            .filter(|i| f.insts[*i].op.access().is_some_and(|a| a.place == place))
            .collect();
        if body.iter().all(|i| keeps_elements(f, *i))
            && accesses.iter().all(|i| is_simple(&presence, *i))
            && is_updated_in_loop(f, &structure, control, &accesses)
        {
            out.push(Element {
                region,
                place,
                address: f.regions[region].params.as_slice().into(),
                name: env.fields[field].name.clone(),
                accesses,
                is_inside: true,
            });
        }
    }
    // The set has no order.
    out.sort_by_key(|e| (e.region, e.accesses.first().copied()));
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

/// Loads the element into a variable, replaces it, and stores it at the end. An element that is outside stays 0.
pub(super) fn promote_element(
    env: &mut Env,
    f: &mut Function,
    element: &Element,
    replaced: &mut Substitution,
) {
    let Element {
        region: home,
        place,
        address,
        ..
    } = element;
    let local = f.locals.push(LocalData {
        name: element.name.clone(),
        ty: env.place_elem(f, *place).0,
        len: None,
        shared: false,
        role: LocalRole::Variable,
    });
    let first = element.accesses.first().map(|i| f.spans[*i]);
    let last = element.accesses.last().map(|i| f.spans[*i]);
    // The indices may be computed in the region.
    let is_index = |i: &Inst| f.insts[*i].results.iter().any(|v| address.contains(v));
    let start = f.regions[*home].insts.iter().rposition(is_index);
    let rest = f.regions[*home].insts.split_off(start.map_or(0, |k| k + 1));
    let mut b = Builder::new(env, f);
    b.region = *home;
    b.span = first.unwrap_or(b.span);
    let inside = (!element.is_inside).then(|| is_in_range(&mut b, *place, address));
    let value = b.load(*place, address);
    b.store(Place::Local(local), &[], value);
    let added = b.func.regions[*home].insts.len();
    b.func.regions[*home].insts.extend(rest);
    for region in regions(f, *home) {
        let insts = std::mem::take(&mut f.regions[region].insts);
        for (k, inst) in insts.into_iter().enumerate() {
            let is_new = region == *home && k < added;
            if !is_new && element.accesses.contains(&inst) {
                replace(env, f, (region, inst), (local, inside), replaced);
            } else {
                f.regions[region].insts.push(inst);
            }
        }
    }
    let end = end_of(f, *home);
    let after = f.regions[*home].insts.split_off(end);
    let mut b = Builder::new(env, f);
    b.region = *home;
    b.span = last.unwrap_or(b.span);
    let value = b.load(Place::Local(local), &[]);
    b.store(*place, address, value);
    b.func.regions[*home].insts.extend(after);
    replaced.apply(f);
}

/// Where the instructions of a region end; those of a `loop` before the `if` that leaves or repeats it.
fn end_of(f: &Function, region: Region) -> usize {
    let data = &f.regions[region];
    let count = data.insts.len();
    if data.term == Term::Unreachable {
        count.saturating_sub(1)
    } else {
        count
    }
}

fn is_in_range(b: &mut Builder<'_>, place: Place, address: &[Value]) -> Value {
    let mut inside = b.bool(true);
    for (k, index) in address.iter().enumerate() {
        let (lo, end) = match place {
            Place::Field(field) => {
                let (lo, extent) = b.env.fields[field].domain(&b.env.trees)[k];
                (b.i64(lo), b.i64(lo.saturating_add_unsigned(extent)))
            }
            Place::Array(array) => {
                let extent = b.value(Op::ArrayExtent(array, k as u8), &[]);
                (b.i64(0), extent)
            }
            Place::Local(_) | Place::Temp(_) => continue,
        };
        let index = b.convert(*index, Scalar::I64);
        let above = b.compare(CmpOp::Ge, index, lo);
        let below = b.compare(CmpOp::Lt, index, end);
        inside = b.binary(BinOp::And, inside, above);
        inside = b.binary(BinOp::And, inside, below);
    }
    inside
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
    (region, inst): (Region, Inst),
    (local, inside): (Local, Option<Value>),
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
    let kept = |b: &mut Builder<'_>, value: Value| match inside {
        None => value,
        Some(inside) => {
            let zero = b.zero(b.func.ty(value));
            b.select(inside, value, zero)
        }
    };
    match (op, operand, result) {
        (AccessOp::Store, Some(value), _) => {
            let value = kept(&mut b, value);
            b.push(Op::Store(write), &[value]);
        }
        (AccessOp::Atomic(op), Some(value), Some(result)) => {
            let old = b.value(Op::Load(read), &[]);
            let new = combine(&mut b, op, old, value);
            let new = kept(&mut b, new);
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
