//! `#[derive(Element)]`.

use crate::pattern::member;
use crate::scope::unsupported;
use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{Data, DeriveInput, Fields, Member, Result, parse_quote, spanned::Spanned};

pub(crate) fn expand(item: TokenStream) -> TokenStream {
    let derived = syn::parse2::<DeriveInput>(item).and_then(|input| derive(&input));
    derived.unwrap_or_else(|e| e.to_compile_error())
}

fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Struct(data) = &input.data else {
        return unsupported(&input.ident, "only structs can be elements");
    };
    if let Some(lifetime) = input.generics.lifetimes().next() {
        return unsupported(lifetime, "an element holds no references");
    }
    let name = &input.ident;
    let text = name.to_string();
    let fields: Vec<(Member, &syn::Type)> = match &data.fields {
        Fields::Named(_) | Fields::Unnamed(_) | Fields::Unit => data
            .fields
            .members()
            .zip(data.fields.iter().map(|f| &f.ty))
            .collect(),
    };
    let element = quote!(::wuji::Element);
    let mut generics = input.generics.clone();
    for p in generics.type_params_mut() {
        p.bounds.push(parse_quote!(#element));
    }
    let (impl_generics, type_generics, where_clause) = generics.split_for_impl();
    let members: Vec<&Member> = fields.iter().map(|f| &f.0).collect();
    let names = members.iter().map(|m| member(m));
    // The first use of a type names it, so that an invalid one is reported there, once.
    let aligns = fields.iter().map(|(_, ty)| {
        quote_spanned!(ty.span()=> let align = ::wuji::element::larger(align, <#ty as #element>::ALIGN);)
    });
    let types: Vec<&syn::Type> = fields.iter().map(|f| f.1).collect();
    Ok(quote! {
        impl #impl_generics #element for #name #type_generics #where_clause {
            const ALIGN: usize = {
                let align = 1;
                #(#aligns)*
                align
            };
            const SIZE: usize = {
                let at = 0;
                #(let at = ::wuji::element::align_up(at, <#types as #element>::ALIGN)
                    + <#types as #element>::SIZE;)*
                let align = 1;
                #(let align = ::wuji::element::larger(align, <#types as #element>::ALIGN);)*
                ::wuji::element::align_up(at, align)
            };
            const SCALARS: usize = 0 #(+ <#types as #element>::SCALARS)*;

            fn ir_type(structs: &mut ::wuji::__private::Structs) -> ::wuji::__private::Type {
                let fields = ::std::vec![#((
                    ::std::string::String::from(#names),
                    <#types as #element>::ir_type(structs),
                )),*];
                ::wuji::__private::struct_type(structs, #text, fields)
            }

            fn zero() -> Self {
                #name { #(#members: <#types as #element>::zero(),)* }
            }

            #[allow(unused_variables, unused_mut, unused_assignments)]
            fn read(bytes: &[u8]) -> Self {
                let mut at = 0;
                #name { #(#members: {
                    at = ::wuji::element::align_up(at, <#types as #element>::ALIGN);
                    let value = <#types as #element>::read(&bytes[at..]);
                    at += <#types as #element>::SIZE;
                    value
                },)* }
            }

            #[allow(unused_variables, unused_mut, unused_assignments)]
            fn write(self, bytes: &mut [u8]) {
                let mut at = 0;
                #(
                    at = ::wuji::element::align_up(at, <#types as #element>::ALIGN);
                    <#types as #element>::write(self.#members, &mut bytes[at..]);
                    at += <#types as #element>::SIZE;
                )*
            }

            #[allow(unused_variables, unused_mut, unused_assignments)]
            fn to_slots(self, slots: &mut [u64]) {
                let mut at = 0;
                #(
                    <#types as #element>::to_slots(self.#members, &mut slots[at..]);
                    at += <#types as #element>::SCALARS;
                )*
            }

            #[allow(unused_variables, unused_mut, unused_assignments)]
            fn from_slots(slots: &[u64]) -> Self {
                let mut at = 0;
                #name { #(#members: {
                    let value = <#types as #element>::from_slots(&slots[at..]);
                    at += <#types as #element>::SCALARS;
                    value
                },)* }
            }
        }
    })
}
