//! The time that a step of the applications on sparse data takes. Their pictures are in the gallery.

use std::process::ExitCode;
use std::time::Instant;

use wuji::prelude::*;
use wuji_examples::apps::{ALL, Entry, Scale};

const USAGE: &str = "\
Usage: apps [NAME...] [OPTIONS]

  --small        a size for a quick look
  --steps N      how many to measure (default 10)
  --threads N    worker threads (default: all cores)
  --cpu-time     measure only the time that the program was running (Linux)

Prints one line of JSON for each. Without names: all of ";

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
                number.ok_or(format!("`{text}` is no number of anything"))
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

/// Milliseconds since the start, or those that all threads together have been running.
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

/// The median time of a step, after two to warm up, and what has been computed by then.
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
    // What is measured is the best code, from the first step on.
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
