//! The search for programs in Rust.

use super::search::{Goal, Norm, Request, Step, StoragePlan, Tuned, search};
use super::trial::Trial;
use std::fmt;
use wuji_ir::{Error, Result};

/// A search for the types of fields; see [`quant`].
pub struct Quant {
    goal: Option<Goal>,
    request: Request,
    progress: Box<dyn FnMut(&Step<'_>)>,
}

impl fmt::Debug for Quant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quant")
            .field("goal", &self.goal)
            .field("request", &self.request)
            .finish_non_exhaustive()
    }
}

/// Starts a search for the types of fields. Give it a goal, [`Quant::error`] or [`Quant::memory`], then a program,
/// [`Quant::run`].
pub fn quant() -> Quant {
    Quant {
        goal: None,
        request: Request::default(),
        progress: Box::new(|_| ()),
    }
}

impl Default for Request {
    /// The least memory with an error of a thousandth.
    fn default() -> Request {
        Request {
            goal: Goal::Error(1e-3),
            norm: Norm::Rms,
            reserve: 0.1,
            keep: Vec::new(),
            points: 10,
        }
    }
}

impl Quant {
    /// Searches the least memory with at most this error of the outputs, relative to the reference.
    pub fn error(mut self, bound: f64) -> Quant {
        self.goal = Some(Goal::Error(bound));
        self
    }

    /// Searches the smallest error with at most this many bytes for all tuned fields.
    pub fn memory(mut self, bytes: u64) -> Quant {
        self.goal = Some(Goal::Bytes(bytes));
        self
    }

    /// The same, with a part of the memory that the fields take with their compute types.
    pub fn memory_part(mut self, part: f64) -> Quant {
        self.goal = Some(Goal::Part(part));
        self
    }

    /// How outputs are compared: by the root mean square of their differences, unless this says otherwise.
    pub fn norm(mut self, norm: Norm) -> Quant {
        self.request.norm = norm;
        self
    }

    /// The part that is added to the range of each field of floats: 0.1 by default. Longer runs may need more.
    pub fn reserve(mut self, part: f64) -> Quant {
        self.request.reserve = part;
        self
    }

    /// A field that keeps its type.
    pub fn keep(mut self, name: &str) -> Quant {
        self.request.keep.push(name.to_owned());
        self
    }

    /// How many combinations of types are run for the Pareto front, about: 10 by default.
    pub fn points(mut self, count: usize) -> Quant {
        self.request.points = count;
        self
    }

    /// What to do before each run.
    pub fn progress(mut self, show: impl FnMut(&Step<'_>) + 'static) -> Quant {
        self.progress = Box::new(show);
        self
    }

    /// Runs the program repeatedly, each time with other types. It makes its fields with [`Trial::place`], and ends with outputs.
    pub fn run(mut self, mut program: impl FnMut(&Trial<'_>) -> Result<()>) -> Result<Tuned> {
        let Some(goal) = self.goal else {
            return Err(Error::new("W0160", "the search has no goal")
                .help("give it the largest error, `.error(1e-3)`, or a budget, `.memory(bytes)`"));
        };
        self.request.goal = goal;
        let mut run = |plan: &StoragePlan| {
            let trial = Trial::new(plan);
            if let Err(error) = program(&trial) {
                trial.stop();
                return Err(error);
            }
            trial.finish()
        };
        search(&self.request, &mut run, &mut self.progress)
    }
}
