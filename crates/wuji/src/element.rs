//! What a field holds and a kernel takes: scalars, and whatever is made of them.

use wuji_ir::types::{Scalar, Structs, Type};

/// A value that lives in fields, arrays and kernels: a scalar, vector, matrix, tuple or struct.
///
/// In memory a value is its scalars in order, structs with every field at its alignment, so the
/// layout does not depend on what rustc does with the type. Structs derive it.
pub trait Element: Copy + Send + Sync + 'static {
    /// Bytes in memory.
    const SIZE: usize;
    /// A power of two.
    const ALIGN: usize;
    /// How many scalars a value is made of.
    const SCALARS: usize;

    /// The type in the IR; struct types are entered into `structs`.
    fn ir_type(structs: &mut Structs) -> Type;

    /// From the first `SIZE` bytes.
    fn read(bytes: &[u8]) -> Self;

    /// To the first `SIZE` bytes.
    fn write(self, bytes: &mut [u8]);

    /// To the first `SCALARS` slots, one scalar in the low bytes of each.
    fn to_slots(self, slots: &mut [u64]);

    /// From the first `SCALARS` slots.
    fn from_slots(slots: &[u64]) -> Self;
}

/// An element that is one scalar.
pub trait ScalarElement: Element {
    const SCALAR: Scalar;
}

macro_rules! scalars {
    ($($ty:ty = $scalar:ident, $bits:ty, $slot:ident => $to:expr, $from:expr;)*) => {$(
        impl Element for $ty {
            const SIZE: usize = size_of::<$bits>();
            const ALIGN: usize = size_of::<$bits>();
            const SCALARS: usize = 1;

            fn ir_type(_: &mut Structs) -> Type {
                Type::Scalar(Scalar::$scalar)
            }

            fn read(bytes: &[u8]) -> $ty {
                let mut own = [0; size_of::<$bits>()];
                own.copy_from_slice(&bytes[..size_of::<$bits>()]);
                let $slot = <$bits>::from_ne_bytes(own);
                $from
            }

            fn write(self, bytes: &mut [u8]) {
                let $slot = self;
                let bits: $bits = $to;
                bytes[..size_of::<$bits>()].copy_from_slice(&bits.to_ne_bytes());
            }

            fn to_slots(self, slots: &mut [u64]) {
                let $slot = self;
                let bits: $bits = $to;
                slots[0] = u64::from(bits);
            }

            fn from_slots(slots: &[u64]) -> $ty {
                let $slot = slots[0] as $bits;
                $from
            }
        }

        impl ScalarElement for $ty {
            const SCALAR: Scalar = Scalar::$scalar;
        }
    )*};
}

scalars! {
    bool = Bool, u8, x => u8::from(x), x != 0;
    i8 = I8, u8, x => x as u8, x as i8;
    i16 = I16, u16, x => x as u16, x as i16;
    i32 = I32, u32, x => x as u32, x as i32;
    i64 = I64, u64, x => x as u64, x as i64;
    u8 = U8, u8, x => x, x;
    u16 = U16, u16, x => x, x;
    u32 = U32, u32, x => x, x;
    u64 = U64, u64, x => x, x;
    half::f16 = F16, u16, x => x.to_bits(), half::f16::from_bits(x);
    f32 = F32, u32, x => x.to_bits(), f32::from_bits(x);
    f64 = F64, u64, x => x.to_bits(), f64::from_bits(x);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip<T: Element + PartialEq + std::fmt::Debug>(value: T) {
        let mut bytes = [0xaa; 8];
        value.write(&mut bytes);
        assert_eq!(T::read(&bytes), value);
        let mut slots = [u64::MAX];
        value.to_slots(&mut slots);
        assert_eq!(T::from_slots(&slots), value);
    }

    #[test]
    fn scalars_survive_bytes_and_slots() {
        round_trip(true);
        round_trip(-3i8);
        round_trip(i16::MIN);
        round_trip(-1i32);
        round_trip(i64::MIN);
        round_trip(250u8);
        round_trip(65_000u16);
        round_trip(u32::MAX);
        round_trip(u64::MAX);
        round_trip(half::f16::from_f32(-0.5));
        round_trip(f32::NEG_INFINITY);
        round_trip(1e300f64);
    }
}
