//! The state-flow graph of a window, to look at.

use super::engine::window_of;
use crate::layout::TreeBody;
use crate::world::World;
use std::fmt;
use wuji_flow::graph::State;
use wuji_flow::print;

/// The launches that wait in a lazy world, as a graph: tasks, and the states that one leaves to another. As text it has one
/// paragraph for each task.
#[derive(Clone, Debug)]
pub struct FlowGraph {
    graph: wuji_flow::Graph,
    /// The names of the fields of each tree.
    names: Vec<Vec<String>>,
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

    /// For Graphviz: `dot -Tsvg`.
    pub fn dot(&self) -> String {
        print::dot(&self.graph, &|state| self.state(state))
    }

    /// A drawing.
    pub fn svg(&self) -> String {
        print::svg(&self.graph, &|state| self.state(state))
    }

    fn state(&self, state: &State) -> String {
        let names = |tree: u32| self.names.get(tree as usize).cloned().unwrap_or_default();
        match *state {
            State::Value { tree, field } => {
                let name = names(tree).get(field as usize).cloned();
                name.unwrap_or_else(|| state.to_string())
            }
            State::Mask(tree) => format!("mask of {}", names(tree).join(", ")),
            State::List(tree) => format!("list of {}", names(tree).join(", ")),
            State::Allocator(tree) => format!("allocator of {}", names(tree).join(", ")),
            State::Output => "output".to_owned(),
        }
    }
}

impl fmt::Display for FlowGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&print::text(&self.graph, &|state| self.state(state)))
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
                names: Vec::new(),
            };
            return (none.clone(), none);
        };
        let launches = lazy.window();
        let (window, bodies) = window_of(&launches);
        let (before, after) = lazy.optimized(&window);
        let names = |bodies: &[&TreeBody]| bodies.iter().map(|b| b.names.clone()).collect();
        let graph = |graph| FlowGraph {
            graph,
            names: names(&bodies),
        };
        (graph(before), graph(after))
    }
}
