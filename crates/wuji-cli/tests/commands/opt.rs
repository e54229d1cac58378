//! `wuji opt`.

use crate::{Folder, SQUARES, check, piped, shown, wuji};
use expect_test::expect;
use wuji_compile::PASSES;
use wuji_compile::passes::SWITCHES;

#[test]
fn passes() {
    check(
        &[
            "opt",
            SQUARES,
            "--passes",
            "promote,inline,simplify,offload",
        ],
        expect![[r#"
            module "squares"
            tree T0 {
              dense S1 [i: 8] {
                place f0
              }
              place f1
            }
            field f0 "x": f32 in T0.S1 (i)
            field f1 "total": f32 in T0.S0 ()
            param p0 "scale": f32

            fn fn0 "squares.1"(v0: f32, v1: i32) {
              v2: f32 = load f0[v1]
              v3: f32 = mul v2, v2
              v4: f32 = mul v3, v0
              store f0[v1], v4
              v5: f32 = atomic add f1[], v4
              return
            }

            task "squares.1" cells f0 fn0 ordinal 1
        "#]],
    );
    check(
        &[
            "opt",
            SQUARES,
            "--passes",
            "promote,offload",
            "--print-after",
            "promote",
        ],
        expect![[r#"
            ; after promote
            module "squares"
            tree T0 {
              dense S1 [i: 8] {
                place f0
              }
              place f1
            }
            field f0 "x": f32 in T0.S1 (i)
            field f1 "total": f32 in T0.S0 ()
            param p0 "scale": f32

            kernel fn0 "squares"(v0: f32) {
              foreach L0 (v1: i32) in f0 {
                v2: f32 = load f0[v1]
                v3: f32 = mul v2, v2
                v4: f32 = mul v3, v0
                store f0[v1], v4
                v5: f32 = atomic add f1[], v4
                continue L0
              }
              return
            }

        "#]],
    );
    let list = shown(&wuji(&["opt", "--list"]).output().unwrap());
    let known = PASSES.iter().map(|p| (p.name, p.sentence));
    for (name, sentence) in known.chain(SWITCHES.iter().copied()) {
        let row = |line: &str| line.contains(name) && line.ends_with(sentence);
        assert!(list.lines().any(row), "{name} is not in\n{list}");
    }
    // The output can be parsed again.
    let first = wuji(&["opt", SQUARES, "--passes", "promote"])
        .output()
        .unwrap();
    let text = String::from_utf8(first.stdout).unwrap();
    let whole = wuji(&["opt", SQUARES, "--passes", "promote,inline"])
        .output()
        .unwrap();
    let second = piped(&["opt", "-", "--passes", "inline"], &text);
    assert_eq!(shown(&second), shown(&whole));
}

#[test]
fn the_whole_pipeline() {
    let text = |arguments: &[&str]| {
        let output = wuji(&[&["opt", SQUARES, "--threads", "2"], arguments].concat());
        let output = { output }.output().unwrap();
        assert!(output.status.success(), "{}", shown(&output));
        shown(&output)
    };
    let ir = text(&["--vector-bits", "256"]);
    assert!(
        ir.contains("task \"squares.1\" chunks") && ir.contains("f32x8"),
        "{ir}"
    );
    let narrow = text(&["--vector-bits", "128"]);
    assert!(
        narrow.contains("f32x4") && !narrow.contains("f32x8"),
        "{narrow}"
    );
    let scalar = text(&["--without", "vectorize"]);
    assert!(!scalar.contains("f32x"), "{scalar}");
    assert!(text(&["--deterministic", "--math", "strict"]).contains("private"));
    assert!(text(&["--emit", "llvm"]).contains("define "));
    assert!(text(&["--emit", "llvm-opt"]).contains("define "));
    assert!(text(&["--emit", "asm"]).contains(".text"));
    let all = text(&["--print-after", "all"]);
    assert!(all.contains("; after promote\n") && all.contains("; after legality\n"));
    let both = text(&[
        "--print-after",
        "loops",
        "--emit",
        "ir",
        "--vector-bits",
        "256",
    ]);
    assert!(both.starts_with("; after loops\n") && both.ends_with(&ir));
    let timed = text(&["--time-passes"]);
    assert!(
        timed.contains("% vectorize") || timed.contains("%  vectorize"),
        "{timed}"
    );
    assert!(timed.contains("optional rewrites"), "{timed}");
    let none = text(&["--fuel", "0"]);
    assert!(none.ends_with("\n0 optional rewrites\n"), "{none}");
}

/// Does not need a GPU.
#[test]
fn code_for_gpus() {
    let text = |arguments: &[&str]| {
        let output = { wuji(&[&["opt", SQUARES], arguments].concat()) }
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", shown(&output));
        shown(&output)
    };
    let ptx = text(&["--emit", "ptx"]);
    assert!(ptx.contains(".target sm_90"), "{ptx}");
    assert!(ptx.contains(".entry wuji_0_squares_1("), "{ptx}");
    let old = text(&["--emit", "ptx", "--target", "cuda", "--sm", "75"]);
    assert!(old.contains(".target sm_75"), "{old}");
    // 32-bit offsets, no vectors.
    let ir = text(&["--target", "cuda"]);
    assert!(ir.contains("task \"squares.1\" chunks"), "{ir}");
    assert!(!ir.contains("f32x"), "{ir}");
    let after = text(&[
        "--target",
        "cuda",
        "--print-after",
        "narrow_indices,lower_math",
    ]);
    assert!(after.contains("; after narrow_indices\n"), "{after}");
    assert!(after.contains("; after lower_math\n"), "{after}");
    for wrong in [
        ["--emit", "ptx", "--target", "cpu"],
        ["--emit", "asm", "--target", "cuda"],
    ] {
        check(
            &[&["opt", SQUARES][..], &wrong].concat(),
            expect![[r#"
                error: `--emit ptx` requires `--target cuda`; `llvm`, `llvm-opt` and `asm` require `--target cpu`

                Usage: wuji opt [OPTIONS] [FILE]

                For more information, try '--help'.
                [2]
            "#]],
        );
    }
    check(
        &["opt", SQUARES, "--emit", "ptx", "--sm", "61"],
        expect![[r#"
            error: invalid value '61' for '--sm <NUMBER>': 61 is not in 70..=999

            For more information, try '--help'.
            [2]
        "#]],
    );
}

#[test]
fn usage_errors_of_opt() {
    let folder = Folder::new();
    check(
        &["opt", "no/such/file.wir"],
        expect![[r#"
            error[W0515]: cannot read no/such/file.wir
              = note: No such file or directory (os error 2)
            [1]
        "#]],
    );
    check(
        &["opt", "crates"],
        expect![[r#"
            error[W0515]: cannot read crates
              = note: Is a directory (os error 21)
            [1]
        "#]],
    );
    let binary = folder.0.join("binary.wir");
    std::fs::write(&binary, [0xff, 0xfe]).unwrap();
    let output = wuji(&["opt", binary.to_str().unwrap()]).output().unwrap();
    assert!(shown(&output).contains("not valid UTF-8"));
    check(
        &["opt", SQUARES, "--passes", "promote,inlin"],
        expect![[r#"
            error[W0300]: there is no pass `inlin`
              = help: did you mean `inline`?
            [2]
        "#]],
    );
    check(
        &["opt", SQUARES, "--print-after", "lops"],
        expect![[r#"
            error[W0300]: there is no pass `lops`
              = help: did you mean `loops`?
            [2]
        "#]],
    );
    check(
        &["opt", SQUARES, "--without", "legality"],
        expect![[r#"
            error[W0301]: the pass `legality` cannot be left out
              = note: kernels are wrong or cannot be compiled without it
              = help: optimizations can be left out, such as `simplify` or `vectorize`
            [2]
        "#]],
    );
    check(
        &["opt", SQUARES, "--vector-bits", "100"],
        expect![[r#"
            error[W0303]: there are no vectors of 100 bits
              = help: say 128, 256 or 512
            [2]
        "#]],
    );
    check(
        &["opt", SQUARES, "--fuel", "much"],
        expect![[r#"
            error: invalid value 'much' for '--fuel <N>': invalid digit found in string

            For more information, try '--help'.
            [2]
        "#]],
    );
    check(
        &["opt", SQUARES, "--passes", "promote", "--emit", "asm"],
        expect![[r#"
            error: LLVM requires the whole pipeline: `--emit` and `--passes` cannot be combined

            Usage: wuji opt [OPTIONS] [FILE]

            For more information, try '--help'.
            [2]
        "#]],
    );
    check(
        &["opt", SQUARES, "--passes", "legality"],
        expect![[r#"
            error[W0330]: the kernel was not split into tasks
              = note: this is a bug in the compiler, not in the kernel
            [1]
        "#]],
    );
    check(
        &["opt"],
        expect![[r#"
            error: the following required arguments were not provided:
              <FILE>

            Usage: wuji opt <FILE>

            For more information, try '--help'.
            [2]
        "#]],
    );
    let bad = piped(
        &["opt", "-"],
        "kernel fn0 \"x\"() {\n  v0: f32 = add v1, v1\n  return\n}\n",
    );
    expect![[r#"
        error[W0003]: v1 is not defined
          --> <stdin>:2:17
        [1]
    "#]]
    .assert_eq(&shown(&bad));
    // Errors in a file show the source line.
    let file = folder.file(
        "bad.wir",
        "module \"x\"\nkernel fn0 \"x\"() {\n  v0: f3 = const 1\n}\n",
    );
    let output = wuji(&["opt", file.to_str().unwrap()]).output().unwrap();
    let text = shown(&output).replace(folder.0.to_str().unwrap(), "FOLDER");
    expect![[r#"
        error[W0002]: `f3` is not a type
          --> FOLDER/bad.wir:3:7
          |
        3 |   v0: f3 = const 1
          |       ^
        [1]
    "#]]
    .assert_eq(&text);
}
