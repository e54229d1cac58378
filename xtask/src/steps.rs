//! Runs a list of steps and prints a summary table.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::thread::{self, JoinHandle};
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
    start: Instant,
    done: Vec<(&'static str, Ending, Duration)>,
}

/// A command that runs beside the steps. Its output appears when it is waited for.
#[derive(Debug)]
pub(crate) struct Beside {
    name: &'static str,
    command: String,
    output: PathBuf,
    run: JoinHandle<(io::Result<ExitStatus>, Duration)>,
}

impl Steps {
    pub(crate) fn new() -> Steps {
        Steps {
            start: Instant::now(),
            done: Vec::new(),
        }
    }

    /// Runs a command and shows its output.
    pub(crate) fn run(&mut self, name: &'static str, command: &mut Command) {
        println!("\n== {name}: {}", spelled(command));
        let start = Instant::now();
        let status = command.status();
        self.record(name, &status, start.elapsed());
    }

    /// Starts a command that the next steps do not depend on: it uses processors that they leave idle.
    pub(crate) fn start(name: &'static str, mut command: Command) -> io::Result<Beside> {
        let output = std::env::temp_dir().join(format!("wuji-{name}-{}", std::process::id()));
        let file = File::create(&output)?;
        command.stdout(file.try_clone()?).stderr(file);
        Ok(Beside {
            name,
            command: spelled(&command),
            output,
            run: thread::spawn(move || {
                let start = Instant::now();
                (command.status(), start.elapsed())
            }),
        })
    }

    /// Waits for a command that runs beside the steps, and shows its output.
    pub(crate) fn wait(&mut self, beside: Beside) {
        let ended = beside.run.join();
        println!("\n== {}: {}", beside.name, beside.command);
        let shown = File::open(&beside.output)
            .and_then(|mut file| io::copy(&mut file, &mut io::stdout().lock()));
        if let Err(error) = shown {
            println!("   {}: {error}", beside.output.display());
        }
        let _ = fs::remove_file(&beside.output);
        let panicked = |_| (Err(io::Error::other("the thread panicked")), Duration::ZERO);
        let (status, time) = ended.unwrap_or_else(panicked);
        self.record(beside.name, &status, time);
    }

    fn record(&mut self, name: &'static str, status: &io::Result<ExitStatus>, time: Duration) {
        let ending = match status {
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
        self.done.push((name, ending, time));
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
        println!("\n{}", self.table(self.start.elapsed()));
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

    /// The total is not the sum: steps overlap.
    fn table(&self, total: Duration) -> String {
        let width = self
            .done
            .iter()
            .map(|(name, ..)| name.len())
            .max()
            .unwrap_or(0)
            .max(5);
        let mut text = String::new();
        for (name, ending, time) in &self.done {
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
            start: Instant::now(),
            done: vec![
                ("format", Ending::Passed, Duration::from_secs(1)),
                ("tests", Ending::Failed, Duration::from_secs(2)),
                ("lints", Ending::Skipped("no clippy"), Duration::ZERO),
            ],
        };
        let expected = "  format      1.0 s  ok\n  tests       2.0 s  FAILED\n  lints           -  skipped: no clippy\n  total       3.0 s";
        assert_eq!(steps.table(Duration::from_secs(3)), expected);
        assert_eq!(steps.finish(), Err("failed: tests".to_string()));
    }

    #[test]
    fn a_command_beside_the_steps_fails_like_a_step() {
        let mut steps = Steps::new();
        for (name, script) in [("beside-good", "true"), ("beside-bad", "echo bad; exit 3")] {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            let beside = Steps::start(name, command).expect("it starts");
            steps.wait(beside);
        }
        let missing = Command::new("/no/such/program");
        let beside = Steps::start("beside-missing", missing).expect("there is a file");
        let output = beside.output.clone();
        steps.wait(beside);
        assert!(!output.exists());
        assert_eq!(
            steps.finish(),
            Err("failed: beside-bad, beside-missing".to_string())
        );
    }
}
