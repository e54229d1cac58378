//! Whole fields in the memory of their tree, as scalars.

use super::Memory;
use super::packed::{PackedField, points};
use crate::address::Address;
use crate::program::field_address;
use std::ops::Range;
use wuji_ir::Result;
use wuji_ir::entities::Field;
use wuji_ir::module::Module;
use wuji_ir::types::{Imm, Scalar};

/// Every scalar of a field, elements in row-major order.
pub(crate) fn read_field(module: &Module, field: Field, bytes: &[u8]) -> Result<Vec<Imm>> {
    if module.fields[field].is_split() {
        return read_split(module, field, bytes);
    }
    let mut values = Vec::new();
    if let Some(packed) = PackedField::new(module, field)? {
        points(&module.fields[field].domain(&module.trees), |at| {
            values.extend(packed.read(at, bytes));
        });
        return Ok(values);
    }
    let scalars = module.structs.scalar_offsets(module.fields[field].elem);
    elements(&field_address(module, field)?, |at| {
        for (scalar, offset) in &scalars {
            values.push(read_scalar(&bytes[at + *offset as usize..], *scalar));
        }
    });
    Ok(values)
}

/// Sets a whole field from its scalars; missing ones are unchanged.
pub(crate) fn write_field(
    module: &Module,
    field: Field,
    bytes: &mut [u8],
    values: &[Imm],
) -> Result<()> {
    if module.fields[field].is_split() {
        return write_split(module, field, bytes, values);
    }
    if let Some(packed) = PackedField::new(module, field)? {
        let width = module.structs.flatten(module.fields[field].elem).len();
        let mut values = values.chunks(width.max(1));
        points(&module.fields[field].domain(&module.trees), |at| {
            if let Some(element) = values.next() {
                packed.write(at, element, bytes);
            }
        });
        return Ok(());
    }
    let scalars = module.structs.scalar_offsets(module.fields[field].elem);
    let mut values = values.iter();
    elements(&field_address(module, field)?, |at| {
        for ((scalar, offset), value) in scalars.iter().zip(&mut values) {
            let n = scalar.bytes() as usize;
            let at = at + *offset as usize;
            let word = value.bits().to_le_bytes();
            bytes[at..at + n].copy_from_slice(&word[..n]);
        }
    });
    Ok(())
}

/// Every scalar of a split field: those of the leaves, element by element.
fn read_split(module: &Module, field: Field, bytes: &[u8]) -> Result<Vec<Imm>> {
    let mut leaves = Vec::new();
    for leaf in module.leaves(field) {
        let values = read_field(module, leaf.field, bytes)?;
        leaves.push((leaf.scalars.len(), values));
    }
    let count = leaves
        .first()
        .map_or(0, |(width, values)| values.len() / width);
    let element = |n: usize| {
        let scalars = leaves.iter();
        scalars.flat_map(move |(width, values)| &values[n * width..(n + 1) * width])
    };
    Ok((0..count).flat_map(element).copied().collect())
}

fn write_split(module: &Module, field: Field, bytes: &mut [u8], values: &[Imm]) -> Result<()> {
    let width = module.structs.flatten(module.fields[field].elem).len();
    for leaf in module.leaves(field) {
        let elements = values.chunks_exact(width.max(1));
        let own = elements.flat_map(|element| &element[leaf.scalars.clone()]);
        let own: Vec<Imm> = own.copied().collect();
        write_field(module, leaf.field, bytes, &own)?;
    }
    Ok(())
}

fn elements(address: &Address, mut visit: impl FnMut(usize)) {
    let window: Vec<(u64, u64)> = address.domain().map(|d| (0, d.1)).collect();
    address.runs(&window, |run| {
        for k in 0..run.count {
            visit(run.offset + k * run.stride);
        }
    });
}

/// From the first byte of a field's elements to the last.
fn span(module: &Module, field: Field) -> Result<Range<usize>> {
    if module.fields[field].is_split() {
        let leaves = module.leaves(field).into_iter();
        let mut spans = leaves.map(|leaf| span(module, leaf.field));
        let first = spans.next().unwrap_or(Ok(0..0))?;
        return spans.try_fold(first, |a, b| {
            let b = b?;
            Ok(a.start.min(b.start)..a.end.max(b.end))
        });
    }
    if let Some(packed) = PackedField::new(module, field)? {
        return Ok(packed.span());
    }
    let size = module.structs.size_align(module.fields[field].elem).0 as usize;
    let address = field_address(module, field)?;
    let window: Vec<(u64, u64)> = address.domain().map(|d| (0, d.1)).collect();
    Ok(address.span(&window, size))
}

/// Little-endian, like every processor that kernels are compiled for.
pub(crate) fn read_scalar(bytes: &[u8], scalar: Scalar) -> Imm {
    let mut word = [0; 8];
    let n = scalar.bytes() as usize;
    word[..n].copy_from_slice(&bytes[..n]);
    Imm::from_bits(scalar, u64::from_le_bytes(word))
}

impl Memory {
    /// Every scalar of a field of this tree, elements in row-major order.
    pub fn read_field(&self, module: &Module, field: Field) -> Result<Vec<Imm>> {
        let mut guard = self.lock()?;
        guard.fetch(span(module, field)?)?;
        read_field(module, field, guard.bytes())
    }

    /// Sets a whole field from its scalars.
    pub fn write_field(&self, module: &Module, field: Field, values: &[Imm]) -> Result<()> {
        let (mut guard, span) = (self.lock()?, span(module, field)?);
        guard.fetch(span.clone())?;
        write_field(module, field, guard.bytes_mut(), values)?;
        guard.send(span)
    }
}
