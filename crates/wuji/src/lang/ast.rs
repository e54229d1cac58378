//! The body of a `#[kernel]` or `#[func]` as data, written by the macro.
//!
//! Names are resolved already: variables, loops and closures have numbers. What only rustc knows
//! (types, constants, which function a call means) has numbers too, and the [`Recording`] of one
//! instance of the function says what is behind them.
//!
//! [`Recording`]: super::recording::Recording

/// 1-based line and column.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct At(pub u32, pub u32);

#[derive(Debug)]
pub struct Ast {
    pub name: &'static str,
    pub file: &'static str,
    pub at: At,
    /// Arithmetic is rounded as written in every math mode.
    pub precise: bool,
    /// The name of each variable.
    pub vars: &'static [&'static str],
    /// The variables that a parallel loop updates from inside.
    pub shared: &'static [u32],
    pub params: &'static [Param],
    pub body: Expr,
}

#[derive(Debug)]
pub struct Param {
    pub at: At,
    pub pat: Pat,
    pub kind: ParamKind,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ParamKind {
    /// Number of the type.
    Value(u32),
    /// A variable, or a part of one, that the caller lends as `&mut`. Number of its type.
    Exclusive(u32),
    Closure,
    /// A field, an array or a world.
    Data,
    /// A bundle of fields, or a member of one: number of the type, which lists the arguments that it is made of.
    Bundle(u32),
}

#[derive(Debug)]
pub struct Expr {
    pub at: At,
    pub kind: Kind,
}

/// A list of expressions or statements that lives in the program.
pub type List = &'static [Expr];
pub type Node = &'static Expr;

#[derive(Debug)]
pub enum Kind {
    /// Digits without underscores and suffix, negated or not; number of the type.
    Int(&'static str, u32),
    Float(&'static str, u32),
    Bool(bool),
    Var(u32),
    /// Number of the captured constant.
    Const(u32),

    Unary(Unary, Node),
    Binary(Binary, Node, Node),
    /// As above, with the number of the function that a type of the user may have for it.
    OwnUnary(u32, Unary, &'static [Expr; 1]),
    OwnBinary(u32, Binary, &'static [Expr; 2]),
    /// `a += b`.
    OwnAssign(u32, Binary, &'static [Expr; 2]),
    And(Node, Node),
    Or(Node, Node),
    /// Number of the target type.
    Cast(Node, u32),
    Tuple(List),
    Array(List),
    /// Value and length.
    Repeat(Node, Node),
    /// Number of the type, name of the struct or variant, fields by name, the rest from another value.
    Struct(
        u32,
        &'static str,
        &'static [(&'static str, Expr)],
        Option<Node>,
    ),
    /// A field by name, a tuple field by number, a component of a vector.
    Field(Node, &'static str),
    /// One expression per index, or one index vector.
    Index(Node, List),

    /// The number of elements of an array.
    Len(Node),

    /// As `Index` of a field, on the left of an assignment that brings no element about.
    Existing(Node, List),

    /// Number of the callee, arguments.
    Call(u32, List),
    /// Number of the callee, name, receiver and arguments.
    Method(u32, &'static str, List),
    /// A closure as an argument: parameters, body.
    Closure(&'static [Pat], Node),
    /// Closure variable, arguments.
    CallClosure(u32, List),
    /// `x.at(i).fetch_add(v)`: the element, operands.
    Atomic(Atomic, Node, List),
    /// `x.shape()` and the like of the data in a variable; index of the axis where one is given.
    Query(Query, u32, Option<Node>),
    /// `x.is_active(i)` and the like of the field in a variable: the index, a value to append.
    Cell(Cell, u32, List, Option<Node>),

    Block(Block),
    /// Condition, then, else.
    If(Node, Node, Option<Node>),
    /// Value, arms.
    Match(Node, &'static [Arm]),
    While(u32, Node, Node),
    Loop(u32, Node),
    For(&'static For),
    /// Loop number, value.
    Break(u32, Option<Node>),
    Continue(u32),
    Return(Option<Node>),
    /// `e?` of an `Option`.
    Try(Node),

    Let(Pat, Option<Node>),
    /// Pattern, value, and what is done if it does not match: control does not get past that.
    LetElse(&'static Choice, Node, Node),
    /// A variable that refers to a place.
    LetRef(u32, Node),
    /// A name for a field, an array, or a bundle of them: variable, data.
    LetData(u32, Node),
    /// Closure variable, parameters, body.
    LetClosure(u32, &'static [Pat], Node),
    Assign(Node, Node),
    AssignOp(Binary, Node, Node),
    /// `s = s.max(v)` of a variable that the iterations of a parallel loop share: `Min` or `Max`.
    AssignExtreme(Atomic, Node, Node),

    Print(Text),
    /// Condition and message.
    Assert(Node, Text),
}

#[derive(Debug)]
pub struct Block {
    /// The number of a labelled block, that `break` can leave.
    pub label: Option<u32>,
    pub statements: List,
    pub value: Option<Node>,
}

#[derive(Debug)]
pub struct Arm {
    pub pat: Choice,
    pub guard: Option<Node>,
    pub body: Expr,
}

/// A pattern that a value may match or not.
#[derive(Debug)]
pub enum Choice {
    Any,
    /// A name for what matches; whether it is `mut`.
    Bind(u32, bool, &'static Choice),
    Value(Expr),
    /// Ends included or not.
    Range(Option<Expr>, Option<Expr>, bool),
    /// A variant, struct or tuple, and its fields by name.
    Variant(&'static str, &'static [(&'static str, Choice)]),
    Or(&'static [Choice]),
}

#[derive(Debug)]
pub struct For {
    pub label: u32,
    pub mode: LoopMode,
    pub pat: Pat,
    pub domain: Domain,
    /// Variables of fields that the loop should cache.
    pub cached: &'static [u32],
    pub body: Expr,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum LoopMode {
    /// An ordinary loop: iterations run in order.
    Serial,
    /// An ordinary loop, which is parallel over a sparse field.
    Inner,
    /// Outermost in a kernel: iterations run in any order, at once.
    Parallel {
        block_size: Option<u32>,
        simd: Option<bool>,
    },
    /// One copy of the body for each iteration.
    Unroll,
}

#[derive(Debug)]
pub enum Domain {
    Range(Range),
    /// One range per axis.
    Grid(&'static [Range]),
    /// All coordinates of the field or array in a variable.
    Data(u32),
}

#[derive(Debug)]
pub struct Range {
    pub at: At,
    pub low: Expr,
    pub high: Expr,
    pub inclusive: bool,
    /// `rev` and `step_by`, in the order they were called.
    pub adapters: &'static [Adapter],
}

#[derive(Debug)]
pub enum Adapter {
    Rev,
    StepBy(Expr),
}

#[derive(Debug)]
pub enum Pat {
    Wild,
    Var {
        var: u32,
        mutable: bool,
    },
    /// Of a tuple, array or index.
    Parts(&'static [Pat]),
    Fields(&'static [(&'static str, Pat)]),
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Unary {
    Neg,
    Not,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    BitAnd,
    BitOr,
    BitXor,
    Shl,
    Shr,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Binary {
    /// The atomic update of `a op= b`, if there is one.
    pub fn atomic(self) -> Option<Atomic> {
        match self {
            Binary::Add => Some(Atomic::Add),
            Binary::Sub => Some(Atomic::Sub),
            Binary::Mul => Some(Atomic::Mul),
            Binary::BitAnd => Some(Atomic::And),
            Binary::BitOr => Some(Atomic::Or),
            Binary::BitXor => Some(Atomic::Xor),
            Binary::Div
            | Binary::Rem
            | Binary::Shl
            | Binary::Shr
            | Binary::Eq
            | Binary::Ne
            | Binary::Lt
            | Binary::Le
            | Binary::Gt
            | Binary::Ge => None,
        }
    }
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Atomic {
    Add,
    Sub,
    Mul,
    Min,
    Max,
    And,
    Or,
    Xor,
    Exchange,
    CompareExchange,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Query {
    /// Extents as a vector.
    Shape,
    /// Smallest coordinates as a vector.
    Offset,
    /// How many elements.
    Len,
}

/// What is done to the cell of an element.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    IsActive,
    Activate,
    Deactivate,
    Append,
    Length,
}

/// A message with holes.
#[derive(Debug)]
pub struct Text {
    pub pieces: &'static [Piece],
    pub args: List,
}

#[derive(Debug)]
pub enum Piece {
    Text(&'static str),
    /// Number of the argument, and what stands after the colon.
    Hole(u32, &'static str),
}
