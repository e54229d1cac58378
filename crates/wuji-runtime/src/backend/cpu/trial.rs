//! Compares two versions of a task's code by measurement.
//!
//! Chunks are assigned to the two versions at random, in pairs, so that neither a drift of the clock frequency nor iterations that
//! get longer and longer favour one of them. Ranks decide whether a difference is significant, because times have outliers: a
//! thread that is preempted takes a hundred times as long. A difference must also be *clear*, both for the typical chunk and
//! for all chunks together, before the favoured version is refused.

use wuji_ir::random::mix;

/// One of the two versions.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum TrialArm {
    Old,
    New,
}

/// The result of a trial.
#[derive(Copy, Clone, PartialEq, Debug)]
pub(crate) struct TrialResult {
    pub(crate) winner: TrialArm,
    /// The time of the new version, as a multiple of that of the old one.
    pub(crate) ratio: f64,
}

/// A version is refused only if it takes at least this much longer.
const CLEAR: f64 = 1.1;
/// The favoured version is accepted after a few chunks if it is faster by this factor.
const QUICK: f64 = 1.5;
/// Standard deviations of the rank sum that make a difference significant: by chance in one of a thousand trials.
const SIGNIFICANT: f64 = 3.3;
/// Chunks of each version after which the result is looked at. After the last, the favoured version wins.
const LOOKS: [usize; 7] = [4, 8, 12, 16, 24, 32, 48];
/// The same for chunks that take long, of which there may be few, and which are disturbed less.
const LONG_LOOKS: [usize; 5] = [2, 3, 4, 8, 12];
/// Nanoseconds of a long chunk.
const LONG: f64 = 20e6;
/// The most chunks of a trial, however much they differ in size.
const MOST_CHUNKS: u64 = 1024;
/// How many measurements are kept from the time before the new version existed.
const MOST_BEFORE: usize = 8;

/// Times of two versions of the code of one task.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct CodeTrial {
    /// The version that wins unless the other one is clearly faster.
    favoured: TrialArm,
    seed: u64,
    assigned: u64,
    /// The size of the largest chunk.
    units: u64,
    /// Nanoseconds per unit.
    old: Vec<f64>,
    new: Vec<f64>,
    /// The old version before the trial, whole tasks only. Not at random: it may accept the new version, but never refuse it.
    before: Vec<f64>,
    /// The new version, as long as `before` may be enough to accept it.
    probes: Vec<f64>,
}

impl CodeTrial {
    pub(crate) fn new(favoured: TrialArm, seed: u64) -> CodeTrial {
        CodeTrial {
            favoured,
            seed,
            assigned: 0,
            units: 0,
            old: Vec::new(),
            new: Vec::new(),
            before: Vec::new(),
            probes: Vec::new(),
        }
    }

    /// Notes a run of a whole task before the new version exists.
    pub(crate) fn note_before(&mut self, units: u64, nanos: u64) {
        if self.is_comparable(units) {
            if self.before.len() == MOST_BEFORE {
                self.before.remove(0);
            }
            self.before.push(nanos as f64 / units.max(1) as f64);
        }
    }

    /// Whether a chunk has a comparable size. A chunk that is much larger than those before starts the trial afresh.
    fn is_comparable(&mut self, units: u64) -> bool {
        if units / 2 > self.units {
            self.units = units;
            for times in [
                &mut self.old,
                &mut self.new,
                &mut self.before,
                &mut self.probes,
            ] {
                times.clear();
            }
        }
        self.units = self.units.max(units);
        units > 0 && units >= self.units / 2
    }

    /// The version that runs the next chunk, and whether it is measured.
    pub(crate) fn assign(&mut self, units: u64) -> (TrialArm, bool) {
        let number = self.assigned;
        self.assigned += 1;
        if !self.is_comparable(units) {
            return (self.favoured, false);
        }
        if self.is_probing() {
            return (TrialArm::New, true);
        }
        // Of two chunks in a row, one runs the old version and one the new version.
        let swap = mix(self.seed ^ (number / 2)) & 1;
        match (number & 1) ^ swap {
            0 => (TrialArm::Old, true),
            _ => (TrialArm::New, true),
        }
    }

    /// Whether two runs of the new version may be enough.
    fn is_probing(&self) -> bool {
        self.favoured == TrialArm::New
            && !self.before.is_empty()
            && self.old.is_empty()
            && self.new.is_empty()
            && self.probes.len() < 2
    }

    /// Notes the time of a chunk that was assigned to a version. Returns the result, once there is one.
    pub(crate) fn note(&mut self, arm: TrialArm, units: u64, nanos: u64) -> Option<TrialResult> {
        if self.is_comparable(units) {
            let time = nanos as f64 / units as f64;
            if arm == TrialArm::New && self.is_probing() {
                self.probes.push(time);
            } else {
                match arm {
                    TrialArm::Old => self.old.push(time),
                    TrialArm::New => self.new.push(time),
                }
            }
        }
        self.result()
    }

    fn result(&self) -> Option<TrialResult> {
        if self.probes.len() == 2 && self.old.is_empty() && self.new.is_empty() {
            let (new, old) = (greatest(&self.probes), least(&self.before));
            if new * 2.0 <= old {
                let ratio = median(&self.probes) / median(&self.before);
                return Some(TrialResult {
                    winner: TrialArm::New,
                    ratio,
                });
            }
        }
        let count = self.old.len().min(self.new.len());
        if self.assigned >= MOST_CHUNKS {
            let ratio = if count == 0 { 1.0 } else { self.shift() };
            return Some(TrialResult {
                winner: self.favoured,
                ratio,
            });
        }
        if count == 0 {
            return None;
        }
        let long = median(&self.old) * self.units as f64 >= LONG;
        let looks = if long { &LONG_LOOKS[..] } else { &LOOKS[..] };
        let last = looks[looks.len() - 1];
        if !looks.contains(&count) && count < last {
            return None;
        }
        let ratio = self.shift();
        self.decide(long, count >= last)
            .map(|winner| TrialResult { winner, ratio })
    }

    /// The winner, if it is known: at the `last` look it is.
    fn decide(&self, long: bool, last: bool) -> Option<TrialArm> {
        let (favoured, other) = match self.favoured {
            TrialArm::Old => (&self.old, &self.new),
            TrialArm::New => (&self.new, &self.old),
        };
        let second = match self.favoured {
            TrialArm::Old => TrialArm::New,
            TrialArm::New => TrialArm::Old,
        };
        if median(favoured) * QUICK <= least(other) {
            return Some(self.favoured);
        }
        let separate = long && favoured.len().min(other.len()) >= 3;
        let deviations = rank_deviations(other, favoured);
        let clear = shift_of(favoured, other) >= CLEAR && mean(favoured) >= CLEAR * mean(other);
        let significant =
            deviations >= SIGNIFICANT || (separate && greatest(other) * QUICK <= least(favoured));
        if clear && significant {
            return Some(second);
        }
        (last || deviations <= -SIGNIFICANT).then_some(self.favoured)
    }

    /// The time of the new version, as a multiple of that of the old one.
    fn shift(&self) -> f64 {
        shift_of(&self.new, &self.old)
    }
}

fn sorted(times: &[f64]) -> Vec<f64> {
    let mut times = times.to_vec();
    times.sort_unstable_by(f64::total_cmp);
    times
}

fn least(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::INFINITY, f64::min)
}

fn greatest(times: &[f64]) -> f64 {
    times.iter().copied().fold(0.0, f64::max)
}

fn median(times: &[f64]) -> f64 {
    sorted(times).get(times.len() / 2).copied().unwrap_or(0.0)
}

/// The mean without the largest eighth: those chunks were disturbed.
fn mean(times: &[f64]) -> f64 {
    let times = sorted(times);
    let kept = &times[..times.len() - times.len() / 8];
    kept.iter().sum::<f64>() / kept.len().max(1) as f64
}

/// The median of all quotients `a / b`.
fn shift_of(a: &[f64], b: &[f64]) -> f64 {
    // A clock may have stood still.
    let tiny = 1e-3;
    let quotients: Vec<f64> = a
        .iter()
        .flat_map(|x| b.iter().map(move |y| x.max(tiny) / y.max(tiny)))
        .collect();
    median(&quotients)
}

/// By how many standard deviations the ranks of `a` are below those of `b`: positive if `a` is faster (Mann-Whitney).
fn rank_deviations(a: &[f64], b: &[f64]) -> f64 {
    let mut below = 0.0;
    for x in a {
        for y in b {
            below += match x.total_cmp(y) {
                std::cmp::Ordering::Less => 1.0,
                std::cmp::Ordering::Equal => 0.5,
                std::cmp::Ordering::Greater => 0.0,
            };
        }
    }
    let (n, m) = (a.len() as f64, b.len() as f64);
    let deviation = (n * m * (n + m + 1.0) / 12.0).sqrt();
    (below - n * m / 2.0) / deviation
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A task with synthetic times: `work` and `noise` of a chunk, and the speed of both versions.
    struct Synthetic {
        old: f64,
        new: f64,
        work: fn(u64) -> f64,
        noise: fn(u64) -> f64,
    }

    fn uniform(n: u64) -> f64 {
        (mix(n) >> 11) as f64 / (1u64 << 53) as f64
    }

    const EVEN: fn(u64) -> f64 = |_| 1.0;
    const QUIET: fn(u64) -> f64 = |_| 1.0;
    /// Up to 30% longer, and one chunk in twelve is preempted.
    const NOISY: fn(u64) -> f64 = |n| match mix(n ^ 99) % 12 {
        0 => 40.0,
        _ => 1.0 + 0.3 * uniform(n),
    };

    impl Synthetic {
        fn run(&self, favoured: TrialArm, seed: u64) -> (TrialResult, u64) {
            let mut trial = CodeTrial::new(favoured, seed);
            for chunk in 0.. {
                let n = chunk + seed * 10_000;
                let (arm, measured) = trial.assign(100);
                assert!(measured);
                let speed = match arm {
                    TrialArm::Old => self.old,
                    TrialArm::New => self.new,
                };
                let nanos = 1e5 * speed * (self.work)(n) * (self.noise)(n);
                if let Some(result) = trial.note(arm, 100, nanos as u64) {
                    return (result, chunk + 1);
                }
            }
            unreachable!("a trial ends")
        }

        /// How many of a hundred trials the old version wins.
        fn old_wins(&self, favoured: TrialArm) -> usize {
            let won = |seed: &u64| self.run(favoured, *seed).0.winner == TrialArm::Old;
            (0..100).filter(won).count()
        }
    }

    #[test]
    fn much_faster_code_is_accepted_after_a_few_chunks() {
        let task = Synthetic {
            old: 20.0,
            new: 1.0,
            work: EVEN,
            noise: QUIET,
        };
        let (result, chunks) = task.run(TrialArm::New, 0);
        assert_eq!((result.winner, chunks), (TrialArm::New, 8));
        assert!((result.ratio - 0.05).abs() < 1e-6);
    }

    #[test]
    fn slower_code_is_refused() {
        let task = Synthetic {
            old: 1.0,
            new: 1.9,
            work: EVEN,
            noise: QUIET,
        };
        let (result, chunks) = task.run(TrialArm::New, 0);
        assert_eq!((result.winner, chunks), (TrialArm::Old, 16));
        assert!((result.ratio - 1.9).abs() < 1e-3);
    }

    #[test]
    fn slower_code_is_refused_despite_noise() {
        let task = Synthetic {
            old: 1.0,
            new: 1.9,
            work: EVEN,
            noise: NOISY,
        };
        let won = task.old_wins(TrialArm::New);
        assert!(won >= 97, "{won}");
    }

    #[test]
    fn equal_code_is_not_refused() {
        for noise in [QUIET, NOISY] {
            for work in [EVEN, |n| 1.0 + 20.0 * uniform(n * 3)] {
                let task = Synthetic {
                    old: 1.0,
                    new: 1.0,
                    work,
                    noise,
                };
                let won = task.old_wins(TrialArm::New);
                assert!(won <= 2, "{won}");
                let won = task.old_wins(TrialArm::Old);
                assert!(won >= 98, "{won}");
            }
        }
    }

    /// A loss of a few percent is no reason to refuse: measurements are not that exact.
    #[test]
    fn small_losses_are_accepted() {
        let task = Synthetic {
            old: 1.0,
            new: 1.05,
            work: EVEN,
            noise: QUIET,
        };
        assert_eq!(task.old_wins(TrialArm::New), 0);
    }

    /// The work of an iteration grows, falls, or differs by a factor of 50: chunks are assigned at random.
    #[test]
    fn uneven_work_does_not_refuse_faster_code() {
        let works: [fn(u64) -> f64; 3] = [
            |n| 1.0 + (n % 10_000) as f64 * 0.5,
            |n| 1000.0 / (1.0 + (n % 10_000) as f64),
            |n| if mix(n).is_multiple_of(3) { 50.0 } else { 1.0 },
        ];
        for work in works {
            for noise in [QUIET, NOISY] {
                let mut task = Synthetic {
                    old: 1.0,
                    new: 0.5,
                    work,
                    noise,
                };
                let won = task.old_wins(TrialArm::New);
                assert!(won <= 1, "{won}");
                // Nor does it accept code that takes five times as long.
                task.new = 5.0;
                let won = task.old_wins(TrialArm::New);
                assert!(won >= 60, "{won}");
            }
        }
    }

    /// Slower for most chunks, but faster for those that take the time.
    #[test]
    fn the_total_time_counts() {
        let mut trial = CodeTrial::new(TrialArm::New, 5);
        let result = (0..).find_map(|n| {
            let (arm, _) = trial.assign(64);
            let heavy = mix(n).is_multiple_of(4);
            let nanos = match (arm, heavy) {
                (TrialArm::Old, false) => 1_000,
                (TrialArm::New, false) => 1_500,
                (TrialArm::Old, true) => 100_000,
                (TrialArm::New, true) => 50_000,
            };
            trial.note(arm, 64, nanos)
        });
        assert_eq!(result.unwrap().winner, TrialArm::New);
    }

    /// Long tasks that run as a whole need not run the old version again.
    #[test]
    fn whole_tasks_are_compared_with_earlier_launches() {
        let mut trial = CodeTrial::new(TrialArm::New, 0);
        trial.note_before(1, 5_000_000_000);
        for _ in 0..2 {
            assert_eq!(trial.assign(1), (TrialArm::New, true));
            if let Some(result) = trial.note(TrialArm::New, 1, 200_000_000) {
                assert_eq!(result.winner, TrialArm::New);
                assert!((result.ratio - 0.04).abs() < 1e-9);
                return;
            }
        }
        panic!("no result");
    }

    /// Earlier launches may have had less work, so they refuse nothing.
    #[test]
    fn earlier_launches_refuse_nothing() {
        let mut trial = CodeTrial::new(TrialArm::New, 0);
        for _ in 0..20 {
            trial.note_before(10, 1_000);
        }
        assert_eq!(trial.before.len(), MOST_BEFORE);
        let mut olds = 0;
        let result = (0..100).find_map(|_| {
            let (arm, _) = trial.assign(10);
            olds += u32::from(arm == TrialArm::Old);
            trial.note(arm, 10, 1_000_000)
        });
        assert_eq!(result.unwrap().winner, TrialArm::New);
        assert!(olds >= 8);
    }

    #[test]
    fn long_chunks_need_few_measurements() {
        let task = Synthetic {
            old: 400.0,
            new: 2000.0,
            work: EVEN,
            noise: QUIET,
        };
        let (result, chunks) = task.run(TrialArm::New, 0);
        assert_eq!((result.winner, chunks), (TrialArm::Old, 6));
    }

    #[test]
    fn chunks_of_other_sizes_do_not_count() {
        let mut trial = CodeTrial::new(TrialArm::New, 0);
        assert!(trial.assign(1000).1);
        assert!(trial.note(TrialArm::Old, 1000, 50).is_none());
        assert_eq!(trial.assign(10), (TrialArm::New, false));
        assert!(trial.note(TrialArm::New, 10, 1_000_000).is_none());
        assert_eq!((trial.old.len(), trial.new.len()), (1, 0));
        // Much larger chunks start afresh.
        assert!(trial.assign(100_000).1);
        assert_eq!((trial.old.len(), trial.new.len()), (0, 0));
    }

    #[test]
    fn a_trial_ends_whatever_is_assigned() {
        let mut trial = CodeTrial::new(TrialArm::New, 0);
        let mut units = 1 << 40;
        let ended = (0..2000).find_map(|_| {
            trial.assign(units);
            units = (units / 3).max(1);
            trial.note(TrialArm::New, units, 10)
        });
        assert_eq!(ended.unwrap().winner, TrialArm::New);
    }
}
