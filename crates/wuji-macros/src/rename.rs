//! The name that the user's crate has for `wuji`.
//!
//! Expansions say `::wuji`. Where `Cargo.toml` renames the dependency, as in `w = { package = "wuji", .. }`, the path is changed to
//! that name.

use crate::manifest::{self, PACKAGE};
use proc_macro2::{Group, Ident, Spacing, TokenStream, TokenTree};
use std::path::{Path, PathBuf};

/// The tokens with the name that the crate under compilation has for `wuji`.
pub(crate) fn renamed(tokens: TokenStream) -> TokenStream {
    match own_name() {
        Some(name) => replace(tokens, &name),
        None => tokens,
    }
}

/// Another name than `wuji` in the manifest of the crate under compilation.
fn own_name() -> Option<String> {
    let folder = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR")?);
    let own = std::fs::read_to_string(folder.join("Cargo.toml")).ok()?;
    manifest::renamed(&own, || workspace(&folder))
}

/// The manifest of the workspace around a folder.
fn workspace(folder: &Path) -> Option<String> {
    let manifests = folder.ancestors().map(|f| f.join("Cargo.toml"));
    let mut texts = manifests.filter_map(|m| std::fs::read_to_string(m).ok());
    texts.find(|t| t.lines().any(|l| l.trim().starts_with("[workspace")))
}

/// Replaces the name in all paths that begin with `::wuji`.
fn replace(tokens: TokenStream, name: &str) -> TokenStream {
    let mut before = Before::Start;
    tokens
        .into_iter()
        .map(|token| {
            let here = before;
            before = here.then(&token);
            match token {
                TokenTree::Group(g) => {
                    let mut inner = Group::new(g.delimiter(), replace(g.stream(), name));
                    inner.set_span(g.span());
                    TokenTree::Group(inner)
                }
                TokenTree::Ident(i) if here == Before::Root && i == PACKAGE => {
                    TokenTree::Ident(Ident::new(name, i.span()))
                }
                other => other,
            }
        })
        .collect()
}

/// What stands in front of a token.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Before {
    Start,
    /// A segment of a path.
    Segment,
    /// The first colon of `::`; whether a segment is in front of it.
    Colon {
        after_segment: bool,
    },
    /// `::` at the beginning of a path.
    Root,
}

impl Before {
    fn then(self, token: &TokenTree) -> Before {
        match token {
            TokenTree::Punct(p) if p.as_char() == ':' => match self {
                Before::Colon {
                    after_segment: true,
                } => Before::Start,
                Before::Colon {
                    after_segment: false,
                } => Before::Root,
                // Not that of a type, as in `x: ::wuji::World`.
                Before::Start | Before::Segment | Before::Root => {
                    if p.spacing() == Spacing::Joint {
                        Before::Colon {
                            after_segment: self == Before::Segment,
                        }
                    } else {
                        Before::Start
                    }
                }
            },
            TokenTree::Ident(i) if !is_keyword(i) => Before::Segment,
            TokenTree::Ident(_)
            | TokenTree::Group(_)
            | TokenTree::Punct(_)
            | TokenTree::Literal(_) => Before::Start,
        }
    }
}

/// Words that a path can follow.
fn is_keyword(i: &Ident) -> bool {
    let words = [
        "as", "break", "dyn", "else", "if", "impl", "in", "let", "match", "move", "mut", "return",
        "use", "while",
    ];
    words.iter().any(|w| i == w)
}

#[cfg(test)]
mod tests {
    use super::replace;
    use quote::quote;

    #[test]
    fn paths_that_begin_with_the_name() {
        let code = quote! {
            use ::wuji::World;
            static A: ::wuji::Ast = ::wuji::make(x as ::wuji::Type, &mut ::wuji::y);
            fn f() -> ::wuji::Result<::wuji::World> { return ::wuji::run(<T as ::wuji::E>::wuji::X) }
            let other = a::wuji::b + wuji.c + wuji::d;
        };
        let expected = quote! {
            use ::w::World;
            static A: ::w::Ast = ::w::make(x as ::w::Type, &mut ::w::y);
            fn f() -> ::w::Result<::w::World> { return ::w::run(<T as ::w::E>::w::X) }
            let other = a::wuji::b + wuji.c + wuji::d;
        };
        assert_eq!(replace(code, "w").to_string(), expected.to_string());
    }
}
