//! Tiers of code quality.

use wuji_ir::{Error, Result};
use wuji_llvm::Effort;

/// The quality of code, and how soon it is available.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum Tier {
    /// Kernels start with quickly compiled code. A kernel that has run for as long as that compilation took is
    /// recompiled in the background, and switches to the better code as soon as it is ready.
    #[default]
    Auto,
    /// Only quickly compiled code.
    Fast,
    /// The best code from the first launch on, which waits for it.
    Best,
    /// As `Best`, but not vectorized: for comparisons.
    Scalar,
}

impl Tier {
    /// Replaces `Auto` by the tier in the environment variable `WUJI_TIER`: `auto`, `fast`, `best` or `scalar`.
    pub(crate) fn or_asked(self) -> Result<Tier> {
        let Some(asked) = std::env::var_os("WUJI_TIER").filter(|_| self == Tier::Auto) else {
            return Ok(self);
        };
        match asked.to_str() {
            Some("" | "auto") => Ok(Tier::Auto),
            Some("fast") => Ok(Tier::Fast),
            Some("best") => Ok(Tier::Best),
            Some("scalar") => Ok(Tier::Scalar),
            _ => Err(Error::new(
                "W0115",
                format!("WUJI_TIER is {asked:?}, which is not a tier"),
            )
            .help("the tiers are `auto`, `fast`, `best` and `scalar`")),
        }
    }

    /// The effort of the first compilation.
    pub(crate) fn first_effort(self) -> Effort {
        match self {
            Tier::Auto | Tier::Fast => Effort::Fast,
            Tier::Best | Tier::Scalar => Effort::Full,
        }
    }

    /// The name in tables, traces and files.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Tier::Auto | Tier::Fast => "fast",
            Tier::Best => "best",
            Tier::Scalar => "scalar",
        }
    }
}
