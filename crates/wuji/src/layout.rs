//! The layout builder: which nodes a tree has and where in it fields are placed.
//!
//! ```
//! use wuji::prelude::*;
//! # fn main() -> wuji::Result<()> {
//! let world = World::interpreter()?;
//! // Blocks of 8 x 8 cells; a cell holds a mass and a velocity next to each other.
//! let (mass, velocity) = world.layout(|root| {
//!     let cell = root.dense(IJ, [16, 16]).dense(IJ, 8);
//!     (cell.place::<f32, 2>("mass"), cell.place::<f32, 2>("velocity"))
//! })?;
//! mass.set([127, 3], 2.0)?;
//! assert_eq!(mass.get([127, 3])?, 2.0);
//! assert_eq!(velocity.shape()?, [128, 128]);
//! # Ok(())
//! # }
//! ```

use crate::axes::{Axes, Extents};
use crate::element::Element;
use crate::field::Field;
use crate::world::{World, here};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::fmt;
use std::panic::Location;
use std::sync::{Arc, OnceLock};
use wuji_ir::entities;
use wuji_ir::layout::{Axis, Child, FieldData, NodeKind, TreeData, TreeMemory};
use wuji_ir::types::{Structs, Type};
use wuji_ir::{Error, Result};
use wuji_runtime::Memory;
use wuji_runtime::address::Address;

/// A layout tree and its memory, which goes when the last field of the tree does.
#[derive(Clone)]
pub struct Tree {
    pub(crate) inner: Arc<TreeInner>,
}

#[derive(Debug)]
pub(crate) struct TreeInner {
    pub(crate) world: World,
    /// Filled when the layout is complete; empty for good when it had an error.
    body: OnceLock<TreeBody>,
}

/// What is known of a tree once its layout is complete.
#[derive(Debug)]
pub(crate) struct TreeBody {
    /// Fields and structs have the numbers they have in this tree alone.
    pub(crate) shape: Arc<TreeShape>,
    pub(crate) names: Vec<String>,
    pub(crate) addresses: Vec<Address>,
    pub(crate) memory: Memory,
}

/// The structure of a tree, without names: what code is specialised for. Trees of one world that
/// have the same structure share one, so comparing addresses compares structures.
#[derive(Debug)]
pub(crate) struct TreeShape {
    pub(crate) data: TreeData,
    pub(crate) fields: Vec<PlacedField>,
}

/// A field as its tree sees it.
#[derive(Clone, Debug)]
pub(crate) struct PlacedField {
    pub(crate) node: entities::Node,
    pub(crate) axes: SmallVec<[(Axis, i64); 3]>,
    pub(crate) elem: fn(&mut Structs) -> Type,
}

impl TreeShape {
    /// Enters the fields of a tree into tables of their own.
    pub(crate) fn describe(
        &self,
        tree: entities::Tree,
        structs: &mut Structs,
        names: &[String],
    ) -> impl Iterator<Item = FieldData> {
        self.fields.iter().enumerate().map(move |(k, f)| FieldData {
            name: names.get(k).cloned().unwrap_or_default(),
            elem: (f.elem)(structs),
            tree,
            node: f.node,
            axes: f.axes.clone(),
        })
    }
}

impl TreeInner {
    pub(crate) fn body(&self) -> Result<&TreeBody> {
        self.body.get().ok_or_else(|| {
            Error::new(
                "W0113",
                "this field belongs to a layout that is not complete",
            )
            .note("`layout` returned an error, or has not returned yet")
            .help("use the fields that `layout` returns")
        })
    }
}

impl Tree {
    /// Bytes of memory that the tree takes, counted as if all of it were touched.
    pub fn memory_used(&self) -> u64 {
        self.inner.body().map_or(0, |b| b.memory.size() as u64)
    }

    /// Makes every element of every field zero.
    pub fn clear(&self) -> Result<()> {
        self.inner.body()?.memory.lock().clear();
        Ok(())
    }
}

impl PartialEq for Tree {
    fn eq(&self, other: &Tree) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl Eq for Tree {}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.inner.body.get() {
            Some(body) => write!(f, "Tree({})", body.names.join(", ")),
            None => write!(f, "Tree(incomplete)"),
        }
    }
}

/// A node of a tree under construction: hang nodes below it, or place fields in its cells.
///
/// What is wrong with a layout is said once, when it is complete.
#[derive(Copy, Clone)]
pub struct Node<'a> {
    build: &'a Build,
    node: entities::Node,
    offset: Option<([i64; Axis::COUNT], usize)>,
}

impl fmt::Debug for Node<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node({})", self.node)
    }
}

struct Build {
    tree: Arc<TreeInner>,
    state: RefCell<State>,
}

struct State {
    data: TreeData,
    fields: Vec<PlacedField>,
    names: Vec<String>,
    /// The first thing that went wrong.
    error: Option<Error>,
}

impl State {
    fn fail(&mut self, error: Error) {
        self.error.get_or_insert(error);
    }
}

/// More levels than any layout needs; a tree is walked from leaf to root.
const MAX_DEPTH: usize = 64;

impl<'a> Node<'a> {
    /// A node of cells one after the other, the last axis fastest, in each cell of this node.
    #[track_caller]
    pub fn dense(self, axes: impl Into<Axes>, extents: impl Into<Extents>) -> Node<'a> {
        let at = here(Location::caller());
        let (axes, extents) = (axes.into().list(), extents.into());
        let state = &mut *self.build.state.borrow_mut();
        let mut below = self;
        match self.checked_extents(&state.data, &axes, extents) {
            Ok(extents) => below.node = state.data.add(self.node, NodeKind::Dense, &extents),
            Err(error) => state.fail(error.at(Some(at))),
        }
        below
    }

    fn checked_extents(
        &self,
        data: &TreeData,
        axes: &[Axis],
        extents: Extents,
    ) -> Result<SmallVec<[(Axis, u64); 3]>> {
        if axes.is_empty() {
            return Err(Error::new("W0102", "a dense node needs at least one axis")
                .help("place fields of rank 0 directly in the root"));
        }
        if let Some(twice) = (1..axes.len()).find(|k| axes[..*k].contains(&axes[*k])) {
            let axis = axes[twice];
            return Err(
                Error::new("W0102", format!("a node splits axis `{axis}` twice"))
                    .help("split it again in a node below this one"),
            );
        }
        if data.path(self.node).len() > MAX_DEPTH {
            return Err(Error::new(
                "W0106",
                format!("a tree has at most {MAX_DEPTH} levels"),
            ));
        }
        let extents: SmallVec<[i128; 3]> = match extents {
            Extents::All(extent) => axes.iter().map(|_| extent).collect(),
            Extents::Each(extents) if extents.len() == axes.len() => extents,
            Extents::Each(extents) => {
                let (n, m) = (axes.len(), extents.len());
                return Err(Error::new("W0102", format!("{n} axes have {m} extents"))
                    .help("give one extent for each axis, or one number for all of them"));
            }
        };
        let checked = axes.iter().zip(&extents).map(|(axis, extent)| {
            let positive = u64::try_from(*extent).ok().filter(|e| *e > 0);
            positive.map(|e| (*axis, e)).ok_or_else(|| {
                Error::new("W0101", format!("axis `{axis}` has extent {extent}"))
                    .help("an extent is at least 1")
            })
        });
        checked.collect()
    }

    /// The smallest coordinate along each index, for fields placed from here on: `x[[-32, 0]]` is
    /// the first element of a field placed after `.offset([-32, 0])`.
    pub fn offset<const D: usize>(self, offset: [i64; D]) -> Node<'a> {
        let mut from = [0; Axis::COUNT];
        for (to, value) in from.iter_mut().zip(offset) {
            *to = value;
        }
        Node {
            offset: Some((from, D)),
            ..self
        }
    }

    /// Puts an element of a field into every cell of this node. The field has one index for each
    /// axis that was split on the way here, in the order of the alphabet.
    #[track_caller]
    pub fn place<T: Element, const D: usize>(self, name: &str) -> Field<T, D> {
        let at = here(Location::caller());
        let state = &mut *self.build.state.borrow_mut();
        match self.checked_axes::<D>(&state.data, name) {
            Ok(axes) => {
                let field = entities::Field::from_u32(state.fields.len() as u32);
                state.data.nodes[self.node]
                    .children
                    .push(Child::Place(field));
                state.fields.push(PlacedField {
                    node: self.node,
                    axes,
                    elem: T::ir_type,
                });
                state.names.push(name.to_owned());
                Field::new(self.build.tree.clone(), field)
            }
            Err(error) => {
                state.fail(error.at(Some(at)));
                Field::new(self.build.tree.clone(), entities::Field::from_u32(0))
            }
        }
    }

    fn checked_axes<const D: usize>(
        &self,
        data: &TreeData,
        name: &str,
    ) -> Result<SmallVec<[(Axis, i64); 3]>> {
        let path = data.path(self.node);
        let split = |axis: &Axis| {
            let mut extents = path.iter().flat_map(|n| &data.nodes[*n].extents);
            extents.any(|e| e.0 == *axis)
        };
        let all = (0..Axis::COUNT).filter_map(Axis::new);
        let axes: SmallVec<[Axis; 3]> = all.filter(split).collect();
        if axes.len() != D {
            let names: Vec<String> = axes.iter().map(|a| format!("`{a}`")).collect();
            let n = axes.len();
            let split = match n {
                0 => "no axis is".to_owned(),
                1 => format!("one axis ({}) is", names[0]),
                _ => format!("{n} axes ({}) are", names.join(", ")),
            };
            return Err(Error::new(
                "W0103",
                format!("field `{name}` has rank {D}, but {split} split above it"),
            )
            .help(format!("place it as a field of rank {n}")));
        }
        let from = match self.offset {
            Some((_, n)) if n != D => {
                return Err(Error::new(
                    "W0104",
                    format!("field `{name}` of rank {D} has an offset of {n} numbers"),
                )
                .help("give one number for each index"));
            }
            Some((from, _)) => from,
            None => [0; Axis::COUNT],
        };
        Ok(axes.into_iter().zip(from).collect())
    }
}

impl World {
    /// Builds a tree. The closure gets the root, hangs nodes below it, places fields, and returns
    /// whatever it likes of them; see [`layout`](crate::layout).
    #[track_caller]
    pub fn layout<R>(&self, describe: impl FnOnce(Node<'_>) -> R) -> Result<R> {
        let at = here(Location::caller());
        let build = Build {
            tree: Arc::new(TreeInner {
                world: self.clone(),
                body: OnceLock::new(),
            }),
            state: RefCell::new(State {
                data: TreeData::default(),
                fields: Vec::new(),
                names: Vec::new(),
                error: None,
            }),
        };
        let root = Node {
            build: &build,
            node: entities::Node::from_u32(0),
            offset: None,
        };
        let fields = describe(root);
        let body = complete(self, build.state.into_inner(), &at)?;
        // The cell is new, so this cannot find it full.
        let _ = build.tree.body.set(body);
        Ok(fields)
    }

    /// A field of its own, row by row: `world.field::<f32, 2>("pixels", [640, 320])?`.
    #[track_caller]
    pub fn field<T: Element, const D: usize>(
        &self,
        name: &str,
        shape: impl Into<Extents>,
    ) -> Result<Field<T, D>> {
        let at = here(Location::caller());
        if D > Axis::COUNT {
            let error = Error::new("W0103", format!("field `{name}` has rank {D}"));
            return Err(error.at(Some(at)).help("a field has at most 8 indices"));
        }
        self.layout(|root| {
            let cells = if D == 0 {
                root
            } else {
                root.dense(crate::axes::first(D), shape)
            };
            cells.place(name)
        })
        .map_err(|e| e.at(Some(at)))
    }

    /// A field of one element.
    #[track_caller]
    pub fn scalar<T: Element>(&self, name: &str) -> Result<Field<T, 0>> {
        let at = here(Location::caller());
        self.layout(|root| root.place(name))
            .map_err(|e| e.at(Some(at)))
    }
}

/// Checks a finished description, and reserves the memory of the tree.
fn complete(world: &World, state: State, at: &wuji_ir::Position) -> Result<TreeBody> {
    if let Some(error) = state.error {
        return Err(error);
    }
    let fail = |error: Error| Err(error.at(Some(at.clone())));
    if state.fields.is_empty() {
        return fail(Error::new("W0105", "the layout places no field").help("use `place`"));
    }
    for (node, data) in state.data.nodes.iter() {
        if data.children.is_empty() && node != state.data.root() {
            return fail(
                Error::new("W0105", "a node of the layout holds nothing")
                    .help("place a field in its cells, or leave the node out"),
            );
        }
    }
    let too_big = || {
        Error::new("W0106", "the layout is larger than 2^62 bytes")
            .at(Some(at.clone()))
            .help("make the extents smaller")
    };
    let shape = TreeShape {
        data: state.data,
        fields: state.fields,
    };
    let mut structs = Structs::default();
    let tree = entities::Tree::from_u32(0);
    let fields = shape
        .describe(tree, &mut structs, &state.names)
        .collect::<cranelift_entity::PrimaryMap<entities::Field, FieldData>>();
    for (data, name) in fields.values().zip(&state.names) {
        if structs.size_align(data.elem).0 == 0 {
            let what = format!("field `{name}` has elements without a size");
            return fail(Error::new("W0107", what).help("give the element type a field"));
        }
    }
    let memory = TreeMemory::of(&shape.data, &fields, &structs).ok_or_else(too_big)?;
    for (field, data) in fields.iter() {
        for (axis, from) in &data.axes {
            let extent = shape.data.extent(data.node, *axis);
            let past = i64::try_from(extent).ok().and_then(|e| from.checked_add(e));
            if past.is_none() {
                let name = &state.names[field.as_u32() as usize];
                return fail(Error::new(
                    "W0104",
                    format!(
                        "the coordinates of field `{name}` along axis `{axis}` do not fit in 64 bits"
                    ),
                ));
            }
        }
    }
    let addresses = fields
        .iter()
        .map(|(field, data)| Address::of(&shape.data, &memory, field, data))
        .collect();
    let reserved = world.device().reserve_tree(&shape.data, &memory);
    Ok(TreeBody {
        memory: reserved.map_err(|e| e.at(Some(at.clone())))?,
        shape: world.intern(shape),
        names: state.names,
        addresses,
    })
}
