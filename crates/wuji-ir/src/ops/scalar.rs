//! Operations on scalars. On vectors and matrices they work element by element.
//!
//! An operation is one row: its name in the text format, the scalar types it is defined on, and its further columns.

use super::table::CostClass::{self, *};
use super::table::op_enum;
use crate::types::Scalar;

/// A set of scalar types.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum ScalarSet {
    /// Every type.
    All,
    /// All but `bool`.
    Numbers,
    /// Signed integers and floats.
    Signed,
    /// Without `bool`.
    Integers,
    /// Integers and `bool`.
    Bits,
    /// Floats.
    Floats,
}

use ScalarSet::*;

impl ScalarSet {
    /// Whether a type is in the set.
    pub const fn contains(self, s: Scalar) -> bool {
        match self {
            All => true,
            Numbers => !matches!(s, Scalar::Bool),
            Signed => s.is_float() || s.is_signed_int(),
            Integers => s.is_int(),
            Bits => !s.is_float(),
            Floats => s.is_float(),
        }
    }
}

op_enum! {
    /// One argument. `docs/ir.md` defines each operation.
    UnOp: (ScalarSet, CostClass) {
        /// Integers wrap; floats flip the sign bit.
        Neg = "neg", (Signed, Cheap);
        /// Bitwise on integers, logical on `bool`.
        Not = "not", (Bits, Cheap);
        Abs = "abs", (Numbers, Cheap);
        /// -1, 0 or 1; keeps NaN and the sign of zero.
        Sign = "sign", (Signed, Moderate);
        Floor = "floor", (Floats, Moderate);
        Ceil = "ceil", (Floats, Moderate);
        /// Half away from zero.
        Round = "round", (Floats, Moderate);
        /// Half to even.
        RoundEven = "round_even", (Floats, Moderate);
        Trunc = "trunc", (Floats, Moderate);
        Sqrt = "sqrt", (Floats, Root);
        Rsqrt = "rsqrt", (Floats, Root);
        /// `sqrt`, rounded to the nearest in every math mode.
        PreciseSqrt = "precise_sqrt", (Floats, Root);
        Sin = "sin", (Floats, Function);
        Cos = "cos", (Floats, Function);
        Tan = "tan", (Floats, Function);
        Asin = "asin", (Floats, Function);
        Acos = "acos", (Floats, Function);
        Atan = "atan", (Floats, Function);
        Sinh = "sinh", (Floats, Function);
        Cosh = "cosh", (Floats, Function);
        Tanh = "tanh", (Floats, Function);
        Exp = "exp", (Floats, Function);
        Exp2 = "exp2", (Floats, Function);
        Log = "log", (Floats, Function);
        Log2 = "log2", (Floats, Function);
        Log10 = "log10", (Floats, Function);
        PopCount = "popcount", (Integers, Moderate);
        LeadingZeros = "clz", (Integers, Moderate);
        TrailingZeros = "ctz", (Integers, Moderate);
        /// The same value. An undefined value from memory becomes an arbitrary fixed one.
        Freeze = "freeze", (All, Cheap);
        /// The same value. Differentiation takes it for a constant.
        StopGrad = "stop_grad", (All, Cheap);
    }
}

impl UnOp {
    /// The operation that is rounded as written in every math mode, where the mode makes a difference and there is one.
    pub fn precise(self) -> UnOp {
        if self == UnOp::Sqrt {
            UnOp::PreciseSqrt
        } else {
            self
        }
    }

    /// The types it is defined on.
    pub const fn defined_on(self) -> ScalarSet {
        self.row().0
    }

    /// What it costs.
    pub const fn cost(self) -> CostClass {
        self.row().1
    }
}

op_enum! {
    /// Two arguments of one type.
    BinOp: (ScalarSet, CostClass, Commutes) {
        Add = "add", (Numbers, Cheap, Commutes::Always);
        Sub = "sub", (Numbers, Cheap, Commutes::Never);
        Mul = "mul", (Numbers, Cheap, Commutes::Always);
        /// Integers: truncating, 0 when the divisor is 0, `MIN / -1 == MIN`.
        Div = "div", (Numbers, Division, Commutes::Never);
        /// Integers: sign of the dividend, 0 when the divisor is 0. Floats: `fmod`.
        Rem = "rem", (Numbers, Division, Commutes::Never);
        And = "and", (Bits, Cheap, Commutes::Always);
        Or = "or", (Bits, Cheap, Commutes::Always);
        Xor = "xor", (Bits, Cheap, Commutes::Always);
        /// The amount is taken modulo the width.
        Shl = "shl", (Integers, Cheap, Commutes::Never);
        /// Arithmetic on signed types, logical on unsigned ones; the amount is taken modulo the width.
        Shr = "shr", (Integers, Cheap, Commutes::Never);
        /// Floats: the other operand when one is NaN.
        Min = "min", (Numbers, Cheap, Commutes::Integers);
        Max = "max", (Numbers, Cheap, Commutes::Integers);
        Pow = "pow", (Floats, LongFunction, Commutes::Never);
        Atan2 = "atan2", (Floats, LongFunction, Commutes::Never);
        /// `add`, rounded as written in every math mode: neither fused nor reassociated. So are the next three.
        PreciseAdd = "precise_add", (Floats, Cheap, Commutes::Always);
        PreciseSub = "precise_sub", (Floats, Cheap, Commutes::Never);
        PreciseMul = "precise_mul", (Floats, Cheap, Commutes::Always);
        PreciseDiv = "precise_div", (Floats, Division, Commutes::Never);
    }
}

/// Whether the operands of a binary operation may be swapped.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Commutes {
    /// On all types.
    Always,
    /// Not on floats: of -0.0 and 0.0, `min` and `max` give the second.
    Integers,
    /// On no type.
    Never,
}

impl BinOp {
    /// The operation that is rounded as written in every math mode, where the mode makes a difference and there is one.
    pub fn precise(self) -> BinOp {
        const PRECISE: [(BinOp, BinOp); 4] = [
            (BinOp::Add, BinOp::PreciseAdd),
            (BinOp::Sub, BinOp::PreciseSub),
            (BinOp::Mul, BinOp::PreciseMul),
            (BinOp::Div, BinOp::PreciseDiv),
        ];
        let found = PRECISE.iter().find(|(plain, _)| *plain == self);
        found.map_or(self, |(_, precise)| *precise)
    }

    /// The types it is defined on.
    pub const fn defined_on(self) -> ScalarSet {
        self.row().0
    }

    /// What it costs.
    pub const fn cost(self) -> CostClass {
        self.row().1
    }

    /// Whether the arguments may be exchanged.
    pub const fn commutes(self, s: Scalar) -> bool {
        match self.row().2 {
            Commutes::Always => true,
            Commutes::Integers => !s.is_float(),
            Commutes::Never => false,
        }
    }
}

op_enum! {
    /// Two arguments of one type; the result is `bool` of their shape.
    CmpOp: ScalarSet {
        Eq = "eq", All;
        Ne = "ne", All;
        Lt = "lt", Numbers;
        Le = "le", Numbers;
        Gt = "gt", Numbers;
        Ge = "ge", Numbers;
    }
}

impl CmpOp {
    /// The types it is defined on.
    pub const fn defined_on(self) -> ScalarSet {
        self.row()
    }
}

op_enum! {
    /// Horizontal reduction of a vector or matrix to a scalar, in component order.
    ReduceOp: BinOp {
        Add = "add", BinOp::Add;
        Mul = "mul", BinOp::Mul;
        Min = "min", BinOp::Min;
        Max = "max", BinOp::Max;
        And = "and", BinOp::And;
        Or = "or", BinOp::Or;
    }
}

impl ReduceOp {
    /// The operation that the reduction repeats.
    pub const fn binary(self) -> BinOp {
        self.row()
    }
}

op_enum! {
    /// The update of an atomic.
    AtomicOp: Option<BinOp> {
        Add = "add", Some(BinOp::Add);
        Mul = "mul", Some(BinOp::Mul);
        Min = "min", Some(BinOp::Min);
        Max = "max", Some(BinOp::Max);
        And = "and", Some(BinOp::And);
        Or = "or", Some(BinOp::Or);
        Xor = "xor", Some(BinOp::Xor);
        Exchange = "exchange", None;
    }
}

impl AtomicOp {
    /// The operation on the old value and the operand; `None` where the operand replaces the old value.
    pub const fn binary(self) -> Option<BinOp> {
        self.row()
    }

    /// The types it is defined on.
    pub const fn defined_on(self) -> ScalarSet {
        match self.binary() {
            Some(op) => op.defined_on(),
            None => All,
        }
    }
}

op_enum! {
    /// Linear algebra on vectors and matrices. `scalarize` lowers it; the row is the number of arguments.
    AlgebraOp: u8 {
        /// Matrix by matrix, matrix by vector.
        MatMul = "matmul", 2;
        Transpose = "transpose", 1;
        Dot = "dot", 2;
        /// Vectors of length 3, or of length 2 (a scalar).
        Cross = "cross", 2;
        /// Column by row: a matrix.
        Outer = "outer", 2;
        Determinant = "determinant", 1;
        Inverse = "inverse", 1;
    }
}

impl AlgebraOp {
    /// The number of arguments.
    pub const fn arity(self) -> u8 {
        self.row()
    }
}
