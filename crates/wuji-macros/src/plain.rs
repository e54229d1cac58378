//! Which expressions surely have a type of the language: their operators need no question to rustc.

use crate::builtin::is_method;
use crate::scope::Walker;
use syn::{BinOp, Expr, Lit, Pat, Type, UnOp};

impl Walker {
    /// Whether an expression is surely a number, a vector or a matrix. Of others, rustc knows.
    pub(crate) fn is_plain(&self, e: &Expr) -> bool {
        match e {
            Expr::Lit(l) => matches!(l.lit, Lit::Int(_) | Lit::Float(_) | Lit::Bool(_)),
            Expr::Cast(_) => true,
            Expr::Paren(p) => self.is_plain(&p.expr),
            Expr::Group(g) => self.is_plain(&g.expr),
            Expr::Unary(u) => match u.op {
                UnOp::Neg(_) | UnOp::Not(_) | UnOp::Deref(_) => self.is_plain(&u.expr),
                _ => false,
            },
            Expr::Binary(b) => {
                is_comparison(&b.op) || self.is_plain(&b.left) && self.is_plain(&b.right)
            }
            Expr::Path(_) => self.variable(e).is_some_and(|v| self.vars[v].plain),
            Expr::Index(i) => self.variable(&i.expr).is_some_and(|v| self.vars[v].plain),
            Expr::Field(f) => self.is_plain(&f.base),
            Expr::Call(c) => is_plain_call(&c.func),
            Expr::MethodCall(m) => match self.data(&m.receiver) {
                Some(_) => m.method == "shape" || m.method == "len",
                None => is_method(&m.method) && self.is_plain(&m.receiver),
            },
            _ => false,
        }
    }

    /// Which names of a pattern are plain by their value or type. To be asked before they are declared: they may hide variables of the
    /// value.
    pub(crate) fn plain_names<'p>(&self, pat: &'p Pat, value: &Expr, out: &mut Vec<&'p Pat>) {
        match (pat, value) {
            (Pat::Tuple(pats), Expr::Tuple(values)) if pats.elems.len() == values.elems.len() => {
                for (pat, value) in pats.elems.iter().zip(&values.elems) {
                    self.plain_names(pat, value, out);
                }
            }
            (Pat::Type(t), _) if is_plain_type(&t.ty) => out.push(pat),
            _ if self.is_plain(value) => out.push(pat),
            _ => {}
        }
    }

    /// Notes that all names of a pattern are plain.
    pub(crate) fn mark_names(&mut self, pat: &Pat) {
        match pat {
            Pat::Ident(i) => {
                if let Some(var) = self.find(&i.ident.to_string()) {
                    self.vars[var].plain = true;
                }
            }
            Pat::Tuple(t) => t.elems.iter().for_each(|p| self.mark_names(p)),
            Pat::Slice(s) => s.elems.iter().for_each(|p| self.mark_names(p)),
            Pat::Paren(p) => self.mark_names(&p.pat),
            Pat::Type(t) => self.mark_names(&t.pat),
            _ => {}
        }
    }
}

/// `vec3(..)` and `Vec3::splat(..)`.
fn is_plain_call(func: &Expr) -> bool {
    let Expr::Path(p) = func else {
        return false;
    };
    let names: Vec<String> = p
        .path
        .segments
        .iter()
        .map(|s| s.ident.to_string())
        .collect();
    match &names[..] {
        [.., owner, _] => is_value_name(owner) && owner.starts_with(char::is_uppercase),
        [name] => ["vec", "dvec", "ivec", "uvec", "bvec", "mat"]
            .iter()
            .any(|v| matches!(name.strip_prefix(v), Some("2" | "3" | "4"))),
        [] => false,
    }
}

fn is_comparison(op: &BinOp) -> bool {
    matches!(
        op,
        BinOp::Eq(_)
            | BinOp::Ne(_)
            | BinOp::Lt(_)
            | BinOp::Le(_)
            | BinOp::Gt(_)
            | BinOp::Ge(_)
            | BinOp::And(_)
            | BinOp::Or(_)
    )
}

/// Whether a type is that of numbers, vectors or matrices, or holds them as its elements.
pub(crate) fn is_plain_type(ty: &Type) -> bool {
    match ty {
        Type::Reference(r) => is_plain_type(&r.elem),
        Type::Slice(s) => is_plain_type(&s.elem),
        Type::Array(a) => is_plain_type(&a.elem),
        Type::Path(p) => {
            let Some(last) = p.path.segments.last() else {
                return false;
            };
            let name = last.ident.to_string();
            let data = [
                "Field",
                "Array",
                "ArrayMut",
                "SharedArray",
                "NdArray",
                "Param",
            ];
            if data.contains(&name.as_str()) {
                let syn::PathArguments::AngleBracketed(args) = &last.arguments else {
                    return false;
                };
                return args.args.iter().any(|a| match a {
                    syn::GenericArgument::Type(t) => is_plain_type(t),
                    _ => false,
                });
            }
            is_value_name(&name)
        }
        _ => false,
    }
}

/// Whether a name is that of a type of the language.
pub(crate) fn is_value_name(name: &str) -> bool {
    let letters = name.trim_end_matches(char::is_numeric);
    match letters {
        "f" | "i" | "u" | "Vec" | "DVec" | "IVec" | "UVec" | "BVec" | "Mat" | "DMat" => {
            letters != name
        }
        _ => matches!(name, "bool" | "usize" | "isize" | "Vector" | "Matrix"),
    }
}
