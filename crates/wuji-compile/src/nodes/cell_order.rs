//! The numbering of the cells of a container: row-major, or along a Z-curve.

use super::words::{divide, times};
use smallvec::SmallVec;
use wuji_ir::build::Builder;
use wuji_ir::entities::Value;
use wuji_ir::layout::{Axis, CellOrder, NodeData};
use wuji_ir::ops::*;

/// Turns the coordinates of a container into those of one of its cells.
pub(super) fn descend(
    b: &mut Builder,
    data: &NodeData,
    axes: &[Axis],
    number: Value,
    coords: &mut [Value],
) {
    let digits = digits(b, data, number);
    for ((axis, extent), digit) in data.extents.iter().zip(digits) {
        if let Some(k) = axes.iter().position(|a| a == axis) {
            let start = times(b, coords[k], *extent as i64);
            coords[k] = b.binary(BinOp::Add, start, digit);
        }
    }
}

/// The coordinates of a cell in its container, in the order of the node's axes, from its number.
pub fn digits(b: &mut Builder, data: &NodeData, number: Value) -> SmallVec<[Value; 3]> {
    match data.order {
        CellOrder::RowMajor => {
            let mut rest = number;
            let mut out: SmallVec<[Value; 3]> = SmallVec::new();
            for (k, (_, extent)) in data.extents.iter().enumerate().rev() {
                if k == 0 {
                    out.push(rest);
                } else {
                    let (high, low) = divide(b, rest, *extent);
                    out.push(low);
                    rest = high;
                }
            }
            out.reverse();
            out
        }
        CellOrder::Morton => {
            let zero = b.i64(0);
            let mut out: SmallVec<[Value; 3]> = data.extents.iter().map(|_| zero).collect();
            for (at, (axis, bit)) in morton_bits(data).into_iter().enumerate() {
                let shift = b.i64(at as i64);
                let one = b.i64(1);
                let x = b.binary(BinOp::Shr, number, shift);
                let x = b.binary(BinOp::And, x, one);
                let to = b.i64(bit);
                let x = b.binary(BinOp::Shl, x, to);
                out[axis] = b.binary(BinOp::Or, out[axis], x);
            }
            out
        }
    }
}

/// Which bit of which axis is bit 0, 1, ... of a number along a Z-curve.
pub fn morton_bits(data: &NodeData) -> Vec<(usize, i64)> {
    let mut out = Vec::new();
    for bit in 0..63 {
        for (axis, (_, extent)) in data.extents.iter().enumerate().rev() {
            if 1u64 << bit < *extent {
                out.push((axis, bit as i64));
            }
        }
    }
    out
}
