//! The file format of cache entries.
//!
//! A file starts with eight magic bytes and the checksum of the rest; then follow its key, 64-bit numbers and length-prefixed
//! strings. The reader validates everything, because a file may contain anything.

use super::checksum::checksum;

/// Reads an entry that was written with this magic number and key, or returns the reason why it is unusable.
pub(super) fn open<'a>(
    bytes: &'a [u8],
    magic: [u8; 8],
    key: &str,
) -> Result<Reader<'a>, &'static str> {
    let mut all = Reader(bytes);
    if all.take(8)? != magic {
        return Err("it has another format or version");
    }
    let sum = all.number()?;
    if checksum(all.0) != sum {
        return Err("it is damaged");
    }
    if all.text()? != key {
        return Err("it belongs to another kernel");
    }
    Ok(all)
}

pub(super) struct Writer(Vec<u8>);

impl Writer {
    pub(super) fn new(magic: [u8; 8], key: &str) -> Writer {
        let mut out = Writer(Vec::from(magic));
        // The place of the checksum.
        out.number(0);
        out.text(key);
        out
    }

    pub(super) fn finish(self) -> Vec<u8> {
        let mut bytes = self.0;
        let sum = checksum(&bytes[16..]);
        bytes[8..16].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    pub(super) fn number(&mut self, n: u64) {
        self.0.extend(n.to_le_bytes());
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend(bytes);
    }

    pub(super) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }
}

/// The remaining bytes.
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn end(&self) -> Result<(), &'static str> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err("it is too long")
        }
    }

    fn take(&mut self, count: u64) -> Result<&'a [u8], &'static str> {
        let count = usize::try_from(count).ok().filter(|n| *n <= self.0.len());
        let (taken, rest) = self.0.split_at(count.ok_or("it is too short")?);
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn number(&mut self) -> Result<u64, &'static str> {
        let mut own = [0; 8];
        own.copy_from_slice(self.take(8)?);
        Ok(u64::from_le_bytes(own))
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], &'static str> {
        let count = self.number()?;
        self.take(count)
    }

    pub(super) fn text(&mut self) -> Result<&'a str, &'static str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| "it is malformed")
    }

    /// A length-prefixed list.
    pub(super) fn list<T>(
        &mut self,
        one: impl Fn(&mut Reader<'a>) -> Result<T, &'static str>,
    ) -> Result<Vec<T>, &'static str> {
        let count = self.number()?;
        // Each item has at least eight bytes, so a corrupt length cannot cause a huge allocation.
        if count > self.0.len() as u64 / 8 {
            return Err("it is too short");
        }
        (0..count).map(|_| one(self)).collect()
    }
}
