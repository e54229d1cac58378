//! The root: one cell, where every path starts.

use crate::nodes::Services;
use crate::nodes::level::{At, LevelFunctions, PathStep};
use wuji_ir::build::Builder;
use wuji_ir::entities::Value;

pub(super) struct Root;

impl LevelFunctions for Root {
    fn step(&self, _path: &mut dyn PathStep) {}

    fn clear(&self, _s: &mut Services, _b: &mut Builder, _at: At, _container: Value) {}
}
