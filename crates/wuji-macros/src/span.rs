//! Spans. rustc underlines from the first to the last token of an expression.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};

/// A variable of the expansion. Its name has the same meaning at any position, also when the user's code comes from a
/// `macro_rules` macro.
pub(crate) fn own(name: &str, at: Span) -> Ident {
    Ident::new(name, Span::call_site().located_at(at))
}

/// Line and column as they are in the static data.
pub(crate) fn at(span: Span) -> TokenStream {
    let start = span.unwrap().start();
    let (line, column) = (start.line() as u32, start.column() as u32);
    quote!(At(#line, #column))
}

/// The spans of the first and the last token.
pub(crate) fn ends(code: &impl ToTokens) -> (Span, Span) {
    let mut tokens = code.to_token_stream().into_iter();
    let Some(first) = tokens.next() else {
        return (Span::call_site(), Span::call_site());
    };
    let open = match &first {
        TokenTree::Group(g) => g.span_open(),
        other => other.span(),
    };
    let close = match tokens.last().unwrap_or(first) {
        TokenTree::Group(g) => g.span_close(),
        other => other.span(),
    };
    (open, close)
}

/// `( .. )` and the like, with a given span.
pub(crate) fn group(delimiter: Delimiter, inner: TokenStream, span: Span) -> TokenStream {
    let mut group = Group::new(delimiter, inner);
    group.set_span(span);
    quote!(#group)
}

pub(crate) fn parens(inner: TokenStream, span: Span) -> TokenStream {
    group(Delimiter::Parenthesis, inner, span)
}

/// `::wuji::__private::name(args)`, underlined like `user`.
pub(crate) fn helper(name: &str, args: TokenStream, user: &impl ToTokens) -> TokenStream {
    let (first, last) = ends(user);
    let name = Ident::new(name, first);
    let args = parens(args, last);
    quote_spanned!(first=> ::wuji::__private::#name #args)
}

/// An expression of the static data.
pub(crate) fn node(span: Span, kind: TokenStream) -> TokenStream {
    let at = at(span);
    quote!(Expr { at: #at, kind: Kind::#kind })
}
