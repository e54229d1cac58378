//! Elements that a region updates and reads again, for gradient kernels.
//!
//! `x[t + 1, i]` is stored, tested and stored again: its gradient would need the value of each time. In a variable it has them.
//! Unlike in [`element_variables`](super::element_variables), the kernel itself cannot be run so: an element that is outside
//! keeps its value 0, but its cell may become active.

use super::element_variables::{Element, promote_element};
use super::presence::Presence;
use crate::analysis::dependence::Dependences;
use crate::passes::promote::promote_function;
use crate::rewrite::{Structure, Substitution, sweep};
use rustc_hash::FxHashMap;
use wuji_ir::Result;
use wuji_ir::entities::{Inst, Region, Value};
use wuji_ir::module::{Env, Function, ValueDef, Values};
use wuji_ir::ops::{AccessOp, Activation, AtomicOp, BinOp, ControlOp, Op, OpClass, Place, Step};
use wuji_ir::types::Imm;

/// Promotes such elements to variables, in a function in normal form.
pub(super) fn promote_for_gradient(env: &mut Env, f: &mut Function) -> Result<()> {
    let mut found = elements(env, f);
    if found.is_empty() {
        return Ok(());
    }
    let mut replaced = Substitution::new();
    for element in &mut found {
        for v in &mut element.address {
            *v = replaced.get(*v);
        }
        promote_element(env, f, element, &mut replaced);
    }
    promote_function(env, f)?;
    sweep(f);
    Ok(())
}

/// The accesses of a place with one address.
struct Group {
    place: Place,
    address: Values,
    accesses: Vec<Inst>,
}

fn elements(env: &Env, f: &Function) -> Vec<Element> {
    let structure = Structure::of(f);
    let is_opaque = |i: Inst| {
        let class = f.insts[i].op.class();
        matches!(
            class,
            OpClass::Cell(..)
                | OpClass::TreeAccess(..)
                | OpClass::Memory(_)
                | OpClass::Call(_)
                | OpClass::Thread(_)
        )
    };
    if f.insts_in(f.entry).any(is_opaque) {
        return Vec::new();
    }
    let groups = groups(f);
    let mut finder = Finder {
        env,
        f,
        structure: &structure,
        dependences: Dependences::new(f, &structure),
        groups: &groups,
    };
    let found = groups.iter().filter_map(|g| finder.element(g));
    found.collect()
}

/// All accesses of fields and arrays, in program order.
fn groups(f: &Function) -> Vec<Group> {
    let mut out: Vec<Group> = Vec::new();
    let mut known: FxHashMap<(Place, Values), usize> = FxHashMap::default();
    for inst in f.insts_in(f.entry) {
        let data = &f.insts[inst];
        let OpClass::Access(op, access) = data.op.class() else {
            continue;
        };
        if let Place::Local(_) | Place::Temp(_) = access.place {
            continue;
        }
        // Steps with a computed component are part of the address.
        let address: Values = data.args[..data.args.len() - op.operands()].into();
        let key = (access.place, address.clone());
        let at = *known.entry(key).or_insert_with(|| {
            out.push(Group {
                place: access.place,
                address,
                accesses: Vec::new(),
            });
            out.len() - 1
        });
        out[at].accesses.push(inst);
    }
    out
}

struct Finder<'a> {
    env: &'a Env,
    f: &'a Function,
    structure: &'a Structure,
    dependences: Dependences<'a>,
    groups: &'a [Group],
}

impl Finder<'_> {
    fn element(&mut self, group: &Group) -> Option<Element> {
        let Group {
            place,
            address,
            accesses,
        } = group;
        if !accesses.iter().all(|i| self.is_simple(*i)) || !self.is_plain(*place) {
            return None;
        }
        let region = self.home(address)?;
        let nested = |i: &Inst| self.loop_between(*i, region);
        if accesses.iter().any(|i| nested(i) == Nesting::Parallel) {
            return None;
        }
        let in_loop = accesses.iter().any(|i| nested(i) == Nesting::Serial);
        if !self.is_worth_it(accesses, in_loop) {
            return None;
        }
        let parallel = self.parallel_loop(region);
        if parallel.is_some_and(|control| !is_own(self.f, self.structure, control, address)) {
            return None;
        }
        for other in self.groups {
            let is_same = other.place == *place;
            if is_same && other.address == *address || !self.may_be_same(other.place, *place) {
                continue;
            }
            for b in &other.accesses {
                for a in accesses {
                    let touches =
                        self.touches((*a, address), (*b, &other.address), region, parallel);
                    if touches && (is_same || self.writes(*a) || self.writes(*b)) {
                        return None;
                    }
                }
            }
        }
        let presence = Presence {
            env: self.env,
            f: self.f,
            structure: self.structure,
        };
        Some(Element {
            region,
            address: address.clone(),
            place: *place,
            name: name_of(self.env, *place),
            accesses: accesses.clone(),
            is_inside: accesses.iter().all(|i| presence.is_inside(*i)),
        })
    }

    /// Whether a variable can take the place of the element for this access.
    fn is_simple(&self, inst: Inst) -> bool {
        let OpClass::Access(op, access) = self.f.insts[inst].op.class() else {
            return false;
        };
        let is_kept = match op {
            AccessOp::CompareExchange => false,
            AccessOp::Load => true,
            AccessOp::Store | AccessOp::Atomic(_) => access.activation != Activation::Never,
        };
        is_kept && !access.path.contains(&Step::Dynamic)
    }

    /// Whether a load gives what was stored.
    fn is_plain(&self, place: Place) -> bool {
        match place {
            Place::Field(field) => {
                let data = &self.env.fields[field];
                data.packing.is_none() && data.components.is_empty()
            }
            Place::Array(_) => true,
            Place::Local(_) | Place::Temp(_) => false,
        }
    }

    fn writes(&self, inst: Inst) -> bool {
        self.f.insts[inst].op.written_access().is_some()
    }

    /// Whether the element has several values that are read, or one in each round of a loop.
    fn is_worth_it(&self, accesses: &[Inst], in_loop: bool) -> bool {
        let writes = accesses.iter().filter(|i| self.writes(**i)).count();
        let is_product = |i: &Inst| matches!(self.f.insts[*i].op, Op::Atomic(AtomicOp::Mul, _));
        let is_read = writes < accesses.len() || accesses.iter().any(is_product);
        is_read && writes > 0 && (accesses.len() > 2 || in_loop || accesses.iter().any(is_product))
    }

    /// The innermost region that defines an index: in it, the address is one element.
    fn home(&self, address: &[Value]) -> Option<Region> {
        let mut home = self.f.entry;
        for v in address {
            let region = self.structure.def_region(self.f, *v)?;
            if self.structure.is_inside(region, home) {
                home = region;
            }
        }
        Some(home)
    }

    /// The loops between an instruction and a region around it.
    fn loop_between(&self, inst: Inst, region: Region) -> Nesting {
        let mut out = Nesting::Flat;
        let mut at = self.structure.region_of[inst].expand();
        while let Some(inner) = at.filter(|r| *r != region) {
            let Some(owner) = self.structure.owner[inner].expand() else {
                break;
            };
            match self.f.insts[owner].op.control() {
                Some(ControlOp::ForEach(..)) => return Nesting::Parallel,
                Some(ControlOp::For(..) | ControlOp::Loop(_)) => out = Nesting::Serial,
                Some(ControlOp::If | ControlOp::Block(_)) | None => {}
            }
            at = self.structure.region_of[owner].expand();
        }
        out
    }

    /// The parallel loop that a region is in.
    fn parallel_loop(&self, region: Region) -> Option<Inst> {
        let mut owner = self.structure.owner[region].expand();
        while let Some(control) = owner {
            if matches!(self.f.insts[control].op, Op::ForEach(..)) {
                return Some(control);
            }
            owner = self.structure.parent(control);
        }
        None
    }

    fn may_be_same(&self, a: Place, b: Place) -> bool {
        match (a, b) {
            (Place::Array(a), Place::Array(b)) => {
                let unaliased = |n| self.env.arrays[n].unaliased;
                a == b || !unaliased(a) || !unaliased(b)
            }
            _ => a == b,
        }
    }

    /// Whether another access may reach the element while the region has it in a variable.
    fn touches(
        &mut self,
        a: (Inst, &Values),
        b: (Inst, &Values),
        region: Region,
        parallel: Option<Inst>,
    ) -> bool {
        let home = self.structure.region_of[b.0].expand();
        let is_inside = |outer| home.is_some_and(|h| self.structure.is_inside(h, outer));
        let rank = a.1.len().min(b.1.len());
        let (x, y) = ((a.0, &a.1[..rank]), (b.0, &b.1[..rank]));
        if is_inside(region) && self.dependences.may_meet(x, y, region) {
            return true;
        }
        // Other iterations of the parallel loop run at the same time.
        let Some(control) = parallel else {
            return false;
        };
        let body = self.f.insts[control].regions[0];
        let is_concurrent = is_inside(body) && (self.writes(a.0) || self.writes(b.0));
        is_concurrent
            && !shares_indices(self.f, self.structure, control, (a.1, b.1))
            && self.dependences.may_overlap(x, y)
    }
}

/// The loops between an access and its region.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Nesting {
    Flat,
    Serial,
    Parallel,
}

/// The axes along which an address has the indices of a parallel loop; `None` if one is missing.
fn axes_of(
    f: &Function,
    structure: &Structure,
    control: Inst,
    address: &[Value],
) -> Option<Vec<usize>> {
    let data = &f.insts[control];
    let body = data.regions[0];
    let number = |v: Value| f.constant(v).and_then(Imm::as_int);
    let runs_once = |k: usize| match data.args.get(2 * k..2 * k + 2) {
        Some(&[lo, hi]) => number(lo)
            .zip(number(hi))
            .is_some_and(|(lo, hi)| hi - lo <= 1),
        _ => false,
    };
    let params = f.regions[body].params.iter().enumerate();
    let axis = |p: Value| {
        let mut axes = address.iter();
        axes.position(|v| is_moved(f, structure, body, *v, p))
    };
    let several = params.filter(|(k, _)| !runs_once(*k));
    several.map(|(_, p)| axis(*p)).collect()
}

/// Whether each iteration of a parallel loop has an element of its own there.
fn is_own(f: &Function, structure: &Structure, control: Inst, address: &[Value]) -> bool {
    axes_of(f, structure, control, address).is_some()
}

/// Whether two addresses have the same indices along the axes that tell iterations apart.
fn shares_indices(
    f: &Function,
    structure: &Structure,
    control: Inst,
    (a, b): (&[Value], &[Value]),
) -> bool {
    let axes = axes_of(f, structure, control, a);
    axes.is_some_and(|axes| axes.iter().all(|k| a.get(*k) == b.get(*k)))
}

/// Whether a value is a loop index plus something that is the same for all iterations.
fn is_moved(f: &Function, structure: &Structure, body: Region, v: Value, index: Value) -> bool {
    if v == index {
        return true;
    }
    let ValueDef::Result(inst, _) = f.values[v].def else {
        return false;
    };
    let data = &f.insts[inst];
    let moved = |k: usize| is_moved(f, structure, body, data.args[k], index);
    let fixed = |k: usize| {
        structure.is_invariant(f, data.args[k], body) || f.constant(data.args[k]).is_some()
    };
    if let Op::Convert(to) = data.op {
        let from = f.ty(data.args[0]).as_scalar();
        return from.is_some_and(|s| s.is_int() && to.is_int() && s.bits() <= to.bits())
            && moved(0);
    }
    data.op == Op::Binary(BinOp::Add) && (moved(0) && fixed(1) || moved(1) && fixed(0))
        || data.op == Op::Binary(BinOp::Sub) && moved(0) && fixed(1)
}

fn name_of(env: &Env, place: Place) -> String {
    match place {
        Place::Field(field) => env.fields[field].name.clone(),
        Place::Array(array) => env.arrays[array].name.clone(),
        Place::Local(_) | Place::Temp(_) => String::new(),
    }
}
