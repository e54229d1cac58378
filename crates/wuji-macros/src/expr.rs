//! Expressions and statements.

use crate::closure::strip;
use crate::matching::is_variant;
use crate::pattern::member;
use crate::place::both;
use crate::scope::{Code, Walker, unsupported};
use crate::span::{group, node, parens};
use proc_macro2::{Delimiter, Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use syn::{
    BinOp, Block, Expr, ExprArray, ExprBinary, ExprCast, ExprLit, ExprPath, ExprRepeat, ExprStruct,
    ExprTuple, ExprUnary, Lit, Local, Result, Stmt, Token, UnOp, punctuated::Punctuated,
    spanned::Spanned,
};

/// The name of an operator in the static data; assignments use that of their operator.
pub(crate) fn binary_op(op: &BinOp) -> Ident {
    let name = match op {
        BinOp::Add(_) | BinOp::AddAssign(_) => "Add",
        BinOp::Sub(_) | BinOp::SubAssign(_) => "Sub",
        BinOp::Mul(_) | BinOp::MulAssign(_) => "Mul",
        BinOp::Div(_) | BinOp::DivAssign(_) => "Div",
        BinOp::Rem(_) | BinOp::RemAssign(_) => "Rem",
        BinOp::BitAnd(_) | BinOp::BitAndAssign(_) => "BitAnd",
        BinOp::BitOr(_) | BinOp::BitOrAssign(_) => "BitOr",
        BinOp::BitXor(_) | BinOp::BitXorAssign(_) => "BitXor",
        BinOp::Shl(_) | BinOp::ShlAssign(_) => "Shl",
        BinOp::Shr(_) | BinOp::ShrAssign(_) => "Shr",
        BinOp::Eq(_) => "Eq",
        BinOp::Ne(_) => "Ne",
        BinOp::Lt(_) => "Lt",
        BinOp::Le(_) => "Le",
        BinOp::Gt(_) => "Gt",
        BinOp::Ge(_) => "Ge",
        _ => "And",
    };
    Ident::new(name, Span::call_site())
}

fn is_assignment(op: &BinOp) -> bool {
    matches!(
        op,
        BinOp::AddAssign(_)
            | BinOp::SubAssign(_)
            | BinOp::MulAssign(_)
            | BinOp::DivAssign(_)
            | BinOp::RemAssign(_)
            | BinOp::BitAndAssign(_)
            | BinOp::BitOrAssign(_)
            | BinOp::BitXorAssign(_)
            | BinOp::ShlAssign(_)
            | BinOp::ShrAssign(_)
    )
}

impl Walker {
    pub(crate) fn expr(&mut self, e: &Expr) -> Result<Code> {
        let span = e.span();
        Ok(match e {
            Expr::Lit(l) => self.literal(l, None)?,
            // `let g = &self.gravity` of a `Param`, whose value is meant.
            Expr::Path(_) if self.is_named_member(e) => self.chain_value(e)?,
            Expr::Path(p) => self.path_expr(e, p)?,
            Expr::Paren(p) => {
                let inner = self.expr(&p.expr)?;
                Code {
                    shadow: parens(inner.shadow, p.paren_token.span.join()),
                    ast: inner.ast,
                }
            }
            Expr::Group(g) => {
                let inner = self.expr(&g.expr)?;
                Code {
                    shadow: group(Delimiter::None, inner.shadow, span),
                    ast: inner.ast,
                }
            }
            Expr::Unary(u) => self.unary_expr(e, u)?,
            Expr::Binary(b) if is_assignment(&b.op) => self.assign_op(b)?,
            Expr::Binary(b) => self.binary_expr(b)?,
            Expr::Assign(a) => self.assign(a)?,
            Expr::Cast(c) => self.cast_expr(e, c)?,
            Expr::Tuple(t) => self.tuple_expr(t)?,
            Expr::Array(a) => self.array_expr(a)?,
            Expr::Repeat(r) => self.repeat_expr(r)?,
            Expr::Struct(s) => self.struct_literal(e, s)?,
            Expr::Field(f) => self.field(f)?,
            Expr::Index(ix) => self.index(ix)?,
            Expr::Call(c) => self.call(e, c)?,
            Expr::MethodCall(m) => self.method_call(e, m)?,
            Expr::Block(b) => self.block_expr(b)?,
            Expr::If(i) => self.if_expr(i)?,
            Expr::Match(m) => self.match_expr(m)?,
            Expr::While(w) => self.while_loop(w)?,
            Expr::Loop(l) => self.endless_loop(l)?,
            Expr::ForLoop(f) => self.for_loop(f, false)?,
            Expr::Break(b) => self.break_expr(b)?,
            Expr::Continue(c) => self.continue_expr(c)?,
            Expr::Return(r) => self.return_expr(r)?,
            Expr::Macro(m) => self.macro_call(&m.mac)?,
            Expr::Try(t) => self.try_expr(t)?,
            other => return unsupported(other, refusal(other)),
        })
    }

    fn path_expr(&mut self, e: &Expr, p: &ExprPath) -> Result<Code> {
        let span = e.span();
        if let Some(var) = self.variable(e) {
            self.no_data(e, var)?;
            self.reads(var, span);
            let number = var as u32;
            return Ok(Code {
                shadow: self.value_of(var, e),
                ast: node(span, quote!(Var(#number))),
            });
        }
        let variant = p.path.segments.last().is_some_and(|s| is_variant(&s.ident));
        let (shadow, number) = if variant {
            self.typed_constant(p)
        } else {
            (quote!(#p), self.constant(p))
        };
        Ok(Code {
            shadow,
            ast: node(span, quote!(Const(#number))),
        })
    }

    fn unary_expr(&mut self, e: &Expr, u: &ExprUnary) -> Result<Code> {
        Ok(match (&u.op, &*u.expr) {
            (UnOp::Neg(minus), Expr::Lit(l)) => self.literal(l, Some(minus))?,
            (UnOp::Neg(_), inner) => self.unary(e, &u.op, inner, "Neg")?,
            (UnOp::Not(_), inner) => self.unary(e, &u.op, inner, "Not")?,
            // `*self` of a method that takes `&self`.
            (UnOp::Deref(_), inner) if self.is_reference(inner) || self.is_named_member(inner) => {
                self.expr(inner)?
            }
            (UnOp::Deref(star), inner) => {
                let inner = self.expr(inner)?;
                let shadow = inner.shadow;
                Code {
                    shadow: quote!(#star #shadow),
                    ast: inner.ast,
                }
            }
            _ => return unsupported(e, "this operator is not supported inside a kernel"),
        })
    }

    fn binary_expr(&mut self, b: &ExprBinary) -> Result<Code> {
        if let Some(code) = self.own_binary(b)? {
            return Ok(code);
        }
        let (l, r) = (self.expr(&b.left)?, self.expr(&b.right)?);
        let (op, ls, rs) = (&b.op, l.shadow, r.shadow);
        let (la, ra) = (l.ast, r.ast);
        let kind = match op {
            BinOp::And(_) => quote!(And(&#la, &#ra)),
            BinOp::Or(_) => quote!(Or(&#la, &#ra)),
            _ => {
                let name = binary_op(op);
                quote!(Binary(Binary::#name, &#la, &#ra))
            }
        };
        Ok(Code {
            shadow: quote!(#ls #op #rs),
            ast: node(op.span(), kind),
        })
    }

    fn cast_expr(&mut self, e: &Expr, c: &ExprCast) -> Result<Code> {
        let inner = self.expr(&c.expr)?;
        let (shadow, keyword, ty) = (inner.shadow, &c.as_token, &c.ty);
        let (shadow, number) = self.probe(e, quote!(#shadow #keyword #ty));
        let ast = inner.ast;
        Ok(Code {
            shadow,
            ast: node(keyword.span(), quote!(Cast(&#ast, #number))),
        })
    }

    fn each_expr(&mut self, elems: &Punctuated<Expr, Token![,]>) -> Result<Vec<Code>> {
        elems.iter().map(|x| self.expr(x)).collect()
    }

    fn tuple_expr(&mut self, t: &ExprTuple) -> Result<Code> {
        let (shadows, asts) = both(self.each_expr(&t.elems)?);
        let inner = if shadows.is_empty() {
            quote!()
        } else {
            quote!(#(#shadows,)*)
        };
        Ok(Code {
            shadow: parens(inner, t.paren_token.span.join()),
            ast: node(t.span(), quote!(Tuple(&[#(#asts),*]))),
        })
    }

    fn array_expr(&mut self, a: &ExprArray) -> Result<Code> {
        let parts = self.each_expr(&a.elems)?;
        if parts.is_empty() {
            return unsupported(a, "an array of a kernel has at least one element");
        }
        let (shadows, asts) = both(parts);
        let span = a.bracket_token.span.join();
        Ok(Code {
            shadow: group(Delimiter::Bracket, quote!(#(#shadows),*), span),
            ast: node(a.span(), quote!(Array(&[#(#asts),*]))),
        })
    }

    fn repeat_expr(&mut self, r: &ExprRepeat) -> Result<Code> {
        let value = self.expr(&r.expr)?;
        // The length is a constant, and unchanged for rustc.
        let len = self.length(&r.len)?;
        let (shadow, semi, n) = (value.shadow, &r.semi_token, &r.len);
        let value = value.ast;
        let span = r.bracket_token.span.join();
        Ok(Code {
            shadow: group(Delimiter::Bracket, quote!(#shadow #semi #n), span),
            ast: node(r.span(), quote!(Repeat(&#value, &#len))),
        })
    }

    fn unary(&mut self, e: &Expr, op: &UnOp, inner: &Expr, name: &str) -> Result<Code> {
        if let Some(code) = self.own_unary(e, op, inner, name)? {
            return Ok(code);
        }
        let inner = self.expr(inner)?;
        let (shadow, ast) = (inner.shadow, inner.ast);
        let name = Ident::new(name, Span::call_site());
        Ok(Code {
            shadow: quote!(#op #shadow),
            ast: node(e.span(), quote!(Unary(Unary::#name, &#ast))),
        })
    }

    /// A number or boolean with its sign: `-128` must be one literal, because `128` would not fit.
    fn literal(&mut self, l: &ExprLit, minus: Option<&syn::Token![-]>) -> Result<Code> {
        let span = l.span();
        let user = quote!(#minus #l);
        let sign = if minus.is_some() { "-" } else { "" };
        match &l.lit {
            Lit::Bool(b) if minus.is_none() => {
                let value = b.value;
                Ok(Code {
                    shadow: user,
                    ast: node(span, quote!(Bool(#value))),
                })
            }
            Lit::Int(i) => {
                let digits = format!("{sign}{}", i.base10_digits());
                let float = matches!(i.suffix(), "f32" | "f64");
                let (shadow, ty) = self.probe(&user, user.clone());
                let kind = if float {
                    quote!(Float(#digits, #ty))
                } else {
                    quote!(Int(#digits, #ty))
                };
                Ok(Code {
                    shadow,
                    ast: node(span, kind),
                })
            }
            Lit::Float(f) => {
                let digits = format!("{sign}{}", f.base10_digits());
                let (shadow, ty) = self.probe(&user, user.clone());
                Ok(Code {
                    shadow,
                    ast: node(span, quote!(Float(#digits, #ty))),
                })
            }
            Lit::Str(_) | Lit::ByteStr(_) | Lit::CStr(_) | Lit::Char(_) => unsupported(
                l,
                "kernels have no strings; use `print!` or the message of `assert!`",
            ),
            _ => unsupported(l, "this literal is not supported inside a kernel"),
        }
    }

    /// A length of an array: numbers, constants and arithmetic on them.
    fn length(&mut self, e: &Expr) -> Result<TokenStream> {
        match e {
            Expr::Lit(ExprLit {
                lit: Lit::Int(i), ..
            }) => {
                let digits = i.base10_digits();
                let read = quote!(__recorder.ty_of::<usize>(););
                let ty = self.written_type(read);
                Ok(node(e.span(), quote!(Int(#digits, #ty))))
            }
            Expr::Paren(p) => self.length(&p.expr),
            Expr::Group(g) => self.length(&g.expr),
            Expr::Block(b) if b.label.is_none() => match b.block.stmts.as_slice() {
                [Stmt::Expr(inner, None)] => self.length(inner),
                _ => unsupported(e, "the length of an array is a constant"),
            },
            Expr::Path(p) if self.variable(e).is_none() => {
                let number = self.constant(p);
                Ok(node(e.span(), quote!(Const(#number))))
            }
            Expr::Binary(b) if !is_assignment(&b.op) => {
                let (l, r) = (self.length(&b.left)?, self.length(&b.right)?);
                let name = binary_op(&b.op);
                Ok(node(b.op.span(), quote!(Binary(Binary::#name, &#l, &#r))))
            }
            _ => unsupported(e, "the length of an array is a constant"),
        }
    }

    fn struct_literal(&mut self, e: &Expr, s: &ExprStruct) -> Result<Code> {
        let mut shadows = Vec::new();
        let mut asts = Vec::new();
        for f in &s.fields {
            let value = self.expr(&f.expr)?;
            let (m, shadow, ast) = (&f.member, value.shadow, value.ast);
            let name = member(m);
            shadows.push(quote!(#m: #shadow));
            asts.push(quote!((#name, #ast)));
        }
        let (rest_shadow, rest_ast) = match &s.rest {
            Some(rest) => {
                let code = self.expr(rest)?;
                let (dots, shadow, ast) = (&s.dot2_token, code.shadow, code.ast);
                (quote!(#dots #shadow), quote!(Some(&#ast)))
            }
            None if s.dot2_token.is_some() => {
                return unsupported(s, "this struct literal is not supported inside a kernel");
            }
            None => (quote!(), quote!(None)),
        };
        let path = &s.path;
        let name = path
            .segments
            .last()
            .map(|s| s.ident.to_string())
            .unwrap_or_default();
        let braces = group(
            Delimiter::Brace,
            quote!(#(#shadows,)* #rest_shadow),
            s.brace_token.span.join(),
        );
        let (shadow, ty) = self.probe(e, quote!(#path #braces));
        Ok(Code {
            shadow,
            ast: node(
                e.span(),
                quote!(Struct(#ty, #name, &[#(#asts),*], #rest_ast)),
            ),
        })
    }

    /// The statements of a block and its value, as the shadow of the block and the fields of an `ast::Block`.
    pub(crate) fn statements(
        &mut self,
        b: &Block,
        top: bool,
    ) -> Result<(TokenStream, TokenStream)> {
        self.scoped(|w| {
            let mut shadows = Vec::new();
            let mut asts = Vec::new();
            let mut value = quote!(None);
            for (k, s) in b.stmts.iter().enumerate() {
                let last = k + 1 == b.stmts.len();
                let (code, is_value) = w.statement(s, last, top)?;
                shadows.push(code.shadow);
                if is_value {
                    let ast = code.ast;
                    value = quote!(Some(&#ast));
                } else {
                    asts.push(code.ast);
                }
            }
            let braces = group(
                Delimiter::Brace,
                quote!(#(#shadows)*),
                b.brace_token.span.join(),
            );
            Ok((braces, quote!(statements: &[#(#asts),*], value: #value)))
        })
    }

    /// A block that is not a loop body and has no label.
    pub(crate) fn block(&mut self, b: &Block, top: bool) -> Result<Code> {
        let (shadow, fields) = self.statements(b, top)?;
        Ok(Code {
            shadow,
            ast: node(b.span(), quote!(Block(Block { label: None, #fields }))),
        })
    }

    /// One statement, and whether it is the value of its block.
    fn statement(&mut self, s: &Stmt, last: bool, top: bool) -> Result<(Code, bool)> {
        match s {
            Stmt::Local(l) => Ok((self.local(l)?, false)),
            Stmt::Expr(Expr::ForLoop(f), semi) if top => {
                let code = self.for_loop(f, true)?;
                let shadow = code.shadow;
                Ok((
                    Code {
                        shadow: quote!(#shadow #semi),
                        ast: code.ast,
                    },
                    false,
                ))
            }
            Stmt::Expr(e, semi) => {
                let code = self.expr(e)?;
                let shadow = code.shadow;
                let is_value = last && semi.is_none();
                Ok((
                    Code {
                        shadow: quote!(#shadow #semi),
                        ast: code.ast,
                    },
                    is_value,
                ))
            }
            Stmt::Macro(m) => {
                let code = self.macro_call(&m.mac)?;
                let (shadow, semi) = (code.shadow, &m.semi_token);
                Ok((
                    Code {
                        shadow: quote!(#shadow #semi),
                        ast: code.ast,
                    },
                    last && semi.is_none(),
                ))
            }
            Stmt::Item(i) => {
                self.item(i)?;
                Ok((
                    Code {
                        shadow: TokenStream::new(),
                        ast: node(i.span(), quote!(Tuple(&[]))),
                    },
                    false,
                ))
            }
        }
    }

    fn local(&mut self, l: &Local) -> Result<Code> {
        let (keyword, pat, semi) = (&l.let_token, &l.pat, &l.semi_token);
        let Some(init) = &l.init else {
            let ast = self.pattern(pat)?;
            return Ok(Code {
                shadow: quote!(#keyword #pat #semi),
                ast: node(l.span(), quote!(Let(#ast, None))),
            });
        };
        if let Some((_, other)) = &init.diverge {
            return self.let_else(l, &init.expr, other);
        }
        let eq = &init.eq_token;
        if let Expr::Closure(c) = &*init.expr {
            return self.let_closure(l, c);
        }
        if let Some(Code { shadow, ast }) = self.let_data(strip(pat), &init.expr)? {
            let shadow = quote!(#keyword #pat #eq #shadow #semi);
            return Ok(Code { shadow, ast });
        }
        if let Expr::Reference(r) = &*init.expr {
            return self.let_reference(l, r);
        }
        let value = self.expr(&init.expr)?;
        let mut plain = Vec::new();
        self.plain_names(pat, &init.expr, &mut plain);
        let ast = self.pattern(pat)?;
        plain.into_iter().for_each(|p| self.mark_names(p));
        let (shadow, value) = (value.shadow, value.ast);
        Ok(Code {
            shadow: quote!(#keyword #pat #eq #shadow #semi),
            ast: node(l.span(), quote!(Let(#ast, Some(&#value)))),
        })
    }
}

/// Whether a path ends in this name.
pub(crate) fn ends_in(e: &Expr, name: &str) -> bool {
    match e {
        Expr::Path(p) => p.path.segments.last().is_some_and(|s| s.ident == name),
        Expr::Paren(p) => ends_in(&p.expr, name),
        _ => false,
    }
}

/// The text of a piece of code, for messages.
pub(crate) fn source(code: &impl ToTokens) -> String {
    let span = code.span();
    span.source_text()
        .filter(|s| !s.is_empty() && !matches!(code.to_token_stream().into_iter().count(), 0))
        .unwrap_or_else(|| code.to_token_stream().to_string())
}

/// Why kernels do not have an expression.
fn refusal(e: &Expr) -> &'static str {
    match e {
        Expr::Const(_) => "`const` blocks are not supported inside a kernel; use a `const` item",
        Expr::Range(_) => "a range can only be looped over inside a kernel",
        Expr::Reference(_) => {
            "references are not supported inside a kernel\nhelp: values are copied; fields and arrays are passed by their name"
        }
        Expr::Closure(_) => {
            "a closure inside a kernel is bound with `let`, or passed to a `#[func]`"
        }
        Expr::Let(_) => "`let` is only allowed in the condition of an `if` or `while`",
        Expr::Unsafe(_) => "`unsafe` is not supported inside a kernel",
        Expr::Await(_) => "`await` is not supported inside a kernel",
        Expr::Async(_) => "`async` is not supported inside a kernel",
        _ => "this expression is not supported inside a kernel",
    }
}
