//! Where the derivatives of fields are: an adjoint, or tangents, of the same type and extents in any layout.

use crate::host::{ElementBox, FieldHandle};
use crate::layout::{State, TreeBody, TreeInner};
use crate::services::Service;
use crate::world::{World, here, lock};
use std::panic::Location;
use std::sync::{Arc, Mutex};
use wuji_ir::entities::Field;
use wuji_ir::types::{Scalar, Structs, Type};
use wuji_ir::{Error, Result};

/// Which derivative of a field.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Derivative {
    /// Of reverse mode: the gradient.
    Adjoint,
    /// Of forward mode, for one of the directions that are computed at once.
    Tangent(u32),
}

impl Derivative {
    /// What follows the name of the field.
    pub(crate) fn suffix(self) -> String {
        match self {
            Derivative::Adjoint => ".grad".to_owned(),
            Derivative::Tangent(0) => ".dual".to_owned(),
            Derivative::Tangent(n) => format!(".dual{n}"),
        }
    }

    fn noun(self) -> &'static str {
        match self {
            Derivative::Adjoint => "gradient",
            Derivative::Tangent(_) => "dual",
        }
    }

    fn help(self) -> &'static str {
        match self {
            Derivative::Adjoint => {
                "`x.needs_grad()?` allocates one, `lazy_grad()` in a layout places one, `x.set_grad(&g)?` uses a field of yours"
            }
            Derivative::Tangent(_) => {
                "`x.needs_dual()?` allocates one, `lazy_dual()` in a layout places one, `x.set_dual(&d)?` uses a field of yours"
            }
        }
    }
}

/// The derivatives of the fields of a tree.
#[derive(Debug, Default)]
pub(crate) struct Links(Mutex<Vec<Link>>);

#[derive(Clone, Debug)]
struct Link {
    field: Field,
    which: Derivative,
    /// `None`: the same tree, which cannot own itself.
    tree: Option<Arc<TreeInner>>,
    target: Field,
}

impl Links {
    /// A derivative in the same tree.
    pub(crate) fn add_own(&self, field: Field, which: Derivative, target: Field) {
        self.set(Link {
            field,
            which,
            tree: None,
            target,
        });
    }

    fn set(&self, link: Link) {
        let mut links = lock(&self.0);
        links.retain(|l| (l.field, l.which) != (link.field, link.which));
        links.push(link);
    }

    fn find(&self, field: Field, which: Derivative) -> Option<Link> {
        let links = lock(&self.0);
        let found = links.iter().find(|l| (l.field, l.which) == (field, which));
        found.cloned()
    }

    fn all(&self) -> Vec<Link> {
        lock(&self.0).clone()
    }
}

impl TreeInner {
    /// The fields of this tree that are gradients of others.
    pub(crate) fn gradients(&self) -> Vec<Field> {
        let mut found = Vec::new();
        for tree in self.world.trees() {
            for link in tree.links.all() {
                let holder = link.tree.as_ref().unwrap_or(&tree);
                if link.which == Derivative::Adjoint && std::ptr::eq(Arc::as_ptr(holder), self) {
                    found.push(link.target);
                }
            }
        }
        found
    }
}

/// Whether derivatives of one tree are in another, or derivatives of those.
fn reaches(from: &Arc<TreeInner>, to: &Arc<TreeInner>) -> bool {
    Arc::ptr_eq(from, to)
        || (from.links.all().iter()).any(|l| l.tree.as_ref().is_some_and(|t| reaches(t, to)))
}

impl FieldHandle {
    /// The type of the elements, and the structs in it.
    pub(crate) fn elem(&self) -> Result<(Type, Structs)> {
        let mut structs = Structs::default();
        let ty = &self.tree.body()?.shape.fields[self.index()].elem;
        Ok((ty.enter(&mut structs), structs))
    }

    /// Bytes of an element.
    pub(crate) fn size(&self) -> Result<usize> {
        let (ty, structs) = self.elem()?;
        Ok(structs.size_align(ty).0 as usize)
    }

    /// The scalars of an element.
    pub(crate) fn scalars(&self) -> Result<Vec<Scalar>> {
        let (ty, structs) = self.elem()?;
        Ok(structs.flatten(ty))
    }

    /// Its adjoint or tangent, if it has one.
    pub(crate) fn derivative(&self, which: Derivative) -> Option<FieldHandle> {
        let link = self.tree.links.find(self.field, which)?;
        Some(FieldHandle {
            tree: link.tree.unwrap_or_else(|| self.tree.clone()),
            field: link.target,
        })
    }

    /// The same, where it has to be there.
    pub(crate) fn expect_derivative(&self, which: Derivative) -> Result<FieldHandle> {
        self.tree.body()?;
        self.derivative(which).ok_or_else(|| {
            let what = format!("field `{}` has no {}", self.name(), which.noun());
            Error::new("W0730", what).help(which.help())
        })
    }

    /// Makes another field the adjoint or tangent of this one.
    pub(crate) fn set_derivative(&self, which: Derivative, other: &FieldHandle) -> Result<()> {
        let (own, its) = (self.tree.body()?, other.tree.body()?);
        let (name, noun) = (self.name(), which.noun());
        let wrong = |why: String| {
            let what = format!(
                "field `{}` cannot be the {noun} of field `{name}`",
                other.name()
            );
            Err(Error::new("W0731", what).note(why))
        };
        if self.tree.world != other.tree.world {
            return wrong("they are in different worlds".into());
        }
        self.has_derivatives(which)?;
        // One table of structs, so that equal types have equal numbers.
        let mut structs = Structs::default();
        let mut elem = |handle: &FieldHandle, body: &TreeBody| {
            body.shape.fields[handle.index()].elem.enter(&mut structs)
        };
        let (ours, theirs) = (elem(self, own), elem(other, its));
        if ours != theirs {
            return wrong(format!("elements are `{ours}` and `{theirs}`"));
        }
        if self.domain()? != other.domain()? {
            let shown = |h: &FieldHandle| -> Result<String> {
                let ranges = h.domain()?.iter();
                let ranges = ranges.map(|(from, n)| format!("{from}..{}", *from + *n as i64));
                Ok(ranges.collect::<Vec<_>>().join(", "))
            };
            return wrong(format!(
                "elements are at [{}] and [{}]",
                shown(self)?,
                shown(other)?
            ));
        }
        if self == other {
            return wrong("they are the same field".into());
        }
        let same = Arc::ptr_eq(&self.tree, &other.tree);
        if !same && reaches(&other.tree, &self.tree) {
            return wrong("a derivative of one is in the tree of the other already".into());
        }
        if !self.is_split_like(other)? {
            return wrong("their components are not split in the same way".into());
        }
        self.link(which, other)
    }

    /// Allocates an adjoint or tangent in a tree of the same structure, unless there is one.
    pub(crate) fn needs_derivative(
        &self,
        which: Derivative,
        caller: &'static Location<'static>,
    ) -> Result<()> {
        let body = self.tree.body()?;
        if self.derivative(which).is_some() {
            return Ok(());
        }
        self.has_derivatives(which)?;
        let name = format!("{}{}", self.name(), which.suffix());
        let made = self.like(body, &name, caller)?;
        self.link(which, &made)
    }

    /// Links a field with its derivative, and components of split fields with theirs.
    fn link(&self, which: Derivative, other: &FieldHandle) -> Result<()> {
        for (own, its) in self.components()?.iter().zip(&other.components()?) {
            own.link(which, its)?;
        }
        let same = Arc::ptr_eq(&self.tree, &other.tree);
        self.tree.links.set(Link {
            field: self.field,
            which,
            tree: (!same).then(|| other.tree.clone()),
            target: other.field,
        });
        Ok(())
    }

    /// Allocates a field of the same type and extents, in a tree of the same structure.
    fn like(
        &self,
        body: &TreeBody,
        name: &str,
        caller: &'static Location<'static>,
    ) -> Result<FieldHandle> {
        let (state, field) = State::like(body, self.field, name);
        Ok(FieldHandle {
            tree: TreeInner::complete(&self.tree.world, state, &here(caller))?,
            field,
        })
    }

    /// The same for an adjoint that a tape uses in place of this one.
    #[track_caller]
    pub(crate) fn stand_in(&self) -> Result<FieldHandle> {
        let caller = Location::caller();
        self.like(self.tree.body()?, self.name(), caller)
    }

    /// An error if no part of an element is a float.
    fn has_derivatives(&self, which: Derivative) -> Result<()> {
        if self.scalars()?.iter().any(|s| s.is_float()) {
            return Ok(());
        }
        let (ty, _) = self.elem()?;
        let what = format!("field `{}` cannot have a {}", self.name(), which.noun());
        Err(Error::new("W0732", what).note(format!(
            "its elements are `{ty}`: only floats have derivatives"
        )))
    }

    /// Makes all elements zero, at the speed of memory.
    pub(crate) fn clear(&self) -> Result<()> {
        let access = self.access()?;
        if access.address().is_some() {
            let size = self.size()?;
            let whole = ElementBox::whole(&access, size, "")?;
            if whole.fill(&vec![0; size])? {
                return Ok(());
            }
        }
        let zeros = vec![0; self.scalars()?.len()];
        access.serve(Service::Fill, &zeros, &[]).map(|_| ())
    }
}

impl FieldHandle {
    /// Makes all elements zero, and their tangents: the derivative of a constant is zero, for the next product with a Hessian.
    pub(crate) fn clear_constant(&self) -> Result<()> {
        self.clear_soon()?;
        self.tangents().iter().try_for_each(FieldHandle::clear_soon)
    }

    /// Makes all elements zero, in a lazy world together with the launches that wait.
    fn clear_soon(&self) -> Result<()> {
        if self.fill_later(&vec![0; self.scalars()?.len()])? {
            return Ok(());
        }
        self.clear()
    }

    /// Its tangents in all directions.
    pub(crate) fn tangents(&self) -> Vec<FieldHandle> {
        let links = self.tree.links.all().into_iter();
        let own = links.filter(|link| {
            link.field == self.field && matches!(link.which, Derivative::Tangent(_))
        });
        let tangents = own.map(|link| FieldHandle {
            tree: link.tree.unwrap_or_else(|| self.tree.clone()),
            field: link.target,
        });
        // A destroyed one has no values.
        tangents.filter(|t| t.tree.body().is_ok()).collect()
    }
}

impl World {
    /// Makes the gradients of all fields of this world zero, and the duals of gradients.
    ///
    /// ```
    /// use wuji::prelude::*;
    /// # fn main() -> wuji::Result<()> {
    /// let world = World::interpreter()?;
    /// let x = world.field::<f32, 1>("x", 4)?.needs_grad()?;
    /// x.grad()?.fill(1.0)?;
    /// world.clear_gradients()?;
    /// assert_eq!(x.grad()?.to_vec()?, [0.0; 4]);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn clear_gradients(&self) -> Result<()> {
        let at = here(Location::caller());
        self.clear_derivatives(|which| which == Derivative::Adjoint)
            .map_err(|e| e.or_at(at))
    }

    /// Makes the adjoints, or the tangents, of all fields zero.
    pub(crate) fn clear_derivatives(&self, these: impl Fn(Derivative) -> bool) -> Result<()> {
        self.ensure_open()?;
        for tree in self.trees() {
            for link in tree.links.all() {
                let holder = link.tree.as_ref().unwrap_or(&tree);
                // A destroyed one has no values.
                if these(link.which) && holder.body().is_ok() {
                    let handle = FieldHandle {
                        tree: holder.clone(),
                        field: link.target,
                    };
                    handle.clear_constant()?;
                }
            }
        }
        Ok(())
    }
}
