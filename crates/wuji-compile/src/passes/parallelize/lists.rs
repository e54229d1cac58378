//! The deactivation of a long list in the serial code of a kernel becomes a parallel loop over its chunks.

use super::apply::insert;
use crate::options::Target;
use crate::passes::Cx;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Field, Inst, Value};
use wuji_ir::infer::dynamic_index;
use wuji_ir::module::{Env, Function};
use wuji_ir::ops::*;

/// Chunks of a list that one thread frees in the time of a launch.
const SHORT: u64 = 8;

/// Only on GPUs, where a single thread is slow.
pub(super) fn deactivate_in_parallel(env: &mut Env, f: &mut Function, cx: &mut Cx) {
    if cx.options.target != Target::Cuda {
        return;
    }
    for inst in f.regions[f.entry].insts.clone() {
        if let Op::Cell(CellOp::Deactivate, field) = f.insts[inst].op
            && let Ok(along) = dynamic_index(env, field)
            && let (chunk, chunks) = chunks_of(env, field)
            && chunks > SHORT
            && is_inside(env, f, (field, along), f.insts[inst].args[along])
            && cx.fuel()
        {
            replace(env, f, inst, (field, along), (chunk, chunks));
        }
    }
}

/// The cells of a chunk, and the chunks of a list.
fn chunks_of(env: &Env, field: Field) -> (u64, u64) {
    let data = &env.fields[field];
    let node = &env.trees[data.tree].nodes[data.node];
    let chunk = node.kind.format().cells_per_allocation();
    (chunk, node.cells().div_ceil(chunk))
}

/// Whether an index along a list is known to be inside.
fn is_inside(env: &Env, f: &Function, (field, along): (Field, usize), index: Value) -> bool {
    let (lo, extent) = env.fields[field].domain(&env.trees)[along];
    let index = f.constant(index).and_then(|c| c.as_int());
    index.is_some_and(|i| (i128::from(lo)..i128::from(lo) + i128::from(extent)).contains(&i))
}

fn replace(
    env: &mut Env,
    f: &mut Function,
    inst: Inst,
    (field, along): (Field, usize),
    (chunk, chunks): (u64, u64),
) {
    let start = env.fields[field].axes[along].1;
    let indices: Vec<Value> = f.insts[inst].args.to_vec();
    let span = f.spans[inst];
    let aside = f.add_region(&[]);
    let mut b = Builder::new(env, f);
    (b.region, b.span) = (aside, span);
    let args = [b.i64(0), b.i64(chunks as i64)];
    let owner = b.foreach(Domain::Range { rank: 1 }, &args, 1, |b, at| {
        let (chunk, start) = (b.i64(chunk as i64), b.i64(start));
        let first = b.binary(BinOp::Mul, at[0], chunk);
        let mut at = indices;
        at[along] = b.binary(BinOp::Add, first, start);
        b.push(Op::Cell(CellOp::DeactivateChunk, field), &at);
    });
    // On a CPU there is no loop: the tasks of the kernel, and with them its random numbers, are the same.
    if let Op::ForEach(.., hints) = &mut b.func.insts[owner].op {
        hints.uncounted = true;
    }
    let new = std::mem::take(&mut f.regions[aside].insts);
    insert(f, inst, 0, new);
    let entry = f.entry;
    f.regions[entry].insts.retain(|i| *i != inst);
}
