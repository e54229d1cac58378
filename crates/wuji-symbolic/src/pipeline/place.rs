//! Positions in memory: members are sorted, intermediates get positions, columns become tables or affine expressions.

use super::decompose::{Home, Units};
use super::group::{Group, Source};
use super::harvest::{Column, Harvested, Template};
use super::{Analysis, Options};
use crate::arena::{Id, Node};
use crate::parallel;
use crate::trace::Trace;
use std::borrow::Cow;

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
    /// Positions of intermediates, by root.
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
            positions: vec![0; units.root_count()],
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
            Home::Intermediate => self.positions[self.units.root_of(node)],
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
        let slots = (0..).zip(&harvested.columns);
        let (constants, loads): (Vec<Slot<'_>>, Vec<Slot<'_>>) = slots
            .filter(|(slot, _)| used[*slot as usize])
            .partition(|(_, column)| column.source == Source::Constant);
        let members = group.units.len();
        let columns = each(members, &loads, |(_, column)| {
            column.nodes.iter().map(|n| self.position(*n)).collect()
        });
        let targets = self.targets(group, &harvested.stores);
        let order = self.order(members, &columns, &targets);
        let columns = each(members, &columns, |c| order.apply(c));
        let targets = each(members, &targets, |t| t.as_ref().map(|t| order.apply(t)));
        let mut tabled = Vec::new();
        let mut reads = Vec::new();
        for ((slot, column), positions) in loads.iter().zip(&columns) {
            reads.push(Read {
                slot: *slot,
                source: column.source,
                index: self.index(positions, &mut tabled),
            });
        }
        for (slot, column) in constants {
            let start = self.tables.constants.len();
            let value = |n: &Id| self.trace.arena.as_const(*n).unwrap_or(0.0);
            let nodes = order.apply(&column.nodes);
            self.tables.constants.extend(nodes.iter().map(value));
            reads.push(Read {
                slot,
                source: Source::Constant,
                index: Index::Table { start, offset: 0 },
            });
        }
        let mut writes = Vec::new();
        for (root, (to, positions)) in harvested.stores.iter().zip(&targets).enumerate() {
            let index = match positions {
                Some(positions) => self.index(positions, &mut tabled),
                None => self.allocate(group, root, &order),
            };
            writes.push(Write { to: *to, index });
        }
        self.groups.push(GroupLoop {
            level: group.level,
            members: members as u32,
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
    fn order(&self, members: usize, columns: &[Vec<i32>], targets: &[Option<Vec<i32>>]) -> Order {
        if !self.options.sort_members {
            return Order(None);
        }
        let mut keys = targets.iter().flatten().chain(columns);
        let (first, second) = (keys.next(), keys.next());
        let at = |key: Option<&Vec<i32>>, n: usize| key.map_or(0, |k| k[n]);
        let key = |n: usize| (at(first, n), at(second, n));
        if (0..members).is_sorted_by_key(key) {
            return Order(None);
        }
        // Members with equal keys stay in their order.
        let mut keys: Vec<((i32, i32), u32)> = (0..members).map(|n| (key(n), n as u32)).collect();
        keys.sort_unstable();
        Order(Some(keys.into_iter().map(|k| k.1).collect()))
    }

    /// Consecutive positions for an intermediate of all members.
    fn allocate(&mut self, group: &Group, root: usize, order: &Order) -> Index {
        let first = self.intermediates;
        for (number, unit) in order.apply(&group.units).iter().enumerate() {
            let root = self.units.root_range(*unit as usize).start + root;
            self.positions[root] = (first + number) as u32;
        }
        self.intermediates += group.units.len();
        Index::Affine {
            first: first as i32,
            stride: 1,
        }
    }

    fn index(&mut self, positions: &[i32], tabled: &mut Vec<Tabled>) -> Index {
        let first = positions.first().copied().unwrap_or(0);
        if self.options.coalesce {
            if let Some(affine) = affine(positions) {
                return affine;
            }
            for table in tabled.iter() {
                let offset = first.wrapping_sub(table.first);
                let known = &self.tables.indices[table.start..table.start + positions.len()];
                let same = |(a, b): (&i32, &i32)| a.checked_add(offset) == Some(*b);
                if known.iter().zip(positions).all(same) {
                    let start = table.start;
                    return Index::Table { start, offset };
                }
            }
        }
        let start = self.tables.indices.len();
        self.tables.indices.extend_from_slice(positions);
        tabled.push(Tabled { start, first });
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

/// A slot of a template and its leaves.
type Slot<'a> = (u32, &'a Column);

/// An order of the members of a group; `None` for the order that they have.
struct Order(Option<Vec<u32>>);

impl Order {
    fn apply<'c, T: Copy>(&self, column: &'c [T]) -> Cow<'c, [T]> {
        match &self.0 {
            Some(order) => order.iter().map(|n| column[*n as usize]).collect(),
            None => Cow::Borrowed(column),
        }
    }
}

/// A thread works on at least so many elements.
const LEAST: usize = 1 << 16;

/// Works on columns of so many members, on all cores.
fn each<'c, T: Sync, R: Send>(
    members: usize,
    columns: &'c [T],
    work: impl Fn(&'c T) -> R + Sync,
) -> Vec<R> {
    let least = LEAST.div_ceil(members.max(1));
    let parts = parallel::parts(columns.len(), least, |range| {
        columns[range].iter().map(&work).collect::<Vec<R>>()
    });
    parts.into_iter().flatten().collect()
}

/// Positions at equal distances.
fn affine(positions: &[i32]) -> Option<Index> {
    let first = *positions.first()?;
    let stride = match positions.get(1) {
        Some(second) => second.checked_sub(first)?,
        None => 0,
    };
    let equal = |pair: &[i32]| pair[0].checked_add(stride) == Some(pair[1]);
    let all = positions.windows(2).all(equal);
    all.then_some(Index::Affine { first, stride })
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
