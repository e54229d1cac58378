//! The checks of a program: everything that runs it must agree.

use super::dice::Dice;
use super::native;
use super::observe::{Observation, interpret, reference, too_long};
use super::program::Program;
use super::window::{self, Launches, WindowCheck};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use wuji_compile::autodiff::normalize;
use wuji_compile::passes::SWITCHES;
use wuji_compile::{Cx, Math, Options, PASSES, PassKind, Target, run_pass};
use wuji_ir::Error;
use wuji_ir::interp::Order;
use wuji_ir::text::parse;
use wuji_ir::verify::verify;
use wuji_tools::script::elements::{self, LoweredMovers};

/// Programs that take more steps are skipped.
const MAX_STEPS: u64 = 100_000;
/// The compute capability of pipelines for a GPU.
const GPU: u32 = 90;
/// Lowered code takes more steps for the same work.
const MAX_LOWERED_STEPS: u64 = MAX_STEPS * 200;

/// One way to check a program.
#[derive(Clone, PartialEq, Debug)]
pub enum Check {
    /// The verifier accepts it.
    Sound,
    /// Printing and parsing preserve it.
    Text,
    /// The interpreter in another order.
    Order(u64),
    /// The interpreter after a number of passes.
    Passes {
        count: usize,
        pipeline: Pipeline,
        order: Order,
    },
    /// The interpreter on the normal form, which differentiation starts from.
    Normal,
    /// The interpreter on what rules make of several launches.
    Window(WindowCheck),
    /// Machine code.
    Native {
        threads: usize,
        without: Vec<&'static str>,
    },
}

/// What the passes of a check compile for.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Pipeline {
    target: Target,
    without: Vec<&'static str>,
    fuel: Option<u64>,
}

impl std::fmt::Display for Pipeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.target == Target::Cuda {
            write!(f, ", for a GPU")?;
        }
        if !self.without.is_empty() {
            write!(f, ", without {}", self.without.join(", "))?;
        }
        match self.fuel {
            Some(fuel) => write!(f, ", with fuel {fuel}"),
            None => Ok(()),
        }
    }
}

impl std::fmt::Display for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Check::Sound => write!(f, "the verifier"),
            Check::Text => write!(f, "printing and parsing"),
            Check::Order(seed) => write!(f, "the interpreter in random order {seed}"),
            Check::Passes {
                count,
                pipeline,
                order,
            } => {
                let last = PASSES[count - 1].name;
                write!(f, "the interpreter after {last}, {order:?}{pipeline}")
            }
            Check::Normal => write!(f, "the interpreter on the normal form"),
            Check::Window(how) => {
                match &how.launches {
                    Launches::Program(times) => write!(f, "a window of {times} launches")?,
                    Launches::Tasks(order) => write!(f, "a window of the tasks {order:?}")?,
                }
                write!(f, ", {:?}", how.order)?;
                if how.temporaries != 0 {
                    write!(f, ", temporary trees {:#b}", how.temporaries)?;
                }
                if !how.without.is_empty() {
                    write!(f, ", without {}", how.without.join(", "))?;
                }
                match how.fuel {
                    Some(fuel) => write!(f, ", with fuel {fuel}"),
                    None => Ok(()),
                }
            }
            Check::Native { threads, without } => {
                write!(f, "machine code, {threads} threads")?;
                if !without.is_empty() {
                    write!(f, ", without {}", without.join(", "))?;
                }
                Ok(())
            }
        }
    }
}

/// The approximate kind of a failure: a reduced program should fail in the same way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    Panic,
    /// The message, without its numbers.
    Error(String),
    Different,
}

#[derive(Clone, Debug)]
pub struct Failure {
    pub check: Check,
    pub kind: Kind,
    pub why: String,
}

#[derive(Clone, Debug)]
pub(super) enum Verdict {
    Agreed,
    /// It takes too long.
    Skipped,
    Failed(Box<Failure>),
}

/// Why one check failed.
pub(super) type Outcome = Result<(), (Kind, String)>;

pub(super) fn error(e: &Error) -> (Kind, String) {
    let notes = e.notes.join(" ");
    let words: Vec<&str> = e
        .message
        .split_whitespace()
        .chain(notes.split('`').step_by(2))
        .collect();
    let kind = words
        .join(" ")
        .chars()
        .filter(|c| !c.is_ascii_digit())
        .collect();
    (Kind::Error(kind), e.to_string())
}

pub(super) fn compare(found: Observation, expected: &Observation) -> Outcome {
    match found.difference(expected) {
        None => Ok(()),
        Some(why) => Err((Kind::Different, why)),
    }
}

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Turns panics of checks into failures, and suppresses their output.
pub fn quiet() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !GUARDED.get() {
            usual(info);
        }
    }));
}

/// Runs something that might panic.
pub(super) fn guarded(run: impl FnOnce() -> Outcome) -> Outcome {
    let outer = GUARDED.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(run));
    GUARDED.set(outer);
    outcome.unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
        Err((Kind::Panic, text.unwrap_or_default()))
    })
}

/// The expected behaviour of a program; `None` if it takes too long.
pub(super) fn expected(program: &Program) -> Result<Option<Observation>, Box<Failure>> {
    let mut seen = None;
    let outcome = guarded(|| {
        verify(&program.module).map_err(|e| error(&e))?;
        match reference(program, MAX_STEPS) {
            Ok(observation) => seen = Some(observation),
            Err(e) if too_long(&e) => {}
            Err(e) => return Err(error(&e)),
        }
        Ok(())
    });
    match outcome {
        Ok(()) => Ok(seen),
        Err((kind, why)) => Err(Box::new(Failure {
            check: Check::Sound,
            kind,
            why,
        })),
    }
}

/// Runs one check of a program.
pub(super) fn check(program: &Program, check: &Check, expected: &Observation) -> Outcome {
    guarded(|| match check {
        Check::Sound => verify(&program.module).map_err(|e| error(&e)),
        Check::Text => text(program),
        Check::Order(seed) => {
            let order = Order::Shuffled(*seed);
            let found = interpret(
                &program.module,
                false,
                order,
                &program.inputs,
                MAX_STEPS,
                None,
            )
            .map_err(|e| error(&e))?;
            compare(found, expected)
        }
        Check::Passes {
            count,
            pipeline,
            order,
        } => {
            let mut orders = vec![None; PASSES.len()];
            orders[count - 1] = Some(*order);
            let checkpoints = Checkpoints { after: orders };
            passes(program, &checkpoints, pipeline, expected).map_err(|f| (f.kind, f.why))
        }
        Check::Normal => normal(program, expected),
        Check::Window(how) => window(program, how),
        Check::Native { threads, without } => {
            let found = native::launch(program, *threads, without).map_err(|e| error(&e))?;
            compare(found, expected)
        }
    })
}

fn text(program: &Program) -> Outcome {
    let printed = program.module.to_string();
    let again = parse(&printed, "printed").map_err(|e| error(&e))?;
    if again != program.module.compacted() {
        return Err((Kind::Different, "another module came back".to_owned()));
    }
    if again.to_string() != printed {
        return Err((Kind::Different, "another text came back".to_owned()));
    }
    Ok(())
}

fn normal(program: &Program, expected: &Observation) -> Outcome {
    let mut m = program.module.clone();
    normalize(&mut m).map_err(|e| error(&e))?;
    let (order, inputs) = (Order::Serial, &program.inputs);
    let mut found =
        interpret(&m, false, order, inputs, MAX_LOWERED_STEPS, None).map_err(|e| error(&e))?;
    // It does not report accesses of local arrays.
    let mut expected = expected.clone();
    for seen in [&mut found, &mut expected] {
        seen.reports.retain(|r| r != "out of range: local");
    }
    compare(found, &expected)
}

fn window(program: &Program, how: &WindowCheck) -> Outcome {
    if !window::can_wait(program) {
        return Ok(());
    }
    let expected = match window::eager(program, how, MAX_STEPS) {
        Ok(expected) => expected,
        Err(e) if too_long(&e) => return Ok(()),
        Err(e) => return Err(error(&e)),
    };
    let found = window::lazy(program, how, MAX_LOWERED_STEPS).map_err(|e| error(&e))?;
    compare(found, &expected)
}

/// The passes after which the interpreter runs the module, each with an order of iterations.
struct Checkpoints {
    after: Vec<Option<Order>>,
}

fn passes(
    program: &Program,
    checkpoints: &Checkpoints,
    pipeline: &Pipeline,
    expected: &Observation,
) -> Result<(), Box<Failure>> {
    let on_cpu = Options {
        math: Math::Strict,
        without: pipeline.without.iter().map(|w| (*w).to_owned()).collect(),
        fuel: pipeline.fuel,
        vector_bits: 128,
        stream_from: Some(0),
        tasks_from: Some(0),
        ..Options::default()
    };
    let options = match pipeline.target {
        Target::Cpu => on_cpu.clone(),
        // The interpreter has the mathematical functions of the system.
        Target::Cuda => Options {
            functions: on_cpu.functions.clone(),
            rows_from: Some(0),
            ..on_cpu.for_cuda(GPU)
        },
    };
    let mut cx = Cx::new(&options);
    let mut m = program.module.clone();
    let mut lowered = false;
    let mut movers = None;
    let last = checkpoints
        .after
        .iter()
        .rposition(Option::is_some)
        .unwrap_or(0);
    for (k, pass) in PASSES.iter().enumerate().take(last + 1) {
        let outcome = guarded(|| {
            if cx.wants(pass) {
                // With assertions, `run_pass` runs the verifier.
                run_pass(pass.name, &mut m, &mut cx).map_err(|e| error(&e))?;
                if !cfg!(debug_assertions) {
                    verify(&m).map_err(|e| error(&e))?;
                }
            }
            lowered |= pass.name == "lower_access";
            let Some(order) = checkpoints.after[k].filter(|_| elements::is_runnable(&m, lowered))
            else {
                return Ok(());
            };
            if lowered && movers.is_none() && !program.inputs.sparse.is_empty() {
                let made = LoweredMovers::new(&program.module, &on_cpu);
                movers = Some(made.map_err(|e| error(&e))?);
            }
            let (inputs, steps) = (&program.inputs, MAX_LOWERED_STEPS);
            match interpret(&m, lowered, order, inputs, steps, movers.as_ref()) {
                Ok(found) => compare(found, expected),
                // After an early `return`, tasks run all of their iterations, which do nothing.
                Err(e) if too_long(&e) && !m.tasks.is_empty() => Ok(()),
                Err(e) => Err(error(&e)),
            }
        });
        if let Err((kind, why)) = outcome {
            return Err(Box::new(Failure {
                check: Check::Passes {
                    count: k + 1,
                    pipeline: pipeline.clone(),
                    order: checkpoints.after[k].unwrap_or(Order::Serial),
                },
                kind,
                why,
            }));
        }
    }
    Ok(())
}

/// Runs a program in a random selection of ways.
pub(super) fn check_all(program: &Program, dice: &mut Dice, native: usize) -> Verdict {
    let expected = match expected(program) {
        Ok(Some(seen)) => seen,
        Ok(None) => return Verdict::Skipped,
        Err(failure) => return Verdict::Failed(failure),
    };
    match run_checks(program, &expected, dice, native) {
        Ok(()) => Verdict::Agreed,
        Err(failure) => Verdict::Failed(failure),
    }
}

/// Runs a program several times as a window, in several ways.
pub(super) fn check_windows(program: &Program, dice: &mut Dice) -> Verdict {
    let expected = match expected(program) {
        Ok(Some(seen)) if window::can_wait(program) => seen,
        Ok(_) => return Verdict::Skipped,
        Err(failure) => return Verdict::Failed(failure),
    };
    for _ in 0..3 {
        let what = Check::Window(random_window(dice));
        if let Err((kind, why)) = check(program, &what, &expected) {
            let check = what;
            return Verdict::Failed(Box::new(Failure { check, kind, why }));
        }
    }
    Verdict::Agreed
}

fn run_checks(
    program: &Program,
    expected: &Observation,
    dice: &mut Dice,
    native: usize,
) -> Result<(), Box<Failure>> {
    let one = |what: Check| {
        check(program, &what, expected).map_err(|(kind, why)| {
            Box::new(Failure {
                check: what,
                kind,
                why,
            })
        })
    };
    one(Check::Order(dice.bits()))?;
    if dice.chance(20) {
        one(Check::Text)?;
    }
    if dice.chance(50) {
        one(Check::Normal)?;
    }
    if dice.chance(50) {
        one(Check::Window(random_window(dice)))?;
    }
    passes(
        program,
        &checkpoints(dice, 15),
        &Pipeline::default(),
        expected,
    )?;
    // Everything on is what users have; everything off finds what one pass hides from another.
    let optional: Vec<&'static str> = PASSES
        .iter()
        .filter(|p| p.kind == PassKind::Optimization)
        .map(|p| p.name)
        .chain(SWITCHES.iter().map(|s| s.0))
        .collect();
    let without: Vec<&'static str> = match dice.weighted(&[2, 6, 3]) {
        0 => optional,
        1 => vec![*dice.pick(&optional)],
        _ => optional.into_iter().filter(|_| dice.chance(50)).collect(),
    };
    if dice.chance(60) {
        let pipeline = Pipeline {
            without: without.clone(),
            ..Pipeline::default()
        };
        passes(program, &checkpoints(dice, 5), &pipeline, expected)?;
    }
    if dice.chance(40) {
        let pipeline = Pipeline {
            target: Target::Cuda,
            without: ["flatten_cost"]
                .into_iter()
                .filter(|_| dice.chance(80))
                .collect(),
            fuel: None,
        };
        passes(program, &checkpoints(dice, 5), &pipeline, expected)?;
    }
    if dice.chance(20) {
        let fuel = 1 << dice.below(8);
        let pipeline = Pipeline {
            fuel: Some(dice.below(fuel) as u64),
            ..Pipeline::default()
        };
        passes(program, &checkpoints(dice, 5), &pipeline, expected)?;
    }
    if dice.chance(native) {
        let without = if dice.chance(30) { without } else { Vec::new() };
        for &threads in native::thread_counts(program) {
            let without = without.clone();
            one(Check::Native { threads, without })?;
        }
    }
    Ok(())
}

fn random_window(dice: &mut Dice) -> WindowCheck {
    let rules = [
        "task_fusion",
        "dead_store_elimination",
        "activation_demotion",
        "task_dataflow",
        "halo_recomputation",
        "horizontal_fusion",
        "task_locality",
    ];
    let launches = if dice.chance(50) {
        Launches::Program(1 + dice.below(4) as u64)
    } else {
        let count = 2 + dice.below(7);
        Launches::Tasks((0..count).map(|_| dice.below(12)).collect())
    };
    WindowCheck {
        launches,
        temporaries: if dice.chance(30) { dice.bits() } else { 0 },
        without: rules.into_iter().filter(|_| dice.chance(15)).collect(),
        fuel: dice.chance(20).then(|| dice.below(6) as u64),
        order: if dice.chance(50) {
            Order::Serial
        } else {
            Order::Shuffled(dice.bits())
        },
    }
}

/// The last pass always, others in so many of a hundred cases.
fn checkpoints(dice: &mut Dice, percent: usize) -> Checkpoints {
    let last = PASSES.len() - 1;
    let after = (0..PASSES.len())
        .map(|k| {
            if k != last && !dice.chance(percent) {
                return None;
            }
            Some(if dice.chance(50) {
                Order::Serial
            } else {
                Order::Shuffled(dice.bits())
            })
        })
        .collect();
    Checkpoints { after }
}

/// The first pass after which a check fails, so that the right one is reported.
pub(super) fn blame(program: &Program, failure: Failure, expected: &Observation) -> Failure {
    let Check::Passes {
        count,
        pipeline,
        order,
    } = &failure.check
    else {
        return failure;
    };
    let orders = match order {
        Order::Serial => vec![Order::Serial],
        Order::Shuffled(_) => vec![Order::Serial, *order],
    };
    for count in 1..=*count {
        for order in &orders {
            let what = Check::Passes {
                count,
                pipeline: pipeline.clone(),
                order: *order,
            };
            if let Err((kind, why)) = check(program, &what, expected) {
                return Failure {
                    check: what,
                    kind,
                    why,
                };
            }
        }
    }
    failure
}
