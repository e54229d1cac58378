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
            self.place_derivative(field, which);
        }
    }

    /// Places a derivative of a field in the same cells, unless it has one; gives it. Components of a split field get
    /// theirs first.
    fn place_derivative(&mut self, field: entities::Field, which: Derivative) -> entities::Field {
        let known = self.links.iter().find(|l| (l.0, l.1) == (field, which));
        if let Some((_, _, target)) = known {
            return *target;
        }
        let n = field.as_u32() as usize;
        let components = self.fields[n].components.clone();
        let components = components.into_iter();
        let components = components
            .map(|c| self.place_derivative(c, which))
            .collect();
        let name = format!("{}{}", self.names[n], which.suffix());
        let given = self.offset[n];
        let mut placed = self.fields[n].clone();
        placed.packing = None;
        placed.components = components;
        placed.node = self.unpacked_node(&placed);
        let target = self.add_field(placed, &name, given);
        self.links.push((field, which, target));
        target
    }

    /// A node for elements that are not packed: a dense one beside a bit array; that of the first component of a split field.
    fn unpacked_node(&mut self, placed: &PlacedField) -> entities::Node {
        if let Some(first) = placed.components.first() {
            return self.fields[first.as_u32() as usize].node;
        }
        let node = placed.node;
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

    /// A tree with the nodes above a field of a complete one, and a field like it, whose number is returned as well.
    pub(crate) fn like(
        body: &TreeBody,
        field: entities::Field,
        name: &str,
    ) -> (State, entities::Field) {
        let mut copy = Copy {
            body,
            state: State::default(),
            nodes: Vec::new(),
        };
        let made = copy.field(field, name);
        copy.state.resolved = true;
        (copy.state, made)
    }
}

/// Copies fields of a complete tree, with the nodes above them.
struct Copy<'b> {
    body: &'b TreeBody,
    state: State,
    /// Nodes that were copied, and their copies.
    nodes: Vec<(entities::Node, entities::Node)>,
}

impl Copy<'_> {
    fn field(&mut self, field: entities::Field, name: &str) -> entities::Field {
        let placed = &self.body.shape.fields[field.as_u32() as usize];
        let components = placed.components.iter().enumerate();
        let components = components.map(|(k, c)| self.field(*c, &format!("{name}.{k}")));
        let components: Vec<_> = components.collect();
        let placed = PlacedField {
            node: self.node(placed.node),
            packing: None,
            components,
            ..placed.clone()
        };
        self.state.add_field(placed, name, true)
    }

    fn node(&mut self, node: entities::Node) -> entities::Node {
        let data = &self.body.shape.data.nodes[node];
        let Some(parent) = data.parent else {
            return self.state.data.root();
        };
        if let Some((_, known)) = self.nodes.iter().find(|(of, _)| *of == node) {
            return *known;
        }
        let parent = self.node(parent);
        let new = if data.kind.is_bit_array() {
            self.state.add_dense(parent, &data.extents)
        } else {
            self.state.data.add(parent, data.kind, &data.extents)
        };
        self.state.data.nodes[new].order = data.order;
        if self.body.unbounded.contains(&node) {
            self.state.unbounded.push(new);
        }
        self.nodes.push((node, new));
        new
    }
}
