//! `wuji cache`: the kernel cache on disk.

use crate::failure::Done;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::io::Write;
use wuji_ir::Error;
use wuji_runtime::cache::{Cache as Folder, Info};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wuji cache info                              show its location and size
  wuji cache clear                             remove all compiled kernels
  WUJI_CACHE_DIR=/tmp/kernels wuji cache info  inspect another directory
  WUJI_CACHE=off                               in the environment of a program: disable the cache
  WUJI_CACHE_LIMIT=512                         ... limit it to 512 megabytes
")]
pub(crate) struct Cache {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Show the location and size of the cache, and whether it can be used.
    Info {
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Remove all compiled kernels. Running programs are not affected; they compile again at the next start.
    Clear {
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
}

/// The state of the cache directory.
pub(crate) enum Found {
    /// Disabled by the environment, or there is no cache directory.
    None,
    Usable(Info),
    /// Programs run without a cache, for this reason.
    Unusable(Option<Info>, Error),
}

impl Found {
    pub(crate) fn look() -> Found {
        let cache = match Folder::usual() {
            Ok(Some(cache)) => cache,
            Ok(None) => return Found::None,
            Err(why) => return Found::Unusable(None, why),
        };
        match (cache.check(), cache.info()) {
            (Ok(()), Ok(info)) => Found::Usable(info),
            (Err(why), info) => Found::Unusable(info.ok(), why),
            (Ok(()), Err(why)) => Found::Unusable(None, why),
        }
    }

    fn info(&self) -> Option<&Info> {
        match self {
            Found::None => None,
            Found::Usable(info) => Some(info),
            Found::Unusable(info, _) => info.as_ref(),
        }
    }

    /// One human-readable line.
    pub(crate) fn line(&self) -> String {
        match self {
            Found::None => "off".to_owned(),
            Found::Usable(info) => {
                let folder = info.folder.display();
                let kernels = counted(info.entries, "kernel");
                let (bytes, limit) = (size(info.bytes), size(info.limit));
                format!("{folder}: {kernels}, {bytes} of at most {limit}")
            }
            Found::Unusable(_, why) => format!("not usable: {}", reason(why)),
        }
    }

    /// Adds what is known of the cache to an object.
    pub(crate) fn add_to(&self, object: &mut Value) {
        object["cache_folder"] = Value::Null;
        if let Some(info) = self.info() {
            object["cache_folder"] = json!(info.folder.display().to_string());
            object["cache_entries"] = json!(info.entries);
            object["cache_bytes"] = json!(info.bytes);
            object["cache_limit"] = json!(info.limit);
        }
        object["cache_problem"] = match self {
            Found::None | Found::Usable(_) => Value::Null,
            Found::Unusable(_, why) => json!(reason(why)),
        };
    }
}

/// An error in one line.
fn reason(error: &Error) -> String {
    let notes = error.notes.iter().map(|note| format!(": {note}"));
    format!("{}{}", error.message, notes.collect::<String>())
}

fn counted(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    }
}

/// A human-readable number of bytes.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} bytes"),
        _ if value.fract() < 0.05 => format!("{value:.0} {}", UNITS[unit]),
        _ => format!("{value:.1} {}", UNITS[unit]),
    }
}

impl Cache {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Done {
        match self.command {
            Command::Info { json: true } => {
                let mut object = json!({ "kind": "cache" });
                Found::look().add_to(&mut object);
                writeln!(out, "{object}")?;
            }
            Command::Info { json: false } => match Found::look() {
                Found::Unusable(_, why) => return Err(why.into()),
                found => writeln!(out, "{}", found.line())?,
            },
            Command::Clear { json } => {
                let (count, bytes) = match Folder::usual()? {
                    Some(cache) => cache.clear()?,
                    None => (0, 0),
                };
                if json {
                    let object =
                        json!({ "kind": "cache_cleared", "entries": count, "bytes": bytes });
                    writeln!(out, "{object}")?;
                } else {
                    let kernels = counted(count, "kernel");
                    writeln!(out, "{kernels} removed, {}", size(bytes))?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let shown = [0, 1023, 1024, 1 << 30, 3 << 19, u64::MAX].map(size);
        let expected = [
            "0 bytes",
            "1023 bytes",
            "1 KiB",
            "1 GiB",
            "1.5 MiB",
            "16777216 TiB",
        ];
        assert_eq!(shown, expected);
    }
}
