//! The level functions of each node kind: one file per kind.
//!
//! [`level_functions`] is the only place of the compiler that matches on [`NodeKind`].

mod bit_array;
mod bitmasked;
mod dense;
mod dynamic;
mod hash;
mod pointer;
mod root;

pub use hash::rebuild;

use super::level::LevelFunctions;
use wuji_ir::layout::NodeKind;

pub(crate) fn level_functions(kind: NodeKind) -> &'static dyn LevelFunctions {
    match kind {
        NodeKind::Root => &root::Root,
        NodeKind::Dense => &dense::Dense,
        NodeKind::Bitmasked => &bitmasked::Bitmasked,
        NodeKind::Pointer => &pointer::Pointer,
        NodeKind::Hash => &hash::Hash,
        NodeKind::Dynamic(_) => &dynamic::Dynamic,
        NodeKind::BitArray => &bit_array::BitArray,
    }
}
