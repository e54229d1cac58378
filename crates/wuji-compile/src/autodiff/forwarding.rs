//! Store-to-load forwarding: a load of an element that its iteration has just stored becomes the stored value.
//!
//! Then a kernel that reads, overwrites and reads an element again loads it only once, so that its gradient needs
//! the value from before the kernel only.

use crate::rewrite::{Structure, Substitution, combine, sweep};
use rustc_hash::FxHashSet;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Inst, Region, Value};
use wuji_ir::module::{Env, Function, ValueDef, Values};
use wuji_ir::ops::{
    Access, AccessOp, Activation, AtomicOp, ControlOp, Domain, Guard, Op, OpClass, Place, Step,
};
use wuji_ir::types::Imm;

/// Whether a function has an atomic product, which has a gradient as a load and a store only.
pub(super) fn has_products(f: &Function) -> bool {
    let mut insts = f.insts_in(f.entry);
    insts.any(|i| matches!(f.insts[i].op, Op::Atomic(AtomicOp::Mul, _)))
}

/// Forwards stores in a function in normal form.
pub(super) fn forward_stores(env: &mut Env, f: &mut Function) {
    let structure = Structure::of(f);
    let mut pass = Forwarding {
        owned: owned_places(env, f),
        env,
        f,
        structure,
        replaced: Substitution::new(),
    };
    let entry = pass.f.entry;
    pass.region(entry, &mut Vec::new());
    let replaced = std::mem::take(&mut pass.replaced);
    replaced.apply(f);
    sweep(f);
}

/// An element, or a part of one, whose value is known.
#[derive(Clone)]
struct Known {
    access: Access,
    address: Values,
    value: Value,
}

struct Forwarding<'a> {
    env: &'a mut Env,
    f: &'a mut Function,
    structure: Structure,
    /// Parallel loops with places of which every iteration accesses only its own element.
    owned: FxHashSet<(Inst, Place)>,
    replaced: Substitution,
}

impl Forwarding<'_> {
    /// `known` is what holds at the start of the region, and then at its end.
    fn region(&mut self, region: Region, known: &mut Vec<Known>) {
        let insts = std::mem::take(&mut self.f.regions[region].insts);
        for inst in insts {
            self.replaced.apply_to_inst(self.f, inst);
            self.inst(region, inst, known);
        }
    }

    /// Adds an instruction, or what it becomes, to its region.
    fn inst(&mut self, region: Region, inst: Inst, known: &mut Vec<Known>) {
        let data = &self.f.insts[inst];
        match data.op.class() {
            OpClass::Access(op, access) => {
                let access = access.clone();
                self.access(region, inst, op, access, known);
                return;
            }
            OpClass::Control(op) => {
                let is_parallel = matches!(op, ControlOp::ForEach(..));
                let is_loop = matches!(op, ControlOp::For(..) | ControlOp::Loop(_));
                let mut at_start = if is_parallel {
                    Vec::new()
                } else {
                    known.clone()
                };
                let written = self.written(inst);
                if is_loop {
                    forget(&mut at_start, &written);
                }
                for inner in self.f.insts[inst].regions.clone() {
                    self.region(inner, &mut at_start.clone());
                }
                forget(known, &written);
            }
            OpClass::Cell(..) | OpClass::TreeAccess(..) | OpClass::Memory(_) => known.clear(),
            OpClass::Call(_) | OpClass::Thread(_) => known.clear(),
            OpClass::Constant(_)
            | OpClass::Elementwise(_)
            | OpClass::Component(_)
            | OpClass::Reduce(_)
            | OpClass::Algebra(_)
            | OpClass::Query(_)
            | OpClass::Hint(_)
            | OpClass::Random
            | OpClass::Check(_) => {}
        }
        self.f.regions[region].insts.push(inst);
    }

    fn access(
        &mut self,
        region: Region,
        inst: Inst,
        op: AccessOp,
        access: Access,
        known: &mut Vec<Known>,
    ) {
        let data = &self.f.insts[inst];
        let split = data.args.len() - op.operands();
        let (address, operands) = data.args.split_at(split);
        let (address, operand): (Values, _) = (address.into(), operands.first().copied());
        let found = known
            .iter()
            .find(|k| is_same(&k.access, &access) && k.address == address);
        let found = found.map(|k| k.value);
        let is_sure = self.is_present(inst, &access, &address);
        let result = data.results.first().copied();
        match (op, result, operand) {
            (AccessOp::Load, Some(result), _) => {
                if let Some(value) = found {
                    self.replaced.set(result, value);
                    return;
                }
                if is_sure {
                    known.push(Known {
                        access,
                        address,
                        value: result,
                    });
                }
            }
            (AccessOp::Store, _, Some(value)) => {
                forget(known, &[access.place].into_iter().collect());
                if is_sure {
                    known.push(Known {
                        access,
                        address,
                        value,
                    });
                }
            }
            (AccessOp::Atomic(op @ (AtomicOp::Add | AtomicOp::Mul)), Some(old), Some(value))
                if is_sure && self.is_owned(inst, access.place) =>
            {
                let new = self.update(region, inst, op, (old, found), value);
                forget(known, &[access.place].into_iter().collect());
                known.push(Known {
                    access,
                    address,
                    value: new,
                });
                return;
            }
            (
                AccessOp::Load | AccessOp::Store | AccessOp::Atomic(_) | AccessOp::CompareExchange,
                ..,
            ) => forget(known, &[access.place].into_iter().collect()),
        }
        self.f.regions[region].insts.push(inst);
    }

    /// A load, unless the old value is known, and a store in place of an atomic. Gives the new value.
    fn update(
        &mut self,
        region: Region,
        inst: Inst,
        op: AtomicOp,
        (result, known): (Value, Option<Value>),
        value: Value,
    ) -> Value {
        let OpClass::Access(_, access) = self.f.insts[inst].op.class() else {
            return value;
        };
        let access = access.clone();
        let args = self.f.insts[inst].args.clone();
        let address = &args[..args.len() - 1];
        let mut b = Builder::new(self.env, self.f);
        b.region = region;
        b.span = b.func.spans[inst];
        let read = Access {
            activation: Activation::Never,
            ..access.clone()
        };
        let old = known.unwrap_or_else(|| b.value(Op::Load(read), address));
        let new = combine(&mut b, op, old, value);
        let mut args: Values = address.into();
        args.push(new);
        b.push(Op::Store(access), &args);
        self.replaced.set(result, old);
        new
    }

    fn written(&self, inst: Inst) -> FxHashSet<Place> {
        written(self.f, inst)
    }

    fn is_owned(&self, inst: Inst, place: Place) -> bool {
        let mut outer = self.structure.parent(inst);
        while let Some(control) = outer {
            if let Op::ForEach(..) = self.f.insts[control].op {
                return self.owned.contains(&(control, place));
            }
            outer = self.structure.parent(control);
        }
        false
    }

    /// Whether the element exists, so that a load gives what was stored.
    fn is_present(&self, inst: Inst, access: &Access, address: &[Value]) -> bool {
        if access.path.contains(&Step::Dynamic) {
            return false;
        }
        let rank = match access.place {
            Place::Field(field) => {
                let data = &self.env.fields[field];
                if data.packing.is_some() || !data.components.is_empty() {
                    // A load gives the rounded value.
                    return false;
                }
                let is_sparse = self.env.trees[data.tree].is_sparse();
                if is_sparse && self.visited_field(inst, address) != Some(data.node.as_u32()) {
                    return false;
                }
                data.rank()
            }
            Place::Array(array) => self.env.arrays[array].rank.into(),
            Place::Temp(_) => return self.structure.parent(inst).is_none(),
            Place::Local(_) => return false,
        };
        let in_range = |k: usize| self.is_in_range(access.place, k, address[k]);
        access.guard == Guard::InBounds || (0..rank).all(in_range)
    }

    /// The node of the field whose active elements a loop visits, if it visits this one.
    fn visited_field(&self, inst: Inst, address: &[Value]) -> Option<u32> {
        let first = address.first()?;
        let ValueDef::Param(region, _) = self.f.values[*first].def else {
            return None;
        };
        let control = self.structure.owner[region].expand()?;
        let Op::ForEach(_, Domain::Field(field), _) = &self.f.insts[control].op else {
            return None;
        };
        let OpClass::Access(_, access) = self.f.insts[inst].op.class() else {
            return None;
        };
        let Place::Field(accessed) = access.place else {
            return None;
        };
        let (visited, accessed) = (&self.env.fields[*field], &self.env.fields[accessed]);
        let same = (visited.tree, visited.node, &visited.axes)
            == (accessed.tree, accessed.node, &accessed.axes);
        let own = is_own(self.f, region, address);
        (same && own).then_some(visited.node.as_u32())
    }

    /// Whether an index is in range along an axis.
    fn is_in_range(&self, place: Place, axis: usize, index: Value) -> bool {
        let domain = match place {
            Place::Field(field) => {
                let domain = self.env.fields[field].domain(&self.env.trees);
                let (lo, extent) = domain[axis];
                Some((i128::from(lo), i128::from(lo) + i128::from(extent)))
            }
            Place::Array(_) | Place::Local(_) | Place::Temp(_) => None,
        };
        let constant = |v: Value| self.f.constant(v).and_then(Imm::as_int);
        if let (Some((lo, hi)), Some(at)) = (domain, constant(index)) {
            return (lo..hi).contains(&at);
        }
        let ValueDef::Param(region, k) = self.f.values[index].def else {
            return false;
        };
        let Some(control) = self.structure.owner[region].expand() else {
            return false;
        };
        let k = usize::from(k);
        let data = &self.f.insts[control];
        let (from, to) = match data.op.control() {
            Some(ControlOp::ForEach(_, Domain::Field(visited), _)) => {
                let visited = self.env.fields[*visited].domain(&self.env.trees)[k];
                let end = i128::from(visited.0) + i128::from(visited.1);
                return domain.is_some_and(|d| d.0 <= visited.0.into() && end <= d.1);
            }
            Some(ControlOp::ForEach(_, Domain::Range { .. }, _)) => {
                (data.args[2 * k], data.args[2 * k + 1])
            }
            Some(ControlOp::For(..)) if k == 0 => {
                let forward = constant(data.args[2]).is_some_and(|step| step > 0);
                if !forward {
                    return false;
                }
                (data.args[0], data.args[1])
            }
            Some(ControlOp::For(..) | ControlOp::If | ControlOp::Loop(_) | ControlOp::Block(_))
            | None => return false,
        };
        match (domain, constant(from), constant(to)) {
            (Some((lo, hi)), Some(from), Some(to)) => lo <= from && to <= hi,
            (None, Some(from), _) => from >= 0 && self.is_extent(place, axis, to),
            _ => false,
        }
    }

    /// Whether a value is the extent of an array along an axis.
    fn is_extent(&self, place: Place, axis: usize, mut v: Value) -> bool {
        while let Some(inst) = self.f.def(v) {
            let data = &self.f.insts[inst];
            if let Op::Convert(_) = data.op {
                v = data.args[0];
                continue;
            }
            return matches!(data.op, Op::ArrayExtent(array, k) if Place::Array(array) == place && usize::from(k) == axis);
        }
        false
    }
}

fn is_same(a: &Access, b: &Access) -> bool {
    (a.place, &a.path) == (b.place, &b.path)
}

/// Forgets what a write to one of the places may have changed. Arrays may overlap.
fn forget(known: &mut Vec<Known>, written: &FxHashSet<Place>) {
    let arrays = written.iter().any(|p| matches!(p, Place::Array(_)));
    known.retain(|k| match k.access.place {
        Place::Array(_) => !arrays,
        place @ (Place::Field(_) | Place::Local(_) | Place::Temp(_)) => !written.contains(&place),
    });
}

fn written(f: &Function, inst: Inst) -> FxHashSet<Place> {
    let inside = f.insts[inst].regions.iter().flat_map(|r| f.insts_in(*r));
    let places = inside.filter_map(|i| f.insts[i].op.written_access().map(|a| a.place));
    places.collect()
}

/// Whether an address is the element that an iteration of a parallel loop is at.
fn is_own(f: &Function, region: Region, address: &[Value]) -> bool {
    let params = &f.regions[region].params;
    address.len() == params.len() && address == &params[..]
}

/// The fields of which every iteration of a parallel loop accesses only the element that it is at.
fn owned_places(env: &Env, f: &Function) -> FxHashSet<(Inst, Place)> {
    let mut out = FxHashSet::default();
    for control in f.insts_in(f.entry) {
        if !matches!(f.insts[control].op, Op::ForEach(..)) {
            continue;
        }
        let body = f.insts[control].regions[0];
        let (mut own, mut shared) = (FxHashSet::default(), FxHashSet::default());
        for inst in f.insts_in(body) {
            let data = &f.insts[inst];
            let OpClass::Access(_, access) = data.op.class() else {
                continue;
            };
            let Place::Field(field) = access.place else {
                continue;
            };
            let rank = env.fields[field].rank();
            let list = if is_own(f, body, &data.args[..rank]) {
                &mut own
            } else {
                &mut shared
            };
            list.insert(access.place);
        }
        let owned = own.difference(&shared);
        out.extend(owned.map(|place| (control, *place)));
    }
    out
}
