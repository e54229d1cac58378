//! Store-to-load forwarding: a load of an element that its iteration has just stored becomes the stored value.
//!
//! Then a kernel that reads, overwrites and reads an element again loads it only once, so that its gradient needs
//! the value from before the kernel only.

use super::presence::{Presence, owned_places};
use crate::rewrite::{Structure, Substitution, combine, sweep};
use rustc_hash::FxHashSet;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Inst, Region, Value};
use wuji_ir::module::{Env, Function, Values};
use wuji_ir::ops::{Access, AccessOp, Activation, AtomicOp, ControlOp, Op, OpClass, Place};

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
        let is_sure = self.presence().is_present(inst, &access, &address);
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

    fn presence(&self) -> Presence<'_> {
        Presence {
            env: self.env,
            f: self.f,
            structure: &self.structure,
        }
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
