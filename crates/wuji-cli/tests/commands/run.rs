//! `wuji run`.

use crate::{Folder, SQUARES, check, check_both, shown, wuji};
use expect_test::expect;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Never terminates.
const ENDLESS: &str = r#"
module "endless"
tree T0 { place f0 }
field f0 "n": i32 in T0.S0 ()
kernel fn0 "endless"() {
  loop L0 {
    v0: i32 = load f0[]
    v1: i32 = const 1
    v2: i32 = add v0, v1
    store f0[], v2
    continue L0
  }
  unreachable
}
"#;

/// Prints and writes out of bounds.
const LOUD: &str = r#"
module "loud"
tree T0 {
  dense S1 [i: 4] { place f0 }
  pointer S2 [i: 4] { dense S3 [i: 2] { place f1 } }
}
field f0 "x": i32 in T0.S1 (i)
field f1 "y": f32x2 in T0.S3 (i)
array a0 "out": i32 rank 1 writable
message m0 "from {i32}"
param p0 "at": i32
kernel fn0 "loud"(v0: i32) -> i32 {
  print m0 (v0)
  store f0[v0], v0
  v1: f32 = const 0.5
  v2: f32x2 = splat v1
  store f1[v0], v2
  v3: i64 = const 1
  store a0[v3], v0
  return v0
}
"#;

#[test]
fn runs_of_a_file() {
    check_both(
        &["run", SQUARES],
        expect![[r#"
            ; crates/wuji-cli/kernels/squares.wir:2
            f0 = [0.0, 2.0, 8.0, 18.0, 32.0, 50.0, 72.0, 98.0]
            f1 = 280.0
            ; crates/wuji-cli/kernels/squares.wir:3
            f0 = [0.0, 0.0, 0.0, 8.0, 4*0.0]
            f1 = 8.0
        "#]],
    );
    let folder = Folder::new();
    let text = std::fs::read_to_string(Path::new("kernels/squares.wir")).unwrap();
    let wrong = text.replace("72, 98], f1 = 280", "72, 99], f1 = 280");
    let file = folder.file("wrong.wir", &wrong);
    let output = wuji(&["run", file.to_str().unwrap()]).output().unwrap();
    let text = shown(&output).replace(folder.0.to_str().unwrap(), "FOLDER");
    expect![[r#"
        ; FOLDER/wrong.wir:2
        f0 = [0.0, 2.0, 8.0, 18.0, 32.0, 50.0, 72.0, 98.0]
        f1 = 280.0
        ; FOLDER/wrong.wir:3
        f0 = [0.0, 0.0, 0.0, 8.0, 4*0.0]
        f1 = 8.0
        error[W0410]: f0 (`x`) has other values than expected
          --> FOLDER/wrong.wir:2:31
          |
        2 | ; run: p0 = 2, f0 = [0..8] => f0 = [0, 2, 8, 18, 32, 50, 72, 99], f1 = 280
          |                               ^
          = note: expected [0.0, 2.0, 8.0, 18.0, 32.0, 50.0, 72.0, 99.0]
          = note: found    [0.0, 2.0, 8.0, 18.0, 32.0, 50.0, 72.0, 98.0]
          = note: 1 of 8 scalars differ; number 7 is 98.0, expected 99.0
        [1]
    "#]]
    .assert_eq(&text);
    let file = folder.file("unreadable.wir", &wrong.replace("[0..8]", "[0..8"));
    let output = wuji(&["run", file.to_str().unwrap()]).output().unwrap();
    let text = shown(&output).replace(folder.0.to_str().unwrap(), "FOLDER");
    expect![[r#"
        error[W0008]: expected `]` before `=> f0 = [0, 2, 8, 18, 32, 50, 72, 99], f...`
          --> FOLDER/unreadable.wir:2:27
          |
        2 | ; run: p0 = 2, f0 = [0..8 => f0 = [0, 2, 8, 18, 32, 50, 72, 99], f1 = 280
          |                           ^
        [1]
    "#]]
    .assert_eq(&text);
}

#[test]
fn runs_from_values() {
    check(
        &["run", SQUARES, "--set", "p0 = 3", "--set", "f0 = [0..8]"],
        expect![[r#"
            f0 = [0.0, 3.0, 12.0, 27.0, 48.0, 75.0, 108.0, 147.0]
            f1 = 420.0
        "#]],
    );
    check(
        &[
            "run",
            SQUARES,
            "--set",
            "p0 = 1, f0 = [8*1]",
            "--launches",
            "3",
        ],
        expect![[r#"
            f0 = [8*1.0]
            f1 = 24.0
        "#]],
    );
    // The output is valid input.
    let first = wuji(&["run", SQUARES, "--set", "p0 = 3, f0 = [0..8]"]);
    let first = { first }.output().unwrap();
    let left = String::from_utf8(first.stdout).unwrap();
    let again = wuji(&["run", SQUARES, "--set", "p0 = 1", "--set", &left]);
    let again = { again }.output().unwrap();
    assert!(again.status.success(), "{}", shown(&again));
    for extra in [
        &["--tier", "best"][..],
        &["--tier", "fast", "--threads", "1"],
        &["--math", "fast", "--deterministic"],
        &["--without", "vectorize,inline"],
        &["--fuel", "3"],
        &["--debug"],
    ] {
        let output = wuji(&[&["run", SQUARES, "--set", "p0 = 3, f0 = [0..8]"], extra].concat());
        let output = { output }.output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), left);
    }
}

#[test]
fn outputs_of_a_run() {
    let folder = Folder::new();
    let file = folder.file("loud.wir", LOUD);
    let file = file.to_str().unwrap();
    let values = "p0 = 3, a0 = [2*7], f1[6] = (1, -2.5)";
    check_both(
        &["run", file, "--set", values],
        expect![[r#"
            f0 = [0, 0, 0, 3]
            active f1 = [[2], [3], [6], [7]]
            f1[2] = (0.0, 0.0)
            f1[3] = (0.5, 0.5)
            f1[6] = (1.0, -2.5)
            f1[7] = (0.0, 0.0)
            a0(2) = [7, 3]
            result = 3
            prints = ["from 3"]
        "#]],
    );
    let output = wuji(&["run", file, "--set", "p0 = -1"]).output().unwrap();
    let text = shown(&output).replace(folder.0.to_str().unwrap(), "FOLDER");
    expect![[r#"
        f0 = [4*0]
        active f1 = []
        a0(0) = []
        result = -1
        reports = [out_of_range]
        prints = ["from -1"]
        error[W0401]: kernel `loud` wrote to array `out` outside of its bounds
          --> FOLDER/loud.wir:19:3
           |
        19 |   store a0[v3], v0
           |   ^
           = note: the index is [1], its elements are [0..0]
           = note: also: kernel `loud` wrote to field `x` outside of its bounds at FOLDER/loud.wir:14:3
           = note: also: kernel `loud` wrote to field `y` outside of its bounds at FOLDER/loud.wir:17:3
           = note: 3 problems in this launch
           = help: such a write is dropped; guard it with an `if`
        [1]
    "#]]
    .assert_eq(&text);
    // The file may expect the report.
    let expecting = format!(
        "; run: p0 = 9 => reports = [out_of_range], result = 9, prints = [\"from 9\"]\n{LOUD}"
    );
    let file = folder.file("expecting.wir", &expecting);
    let output = wuji(&["run", file.to_str().unwrap()]).output().unwrap();
    assert!(output.status.success(), "{}", shown(&output));
}

#[test]
fn large_fields_are_shortened() {
    let folder = Folder::new();
    let large = r#"
module "large"
tree T0 { dense S1 [i: 1000] { place f0 } }
field f0 "x": i32 in T0.S1 (i)
kernel fn0 "large"() {
  foreach L0 (v0: i32) in f0 {
    v1: i32 = mul v0, v0
    store f0[v0], v1
    continue L0
  }
  return
}
"#;
    let file = folder.file("large.wir", large);
    let file = file.to_str().unwrap();
    check(
        &["run", file],
        expect![[r#"
            f0 = [0, 1, 4, 9, 16, 25, 36, 49, 64, 81, 100, 121, 144, 169, 196, 225, 256, 289, 324, 361, 400, 441, 484, 529, 576, 625, 676, 729, 784, 841, 900, 961, 1024, ...] ; 1000 elements
        "#]],
    );
    let full = shown(&wuji(&["run", file, "--full"]).output().unwrap());
    assert!(full.ends_with(", 996004, 998001]\n"), "{full}");
}

#[test]
fn invalid_values_are_rejected() {
    for (values, expected) in [
        (
            "p0 = x",
            expect![[r#"
                error[W0130]: p0 (`scale`) cannot have these values
                  = note: in `p0 = x`
                  = note: `x` is not a constant of type `f32`
                [2]
            "#]],
        ),
        (
            "p1 = 1",
            expect![[r#"
                error[W0130]: there is no p1
                  = note: in `p1 = 1`
                  = note: the module has p0 (`scale`), f0 (`x`), f1 (`total`)
                [2]
            "#]],
        ),
        (
            "f0 = [1, 2]",
            expect![[r#"
                error[W0130]: f0 (`x`) cannot have these values
                  = note: in `f0 = [1, 2]`
                  = note: it has 8 scalars, and gets 2
                [2]
            "#]],
        ),
        (
            "f0[8] = 1",
            expect![[r#"
                error[W0130]: f0 (`x`) has no element [8]
                  = note: in `f0[8] = 1`
                  = note: its elements are [0..8]
                [2]
            "#]],
        ),
        (
            "f0 = [99999999999999*0]",
            expect![[r#"
                error[W0130]: f0 (`x`) cannot have these values
                  = note: in `f0 = [99999999999999*0]`
                  = note: it has 8 scalars, and gets 99999999999999
                [2]
            "#]],
        ),
        (
            "active f0 = [0]",
            expect![[r#"
                error[W0130]: all elements of f0 (`x`) exist
                  = note: in `active f0 = [0]`
                [2]
            "#]],
        ),
        (
            "result = 1",
            expect![[r#"
                error[W0130]: results, reports and prints stand behind `=>`
                  = note: in `result = 1`
                [2]
            "#]],
        ),
        (
            "f0 = [1 => f0 = 2",
            expect![[r#"
                error[W0008]: expected `]` before `=> f0 = 2`
                  = note: in `f0 = [1 => f0 = 2`
                [2]
            "#]],
        ),
    ] {
        check(&["run", SQUARES, "--set", values], expected);
    }
    check(
        &["run", SQUARES, "--threads", "0"],
        expect![[r#"
            error[W0115]: a world needs at least one thread
              = help: leave the number out to use all cores
            [2]
        "#]],
    );
    check(
        &["run", SQUARES, "--time-limit", "soon"],
        expect![[r#"
            error: invalid value 'soon' for '--time-limit <TIME>': expected a number and a unit, such as `5s`, `200ms` or `1.5m`

            For more information, try '--help'.
            [2]
        "#]],
    );
    check(
        &["run", SQUARES, "--launches", "0"],
        expect![[r#"
            error: invalid value '0' for '--launches <N>': 0 is not in 1..18446744073709551615

            For more information, try '--help'.
            [2]
        "#]],
    );
    check(
        &["run", SQUARES, "--backend", "abacus"],
        expect![[r#"
            error: invalid value 'abacus' for '--backend <BACKEND>'
              [possible values: cpu, interpreter, cuda]

            For more information, try '--help'.
            [2]
        "#]],
    );
}

#[test]
fn times_and_profiles() {
    let folder = Folder::new();
    let trace = folder.0.join("trace.json");
    let output = wuji(&[
        "run",
        SQUARES,
        "--set",
        "p0 = 1",
        "--launches",
        "9",
        "--time",
        "--profile",
    ]);
    let output = { output }.arg("--trace").arg(&trace).output().unwrap();
    let text = shown(&output);
    assert!(output.status.success(), "{text}");
    for part in [
        "ready after ",
        "first launch: ",
        "8 more launches: ",
        "squares.1",
    ] {
        assert!(text.contains(part), "{text}");
    }
    let trace = std::fs::read_to_string(trace).unwrap();
    assert!(trace.contains("squares.1"), "{trace}");
}

#[test]
fn endless_kernels_can_be_stopped() {
    let folder = Folder::new();
    let file = folder.file("endless.wir", ENDLESS);
    let file = file.to_str().unwrap();
    check_both(
        &["run", file, "--time-limit", "50ms"],
        expect![[r#"
            error[W0409]: kernel `endless` ran longer than its time limit of 50ms
              = note: what it had written until then is kept
              = help: raise the limit with `--time-limit`
            [1]
        "#]],
    );
    // Ctrl-C stops the kernel with an error.
    let mut child = wuji(&["run", file, "--time"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = child.stderr.take().unwrap();
    let mut text = Vec::new();
    while !String::from_utf8_lossy(&text).contains('\n') {
        let mut byte = [0];
        assert_eq!(stderr.read(&mut byte).unwrap(), 1);
        text.push(byte[0]);
    }
    // The kernel is compiled; give it time to start.
    let began = Instant::now();
    std::thread::sleep(Duration::from_millis(500));
    let pid = child.id().to_string();
    let sent = Command::new("kill").args(["-INT", &pid]).status().unwrap();
    assert!(sent.success());
    stderr.read_to_end(&mut text).unwrap();
    let status = child.wait().unwrap();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert_eq!(status.code(), Some(1), "{text}");
    assert!(text.contains("interrupted by Ctrl-C"), "{text}");
    assert!(began.elapsed() < Duration::from_secs(60));
}

/// The elements of a sparse field are listed in any order, in deterministic worlds too.
#[test]
fn deterministic_runs_of_sparse_kernels() {
    let folder = Folder::new();
    let file = folder.file(
        "sparse.wir",
        "; run: f0[3] = 1 => active f0 = [2, 3], f0[3] = 2\n\
         module \"sparse\"\n\
         tree T0 { pointer S1 [i: 4] { dense S2 [i: 2] { place f0 } } }\n\
         field f0 \"x\": i32 in T0.S2 (i)\n\
         kernel fn0 \"sparse\"() {\n\
         foreach L0 (v0: i32) in f0 {\n\
         v1: i32 = load f0[v0]\n\
         v2: i32 = add v1, v1\n\
         store f0[v0], v2\n\
         continue L0\n\
         }\n\
         return\n\
         }\n",
    );
    let output = wuji(&["run", file.to_str().unwrap(), "--deterministic"]);
    let output = { output }.output().unwrap();
    assert!(output.status.success(), "{}", shown(&output));
}
