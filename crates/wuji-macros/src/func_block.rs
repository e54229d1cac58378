//! `#[func]` on an `impl` or a `trait`: all of its functions are `#[func]`s.
//!
//! The traits of operators belong to the standard library, and their functions have the ABI of Rust. So an implementation of `Add` becomes
//! two: one of a trait of ours with the body, and that of `Add`, which calls it.

use crate::scope::unsupported;
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{
    Attribute, FnArg, GenericArgument, ImplItem, ImplItemFn, ItemImpl, ItemTrait, Pat,
    PathArguments, Result, TraitItem, Type, parse_quote, spanned::Spanned,
};

/// A trait of the standard library with an operator.
#[derive(Copy, Clone)]
enum Operator {
    Binary(&'static str),
    Unary(&'static str),
    Assign(&'static str),
    Equal,
}

fn operator(name: &Ident) -> Option<Operator> {
    let name = name.to_string();
    const BINARY: [&str; 10] = [
        "Add", "Sub", "Mul", "Div", "Rem", "BitAnd", "BitOr", "BitXor", "Shl", "Shr",
    ];
    if let Some(op) = BINARY.iter().find(|b| **b == name) {
        return Some(Operator::Binary(op));
    }
    if let Some(op) = BINARY
        .iter()
        .find(|b| name.strip_suffix("Assign") == Some(b))
    {
        return Some(Operator::Assign(op));
    }
    match name.as_str() {
        "Neg" => Some(Operator::Unary("Neg")),
        "Not" => Some(Operator::Unary("Not")),
        "PartialEq" => Some(Operator::Equal),
        _ => None,
    }
}

/// The expansion, if the item is an `impl` or a `trait`.
pub(crate) fn expand(item: &TokenStream) -> Option<TokenStream> {
    if let Ok(block) = syn::parse2::<ItemImpl>(item.clone()) {
        let expanded = implementation(block);
        return Some(expanded.unwrap_or_else(|e| e.to_compile_error()));
    }
    let mut declared = syn::parse2::<ItemTrait>(item.clone()).ok()?;
    for item in &mut declared.items {
        if let TraitItem::Fn(f) = item {
            mark(&mut f.attrs, &f.sig.ident);
        }
    }
    Some(declared.into_token_stream())
}

/// Makes a function a `#[func]`, unless it is one.
fn mark(attributes: &mut Vec<Attribute>, name: &Ident) {
    let ours = |a: &Attribute| a.path().segments.last().is_some_and(|s| s.ident == "func");
    if !attributes.iter().any(ours) {
        let span = name.span();
        attributes.push(syn::parse_quote_spanned!(span=> #[::wuji::func]));
    }
}

fn implementation(mut block: ItemImpl) -> Result<TokenStream> {
    let path = block.trait_.as_ref().map(|t| t.0.clone());
    let found = path.and_then(|p| {
        let last = p.segments.last()?;
        Some((operator(&last.ident)?, last.arguments.clone()))
    });
    match found {
        Some((operator, arguments)) => implement(block, operator, &arguments),
        None => {
            for item in &mut block.items {
                if let ImplItem::Fn(f) = item {
                    mark(&mut f.attrs, &f.sig.ident);
                }
            }
            Ok(block.into_token_stream())
        }
    }
}

/// The implementation of an operator.
fn implement(
    mut block: ItemImpl,
    operator: Operator,
    arguments: &PathArguments,
) -> Result<TokenStream> {
    let own = own_type(&block);
    let rhs = match arguments {
        PathArguments::AngleBracketed(args) => match args.args.first() {
            Some(GenericArgument::Type(t)) => t.clone(),
            _ => own.clone(),
        },
        _ => own.clone(),
    };
    let marker = |name: &str| {
        let name = Ident::new(name, block.span());
        quote!(::wuji::__private::operators::#name)
    };
    let of = match operator {
        Operator::Binary(op) => {
            let op = marker(op);
            quote!(::wuji::__private::operators::Binary<#op, #rhs>)
        }
        Operator::Unary(op) => {
            let op = marker(op);
            quote!(::wuji::__private::operators::Unary<#op>)
        }
        Operator::Assign(op) => {
            let op = marker(op);
            quote!(::wuji::__private::operators::Assign<#op, #rhs>)
        }
        Operator::Equal => quote!(::wuji::__private::operators::Equal<#rhs>),
    };
    let mut bodies = Vec::new();
    for item in &mut block.items {
        if let ImplItem::Fn(f) = item {
            bodies.push(moved(f, operator, &of)?);
        }
    }
    let types = block
        .items
        .iter()
        .filter(|i| matches!(i, ImplItem::Type(_)));
    let (impl_generics, _, clause) = block.generics.split_for_impl();
    Ok(quote! {
        impl #impl_generics #of for #own #clause {
            #(#types)*
            #(#bodies)*
        }
        #block
    })
}

fn own_type(block: &ItemImpl) -> Type {
    (*block.self_ty).clone()
}

/// Takes the body out of a function, which then calls what it is moved to.
fn moved(f: &mut ImplItemFn, operator: Operator, of: &TokenStream) -> Result<TokenStream> {
    let mut body = f.clone();
    body.attrs.retain(|a| !a.path().is_ident("func"));
    f.attrs.retain(|a| !a.path().is_ident("func"));
    body.sig.ident = Ident::new("apply", f.sig.ident.span());
    let span = f.sig.ident.span();
    if f.sig.receiver().is_none() || f.sig.inputs.len() > 2 {
        return unsupported(&f.sig.inputs, "an operator has one or two operands");
    }
    let mut argument = quote!();
    if let Some(FnArg::Typed(p)) = f.sig.inputs.iter_mut().nth(1) {
        let name = Ident::new("__rhs", p.pat.span());
        *p.pat = parse_quote!(#name);
        argument = match operator {
            Operator::Equal => quote_spanned!(span=> *#name),
            Operator::Binary(_) | Operator::Unary(_) | Operator::Assign(_) => quote!(#name),
        };
    }
    if let (Operator::Equal, Some(FnArg::Typed(p))) = (operator, body.sig.inputs.iter_mut().nth(1))
        && let Type::Reference(r) = &*p.ty
        && let Pat::Ident(name) = &*p.pat
    {
        let (name, value) = (name.ident.clone(), r.elem.clone());
        p.ty = value;
        body.block
            .stmts
            .insert(0, parse_quote!(let #name = &#name;));
    }
    f.block = parse_quote!({ <Self as #of>::apply(self, #argument) });
    Ok(quote!(#[::wuji::func] #body))
}
