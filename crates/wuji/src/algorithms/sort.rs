//! Radix sort, least significant digit first. Each pass is stable, so the sort is.
//!
//! Keys become unsigned words with the same order. A pass counts the digits of each block, computes from a prefix sum where the keys
//! of each digit and block start, and moves them there.

use super::scan::scan;
use super::{Digit, Division, Elements, Sequence, at_caller, check_dense};
use crate::element::Element;
use crate::lang::{Int, Num, min, scalar};
use crate::nd_array::NdArray;
use std::panic::Location;
use wuji_ir::{Error, Result};
use wuji_macros::{Fields, func, kernel};

/// A number that [`sort`] orders: `i32`, `u32`, `i64`, `u64`, `f32` or `f64`.
#[func]
pub trait SortKey: Num {
    /// The unsigned integer of the same size.
    #[doc(hidden)]
    type Word: Int;

    /// The word of the key; words have the order of keys.
    #[doc(hidden)]
    fn to_word(self) -> Self::Word;

    /// The key of the word.
    #[doc(hidden)]
    fn from_word(word: Self::Word) -> Self;
}

macro_rules! integers {
    ($($key:ident $word:ident $top:expr;)*) => {$(
        #[func]
        impl SortKey for $key {
            type Word = $word;

            fn to_word(self) -> $word {
                self as $word ^ $top
            }

            fn from_word(word: $word) -> $key {
                (word ^ $top) as $key
            }
        }
    )*};
}

integers! {
    i32 u32 0x8000_0000;
    u32 u32 0;
    i64 u64 0x8000_0000_0000_0000;
    u64 u64 0;
}

macro_rules! floats {
    ($($key:ident $word:ident $top:literal;)*) => {$(
        #[func]
        impl SortKey for $key {
            type Word = $word;

            /// The smaller a negative number is, the larger are its bits. Of a NaN the sign goes, so that it is behind all numbers.
            fn to_word(self) -> $word {
                let bits = self.to_bits();
                if self != self {
                    bits | $top
                } else if bits >= $top {
                    !bits
                } else {
                    bits | $top
                }
            }

            fn from_word(word: $word) -> $key {
                if word >= $top {
                    $key::from_bits(word ^ $top)
                } else {
                    $key::from_bits(!word)
                }
            }
        }
    )*};
}

floats! {
    f32 u32 0x8000_0000;
    f64 u64 0x8000_0000_0000_0000;
}

#[kernel]
fn to_words<K: SortKey>(keys: &NdArray<K, 1>, words: &NdArray<K::Word, 1>) {
    for [i] in words {
        words[i] = keys[i].to_word();
    }
}

#[kernel]
fn from_words<K: SortKey>(words: &NdArray<K::Word, 1>, keys: &NdArray<K, 1>) {
    for [i] in words {
        keys[i] = K::from_word(words[i]);
    }
}

#[kernel]
fn count_up(order: &NdArray<u32, 1>) {
    for [i] in order {
        order[i] = i as u32;
    }
}

#[kernel]
fn gather<T: Element>(from: &NdArray<T, 1>, order: &NdArray<u32, 1>, to: &NdArray<T, 1>) {
    for [i] in to {
        to[i] = from[order[i]];
    }
}

/// One pass: sorts words by one digit.
#[derive(Fields)]
struct Pass<W: Int, const DIGITS: usize> {
    from: NdArray<W, 1>,
    to: NdArray<W, 1>,
    order: NdArray<u32, 1>,
    new_order: NdArray<u32, 1>,
    /// How many words of a block have a digit.
    counts: NdArray<u32, 2>,
    /// The same, digit by digit; then where the first one goes.
    starts: NdArray<u32, 1>,
    /// Words per block.
    size: i64,
    blocks: i64,
    shift: W,
    /// Whether the order moves with the words.
    ordered: bool,
}

/// Neighbours in a vector would be words of different blocks, so the loops over blocks are scalar.
#[kernel]
impl<W: Int, const DIGITS: usize> Pass<W, DIGITS> {
    /// Counts the digits of each block.
    fn count(&self) {
        for block in scalar(0..self.blocks) {
            for digit in 0..DIGITS {
                self.counts[[block, digit as i64]] = 0;
            }
            for i in block * self.size..min((block + 1) * self.size, self.from.len() as i64) {
                let digit = self.digit(self.from[i]);
                self.counts[[block, digit]] = self.counts[[block, digit]] + 1;
            }
            for digit in 0..DIGITS as i64 {
                self.starts[digit * self.blocks + block] = self.counts[[block, digit]];
            }
        }
    }

    /// Moves the words of each block to where those with the same digit start.
    fn relocate(&self) {
        for block in scalar(0..self.blocks) {
            let mut places = [0u32; DIGITS];
            for digit in 0..DIGITS as i64 {
                places[digit] = self.starts[digit * self.blocks + block];
            }
            for i in block * self.size..min((block + 1) * self.size, self.from.len() as i64) {
                let word = self.from[i];
                let digit = self.digit(word);
                let place = places[digit];
                places[digit] = place + 1;
                self.to[place] = word;
                if self.ordered {
                    self.new_order[place] = self.order[i];
                }
            }
        }
    }

    #[func]
    fn digit(&self, word: W) -> i64 {
        (word >> self.shift).cast::<i64>() & (DIGITS as i64 - 1)
    }
}

/// Sorts a field or array in ascending order.
///
/// Of floats, `-0.0` is before `0.0`, and NaNs are behind all numbers, where they lose their sign.
#[track_caller]
pub fn sort<K: SortKey>(keys: &impl Sequence<Item = K>) -> Result<()> {
    at_caller(sort_keys(keys), Location::caller())
}

/// Sorts a field or array in the order of [`sort`], and another one of any element type in the same way: values stay with their keys.
/// Values of equal keys keep their order.
#[track_caller]
pub fn sort_pairs<K: SortKey, V: Element>(
    keys: &impl Sequence<Item = K>,
    values: &impl Sequence<Item = V>,
) -> Result<()> {
    at_caller(sort_both(keys, values), Location::caller())
}

/// The order that [`sort`] would bring the elements in: the index of the smallest one, of the next one, and so on. Indices start with
/// zero, also those of a field with an offset. Equal keys are in the order of their indices.
#[track_caller]
pub fn sort_order<K: SortKey>(keys: &impl Sequence<Item = K>) -> Result<NdArray<u32, 1>> {
    let order = Elements::read(keys, "sort_order").and_then(|keys| Words::ordered(&keys.array));
    at_caller(order, Location::caller()).map(|words| words.order)
}

fn sort_keys<K: SortKey>(keys: &impl Sequence<Item = K>) -> Result<()> {
    let keys = Elements::read(keys, "sort")?;
    let words = Words::sorted(&keys.array)?;
    from_words(&words.current, &keys.array)?;
    keys.write(&keys.array)
}

fn sort_both<K: SortKey, V: Element>(
    keys: &impl Sequence<Item = K>,
    values: &impl Sequence<Item = V>,
) -> Result<()> {
    check_pairs(keys, values)?;
    let keys = Elements::read(keys, "sort_pairs")?;
    let values = Elements::read(values, "sort_pairs")?;
    let words = Words::ordered(&keys.array)?;
    let sorted = values.array.world().nd_array("values", words.count)?;
    gather(&values.array, &words.order, &sorted)?;
    from_words(&words.current, &keys.array)?;
    keys.write(&keys.array)?;
    values.write(&sorted)
}

fn check_pairs<K: Element, V: Element>(
    keys: &impl Sequence<Item = K>,
    values: &impl Sequence<Item = V>,
) -> Result<()> {
    let (keys, values) = (keys.field(), values.field());
    check_dense(keys, "sort_pairs")?;
    check_dense(values, "sort_pairs")?;
    let (name, other) = (keys.name(), values.name());
    let (n, m) = (keys.len()?, values.len()?);
    if n != m {
        let what = format!("`sort_pairs` of {n} keys in `{name}` and {m} values in `{other}`");
        return Err(Error::new("W0140", what).help("give one value for each key"));
    }
    if keys.world() != values.world() {
        let what = format!("`sort_pairs` of `{name}` and `{other}`, which are in different worlds");
        return Err(Error::new("W0140", what).help("copy one of them to the world of the other"));
    }
    if keys.handle() == values.handle() {
        let what = format!("`sort_pairs` of `{name}` as keys and as values");
        return Err(Error::new("W0140", what).help("use `sort`"));
    }
    Ok(())
}

/// The words of keys.
struct Words<W> {
    current: NdArray<W, 1>,
    /// Where they were, if the order is kept; else, of no meaning.
    order: NdArray<u32, 1>,
    count: u64,
}

impl<W: Int> Words<W> {
    /// The words in their order.
    fn sorted<K: SortKey<Word = W>>(keys: &NdArray<K, 1>) -> Result<Words<W>> {
        let order = keys.world().nd_array("order", 1)?;
        Words::of(keys, order)?.sort(false, Division::of(keys.world()))
    }

    /// The same, and their order.
    fn ordered<K: SortKey<Word = W>>(keys: &NdArray<K, 1>) -> Result<Words<W>> {
        let order = keys.world().nd_array("order", keys.shape()?)?;
        count_up(&order)?;
        Words::of(keys, order)?.sort(true, Division::of(keys.world()))
    }

    fn of<K: SortKey<Word = W>>(keys: &NdArray<K, 1>, order: NdArray<u32, 1>) -> Result<Words<W>> {
        let [count] = keys.shape()?;
        if u32::try_from(count).is_err() {
            let (name, most) = (keys.name(), u32::MAX);
            let what = format!("`{name}` has {count} elements, and a sort orders at most {most}");
            return Err(Error::new("W0140", what).help("sort parts of it"));
        }
        let current = keys.world().nd_array("words", count)?;
        to_words(keys, &current)?;
        Ok(Words {
            current,
            order,
            count,
        })
    }

    fn sort(self, ordered: bool, division: Division) -> Result<Words<W>> {
        match division.digit {
            Digit::Byte => self.sort_digits::<256>(ordered, division),
            Digit::Nibble => self.sort_digits::<16>(ordered, division),
        }
    }

    fn sort_digits<const DIGITS: usize>(
        self,
        ordered: bool,
        division: Division,
    ) -> Result<Words<W>> {
        let mut pass = self.first_pass::<DIGITS>(division, ordered)?;
        for shift in (0..W::SIZE as u32 * 8).step_by(DIGITS.ilog2() as usize) {
            pass.shift = W::from_f64(f64::from(shift));
            pass.count()?;
            scan(&pass.starts, false, division)?;
            pass.relocate()?;
            std::mem::swap(&mut pass.from, &mut pass.to);
            std::mem::swap(&mut pass.order, &mut pass.new_order);
        }
        Ok(Words {
            current: pass.from,
            order: pass.order,
            count: self.count,
        })
    }

    fn first_pass<const DIGITS: usize>(
        &self,
        division: Division,
        ordered: bool,
    ) -> Result<Pass<W, DIGITS>> {
        let world = self.current.world();
        let (least, most) = division.sort;
        let size = least.max(self.count.div_ceil(most));
        let blocks = self.count.div_ceil(size);
        let digits = DIGITS as u64;
        Ok(Pass {
            from: self.current.clone(),
            to: world.nd_array("words", self.count)?,
            order: self.order.clone(),
            new_order: world.nd_array("order", self.order.shape()?)?,
            counts: world.nd_array("counts", [blocks, digits])?,
            starts: world.nd_array("starts", blocks * digits)?,
            size: size as i64,
            blocks: blocks as i64,
            shift: W::ZERO,
            ordered,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::World;

    /// The division of GPUs gives the same on a CPU.
    #[test]
    fn divisions_agree() {
        let world = World::builder().threads(2).build().unwrap();
        for n in [1u64, 63, 64, 65, 5000] {
            let keys = world.nd_array::<i32, 1>("keys", n).unwrap();
            let values: Vec<i32> = (0..n as i32)
                .map(|k| k.wrapping_mul(-1_640_531_527) >> 18)
                .collect();
            keys.copy_from(&values).unwrap();
            let mut expected: Vec<u32> = (0..n as u32).collect();
            expected.sort_by_key(|k| values[*k as usize]);
            for division in [Division::CPU, Division::GPU] {
                let order = world.nd_array("order", n).unwrap();
                count_up(&order).unwrap();
                let words = Words::of(&keys, order)
                    .unwrap()
                    .sort(true, division)
                    .unwrap();
                assert_eq!(words.order.to_vec().unwrap(), expected);
            }
        }
    }
}
