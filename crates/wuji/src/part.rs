//! Fields of structs with `#[derive(Element)]`.

use crate::element::Element;
use wuji_ir::types::{Structs, Type};

/// A field of a struct: an element, or an array of parts.
pub trait Part: Copy {
    /// Bytes.
    const SIZE: usize;
    /// The alignment in bytes.
    const ALIGN: usize;
    /// The number of scalars.
    const SCALARS: usize;

    /// Adds the fields of the struct in the IR.
    fn fields(name: &str, structs: &mut Structs, out: &mut Vec<(String, Type)>);
    /// All scalars are zero.
    fn zero() -> Self;
    /// The value with these bytes.
    fn read(bytes: &[u8]) -> Self;
    /// Writes its bytes.
    fn write(self, bytes: &mut [u8]);
    /// Writes the bits of its scalars.
    fn to_slots(self, slots: &mut [u64]);
    /// The value whose scalars have these bits.
    fn from_slots(slots: &[u64]) -> Self;
}

#[diagnostic::do_not_recommend]
impl<T: Element> Part for T {
    const SIZE: usize = T::SIZE;
    const ALIGN: usize = T::ALIGN;
    const SCALARS: usize = T::SCALARS;

    fn fields(name: &str, structs: &mut Structs, out: &mut Vec<(String, Type)>) {
        out.push((name.to_string(), T::ir_type(structs)));
    }
    fn zero() -> T {
        T::zero()
    }
    fn read(bytes: &[u8]) -> T {
        T::read(bytes)
    }
    fn write(self, bytes: &mut [u8]) {
        self.write(bytes);
    }
    fn to_slots(self, slots: &mut [u64]) {
        self.to_slots(slots);
    }
    fn from_slots(slots: &[u64]) -> T {
        T::from_slots(slots)
    }
}

/// The fields of each item: `corners[0]`, `corners[1]`, ...
#[diagnostic::do_not_recommend]
impl<T: Part, const N: usize> Part for [T; N] {
    const SIZE: usize = N * T::SIZE;
    const ALIGN: usize = T::ALIGN;
    const SCALARS: usize = N * T::SCALARS;

    fn fields(name: &str, structs: &mut Structs, out: &mut Vec<(String, Type)>) {
        for k in 0..N {
            T::fields(&format!("{name}[{k}]"), structs, out);
        }
    }
    fn zero() -> [T; N] {
        [T::zero(); N]
    }
    fn read(bytes: &[u8]) -> [T; N] {
        std::array::from_fn(|k| T::read(&bytes[k * T::SIZE..]))
    }
    fn write(self, bytes: &mut [u8]) {
        for (k, item) in self.into_iter().enumerate() {
            item.write(&mut bytes[k * T::SIZE..]);
        }
    }
    fn to_slots(self, slots: &mut [u64]) {
        for (k, item) in self.into_iter().enumerate() {
            item.to_slots(&mut slots[k * T::SCALARS..]);
        }
    }
    fn from_slots(slots: &[u64]) -> [T; N] {
        std::array::from_fn(|k| T::from_slots(&slots[k * T::SCALARS..]))
    }
}
