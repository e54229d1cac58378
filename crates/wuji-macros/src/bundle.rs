//! `#[derive(Fields)]` and `#[kernel] impl`.

use crate::closure::closure_arity;
use crate::function::{self, Form};
use crate::scope::unsupported;
use proc_macro2::{TokenStream, TokenTree};
use quote::{format_ident, quote, quote_spanned};
use syn::{
    Attribute, Data, DeriveInput, Error, FnArg, GenericParam, Generics, Ident, ImplItem,
    ImplItemFn, ItemFn, ItemImpl, Meta, Pat, Result, parse_quote, spanned::Spanned,
};

pub(crate) fn derive(item: TokenStream) -> TokenStream {
    let derived = syn::parse2::<DeriveInput>(item).and_then(|input| derive_fields(&input));
    derived.unwrap_or_else(|e| e.to_compile_error())
}

fn derive_fields(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Struct(data) = &input.data else {
        return unsupported(&input.ident, "only structs can be bundles of fields");
    };
    let syn::Fields::Named(fields) = &data.fields else {
        return unsupported(&input.ident, "the members of a bundle have names");
    };
    if let Some(lifetime) = input.generics.lifetimes().next() {
        return unsupported(
            lifetime,
            "a bundle holds no references; handles of fields can be cloned",
        );
    }
    let mut members = Vec::new();
    let mut types = Vec::new();
    for f in &fields.named {
        if !is_skipped(&f.attrs)? {
            members.push(&f.ident);
            types.push(&f.ty);
        }
    }
    let name = &input.ident;
    let names: Vec<String> = (members.iter())
        .flat_map(|m| m.iter().map(ToString::to_string))
        .collect();
    let mut generics = input.generics.clone();
    if !generics.params.is_empty() {
        let clause = generics.make_where_clause();
        for ty in &types {
            clause
                .predicates
                .push(parse_quote!(#ty: ::wuji::bundle::Member));
        }
    }
    let (impl_generics, type_generics, clause) = generics.split_for_impl();
    let mut borrowed = generics.clone();
    borrowed.params.insert(0, parse_quote!('__w));
    let (borrowed, _, _) = borrowed.split_for_impl();
    // The type of a member is underlined where it cannot be one.
    let spanned = members.iter().zip(&types).flat_map(|(m, ty)| {
        let m = m.as_ref()?;
        Some(Ident::new(&m.to_string(), m.span().located_at(ty.span())))
    });
    let spanned: Vec<Ident> = spanned.collect();
    let arguments = spanned
        .iter()
        .map(|m| quote_spanned!(m.span()=> ::wuji::bundle::Member::member(&self.#m, __wanted)?));
    let worlds = spanned
        .iter()
        .map(|m| quote_spanned!(m.span()=> ::wuji::bundle::Member::member_world(&self.#m)));
    Ok(quote! {
        impl #impl_generics ::wuji::bundle::Member for #name #type_generics #clause {
            fn member(
                &self,
                __wanted: ::wuji::bundle::Wanted,
            ) -> ::wuji::Result<::wuji::args::Arg<'_>> {
                let mut __members = ::std::vec::Vec::new();
                #(
                    if let ::core::option::Option::Some(__wanted) = __wanted.of(#names) {
                        __members.push((#names, #arguments));
                    }
                )*
                ::core::result::Result::Ok(::wuji::args::Arg::bundle(__members))
            }

            fn member_world(&self) -> ::core::option::Option<&::wuji::World> {
                ::core::option::Option::None
                    #(.or_else(|| #worlds))*
            }
        }

        impl #impl_generics ::wuji::bundle::Fields for #name #type_generics #clause {}

        impl #impl_generics ::wuji::__private::Handle for #name #type_generics #clause {}

        impl #borrowed ::wuji::args::KernelArg<'__w> for &'__w #name #type_generics #clause {
            fn arg(self) -> ::wuji::Result<::wuji::args::Arg<'__w>> {
                ::wuji::bundle::Member::member(self, ::wuji::bundle::Wanted::ALL)
            }
        }

        impl #impl_generics ::wuji::__private::Data for &#name #type_generics #clause {}
    })
}

/// Whether a member has `#[fields(skip)]`.
fn is_skipped(attrs: &[Attribute]) -> Result<bool> {
    let Some(a) = attrs.iter().find(|a| a.path().is_ident("fields")) else {
        return Ok(false);
    };
    match &a.meta {
        Meta::List(list) if list.tokens.to_string() == "skip" => Ok(true),
        Meta::Path(_) | Meta::List(_) | Meta::NameValue(_) => unsupported(
            a,
            "there is `#[fields(skip)]`, which leaves a member to the host",
        ),
    }
}

/// The expansion of a `#[kernel] impl`; `None` if the item is a function.
pub(crate) fn methods(attribute: &TokenStream, item: &TokenStream) -> Option<TokenStream> {
    if !is_impl(item) {
        return None;
    }
    let expanded = syn::parse2::<ItemImpl>(item.clone()).and_then(|i| expand(attribute, i));
    Some(expanded.unwrap_or_else(|e| {
        let error = e.to_compile_error();
        quote!(#error #item)
    }))
}

fn is_impl(item: &TokenStream) -> bool {
    let words = item.clone().into_iter().filter_map(|t| match t {
        TokenTree::Ident(i) => Some(i.to_string()),
        TokenTree::Group(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => None,
    });
    let mut words = words.filter(|w| w == "impl" || w == "fn");
    words.next().is_some_and(|w| w == "impl")
}

fn expand(attribute: &TokenStream, mut item: ItemImpl) -> Result<TokenStream> {
    if let Some((path, _)) = &item.trait_ {
        let why = "kernels are methods of the type itself, not of a trait";
        let error = Error::new_spanned(path, why).to_compile_error();
        for part in &mut item.items {
            if let ImplItem::Fn(f) = part {
                f.attrs.retain(|a| !is_ours(a));
                f.block = parse_quote!({ loop {} });
            }
        }
        return Ok(quote!(#error #item));
    }
    for part in &mut item.items {
        if let ImplItem::Fn(f) = part {
            *part = ImplItem::Verbatim(method(attribute, &item.generics, f));
        }
    }
    Ok(quote!(#item))
}

fn method(attribute: &TokenStream, generics: &Generics, f: &ImplItemFn) -> TokenStream {
    let (own, attrs): (Vec<&Attribute>, Vec<&Attribute>) = f.attrs.iter().partition(|a| is_ours(a));
    let (kernel, arguments) = match own[..] {
        [] => (true, Ok(attribute.clone())),
        [a] => (ends_in(a, "kernel"), arguments(a)),
        [_, second, ..] => {
            let why = "a function is a kernel or a `#[func]`";
            (true, Err(Error::new_spanned(second, why)))
        }
    };
    let f = ItemFn {
        attrs: attrs.into_iter().cloned().collect(),
        vis: f.vis.clone(),
        modifiers: f.modifiers.clone(),
        sig: f.sig.clone(),
        block: Box::new(f.block.clone()),
    };
    let beside = (!kernel).then(|| nested_func(generics, &f)).flatten();
    let expanded = function::expand_function_item(arguments, &f, kernel, Form::Method);
    quote!(#beside #expanded)
}

/// The companion of a `#[func]` of a bundle: through it, kernels of other bundles find the function from a value of the type.
/// A closure has no type that the companion could name.
fn nested_func(generics: &Generics, f: &ItemFn) -> Option<TokenStream> {
    f.sig.receiver()?;
    let mut sig = function::with_bundle(f).ok()?.sig;
    function::take_data(&mut sig);
    let companion = function::companion_name(&sig.ident);
    let types = sig.inputs.iter().map(|input| match input {
        FnArg::Typed(p) if closure_arity(&sig, &p.ty).is_none() => Some(&p.ty),
        FnArg::Typed(_) | FnArg::Receiver(_) => None,
    });
    let Some(types) = types.collect::<Option<Vec<_>>>() else {
        let vis = &f.vis;
        return Some(quote! {
            #[doc(hidden)]
            #[allow(dead_code)]
            #vis fn #companion(&self) -> ::wuji::__private::TakesClosures {
                ::wuji::__private::TakesClosures
            }
        });
    };
    let own_generics = generic_names(&sig.generics);
    let mut captured = generic_names(generics);
    captured.extend(own_generics.iter().cloned());
    let turbofish = (!own_generics.is_empty()).then(|| quote!(::<#(#own_generics),*>));
    let (vis, name, params, clause) = (
        &f.vis,
        &sig.ident,
        &sig.generics.params,
        &sig.generics.where_clause,
    );
    let result = function::result_type(&sig.output);
    let taken = types.len() - 1;
    Some(quote! {
        #[doc(hidden)]
        #[allow(dead_code, clippy::all)]
        #vis fn #companion<#params>(
            &self,
        ) -> ::wuji::__private::BundleFunc<
            impl ::core::ops::Fn(#(#types),*) -> #result + ::core::marker::Copy + use<#(#captured),*>,
            #taken,
        > #clause {
            ::wuji::__private::BundleFunc::new(Self::#name #turbofish)
        }
    })
}

/// The names of type and const parameters.
fn generic_names(generics: &Generics) -> Vec<Ident> {
    let name = |p: &GenericParam| match p {
        GenericParam::Lifetime(_) => None,
        GenericParam::Type(t) => Some(t.ident.clone()),
        GenericParam::Const(c) => Some(c.ident.clone()),
    };
    generics.params.iter().filter_map(name).collect()
}

/// Whether it is `#[kernel]` or `#[func]`.
fn is_ours(a: &Attribute) -> bool {
    ends_in(a, "kernel") || ends_in(a, "func")
}

fn ends_in(a: &Attribute, name: &str) -> bool {
    a.path().segments.last().is_some_and(|s| s.ident == name)
}

/// The arguments of an attribute.
fn arguments(a: &Attribute) -> Result<TokenStream> {
    match &a.meta {
        Meta::Path(_) => Ok(TokenStream::new()),
        Meta::List(list) => Ok(list.tokens.clone()),
        Meta::NameValue(n) => unsupported(n, "arguments are between parentheses"),
    }
}

/// The method beside a kernel method that runs its gradient kernel.
pub(crate) fn gradient(f: &ItemFn) -> Result<TokenStream> {
    if f.sig.receiver().is_none() {
        return unsupported(
            &f.sig,
            "a method with a gradient takes its bundle as `&self`; other kernels are free functions",
        );
    }
    let (vis, name, generics) = (&f.vis, &f.sig.ident, &f.sig.generics);
    let beside = format_ident!("{name}_grad", span = name.span());
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
    let clause = &generics.where_clause;
    let text = format!(
        "The gradient of the kernel [`{name}`](Self::{name}): adds to the gradients of the inputs what those of the outputs imply."
    );
    Ok(quote! {
        #[doc = #text]
        #[track_caller]
        #[allow(dead_code)]
        #vis fn #beside #generics (#inputs) -> ::wuji::Result<()> #clause {
            let __world = ::wuji::__private::world_of(self)?;
            let __mode = ::wuji::__private::gradient_mode(&__world)?;
            self.#name(#(#args),*).map(|_| ())
        }
    })
}
