//! Jumps between tasks: a temp has the step that runs next, and tasks of earlier steps do nothing.

use super::carried::step_number;
use super::segments::{Exit, Segments, SerialSegment};
use super::split::{Split, store_temp};
use crate::rewrite::Map;
use rustc_hash::FxHashMap;
use wuji_ir::entities::{Func, Label, Region, Temp};
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{BOOL, I32};

/// The step of nothing: the kernel has ended.
const ENDED: u32 = i32::MAX as u32;

/// Writes the exits of a serial segment.
pub(super) struct Jumper<'a> {
    segments: &'a Segments,
    step: u32,
    next: Option<Temp>,
    result: Option<Temp>,
    /// Labels of the task's function that stand for loops and blocks around the segment.
    labels: FxHashMap<Label, Label>,
    /// The earliest step that is jumped back to.
    from: Option<u32>,
}

impl<'a> Jumper<'a> {
    pub(super) fn new(
        split: &Split<'a>,
        segment: &SerialSegment,
        g: &mut Function,
        map: &mut Map,
    ) -> Jumper<'a> {
        let mut labels = FxHashMap::default();
        for label in split.segments.jumps.keys() {
            let own = g.fresh_label();
            map.labels.insert(*label, own);
            labels.insert(own, *label);
        }
        let jumper = Jumper {
            segments: split.segments,
            step: segment.step,
            next: split.next,
            result: split.result,
            labels,
            from: None,
        };
        if split.segments.has_jumps() {
            // If an assertion fails, the kernel ends.
            let entry = g.entry;
            jumper.store(g, entry, ENDED);
        }
        jumper
    }

    /// The exit at the end of the segment.
    pub(super) fn end(&mut self, g: &mut Function, exit: &Exit, map: &Map) {
        if !self.segments.has_jumps() {
            return;
        }
        let entry = g.entry;
        match exit {
            Exit::Next => self.store(g, entry, self.step + 1),
            Exit::Jump(target) => {
                let step = self.segments.step_of(*target);
                self.goes_to(step);
                self.store(g, entry, step);
            }
            Exit::Branch {
                condition,
                otherwise,
            } => {
                let step = self.segments.step_of(*otherwise);
                let next = step_number(g, entry, self.step + 1);
                let other = step_number(g, entry, step);
                if let (Some(next), Some(other)) = (next, other) {
                    let args = [map.value(*condition), next, other].into_iter().collect();
                    let select = g.add_inst(Op::Select, args, &[I32], Span::UNKNOWN);
                    g.regions[entry].insts.push(select);
                    self.store_value(g, entry, g.result(select));
                }
            }
            Exit::Return(_) | Exit::End => {}
        }
    }

    /// Exits in nested regions store the step that is next, and the result.
    pub(super) fn leave_early(&mut self, g: &mut Function) {
        for r in g.walk_regions() {
            if r == g.entry {
                g.regions[r].term = Term::Return(Values::new());
                continue;
            }
            let step = match g.regions[r].term.clone() {
                Term::Return(values) => {
                    if let (Some(t), Some(v)) = (self.result, values.first()) {
                        store_temp(g, r, t, *v);
                    }
                    Some(ENDED)
                }
                Term::Break(l, _) => self.jumps_of(l).map(|j| self.segments.step_of(j.out)),
                Term::Continue(l, _) => {
                    let again = self.jumps_of(l).and_then(|j| j.again);
                    again.map(|target| self.segments.step_of(target))
                }
                Term::Yield(_) | Term::Unreachable => None,
            };
            if let Some(step) = step {
                self.goes_to(step);
                self.store(g, r, step);
                g.regions[r].term = Term::Return(Values::new());
            }
        }
    }

    pub(super) fn flow(&self) -> TaskFlow {
        let repeat = self.next.zip(self.from);
        TaskFlow {
            step: self.segments.flow_step(self.step),
            repeat: repeat.map(|(temp, from)| Repeat { temp, from }),
        }
    }

    fn jumps_of(&self, label: Label) -> Option<super::segments::Jumps> {
        let around = self.labels.get(&label)?;
        self.segments.jumps.get(around).copied()
    }

    fn goes_to(&mut self, step: u32) {
        if step <= self.step {
            self.from = Some(self.from.map_or(step, |from| from.min(step)));
        }
    }

    fn store(&self, g: &mut Function, region: Region, step: u32) {
        if let Some(v) = step_number(g, region, step) {
            self.store_value(g, region, v);
        }
    }

    fn store_value(&self, g: &mut Function, region: Region, v: wuji_ir::entities::Value) {
        if let Some(next) = self.next {
            store_temp(g, region, next, v);
        }
    }
}

/// Tasks of steps before the one that is next do nothing.
pub(super) fn skip_earlier_steps(m: &mut Module, next: Temp, first: usize) {
    let tasks: Vec<(Func, u32)> = (m.tasks.iter().skip(first))
        .map(|t| (t.func, t.flow.step))
        .collect();
    for (func, step) in tasks {
        let g = &mut m.funcs[func];
        let entry = g.entry;
        let body = std::mem::take(&mut g.regions[entry].insts);
        let load = Op::Load(Access::read(Place::Temp(next)));
        let load = g.add_inst(load, Values::new(), &[I32], Span::UNKNOWN);
        g.regions[entry].insts.push(load);
        let Some(own) = step_number(g, entry, step) else {
            continue;
        };
        let args = [g.result(load), own].into_iter().collect();
        let later = g.add_inst(Op::Compare(CmpOp::Gt), args, &[BOOL], Span::UNKNOWN);
        let condition = g.result(later);
        let branch = g.add_inst(Op::If, Values::from_slice(&[condition]), &[], Span::UNKNOWN);
        let (leave, stay) = (g.add_region(&[]), g.add_region(&[]));
        g.regions[leave].term = Term::Return(Values::new());
        g.regions[stay].term = Term::Yield(Values::new());
        g.insts[branch].regions.extend([leave, stay]);
        g.regions[entry].insts.extend([later, branch]);
        g.regions[entry].insts.extend(body);
    }
}
