//! Elements, components and assignments.

use crate::expr::binary_op;
use crate::pattern::member;
use crate::scope::{Code, VarKind, Walker, unsupported};
use crate::span::{ends, helper, node, parens};
use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::{
    BinOp, Expr, ExprAssign, ExprBinary, ExprField, ExprIndex, ExprMethodCall, Result, UnOp,
    spanned::Spanned,
};

/// How an assignment changes a place.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    Replace,
    /// By an operator; whether many iterations can apply it concurrently.
    Update {
        atomic: bool,
    },
}

impl Walker {
    /// The indices between brackets: a tuple for `[i, j]`, anything else unchanged.
    pub(crate) fn indices(&mut self, e: &Expr) -> Result<(TokenStream, Vec<TokenStream>)> {
        if let Expr::Array(a) = e {
            let parts: Vec<Code> = a
                .elems
                .iter()
                .map(|x| self.expr(x))
                .collect::<Result<_>>()?;
            let shadows = parts.iter().map(|p| &p.shadow);
            let tuple = parens(quote!(#(#shadows,)*), a.bracket_token.span.join());
            return Ok((tuple, parts.into_iter().map(|p| p.ast).collect()));
        }
        let code = self.expr(e)?;
        Ok((code.shadow, vec![code.ast]))
    }

    /// `x[i]` that is read.
    pub(crate) fn index(&mut self, e: &ExprIndex) -> Result<Code> {
        if self.is_part(e) {
            return self.chain_value(&Expr::Index(e.clone()));
        }
        let data = self.data(&e.expr);
        let base = match data {
            Some(var) => self.data_code(&e.expr, var),
            None => self.expr(&e.expr)?,
        };
        let name = if data.is_some() { "elem" } else { "index" };
        self.indexed(e, base, name, false)
    }

    fn indexed(&mut self, e: &ExprIndex, base: Code, name: &str, exclusive: bool) -> Result<Code> {
        let (index, asts) = self.indices(&e.index)?;
        let (first, last) = ends(e);
        let (from, to) = ends(&e.expr);
        let shadow = base.shadow;
        let mutability = exclusive.then(|| quote_spanned!(to=> mut));
        let call = helper(
            name,
            quote_spanned!(from=> & #mutability #shadow, #index),
            e,
        );
        let base = base.ast;
        let deref = quote_spanned!(first=> *#call);
        Ok(Code {
            shadow: parens(deref, join(first, last)),
            // An index that is out of range is reported there.
            ast: node(e.index.span(), quote!(Index(&#base, &[#(#asts),*]))),
        })
    }

    /// The code of a data variable.
    pub(crate) fn data_code(&self, e: &Expr, var: usize) -> Code {
        let number = var as u32;
        Code {
            shadow: self.data_shadow(e, var),
            ast: node(e.span(), quote!(Var(#number))),
        }
    }

    /// `a.b` that is read.
    pub(crate) fn field(&mut self, e: &ExprField) -> Result<Code> {
        let whole = Expr::Field(e.clone());
        if self.is_chain(&whole) {
            return self.chain_value(&whole);
        }
        if let Some(var) = self.data(&e.base) {
            let name = &self.vars[var].name;
            return unsupported(
                e,
                format!(
                    "`{name}` is a whole field or array; its elements are `{name}[..]`\n\
                     help: values are passed without `&`"
                ),
            );
        }
        let base = self.expr(&e.base)?;
        Ok(member_of(e, base))
    }

    /// The left side of an assignment.
    pub(crate) fn place(&mut self, e: &Expr, change: Change) -> Result<Code> {
        match e {
            Expr::Paren(p) => self.place(&p.expr, change),
            Expr::Group(g) => self.place(&g.expr, change),
            Expr::Unary(u) if matches!(u.op, UnOp::Deref(_)) && self.is_reference(&u.expr) => {
                self.place(&u.expr, change)
            }
            Expr::Path(_) => match self.variable(e) {
                Some(var) => {
                    let reduces = change == Change::Update { atomic: true };
                    self.writes(var, e.span(), reduces)?;
                    let number = var as u32;
                    Ok(Code {
                        shadow: self.value_of(var, e),
                        ast: node(e.span(), quote!(Var(#number))),
                    })
                }
                None => unsupported(e, "only variables and elements can be assigned to"),
            },
            Expr::Index(ix) if self.is_part(ix) => {
                self.no_plain_update(e, change)?;
                self.part(ix, true)
            }
            Expr::Index(ix) => match self.data(&ix.expr) {
                Some(var) => {
                    self.no_plain_update(e, change)?;
                    let base = self.data_code(&ix.expr, var);
                    self.indexed(ix, base, "place", false)
                }
                None => {
                    let base = self.place(&ix.expr, change)?;
                    self.indexed(ix, base, "index_mut", true)
                }
            },
            Expr::Field(f) => {
                self.no_member_change(e)?;
                let base = self.place(&f.base, change)?;
                Ok(member_of(f, base))
            }
            Expr::MethodCall(m) if m.method == "no_activate" => self.existing(e, m, change),
            Expr::Tuple(t) if change == Change::Replace => {
                let parts: Vec<Code> = t
                    .elems
                    .iter()
                    .map(|x| self.place(x, change))
                    .collect::<Result<_>>()?;
                let (shadows, asts) = both(parts);
                Ok(Code {
                    shadow: parens(quote!(#(#shadows,)*), t.paren_token.span.join()),
                    ast: node(e.span(), quote!(Tuple(&[#(#asts),*]))),
                })
            }
            _ => unsupported(e, "this cannot be assigned to inside a kernel"),
        }
    }

    /// `x.no_activate(i)`
    fn existing(&mut self, e: &Expr, m: &ExprMethodCall, change: Change) -> Result<Code> {
        if change == (Change::Update { atomic: false }) {
            return unsupported(
                e,
                "this operator cannot update an element that other iterations may change at the same time",
            );
        }
        let [index] = m.args.iter().collect::<Vec<_>>()[..] else {
            return unsupported(
                m,
                "`no_activate` takes one index: `x.no_activate([i, j]) = v`",
            );
        };
        let base = match self.data(&m.receiver) {
            Some(var) => self.data_code(&m.receiver, var),
            None if self.is_chain(&m.receiver) => self.borrowed_chain(&m.receiver)?,
            None => return unsupported(m, "only fields have inactive elements"),
        };
        let index_at = index.span();
        let (index, asts) = self.indices(index)?;
        let (first, last) = ends(e);
        let (from, _) = ends(&m.receiver);
        let (shadow, base) = (base.shadow, base.ast);
        let call = helper("existing", quote_spanned!(from=> & #shadow, #index), e);
        let deref = quote_spanned!(first=> *#call);
        Ok(Code {
            shadow: parens(deref, join(first, last)),
            ast: node(index_at, quote!(Existing(&#base, &[#(#asts),*]))),
        })
    }

    /// `s = s.max(v)` and `s = min(s, v)` of a variable that the iterations of a parallel loop share.
    fn assign_extreme(&mut self, e: &ExprAssign) -> Result<Option<Code>> {
        let Some(var) = self.variable(&e.left) else {
            return Ok(None);
        };
        if !self.is_shared(var) {
            return Ok(None);
        }
        let same = |w: &Walker, x: &Expr| w.variable(x) == Some(var);
        let found = match &*e.right {
            Expr::MethodCall(m) if m.args.len() == 1 => {
                let value = match (same(self, &m.receiver), same(self, &m.args[0])) {
                    (true, false) => Some(&m.args[0]),
                    (false, true) => Some(&*m.receiver),
                    _ => None,
                };
                value.map(|v| (m.method.to_string(), v))
            }
            Expr::Call(c) if c.args.len() == 2 => {
                let name = ["min", "max"]
                    .into_iter()
                    .find(|n| crate::expr::ends_in(&c.func, n));
                let value = match (same(self, &c.args[0]), same(self, &c.args[1])) {
                    (true, false) => Some(&c.args[1]),
                    (false, true) => Some(&c.args[0]),
                    _ => None,
                };
                name.zip(value).map(|(n, v)| (n.to_string(), v))
            }
            _ => None,
        };
        let kind = match &found {
            Some((name, _)) if name == "max" => quote!(Max),
            Some((name, _)) if name == "min" => quote!(Min),
            _ => return Ok(None),
        };
        let Some((_, value)) = found else {
            return Ok(None);
        };
        let value = self.expr(value)?;
        let left = self.place(&e.left, Change::Update { atomic: true })?;
        // rustc sees the user's code; walking it again would record its slots twice.
        let (l, eq, shadow) = (left.shadow, &e.eq_token, value.shadow);
        let right = match &*e.right {
            Expr::MethodCall(m) => {
                let (receiver, dot, method) = (&m.receiver, &m.dot_token, &m.method);
                let close = m.paren_token.span.join();
                if self.variable(receiver) == Some(var) {
                    let args = parens(shadow, close);
                    quote!(#receiver #dot #method #args)
                } else {
                    let args = parens(m.args.to_token_stream(), close);
                    quote!(#shadow #dot #method #args)
                }
            }
            Expr::Call(c) => {
                let (func, first) = (&c.func, &c.args[0]);
                let shared_first = self.variable(first) == Some(var);
                let other = if shared_first { first } else { &c.args[1] };
                let inner = if shared_first {
                    quote!(#other, #shadow)
                } else {
                    quote!(#shadow, #other)
                };
                let args = parens(inner, c.paren_token.span.join());
                quote!(#func #args)
            }
            _ => return Ok(None),
        };
        let (la, ra) = (left.ast, value.ast);
        Ok(Some(Code {
            shadow: quote!(#l #eq #right),
            ast: node(
                e.eq_token.span(),
                quote!(AssignExtreme(Atomic::#kind, &#la, &#ra)),
            ),
        }))
    }

    /// Refuses `v = ..` for a reference `v`.
    fn not_a_reference(&self, left: &Expr) -> Result<()> {
        match self.variable(left) {
            Some(var) if self.vars[var].reference => {
                let name = &self.vars[var].name;
                unsupported(
                    left,
                    format!(
                        "`{name}` is a reference, which cannot be replaced inside a kernel\nhelp: assign to what it refers to: `*{name}`"
                    ),
                )
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn assign(&mut self, e: &ExprAssign) -> Result<Code> {
        self.not_a_reference(&e.left)?;
        if let Some(code) = self.assign_extreme(e)? {
            return Ok(code);
        }
        let right = self.expr(&e.right)?;
        if let Expr::Infer(_) = &*e.left {
            let (left, eq, shadow, ast) = (&e.left, &e.eq_token, right.shadow, right.ast);
            return Ok(Code {
                shadow: quote!(#left #eq #shadow),
                ast: node(e.span(), quote!(Let(Pat::Wild, Some(&#ast)))),
            });
        }
        let left = self.place(&e.left, Change::Replace)?;
        let (l, r, eq) = (left.shadow, right.shadow, &e.eq_token);
        let (la, ra) = (left.ast, right.ast);
        Ok(Code {
            shadow: quote!(#l #eq #r),
            ast: node(e.eq_token.span(), quote!(Assign(&#la, &#ra))),
        })
    }

    pub(crate) fn assign_op(&mut self, e: &ExprBinary) -> Result<Code> {
        let atomic = matches!(
            e.op,
            BinOp::AddAssign(_)
                | BinOp::SubAssign(_)
                | BinOp::MulAssign(_)
                | BinOp::BitAndAssign(_)
                | BinOp::BitOrAssign(_)
                | BinOp::BitXorAssign(_)
        );
        self.not_a_reference(&e.left)?;
        if let Some(code) = self.own_assign(e, atomic)? {
            return Ok(code);
        }
        let left = self.place(&e.left, Change::Update { atomic })?;
        let right = self.expr(&e.right)?;
        let (l, r, op) = (left.shadow, right.shadow, &e.op);
        let (la, ra) = (left.ast, right.ast);
        let name = binary_op(&e.op);
        Ok(Code {
            shadow: quote!(#l #op #r),
            ast: node(e.op.span(), quote!(AssignOp(Binary::#name, &#la, &#ra))),
        })
    }

    /// Whether it is indexed where a bundle begins.
    fn is_part(&self, e: &ExprIndex) -> bool {
        self.is_chain(&e.expr) || self.is_chain(&Expr::Index(e.clone()))
    }

    /// Rejects an update that is not atomic.
    fn no_plain_update(&self, e: &Expr, change: Change) -> Result<()> {
        if change == (Change::Update { atomic: false }) {
            return unsupported(
                e,
                "this operator cannot update an element that other iterations may change at the same time\n\
                 help: write `x[i] = x[i] / v` if no other iteration does",
            );
        }
        Ok(())
    }

    /// Rejects a field or array where a value is needed.
    pub(crate) fn no_data(&self, e: &Expr, var: usize) -> Result<()> {
        let name = &self.vars[var].name;
        match self.vars[var].kind {
            VarKind::Value => Ok(()),
            VarKind::Data { .. } => unsupported(
                e,
                format!(
                    "`{name}` is a whole field or array: it can be indexed, looped over and passed to a `#[func]`"
                ),
            ),
            VarKind::Closure => unsupported(
                e,
                format!("the closure `{name}` can only be called, or passed to a `#[func]`"),
            ),
        }
    }
}

fn member_of(e: &ExprField, base: Code) -> Code {
    let (dot, m, shadow) = (&e.dot_token, &e.member, base.shadow);
    let (name, base) = (member(m), base.ast);
    Code {
        shadow: quote!(#shadow #dot #m),
        ast: node(m.span(), quote!(Field(&#base, #name))),
    }
}

pub(crate) fn both(codes: Vec<Code>) -> (Vec<TokenStream>, Vec<TokenStream>) {
    codes.into_iter().map(|c| (c.shadow, c.ast)).unzip()
}

fn join(first: proc_macro2::Span, last: proc_macro2::Span) -> proc_macro2::Span {
    first.join(last).unwrap_or(first)
}
