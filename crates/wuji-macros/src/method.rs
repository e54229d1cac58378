//! Calls of methods of values.

use crate::argument::{Argument, Passing, closure_params};
use crate::builtin::is_method;
use crate::closure::Split;
use crate::function::companion_name;
use crate::place::{Change, both};
use crate::scope::{Code, VarKind, Walker, unsupported};
use crate::span::{ends, helper, node, own, parens};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Expr, ExprMethodCall, Result, UnOp};

/// The parts of a recorded method.
pub(crate) struct Recorded {
    pub(crate) slot: Ident,
    pub(crate) beside: Ident,
    pub(crate) number: u32,
}

impl Walker {
    pub(crate) fn value_method(&mut self, e: &Expr, m: &ExprMethodCall) -> Result<Code> {
        if m.args.len() > 9 {
            return unsupported(e, "a method inside a kernel takes at most 9 arguments");
        }
        if m.method == "clone" && m.args.is_empty() {
            let receiver = self.expr(&m.receiver)?;
            let (dot, method, shadow) = (&m.dot_token, &m.method, receiver.shadow);
            let args = parens(quote!(), m.paren_token.span.join());
            return Ok(Code {
                shadow: quote!(#shadow #dot #method #args),
                ast: receiver.ast,
            });
        }
        let place = self
            .place_root(&m.receiver)
            .filter(|v| self.is_direct(*v, m));
        match place {
            Some(var) => self.direct_method(m, var),
            None => self.method_of_value(e, m),
        }
    }

    /// Whether a method is called on the variable itself, and not on a copy: it may change it.
    fn is_direct(&self, var: usize, m: &ExprMethodCall) -> bool {
        let v = &self.vars[var];
        let changeable = v.kind == VarKind::Value && !self.is_shared(var) && !self.is_captured(var);
        changeable && (v.mutable || !is_method(&m.method))
    }

    /// The variable that a place belongs to.
    fn place_root(&self, e: &Expr) -> Option<usize> {
        match e {
            Expr::Path(_) => self.variable(e),
            Expr::Paren(p) => self.place_root(&p.expr),
            Expr::Group(g) => self.place_root(&g.expr),
            Expr::Field(f) => self.place_root(&f.base),
            Expr::Index(i) if self.data(&i.expr).is_none() => self.place_root(&i.expr),
            Expr::Unary(u) if matches!(u.op, UnOp::Deref(_)) => self.place_root(&u.expr),
            _ => None,
        }
    }

    /// Slots of a callee, and the statement that records it.
    pub(crate) fn recorded(&mut self, m: &ExprMethodCall) -> Recorded {
        let name = m.method.to_string();
        let span = m.method.span();
        let beside = self.slot(span);
        let record = Ident::new(if is_method(&m.method) { "known" } else { "own" }, span);
        let recorder = own("__recorder", span);
        let (slot, number) = self.callee(
            &m.method,
            |slot| quote_spanned!(span=> #beside.#record(#recorder, #slot, #name);),
        );
        Recorded {
            slot,
            beside,
            number,
        }
    }

    /// On a copy of the receiver.
    fn method_of_value(&mut self, e: &Expr, m: &ExprMethodCall) -> Result<Code> {
        let of_member = self.is_member(&m.receiver);
        let passes_closure = |a: &Expr| self.is_closure(a);
        if of_member && !m.args.iter().any(passes_closure) {
            return self.member_method(e, m);
        }
        let receiver = if of_member {
            self.receiver(m, &quote!(()))?.0
        } else {
            self.expr(&m.receiver)?
        };
        let args = self.arguments(m)?;
        if takes_closures(&args) {
            let (first, _) = ends(&m.receiver);
            let (value, shadow) = (own("__value", first), receiver.shadow);
            let bound = quote_spanned!(first=> #[allow(unused_mut)] let mut #value = #shadow;);
            let receiver = Code {
                shadow: quote!(#value),
                ast: receiver.ast,
            };
            return Ok(self.method_with_closures(m, &bound, receiver, args));
        }
        let recorded = self.recorded(m);
        let span = m.method.span();
        let (closure, asked, count) = closures(m, &args, self.variable(&m.receiver).is_some());
        let (shadow, ast) = (receiver.shadow, receiver.ast);
        let (shadows, asts) = both(args.into_iter().map(|a| a.code).collect());
        let Recorded {
            slot,
            beside,
            number,
        } = recorded;
        let call = helper(
            &format!("method{count}"),
            quote_spanned!(span=> &#slot, &#beside, #shadow, #(#shadows,)* #closure, #asked),
            e,
        );
        let name = m.method.to_string();
        Ok(Code {
            shadow: call,
            ast: node(span, quote!(Method(#number, #name, &[#ast, #(#asts),*]))),
        })
    }

    /// On the receiver itself: a plain call, and its types beside it.
    fn direct_method(&mut self, m: &ExprMethodCall, var: usize) -> Result<Code> {
        let receiver = if self.vars[var].mutable {
            self.place(&m.receiver, Change::Replace)?
        } else {
            self.expr(&m.receiver)?
        };
        let args = self.arguments(m)?;
        if takes_closures(&args) {
            return Ok(self.method_with_closures(m, &quote!(), receiver, args));
        }
        let recorded = self.recorded(m);
        let span = m.method.span();
        let (closure, asked, count) = closures(m, &args, false);
        let mut types = Vec::new();
        let mut given = Vec::new();
        let mut asts = Vec::new();
        for (arg, user) in args.into_iter().zip(&m.args) {
            let (first, _) = ends(user);
            let slot = self.slot(first);
            given.push(arg.pinned(&slot, user));
            types.push(slot);
            asts.push(arg.code.ast);
        }
        let Recorded {
            slot,
            beside,
            number,
        } = recorded;
        let (shadow, dot, method, turbofish) =
            (receiver.shadow, &m.dot_token, &m.method, &m.turbofish);
        let (first, _) = ends(&m.receiver);
        let given = parens(quote!(#(#given),*), m.paren_token.span.join());
        let typed = Ident::new(&format!("typed{count}"), span);
        let result = own("__result", span);
        let body = quote_spanned! {span=> {
            let #result = #shadow #dot #method #turbofish #given;
            if false {
                ::wuji::__private::#typed(&#slot, &#beside, &#shadow, #(&#types,)* #closure, #asked);
            }
            #result
        }};
        let (name, ast) = (m.method.to_string(), receiver.ast);
        Ok(Code {
            shadow: parens(body, first),
            ast: node(span, quote!(Method(#number, #name, &[#ast, #(#asts),*]))),
        })
    }

    /// With closures among the arguments, on a receiver that is `bound` or a place. The method that is recorded takes function pointers, so it is another instance.
    fn method_with_closures(
        &mut self,
        m: &ExprMethodCall,
        bound: &TokenStream,
        receiver: Code,
        args: Vec<Argument>,
    ) -> Code {
        let recorded = self.recorded(m);
        let split = self.split(&args, &m.args);
        let types: Vec<Ident> = (split.params.iter())
            .map(|_| self.slot(m.method.span()))
            .collect();
        let Recorded {
            slot,
            beside,
            number,
        } = recorded;
        let span = m.method.span();
        let (first, _) = ends(&m.receiver);
        let close = m.paren_token.span.join();
        let (dot, method, turbofish) = (&m.dot_token, &m.method, &m.turbofish);
        let Split {
            given,
            params,
            passed,
        } = split;
        let given = parens(quote!(#(#given),*), close);
        let passed = parens(quote!(#(#passed),*), close);
        let (shadow, ast) = (receiver.shadow, receiver.ast);
        let copy = own("__receiver", first);
        let closure = quote_spanned! {span=>
            move |#[allow(unused_mut)] mut #copy #(, #params)*| #copy #dot #method #turbofish #passed
        };
        let asked = asked(m);
        let typed = Ident::new(&format!("typed{}", types.len() + 1), span);
        let result = own("__result", span);
        let body = quote_spanned! {span=> {
            #bound
            let #result = #shadow #dot #method #turbofish #given;
            if false {
                ::wuji::__private::#typed(&#slot, &#beside, &#shadow, #(&#types,)* #closure, #asked);
            }
            #result
        }};
        let name = m.method.to_string();
        let asts = args.into_iter().map(|a| a.code.ast);
        Code {
            shadow: parens(body, first),
            ast: node(span, quote!(Method(#number, #name, &[#ast, #(#asts),*]))),
        }
    }

    pub(crate) fn arguments(&mut self, m: &ExprMethodCall) -> Result<Vec<Argument>> {
        let mut args = Vec::new();
        for a in &m.args {
            let argument = self.argument(a)?;
            if let Passing::Closure(_) = argument.passing
                && is_method(&m.method)
            {
                return unsupported(
                    a,
                    "methods of the standard library take no closures inside a kernel\nhelp: write a `match` or an `if let`; methods with `#[func]` take closures",
                );
            }
            args.push(argument);
        }
        Ok(args)
    }
}

fn takes_closures(args: &[Argument]) -> bool {
    (args.iter()).any(|a| matches!(a.passing, Passing::Closure(_)))
}

/// The closure that calls a method on values; [`asked`]; how many arguments they have with the receiver.
fn closures(
    m: &ExprMethodCall,
    args: &[Argument],
    named: bool,
) -> (TokenStream, TokenStream, usize) {
    let span = m.method.span();
    let (first, _) = ends(&m.receiver);
    let (params, given) = closure_params(args, &m.args);
    let (dot, method, turbofish) = (&m.dot_token, &m.method, &m.turbofish);
    let inner = parens(quote!(#(#given),*), m.paren_token.span.join());
    // rustc names the variable if the method changes it.
    let receiver = match (&*m.receiver, named) {
        (Expr::Path(p), true) => match p.path.get_ident() {
            Some(name) if name != "self" => name.clone(),
            _ => Ident::new("__receiver", first),
        },
        _ => Ident::new("__receiver", first),
    };
    let pattern = if named {
        quote_spanned!(first=> #receiver)
    } else {
        quote_spanned!(first=> #[allow(unused_mut)] mut #receiver)
    };
    let closure =
        quote_spanned!(span=> |#pattern #(, #params)*| #receiver #dot #method #turbofish #inner);
    (closure, asked(m), args.len() + 1)
}

/// A closure that determines whether the method is a `#[func]`.
pub(crate) fn asked(m: &ExprMethodCall) -> TokenStream {
    let span = m.method.span();
    let (first, _) = ends(&m.receiver);
    // This trait method is selected if the type has no companion, because it takes one more reference.
    let companion = companion_name(&m.method);
    let receiver = Ident::new("__receiver", Span::call_site().located_at(first));
    quote_spanned! {span=>
        |#receiver| {
            trait __Beside {
                fn #companion(&self) -> ::wuji::__private::IsPlain;
            }
            impl<T> __Beside for &T {
                fn #companion(&self) -> ::wuji::__private::IsPlain {
                    ::wuji::__private::IsPlain
                }
            }
            #receiver.#companion()
        }
    }
}
