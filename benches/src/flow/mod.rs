//! Inter-kernel optimization: the same launches in a lazy world and in an eager one. `wuji-bench --flow` prints the tables of the
//! paper; `--filter flow` prints a row for each set of rules.

pub mod large;
pub mod measure;
pub mod micro;
pub mod tables;

use wuji::World;

use crate::case::{Contender, launches};
use crate::measure::Row;
use crate::study::{Bench, Side, Study, agree};

/// Prepares a program in a world.
pub type Make = fn(&World, Size) -> wuji::Result<Box<dyn Contender>>;

/// A program that launches several kernels.
#[derive(Clone, Copy)]
pub struct Program {
    pub name: &'static str,
    /// For display, by [`Size`].
    pub sizes: [&'static str; 3],
    pub make: Make,
    /// The same computation with kernels that are fused by hand, if there is such a version.
    pub by_hand: Option<Make>,
    /// The largest accepted difference between worlds.
    pub tolerance: f32,
}

/// How large a program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Takes seconds on a few cores.
    Quick,
    /// That of the paper on a CPU.
    Paper,
    /// That of the paper on a GPU, and larger microbenchmarks.
    Gpu,
}

impl Program {
    pub fn size(&self, size: Size) -> &'static str {
        self.sizes[match size {
            Size::Quick => 0,
            Size::Paper => 1,
            Size::Gpu => 2,
        }]
    }

    /// The name in tables.
    pub fn short_name(&self) -> &'static str {
        self.name.trim_start_matches("flow ")
    }
}

/// All programs: the microbenchmarks, then the large ones.
pub fn programs() -> impl Iterator<Item = Program> {
    micro::ALL.into_iter().chain(large::ALL)
}

/// Launches that are repeated in a sample, with a synchronization at its end.
pub fn repeated(
    world: &World,
    times: usize,
    mut run: impl FnMut() -> wuji::Result<()> + 'static,
    result: impl Fn() -> wuji::Result<Vec<f32>> + 'static,
) -> Box<dyn Contender> {
    let world = world.clone();
    let run = move || {
        (0..times).try_for_each(|_| run())?;
        world.synchronize()
    };
    launches(run, result)
}

/// The rules that are off in each row.
pub const RULES: [(&str, &[&str]); 4] = [
    ("all rules", &[]),
    ("no task_fusion", &["task_fusion"]),
    ("no dead_store_elimination", &["dead_store_elimination"]),
    ("no task_dataflow", &["task_dataflow"]),
];

struct Flow(Program);

fn side(contender: &mut dyn Contender) -> Side<'_> {
    Side {
        contender,
        work: 1.0,
    }
}

/// All programs, as benchmarks.
pub fn all() -> Vec<Box<dyn Study>> {
    let boxed = |p| Box::new(Flow(p)) as Box<dyn Study>;
    programs().map(boxed).collect()
}

impl Study for Flow {
    fn name(&self) -> &'static str {
        self.0.name
    }

    fn size(&self) -> String {
        self.0.size(Size::Quick).into()
    }

    fn metric(&self) -> &'static str {
        "1/s"
    }

    fn rows(&self, bench: &Bench) -> Result<Vec<Row>, String> {
        let text = |e: wuji::Error| e.to_string();
        let make = |world: &World| (self.0.make)(world, Size::Quick).map_err(text);
        let mut rows = Vec::new();
        for (name, without) in RULES {
            let (lazy, eager) = (bench.lazy_world(without)?, bench.world(&[])?);
            let (mut first, mut second) = (make(&lazy)?, make(&eager)?);
            agree(self, &mut *first, &mut *second, self.0.tolerance)?;
            let done = lazy.lazy_statistics();
            lazy.finish_compiling().map_err(text)?;
            let metric = format!("1/s, {name}, {} -> {}", done.launched_tasks, done.tasks);
            let (first, second) = (side(&mut *first), side(&mut *second));
            rows.push(bench.compare(self, &metric, first, second)?);
        }
        if let Some(by_hand) = self.0.by_hand {
            let (lazy, eager) = (bench.lazy_world(&[])?, bench.world(&[])?);
            let mut first = make(&lazy)?;
            let mut second = by_hand(&eager, Size::Quick).map_err(text)?;
            agree(self, &mut *first, &mut *second, self.0.tolerance)?;
            let (first, second) = (side(&mut *first), side(&mut *second));
            rows.push(bench.compare(self, "1/s, against fused by hand", first, second)?);
        }
        Ok(rows)
    }
}
