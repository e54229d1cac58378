//! Functions and calls.

use super::roles::{Rights, Role};
use super::sparse::Topology;
use super::{Body, Callable, Generator};
use wuji_ir::entities::Value;
use wuji_ir::module::{Function, Term};
use wuji_ir::ops::*;
use wuji_ir::types::{I32, Scalar, Type};

/// The most functions of a program.
const MOST_FUNCTIONS: usize = 5;

impl Generator<'_> {
    /// Calls a function for its effects.
    pub(super) fn call(&mut self) {
        let found = self.callable(None);
        if let Some(callee) = found
            && let Some(value) = self.call_to(&callee)
        {
            self.keep(value);
        }
    }

    /// Calls a function for its result.
    pub(super) fn call_for(&mut self, ty: Type) -> Option<Value> {
        let callee = self.callable(Some(ty))?;
        self.call_to(&callee)
    }

    fn callable(&mut self, result: Option<Type>) -> Option<Callable> {
        let fits = |c: &&Callable| {
            (result.is_none() || c.result == result) && self.body.rights.cover(&c.rights)
        };
        let known: Vec<Callable> = self.functions.iter().filter(fits).cloned().collect();
        let around: Vec<Callable> = self.body.unfinished.iter().filter(fits).cloned().collect();
        // A call of an unfinished function is recursion; one per function is enough for a tree of calls.
        if self.body.depth.is_some() && !around.is_empty() && self.dice.chance(50) {
            return Some(self.dice.pick(&around).clone());
        }
        let room = self.m.funcs.len() < MOST_FUNCTIONS && self.body.unfinished.len() < 2;
        if room && (known.is_empty() || self.dice.chance(25)) && self.budget > 5 {
            return Some(self.new_function(result));
        }
        if known.is_empty() {
            None
        } else {
            Some(self.dice.pick(&known).clone())
        }
    }

    fn call_to(&mut self, callee: &Callable) -> Option<Value> {
        let mut args = Vec::new();
        if callee.recursive {
            let depth = match self.body.depth {
                Some(depth) => {
                    let one = self.b().int(Scalar::I32, 1);
                    self.b().binary(BinOp::Sub, depth, one)
                }
                // Rarely so deep that the recursion limit is exceeded.
                None if self.dice.chance(3) => self.b().int(Scalar::I32, 300),
                None => {
                    let depth = self.dice.between(0, 3);
                    self.b().int(Scalar::I32, i128::from(depth))
                }
            };
            args.push(depth);
        }
        for ty in &callee.params {
            args.push(self.value(*ty, 1));
        }
        let inst = self.b().push(Op::Call(callee.func), &args);
        self.body.f.insts[inst].results.first().copied()
    }

    fn new_function(&mut self, result: Option<Type>) -> Callable {
        let recursive = self.dice.chance(45) && !self.waits;
        let params: Vec<Type> = (0..self.dice.below(4)).map(|_| self.any_type()).collect();
        let result = match result {
            None if self.dice.chance(70) => Some(self.any_type()),
            other => other,
        };
        let mut all = Vec::new();
        if recursive {
            all.push(I32);
        }
        all.extend(&params);
        let results: Vec<Type> = result.into_iter().collect();
        let name = format!("g{}", self.m.funcs.len());
        let f = Function::new(name, &all, &results);
        let func = self.m.add_func(f.clone());
        let rights = match self.body.rights.for_function() {
            // Not every function needs all rights.
            Rights::All if self.dice.chance(60) => {
                let roles = (0..self.groups).map(|_| {
                    if self.dice.chance(60) {
                        Role::Read
                    } else {
                        Role::Untouched
                    }
                });
                let roles = roles.collect();
                let trees = (0..self.m.trees.len()).map(|_| {
                    if self.dice.chance(60) {
                        Topology::Frozen
                    } else {
                        Topology::Untouched
                    }
                });
                Rights::Groups(roles, trees.collect())
            }
            rights => rights,
        };
        let callable = Callable {
            func,
            params,
            result,
            recursive,
            rights: rights.clone(),
        };
        let mut body = Body::new(f);
        body.rights = rights;
        body.unfinished = self.body.unfinished.clone();
        if recursive {
            body.depth = body.f.params().first().copied();
            body.unfinished.push(callable.clone());
        } else {
            // Without its own depth it could recurse forever.
            body.unfinished.clear();
        }
        let outer = std::mem::replace(&mut self.body, body);
        let budget = self.budget;
        self.budget = (budget / 2).min(8 * self.size);
        if let Some(depth) = self.body.depth {
            self.stop_recursion(depth);
        }
        let count = self.dice.between(1, 4) as usize;
        let falls = self.statements(count);
        let term = if falls {
            let values = self.results();
            Term::Return(values.into_iter().collect())
        } else {
            Term::Unreachable
        };
        self.b().end(term);
        self.budget = budget - 10;
        let body = std::mem::replace(&mut self.body, outer);
        self.m.funcs[func] = body.f;
        self.functions.push(callable.clone());
        callable
    }

    fn results(&mut self) -> Vec<Value> {
        let types = self.body.f.results.clone();
        types.into_iter().map(|t| self.value(t, 2)).collect()
    }

    /// Returns immediately if no depth is left.
    fn stop_recursion(&mut self, depth: Value) {
        let zero = self.b().int(Scalar::I32, 0);
        let done = self.b().compare(CmpOp::Le, depth, zero);
        let inst = self.b().push_typed(Op::If, &[done], &[]);
        let stop = self.region(&[], |g, _| {
            let values = g.results();
            g.b().end(Term::Return(values.into_iter().collect()));
        });
        let on = self.region(&[], |g, _| {
            g.b().end(Term::Yield([].into_iter().collect()));
        });
        self.body.f.insts[inst].regions.extend([stop, on]);
    }
}
