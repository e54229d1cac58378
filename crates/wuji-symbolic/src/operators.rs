//! Operators on symbolic scalars, also with references and numbers.

use crate::op::{Binary, Logic, Unary};
use crate::sym::{Mask, Sym};
use std::iter::{Product, Sum};
use std::ops::{
    Add, AddAssign, BitAnd, BitOr, Div, DivAssign, Mul, MulAssign, Neg, Not, Rem, RemAssign, Sub,
    SubAssign,
};

impl Neg for Sym {
    type Output = Sym;

    #[track_caller]
    fn neg(self) -> Sym {
        self.unary(Unary::Neg)
    }
}

impl Neg for &Sym {
    type Output = Sym;

    #[track_caller]
    fn neg(self) -> Sym {
        self.unary(Unary::Neg)
    }
}

macro_rules! operator {
    ($($trait:ident $method:ident, $assign:ident $assign_method:ident: |$a:ident, $b:ident| $compute:expr;)*) => {$(
        impl $trait for Sym {
            type Output = Sym;

            #[track_caller]
            fn $method(self, other: Sym) -> Sym {
                let ($a, $b) = (self, other);
                $compute
            }
        }

        impl $trait<&Sym> for Sym {
            type Output = Sym;

            #[track_caller]
            fn $method(self, other: &Sym) -> Sym {
                $trait::$method(self, *other)
            }
        }

        impl $trait<Sym> for &Sym {
            type Output = Sym;

            #[track_caller]
            fn $method(self, other: Sym) -> Sym {
                $trait::$method(*self, other)
            }
        }

        impl $trait<&Sym> for &Sym {
            type Output = Sym;

            #[track_caller]
            fn $method(self, other: &Sym) -> Sym {
                $trait::$method(*self, *other)
            }
        }

        impl $trait<f64> for Sym {
            type Output = Sym;

            #[track_caller]
            fn $method(self, other: f64) -> Sym {
                $trait::$method(self, Sym::new(other))
            }
        }

        impl $trait<Sym> for f64 {
            type Output = Sym;

            #[track_caller]
            fn $method(self, other: Sym) -> Sym {
                $trait::$method(Sym::new(self), other)
            }
        }

        impl $assign for Sym {
            #[track_caller]
            fn $assign_method(&mut self, other: Sym) {
                *self = $trait::$method(*self, other);
            }
        }

        impl $assign<&Sym> for Sym {
            #[track_caller]
            fn $assign_method(&mut self, other: &Sym) {
                *self = $trait::$method(*self, *other);
            }
        }

        impl $assign<f64> for Sym {
            #[track_caller]
            fn $assign_method(&mut self, other: f64) {
                *self = $trait::$method(*self, Sym::new(other));
            }
        }
    )*};
}

operator! {
    Add add, AddAssign add_assign: |a, b| a.binary(Binary::Add, b);
    Sub sub, SubAssign sub_assign: |a, b| a.binary(Binary::Add, b.unary(Unary::Neg));
    Mul mul, MulAssign mul_assign: |a, b| a.binary(Binary::Mul, b);
    Div div, DivAssign div_assign: |a, b| a.binary(Binary::Div, b);
    Rem rem, RemAssign rem_assign: |a, b| a.binary(Binary::Rem, b);
}

impl Sum for Sym {
    #[track_caller]
    fn sum<I: Iterator<Item = Sym>>(terms: I) -> Sym {
        terms.fold(Sym::new(0.0), |sum, t| sum + t)
    }
}

impl<'a> Sum<&'a Sym> for Sym {
    #[track_caller]
    fn sum<I: Iterator<Item = &'a Sym>>(terms: I) -> Sym {
        terms.fold(Sym::new(0.0), |sum, t| sum + t)
    }
}

impl Product for Sym {
    #[track_caller]
    fn product<I: Iterator<Item = Sym>>(factors: I) -> Sym {
        factors.fold(Sym::new(1.0), |product, f| product * f)
    }
}

impl<'a> Product<&'a Sym> for Sym {
    #[track_caller]
    fn product<I: Iterator<Item = &'a Sym>>(factors: I) -> Sym {
        factors.fold(Sym::new(1.0), |product, f| product * f)
    }
}

impl BitAnd for Mask {
    type Output = Mask;

    #[track_caller]
    fn bitand(self, other: Mask) -> Mask {
        self.logic(Logic::And, other)
    }
}

impl BitOr for Mask {
    type Output = Mask;

    #[track_caller]
    fn bitor(self, other: Mask) -> Mask {
        self.logic(Logic::Or, other)
    }
}

impl Not for Mask {
    type Output = Mask;

    #[track_caller]
    fn not(self) -> Mask {
        self.opposite()
    }
}
