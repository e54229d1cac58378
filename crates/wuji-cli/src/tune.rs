//! `wuji tune`: chooses the types and the layout of fields.

use crate::failure::{Done, Failure, print_line};
use crate::input::{Input, Text};
use crate::options::{CompileArgs, MathMode};
use crate::tune_layout::Layout;
use clap::{Args, Subcommand, ValueEnum};
use std::collections::HashMap;
use std::io::Write;
use std::path::PathBuf;
use wuji::tune::{
    Goal, Norm, Observation, Output, Range, Request, StoragePlan, TunedField, field_named, retype,
    search, tunable, unknown,
};
use wuji_examples::progress::Progress;
use wuji_ir::entities::Field;
use wuji_ir::module::Module;
use wuji_ir::types::Imm;
use wuji_ir::{Error, Result};
use wuji_runtime::{Device, DeviceOptions};
use wuji_tools::script::{self, Left, Source, Start, Subject};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples (paths are relative to the repository):
  wuji tune quant crates/wuji-cli/kernels/oscillators.wir --outputs x --error 1e-3
  wuji tune quant --help          describe the search and its options
  wuji tune layout crates/wuji-cli/kernels/advect.wir --outputs moved
  wuji tune layout --help         the same for layouts
")]
pub(crate) struct Tune {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Choose the bits of fields: the least memory below an error bound, or the smallest error within a budget.
    ///
    /// The kernel runs with the types of the file first, and the range of each field is observed. Then it runs with
    /// each field in fixed-point numbers, floating-point numbers and, for vectors, fractions with a shared exponent, and
    /// the outputs are compared. Combinations of types that look best are run, too; all errors in the table are those
    /// of runs. Prints the ranges, the Pareto front of memory and error, a plot, and code.
    Quant(Quant),

    /// Choose the layout of fields: blocks, order, array of structs or structure of arrays, and kinds of sparse nodes.
    ///
    /// The kernel runs with the layout of the file first. Then it runs with other layouts of each tree, one property at a
    /// time, and keeps what is faster. Outputs are compared with those of the first run. Prints a table of all layouts and
    /// the code of the fastest.
    Layout(Layout),
}

#[derive(Args, Debug)]
#[command(after_help = "\
The error is the root mean square of the differences, relative to that of the reference; `--norm max` takes the largest
difference. With several outputs, it is that of the worst. Types get bits for 10% more than the observed range
(`--reserve`); integers get the bits that they need.

Inputs are those of `--set`, otherwise of the first `; run:` line of the file (docs/ir.md, \"Runs\").
For programs in Rust see `wuji::tune`, for programs in Python `wuji.tune`.

Examples (paths are relative to the repository):
  wuji tune quant crates/wuji-cli/kernels/oscillators.wir --outputs x --error 1e-3
                                  the least memory with at most this error
  wuji tune quant crates/wuji-cli/kernels/oscillators.wir --outputs x,v --memory 40%
                                  the smallest error in 40% of the memory
  wuji tune quant crates/wuji-cli/kernels/oscillators.wir --outputs x --error 1e-3 --launches 200 --keep kind
                                  more launches; the type of one field stays
  wuji tune quant crates/wuji-cli/kernels/oscillators.wir --outputs x --error 1e-3 --plot front.svg --write packed.wir
                                  write the plot, and the kernel with the chosen types
")]
struct Quant {
    #[command(flatten)]
    input: Input,

    /// Fields whose elements are compared, by name or number (`f0`); `result` is what the kernel returns.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', required = true)]
    outputs: Vec<String>,

    /// Search the least memory with at most this error.
    #[arg(long, value_name = "BOUND", required_unless_present = "memory")]
    error: Option<f64>,

    /// Search the smallest error with at most this memory for all tuned fields: `40%`, `64KiB`, or bytes.
    #[arg(long, value_name = "BUDGET", conflicts_with = "error", value_parser = budget)]
    memory: Option<Goal>,

    /// Fields whose types are chosen; by default all.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    fields: Vec<String>,

    /// Fields that keep their types.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    keep: Vec<String>,

    /// How outputs are compared.
    #[arg(long, default_value = "rms")]
    norm: NormName,

    /// The part that is added to the observed range of each field of floats.
    #[arg(long, value_name = "PART", default_value_t = 0.1)]
    reserve: f64,

    /// About how many combinations of types are run.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    points: u32,

    /// Launches of each run.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    launches: u64,

    #[command(flatten)]
    trials: TrialArgs,

    /// Write the plot to an SVG file.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,

    /// Write the kernel with the chosen types in textual IR.
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,

    #[command(flatten)]
    compile: CompileArgs,
}

/// How both searches run a kernel, and show what they chose.
#[derive(Args, Debug)]
pub(crate) struct TrialArgs {
    /// Input values, as for `wuji run`; may be repeated.
    #[arg(long, value_name = "VALUES")]
    pub(crate) set: Vec<String>,

    /// The backend that runs the kernel.
    #[arg(long, default_value = "cpu")]
    pub(crate) backend: crate::run::Backend,

    /// Number of worker threads; by default all cores.
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,

    /// The language of the code.
    #[arg(long, default_value = "rust")]
    pub(crate) code: Language,
}

#[derive(ValueEnum, Copy, Clone, PartialEq, Eq, Debug)]
enum NormName {
    /// Root mean square.
    Rms,
    /// The largest difference.
    Max,
}

#[derive(ValueEnum, Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Language {
    Rust,
    Python,
}

impl Tune {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Done {
        match &self.command {
            Command::Quant(quant) => quant.run(out),
            Command::Layout(layout) => layout.run(out),
        }
    }
}

impl Quant {
    fn run(&self, out: &mut dyn Write) -> Done {
        let text = read(
            &self.input,
            "run the command of the Python package: `python -m wuji tune quant`",
        )?;
        let module = text.module()?;
        let request = self.request(&module)?;
        let outputs = outputs(&module, &self.outputs)?;
        let start = start(&text, &module, &self.trials.set)?;
        let device = Device::new(&DeviceOptions {
            backend: self.trials.backend.kind(),
            threads: self.trials.threads,
            ..DeviceOptions::default()
        })?;
        device.stop_on_ctrl_c()?;
        // What kernels print is not an output.
        device.set_printer(|_| Ok(()));
        let mut run = |plan: &StoragePlan| self.observe(&device, &module, &start, &outputs, plan);
        let mut bar: Option<Progress> = None;
        let mut total = 0;
        let found = search(&request, &mut run, &mut |step| {
            if total != step.total {
                total = step.total;
                bar = Some(Progress::new(total));
            }
            if let Some(bar) = &mut bar {
                bar.show(step.done, step.note);
            }
        });
        let tuned = found.map_err(|error: Error| Failure::from(error))?;
        if let Some(bar) = &mut bar {
            bar.show(total, "done");
        }
        writeln!(out, "{}", tuned.report())?;
        let code = match self.trials.code {
            Language::Rust => tuned.rust(),
            Language::Python => tuned.python(),
        };
        write!(out, "{code}")?;
        out.flush()?;
        if let Some(path) = &self.plot {
            save(path, &tuned.svg())?;
        }
        if let Some(path) = &self.write {
            save(path, &retype(&module, &tuned.point().plan)?.to_string())?;
        }
        Ok(())
    }

    fn request(&self, module: &Module) -> Done<Request> {
        let fields: Vec<TunedField> = tunable(module).into_iter().map(|f| f.1).collect();
        let known = |name: &String| {
            let field = field_named(module, name);
            let name = field.map(|f| wuji::tune::field_name(module, f));
            let found = fields.iter().find(|f| Some(&f.name) == name.as_ref());
            found.map(|f| f.name.clone())
        };
        let all = |names: &[String]| {
            let found = names
                .iter()
                .map(|name| known(name).ok_or_else(|| unknown(name, &fields)));
            found
                .collect::<Result<Vec<String>>>()
                .map_err(Failure::Usage)
        };
        let mut keep = all(&self.keep)?;
        let chosen = all(&self.fields)?;
        if !chosen.is_empty() {
            let others = fields.iter().filter(|f| !chosen.contains(&f.name));
            keep.extend(others.map(|f| f.name.clone()));
        }
        let bound = self.error.map(Goal::Error);
        Ok(Request {
            goal: bound.or(self.memory).unwrap_or(Goal::Error(1e-3)),
            norm: match self.norm {
                NormName::Rms => Norm::Rms,
                NormName::Max => Norm::Max,
            },
            reserve: self.reserve,
            keep,
            points: self.points as usize,
        })
    }

    /// Runs the kernel with fields that are stored by a plan.
    fn observe(
        &self,
        device: &Device,
        module: &Module,
        start: &Start,
        outputs: &[(String, Option<Field>)],
        plan: &StoragePlan,
    ) -> Result<Observation> {
        let typed = retype(module, plan)?;
        let options = self.compile.options(MathMode::Strict);
        let mut subject = Subject::new(device, &typed, &options)?;
        let mut fields = if plan.is_reference() {
            tunable(module)
        } else {
            Vec::new()
        };
        subject.begin(start)?;
        look(&mut subject, &mut fields)?;
        for _ in 0..self.launches {
            subject.launch(start)?;
            if let Some(error) = subject.reported() {
                return Err(error);
            }
            look(&mut subject, &mut fields)?;
        }
        subject.finish()?;
        let mut found = Vec::new();
        for (name, field) in outputs {
            found.push(Output {
                name: name.clone(),
                values: values(&subject, *field)?,
            });
        }
        Ok(Observation {
            fields: fields.into_iter().map(|f| f.1).collect(),
            outputs: found,
        })
    }
}

/// Reads a file of textual IR.
pub(crate) fn read(input: &Input, python: &'static str) -> Done<Text> {
    if input.file.ends_with(".py") {
        let what = format!("{} is a program in Python, not textual IR", input.file);
        return Err(Failure::Usage(Error::new("W0160", what).help(python)));
    }
    Ok(Text::read(&input.file)?)
}

/// The outputs by name; `None` is the result.
pub(crate) fn outputs(module: &Module, names: &[String]) -> Done<Vec<(String, Option<Field>)>> {
    let mut found = Vec::new();
    for name in names {
        let field = field_named(module, name);
        let has_result = module.kernel_func().is_some_and(|f| !f.results.is_empty());
        if field.is_none() && !(name == "result" && has_result) {
            let names: Vec<String> = (module.fields.keys())
                .map(|f| format!("`{}`", wuji::tune::field_name(module, f)))
                .collect();
            let error = Error::new("W0160", format!("there is no output `{name}`"))
                .note(format!("the fields are {}", names.join(", ")));
            return Err(Failure::Usage(error));
        }
        found.push((name.clone(), field));
    }
    Ok(found)
}

/// The inputs of `--set`; else those of the first run of the file; else zero.
pub(crate) fn start(text: &Text, module: &Module, set: &[String]) -> Done<Start> {
    if !set.is_empty() {
        let read = || {
            let mut entries = Vec::new();
            for set in set {
                entries.extend(Source::new(set.as_str()).before()?);
            }
            Start::new(module, &entries)
        };
        return read().map_err(Failure::Usage);
    }
    match script::runs(&text.text, &text.name).into_iter().next() {
        Some(source) => Ok(Start::new(module, &source.run()?.before)?),
        None => Ok(Start::new(module, &[])?),
    }
}

/// Adds the numbers of fields to their ranges.
fn look(subject: &mut Subject<'_>, fields: &mut [(Field, TunedField)]) -> Result<()> {
    if fields.is_empty() {
        return Ok(());
    }
    subject.finish()?;
    for (field, tuned) in fields {
        let range: &mut Range = &mut tuned.range;
        match subject.sparse().iter().find(|s| s.0 == *field) {
            None => {
                for value in subject.field(*field)? {
                    range.add(number(value));
                }
            }
            Some((_, cells)) => {
                // Memory is that of active elements.
                tuned.cells = cells.len().max(1) as u64;
                let values = cells.values().flatten();
                values.for_each(|value| range.add(number(*value)));
            }
        }
    }
    Ok(())
}

/// The numbers of an output. Inactive elements are zero.
pub(crate) fn values(subject: &Subject<'_>, field: Option<Field>) -> Result<Vec<f64>> {
    let Some(field) = field else {
        let result = subject.result().unwrap_or_default();
        return Ok(result.iter().map(|v| number(*v)).collect());
    };
    let Some((_, cells)) = subject.sparse().iter().find(|s| s.0 == field) else {
        return Ok(subject.field(field)?.into_iter().map(number).collect());
    };
    let module = subject.instance().module();
    let data = &module.fields[field];
    let domain = data.domain(&module.trees);
    let count = domain.iter().fold(1u64, |n, d| n.saturating_mul(d.1));
    if count > MOST_ELEMENTS {
        let what = format!(
            "the output `{}` has {count} elements, most of them inactive",
            data.name
        );
        return Err(Error::new("W0160", what)
            .help("compare a field that the kernel computes from it, such as a sum"));
    }
    let scalars = module.structs.flatten(data.elem).len();
    let mut all = vec![0.0; count as usize * scalars];
    for (at, values) in cells {
        let index = at.iter().zip(&domain).fold(0, |n, (c, (from, extent))| {
            n * *extent as usize + (c - from) as usize
        });
        for (k, value) in values.iter().enumerate() {
            all[index * scalars + k] = number(*value);
        }
    }
    Ok(all)
}

/// The most elements of an output below sparse nodes.
const MOST_ELEMENTS: u64 = 1 << 26;

fn number(value: Imm) -> f64 {
    let integer = || value.as_int().map(|n| n as f64);
    value.as_float().or_else(integer).unwrap_or(0.0)
}

pub(crate) fn save(path: &PathBuf, text: &str) -> Done {
    let written = std::fs::write(path, text);
    written.map_err(|e| {
        let what = format!("cannot write {}", path.display());
        Failure::Failed(Error::new("W0515", what).note(e.to_string()))
    })?;
    print_line(&format!("wrote {}", path.display()));
    Ok(())
}

/// `40%`, `64KiB`, `1.5MB` or bytes.
fn budget(text: &str) -> std::result::Result<Goal, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == '%');
    let units = HashMap::from([
        ("", 1.0),
        ("B", 1.0),
        ("kB", 1e3),
        ("KB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("KiB", 1024.0),
        ("MiB", 1024.0 * 1024.0),
        ("GiB", 1024.0 * 1024.0 * 1024.0),
    ]);
    let number: f64 = digits
        .parse()
        .map_err(|_| format!("`{digits}` is not a number"))?;
    if !(number.is_finite() && number > 0.0) {
        return Err("a budget must be positive".to_owned());
    }
    match &text[digits.len()..] {
        "%" if number > 100.0 => Err("a budget is at most 100%".to_owned()),
        "%" => Ok(Goal::Part(number / 100.0)),
        unit => match units.get(unit) {
            Some(bytes) => Ok(Goal::Bytes((number * bytes) as u64)),
            None => Err("expected `40%`, `64KiB`, or a number of bytes".to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets() {
        assert_eq!(budget("40%"), Ok(Goal::Part(0.4)));
        assert_eq!(budget("64KiB"), Ok(Goal::Bytes(65536)));
        assert_eq!(budget("1.5MB"), Ok(Goal::Bytes(1_500_000)));
        assert_eq!(budget("100"), Ok(Goal::Bytes(100)));
        for bad in ["", "%", "-1", "0", "101%", "5 m", "1XB", "inf", "ä"] {
            budget(bad).unwrap_err();
        }
    }
}
