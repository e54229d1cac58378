//! Splits small local arrays that are only indexed by constants into variables.

use cranelift_entity::SecondaryMap;
use wuji_ir::entities::*;
use wuji_ir::eval;
use wuji_ir::module::{Function, LocalData};
use wuji_ir::ops::{Op, Place};
use wuji_ir::types::Imm;

/// Longer arrays are not split.
const MAX_LEN: u32 = 64;

/// The depth of the expression of a constant index: nothing has been folded yet.
const MAX_DEPTH: u32 = 8;

pub(super) fn split_arrays(f: &mut Function) {
    let mut whole: SecondaryMap<Local, bool> = SecondaryMap::new();
    let mut uses: Vec<(Inst, Local, u32)> = Vec::new();
    f.walk(|inst| {
        let data = &f.insts[inst];
        let Some(Place::Local(local)) = data.op.access().map(|a| a.place) else {
            return;
        };
        let Some(len) = f.locals[local].len.filter(|_| !f.locals[local].shared) else {
            return;
        };
        let index = constant(f, data.args[0], MAX_DEPTH).and_then(Imm::as_int);
        match index.and_then(|i| u32::try_from(i).ok()) {
            Some(i) if i < len && len <= MAX_LEN => uses.push((inst, local, i)),
            _ => whole[local] = true,
        }
    });
    let mut variables: SecondaryMap<Local, Vec<Local>> = SecondaryMap::new();
    for local in f.locals.keys().collect::<Vec<_>>() {
        let LocalData {
            name,
            ty,
            len,
            shared,
            role,
        } = f.locals[local].clone();
        let Some(len) = len.filter(|_| !whole[local] && !shared) else {
            continue;
        };
        // The array itself is an unused variable from now on.
        f.locals[local].len = None;
        for k in 0..len.min(MAX_LEN) {
            let variable = f.locals.push(LocalData {
                name: format!("{name}.{k}"),
                ty,
                len: None,
                shared: false,
                role,
            });
            variables[local].push(variable);
        }
    }
    for (inst, local, k) in uses {
        if whole[local] {
            continue;
        }
        let data = &mut f.insts[inst];
        data.args.remove(0);
        if let Some(access) = data.op.access_mut() {
            access.place = Place::Local(variables[local][k as usize]);
        }
    }
}

/// The constant value of an expression.
fn constant(f: &Function, v: Value, depth: u32) -> Option<Imm> {
    let depth = depth.checked_sub(1)?;
    let data = &f.insts[f.def(v)?];
    if let Op::Const(imm) = data.op {
        return Some(imm);
    }
    if let Op::Convert(to) = data.op {
        return Some(eval::convert(constant(f, data.args[0], depth)?, to));
    }
    let Op::Binary(op) = data.op else {
        return None;
    };
    let a = constant(f, data.args[0], depth)?;
    eval::binary(op, a, constant(f, data.args[1], depth)?)
}
