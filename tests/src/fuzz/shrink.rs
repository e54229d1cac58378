//! Test case reduction: makes a failing program smaller while it fails in the same way.

use super::Found;
use super::check::{self, Check, Failure};
use super::program::Program;
use std::time::{Duration, Instant};
use wuji_ir::build::Builder;
use wuji_ir::entities::*;
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{Imm, Type};

/// The time limit of a reduction, and of tidying up afterwards.
const PATIENCE: Duration = Duration::from_secs(20);

/// A smaller program that fails in the same way, after the first pass that makes it fail.
pub(super) fn shrink(program: Program, failure: Failure) -> Found {
    let start = Instant::now();
    let Ok(Some(expected)) = check::expected(&program) else {
        return Found {
            check: failure.check,
            why: failure.why,
            program,
        };
    };
    let failure = check::blame(&program, failure, &expected);
    let mut best = program;
    loop {
        let mut progress = false;
        let mut at = 0;
        loop {
            let edits = edits(&best.module);
            let Some(edit) = edits.get(at) else { break };
            if start.elapsed() > PATIENCE {
                progress = false;
                break;
            }
            match apply(&best, edit).filter(|smaller| still_fails(smaller, &failure)) {
                Some(smaller) => {
                    best = smaller;
                    progress = true;
                }
                None => at += 1,
            }
        }
        if !progress {
            break;
        }
    }
    best = super::tidy::tidy(&best, |smaller| {
        start.elapsed() < 2 * PATIENCE && still_fails(smaller, &failure)
    });
    let why = match check::expected(&best) {
        Ok(Some(expected)) => check::check(&best, &failure.check, &expected)
            .err()
            .map(|e| e.1),
        Ok(None) | Err(_) => None,
    };
    Found {
        check: failure.check,
        why: why.unwrap_or(failure.why),
        program: best,
    }
}

fn still_fails(program: &Program, failure: &Failure) -> bool {
    let Ok(Some(expected)) = check::expected(program) else {
        return false;
    };
    let outcome = check::check(program, &failure.check, &expected);
    if !matches!(outcome, Err((kind, _)) if kind == failure.kind) {
        return false;
    }
    // A reduction must not introduce races.
    matches!(failure.check, Check::Order(_))
        || (1..4).all(|k| check::check(program, &Check::Order(k), &expected).is_ok())
}

/// One reduction step.
#[derive(Clone, Copy, Debug)]
enum Edit {
    /// Removes instructions; zeros replace their results.
    Remove(Func, Region, usize, usize),
    /// Replaces an instruction by the instructions of one of its regions.
    Unwrap(Func, Region, usize, usize),
    /// A region of `if` or `block` ends in `yield`.
    Fall(Func, Region),
    /// A smaller constant.
    Constant(Func, Inst, i64),
}

/// All edits, those with a large effect first.
fn edits(m: &Module) -> Vec<Edit> {
    let mut out = Vec::new();
    // Long runs of instructions first, from the last function, which is the kernel.
    let mut stretches = Vec::new();
    for (func, f) in m.funcs.iter().rev() {
        for region in f.walk_regions() {
            let count = f.regions[region].insts.len();
            let mut size = count.div_ceil(2);
            while size >= 2 {
                for at in (0..count).step_by(size).rev() {
                    let size = size.min(count - at);
                    stretches.push((size, Edit::Remove(func, region, at, size)));
                }
                size /= 2;
            }
        }
    }
    stretches.sort_by_key(|s| std::cmp::Reverse(s.0));
    out.extend(stretches.into_iter().map(|s| s.1));
    for (func, f) in m.funcs.iter().rev() {
        for region in f.walk_regions() {
            let data = &f.regions[region];
            for (at, inst) in data.insts.iter().enumerate().rev() {
                let data = &f.insts[*inst];
                // A single zero would be replaced by itself.
                let zero = matches!(data.op, Op::Const(imm) if imm.bits() == 0);
                if !zero || !is_used(f, data.results[0]) {
                    out.push(Edit::Remove(func, region, at, 1));
                }
                for side in 0..data.regions.len() {
                    out.push(Edit::Unwrap(func, region, at, side));
                }
            }
            if !matches!(data.term, Term::Yield(_)) {
                out.push(Edit::Fall(func, region));
            }
        }
    }
    for (func, f) in &m.funcs {
        f.walk(|inst| {
            if let Op::Const(imm) = f.insts[inst].op
                && let Some(n) = imm.as_int()
            {
                let n = n as i64;
                if n.unsigned_abs() > 1 {
                    out.push(Edit::Constant(func, inst, 1));
                }
                if n.unsigned_abs() > 3 {
                    out.push(Edit::Constant(func, inst, n / 2));
                }
            }
        });
    }
    out
}

fn apply(program: &Program, edit: &Edit) -> Option<Program> {
    let mut program = program.clone();
    let m = &mut program.module;
    match *edit {
        Edit::Remove(func, region, at, count) => change(m, func, |m, f| {
            remove(m, f, region, at, count);
            Some(())
        })?,
        Edit::Unwrap(func, region, at, side) => {
            change(m, func, |_, f| unwrap(f, region, at, side))?;
        }
        Edit::Fall(func, region) => change(m, func, |m, f| fall(m, f, region))?,
        Edit::Constant(func, inst, value) => {
            let f = &mut m.funcs[func];
            let Op::Const(imm) = &mut f.insts[inst].op else {
                return None;
            };
            let smaller = Imm::int(imm.ty, i128::from(value));
            if smaller == *imm {
                return None;
            }
            *imm = smaller;
        }
    }
    Some(program)
}

fn change(
    m: &mut Module,
    func: Func,
    edit: impl FnOnce(&mut Env, &mut Function) -> Option<()>,
) -> Option<()> {
    edit(&mut m.env, &mut m.funcs[func])
}

fn substitute(f: &mut Function, old: Value, new: Value) {
    for inst in f.insts.values_mut() {
        for a in &mut inst.args {
            if *a == old {
                *a = new;
            }
        }
    }
    for region in f.regions.values_mut() {
        for a in region.term.args_mut() {
            if *a == old {
                *a = new;
            }
        }
    }
}

fn is_used(f: &Function, value: Value) -> bool {
    f.walk_regions().into_iter().any(|r| {
        let data = &f.regions[r];
        let mut args = data.insts.iter().map(|i| &f.insts[*i].args);
        args.any(|a| a.contains(&value)) || data.term.args().contains(&value)
    })
}

fn remove(m: &mut Env, f: &mut Function, region: Region, at: usize, count: usize) {
    let rest = f.regions[region].insts.split_off(at);
    let results: Vec<Value> = rest[..count]
        .iter()
        .flat_map(|i| f.insts[*i].results.clone())
        .collect();
    // Removed instructions do not count as uses.
    for inst in &rest[..count] {
        f.insts[*inst].args.clear();
    }
    for old in results {
        if is_used(f, old) {
            let ty = f.ty(old);
            let mut b = Builder::new(m, f);
            b.region = region;
            let zero = b.zero(ty);
            substitute(f, old, zero);
        }
    }
    f.regions[region].insts.extend(&rest[count..]);
}

fn unwrap(f: &mut Function, region: Region, at: usize, side: usize) -> Option<()> {
    let owner = f.regions[region].insts[at];
    let data = f.insts[owner].clone();
    let inner = data.regions[side];
    let label = data.op.label();
    let term = &f.regions[inner].term;
    let (given, start): (&[Value], Vec<Value>) = match data.op.control()? {
        ControlOp::If | ControlOp::Block(_) => {
            let Term::Yield(v) = term else {
                return None;
            };
            (v, Vec::new())
        }
        ControlOp::Loop(_) => {
            let Term::Break(to, v) = term else {
                return None;
            };
            (Some(*to) == label).then_some((&v[..], data.args.to_vec()))?
        }
        ControlOp::For(..) => {
            let (Term::Continue(to, v) | Term::Break(to, v)) = term else {
                return None;
            };
            let mut start = vec![data.args[0]];
            start.extend(&data.args[3..]);
            (Some(*to) == label).then_some((&v[..], start))?
        }
        ControlOp::ForEach(..) => return None,
    };
    // No other exit through the label is allowed.
    let mut work: Vec<Region> = f.regions[inner]
        .insts
        .iter()
        .flat_map(|i| f.insts[*i].regions.iter().copied())
        .collect();
    while let Some(r) = work.pop() {
        if let Term::Break(l, _) | Term::Continue(l, _) = f.regions[r].term
            && Some(l) == label
        {
            return None;
        }
        for i in &f.regions[r].insts {
            work.extend(&f.insts[*i].regions);
        }
    }
    let given = given.to_vec();
    let params = f.regions[inner].params.to_vec();
    let body = std::mem::take(&mut f.regions[inner].insts);
    f.regions[region].insts.splice(at..=at, body);
    for (old, new) in data.results.iter().zip(given) {
        substitute(f, *old, new);
    }
    for (old, new) in params.into_iter().zip(start) {
        substitute(f, old, new);
    }
    Some(())
}

fn fall(m: &mut Env, f: &mut Function, region: Region) -> Option<()> {
    let owner = f
        .insts
        .values()
        .find(|i| i.regions.contains(&region) && matches!(i.op, Op::If | Op::Block(_)))?;
    let types: Vec<Type> = owner.results.iter().map(|v| f.ty(*v)).collect();
    let mut b = Builder::new(m, f);
    b.region = region;
    let values: Vec<Value> = types.into_iter().map(|t| b.zero(t)).collect();
    b.end(Term::Yield(values.into_iter().collect()));
    Some(())
}
