//! Inputs for modules that come without any.

use super::dice::Dice;
use super::generate::any_imm;
use super::program::{Inputs, View};
use wuji_ir::module::Module;
use wuji_ir::types::Type;
use wuji_tools::script::elements::{self, Cells};

/// Modules with more elements are not run.
const MAX_ELEMENTS: u64 = 4096;
/// Extents of arrays.
const EXTENTS: [i64; 4] = [1, 3, 4, 8];

/// Random contents for everything that a module takes; `None` where its fields are large.
pub(super) fn small(m: &Module, dice: &mut Dice) -> Option<Inputs> {
    let mut inputs = Inputs {
        seed: dice.bits(),
        ..Inputs::default()
    };
    let sparse = elements::fields(m);
    for field in m.fields.keys() {
        let domain = m.fields[field].domain(&m.trees);
        let count = domain
            .iter()
            .try_fold(1u64, |n, d| n.checked_mul(d.1))
            .filter(|n| *n <= MAX_ELEMENTS);
        if !elements::has_contents(m, field) {
            inputs.fields.push(Vec::new());
        } else if sparse.contains(&field) {
            inputs.sparse.push((field, Cells::new()));
            inputs.fields.push(Vec::new());
        } else {
            let scalars = scalars(m, m.fields[field].elem);
            let contents = (0..count?)
                .flat_map(|_| &scalars)
                .map(|s| any_imm(dice, *s));
            inputs.fields.push(contents.collect());
        }
    }
    for array in m.arrays.values() {
        let extents: Vec<i64> = (0..array.rank).map(|_| *dice.pick(&EXTENTS)).collect();
        let size = m.structs.size_align(array.elem).0 as i64;
        let view = contiguous(inputs.buffers.len(), &extents, size);
        let count: i64 = extents.iter().product();
        if count as u64 > MAX_ELEMENTS {
            return None;
        }
        let mut bytes = vec![0; (count * size) as usize];
        for at in view.offsets() {
            for (s, offset) in m.structs.scalar_offsets(array.elem) {
                let at = at as usize + offset as usize;
                let width = s.bytes() as usize;
                let raw = any_imm(dice, s).bits().to_le_bytes();
                bytes[at..at + width].copy_from_slice(&raw[..width]);
            }
        }
        inputs.buffers.push(bytes);
        inputs.views.push(view);
    }
    for param in &m.params {
        let scalars = scalars(m, param.ty);
        inputs
            .params
            .extend(scalars.into_iter().map(|s| any_imm(dice, s)));
    }
    Some(inputs)
}

fn scalars(m: &Module, ty: Type) -> Vec<wuji_ir::types::Scalar> {
    m.structs.flatten(ty)
}

/// Row-major, without gaps.
pub(super) fn contiguous(buffer: usize, extents: &[i64], size: i64) -> View {
    let mut strides = vec![size; extents.len()];
    for k in (1..extents.len()).rev() {
        strides[k - 1] = strides[k] * extents[k];
    }
    View {
        buffer,
        base: 0,
        extents: extents.to_vec(),
        strides,
    }
}
