//! Which elements of fields and arrays a kernel and its gradient kernel access, and whether the gradient kernel reads what it needs.

use super::{ArrayUse, Derivatives, FieldUse, IndexRange, UseKind, nested};
use crate::analysis::dependence::Dependences;
use crate::autodiff::activity::Activity;
use crate::rewrite::Structure;
use std::cmp::Ordering;
use wuji_ir::entities::{Inst, Value};
use wuji_ir::module::{Function, Module, Span, ValueDef};
use wuji_ir::ops::{AccessOp, BinOp, Op, OpClass, Place, Step};
use wuji_ir::quant::Quantized;
use wuji_ir::types::Imm;
use wuji_ir::{Error, Position, Result};

/// An access of a field or array.
#[derive(Copy, Clone)]
struct Use {
    inst: Inst,
    place: Place,
    op: AccessOp,
    /// The number of the unit that it is in.
    unit: usize,
    /// Its place in program order.
    order: usize,
    /// Whether it changes other components, because they share an exponent.
    rounds: bool,
}

/// The uses of all fields and arrays.
#[derive(Default)]
pub(super) struct Uses {
    pub fields: Vec<FieldUse>,
    pub arrays: Vec<ArrayUse>,
}

impl Uses {
    fn add(&mut self, place: Place, kind: UseKind, index: Vec<IndexRange>, span: Span) {
        match place {
            Place::Field(field) => add_once(
                &mut self.fields,
                FieldUse {
                    field,
                    kind,
                    index,
                    span,
                },
            ),
            Place::Array(array) => add_once(
                &mut self.arrays,
                ArrayUse {
                    array,
                    kind,
                    index,
                    span,
                },
            ),
            // They end with the launch.
            Place::Local(_) | Place::Temp(_) => {}
        }
    }

    /// Whether the gradient may need values of a field or array from before the kernel and from after it.
    pub(super) fn needs_both(&self) -> bool {
        self.both().is_some()
    }

    /// A field or array of which it may need both, and where it does: first from before, then from after.
    pub(super) fn both(&self) -> Option<(Place, [Span; 2])> {
        let fields = self.fields.iter();
        let fields = fields.map(|u| (Place::Field(u.field), u.kind, &u.index[..], u.span));
        let arrays = self.arrays.iter();
        let arrays = arrays.map(|u| (Place::Array(u.array), u.kind, &u.index[..], u.span));
        let all: Vec<_> = fields.chain(arrays).collect();
        let is_written = |place: Place, index: &[IndexRange]| {
            let mut writes = all.iter().filter(|u| u.1 == UseKind::Writes);
            writes.any(|u| u.0 == place && may_overlap(u.2, index))
        };
        let of = |kind: UseKind| {
            let of_kind = all.iter().filter(move |u| u.1 == kind);
            of_kind.filter(|u| is_written(u.0, u.2))
        };
        of(UseKind::NeedsOld).find_map(|old| {
            let new = of(UseKind::NeedsNew).find(|new| new.0 == old.0)?;
            Some((old.0, [old.3, new.3]))
        })
    }
}

/// Whether two accesses may be of one element.
fn may_overlap(a: &[IndexRange], b: &[IndexRange]) -> bool {
    a.iter().zip(b).all(|pair| match pair {
        (
            IndexRange::One { param, offset },
            IndexRange::One {
                param: other,
                offset: at,
            },
        ) => param != other || offset == at,
        (IndexRange::Any, _) | (_, IndexRange::Any) => true,
    })
}

fn add_once<T: PartialEq>(all: &mut Vec<T>, added: T) {
    if !all.contains(&added) {
        all.push(added);
    }
}

/// The uses of all fields and arrays; an error if the kernel overwrites values that its gradient needs.
pub(super) fn of(m: &Module, f: &Function, d: &Derivatives) -> Result<Uses> {
    let activity = Activity::of(&m.env, &m.funcs, f, d, true)?;
    nested::check(m, f, &activity)?;
    check_temps(m, f, &activity)?;
    let all = with_rounded(m, accesses(f));
    let structure = Structure::of(f);
    let mut order = Order::new(f, &structure);
    let mut out = Uses::default();
    for access in &all {
        let data = &f.insts[access.inst];
        let kind = match access.op {
            AccessOp::Load if activity.needed().contains(data.results[0]) => {
                needed_version(m, &mut order, &all, access)?
            }
            AccessOp::Load => UseKind::Reads,
            AccessOp::Store | AccessOp::Atomic(_) | AccessOp::CompareExchange => UseKind::Writes,
        };
        let (index, span) = (indices(m, f, access), f.spans[access.inst]);
        if access.op == AccessOp::Load && kind != UseKind::Reads {
            out.add(access.place, UseKind::Reads, index.clone(), span);
            // Numbers that share an exponent have one version.
            for other in rounded_with(m, access.place) {
                out.add(other, kind, index.clone(), span);
            }
        }
        out.add(access.place, kind, index, span);
    }
    Ok(out)
}

/// The forward sweep leaves the last value of a variable that iterations share. A loop that needs an earlier one is refused.
fn check_temps(m: &Module, f: &Function, activity: &Activity) -> Result<()> {
    let units = units(f);
    let inside = |unit: Inst| f.insts[unit].regions.iter().flat_map(|r| f.insts_in(*r));
    for (k, unit) in units.iter().enumerate() {
        for load in inside(*unit) {
            let data = &f.insts[load];
            let OpClass::Access(AccessOp::Load, access) = data.op.class() else {
                continue;
            };
            if !matches!(access.place, Place::Temp(_))
                || !activity.needed().contains(data.results[0])
            {
                continue;
            }
            let later = units[k..]
                .iter()
                .flat_map(|u| std::iter::once(*u).chain(inside(*u)));
            let place = Some(access.place);
            let mut writes =
                later.filter(|i| f.insts[*i].op.written_access().map(|a| a.place) == place);
            if let Some(write) = writes.next() {
                let error = overwritten(m, f, "a variable", load, write);
                return Err(error.help("split the kernel, or use a field"));
            }
        }
    }
    Ok(())
}

/// Fields and arrays that the kernel reads and stores to: elements have two values, each with its adjoint.
pub(super) fn read_and_overwritten(f: &Function) -> Vec<Place> {
    let all = accesses(f);
    let structure = Structure::of(f);
    let mut order = Order::new(f, &structure);
    let mut out = Vec::new();
    for store in all.iter().filter(|a| a.op == AccessOp::Store) {
        let mut read = |a: &Use| {
            a.place == store.place && a.op == AccessOp::Load && order.may_overwrite(store, a)
        };
        if all.iter().any(&mut read) {
            add_once(&mut out, store.place);
        }
    }
    out
}

/// The instructions that run one after the other: those of the entry region, and those of branches with parallel loops.
fn units(f: &Function) -> Vec<Inst> {
    let mut out = Vec::new();
    let mut waiting: Vec<Inst> = f.regions[f.entry].insts.iter().rev().copied().collect();
    while let Some(inst) = waiting.pop() {
        let data = &f.insts[inst];
        let mut inside = data.regions.iter().flat_map(|r| f.insts_in(*r));
        let is_parallel = |i: Inst| matches!(f.insts[i].op, Op::ForEach(..));
        if data.op == Op::If && inside.any(is_parallel) {
            let branches = data.regions.iter().rev();
            waiting.extend(branches.flat_map(|r| f.regions[*r].insts.iter().rev()));
        } else {
            out.push(inst);
        }
    }
    out
}

fn accesses(f: &Function) -> Vec<Use> {
    let mut out = Vec::new();
    for (unit, outer) in units(f).into_iter().enumerate() {
        let regions = f.insts[outer].regions.iter();
        let inside = regions.flat_map(|r| f.insts_in(*r));
        for inst in std::iter::once(outer).chain(inside) {
            if let OpClass::Access(op, access) = f.insts[inst].op.class()
                && matches!(access.place, Place::Field(_) | Place::Array(_))
            {
                out.push(Use {
                    inst,
                    place: access.place,
                    op,
                    unit,
                    order: out.len(),
                    rounds: false,
                });
            }
        }
    }
    out
}

/// With a write to each field whose numbers a write rounds again, because they share an exponent.
fn with_rounded(m: &Module, all: Vec<Use>) -> Vec<Use> {
    let mut out = Vec::new();
    for mut access in all {
        if access.op != AccessOp::Load {
            access.rounds = shares_exponent(m, access.place);
            let others = rounded_with(m, access.place).into_iter();
            out.extend(others.map(|place| Use { place, ..access }));
        }
        out.push(access);
    }
    out
}

/// Whether some numbers of a place share an exponent, with each other or with those of other fields.
fn shares_exponent(m: &Module, place: Place) -> bool {
    let Place::Field(field) = place else {
        return false;
    };
    let packing = m.fields[field].packing.iter();
    let mut types = packing.flat_map(|p| &p.members).map(|m| m.ty);
    types.any(|ty| matches!(ty, Quantized::Fraction { .. }))
}

/// The other fields whose numbers a write rounds again.
fn rounded_with(m: &Module, place: Place) -> Vec<Place> {
    match place {
        Place::Field(field) => {
            let others = m.sharing_exponents(field).into_iter();
            others.map(Place::Field).collect()
        }
        Place::Array(_) | Place::Local(_) | Place::Temp(_) => Vec::new(),
    }
}

fn address<'f>(f: &'f Function, access: &Use) -> &'f [Value] {
    let data = &f.insts[access.inst];
    &data.args[..data.args.len() - access.op.operands()]
}

/// Which values of a field the gradient kernel must read for a load of the kernel.
fn needed_version(m: &Module, order: &mut Order, all: &[Use], load: &Use) -> Result<UseKind> {
    let (mut old, mut new) = (None, None);
    for write in all {
        if write.place != load.place || write.op == AccessOp::Load {
            continue;
        }
        match order.of(write, load) {
            Relation::Disjoint | Relation::Unknown => {}
            Relation::Before => old = Some(write),
            Relation::After => new = Some(write),
            Relation::Both => (old, new) = (Some(write), Some(write)),
        }
    }
    match (old, new) {
        (Some(old), Some(new)) => {
            let name = name_of(m, load.place);
            let error = overwritten(m, order.f, &name, load.inst, old.inst);
            Err(error.help(how_to_split(m, order.f, [new, load, old])))
        }
        (Some(_), None) => Ok(UseKind::NeedsOld),
        (None, _) => Ok(UseKind::NeedsNew),
    }
}

pub(super) fn name_of(m: &Module, place: Place) -> String {
    match place {
        Place::Field(field) => format!("`{}`", m.fields[field].name),
        Place::Array(array) => format!("`{}`", m.arrays[array].name),
        Place::Local(_) | Place::Temp(_) => "a variable".to_owned(),
    }
}

/// What is known about an element that a kernel both writes and reads.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Relation {
    /// There is none.
    Disjoint,
    /// It is read before it is written, for the last time.
    Before,
    /// It is read after it has been written, for the last time.
    After,
    /// It is read and written again and again.
    Both,
    /// Perhaps none, because an index is not an affine expression.
    Unknown,
}

/// The order of accesses.
struct Order<'f> {
    f: &'f Function,
    dependences: Dependences<'f>,
}

impl<'f> Order<'f> {
    fn new(f: &'f Function, structure: &'f Structure) -> Order<'f> {
        Order {
            f,
            dependences: Dependences::new(f, structure),
        }
    }

    fn of(&mut self, write: &Use, load: &Use) -> Relation {
        if self.in_other_components(write, load) || !self.may_overlap(write, load) {
            return Relation::Disjoint;
        }
        match write.unit.cmp(&load.unit) {
            Ordering::Less => Relation::After,
            Ordering::Greater => Relation::Before,
            Ordering::Equal => self.in_iteration(write, load),
        }
    }

    fn may_overlap(&mut self, a: &Use, b: &Use) -> bool {
        let (first, second) = ((a.inst, address(self.f, a)), (b.inst, address(self.f, b)));
        self.dependences.may_overlap(first, second)
    }

    /// Whether a store may overwrite what a load has read, in whatever iterations.
    fn may_overwrite(&mut self, store: &Use, load: &Use) -> bool {
        match self.of(store, load) {
            Relation::Before | Relation::Both | Relation::Unknown => true,
            Relation::After => false,
            Relation::Disjoint => {
                // Other iterations may read the element.
                store.unit == load.unit
                    && !self.in_other_components(store, load)
                    && self.may_overlap(store, load)
            }
        }
    }

    /// The order of accesses in an iteration of a parallel loop, or in serial code.
    fn in_iteration(&mut self, write: &Use, load: &Use) -> Relation {
        let (w, l) = (
            (write.inst, address(self.f, write)),
            (load.inst, address(self.f, load)),
        );
        let writes_first = write.order < load.order;
        let (first, second) = if writes_first { (w, l) } else { (l, w) };
        let found = self.dependences.between(first, second);
        let (after, before) = if writes_first {
            (found.forward, found.backward)
        } else {
            (found.backward, found.forward)
        };
        match (after, before) {
            (false, false) => Relation::Disjoint,
            (true, false) => Relation::After,
            (false, true) => Relation::Before,
            (true, true) if found.is_affine => Relation::Both,
            (true, true) => Relation::Unknown,
        }
    }

    /// Whether two accesses are of different components, whatever the elements are.
    fn in_other_components(&self, a: &Use, b: &Use) -> bool {
        let path = |access: &Use| {
            let OpClass::Access(_, access) = self.f.insts[access.inst].op.class() else {
                return Default::default();
            };
            access.path.clone()
        };
        if a.rounds || b.rounds {
            return false;
        }
        let (a, b) = (path(a), path(b));
        let mut steps = a.iter().zip(&b);
        steps.any(|steps| matches!(steps, (Step::Const(x), Step::Const(y)) if x != y))
    }
}

fn overwritten(m: &Module, f: &Function, name: &str, load: Inst, write: Inst) -> Error {
    let at = |inst: Inst| Position::of(&m.env, f.spans[inst]);
    let line = at(write).map_or_else(String::new, |p| format!(" at {p}"));
    let kernel = &m.name;
    Error::new(
        "W0706",
        format!("kernel `{kernel}` overwrites values of {name} that its gradient needs"),
    )
    .at(at(load))
    .note(format!(
        "this read needs a value that the kernel overwrites{line}"
    ))
}

/// Where to split a kernel, so that a value that it reads is the last one of the first part, or the first one of the second part: the kernel
/// writes it, reads it and overwrites it.
fn how_to_split(m: &Module, f: &Function, [new, load, old]: [&Use; 3]) -> String {
    let start = if load.unit < old.unit {
        Some(old.unit)
    } else if new.unit < load.unit {
        Some(load.unit)
    } else {
        None
    };
    let unit = start.and_then(|unit| units(f).get(unit).copied());
    let at = unit.and_then(|unit| Position::of(&m.env, f.spans[unit]));
    match at {
        Some(at) => format!(
            "launch the kernel on a tape, which runs it in parts, or split it in two, the second one from {at} on"
        ),
        None => "keep the value in a variable, or write to another field".to_owned(),
    }
}

fn indices(m: &Module, f: &Function, access: &Use) -> Vec<IndexRange> {
    let rank = match access.place {
        Place::Field(field) => m.fields[field].rank(),
        Place::Array(array) => m.arrays[array].rank.into(),
        Place::Local(_) | Place::Temp(_) => 0,
    };
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
        let step = if data.op == Op::Binary(BinOp::Add) {
            match (constant(data.args[0]), constant(data.args[1])) {
                (Some(n), _) => Some((data.args[1], n)),
                (_, Some(n)) => Some((data.args[0], n)),
                (None, None) => None,
            }
        } else if data.op == Op::Binary(BinOp::Sub) {
            constant(data.args[1]).map(|n| (data.args[0], n.saturating_neg()))
        } else if let Op::Convert(to) = data.op {
            let from = f.ty(data.args[0]).as_scalar();
            let keeps = from.is_some_and(|s| s.is_int() && s.bits() <= to.bits());
            (to.is_int() && keeps).then_some((data.args[0], 0))
        } else {
            None
        };
        let Some((next, n)) = step else {
            return IndexRange::Any;
        };
        at = next;
        offset = offset.saturating_add(n);
    }
    IndexRange::Any
}
