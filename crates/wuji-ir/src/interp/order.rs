//! The order of parallel iterations.

use crate::random;

/// The order of the iterations of parallel loops.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// Row-major, without splitting tasks.
    #[default]
    Serial,
    /// Shuffled, with tasks split at random; deterministic for a seed.
    Shuffled(u64),
}

/// The random generator for orders; independent of the program's own random numbers.
#[derive(Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Dice {
        Dice(random::mix(seed ^ 0x6a09_e667_f3bc_c908))
    }

    /// Uniform enough in `0..n`; 0 when `n` is 0.
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(random::GOLDEN);
        ((u128::from(random::mix(self.0)) * u128::from(n)) >> 64) as u64
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for k in (1..items.len()).rev() {
            items.swap(k, self.below(k as u64 + 1) as usize);
        }
    }

    /// Splits `0..n` into at most eight pieces, in random order unless `in_order`.
    pub(super) fn chunks(&mut self, n: u64, in_order: bool) -> Vec<(u64, u64)> {
        let mut cuts: Vec<u64> = (0..self.below(8)).map(|_| self.below(n)).collect();
        cuts.extend([0, n]);
        cuts.sort_unstable();
        cuts.dedup();
        let mut chunks: Vec<(u64, u64)> = cuts.windows(2).map(|w| (w[0], w[1])).collect();
        if !in_order {
            self.shuffle(&mut chunks);
        }
        chunks
    }
}

/// The iteration at each turn.
#[derive(Debug)]
pub(super) enum Permutation {
    Identity,
    Table(Vec<u32>),
    /// `(a * k + b) mod n` with `a` prime to `n`: needs no memory, for long loops.
    Affine {
        a: u64,
        b: u64,
        n: u64,
    },
}

impl Permutation {
    const TABLE_MAX: u64 = 1 << 16;

    pub(super) fn random(n: u64, dice: &mut Dice) -> Permutation {
        if n <= Self::TABLE_MAX {
            let mut table: Vec<u32> = (0..n as u32).collect();
            dice.shuffle(&mut table);
            return Permutation::Table(table);
        }
        let mut a = 1 + dice.below(n - 1);
        while gcd(a, n) != 1 {
            a -= 1; // ends at 1 at the latest
        }
        let b = dice.below(n);
        Permutation::Affine { a, b, n }
    }

    pub(super) fn at(&self, turn: u64) -> u64 {
        match self {
            Permutation::Identity => turn,
            Permutation::Table(table) => u64::from(table[turn as usize]),
            Permutation::Affine { a, b, n } => {
                let n = u128::from(*n);
                ((u128::from(*a) * u128::from(turn) % n + u128::from(*b)) % n) as u64
            }
        }
    }
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_iteration_once() {
        let mut dice = Dice::new(7);
        for n in [0, 1, 2, 1000, (1 << 16) + 6] {
            let order = Permutation::random(n, &mut dice);
            let mut seen = vec![false; n as usize];
            for turn in 0..n {
                let k = order.at(turn) as usize;
                assert!(!std::mem::replace(&mut seen[k], true));
            }
        }
    }

    #[test]
    fn chunks_cover() {
        let mut dice = Dice::new(3);
        for n in [1u64, 2, 3, 100, u64::MAX] {
            for _ in 0..20 {
                let mut chunks = dice.chunks(n, false);
                chunks.sort_unstable();
                assert_eq!(chunks[0].0, 0);
                assert_eq!(chunks[chunks.len() - 1].1, n);
                assert!(chunks.windows(2).all(|w| w[0].1 == w[1].0));
                assert!(chunks.iter().all(|c| c.0 < c.1));
            }
        }
    }
}
