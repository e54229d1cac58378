//! Lists of the active cells of a node, made layer by layer: from the list of the sparse node above it,
//! through the dense nodes between.
//!
//! An entry is an offset and what is active there:
//!
//! | node | offset | second word | coordinates |
//! |---|---|---|---|
//! | pointer, hash | of the cell | 1 | of the cell |
//! | bitmasked | of the container | 64 bits of the mask | of the container |
//! | dynamic | of a chunk | cells in it | of the container; number of the chunk |
//!
//! The third word is the number of the first cell in its container. A unit of work looks at a fixed number of
//! pointers or words, counts, takes as many entries at once, and fills them; so a tree with all its
//! cells in one place is shared out as evenly as any other.

use super::words::*;
use super::{Services, UPKEEP};
use crate::options::Target;
use smallvec::SmallVec;
use wuji_ir::Result;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Node, Temp, Tree, Value};
use wuji_ir::layout::{CellOrder, Dynamic, NodeData, NodeKind, TreeData, header};
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{I64, Scalar, Type};

/// Pointers, or words of masks, that one unit of work looks at, on a CPU and on a GPU.
const BLOCK: u64 = 1024;
const GPU_BLOCK: u64 = 8;
/// Slots whose being filled or empty is looked at together.
const GROUP: u64 = 64;

/// How lists are made.
#[derive(Copy, Clone, Debug)]
pub struct How {
    /// Only when cells have come or gone; else every time.
    pub reuse: bool,
    pub target: Target,
}

/// Tasks that bring the lists of all sparse nodes down to `node` up to date.
///
/// On a CPU the host looks whether they are. On a GPU it would have to wait for what it looks at, so a task of its own
/// does it, and leaves in a temp for each list whether there is anything to do.
pub fn tasks(m: &mut Module, tree: Tree, node: Node, like: &Task, how: How) -> Result<Vec<Task>> {
    let path = m.trees[tree].sparse_path(node);
    let mut out = Vec::new();
    for n in &path {
        if !how.reuse {
            out.push(outdate(m, tree, *n, like)?);
        }
    }
    let wanted = match how.target {
        Target::Cpu => vec![None; path.len()],
        Target::Cuda => {
            let mut new = || m.temps.push(TempData { ty: I64 });
            let temps: Vec<Temp> = path.iter().map(|_| new()).collect();
            out.push(stamps(m, tree, &path, &temps, like)?);
            temps.into_iter().map(Some).collect()
        }
    };
    let mut above = None;
    for (n, wanted) in path.into_iter().zip(wanted) {
        out.extend(list_task(m, tree, n, above, wanted, like)?);
        above = Some(n);
    }
    Ok(out)
}

/// A task of one thread that looks after trees.
fn alone(m: &mut Module, name: String, like: &Task, fill: impl FnOnce(&mut Builder)) -> Task {
    let types: Vec<Type> = m.params.iter().map(|p| p.ty).collect();
    let mut f = Function::new(name.clone(), &types, &[]);
    let mut b = Builder::new(m, &mut f);
    fill(&mut b);
    b.end(Term::Return(Values::new()));
    Task {
        name,
        kind: TaskKind::Serial,
        func: m.add_func(f),
        ordinal: UPKEEP,
        lists: None,
        copies: Copies::None,
        span: like.span,
    }
}

/// Counts what has changed, and leaves 1 in the temps of lists that are out of date, else 0. Such a list is empty, and
/// has the stamp of what it will be.
fn stamps(m: &mut Module, tree: Tree, path: &[Node], temps: &[Temp], like: &Task) -> Result<Task> {
    let s = Services::new(m, Target::Cuda)?;
    let name = format!("{}.stamps.{tree}", m.name);
    let headers: Vec<u64> = s.memory[tree]
        .nodes
        .values()
        .flatten()
        .map(|n| n.header)
        .collect();
    Ok(alone(m, name, like, |b| {
        let (zero, one) = (b.i64(0), b.i64(1));
        for at in headers {
            let changed = load_at(b, tree, at + header::CHANGED);
            let changed = not_zero(b, changed);
            when(b, changed, |b| {
                store_at(b, tree, at + header::CHANGED, zero);
                let version = load_at(b, tree, at + header::VERSION);
                let next = plus(b, version, 1);
                store_at(b, tree, at + header::VERSION, next);
            });
        }
        let mut stamp = one;
        for (node, temp) in path.iter().zip(temps) {
            let own = s.node(tree, *node).header;
            let version = load_at(b, tree, own + header::VERSION);
            stamp = b.binary(BinOp::Add, stamp, version);
            let last = load_at(b, tree, own + header::STAMP);
            let old = b.compare(CmpOp::Ne, last, stamp);
            when(b, old, |b| {
                store_at(b, tree, own + header::LISTED, zero);
                store_at(b, tree, own + header::STAMP, stamp);
            });
            let wanted = b.select(old, one, zero);
            b.store(Place::Temp(*temp), &[], wanted);
        }
    }))
}

/// Makes a list seem out of date.
fn outdate(m: &mut Module, tree: Tree, node: Node, like: &Task) -> Result<Task> {
    let at = Services::new(m, Target::Cpu)?.node(tree, node).header + header::CHANGED;
    let name = format!("{}.outdate.{tree}.{node}", m.name);
    Ok(alone(m, name, like, |b| {
        let one = b.i64(1);
        store_at(b, tree, at, one);
    }))
}

fn list_task(
    m: &mut Module,
    tree: Tree,
    node: Node,
    above: Option<Node>,
    wanted: Option<Temp>,
    like: &Task,
) -> Result<Vec<Task>> {
    let (target, block) = match wanted {
        None => (Target::Cpu, BLOCK),
        Some(_) => (Target::Cuda, GPU_BLOCK),
    };
    let services = Services::new(m, target)?;
    let mut types: Vec<Type> = m.params.iter().map(|p| p.ty).collect();
    let params = types.len();
    let name = format!("{}.list.{tree}.{node}", m.name);
    let mut out = Vec::new();
    let maker = Maker {
        s: services,
        tree,
        node,
        above,
        block,
    };
    let mut dims = Vec::new();
    if let Some(wanted) = wanted {
        dims.push(RangeDim {
            lo: Bound::Const(0),
            hi: Bound::Temp(wanted),
        });
    }
    if m.trees[tree].nodes[node].kind == NodeKind::Hash {
        // How many cells there have been is known only now.
        let temp = m.temps.push(TempData { ty: I64 });
        out.push(alone(m, format!("{name}.size"), like, |b| {
            let cells = maker.s.ever_taken(b, tree, node);
            let cells = plus(b, cells, block as i64 - 1);
            let (blocks, _) = divide(b, cells, block);
            b.store(Place::Temp(temp), &[], blocks);
        }));
        dims.push(RangeDim {
            lo: Bound::Const(0),
            hi: Bound::Temp(temp),
        });
    } else {
        let blocks = maker.slots(&m.trees[tree]).div_ceil(block);
        if let Some(above) = above {
            dims.push(RangeDim {
                lo: Bound::Const(0),
                hi: Bound::List(tree, above),
            });
        }
        dims.push(RangeDim {
            lo: Bound::Const(0),
            hi: Bound::Const(blocks as i64),
        });
    }
    types.extend([I64, I64]);
    let mut f = Function::new(name.clone(), &types, &[]);
    let range = f.params()[params..].to_vec();
    let mut b = Builder::new(m, &mut f);
    let one = b.i64(1);
    b.for_range(
        ForKind::Boundary,
        (range[0], range[1], one),
        &[],
        |b, _, unit, _| {
            let zero = b.i64(0);
            let count = maker.scan(b, unit, zero, Visit::Count);
            let listed = maker.s.node(tree, node).header + header::LISTED;
            let at = add_at(b, tree, listed, count);
            let some = not_zero(b, count);
            when(b, some, |b| {
                maker.scan(b, unit, at, Visit::Write);
            });
            Values::new()
        },
    );
    b.end(Term::Return(Values::new()));
    out.push(Task {
        name,
        kind: TaskKind::Chunks {
            dims,
            unit: block,
            hints: LoopHints::default(),
        },
        func: m.add_func(f),
        ordinal: UPKEEP,
        lists: wanted.is_none().then_some((tree, node)),
        copies: Copies::None,
        span: like.span,
    });
    Ok(out)
}

/// What an entry says.
struct Entry<'a> {
    offset: Value,
    /// Mask or count.
    extra: Value,
    first: Value,
    /// One per axis on the way to the node, in the order of the axes.
    coords: &'a [Value],
}

/// What is done with the entries of a unit. A number goes from one to the next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Visit {
    /// The number is how many there were so far.
    Count,
    /// The number is where in the list the next one goes.
    Write,
}

struct Maker {
    s: Services,
    tree: Tree,
    node: Node,
    above: Option<Node>,
    /// Pointers or words that a unit looks at.
    block: u64,
}

impl Maker {
    /// The dense nodes between the sparse node above and this one.
    fn between(&self, tree: &TreeData) -> Vec<Node> {
        let path = tree.path(self.node);
        let start = match self.above {
            Some(above) => path.iter().position(|n| *n == above).map_or(0, |k| k + 1),
            None => 1,
        };
        path[start..path.len() - 1].to_vec()
    }

    /// Pointers or words that are looked at below one cell of the node above.
    fn slots(&self, tree: &TreeData) -> u64 {
        let dense = self.between(tree);
        let dense = dense
            .iter()
            .fold(1u64, |n, d| n.saturating_mul(tree.nodes[*d].cells()));
        dense.saturating_mul(self.own_slots(tree))
    }

    fn own_slots(&self, tree: &TreeData) -> u64 {
        let data = &tree.nodes[self.node];
        match data.kind {
            NodeKind::Bitmasked => data.cells().div_ceil(64),
            NodeKind::Dynamic { .. } => 1,
            NodeKind::Root | NodeKind::Dense | NodeKind::Pointer | NodeKind::Hash => data.cells(),
        }
    }

    /// Visits the entries of one unit, handing a number on from one to the next.
    fn scan(&self, b: &mut Builder, unit: Value, start: Value, visit: Visit) -> Value {
        let tree = b.env.trees[self.tree].clone();
        if tree.nodes[self.node].kind == NodeKind::Hash {
            return self.scan_table(b, unit, start, visit);
        }
        let blocks = self.slots(&tree).div_ceil(self.block);
        let Some(above) = self.above else {
            let root = self.s.memory[self.tree].node_offset[tree.root()];
            let root = b.i64(root as i64);
            return self.scan_cell(b, &tree, root, &[], unit, start, visit);
        };
        let (entry, block) = divide(b, unit, blocks);
        let words = self.s.entry(b, self.tree, above, entry);
        let (offset, extra, first) = (words[0], words[1], words[2]);
        let coords = words[3..].to_vec();
        let data = &tree.nodes[above];
        let cell = self.s.memory[self.tree].cell_size[above];
        let axes = tree.axes(above);
        match data.kind {
            NodeKind::Root | NodeKind::Dense | NodeKind::Pointer | NodeKind::Hash => {
                self.scan_cell(b, &tree, offset, &coords, block, start, visit)
            }
            NodeKind::Dynamic { .. } => fold_to(b, extra, start, |b, k, acc| {
                let bytes = times(b, k, cell as i64);
                let at = b.binary(BinOp::Add, offset, bytes);
                let number = b.binary(BinOp::Add, first, k);
                let coords: Vec<Value> = axes
                    .iter()
                    .zip(&coords)
                    .map(|(a, c)| if data.extents[0].0 == *a { number } else { *c })
                    .collect();
                self.scan_cell(b, &tree, at, &coords, block, acc, visit)
            }),
            NodeKind::Bitmasked => {
                let all = b.i64(64);
                fold_to(b, all, start, |b, k, acc| {
                    let shifted = b.binary(BinOp::Shr, extra, k);
                    let one = b.i64(1);
                    let bit = b.binary(BinOp::And, shifted, one);
                    let set = not_zero(b, bit);
                    choose(
                        b,
                        set,
                        |b| {
                            let number = b.binary(BinOp::Add, first, k);
                            let bytes = times(b, number, cell as i64);
                            let at = b.binary(BinOp::Add, offset, bytes);
                            let skip = self.s.memory[self.tree].first_cell[above];
                            let at = plus(b, at, skip as i64);
                            let mut coords = coords.clone();
                            descend(b, data, &axes, number, &mut coords);
                            self.scan_cell(b, &tree, at, &coords, block, acc, visit)
                        },
                        |_| acc,
                    )
                })
            }
        }
    }

    /// One block of the slots below a cell of the node above.
    #[allow(clippy::too_many_arguments)]
    fn scan_cell(
        &self,
        b: &mut Builder,
        tree: &TreeData,
        cell: Value,
        above_coords: &[Value],
        block: Value,
        start: Value,
        visit: Visit,
    ) -> Value {
        let (total, own) = (self.slots(tree), self.own_slots(tree));
        if self.in_groups(tree) {
            return self.scan_groups(b, tree, (cell, above_coords), block, start, visit);
        }
        let first = times(b, block, self.block as i64);
        let total = b.i64(total as i64);
        let left = b.binary(BinOp::Sub, total, first);
        let most = b.i64(self.block as i64);
        let count = b.binary(BinOp::Min, left, most);
        fold_to(b, count, start, |b, k, acc| {
            let slot = b.binary(BinOp::Add, first, k);
            let (dense, slot) = divide(b, slot, own);
            let (container, coords) = self.container(b, tree, cell, above_coords, dense);
            self.scan_slot(b, tree, container, &coords, slot, acc, visit)
        })
    }

    /// Whether slots can be looked at in groups of 64 that do not reach into another container.
    fn in_groups(&self, tree: &TreeData) -> bool {
        let own = self.own_slots(tree);
        match tree.nodes[self.node].kind {
            NodeKind::Pointer | NodeKind::Bitmasked => {
                self.block.is_multiple_of(GROUP)
                    && (own.is_multiple_of(GROUP) || own == self.slots(tree))
            }
            NodeKind::Root | NodeKind::Dense | NodeKind::Hash | NodeKind::Dynamic { .. } => false,
        }
    }

    /// As `scan_cell`, with a group of slots at a time: those that are not empty become bits of a number, which takes no
    /// branches and runs in vectors; then there is a step for each bit.
    fn scan_groups(
        &self,
        b: &mut Builder,
        tree: &TreeData,
        (cell, above_coords): (Value, &[Value]),
        block: Value,
        start: Value,
        visit: Visit,
    ) -> Value {
        let (total, own) = (self.slots(tree), self.own_slots(tree));
        let first = times(b, block, self.block as i64);
        let groups = if total.is_multiple_of(self.block) {
            b.i64((self.block / GROUP) as i64)
        } else {
            let last = b.i64(total.div_ceil(GROUP) as i64);
            let before = times(b, block, (self.block / GROUP) as i64);
            let left = b.binary(BinOp::Sub, last, before);
            let most = b.i64((self.block / GROUP) as i64);
            b.binary(BinOp::Min, left, most)
        };
        fold_to(b, groups, start, |b, group, acc| {
            let before = times(b, group, GROUP as i64);
            let joint = b.binary(BinOp::Add, first, before);
            let (dense, slot) = divide(b, joint, own);
            let (container, coords) = self.container(b, tree, cell, above_coords, dense);
            let most = b.i64(GROUP as i64);
            let count = if total.is_multiple_of(GROUP) {
                most
            } else {
                let total = b.i64(total as i64);
                let left = b.binary(BinOp::Sub, total, joint);
                b.binary(BinOp::Min, left, most)
            };
            let words = word_at(b, container, slot);
            let zero = b.i64(0);
            let filled = fold_to(b, count, zero, |b, k, filled| {
                let at = word_at(b, words, k);
                // Nobody else is at work while lists are made, so several words may be looked at together.
                let found = b.value(Op::MemLoad(Space::Bytes(self.tree), I64), &[at]);
                let there = not_zero(b, found);
                let bit = b.convert(there, Scalar::I64);
                match visit {
                    Visit::Count => b.binary(BinOp::Add, filled, bit),
                    Visit::Write => {
                        let bit = b.binary(BinOp::Shl, bit, k);
                        b.binary(BinOp::Or, filled, bit)
                    }
                }
            });
            match visit {
                Visit::Count => b.binary(BinOp::Add, acc, filled),
                Visit::Write => each_bit(b, filled, acc, |b, bit, acc| {
                    let slot = b.binary(BinOp::Add, slot, bit);
                    let at = word_at(b, container, slot);
                    let found = load(b, self.tree, at);
                    self.visit_word(b, tree, (container, &coords), slot, found, acc, visit)
                }),
            }
        })
    }

    /// From a cell of the node above, through the dense cell with the given joint number, to where this
    /// node starts; and the coordinates of that, one per axis on the way to this node.
    fn container(
        &self,
        b: &mut Builder,
        tree: &TreeData,
        cell: Value,
        above_coords: &[Value],
        dense: Value,
    ) -> (Value, Vec<Value>) {
        let memory = &self.s.memory[self.tree];
        let axes = tree.axes(self.node);
        let above_axes = match self.above {
            Some(above) => tree.axes(above),
            None => Vec::new(),
        };
        let zero = b.i64(0);
        let mut coords: Vec<Value> = axes
            .iter()
            .map(|a| {
                let at = above_axes.iter().position(|x| x == a);
                at.map_or(zero, |k| above_coords[k])
            })
            .collect();
        let between = self.between(tree);
        let mut offset = cell;
        let mut rest = dense;
        for (k, node) in between.iter().enumerate() {
            let below: u64 = between[k + 1..]
                .iter()
                .map(|n| tree.nodes[*n].cells())
                .product();
            let (number, low) = divide(b, rest, below);
            rest = low;
            offset = plus(b, offset, memory.node_offset[*node] as i64);
            let bytes = times(b, number, memory.cell_size[*node] as i64);
            offset = b.binary(BinOp::Add, offset, bytes);
            descend(b, &tree.nodes[*node], &axes, number, &mut coords);
        }
        (
            plus(b, offset, memory.node_offset[self.node] as i64),
            coords,
        )
    }

    #[allow(clippy::too_many_arguments)]
    fn scan_slot(
        &self,
        b: &mut Builder,
        tree: &TreeData,
        container: Value,
        coords: &[Value],
        slot: Value,
        acc: Value,
        visit: Visit,
    ) -> Value {
        let data = &tree.nodes[self.node];
        match data.kind {
            NodeKind::Root | NodeKind::Dense | NodeKind::Hash => acc,
            NodeKind::Pointer | NodeKind::Bitmasked => {
                let at = word_at(b, container, slot);
                let found = load(b, self.tree, at);
                let there = not_zero(b, found);
                choose(
                    b,
                    there,
                    |b| self.visit_word(b, tree, (container, coords), slot, found, acc, visit),
                    |_| acc,
                )
            }
            NodeKind::Dynamic(Dynamic { chunk }) => {
                let most = b.i64(data.cells() as i64);
                let length = load(b, self.tree, container);
                let length = b.binary(BinOp::Min, length, most);
                let chunk = i64::from(chunk);
                let axes = tree.axes(self.node);
                let up = plus(b, length, chunk - 1);
                let (chunks, _) = divide(b, up, chunk as u64);
                fold_to(b, chunks, acc, |b, k, acc| {
                    let at = word_at(b, container, k);
                    let at = plus(b, at, 8);
                    let found = load(b, self.tree, at);
                    let there = not_zero(b, found);
                    choose(
                        b,
                        there,
                        |b| {
                            let first = times(b, k, chunk);
                            let left = b.binary(BinOp::Sub, length, first);
                            let all = b.i64(chunk);
                            let extra = b.binary(BinOp::Min, left, all);
                            let coords: Vec<Value> = axes
                                .iter()
                                .zip(coords)
                                .map(|(a, c)| if data.extents[0].0 == *a { k } else { *c })
                                .collect();
                            let entry = Entry {
                                offset: found,
                                extra,
                                first,
                                coords: &coords,
                            };
                            self.visit(b, visit, entry, acc)
                        },
                        |_| acc,
                    )
                })
            }
        }
    }

    /// The entry of a pointer that leads somewhere, or of a word of a mask that is not zero.
    #[allow(clippy::too_many_arguments)]
    fn visit_word(
        &self,
        b: &mut Builder,
        tree: &TreeData,
        (container, coords): (Value, &[Value]),
        slot: Value,
        found: Value,
        acc: Value,
        visit: Visit,
    ) -> Value {
        let data = &tree.nodes[self.node];
        let mut coords = coords.to_vec();
        let entry = if data.kind == NodeKind::Pointer {
            descend(b, data, &tree.axes(self.node), slot, &mut coords);
            Entry {
                offset: found,
                extra: b.i64(1),
                first: slot,
                coords: &coords,
            }
        } else {
            Entry {
                offset: container,
                extra: found,
                first: times(b, slot, 64),
                coords: &coords,
            }
        };
        self.visit(b, visit, entry, acc)
    }

    /// One block of the cells of a hash node.
    fn scan_table(&self, b: &mut Builder, unit: Value, start: Value, visit: Visit) -> Value {
        let arena = self.s.arena(self.tree, self.node);
        let data = b.env.trees[self.tree].nodes[self.node].clone();
        let axes = b.env.trees[self.tree].axes(self.node);
        let cells = self.s.ever_taken(b, self.tree, self.node);
        let first = times(b, unit, self.block as i64);
        let left = b.binary(BinOp::Sub, cells, first);
        let most = b.i64(self.block as i64);
        let count = b.binary(BinOp::Min, left, most);
        fold_to(b, count, start, |b, k, acc| {
            let number = b.binary(BinOp::Add, first, k);
            let record = Services::record(b, &arena, number, data.extents.len());
            let alive = load(b, self.tree, record);
            let alive = not_zero(b, alive);
            choose(
                b,
                alive,
                |b| {
                    let coords: Vec<Value> = axes
                        .iter()
                        .map(|a| {
                            let k = data.extents.iter().position(|e| e.0 == *a).unwrap_or(0);
                            let at = plus(b, record, 8 * (k as i64 + 1));
                            load(b, self.tree, at)
                        })
                        .collect();
                    let bytes = times(b, number, arena.cell as i64);
                    let entry = Entry {
                        offset: plus(b, bytes, arena.data as i64),
                        extra: b.i64(1),
                        first: b.i64(0),
                        coords: &coords,
                    };
                    self.visit(b, visit, entry, acc)
                },
                |_| acc,
            )
        })
    }

    fn visit(&self, b: &mut Builder, visit: Visit, entry: Entry<'_>, acc: Value) -> Value {
        if visit == Visit::Write {
            self.write(b, acc, entry);
        }
        plus(b, acc, 1)
    }

    fn write(&self, b: &mut Builder, number: Value, entry: Entry<'_>) {
        let list = &self.s.node(self.tree, self.node).list;
        let words = times(b, number, list.words as i64);
        let at = word(b, list.entries, words);
        let all = [entry.offset, entry.extra, entry.first];
        for (k, v) in all.iter().chain(entry.coords).enumerate() {
            let at = plus(b, at, 8 * k as i64);
            store(b, self.tree, at, *v);
        }
    }
}

impl Services {
    /// The words of an entry of a node's list.
    pub(super) fn entry(&self, b: &mut Builder, tree: Tree, node: Node, number: Value) -> Values {
        let list = &self.node(tree, node).list;
        let words = times(b, number, list.words as i64);
        let at = word(b, list.entries, words);
        (0..list.words)
            .map(|k| {
                let at = plus(b, at, 8 * k as i64);
                load(b, tree, at)
            })
            .collect()
    }
}

/// Coordinates of a container become those of one of its cells.
fn descend(
    b: &mut Builder,
    data: &NodeData,
    axes: &[wuji_ir::layout::Axis],
    number: Value,
    coords: &mut [Value],
) {
    let digits = digits(b, data, number);
    for ((axis, extent), digit) in data.extents.iter().zip(digits) {
        if let Some(k) = axes.iter().position(|a| a == axis) {
            let start = times(b, coords[k], *extent as i64);
            coords[k] = b.binary(BinOp::Add, start, digit);
        }
    }
}

/// The coordinates of a cell in its container, in the order of the node's axes, from its number.
pub fn digits(b: &mut Builder, data: &NodeData, number: Value) -> SmallVec<[Value; 3]> {
    match data.order {
        CellOrder::RowMajor => {
            let mut rest = number;
            let mut out: SmallVec<[Value; 3]> = SmallVec::new();
            for (k, (_, extent)) in data.extents.iter().enumerate().rev() {
                if k == 0 {
                    out.push(rest);
                } else {
                    let (high, low) = divide(b, rest, *extent);
                    out.push(low);
                    rest = high;
                }
            }
            out.reverse();
            out
        }
        CellOrder::Morton => {
            let zero = b.i64(0);
            let mut out: SmallVec<[Value; 3]> = data.extents.iter().map(|_| zero).collect();
            for (at, (axis, bit)) in morton_bits(data).into_iter().enumerate() {
                let shift = b.i64(at as i64);
                let one = b.i64(1);
                let x = b.binary(BinOp::Shr, number, shift);
                let x = b.binary(BinOp::And, x, one);
                let to = b.i64(bit);
                let x = b.binary(BinOp::Shl, x, to);
                out[axis] = b.binary(BinOp::Or, out[axis], x);
            }
            out
        }
    }
}

/// Which bit of which axis is bit 0, 1, ... of a number along a Z-curve.
pub fn morton_bits(data: &NodeData) -> Vec<(usize, i64)> {
    let mut out = Vec::new();
    for bit in 0..63 {
        for (axis, (_, extent)) in data.extents.iter().enumerate().rev() {
            if 1u64 << bit < *extent {
                out.push((axis, bit as i64));
            }
        }
    }
    out
}
