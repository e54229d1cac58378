//! Quantized types: how a scalar is stored in some bits of a word.
//!
//! A *packed* field has elements of an ordinary type, its compute type, and no memory of its own: every scalar of an
//! element is a few bits of a *word*, an element of another field. Kernels load and store the compute type; the pass
//! `lower_quantized` encodes and decodes.

mod check;
mod format;
mod number;
mod packed;
mod shared;

pub use format::FloatFormat;
pub use number::range;
pub use packed::{PackedElement, PackedScalar, Words, adds_integers, mask};
pub use shared::{decode_shared, encode_shared};

use crate::entities::Field;
use smallvec::SmallVec;
use std::fmt;

/// How a scalar is represented in bits.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Quantized {
    /// An integer, in two's complement if signed. A store keeps the low bits: it wraps.
    Int {
        /// The bits.
        bits: u8,
        /// Whether there are negative values.
        signed: bool,
    },
    /// A fixed-point number: an integer times `scale`. A store rounds and saturates; NaN is stored as zero.
    Fixed {
        /// The bits.
        bits: u8,
        /// Whether there are negative values.
        signed: bool,
        /// The value of the last bit.
        scale: Scale,
        /// How a number becomes a multiple of the scale.
        rounding: Rounding,
    },
    /// A floating-point number, from high to low bits: the sign, if signed, an exponent with the bias of IEEE 754, and
    /// the digits behind the leading one. `fraction` counts the sign and the digits; with 8 and 24 bits it is an `f32`,
    /// with 5 and 11 an `f16`. Subnormal numbers are stored as zero; too large ones as infinity.
    Float {
        /// The bits of the exponent.
        exponent: u8,
        /// The bits of the fraction.
        fraction: u8,
        /// Whether there is a sign.
        signed: bool,
        /// How a number becomes one with fewer bits.
        rounding: Rounding,
    },
    /// The fraction of a floating-point number that shares its exponent with others: an integer, in two's complement if
    /// signed.
    Fraction {
        /// The bits of the fraction.
        bits: u8,
        /// Whether there is a sign.
        signed: bool,
        /// The exponent, and who shares it.
        exponent: SharedExponent,
    },
}

/// The exponent of a group of fractions, in the same word.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct SharedExponent {
    /// The lowest bit.
    pub at: u8,
    /// The bits of the exponent.
    pub bits: u8,
}

/// The scale of a fixed-point type: a positive finite `f64`, compared by its bits.
#[derive(Copy, Clone, PartialEq, Eq, Hash)]
pub struct Scale(u64);

impl Scale {
    /// `None` unless the scale is positive, finite and normal.
    pub fn new(scale: f64) -> Option<Scale> {
        (scale.is_normal() && scale > 0.0).then_some(Scale(scale.to_bits()))
    }

    /// The number.
    pub fn get(self) -> f64 {
        f64::from_bits(self.0)
    }
}

impl fmt::Debug for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.get())
    }
}

/// How a number that a type cannot represent is rounded.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum Rounding {
    /// To the nearest number; to the one with an even last bit if two are equally near.
    #[default]
    Nearest,
    /// Up or down at random, with the probabilities that make the expected value right.
    Stochastic,
}

impl Quantized {
    /// Bits of its own in the word: without a shared exponent.
    pub const fn bits(self) -> u32 {
        match self {
            Quantized::Int { bits, .. }
            | Quantized::Fixed { bits, .. }
            | Quantized::Fraction { bits, .. } => bits as u32,
            Quantized::Float {
                exponent, fraction, ..
            } => exponent as u32 + fraction as u32,
        }
    }

    /// Whether rounding uses random numbers.
    pub const fn is_stochastic(self) -> bool {
        match self {
            Quantized::Fixed { rounding, .. } | Quantized::Float { rounding, .. } => {
                matches!(rounding, Rounding::Stochastic)
            }
            Quantized::Int { .. } | Quantized::Fraction { .. } => false,
        }
    }

    /// Whether there are negative values.
    pub const fn is_signed(self) -> bool {
        match self {
            Quantized::Int { signed, .. }
            | Quantized::Fixed { signed, .. }
            | Quantized::Float { signed, .. }
            | Quantized::Fraction { signed, .. } => signed,
        }
    }
}

/// One scalar of an element in a word.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct Member {
    /// The field of the word: an unsigned integer, in the same cell.
    pub word: Field,
    /// Its lowest bit in the word; in a bit array, that of the first element.
    pub at: u8,
    /// The quantized type.
    pub ty: Quantized,
}

/// Where the scalars of a packed field are, in the order of [`Structs::flatten`](crate::types::Structs::flatten).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Packing {
    /// The fields of the word.
    pub members: SmallVec<[Member; 1]>,
}

impl Packing {
    /// Bits from an element of a bit array to the next one.
    pub fn stride(&self) -> u32 {
        self.members.iter().map(|m| m.ty.bits()).sum()
    }
}
