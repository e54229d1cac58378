//! Kernels that compute derivatives of the one under construction.

use super::Builder;
use pyo3::prelude::*;
use wuji::dynamic::autodiff::Derivatives;

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
