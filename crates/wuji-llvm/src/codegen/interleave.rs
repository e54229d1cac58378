//! Interleaved loads and stores: one contiguous run of memory, deinterleaved or interleaved by shuffles.

use super::function::FunctionGen;
use crate::emit::{ANY_LANE, Val};
use wuji_ir::Result;
use wuji_ir::entities::Value;
use wuji_ir::ops::{Interleaved, Space};
use wuji_ir::types::{Scalar, Type};

/// The run of memory from the first element to the last, as elements and as *pieces*: vectors with as many
/// elements as there are lanes. The last piece ends with the last element, so it may overlap the one before.
struct Run {
    elem: Scalar,
    lanes: u32,
    /// Elements from one lane's row to the next.
    pitch: u32,
    /// The lanes are in descending order: the first lane has the last row.
    backwards: bool,
    /// Offsets of the columns in a row, in elements.
    columns: Vec<u32>,
    /// Offset from the address of the first lane to the start, in bytes.
    start: i64,
    /// The first element of each piece.
    pieces: Vec<u32>,
}

impl Run {
    fn of(rows: &Interleaved) -> Option<Run> {
        let Type::Vector(elem, lanes) = rows.ty else {
            return None;
        };
        let (lanes, bytes) = (u32::from(lanes), i64::from(elem.bytes()));
        let first = rows.columns.first()?.1;
        let columns: Option<Vec<u32>> = rows
            .columns
            .iter()
            .map(|(_, at)| u32::try_from((at - first) / bytes).ok())
            .collect();
        let columns = columns?;
        let pitch = u32::try_from(rows.stride.abs() / bytes).ok()?;
        let total = (lanes - 1) * pitch + columns.last()? + 1;
        let count = total.div_ceil(lanes);
        let pieces = (0..count).map(|p| (p * lanes).min(total - lanes)).collect();
        let backwards = rows.stride < 0;
        let last = i64::from(lanes - 1) * rows.stride;
        Some(Run {
            elem,
            lanes,
            pitch,
            backwards,
            columns,
            start: first + if backwards { last } else { 0 },
            pieces,
        })
    }

    /// The index of a lane's element of a column.
    fn element(&self, lane: u32, column: usize) -> u32 {
        let row = if self.backwards {
            self.lanes - 1 - lane
        } else {
            lane
        };
        row * self.pitch + self.columns[column]
    }

    /// The piece that contains an element, and the position in it.
    fn position(&self, element: u32) -> (usize, u32) {
        let piece = ((element / self.lanes) as usize).min(self.pieces.len() - 1);
        (piece, element - self.pieces[piece])
    }

    /// Lane and column of an element; `None` for a gap between columns.
    fn owner(&self, element: u32) -> Option<(u32, usize)> {
        let (row, at) = (element / self.pitch, element % self.pitch);
        let lane = if self.backwards {
            self.lanes - 1 - row
        } else {
            row
        };
        let column = self.columns.iter().position(|c| *c == at)?;
        Some((lane, column))
    }

    /// Whether the run has no gaps.
    fn is_full(&self) -> bool {
        self.columns.len() == self.pitch as usize
    }

    /// Whether repeated even/odd splits give the columns.
    fn halves(&self) -> bool {
        self.is_full() && self.pitch.is_power_of_two() && self.pitch > 1 && !self.backwards
    }

    /// The position of each lane's element of a column in its piece, if these are distinct.
    fn distinct(&self, column: usize) -> Option<Vec<u32>> {
        let mut seen = vec![false; self.lanes as usize];
        let places: Vec<u32> = (0..self.lanes)
            .map(|lane| self.position(self.element(lane, column)).1)
            .collect();
        let fresh = |p: &u32| !std::mem::replace(&mut seen[*p as usize], true);
        places.iter().all(fresh).then_some(places)
    }
}

impl FunctionGen<'_, '_, '_> {
    /// `(offset, optional mask)`: a vector for each column.
    pub(super) fn load_interleaved(
        &mut self,
        rows: &Interleaved,
        args: &[Value],
        results: &[Value],
    ) -> Result<()> {
        let Some(run) = Run::of(rows) else {
            return Ok(());
        };
        let mask = args.get(1).map(|m| self.get(*m)).transpose()?;
        let at = self.start(&run, rows, args[0])?;
        let mut pieces = Vec::with_capacity(run.pieces.len());
        for piece in 0..run.pieces.len() {
            let from = self.piece_address(&run, at, piece);
            let on = mask.map(|m| self.piece_mask(&run, m, piece));
            let e = &self.unit.emit;
            let ty = e.vector_ty(e.memory_ty(run.elem), run.lanes);
            let v = match on {
                None => e.load(ty, from, run.elem.bytes()),
                Some(on) => {
                    let types = [ty, e.ptr_ty()];
                    let v = e.intrinsic("llvm.masked.load", &types, &[from, on, e.zero(ty)]);
                    e.add_call_align(v, 0, run.elem.bytes());
                    v
                }
            };
            self.mark_rows(v, rows);
            pieces.push(v);
        }
        let columns = if run.halves() {
            self.deinterleave(&run, pieces)
        } else {
            (0..run.columns.len())
                .map(|c| self.column(&run, &pieces, c))
                .collect()
        };
        for (v, result) in columns.into_iter().zip(results) {
            let v = self.loaded(v, run.elem);
            self.set(*result, v);
        }
        Ok(())
    }

    /// `(offset, a vector for each column, optional mask)`.
    pub(super) fn store_interleaved(&mut self, rows: &Interleaved, args: &[Value]) -> Result<()> {
        let Some(run) = Run::of(rows) else {
            return Ok(());
        };
        let count = rows.columns.len();
        let mask = args.get(1 + count).map(|m| self.get(*m)).transpose()?;
        let mut columns = Vec::with_capacity(count);
        for arg in &args[1..=count] {
            let v = self.get(*arg)?;
            columns.push(self.storable(v, run.elem));
        }
        let at = self.start(&run, rows, args[0])?;
        let pieces = if run.halves() {
            self.interleave_columns(&run, columns)
        } else {
            self.pieces(&run, &columns)
        };
        for (piece, v) in pieces.into_iter().enumerate() {
            let to = self.piece_address(&run, at, piece);
            let on = match mask {
                None if run.is_full() => None,
                None => Some(self.unit.emit.const_vector(&self.used(&run, piece))),
                Some(m) => Some(self.piece_mask(&run, m, piece)),
            };
            let e = &self.unit.emit;
            let inst = match on {
                None => e.store(v, to, run.elem.bytes()),
                Some(on) => {
                    let types = [e.ty_of(v), e.ptr_ty()];
                    let inst = e.intrinsic("llvm.masked.store", &types, &[v, to, on]);
                    e.add_call_align(inst, 1, run.elem.bytes());
                    inst
                }
            };
            self.mark_rows(inst, rows);
        }
        Ok(())
    }

    fn start(&mut self, run: &Run, rows: &Interleaved, offset: Value) -> Result<Val> {
        let at = self.address(rows.columns[0].0, offset)?;
        let e = &self.unit.emit;
        Ok(match run.start {
            0 => at,
            bytes => e.offset(at, e.const_i64(bytes)),
        })
    }

    fn piece_address(&self, run: &Run, start: Val, piece: usize) -> Val {
        let e = &self.unit.emit;
        match run.pieces[piece] {
            0 => start,
            element => {
                let bytes = i64::from(element) * i64::from(run.elem.bytes());
                e.offset(start, e.const_i64(bytes))
            }
        }
    }

    /// Attaches the alias scope, if all columns have the same one.
    fn mark_rows(&self, inst: Val, rows: &Interleaved) {
        let space: Space = rows.columns[0].0;
        if rows.columns.iter().all(|(s, _)| *s == space) {
            self.mark(inst, space);
        }
    }

    /// Which elements of a piece are used by some lane.
    fn used(&self, run: &Run, piece: usize) -> Vec<Val> {
        (0..run.lanes)
            .map(|k| {
                let owner = run.owner(run.pieces[piece] + k);
                self.unit.emit.const_bool(owner.is_some())
            })
            .collect()
    }

    /// The mask of a piece: elements of active lanes. Gaps between columns are off.
    fn piece_mask(&self, run: &Run, mask: Val, piece: usize) -> Val {
        let e = &self.unit.emit;
        let numbers: Vec<u32> = (0..run.lanes)
            .map(|k| match run.owner(run.pieces[piece] + k) {
                Some((lane, _)) => lane,
                None => run.lanes,
            })
            .collect();
        e.shuffle(mask, e.zero(e.ty_of(mask)), &numbers)
    }

    /// Gathers a column from the pieces.
    fn column(&self, run: &Run, pieces: &[Val], column: usize) -> Val {
        let e = &self.unit.emit;
        let lanes = run.lanes;
        let from: Vec<(usize, u32)> = (0..lanes)
            .map(|lane| run.position(run.element(lane, column)))
            .collect();
        let mut used: Vec<usize> = from.iter().map(|(p, _)| *p).collect();
        used.sort_unstable();
        used.dedup();
        if let Some(places) = run.distinct(column) {
            // A blend is cheaper than a permutation across the register, so permute once, after blending.
            let mut home = vec![0; lanes as usize];
            for (p, k) in &from {
                home[*k as usize] = *p;
            }
            let mut all = pieces[used[0]];
            for p in &used[1..] {
                let blend: Vec<u32> = (0..lanes)
                    .map(|k| if home[k as usize] == *p { lanes + k } else { k })
                    .collect();
                all = e.shuffle(all, pieces[*p], &blend);
            }
            return e.shuffle(all, all, &places);
        }
        let mut all = pieces[used[0]];
        let mut done = used[0];
        let mut moved = false;
        for p in &used[1..] {
            let numbers: Vec<u32> = from
                .iter()
                .enumerate()
                .map(|(lane, (home, k))| match home {
                    h if h == p => lanes + k,
                    h if *h > done => ANY_LANE,
                    _ if moved => lane as u32,
                    _ => *k,
                })
                .collect();
            all = e.shuffle(all, pieces[*p], &numbers);
            (done, moved) = (*p, true);
        }
        if moved {
            return all;
        }
        let numbers: Vec<u32> = from.iter().map(|(_, k)| *k).collect();
        e.shuffle(all, all, &numbers)
    }

    /// Builds pieces from columns. Gaps are undefined.
    fn pieces(&self, run: &Run, columns: &[Val]) -> Vec<Val> {
        let e = &self.unit.emit;
        let lanes = run.lanes;
        // Permute each column once if the result fits all pieces.
        let placed: Option<Vec<Val>> = columns
            .iter()
            .enumerate()
            .map(|(c, v)| {
                let places = run.distinct(c)?;
                let mut numbers = vec![ANY_LANE; lanes as usize];
                for (lane, k) in places.iter().enumerate() {
                    numbers[*k as usize] = lane as u32;
                }
                Some(e.shuffle(*v, *v, &numbers))
            })
            .collect();
        (0..run.pieces.len())
            .map(|piece| {
                let owners: Vec<Option<(u32, usize)>> = (0..lanes)
                    .map(|k| run.owner(run.pieces[piece] + k))
                    .collect();
                let mut used: Vec<usize> = owners.iter().flatten().map(|(_, c)| *c).collect();
                used.sort_unstable();
                used.dedup();
                let vectors = placed.as_deref().unwrap_or(columns);
                let Some(first) = used.first() else {
                    return columns[0];
                };
                let mut all = vectors[*first];
                let mut done = *first;
                let mut moved = placed.is_some();
                for c in used.get(1..).unwrap_or_default() {
                    let numbers: Vec<u32> = owners
                        .iter()
                        .enumerate()
                        .map(|(k, owner)| match owner {
                            Some((lane, column)) if column == c => {
                                lanes + if placed.is_some() { k as u32 } else { *lane }
                            }
                            Some((lane, column)) if *column <= done => {
                                if moved {
                                    k as u32
                                } else {
                                    *lane
                                }
                            }
                            Some(_) | None => ANY_LANE,
                        })
                        .collect();
                    all = e.shuffle(all, vectors[*c], &numbers);
                    (done, moved) = (*c, true);
                }
                if moved {
                    return all;
                }
                let numbers: Vec<u32> = owners
                    .iter()
                    .map(|o| o.map_or(ANY_LANE, |(lane, _)| lane))
                    .collect();
                e.shuffle(all, all, &numbers)
            })
            .collect()
    }

    /// Deinterleaves rows of two, four or eight by repeated even/odd splits.
    fn deinterleave(&self, run: &Run, mut vectors: Vec<Val>) -> Vec<Val> {
        let e = &self.unit.emit;
        let half = |odd: u32| -> Vec<u32> { (0..run.lanes).map(|k| 2 * k + odd).collect() };
        let (even, odd) = (half(0), half(1));
        for _ in 0..run.pitch.trailing_zeros() {
            let pairs = vectors.chunks_exact(2);
            let evens = pairs.clone().map(|p| e.shuffle(p[0], p[1], &even));
            let odds = pairs.map(|p| e.shuffle(p[0], p[1], &odd));
            vectors = evens.chain(odds).collect();
        }
        vectors
    }

    /// The inverse: interleaves the columns.
    fn interleave_columns(&self, run: &Run, mut vectors: Vec<Val>) -> Vec<Val> {
        let e = &self.unit.emit;
        let lanes = run.lanes;
        let zip = |from: u32| -> Vec<u32> {
            (0..lanes)
                .map(|k| from + k / 2 + if k % 2 == 0 { 0 } else { lanes })
                .collect()
        };
        let (low, high) = (zip(0), zip(lanes / 2));
        for _ in 0..run.pitch.trailing_zeros() {
            let (evens, odds) = vectors.split_at(vectors.len() / 2);
            vectors = evens
                .iter()
                .zip(odds)
                .flat_map(|(a, b)| [e.shuffle(*a, *b, &low), e.shuffle(*a, *b, &high)])
                .collect();
        }
        vectors
    }
}
