//! Bit arrays: their cells are bits of a word, which is a field of the parent's cell.

use crate::nodes::Services;
use crate::nodes::level::{At, LevelFunctions, PathStep};
use wuji_ir::build::Builder;
use wuji_ir::entities::Value;

pub(super) struct BitArray;

impl LevelFunctions for BitArray {
    fn step(&self, path: &mut dyn PathStep) {
        // The word has the bytes.
        path.number();
    }

    fn clear(&self, _: &mut Services, _: &mut Builder, _: At, _: Value) {}
}
