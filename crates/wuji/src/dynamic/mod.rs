//! Layouts, fields and kernels whose types are known at run time only: for faces other than Rust.
//!
//! Everything here is the same thing as in the typed API, in the same worlds: elements are slots (one scalar in the low bytes of
//! each) or bytes as they lie in memory, kernels are modules of the IR.
//!
//! ```
//! use wuji::dynamic::{Field, Kernel, Layout};
//! use wuji::World;
//! use wuji_ir::types::{Scalar, Type};
//! # fn main() -> wuji::Result<()> {
//! let world = World::interpreter()?;
//! let mut layout = Layout::new(&world);
//! let cells = layout.dense(0, &[0], &[4])?;
//! layout.place(cells, "x", Type::Scalar(Scalar::I32), None)?;
//! let tree = layout.finish()?;
//! let x = Field::of(&tree, 0)?;
//! x.set(&[2], &[7])?;
//!
//! let mut module = wuji_ir::module::Module::default();
//! wuji::dynamic::enter(&mut module, &tree)?; // its field is `f0`
//! # let text = format!("{module}\nkernel fn0 \"k\"() {{\n foreach L0 (v0: i32) in f0 {{\n v1: i32 = load f0[v0]\n v2: i32 = add v1, v1\n store f0[v0], v2\n continue L0\n }}\n return\n}}");
//! # let module = wuji_ir::text::parse(&text, "k.wir")?;
//! let kernel = Kernel::load(&world, module, &[tree])?;
//! kernel.run(&[], &[])?;
//! assert_eq!(x.get(&[2])?[..], [14]);
//! # Ok(())
//! # }
//! ```

mod array;
mod derivatives;
mod field;
mod kernel;
mod layout;
mod packed;
#[cfg(test)]
mod tests;

pub use crate::lang::decompositions::Decomposition;
pub use crate::launch::Launched;
pub(crate) use array::FreedWithWorld;
pub use array::{Array, ArrayOwner, HostArray};
pub use derivatives::{
    ArrayDerivative, add_custom_gradient, begin_forward_mode, begin_tape, check_loss, clear_duals,
    end_tape, pause, resume, seed,
};
pub use field::{Field, Slots};
pub use kernel::Kernel;
pub use layout::Layout;
pub use packed::PackedBits;
pub use wuji_compile::autodiff;
pub use wuji_runtime::array::{ArrayArg, Owner, unaliased};
pub use wuji_runtime::before_exit;
pub use wuji_runtime::memory::Way;
pub use wuji_runtime::pool::forks;
pub use wuji_runtime::{check_interrupt, compile_aside, compute_aside, with_poll};

use crate::lang::decompositions;
use crate::lang::lower::lower_function;
use crate::layout::Tree;
use wuji_ir::Result;
use wuji_ir::entities::Func;
pub use wuji_ir::layout::NodeKind;
use wuji_ir::module::Module;
use wuji_ir::types::Scalar;

/// Enters a tree with its fields into a module; gives the number of the first of them. A kernel is bound to its trees in the
/// order in which they were entered.
pub fn enter(module: &mut Module, tree: &Tree) -> Result<u32> {
    let body = tree.inner.body()?;
    Ok(body.shape.enter(module, &body.names))
}

/// Enters the function of a decomposition, with one parameter and a tuple as its result; `None` if there is none for matrices of
/// `size` rows and columns.
pub fn decomposition(
    module: &mut Module,
    what: Decomposition,
    scalar: Scalar,
    size: usize,
) -> Result<Option<Func>> {
    let recording = match scalar {
        Scalar::F32 => decompositions::recording::<f32>(what, size),
        Scalar::F64 => decompositions::recording::<f64>(what, size),
        _ => None,
    };
    let Some(recording) = recording else {
        return Ok(None);
    };
    let (filled, func) = lower_function(&recording, std::mem::take(module))?;
    *module = filled;
    Ok(Some(func))
}

/// Closes a world, unless this thread gives up waiting for a launch that is under way. Then it can be called again.
pub fn close(world: &crate::World) -> Result<()> {
    world.try_close()
}

/// Frees the memory of a tree, unless this thread gives up waiting for a launch that is under way.
pub fn destroy(tree: &Tree) -> Result<()> {
    tree.inner.destroy()
}

/// What runs the kernels of a world.
pub fn device(world: &crate::World) -> &wuji_runtime::Device {
    world.device()
}

/// Whether this thread records a graph in a world.
pub fn is_recording(world: &crate::World) -> bool {
    world.is_recording()
}

/// A scalar of memory as a slot.
pub fn read_slot(scalar: Scalar, bytes: &[u8]) -> u64 {
    let mut own = [0; 8];
    let n = scalar.bytes() as usize;
    own[..n].copy_from_slice(&bytes[..n]);
    u64::from_le_bytes(own)
}

/// The scalar in a slot, to memory.
pub fn write_slot(scalar: Scalar, slot: u64, bytes: &mut [u8]) {
    let n = scalar.bytes() as usize;
    bytes[..n].copy_from_slice(&slot.to_le_bytes()[..n]);
}
