//! Groups units by structure and level.
//!
//! The structure of a unit is written down as a list of numbers, its *code*: instructions in the order of evaluation, whose operands
//! are earlier instructions or leaves. Units with equal codes are members of one group. Codes are found by their hash and then
//! compared, so a collision of hashes has no effect.

use super::Options;
use super::balance::chain;
use super::decompose::{Home, Root, Units};
use crate::arena::{Id, mix};
use crate::hash::{finish, structural_step};
use crate::op::Op;
use crate::trace::Trace;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Where a leaf is loaded from.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Source {
    Constant,
    Input(u32),
    Intermediate,
    Output(u32),
}

impl Source {
    fn number(self) -> u32 {
        match self {
            Source::Constant => 0,
            Source::Intermediate => 1,
            Source::Input(array) => 2 + 2 * array,
            Source::Output(array) => 3 + 2 * array,
        }
    }

    fn from_number(number: u32) -> Source {
        match number {
            0 => Source::Constant,
            1 => Source::Intermediate,
            n if n % 2 == 0 => Source::Input((n - 2) / 2),
            n => Source::Output((n - 3) / 2),
        }
    }

    pub(super) fn of(home: Home) -> Source {
        match home {
            Home::Intermediate => Source::Intermediate,
            Home::Output { array, .. } => Source::Output(array),
        }
    }
}

/// An operand of an instruction in a code.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Operand {
    Instruction(u32),
    /// Leaves are numbered in the order in which they appear.
    Leaf(Source),
}

const LEAF: u32 = 1 << 31;

impl Operand {
    fn number(self) -> u32 {
        match self {
            Operand::Instruction(n) => n,
            Operand::Leaf(source) => LEAF | source.number(),
        }
    }

    fn from_number(number: u32) -> Operand {
        if number & LEAF == 0 {
            return Operand::Instruction(number);
        }
        Operand::Leaf(Source::from_number(number & !LEAF))
    }
}

/// One step of a code.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    Compute(Op, SmallVec<[Operand; 4]>),
    /// Stores a root.
    Store(Source, Operand),
}

/// The number that begins a store in a code; operations are smaller.
const STORE: u32 = 255;

/// Units of the same structure and level.
#[derive(Clone, Debug)]
pub struct Group {
    pub level: u32,
    pub code: Vec<u32>,
    pub units: Vec<u32>,
}

impl Group {
    /// The steps of its code.
    pub fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut rest = self.code.iter().copied();
        while let Some(head) = rest.next() {
            if head & 255 == STORE {
                let operand = Operand::from_number(rest.next().unwrap_or(0));
                steps.push(Step::Store(Source::from_number(head >> 8), operand));
            } else {
                let op = Op::from_code(head as u8).unwrap_or(Op::Const);
                let operands = rest.by_ref().take((head >> 8) as usize);
                let operands = operands.map(Operand::from_number).collect();
                steps.push(Step::Compute(op, operands));
            }
        }
        steps
    }
}

/// Groups all units.
pub fn group(trace: &Trace, units: &Units, options: &Options) -> Vec<Group> {
    let mut encoder = Encoder::new(trace, units, options);
    let mut groups: Vec<Group> = Vec::new();
    // Groups with the same hash are a list, because hashes collide.
    let mut found: FxHashMap<(u32, u64), SmallVec<[u32; 1]>> = FxHashMap::default();
    for unit in 0..units.len() {
        encoder.encode(units.roots(unit));
        let hash = encoder.code.iter().fold(7, |h, n| mix(h ^ u64::from(*n)));
        let level = units.levels[unit];
        let same = found.entry((level, hash & options.hash_mask)).or_default();
        let known = same
            .iter()
            .find(|g| groups[**g as usize].code == encoder.code);
        match known {
            Some(group) => groups[*group as usize].units.push(unit as u32),
            None => {
                same.push(groups.len() as u32);
                groups.push(Group {
                    level,
                    code: encoder.code.clone(),
                    units: vec![unit as u32],
                });
            }
        }
    }
    // Stable: groups of a level are in the order of their first members.
    groups.sort_by_key(|g| g.level);
    groups
}

/// Writes down the codes and leaves of units.
pub(super) struct Encoder<'a> {
    trace: &'a Trace,
    units: &'a Units,
    merge_chains: bool,
    /// Hashes of structures, with loaded nodes as leaves.
    hashes: Vec<u64>,
    /// Numbers of instructions of the current unit.
    numbers: FxHashMap<Id, u32>,
    pub(super) code: Vec<u32>,
    pub(super) leaves: Vec<Id>,
}

impl<'a> Encoder<'a> {
    pub(super) fn new(trace: &'a Trace, units: &'a Units, options: &Options) -> Encoder<'a> {
        let mut encoder = Encoder {
            trace,
            units,
            merge_chains: options.merge_chains,
            hashes: Vec::with_capacity(trace.arena.len()),
            numbers: FxHashMap::default(),
            code: Vec::new(),
            leaves: Vec::new(),
        };
        // The column of a chain is the sum over its terms; that of everything else is the hash itself.
        for id in trace.arena.ids() {
            let op = trace.arena.op(id);
            let operands: SmallVec<[u64; 2]> = (trace.arena.children(id))
                .map(|c| encoder.hash_in(op, c))
                .collect();
            encoder.hashes.push(structural_step(op, &operands));
        }
        encoder
    }

    /// The hash of a node as an operand of an operation.
    fn hash_in(&self, op: Op, child: Id) -> u64 {
        if self.continues(op, child) {
            return self.hashes[child.at()];
        }
        self.hash(child)
    }

    fn hash(&self, id: Id) -> u64 {
        match self.leaf(id) {
            Some(source) => mix(u64::from(source.number()) + 1000),
            None => finish(self.trace.arena.op(id), self.hashes[id.at()]),
        }
    }

    /// Whether a node is a part of the chain that uses it.
    fn continues(&self, op: Op, child: Id) -> bool {
        self.merge_chains
            && op.is_chain()
            && self.trace.arena.op(child) == op
            && self.units.references[child.at()] == 1
            && !self.units.loaded[child.at()]
    }

    /// Where a node is loaded from; `None` if it is computed.
    fn leaf(&self, id: Id) -> Option<Source> {
        let (op, a, _) = self.trace.arena.raw(id);
        if op == Op::Const {
            return Some(Source::Constant);
        }
        if op == Op::Input {
            return Some(Source::Input(a));
        }
        self.units.loaded[id.at()].then(|| Source::of(self.units.home(id)))
    }

    /// The operands of a node, in canonical order.
    fn operands(&self, id: Id) -> SmallVec<[Id; 4]> {
        let arena = &self.trace.arena;
        let op = arena.op(id);
        let mut operands: SmallVec<[Id; 4]> = if op.is_chain() && self.merge_chains {
            SmallVec::from_vec(chain(arena, id, |child| self.continues(op, child)))
        } else {
            arena.children(id).collect()
        };
        if op.commutes() {
            // Stable: terms of the same structure stay in the order of the program.
            operands.sort_by_key(|o| self.hash(*o));
        }
        operands
    }

    /// Writes down the code and the leaves of a unit.
    pub(super) fn encode(&mut self, roots: &[Root]) {
        self.numbers.clear();
        self.code.clear();
        self.leaves.clear();
        for root in roots {
            let operand = if self.trace.arena.op(root.node).is_leaf() {
                self.leaves.push(root.node);
                let source = self.leaf(root.node);
                Operand::Leaf(source.unwrap_or(Source::Constant))
            } else {
                Operand::Instruction(self.compute(root.node))
            };
            let head = STORE | Source::of(root.home).number() << 8;
            self.code.extend([head, operand.number()]);
        }
    }

    /// Writes down the instructions of a node and what it needs. Chains are deep, so there is a stack instead of a recursion.
    fn compute(&mut self, root: Id) -> u32 {
        struct Frame {
            id: Id,
            operands: SmallVec<[Id; 4]>,
            next: usize,
        }
        let frame = |encoder: &Self, id: Id| Frame {
            id,
            operands: encoder.operands(id),
            next: 0,
        };
        if let Some(number) = self.numbers.get(&root) {
            return *number;
        }
        let mut stack = vec![frame(self, root)];
        while let Some(top) = stack.last_mut() {
            let pending = top.operands[top.next..].iter();
            let is_done = |o: &Id| self.leaf(*o).is_some() || self.numbers.contains_key(o);
            let skipped = pending.take_while(|o| is_done(o)).count();
            top.next += skipped;
            if let Some(operand) = top.operands.get(top.next) {
                let next = frame(self, *operand);
                stack.push(next);
            } else if let Some(done) = stack.pop() {
                self.instruction(done.id, &done.operands);
            }
        }
        self.numbers[&root]
    }

    fn instruction(&mut self, id: Id, operands: &[Id]) {
        let op = self.trace.arena.op(id);
        self.code
            .push(u32::from(op.code()) | (operands.len() as u32) << 8);
        for operand in operands {
            let written = match self.leaf(*operand) {
                Some(source) => {
                    self.leaves.push(*operand);
                    Operand::Leaf(source)
                }
                None => Operand::Instruction(self.numbers[operand]),
            };
            self.code.push(written.number());
        }
        let number = self.numbers.len() as u32;
        self.numbers.insert(id, number);
    }
}
