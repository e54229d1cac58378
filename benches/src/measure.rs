//! Interleaved timing of two contenders, and the rows of the table.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::json;

use crate::case::Contender;

/// Medians of interleaved samples of two contenders.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    pub first_s: f64,
    pub second_s: f64,
    /// The median over the pairs of `second / first`: above 1 if the first is faster.
    pub ratio: f64,
}

/// Worker threads of a library may still spin after a sample. They are asleep after this pause.
const PAUSE: Duration = Duration::from_millis(4);
/// Samples shorter than this are repeated within one measurement.
const SHORT: f64 = 2e-3;

/// Which clock measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    Wall,
    /// CPU time of this process: more precise than wall time on a busy machine, with one thread.
    Cpu,
}

impl Clock {
    /// Seconds since an arbitrary start.
    pub fn now(self) -> f64 {
        let id = match self {
            Clock::Wall => libc::CLOCK_MONOTONIC,
            Clock::Cpu => libc::CLOCK_PROCESS_CPUTIME_ID,
        };
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: both clocks exist on every Unix; the structure is ours.
        unsafe { libc::clock_gettime(id, &mut time) };
        time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
    }
}

/// Runs `pairs` pairs. The order alternates, so that neither benefits from the other's cache contents.
pub fn interleave(
    first: &mut dyn Contender,
    second: &mut dyn Contender,
    pairs: usize,
    clock: Clock,
) -> Result<Pair, String> {
    let (a, b) = (sample(first, clock, 1)?, sample(second, clock, 1)?);
    let repeats = (SHORT / a.max(b).max(1e-6)).ceil().clamp(1.0, 200.0) as usize;
    sample(first, clock, repeats)?;
    sample(second, clock, repeats)?;
    let (mut firsts, mut seconds, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for k in 0..pairs {
        let (a, b) = if k % 2 == 0 {
            let a = sample(first, clock, repeats)?;
            (a, sample(second, clock, repeats)?)
        } else {
            let b = sample(second, clock, repeats)?;
            (sample(first, clock, repeats)?, b)
        };
        firsts.push(a);
        seconds.push(b);
        ratios.push(b / a);
    }
    Ok(Pair {
        first_s: median(&mut firsts),
        second_s: median(&mut seconds),
        ratio: median(&mut ratios),
    })
}

/// Seconds per run.
fn sample(contender: &mut dyn Contender, clock: Clock, repeats: usize) -> Result<f64, String> {
    std::thread::sleep(PAUSE);
    let start = clock.now();
    for _ in 0..repeats {
        contender.run()?;
    }
    Ok((clock.now() - start) / repeats as f64)
}

pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => 0.5 * (values[n / 2 - 1] + values[n / 2]),
    }
}

/// The geometric mean; not a number without values.
pub fn geometric_mean(values: impl Iterator<Item = f64>) -> f64 {
    let logarithms: Vec<f64> = values.map(f64::ln).collect();
    (logarithms.iter().sum::<f64>() / logarithms.len() as f64).exp()
}

/// One row of the table.
#[derive(Clone, Debug)]
pub struct Row {
    pub workload: String,
    pub size: String,
    pub backend: String,
    pub metric: String,
    pub value: f64,
    pub reference: f64,
    pub ratio: f64,
    pub compile_ms: Option<f64>,
}

impl Row {
    /// A JSON object; numbers that are not finite become `null`.
    pub fn json(&self) -> String {
        let row = json!({
            "workload": self.workload,
            "size": self.size,
            "backend": self.backend,
            "metric": self.metric,
            "value": self.value,
            "reference": self.reference,
            "ratio": self.ratio,
            "compile_ms": self.compile_ms,
        });
        row.to_string()
    }

    pub fn line(&self) -> String {
        let mut text = format!(
            "{:<21} {:<16} {:<10} {:<18} {:>9} {:>9} {:>7.2}x",
            self.workload,
            self.size,
            self.backend,
            self.metric,
            short(self.value),
            short(self.reference),
            self.ratio
        );
        if let Some(ms) = self.compile_ms {
            let _ = write!(text, " {ms:>9.1}");
        }
        text
    }

    pub fn heading() -> String {
        format!(
            "{:<21} {:<16} {:<10} {:<18} {:>9} {:>9} {:>8} {:>9}",
            "workload", "size", "backend", "metric", "value", "reference", "ratio", "compile ms"
        )
    }
}

/// Formats a number with three or four significant digits.
fn short(x: f64) -> String {
    match x.abs() {
        a if a >= 100.0 => format!("{x:.0}"),
        a if a >= 10.0 => format!("{x:.1}"),
        _ => format!("{x:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_geometric() {
        let mean = geometric_mean([2.0, 8.0].into_iter());
        assert!((mean - 4.0).abs() < 1e-12, "{mean}");
        assert!(geometric_mean(std::iter::empty()).is_nan());
    }

    #[test]
    fn medians() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&mut []).is_nan());
    }

    #[test]
    fn rows_are_json() {
        let row = Row {
            workload: "sum".into(),
            size: "2^24 \"x\"".into(),
            backend: "cpu".into(),
            metric: "GB/s".into(),
            value: 45.25,
            reference: f64::NAN,
            ratio: 1.0,
            compile_ms: None,
        };
        let row: serde_json::Value = serde_json::from_str(&row.json()).unwrap();
        assert_eq!(row["size"], "2^24 \"x\"");
        assert_eq!(row["value"], 45.25);
        assert!(row["reference"].is_null() && row["compile_ms"].is_null());
    }
}
