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

/// The trait whose functions read and write a field.
fn part(ty: &syn::Type) -> TokenStream {
    match ty {
        syn::Type::Array(_) => quote!(::wuji::__private::Part),
        _ => quote!(::wuji::Element),
    }
}

/// Alignment, size and number of scalars of parts that follow a tag; `tag` is its size, and the number of its scalars.
pub(crate) fn constants(tag: usize, types: &[&syn::Type], parts: &[TokenStream]) -> TokenStream {
    // The first use of a type names it, so that an invalid one is reported there, once.
    let aligns = types.iter().zip(parts).map(|(ty, part)| {
        quote_spanned!(ty.span()=> let align = ::wuji::element::larger(align, <#ty as #part>::ALIGN);)
    });
    quote! {
        const ALIGN: usize = {
            let align = 1;
            #(#aligns)*
            align
        };
        const SIZE: usize = {
            let at = #tag;
            #(let at = ::wuji::element::align_up(at, <#types as #parts>::ALIGN)
                + <#types as #parts>::SIZE;)*
            let align = 1;
            #(let align = ::wuji::element::larger(align, <#types as #parts>::ALIGN);)*
            ::wuji::element::align_up(at, align)
        };
        const SCALARS: usize = #tag #(+ <#types as #parts>::SCALARS)*;
    }
}

fn derive(input: &DeriveInput) -> Result<TokenStream> {
    if let Some(lifetime) = input.generics.lifetimes().next() {
        return unsupported(lifetime, "an element holds no references");
    }
    let data = match &input.data {
        Data::Struct(data) => data,
        Data::Enum(data) => return crate::derive_enum::derive(input, data),
        Data::Union(_) => return unsupported(&input.ident, "a union cannot be an element"),
    };
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
    let listed = fields.iter().map(|(m, ty)| {
        let name = member(m);
        match ty {
            syn::Type::Array(_) => {
                quote!(<#ty as ::wuji::__private::Part>::fields(#name, structs, &mut fields);)
            }
            _ => quote! {
                fields.push((::std::string::String::from(#name), <#ty as #element>::ir_type(structs)));
            },
        }
    });
    let types: Vec<&syn::Type> = fields.iter().map(|f| f.1).collect();
    // Arrays are parts of structs, and elements of nothing else.
    let parts: Vec<TokenStream> = types.iter().map(|ty| part(ty)).collect();
    let constants = constants(0, &types, &parts);
    Ok(quote! {
        impl #impl_generics #element for #name #type_generics #where_clause {
            #constants

            fn ir_type(structs: &mut ::wuji::__private::Structs) -> ::wuji::__private::Type {
                #[allow(unused_mut)]
                let mut fields = ::std::vec::Vec::new();
                #(#listed)*
                ::wuji::__private::struct_type(structs, #text, fields)
            }

            fn zero() -> Self {
                #name { #(#members: <#types as #parts>::zero(),)* }
            }

            #[allow(unused_variables, unused_mut, unused_assignments)]
            fn read(bytes: &[u8]) -> Self {
                let mut at = 0;
                #name { #(#members: {
                    at = ::wuji::element::align_up(at, <#types as #parts>::ALIGN);
                    let value = <#types as #parts>::read(&bytes[at..]);
                    at += <#types as #parts>::SIZE;
                    value
                },)* }
            }

            #[allow(unused_variables, unused_mut, unused_assignments)]
            fn write(self, bytes: &mut [u8]) {
                let mut at = 0;
                #(
                    at = ::wuji::element::align_up(at, <#types as #parts>::ALIGN);
                    <#types as #parts>::write(self.#members, &mut bytes[at..]);
                    at += <#types as #parts>::SIZE;
                )*
            }

            #[allow(unused_variables, unused_mut, unused_assignments)]
            fn to_slots(self, slots: &mut [u64]) {
                let mut at = 0;
                #(
                    <#types as #parts>::to_slots(self.#members, &mut slots[at..]);
                    at += <#types as #parts>::SCALARS;
                )*
            }

            #[allow(unused_variables, unused_mut, unused_assignments)]
            fn from_slots(slots: &[u64]) -> Self {
                let mut at = 0;
                #name { #(#members: {
                    let value = <#types as #parts>::from_slots(&slots[at..]);
                    at += <#types as #parts>::SCALARS;
                    value
                },)* }
            }
        }
    })
}
