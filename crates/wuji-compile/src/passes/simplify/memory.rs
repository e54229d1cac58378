//! Known contents of memory at one point of a walk, and stores that nothing has read yet.
//!
//! Fields do not alias; arrays may overlap each other unless they are declared `unaliased`. Elements of one
//! field are distinct if their indices differ by a constant, or if their paths differ.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use wuji_ir::entities::*;
use wuji_ir::module::{Env, Function, Values};
use wuji_ir::ops::*;
use wuji_ir::types::Type;

/// An alias class.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Region {
    Field(Field),
    /// A worker's own copy of a field, which may be the field itself.
    Private(Field),
    Array(Array),
    Local(Local),
    Temp(Temp),
    Temps,
    /// Which cells of a tree exist.
    Nodes(Tree),
    /// Anything of a tree.
    Bytes(Tree),
}

impl Region {
    fn of_place(place: Place) -> Region {
        match place {
            Place::Field(f) => Region::Field(f),
            Place::Array(a) => Region::Array(a),
            Place::Local(l) => Region::Local(l),
            Place::Temp(t) => Region::Temp(t),
        }
    }

    fn of_space(space: Space) -> Region {
        match space {
            Space::Tree(_, f) => Region::Field(f),
            Space::Private(_, f) => Region::Private(f),
            Space::Nodes(t) => Region::Nodes(t),
            Space::Bytes(t) | Space::Streamed(t) => Region::Bytes(t),
            Space::Array(a) => Region::Array(a),
            Space::Temps => Region::Temps,
        }
    }
}

/// Which part of a region: an element and a path, or bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Shape {
    Path(SmallVec<[Step; 2]>),
    Bytes(Type),
    /// Cells that a tree access finds or allocates; allocated cells stay.
    Found(Node),
    Ensured(Node),
    Touched(Node),
}

#[derive(Clone, Debug)]
pub(super) struct Spot {
    pub(super) region: Region,
    shape: Shape,
    /// Indices and run-time components, or the offset.
    at: Values,
}

impl Spot {
    pub(super) fn of_access(access: &Access, at: &[Value]) -> Spot {
        Spot {
            region: Region::of_place(access.place),
            shape: Shape::Path(access.path.clone()),
            at: at.iter().copied().collect(),
        }
    }

    pub(super) fn of_bytes(space: Space, ty: Type, offset: Value) -> Spot {
        Spot {
            region: Region::of_space(space),
            shape: Shape::Bytes(ty),
            at: [offset].into_iter().collect(),
        }
    }

    /// Cells that a tree access finds or allocates.
    pub(super) fn of_walk(op: TreeAccessOp, tree: Tree, node: Node, at: &[Value]) -> Option<Spot> {
        let shape = match op {
            TreeAccessOp::Find => Shape::Found(node),
            TreeAccessOp::Ensure => Shape::Ensured(node),
            TreeAccessOp::Touch => Shape::Touched(node),
            TreeAccessOp::Test
            | TreeAccessOp::Drop
            | TreeAccessOp::Push
            | TreeAccessOp::Length
            | TreeAccessOp::Entry => {
                return None;
            }
        };
        Some(Spot {
            region: Region::Nodes(tree),
            shape,
            at: at.iter().copied().collect(),
        })
    }

    fn is_lasting(&self) -> bool {
        matches!(self.shape, Shape::Ensured(_) | Shape::Touched(_))
    }

    fn is(&self, other: &Spot) -> bool {
        self.region == other.region && self.shape == other.shape && self.at == other.at
    }
}

/// Regions that a piece of code may write to.
#[derive(Clone, Debug, Default)]
pub(super) struct Writes {
    all: bool,
    regions: SmallVec<[Region; 4]>,
}

impl Writes {
    const MANY: usize = 16;

    pub(super) fn everything(&mut self) {
        self.all = true;
        self.regions.clear();
    }

    fn add(&mut self, region: Region) {
        if !self.all && !self.regions.contains(&region) {
            self.regions.push(region);
            if self.regions.len() > Writes::MANY {
                self.everything();
            }
        }
    }

    pub(super) fn merge(&mut self, other: &Writes) {
        if other.all {
            self.everything();
        }
        for r in &other.regions {
            self.add(*r);
        }
    }

    /// Adds what one instruction writes, leaving its regions aside.
    pub(super) fn add_op(&mut self, op: &Op) {
        match op.class() {
            OpClass::Access(kind, a) => {
                if kind != AccessOp::Load {
                    self.add(Region::of_place(a.place));
                }
            }
            OpClass::Memory(_) => {
                if let Some(space) = op.written_space() {
                    self.add(Region::of_space(space));
                }
            }
            OpClass::Call(_) => self.everything(),
            OpClass::Cell(cell, _) => {
                if matches!(cell, CellOp::Deactivate | CellOp::DeactivateChunk) {
                    self.everything();
                }
            }
            OpClass::Thread(op) => {
                if !op.is_pure() {
                    self.everything();
                }
            }
            OpClass::TreeAccess(TreeAccessOp::Drop, tree, _) => self.add(Region::Bytes(tree)),
            OpClass::TreeAccess(step, tree, _) if step.effect() == Effect::Writes => {
                self.add(Region::Nodes(tree));
            }
            OpClass::TreeAccess(..)
            | OpClass::Constant(_)
            | OpClass::Elementwise(_)
            | OpClass::Component(_)
            | OpClass::Reduce(_)
            | OpClass::Algebra(_)
            | OpClass::Query(_)
            | OpClass::Hint(_)
            | OpClass::Control(_)
            | OpClass::Random
            | OpClass::Check(_) => {}
        }
    }
}

struct Entry {
    spot: Spot,
    value: Option<Value>,
    /// A store that nothing has read since, and the stretch of straight code it is in.
    store: Option<(Inst, u32)>,
    alive: bool,
}

enum Change {
    Added(usize),
    Killed(usize),
}

/// The knowledge itself. Nested code undoes its changes by [`Memory::mark`] and [`Memory::undo`].
#[derive(Default)]
pub(super) struct Memory {
    entries: Vec<Entry>,
    by_region: FxHashMap<Region, Vec<usize>>,
    log: Vec<Change>,
    stretch: u32,
}

/// Entries per region, so that each access looks at a bounded number of them.
const WINDOW: usize = 48;

impl Memory {
    pub(super) fn mark(&self) -> usize {
        self.log.len()
    }

    pub(super) fn undo(&mut self, mark: usize) {
        while self.log.len() > mark {
            match self.log.pop() {
                Some(Change::Added(e)) => {
                    self.entries[e].alive = false;
                    if let Some(list) = self.by_region.get_mut(&self.entries[e].spot.region)
                        && let Some(at) = list.iter().rposition(|x| *x == e)
                    {
                        list.remove(at);
                    }
                }
                Some(Change::Killed(e)) => self.entries[e].alive = true,
                None => {}
            }
        }
    }

    /// Control may leave here, or come back: stores so far are not overwritten by later ones.
    pub(super) fn new_stretch(&mut self) {
        self.stretch += 1;
    }

    fn kill(&mut self, e: usize) {
        if self.entries[e].alive {
            self.entries[e].alive = false;
            self.log.push(Change::Killed(e));
        }
    }

    /// Regions that may share bytes with one.
    fn aliases(&self, m: &Env, region: Region) -> SmallVec<[Region; 4]> {
        let mut out: SmallVec<[Region; 4]> = [region].into_iter().collect();
        match region {
            Region::Array(a) if !m.arrays[a].unaliased => {
                let others = m.arrays.iter().filter(|(b, d)| *b != a && !d.unaliased);
                out.extend(others.map(|(b, _)| Region::Array(b)));
            }
            Region::Temp(_) => out.push(Region::Temps),
            Region::Temps => out.extend(m.temps.keys().map(Region::Temp)),
            Region::Bytes(t) => {
                out.push(Region::Nodes(t));
                let fields = m.fields.iter().filter(|(_, d)| d.tree == t);
                out.extend(fields.flat_map(|(f, _)| [Region::Field(f), Region::Private(f)]));
            }
            Region::Nodes(t) => out.push(Region::Bytes(t)),
            Region::Field(f) => {
                out.extend([Region::Bytes(m.fields[f].tree), Region::Private(f)]);
            }
            Region::Private(f) => {
                out.extend([Region::Bytes(m.fields[f].tree), Region::Field(f)]);
            }
            Region::Array(_) | Region::Local(_) => {}
        }
        out
    }

    pub(super) fn forget(&mut self, m: &Env, writes: &Writes) {
        if writes.all {
            let lists: Vec<usize> = self.by_region.values().flatten().copied().collect();
            for e in lists {
                self.kill(e);
            }
        }
        for region in &writes.regions {
            for r in self.aliases(m, *region) {
                // Allocated cells stay, unless cells are deactivated.
                let stays = matches!(region, Region::Nodes(_));
                for e in self.by_region.get(&r).cloned().unwrap_or_default() {
                    if !(stays && self.entries[e].spot.is_lasting()) {
                        self.kill(e);
                    }
                }
            }
        }
    }

    /// What a spot holds.
    pub(super) fn value(&self, spot: &Spot) -> Option<Value> {
        let list = self.by_region.get(&spot.region)?;
        list.iter()
            .rev()
            .map(|e| &self.entries[*e])
            .find(|e| e.alive && e.value.is_some() && e.spot.is(spot))?
            .value
    }

    /// A store that would be overwritten by a store to the spot now.
    pub(super) fn overwritten(&self, spot: &Spot) -> Option<Inst> {
        let list = self.by_region.get(&spot.region)?;
        list.iter()
            .rev()
            .map(|e| &self.entries[*e])
            .filter(|e| e.alive && e.spot.is(spot))
            .find_map(|e| e.store)
            .filter(|(_, stretch)| *stretch == self.stretch)
            .map(|(inst, _)| inst)
    }

    fn overlapping(&self, m: &Env, f: &Function, spot: &Spot) -> Vec<usize> {
        let mut out = Vec::new();
        for r in self.aliases(m, spot.region) {
            for e in self.by_region.get(&r).into_iter().flatten() {
                let entry = &self.entries[*e];
                if entry.alive && (r != spot.region || !distinct(m, f, &entry.spot, spot)) {
                    out.push(*e);
                }
            }
        }
        out
    }

    /// Something holds from here on.
    pub(super) fn note(&mut self, spot: Spot, value: Value) {
        self.add(spot, Some(value), None);
    }

    /// A spot has been read, with this result.
    pub(super) fn read(&mut self, m: &Env, f: &Function, spot: Spot, value: Value) {
        for e in self.overlapping(m, f, &spot) {
            self.entries[e].store = None;
        }
        self.add(spot, Some(value), None);
    }

    /// A spot has been written; by a plain store of a known value, or otherwise.
    pub(super) fn write(
        &mut self,
        m: &Env,
        f: &Function,
        spot: Spot,
        value: Option<Value>,
        store: Option<Inst>,
    ) {
        for e in self.overlapping(m, f, &spot) {
            self.kill(e);
        }
        if value.is_some() || store.is_some() {
            let store = store.map(|inst| (inst, self.stretch));
            self.add(spot, value, store);
        }
    }

    fn add(&mut self, spot: Spot, value: Option<Value>, store: Option<(Inst, u32)>) {
        let list = self.by_region.entry(spot.region).or_default();
        if list.len() >= WINDOW {
            list.retain(|e| self.entries[*e].alive);
        }
        if list.len() >= WINDOW {
            return;
        }
        list.push(self.entries.len());
        self.log.push(Change::Added(self.entries.len()));
        self.entries.push(Entry {
            spot,
            value,
            store,
            alive: true,
        });
    }
}

/// A value as another one plus a constant.
fn base_and_offset(f: &Function, v: Value) -> (Option<Value>, i128) {
    let Some(inst) = f.def(v) else {
        return (Some(v), 0);
    };
    let data = &f.insts[inst];
    if let Op::Const(imm) = data.op
        && let Some(c) = imm.as_int()
    {
        return (None, c);
    }
    if data.op == Op::Binary(BinOp::Add)
        && let Some(c) = f.constant(data.args[1]).and_then(|c| c.as_int())
    {
        return (Some(data.args[0]), c);
    }
    (Some(v), 0)
}

/// Whether two spots of one region cannot overlap.
fn distinct(m: &Env, f: &Function, a: &Spot, b: &Spot) -> bool {
    match (&a.shape, &b.shape) {
        (Shape::Bytes(t), Shape::Bytes(u)) => {
            let (x, c) = base_and_offset(f, a.at[0]);
            let (y, d) = base_and_offset(f, b.at[0]);
            let between = d - c;
            let size = |t: Type| i128::from(m.structs.size_align(t).0);
            x == y && (between >= size(*t) || -between >= size(*u))
        }
        (Shape::Path(p), Shape::Path(q)) => {
            let steps = |p: &[Step]| p.iter().filter(|s| **s == Step::Dynamic).count();
            let (n, k) = (a.at.len() - steps(p), b.at.len() - steps(q));
            let apart = a.at[..n].iter().zip(&b.at[..k]).any(|(i, j)| {
                let (x, c) = base_and_offset(f, *i);
                let (y, d) = base_and_offset(f, *j);
                x == y && c != d && f.ty(*i) == f.ty(*j)
            });
            apart || paths_part(p, q)
        }
        _ => false,
    }
}

/// Whether two paths lead to different components.
fn paths_part(p: &[Step], q: &[Step]) -> bool {
    p.iter().zip(q).any(|(a, b)| match (a, b) {
        (Step::Const(x), Step::Const(y)) => x != y,
        _ => false,
    })
}
