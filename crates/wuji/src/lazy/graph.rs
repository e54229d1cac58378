//! The state-flow graph of a window, to look at.

use super::planner::window_of;
use crate::world::World;
use std::fmt;
use wuji_flow::print::{self, Names};
use wuji_flow::rules::fusion::Unfused;

/// The launches that wait in a lazy world, as a graph: tasks, and the states that one leaves to another. As text it has one
/// paragraph for each task.
#[derive(Clone, Debug)]
pub struct FlowGraph {
    graph: wuji_flow::Graph,
    /// The pairs of tasks that were not fused.
    unfused: Vec<Unfused>,
    /// The names of the fields of each tree.
    names: Names,
}

impl FlowGraph {
    /// How many tasks it has.
    pub fn tasks(&self) -> usize {
        self.graph.nodes.len()
    }

    /// How many edges it has.
    pub fn edges(&self) -> usize {
        self.graph.edges.len()
    }

    /// The names of its tasks, in an order in which they may run.
    pub fn names(&self) -> Vec<&str> {
        self.graph.nodes.iter().map(|n| n.task.name()).collect()
    }

    /// Why tasks that share data and could run directly one after the other were not fused, a line for each pair. Empty for the
    /// graph before optimization.
    pub fn unfused(&self) -> Vec<String> {
        let lines = self.unfused.iter().map(|pair| {
            let task = |k: usize| self.graph.nodes[k].task.name();
            let why = pair.refusal.text(&self.names);
            format!("{} and {}: {why}", task(pair.first), task(pair.second))
        });
        lines.collect()
    }

    /// For Graphviz: `dot -Tsvg`.
    pub fn dot(&self) -> String {
        print::dot(&self.graph, &self.names)
    }

    /// A drawing.
    pub fn svg(&self) -> String {
        print::svg(&self.graph, &self.names)
    }
}

impl fmt::Display for FlowGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&print::text(&self.graph, &self.unfused, &self.names))
    }
}

impl World {
    /// The launches that wait in a lazy world as a graph, before and after optimization. Nothing runs.
    ///
    /// ```
    /// use wuji::prelude::*;
    ///
    /// #[kernel]
    /// fn double(x: &Field<f32, 1>, y: &Field<f32, 1>) {
    ///     for [i] in x {
    ///         y[[i]] = 2.0 * x[[i]];
    ///     }
    /// }
    ///
    /// # fn main() -> wuji::Result<()> {
    /// let world = World::builder().lazy(true).build()?;
    /// let x = world.field::<f32, 1>("x", 1000)?;
    /// let y = world.field::<f32, 1>("y", 1000)?;
    /// double(&x, &y)?;
    /// double(&y, &x)?;
    /// let (before, after) = world.flow_graph();
    /// assert_eq!(before.names(), ["double", "double"]);
    /// assert_eq!(after.names(), ["double+double"]);
    /// println!("{before}");
    /// # Ok(())
    /// # }
    /// ```
    pub fn flow_graph(&self) -> (FlowGraph, FlowGraph) {
        let Some(lazy) = self.lazy() else {
            let none = FlowGraph {
                graph: wuji_flow::Graph::default(),
                unfused: Vec::new(),
                names: Names::default(),
            };
            return (none.clone(), none);
        };
        let launches = lazy.window();
        // The engine has the other one.
        let (window, names) = window_of(&launches, 2);
        let (before, after, unfused) = lazy.optimized(&window);
        let graph = |graph, unfused| FlowGraph {
            graph,
            unfused,
            names: names.clone(),
        };
        (graph(before, Vec::new()), graph(after, unfused))
    }
}
