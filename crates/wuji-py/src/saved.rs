//! Kernels that were saved as text.

use crate::error::{OrRaise, raised};
use crate::layout::Tree;
use crate::program::{Program, passing};
use crate::waiting::detached;
use crate::world::World;
use pyo3::prelude::*;
use wuji::dynamic::{Kernel, compile_aside};
use wuji::{Error, Result};
use wuji_ir::module::Module;
use wuji_ir::ops::{Activation, Guard, Op, Stage};

/// Compiles a kernel from the text of its module, for these trees.
///
/// With `any_arrays`, arrays may alias and have any strides, whatever the text says.
#[pyfunction]
pub(crate) fn load_program(
    py: Python<'_>,
    world: &World,
    text: &str,
    file: &str,
    trees: Vec<PyRef<'_, Tree>>,
    arguments: Vec<(String, usize)>,
    any_arrays: bool,
) -> PyResult<Program> {
    let mut module = read(text, file).or_raise()?;
    if any_arrays {
        for array in module.arrays.values_mut() {
            (array.unaliased, array.contiguous) = (false, false);
        }
    }
    let damaged = |why: String| raised(&damaged(file, &why));
    let slots = module.param_slots();
    let passing = passing(&module, &arguments, &slots).map_err(damaged)?;
    let trees: Vec<wuji::Tree> = trees.iter().map(|t| t.tree.clone()).collect();
    let (world, copy) = (world.world.clone(), module.clone());
    let load = move || Kernel::load(&world, copy, &trees);
    let kernel = detached(py, || compile_aside(load))?.or_raise()?;
    let result = (module.kernel).and_then(|f| module.funcs[f].results.first().copied());
    let slots = slots.last().copied().unwrap_or(0);
    Program::new(kernel, module, passing, slots, result)
        .ok_or_else(|| damaged("an array has struct elements".into()))
}

/// Parses and checks a module, which may be anything.
fn read(text: &str, file: &str) -> Result<Module> {
    let module = wuji_ir::text::parse(text, file)?;
    wuji_ir::verify::verify(&module)?;
    if module.kernel.is_none() {
        return Err(damaged(file, "it has no kernel"));
    }
    if let Some(why) = foreign(&module) {
        return Err(damaged(file, why));
    }
    // A launch finds the fields of a tree by the first one.
    let mut last = None;
    for (field, data) in &module.fields {
        if last.is_some_and(|tree| data.tree < tree) {
            return Err(damaged(
                file,
                &format!("{field} is not next to the fields of its tree"),
            ));
        }
        last = Some(data.tree);
    }
    Ok(module)
}

/// What in a module no frontend makes: only passes may state that an access needs no check, or access memory by its address.
fn foreign(module: &Module) -> Option<&'static str> {
    if !module.tasks.is_empty() {
        return Some("it is compiled");
    }
    for inst in module.funcs.values().flat_map(|f| f.insts.values()) {
        if !matches!(inst.op.info().stage, Stage::Frontend | Stage::Any) {
            return Some("it has instructions that only the compiler makes");
        }
        if let Op::Load(access)
        | Op::Store(access)
        | Op::Atomic(_, access)
        | Op::CompareExchange(access) = &inst.op
        {
            let proved = access.activation == Activation::KnownActive;
            if proved || access.guard == Guard::InBounds {
                return Some("it has accesses that are not checked");
            }
        }
    }
    None
}

fn damaged(file: &str, why: &str) -> Error {
    Error::new("W0531", format!("{file} is not a saved kernel")).note(why)
}
