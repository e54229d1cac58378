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

mod complete;
mod derivatives;
pub(crate) mod node;
pub(crate) mod packed;
mod report;
mod split;
#[cfg(test)]
mod tests;

pub use node::Node;
pub use packed::{BitArray, BitStruct};
pub use report::{MemoryReport, NodeReport, WorldReport};

use crate::args::TypeOf;
use crate::autodiff::{Derivative, Links};
use crate::axes::Extents;
use crate::element::Element;
use crate::field::Field;
use crate::world::{World, here};
use node::Build;
pub(crate) use node::State;
use smallvec::SmallVec;
pub(crate) use split::LeafHandle;
use std::cell::RefCell;
use std::fmt;
use std::panic::Location;
use std::sync::{Arc, OnceLock};
use wuji_ir::entities;
use wuji_ir::layout::{Axis, Child, FieldData, TreeData, TreeMemory};
use wuji_ir::module::Module;
use wuji_ir::quant::Packing;
use wuji_ir::types::{StructType, Structs, Type};
use wuji_ir::{Error, Position, Result};
use wuji_runtime::Memory;
use wuji_runtime::address::Address;
use wuji_runtime::launch::released;

/// A layout tree and its memory, which goes when the last field of the tree does.
#[derive(Clone)]
pub struct Tree {
    pub(crate) inner: Arc<TreeInner>,
}

#[derive(Debug)]
pub(crate) struct TreeInner {
    pub(crate) world: World,
    /// Filled when the layout is complete; empty for good when it had an error.
    body: OnceLock<Arc<TreeBody>>,
    /// Where the derivatives of its fields are.
    pub(crate) links: Links,
}

/// What is known of a tree once its layout is complete.
#[derive(Debug)]
pub(crate) struct TreeBody {
    /// Fields and structs have the numbers they have in this tree alone.
    pub(crate) shape: Arc<TreeShape>,
    pub(crate) names: Vec<String>,
    /// Of every field: smallest coordinate and extent along each index.
    pub(crate) domains: Vec<SmallVec<[(i64, u64); 3]>>,
    /// Of every field, in a tree of dense nodes.
    pub(crate) addresses: Vec<Address>,
    /// The nodes whose cells have all coordinates there are.
    pub(crate) unbounded: Vec<entities::Node>,
    pub(crate) memory: Memory,
    /// Where in the memory what is.
    pub(crate) layout: TreeMemory,
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
    pub(crate) elem: Elem,
    /// It stands for the cells of its node and has no elements.
    pub(crate) view: bool,
    /// Of a packed field: where its scalars are.
    pub(crate) packing: Option<Packing>,
    /// Of a split field: the field of each component.
    pub(crate) components: Vec<entities::Field>,
}

/// How the type of elements is known.
#[derive(Clone, Debug)]
pub(crate) enum Elem {
    /// To rustc.
    Typed(TypeOf),
    /// At run time only: a scalar, vector or matrix.
    Plain(Type),
    /// A component of a type that rustc knows, by the numbers of the components on the way to it.
    Component(TypeOf, SmallVec<[u32; 4]>),
}

impl Elem {
    pub(crate) fn enter(&self, structs: &mut Structs) -> Type {
        match self {
            Elem::Typed(ty) => ty(structs),
            Elem::Plain(ty) => *ty,
            Elem::Component(ty, path) => {
                let whole = ty(structs);
                let step = |ty, k: &u32| structs.component(ty, *k).unwrap_or(ty);
                path.iter().fold(whole, step)
            }
        }
    }

    /// One of its components.
    pub(crate) fn component(&self, k: u32) -> Elem {
        let mut path = SmallVec::new();
        let whole = match self {
            Elem::Typed(ty) => *ty,
            Elem::Component(ty, above) => {
                path.extend(above.iter().copied());
                *ty
            }
            Elem::Plain(ty) => {
                // A scalar, vector or matrix has no struct inside.
                let structs = Structs::default();
                return Elem::Plain(structs.component(*ty, k).unwrap_or(*ty));
            }
        };
        path.push(k);
        Elem::Component(whole, path)
    }
}

/// The element type of a view.
pub(crate) fn nothing(structs: &mut Structs) -> Type {
    Type::Struct(structs.intern(StructType {
        name: "cell".into(),
        fields: Vec::new(),
    }))
}

impl TreeShape {
    /// Enters the tree and its fields into a module; gives the number of the first field.
    pub(crate) fn enter(&self, m: &mut Module, names: &[String]) -> u32 {
        let first = m.fields.len() as u32;
        let mut data = self.data.clone();
        for node in data.nodes.values_mut() {
            for child in &mut node.children {
                if let Child::Place(f) = child {
                    *f = entities::Field::from_u32(first + f.as_u32());
                }
            }
        }
        let tree = m.trees.push(data);
        let fields: Vec<FieldData> = self.describe(tree, &mut m.structs, names).collect();
        for mut field in fields {
            for member in field.packing.iter_mut().flat_map(|p| &mut p.members) {
                member.word = entities::Field::from_u32(first + member.word.as_u32());
            }
            for component in &mut field.components {
                *component = entities::Field::from_u32(first + component.as_u32());
            }
            m.fields.push(field);
        }
        first
    }

    /// Enters the fields of a tree into tables of their own.
    pub(crate) fn describe(
        &self,
        tree: entities::Tree,
        structs: &mut Structs,
        names: &[String],
    ) -> impl Iterator<Item = FieldData> {
        self.fields.iter().enumerate().map(move |(k, f)| FieldData {
            name: names.get(k).cloned().unwrap_or_default(),
            elem: f.elem.enter(structs),
            tree,
            node: f.node,
            axes: f.axes.clone(),
            packing: f.packing.clone(),
            components: f.components.clone(),
        })
    }
}

impl TreeInner {
    pub(crate) fn body(&self) -> Result<&TreeBody> {
        self.complete_body().map(|body| &**body)
    }

    /// The body, which does not keep the world alive.
    pub(crate) fn shared_body(&self) -> Result<Arc<TreeBody>> {
        self.complete_body().cloned()
    }

    fn complete_body(&self) -> Result<&Arc<TreeBody>> {
        let body = self.body.get().ok_or_else(|| {
            Error::new(
                "W0113",
                "this field belongs to a layout that is not complete",
            )
            .note("`layout` returned an error, or has not returned yet")
            .help("use the fields that `layout` returns")
        })?;
        if body.memory.is_released() {
            Err(self.gone())
        } else {
            Ok(body)
        }
    }

    #[cold]
    fn gone(&self) -> Error {
        match self.world.ensure_open() {
            Err(closed) => closed,
            Ok(()) => released(),
        }
    }

    pub(crate) fn destroy(&self) -> Result<()> {
        self.world.run_pending()?;
        match self.body.get() {
            Some(body) => body.memory.release(),
            None => Ok(()),
        }
    }

    /// A tree of its own, from a finished description.
    pub(crate) fn complete(
        world: &World,
        mut state: State,
        at: &Position,
    ) -> Result<Arc<TreeInner>> {
        let links = std::mem::take(&mut state.links);
        let body = complete::complete(world, state, at)?;
        let tree = Arc::new(TreeInner {
            world: world.clone(),
            body: OnceLock::from(Arc::new(body)),
            links: Links::default(),
        });
        tree.enter_links(&links);
        world.enter_tree(&tree);
        Ok(tree)
    }

    fn enter_links(&self, links: &[(entities::Field, Derivative, entities::Field)]) {
        for (field, which, target) in links {
            self.links.add_own(*field, *which, *target);
        }
    }
}

impl Tree {
    /// Bytes of memory that the tree takes, counted as if all of it were touched; of a tree with sparse
    /// nodes, what its cells have taken so far.
    pub fn memory_used(&self) -> u64 {
        self.inner.world.run_pending_for_later();
        self.inner.body().map_or(0, |b| b.memory.used())
    }

    /// Makes every element of every field zero. In a sparse tree nothing is active after that, and its
    /// memory is free for others.
    pub fn clear(&self) -> Result<()> {
        self.inner.clear()
    }

    /// Gives the memory back now, and not with the last handle to a field of the tree. Whatever uses one of them after
    /// that is an error.
    ///
    /// ```
    /// use wuji::prelude::*;
    /// # fn main() -> wuji::Result<()> {
    /// let world = World::cpu()?;
    /// let x = world.field::<f32, 1>("x", 1000)?;
    /// x.tree().destroy();
    /// assert_eq!(world.memory_used(), 0);
    /// assert_eq!(x.get(0).unwrap_err().code, "W0131");
    /// # Ok(())
    /// # }
    /// ```
    pub fn destroy(&self) {
        // It fails in a forked process, and where a frontend lets a thread give up waiting.
        let _ = self.inner.destroy();
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
                links: Links::default(),
            }),
            state: RefCell::new(State::default()),
        };
        let root = Node {
            build: &build,
            node: entities::Node::from_u32(0),
            offset: None,
        };
        let fields = describe(root);
        let mut state = build.state.into_inner();
        let links = std::mem::take(&mut state.links);
        let body = complete::complete(self, state, &at)?;
        // The cell is new, so this cannot find it full.
        let _ = build.tree.body.set(Arc::new(body));
        build.tree.enter_links(&links);
        self.enter_tree(&build.tree);
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
        self.check_rank::<D>(name)
            .map_err(|e| e.at(Some(at.clone())))?;
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

    fn check_rank<const D: usize>(&self, name: &str) -> Result<()> {
        if D <= Axis::COUNT {
            return Ok(());
        }
        let error = Error::new("W0103", format!("field `{name}` has rank {D}"));
        Err(error.help("a field has at most 8 indices"))
    }

    /// A field of one element.
    #[track_caller]
    pub fn scalar<T: Element>(&self, name: &str) -> Result<Field<T, 0>> {
        let at = here(Location::caller());
        self.layout(|root| root.place(name))
            .map_err(|e| e.at(Some(at)))
    }
}
