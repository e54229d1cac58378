//! `Option` as an element: `None` is all zeros.

use crate::element::{Element, align_up};
use wuji_ir::enums::enum_type;
use wuji_ir::types::{Structs, Type};

impl<T: Element> Element for Option<T> {
    const ALIGN: usize = T::ALIGN;
    const SIZE: usize = align_up(align_up(1, T::ALIGN) + T::SIZE, T::ALIGN);
    const SCALARS: usize = 1 + T::SCALARS;
    const BUILTIN: bool = true;

    fn ir_type(structs: &mut Structs) -> Type {
        let fields = vec![("Some.0".to_string(), T::ir_type(structs))];
        let ty = enum_type("Option", &[("None", 0), ("Some", 1)], fields);
        Type::Struct(structs.intern(ty))
    }

    fn zero() -> Option<T> {
        None
    }

    fn read(bytes: &[u8]) -> Option<T> {
        (bytes[0] == 1).then(|| T::read(&bytes[align_up(1, T::ALIGN)..]))
    }

    fn write(self, bytes: &mut [u8]) {
        bytes[..Self::SIZE].fill(0);
        if let Some(value) = self {
            bytes[0] = 1;
            value.write(&mut bytes[align_up(1, T::ALIGN)..]);
        }
    }

    fn to_slots(self, slots: &mut [u64]) {
        slots[..Self::SCALARS].fill(0);
        if let Some(value) = self {
            slots[0] = 1;
            value.to_slots(&mut slots[1..]);
        }
    }

    fn from_slots(slots: &[u64]) -> Option<T> {
        (slots[0] as u8 == 1).then(|| T::from_slots(&slots[1..]))
    }
}
