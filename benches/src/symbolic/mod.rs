//! Traced programs: the applications of the paper against the code that they were traced from, a sparse product against one with a
//! known pattern, and what each stage contributes.

mod ablation;
mod applications;
mod square;

use wuji_symbolic::pipeline::analyze;
use wuji_symbolic::{Options, Program, Sym, Trace};

use crate::case::Contender;
use crate::measure::Row;
use crate::study::{Bench, Side, Study};

pub fn all() -> Vec<Box<dyn Study>> {
    let mut all = applications::all();
    all.push(Box::new(square::Square));
    all.push(Box::new(ablation::Ablation));
    all
}

fn text(error: wuji::Error) -> String {
    error.to_string()
}

/// A program whose inputs are in its memory.
struct Traced(Program<f64, Vec<Vec<Sym>>>);

impl Contender for Traced {
    fn run(&mut self) -> Result<(), String> {
        self.0.launch().map_err(text)
    }

    fn result(&mut self) -> Result<Vec<f32>, String> {
        let output = self.0.output(0).ok_or("no output")?;
        let numbers = output.to_vec().map_err(text)?;
        Ok(numbers.into_iter().map(|x| x as f32).collect())
    }
}

/// Direct evaluation into a vector.
struct Direct<F>(F, Vec<f64>);

impl<F: FnMut(&mut Vec<f64>) -> Result<(), String>> Contender for Direct<F> {
    fn run(&mut self) -> Result<(), String> {
        (self.0)(&mut self.1)
    }

    fn result(&mut self) -> Result<Vec<f32>, String> {
        Ok(self.1.iter().map(|x| *x as f32).collect())
    }
}

fn side(contender: &mut dyn Contender) -> Side<'_> {
    Side {
        contender,
        work: 1.0,
    }
}

fn row(study: &dyn Study, metric: &str, value: f64, goal: f64) -> Row {
    Row {
        workload: study.name().into(),
        size: study.size(),
        backend: "cpu".into(),
        metric: metric.into(),
        value,
        reference: goal,
        ratio: goal / value,
        compile_ms: None,
    }
}

/// The most memory that the process has had since it was last asked, in bytes; 0 where the system does not say.
fn peak_bytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|l| l.split_whitespace().next()?.parse::<f64>().ok());
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    kilobytes.unwrap_or(0.0) * 1024.0
}

fn recorded(
    input: &[f64],
    record: &dyn Fn(&[Sym]) -> wuji::Result<Vec<Sym>>,
) -> Result<Trace, String> {
    let mut failed = None;
    let trace = Trace::record(&[input.len()], |x| {
        let outputs = record(&x[0]).map_err(|e| failed = Some(e));
        vec![outputs.unwrap_or_default()]
    });
    match failed {
        Some(error) => Err(text(error)),
        None => trace.map_err(text),
    }
}

/// Times of the stages in seconds, memory in bytes per node, and the program. Ratios are those of goals to values; `goal` is in seconds
/// for all stages together.
fn prepare(
    study: &dyn Study,
    bench: &Bench,
    input: &[f64],
    record: &dyn Fn(&[Sym]) -> wuji::Result<Vec<Sym>>,
    goal: f64,
) -> Result<(Vec<Row>, Traced), String> {
    let now = || bench.clock.now();
    let began = now();
    let trace = recorded(input, record)?;
    let traced = now() - began;
    let nodes = trace.arena().len() as f64;
    let arena = trace.statistics().bytes as f64 / nodes;
    peak_bytes();
    let before = peak_bytes();
    let start = now();
    analyze(&trace, &Options::default()).map_err(text)?;
    let analyzed = now() - start;
    let most = (peak_bytes() - before) / nodes;
    let world = bench.world(&[])?;
    let start = now();
    let program = Program::compile(&world, &trace, &Options::default()).map_err(text)?;
    program.set_inputs(input).map_err(text)?;
    program.launch().map_err(text)?;
    let compiled = (now() - start - analyzed).max(0.0);
    let rows = vec![
        row(study, "trace_s", traced, 0.5 * goal),
        row(study, "analysis_s", analyzed, 0.4 * goal),
        row(study, "compile_s", compiled, 0.1 * goal),
        row(study, "bytes_per_node", arena, 24.0),
        row(study, "analysis_bytes_per_node", most.max(1.0), 45.0),
    ];
    Ok((rows, Traced(program)))
}
