//! `wuji tune layout`: chooses the layout of fields.

use crate::failure::{Done, Failure};
use crate::input::Input;
use crate::options::{CompileArgs, MathMode};
use crate::tune::{Language, TrialArgs, outputs, read, save, start, values};
use clap::Args;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;
use wuji::tune::{LayoutPlan, LayoutRequest, LayoutRun, Output, grids, relayout, search_layout};
use wuji_examples::progress::Progress;
use wuji_ir::entities::Field;
use wuji_ir::module::Module;
use wuji_ir::{Error, Result};
use wuji_runtime::{Device, DeviceOptions, Tier};
use wuji_tools::script::{Start, Subject};

#[derive(Args, Debug)]
#[command(after_help = "\
Candidates: blocks of 4, 8, 16 and 32 cells along each axis; row-major, column-major and Morton order; all fields in one
cell (AoS), a node for each field (SoA), a node for each component; for trees with sparse nodes also pointer, bitmasked and
hash nodes. A tree is tuned if all its fields have the same axes and extents; lists and quantized fields stay as they are.

The first launch of a layout compiles the kernel and is not measured. Of several runs (`--repeats`) the fastest counts. A
layout whose outputs differ by more than `--tolerance` is marked with x and never chosen.

Inputs are those of `--set`, otherwise of the first `; run:` line of the file (docs/ir.md, \"Runs\").
For programs in Rust see `wuji::tune::layout`.

Examples (paths are relative to the repository):
  wuji tune layout crates/wuji-cli/kernels/advect.wir --outputs moved
                                  the fastest layout on the CPU
  wuji tune layout crates/wuji-cli/kernels/advect.wir --outputs moved --backend cuda --launches 100
                                  on the first GPU, with 100 launches per run
  wuji tune layout crates/wuji-cli/kernels/advect.wir --outputs moved --code python --write fast.wir
                                  print the code in Python, and write the kernel with the fastest layout
")]
pub(crate) struct Layout {
    #[command(flatten)]
    input: Input,

    /// Fields whose elements are compared, by name or number (`f0`); `result` is what the kernel returns.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', required = true)]
    outputs: Vec<String>,

    /// The largest error of outputs, relative to the layout of the file.
    #[arg(long, value_name = "ERROR", default_value_t = 1e-4)]
    tolerance: f64,

    /// Trees that keep their layout: `T0`.
    #[arg(long, value_name = "TREES", value_delimiter = ',')]
    keep: Vec<String>,

    /// Launches that are measured together.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    launches: u64,

    /// Runs of each layout.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeats: u32,

    #[command(flatten)]
    trials: TrialArgs,

    /// Write the kernel with the chosen layout in textual IR.
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,

    #[command(flatten)]
    compile: CompileArgs,
}

impl Layout {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Done {
        let text = read(&self.input, "programs in Rust use `wuji::tune::layout`")?;
        let module = text.module()?;
        let outputs = outputs(&module, &self.outputs)?;
        let start = start(&text, &module, &self.trials.set)?;
        let device = Device::new(&DeviceOptions {
            backend: self.trials.backend.kind(),
            threads: self.trials.threads,
            // Code that is exchanged during a run would disturb its time.
            tier: Tier::Best,
            ..DeviceOptions::default()
        })?;
        device.stop_on_ctrl_c()?;
        // What kernels print is not an output.
        device.set_printer(|_| Ok(()));
        let request = LayoutRequest {
            tolerance: self.tolerance,
            repeats: self.repeats as usize,
            keep: self.keep.clone(),
        };
        let mut bar: Option<Progress> = None;
        let mut total = 0;
        let mut run = |plan: &LayoutPlan| self.observe(&device, &module, &start, &outputs, plan);
        let found = search_layout(&request, &mut run, &mut |step| {
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
        let code = match self.trials.code {
            Language::Rust => tuned.rust(),
            Language::Python => tuned.python(),
        };
        write!(out, "{}\n{code}", tuned.report())?;
        out.flush()?;
        if let Some(path) = &self.write {
            save(path, &relayout(&module, &tuned.point().plan)?.to_string())?;
        }
        Ok(())
    }

    /// Runs the kernel with a layout: once for its code, then again from the same inputs.
    fn observe(
        &self,
        device: &Device,
        module: &Module,
        start: &Start,
        outputs: &[(String, Option<Field>)],
        plan: &LayoutPlan,
    ) -> Result<LayoutRun> {
        let placed = relayout(module, plan)?;
        let options = self.compile.options(MathMode::Default);
        let mut subject = Subject::new(device, &placed, &options)?;
        subject.run(start)?;
        if let Some(error) = subject.reported() {
            return Err(error);
        }
        subject.begin(start)?;
        let before = Instant::now();
        for _ in 0..self.launches {
            subject.launch(start)?;
        }
        let seconds = before.elapsed().as_secs_f64();
        if let Some(error) = subject.reported() {
            return Err(error);
        }
        subject.finish()?;
        let mut found = Vec::new();
        for (name, field) in outputs {
            found.push(Output {
                name: name.clone(),
                values: values(&subject, *field)?,
            });
        }
        Ok(LayoutRun {
            grids: grids(module),
            seconds,
            bytes: subject.instance().memory_used(),
            outputs: found,
        })
    }
}
