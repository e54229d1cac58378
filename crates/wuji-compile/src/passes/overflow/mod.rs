//! In debug mode, checks that the arithmetic behind an index does not wrap, and that quantized types can store what they are given.
//!
//! Integers wrap by definition. An index that has wrapped is the one place where that is hardly ever meant: it names another element, or
//! one that seems to be outside. The check stands at the access, not at the arithmetic, which may be done for iterations that
//! guard the access. Unsigned arithmetic is left alone: `i - 1` at 0 is outside, and outside is zero.
//!
//! A loop over single bits is not handled a word at a time while its stores are checked.

mod stores;

use crate::passes::Cx;
use crate::rewrite::expand_dynamic_components;
use stores::Checks;
use wuji_ir::Result;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Inst, Message, Region, Value};
use wuji_ir::format::Format;
use wuji_ir::module::{Env, Function, MessageData, Module, Piece};
use wuji_ir::ops::{BinOp, CmpOp, Op, Place};
use wuji_ir::types::{Scalar, Type};

/// Steps of arithmetic behind one index that are looked at.
const MOST_STEPS: usize = 16;

/// The pass; the [module](self) describes it.
pub fn overflow(m: &mut Module, cx: &mut Cx) -> Result<()> {
    if cx.options.debug {
        for f in m.funcs.values_mut() {
            for region in f.walk_regions() {
                check_region(&mut m.env, f, region);
            }
        }
    }
    let checks = Checks {
        range: cx.options.debug,
        precision: cx.options.precision,
    };
    if checks == Checks::default() || m.fields.values().all(|f| f.packing.is_none()) {
        return Ok(());
    }
    for f in m.funcs.values_mut() {
        expand_dynamic_components(&mut m.env, f, |data| data.packing.is_some());
        for region in f.walk_regions() {
            checks.region(&mut m.env, f, region);
        }
    }
    Ok(())
}

fn check_region(m: &mut Env, f: &mut Function, region: Region) {
    let insts = std::mem::take(&mut f.regions[region].insts);
    for inst in insts {
        for step in arithmetic(m, f, inst) {
            let mut b = Builder::new(m, f);
            b.region = region;
            b.span = b.func.spans[inst];
            check(&mut b, step);
        }
        f.regions[region].insts.push(inst);
    }
}

/// One step of signed arithmetic.
#[derive(Copy, Clone, PartialEq)]
struct Step {
    op: BinOp,
    scalar: Scalar,
    a: Value,
    b: Value,
    result: Value,
}

/// The arithmetic behind the indices of an instruction, the nearest first.
fn arithmetic(m: &Env, f: &Function, inst: Inst) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut work: Vec<Value> = indices(m, f, inst).to_vec();
    while let Some(value) = work.pop() {
        let Some(def) = f.def(value).map(|i| &f.insts[i]) else {
            continue;
        };
        if let (Op::Convert(_), [a]) = (&def.op, &def.args[..]) {
            work.push(*a);
        }
        let Op::Binary(op @ (BinOp::Add | BinOp::Sub | BinOp::Mul)) = def.op else {
            continue;
        };
        if let ([a, b], Type::Scalar(s)) = (&def.args[..], f.ty(value))
            && s.is_signed_int()
        {
            let step = Step {
                op,
                scalar: s,
                a: *a,
                b: *b,
                result: value,
            };
            if steps.len() < MOST_STEPS && !steps.contains(&step) {
                steps.push(step);
                work.extend([*a, *b]);
            }
        }
    }
    steps
}

/// What an instruction finds an element of a field or an array by.
fn indices<'f>(m: &Env, f: &'f Function, inst: Inst) -> &'f [Value] {
    let data = &f.insts[inst];
    let Some(access) = data.op.access() else {
        return &[];
    };
    let rank = match access.place {
        Place::Field(field) => m.fields[field].rank(),
        Place::Array(array) => usize::from(m.arrays[array].rank),
        // Those have a check of their own.
        Place::Local(_) | Place::Temp(_) => 0,
    };
    &data.args[..rank.min(data.args.len())]
}

fn check(b: &mut Builder<'_>, step: Step) {
    let fits = match step.scalar.bytes() {
        8 => fits_64(b, step),
        _ => {
            let [x, y, r] = [step.a, step.b, step.result].map(|v| b.convert(v, Scalar::I64));
            let exact = b.binary(step.op, x, y);
            b.compare(CmpOp::Eq, exact, r)
        }
    };
    let message = message(b.env, step);
    b.push(Op::Assert(message), &[fits, step.a, step.b]);
}

/// Whether 64 bits held the result.
fn fits_64(
    b: &mut Builder<'_>,
    Step {
        op,
        a,
        b: c,
        result,
        ..
    }: Step,
) -> Value {
    let zero = b.i64(0);
    let negative = |b: &mut Builder<'_>, v: Value| b.compare(CmpOp::Lt, v, zero);
    if op == BinOp::Mul {
        // The quotient restores the factor, except for -1 and MIN.
        let back = b.binary(BinOp::Div, result, c);
        let same = b.compare(CmpOp::Eq, back, a);
        let nothing = b.compare(CmpOp::Eq, c, zero);
        let minus = b.i64(-1);
        let flips = b.compare(CmpOp::Eq, c, minus);
        let least = b.i64(i64::MIN);
        let is_least = b.compare(CmpOp::Eq, a, least);
        let hidden = b.binary(BinOp::And, flips, is_least);
        let shown = b.unary(wuji_ir::ops::UnOp::Not, hidden);
        let same = b.binary(BinOp::Or, same, nothing);
        return b.binary(BinOp::And, same, shown);
    }
    // A sum has wrapped when its sign is that of neither part.
    let c = if op == BinOp::Sub {
        b.unary(wuji_ir::ops::UnOp::Not, c)
    } else {
        c
    };
    let (x, y) = (
        b.binary(BinOp::Xor, a, result),
        b.binary(BinOp::Xor, c, result),
    );
    let both = b.binary(BinOp::And, x, y);
    let wrapped = negative(b, both);
    b.unary(wuji_ir::ops::UnOp::Not, wrapped)
}

fn message(m: &mut Env, step: Step) -> Message {
    let sign = if step.op == BinOp::Sub {
        "-"
    } else if step.op == BinOp::Mul {
        "*"
    } else {
        "+"
    };
    let hole = Piece::Hole {
        ty: Type::Scalar(step.scalar),
        format: Format::default(),
    };
    let text = |t: String| Piece::Text(t);
    let pieces = vec![
        text("an index overflows: ".into()),
        hole.clone(),
        text(format!(" {sign} ")),
        hole,
        text(format!(" does not fit `{}`", step.scalar)),
    ];
    known_message(m, pieces)
}

/// The message with these pieces.
fn known_message(m: &mut Env, pieces: Vec<Piece>) -> Message {
    let data = MessageData { pieces };
    match m.messages.iter().find(|(_, known)| **known == data) {
        Some((known, _)) => known,
        None => m.messages.push(data),
    }
}
