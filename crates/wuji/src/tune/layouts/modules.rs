//! Searches for kernels in textual IR: the trees whose layout can be chosen, and modules with other layouts.

use super::choice::{LayoutChoice, Level, Placement};
use super::search::{GridInfo, LayoutPlan};
use crate::tune::modules::field_name;
use wuji_ir::entities::{Field, Node, Tree};
use wuji_ir::layout::{Axis, Child, FieldData, TreeData};
use wuji_ir::module::Module;
use wuji_ir::{Error, Result};

/// The trees whose layout can be chosen: all fields have the same axes and extents, memory of their own, and no list above them.
pub fn grids(m: &Module) -> Vec<GridInfo> {
    m.trees.keys().filter_map(|tree| grid(m, tree)).collect()
}

fn grid(m: &Module, tree: Tree) -> Option<GridInfo> {
    let data = &m.trees[tree];
    let fields: Vec<Field> = fields(m, tree);
    let extents = |f: &Field| -> Vec<(Axis, u64)> {
        let field = &m.fields[*f];
        let mut extents: Vec<(Axis, u64)> = (field.axes.iter())
            .map(|(axis, _)| (*axis, data.extent(field.node, *axis)))
            .collect();
        extents.sort_by_key(|e| e.0);
        extents
    };
    let first = extents(fields.first()?);
    let plain = |f: &Field| {
        let field = &m.fields[*f];
        field.has_memory() && m.structs.size_align(field.elem).0 > 0 && extents(f) == first
    };
    let lists = data.nodes.keys().any(|n| data.list_axis(n).is_some());
    let bits = data.nodes.values().any(|n| n.kind.is_bit_array());
    if first.is_empty() || lists || bits || !fields.iter().all(plain) {
        return None;
    }
    Some(GridInfo {
        name: tree.to_string(),
        extents: first,
        sparse: data.is_sparse(),
        // Scripts cannot give the elements of split fields below sparse nodes.
        fields: (fields.iter())
            .map(|f| {
                let compound = m.structs.arity(m.fields[*f].elem) > 0 && !data.is_sparse();
                (field_name(m, *f), compound)
            })
            .collect(),
        original: Some(described(data)),
    })
}

fn fields(m: &Module, tree: Tree) -> Vec<Field> {
    let fields = m.fields.iter().filter(|(_, f)| f.tree == tree);
    fields.map(|(id, _)| id).collect()
}

/// The nodes of a tree from the root to the leaves: `pointer > dense`.
fn described(data: &TreeData) -> String {
    let deepest = data.nodes.keys().max_by_key(|n| data.path(*n).len());
    let path = deepest.map_or(Vec::new(), |n| data.path(n));
    let kinds = path.iter().skip(1).map(|n| {
        let node = &data.nodes[*n];
        let extents: Vec<String> = node.extents.iter().map(|e| e.1.to_string()).collect();
        format!("{} {}", node.kind.name(), extents.join("x"))
    });
    kinds.collect::<Vec<_>>().join(" > ")
}

/// The module with the layouts of a plan. Fields keep their numbers.
pub fn relayout(m: &Module, plan: &LayoutPlan) -> Result<Module> {
    let mut m = m.clone();
    for (name, choice) in &plan.grids {
        let grids = grids(&m);
        let grid = grids.iter().find(|g| g.name == *name);
        let tree = m.trees.keys().find(|t| t.to_string() == *name);
        let levels = grid.and_then(|g| choice.levels(&g.extents));
        let (Some(tree), Some((outer, inner))) = (tree, levels) else {
            return Err(Error::new(
                "W0160",
                format!("the layout of `{name}` cannot be chosen"),
            ));
        };
        replace(&mut m, tree, *choice, (outer.as_ref(), &inner));
    }
    Ok(m)
}

fn replace(
    m: &mut Module,
    tree: Tree,
    choice: LayoutChoice,
    (outer, inner): (Option<&Level>, &Level),
) {
    let fields = fields(m, tree);
    let mut data = TreeData::default();
    let root = data.root();
    let top = outer.map_or(root, |outer| add(&mut data, root, outer));
    let together = (choice.placement == Placement::Together).then(|| add(&mut data, top, inner));
    for field in fields {
        let parts = match choice.placement {
            Placement::Components => m.structs.components(m.fields[field].elem),
            Placement::Together | Placement::Apart => Vec::new(),
        };
        let mut components = Vec::new();
        for (k, ty) in parts.into_iter().enumerate() {
            let node = add(&mut data, top, inner);
            let whole = &m.fields[field];
            let part = FieldData {
                name: format!("{}.{k}", whole.name),
                elem: ty,
                node,
                ..whole.clone()
            };
            let id = m.fields.push(part);
            data.nodes[node].children.push(Child::Place(id));
            components.push(id);
        }
        let lead = components.first().map(|c| m.fields[*c].node);
        let node = together
            .or(lead)
            .unwrap_or_else(|| add(&mut data, top, inner));
        data.nodes[node].children.push(Child::Place(field));
        m.fields[field].node = node;
        m.fields[field].components = components;
    }
    m.trees[tree] = data;
}

fn add(data: &mut TreeData, above: Node, level: &Level) -> Node {
    let node = data.add(above, level.node.kind(), &level.extents);
    data.nodes[node].order = level.order;
    node
}
