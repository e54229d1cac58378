//! Finds expressions that are constant, or equal to earlier ones, by algebraic hashes.

use super::complexity;
use crate::arena::{Arena, Id, Node};
use crate::hash::{algebraic, small_integer};
use rustc_hash::FxHashMap;

/// Points for finding candidates, and others for the check.
const POINTS: [u64; 4] = [0x5eed, 0xf00d, 0xc0de, 0xbead];

/// Algebraic hashes of an arena that grows.
pub(super) struct Equal {
    /// A column per point.
    hashes: [Vec<u64>; 4],
    /// The first node with a hash.
    first: FxHashMap<(u64, u64), Id>,
    mask: u64,
}

impl Equal {
    pub(super) fn new(mask: u64) -> Equal {
        Equal {
            hashes: Default::default(),
            first: FxHashMap::default(),
            mask,
        }
    }

    fn extend(&mut self, arena: &Arena) {
        for (hashes, seed) in self.hashes.iter_mut().zip(POINTS) {
            while hashes.len() < arena.len() {
                let hash = algebraic(arena, hashes, Id(hashes.len() as u32), seed);
                hashes.push(hash);
            }
        }
    }

    /// The constant or the earlier expression that a node is equal to, or the node itself.
    pub(super) fn replace(&mut self, arena: &mut Arena, id: Id) -> Id {
        if !arena.op(id).is_number() {
            return id;
        }
        self.extend(arena);
        if !matches!(arena.node(id), Node::Const(_))
            && let Some(value) = small_integer(self.hashes[0][id.at()] & self.mask)
        {
            let constant = arena.constant(value);
            self.extend(arena);
            if self.are_equal(constant, id) {
                return constant;
            }
        }
        let key = |point: usize| self.hashes[point][id.at()] & self.mask;
        let first = *self.first.entry((key(0), key(1))).or_insert(id);
        // Hashes can collide: values at other points decide.
        if first != id
            && self.are_equal(first, id)
            && complexity(arena, first) <= complexity(arena, id)
        {
            return first;
        }
        id
    }

    fn are_equal(&self, a: Id, b: Id) -> bool {
        self.hashes.iter().all(|h| h[a.at()] == h[b.at()])
    }
}
