//! The decisions about versions of a kernel's code, which were found by measurement.

use super::format::{Writer, open};
use super::{Cache, Key};
use crate::backend::cpu::versions::{CodeVersion, KeptVersion};
use crate::log::Log;
use wuji_llvm::{Object, Timings};

/// The last byte is the version of the format.
const MAGIC: [u8; 8] = *b"wujikep\x02";

/// The name of such files.
const NAME: &str = "kept";

/// What is known about each task of a kernel, in order.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct KeptEntry {
    pub(crate) tasks: Vec<Option<KeptTask>>,
}

/// The decision about a task.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct KeptTask {
    pub(crate) kept: KeptVersion,
    /// Scalar code, if that was chosen. Other code has an entry of its own.
    pub(crate) scalar: Option<Object>,
}

impl KeptEntry {
    fn encode(&self, key: &str) -> Vec<u8> {
        let mut out = Writer::new(MAGIC, key);
        out.number(self.tasks.len() as u64);
        for task in &self.tasks {
            let Some(task) = task else {
                out.number(0);
                continue;
            };
            out.number(1 + task.kept.version as u64);
            out.number(task.kept.percent.into());
            let parts = task
                .scalar
                .iter()
                .flat_map(|o| o.code.iter().zip(&o.symbols).zip(&o.stacks));
            out.number(parts.clone().count() as u64);
            for ((code, symbol), stack) in parts {
                out.bytes(code);
                out.text(symbol);
                out.number(*stack);
            }
        }
        out.finish()
    }

    fn decode(bytes: &[u8], key: &str) -> Result<KeptEntry, &'static str> {
        let mut all = open(bytes, MAGIC, key)?;
        let tasks = all.list(|r| {
            let version = match r.number()? {
                0 => return Ok(None),
                n => usize::try_from(n - 1).ok(),
            };
            let version = version.and_then(|n| CodeVersion::ALL.get(n));
            let version = *version.ok_or("it is malformed")?;
            let percent = u32::try_from(r.number()?).map_err(|_| "it is malformed")?;
            let parts = r.list(|r| {
                let code = r.bytes()?.to_vec();
                Ok((code, (r.text()?.to_owned(), r.number()?)))
            })?;
            let (code, rest): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
            let (symbols, stacks) = rest.into_iter().unzip();
            if (version == CodeVersion::Scalar) != (code.len() == 1) {
                return Err("it is malformed");
            }
            let scalar = (version == CodeVersion::Scalar).then(|| Object {
                code,
                symbols,
                stacks,
                timings: Timings::default(),
            });
            let kept = KeptVersion { version, percent };
            Ok(Some(KeptTask { kept, scalar }))
        })?;
        all.end()?;
        Ok(KeptEntry { tasks })
    }
}

impl Cache {
    /// Looks up the decisions about a kernel.
    pub(crate) fn get_kept(&self, key: &Key, log: &Log) -> Option<KeptEntry> {
        let decode = |bytes: &[u8]| KeptEntry::decode(bytes, &key.0).map_err(str::to_owned);
        self.read(&key.file_of(NAME), decode, log)
    }

    /// Stores the decisions about a kernel.
    pub(crate) fn put_kept(&self, key: &Key, entry: &KeptEntry, log: &Log) {
        self.keep(&key.file_of(NAME), &entry.encode(&key.0), log);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> KeptEntry {
        let task = |version, percent, scalar| {
            Some(KeptTask {
                kept: KeptVersion { version, percent },
                scalar,
            })
        };
        let object = Object {
            code: vec![vec![1, 2, 3]],
            symbols: vec!["wuji.k.1".into()],
            stacks: vec![1000],
            timings: Timings::default(),
        };
        KeptEntry {
            tasks: vec![
                task(CodeVersion::Better, 100, None),
                None,
                task(CodeVersion::Scalar, 190, Some(object)),
                task(CodeVersion::First, 120, None),
            ],
        }
    }

    #[test]
    fn decisions_round_trip() {
        let bytes = entry().encode("key");
        assert_eq!(KeptEntry::decode(&bytes, "key"), Ok(entry()));
        assert!(KeptEntry::decode(&bytes, "another").is_err());
    }

    #[test]
    fn damaged_decisions_are_rejected() {
        let bytes = entry().encode("key");
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            assert!(KeptEntry::decode(&damaged, "key").is_err(), "byte {at}");
            assert!(
                KeptEntry::decode(&bytes[..at], "key").is_err(),
                "{at} bytes"
            );
        }
    }

    /// A file of the right form whose contents make no sense.
    #[test]
    fn decisions_without_their_code_are_rejected() {
        let mut broken = entry();
        broken.tasks[2].as_mut().unwrap().scalar = None;
        assert!(KeptEntry::decode(&broken.encode("key"), "key").is_err());
        let mut out = Writer::new(MAGIC, "key");
        for number in [1, 9, 100, 0] {
            out.number(number);
        }
        assert!(KeptEntry::decode(&out.finish(), "key").is_err());
    }
}
