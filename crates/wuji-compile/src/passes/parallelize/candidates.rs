//! Which loops can and should be parallel.

use crate::analysis::affine::AffineAnalysis;
use crate::analysis::cost::{trips, work};
use crate::analysis::independence::{Accesses, Reductions, runs_to_its_end};
use crate::analysis::sums::{Sum, UseCounts, sums};
use crate::options::{Math, Options, Target};
use crate::rewrite::Structure;
use wuji_ir::entities::{Inst, Region, Value};
use wuji_ir::module::{Env, Function};
use wuji_ir::ops::*;

/// Work of a loop, in units of cost, that is worth a task of its own.
const WORTH_A_TASK: u64 = 1 << 14;
/// The same on a GPU, where one thread is slow.
const WORTH_A_TASK_ON_GPU: u64 = 32;

/// A loop that becomes parallel.
pub(super) struct ParallelLoop {
    pub(super) inst: Inst,
    pub(super) sums: Vec<Sum>,
    /// Iterations from which on a task pays, if only the launch knows how many there are.
    pub(super) from: Option<u64>,
}

/// Serial code with loops that become parallel.
pub(super) struct Nest {
    /// An instruction of the entry region.
    pub(super) outer: Inst,
    pub(super) loops: Vec<ParallelLoop>,
}

impl Nest {
    pub(super) fn loops(&self) -> impl Iterator<Item = Inst> + '_ {
        self.loops.iter().map(|l| l.inst)
    }

    /// Whether the launch has to choose between serial and parallel loops.
    pub(super) fn is_versioned(&self) -> bool {
        self.loops.iter().all(|l| l.from.is_some())
    }
}

/// Finds the loops of one kernel.
pub(super) struct Candidates<'a> {
    env: &'a Env,
    f: &'a Function,
    options: &'a Options,
    structure: &'a Structure,
    affine: AffineAnalysis<'a>,
    uses: UseCounts,
    outer: Inst,
    found: Vec<ParallelLoop>,
    /// Loops with independent iterations that are not worth a task.
    short: Vec<Inst>,
}

/// The loops of a kernel that could be parallel.
#[derive(Default)]
pub(super) struct Found {
    pub(super) nests: Vec<Nest>,
    /// Loops with independent iterations that are not worth a task.
    pub(super) short: Vec<Inst>,
}

impl Candidates<'_> {
    pub(super) fn of(env: &Env, f: &Function, options: &Options) -> Found {
        let entry = &f.regions[f.entry].insts;
        let draws = f.insts_in(f.entry).any(|i| f.insts[i].op == Op::Random);
        let possible: Vec<Inst> = entry
            .iter()
            .copied()
            .filter(|i| can_be_split(f, *i, draws))
            .collect();
        if possible.is_empty() {
            return Found::default();
        }
        let structure = Structure::of(f);
        let mut all = Found::default();
        for outer in possible {
            let mut candidates = Candidates {
                env,
                f,
                options,
                structure: &structure,
                affine: AffineAnalysis::new(f, &structure),
                uses: UseCounts::of(f),
                outer,
                found: Vec::new(),
                short: Vec::new(),
            };
            for region in &f.insts[outer].regions {
                candidates.look_in(*region);
            }
            let loops = candidates.found;
            all.short.extend(candidates.short);
            if !loops.is_empty() {
                all.nests.push(Nest { outer, loops });
            }
        }
        all
    }

    fn look_in(&mut self, region: Region) {
        let f = self.f;
        for inst in &f.regions[region].insts {
            if let Op::For(..) = f.insts[*inst].op {
                if !counts_by_one(f, *inst) {
                    continue;
                }
                if let Some(sums) = self.independent(*inst) {
                    match self.pays(*inst) {
                        Some(from) => self.found.push(ParallelLoop {
                            inst: *inst,
                            sums,
                            from,
                        }),
                        None => self.short.push(*inst),
                    }
                    continue;
                }
            }
            for inner in &f.insts[*inst].regions {
                self.look_in(*inner);
            }
        }
    }

    /// The sums of a loop whose iterations are independent otherwise.
    fn independent(&mut self, inst: Inst) -> Option<Vec<Sum>> {
        let f = self.f;
        let reductions = if self.options.deterministic {
            Reductions::InOrder
        } else {
            Reductions::OfAnyElement
        };
        let accesses = Accesses::of(self.env, f, f.insts[inst].regions[0])?;
        let sums = sums(f, &self.uses, inst)?;
        let order = |sum: &Sum| self.in_any_order(f.insts[inst].args[3 + sum.number]);
        let independent = runs_to_its_end(f, inst)
            && sums.iter().all(order)
            && accesses.are_independent(&mut self.affine, inst, reductions);
        independent.then_some(sums)
    }

    /// Whether sums of this type may be computed in any order.
    fn in_any_order(&self, v: Value) -> bool {
        let scalars = self.env.structs.flatten(self.f.ty(v));
        let exact = scalars.iter().all(|s| !s.is_float());
        exact || !self.options.deterministic && self.options.math != Math::Strict
    }

    /// Whether a loop is worth a task: `Some(None)` if it is, `Some(Some(n))` if it has that many iterations.
    fn pays(&self, inst: Inst) -> Option<Option<u64>> {
        let f = self.f;
        let body = f.insts[inst].regions[0];
        let work = work(f, body).max(1);
        let enough = match self.options.target {
            Target::Cpu => WORTH_A_TASK,
            Target::Cuda => WORTH_A_TASK_ON_GPU,
        };
        let fewest = self.options.tasks_from.unwrap_or(enough).div_ceil(work);
        if let Some(n) = trips(f, inst) {
            return (n >= fewest).then_some(None);
        }
        if self.options.target == Target::Cuda {
            return Some(None);
        }
        let outside = |v: &Value| !self.is_inside_outer(*v);
        let known = f.insts[inst].args[..2].iter().all(outside);
        known.then_some(Some(fewest))
    }

    fn is_inside_outer(&self, v: Value) -> bool {
        let f = self.f;
        let regions = &f.insts[self.outer].regions;
        f.constant(v).is_none()
            && self
                .structure
                .def_region(f, v)
                .is_some_and(|d| regions.iter().any(|r| self.structure.is_inside(d, *r)))
    }
}

/// Whether an instruction of the entry region is control flow that may run between tasks.
fn can_be_split(f: &Function, inst: Inst, draws: bool) -> bool {
    let data = &f.insts[inst];
    let own = match data.op.control() {
        Some(ControlOp::Loop(_) | ControlOp::If | ControlOp::Block(_)) => true,
        Some(ControlOp::For(..)) => counts_by_one(f, inst),
        // Its iterations have numbers, unless nothing depends on them.
        Some(ControlOp::ForEach(_, Domain::Range { rank: 1 }, hints)) => hints.serial && !draws,
        Some(ControlOp::ForEach(..)) | None => false,
    };
    let numbered = matches!(data.op, Op::ForEach(..));
    let mut inside = data.regions.iter().flat_map(|r| f.insts_in(*r));
    own && !inside.any(|i| {
        let op = &f.insts[i].op;
        // Each task has variables and random numbers of its own.
        let local = op
            .access()
            .is_some_and(|a| matches!(a.place, Place::Local(_)));
        let checked = matches!(op, Op::Print(_) | Op::Assert(_));
        local || matches!(op, Op::Random | Op::Call(_)) || numbered && checked
    })
}

fn counts_by_one(f: &Function, inst: Inst) -> bool {
    let step = f.constant(f.insts[inst].args[2]);
    step.and_then(wuji_ir::types::Imm::as_int) == Some(1)
}
