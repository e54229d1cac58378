//! Traces in files.
//!
//! A file has a magic number, a version, a checksum of everything after it, and then columns of numbers in little-endian order.

use crate::arena::{Arena, Id, mix};
use crate::op::Op;
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

fn put(bytes: &mut Vec<u8>, n: u32) {
    bytes.extend_from_slice(&n.to_le_bytes());
}

fn put_lists(bytes: &mut Vec<u8>, lists: &[Vec<Id>]) {
    put(bytes, lists.len() as u32);
    for list in lists {
        put(bytes, list.len() as u32);
        list.iter().for_each(|id| put(bytes, id.0));
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn bytes(&mut self, n: usize) -> Result<&[u8]> {
        let Some((now, later)) = self.0.split_at_checked(n) else {
            return Err(unusable("it ends too early"));
        };
        self.0 = later;
        Ok(now)
    }

    fn number(&mut self) -> Result<u32> {
        let mut own = [0; 4];
        own.copy_from_slice(self.bytes(4)?);
        Ok(u32::from_le_bytes(own))
    }

    fn numbers(&mut self) -> Result<Vec<u32>> {
        let n = self.number()? as usize;
        let bytes = self.bytes(n.saturating_mul(4))?;
        let chunks = bytes.chunks_exact(4);
        Ok(chunks
            .map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]]))
            .collect())
    }

    fn lists(&mut self, nodes: usize) -> Result<Vec<Vec<Id>>> {
        let count = self.number()?;
        let mut lists = Vec::new();
        for _ in 0..count {
            let list = self.numbers()?;
            if list.iter().any(|id| *id as usize >= nodes) {
                return Err(unusable("it names a node that does not exist"));
            }
            lists.push(list.into_iter().map(Id).collect());
        }
        Ok(lists)
    }
}

impl Trace {
    /// The contents of a file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(9 * self.arena.len() + 64);
        put(&mut body, self.inputs.len() as u32);
        self.inputs.iter().for_each(|n| put(&mut body, *n));
        put(&mut body, self.arena.len() as u32);
        body.extend(self.arena.ids().map(|id| self.arena.op(id).code()));
        for id in self.arena.ids() {
            let (_, a, b) = self.arena.raw(id);
            put(&mut body, a);
            put(&mut body, b);
        }
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
        let mut reader = Reader(bytes);
        if bytes.len() < HEADER || reader.bytes(8)? != MAGIC {
            return Err(unusable("it is not the file of a trace"));
        }
        let version = reader.number()?;
        if version != VERSION {
            return Err(unusable(format!("it has version {version}, not {VERSION}")));
        }
        let mut sum = [0; 8];
        sum.copy_from_slice(reader.bytes(8)?);
        if u64::from_le_bytes(sum) != checksum(reader.0) {
            return Err(unusable("its checksum is wrong, so it is damaged"));
        }
        let inputs = reader.numbers()?;
        if inputs.iter().any(|n| *n > i32::MAX as u32) {
            return Err(unusable("it has an input of too many elements"));
        }
        let arena = read_nodes(&mut reader, &inputs)?;
        let (outputs, blocks) = (reader.lists(arena.len())?, reader.lists(arena.len())?);
        let values = outputs.iter().chain(&blocks).flatten();
        if !reader.0.is_empty() || !values.clone().all(|id| arena.op(*id).is_number()) {
            return Err(unusable("its contents are inconsistent"));
        }
        Ok(Trace {
            arena,
            inputs,
            outputs,
            blocks,
        })
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

/// The nodes of a file. Each is checked: a checksum does not tell who wrote it.
fn read_nodes(reader: &mut Reader<'_>, inputs: &[u32]) -> Result<Arena> {
    let count = reader.number()? as usize;
    let ops: Vec<u8> = reader.bytes(count)?.to_vec();
    let mut arena = Arena::default();
    for (id, op) in ops.into_iter().enumerate() {
        let (a, b) = (reader.number()?, reader.number()?);
        let op = Op::from_code(op).ok_or_else(|| unusable("it has an unknown operation"))?;
        if !is_sound(&arena, inputs, (op, a, b)) || arena.intern(op, a, b).at() != id {
            return Err(unusable(format!("its node {id} is inconsistent")));
        }
    }
    if arena.is_full() {
        return Err(unusable("there is no memory for its nodes"));
    }
    Ok(arena)
}

fn is_sound(arena: &Arena, inputs: &[u32], (op, a, b): (Op, u32, u32)) -> bool {
    let known = |id: u32| ((id as usize) < arena.len()).then(|| arena.op(Id(id)));
    let number = |id: u32| known(id).is_some_and(Op::is_number);
    let mask = |id: u32| known(id).is_some_and(Op::is_mask);
    match op {
        Op::Const => true,
        Op::Input => inputs.get(a as usize).is_some_and(|n| b < *n),
        Op::Unary(_) => number(a) && b == 0,
        Op::Not => mask(a) && b == 0,
        Op::Binary(_) | Op::Compare(_) | Op::Pair => number(a) && number(b),
        Op::Logic(_) => mask(a) && mask(b),
        Op::Select => mask(a) && known(b) == Some(Op::Pair),
    }
}
