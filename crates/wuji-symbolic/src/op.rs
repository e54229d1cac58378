//! The operations of a trace, by class.
//!
//! An operation is one row: name, cost, the operation of the IR, what it computes. Code matches on classes, and only rules that differ
//! between the operations of a class (derivatives, simplification) list them.

use wuji_ir::ops::{BinOp, CmpOp, UnOp};

/// An operation of a trace.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    /// A constant.
    Const,
    /// An element of an input.
    Input,
    /// A number from a number.
    Unary(Unary),
    /// A truth value from a truth value.
    Not,
    /// A number from two numbers.
    Binary(Binary),
    /// A truth value from two numbers.
    Compare(Compare),
    /// A truth value from two truth values.
    Logic(Logic),
    /// A number from a truth value and a `Pair`.
    Select,
    /// The two alternatives of a `Select`, which cannot be a value.
    Pair,
}

macro_rules! class {
    (
        $(#[$meta:meta])*
        $class:ident, $ir:ident, fn($($operand:ident),*): $number:ty => $result:ty {
            $($op:ident = $name:literal, $cost:literal, $ir_op:ident, $compute:expr;)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
        pub enum $class {
            $(
                #[doc = concat!("`", $name, "`.")]
                $op,
            )*
        }

        impl $class {
            /// Every operation of the class, in the order of its code.
            pub const ALL: &'static [$class] = &[$($class::$op),*];

            /// Its name in drawings and goldens.
            pub const fn name(self) -> &'static str {
                match self { $($class::$op => $name),* }
            }

            /// What it adds to the complexity of an expression, about the cycles of an addition.
            pub const fn cost(self) -> u32 {
                match self { $($class::$op => $cost),* }
            }

            /// The operation of the IR.
            pub const fn ir(self) -> $ir {
                match self { $($class::$op => $ir::$ir_op),* }
            }

            /// What it computes.
            pub fn apply(self, $($operand: $number),*) -> $result {
                let compute: fn($(class!(@type $operand $number)),*) -> $result = match self {
                    $($class::$op => $compute),*
                };
                compute($($operand),*)
            }
        }
    };
    (@type $operand:ident $number:ty) => { $number };
}

class! {
    /// An operation on a number.
    Unary, UnOp, fn(a): f64 => f64 {
        Neg = "neg", 0, Neg, |a| -a;
        Abs = "abs", 1, Abs, f64::abs;
        Floor = "floor", 2, Floor, f64::floor;
        Ceil = "ceil", 2, Ceil, f64::ceil;
        Round = "round", 2, Round, f64::round;
        Trunc = "trunc", 2, Trunc, f64::trunc;
        Sqrt = "sqrt", 6, Sqrt, f64::sqrt;
        Sin = "sin", 16, Sin, f64::sin;
        Cos = "cos", 16, Cos, f64::cos;
        Tan = "tan", 16, Tan, f64::tan;
        Asin = "asin", 16, Asin, f64::asin;
        Acos = "acos", 16, Acos, f64::acos;
        Atan = "atan", 16, Atan, f64::atan;
        Sinh = "sinh", 16, Sinh, f64::sinh;
        Cosh = "cosh", 16, Cosh, f64::cosh;
        Tanh = "tanh", 16, Tanh, f64::tanh;
        Exp = "exp", 16, Exp, f64::exp;
        Exp2 = "exp2", 16, Exp2, f64::exp2;
        Log = "log", 16, Log, f64::ln;
        Log2 = "log2", 16, Log2, f64::log2;
        Log10 = "log10", 16, Log10, f64::log10;
    }
}

class! {
    /// An operation on two numbers.
    Binary, BinOp, fn(a, b): f64 => f64 {
        Add = "add", 1, Add, |a, b| a + b;
        Mul = "mul", 1, Mul, |a, b| a * b;
        Div = "div", 4, Div, |a, b| a / b;
        Rem = "rem", 8, Rem, |a, b| a % b;
        Min = "min", 1, Min, f64::min;
        Max = "max", 1, Max, f64::max;
        Pow = "pow", 32, Pow, f64::powf;
        Atan2 = "atan2", 32, Atan2, f64::atan2;
    }
}

class! {
    /// A comparison of two numbers.
    Compare, CmpOp, fn(a, b): f64 => bool {
        Lt = "lt", 1, Lt, |a, b| a < b;
        Le = "le", 1, Le, |a, b| a <= b;
        Eq = "eq", 1, Eq, |a, b| a == b;
    }
}

class! {
    /// An operation on two truth values.
    Logic, BinOp, fn(a, b): bool => bool {
        And = "and", 1, And, |a, b| a && b;
        Or = "or", 1, Or, |a, b| a || b;
    }
}

impl Binary {
    /// Whether operands may be exchanged and chains reassociated.
    pub const fn is_chain(self) -> bool {
        matches!(self, Binary::Add | Binary::Mul)
    }
}

const COUNT: usize =
    5 + Unary::ALL.len() + Binary::ALL.len() + Compare::ALL.len() + Logic::ALL.len();

/// Every operation. Its place is its code, which files of traces have: a new operation needs a new version of the format.
const ALL: [Op; COUNT] = {
    let mut all = [Op::Const; COUNT];
    let mut next = 1;
    macro_rules! add {
        ($op:expr) => {
            all[next] = $op;
            next += 1;
        };
    }
    macro_rules! add_class {
        ($class:ident) => {
            let mut n = 0;
            while n < $class::ALL.len() {
                add!(Op::$class($class::ALL[n]));
                n += 1;
            }
        };
    }
    add!(Op::Input);
    add_class!(Unary);
    add!(Op::Not);
    add_class!(Binary);
    add_class!(Compare);
    add_class!(Logic);
    add!(Op::Select);
    all[next] = Op::Pair;
    all
};

impl Op {
    /// Every operation, in the order of its code.
    pub const ALL: &'static [Op] = &ALL;

    /// The number of the operation: its place in [`Op::ALL`].
    pub const fn code(self) -> u8 {
        const UNARY: u8 = 2;
        const NOT: u8 = UNARY + Unary::ALL.len() as u8;
        const BINARY: u8 = NOT + 1;
        const COMPARE: u8 = BINARY + Binary::ALL.len() as u8;
        const LOGIC: u8 = COMPARE + Compare::ALL.len() as u8;
        const SELECT: u8 = LOGIC + Logic::ALL.len() as u8;
        match self {
            Op::Const => 0,
            Op::Input => 1,
            Op::Unary(op) => UNARY + op as u8,
            Op::Not => NOT,
            Op::Binary(op) => BINARY + op as u8,
            Op::Compare(op) => COMPARE + op as u8,
            Op::Logic(op) => LOGIC + op as u8,
            Op::Select => SELECT,
            Op::Pair => SELECT + 1,
        }
    }

    /// The operation with a code.
    pub fn from_code(code: u8) -> Option<Op> {
        ALL.get(usize::from(code)).copied()
    }

    /// Its name in drawings and goldens.
    pub const fn name(self) -> &'static str {
        match self {
            Op::Const => "const",
            Op::Input => "input",
            Op::Unary(op) => op.name(),
            Op::Not => "not",
            Op::Binary(op) => op.name(),
            Op::Compare(op) => op.name(),
            Op::Logic(op) => op.name(),
            Op::Select => "select",
            Op::Pair => "pair",
        }
    }

    /// How many operands it has.
    #[inline]
    pub const fn arity(self) -> usize {
        match self {
            Op::Const | Op::Input => 0,
            Op::Unary(_) | Op::Not => 1,
            Op::Binary(_) | Op::Compare(_) | Op::Logic(_) | Op::Select | Op::Pair => 2,
        }
    }

    /// What it adds to the complexity of an expression, about the cycles of an addition.
    pub const fn cost(self) -> u32 {
        match self {
            Op::Const | Op::Input | Op::Pair => 0,
            Op::Not | Op::Select => 1,
            Op::Unary(op) => op.cost(),
            Op::Binary(op) => op.cost(),
            Op::Compare(op) => op.cost(),
            Op::Logic(op) => op.cost(),
        }
    }

    /// Whether it has no operands.
    #[inline]
    pub const fn is_leaf(self) -> bool {
        self.arity() == 0
    }

    /// Whether its value is a number, which memory can hold.
    #[inline]
    pub const fn is_number(self) -> bool {
        match self {
            Op::Const | Op::Input | Op::Unary(_) | Op::Binary(_) | Op::Select => true,
            Op::Not | Op::Compare(_) | Op::Logic(_) | Op::Pair => false,
        }
    }

    /// Whether its value is a truth value.
    pub const fn is_mask(self) -> bool {
        match self {
            Op::Not | Op::Compare(_) | Op::Logic(_) => true,
            Op::Const | Op::Input | Op::Unary(_) | Op::Binary(_) | Op::Select | Op::Pair => false,
        }
    }

    /// Whether its operands may be exchanged and chains reassociated.
    pub const fn is_chain(self) -> bool {
        matches!(self, Op::Binary(op) if op.is_chain())
    }

    /// Whether its operands may be exchanged.
    #[inline]
    pub const fn commutes(self) -> bool {
        match self {
            Op::Binary(op) => op.is_chain(),
            Op::Compare(op) => matches!(op, Compare::Eq),
            Op::Logic(_) => true,
            Op::Const | Op::Input | Op::Unary(_) | Op::Not | Op::Select | Op::Pair => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_version_1_of_the_format() {
        let names: Vec<&str> = Op::ALL.iter().map(|op| op.name()).collect();
        expect_test::expect![[r#"
            const input neg abs floor ceil round trunc sqrt sin cos tan asin acos atan sinh cosh tanh exp exp2 log log2 log10 not add mul div rem min max pow atan2 lt le eq and or select pair"#]]
        .assert_eq(&names.join(" "));
        for (code, op) in (0..).zip(Op::ALL) {
            assert_eq!(op.code(), code);
            assert_eq!(Op::from_code(code), Some(*op));
        }
        assert_eq!(Op::from_code(Op::ALL.len() as u8), None);
    }
}
