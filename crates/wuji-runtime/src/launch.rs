//! Running a program once.

use crate::array::{ArrayArg, Owner, unaliased};
use crate::device::{Backend, Device};
use crate::memory::Memory;
use crate::program::Program;
use crate::report::Collected;
use smallvec::SmallVec;
use wuji_ir::{Error, Result};

/// What a program works on.
#[derive(Debug)]
pub struct Bindings<'a> {
    /// One slot per scalar of the by-value parameters, the value in the low bytes.
    pub params: &'a [u64],
    /// One per tree of the module.
    pub trees: &'a [&'a Memory],
    /// One per array of the module.
    pub arrays: &'a [ArrayArg<'a>],
}

/// What a launch left besides the memory it worked on.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The scalars of the result, one per slot; none when the kernel gives none or ended early.
    pub result: SmallVec<[u64; 4]>,
    /// `None` when nothing was reported or printed.
    pub collected: Option<Box<Collected>>,
    /// What went wrong in launches before this one that nobody had waited for.
    pub earlier: Option<Box<Error>>,
}

/// Checks that what is bound is what the program was made for.
pub(crate) fn check(device: &Device, program: &Program, bindings: &Bindings<'_>) -> Result<()> {
    let module = &program.module;
    let wrong = |what: String| Err(Error::new("W0118", what));
    if bindings.params.len() != program.params.len()
        || bindings.trees.len() != program.tree_sizes.len()
        || bindings.arrays.len() != program.array_elements.len()
    {
        return wrong(format!(
            "kernel `{}` needs {} parameter slots, {} trees and {} arrays; it was given {}, {} and {}",
            module.name,
            program.params.len(),
            program.tree_sizes.len(),
            program.array_elements.len(),
            bindings.params.len(),
            bindings.trees.len(),
            bindings.arrays.len(),
        ));
    }
    for (n, (memory, size)) in bindings.trees.iter().zip(&program.tree_sizes).enumerate() {
        if !device.owns(memory) {
            return wrong(format!("tree {n} belongs to another world"));
        }
        // Somebody may have given it back while this launch waited for its turn.
        if memory.is_released() {
            return Err(released());
        }
        if (memory.size() as u64) < *size {
            return wrong(format!("tree {n} is smaller than the kernel expects"));
        }
        // Two trees never overlap; compiled code relies on it.
        if bindings.trees[..n]
            .iter()
            .any(|m| std::ptr::eq(*m, *memory))
        {
            return wrong(format!("tree {n} is bound twice"));
        }
    }
    if bindings.arrays.is_empty() {
        return Ok(());
    }
    let elements = program.array_elements.iter();
    for ((arg, data), (size, align)) in bindings
        .arrays
        .iter()
        .zip(module.arrays.values())
        .zip(elements)
    {
        let name = &data.name;
        reachable(device.backend(), arg.owner(), name)?;
        if arg.rank() != usize::from(data.rank) {
            let (has, needs) = (arg.rank(), data.rank);
            return wrong(format!("array `{name}` has {has} axes, not {needs}"));
        }
        if !arg.holds(data.elem, *size, *align) {
            return wrong(format!(
                "array `{name}` has other elements than `{}`",
                data.elem
            ));
        }
        if data.writable && !arg.is_writable() {
            return wrong(format!("array `{name}` can only be read"));
        }
        // What one iteration writes at its own index belongs to it; compiled code relies on it.
        if data.writable && !arg.elements_apart() {
            let what = format!("array `{name}` is written to, but its elements overlap");
            return Err(Error::new("W0117", what)
                .help("use strides with which every element has a place of its own"));
        }
        if data.contiguous && !arg.is_contiguous() {
            return wrong(format!("array `{name}` has gaps"));
        }
    }
    for (data, alone) in module.arrays.values().zip(unaliased(bindings.arrays)) {
        if data.unaliased && !alone {
            return wrong(format!("array `{}` overlaps another one", data.name));
        }
    }
    Ok(())
}

/// Whether the kernels of a world can use an array. What the host has is copied to GPUs.
fn reachable(backend: Backend, owner: Owner, name: &str) -> Result<()> {
    let (n, here) = match (owner, backend) {
        (Owner::Host, _) => return Ok(()),
        (Owner::Cuda(n), Backend::Cuda(m)) if n == m => return Ok(()),
        (Owner::Cuda(n), Backend::Cuda(m)) => (n, format!("on CUDA device {m}")),
        (Owner::Cuda(n), Backend::Cpu | Backend::Interpreter) => (n, "on the CPU".to_owned()),
    };
    let what = format!("array `{name}` lies on CUDA device {n}, and the kernel runs {here}");
    Err(Error::new("W0133", what)
        .help("copy it there first (PyTorch: `.cpu()`, `.to(..)`), or use a world on its device"))
}

/// What is said of a tree whose memory was given back.
pub fn released() -> Error {
    Error::new("W0131", "the tree of this field was destroyed")
        .note("its memory was given back by `destroy`, or with its world")
        .help("make a new layout")
}
