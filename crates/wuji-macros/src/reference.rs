//! `let r = &v` and `let r = &mut v`: another name for a place.

use crate::place::Change;
use crate::scope::{Code, Walker, unsupported};
use crate::span::node;
use quote::quote;
use syn::{ExprReference, Local, Pat, Result, spanned::Spanned};

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
