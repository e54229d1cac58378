//! Quantized types.

use crate::convert::parse_plain;
use crate::error::{OrRaise, raised};
use pyo3::prelude::*;
use wuji::Error;
use wuji::dynamic::Layout;
use wuji::quantized::{QuantizedType, qfixed_scaled, qfloat, qint};
use wuji_ir::types::Type;

/// How a number is stored in a word.
#[pyclass(frozen, eq, module = "wuji._native")]
#[derive(PartialEq)]
pub(crate) struct Quantized {
    pub(crate) ty: QuantizedType,
}

#[pymethods]
impl Quantized {
    #[staticmethod]
    fn int(bits: u32, signed: bool) -> Quantized {
        Quantized {
            ty: qint(bits, signed),
        }
    }

    #[staticmethod]
    fn fixed(bits: u32, signed: bool, scale: f64, stochastic: bool) -> Quantized {
        Quantized {
            ty: rounded(qfixed_scaled(bits, signed, scale), stochastic),
        }
    }

    #[staticmethod]
    fn float(exponent: u32, fraction: u32, signed: bool, stochastic: bool) -> Quantized {
        Quantized {
            ty: rounded(qfloat(exponent, fraction, signed), stochastic),
        }
    }

    /// Raises if the type cannot store numbers that kernels see as scalars of the type `compute`.
    fn check(&self, compute: &str) -> PyResult<()> {
        match parse_plain(compute)? {
            Type::Scalar(scalar) => Layout::check_quantized(self.ty, scalar).or_raise(),
            ty => {
                let why = format!("kernels see a quantized number as a scalar, not as `{ty}`");
                Err(raised(&Error::new("W0150", why)))
            }
        }
    }

    fn __repr__(&self) -> String {
        self.ty.to_string()
    }
}

fn rounded(ty: QuantizedType, stochastic: bool) -> QuantizedType {
    if stochastic { ty.stochastic() } else { ty }
}
