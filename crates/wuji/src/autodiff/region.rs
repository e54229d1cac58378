//! Sets of elements of a field, as far as the indices of accesses are known.

use smallvec::SmallVec;
use wuji_compile::autodiff::IndexRange;
use wuji_ir::types::Scalar;

/// An index along each axis, where it is known.
pub(crate) type Slice = SmallVec<[Option<i64>; 4]>;

/// The elements of some accesses, or more.
#[derive(Clone, Debug, Default)]
pub(crate) struct Region {
    whole: bool,
    /// The values along the first axis of an access that is known: disjoint intervals in order, both ends included.
    axes: SmallVec<[Vec<(i64, i64)>; 2]>,
}

impl Region {
    pub(crate) fn add(&mut self, slice: &Slice) {
        if self.whole {
            return;
        }
        let Some((axis, value)) = first_known(slice) else {
            self.whole = true;
            self.axes.clear();
            return;
        };
        while self.axes.len() <= axis {
            self.axes.push(Vec::new());
        }
        insert(&mut self.axes[axis], value);
    }

    pub(crate) fn clear(&mut self) {
        *self = Region::default();
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.whole && self.axes.iter().all(Vec::is_empty)
    }

    /// Whether an element of the slice may be in it.
    pub(crate) fn overlaps(&self, slice: &Slice) -> bool {
        self.whole
            || (self.axes.iter().enumerate()).any(|(axis, intervals)| match slice.get(axis) {
                Some(Some(value)) => contains(intervals, *value),
                Some(None) | None => !intervals.is_empty(),
            })
    }
}

fn first_known(slice: &Slice) -> Option<(usize, i64)> {
    let mut known = slice.iter().enumerate();
    known.find_map(|(axis, value)| value.map(|v| (axis, v)))
}

fn contains(intervals: &[(i64, i64)], value: i64) -> bool {
    let after = intervals.partition_point(|(from, _)| *from <= value);
    after > 0 && intervals[after - 1].1 >= value
}

fn insert(intervals: &mut Vec<(i64, i64)>, value: i64) {
    let after = intervals.partition_point(|(from, _)| *from <= value);
    if after > 0 && intervals[after - 1].1 >= value {
        return;
    }
    let joins_before = after > 0 && intervals[after - 1].1 == value - 1;
    let joins_after = after < intervals.len() && intervals[after].0 == value + 1;
    match (joins_before, joins_after) {
        (true, true) => {
            intervals[after - 1].1 = intervals[after].1;
            intervals.remove(after);
        }
        (true, false) => intervals[after - 1].1 = value,
        (false, true) => intervals[after].0 = value,
        (false, false) => intervals.insert(after, (value, value)),
    }
}

/// An index along an axis, with the parameter that it is counted from.
#[derive(Copy, Clone, Debug)]
pub(crate) enum Index {
    /// A slot of the parameters, if any, plus a constant.
    One(Option<(usize, Scalar)>, i64),
    Any,
}

impl Index {
    /// `slots` has the first slot and the scalar of each parameter that is an integer.
    pub(crate) fn of(range: IndexRange, slots: &[Option<(usize, Scalar)>]) -> Index {
        match range {
            IndexRange::Any => Index::Any,
            IndexRange::One {
                param: None,
                offset,
            } => Index::One(None, offset),
            IndexRange::One {
                param: Some(param),
                offset,
            } => match slots.get(param as usize) {
                Some(Some(slot)) => Index::One(Some(*slot), offset),
                Some(None) | None => Index::Any,
            },
        }
    }

    pub(crate) fn value(self, params: &[u64]) -> Option<i64> {
        match self {
            Index::Any => None,
            Index::One(None, offset) => Some(offset),
            Index::One(Some((slot, scalar)), offset) => {
                let bits = *params.get(slot)?;
                let value = wuji_ir::types::Imm::from_bits(scalar, bits).as_int()?;
                i64::try_from(value).ok()?.checked_add(offset)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use smallvec::smallvec;

    #[test]
    fn time_steps_form_one_interval() {
        let mut region = Region::default();
        for t in [3, 1, 2, 7, 5, 6] {
            region.add(&smallvec![Some(t), None]);
        }
        assert_eq!(region.axes[0], [(1, 3), (5, 7)]);
        region.add(&smallvec![Some(4), None]);
        assert_eq!(region.axes[0], [(1, 7)]);
        assert!(region.overlaps(&smallvec![Some(4), None]));
        assert!(!region.overlaps(&smallvec![Some(8), Some(4)]));
        assert!(region.overlaps(&smallvec![None, Some(9)]));
    }

    #[test]
    fn an_access_with_unknown_indices_is_everything() {
        let mut region = Region::default();
        assert!(!region.overlaps(&smallvec![None]));
        region.add(&smallvec![None]);
        assert!(region.overlaps(&smallvec![Some(1)]));
        region.clear();
        assert!(!region.overlaps(&smallvec![Some(1)]));
    }

    #[test]
    fn known_indices_of_different_axes_may_meet() {
        let mut region = Region::default();
        region.add(&smallvec![None, Some(2)]);
        assert!(region.overlaps(&smallvec![Some(5), None]));
        assert!(!region.overlaps(&smallvec![Some(5), Some(3)]));
    }

    #[test]
    fn parameters_are_read_with_their_sign() {
        let index = Index::One(Some((1, Scalar::I32)), 1);
        assert_eq!(index.value(&[7, u64::from(-5i32 as u32)]), Some(-4));
    }
}
