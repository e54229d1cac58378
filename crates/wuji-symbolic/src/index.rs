//! Finds nodes by their columns, so that equal nodes are one node.
//!
//! Numeric code works on what it has just computed. So a node is found through its newest operand, in the chain of nodes that use this
//! operand: chains of recent operands are in the processor's caches, and a node that is new costs no access to memory. A hash table
//! would cost a cache miss per node. Nodes without operands, and further users of operands with many users, are in a hash table.

use crate::hash::mix;
use crate::op::Op;

/// An operation and its operands, as the columns of the nodes have them.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Row {
    pub(crate) op: u8,
    pub(crate) a: u32,
    pub(crate) b: u32,
}

/// The columns of all nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Columns {
    /// Codes of operations.
    pub(crate) ops: Vec<u8>,
    pub(crate) a: Vec<u32>,
    pub(crate) b: Vec<u32>,
}

impl Columns {
    #[inline]
    pub(crate) fn row(&self, at: usize) -> Row {
        Row {
            op: self.ops[at],
            a: self.a[at],
            b: self.b[at],
        }
    }

    #[inline]
    fn is(&self, at: usize, row: Row) -> bool {
        self.a[at] == row.a && self.b[at] == row.b && self.ops[at] == row.op
    }

    #[inline]
    pub(crate) fn push(&mut self, row: Row) {
        self.ops.push(row.op);
        self.a.push(row.a);
        self.b.push(row.b);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.ops.capacity() + 4 * (self.a.capacity() + self.b.capacity())
    }

    pub(crate) fn reserve(&mut self, more: usize) -> bool {
        self.ops.try_reserve_exact(more).is_ok()
            && self.a.try_reserve_exact(more).is_ok()
            && self.b.try_reserve_exact(more).is_ok()
    }

    pub(crate) fn shrink(&mut self) {
        self.ops.shrink_to_fit();
        self.a.shrink_to_fit();
        self.b.shrink_to_fit();
    }
}

/// The end of a chain.
const NONE: u32 = u32::MAX;
/// Operands with consecutive ids share a chain: `1 << SHARED` of them.
const SHARED: u32 = 1;
/// A chain of users has at most so many nodes; further ones are hashed.
const LONGEST: usize = 16;
/// Mean length of the chains of the hash table, at most.
const MEAN: usize = 2;

/// Where a node is inserted.
#[derive(Copy, Clone, Debug)]
pub(crate) enum Chain {
    /// The users of these operands.
    Users(usize),
    /// A chain of the hash table.
    Hashed(usize),
}

/// Chains of nodes. Every node is in one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Index {
    /// The rest of the chain of each node.
    next: Vec<u32>,
    /// The newest user of each operand.
    users: Vec<u32>,
    /// The first node with each hash; a power of two of them.
    hashed: Vec<u32>,
    /// Nodes in the hash table.
    spilled: usize,
}

fn hash(row: Row) -> u64 {
    let operands = u64::from(row.a) << 32 | u64::from(row.b);
    mix(mix(operands).wrapping_add((u64::from(row.op) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

impl Index {
    /// The number of nodes that can be found.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.next.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        4 * (self.next.capacity() + self.users.capacity() + self.hashed.capacity())
    }

    /// Makes space for more nodes.
    pub(crate) fn reserve(&mut self, more: usize) -> bool {
        let nodes = self.next.len() + more;
        let users = (nodes >> SHARED) + 1;
        self.next.try_reserve_exact(more).is_ok()
            && (self.users)
                .try_reserve_exact(users.saturating_sub(self.users.len()))
                .is_ok()
    }

    /// The node with these columns, or the chain where it belongs.
    #[inline]
    pub(crate) fn find(&self, nodes: &Columns, row: Row) -> Result<u32, Chain> {
        if let Some(chain) = self.users_of(nodes, row) {
            let (found, length) = self.search(nodes, row, self.users[chain]);
            if let Some(id) = found {
                return Ok(id);
            }
            if length < LONGEST {
                return Err(Chain::Users(chain));
            }
        }
        if self.hashed.is_empty() {
            return Err(Chain::Hashed(0));
        }
        let chain = hash(row) as usize & (self.hashed.len() - 1);
        let (found, _) = self.search(nodes, row, self.hashed[chain]);
        found.ok_or(Chain::Hashed(chain))
    }

    /// The chain of the newest operand. A constant has too many users to be the one.
    #[inline]
    fn users_of(&self, nodes: &Columns, row: Row) -> Option<usize> {
        let arity = Op::from_code(row.op).map_or(0, Op::arity);
        let operand = match arity {
            0 => return None,
            1 => row.a,
            _ => {
                let (newer, older) = (row.a.max(row.b), row.a.min(row.b));
                if nodes.ops[newer as usize] == Op::Const.code() {
                    older
                } else {
                    newer
                }
            }
        };
        Some((operand >> SHARED) as usize)
    }

    /// A node in a chain, or the length of the chain.
    #[inline]
    fn search(&self, nodes: &Columns, row: Row, first: u32) -> (Option<u32>, usize) {
        let (mut at, mut length) = (first, 0);
        while at != NONE {
            if nodes.is(at as usize, row) {
                return (Some(at), length);
            }
            at = self.next[at as usize];
            length += 1;
        }
        (None, length)
    }

    /// Inserts the next node. Returns whether there was memory for it.
    #[inline]
    pub(crate) fn insert(&mut self, nodes: &Columns, chain: Chain) -> bool {
        let id = self.next.len() as u32;
        let first = match chain {
            Chain::Users(chain) => &mut self.users[chain],
            Chain::Hashed(chain) => {
                let Some(chain) = self.spill(nodes, chain) else {
                    return false;
                };
                &mut self.hashed[chain]
            }
        };
        self.next.push(std::mem::replace(first, id));
        if self.users.len() <= (id >> SHARED) as usize {
            self.users.push(NONE);
        }
        true
    }

    /// Counts a node of the hash table, which may have to grow. Returns the chain of the next node.
    fn spill(&mut self, nodes: &Columns, chain: usize) -> Option<usize> {
        self.spilled += 1;
        if self.spilled <= MEAN * self.hashed.len() {
            return Some(chain);
        }
        let size = (2 * self.hashed.len()).max(16);
        let mut larger = Vec::new();
        larger.try_reserve_exact(size).ok()?;
        larger.resize(size, NONE);
        for first in std::mem::take(&mut self.hashed) {
            let mut at = first;
            while at != NONE {
                let after = self.next[at as usize];
                let chain = hash(nodes.row(at as usize)) as usize & (size - 1);
                self.next[at as usize] = std::mem::replace(&mut larger[chain], at);
                at = after;
            }
        }
        self.hashed = larger;
        Some(hash(nodes.row(self.next.len())) as usize & (size - 1))
    }
}
