//! Kernels that compute derivatives of the one under construction.

use super::{Builder, Invalid};
use crate::program::{Argument, Program, Use};
use crate::world::World;
use pyo3::prelude::*;
use wuji::dynamic::Kernel;
use wuji::dynamic::autodiff::{self, CellUse, Derivatives};
use wuji_ir::module::Module;

/// A mode, `reverse`, `forward`, or `constant` for tangents that are zero; pairs of a field and the field of its derivatives; the same for arrays.
pub(super) type DerivativesLike = (String, Vec<(u32, u32)>, Vec<(u32, u32)>);

/// What is computed, and where the derivatives are.
pub(super) enum Mode {
    Reverse(Derivatives),
    Forward(Derivatives),
}

impl Builder {
    /// Checks what the frontend states.
    pub(super) fn derivatives(&self, given: DerivativesLike) -> PyResult<Mode> {
        let (mode, fields, arrays) = given;
        let mut found = Derivatives::default();
        for (primal, derivative) in fields {
            let (primal, derivative) = (self.field(primal)?, self.field(derivative)?);
            if self.m.fields[primal].elem != self.m.fields[derivative].elem {
                let what = format!("the derivative of {primal} has another element type");
                return Err(self.invalid(what));
            }
            found.fields.insert(primal, derivative);
        }
        for (primal, derivative) in arrays {
            let (primal, derivative) = (self.array_id(primal)?, self.array_id(derivative)?);
            let (of, to) = (&self.m.arrays[primal], &self.m.arrays[derivative]);
            if (of.elem, of.rank) != (to.elem, to.rank) {
                let what = format!("the derivative of {primal} has another type");
                return Err(self.invalid(what));
            }
            found.arrays.insert(primal, derivative);
        }
        if mode == "forward" || mode == "constant" {
            found.constant = mode == "constant";
            return Ok(Mode::Forward(found));
        }
        if mode != "reverse" {
            return Err(self.invalid(format!("unknown mode `{mode}`")));
        }
        // An element that is stored to has an adjoint for each of its values.
        found.overwritten = found.fields.keys().copied().collect();
        found.overwritten.sort();
        found.overwritten_arrays = found.arrays.keys().copied().collect();
        found.overwritten_arrays.sort();
        Ok(Mode::Reverse(found))
    }
}

/// How a call passes its arguments, and how many slots its parameters have.
#[derive(Clone)]
pub(super) struct Calls {
    passing: Vec<Argument>,
    slots: usize,
}

/// A kernel that is complete, and what is derived from it.
pub(super) struct Finished {
    module: Module,
    modes: Vec<Mode>,
    trees: Vec<wuji::Tree>,
    world: wuji::World,
}

/// Compiled code with its module; of a gradient kernel, with how it uses fields, arrays and cells.
pub(super) struct Made {
    kernel: Kernel,
    module: Module,
    uses: (Vec<Use>, Vec<Use>),
    cells: Vec<CellUse>,
}

impl Finished {
    fn load(&self, module: Module) -> wuji::Result<Made> {
        Ok(Made {
            kernel: Kernel::load(&self.world, module.clone(), &self.trees)?,
            module,
            uses: Default::default(),
            cells: Vec::new(),
        })
    }

    /// The kernel, or the one that computes its derivatives.
    pub(super) fn derived(&self) -> wuji::Result<Made> {
        self.derive(self.module.clone(), &self.modes)
    }

    fn derive(&self, mut m: Module, modes: &[Mode]) -> wuji::Result<Made> {
        let (mut uses, mut cells) = Default::default();
        for mode in modes {
            m = match mode {
                Mode::Reverse(adjoints) => {
                    let gradient = autodiff::reverse(&m, adjoints)?;
                    uses = Use::all(&m, &gradient);
                    cells = autodiff::cell_uses(&m);
                    gradient.module
                }
                Mode::Forward(tangents) => autodiff::forward(&m, std::slice::from_ref(tangents))?,
            };
        }
        let made = self.load(m)?;
        Ok(Made {
            uses,
            cells,
            ..made
        })
    }

    /// The parts of the kernel, and their gradients.
    pub(super) fn parts(&self) -> wuji::Result<Vec<(Made, Made)>> {
        let Some((Mode::Reverse(adjoints), outer)) = self.modes.split_first() else {
            return Ok(Vec::new());
        };
        let parts = autodiff::parts(&self.module, adjoints)?.into_iter();
        let made = parts.map(|part| {
            let gradient = self.derive(part.clone(), &self.modes)?;
            Ok((self.derive(part, outer)?, gradient))
        });
        made.collect()
    }
}

impl Builder {
    /// Ends the kernel.
    pub(super) fn close(
        &mut self,
        world: &World,
        arguments: &[(String, usize)],
        derivatives: Vec<DerivativesLike>,
    ) -> PyResult<(Finished, Calls)> {
        self.ensure_open()?;
        if self.frames.len() != 1 {
            return Err(self.invalid("a function is still open"));
        }
        let bodyless = self.m.funcs.iter().find(|f| !self.defined.contains(&f.0));
        if let Some((_, f)) = bodyless {
            return Err(self.invalid(format!("function `{}` has no body", f.name)));
        }
        let slots = self.m.param_slots();
        let passing = self.arguments(arguments, &slots)?;
        let Some(frame) = self.frames.pop() else {
            return Err(self.invalid("no function is open"));
        };
        self.finished = true;
        let (kernel, _) = frame
            .finish(self.span)
            .map_err(|Invalid(what)| self.invalid(what))?;
        let modes = derivatives.into_iter().map(|d| self.derivatives(d));
        let modes = modes.collect::<PyResult<Vec<Mode>>>()?;
        let mut module = std::mem::take(&mut self.m);
        module.kernel = Some(module.add_func(kernel));
        let finished = Finished {
            module,
            modes,
            trees: self.trees.drain(..).map(|t| t.0).collect(),
            world: world.world.clone(),
        };
        let calls = Calls {
            passing,
            slots: slots.last().copied().unwrap_or(0),
        };
        Ok((finished, calls))
    }

    /// Compiled code that Python can call.
    pub(super) fn program(&self, calls: Calls, made: Made) -> PyResult<Program> {
        let m = &made.module;
        let result = (m.kernel).and_then(|f| m.funcs[f].results.first().copied());
        Program::new(made.kernel, made.module, calls.passing, calls.slots, result)
            .map(|program| program.with_uses(made.uses, &made.cells))
            .ok_or_else(|| self.invalid("an array has struct elements"))
    }
}
