//! Lists of the active cells of a node, made level by level: from the list of the sparse node above it,
//! through the dense nodes between.
//!
//! What an entry covers is the kind's `ListEntry`:
//!
//! | entry | offset | second word | coordinates |
//! |---|---|---|---|
//! | `Cell` | of the cell | 1 | of the cell |
//! | `MaskWord` | of the container | 64 bits of the mask | of the container |
//! | `Chunk` | of the allocation | cells in it | of the container; number of the chunk |
//!
//! The third word is the number of the first cell in its container. On a CPU, a unit of work reads a fixed number of
//! pointers or words, counts active cells, claims as many entries at once, and fills them; so work is balanced even
//! if all active cells are in one part of the tree. On a GPU, a thread reads one, and the threads of a warp claim their entries
//! together.

mod scan;

pub(crate) use scan::{Entry, Scan, Visit};

use super::kinds::level_functions;
use super::level::ScanSource;
use super::words::*;
use super::{Services, UPKEEP};
use crate::options::Target;
use rustc_hash::FxHashMap;
use wuji_ir::Result;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Node, Temp, Tree};
use wuji_ir::layout::header;
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{I64, Type};

/// Pointers, or words of masks, that one unit of work reads, on a CPU and on a GPU.
const BLOCK: u64 = 1024;
const GPU_BLOCK: u64 = 1;

/// Options for making lists.
#[derive(Copy, Clone, Debug)]
pub struct ListOptions {
    /// Reuse a list until cells are activated or deactivated; else it is made every time.
    pub reuse: bool,
    /// What the code is for.
    pub target: Target,
}

/// Tasks that bring the lists of all sparse nodes down to `node` up to date.
///
/// On a CPU the host decides which lists are out of date. On a GPU the host would have to synchronize for that, so a
/// separate task decides, and stores in a temp for each list whether it has to be made.
pub fn tasks(
    m: &mut Module,
    tree: Tree,
    node: Node,
    like: &Task,
    options: ListOptions,
) -> Result<Vec<Task>> {
    let path = listed_path(m, tree, node);
    let mut out = Vec::new();
    for n in &path {
        if !options.reuse {
            out.push(outdate(m, tree, *n, like)?);
        }
    }
    let wanted = match options.target {
        Target::Cpu => vec![None; path.len()],
        Target::Cuda => {
            let mut new = || m.temps.push(TempData { ty: I64 });
            let temps: Vec<Temp> = path.iter().map(|_| new()).collect();
            out.push(stamps(m, tree, &path, &temps, like)?);
            temps.into_iter().map(Some).collect()
        }
    };
    let mut above = None;
    for (n, wanted) in path.into_iter().zip(wanted) {
        out.extend(list_task(m, tree, n, above, wanted, like)?);
        above = Some(n);
    }
    Ok(out)
}

/// The sparse nodes down to `node` whose lists are needed: none above the last node whose cells are found in its arena.
fn listed_path(m: &Module, tree: Tree, node: Node) -> Vec<Node> {
    let data = &m.trees[tree];
    let mut path = data.sparse_path(node);
    let in_arena = |n: &Node| {
        let data = &data.nodes[*n];
        level_functions(data.kind).scan_source(data) == ScanSource::Arena
    };
    let first = path.iter().rposition(in_arena).unwrap_or(0);
    path.split_off(first)
}

/// An upkeep task of one thread.
fn serial_task(m: &mut Module, name: String, like: &Task, fill: impl FnOnce(&mut Builder)) -> Task {
    let types: Vec<Type> = m.params.iter().map(|p| p.ty).collect();
    let mut f = Function::new(name.clone(), &types, &[]);
    let mut b = Builder::new(m, &mut f);
    fill(&mut b);
    b.end(Term::Return(Values::new()));
    Task {
        name,
        kind: TaskKind::Serial,
        func: m.add_func(f),
        ordinal: UPKEEP,
        lists: None,
        slices: Vec::new(),
        copies: Copies::None,
        flow: like.flow.beside(),
        span: like.span,
    }
}

/// Counts changes, and stores 1 in the temps of lists that are out of date, else 0. Such a list is emptied, and gets the
/// stamp of the list that will be made.
fn stamps(m: &mut Module, tree: Tree, path: &[Node], temps: &[Temp], like: &Task) -> Result<Task> {
    let s = Services::new(m, Target::Cuda)?;
    let name = format!("{}.stamps.{tree}", m.name);
    let headers: Vec<u64> = s.memory[tree]
        .nodes
        .values()
        .flatten()
        .map(|n| n.header)
        .collect();
    Ok(serial_task(m, name, like, |b| {
        let (zero, one) = (b.i64(0), b.i64(1));
        // All loads come first, and nothing branches: one thread waits for memory once.
        let found: Vec<_> = headers
            .iter()
            .map(|at| {
                let changed = load_at(b, tree, at + header::CHANGED);
                (*at, changed, load_at(b, tree, at + header::VERSION))
            })
            .collect();
        let lists: Vec<_> = path
            .iter()
            .map(|node| {
                let own = s.node(tree, *node).header;
                let stamp = load_at(b, tree, own + header::STAMP);
                (own, stamp, load_at(b, tree, own + header::LISTED))
            })
            .collect();
        let mut versions = FxHashMap::default();
        for (at, changed, version) in found {
            let changed = not_zero(b, changed);
            let more = b.select(changed, one, zero);
            let version = b.binary(BinOp::Add, version, more);
            store_at(b, tree, at + header::CHANGED, zero);
            store_at(b, tree, at + header::VERSION, version);
            versions.insert(at, version);
        }
        let mut stamp = one;
        for ((own, last, listed), temp) in lists.into_iter().zip(temps) {
            stamp = b.binary(BinOp::Add, stamp, versions[&own]);
            let old = b.compare(CmpOp::Ne, last, stamp);
            let listed = b.select(old, zero, listed);
            store_at(b, tree, own + header::LISTED, listed);
            store_at(b, tree, own + header::STAMP, stamp);
            let wanted = b.select(old, one, zero);
            b.store(Place::Temp(*temp), &[], wanted);
        }
    }))
}

/// Marks a list as out of date.
fn outdate(m: &mut Module, tree: Tree, node: Node, like: &Task) -> Result<Task> {
    let at = Services::new(m, Target::Cpu)?.node(tree, node).header + header::CHANGED;
    let name = format!("{}.outdate.{tree}.{node}", m.name);
    Ok(serial_task(m, name, like, |b| {
        let one = b.i64(1);
        store_at(b, tree, at, one);
    }))
}

fn list_task(
    m: &mut Module,
    tree: Tree,
    node: Node,
    above: Option<Node>,
    wanted: Option<Temp>,
    like: &Task,
) -> Result<Vec<Task>> {
    let (target, block) = match wanted {
        None => (Target::Cpu, BLOCK),
        Some(_) => (Target::Cuda, GPU_BLOCK),
    };
    let services = Services::new(m, target)?;
    let name = format!("{}.list.{tree}.{node}", m.name);
    let mut out = Vec::new();
    let scan = Scan::new(m, services, (tree, node), above, block);
    let mut dims = Vec::new();
    if let Some(wanted) = wanted {
        dims.push(RangeDim::new(Bound::Const(0), Bound::Temp(wanted)));
    }
    if scan.source() == ScanSource::Arena {
        // The number of cells ever allocated is known only now.
        let temp = m.temps.push(TempData { ty: I64 });
        out.push(serial_task(m, format!("{name}.size"), like, |b| {
            let cells = scan.services().ever_taken(b, tree, node);
            let cells = plus(b, cells, block as i64 - 1);
            let (blocks, _) = divide(b, cells, block);
            b.store(Place::Temp(temp), &[], blocks);
        }));
        dims.push(RangeDim::new(Bound::Const(0), Bound::Temp(temp)));
    } else {
        let blocks = scan.slots().div_ceil(block);
        if let Some(above) = above {
            dims.push(RangeDim::new(Bound::Const(0), Bound::List(tree, above)));
        }
        dims.push(RangeDim::new(Bound::Const(0), Bound::Const(blocks as i64)));
    }
    let f = list_function(m, &scan, name.clone(), target);
    out.push(Task {
        slices: Vec::new(),
        name,
        kind: TaskKind::Chunks {
            dims,
            unit: block,
            hints: LoopHints::default(),
        },
        func: m.add_func(f),
        ordinal: UPKEEP,
        lists: wanted.is_none().then_some((tree, node)),
        copies: Copies::None,
        flow: like.flow.beside(),
        span: like.span,
    });
    Ok(out)
}

/// `(begin, end)`: adds the active cells of these units to the list.
fn list_function(m: &mut Module, scan: &Scan, name: String, target: Target) -> Function {
    let (tree, node) = scan.at();
    let mut types: Vec<Type> = m.params.iter().map(|p| p.ty).collect();
    let params = types.len();
    types.extend([I64, I64]);
    let mut f = Function::new(name, &types, &[]);
    let range = f.params()[params..].to_vec();
    let mut b = Builder::new(m, &mut f);
    let one = b.i64(1);
    b.for_range(
        ForKind::Boundary,
        (range[0], range[1], one),
        &[],
        |b, _, unit, _| {
            let zero = b.i64(0);
            if target == Target::Cuda {
                scan.unit(b, unit, (zero, Visit::Claim));
                return Values::new();
            }
            let count = scan.unit(b, unit, (zero, Visit::Count));
            let listed = scan.services().node(tree, node).header + header::LISTED;
            let at = add_at(b, tree, listed, count);
            let some = not_zero(b, count);
            when(b, some, |b| {
                scan.unit(b, unit, (at, Visit::Write));
            });
            Values::new()
        },
    );
    b.end(Term::Return(Values::new()));
    f
}
