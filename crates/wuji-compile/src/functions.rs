//! Implementations of mathematical functions that have no machine instruction.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wuji_ir::{Error, Result};

/// Where mathematical functions come from.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum Functions {
    /// The C library of the host.
    #[default]
    System,
    /// Expanded inline by `lower_math`, for targets without a math library.
    WrittenOut,
    /// NVIDIA's `libdevice` for the functions that are faster there; the others are expanded inline.
    Libdevice(Arc<Libdevice>),
}

/// NVIDIA's library of mathematical functions for GPUs, part of a CUDA installation: LLVM bitcode, from which the
/// backend links the called functions.
#[derive(Clone)]
pub struct Libdevice {
    path: PathBuf,
    bitcode: Vec<u8>,
    checksum: u64,
}

impl Libdevice {
    /// Larger files are not `libdevice`.
    const MOST_BYTES: u64 = 64 << 20;

    /// Reads a file. Whether LLVM understands it is known when something of it is linked.
    pub fn read(path: &Path) -> Result<Libdevice> {
        let wrong = |why: String| unusable(path, why);
        let size = std::fs::metadata(path).map_err(|e| wrong(e.to_string()))?;
        if !size.is_file() || size.len() > Libdevice::MOST_BYTES {
            return Err(wrong("it is not a file of a few hundred kilobytes".into()));
        }
        let bitcode = std::fs::read(path).map_err(|e| wrong(e.to_string()))?;
        if !bitcode.starts_with(b"BC\xc0\xde") {
            return Err(wrong("it is not LLVM's bitcode".into()));
        }
        Ok(Libdevice {
            path: path.to_owned(),
            checksum: checksum(&bitcode),
            bitcode,
        })
    }

    /// The file it was read from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The bitcode of LLVM.
    pub fn bitcode(&self) -> &[u8] {
        &self.bitcode
    }

    /// An error: the backend cannot use the library.
    pub fn unusable(&self, why: impl Into<String>) -> Error {
        unusable(&self.path, why)
    }
}

fn unusable(path: &Path, why: impl Into<String>) -> Error {
    let path = path.display();
    Error::new("W0526", format!("`{path}` cannot be used as libdevice"))
        .note(why)
        .help("set WUJI_LIBDEVICE to another `libdevice.10.bc`, or to `off` to do without")
}

/// FNV hash over words.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(0xcbf2_9ce4_8422_2325, |sum, part| {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        (sum ^ u64::from_le_bytes(word)).wrapping_mul(0x0100_0000_01b3)
    })
}

// Libraries with equal content are equal, regardless of path.
impl PartialEq for Libdevice {
    fn eq(&self, other: &Libdevice) -> bool {
        self.checksum == other.checksum && self.bitcode == other.bitcode
    }
}

impl Eq for Libdevice {}

impl Hash for Libdevice {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.checksum.hash(state);
    }
}

/// The part of a cache key.
impl fmt::Debug for Libdevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes, {:016x}", self.bitcode.len(), self.checksum)
    }
}
