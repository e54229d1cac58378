//! Scalar, vector, matrix and struct types, and scalar constants.

use crate::entities::StructId;
use crate::verify::MAX_COMPONENTS;
use cranelift_entity::PrimaryMap;
use half::f16;
use std::fmt;

/// Scalar machine types.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Scalar {
    /// `bool`: one byte, 0 or 1.
    Bool,
    /// `i8`.
    I8,
    /// `i16`.
    I16,
    /// `i32`.
    I32,
    /// `i64`.
    I64,
    /// `u8`.
    U8,
    /// `u16`.
    U16,
    /// `u32`.
    U32,
    /// `u64`.
    U64,
    /// `f16`, the IEEE half.
    F16,
    /// `f32`.
    F32,
    /// `f64`.
    F64,
}

impl Scalar {
    /// All scalar types, in the order of their declaration.
    pub const ALL: [Scalar; 12] = [
        Scalar::Bool,
        Scalar::I8,
        Scalar::I16,
        Scalar::I32,
        Scalar::I64,
        Scalar::U8,
        Scalar::U16,
        Scalar::U32,
        Scalar::U64,
        Scalar::F16,
        Scalar::F32,
        Scalar::F64,
    ];

    /// Size in memory; also the alignment. A `bool` takes one byte, 0 or 1.
    pub const fn bytes(self) -> u32 {
        match self {
            Scalar::Bool | Scalar::I8 | Scalar::U8 => 1,
            Scalar::I16 | Scalar::U16 | Scalar::F16 => 2,
            Scalar::I32 | Scalar::U32 | Scalar::F32 => 4,
            Scalar::I64 | Scalar::U64 | Scalar::F64 => 8,
        }
    }

    /// Width in bits: 1 for `bool`.
    pub const fn bits(self) -> u32 {
        match self {
            Scalar::Bool => 1,
            other => other.bytes() * 8,
        }
    }

    /// Whether it is a float.
    pub const fn is_float(self) -> bool {
        matches!(self, Scalar::F16 | Scalar::F32 | Scalar::F64)
    }

    /// Integers, `bool` excluded.
    pub const fn is_int(self) -> bool {
        !self.is_float() && !matches!(self, Scalar::Bool)
    }

    /// Whether it is a signed integer.
    pub const fn is_signed_int(self) -> bool {
        matches!(self, Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64)
    }

    /// Whether it is an unsigned integer.
    pub const fn is_unsigned_int(self) -> bool {
        matches!(self, Scalar::U8 | Scalar::U16 | Scalar::U32 | Scalar::U64)
    }

    /// The unsigned type of the same width; other types stay as they are.
    pub const fn unsigned(self) -> Scalar {
        match self {
            Scalar::I8 => Scalar::U8,
            Scalar::I16 => Scalar::U16,
            Scalar::I32 => Scalar::U32,
            Scalar::I64 => Scalar::U64,
            other => other,
        }
    }

    /// The closed range of an integer type (`bool`: 0 to 1); `None` for floats.
    pub const fn int_range(self) -> Option<(i128, i128)> {
        match self {
            Scalar::Bool => Some((0, 1)),
            Scalar::F16 | Scalar::F32 | Scalar::F64 => None,
            _ if self.is_signed_int() => {
                let half = 1i128 << (self.bits() - 1);
                Some((-half, half - 1))
            }
            _ => Some((0, (1i128 << self.bits()) - 1)),
        }
    }

    /// The name in the text format.
    pub const fn name(self) -> &'static str {
        match self {
            Scalar::Bool => "bool",
            Scalar::I8 => "i8",
            Scalar::I16 => "i16",
            Scalar::I32 => "i32",
            Scalar::I64 => "i64",
            Scalar::U8 => "u8",
            Scalar::U16 => "u16",
            Scalar::U32 => "u32",
            Scalar::U64 => "u64",
            Scalar::F16 => "f16",
            Scalar::F32 => "f32",
            Scalar::F64 => "f64",
        }
    }

    /// The type with a name of the text format.
    pub fn from_name(name: &str) -> Option<Scalar> {
        Scalar::ALL.into_iter().find(|s| s.name() == name)
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The type of a value. Text: `f32`, `f32x3`, `f32x2x3` (2 rows, 3 columns), `s0`.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Type {
    /// A scalar.
    Scalar(Scalar),
    /// Element type and length, at least 1.
    Vector(Scalar, u16),
    /// Element type, rows, columns, each at least 1. Components are numbered row by row.
    Matrix(Scalar, u16, u16),
    /// A struct, declared in the module.
    Struct(StructId),
}

/// `bool`.
pub const BOOL: Type = Type::Scalar(Scalar::Bool);
/// `i32`.
pub const I32: Type = Type::Scalar(Scalar::I32);
/// `i64`.
pub const I64: Type = Type::Scalar(Scalar::I64);
/// `u32`.
pub const U32: Type = Type::Scalar(Scalar::U32);
/// `u64`.
pub const U64: Type = Type::Scalar(Scalar::U64);
/// `f32`.
pub const F32: Type = Type::Scalar(Scalar::F32);
/// `f64`.
pub const F64: Type = Type::Scalar(Scalar::F64);

impl Type {
    /// The scalar type, if it is one.
    pub const fn as_scalar(self) -> Option<Scalar> {
        match self {
            Type::Scalar(s) => Some(s),
            Type::Vector(..) | Type::Matrix(..) | Type::Struct(_) => None,
        }
    }

    /// The element of a scalar, vector or matrix.
    pub const fn elem(self) -> Option<Scalar> {
        match self {
            Type::Scalar(s) | Type::Vector(s, _) | Type::Matrix(s, _, _) => Some(s),
            Type::Struct(_) => None,
        }
    }

    /// The same shape over another element; structs have none and stay as they are.
    pub const fn with_elem(self, s: Scalar) -> Type {
        match self {
            Type::Scalar(_) => Type::Scalar(s),
            Type::Vector(_, n) => Type::Vector(s, n),
            Type::Matrix(_, r, c) => Type::Matrix(s, r, c),
            Type::Struct(id) => Type::Struct(id),
        }
    }

    /// Whether a vector or matrix has more than [`MAX_COMPONENTS`] components.
    pub const fn too_large(self) -> bool {
        match self.lanes() {
            Some(n) => n as u64 > MAX_COMPONENTS,
            None => false,
        }
    }

    /// Scalars, vectors and matrices: how many scalars; structs: `None`.
    pub const fn lanes(self) -> Option<u32> {
        match self {
            Type::Scalar(_) => Some(1),
            Type::Vector(_, n) => Some(n as u32),
            Type::Matrix(_, r, c) => Some(r as u32 * c as u32),
            Type::Struct(_) => None,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Type::Scalar(s) => write!(f, "{s}"),
            Type::Vector(s, n) => write!(f, "{s}x{n}"),
            Type::Matrix(s, r, c) => write!(f, "{s}x{r}x{c}"),
            Type::Struct(id) => write!(f, "{id}"),
        }
    }
}

/// A struct or tuple. Tuples have the field names `0`, `1`, ...
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct StructType {
    /// Its name.
    pub name: String,
    /// The fields, in order.
    pub fields: Vec<(String, Type)>,
}

/// The struct types of a module; a struct only refers to earlier ones.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Structs(pub PrimaryMap<StructId, StructType>);

impl Structs {
    /// The id of a struct type, entered once.
    pub fn intern(&mut self, ty: StructType) -> StructId {
        match self.0.iter().find(|(_, t)| **t == ty) {
            Some((id, _)) => id,
            None => self.0.push(ty),
        }
    }

    /// Components one level down: scalars of a vector or matrix, fields of a struct; 0 for a scalar.
    pub fn arity(&self, ty: Type) -> u32 {
        match ty {
            Type::Scalar(_) => 0,
            Type::Vector(..) | Type::Matrix(..) => ty.lanes().unwrap_or(0),
            Type::Struct(id) => self.0[id].fields.len() as u32,
        }
    }

    /// Type of component `index`, one level down.
    pub fn component(&self, ty: Type, index: u32) -> Option<Type> {
        match ty {
            Type::Scalar(_) => None,
            Type::Vector(s, _) | Type::Matrix(s, _, _) => {
                (index < self.arity(ty)).then_some(Type::Scalar(s))
            }
            Type::Struct(id) => self.0[id].fields.get(index as usize).map(|f| f.1),
        }
    }

    /// The types of all components, one level down.
    pub fn components(&self, ty: Type) -> Vec<Type> {
        let types = (0..self.arity(ty)).filter_map(|k| self.component(ty, k));
        types.collect()
    }

    /// All scalars of a type in order, depth first.
    pub fn flatten(&self, ty: Type) -> Vec<Scalar> {
        let mut out = Vec::new();
        self.flatten_into(ty, &mut out);
        out
    }

    fn flatten_into(&self, ty: Type, out: &mut Vec<Scalar>) {
        match ty {
            Type::Scalar(s) => out.push(s),
            Type::Vector(s, _) | Type::Matrix(s, _, _) => {
                out.extend(std::iter::repeat_n(s, ty.lanes().unwrap_or(0) as usize));
            }
            Type::Struct(id) => {
                for (_, t) in &self.0[id].fields {
                    self.flatten_into(*t, out);
                }
            }
        }
    }

    /// Size and alignment in memory. Vectors and matrices are packed scalars; struct fields are in
    /// declaration order, each at its alignment, the whole rounded up to the alignment.
    pub fn size_align(&self, ty: Type) -> (u64, u64) {
        match ty {
            Type::Scalar(s) => (u64::from(s.bytes()), u64::from(s.bytes())),
            Type::Vector(s, _) | Type::Matrix(s, _, _) => (
                u64::from(s.bytes()) * u64::from(ty.lanes().unwrap_or(0)),
                u64::from(s.bytes()),
            ),
            Type::Struct(id) => {
                let (mut size, mut align) = (0u64, 1u64);
                for (_, t) in &self.0[id].fields {
                    let (s, a) = self.size_align(*t);
                    size = size.next_multiple_of(a) + s;
                    align = align.max(a);
                }
                (size.next_multiple_of(align), align)
            }
        }
    }

    /// Byte offset of component `index`, one level down.
    pub fn component_offset(&self, ty: Type, index: u32) -> u64 {
        match ty {
            Type::Scalar(_) => 0,
            Type::Vector(s, _) | Type::Matrix(s, _, _) => u64::from(s.bytes()) * u64::from(index),
            Type::Struct(id) => {
                let mut at = 0u64;
                for (k, (_, t)) in self.0[id].fields.iter().enumerate() {
                    let (s, a) = self.size_align(*t);
                    at = at.next_multiple_of(a);
                    if k as u32 == index {
                        break;
                    }
                    at += s;
                }
                at
            }
        }
    }

    /// Byte offset of every scalar of a type, in the order of [`Structs::flatten`].
    pub fn scalar_offsets(&self, ty: Type) -> Vec<(Scalar, u64)> {
        let mut out = Vec::new();
        self.scalar_offsets_into(ty, 0, &mut out);
        out
    }

    fn scalar_offsets_into(&self, ty: Type, base: u64, out: &mut Vec<(Scalar, u64)>) {
        match ty {
            Type::Scalar(s) => out.push((s, base)),
            Type::Vector(..) | Type::Matrix(..) | Type::Struct(_) => {
                for k in 0..self.arity(ty) {
                    if let Some(t) = self.component(ty, k) {
                        self.scalar_offsets_into(t, base + self.component_offset(ty, k), out);
                    }
                }
            }
        }
    }
}

/// A scalar constant: its type and its bits, zero-extended to 64.
///
/// Two constants are equal when their bits are, so `NaN == NaN` here and `0.0 != -0.0`.
#[derive(Copy, Clone, PartialEq, Eq, Hash)]
pub struct Imm {
    /// The type.
    pub ty: Scalar,
    bits: u64,
}

impl Imm {
    /// From raw bits; those above the width of the type are dropped.
    pub fn from_bits(ty: Scalar, bits: u64) -> Imm {
        let width = ty.bits();
        let mask = if width == 64 {
            u64::MAX
        } else {
            (1 << width) - 1
        };
        Imm {
            ty,
            bits: bits & mask,
        }
    }

    /// The bits, in the low end of a word.
    pub fn bits(self) -> u64 {
        self.bits
    }

    /// Zero of a type.
    pub fn zero(ty: Scalar) -> Imm {
        Imm { ty, bits: 0 }
    }

    /// A constant of type `bool`.
    pub fn bool(value: bool) -> Imm {
        Imm {
            ty: Scalar::Bool,
            bits: u64::from(value),
        }
    }

    /// An integer, wrapped to its type; for float types the nearest float.
    pub fn int(ty: Scalar, value: i128) -> Imm {
        if ty.is_float() {
            Imm::float(ty, value as f64)
        } else {
            Imm::from_bits(ty, value as u64)
        }
    }

    /// A float rounded to its type; for integer types a saturating conversion.
    pub fn float(ty: Scalar, value: f64) -> Imm {
        match ty {
            Scalar::F16 => Imm {
                ty,
                bits: u64::from(crate::eval::round_to_f16(value).to_bits()),
            },
            Scalar::F32 => Imm {
                ty,
                bits: u64::from((value as f32).to_bits()),
            },
            Scalar::F64 => Imm {
                ty,
                bits: value.to_bits(),
            },
            Scalar::Bool => Imm::bool(value != 0.0),
            _ => {
                let (lo, hi) = ty.int_range().unwrap_or((0, 0));
                Imm::from_bits(ty, (value as i128).clamp(lo, hi) as u64)
            }
        }
    }

    /// The value as a wide integer; `None` for floats.
    pub fn as_int(self) -> Option<i128> {
        if self.ty.is_float() {
            return None;
        }
        if self.ty.is_signed_int() {
            let shift = 64 - self.ty.bits();
            Some(i128::from((self.bits << shift) as i64 >> shift))
        } else {
            Some(i128::from(self.bits))
        }
    }

    /// The value as `f64` (exact for every float type); `None` for other types.
    pub fn as_float(self) -> Option<f64> {
        match self.ty {
            Scalar::F16 => Some(f16::from_bits(self.bits as u16).to_f64()),
            Scalar::F32 => Some(f64::from(f32::from_bits(self.bits as u32))),
            Scalar::F64 => Some(f64::from_bits(self.bits)),
            _ => None,
        }
    }

    /// The value of a `bool`.
    pub fn as_bool(self) -> Option<bool> {
        (self.ty == Scalar::Bool).then_some(self.bits != 0)
    }
}

/// The shortest text that reads back to the same bits: `-3`, `0.1`, `1e30`, `true`, `inf`, `-inf`,
/// `nan`, and `nan(0x7fc00001)` for a NaN with another payload.
impl fmt::Display for Imm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ty {
            Scalar::Bool => write!(f, "{}", self.bits != 0),
            Scalar::F16 | Scalar::F32 | Scalar::F64 => {
                let value = self.as_float().unwrap_or(f64::NAN);
                if value.is_nan() {
                    if *self == Imm::float(self.ty, f64::NAN) {
                        write!(f, "nan")
                    } else {
                        write!(f, "nan({:#x})", self.bits)
                    }
                } else if self.ty == Scalar::F32 {
                    write!(f, "{:?}", value as f32)
                } else {
                    write!(f, "{value:?}")
                }
            }
            _ => write!(f, "{}", self.as_int().unwrap_or(0)),
        }
    }
}

impl fmt::Debug for Imm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}: {}", self.ty)
    }
}
