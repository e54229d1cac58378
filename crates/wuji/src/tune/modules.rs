//! Searches for kernels in textual IR: their fields, and modules with other types.

use super::packing::Pack;
use super::search::StoragePlan;
use super::storage::{Range, Storage, TunedField};
use super::trial::element;
use smallvec::SmallVec;
use wuji_ir::entities::Field;
use wuji_ir::layout::{Child, FieldData};
use wuji_ir::module::Module;
use wuji_ir::quant::{Member, Packing};
use wuji_ir::types::{Scalar, Type};
use wuji_ir::{Error, Result};

/// What a field of a module is called: its name, or `f3` where that is not unique.
pub fn field_name(m: &Module, field: Field) -> String {
    let name = &m.fields[field].name;
    let same = m.fields.values().filter(|f| f.name == *name).count();
    if name.is_empty() || same > 1 {
        field.to_string()
    } else {
        name.clone()
    }
}

/// The field of a module with a name, or a number such as `f3`.
pub fn field_named(m: &Module, name: &str) -> Option<Field> {
    let mut fields = m.fields.keys();
    fields.find(|f| field_name(m, *f) == name || f.to_string() == name)
}

/// The fields whose types can be chosen: those that have memory of their own and elements of numbers. No ranges are known yet.
pub fn tunable(m: &Module) -> Vec<(Field, TunedField)> {
    let packings = m.fields.values().filter_map(|f| f.packing.as_ref());
    let words: Vec<Field> = (packings.flat_map(|p| &p.members))
        .map(|member| member.word)
        .collect();
    let mut nodes = Vec::new();
    let mut found = Vec::new();
    for (field, data) in &m.fields {
        let Some((compute, shape)) = element(data.elem) else {
            continue;
        };
        if !data.has_memory() || words.contains(&field) {
            continue;
        }
        // A word has the indices of what it holds.
        let key = (data.tree, data.node, &data.axes);
        let known = nodes.iter().position(|n| *n == key);
        let node = known.unwrap_or_else(|| {
            nodes.push(key);
            nodes.len() - 1
        });
        let domain = data.domain(&m.trees);
        let tuned = TunedField {
            name: field_name(m, field),
            compute,
            shape,
            node,
            cells: domain.iter().fold(1, |n: u64, d| n.saturating_mul(d.1)),
            range: Range::default(),
        };
        found.push((field, tuned));
    }
    found
}

/// A module whose fields are stored by a plan. The numbers of its fields stay; words come after them.
pub fn retype(m: &Module, plan: &StoragePlan) -> Result<Module> {
    let mut m = m.clone();
    // Words have names, too.
    let found = |(name, _): &(String, Storage)| {
        let missing = || Error::new("W0160", format!("there is no field `{name}` to tune"));
        field_named(&m, name).ok_or_else(missing)
    };
    let fields: Vec<Field> = plan.fields.iter().map(found).collect::<Result<_>>()?;
    for layout in &plan.nodes {
        let word = match layout.word {
            8 => Scalar::U8,
            16 => Scalar::U16,
            32 => Scalar::U32,
            _ => Scalar::U64,
        };
        for pack in &layout.packs {
            put(&mut m, plan, &fields, pack, word)?;
        }
    }
    Ok(m)
}

/// Adds the words of a bit struct, and packs its fields.
fn put(
    m: &mut Module,
    plan: &StoragePlan,
    fields: &[Field],
    pack: &Pack,
    word: Scalar,
) -> Result<()> {
    let Some((first, _)) = pack.fields.first() else {
        return Ok(());
    };
    let like = m.fields[fields[*first]].clone();
    let mut words = Vec::new();
    for n in 0..pack.used.len() {
        let held = pack.fields.iter().filter(|f| f.1.contains(&n));
        let held: Vec<&str> = held.map(|f| plan.fields[f.0].0.as_str()).collect();
        let field = m.fields.push(FieldData {
            name: format!("word of {}", held.join(", ")),
            elem: Type::Scalar(word),
            packing: None,
            ..like.clone()
        });
        let node = &mut m.trees[like.tree].nodes[like.node];
        node.children.push(Child::Place(field));
        words.push(field);
    }
    let mut used = vec![0; words.len()];
    for (n, at) in &pack.fields {
        let (storage, data) = (plan.fields[*n].1, &mut m.fields[fields[*n]]);
        let Some((compute, _)) = element(data.elem) else {
            continue;
        };
        let mut members = SmallVec::new();
        // A shared exponent is below its fractions.
        let exponent = storage.is_shared().then(|| used[at[0]]);
        if exponent.is_some() {
            used[at[0]] += storage.shared_bits() as u8;
        }
        for word in at {
            let Some(ty) = storage.quantized() else {
                continue;
            };
            members.push(Member {
                word: words[*word],
                at: used[*word],
                ty: ty.lower(compute, exponent)?,
            });
            used[*word] += storage.bits() as u8;
        }
        data.packing = Some(Packing { members });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::packing::arrange;
    use super::*;
    use wuji_ir::text::parse;
    use wuji_ir::verify::verify;

    const PARTICLES: &str = r#"
module "move"
tree T0 { dense S1 [i: 4] { place f0, f1, f2 } }
field f0 "x": f32x3 in T0.S1 (i)
field f1 "v": f32x3 in T0.S1 (i)
field f2 "kind": i32 in T0.S1 (i)
kernel fn0 "move"() {
  return
}
"#;

    #[test]
    fn fields_of_a_module_are_packed() {
        let m = parse(PARTICLES, "move.wir").expect("a module");
        let found: Vec<TunedField> = tunable(&m).into_iter().map(|f| f.1).collect();
        assert_eq!(found.len(), 3);
        assert!(found.iter().all(|f| (f.node, f.cells) == (0, 4)));
        let storages = [
            Storage::Fixed {
                bits: 21,
                signed: true,
                max_value: 2.0,
            },
            Storage::SharedExponent {
                exponent: 5,
                fraction: 10,
                signed: true,
            },
            Storage::Int {
                bits: 2,
                signed: false,
            },
        ];
        let plan = StoragePlan {
            fields: (found.iter().map(|f| f.name.clone()))
                .zip(storages)
                .collect(),
            nodes: vec![arrange(&found, &storages, &[0, 1, 2])],
        };
        let packed = retype(&m, &plan).expect("a module");
        verify(&packed).expect("a valid module");
        let text = packed.to_string();
        assert!(text.contains("fraction 10 exponent 5 at "), "{text}");
        assert!(text.contains("uint 2 in f"), "{text}");
        // It can be read again.
        verify(&parse(&text, "packed.wir").expect("a module")).expect("a valid module");
        assert!(tunable(&packed).is_empty());
    }

    #[test]
    fn names_that_are_not_unique_are_numbers() {
        let text = PARTICLES.replace("\"v\"", "\"x\"");
        let m = parse(&text, "move.wir").expect("a module");
        let names: Vec<String> = tunable(&m).into_iter().map(|f| f.1.name).collect();
        assert_eq!(names, ["f0", "f1", "kind"]);
        assert_eq!(field_named(&m, "kind"), field_named(&m, "f2"));
        assert_eq!(field_named(&m, "x"), None);
    }
}
