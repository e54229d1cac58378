//! `match`, `if let`, `while let`, `let .. else`, `matches!`, and the patterns of them.

use crate::pattern::member;
use crate::scope::{Code, VarKind, Walker, unsupported};
use crate::span::{group, node, parens};
use proc_macro2::{Delimiter, TokenStream};
use quote::{quote, quote_spanned};
use syn::parse::{ParseStream, Parser};
use syn::{
    BinOp, Expr, ExprLit, ExprMatch, Ident, Lit, Local, Macro, Pat, RangeLimits, Result, Token,
    spanned::Spanned,
};

const MATCHED: &str = "a pattern inside a kernel is made of numbers, `bool`s, constants, variants, structs, tuples and names";

/// What names in a pattern are.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Names {
    Values,
    /// Of a reference: they refer to its parts.
    References,
}

/// A value that patterns are compared with.
struct Scrutinee {
    code: Code,
    names: Names,
}

/// A pattern for rustc, and as an `ast::Choice`.
struct Chosen {
    shadow: TokenStream,
    choice: TokenStream,
}

impl Walker {
    fn scrutinee(&mut self, e: &Expr) -> Result<Scrutinee> {
        let code = self.expr(e)?;
        if !self.is_reference(e) {
            return Ok(Scrutinee {
                code,
                names: Names::Values,
            });
        }
        // Names refer to the parts of what a reference refers to, and cannot change them.
        let shadow = code.shadow;
        let shadow = parens(quote_spanned!(e.span()=> &#shadow), e.span());
        let ast = code.ast;
        Ok(Scrutinee {
            code: Code { shadow, ast },
            names: Names::References,
        })
    }

    pub(crate) fn match_expr(&mut self, m: &ExprMatch) -> Result<Code> {
        let Scrutinee { code, names } = self.scrutinee(&m.expr)?;
        let mut shadows = Vec::new();
        let mut asts = Vec::new();
        for arm in &m.arms {
            let (shadow, ast) = self.scoped(|w| {
                let (pat, condition) = match &arm.pat {
                    Pat::Guard(g) => (&*g.pat, Some((&g.if_token, &*g.guard))),
                    other => (other, None),
                };
                let Chosen {
                    shadow: pat,
                    choice,
                } = w.choice(pat, names)?;
                let (guard_shadow, guard_ast) = match condition {
                    Some((keyword, e)) => {
                        let code = w.expr(e)?;
                        let (shadow, ast) = (code.shadow, code.ast);
                        (quote!(#keyword #shadow), quote!(Some(&#ast)))
                    }
                    None => (quote!(), quote!(None)),
                };
                let body = w.expr(&arm.body)?;
                let (arrow, shadow, ast) = (&arm.fat_arrow_token, body.shadow, body.ast);
                Ok((
                    quote!(#pat #guard_shadow #arrow #shadow,),
                    quote!(Arm { pat: #choice, guard: #guard_ast, body: #ast }),
                ))
            })?;
            shadows.push(shadow);
            asts.push(ast);
        }
        let braces = group(
            Delimiter::Brace,
            quote!(#(#shadows)*),
            m.brace_token.span.join(),
        );
        let (keyword, shadow, ast) = (&m.match_token, code.shadow, code.ast);
        Ok(Code {
            shadow: quote!(#keyword #shadow #braces),
            ast: node(m.span(), quote!(Match(&#ast, &[#(#asts),*]))),
        })
    }

    /// Code under a condition that has `let` in it: the condition for rustc, the code, and the whole in the static data.
    /// `otherwise` is what is done if the condition does not hold.
    pub(crate) fn under_condition(
        &mut self,
        cond: &Expr,
        then: impl FnOnce(&mut Walker) -> Result<Code>,
        otherwise: impl FnOnce(&mut Walker) -> Result<TokenStream>,
    ) -> Result<(TokenStream, TokenStream, TokenStream)> {
        let mut parts = Vec::new();
        flatten(cond, &mut parts);
        let mut shadows = Vec::new();
        let mut tests = Vec::new();
        let span = cond.span();
        let (then_shadow, then_ast) = self.scoped(|w| {
            for part in &parts {
                let (shadow, test) = w.condition(part)?;
                shadows.push(shadow);
                tests.push(test);
            }
            let code = then(w)?;
            Ok((code.shadow, code.ast))
        })?;
        let other = otherwise(self)?;
        let shadow = quote!(#(#shadows)&&*);
        if let [Test::Let(value, choice)] = &tests[..] {
            let ast = two_arms(span, value, choice, &then_ast, &other);
            return Ok((shadow, then_shadow, ast));
        }
        // The code leaves a block; what is left of the block is done otherwise.
        let number = self.new_loop();
        let nothing = node(span, quote!(Tuple(&[])));
        let mut ast = node(span, quote!(Break(#number, Some(&#then_ast))));
        for test in tests.iter().rev() {
            ast = match test {
                Test::Let(value, choice) => two_arms(span, value, choice, &ast, &nothing),
                Test::Bool(cond) => node(span, quote!(If(&#cond, &#ast, None))),
            };
        }
        let block =
            quote!(Block { label: Some(#number), statements: &[#ast], value: Some(&#other) });
        Ok((shadow, then_shadow, node(span, quote!(Block(#block)))))
    }

    fn condition(&mut self, e: &Expr) -> Result<(TokenStream, Test)> {
        let Expr::Let(l) = e else {
            let code = self.expr(e)?;
            return Ok((code.shadow, Test::Bool(code.ast)));
        };
        let Scrutinee { code, names } = self.scrutinee(&l.expr)?;
        let Chosen {
            shadow: pat,
            choice,
        } = self.choice(&l.pat, names)?;
        let (keyword, eq, shadow) = (&l.let_token, &l.eq_token, code.shadow);
        Ok((
            quote!(#keyword #pat #eq #shadow),
            Test::Let(code.ast, choice),
        ))
    }

    /// `let pattern = value else { .. };`
    pub(crate) fn let_else(&mut self, l: &Local, value: &Expr, other: &Expr) -> Result<Code> {
        let Scrutinee { code, names } = self.scrutinee(value)?;
        let otherwise = self.expr(other)?;
        let Chosen { shadow, choice } = self.choice(&l.pat, names)?;
        let (keyword, semi, init) = (&l.let_token, &l.semi_token, &l.init);
        let eq = init.as_ref().map(|i| &i.eq_token);
        let other_token = init.as_ref().and_then(|i| i.diverge.as_ref().map(|d| &d.0));
        let (value, ast, other, other_ast) =
            (code.shadow, code.ast, otherwise.shadow, otherwise.ast);
        Ok(Code {
            shadow: quote!(#keyword #shadow #eq #value #other_token #other #semi),
            ast: node(l.span(), quote!(LetElse(&#choice, &#ast, &#other_ast))),
        })
    }

    /// `matches!(value, pattern if guard)`
    pub(crate) fn matches(&mut self, m: &Macro) -> Result<Code> {
        let (value, pat, guard) = matches_arguments.parse2(m.tokens.clone())?;
        let span = m.path.span();
        let Scrutinee { code, names } = self.scrutinee(&value)?;
        let (pat, choice, guard_shadow, guard_ast) = self.scoped(|w| {
            let Chosen { shadow, choice } = w.choice(&pat, names)?;
            Ok(match &guard {
                Some((keyword, e)) => {
                    let code = w.expr(e)?;
                    let (test, ast) = (code.shadow, code.ast);
                    (shadow, choice, quote!(#keyword #test), quote!(Some(&#ast)))
                }
                None => (shadow, choice, quote!(), quote!(None)),
            })
        })?;
        let (path, bang, shadow, ast) = (&m.path, &m.bang_token, code.shadow, code.ast);
        let args = parens(
            quote!(#shadow, #pat #guard_shadow),
            m.delimiter.span().join(),
        );
        let (yes, no) = (
            node(span, quote!(Bool(true))),
            node(span, quote!(Bool(false))),
        );
        Ok(Code {
            shadow: quote!(#path #bang #args),
            ast: node(
                span,
                quote!(Match(&#ast, &[
                    Arm { pat: #choice, guard: #guard_ast, body: #yes },
                    Arm { pat: Choice::Any, guard: None, body: #no },
                ])),
            ),
        })
    }

    fn choice(&mut self, pat: &Pat, names: Names) -> Result<Chosen> {
        let as_written = |choice: TokenStream| {
            Ok(Chosen {
                shadow: quote!(#pat),
                choice,
            })
        };
        match pat {
            Pat::Wild(_) => as_written(quote!(Choice::Any)),
            Pat::Lit(l) => {
                let value = self.pattern_value(&Expr::Lit(l.clone()))?;
                as_written(quote!(Choice::Value(#value)))
            }
            Pat::Path(p) => {
                let last = p.path.segments.last().map(|s| s.ident.clone());
                match last {
                    Some(name) if is_variant(&name) => {
                        let name = name.to_string();
                        as_written(quote!(Choice::Variant(#name, &[])))
                    }
                    _ => {
                        let value = self.pattern_value(&Expr::Path(p.clone()))?;
                        as_written(quote!(Choice::Value(#value)))
                    }
                }
            }
            Pat::Range(r) => {
                let low = self.pattern_end(r.start.as_deref())?;
                let high = self.pattern_end(r.end.as_deref())?;
                let inclusive = !matches!(r.limits, RangeLimits::HalfOpen(_));
                as_written(quote!(Choice::Range(#low, #high, #inclusive)))
            }
            Pat::Paren(p) => {
                let inner = self.choice(&p.pat, names)?;
                Ok(Chosen {
                    shadow: parens(inner.shadow, p.paren_token.span.join()),
                    choice: inner.choice,
                })
            }
            Pat::Reference(r) if names == Names::References => {
                let inner = self.choice(&r.pat, Names::Values)?;
                let (and, shadow) = (&r.and_token, inner.shadow);
                Ok(Chosen {
                    shadow: quote!(#and #shadow),
                    choice: inner.choice,
                })
            }
            Pat::Or(o) => self.alternatives(o, names),
            Pat::Ident(i) => self.named_choice(i, names),
            Pat::Tuple(t) => {
                let (shadows, fields) = self.numbered(&t.elems, names)?;
                Ok(Chosen {
                    shadow: parens(quote!(#(#shadows,)*), t.paren_token.span.join()),
                    choice: quote!(Choice::Variant("", &[#(#fields),*])),
                })
            }
            Pat::TupleStruct(t) => {
                let (shadows, fields) = self.numbered(&t.elems, names)?;
                let (path, name) = (&t.path, last_name(&t.path));
                let args = parens(quote!(#(#shadows),*), t.paren_token.span.join());
                Ok(Chosen {
                    shadow: quote!(#path #args),
                    choice: quote!(Choice::Variant(#name, &[#(#fields),*])),
                })
            }
            Pat::Struct(s) => {
                let (mut shadows, mut fields) = (Vec::new(), Vec::new());
                for f in &s.fields {
                    let name = member(&f.member);
                    let Chosen { shadow, choice } = self.choice(&f.pat, names)?;
                    let m = &f.member;
                    shadows.push(quote!(#m: #shadow));
                    fields.push(quote!((#name, #choice)));
                }
                let (path, rest, name) = (&s.path, &s.rest, last_name(&s.path));
                let braces = group(
                    Delimiter::Brace,
                    quote!(#(#shadows,)* #rest),
                    s.brace_token.span.join(),
                );
                Ok(Chosen {
                    shadow: quote!(#path #braces),
                    choice: quote!(Choice::Variant(#name, &[#(#fields),*])),
                })
            }
            _ => unsupported(pat, MATCHED),
        }
    }

    /// Patterns with `|` between them. They have the same names, as rustc checks, and each name is one variable.
    fn alternatives(&mut self, o: &syn::PatOr, names: Names) -> Result<Chosen> {
        let (mut shadows, mut choices) = (Vec::new(), Vec::new());
        let outer = self.alternatives;
        self.alternatives = outer.or(Some(self.vars.len()));
        for case in &o.cases {
            let Chosen { shadow, choice } = self.choice(case, names)?;
            shadows.push(shadow);
            choices.push(choice);
        }
        self.alternatives = outer;
        Ok(Chosen {
            shadow: quote!(#(#shadows)|*),
            choice: quote!(Choice::Or(&[#(#choices),*])),
        })
    }

    /// The variable that another pattern before `|` has given this name.
    fn named_before(&self, name: &str) -> Option<u32> {
        let first = self.alternatives?;
        let found = self.vars[first..].iter().position(|v| v.name == name)?;
        Some((first + found) as u32)
    }

    /// A name: of a new variable, a constant or a variant. rustc distinguishes them by scope; here the spelling decides.
    fn named_choice(&mut self, i: &syn::PatIdent, names: Names) -> Result<Chosen> {
        let name = i.ident.to_string();
        if i.by_ref.is_some() {
            return unsupported(i, MATCHED);
        }
        if is_variant(&i.ident) {
            return Ok(Chosen {
                shadow: quote!(#i),
                choice: quote!(Choice::Variant(#name, &[])),
            });
        }
        if i.subpat.is_none() && name.chars().all(|c| !c.is_lowercase()) && name != "_" {
            let number = self.constant(&i.ident);
            let value = node(i.span(), quote!(Const(#number)));
            return Ok(Chosen {
                shadow: quote!(#i),
                choice: quote!(Choice::Value(#value)),
            });
        }
        let mutable = i.mutability.is_some();
        let before = self.named_before(&name);
        let var = match (before, names) {
            (Some(var), _) => var,
            (None, Names::References) => self.declare_reference(&name, false),
            (None, Names::Values) => self.declare(&name, VarKind::Value),
        };
        if names == Names::Values {
            self.vars[var as usize].mutable = mutable;
        }
        let (mutability, ident) = (&i.mutability, &i.ident);
        match &i.subpat {
            // `x @ _` is a new name for rustc too.
            None => Ok(Chosen {
                shadow: quote!(#mutability #ident @ _),
                choice: quote!(Choice::Bind(#var, #mutable, &Choice::Any)),
            }),
            Some((at, inner)) => {
                let Chosen { shadow, choice } = self.choice(inner, names)?;
                Ok(Chosen {
                    shadow: quote!(#mutability #ident #at #shadow),
                    choice: quote!(Choice::Bind(#var, #mutable, &#choice)),
                })
            }
        }
    }

    /// The parts of a tuple or tuple struct, with their numbers.
    fn numbered<'p>(
        &mut self,
        parts: impl IntoIterator<Item = &'p Pat>,
        names: Names,
    ) -> Result<(Vec<TokenStream>, Vec<TokenStream>)> {
        let (mut shadows, mut fields) = (Vec::new(), Vec::new());
        let mut rest = false;
        for (k, part) in parts.into_iter().enumerate() {
            if let Pat::Rest(r) = part {
                rest = true;
                shadows.push(quote!(#r));
                continue;
            }
            if rest {
                return unsupported(
                    part,
                    "nothing follows `..` in a pattern inside a kernel\nhelp: write `_` for each part",
                );
            }
            let Chosen { shadow, choice } = self.choice(part, names)?;
            let name = k.to_string();
            shadows.push(shadow);
            fields.push(quote!((#name, #choice)));
        }
        Ok((shadows, fields))
    }

    fn pattern_end(&mut self, e: Option<&Expr>) -> Result<TokenStream> {
        match e {
            Some(e) => {
                let value = self.pattern_value(e)?;
                Ok(quote!(Some(#value)))
            }
            None => Ok(quote!(None)),
        }
    }

    /// A literal or constant of a pattern. Its type is that of the scrutinee.
    fn pattern_value(&mut self, e: &Expr) -> Result<TokenStream> {
        let same = u32::MAX;
        match e {
            Expr::Lit(ExprLit { lit, .. }) => match lit {
                Lit::Int(i) => {
                    let digits = i.base10_digits();
                    Ok(node(e.span(), quote!(Int(#digits, #same))))
                }
                Lit::Float(f) => {
                    let digits = f.base10_digits();
                    Ok(node(e.span(), quote!(Float(#digits, #same))))
                }
                Lit::Bool(b) => {
                    let value = b.value;
                    Ok(node(e.span(), quote!(Bool(#value))))
                }
                _ => unsupported(e, MATCHED),
            },
            Expr::Unary(u) => {
                let inner = self.pattern_value(&u.expr)?;
                Ok(node(e.span(), quote!(Unary(Unary::Neg, &#inner))))
            }
            Expr::Path(p) => {
                let number = self.constant(p);
                Ok(node(e.span(), quote!(Const(#number))))
            }
            _ => unsupported(e, MATCHED),
        }
    }
}

/// A part of a condition in the static data.
enum Test {
    Bool(TokenStream),
    /// Value, pattern.
    Let(TokenStream, TokenStream),
}

fn two_arms(
    span: proc_macro2::Span,
    value: &TokenStream,
    choice: &TokenStream,
    then: &TokenStream,
    other: &TokenStream,
) -> TokenStream {
    node(
        span,
        quote!(Match(&#value, &[
            Arm { pat: #choice, guard: None, body: #then },
            Arm { pat: Choice::Any, guard: None, body: #other },
        ])),
    )
}

/// The parts of a condition between `&&`.
fn flatten<'e>(e: &'e Expr, out: &mut Vec<&'e Expr>) {
    match e {
        Expr::Binary(b) if matches!(b.op, BinOp::And(_)) && has_let(e) => {
            flatten(&b.left, out);
            flatten(&b.right, out);
        }
        _ => out.push(e),
    }
}

/// Whether a condition has `let` in it.
pub(crate) fn has_let(e: &Expr) -> bool {
    match e {
        Expr::Let(_) => true,
        Expr::Binary(b) if matches!(b.op, BinOp::And(_)) => has_let(&b.left) || has_let(&b.right),
        _ => false,
    }
}

/// Whether a name is written like a variant: `None`, not `LIMIT` or `x`.
pub(crate) fn is_variant(name: &Ident) -> bool {
    let name = name.to_string();
    name.starts_with(char::is_uppercase) && name.chars().any(char::is_lowercase)
}

fn last_name(path: &syn::Path) -> String {
    let last = path.segments.last();
    last.map_or_else(String::new, |s| s.ident.to_string())
}

type MatchesArguments = (Expr, Pat, Option<(Token![if], Expr)>);

fn matches_arguments(input: ParseStream<'_>) -> Result<MatchesArguments> {
    let value: Expr = input.parse()?;
    let _: Token![,] = input.parse()?;
    let pat = Pat::parse_multi_with_leading_vert(input)?;
    let guard = if input.peek(Token![if]) {
        Some((input.parse()?, input.parse()?))
    } else {
        None
    };
    let _: Option<Token![,]> = input.parse()?;
    match (pat, guard) {
        (Pat::Guard(g), None) => {
            let guard = (g.if_token, (*g.guard).clone());
            Ok((value, (*g.pat).clone(), Some(guard)))
        }
        (pat, guard) => Ok((value, pat, guard)),
    }
}
