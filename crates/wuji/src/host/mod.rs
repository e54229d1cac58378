//! Host access to fields: what typed fields, views of cells and dynamic fields share.
//!
//! [`FieldHandle`] names a field of a tree. [`HostAccess`] is one call of the host on it: checks, activation, lists.
//! [`ElementBox`] reads, writes, fills and copies a box of its elements as bytes.

mod access;
mod element_box;
mod handle;

pub(crate) use access::{ActiveCells, CellPart, HostAccess, pack, unpack, with_value};
pub(crate) use element_box::{ElementBox, Window};
pub(crate) use handle::FieldHandle;
