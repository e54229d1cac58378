//! Values as written, not expanded: a million zeros are one item.

use wuji_ir::text::constant;
use wuji_ir::types::{Imm, Scalar};

/// The most scalars of an entry.
const MOST: u64 = 1 << 28;

/// The scalars of an entry, in order.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Items(pub(super) Vec<Item>);

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Item {
    Word(String),
    /// `3*(0, 1)`; the repeated items are not empty.
    Repeat(u64, Items),
    /// `0..4`
    Range(i64, i64),
    /// `seq(3, 0.5, 2)`
    Sequence {
        count: u64,
        first: f64,
        step: f64,
    },
}

impl Item {
    fn len(&self) -> u64 {
        match self {
            Item::Word(_) => 1,
            Item::Repeat(count, items) => count.saturating_mul(items.len()),
            Item::Range(from, to) => {
                u64::try_from(i128::from(*to) - i128::from(*from)).unwrap_or(0)
            }
            Item::Sequence { count, .. } => *count,
        }
    }

    fn each(&self, use_word: &mut dyn FnMut(&str) -> Result<(), String>) -> Result<(), String> {
        match self {
            Item::Word(word) => use_word(word),
            Item::Repeat(count, items) => (0..*count).try_for_each(|_| items.each(use_word)),
            Item::Range(from, to) => (*from..*to).try_for_each(|n| use_word(&n.to_string())),
            Item::Sequence { count, first, step } => {
                (0..*count).try_for_each(|k| use_word(&(first + k as f64 * step).to_string()))
            }
        }
    }
}

impl Items {
    /// The number of scalars.
    pub fn len(&self) -> u64 {
        self.0
            .iter()
            .fold(0, |n: u64, item| n.saturating_add(item.len()))
    }

    /// Whether there is no item.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn each(&self, use_word: &mut dyn FnMut(&str) -> Result<(), String>) -> Result<(), String> {
        self.0.iter().try_for_each(|item| item.each(use_word))
    }

    /// Converts every scalar.
    fn map<T>(&self, mut from: impl FnMut(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
        if self.len() > MOST {
            return Err(format!("{} scalars are too many", self.len()));
        }
        let mut out = Vec::with_capacity(self.len() as usize);
        self.each(&mut |word| {
            out.push(from(word)?);
            Ok(())
        })?;
        Ok(out)
    }

    /// The scalars as words.
    pub fn words(&self) -> Result<Vec<String>, String> {
        self.map(|word| Ok(word.to_owned()))
    }

    /// The scalars as integers.
    pub fn numbers(&self) -> Result<Vec<i64>, String> {
        self.map(|word| {
            word.parse()
                .map_err(|_| format!("`{word}` is not a number"))
        })
    }

    /// The scalars of `count` elements of some type.
    pub(super) fn scalars(&self, elem: &[Scalar], count: u64) -> Result<Vec<Imm>, String> {
        let wanted = count.saturating_mul(elem.len() as u64);
        if self.len() != wanted {
            let unit = if wanted == 1 { "scalar" } else { "scalars" };
            let given = self.len();
            return Err(format!("it has {wanted} {unit}, and gets {given}"));
        }
        let mut types = elem.iter().cycle();
        self.map(|word| match types.next() {
            Some(ty) => constant(word, *ty),
            None => Err("it has no scalars".to_owned()),
        })
    }
}
