//! Values that are used in another segment than their own.

use super::segments::{Exit, Segment};
use cranelift_entity::SecondaryMap;
use rustc_hash::{FxHashMap, FxHashSet};
use wuji_ir::entities::{Inst, Local, Region, Value};
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::{Error, Position, Result};

/// At most this many instructions are recomputed to avoid a temp.
const RECOMPUTE_LIMIT: usize = 64;

/// Values that are used in another segment than their own.
pub(super) struct Crossing {
    /// Values that can be recomputed anywhere, with the number of instructions.
    pub(super) recompute: SecondaryMap<Value, Option<u32>>,
    pub(super) handed_over: Vec<Value>,
}

impl Crossing {
    pub(super) fn find(f: &Function, segments: &[Segment]) -> Crossing {
        let mut recompute: SecondaryMap<Value, Option<u32>> = SecondaryMap::new();
        for p in f.params() {
            recompute[*p] = Some(0);
        }
        let mut home: FxHashMap<Value, usize> = FxHashMap::default();
        for (at, segment) in segments.iter().enumerate() {
            let Segment::Serial(serial) = segment else {
                continue;
            };
            for &inst in &serial.insts {
                let data = &f.insts[inst];
                for r in &data.results {
                    home.insert(*r, at);
                }
                if data.op.effect() == Effect::Pure {
                    let cost = data
                        .args
                        .iter()
                        .try_fold(1u32, |n, a| recompute[*a].and_then(|c| n.checked_add(c)));
                    for r in &data.results {
                        recompute[*r] = cost.filter(|c| *c as usize <= RECOMPUTE_LIMIT);
                    }
                }
            }
        }
        let mut crossing = Crossing {
            recompute,
            handed_over: Vec::new(),
        };
        let mut seen = FxHashSet::default();
        for (at, segment) in segments.iter().enumerate() {
            crossing.each_use(f, segment, &mut |v| {
                if home.get(&v).is_some_and(|h| *h != at) && crossing.recompute[v].is_none() {
                    seen.insert(v);
                }
            });
        }
        let mut handed: Vec<Value> = seen.into_iter().collect();
        handed.sort();
        crossing.handed_over = handed;
        crossing
    }

    /// Every value that a segment mentions, including its own definitions.
    fn each_use(&self, f: &Function, segment: &Segment, visit: &mut impl FnMut(Value)) {
        match segment {
            Segment::Serial(serial) => {
                serial.insts.iter().for_each(|i| uses_in(f, *i, visit));
                match &serial.exit {
                    Exit::Next | Exit::Jump(_) => {}
                    Exit::Branch { condition, .. } => visit(*condition),
                    Exit::Return(values) => values.iter().for_each(|v| visit(*v)),
                    Exit::End => {
                        let returned = f.regions[f.entry].term.args().iter();
                        returned.for_each(|v| visit(*v));
                    }
                }
            }
            Segment::Parallel { inst, .. } => {
                for r in &f.insts[*inst].regions {
                    uses_in_region(f, *r, visit);
                }
            }
        }
    }

    /// A local array must be used in one task only.
    pub(super) fn check_local_arrays(
        &self,
        m: &Env,
        f: &Function,
        segments: &[Segment],
    ) -> Result<()> {
        let mut home: FxHashMap<Local, usize> = FxHashMap::default();
        for (at, segment) in segments.iter().enumerate() {
            let mut bad = None;
            let mut visit = |inst: Inst| {
                if let Some(Access {
                    place: Place::Local(l),
                    ..
                }) = f.insts[inst].op.access()
                    && *home.entry(*l).or_insert(at) != at
                {
                    bad.get_or_insert((*l, inst));
                }
            };
            match segment {
                Segment::Serial(serial) => {
                    (serial.insts.iter()).for_each(|i| each_inst(f, *i, &mut visit));
                }
                Segment::Parallel { inst, .. } => each_inst(f, *inst, &mut visit),
            }
            if let Some((l, inst)) = bad {
                return Err(Error::new(
                    "W0310",
                    format!(
                        "the local array `{}` is used inside and outside of a parallel loop",
                        f.locals[l].name
                    ),
                )
                .at(Position::of(m, f.spans[inst]))
                .note("every iteration of a parallel loop has local arrays of its own")
                .help(
                    "declare it inside the loop, or use a field to share data between iterations",
                ));
            }
        }
        Ok(())
    }
}

pub(super) fn uses_in(f: &Function, inst: Inst, visit: &mut impl FnMut(Value)) {
    f.insts[inst].args.iter().for_each(|v| visit(*v));
    for r in &f.insts[inst].regions {
        uses_in_region(f, *r, visit);
    }
}

pub(super) fn uses_in_region(f: &Function, region: Region, visit: &mut impl FnMut(Value)) {
    for inst in &f.regions[region].insts {
        uses_in(f, *inst, visit);
    }
    f.regions[region].term.args().iter().for_each(|v| visit(*v));
}

pub(super) fn each_inst(f: &Function, inst: Inst, visit: &mut impl FnMut(Inst)) {
    visit(inst);
    for r in &f.insts[inst].regions {
        for i in &f.regions[*r].insts {
            each_inst(f, *i, visit);
        }
    }
}
