//! Element types of fields and arguments: scalars, vectors, matrices, tuples and structs.

use half::f16;
use wuji_ir::Result;
use wuji_ir::types::{Scalar, StructType, Structs, Type};
use wuji_runtime::array::{ArrayArg, Plain, Strides};

/// A value that lives in fields, arrays and kernels: a scalar, [`Vector`](crate::lang::Vector),
/// [`Matrix`](crate::lang::Matrix), tuple, or a struct with `#[derive(Element)]`.
///
/// In memory a value is its scalars in order, structs with every field at its alignment, so the
/// layout does not depend on what rustc does with the type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be used inside a Wuji kernel",
    label = "not a type of the kernel language",
    note = "kernels work on numbers, `bool`, vectors, matrices, tuples, `Option`, and structs and enums with `#[derive(Element)]`"
)]
pub trait Element: Copy + Send + Sync + 'static {
    /// Bytes in memory.
    const SIZE: usize;
    /// A power of two.
    const ALIGN: usize;
    /// How many scalars a value is made of.
    const SCALARS: usize;

    /// Whether its methods are part of the kernel language.
    #[doc(hidden)]
    const BUILTIN: bool = false;

    /// The type in the IR; struct types are entered into `structs`.
    fn ir_type(structs: &mut Structs) -> Type;

    /// All bits zero.
    fn zero() -> Self;

    /// From the first `SIZE` bytes.
    fn read(bytes: &[u8]) -> Self;

    /// To the first `SIZE` bytes.
    fn write(self, bytes: &mut [u8]);

    /// To the first `SCALARS` slots, one scalar in the low bytes of each.
    fn to_slots(self, slots: &mut [u64]);

    /// From the first `SCALARS` slots.
    fn from_slots(slots: &[u64]) -> Self;

    /// A read-only array argument in place; `None` when the host layout differs from that of kernels, and values must be copied.
    #[doc(hidden)]
    fn lend<'a>(_data: &'a [Self], _strides: &Strides) -> Option<Result<ArrayArg<'a>>> {
        None
    }

    /// A writable array argument in place, for every type that needs no copy.
    #[doc(hidden)]
    fn lend_mut<'a>(_data: &'a mut [Self], _strides: &Strides) -> Option<Result<ArrayArg<'a>>> {
        None
    }
}

/// An element that is one scalar.
pub trait ScalarElement:
    Element + Plain + crate::lang::calls::Builtin + PartialEq + PartialOrd
{
    /// The scalar type.
    const SCALAR: Scalar;
}

macro_rules! scalars {
    ($($ty:ty = $scalar:ident, $bits:ty, $zero:expr, $slot:ident => $to:expr, $from:expr;)*) => {$(
        impl Element for $ty {
            const SIZE: usize = size_of::<$bits>();
            const ALIGN: usize = size_of::<$bits>();
            const SCALARS: usize = 1;
            const BUILTIN: bool = true;

            fn ir_type(_: &mut Structs) -> Type {
                Type::Scalar(Scalar::$scalar)
            }

            fn zero() -> $ty {
                $zero
            }

            #[inline]
            fn read(bytes: &[u8]) -> $ty {
                let mut own = [0; size_of::<$bits>()];
                own.copy_from_slice(&bytes[..size_of::<$bits>()]);
                let $slot = <$bits>::from_ne_bytes(own);
                $from
            }

            #[inline]
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

            fn lend<'a>(data: &'a [$ty], strides: &Strides) -> Option<Result<ArrayArg<'a>>> {
                Some(ArrayArg::read(data, strides))
            }

            fn lend_mut<'a>(data: &'a mut [$ty], strides: &Strides) -> Option<Result<ArrayArg<'a>>> {
                Some(ArrayArg::write(data, strides))
            }
        }

        impl ScalarElement for $ty {
            const SCALAR: Scalar = Scalar::$scalar;
        }
    )*};
}

scalars! {
    bool = Bool, u8, false, x => u8::from(x), x != 0;
    i8 = I8, u8, 0, x => x as u8, x as i8;
    i16 = I16, u16, 0, x => x as u16, x as i16;
    i32 = I32, u32, 0, x => x as u32, x as i32;
    i64 = I64, u64, 0, x => x as u64, x as i64;
    isize = I64, u64, 0, x => x as u64, x as isize;
    u8 = U8, u8, 0, x => x, x;
    u16 = U16, u16, 0, x => x, x;
    u32 = U32, u32, 0, x => x, x;
    u64 = U64, u64, 0, x => x, x;
    usize = U64, u64, 0, x => x as u64, x as usize;
    f16 = F16, u16, f16::ZERO, x => x.to_bits(), f16::from_bits(x);
    f32 = F32, u32, 0.0, x => x.to_bits(), f32::from_bits(x);
    f64 = F64, u64, 0.0, x => x.to_bits(), f64::from_bits(x);
}

/// The IR type of a tuple of these parts.
pub fn tuple_type(structs: &mut Structs, parts: &[Type]) -> Type {
    let fields = parts
        .iter()
        .enumerate()
        .map(|(k, t)| (k.to_string(), *t))
        .collect();
    Type::Struct(structs.intern(StructType {
        name: "tuple".into(),
        fields,
    }))
}

/// Where the next field of a struct starts: `at` rounded up to `align`.
#[doc(hidden)]
pub const fn align_up(at: usize, align: usize) -> usize {
    at.div_ceil(align) * align
}

#[doc(hidden)]
pub const fn larger(a: usize, b: usize) -> usize {
    if a > b { a } else { b }
}

macro_rules! tuple {
    ($($name:ident $k:tt),*) => {
        impl<$($name: Element),*> Element for ($($name,)*) {
            const ALIGN: usize = {
                let align = 1;
                $(let align = larger(align, $name::ALIGN);)*
                align
            };
            const SIZE: usize = {
                let at = 0;
                $(let at = align_up(at, $name::ALIGN) + $name::SIZE;)*
                align_up(at, Self::ALIGN)
            };
            const SCALARS: usize = 0 $(+ $name::SCALARS)*;
            const BUILTIN: bool = true;

            fn ir_type(structs: &mut Structs) -> Type {
                let parts = [$($name::ir_type(structs)),*];
                tuple_type(structs, &parts)
            }

            fn zero() -> Self {
                ($($name::zero(),)*)
            }

            #[allow(unused_assignments)]
            fn read(bytes: &[u8]) -> Self {
                let mut at = 0;
                ($({
                    at = align_up(at, $name::ALIGN);
                    let value = $name::read(&bytes[at..]);
                    at += $name::SIZE;
                    value
                },)*)
            }

            #[allow(unused_assignments)]
            fn write(self, bytes: &mut [u8]) {
                let mut at = 0;
                $(
                    at = align_up(at, $name::ALIGN);
                    self.$k.write(&mut bytes[at..]);
                    at += $name::SIZE;
                )*
            }

            #[allow(unused_assignments)]
            fn to_slots(self, slots: &mut [u64]) {
                let mut at = 0;
                $(
                    self.$k.to_slots(&mut slots[at..]);
                    at += $name::SCALARS;
                )*
            }

            #[allow(unused_assignments)]
            fn from_slots(slots: &[u64]) -> Self {
                let mut at = 0;
                ($({
                    let value = $name::from_slots(&slots[at..]);
                    at += $name::SCALARS;
                    value
                },)*)
            }
        }
    };
}

tuple!(A 0);
tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);
tuple!(A 0, B 1, C 2, D 3, E 4);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lang::{Matrix, Vector};

    /// Both representations round-trip, and memory agrees with the layout rules of the IR.
    fn check<T: Element + PartialEq + std::fmt::Debug>(value: T) {
        let mut structs = Structs::default();
        let ty = T::ir_type(&mut structs);
        assert_eq!(
            structs.size_align(ty),
            (T::SIZE as u64, T::ALIGN as u64),
            "size of {ty}"
        );
        assert_eq!(structs.flatten(ty).len(), T::SCALARS);
        let mut slots = vec![u64::MAX; T::SCALARS];
        value.to_slots(&mut slots);
        assert_eq!(T::from_slots(&slots), value);
        let mut bytes = vec![0xaau8; T::SIZE];
        value.write(&mut bytes);
        assert_eq!(T::read(&bytes), value);
        for ((scalar, at), slot) in structs.scalar_offsets(ty).into_iter().zip(slots) {
            let mut word = [0u8; 8];
            let (at, n) = (at as usize, scalar.bytes() as usize);
            word[..n].copy_from_slice(&bytes[at..at + n]);
            assert_eq!(u64::from_le_bytes(word), slot);
        }
    }

    #[test]
    fn values_survive_bytes_and_slots() {
        check(true);
        check(-3i8);
        check(i16::MIN);
        check(-1i32);
        check(i64::MIN);
        check(-5isize);
        check(250u8);
        check(65_000u16);
        check(u32::MAX);
        check(u64::MAX);
        check(7usize);
        check(f16::from_f32(-0.5));
        check(f32::NEG_INFINITY);
        check(1e300f64);
        check(Vector([1.0f32, 2.0, 3.0]));
        check(Matrix([[1i64, 2, 3], [4, 5, 6]]));
        check((true, 2.0f64, -3i16));
        check((1u8, (Vector([1.0f32, 2.0]), false), 3i64));
        check(Some(1.5f64));
        check(None::<(u8, f32)>);
        check((3u8, Some(Some(-1i16))));
    }
}
