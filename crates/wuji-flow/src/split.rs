//! Splits a kernel into tasks.

use crate::combine::{Combined, Part, Piece, combine};
use crate::storage::is_fixed;
use crate::summary::entry_loops;
use rustc_hash::FxHashMap;
use wuji_compile::analysis::uses::used_by;
use wuji_compile::{Cx, Options, run_pass};
use wuji_ir::Result;
use wuji_ir::entities::{Inst, Value};
use wuji_ir::module::{Function, Module, Term};
use wuji_ir::ops::{Effect, Op};

/// The passes that make a kernel readable: no variables, no calls.
const PREPARE: &[&str] = &[
    "split_fields",
    "large_values",
    "promote",
    "inline",
    "simplify",
];

/// A kernel without variables and calls.
pub(crate) fn prepare(mut module: Module, options: &Options) -> Result<Module> {
    let mut cx = Cx::new(options);
    for pass in PREPARE {
        if !options.without.iter().any(|w| w == pass) {
            run_pass(pass, &mut module, &mut cx)?;
        }
    }
    Ok(module)
}

/// The tasks of a kernel in order. `None` if it cannot be split: loops share values or variables.
pub(crate) fn split(module: &Module) -> Option<Vec<Combined>> {
    let f = module.kernel_func()?;
    let calls = f.insts.values().any(|data| matches!(data.op, Op::Call(_)));
    let fixed = module.arrays.values().all(is_fixed);
    let plain = module.temps.is_empty() && fixed && f.results.is_empty();
    if calls || !plain || returns_early(f) {
        return None;
    }
    let pieces = pieces(f);
    if crosses(f, &pieces) {
        return None;
    }
    let trees: Vec<u32> = (0..module.trees.len() as u32).collect();
    // Numbers of their own: no array is a tree.
    let first = trees.len() as u32;
    let arrays: Vec<u32> = (first..first + module.arrays.len() as u32).collect();
    let name = |k: usize| {
        if pieces.len() == 1 {
            module.name.clone()
        } else {
            format!("{}.{k}", module.name)
        }
    };
    let parts = pieces.iter().enumerate().map(|(k, piece)| {
        let part = Part {
            module,
            piece: piece.clone(),
            trees: &trees,
            arrays: &arrays,
            equal: &[],
        };
        let mut combined = combine(&name(k), &[part])?;
        combined.arrays.iter_mut().for_each(|n| *n -= first);
        Some(combined)
    });
    parts.collect()
}

/// Loops, and the stretches of serial code between them that have an effect.
fn pieces(f: &Function) -> Vec<Piece> {
    let mut out = Vec::new();
    let mut serial: Vec<Inst> = Vec::new();
    let end = |serial: &mut Vec<Inst>, out: &mut Vec<Piece>| {
        let stretch = std::mem::take(serial);
        if stretch
            .iter()
            .any(|i| f.insts[*i].op.effect() != Effect::Pure)
        {
            out.push(Piece::Serial(stretch));
        }
    };
    for &inst in &f.regions[f.entry].insts {
        if let Op::ForEach(..) = f.insts[inst].op {
            end(&mut serial, &mut out);
            out.push(Piece::Loop(inst));
        } else {
            serial.push(inst);
        }
    }
    end(&mut serial, &mut out);
    debug_assert!(entry_loops(f).count() <= out.len());
    out
}

fn returns_early(f: &Function) -> bool {
    let regions = f.walk_regions();
    let mut nested = regions.iter().filter(|r| **r != f.entry);
    nested.any(|r| matches!(f.regions[*r].term, Term::Return(_)))
}

/// Whether a piece uses a value of another one that cannot be computed again.
fn crosses(f: &Function, pieces: &[Piece]) -> bool {
    let mut home: FxHashMap<Value, usize> = FxHashMap::default();
    // Pure code between pieces belongs to none of them.
    for inst in &f.regions[f.entry].insts {
        home.extend((f.insts[*inst].results.iter()).map(|r| (*r, usize::MAX)));
    }
    for (k, piece) in pieces.iter().enumerate() {
        if let Piece::Serial(insts) = piece {
            for inst in insts {
                home.extend(f.insts[*inst].results.iter().map(|r| (*r, k)));
            }
        }
    }
    let recomputable = recomputable(f);
    let pure = |v: Value| recomputable.contains_key(&v);
    pieces.iter().enumerate().any(|(k, piece)| {
        let mut foreign = false;
        let mut visit = |v: Value| foreign |= home.get(&v).is_some_and(|h| *h != k) && !pure(v);
        match piece {
            Piece::Serial(insts) => {
                (insts.iter().flat_map(|i| used_by(f, *i))).for_each(&mut visit)
            }
            Piece::Loop(inst) => used_by(f, *inst).into_iter().for_each(&mut visit),
        }
        foreign
    }) || uses_locals_of_others(f, pieces)
}

/// Local arrays belong to one piece.
fn uses_locals_of_others(f: &Function, pieces: &[Piece]) -> bool {
    use wuji_ir::ops::Place;
    let mut home: FxHashMap<wuji_ir::entities::Local, usize> = FxHashMap::default();
    pieces.iter().enumerate().any(|(k, piece)| {
        let mut foreign = false;
        let mut visit = |inst: Inst| {
            if let Some(Place::Local(l)) = f.insts[inst].op.access().map(|a| a.place) {
                foreign |= *home.entry(l).or_insert(k) != k;
            }
        };
        match piece {
            Piece::Serial(insts) => {
                (insts.iter().flat_map(|i| f.insts_of(*i))).for_each(&mut visit)
            }
            Piece::Loop(inst) => f.insts_of(*inst).for_each(&mut visit),
        }
        foreign
    })
}

/// At most this many instructions are computed again.
const RECOMPUTE_LIMIT: u32 = 64;

/// Values of the entry region that other pieces can compute again, with the number of instructions.
fn recomputable(f: &Function) -> FxHashMap<Value, u32> {
    let mut cost: FxHashMap<Value, u32> = f.params().iter().map(|p| (*p, 0)).collect();
    for inst in &f.regions[f.entry].insts {
        let data = &f.insts[*inst];
        if !data.is_pure() {
            continue;
        }
        let args = data.args.iter().map(|a| cost.get(a).copied());
        let sum = args.sum::<Option<u32>>().map(|n| n + 1);
        if let Some(sum) = sum.filter(|n| *n <= RECOMPUTE_LIMIT) {
            cost.extend(data.results.iter().map(|r| (*r, sum)));
        }
    }
    cost
}
