//! Binary floating-point formats: the compute types, and the quantized ones.

use crate::types::Scalar;

/// A number without its sign, as in IEEE 754: the digits behind the leading one, and above them the biased exponent.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct FloatFormat {
    /// Bits of the exponent.
    pub exponent: u32,
    /// Bits behind the leading one.
    pub digits: u32,
}

impl FloatFormat {
    /// `f32`.
    pub const F32: FloatFormat = FloatFormat {
        exponent: 8,
        digits: 23,
    };
    /// `f64`.
    pub const F64: FloatFormat = FloatFormat {
        exponent: 11,
        digits: 52,
    };

    /// The format of a compute type.
    pub fn of(compute: Scalar) -> FloatFormat {
        if compute == Scalar::F64 {
            FloatFormat::F64
        } else {
            FloatFormat::F32
        }
    }

    /// The code of the exponent 0.
    pub const fn bias(self) -> u64 {
        (1 << (self.exponent - 1)) - 1
    }

    /// The exponent of infinity and NaN: all its bits are one.
    pub const fn ones(self) -> u64 {
        (1 << self.exponent) - 1
    }

    /// The bits of infinity; those of NaN are greater.
    pub const fn infinity(self) -> u64 {
        self.ones() << self.digits
    }

    /// The bits of the NaN that is stored.
    pub const fn nan(self) -> u64 {
        self.infinity() | 1 << (self.digits - 1)
    }

    /// The bits of the smallest normal number.
    pub const fn smallest(self) -> u64 {
        1 << self.digits
    }

    /// The bit above the exponent.
    pub const fn sign(self) -> u64 {
        1 << (self.exponent + self.digits)
    }
}
