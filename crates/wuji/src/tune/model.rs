//! Predicts the error of a type from a few runs: it falls by half with every digit, and never grows with one.

use super::storage::{Family, Storage, TunedField, families, integer};

/// The digits that are measured.
pub(super) const SAMPLED: [u32; 3] = [10, 5, 16];
/// A family that needs this many digits more than another one, for the same error and as many bits, is not measured further.
const HOPELESS: f64 = 8.0;
/// How much the error falls from a digit at which a run fails to the next ones.
const STEEP: f64 = 1.5;
const LEAST_DIGITS: u32 = 2;
const MOST_DIGITS: u32 = 52;

/// Errors of runs in which one field has a type of a family, and all others are plain.
#[derive(Clone, Debug)]
pub(super) struct Samples {
    pub(super) family: Family,
    /// Digits and errors.
    pub(super) measured: Vec<(u32, f64)>,
}

impl Samples {
    /// The error with some digits.
    fn predict(&self, digits: u32) -> f64 {
        let mut points: Vec<(u32, f64)> = self.measured.clone();
        points.sort_by_key(|p| p.0);
        // With fewer digits than failed, it fails.
        if points.iter().any(|p| p.0 >= digits && p.1.is_infinite()) {
            return f64::INFINITY;
        }
        // An error of zero is one that is too small to see.
        let log = |e: f64| e.max(1e-18).log2();
        let d = f64::from(digits);
        let below = points.iter().rev().find(|p| p.0 <= digits);
        let above = points.iter().find(|p| p.0 >= digits && p.1.is_finite());
        let line = |p: &(u32, f64), slope: f64| log(p.1) - slope * (d - f64::from(p.0));
        let found = match (below, above) {
            (Some(a), Some(b)) if a.1.is_finite() && a.0 < b.0 => {
                let part = (d - f64::from(a.0)) / f64::from(b.0 - a.0);
                log(a.1) + (log(b.1) - log(a.1)) * part
            }
            (Some(a), Some(b)) if a.0 == b.0 => log(a.1),
            (Some(_), Some(b)) => line(b, STEEP),
            (Some(a), None) if a.1.is_finite() => line(a, 1.0),
            (None, Some(b)) => line(b, 1.0),
            (_, None) => return f64::INFINITY,
        };
        found.exp2()
    }
}

/// A type for a field.
#[derive(Copy, Clone, PartialEq, Debug)]
pub(super) struct Candidate {
    pub(super) storage: Storage,
    /// Bits of an element.
    pub(super) bits: u32,
    /// The predicted error.
    pub(super) error: f64,
}

/// The types that are worth trying for a field: each has more bits than those before it, and a smaller error. The last one is the
/// compute type.
pub(super) fn candidates(field: &TunedField, samples: &[Samples]) -> Vec<Candidate> {
    let mut all = Vec::new();
    if let Some(storage) = integer(field) {
        all.push((storage, 0.0));
    }
    for one in samples {
        let mut least = 0.0f64;
        for digits in (LEAST_DIGITS..=MOST_DIGITS).rev() {
            // Fewer digits are not better.
            least = least.max(one.predict(digits));
            if let Some(storage) = one.family.storage(digits, field) {
                all.push((storage, least));
            }
        }
    }
    all.push((Storage::Plain, 0.0));
    let mut all: Vec<Candidate> = all
        .into_iter()
        .map(|(storage, error)| Candidate {
            storage,
            bits: storage.element_bits(field),
            error,
        })
        .collect();
    all.sort_by(|a, b| a.bits.cmp(&b.bits).then(a.error.total_cmp(&b.error)));
    let mut kept: Vec<Candidate> = Vec::new();
    for one in all {
        if kept.last().is_none_or(|last| one.error < last.error) {
            kept.push(one);
        }
    }
    kept
}

/// The families of a field, not measured yet.
pub(super) fn unmeasured(field: &TunedField, reserve: f64) -> Vec<Samples> {
    let all = families(field, reserve).into_iter();
    all.map(|family| Samples {
        family,
        measured: Vec::new(),
    })
    .collect()
}

/// Drops families that are much worse than another one.
pub(super) fn drop_hopeless(samples: &mut Vec<Samples>, field: &TunedField) {
    // The error with as many bits: a digit is half the error.
    let rank = |one: &Samples| {
        let (digits, error) = one.measured.first().copied()?;
        let bits = one.family.storage(digits, field)?.element_bits(field);
        Some(error * (f64::from(bits) / f64::from(field.scalars())).exp2())
    };
    let best = samples
        .iter()
        .filter_map(&rank)
        .fold(f64::INFINITY, f64::min);
    if best.is_finite() {
        samples.retain(|one| rank(one).is_some_and(|r| r <= HOPELESS * best));
    }
}

#[cfg(test)]
mod tests {
    use super::super::storage::Range;
    use super::*;
    use wuji_ir::types::Scalar;

    fn field() -> TunedField {
        TunedField {
            name: "x".to_owned(),
            compute: Scalar::F32,
            shape: vec![3],
            node: 0,
            cells: 1,
            range: Range {
                min: -1.0,
                max: 1.0,
                least: 0.1,
                not_finite: false,
            },
        }
    }

    fn fixed(measured: &[(u32, f64)]) -> Samples {
        Samples {
            family: Family::Fixed {
                signed: true,
                max_value: 1.1,
            },
            measured: measured.to_vec(),
        }
    }

    #[test]
    fn errors_are_interpolated_and_fall_by_half_beyond() {
        let one = fixed(&[(10, 1e-3), (5, 32e-3), (16, 1e-3 / 64.0)]);
        let near = |digits, expected: f64| {
            let found = one.predict(digits);
            assert!((found / expected - 1.0).abs() < 1e-6, "{digits}: {found}");
        };
        near(10, 1e-3);
        near(8, 4e-3);
        near(18, 1e-3 / 256.0);
        near(3, 128e-3);
    }

    #[test]
    fn runs_that_fail_count_as_infinite_errors() {
        let one = fixed(&[(10, f64::INFINITY), (5, f64::INFINITY), (16, 1e-3)]);
        assert_eq!(one.predict(4), f64::INFINITY);
        assert_eq!(one.predict(10), f64::INFINITY);
        assert!(one.predict(14) > 4e-3 && one.predict(14).is_finite());
        assert_eq!(one.predict(17), 0.5e-3);
        let none = fixed(&[(10, f64::INFINITY)]);
        assert_eq!(none.predict(20), f64::INFINITY);
    }

    #[test]
    fn candidates_have_more_bits_and_smaller_errors() {
        // A bump in the measurements is no reason to prefer fewer digits.
        let found = candidates(&field(), &[fixed(&[(10, 1e-3), (5, 1e-4), (16, 1e-5)])]);
        for pair in found.windows(2) {
            assert!(pair[0].bits < pair[1].bits && pair[0].error > pair[1].error);
        }
        let last = found.last().expect("the compute type");
        assert_eq!((last.storage, last.error), (Storage::Plain, 0.0));
        assert!(found.len() > 10, "{found:?}");
    }

    #[test]
    fn families_that_are_much_worse_are_dropped() {
        let mut both = vec![fixed(&[(10, 1e-3)]), fixed(&[(10, 1.0)])];
        drop_hopeless(&mut both, &field());
        assert_eq!(both.len(), 1);
        let mut failed = vec![fixed(&[(10, f64::INFINITY)])];
        drop_hopeless(&mut failed, &field());
        assert_eq!(failed.len(), 1);
    }
}
