//! Copies of packed fields, bit by bit.

use crate::autodiff::{PackedCopy, PackedFields, Storage};
use crate::dynamic::Field;
use std::fmt;
use wuji_ir::Result;

/// The bits of a packed field at some time, and of the fields that share its exponent.
///
/// Elements that are read and stored again may change: some types have more digits than numbers of kernels, and a store rounds the others
/// that share an exponent.
pub struct PackedBits {
    fields: PackedFields,
    copy: PackedCopy,
}

impl fmt::Debug for PackedBits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.fields.handles().map(|field| field.name().to_owned());
        f.debug_tuple("PackedBits")
            .field(&names.collect::<Vec<_>>())
            .finish()
    }
}

impl Field {
    /// Copies the bits of a packed field; `None` if it is not packed. Of a sparse one, those that are active.
    #[track_caller]
    pub fn packed_bits(&self) -> Result<Option<PackedBits>> {
        let Some(fields) = PackedFields::with(self.handle())? else {
            return Ok(None);
        };
        let copy = fields.take(Storage::Near)?;
        Ok(Some(PackedBits { fields, copy }))
    }
}

impl PackedBits {
    /// Gives the fields their bits back. Elements that were not active become zero where they are active now.
    #[track_caller]
    pub fn restore(&self) -> Result<()> {
        self.fields.restore(&self.copy)
    }
}
