//! Deep copies of instructions and regions, within a function or from one into another.

use rustc_hash::FxHashMap;
use wuji_ir::entities::*;
use wuji_ir::module::{Function, InstData, RegionData, Span, Term, Values};
use wuji_ir::ops::{Op, Place};
use wuji_ir::types::Type;

/// The mapping of values, labels and locals for a copy. Add the entities to replace; copying adds those that it
/// creates. A map may be used for several copies: the last one counts.
///
/// Within one function, entities that are not in the map stay the same.
#[derive(Clone, Debug, Default)]
pub struct Map {
    /// Values of the original with those of the copy.
    pub values: FxHashMap<Value, Value>,
    /// Labels of the original with those of the copy.
    pub labels: FxHashMap<Label, Label>,
    /// Locals of the original with those of the copy.
    pub locals: FxHashMap<Local, Local>,
}

impl Map {
    /// Everything stays what it is.
    pub fn new() -> Map {
        Map::default()
    }

    /// A map from `from` to `to`, pairwise.
    pub fn of(from: &[Value], to: &[Value]) -> Map {
        debug_assert_eq!(from.len(), to.len());
        Map {
            values: from.iter().copied().zip(to.iter().copied()).collect(),
            ..Map::default()
        }
    }

    /// Replaces a value by another one in the copy.
    pub fn set(&mut self, from: Value, to: Value) {
        self.values.insert(from, to);
    }

    /// A value in the copy.
    pub fn value(&self, v: Value) -> Value {
        self.values.get(&v).copied().unwrap_or(v)
    }

    /// A label in the copy.
    pub fn label(&self, l: Label) -> Label {
        self.labels.get(&l).copied().unwrap_or(l)
    }

    fn values(&self, vs: &[Value]) -> Values {
        vs.iter().map(|v| self.value(*v)).collect()
    }

    /// A terminator with mapped values and label.
    pub fn term(&self, term: &Term) -> Term {
        match term {
            Term::Yield(v) => Term::Yield(self.values(v)),
            Term::Break(l, v) => Term::Break(self.label(*l), self.values(v)),
            Term::Continue(l, v) => Term::Continue(self.label(*l), self.values(v)),
            Term::Return(v) => Term::Return(self.values(v)),
            Term::Unreachable => Term::Unreachable,
        }
    }
}

/// Copies a region within its function, with its own parameters; the caller adds the copy to an instruction. To
/// replace the parameters by other values, use [`clone_body`].
pub fn clone_region(f: &mut Function, region: Region, map: &mut Map) -> Region {
    Copier { from: None, to: f }.region(region, map)
}

/// Appends copies of a region's instructions to the region `into` of the same function, and returns the mapped
/// terminator. Map the region's parameters first.
pub fn clone_body(f: &mut Function, region: Region, into: Region, map: &mut Map) -> Term {
    Copier { from: None, to: f }.body(region, into, map)
}

/// Copies one instruction with its regions within its function, without inserting it into a region.
pub fn clone_inst(f: &mut Function, inst: Inst, map: &mut Map) -> Inst {
    Copier { from: None, to: f }.inst(inst, map)
}

/// Copies a region of one function into another. Every value from outside of the region must be
/// mapped; locals are copied with it, once per map.
pub fn copy_region(from: &Function, region: Region, to: &mut Function, map: &mut Map) -> Region {
    Copier {
        from: Some(from),
        to,
    }
    .region(region, map)
}

/// Appends copies of a region's instructions to the region `into` of another function, and returns the mapped
/// terminator. Map the region's parameters first.
pub fn copy_body(
    from: &Function,
    region: Region,
    to: &mut Function,
    into: Region,
    map: &mut Map,
) -> Term {
    Copier {
        from: Some(from),
        to,
    }
    .body(region, into, map)
}

/// Copies one instruction with its regions into another function, without inserting it into a region there. Every
/// value from outside must be mapped.
pub fn copy_inst(from: &Function, inst: Inst, to: &mut Function, map: &mut Map) -> Inst {
    Copier {
        from: Some(from),
        to,
    }
    .inst(inst, map)
}

struct Copier<'a> {
    /// `None`: the same function.
    from: Option<&'a Function>,
    to: &'a mut Function,
}

impl Copier<'_> {
    fn source(&self) -> &Function {
        self.from.unwrap_or(self.to)
    }

    fn region(&mut self, region: Region, map: &mut Map) -> Region {
        let params = self.source().regions[region].params.clone();
        let copy = self.to.add_region(&[]);
        for p in params {
            let ty = self.source().ty(p);
            let new = self.to.add_region_param(copy, ty);
            map.set(p, new);
        }
        let term = self.body(region, copy, map);
        let span = self.source().regions[region].term_span;
        let RegionData {
            term: t,
            term_span: s,
            ..
        } = &mut self.to.regions[copy];
        *t = term;
        *s = span;
        copy
    }

    fn body(&mut self, region: Region, into: Region, map: &mut Map) -> Term {
        // Take a snapshot: `into` may be the region itself.
        let insts = self.source().regions[region].insts.clone();
        for inst in insts {
            let copy = self.inst(inst, map);
            self.to.regions[into].insts.push(copy);
        }
        map.term(&self.source().regions[region].term)
    }

    fn inst(&mut self, inst: Inst, map: &mut Map) -> Inst {
        let span: Span = self.source().spans[inst];
        let InstData {
            mut op,
            args,
            regions,
            results,
        } = self.source().insts[inst].clone();
        if let Some(label) = op.label() {
            let fresh = self.to.fresh_label();
            map.labels.insert(label, fresh);
            op.set_label(fresh);
        }
        self.map_local(&mut op, map);
        let types: Vec<Type> = results.iter().map(|r| self.source().ty(*r)).collect();
        let args = map.values(&args);
        let copy = self.to.add_inst(op, args, &types, span);
        for r in regions {
            let r = self.region(r, map);
            self.to.insts[copy].regions.push(r);
        }
        for (old, new) in results.iter().zip(self.to.insts[copy].results.clone()) {
            map.set(*old, new);
        }
        copy
    }

    fn map_local(&mut self, op: &mut Op, map: &mut Map) {
        let Some(access) = op.access_mut() else {
            return;
        };
        if let Place::Local(local) = access.place {
            let new = match (map.locals.get(&local), self.from) {
                (Some(new), _) => *new,
                (None, None) => local,
                (None, Some(from)) => {
                    let new = self.to.locals.push(from.locals[local].clone());
                    map.locals.insert(local, new);
                    new
                }
            };
            access.place = Place::Local(new);
        }
    }
}
