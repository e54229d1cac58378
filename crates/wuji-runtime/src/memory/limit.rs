//! The memory limit of a device.

use crate::machine::Amounts;
use wuji_ir::{Error, Result};

/// Dense trees smaller than this are always allowed.
const ALWAYS_AVAILABLE: u64 = 64 << 20;

/// The memory limit of a device.
#[derive(Copy, Clone, Debug)]
pub(crate) struct MemoryLimit {
    bytes: u64,
    /// Whether the user has set it. Then it may exceed the available memory: pages are allocated on first use.
    is_set: bool,
}

impl MemoryLimit {
    /// By default, most of the memory of the machine, or of the process's control group.
    pub(crate) fn new(set: Option<u64>) -> MemoryLimit {
        MemoryLimit {
            bytes: set.unwrap_or_else(|| Amounts::now().total / 10 * 9),
            is_set: set.is_some(),
        }
    }

    pub(crate) fn is_set(&self) -> bool {
        self.is_set
    }

    /// The remaining bytes.
    pub(crate) fn left(&self, used: u64) -> u64 {
        self.bytes.saturating_sub(used)
    }

    /// Whether a dense tree fits. The system allocates pages on first use, and kills processes that use more than is
    /// available: so the check has to be here.
    pub(crate) fn allow_dense(&self, size: u64, used: u64) -> Result<()> {
        const HELP: &str = "make the extents smaller, use sparse nodes, or raise `memory_limit`";
        self.allow(("a tree", HELP), size, used)
    }

    /// Whether an array fits.
    pub(crate) fn allow_array(&self, size: u64, used: u64) -> Result<()> {
        const HELP: &str = "use a smaller shape, or raise `memory_limit`";
        self.allow(("an array", HELP), size, used)
    }

    fn allow(&self, (what, help): (&str, &str), size: u64, used: u64) -> Result<()> {
        let shown = Bytes(size);
        if size > self.left(used) {
            let (limit, used) = (Bytes(self.bytes), Bytes(used));
            let of_what = if self.is_set {
                ""
            } else {
                ", nine tenths of the memory there is for this process"
            };
            let error = Error::new(
                "W0110",
                format!("{what} of {shown} exceeds the memory limit of this world"),
            );
            return Err(error
                .note(format!(
                    "its limit is {limit}{of_what}, of which {used} are taken"
                ))
                .help(help));
        }
        if self.is_set || size < ALWAYS_AVAILABLE {
            return Ok(());
        }
        let Amounts { total, available } = Amounts::now();
        if size > available {
            let (total, available) = (Bytes(total), Bytes(available));
            let error = Error::new(
                "W0110",
                format!("{what} of {shown} is more than the memory that is available"),
            );
            return Err(error
                .note(format!(
                    "of {total}, {available} are available at the moment"
                ))
                .help(help));
        }
        Ok(())
    }
}

/// A number of bytes with a unit.
pub(crate) struct Bytes(pub(crate) u64);

impl std::fmt::Display for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
        let mut value = self.0 as f64;
        let mut unit = "bytes";
        for next in UNITS {
            if value < 1024.0 {
                break;
            }
            value /= 1024.0;
            unit = next;
        }
        if unit == "bytes" {
            write!(f, "{} bytes", self.0)
        } else {
            write!(f, "{value:.1} {unit}")
        }
    }
}
