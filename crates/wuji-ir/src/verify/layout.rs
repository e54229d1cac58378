//! Verifies layout trees and fields.

use super::tables;
use crate::diag::{Error, Result};
use crate::entities::*;
use crate::layout::*;
use crate::module::{MAX_NESTING, Module};

fn wrong(why: String) -> Error {
    Error::new("W0022", why)
}

pub(super) fn trees(m: &Module) -> Result<()> {
    m.trees.keys().try_for_each(|tree| links(m, tree))
}

/// Parents precede their children; links between them are consistent; extents are valid.
fn links(m: &Module, tree: Tree) -> Result<()> {
    let nodes = &m.trees[tree].nodes;
    let mut depths: Vec<usize> = Vec::new();
    for (node, data) in nodes {
        let name = format!("{tree}.{node}");
        let is_first = node.as_u32() == 0;
        if is_first != data.kind.is_root() || is_first != data.parent.is_none() {
            return Err(wrong(format!(
                "{name}: the first node, and only it, is the root"
            )));
        }
        let depth = match data.parent {
            None => 0,
            Some(parent) if parent < node => depths[parent.as_u32() as usize] + 1,
            Some(parent) => {
                return Err(wrong(format!("{name} comes before its parent {parent}")));
            }
        };
        if depth > MAX_NESTING {
            return Err(wrong(format!(
                "nodes nest at most {MAX_NESTING} deep: {name}"
            )));
        }
        depths.push(depth);
        if let Some(parent) = data.parent {
            let mentions = nodes[parent].children.iter();
            if mentions.filter(|c| **c == Child::Node(node)).count() != 1 {
                return Err(wrong(format!(
                    "{name} is not exactly once among the children of its parent {parent}"
                )));
            }
        }
        for child in &data.children {
            match *child {
                Child::Node(n) if nodes.get(n).is_none_or(|d| d.parent != Some(node)) => {
                    return Err(wrong(format!("{name} has a child {n} that is not its own")));
                }
                Child::Place(f) if !m.fields.is_valid(f) => {
                    return Err(wrong(format!("{name} places {f}, which is not defined")));
                }
                Child::Node(_) | Child::Place(_) => {}
            }
        }
        extents(&name, data)?;
    }
    if nodes.is_empty() {
        return Err(wrong(format!("{tree} has no root")));
    }
    nodes.keys().try_for_each(|node| kind(m, tree, node))
}

/// A node is where its kind allows, and splits what its kind allows. Parents, children and extents are valid.
fn kind(m: &Module, tree: Tree, node: Node) -> Result<()> {
    let data = &m.trees[tree].nodes[node];
    let name = format!("{tree}.{node}");
    let format = data.kind.format();
    format.verify(&m.trees[tree], node, &name)?;
    if data.order == CellOrder::RowMajor {
        return Ok(());
    }
    if !format.supports_morton() {
        return Err(wrong(format!(
            "{name}: cells of a {} node cannot be in Morton order",
            format.name()
        )));
    }
    match data.extents.iter().find(|e| !e.1.is_power_of_two()) {
        None => Ok(()),
        Some((axis, extent)) => Err(wrong(format!(
            "{name} is in Morton order, but its extent {extent} along axis {axis} is not a power of two"
        ))),
    }
}

fn extents(name: &str, data: &NodeData) -> Result<()> {
    for (k, (axis, extent)) in data.extents.iter().enumerate() {
        if data.extents[..k].iter().any(|e| e.0 == *axis) {
            return Err(wrong(format!("{name} splits axis {axis} twice")));
        }
        if *extent == 0 {
            return Err(wrong(format!(
                "{name} has extent 0 along axis {axis}; extents are at least 1"
            )));
        }
    }
    Ok(())
}

pub(super) fn fields(m: &Module) -> Result<()> {
    for (id, field) in &m.fields {
        tables::ty(m, field.elem, || format!("field {id}"))?;
        let Some(tree) = m.trees.get(field.tree) else {
            return Err(misplaced(id, format!("{} is not defined", field.tree)));
        };
        if !tree.nodes.is_valid(field.node) {
            let why = format!("{}.{} is not defined", field.tree, field.node);
            return Err(misplaced(id, why));
        }
        axes(id, field, tree)?;
        size(id, field, tree)?;
    }
    placements(m)?;
    for (id, tree) in &m.trees {
        if TreeMemory::of(tree, &m.fields, &m.structs).is_none() {
            return Err(wrong(format!("{id} needs more than 2^62 bytes")));
        }
    }
    Ok(())
}

fn misplaced(field: Field, why: String) -> Error {
    Error::new("W0023", format!("field {field}: {why}"))
}

/// The indices of a field run along the axes that its path splits, each once.
fn axes(id: Field, field: &FieldData, tree: &TreeData) -> Result<()> {
    let path = tree.path(field.node);
    let splits = |axis: Axis| {
        path.iter()
            .any(|n| tree.nodes[*n].extents.iter().any(|e| e.0 == axis))
    };
    for (k, (axis, _)) in field.axes.iter().enumerate() {
        if field.axes[..k].iter().any(|a| a.0 == *axis) {
            return Err(misplaced(id, format!("two indices run along axis {axis}")));
        }
        if !splits(*axis) {
            let why = format!("no node above it splits axis {axis}");
            return Err(misplaced(id, why));
        }
    }
    for axis in (0..Axis::COUNT).filter_map(Axis::new) {
        if splits(axis) && field.axes.iter().all(|a| a.0 != axis) {
            let why = format!("a node above it splits axis {axis}, but no index runs along it");
            return Err(misplaced(id, why));
        }
    }
    Ok(())
}

/// The cells can be counted and every coordinate written in 64 bits.
fn size(id: Field, field: &FieldData, tree: &TreeData) -> Result<()> {
    let extents = field.axes.iter().map(|a| tree.extent(field.node, a.0));
    let cells = extents.fold(1u64, |n, extent| n.saturating_mul(extent));
    // Only the active cells of a sparse tree are ever counted.
    if i64::try_from(cells).is_err() && tree.sparse_path(field.node).is_empty() {
        return Err(misplaced(id, "it has more than 2^63 - 1 cells".into()));
    }
    for (axis, from) in &field.axes {
        let extent = tree.extent(field.node, *axis);
        if i64::try_from(extent).is_err() {
            let why = format!("its extent along axis {axis} is more than 2^63 - 1");
            return Err(misplaced(id, why));
        }
        let last = i128::from(*from) + i128::from(tree.extent(field.node, *axis)) - 1;
        if i64::try_from(last).is_err() {
            let why =
                format!("the last coordinate along axis {axis}, {last}, does not fit 64 bits");
            return Err(misplaced(id, why));
        }
    }
    Ok(())
}

/// Every field is placed once, where it says.
fn placements(m: &Module) -> Result<()> {
    let mut found: Vec<Option<(Tree, Node)>> = vec![None; m.fields.len()];
    for (t, tree) in &m.trees {
        for (n, node) in &tree.nodes {
            for child in &node.children {
                let Child::Place(f) = *child else { continue };
                if let Some((t0, n0)) = found[f.as_u32() as usize].replace((t, n)) {
                    let why = format!("it is placed twice, in {t0}.{n0} and in {t}.{n}");
                    return Err(misplaced(f, why));
                }
            }
        }
    }
    for (id, field) in &m.fields {
        let says = (field.tree, field.node);
        match found[id.as_u32() as usize] {
            Some(place) if place == says => {}
            Some((t, n)) => {
                let why = format!("it is in {}.{} but placed in {t}.{n}", says.0, says.1);
                return Err(misplaced(id, why));
            }
            None => {
                let why = format!("it is in {}.{} but placed nowhere", says.0, says.1);
                return Err(misplaced(id, why));
            }
        }
    }
    Ok(())
}
