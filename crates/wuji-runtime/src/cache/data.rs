//! Data that libraries keep beside machine code: results of analyses that take long.

use super::format::{Writer, open};
use super::{Cache, SUFFIX, build, checksum};
use crate::log::Log;

/// The last byte is the version of the format.
const MAGIC: [u8; 8] = *b"wujidat\x01";

fn whole_key(key: &str) -> String {
    format!("{}\n{key}", build())
}

fn file(key: &str) -> String {
    format!("{:016x}-data.{SUFFIX}", checksum(key.as_bytes()))
}

impl Cache {
    /// Looks up data by its key, which has everything that affects it. An entry that is damaged, foreign or cannot be decoded counts
    /// as absent; `decode` returns the reason why.
    pub fn get_data<T>(
        &self,
        key: &str,
        decode: impl FnOnce(&[u8]) -> Result<T, String>,
        log: &Log,
    ) -> Option<T> {
        let key = whole_key(key);
        self.read(
            &file(&key),
            |bytes| {
                let mut all = open(bytes, MAGIC, &key)?;
                let data = all.bytes()?;
                all.end()?;
                decode(data)
            },
            log,
        )
    }

    /// Stores data. A failure is logged, and only costs the next program time.
    pub fn put_data(&self, key: &str, data: &[u8], log: &Log) {
        let key = whole_key(key);
        let mut out = Writer::new(MAGIC, &key);
        out.bytes(data);
        self.keep(&file(&key), &out.finish(), log);
    }
}
