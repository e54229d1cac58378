//! Closures: bound with `let`, called by their name, or passed to a `#[func]`.
//!
//! A closure is inlined where it is called. A `#[func]` that takes one is recorded once for all closures of the same type of function:
//! recording calls it with a function pointer in place of the closure.

use crate::argument::{Argument, Passing};
use crate::scope::{Code, VarKind, Walker, unsupported};
use crate::span::{ends, helper, node, parens};
use proc_macro2::{Ident, TokenStream};
use quote::{quote, quote_spanned};
use syn::{
    Expr, ExprClosure, FnArg, GenericParam, Local, Pat, PatType, PathArguments, Result, ReturnType,
    Signature, Type, TypeParamBound, WherePredicate, spanned::Spanned,
};

/// A closure in both forms.
struct Walked {
    params: Vec<TokenStream>,
    body: Code,
}

/// The slots of a closure's parameter types and of its result type.
pub(crate) struct Pinned {
    pub(crate) params: Vec<Ident>,
    pub(crate) result: Ident,
}

impl Walker {
    fn walk_closure(&mut self, c: &ExprClosure) -> Result<Walked> {
        if let Some(capture) = &c.capture {
            return unsupported(
                capture,
                "closures inside a kernel see the variables around them; leave out `move`",
            );
        }
        self.closure_depth += 1;
        let loops = std::mem::take(&mut self.loops);
        let walked = self.scoped(|w| {
            let params: Vec<TokenStream> = c
                .inputs
                .iter()
                .map(|p| w.pattern(p))
                .collect::<Result<_>>()?;
            let body = w.expr(&c.body)?;
            Ok(Walked { params, body })
        });
        self.loops = loops;
        self.closure_depth -= 1;
        walked
    }

    /// `let f = |a, b| ..`: inlined where it is called.
    pub(crate) fn let_closure(&mut self, l: &Local, c: &ExprClosure) -> Result<Code> {
        let Pat::Ident(name) = strip(&l.pat) else {
            return unsupported(&l.pat, "a closure is bound to a name inside a kernel");
        };
        let Walked { params, body } = self.walk_closure(c)?;
        let var = self.declare(&name.ident.to_string(), VarKind::Closure);
        self.vars[var as usize].arity = c.inputs.len();
        let (keyword, pat, semi) = (&l.let_token, &l.pat, &l.semi_token);
        let eq = l.init.as_ref().map(|i| &i.eq_token);
        let (begin, inputs, end, output) = (&c.inputs_begin, &c.inputs, &c.inputs_end, &c.output);
        let shadow = body.shadow;
        // A result type needs braces around the body.
        let shadow = match (&c.output, &*c.body) {
            (ReturnType::Default, _) | (_, Expr::Block(_)) => shadow,
            _ => quote!({ #shadow }),
        };
        let body = body.ast;
        Ok(Code {
            shadow: quote!(#keyword #pat #eq #begin #inputs #end #output #shadow #semi),
            ast: node(c.span(), quote!(LetClosure(#var, &[#(#params),*], &#body))),
        })
    }

    /// A closure as an argument: written there, or by its name.
    pub(crate) fn closure_argument(&mut self, e: &Expr) -> Result<Option<Argument>> {
        match e {
            Expr::Closure(c) => self.written_closure(c).map(Some),
            Expr::Reference(r) if r.mutability.is_none() => Ok(self
                .closure_variable(&r.expr)
                .map(|var| self.named_closure(e, var))),
            _ => Ok(self
                .closure_variable(e)
                .map(|var| self.named_closure(e, var))),
        }
    }

    /// Whether an argument is a closure.
    pub(crate) fn is_closure(&self, e: &Expr) -> bool {
        match e {
            Expr::Closure(_) => true,
            Expr::Reference(r) => self.closure_variable(&r.expr).is_some(),
            _ => self.closure_variable(e).is_some(),
        }
    }

    fn closure_variable(&self, e: &Expr) -> Option<usize> {
        self.variable(e)
            .filter(|v| self.vars[*v].kind == VarKind::Closure)
    }

    /// rustc infers the types of the parameters from the function that takes the closure, so they are pinned inside of it.
    fn written_closure(&mut self, c: &ExprClosure) -> Result<Argument> {
        let Walked { params, body } = self.walk_closure(c)?;
        let (first, last) = ends(&c.body);
        let mut slots = Vec::new();
        let mut inputs = Vec::new();
        let mut taken = Vec::new();
        for (k, input) in c.inputs.iter().enumerate() {
            let (at, _) = ends(input);
            let slot = self.slot(at);
            let name = Ident::new(&format!("__closure_arg{k}"), at);
            let (pat, ty) = match input {
                Pat::Type(PatType { pat, ty, .. }) => (&**pat, Some(ty)),
                other => (other, None),
            };
            inputs.push(match ty {
                Some(ty) => quote_spanned!(at=> #name: #ty),
                None => quote_spanned!(at=> #name),
            });
            taken.push(quote_spanned!(at=> let #pat = ::wuji::__private::probe(&#slot, #name);));
            slots.push(slot);
        }
        let result = self.slot(first);
        let (begin, end, output) = (&c.inputs_begin, &c.inputs_end, &c.output);
        let shadow = body.shadow;
        let value = helper("probe", quote_spanned!(first=> &#result, #shadow), &c.body);
        let block = crate::span::group(
            proc_macro2::Delimiter::Brace,
            quote!(#(#taken)* #value),
            last,
        );
        let body = body.ast;
        Ok(Argument {
            passing: Passing::Closure(Pinned {
                params: slots,
                result,
            }),
            code: Code {
                shadow: quote!(#begin #(#inputs),* #end #output #block),
                ast: node(c.span(), quote!(Closure(&[#(#params),*], &#body))),
            },
        })
    }

    fn named_closure(&mut self, e: &Expr, var: usize) -> Argument {
        let (first, _) = ends(e);
        let params: Vec<Ident> = (0..self.vars[var].arity)
            .map(|_| self.slot(first))
            .collect();
        let result = self.slot(first);
        let pin = format!("pin_closure{}", params.len());
        let number = var as u32;
        let args = quote_spanned!(first=> #(&#params,)* &#result, #e);
        Argument {
            code: Code {
                shadow: helper(&pin, args, e),
                ast: node(e.span(), quote!(Var(#number))),
            },
            passing: Passing::Closure(Pinned { params, result }),
        }
    }

    /// Declares a parameter that is a closure; returns the literal of an `ast::Param`.
    pub(crate) fn closure_param(
        &mut self,
        p: &PatType,
        arity: usize,
        place: &TokenStream,
    ) -> Result<TokenStream> {
        let Pat::Ident(name) = &*p.pat else {
            return unsupported(&p.pat, "a closure parameter is a plain name");
        };
        if arity > 6 {
            return unsupported(&p.ty, "a closure inside a kernel takes at most 6 arguments");
        }
        let var = self.declare(&name.ident.to_string(), VarKind::Closure);
        self.vars[var as usize].arity = arity;
        Ok(quote!(Param {
            at: #place, pat: Pat::Var { var: #var, mutable: false }, kind: ParamKind::Closure
        }))
    }
}

impl Pinned {
    /// A function pointer with the type of the closure.
    pub(crate) fn stand_in(&self, user: &Expr) -> TokenStream {
        let (first, _) = ends(user);
        let name = format!("stand_in{}", self.params.len());
        let (params, result) = (&self.params, &self.result);
        helper(&name, quote_spanned!(first=> #(&#params,)* &#result), user)
    }
}

/// How many arguments the closures of a type take, if a parameter of this type is a closure.
pub(crate) fn closure_arity(sig: &Signature, ty: &Type) -> Option<usize> {
    match ty {
        Type::ImplTrait(t) => t.bounds.iter().find_map(fn_arity),
        Type::Reference(r) if r.mutability.is_none() => closure_arity(sig, &r.elem),
        Type::Path(p) => {
            let name = p.path.get_ident()?;
            let declared = sig.generics.params.iter().find_map(|g| match g {
                GenericParam::Type(t) if t.ident == *name => t.bounds.iter().find_map(fn_arity),
                _ => None,
            });
            let clause = sig.generics.where_clause.as_ref();
            let bounded = clause.into_iter().flat_map(|w| &w.predicates);
            declared.or_else(|| bounded.filter_map(|p| bound_arity(p, name)).next())
        }
        _ => None,
    }
}

fn bound_arity(predicate: &WherePredicate, name: &Ident) -> Option<usize> {
    match predicate {
        WherePredicate::Type(t) => match &t.bounded_ty {
            Type::Path(p) if p.path.is_ident(name) => t.bounds.iter().find_map(fn_arity),
            _ => None,
        },
        _ => None,
    }
}

fn fn_arity(bound: &TypeParamBound) -> Option<usize> {
    let TypeParamBound::Trait(t) = bound else {
        return None;
    };
    let last = t.path.segments.last()?;
    let named = ["Fn", "FnMut", "FnOnce"].iter().any(|n| last.ident == n);
    match &last.arguments {
        PathArguments::Parenthesized(args) if named => Some(args.inputs.len()),
        _ => None,
    }
}

/// The key of an instance of a `#[func]` with closures among its parameters: its other type and const parameters. Closures may not be
/// `'static`, so the type of the instance itself has no id.
pub(crate) fn instance_key(sig: &Signature) -> Result<TokenStream> {
    let closures: Vec<&Ident> = (sig.inputs.iter())
        .filter_map(|input| match input {
            FnArg::Typed(p) if closure_arity(sig, &p.ty).is_some() => type_name(&p.ty),
            _ => None,
        })
        .collect();
    let mut parts = Vec::new();
    if sig.receiver().is_some() {
        parts.push(quote!(Self));
    }
    for g in &sig.generics.params {
        match g {
            GenericParam::Lifetime(_) => {}
            GenericParam::Type(t) if closures.contains(&&t.ident) => {}
            GenericParam::Type(t) => {
                let name = &t.ident;
                parts.push(quote!(#name));
            }
            GenericParam::Const(c) => {
                let name = &c.ident;
                if !matches!(&c.ty, Type::Path(p) if p.path.is_ident("usize")) {
                    return unsupported(
                        &c.ty,
                        "constants of a `#[func]` that takes closures are of type `usize`",
                    );
                }
                parts.push(quote!([(); #name]));
            }
        }
    }
    Ok(quote! {{
        struct __Instance<P>(::core::marker::PhantomData<fn() -> P>);
        __Instance::<(#(#parts,)*)>(::core::marker::PhantomData)
    }})
}

fn type_name(ty: &Type) -> Option<&Ident> {
    match ty {
        Type::Path(p) => p.path.get_ident(),
        Type::Reference(r) => type_name(&r.elem),
        _ => None,
    }
}

pub(crate) fn strip(p: &Pat) -> &Pat {
    match p {
        Pat::Paren(p) => strip(&p.pat),
        Pat::Type(t) => strip(&t.pat),
        other => other,
    }
}

/// The arguments of a call with closures: what rustc calls, and what the recorded closure passes on.
pub(crate) struct Split {
    pub(crate) given: Vec<TokenStream>,
    pub(crate) params: Vec<TokenStream>,
    pub(crate) passed: Vec<TokenStream>,
}

impl Walker {
    /// Splits arguments of which some are closures. Values are pinned, so that the recorded call has the same types.
    pub(crate) fn split<'e>(
        &mut self,
        args: &[Argument],
        users: impl IntoIterator<Item = &'e Expr>,
    ) -> Split {
        let mut split = Split {
            given: Vec::new(),
            params: Vec::new(),
            passed: Vec::new(),
        };
        for (k, (arg, user)) in args.iter().zip(users).enumerate() {
            let (first, _) = ends(user);
            let shadow = &arg.code.shadow;
            if let Passing::Closure(pinned) = &arg.passing {
                split.given.push(quote!(#shadow));
                split.passed.push(pinned.stand_in(user));
                continue;
            }
            let name = Ident::new(&format!("__arg{k}"), first);
            if let Passing::Data = arg.passing {
                split.given.push(quote!(#shadow));
                split.params.push(quote!(#name));
                split.passed.push(quote!(#name));
                continue;
            }
            let slot = self.slot(first);
            split.given.push(arg.pinned(&slot, user));
            let value = parens(quote_spanned!(first=> &#slot, #name), first);
            let value = quote_spanned!(first=> ::wuji::__private::probe #value);
            split.params.push(quote_spanned!(first=> #name));
            split.passed.push(match arg.passing {
                Passing::Shared => quote_spanned!(first=> &#value),
                Passing::Exclusive => quote_spanned!(first=> &mut #value),
                Passing::Value | Passing::Data | Passing::Closure(_) => value,
            });
        }
        split
    }
}
