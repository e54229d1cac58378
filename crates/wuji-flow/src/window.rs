//! Windows: launches that have not run yet, and the plan that is made of them.

use crate::bank::Bank;
use crate::graph::{Graph, Node};
use crate::rules::activations::demote_activations;
use crate::rules::dead_stores::eliminate_dead_stores;
use crate::rules::fusion::fuse_tasks;
use crate::rules::halos::recompute_halos;
use crate::rules::horizontal::fuse_small_tasks;
use crate::rules::locality::order_for_locality;
use crate::task::Task;
use std::sync::Arc;

/// A launch, with what the graph has to know of it.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The tasks of its kernel, from the bank.
    pub tasks: Arc<[Arc<Task>]>,
    /// The number of each tree of the kernel in the window.
    pub trees: Vec<u32>,
    /// The number of each of its arrays, which trees do not have, unless an array is their only field.
    pub arrays: Vec<u32>,
    /// The parameters by value, one slot for each scalar.
    pub params: Vec<u64>,
}

/// Which rules are applied.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Switches {
    /// Tasks are fused.
    pub fusion: bool,
    /// Stores that are overwritten before they are read are removed.
    pub dead_stores: bool,
    /// Lists of active cells are generated once, and activations that change nothing are removed.
    pub activations: bool,
    /// A producer is computed again where a neighbourhood of it is read.
    pub halos: bool,
    /// Small tasks that do not depend on each other run side by side.
    pub horizontal: bool,
    /// Tasks are reordered, so that data is used while it is in caches.
    pub locality: bool,
    /// The number of rewrites, to find a wrong one by bisection.
    pub fuel: Option<u64>,
}

impl Default for Switches {
    fn default() -> Switches {
        Switches {
            fusion: true,
            dead_stores: true,
            activations: true,
            halos: true,
            horizontal: true,
            locality: true,
            fuel: None,
        }
    }
}

impl Switches {
    /// The names of the rules, for [`Switches::without`].
    pub const NAMES: [&'static str; 6] = [
        "task_fusion",
        "dead_store_elimination",
        "activation_demotion",
        "halo_recomputation",
        "task_locality",
        "horizontal_fusion",
    ];

    /// All rules but those in a list.
    pub fn without(names: &[String]) -> Switches {
        let on = |name: &str| !names.iter().any(|n| n == name);
        Switches {
            fusion: on(Switches::NAMES[0]),
            dead_stores: on(Switches::NAMES[1]),
            activations: on(Switches::NAMES[2]),
            halos: on(Switches::NAMES[3]),
            locality: on(Switches::NAMES[4]),
            horizontal: on(Switches::NAMES[5]),
            fuel: None,
        }
    }
}

/// How many rewrites may still be made.
#[derive(Debug)]
pub struct Fuel(Option<u64>);

impl Fuel {
    /// A number of rewrites; `None` for all.
    pub fn new(fuel: Option<u64>) -> Fuel {
        Fuel(fuel)
    }

    /// Takes one; `false` if there is none.
    pub fn take(&mut self) -> bool {
        match &mut self.0 {
            None => true,
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
        }
    }
}

/// One thing to run.
#[derive(Clone, Debug)]
pub enum Run {
    /// A launch as it is, by its number in the window.
    Launch(usize),
    /// A task, alone or fused.
    Task(Node),
}

/// What to run instead of the launches of a window, in order.
#[derive(Clone, Debug, Default)]
pub struct LaunchPlan {
    /// The tasks, in the order in which they run.
    pub runs: Vec<Run>,
}

/// Launches in order.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// The launches, in the order of the program.
    pub launches: Vec<Launch>,
    /// Trees and arrays that nothing outside of the window can read, by their numbers.
    pub temporaries: Vec<u32>,
}

impl Window {
    /// The graph of the tasks as they were launched.
    pub fn graph(&self) -> Graph {
        let mut nodes = Vec::new();
        for (k, launch) in self.launches.iter().enumerate() {
            for task in launch.tasks.iter() {
                let numbers = |own: &[u32], all: &[u32]| -> Vec<u32> {
                    own.iter().map(|n| all[*n as usize]).collect()
                };
                let data = (
                    numbers(&task.trees, &launch.trees),
                    numbers(&task.arrays, &launch.arrays),
                );
                nodes.push(Node::new(
                    task.clone(),
                    data,
                    launch.params.clone(),
                    vec![k],
                ));
            }
        }
        Graph::of(nodes)
    }

    /// The graph after all rules.
    pub fn optimized(&self, bank: &mut Bank, switches: &Switches) -> Graph {
        let mut fuel = Fuel::new(switches.fuel);
        let mut graph = self.graph();
        if switches.activations {
            graph = demote_activations(graph, bank, &mut fuel);
        }
        if switches.dead_stores {
            graph = eliminate_dead_stores(graph, &self.temporaries, bank, &mut fuel);
        }
        if switches.halos {
            graph = recompute_halos(graph, &self.temporaries, bank, &mut fuel);
        }
        if switches.fusion {
            graph = fuse_tasks(graph, bank, &mut fuel);
        }
        // Fused tasks cover more than their parts do: what one part stores, the other one need not read.
        if switches.dead_stores && switches.fusion {
            graph = eliminate_dead_stores(graph, &self.temporaries, bank, &mut fuel);
        }
        if switches.fusion && switches.horizontal {
            graph = fuse_small_tasks(graph, bank, &mut fuel);
        }
        if switches.locality {
            graph = order_for_locality(graph, &mut fuel);
        }
        graph
    }

    /// What to run.
    pub fn plan(&self, bank: &mut Bank, switches: &Switches) -> LaunchPlan {
        self.plan_of(&self.optimized(bank, switches))
    }

    /// What runs the tasks of a graph. A launch whose tasks are as they were runs as it is.
    pub fn plan_of(&self, graph: &Graph) -> LaunchPlan {
        let mut runs = Vec::new();
        let mut at = 0;
        while at < graph.nodes.len() {
            let node = &graph.nodes[at];
            if let Some(count) = self.whole_launch(&graph.nodes[at..]) {
                runs.push(Run::Launch(node.launches[0]));
                at += count;
            } else {
                runs.push(Run::Task(node.clone()));
                at += 1;
            }
        }
        LaunchPlan { runs }
    }

    /// How many nodes at the front are all tasks of one launch, unchanged and in order.
    fn whole_launch(&self, nodes: &[Node]) -> Option<usize> {
        let first = nodes.first()?;
        let [launch] = first.launches[..] else {
            return None;
        };
        let tasks = &self.launches[launch].tasks;
        let same = nodes.len() >= tasks.len()
            && (nodes.iter().zip(tasks.iter()))
                .all(|(node, task)| node.launches == [launch] && Arc::ptr_eq(&node.task, task));
        same.then_some(tasks.len())
    }
}
