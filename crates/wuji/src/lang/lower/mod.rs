//! From a recording to the unlowered kernel.

use crate::lang::recording::{Bound, Recording};
use wuji_ir::module::Module;
use wuji_ir::{Error, Result};

/// Adds the functions of a recording to a module that has its structs, trees, fields, arrays and
/// by-value parameters already. `bounds` says what each parameter of the kernel is.
pub fn lower(recording: &Recording, _bounds: &[Bound], _module: Module) -> Result<Module> {
    let name = recording.functions.first().map_or("?", |f| f.ast.name);
    Err(Error::new(
        "W0200",
        format!("kernel `{name}` cannot be lowered yet"),
    ))
}
