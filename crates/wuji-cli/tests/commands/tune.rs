//! `wuji tune`.

use crate::{Folder, check, shown, wuji};
use expect_test::expect;

const OSCILLATORS: &str = "crates/wuji-cli/kernels/oscillators.wir";

#[test]
fn bits_of_a_kernel() {
    check(
        &[
            "tune",
            "quant",
            OSCILLATORS,
            "--outputs",
            "x",
            "--error",
            "1e-3",
            "--backend",
            "interpreter",
        ],
        expect![[r#"
            field  type   smallest  largest  least nonzero
            x      f32x2  -1        1        0.0178
            v      f32x2  -1.2574   1.7098   0.171
            kind   i32    0         2        1

               bytes  memory  error   x         v         kind
            >  64     40%     3.1e-4  fixed 15  fixed 16  int 2
               96     60%     1.8e-4  fixed 16  fixed 30  int 2
               128    80%     3.7e-6  fixed 31  plain     int 2
               160    100%    0.0e0   plain     plain     plain

                1e1 |
                    |                                       .
                    |                                       .
                    |                                       .
               3e-2 |                                       .
                    |                                       .
                    |
                    |@         .         *
               8e-5 |                                                           .
                    |
                    |                                       *
               1e-6 |                                                           *
              error +------------------------------------------------------------
                     64                                                 160 bytes

            chosen: 64 instead of 160 bytes (40%), error 3.1e-4; 17 runs

            // node of x, v, kind: 8 instead of 20 bytes per cell
            let word = node.bit_struct(64); // no unused bits
            let x = word.place("x", qfixed(15, true, 1.1));
            let v = word.place("v", qfixed(16, true, 1.9));
            let kind = word.place("kind", qint(2, false));
        "#]],
    );
}

#[test]
fn the_kernel_with_the_chosen_types_runs() {
    let folder = Folder::new();
    let (kernel, plot) = (folder.0.join("packed.wir"), folder.0.join("front.svg"));
    let mut command = wuji(&[
        "tune",
        "quant",
        OSCILLATORS,
        "--outputs",
        "x,v",
        "--memory",
        "40%",
    ]);
    let output = command
        .args(["--code", "python", "--backend", "interpreter", "--plot"])
        .arg(&plot)
        .arg("--write")
        .arg(&kernel)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", shown(&output));
    let text = shown(&output);
    assert!(text.contains("ti.types.quant.fixed("), "{text}");
    assert!(std::fs::read_to_string(plot).unwrap().starts_with("<svg"));
    let run = [
        "run",
        kernel.to_str().unwrap(),
        "--set",
        "f0 = [8*(1, 0.5)], f2 = [8*1]",
    ];
    let text = shown(&wuji(&run).output().unwrap());
    assert!(text.contains("f0 = [8*(0.14"), "{text}");
}

#[test]
fn wrong_requests() {
    let mut text = String::new();
    for arguments in [
        &["--outputs", "y", "--error", "1e-3"][..],
        &["--outputs", "x", "--error", "1e-3", "--keep", "z"],
        &["--outputs", "x", "--error", "0"],
        &["--outputs", "x", "--memory", "3"],
        &["--outputs", "x", "--memory", "200%"],
        &["--outputs", "x", "--error", "1e-3", "--set", "f1 = [16*0]"],
    ] {
        let all = [
            &["tune", "quant", OSCILLATORS, "--backend", "interpreter"],
            arguments,
        ]
        .concat();
        text += &shown(&wuji(&all).output().unwrap());
    }
    text += &shown(
        &wuji(&[
            "tune",
            "quant",
            "examples/x.py",
            "--outputs",
            "x",
            "--error",
            "1",
        ])
        .output()
        .unwrap(),
    );
    expect![[r#"
        error[W0160]: there is no output `y`
          = note: the fields are `x`, `v`, `kind`
        [2]
        error[W0160]: there is no field `z` to tune
          = note: the fields are `x`, `v`, `kind`
        [2]
        error[W0160]: the error bound 0.0 is not a positive number
        [2]
        error[W0163]: the fields do not fit 3 bytes: with the fewest bits they have 16
          = note: with their compute types they have 160 bytes
          = help: allow more memory, or tune more of the fields
        [1]
        error: invalid value '200%' for '--memory <BUDGET>': a budget is at most 100%

        For more information, try '--help'.
        [2]
        error[W0160]: all numbers of the fields are zero in the reference
          = help: give the program its inputs
        [2]
        error[W0160]: examples/x.py is a program in Python, not textual IR
          = help: run the command of the Python package: `python -m wuji tune quant`
        [2]
    "#]]
    .assert_eq(&text);
}

mod layouts {
    use super::*;

    const ADVECT: &str = "crates/wuji-cli/kernels/advect.wir";

    #[test]
    fn the_kernel_with_the_chosen_layout_runs() {
        let folder = Folder::new();
        let kernel = folder.0.join("fast.wir");
        let mut command = wuji(&["tune", "layout", ADVECT, "--outputs", "moved"]);
        let output = command
            .args(["--launches", "2", "--repeats", "1", "--write"])
            .arg(&kernel)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", shown(&output));
        let text = shown(&output);
        for part in [
            "(original)",
            "dense > dense 16, AoS",
            "SoA by component",
            "Morton",
            "column-major",
            "chosen: ",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("\nx "), "{text}");
        let set = "f0 = [65536*1], f1 = [65536*(0.5, 0)]";
        let run = ["run", kernel.to_str().unwrap(), "--set", set];
        let text = shown(&wuji(&run).output().unwrap());
        assert!(text.contains("f2 = "), "{text}");
    }

    #[test]
    fn wrong_requests() {
        let mut text = String::new();
        for arguments in [
            &["--outputs", "y"][..],
            &["--outputs", "moved", "--keep", "T7"],
            &["--outputs", "moved", "--keep", "T0"],
            &["--outputs", "moved", "--tolerance", "nan"],
        ] {
            let all = [
                &[
                    "tune",
                    "layout",
                    ADVECT,
                    "--launches",
                    "1",
                    "--repeats",
                    "1",
                ],
                arguments,
            ]
            .concat();
            text += &shown(&wuji(&all).output().unwrap());
        }
        expect![[r#"
            error[W0160]: there is no output `y`
              = note: the fields are `density`, `velocity`, `moved`
            [2]
            error[W0160]: there is no grid `T7` to keep
              = note: the grids are `T0`
            [2]
            error[W0160]: there is no layout to choose
              = help: place at least one field through a grid of the trial
            [2]
            error[W0160]: the tolerance NaN is not a number from 0 on
            [2]
        "#]]
        .assert_eq(&text);
    }
}
