//! Command-line flags for compiler options.

use clap::{Args, ValueEnum};
use std::time::Duration;
use wuji_compile::{Math, Options};

#[derive(Args, Debug)]
#[command(next_help_heading = "Compilation")]
pub(crate) struct CompileArgs {
    /// Disable these optimizations; `wuji opt --list` lists their names.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) without: Vec<String>,

    /// Limit the number of optional rewrites. Bisect it to find a wrong rewrite.
    #[arg(long, value_name = "N")]
    pub(crate) fuel: Option<u64>,

    /// Floating-point mode: every operation as written, fused `a * b + c`, or also approximations.
    #[arg(long)]
    pub(crate) math: Option<MathMode>,

    /// Make results bitwise reproducible for any number of threads.
    #[arg(long)]
    pub(crate) deterministic: bool,

    /// Also check for integer overflow in index computations.
    #[arg(long)]
    pub(crate) debug: bool,

    /// Vector width: 128, 256 or 512; by default that of this processor.
    #[arg(long, value_name = "BITS")]
    pub(crate) vector_bits: Option<u32>,
}

#[derive(ValueEnum, Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum MathMode {
    Strict,
    Default,
    Fast,
}

impl CompileArgs {
    pub(crate) fn options(&self, math: MathMode) -> Options {
        Options {
            math: match self.math.unwrap_or(math) {
                MathMode::Strict => Math::Strict,
                MathMode::Default => Math::Contract,
                MathMode::Fast => Math::Fast,
            },
            deterministic: self.deterministic,
            debug: self.debug,
            without: self.without.clone(),
            fuel: self.fuel,
            vector_bits: self.vector_bits.unwrap_or(0),
            ..Options::default()
        }
    }
}

/// `5s`, `200ms`, `1.5m`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let seconds = match &text[digits.len()..] {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => {
            return Err("expected a number and a unit, such as `5s`, `200ms` or `1.5m`".to_owned());
        }
    };
    let number: f64 = digits
        .parse()
        .map_err(|_| format!("`{digits}` is not a number"))?;
    let time = Duration::try_from_secs_f64(number * seconds);
    match time {
        Ok(time) if !time.is_zero() => Ok(time),
        _ => Err("a time must be positive and finite".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        assert_eq!(duration("5s"), Ok(Duration::from_secs(5)));
        assert_eq!(duration("0.2s"), Ok(Duration::from_millis(200)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("1.5m"), Ok(Duration::from_secs(90)));
        for bad in [
            "", "5", "s", "-1s", "0s", "nans", "infs", "1e300h", "5 s", "ä",
        ] {
            duration(bad).unwrap_err();
        }
    }
}
