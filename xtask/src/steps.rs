//! Runs a list of steps and prints a summary table.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::workspace::spelled;

#[derive(Debug)]
enum Ending {
    Passed,
    Failed,
    Skipped(&'static str),
}

/// Runs commands in sequence and records their results.
#[derive(Debug)]
pub(crate) struct Steps {
    done: Vec<(&'static str, Ending, Duration)>,
}

impl Steps {
    pub(crate) fn new() -> Steps {
        Steps { done: Vec::new() }
    }

    /// Runs a command and shows its output.
    pub(crate) fn run(&mut self, name: &'static str, command: &mut Command) {
        println!("\n== {name}: {}", spelled(command));
        let start = Instant::now();
        let ending = match command.status() {
            Ok(status) if status.success() => Ending::Passed,
            Ok(status) => {
                println!("   {name} failed: {status}");
                Ending::Failed
            }
            Err(error) => {
                println!("   {name} could not start: {error}");
                Ending::Failed
            }
        };
        self.done.push((name, ending, start.elapsed()));
    }

    /// Runs an in-process check.
    pub(crate) fn check(&mut self, name: &'static str, check: impl FnOnce() -> Result<(), String>) {
        println!("\n== {name}");
        let start = Instant::now();
        let ending = match check() {
            Ok(()) => Ending::Passed,
            Err(message) => {
                println!("   {name} failed: {message}");
                Ending::Failed
            }
        };
        self.done.push((name, ending, start.elapsed()));
    }

    /// Records a step that could not run.
    pub(crate) fn fail(&mut self, name: &'static str, why: &str) {
        println!("\n== {name} failed: {why}");
        self.done.push((name, Ending::Failed, Duration::ZERO));
    }

    /// Records a skipped step and the reason.
    pub(crate) fn skip(&mut self, name: &'static str, why: &'static str) {
        println!("\n== {name}: skipped, {why}");
        self.done.push((name, Ending::Skipped(why), Duration::ZERO));
    }

    /// Prints the table; the error lists the failed steps.
    pub(crate) fn finish(self) -> Result<(), String> {
        println!("\n{}", self.table());
        let failed: Vec<&str> = self
            .done
            .iter()
            .filter(|(_, ending, _)| matches!(ending, Ending::Failed))
            .map(|(name, ..)| *name)
            .collect();
        if failed.is_empty() {
            Ok(())
        } else {
            Err(format!("failed: {}", failed.join(", ")))
        }
    }

    fn table(&self) -> String {
        let width = self
            .done
            .iter()
            .map(|(name, ..)| name.len())
            .max()
            .unwrap_or(0)
            .max(5);
        let mut text = String::new();
        let mut total = Duration::ZERO;
        for (name, ending, time) in &self.done {
            total += *time;
            let line = match ending {
                Ending::Passed => format!("  {name:width$}  {:>9}  ok", clock(*time)),
                Ending::Failed => format!("  {name:width$}  {:>9}  FAILED", clock(*time)),
                Ending::Skipped(why) => format!("  {name:width$}  {:>9}  skipped: {why}", "-"),
            };
            text += &line;
            text.push('\n');
        }
        text + &format!("  {:width$}  {:>9}", "total", clock(total))
    }
}

/// `1:05.3` above a minute, `5.3 s` below.
fn clock(time: Duration) -> String {
    let tenths = (time.as_secs_f64() * 10.0).round() as u64;
    if tenths < 600 {
        format!("{}.{} s", tenths / 10, tenths % 10)
    } else {
        format!("{}:{:02}.{} m", tenths / 600, tenths / 10 % 60, tenths % 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_well() {
        assert_eq!(clock(Duration::from_millis(40)), "0.0 s");
        assert_eq!(clock(Duration::from_millis(5260)), "5.3 s");
        assert_eq!(clock(Duration::from_millis(59_990)), "1:00.0 m");
        assert_eq!(clock(Duration::from_millis(125_300)), "2:05.3 m");
    }

    #[test]
    fn the_table_tells_what_failed() {
        let steps = Steps {
            done: vec![
                ("format", Ending::Passed, Duration::from_secs(1)),
                ("tests", Ending::Failed, Duration::from_secs(2)),
                ("lints", Ending::Skipped("no clippy"), Duration::ZERO),
            ],
        };
        let expected = "  format      1.0 s  ok\n  tests       2.0 s  FAILED\n  lints           -  skipped: no clippy\n  total       3.0 s";
        assert_eq!(steps.table(), expected);
        assert_eq!(steps.finish(), Err("failed: tests".to_string()));
    }
}
