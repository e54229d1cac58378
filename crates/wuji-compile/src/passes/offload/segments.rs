//! The segments of a kernel: serial code and parallel loops in the order of the program, and the jumps between them.

use rustc_hash::FxHashMap;
use wuji_ir::entities::{Inst, Label, Region, Value};
use wuji_ir::module::{Function, Term, Values};
use wuji_ir::ops::{ControlOp, Op};

/// What becomes a task.
pub(super) enum Segment {
    Serial(SerialSegment),
    Parallel { ordinal: u32, step: u32, inst: Inst },
}

pub(super) struct SerialSegment {
    pub(super) ordinal: u32,
    pub(super) step: u32,
    pub(super) insts: Vec<Inst>,
    pub(super) exit: Exit,
}

/// Where the kernel continues after a serial segment.
#[derive(Clone)]
pub(super) enum Exit {
    Next,
    Jump(JumpTarget),
    /// The next segment if the condition holds.
    Branch {
        condition: Value,
        otherwise: JumpTarget,
    },
    /// The end of the kernel from within control flow, with its result.
    Return(Values),
    /// The end of the kernel's body.
    End,
}

/// A place that is jumped to.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(super) struct JumpTarget(usize);

/// What the labels of a loop or block around parallel loops mean.
#[derive(Copy, Clone)]
pub(super) struct Jumps {
    pub(super) again: Option<JumpTarget>,
    pub(super) out: JumpTarget,
}

/// All segments of a kernel.
pub(super) struct Segments {
    pub(super) all: Vec<Segment>,
    /// The step of each target.
    targets: Vec<u32>,
    pub(super) jumps: FxHashMap<Label, Jumps>,
}

impl Segments {
    pub(super) fn of(f: &Function) -> Segments {
        let mut linear = Linear {
            f,
            out: Segments {
                all: Vec::new(),
                targets: Vec::new(),
                jumps: FxHashMap::default(),
            },
            open: Vec::new(),
            loops: 0,
            step: 0,
        };
        linear.region(f.entry);
        linear.close(Exit::End);
        linear.out
    }

    /// Whether several tasks may have the same ordinal.
    pub(super) fn share_ordinals(&self, f: &Function) -> bool {
        let uncounted = |s: &Segment| match s {
            Segment::Parallel { inst, .. } => is_uncounted(f, *inst),
            Segment::Serial(_) => false,
        };
        self.has_jumps() || self.all.iter().any(uncounted)
    }

    /// Whether there is control flow around parallel loops.
    pub(super) fn has_jumps(&self) -> bool {
        !self.targets.is_empty()
    }

    /// The step that a task of this number has. Where nothing is repeated, steps are of no use.
    pub(super) fn flow_step(&self, step: u32) -> u32 {
        if self.has_jumps() { step } else { 0 }
    }

    pub(super) fn step_of(&self, target: JumpTarget) -> u32 {
        self.targets[target.0]
    }
}

/// Whether an instruction is control flow around parallel loops.
pub(super) fn surrounds_loops(f: &Function, inst: Inst) -> bool {
    let mut regions = f.insts[inst].regions.iter();
    !is_foreach(f, inst) && regions.any(|r| f.insts_in(*r).any(|i| is_foreach(f, i)))
}

/// Whether a loop says that it belongs to the serial code around it.
fn is_uncounted(f: &Function, inst: Inst) -> bool {
    matches!(&f.insts[inst].op, Op::ForEach(.., hints) if hints.uncounted)
}

fn is_foreach(f: &Function, inst: Inst) -> bool {
    matches!(f.insts[inst].op, Op::ForEach(..))
}

struct Linear<'f> {
    f: &'f Function,
    out: Segments,
    /// Instructions of the next serial segment.
    open: Vec<Inst>,
    /// How many parallel loops have been counted so far.
    loops: u32,
    step: u32,
}

impl Linear<'_> {
    fn region(&mut self, region: Region) {
        let f = self.f;
        for &inst in &f.regions[region].insts {
            if is_foreach(f, inst) {
                self.close(Exit::Next);
                let own = u32::from(region == f.entry && !is_uncounted(f, inst));
                let step = self.next_step();
                self.out.all.push(Segment::Parallel {
                    // Loops below control flow belong to the serial code around them.
                    ordinal: 2 * self.loops + own,
                    step,
                    inst,
                });
                self.loops += own;
            } else if surrounds_loops(f, inst) {
                self.control(inst);
            } else {
                self.open.push(inst);
            }
        }
    }

    fn control(&mut self, inst: Inst) {
        let data = &self.f.insts[inst];
        let out = self.target();
        match data.op.control() {
            Some(ControlOp::If) => self.branch(inst, out),
            Some(ControlOp::Block(label)) => {
                self.out.jumps.insert(label, Jumps { again: None, out });
                self.region(data.regions[0]);
                self.end(data.regions[0], None);
            }
            Some(ControlOp::Loop(label)) => self.repeat(label, data.regions[0], out),
            // `carried` has rewritten counting loops, and nothing else surrounds parallel loops.
            Some(ControlOp::For(..) | ControlOp::ForEach(..)) | None => {}
        }
        self.close(Exit::Next);
        self.place(out);
    }

    fn branch(&mut self, inst: Inst, out: JumpTarget) {
        let f = self.f;
        let data = &f.insts[inst];
        let otherwise = self.target();
        self.close(Exit::Branch {
            condition: data.args[0],
            otherwise,
        });
        let [then, other] = [data.regions[0], data.regions[1]];
        let nothing =
            f.regions[other].insts.is_empty() && matches!(f.regions[other].term, Term::Yield(_));
        self.region(then);
        self.end(then, (!nothing).then_some(out));
        self.place(otherwise);
        self.region(other);
        self.end(other, None);
    }

    fn repeat(&mut self, label: Label, body: Region, out: JumpTarget) {
        let f = self.f;
        self.close(Exit::Next);
        let start = self.target();
        self.place(start);
        let regions = f.regions_in(body);
        let continues = regions
            .iter()
            .filter(|r| matches!(f.regions[**r].term, Term::Continue(l, _) if l == label))
            .count();
        // A loop has one jump back: others go to an empty segment at its end.
        let again = if continues > 1 { self.target() } else { start };
        let jumps = Jumps {
            again: Some(again),
            out,
        };
        self.out.jumps.insert(label, jumps);
        self.region(body);
        self.end(body, None);
        if again != start {
            self.place(again);
            self.close(Exit::Jump(start));
        }
    }

    /// Ends a region of control flow. If that yields, the kernel continues at `after`, or with the next segment.
    fn end(&mut self, region: Region, after: Option<JumpTarget>) {
        let jumps = |l: &Label| self.out.jumps.get(l).copied();
        let exit = match &self.f.regions[region].term {
            Term::Yield(_) => after.map_or(Exit::Next, Exit::Jump),
            Term::Break(l, _) => jumps(l).map_or(Exit::Next, |j| Exit::Jump(j.out)),
            Term::Continue(l, _) => {
                let again = jumps(l).and_then(|j| j.again);
                again.map_or(Exit::Next, Exit::Jump)
            }
            Term::Return(values) => Exit::Return(values.clone()),
            Term::Unreachable => Exit::Next,
        };
        self.close(exit);
    }

    /// Ends the serial segment, if there is any.
    fn close(&mut self, exit: Exit) {
        if self.open.is_empty() && matches!(exit, Exit::Next) {
            return;
        }
        let insts = std::mem::take(&mut self.open);
        let step = self.next_step();
        self.out.all.push(Segment::Serial(SerialSegment {
            ordinal: 2 * self.loops,
            step,
            insts,
            exit,
        }));
    }

    fn next_step(&mut self) -> u32 {
        let step = self.step;
        self.step += 1;
        step
    }

    fn target(&mut self) -> JumpTarget {
        self.out.targets.push(u32::MAX);
        JumpTarget(self.out.targets.len() - 1)
    }

    /// The next segment is what jumps to this target reach.
    fn place(&mut self, target: JumpTarget) {
        self.out.targets[target.0] = self.step;
    }
}
