//! The tables of the paper, in Markdown.

use std::io::Write;

use super::cuda::{self, Cuda};
use super::measure::{Code, Device, Request, Running, Threads, Variant, agree};
use super::{ALL, Ablation, Application, ablations};
use crate::case::difference;
use crate::measure::{Pair, Row};
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
    let applications: Vec<&Application> = ALL.iter().filter(|a| wanted(a.name)).collect();
    let tables: Vec<Ablation> = ablations(request.device)
        .into_iter()
        .filter(|table| wanted(table.name))
        .collect();
    if applications.is_empty() && tables.is_empty() {
        return Err("no application matches; `--paper --list` shows all".into());
    }
    if !applications.is_empty() {
        overview(request, &applications, &mut sink)?;
    }
    for table in &tables {
        ablation(request, table, &mut sink)?;
    }
    Ok(())
}

/// Names and sizes of everything that can be measured.
pub fn list(request: &Request<'_>) {
    for application in &ALL {
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

/// Table 2.1.
fn overview(
    request: &Request<'_>,
    applications: &[&Application],
    sink: &mut Sink,
) -> Result<(), String> {
    println!("Table 2.1: times in ms, lines of code\n");
    println!(
        "| benchmark | size | reference | -Opt | +Opt | reference : +Opt | -Opt : +Opt | lines of the reference | lines of ours |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let mut means = [Mean::default(), Mean::default()];
    for application in applications {
        eprintln!("{}, {}", application.name, (application.size)(request.size));
        let against = by_hand(request, application, sink)?;
        let less = optimizations(request, application, sink)?;
        let (theirs, ours) = lines_of_code(request, application);
        println!(
            "| {} | {} | {} | {} | {} | {} | {:.2} | {theirs} | {ours} |",
            application.title,
            (application.size)(request.size),
            against.map_or(String::new(), |pair| milliseconds(pair.second_s)),
            milliseconds(less.first_s),
            milliseconds(less.second_s),
            against.map_or(String::new(), |pair| format!("{:.2}", pair.ratio)),
            1.0 / less.ratio,
        );
        means[0].add(against.map(|pair| pair.ratio));
        means[1].add(Some(1.0 / less.ratio));
    }
    let [against, less] = means.map(|mean| mean.shown());
    println!("| geometric mean | | | | | {against} | {less} | | |\n");
    Ok(())
}

/// Lines of the reference that was measured, and of ours.
fn lines_of_code(request: &Request<'_>, application: &Application) -> (usize, usize) {
    let (theirs, ours) = (application.lines)();
    match (request.device, application.name.split('_').next()) {
        (Device::Gpu, Some(kernel)) if application.cuda.is_some() => (cuda::lines(kernel), ours),
        _ => (theirs, ours),
    }
}

/// A geometric mean.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    logarithms: f64,
    count: f64,
}

impl Mean {
    fn add(&mut self, value: Option<f64>) {
        if let Some(value) = value {
            self.logarithms += value.ln();
            self.count += 1.0;
        }
    }

    /// Nothing without a value.
    fn shown(self) -> String {
        if self.count == 0.0 {
            return String::new();
        }
        format!("{:.2}", (self.logarithms / self.count).exp())
    }
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
/// of a reference in CUDA, if there is one.
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
    let pair = match request.device {
        Device::Cpu => request.against(&mut ours, &mut *reference)?,
        Device::Gpu => match application.cuda {
            None => return Ok(None),
            Some(make) => {
                let by_hand = make(request.size).map_err(|e| e.to_string())?;
                on_device(request, application, &mut ours, &by_hand)?
            }
        },
    };
    let size = (application.size)(request.size);
    sink.write(&row(request, application.name, size, "ms", pair, code))?;
    Ok(Some(pair))
}

/// Device times of ours and of a reference in CUDA, after a comparison of their results.
fn on_device(
    request: &Request<'_>,
    application: &Application,
    ours: &mut Running,
    cuda: &Cuda,
) -> Result<Pair, String> {
    let text = |e: wuji::Error| e.to_string();
    let second_s = cuda.time(request.pairs).map_err(text)?;
    let far = difference(&cuda.result().map_err(text)?, &ours.contender.result()?);
    if far > application.tolerance {
        return Err(format!(
            "{}: the result in CUDA differs by {far:.1e}",
            application.name
        ));
    }
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
fn ablation(request: &Request<'_>, table: &Ablation, sink: &mut Sink) -> Result<(), String> {
    eprintln!("{}, {}", table.name, (table.size)(request.size));
    println!("{}, {}\n", table.title, (table.size)(request.size));
    let kernels: String = table.kernels.iter().map(|k| format!(" {k} ms |")).collect();
    println!("| variant | ms | relative |{kernels} compiled in ms | code in KB |");
    println!(
        "|---|---|---|{}---|---|",
        "---|".repeat(table.kernels.len())
    );
    let mut all = request.start(&table.full)?;
    let start = all.contender.result()?;
    all.contender.run()?;
    let expected = all.contender.result()?;
    for variant in &table.variants {
        let mut less = request.start(variant)?;
        less.contender.run()?;
        let far = difference(&less.contender.result()?, &expected);
        if far > table.tolerance || start == expected {
            return Err(format!("{}: the results differ by {far:.1e}", variant.name));
        }
        let code = less.code();
        let pair = request.compare(&mut less, &mut all)?;
        let parts = parts(request, table, &mut less)?;
        println!(
            "| {} | {} | {:.2} |{parts} {:.0} | {:.0} |",
            variant.name,
            milliseconds(pair.first_s),
            1.0 / pair.ratio,
            code.compile_ms,
            code.kilobytes
        );
        sink.write(&row(
            request,
            table.name,
            (table.size)(request.size),
            variant.name,
            pair,
            code,
        ))?;
    }
    println!();
    Ok(())
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
    fn means_are_geometric() {
        let mut mean = Mean::default();
        for value in [Some(2.0), None, Some(8.0)] {
            mean.add(value);
        }
        assert_eq!(mean.shown(), "4.00");
        assert_eq!(Mean::default().shown(), "");
    }

    #[test]
    fn times_have_three_digits() {
        assert_eq!(
            [0.1234e-3, 1.234e-3, 12.34e-3, 123.4e-3].map(milliseconds),
            ["0.123", "1.23", "12.3", "123"]
        );
    }

    #[test]
    fn gpus_have_no_rows_about_threads_and_vectors() {
        let rows = |device| {
            let tables = ablations(device).into_iter();
            tables
                .flat_map(|t| t.variants)
                .map(|v| v.name)
                .collect::<Vec<_>>()
        };
        assert!(rows(Device::Cpu).contains(&"no multithreading"));
        assert!(rows(Device::Cpu).contains(&"no vectorization"));
        let gpu = rows(Device::Gpu);
        assert!(!gpu.contains(&"no multithreading") && !gpu.contains(&"no vectorization"));
        assert!(gpu.contains(&"no access lowering"));
    }
}
