//! Vectorizes parallel loops.
//!
//! The innermost `for.parallel` of a task becomes a loop over groups of iterations, its *lanes*. Every scalar that
//! varies between lanes becomes a vector; divergent branches become masks. Iterations are independent by
//! definition, so there is nothing to prove. The analysis finds what is uniform (`shapes`), and the body is emitted
//! again (`emit`, `control`, `memory`, `serial`).

mod consecutive_add;
mod control;
mod cost;
mod emit;
mod functions;
mod interleave;
mod interleaved_add;
mod jam;
mod locals;
mod loops;
mod memory;
mod nested;
mod plan;
mod reduced_add;
mod serial;
mod shapes;
mod streams;

use crate::analysis::uses::used_values;
use crate::options::Math;
use crate::passes::Cx;
use crate::remark::{Decision, Remark};
use crate::rewrite::Structure;
use cost::Machine;
use emit::{Emitter, JumpTarget, Lanes, Mask, Source};
pub use functions::call_vector_functions;
use interleave::Groups;
use locals::Roles;
use plan::VectorPlan;
use rustc_hash::FxHashSet;
use shapes::Shapes;
use streams::Streams;
use wuji_ir::build::Builder;
use wuji_ir::entities::*;
use wuji_ir::layout::TreeMemory;
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{I64, Imm, Scalar, Type};
use wuji_ir::{Position, Result};

/// The pass; the [module](self) describes it.
pub fn vectorize(m: &mut Module, cx: &mut Cx) -> Result<()> {
    if cx.options.vector_bits == 0 {
        return Ok(());
    }
    let small = small_trees(m);
    for t in 0..m.tasks.len() {
        for decision in vectorize_task(m, t, &small, cx) {
            let task = &m.tasks[t];
            cx.remarks.push(Remark {
                task: task.name.clone(),
                at: Position::of(m, task.span),
                decision,
            });
        }
    }
    Ok(())
}

/// Vectorizes the innermost loops of a task; returns the decision for each.
fn vectorize_task(m: &mut Module, t: usize, small: &FxHashSet<Tree>, cx: &mut Cx) -> Vec<Decision> {
    let task = &m.tasks[t];
    let (TaskKind::Chunks { hints, .. }, None) = (&task.kind, &task.lists) else {
        return Vec::new();
    };
    let (func, simd) = (task.func, hints.simd);
    if let Some(lanes) = components(&m.funcs[func]) {
        let jammed = jam::jam(&mut m.env, &mut m.funcs[func], cx);
        let decision = |iterations| Decision::Components { lanes, iterations };
        return jammed.into_iter().map(decision).collect();
    }
    let iterations = streams::iterations(task).filter(|_| cx.uses("streams"));
    let (loops, wide) = nested::choose(&m.env, &m.funcs[func]);
    if let Some(wide) = wide {
        m.funcs[func] = wide;
    }
    let old = m.funcs[func].clone();
    let structure = Structure::of(&old);
    let used = used_values(&old);
    let mut decisions = Vec::new();
    for inst in loops {
        let facts = LoopFacts::of((m, &old), &structure, inst, simd, cx);
        decisions.push(match facts {
            Err(why) => Decision::Scalar(why),
            Ok(l) if l.plan.bytes > 0 && !fits(m, &m.funcs[func], l.plan.bytes) => {
                Decision::Scalar("there is no room on the stack for its arrays".to_owned())
            }
            Ok(_) if !cx.fuel() => Decision::Scalar("there is no fuel left".to_owned()),
            Ok(l) => {
                let streams = match iterations {
                    Some(n) => {
                        let long = (n, cx.options.stream_from);
                        Streams::find((m, &old), &structure, inst, &l.shapes, &l.plan, long)
                    }
                    None => Streams::default(),
                };
                let source = Source {
                    old: &old,
                    structure: &structure,
                    shapes: &l.shapes,
                    roles: &l.roles,
                    groups: &l.groups,
                    used: &used,
                    small_trees: small,
                    streamed: &streams.stores,
                };
                Rewrite {
                    m: &mut m.env,
                    f: &mut m.funcs[func],
                    source,
                }
                .apply(inst, &l.plan, &streams);
                Decision::Vectors {
                    lanes: l.plan.lanes as u8,
                    vectors: l.plan.parts,
                    interleaved: !l.groups.is_empty(),
                    streamed: !streams.stores.is_empty(),
                }
            }
        });
    }
    decisions
}

/// The lanes of a function's longest vector: `scalarize` has kept it.
fn components(f: &Function) -> Option<u8> {
    let mut most = None;
    f.walk(|inst| {
        for result in &f.insts[inst].results {
            if let Type::Vector(_, n) = f.ty(*result) {
                most = most.max(Some(n as u8));
            }
        }
    });
    most
}

/// The analyses of a loop that can be vectorized.
struct LoopFacts<'a> {
    roles: Roles,
    shapes: Shapes<'a>,
    groups: Groups,
    plan: VectorPlan,
}

impl<'a> LoopFacts<'a> {
    /// The analyses, or the reason why the loop stays scalar.
    fn of(
        (m, f): (&Module, &'a Function),
        structure: &'a Structure,
        inst: Inst,
        simd: Option<bool>,
        cx: &Cx,
    ) -> std::result::Result<LoopFacts<'a>, String> {
        if simd == Some(false) {
            return Err("it says `scalar`".to_owned());
        }
        let body = f.insts[inst].regions[0];
        let roles = Roles::find(f, structure, body)?;
        let shapes = Shapes::of(f, structure, inst, &roles);
        let groups = if cx.uses("interleave") {
            Groups::find(m, f, body, &shapes)
        } else {
            Groups::default()
        };
        let cost = simd.is_none() && cx.uses("vector_cost");
        let machine = Machine {
            vector_bits: cx.options.vector_bits,
            vector_math: cx.options.math != Math::Strict && !f.traits.precise,
        };
        let plan = VectorPlan::of((m, f), inst, &shapes, &roles, &groups, machine, cost)?;
        Ok(LoopFacts {
            roles,
            shapes,
            groups,
            plan,
        })
    }
}

/// The most bytes of locals before vectorization, which leaves room for what else a function needs.
const MOST_LOCAL_BYTES: u64 = 192 << 10;

/// Whether the private arrays of all lanes fit, for a loop with masks and one without.
fn fits(m: &Env, f: &Function, bytes: u64) -> bool {
    let have: u64 = f
        .locals
        .values()
        .map(|l| m.structs.size_align(l.ty).0 * u64::from(l.len.unwrap_or(1)))
        .sum();
    have + 2 * bytes <= MOST_LOCAL_BYTES
}

/// Trees whose offsets fit in 31 bits.
fn small_trees(m: &Env) -> FxHashSet<Tree> {
    m.trees
        .iter()
        .filter(|(_, tree)| !tree.is_sparse())
        .filter(|(_, tree)| {
            TreeMemory::of(tree, &m.fields, &m.structs).is_some_and(|l| l.size < 1 << 31)
        })
        .map(|(id, _)| id)
        .collect()
}

/// Parallel loops without parallel loops inside.
fn innermost(f: &Function) -> Vec<Inst> {
    let mut found = Vec::new();
    f.walk(|inst| {
        let data = &f.insts[inst];
        if matches!(data.op, Op::For(_, ForKind::Parallel))
            && !locals::has_iteration_loop(f, data.regions[0])
        {
            found.push(inst);
        }
    });
    found
}

struct Rewrite<'a> {
    m: &'a mut Env,
    f: &'a mut Function,
    source: Source<'a>,
}

impl Rewrite<'_> {
    fn apply(&mut self, inst: Inst, plan: &VectorPlan, streams: &Streams) {
        let Some(parent) = self.source.structure.region_of[inst].expand() else {
            return;
        };
        let Some(at) = self.f.regions[parent].insts.iter().position(|i| *i == inst) else {
            return;
        };
        let after = self.f.regions[parent].insts.split_off(at + 1);
        self.f.regions[parent].insts.pop();
        let (lo, hi) = (
            self.source.old.insts[inst].args[0],
            self.source.old.insts[inst].args[1],
        );
        let group = i64::from(plan.lanes) * plan.parts as i64;
        let mut affine = Vec::new();
        let mut from = lo;
        let mut trips = plan.trips;
        if let Some(whole) = self.first_whole(parent, inst, streams) {
            affine.extend(self.pass_over(inst, parent, (lo, whole), 1, plan.lanes, true));
            (from, trips) = (whole, None);
        }
        if plan.main {
            let end = match trips {
                Some(n) if n % group == 0 => hi,
                _ => self.whole_groups(parent, (from, hi), group),
            };
            affine.extend(self.pass_over(inst, parent, (from, end), plan.parts, plan.lanes, false));
            from = end;
        }
        let rest = trips.is_none_or(|n| n % group != 0) || !plan.main;
        if rest {
            let parts = if plan.main { 1 } else { plan.parts };
            affine.extend(self.pass_over(inst, parent, (from, hi), parts, plan.lanes, true));
        }
        self.f.regions[parent].insts.extend(after);
        self.add_up(inst, parent, affine);
    }

    /// The end of the full groups of iterations.
    fn whole_groups(&mut self, region: Region, (lo, hi): (Value, Value), group: i64) -> Value {
        let mut b = Builder::new(self.m, self.f);
        b.region = region;
        let zero = b.i64(0);
        let mask = b.i64(-group);
        let all = b.binary(BinOp::Sub, hi, lo);
        let all = b.binary(BinOp::Max, all, zero);
        let whole = b.binary(BinOp::And, all, mask);
        b.binary(BinOp::Add, lo, whole)
    }

    /// Emits one loop over groups of lanes; with `masked`, the last group may be partial. Returns the vectors of
    /// partial sums.
    fn pass_over(
        &mut self,
        inst: Inst,
        parent: Region,
        (lo, hi): (Value, Value),
        parts: usize,
        lanes: u16,
        masked: bool,
    ) -> Vec<Partial> {
        let old = self.source.old;
        let body = old.insts[inst].regions[0];
        let mut b = Builder::new(self.m, self.f);
        b.region = parent;
        b.span = old.spans[inst];
        let step = b.i64(i64::from(lanes) * parts as i64);
        let label = b.func.fresh_label();
        let kind = if masked && parts == 1 && self.source.structure.owner[body].is_some() {
            ForKind::Boundary
        } else {
            ForKind::Serial
        };
        let looped = b.func.add_inst(
            Op::For(label, kind),
            [lo, hi, step].into_iter().collect(),
            &[],
            old.spans[inst],
        );
        let region = b.func.add_region(&[I64]);
        b.func.insts[looped].regions.push(region);
        b.region = region;
        let index = b.func.regions[region].params[0];
        let mut e = Emitter::new(b, self.source, lanes, parts, parent, body);
        e.set(old.regions[body].params[0], Lanes::Strided(index, 1));
        if let Some(label) = old.insts[inst].op.label() {
            e.targets.insert(label, JumpTarget::Iteration);
        }
        let mask = if masked {
            let left = e.b.binary(BinOp::Sub, hi, index);
            // Lane numbers are small: a larger remaining trip count can be clamped to 32 bits.
            let most = e.constant(Imm::int(Scalar::I64, 1 << 20));
            let left = e.b.binary(BinOp::Min, left, most);
            let left = e.b.convert(left, Scalar::I32);
            let left = e.splat(left);
            Mask::Some(
                (0..parts)
                    .map(|p| {
                        let numbers = e.lane_numbers(Scalar::I32, p);
                        e.b.compare(CmpOp::Lt, numbers, left)
                    })
                    .collect(),
            )
        } else {
            Mask::All
        };
        e.region(body, 0, mask);
        e.b.end(Term::Continue(label, Values::new()));
        let locals = std::mem::take(&mut e.locals);
        self.f.regions[parent].insts.push(looped);
        let mut partials = Vec::new();
        for (local, op) in self.source.roles.sums() {
            for vector in locals.get(&local).into_iter().flatten() {
                partials.push(Partial {
                    local,
                    vector: *vector,
                    op,
                });
            }
        }
        partials.sort_by_key(|p| p.vector);
        partials
    }

    /// Initializes the partial sums before the loop, and reduces them after it.
    fn add_up(&mut self, inst: Inst, parent: Region, affine: Vec<Partial>) {
        if affine.is_empty() {
            return;
        }
        let entry = self.f.entry;
        let top = self.outermost(inst);
        let old = self.source.old;
        let mut b = Builder::new(self.m, self.f);
        b.span = old.spans[inst];
        let before = b.func.add_region(&[]);
        b.region = before;
        for sum in &affine {
            let Some(identity) = plan::identity(old, sum.local) else {
                continue;
            };
            let ty = b.func.locals[sum.vector].ty;
            let one = b.imm(identity);
            let all = b.value(Op::Splat(ty), &[one]);
            b.store(Place::Local(sum.vector), &[], all);
        }
        let after = b.func.add_region(&[]);
        b.region = after;
        for sum in &affine {
            let vector = b.load(Place::Local(sum.vector), &[]);
            let mut total = b.load(Place::Local(sum.local), &[]);
            let lanes = b.func.ty(vector).lanes().unwrap_or(1);
            for k in 0..lanes {
                let part = b.value(Op::Extract(k), &[vector]);
                total = b.binary(sum.op, total, part);
            }
            b.store(Place::Local(sum.local), &[], total);
        }
        let before = std::mem::take(&mut self.f.regions[before].insts);
        let after = std::mem::take(&mut self.f.regions[after].insts);
        if parent == entry {
            // The loop is in the entry region, and so is the position for the identities.
            let first = self.f.regions[entry]
                .insts
                .iter()
                .position(|i| i.as_u32() as usize >= old.insts.len() && self.is_loop(*i));
            let last = self.f.regions[entry]
                .insts
                .iter()
                .rposition(|i| i.as_u32() as usize >= old.insts.len() && self.is_loop(*i));
            if let (Some(first), Some(last)) = (first, last) {
                let insts = &mut self.f.regions[entry].insts;
                insts.splice(last + 1..last + 1, after);
                insts.splice(first..first, before);
            }
            return;
        }
        let insts = &mut self.f.regions[entry].insts;
        if let Some(at) = insts.iter().position(|i| Some(*i) == top) {
            insts.splice(at + 1..at + 1, after);
            insts.splice(at..at, before);
        }
    }

    fn is_loop(&self, inst: Inst) -> bool {
        matches!(self.f.insts[inst].op, Op::For(..))
    }

    /// The instruction of the entry region that contains a loop.
    fn outermost(&self, inst: Inst) -> Option<Inst> {
        let mut at = inst;
        while let Some(up) = self.source.structure.parent(at) {
            at = up;
        }
        Some(at)
    }
}

/// A vector of partial sums.
struct Partial {
    local: Local,
    vector: Local,
    op: BinOp,
}
