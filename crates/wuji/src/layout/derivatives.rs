//! Derivatives of fields in layouts: beside the field, or in a tree of the same structure.

use super::node::State;
use super::{Node, PlacedField, TreeBody};
use crate::autodiff::Derivative;
use wuji_ir::entities;
use wuji_ir::layout::Child;
use wuji_ir::types::Structs;

impl Node<'_> {
    /// Places a gradient beside every field of floats that was placed below this node and has none: in the same cells.
    ///
    /// ```
    /// use wuji::prelude::*;
    /// # fn main() -> wuji::Result<()> {
    /// let world = World::interpreter()?;
    /// let (mass, velocity) = world.layout(|root| {
    ///     let cell = root.pointer(IJ, 16).dense(IJ, 8);
    ///     let fields = (cell.place::<f32, 2>("mass"), cell.place::<f32, 2>("velocity"));
    ///     root.lazy_grad();
    ///     fields
    /// })?;
    /// assert_eq!(mass.grad()?.tree(), velocity.tree());
    /// # Ok(())
    /// # }
    /// ```
    pub fn lazy_grad(self) -> Self {
        self.place_beside(Derivative::Adjoint)
    }

    /// The same for the dual of forward mode.
    pub fn lazy_dual(self) -> Self {
        self.place_beside(Derivative::Tangent(0))
    }

    fn place_beside(self, which: Derivative) -> Self {
        let state = &mut *self.build.state.borrow_mut();
        state.place_beside(self.node, which);
        self
    }
}

impl State {
    fn place_beside(&mut self, below: entities::Node, which: Derivative) {
        for n in 0..self.fields.len() {
            let field = entities::Field::from_u32(n as u32);
            let placed = &self.fields[n];
            let mut structs = Structs::default();
            let ty = placed.elem.enter(&mut structs);
            let linked = |(of, w, to): &(_, _, _)| (*of, *w) == (field, which) || *to == field;
            if placed.view
                || !structs.flatten(ty).iter().any(|s| s.is_float())
                || !self.data.path(placed.node).contains(&below)
                || self.links.iter().any(linked)
            {
                continue;
            }
            let name = format!("{}{}", self.names[n], which.suffix());
            let given = self.offset[n];
            let mut placed = placed.clone();
            placed.packing = None;
            placed.node = self.unpacked_node(placed.node);
            let target = self.add_field(placed, &name, given);
            self.links.push((field, which, target));
        }
    }

    /// A node for elements that are not packed: a dense one beside a bit array.
    fn unpacked_node(&mut self, node: entities::Node) -> entities::Node {
        let data = &self.data.nodes[node];
        match (data.kind.is_bit_array(), data.parent) {
            (true, Some(parent)) => {
                let extents = data.extents.clone();
                self.add_dense(parent, &extents)
            }
            _ => node,
        }
    }

    fn add_field(&mut self, placed: PlacedField, name: &str, offset: bool) -> entities::Field {
        let field = entities::Field::from_u32(self.fields.len() as u32);
        let children = &mut self.data.nodes[placed.node].children;
        children.push(Child::Place(field));
        self.fields.push(placed);
        self.names.push(name.to_owned());
        self.offset.push(offset);
        field
    }

    /// A tree with the nodes above a field of a complete one, and a field like it.
    pub(crate) fn like(body: &TreeBody, field: entities::Field, name: &str) -> State {
        let (shape, mut state) = (&body.shape, State::default());
        let placed = &shape.fields[field.as_u32() as usize];
        let mut node = state.data.root();
        for above in shape.data.path(placed.node).into_iter().skip(1) {
            let data = &shape.data.nodes[above];
            node = if data.kind.is_bit_array() {
                state.add_dense(node, &data.extents)
            } else {
                state.data.add(node, data.kind, &data.extents)
            };
            state.data.nodes[node].order = data.order;
            if body.unbounded.contains(&above) {
                state.unbounded.push(node);
            }
        }
        let placed = PlacedField {
            node,
            packing: None,
            ..placed.clone()
        };
        state.add_field(placed, name, true);
        state.resolved = true;
        state
    }
}
