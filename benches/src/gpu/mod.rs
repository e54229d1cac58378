//! `wuji-bench --gpu`: workloads on an NVIDIA GPU, timed by device events, compared with the memory bandwidth of the
//! device and with hand-written kernels (`benches/gpu/reference.cu`).

mod activation;
mod flow;
mod forms;
mod hash;
mod lists;
mod math;
mod quantized;

use std::io::Write;
use std::sync::OnceLock;
use std::time::Instant;

use wuji::prelude::*;
use wuji::{CacheChoice, Math, Result};
use wuji_examples::apps::mpm3d::{Mpm3d, Variant};
use wuji_examples::apps::{self, App, Scale};
use wuji_tools::gpu_measure::Reference;

use crate::case::Case;
use crate::pool::Pool;
use crate::sparse::ablation;
use crate::workloads;

const REFERENCE: &str = include_str!("../../gpu/reference.ptx");
/// Runs of each workload; the table shows the median.
const RUNS: usize = 15;

const EPS: f32 = 1e-4;

#[kernel]
fn saxpy(a: f32, x: &Field<f32, 1>, y: &Field<f32, 1>) {
    for [i] in y {
        y[[i]] = a * x[[i]] + y[[i]];
    }
}

#[kernel]
fn copy(x: &Field<f32, 1>, y: &Field<f32, 1>) {
    for [i] in y {
        y[[i]] = x[[i]];
    }
}

#[kernel]
fn jacobi(u: &Field<f32, 2>, v: &Field<f32, 2>) {
    for [i, j] in v {
        v[[i, j]] = 0.25 * (u[[i - 1, j]] + u[[i + 1, j]] + u[[i, j - 1]] + u[[i, j + 1]]);
    }
}

#[kernel]
fn sum(x: &Field<f32, 1>) -> f32 {
    let mut total = 0.0;
    for [i] in x {
        total += x[[i]];
    }
    total
}

#[kernel]
fn gravity(
    x: &Field<f32, 1>,
    y: &Field<f32, 1>,
    z: &Field<f32, 1>,
    u: &Field<f32, 1>,
    v: &Field<f32, 1>,
    w: &Field<f32, 1>,
    n: i32,
) {
    for [i] in x {
        let me = vec3(x[[i]], y[[i]], z[[i]]);
        let mut a = vec3(0.0, 0.0, 0.0);
        for j in 0..n {
            let d = vec3(x[[j]], y[[j]], z[[j]]) - me;
            let inv = (d.norm_sqr() + EPS).rsqrt();
            a += d * (inv * inv * inv);
        }
        u[[i]] += 1e-5 * a.x;
        v[[i]] += 1e-5 * a.y;
        w[[i]] += 1e-5 * a.z;
    }
}

#[kernel]
fn one(x: &Field<f32, 1>) {
    for [i] in x {
        x[[i]] += 1.0;
    }
}

/// One line of the table.
struct Line {
    name: &'static str,
    size: String,
    metric: &'static str,
    value: f64,
    against: &'static str,
    reference: Option<f64>,
}

/// Measures all workloads that the filter accepts.
pub fn run(
    wanted: impl Fn(&str) -> bool,
    json: Option<&str>,
    without: &[String],
) -> std::result::Result<(), String> {
    WITHOUT.get_or_init(|| without.to_vec());
    let lines = measure(&wanted).map_err(|e| e.to_string())?;
    let mut file = match json {
        Some(path) => {
            Some(std::fs::File::create(path).map_err(|e| format!("cannot write {path}: {e}"))?)
        }
        None => None,
    };
    println!(
        "{:<16} {:<24} {:>10} {:<14} {:>10} {:>6}  against",
        "workload", "size", "value", "metric", "reference", "ratio"
    );
    for line in lines {
        let ratio = line.reference.map(|r| line.value / r);
        let shown = |v: Option<f64>| v.map_or(String::new(), |v| format!("{v:.2}"));
        println!(
            "{:<16} {:<24} {:>10.2} {:<14} {:>10} {:>6}  {}",
            line.name,
            line.size,
            line.value,
            line.metric,
            shown(line.reference),
            shown(ratio),
            line.against
        );
        if let Some(file) = &mut file {
            let reference = line.reference.map_or("null".into(), |r| format!("{r}"));
            let written = writeln!(
                file,
                "{{\"name\":\"{}\",\"size\":\"{}\",\"metric\":\"{}\",\"value\":{},\"against\":\"{}\",\"reference\":{reference}}}",
                line.name, line.size, line.metric, line.value, line.against
            );
            written.map_err(|e| e.to_string())?;
        }
    }
    Ok(())
}

/// Optimizations that are disabled in all worlds.
static WITHOUT: OnceLock<Vec<String>> = OnceLock::new();

fn without() -> Vec<&'static str> {
    let names = WITHOUT.get().map_or(&[][..], |names| names);
    names.iter().map(String::as_str).collect()
}

fn world(math: Math) -> Result<World> {
    World::builder()
        .cuda(0)
        .math(math)
        .cache(CacheChoice::Off)
        .without(&without())
        .build()
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// The median device time of a kernel's tasks, in seconds.
fn timed(world: &World, mut launch: impl FnMut() -> Result<()>) -> Result<f64> {
    for _ in 0..3 {
        launch()?;
    }
    // Code for these loop bounds and array shapes, as a program that runs for a second gets it.
    world.finish_compiling()?;
    let mut times = Vec::new();
    for _ in 0..RUNS {
        world.profiler().clear();
        world.profiler().start();
        launch()?;
        world.profiler().stop();
        let tasks = world.kernel_history();
        let tasks = tasks.iter().flat_map(|k| &k.tasks);
        times.push(tasks.map(|t| t.total.as_secs_f64()).sum());
    }
    Ok(median(times))
}

/// Checks that MPM with many particles gives the same result on the CPU and on the GPU, in all math modes.
fn check_mpm() -> Result<()> {
    for (n, math) in [
        (32, Math::Fast),
        (64, Math::Contract),
        (64, Math::Fast),
        (128, Math::Contract),
    ] {
        let (cpu, gpu) = (World::builder().math(math).build()?, world(math)?);
        for (name, world) in [("cpu", &cpu), ("gpu", &gpu)] {
            let mut mpm = Mpm3d::new(world, n, Variant::Buckets)?;
            for step in 0..4 {
                if let Err(error) = mpm.step() {
                    eprintln!("mpm {n} {math:?} {name} step {step}: {error}");
                    break;
                }
                eprintln!("mpm {n} {math:?} {name} step {step}: {:?}", mpm.sums()?);
            }
        }
    }
    Ok(())
}

/// Checks that the example applications, at small sizes, give the same result on the CPU and on the GPU.
fn check_apps() -> Result<()> {
    let mut wrong = Vec::new();
    for entry in &apps::ALL {
        let (cpu, gpu) = (World::cpu()?, world(Math::default())?);
        let mut sums = Vec::new();
        for world in [&cpu, &gpu] {
            let mut app = (entry.make)(world, Scale::Small)?;
            for _ in 0..3 {
                app.step()?;
            }
            sums.push(app.sums()?);
        }
        let pairs = sums[0].iter().zip(&sums[1]);
        let far = pairs.map(|(a, b)| (a.1 - b.1).abs() / a.1.abs().max(1e-6));
        let far = far.fold(0.0, f64::max);
        let verdict = if far < 1e-3 { "ok" } else { "WRONG" };
        eprintln!("{:<16} {verdict:<6} {far:.1e}  {:?}", entry.name, sums[1]);
        if verdict != "ok" {
            wrong.push(entry.name);
        }
    }
    all_right(&wrong)
}

/// Checks that the CPU workloads, run on the GPU, agree with the hand-written loops.
fn check_cases() -> Result<()> {
    let mut wrong = Vec::new();
    let pool = std::sync::Arc::new(Pool::new(2));
    for case in workloads::all() {
        let world = world(Math::default())?;
        let mut ours = case.wuji(&world)?;
        let mut by_hand = case.reference(&pool);
        let mut both = || {
            for _ in 0..3 {
                ours.run()?;
                by_hand.run()?;
            }
            Ok::<_, String>(case.difference(&ours.result()?, &by_hand.result()?))
        };
        let (verdict, far) = match both() {
            Ok(far) if far <= case.tolerance() => ("ok", format!("{far:.1e}")),
            Ok(far) => ("WRONG", format!("{far:.1e}")),
            Err(error) => ("FAILED", error),
        };
        eprintln!("{:<16} {verdict:<6} {far}", case.name());
        if verdict != "ok" {
            wrong.push(case.name());
        }
    }
    all_right(&wrong)
}

/// An error that lists the wrong results, if there are any.
fn all_right(wrong: &[&str]) -> Result<()> {
    if wrong.is_empty() {
        return Ok(());
    }
    let what = format!("wrong results on the GPU: {}", wrong.join(", "));
    Err(wuji::Error::new("W0410", what))
}

/// Environment variable that marks a child process for [`cold_start`].
const CHILD: &str = "WUJI_BENCH_GPU_START";

/// In a child process of [`cold_start`]: runs MLS-MPM in three dimensions once and prints the time to create the world
/// and the time of the first launch, compilation included. `None` in any other process.
pub fn child() -> Option<std::result::Result<(), String>> {
    std::env::var_os(CHILD)?;
    let start = || {
        let begun = Instant::now();
        let world = world(Math::Fast).map_err(|e| e.to_string())?;
        let made = begun.elapsed();
        let mut mpm = workloads::mpm3d::small::Mpm3d
            .wuji(&world)
            .map_err(|e| e.to_string())?;
        let ms = |t: std::time::Duration| t.as_secs_f64() * 1e3;
        let mut times = Vec::new();
        for _ in 0..2 {
            let begun = Instant::now();
            mpm.run()?;
            world.synchronize().map_err(|e| e.to_string())?;
            times.push(begun.elapsed());
        }
        println!("{} {} {}", ms(made), ms(times[0]), ms(times[1]));
        Ok(())
    };
    Some(start())
}

/// The output of [`child`] with empty caches: milliseconds for the world, the first launch and the second.
fn cold_start() -> std::result::Result<Vec<f64>, String> {
    let own = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut command = std::process::Command::new(own);
    command.env(CHILD, "1").env("CUDA_CACHE_DISABLE", "1");
    let output = command.output().map_err(|e| e.to_string())?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let numbers = said.split_whitespace().map(str::parse);
    let numbers: Vec<f64> = numbers
        .collect::<std::result::Result<_, _>>()
        .unwrap_or_default();
    if numbers.len() == 3 {
        Ok(numbers)
    } else {
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(format!("the measured process ended early: {said}{why}"))
    }
}

fn measure(wanted: &dyn Fn(&str) -> bool) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    if wanted("check_cases") {
        check_cases()?;
    }
    if wanted("apps") {
        check_apps()?;
    }
    if wanted("check_mpm") {
        check_mpm()?;
    }
    let n: i64 = 1 << 28;
    let bytes = 4 * n as u64;
    let (mut copied, mut read) = (0.0, 0.0);
    {
        let mut by_hand = Reference::new(0, REFERENCE)?;
        let (a, b) = (by_hand.alloc(bytes)?, by_hand.alloc(bytes)?);
        let mut times = Vec::new();
        for _ in 0..RUNS {
            times.push(by_hand.copy(b, a, bytes)?);
        }
        copied = f64::max(copied, 2.0 * bytes as f64 / median(times) / 1e9);
        let mut times = Vec::new();
        for _ in 0..RUNS {
            // SAFETY: the kernel reads `n` bytes of `a` and adds to the first word of `b`.
            times.push(unsafe { by_hand.launch("read_all", 132 * 8, 256, &[a, b, n as u64 / 4]) }?);
        }
        read = f64::max(read, bytes as f64 / median(times) / 1e9);
    }
    let mut line = |name, size: String, metric, value, against, reference| {
        lines.push(Line {
            name,
            size,
            metric,
            value,
            against,
            reference,
        });
    };
    line(
        "copy",
        "2^28 f32".into(),
        "GB/s",
        copied,
        "by the driver",
        None,
    );
    line("read", "2^28 f32".into(), "GB/s", read, "by hand", None);
    if wanted("saxpy") || wanted("sum") {
        let world = world(Math::default())?;
        let x = world.field::<f32, 1>("x", [n])?;
        let y = world.field::<f32, 1>("y", [n])?;
        let time = timed(&world, || saxpy(0.5, &x, &y))?;
        let speed = 3.0 * bytes as f64 / time / 1e9;
        line(
            "saxpy",
            "2^28 f32".into(),
            "GB/s",
            speed,
            "copy",
            Some(copied),
        );
        let time = timed(&world, || copy(&x, &y))?;
        let speed = 2.0 * bytes as f64 / time / 1e9;
        line(
            "copy kernel",
            "2^28 f32".into(),
            "GB/s",
            speed,
            "copy",
            Some(copied),
        );
        let time = timed(&world, || sum(&x).map(|_| ()))?;
        line(
            "sum",
            "2^28 f32".into(),
            "GB/s",
            bytes as f64 / time / 1e9,
            "read",
            Some(read),
        );
    }
    if wanted("jacobi") {
        let world = world(Math::default())?;
        for side in [4096i64, 16384] {
            let u = world.field::<f32, 2>("u", [side, side])?;
            let v = world.field::<f32, 2>("v", [side, side])?;
            let time = timed(&world, || jacobi(&u, &v))?;
            let speed = 8.0 * (side * side) as f64 / time / 1e9;
            line(
                "jacobi",
                format!("{side}^2 f32"),
                "GB/s",
                speed,
                "copy",
                Some(copied),
            );
        }
    }
    if wanted("nbody") {
        let count: i64 = 65_536;
        let time_by_hand = {
            let mut by_hand = Reference::new(0, REFERENCE)?;
            let mut words = Vec::new();
            for _ in 0..6 {
                words.push(by_hand.alloc(4 * count as u64)?);
            }
            words.push(count as u64);
            let mut times = Vec::new();
            for _ in 0..RUNS {
                let blocks = (count / 256) as u32;
                // SAFETY: the kernel reads and writes six arrays of that length.
                times.push(unsafe { by_hand.launch("gravity", blocks, 256, &words) }?);
            }
            median(times)
        };
        let pairs = (count * count) as f64 / 1e9;
        for (name, math) in [("nbody", Math::Contract), ("nbody fast", Math::Fast)] {
            let world = world(math)?;
            let fields: Vec<Field<f32, 1>> = ["x", "y", "z", "u", "v", "w"]
                .into_iter()
                .map(|f| world.field::<f32, 1>(f, [count]))
                .collect::<Result<_>>()?;
            let [x, y, z, u, v, w] = &fields[..] else {
                continue;
            };
            let time = timed(&world, || gravity(x, y, z, u, v, w, count as i32))?;
            line(
                name,
                "65536".into(),
                "G pairs/s",
                pairs / time,
                "by hand",
                Some(pairs / time_by_hand),
            );
        }
    }
    if wanted("launch") {
        let world = world(Math::default())?;
        let x = world.field::<f32, 1>("x", [1024])?;
        let launches = 20_000;
        for _ in 0..100 {
            one(&x)?;
        }
        world.synchronize()?;
        let begun = Instant::now();
        for _ in 0..launches {
            one(&x)?;
        }
        let queued = begun.elapsed().as_secs_f64();
        world.synchronize()?;
        let done = begun.elapsed().as_secs_f64();
        let each = |s: f64| s / f64::from(launches) * 1e6;
        line(
            "launch",
            "1024, on the host".into(),
            "us",
            each(queued),
            "",
            None,
        );
        line(
            "launch",
            "1024, to the end".into(),
            "us",
            each(done),
            "",
            None,
        );
    }
    if wanted("ablation") {
        let world = |without: &[&str]| {
            let builder = World::builder().cuda(0).cache(CacheChoice::Off);
            builder.without(without).build()
        };
        let rows = ablation::on_gpu(world).map_err(|e| wuji::Error::new("W0520", e))?;
        for (program, part, less, full) in rows {
            let name = "ablation";
            let size = format!("{program} {part}");
            line(name, size, "ms a step", less, "everything", Some(full));
        }
    }
    if wanted("graph") {
        let world = world(Math::default())?;
        let x = world.field::<f32, 1>("x", [1024])?;
        let (kernels, launches) = (100, 200);
        let graph = world.record(|| (0..kernels).try_for_each(|_| one(&x)))?;
        graph.launch()?;
        world.synchronize()?;
        let begun = Instant::now();
        for _ in 0..launches {
            graph.launch()?;
        }
        let queued = begun.elapsed().as_secs_f64();
        world.synchronize()?;
        let done = begun.elapsed().as_secs_f64();
        let each = |s: f64| s / f64::from(kernels * launches) * 1e6;
        for (what, time) in [("on the host", queued), ("to the end", done)] {
            let size = format!("{kernels} x 1024, {what}");
            line("graph", size, "us a kernel", each(time), "", None);
        }
    }
    if wanted("start") {
        let mut all = Vec::new();
        for _ in 0..5 {
            all.push(cold_start().map_err(|e| wuji::Error::new("W0520", e))?);
        }
        let metrics = ["ms to make a world", "ms first", "ms second"];
        for (k, metric) in metrics.into_iter().enumerate() {
            let times = all.iter().map(|times| times[k]).collect();
            line(
                "start",
                "mpm3d, 200000 in 64^3".into(),
                metric,
                median(times),
                "",
                None,
            );
        }
    }
    for (name, n, side, variant) in [
        ("mpm3d", 128, 32, Variant::Buckets),
        ("mpm3d", 512, 102, Variant::Buckets),
        ("mpm3d plain", 512, 102, Variant::Plain),
    ] {
        if !wanted("mpm3d") {
            break;
        }
        let world = world(Math::Fast)?;
        let mut mpm = Mpm3d::with_cubes(&world, n, side, variant)?;
        let begun = Instant::now();
        mpm.step()?;
        world.synchronize()?;
        let first = begun.elapsed().as_secs_f64();
        for _ in 0..4 {
            mpm.step()?;
        }
        world.synchronize()?;
        let steps = 20;
        let begun = Instant::now();
        for _ in 0..steps {
            mpm.step()?;
        }
        world.synchronize()?;
        let each = begun.elapsed().as_secs_f64() / f64::from(steps);
        let particles = 16.0 * (side as f64).powi(3);
        let size = format!("{:.1} M in {n}^3", particles / 1e6);
        line(name, size.clone(), "ms a substep", each * 1e3, "", None);
        line(
            name,
            size.clone(),
            "M particles/s",
            particles / each / 1e6,
            "",
            None,
        );
        line(name, size, "ms first step", first * 1e3, "", None);
        world.profiler().clear();
        world.profiler().start();
        mpm.step()?;
        world.profiler().stop();
        eprintln!("{}", world.profiler().report());
    }
    if wanted("quantized") || wanted("life") || wanted("advect, 21 bits") {
        lines.extend(quantized::lines()?);
    }
    lines.extend(flow::lines(wanted)?);
    if wanted("lists") {
        lines.extend(lists::lines()?);
    }
    if wanted("activation") {
        lines.extend(activation::lines()?);
    }
    if wanted("hash") {
        lines.extend(hash::lines()?);
    }
    if wanted("forms") {
        lines.extend(forms::lines()?);
    }
    if wanted("math") {
        lines.extend(math::lines()?);
    }
    Ok(lines)
}
