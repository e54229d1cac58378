//! Active cells of trees: `docs/ir.md` section 3.1 as sets of coordinates. Never computes an address; of a
//! node's kind, only its `Activity` matters.

use super::error::{NOT_INSIDE, NOT_RUNNABLE};
use super::launch::Launch;
use super::store::{FieldStore, Relative};
use super::{Memory, compute::reported};
use crate::Result;
use crate::entities::{Field, Node, Tree, Value};
use crate::infer::dynamic_index;
use crate::layout::{Activity, Axis, TreeData};
use crate::module::{InstData, Module, SiteKind, Span};
use crate::ops::{Activation, CellOp, Place};
use crate::types::Imm;
use cranelift_entity::PrimaryMap;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// The coordinates of a cell along the axes that are split on the path to it, in order; for a list, those of
/// its container.
type Key = SmallVec<[u64; 4]>;

/// The active cells of one tree. A cell is active only if its parent's cell is.
#[derive(Clone, Debug)]
pub(super) struct TreeCells {
    nodes: PrimaryMap<Node, Active>,
}

#[derive(Clone, Debug)]
enum Active {
    /// All cells whose parent's cell is active.
    Inherited,
    Cells(FxHashSet<Key>),
    /// Lengths of nonempty lists.
    Lists(FxHashMap<Key, u64>),
}

/// Maps cell coordinates to keys of the cells above.
#[derive(Clone, Debug)]
struct Projection {
    /// For each coordinate of the key: the index of the coordinate, and its divisor.
    parts: SmallVec<[(usize, u64); 4]>,
}

impl Projection {
    /// From coordinates of cells of `from` along `axes` to keys of `to`, which is on the path there.
    fn new(tree: &TreeData, axes: &[Axis], from: Node, to: Node) -> Projection {
        let path = tree.path(from);
        let start = path.iter().position(|n| *n == to).map_or(0, |k| k + 1);
        let parts = key_axes(tree, to)
            .into_iter()
            .filter_map(|axis| {
                let below = path[start..]
                    .iter()
                    .flat_map(|n| &tree.nodes[*n].extents)
                    .filter(|e| e.0 == axis)
                    .map(|e| e.1)
                    .product();
                let at = axes.iter().position(|a| *a == axis)?;
                Some((at, below))
            })
            .collect();
        Projection { parts }
    }

    fn key(&self, coords: &[u64]) -> Key {
        self.parts.iter().map(|(k, by)| coords[*k] / by).collect()
    }
}

/// The axes of the keys of a node: all on the path to it, except the one along a list.
fn key_axes(tree: &TreeData, node: Node) -> Vec<Axis> {
    let mut axes = tree.axes(node);
    if let Some(list) = tree.list_axis(node) {
        axes.retain(|a| *a != list);
    }
    axes
}

/// The sparse nodes on the path to the elements of a field.
#[derive(Clone, Debug)]
pub(super) struct Route {
    tree: Tree,
    node: Node,
    hops: Vec<Hop>,
}

#[derive(Clone, Debug)]
struct Hop {
    node: Node,
    projection: Projection,
    /// Of a list: the index that runs along it, and its capacity.
    list: Option<(usize, u64)>,
}

impl Route {
    pub(super) fn new(m: &Module, field: Field) -> Route {
        let data = &m.fields[field];
        let tree = &m.trees[data.tree];
        let axes: Vec<Axis> = data.axes.iter().map(|a| a.0).collect();
        let hops = tree
            .sparse_path(data.node)
            .into_iter()
            .map(|node| {
                let along = tree.list_axis(node);
                let index = along.and_then(|a| axes.iter().position(|b| *b == a));
                Hop {
                    node,
                    projection: Projection::new(tree, &axes, data.node, node),
                    list: index.map(|k| (k, tree.nodes[node].cells())),
                }
            })
            .collect();
        Route {
            tree: data.tree,
            node: data.node,
            hops,
        }
    }

    pub(super) fn is_sparse(&self) -> bool {
        !self.hops.is_empty()
    }
}

impl TreeCells {
    pub(super) fn new(tree: &TreeData) -> TreeCells {
        let nodes = tree
            .nodes
            .values()
            .map(|n| match n.kind.format().activity() {
                Activity::Inherited => Active::Inherited,
                Activity::Individual => Active::Cells(FxHashSet::default()),
                Activity::Prefix => Active::Lists(FxHashMap::default()),
            });
        TreeCells {
            nodes: nodes.collect(),
        }
    }

    /// Whether two trees have nodes of the same activities.
    pub(super) fn fits(&self, other: &TreeCells) -> bool {
        self.nodes.len() == other.nodes.len()
            && self.nodes.values().zip(other.nodes.values()).all(|(a, b)| {
                matches!(
                    (a, b),
                    (Active::Inherited, Active::Inherited)
                        | (Active::Cells(_), Active::Cells(_))
                        | (Active::Lists(_), Active::Lists(_))
                )
            })
    }

    pub(super) fn exists(&self, route: &Route, at: &[u64]) -> bool {
        route.hops.iter().all(|hop| {
            let key = hop.projection.key(at);
            match (&self.nodes[hop.node], hop.list) {
                (Active::Cells(cells), _) => cells.contains(&key),
                (Active::Lists(lists), Some((along, _))) => {
                    lists.get(&key).is_some_and(|length| at[along] < *length)
                }
                (Active::Lists(_), None) | (Active::Inherited, _) => true,
            }
        })
    }

    pub(super) fn activate(&mut self, route: &Route, at: &[u64]) {
        self.activate_path(&route.hops, at);
    }

    fn activate_path(&mut self, hops: &[Hop], at: &[u64]) {
        for hop in hops {
            let key = hop.projection.key(at);
            match (&mut self.nodes[hop.node], hop.list) {
                (Active::Cells(cells), _) => {
                    cells.insert(key);
                }
                (Active::Lists(lists), Some((along, _))) => {
                    let length = lists.entry(key).or_default();
                    *length = (*length).max(at[along] + 1);
                }
                (Active::Lists(_), None) | (Active::Inherited, _) => {}
            }
        }
    }

    /// The length of the list that contains an element, for any coordinate along it.
    fn length(&self, route: &Route, at: &[u64]) -> u64 {
        let last = route.hops.last();
        match last.map(|hop| (&self.nodes[hop.node], hop.projection.key(at))) {
            Some((Active::Lists(lists), key)) => lists.get(&key).copied().unwrap_or(0),
            Some((Active::Cells(_) | Active::Inherited, _)) | None => 0,
        }
    }

    /// The index of a new cell; `None` if the list is full.
    fn append(&mut self, route: &Route, at: &[u64]) -> Option<u64> {
        let (hop, above) = route.hops.split_last()?;
        self.activate_path(above, at);
        let (_, capacity) = hop.list?;
        let Active::Lists(lists) = &mut self.nodes[hop.node] else {
            return None;
        };
        let length = lists.entry(hop.projection.key(at)).or_default();
        if *length == capacity {
            return None;
        }
        *length += 1;
        Some(*length - 1)
    }

    /// Removes the cell of an element, or its list; returns its key if it was active.
    fn remove(&mut self, route: &Route, at: &[u64]) -> Option<Key> {
        let hop = route.hops.last().filter(|hop| hop.node == route.node)?;
        let key = hop.projection.key(at);
        let found = match &mut self.nodes[hop.node] {
            Active::Cells(cells) => cells.remove(&key),
            Active::Lists(lists) => lists.remove(&key).is_some(),
            Active::Inherited => false,
        };
        found.then_some(key)
    }

    /// Removes all cells of the nodes below a cell.
    fn remove_below(&mut self, tree: &TreeData, node: Node, key: &Key) {
        for (other, active) in &mut self.nodes {
            if other == node || !tree.path(other).contains(&node) {
                continue;
            }
            let up = Projection::new(tree, &key_axes(tree, other), other, node);
            match active {
                Active::Inherited => {}
                Active::Cells(cells) => cells.retain(|k| up.key(k) != *key),
                Active::Lists(lists) => lists.retain(|k, _| up.key(k) != *key),
            }
        }
    }

    /// Coordinates of the active cells of a field, relative to the smallest, in row-major order; `None` if
    /// there are too many.
    pub(super) fn active(&self, route: &Route, extents: &[u64]) -> Option<Vec<Relative>> {
        const MOST: usize = 1 << 24;
        let mut found: Vec<Relative> = Vec::new();
        let hop = route.hops.last()?;
        let mut add = |key: &Key, along: Option<(usize, u64)>| -> Option<()> {
            // Start and length along each index.
            let mut ranges: SmallVec<[(u64, u64); 4]> = extents.iter().map(|e| (0, *e)).collect();
            for ((index, below), k) in hop.projection.parts.iter().zip(key) {
                ranges[*index] = (k * below, *below);
            }
            if let Some((index, length)) = along {
                ranges[index] = (0, length);
            }
            let count = ranges.iter().fold(1u64, |n, r| n.saturating_mul(r.1));
            if count > (MOST - found.len()) as u64 {
                return None;
            }
            for mut number in 0..count {
                let mut at: Relative = ranges.iter().map(|r| r.0).collect();
                for (c, (_, extent)) in at.iter_mut().zip(&ranges).rev() {
                    *c += number % extent;
                    number /= extent;
                }
                found.push(at);
            }
            Some(())
        };
        match &self.nodes[hop.node] {
            Active::Cells(cells) => cells.iter().try_for_each(|key| add(key, None))?,
            Active::Lists(lists) => lists
                .iter()
                .try_for_each(|(key, length)| add(key, hop.list.map(|(k, _)| (k, *length))))?,
            Active::Inherited => {}
        }
        found.sort_unstable();
        Some(found)
    }
}

/// Deactivates the cell of an element, with everything below it.
fn deactivate(
    m: &Module,
    cells: &mut TreeCells,
    routes: &PrimaryMap<Field, Route>,
    fields: &mut PrimaryMap<Field, FieldStore>,
    field: Field,
    at: &[u64],
) {
    let route = &routes[field];
    let Some(key) = cells.remove(route, at) else {
        return;
    };
    cells.remove_below(&m.trees[route.tree], route.node, &key);
    for (other, store) in fields.iter_mut() {
        let below = &routes[other];
        if below.tree != route.tree {
            continue;
        }
        if let Some(hop) = below.hops.iter().find(|hop| hop.node == route.node) {
            store.remove(|at| hop.projection.key(at) == key);
        }
    }
}

impl Launch<'_, '_> {
    /// Activates the cell of an element, or tests whether it is active, before an access. `false` if the
    /// access is to be dropped.
    pub(super) fn reach(
        &mut self,
        field: Field,
        at: &Relative,
        activation: Activation,
        writes: bool,
        span: Span,
    ) -> Result<bool> {
        let Memory::Abstract { cells, routes, .. } = &mut self.machine.memory else {
            return Ok(true);
        };
        let route = &routes[field];
        if !route.is_sparse() {
            return Ok(true);
        }
        let cells = &mut cells[route.tree];
        match activation {
            Activation::IfAbsent if writes => cells.activate(route, at),
            // Inactive elements read as zero.
            Activation::IfAbsent | Activation::Never => {
                return Ok(!writes || cells.exists(route, at));
            }
            Activation::KnownActive => {
                if !cells.exists(route, at) {
                    let why = format!("an element of {field} known to be active is not");
                    let note = format!("coordinates from the smallest: {at:?}");
                    return Err(self.error(NOT_INSIDE, why, span).note(note));
                }
            }
        }
        Ok(true)
    }

    pub(super) fn cell(
        &mut self,
        data: &InstData,
        op: CellOp,
        field: Field,
        span: Span,
    ) -> Result<()> {
        let m = self.machine.module;
        let int = |v: &Value| self.scalar(*v).as_int().unwrap_or(0);
        let mut indices: SmallVec<[i128; 4]> = data.args.iter().map(int).collect();
        if let CellOp::Append | CellOp::Length = op {
            // Any coordinate along the list will do; the smallest is in range.
            let along = dynamic_index(m, field).map_err(|e| self.error(NOT_RUNNABLE, e, span))?;
            indices.insert(along, i128::from(m.fields[field].axes[along].1));
        }
        let given = indices.clone();
        let checks_reads = self.machine.config.check_reads;
        let Memory::Abstract {
            fields,
            cells,
            routes,
            ..
        } = &mut self.machine.memory
        else {
            let why = "lowered memory has no abstract cells";
            return Err(self.error(NOT_RUNNABLE, why, span));
        };
        let route = &routes[field];
        let located = fields[field].domain.locate(&indices);
        let cells = &mut cells[route.tree];
        let mut problem = None;
        let result = match (op, located) {
            (CellOp::IsActive | CellOp::Length | CellOp::Deactivate, None) if checks_reads => {
                let place = Place::Field(field);
                let kind = if op == CellOp::Deactivate {
                    SiteKind::OutOfRange(place)
                } else {
                    SiteKind::ReadOutOfRange(place)
                };
                problem = Some((kind, given.into_iter().map(reported).collect()));
                (op != CellOp::Deactivate).then_some(0)
            }
            (CellOp::IsActive, at) => {
                Some(i128::from(at.is_some_and(|at| cells.exists(route, &at))))
            }
            (CellOp::Length, at) => Some(at.map_or(0, |at| i128::from(cells.length(route, &at)))),
            (CellOp::Deactivate | CellOp::DeactivateChunk, None) => None,
            (CellOp::Deactivate | CellOp::DeactivateChunk, Some(at)) => {
                for leaf in m.leaves(field) {
                    deactivate(m, cells, routes, fields, leaf.field, &at);
                }
                None
            }
            (CellOp::Activate, Some(at)) => {
                for leaf in m.leaves(field) {
                    cells.activate(&routes[leaf.field], &at);
                }
                None
            }
            (CellOp::Append, Some(at)) => Some(match cells.append(route, &at) {
                Some(number) => i128::from(number),
                None => {
                    let capacity = route.hops.last().and_then(|hop| hop.list);
                    let capacity = i128::from(capacity.map_or(0, |l| l.1));
                    problem = Some((SiteKind::ListFull(field), vec![reported(capacity)]));
                    -1
                }
            }),
            (CellOp::Activate | CellOp::Append, None) => {
                let values = given.into_iter().map(reported).collect();
                problem = Some((SiteKind::OutOfRange(Place::Field(field)), values));
                (op == CellOp::Append).then_some(-1)
            }
        };
        if let Some((kind, values)) = problem {
            self.report(kind, span, values);
        }
        if let (Some(value), Some(result)) = (result, data.results.first()) {
            match op {
                CellOp::IsActive => self.set_scalar(*result, Imm::bool(value != 0)),
                CellOp::Append
                | CellOp::Length
                | CellOp::Activate
                | CellOp::Deactivate
                | CellOp::DeactivateChunk => {
                    self.set_int(*result, value);
                }
            }
        }
        Ok(())
    }
}
