//! Patterns of `let`, `for` and parameters.

use crate::scope::{VarKind, Walker, unsupported};
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Member, Pat, Result};

impl Walker {
    /// Declares the variables of a pattern; returns the literal of an `ast::Pat`.
    pub(crate) fn pattern(&mut self, pat: &Pat) -> Result<TokenStream> {
        Ok(match pat {
            Pat::Ident(p) if p.by_ref.is_none() && p.subpat.is_none() => {
                let var = self.declare(&p.ident.to_string(), VarKind::Value);
                let mutable = p.mutability.is_some();
                self.vars[var as usize].mutable = mutable;
                quote!(Pat::Var { var: #var, mutable: #mutable })
            }
            Pat::Wild(_) => quote!(Pat::Wild),
            Pat::Type(t) => self.pattern(&t.pat)?,
            Pat::Paren(p) => self.pattern(&p.pat)?,
            Pat::Tuple(t) => self.parts(&t.elems)?,
            Pat::Slice(s) => self.parts(&s.elems)?,
            Pat::TupleStruct(t) => self.parts(&t.elems)?,
            Pat::Struct(s) => {
                let mut fields = Vec::new();
                for f in &s.fields {
                    let name = member(&f.member);
                    let pat = self.pattern(&f.pat)?;
                    fields.push(quote!((#name, #pat)));
                }
                quote!(Pat::Fields(&[#(#fields),*]))
            }
            Pat::Rest(r) => return unsupported(r, "`..` is not supported in patterns of a kernel"),
            _ => return unsupported(pat, "this pattern is not supported inside a kernel"),
        })
    }

    /// As above, of a reference: names refer to parts of the value, and `&v` is a part itself.
    pub(crate) fn shared_pattern(&mut self, pat: &Pat) -> Result<TokenStream> {
        Ok(match pat {
            Pat::Ident(p) if p.by_ref.is_none() && p.subpat.is_none() => {
                let var = self.declare_reference(&p.ident.to_string(), false);
                quote!(Pat::Var { var: #var, mutable: false })
            }
            Pat::Wild(_) => quote!(Pat::Wild),
            Pat::Reference(r) => self.pattern(&r.pat)?,
            Pat::Paren(p) => self.shared_pattern(&p.pat)?,
            Pat::Tuple(t) => {
                let parts: Vec<TokenStream> = t
                    .elems
                    .iter()
                    .map(|p| self.shared_pattern(p))
                    .collect::<Result<_>>()?;
                quote!(Pat::Parts(&[#(#parts),*]))
            }
            _ => {
                return unsupported(
                    pat,
                    "this pattern is not supported inside a kernel\nhelp: take a copy apart: `for &v in ..`, or `.iter().copied()`",
                );
            }
        })
    }

    fn parts<'a>(&mut self, parts: impl IntoIterator<Item = &'a Pat>) -> Result<TokenStream> {
        let parts: Vec<TokenStream> = parts
            .into_iter()
            .map(|p| self.pattern(p))
            .collect::<Result<_>>()?;
        Ok(quote!(Pat::Parts(&[#(#parts),*])))
    }
}

/// The name of a field, or the number of a tuple field.
pub(crate) fn member(m: &Member) -> String {
    m.to_token_stream().to_string()
}
