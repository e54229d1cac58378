//! Quantized types: numbers with fewer bits than machine types, for the storage of fields.
//!
//! Kernels compute with ordinary types. Only the layout says how numbers are stored:
//!
//! ```
//! use wuji::prelude::*;
//! # fn main() -> wuji::Result<()> {
//! let world = World::interpreter()?;
//! // A position of three 21-bit numbers in one word of 64 bits.
//! let x = world.layout(|root| {
//!     let particle = root.dense(I, 1000).bit_struct(64);
//!     particle.place::<Vec3, 1>("x", qfixed(21, true, 2.0))
//! })?;
//! x.set([7], Vec3::new(0.5, -1.25, 1.999))?;
//! assert_eq!(x.get([7])?[1], -1.25);
//! assert_eq!(x.tree().memory_used(), 8000);
//! # Ok(())
//! # }
//! ```

use crate::world::WorldBuilder;
use std::fmt;
use wuji_ir::quant::{Quantized, Rounding, Scale, SharedExponent};
use wuji_ir::types::Scalar;
use wuji_ir::{Error, Result};

/// How a number is stored: made with [`qint`], [`qfixed`], [`qfixed_scaled`] or [`qfloat`].
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct QuantizedType {
    kind: Kind,
    signed: bool,
    rounding: Rounding,
}

#[derive(Copy, Clone, PartialEq, Debug)]
enum Kind {
    Int { bits: u32 },
    Fixed { bits: u32, scale: f64 },
    Float { exponent: u32, fraction: u32 },
}

/// An integer of 1 to 64 bits. Stores keep the low bits.
pub const fn qint(bits: u32, signed: bool) -> QuantizedType {
    QuantizedType {
        kind: Kind::Int { bits },
        signed,
        rounding: Rounding::Nearest,
    }
}

/// A fixed-point number in `[-max_value, max_value)`, or in `[0, max_value)` if unsigned. Stores round to the nearest
/// number and saturate.
pub fn qfixed(bits: u32, signed: bool, max_value: f64) -> QuantizedType {
    let steps = f64::from(bits) - f64::from(u8::from(signed));
    qfixed_scaled(bits, signed, max_value / steps.exp2())
}

/// A fixed-point number: an integer of some bits times `scale`.
pub const fn qfixed_scaled(bits: u32, signed: bool, scale: f64) -> QuantizedType {
    QuantizedType {
        kind: Kind::Fixed { bits, scale },
        signed,
        rounding: Rounding::Nearest,
    }
}

/// A floating-point number with an exponent and a fraction, which includes the sign. `qfloat(5, 11, true)` has the bits
/// of IEEE half precision.
pub const fn qfloat(exponent: u32, fraction: u32, signed: bool) -> QuantizedType {
    QuantizedType {
        kind: Kind::Float { exponent, fraction },
        signed,
        rounding: Rounding::Nearest,
    }
}

impl QuantizedType {
    /// Stores of the program round up or down at random, such that the expected value is right. The host rounds to the nearest number.
    pub const fn stochastic(mut self) -> QuantizedType {
        self.rounding = Rounding::Stochastic;
        self
    }

    /// Bits of one number. In a group with a shared exponent: without the exponent.
    pub(crate) fn bits(self, shared: bool) -> u32 {
        match self.kind {
            Kind::Int { bits } | Kind::Fixed { bits, .. } => bits,
            Kind::Float { fraction, .. } if shared => fraction,
            Kind::Float { exponent, fraction } => exponent.saturating_add(fraction),
        }
    }

    /// Bits of the exponent of a floating-point number.
    pub(crate) fn exponent(self) -> Option<u32> {
        match self.kind {
            Kind::Int { .. } | Kind::Fixed { .. } => None,
            Kind::Float { exponent, .. } => Some(exponent),
        }
    }

    /// The type in the IR, for numbers that kernels see as `compute`. `at` is where a shared exponent is.
    pub(crate) fn lower(self, compute: Scalar, at: Option<u8>) -> Result<Quantized> {
        let signed = self.signed;
        let bits = |n: u32| u8::try_from(n).unwrap_or(u8::MAX);
        let ty = match self.kind {
            Kind::Int { bits: n } => Quantized::Int {
                bits: bits(n),
                signed,
            },
            Kind::Fixed { bits: n, scale } => Quantized::Fixed {
                bits: bits(n),
                signed,
                scale: Scale::new(scale).ok_or_else(|| {
                    self.wrong(format!("the scale {scale:?} is not positive and finite"))
                })?,
                rounding: self.rounding,
            },
            Kind::Float { exponent, fraction } => match at {
                None => Quantized::Float {
                    exponent: bits(exponent),
                    fraction: bits(fraction),
                    signed,
                    rounding: self.rounding,
                },
                Some(_) if self.rounding == Rounding::Stochastic => {
                    let why = "numbers with a shared exponent are rounded to the nearest";
                    return Err(self.wrong(why.to_owned()));
                }
                Some(at) => Quantized::Fraction {
                    bits: bits(fraction),
                    signed,
                    exponent: SharedExponent {
                        at,
                        bits: bits(exponent),
                    },
                },
            },
        };
        ty.check(compute).map_err(|why| self.wrong(why))?;
        Ok(ty)
    }

    #[cold]
    fn wrong(self, why: String) -> Error {
        Error::new("W0150", format!("`{self}` is not a quantized type: {why}"))
    }
}

impl fmt::Display for QuantizedType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let signed = self.signed;
        match self.kind {
            Kind::Int { bits } => write!(f, "qint({bits}, {signed})"),
            Kind::Fixed { bits, scale } => {
                write!(f, "qfixed_scaled({bits}, {signed}, {scale:?})")
            }
            Kind::Float { exponent, fraction } => {
                write!(f, "qfloat({exponent}, {fraction}, {signed})")
            }
        }
    }
}

impl WorldBuilder {
    /// Reports stores to fields of quantized types that lose precision: a number that keeps fewer than `bits`
    /// significant bits is an error. With 0, only a number that becomes zero is; `None` reports none. Costs time. Default: 0 in
    /// [debug](WorldBuilder::debug) worlds, otherwise `None`.
    ///
    /// ```
    /// use wuji::prelude::*;
    ///
    /// #[kernel]
    /// fn halve(x: &Field<f32, 1>) {
    ///     for [i] in x {
    ///         x[[i]] = x[[i]] * 0.5;
    ///     }
    /// }
    ///
    /// # fn main() -> wuji::Result<()> {
    /// let world = World::builder().check_precision(5).build()?;
    /// let x = world.layout(|root| {
    ///     root.dense(I, 4).bit_struct(8).place::<f32, 1>("x", qfixed(8, true, 2.0)) // multiples of 1/64
    /// })?;
    /// x.fill(0.328125)?; // 21/64
    /// let error = halve(&x).unwrap_err();
    /// assert!(error.message.contains("field `x` cannot store 0.1640625: it becomes 0.15625"), "{error}");
    /// # Ok(())
    /// # }
    /// ```
    pub fn check_precision(mut self, bits: impl Into<Option<u32>>) -> WorldBuilder {
        self.check_precision = Some(bits.into());
        self
    }
}
