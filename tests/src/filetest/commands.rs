//! Commands of `; test:` lines. One row of the table, one function.

use super::TestFile;
use super::run;
use wuji_compile::{Cx, Functions, Math, Options, autodiff, compile, run_pass};
use wuji_ir::module::Module;
use wuji_ir::text::parse;
use wuji_ir::verify::verify;

pub(super) struct Command {
    pub(super) name: &'static str,
    /// Takes the file and the rest of the line. Returns the expected output of the file, if the command has one.
    /// `Err` is the failure.
    pub(super) run: fn(&TestFile, &str) -> Result<Option<String>, String>,
}

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "verify",
        run: sound,
    },
    Command {
        name: "roundtrip",
        run: roundtrip,
    },
    Command {
        name: "error",
        run: refused,
    },
    Command {
        name: "pass",
        run: passes,
    },
    Command {
        name: "gradient",
        run: gradient,
    },
    Command {
        name: "tangent",
        run: tangent,
    },
    Command {
        name: "ptx",
        run: ptx,
    },
    Command {
        name: "run",
        run: run::runs,
    },
];

/// The verified module of a file.
pub(super) fn module(file: &TestFile) -> Result<Module, String> {
    read(file).map_err(|e| e.to_string())
}

fn read(file: &TestFile) -> wuji_ir::Result<Module> {
    let module = parse(file.source(), &file.name())?;
    verify(&module)?;
    Ok(module)
}

fn sound(file: &TestFile, _: &str) -> Result<Option<String>, String> {
    module(file).map(|_| None)
}

fn roundtrip(file: &TestFile, _: &str) -> Result<Option<String>, String> {
    // Without verification: invalid modules can be printed too.
    let module = parse(file.source(), &file.name()).map_err(|e| e.to_string())?;
    comes_back(&module).map(|()| None)
}

/// Checks that the printed module parses to the same module, and prints to the same text.
pub(super) fn comes_back(module: &Module) -> Result<(), String> {
    let printed = module.to_string();
    let again = parse(&printed, "printed").map_err(|e| format!("{e}\n{printed}"))?;
    if again != module.compacted() {
        return Err(format!("another module was parsed from:\n{printed}"));
    }
    if again.to_string() != printed {
        return Err(format!("another text was printed from:\n{printed}"));
    }
    Ok(())
}

fn refused(file: &TestFile, arguments: &str) -> Result<Option<String>, String> {
    let result = read(file).and_then(|mut module| {
        for pass in names(arguments) {
            run_pass(pass, &mut module, &mut Cx::new(&options(arguments)))?;
        }
        Ok(module)
    });
    match result {
        Ok(module) => Err(format!("this module is valid:\n{module}")),
        Err(error) => Ok(Some(format!("{error}\n"))),
    }
}

fn passes(file: &TestFile, arguments: &str) -> Result<Option<String>, String> {
    after_passes(module(file)?, arguments)
}

fn gradient(file: &TestFile, arguments: &str) -> Result<Option<String>, String> {
    let derived = autodiff::gradient_of(module(file)?).map_err(|e| e.to_string())?;
    verify(&derived).map_err(|e| format!("{e}\n{derived}"))?;
    after_passes(derived, arguments)
}

fn tangent(file: &TestFile, arguments: &str) -> Result<Option<String>, String> {
    let derived = autodiff::tangent_of(module(file)?).map_err(|e| e.to_string())?;
    verify(&derived).map_err(|e| format!("{e}\n{derived}"))?;
    after_passes(derived, arguments)
}

fn after_passes(mut module: Module, arguments: &str) -> Result<Option<String>, String> {
    for pass in names(arguments) {
        run_pass(pass, &mut module, &mut Cx::new(&options(arguments)))
            .map_err(|e| format!("{pass}: {e}"))?;
        verify(&module).map_err(|e| format!("{pass} left this: {e}\n{module}"))?;
    }
    Ok(Some(module.to_string()))
}

/// The PTX of the whole pipeline and LLVM for a compute capability; options may follow.
fn ptx(file: &TestFile, arguments: &str) -> Result<Option<String>, String> {
    let (sm, arguments) = arguments.split_once([',', ' ']).unwrap_or((arguments, ""));
    let sm = sm.trim_start_matches("sm_").parse();
    let sm = sm.map_err(|_| "which GPU? `; test: ptx sm_90`".to_owned())?;
    let options = options(arguments).for_cuda(sm);
    let lowered = compile(module(file)?, &options).map_err(|e| e.to_string())?;
    let ptx = wuji_llvm::cuda::ptx(&lowered, sm).map_err(|e| e.to_string())?;
    // Without LLVM's header, and without blank lines.
    let lines = ptx.text.lines().map(str::trim_end);
    let lines = lines.filter(|l| !l.is_empty() && !l.trim_start().starts_with("//"));
    Ok(Some(
        lines.map(|l| l.replace('\t', "    ") + "\n").collect(),
    ))
}

/// Vectors of 256 bits, whatever the machine has; `deterministic`, `debug`, `own_math`, `fma`, `fast` and `cuda` among the passes are options, and so are
/// `without=` with the name of a part to leave out, `stream_from=` with a number of bytes, `precision=` with a number of bits, and `threads=` with a number of threads;
/// `cuda=90` is for GPUs of compute capability 9.0.
fn options(arguments: &str) -> Options {
    let options = Options {
        vector_bits: 256,
        fma: words(arguments).any(|word| word == FMA || word == FAST),
        math: if words(arguments).any(|word| word == FAST) {
            Math::Fast
        } else {
            Math::Contract
        },
        deterministic: words(arguments).any(|word| word == DETERMINISTIC),
        debug: words(arguments).any(|word| word == DEBUG),
        functions: if words(arguments).any(|word| word == OWN_MATH) {
            Functions::WrittenOut
        } else {
            Functions::System
        },
        stream_from: words(arguments)
            .find_map(|word| word.strip_prefix(STREAM_FROM))
            .and_then(|bytes| bytes.parse().ok()),
        threads: words(arguments)
            .find_map(|word| word.strip_prefix(THREADS))
            .and_then(|count| count.parse().ok())
            .unwrap_or(0),
        precision: words(arguments)
            .find_map(|word| word.strip_prefix(PRECISION))
            .and_then(|bits| bits.parse().ok()),
        without: words(arguments)
            .filter_map(|word| word.strip_prefix(WITHOUT))
            .map(str::to_owned)
            .collect(),
        ..Options::default()
    };
    let of = words(arguments).find_map(|word| word.strip_prefix(CUDA_OF)?.parse().ok());
    if let Some(sm) = of {
        options.for_cuda(sm)
    } else if words(arguments).any(|word| word == CUDA) {
        options.for_cuda(OLD_GPU)
    } else {
        options
    }
}

const CUDA: &str = "cuda";
const CUDA_OF: &str = "cuda=";
/// The oldest supported GPU, without the features of newer ones.
pub(super) const OLD_GPU: u32 = 70;
/// A GPU with features that change the IR.
pub(super) const NEW_GPU: u32 = 90;
const DETERMINISTIC: &str = "deterministic";
const DEBUG: &str = "debug";
const FMA: &str = "fma";
const FAST: &str = "fast";
pub(super) const OWN_MATH: &str = "own_math";
const WITHOUT: &str = "without=";
const STREAM_FROM: &str = "stream_from=";
const THREADS: &str = "threads=";
const PRECISION: &str = "precision=";

/// The passes.
fn names(arguments: &str) -> impl Iterator<Item = &str> {
    words(arguments)
        .filter(|name| ![DETERMINISTIC, DEBUG, OWN_MATH, CUDA, FMA, FAST].contains(name))
        .filter(|name| {
            ![WITHOUT, STREAM_FROM, THREADS, PRECISION, CUDA_OF]
                .iter()
                .any(|o| name.starts_with(o))
        })
}

fn words(arguments: &str) -> impl Iterator<Item = &str> {
    arguments
        .split([',', ' '])
        .map(str::trim)
        .filter(|name| !name.is_empty())
}
