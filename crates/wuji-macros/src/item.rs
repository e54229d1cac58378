//! Items inside of kernels and functions.

use crate::scope::{Walker, unsupported};
use proc_macro2::TokenStream;
use quote::quote;
use syn::{Attribute, Item, Result};

impl Walker {
    /// Moves an item out of the body. A function becomes a `#[func]`.
    pub(crate) fn item(&mut self, item: &Item) -> Result<()> {
        let code: TokenStream = match item {
            Item::Fn(f) if !f.attrs.iter().any(is_ours) => quote!(#[::wuji::func] #f),
            Item::Macro(m) => {
                return unsupported(m, "macros are declared outside of a kernel");
            }
            other => quote!(#other),
        };
        self.items.push(code);
        Ok(())
    }
}

fn is_ours(attribute: &Attribute) -> bool {
    let last = attribute.path().segments.last();
    last.is_some_and(|s| s.ident == "func" || s.ident == "kernel")
}
