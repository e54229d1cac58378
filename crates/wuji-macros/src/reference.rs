//! References to values: `let r = &v` and `let r = &mut v`, and parameters.

use crate::params::is_array;
use crate::place::Change;
use crate::plain::{is_plain_type, is_value_name};
use crate::scope::{Code, Walker, unsupported};
use crate::span::{ends, node, own};
use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{ExprReference, Local, Pat, PatType, Result, Type, spanned::Spanned};

impl Walker {
    pub(crate) fn let_reference(&mut self, l: &Local, r: &ExprReference) -> Result<Code> {
        let Pat::Ident(name) = &l.pat else {
            return unsupported(&l.pat, "a reference is bound to a name inside a kernel");
        };
        if self.data(&r.expr).is_some() {
            return unsupported(
                r,
                "fields and arrays are references already\nhelp: leave out the `&`",
            );
        }
        let exclusive = r.mutability.is_some();
        let code = if exclusive {
            self.place(&r.expr, Change::Replace)?
        } else {
            self.expr(&r.expr)?
        };
        let plain = self.is_plain(&r.expr);
        let var = self.declare_reference(&name.ident.to_string(), exclusive);
        self.vars[var as usize].plain = plain;
        let (keyword, pat, semi) = (&l.let_token, &l.pat, &l.semi_token);
        let eq = l.init.as_ref().map(|i| &i.eq_token);
        let (and, mutability, shadow, ast) = (&r.and_token, &r.mutability, code.shadow, code.ast);
        Ok(Code {
            shadow: quote!(#keyword #pat #eq #and #mutability #shadow #semi),
            ast: node(l.span(), quote!(LetRef(#var, &#ast))),
        })
    }
}

/// A parameter of a `#[func]` that is a reference to a value: a variable of the caller if it is exclusive, a copy if not.
pub(crate) fn reference_param(
    w: &mut Walker,
    p: &PatType,
    place: &TokenStream,
) -> Result<TokenStream> {
    let (Pat::Ident(name), Type::Reference(reference)) = (&*p.pat, &*p.ty) else {
        return unsupported(&p.pat, "a parameter behind a reference is a plain name");
    };
    let exclusive = reference.mutability.is_some();
    let var = w.declare_reference(&name.ident.to_string(), exclusive);
    w.vars[var as usize].plain = is_plain_type(&p.ty);
    let ty = &reference.elem;
    let (first, _) = ends(ty);
    let recorder = own("__recorder", first);
    let number = w.written_type(quote_spanned!(first=> #recorder.ty_of::<#ty>();));
    let kind = if exclusive {
        quote!(Exclusive)
    } else {
        quote!(Value)
    };
    Ok(quote!(Param {
        at: #place,
        pat: Pat::Var { var: #var, mutable: false },
        kind: ParamKind::#kind(#number),
    }))
}

/// The name of the bundle that a method gets, which is not a value.
pub(crate) const BUNDLE: &str = "__bundle";

/// Whether a parameter is a reference to a value. Shared references to values are those to arrays, numbers and vectors;
/// others are fields, arrays of the host, or types that stand for them.
pub(crate) fn is_value_reference(param: &PatType) -> bool {
    let ty = &*param.ty;
    let Type::Reference(r) = ty else {
        return false;
    };
    if matches!(&*param.pat, Pat::Ident(name) if name.ident == BUNDLE) {
        return false;
    }
    match (&*r.elem, r.mutability.is_some()) {
        (Type::Array(_), _) => true,
        (_, true) => !is_array(ty),
        (Type::Path(p), false) => p.path.segments.last().is_some_and(|s| {
            let name = s.ident.to_string();
            is_value_name(&name) || name == "Self" || name == "Option"
        }),
        (_, false) => false,
    }
}
