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
    And(Node, Node),
    Or(Node, Node),
    /// Number of the target type.
    Cast(Node, u32),
    Tuple(List),
    Array(List),
    /// Value and length.
    Repeat(Node, Node),
    /// Number of the type, fields by name, the rest from another value.
    Struct(u32, &'static [(&'static str, Expr)], Option<Node>),
    /// A field by name, a tuple field by number, a component of a vector.
    Field(Node, &'static str),
    /// One expression per index, or one index vector.
    Index(Node, List),

    /// As `Index` of a field, on the left of an assignment that brings no element about.
    Existing(Node, List),

    /// Number of the callee, arguments.
    Call(u32, List),
    /// Number of the callee, name, receiver and arguments.
    Method(u32, &'static str, List),
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

    Let(Pat, Option<Node>),
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
    pub pats: &'static [Choice],
    pub guard: Option<Node>,
    pub body: Expr,
}

/// What an arm of a `match` stands for.
#[derive(Debug)]
pub enum Choice {
    Any,
    Bind(u32),
    Value(Expr),
    /// Ends included or not.
    Range(Option<Expr>, Option<Expr>, bool),
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
    /// An ordinary loop.
    Serial,
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
    /// Number of the argument, digits after the point.
    Hole(u32, Option<u8>),
}
