//! The operations of a trace. An operation is one row: name, number of operands, class, cost.

/// What an operation gives, and what its operands may be exchanged for.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Class {
    /// A constant or an input.
    Leaf,
    /// A number.
    Number,
    /// A number; operands may be exchanged and chains reassociated.
    Chain,
    /// A truth value.
    Mask,
    /// The two alternatives of a `Select`, which cannot be a value.
    Pair,
}

macro_rules! ops {
    ($($op:ident = $name:literal, $arity:literal, $class:ident, $cost:literal;)*) => {
        /// An operation of a trace.
        #[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
        #[repr(u8)]
        pub enum Op { $($op),* }

        impl Op {
            /// Every operation, in the order of its number.
            pub const ALL: &'static [Op] = &[$(Op::$op),*];

            /// Its name in drawings and goldens.
            pub const fn name(self) -> &'static str {
                match self { $(Op::$op => $name),* }
            }

            /// How many operands it has.
            pub const fn arity(self) -> usize {
                match self { $(Op::$op => $arity),* }
            }

            pub const fn class(self) -> Class {
                match self { $(Op::$op => Class::$class),* }
            }

            /// What it adds to the complexity of an expression, about the cycles of an addition.
            pub const fn cost(self) -> u32 {
                match self { $(Op::$op => $cost),* }
            }
        }
    };
}

ops! {
    Const = "const", 0, Leaf, 0;
    Input = "input", 0, Leaf, 0;
    Neg = "neg", 1, Number, 0;
    Abs = "abs", 1, Number, 1;
    Floor = "floor", 1, Number, 2;
    Ceil = "ceil", 1, Number, 2;
    Round = "round", 1, Number, 2;
    Trunc = "trunc", 1, Number, 2;
    Sqrt = "sqrt", 1, Number, 6;
    Sin = "sin", 1, Number, 16;
    Cos = "cos", 1, Number, 16;
    Tan = "tan", 1, Number, 16;
    Asin = "asin", 1, Number, 16;
    Acos = "acos", 1, Number, 16;
    Atan = "atan", 1, Number, 16;
    Sinh = "sinh", 1, Number, 16;
    Cosh = "cosh", 1, Number, 16;
    Tanh = "tanh", 1, Number, 16;
    Exp = "exp", 1, Number, 16;
    Exp2 = "exp2", 1, Number, 16;
    Log = "log", 1, Number, 16;
    Log2 = "log2", 1, Number, 16;
    Log10 = "log10", 1, Number, 16;
    Not = "not", 1, Mask, 1;
    Add = "add", 2, Chain, 1;
    Mul = "mul", 2, Chain, 1;
    Div = "div", 2, Number, 4;
    Rem = "rem", 2, Number, 8;
    Min = "min", 2, Number, 1;
    Max = "max", 2, Number, 1;
    Pow = "pow", 2, Number, 32;
    Atan2 = "atan2", 2, Number, 32;
    Lt = "lt", 2, Mask, 1;
    Le = "le", 2, Mask, 1;
    Eq = "eq", 2, Mask, 1;
    And = "and", 2, Mask, 1;
    Or = "or", 2, Mask, 1;
    Select = "select", 2, Number, 1;
    Pair = "pair", 2, Pair, 0;
}

impl Op {
    /// The operation with a number.
    pub fn from_u8(number: u8) -> Option<Op> {
        Op::ALL.get(usize::from(number)).copied()
    }

    pub fn is_leaf(self) -> bool {
        self.class() == Class::Leaf
    }

    /// Whether its value is a number, which memory can hold.
    pub fn is_number(self) -> bool {
        match self.class() {
            Class::Leaf | Class::Number | Class::Chain => true,
            Class::Mask | Class::Pair => false,
        }
    }

    /// Whether its operands may be exchanged.
    pub fn commutes(self) -> bool {
        match self {
            Op::Add | Op::Mul | Op::Eq | Op::And | Op::Or => true,
            Op::Const
            | Op::Input
            | Op::Neg
            | Op::Abs
            | Op::Floor
            | Op::Ceil
            | Op::Round
            | Op::Trunc
            | Op::Sqrt
            | Op::Sin
            | Op::Cos
            | Op::Tan
            | Op::Asin
            | Op::Acos
            | Op::Atan
            | Op::Sinh
            | Op::Cosh
            | Op::Tanh
            | Op::Exp
            | Op::Exp2
            | Op::Log
            | Op::Log2
            | Op::Log10
            | Op::Not
            | Op::Div
            | Op::Rem
            | Op::Min
            | Op::Max
            | Op::Pow
            | Op::Atan2
            | Op::Lt
            | Op::Le
            | Op::Select
            | Op::Pair => false,
        }
    }

    /// What it computes from numbers; masks are 1 and 0. Leaves, `Select` and `Pair` have no value of their own.
    pub fn apply(self, a: f64, b: f64) -> f64 {
        let mask = |m: bool| if m { 1.0 } else { 0.0 };
        match self {
            Op::Const | Op::Input | Op::Select | Op::Pair => f64::NAN,
            Op::Neg => -a,
            Op::Abs => a.abs(),
            Op::Floor => a.floor(),
            Op::Ceil => a.ceil(),
            Op::Round => a.round(),
            Op::Trunc => a.trunc(),
            Op::Sqrt => a.sqrt(),
            Op::Sin => a.sin(),
            Op::Cos => a.cos(),
            Op::Tan => a.tan(),
            Op::Asin => a.asin(),
            Op::Acos => a.acos(),
            Op::Atan => a.atan(),
            Op::Sinh => a.sinh(),
            Op::Cosh => a.cosh(),
            Op::Tanh => a.tanh(),
            Op::Exp => a.exp(),
            Op::Exp2 => a.exp2(),
            Op::Log => a.ln(),
            Op::Log2 => a.log2(),
            Op::Log10 => a.log10(),
            Op::Not => mask(a == 0.0),
            Op::Add => a + b,
            Op::Mul => a * b,
            Op::Div => a / b,
            Op::Rem => a % b,
            Op::Min => a.min(b),
            Op::Max => a.max(b),
            Op::Pow => a.powf(b),
            Op::Atan2 => a.atan2(b),
            Op::Lt => mask(a < b),
            Op::Le => mask(a <= b),
            Op::Eq => mask(a == b),
            Op::And => mask(a != 0.0 && b != 0.0),
            Op::Or => mask(a != 0.0 || b != 0.0),
        }
    }
}
