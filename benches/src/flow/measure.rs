//! The metrics of the paper, of one program in several worlds.

use wuji::World;

use super::{Make, Program, RULES, Size};
use crate::case::{Contender, difference};
use crate::measure::{Clock, median};

/// Makes a world: lazy or not, without some rules.
pub type Worlds<'a> = dyn Fn(bool, &[&str]) -> Result<World, String> + 'a;

/// The metrics of the paper, of one run in the steady state, and the time of the first run.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    pub wall_ms: f64,
    /// What the profiler measures inside of tasks.
    pub backend_ms: f64,
    pub tasks: u64,
    /// Instructions of the lowered IR of everything that was compiled.
    pub instructions: u64,
    pub compiled: u64,
    /// With compilation.
    pub first_ms: f64,
    /// Windows that were planned in the steady state, because none like them had been seen.
    pub new_windows: u64,
}

/// A program in one world.
#[derive(Clone, Debug)]
pub struct Variant {
    /// The rules that are off, or what kind of world it is.
    pub name: &'static str,
    pub metrics: Metrics,
    /// The median over the rounds of the time in the eager world, divided by that in this one.
    pub speedup: f64,
    /// The largest difference from the results in the eager world.
    pub difference: f32,
    /// The tasks of a run.
    pub tasks: Vec<TaskTime>,
}

/// A task of a run: how often it was launched, and its time in all launches.
#[derive(Clone, Debug)]
pub struct TaskTime {
    pub name: String,
    pub count: u64,
    pub ms: f64,
}

/// The names of the first variant and of the one that is fused by hand.
pub const EAGER: &str = "eager";
pub const BY_HAND: &str = "fused by hand, eager";

/// Runs with the profiler.
const PROFILED: usize = 3;
/// Of a program that takes seconds, one is enough.
const LONG_MS: f64 = 1000.0;

struct Entrant {
    variant: Variant,
    world: World,
    contender: Box<dyn Contender>,
    times: Vec<f64>,
}

/// Measures a program: eager, lazy with all rules, lazy without each of them, and fused by hand if there is such a version.
pub fn measure(
    program: &Program,
    size: Size,
    worlds: &Worlds<'_>,
    (rounds, clock): (usize, Clock),
) -> Result<Vec<Variant>, String> {
    let mut entrants = vec![Entrant::new(
        EAGER,
        worlds(false, &[])?,
        program.make,
        size,
    )?];
    for (name, without) in RULES {
        entrants.push(Entrant::new(
            name,
            worlds(true, without)?,
            program.make,
            size,
        )?);
    }
    if let Some(by_hand) = program.by_hand {
        entrants.push(Entrant::new(BY_HAND, worlds(false, &[])?, by_hand, size)?);
    }
    for entrant in &mut entrants {
        entrant.start(clock)?;
    }
    compare(program, &mut entrants)?;
    for round in 0..rounds {
        let count = entrants.len();
        // The order changes, so that no world always follows the same one.
        for k in 0..count {
            let entrant = &mut entrants[(k + round) % count];
            let time = entrant.timed(clock)?;
            entrant.times.push(time);
        }
    }
    for entrant in &mut entrants {
        entrant.profile()?;
    }
    Ok(finished(entrants))
}

fn finished(entrants: Vec<Entrant>) -> Vec<Variant> {
    let eager = entrants[0].times.clone();
    let variants = entrants.into_iter().map(|mut entrant| {
        let mut ratios: Vec<f64> = (eager.iter().zip(&entrant.times))
            .map(|(eager, own)| eager / own)
            .collect();
        entrant.variant.speedup = median(&mut ratios);
        entrant.variant.metrics.wall_ms = median(&mut entrant.times) * 1e3;
        entrant.variant
    });
    variants.collect()
}

/// Compares the results of all worlds with those of the eager one.
fn compare(program: &Program, entrants: &mut [Entrant]) -> Result<(), String> {
    let expected = entrants[0].contender.result()?;
    for entrant in entrants {
        let far = difference(&entrant.contender.result()?, &expected);
        let name = entrant.variant.name;
        if far > program.tolerance {
            return Err(format!(
                "{}: the world with {name} and the eager one disagree: {far:.1e} is more than {:.1e}",
                program.name, program.tolerance
            ));
        }
        entrant.variant.difference = far;
    }
    Ok(())
}

impl Entrant {
    fn new(name: &'static str, world: World, make: Make, size: Size) -> Result<Entrant, String> {
        let contender = make(&world, size).map_err(|e| e.to_string())?;
        // What prepares the program is not part of it.
        world.synchronize().map_err(|e| e.to_string())?;
        Ok(Entrant {
            variant: Variant {
                name,
                metrics: Metrics::default(),
                speedup: 1.0,
                difference: 0.0,
                tasks: Vec::new(),
            },
            world,
            contender,
            times: Vec::new(),
        })
    }

    fn timed(&mut self, clock: Clock) -> Result<f64, String> {
        let begun = clock.now();
        self.contender.run()?;
        Ok(clock.now() - begun)
    }

    /// The first runs, until code and plans are ready.
    fn start(&mut self, clock: Clock) -> Result<(), String> {
        let before = emitted(&self.world);
        self.variant.metrics.first_ms = self.timed(clock)? * 1e3;
        self.contender.run()?;
        self.world.finish_compiling().map_err(|e| e.to_string())?;
        let after = emitted(&self.world);
        self.variant.metrics.compiled = after.0 - before.0;
        self.variant.metrics.instructions = after.1 - before.1;
        Ok(())
    }

    /// Tasks and their times, with the profiler, which makes launches synchronous.
    fn profile(&mut self) -> Result<(), String> {
        let windows = |world: &World| {
            let statistics = world.lazy_statistics();
            statistics.windows - statistics.known_windows
        };
        let known = windows(&self.world);
        let mut times = Vec::new();
        let long = self.times.iter().any(|time| time * 1e3 > LONG_MS);
        for _ in 0..if long { 1 } else { PROFILED } {
            self.world.profiler().clear();
            self.world.profiler().start();
            self.contender.run()?;
            self.world.profiler().stop();
            let kernels = self.world.kernel_history();
            let tasks = kernels.iter().flat_map(|k| &k.tasks);
            let tasks = tasks.map(|task| TaskTime {
                name: task.name.clone(),
                count: task.count,
                ms: task.total.as_secs_f64() * 1e3,
            });
            let tasks: Vec<TaskTime> = tasks.collect();
            times.push(tasks.iter().map(|t| t.ms).sum());
            self.variant.metrics.tasks = tasks.iter().map(|t| t.count).sum();
            self.variant.tasks = tasks;
        }
        self.variant.metrics.backend_ms = median(&mut times);
        self.variant.metrics.new_windows = windows(&self.world) - known;
        Ok(())
    }
}

/// The tasks that a world has compiled so far, and their instructions.
fn emitted(world: &World) -> (u64, u64) {
    let kernels = world.kernel_history();
    let compiled = kernels.iter().filter(|k| !k.compilations.is_empty());
    compiled.fold((0, 0), |(tasks, instructions), kernel| {
        (
            tasks + kernel.task_count as u64,
            instructions + kernel.instructions as u64,
        )
    })
}
