//! Elements that exist while an iteration accesses them, and those that belong to it.

use crate::rewrite::Structure;
use rustc_hash::FxHashSet;
use wuji_ir::entities::{Inst, Region, Value};
use wuji_ir::module::{Env, Function, ValueDef};
use wuji_ir::ops::{Access, ControlOp, Domain, Guard, Op, OpClass, Place, Step};
use wuji_ir::types::Imm;

/// Which accesses of a function are of elements that exist.
pub(super) struct Presence<'a> {
    pub env: &'a Env,
    pub f: &'a Function,
    pub structure: &'a Structure,
}

impl Presence<'_> {
    /// Whether the element exists, so that a load gives what was stored.
    pub(super) fn is_present(&self, inst: Inst, access: &Access, address: &[Value]) -> bool {
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

    /// Whether the indices of an access are in range.
    pub(super) fn is_inside(&self, inst: Inst) -> bool {
        let data = &self.f.insts[inst];
        let Some(access) = data.op.access() else {
            return false;
        };
        let rank = self.env.place_elem(self.f, access.place).1;
        let in_range = |k: usize| self.is_in_range(access.place, k, data.args[k]);
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
        let Place::Field(accessed) = self.f.insts[inst].op.access()?.place else {
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

/// Whether an address is the element that an iteration of a parallel loop is at.
fn is_own(f: &Function, region: Region, address: &[Value]) -> bool {
    let params = &f.regions[region].params;
    address.len() == params.len() && address == &params[..]
}

/// The fields of which every iteration of a parallel loop accesses only the element that it is at.
pub(super) fn owned_places(env: &Env, f: &Function) -> FxHashSet<(Inst, Place)> {
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
