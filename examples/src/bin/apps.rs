//! Measures the time per step of the sparse applications. The gallery renders their pictures.

use std::process::ExitCode;
use std::time::Instant;

use wuji::prelude::*;
use wuji_examples::apps::{ALL, Entry, Scale};

const USAGE: &str = "\
Usage: apps [NAME...] [OPTIONS]

  --small        use a small problem size
  --steps N      number of measured steps (default 10)
  --threads N    number of worker threads (default: all cores)
  --cpu-time     measure CPU time instead of wall-clock time (Linux)

Prints one JSON object per line. Without names, runs all of ";

struct Options {
    chosen: Vec<Entry>,
    scale: Scale,
    steps: Option<usize>,
    cpu_time: bool,
    threads: Option<usize>,
}

impl Options {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
        let mut options = Options {
            chosen: Vec::new(),
            scale: Scale::Full,
            steps: None,
            cpu_time: false,
            threads: None,
        };
        let names = ALL.map(|entry| entry.name).join(", ");
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("`{word}` needs a value"));
            let number = |text: String| {
                let number = text.parse().ok().filter(|n| *n > 0);
                number.ok_or(format!("`{text}` is not a positive number"))
            };
            match word.as_str() {
                "--small" => options.scale = Scale::Small,
                "--steps" => options.steps = Some(number(value()?)?),
                "--cpu-time" => options.cpu_time = true,
                "--threads" => options.threads = Some(number(value()?)?),
                name => match ALL.iter().find(|entry| entry.name == name) {
                    Some(entry) => options.chosen.push(*entry),
                    None => return Err(format!("there is no `{name}`\n{USAGE}{names}.")),
                },
            }
        }
        if options.chosen.is_empty() {
            options.chosen = ALL.to_vec();
        }
        Ok(options)
    }
}

/// Milliseconds since the start, or the CPU time of all threads.
fn clock(options: &Options, start: Instant) -> f64 {
    if !options.cpu_time {
        return start.elapsed().as_secs_f64() * 1e3;
    }
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    let running = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<f64>().ok()
    };
    tasks.flatten().filter_map(running).sum::<f64>() * 1e-6
}

/// Prints the median time of a step, after two warm-up steps, and checksums of the result.
fn measure(entry: Entry, world: &World, options: &Options) -> wuji::Result<()> {
    let mut app = (entry.make)(world, options.scale)?;
    let mut times = Vec::new();
    let start = Instant::now();
    for _ in 0..options.steps.unwrap_or(10) + 2 {
        let before = clock(options, start);
        app.step()?;
        times.push(clock(options, start) - before);
    }
    let first = times[0];
    let mut times = times.split_off(2);
    times.sort_by(f64::total_cmp);
    let sums: Vec<String> = app
        .sums()?
        .iter()
        .map(|(name, value)| format!("\"{name}\": {value:e}"))
        .collect();
    println!(
        "{{\"app\": \"{}\", \"ms\": {:.3}, \"least_ms\": {:.3}, \"first_ms\": {first:.1}, \"sums\": {{{}}}}}",
        entry.name,
        times[times.len() / 2],
        times[0],
        sums.join(", ")
    );
    Ok(())
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let options = Options::parse(std::env::args().skip(1))?;
    // Measures optimized code from the first step on.
    let builder = World::builder()
        .cache(wuji::CacheChoice::Off)
        .tier(Tier::Best);
    let builder = match options.threads {
        Some(threads) => builder.threads(threads),
        None => builder,
    };
    let world = builder.build()?;
    for entry in options.chosen.iter().copied() {
        measure(entry, &world, &options)?;
    }
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
