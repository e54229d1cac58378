//! The names of functions and methods that are part of the language.
//!
//! The macros decide by them whether a call is an error; `wuji::lang` reads them through [`functions`] and [`methods`].

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{Expr, Ident, spanned::Spanned};

/// Functions that have no receiver.
const FUNCTIONS: &[&str] = &[
    "vec2",
    "vec3",
    "vec4",
    "dvec2",
    "dvec3",
    "dvec4",
    "ivec2",
    "ivec3",
    "ivec4",
    "uvec2",
    "uvec3",
    "uvec4",
    "bvec2",
    "bvec3",
    "bvec4",
    "unit",
    "mat2",
    "min",
    "max",
    "clamp",
    "mix",
    "select",
    "mem::swap",
    "assume_in_range",
    "loop_permutation",
    "loop_unique",
    "random",
    "random_range",
    "Vector::new",
    "Vector::splat",
    "Vector::from_array",
    "Matrix::new",
    "Matrix::splat",
    "Matrix::from_rows",
    "Matrix::from_cols",
    "Matrix::identity",
    "Matrix::from_diagonal",
    "Num::from_f64",
    "From::from",
    "Default::default",
    "f16::from_f32",
    "f16::from_f64",
    "f16::from_bits",
    "f32::from_bits",
    "f64::from_bits",
];

/// Functions for threads of a GPU that work together.
const SIMT: &[&str] = &[
    "thread",
    "size",
    "index",
    "count",
    "sync",
    "sync_all",
    "sync_any",
    "sync_count",
    "fence",
    "lane",
    "active_mask",
    "ballot",
    "match_any",
    "shuffle",
    "shuffle_up",
    "shuffle_down",
    "shuffle_xor",
    "shared",
];

/// Methods of scalars, vectors, matrices, arrays and `Option`.
const METHODS: &[&str] = &[
    "sqrt",
    "rsqrt",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "exp",
    "exp2",
    "ln",
    "log2",
    "log10",
    "log",
    "exp_m1",
    "ln_1p",
    "cbrt",
    "floor",
    "ceil",
    "round",
    "round_ties_even",
    "trunc",
    "fract",
    "abs",
    "unsigned_abs",
    "signum",
    "copysign",
    "recip",
    "to_radians",
    "to_degrees",
    "powf",
    "powi",
    "pow",
    "atan2",
    "sin_cos",
    "hypot",
    "min",
    "max",
    "clamp",
    "mul_add",
    "rem_euclid",
    "div_euclid",
    "abs_diff",
    "is_nan",
    "is_finite",
    "is_infinite",
    "is_sign_negative",
    "is_sign_positive",
    "is_positive",
    "is_negative",
    "to_bits",
    "unit_scale",
    "to_f32",
    "to_f64",
    "count_ones",
    "count_zeros",
    "leading_zeros",
    "trailing_zeros",
    "rotate_left",
    "rotate_right",
    "is_power_of_two",
    "wrapping_add",
    "wrapping_sub",
    "wrapping_mul",
    "wrapping_div",
    "wrapping_rem",
    "wrapping_neg",
    "wrapping_abs",
    "wrapping_shl",
    "wrapping_shr",
    "wrapping_pow",
    "swap_bytes",
    "reverse_bits",
    "cast",
    "into",
    "clone",
    "to_array",
    "add",
    "sub",
    "mul",
    "div",
    "rem",
    "neg",
    "not",
    "dot",
    "cross",
    "norm",
    "norm_sqr",
    "normalized",
    "distance",
    "reflect",
    "outer",
    "extend",
    "sum",
    "product",
    "min_component",
    "max_component",
    "any",
    "all",
    "select",
    "cmp_eq",
    "cmp_ne",
    "cmp_lt",
    "cmp_le",
    "cmp_gt",
    "cmp_ge",
    "row",
    "col",
    "transpose",
    "determinant",
    "inverse",
    "trace",
    "diagonal",
    "component_mul",
    "len",
    "swap",
    "reverse",
    "fill",
    "then_some",
    "is_some",
    "is_none",
    "unwrap",
    "unwrap_or",
    "unwrap_or_default",
    "or",
];

/// The names of functions, as a list.
pub(crate) fn functions() -> TokenStream {
    let names = FUNCTIONS;
    quote!(&[#(#names),*])
}

/// The names of methods, as a list.
pub(crate) fn methods() -> TokenStream {
    let names = METHODS;
    quote!(&[#(#names),*])
}

/// Whether the language has a method of this name.
pub(crate) fn is_method(name: &Ident) -> bool {
    let name = name.to_string();
    METHODS.contains(&name.as_str()) || is_swizzle(&name)
}

fn is_swizzle(name: &str) -> bool {
    (2..=4).contains(&name.len()) && name.bytes().all(|c| b"xyzw".contains(&c))
}

/// What the name in a call may stand for. rustc knows more, but only after the macro.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(crate) enum Name {
    /// A function of the language, or one of the same name.
    Language,
    /// A tuple struct or a variant; or `select`, which gives a value of any type as well.
    Constructor,
    Other,
}

pub(crate) fn called_name(func: &Expr) -> Name {
    let Expr::Path(p) = func else {
        return Name::Other;
    };
    let Some(last) = p.path.segments.last() else {
        return Name::Other;
    };
    let name = last.ident.to_string();
    if name == "select" {
        return Name::Constructor;
    }
    let in_language = |f: &&str| f.rsplit("::").next() == Some(name.as_str());
    if FUNCTIONS.iter().any(in_language) || SIMT.contains(&name.as_str()) || is_method(&last.ident)
    {
        Name::Language
    } else if name.starts_with(char::is_uppercase) {
        Name::Constructor
    } else {
        Name::Other
    }
}

/// Where errors about a callee are reported: at the last name of its path.
pub(crate) fn last_segment(func: &Expr) -> Span {
    match func {
        Expr::Path(p) => match p.path.segments.last() {
            Some(last) => last.ident.span(),
            None => p.span(),
        },
        other => other.span(),
    }
}
