//! Numbers, and texts to look at:
//! `cargo test -p wuji-llvm --test backend measure -- --ignored --nocapture`.

use crate::harness::{jit, lowered};
use crate::shapes;
use std::time::Duration;
use wuji_compile::Math;
use wuji_llvm::{Text, Timings};

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

/// The least of several runs, since the machine has other things to do.
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
