//! Groups units by structure and level.
//!
//! The structure of a unit is written down as a list of numbers, its *code*: instructions in the order of evaluation, whose operands
//! are earlier instructions or leaves. Units with equal codes are members of one group. Codes are found by their hash and then
//! compared, so a collision of hashes has no effect.

use super::Options;
use super::balance::chain;
use super::decompose::{Home, Units};
use crate::arena::Id;
use crate::hash::{finish, mix, structural_step};
use crate::op::Op;
use crate::parallel;
use crate::trace::Trace;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::ops::Range;

/// Where a leaf is loaded from.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Source {
    /// The table of constants.
    Constant,
    /// An input.
    Input(u32),
    /// A value that an earlier group has stored.
    Intermediate,
    /// An output that an earlier group has stored.
    Output(u32),
}

impl Source {
    pub(crate) fn number(self) -> u32 {
        match self {
            Source::Constant => 0,
            Source::Intermediate => 1,
            Source::Input(array) => 2 + 2 * array,
            Source::Output(array) => 3 + 2 * array,
        }
    }

    pub(crate) fn from_number(number: u32) -> Source {
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
    /// The result of an earlier instruction, by its number.
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
    /// An operation on operands.
    Compute(Op, SmallVec<[Operand; 4]>),
    /// Stores a root.
    Store(Source, Operand),
}

/// The number that begins a store in a code; operations are smaller.
const STORE: u32 = 255;

/// Units of the same structure and level.
#[derive(Clone, Debug)]
pub struct Group {
    /// The level of its units.
    pub level: u32,
    /// The structure of its units, as numbers.
    pub code: Vec<u32>,
    /// The units.
    pub units: Vec<u32>,
    /// Their leaves, unit after unit.
    pub leaves: Vec<Id>,
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

/// A thread groups at least so many units.
const LEAST: usize = 1 << 14;

/// Groups all units.
pub fn group(trace: &Trace, units: &Units, options: &Options) -> Vec<Group> {
    let structure = Structure::new(trace, units, options);
    let found = parallel::parts(units.len(), LEAST, |range| {
        group_range(&structure, range, options)
    });
    merged(found, options)
}

/// Groups some units.
pub(super) fn group_range(
    structure: &Structure<'_>,
    range: Range<usize>,
    options: &Options,
) -> Groups {
    let mut encoder = Encoder::new(structure);
    let mut groups = Groups::default();
    for unit in range {
        encoder.encode(unit);
        let level = structure.units.levels[unit];
        let group = groups.find(level, &encoder.code, options.hash_mask);
        group.units.push(unit as u32);
        group.leaves.extend_from_slice(&encoder.leaves);
    }
    groups
}

/// The groups of consecutive ranges of units together. The result does not depend on how many there are.
pub(super) fn merged(ranges: Vec<Groups>, options: &Options) -> Vec<Group> {
    let mut ranges = ranges.into_iter();
    let mut all = ranges.next().unwrap_or_default();
    for part in ranges.flat_map(|groups| groups.list) {
        let group = all.find(part.level, &part.code, options.hash_mask);
        group.units.extend(part.units);
        group.leaves.extend(part.leaves);
    }
    let mut groups = all.list;
    // Stable: groups of a level are in the order of their first members.
    groups.sort_by_key(|g| g.level);
    groups
}

/// Groups by level and code.
#[derive(Debug, Default)]
pub(super) struct Groups {
    list: Vec<Group>,
    /// Groups with the same hash are a list, because hashes collide.
    found: FxHashMap<(u32, u64), SmallVec<[u32; 1]>>,
}

impl Groups {
    /// The group of a code, which may be new.
    fn find(&mut self, level: u32, code: &[u32], hash_mask: u64) -> &mut Group {
        let step = |h: u64, n: &u32| {
            (h.rotate_left(23) ^ u64::from(*n)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        };
        let hash = mix(code.iter().fold(7, step));
        let same = self.found.entry((level, hash & hash_mask)).or_default();
        let known = same.iter().find(|g| self.list[**g as usize].code == code);
        let number = known.copied().unwrap_or_else(|| {
            let number = self.list.len() as u32;
            same.push(number);
            self.list.push(Group {
                level,
                code: code.to_vec(),
                units: Vec::new(),
                leaves: Vec::new(),
            });
            number
        });
        &mut self.list[number as usize]
    }
}

/// What the codes of units are written from.
pub(super) struct Structure<'a> {
    trace: &'a Trace,
    units: &'a Units,
    merge_chains: bool,
    /// Hashes of structures, with loaded nodes as leaves. They order the terms of chains, so half of their bits are enough.
    hashes: Vec<u32>,
}

impl<'a> Structure<'a> {
    pub(super) fn new(trace: &'a Trace, units: &'a Units, options: &Options) -> Structure<'a> {
        let mut structure = Structure {
            trace,
            units,
            merge_chains: options.merge_chains,
            hashes: Vec::with_capacity(trace.arena.len()),
        };
        for id in trace.arena.ids() {
            let hash = match structure.leaf(id) {
                Some(source) => mix(u64::from(source.number()) + 1000),
                None => structure.computed(id),
            };
            structure.hashes.push(hash as u32);
        }
        structure
    }

    /// The hash of a node that is computed. That of a chain is the sum over its terms, until it is an operand.
    fn computed(&self, id: Id) -> u64 {
        let op = self.trace.arena.op(id);
        let hash_in = |child: Id| {
            if self.continues(op, child) {
                u64::from(self.hashes[child.at()])
            } else {
                self.hash(child)
            }
        };
        let operands = (self.trace.arena).fold(id, SmallVec::<[u64; 2]>::new(), |mut all, c| {
            all.push(hash_in(c));
            all
        });
        let column = structural_step(op, &operands);
        if op.is_chain() {
            column
        } else {
            finish(op, column)
        }
    }

    /// The hash of a node as an operand.
    #[inline]
    fn hash(&self, id: Id) -> u64 {
        let column = u64::from(self.hashes[id.at()]);
        let op = self.trace.arena.op(id);
        if op.is_chain() && !self.units.is_leaf(id) {
            return u64::from(finish(op, column) as u32);
        }
        column
    }

    /// Whether a node is a part of the chain that uses it.
    #[inline]
    fn continues(&self, op: Op, child: Id) -> bool {
        self.merge_chains
            && op.is_chain()
            && self.trace.arena.op(child) == op
            && self.units.is_private(child)
    }

    /// Where a node is loaded from; `None` if it is computed.
    #[inline]
    fn leaf(&self, id: Id) -> Option<Source> {
        if !self.units.is_leaf(id) {
            return None;
        }
        let (op, a, _) = self.trace.arena.raw(id);
        Some(match op {
            Op::Const => Source::Constant,
            Op::Input => Source::Input(a),
            Op::Unary(_)
            | Op::Not
            | Op::Binary(_)
            | Op::Compare(_)
            | Op::Logic(_)
            | Op::Select
            | Op::Pair => Source::of(self.units.home(id)),
        })
    }

    /// Whether a unit with these values loads a node. It computes its own ones.
    fn is_leaf_in(&self, own: &Range<usize>, id: Id) -> bool {
        self.units.is_leaf(id) && (own.len() == 1 || !own.contains(&self.units.root_of(id)))
    }

    /// The operands of a node, in canonical order.
    fn operands(&self, id: Id) -> Operands {
        let arena = &self.trace.arena;
        let op = arena.op(id);
        let (children, arity) = arena.operands(id);
        let is_longer = || children.iter().any(|c| self.continues(op, *c));
        let mut operands = if op.is_chain() && is_longer() {
            Operands::from_vec(chain(arena, id, |child| self.continues(op, child)))
        } else {
            Operands::from_slice(&children[..arity])
        };
        // Stable: terms of the same structure stay in the order of the program.
        if let [a, b] = &mut operands[..]
            && op.commutes()
        {
            if self.hash(*a) > self.hash(*b) {
                std::mem::swap(a, b);
            }
        } else if op.commutes() {
            operands.sort_by_cached_key(|o| self.hash(*o));
        }
        operands
    }
}

type Operands = SmallVec<[Id; 4]>;

/// Numbers of instructions, by node. It is empty again in constant time.
#[derive(Debug)]
struct Numbers {
    slots: Vec<Slot>,
    /// Slots of other epochs are empty.
    epoch: u32,
    len: u32,
}

#[derive(Copy, Clone, Default, Debug)]
struct Slot {
    epoch: u32,
    node: Id,
    number: u32,
}

impl Numbers {
    fn new() -> Numbers {
        Numbers {
            slots: vec![Slot::default(); 256],
            epoch: 1,
            len: 0,
        }
    }

    fn clear(&mut self) {
        self.len = 0;
        self.epoch = self.epoch.wrapping_add(1);
        if self.epoch == 0 {
            self.slots.fill(Slot::default());
            self.epoch = 1;
        }
    }

    /// The slot of a node, or the empty one where it belongs.
    fn slot(&self, node: Id) -> usize {
        let last = self.slots.len() - 1;
        let mut at = node.0.wrapping_mul(0x9e37_79b1) as usize & last;
        while self.slots[at].epoch == self.epoch && self.slots[at].node != node {
            at = (at + 1) & last;
        }
        at
    }

    fn get(&self, node: Id) -> Option<u32> {
        let slot = self.slots[self.slot(node)];
        (slot.epoch == self.epoch).then_some(slot.number)
    }

    /// Gives a node the next number.
    fn add(&mut self, node: Id) {
        if 2 * self.len as usize >= self.slots.len() {
            let larger = vec![Slot::default(); 2 * self.slots.len()];
            let old = std::mem::replace(&mut self.slots, larger);
            for slot in old.into_iter().filter(|s| s.epoch == self.epoch) {
                let at = self.slot(slot.node);
                self.slots[at] = slot;
            }
        }
        let at = self.slot(node);
        self.slots[at] = Slot {
            epoch: self.epoch,
            node,
            number: self.len,
        };
        self.len += 1;
    }
}

/// An instruction whose operands are written down first.
struct Frame {
    id: Id,
    operands: Operands,
    next: usize,
}

/// Writes down the codes and leaves of units.
struct Encoder<'a> {
    structure: &'a Structure<'a>,
    /// The values of the current unit, which are computed even where they are operands.
    own: Range<usize>,
    /// Numbers of instructions of the current unit.
    numbers: Numbers,
    stack: Vec<Frame>,
    code: Vec<u32>,
    leaves: Vec<Id>,
}

impl<'a> Encoder<'a> {
    fn new(structure: &'a Structure<'a>) -> Encoder<'a> {
        Encoder {
            structure,
            own: 0..0,
            numbers: Numbers::new(),
            stack: Vec::new(),
            code: Vec::new(),
            leaves: Vec::new(),
        }
    }

    /// Writes down the code and the leaves of a unit.
    fn encode(&mut self, unit: usize) {
        let units = self.structure.units;
        self.own = units.root_range(unit);
        self.numbers.clear();
        self.code.clear();
        self.leaves.clear();
        for root in units.roots(unit) {
            let operand = if self.structure.trace.arena.op(root.node).is_leaf() {
                self.leaves.push(root.node);
                let source = self.structure.leaf(root.node);
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
        if let Some(number) = self.numbers.get(root) {
            return number;
        }
        self.push(root);
        while let Some(top) = self.stack.last_mut() {
            let (structure, numbers, own) = (self.structure, &self.numbers, &self.own);
            let pending = top.operands[top.next..].iter();
            let is_done = |o: &Id| structure.is_leaf_in(own, *o) || numbers.get(*o).is_some();
            top.next += pending.take_while(|o| is_done(o)).count();
            if let Some(operand) = top.operands.get(top.next).copied() {
                self.push(operand);
            } else if let Some(done) = self.stack.pop() {
                self.instruction(done.id, &done.operands);
            }
        }
        self.numbers.len - 1
    }

    fn push(&mut self, id: Id) {
        let operands = self.structure.operands(id);
        let next = 0;
        self.stack.push(Frame { id, operands, next });
    }

    fn instruction(&mut self, id: Id, operands: &[Id]) {
        let op = self.structure.trace.arena.op(id);
        let head = u32::from(op.code()) | (operands.len() as u32) << 8;
        self.code.push(head);
        for operand in operands {
            let leaf = self.structure.leaf(*operand);
            let leaf = leaf.filter(|_| self.structure.is_leaf_in(&self.own, *operand));
            let written = match leaf {
                Some(source) => {
                    self.leaves.push(*operand);
                    Operand::Leaf(source)
                }
                // All operands have numbers.
                None => Operand::Instruction(self.numbers.get(*operand).unwrap_or(0)),
            };
            self.code.push(written.number());
        }
        self.numbers.add(id);
    }
}
