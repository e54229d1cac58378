//! Traces in files.
//!
//! A file has a magic number, a version, a checksum of everything after it, and then columns of numbers in little-endian order.

use crate::arena::Id;
use crate::bytes::{Read, Reader, put, put_nodes, put_numbers};
use crate::hash::mix;
use crate::trace::Trace;
use std::path::Path;
use wuji_ir::{Error, Result};

const MAGIC: &[u8; 8] = b"WUJITRAC";
const VERSION: u32 = 1;
/// Magic number, version, checksum.
const HEADER: usize = 8 + 4 + 8;

fn unusable(why: impl std::fmt::Display) -> Error {
    Error::new(
        "W0804",
        format!("the file of a trace cannot be used: {why}"),
    )
    .help("record the trace again, and save it with this version of Wuji")
}

fn checksum(bytes: &[u8]) -> u64 {
    let mut hash = mix(bytes.len() as u64);
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = mix(hash.rotate_left(7) ^ u64::from_le_bytes(word));
    }
    hash
}

fn put_lists(bytes: &mut Vec<u8>, lists: &[Vec<Id>]) {
    put(bytes, lists.len() as u32);
    for list in lists {
        put_numbers(bytes, list.iter().map(|id| id.0));
    }
}

fn lists(reader: &mut Reader<'_>, nodes: usize) -> Read<Vec<Vec<Id>>> {
    let count = reader.number()?;
    (0..count).map(|_| reader.ids(nodes)).collect()
}

impl Trace {
    /// The contents of a file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(9 * self.arena.len() + 64);
        put_numbers(&mut body, self.inputs.iter().copied());
        put_nodes(&mut body, &self.arena);
        put_lists(&mut body, &self.outputs);
        put_lists(&mut body, &self.blocks);
        let mut bytes = MAGIC.to_vec();
        put(&mut bytes, VERSION);
        bytes.extend_from_slice(&checksum(&body).to_le_bytes());
        bytes.extend_from_slice(&body);
        bytes
    }

    /// The trace in the contents of a file.
    pub fn from_bytes(bytes: &[u8]) -> Result<Trace> {
        read(bytes).map_err(unusable)
    }

    /// Writes a file.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        std::fs::write(path, self.to_bytes()).map_err(|e| {
            let what = format!("cannot write the trace to `{}`: {e}", path.display());
            Error::new("W0804", what)
        })
    }

    /// Reads a file.
    pub fn load(path: impl AsRef<Path>) -> Result<Trace> {
        let path = path.as_ref();
        let bytes = std::fs::read(path)
            .map_err(|e| unusable(format!("`{}` cannot be read: {e}", path.display())))?;
        Trace::from_bytes(&bytes)
    }
}

fn read(bytes: &[u8]) -> Read<Trace> {
    let mut reader = Reader(bytes);
    if bytes.len() < HEADER || reader.bytes(8)? != MAGIC {
        return Err("it is not the file of a trace".into());
    }
    let version = reader.number()?;
    if version != VERSION {
        return Err(format!("it has version {version}, not {VERSION}"));
    }
    let mut sum = [0; 8];
    sum.copy_from_slice(reader.bytes(8)?);
    if u64::from_le_bytes(sum) != checksum(reader.0) {
        return Err("its checksum is wrong, so it is damaged".into());
    }
    let inputs = reader.numbers()?;
    if inputs.iter().any(|n| *n > i32::MAX as u32) {
        return Err("it has an input of too many elements".into());
    }
    let arena = reader.nodes(&inputs)?;
    let nodes = arena.len();
    let (outputs, blocks) = (lists(&mut reader, nodes)?, lists(&mut reader, nodes)?);
    let values = outputs.iter().chain(&blocks).flatten();
    if !reader.0.is_empty() || !values.clone().all(|id| arena.op(*id).is_number()) {
        return Err("its contents are inconsistent".into());
    }
    Ok(Trace {
        arena,
        inputs,
        outputs,
        blocks,
    })
}
