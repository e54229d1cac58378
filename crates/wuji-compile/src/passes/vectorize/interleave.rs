//! Interleaved loads and stores: accesses at a constant distance within a row of memory.
//!
//! The components of a field of vectors, or the fields of one cell, are adjacent in memory, and those of the next
//! iteration follow. The elements of all lanes are one contiguous run, which is loaded as vectors and deinterleaved
//! by shuffles, or interleaved and stored. The accesses of a row are found in straight-line code. Loads move up to
//! the first one and stores down to the last one, but not past conflicting accesses.

use super::emit::{Emitter, Lanes, Mask, Parts};
use super::shapes::{Shape, Shapes};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use wuji_ir::entities::*;
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{Imm, Scalar, Type};

/// Rows with more elements are not worth shuffling.
const LONGEST: i64 = 8;

/// In rows of at most this many elements, a single used one is enough.
const SHORT: i64 = 4;

/// The depth to which constants in an offset are searched.
const DEPTH: u32 = 8;

/// Accesses that become one.
#[derive(Debug)]
pub(super) struct Group {
    /// The access where the group is emitted: the first load, the last store.
    lead: Inst,
    stride: i64,
    elem: Scalar,
    /// Offsets of the columns, relative to the leading access.
    columns: SmallVec<[(Space, i64); 4]>,
    /// Each access with its column number.
    members: Vec<(Inst, usize)>,
}

#[derive(Debug, Default)]
pub(super) struct Groups {
    groups: Vec<Group>,
    of: FxHashMap<Inst, usize>,
}

impl Groups {
    pub(super) fn find(m: &Env, f: &Function, body: Region, shapes: &Shapes) -> Groups {
        let mut finder = Finder {
            m,
            f,
            shapes,
            open: Vec::new(),
            groups: Groups::default(),
        };
        finder.region(body);
        finder.groups
    }

    pub(super) fn contains(&self, inst: Inst) -> bool {
        self.of.contains_key(&inst)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The group of an access, and whether it is the leading one.
    pub(super) fn of(&self, inst: Inst) -> Option<(&Group, bool)> {
        let group = &self.groups[*self.of.get(&inst)?];
        Some((group, group.lead == inst))
    }
}

impl Group {
    /// With masks, memory below the first lane's row might not exist.
    pub(super) fn can_mask(&self) -> bool {
        self.stride > 0
    }
}

/// The common properties of the accesses of a row.
#[derive(PartialEq, Eq, Debug)]
struct Key {
    stores: bool,
    origin: Origin,
    root: Value,
    stride: i64,
    elem: Scalar,
}

struct Open {
    key: Key,
    /// In program order: the access, its space, its distance from the base.
    accesses: Vec<(Inst, Space, i64)>,
}

struct Finder<'a> {
    m: &'a Env,
    f: &'a Function,
    shapes: &'a Shapes<'a>,
    open: Vec<Open>,
    groups: Groups,
}

impl Finder<'_> {
    fn region(&mut self, region: Region) {
        for inst in &self.f.regions[region].insts {
            self.inst(*inst);
        }
        self.close(|_| true);
    }

    fn inst(&mut self, inst: Inst) {
        let data = &self.f.insts[inst];
        if let OpClass::Memory(op) = data.op.class() {
            match op {
                MemoryOp::MemLoad(space, ty) => {
                    self.touch(space, false);
                    self.access(inst, space, ty, false);
                }
                MemoryOp::MemStore(space) => {
                    let key = self.key(space, data.args[0], self.f.ty(data.args[1]), true);
                    self.store(inst, space, key);
                }
                MemoryOp::MemAtomic(_, space, _) | MemoryOp::MemCompareExchange(space) => {
                    self.touch(space, true);
                }
                MemoryOp::AddInterleaved(spaces) => {
                    spaces.iter().for_each(|s| self.touch(*s, true));
                }
                // Emitted later, by `vectorize` itself.
                MemoryOp::LoadInterleaved(_) | MemoryOp::StoreInterleaved(_) => {}
            }
        }
        if data.op.effect() == Effect::Control {
            self.close(|_| true);
            for r in &data.regions {
                self.region(*r);
            }
        }
    }

    /// Closes the groups that an access of `space` must not move past.
    fn touch(&mut self, space: Space, writes: bool) {
        let m = self.m;
        self.close(|open| {
            (writes || open.key.stores)
                && open
                    .accesses
                    .iter()
                    .any(|(_, other, _)| may_overlap(m, space, *other))
        });
    }

    fn store(&mut self, inst: Inst, space: Space, key: Option<(Key, i64)>) {
        let m = self.m;
        // Other columns of the same row do not conflict.
        self.close(|open| {
            let joins = key.as_ref().is_some_and(|(k, at)| {
                *k == open.key && open.accesses.iter().all(|(_, _, other)| other != at)
            });
            let meets = |(_, other, _): &(Inst, Space, i64)| may_overlap(m, space, *other);
            !joins && open.accesses.iter().any(meets)
        });
        if let Some((key, at)) = key {
            self.join(key, (inst, space, at));
        }
    }

    fn access(&mut self, inst: Inst, space: Space, ty: Type, stores: bool) {
        let offset = self.f.insts[inst].args[0];
        if let Some((key, at)) = self.key(space, offset, ty, stores) {
            self.join(key, (inst, space, at));
        }
    }

    fn join(&mut self, key: Key, access: (Inst, Space, i64)) {
        match self.open.iter_mut().find(|o| o.key == key) {
            Some(open) => open.accesses.push(access),
            None => self.open.push(Open {
                key,
                accesses: vec![access],
            }),
        }
    }

    fn key(&self, space: Space, offset: Value, ty: Type, stores: bool) -> Option<(Key, i64)> {
        match space {
            Space::Tree(..) | Space::Private(..) | Space::Array(_) => {}
            Space::Nodes(_) | Space::Bytes(_) | Space::Streamed(_) | Space::Temps => return None,
        }
        let elem = ty.as_scalar()?;
        let bytes = i64::from(elem.bytes());
        let Shape::Strided(stride) = self.shapes.shape(offset) else {
            return None;
        };
        let short = stride % bytes == 0 && stride.saturating_abs() <= LONGEST * bytes;
        if stride == bytes || !short {
            return None;
        }
        let (root, at) = self.split(offset)?;
        let key = Key {
            stores,
            origin: space.origin(),
            root,
            stride,
            elem,
        };
        Some((key, at))
    }

    /// A value as a base plus a constant.
    fn split(&self, v: Value) -> Option<(Value, i64)> {
        let (mut root, mut sum) = (v, 0i64);
        for _ in 0..DEPTH {
            let Some(def) = self.f.def(root) else { break };
            let data = &self.f.insts[def];
            let constant = |k: usize| {
                let number = self.f.constant(data.args[k]).and_then(Imm::as_int)?;
                i64::try_from(number).ok()
            };
            (root, sum) = if data.op == Op::Binary(BinOp::Add) {
                match (constant(0), constant(1)) {
                    (_, Some(c)) => (data.args[0], sum.checked_add(c)?),
                    (Some(c), None) => (data.args[1], sum.checked_add(c)?),
                    (None, None) => break,
                }
            } else if data.op == Op::Binary(BinOp::Sub)
                && let Some(c) = constant(1)
            {
                (data.args[0], sum.checked_sub(c)?)
            } else {
                break;
            };
        }
        Some((root, sum))
    }

    fn close(&mut self, which: impl Fn(&Open) -> bool) {
        let mut k = 0;
        while k < self.open.len() {
            if which(&self.open[k]) {
                let open = self.open.remove(k);
                self.finish(open);
            } else {
                k += 1;
            }
        }
    }

    /// Forms rows from accesses with one base: windows of one stride, from the lowest on.
    fn finish(&mut self, open: Open) {
        let Open { key, accesses } = open;
        let mut order: Vec<usize> = (0..accesses.len()).collect();
        order.sort_by_key(|k| accesses[*k].2);
        let bytes = i64::from(key.elem.bytes());
        let mut rest = &order[..];
        while let Some(first) = rest.first() {
            let start = accesses[*first].2;
            let inside = |k: &&usize| {
                let distance = accesses[**k].2 - start;
                distance <= key.stride.abs() - bytes && distance % bytes == 0
            };
            let taken = rest.iter().take_while(inside).count();
            let (window, others) = rest.split_at(taken);
            self.row(&key, &accesses, window);
            rest = others;
        }
    }

    fn row(&mut self, key: &Key, accesses: &[(Inst, Space, i64)], window: &[usize]) {
        let mut columns: SmallVec<[(Space, i64); 4]> = SmallVec::new();
        let mut members = Vec::new();
        for k in window {
            let (inst, space, at) = accesses[*k];
            if columns.last().is_none_or(|(_, last)| *last != at) {
                columns.push((space, at));
            }
            members.push((inst, columns.len() - 1));
        }
        let elements = key.stride.abs() / i64::from(key.elem.bytes());
        let used = columns.len() as i64;
        let pays = if key.stores {
            used == elements || (elements <= SHORT && used * 2 > elements)
        } else {
            elements <= SHORT || used * 2 > elements
        };
        let lead = if key.stores {
            window.iter().max()
        } else {
            window.iter().min()
        };
        let Some(lead) = lead.filter(|_| pays) else {
            return;
        };
        let (lead, _, from) = accesses[*lead];
        for (_, at) in &mut columns {
            *at -= from;
        }
        let number = self.groups.groups.len();
        let of = members.iter().map(|(inst, _)| (*inst, number));
        self.groups.of.extend(of);
        self.groups.groups.push(Group {
            lead,
            stride: key.stride,
            elem: key.elem,
            columns,
            members,
        });
    }
}

/// Whether two spaces may overlap.
fn may_overlap(m: &Env, a: Space, b: Space) -> bool {
    let tree_and_field = |s: Space| match s {
        Space::Tree(tree, field) | Space::Private(tree, field) => Some((tree, Some(field))),
        Space::Bytes(tree) | Space::Streamed(tree) => Some((tree, None)),
        Space::Nodes(_) | Space::Array(_) | Space::Temps => None,
    };
    match (a, b) {
        (Space::Array(a), Space::Array(b)) => {
            a == b || !(m.arrays[a].unaliased || m.arrays[b].unaliased)
        }
        (Space::Temps, Space::Temps) => true,
        (Space::Nodes(a), Space::Nodes(b) | Space::Bytes(b) | Space::Streamed(b))
        | (Space::Bytes(a) | Space::Streamed(a), Space::Nodes(b)) => a == b,
        _ => match (tree_and_field(a), tree_and_field(b)) {
            (Some((a, f)), Some((b, g))) => a == b && (f.is_none() || g.is_none() || f == g),
            _ => false,
        },
    }
}

impl Emitter<'_> {
    fn rows(&self, group: &Group) -> Interleaved {
        Interleaved {
            ty: self.vector(group.elem),
            stride: group.stride,
            columns: group.columns.clone(),
        }
    }

    pub(super) fn load_interleaved(&mut self, group: &Group, mask: &Mask) {
        let rows = self.rows(group);
        let offset = self.old.insts[group.lead].args[0];
        let mut columns: Vec<Parts> = vec![Parts::new(); rows.columns.len()];
        for p in 0..self.parts {
            let mut args = Values::new();
            args.push(self.run(offset, group.stride, p));
            if let Mask::Some(m) = mask {
                args.push(m[p]);
            }
            let made = self.b.push(Op::LoadInterleaved(rows.clone()), &args);
            for (column, v) in columns.iter_mut().zip(&self.b.func.insts[made].results) {
                column.push(*v);
            }
        }
        for (inst, column) in &group.members {
            let result = self.old.insts[*inst].results[0];
            self.set(result, Lanes::Many(columns[*column].clone()));
        }
    }

    pub(super) fn store_interleaved(&mut self, group: &Group, mask: &Mask) {
        let rows = self.rows(group);
        let offset = self.old.insts[group.lead].args[0];
        let mut members = group.members.clone();
        members.sort_by_key(|(_, column)| *column);
        let values: Vec<Parts> = members
            .iter()
            .map(|(inst, _)| self.many(self.old.insts[*inst].args[1]))
            .collect();
        for p in 0..self.parts {
            let mut args = Values::new();
            args.push(self.run(offset, group.stride, p));
            args.extend(values.iter().map(|v| v[p]));
            if let Mask::Some(m) = mask {
                args.push(m[p]);
            }
            self.b.push(Op::StoreInterleaved(rows.clone()), &args);
        }
    }
}
