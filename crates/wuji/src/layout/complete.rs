//! What follows from a finished description: extents without bounds, origins, memory.

use super::node::State;
use super::{TreeBody, TreeShape, split};
use crate::world::World;
use cranelift_entity::PrimaryMap;
use smallvec::SmallVec;
use wuji_ir::entities;
use wuji_ir::layout::{Axis, FieldData, TreeData, TreeMemory};
use wuji_ir::types::Structs;
use wuji_ir::{Error, Position, Result};
use wuji_runtime::address::Address;

/// Checks a finished description, and reserves the memory of the tree.
pub(super) fn complete(world: &World, mut state: State, at: &Position) -> Result<TreeBody> {
    if let Some(error) = state.error.take() {
        return Err(error);
    }
    world.ensure_open()?;
    let fail = |error: Error| error.at(Some(at.clone()));
    if state.fields.is_empty() {
        return Err(fail(
            Error::new("W0105", "the layout places no field").help("use `place`"),
        ));
    }
    for (node, data) in state.data.nodes.iter() {
        if data.children.is_empty() && node != state.data.root() {
            let what = state.data.describe(node);
            return Err(fail(
                Error::new("W0105", format!("{what} holds nothing"))
                    .help("place a field in its cells, or leave the node out"),
            ));
        }
    }
    if !state.resolved {
        unbounded(&mut state).map_err(fail)?;
        origins(&mut state).map_err(fail)?;
    }
    let too_big = || {
        fail(
            Error::new("W0106", "the layout is larger than 2^62 bytes")
                .help("make the extents smaller"),
        )
    };
    let shape = TreeShape {
        data: state.data,
        fields: state.fields,
    };
    let mut structs = Structs::default();
    let tree = entities::Tree::from_u32(0);
    let fields = shape
        .describe(tree, &mut structs, &state.names)
        .collect::<PrimaryMap<entities::Field, FieldData>>();
    for ((data, name), placed) in fields.values().zip(&state.names).zip(&shape.fields) {
        if structs.size_align(data.elem).0 == 0 && !placed.view {
            let what = format!("field `{name}` has elements without a size");
            return Err(fail(Error::new("W0107", what).help(
                "give the element type a field; the cells of a node are `cells`",
            )));
        }
    }
    let memory = TreeMemory::of(&shape.data, &fields, &structs).ok_or_else(too_big)?;
    let mut domains: Vec<SmallVec<[(i64, u64); 3]>> = Vec::new();
    for (field, data) in fields.iter() {
        let mut domain = SmallVec::new();
        for (axis, from) in &data.axes {
            let extent = shape.data.extent(data.node, *axis);
            let past = i64::try_from(extent).ok().and_then(|e| from.checked_add(e));
            if past.is_none() {
                let name = &state.names[field.as_u32() as usize];
                return Err(fail(Error::new(
                    "W0104",
                    format!(
                        "the coordinates of field `{name}` along axis `{axis}` do not fit in 64 bits"
                    ),
                )));
            }
            domain.push((*from, extent));
        }
        domains.push(domain);
    }
    split::coordinates_agree(&shape, &domains, &state.names).map_err(fail)?;
    let sparse = shape.data.is_sparse();
    let addresses = if sparse {
        Vec::new()
    } else {
        fields
            .iter()
            .map(|(field, data)| Address::of(&shape.data, &memory, field, data))
            .collect()
    };
    let reserved = world.device().reserve_tree(&shape.data, &memory);
    let reserved = reserved.map_err(fail)?;
    reserved.set_names(&state.names);
    Ok(TreeBody {
        memory: reserved,
        layout: memory,
        shape: world.intern(shape),
        names: state.names,
        domains,
        addresses,
        unbounded: state.unbounded,
    })
}

/// Cells of the fields' nodes in one cell of `node`, along one axis.
fn below(data: &TreeData, node: entities::Node, field: entities::Node, axis: Axis) -> u64 {
    let path = data.path(field);
    let inside = path.iter().skip_while(|n| **n != node).skip(1);
    inside
        .flat_map(|n| &data.nodes[*n].extents)
        .filter(|e| e.0 == axis)
        .fold(1u64, |n, e| n.saturating_mul(e.1))
}

/// Gives hash nodes without bounds as many cells as all of `i32` takes, with zero in their middle.
///
/// What hangs below may split an axis into cells of different sizes; the smallest cells decide, so
/// that elements have every coordinate and larger things have those of their blocks.
fn unbounded(state: &mut State) -> Result<()> {
    for node in &state.unbounded {
        let axes: Vec<Axis> = state.data.nodes[*node]
            .extents
            .iter()
            .map(|e| e.0)
            .collect();
        for (k, axis) in axes.into_iter().enumerate() {
            let sizes: Vec<Option<u64>> = (state.fields.iter())
                .map(|f| {
                    let path = state.data.path(f.node);
                    path.contains(node)
                        .then(|| below(&state.data, *node, f.node, axis))
                })
                .collect();
            let most = sizes.iter().flatten().copied().max().unwrap_or(1).max(1);
            let half = (1u64 << 31).div_ceil(most);
            state.data.nodes[*node].extents[k].1 = 2 * half;
            for (n, size) in sizes.iter().enumerate() {
                let Some(size) = size else { continue };
                let place = state.fields[n].axes.iter_mut().find(|a| a.0 == axis);
                let Some((_, from)) = place else { continue };
                if *from != 0 {
                    let name = &state.names[n];
                    return Err(Error::new(
                        "W0104",
                        format!("field `{name}` has an offset along axis `{axis}`, which has no bounds"),
                    )
                    .note("below `hash(..)` a field has elements at every coordinate, negative ones too")
                    .help("leave the offset out, or use `hash_sized`"));
                }
                *from = i64::try_from(half.saturating_mul(*size))
                    .map(|f| -f)
                    .unwrap_or(i64::MIN);
            }
        }
    }
    Ok(())
}

/// Gives views the origin that makes block `b` of size `n` hold the elements `b * n ..`.
fn origins(state: &mut State) -> Result<()> {
    let hashed = |state: &State, node: entities::Node, axis: Axis| {
        state.data.path(node).iter().any(|n| {
            state.unbounded.contains(n) && state.data.nodes[*n].extents.iter().any(|e| e.0 == axis)
        })
    };
    for view in 0..state.fields.len() {
        if !state.fields[view].view || state.offset[view] {
            continue;
        }
        let node = state.fields[view].node;
        for k in 0..state.fields[view].axes.len() {
            let axis = state.fields[view].axes[k].0;
            if hashed(state, node, axis) {
                continue;
            }
            let mut origin: Option<(i64, usize)> = None;
            for (n, field) in state.fields.iter().enumerate() {
                if field.view || !state.data.path(field.node).contains(&node) {
                    continue;
                }
                let size = i64::try_from(below(&state.data, node, field.node, axis));
                let Some((_, from)) = field.axes.iter().find(|a| a.0 == axis) else {
                    continue;
                };
                let here = size.ok().filter(|s| from % s == 0).map(|s| from / s);
                let same = match (here, origin) {
                    (Some(here), Some((other, _))) => here == other,
                    (Some(_), None) => true,
                    (None, _) => false,
                };
                if let (true, Some(here)) = (same, here) {
                    origin.get_or_insert((here, n));
                    continue;
                }
                let (cells, name) = (&state.names[view], &state.names[n]);
                return Err(Error::new(
                    "W0124",
                    format!("the cells `{cells}` have no coordinates that go with those of field `{name}`"),
                )
                .note(match origin {
                    None => format!(
                        "the offset {from} along axis `{axis}` is in the middle of a cell"
                    ),
                    Some((_, other)) => format!(
                        "field `{}` in the same cells starts elsewhere along axis `{axis}`",
                        state.names[other]
                    ),
                })
                .help("say where the cells start: `.offset([..]).cells(..)`, counted in cells"));
            }
            state.fields[view].axes[k].1 = origin.map_or(0, |o| o.0);
        }
    }
    Ok(())
}
