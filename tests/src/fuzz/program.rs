//! A module with its inputs.

use wuji_ir::entities::{Array, Field};
use wuji_ir::module::Module;
use wuji_ir::types::Imm;
use wuji_tools::script::elements::Cells;

#[derive(Clone, Debug)]
pub struct Program {
    pub module: Module,
    pub inputs: Inputs,
}

#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// The scalars of the by-value parameters.
    pub params: Vec<Imm>,
    /// The scalars of each field, elements in row-major order; empty for sparse ones.
    pub fields: Vec<Vec<Imm>>,
    /// The active elements of sparse fields; they have no scalars in `fields`.
    pub sparse: Vec<(Field, Cells)>,
    /// The memory of arrays.
    pub buffers: Vec<Vec<u8>>,
    /// The layout of each array.
    pub views: Vec<View>,
    /// The world's seed and the number of the launch.
    pub seed: u64,
    pub launch: u64,
    /// The number of further launches on the results of the first.
    pub again: u64,
}

/// The layout of an array: a buffer, the byte offset of element zero in it, extents and byte strides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct View {
    pub buffer: usize,
    pub base: i64,
    pub extents: Vec<i64>,
    pub strides: Vec<i64>,
}

impl View {
    /// Byte offsets of all elements, in row-major order.
    pub fn offsets(&self) -> Vec<i64> {
        let mut out = vec![self.base];
        for (extent, stride) in self.extents.iter().zip(&self.strides) {
            out = out
                .iter()
                .flat_map(|at| (0..*extent).map(move |k| at + k * stride))
                .collect();
        }
        out
    }
}

impl Inputs {
    pub fn field(&self, field: Field) -> &[Imm] {
        &self.fields[field.as_u32() as usize]
    }

    pub fn view(&self, array: Array) -> &View {
        &self.views[array.as_u32() as usize]
    }
}
