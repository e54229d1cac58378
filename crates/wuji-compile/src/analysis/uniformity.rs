//! Uniformity analysis: values and control flow that are the same for all threads of a block or of a warp.
//!
//! Every value has a [`Uniformity`], and so does control flow: where it is divergent. A thread that returns from
//! the function has exited and is not waited for, so `return` does not cause divergence.

use cranelift_entity::SecondaryMap;
use rustc_hash::{FxHashMap, FxHashSet};
use wuji_ir::entities::{Inst, Label, Local, Region, Tree, Value};
use wuji_ir::module::{Bound, Env, Function, Module, Task, TaskKind, Term};
use wuji_ir::ops::*;
use wuji_ir::types::Imm;

/// The set of threads in which a value or control flow is the same.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Uniformity {
    /// The same for all threads of a block.
    #[default]
    Block,
    /// The same for all threads of a warp.
    Warp,
    /// May differ from thread to thread.
    Thread,
}

/// A cooperative operation in divergent control flow.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Divergence {
    /// The instruction.
    pub inst: Inst,
    /// The branch or loop that diverges.
    pub by: Inst,
}

/// Finds a cooperative operation in divergent control flow, in a task whose function is one iteration.
pub fn find_divergence(m: &Module, task: &Task) -> Option<Divergence> {
    let mut walk = Walk::new(m, task);
    for (p, index) in own_params(m, task).iter().zip(indices(m, task)) {
        walk.uniformity[*p] = index.uniformity;
        if let Some(run) = index.run {
            walk.counters.insert(*p, run);
        }
    }
    walk.finish();
    walk.found
}

/// The uniformity of all values of a task whose function takes chunks, each of them by one thread.
pub fn of_values(m: &Module, task: &Task) -> SecondaryMap<Value, Uniformity> {
    let mut walk = Walk::new(m, task);
    for p in own_params(m, task) {
        walk.uniformity[*p] = Uniformity::Thread;
    }
    walk.finish();
    walk.uniformity
}

/// The parameters of a task's function that are not those of the kernel.
fn own_params<'a>(m: &'a Module, task: &Task) -> &'a [Value] {
    let params = m.funcs[task.func].params();
    params.get(m.params.len()..).unwrap_or_default()
}

/// An index of a parallel loop.
#[derive(Copy, Clone)]
struct Index {
    uniformity: Uniformity,
    /// If consecutive threads have consecutive indices: the aligned runs of threads.
    run: Option<Run>,
}

/// Values that count threads: those of an aligned run lie between two multiples of its length.
#[derive(Copy, Clone)]
struct Run {
    /// The length of a run, if a block (or a warp) is one.
    block: Option<i128>,
    warp: bool,
}

/// Properties of the indices of a loop.
fn indices(m: &Env, task: &Task) -> Vec<Index> {
    let (dims, hints): (Vec<(Option<i128>, Option<i128>)>, LoopHints) = match &task.kind {
        TaskKind::Range { dims, hints } => {
            let known = dims.iter().map(|d| match (d.lo, d.hi) {
                (Bound::Const(lo), Bound::Const(hi)) => {
                    (Some(lo.into()), Some(i128::from(hi) - i128::from(lo)))
                }
                (Bound::Const(lo), _) => (Some(lo.into()), None),
                _ => (None, None),
            });
            (known.collect(), *hints)
        }
        // In memory order, which is index order for one axis.
        TaskKind::Cells { field, hints } if m.fields[*field].rank() == 1 => {
            let domain = m.fields[*field].domain(&m.trees);
            let known = domain.iter().map(|d| (Some(d.0.into()), Some(d.1.into())));
            (known.collect(), *hints)
        }
        TaskKind::Cells { field, hints } => (vec![(None, None); m.fields[*field].rank()], *hints),
        TaskKind::Serial | TaskKind::Chunks { .. } => return Vec::new(),
    };
    let threads = i128::from(hints.threads());
    let warp = i128::from(WARP);
    let whole = threads % warp == 0;
    let uniformity = |inner: Option<i128>| match inner {
        Some(n) if n > 0 && n % threads == 0 => Uniformity::Block,
        Some(n) if n > 0 && n % warp == 0 && whole => Uniformity::Warp,
        _ => Uniformity::Thread,
    };
    let mut out = Vec::new();
    for k in 0..dims.len() {
        let inner = dims[k + 1..].iter();
        let inner = inner.map(|d| d.1).try_fold(1i128, |n, e| n.checked_mul(e?));
        let (lo, extent) = dims[k];
        // Each row of the last axis begins with a new block.
        let lines = |n: i128| k == 0 || extent.is_some_and(|e| e % n == 0);
        let from = |n: i128| lo.is_some_and(|lo| lo >= 0 && lo % n == 0);
        let last = k + 1 == dims.len();
        let run = Run {
            block: (last && lines(threads) && from(threads)).then_some(threads),
            warp: last && whole && lines(warp) && from(warp),
        };
        out.push(Index {
            uniformity: uniformity(inner),
            run: (run.block.is_some() || run.warp).then_some(run),
        });
    }
    out
}

/// Memory that loads and stores at offsets access.
#[derive(Copy, Clone, PartialEq, Eq, Hash)]
enum Memory {
    Tree(Tree),
    /// Arrays may overlap.
    Arrays,
    Temps,
}

impl Memory {
    fn of(space: Space) -> Memory {
        match space {
            Space::Tree(tree, _)
            | Space::Nodes(tree)
            | Space::Bytes(tree)
            | Space::Streamed(tree)
            | Space::Private(tree, _) => Memory::Tree(tree),
            Space::Array(_) => Memory::Arrays,
            Space::Temps => Memory::Temps,
        }
    }
}

/// The memory that a lowered function or its callees write to.
fn written_memory(m: &Module, f: &Function) -> FxHashSet<Memory> {
    let callees = m.called_from(f).into_iter().map(|g| &m.funcs[g]);
    let written = |f: &Function, inst: Inst| f.insts[inst].op.written_space().map(Memory::of);
    std::iter::once(f)
        .chain(callees)
        .flat_map(|f| f.insts_in(f.entry).filter_map(move |inst| written(f, inst)))
        .collect()
}

/// The places that a function or its callees write to.
fn written(m: &Module, f: &Function) -> FxHashSet<Place> {
    let mut places = FxHashSet::default();
    let mut array = false;
    let callees = m.called_from(f).into_iter().map(|g| &m.funcs[g]);
    for f in std::iter::once(f).chain(callees) {
        f.walk(|inst| {
            if let Some(a) = f.insts[inst].op.written_access() {
                array |= matches!(a.place, Place::Array(_));
                places.insert(a.place);
            }
        });
    }
    if array {
        // Overlapping arrays cannot be distinguished.
        let overlapping = m.arrays.iter().filter(|(_, d)| !d.unaliased);
        places.extend(overlapping.map(|(a, _)| Place::Array(a)));
    }
    places
}

/// The uniformity of control flow at a point, and the branch that diverged.
#[derive(Copy, Clone, Debug, Default)]
struct Control {
    uniformity: Uniformity,
    by: Option<Inst>,
}

impl Control {
    fn and(self, uniformity: Uniformity, by: Inst) -> Control {
        if uniformity > self.uniformity {
            Control {
                uniformity,
                by: Some(by),
            }
        } else {
            self
        }
    }

    fn join(self, other: Control) -> Control {
        if other.uniformity > self.uniformity {
            other
        } else {
            self
        }
    }
}

/// A loop or block that is being analyzed.
struct Open {
    label: Label,
    inst: Inst,
    /// Uniformity inside: some of the threads that entered may have left.
    control: Control,
    /// Uniformity where it was entered.
    outside: Uniformity,
}

struct Walk<'a> {
    f: &'a Function,
    written: FxHashSet<Place>,
    written_memory: FxHashSet<Memory>,
    /// Values that count threads.
    counters: FxHashMap<Value, Run>,
    uniformity: SecondaryMap<Value, Uniformity>,
    /// The uniformity of what is stored in private arrays.
    locals: FxHashMap<Local, Uniformity>,
    /// The divergence of exits: threads leave a loop in different iterations.
    left: FxHashMap<Label, Control>,
    open: Vec<Open>,
    /// The branches whose regions yield here.
    yielded: Vec<Inst>,
    changed: bool,
    found: Option<Divergence>,
}

impl<'a> Walk<'a> {
    fn new(m: &'a Module, task: &Task) -> Walk<'a> {
        let f = &m.funcs[task.func];
        Walk {
            f,
            counters: FxHashMap::default(),
            written: written(m, f),
            written_memory: written_memory(m, f),
            uniformity: SecondaryMap::new(),
            locals: FxHashMap::default(),
            left: FxHashMap::default(),
            open: Vec::new(),
            yielded: Vec::new(),
            changed: true,
            found: None,
        }
    }

    /// The analysis is monotonic, so this terminates.
    fn finish(&mut self) {
        while std::mem::replace(&mut self.changed, false) {
            self.found = None;
            self.region(self.f.entry, Control::default());
        }
    }

    fn of(&self, values: &[Value]) -> Uniformity {
        values
            .iter()
            .map(|v| self.uniformity[*v])
            .max()
            .unwrap_or_default()
    }

    fn raise(&mut self, value: Value, uniformity: Uniformity) {
        if uniformity > self.uniformity[value] {
            self.uniformity[value] = uniformity;
            self.changed = true;
        }
    }

    fn region(&mut self, region: Region, outer: Control) {
        let data = &self.f.regions[region];
        for inst in &data.insts {
            // Other threads may have left an enclosing loop or block by now.
            let here = self.open.iter().fold(outer, |c, o| c.join(o.control));
            self.inst(*inst, here);
        }
        let here = self.open.iter().fold(outer, |c, o| c.join(o.control));
        match &data.term {
            Term::Yield(values) => {
                if let Some(inst) = self.yielded.last().copied() {
                    for (k, v) in values.iter().enumerate() {
                        let result = self.f.insts[inst].results[k];
                        self.raise(result, self.uniformity[*v]);
                    }
                }
            }
            Term::Break(label, values) => self.leave(*label, values, here, true),
            Term::Continue(label, values) => self.leave(*label, values, here, false),
            Term::Return(_) | Term::Unreachable => {}
        }
    }

    fn leave(&mut self, label: Label, values: &[Value], here: Control, breaks: bool) {
        let Some(at) = self.open.iter().position(|o| o.label == label) else {
            // The iteration ends, and so does the thread.
            return;
        };
        let (inst, outside) = (self.open[at].inst, self.open[at].outside);
        let data = &self.f.insts[inst];
        let divergent = here.uniformity > outside;
        let targets: Vec<Value> = if breaks {
            data.results.to_vec()
        } else {
            let index = usize::from(matches!(data.op, Op::For(..)));
            self.f.regions[data.regions[0]].params[index..].to_vec()
        };
        for (target, v) in targets.iter().zip(values) {
            let own = self.uniformity[*v];
            self.raise(
                *target,
                if divergent {
                    own.max(here.uniformity)
                } else {
                    own
                },
            );
        }
        if !divergent {
            return;
        }
        self.open[at].control = self.open[at].control.join(here);
        if breaks {
            let left = self.left.entry(label).or_default();
            if here.uniformity > left.uniformity {
                *left = here;
                self.changed = true;
            }
        }
    }

    fn inst(&mut self, inst: Inst, here: Control) {
        let f = self.f;
        let data = &f.insts[inst];
        let args = self.of(&data.args);
        match data.op.control() {
            Some(ControlOp::If) => {
                let condition = self.uniformity[data.args[0]];
                let sides = &data.regions;
                self.yielded.push(inst);
                for side in sides {
                    self.region(*side, here.and(condition, inst));
                }
                self.yielded.pop();
                for (k, r) in data.results.iter().enumerate() {
                    if self.differs(sides, k) {
                        self.raise(*r, condition);
                    }
                }
            }
            Some(ControlOp::Block(label)) => {
                self.yielded.push(inst);
                self.within(label, inst, here, Control::default());
                self.yielded.pop();
            }
            Some(ControlOp::Loop(label)) => {
                for (p, a) in f.regions[data.regions[0]].params.iter().zip(&data.args) {
                    self.raise(*p, self.uniformity[*a]);
                }
                let left = self.left.get(&label).copied().unwrap_or_default();
                self.within(label, inst, here, left);
                for r in &data.results {
                    self.raise(*r, left.uniformity);
                }
            }
            Some(ControlOp::For(label, _)) => {
                let bounds = self.of(&data.args[..3]);
                let params = &f.regions[data.regions[0]].params;
                self.raise(params[0], self.of(&[data.args[0], data.args[2]]));
                for (p, a) in params[1..].iter().zip(&data.args[3..]) {
                    self.raise(*p, self.uniformity[*a]);
                }
                let left = self.left.get(&label).copied().unwrap_or_default();
                let left = left.and(bounds, inst);
                self.within(label, inst, here, left);
                let carried = data.args[3..].iter().zip(&params[1..]);
                for (r, (a, p)) in data.results.iter().zip(carried) {
                    let last = self.uniformity[*a].max(self.uniformity[*p]);
                    self.raise(*r, last.max(left.uniformity));
                }
            }
            Some(ControlOp::ForEach(..)) | None => {
                let op = &data.op;
                if let Op::Thread(together) = op {
                    self.look(inst, *together, here);
                }
                if let Op::Store(a) = op
                    && let Place::Local(l) = a.place
                {
                    let stored = args.max(here.uniformity);
                    let now = self.locals.entry(l).or_default();
                    if stored > *now {
                        *now = stored;
                        self.changed = true;
                    }
                }
                let own = self.result(op, &data.args, args);
                for r in &data.results {
                    self.raise(*r, own);
                }
            }
        }
    }

    /// Whether the sides of a branch yield different values.
    fn differs(&self, sides: &[Region], k: usize) -> bool {
        let mut given = sides.iter().filter_map(|s| match &self.f.regions[*s].term {
            Term::Yield(values) => Some(values[k]),
            _ => None,
        });
        match (given.next(), given.next()) {
            (Some(a), Some(b)) => a != b,
            _ => false,
        }
    }

    fn within(&mut self, label: Label, inst: Inst, here: Control, left: Control) {
        self.open.push(Open {
            label,
            inst,
            control: left,
            outside: here.uniformity,
        });
        self.region(self.f.insts[inst].regions[0], here);
        self.open.pop();
    }

    fn look(&mut self, inst: Inst, op: ThreadOp, here: Control) {
        let allowed = match op.party() {
            Party::Thread => Uniformity::Thread,
            Party::Warp => Uniformity::Warp,
            Party::Block => Uniformity::Block,
        };
        if here.uniformity > allowed
            && let Some(by) = here.by
            && self.found.is_none()
        {
            self.found = Some(Divergence { inst, by });
        }
    }

    /// The uniformity of the results of an operation.
    fn result(&self, op: &Op, args: &[Value], given: Uniformity) -> Uniformity {
        // All lanes get the value of one lane.
        if *op == Op::Thread(ThreadOp::Shuffle(Shuffle::From))
            && self.uniformity[args[1]] <= Uniformity::Warp
        {
            return Uniformity::Warp;
        }
        match op.info().uniform {
            Uniform::PerBlock => Uniformity::Block,
            Uniform::PerWarp => Uniformity::Warp,
            Uniform::PerThread => Uniformity::Thread,
            Uniform::OfMemory => self.loaded(op, given),
            Uniform::OfArguments => given.min(self.quotient(op, args)),
        }
    }

    /// The uniformity of a loaded value.
    fn loaded(&self, op: &Op, given: Uniformity) -> Uniformity {
        match op.access().map(|a| a.place) {
            Some(Place::Local(l)) if self.f.locals[l].shared => Uniformity::Thread,
            Some(Place::Local(l)) => given.max(self.locals.get(&l).copied().unwrap_or_default()),
            Some(place) if self.written.contains(&place) => Uniformity::Thread,
            Some(Place::Field(_) | Place::Array(_) | Place::Temp(_)) => given,
            None => match op.space().map(Memory::of) {
                Some(memory) if !self.written_memory.contains(&memory) => given,
                Some(_) | None => Uniformity::Thread,
            },
        }
    }

    /// Warp and block indices, and comparisons that they decide.
    fn quotient(&self, op: &Op, args: &[Value]) -> Uniformity {
        let by = if let Op::Binary(BinOp::Div) | Op::Compare(CmpOp::Lt | CmpOp::Ge) = op {
            self.number(args[1])
        } else if let Op::Compare(CmpOp::Le | CmpOp::Gt) = op {
            self.number(args[1]).map(|n| n + 1)
        } else if let Op::Binary(BinOp::Shr) = op {
            let amount = self.number(args[1]).filter(|n| (0..31).contains(n));
            amount.map(|n| 1 << n)
        } else {
            return Uniformity::Thread;
        };
        self.runs(args[0], by)
    }

    /// A thread counter, in any integer type that can hold it.
    fn counter(&self, v: Value) -> Option<Run> {
        if let Some(run) = self.counters.get(&v) {
            return Some(*run);
        }
        let data = &self.f.insts[self.f.def(v)?];
        if data.op == Op::Thread(ThreadOp::Index) {
            return Some(Run {
                block: None,
                warp: true,
            });
        }
        let Op::Convert(to) = data.op else {
            return None;
        };
        let wide = to.is_int() && to.bits() >= 32;
        wide.then(|| self.counter(data.args[0])).flatten()
    }

    fn number(&self, v: Value) -> Option<i128> {
        self.f.constant(v).and_then(Imm::as_int)
    }

    /// The uniformity of a thread counter divided by a number.
    fn runs(&self, v: Value, by: Option<i128>) -> Uniformity {
        let (Some(run), Some(by)) = (self.counter(v), by.filter(|n| *n > 0)) else {
            return Uniformity::Thread;
        };
        if run.block.is_some_and(|threads| by % threads == 0) {
            return Uniformity::Block;
        }
        if run.warp && by % i128::from(WARP) == 0 {
            Uniformity::Warp
        } else {
            Uniformity::Thread
        }
    }
}
