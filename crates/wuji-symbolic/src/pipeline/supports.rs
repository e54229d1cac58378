//! The inputs that each node depends on.
//!
//! Most nodes depend on few inputs, and many nodes on the same ones: those of an element of a mesh. So sets are stored once, and a node
//! has the number of its set.

use crate::arena::{Arena, Id};
use crate::hash::mix;
use crate::op::Op;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// The number of a set of inputs.
pub(super) type Set = u32;

/// The set of constants.
pub(super) const EMPTY: Set = 0;
/// All sets with more inputs than [`MOST`].
pub(super) const LARGE: Set = u32::MAX;
/// A set has at most so many inputs.
pub(super) const MOST: usize = 32;

/// The set of every node, and the number of sets.
pub(super) fn supports(arena: &Arena) -> (Vec<Set>, usize) {
    let mut sets = Sets::new();
    let mut of: Vec<Set> = Vec::with_capacity(arena.len());
    for id in arena.ids() {
        let set = match arena.op(id) {
            Op::Const => EMPTY,
            Op::Input => sets.number(&[id.0]),
            Op::Unary(_)
            | Op::Not
            | Op::Binary(_)
            | Op::Compare(_)
            | Op::Logic(_)
            | Op::Select
            | Op::Pair => arena.fold(id, EMPTY, |all, c: Id| sets.union(all, of[c.at()])),
        };
        of.push(set);
    }
    (of, sets.starts.len() - 1)
}

/// Recent unions, by a hash of their operands.
const RECENT: usize = 1 << 14;

struct Sets {
    /// Sorted inputs of all sets, one after the other.
    inputs: Vec<u32>,
    /// Where each set begins, and the end.
    starts: Vec<usize>,
    /// Sets by a hash of their inputs. Where hashes collide, the next hash counts.
    numbers: FxHashMap<u64, Set>,
    recent: Vec<(Set, Set, Set)>,
}

impl Sets {
    fn new() -> Sets {
        Sets {
            inputs: Vec::new(),
            starts: vec![0, 0],
            numbers: FxHashMap::default(),
            recent: vec![(EMPTY, EMPTY, EMPTY); RECENT],
        }
    }

    fn inputs(&self, set: Set) -> &[u32] {
        let at = set as usize;
        &self.inputs[self.starts[at]..self.starts[at + 1]]
    }

    /// The number of a set.
    fn number(&mut self, sorted: &[u32]) -> Set {
        let step = |h: u64, n: &u32| {
            (h.rotate_left(23) ^ u64::from(*n)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        };
        let mut hash = mix(sorted.iter().fold(1, step));
        while let Some(set) = self.numbers.get(&hash).copied() {
            if self.inputs(set) == sorted {
                return set;
            }
            hash = mix(hash);
        }
        let set = self.starts.len() as Set - 1;
        self.inputs.extend_from_slice(sorted);
        self.starts.push(self.inputs.len());
        self.numbers.insert(hash, set);
        set
    }

    fn union(&mut self, a: Set, b: Set) -> Set {
        if a == b || b == EMPTY {
            return a;
        }
        if a == EMPTY {
            return b;
        }
        if a == LARGE || b == LARGE {
            return LARGE;
        }
        let slot = mix(u64::from(a) << 32 | u64::from(b)) as usize % RECENT;
        let (x, y, known) = self.recent[slot];
        if (x, y) == (a, b) {
            return known;
        }
        let union = match merged(self.inputs(a), self.inputs(b)) {
            Some(inputs) => self.number(&inputs),
            None => LARGE,
        };
        self.recent[slot] = (a, b, union);
        union
    }
}

/// The union of sorted lists; `None` if it is too large.
fn merged(mut a: &[u32], mut b: &[u32]) -> Option<SmallVec<[u32; MOST]>> {
    let mut all = SmallVec::new();
    while let (Some(x), Some(y)) = (a.first(), b.first()) {
        if all.len() == MOST {
            return None;
        }
        all.push(*x.min(y));
        (a, b) = (&a[usize::from(x <= y)..], &b[usize::from(y <= x)..]);
    }
    all.extend_from_slice(a);
    all.extend_from_slice(b);
    (all.len() <= MOST).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::Binary;

    #[test]
    fn nodes_of_the_same_inputs_have_the_same_set() {
        let mut m = Arena::default();
        let x: Vec<Id> = (0..100).map(|k| m.input(0, k)).collect();
        let two = m.constant(2.0);
        let (ab, ba) = (
            m.binary(Binary::Add, x[0], x[1]),
            m.binary(Binary::Div, x[1], x[0]),
        );
        let twice = m.binary(Binary::Mul, ab, two);
        let both = m.binary(Binary::Mul, twice, ba);
        let abc = m.binary(Binary::Mul, both, x[2]);
        let all = x.iter().fold(two, |sum, x| m.binary(Binary::Add, sum, *x));
        let (of, _) = supports(&m);
        let same = [ab, ba, twice, both].map(|id| of[id.at()]);
        assert!(same.iter().all(|set| *set == same[0]), "{same:?}");
        assert_ne!(of[abc.at()], same[0]);
        assert_eq!((of[two.at()], of[all.at()]), (EMPTY, LARGE));
        assert_eq!(merged(&[1, 3, 5], &[0, 3, 9]).unwrap()[..], [0, 1, 3, 5, 9]);
        let (most, more): (Vec<u32>, Vec<u32>) = ((0..32).collect(), (0..33).collect());
        assert_eq!(merged(&most[..20], &most[10..]).unwrap()[..], most);
        assert!(merged(&most, &more).is_none());
    }
}
