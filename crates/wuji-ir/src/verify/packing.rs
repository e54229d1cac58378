//! Verifies packed fields: every scalar has bits of its own in a word that exists.

use crate::diag::{Error, Result};
use crate::entities::Field;
use crate::layout::FieldData;
use crate::module::Module;
use crate::quant::{Packing, Quantized, mask};
use crate::types::{Scalar, Type};
use rustc_hash::FxHashMap;

fn wrong(field: Field, why: impl std::fmt::Display) -> Error {
    Error::new("W0023", format!("packed field {field}: {why}"))
}

pub(super) fn fields(m: &Module) -> Result<()> {
    let mut used: FxHashMap<Field, u64> = FxHashMap::default();
    let mut exponents: FxHashMap<(Field, u8), (u8, Scalar)> = FxHashMap::default();
    for (id, data) in &m.fields {
        let in_array = m.trees[data.tree].bit_array(data.node).is_some();
        let Some(packing) = &data.packing else {
            if in_array && !data.is_split() {
                return Err(wrong(id, "a bit array holds packed fields only"));
            }
            continue;
        };
        let scalars = m.structs.flatten(data.elem);
        if scalars.is_empty() {
            return Err(wrong(id, "its elements have no scalars"));
        }
        if scalars.len() != packing.members.len() {
            let (n, have) = (scalars.len(), packing.members.len());
            return Err(wrong(id, format!("{n} scalars have {have} places")));
        }
        for (member, compute) in packing.members.iter().zip(scalars) {
            member.ty.check(compute).map_err(|why| wrong(id, why))?;
            word(m, id, data, member.word)?;
            let own = u32::from(member.at) + member.ty.bits();
            take(
                m,
                id,
                data,
                packing,
                (member.word, member.at, own),
                &mut used,
            )?;
            let Quantized::Fraction { exponent, .. } = member.ty else {
                continue;
            };
            if in_array {
                return Err(wrong(id, "numbers in a bit array cannot share exponents"));
            }
            let key = (member.word, exponent.at);
            let shared = (exponent.bits, compute);
            match exponents.insert(key, shared) {
                Some(other) if other != shared => {
                    let why = "numbers that share an exponent have one compute type";
                    return Err(wrong(id, why));
                }
                Some(_) => {}
                None => claim(m, id, key, exponent.bits, &mut used)?,
            }
        }
    }
    Ok(())
}

/// The word is an unsigned number in the same cell, or in that around the bit array.
fn word(m: &Module, id: Field, data: &FieldData, word: Field) -> Result<()> {
    let Some(holder) = m.fields.get(word) else {
        return Err(wrong(id, format!("{word} is not defined")));
    };
    let unsigned = matches!(holder.elem, Type::Scalar(s) if s.is_unsigned_int());
    if !unsigned || holder.packing.is_some() {
        return Err(wrong(id, format!("{word} is not a word: `u8` to `u64`")));
    }
    let array = m.trees[data.tree].bit_array(data.node);
    let node = array.map_or(Some(data.node), |n| n.parent);
    let has = |axis| holder.axes.iter().any(|a| a.0 == axis);
    let aligned = match array {
        Some(_) => data.axes.iter().all(|a| has(a.0)),
        None => holder.axes == data.axes,
    };
    if holder.tree != data.tree || Some(holder.node) != node || !aligned {
        return Err(wrong(id, format!("its word {word} is not in its cells")));
    }
    Ok(())
}

/// Takes the bits of one scalar, in all elements of a bit array.
fn take(
    m: &Module,
    id: Field,
    data: &FieldData,
    packing: &Packing,
    (word, at, end): (Field, u8, u32),
    used: &mut FxHashMap<Field, u64>,
) -> Result<()> {
    let array = m.trees[data.tree].bit_array(data.node);
    let cells = array.map_or(1, |n| n.cells());
    let stride = u64::from(packing.stride());
    let last = cells.saturating_sub(1).saturating_mul(stride);
    if last.saturating_add(end.into()) > u64::from(bits(m, word)) {
        return Err(wrong(id, format!("it does not fit its word {word}")));
    }
    let width = (end - u32::from(at)) as u8;
    (0..cells).try_for_each(|k| claim(m, id, (word, at + (k * stride) as u8), width, used))
}

fn bits(m: &Module, word: Field) -> u32 {
    m.fields[word].elem.as_scalar().map_or(0, Scalar::bits)
}

fn claim(
    m: &Module,
    id: Field,
    (word, at): (Field, u8),
    width: u8,
    used: &mut FxHashMap<Field, u64>,
) -> Result<()> {
    if u32::from(at) + u32::from(width) > bits(m, word) {
        return Err(wrong(id, format!("it does not fit its word {word}")));
    }
    let own = mask(width.into()) << at;
    let taken = used.entry(word).or_default();
    if *taken & own != 0 {
        let why = format!("bits of {word} from {at} on are used twice");
        return Err(wrong(id, why));
    }
    *taken |= own;
    Ok(())
}
