//! Assembles the PTX of kernels with NVIDIA's `ptxas`, where it is installed; no GPU is needed.
//!
//! `WUJI_PTXAS` is the path of the assembler; the default is `ptxas`. Without it these tests pass, unless
//! `WUJI_REQUIRE_PTXAS=1`, which `cargo xtask test` sets.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use wuji::World;
use wuji_compile::{Functions, Libdevice, Math, Options, compile};
use wuji_examples::{apps, gallery};
use wuji_ir::module::Module;
use wuji_ir::text::parse;
use wuji_symbolic::{Program, Real, Sym};
use wuji_tests::filetest::{self, TestFile};

/// The oldest supported GPUs, and those that code is tuned for.
const MACHINES: [u32; 2] = [70, 90];

/// One of this many modules is assembled for all machines and with all optimizations, as drivers do; the others for one machine
/// each and without optimizations, because that takes time.
const THOROUGHLY: usize = 16;

/// The assembler; `None` if it is missing and not required.
fn assembler() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty());
    let path = match set("WUJI_PTXAS") {
        Some(path) => path.into(),
        None => PathBuf::from("ptxas"),
    };
    let works = Command::new(&path).arg("--version").output();
    if works.is_ok_and(|o| o.status.success()) {
        return Some(path);
    }
    let path = path.display();
    assert!(
        set("WUJI_REQUIRE_PTXAS").is_none(),
        "{path} does not work, and WUJI_REQUIRE_PTXAS is set"
    );
    println!("skipped: {path} not found; set WUJI_PTXAS to its path");
    None
}

/// Compiles named modules and assembles the results, on all processors. All of them must succeed: every kernel can
/// run on a GPU.
#[track_caller]
fn expect_assembled(ptxas: &Path, modules: &[(String, Module)]) {
    let next = AtomicUsize::new(0);
    let wrong = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some((name, module)) = modules.get(at) else {
                        return;
                    };
                    let (machines, level) = if at.is_multiple_of(THOROUGHLY) {
                        (&MACHINES[..], "-O3")
                    } else {
                        let one = at % MACHINES.len();
                        (&MACHINES[one..=one], "-O0")
                    };
                    if let Err(why) = assemble(ptxas, module, machines, level) {
                        let mut wrong = wrong.lock().expect("no panic while locked");
                        wrong.push(format!("{name}: {why}"));
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().expect("no thread panicked");
    println!(
        "{} of {} assembled",
        modules.len() - wrong.len(),
        modules.len()
    );
    let shown: Vec<&str> = wrong.iter().take(5).map(String::as_str).collect();
    assert!(
        wrong.is_empty(),
        "{} are wrong:\n{}",
        wrong.len(),
        shown.join("\n\n")
    );
}

fn assemble(ptxas: &Path, module: &Module, machines: &[u32], level: &str) -> Result<(), String> {
    let options = Options {
        math: Math::Strict,
        ..Options::default()
    };
    for &sm in machines {
        let lowered = compile(module.clone(), &options.for_cuda(sm)).map_err(|e| e.to_string())?;
        let ptx = wuji_llvm::cuda::ptx(&lowered, sm).map_err(|e| e.to_string())?;
        run(ptxas, &ptx.text, sm, level).map_err(|why| format!("sm_{sm}: {why}\n{}", ptx.text))?;
        let (tasks, entries) = (ptx.kernels.len(), ptx.text.matches(".entry").count());
        if entries != tasks {
            return Err(format!("{tasks} tasks, {entries} kernels\n{}", ptx.text));
        }
    }
    Ok(())
}

/// Assembles a text; an error is the assembler's message.
fn run(ptxas: &Path, text: &str, sm: u32, level: &str) -> Result<(), String> {
    let mut command = Command::new(ptxas);
    command.arg(format!("-arch=sm_{sm}")).arg(level);
    command.args(["-o", "/dev/null", "-"]);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|e| e.to_string())?;
    if let Some(mut input) = child.stdin.take() {
        // If the assembler exits early, its message explains why.
        let _ = input.write_all(text.as_bytes());
    }
    let done = child.wait_with_output().map_err(|e| e.to_string())?;
    if done.status.success() {
        Ok(())
    } else {
        let said = [&done.stdout[..], &done.stderr[..]].concat();
        Err(String::from_utf8_lossy(&said).into_owned())
    }
}

/// Invalid PTX is detected.
#[test]
fn the_assembler_assembles() {
    let Some(ptxas) = assembler() else {
        return;
    };
    let text = ".version 6.0\n.target sm_70\n.address_size 64\n.visible .entry k() { ret; }\n";
    assert_eq!(run(&ptxas, text, 70, "-O1"), Ok(()));
    let wrong = text.replace("ret;", "nonsense;");
    assert!(run(&ptxas, &wrong, 70, "-O1").is_err_and(|why| why.contains("nonsense")));
}

/// The hand-written references of the benchmarks, which are for compute capability 8.0 and newer.
#[test]
fn references_assemble() {
    let Some(ptxas) = assembler() else {
        return;
    };
    let mut assembled = 0;
    for entry in std::fs::read_dir("../benches/gpu").expect("the folder is there") {
        let path = entry.expect("a file").path();
        if path.extension().is_some_and(|e| e == "ptx") {
            let text = std::fs::read_to_string(&path).expect("readable");
            for sm in [80, 90] {
                assert_eq!(run(&ptxas, &text, sm, "-O1"), Ok(()), "{path:?} {sm}");
            }
            assembled += 1;
        }
    }
    assert!(assembled >= 5, "where are the others?");
}

/// Every runnable filetest, and the kernels of the compile-time measurements.
#[test]
fn filetests_assemble() {
    let Some(ptxas) = assembler() else {
        return;
    };
    let mut modules = Vec::new();
    for path in filetest::find(Path::new("filetests")).expect("the folder is there") {
        let file = TestFile::read(&path).expect("a filetest");
        if file.commands.iter().any(|(name, _)| name == "run") {
            let module = parse(file.source(), &file.name()).expect("a module");
            modules.push((file.name(), module));
        }
    }
    for path in filetest::find(Path::new("../crates/wuji-cli/kernels")).expect("they are there") {
        let (name, text) = (path.display().to_string(), std::fs::read_to_string(&path));
        let module = parse(&text.expect("readable"), &name).expect("a module");
        modules.push((name, module));
    }
    assert!(modules.len() > 300, "where are the others?");
    expect_assembled(&ptxas, &modules);
}

/// Traced programs: loops over tables of indices and constants, intermediates, blocks, every class of operations.
#[test]
fn traced_programs_assemble() {
    fn compute(x: &[Sym]) -> (Vec<Sym>, Sym) {
        let pairs = x.windows(2).enumerate().map(|(n, p)| {
            let (a, b) = (p[0], p[1]);
            let both = [(a * a + b * b).sqrt(), a.sin() * (b + 2.0).ln() + n as f64];
            Sym::block(&both);
            let condition = a.less(b) & !both[0].equals(a) | b.less_equal(both[1]);
            Sym::select(condition, both[0] % b, both[1].powf(a))
        });
        let pairs: Vec<Sym> = pairs.collect();
        let sum = pairs.iter().zip(x.iter().rev()).map(|(p, x)| *p * *x).sum();
        (pairs, sum)
    }
    let Some(ptxas) = assembler() else {
        return;
    };
    let world = World::interpreter().expect("a world");
    let single = Program::trace(&world, &[1f32; 100][..], |x| compute(&x)).expect("a program");
    let double = Program::trace(&world, &[1f64; 100][..], |x| compute(&x)).expect("a program");
    let modules = [
        ("f32".to_string(), single.module().clone()),
        ("f64".to_string(), double.module().clone()),
    ];
    expect_assembled(&ptxas, &modules);
}

/// NVIDIA's `libdevice`, which is next to the assembler.
fn libdevice(ptxas: &Path) -> Option<PathBuf> {
    let path = ptxas.parent()?.join("../nvvm/libdevice/libdevice.10.bc");
    if !path.exists() {
        println!("skipped: there is no {}", path.display());
        return None;
    }
    Some(path)
}

/// A kernel with every unary function, and `pow` and `atan2`, of a type.
fn functions(ty: &str) -> Module {
    let names = "sin cos tan asin acos atan sinh cosh tanh exp exp2 log log2 log10 pow atan2";
    let mut text = format!(
        "array a0 \"x\": {ty} rank 1 contiguous unaliased\narray a1 \"y\": {ty} rank 2 writable contiguous unaliased\n"
    );
    text += "kernel fn0 \"math\"() {\n  v0: i64 = extent a0.0\n  v1: i64 = const 0\n  foreach L0 (v2: i64) in v1..v0 {\n";
    text += &format!("    v3: {ty} = load a0[v2]\n");
    for (k, name) in names.split(' ').enumerate() {
        let (row, value) = (100 + k, 200 + k);
        let args = ["v3", "v3, v3"][usize::from(k >= 14)];
        text += &format!(
            "    v{row}: i64 = const {k}\n    v{value}: {ty} = {name} {args}\n    store a1[v{row}, v2], v{value}\n"
        );
    }
    parse(&(text + "    continue L0\n  }\n  return\n}\n"), "functions").expect("a module")
}

/// PTX with functions of the library.
fn with_library(module: &Module, path: &Path, math: Math, sm: u32) -> wuji::Result<String> {
    let options = Options {
        math,
        functions: Functions::Libdevice(Arc::new(Libdevice::read(path)?)),
        ..Options::default()
    };
    let lowered = compile(module.clone(), &options.for_cuda(sm))?;
    Ok(wuji_llvm::cuda::ptx(&lowered, sm)?.text)
}

#[test]
fn functions_of_libdevice_assemble() {
    let Some(ptxas) = assembler() else {
        return;
    };
    let Some(path) = libdevice(&ptxas) else {
        return;
    };
    for ty in ["f16", "f32", "f64"] {
        for math in [Math::Strict, Math::Contract, Math::Fast] {
            for sm in MACHINES {
                let text = with_library(&functions(ty), &path, math, sm).expect("PTX");
                assert_eq!(run(&ptxas, &text, sm, "-O1"), Ok(()), "{ty} {math:?} {sm}");
                for left in ["__nv_", "__nvvm_reflect"] {
                    assert!(!text.contains(left), "{ty} {math:?} {sm}: {left}");
                }
                // Strict kernels do not use it.
                let own = Options {
                    math,
                    ..Options::default()
                };
                let own = compile(functions(ty), &own.for_cuda(sm)).expect("lowered");
                let own = wuji_llvm::cuda::ptx(&own, sm).expect("PTX").text;
                assert_eq!(text == own, math == Math::Strict, "{ty} {math:?} {sm}");
                // The library's query about subnormal numbers was replaced.
                let flushes = text.contains("fma.rn.ftz.f32");
                assert_eq!(
                    flushes,
                    math == Math::Fast && ty != "f64",
                    "{ty} {math:?} {sm}"
                );
            }
        }
    }
}

#[test]
fn a_damaged_libdevice_is_rejected() {
    let Some(path) = assembler().and_then(|ptxas| libdevice(&ptxas)) else {
        return;
    };
    let whole = std::fs::read(path).expect("readable");
    let damaged = std::env::temp_dir().join(format!("wuji-damaged-{}.bc", std::process::id()));
    let half = whole[..whole.len() / 2].to_vec();
    let mut holes = whole.clone();
    holes[2000..60_000].fill(0);
    let empty = b"BC\xc0\xde".to_vec();
    for bytes in [half, holes, empty] {
        std::fs::write(&damaged, bytes).expect("written");
        let error = with_library(&functions("f32"), &damaged, Math::Fast, 90).unwrap_err();
        assert_eq!(error.code, "W0526", "{error}");
        assert!(error.to_string().contains("WUJI_LIBDEVICE"), "{error}");
    }
    std::fs::remove_file(damaged).expect("removed");
}

/// Set for the process that runs the examples.
const CHILD: &str = "WUJI_PTX_EXAMPLES";
const HEADER: &str = "; after promote\n";

/// Every kernel of every example. A child process runs them and prints them when it compiles them.
#[test]
fn examples_assemble() {
    if let Some(folder) = std::env::var_os(CHILD) {
        return perform(Path::new(&folder));
    }
    let Some(ptxas) = assembler() else {
        return;
    };
    let folder = std::env::temp_dir().join(format!("wuji-ptx-{}", std::process::id()));
    let mut child = Command::new(std::env::current_exe().expect("a program"));
    child.args(["--exact", "ptx::examples_assemble", "--nocapture"]);
    child.env(CHILD, &folder).env("WUJI_PRINT_AFTER", "promote");
    // The code for this processor is not looked at.
    child.env("WUJI_TIER", "fast");
    let done = child.output().expect("it starts");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    let mut modules = Vec::new();
    for text in said.split(HEADER).skip(1) {
        // Other output of the program may follow.
        let end = text.rfind("\n}").map_or(text.len(), |at| at + 3);
        let text = text.get(..end).unwrap_or(text);
        let module = parse(text, "example").unwrap_or_else(|e| panic!("{e}\n{text}"));
        // Kernels are compiled once for each size of fields, and twice when they are hot.
        if !modules.iter().any(|(_, known)| *known == module) {
            modules.push((module.name.clone(), module));
        }
    }
    let at_least = gallery::ALL.len() + apps::ALL.len();
    assert!(modules.len() >= at_least, "where are the others?");
    expect_assembled(&ptxas, &modules);
}

/// Runs all examples for a few steps.
fn perform(folder: &Path) {
    for example in gallery::ALL {
        let options = gallery::Options {
            out: Some(folder.to_owned()),
            frames: Some(1),
            ..gallery::small(example)
        };
        if let Err(e) = gallery::perform(example, &options) {
            panic!("{}: {e}", example.name);
        }
    }
    std::fs::remove_dir_all(folder).expect("cleaned up");
    let world = World::cpu().expect("a world");
    for entry in apps::ALL {
        let app = (entry.make)(&world, apps::Scale::Small);
        let stepped = app.and_then(|mut app| app.step());
        stepped.unwrap_or_else(|e| panic!("{}: {e}", entry.name));
    }
}
