//! Bitmasked nodes: atomics on the words of a mask.

use crate::nodes::level::{At, LevelFunctions, PathStep, ScanSource, ScannedWord};
use crate::nodes::lists::{Entry, Scan};
use crate::nodes::words::*;
use crate::nodes::{Services, allocates_below};
use wuji_ir::build::Builder;
use wuji_ir::entities::Value;
use wuji_ir::layout::NodeData;
use wuji_ir::ops::*;

/// Cells per word of the mask.
const BITS: u64 = 64;

pub(super) struct Bitmasked;

impl LevelFunctions for Bitmasked {
    fn step(&self, path: &mut dyn PathStep) {
        let number = path.number();
        path.test_or_touch(&path.container(), &number);
        path.advance(&number, path.first_cell());
    }

    fn test(&self, b: &mut Builder, (tree, _): At, container: Value, number: Value) -> Value {
        let (at, bit) = bit(b, container, number);
        let mask = load(b, tree, at);
        let set = b.binary(BinOp::And, mask, bit);
        not_zero(b, set)
    }

    fn touch(
        &self,
        s: &mut Services,
        b: &mut Builder,
        (tree, node): At,
        container: Value,
        number: Value,
    ) {
        let (at, bit) = bit(b, container, number);
        let old = atomic(b, AtomicOp::Or, tree, at, bit);
        let set = b.binary(BinOp::And, old, bit);
        let fresh = is_zero(b, set);
        when(b, fresh, |b| s.changed(b, tree, node));
    }

    /// Inactive cells are zero, so that reads need not test the bit.
    fn deactivate(&self, s: &mut Services, b: &mut Builder, at: At, operands: &[Value]) {
        let (tree, node) = at;
        let (container, number) = (operands[0], operands[1]);
        let size = s.memory[tree].cell_size[node];
        let (word, bit) = bit(b, container, number);
        let others = b.unary(UnOp::Not, bit);
        let old = atomic(b, AtomicOp::And, tree, word, others);
        let was = b.binary(BinOp::And, old, bit);
        let mine = not_zero(b, was);
        let below = if allocates_below(b.env, tree, node) {
            Some(s.clear_below(b.env, tree, node))
        } else {
            None
        };
        when(b, mine, |b| {
            s.changed(b, tree, node);
            let cell = self.cell_offset(s, b, at, container, number);
            // The mask is a whole number of words, so cells are aligned as their size is.
            match below {
                None => clear_bytes(b, tree, cell, (size, size)),
                Some(below) => {
                    call(b, below, &[cell]);
                    s.clear_fields(b, at, cell, size);
                }
            }
        });
    }

    fn scan_source(&self, data: &NodeData) -> ScanSource {
        ScanSource::Words(data.cells().div_ceil(BITS))
    }

    fn word_entry(&self, _scan: &Scan, b: &mut Builder, word: ScannedWord<'_>) -> Entry {
        Entry {
            offset: word.container,
            extra: word.found,
            first: times(b, word.number, BITS as i64),
            coords: word.coords.to_vec(),
        }
    }

    fn clear(&self, s: &mut Services, b: &mut Builder, at: At, container: Value) {
        let (tree, node) = at;
        let cells = b.env.trees[tree].nodes[node].cells();
        clear(b, tree, container, cells.div_ceil(BITS) * 8);
        s.changed(b, tree, node);
        s.clear_cells(b, at, container);
    }
}

/// Where the bit of a cell is: the offset of its word, and the word with that bit alone.
fn bit(b: &mut Builder, container: Value, number: Value) -> (Value, Value) {
    let (at, shift) = divide(b, number, BITS);
    let at = word_at(b, container, at);
    let one = b.i64(1);
    (at, b.binary(BinOp::Shl, one, shift))
}
