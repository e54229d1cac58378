//! `wuji explain`: pages of the error index.

use crate::failure::{Done, Failure};
use crate::markdown;
use crate::paint::Paint;
use clap::Args;
use clap::error::ErrorKind;
use std::io::Write;
use strsim::levenshtein;
use wuji_ir::codes::{self, Code};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wuji explain W0401         explain this error and how to fix it
  wuji explain 401           the same
  wuji explain               list all codes
")]
pub(crate) struct Explain {
    /// The error code: `W0401`, `w401` or `401`. Without it, all codes are listed.
    #[arg(value_name = "CODE")]
    code: Option<String>,
}

impl Explain {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Done {
        let paint = Paint::for_output();
        let Some(asked) = &self.code else {
            for code in codes::all() {
                let title = markdown::line(code.title(), paint);
                writeln!(out, "{}  {title}", paint.bold(code.code))?;
            }
            return Ok(());
        };
        let code = codes::find(asked).ok_or_else(|| unknown(asked))?;
        write!(out, "{}", markdown::page(code.page, paint))?;
        Ok(())
    }
}

fn unknown(asked: &str) -> Failure {
    let near = near(asked).into_iter();
    let near: Vec<String> = near
        .map(|c| format!("{} ({})", c.code, c.title()))
        .collect();
    let tip = if near.is_empty() {
        "`wuji explain` lists all codes".to_owned()
    } else {
        format!("similar: {}", near.join(", "))
    };
    let why = format!("there is no error code `{asked}`\n\n  tip: {tip}");
    Failure::usage("explain", ErrorKind::InvalidValue, &why)
}

/// Similar codes: one edit away, or with the word in their title.
fn near(asked: &str) -> Vec<&'static Code> {
    const MOST: usize = 3;
    let digits: String = asked.chars().filter(char::is_ascii_digit).collect();
    let lower = asked.trim().to_lowercase();
    let looks_alike = |code: &&Code| {
        let known = &code.code[1..];
        match digits.len() {
            1..=5 => levenshtein(&format!("{digits:0>4}"), known) == 1,
            _ => false,
        }
    };
    let mut found: Vec<&Code> = codes::all().iter().filter(looks_alike).collect();
    if digits.is_empty() && lower.len() > 2 {
        let named = |code: &&Code| code.title().to_lowercase().contains(&lower);
        found.extend(codes::all().iter().filter(named));
    }
    found.truncate(MOST);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_codes_are_suggested() {
        let codes = |asked: &str| near(asked).iter().map(|c| c.code).collect::<Vec<_>>();
        assert!(codes("W0411").contains(&"W0401"));
        assert!(codes("out-of-bounds").contains(&"W0401"));
        assert!(codes("W").is_empty());
        assert!(codes("99999999999999999999999").is_empty());
    }
}
