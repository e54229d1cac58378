//! Products that are fused into several sums.
//!
//! LLVM fuses `a * b + c` only if the product has no other use. If all uses of a product are sums, it can be
//! fused into each of them, and the multiplication disappears.

use std::collections::{HashMap, HashSet};
use wuji_ir::entities::{Inst, Value};
use wuji_ir::module::Function;
use wuji_ir::ops::{BinOp, Op};

/// Float multiplications with several uses, all of them sums or differences.
pub(super) fn products(f: &Function) -> HashSet<Inst> {
    let mut uses: HashMap<Value, (usize, usize)> = HashMap::new();
    for region in f.walk_regions() {
        for inst in &f.regions[region].insts {
            let data = &f.insts[*inst];
            let sum = matches!(data.op, Op::Binary(BinOp::Add | BinOp::Sub));
            // A product that is squared is a value of its own.
            let twice = data.args.len() == 2 && data.args[0] == data.args[1];
            for a in &data.args {
                let entry = uses.entry(*a).or_default();
                entry.0 += 1;
                entry.1 += usize::from(sum && !twice);
            }
        }
        for a in f.regions[region].term.args() {
            uses.entry(*a).or_default().0 += 1;
        }
    }
    uses.into_iter()
        .filter(|(_, (all, sums))| *all > 1 && all == sums)
        .filter_map(|(v, _)| f.def(v))
        .filter(|inst| {
            let data = &f.insts[*inst];
            data.op == Op::Binary(BinOp::Mul)
                && f.ty(data.results[0]).elem().is_some_and(|s| s.is_float())
        })
        .collect()
}
