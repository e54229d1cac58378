//! Calls of functions, methods and closures, and the operations on fields that look like methods.

use crate::function::companion_name;
use crate::place::both;
use crate::scope::{Code, VarKind, Walker, unsupported};
use crate::span::{ends, group, helper, node, own, parens};
use proc_macro2::{Delimiter, Ident, Span};
use quote::{quote, quote_spanned};
use syn::{Expr, ExprCall, ExprMethodCall, Result, spanned::Spanned};

/// Methods of `x.at(i)`, their names in the static data, and how many operands they take.
const ATOMICS: &[(&str, &str)] = &[
    ("fetch_add", "Add"),
    ("fetch_sub", "Sub"),
    ("fetch_mul", "Mul"),
    ("fetch_min", "Min"),
    ("fetch_max", "Max"),
    ("fetch_and", "And"),
    ("fetch_or", "Or"),
    ("fetch_xor", "Xor"),
    ("exchange", "Exchange"),
    ("compare_exchange", "CompareExchange"),
];

const QUERIES: &[(&str, &str)] = &[("shape", "Shape"), ("offset", "Offset"), ("len", "Len")];

/// Methods on the cells of fields and nodes: their names in the static data, and the arguments of their helper after
/// the field and the index.
const CELLS: &[(&str, &str)] = &[
    ("is_active", "IsActive"),
    ("activate", "Activate"),
    ("deactivate", "Deactivate"),
    ("append", "Append"),
    ("length", "Length"),
];

impl Walker {
    pub(crate) fn call(&mut self, e: &Expr, c: &ExprCall) -> Result<Code> {
        if let Some(var) = self.variable(&c.func) {
            return self.closure_call(e, c, var);
        }
        if !matches!(&*c.func, Expr::Path(_)) {
            return unsupported(
                &c.func,
                "only functions and closures with a name can be called inside a kernel",
            );
        }
        for name in [
            "unroll",
            "serial",
            "block_size",
            "simd",
            "scalar",
            "cache",
            "grid",
        ] {
            if crate::expr::ends_in(&c.func, name) {
                return unsupported(
                    e,
                    format!("`{name}(..)` is only allowed after the `in` of a `for`"),
                );
            }
        }
        let mut args = Vec::new();
        for a in &c.args {
            args.push(match self.data_argument(a)? {
                Some(Code { shadow, ast }) => {
                    let (first, last) = ends(a);
                    let data = group(
                        Delimiter::Brace,
                        quote_spanned!(first=> data: #shadow, never_run: ()),
                        last,
                    );
                    let shadow =
                        quote_spanned!(first=> ::wuji::__private::OnlyInKernels::Data #data);
                    Code { shadow, ast }
                }
                None => self.expr(a)?,
            });
        }
        if args.len() > 12 {
            return unsupported(e, "a function inside a kernel takes at most 12 arguments");
        }
        let (shadows, asts) = both(args);
        let (first, _) = ends(&c.func);
        let func = &c.func;
        let close = c.paren_token.span.join();
        let recorder = own("__recorder", first);
        let args = parens(quote!(#(#shadows),*), close);
        // A callee that takes data is a `#[func]`, and can be called again when the call is recorded.
        if c.args.iter().any(|a| self.is_data_argument(a)) {
            let (slot, number) = self.callee(
                func,
                |slot| quote_spanned!(first=> #recorder.call_with_data(#slot);),
            );
            let callee = helper("probe", quote_spanned!(first=> &#slot, #func), func);
            return Ok(Code {
                shadow: quote!(#callee #args),
                ast: node(e.span(), quote!(Call(#number, &[#(#asts),*]))),
            });
        }
        // Other functions do not implement `Fn`, so they are called through a closure that does. It captures a
        // function item, which is zero-sized, and so it is zero-sized itself.
        let count = c.args.len();
        let closure_slot = self.slot(first);
        let (slot, number) = self.callee(func, |slot| {
            let plain = quote_spanned! {first=>
                (&&::wuji::__private::asked::<_, #count>(#slot)).is_plain()
            };
            quote_spanned!(first=> #recorder.call(#slot, &#closure_slot, #plain);)
        });
        let callee = helper("probe", quote_spanned!(first=> &#slot, #func), func);
        let params = c.args.iter().enumerate();
        let params: Vec<Ident> = params.map(|(k, user)| param_name(k, user)).collect();
        let item = Ident::new("__callee", first);
        let inner = parens(quote!(#(#params),*), close);
        let closure = quote_spanned!(first=> move |#(#params),*| #item #inner);
        let closure = helper(
            "probe",
            quote_spanned!(first=> &#closure_slot, #closure),
            func,
        );
        let callable = parens(
            quote_spanned!(first=> { let #item = #callee; #closure }),
            first,
        );
        Ok(Code {
            shadow: quote!(#callable #args),
            ast: node(e.span(), quote!(Call(#number, &[#(#asts),*]))),
        })
    }

    fn closure_call(&mut self, e: &Expr, c: &ExprCall, var: usize) -> Result<Code> {
        if self.vars[var].kind != VarKind::Closure {
            let name = &self.vars[var].name;
            return unsupported(&c.func, format!("`{name}` is not a function"));
        }
        let args: Vec<Code> = c.args.iter().map(|a| self.expr(a)).collect::<Result<_>>()?;
        let (shadows, asts) = both(args);
        let (func, number) = (&c.func, var as u32);
        let args = parens(quote!(#(#shadows),*), c.paren_token.span.join());
        Ok(Code {
            shadow: quote!(#func #args),
            ast: node(e.span(), quote!(CallClosure(#number, &[#(#asts),*]))),
        })
    }

    pub(crate) fn method_call(&mut self, e: &Expr, m: &ExprMethodCall) -> Result<Code> {
        if !(is_query(m) && self.is_named_data(&m.receiver))
            && let Some(call) = self.bundle_call(m)
        {
            return self.call(e, &call);
        }
        if (self.data(&m.receiver).is_some() || (self.is_chain(&m.receiver) && is_query(m)))
            && let Some(var) = self.data_variable(&m.receiver)?
        {
            let lets = self.take_lets();
            let code = self.query(e, m, var)?;
            return Ok(Walker::with_lets(code, &lets, e));
        }
        if let Expr::MethodCall(at) = &*m.receiver
            && at.method == "at"
            && let Some(var) = self.data_variable(&at.receiver)?
        {
            let lets = self.take_lets();
            let code = self.atomic(m, at, var)?;
            return Ok(Walker::with_lets(code, &lets, e));
        }
        let mut args = vec![self.expr(&m.receiver)?];
        for a in &m.args {
            args.push(self.expr(a)?);
        }
        if args.len() > 10 {
            return unsupported(e, "a method inside a kernel takes at most 9 arguments");
        }
        let (shadows, asts) = both(args);
        let name = m.method.to_string();
        let span = m.method.span();
        let beside = self.slot(span);
        let (slot, number) = self.callee(&m.method, |slot| {
            let recorder = own("__recorder", span);
            quote_spanned!(span=> #recorder.method(#slot, &#beside, #name);)
        });
        // The closure gets the receiver and the arguments as parameters, so it captures nothing.
        let users = std::iter::once(&*m.receiver).chain(&m.args);
        let params: Vec<Ident> = users
            .enumerate()
            .map(|(k, user)| param_name(k, user))
            .collect();
        let (receiver, rest) = (&params[0], &params[1..]);
        let (dot, method, turbofish) = (&m.dot_token, &m.method, &m.turbofish);
        let close = m.paren_token.span.join();
        let inner_args = parens(quote!(#(#rest),*), close);
        let closure =
            quote_spanned!(span=> |#(#params),*| #receiver #dot #method #turbofish #inner_args);
        // This trait method is selected if the type has no companion, because it takes one more reference.
        let companion = companion_name(&m.method);
        let asked = quote_spanned! {span=>
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
        };
        let call = helper(
            &format!("method{}", params.len()),
            quote_spanned!(span=> &#slot, &#beside, #(#shadows,)* #closure, #asked),
            e,
        );
        Ok(Code {
            shadow: call,
            ast: node(span, quote!(Method(#number, #name, &[#(#asts),*]))),
        })
    }

    /// `x.shape()` and the like.
    fn query(&mut self, e: &Expr, m: &ExprMethodCall, var: usize) -> Result<Code> {
        let name = m.method.to_string();
        if let Some((_, kind)) = CELLS.iter().find(|c| c.0 == name) {
            return self.cell(e, m, var, kind);
        }
        let Some((_, kind)) = QUERIES.iter().find(|q| q.0 == name) else {
            let hint = if name == "no_activate" {
                "`no_activate(..)` is only allowed on the left of an assignment: `x.no_activate([i, j]) = v`; a read never activates"
                    .to_string()
            } else if name == "at" {
                "`at(..)` is followed by `fetch_add`, `fetch_sub`, `fetch_mul`, `fetch_min`, `fetch_max`, `fetch_and`, \
                 `fetch_or`, `fetch_xor`, `exchange` or `compare_exchange`"
                    .to_string()
            } else {
                format!(
                    "a field or array has no method `{name}` inside a kernel; there are `at`, `shape`, `offset`, `len`, `is_active`, `activate`, `deactivate`, `append`, `length` and `no_activate`"
                )
            };
            return unsupported(&m.method, hint);
        };
        if let Some(a) = m.args.first() {
            return unsupported(a, format!("`{name}` takes no argument inside a kernel"));
        }
        let (data, number) = (self.data_shadow(&m.receiver, var), var as u32);
        let kind = Ident::new(kind, Span::call_site());
        let (first, _) = ends(&m.receiver);
        Ok(Code {
            shadow: helper(&name, quote_spanned!(first=> &#data), e),
            ast: node(m.method.span(), quote!(Query(Query::#kind, #number, None))),
        })
    }

    /// `x.is_active(i)` and the like.
    fn cell(&mut self, e: &Expr, m: &ExprMethodCall, var: usize, kind: &str) -> Result<Code> {
        let name = m.method.to_string();
        let args: Vec<&Expr> = m.args.iter().collect();
        let (index, value) = match args[..] {
            [index] => (index, None),
            [index, value] if name == "append" => (index, Some(value)),
            _ if name == "append" => {
                return unsupported(
                    m,
                    "`append` takes the index of the list and a value: `x.append([i, j], v)`",
                );
            }
            _ => {
                return unsupported(m, format!("`{name}` takes one index: `x.{name}([i, j])`"));
            }
        };
        let base = self.data_code(&m.receiver, var);
        let (index_shadow, index_asts) = self.indices(index)?;
        let value = value.map(|v| self.expr(v)).transpose()?;
        let helper_name = match value {
            Some(_) => "append_value".to_string(),
            None => name,
        };
        let base_shadow = base.shadow;
        let (value_shadow, value_ast) = match value {
            Some(v) => {
                let (shadow, ast) = (v.shadow, v.ast);
                (Some(quote!(, #shadow)), quote!(Some(&#ast)))
            }
            None => (None, quote!(None)),
        };
        let (first, _) = ends(&m.receiver);
        let shadow = helper(
            &helper_name,
            quote_spanned!(first=> &#base_shadow, #index_shadow #value_shadow),
            e,
        );
        let number = var as u32;
        let kind = Ident::new(kind, Span::call_site());
        Ok(Code {
            shadow,
            ast: node(
                m.method.span(),
                quote!(Cell(Cell::#kind, #number, &[#(#index_asts),*], #value_ast)),
            ),
        })
    }

    /// `x.at(i).fetch_add(v)`.
    fn atomic(&mut self, m: &ExprMethodCall, at: &ExprMethodCall, var: usize) -> Result<Code> {
        let name = m.method.to_string();
        let Some((_, kind)) = ATOMICS.iter().find(|a| a.0 == name) else {
            let all: Vec<&str> = ATOMICS.iter().map(|a| a.0).collect();
            return unsupported(
                &m.method,
                format!(
                    "`at(..)` has no method `{name}`; there are {}",
                    all.join(", ")
                ),
            );
        };
        let [index] = at.args.iter().collect::<Vec<_>>()[..] else {
            return unsupported(at, "`at` takes one index: `x.at([i, j])`");
        };
        let base = self.data_code(&at.receiver, var);
        let (index_shadow, index_asts) = self.indices(index)?;
        let args: Vec<Code> = m.args.iter().map(|a| self.expr(a)).collect::<Result<_>>()?;
        let (shadows, asts) = both(args);
        let (base_shadow, base_ast) = (base.shadow, base.ast);
        let (first, _) = ends(&at.receiver);
        let element = helper(
            "at",
            quote_spanned!(first=> &#base_shadow, #index_shadow),
            at,
        );
        let (dot, method) = (&m.dot_token, &m.method);
        let args = parens(quote!(#(#shadows),*), m.paren_token.span.join());
        let kind = Ident::new(kind, Span::call_site());
        let place = node(index.span(), quote!(Index(&#base_ast, &[#(#index_asts),*])));
        Ok(Code {
            shadow: quote!(#element #dot #method #args),
            ast: node(
                m.method.span(),
                quote!(Atomic(Atomic::#kind, &#place, &[#(#asts),*])),
            ),
        })
    }
}

/// Whether it is a method of fields and arrays.
fn is_query(m: &ExprMethodCall) -> bool {
    let name = m.method.to_string();
    let all = QUERIES.iter().chain(CELLS);
    all.into_iter().any(|q| q.0 == name) || name == "at" || name == "no_activate"
}

/// The name of a closure parameter. A plain variable keeps its name, which rustc may mention.
fn param_name(k: usize, user: &Expr) -> Ident {
    let (first, _) = ends(user);
    Ident::new(&format!("__arg{k}"), first)
}
