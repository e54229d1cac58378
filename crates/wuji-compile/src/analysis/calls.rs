//! The call graph.

use cranelift_entity::SecondaryMap;
use wuji_ir::entities::Func;
use wuji_ir::module::Module;

/// Functions in the order of calls.
#[derive(Debug, Default)]
pub struct CallGraph {
    /// Every function after its callees; unordered within a cycle.
    pub callees_first: Vec<Func>,
    /// Functions in a cycle of calls.
    pub recursive: SecondaryMap<Func, bool>,
}

impl CallGraph {
    /// The calls of a module.
    pub fn of(module: &Module) -> CallGraph {
        let mut search = Search::default();
        for (func, f) in module.funcs.iter() {
            search.callees[func] = f.callees();
        }
        for root in module.funcs.keys() {
            search.visit(root);
        }
        search.graph
    }
}

/// Strongly connected components by Tarjan's algorithm, with an explicit stack.
#[derive(Default)]
struct Search {
    callees: SecondaryMap<Func, Vec<Func>>,
    graph: CallGraph,
    /// Order of the first visits, from 1.
    number: SecondaryMap<Func, u32>,
    /// The smallest number of an open function that can be reached.
    low: SecondaryMap<Func, u32>,
    /// Functions whose component is not complete yet.
    open: Vec<Func>,
    is_open: SecondaryMap<Func, bool>,
    visited: u32,
}

impl Search {
    /// Visits a function and all its callees.
    fn visit(&mut self, root: Func) {
        // Unfinished functions, with the number of callees visited.
        let mut stack = vec![(root, 0usize)];
        while let Some((func, at)) = stack.pop() {
            if at == 0 {
                if self.number[func] != 0 {
                    continue;
                }
                self.enter(func);
            } else {
                let child = self.callees[func][at - 1];
                if self.is_open[child] {
                    self.low[func] = self.low[func].min(self.low[child]);
                }
            }
            match self.next_unknown(func, at) {
                Some((child, at)) => stack.extend([(func, at), (child, 0)]),
                None if self.low[func] == self.number[func] => self.close(func),
                None => {}
            }
        }
    }

    fn enter(&mut self, func: Func) {
        self.visited += 1;
        (self.number[func], self.low[func]) = (self.visited, self.visited);
        self.open.push(func);
        self.is_open[func] = true;
    }

    /// The next callee that has not been visited, and the position after it.
    fn next_unknown(&mut self, func: Func, from: usize) -> Option<(Func, usize)> {
        for at in from..self.callees[func].len() {
            let child = self.callees[func][at];
            if self.number[child] == 0 {
                return Some((child, at + 1));
            }
            if self.is_open[child] {
                self.low[func] = self.low[func].min(self.number[child]);
            }
            if child == func {
                self.graph.recursive[func] = true;
            }
        }
        None
    }

    /// The functions opened since `func` form its component.
    fn close(&mut self, func: Func) {
        let first = self.open.iter().rposition(|f| *f == func).unwrap_or(0);
        let mut component = self.open.split_off(first);
        component.reverse();
        for member in &component {
            self.is_open[*member] = false;
            self.graph.recursive[*member] |= component.len() > 1;
        }
        self.graph.callees_first.extend(component);
    }
}
