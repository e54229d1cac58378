//! The bytes of a checkpoint: blocks of limited size, each with a checksum.
//!
//! | bytes | |
//! |---|---|
//! | 8 | `WUJICKPT` |
//! | 4 | version |
//! | then, for each block | |
//! | 8 | number of bytes; 0 for the last one |
//! | 8 | checksum of the bytes and the number of the block |
//! | | the bytes |
//!
//! Numbers have their lowest byte first.

use crate::files::stream::{Input, Output};
use std::path::Path;
use wuji_ir::{Error, Result};
use wuji_runtime::cache::checksum;

const MAGIC: &[u8; 8] = b"WUJICKPT";
const VERSION: u32 = 3;

/// The version without a seed, in which all active cells of a node are one part.
const WITHOUT_SEED: u32 = 2;

/// Largest number of bytes of a block.
pub(super) const BLOCK: usize = 1 << 20;

const KIND: &str = "checkpoint";

/// Blocks have other checksums at other places.
fn sum(bytes: &[u8], number: u64) -> u64 {
    checksum(bytes) ^ wuji_ir::random::mix(number)
}

pub(super) struct Writer {
    output: Output,
    buffer: Vec<u8>,
    number: u64,
}

impl Writer {
    pub(super) fn create(path: &Path) -> Result<Writer> {
        Writer::of_version(path, VERSION)
    }

    pub(super) fn of_version(path: &Path, version: u32) -> Result<Writer> {
        let mut output = Output::create(path)?;
        output.put(MAGIC)?;
        output.put(version.to_le_bytes())?;
        Ok(Writer {
            output,
            buffer: Vec::with_capacity(BLOCK),
            number: 0,
        })
    }

    pub(super) fn put(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK - self.buffer.len()));
            self.buffer.extend(now);
            bytes = later;
            if self.buffer.len() == BLOCK {
                self.end_block()?;
            }
        }
        Ok(())
    }

    pub(super) fn put_number(&mut self, number: u64) -> Result<()> {
        self.put(&number.to_le_bytes())
    }

    fn end_block(&mut self) -> Result<()> {
        self.output.put((self.buffer.len() as u64).to_le_bytes())?;
        self.output
            .put(sum(&self.buffer, self.number).to_le_bytes())?;
        self.output.put(&self.buffer)?;
        self.number += 1;
        self.buffer.clear();
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<()> {
        if !self.buffer.is_empty() {
            self.end_block()?;
        }
        self.end_block()?;
        self.output.finish()
    }
}

pub(super) struct Reader {
    input: Input,
    version: u32,
    block: Vec<u8>,
    /// How much of the block was taken.
    taken: usize,
    number: u64,
    ended: bool,
}

impl Reader {
    pub(super) fn open(path: &Path) -> Result<Reader> {
        let mut input = Input::open(path)?;
        let mut start = [0; 12];
        input.take(KIND, &mut start)?;
        let (magic, version) = start.split_at(8);
        if magic != MAGIC {
            return Err(input.damaged(KIND, "it does not start with `WUJICKPT`"));
        }
        let version = version.try_into().map_or(0, u32::from_le_bytes);
        if version != VERSION && version != WITHOUT_SEED {
            let why = format!(
                "it has version {version} of the format, and this program reads {WITHOUT_SEED} and {VERSION}"
            );
            return Err(input
                .damaged(KIND, why)
                .help("load it with the version of Wuji that wrote it"));
        }
        Ok(Reader {
            input,
            version,
            block: Vec::new(),
            taken: 0,
            number: 0,
            ended: false,
        })
    }

    /// Reads all blocks and compares their checksums.
    pub(super) fn verify(mut self) -> Result<()> {
        while !self.ended {
            self.next_block()?;
        }
        Ok(())
    }

    #[cold]
    pub(super) fn damaged(&self, why: impl Into<String>) -> Error {
        self.input.damaged(KIND, why)
    }

    fn next_block(&mut self) -> Result<()> {
        let mut head = [0; 16];
        self.input.take(KIND, &mut head)?;
        let (length, wanted) = head.split_at(8);
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
        let (length, wanted) = (number(length), number(wanted));
        if length > BLOCK as u64 {
            let why = format!("block {} claims to have {length} bytes", self.number);
            return Err(self.damaged(why));
        }
        self.block = self.input.take_vec(KIND, length)?;
        if sum(&self.block, self.number) != wanted {
            let why = format!("block {} has a wrong checksum", self.number);
            return Err(self.damaged(why));
        }
        self.number += 1;
        self.taken = 0;
        self.ended = length == 0;
        Ok(())
    }

    pub(super) fn take(&mut self, mut into: &mut [u8]) -> Result<()> {
        while !into.is_empty() {
            if self.taken == self.block.len() {
                if self.ended {
                    return Err(self.damaged("it has fewer values than its fields have"));
                }
                self.next_block()?;
                continue;
            }
            let rest = &self.block[self.taken..];
            let count = rest.len().min(into.len());
            let (now, later) = into.split_at_mut(count);
            now.copy_from_slice(&rest[..count]);
            self.taken += count;
            into = later;
        }
        Ok(())
    }

    pub(super) fn take_number(&mut self) -> Result<u64> {
        let mut bytes = [0; 8];
        self.take(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Whether the seed of the random numbers is in the file.
    pub(super) fn has_seed(&self) -> bool {
        self.version > WITHOUT_SEED
    }

    /// How many parts the cells of a node, or the elements of a field, are in.
    pub(super) fn take_parts(&mut self) -> Result<u64> {
        if self.version <= WITHOUT_SEED {
            return Ok(1);
        }
        let parts = self.take_number()?;
        // Each has the number of its cells.
        if parts == 0 || parts > self.input.left() / 8 + BLOCK as u64 {
            return Err(self.damaged(format!("it claims to have {parts} parts")));
        }
        Ok(parts)
    }

    /// Words of eight bytes, as many as that; the file must have them.
    pub(super) fn take_words(&mut self, count: u64) -> Result<Vec<u64>> {
        // A wrong count must not allocate more than the file can have.
        let most = self.input.left() / 8 + BLOCK as u64;
        if count > most {
            return Err(self.damaged(format!("it claims to have {count} numbers")));
        }
        (0..count).map(|_| self.take_number()).collect()
    }

    /// An error unless everything was taken.
    pub(super) fn finish(mut self) -> Result<()> {
        if self.taken == self.block.len() && !self.ended {
            self.next_block()?;
        }
        if self.ended {
            Ok(())
        } else {
            Err(self.damaged("it has more values than its fields have"))
        }
    }
}
