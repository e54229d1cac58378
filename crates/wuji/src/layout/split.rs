//! Split fields: structure of arrays. Every component of an element is in a node of its own.

use super::node::State;
use super::{Elem, Node, PlacedField, TreeShape};
use crate::axes::{Extents, first};
use crate::element::Element;
use crate::field::Field;
use crate::host::FieldHandle;
use crate::world::{World, here};
use smallvec::SmallVec;
use std::ops::Range;
use std::panic::Location;
use wuji_ir::entities;
use wuji_ir::layout::Child;
use wuji_ir::types::{Structs, Type};
use wuji_ir::{Error, Result};

impl<'a> Node<'a> {
    /// Places a field as structure of arrays: every scalar of its elements in a node of its own, which `node` adds below
    /// this one. Kernels and the host see no difference to [`place`](Node::place).
    ///
    /// ```
    /// use wuji::prelude::*;
    /// # fn main() -> wuji::Result<()> {
    /// let world = World::interpreter()?;
    /// // All x, then all y, then all z.
    /// let v = world.layout(|root| root.place_soa::<Vec3, 1>("v", |root| root.dense(I, 64)))?;
    /// v.set(5, Vec3::new(1.0, 2.0, 3.0))?;
    /// assert_eq!(v.get(5)?.y, 2.0);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn place_soa<T: Element, const D: usize>(
        self,
        name: &str,
        mut node: impl FnMut(Node<'a>) -> Node<'a>,
    ) -> Field<T, D> {
        let mut by_scalar = |above: Node<'a>, _: usize| node(above);
        self.split(name, Depth::Scalars, Location::caller(), &mut by_scalar)
    }

    /// Places a field whose components are in nodes that `node` gives, by the number of the component: a field of a struct,
    /// a component of a vector, or one of a matrix, row by row. Components that get the same node are next to each other.
    ///
    /// Loops over the field visit the active cells of the first component, and `is_active` is about that.
    ///
    /// ```
    /// use wuji::prelude::*;
    /// # fn main() -> wuji::Result<()> {
    /// #[derive(Element, Copy, Clone, Debug, PartialEq)]
    /// struct Particle {
    ///     x: Vec3,
    ///     v: Vec3,
    ///     color: u32,
    /// }
    ///
    /// let world = World::interpreter()?;
    /// // Positions and velocities side by side, colors in an array of their own.
    /// let p = world.layout(|root| {
    ///     let motion = root.dense(I, 1000);
    ///     root.place_split::<Particle, 1>("p", |root, part| match part {
    ///         0 | 1 => motion,
    ///         _ => root.dense(I, 1000),
    ///     })
    /// })?;
    /// assert_eq!(p.get(7)?.color, 0);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn place_split<T: Element, const D: usize>(
        self,
        name: &str,
        mut node: impl FnMut(Node<'a>, usize) -> Node<'a>,
    ) -> Field<T, D> {
        self.split(name, Depth::Components, Location::caller(), &mut node)
    }

    fn split<T: Element, const D: usize>(
        self,
        name: &str,
        depth: Depth,
        at: &'static Location<'static>,
        node: &mut dyn FnMut(Node<'a>, usize) -> Node<'a>,
    ) -> Field<T, D> {
        let mut structs = Structs::default();
        let ty = T::ir_type(&mut structs);
        let whole = Part {
            name: name.to_owned(),
            elem: Elem::Typed(T::ir_type),
            ty,
        };
        let mut placer = Placer {
            above: self,
            structs,
            depth,
            rank: D,
            node,
            count: 0,
        };
        let field = match placer.whole(&whole) {
            Ok(field) => field,
            Err(error) => {
                let state = &mut *self.build.state.borrow_mut();
                state.fail(error.at(Some(here(at))));
                entities::Field::from_u32(0)
            }
        };
        Field::new(self.build.tree.clone(), field)
    }
}

/// How far elements are taken apart.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Depth {
    /// Into the components of the element type.
    Components,
    /// Into scalars.
    Scalars,
}

/// An element, or a component of one, that is to be placed.
struct Part {
    name: String,
    elem: Elem,
    ty: Type,
}

struct Placer<'a, 'f> {
    above: Node<'a>,
    structs: Structs,
    depth: Depth,
    rank: usize,
    node: &'f mut dyn FnMut(Node<'a>, usize) -> Node<'a>,
    /// Nodes that were asked for.
    count: usize,
}

impl Placer<'_, '_> {
    fn whole(&mut self, whole: &Part) -> Result<entities::Field> {
        if self.structs.arity(whole.ty) == 0 {
            // A scalar is its only component.
            return self.leaf(whole);
        }
        let state = self.above.build.state.borrow();
        state.is_new_name(&whole.name)?;
        drop(state);
        self.components(whole)
    }

    fn components(&mut self, whole: &Part) -> Result<entities::Field> {
        let mut components = Vec::new();
        for k in 0..self.structs.arity(whole.ty) {
            let part = self.part(whole, k);
            let scalars = self.depth == Depth::Scalars && self.structs.arity(part.ty) > 0;
            components.push(if scalars {
                self.components(&part)?
            } else {
                self.leaf(&part)?
            });
        }
        let state = &mut *self.above.build.state.borrow_mut();
        Ok(state.put_split(whole.name.clone(), whole.elem.clone(), components))
    }

    fn part(&self, whole: &Part, k: u32) -> Part {
        let member = match whole.ty {
            Type::Struct(id) => self.structs.0[id].fields[k as usize].0.clone(),
            Type::Scalar(_) | Type::Vector(..) | Type::Matrix(..) => k.to_string(),
        };
        Part {
            name: format!("{}.{member}", whole.name),
            elem: whole.elem.component(k),
            ty: self.structs.component(whole.ty, k).unwrap_or(whole.ty),
        }
    }

    fn leaf(&mut self, part: &Part) -> Result<entities::Field> {
        let number = self.count;
        self.count += 1;
        let node = (self.node)(self.above, number);
        if !std::ptr::eq(node.build, self.above.build) {
            let what = format!("`{}` gets a node of another layout", part.name);
            return Err(
                Error::new("W0137", what).help("use nodes of the layout that places the field")
            );
        }
        let state = &mut *node.build.state.borrow_mut();
        state.can_place(node.node, &part.name, self.rank)?;
        let offset = node.offset.as_ref().map(|(from, n)| (&from[..], *n));
        state.put(node.node, &part.name, part.elem.clone(), false, offset)
    }
}

impl State {
    /// Places a field whose components were placed, in the cells of the first one.
    pub(crate) fn put_split(
        &mut self,
        name: String,
        elem: Elem,
        components: Vec<entities::Field>,
    ) -> entities::Field {
        let field = entities::Field::from_u32(self.fields.len() as u32);
        let lead = components.first().map_or(0, |c| c.as_u32() as usize);
        let first = &self.fields[lead];
        let placed = PlacedField {
            node: first.node,
            axes: first.axes.clone(),
            elem,
            view: false,
            packing: None,
            components,
        };
        let children = &mut self.data.nodes[placed.node].children;
        children.push(Child::Place(field));
        self.fields.push(placed);
        self.names.push(name);
        self.offset.push(self.offset[lead]);
        field
    }
}

impl TreeShape {
    /// The nodes that hold parts of the elements of a field, each once.
    pub(crate) fn nodes_of(&self, field: entities::Field) -> SmallVec<[entities::Node; 1]> {
        let mut nodes = SmallVec::new();
        let mut work = vec![field];
        while let Some(field) = work.pop() {
            let placed = &self.fields[field.as_u32() as usize];
            work.extend(placed.components.iter().rev());
            if placed.components.is_empty() && !nodes.contains(&placed.node) {
                nodes.push(placed.node);
            }
        }
        nodes
    }
}

/// An error if a component of a field has other coordinates than the field.
pub(super) fn coordinates_agree(
    shape: &TreeShape,
    domains: &[SmallVec<[(i64, u64); 3]>],
    names: &[String],
) -> Result<()> {
    for (n, placed) in shape.fields.iter().enumerate() {
        for component in &placed.components {
            let k = component.as_u32() as usize;
            if shape.fields[k].axes == placed.axes && domains[k] == domains[n] {
                continue;
            }
            let shown = |domain: &[(i64, u64)]| {
                let ends = domain
                    .iter()
                    .map(|(lo, n)| format!("{lo}..{}", *lo + *n as i64));
                ends.collect::<Vec<_>>().join(", ")
            };
            let (whole, part) = (&names[n], &names[k]);
            return Err(Error::new(
                "W0137",
                format!("component `{part}` has other coordinates than field `{whole}`"),
            )
            .note(format!(
                "their elements are [{}] and [{}]",
                shown(&domains[k]),
                shown(&domains[n])
            ))
            .help("give all nodes of the components the same axes, extents and offset"));
        }
    }
    Ok(())
}

/// A field that holds some bytes of the elements of another one.
#[derive(Debug)]
pub(crate) struct LeafHandle {
    pub(crate) handle: FieldHandle,
    /// Of an element as it is in memory when it is not split.
    pub(crate) bytes: Range<usize>,
}

impl FieldHandle {
    fn placed(&self) -> Result<&PlacedField> {
        Ok(&self.tree.body()?.shape.fields[self.index()])
    }

    /// The fields of its components; none unless it is split.
    pub(crate) fn components(&self) -> Result<Vec<FieldHandle>> {
        let components = self.placed()?.components.iter();
        let handle = |field: &entities::Field| FieldHandle {
            tree: self.tree.clone(),
            field: *field,
        };
        Ok(components.map(handle).collect())
    }

    /// Whether both are split into the same components, or none of them is split.
    pub(crate) fn is_split_like(&self, other: &FieldHandle) -> Result<bool> {
        let (own, its) = (self.components()?, other.components()?);
        if own.len() != its.len() {
            return Ok(false);
        }
        own.iter()
            .zip(&its)
            .try_fold(true, |same, (a, b)| Ok(same && a.is_split_like(b)?))
    }

    /// The fields that hold its elements: itself, unless it is split.
    pub(crate) fn leaves(&self) -> Result<Vec<LeafHandle>> {
        let mut leaves = Vec::new();
        self.add_leaves(0, &mut leaves)?;
        Ok(leaves)
    }

    fn add_leaves(&self, start: usize, out: &mut Vec<LeafHandle>) -> Result<()> {
        let components = self.components()?;
        if components.is_empty() {
            out.push(LeafHandle {
                bytes: start..start + self.size()?,
                handle: self.clone(),
            });
            return Ok(());
        }
        let (ty, structs) = self.elem()?;
        for (k, component) in components.iter().enumerate() {
            let offset = structs.component_offset(ty, k as u32) as usize;
            component.add_leaves(start + offset, out)?;
        }
        Ok(())
    }
}

impl<T, const D: usize> Field<T, D> {
    /// The field of one component of a split field: of [`place_soa`](Node::place_soa) and
    /// [`place_split`](Node::place_split). Both refer to the same elements.
    ///
    /// ```
    /// use wuji::prelude::*;
    /// # fn main() -> wuji::Result<()> {
    /// let world = World::interpreter()?;
    /// let v = world.soa_field::<Vec3, 1>("v", 4)?;
    /// v.component::<f32>(1)?.fill(2.0)?;
    /// assert_eq!(v.get(3)?, Vec3::new(0.0, 2.0, 0.0));
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn component<C: Element>(&self, number: usize) -> Result<Field<C, D>> {
        let at = here(Location::caller());
        self.handle()
            .component_of(number, C::ir_type)
            .map(|c| Field::new(c.tree, c.field))
            .map_err(|e| e.or_at(at))
    }
}

impl FieldHandle {
    fn component_of(&self, number: usize, wanted: fn(&mut Structs) -> Type) -> Result<FieldHandle> {
        let name = self.name();
        let components = self.components()?;
        if components.is_empty() {
            let what = format!("field `{name}` is not split into components");
            return Err(
                Error::new("W0138", what).help("place it with `place_soa` or `place_split`")
            );
        }
        let n = components.len();
        let Some(component) = components.into_iter().nth(number) else {
            let what = format!("field `{name}` has no component {number}");
            return Err(Error::new("W0138", what).note(format!("it has {n} components")));
        };
        let mut structs = Structs::default();
        let found = component.placed()?.elem.enter(&mut structs);
        let wanted = wanted(&mut structs);
        if found != wanted {
            let what = format!("component {number} of field `{name}` is `{found}`, not `{wanted}`");
            return Err(Error::new("W0138", what));
        }
        Ok(component)
    }
}

impl World {
    /// A field of its own as structure of arrays: every scalar of its elements in an array of its own.
    #[track_caller]
    pub fn soa_field<T: Element, const D: usize>(
        &self,
        name: &str,
        shape: impl Into<Extents>,
    ) -> Result<Field<T, D>> {
        let at = here(Location::caller());
        let shape = shape.into();
        let place = |root: Node<'_>| {
            root.place_soa(name, |root| match D {
                0 => root,
                _ => root.dense(first(D), shape.clone()),
            })
        };
        self.check_rank::<D>(name)
            .and_then(|()| self.layout(place))
            .map_err(|e| e.at(Some(at)))
    }
}
