//! The cache folder and its permissions.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use wuji_ir::{Error, Result};

/// Where a world caches compiled kernels.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Choice {
    /// The folder in the environment variable `WUJI_CACHE_DIR`; else `wuji` in the user's cache folder, usually
    /// `~/.cache`. No cache with `WUJI_CACHE=off`.
    #[default]
    Usual,
    /// No cache.
    Off,
    /// This folder, which is created if it does not exist. Only the user may have write access.
    Folder(PathBuf),
}

pub(super) enum Usual {
    Off,
    At(PathBuf),
    Nowhere,
}

pub(super) fn usual() -> Usual {
    let var = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty());
    if var("WUJI_CACHE").is_some_and(|v| v == "off" || v == "0") {
        return Usual::Off;
    }
    if let Some(path) = var("WUJI_CACHE_DIR") {
        return Usual::At(path.into());
    }
    // The XDG specification ignores relative paths.
    let xdg = var("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|p| p.is_absolute());
    let home = || var("HOME").map(|home| PathBuf::from(home).join(".cache"));
    match xdg.or_else(home) {
        Some(folder) => Usual::At(folder.join("wuji")),
        None => Usual::Nowhere,
    }
}

/// The limit from `WUJI_CACHE_LIMIT`, in megabytes.
pub(super) fn limit_asked() -> Result<Option<u64>> {
    let Some(asked) = std::env::var_os("WUJI_CACHE_LIMIT").filter(|v| !v.is_empty()) else {
        return Ok(None);
    };
    let number = asked
        .to_str()
        .and_then(|text| text.trim().parse::<u64>().ok());
    match number.and_then(|n| n.checked_mul(1 << 20)) {
        Some(bytes) => Ok(Some(bytes)),
        None => Err(Error::new(
            "W0512",
            format!("WUJI_CACHE_LIMIT is {asked:?}, which is not a size"),
        )
        .help("give it in megabytes, such as 512")),
    }
}

/// Creates the folder if needed, and checks that only the user can write to it.
pub(super) fn open(path: &Path) -> Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|e| refused(path, "make", &e))?;
    let data = fs::metadata(path).map_err(|e| refused(path, "read", &e))?;
    // SAFETY: it only returns the user id, and cannot fail.
    let user = unsafe { libc::geteuid() };
    let others = data.permissions().mode() & 0o022;
    if data.uid() != user || others != 0 {
        let why = if data.uid() == user {
            "other users may write to it"
        } else {
            "it belongs to another user"
        };
        return Err(Error::new(
            "W0512",
            format!("the folder {} cannot be a cache of kernels", path.display()),
        )
        .note(format!("{why}, and Wuji executes code from it"))
        .help("remove the write permission of others (`chmod 700`), or choose another folder with WUJI_CACHE_DIR"));
    }
    Ok(())
}

pub(super) fn refused(path: &Path, what: &str, why: &io::Error) -> Error {
    Error::new("W0512", format!("cannot {what} {}", path.display()))
        .note(why.to_string())
        .help("choose another folder with WUJI_CACHE_DIR, or set WUJI_CACHE=off")
}
