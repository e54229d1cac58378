//! Large and deep kernels compile without overflowing the stack, in time proportional to their size.

use std::fmt::Write;
use std::time::{Duration, Instant};
use wuji_compile::{Options, compile};

const HEAD: &str =
    "tree T0 {\n  dense S1 [i: 64] { place f0 }\n}\nfield f0 \"x\": i32 in T0.S1 (i)\n";

fn time(text: &str) -> Duration {
    let m = wuji_ir::text::parse(text, "large.wir").unwrap_or_else(|e| panic!("{e}"));
    let start = Instant::now();
    compile(m, &Options::default()).unwrap_or_else(|e| panic!("{e}"));
    start.elapsed()
}

/// `if` in loop in block in `if`, as deep as the verifier allows.
#[test]
fn nesting() {
    let mut text = format!(
        "{HEAD}kernel fn0 \"k\"() {{\n  local l0 \"t\": i32\n  foreach L0 (v0: i32) in f0 {{\n"
    );
    text += "v1: i32 = const 0\nv2: i32 = const 2\nv3: i32 = load f0[v0]\nv4: bool = lt v3, v2\nstore l0[], v3\n";
    let mut ends = Vec::new();
    for k in 1..=190 {
        match k % 4 {
            0 => {
                let _ = writeln!(text, "if v4 {{");
                ends.push("yield\n} else {\nyield\n}\n".to_owned());
            }
            1 => {
                let _ = writeln!(text, "for L{k} v{}: i32 in v1..v2 step v2 {{", 1000 + k);
                ends.push(format!("continue L{k}\n}}\n"));
            }
            2 => {
                let _ = writeln!(text, "block L{k} {{");
                let _ = writeln!(text, "if v4 {{\nbreak L{k}\n}} else {{\nyield\n}}");
                ends.push("yield\n}\n".to_owned());
            }
            _ => {
                let _ = writeln!(text, "loop L{k} {{");
                ends.push(format!("break L{k}\n}}\n"));
            }
        }
        let _ = writeln!(
            text,
            "v{a}: i32 = load l0[]\nv{b}: i32 = add v{a}, v2\nstore l0[], v{b}",
            a = 2000 + 2 * k,
            b = 2001 + 2 * k
        );
    }
    while let Some(end) = ends.pop() {
        text += &end;
    }
    text += "v5: i32 = load l0[]\nstore f0[v0], v5\ncontinue L0\n}\nreturn\n}\n";
    time(&text);
}

fn straight(n: usize) -> String {
    let mut text = format!("{HEAD}kernel fn0 \"k\"() {{\n  foreach L0 (v0: i32) in f0 {{\n");
    text += "v1: i32 = load f0[v0]\nv2: i32 = const 3\n";
    for k in 3..n {
        let _ = match k % 5 {
            0 => writeln!(text, "v{k}: i32 = load f0[v{}]", k - 1),
            1 => writeln!(
                text,
                "store f0[v{}], v{}\nv{k}: i32 = mul v{}, v0",
                k - 1,
                k - 2,
                k - 3
            ),
            2 => writeln!(text, "v{k}: i32 = add v{}, v{}", k - 1, k / 2),
            3 => writeln!(text, "v{k}: i32 = xor v{}, v{}", k - 1, k - 2),
            _ => writeln!(
                text,
                "v{m}: bool = lt v{}, v2\nv{k}: i32 = if v{m} {{\nstore f0[v{}], v2\nyield v{}\n}} else {{\nyield v2\n}}",
                k - 1,
                k - 2,
                k - 1,
                m = k + n,
            ),
        };
    }
    let _ = writeln!(
        text,
        "store f0[v0], v{}\ncontinue L0\n}}\nreturn\n}}",
        n - 1
    );
    text
}

#[test]
fn long() {
    let short = time(&straight(2_000));
    let long = time(&straight(16_000));
    // Eight times the size; quadratic passes would take 64 times as long.
    assert!(
        long < short * 24 + Duration::from_millis(200),
        "{short:?} for one, {long:?} for eight"
    );
}

/// Many locals and many ways out of one loop.
#[test]
fn many_locals() {
    let build = |n: usize| {
        let mut text = format!("{HEAD}kernel fn0 \"k\"() {{\n");
        for k in 0..n {
            let _ = writeln!(text, "local l{k} \"t{k}\": i32");
        }
        text += "foreach L0 (v0: i32) in f0 {\nv1: i32 = const 0\nv2: i32 = const 9\nv3: i32 = const 1\n";
        text += "for L1 v4: i32 in v1..v2 step v3 {\n";
        let mut v = 5;
        for k in 0..n {
            let _ = writeln!(
                text,
                "store l{k}[], v4\nv{v}: i32 = load l{}[]\nv{}: bool = lt v{v}, v0\nif v{} {{\nstore f0[v{v}], v4\ncontinue L1\n}} else {{\nyield\n}}",
                k / 2,
                v + 1,
                v + 1,
            );
            v += 2;
        }
        text += "continue L1\n}\ncontinue L0\n}\nreturn\n}\n";
        text
    };
    let few = time(&build(200));
    let many = time(&build(1600));
    assert!(
        many < few * 24 + Duration::from_millis(200),
        "{few:?} for one, {many:?} for eight"
    );
}
