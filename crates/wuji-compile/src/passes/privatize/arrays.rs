//! Arrays that a task only updates, and of which the shape is known: a worker's copy has the array's elements, row by row.
//!
//! Launches do not know the shape at first, so their code is compiled again when the same shapes keep coming
//! ([`specialize`](crate::specialize)).

use super::scattered::{merges, scattered};
use wuji_ir::entities::Array;
use wuji_ir::module::{Env, Function, Module};
use wuji_ir::ops::{AtomicOp, Space};
use wuji_ir::types::Scalar;

/// Arrays that a task only updates, each by one operation. In deterministic worlds atomics on arrays are applied in order.
pub(super) fn candidates(m: &Module, f: &Function, deterministic: bool) -> Vec<(Array, AtomicOp)> {
    if deterministic {
        return Vec::new();
    }
    let of = |space: &Space| match space {
        Space::Array(array) => Some(*array),
        Space::Tree(..)
        | Space::Private(..)
        | Space::Nodes(_)
        | Space::Bytes(_)
        | Space::Streamed(_)
        | Space::Temps => None,
    };
    let mut found = scattered(m, f, of, |_, _| false);
    found.retain(|(array, op)| {
        let data = &m.arrays[*array];
        data.contiguous && data.unaliased && merges(m, data.elem, *op) && is_uniform(m, *array)
    });
    found.retain(|(array, _)| m.arrays[*array].shape.is_some());
    found
}

/// Whether the array is a run of numbers of one type.
fn is_uniform(m: &Env, array: Array) -> bool {
    let elem = m.arrays[array].elem;
    let scalars = m.structs.flatten(elem);
    let Some(first) = scalars.first().filter(|s| is_merged(**s)) else {
        return false;
    };
    let own: u64 = scalars.iter().map(|s| u64::from(s.bytes())).sum();
    scalars.iter().all(|s| s == first) && own == m.structs.size_align(elem).0
}

/// Whether the runtime merges copies of such numbers.
fn is_merged(scalar: Scalar) -> bool {
    !matches!(scalar, Scalar::Bool | Scalar::F16)
}

/// Bytes of an array of known shape; none of others.
pub(super) fn bytes(m: &Env, array: Array) -> u64 {
    let data = &m.arrays[array];
    let extents = data.shape.iter().flat_map(|shape| &shape.extents);
    let elements = extents.fold(1u64, |n, extent| {
        n.saturating_mul((*extent).try_into().unwrap_or(0))
    });
    elements.saturating_mul(m.structs.size_align(data.elem).0)
}
