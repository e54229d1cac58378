//! Methods of members: `self.grid.slope(i)` of a nested bundle, and `self.gravity.norm()` of a value.
//!
//! The macro does not know which of them it is. rustc does: a `#[func]` of a bundle has a companion, from which the receiver of the
//! call gets its type. A value is its own receiver; that of a bundle is `Nested`, which refers to a type of this place that has the method.

use crate::argument::closure_params;
use crate::member::opened;
use crate::method::{Recorded, asked};
use crate::scope::{Code, Walker};
use crate::span::{ends, node, own, parens};
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::{Expr, ExprMethodCall, Result};

impl Walker {
    /// The receiver of a method of a member, and the slot that has what is beside the method. `call` finds the type that has the
    /// method of a nested bundle.
    pub(crate) fn receiver(
        &mut self,
        m: &ExprMethodCall,
        call: &TokenStream,
    ) -> Result<(Code, Ident)> {
        let Code { shadow, ast } = self.chain(&m.receiver, false)?;
        let kind = self.slot(m.method.span());
        let (first, last) = ends(&m.receiver);
        let (member, companion, count) = (opened(&m.receiver, &shadow), asked(m), m.args.len());
        let args = parens(
            quote_spanned!(first=> &#call, &#member, &#kind, #companion),
            last,
        );
        let called = quote_spanned!(first=> ::wuji::__private::called::<#count, _, _, _> #args);
        // What a kernel cannot call is underlined at its name.
        let shadow = quote_spanned!(m.method.span()=> #called.receiver());
        Ok((Code { shadow, ast }, kind))
    }

    pub(crate) fn member_method(&mut self, e: &Expr, m: &ExprMethodCall) -> Result<Code> {
        let (Code { shadow, ast }, kind) = self.receiver(m, &quote!(__NestedCall))?;
        let args = self.arguments(m)?;
        let Recorded {
            slot,
            beside,
            number,
        } = self.recorded(m);
        let span = m.method.span();
        let (first, _) = ends(&m.receiver);
        let (params, passed) = closure_params(&args, &m.args);
        let (mut types, mut given, mut asts) = (Vec::new(), Vec::new(), Vec::new());
        for (arg, user) in args.into_iter().zip(&m.args) {
            let slot = self.slot(ends(user).0);
            given.push(arg.pinned(&slot, user));
            types.push(slot);
            asts.push(arg.code.ast);
        }
        let close = m.paren_token.span.join();
        let (given, passed) = (
            parens(quote!(#(#given),*), close),
            parens(quote!(#(#passed),*), close),
        );
        let (dot, method, turbofish) = (&m.dot_token, &m.method, &m.turbofish);
        let (name, copy) = (own("__member", first), own("__receiver", first));
        let (result, typed) = (
            own("__result", span),
            Ident::new(&format!("typed{}", types.len() + 1), span),
        );
        let nested = nested_method(method, types.len());
        let body = quote_spanned! {span=> {
            #nested
            #[allow(unused_mut)]
            let mut #name = #shadow;
            let #result = #name #dot #method #turbofish #given;
            if false {
                ::wuji::__private::#typed(
                    &#slot, &#beside, &#name, #(&#types,)*
                    |#[allow(unused_mut)] mut #copy #(, #params)*| #copy #dot #method #turbofish #passed,
                    |_| ::wuji::__private::val(&#kind),
                );
            }
            #result
        }};
        let name = m.method.to_string();
        Ok(Code {
            shadow: parens(body, first.join(ends(e).1).unwrap_or(first)),
            ast: node(span, quote!(Method(#number, #name, &[#ast, #(#asts),*]))),
        })
    }
}

/// The type that the receiver of a nested bundle refers to: it has the method. An inherent one, because in errors about other
/// methods rustc mentions every trait that has one of the same name.
fn nested_method(method: &Ident, count: usize) -> TokenStream {
    let types: Vec<Ident> = (0..count).map(|k| format_ident!("__A{k}")).collect();
    let names: Vec<Ident> = (0..count).map(|k| format_ident!("__a{k}")).collect();
    quote! {
        struct __NestedCall;
        struct __NestedBundle<__B, __F>(::core::marker::PhantomData<fn() -> (__B, __F)>);
        impl ::wuji::__private::CallOf for __NestedCall {
            type Receiver<__B, __F> = __NestedBundle<__B, __F>;
        }
        impl<__B, __F> ::core::default::Default for __NestedBundle<__B, __F> {
            fn default() -> Self {
                __NestedBundle(::core::marker::PhantomData)
            }
        }
        #[allow(dead_code, clippy::all)]
        impl<__B, __F: ::core::marker::Copy> __NestedBundle<__B, __F> {
            fn #method<#(#types,)* __R>(&self, #(#names: #types),*) -> __R
            where
                __F: for<'__b> ::core::ops::Fn(::wuji::__private::OnlyInKernels<&'__b __B>, #(#types),*) -> __R,
            {
                let __func = ::wuji::__private::nested::<
                    __F,
                    (::wuji::__private::OnlyInKernels<&__B>, #(#types,)* __R,),
                >();
                __func(::wuji::__private::OnlyInKernels::Described, #(#names),*)
            }
        }
    }
}
