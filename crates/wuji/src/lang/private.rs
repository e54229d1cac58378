//! The names that expansions of the macros use. Not public API.

pub use super::ast;
pub use super::calls::{NotPlain, Plain, asked};
pub use super::operators::{self, Fieldwise, NotOwn, Own};
pub use super::parts::{
    BundleFunc, CallOf, Handle, Nested, Opened, TakesClosures, called, member_part_mut,
    member_value, nested, part, part_mut,
};
pub use super::record::{Data, IsFunc, IsPlain, Recorder, Value, record_func, recording};
pub use super::shadow::{
    OnlyInKernels, activate, append, append_value, at, deactivate, each_array, each_vector, elem,
    existing, index, index_mut, is_active, items, len, lend, length, method1, method2, method3,
    method4, method5, method6, method7, method8, method9, method10, offset, pin_closure0,
    pin_closure1, pin_closure2, pin_closure3, pin_closure4, pin_closure5, pin_closure6, place,
    probe, probe_exclusive, probe_shared, shape, slot, stand_in0, stand_in1, stand_in2, stand_in3,
    stand_in4, stand_in5, stand_in6, typed1, typed2, typed3, typed4, typed5, typed6, typed7,
    typed8, typed9, typed10, val,
};
pub use crate::part::Part;
pub use wuji_ir::types::{Structs, Type};

use super::ast::Ast;
use super::record::{instance, record_kernel};
use super::recording::TypeTag;
use crate::args::KernelArg;
use crate::autodiff::{InMode, Mode, Param};
use crate::bundle::{Fields, Wanted};
use crate::cells::Cells;
use crate::element::Element;
use crate::field::Field;
use crate::launch::{Call, KernelResult};
use crate::nd_array::NdArray;
use crate::world::World;
use wuji_ir::enums;
use wuji_ir::types::StructType;
use wuji_ir::{Error, Result};

/// Starts a call of a kernel. `instance` is a closure of the instance that is called.
#[track_caller]
pub fn call<'a, K: 'static>(name: &'static str, instance_of: &K) -> Call<'a> {
    Call::new(name, instance(instance_of))
}

/// An argument by value.
pub fn value<T: Element>(call: &mut Call<'_>, value: T) -> TypeTag {
    call.arg(value);
    TypeTag::Element(T::ir_type)
}

/// An argument by value that has a gradient.
pub fn param<'a, T: Element>(call: &mut Call<'a>, param: &'a Param<T>) -> TypeTag {
    call.arg(param);
    TypeTag::Element(T::ir_type)
}

/// What names the world that a kernel runs in.
pub trait InWorld {
    fn its_world(&self) -> &World;
}

impl InWorld for World {
    fn its_world(&self) -> &World {
        self
    }
}

impl<T: Element, const D: usize> InWorld for Field<T, D> {
    fn its_world(&self) -> &World {
        self.world()
    }
}

impl<T: Element, const D: usize> InWorld for NdArray<T, D> {
    fn its_world(&self) -> &World {
        self.world()
    }
}

impl<const D: usize> InWorld for Cells<D> {
    fn its_world(&self) -> &World {
        self.world()
    }
}

impl<T: Element> InWorld for Param<T> {
    fn its_world(&self) -> &World {
        self.world()
    }
}

/// While it lives, launches of this thread run gradient kernels.
#[derive(Debug)]
pub struct GradientMode<'w> {
    _mode: InMode<'w>,
}

/// Starts that.
pub fn gradient_mode(world: &World) -> Result<GradientMode<'_>> {
    let _mode = InMode::enter(world, Mode::Gradient)?;
    Ok(GradientMode { _mode })
}

/// Runs a kernel that has a gradient of its own.
#[track_caller]
pub fn with_gradient<R: KernelResult>(
    world: &World,
    forward: impl FnOnce() -> Result<R>,
    backward: impl Fn() -> Result<()> + Send + Sync + 'static,
) -> Result<R> {
    let result = world.replaced_grad(forward, backward)?;
    // Where `backward` has run instead, the result is zero.
    Ok(result.unwrap_or_else(|| R::from_result(&vec![0; R::SCALARS])))
}

/// An argument behind a reference.
pub fn data<'a, X: KernelArg<'a>>(call: &mut Call<'a>, x: X) -> TypeTag {
    call.arg(x)
}

/// The members of a bundle that a kernel uses. The kernel runs in the world of the bundle if it uses no field of it.
pub fn bundle<'a, B: Fields>(
    call: &mut Call<'a>,
    bundle: &'a B,
    paths: &'static [&'static [&'static str]],
) -> TypeTag {
    let tag = match bundle.member(Wanted::members(paths)) {
        Ok(arg) => call.add(arg),
        Err(error) => call.refuse(error),
    };
    call.or_enter(bundle.world());
    tag
}

/// The world of a bundle.
pub fn world_of<B: Fields>(bundle: &B) -> Result<World> {
    bundle.world().cloned().ok_or_else(|| {
        Error::new("W0116", "the bundle has no world to run a kernel in")
            .note("a kernel runs in the world of its fields, and the bundle has none")
            .help("put the world into the bundle: `world: World`")
    })
}

/// What a kernel can return: an element, or nothing.
#[diagnostic::on_unimplemented(
    message = "a kernel cannot return `{Self}`",
    label = "not a type of the kernel language"
)]
pub trait Returned: KernelResult {
    fn tag() -> TypeTag;
}

#[diagnostic::do_not_recommend]
impl<T: Element> Returned for T {
    fn tag() -> TypeTag {
        TypeTag::Element(T::ir_type)
    }
}

impl Returned for () {
    fn tag() -> TypeTag {
        TypeTag::Unit
    }
}

/// Runs a kernel.
pub fn launch<R: Returned>(
    call: Call<'_>,
    ast: &'static Ast,
    fill: &dyn Fn(&mut Recorder),
) -> Result<R> {
    call.run::<R>(&|| record_kernel(ast, R::tag(), fill))
}

/// Enters the struct of an enum: its variants with their discriminants, and their fields as `Variant.field`.
pub fn enum_type(
    structs: &mut Structs,
    name: &str,
    variants: &[(&str, i64)],
    fields: Vec<(String, Type)>,
) -> Type {
    Type::Struct(structs.intern(enums::enum_type(name, variants, fields)))
}

/// Enters a struct type.
pub fn struct_type(structs: &mut Structs, name: &str, fields: Vec<(String, Type)>) -> Type {
    Type::Struct(structs.intern(StructType {
        name: name.to_string(),
        fields,
    }))
}
