//! Compile-time and run-time measurements, and printed assembly:
//! `cargo test -p wuji-llvm --test backend measure -- --ignored --nocapture`.

use crate::harness::{Aligned, Launch, jit, lowered};
use crate::shapes;
use std::time::{Duration, Instant};
use wuji_compile::Math;
use wuji_llvm::{Jit, JitOptions, Text, Timings};

fn shapes() -> Vec<(&'static str, String)> {
    vec![
        ("saxpy", shapes::SAXPY.into()),
        ("jacobi", shapes::JACOBI.into()),
        ("sum", shapes::reduction("add", "f32", 4, "0.0")),
        ("min", shapes::reduction("min", "f32", 4, "inf")),
        ("medium", shapes::medium()),
    ]
}

#[test]
#[ignore = "prints assembly: SHAPE=jacobi, FORM=ir, opt or asm"]
fn show() {
    let wanted = std::env::var("SHAPE").unwrap_or_default();
    let form = match std::env::var("FORM").as_deref() {
        Ok("ir") => Text::Ir,
        Ok("opt") => Text::OptimizedIr,
        _ => Text::Assembly,
    };
    for (name, text) in shapes() {
        if wanted.is_empty() || wanted == name {
            println!(
                "{}",
                jit().text(&lowered(&text, Math::Contract), form).unwrap()
            );
        }
    }
}

/// The minimum of several runs, to exclude other load on the machine.
#[test]
#[ignore = "measures compile time"]
fn compile_times() {
    for (name, text) in shapes() {
        let lowered = lowered(&text, Math::Contract);
        let runs: Vec<Timings> = (0..20)
            .map(|_| *jit().compile(&lowered).unwrap().timings())
            .collect();
        let least = |part: fn(&Timings) -> Duration| runs.iter().map(part).min().unwrap();
        println!(
            "{name:8} build {:9.2?} optimize {:9.2?} emit {:9.2?} link {:9.2?} total {:9.2?}",
            least(|t| t.build),
            least(|t| t.optimize),
            least(|t| t.emit),
            least(|t| t.link),
            least(|t| t.total),
        );
    }
}

/// One thread, several vector widths, interleaved runs.
#[test]
#[ignore = "measures run time"]
fn run_times() {
    let count = 1 << 24;
    let mut x = Aligned::from(&vec![1f32; count]);
    let mut y = Aligned::from(&vec![2f32; count]);
    let widths = [128, 256, 512];
    let jits = widths.map(|bits| {
        let options = JitOptions {
            vector_bits: Some(bits),
            ..JitOptions::default()
        };
        Jit::new(&options).unwrap()
    });
    // Units, and total bytes moved.
    let work = |name: &str| match name {
        "jacobi" => (1, 4095, 2 * 4 * count),
        "sum" | "min" => (0, count as i64, 4 * count),
        _ => (0, count as i64, 3 * 4 * count),
    };
    // In memory and in cache.
    for (part, repeat) in [(1, 1), (2048, 500)] {
        for (name, text) in shapes() {
            let lowered = lowered(&text, Math::Contract);
            let kernels = jits.each_ref().map(|j| j.compile(&lowered).unwrap());
            let (begin, end, bytes) = work(name);
            let end = (end / part).max(2);
            let mut times = [Duration::MAX; 3];
            for _ in 0..15 {
                for (kernel, time) in kernels.iter().zip(&mut times) {
                    let mut launch = Launch {
                        params: vec![u64::from(1e-9f32.to_bits())],
                        trees: vec![x.ptr(), y.ptr()],
                        ..Launch::default()
                    };
                    let start = Instant::now();
                    for _ in 0..repeat {
                        launch.run(kernel, 0, begin, end);
                    }
                    *time = (*time).min(start.elapsed());
                }
            }
            print!("{name:8} 1/{part:4}");
            for (bits, time) in widths.iter().zip(times) {
                let moved = bytes as f64 / part as f64 * f64::from(repeat);
                print!("  {bits}: {:7.2} GB/s", moved / time.as_secs_f64() / 1e9);
            }
            println!();
        }
    }
}
