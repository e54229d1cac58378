//! Arguments of calls, by value and by reference.

use crate::closure::Pinned;
use crate::place::Change;
use crate::scope::{Code, VarKind, Walker, unsupported};
use crate::span::{ends, group, helper};
use proc_macro2::{Delimiter, Ident, TokenStream};
use quote::quote_spanned;
use syn::{Expr, Result};

pub(crate) enum Passing {
    Value,
    /// `&v`
    Shared,
    /// `&mut v`
    Exclusive,
    /// A field or array.
    Data,
    Closure(Pinned),
}

pub(crate) struct Argument {
    pub(crate) passing: Passing,
    pub(crate) code: Code,
}

impl Argument {
    /// The argument, with the type of its value bound to a slot.
    pub(crate) fn pinned(&self, slot: &Ident, user: &Expr) -> TokenStream {
        let shadow = &self.code.shadow;
        let (first, _) = ends(user);
        let name = match self.passing {
            Passing::Value | Passing::Data | Passing::Closure(_) => "probe",
            Passing::Shared => "probe_shared",
            Passing::Exclusive => "probe_exclusive",
        };
        helper(name, quote_spanned!(first=> &#slot, #shadow), user)
    }
}

impl Walker {
    pub(crate) fn argument(&mut self, e: &Expr) -> Result<Argument> {
        if let Some(Code { shadow, ast }) = self.data_argument(e)? {
            let shadow = self.lent(e, shadow);
            return Ok(Argument {
                passing: Passing::Data,
                code: Code { shadow, ast },
            });
        }
        if let Some(closure) = self.closure_argument(e)? {
            return Ok(closure);
        }
        let Expr::Reference(r) = e else {
            if let Some(var) = self.exclusive_reference(e) {
                return self.passed_on(e, var);
            }
            return Ok(Argument {
                passing: Passing::Value,
                code: self.expr(e)?,
            });
        };
        if self.data(&r.expr).is_some() {
            return unsupported(
                r,
                "fields and arrays are references already\nhelp: leave out the `&`",
            );
        }
        let and = &r.and_token;
        let (passing, code) = match &r.mutability {
            Some(_) => (Passing::Exclusive, self.place(&r.expr, Change::Replace)?),
            None => (Passing::Shared, self.expr(&r.expr)?),
        };
        let (mutability, shadow) = (&r.mutability, code.shadow);
        Ok(Argument {
            passing,
            code: Code {
                shadow: quote_spanned!(and.span=> #and #mutability #shadow),
                ast: code.ast,
            },
        })
    }

    /// Data as an argument. What is behind `&mut` can become a shared reference, which rustc does where it knows the type.
    fn lent(&self, e: &Expr, shadow: TokenStream) -> TokenStream {
        let exclusive = VarKind::Data { exclusive: true };
        if !(self.data(e)).is_some_and(|v| self.vars[v].kind == exclusive) {
            return helper("lend", shadow, e);
        }
        let (first, last) = ends(e);
        let data = quote_spanned!(first=> data: #shadow, never_run: ());
        let data = group(Delimiter::Brace, data, last);
        quote_spanned!(first=> ::wuji::__private::OnlyInKernels::Data #data)
    }

    /// A `&mut` parameter that is passed on: borrowed again, as rustc does it.
    fn passed_on(&mut self, e: &Expr, var: usize) -> Result<Argument> {
        let (first, _) = ends(e);
        let number = var as u32;
        Ok(Argument {
            passing: Passing::Exclusive,
            code: Code {
                shadow: quote_spanned!(first=> &mut *#e),
                ast: crate::span::node(first, quote_spanned!(first=> Var(#number))),
            },
        })
    }
}

/// The parameters of a closure that takes all arguments by value, and the arguments that it passes on.
pub(crate) fn closure_params<'e>(
    args: &[Argument],
    users: impl IntoIterator<Item = &'e Expr>,
) -> (Vec<TokenStream>, Vec<TokenStream>) {
    let users = args.iter().zip(users).enumerate();
    users
        .map(|(k, (arg, user))| {
            let (first, _) = ends(user);
            let name = Ident::new(&format!("__arg{k}"), first);
            let given = match arg.passing {
                Passing::Value | Passing::Data | Passing::Closure(_) => {
                    quote_spanned!(first=> #name)
                }
                Passing::Shared => quote_spanned!(first=> &#name),
                Passing::Exclusive => {
                    return (
                        quote_spanned!(first=> mut #name),
                        quote_spanned!(first=> &mut #name),
                    );
                }
            };
            (quote_spanned!(first=> #name), given)
        })
        .unzip()
}
