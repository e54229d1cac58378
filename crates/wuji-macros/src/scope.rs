//! The state of a walk over a body: variables, loops, and the slots allocated so far.

use crate::member::Members;
use crate::span::{ends, group, own, parens};
use proc_macro2::{Delimiter, Ident, Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::{Error, Expr, Result, spanned::Spanned};

/// Code in both forms.
pub(crate) struct Code {
    /// Plain Rust.
    pub(crate) shadow: TokenStream,
    /// The literal of an `ast::Expr`.
    pub(crate) ast: TokenStream,
}

#[derive(Copy, Clone, PartialEq, Eq)]
pub(crate) enum VarKind {
    Value,
    /// A parameter behind a reference: a field, an array or a world. `exclusive`: behind `&mut`.
    Data {
        exclusive: bool,
    },
    Closure,
}

pub(crate) struct Var {
    pub(crate) name: String,
    pub(crate) kind: VarKind,
    /// Declared with `mut`, or behind `&mut`.
    pub(crate) mutable: bool,
    /// A reference to a value. Its uses are dereferenced.
    pub(crate) reference: bool,
    /// Surely of a type of the language, or data with such elements.
    pub(crate) plain: bool,
    /// How many arguments a closure takes.
    pub(crate) arity: usize,
    /// Declared inside the current parallel loop.
    pub(crate) inside: bool,
    pub(crate) shared: bool,
    /// The number of enclosing closures at its declaration.
    closure_depth: usize,
}

#[derive(Copy, Clone, PartialEq, Eq)]
pub(crate) enum LoopKind {
    Parallel,
    Serial,
    /// A labelled block.
    Block,
}

pub(crate) struct Loop {
    pub(crate) name: Option<String>,
    pub(crate) number: u32,
    pub(crate) kind: LoopKind,
}

pub(crate) struct Walker {
    pub(crate) kernel: bool,
    /// A span of the user's code, so that rustc does not mention our macro. One for all our names, because the tokens
    /// may come from several `macro_rules` macros.
    hygiene: Span,
    pub(crate) vars: Vec<Var>,
    /// Names in scope, innermost last.
    names: Vec<(String, usize)>,
    pub(crate) loops: Vec<Loop>,
    loop_count: u32,
    pub(crate) closure_depth: usize,
    /// In a pattern with `|`: the number of the first variable of the pattern.
    pub(crate) alternatives: Option<usize>,
    pub(crate) slots: Vec<Ident>,
    /// Statements that read the slots.
    pub(crate) types: Vec<TokenStream>,
    pub(crate) constants: Vec<TokenStream>,
    pub(crate) callees: Vec<TokenStream>,
    /// Items of the body. Both of its forms need them, so they stand in front.
    pub(crate) items: Vec<TokenStream>,
    /// In a parallel loop: outer variables that it reads, with positions.
    outer_reads: Vec<(usize, Span)>,
    in_parallel: bool,
    pub(crate) members: Members,
}

impl Walker {
    pub(crate) fn new(kernel: bool, hygiene: Span) -> Walker {
        Walker {
            kernel,
            hygiene,
            vars: Vec::new(),
            names: Vec::new(),
            loops: Vec::new(),
            loop_count: 0,
            closure_depth: 0,
            alternatives: None,
            slots: Vec::new(),
            types: Vec::new(),
            constants: Vec::new(),
            callees: Vec::new(),
            items: Vec::new(),
            outer_reads: Vec::new(),
            in_parallel: false,
            members: Members::default(),
        }
    }

    pub(crate) fn slot(&mut self, span: Span) -> Ident {
        let span = self.hygiene.located_at(span);
        let ident = Ident::new(&format!("__slot{}", self.slots.len()), span);
        self.slots.push(ident.clone());
        ident
    }

    /// Binds the type of an expression to a slot; returns the expression and the number of the type.
    pub(crate) fn probe(
        &mut self,
        user: &impl ToTokens,
        shadow: TokenStream,
    ) -> (TokenStream, u32) {
        let (first, last) = ends(user);
        let slot = self.slot(first);
        let other = group(
            Delimiter::Brace,
            quote_spanned!(first=> ::wuji::__private::val(&#slot)),
            last,
        );
        let span = user.to_token_stream().span();
        let shadow = parens(
            quote_spanned!(first=> if true { #shadow } else #other),
            span,
        );
        let read = slot_ref(&slot, first, last);
        let recorder = own("__recorder", first);
        self.types
            .push(quote_spanned!(first=> #recorder.ty(#read);));
        (shadow, self.types.len() as u32 - 1)
    }

    /// The number of a type that is written in the source.
    pub(crate) fn written_type(&mut self, read: TokenStream) -> u32 {
        self.types.push(read);
        self.types.len() as u32 - 1
    }

    /// A slot for a callee, the statement that reads it, and the number of the callee.
    pub(crate) fn callee(
        &mut self,
        user: &impl ToTokens,
        read: impl FnOnce(TokenStream) -> TokenStream,
    ) -> (Ident, u32) {
        let (first, last) = ends(user);
        let slot = self.slot(first);
        let statement = read(slot_ref(&slot, first, last));
        self.callees.push(statement);
        (slot, self.callees.len() as u32 - 1)
    }

    pub(crate) fn constant(&mut self, user: &impl ToTokens) -> u32 {
        let (first, last) = ends(user);
        let args = parens(user.to_token_stream(), last);
        let recorder = own("__recorder", first);
        self.constants
            .push(quote_spanned!(first=> #recorder.constant #args;));
        self.constants.len() as u32 - 1
    }

    /// A constant whose type depends on its use, like `None`: its expression, and its number.
    pub(crate) fn typed_constant(&mut self, user: &impl ToTokens) -> (TokenStream, u32) {
        let (first, last) = ends(user);
        let slot = self.slot(first);
        let pinned = parens(quote_spanned!(first=> &#slot, #user), last);
        let args = parens(quote_spanned!(first=> &#slot, #user), last);
        let recorder = own("__recorder", first);
        self.constants
            .push(quote_spanned!(first=> #recorder.constant_of #args;));
        (
            quote_spanned!(first=> ::wuji::__private::probe #pinned),
            self.constants.len() as u32 - 1,
        )
    }

    pub(crate) fn declare(&mut self, name: &str, kind: VarKind) -> u32 {
        self.vars.push(Var {
            name: name.to_string(),
            kind,
            mutable: false,
            reference: false,
            plain: false,
            arity: 0,
            inside: self.in_parallel,
            shared: false,
            closure_depth: self.closure_depth,
        });
        self.names.push((name.to_string(), self.vars.len() - 1));
        self.vars.len() as u32 - 1
    }

    /// Declares a variable that is a reference to a value.
    pub(crate) fn declare_reference(&mut self, name: &str, mutable: bool) -> u32 {
        let var = self.declare(name, VarKind::Value);
        let v = &mut self.vars[var as usize];
        (v.reference, v.mutable) = (true, mutable);
        var
    }

    /// The `&mut` parameter or variable that an expression is, if it is one.
    pub(crate) fn exclusive_reference(&self, e: &Expr) -> Option<usize> {
        self.variable(e).filter(|v| {
            let v = &self.vars[*v];
            v.reference && v.mutable
        })
    }

    /// Whether an expression is a variable that is a reference to a value.
    pub(crate) fn is_reference(&self, e: &Expr) -> bool {
        self.variable(e).is_some_and(|v| self.vars[v].reference)
    }

    /// A variable as rustc sees it where its value is meant.
    pub(crate) fn value_of(&self, var: usize, e: &Expr) -> TokenStream {
        if !self.vars[var].reference {
            return e.to_token_stream();
        }
        let (first, last) = ends(e);
        parens(quote_spanned!(first=> *#e), last)
    }

    /// Whether a closure has a variable from outside of it.
    pub(crate) fn is_captured(&self, var: usize) -> bool {
        self.vars[var].closure_depth < self.closure_depth
    }

    /// A variable with a name that users cannot write.
    pub(crate) fn hidden(&mut self) -> u32 {
        self.declare("", VarKind::Value)
    }

    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        let found = self.names.iter().rev().find(|n| n.0 == name);
        found.map(|n| n.1)
    }

    /// The variable that an expression refers to, if it is one.
    pub(crate) fn variable(&self, e: &Expr) -> Option<usize> {
        match e {
            Expr::Path(p) if p.qself.is_none() => self.find(&p.path.get_ident()?.to_string()),
            Expr::Paren(p) => self.variable(&p.expr),
            Expr::Group(g) => self.variable(&g.expr),
            _ => None,
        }
    }

    /// The field or array that an expression refers to, if it is one.
    pub(crate) fn data(&self, e: &Expr) -> Option<usize> {
        let var = self.variable(e)?;
        let found = matches!(self.vars[var].kind, VarKind::Data { .. }).then_some(var)?;
        self.mark_whole(found);
        Some(found)
    }

    /// Runs `f` and removes the names it declared.
    pub(crate) fn scoped<T>(&mut self, f: impl FnOnce(&mut Walker) -> Result<T>) -> Result<T> {
        let depth = self.names.len();
        let result = f(self);
        self.names.truncate(depth);
        result
    }

    pub(crate) fn new_loop(&mut self) -> u32 {
        self.loop_count += 1;
        self.loop_count - 1
    }

    /// Runs `f` inside of a loop or labelled block.
    pub(crate) fn in_loop<T>(
        &mut self,
        l: Loop,
        f: impl FnOnce(&mut Walker) -> Result<T>,
    ) -> Result<T> {
        self.loops.push(l);
        let result = f(self);
        self.loops.pop();
        result
    }

    /// Runs `f` as the body of a parallel loop, and checks its use of outer variables.
    pub(crate) fn parallel<T>(&mut self, f: impl FnOnce(&mut Walker) -> Result<T>) -> Result<T> {
        let before: Vec<bool> = self.vars.iter().map(|v| v.shared).collect();
        for v in &mut self.vars {
            v.inside = false;
            v.shared = false;
        }
        self.in_parallel = true;
        self.outer_reads.clear();
        let result = f(self);
        self.in_parallel = false;
        for (var, span) in std::mem::take(&mut self.outer_reads) {
            if self.vars[var].shared && result.is_ok() {
                let name = &self.vars[var].name;
                return Err(Error::new(
                    span,
                    format!(
                        "`{name}` is being summed up by this parallel loop: its value is known after the loop\n\
                         help: use `serial(..)` around the domain if the iterations must run in order"
                    ),
                ));
            }
        }
        for (v, shared) in self.vars.iter_mut().zip(before) {
            v.shared |= shared;
        }
        result
    }

    /// Whether all iterations of the enclosing parallel loop share a variable.
    pub(crate) fn is_shared(&self, var: usize) -> bool {
        let v = &self.vars[var];
        self.in_parallel && !v.inside && v.kind == VarKind::Value
    }

    /// Records a read of an outer variable.
    pub(crate) fn reads(&mut self, var: usize, span: Span) {
        if self.in_parallel && !self.vars[var].inside {
            self.outer_reads.push((var, span));
        }
    }

    /// Records an assignment to a variable; `reduces` if by an operator whose order does not matter.
    pub(crate) fn writes(&mut self, var: usize, span: Span, reduces: bool) -> Result<()> {
        let v = &mut self.vars[var];
        let name = &v.name;
        match v.kind {
            VarKind::Data { .. } | VarKind::Closure => {
                return Err(Error::new(span, format!("`{name}` cannot be assigned to")));
            }
            VarKind::Value => {}
        }
        if v.closure_depth < self.closure_depth {
            return Err(Error::new(
                span,
                format!(
                    "a closure inside of a kernel cannot change `{name}`, which is declared outside of it"
                ),
            ));
        }
        if self.in_parallel && !v.inside {
            if !reduces {
                return Err(Error::new(
                    span,
                    format!(
                        "the iterations of a parallel loop run at once, so they cannot assign to `{name}`, which all of them share\n\
                         help: reduce with `+=`, `*=`, `&=`, `|=`, `^=`, `s = s.min(..)` or `s = s.max(..)`, declare the variable inside of the loop, \
                         or run the loop in order with `serial(..)`"
                    ),
                ));
            }
            v.shared = true;
        }
        Ok(())
    }
}

/// `&slot`, with the span of its expression: rustc reports errors at arguments.
fn slot_ref(slot: &Ident, first: Span, last: Span) -> TokenStream {
    let mut slot = slot.clone();
    slot.set_span(slot.span().located_at(last));
    quote_spanned!(first=> &#slot)
}

pub(crate) fn unsupported<T>(user: &impl ToTokens, message: impl std::fmt::Display) -> Result<T> {
    Err(Error::new_spanned(user, message))
}
