//! The parameters of kernels and functions.

use crate::closure::closure_arity;
use crate::member::shared_receiver;
use crate::plain::is_plain_type;
use crate::reference::{is_value_reference, reference_param};
use crate::scope::{VarKind, Walker, unsupported};
use crate::span::{at, ends, own, parens};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{
    FnArg, GenericArgument, ItemFn, Pat, PatType, PathArguments, Receiver, ReceiverKind, Result,
    Type, spanned::Spanned,
};

/// The parameters in their various forms.
pub(crate) struct Params {
    /// Literals of `ast::Param`.
    pub(crate) asts: Vec<TokenStream>,
    /// In a kernel: statements that bind the arguments to the call.
    pub(crate) bind: Vec<TokenStream>,
    pub(crate) worlds: Vec<Ident>,
    /// In a kernel: what may be a bundle.
    roots: Vec<RootParam>,
    /// Whether some are closures.
    pub(crate) closures: bool,
}

/// A parameter of a kernel that may be a bundle. What the kernel uses of it is known after the body was walked.
struct RootParam {
    var: u32,
    name: Ident,
    at: TokenStream,
    /// Where an argument of a wrong type is reported.
    ends: (Span, Span),
    receiver: bool,
}

impl Params {
    /// Adds the bundles, with the members that the body uses.
    pub(crate) fn finish(&mut self, w: &mut Walker) {
        for root in std::mem::take(&mut self.roots) {
            let paths = w.used_members(root.var);
            let whole = paths.first().is_some_and(Vec::is_empty);
            let RootParam { name, at, .. } = &root;
            let (first, last) = root.ends;
            let call = own("__call", first);
            // What is used as a whole may also be a field, by another name of its type.
            let data = if !root.receiver && (whole || paths.is_empty()) {
                let args = parens(quote_spanned!(first=> &mut #call, #name), last);
                quote_spanned!(first=> ::wuji::__private::data #args)
            } else {
                let paths = quote!(&[#(&[#(#paths),*]),*]);
                let args = parens(quote_spanned!(first=> &mut #call, #name, #paths), last);
                quote_spanned!(first=> ::wuji::__private::bundle #args)
            };
            self.bundle(w, root.var, at, data);
        }
    }

    fn bundle(&mut self, w: &mut Walker, var: u32, at: &TokenStream, data: TokenStream) {
        let tag = own(&format!("__bundle{var}"), Span::call_site());
        self.bind.push(quote!(let #tag = #data;));
        let number = w.written_type(quote!(__recorder.tag(&#tag);));
        self.asts.push(quote!(Param {
            at: #at,
            pat: Pat::Var { var: #var, mutable: false },
            kind: ParamKind::Bundle(#number),
        }));
    }
}

pub(crate) fn walk_params(w: &mut Walker, f: &ItemFn) -> Result<Params> {
    let mut params = Params {
        asts: Vec::new(),
        bind: Vec::new(),
        worlds: Vec::new(),
        roots: Vec::new(),
        closures: false,
    };
    for (k, input) in f.sig.inputs.iter().enumerate() {
        let place = at(input.span());
        match input {
            FnArg::Receiver(r) if w.kernel => params.bundle_receiver(w, r, place)?,
            FnArg::Receiver(r) => params.receiver(w, r, &place),
            FnArg::Typed(p) if !w.kernel && closure_arity(&f.sig, &p.ty).is_some() => {
                let arity = closure_arity(&f.sig, &p.ty).unwrap_or(0);
                params.asts.push(w.closure_param(p, arity, &place)?);
                params.closures = true;
            }
            FnArg::Typed(p) if !w.kernel && is_value_reference(p) => {
                params.asts.push(reference_param(w, p, &place)?);
            }
            FnArg::Typed(p) => match &*p.ty {
                Type::Reference(r) if parameter(&p.ty).is_none() => {
                    params.data(w, p, r.mutability.is_some(), place)?;
                }
                _ => params.value(w, p, k, &place)?,
            },
        }
    }
    Ok(params)
}

impl Params {
    /// `&self` of a kernel: a bundle.
    fn bundle_receiver(&mut self, w: &mut Walker, r: &Receiver, at: TokenStream) -> Result<()> {
        shared_receiver(r)?;
        let name = Ident::new("self", r.self_token.span());
        let var = w.declare_root(&name, quote!(Self));
        self.roots.push(RootParam {
            var,
            name,
            at,
            ends: ends(r),
            receiver: true,
        });
        Ok(())
    }

    /// `self`, `&self` or `&mut self` of a function.
    fn receiver(&mut self, w: &mut Walker, r: &Receiver, at: &TokenStream) {
        let exclusive = match &r.kind {
            ReceiverKind::Reference(_, _, mutability) => Some(mutability.is_some()),
            _ => None,
        };
        let var = match exclusive {
            Some(exclusive) => w.declare_reference("self", exclusive),
            None => w.declare("self", VarKind::Value),
        };
        let mutable = r.mutability.is_some();
        w.vars[var as usize].mutable |= mutable;
        let span = r.span();
        let recorder = own("__recorder", span);
        let ty = w.written_type(quote_spanned!(span=> #recorder.ty_of::<Self>();));
        let kind = match exclusive {
            Some(true) => quote!(Exclusive),
            Some(false) | None => quote!(Value),
        };
        self.asts.push(quote!(Param {
            at: #at,
            pat: Pat::Var { var: #var, mutable: #mutable },
            kind: ParamKind::#kind(#ty),
        }));
    }

    /// A field, an array, a world, or what may be a bundle: a reference.
    fn data(
        &mut self,
        w: &mut Walker,
        p: &PatType,
        exclusive: bool,
        at: TokenStream,
    ) -> Result<()> {
        if exclusive && !is_array(&p.ty) {
            return unsupported(
                &p.ty,
                "a kernel cannot change values of its caller; return the changed value\n\
                 help: elements of `&Field<T, D>`, `&mut [T]` and `&mut ArrayMut<T, D>` can be changed",
            );
        }
        let Pat::Ident(name) = &*p.pat else {
            return unsupported(&p.pat, "a field or array parameter is a plain name");
        };
        let ident = &name.ident;
        let bundle = may_be_bundle(&p.ty).map(|ty| quote!(#ty));
        let var = match &bundle {
            Some(ty) => w.declare_root(ident, ty.clone()),
            None => w.declare(&ident.to_string(), VarKind::Data { exclusive }),
        };
        w.vars[var as usize].plain = is_plain_type(&p.ty);
        if bundle.is_some() && w.kernel {
            self.roots.push(RootParam {
                var,
                name: ident.clone(),
                at,
                ends: ends(&p.ty),
                receiver: false,
            });
            return Ok(());
        }
        self.asts.push(quote!(Param {
            at: #at,
            pat: Pat::Var { var: #var, mutable: false },
            kind: ParamKind::Data,
        }));
        if is_world(&p.ty) {
            self.worlds.push(ident.clone());
        }
        let (first, last) = ends(&p.ty);
        let arg = Ident::new(&ident.to_string(), ident.span());
        let call = own("__call", first);
        let args = parens(quote_spanned!(first=> &mut #call, #arg), last);
        self.bind
            .push(quote_spanned!(first=> ::wuji::__private::data #args;));
        Ok(())
    }

    /// The `k`-th parameter: a value, or a `Param`.
    fn value(&mut self, w: &mut Walker, p: &PatType, k: usize, at: &TokenStream) -> Result<()> {
        if let Type::ImplTrait(t) = &*p.ty {
            return unsupported(t, "name the type: `fn f<T: Num>(x: T)`");
        }
        let Pat::Ident(name) = &*p.pat else {
            return unsupported(
                &p.pat,
                "a parameter of a kernel is a plain name; destructure it with `let`",
            );
        };
        let (ty, is_param) = (&p.ty, parameter(&p.ty).is_some());
        let (first, last) = ends(ty);
        if is_param && !w.kernel {
            return unsupported(
                ty,
                "only kernels take a `Param`; a `#[func]` takes its value",
            );
        }
        let number = if w.kernel {
            let tag = own(&format!("__param{k}"), first);
            let call = own("__call", first);
            let arg = &name.ident;
            let args = parens(quote_spanned!(first=> &mut #call, #arg), last);
            let bind = own(if is_param { "param" } else { "value" }, first);
            self.bind
                .push(quote_spanned!(first=> let #tag = ::wuji::__private::#bind #args;));
            w.written_type(quote!(__recorder.tag(&#tag);))
        } else {
            let recorder = own("__recorder", first);
            w.written_type(quote_spanned!(first=> #recorder.ty_of::<#ty>();))
        };
        let pat = w.pattern(&p.pat)?;
        if is_plain_type(&p.ty) {
            w.mark_names(&p.pat);
        }
        self.asts.push(quote!(Param {
            at: #at, pat: #pat, kind: ParamKind::Value(#number)
        }));
        Ok(())
    }
}

/// The type of the value, if a type is `&Param<T>`.
pub(crate) fn parameter(ty: &Type) -> Option<Type> {
    let Type::Reference(r) = ty else {
        return None;
    };
    let Type::Path(p) = &*r.elem else {
        return None;
    };
    let last = p.path.segments.last().filter(|s| s.ident == "Param")?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else {
        return None;
    };
    match arguments.args.first()? {
        GenericArgument::Type(value) => Some(value.clone()),
        _ => None,
    }
}

/// The type behind a reference that is none of the known ones: a bundle, or an alias of a field.
fn may_be_bundle(ty: &Type) -> Option<&Type> {
    const KNOWN: &[&str] = &[
        "Field",
        "Cells",
        "NdArray",
        "Array",
        "ArrayMut",
        "SharedArray",
        "World",
        "Param",
    ];
    let Type::Reference(r) = ty else {
        return None;
    };
    match &*r.elem {
        Type::Path(p) if r.mutability.is_none() => {
            let last = p.path.segments.last()?;
            (!KNOWN.iter().any(|k| last.ident == k)).then_some(&*r.elem)
        }
        _ => None,
    }
}

/// Whether a type is an array of the host.
pub(crate) fn is_host_array(ty: &Type) -> bool {
    match ty {
        Type::Reference(r) => is_host_array(&r.elem),
        Type::Slice(_) => true,
        Type::Path(p) => (p.path.segments.last()).is_some_and(|s| {
            s.ident == "Array" || s.ident == "ArrayMut" || s.ident == "SharedArray"
        }),
        _ => false,
    }
}

/// Whether a type is `&mut [T]` or `&mut ArrayMut<T, D>`.
pub(crate) fn is_array(ty: &Type) -> bool {
    match ty {
        Type::Reference(r) => is_array(&r.elem),
        Type::Slice(_) => true,
        Type::Path(p) => p
            .path
            .segments
            .last()
            .is_some_and(|s| s.ident == "ArrayMut"),
        _ => false,
    }
}

/// Whether a type is `&World`: it selects where the kernel runs, and the body does not use it.
fn is_world(ty: &Type) -> bool {
    match ty {
        Type::Reference(r) => is_world(&r.elem),
        Type::Path(p) => p.path.segments.last().is_some_and(|s| s.ident == "World"),
        _ => false,
    }
}
