//! The `#[kernel]` and `#[func]` macros of Wuji, `#[derive(Element)]` and `#[derive(Fields)]`.
//!
//! A kernel expands to two things: its body as plain Rust that is never run (the *shadow*), so that rustc checks it,
//! reports errors in the user's code and infers all types; and the body as static data. Where the data needs a type,
//! a constant or a callee, the shadow binds it to a slot that is read at run time. `wuji::lang` is the other half.
//!
//! Architecture invariant: every token of the shadow has a span of the user's code, because rustc reports errors at
//! the spans of the tokens.

mod argument;
mod builtin;
mod bundle;
mod call;
mod closure;
mod control;
mod derive;
mod derive_enum;
mod expr;
mod func_block;
mod function;
mod index_hint;
mod item;
mod iterate;
mod manifest;
mod matching;
mod member;
mod method;
mod nested;
mod operator;
mod params;
mod pattern;
mod place;
mod plain;
mod reference;
mod rename;
mod scope;
mod span;
mod text;

use proc_macro::TokenStream;

/// Makes a function a kernel: calling it compiles it for its arguments and runs it.
///
/// A `#[kernel(grad)]` also has its gradient: `step::grad(..)` takes the arguments of `step(..)` and runs the gradient kernel.
/// It is a free function, and no type or module beside it has its name.
///
/// Of a `#[kernel(grad = g)]`, tapes call the function `g` instead of a gradient kernel, with the same arguments. `g` returns
/// `wuji::Result<()>` and adds to the gradients of the inputs what those of the outputs imply.
///
/// Tapes do not record a `#[kernel(no_grad)]`: what it writes is a constant for gradients.
///
/// In a `#[kernel] impl`, every function is a kernel, and those with `#[func]` are functions for kernels. They take the bundle of fields, a struct
/// with `#[derive(Fields)]`, as `&self`. The gradient of a method `step` with `#[kernel(grad)]` is `step_grad`.
#[proc_macro_attribute]
pub fn kernel(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let (attribute, item) = (attribute.into(), item.into());
    let expanded = match bundle::methods(&attribute, &item) {
        Some(methods) => methods,
        None => function::expand(attribute, item, true),
    };
    rename::renamed(expanded).into()
}

/// Makes a function callable from kernels. Without fields and arrays among its arguments it is also an ordinary
/// function on the host.
///
/// In a `#[func(precise)]`, `+`, `-`, `*`, `/` and `sqrt` are rounded as written in every math mode: neither fused, nor reordered, nor
/// approximated. Functions that it calls are precise only if they say so, and products of vectors and matrices are not.
///
/// A `#[func(reverse = g)]` has the reverse sweep `g`, which gradients use in place of its derivatives. `g` is a `#[func]` that takes the
/// parameters, the result and the adjoint of the result. It returns the adjoint of the parameter; of several parameters with floats, a
/// tuple of their adjoints.
#[proc_macro_attribute]
pub fn func(attribute: TokenStream, item: TokenStream) -> TokenStream {
    rename::renamed(function::expand(attribute.into(), item.into(), false)).into()
}

/// Lets fields, arrays and kernels hold a struct or an enum.
#[proc_macro_derive(Element)]
pub fn derive_element(item: TokenStream) -> TokenStream {
    rename::renamed(derive::expand(item.into())).into()
}

/// Lets kernels take a struct of fields as one argument. Its members are fields, arrays of fields, values and other such structs;
/// `#[fields(skip)]` leaves a member to the host.
#[proc_macro_derive(Fields, attributes(fields))]
pub fn derive_fields(item: TokenStream) -> TokenStream {
    rename::renamed(bundle::derive(item.into())).into()
}

/// The names of functions of the language.
#[doc(hidden)]
#[proc_macro]
pub fn builtin_functions(_: TokenStream) -> TokenStream {
    builtin::functions().into()
}

/// The names of methods of the language.
#[doc(hidden)]
#[proc_macro]
pub fn builtin_methods(_: TokenStream) -> TokenStream {
    builtin::methods().into()
}
