//! Versions of code for loops that diverge, and which of them a world chooses.
//!
//! Every program runs with the first tier, with vectorized code, and with optimized scalar code. A world that decides by
//! itself must end up with the fastest.

use wuji::prelude::*;
use wuji::{CacheChoice, Decision, KeptCode};

use crate::measure::{Clock, Row};
use crate::study::{Bench, Study};

pub fn all() -> Vec<Box<dyn Study>> {
    vec![Box::new(Tiers)]
}

struct Tiers;

const N: i64 = 1 << 18;

/// Trial division: an inner loop that most lanes leave early.
#[kernel]
fn primes(out: &Field<i32, 1>) {
    for [i] in out {
        let mut is_prime = 1;
        let mut k = 2;
        while k * k <= i && is_prime == 1 {
            if i % k == 0 {
                is_prime = 0;
            }
            k += 1;
        }
        out[[i]] = is_prime;
    }
}

/// Insertion sort of 16 numbers.
#[kernel]
fn sort(out: &Field<i32, 1>) {
    for [i] in out {
        let mut a = [0; 16];
        let mut x = i as u32 * 747796405 + 2891336453;
        for k in 0..16 {
            x = x * 1664525 + 1013904223;
            a[k] = (x >> 16) as i32;
        }
        for k in 1..16 {
            let v = a[k];
            let mut j = k - 1;
            while j >= 0 && a[max(j, 0)] > v {
                a[j + 1] = a[j];
                j -= 1;
            }
            a[j + 1] = v;
        }
        out[[i]] = a[7];
    }
}

#[kernel]
fn functions(out: &Field<i32, 1>) {
    for [i] in out {
        let x = i as f32 * 1e-4;
        out[[i]] = ((x.powf(2.3) + (50.0 * x).sin()) * 100.0) as i32;
    }
}

#[kernel]
fn collatz(out: &Field<i32, 1>) {
    for [i] in out {
        let mut n = i as i64 + 1;
        let mut steps = 0;
        while n != 1 {
            n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 };
            steps += 1;
        }
        out[[i]] = steps;
    }
}

/// The largest index whose square is not above a number.
#[kernel]
fn search(out: &Field<i32, 1>, table: &Field<i32, 1>) {
    for [i] in out {
        let mut lo = 0;
        let mut hi = 1024;
        while lo + 1 < hi {
            let mid = (lo + hi) / 2;
            if table[[mid]] <= i {
                lo = mid;
            } else {
                hi = mid;
            }
        }
        out[[i]] = lo;
    }
}

#[kernel]
fn gcd(out: &Field<i32, 1>) {
    for [i] in out {
        let mut a = i + 1;
        let mut b = 720720;
        while b != 0 {
            let t = a % b;
            a = b;
            b = t;
        }
        out[[i]] = a;
    }
}

/// Sphere tracing of a repeated sphere.
#[kernel]
fn tracing(out: &Field<i32, 1>) {
    for [i] in out {
        let u = (i % 512) as f32 / 256.0 - 1.0;
        let v = (i / 512) as f32 / 256.0 - 1.0;
        let d = vec3(u, v, 1.0).normalized();
        let mut t = 0.0;
        let mut steps = 0;
        let mut near = 1.0;
        while near > 1e-3 && t < 40.0 && steps < 200 {
            let p = d * t;
            let x = p.x - (p.x / 4.0).round() * 4.0;
            let y = p.y - (p.y / 4.0).round() * 4.0;
            let z = p.z + 2.0 - ((p.z + 2.0) / 4.0).round() * 4.0;
            near = (x * x + y * y + z * z).sqrt() - 0.9;
            t += near;
            steps += 1;
        }
        out[[i]] = steps;
    }
}

/// A program: a launch of its kernel.
type Launch = fn(&Field<i32, 1>, &Field<i32, 1>) -> wuji::Result<()>;

const PROGRAMS: [(&str, Launch); 7] = [
    ("primes", |out, _| primes(out)),
    ("sort", |out, _| sort(out)),
    ("pow+sin", |out, _| functions(out)),
    ("collatz", |out, _| collatz(out)),
    ("search", search),
    ("gcd", |out, _| gcd(out)),
    ("tracing", |out, _| tracing(out)),
];

/// Launches after which a world has decided, and the shortest time for that.
const LAUNCHES: usize = 24;
const DECIDED_AFTER: f64 = 1.0;

/// The shortest launch in milliseconds, a checksum, and the code that a world has kept.
struct Run {
    ms: f64,
    sum: i64,
    kept: &'static str,
}

fn run(bench: &Bench, tier: Tier, launch: Launch) -> Result<Run, String> {
    let text = |e: wuji::Error| e.to_string();
    let without: Vec<&str> = bench.without.iter().map(String::as_str).collect();
    let world = World::builder()
        .cache(CacheChoice::Off)
        .threads(bench.threads)
        .tier(tier)
        .without(&without)
        .build()
        .map_err(text)?;
    let out = world.field::<i32, 1>("out", N).map_err(text)?;
    let table = world.field::<i32, 1>("table", 1024).map_err(text)?;
    let squares: Vec<i32> = (0..1024).map(|k| k * k).collect();
    table.copy_from(&squares).map_err(text)?;
    if tier == Tier::Auto {
        let began = Clock::Wall.now();
        let mut launches = 0;
        while launches < LAUNCHES || Clock::Wall.now() - began < DECIDED_AFTER {
            launch(&out, &table).map_err(text)?;
            launches += 1;
        }
    }
    let mut ms = f64::INFINITY;
    for _ in 0..bench.pairs.max(3) {
        let began = bench.clock.now();
        launch(&out, &table).map_err(text)?;
        ms = ms.min((bench.clock.now() - began) * 1e3);
    }
    let sum = out.to_vec().map_err(text)?;
    let remarks = world.explain();
    let vector = remarks.iter().any(|r| r.is_vector());
    let kept = remarks.iter().find_map(|r| match r.decision {
        Decision::Slower { kept, .. } => Some(match kept {
            KeptCode::First => "first",
            KeptCode::Scalar => "scalar",
        }),
        _ => None,
    });
    Ok(Run {
        ms,
        sum: sum.iter().map(|v| i64::from(*v)).sum(),
        kept: kept.unwrap_or(if vector { "vector" } else { "best" }),
    })
}

impl Study for Tiers {
    fn name(&self) -> &'static str {
        "tiers"
    }
    fn size(&self) -> String {
        "7 programs".into()
    }
    fn metric(&self) -> &'static str {
        "fast ms"
    }

    /// Milliseconds; the reference is the fastest of the first three.
    fn rows(&self, bench: &Bench) -> Result<Vec<Row>, String> {
        let mut rows = Vec::new();
        for (name, launch) in PROGRAMS {
            let tiers = [Tier::Fast, Tier::Best, Tier::Scalar, Tier::Auto];
            let runs = tiers.map(|tier| run(bench, tier, launch));
            let runs: Result<Vec<Run>, String> = runs.into_iter().collect();
            let runs = runs?;
            if runs.iter().any(|r| r.sum != runs[0].sum) {
                return Err(format!("{name}: the tiers have different results"));
            }
            let least = runs[..3].iter().map(|r| r.ms).fold(f64::INFINITY, f64::min);
            let chosen = format!("chosen: {} ms", runs[3].kept);
            let metrics = ["fast ms", "best ms", "scalar ms", chosen.as_str()];
            for (run, metric) in runs.iter().zip(metrics) {
                rows.push(Row {
                    workload: self.name().into(),
                    size: name.into(),
                    backend: "cpu".into(),
                    metric: metric.into(),
                    value: run.ms,
                    reference: least,
                    ratio: least / run.ms,
                    compile_ms: None,
                });
            }
        }
        Ok(rows)
    }
}
