//! Global decomposition: which values have memory, and which expressions compute them.
//!
//! A *unit* computes one value, or the values of a block, from inputs and from the values of other units. Units become members of
//! groups.

use super::Options;
use super::balance::Balanced;
use crate::arena::Id;
use crate::trace::Trace;

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
    /// Nodes that are loaded where they are used.
    pub loaded: Vec<bool>,
    /// Where such nodes are stored.
    homes: Vec<Home>,
    home_of: Vec<u32>,
    /// How often a node is used.
    pub references: Vec<u32>,
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
        &self.roots[self.starts[unit] as usize..self.starts[unit + 1] as usize]
    }

    /// Where a node that is loaded is stored.
    pub fn home(&self, node: Id) -> Home {
        self.homes[self.home_of[node.at()] as usize]
    }
}

/// Decides which values have memory.
pub fn decompose(trace: &Trace, balanced: Balanced, options: &Options) -> Units {
    let Balanced {
        partial_sums,
        references,
        ..
    } = balanced;
    let mut blocks: Vec<&[Id]> = Vec::new();
    if options.tagging {
        blocks.extend(trace.blocks.iter().map(|b| &b[..]));
    }
    let mut attempts = 0;
    loop {
        let mut work = Work::new(trace, &references, options);
        work.tag(&blocks);
        work.select(&partial_sums);
        work.drop_private();
        let mut units = work.units(&blocks);
        match units.find_levels(trace, &references) {
            Ok(()) => {
                units.references = references;
                let asked = if options.tagging {
                    trace.blocks.len()
                } else {
                    0
                };
                units.dissolved_blocks = asked - blocks.len();
                return units;
            }
            // Blocks on a cycle, or all of them when that takes too long: they are hints.
            Err(cyclic) => {
                attempts += 1;
                let fine = |block: &&[Id]| !block.iter().any(|id| cyclic[id.at()]);
                blocks.retain(|block| attempts < 3 && fine(block));
            }
        }
    }
}

struct Work<'a> {
    trace: &'a Trace,
    options: &'a Options,
    references: &'a [u32],
    /// Nodes that are loaded where they are used.
    loaded: Vec<bool>,
    /// The first destination among the outputs, by node; `NONE` for most.
    output: Vec<u32>,
    /// Outputs in order.
    places: Vec<(u32, u32)>,
    /// Further destinations of nodes that are several outputs, sorted.
    further: Vec<(Id, u32)>,
    /// The block of a node, or `NONE`.
    block: Vec<u32>,
    forced: Vec<bool>,
    complexity: Vec<u32>,
}

impl<'a> Work<'a> {
    fn new(trace: &'a Trace, references: &'a [u32], options: &'a Options) -> Work<'a> {
        let nodes = trace.arena.len();
        let mut work = Work {
            trace,
            options,
            references,
            loaded: vec![false; nodes],
            output: vec![NONE; nodes],
            places: Vec::new(),
            further: Vec::new(),
            block: vec![NONE; nodes],
            forced: vec![false; nodes],
            complexity: vec![0; nodes],
        };
        for (array, ids) in (0..).zip(&trace.outputs) {
            for (index, id) in (0..).zip(ids) {
                let place = work.places.len() as u32;
                work.places.push((array, index));
                if trace.arena.op(*id).is_leaf() {
                    continue;
                }
                if work.output[id.at()] == NONE {
                    work.output[id.at()] = place;
                } else {
                    work.further.push((*id, place));
                }
            }
        }
        work.further.sort_unstable();
        work
    }

    fn tag(&mut self, blocks: &[&[Id]]) {
        for (number, block) in (0..).zip(blocks) {
            for id in block.iter() {
                let used = self.references[id.at()] > 0;
                if used && !self.trace.arena.op(*id).is_leaf() && self.block[id.at()] == NONE {
                    self.block[id.at()] = number;
                    self.loaded[id.at()] = true;
                    self.forced[id.at()] = true;
                }
            }
        }
    }

    /// Selects nodes that are used often enough and complex enough, operands first.
    fn select(&mut self, partial_sums: &[Id]) {
        for id in partial_sums {
            self.forced[id.at()] = true;
        }
        let arena = &self.trace.arena;
        for id in arena.ids() {
            let op = arena.op(id);
            if op.is_leaf() || self.references[id.at()] == 0 {
                continue;
            }
            let mut complexity = op.cost();
            for child in arena.children(id) {
                let at = child.at();
                let own = if self.loaded[at] {
                    1
                } else {
                    self.complexity[at]
                };
                complexity = complexity.saturating_add(own);
            }
            self.complexity[id.at()] = complexity;
            if !op.is_number() {
                continue;
            }
            let shared = self.options.global_decomposition
                && self.references[id.at()] >= self.options.min_references
                && complexity >= self.options.min_complexity;
            let large = complexity > self.options.max_complexity;
            self.forced[id.at()] |= large;
            self.loaded[id.at()] |= self.forced[id.at()] || shared;
        }
    }

    /// Intermediates that only one unit uses become a part of it. Users come first.
    fn drop_private(&mut self) {
        let arena = &self.trace.arena;
        let mut owner = vec![NONE; arena.len()];
        let mut size = self.complexity.clone();
        for id in arena.ids().rev() {
            let at = id.at();
            if self.references[at] == 0 || arena.op(id).is_leaf() {
                continue;
            }
            let unit = if self.block[at] != NONE {
                // Numbers of blocks and of nodes must differ; blocks count down from the largest.
                MANY - 1 - self.block[at]
            } else {
                id.0
            };
            let is_output = self.output[at] != NONE;
            let mut own = owner[at];
            if self.loaded[at] && !self.forced[at] && !is_output && own != MANY && own != NONE {
                let whole = self.size_of(&size, own).saturating_add(self.complexity[at]);
                if whole <= self.options.max_complexity {
                    self.loaded[at] = false;
                    if let Some(size) = size.get_mut(own as usize) {
                        *size = whole;
                    }
                }
            }
            if self.loaded[at] {
                own = unit;
            } else if is_output {
                own = merge(own, unit);
            }
            for child in arena.children(id) {
                owner[child.at()] = merge(owner[child.at()], own);
            }
        }
    }

    /// The complexity of a unit. Those of blocks are not limited.
    fn size_of(&self, size: &[u32], unit: u32) -> u32 {
        size.get(unit as usize).copied().unwrap_or(0)
    }

    fn units(self, blocks: &[&[Id]]) -> Units {
        let arena = &self.trace.arena;
        let mut units = Units {
            roots: Vec::new(),
            starts: vec![0],
            levels: Vec::new(),
            homes: Vec::new(),
            home_of: vec![NONE; arena.len()],
            loaded: Vec::new(),
            references: Vec::new(),
            dissolved_blocks: 0,
        };
        let mut done = vec![false; blocks.len()];
        for id in arena.ids() {
            let (at, block) = (id.at(), self.block[id.at()]);
            let stored = self.loaded[at] || self.output[at] != NONE;
            if self.references[at] == 0 || !stored {
                continue;
            }
            if block == NONE {
                self.add_root(&mut units, id);
                units.end();
            } else if !std::mem::replace(&mut done[block as usize], true) {
                let mut members: Vec<Id> = blocks[block as usize].to_vec();
                members.retain(|m| self.block[m.at()] == block);
                members.sort();
                members.dedup();
                (members.into_iter()).for_each(|m| self.add_root(&mut units, m));
                units.end();
            }
        }
        self.add_copies(&mut units);
        units.loaded = self.loaded;
        units
    }

    /// A value with all its destinations.
    fn add_root(&self, units: &mut Units, node: Id) {
        let home = match self.output[node.at()] {
            NONE => Home::Intermediate,
            place => self.output_home(place),
        };
        units.add(Root { node, home });
        let first = self.further.partition_point(|f| f.0 < node);
        let further = self.further[first..].iter().take_while(|f| f.0 == node);
        units.roots.extend(further.map(|(_, place)| Root {
            node,
            home: self.output_home(*place),
        }));
    }

    fn output_home(&self, place: u32) -> Home {
        let (array, index) = self.places[place as usize];
        Home::Output { array, index }
    }

    /// Outputs that are inputs or constants.
    fn add_copies(&self, units: &mut Units) {
        let ids = self.trace.outputs.iter().flatten();
        for (place, node) in (0..).zip(ids) {
            if self.trace.arena.op(*node).is_leaf() {
                let home = self.output_home(place);
                units.roots.push(Root { node: *node, home });
                units.end();
            }
        }
    }
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
    fn add(&mut self, root: Root) {
        self.home_of[root.node.at()] = self.homes.len() as u32;
        self.homes.push(root.home);
        self.roots.push(root);
    }

    fn end(&mut self) {
        self.starts.push(self.roots.len() as u32);
        self.levels.push(1);
    }

    /// Whether a root is where users of its node load it; a node has one such root.
    pub fn is_home(&self, root: &Root) -> bool {
        let home = self.home_of[root.node.at()];
        home != NONE && self.homes[home as usize] == root.home
    }

    /// Finds the level of every unit. An error has the nodes of units that depend on each other in a cycle.
    fn find_levels(&mut self, trace: &Trace, references: &[u32]) -> Result<(), Vec<bool>> {
        let arena = &trace.arena;
        let mut unit_of = vec![NONE; arena.len()];
        for unit in 0..self.len() {
            for root in self.roots(unit) {
                if self.is_home(root) {
                    unit_of[root.node.at()] = unit as u32;
                }
            }
        }
        const SWEEPS: usize = 8;
        let mut changed = Vec::new();
        // The greatest level among the values that a node is computed from.
        let mut below = vec![0u32; arena.len()];
        for _ in 0..SWEEPS {
            changed.clear();
            for id in arena.ids() {
                let level = |c: Id| {
                    if self.loaded[c.at()] {
                        self.levels[unit_of[c.at()] as usize]
                    } else {
                        below[c.at()]
                    }
                };
                if references[id.at()] == 0 {
                    continue;
                }
                below[id.at()] = arena.children(id).map(level).max().unwrap_or(0);
                let unit = unit_of[id.at()];
                if unit != NONE && self.levels[unit as usize] < below[id.at()] + 1 {
                    self.levels[unit as usize] = below[id.at()] + 1;
                    changed.push(unit as usize);
                }
            }
            // Without blocks, one sweep finds everything.
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
