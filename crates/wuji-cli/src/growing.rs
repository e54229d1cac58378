//! Compile time of kernels of growing size: the time per instruction should stay constant.

use crate::failure::Done;
use crate::profile::instructions;
use serde_json::json;
use std::fmt::Write;
use std::io;
use std::time::{Duration, Instant};
use wuji_compile::{Lowered, Options};
use wuji_ir::Result;
use wuji_llvm::{Effort, Jit};

/// Instructions of the kernels before lowering.
pub(crate) const SIZES: [usize; 5] = [100, 300, 1_000, 5_000, 20_000];

/// Generates a kernel of about this many instructions.
pub(crate) type Shape = fn(usize) -> String;

/// The dimensions in which kernels grow.
pub(crate) const SHAPES: [(&str, Shape); 6] = [
    ("one expression", expression),
    ("statements", statements),
    ("variables", variables),
    ("loops in a loop", loops),
    ("parallel loops", tasks),
    ("fields", fields),
];

const HEAD: &str = "tree T0 {\n  dense S1 [i: 4096] { place f0, f1 }\n}\n\
    field f0 \"x\": f32 in T0.S1 (i)\nfield f1 \"n\": i32 in T0.S1 (i)\n";

/// One long chain of arithmetic on a few loads.
fn expression(n: usize) -> String {
    let mut t = format!("{HEAD}kernel fn0 \"k\"() {{\nforeach L0 (v0: i32) in f0 {{\n");
    t += "v1: f32 = load f0[v0]\nv2: f32 = const 0.5\nv3: f32 = mul v1, v2\n";
    for k in 4..n.max(6) {
        let op = ["add", "mul", "sub", "max"][k % 4];
        // One of the last few values: LLVM is quadratic in the number of uses of one value.
        let other = (k - 2).saturating_sub(k * 7 % 61).max(1);
        let _ = writeln!(t, "v{k}: f32 = {op} v{}, v{other}", k - 1);
    }
    let _ = writeln!(
        t,
        "store f0[v0], v{}\ncontinue L0\n}}\nreturn\n}}",
        n.max(6) - 1
    );
    t
}

/// A sequence of loads, stores to other elements, and branches.
fn statements(n: usize) -> String {
    let mut t = format!("{HEAD}kernel fn0 \"k\"() {{\nforeach L0 (v0: i32) in f1 {{\n");
    t += "v1: i32 = const 3\n";
    let mut v = 2;
    while v < n {
        let _ = writeln!(
            t,
            "v{a}: i32 = const {k}\nv{b}: i32 = add v0, v{a}\nv{c}: i32 = load f1[v{b}]\n\
             v{d}: i32 = mul v{c}, v1\nv{e}: bool = lt v{d}, v{b}\n\
             v{f}: i32 = if v{e} {{\nstore f1[v{b}], v{d}\nyield v{d}\n}} else {{\nyield v1\n}}\n\
             store f1[v0], v{f}",
            a = v,
            b = v + 1,
            c = v + 2,
            d = v + 3,
            e = v + 4,
            f = v + 5,
            k = v % 97,
        );
        v += 8;
    }
    t += "continue L0\n}\nreturn\n}\n";
    t
}

/// Many mutable variables that are carried around one loop.
fn variables(n: usize) -> String {
    let count = n.div_ceil(5);
    let mut t = format!("{HEAD}kernel fn0 \"k\"() {{\n");
    for k in 0..count {
        let _ = writeln!(t, "local l{k} \"t{k}\": f32");
    }
    t += "foreach L0 (v0: i32) in f0 {\nv1: f32 = load f0[v0]\nv2: i32 = const 0\nv3: i32 = const 9\n\
          v4: i32 = const 1\nfor L1 v5: i32 in v2..v3 step v4 {\n";
    let mut v = 6;
    for k in 0..count {
        let _ = writeln!(
            t,
            "v{v}: f32 = load l{k}[]\nv{}: f32 = load l{}[]\nv{}: f32 = add v{v}, v{}\n\
             v{}: f32 = mul v{}, v1\nstore l{k}[], v{}",
            v + 1,
            (k * 7 + 1) % count,
            v + 2,
            v + 1,
            v + 3,
            v + 2,
            v + 3,
        );
        v += 4;
    }
    t += "continue L1\n}\n";
    let _ = writeln!(t, "v{v}: f32 = load l0[]\nstore f0[v0], v{v}");
    t += "continue L0\n}\nreturn\n}\n";
    t
}

/// Many short loops over neighbours inside one parallel loop.
fn loops(n: usize) -> String {
    let mut t = format!("{HEAD}kernel fn0 \"k\"() {{\nforeach L0 (v0: i32) in f0 {{\n");
    t += "v1: i32 = const 0\nv2: i32 = const 3\nv3: i32 = const 1\nv4: i32 = load f1[v0]\n";
    let (mut v, mut label) = (5, 1);
    while v < n {
        let _ = writeln!(
            t,
            "v{a}: i32 = const {k}\nv{b}: i32 = add v4, v{a}\n\
             for L{label} v{c}: i32 in v1..v2 step v3 {{\nv{d}: i32 = add v{b}, v{c}\n\
             v{e}: f32 = load f0[v{d}]\nv{f}: f32 = add v{e}, v{e}\nstore f0[v{d}], v{f}\ncontinue L{label}\n}}",
            a = v,
            b = v + 1,
            c = v + 2,
            d = v + 3,
            e = v + 4,
            f = v + 5,
            k = v % 89,
        );
        v += 8;
        label += 1;
    }
    t += "continue L0\n}\nreturn\n}\n";
    t
}

/// A sequence of many parallel loops.
fn tasks(n: usize) -> String {
    let mut t = format!("{HEAD}kernel fn0 \"k\"() {{\n");
    let (mut v, mut label) = (0, 0);
    while v < n.max(10) {
        let _ = writeln!(
            t,
            "foreach L{label} (v{a}: i32) in f0 {{\nv{b}: f32 = load f0[v{a}]\nv{c}: i32 = load f1[v{a}]\n\
             v{d}: f32 = convert v{c}\nv{e}: f32 = add v{b}, v{d}\nv{f}: f32 = mul v{e}, v{b}\n\
             v{g}: f32 = sub v{f}, v{e}\nstore f0[v{a}], v{g}\ncontinue L{label}\n}}",
            a = v,
            b = v + 1,
            c = v + 2,
            d = v + 3,
            e = v + 4,
            f = v + 5,
            g = v + 6,
        );
        v += 9;
        label += 1;
    }
    t += "return\n}\n";
    t
}

/// Many fields, each accessed a few times.
fn fields(n: usize) -> String {
    let count = n.div_ceil(6);
    let mut t = String::from("tree T0 {\n  dense S1 [i: 4096] { place f0");
    for k in 1..count {
        let _ = write!(t, ", f{k}");
    }
    t += " }\n}\n";
    for k in 0..count {
        let _ = writeln!(t, "field f{k} \"x{k}\": f32 in T0.S1 (i)");
    }
    t += "kernel fn0 \"k\"() {\nforeach L0 (v0: i32) in f0 {\n";
    let mut v = 1;
    for k in 0..count {
        let _ = writeln!(
            t,
            "v{a}: f32 = load f{k}[v0]\nv{b}: f32 = load f{o}[v0]\nv{c}: f32 = add v{a}, v{b}\n\
             v{d}: f32 = mul v{c}, v{b}\nv{e}: f32 = max v{d}, v{a}\nstore f{k}[v0], v{e}",
            o = (k * 5 + 1) % count,
            a = v,
            b = v + 1,
            c = v + 2,
            d = v + 3,
            e = v + 4,
        );
        v += 5;
    }
    t += "continue L0\n}\nreturn\n}\n";
    t
}

/// The minimum time of several runs of Wuji's passes.
fn passes(text: &str, effort: Effort, rounds: u32) -> Result<(Duration, Lowered)> {
    let module = wuji_ir::text::parse(text, "growing.wir")?;
    let options = Options {
        vector_bits: 512,
        fma: true,
        ..Options::default()
    };
    let mut best: Option<(Duration, Lowered)> = None;
    for _ in 0..rounds.max(1) {
        let copy = module.clone();
        let started = Instant::now();
        let lowered = match effort {
            Effort::Fast | Effort::None => wuji_compile::compile_quickly(copy, &options)?,
            Effort::Full => wuji_compile::compile(copy, &options)?,
        };
        let time = started.elapsed();
        if best.as_ref().is_none_or(|b| time < b.0) {
            best = Some((time, lowered));
        }
    }
    best.ok_or_else(|| wuji_ir::Error::new("W0502", "nothing was compiled"))
}

/// The minimum time of several LLVM compilations on one thread.
fn backend(jit: &Jit, lowered: &Lowered, effort: Effort, rounds: u32) -> Result<Duration> {
    let mut best = Duration::MAX;
    for _ in 0..rounds.max(1) {
        let t = jit.build_with(lowered, effort)?.timings;
        best = best.min(t.build + t.optimize + t.emit);
    }
    Ok(best)
}

pub(crate) fn print(jit: &Jit, rounds: u32, json: bool, out: &mut dyn io::Write) -> Done {
    if !json {
        writeln!(
            out,
            "\nmicroseconds per source instruction, by number of instructions"
        )?;
        write!(out, "{:<18}{:<16}", "", "")?;
        for n in SIZES {
            write!(out, "{n:>9}")?;
        }
        writeln!(out, "{:>16}", "20000 to 1000")?;
    }
    for (name, shape) in SHAPES {
        let mut lines = [
            ("fast: Wuji", Vec::new()),
            ("fast: LLVM", Vec::new()),
            ("best: Wuji", Vec::new()),
            ("best: LLVM", Vec::new()),
        ];
        for n in SIZES {
            // Large kernels need fewer rounds for a stable measurement.
            let rounds = if n > 2_000 { rounds.min(2) } else { rounds };
            let text = shape(n);
            let (quick, lowered) = passes(&text, Effort::Fast, rounds)?;
            let fast = backend(jit, &lowered, Effort::Fast, rounds)?;
            let (all, better) = passes(&text, Effort::Full, rounds)?;
            let best = backend(jit, &better, Effort::Full, rounds.min(2))?;
            for (line, time) in lines.iter_mut().zip([quick, fast, all, best]) {
                let each = time.as_secs_f64() * 1e6 / n as f64;
                if json {
                    let object = json!({
                        "kind": "growing",
                        "shape": name,
                        "stage": line.0,
                        "written": n,
                        "lowered": instructions(&lowered),
                        "us_per_instruction": each,
                    });
                    writeln!(out, "{object}")?;
                }
                line.1.push(each);
            }
        }
        if !json {
            for (k, (stage, each)) in lines.iter().enumerate() {
                write!(out, "{:<18}{stage:<16}", if k == 0 { name } else { "" })?;
                for t in each {
                    write!(out, "{t:>9.2}")?;
                }
                writeln!(out, "{:>15.2}x", each[SIZES.len() - 1] / each[2])?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `SHAPE=fields cargo test --release --bin wuji growing -- --ignored --nocapture`
    #[test]
    #[ignore = "prints which passes grow faster than their kernels"]
    fn passes_in_detail() {
        let wanted = std::env::var("SHAPE").unwrap_or_default();
        for (name, shape) in SHAPES {
            if !name.contains(&wanted) {
                continue;
            }
            let mut sizes = Vec::new();
            for n in [1_000, 4_000, 16_000] {
                let (_, lowered) = passes(&shape(n), Effort::Full, 3).unwrap();
                sizes.push((n, lowered));
            }
            println!("{name}");
            for (k, timing) in sizes[0].1.timings().iter().enumerate() {
                print!("  {:<20}", timing.pass);
                for (n, lowered) in &sizes {
                    let time = lowered.timings()[k].time.as_secs_f64();
                    print!("{:>9.3}", time * 1e6 / *n as f64);
                }
                println!();
            }
        }
    }

    /// CPU time of this thread, so that other processes do not disturb the measurement.
    fn processor_time() -> Duration {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let nanoseconds = text.split_whitespace().next().and_then(|n| n.parse().ok());
        Duration::from_nanos(nanoseconds.unwrap_or(0))
    }

    /// The minimum CPU time of several runs of all passes.
    fn least(text: &str, rounds: u32) -> Result<Duration> {
        let mut least = Duration::MAX;
        for _ in 0..rounds {
            let before = processor_time();
            passes(text, Effort::Full, 1)?;
            least = least.min(processor_time().saturating_sub(before));
        }
        Ok(least)
    }

    /// Quadratic passes take 64 times as long for eight times the size. Repeats the measurement to exclude noise, such as
    /// caches that other processes use.
    #[test]
    fn passes_are_about_linear() {
        for (name, shape) in SHAPES {
            let (small, large) = (shape(1_000), shape(8_000));
            let mut measured = String::new();
            let linear = (1..=4).any(|rounds| {
                let few = least(&small, 2 * rounds).unwrap_or_else(|e| panic!("{name}: {e}"));
                let many = least(&large, rounds).unwrap_or_else(|e| panic!("{name}: {e}"));
                measured = format!("{few:?} for 1000 instructions, {many:?} for 8000");
                many < few * 20 + Duration::from_millis(20)
            });
            assert!(linear, "{name}: {measured}");
        }
    }
}
