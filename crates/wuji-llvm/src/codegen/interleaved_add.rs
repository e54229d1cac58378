//! Interleaved additions to thread-private memory, one lane after the other.

use super::function::FunctionGen;
use crate::emit::Val;
use wuji_ir::Result;
use wuji_ir::entities::Value;
use wuji_ir::ops::{BinOp, Space};
use wuji_ir::types::Scalar;

impl FunctionGen<'_, '_, '_> {
    /// `(offsets, vectors..., optional mask)`. Inactive lanes add to a scratch location.
    pub(super) fn add_interleaved(&mut self, spaces: &[Space], args: &[Value]) -> Result<()> {
        let parts = spaces.len();
        let s = self.scalar(args[1])?;
        let lanes = self.lane_count(args[0]).unwrap_or(1);
        let mut at = self.address(spaces[0], args[0])?;
        if let Some(mask) = args.get(1 + parts) {
            let mask = self.get(*mask)?;
            let discarded = self.discarded();
            let e = &self.unit.emit;
            at = e.select(mask, at, e.splat(discarded, lanes));
        }
        let vectors = self.all(&args[1..=parts])?;
        let rows = self.transposed(&vectors, lanes);
        // A row with different fields may alias any of them.
        let one = spaces.iter().all(|s| *s == spaces[0]).then_some(spaces[0]);
        for (k, row) in rows.into_iter().enumerate() {
            let e = &self.unit.emit;
            let to = e.lane(at, e.const_i64(k as i64));
            let ty = e.ty_of(row);
            let old = e.load(ty, to, s.bytes());
            let new = self.binary_op(BinOp::Add, s, (old, row), self.fast_math(), None);
            let e = &self.unit.emit;
            let store = e.store(new, to, s.bytes());
            if let Some(space) = one {
                self.unit.scopes.mark(e, old, space);
                self.unit.scopes.mark(e, store, space);
            }
        }
        Ok(())
    }

    /// Scratch memory for a row of any kind, on the stack.
    fn discarded(&mut self) -> Val {
        if let Some(known) = self.discarded {
            return known;
        }
        let slot = self.at_entry(|g| {
            let e = &g.unit.emit;
            let ty = e.array_ty(e.scalar_ty(Scalar::F64), 4);
            let slot = e.alloca(ty, 32);
            e.memset_zero(slot, 32, 32);
            slot
        });
        self.discarded = Some(slot);
        slot
    }

    /// The transposed vectors: each lane's row; scalars if a row has one element.
    fn transposed(&self, vectors: &[Val], lanes: u32) -> Vec<Val> {
        let e = &self.unit.emit;
        if let [one] = vectors {
            return (0..lanes)
                .map(|k| e.lane(*one, e.const_i64(i64::from(k))))
                .collect();
        }
        if !lanes.is_multiple_of(4) || vectors.len() == 2 {
            return (0..lanes)
                .map(|k| {
                    let at = e.const_i64(i64::from(k));
                    let row: Vec<Val> = vectors.iter().map(|v| e.lane(*v, at)).collect();
                    e.compose(&row)
                })
                .collect();
        }
        // Transpose groups of four lanes, each within a 128-bit quarter of the register.
        let last = vectors.get(3).copied().unwrap_or(vectors[2]);
        let (a, b, c, d) = (vectors[0], vectors[1], vectors[2], last);
        let mix = |x: Val, y: Val, pattern: [u32; 4]| {
            let numbers: Vec<u32> = (0..lanes)
                .map(|k| {
                    let (group, p) = (k / 4 * 4, pattern[(k % 4) as usize]);
                    if p < 4 {
                        group + p
                    } else {
                        lanes + group + p - 4
                    }
                })
                .collect();
            e.shuffle(x, y, &numbers)
        };
        let low = [0, 4, 1, 5];
        let high = [2, 6, 3, 7];
        let (ab_low, ab_high) = (mix(a, b, low), mix(a, b, high));
        let (cd_low, cd_high) = (mix(c, d, low), mix(c, d, high));
        let (first, second) = ([0, 1, 4, 5], [2, 3, 6, 7]);
        let columns = [
            mix(ab_low, cd_low, first),
            mix(ab_low, cd_low, second),
            mix(ab_high, cd_high, first),
            mix(ab_high, cd_high, second),
        ];
        let width = vectors.len() as u32;
        (0..lanes)
            .map(|k| {
                let group = k / 4 * 4;
                let row: Vec<u32> = (group..group + width).collect();
                let from = columns[(k % 4) as usize];
                e.shuffle(from, from, &row)
            })
            .collect()
    }
}
