//! One instance of a kernel with the functions it calls: the source as data, and what rustc found out.
//!
//! The expansion of a kernel holds a closure that makes a [`Recording`]; a launch calls it when it has
//! no code for the kernel yet, and hands the result to `lang::lower`.

use super::ast::Ast;
use wuji_ir::types::{Imm, Structs, Type};

/// A kernel and every function it reaches; the kernel is the first.
#[derive(Debug, Default)]
pub struct Recording {
    pub functions: Vec<Function>,
}

/// One instance of a function: the type and const arguments are settled.
#[derive(Debug)]
pub struct Function {
    pub ast: &'static Ast,
    pub types: Vec<TypeTag>,
    pub constants: Vec<Constant>,
    pub callees: Vec<Callee>,
    pub result: TypeTag,
    /// The function that does its reverse sweep.
    pub reverse: Option<CallTarget>,
}

/// A type of the language that rustc has inferred.
#[derive(Clone, Debug)]
pub enum TypeTag {
    Unit,
    /// Enters structs where they are needed.
    Element(fn(&mut Structs) -> Type),
    Array(Box<TypeTag>, usize),
    /// A field or a host array; which one, is bound at the launch.
    Data,
    /// A bundle of fields: its members by name.
    Bundle(Vec<(&'static str, TypeTag)>),
}

/// The value of a constant, const parameter or static.
#[derive(Clone, Debug)]
pub struct Constant {
    pub ty: TypeTag,
    /// The scalars, depth first.
    pub bits: Vec<u64>,
}

/// What a call means.
#[derive(Clone, Debug)]
pub struct Callee {
    pub target: CallTarget,
    pub params: Vec<TypeTag>,
    pub result: TypeTag,
}

#[derive(Clone, Debug)]
pub enum CallTarget {
    /// Number of a function of the recording.
    Function(usize),
    /// A function of the language itself, like `vec2` or `Vector::splat`.
    Builtin(String),
    /// A method of a built-in type.
    Method(String),
    /// The constructor of a tuple struct.
    Constructor,
    /// The constructor of a variant with this name.
    Variant(String),
    /// Something that is no `#[func]`.
    Unknown(String),
}

/// What a parameter of the kernel is bound to. By-value parameters are bound to nothing here: they
/// become parameters of the module, in order.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    Value,
    World,
    Field(wuji_ir::entities::Field),
    Array(wuji_ir::entities::Array),
}

impl TypeTag {
    /// Adds the names of the arguments of a launch that it is made of.
    pub fn name_leaves(&self, name: &str, names: &mut Vec<String>) {
        match self {
            TypeTag::Unit => {}
            TypeTag::Element(_) | TypeTag::Data => names.push(name.to_string()),
            TypeTag::Array(part, n) => {
                for k in 0..*n {
                    part.name_leaves(&format!("{name}[{k}]"), names);
                }
            }
            TypeTag::Bundle(members) => {
                for (member, tag) in members {
                    tag.name_leaves(&format!("{name}.{member}"), names);
                }
            }
        }
    }

    /// Whether it is a value, or an array of values.
    pub fn is_value(&self) -> bool {
        match self {
            TypeTag::Unit | TypeTag::Element(_) => true,
            TypeTag::Array(part, _) => part.is_value(),
            TypeTag::Data | TypeTag::Bundle(_) => false,
        }
    }
}

impl Constant {
    /// The scalar it is, if it is one.
    pub fn scalar(&self) -> Option<Imm> {
        match (&self.ty, self.bits.as_slice()) {
            (TypeTag::Element(ty), [bits]) => {
                let scalar = ty(&mut Structs::default()).as_scalar()?;
                Some(Imm::from_bits(scalar, *bits))
            }
            _ => None,
        }
    }
}
