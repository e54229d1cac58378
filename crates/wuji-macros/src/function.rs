//! The expansion of kernels and functions.

use crate::closure::{closure_arity, instance_key};
use crate::plain::{is_plain_type, is_value_name};
use crate::scope::{VarKind, Walker, unsupported};
use crate::span::{at, ends, helper, own, parens};
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{
    Error, Expr, ExprPath, FnArg, GenericArgument, GenericParam, Ident, ItemFn, Meta,
    MetaNameValue, Pat, PatType, PathArguments, ReceiverKind, Result, ReturnType, Signature, Token,
    TraitItemFn, Type, Visibility, spanned::Spanned,
};

pub(crate) fn expand(attribute: TokenStream, item: TokenStream, kernel: bool) -> TokenStream {
    let f: ItemFn = match syn::parse2(item.clone()) {
        Ok(f) => f,
        Err(_) if !kernel && attribute.is_empty() && declares(&item) => return declaration(item),
        Err(e) if !kernel && attribute.is_empty() => {
            return crate::func_block::expand(&item).unwrap_or_else(|| {
                let error = e.to_compile_error();
                quote!(#error #item)
            });
        }
        // The original item, so that editors and later macros still see it.
        Err(e) => {
            let error = e.to_compile_error();
            return quote!(#error #item);
        }
    };
    let options = Options::of(attribute, kernel);
    let beside = match &options {
        Ok(options) if options.grad => Some(gradient(&f).unwrap_or_else(|e| e.to_compile_error())),
        Ok(_) | Err(_) => None,
    };
    let walked = options.and_then(|o| {
        let expanded = expand_function(&f, kernel, &o)?;
        match &o.own_grad {
            Some(function) => with_gradient(&f, function, &expanded),
            None => Ok(expanded),
        }
    });
    let expanded = walked.unwrap_or_else(|e| stub(&f, kernel, e));
    quote!(#beside #expanded)
}

/// The type beside a kernel whose function `grad` runs its gradient kernel. A type and a function may share a name.
fn gradient(f: &ItemFn) -> Result<TokenStream> {
    let (vis, name, generics) = (&f.vis, &f.sig.ident, &f.sig.generics);
    let given = generics.params.iter().filter_map(|p| match p {
        GenericParam::Lifetime(_) => None,
        GenericParam::Type(t) => Some(&t.ident),
        GenericParam::Const(c) => Some(&c.ident),
    });
    let given: Vec<&Ident> = given.collect();
    let given = (!given.is_empty()).then(|| quote!(::<#(#given),*>));
    let mut inputs = f.sig.inputs.clone();
    let mut args = Vec::new();
    for input in &mut inputs {
        if let FnArg::Typed(p) = input
            && let Pat::Ident(i) = &mut *p.pat
        {
            i.mutability = None;
            args.push(i.ident.clone());
        }
    }
    let Some(world) = world_of(&f.sig) else {
        return unsupported(
            &f.sig.inputs,
            "a kernel with a gradient takes a field, or the world",
        );
    };
    let clause = &generics.where_clause;
    let text = format!("The gradient of the kernel `{name}`.");
    Ok(quote! {
        #[doc = #text]
        #[allow(non_camel_case_types, dead_code)]
        #[derive(Debug)]
        #vis enum #name {}

        #[allow(dead_code)]
        impl #name {
            /// Runs the gradient kernel: it adds to the gradients of the inputs what those of the outputs imply.
            #[track_caller]
            #vis fn grad #generics (#inputs) -> ::wuji::Result<()> #clause {
                let __world = ::wuji::__private::InWorld::its_world(#world).clone();
                let __mode = ::wuji::__private::gradient_mode(&__world)?;
                #name #given (#(#args),*).map(|_| ())
            }
        }
    })
}

/// The first parameter that names the world of a kernel.
fn world_of(sig: &Signature) -> Option<&Ident> {
    sig.inputs.iter().find_map(|input| match input {
        FnArg::Typed(p) => match (&*p.pat, &*p.ty) {
            (Pat::Ident(name), Type::Reference(_)) if !is_host_array(&p.ty) => Some(&name.ident),
            _ => None,
        },
        FnArg::Receiver(_) => None,
    })
}

/// A kernel with a gradient of its own: tapes call that function with the same arguments.
fn with_gradient(f: &ItemFn, function: &ExprPath, kernel: &TokenStream) -> Result<TokenStream> {
    let (span, _) = ends(function);
    let (mut kept, mut args, mut later, mut types) = (vec![], vec![], vec![], vec![]);
    for input in &f.sig.inputs {
        let FnArg::Typed(p) = input else {
            continue;
        };
        let Pat::Ident(name) = &*p.pat else {
            continue;
        };
        let (name, ty) = (&name.ident, &p.ty);
        if is_host_array(ty) {
            return unsupported(
                ty,
                "a kernel with a gradient of its own takes fields and values, no arrays: the gradient runs later",
            );
        }
        types.push(quote!(#ty));
        args.push(quote!(#name));
        if let Type::Reference(_) = &**ty {
            kept.push(quote!(let #name = ::core::clone::Clone::clone(#name);));
            later.push(quote!(&#name));
        } else {
            later.push(quote!(#name));
        }
    }
    let Some(world) = world_of(&f.sig) else {
        return unsupported(
            &f.sig.inputs,
            "a kernel with a gradient of its own takes a field, or the world",
        );
    };
    let (attrs, vis, name, generics) = (&f.attrs, &f.vis, &f.sig.ident, &f.sig.generics);
    let given = generics.params.iter().filter_map(|p| match p {
        GenericParam::Lifetime(_) => None,
        GenericParam::Type(t) => Some(&t.ident),
        GenericParam::Const(c) => Some(&c.ident),
    });
    let given: Vec<&Ident> = given.collect();
    let given = (!given.is_empty()).then(|| quote!(::<#(#given),*>));
    let mut outer = f.sig.clone();
    outer.output = kernel_output(&f.sig.output);
    for input in &mut outer.inputs {
        if let FnArg::Typed(p) = input
            && let Pat::Ident(i) = &mut *p.pat
        {
            i.mutability = None;
        }
    }
    let check = quote_spanned! {span=>
        let __gradient: fn(#(#types),*) -> ::wuji::Result<()> = #function;
    };
    Ok(quote! {
        #(#attrs)*
        #[track_caller]
        #vis #outer {
            #kernel
            #check
            ::wuji::__private::with_gradient(
                ::wuji::__private::InWorld::its_world(#world),
                || #name #given (#(#args),*),
                { #(#kept)* move || __gradient(#(#later),*) },
            )
        }
    })
}

/// The arguments of `#[kernel(..)]` and `#[func(..)]`.
#[derive(Default)]
struct Options {
    /// Whether a kernel has its gradient beside it.
    grad: bool,
    /// The function that tapes call instead of its gradient kernel.
    own_grad: Option<ExprPath>,
    /// Whether tapes do not record a kernel.
    no_grad: bool,
    precise: bool,
    /// The function for the reverse sweep.
    reverse: Option<ExprPath>,
}

impl Options {
    fn of(attribute: TokenStream, kernel: bool) -> Result<Options> {
        let mut options = Options::default();
        let list = Punctuated::<Meta, Token![,]>::parse_terminated.parse2(attribute)?;
        for argument in list {
            match argument {
                Meta::Path(p) if kernel && p.is_ident("grad") => options.grad = true,
                Meta::Path(p) if kernel && p.is_ident("no_grad") => options.no_grad = true,
                Meta::NameValue(MetaNameValue {
                    path,
                    value: Expr::Path(function),
                    ..
                }) if kernel && path.is_ident("grad") => options.own_grad = Some(function),
                Meta::Path(p) if !kernel && p.is_ident("precise") => options.precise = true,
                Meta::NameValue(MetaNameValue {
                    path,
                    value: Expr::Path(function),
                    ..
                }) if !kernel && path.is_ident("reverse") => options.reverse = Some(function),
                other => {
                    let known = if kernel {
                        "`#[kernel]` takes no such argument; there are `grad`, `grad = function` and `no_grad`"
                    } else {
                        "`#[func]` takes no such argument; there are `precise` and `reverse = function`"
                    };
                    return unsupported(&other, known);
                }
            }
        }
        Ok(options)
    }
}

/// Records the function for the reverse sweep: it is called with the parameters, the result and the adjoint of the
/// result, so rustc checks that it can be.
fn reverse(sig: &Signature, function: &ExprPath) -> Result<TokenStream> {
    let (span, _) = ends(function);
    let result = result_type(&sig.output);
    let mut types = Vec::new();
    for input in &sig.inputs {
        types.push(match input {
            FnArg::Receiver(_) => quote_spanned!(span=> Self),
            FnArg::Typed(p) => match &*p.ty {
                Type::Reference(ty) => {
                    return unsupported(
                        ty,
                        "a `#[func]` with a reverse sweep of its own takes values only, no fields or arrays",
                    );
                }
                ty => quote!(#ty),
            },
        });
    }
    types.extend([result.clone(), result]);
    let count = types.len();
    if count > 12 {
        return unsupported(
            &sig.inputs,
            "a `#[func]` with a reverse sweep of its own takes at most 10 parameters",
        );
    }
    let names: Vec<Ident> = (0..count)
        .map(|k| own(&format!("__arg{k}"), span))
        .collect();
    let (recorder, item) = (own("__recorder", span), own("__callee", span));
    let (slot, closure_slot) = (own("__item", span), own("__closure", span));
    let callee = helper("probe", quote_spanned!(span=> &#slot, #function), function);
    let call = parens(quote!(#(#names),*), span);
    Ok(quote_spanned! {span=>
        let (#slot, #closure_slot) = (::wuji::__private::slot(), ::wuji::__private::slot());
        let #item = #callee;
        let _ = ::wuji::__private::probe(&#closure_slot, move |#(#names: #types),*| #item #call);
        (&&::wuji::__private::asked::<_, #count>(&#slot)).reverse(#recorder, &#slot, &#closure_slot);
    })
}

/// Whether it is a function without a body, in a trait.
fn declares(item: &TokenStream) -> bool {
    syn::parse2::<TraitItemFn>(item.clone()).is_ok_and(|f| f.default.is_none())
}

/// A function of a trait whose implementations are `#[func]`s.
fn declaration(item: TokenStream) -> TokenStream {
    match syn::parse2::<TraitItemFn>(item) {
        Ok(mut f) => {
            let attrs = std::mem::take(&mut f.attrs);
            let companion = companion(&Visibility::Inherited, &f.sig);
            mark(&mut f.sig);
            quote!(#(#attrs)* #[allow(improper_ctypes_definitions)] #f #companion)
        }
        Err(e) => e.to_compile_error(),
    }
}

/// Marks the signature, so that a `#[func]` can be distinguished from other functions; returns the names of its data
/// parameters.
///
/// Data parameters are a mark by themselves. Without them the mark is the ABI, the one part of a function's type that
/// callers need not care about: functions with another ABI than Rust's do not implement `Fn`, and
/// `lang::record::Plain` detects that.
fn mark(sig: &mut Signature) -> Vec<Ident> {
    let data = take_data(sig);
    if data.is_empty() {
        sig.abi = Some(syn::parse_quote!(extern "C-unwind"));
    }
    data
}

/// The companion of a `#[func]` that is a method. The type of a method cannot be named, but the existence of its
/// companion can be tested.
fn companion(vis: &Visibility, sig: &Signature) -> Option<TokenStream> {
    sig.receiver()?;
    let name = companion_name(&sig.ident);
    Some(quote! {
        #[doc(hidden)]
        #[allow(dead_code)]
        #vis fn #name(&self) -> ::wuji::__private::IsFunc {
            ::wuji::__private::IsFunc
        }
    })
}

pub(crate) fn companion_name(method: &Ident) -> Ident {
    let name = method.to_string();
    let name = name.strip_prefix("r#").unwrap_or(&name);
    Ident::new(&format!("__wuji_func_{name}"), Span::call_site())
}

/// Changes the types of reference parameters to types that only kernels can pass, and returns their names.
fn take_data(sig: &mut Signature) -> Vec<Ident> {
    let mut names = Vec::new();
    let signature = sig.clone();
    for input in &mut sig.inputs {
        if let FnArg::Typed(p) = input
            && let Type::Reference(ty) = &*p.ty
            && referenced_value(&p.ty).is_none()
            && closure_arity(&signature, &p.ty).is_none()
            && let Pat::Ident(name) = &*p.pat
        {
            names.push(name.ident.clone());
            let (first, _) = ends(ty);
            *p.ty = syn::parse_quote_spanned!(first=> ::wuji::__private::OnlyInKernels<#ty>);
        }
    }
    names
}

/// The function with its signature and an error, so that its callers compile.
fn stub(f: &ItemFn, kernel: bool, error: Error) -> TokenStream {
    let error = error.to_compile_error();
    let (attrs, vis) = (&f.attrs, &f.vis);
    let mut sig = f.sig.clone();
    let mut beside = None;
    if kernel {
        sig.output = kernel_output(&f.sig.output);
    } else {
        beside = companion(vis, &sig);
        mark(&mut sig);
    }
    quote!(#beside #(#attrs)* #[allow(unused_variables, unused_mut, improper_ctypes_definitions, clippy::all)] #vis #sig { #error loop {} })
}

fn result_type(output: &ReturnType) -> TokenStream {
    match output {
        ReturnType::Default => quote!(()),
        ReturnType::Type(_, ty) => quote!(#ty),
    }
}

fn kernel_output(output: &ReturnType) -> ReturnType {
    let ty = result_type(output);
    let span = output.span();
    syn::parse_quote_spanned!(span=> -> ::wuji::Result<#ty>)
}

/// The parameters in their various forms.
struct Params {
    /// Literals of `ast::Param`.
    asts: Vec<TokenStream>,
    /// In a kernel: statements that bind the arguments to the call.
    bind: Vec<TokenStream>,
    worlds: Vec<Ident>,
    /// Whether some are closures.
    closures: bool,
}

fn walk_params(w: &mut Walker, f: &ItemFn) -> Result<Params> {
    let mut params = Params {
        asts: Vec::new(),
        bind: Vec::new(),
        worlds: Vec::new(),
        closures: false,
    };
    for (k, input) in f.sig.inputs.iter().enumerate() {
        let span = input.span();
        let place = at(span);
        match input {
            FnArg::Receiver(r) => {
                if w.kernel {
                    return unsupported(
                        r,
                        "a kernel is a free function; put fields into its parameters",
                    );
                }
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
                let recorder = own("__recorder", span);
                let ty = w.written_type(quote_spanned!(span=> #recorder.ty_of::<Self>();));
                let kind = match exclusive {
                    Some(true) => quote!(Exclusive),
                    Some(false) | None => quote!(Value),
                };
                params.asts.push(quote!(Param {
                    at: #place,
                    pat: Pat::Var { var: #var, mutable: #mutable },
                    kind: ParamKind::#kind(#ty),
                }));
            }
            FnArg::Typed(p) if !w.kernel && closure_arity(&f.sig, &p.ty).is_some() => {
                let arity = closure_arity(&f.sig, &p.ty).unwrap_or(0);
                params.asts.push(w.closure_param(p, arity, &place)?);
                params.closures = true;
            }
            FnArg::Typed(p) if !w.kernel && referenced_value(&p.ty).is_some() => {
                params.asts.push(reference_param(w, p, &place)?);
            }
            FnArg::Typed(p) => {
                let parameter = parameter(&p.ty);
                let exclusive = match &*p.ty {
                    Type::Reference(r) if parameter.is_none() => Some(r.mutability.is_some()),
                    _ => None,
                };
                if let Some(exclusive) = exclusive {
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
                    let var = w.declare(&name.ident.to_string(), VarKind::Data { exclusive });
                    w.vars[var as usize].plain = is_plain_type(&p.ty);
                    params.asts.push(quote!(Param {
                        at: #place,
                        pat: Pat::Var { var: #var, mutable: false },
                        kind: ParamKind::Data,
                    }));
                    let ident = &name.ident;
                    if is_world(&p.ty) {
                        params.worlds.push(ident.clone());
                    }
                    let (first, last) = ends(&p.ty);
                    let arg = Ident::new(&ident.to_string(), ident.span());
                    let call = own("__call", first);
                    let args = parens(quote_spanned!(first=> &mut #call, #arg), last);
                    params
                        .bind
                        .push(quote_spanned!(first=> ::wuji::__private::data #args;));
                } else {
                    if let Type::ImplTrait(t) = &*p.ty {
                        return unsupported(t, "name the type: `fn f<T: Num>(x: T)`");
                    }
                    let Pat::Ident(name) = &*p.pat else {
                        return unsupported(
                            &p.pat,
                            "a parameter of a kernel is a plain name; destructure it with `let`",
                        );
                    };
                    let ty = &p.ty;
                    let (first, last) = ends(ty);
                    if parameter.is_some() && !w.kernel {
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
                        let bind = own(
                            if parameter.is_some() {
                                "param"
                            } else {
                                "value"
                            },
                            first,
                        );
                        params.bind.push(
                            quote_spanned!(first=> let #tag = ::wuji::__private::#bind #args;),
                        );
                        w.written_type(quote!(__recorder.tag(&#tag);))
                    } else {
                        let recorder = own("__recorder", first);
                        w.written_type(quote_spanned!(first=> #recorder.ty_of::<#ty>();))
                    };
                    let pat = w.pattern(&p.pat)?;
                    if is_plain_type(&p.ty) {
                        w.mark_names(&p.pat);
                    }
                    params.asts.push(quote!(Param {
                        at: #place, pat: #pat, kind: ParamKind::Value(#number)
                    }));
                }
            }
        }
    }
    Ok(params)
}

/// A parameter of a `#[func]` that is a reference to a value: a variable of the caller if it is exclusive, a copy if not.
fn reference_param(w: &mut Walker, p: &PatType, place: &TokenStream) -> Result<TokenStream> {
    let (Pat::Ident(name), Type::Reference(reference)) = (&*p.pat, &*p.ty) else {
        return unsupported(&p.pat, "a parameter behind a reference is a plain name");
    };
    let exclusive = reference.mutability.is_some();
    let var = w.declare_reference(&name.ident.to_string(), exclusive);
    w.vars[var as usize].plain = is_plain_type(&p.ty);
    let ty = &reference.elem;
    let (first, _) = ends(ty);
    let recorder = own("__recorder", first);
    let number = w.written_type(quote_spanned!(first=> #recorder.ty_of::<#ty>();));
    let kind = if exclusive {
        quote!(Exclusive)
    } else {
        quote!(Value)
    };
    Ok(quote!(Param {
        at: #place,
        pat: Pat::Var { var: #var, mutable: false },
        kind: ParamKind::#kind(#number),
    }))
}

/// The type behind a reference, if it is that of a value. Shared references to values are those to arrays, numbers and vectors;
/// others are fields, arrays of the host, or types that stand for them.
fn referenced_value(ty: &Type) -> Option<&Type> {
    let Type::Reference(r) = ty else {
        return None;
    };
    let value = match (&*r.elem, r.mutability.is_some()) {
        (Type::Array(_), _) => true,
        (_, true) => !is_array(ty),
        (Type::Path(p), false) => p.path.segments.last().is_some_and(|s| {
            let name = s.ident.to_string();
            is_value_name(&name) || name == "Self" || name == "Option"
        }),
        (_, false) => false,
    };
    value.then_some(&*r.elem)
}

fn expand_function(f: &ItemFn, kernel: bool, options: &Options) -> Result<TokenStream> {
    let sig = &f.sig;
    let precise = options.precise;
    let reverse = options
        .reverse
        .as_ref()
        .map(|r| reverse(sig, r))
        .transpose()?;
    if let Some(token) = &sig.constness {
        return unsupported(token, "kernels and `#[func]`s cannot be `const`");
    }
    if let Some(token) = &sig.asyncness {
        return unsupported(token, "kernels and `#[func]`s cannot be `async`");
    }
    if let Some(abi) = &sig.abi {
        return unsupported(abi, "kernels and `#[func]`s have no ABI");
    }
    if !sig.safety.to_token_stream().is_empty() {
        return unsupported(&sig.safety, "kernels and `#[func]`s are safe");
    }
    let mut w = Walker::new(kernel, sig.ident.span());
    let params = walk_params(&mut w, f)?;
    let (shadow, body) = w.statements(&f.block, kernel)?;

    let name = sig.ident.to_string();
    let (place, block_at) = (at(sig.ident.span()), at(f.block.span()));
    let vars = w.vars.iter().map(|v| &v.name);
    let shared = (0u32..).zip(&w.vars).filter(|v| v.1.shared).map(|v| v.0);
    let asts = &params.asts;
    let source = quote! {
        static __AST: ::wuji::__private::ast::Ast = {
            #[allow(unused_imports)]
            use ::wuji::__private::ast::*;
            Ast {
                name: #name,
                file: ::core::file!(),
                at: #place,
                precise: #precise,
                vars: &[#(#vars),*],
                shared: &[#(#shared),*],
                params: &[#(#asts),*],
                body: Expr { at: #block_at, kind: Kind::Block(Block { label: None, #body }) },
            }
        };
    };
    let (slots, items) = (&w.slots, &w.items);
    let slots = quote!(#(#items)* #(let #slots = ::wuji::__private::slot();)*);
    let (types, constants, callees) = (&w.types, &w.constants, &w.callees);
    let fill = quote! {
        &|__recorder: &mut ::wuji::__private::Recorder| {
            let _ = &__recorder;
            #[allow(unused_imports)]
            use ::wuji::__private::{Fieldwise as _, NotOwn as _, NotPlain as _, Own as _, Plain as _};
            #(#types)* #(#constants)* #(#callees)* #reverse
        }
    };
    let (attrs, vis) = (&f.attrs, &f.vis);
    let lints = quote! {
        #[allow(unused_parens, unused_braces, improper_ctypes_definitions, clippy::all)]
    };
    let result = result_type(&sig.output);
    let result_span = match &sig.output {
        ReturnType::Default => Span::call_site(),
        ReturnType::Type(_, ty) => ty.span(),
    };
    if !kernel {
        let inner = inside(shadow);
        let instance = if params.closures {
            instance_key(sig)?
        } else {
            quote!(|| ())
        };
        let record = quote_spanned! {result_span=>
            ::wuji::__private::record_func::<_, #result>(&#instance, &__AST, #fill)
        };
        let mut outer = sig.clone();
        let data = mark(&mut outer);
        let companion = companion(vis, sig);
        return Ok(quote! {
            #companion
            #(#attrs)* #lints #vis #outer {
                #slots
                #source
                // In this order, because recording queries types that the body determines.
                if !::wuji::__private::recording() {
                    #(let #data = #data.data();)*
                    #inner
                } else {
                    #record
                }
            }
        });
    }
    let mut outer = sig.clone();
    outer.output = kernel_output(&sig.output);
    let outer_inputs = outer.inputs.iter_mut();
    for input in outer_inputs {
        // `mut t: f32` is only relevant to the body.
        if let FnArg::Typed(p) = input
            && let Pat::Ident(i) = &mut *p.pat
        {
            i.mutability = None;
        }
    }
    let mut inputs = sig.inputs.clone();
    for input in &mut inputs {
        if let FnArg::Typed(p) = input
            && let Some(value) = parameter(&p.ty)
        {
            *p.ty = value;
        }
    }
    let no_grad = options.no_grad.then(|| quote!(__call.no_grad();));
    let inner = inside(shadow);
    let (bind, used) = (&params.bind, &params.worlds);
    let call = own("__call", result_span);
    let launch = quote_spanned! {result_span=>
        ::wuji::__private::launch::<#result>(#call, &__AST, #fill)
    };
    Ok(quote! {
        #(#attrs)* #lints
        #[track_caller]
        #vis #outer {
            #slots
            let _ = |#inputs| -> #result { #(let _ = #used;)* #inner };
            #source
            let mut __call = ::wuji::__private::call(#name, &|| ());
            #no_grad
            #(#bind)*
            #launch
        }
    })
}

/// The statements between the braces of a block.
fn inside(block: TokenStream) -> TokenStream {
    match block.into_iter().next() {
        Some(proc_macro2::TokenTree::Group(g)) => g.stream(),
        _ => TokenStream::new(),
    }
}

/// The type of the value, if a type is `&Param<T>`.
fn parameter(ty: &Type) -> Option<Type> {
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

/// Whether a type is an array of the host.
fn is_host_array(ty: &Type) -> bool {
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
fn is_array(ty: &Type) -> bool {
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
