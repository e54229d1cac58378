//! Dense nodes: the address of a cell is arithmetic.

use crate::nodes::Services;
use crate::nodes::level::{At, LevelFunctions, PathStep};
use wuji_ir::build::Builder;
use wuji_ir::entities::Value;

pub(super) struct Dense;

impl LevelFunctions for Dense {
    fn step(&self, path: &mut dyn PathStep) {
        let number = path.number();
        path.advance(&number, 0);
    }

    fn clear(&self, s: &mut Services, b: &mut Builder, at: At, container: Value) {
        s.clear_cells(b, at, container);
    }
}
