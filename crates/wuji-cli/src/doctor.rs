//! `wuji doctor`: the machine as Wuji sees it.

use crate::cache::Found;
use crate::failure::{Done, Failure};
use crate::{growing, profile};
use clap::Args;
use serde_json::{Value, json};
use std::io::Write;
use wuji_llvm::{Host, Jit, JitOptions, llvm_version};
use wuji_runtime::cuda::{self, DeviceInfo, Driver, LibdeviceChoice};

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

    /// Try the driver and the first GPU, a line for each thing tried; nothing else.
    #[arg(long, hide = true, conflicts_with_all = ["bench_compile", "json"])]
    gpu_check: bool,
}

impl Doctor {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Done {
        if self.gpu_check {
            return match cuda::check(out)?? {
                true => Ok(()),
                false => Err(Failure::Told),
            };
        }
        // What is wrong with it is said at the end.
        let host = Host::detect().ok();
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let driver = Driver::find();
        let gpus = driver.map(|_| cuda::devices());
        let cache = Found::look();
        if self.json {
            let mut machine = json!({
                "kind": "machine",
                "threads": threads,
                "wuji": env!("CARGO_PKG_VERSION"),
                "llvm": null,
                "gpu_driver": driver.map(|driver| driver.to_string()),
                "libdevice": LibdeviceChoice::Find.path().map(|path| path.display().to_string()),
            });
            if let Some(host) = &host {
                machine["triple"] = json!(host.triple);
                machine["cpu"] = json!(host.cpu);
                machine["vector_bits"] = json!(host.vector_bits());
                machine["preferred_vector_bits"] = json!(host.preferred_vector_bits());
                machine["llvm"] = json!(llvm_version()?);
                machine["features"] = json!(host.features);
            }
            cache.add_to(&mut machine);
            writeln!(out, "{machine}")?;
            for gpu in gpus.iter().flatten().flatten() {
                writeln!(out, "{}", gpu_json(gpu))?;
            }
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
            match (driver, &gpus) {
                (Some(driver), Some(Ok(gpus))) if !gpus.is_empty() => {
                    writeln!(out, "gpu       driver for {driver}")?;
                    for gpu in gpus {
                        writeln!(out, "          {}", gpu_line(gpu))?;
                    }
                    match LibdeviceChoice::Find.path() {
                        Some(path) => writeln!(out, "          libdevice {}", path.display())?,
                        None => writeln!(out, "          no libdevice found; none is needed")?,
                    }
                }
                (Some(driver), Some(Err(error))) => {
                    let why = error.notes.first().unwrap_or(&error.message);
                    writeln!(out, "gpu       driver for {driver}; {why}")?;
                }
                (Some(driver), _) => writeln!(out, "gpu       driver for {driver}; no device")?,
                (None, _) => writeln!(out, "gpu       no driver found; none is needed")?,
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

/// `0: NVIDIA H200, sm_90, 132 multiprocessors at 1.98 GHz, 139.8 GiB`.
fn gpu_line(gpu: &DeviceInfo) -> String {
    let (major, minor) = gpu.capability;
    format!(
        "{}: {}, sm_{major}{minor}, {} multiprocessors at {:.2} GHz, {:.1} GiB",
        gpu.ordinal,
        gpu.name,
        gpu.multiprocessors,
        f64::from(gpu.clock_khz) / 1e6,
        gpu.memory as f64 / f64::from(1 << 30),
    )
}

fn gpu_json(gpu: &DeviceInfo) -> Value {
    let (major, minor) = gpu.capability;
    json!({
        "kind": "gpu",
        "ordinal": gpu.ordinal,
        "name": gpu.name,
        "sm": format!("{major}{minor}"),
        "memory_bytes": gpu.memory,
        "multiprocessors": gpu.multiprocessors,
        "clock_khz": gpu.clock_khz,
        "warp": gpu.warp,
        "threads_per_multiprocessor": gpu.threads_per_multiprocessor,
        "registers_per_multiprocessor": gpu.registers_per_multiprocessor,
        "blocks_per_multiprocessor": gpu.blocks_per_multiprocessor,
        "shared_bytes_per_block": gpu.shared_per_block,
        "shared_bytes_per_multiprocessor": gpu.shared_per_multiprocessor,
        "l2_bytes": gpu.l2_bytes,
    })
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
