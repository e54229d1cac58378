//! The tables of the paper, in Markdown.

use std::io::Write;

use serde_json::json;

use super::measure::{BY_HAND, EAGER, Metrics, Variant, Worlds, measure};
use super::{Program, RULES, Size, large, programs};
use crate::measure::{Clock, geometric_mean};

/// What to measure.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub size: Size,
    /// Timed runs in every world.
    pub rounds: usize,
    pub clock: Clock,
    pub json: Option<&'a str>,
    /// A word for the device, in JSON.
    pub backend: &'a str,
    /// Also list the tasks of a run, eager and lazy.
    pub tasks: bool,
}

/// A program and its metrics in every world.
struct Case {
    program: Program,
    variants: Vec<Variant>,
}

impl Case {
    fn find(&self, name: &str) -> Option<&Variant> {
        self.variants.iter().find(|v| v.name == name)
    }

    fn eager(&self) -> Option<&Variant> {
        self.find(EAGER)
    }

    fn lazy(&self) -> Option<&Variant> {
        self.find(RULES[0].0)
    }
}

/// Measures the programs that the filter accepts and prints the tables.
pub fn print(
    request: &Request<'_>,
    worlds: &Worlds<'_>,
    wanted: impl Fn(&str) -> bool,
) -> Result<(), String> {
    let mut file = match request.json {
        None => None,
        Some(path) => {
            Some(std::fs::File::create(path).map_err(|e| format!("cannot write {path}: {e}"))?)
        }
    };
    let mut cases = Vec::new();
    for program in programs().filter(|p| wanted(p.name)) {
        eprintln!("{}, {}", program.name, program.size(request.size));
        let variants = measure(
            &program,
            request.size,
            worlds,
            (request.rounds, request.clock),
        )?;
        if let Some(file) = &mut file {
            for variant in &variants {
                writeln!(file, "{}", object(&program, request, variant))
                    .map_err(|e| format!("cannot write the results: {e}"))?;
            }
        }
        cases.push(Case { program, variants });
    }
    if cases.is_empty() {
        return Err("no program matches; `--list --filter flow` shows all".into());
    }
    println!("{}", overview(&cases, request.size));
    println!("{}", means(&cases));
    println!("{}", ablations(&cases));
    if request.tasks {
        println!("{}", tasks(&cases));
    }
    Ok(())
}

fn object(program: &Program, request: &Request<'_>, variant: &Variant) -> serde_json::Value {
    let m = &variant.metrics;
    json!({
        "workload": program.name,
        "size": program.size(request.size),
        "backend": request.backend,
        "rules": variant.name,
        "wall_ms": m.wall_ms,
        "backend_ms": m.backend_ms,
        "tasks": m.tasks,
        "instructions": m.instructions,
        "tasks_compiled": m.compiled,
        "first_ms": m.first_ms,
        "new_windows": m.new_windows,
        "speedup": variant.speedup,
        "difference": variant.difference,
    })
}

/// Milliseconds with three digits.
fn ms(t: f64) -> String {
    match t {
        t if t >= 100.0 => format!("{t:.0}"),
        t if t >= 10.0 => format!("{t:.1}"),
        t if t >= 1.0 => format!("{t:.2}"),
        t => format!("{t:.3}"),
    }
}

/// Table 1 of the paper: all metrics, eager and lazy.
fn overview(cases: &[Case], size: Size) -> String {
    let mut text = "\
| program | size | wall-clock ms | speedup | backend ms | tasks | instructions | tasks compiled | first run ms |
|---|---|---|---|---|---|---|---|---|
"
    .to_string();
    for case in cases {
        let (Some(eager), Some(lazy)) = (case.eager(), case.lazy()) else {
            continue;
        };
        let (a, b) = (&eager.metrics, &lazy.metrics);
        let times = |of: fn(&Metrics) -> f64| format!("{} / {}", ms(of(a)), ms(of(b)));
        let counts = |of: fn(&Metrics) -> u64| format!("{} / {}", of(a), of(b));
        text += &format!(
            "| {} | {} | {} | {:.2} | {} | {} | {} | {} | {} |\n",
            case.program.short_name(),
            case.program.size(size),
            times(|m| m.wall_ms),
            lazy.speedup,
            times(|m| m.backend_ms),
            counts(|m| m.tasks),
            counts(|m| m.instructions),
            counts(|m| m.compiled),
            times(|m| m.first_ms),
        );
    }
    text
}

/// Table 2: geometric means of the ratios eager : lazy.
fn means(cases: &[Case]) -> String {
    let mut text = "\
| geometric mean, eager : lazy | wall-clock | backend | tasks | instructions | tasks compiled | first run |
|---|---|---|---|---|---|---|
"
    .to_string();
    let is_large = |case: &&Case| large::ALL.iter().any(|p| p.name == case.program.name);
    let groups: [(&str, Vec<&Case>); 2] = [
        (
            "microbenchmarks",
            cases.iter().filter(|c| !is_large(c)).collect(),
        ),
        ("large programs", cases.iter().filter(is_large).collect()),
    ];
    for (name, group) in groups {
        if group.is_empty() {
            continue;
        }
        let pairs = || group.iter().filter_map(|c| Some((c.eager()?, c.lazy()?)));
        let of = |metric: fn(&Metrics) -> f64| {
            geometric_mean(pairs().map(|(a, b)| metric(&a.metrics) / metric(&b.metrics)))
        };
        text += &format!(
            "| {} {name} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} |\n",
            group.len(),
            geometric_mean(pairs().map(|(_, lazy)| lazy.speedup)),
            of(|m| m.backend_ms),
            of(|m| m.tasks as f64),
            of(|m| m.instructions as f64),
            of(|m| m.compiled as f64),
            of(|m| m.first_ms),
        );
    }
    text
}

/// Tables 3 to 6: each rule off in turn.
fn ablations(cases: &[Case]) -> String {
    let mut text = "\
| program | rules | tasks | wall-clock ms | backend ms | speedup |
|---|---|---|---|---|---|
"
    .to_string();
    for case in cases {
        for variant in &case.variants {
            let m = &variant.metrics;
            text += &format!(
                "| {} | {} | {} | {} | {} | {:.2} |\n",
                case.program.short_name(),
                variant.name,
                m.tasks,
                ms(m.wall_ms),
                ms(m.backend_ms),
                variant.speedup,
            );
        }
        if let (Some(lazy), Some(by_hand)) = (case.lazy(), case.find(BY_HAND)) {
            text += &format!(
                "| {} | all rules : fused by hand | | | | {:.2} |\n",
                case.program.short_name(),
                lazy.speedup / by_hand.speedup
            );
        }
    }
    text
}

/// What runs: each task with its launches and its time, the longest first.
fn tasks(cases: &[Case]) -> String {
    let mut text =
        "| program | world | task | launches | ms |\n|---|---|---|---|---|\n".to_string();
    for case in cases {
        for variant in [case.eager(), case.lazy()].into_iter().flatten() {
            let mut tasks = variant.tasks.clone();
            tasks.sort_by(|a, b| b.ms.total_cmp(&a.ms));
            for task in tasks {
                text += &format!(
                    "| {} | {} | {} | {} | {} |\n",
                    case.program.short_name(),
                    variant.name,
                    task.name,
                    task.count,
                    ms(task.ms),
                );
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::micro;

    fn case(program: Program, eager: u64, lazy: u64) -> Case {
        let variant = |name, tasks: u64| Variant {
            name,
            metrics: Metrics {
                wall_ms: tasks as f64,
                backend_ms: tasks as f64,
                tasks,
                instructions: 10 * tasks,
                compiled: 1,
                first_ms: 1.0,
                new_windows: 0,
            },
            speedup: eager as f64 / tasks as f64,
            difference: 0.0,
            tasks: Vec::new(),
        };
        Case {
            program,
            variants: vec![variant(EAGER, eager), variant(RULES[0].0, lazy)],
        }
    }

    #[test]
    fn means_are_geometric() {
        let cases = [case(micro::ALL[0], 8, 1), case(micro::ALL[1], 2, 1)];
        let text = means(&cases);
        let row = "| 2 microbenchmarks | 4.00 | 4.00 | 4.00 | 4.00 | 1.00 | 1.00 |";
        assert!(text.contains(row), "{text}");
        assert!(!text.contains("large"), "{text}");
    }

    #[test]
    fn every_world_has_a_row() {
        let cases = [case(micro::ALL[1], 10, 1)];
        let text = ablations(&cases);
        assert!(
            text.contains("| increments | eager | 10 | 10.0 | 10.0 | 1.00 |"),
            "{text}"
        );
        assert!(
            text.contains("| increments | all rules | 1 | 1.00 | 1.00 | 10.00 |"),
            "{text}"
        );
        let text = overview(&cases, Size::Quick);
        assert!(
            text.contains("| increments | 2^20 | 10.0 / 1.00 | 10.00 |"),
            "{text}"
        );
    }
}
