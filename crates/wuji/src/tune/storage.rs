//! How a field is stored in a run, and the types that suit a range of numbers.

use crate::quantized::{QuantizedType, qfixed, qfloat, qint};
use std::fmt;
use wuji_ir::types::Scalar;

/// The numbers that a field had during a run.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct Range {
    /// The smallest number.
    pub min: f64,
    /// The largest number.
    pub max: f64,
    /// The smallest magnitude but zero; infinity if all numbers are zero.
    pub least: f64,
    /// Whether a number was infinite or NaN.
    pub not_finite: bool,
}

impl Default for Range {
    /// Fields start at zero.
    fn default() -> Range {
        Range {
            min: 0.0,
            max: 0.0,
            least: f64::INFINITY,
            not_finite: false,
        }
    }
}

impl Range {
    /// Widens the range by a number.
    pub fn add(&mut self, x: f64) {
        if !x.is_finite() {
            self.not_finite = true;
            return;
        }
        self.min = self.min.min(x);
        self.max = self.max.max(x);
        if x != 0.0 {
            self.least = self.least.min(x.abs());
        }
    }

    /// The largest magnitude.
    pub fn magnitude(&self) -> f64 {
        self.max.max(-self.min)
    }
}

/// A field whose type is chosen.
#[derive(Clone, PartialEq, Debug)]
pub struct TunedField {
    /// Its name.
    pub name: String,
    /// The type that kernels see.
    pub compute: Scalar,
    /// The extents of an element: none for a scalar, one for a vector, two for a matrix.
    pub shape: Vec<usize>,
    /// Fields of the same node share words.
    pub node: usize,
    /// How many elements there are.
    pub cells: u64,
    /// The numbers that it had in the first run.
    pub range: Range,
}

impl TunedField {
    /// Numbers of an element.
    pub fn scalars(&self) -> u32 {
        self.shape.iter().product::<usize>() as u32
    }

    /// Bits of an element of the compute type.
    pub fn plain_bits(&self) -> u32 {
        8 * self.compute.bytes() * self.scalars()
    }
}

/// How a field is stored.
#[derive(Copy, Clone, PartialEq, Debug)]
pub enum Storage {
    /// As the compute type.
    Plain,
    /// Integers.
    Int {
        /// The number of bits.
        bits: u32,
        /// Whether there are negative values.
        signed: bool,
    },
    /// Multiples of a constant.
    Fixed {
        /// The number of bits.
        bits: u32,
        /// Whether there are negative values.
        signed: bool,
        /// The largest value.
        max_value: f64,
    },
    /// Floats.
    Float {
        /// The bits of the exponent.
        exponent: u32,
        /// The bits of the fraction.
        fraction: u32,
        /// Whether there is a sign.
        signed: bool,
    },
    /// The numbers of an element share an exponent.
    SharedExponent {
        /// The bits of the exponent.
        exponent: u32,
        /// The bits of each fraction.
        fraction: u32,
        /// Whether there are signs.
        signed: bool,
    },
}

impl Storage {
    /// The type in a layout; `None` for the compute type.
    pub fn quantized(self) -> Option<QuantizedType> {
        match self {
            Storage::Plain => None,
            Storage::Int { bits, signed } => Some(qint(bits, signed)),
            Storage::Fixed {
                bits,
                signed,
                max_value,
            } => Some(qfixed(bits, signed, max_value)),
            Storage::Float {
                exponent,
                fraction,
                signed,
            }
            | Storage::SharedExponent {
                exponent,
                fraction,
                signed,
            } => Some(qfloat(exponent, fraction, signed)),
        }
    }

    /// Whether the numbers of an element share an exponent.
    pub fn is_shared(self) -> bool {
        matches!(self, Storage::SharedExponent { .. })
    }

    /// Bits of one number, without a shared exponent; 0 for the compute type.
    pub fn bits(self) -> u32 {
        self.quantized().map_or(0, |q| q.bits(self.is_shared()))
    }

    /// Bits of the shared exponent.
    pub fn shared_bits(self) -> u32 {
        match self {
            Storage::SharedExponent { exponent, .. } => exponent,
            Storage::Plain
            | Storage::Int { .. }
            | Storage::Fixed { .. }
            | Storage::Float { .. } => 0,
        }
    }

    /// Bits of an element of a field.
    pub fn element_bits(self, field: &TunedField) -> u32 {
        match self {
            Storage::Plain => field.plain_bits(),
            _ => self.shared_bits() + self.bits() * field.scalars(),
        }
    }

    /// The type as Python spells it.
    pub fn python(self) -> String {
        let sign = |signed: bool| if signed { "" } else { ", signed=False" };
        match self {
            Storage::Plain => String::new(),
            Storage::Int { bits, signed } => {
                format!("ti.types.quant.int({bits}{})", sign(signed))
            }
            Storage::Fixed {
                bits,
                signed,
                max_value,
            } => format!(
                "ti.types.quant.fixed({bits}{}, max_value={max_value:?})",
                sign(signed)
            ),
            Storage::Float {
                exponent,
                fraction,
                signed,
            }
            | Storage::SharedExponent {
                exponent,
                fraction,
                signed,
            } => format!(
                "ti.types.quant.float({exponent}, {fraction}{})",
                sign(signed)
            ),
        }
    }
}

/// As Rust spells it.
impl fmt::Display for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Storage::Plain => write!(f, "plain"),
            Storage::Int { bits, signed } => write!(f, "qint({bits}, {signed})"),
            Storage::Fixed {
                bits,
                signed,
                max_value,
            } => write!(f, "qfixed({bits}, {signed}, {max_value:?})"),
            Storage::Float {
                exponent,
                fraction,
                signed,
            }
            | Storage::SharedExponent {
                exponent,
                fraction,
                signed,
            } => write!(f, "qfloat({exponent}, {fraction}, {signed})"),
        }
    }
}

/// Types that differ only in their number of digits.
#[derive(Copy, Clone, PartialEq, Debug)]
pub(super) enum Family {
    Fixed { signed: bool, max_value: f64 },
    Float { signed: bool, exponent: u32 },
    Shared { signed: bool, exponent: u32 },
}

impl Family {
    /// The type with some digits; `None` if the field cannot be stored so, or in no fewer bits than its compute type has.
    pub(super) fn storage(self, digits: u32, field: &TunedField) -> Option<Storage> {
        let storage = match self {
            Family::Fixed { signed, max_value } => Storage::Fixed {
                bits: digits + u32::from(signed),
                signed,
                max_value,
            },
            Family::Float { signed, exponent } => Storage::Float {
                exponent,
                fraction: digits + u32::from(signed),
                signed,
            },
            Family::Shared { signed, exponent } => Storage::SharedExponent {
                exponent,
                fraction: digits + u32::from(signed),
                signed,
            },
        };
        let fits = storage.element_bits(field) < field.plain_bits()
            && (!storage.is_shared() || storage.element_bits(field) <= 64);
        let at = storage.is_shared().then_some(0);
        let is_valid = storage
            .quantized()
            .is_some_and(|q| q.lower(field.compute, at).is_ok());
        (fits && is_valid).then_some(storage)
    }
}

/// The families that can store the numbers of a field of floats. `reserve` is the part of the range that is added to it.
pub(super) fn families(field: &TunedField, reserve: f64) -> Vec<Family> {
    let range = &field.range;
    let magnitude = range.magnitude();
    if !field.compute.is_float() || range.not_finite || magnitude == 0.0 {
        return Vec::new();
    }
    let signed = range.min < 0.0;
    let most = magnitude * (1.0 + reserve);
    let exponent = exponent_bits(most, range.least, field.compute);
    let mut found = vec![
        Family::Fixed {
            signed,
            max_value: round_up(most),
        },
        Family::Float { signed, exponent },
    ];
    if field.scalars() > 1 {
        found.push(Family::Shared { signed, exponent });
    }
    found
}

/// The type of an integer field: the fewest bits that its numbers need.
pub(super) fn integer(field: &TunedField) -> Option<Storage> {
    let Range { min, max, .. } = field.range;
    let signed = min < 0.0;
    let needed = |x: f64| (64 - (x as u64).leading_zeros()).max(1);
    let bits = if signed {
        1 + needed(max).max(needed(-min - 1.0))
    } else {
        needed(max)
    };
    let storage = Storage::Int { bits, signed };
    let is_valid = qint(bits, signed).lower(field.compute, None).is_ok();
    let fits = bits * field.scalars() < field.plain_bits();
    (!field.compute.is_float() && is_valid && fits).then_some(storage)
}

/// Numbers that are this much smaller than the largest one may become zero.
const NEGLIGIBLE: f64 = 1.0 / 65536.0;

/// The fewest exponent bits for numbers up to `most`, and down to `least` or a negligible part of `most`.
fn exponent_bits(most: f64, least: f64, compute: Scalar) -> u32 {
    let all = if compute == Scalar::F64 { 11 } else { 8 };
    let least = least.max(most * NEGLIGIBLE).min(most);
    let covers = |bits: &u32| {
        let bias = f64::from((1u32 << (bits - 1)) - 1);
        // With few digits, the largest number is little more than this.
        most <= bias.exp2() && (1.0 - bias).exp2() <= least
    };
    (2..all).find(covers).unwrap_or(all)
}

/// Up to two significant digits.
fn round_up(x: f64) -> f64 {
    let mut power = 1.0f64;
    // Exact powers of ten give short numbers.
    while x / power >= 100.0 {
        power *= 10.0;
    }
    if power > 1.0 {
        return (x / power).ceil() * power;
    }
    while x * power < 10.0 && power < 1e300 {
        power *= 10.0;
    }
    (x * power).ceil() / power
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn field(compute: Scalar, shape: &[usize], numbers: &[f64]) -> TunedField {
        let mut range = Range::default();
        numbers.iter().for_each(|x| range.add(*x));
        TunedField {
            name: "x".to_owned(),
            compute,
            shape: shape.to_vec(),
            node: 0,
            cells: 10,
            range,
        }
    }

    #[test]
    fn ranges_are_rounded_up_to_two_digits() {
        for (x, expected) in [
            (1.83, 1.9),
            (2.0, 2.0),
            (0.0123, 0.013),
            (99.1, 100.0),
            (1234.0, 1300.0),
            (1e-20, 1e-20),
        ] {
            let found = round_up(x);
            assert!((found / expected - 1.0).abs() < 1e-12, "{x}: {found}");
            assert!(found >= x * (1.0 - 1e-12));
        }
    }

    #[test]
    fn integers_get_the_bits_that_they_need() {
        let bits = |numbers: &[f64]| {
            integer(&field(Scalar::I32, &[], numbers)).map(|s| (s.bits(), s.to_string()))
        };
        assert_eq!(bits(&[0.0, 3.0]), Some((2, "qint(2, false)".to_owned())));
        assert_eq!(bits(&[0.0, 4.0]), Some((3, "qint(3, false)".to_owned())));
        assert_eq!(bits(&[-1.0, 0.0]), Some((2, "qint(2, true)".to_owned())));
        assert_eq!(bits(&[-128.0, 5.0]), Some((8, "qint(8, true)".to_owned())));
        assert_eq!(bits(&[0.0]), Some((1, "qint(1, false)".to_owned())));
        assert_eq!(bits(&[-2147483648.0]), None);
        assert_eq!(integer(&field(Scalar::F32, &[], &[1.0])), None);
    }

    #[test]
    fn exponents_cover_the_range() {
        assert_eq!(exponent_bits(1.0, 0.5, Scalar::F32), 3);
        assert_eq!(exponent_bits(1.0, 1e-4, Scalar::F32), 5);
        // What is negligible does not count.
        assert_eq!(exponent_bits(1.0, 1e-30, Scalar::F32), 6);
        assert_eq!(exponent_bits(1e30, 1e30, Scalar::F32), 8);
        assert_eq!(exponent_bits(1e30, 1e30, Scalar::F64), 8);
    }

    #[test]
    fn numbers_of_a_vector_can_share_an_exponent_within_a_word() {
        let vector = field(Scalar::F32, &[3], &[-1.0, 2.0]);
        let shared = families(&vector, 0.1)
            .into_iter()
            .find(|f| matches!(f, Family::Shared { .. }))
            .expect("a shared exponent");
        let storage = shared.storage(16, &vector).expect("a type");
        assert_eq!(storage.element_bits(&vector), 3 + 3 * 17);
        assert_eq!(shared.storage(20, &vector), None);
        assert!(families(&field(Scalar::F32, &[], &[0.0]), 0.1).is_empty());
        assert!(families(&field(Scalar::F32, &[], &[f64::NAN, 1.0]), 0.1).is_empty());
        assert_eq!(families(&field(Scalar::F32, &[], &[1.0]), 0.1).len(), 2);
    }
}
