//! The overhead of a launch, and loops from a hundred to a billion iterations.

use std::sync::atomic::{AtomicI64, Ordering};

use wuji::prelude::*;
use wuji_runtime::pool::Pool;

use crate::measure::{Clock, Row, median};
use crate::study::{Bench, Study};

/// All studies of launch overhead.
pub fn all() -> Vec<Box<dyn Study>> {
    vec![Box::new(Launch), Box::new(Grain)]
}

struct Launch;

const ELEMENTS: i64 = 1024;

#[kernel]
fn serial(_world: &World, a: i32) -> i32 {
    a + 1
}

#[kernel]
fn parallel(x: &Field<f32, 1>) {
    for [i] in x {
        x[[i]] = x[[i]] * 0.5 + 1.0;
    }
}

/// A loop this small runs on one thread unless it asks for more.
#[kernel]
fn shared_out(x: &Field<f32, 1>) {
    for [i] in block_size(128, x) {
        x[[i]] = x[[i]] * 0.5 + 1.0;
    }
}

#[kernel]
fn with_arrays(_world: &World, x: &[f32], y: &mut [f32]) {
    for i in 0..x.len() {
        y[i] = x[i] * 0.5 + y[i];
    }
}

/// One part per worker, and none ends before all have begun, so all workers are woken. Kernels cannot wait for each
/// other, so this measures the thread pool directly.
fn wake_all(pool: &Pool) -> wuji::Result<()> {
    let workers = pool.threads() as i64;
    let come = AtomicI64::new(0);
    pool.run(workers, 1, &|_, _| {
        come.fetch_add(1, Ordering::AcqRel);
        while come.load(Ordering::Acquire) < workers {
            std::hint::spin_loop();
        }
    })
}

/// Microseconds per call: the median of many short series.
fn microseconds(bench: &Bench, mut call: impl FnMut() -> wuji::Result<()>) -> Result<f64, String> {
    const SERIES: usize = 200;
    let mut times = Vec::new();
    for _ in 0..bench.pairs * 4 {
        let start = Clock::Wall.now();
        for _ in 0..SERIES {
            call().map_err(|e| e.to_string())?;
        }
        times.push((Clock::Wall.now() - start) * 1e6 / SERIES as f64);
    }
    Ok(median(&mut times))
}

impl Study for Launch {
    fn name(&self) -> &'static str {
        "launch"
    }
    fn size(&self) -> String {
        "1024 elements".into()
    }
    fn metric(&self) -> &'static str {
        "serial_us"
    }

    /// Microseconds; the reference is the goal, so a ratio above 1 beats the goal.
    fn rows(&self, bench: &Bench) -> Result<Vec<Row>, String> {
        let text = |e: wuji::Error| e.to_string();
        let world = bench.world(&[])?;
        let x = world.field::<f32, 1>("x", ELEMENTS).map_err(text)?;
        let alone = World::builder()
            .cache(wuji::CacheChoice::Off)
            .threads(1)
            .tier(Tier::Best)
            .build();
        let alone = alone.map_err(text)?;
        let one = alone.field::<f32, 1>("x", ELEMENTS).map_err(text)?;
        let pool = Pool::new(world.threads()).map_err(text)?;
        let input = vec![1.0f32; ELEMENTS as usize];
        let mut output = vec![0.0f32; ELEMENTS as usize];
        let results = [
            (
                "serial_us",
                1.0,
                microseconds(bench, || serial(&world, 1).map(|_| ()))?,
            ),
            ("parallel_us", 3.0, microseconds(bench, || parallel(&x))?),
            (
                "all_threads_us",
                6.0,
                microseconds(bench, || shared_out(&x))?,
            ),
            ("wake_all_us", 6.0, microseconds(bench, || wake_all(&pool))?),
            (
                "one_thread_us",
                1.0,
                microseconds(bench, || parallel(&one))?,
            ),
            (
                "arrays_us",
                3.0,
                microseconds(bench, || with_arrays(&world, &input[..], &mut output[..]))?,
            ),
        ];
        let row = |(metric, goal, value): (&str, f64, f64)| Row {
            workload: self.name().into(),
            size: self.size(),
            backend: "cpu".into(),
            metric: metric.into(),
            value,
            reference: goal,
            ratio: goal / value,
            compile_ms: None,
        };
        Ok(results.into_iter().map(row).collect())
    }
}

struct Grain;

#[kernel]
fn steps(_world: &World, n: i64) -> u32 {
    let mut all = 0u32;
    for i in 0..n {
        let mut x = i as u32;
        x = x * 747796405 + 2891336453;
        x = (x >> 15) ^ x;
        x = x * 277803737;
        all += x >> 9;
    }
    all
}

impl Study for Grain {
    fn name(&self) -> &'static str {
        "grain"
    }
    fn size(&self) -> String {
        "100 to 10^9".into()
    }
    fn metric(&self) -> &'static str {
        "n1e2_ns"
    }

    /// Nanoseconds per iteration; the reference is the same loop on one thread, so the ratio is the parallel speedup.
    fn rows(&self, bench: &Bench) -> Result<Vec<Row>, String> {
        let text = |e: wuji::Error| e.to_string();
        let world = bench.world(&[])?;
        let alone = World::builder()
            .cache(wuji::CacheChoice::Off)
            .threads(1)
            .tier(Tier::Best)
            .build();
        let alone = alone.map_err(text)?;
        let mut rows = Vec::new();
        for (digits, n) in [2, 3, 4, 5, 6, 7, 8, 9].map(|d| (d, 10i64.pow(d))) {
            let repeats = (3_000_000 / n).clamp(1, 2_000);
            let each = |world: &World| -> Result<f64, String> {
                let mut times = Vec::new();
                for _ in 0..bench.pairs.min(if n > 100_000_000 { 3 } else { 9 }) {
                    let start = Clock::Wall.now();
                    for _ in 0..repeats {
                        steps(world, n).map_err(text)?;
                    }
                    times.push((Clock::Wall.now() - start) * 1e9 / (repeats * n) as f64);
                }
                Ok(median(&mut times))
            };
            let (expected, found) = (steps(&alone, n), steps(&world, n));
            if expected.map_err(text)? != found.map_err(text)? {
                return Err("grain: the parallel sum differs".into());
            }
            let (value, reference) = (each(&world)?, each(&alone)?);
            rows.push(Row {
                workload: self.name().into(),
                size: format!("10^{digits}"),
                backend: "cpu".into(),
                metric: "ns".into(),
                value,
                reference,
                ratio: reference / value,
                compile_ms: None,
            });
        }
        Ok(rows)
    }
}
