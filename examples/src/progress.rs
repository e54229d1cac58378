//! A progress bar.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Shows the progress of a loop of known length on a terminal. Prints nothing if standard error is not a terminal.
#[derive(Debug)]
pub struct Progress {
    total: usize,
    start: Instant,
    shown: Option<Instant>,
    terminal: bool,
}

const WIDTH: usize = 32;

impl Progress {
    /// The progress of so many steps.
    pub fn new(total: usize) -> Progress {
        let terminal = std::io::stderr().is_terminal();
        Progress {
            total: total.max(1),
            start: Instant::now(),
            shown: None,
            terminal,
        }
    }

    /// Updates the bar to `done` of the total, with a note.
    pub fn show(&mut self, done: usize, note: &str) {
        let fresh = self
            .shown
            .is_some_and(|shown| shown.elapsed() < Duration::from_millis(60));
        if !self.terminal || (fresh && done < self.total) {
            return;
        }
        self.shown = Some(Instant::now());
        eprint!(
            "\r  {}\x1b[K",
            line(done, self.total, self.start.elapsed(), note)
        );
        if done >= self.total {
            eprintln!();
        }
        // Failing to draw the bar must not stop the program.
        let _ = std::io::stderr().flush();
    }
}

fn line(done: usize, total: usize, elapsed: Duration, note: &str) -> String {
    let eighths = (done * WIDTH * 8 / total).min(WIDTH * 8);
    let mut bar: String = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        bar.push(['▏', '▎', '▍', '▌', '▋', '▊', '▉'][eighths % 8 - 1]);
    }
    let bar = format!("{bar:·<WIDTH$}");
    let left = elapsed.as_secs_f64() * (total.saturating_sub(done)) as f64 / done.max(1) as f64;
    format!(
        "{bar} {:>3}%  {left:.0} s left  {note}",
        (done * 100 / total).min(100)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills() {
        let at = |done| line(done, 64, Duration::from_secs(2), "x");
        assert!(at(0).starts_with("····"));
        assert!(at(1).starts_with("▌···"), "{}", at(1));
        assert!(at(32).contains(" 50%  2 s left  x"), "{}", at(32));
        assert!(at(64).contains("█ 100%  0 s left"));
    }
}
