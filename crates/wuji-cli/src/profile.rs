//! Compile times, pass by pass.

use crate::failure::Done;
use serde_json::json;
use std::io::Write;
use std::time::{Duration, Instant};
use wuji_compile::{Lowered, Options};
use wuji_ir::Result;
use wuji_llvm::{Effort, Jit};

/// Kernels as the frontends build them.
pub(crate) const KERNELS: [(&str, &str); 6] = [
    ("saxpy", include_str!("../kernels/saxpy.wir")),
    ("julia", include_str!("../kernels/julia.wir")),
    (
        "sparse_jacobi",
        include_str!("../kernels/sparse_jacobi.wir"),
    ),
    ("mpm2d", include_str!("../kernels/mpm2d.wir")),
    ("mpm3d", include_str!("../kernels/mpm3d.wir")),
    ("sparse_mpm3d", include_str!("../kernels/sparse_mpm3d.wir")),
];

/// The stage of compilation that a row belongs to.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Stage {
    Wuji,
    Build,
    Llvm,
    Emit,
    Link,
}

impl Stage {
    const ALL: [(Stage, &str); 5] = [
        (Stage::Wuji, "Wuji passes"),
        (Stage::Build, "LLVM IR construction"),
        (Stage::Llvm, "LLVM passes"),
        (Stage::Emit, "LLVM code generation"),
        (Stage::Link, "linking"),
    ];
}

/// The rows of one kernel in one tier, in order, and the wall-clock time with all threads.
#[derive(Debug)]
struct Breakdown {
    rows: Vec<(Stage, String, Duration)>,
    instructions: usize,
    bytes: usize,
    /// From the parsed module to loaded code, with tasks compiled in parallel.
    wall: Duration,
}

impl Breakdown {
    fn total(&self, stage: Stage) -> Duration {
        let rows = self.rows.iter().filter(|r| r.0 == stage);
        rows.map(|r| r.2).sum()
    }
}

/// Instructions of the kernel that reach the backend.
pub(crate) fn instructions(lowered: &Lowered) -> usize {
    let mut count = 0;
    for f in lowered.module().funcs.values() {
        f.walk(|_| count += 1);
    }
    count
}

fn measure(jit: &Jit, text: &str, effort: Effort) -> Result<Breakdown> {
    let module = wuji_ir::text::parse(text, "kernel.wir")?;
    let started = Instant::now();
    let options = Options {
        vector_bits: jit.vector_bits(),
        fma: jit.host().has("fma"),
        ..Options::default()
    };
    let lowered = match effort {
        Effort::Fast | Effort::None => wuji_compile::compile_quickly(module, &options)?,
        Effort::Full => wuji_compile::compile(module, &options)?,
    };
    jit.compile_with(&lowered, effort)?;
    let wall = started.elapsed();
    let profile = jit.profile(&lowered, effort)?;
    let mut rows: Vec<(Stage, String, Duration)> = Vec::new();
    for t in lowered.timings() {
        rows.push((Stage::Wuji, t.pass.to_owned(), t.time));
    }
    rows.push((Stage::Build, String::new(), profile.build));
    for (pass, time) in profile.passes {
        let name = pass.split('<').next().unwrap_or(pass);
        let name = if pass.contains('(') { pass } else { name };
        rows.push((Stage::Llvm, name.to_owned(), time));
    }
    rows.push((Stage::Emit, String::new(), profile.emit));
    rows.push((Stage::Link, String::new(), profile.link));
    Ok(Breakdown {
        rows,
        instructions: instructions(&lowered),
        bytes: profile.bytes,
        wall,
    })
}

/// The minimum of several rounds, row by row.
fn least(jit: &Jit, text: &str, effort: Effort, rounds: u32) -> Result<Breakdown> {
    let mut best = measure(jit, text, effort)?;
    for _ in 1..rounds {
        let next = measure(jit, text, effort)?;
        best.wall = best.wall.min(next.wall);
        for (a, b) in best.rows.iter_mut().zip(next.rows) {
            a.2 = a.2.min(b.2);
        }
    }
    Ok(best)
}

pub(crate) fn print(jit: &Jit, rounds: u32, json: bool, out: &mut dyn Write) -> Done {
    for (tier, effort) in [("fast", Effort::Fast), ("best", Effort::Full)] {
        let mut all = Vec::new();
        for (name, text) in KERNELS {
            let breakdown = least(jit, text, effort, rounds)?;
            if json {
                print_json(name, tier, &breakdown, out)?;
            }
            all.push(breakdown);
        }
        if !json {
            print_table(tier, &all, out)?;
        }
    }
    Ok(())
}

fn ms(d: Duration) -> f64 {
    d.as_secs_f64() * 1e3
}

fn print_json(kernel: &str, tier: &str, b: &Breakdown, out: &mut dyn Write) -> Done {
    for (stage, label) in Stage::ALL {
        for row in b.rows.iter().filter(|r| r.0 == stage) {
            let object = json!({
                "kind": "compile",
                "kernel": kernel,
                "tier": tier,
                "stage": label,
                "pass": row.1,
                "ms": ms(row.2),
            });
            writeln!(out, "{object}")?;
        }
    }
    let object = json!({
        "kind": "compile_total",
        "kernel": kernel,
        "tier": tier,
        "instructions": b.instructions,
        "object_bytes": b.bytes,
        "wall_ms": ms(b.wall),
    });
    writeln!(out, "{object}")?;
    Ok(())
}

fn print_table(tier: &str, all: &[Breakdown], out: &mut dyn Write) -> Done {
    writeln!(out, "\ntier {tier}, milliseconds")?;
    write!(out, "{:<34}", "")?;
    for (name, _) in KERNELS {
        write!(out, "{name:>14}")?;
    }
    writeln!(out)?;
    let line = |out: &mut dyn Write, label: &str, number: &dyn Fn(&Breakdown) -> f64| -> Done {
        write!(out, "{label:<34}")?;
        for b in all {
            write!(out, "{:>14.2}", number(b))?;
        }
        writeln!(out)?;
        Ok(())
    };
    for (stage, label) in Stage::ALL {
        line(out, label, &|b| ms(b.total(stage)))?;
        // Sums the runs of a pass in one row.
        let mut names: Vec<&str> = Vec::new();
        for row in all.iter().flat_map(|b| &b.rows) {
            if row.0 == stage && !row.1.is_empty() && !names.contains(&row.1.as_str()) {
                names.push(&row.1);
            }
        }
        for name in names {
            let short: String = name.chars().take(31).collect();
            line(out, &format!("  {short}"), &|b| {
                let rows = b.rows.iter().filter(|r| r.0 == stage && r.1 == name);
                ms(rows.map(|r| r.2).sum())
            })?;
        }
    }
    line(out, "wall clock, all threads", &|b| ms(b.wall))?;
    write!(out, "{:<34}", "instructions")?;
    for b in all {
        write!(out, "{:>14}", b.instructions)?;
    }
    write!(out, "\n{:<34}", "object size in bytes")?;
    for b in all {
        write!(out, "{:>14}", b.bytes)?;
    }
    writeln!(out)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wuji_llvm::JitOptions;

    #[test]
    fn all_kernels_compile_in_both_tiers() {
        let jit = Jit::new(&JitOptions::default()).unwrap();
        for (name, text) in KERNELS {
            for effort in [Effort::Fast, Effort::Full] {
                let b = measure(&jit, text, effort).unwrap_or_else(|e| panic!("{name}: {e}"));
                assert!(b.instructions > 0 && b.bytes > 0, "{name}");
                for (stage, label) in Stage::ALL {
                    assert!(b.rows.iter().any(|r| r.0 == stage), "{name} has no {label}");
                }
            }
        }
    }
}
