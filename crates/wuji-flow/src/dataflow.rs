//! Dataflow inside of a fused task: loads of what the iteration has stored or loaded before, and stores that it overwrites.

use wuji_compile::analysis::affine::{Affine, AffineAnalysis};
use wuji_compile::rewrite::{Structure, Substitution, all_atomics, demote, sweep};
use wuji_compile::{Math, Options};
use wuji_ir::entities::{Inst, Region, Value};
use wuji_ir::module::{Function, Module};
use wuji_ir::ops::{Op, Step};
use wuji_ir::types::Scalar;

use crate::numbering::merge_values;
use crate::storage::Storage;
use crate::summary::{Reach, StorageUse, Summary};

/// Removes loads and stores that are not needed. Only fields and arrays whose accesses are all to existing elements of the iteration take part.
pub(crate) fn optimize(m: &mut Module, options: &Options) {
    if options.without.iter().any(|w| w == "task_dataflow") {
        return;
    }
    let summary = Summary::of(m);
    let region = {
        let Some(f) = m.kernel_func() else {
            return;
        };
        summary
            .foreach
            .map_or(f.entry, |inst| f.insts[inst].regions[0])
    };
    merge_values(m, region);
    let fields: Vec<Storage> = (summary.uses.iter())
        .filter(|used| takes_part(m, used, options))
        .map(|used| used.storage)
        .collect();
    let Some(kernel) = m.kernel else {
        return;
    };
    let f = &mut m.funcs[kernel];
    // An update of an element that no other iteration has needs no atomic.
    let updates: Vec<Inst> = (all_atomics(f).into_iter())
        .filter(|inst| {
            let storage = f.insts[*inst]
                .op
                .access()
                .and_then(|a| Storage::of(a.place));
            storage.is_some_and(|storage| fields.contains(&storage))
        })
        .collect();
    demote(&mut m.env, f, &updates, || true);
    forward(f, region, &fields);
    // What is loaded only once is unique only once: more elements are the same.
    if merge_uniques(f, region) {
        forward(f, region, &fields);
    }
    // Loads that nothing uses any more would keep the stores before them.
    sweep(f);
    remove_overwritten(f, region, &fields);
    sweep(f);
    // Forwarded values make more of what is computed from them the same.
    merge_values(m, region);
}

/// Whether the stores of a field or array can be forwarded to its loads.
fn takes_part(m: &Module, used: &StorageUse, options: &Options) -> bool {
    let own = matches!(used.reach, Reach::Own(_));
    let packed = used.storage.is_packed(m);
    own && used.exists && !packed && may_bypass(m, used.storage, options)
}

/// Whether a value may be used without going through memory: a product that is stored is rounded; otherwise, it could be contracted,
/// and results must not depend on that in a deterministic world.
pub(crate) fn may_bypass(m: &Module, storage: Storage, options: &Options) -> bool {
    let elem = storage.elem(m);
    let floats = (m.structs.flatten(elem).iter()).any(|s| Scalar::is_float(*s));
    options.math == Math::Strict || !options.deterministic || !floats
}

/// An element of a field or array, or a component of it.
#[derive(Clone, PartialEq)]
struct Key {
    storage: Storage,
    indices: Vec<Affine>,
    path: Vec<u32>,
}

impl Key {
    /// Of an access whose components are known.
    fn of(f: &Function, affine: &mut AffineAnalysis<'_>, inst: Inst) -> Option<Key> {
        let data = &f.insts[inst];
        let access = data.op.access()?;
        let storage = Storage::of(access.place)?;
        let path: Option<Vec<u32>> = (access.path.iter())
            .map(|step| match step {
                Step::Const(k) => Some(*k),
                Step::Dynamic => None,
            })
            .collect();
        let operands = usize::from(!matches!(data.op, Op::Load(_)));
        let rank = data.args.len().checked_sub(operands)?;
        Some(Key {
            storage,
            indices: data.args[..rank].iter().map(|v| affine.expr(*v)).collect(),
            path: path?,
        })
    }

    /// Whether they may share memory: components of the same element may, unless both are known and neither contains the other.
    fn overlaps(&self, other: &Key) -> bool {
        let shared = self.path.len().min(other.path.len());
        self.storage == other.storage && self.path[..shared] == other.path[..shared]
    }
}

fn forward(f: &mut Function, region: Region, fields: &[Storage]) {
    let mut replaced = Substitution::new();
    {
        let structure = Structure::of(f);
        let mut pass = Forward {
            f,
            affine: AffineAnalysis::new(f, &structure),
            fields,
            replaced: &mut replaced,
        };
        pass.region(region, &mut Vec::new());
    }
    replaced.apply(f);
}

/// Replaces unique values that are the same. Whether there were any.
fn merge_uniques(f: &mut Function, region: Region) -> bool {
    let mut replaced = Substitution::new();
    let mut known: Vec<(Value, Value)> = Vec::new();
    let mut any = false;
    for inst in &f.regions[region].insts {
        let data = &f.insts[*inst];
        if !matches!(data.op, Op::Unique(_)) {
            continue;
        }
        let (from, value) = (data.args[0], data.results[0]);
        match known.iter().find(|(v, _)| *v == from) {
            Some((_, first)) => {
                replaced.set(value, *first);
                any = true;
            }
            None => known.push((from, value)),
        }
    }
    replaced.apply(f);
    any
}

struct Forward<'a> {
    f: &'a Function,
    affine: AffineAnalysis<'a>,
    fields: &'a [Storage],
    replaced: &'a mut Substitution,
}

impl Forward<'_> {
    fn region(&mut self, region: Region, known: &mut Vec<(Key, Value)>) {
        for inst in self.f.regions[region].insts.clone() {
            self.inst(inst, known);
        }
    }

    fn inst(&mut self, inst: Inst, known: &mut Vec<(Key, Value)>) {
        let f = self.f;
        let data = &f.insts[inst];
        if !data.regions.is_empty() {
            // What a region writes is unknown in it, because it may run again, and after it.
            let written = fields_in(f, inst, false);
            known.retain(|(key, _)| !written.contains(&key.storage));
            for r in &data.regions {
                self.region(*r, &mut known.clone());
            }
            return;
        }
        let Some(storage) = data.op.access().and_then(|a| Storage::of(a.place)) else {
            return;
        };
        if !self.fields.contains(&storage) {
            return;
        }
        let Some(key) = Key::of(f, &mut self.affine, inst) else {
            if !matches!(data.op, Op::Load(_)) {
                known.retain(|(key, _)| key.storage != storage);
            }
            return;
        };
        if matches!(data.op, Op::Load(_)) {
            let value = f.result(inst);
            match known.iter().find(|(k, _)| *k == key) {
                Some((_, old)) if f.ty(*old) == f.ty(value) => self.replaced.set(value, *old),
                _ => known.push((key, value)),
            }
            return;
        }
        known.retain(|(k, _)| !k.overlaps(&key));
        if matches!(data.op, Op::Store(_))
            && let Some(value) = data.args.last()
        {
            known.push((key, *value));
        }
    }
}

/// The fields and arrays that the regions of an instruction write, or with `reads` access at all.
fn fields_in(f: &Function, inst: Inst, reads: bool) -> Vec<Storage> {
    let storage = |i: Inst| {
        let op = &f.insts[i].op;
        let access = if reads {
            op.access()
        } else {
            op.written_access()
        };
        Storage::of(access?.place)
    };
    f.insts_of(inst).filter_map(storage).collect()
}

/// Removes stores in a region that a later store of the same region overwrites, with no read between.
fn remove_overwritten(f: &mut Function, region: Region, fields: &[Storage]) {
    let mut dead = Vec::new();
    {
        let structure = Structure::of(f);
        let mut affine = AffineAnalysis::new(f, &structure);
        let mut later: Vec<Key> = Vec::new();
        for inst in f.regions[region].insts.iter().rev() {
            let data = &f.insts[*inst];
            if !data.regions.is_empty() {
                let used = fields_in(f, *inst, true);
                later.retain(|key| !used.contains(&key.storage));
                continue;
            }
            let Some(storage) = data.op.access().and_then(|a| Storage::of(a.place)) else {
                continue;
            };
            if !fields.contains(&storage) {
                continue;
            }
            let key = Key::of(f, &mut affine, *inst);
            let (Op::Store(_), Some(key)) = (&data.op, key) else {
                later.retain(|key| key.storage != storage);
                continue;
            };
            if later.contains(&key) {
                dead.push(*inst);
            } else {
                later.push(key);
            }
        }
    }
    f.regions[region].insts.retain(|inst| !dead.contains(inst));
}
