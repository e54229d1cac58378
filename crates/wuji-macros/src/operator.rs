//! Operators whose operands may be of a type of the user.

use crate::expr::binary_op;
use crate::place::Change;
use crate::scope::{Code, Walker};
use crate::span::{ends, helper, node, own, parens};
use proc_macro2::{Ident, Span};
use quote::{quote, quote_spanned};
use syn::{BinOp, Expr, ExprBinary, Result, UnOp, spanned::Spanned};

impl Walker {
    /// An operator of two values, if it needs to be recorded.
    pub(crate) fn own_binary(&mut self, b: &ExprBinary) -> Result<Option<Code>> {
        let equality = matches!(b.op, BinOp::Eq(_) | BinOp::Ne(_));
        if !equality && !is_arithmetic(&b.op) || self.is_plain(&b.left) && self.is_plain(&b.right) {
            return Ok(None);
        }
        let (l, r) = (self.expr(&b.left)?, self.expr(&b.right)?);
        let span = b.op.span();
        let name = binary_op(&b.op);
        let recorder = own("__recorder", span);
        let (slot, number) = self.callee(&b.op, |slot| {
            if equality {
                quote_spanned!(span=> (&::wuji::__private::operators::equal_of(#slot)).record(#recorder);)
            } else {
                let marker = Ident::new(&name.to_string(), span);
                quote_spanned! {span=>
                    (&::wuji::__private::operators::binary_of::<::wuji::__private::operators::#marker, _, _>(#slot))
                        .record(#recorder);
                }
            }
        });
        let (left, right, op) = (l.shadow, r.shadow, &b.op);
        let left = operand("left", &slot, &left, &b.left);
        let right = operand("right", &slot, &right, &b.right);
        let (la, ra) = (l.ast, r.ast);
        Ok(Some(Code {
            shadow: quote!(#left #op #right),
            ast: node(span, quote!(OwnBinary(#number, Binary::#name, &[#la, #ra]))),
        }))
    }

    /// `-a` and `!a`, if they need to be recorded.
    pub(crate) fn own_unary(
        &mut self,
        e: &Expr,
        op: &UnOp,
        inner: &Expr,
        name: &str,
    ) -> Result<Option<Code>> {
        if self.is_plain(inner) {
            return Ok(None);
        }
        let code = self.expr(inner)?;
        let span = op.span();
        let recorder = own("__recorder", span);
        let marker = Ident::new(name, span);
        let (slot, number) = self.callee(op, |slot| {
            quote_spanned! {span=>
                (&::wuji::__private::operators::unary_of::<::wuji::__private::operators::#marker, _>(#slot))
                    .record(#recorder);
            }
        });
        let shadow = operand("probe", &slot, &code.shadow, inner);
        let (kind, ast) = (Ident::new(name, Span::call_site()), code.ast);
        Ok(Some(Code {
            shadow: quote!(#op #shadow),
            ast: node(e.span(), quote!(OwnUnary(#number, Unary::#kind, &[#ast]))),
        }))
    }

    /// `a += b`, if it needs to be recorded.
    pub(crate) fn own_assign(&mut self, e: &ExprBinary, atomic: bool) -> Result<Option<Code>> {
        if self.is_plain(&e.left) || self.is_shared_place(&e.left) {
            return Ok(None);
        }
        let left = self.place(&e.left, Change::Update { atomic })?;
        let right = self.expr(&e.right)?;
        let span = e.op.span();
        let name = binary_op(&e.op);
        let recorder = own("__recorder", span);
        let marker = Ident::new(&name.to_string(), span);
        let (slot, number) = self.callee(&e.op, |slot| {
            quote_spanned! {span=>
                (&::wuji::__private::operators::assign_of::<::wuji::__private::operators::#marker, _, _>(#slot))
                    .record(#recorder);
            }
        });
        let (first, _) = ends(&e.left);
        let (l, r, op) = (left.shadow, right.shadow, &e.op);
        let value = operand("right", &slot, &r, &e.right);
        let pinned = parens(quote_spanned!(first=> &#slot, &#l), first);
        let (la, ra) = (left.ast, right.ast);
        let body = quote_spanned! {first=> {
            if false {
                ::wuji::__private::operators::left_place #pinned;
            }
            #l #op #value
        }};
        Ok(Some(Code {
            shadow: body,
            ast: node(span, quote!(OwnAssign(#number, Binary::#name, &[#la, #ra]))),
        }))
    }

    /// Whether a place belongs to a variable that the iterations of a parallel loop share: only numbers and vectors are reduced.
    fn is_shared_place(&self, e: &Expr) -> bool {
        self.variable(e).is_some_and(|v| self.is_shared(v))
    }
}

/// An operand with its type bound to a slot.
fn operand(
    name: &str,
    slot: &Ident,
    shadow: &proc_macro2::TokenStream,
    user: &Expr,
) -> proc_macro2::TokenStream {
    let (first, last) = ends(user);
    if name == "probe" {
        return helper(name, quote_spanned!(first=> &#slot, #shadow), user);
    }
    let name = Ident::new(name, first);
    let args = parens(quote_spanned!(first=> &#slot, #shadow), last);
    quote_spanned!(first=> ::wuji::__private::operators::#name #args)
}

fn is_arithmetic(op: &BinOp) -> bool {
    matches!(
        op,
        BinOp::Add(_)
            | BinOp::Sub(_)
            | BinOp::Mul(_)
            | BinOp::Div(_)
            | BinOp::Rem(_)
            | BinOp::BitAnd(_)
            | BinOp::BitOr(_)
            | BinOp::BitXor(_)
            | BinOp::Shl(_)
            | BinOp::Shr(_)
    )
}
