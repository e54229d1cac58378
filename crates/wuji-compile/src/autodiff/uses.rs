//! Which elements of fields a kernel and its gradient kernel access, and whether the gradient kernel reads what it needs.

use super::{Derivatives, FieldUse, IndexRange, UseKind};
use crate::autodiff::activity::Activity;
use crate::rewrite::Structure;
use wuji_ir::entities::{Field, Inst, Value};
use wuji_ir::module::{Function, Module, ValueDef};
use wuji_ir::ops::{AccessOp, BinOp, Op, OpClass, Place};
use wuji_ir::types::Imm;
use wuji_ir::{Error, Position, Result};

/// An access of a field.
struct Use {
    inst: Inst,
    field: Field,
    op: AccessOp,
    /// The number of the instruction of the kernel's entry region that it is in.
    unit: usize,
    /// Its place in program order.
    order: usize,
}

/// The uses of all fields; an error if the kernel overwrites values that its gradient needs.
pub(super) fn of(m: &Module, f: &Function, d: &Derivatives) -> Result<Vec<FieldUse>> {
    let activity = Activity::of(&m.env, f, d, true)?;
    let all = accesses(f);
    let mut out = Vec::new();
    for access in &all {
        let data = &f.insts[access.inst];
        let kind = match access.op {
            AccessOp::Load if activity.is_needed(data.results[0]) => {
                needed_version(m, f, &all, access)?
            }
            AccessOp::Load => UseKind::Reads,
            AccessOp::Store | AccessOp::Atomic(_) | AccessOp::CompareExchange => UseKind::Writes,
        };
        let found = FieldUse {
            field: access.field,
            kind,
            index: indices(m, f, access),
            span: f.spans[access.inst],
        };
        if kind != UseKind::Reads && access.op == AccessOp::Load {
            out.push(FieldUse {
                kind: UseKind::Reads,
                ..found.clone()
            });
        }
        if !out.contains(&found) {
            out.push(found);
        }
    }
    Ok(out)
}

/// Fields that the kernel reads and stores to: elements have two values, each with its adjoint.
pub(super) fn read_and_overwritten(f: &Function) -> Vec<Field> {
    let all = accesses(f);
    let mut out = Vec::new();
    for store in all.iter().filter(|a| a.op == AccessOp::Store) {
        let read =
            |a: &Use| a.field == store.field && a.op == AccessOp::Load && !is_after(f, store, a);
        if all.iter().any(read) && !out.contains(&store.field) {
            out.push(store.field);
        }
    }
    out
}

fn accesses(f: &Function) -> Vec<Use> {
    let mut out = Vec::new();
    for (unit, outer) in f.regions[f.entry].insts.iter().enumerate() {
        let regions = f.insts[*outer].regions.iter();
        let inside = regions.flat_map(|r| f.insts_in(*r));
        for inst in std::iter::once(*outer).chain(inside) {
            if let OpClass::Access(op, access) = f.insts[inst].op.class()
                && let Place::Field(field) = access.place
            {
                out.push(Use {
                    inst,
                    field,
                    op,
                    unit,
                    order: out.len(),
                });
            }
        }
    }
    out
}

/// Whether a load surely reads what a store has left: it is in a later loop, or behind the store in the same iteration
/// and at the same index.
fn is_after(f: &Function, store: &Use, load: &Use) -> bool {
    store.unit < load.unit
        || store.unit == load.unit && store.order < load.order && same_element(f, store, load)
}

fn same_element(f: &Function, a: &Use, b: &Use) -> bool {
    address(f, a) == address(f, b)
}

fn address<'f>(f: &'f Function, access: &Use) -> &'f [Value] {
    let data = &f.insts[access.inst];
    &data.args[..data.args.len() - access.op.operands()]
}

/// Which values of a field the gradient kernel must read for a load of the kernel.
fn needed_version(m: &Module, f: &Function, all: &[Use], load: &Use) -> Result<UseKind> {
    let structure = Structure::of(f);
    let in_loop = |inst: Inst| {
        let mut outer = structure.parent(inst);
        while let Some(control) = outer {
            if let Op::For(..) | Op::Loop(_) = f.insts[control].op {
                return true;
            }
            outer = structure.parent(control);
        }
        false
    };
    let mut old: Option<&Use> = None;
    let mut new: Option<&Use> = None;
    for write in all
        .iter()
        .filter(|a| a.field == load.field && a.op != AccessOp::Load)
    {
        if write.unit > load.unit {
            old = Some(write);
        } else if is_after(f, write, load) {
            new = Some(write);
        } else if write.order > load.order && same_element(f, write, load) && !in_loop(load.inst) {
            old = Some(write);
        } else if write.order < load.order {
            new = new.or(Some(write));
        }
    }
    match (old, new) {
        (Some(old), Some(_)) => Err(overwritten(m, f, load, old)),
        (Some(_), None) => Ok(UseKind::NeedsOld),
        (None, _) => Ok(UseKind::NeedsNew),
    }
}

fn overwritten(m: &Module, f: &Function, load: &Use, write: &Use) -> Error {
    let name = &m.fields[load.field].name;
    let at = |inst: Inst| Position::of(&m.env, f.spans[inst]);
    let line = at(write.inst).map_or_else(String::new, |p| format!(" at {p}"));
    let kernel = &m.name;
    Error::new(
        "W0706",
        format!("kernel `{kernel}` overwrites values of `{name}` that its gradient needs"),
    )
    .at(at(load.inst))
    .note(format!("this read needs a value that the kernel overwrites{line}"))
    .note("the kernel also reads what it has written, so neither the values before nor those after it suffice")
    .help("split the kernel, or write to another field")
}

fn indices(m: &Module, f: &Function, access: &Use) -> Vec<IndexRange> {
    let rank = m.fields[access.field].rank();
    let args = &f.insts[access.inst].args;
    args.iter().take(rank).map(|v| index(f, *v)).collect()
}

/// The index, if it is a parameter plus a constant.
fn index(f: &Function, v: Value) -> IndexRange {
    let mut at = v;
    let mut offset = 0i64;
    for _ in 0..8 {
        if let ValueDef::Param(region, k) = f.values[at].def {
            if region != f.entry {
                return IndexRange::Any;
            }
            return IndexRange::One {
                param: Some(k.into()),
                offset,
            };
        }
        let Some(inst) = f.def(at) else {
            return IndexRange::Any;
        };
        let data = &f.insts[inst];
        let constant = |v: Value| {
            let number = f.constant(v).and_then(Imm::as_int);
            number.and_then(|n| i64::try_from(n).ok())
        };
        if let Some(n) = constant(at) {
            return IndexRange::One {
                param: None,
                offset: offset.saturating_add(n),
            };
        }
        let step = match data.op {
            Op::Binary(BinOp::Add) => match (constant(data.args[0]), constant(data.args[1])) {
                (Some(n), _) => Some((data.args[1], n)),
                (_, Some(n)) => Some((data.args[0], n)),
                (None, None) => None,
            },
            Op::Binary(BinOp::Sub) => constant(data.args[1]).map(|n| (data.args[0], -n)),
            Op::Convert(to) if to.is_int() => Some((data.args[0], 0)),
            _ => None,
        };
        let Some((next, n)) = step else {
            return IndexRange::Any;
        };
        at = next;
        offset = offset.saturating_add(n);
    }
    IndexRange::Any
}
