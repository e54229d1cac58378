//! Traversals: the instructions and regions of a function, and the functions of a module that call each other.

use crate::entities::*;
use crate::module::{Function, Module};
use cranelift_entity::SecondaryMap;

/// Instructions in pre-order: each before those in its regions.
#[derive(Clone, Debug)]
pub struct Walk<'a> {
    f: &'a Function,
    /// Regions that are not finished, and the next instruction of each.
    stack: Vec<(Region, usize)>,
}

impl Iterator for Walk<'_> {
    type Item = Inst;

    fn next(&mut self) -> Option<Inst> {
        while let Some((region, at)) = self.stack.pop() {
            if let Some(&inst) = self.f.regions[region].insts.get(at) {
                self.stack.push((region, at + 1));
                let inside = self.f.insts[inst].regions.iter().rev();
                self.stack.extend(inside.map(|r| (*r, 0)));
                return Some(inst);
            }
        }
        None
    }
}

impl Function {
    /// The instructions of a region and of those inside it, in pre-order.
    pub fn insts_in(&self, region: Region) -> Walk<'_> {
        Walk {
            f: self,
            stack: vec![(region, 0)],
        }
    }

    /// An instruction and those in its regions, in pre-order.
    pub fn insts_of(&self, inst: Inst) -> impl Iterator<Item = Inst> {
        let regions = self.insts[inst].regions.iter();
        std::iter::once(inst).chain(regions.flat_map(|r| self.insts_in(*r)))
    }

    /// The regions of an instruction and those inside them, each before the ones inside it.
    pub fn regions_of(&self, inst: Inst) -> Vec<Region> {
        let regions = |i: Inst| self.insts[i].regions.iter().copied();
        self.insts_of(inst).flat_map(regions).collect()
    }

    /// All instructions that are in the body, in pre-order.
    pub fn walk(&self, visit: impl FnMut(Inst)) {
        self.insts_in(self.entry).for_each(visit);
    }

    /// A region and those inside it, each before the ones inside it.
    pub fn regions_in(&self, region: Region) -> Vec<Region> {
        let mut regions = vec![region];
        for inst in self.insts_in(region) {
            regions.extend(&self.insts[inst].regions);
        }
        regions
    }

    /// All regions that are in the body, each before the ones inside it.
    pub fn walk_regions(&self) -> Vec<Region> {
        self.regions_in(self.entry)
    }

    /// The functions that the body calls, once for each call, in pre-order.
    pub fn callees(&self) -> Vec<Func> {
        self.callees_in(self.entry)
    }

    /// The functions that a region calls, once for each call, in pre-order.
    pub fn callees_in(&self, region: Region) -> Vec<Func> {
        let called = |inst: Inst| self.insts[inst].op.callee();
        self.insts_in(region).filter_map(called).collect()
    }
}

impl Module {
    /// These functions and all that they call, directly or not, each once; and those for reverse sweeps.
    pub fn reachable(&self, roots: impl IntoIterator<Item = Func>) -> Vec<Func> {
        self.closure(roots, |f| {
            let mut next = f.callees();
            next.extend(f.reverse);
            next
        })
    }

    /// These functions and all that they call, directly or not, each once.
    pub fn called_by(&self, roots: impl IntoIterator<Item = Func>) -> Vec<Func> {
        self.closure(roots, Function::callees)
    }

    /// The functions that a body calls, directly or not, each once.
    pub fn called_from(&self, f: &Function) -> Vec<Func> {
        self.called_by(f.callees())
    }

    /// These functions and all that follow from them, each once.
    fn closure(
        &self,
        roots: impl IntoIterator<Item = Func>,
        next: impl Fn(&Function) -> Vec<Func>,
    ) -> Vec<Func> {
        let mut seen: SecondaryMap<Func, bool> = SecondaryMap::new();
        let mut found: Vec<Func> = Vec::new();
        let mut work: Vec<Func> = roots.into_iter().collect();
        while let Some(func) = work.pop() {
            if !std::mem::replace(&mut seen[func], true) {
                found.push(func);
                work.extend(next(&self.funcs[func]));
            }
        }
        found
    }
}
