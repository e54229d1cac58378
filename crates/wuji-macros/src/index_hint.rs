//! `x[i, j]`, which is no Rust: elements have one index between the brackets, `x[[i, j]]`.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::quote;
use syn::{Error, ItemFn};

/// Words after which brackets begin an array or a pattern, not an index.
const KEYWORDS: &[&str] = &[
    "as", "break", "const", "dyn", "else", "for", "if", "impl", "in", "let", "loop", "match",
    "move", "mut", "ref", "return", "static", "unsafe", "where", "while", "yield",
];

/// The errors for all such indices, and the function without its body; `None` where there are none.
pub(crate) fn find(item: &TokenStream) -> Option<(ItemFn, Error)> {
    let mut errors = Vec::new();
    search(item.clone(), &mut errors);
    let error = errors.into_iter().reduce(|mut all, e| {
        all.combine(e);
        all
    })?;
    let function = syn::parse2(without_body(item.clone())).ok()?;
    Some((function, error))
}

fn search(tokens: TokenStream, errors: &mut Vec<Error>) {
    let mut before = None;
    for token in tokens {
        if let TokenTree::Group(g) = &token {
            if g.delimiter() == Delimiter::Bracket && is_value(before.as_ref()) && has_comma(g) {
                errors.push(hint(g, before.as_ref()));
            } else {
                search(g.stream(), errors);
            }
        }
        before = Some(token);
    }
}

/// Whether a token ends a value, so that brackets after it are an index.
fn is_value(token: Option<&TokenTree>) -> bool {
    match token {
        Some(TokenTree::Ident(name)) => {
            let name = name.to_string();
            !KEYWORDS.contains(&name.as_str())
        }
        Some(TokenTree::Group(g)) => {
            matches!(g.delimiter(), Delimiter::Parenthesis | Delimiter::Bracket)
        }
        Some(TokenTree::Punct(_) | TokenTree::Literal(_)) | None => false,
    }
}

fn has_comma(g: &Group) -> bool {
    let mut tokens = g.stream().into_iter();
    tokens.any(|t| matches!(t, TokenTree::Punct(p) if p.as_char() == ','))
}

fn hint(g: &Group, before: Option<&TokenTree>) -> Error {
    let base = match before {
        Some(TokenTree::Ident(name)) => name.to_string(),
        _ => "x".to_string(),
    };
    let index = crate::expr::source(g);
    let message = format!(
        "the index of an element is one value between the brackets\nhelp: write `{base}[{index}]`"
    );
    Error::new(g.span(), message)
}

/// The function with an empty body.
fn without_body(item: TokenStream) -> TokenStream {
    let mut tokens: Vec<TokenTree> = item.into_iter().collect();
    if let Some(TokenTree::Group(body)) = tokens.last_mut()
        && body.delimiter() == Delimiter::Brace
    {
        *body = Group::new(Delimiter::Brace, TokenStream::new());
    }
    quote!(#(#tokens)*)
}
