//! What each stage contributes (table 2): programs with one stage switched off, against the whole pipeline.

use wuji::World;
use wuji_symbolic::{Options, Program, Simplify, Trace};

use super::applications::{Application, CLOTH, CLOTH_BY_HAND, CLOTH_MATRIX, COTAN, CUBE};
use super::{Direct, Traced, recorded, side, text};
use crate::measure::Row;
use crate::study::{Bench, Study};

pub(super) struct Ablation;

/// Something that is switched off: options of the pipeline, optimizations of the compiler, or threads.
struct Stage {
    name: &'static str,
    options: fn(&mut Options),
    without: &'static [&'static str],
    one_thread: bool,
}

const fn stage(name: &'static str, options: fn(&mut Options)) -> Stage {
    Stage {
        name,
        options,
        without: &[],
        one_thread: false,
    }
}

const STAGES: [Stage; 11] = [
    stage("merge_chains", |o| o.merge_chains = false),
    stage("tagging", |o| o.tagging = false),
    stage("tagging + detect_blocks", |o| {
        (o.tagging, o.detect_blocks) = (false, true);
    }),
    stage("local_decomposition", |o| o.local_decomposition = false),
    stage("global_decomposition", |o| o.global_decomposition = false),
    stage("simplify", |o| o.simplify = Simplify::none()),
    stage("sort_members", |o| o.sort_members = false),
    stage("coalesce", |o| o.coalesce = false),
    stage("all of these", |o| *o = Options::none()),
    Stage {
        without: &["vectorize"],
        ..stage("vectorize", |_| {})
    },
    Stage {
        one_thread: true,
        ..stage("threads", |_| {})
    },
];

impl Study for Ablation {
    fn name(&self) -> &'static str {
        "symbolic_ablation"
    }

    fn size(&self) -> String {
        "5 applications".into()
    }

    fn metric(&self) -> &'static str {
        "runs/s"
    }

    fn rows(&self, bench: &Bench) -> Result<Vec<Row>, String> {
        let mut rows = Vec::new();
        for application in [CLOTH_BY_HAND, CLOTH, CLOTH_MATRIX, COTAN, CUBE] {
            rows.extend(study(bench, &application)?);
        }
        Ok(rows)
    }
}

/// The rows of one application. The first compares with direct evaluation, the others with the whole pipeline.
fn study(bench: &Bench, application: &Application) -> Result<Vec<Row>, String> {
    let setup = (application.setup)().map_err(text)?;
    let trace = recorded(&setup.input, &*setup.record)?;
    let mut whole = program(
        &bench.world(&[])?,
        &trace,
        &Options::default(),
        &setup.input,
    )?;
    let evaluate = |out: &mut Vec<f64>| {
        *out = (setup.direct)(&setup.input).map_err(text)?;
        Ok(())
    };
    let mut direct = Direct(evaluate, Vec::new());
    let named = |mut row: Row| {
        row.workload = application.name.replace("symbolic", "ablation");
        row
    };
    let (first, second) = (side(&mut whole), side(&mut direct));
    let mut rows = vec![named(bench.compare(
        application,
        "all stages",
        first,
        second,
    )?)];
    for stage in STAGES {
        if stage.one_thread && bench.threads == 1 {
            continue;
        }
        let world = world(bench, &stage)?;
        let mut options = Options::default();
        (stage.options)(&mut options);
        let metric = format!("- {}", stage.name);
        match program(&world, &trace, &options, &setup.input) {
            Ok(mut part) => {
                let (first, second) = (side(&mut part), side(&mut whole));
                rows.push(named(bench.compare(application, &metric, first, second)?));
            }
            // Too many groups, or expressions too large: there is no such program.
            Err(why) if why.contains("W0805") => {
                eprintln!("{} without {}: {why}", application.name, stage.name);
            }
            Err(why) => return Err(why),
        }
    }
    Ok(rows)
}

fn world(bench: &Bench, stage: &Stage) -> Result<World, String> {
    if stage.one_thread {
        return bench.world_with(1, stage.without);
    }
    bench.world(stage.without)
}

fn program(
    world: &World,
    trace: &Trace,
    options: &Options,
    input: &[f64],
) -> Result<Traced, String> {
    let program = Program::compile(world, trace, options).map_err(text)?;
    program.set_inputs(input).map_err(text)?;
    program.launch().map_err(text)?;
    Ok(Traced(program))
}
