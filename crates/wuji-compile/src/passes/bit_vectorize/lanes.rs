//! What a value of the body is, for all elements of a word.

use wuji_ir::entities::Value;
use wuji_ir::types::Imm;

/// A value of the body for each element of a word.
#[derive(Clone, Debug)]
pub(super) enum Lane {
    Const(Imm),
    /// The same for all elements.
    Uniform(Value),
    /// The coordinate along the bits, plus a constant.
    Index(i64),
    /// That, modulo a constant.
    Periodic(Periodic),
    /// An integer or Boolean for each element.
    Bits(Sum),
}

/// The coordinate along the bits plus `by`, modulo `period`, and what a remainder towards minus infinity is made of.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct Periodic {
    pub(super) by: i64,
    pub(super) period: i64,
    pub(super) part: PeriodicPart,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum PeriodicPart {
    /// The number from zero up to the period.
    Coordinate,
    /// The remainder with the sign of the dividend.
    Remainder,
    /// Whether the remainder is negative.
    IsNegative,
    /// The remainder plus the period.
    Lifted,
}

/// An integer for each element: a sum of bits.
#[derive(Clone, Debug)]
pub(super) struct Sum {
    /// What is added to the bits.
    pub(super) offset: i128,
    /// For each power of two: words with a bit for each element.
    pub(super) digits: Vec<Vec<Value>>,
    /// The range of the integer.
    pub(super) least: i128,
    pub(super) most: i128,
}

impl Sum {
    /// 0 or 1.
    pub(super) fn bit(word: Value) -> Sum {
        Sum {
            offset: 0,
            digits: vec![vec![word]],
            least: 0,
            most: 1,
        }
    }

    pub(super) fn constant(value: i128) -> Sum {
        Sum {
            offset: value,
            digits: Vec::new(),
            least: value,
            most: value,
        }
    }

    /// Whether there is one word for each digit.
    pub(super) fn is_binary(&self) -> bool {
        self.digits.iter().all(|d| d.len() <= 1)
    }
}
