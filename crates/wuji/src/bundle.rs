//! Bundles: structs of fields that kernels take as one argument.
//!
//! ```
//! use wuji::prelude::*;
//!
//! #[derive(Fields)]
//! struct Fluid {
//!     velocity: Field<Vec2, 2>,
//!     /// Current and next.
//!     dye: [Field<f32, 2>; 2],
//!     dt: f32,
//! }
//!
//! #[kernel]
//! impl Fluid {
//!     fn advect(&self, gravity: Vec2) {
//!         for [i, j] in self.velocity {
//!             let v = self.velocity[[i, j]] + gravity * self.dt;
//!             self.velocity[[i, j]] = v;
//!             let from = vec2(i as f32, j as f32) - v * self.dt;
//!             self.dye[1][[i, j]] = self.dye[0][[from.x.round() as i32, from.y.round() as i32]];
//!         }
//!     }
//! }
//!
//! # fn main() -> wuji::Result<()> {
//! let world = World::interpreter()?;
//! let fluid = Fluid {
//!     velocity: world.field("velocity", [8, 8])?,
//!     dye: [world.field("dye", [8, 8])?, world.field("next dye", [8, 8])?],
//!     dt: 0.5,
//! };
//! fluid.dye[0].fill(3.0)?;
//! fluid.advect(vec2(0.0, -2.0))?;
//! assert_eq!(fluid.dye[1].get([4, 4])?, 3.0);
//! # Ok(())
//! # }
//! ```
//!
//! A member is a [`Field`], an [`NdArray`], [`Cells`], a value ([`Element`]), a [`Param`], which is a value with a gradient, a fixed-size array of members, or another bundle. Values
//! are passed to the kernel at each launch, as any other argument by value. `#[fields(skip)]` leaves a member to the host.
//!
//! A launch gets only the members that the kernel uses, so a kernel costs the same whether its bundle has three fields or thirty. The
//! whole bundle is passed where a kernel hands it to a `#[func]`.

use crate::args::{Arg, ArgKind, KernelArg};
use crate::autodiff::Param;
use crate::cells::Cells;
use crate::element::Element;
use crate::field::Field;
use crate::nd_array::NdArray;
use crate::world::World;
use wuji_ir::Result;

/// A struct of fields, with `#[derive(Fields)]`; see [the module](self).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a bundle of fields",
    label = "a kernel cannot take it",
    note = "put `#[derive(Fields)]` in front of the struct, and let the kernel take it by reference"
)]
pub trait Fields: Member {
    /// The world of the first field, array or node.
    fn world(&self) -> Option<&World> {
        self.member_world()
    }
}

/// What a [bundle](self) can hold.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be used inside a Wuji kernel",
    label = "not a field, a value, an array of them, or a bundle",
    note = "bundles hold fields, `Cells`, `NdArray`s, elements, `Param`s, fixed-size arrays of those, and structs with `#[derive(Fields)]`",
    note = "`#[fields(skip)]` leaves a member to the host"
)]
pub trait Member {
    /// It as an argument of a launch.
    #[doc(hidden)]
    fn member(&self, wanted: Wanted) -> Result<Arg<'_>>;

    /// The world that it lives in.
    #[doc(hidden)]
    fn member_world(&self) -> Option<&World> {
        None
    }
}

/// What a kernel uses of a bundle.
#[doc(hidden)]
#[derive(Copy, Clone, Debug)]
pub struct Wanted {
    /// Sorted, and alike in the first `depth` names.
    paths: &'static [&'static [&'static str]],
    depth: usize,
}

impl Wanted {
    /// Every member.
    pub const ALL: Wanted = Wanted::members(&[&[]]);

    /// The members with these paths, which are sorted. The empty path stands for all.
    pub const fn members(paths: &'static [&'static [&'static str]]) -> Wanted {
        Wanted { paths, depth: 0 }
    }

    /// What is used of the member with this name.
    pub fn of(self, name: &str) -> Option<Wanted> {
        let depth = self.depth;
        if self.paths.first().is_some_and(|p| p.len() <= depth) {
            return Some(Wanted::ALL);
        }
        let is_below = |p: &&&[&str]| p.get(depth) == Some(&name);
        let first = self.paths.iter().position(|p| is_below(&p))?;
        let rest = &self.paths[first..];
        let count = rest.iter().take_while(is_below).count();
        Some(Wanted {
            paths: &rest[..count],
            depth: depth + 1,
        })
    }
}

#[diagnostic::do_not_recommend]
impl<T: Element> Member for T {
    fn member(&self, _: Wanted) -> Result<Arg<'_>> {
        (*self).arg()
    }
}

impl<T: Element, const D: usize> Member for Field<T, D> {
    fn member(&self, _: Wanted) -> Result<Arg<'_>> {
        self.arg()
    }

    fn member_world(&self) -> Option<&World> {
        Some(self.world())
    }
}

impl<T: Element, const D: usize> Member for NdArray<T, D> {
    fn member(&self, _: Wanted) -> Result<Arg<'_>> {
        self.arg()
    }

    fn member_world(&self) -> Option<&World> {
        Some(self.world())
    }
}

impl<T: Element> Member for Param<T> {
    fn member(&self, _: Wanted) -> Result<Arg<'_>> {
        self.arg()
    }

    fn member_world(&self) -> Option<&World> {
        Some(self.world())
    }
}

impl<const D: usize> Member for Cells<D> {
    fn member(&self, _: Wanted) -> Result<Arg<'_>> {
        self.arg()
    }

    fn member_world(&self) -> Option<&World> {
        Some(self.world())
    }
}

impl Member for World {
    fn member(&self, _: Wanted) -> Result<Arg<'_>> {
        self.arg()
    }

    fn member_world(&self) -> Option<&World> {
        Some(self)
    }
}

impl<M: Member, const N: usize> Member for [M; N] {
    fn member(&self, wanted: Wanted) -> Result<Arg<'_>> {
        let items: Result<Vec<Arg<'_>>> = self.iter().map(|m| m.member(wanted)).collect();
        Ok(Arg(ArgKind::List(items?)))
    }

    fn member_world(&self) -> Option<&World> {
        self.iter().find_map(Member::member_world)
    }
}

impl<'a> Arg<'a> {
    /// The members of a bundle, by name. `#[derive(Fields)]` calls it.
    #[doc(hidden)]
    pub fn bundle(members: Vec<(&'static str, Arg<'a>)>) -> Arg<'a> {
        Arg(ArgKind::Bundle(members))
    }
}
