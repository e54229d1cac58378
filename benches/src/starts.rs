//! Start-up time of a program, with an empty and a full kernel cache, and the cost of an idle world.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use wuji::prelude::*;
use wuji::{CacheChoice, Level};

use crate::case::Case;
use crate::measure::{Clock, Row, median};
use crate::study::{Bench, Study};
use crate::workloads::mpm2d::Mpm2d;

pub fn all() -> Vec<Box<dyn Study>> {
    vec![Box::new(Start), Box::new(Idle)]
}

fn text(error: wuji::Error) -> String {
    error.to_string()
}

fn row(study: &dyn Study, (metric, goal, value): (&str, f64, f64)) -> Row {
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

struct Start;

/// Environment variable with the cache folder; it marks a child process to measure.
const CHILD: &str = "WUJI_BENCH_START";

/// In a child process: starts, runs once, and prints how long the same run takes without compilation. `None` in any
/// other process.
pub fn child() -> Option<Result<(), String>> {
    let folder = std::env::var_os(CHILD)?;
    let start = || {
        let choice = CacheChoice::Folder(folder.into());
        let world = World::builder().cache(choice).log(Level::Warn).build();
        let world = world.map_err(text)?;
        let mut mpm = Mpm2d.wuji(&world).map_err(text)?;
        mpm.run()?;
        if std::env::args().any(|word| word == "finish") {
            world.finish_compiling().map_err(text)?;
        }
        let began = Clock::Wall.now();
        mpm.run()?;
        println!("{}", (Clock::Wall.now() - began) * 1e3);
        Ok(())
    };
    Some(start())
}

/// Milliseconds from the start of a process to the end of its first run, minus the time of that run itself.
fn process(folder: &Path, finish: bool) -> Result<f64, String> {
    let own = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut command = Command::new(own);
    command.env(CHILD, folder).stdout(Stdio::piped());
    if finish {
        command.arg("finish");
    }
    let began = Clock::Wall.now();
    let output = command.output().map_err(|e| e.to_string())?;
    let whole = (Clock::Wall.now() - began) * 1e3;
    let said = String::from_utf8_lossy(&output.stdout);
    let run: f64 = said
        .trim()
        .parse()
        .map_err(|_| format!("a process ended early: {said}"))?;
    Ok(whole - 2.0 * run)
}

impl Study for Start {
    fn name(&self) -> &'static str {
        "start"
    }
    fn size(&self) -> String {
        "mpm2d".into()
    }
    fn metric(&self) -> &'static str {
        "cold_ms"
    }

    /// Milliseconds; the reference is the goal, so a ratio above 1 beats the goal.
    fn rows(&self, bench: &Bench) -> Result<Vec<Row>, String> {
        let folder = std::env::temp_dir().join(format!("wuji-start-{}", std::process::id()));
        let (mut cold, mut warm) = (Vec::new(), Vec::new());
        for _ in 0..bench.pairs {
            let _ = std::fs::remove_dir_all(&folder);
            cold.push(process(&folder, false)?);
        }
        // A long-running process leaves the best code in the cache.
        process(&folder, true)?;
        for _ in 0..bench.pairs {
            warm.push(process(&folder, false)?);
        }
        let _ = std::fs::remove_dir_all(&folder);
        let rows = [
            ("cold_ms", 100.0, median(&mut cold)),
            ("warm_ms", 30.0, median(&mut warm)),
        ];
        Ok(rows.map(|r| row(self, r)).into())
    }
}

struct Idle;

#[kernel]
fn halve(x: &Field<f32, 1>) {
    for [i] in block_size(128, x) {
        x[[i]] = x[[i]] * 0.5 + 1.0;
    }
}

impl Study for Idle {
    fn name(&self) -> &'static str {
        "idle"
    }
    fn size(&self) -> String {
        "1024 elements".into()
    }
    fn metric(&self) -> &'static str {
        "shared_us"
    }

    fn rows(&self, bench: &Bench) -> Result<Vec<Row>, String> {
        let world = bench.world(&[])?;
        let x = world.field::<f32, 1>("x", 1024).map_err(text)?;
        halve(&x).map_err(text)?;
        let time = |before: Duration, count: usize| -> Result<f64, String> {
            let mut times = Vec::new();
            for _ in 0..bench.pairs * 20 {
                std::thread::sleep(before);
                let began = Clock::Wall.now();
                for _ in 0..count {
                    halve(&x).map_err(text)?;
                }
                times.push((Clock::Wall.now() - began) * 1e6 / count as f64);
            }
            Ok(median(&mut times))
        };
        let shared = time(Duration::ZERO, 100)?;
        let after = time(Duration::from_millis(10), 1)?;
        let began = Clock::Cpu.now();
        std::thread::sleep(Duration::from_secs(2));
        let percent = (Clock::Cpu.now() - began) / 2.0 * 100.0;
        let rows = [
            ("shared_us", 6.0, shared),
            ("after_10ms_us", 50.0, after),
            ("idle_cpu_percent", 1.0, percent.max(1e-6)),
        ];
        Ok(rows.map(|r| row(self, r)).into())
    }
}
