//! Branches and loops.

use crate::expr::ends_in;
use crate::iterate::{DOMAINS, Items, is_range, with_prelude};
use crate::matching::has_let;
use crate::scope::{Code, Loop, LoopKind, VarKind, Walker, unsupported};
use crate::span::{at, group, helper, node, parens};
use proc_macro2::{Delimiter, TokenStream};
use quote::{ToTokens, quote};
use syn::{
    Expr, ExprBlock, ExprBreak, ExprCall, ExprContinue, ExprForLoop, ExprIf, ExprLit, ExprLoop,
    ExprReturn, ExprTry, ExprWhile, Label, Lifetime, Lit, Pat, RangeLimits, Result,
    spanned::Spanned,
};

/// The domain of a `for`.
pub(crate) struct Domain {
    pub(crate) shadow: TokenStream,
    pub(crate) ast: TokenStream,
    /// Whether it has points with coordinates, or numbers.
    pub(crate) points: bool,
    /// Of arrays: a loop over their indices.
    pub(crate) items: Option<Items>,
}

/// A hint of a loop.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Hint {
    None,
    Serial,
    Unroll,
    BlockSize(u32),
}

/// A domain with its hints.
struct Hinted {
    domain: Domain,
    hint: Hint,
    /// Vectorize, or never.
    simd: Option<bool>,
    /// Variables of cached fields.
    cached: Vec<u32>,
}

impl Hinted {
    fn plain(domain: Domain) -> Hinted {
        Hinted {
            domain,
            hint: Hint::None,
            simd: None,
            cached: Vec::new(),
        }
    }
}

fn label_name(label: &Option<Label>) -> Option<String> {
    label.as_ref().map(|l| l.name.ident.to_string())
}

impl Walker {
    pub(crate) fn block_expr(&mut self, b: &ExprBlock) -> Result<Code> {
        let Some(label) = &b.label else {
            return self.block(&b.block, false);
        };
        let number = self.new_loop();
        let target = Loop {
            name: label_name(&b.label),
            number,
            kind: LoopKind::Block,
        };
        let (shadow, fields) = self.in_loop(target, |w| w.statements(&b.block, false))?;
        Ok(Code {
            shadow: quote!(#label #shadow),
            ast: node(
                b.span(),
                quote!(Block(Block { label: Some(#number), #fields })),
            ),
        })
    }

    /// `if let`, and `let` among other conditions.
    fn if_let(&mut self, i: &ExprIf) -> Result<Code> {
        let keyword = &i.if_token;
        let mut else_shadow = quote!();
        let (cond, then, ast) = self.under_condition(
            &i.cond,
            |w| w.block(&i.then_branch, false),
            |w| match &i.else_branch {
                Some((keyword, other)) => {
                    let code = w.expr(other)?;
                    let shadow = code.shadow;
                    else_shadow = quote!(#keyword #shadow);
                    Ok(code.ast)
                }
                None => Ok(node(i.span(), quote!(Tuple(&[])))),
            },
        )?;
        Ok(Code {
            shadow: quote!(#keyword #cond #then #else_shadow),
            ast,
        })
    }

    pub(crate) fn if_expr(&mut self, i: &ExprIf) -> Result<Code> {
        if has_let(&i.cond) {
            return self.if_let(i);
        }
        let cond = self.expr(&i.cond)?;
        let then = self.block(&i.then_branch, false)?;
        let (keyword, c, t) = (&i.if_token, cond.shadow, then.shadow);
        let (ca, ta) = (cond.ast, then.ast);
        let (else_shadow, else_ast) = match &i.else_branch {
            Some((keyword, other)) => {
                let code = self.expr(other)?;
                let (shadow, ast) = (code.shadow, code.ast);
                (quote!(#keyword #shadow), quote!(Some(&#ast)))
            }
            None => (quote!(), quote!(None)),
        };
        Ok(Code {
            shadow: quote!(#keyword #c #t #else_shadow),
            ast: node(i.span(), quote!(If(&#ca, &#ta, #else_ast))),
        })
    }

    pub(crate) fn while_loop(&mut self, w: &ExprWhile) -> Result<Code> {
        let number = self.new_loop();
        let target = Loop {
            name: label_name(&w.label),
            number,
            kind: LoopKind::Serial,
        };
        let (label, keyword) = (&w.label, &w.while_token);
        if has_let(&w.cond) {
            let (c, b, ast) = self.in_loop(target, |walker| {
                walker.under_condition(
                    &w.cond,
                    |walker| walker.block(&w.body, false),
                    |_| Ok(node(w.while_token.span(), quote!(Break(#number, None)))),
                )
            })?;
            return Ok(Code {
                shadow: quote!(#label #keyword #c #b),
                ast: node(w.while_token.span(), quote!(Loop(#number, &#ast))),
            });
        }
        let (cond, body) = self.in_loop(target, |walker| {
            Ok((walker.expr(&w.cond)?, walker.block(&w.body, false)?))
        })?;
        let (c, b) = (cond.shadow, body.shadow);
        let (ca, ba) = (cond.ast, body.ast);
        Ok(Code {
            shadow: quote!(#label #keyword #c #b),
            ast: node(w.while_token.span(), quote!(While(#number, &#ca, &#ba))),
        })
    }

    pub(crate) fn endless_loop(&mut self, l: &ExprLoop) -> Result<Code> {
        let number = self.new_loop();
        let target = Loop {
            name: label_name(&l.label),
            number,
            kind: LoopKind::Serial,
        };
        let body = self.in_loop(target, |w| w.block(&l.body, false))?;
        let (label, keyword, b, ast) = (&l.label, &l.loop_token, body.shadow, body.ast);
        Ok(Code {
            shadow: quote!(#label #keyword #b),
            ast: node(l.loop_token.span(), quote!(Loop(#number, &#ast))),
        })
    }

    /// The innermost loop, or the one with the label.
    fn target(&self, label: &Option<Lifetime>) -> Option<&Loop> {
        let mut loops = self.loops.iter().rev();
        match label {
            Some(label) => loops.find(|l| l.name.as_deref() == Some(&label.ident.to_string())),
            None => loops.find(|l| l.kind != LoopKind::Block),
        }
    }

    pub(crate) fn break_expr(&mut self, b: &ExprBreak) -> Result<Code> {
        // Without a target, rustc reports the error.
        let number = match self.target(&b.label) {
            Some(l) if l.kind == LoopKind::Parallel => {
                return unsupported(
                    b,
                    "`break` cannot leave a parallel loop: its iterations run at once\n\
                     help: `continue` ends one iteration; `serial(..)` around the domain makes the loop run in order",
                );
            }
            Some(l) => l.number,
            None => u32::MAX,
        };
        let (keyword, label) = (&b.break_token, &b.label);
        let (shadow, value) = match &b.expr {
            Some(e) => {
                let code = self.expr(e)?;
                let (shadow, ast) = (code.shadow, code.ast);
                (quote!(#keyword #label #shadow), quote!(Some(&#ast)))
            }
            None => (quote!(#keyword #label), quote!(None)),
        };
        Ok(Code {
            shadow,
            ast: node(b.span(), quote!(Break(#number, #value))),
        })
    }

    pub(crate) fn continue_expr(&mut self, c: &ExprContinue) -> Result<Code> {
        let number = self.target(&c.label).map_or(u32::MAX, |l| l.number);
        Ok(Code {
            shadow: quote!(#c),
            ast: node(c.span(), quote!(Continue(#number))),
        })
    }

    /// Refuses what returns where nothing can.
    fn can_return(&self, user: &impl ToTokens, what: &str) -> Result<()> {
        if self.closure_depth > 0 {
            return unsupported(
                user,
                format!("`{what}` is not supported in a closure inside a kernel"),
            );
        }
        if self.loops.iter().any(|l| l.kind == LoopKind::Parallel) {
            return unsupported(
                user,
                format!(
                    "`{what}` cannot leave a parallel loop: its iterations run concurrently\nhelp: `continue` ends one iteration"
                ),
            );
        }
        Ok(())
    }

    /// `e?` of an `Option`.
    pub(crate) fn try_expr(&mut self, t: &ExprTry) -> Result<Code> {
        self.can_return(&t.question_token, "?")?;
        let code = self.expr(&t.expr)?;
        let (shadow, ast, question) = (code.shadow, code.ast, &t.question_token);
        Ok(Code {
            shadow: quote!(#shadow #question),
            ast: node(t.span(), quote!(Try(&#ast))),
        })
    }

    pub(crate) fn return_expr(&mut self, r: &ExprReturn) -> Result<Code> {
        self.can_return(r, "return")?;
        let keyword = &r.return_token;
        let (shadow, value) = match &r.expr {
            Some(e) => {
                let code = self.expr(e)?;
                let (shadow, ast) = (code.shadow, code.ast);
                (quote!(#keyword #shadow), quote!(Some(&#ast)))
            }
            None => (quote!(#keyword), quote!(None)),
        };
        Ok(Code {
            shadow,
            ast: node(r.span(), quote!(Return(#value))),
        })
    }

    /// `top`: directly in the body of the kernel.
    pub(crate) fn for_loop(&mut self, f: &ExprForLoop, top: bool) -> Result<Code> {
        let Hinted {
            domain,
            hint,
            simd,
            cached,
        } = self.hinted(&f.expr)?;
        let lets = self.take_lets();
        let parallel = top && matches!(hint, Hint::None | Hint::BlockSize(_));
        if let (Hint::BlockSize(_), false) = (hint, top) {
            return unsupported(
                &f.expr,
                "only the outermost loops of a kernel run in blocks",
            );
        }
        if simd.is_some() && !parallel {
            return unsupported(
                &f.expr,
                "only the outermost loops of a kernel are `simd` or `scalar`",
            );
        }
        if !cached.is_empty() && !parallel {
            return unsupported(&f.expr, "only the outermost loops of a kernel cache fields");
        }
        if hint == Hint::Unroll && domain.points {
            return unsupported(&f.expr, "only loops over ranges can be unrolled");
        }
        let simd_hint = match simd {
            None => quote!(None),
            Some(yes) => quote!(Some(#yes)),
        };
        let mode = match hint {
            Hint::Unroll => quote!(LoopMode::Unroll),
            Hint::BlockSize(n) => {
                quote!(LoopMode::Parallel { block_size: Some(#n), simd: #simd_hint })
            }
            Hint::None if top => {
                quote!(LoopMode::Parallel { block_size: None, simd: #simd_hint })
            }
            Hint::None => quote!(LoopMode::Inner),
            Hint::Serial => quote!(LoopMode::Serial),
        };
        let number = self.new_loop();
        let target = Loop {
            name: label_name(&f.label),
            number,
            kind: if parallel {
                LoopKind::Parallel
            } else {
                LoopKind::Serial
            },
        };
        if parallel && domain.items.as_ref().is_some_and(Items::exclusive) {
            return unsupported(
                &f.expr,
                "a parallel loop cannot change an array of the kernel: its iterations run at once\n\
                 help: `serial(..)` around it makes the loop run in order",
            );
        }
        let walk = |w: &mut Walker| {
            w.in_loop(target, |w| {
                w.scoped(|w| match &domain.items {
                    Some(items) => w.items_body(items, f),
                    None => {
                        let pat = w.pattern(&f.pat)?;
                        w.mark_names(&f.pat);
                        Ok((pat, w.block(&f.body, false)?))
                    }
                })
            })
        };
        let (pat_ast, body) = if parallel {
            self.parallel(walk)?
        } else {
            walk(self)?
        };
        let iterator = match (domain.points, slice_pattern(&f.pat)) {
            (false, _) => domain.shadow.clone(),
            (true, true) => helper("each_array", domain.shadow.clone(), &f.expr),
            (true, false) => helper("each_vector", domain.shadow.clone(), &f.expr),
        };
        let (label, keyword, pat, within) = (&f.label, &f.for_token, &f.pat, &f.in_token);
        let (shadow, ast, range) = (body.shadow, body.ast, domain.ast);
        let kind = quote!(For(&For {
            label: #number, mode: #mode, pat: #pat_ast, domain: #range, cached: &[#(#cached),*], body: #ast
        }));
        let code = Code {
            shadow: quote!(#label #keyword #pat #within #iterator #shadow),
            ast: node(f.for_token.span(), kind),
        };
        let prelude = domain.items.map(|i| i.prelude).unwrap_or_default();
        let code = with_prelude(code, &prelude, f.for_token.span());
        Ok(Walker::with_lets(code, &lets, &f.for_token))
    }

    /// The body of a loop over items: the statements that bind them, and the user's.
    fn items_body(&mut self, items: &Items, f: &ExprForLoop) -> Result<(TokenStream, Code)> {
        let bound = self.bind_items(items, &f.pat)?;
        let body = self.block(&f.body, false)?;
        let (counter, ast) = (items.counter, body.ast);
        let block = quote!(Block { label: None, statements: &[#(#bound),*], value: Some(&#ast) });
        let code = Code {
            shadow: body.shadow,
            ast: node(f.body.span(), quote!(Block(#block))),
        };
        Ok((quote!(Pat::Var { var: #counter, mutable: false }), code))
    }

    /// A domain with hints around it: `unroll(..)`, `serial(..)`, `block_size(n, ..)`, `simd(..)`, `scalar(..)`,
    /// `cache(x, ..)`.
    fn hinted(&mut self, e: &Expr) -> Result<Hinted> {
        let Expr::Call(c) = e else {
            return Ok(Hinted::plain(self.domain(e)?));
        };
        let args: Vec<&Expr> = c.args.iter().collect();
        let mut cached = None;
        let mut simd = None;
        let (hint, first, inner) = match args[..] {
            [inner] if ends_in(&c.func, "unroll") => (Hint::Unroll, None, inner),
            [inner] if ends_in(&c.func, "serial") => (Hint::Serial, None, inner),
            [inner] if ends_in(&c.func, "simd") => {
                simd = Some(true);
                (Hint::None, None, inner)
            }
            [inner] if ends_in(&c.func, "scalar") => {
                simd = Some(false);
                (Hint::None, None, inner)
            }
            [field, inner] if ends_in(&c.func, "cache") => {
                let Some(var) = self.data_variable(field)? else {
                    return unsupported(field, "the first argument of `cache` is a field");
                };
                cached = Some(var as u32);
                let shadow = self.data_shadow(field, var);
                (Hint::None, Some(quote!(&#shadow)), inner)
            }
            [n, inner] if ends_in(&c.func, "block_size") => {
                let size = match n {
                    Expr::Lit(ExprLit {
                        lit: Lit::Int(i), ..
                    }) => i.base10_parse::<u32>().ok().filter(|n| *n > 0),
                    _ => None,
                };
                match size {
                    Some(size) => (Hint::BlockSize(size), Some(quote!(#n)), inner),
                    None => return unsupported(n, "the size of a block is a positive number"),
                }
            }
            _ => return Ok(Hinted::plain(self.domain(e)?)),
        };
        let Hinted {
            domain,
            hint: below,
            simd: other,
            cached: mut all,
        } = self.hinted(inner)?;
        if simd.is_some() && other.is_some() {
            return unsupported(inner, "these hints exclude each other");
        }
        let hint = match (hint, below) {
            (own, Hint::None) => own,
            (Hint::None, below) => below,
            _ => return unsupported(inner, "these hints exclude each other"),
        };
        all.extend(cached);
        let (func, shadow) = (&c.func, domain.shadow);
        let first = first.map(|n| quote!(#n,));
        let args = parens(quote!(#first #shadow), c.paren_token.span.join());
        let domain = Domain {
            shadow: quote!(#func #args),
            ..domain
        };
        Ok(Hinted {
            domain,
            hint,
            simd: simd.or(other),
            cached: all,
        })
    }

    fn domain(&mut self, e: &Expr) -> Result<Domain> {
        if let Some(var) = self.data_variable(e)? {
            let number = var as u32;
            // An exclusive reference is borrowed, not moved into the loop.
            let shadow = match self.vars[var].kind {
                VarKind::Data { exclusive: true } => quote!(&#e),
                _ => self.data_shadow(e, var),
            };
            return Ok(Domain {
                shadow,
                ast: quote!(Domain::Data(#number)),
                points: true,
                items: None,
            });
        }
        match e {
            Expr::Call(c) if ends_in(&c.func, "grid") => self.grid(c),
            _ if is_range(e) => {
                let mut adapters = Vec::new();
                let (shadow, range) = self.range(e, &mut adapters)?;
                Ok(Domain {
                    shadow,
                    ast: quote!(Domain::Range(#range)),
                    points: false,
                    items: None,
                })
            }
            _ => self.items(e),
        }
    }

    fn grid(&mut self, c: &ExprCall) -> Result<Domain> {
        let args: Vec<&Expr> = c.args.iter().collect();
        let [Expr::Array(ranges)] = args[..] else {
            return unsupported(c, "`grid` takes one range per axis: `grid([0..n, 0..m])`");
        };
        let mut shadows = Vec::new();
        let mut asts = Vec::new();
        for r in &ranges.elems {
            if !matches!(r, Expr::Range(_)) {
                return unsupported(r, "`grid` takes one range per axis: `grid([0..n, 0..m])`");
            }
            let (shadow, ast) = self.range(r, &mut Vec::new())?;
            shadows.push(shadow);
            asts.push(ast);
        }
        if asts.is_empty() || asts.len() > 8 {
            return unsupported(ranges, "a grid has 1 to 8 axes");
        }
        let array = group(
            Delimiter::Bracket,
            quote!(#(#shadows),*),
            ranges.bracket_token.span.join(),
        );
        let args = parens(array, c.paren_token.span.join());
        let func = &c.func;
        Ok(Domain {
            shadow: quote!(#func #args),
            ast: quote!(Domain::Grid(&[#(#asts),*])),
            points: true,
            items: None,
        })
    }

    /// A range with its adapters; returns the shadow and an `ast::Range`.
    fn range(
        &mut self,
        e: &Expr,
        adapters: &mut Vec<TokenStream>,
    ) -> Result<(TokenStream, TokenStream)> {
        match e {
            Expr::Paren(p) => {
                let (shadow, ast) = self.range(&p.expr, adapters)?;
                Ok((parens(shadow, p.paren_token.span.join()), ast))
            }
            Expr::Group(g) => self.range(&g.expr, adapters),
            Expr::Range(r) => {
                let (Some(start), Some(end)) = (&r.start, &r.end) else {
                    return unsupported(r, "a range inside a kernel needs both ends");
                };
                let (low, high) = (self.expr(start)?, self.expr(end)?);
                let (ls, hs, limits) = (low.shadow, high.shadow, &r.limits);
                let (la, ha) = (low.ast, high.ast);
                let inclusive = matches!(r.limits, RangeLimits::Closed(_));
                let at = at(r.span());
                // The innermost call comes first.
                adapters.reverse();
                Ok((
                    quote!(#ls #limits #hs),
                    quote!(Range {
                        at: #at, low: #la, high: #ha, inclusive: #inclusive, adapters: &[#(#adapters),*]
                    }),
                ))
            }
            Expr::MethodCall(m) if m.method == "rev" && m.args.is_empty() => {
                adapters.push(quote!(Adapter::Rev));
                let (shadow, ast) = self.range(&m.receiver, adapters)?;
                let (dot, method) = (&m.dot_token, &m.method);
                let args = parens(quote!(), m.paren_token.span.join());
                Ok((quote!(#shadow #dot #method #args), ast))
            }
            Expr::MethodCall(m) if m.method == "step_by" && m.args.len() == 1 => {
                let step = self.expr(&m.args[0])?;
                let (step_shadow, step) = (step.shadow, step.ast);
                adapters.push(quote!(Adapter::StepBy(#step)));
                let (shadow, ast) = self.range(&m.receiver, adapters)?;
                let (dot, method) = (&m.dot_token, &m.method);
                let args = parens(step_shadow, m.paren_token.span.join());
                Ok((quote!(#shadow #dot #method #args), ast))
            }
            _ => unsupported(e, DOMAINS),
        }
    }
}

fn slice_pattern(p: &Pat) -> bool {
    match p {
        Pat::Slice(_) => true,
        Pat::Paren(p) => slice_pattern(&p.pat),
        _ => false,
    }
}
