//! Bundles inside a body: members, `self.u`, and chains of members and indices, `self.levels[k].u`.
//!
//! The macro does not know types, so a member may be a field, a value, an array or another bundle. rustc decides in the shadow; in the static
//! data a member is a variable, and lowering finds what is behind it.

use crate::pattern::member as member_name;
use crate::place::both;
use crate::scope::{Code, VarKind, Walker, unsupported};
use crate::span::{ends, helper, node, parens};
use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use std::cell::RefCell;
use syn::{Error, Expr, ExprCall, ExprIndex, ExprMethodCall, Pat, Result, spanned::Spanned};

/// The bundles of a function, and what it uses of them.
#[derive(Default)]
pub(crate) struct Members {
    roots: Vec<Root>,
    /// The members that the body uses, by the variable of their bundle. The path of a whole bundle is empty.
    used: RefCell<Vec<(usize, Vec<String>)>>,
    /// Names of data for the next node of the static data.
    lets: Vec<TokenStream>,
    /// The shadow of data that has such a name.
    shadows: Vec<(usize, TokenStream)>,
}

/// A variable that may be a bundle.
struct Root {
    var: usize,
    /// The type of a parameter.
    ty: Option<TokenStream>,
}

impl Walker {
    /// Declares a parameter that may be a bundle.
    pub(crate) fn declare_root(&mut self, name: &Ident, ty: TokenStream) -> u32 {
        let var = self.declare(&name.to_string(), VarKind::Data { exclusive: false });
        self.members.roots.push(Root {
            var: var as usize,
            ty: Some(ty),
        });
        var
    }

    /// The paths of the members that the body uses, sorted, so that those with a common start are neighbours.
    pub(crate) fn used_members(&self, root: u32) -> Vec<Vec<String>> {
        let used = self.members.used.borrow();
        let of_root = used.iter().filter(|u| u.0 == root as usize);
        let mut paths: Vec<Vec<String>> = of_root.map(|u| u.1.clone()).collect();
        paths.sort();
        paths.dedup();
        paths
    }

    /// Records that the body uses a bundle as a whole.
    pub(crate) fn mark_whole(&self, var: usize) {
        self.mark(var, Vec::new());
    }

    fn mark(&self, var: usize, path: Vec<String>) {
        self.members.used.borrow_mut().push((var, path));
    }

    fn root(&self, e: &Expr) -> Option<&Root> {
        let var = self.variable(e)?;
        self.members.roots.iter().find(|r| r.var == var)
    }

    /// Whether an expression begins at a bundle: members, and items of arrays.
    pub(crate) fn is_chain(&self, e: &Expr) -> bool {
        match strip(e) {
            Expr::Field(f) => self.root(&f.base).is_some() || self.is_chain(&f.base),
            // `x[[i, j]]` is an element, and no chain continues there.
            Expr::Index(ix) if !matches!(&*ix.index, Expr::Array(_)) => self.is_member(&ix.expr),
            _ => false,
        }
    }

    /// Whether it is another name of a member.
    pub(crate) fn is_named_member(&self, e: &Expr) -> bool {
        self.root(e).is_some_and(|r| r.ty.is_none())
    }

    /// Whether it is a member, or another name of one.
    pub(crate) fn is_member(&self, e: &Expr) -> bool {
        self.is_named_member(e) || self.is_chain(e)
    }

    /// Whether it is a member, without an index on the way.
    fn is_path(&self, e: &Expr) -> bool {
        match strip(e) {
            Expr::Field(f) => self.root(&f.base).is_some() || self.is_path(&f.base),
            _ => false,
        }
    }

    /// A chain, as an expression that is not moved from. `write`: on the left of an assignment.
    pub(crate) fn chain(&mut self, e: &Expr, write: bool) -> Result<Code> {
        let e = strip(e);
        if let Some((var, path)) = self.path(e) {
            self.mark(var, path);
        }
        self.link(e, write)
    }

    /// The bundle that a path of members begins at, and the names of the members.
    fn path(&self, e: &Expr) -> Option<(usize, Vec<String>)> {
        let e = strip(e);
        if let Some(root) = self.root(e) {
            return Some((root.var, Vec::new()));
        }
        let Expr::Field(f) = e else {
            return None;
        };
        let (var, mut path) = self.path(&f.base)?;
        path.push(member_name(&f.member));
        Some((var, path))
    }

    /// A part of a chain.
    fn link(&mut self, e: &Expr, write: bool) -> Result<Code> {
        let e = strip(e);
        match e {
            Expr::Field(f) => {
                let base = self.link(&f.base, write)?;
                let shadow = self.opened(&f.base, base.shadow);
                let (dot, m) = (&f.dot_token, &f.member);
                let (name, base) = (member_name(m), base.ast);
                Ok(Code {
                    shadow: quote!(#shadow #dot #m),
                    ast: node(m.span(), quote!(Field(&#base, #name))),
                })
            }
            Expr::Index(ix) => self.part(ix, write),
            _ => match self.variable(e) {
                Some(var) => {
                    let (first, last) = ends(e);
                    let shadow = parens(quote_spanned!(first=> *#e), last);
                    Ok(variable(e, shadow, var))
                }
                None => unsupported(e, "this is not a bundle"),
            },
        }
    }

    /// The start of a longer chain: of a `Param`, its value. A parameter of the function is no `Param`.
    fn opened(&self, e: &Expr, shadow: TokenStream) -> TokenStream {
        match self.root(strip(e)) {
            Some(Root { ty: Some(_), .. }) => quote!(#e),
            Some(Root { ty: None, .. }) | None => opened(e, &shadow),
        }
    }

    /// `self.x[k]`: an element of a field, an item of an array, or a component.
    pub(crate) fn part(&mut self, e: &ExprIndex, write: bool) -> Result<Code> {
        let base = self.chain(&e.expr, write)?;
        let (index, asts) = self.indices(&e.index)?;
        let (first, last) = ends(e);
        let (from, _) = ends(&e.expr);
        let (shadow, base) = (self.opened(&e.expr, base.shadow), base.ast);
        let of_member = self.root(&e.expr).is_some() || self.is_path(&e.expr);
        let name = match (write, of_member) {
            (false, _) => "part",
            (true, true) => "member_part_mut",
            (true, false) => "part_mut",
        };
        let call = helper(name, quote_spanned!(from=> & #shadow, #index), e);
        let deref = quote_spanned!(first=> *#call);
        Ok(Code {
            shadow: parens(deref, first.join(last).unwrap_or(first)),
            ast: node(e.index.span(), quote!(Index(&#base, &[#(#asts),*]))),
        })
    }

    /// A chain that is read.
    pub(crate) fn chain_value(&mut self, e: &Expr) -> Result<Code> {
        let Code { shadow, ast } = self.chain(e, false)?;
        let (first, _) = ends(e);
        let shadow = helper("member_value", quote_spanned!(first=> & #shadow), e);
        Ok(Code { shadow, ast })
    }

    /// Rejects an assignment to a member itself.
    pub(crate) fn no_member_change(&self, e: &Expr) -> Result<()> {
        if self.is_path(e) {
            return unsupported(
                e,
                "a kernel cannot change the members of a bundle\n\
                 help: elements of fields can be changed, `self.x[[i, j]] = v`; a value is copied with `let mut v = self.v`",
            );
        }
        Ok(())
    }

    /// A reference to what a chain ends in.
    pub(crate) fn borrowed_chain(&mut self, e: &Expr) -> Result<Code> {
        let Code { shadow, ast } = self.chain(e, false)?;
        let (first, last) = ends(e);
        let shadow = parens(quote_spanned!(first=> &#shadow), last);
        Ok(Code { shadow, ast })
    }

    /// The variable of a field or array; a chain with indices gets one, and [`Walker::with_lets`] binds it.
    pub(crate) fn data_variable(&mut self, e: &Expr) -> Result<Option<usize>> {
        if let Some(var) = self.data(e) {
            return Ok(Some(var));
        }
        if !self.is_chain(e) {
            return Ok(None);
        }
        let Code { shadow, ast } = self.borrowed_chain(e)?;
        let var = self.declare("", VarKind::Data { exclusive: false });
        self.members.shadows.push((var as usize, shadow));
        let name = node(e.span(), quote!(LetData(#var, &#ast)));
        self.members.lets.push(name);
        Ok(Some(var as usize))
    }

    /// A reference to the data of a variable, for rustc.
    pub(crate) fn data_shadow(&self, e: &Expr, var: usize) -> TokenStream {
        let named = self.members.shadows.iter().find(|s| s.0 == var);
        match named {
            Some((_, shadow)) => shadow.clone(),
            None => quote!(#e),
        }
    }

    pub(crate) fn take_lets(&mut self) -> Vec<TokenStream> {
        std::mem::take(&mut self.members.lets)
    }

    /// A node of the static data after names that it uses.
    pub(crate) fn with_lets(code: Code, lets: &[TokenStream], e: &impl Spanned) -> Code {
        if lets.is_empty() {
            return code;
        }
        let Code { shadow, ast } = code;
        let block =
            quote!(Block(Block { label: None, statements: &[#(#lets),*], value: Some(&#ast) }));
        Code {
            shadow,
            ast: node(e.span(), block),
        }
    }

    /// The data behind `&self.u`, as an argument or for a name.
    fn borrowed<'e>(&self, e: &'e Expr) -> Option<&'e Expr> {
        match strip(e) {
            Expr::Reference(r) if r.mutability.is_none() && self.is_chain(&r.expr) => Some(&r.expr),
            _ => None,
        }
    }

    /// Whether it is a parameter that is no receiver: a field, by another name of its type, or a bundle.
    pub(crate) fn is_named_data(&self, e: &Expr) -> bool {
        self.root(e).is_some() && !matches!(strip(e), Expr::Path(p) if p.path.is_ident("self"))
    }

    /// An argument of a function that is a field, an array or a bundle.
    pub(crate) fn data_argument(&mut self, e: &Expr) -> Result<Option<Code>> {
        if let Some(var) = self.data(e) {
            return Ok(Some(self.data_code(e, var)));
        }
        let Some(inner) = self.borrowed(e).cloned() else {
            return Ok(None);
        };
        let Code { shadow, ast } = self.chain(&inner, false)?;
        let (first, _) = ends(e);
        Ok(Some(Code {
            shadow: quote_spanned!(first=> &#shadow),
            ast,
        }))
    }

    /// `let u = &self.u` and `let (u, v) = (&self.u, &self.v)`: other names for data.
    pub(crate) fn let_data(&mut self, pat: &Pat, value: &Expr) -> Result<Option<Code>> {
        match (pat, strip(value)) {
            (Pat::Ident(name), value) => self.name_data(&name.ident, value),
            (Pat::Tuple(names), Expr::Tuple(values)) => {
                if !values.elems.iter().all(|v| self.borrowed(v).is_some()) {
                    return Ok(None);
                }
                let mut codes = Vec::new();
                for (pat, value) in names.elems.iter().zip(&values.elems) {
                    if let Pat::Ident(name) = pat {
                        codes.extend(self.name_data(&name.ident, value)?);
                    }
                }
                if codes.len() != names.elems.len() {
                    return unsupported(names, "fields get plain names");
                }
                let (shadows, asts) = both(codes);
                let block =
                    quote!(Block(Block { label: None, statements: &[#(#asts),*], value: None }));
                Ok(Some(Code {
                    shadow: parens(quote!(#(#shadows,)*), values.paren_token.span.join()),
                    ast: node(value.span(), block),
                }))
            }
            _ => Ok(None),
        }
    }

    fn name_data(&mut self, name: &Ident, value: &Expr) -> Result<Option<Code>> {
        let Some(inner) = self.borrowed(value).cloned() else {
            return Ok(None);
        };
        let Code { shadow, ast } = self.chain(&inner, false)?;
        let var = self.declare(&name.to_string(), VarKind::Data { exclusive: false });
        self.members.roots.push(Root {
            var: var as usize,
            ty: None,
        });
        let (first, _) = ends(value);
        Ok(Some(Code {
            shadow: quote_spanned!(first=> &#shadow),
            ast: node(value.span(), quote!(LetData(#var, &#ast))),
        }))
    }

    /// `self.f(x)` of a `#[func]` that takes the bundle, as a call of `Self::f`.
    pub(crate) fn bundle_call(&self, m: &ExprMethodCall) -> Option<ExprCall> {
        let ty = self.root(&m.receiver)?.ty.clone()?;
        let (receiver, method, args) = (&m.receiver, &m.method, &m.args);
        let span = method.span();
        let turbofish = &m.turbofish;
        let func: Expr = syn::parse_quote_spanned!(span=> <#ty>::#method #turbofish);
        let inner = if args.is_empty() {
            quote!(#receiver)
        } else {
            quote!(#receiver, #args)
        };
        let args = parens(inner, m.paren_token.span.join());
        syn::parse2(quote!(#func #args)).ok()
    }
}

fn variable(e: &Expr, shadow: TokenStream, var: usize) -> Code {
    let number = var as u32;
    Code {
        shadow,
        ast: node(e.span(), quote!(Var(#number))),
    }
}

/// The start of a longer chain, behind its `Param`.
pub(crate) fn opened(e: &Expr, shadow: &TokenStream) -> TokenStream {
    let (first, last) = ends(e);
    let method = Ident::new("__wuji_opened", first);
    parens(quote_spanned!(first=> *#shadow.#method()), last)
}

fn strip(e: &Expr) -> &Expr {
    match e {
        Expr::Paren(p) => strip(&p.expr),
        Expr::Group(g) => strip(&g.expr),
        other => other,
    }
}

/// The body with another name for `self`: a `#[func]` that takes a bundle is no method for rustc.
pub(crate) fn without_self(tokens: TokenStream, name: &Ident) -> TokenStream {
    let replace = |token| match token {
        TokenTree::Group(g) => {
            let mut inner = proc_macro2::Group::new(g.delimiter(), without_self(g.stream(), name));
            inner.set_span(g.span());
            TokenTree::Group(inner)
        }
        TokenTree::Ident(i) if i == "self" => TokenTree::Ident(Ident::new(
            &name.to_string(),
            name.span().located_at(i.span()),
        )),
        other => other,
    };
    tokens.into_iter().map(replace).collect()
}

/// The receiver of a kernel or `#[func]` that takes a bundle.
pub(crate) fn shared_receiver(r: &syn::Receiver) -> Result<()> {
    let shared = matches!(&r.kind, syn::ReceiverKind::Reference(_, _, None));
    if shared {
        return Ok(());
    }
    Err(Error::new_spanned(
        r.to_token_stream(),
        "a kernel takes its bundle as `&self`: elements of fields can be changed through a shared reference",
    ))
}
