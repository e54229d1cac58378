//! Which variables become arrays, and how long large values live.

use super::is_large;
use crate::rewrite::Structure;
use cranelift_entity::SecondaryMap;
use rustc_hash::{FxHashMap, FxHashSet};
use wuji_ir::entities::*;
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::Type;

/// What a parallel loop uses.
#[derive(Default)]
pub(super) struct Scope {
    /// Variables that have an array of their own in it.
    pub(super) locals: Vec<Local>,
    /// Large values from outside.
    pub(super) values: Vec<Value>,
}

#[derive(Default)]
pub(super) struct Plan {
    /// Variables that become arrays outside of parallel loops.
    pub(super) arrays: FxHashSet<Local>,
    /// Variables that are used outside of parallel loops.
    pub(super) outside: FxHashSet<Local>,
    /// What the variables were before.
    pub(super) types: FxHashMap<Local, Type>,
    pub(super) scopes: FxHashMap<Inst, Scope>,
    /// Large values by the place of their last use: an instruction of the region they are defined in, or its end.
    pub(super) ends: FxHashMap<(Region, u32), Vec<Value>>,
    /// Loads of variables that do not change as long as the result is used.
    pub(super) read_in_place: FxHashSet<Inst>,
    /// Values whose only use is a store to a variable that is not accessed in between.
    pub(super) stored: FxHashMap<Value, (Inst, Local)>,
}

/// Where instructions stand, and what touches variables.
struct Places {
    structure: Structure,
    position: SecondaryMap<Inst, u32>,
    /// By region and variable: the positions of instructions that read or write it, inside too.
    touched: FxHashMap<(Region, Local), Vec<u32>>,
    written: FxHashMap<(Region, Local), Vec<u32>>,
}

/// What is known of the uses of a variable.
#[derive(Default)]
struct Accesses {
    loops: Vec<Inst>,
    outside: bool,
    written_in_loop: bool,
    odd: bool,
}

impl Plan {
    pub(super) fn of(f: &Function) -> Plan {
        let mut plan = Plan::default();
        let places = Places::of(f);
        plan.variables(f, &places);
        plan.lives(f, &places);
        plan
    }

    /// Decides about variables.
    fn variables(&mut self, f: &Function, places: &Places) {
        let mut found: FxHashMap<Local, Accesses> = FxHashMap::default();
        f.walk(|inst| {
            let Some(local) = large_local(f, inst) else {
                return;
            };
            let accesses = found.entry(local).or_default();
            let op = &f.insts[inst].op;
            let deep = op.access().is_some_and(|a| a.path.len() > 1);
            accesses.odd |= deep || matches!(op, Op::CompareExchange(_));
            match places.parallel_loop(f, inst) {
                Some(foreach) => {
                    accesses.written_in_loop |= !matches!(op, Op::Load(_));
                    if !accesses.loops.contains(&foreach) {
                        accesses.loops.push(foreach);
                    }
                }
                None => accesses.outside = true,
            }
        });
        let mut found: Vec<_> = found.into_iter().collect();
        found.sort_unstable_by_key(|(local, _)| *local);
        for (local, accesses) in found {
            // What is assigned in a parallel loop and lives outside is refused later.
            if accesses.odd || (accesses.outside && accesses.written_in_loop) {
                continue;
            }
            self.types.insert(local, f.locals[local].ty);
            if accesses.outside {
                self.arrays.insert(local);
                self.outside.insert(local);
            }
            for foreach in accesses.loops {
                self.scopes.entry(foreach).or_default().locals.push(local);
            }
        }
    }

    fn lives(&mut self, f: &Function, places: &Places) {
        let mut last: FxHashMap<Value, (Region, u32)> = FxHashMap::default();
        let mut uses: FxHashMap<Value, (u32, Inst)> = FxHashMap::default();
        for region in f.walk_regions() {
            for inst in &f.regions[region].insts {
                for arg in f.insts[*inst].args.iter().filter(|a| is_large(f.ty(**a))) {
                    uses.entry(*arg).or_insert((0, *inst)).0 += 1;
                    let at = places.position[*inst];
                    self.used(f, places, *arg, (region, at), &mut last);
                }
            }
            for arg in f.regions[region].term.args() {
                if is_large(f.ty(*arg)) {
                    self.used(f, places, *arg, (region, u32::MAX), &mut last);
                    if let Some(inst) = f.def(*arg) {
                        uses.entry(*arg).or_insert((0, inst)).0 += 2;
                    }
                }
            }
        }
        for (value, (count, user)) in uses {
            if let (1, Some(store)) = (count, self.store_of(f, places, value, user)) {
                self.stored.insert(value, store);
            }
        }
        let mut last: Vec<_> = last.into_iter().collect();
        last.sort_unstable_by_key(|(value, _)| *value);
        for (value, end) in last {
            self.look_at_load(f, places, value, end);
            self.ends.entry(end).or_default().push(value);
        }
    }

    /// Notes a use, at the place of it in the region that the value is defined in.
    fn used(
        &mut self,
        f: &Function,
        places: &Places,
        value: Value,
        (mut region, mut at): (Region, u32),
        last: &mut FxHashMap<Value, (Region, u32)>,
    ) {
        let defined = places.structure.def_region(f, value);
        while Some(region) != defined {
            let Some(owner) = places.structure.owner[region].expand() else {
                return;
            };
            if matches!(f.insts[owner].op, Op::ForEach(..)) {
                let values = &mut self.scopes.entry(owner).or_default().values;
                if !values.contains(&value) {
                    values.push(value);
                }
            }
            let Some(up) = places.structure.region_of[owner].expand() else {
                return;
            };
            (region, at) = (up, places.position[owner]);
        }
        let end = last.entry(value).or_insert((region, at));
        end.1 = end.1.max(at);
    }

    /// Whether a load can be read from the variable itself.
    fn look_at_load(
        &mut self,
        f: &Function,
        places: &Places,
        value: Value,
        (region, end): (Region, u32),
    ) {
        let Some(load) = f.def(value) else { return };
        let (Some(local), Op::Load(_)) = (large_local(f, load), &f.insts[load].op) else {
            return;
        };
        let begin = places.position[load];
        let written = places.written.get(&(region, local));
        let changes = written
            .into_iter()
            .flatten()
            .any(|at| begin < *at && *at <= end);
        if !changes {
            self.read_in_place.insert(load);
        }
    }

    /// The store that a value goes to, where its operation can write to the variable itself.
    fn store_of(
        &self,
        f: &Function,
        places: &Places,
        value: Value,
        user: Inst,
    ) -> Option<(Inst, Local)> {
        let def = f.def(value)?;
        let local = large_local(f, user)?;
        let whole = f.insts[user].op.access()?.path.is_empty();
        let region = places.structure.region_of[def].expand()?;
        let beside = places.structure.region_of[user].expand() == Some(region);
        if !matches!(f.insts[user].op, Op::Store(_)) || !whole || !beside {
            return None;
        }
        let (begin, end) = (places.position[def], places.position[user]);
        let touched = places.touched.get(&(region, local));
        let between = touched
            .into_iter()
            .flatten()
            .any(|at| begin < *at && *at < end);
        (!between).then_some((user, local))
    }
}

impl Places {
    fn of(f: &Function) -> Places {
        let mut places = Places {
            structure: Structure::of(f),
            position: SecondaryMap::new(),
            touched: FxHashMap::default(),
            written: FxHashMap::default(),
        };
        for region in f.walk_regions() {
            for (at, inst) in f.regions[region].insts.iter().enumerate() {
                places.position[*inst] = at as u32;
            }
        }
        f.walk(|inst| {
            if let Some(local) = large_local(f, inst) {
                places.touch(inst, local, !matches!(f.insts[inst].op, Op::Load(_)));
            }
        });
        places
    }

    /// Notes an access in all regions around it.
    fn touch(&mut self, mut inst: Inst, local: Local, writes: bool) {
        while let Some(region) = self.structure.region_of[inst].expand() {
            let at = self.position[inst];
            self.touched.entry((region, local)).or_default().push(at);
            if writes {
                self.written.entry((region, local)).or_default().push(at);
            }
            match self.structure.owner[region].expand() {
                Some(owner) => inst = owner,
                None => return,
            }
        }
    }

    /// The parallel loop that an instruction is in.
    fn parallel_loop(&self, f: &Function, mut inst: Inst) -> Option<Inst> {
        while let Some(owner) = self.structure.parent(inst) {
            if matches!(f.insts[owner].op, Op::ForEach(..)) {
                return Some(owner);
            }
            inst = owner;
        }
        None
    }
}

/// The large variable that an instruction accesses.
fn large_local(f: &Function, inst: Inst) -> Option<Local> {
    let Place::Local(local) = f.insts[inst].op.access()?.place else {
        return None;
    };
    let data = &f.locals[local];
    let plain = data.len.is_none() && !data.shared && data.role == LocalRole::Variable;
    (plain && is_large(data.ty)).then_some(local)
}
