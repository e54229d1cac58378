//! Prefix sums: the sums of blocks are computed in parallel and scanned, and then each block is scanned from the sum of all blocks
//! before it. So elements are read twice and written once.

use super::{Division, Elements, Sequence, at_caller};
use crate::lang::{Num, min, scalar};
use crate::nd_array::NdArray;
use std::panic::Location;
use wuji_ir::Result;
use wuji_macros::kernel;

/// Replaces each element by the sum of all elements up to it, itself included.
///
/// Integers wrap. Floats are added in another order than one after the other, which does not depend on the number of threads.
#[track_caller]
pub fn prefix_sum<S: Sequence<Item: Num>>(x: &S) -> Result<()> {
    at_caller(run(x, "prefix_sum", true), Location::caller())
}

/// Replaces each element by the sum of all elements before it; the first one becomes zero.
///
/// For the sum of all elements, too, make `x` one longer and leave its last element zero: the sum is there then.
#[track_caller]
pub fn exclusive_prefix_sum<S: Sequence<Item: Num>>(x: &S) -> Result<()> {
    at_caller(run(x, "exclusive_prefix_sum", false), Location::caller())
}

fn run<S: Sequence<Item: Num>>(x: &S, what: &str, inclusive: bool) -> Result<()> {
    let elements = Elements::read(x, what)?;
    scan(&elements.array, inclusive, Division::of(x.field().world()))?;
    elements.write(&elements.array)
}

/// Scans an array in place.
pub(super) fn scan<T: Num>(
    data: &NdArray<T, 1>,
    inclusive: bool,
    division: Division,
) -> Result<()> {
    let shift = division.scan;
    let [count] = data.shape()?;
    let blocks = count.div_ceil(1 << shift);
    let starts = data.world().nd_array("sums of blocks", blocks)?;
    if blocks > 1 {
        sum_blocks(data, &starts, 1 << shift)?;
        scan(&starts, false, division)?;
    }
    if inclusive {
        scan_blocks(data, &starts, 1 << shift)
    } else {
        scan_blocks_exclusive(data, &starts, 1 << shift)
    }
}

#[kernel]
fn sum_blocks<T: Num>(data: &NdArray<T, 1>, sums: &NdArray<T, 1>, size: i64) {
    for [block] in sums {
        let mut total = T::ZERO;
        for i in block * size..min((block + 1) * size, data.len() as i64) {
            total += data[i];
        }
        sums[block] = total;
    }
}

/// Neighbours in a vector would be elements of different blocks, so the loop over blocks is scalar.
#[kernel]
fn scan_blocks<T: Num>(data: &NdArray<T, 1>, starts: &NdArray<T, 1>, size: i64) {
    for [block] in scalar(starts) {
        let mut total = starts[block];
        for i in block * size..min((block + 1) * size, data.len() as i64) {
            total += data[i];
            data[i] = total;
        }
    }
}

#[kernel]
fn scan_blocks_exclusive<T: Num>(data: &NdArray<T, 1>, starts: &NdArray<T, 1>, size: i64) {
    for [block] in scalar(starts) {
        let mut total = starts[block];
        for i in block * size..min((block + 1) * size, data.len() as i64) {
            let value = data[i];
            data[i] = total;
            total += value;
        }
    }
}
