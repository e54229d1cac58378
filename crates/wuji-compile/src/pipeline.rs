//! The pipeline: every pass, in order.

use crate::analysis::effects::Source;
use crate::options::{Math, Options};
use crate::passes::{self, Cx, PASSES, Pass, PassKind, PrintAfter, Timing};
use crate::remark::Remark;
use std::borrow::Cow;
use std::io::Write as _;
use std::time::Instant;
use strsim::levenshtein;
use wuji_ir::module::Module;
use wuji_ir::{Error, Result};

/// A module that a backend can compile: tasks are `serial` or `chunks`, every value is a scalar or a vector of one
/// per lane, and memory is accessed by byte offsets. Only the pipeline creates one.
#[derive(Debug, Clone)]
pub struct Lowered {
    module: Module,
    options: Options,
    timings: Vec<Timing>,
    sources: Vec<Source>,
    remarks: Vec<Remark>,
}

impl Lowered {
    /// The lowered module.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// The options that it was lowered for.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// A module that the caller knows to be lowered; for tests of backends.
    #[doc(hidden)]
    pub fn assume(module: Module, options: &Options) -> Lowered {
        Lowered {
            module,
            options: options.clone(),
            timings: Vec::new(),
            sources: Vec::new(),
            remarks: Vec::new(),
        }
    }

    /// The time of each pass, in order.
    pub fn timings(&self) -> &[Timing] {
        &self.timings
    }

    /// Remarks about parallel loops: vectorization and scratchpads, or why there are none.
    pub fn remarks(&self) -> &[Remark] {
        &self.remarks
    }

    /// The tasks before lowering, with their memory effects.
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }
}

/// Runs all passes on a kernel. If the environment variable `WUJI_PRINT_AFTER` lists names of passes, separated by
/// commas, or is `all`, the module is printed to standard error after each of them. With `WUJI_EXPLAIN=1`, remarks
/// about parallel loops are printed as well.
pub fn compile(module: Module, options: &Options) -> Result<Lowered> {
    let mut cx = Cx::new(options);
    cx.print_after = print_after();
    let lowered = compile_with(module, &mut cx)?;
    explain(lowered.remarks());
    Ok(lowered)
}

/// Prints modules, if the environment requests it.
fn print_after<'a>() -> Option<PrintAfter<'a>> {
    let wanted = std::env::var("WUJI_PRINT_AFTER").ok()?;
    Some(Box::new(move |pass, module| {
        if wanted.split(',').any(|w| w == pass || w == "all") {
            // `eprintln!` would panic on a full device.
            let _ = writeln!(std::io::stderr(), "; after {pass}\n{module}");
        }
    }))
}

/// Prints modules, if the environment requests it, and reports each finished pass.
fn printing_and<'a>(progress: &'a mut dyn FnMut(&'static str)) -> PrintAfter<'a> {
    let mut print = print_after();
    Box::new(move |pass, module| {
        progress(pass);
        if let Some(print) = &mut print {
            print(pass, module);
        }
    })
}

/// Runs all passes on a kernel, or with `quickly` those of [`compile_quickly`]. Calls `progress` with the name of
/// each finished pass.
pub fn compile_with_progress(
    module: Module,
    options: &Options,
    quickly: bool,
    progress: &mut dyn FnMut(&'static str),
) -> Result<Lowered> {
    let mut cx = Cx::new(options);
    cx.print_after = Some(printing_and(progress));
    let lowered = run(module, &mut cx, |pass| !quickly || !LATE.contains(&pass))?;
    // The first tier prints nothing: the best tier prints the same remarks.
    if !quickly {
        explain(lowered.remarks());
    }
    Ok(lowered)
}

/// Prints remarks about loops, if the environment requests it.
pub fn explain(remarks: &[Remark]) {
    if std::env::var_os("WUJI_EXPLAIN").is_some_and(|v| v == "1") {
        for remark in remarks {
            let _ = writeln!(std::io::stderr(), "{remark}");
        }
    }
}

/// Remarks about the loops of a kernel that run on one thread; none if it does not compile.
pub fn serial_loops_left(module: &Module, options: &Options) -> Vec<Remark> {
    let mut cx = Cx::new(options);
    let mut module = module.clone();
    for pass in PASSES {
        if cx.wants(pass) && (pass.run)(&mut module, &mut cx).is_err() {
            return Vec::new();
        }
        if pass.name == "parallelize" {
            break;
        }
    }
    cx.remarks
}

/// Optional passes that improve the code. They change only the bodies of functions: tasks, temps and sites stay the
/// same.
const LATE: &[&str] = &["vectorize"];

/// The largest number of passes of the first tier.
pub const FIRST_PASSES: usize = PASSES.len() - LATE.len();
/// The largest number of passes of [`improve`].
pub const LATE_PASSES: usize = LATE.len() + 1;

/// Runs the passes that a backend requires, and those that reduce its work: [`improve`] does the rest.
pub fn compile_quickly(module: Module, options: &Options) -> Result<Lowered> {
    let mut cx = Cx::new(options);
    cx.print_after = print_after();
    run(module, &mut cx, |pass| !LATE.contains(&pass))
}

/// What first code is made of. It calls the mathematical functions that better code will call, so that both give the same bits.
pub fn first_code(lowered: &Lowered) -> Cow<'_, Lowered> {
    let cx = Cx::new(&lowered.options);
    let late = passes::find("vectorize").is_some_and(|pass| cx.wants(pass));
    let exact = lowered.options.math == Math::Strict;
    if exact || !late {
        return Cow::Borrowed(lowered);
    }
    match passes::vectorize::call_vector_functions(&lowered.module, &cx) {
        Some(module) => Cow::Owned(Lowered {
            module,
            ..lowered.clone()
        }),
        None => Cow::Borrowed(lowered),
    }
}

/// Runs the passes that [`compile_quickly`] has left out. The result can replace the input between any two chunks
/// of a launch. Calls `progress` with the name of each finished pass.
pub fn improve(lowered: &Lowered, progress: &mut dyn FnMut(&'static str)) -> Result<Lowered> {
    let mut cx = Cx::new(&lowered.options);
    cx.print_after = Some(printing_and(progress));
    let module = lowered.module.clone();
    let mut better = run(module, &mut cx, |pass| {
        LATE.contains(&pass) || pass == "legality"
    })?;
    better.remarks.splice(0..0, lowered.remarks.iter().cloned());
    explain(better.remarks());
    let (old, new) = (&lowered.module, &better.module);
    let same = old.tasks == new.tasks
        && old.temps == new.temps
        && old.sites == new.sites
        && old.params == new.params
        && old.result == new.result;
    if !same {
        return Err(
            Error::new("W0302", "late passes have changed how a kernel is launched")
                .note("this is a bug in the compiler, not in the kernel"),
        );
    }
    Ok(Lowered {
        sources: lowered.sources.clone(),
        ..better
    })
}

/// Runs all passes on a kernel, with a given context.
pub fn compile_with(module: Module, cx: &mut Cx) -> Result<Lowered> {
    run(module, cx, |_| true)
}

fn run(mut module: Module, cx: &mut Cx, chosen: impl Fn(&str) -> bool) -> Result<Lowered> {
    if !matches!(cx.options.vector_bits, 0 | 128 | 256 | 512) {
        let bits = cx.options.vector_bits;
        return Err(
            Error::new("W0303", format!("there are no vectors of {bits} bits"))
                .help("say 128, 256 or 512"),
        );
    }
    for name in &cx.options.without {
        if passes::SWITCHES.iter().any(|s| s.0 == name) {
            continue;
        }
        match passes::find(name) {
            Some(pass) if pass.kind == PassKind::Optimization => {}
            Some(_) => {
                return Err(
                    Error::new("W0301", format!("the pass `{name}` cannot be left out"))
                        .note("kernels are wrong or cannot be compiled without it")
                        .help("optimizations can be left out, such as `simplify` or `vectorize`"),
                );
            }
            None => return Err(unknown_pass(name)),
        }
    }
    for pass in PASSES {
        if chosen(pass.name) && cx.wants(pass) {
            step(pass, &mut module, cx)?;
        }
    }
    Ok(Lowered {
        module,
        options: cx.options.clone(),
        timings: std::mem::take(&mut cx.timings),
        sources: std::mem::take(&mut cx.sources),
        remarks: std::mem::take(&mut cx.remarks),
    })
}

/// Runs one pass of the table on a module.
pub fn run_pass(name: &str, module: &mut Module, cx: &mut Cx) -> Result<()> {
    let pass = passes::find(name).ok_or_else(|| unknown_pass(name))?;
    step(pass, module, cx)
}

/// Runs a pass, which need not be in the table. Debug builds verify its result.
pub fn step(pass: &'static Pass, module: &mut Module, cx: &mut Cx) -> Result<()> {
    let start = Instant::now();
    (pass.run)(module, cx)?;
    cx.timings.push(Timing {
        pass: pass.name,
        time: start.elapsed(),
    });
    if let Some(print) = &mut cx.print_after {
        print(pass.name, module);
    }
    if cfg!(debug_assertions) {
        wuji_ir::verify::verify(module).map_err(|why| {
            Error::new(
                "W0302",
                format!("the pass `{}` produced an invalid module", pass.name),
            )
            .at(why.at.clone())
            .note(why.message)
            .note("this is a bug in the compiler, not in the kernel")
        })?;
    }
    Ok(())
}

/// The most similar name of a pass or switch.
fn nearest(name: &str) -> Option<&'static str> {
    let parts = passes::SWITCHES.iter().map(|s| s.0);
    let names = PASSES.iter().map(|p| p.name).chain(parts);
    let near = names.map(|n| (levenshtein(name, n), n)).min()?;
    (near.0 <= name.len() / 3).then_some(near.1)
}

fn unknown_pass(name: &str) -> Error {
    let error = Error::new("W0300", format!("there is no pass `{name}`"));
    match nearest(name) {
        Some(near) => error.help(format!("did you mean `{near}`?")),
        None => {
            let parts = passes::SWITCHES.iter().map(|s| s.0);
            let names: Vec<&str> = PASSES.iter().map(|p| p.name).chain(parts).collect();
            error.note(format!("the passes are {}", names.join(", ")))
        }
    }
}
