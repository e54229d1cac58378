//! Numbers, nodes and lists of nodes as bytes, in little-endian order.
//!
//! Readers check everything: a checksum does not tell who wrote a file. Errors are the reason why the bytes are unusable.

use crate::arena::{Arena, Id};
use crate::op::Op;

pub(crate) type Read<T> = Result<T, String>;

pub(crate) fn put(bytes: &mut Vec<u8>, n: u32) {
    bytes.extend_from_slice(&n.to_le_bytes());
}

pub(crate) fn put_numbers(bytes: &mut Vec<u8>, numbers: impl ExactSizeIterator<Item = u32>) {
    put(bytes, numbers.len() as u32);
    numbers.for_each(|n| put(bytes, n));
}

pub(crate) fn put_nodes(bytes: &mut Vec<u8>, arena: &Arena) {
    put(bytes, arena.len() as u32);
    bytes.extend(arena.ids().map(|id| arena.op(id).code()));
    for id in arena.ids() {
        let (_, a, b) = arena.raw(id);
        put(bytes, a);
        put(bytes, b);
    }
}

/// The remaining bytes.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn bytes(&mut self, n: usize) -> Read<&'a [u8]> {
        let Some((now, later)) = self.0.split_at_checked(n) else {
            return Err("it ends too early".into());
        };
        self.0 = later;
        Ok(now)
    }

    pub(crate) fn number(&mut self) -> Read<u32> {
        let mut own = [0; 4];
        own.copy_from_slice(self.bytes(4)?);
        Ok(u32::from_le_bytes(own))
    }

    pub(crate) fn numbers(&mut self) -> Read<Vec<u32>> {
        let n = self.number()? as usize;
        let bytes = self.bytes(n.saturating_mul(4))?;
        let chunks = bytes.chunks_exact(4);
        Ok(chunks
            .map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]]))
            .collect())
    }

    /// Numbers of nodes that exist.
    pub(crate) fn ids(&mut self, nodes: usize) -> Read<Vec<Id>> {
        let list = self.numbers()?;
        if list.iter().any(|id| *id as usize >= nodes) {
            return Err("it names a node that does not exist".into());
        }
        Ok(list.into_iter().map(Id).collect())
    }

    /// Nodes that use inputs with these numbers of elements.
    pub(crate) fn nodes(&mut self, inputs: &[u32]) -> Read<Arena> {
        let count = self.number()? as usize;
        let ops = self.bytes(count)?;
        let mut arena = Arena::default();
        for (id, op) in ops.iter().enumerate() {
            let (a, b) = (self.number()?, self.number()?);
            let op = Op::from_code(*op).ok_or("it has an unknown operation")?;
            if !is_sound(&arena, inputs, (op, a, b)) || arena.intern(op, a, b).at() != id {
                return Err(format!("its node {id} is inconsistent"));
            }
        }
        if arena.is_full() {
            return Err("there is no memory for its nodes".into());
        }
        Ok(arena)
    }
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
