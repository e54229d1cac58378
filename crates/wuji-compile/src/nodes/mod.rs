//! The level functions: what the nodes of a tree do, emitted as IR for one node of one tree.
//!
//! | file | what is in it |
//! |---|---|
//! | `words` | short-hands for words at byte offsets |
//! | `memory` | cells are handed out and given back |
//! | `collect` | deactivated cells become ready to be handed out again, between tasks |
//! | `cells` | find, ensure, test, touch, drop, push: one function per node for what is seldom done |
//! | `hash` | the tables of hash nodes |
//! | `lists` | the lists of active cells that loops run over |
//!
//! Cells that were used before are handed out in the order of a queue, then those that were never used, from the first
//! on; both through shards, each with a line of its own, that take many at a time. What is deactivated waits in a
//! list, which a collection between tasks adds to the queue; so nothing is pushed while something else is popped, and a cell that one
//! iteration deactivates stays readable for all others until the task ends. Only cells that
//! lost a race to be activated go back at once, to a stack whose top carries a counter.

mod cells;
mod collect;
mod hash;
pub mod lists;
mod memory;
pub(crate) mod words;

pub use cells::expand;
pub use collect::{Tables, Upkeep, collect};
pub use hash::rebuild;

use crate::options::Target;
use cranelift_entity::PrimaryMap;
use rustc_hash::FxHashMap;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Func, Node, Temp, Tree, Value};
use wuji_ir::layout::{Child, NodeMemory, TreeMemory, tree_header};
use wuji_ir::module::{Env, Function, Term};
use wuji_ir::types::{I64, Type};
use wuji_ir::{Error, Result};

/// Number of tasks that look after trees; they draw no random numbers and fail no assertions.
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

/// What a function does for a node.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
enum Service {
    Allocate,
    /// The next number of a run of any shard of a tree, named by its root.
    Claim,
    /// What the shards have when there is nothing else.
    Rest,
    GiveBack,
    Retire,
    Ensure,
    Touch,
    Drop,
    Push,
    Find,
    /// Of a hash node: brings its tables in order.
    Rebuild,
    /// Drops everything below a cell of the node.
    Empty,
    /// As `Empty`, of all cells of one allocation.
    EmptyAll,
    /// As `EmptyAll`, of some of the cells that wait for a collection.
    EmptyPending,
    /// The first step of a collection: all that were deactivated are in one list.
    Gather,
    /// The last step.
    Recycle,
    /// On a GPU the last step has three parts: the queue gets room, cells go there in parallel, the list is empty again.
    OpenQueue,
    RecycleSome,
    CloseQueue,
    /// Of a whole tree, named by its root.
    RebuildAll,
}

/// Makes the functions that a module needs, each once.
#[derive(Debug)]
pub struct Services {
    target: Target,
    memory: PrimaryMap<Tree, TreeMemory>,
    made: FxHashMap<(Service, Tree, Node), Func>,
    /// How many cells a step of a collection is about, if there are any.
    temp: Option<Temp>,
}

impl Services {
    pub fn new(m: &Env, target: Target) -> Result<Services> {
        Ok(Services {
            target,
            memory: memories(m)?,
            made: FxHashMap::default(),
            temp: None,
        })
    }

    /// The function for one node. `fill` writes its body, with the parameters, and gives its results.
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
        let name = format!("{service:?}.{tree}.{node}").to_lowercase();
        let (types, gives): (Vec<Type>, Vec<Type>) = (vec![I64; params], vec![I64; results]);
        // Known before it is written: services call each other.
        let func = m.declare(&types, &gives);
        self.made.insert((service, tree, node), func);
        let mut f = Function::new(name, &types, &gives);
        // A table that is half rebuilt, or a cell that is in nobody's hands, would be lost.
        f.traits.uninterrupted = true;
        // Threads of a GPU would make as many cells as they are, and keep one.
        f.traits.once = service == Service::Ensure && self.target == Target::Cuda;
        let args: Vec<Value> = f.params().to_vec();
        let mut b = Builder::new(m, &mut f);
        let values = fill(self, &mut b, &args);
        b.end(Term::Return(values.into_iter().collect()));
        m.define(func, f);
        func
    }

    fn node(&self, tree: Tree, node: Node) -> &NodeMemory {
        // Walks name sparse nodes only; the verifier has seen to it.
        match self.memory[tree].node(node) {
            Some(n) => n,
            None => unreachable!("{tree}.{node} is not sparse"),
        }
    }

    /// Offset of the header of a tree; below it there is nothing but zeros.
    fn tree_header(&self, m: &Env, tree: Tree) -> u64 {
        self.memory[tree].tree_header(&m.trees[tree]).unwrap_or(0)
    }

    fn used(&self, m: &Env, tree: Tree) -> u64 {
        self.tree_header(m, tree) + tree_header::USED
    }

    fn limit(&self, m: &Env, tree: Tree) -> u64 {
        self.tree_header(m, tree) + tree_header::LIMIT
    }
}

/// Whether some node below this one allocates.
fn allocates_below(m: &Env, tree: Tree, node: Node) -> bool {
    m.trees[tree].nodes[node].children.iter().any(|c| match c {
        Child::Place(_) => false,
        Child::Node(n) => m.trees[tree].nodes[*n].kind.allocates() || allocates_below(m, tree, *n),
    })
}
