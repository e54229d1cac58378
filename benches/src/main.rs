//! Workloads measured against hand-written loops; run it by `cargo xtask bench`.

mod case;
mod cpp;
mod host;
mod measure;
mod pattern;
mod pool;
mod workloads;

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use case::{Case, Contender};
use cpp::Cpp;
use measure::{Row, interleave};
use pattern::Pattern;
use pool::Pool;

const HELP: &str = "\
wuji-bench [--filter REGEX] [--json FILE] [--guard] [--cpp LIBRARY] [--pairs N] [--threads N] [--list]

`cargo xtask help bench` explains the options.";

struct Options {
    filter: Option<Pattern>,
    json: Option<String>,
    cpp: Option<String>,
    guard: bool,
    pairs: usize,
    threads: usize,
    list: bool,
}

impl Options {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Option<Options>, String> {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let mut options = Options {
            filter: None,
            json: None,
            cpp: None,
            guard: false,
            pairs: 15,
            threads: cores,
            list: false,
        };
        while let Some(word) = words.next() {
            let (name, mut attached) = match word.split_once('=') {
                Some((name, value)) => (name.to_string(), Some(value.to_string())),
                None => (word, None),
            };
            let mut value = || {
                attached
                    .take()
                    .or_else(|| words.next())
                    .ok_or(format!("`{name}` needs a value"))
            };
            let number = |text: String| match text.parse() {
                Ok(n) if n > 0 => Ok(n),
                _ => Err(format!("`{text}`: expected a positive number")),
            };
            match name.as_str() {
                "--filter" => options.filter = Some(Pattern::parse(&value()?)?),
                "--json" => options.json = Some(value()?),
                "--cpp" => options.cpp = Some(value()?),
                "--guard" => options.guard = true,
                "--pairs" => options.pairs = number(value()?)?,
                "--threads" => options.threads = number(value()?)?,
                "--list" => options.list = true,
                "--help" | "-h" => return Ok(None),
                other => return Err(format!("there is no option `{other}`\n\n{HELP}")),
            }
        }
        Ok(Some(options))
    }
}

fn main() -> ExitCode {
    let outcome = match Options::parse(std::env::args().skip(1)) {
        Ok(None) => {
            println!("{HELP}");
            Ok(())
        }
        Ok(Some(options)) => bench(&options),
        Err(message) => Err(message),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn bench(options: &Options) -> Result<(), String> {
    let cases: Vec<Box<dyn Case>> = workloads::all()
        .into_iter()
        .filter(|case| {
            options
                .filter
                .as_ref()
                .is_none_or(|filter| filter.matches(case.name()))
        })
        .collect();
    if options.list {
        for case in &cases {
            println!("{:<14} {:<16} {}", case.name(), case.size(), case.metric());
        }
        return Ok(());
    }
    if cases.is_empty() {
        return Err("no workload has such a name; `--list` shows them".into());
    }
    let mut json = match &options.json {
        None => None,
        Some(path) => {
            Some(std::fs::File::create(path).map_err(|e| format!("cannot write {path}: {e}"))?)
        }
    };
    let cpp = match &options.cpp {
        None => None,
        Some(path) => {
            let cpp = Cpp::open(path)?;
            cpp.set_threads(options.threads)?;
            Some(cpp)
        }
    };
    let pool = Arc::new(Pool::new(options.threads));
    println!(
        "{} threads, {:?}, median of {} pairs\n",
        options.threads,
        host::Level::detect(),
        options.pairs
    );
    println!("{}", Row::heading());
    for case in &cases {
        for row in rows(&**case, &pool, cpp.as_ref(), options)? {
            println!("{}", row.line());
            if let Some(file) = &mut json {
                writeln!(file, "{}", row.json())
                    .map_err(|e| format!("cannot write the results: {e}"))?;
            }
        }
    }
    Ok(())
}

/// The rows of one workload.
fn rows(
    case: &dyn Case,
    pool: &Arc<Pool>,
    cpp: Option<&Cpp>,
    options: &Options,
) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    if let Some(cpp) = cpp {
        let mut reference = case.reference(pool);
        let mut other = case.cpp(cpp, options.threads)?;
        agree(case, "the C++ loop", &mut *reference, &mut *other)?;
        let pair = interleave(&mut *reference, &mut *other, options.pairs)?;
        rows.push(Row {
            workload: case.name().into(),
            size: case.size(),
            backend: "reference".into(),
            metric: case.metric().into(),
            value: case.work() / pair.first_s,
            reference: case.work() / pair.second_s,
            ratio: pair.ratio,
            compile_ms: None,
        });
    }
    Ok(rows)
}

/// Both run once from the same start and must come to the same numbers.
fn agree(
    case: &dyn Case,
    whose: &str,
    a: &mut dyn Contender,
    b: &mut dyn Contender,
) -> Result<(), String> {
    a.run()?;
    b.run()?;
    let far = case.difference(&a.result()?, &b.result()?);
    if far <= case.tolerance() {
        return Ok(());
    }
    Err(format!(
        "{}: {whose} and the reference disagree: {far:.1e} is more than {:.1e}",
        case.name(),
        case.tolerance()
    ))
}
