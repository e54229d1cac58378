//! Upkeep of sparse trees by a launch: the memory limit, and lists of active cells, which are regenerated only after
//! cells were activated or deactivated.

use crate::memory::Memory;
use wuji_ir::entities::Node;
use wuji_ir::layout::{TreeData, TreeMemory, header, tree_header};

/// Offsets of the words of a tree that the host reads.
#[derive(Clone, Debug)]
pub(crate) struct SparsePlan {
    tree_header: u64,
    /// Headers of all sparse nodes.
    headers: Vec<u64>,
}

impl SparsePlan {
    /// `None` for a tree without sparse nodes.
    pub(crate) fn of(tree: &TreeData, memory: &TreeMemory) -> Option<SparsePlan> {
        Some(SparsePlan {
            tree_header: memory.tree_header(tree)?,
            headers: memory.nodes.values().flatten().map(|n| n.header).collect(),
        })
    }

    /// Allows the tree to allocate this many more bytes.
    pub(crate) fn allow(&self, memory: &Memory, more: u64) {
        let used = memory.word(self.tree_header + tree_header::USED);
        let limit = used.saturating_add(more).min(i64::MAX as u64);
        memory.set_word(self.tree_header + tree_header::LIMIT, limit);
    }

    /// Bytes of cells that were ever allocated.
    pub(crate) fn used(&self, memory: &Memory) -> u64 {
        memory.word(self.tree_header + tree_header::USED)
    }

    /// Counts the changes of the tasks so far.
    fn count_changes(&self, memory: &Memory) {
        for at in &self.headers {
            if memory.word(at + header::CHANGED) != 0 {
                memory.set_word(at + header::CHANGED, 0);
                let version = memory.word(at + header::VERSION);
                memory.set_word(at + header::VERSION, version.wrapping_add(1));
            }
        }
    }
}

/// The list that a task generates.
#[derive(Clone, Debug)]
pub(crate) struct ListPlan {
    pub(crate) tree: usize,
    sparse: SparsePlan,
    /// Headers of the sparse nodes on the path to the node, itself last.
    path: Vec<u64>,
    /// Of a hash node: the offset of its list, and the words per entry.
    hashed: Option<(u64, u64)>,
}

impl ListPlan {
    pub(crate) fn of(
        number: usize,
        tree: &TreeData,
        memory: &TreeMemory,
        node: Node,
    ) -> Option<ListPlan> {
        let path = tree.sparse_path(node);
        let list = &memory.node(node)?.list;
        let hash = tree.nodes[node].kind.is_hashed();
        Some(ListPlan {
            hashed: hash.then_some((list.entries, list.words)),
            tree: number,
            sparse: SparsePlan::of(tree, memory)?,
            path: path
                .iter()
                .filter_map(|n| Some(memory.node(*n)?.header))
                .collect(),
        })
    }

    fn own(&self) -> u64 {
        self.path.last().copied().unwrap_or(0)
    }

    /// The stamp of the regenerated list; `None` if the list is up to date.
    pub(crate) fn begin(&self, memory: &Memory) -> Option<u64> {
        self.sparse.count_changes(memory);
        let versions = self.path.iter().map(|h| memory.word(h + header::VERSION));
        let stamp = versions.fold(1u64, u64::wrapping_add);
        if memory.word(self.own() + header::STAMP) == stamp {
            return None;
        }
        memory.set_word(self.own() + header::LISTED, 0);
        memory.set_word(self.own() + header::STAMP, 0);
        Some(stamp)
    }

    /// Sorts the list of a hash node by coordinates; its entries are in allocation order. Lists of other nodes that one
    /// thread has generated are in tree order.
    pub(crate) fn sort(&self, memory: &Memory) {
        let Some((start, words)) = self.hashed else {
            return;
        };
        let count = memory.word(self.own() + header::LISTED);
        let mut entries: Vec<Vec<u64>> = (0..count)
            .map(|n| {
                let at = start + n * words * 8;
                (0..words).map(|w| memory.word(at + w * 8)).collect()
            })
            .collect();
        // The coordinates are signed, and follow offset, count and number.
        entries.sort_by_key(|e| e[3..].iter().map(|c| *c as i64).collect::<Vec<_>>());
        for (n, entry) in entries.iter().enumerate() {
            for (w, word) in entry.iter().enumerate() {
                memory.set_word(start + (n as u64 * words + w as u64) * 8, *word);
            }
        }
    }

    pub(crate) fn finish(&self, memory: &Memory, stamp: u64) {
        memory.set_word(self.own() + header::STAMP, stamp);
    }
}
