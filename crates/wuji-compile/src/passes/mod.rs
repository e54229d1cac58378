//! The pass table: every pass once, in order, with a sentence about what it does.

pub mod inline;
pub mod promote;
pub mod scalarize;

use crate::options::Options;
use std::fmt;
use std::time::Duration;
use wuji_ir::Result;
use wuji_ir::module::Module;

/// Whether the pipeline can do without a pass.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum PassKind {
    /// Later passes and backends rely on it.
    Lowering,
    /// Can be switched off; asks for fuel before each rewrite.
    Optimization,
}

/// One row of the table.
#[derive(Copy, Clone)]
pub struct Pass {
    pub name: &'static str,
    pub sentence: &'static str,
    pub kind: PassKind,
    pub run: fn(&mut Module, &mut Cx) -> Result<()>,
}

impl fmt::Debug for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.sentence)
    }
}

macro_rules! passes {
    ($($kind:ident $name:ident = $run:path: $sentence:literal,)*) => {
        /// Every pass, in the order in which the pipeline runs them.
        pub const PASSES: &[Pass] = &[$(Pass {
            name: stringify!($name),
            sentence: $sentence,
            kind: PassKind::$kind,
            run: $run,
        }),*];
    };
}

// Order: promote, inline, simplify, offload, loops, demote_atomics, reductions, bounds, lower_checks,
// lower_access, simplify_lowered, scalarize, cleanup, legality.
passes! {
    Lowering promote = promote::promote: "locals that are not arrays become values",
    Optimization inline = inline::inline: "bodies of functions take the place of calls",
    Lowering scalarize = scalarize::scalarize: "vectors, matrices and structs become scalars",
}

/// The row of a pass, by name.
pub fn find(name: &str) -> Option<&'static Pass> {
    PASSES.iter().find(|p| p.name == name)
}

/// How long one run of a pass took.
#[derive(Copy, Clone, Debug)]
pub struct Timing {
    pub pass: &'static str,
    pub time: Duration,
}

/// Called with the name of a pass and the module it left.
pub type PrintAfter<'a> = Box<dyn FnMut(&'static str, &Module) + 'a>;

/// What a compilation carries from pass to pass.
#[derive(Default)]
pub struct Cx<'a> {
    pub options: Options,
    pub timings: Vec<Timing>,
    pub print_after: Option<PrintAfter<'a>>,
    spent: u64,
}

impl<'a> Cx<'a> {
    pub fn new(options: &Options) -> Cx<'a> {
        Cx {
            options: options.clone(),
            ..Cx::default()
        }
    }

    /// Asks for one optional rewrite. Once it says no, it always does.
    pub fn fuel(&mut self) -> bool {
        if self.options.fuel.is_some_and(|limit| self.spent >= limit) {
            return false;
        }
        self.spent += 1;
        true
    }

    /// Optional rewrites done so far: the upper end of a bisection.
    pub fn spent(&self) -> u64 {
        self.spent
    }

    /// Whether a pass is to run.
    pub fn wants(&self, pass: &Pass) -> bool {
        pass.kind == PassKind::Lowering || !self.options.without.iter().any(|w| w == pass.name)
    }
}

impl fmt::Debug for Cx<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cx")
            .field("options", &self.options)
            .field("timings", &self.timings)
            .field("spent", &self.spent)
            .finish_non_exhaustive()
    }
}
