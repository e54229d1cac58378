//! `wuji doctor`: the machine as Wuji sees it.

use crate::cache::Found;
use crate::failure::Done;
use crate::json::Object;
use crate::{growing, profile};
use clap::Args;
use std::io::Write;
use wuji_llvm::{Host, Jit, JitOptions, llvm_version};
use wuji_runtime::gpu::Driver;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wuji doctor                        what Wuji found on this machine
  wuji doctor --json                 the same for programs
  wuji doctor --bench-compile        where the time goes when kernels are compiled
  wuji doctor --bench-compile --json the same for programs, one object a line
")]
pub(crate) struct Doctor {
    /// Compile a fixed set of kernels and print where the time goes; then kernels of 100 to 20,000
    /// instructions and the time that each instruction takes.
    ///
    /// The first table has a row for each pass: Wuji's, LLVM's, choosing instructions, linking; for both
    /// tiers (`fast` is what a kernel starts with, `best` what it gets once it proves hot). Everything
    /// is compiled on one thread, several times, and the least time counts. The second table should
    /// show about the same time per instruction in all columns.
    #[arg(long)]
    bench_compile: bool,

    /// One JSON object a line instead of tables.
    #[arg(long)]
    json: bool,

    /// How often each kernel is compiled.
    #[arg(long, value_name = "N", default_value_t = 5, requires = "bench_compile",
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
}

impl Doctor {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Done {
        // What is wrong with it is said at the end.
        let host = Host::detect().ok();
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let driver = Driver::find();
        let cache = Found::look();
        if self.json {
            let object = Object::new()
                .text("kind", "machine")
                .count("threads", threads as u64)
                .text("wuji", env!("CARGO_PKG_VERSION"));
            let object = match &host {
                Some(host) => object
                    .text("triple", &host.triple)
                    .text("cpu", &host.cpu)
                    .count("vector_bits", host.vector_bits().into())
                    .count("preferred_vector_bits", host.preferred_vector_bits().into())
                    .text("llvm", &llvm_version()?)
                    .text("features", &host.features),
                None => object.null("llvm"),
            };
            let object = match driver {
                Some(driver) => object.text("gpu_driver", &driver.to_string()),
                None => object.null("gpu_driver"),
            };
            writeln!(out, "{}", cache.json(object).end())?;
        } else {
            writeln!(out, "wuji      {}", env!("CARGO_PKG_VERSION"))?;
            match &host {
                Some(host) => {
                    writeln!(out, "llvm      {}", llvm_version()?)?;
                    writeln!(out, "cpu       {} ({})", host.cpu, host.triple)?;
                    let (most, preferred) = (host.vector_bits(), host.preferred_vector_bits());
                    let features = present(host);
                    writeln!(
                        out,
                        "vectors   {most} bits, {preferred} preferred: {features}"
                    )?;
                }
                None => writeln!(out, "llvm      not found")?,
            }
            writeln!(out, "threads   {threads}")?;
            match driver {
                Some(driver) => writeln!(out, "gpu       driver for {driver}; not used yet")?,
                None => writeln!(out, "gpu       no driver found; none is needed")?,
            }
            writeln!(out, "cache     {}", cache.line())?;
        }
        out.flush()?;
        // Says what is wrong when code cannot be made here.
        let jit = Jit::new(&JitOptions {
            verify: false,
            ..JitOptions::default()
        })?;
        if self.bench_compile {
            profile::print(&jit, self.rounds, self.json, out)?;
            growing::print(&jit, self.rounds, self.json, out)?;
        } else if !self.json {
            let how_fast = "`wuji doctor --bench-compile` says how fast";
            writeln!(out, "\ncode can be made and loaded; {how_fast}")?;
        }
        Ok(())
    }
}

/// The features that matter to kernels, by name.
fn present(host: &Host) -> String {
    const FEATURES: [&str; 9] = [
        "sse4.2",
        "avx",
        "avx2",
        "fma",
        "f16c",
        "avx512f",
        "avx512vl",
        "avx512dq",
        "avx512fp16",
    ];
    let found: Vec<&str> = FEATURES.into_iter().filter(|f| host.has(f)).collect();
    match found.is_empty() {
        true => "none beyond the baseline".into(),
        false => found.join(" "),
    }
}
