//! `for` over the items of arrays: the iterators of the standard library that are loops over an index.

use crate::control::Domain;
use crate::expr::ends_in;
use crate::place::Change;
use crate::scope::{Code, Walker, unsupported};
use crate::span::{ends, helper, node, parens};
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Expr, ExprMethodCall, Pat, Result, spanned::Spanned};

/// Iterators that a kernel does not have.
const ADAPTERS: &[&str] = &[
    "map",
    "filter",
    "filter_map",
    "flat_map",
    "flatten",
    "take",
    "take_while",
    "skip",
    "skip_while",
    "step_by",
    "chain",
    "cycle",
    "scan",
    "windows",
    "chunks",
    "chunks_exact",
    "peekable",
    "inspect",
];

const HINTS: &[&str] = &["unroll", "serial", "block_size", "simd", "scalar", "cache"];

pub(crate) const DOMAINS: &str = "a `for` inside a kernel runs over a range, a `grid(..)`, a field or an array\n\
     help: `for i in 0..n`, `for i in (0..n).step_by(2)`, `for [i, j] in grid([0..n, 0..m])`, `for [i, j] in x`, \
     `for v in a`, `for (k, v) in a.iter().enumerate()`";

/// How a loop has the elements of an array.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Access {
    Value,
    Shared,
    Exclusive,
}

/// What a loop takes one item of at a time.
enum Sequence {
    /// An array, as an expression without effects.
    Array(TokenStream, Access),
    Enumerate(Box<Sequence>),
    Rev(Box<Sequence>),
    Zip(Box<Sequence>, Box<Sequence>),
}

impl Sequence {
    fn exclusive(&self) -> bool {
        match self {
            Sequence::Array(_, access) => *access == Access::Exclusive,
            Sequence::Enumerate(inner) | Sequence::Rev(inner) => inner.exclusive(),
            Sequence::Zip(a, b) => a.exclusive() || b.exclusive(),
        }
    }
}

/// A loop over items: the variable that counts them, and statements in front of it.
pub(crate) struct Items {
    sequence: Sequence,
    pub(crate) prelude: Vec<TokenStream>,
    pub(crate) counter: u32,
    /// The number of the type `usize`.
    index_type: u32,
}

impl Items {
    /// Whether the loop changes the items.
    pub(crate) fn exclusive(&self) -> bool {
        self.sequence.exclusive()
    }
}

impl Walker {
    /// The domain of a loop over items.
    pub(crate) fn items(&mut self, e: &Expr) -> Result<Domain> {
        let mut prelude = Vec::new();
        let (shadow, sequence) = self.sequence(e, &mut prelude)?;
        let index_type = self.written_type(quote!(__recorder.ty_of::<usize>();));
        let span = e.span();
        let high = self.length_of(&sequence, e);
        let (zero, place) = (
            node(span, quote!(Int("0", #index_type))),
            crate::span::at(span),
        );
        let ast = quote!(Domain::Range(Range {
            at: #place, low: #zero, high: #high, inclusive: false, adapters: &[]
        }));
        let counter = self.hidden();
        Ok(Domain {
            shadow,
            ast,
            points: false,
            items: Some(Items {
                sequence,
                prelude,
                counter,
                index_type,
            }),
        })
    }

    fn sequence(
        &mut self,
        e: &Expr,
        prelude: &mut Vec<TokenStream>,
    ) -> Result<(TokenStream, Sequence)> {
        match e {
            Expr::Paren(p) => {
                let (shadow, sequence) = self.sequence(&p.expr, prelude)?;
                Ok((parens(shadow, p.paren_token.span.join()), sequence))
            }
            Expr::Group(g) => self.sequence(&g.expr, prelude),
            Expr::Reference(r) => {
                let access = match r.mutability {
                    Some(_) => Access::Exclusive,
                    None => Access::Shared,
                };
                self.array(&r.expr, access, prelude)
            }
            Expr::MethodCall(m) => self.adapted(e, m, prelude),
            Expr::Path(_) if self.variable(e).is_some() => {
                let access = match self.exclusive_reference(e) {
                    Some(_) => Access::Exclusive,
                    None if self.is_reference(e) => Access::Shared,
                    None => Access::Value,
                };
                self.array(e, access, prelude)
            }
            Expr::Call(c) if HINTS.iter().any(|h| ends_in(&c.func, h)) => unsupported(e, DOMAINS),
            Expr::Path(_)
            | Expr::Array(_)
            | Expr::Repeat(_)
            | Expr::Field(_)
            | Expr::Index(_)
            | Expr::Call(_) => self.array(e, Access::Value, prelude),
            _ => unsupported(e, DOMAINS),
        }
    }

    /// `a.iter()` and what may follow it.
    fn adapted(
        &mut self,
        e: &Expr,
        m: &ExprMethodCall,
        prelude: &mut Vec<TokenStream>,
    ) -> Result<(TokenStream, Sequence)> {
        let name = m.method.to_string();
        let args: Vec<&Expr> = m.args.iter().collect();
        let (dot, method) = (&m.dot_token, &m.method);
        let close = m.paren_token.span.join();
        let empty = parens(quote!(), close);
        match (name.as_str(), &args[..]) {
            ("iter" | "iter_mut", []) => {
                let access = if name == "iter" {
                    Access::Shared
                } else {
                    Access::Exclusive
                };
                let (shadow, sequence) = self.array(&m.receiver, access, prelude)?;
                Ok((quote!(#shadow #dot #method #empty), sequence))
            }
            ("into_iter", []) => {
                let (shadow, sequence) = self.sequence(&m.receiver, prelude)?;
                Ok((quote!(#shadow #dot #method #empty), sequence))
            }
            ("enumerate", []) => {
                let (shadow, inner) = self.sequence(&m.receiver, prelude)?;
                let sequence = Sequence::Enumerate(Box::new(inner));
                Ok((quote!(#shadow #dot #method #empty), sequence))
            }
            ("rev", []) => {
                let (shadow, inner) = self.sequence(&m.receiver, prelude)?;
                let sequence = Sequence::Rev(Box::new(inner));
                Ok((quote!(#shadow #dot #method #empty), sequence))
            }
            ("copied" | "cloned", []) => match self.sequence(&m.receiver, prelude)? {
                (shadow, Sequence::Array(array, Access::Shared)) => {
                    let sequence = Sequence::Array(array, Access::Value);
                    Ok((quote!(#shadow #dot #method #empty), sequence))
                }
                _ => unsupported(&m.method, format!("`{name}()` follows `iter()`")),
            },
            ("zip", [other]) => {
                let (shadow, a) = self.sequence(&m.receiver, prelude)?;
                let (other, b) = self.sequence(other, prelude)?;
                let args = parens(other, close);
                let sequence = Sequence::Zip(Box::new(a), Box::new(b));
                Ok((quote!(#shadow #dot #method #args), sequence))
            }
            (adapter, _) if ADAPTERS.contains(&adapter) => unsupported(
                &m.method,
                format!(
                    "a `for` inside a kernel has no `{adapter}(..)`; arrays have `iter`, `iter_mut`, `into_iter`, `enumerate`, \
                     `rev`, `copied` and `zip`, ranges `rev` and `step_by`\nhelp: loop over a range, and use the index"
                ),
            ),
            _ => self.array(e, Access::Value, prelude),
        }
    }

    /// An array by itself. It gets a name, unless it has one and cannot change during the loop.
    fn array(
        &mut self,
        e: &Expr,
        access: Access,
        prelude: &mut Vec<TokenStream>,
    ) -> Result<(TokenStream, Sequence)> {
        let (first, _) = ends(e);
        if let Some(var) = self.data(e) {
            let name = &self.vars[var].name;
            return unsupported(
                e,
                format!(
                    "`{name}` is a whole field or array, and a loop over it has its indices\nhelp: `for [i] in {name} {{ {name}[[i]] .. }}`"
                ),
            );
        }
        let code = match access {
            Access::Exclusive => self.place(e, Change::Replace)?,
            Access::Value | Access::Shared => self.expr(e)?,
        };
        let value = code.shadow;
        let shadow = match access {
            Access::Value => quote!(#value),
            Access::Shared => quote_spanned!(first=> &#value),
            Access::Exclusive => quote_spanned!(first=> &mut #value),
        };
        let shadow = helper("items", shadow, e);
        let named = match self.variable(e) {
            Some(var) => access != Access::Value || !self.vars[var].mutable,
            None => access == Access::Exclusive,
        };
        if named {
            return Ok((shadow, Sequence::Array(code.ast, access)));
        }
        let var = self.hidden();
        let ast = code.ast;
        let span = e.span();
        prelude.push(node(
            span,
            quote!(Let(Pat::Var { var: #var, mutable: false }, Some(&#ast))),
        ));
        let array = node(span, quote!(Var(#var)));
        Ok((shadow, Sequence::Array(array, access)))
    }

    /// How many items there are.
    fn length_of(&self, sequence: &Sequence, e: &Expr) -> TokenStream {
        let span = e.span();
        match sequence {
            Sequence::Array(array, _) => node(span, quote!(Len(&#array))),
            Sequence::Enumerate(inner) | Sequence::Rev(inner) => self.length_of(inner, e),
            Sequence::Zip(a, b) => {
                let (a, b) = (self.length_of(a, e), self.length_of(b, e));
                let less = node(span, quote!(Binary(Binary::Lt, &#a, &#b)));
                node(span, quote!(If(&#less, &#a, Some(&#b))))
            }
        }
    }

    /// Declares the variables of the pattern of a loop; returns the statements that bind them.
    pub(crate) fn bind_items(&mut self, items: &Items, pat: &Pat) -> Result<Vec<TokenStream>> {
        let counter = items.counter;
        let index = node(pat.span(), quote!(Var(#counter)));
        let mut out = Vec::new();
        self.bind_item(&items.sequence, pat, &index, items.index_type, &mut out)?;
        Ok(out)
    }

    fn bind_item(
        &mut self,
        sequence: &Sequence,
        pat: &Pat,
        index: &TokenStream,
        index_type: u32,
        out: &mut Vec<TokenStream>,
    ) -> Result<()> {
        let span = pat.span();
        match sequence {
            Sequence::Array(array, access) => {
                let item = node(span, quote!(Index(&#array, &[#index])));
                out.push(self.bind_element(pat, *access, &item)?);
            }
            Sequence::Enumerate(inner) => {
                let [number, item] = pair(pat, "for (k, v) in a.iter().enumerate()")?;
                let number = self.pattern(number)?;
                out.push(node(span, quote!(Let(#number, Some(&#index)))));
                self.bind_item(inner, item, index, index_type, out)?;
            }
            Sequence::Rev(inner) => {
                let count = self.length_of(inner, &syn::parse_quote!(_));
                let one = node(span, quote!(Int("1", #index_type)));
                let last = node(span, quote!(Binary(Binary::Sub, &#count, &#one)));
                let index = node(span, quote!(Binary(Binary::Sub, &#last, &#index)));
                self.bind_item(inner, pat, &index, index_type, out)?;
            }
            Sequence::Zip(a, b) => {
                let [first, second] = pair(pat, "for (a, b) in x.iter().zip(y.iter())")?;
                self.bind_item(a, first, index, index_type, out)?;
                self.bind_item(b, second, index, index_type, out)?;
            }
        }
        Ok(())
    }

    fn bind_element(
        &mut self,
        pat: &Pat,
        access: Access,
        item: &TokenStream,
    ) -> Result<TokenStream> {
        let span = pat.span();
        match (access, pat) {
            (_, Pat::Paren(p)) => self.bind_element(&p.pat, access, item),
            (Access::Exclusive, Pat::Ident(p)) if p.subpat.is_none() && p.by_ref.is_none() => {
                let var = self.declare_reference(&p.ident.to_string(), true);
                Ok(node(span, quote!(LetRef(#var, &#item))))
            }
            (Access::Exclusive, Pat::Wild(_)) => Ok(node(span, quote!(Tuple(&[])))),
            (Access::Exclusive, _) => {
                unsupported(pat, "an item that the loop changes has a plain name")
            }
            (Access::Shared, _) => {
                let pat = self.shared_pattern(pat)?;
                Ok(node(span, quote!(Let(#pat, Some(&#item)))))
            }
            (Access::Value, _) => {
                let pat = self.pattern(pat)?;
                Ok(node(span, quote!(Let(#pat, Some(&#item)))))
            }
        }
    }
}

/// The two parts of a pattern.
fn pair<'p>(pat: &'p Pat, example: &str) -> Result<[&'p Pat; 2]> {
    match pat {
        Pat::Paren(p) => pair(&p.pat, example),
        Pat::Tuple(t) if t.elems.len() == 2 => Ok([&t.elems[0], &t.elems[1]]),
        _ => unsupported(
            pat,
            format!("a loop inside a kernel takes pairs apart: `{example}`"),
        ),
    }
}

/// Whether a domain is a range with adapters.
pub(crate) fn is_range(e: &Expr) -> bool {
    match e {
        Expr::Range(_) => true,
        Expr::Paren(p) => is_range(&p.expr),
        Expr::Group(g) => is_range(&g.expr),
        Expr::MethodCall(m) if m.method == "rev" || m.method == "step_by" => is_range(&m.receiver),
        _ => false,
    }
}

/// The code of a loop with the statements in front of it.
pub(crate) fn with_prelude(code: Code, prelude: &[TokenStream], span: Span) -> Code {
    if prelude.is_empty() {
        return code;
    }
    let ast = code.ast;
    let block = quote!(Block { label: None, statements: &[#(#prelude,)* #ast], value: None });
    Code {
        shadow: code.shadow,
        ast: node(span, quote!(Block(#block))),
    }
}
