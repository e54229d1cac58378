//! On a GPU, which has 32-bit integer units: computes offsets into small trees, and index comparisons, in 32 bits.
//!
//! An offset lies inside its tree. If the tree is smaller than 2 GiB, an offset computed modulo 2^32 is exact, so
//! the sums and products of an offset are narrowed as well. The constant offset that a guard selects for an
//! out-of-range access is unaffected.

use crate::nodes::memories;
use crate::options::Target;
use crate::passes::Cx;
use cranelift_entity::packed_option::PackedOption;
use cranelift_entity::{EntitySet, SecondaryMap};
use wuji_ir::Result;
use wuji_ir::entities::{Func, Inst, Tree, Value};
use wuji_ir::module::{Function, Module, Span, ValueDef, Values};
use wuji_ir::ops::{BinOp, CmpOp, Op, Space};
use wuji_ir::types::{I32, I64, Imm, Scalar, Type};

/// The pass; the [module](self) describes it.
pub fn narrow_indices(m: &mut Module, cx: &mut Cx) -> Result<()> {
    if cx.options.target == Target::Cpu {
        return Ok(());
    }
    let memories = memories(m)?;
    let mut small = EntitySet::new();
    for (tree, memory) in memories.iter() {
        if memory.has_short_offsets() {
            small.insert(tree);
        }
    }
    let funcs: Vec<Func> = m.funcs.keys().collect();
    for func in funcs {
        if cx.fuel() {
            let f = &mut m.funcs[func];
            compare_narrow(f);
            offsets(f, &small);
        }
    }
    Ok(())
}

fn offset_of(f: &Function, inst: Inst, small: &EntitySet<Tree>) -> Option<Value> {
    let data = &f.insts[inst];
    let tree = match data.op.space()? {
        Space::Tree(tree, _)
        | Space::Nodes(tree)
        | Space::Bytes(tree)
        | Space::Streamed(tree)
        | Space::Private(tree, _) => tree,
        Space::Array(_) | Space::Temps => return None,
    };
    let offset = data.args[0];
    (small.contains(tree) && f.ty(offset) == I64).then_some(offset)
}

/// The operands of a value that can be computed modulo 2^32; `None` if it needs all bits.
fn parts(f: &Function, value: Value) -> Option<Values> {
    let inst = f.def(value)?;
    let data = &f.insts[inst];
    if let Op::Const(_) = data.op {
        Some(Values::new())
    } else if let Op::Binary(BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::And) = data.op {
        Some(data.args.clone())
    } else {
        (data.op == Op::Select).then(|| data.args[1..].iter().copied().collect())
    }
}

/// The 32-bit value that was widened to this one, if there is one.
fn widened(f: &Function, value: Value) -> Option<Value> {
    let data = &f.insts[f.def(value)?];
    let Op::Convert(Scalar::I64) = data.op else {
        return None;
    };
    let from = data.args[0];
    let bits = f.ty(from).as_scalar();
    matches!(bits, Some(Scalar::I32 | Scalar::U32)).then_some(from)
}

fn offsets(f: &mut Function, small: &EntitySet<Tree>) {
    let mut wanted: EntitySet<Value> = EntitySet::new();
    let mut work = Vec::new();
    f.walk(|inst| work.extend(offset_of(f, inst, small)));
    while let Some(value) = work.pop() {
        if wanted.insert(value) {
            work.extend(parts(f, value).into_iter().flatten());
        }
    }
    if wanted.is_empty() {
        return;
    }
    let mut short: SecondaryMap<Value, PackedOption<Value>> = SecondaryMap::new();
    for region in f.walk_regions() {
        let old = std::mem::take(&mut f.regions[region].insts);
        let mut new = Vec::with_capacity(old.len());
        for value in f.regions[region].params.clone() {
            if wanted.contains(value) {
                let made = cut(f, value, Span::UNKNOWN);
                new.push(made);
                short[value] = f.result(made).into();
            }
        }
        for inst in old {
            if let Some(offset) = offset_of(f, inst, small)
                && let Some(narrow) = short[offset].expand()
            {
                let span = f.spans[inst];
                let args = [narrow].into_iter().collect();
                let wide = f.add_inst(Op::Convert(Scalar::I64), args, &[I64], span);
                new.push(wide);
                f.insts[inst].args[0] = f.result(wide);
            }
            new.push(inst);
            for value in f.insts[inst].results.clone() {
                if !wanted.contains(value) {
                    continue;
                }
                let span = f.spans[inst];
                let made = shortened(f, value, &short, span);
                new.push(made);
                short[value] = f.result(made).into();
            }
        }
        f.regions[region].insts = new;
    }
}

/// An instruction that computes a value in 32 bits.
fn shortened(
    f: &mut Function,
    value: Value,
    short: &SecondaryMap<Value, PackedOption<Value>>,
    span: Span,
) -> Inst {
    if let Some(from) = widened(f, value) {
        let op = match f.ty(from) {
            Type::Scalar(Scalar::U32) => Op::Bitcast(Scalar::I32),
            _ => Op::Unary(wuji_ir::ops::UnOp::Freeze),
        };
        return f.add_inst(op, [from].into_iter().collect(), &[I32], span);
    }
    let ValueDef::Result(inst, _) = f.values[value].def else {
        return cut(f, value, span);
    };
    let data = f.insts[inst].clone();
    let narrow = |v: &Value| short[*v].expand();
    let made = if let Op::Const(imm) = data.op {
        let low = Imm::from_bits(Scalar::I32, imm.bits() & 0xffff_ffff);
        Some((Op::Const(low), Values::new()))
    } else if let Op::Binary(BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::And) = data.op {
        let args: Option<Values> = data.args.iter().map(narrow).collect();
        args.map(|args| (data.op.clone(), args))
    } else if data.op == Op::Select {
        let sides: Option<Values> = data.args[1..].iter().map(narrow).collect();
        sides.map(|sides| {
            let mut args: Values = [data.args[0]].into_iter().collect();
            args.extend(sides);
            (Op::Select, args)
        })
    } else {
        None
    };
    match made {
        Some((op, args)) => f.add_inst(op, args, &[I32], span),
        None => cut(f, value, span),
    }
}

fn cut(f: &mut Function, value: Value, span: Span) -> Inst {
    let args = [value].into_iter().collect();
    f.add_inst(Op::Convert(Scalar::I32), args, &[I32], span)
}

/// `x < c` for a widened 32-bit `x` seen as unsigned, as every index compared with an extent is.
fn compare_narrow(f: &mut Function) {
    for region in f.walk_regions() {
        let old = std::mem::take(&mut f.regions[region].insts);
        let mut new = Vec::with_capacity(old.len());
        for inst in old {
            if let Some((from, limit)) = index_compare(f, inst) {
                let span = f.spans[inst];
                let u32_ty = Type::Scalar(Scalar::U32);
                let args = [from].into_iter().collect();
                let index = f.add_inst(Op::Bitcast(Scalar::U32), args, &[u32_ty], span);
                let limit = Imm::from_bits(Scalar::U32, limit);
                let limit = f.add_inst(Op::Const(limit), Values::new(), &[u32_ty], span);
                new.extend([index, limit]);
                f.insts[inst].args = [f.result(index), f.result(limit)].into_iter().collect();
            }
            new.push(inst);
        }
        f.regions[region].insts = new;
    }
}

fn index_compare(f: &Function, inst: Inst) -> Option<(Value, u64)> {
    let data = &f.insts[inst];
    if data.op != Op::Compare(CmpOp::Lt) {
        return None;
    }
    let limit = f.constant(data.args[1])?;
    if limit.ty != Scalar::U64 || limit.bits() > 1 << 31 {
        return None;
    }
    let cast = &f.insts[f.def(data.args[0])?];
    if cast.op != Op::Bitcast(Scalar::U64) {
        return None;
    }
    let from = widened(f, cast.args[0])?;
    (f.ty(from) == I32).then(|| (from, limit.bits()))
}
