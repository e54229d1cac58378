//! Level functions: the operations of tree nodes, emitted as IR for one node of one tree.
//!
//! | file | contents |
//! |---|---|
//! | `level` | [`LevelFunctions`](level::LevelFunctions), the interface of a node kind |
//! | `kinds/` | one file per node kind |
//! | `expand` | tree accesses become code: inline, or calls of one function per node |
//! | `slots` | pointers to allocated cells, in pointer and dynamic nodes |
//! | `memory` | allocating and freeing cells |
//! | `collect` | recycling deactivated cells, between tasks |
//! | `lists/` | lists of active cells, for loops |
//! | `cell_order` | the numbering of cells in a container |
//! | `words` | shorthands for words at byte offsets |
//!
//! Recycled cells are allocated first, then fresh ones, from the first on. On a CPU both come through shards, each with a
//! cache line of its own, that claim many at a time, and recycled cells are a queue. On a GPU warps add to two counters, and
//! recycled cells are a stack. Deactivated cells wait in a list, which a collection between tasks recycles; so nothing is
//! pushed while something else is popped, and a cell that one iteration deactivates stays readable for all others until the
//! task ends. Only cells that lost a race to be activated are freed at once, to a stack whose top carries a counter against
//! ABA.

mod cell_order;
mod collect;
mod expand;
mod kinds;
pub(crate) mod level;
pub mod lists;
mod memory;
mod slots;
pub(crate) mod words;

pub use cell_order::{digits, morton_bits};
pub use collect::{Tables, Upkeep, collect};
pub use expand::expand;
pub(crate) use kinds::level_functions;
pub use kinds::rebuild;

use crate::options::Target;
use cranelift_entity::PrimaryMap;
use rustc_hash::FxHashMap;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Func, Node, Temp, Tree, Value};
use wuji_ir::layout::{Child, NodeMemory, TreeMemory};
use wuji_ir::module::{Env, Function, Term};
use wuji_ir::types::{I64, Type};
use wuji_ir::{Error, Result};

/// Ordinal of upkeep tasks; they draw no random numbers and fail no assertions.
pub const UPKEEP: u32 = u32::MAX;

/// The layouts of all trees of a module.
pub fn memories(m: &Env) -> Result<PrimaryMap<Tree, TreeMemory>> {
    let mut out = PrimaryMap::new();
    for (id, tree) in m.trees.iter() {
        let memory = TreeMemory::of(tree, &m.fields, &m.structs).ok_or_else(|| {
            Error::new(
                "W0106",
                format!("the layout tree {id} is larger than 2^62 bytes"),
            )
        })?;
        out.push(memory);
    }
    Ok(out)
}

/// A function of a node.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
enum Service {
    Allocate,
    /// Claims the next number of a run of any shard of a tree, identified by its root.
    Claim,
    /// Allocates what other shards have claimed.
    Rest,
    FreeUnused,
    Retire,
    Ensure,
    Touch,
    Drop,
    Push,
    Find,
    /// Rebuilds the tables of a hash node.
    Rebuild,
    /// The first steps of a collection of a node whose cells outlive their container: counts cells, and deactivates some.
    SweepSize,
    Sweep,
    /// Deactivates everything below a cell of the node.
    Empty,
    /// Like `Empty`, for all cells of one allocation.
    EmptyAll,
    /// Like `EmptyAll`, for some of the cells that await collection.
    EmptyPending,
    /// The first step of a collection: puts all deactivated cells into one list.
    Gather,
    /// The last step.
    Recycle,
    /// On a GPU the last step has three parts: drop what was popped from the stack, push cells in parallel, empty the list.
    OpenStack,
    RecycleSome,
    CloseStack,
    /// For a whole tree, identified by its root.
    RebuildAll,
}

impl Service {
    /// Whether it accesses words that are stored before another word says that they are there: the coordinates of hashed
    /// cells, and the stack of hashed cells that were freed unused. Cells themselves are cleared between tasks.
    fn is_ordered(self, hashed: bool) -> bool {
        match self {
            // Its loop waits for another thread.
            Service::Ensure => true,
            Service::Allocate
            | Service::FreeUnused
            | Service::Touch
            | Service::Find
            | Service::Drop
            | Service::Rebuild
            | Service::RebuildAll => hashed,
            Service::Claim
            | Service::Rest
            | Service::Retire
            | Service::Push
            | Service::SweepSize
            | Service::Sweep
            | Service::Empty
            | Service::EmptyAll
            | Service::EmptyPending
            | Service::Gather
            | Service::Recycle
            | Service::OpenStack
            | Service::RecycleSome
            | Service::CloseStack => false,
        }
    }
}

/// Makes the functions that a module needs, each once.
#[derive(Debug)]
pub struct Services {
    target: Target,
    memory: PrimaryMap<Tree, TreeMemory>,
    made: FxHashMap<(Service, Tree, Node), Func>,
    /// The number of cells that a step of a collection processes.
    temp: Option<Temp>,
}

impl Services {
    /// No function so far.
    pub fn new(m: &Env, target: Target) -> Result<Services> {
        Ok(Services {
            target,
            memory: memories(m)?,
            made: FxHashMap::default(),
            temp: None,
        })
    }

    /// The function for one node. `fill` emits its body and returns its results.
    fn function(
        &mut self,
        m: &mut Env,
        (service, tree, node): (Service, Tree, Node),
        (params, results): (usize, usize),
        fill: impl FnOnce(&mut Services, &mut Builder, &[Value]) -> Vec<Value>,
    ) -> Func {
        if let Some(func) = self.made.get(&(service, tree, node)) {
            return *func;
        }
        let (func, mut f) = self.signature(m, (service, tree, node), (params, results));
        let args: Vec<Value> = f.params().to_vec();
        let mut b = Builder::new(m, &mut f);
        let values = fill(self, &mut b, &args);
        b.end(Term::Return(values.into_iter().collect()));
        m.define(func, f);
        func
    }

    /// A function that is declared before its body: services call each other. Not generic: it is compiled once.
    fn signature(
        &mut self,
        m: &mut Env,
        (service, tree, node): (Service, Tree, Node),
        (params, results): (usize, usize),
    ) -> (Func, Function) {
        let name = format!("{service:?}.{tree}.{node}").to_lowercase();
        let (types, gives): (Vec<Type>, Vec<Type>) = (vec![I64; params], vec![I64; results]);
        let func = m.declare(&types, &gives);
        self.made.insert((service, tree, node), func);
        let mut f = Function::new(name, &types, &gives);
        // An interrupted function would leave a table half rebuilt, or lose a cell.
        f.traits.uninterrupted = true;
        // Otherwise every thread of a GPU would allocate a cell, and all but one would be freed.
        f.traits.once = service == Service::Ensure && self.target == Target::Cuda;
        let hashed = m.trees[tree].nodes[node].kind.is_hashed();
        f.traits.ordered = service.is_ordered(hashed) && self.target == Target::Cuda;
        // A list that has room is the common case; the rest is a call.
        f.traits.inline = service == Service::Push && self.target == Target::Cuda;
        (func, f)
    }

    fn node(&self, tree: Tree, node: Node) -> &NodeMemory {
        // The verifier has checked that tree accesses name sparse nodes.
        match self.memory[tree].node(node) {
            Some(n) => n,
            None => unreachable!("{tree}.{node} is not sparse"),
        }
    }

    /// Offset of the header of a tree; all bytes below it are zero.
    fn tree_header(&self, m: &Env, tree: Tree) -> u64 {
        self.memory[tree].tree_header(&m.trees[tree]).unwrap_or(0)
    }
}

/// Whether some node below this one allocates.
fn allocates_below(m: &Env, tree: Tree, node: Node) -> bool {
    m.trees[tree].nodes[node].children.iter().any(|c| match c {
        Child::Place(_) => false,
        Child::Node(n) => m.trees[tree].nodes[*n].kind.allocates() || allocates_below(m, tree, *n),
    })
}
