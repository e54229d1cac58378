//! Simplifies a function in one walk from top to bottom.
//!
//! The walk folds constants and applies algebraic rules ([`fold`]), merges equal pure operations, hoists
//! invariant ones out of loops, forwards known contents of memory and drops overwritten stores
//! ([`memory`]), and flattens control flow with a single path ([`control`]). Dead code is removed at the
//! end. Every instruction is visited a bounded number of times.

mod control;
mod fold;
mod memory;
mod power;

use super::Cx;
use crate::options::{Bounds, Math};
use crate::rewrite::{Substitution, sweep_with_reads};
use cranelift_entity::{EntitySet, SecondaryMap};
use fold::{Fold, Folder};
use memory::{Memory, Spot, Writes};
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};
use wuji_ir::Result;
use wuji_ir::entities::*;
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{BOOL, Imm, Type};

/// Folds in a row that one instruction may go through.
const MAX_FOLDS: usize = 16;

/// The pass; the [module](self) describes it.
pub fn simplify(module: &mut Module, cx: &mut Cx) -> Result<()> {
    for f in module.funcs.values_mut() {
        // What the first walk uncovers is mostly found by a second one.
        for _ in 0..2 {
            let mut s = Simplifier::new(&module.env, f, cx);
            s.function();
            let again = s.again;
            sweep_with_reads(f, cx.options.check_reads);
            if !again {
                break;
            }
        }
    }
    Ok(())
}

/// Why a region is entered, as far as moving code out of it goes.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Kind {
    /// Runs again and again.
    Repeated,
    /// Runs once, as a part of what is around it.
    Once,
    /// Runs sometimes, or elsewhere: nothing moves out.
    Apart,
}

struct Frame {
    out: Vec<Inst>,
    /// Hashes entered into the table of known operations for this region.
    known: Vec<(u64, Inst)>,
    kind: Kind,
    /// Takes the place of the terminator: control never gets to the old one.
    term: Option<(Term, Span)>,
}

/// Terminators that leave through a label.
#[derive(Clone, Default)]
struct Exits {
    breaks: Vec<Region>,
    continues: Vec<Region>,
}

struct Simplifier<'a, 'c> {
    m: &'a Env,
    f: &'a mut Function,
    cx: &'a mut Cx<'c>,
    frames: Vec<Frame>,
    /// Number of the frame that a value is defined in.
    level: SecondaryMap<Value, u32>,
    substitution: Substitution,
    known: FxHashMap<u64, Inst>,
    /// Conditions that hold, or do not, where we are.
    facts: SecondaryMap<Value, Option<bool>>,
    memory: Memory,
    writes: SecondaryMap<Inst, Writes>,
    exits: SecondaryMap<Label, Exits>,
    removed: EntitySet<Inst>,
    /// A second walk is likely to find more.
    again: bool,
}

impl<'a, 'c> Simplifier<'a, 'c> {
    fn new(m: &'a Env, f: &'a mut Function, cx: &'a mut Cx<'c>) -> Simplifier<'a, 'c> {
        Simplifier {
            m,
            f,
            cx,
            frames: Vec::new(),
            level: SecondaryMap::new(),
            substitution: Substitution::new(),
            known: FxHashMap::default(),
            facts: SecondaryMap::new(),
            memory: Memory::default(),
            writes: SecondaryMap::new(),
            exits: SecondaryMap::new(),
            removed: EntitySet::new(),
            again: false,
        }
    }

    fn function(&mut self) {
        let entry = self.f.entry;
        self.summarize(entry);
        self.region(entry, Kind::Apart);
    }

    /// Collects what regions write, and their exits, bottom up.
    fn summarize(&mut self, region: Region) -> Writes {
        let mut all = Writes::default();
        for inst in self.f.regions[region].insts.clone() {
            all.add_op(&self.f.insts[inst].op);
            let regions = self.f.insts[inst].regions.clone();
            if !regions.is_empty() {
                let mut mine = Writes::default();
                for r in regions {
                    mine.merge(&self.summarize(r));
                }
                all.merge(&mine);
                self.writes[inst] = mine;
            }
        }
        match &self.f.regions[region].term {
            Term::Break(label, _) => self.exits[*label].breaks.push(region),
            Term::Continue(label, _) => self.exits[*label].continues.push(region),
            Term::Yield(_) | Term::Return(_) | Term::Unreachable => {}
        }
        all
    }

    /// Simplifies a region in place. Says whether control gets to its end.
    fn region(&mut self, region: Region, kind: Kind) -> bool {
        let insts = std::mem::take(&mut self.f.regions[region].insts);
        let level = self.frames.len() as u32;
        for p in self.f.regions[region].params.clone() {
            self.level[p] = level;
        }
        self.frames.push(Frame {
            out: Vec::with_capacity(insts.len()),
            known: Vec::new(),
            kind,
            term: None,
        });
        let mark = self.memory.mark();
        let ends = self.run(insts);
        self.memory.undo(mark);
        let Some(mut frame) = self.frames.pop() else {
            return ends;
        };
        for (hash, inst) in &frame.known {
            if self.known.get(hash) == Some(inst) {
                self.known.remove(hash);
            }
        }
        if !self.removed.is_empty() {
            frame.out.retain(|inst| !self.removed.contains(*inst));
        }
        self.f.regions[region].insts = frame.out;
        if let Some((term, span)) = frame.term {
            self.f.regions[region].term = term;
            self.f.regions[region].term_span = span;
        }
        self.substitution.apply_to_term(self.f, region);
        ends
    }

    /// Simplifies instructions into the current frame, until control leaves for good.
    fn run(&mut self, insts: Vec<Inst>) -> bool {
        for inst in insts {
            if !self.inst(inst) {
                let last = self.frames.len() - 1;
                let frame = &mut self.frames[last];
                if frame.term.is_none() {
                    frame.term = Some((Term::Unreachable, self.f.spans[inst]));
                }
                return false;
            }
        }
        true
    }

    /// Returns whether control continues with the next instruction.
    fn inst(&mut self, inst: Inst) -> bool {
        self.substitution.apply_to_inst(self.f, inst);
        match self.f.insts[inst].op.effect() {
            Effect::Pure => self.pure(inst),
            Effect::Reads => self.read(inst),
            Effect::Writes => self.write(inst),
            Effect::Control => return self.control(inst),
        }
        true
    }

    fn level_here(&self) -> usize {
        self.frames.len() - 1
    }

    /// Appends an instruction to the region of a frame.
    fn put(&mut self, inst: Inst, frame: usize) {
        for r in self.f.insts[inst].results.clone() {
            self.level[r] = frame as u32;
        }
        self.frames[frame].out.push(inst);
    }

    fn keep(&mut self, inst: Inst) {
        self.put(inst, self.level_here());
    }

    fn replace(&mut self, inst: Inst, by: Value) {
        let result = self.f.result(inst);
        self.substitution.set(result, by);
    }

    fn pure(&mut self, inst: Inst) {
        for _ in 0..MAX_FOLDS {
            match self.fold_once(inst) {
                Folded::To(value) => return self.replace(inst, value),
                Folded::Changed => {}
                Folded::No => break,
            }
        }
        let hash = self.hash(inst);
        if let Some(same) = self.known.get(&hash).copied()
            && self.is_same(same, inst)
            && self.cx.fuel()
        {
            return self.replace(inst, self.f.result(same));
        }
        let frame = self.frame_for(inst);
        self.put(inst, frame);
        self.known.insert(hash, inst);
        self.frames[frame].known.push((hash, inst));
    }

    fn folder(&self) -> Folder<'_> {
        Folder {
            f: self.f,
            fast: self.cx.options.math == Math::Fast && !self.f.traits.precise,
            options: &self.cx.options,
        }
    }

    fn fold_once(&mut self, inst: Inst) -> Folded {
        if let Some(value) = self.power(inst) {
            return Folded::To(value);
        }
        let data = &self.f.insts[inst];
        let Some(result) = data.results.first() else {
            return Folded::No;
        };
        let folder = self.folder();
        let fold = self
            .decide(&data.op, &data.args)
            .or_else(|| folder.fold(&data.op, &data.args, self.f.ty(*result)));
        let Some(fold) = fold else {
            return Folded::No;
        };
        if !self.cx.fuel() {
            return Folded::No;
        }
        let span = self.f.spans[inst];
        match fold {
            Fold::Value(v) => Folded::To(v),
            Fold::Const(ty, imm) => Folded::To(self.constant(ty, imm, span)),
            Fold::Op(op, args) => {
                self.f.insts[inst].op = op;
                self.f.insts[inst].args = args;
                Folded::Changed
            }
            Fold::OpConst(op, a, imm) => {
                let c = self.constant(self.f.ty(a), imm, span);
                self.f.insts[inst].op = op;
                self.f.insts[inst].args = [a, c].into_iter().collect();
                Folded::Changed
            }
        }
    }

    /// What conditions that are known here make of an operation.
    fn decide(&self, op: &Op, args: &[Value]) -> Option<Fold> {
        let fact = |k: usize| self.facts[args[k]].map(|holds| (holds, args[1 - k]));
        if *op == Op::Select {
            let holds = self.facts[args[0]]?;
            return Some(Fold::Value(args[if holds { 1 } else { 2 }]));
        }
        if *op == Op::Unary(UnOp::Not) {
            let holds = self.facts[args[0]]?;
            return Some(Fold::Const(BOOL, Imm::bool(!holds)));
        }
        let Op::Binary(junction @ (BinOp::And | BinOp::Or)) = *op else {
            return None;
        };
        // `true` decides `or`, `false` decides `and`.
        let (holds, other) = fact(0).or_else(|| fact(1))?;
        Some(if holds == (junction == BinOp::Or) {
            Fold::Const(BOOL, Imm::bool(holds))
        } else {
            Fold::Value(other)
        })
    }

    /// A constant in every component of a type.
    fn constant(&mut self, ty: Type, imm: Imm, span: Span) -> Value {
        let scalar = Type::Scalar(imm.ty);
        let v = self.emit(Op::Const(imm), Values::new(), scalar, span);
        if ty == scalar {
            return v;
        }
        self.emit(Op::Splat(ty), [v].into_iter().collect(), ty, span)
    }

    /// Adds a pure instruction at this point, simplified like any other.
    fn emit(&mut self, op: Op, args: Values, ty: Type, span: Span) -> Value {
        let inst = self.f.add_inst(op, args, &[ty], span);
        self.pure(inst);
        self.substitution.get(self.f.result(inst))
    }

    fn hash(&self, inst: Inst) -> u64 {
        let data = &self.f.insts[inst];
        let mut hasher = FxHasher::default();
        data.op.hash(&mut hasher);
        if self.commutes(inst) {
            data.args[0].max(data.args[1]).hash(&mut hasher);
            data.args[0].min(data.args[1]).hash(&mut hasher);
        } else {
            data.args.hash(&mut hasher);
        }
        hasher.finish()
    }

    fn commutes(&self, inst: Inst) -> bool {
        let data = &self.f.insts[inst];
        if let Op::Binary(op) = data.op {
            let elem = self.f.ty(data.args[0]).elem();
            return elem.is_some_and(|s| op.commutes(s));
        }
        matches!(data.op, Op::Compare(CmpOp::Eq | CmpOp::Ne))
    }

    /// Whether two pure instructions compute the same.
    fn is_same(&self, a: Inst, b: Inst) -> bool {
        let (x, y) = (&self.f.insts[a], &self.f.insts[b]);
        x.op == y.op
            && (x.args == y.args
                || (self.commutes(a) && x.args[0] == y.args[1] && x.args[1] == y.args[0]))
    }

    /// The outermost loop that a pure instruction does not depend on decides where it goes.
    fn frame_for(&mut self, inst: Inst) -> usize {
        let here = self.level_here();
        if let Op::Thread(_) = self.f.insts[inst].op {
            // Which threads there are is the loop's business.
            return here;
        }
        let needs = self.f.insts[inst]
            .args
            .iter()
            .map(|a| self.level[*a] as usize)
            .max()
            .unwrap_or(0);
        let (mut at, mut best) = (here, here);
        while at > needs {
            match self.frames[at].kind {
                Kind::Repeated => best = at - 1,
                Kind::Once => {}
                Kind::Apart => break,
            }
            at -= 1;
        }
        if best < here && !self.cx.fuel() {
            return here;
        }
        best
    }

    fn read(&mut self, inst: Inst) {
        let data = &self.f.insts[inst];
        let spot = if let Op::Load(access) = &data.op {
            Spot::of_access(access, &data.args)
        } else if let Op::MemLoad(space, ty) = data.op {
            Spot::of_bytes(space, ty, data.args[0])
        } else if let Op::TreeAccess(op, tree, node) = data.op {
            return self.find(inst, op, tree, node);
        } else {
            return self.keep(inst);
        };
        // Every place in the program that reads out of range is reported.
        let reported = self.cx.options.check_reads && data.op.is_checked_read(&data.args);
        if let Some(value) = self.memory.value(&spot)
            && !reported
            && self.cx.fuel()
        {
            return self.replace(inst, value);
        }
        let result = self.f.result(inst);
        self.memory.read(self.m, self.f, spot, result);
        self.keep(inst);
    }

    /// The result of a tree access is known when the cell was found or allocated before.
    fn find(&mut self, inst: Inst, op: TreeAccessOp, tree: Tree, node: Node) {
        let args = self.f.insts[inst].args.clone();
        let Some(spot) = Spot::of_walk(op, tree, node, &args) else {
            return self.keep(inst);
        };
        let ensured = Spot::of_walk(TreeAccessOp::Ensure, tree, node, &args);
        let known = ensured.and_then(|s| self.memory.value(&s));
        if let Some(value) = known.or_else(|| self.memory.value(&spot))
            && self.cx.fuel()
        {
            return self.replace(inst, value);
        }
        let result = self.f.result(inst);
        self.memory.note(spot, result);
        self.keep(inst);
    }

    /// A step that changes which cells there are.
    fn change_cells(&mut self, inst: Inst, op: TreeAccessOp, tree: Tree, node: Node) {
        let args = self.f.insts[inst].args.clone();
        let spot = Spot::of_walk(op, tree, node, &args);
        if let Some(value) = spot.as_ref().and_then(|s| self.memory.value(s))
            && self.cx.fuel()
        {
            if !self.f.insts[inst].results.is_empty() {
                self.replace(inst, value);
            }
            return;
        }
        let mut writes = Writes::default();
        writes.add_op(&self.f.insts[inst].op);
        self.memory.forget(self.m, &writes);
        if let Some(spot) = spot {
            let value = self.f.insts[inst].results.first().copied();
            self.memory.note(spot, value.unwrap_or(args[0]));
        }
        self.keep(inst);
    }

    /// Whether some cell on the way to a place can be absent.
    fn may_be_absent(&self, place: Place) -> bool {
        match place {
            Place::Field(f) => {
                let data = &self.m.fields[f];
                !self.m.trees[data.tree].sparse_path(data.node).is_empty()
            }
            Place::Array(_) | Place::Local(_) | Place::Temp(_) => false,
        }
    }

    /// Whether an access surely happens, so that what is stored can be read back.
    fn surely_inside(&self, access: &Access, indices: usize) -> bool {
        let inside = access.guard == Guard::InBounds
            || self.cx.options.bounds == Bounds::Unchecked
            || indices == 0;
        inside && !(access.activation == Activation::Never && self.may_be_absent(access.place))
    }

    /// Whether a load gives what was stored. Packed numbers are rounded, and they saturate or wrap.
    fn stores_exactly(&self, place: Place) -> bool {
        let Place::Field(field) = place else {
            return true;
        };
        let data = &self.m.fields[field];
        data.packing.is_none() || data.elem == BOOL
    }

    fn write(&mut self, inst: Inst) {
        let data = &self.f.insts[inst];
        match data.op.class() {
            OpClass::Access(AccessOp::Store, access) => {
                let (at, value) = data.args.split_at(data.args.len() - 1);
                let spot = Spot::of_access(access, at);
                let sure = self.surely_inside(access, at.len());
                // A store of what is there already may still activate the cell.
                let needed =
                    access.activation == Activation::IfAbsent && self.may_be_absent(access.place);
                let exact = self.stores_exactly(access.place);
                self.store(inst, spot, value[0], (sure, exact), needed);
            }
            OpClass::Memory(MemoryOp::MemStore(space)) => {
                let value = data.args[1];
                let spot = Spot::of_bytes(space, self.f.ty(value), data.args[0]);
                self.store(inst, spot, value, (true, true), false);
            }
            OpClass::Access(
                op @ (AccessOp::Load | AccessOp::Atomic(_) | AccessOp::CompareExchange),
                access,
            ) => {
                let at = &data.args[..data.args.len() - op.operands()];
                let spot = Spot::of_access(access, at);
                self.memory.write(self.m, self.f, spot, None, None);
                self.keep(inst);
            }
            OpClass::Memory(
                MemoryOp::MemAtomic(_, space, _) | MemoryOp::MemCompareExchange(space),
            ) => {
                let ty = self.f.ty(data.args[1]);
                let spot = Spot::of_bytes(space, ty, data.args[0]);
                self.memory.write(self.m, self.f, spot, None, None);
                self.keep(inst);
            }
            OpClass::Check(CheckOp::Assert(_)) => {
                let condition = data.args[0];
                if self.truth(condition) == Some(true) && self.cx.fuel() {
                    return;
                }
                // A failing one ends the iteration: earlier stores have to be there.
                self.memory.new_stretch();
                self.keep(inst);
            }
            OpClass::Check(CheckOp::CheckIndex(len)) => {
                let len = i128::from(len);
                let index = self.f.constant(data.args[0]).and_then(Imm::as_int);
                if index.is_some_and(|i| (0..len).contains(&i)) && self.cx.fuel() {
                    return;
                }
                self.keep(inst);
            }
            OpClass::TreeAccess(op, tree, node) => self.change_cells(inst, op, tree, node),
            // Other threads may have written in the meantime, and see earlier writes.
            OpClass::Thread(_) | OpClass::Cell(CellOp::Deactivate | CellOp::DeactivateChunk, _) => {
                let mut writes = Writes::default();
                writes.everything();
                self.memory.forget(self.m, &writes);
                self.memory.new_stretch();
                self.keep(inst);
            }
            // Random draws are counted, reports and prints are seen: all stay in order.
            OpClass::Random
            | OpClass::Check(CheckOp::Print(_) | CheckOp::Report(_))
            | OpClass::Cell(..)
            | OpClass::Hint(_)
            | OpClass::Memory(
                MemoryOp::MemLoad(..)
                | MemoryOp::LoadInterleaved(_)
                | MemoryOp::StoreInterleaved(_)
                | MemoryOp::AddInterleaved(_),
            )
            | OpClass::Constant(_)
            | OpClass::Elementwise(_)
            | OpClass::Component(_)
            | OpClass::Reduce(_)
            | OpClass::Algebra(_)
            | OpClass::Query(_)
            | OpClass::Control(_)
            | OpClass::Call(_) => self.keep(inst),
        }
    }

    fn store(
        &mut self,
        inst: Inst,
        spot: Spot,
        value: Value,
        (sure, exact): (bool, bool),
        needed: bool,
    ) {
        if sure && !needed && self.memory.value(&spot) == Some(value) && self.cx.fuel() {
            return;
        }
        if let Some(earlier) = self.memory.overwritten(&spot)
            && self.cx.fuel()
        {
            self.removed.insert(earlier);
        }
        let known = (sure && exact).then_some(value);
        self.memory.write(self.m, self.f, spot, known, Some(inst));
        self.keep(inst);
    }

    /// What is known of a condition here.
    fn truth(&self, condition: Value) -> Option<bool> {
        match self.f.constant(condition) {
            Some(imm) => imm.as_bool(),
            None => self.facts[condition],
        }
    }
}

enum Folded {
    To(Value),
    Changed,
    No,
}
