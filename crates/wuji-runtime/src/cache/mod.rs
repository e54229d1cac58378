//! The disk cache of compiled kernels, and of [data](Cache::get_data) that libraries keep beside them.
//!
//! The key of an entry has everything that affects its code: the kernel before any pass, options, processor, LLVM and
//! this build of Wuji. The key is stored in the entry and compared, so a hash collision is harmless. An entry that is
//! damaged, foreign or does not load counts as absent and is overwritten. Entries are written under a temporary name
//! and renamed: a reader sees a complete entry or none, even with several writers.
//!
//! Code from the cache is executed, so only the user may have write access to the folder.

mod checksum;
mod data;
mod entry;
mod folder;
mod format;
mod kept;
mod slot;

pub use checksum::checksum;
pub(crate) use entry::Entry;
pub use folder::Choice;
pub(crate) use kept::{KeptEntry, KeptTask};
pub(crate) use slot::CacheSlot;

use crate::log::{Level, Log};
use crate::tier::Tier;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};
use wuji_compile::Options;
use wuji_ir::module::Module;
use wuji_ir::{Error, Result};

/// The default limit of the total size, in bytes.
pub const DEFAULT_LIMIT: u64 = 1 << 30;

/// The file extension of entries.
const SUFFIX: &str = "wuji";
/// The prefix of files that are being written.
const UNFINISHED: &str = "new-";
/// A temporary file older than this is abandoned.
const ABANDONED: Duration = Duration::from_secs(3600);
/// How often a name for a new file is tried.
const ATTEMPTS: usize = 16;
/// The size is looked at after the first write, and whenever this much more has been written.
const LOOK_AFTER: u64 = 16 << 20;

/// A folder of compiled kernels.
#[derive(Debug)]
pub struct Cache {
    folder: PathBuf,
    limit: u64,
    /// Bytes written since the last size check; starts high.
    written: AtomicU64,
}

/// Statistics of a cache.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Info {
    /// Where the entries are.
    pub folder: PathBuf,
    /// The number of entries.
    pub entries: usize,
    /// Their size.
    pub bytes: u64,
    /// The largest size that is kept.
    pub limit: u64,
}

/// This build of Wuji.
fn build() -> String {
    format!("wuji {} {}", env!("CARGO_PKG_VERSION"), env!("WUJI_BUILD"))
}

/// Everything that affects the code of a kernel, as text.
#[derive(Clone, Debug)]
pub(crate) struct Key(String);

impl Key {
    /// `target` describes the target of the code, and the compiler.
    pub(crate) fn of(module: &Module, options: &Options, target: &str) -> Key {
        Key(format!("{}\n{target}\n{options:?}\n{module}", build()))
    }

    fn file(&self, tier: Tier) -> String {
        self.file_of(tier.label())
    }

    fn file_of(&self, what: &str) -> String {
        format!("{:016x}-{what}.{SUFFIX}", checksum(self.0.as_bytes()))
    }
}

impl Cache {
    /// Opens the selected cache. `None` if it is off, or if there is no folder for it, which is logged.
    pub(crate) fn open(choice: &Choice, limit: Option<u64>, log: &Log) -> Result<Option<Cache>> {
        let limit = match limit {
            Some(limit) => limit,
            None => folder::limit_asked()?.unwrap_or(DEFAULT_LIMIT),
        };
        let place = match choice {
            Choice::Off => return Ok(None),
            Choice::Folder(path) => Some(path.clone()),
            Choice::Usual => match folder::usual() {
                folder::Usual::Off => return Ok(None),
                folder::Usual::At(path) => {
                    return Ok(match folder::open(&path) {
                        Ok(()) => Some(Cache::at(path, limit)),
                        Err(why) => {
                            log.say(Level::Warn, || {
                                format!("kernels are not cached: {}", short(&why))
                            });
                            None
                        }
                    });
                }
                folder::Usual::Nowhere => {
                    log.say(Level::Warn, || {
                        "kernels are not cached: neither HOME nor WUJI_CACHE_DIR is set".to_owned()
                    });
                    None
                }
            },
        };
        let Some(path) = place else {
            return Ok(None);
        };
        folder::open(&path)?;
        Ok(Some(Cache::at(path, limit)))
    }

    fn at(folder: PathBuf, limit: u64) -> Cache {
        Cache {
            folder,
            limit,
            written: AtomicU64::new(LOOK_AFTER),
        }
    }

    /// The default cache of worlds; `None` if it is off.
    pub fn usual() -> Result<Option<Cache>> {
        let limit = folder::limit_asked()?.unwrap_or(DEFAULT_LIMIT);
        match folder::usual() {
            folder::Usual::Off | folder::Usual::Nowhere => Ok(None),
            folder::Usual::At(path) => Ok(Some(Cache::at(path, limit))),
        }
    }

    /// Where the entries are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether worlds can use it: it exists or can be created, and only the user has write access.
    pub fn check(&self) -> Result<()> {
        folder::open(&self.folder)
    }

    /// Its statistics. A missing folder is empty.
    pub fn info(&self) -> Result<Info> {
        let entries = self.entries()?;
        Ok(Info {
            folder: self.folder.clone(),
            entries: entries.len(),
            bytes: entries.iter().map(|e| e.bytes).sum(),
            limit: self.limit,
        })
    }

    /// Removes all entries; returns their number and size. Other files in the folder are kept.
    pub fn clear(&self) -> Result<(usize, u64)> {
        let (mut count, mut bytes) = (0, 0);
        for entry in self.entries()? {
            match fs::remove_file(&entry.path) {
                Ok(()) => {
                    count += 1;
                    bytes += entry.bytes;
                }
                // Another process was faster.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(folder::refused(&entry.path, "remove", &e)),
            }
        }
        Ok((count, bytes))
    }

    /// Looks up the entry of a key.
    pub(crate) fn get(&self, key: &Key, tier: Tier, log: &Log) -> Option<Entry> {
        let decode = |bytes: &[u8]| Entry::decode(bytes, &key.0).map_err(str::to_owned);
        self.read(&key.file(tier), decode, log)
    }

    /// Reads and decodes a file. What cannot be used is logged.
    fn read<T>(
        &self,
        name: &str,
        decode: impl FnOnce(&[u8]) -> std::result::Result<T, String>,
        log: &Log,
    ) -> Option<T> {
        let path = self.folder.join(name);
        let (file, bytes) = match read_plain_file(&path) {
            Ok(read) => read,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return None,
            Err(e) => {
                log.say(Level::Warn, || {
                    format!("cannot read {}: {e}", path.display())
                });
                return None;
            }
        };
        match decode(&bytes) {
            Ok(entry) => {
                // Entries that are used stay longest. It does not matter when the time cannot be set.
                let _ = file.set_modified(SystemTime::now());
                Some(entry)
            }
            Err(why) => {
                log.say(Level::Info, || {
                    format!(
                        "{} is not used: {why}; the kernel is recompiled",
                        path.display()
                    )
                });
                None
            }
        }
    }

    /// Stores an entry. A failure is logged, and only costs the next program time.
    pub(crate) fn put(&self, key: &Key, tier: Tier, entry: &Entry, log: &Log) {
        self.keep(&key.file(tier), &entry.encode(&key.0), log);
    }

    fn keep(&self, name: &str, bytes: &[u8], log: &Log) {
        if bytes.len() as u64 > self.limit {
            log.say(Level::Info, || {
                format!(
                    "a kernel of {} bytes is larger than the whole cache",
                    bytes.len()
                )
            });
            return;
        }
        match self.write(name, bytes) {
            Ok(()) => self.make_room(bytes.len() as u64, log),
            Err(e) => log.say(Level::Warn, || {
                format!("cannot keep a kernel in {}: {e}", self.folder.display())
            }),
        }
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let (mut file, unfinished) = self.unfinished()?;
        let done = file
            .write_all(bytes)
            .and_then(|()| fs::rename(&unfinished, self.folder.join(name)));
        if done.is_err() {
            // Do not leave a partial file on a full disk.
            let _ = fs::remove_file(&unfinished);
        }
        done
    }

    /// A new file. One of this name may be there, left by a process that had our number.
    fn unfinished(&self) -> io::Result<(fs::File, PathBuf)> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let mut last = None;
        for _ in 0..ATTEMPTS {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = format!("{UNFINISHED}{}-{number}", std::process::id());
            let path = self.folder.join(name);
            match fs::File::create_new(&path) {
                Ok(file) => return Ok((file, path)),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => last = Some(e),
                Err(e) => return Err(e),
            }
        }
        Err(last.unwrap_or_else(|| io::ErrorKind::AlreadyExists.into()))
    }

    /// Removes what was not used for longest when there is too much, down to nine tenths of the limit.
    fn make_room(&self, more: u64, log: &Log) {
        if self.written.fetch_add(more, Ordering::Relaxed) + more < LOOK_AFTER.min(self.limit / 8) {
            return;
        }
        self.written.store(0, Ordering::Relaxed);
        self.remove_abandoned();
        let Ok(mut entries) = self.entries() else {
            return;
        };
        let mut bytes: u64 = entries.iter().map(|e| e.bytes).sum();
        if bytes <= self.limit {
            return;
        }
        entries.sort_by_key(|e| e.used);
        let mut removed = 0;
        for entry in entries {
            if bytes <= self.limit / 10 * 9 {
                break;
            }
            if fs::remove_file(&entry.path).is_ok() {
                bytes -= entry.bytes;
                removed += 1;
            }
        }
        log.say(Level::Info, || {
            format!("{removed} kernels were removed from the full cache")
        });
    }

    /// Removes files of processes that ended while they were writing.
    fn remove_abandoned(&self) {
        for file in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let ours = file.file_name().to_string_lossy().starts_with(UNFINISHED);
            let age = file.metadata().and_then(|m| m.modified()).ok();
            let age = age.and_then(|t| t.elapsed().ok());
            if ours && age.is_some_and(|age| age > ABANDONED) {
                // Another process may have removed it.
                let _ = fs::remove_file(file.path());
            }
        }
    }

    fn entries(&self) -> Result<Vec<OnDisk>> {
        let files = match fs::read_dir(&self.folder) {
            Ok(files) => files,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(folder::refused(&self.folder, "read", &e)),
        };
        let entries = files.flatten().filter_map(|file| {
            let path = file.path();
            let is_entry = path.extension().is_some_and(|e| e == SUFFIX);
            let data = file.metadata().ok().filter(|m| is_entry && m.is_file())?;
            Some(OnDisk {
                path,
                bytes: data.len(),
                used: data.modified().unwrap_or(SystemTime::UNIX_EPOCH),
            })
        });
        Ok(entries.collect())
    }
}

struct OnDisk {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

/// Reads an entry. A file of another kind is not touched: reading a pipe or a device may never end, or do something.
fn read_plain_file(path: &Path) -> io::Result<(fs::File, Vec<u8>)> {
    let plain = |data: fs::Metadata| {
        if data.is_file() {
            Ok(())
        } else {
            Err(io::Error::other("it is no regular file"))
        }
    };
    plain(fs::metadata(path)?)?;
    // Another process may have replaced it since.
    let mut file = fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    plain(file.metadata()?)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok((file, bytes))
}

/// An error in one line, for logs.
fn short(error: &Error) -> String {
    let notes = error.notes.iter().map(|n| format!(" ({n})"));
    format!("{}{}", error.message, notes.collect::<String>())
}

#[cfg(test)]
mod tests;
