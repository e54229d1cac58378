//! The environment of a kernel: everything that its functions refer to.

use crate::entities::*;
use crate::format::Format;
use crate::layout::{FieldData, TreeData};
use crate::module::Function;
use crate::ops::Place;
use crate::types::{Structs, Type};
use cranelift_entity::PrimaryMap;
use smallvec::SmallVec;

/// A position in a source file; line 0 means unknown.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct Span {
    /// The file.
    pub file: File,
    /// 1-based.
    pub line: u32,
    /// 1-based, in characters.
    pub column: u32,
}

impl Span {
    /// The position of what no line of the source stands for.
    pub const UNKNOWN: Span = Span {
        file: File(0),
        line: 0,
        column: 0,
    };

    /// Whether there is a position.
    pub fn is_known(self) -> bool {
        self.line != 0
    }
}

impl Default for Span {
    fn default() -> Span {
        Span::UNKNOWN
    }
}

/// The tables that functions refer to. A function can be rewritten while the environment is extended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Env {
    /// The name of the kernel.
    pub name: String,
    /// The source files that spans name.
    pub files: PrimaryMap<File, String>,
    /// The struct types.
    pub structs: Structs,
    /// The trees.
    pub trees: PrimaryMap<Tree, TreeData>,
    /// The fields, of all trees.
    pub fields: PrimaryMap<Field, FieldData>,
    /// The arrays that are arguments.
    pub arrays: PrimaryMap<Array, ArrayData>,
    /// The values that tasks pass on to later tasks.
    pub temps: PrimaryMap<Temp, TempData>,
    /// The texts of prints and assertions.
    pub messages: PrimaryMap<Message, MessageData>,
    /// The places that report.
    pub sites: PrimaryMap<Site, SiteData>,
    /// The by-value parameters of the kernel. The kernel function takes them; so does every task.
    pub params: Vec<Param>,
    /// The temp in which the tasks store the kernel's return value.
    pub result: Option<Temp>,
    /// Signatures of all functions of the module.
    pub signatures: PrimaryMap<Func, Signature>,
    /// Functions that [`Module::add_defined`](crate::module::Module::add_defined) will add.
    pub(crate) defined: Vec<(Func, Function)>,
}

/// The signature of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Signature {
    /// The types of the parameters.
    pub params: Vec<Type>,
    /// The types of the results.
    pub results: Vec<Type>,
}

/// A parameter of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Param {
    /// Its name in the source.
    pub name: String,
    /// Its type.
    pub ty: Type,
}

/// A host array argument. The kernel is specialized for the flags.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ArrayData {
    /// Its name in the source.
    pub name: String,
    /// The type of an element.
    pub elem: Type,
    /// The number of axes.
    pub rank: u8,
    /// Whether the kernel may store to it.
    pub writable: bool,
    /// Row-major without gaps, so strides follow from extents.
    pub contiguous: bool,
    /// The launch has checked that it overlaps no other array.
    pub unaliased: bool,
    /// The launch has checked that it is contiguous and has this shape.
    pub shape: Option<ArrayShape>,
}

/// What a kernel that is specialized for its arguments knows of an array.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ArrayShape {
    /// The lengths of the axes.
    pub extents: SmallVec<[i64; 4]>,
    /// The first element is at a multiple of this many bytes.
    pub align: u32,
}

/// A value that one task stores and later ones load.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TempData {
    /// Its type.
    pub ty: Type,
}

/// A format string: text and holes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct MessageData {
    /// Text and values, in order.
    pub pieces: Vec<Piece>,
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Piece {
    /// Constant text.
    Text(String),
    /// A value.
    Hole {
        /// Its type.
        ty: Type,
        /// How it is formatted.
        format: Format,
    },
}

impl MessageData {
    /// The types of the values, in order.
    pub fn holes(&self) -> impl Iterator<Item = Type> + '_ {
        self.pieces.iter().filter_map(|p| match p {
            Piece::Text(_) => None,
            Piece::Hole { ty, .. } => Some(*ty),
        })
    }
}

/// A problem that one site of the program can report at run time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SiteData {
    /// What is reported.
    pub kind: SiteKind,
    /// Where.
    pub span: Span,
}

/// What a site reports.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SiteKind {
    /// An out-of-range write, atomic or append was dropped. Arguments: the indices, then the run-time
    /// components, as `i64` (larger `u64` values saturate).
    OutOfRange(Place),
    /// A read outside its place gave zero, and reads are checked. Arguments: the indices, as `i64`.
    ReadOutOfRange(Place),
    /// An index outside `0..len` of a vector or local array. Argument: the index, as `i64`.
    BadIndex {
        /// The number of elements.
        len: u32,
    },
    /// Arguments: the scalars of the message's holes.
    Assert(Message),
    /// Arguments: the number of the iteration as `i64`, then the scalars of the message's holes.
    Print(Message),
    /// The recursion of a function was too deep.
    TooDeep(Func),
    /// There was no memory for a cell; the write, or what it was for, was dropped.
    OutOfMemory(Tree, Node),
    /// An append to a list that is full. Argument: its capacity, as `i64`.
    ListFull(Field),
}

impl Env {
    /// Declares a new function that can be called from now on. [`Env::define`] sets its body.
    pub fn declare(&mut self, params: &[Type], results: &[Type]) -> Func {
        self.signatures.push(Signature {
            params: params.to_vec(),
            results: results.to_vec(),
        })
    }

    /// Declares and defines a function.
    pub fn add(&mut self, f: Function) -> Func {
        let func = self.signatures.push(f.signature());
        self.define(func, f);
        func
    }

    /// Sets the body of a declared function. It becomes part of the module with
    /// [`Module::add_defined`](crate::module::Module::add_defined).
    pub fn define(&mut self, func: Func, f: Function) {
        debug_assert_eq!(self.signatures[func], f.signature());
        self.defined.push((func, f));
    }

    /// Element type and number of indices of a place.
    pub fn place_elem(&self, func: &Function, place: Place) -> (Type, usize) {
        match place {
            Place::Field(f) => (self.fields[f].elem, self.fields[f].rank()),
            Place::Array(a) => (self.arrays[a].elem, usize::from(self.arrays[a].rank)),
            Place::Local(l) => (func.locals[l].ty, usize::from(func.locals[l].len.is_some())),
            Place::Temp(t) => (self.temps[t].ty, 0),
        }
    }

    /// Byte offset of every temp in the buffer of a launch, and the buffer's size.
    pub fn temp_offsets(&self) -> (Vec<u64>, u64) {
        let mut at = 0u64;
        let offsets = self
            .temps
            .values()
            .map(|t| {
                let (size, align) = self.structs.size_align(t.ty);
                at = at.next_multiple_of(align.max(8));
                let here = at;
                at += size;
                here
            })
            .collect();
        (offsets, at.next_multiple_of(8))
    }

    /// The offset of each by-value parameter in the argument block, in scalars: every scalar takes 8 bytes
    /// there. The last entry is the number of scalars.
    pub fn param_slots(&self) -> Vec<usize> {
        let mut at = 0;
        let mut slots = vec![0];
        for p in &self.params {
            at += self.structs.flatten(p.ty).len();
            slots.push(at);
        }
        slots
    }
}
