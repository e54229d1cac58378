//! `print!`, `assert!` and similar macros.

use crate::expr::source;
use crate::scope::{Code, Walker, unsupported};
use crate::span::{node, parens};
use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Error, Expr, ExprLit, Ident, Lit, LitStr, Macro, Result, Token, spanned::Spanned};

/// A format string with its arguments.
struct Format {
    /// The string and the arguments, for rustc to check.
    shadow: TokenStream,
    pieces: Vec<TokenStream>,
    args: Vec<TokenStream>,
}

impl Format {
    fn text(&self) -> TokenStream {
        let (pieces, args) = (&self.pieces, &self.args);
        quote!(Text { pieces: &[#(#pieces),*], args: &[#(#args),*] })
    }
}

impl Walker {
    pub(crate) fn macro_call(&mut self, m: &Macro) -> Result<Code> {
        let name = m.path.segments.last().map(|s| s.ident.to_string());
        let name = name.unwrap_or_default();
        if name == "matches" {
            return self.matches(m);
        }
        let args = Punctuated::<Expr, Token![,]>::parse_terminated.parse2(m.tokens.clone());
        let span = m.path.span();
        match name.as_str() {
            "print" | "println" | "eprint" | "eprintln" => {
                let args: Vec<Expr> = args?.into_iter().collect();
                let newline = name.ends_with("ln");
                let format = self.format(&args, newline, span)?;
                let text = format.text();
                Ok(Code {
                    shadow: invoke(m, format.shadow),
                    ast: node(span, quote!(Print(#text))),
                })
            }
            "assert" | "debug_assert" => {
                let args: Vec<Expr> = args?.into_iter().collect();
                let Some((cond, rest)) = args.split_first() else {
                    return unsupported(m, "`assert!` takes a condition");
                };
                let code = self.expr(cond)?;
                let format = if rest.is_empty() {
                    plain(format!("assertion failed: {}", source(cond)))
                } else {
                    self.format(rest, false, span)?
                };
                let (shadow, ast, rest, text) =
                    (code.shadow, code.ast, &format.shadow, format.text());
                Ok(Code {
                    shadow: invoke(m, quote!(#shadow, #rest)),
                    ast: node(span, quote!(Assert(&#ast, #text))),
                })
            }
            "assert_eq" | "debug_assert_eq" => self.assert_equal(m, args?, "Eq", "=="),
            "assert_ne" | "debug_assert_ne" => self.assert_equal(m, args?, "Ne", "!="),
            _ => unsupported(
                &m.path,
                format!(
                    "`{name}!` is not supported inside a kernel; there are `print!`, `println!`, `assert!`, `assert_eq!`, `assert_ne!` and `matches!`"
                ),
            ),
        }
    }

    /// `{ let l = left; let r = right; assert!(l == r, "..", l, r) }` in the static data.
    fn assert_equal(
        &mut self,
        m: &Macro,
        args: Punctuated<Expr, Token![,]>,
        op: &str,
        sign: &str,
    ) -> Result<Code> {
        let span = m.path.span();
        let args: Vec<Expr> = args.into_iter().collect();
        let [left, right, rest @ ..] = &args[..] else {
            return unsupported(m, "this takes two values to compare");
        };
        let (l, r) = (self.expr(left)?, self.expr(right)?);
        let (lv, rv) = (self.hidden(), self.hidden());
        let own = if rest.is_empty() {
            plain(String::new())
        } else {
            self.format(rest, false, span)?
        };
        let head = format!("assertion `left {sign} right` failed");
        let mut pieces = vec![quote!(Piece::Text(#head))];
        if !rest.is_empty() {
            pieces.push(quote!(Piece::Text(": ")));
        }
        let shift = own.args.len() as u32;
        pieces.extend(own.pieces.iter().cloned());
        let (a, b) = (shift, shift + 1);
        pieces.push(quote!(Piece::Text("\n  left: ")));
        pieces.push(quote!(Piece::Hole(#a, "")));
        pieces.push(quote!(Piece::Text("\n right: ")));
        pieces.push(quote!(Piece::Hole(#b, "")));
        let (left_var, right_var) = (node(span, quote!(Var(#lv))), node(span, quote!(Var(#rv))));
        let own_args = &own.args;
        let op = Ident::new(op, Span::call_site());
        let condition = node(span, quote!(Binary(Binary::#op, &#left_var, &#right_var)));
        let text = quote!(Text {
            pieces: &[#(#pieces),*],
            args: &[#(#own_args,)* #left_var, #right_var],
        });
        let assert = node(span, quote!(Assert(&#condition, #text)));
        let (ls, la, rs, ra) = (l.shadow, l.ast, r.shadow, r.ast);
        let first = node(
            span,
            quote!(Let(Pat::Var { var: #lv, mutable: false }, Some(&#la))),
        );
        let second = node(
            span,
            quote!(Let(Pat::Var { var: #rv, mutable: false }, Some(&#ra))),
        );
        let block =
            quote!(Block { label: None, statements: &[#first, #second, #assert], value: None });
        let rest = &own.shadow;
        let rest = if rest.is_empty() {
            quote!()
        } else {
            quote!(, #rest)
        };
        Ok(Code {
            shadow: invoke(m, quote!(#ls, #rs #rest)),
            ast: node(span, quote!(Block(#block))),
        })
    }

    /// A format string and its arguments.
    fn format(&mut self, args: &[Expr], newline: bool, span: Span) -> Result<Format> {
        let Some((first, rest)) = args.split_first() else {
            let pieces = if newline {
                vec![quote!(Piece::Text("\n"))]
            } else {
                Vec::new()
            };
            return Ok(Format {
                shadow: quote!(),
                pieces,
                args: Vec::new(),
            });
        };
        let Expr::Lit(ExprLit {
            lit: Lit::Str(string),
            ..
        }) = first
        else {
            return unsupported(
                first,
                "the first argument is the text, with `{}` for each value",
            );
        };
        let mut names: Vec<Option<String>> = Vec::new();
        let mut shadows = Vec::new();
        let mut asts = Vec::new();
        for e in rest {
            let (name, value) = match e {
                Expr::Assign(a) => match &*a.left {
                    Expr::Path(p) if p.path.get_ident().is_some() => {
                        (p.path.get_ident().cloned(), &*a.right)
                    }
                    _ => (None, e),
                },
                _ => (None, e),
            };
            let code = self.expr(value)?;
            let shadow = code.shadow;
            shadows.push(match &name {
                Some(name) => quote!(#name = #shadow),
                None => quote!(#shadow),
            });
            names.push(name.map(|n| n.to_string()));
            asts.push(code.ast);
        }
        let mut pieces = Vec::new();
        let mut next = 0u32;
        for part in parse_format(string)? {
            match part {
                Part::Text(text) => pieces.push(quote!(Piece::Text(#text))),
                Part::Hole { argument, format } => {
                    let number = match argument {
                        Argument::Next => {
                            next += 1;
                            next - 1
                        }
                        Argument::Number(n) => n,
                        Argument::Name(name) => {
                            match names.iter().position(|n| n.as_deref() == Some(&name)) {
                                Some(k) => k as u32,
                                None => {
                                    // A variable or constant that the string names itself.
                                    let Ok(mut ident) = syn::parse_str::<Ident>(&name) else {
                                        let what =
                                            format!("`{{{name}}}` is not the name of a variable");
                                        return Err(Error::new(string.span(), what));
                                    };
                                    ident.set_span(string.span());
                                    let path: Expr = syn::parse_quote!(#ident);
                                    asts.push(self.expr(&path)?.ast);
                                    names.push(Some(name));
                                    asts.len() as u32 - 1
                                }
                            }
                        }
                    };
                    pieces.push(quote!(Piece::Hole(#number, #format)));
                }
            }
        }
        if newline {
            pieces.push(quote!(Piece::Text("\n")));
        }
        let _ = span;
        Ok(Format {
            shadow: quote!(#string #(, #shadows)*),
            pieces,
            args: asts,
        })
    }
}

fn plain(text: String) -> Format {
    Format {
        shadow: quote!(),
        pieces: vec![quote!(Piece::Text(#text))],
        args: Vec::new(),
    }
}

/// The macro call of the user, with other arguments.
fn invoke(m: &Macro, args: TokenStream) -> TokenStream {
    let (path, bang) = (&m.path, &m.bang_token);
    let args = parens(args, m.delimiter.span().join());
    quote!(#path #bang #args)
}

enum Part {
    Text(String),
    Hole {
        argument: Argument,
        /// What stands after the colon.
        format: String,
    },
}

enum Argument {
    Next,
    Number(u32),
    Name(String),
}

fn parse_format(string: &LitStr) -> Result<Vec<Part>> {
    let text = string.value();
    let mut parts = Vec::new();
    let mut plain = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '{' if chars.peek() == Some(&'{') => {
                chars.next();
                plain.push('{');
            }
            '}' => {
                // A single one is an error of rustc.
                if chars.peek() == Some(&'}') {
                    chars.next();
                }
                plain.push('}');
            }
            '{' => {
                let inside: String = chars.by_ref().take_while(|c| *c != '}').collect();
                if !plain.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut plain)));
                }
                parts.push(parse_hole(inside.trim(), string)?);
            }
            c => plain.push(c),
        }
    }
    if !plain.is_empty() {
        parts.push(Part::Text(plain));
    }
    Ok(parts)
}

fn parse_hole(inside: &str, string: &LitStr) -> Result<Part> {
    let (argument, spec) = inside.split_once(':').unwrap_or((inside, ""));
    let argument = match argument.trim() {
        "" => Argument::Next,
        name => match name.parse() {
            Ok(number) => Argument::Number(number),
            Err(_) => Argument::Name(name.to_string()),
        },
    };
    let spec = spec.trim_end();
    let format = spec.strip_suffix('?').unwrap_or(spec);
    if spec.ends_with("#?")
        || format.contains(['$', '*'])
        || format.ends_with(['x', 'X']) && spec != format
    {
        return Err(Error::new(
            string.span(),
            format!(
                "`{{:{spec}}}` is not supported inside a kernel\n\
                 help: there are `{{}}`, `{{:?}}`, widths and digits that are written there, `{{:>8.3}}`, and `{{:x}}`, `{{:b}}`, `{{:e}}`"
            ),
        ));
    }
    Ok(Part::Hole {
        argument,
        format: format.to_string(),
    })
}
