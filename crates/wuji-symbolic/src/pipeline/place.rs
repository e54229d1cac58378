//! Positions in memory: members are sorted, intermediates get positions, columns become tables or affine expressions.

use super::decompose::{Home, Units};
use super::group::{Group, Source};
use super::harvest::{Column, Harvested, Template};
use super::{Analysis, Options};
use crate::arena::{Id, Node};
use crate::trace::Trace;

/// Positions of a column, as a function of the number of the member.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Index {
    /// `first + stride * member`.
    Affine {
        /// The position of the first member.
        first: i32,
        /// The distance of two members.
        stride: i32,
    },
    /// `table[start + member] + offset`.
    Table {
        /// Where the table begins.
        start: usize,
        /// What is added to its entries.
        offset: i32,
    },
}

/// How a slot of a template gets its value.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Read {
    /// The slot of the template.
    pub slot: u32,
    /// Where the value is loaded from.
    pub source: Source,
    /// The positions of the members.
    pub index: Index,
}

/// Where a root of a template is stored.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Write {
    /// Where the value is stored.
    pub to: Source,
    /// The positions of the members.
    pub index: Index,
}

/// A group with everything its loop needs.
#[derive(Clone, Debug)]
pub struct GroupLoop {
    /// The level of its units.
    pub level: u32,
    /// The number of iterations.
    pub members: u32,
    /// The shared expression.
    pub template: Template,
    /// Nodes of the template that are kept for further uses.
    pub locals: Vec<bool>,
    /// Its loads.
    pub reads: Vec<Read>,
    /// Its stores.
    pub writes: Vec<Write>,
}

/// The tables of all groups.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// Positions.
    pub indices: Vec<i32>,
    /// Constants.
    pub constants: Vec<f64>,
}

/// Places groups, one after the other in the order of their levels.
#[derive(Debug)]
pub struct Placer<'a> {
    trace: &'a Trace,
    units: &'a Units,
    options: &'a Options,
    /// Positions of intermediates, by node.
    positions: Vec<u32>,
    intermediates: usize,
    groups: Vec<GroupLoop>,
    tables: Tables,
}

/// A table in use: its start, and the positions in it.
struct Tabled {
    start: usize,
    first: i32,
}

impl<'a> Placer<'a> {
    /// A placer without groups.
    pub fn new(trace: &'a Trace, units: &'a Units, options: &'a Options) -> Placer<'a> {
        Placer {
            trace,
            units,
            options,
            positions: vec![0; trace.arena.len()],
            intermediates: 0,
            groups: Vec::new(),
            tables: Tables::default(),
        }
    }

    /// Where an input or a stored value is.
    fn position(&self, node: Id) -> i32 {
        if let Node::Input { index, .. } = self.trace.arena.node(node) {
            return index as i32;
        }
        let position = match self.units.home(node) {
            Home::Intermediate => self.positions[node.at()],
            Home::Output { index, .. } => index,
        };
        position as i32
    }

    /// Places one group. Groups whose values it uses are placed already.
    pub fn place(
        &mut self,
        group: &Group,
        harvested: Harvested,
        template: Template,
        locals: Vec<bool>,
    ) {
        let used = used_slots(&template, harvested.columns.len());
        let mut columns: Vec<(u32, Source, Vec<i32>)> = Vec::new();
        let mut constants: Vec<(u32, &Column)> = Vec::new();
        for (slot, column) in (0..)
            .zip(&harvested.columns)
            .filter(|(s, _)| used[*s as usize])
        {
            if column.source == Source::Constant {
                constants.push((slot, column));
            } else {
                let positions = column.nodes.iter().map(|n| self.position(*n)).collect();
                columns.push((slot, column.source, positions));
            }
        }
        let targets = self.targets(group, &harvested.stores);
        let order = self.order(group.units.len(), &columns, &targets);
        let mut tabled = Vec::new();
        let mut reads = Vec::new();
        for (slot, source, positions) in &columns {
            let index = self.index(&order, positions, &mut tabled);
            reads.push(Read {
                slot: *slot,
                source: *source,
                index,
            });
        }
        for (slot, column) in constants {
            let start = self.tables.constants.len();
            let value = |n: &u32| self.trace.arena.as_const(column.nodes[*n as usize]);
            let values = order.iter().map(|n| value(n).unwrap_or(0.0));
            self.tables.constants.extend(values);
            reads.push(Read {
                slot,
                source: Source::Constant,
                index: Index::Table { start, offset: 0 },
            });
        }
        let mut writes = Vec::new();
        for (root, (to, positions)) in harvested.stores.iter().zip(&targets).enumerate() {
            let index = match positions {
                Some(positions) => self.index(&order, positions, &mut tabled),
                None => self.allocate(group, root, &order),
            };
            writes.push(Write { to: *to, index });
        }
        self.groups.push(GroupLoop {
            level: group.level,
            members: group.units.len() as u32,
            template,
            locals,
            reads,
            writes,
        });
    }

    /// Positions of the outputs that members store; `None` for intermediates.
    fn targets(&self, group: &Group, stores: &[Source]) -> Vec<Option<Vec<i32>>> {
        let column =
            |root: usize| -> Option<Vec<i32>> {
                let positions = group.units.iter().map(|unit| {
                    match self.units.roots(*unit as usize)[root].home {
                        Home::Output { index, .. } => Some(index as i32),
                        Home::Intermediate => None,
                    }
                });
                positions.collect()
            };
        (0..stores.len()).map(column).collect()
    }

    /// The order of members: along their outputs, or else along what they read.
    fn order(
        &self,
        members: usize,
        columns: &[(u32, Source, Vec<i32>)],
        targets: &[Option<Vec<i32>>],
    ) -> Vec<u32> {
        let mut order: Vec<u32> = (0..members as u32).collect();
        if self.options.sort_members {
            let outputs = targets.iter().flatten();
            let mut keys = outputs.chain(columns.iter().map(|c| &c.2));
            let (first, second) = (keys.next(), keys.next());
            let at = |key: Option<&Vec<i32>>, n: u32| key.map_or(0, |k| k[n as usize]);
            order.sort_by_key(|n| (at(first, *n), at(second, *n)));
        }
        order
    }

    /// Consecutive positions for an intermediate of all members.
    fn allocate(&mut self, group: &Group, root: usize, order: &[u32]) -> Index {
        let first = self.intermediates;
        for (number, member) in order.iter().enumerate() {
            let unit = group.units[*member as usize] as usize;
            let node = self.units.roots(unit)[root].node;
            self.positions[node.at()] = (first + number) as u32;
        }
        self.intermediates += order.len();
        Index::Affine {
            first: first as i32,
            stride: 1,
        }
    }

    fn index(&mut self, order: &[u32], positions: &[i32], tabled: &mut Vec<Tabled>) -> Index {
        let sorted = || order.iter().map(|n| positions[*n as usize]);
        if self.options.coalesce {
            if let Some(affine) = affine(sorted()) {
                return affine;
            }
            let first = sorted().next().unwrap_or(0);
            for table in tabled.iter() {
                let offset = first.wrapping_sub(table.first);
                let known = &self.tables.indices[table.start..table.start + order.len()];
                let same = |(a, b): (&i32, i32)| a.checked_add(offset) == Some(b);
                if known.iter().zip(sorted()).all(same) {
                    let start = table.start;
                    return Index::Table { start, offset };
                }
            }
        }
        let start = self.tables.indices.len();
        self.tables.indices.extend(sorted());
        tabled.push(Tabled {
            start,
            first: self.tables.indices.get(start).copied().unwrap_or(0),
        });
        Index::Table { start, offset: 0 }
    }

    /// The loops and tables of all groups.
    pub fn finish(self) -> Analysis {
        Analysis {
            groups: self.groups,
            tables: self.tables,
            intermediates: self.intermediates,
            inputs: self.trace.inputs.clone(),
            outputs: self.trace.outputs.iter().map(|o| o.len() as u32).collect(),
            dissolved_blocks: 0,
            nodes: self.trace.arena.len(),
            local_decomposition: self.options.local_decomposition,
        }
    }
}

/// Positions at equal distances.
fn affine(mut positions: impl Iterator<Item = i32>) -> Option<Index> {
    let first = positions.next()?;
    let Some(second) = positions.next() else {
        return Some(Index::Affine { first, stride: 0 });
    };
    let stride = second.checked_sub(first)?;
    let mut last = second;
    for next in positions {
        if last.checked_add(stride) != Some(next) {
            return None;
        }
        last = next;
    }
    Some(Index::Affine { first, stride })
}

/// Slots that a template reads; simplification may have removed some.
fn used_slots(template: &Template, slots: usize) -> Vec<bool> {
    let mut used = vec![false; slots];
    for id in template.arena.ids() {
        if let Node::Input { index, .. } = template.arena.node(id) {
            used[index as usize] = true;
        }
    }
    used
}
