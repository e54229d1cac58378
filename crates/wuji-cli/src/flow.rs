//! `wuji flow`: the state-flow graph of a sequence of launches.

use crate::failure::{Done, Failure};
use crate::input::Text;
use crate::options::{CompileArgs, MathMode};
use clap::error::ErrorKind;
use clap::{Args, ValueEnum};
use std::io::Write;
use wuji_flow::print::{Names, dot, svg, text};
use wuji_flow::rules::fusion::unfused;
use wuji_flow::{Bank, Switches, Window};
use wuji_ir::Result;
use wuji_ir::module::Module;

/// More tasks than any window has.
const MOST_LAUNCHES: usize = 4096;

#[derive(Args, Debug)]
#[command(after_help = "\
Each file is one launch, in this order. Trees that are described in the same way are the same tree. Nothing runs, and by-value
arguments are taken to be zero. For programs see `World::flow_graph` in Rust and `ti.flow_graph` in Python.

Examples (paths are relative to the repository):
  wuji flow crates/wuji-cli/kernels/saxpy.wir --times 4               the graph before and after optimization
  wuji flow crates/wuji-cli/kernels/saxpy.wir --times 4 --emit ir     the tasks that are left, as kernels
  wuji flow crates/wuji-cli/kernels/saxpy.wir --times 2 --without task_fusion
  wuji flow crates/wuji-cli/kernels/squares.wir --emit svg > flow.svg
")]
pub(crate) struct Flow {
    /// Kernels in textual IR (docs/ir.md), in the order of their launches; `-` is standard input.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<String>,

    /// Launch the whole sequence this many times.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    times: u16,

    /// What to print.
    #[arg(long, value_name = "WHAT", default_value = "text")]
    emit: Emit,

    /// Print only the graph before optimization.
    #[arg(long)]
    before: bool,

    /// Nothing reads this field, or others of its tree, after the launches. May be given several times.
    #[arg(long, value_name = "FIELD")]
    temporary: Vec<String>,

    #[command(flatten)]
    compile: CompileArgs,
}

#[derive(ValueEnum, Copy, Clone, PartialEq, Eq, Debug)]
enum Emit {
    /// Tasks with the states they read and write, and why they were not fused.
    Text,
    /// For Graphviz.
    Dot,
    /// A drawing.
    Svg,
    /// The tasks as kernels.
    Ir,
}

impl Flow {
    /// The trees of temporary fields.
    fn temporaries(&self, names: &Names) -> std::result::Result<Vec<u32>, Failure> {
        let tree_of = |name: &String| {
            let tree = names.0.iter().position(|fields| fields.contains(name));
            tree.map(|tree| tree as u32).ok_or_else(|| {
                let why = format!("there is no field `{name}` in these kernels");
                Failure::usage("flow", ErrorKind::ValueValidation, &why)
            })
        };
        self.temporary.iter().map(tree_of).collect()
    }

    pub(crate) fn run(&self, out: &mut dyn Write) -> Done {
        let files = self.files.iter().map(|file| Text::read(file)?.module());
        let kernels: Vec<Module> = files.collect::<Result<_>>()?;
        let count = kernels.len() * usize::from(self.times);
        if count > MOST_LAUNCHES {
            let why = format!(
                "{count} launches are more than a window has; the most are {MOST_LAUNCHES}"
            );
            return Err(Failure::usage("flow", ErrorKind::ValueValidation, &why));
        }
        let modules: Vec<Module> = kernels.iter().cycle().take(count).cloned().collect();
        let mut options = self.compile.options(MathMode::Default);
        let mut switches = Switches::without(&options.without);
        switches.fuel = options.fuel.take();
        let mut bank = Bank::new(&options);
        let (mut window, names) = Window::of_modules(&modules, &mut bank)?;
        window.temporaries = self.temporaries(&names)?;
        let before = window.graph();
        let after = window.optimized(&mut bank, &switches);
        let shown = if self.before { &before } else { &after };
        match self.emit {
            Emit::Dot => write!(out, "{}", dot(shown, &names))?,
            Emit::Svg => write!(out, "{}", svg(shown, &names))?,
            Emit::Ir => {
                for node in &shown.nodes {
                    writeln!(out, "{}", node.task.module)?;
                }
            }
            Emit::Text => {
                writeln!(
                    out,
                    "before: {} tasks\n{}",
                    before.nodes.len(),
                    text(&before, &[], &names)
                )?;
                if !self.before {
                    let left = if switches.fusion {
                        unfused(&after, &options)
                    } else {
                        Vec::new()
                    };
                    let shown = text(&after, &left, &names);
                    write!(out, "after: {} tasks\n{shown}", after.nodes.len())?;
                }
            }
        }
        Ok(())
    }
}
