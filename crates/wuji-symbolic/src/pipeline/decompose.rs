//! Global decomposition: which values have memory, and which expressions compute them.
//!
//! A *unit* computes one value, or the values of a block, from inputs and from the values of other units. Units become members of
//! groups.

use super::Options;
use super::balance::Balanced;
use super::detect::{Known, detect};
use crate::arena::Id;
use crate::trace::Trace;
use std::ops::Range;

/// Where a value is stored.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Home {
    /// Among the intermediates.
    Intermediate,
    /// In an output.
    Output {
        /// The number of the output.
        array: u32,
        /// The number of its element.
        index: u32,
    },
}

/// A value that a unit computes.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Root {
    /// The node.
    pub node: Id,
    /// Where it is stored.
    pub home: Home,
}

/// The result of [`decompose`].
#[derive(Debug)]
pub struct Units {
    roots: Vec<Root>,
    /// Where the roots of each unit begin, and the end.
    starts: Vec<u32>,
    /// Units with a greater level may use the values of units with a smaller one.
    pub levels: Vec<u32>,
    flags: Vec<Flags>,
    /// The first root of each node that is stored.
    root_of: Vec<u32>,
    /// Blocks that were ignored, because parts of them depend on each other.
    pub dissolved_blocks: usize,
}

const NONE: u32 = u32::MAX;
/// The owner of a node that several units use.
const MANY: u32 = u32::MAX - 1;

impl Units {
    /// The number of units.
    pub fn len(&self) -> usize {
        self.levels.len()
    }

    /// Whether there is no unit.
    pub fn is_empty(&self) -> bool {
        self.levels.is_empty()
    }

    /// The values that a unit computes.
    pub fn roots(&self, unit: usize) -> &[Root] {
        &self.roots[self.root_range(unit)]
    }

    /// The numbers of these values among those of all units.
    pub(super) fn root_range(&self, unit: usize) -> Range<usize> {
        self.starts[unit] as usize..self.starts[unit + 1] as usize
    }

    /// The number of values of all units.
    pub(super) fn root_count(&self) -> usize {
        self.roots.len()
    }

    /// The number of the value that users of a node load.
    #[inline]
    pub(super) fn root_of(&self, node: Id) -> usize {
        self.root_of[node.at()] as usize
    }

    /// Whether a node is loaded where it is used.
    #[inline]
    pub fn is_loaded(&self, node: Id) -> bool {
        self.flags[node.at()].has(Flags::LOADED)
    }

    /// Whether a node is loaded, or has no operands.
    #[inline]
    pub(super) fn is_leaf(&self, node: Id) -> bool {
        self.flags[node.at()].has(Flags::LOADED | Flags::LEAF)
    }

    /// Whether a node is computed where it is used, by one node or output.
    #[inline]
    pub(super) fn is_private(&self, node: Id) -> bool {
        let flags = self.flags[node.at()];
        flags.has(Flags::ONCE) && !flags.has(Flags::LOADED)
    }

    /// Where a node that is loaded is stored.
    pub fn home(&self, node: Id) -> Home {
        self.roots[self.root_of(node)].home
    }
}

/// Decides which values have memory.
pub fn decompose(trace: &Trace, balanced: Balanced, options: &Options) -> Units {
    let outputs = Outputs::new(trace);
    let flags = Flags::all(trace, &outputs, &balanced.references, options);
    let partial_sums = balanced.partial_sums;
    drop(balanced.references);
    let start = || Work::new(trace, &outputs, flags.clone(), options);
    let mut blocks: Vec<Block<'_>> = Vec::new();
    if options.tagging {
        let tagged = trace.blocks.iter();
        blocks.extend(tagged.map(|values| Block::tagged(values)));
    }
    let asked = blocks.len();
    let mut found = Vec::new();
    if options.detect_blocks {
        let mut work = start();
        work.tag(&blocks);
        work.select(&partial_sums);
        found = detect(trace, |id| work.known(id));
    }
    blocks.extend(found.iter().map(|values| Block::detected(values)));
    let mut attempts = 0;
    loop {
        let mut work = start();
        work.tag(&blocks);
        work.select(&partial_sums);
        let owners = work.drop_private(blocks.len());
        if remove_nested(&mut blocks, &owners) {
            continue;
        }
        let mut units = work.units(&blocks);
        let tagged = blocks.iter().filter(|b| !b.detected).count();
        units.dissolved_blocks = asked - tagged;
        if blocks.is_empty() {
            units.find_levels_in_order(trace);
            return units;
        }
        match units.find_levels(trace) {
            Ok(()) => return units,
            // Blocks are hints. Those that were detected are dissolved before those that the program asks for.
            Err(cyclic) => {
                let in_cycle = |block: &Block<'_>| block.values.iter().any(|id| cyclic[id.at()]);
                if blocks.iter().any(|block| block.detected) {
                    let any = blocks.iter().any(|block| block.detected && in_cycle(block));
                    blocks.retain(|block| !block.detected || any && !in_cycle(block));
                } else {
                    attempts += 1;
                    blocks.retain(|block| attempts < 3 && !in_cycle(block));
                }
            }
        }
    }
}

/// Values to compute together.
#[derive(Copy, Clone, Debug)]
struct Block<'a> {
    values: &'a [Id],
    detected: bool,
}

impl<'a> Block<'a> {
    fn tagged(values: &'a [Id]) -> Block<'a> {
        let detected = false;
        Block { values, detected }
    }

    fn detected(values: &'a [Id]) -> Block<'a> {
        let detected = true;
        Block { values, detected }
    }
}

/// Removes detected blocks that only one unit uses: they become a part of it. Returns whether there were any.
fn remove_nested(blocks: &mut Vec<Block<'_>>, owners: &[u32]) -> bool {
    let before = blocks.len();
    let mut owners = owners.iter();
    blocks.retain(|block| {
        let shared = matches!(owners.next(), None | Some(&(NONE | MANY)));
        shared || !block.detected
    });
    blocks.len() < before
}

/// What is known about a node.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
struct Flags(u8);

impl Flags {
    /// It has no operands.
    const LEAF: u8 = 1;
    /// Something that is used uses it.
    const USED: u8 = 2;
    /// It is used once.
    const ONCE: u8 = 4;
    /// It is used often enough for an intermediate.
    const SHARED: u8 = 8;
    /// It is an output.
    const OUTPUT: u8 = 16;
    /// It is loaded where it is used.
    const LOADED: u8 = 32;
    /// It stays an intermediate, even if one unit uses it.
    const FORCED: u8 = 64;

    /// Whether it has one of these.
    #[inline]
    fn has(self, any: u8) -> bool {
        self.0 & any != 0
    }

    fn add(&mut self, more: u8) {
        self.0 |= more;
    }

    /// What does not depend on blocks.
    fn all(trace: &Trace, outputs: &Outputs, references: &[u32], options: &Options) -> Vec<Flags> {
        let mark = |condition: bool, flag: u8| if condition { flag } else { 0 };
        let least = options.min_references;
        let of = |(id, count): (Id, &u32)| {
            let leaf = trace.arena.op(id).is_leaf();
            let shared = options.global_decomposition && *count >= least;
            Flags(
                mark(leaf, Flags::LEAF)
                    | mark(*count > 0, Flags::USED)
                    | mark(*count == 1, Flags::ONCE)
                    | mark(shared, Flags::SHARED),
            )
        };
        let mut flags: Vec<Flags> = trace.arena.ids().zip(references).map(of).collect();
        (outputs.places.iter()).for_each(|(node, _)| flags[node.at()].add(Flags::OUTPUT));
        flags
    }
}

/// The elements of all outputs.
struct Outputs {
    /// Where each output begins among the elements of all.
    starts: Vec<u32>,
    /// Nodes that are computed, with their elements, sorted.
    places: Vec<(Id, u32)>,
}

impl Outputs {
    fn new(trace: &Trace) -> Outputs {
        let mut starts = Vec::new();
        let mut next = 0;
        for output in &trace.outputs {
            starts.push(next);
            next += output.len() as u32;
        }
        let all = trace.outputs.iter().flatten().copied().zip(0..);
        let mut places: Vec<(Id, u32)> = all
            .filter(|(id, _)| !trace.arena.op(*id).is_leaf())
            .collect();
        places.sort_unstable();
        Outputs { starts, places }
    }

    /// The output and the index of an element.
    fn home(&self, place: u32) -> Home {
        let array = self.starts.partition_point(|start| *start <= place) - 1;
        Home::Output {
            array: array as u32,
            index: place - self.starts[array],
        }
    }

    /// The elements that are this node.
    fn of(&self, node: Id) -> impl Iterator<Item = Home> {
        let first = self.places.partition_point(|place| place.0 < node);
        let own = self.places[first..].iter().take_while(move |p| p.0 == node);
        own.map(|(_, place)| self.home(*place))
    }
}

struct Work<'a> {
    trace: &'a Trace,
    options: &'a Options,
    outputs: &'a Outputs,
    flags: Vec<Flags>,
    /// The block of each node, or `NONE`; empty without blocks.
    block: Vec<u32>,
    /// Costs of the expressions that compute nodes from what is loaded.
    complexity: Vec<u32>,
}

impl<'a> Work<'a> {
    fn new(
        trace: &'a Trace,
        outputs: &'a Outputs,
        flags: Vec<Flags>,
        options: &'a Options,
    ) -> Work<'a> {
        Work {
            trace,
            options,
            outputs,
            complexity: vec![0; flags.len()],
            flags,
            block: Vec::new(),
        }
    }

    fn tag(&mut self, blocks: &[Block<'_>]) {
        if !blocks.is_empty() {
            self.block = vec![NONE; self.flags.len()];
        }
        for (number, block) in (0..).zip(blocks) {
            for id in block.values {
                let flags = &mut self.flags[id.at()];
                let computed = flags.has(Flags::USED) && !flags.has(Flags::LEAF);
                if computed && self.block[id.at()] == NONE {
                    self.block[id.at()] = number;
                    flags.add(Flags::LOADED | Flags::FORCED);
                }
            }
        }
    }

    fn block_of(&self, node: Id) -> u32 {
        self.block.get(node.at()).copied().unwrap_or(NONE)
    }

    /// Selects nodes that are used often enough and complex enough, operands first.
    fn select(&mut self, partial_sums: &[Id]) {
        for id in partial_sums {
            self.flags[id.at()].add(Flags::FORCED);
        }
        let arena = &self.trace.arena;
        for id in arena.ids() {
            let mut flags = self.flags[id.at()];
            if flags.has(Flags::LEAF) || !flags.has(Flags::USED) {
                continue;
            }
            let op = arena.op(id);
            let cost = |child: Id| {
                if self.flags[child.at()].has(Flags::LOADED) {
                    1
                } else {
                    self.complexity[child.at()]
                }
            };
            let complexity = arena.fold(id, op.cost(), |sum, c| sum.saturating_add(cost(c)));
            self.complexity[id.at()] = complexity;
            if !op.is_number() {
                continue;
            }
            if complexity > self.options.max_complexity {
                flags.add(Flags::FORCED);
            }
            let shared = flags.has(Flags::SHARED) && complexity >= self.options.min_complexity;
            if shared || flags.has(Flags::FORCED) {
                flags.add(Flags::LOADED);
            }
            self.flags[id.at()] = flags;
        }
    }

    /// Intermediates that only one unit uses become a part of it. Users come first.
    ///
    /// The complexity of a node that was visited is the size of its unit.
    /// Returns the units that use the values of each block.
    fn drop_private(&mut self, blocks: usize) -> Vec<u32> {
        let arena = &self.trace.arena;
        let mut owner = vec![NONE; arena.len()];
        let mut owners = vec![NONE; blocks];
        for id in arena.ids().rev() {
            let at = id.at();
            let flags = self.flags[at];
            if flags.has(Flags::LEAF) || !flags.has(Flags::USED) {
                continue;
            }
            let mut own = owner[at];
            let unit = match self.block_of(id) {
                NONE => id.0,
                block => {
                    let user = if flags.has(Flags::OUTPUT) { MANY } else { own };
                    // Values of a block may use each other.
                    if user != unit_of_block(block) {
                        let users = &mut owners[block as usize];
                        *users = merge(*users, user);
                    }
                    unit_of_block(block)
                }
            };
            let only = own != MANY && own != NONE;
            if only && flags.has(Flags::LOADED) && !flags.has(Flags::FORCED | Flags::OUTPUT) {
                // The sizes of blocks are not limited.
                let size = self.complexity.get(own as usize).copied().unwrap_or(0);
                let whole = size.saturating_add(self.complexity[at]);
                if whole <= self.options.max_complexity {
                    self.flags[at] = Flags(flags.0 & !Flags::LOADED);
                    if let Some(size) = self.complexity.get_mut(own as usize) {
                        *size = whole;
                    }
                }
            }
            if self.flags[at].has(Flags::LOADED) {
                own = unit;
            } else if flags.has(Flags::OUTPUT) {
                own = merge(own, unit);
            }
            arena.fold(id, (), |(), child| {
                let owner = &mut owner[child.at()];
                *owner = merge(*owner, own);
            });
        }
        owners
    }

    /// What the detection of blocks needs.
    fn known(&self, id: Id) -> Known {
        let flags = self.flags[id.at()];
        Known {
            used: flags.has(Flags::USED),
            output: flags.has(Flags::OUTPUT),
            shared: flags.has(Flags::LOADED) && !flags.has(Flags::FORCED),
            tagged: self.block_of(id) != NONE,
        }
    }

    fn units(self, blocks: &[Block<'_>]) -> Units {
        let mut units = Units {
            roots: Vec::new(),
            starts: vec![0],
            levels: Vec::new(),
            root_of: vec![NONE; self.flags.len()],
            flags: Vec::new(),
            dissolved_blocks: 0,
        };
        let mut done = vec![false; blocks.len()];
        for (id, flags) in self.trace.arena.ids().zip(&self.flags) {
            if !flags.has(Flags::USED) || !flags.has(Flags::LOADED | Flags::OUTPUT) {
                continue;
            }
            let block = self.block_of(id);
            if block == NONE {
                self.add_root(&mut units, id);
                units.end();
            } else if !std::mem::replace(&mut done[block as usize], true) {
                let mut members: Vec<Id> = blocks[block as usize].values.to_vec();
                members.retain(|m| self.block_of(*m) == block);
                members.sort();
                members.dedup();
                (members.into_iter()).for_each(|m| self.add_root(&mut units, m));
                units.end();
            }
        }
        self.add_copies(&mut units);
        units.flags = self.flags;
        units
    }

    /// A value with all its destinations.
    fn add_root(&self, units: &mut Units, node: Id) {
        units.root_of[node.at()] = units.roots.len() as u32;
        if self.flags[node.at()].has(Flags::OUTPUT) {
            let all = self.outputs.of(node);
            units.roots.extend(all.map(|home| Root { node, home }));
        } else {
            let home = Home::Intermediate;
            units.roots.push(Root { node, home });
        }
    }

    /// Outputs that are inputs or constants.
    fn add_copies(&self, units: &mut Units) {
        for (node, place) in self.trace.outputs.iter().flatten().copied().zip(0..) {
            if self.flags[node.at()].has(Flags::LEAF) {
                let home = self.outputs.home(place);
                units.roots.push(Root { node, home });
                units.end();
            }
        }
    }
}

/// The unit of a block. Numbers of blocks and of nodes must differ; blocks count down from the largest.
fn unit_of_block(block: u32) -> u32 {
    MANY - 1 - block
}

/// The owner of a node that has these two.
fn merge(a: u32, b: u32) -> u32 {
    if a == NONE || a == b {
        b
    } else if b == NONE {
        a
    } else {
        MANY
    }
}

impl Units {
    fn end(&mut self) {
        self.starts.push(self.roots.len() as u32);
        self.levels.push(1);
    }

    /// The unit of each value.
    fn unit_of_root(&self) -> Vec<u32> {
        let mut unit_of = Vec::with_capacity(self.roots.len());
        for unit in 0..self.len() {
            unit_of.resize(self.root_range(unit).end, unit as u32);
        }
        unit_of
    }

    /// Finds the level of every unit. Without blocks, units follow each other in the order of their nodes, so one sweep is enough.
    fn find_levels_in_order(&mut self, trace: &Trace) {
        let unit_of = self.unit_of_root();
        // The greatest level among the values that a node is computed from.
        let mut below = vec![0u32; trace.arena.len()];
        for id in trace.arena.ids() {
            let level = |c: Id| {
                if self.is_loaded(c) {
                    self.levels[unit_of[self.root_of(c)] as usize]
                } else {
                    below[c.at()]
                }
            };
            let own = trace.arena.fold(id, 0, |most: u32, c| most.max(level(c)));
            below[id.at()] = own;
            if let Some(unit) = unit_of.get(self.root_of(id)) {
                self.levels[*unit as usize] = own + 1;
            }
        }
    }

    /// Finds the level of every unit. An error has the nodes of units that depend on each other in a cycle.
    fn find_levels(&mut self, trace: &Trace) -> Result<(), Vec<bool>> {
        let arena = &trace.arena;
        let unit_of = self.unit_of_root();
        const SWEEPS: usize = 8;
        let mut changed = Vec::new();
        // What each node is computed from.
        let mut below = vec![Below::default(); arena.len()];
        for _ in 0..SWEEPS {
            changed.clear();
            for id in arena.ids() {
                if !self.flags[id.at()].has(Flags::USED) {
                    continue;
                }
                let of = |c: Id| {
                    if !self.is_loaded(c) {
                        return below[c.at()];
                    }
                    let unit = unit_of[self.root_of(c)];
                    Below::one(unit, self.levels[unit as usize])
                };
                let all = arena.fold(id, Below::default(), |all, c| all.and(of(c)));
                below[id.at()] = all;
                if let Some(unit) = unit_of.get(self.root_of(id)) {
                    let least = all.without(*unit) + 1;
                    let level = &mut self.levels[*unit as usize];
                    if *level < least {
                        *level = least;
                        changed.push(*unit as usize);
                    }
                }
            }
            if changed.is_empty() {
                return Ok(());
            }
        }
        let mut cyclic = vec![false; arena.len()];
        for unit in changed {
            for root in self.roots(unit) {
                cyclic[root.node.at()] = true;
            }
        }
        Err(cyclic)
    }
}

/// The greatest level among the values that a node is computed from. Values of a block may be computed from each other, so it is known
/// with and without one unit.
#[derive(Copy, Clone, PartialEq, Eq, Default, Debug)]
struct Below {
    level: u32,
    /// A unit of this level.
    unit: u32,
    /// The greatest level among values of other units.
    other: u32,
}

impl Below {
    fn one(unit: u32, level: u32) -> Below {
        Below {
            level,
            unit,
            other: 0,
        }
    }

    /// Of a node that is computed from both.
    fn and(self, with: Below) -> Below {
        let (high, low) = if self.level >= with.level {
            (self, with)
        } else {
            (with, self)
        };
        Below {
            other: high.other.max(low.without(high.unit)),
            ..high
        }
    }

    fn without(self, unit: u32) -> u32 {
        if self.unit == unit {
            self.other
        } else {
            self.level
        }
    }
}
