//! Hashes of expressions.
//!
//! A *structural* hash is the same for expressions that differ in their leaves only. An *algebraic* hash is the value of the expression
//! at a random point of a finite field: expressions that are equal as rational functions have the same one, however they are written.

use crate::arena::{Arena, Id, Node};
use crate::op::{Binary, Op, Unary};

/// Mixes the bits of a number.
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The hash of one node from those of its operands.
///
/// Chains are hashed by the sum of the hashes of their terms, so the order of the terms does not matter. The column has that sum;
/// [`finish`] makes the hash of the node out of it.
pub(crate) fn structural_step(op: Op, operands: &[u64]) -> u64 {
    if op.is_chain() {
        return operands.iter().fold(0, |sum, h| sum.wrapping_add(*h));
    }
    if op.commutes() {
        return operands.iter().fold(0, |sum, h| sum.wrapping_add(mix(*h)));
    }
    operands.iter().fold(0, |h, o| mix(h.wrapping_add(*o)))
}

/// The hash of a node from its column.
pub(crate) fn finish(op: Op, column: u64) -> u64 {
    mix(column ^ mix(u64::from(op.code()) + 17))
}

/// The structural hash of every node, where chains count as the tree they are.
pub fn structural_hashes(arena: &Arena) -> Vec<u64> {
    let mut hashes: Vec<u64> = Vec::with_capacity(arena.len());
    for id in arena.ids() {
        let op = arena.op(id);
        let operands: smallvec::SmallVec<[u64; 2]> =
            arena.children(id).map(|c| hashes[c.at()]).collect();
        hashes.push(finish(op, structural_step(op, &operands)));
    }
    hashes
}

/// The prime of the finite field.
const PRIME: u64 = (1 << 61) - 1;

fn reduce(x: u128) -> u64 {
    let folded = (x & u128::from(PRIME)) + (x >> 61);
    (folded % u128::from(PRIME)) as u64
}

fn multiply(a: u64, b: u64) -> u64 {
    reduce(u128::from(a) * u128::from(b))
}

fn add(a: u64, b: u64) -> u64 {
    reduce(u128::from(a) + u128::from(b))
}

fn power(mut a: u64, mut exponent: u64) -> u64 {
    let mut result = 1;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = multiply(result, a);
        }
        a = multiply(a, a);
        exponent >>= 1;
    }
    result
}

fn inverse(a: u64) -> u64 {
    power(a, PRIME - 2)
}

/// A float as an element of the field: it is a whole number times a power of two, and two has an inverse.
fn element(value: f64) -> u64 {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 {
            0
        } else {
            opaque(1, &[value.to_bits()])
        };
    }
    let bits = value.to_bits();
    let exponent = (bits >> 52 & 0x7ff) as i64;
    let fraction = bits & ((1 << 52) - 1);
    let (digits, exponent) = if exponent == 0 {
        (fraction, -1074)
    } else {
        (fraction | 1 << 52, exponent - 1075)
    };
    let scale = power(2, exponent.unsigned_abs());
    let scale = if exponent < 0 { inverse(scale) } else { scale };
    let size = multiply(digits % PRIME, scale);
    if value < 0.0 { negate(size) } else { size }
}

fn negate(a: u64) -> u64 {
    if a == 0 { 0 } else { PRIME - a }
}

/// A random element that depends on a list of numbers.
fn opaque(seed: u64, numbers: &[u64]) -> u64 {
    let hash = numbers.iter().fold(mix(seed), |h, n| mix(h ^ mix(*n)));
    hash % PRIME
}

/// The value of every node at the point of the field that a seed selects.
pub fn algebraic_hashes(arena: &Arena, seed: u64) -> Vec<u64> {
    let mut hashes: Vec<u64> = Vec::with_capacity(arena.len());
    for id in arena.ids() {
        let hash = algebraic(arena, &hashes, id, seed);
        hashes.push(hash);
    }
    hashes
}

pub(crate) fn algebraic(arena: &Arena, hashes: &[u64], id: Id, seed: u64) -> u64 {
    let of = |id: Id| hashes[id.at()];
    let code = u64::from(arena.op(id).code());
    match arena.node(id) {
        Node::Const(value) => element(value),
        Node::Input { array, index } => opaque(seed, &[u64::from(array) << 32 | u64::from(index)]),
        Node::Unary(Unary::Neg, a) => negate(of(a)),
        Node::Binary(Binary::Add, a, b) => add(of(a), of(b)),
        Node::Binary(Binary::Mul, a, b) => multiply(of(a), of(b)),
        Node::Binary(Binary::Div, a, b) if of(b) != 0 => multiply(of(a), inverse(of(b))),
        Node::Unary(_, a) | Node::Not(a) => opaque(seed ^ 1 << 40, &[code, of(a)]),
        Node::Binary(_, a, b)
        | Node::Compare(_, a, b)
        | Node::Logic(_, a, b)
        | Node::Pair(a, b) => opaque(seed ^ 2 << 40, &[code, of(a), of(b)]),
        Node::Select(c, a, b) => opaque(seed ^ 3 << 40, &[of(c), of(a), of(b)]),
    }
}

/// The small whole number that an element of the field stands for.
pub(crate) fn small_integer(hash: u64) -> Option<f64> {
    const MOST: u64 = 4096;
    if hash <= MOST {
        return Some(hash as f64);
    }
    (PRIME - hash <= MOST).then(|| -((PRIME - hash) as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn xyzw() -> (Arena, [Id; 4]) {
        let mut arena = Arena::default();
        let ids = [0, 1, 2, 3].map(|k| arena.input(0, k));
        (arena, ids)
    }

    #[test]
    fn expressions_that_are_equal_have_the_same_algebraic_hash() {
        let (mut m, [x, y, z, w]) = xyzw();
        let two = m.constant(2.0);
        let (xy, zw) = (m.binary(Binary::Add, x, y), m.binary(Binary::Add, z, w));
        let product = m.binary(Binary::Mul, xy, zw);
        let short = m.binary(Binary::Mul, two, product);
        let mut long = m.constant(0.0);
        for (a, b) in [(x, z), (y, z), (y, w), (x, w)] {
            let ab = m.binary(Binary::Mul, a, b);
            for _ in 0..2 {
                long = m.binary(Binary::Add, long, ab);
            }
        }
        for seed in 0..3 {
            let hashes = algebraic_hashes(&m, seed);
            assert_eq!(hashes[short.at()], hashes[long.at()]);
            assert_ne!(hashes[short.at()], hashes[product.at()]);
        }
    }

    #[test]
    fn fractions_and_dyadic_constants_are_exact() {
        let (mut m, [x, y, ..]) = xyzw();
        let (sum, half) = (m.binary(Binary::Add, x, y), m.constant(0.5));
        let quotient = m.binary(Binary::Div, sum, sum);
        let (a, b) = (
            m.binary(Binary::Mul, half, x),
            m.binary(Binary::Div, x, half),
        );
        let four = m.binary(Binary::Div, b, a);
        let hashes = algebraic_hashes(&m, 5);
        assert_eq!(small_integer(hashes[quotient.at()]), Some(1.0));
        assert_eq!(small_integer(hashes[four.at()]), Some(4.0));
        assert_eq!(small_integer(hashes[sum.at()]), None);
        assert_eq!(add(element(-0.375), element(0.375)), 0);
        assert_eq!(multiply(element(1e300), element(2.0)), element(2e300));
    }

    #[test]
    fn structural_hashes_ignore_leaves_and_order() {
        let (mut m, [x, y, z, w]) = xyzw();
        let (xy, zw) = (m.binary(Binary::Mul, x, y), m.binary(Binary::Mul, z, w));
        let (a, b) = (m.binary(Binary::Add, xy, z), m.binary(Binary::Add, x, zw));
        let c = m.binary(Binary::Div, xy, z);
        let hashes = structural_hashes(&m);
        assert_eq!(hashes[a.at()], hashes[b.at()]);
        assert_ne!(hashes[a.at()], hashes[c.at()]);
    }
}
