//! Vector atomics: newer GPUs add two or four neighbouring floats with one instruction.
//!
//! The address of a pair is a multiple of 8 bytes, that of four floats a multiple of 16. If the layout does not show where a
//! row of floats begins, there are several versions, for rows that begin at a multiple of 16 bytes, 4 bytes behind one, and so on.

use super::function::FunctionGen;
use super::gpu::GLOBAL;
use crate::emit::Val;
use inkwell::llvm_sys::LLVMIntPredicate::LLVMIntEQ;
use inkwell::llvm_sys::LLVMOpcode;
use std::ops::Range;
use wuji_compile::nodes::memories;
use wuji_ir::Result;
use wuji_ir::entities::{Inst, Region, Value};
use wuji_ir::ops::*;
use wuji_ir::types::{I32, Imm, Scalar, Type};

/// Floats of the largest vector atomic.
const WIDEST: usize = 4;
/// The most floats that are added together: until the last of them is known, all are in registers.
const LONGEST: usize = 12;
/// Bytes of a float.
const FLOAT: u64 = 4;

/// An atomic addition, the value that its offset is relative to, and the distance from there.
type Update = (Inst, Value, i128);

impl FunctionGen<'_, '_, '_> {
    /// Rows of float atomics of a region on neighbouring addresses, in program order. Between those of a row there is only
    /// arithmetic.
    pub(super) fn neighbouring_updates(&self, region: Region) -> Vec<Vec<Inst>> {
        let mut rows = Vec::new();
        if self.unit.gpu.is_none() || self.unit.sm() < 90 || self.converged {
            return rows;
        }
        let mut open: Vec<Update> = Vec::new();
        for inst in &self.f.regions[region].insts {
            let data = &self.f.insts[*inst];
            let is_addition = matches!(
                data.op,
                Op::MemAtomic(AtomicOp::Add, Space::Tree(..), Sharing::Shared)
            );
            if is_addition
                && self.f.ty(data.args[1]) == Type::Scalar(Scalar::F32)
                && !self.used.contains(&data.results[0])
            {
                let (root, distance) = self.root(data.args[0]);
                open.push((*inst, root, distance));
            } else if data.op.effect() != Effect::Pure {
                self.close_rows(&mut open, &mut rows);
            }
        }
        self.close_rows(&mut open, &mut rows);
        let place = |i: &Inst| self.f.regions[region].insts.iter().position(|x| x == i);
        // So that the last one comes last.
        rows.iter_mut().for_each(|row| row.sort_by_key(place));
        rows
    }

    fn close_rows(&self, open: &mut Vec<Update>, rows: &mut Vec<Vec<Inst>>) {
        while let Some((_, root, _)) = open.first().copied() {
            let (mut own, rest): (Vec<_>, Vec<_>) =
                open.drain(..).partition(|(_, r, _)| *r == root);
            *open = rest;
            own.sort_by_key(|update| update.2);
            for row in own.chunk_by(|a, b| b.2 == a.2 + i128::from(FLOAT)) {
                let longest = if self.has_aligned_cells(row[0].0) {
                    WIDEST
                } else {
                    LONGEST
                };
                let parts = row.chunks(longest).filter(|part| part.len() > 1);
                rows.extend(parts.map(|part| part.iter().map(|update| update.0).collect()));
            }
        }
    }

    /// Whether the cells of the updated field are whole vectors.
    fn has_aligned_cells(&self, update: Inst) -> bool {
        let Op::MemAtomic(_, Space::Tree(tree, field), _) = self.f.insts[update].op else {
            return false;
        };
        let node = self.unit.module.fields[field].node;
        memories(self.unit.module)
            .is_ok_and(|memory| memory[tree].cell_size[node].is_multiple_of(FLOAT * WIDEST as u64))
    }

    /// Splits an offset into a base value and a constant. Offsets do not wrap, so they may have been computed in fewer bits.
    fn root(&self, offset: Value) -> (Value, i128) {
        let number = |v: Value| self.f.constant(v).and_then(Imm::as_int);
        let mut at = (offset, 0);
        while let Some(def) = self.f.def(at.0) {
            let data = &self.f.insts[def];
            if data.op == Op::Convert(Scalar::I64) && self.f.ty(data.args[0]) == I32 {
                at.0 = data.args[0];
                continue;
            }
            let Op::Binary(BinOp::Add) = data.op else {
                break;
            };
            at = match (number(data.args[0]), number(data.args[1])) {
                (_, Some(c)) => (data.args[0], at.1 + c),
                (Some(c), None) => (data.args[1], at.1 + c),
                (None, None) => break,
            };
        }
        at
    }

    /// Adds a row of floats by as few instructions as its address allows.
    pub(super) fn vector_atomic(&mut self, row: &[Inst]) -> Result<()> {
        let mut row: Vec<(i128, Inst)> = row
            .iter()
            .map(|i| (self.root(self.f.insts[*i].args[0]).1, *i))
            .collect();
        row.sort_by_key(|update| update.0);
        let first = &self.f.insts[row[0].1];
        let Op::MemAtomic(_, space, _) = first.op else {
            return Ok(());
        };
        let at = self.address(space, first.args[0])?;
        let mut values = Vec::new();
        for (_, inst) in &row {
            values.push(self.get(self.f.insts[*inst].args[1])?);
        }
        let e = &self.unit.emit;
        let address = e.cast(LLVMOpcode::LLVMAddrSpaceCast, at, e.space_ptr_ty(GLOBAL));
        let address = e.cast(LLVMOpcode::LLVMPtrToInt, address, e.i64_ty());
        if self.has_aligned_cells(row[0].1) {
            // Rows that begin elsewhere are rare.
            let one_by_one: Vec<_> = (0..values.len()).map(|k| k..k + 1).collect();
            let mask = (FLOAT as usize * WIDEST - 1) as i64;
            self.if_aligned(address, mask, |g, yes| {
                let whole = pieces(0, values.len());
                g.add_pieces(address, if yes { &whole } else { &one_by_one }, &values);
            });
        } else {
            self.by_alignment(address, 1, 0, &values);
        }
        Ok(())
    }

    /// The versions for rows that begin `begin` floats, modulo `modulus`, behind a multiple of 16 bytes.
    fn by_alignment(&self, address: Val, modulus: usize, begin: usize, values: &[Val]) {
        let forms: Vec<_> = (begin..WIDEST)
            .step_by(modulus)
            .map(|begin| pieces(begin, values.len()))
            .collect();
        if forms.iter().all(|form| *form == forms[0]) {
            return self.add_pieces(address, &forms[0], values);
        }
        self.if_aligned(address, (FLOAT as usize * modulus) as i64, |g, yes| {
            let begin = if yes { begin } else { begin + modulus };
            g.by_alignment(address, 2 * modulus, begin, values);
        });
    }

    /// Two versions: for addresses without any of these bits, and for others.
    fn if_aligned(&self, address: Val, bits: i64, version: impl Fn(&Self, bool)) {
        let e = &self.unit.emit;
        let bits = e.and(address, e.const_i64(bits));
        let aligned = e.icmp(LLVMIntEQ, bits, e.const_i64(0));
        let (yes, no) = (
            e.append_block(self.fun, c"aligned"),
            e.append_block(self.fun, c"unaligned"),
        );
        let done = e.append_block(self.fun, c"updated");
        e.cond_br(aligned, yes, no);
        for (block, is_aligned) in [(yes, true), (no, false)] {
            e.position(block);
            version(self, is_aligned);
            e.br(done);
        }
        e.position(done);
    }

    fn add_pieces(&self, address: Val, pieces: &[Range<usize>], values: &[Val]) {
        for piece in pieces {
            self.add_piece(address, piece.start, &values[piece.clone()]);
        }
    }

    /// One instruction.
    fn add_piece(&self, address: Val, first: usize, values: &[Val]) {
        let e = &self.unit.emit;
        let mut args = vec![e.add(address, e.const_i64((FLOAT as usize * first) as i64))];
        args.extend(values);
        let (text, constraints) = match values.len() {
            4 => (
                "red.relaxed.gpu.global.add.v4.f32 [$0], {$1, $2, $3, $4};",
                "l,f,f,f,f,~{memory}",
            ),
            2 => (
                "red.relaxed.gpu.global.add.v2.f32 [$0], {$1, $2};",
                "l,f,f,~{memory}",
            ),
            _ => ("red.relaxed.gpu.global.add.f32 [$0], $1;", "l,f,~{memory}"),
        };
        e.assembly(text, constraints, &args);
    }
}

/// The instructions for a row of floats that begins this many floats behind a multiple of 16 bytes.
fn pieces(begin: usize, count: usize) -> Vec<Range<usize>> {
    let mut pieces = Vec::new();
    let mut at = 0;
    while at < count {
        let fits = |wide: &usize| (begin + at).is_multiple_of(*wide) && at + wide <= count;
        let wide = [WIDEST, 2].into_iter().find(fits).unwrap_or(1);
        pieces.push(at..at + wide);
        at += wide;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::pieces;

    #[test]
    fn rows_are_split_at_multiples_of_vectors() {
        assert_eq!(pieces(0, 9), [0..4, 4..8, 8..9]);
        assert_eq!(pieces(1, 9), [0..1, 1..3, 3..7, 7..9]);
        assert_eq!(pieces(2, 9), [0..2, 2..6, 6..8, 8..9]);
        assert_eq!(pieces(3, 9), [0..1, 1..5, 5..9]);
        assert_eq!(pieces(1, 3), pieces(3, 3));
    }
}
