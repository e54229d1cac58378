//! Lowers tree accesses to loads, stores and calls; adds a garbage collection after tasks that deactivate cells.

use crate::nodes::{Services, UPKEEP, Upkeep, collect, expand, rebuild};
use crate::passes::Cx;
use crate::rewrite::Substitution;
use cranelift_entity::EntitySet;
use wuji_ir::Result;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Func, Inst, Tree};
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::I64;

/// The pass; the [module](self) describes it.
pub fn lower_tree_access(m: &mut Module, cx: &mut Cx) -> Result<()> {
    if m.trees.values().all(|t| !t.is_sparse()) {
        return Ok(());
    }
    let mut services = Services::new(m, cx.options.target)?;
    add_upkeep(m, &mut services);
    m.add_defined();
    for f in m.funcs.values_mut() {
        let mut subst = Substitution::new();
        for region in f.walk_regions() {
            let has = |i: &Inst| matches!(f.insts[*i].op, Op::TreeAccess(..));
            if !f.regions[region].insts.iter().any(has) {
                continue;
            }
            let insts = std::mem::take(&mut f.regions[region].insts);
            let mut b = Builder::new(&mut m.env, f);
            b.region = region;
            for inst in insts {
                let Op::TreeAccess(op, tree, node) = b.func.insts[inst].op else {
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
        subst.apply(f);
    }
    m.add_defined();
    Ok(())
}

/// Trees that a function or its callees access in a certain way.
fn trees_with(
    m: &Module,
    func: Func,
    wanted: impl Fn(TreeAccessOp, Tree) -> bool,
) -> EntitySet<Tree> {
    let mut found = EntitySet::new();
    for id in m.reachable([func]) {
        let f = &m.funcs[id];
        f.walk(|inst| {
            let op = &f.insts[inst].op;
            if let Op::TreeAccess(op, tree, _) = *op
                && wanted(op, tree)
            {
                found.insert(tree);
            }
        });
    }
    found
}

/// Adds collections after tasks that deactivate cells, and rebuilds of hash tables before tasks that may activate
/// cells.
fn add_upkeep(m: &mut Module, services: &mut Services) {
    let hashed = |m: &Module, tree: Tree| {
        let mut nodes = m.trees[tree].nodes.values();
        nodes.any(|n| n.kind.is_hashed())
    };
    let tasks = std::mem::take(&mut m.tasks);
    let mut out = Vec::new();
    for task in tasks {
        let grown = trees_with(m, task.func, |op, tree| {
            op == TreeAccessOp::Ensure && hashed(m, tree)
        });
        let lost = trees_with(m, task.func, |op, _| op == TreeAccessOp::Drop);
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

/// Threads of the block that rebuilds a table.
const BLOCK: u32 = 1024;

/// A task for one step of the upkeep of a tree.
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
        dims: vec![RangeDim::new(Bound::Const(0), hi)],
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
            // An interruption would leave a table half rebuilt.
            b.func.traits.uninterrupted = true;
            b.func.traits.ordered = true;
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
        func: m.add_func(f),
        ordinal: UPKEEP,
        lists: None,
        slices: Vec::new(),
        copies: Copies::None,
        flow: like.flow.beside(),
        span: like.span,
    }
}
