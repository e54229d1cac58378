//! Scatters to thread-private memory: neighbouring additions of a lane form one row.
//!
//! A particle adds momentum and mass to a cell: adjacent numbers. Lanes are processed one after the other, but all
//! numbers of a lane are added by one vector operation.

use super::emit::{Emitter, Mask, Parts};
use smallvec::SmallVec;
use wuji_ir::entities::{Inst, Value};
use wuji_ir::module::Values;
use wuji_ir::ops::{AtomicOp, BinOp, Op, Sharing, Space};
use wuji_ir::types::Imm;

/// The most numbers of a row.
const LONGEST: usize = 4;

/// Adjacent additions.
struct Row {
    /// The offset of the first one.
    start: Value,
    spaces: SmallVec<[Space; 4]>,
    values: Vec<Value>,
}

impl Emitter<'_> {
    /// Emits the additions to thread-private memory; returns the other operations.
    pub(super) fn add_interleaved(&mut self, insts: Vec<Inst>, mask: &Mask) -> Vec<Inst> {
        let (affine, others): (Vec<Inst>, Vec<Inst>) =
            insts.into_iter().partition(|i| self.is_row(*i));
        let mut rows: Vec<Row> = Vec::new();
        for inst in affine {
            let data = &self.old.insts[inst];
            let Op::MemAtomic(_, space, _) = data.op else {
                continue;
            };
            let (offset, value) = (data.args[0], data.args[1]);
            let bytes = i128::from(self.scalar_of(value).bytes());
            let follows = rows.last().is_some_and(|row| {
                let same = row.spaces[0].origin() == space.origin()
                    && self.scalar_of(row.values[0]) == self.scalar_of(value);
                let distance = self.distance(row.start, offset);
                same && row.values.len() < LONGEST
                    && distance == Some(bytes * row.values.len() as i128)
            });
            match rows.last_mut() {
                Some(row) if follows => {
                    row.spaces.push(space);
                    row.values.push(value);
                }
                _ => rows.push(Row {
                    start: offset,
                    spaces: SmallVec::from_slice(&[space]),
                    values: vec![value],
                }),
            }
        }
        for row in rows {
            self.add_row(&row, mask);
        }
        others
    }

    fn is_row(&self, inst: Inst) -> bool {
        let data = &self.old.insts[inst];
        matches!(data.op, Op::MemAtomic(AtomicOp::Add, _, Sharing::Owned))
            && !self.used.contains(&data.results[0])
    }

    /// `to - from`, if both are the same base plus a constant.
    fn distance(&self, from: Value, to: Value) -> Option<i128> {
        let ((a, x), (b, y)) = (self.split(from), self.split(to));
        (a == b).then_some(y - x)
    }

    /// A value as a base plus a constant.
    fn split(&self, v: Value) -> (Value, i128) {
        let parts = self.old.def(v).and_then(|d| {
            let data = &self.old.insts[d];
            let constant = |k: usize| self.old.constant(data.args[k]).and_then(Imm::as_int);
            if data.op != Op::Binary(BinOp::Add) {
                return None;
            }
            match (constant(0), constant(1)) {
                (_, Some(c)) => Some((data.args[0], c)),
                (Some(c), None) => Some((data.args[1], c)),
                (None, None) => None,
            }
        });
        parts.unwrap_or((v, 0))
    }

    fn add_row(&mut self, row: &Row, mask: &Mask) {
        let offsets = self.offsets(row.spaces[0], row.start);
        let values: Vec<Parts> = row.values.iter().map(|v| self.many(*v)).collect();
        for p in 0..self.parts {
            let mut args = Values::new();
            args.push(offsets[p]);
            args.extend(values.iter().map(|v| v[p]));
            if let Mask::Some(m) = mask {
                args.push(m[p]);
            }
            self.b.push(Op::AddInterleaved(row.spaces.clone()), &args);
        }
    }
}
