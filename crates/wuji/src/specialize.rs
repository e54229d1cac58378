//! Kernels that are launched again and again with the same loop bounds and array shapes get code in which these are constants.
//!
//! The launch that finds such code checks its arguments against it, so a launch with others runs the general code.
//!
//! On a GPU all kernels profit; on a CPU those with boundaries in indices, and those that scatter into arrays
//! ([`Candidates::on_cpu`]).

use crate::launch::{Compiled, Launch};
use crate::world::{World, lock};
use smallvec::SmallVec;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use wuji_compile::specialize::{Arguments, Candidates, specialize};
use wuji_ir::Result;
use wuji_ir::module::{ArrayShape, Module};
use wuji_runtime::array::ArrayArg;
use wuji_runtime::log::Level;

/// Launches with the same arguments before code is made for them, and the time that they take: several times that of a compilation.
const LAUNCHES: u32 = 16;
const TIME: Duration = Duration::from_millis(500);

/// A kernel whose arguments keep changing is specialized this often.
const MOST: u32 = 4;

/// Vector loads need this alignment of an array.
const ALIGN: usize = 16;

/// Launches wait for specialized code, so it is made in at most this part of the time.
const PART: u32 = 10;

/// The kernels that a world specializes.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Specialized {
    /// All with loop bounds, boundaries or arrays to know.
    All,
    /// Those that a CPU with this many threads profits from.
    OnCpu { threads: usize },
}

/// What a world specializes, and the time that it spent on it.
#[derive(Debug)]
pub(crate) struct Budget {
    specialized: Specialized,
    since: Instant,
    spent: Mutex<Duration>,
}

impl Budget {
    pub(crate) fn new(specialized: Specialized) -> Budget {
        Budget {
            specialized,
            since: Instant::now(),
            spent: Mutex::default(),
        }
    }

    fn allows_more(&self) -> bool {
        *lock(&self.spent) * PART <= self.since.elapsed()
    }

    fn spend(&self, time: Duration) {
        *lock(&self.spent) += time;
    }
}

/// What a kernel is specialized for.
#[derive(Debug, Default)]
pub(crate) struct Specialization {
    candidates: OnceLock<Candidates>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    seen: Option<Seen>,
    code: Option<(Arguments, Arc<Compiled>)>,
    made: u32,
}

/// The arguments of the last launches.
#[derive(Debug)]
struct Seen {
    arguments: Arguments,
    times: u32,
    since: Instant,
}

impl Specialization {
    /// The code for the arguments of a launch, if there is any by now.
    pub(crate) fn find(&self, world: &World, launch: &Launch<'_>) -> Option<Arc<Compiled>> {
        let budget = world.specialization()?;
        let source = launch.compiled.source().ok()?;
        let candidates = self.candidates.get_or_init(|| match budget.specialized {
            Specialized::All => Candidates::of(source),
            Specialized::OnCpu { threads } => Candidates::on_cpu(source, threads),
        });
        if candidates.is_empty() {
            return None;
        }
        let passed = Passed { candidates, launch };
        let arguments = {
            let mut state = lock(&self.state);
            if let Some((arguments, code)) = &state.code
                && passed.are(arguments)
            {
                return Some(code.clone());
            }
            state.due(&passed, (world, budget))?
        };
        self.make(world, launch.compiled, candidates, arguments)
    }

    /// Makes code for the arguments of the last launch, if there was one.
    pub(crate) fn finish(&self, world: &World, compiled: &Compiled) {
        let due = lock(&self.state).take_seen();
        if let (Some(candidates), Some(arguments)) = (self.candidates.get(), due) {
            self.make(world, compiled, candidates, arguments);
        }
    }

    /// The code that was made last.
    pub(crate) fn code(&self) -> Option<Arc<Compiled>> {
        let state = lock(&self.state);
        state.code.as_ref().map(|(_, code)| code.clone())
    }

    /// Makes code for these arguments. Meanwhile other threads and progress callbacks can launch the kernel.
    fn make(
        &self,
        world: &World,
        compiled: &Compiled,
        candidates: &Candidates,
        arguments: Arguments,
    ) -> Option<Arc<Compiled>> {
        let begun = Instant::now();
        let code = made(world, compiled, candidates, &arguments);
        if let Some(budget) = world.specialization() {
            budget.spend(begun.elapsed());
        }
        let mut state = lock(&self.state);
        match code {
            Ok(code) => {
                state.code = Some((arguments, code.clone()));
                Some(code)
            }
            Err(error) => {
                state.made = MOST;
                drop(state);
                let name = compiled.name();
                world.device().log().say(Level::Info, || {
                    format!("kernel `{name}` is not specialized for its arguments: {error}")
                });
                None
            }
        }
    }
}

impl State {
    /// Counts a launch. Gives its arguments, if it is time to make code for them.
    fn due(
        &mut self,
        passed: &Passed<'_>,
        (world, budget): (&World, &Budget),
    ) -> Option<Arguments> {
        let same = self.seen.as_mut().filter(|s| passed.are(&s.arguments));
        let Some(seen) = same else {
            self.seen = Some(Seen {
                arguments: passed.arguments(world),
                times: 1,
                since: Instant::now(),
            });
            return None;
        };
        seen.times = seen.times.saturating_add(1);
        let often = seen.times >= LAUNCHES && seen.since.elapsed() >= TIME;
        if !often || !budget.allows_more() {
            return None;
        }
        self.take_seen()
    }

    /// The arguments to make code for; none if there is some already, or if there was too much.
    fn take_seen(&mut self) -> Option<Arguments> {
        let arguments = self.seen.take()?.arguments;
        let known = (self.code.as_ref()).is_some_and(|(known, _)| *known == arguments);
        if self.made >= MOST || known {
            return None;
        }
        self.made += 1;
        Some(arguments)
    }
}

fn made(
    world: &World,
    compiled: &Compiled,
    candidates: &Candidates,
    arguments: &Arguments,
) -> Result<Arc<Compiled>> {
    let module = specialize(compiled.source()?, candidates, arguments);
    let program = world.load_program(module)?;
    program.make_code()?;
    Ok(Arc::new(Compiled::of(program, compiled.first_fields())))
}

/// What a launch passes for the candidates of its kernel.
struct Passed<'p> {
    candidates: &'p Candidates,
    launch: &'p Launch<'p>,
}

impl Passed<'_> {
    fn params(&self) -> impl Iterator<Item = u64> + '_ {
        let slots = self.candidates.slots.iter();
        slots.map(|slot| self.launch.params.get(*slot).copied().unwrap_or(0))
    }

    fn arrays(&self) -> impl Iterator<Item = &ArrayArg<'_>> {
        let numbers = self.candidates.arrays.iter();
        numbers.filter_map(|a| self.launch.arrays.get(a.as_u32() as usize))
    }

    fn are(&self, arguments: &Arguments) -> bool {
        self.params().eq(arguments.params.iter().copied())
            && self.arrays().count() == arguments.shapes.len()
            && (self.arrays().zip(&arguments.shapes)).all(|(array, shape)| array.has_shape(shape))
    }

    fn arguments(&self, world: &World) -> Arguments {
        let device = world.device().capabilities().owner;
        Arguments {
            params: self.params().collect(),
            shapes: self
                .arrays()
                .map(|a| shape_of(a, a.owner() == device))
                .collect(),
        }
    }
}

/// A kernel whose arrays, all of them contiguous, have these shapes.
pub(crate) fn for_shapes(source: &Module, shapes: &[ArrayShape]) -> Module {
    let candidates = Candidates {
        arrays: source.arrays.keys().collect(),
        ..Candidates::default()
    };
    let arguments = Arguments {
        shapes: shapes.to_vec(),
        ..Arguments::default()
    };
    specialize(source, &candidates, &arguments)
}

/// An array of the host is copied to a GPU, to another address.
pub(crate) fn shape_of(array: &ArrayArg<'_>, in_place: bool) -> ArrayShape {
    let mut shape = ArrayShape {
        extents: SmallVec::from_slice(array.extents()),
        align: ALIGN as u32,
    };
    if !in_place || !array.has_shape(&shape) {
        shape.align = 1;
    }
    shape
}
