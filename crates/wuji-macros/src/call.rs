//! Calls of functions, methods and closures, and the operations on fields that look like methods.

use crate::argument::{Argument, Passing, closure_params};
use crate::builtin::{Name, called_name, last_segment};
use crate::place::both;
use crate::scope::{Code, VarKind, Walker, unsupported};
use crate::span::{ends, helper, node, own, parens};
use proc_macro2::{Ident, Span};
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
        let args: Vec<Argument> = c
            .args
            .iter()
            .map(|a| self.argument(a))
            .collect::<Result<_>>()?;
        if args.len() > 12 {
            return unsupported(e, "a function inside a kernel takes at most 12 arguments");
        }
        self.recorded_call(e, c, args)
    }

    /// A call of a function by its path. Functions that are no `#[func]` implement `Fn` and others do not, so the callee is
    /// recorded as a closure around it. The closure captures a function item, which is zero-sized, and so it is zero-sized itself.
    fn recorded_call(&mut self, e: &Expr, c: &ExprCall, args: Vec<Argument>) -> Result<Code> {
        let (func, close) = (&c.func, c.paren_token.span.join());
        let (first, _) = ends(func);
        let named = last_segment(func);
        let closure_slot = self.slot(first);
        let recorder = own("__recorder", first);
        // A callee that takes data is a `#[func]`: data has a type of its own there.
        let takes_data = args.iter().any(|a| matches!(a.passing, Passing::Data));
        let takes_closures = (args.iter()).any(|a| matches!(a.passing, Passing::Closure(_)));
        let count = c.args.len();
        let kind = match called_name(func) {
            Name::Language => "known",
            Name::Constructor => "constructor",
            Name::Other => "own",
        };
        let record = Ident::new(kind, named);
        let (slot, number) = self.callee(func, |slot| {
            if takes_data {
                quote_spanned!(first=> #recorder.call_with_data(#slot, &#closure_slot);)
            } else {
                quote_spanned! {named=>
                    (&&::wuji::__private::asked::<_, #count>(#slot)).#record(#recorder, #slot, &#closure_slot);
                }
            }
        });
        let callee = helper("probe", quote_spanned!(first=> &#slot, #func), func);
        let item = Ident::new("__callee", first);
        let split = takes_closures.then(|| self.split(&args, &c.args));
        let (params, given) = match &split {
            Some(split) => (split.params.clone(), split.passed.clone()),
            None => closure_params(&args, &c.args),
        };
        let inner = parens(quote!(#(#given),*), close);
        let closure = quote_spanned!(first=> move |#(#params),*| #item #inner);
        let closure = helper(
            "probe",
            quote_spanned!(first=> &#closure_slot, #closure),
            func,
        );
        let by_reference = (args.iter()).any(|a| !matches!(a.passing, Passing::Value));
        let (shadows, asts) = both(args.into_iter().map(|a| a.code).collect());
        let args = parens(quote!(#(#shadows),*), close);
        let shadow = if let Some(split) = split {
            // The function that is recorded takes function pointers, so it is another instance.
            let result = own("__result", first);
            let given = split.given;
            let args = parens(quote!(#(#given),*), close);
            let body = quote_spanned! {first=> {
                let #result = #func #args;
                if false {
                    let #item = #callee;
                    let _ = #closure;
                }
                #result
            }};
            parens(body, first)
        } else if by_reference {
            // The closure takes values: what it changes is its own copy.
            let body =
                quote_spanned!(first=> { let #item = #callee; let _ = #closure; #item #args });
            parens(body, first)
        } else {
            let callable = parens(
                quote_spanned!(first=> { let #item = #callee; #closure }),
                first,
            );
            quote!(#callable #args)
        };
        Ok(Code {
            shadow,
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
        if (is_query(m) || !self.is_member(&m.receiver))
            && (self.data(&m.receiver).is_some() || self.is_chain(&m.receiver))
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
        self.value_method(e, m)
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
