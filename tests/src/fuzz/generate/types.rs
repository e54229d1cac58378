//! Types and constants.

use super::Generator;
use crate::fuzz::dice::Dice;
use wuji_ir::types::{Imm, Scalar, StructType, Type};

pub(super) const INTS: [Scalar; 8] = [
    Scalar::I8,
    Scalar::I16,
    Scalar::I32,
    Scalar::I64,
    Scalar::U8,
    Scalar::U16,
    Scalar::U32,
    Scalar::U64,
];
pub(super) const FLOATS: [Scalar; 3] = [Scalar::F16, Scalar::F32, Scalar::F64];

pub(super) fn any_int(dice: &mut Dice) -> Scalar {
    match dice.weighted(&[5, 3, 4]) {
        0 => Scalar::I32,
        1 => Scalar::I64,
        _ => *dice.pick(&INTS),
    }
}

fn shape(dice: &mut Dice, s: Scalar) -> Type {
    let length = |dice: &mut Dice| *dice.pick(&[1, 2, 2, 3, 3, 4, 4, 7]);
    match dice.weighted(&[6, 4]) {
        0 => Type::Vector(s, length(dice)),
        _ => {
            let rows = dice.between(1, 4) as u16;
            let columns = if dice.chance(60) {
                rows
            } else {
                dice.between(1, 3) as u16
            };
            Type::Matrix(s, rows, columns)
        }
    }
}

impl Generator<'_> {
    /// Selects the few types of this program, so that values of equal types are common.
    pub(super) fn choose_types(&mut self) {
        let dice = &mut *self.dice;
        let mut scalars = vec![Scalar::Bool, Scalar::I32];
        scalars.push(*dice.pick(&FLOATS));
        for _ in 0..dice.between(1, 3) {
            scalars.push(*dice.pick(&Scalar::ALL));
        }
        let mut types: Vec<Type> = scalars.iter().copied().map(Type::Scalar).collect();
        for _ in 0..dice.between(1, 3) {
            let s = *dice.pick(&scalars);
            types.push(shape(dice, s));
        }
        for k in 0..dice.below(3) {
            let count = if dice.chance(3) {
                0
            } else {
                dice.between(1, 4)
            };
            let fields = (0..count)
                .map(|n| (format!("x{n}"), *dice.pick(&types)))
                .collect();
            let id = self.m.structs.intern(StructType {
                name: format!("S{k}"),
                fields,
            });
            types.push(Type::Struct(id));
        }
        types.dedup();
        self.types = types;
    }

    pub(super) fn any_type(&mut self) -> Type {
        *self.dice.pick(&self.types)
    }

    /// A scalar, vector or matrix type.
    pub(super) fn any_plain_type(&mut self) -> Type {
        loop {
            let ty = self.any_type();
            if ty.elem().is_some() {
                return ty;
            }
        }
    }

    /// A vector or matrix type with given elements.
    pub(super) fn any_shape(&mut self, s: Scalar) -> Type {
        let known: Vec<Type> = self
            .types
            .iter()
            .copied()
            .filter(|t| t.as_scalar().is_none() && t.elem() == Some(s))
            .collect();
        if known.is_empty() || self.dice.chance(30) {
            shape(self.dice, s)
        } else {
            *self.dice.pick(&known)
        }
    }
}

/// A scalar that is likely to matter.
pub(crate) fn any_imm(dice: &mut Dice, s: Scalar) -> Imm {
    match s {
        Scalar::Bool => Imm::bool(dice.chance(50)),
        _ if s.is_float() => match dice.weighted(&[5, 4, 4, 2]) {
            0 => Imm::float(s, dice.between(-5, 5) as f64),
            1 => Imm::float(s, dice.between(-4000, 4000) as f64 / 256.0),
            2 => {
                let (tiny, huge) = match s {
                    Scalar::F16 => (6e-8, 65504.0),
                    Scalar::F32 => (1e-45, f64::from(f32::MAX)),
                    _ => (5e-324, f64::MAX),
                };
                let special = [
                    0.0,
                    -0.0,
                    0.5,
                    -0.5,
                    1e9,
                    -1e20,
                    tiny,
                    -tiny,
                    huge,
                    -huge,
                    f64::INFINITY,
                    f64::NEG_INFINITY,
                    f64::NAN,
                    f64::NAN,
                ];
                Imm::float(s, *dice.pick(&special))
            }
            _ => match Imm::from_bits(s, dice.bits()) {
                // Only one NaN: payloads are unspecified.
                imm if imm.as_float().is_some_and(f64::is_nan) => Imm::float(s, f64::NAN),
                imm => imm,
            },
        },
        _ => {
            let (lo, hi) = s.int_range().unwrap_or((0, 0));
            let value = match dice.weighted(&[8, 3, 2, 1]) {
                0 => i128::from(dice.between(-4, 9)),
                1 => i128::from(dice.between(-130, 130)),
                2 => *dice.pick(&[lo, hi, lo + 1, hi - 1, hi / 2, 0]),
                _ => i128::from(dice.bits()),
            };
            Imm::int(s, value)
        }
    }
}

/// Integers so small that float sums and products of many of them are exact, in any order.
pub(super) fn small_imm(dice: &mut Dice, s: Scalar) -> Imm {
    match s {
        Scalar::Bool => Imm::bool(dice.chance(50)),
        _ if s.is_float() && dice.chance(15) => Imm::float(s, -0.0),
        _ => Imm::int(s, i128::from(dice.between(0, 7))),
    }
}
