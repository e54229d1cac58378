//! `#[derive(Element)]` of enums: a tag, and the fields of all variants one after the other.

use crate::derive::constants;
use crate::pattern::member;
use crate::scope::unsupported;
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use syn::{DataEnum, DeriveInput, Fields, Member, Result, Type, parse_quote};

/// A field of a variant.
struct Part<'a> {
    variant: usize,
    member: Member,
    ty: &'a Type,
    /// Its name in expansions.
    name: Ident,
}

pub(crate) fn derive(input: &DeriveInput, data: &DataEnum) -> Result<TokenStream> {
    let name = &input.ident;
    if data.variants.is_empty() {
        return unsupported(name, "an enum that is an element has at least one variant");
    }
    if data.variants.len() > 256 {
        return unsupported(name, "an enum that is an element has at most 256 variants");
    }
    let plain = data
        .variants
        .iter()
        .all(|v| matches!(v.fields, Fields::Unit));
    let parts = parts(data);
    let element = quote!(::wuji::Element);
    let mut generics = input.generics.clone();
    for p in generics.type_params_mut() {
        p.bounds.push(parse_quote!(#element));
    }
    let (impl_generics, type_generics, where_clause) = generics.split_for_impl();
    let text = name.to_string();
    // Only enums without fields have discriminants that users see.
    let listed = data.variants.iter().enumerate().map(|(k, v)| {
        let (ident, text) = (&v.ident, v.ident.to_string());
        let number = k as i64;
        if plain {
            quote!((#text, #name::#ident as i64))
        } else {
            quote!((#text, #number))
        }
    });
    let labels = parts.iter().map(|p| {
        let variant = &data.variants[p.variant].ident;
        format!("{variant}.{}", member(&p.member))
    });
    let types: Vec<&Type> = parts.iter().map(|p| p.ty).collect();
    let constants = constants(1, &types, &vec![element.clone(); types.len()]);
    let values = Values {
        name,
        data,
        parts: &parts,
    };
    let zero = values.of_variant(0, |p| {
        let ty = p.ty;
        quote!(<#ty as #element>::zero())
    });
    let (memory, slots) = (values.in_memory(), values.in_slots());
    Ok(quote! {
        impl #impl_generics #element for #name #type_generics #where_clause {
            #constants

            fn ir_type(structs: &mut ::wuji::__private::Structs) -> ::wuji::__private::Type {
                let fields = ::std::vec![#((
                    ::std::string::String::from(#labels),
                    <#types as #element>::ir_type(structs),
                )),*];
                ::wuji::__private::enum_type(structs, #text, &[#(#listed),*], fields)
            }

            fn zero() -> Self {
                #zero
            }

            #memory
            #slots
        }
    })
}

/// The values of an enum.
struct Values<'a> {
    name: &'a Ident,
    data: &'a DataEnum,
    parts: &'a [Part<'a>],
}

impl Values<'_> {
    /// `read` and `write`: bytes.
    fn in_memory(&self) -> TokenStream {
        let (names, types) = self.names_and_types();
        let places = quote! {
            let at = 1;
            #(let #names = ::wuji::element::align_up(at, <#types as ::wuji::Element>::ALIGN);
              let at = #names + <#types as ::wuji::Element>::SIZE;)*
            let _ = at;
        };
        let read = self.by_tag(|p| {
            let (ty, at) = (p.ty, &p.name);
            quote!(<#ty as ::wuji::Element>::read(&bytes[#at..]))
        });
        let write = self.to_tag(|p, value| {
            let (ty, at) = (p.ty, &p.name);
            quote!(<#ty as ::wuji::Element>::write(#value, &mut bytes[#at..]);)
        });
        quote! {
            #[allow(unused_variables)]
            fn read(bytes: &[u8]) -> Self {
                #places
                match bytes[0] {
                    #(#read)*
                    _ => Self::zero(),
                }
            }

            #[allow(unused_variables)]
            fn write(self, bytes: &mut [u8]) {
                #places
                bytes[..Self::SIZE].fill(0);
                bytes[0] = match self { #(#write)* };
            }
        }
    }

    /// `to_slots` and `from_slots`: arguments of launches.
    fn in_slots(&self) -> TokenStream {
        let (names, types) = self.names_and_types();
        let places = quote! {
            let at = 1;
            #(let #names = at;
              let at = #names + <#types as ::wuji::Element>::SCALARS;)*
            let _ = at;
        };
        let from_slots = self.by_tag(|p| {
            let (ty, at) = (p.ty, &p.name);
            quote!(<#ty as ::wuji::Element>::from_slots(&slots[#at..]))
        });
        let to_slots = self.to_tag(|p, value| {
            let (ty, at) = (p.ty, &p.name);
            quote!(<#ty as ::wuji::Element>::to_slots(#value, &mut slots[#at..]);)
        });
        quote! {
            #[allow(unused_variables)]
            fn to_slots(self, slots: &mut [u64]) {
                #places
                slots[..Self::SCALARS].fill(0);
                slots[0] = match self { #(#to_slots)* };
            }

            #[allow(unused_variables)]
            fn from_slots(slots: &[u64]) -> Self {
                #places
                match slots[0] as u8 {
                    #(#from_slots)*
                    _ => Self::zero(),
                }
            }
        }
    }

    fn names_and_types(&self) -> (Vec<&Ident>, Vec<&Type>) {
        self.parts.iter().map(|p| (&p.name, p.ty)).unzip()
    }

    /// Arms from the tag of each variant to its value.
    fn by_tag(&self, how: impl Fn(&Part<'_>) -> TokenStream) -> Vec<TokenStream> {
        let arm = |k: usize| {
            let tag = k as u8;
            let value = self.of_variant(k, &how);
            quote!(#tag => #value,)
        };
        (0..self.data.variants.len()).map(arm).collect()
    }

    /// A value of variant `k`.
    fn of_variant(&self, k: usize, how: impl Fn(&Part<'_>) -> TokenStream) -> TokenStream {
        let (name, variant) = (self.name, &self.data.variants[k].ident);
        let fields = self.parts.iter().filter(|p| p.variant == k).map(|p| {
            let (member, value) = (&p.member, how(p));
            quote!(#member: #value)
        });
        quote!(#name::#variant { #(#fields),* })
    }

    /// Arms that take the value of each variant apart and give its tag.
    fn to_tag(&self, how: impl Fn(&Part<'_>, &Ident) -> TokenStream) -> Vec<TokenStream> {
        let arm = |k: usize| {
            let (name, variant) = (self.name, &self.data.variants[k].ident);
            let own: Vec<&Part<'_>> = self.parts.iter().filter(|p| p.variant == k).collect();
            let members = own.iter().map(|p| &p.member);
            let values: Vec<Ident> = (0..own.len()).map(|k| format_ident!("value{k}")).collect();
            let stored = own.iter().zip(&values).map(|(p, v)| how(p, v));
            let tag = proc_macro2::Literal::usize_unsuffixed(k);
            quote! {
                #name::#variant { #(#members: #values),* } => {
                    #(#stored)*
                    #tag
                }
            }
        };
        (0..self.data.variants.len()).map(arm).collect()
    }
}

fn parts(data: &DataEnum) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    for (variant, v) in data.variants.iter().enumerate() {
        for (member, field) in v.fields.members().zip(&v.fields) {
            parts.push(Part {
                variant,
                member,
                ty: &field.ty,
                name: format_ident!("at{}", parts.len()),
            });
        }
    }
    parts
}
