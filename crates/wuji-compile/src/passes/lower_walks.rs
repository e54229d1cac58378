//! Steps of walks down a tree become loads, stores and calls; tasks that lose cells are followed by a
//! collection.

use crate::nodes::{Services, UPKEEP, Upkeep, collect, expand, rebuild};
use crate::passes::Cx;
use crate::rewrite::Substitution;
use cranelift_entity::EntitySet;
use wuji_ir::Result;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Func, Inst, Tree};
use wuji_ir::layout::NodeKind;
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::I64;

pub fn lower_walks(m: &mut Module, cx: &mut Cx) -> Result<()> {
    if m.trees.values().all(|t| !t.is_sparse()) {
        return Ok(());
    }
    let mut services = Services::new(m, cx.options.target)?;
    add_upkeep(m, &mut services);
    let funcs: Vec<Func> = m.funcs.keys().collect();
    for func in funcs {
        let mut f = m.take_func(func);
        let mut subst = Substitution::new();
        for region in f.walk_regions() {
            let has = |i: &Inst| matches!(f.insts[*i].op, Op::Walk(..));
            if !f.regions[region].insts.iter().any(has) {
                continue;
            }
            let insts = std::mem::take(&mut f.regions[region].insts);
            let mut b = Builder::new(m, &mut f);
            b.region = region;
            for inst in insts {
                let Op::Walk(op, tree, node) = b.func.insts[inst].op else {
                    b.func.regions[region].insts.push(inst);
                    continue;
                };
                b.span = b.func.spans[inst];
                let mut args = b.func.insts[inst].args.clone();
                for a in &mut args {
                    *a = subst.get(*a);
                }
                let values = expand(&mut services, &mut b, (op, tree, node), &args);
                let results = b.func.insts[inst].results.clone();
                for (old, new) in results.iter().zip(values) {
                    subst.set(*old, new);
                }
            }
        }
        subst.apply(&mut f);
        m.funcs[func] = f;
    }
    Ok(())
}

/// Trees that a function, or one that it calls, does something to.
fn trees_with(m: &Module, func: Func, wanted: impl Fn(WalkOp, Tree) -> bool) -> EntitySet<Tree> {
    let mut found = EntitySet::new();
    let mut seen = EntitySet::new();
    let mut work = vec![func];
    while let Some(id) = work.pop() {
        if !seen.insert(id) {
            continue;
        }
        let f = &m.funcs[id];
        f.walk(|inst| match f.insts[inst].op {
            Op::Walk(op, tree, _) if wanted(op, tree) => {
                found.insert(tree);
            }
            Op::Call(g) => work.push(g),
            _ => {}
        });
    }
    found
}

/// Puts collections behind tasks that deactivate cells, and brings hash tables in order before tasks
/// that may add to them.
fn add_upkeep(m: &mut Module, services: &mut Services) {
    let hashed = |m: &Module, tree: Tree| {
        let mut nodes = m.trees[tree].nodes.values();
        nodes.any(|n| n.kind == NodeKind::Hash)
    };
    let tasks = std::mem::take(&mut m.tasks);
    let mut out = Vec::new();
    for task in tasks {
        let grown = trees_with(m, task.func, |op, tree| {
            op == WalkOp::Ensure && hashed(m, tree)
        });
        let lost = trees_with(m, task.func, |op, _| op == WalkOp::Drop);
        let like = task.clone();
        for tree in m
            .trees
            .keys()
            .filter(|t| grown.contains(*t))
            .collect::<Vec<_>>()
        {
            for step in rebuild(services, m, tree) {
                out.push(upkeep(m, services, step, ("rebuild", tree), &like));
            }
        }
        out.push(task);
        for tree in m
            .trees
            .keys()
            .filter(|t| lost.contains(*t))
            .collect::<Vec<_>>()
        {
            for step in collect(services, m, tree) {
                out.push(upkeep(m, services, step, ("collect", tree), &like));
            }
        }
    }
    m.tasks = out;
}

/// Threads of the block that brings a table in order.
const BLOCK: u32 = 1024;

/// A task for a step of the upkeep of a tree.
fn upkeep(
    m: &mut Module,
    services: &mut Services,
    step: Upkeep,
    (what, tree): (&str, Tree),
    like: &Task,
) -> Task {
    let mut types: Vec<_> = m.params.iter().map(|p| p.ty).collect();
    let range = types.len();
    let name = format!("{}.{what}.{tree}", m.name);
    let shared = |hi: Bound, hints: LoopHints| TaskKind::Chunks {
        dims: vec![RangeDim {
            lo: Bound::Const(0),
            hi,
        }],
        unit: 1,
        hints,
    };
    let kind = match &step {
        Upkeep::Alone(_) => TaskKind::Serial,
        Upkeep::Shared(_, count) => shared(Bound::Temp(*count), LoopHints::default()),
        Upkeep::Block(_) => {
            let hints = LoopHints {
                blocks: true,
                block_size: Some(BLOCK),
                ..LoopHints::default()
            };
            shared(Bound::Const(1), hints)
        }
    };
    if kind != TaskKind::Serial {
        types.extend([I64, I64]);
    }
    let mut f = Function::new(name.clone(), &types, &[]);
    let args = f.params()[range..].to_vec();
    let mut b = Builder::new(m, &mut f);
    match step {
        Upkeep::Alone(funcs) => {
            for func in funcs {
                b.push(Op::Call(func), &args);
            }
        }
        Upkeep::Shared(func, _) => {
            b.push(Op::Call(func), &args);
        }
        Upkeep::Block(tables) => {
            // A table that is half rebuilt would be lost.
            b.func.traits.uninterrupted = true;
            let whole = (args[0], args[1], b.i64(1));
            b.for_range(ForKind::Parallel, whole, &[], |b, _, _, _| {
                services.rebuild_by_block(b, tree, tables);
                Values::new()
            });
        }
    }
    b.end(Term::Return(Values::new()));
    Task {
        name,
        kind,
        func: m.funcs.push(f),
        ordinal: UPKEEP,
        lists: None,
        copies: Copies::None,
        span: like.span,
    }
}
