//! Dead code elimination: instructions, results of control instructions, and carried values.

use super::Structure;
use cranelift_entity::{EntitySet, SecondaryMap};
use wuji_ir::entities::*;
use wuji_ir::module::{Function, Term, ValueDef, Values};
use wuji_ir::ops::{ControlOp, Effect, Op};

/// Removes dead code from a function; returns whether there was any.
///
/// A `for` without effects is dead if its results are. A `loop` or a `call` might not terminate, so they stay.
pub fn sweep(f: &mut Function) -> bool {
    sweep_with_reads(f, false)
}

/// The same. With `check_reads`, reads that may be reported stay, too.
pub fn sweep_with_reads(f: &mut Function, check_reads: bool) -> bool {
    let mut marker = Marker::new(f);
    marker.mark_roots(check_reads);
    marker.drain();
    let Marker { insts, values, .. } = marker;
    remove(f, &insts, &values)
}

/// Terminators that leave through a label, listed per instruction that defines it.
#[derive(Default, Clone)]
struct Exits {
    breaks: Vec<Region>,
    continues: Vec<Region>,
}

struct Marker<'a> {
    f: &'a Function,
    structure: Structure,
    exits: SecondaryMap<Inst, Exits>,
    insts: EntitySet<Inst>,
    values: EntitySet<Value>,
    new_insts: Vec<Inst>,
    new_values: Vec<Value>,
}

impl<'a> Marker<'a> {
    fn new(f: &'a Function) -> Marker<'a> {
        Marker {
            f,
            structure: Structure::of(f),
            exits: SecondaryMap::new(),
            insts: EntitySet::with_capacity(f.insts.len()),
            values: EntitySet::with_capacity(f.values.len()),
            new_insts: Vec::new(),
            new_values: Vec::new(),
        }
    }

    fn mark_inst(&mut self, inst: Inst) {
        if self.insts.insert(inst) {
            self.new_insts.push(inst);
        }
    }

    fn mark_value(&mut self, value: Value) {
        if self.values.insert(value) {
            self.new_values.push(value);
        }
    }

    fn mark_owner(&mut self, region: Region) {
        if let Some(owner) = self.structure.owner[region].expand() {
            self.mark_inst(owner);
        }
    }

    fn mark_roots(&mut self, check_reads: bool) {
        let f = self.f;
        for p in f.params() {
            self.mark_value(*p);
        }
        for region in f.walk_regions() {
            for inst in &f.regions[region].insts {
                let data = &f.insts[*inst];
                let op = &data.op;
                let rooted = match op.control() {
                    Some(ControlOp::Loop(_) | ControlOp::ForEach(..)) => true,
                    Some(ControlOp::If | ControlOp::For(..) | ControlOp::Block(_)) => false,
                    None => {
                        op.effect() == Effect::Writes
                            || op.callee().is_some()
                            || check_reads && op.is_checked_read(&data.args)
                    }
                };
                if rooted {
                    self.mark_inst(*inst);
                }
            }
            match &f.regions[region].term {
                Term::Yield(_) => {}
                Term::Return(args) => {
                    self.mark_owner(region);
                    for a in args {
                        self.mark_value(*a);
                    }
                }
                Term::Unreachable => self.mark_owner(region),
                Term::Break(label, _) => {
                    if let Some(target) = self.structure.target[*label].expand() {
                        self.exits[target].breaks.push(region);
                    }
                }
                Term::Continue(label, _) => {
                    if let Some(target) = self.structure.target[*label].expand() {
                        self.exits[target].continues.push(region);
                    }
                }
            }
        }
    }

    fn drain(&mut self) {
        loop {
            if let Some(inst) = self.new_insts.pop() {
                self.inst_is_live(inst);
            } else if let Some(value) = self.new_values.pop() {
                self.value_is_live(value);
            } else {
                return;
            }
        }
    }

    fn inst_is_live(&mut self, inst: Inst) {
        let f = self.f;
        let data = &f.insts[inst];
        if let Some(region) = self.structure.region_of[inst].expand() {
            self.mark_owner(region);
        }
        let needed = match data.op.control() {
            // Carried values are needed when their parameters are.
            Some(ControlOp::For(..)) => &data.args[..data.args.len().min(3)],
            Some(ControlOp::Loop(_)) => &[],
            Some(ControlOp::If | ControlOp::Block(_) | ControlOp::ForEach(..)) | None => {
                &data.args[..]
            }
        };
        for a in needed {
            self.mark_value(*a);
        }
        match data.op.control() {
            // The index parameters always stay.
            Some(ControlOp::For(..)) => self.mark_first_params(inst, 1),
            Some(ControlOp::ForEach(..)) => self.mark_first_params(inst, usize::MAX),
            Some(ControlOp::If | ControlOp::Loop(_) | ControlOp::Block(_)) => {}
            None => {
                for r in &data.results {
                    self.mark_value(*r);
                }
            }
        }
        // Early exits of a live loop or block are live.
        let exits = self.exits[inst].clone();
        for region in exits.breaks.iter().chain(&exits.continues) {
            self.mark_owner(*region);
        }
    }

    fn mark_first_params(&mut self, inst: Inst, n: usize) {
        for r in &self.f.insts[inst].regions {
            for p in self.f.regions[*r].params.iter().take(n) {
                self.mark_value(*p);
            }
        }
    }

    fn value_is_live(&mut self, value: Value) {
        let f = self.f;
        match f.values[value].def {
            ValueDef::Result(inst, k) => {
                self.mark_inst(inst);
                let k = usize::from(k);
                let data = &f.insts[inst];
                match data.op.control() {
                    Some(ControlOp::If) => self.mark_yields(inst, k),
                    Some(ControlOp::Block(_)) => {
                        self.mark_yields(inst, k);
                        self.mark_breaks(inst, k);
                    }
                    Some(ControlOp::Loop(_)) => self.mark_breaks(inst, k),
                    Some(ControlOp::For(..)) => {
                        // At the end of the loop the carried value is the result.
                        self.mark_breaks(inst, k);
                        if let Some(p) = f.regions[data.regions[0]].params.get(k + 1) {
                            self.mark_value(*p);
                        }
                    }
                    Some(ControlOp::ForEach(..)) | None => {}
                }
            }
            ValueDef::Param(region, k) => {
                let Some(inst) = self.structure.owner[region].expand() else {
                    return;
                };
                let data = &f.insts[inst];
                let k = usize::from(k);
                let carried = match data.op.control() {
                    Some(ControlOp::Loop(_)) => k,
                    Some(ControlOp::For(..)) if k > 0 => {
                        if let Some(a) = data.args.get(k + 2) {
                            self.mark_value(*a);
                        }
                        if let Some(r) = data.results.get(k - 1) {
                            self.mark_value(*r);
                        }
                        k - 1
                    }
                    Some(
                        ControlOp::For(..)
                        | ControlOp::If
                        | ControlOp::Block(_)
                        | ControlOp::ForEach(..),
                    )
                    | None => return,
                };
                if matches!(data.op, Op::Loop(_))
                    && let Some(a) = data.args.get(k)
                {
                    self.mark_value(*a);
                }
                let continues = self.exits[inst].continues.clone();
                for region in continues {
                    if let Some(a) = f.regions[region].term.args().get(carried) {
                        self.mark_value(*a);
                    }
                }
            }
        }
    }

    fn mark_yields(&mut self, inst: Inst, k: usize) {
        for r in &self.f.insts[inst].regions {
            if let Term::Yield(args) = &self.f.regions[*r].term
                && let Some(a) = args.get(k)
            {
                self.mark_value(*a);
            }
        }
    }

    fn mark_breaks(&mut self, inst: Inst, k: usize) {
        let breaks = self.exits[inst].breaks.clone();
        for region in breaks {
            if let Some(a) = self.f.regions[region].term.args().get(k) {
                self.mark_value(*a);
            }
        }
    }
}

/// Which results and which parameters of a control instruction stay.
#[derive(Clone, Default)]
struct Kept {
    results: Vec<bool>,
    carried: Vec<bool>,
}

fn remove(f: &mut Function, insts: &EntitySet<Inst>, values: &EntitySet<Value>) -> bool {
    let mut changed = false;
    let mut kept: SecondaryMap<Label, Kept> = SecondaryMap::new();
    let mut stack = vec![(f.entry, Vec::new())];
    while let Some((region, yields)) = stack.pop() {
        let mut list = std::mem::take(&mut f.regions[region].insts);
        let before = list.len();
        list.retain(|i| insts.contains(*i));
        changed |= list.len() != before;
        for inst in &list {
            let results = live(&f.insts[*inst].results, values);
            match f.insts[*inst].op.control() {
                None => {}
                Some(ControlOp::If) => {
                    for r in f.insts[*inst].regions.clone() {
                        stack.push((r, results.clone()));
                    }
                    changed |= keep_results(f, *inst, &results);
                }
                Some(ControlOp::Block(label)) => {
                    kept[label].results = results.clone();
                    for r in f.insts[*inst].regions.clone() {
                        stack.push((r, results.clone()));
                    }
                    changed |= keep_results(f, *inst, &results);
                }
                Some(ControlOp::Loop(label)) => {
                    let region = f.insts[*inst].regions[0];
                    let carried = live(&f.regions[region].params, values);
                    filter(&mut f.insts[*inst].args, &carried);
                    changed |= keep_params(f, region, &carried);
                    changed |= keep_results(f, *inst, &results);
                    kept[label] = Kept { results, carried };
                    stack.push((region, Vec::new()));
                }
                Some(ControlOp::For(label, _)) => {
                    let region = f.insts[*inst].regions[0];
                    let params = live(&f.regions[region].params, values);
                    let mut args = vec![true, true];
                    args.extend(&params);
                    filter(&mut f.insts[*inst].args, &args);
                    changed |= keep_params(f, region, &params);
                    changed |= keep_results(f, *inst, &results);
                    kept[label] = Kept {
                        carried: results.clone(),
                        results,
                    };
                    stack.push((region, Vec::new()));
                }
                Some(ControlOp::ForEach(..)) => {
                    stack.push((f.insts[*inst].regions[0], Vec::new()));
                }
            }
        }
        f.regions[region].insts = list;
        match &mut f.regions[region].term {
            Term::Yield(args) => filter(args, &yields),
            Term::Break(label, args) => filter(args, &kept[*label].results),
            Term::Continue(label, args) => filter(args, &kept[*label].carried),
            Term::Return(_) | Term::Unreachable => {}
        }
    }
    changed
}

fn live(list: &[Value], values: &EntitySet<Value>) -> Vec<bool> {
    list.iter().map(|v| values.contains(*v)).collect()
}

/// Positions beyond the end of `keep` stay.
fn filter(list: &mut Values, keep: &[bool]) {
    let mut k = 0;
    list.retain(|_| {
        k += 1;
        keep.get(k - 1).copied().unwrap_or(true)
    });
}

fn keep_results(f: &mut Function, inst: Inst, keep: &[bool]) -> bool {
    if keep.iter().all(|k| *k) {
        return false;
    }
    let mut at = 0u16;
    let old = std::mem::take(&mut f.insts[inst].results);
    for (v, keep) in old.iter().zip(keep) {
        if *keep {
            f.values[*v].def = ValueDef::Result(inst, at);
            f.insts[inst].results.push(*v);
            at += 1;
        }
    }
    true
}

fn keep_params(f: &mut Function, region: Region, keep: &[bool]) -> bool {
    if keep.iter().all(|k| *k) {
        return false;
    }
    let mut at = 0u16;
    let old = std::mem::take(&mut f.regions[region].params);
    for (v, keep) in old.iter().zip(keep) {
        if *keep {
            f.values[*v].def = ValueDef::Param(region, at);
            f.regions[region].params.push(*v);
            at += 1;
        }
    }
    true
}
