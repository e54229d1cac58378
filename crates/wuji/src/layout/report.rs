//! How much memory the nodes of a tree take.

use super::{Tree, TreeBody};
use crate::services::{Service, Subject};
use crate::world::World;
use std::fmt;
use wuji_ir::Result;
use wuji_ir::entities::Node;
use wuji_ir::layout::{header, shard};

/// The memory of one tree, node by node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryReport {
    /// The root and the sparse nodes, parents first. Dense nodes lie in the cells of those around them.
    pub nodes: Vec<NodeReport>,
}

/// The memory of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeReport {
    /// `root`, `pointer`, ...
    pub kind: &'static str,
    /// The axes it splits, and how many cells along each in a cell of its parent, where there is a bound.
    pub extents: Vec<(char, Option<u64>)>,
    /// How many sparse nodes are around it, the root included.
    pub depth: usize,
    /// Active cells.
    pub active: u64,
    /// Cells that have memory of their own, in chunks where the node is a list. Cells of a bitmasked
    /// node lie in the cells around them.
    pub allocated: u64,
    /// Those of them that wait to be used again.
    pub free: u64,
    /// Bytes that belong to this node and to no node below.
    pub bytes: u64,
}

impl MemoryReport {
    /// Bytes of all nodes together.
    pub fn bytes(&self) -> u64 {
        self.nodes.iter().map(|n| n.bytes).sum()
    }
}

impl fmt::Display for MemoryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<36} {:>12} {:>12} {:>12} {:>16}",
            "node", "active", "allocated", "free", "bytes"
        )?;
        for node in &self.nodes {
            let extents: Vec<String> = node
                .extents
                .iter()
                .map(|(axis, extent)| match extent {
                    Some(extent) => format!("{axis}: {extent}"),
                    None => axis.to_string(),
                })
                .collect();
            let name = format!("{}{}", "  ".repeat(node.depth), node.kind);
            let name = if extents.is_empty() {
                name
            } else {
                format!("{name} [{}]", extents.join(", "))
            };
            writeln!(
                f,
                "{name:<36} {:>12} {:>12} {:>12} {:>16}",
                node.active, node.allocated, node.free, node.bytes
            )?;
        }
        write!(f, "{:<36} {:>55}", "together", self.bytes())
    }
}

/// The memory of a world, tree by tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorldReport {
    /// The names of the fields in each tree, and its memory; the oldest tree first.
    pub trees: Vec<(Vec<String>, MemoryReport)>,
}

impl WorldReport {
    /// Bytes of all trees together.
    pub fn bytes(&self) -> u64 {
        self.trees.iter().map(|t| t.1.bytes()).sum()
    }
}

impl fmt::Display for WorldReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (names, report) in &self.trees {
            writeln!(f, "{}\n{report}\n", names.join(", "))?;
        }
        write!(f, "{} trees, {} bytes", self.trees.len(), self.bytes())
    }
}

impl World {
    /// How much memory the trees of this world take, as it is now.
    ///
    /// ```
    /// use wuji::prelude::*;
    /// # fn main() -> wuji::Result<()> {
    /// let world = World::cpu()?;
    /// let x = world.field::<f32, 1>("x", 1000)?;
    /// let y = world.layout(|root| root.pointer(I, 64).dense(I, 64).place::<f32, 1>("y"))?;
    /// y.set(100, 1.0)?;
    /// println!("{}", world.memory_report()?);
    /// assert_eq!(world.memory_report()?.trees.len(), 2);
    /// # drop((x, y));
    /// # Ok(())
    /// # }
    /// ```
    pub fn memory_report(&self) -> Result<WorldReport> {
        let mut trees = Vec::new();
        for inner in self.trees() {
            let names = inner.body()?.names.clone();
            trees.push((names, Tree { inner }.memory_report()?));
        }
        Ok(WorldReport { trees })
    }
}

impl Tree {
    /// How much memory each node takes, as it is now. On the interpreter cells take no memory of the
    /// world, so only the active ones are counted.
    pub fn memory_report(&self) -> Result<MemoryReport> {
        let body = self.inner.body()?;
        let mut nodes = Vec::new();
        for (node, data) in body.shape.data.nodes.iter() {
            // Other nodes are part of the cells around them.
            if !data.kind.is_root() && !data.kind.is_sparse() {
                continue;
            }
            let active = if data.kind.is_sparse() {
                let counted = self
                    .inner
                    .serve(Subject::Node(node), Service::Count, &[], &[])?;
                counted.first().copied().unwrap_or(0)
            } else {
                1
            };
            let (allocated, free, bytes) = allocations(body, node)?;
            nodes.push(NodeReport {
                kind: data.kind.name(),
                extents: (data.extents.iter())
                    .map(|(axis, extent)| {
                        let bounded = !body.unbounded.contains(&node);
                        let name = char::from(b'i' + axis.number() as u8);
                        (name, bounded.then_some(*extent))
                    })
                    .collect(),
                depth: body.shape.data.sparse_path(node).len(),
                active,
                allocated,
                free,
                bytes,
            });
        }
        Ok(MemoryReport { nodes })
    }
}

/// Allocated and free cells of a node, and their bytes.
fn allocations(body: &TreeBody, node: Node) -> Result<(u64, u64, u64)> {
    let kind = body.shape.data.nodes[node].kind;
    if kind.is_root() {
        return Ok((1, 0, body.layout.cell_size[node]));
    }
    let Some(memory) = body.layout.node(node) else {
        return Ok((0, 0, 0));
    };
    let Some(arena) = &memory.arena else {
        return Ok((0, 0, 0));
    };
    let mut guard = body.memory.lock()?;
    let mut bring = |at: u64, bytes: u64| guard.fetch(at as usize..(at + bytes) as usize);
    bring(memory.header, header::SIZE)?;
    bring(arena.shards, shard::COUNT * shard::SIZE)?;
    if body.memory.is_on_device() {
        let used = body.memory.used() / arena.cell.max(1);
        bring(arena.next, 8 * used.min(arena.capacity))?;
    }
    let word = |at: u64| {
        let bytes = guard.bytes().get(at as usize..at as usize + 8);
        bytes
            .and_then(|b| b.try_into().ok())
            .map_or(0, u64::from_le_bytes)
    };
    let head = |at: u64| word(memory.header + at);
    let kept = |what: u64| -> u64 {
        let run = |k: u64| word(arena.shards + k * shard::SIZE + what);
        (0..shard::COUNT).map(|k| shard::left(run(k))).sum()
    };
    let high = head(header::HIGH).min(arena.capacity);
    let allocated = high.saturating_sub(kept(shard::FRESH));
    let queued = head(header::FREE).saturating_sub(head(header::TAKEN));
    let pending = head(header::PENDING).saturating_sub(kept(shard::PENDING));
    let mut unused = queued + kept(shard::RECYCLED) + pending;
    // Cells that lost a race to be the one that is used.
    let mut next = head(header::RETURNED) & 0xffff_ffff;
    while next != 0 && unused <= allocated {
        unused += 1;
        next = word(arena.next + (next - 1) * 8);
    }
    let cells = kind.format().cells_per_allocation();
    Ok((allocated * cells, unused * cells, allocated * arena.cell))
}
