//! The expansion of kernels and functions.

use crate::closure::{closure_arity, instance_key};
use crate::member::{shared_receiver, without_self};
use crate::params::{Params, is_host_array, parameter, walk_params};
use crate::reference::{BUNDLE, is_value_reference};
use crate::scope::{Walker, unsupported};
use crate::span::{at, ends, helper, own, parens};
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{
    Error, Expr, ExprPath, FnArg, GenericParam, Ident, ItemFn, Meta, MetaNameValue, Pat, Result,
    ReturnType, Signature, Token, TraitItemFn, Type, Visibility, spanned::Spanned,
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
            if let Some((f, hint)) = crate::index_hint::find(&item) {
                return stub(&f, kernel, hint);
            }
            let error = e.to_compile_error();
            return quote!(#error #item);
        }
    };
    expand_function_item(Ok(attribute), &f, kernel, Form::Free)
}

/// Where a function is.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(crate) enum Form {
    Free,
    /// In a `#[kernel] impl`.
    Method,
}

pub(crate) fn expand_function_item(
    attribute: Result<TokenStream>,
    f: &ItemFn,
    kernel: bool,
    form: Form,
) -> TokenStream {
    let options = attribute.and_then(|a| Options::of(a, kernel));
    let beside = match (&options, form) {
        (Ok(options), Form::Free) if options.grad => Some(gradient(f)),
        (Ok(options), Form::Method) if options.grad => Some(crate::bundle::gradient(f)),
        (Ok(_) | Err(_), _) => None,
    };
    let beside = beside.map(|b| b.unwrap_or_else(|e| e.to_compile_error()));
    let function = if form == Form::Method && !kernel {
        with_bundle(f)
    } else {
        Ok(f.clone())
    };
    let walked = options.and_then(|o| {
        let expanded = expand_function(&function?, kernel, &o)?;
        match (&o.own_grad, form) {
            (Some(function), Form::Free) => with_gradient(f, function, &expanded),
            (Some(function), Form::Method) => unsupported(
                function,
                "a method has no gradient of its own; a kernel that is a free function can have one",
            ),
            (None, _) => Ok(expanded),
        }
    });
    let expanded = walked.unwrap_or_else(|e| stub(f, kernel, e));
    quote!(#beside #expanded)
}

/// A `#[func]` that takes the bundle as its first argument. For rustc it is no method, so that the host cannot call it.
pub(crate) fn with_bundle(f: &ItemFn) -> Result<ItemFn> {
    let mut f = f.clone();
    let Some(receiver) = f.sig.receiver() else {
        return Ok(f);
    };
    shared_receiver(receiver)?;
    let span = receiver.span();
    let name = own(BUNDLE, span);
    if let Some(first) = f.sig.inputs.first_mut() {
        *first = syn::parse_quote_spanned!(span=> #name: &Self);
    }
    let block = &f.block;
    f.block = syn::parse2(without_self(quote!(#block), &name))?;
    Ok(f)
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
pub(crate) fn take_data(sig: &mut Signature) -> Vec<Ident> {
    let mut names = Vec::new();
    let signature = sig.clone();
    for input in &mut sig.inputs {
        if let FnArg::Typed(p) = input
            && let Type::Reference(ty) = &*p.ty
            && !is_value_reference(p)
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

pub(crate) fn result_type(output: &ReturnType) -> TokenStream {
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

fn expand_function(f: &ItemFn, kernel: bool, options: &Options) -> Result<TokenStream> {
    let sig = &f.sig;
    let reverse = options
        .reverse
        .as_ref()
        .map(|r| reverse(sig, r))
        .transpose()?;
    refuse_qualifiers(sig)?;
    let mut w = Walker::new(kernel, sig.ident.span());
    let mut params = walk_params(&mut w, f)?;
    let (shadow, body) = w.statements(&f.block, kernel)?;
    if kernel {
        params.finish(&mut w);
    }
    let (slots, items) = (&w.slots, &w.items);
    let slots = quote!(#(#items)* #(let #slots = ::wuji::__private::slot();)*);
    let (types, constants, callees) = (&w.types, &w.constants, &w.callees);
    let parts = Expansion {
        f,
        source: source(f, &w, &params, &body, options.precise),
        slots,
        fill: quote! {
            &|__recorder: &mut ::wuji::__private::Recorder| {
                let _ = &__recorder;
                #[allow(unused_imports)]
                use ::wuji::__private::{Fieldwise as _, NotOwn as _, NotPlain as _, Own as _, Plain as _};
                #(#types)* #(#constants)* #(#callees)* #reverse
            }
        },
        lints: quote! {
            #[allow(unused_parens, unused_braces, improper_ctypes_definitions, clippy::all)]
        },
        inner: inside(shadow),
        result: result_type(&sig.output),
        result_span: match &sig.output {
            ReturnType::Default => Span::call_site(),
            ReturnType::Type(_, ty) => ty.span(),
        },
        params,
    };
    if kernel {
        Ok(parts.kernel(options))
    } else {
        parts.func()
    }
}

fn refuse_qualifiers(sig: &Signature) -> Result<()> {
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
    Ok(())
}

/// The static with the syntax tree of a function.
fn source(
    f: &ItemFn,
    w: &Walker,
    params: &Params,
    body: &TokenStream,
    precise: bool,
) -> TokenStream {
    let name = f.sig.ident.to_string();
    let (place, block_at) = (at(f.sig.ident.span()), at(f.block.span()));
    let vars = w.vars.iter().map(|v| &v.name);
    let shared = (0u32..).zip(&w.vars).filter(|v| v.1.shared).map(|v| v.0);
    let asts = &params.asts;
    let body = quote!(Expr { at: #block_at, kind: Kind::Block(Block { label: None, #body }) });
    quote! {
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
                body: #body,
            }
        };
    }
}

/// The parts of an expanded kernel or function.
struct Expansion<'a> {
    f: &'a ItemFn,
    params: Params,
    /// The syntax tree.
    source: TokenStream,
    /// Declarations of what the recording reads from the shadow.
    slots: TokenStream,
    /// The closure that records types, constants and callees.
    fill: TokenStream,
    lints: TokenStream,
    /// The body as rustc checks it.
    inner: TokenStream,
    result: TokenStream,
    result_span: Span,
}

impl Expansion<'_> {
    fn func(&self) -> Result<TokenStream> {
        let Expansion {
            source,
            slots,
            fill,
            lints,
            inner,
            result,
            ..
        } = self;
        let (attrs, vis, sig) = (&self.f.attrs, &self.f.vis, &self.f.sig);
        let instance = if self.params.closures {
            instance_key(sig)?
        } else {
            quote!(|| ())
        };
        let record = quote_spanned! {self.result_span=>
            ::wuji::__private::record_func::<_, #result>(&#instance, &__AST, #fill)
        };
        let mut outer = sig.clone();
        let data = mark(&mut outer);
        let companion = companion(vis, sig);
        Ok(quote! {
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
        })
    }

    fn kernel(&self, options: &Options) -> TokenStream {
        let Expansion {
            source,
            slots,
            fill,
            lints,
            inner,
            result,
            ..
        } = self;
        let (attrs, vis, sig) = (&self.f.attrs, &self.f.vis, &self.f.sig);
        let name = sig.ident.to_string();
        let outer = kernel_signature(sig);
        let inputs = shadow_inputs(sig);
        let no_grad = options.no_grad.then(|| quote!(__call.no_grad();));
        let (bind, used) = (&self.params.bind, &self.params.worlds);
        let call = own("__call", self.result_span);
        let launch = quote_spanned! {self.result_span=>
            ::wuji::__private::launch::<#result>(#call, &__AST, #fill)
        };
        quote! {
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
        }
    }
}

/// The signature of a kernel for its callers.
fn kernel_signature(sig: &Signature) -> Signature {
    let mut outer = sig.clone();
    outer.output = kernel_output(&sig.output);
    for input in &mut outer.inputs {
        // `mut t: f32` is only relevant to the body.
        if let FnArg::Typed(p) = input
            && let Pat::Ident(i) = &mut *p.pat
        {
            i.mutability = None;
        }
    }
    outer
}

/// The parameters of the body of a kernel as rustc checks it.
fn shadow_inputs(sig: &Signature) -> Punctuated<FnArg, Token![,]> {
    let typed = sig.inputs.iter().filter(|i| matches!(i, FnArg::Typed(_)));
    let mut inputs: Punctuated<FnArg, Token![,]> = typed.cloned().collect();
    for input in &mut inputs {
        if let FnArg::Typed(p) = input
            && let Some(value) = parameter(&p.ty)
        {
            *p.ty = value;
        }
    }
    inputs
}

/// The statements between the braces of a block, with the trait that chains of members need.
fn inside(block: TokenStream) -> TokenStream {
    let statements = match block.into_iter().next() {
        Some(proc_macro2::TokenTree::Group(g)) => g.stream(),
        _ => TokenStream::new(),
    };
    quote! {
        #[allow(unused_imports)]
        use ::wuji::__private::Opened as _;
        #statements
    }
}
