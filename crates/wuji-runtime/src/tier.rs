//! How good the code of kernels is.

use wuji_ir::{Error, Result};
use wuji_llvm::Effort;

/// How good the code of kernels is, and how soon it is there.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum Tier {
    /// Kernels start with code that is made quickly. Once one has run for as long as making that took, better code
    /// is made in the background and used as soon as it is there.
    #[default]
    Auto,
    /// Code that is made quickly, and no other.
    Fast,
    /// The best code from the first launch on, which waits for it.
    Best,
}

impl Tier {
    /// In place of `Auto`, what the environment variable `WUJI_TIER` asks for: `auto`, `fast` or `best`.
    pub(crate) fn or_asked(self) -> Result<Tier> {
        let Some(asked) = std::env::var_os("WUJI_TIER").filter(|_| self == Tier::Auto) else {
            return Ok(self);
        };
        match asked.to_str() {
            Some("" | "auto") => Ok(Tier::Auto),
            Some("fast") => Ok(Tier::Fast),
            Some("best") => Ok(Tier::Best),
            _ => Err(
                Error::new("W0115", format!("WUJI_TIER is {asked:?}, which is no tier"))
                    .help("the tiers are `auto`, `fast` and `best`"),
            ),
        }
    }

    /// What kernels are compiled with when they are first launched.
    pub(crate) fn first_effort(self) -> Effort {
        match self {
            Tier::Auto | Tier::Fast => Effort::Fast,
            Tier::Best => Effort::Full,
        }
    }
}
