//! Layouts, node by node.

use crate::axes::Extents;
use crate::layout::node::State;
use crate::layout::packed::PackRequest;
use crate::layout::{Elem, Tree, TreeInner, nothing};
use crate::quantized::QuantizedType;
use crate::world::{World, here};
use smallvec::SmallVec;
use std::fmt;
use std::panic::Location;
use wuji_ir::entities::{self, Node};
use wuji_ir::layout::{Axis, NodeKind};
use wuji_ir::types::{Scalar, Type};
use wuji_ir::{Error, Result};

/// A tree under construction. Nodes are numbers; 0 is the root.
pub struct Layout {
    world: World,
    state: State,
}

impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Layout({} nodes)", self.state.data.nodes.len())
    }
}

impl Layout {
    /// A root with nothing below it.
    pub fn new(world: &World) -> Layout {
        Layout {
            world: world.clone(),
            state: State::default(),
        }
    }

    /// A node of dense cells; see [`Layout::node`].
    pub fn dense(&mut self, parent: u32, axes: &[usize], extents: &[i64]) -> Result<u32> {
        self.node(parent, NodeKind::Dense, axes, extents)
    }

    /// A node over some of the axes 0 to 7, slowest in memory first, below another one. A hash node without extents is
    /// unbounded; parameters that are 0 get defaults.
    pub fn node(
        &mut self,
        parent: u32,
        kind: NodeKind,
        axes: &[usize],
        extents: &[i64],
    ) -> Result<u32> {
        let parent = self.known(parent)?;
        let mut named: SmallVec<[Axis; 3]> = SmallVec::new();
        for number in axes {
            named.push(Axis::new(*number).ok_or_else(|| {
                Error::new("W0102", format!("there is no axis {number}"))
                    .help("axes are numbered 0 to 7")
            })?);
        }
        let node = if kind.is_hashed() && extents.is_empty() {
            self.state.add_unbounded(parent, &named)?
        } else {
            let extents: SmallVec<[i128; 3]> = extents.iter().map(|e| i128::from(*e)).collect();
            let kind = kind.format().with_defaults(&extents);
            self.state
                .add(parent, kind, &named, Extents::Each(extents))?
        };
        Ok(node.as_u32())
    }

    /// Orders the cells of a node along a Z-curve.
    pub fn morton(&mut self, node: u32) -> Result<()> {
        let node = self.known(node)?;
        self.state.order_by_morton(node)
    }

    /// Places an element of a field in every cell of a node: a scalar, vector or matrix. Returns the number of the field in
    /// its tree. The field has an index for each axis on the path, in the order of their numbers.
    pub fn place(
        &mut self,
        node: u32,
        name: &str,
        ty: Type,
        offset: Option<&[i64]>,
    ) -> Result<u32> {
        let node = self.known(node)?;
        if ty.lanes().is_none_or(|n| n == 0) {
            return Err(Error::new(
                "W0107",
                format!("field `{name}` has elements of type `{ty}`"),
            )
            .help("place scalars, vectors or matrices; a struct is placed field by field"));
        }
        let elem = Elem::Plain(ty);
        let offset = offset.map(|o| (o, o.len()));
        let field = self.state.put(node, name, elem, false, offset)?;
        Ok(field.as_u32())
    }

    /// A word of some bits in every cell of a node, in which [`Layout::place_packed`] packs numbers: one, or as many as they
    /// need. Returns the number of the bit struct.
    pub fn bit_struct(&mut self, bits: u32, grows: bool) -> Result<usize> {
        self.state.start_pack(bits, grows)
    }

    /// A group of numbers that share an exponent, in a bit struct. Returns the number of the group.
    pub fn shared_exponent(&mut self, bit_struct: usize) -> Result<usize> {
        self.state.start_group(bit_struct)
    }

    /// Packs an element of a field into a bit struct of every cell, with one quantized type for all its scalars or one for
    /// each. Returns the number of the field in its tree.
    pub fn place_packed(
        &mut self,
        node: u32,
        (bit_struct, group): (usize, Option<usize>),
        (name, ty): (&str, Type),
        types: &[QuantizedType],
        offset: Option<&[i64]>,
    ) -> Result<u32> {
        let request = self.request(node, (name, ty), types, offset)?;
        let field = self.state.put_packed((bit_struct, group), &request)?;
        Ok(field.as_u32())
    }

    /// Places the field whose elements a bit array holds, in a word of some bits.
    pub fn place_in_bit_array(
        &mut self,
        node: u32,
        bits: u32,
        (name, ty): (&str, Type),
        types: &[QuantizedType],
        offset: Option<&[i64]>,
    ) -> Result<u32> {
        let request = self.request(node, (name, ty), types, offset)?;
        Ok(self.state.put_in_array(bits, &request)?.as_u32())
    }

    /// Whether a quantized type can store numbers that kernels see as scalars of `compute`.
    pub fn check_quantized(ty: QuantizedType, compute: Scalar) -> Result<()> {
        ty.lower(compute, None).map(drop)
    }

    fn request<'r>(
        &self,
        node: u32,
        (name, ty): (&'r str, Type),
        types: &'r [QuantizedType],
        offset: Option<&'r [i64]>,
    ) -> Result<PackRequest<'r>> {
        Ok(PackRequest {
            node: self.known(node)?,
            name,
            elem: Elem::Plain(ty),
            types,
            offset: offset.map(|o| (o, o.len())),
        })
    }

    /// A field without elements that represents the cells of a node. They are numbered from 0, whatever the offsets of the
    /// fields below.
    pub fn cells(&mut self, node: u32, name: &str) -> Result<u32> {
        let node = self.known(node)?;
        let elem = Elem::Typed(nothing);
        let first = vec![0; self.state.data.axes(node).len()];
        let offset = Some((&first[..], first.len()));
        Ok(self.state.put(node, name, elem, true, offset)?.as_u32())
    }

    /// Checks the tree, and reserves its memory.
    #[track_caller]
    pub fn finish(self) -> Result<Tree> {
        let at = here(Location::caller());
        let inner = TreeInner::complete(&self.world, self.state, &at).map_err(|mut error| {
            // The position is in the frontend, which does not help the user.
            error.at = None;
            error
        })?;
        Ok(Tree { inner })
    }

    fn known(&self, node: u32) -> Result<Node> {
        let node = entities::Node::from_u32(node);
        if self.state.data.nodes.is_valid(node) {
            Ok(node)
        } else {
            let why = format!("the layout has no node {node}");
            Err(Error::new("W0102", why))
        }
    }
}
