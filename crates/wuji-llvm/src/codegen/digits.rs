//! Divisions of the index of a grid-stride loop by numbers that the loop does not change, as in a collapsed loop over several
//! dimensions. A division takes longer than most bodies, so its quotient and its remainder advance with the index instead, like the
//! digits of an odometer.

use super::function::FunctionGen;
use crate::emit::{Block, Val};
use inkwell::llvm_sys::LLVMIntPredicate::LLVMIntUGE;
use inkwell::llvm_sys::LLVMOpcode;
use wuji_ir::Result;
use wuji_ir::entities::{Inst, Region, Value};
use wuji_ir::module::Function;
use wuji_ir::ops::{BinOp, Op};
use wuji_ir::types::{Imm, Scalar, Type};

/// A division of the index, or of the quotient of the digit before it.
pub(super) struct Digit {
    divisions: Divisions,
    by: Val,
    /// Of the first index; then the phis of the loop.
    quotient: Val,
    remainder: Val,
    /// Of the step of the index. `None`: the step is a multiple of what the index is divided by, so the remainder never changes.
    quotient_step: Val,
    remainder_step: Option<Val>,
}

/// The instructions that compute a digit.
struct Divisions {
    by: Value,
    quotients: Vec<Inst>,
    remainders: Vec<Inst>,
}

/// The divisions of a value in the body of a loop by a positive number from outside of it.
fn divisions(f: &Function, body: Region, dividend: Value) -> Option<Divisions> {
    let insts = &f.regions[body].insts;
    let divides = |inst: &Inst, op: BinOp| {
        let data = &f.insts[*inst];
        (data.op == Op::Binary(op) && data.args[0] == dividend).then(|| data.args[1])
    };
    let of = |inst: &Inst| divides(inst, BinOp::Div).or_else(|| divides(inst, BinOp::Rem));
    let by = insts.iter().find_map(of)?;
    let all = |op: BinOp| {
        let own = insts.iter().filter(|i| divides(i, op) == Some(by));
        own.copied().collect::<Vec<Inst>>()
    };
    let inside = f.constant(by).is_none() && f.def(by).is_some_and(|def| insts.contains(&def));
    let wide = f.ty(dividend) == Type::Scalar(Scalar::I64);
    (wide && !inside && is_positive(f, by)).then(|| Divisions {
        by,
        quotients: all(BinOp::Div),
        remainders: all(BinOp::Rem),
    })
}

/// The divisions of the index of a loop, and of each quotient, up to the last that is not by a constant: LLVM divides by constants
/// without a division.
fn chain(f: &Function, body: Region) -> Vec<Divisions> {
    let mut chain: Vec<Divisions> = Vec::new();
    let mut dividend = Some(f.regions[body].params[0]);
    while let Some(found) = dividend.and_then(|v| divisions(f, body, v)) {
        dividend = found.quotients.first().map(|i| f.result(*i));
        chain.push(found);
    }
    let last = (chain.iter()).rposition(|d| f.constant(d.by).is_none());
    chain.truncate(last.map_or(0, |k| k + 1));
    chain
}

/// Whether a number is at least one.
fn is_positive(f: &Function, v: Value) -> bool {
    let positive = |v: &Value| (f.constant(*v).and_then(Imm::as_int)).is_some_and(|n| n >= 1);
    if positive(&v) {
        return true;
    }
    let Some(def) = f.def(v) else {
        return false;
    };
    let data = &f.insts[def];
    data.op == Op::Binary(BinOp::Max) && data.args.iter().any(positive)
}

impl FunctionGen<'_, '_, '_> {
    /// The digits of the first index of a thread, before its loop.
    pub(super) fn first_digits(
        &self,
        inst: Inst,
        first: Val,
        (step, multiple): (Val, u32),
    ) -> Result<Vec<Digit>> {
        let data = &self.f.insts[inst];
        let body = data.regions[0];
        let mut digits: Vec<Digit> = Vec::new();
        // Numbers of iterations are not negative, other indices may be.
        if !self.f.params().contains(&data.args[0]) {
            return Ok(digits);
        }
        let (mut first, mut step) = (first, step);
        let mut multiple = i128::from(multiple);
        for divisions in chain(self.f, body) {
            let constant = self.f.constant(divisions.by).and_then(Imm::as_int);
            let by = match constant.and_then(|n| i64::try_from(n).ok()) {
                Some(n) => self.unit.emit.const_i64(n),
                None => self.get(divisions.by)?,
            };
            let e = &self.unit.emit;
            let quotient = |v: Val| e.binary(LLVMOpcode::LLVMUDiv, v, by);
            let remainder = |v: Val| e.binary(LLVMOpcode::LLVMURem, v, by);
            let whole = constant.filter(|n| multiple % n == 0);
            multiple = whole.map_or(1, |n| multiple / n);
            let digit = Digit {
                by,
                quotient: quotient(first),
                remainder: remainder(first),
                quotient_step: quotient(step),
                remainder_step: whole.is_none().then(|| remainder(step)),
                divisions,
            };
            (first, step) = (digit.quotient, digit.quotient_step);
            digits.push(digit);
        }
        Ok(digits)
    }

    /// The digits as values of the loop whose header begins here.
    pub(super) fn enter_digits(&mut self, digits: Vec<Digit>, from: Block) -> Vec<Digit> {
        let mut entered = Vec::new();
        for digit in digits {
            let e = &self.unit.emit;
            let phi = |v: Val| {
                let phi = e.phi(e.i64_ty());
                e.add_incoming(phi, v, from);
                phi
            };
            let quotient = phi(digit.quotient);
            let remainder = match digit.remainder_step {
                Some(_) => phi(digit.remainder),
                None => digit.remainder,
            };
            for (insts, value) in [
                (&digit.divisions.quotients, quotient),
                (&digit.divisions.remainders, remainder),
            ] {
                for inst in insts {
                    self.advanced.insert(*inst);
                    self.set(self.f.result(*inst), value);
                }
            }
            entered.push(Digit {
                quotient,
                remainder,
                ..digit
            });
        }
        entered
    }

    /// The digits of the next index: what overflows one is carried to the next.
    pub(super) fn advance_digits(&self, digits: &[Digit], latch: Block) {
        let e = &self.unit.emit;
        let mut carry = e.const_i64(0);
        for digit in digits {
            let Some(step) = digit.remainder_step else {
                let quotient = e.add(digit.quotient, digit.quotient_step);
                e.add_incoming(digit.quotient, quotient, latch);
                continue;
            };
            let sum = e.add(e.add(digit.remainder, step), carry);
            let over = e.icmp(LLVMIntUGE, sum, digit.by);
            let remainder = e.select(over, e.sub(sum, digit.by), sum);
            carry = e.cast(LLVMOpcode::LLVMZExt, over, e.i64_ty());
            let quotient = e.add(e.add(digit.quotient, digit.quotient_step), carry);
            e.add_incoming(digit.quotient, quotient, latch);
            e.add_incoming(digit.remainder, remainder, latch);
        }
    }
}
