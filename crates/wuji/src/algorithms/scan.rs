//! Prefix sums: blocks are scanned in parallel, then their sums, then each block gets the sum of all blocks before it.

use super::{Division, Elements, Sequence, at_caller};
use crate::lang::{Num, min};
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
    let sums = data.world().nd_array("sums of blocks", blocks)?;
    scan_blocks(data, &sums, count as i64, shift, inclusive)?;
    if blocks > 1 {
        scan(&sums, false, division)?;
        add_sums(data, &sums, shift)?;
    }
    Ok(())
}

#[kernel]
fn scan_blocks<T: Num>(
    data: &NdArray<T, 1>,
    sums: &NdArray<T, 1>,
    count: i64,
    shift: i64,
    inclusive: bool,
) {
    for [block] in sums {
        let mut total = T::ZERO;
        for i in (block << shift)..min((block + 1) << shift, count) {
            let before = total;
            total += data[i];
            data[i] = if inclusive { total } else { before };
        }
        sums[block] = total;
    }
}

#[kernel]
fn add_sums<T: Num>(data: &NdArray<T, 1>, sums: &NdArray<T, 1>, shift: i64) {
    for [i] in data {
        data[i] = sums[i >> shift] + data[i];
    }
}
