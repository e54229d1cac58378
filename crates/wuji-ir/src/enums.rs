//! Enums as structs.
//!
//! The first field of such a struct is the number of the variant. Its name lists the variants, `=None|Some`, with their discriminants where
//! they differ from the numbers, `=Low:10|High:20`. The other fields are those of all variants, `Some.0`. They are zero where their
//! variant is not the value.

use crate::types::{Scalar, StructType, Type};

/// The type of the first field.
pub const TAG: Type = Type::Scalar(Scalar::U8);
/// As many variants as a tag can tell apart.
pub const MOST_VARIANTS: usize = 256;

/// A variant of an enum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant<'a> {
    /// Its name.
    pub name: &'a str,
    /// The number that stands for it.
    pub discriminant: i64,
    /// The names of its fields, and their numbers in the struct.
    pub fields: Vec<(&'a str, usize)>,
}

/// The struct of an enum: its variants with their discriminants, and the fields of all variants as `Variant.field`.
pub fn enum_type(name: &str, variants: &[(&str, i64)], fields: Vec<(String, Type)>) -> StructType {
    let names: Vec<String> = (0i64..)
        .zip(variants)
        .map(|(k, (name, discriminant))| {
            if k == *discriminant {
                (*name).to_string()
            } else {
                format!("{name}:{discriminant}")
            }
        })
        .collect();
    let tag = (format!("={}", names.join("|")), TAG);
    StructType {
        name: name.to_string(),
        fields: std::iter::once(tag).chain(fields).collect(),
    }
}

/// The variants of an enum; `None` for other structs.
pub fn variants(ty: &StructType) -> Option<Vec<Variant<'_>>> {
    let names = ty.fields.first()?.0.strip_prefix('=')?;
    let mut all = Vec::new();
    for (k, text) in (0i64..).zip(names.split('|')) {
        let (name, discriminant) = match text.split_once(':') {
            Some((name, number)) => (name, number.parse().ok()?),
            None => (text, k),
        };
        let fields = ty.fields.iter().enumerate().filter_map(|(at, (field, _))| {
            let field = field.strip_prefix(name)?.strip_prefix('.')?;
            Some((field, at))
        });
        all.push(Variant {
            name,
            discriminant,
            fields: fields.collect(),
        });
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_survive_their_struct() {
        let fields = vec![("B.0".to_string(), TAG), ("C.size".to_string(), TAG)];
        let ty = enum_type("E", &[("A", 0), ("B", 7), ("C", 2)], fields);
        let found = variants(&ty).unwrap();
        assert_eq!(ty.fields[0].0, "=A|B:7|C");
        let names: Vec<&str> = found.iter().map(|v| v.name).collect();
        assert_eq!(names, ["A", "B", "C"]);
        assert_eq!(
            (found[1].discriminant, &found[1].fields[..]),
            (7, &[("0", 1)][..])
        );
        assert_eq!(found[2].fields, [("size", 2)]);
    }

    #[test]
    fn other_structs_have_no_variants() {
        let ty = StructType {
            name: "P".into(),
            fields: vec![("x".into(), TAG)],
        };
        assert_eq!(variants(&ty), None);
    }
}
