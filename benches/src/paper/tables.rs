//! The tables of the paper, in Markdown.

use std::io::Write;

use super::cuda::{self, Cuda};
use super::measure::{Code, Device, Request, Running, Threads, Variant};
use super::{ALL, Ablation, Application, MATERIALS, Size, ablations};
use crate::case::{agree, compare};
use crate::measure::{Pair, Row, geometric_mean};
use crate::sparse::ablation::ACCESS;

/// A file of JSON lines, if one is wanted.
struct Sink(Option<std::fs::File>);

impl Sink {
    fn open(path: Option<&str>) -> Result<Sink, String> {
        let file = path.map(|path| {
            std::fs::File::create(path).map_err(|e| format!("cannot write {path}: {e}"))
        });
        Ok(Sink(file.transpose()?))
    }

    fn write(&mut self, row: &Row) -> Result<(), String> {
        match &mut self.0 {
            None => Ok(()),
            Some(file) => writeln!(file, "{}", row.json())
                .map_err(|e| format!("cannot write the results: {e}")),
        }
    }
}

/// Measures what the filter accepts and prints the tables.
pub fn print(request: &Request<'_>, wanted: impl Fn(&str) -> bool) -> Result<(), String> {
    let mut sink = Sink::open(request.json)?;
    let chosen = |all: &'static [Application]| -> Vec<&Application> {
        all.iter().filter(|a| wanted(a.name)).collect()
    };
    let (applications, materials) = (chosen(&ALL), chosen(&MATERIALS));
    let tables: Vec<Ablation> = ablations(request.device)
        .into_iter()
        .filter(|table| wanted(table.name))
        .collect();
    if applications.is_empty() && materials.is_empty() && tables.is_empty() {
        return Err("no application matches; `--paper --list` shows all".into());
    }
    let mut failures = Failures::default();
    for (title, rows) in [
        ("Table 2.1: times in ms, lines of code", applications),
        (
            "Materials of MLS-MPM: times in ms, lines of code",
            materials,
        ),
    ] {
        overview(request, title, &rows, &mut sink, &mut failures);
    }
    for table in &tables {
        let done = ablation(request, table, &mut sink, &mut failures);
        failures.note(done);
    }
    failures.result()
}

/// Rows that could not be measured. The others still are.
#[derive(Default)]
struct Failures(Vec<String>);

impl Failures {
    /// The value, or nothing after a failure, which is shown.
    fn note<T>(&mut self, result: Result<T, String>) -> Option<T> {
        result
            .inspect_err(|e| {
                eprintln!("  failed: {e}");
                self.0.push(e.clone());
            })
            .ok()
    }

    fn result(self) -> Result<(), String> {
        match self.0.len() {
            0 => Ok(()),
            failed => Err(format!("{failed} failed:\n{}", self.0.join("\n"))),
        }
    }
}

/// Names and sizes of everything that can be measured.
pub fn list(request: &Request<'_>) {
    for application in ALL.iter().chain(&MATERIALS) {
        println!(
            "{:<21} {}",
            application.name,
            (application.size)(request.size)
        );
    }
    for table in ablations(request.device) {
        println!("{:<21} {}", table.name, table.title);
    }
}

fn row(
    request: &Request<'_>,
    name: &str,
    size: String,
    metric: &str,
    pair: Pair,
    code: Code,
) -> Row {
    Row {
        workload: name.into(),
        size,
        backend: match request.device {
            Device::Cpu => "cpu".into(),
            Device::Gpu => "cuda".into(),
        },
        metric: metric.into(),
        value: pair.first_s * 1e3,
        reference: pair.second_s * 1e3,
        ratio: pair.ratio,
        compile_ms: Some(code.compile_ms),
    }
}

/// The application with all optimizations.
fn full(application: &Application) -> Variant {
    Variant {
        name: "all optimizations",
        without: &[],
        threads: Threads::All,
        make: application.ours,
    }
}

/// Table 2.1: applications against their references. Nothing without applications.
fn overview(
    request: &Request<'_>,
    title: &str,
    applications: &[&Application],
    sink: &mut Sink,
    failures: &mut Failures,
) {
    if applications.is_empty() {
        return;
    }
    println!("{title}\n");
    println!(
        "| benchmark | size | reference | -Opt | +Opt | reference : +Opt | -Opt : +Opt | lines of the reference | lines of ours |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let mut ratios = [Vec::new(), Vec::new()];
    for application in applications {
        let size = (application.size)(request.size);
        eprintln!("{}, {size}", application.name);
        let against = failures.note(by_hand(request, application, sink)).flatten();
        let less = failures.note(optimizations(request, application, sink));
        let (theirs, ours) = lines_of_code(request, application);
        let shown = |pair: Option<Pair>, value: &dyn Fn(Pair) -> String| {
            pair.map_or_else(String::new, value)
        };
        println!(
            "| {} | {size} | {} | {} | {} | {} | {} | {theirs} | {ours} |",
            application.title,
            shown(against, &|pair| milliseconds(pair.second_s)),
            shown(less, &|pair| milliseconds(pair.first_s)),
            shown(less, &|pair| milliseconds(pair.second_s)),
            shown(against, &|pair| format!("{:.2}", pair.ratio)),
            shown(less, &|pair| format!("{:.2}", 1.0 / pair.ratio)),
        );
        ratios[0].extend(against.map(|pair| pair.ratio));
        ratios[1].extend(less.map(|pair| 1.0 / pair.ratio));
    }
    let [against, less] = ratios.map(|ratios| mean(&ratios));
    println!("| geometric mean | | | | | {against} | {less} | | |\n");
}

/// Lines of the reference that was measured, and of ours.
fn lines_of_code(request: &Request<'_>, application: &Application) -> (usize, usize) {
    let (theirs, ours) = (application.lines)();
    match (request.device, application.cuda) {
        (Device::Gpu, Some(_)) => (cuda::lines(application.kernels), ours),
        (Device::Gpu, None) | (Device::Cpu, _) => (theirs, ours),
    }
}

/// A geometric mean; nothing without values.
fn mean(ratios: &[f64]) -> String {
    if ratios.is_empty() {
        return String::new();
    }
    format!("{:.2}", geometric_mean(ratios.iter().copied()))
}

/// Three significant digits.
fn milliseconds(seconds: f64) -> String {
    match seconds * 1e3 {
        ms if ms >= 100.0 => format!("{ms:.0}"),
        ms if ms >= 10.0 => format!("{ms:.1}"),
        ms if ms >= 1.0 => format!("{ms:.2}"),
        ms => format!("{ms:.3}"),
    }
}

/// Ours against the reference. On a GPU the results are compared with those of the reference on the CPU, and the times with those
/// of the reference in CUDA, if there is one.
fn by_hand(
    request: &Request<'_>,
    application: &Application,
    sink: &mut Sink,
) -> Result<Option<Pair>, String> {
    let mut ours = request.start(&full(application))?;
    let mut reference = (application.reference)(&request.pool, request.size);
    agree(
        application.name,
        &mut *ours.contender,
        &mut *reference,
        application.tolerance,
    )?;
    let code = ours.code();
    let pair = match (request.device, application.cuda) {
        (Device::Cpu, _) => request.against(&mut ours, &mut *reference)?,
        (Device::Gpu, Some(make)) => on_device(request, application, make, &mut ours)?,
        (Device::Gpu, None) => return Ok(None),
    };
    let size = (application.size)(request.size);
    sink.write(&row(request, application.name, size, "ms", pair, code))?;
    Ok(Some(pair))
}

/// Device times of ours, which has run once, and of the reference in CUDA, after a comparison of their results.
fn on_device(
    request: &Request<'_>,
    application: &Application,
    make: fn(Size) -> wuji::Result<Cuda>,
    ours: &mut Running,
) -> Result<Pair, String> {
    let text = |e: wuji::Error| e.to_string();
    let mut by_hand = make(request.size).map_err(text)?;
    by_hand.run().map_err(text)?;
    let (theirs, found) = (by_hand.result().map_err(text)?, ours.contender.result()?);
    let name = format!("{} in CUDA", application.name);
    let far = compare(&name, &theirs, &found, application.tolerance)?;
    let second_s = by_hand.time(request.pairs).map_err(text)?;
    let kernels: Vec<String> = (by_hand.by_kernel().map_err(text)?.into_iter())
        .map(|(kernel, seconds)| format!("{kernel} {}", milliseconds(seconds)))
        .collect();
    eprintln!(
        "  {name}: differs by {far:.1e}; {} ms: {}",
        milliseconds(second_s),
        kernels.join(", ")
    );
    let first_s = ours.device_time(request.pairs)?;
    Ok(Pair {
        first_s,
        second_s,
        ratio: second_s / first_s,
    })
}

/// Without access optimizations, as in the paper, against everything.
fn optimizations(
    request: &Request<'_>,
    application: &Application,
    sink: &mut Sink,
) -> Result<Pair, String> {
    let less = Variant {
        name: "-Opt",
        without: ACCESS,
        ..full(application)
    };
    let (mut less, mut all) = (request.start(&less)?, request.start(&full(application))?);
    agree(
        application.name,
        &mut *less.contender,
        &mut *all.contender,
        application.tolerance,
    )?;
    let code = less.code();
    let pair = request.compare(&mut less, &mut all)?;
    sink.write(&row(
        request,
        application.name,
        (application.size)(request.size),
        "-Opt ms",
        pair,
        code,
    ))?;
    Ok(pair)
}

/// Tables 2.2 to 2.5: variants of one application against its first one.
fn ablation(
    request: &Request<'_>,
    table: &Ablation,
    sink: &mut Sink,
    failures: &mut Failures,
) -> Result<(), String> {
    let size = (table.size)(request.size);
    eprintln!("{}, {size}", table.name);
    let mut all = request.start(&table.full)?;
    let start = all.contender.result()?;
    all.contender.run()?;
    let expected = all.contender.result()?;
    if start == expected {
        return Err(format!("{}: a run changes nothing", table.name));
    }
    println!("{}, {size}\n", table.title);
    let kernels: String = table.kernels.iter().map(|k| format!(" {k} ms |")).collect();
    println!("| variant | ms | relative |{kernels} compiled in ms | code in KB |");
    println!(
        "|---|---|---|{}---|---|",
        "---|".repeat(table.kernels.len())
    );
    for variant in &table.variants {
        let measured = measured(request, table, variant, &mut all, &expected);
        let Some((pair, code, parts)) = failures.note(measured) else {
            continue;
        };
        println!(
            "| {} | {} | {:.2} |{parts} {:.0} | {:.0} |",
            variant.name,
            milliseconds(pair.first_s),
            1.0 / pair.ratio,
            code.compile_ms,
            code.kilobytes
        );
        let row = row(request, table.name, size.clone(), variant.name, pair, code);
        sink.write(&row)?;
    }
    println!();
    Ok(())
}

/// One row: the times, the code and the times of single kernels of a variant.
fn measured(
    request: &Request<'_>,
    table: &Ablation,
    variant: &Variant,
    all: &mut Running,
    expected: &[f32],
) -> Result<(Pair, Code, String), String> {
    let mut less = request.start(variant)?;
    less.contender.run()?;
    let name = format!("{}, {}", table.name, variant.name);
    compare(&name, &less.contender.result()?, expected, table.tolerance)?;
    let code = less.code();
    let pair = request.compare(&mut less, all)?;
    let parts = parts(request, table, &mut less)?;
    Ok((pair, code, parts))
}

/// The times of single kernels.
fn parts(request: &Request<'_>, table: &Ablation, running: &mut Running) -> Result<String, String> {
    if table.kernels.is_empty() {
        return Ok(String::new());
    }
    let times = running.by_kernel(request.pairs)?;
    let of = |kernel: &&str| {
        let found = times.iter().find(|(name, _)| name == kernel);
        format!(
            " {} |",
            found.map_or(String::new(), |(_, time)| milliseconds(*time))
        )
    };
    Ok(table.kernels.iter().map(of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_need_values() {
        assert_eq!(mean(&[2.0, 8.0]), "4.00");
        assert_eq!(mean(&[]), "");
    }

    #[test]
    fn times_have_three_digits() {
        assert_eq!(
            [0.1234e-3, 1.234e-3, 12.34e-3, 123.4e-3].map(milliseconds),
            ["0.123", "1.23", "12.3", "123"]
        );
    }

    #[test]
    fn failures_are_counted() {
        let mut failures = Failures::default();
        assert_eq!(failures.note(Ok(3)), Some(3));
        assert_eq!(failures.note::<u32>(Err("a: wrong".into())), None);
        assert_eq!(failures.result(), Err("1 failed:\na: wrong".into()));
        assert_eq!(Failures::default().result(), Ok(()));
    }

    #[test]
    fn rows_are_those_of_the_device() {
        let rows = |device| {
            let tables = ablations(device).into_iter();
            tables
                .flat_map(|t| t.variants.into_iter().map(move |v| (t.name, v.name)))
                .collect::<Vec<_>>()
        };
        let of = |rows: &[(_, _)], name| rows.iter().filter(|r| r.1 == name).count();
        let (cpu, gpu) = (rows(Device::Cpu), rows(Device::Gpu));
        for name in ["no multithreading", "no vectorization"] {
            assert_eq!((of(&cpu, name), of(&gpu, name)), (ALL.len(), 0), "{name}");
        }
        for name in ["no read-only cache", "no vector loads"] {
            assert_eq!((of(&cpu, name), of(&gpu, name)), (0, ALL.len()), "{name}");
        }
        assert_eq!(of(&gpu, "no access lowering"), ALL.len());
        assert!(cpu.contains(&("table_2_4", "AOS instead of SOA")));
        assert!(cpu.contains(&("table_2_5", "dense fields instead of blocks")));
    }
}
