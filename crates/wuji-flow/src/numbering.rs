//! Value numbering inside of a task: what its parts compute alike is computed once, and what no part writes is loaded once.

use crate::storage::{Storage, is_fixed};
use rustc_hash::FxHashMap;
use std::fmt::Write as _;
use wuji_compile::rewrite::{Substitution, sweep};
use wuji_ir::entities::{Inst, Region, Tree, Value};
use wuji_ir::module::{Function, Module};
use wuji_ir::ops::{Effect, Op};

/// Merges pure instructions and loads of fields and arrays that the task does not write.
pub(crate) fn merge_values(m: &mut Module, region: Region) {
    let Some(kernel) = m.kernel else {
        return;
    };
    let constant = constant_storage(m);
    let f = &mut m.funcs[kernel];
    let mut numbering = Numbering {
        f,
        constant: &constant,
        replaced: Substitution::new(),
    };
    numbering.region(region, &mut FxHashMap::default());
    let replaced = numbering.replaced;
    replaced.apply(f);
    sweep(f);
}

/// The fields and arrays whose elements are the same during the whole task.
fn constant_storage(m: &Module) -> Vec<Storage> {
    let Some(f) = m.kernel_func() else {
        return Vec::new();
    };
    let mut written: Vec<Storage> = Vec::new();
    let mut changed: Vec<Tree> = Vec::new();
    f.walk(|inst| {
        let op = &f.insts[inst].op;
        if let Some(storage) = op.written_access().and_then(|a| Storage::of(a.place)) {
            written.push(storage);
            // Packed fields share words and exponents.
            if let Storage::Field(field) = storage
                && storage.is_packed(m)
            {
                changed.push(m.fields[field].tree);
            }
        }
        if let Op::Cell(_, field) = op {
            changed.push(m.fields[*field].tree);
        }
        if matches!(op, Op::Call(_)) {
            changed.extend(m.trees.keys());
            written.extend(m.arrays.keys().map(Storage::Array));
        }
    });
    let fields = m.fields.iter().filter(|(_, d)| !changed.contains(&d.tree));
    let fields = fields.map(|(f, _)| Storage::Field(f));
    let arrays = m.arrays.iter().filter(|(_, data)| is_fixed(data));
    let arrays = arrays.map(|(a, _)| Storage::Array(a));
    let all = fields.chain(arrays);
    all.filter(|s| !written.contains(s)).collect()
}

struct Numbering<'a> {
    f: &'a Function,
    constant: &'a [Storage],
    replaced: Substitution,
}

impl Numbering<'_> {
    fn region(&mut self, region: Region, known: &mut FxHashMap<String, Value>) {
        let f = self.f;
        for inst in &f.regions[region].insts {
            let data = &f.insts[*inst];
            if !data.regions.is_empty() {
                for r in &data.regions {
                    // What a region computes is not there after it.
                    self.region(*r, &mut known.clone());
                }
                continue;
            }
            let ([result], true) = (&data.results[..], self.is_constant(*inst)) else {
                continue;
            };
            let key = self.key(*inst);
            match known.get(&key) {
                Some(first) if f.ty(*first) == f.ty(*result) => {
                    self.replaced.set(*result, *first);
                }
                _ => {
                    known.insert(key, *result);
                }
            }
        }
    }

    /// Whether an instruction has the same result wherever its operands are the same.
    fn is_constant(&self, inst: Inst) -> bool {
        let op = &self.f.insts[inst].op;
        match op.access().map(|a| Storage::of(a.place)) {
            Some(Some(storage)) => matches!(op, Op::Load(_)) && self.constant.contains(&storage),
            Some(None) => false,
            None => op.effect() == Effect::Pure,
        }
    }

    fn key(&self, inst: Inst) -> String {
        let data = &self.f.insts[inst];
        let mut key = format!("{:?} {:?}", data.op, self.f.ty(data.results[0]));
        for arg in &data.args {
            let _ = write!(key, " {}", self.replaced.get(*arg));
        }
        key
    }
}
