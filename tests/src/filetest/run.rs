//! `; test: run`: runs a file on everything that executes IR, and compares the outputs.
//!
//! The interpreter runs the module before and after each pass of the pipeline, in serial and in random orders;
//! backends run the result of the whole pipeline. All of them have to agree with the file, bit for bit.

use super::TestFile;
use super::commands::{NEW_GPU, OLD_GPU, OWN_MATH, comes_back, module};
use crate::seen::Seen;
use wuji_compile::{Cx, Functions, Math, Options, PASSES, Target, run_pass};
use wuji_ir::Error;
use wuji_ir::entities::{Array, Field};
use wuji_ir::interp::{ArrayView, Config, Machine, Order, Outcome, Printed, Report};
use wuji_ir::module::Module;
use wuji_ir::types::Imm;
use wuji_ir::verify::verify;
use wuji_tools::script::elements::{self, Cells, LoweredMovers};
use wuji_tools::script::{Left, Run, Start, check, runs as runs_of};

pub(super) fn runs(file: &TestFile, arguments: &str) -> Result<Option<String>, String> {
    let module = module(file)?;
    let mut lines = Vec::new();
    for source in runs_of(file.source(), &file.name()) {
        let run = source.run().map_err(|e| e.to_string())?;
        let start = Start::new(&module, &run.before).map_err(|e| e.to_string())?;
        lines.push((run, start));
    }
    let options = Options {
        math: Math::Strict,
        functions: if arguments == OWN_MATH {
            Functions::WrittenOut
        } else {
            Functions::System
        },
        vector_bits: 128,
        // Also for short loops, so that as many files as possible test it.
        stream_from: Some(0),
        ..Options::default()
    };
    let movers = match elements::fields(&module)[..] {
        [] => None,
        _ => Some(LoweredMovers::new(&module, &options).map_err(|e| e.to_string())?),
    };
    let each = |m: &Module, stage: &str, lowered: bool, orders: &[Order]| -> Result<(), String> {
        if !elements::is_runnable(m, lowered) {
            return Ok(());
        }
        let movers = movers.as_ref().filter(|_| lowered);
        for (run, start) in &lines {
            for order in orders {
                let how = Interpret {
                    lowered,
                    order: *order,
                    movers,
                };
                interpret(m, how, run, start)
                    .map_err(|e| format!("interpreter, {stage}, {order:?}: {e}\n{m}"))?;
            }
        }
        Ok(())
    };
    let launches = |options: &Options| {
        let modes: &[Math] = if arguments == ANY_MATH {
            &[Math::Strict, Math::Contract, Math::Fast]
        } else {
            &[Math::Strict]
        };
        modes.iter().try_for_each(|math| {
            let options = Options {
                math: *math,
                ..options.clone()
            };
            super::native::launches(&module, &options, &lines)
                .map_err(|e| format!("math mode {math:?}: {e}"))
        })
    };
    if super::native::on_gpu() {
        launches(&options)?;
        return Ok(None);
    }
    each(
        &module,
        "as written",
        false,
        &[
            Order::Serial,
            Order::Shuffled(1),
            Order::Shuffled(2),
            Order::Shuffled(3),
        ],
    )?;
    let all_options = [
        options.clone(),
        // With calls instead of lowered accesses, so that every file tests calls too.
        Options {
            without: ["access_lowering", "vector_cost"].map(str::to_owned).into(),
            tasks_from: Some(0),
            ..options.clone()
        },
        // The IR for GPUs.
        Options {
            functions: options.functions.clone(),
            // Also for short loops, so that as many files as possible test them.
            rows_from: Some(0),
            tasks_from: Some(0),
            without: vec!["flatten_cost".to_owned()],
            ..options.for_cuda(OLD_GPU)
        },
        Options {
            functions: options.functions.clone(),
            tasks_from: Some(0),
            ..options.for_cuda(NEW_GPU)
        },
    ];
    let mut seen = Seen::default();
    for options in all_options {
        if arguments == GPU && options.target == Target::Cpu {
            continue;
        }
        let mut cx = Cx::new(&options);
        let mut m = module.clone();
        let mut lowered = false;
        for pass in PASSES {
            let stage = format!(
                "after {}, for {:?}, without {:?}",
                pass.name, options.target, options.without
            );
            run_pass(pass.name, &mut m, &mut cx).map_err(|e| format!("{stage}: {e}"))?;
            lowered |= pass.name == "lower_access";
            let is_lowered_early = options.without.iter().any(|w| w == "access_lowering");
            let early = !is_lowered_early && (options.target == Target::Cpu || arguments == GPU);
            let is_run = lowered || early;
            if !seen.is_new(&m, (lowered, is_run)) {
                continue;
            }
            verify(&m).map_err(|e| format!("{stage}: {e}\n{m}"))?;
            comes_back(&m).map_err(|e| format!("{stage}: {e}"))?;
            if is_run {
                each(&m, &stage, lowered, &[Order::Serial, Order::Shuffled(4)])?;
            }
        }
        if options.target == Target::Cpu {
            launches(&options)?;
        }
    }
    Ok(None)
}

/// Files that only run on a GPU and in the interpreter.
const GPU: &str = "gpu";

/// Files that give the same bits in every math mode.
const ANY_MATH: &str = "any_math";

/// How the interpreter runs a module.
struct Interpret<'a> {
    lowered: bool,
    order: Order,
    movers: Option<&'a LoweredMovers>,
}

/// Runs on the interpreter and compares.
fn interpret(m: &Module, how: Interpret<'_>, run: &Run, start: &Start) -> Result<(), Error> {
    let config = Config {
        order: how.order,
        seed: start.seed,
        launch: start.launch,
        ..Config::default()
    };
    let mut machine = if how.lowered {
        Machine::lowered(m, config)?
    } else {
        Machine::new(m, config)?
    };
    for (field, values) in &start.fields {
        machine.fill(*field, values)?;
    }
    for (field, at, values) in &start.elements {
        machine.set(*field, at, values)?;
    }
    let buffers: Vec<_> = start
        .buffers
        .iter()
        .map(|bytes| machine.add_buffer(bytes.clone()))
        .collect();
    for bound in &start.arrays {
        let view = ArrayView {
            buffer: buffers[bound.buffer],
            base: bound.base,
            extents: bound.extents.clone(),
            strides: bound.strides.clone(),
        };
        machine.bind(bound.array, view)?;
    }
    match how.movers {
        Some(movers) => movers.write(&mut machine, &start.sparse)?,
        None => elements::write(&mut machine, &start.sparse)?,
    }
    let outcome = machine.run(&start.params)?;
    let sparse = match how.movers {
        Some(movers) => movers.read(&mut machine)?,
        None => elements::read(&machine)?,
    };
    let left = Interpreted {
        machine,
        outcome,
        sparse,
    };
    check(m, run, start, &left)
}

struct Interpreted<'m> {
    machine: Machine<'m>,
    outcome: Outcome,
    sparse: Vec<(Field, Cells)>,
}

impl Left for Interpreted<'_> {
    fn field(&self, field: Field) -> Result<Vec<Imm>, Error> {
        self.machine.field(field)
    }

    fn element(&self, field: Field, at: &[i64]) -> Result<Vec<Imm>, Error> {
        self.machine.get(field, at)
    }

    fn sparse(&self) -> &[(Field, Cells)] {
        &self.sparse
    }

    fn array(&self, array: Array) -> Result<Vec<Imm>, Error> {
        Ok(self.machine.array(array))
    }

    fn result(&self) -> Option<&[Imm]> {
        self.outcome.result.as_deref()
    }

    fn reports(&self) -> &[Report] {
        &self.outcome.reports
    }

    fn printed(&self) -> &[Printed] {
        &self.outcome.printed
    }
}
