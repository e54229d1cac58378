//! The state of the random numbers: the seed of a world, and the number of launches so far.

use super::blocks::Reader;
use wuji_ir::Result;
use wuji_ir::random::{GOLDEN, mix};

/// The inverse of `GOLDEN` modulo 2^64, by Newton's method: each step doubles the number of bits that are right.
const INVERSE: u64 = {
    let mut inverse = GOLDEN;
    let mut step = 0;
    while step < 6 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(GOLDEN.wrapping_mul(inverse)));
        step += 1;
    }
    inverse
};

#[derive(Copy, Clone, Debug)]
pub(super) struct RandomState {
    pub(super) seed: u64,
    pub(super) launches: u64,
}

impl RandomState {
    /// Old files have no seed; they belong to worlds with the same one.
    pub(super) fn read(reader: &mut Reader, own_seed: u64) -> Result<RandomState> {
        let seed = if reader.has_seed() {
            reader.take_number()?
        } else {
            own_seed
        };
        let launches = reader.take_number()?;
        Ok(RandomState { seed, launches })
    }

    /// The number of launches after which a world with another seed is in this state. The key of a launch is a function of
    /// `start(seed) + launches * GOLDEN`, so that another number of launches makes up for another seed.
    pub(super) fn launches_with(self, seed: u64) -> u64 {
        let ahead = start(self.seed).wrapping_sub(start(seed));
        self.launches.wrapping_add(ahead.wrapping_mul(INVERSE))
    }
}

fn start(seed: u64) -> u64 {
    mix(seed.wrapping_add(GOLDEN))
}
