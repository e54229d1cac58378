//! How the units of a parallel task are cut into chunks: large ones first, then small ones, so that threads end at about
//! the same time.

/// What part of the units is cut finely, and how finely: a thread that comes to the end early then waits for an eighth of a chunk at most.
const FINE_PART: u64 = 8;
const FINER: u64 = 8;

/// Chunks of a task, by number.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Shares {
    units: u64,
    grain: u64,
    /// How many chunks have `grain` units; the others have `fine`.
    large: u64,
    fine: u64,
}

impl Shares {
    /// Chunks of so many units, and small ones of no less than `least`.
    pub(crate) fn new(units: u64, grain: u64, least: u64) -> Shares {
        let fine = (grain / FINER).max(least).clamp(1, grain);
        Shares {
            units,
            grain,
            large: (units - units / FINE_PART) / grain,
            fine,
        }
    }

    pub(crate) fn count(self) -> u64 {
        self.large + (self.units - self.large * self.grain).div_ceil(self.fine)
    }

    /// First unit of a chunk, and the first one behind it.
    pub(crate) fn range(self, number: u64) -> (i64, i64) {
        let (begin, size) = match number < self.large {
            true => (number * self.grain, self.grain),
            false => {
                let before = self.large * self.grain;
                (before + (number - self.large) * self.fine, self.fine)
            }
        };
        (begin as i64, (begin + size).min(self.units) as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_in_one_chunk() {
        for units in [2, 3, 17, 100, 4096, 100_003] {
            for grain in [1, 2, 7, 64, 5000] {
                for least in [1, 3, 100] {
                    let shares = Shares::new(units, grain, least);
                    let mut next = 0;
                    for number in 0..shares.count() {
                        let (begin, end) = shares.range(number);
                        assert_eq!(begin, next);
                        assert!(end > begin && (end - begin) as u64 <= grain);
                        next = end;
                    }
                    assert_eq!(next, units as i64);
                }
            }
        }
    }

    #[test]
    fn the_last_ones_are_small() {
        let shares = Shares::new(1 << 20, 1 << 15, 128);
        assert_eq!(shares.range(0), (0, 1 << 15));
        assert_eq!(shares.count(), 28 + 32);
        let (begin, end) = shares.range(shares.count() - 1);
        assert_eq!((end - begin, end), (1 << 12, 1 << 20));
        // Not below what is worth handing to a thread.
        let (begin, end) = Shares::new(1 << 20, 1 << 15, 1 << 15).range(31);
        assert_eq!((begin, end), (31 << 15, 1 << 20));
    }
}
