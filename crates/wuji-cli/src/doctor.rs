//! `wuji doctor`: what Wuji found on this machine.

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
  wuji doctor                        show what Wuji found on this machine
  wuji doctor --json                 the same as JSON
  wuji doctor --bench-compile        measure compile times, pass by pass
  wuji doctor --bench-compile --json the same as JSON, one object per line
")]
pub(crate) struct Doctor {
    /// Measure compile times: of a fixed set of kernels pass by pass, and per instruction for kernels of
    /// 100 to 20,000 instructions.
    ///
    /// The first table has a row for each pass: Wuji's, LLVM's, instruction selection, linking; for both
    /// tiers (a kernel starts with `fast` code and gets `best` code when it is hot). Each kernel is compiled
    /// several times on one thread, and the minimum is shown. The second table should show about the same
    /// time per instruction in all columns.
    #[arg(long)]
    bench_compile: bool,

    /// Print one JSON object per line instead of tables.
    #[arg(long)]
    json: bool,

    /// Number of compilations of each kernel.
    #[arg(long, value_name = "N", default_value_t = 5, requires = "bench_compile",
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,

    /// Test the driver and the first GPU, with one line per test.
    #[arg(long, hide = true, conflicts_with_all = ["bench_compile", "json"])]
    gpu_check: bool,
}

impl Doctor {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Done {
        if self.gpu_check {
            return if wuji_tools::gpu_check::check(out)?? {
                Ok(())
            } else {
                Err(Failure::Reported)
            };
        }
        // The JIT reports a missing LLVM below.
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
                        None => writeln!(out, "          libdevice not found (optional)")?,
                    }
                }
                (Some(driver), Some(Err(error))) => {
                    let why = error.notes.first().unwrap_or(&error.message);
                    writeln!(out, "gpu       driver for {driver}; {why}")?;
                }
                (Some(driver), _) => writeln!(out, "gpu       driver for {driver}; no device")?,
                (None, _) => writeln!(out, "gpu       driver not found (optional)")?,
            }
            writeln!(out, "cache     {}", cache.line())?;
        }
        out.flush()?;
        // Fails if code generation does not work on this machine.
        let jit = Jit::new(&JitOptions {
            verify: false,
            ..JitOptions::default()
        })?;
        if self.bench_compile {
            profile::print(&jit, self.rounds, self.json, out)?;
            growing::print(&jit, self.rounds, self.json, out)?;
        } else if !self.json {
            let hint = "`wuji doctor --bench-compile` measures compile times";
            writeln!(out, "\ncode generation works; {hint}")?;
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
        "pages_on_demand": gpu.pages_on_demand,
    })
}

/// The names of the CPU features that affect kernels.
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
    if found.is_empty() {
        "none beyond the baseline".into()
    } else {
        found.join(" ")
    }
}
