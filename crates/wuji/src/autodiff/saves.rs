//! Copies of fields that a tape keeps, because a later launch overwrites what a gradient kernel needs.

use crate::host::{ElementBox, FieldHandle, HostAccess};
use wuji_ir::{Error, Result};
use wuji_runtime::Memory;
use wuji_runtime::array::ArrayArg;
use wuji_runtime::memory::Way;

/// The elements of a field at some time.
pub(crate) enum Copy {
    /// All elements, row by row, on the host.
    Host(Vec<u8>),
    /// All elements, row by row, on the device.
    Device(Memory),
    /// The active elements of a sparse field: how many, their coordinates and values.
    Sparse(usize, Vec<i32>, Vec<u64>),
}

impl Copy {
    /// Bytes that a copy of a field takes, or about as many.
    pub(crate) fn bytes_of(field: &FieldHandle) -> Result<u64> {
        let (access, size) = (field.access()?, field.size()?);
        if access.address().is_some() {
            return Ok(ElementBox::whole(&access, size, "")?.bytes());
        }
        let rank = access.domain().len() as u64;
        Ok(access.count()?.saturating_mul(size as u64 + 4 * rank))
    }

    pub(crate) fn take(field: &FieldHandle) -> Result<Copy> {
        let (access, size) = (field.access()?, field.size()?);
        if access.address().is_none() {
            let found = access.export_cells(access.domain().len(), size)?;
            return Ok(Copy::Sparse(found.rows, found.coordinates, found.values));
        }
        let whole = ElementBox::whole(&access, size, "")?;
        if access.body.memory.is_on_device() {
            let memory = access.allocate_on_device(whole.bytes())?;
            whole.exchange(Way::ToArray, array(&memory, &access, size, true)?)?;
            return Ok(Copy::Device(memory));
        }
        let mut bytes = Vec::new();
        if bytes.try_reserve_exact(whole.bytes() as usize).is_err() {
            let what = format!("no memory for a copy of field `{}`", field.name());
            return Err(Error::new("W0110", what));
        }
        whole.read(|piece, stride| {
            if stride == size {
                bytes.extend_from_slice(piece);
            } else {
                piece
                    .chunks(stride)
                    .for_each(|element| bytes.extend_from_slice(&element[..size]));
            }
        })?;
        Ok(Copy::Host(bytes))
    }

    /// Gives the field the values that it had.
    pub(crate) fn restore(&self, field: &FieldHandle) -> Result<()> {
        let (access, size) = (field.access()?, field.size()?);
        match self {
            Copy::Host(bytes) => {
                let mut rest = &bytes[..];
                let mut next = |to: &mut [u8]| {
                    let (now, later) = rest.split_at(to.len().min(rest.len()));
                    to[..now.len()].copy_from_slice(now);
                    rest = later;
                };
                ElementBox::whole(&access, size, "")?.write(|piece, stride| {
                    if stride == size {
                        next(piece);
                    } else {
                        let elements = piece.chunks_mut(stride);
                        elements.for_each(|element| next(&mut element[..size]));
                    }
                })
            }
            Copy::Device(memory) => {
                let whole = ElementBox::whole(&access, size, "")?;
                whole.exchange(Way::FromArray, array(memory, &access, size, false)?)
            }
            Copy::Sparse(rows, coordinates, values) => {
                field.clear()?;
                let mut values = values.clone();
                let rank = access.domain().len();
                access.import_cells((*rows, rank), coordinates, Some((&mut values, size)))
            }
        }
    }
}

/// Memory as an array of the shape of a field.
fn array<'m>(
    memory: &'m Memory,
    access: &HostAccess<'_>,
    size: usize,
    writable: bool,
) -> Result<ArrayArg<'m>> {
    let domain = access.domain();
    let extents: Vec<usize> = if domain.is_empty() {
        vec![1]
    } else {
        domain.iter().map(|d| d.1 as usize).collect()
    };
    ArrayArg::in_memory(memory, size, &extents, writable)
}
