//! The cost model of automatic scratchpads: loops over lists of blocks that access elements often enough.
//!
//! A scratchpad costs time per element: it is filled, or its sums are flushed to the field by atomics. It saves
//! time per access: a tree access, and an atomic for sums. So the ratio of accesses to elements decides. The number
//! of particles in a block is known only at run time, so the code compares it.

use super::{Block, Fork, Pad, Use, behind, compare_assumptions, no_pad};
use crate::analysis::affine::AffineAnalysis;
use crate::analysis::cost::trips;
use crate::passes::Cx;
use crate::remark::Decision;
use crate::rewrite::Structure;
use rustc_hash::FxHashSet;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Field, Inst, Region, Tree, Value};
use wuji_ir::module::*;
use wuji_ir::ops::*;

/// The average number of additions per element from which on a scratchpad is faster: with several threads, and with
/// one, which needs no atomics. Measured: `docs/performance.md`.
const LEAST_SUMS: u64 = 1;
const LEAST_SUMS_ALONE: u64 = 3;
/// The same for reads from hash nodes. Other tree accesses are a few loads, as fast as a scratchpad.
const LEAST_READS: u64 = 2;

/// Whether a task is a candidate: it runs over a list of blocks.
pub(super) fn may_have_any(m: &Module, task: usize, cx: &Cx) -> bool {
    let task = &m.tasks[task];
    // In debug mode every dropped write reports its own index.
    if cx.options.debug || cx.options.check_reads || task.lists.is_some() {
        return false;
    }
    let f = &m.funcs[task.func];
    let (mut entry, mut calls) = (false, false);
    f.walk(|inst| {
        let op = &f.insts[inst].op;
        entry |= matches!(op, Op::TreeAccess(TreeAccessOp::Entry, ..));
        // A callee may access the field in any way.
        calls |= op.callee().is_some();
    });
    entry && !calls
}

/// Scratchpads for fields that a loop over a list scatters to, or gathers from.
pub(super) fn by_cost(m: &mut Env, f: &mut Function, cx: &mut Cx) -> Vec<Decision> {
    let mut decisions = Vec::new();
    for block in blocks(f) {
        let (mut pads, mut from) = (Vec::new(), None);
        let structure = Structure::of(f);
        for field in candidates(m, f, &structure, block) {
            let choice = Pad::plan(m, f, &structure, field, block).and_then(|pad| {
                let work = Work::of(f, &structure, &pad);
                let least = work.least_turns(m, f, &structure, &pad, cx.options.threads)?;
                Ok((pad, work.turns, least))
            });
            match choice {
                Err(why) => decisions.push(no_pad(m, field, why)),
                // A block uses all its scratchpads or none.
                Ok((_, turns, _)) if from.is_some_and(|(known, _)| known != turns) => {
                    let why =
                        "it is used in another loop of the block than others with scratchpads";
                    decisions.push(no_pad(m, field, why.to_owned()));
                }
                Ok((pad, turns, least)) => {
                    if cx.fuel() {
                        let so_far = from.map_or(0, |(_, n)| n);
                        from = Some((turns, least.max(so_far)));
                        pads.push(pad);
                    }
                }
            }
        }
        if let Some((turns, least)) = from {
            decisions.extend(make(m, f, pads, turns, least));
        }
    }
    decisions
}

/// Emits the scratchpads of a block, for blocks with at least the given trip count.
fn make(
    m: &mut Env,
    f: &mut Function,
    mut pads: Vec<Pad>,
    turns: Option<Inst>,
    least: u64,
) -> Vec<Decision> {
    let Some(block) = pads.first().map(|pad| pad.block) else {
        return Vec::new();
    };
    let worth = turns.map(|inst| compare(m, f, block, inst, least));
    let assumed = pads
        .iter()
        .any(|p| p.touches.iter().any(|t| !t.assumed.is_empty()));
    let worth = match worth {
        // One comparison for the assumptions and for the trip count.
        _ if assumed => {
            if !compare_assumptions(m, f, &pads, worth) {
                let why = "the assumptions are not in one region";
                let no = |pad: &Pad| no_pad(m, pad.field, why.to_owned());
                return pads.iter().map(no).collect();
            }
            worth
        }
        Some(worth) => {
            let body = version(m, f, block, worth);
            pads.iter_mut().for_each(|pad| pad.block.body = body);
            None
        }
        None => None,
    };
    let mut decisions = Vec::new();
    for pad in pads {
        decisions.push(pad.decision(m, if turns.is_some() { least } else { 0 }));
        pad.apply(m, f, worth);
    }
    decisions
}

/// Outermost parallel loops over the entries of a list.
fn blocks(f: &Function) -> Vec<Block> {
    let structure = Structure::of(f);
    let mut found = Vec::new();
    f.walk(|inst| {
        let data = &f.insts[inst];
        let Op::For(label, ForKind::Parallel) = data.op else {
            return;
        };
        let body = data.regions[0];
        let entry = |i: &Inst| matches!(f.insts[*i].op, Op::TreeAccess(TreeAccessOp::Entry, ..));
        if structure.region_of[inst].expand() == Some(f.entry)
            && f.regions[body].insts.iter().any(entry)
        {
            found.push(Block { body, label });
        }
    });
    found
}

/// Fields that a block adds to, and fields that it reads at indices other than its loops' own.
fn candidates(m: &Env, f: &Function, structure: &Structure, block: Block) -> Vec<Field> {
    let mut affine = AffineAnalysis::new(f, structure);
    let mut asked: FxHashSet<Tree> = FxHashSet::default();
    let mut found: Vec<Field> = Vec::new();
    f.walk(|inst| {
        let data = &f.insts[inst];
        // Activity tests see the effect of a write immediately, but a scratchpad writes back later.
        if let Op::Cell(_, field) = data.op {
            asked.insert(m.fields[field].tree);
        }
        let adds = matches!(data.op, Op::Atomic(AtomicOp::Add, _));
        let (Op::Atomic(AtomicOp::Add, access) | Op::Load(access)) = &data.op else {
            return;
        };
        let Place::Field(field) = access.place else {
            return;
        };
        let region = structure.region_of[inst].expand();
        let inner = region.is_some_and(|r| r != block.body && structure.is_inside(r, block.body));
        if !inner || found.contains(&field) {
            return;
        }
        let indices = &data.args[..m.fields[field].rank()];
        let known = |v: &Value| {
            let region = structure.def_region(f, *v);
            let outside = |r| r == block.body || !structure.is_inside(r, block.body);
            let index = matches!(f.values[*v].def, ValueDef::Param(_, 0));
            index || region.is_some_and(outside)
        };
        // Elements in loop order are loaded as vectors, which needs no scratchpad.
        let mut rows = || {
            let mut all = indices.iter();
            all.all(|v| affine.expr(*v).terms.iter().all(|(v, _)| known(v)))
        };
        if adds || !rows() {
            found.push(field);
        }
    });
    found.retain(|field| !asked.contains(&m.fields[*field].tree));
    found
}

/// How often a block accesses the elements of a scratchpad.
struct Work {
    /// Accesses outside of the loop with the unknown trip count, and per iteration of it.
    fixed: u64,
    each: u64,
    /// That loop.
    turns: Option<Inst>,
}

impl Work {
    fn of(f: &Function, structure: &Structure, pad: &Pad) -> Work {
        let mut work = Work {
            fixed: 0,
            each: 0,
            turns: None,
        };
        for touch in &pad.touches {
            let (mut times, mut turns) = (1u64, None);
            let mut at = structure.parent(touch.inst);
            while let Some(inst) = at {
                let body = f.insts[inst].regions.first().copied();
                if body == Some(pad.block.body) {
                    break;
                }
                if let Op::For(..) = f.insts[inst].op {
                    match trips(f, inst) {
                        Some(n) => times = times.saturating_mul(n),
                        None if structure.region_of[inst].expand() == Some(pad.block.body) => {
                            turns = Some(inst);
                        }
                        // Assume at least one iteration.
                        None => {}
                    }
                }
                at = structure.parent(inst);
            }
            match turns {
                Some(inst) if work.turns.is_none_or(|known| known == inst) => {
                    work.turns = Some(inst);
                    work.each = work.each.saturating_add(times);
                }
                _ => work.fixed = work.fixed.saturating_add(times),
            }
        }
        work
    }

    /// The trip count from which on the scratchpad is faster, or the reason why it never is.
    fn least_turns(
        &self,
        m: &Env,
        f: &Function,
        structure: &Structure,
        pad: &Pad,
        threads: u32,
    ) -> Result<u64, String> {
        let len = pad.len().unwrap_or(u64::MAX);
        let factor = match pad.kind {
            Use::Scatter if threads == 1 => LEAST_SUMS_ALONE,
            Use::Scatter => LEAST_SUMS,
            Use::Gather if is_hashed(m, pad.field) => LEAST_READS,
            Use::Gather => return Err("reading it is as fast without".into()),
        };
        let needed = len.saturating_mul(factor);
        let few = |most: u64| {
            let name = &m.fields[pad.field].name;
            let what = match pad.kind {
                Use::Scatter => "adds to",
                Use::Gather => "reads",
            };
            format!(
                "a block {what} {most} elements of `{name}` at most, and there are {len} around it"
            )
        };
        let Some(turns) = self.turns else {
            return if self.fixed >= needed {
                Ok(0)
            } else {
                Err(few(self.fixed))
            };
        };
        let least = needed.saturating_sub(self.fixed).div_ceil(self.each.max(1));
        let mut affine = AffineAnalysis::new(f, structure);
        let (lo, hi) = (f.insts[turns].args[0], f.insts[turns].args[1]);
        let most = affine.range(hi).1.saturating_sub(affine.range(lo).0).max(0);
        // Scratchpads are filled before the code that uses them.
        let body = pad.block.body;
        let first = f.regions[body].insts.iter().position(|i| {
            let mut inside = pad
                .touches
                .iter()
                .map(|t| structure.region_of[t.inst].expand());
            let regions = &f.insts[*i].regions;
            inside
                .any(|at| at.is_some_and(|at| regions.iter().any(|r| structure.is_inside(at, *r))))
        });
        if first.is_none_or(|at| at < behind(f, body, [lo, hi].into_iter())) {
            return Err("how often it is used is known too late".into());
        }
        if i128::from(least) <= most {
            Ok(least.max(1))
        } else {
            Err(few(self.each.saturating_mul(most as u64)))
        }
    }
}

/// Compares the trip count of a block's loop, before the loop.
fn compare(m: &mut Env, f: &mut Function, block: Block, turns: Inst, least: u64) -> Value {
    let (lo, hi) = (f.insts[turns].args[0], f.insts[turns].args[1]);
    let at = behind(f, block.body, [lo, hi].into_iter());
    let after = f.regions[block.body].insts.split_off(at);
    let mut b = Builder::new(m, f);
    b.region = block.body;
    b.span = b.func.spans[turns];
    let count = b.binary(BinOp::Sub, hi, lo);
    let least = b.i64(least as i64);
    let worth = b.compare(CmpOp::Ge, count, least);
    f.regions[block.body].insts.extend(after);
    worth
}

/// Versions the rest of a block by a condition; returns the version with scratchpads.
fn version(m: &mut Env, f: &mut Function, block: Block, condition: Value) -> Region {
    let at = behind(f, block.body, [condition].into_iter());
    let fork = Fork::at(f, block.body, at);
    let fast = fork.fast;
    let mut b = Builder::new(m, f);
    b.region = block.body;
    fork.end(&mut b, condition);
    fast
}

/// Whether a field is below a hash node.
fn is_hashed(m: &Env, field: Field) -> bool {
    let data = &m.fields[field];
    m.trees[data.tree].is_hashed(data.node)
}
