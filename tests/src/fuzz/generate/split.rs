//! Split fields: components in the same node, or in nodes of their own with the same coordinates.

use super::Generator;
use wuji_ir::entities::{Field, Node, Tree};
use wuji_ir::layout::*;
use wuji_ir::types::Type;

impl Generator<'_> {
    /// A field whose components are fields; a plain one for scalars and views.
    pub(super) fn add_split(
        &mut self,
        (tree, node): (Tree, Node),
        axes: &[(Axis, i64)],
        elem: Type,
        tally: bool,
    ) -> Field {
        let types = self.m.structs.components(elem);
        if types.is_empty() || types.len() > 12 {
            return self.add_field((tree, node), axes, (elem, None), tally);
        }
        let mut components = Vec::new();
        for ty in types {
            let node = self.node_of_component(tree, node);
            components.push(if self.dice.chance(40) {
                self.add_split((tree, node), axes, ty, tally)
            } else {
                self.add_component((tree, node), axes, ty, tally)
            });
        }
        let node = self.m.fields[components[0]].node;
        let number = self.m.fields.len();
        let field = self.m.fields.push(FieldData {
            name: format!("x{number}"),
            elem,
            tree,
            node,
            axes: axes.iter().copied().collect(),
            packing: None,
            components,
        });
        let children = &mut self.m.trees[tree].nodes[node].children;
        children.push(Child::Place(field));
        // Its contents are those of the components.
        self.inputs.fields.push(Vec::new());
        field
    }

    /// A field that holds one component, sometimes packed.
    fn add_component(
        &mut self,
        (tree, node): (Tree, Node),
        axes: &[(Axis, i64)],
        elem: Type,
        tally: bool,
    ) -> Field {
        let free = self
            .open_word(tree, node)
            .is_none_or(|open| open.as_slice() == axes);
        let packing = if free && self.dice.chance(15) {
            self.packing((tree, node), axes, elem)
        } else {
            None
        };
        self.add_field((tree, node), axes, (elem, packing), tally)
    }

    /// A node, or another one beside it with the same extents.
    fn node_of_component(&mut self, tree: Tree, node: Node) -> Node {
        let data = self.m.trees[tree].nodes[node].clone();
        let kinds = match data.kind {
            NodeKind::Root | NodeKind::BitArray | NodeKind::Dynamic(_) => return node,
            NodeKind::Hash => vec![NodeKind::Hash],
            NodeKind::Dense => vec![NodeKind::Dense],
            NodeKind::Bitmasked | NodeKind::Pointer => {
                vec![NodeKind::Dense, NodeKind::Bitmasked, NodeKind::Pointer]
            }
        };
        let Some(parent) = data.parent.filter(|_| self.dice.chance(40)) else {
            return node;
        };
        let kind = *self.dice.pick(&kinds);
        let twin = self.m.trees[tree].add(parent, kind, &data.extents);
        self.m.trees[tree].nodes[twin].order = data.order;
        twin
    }
}
