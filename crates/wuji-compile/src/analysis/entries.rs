//! Entries of lists that the code of a function is at.

use rustc_hash::FxHashMap;
use wuji_ir::entities::{Node, Tree, Value};
use wuji_ir::module::Function;
use wuji_ir::ops::{BinOp, Op, WalkOp};

/// An entry of the list of a node's active cells.
#[derive(Clone, Debug)]
pub struct Entry {
    pub tree: Tree,
    pub node: Node,
    pub offset: Value,
    /// One per axis on the way to the node: the value that indices are made of, after it was clamped.
    /// `None` when nobody uses it.
    pub coords: Vec<Option<Value>>,
}

/// All entries that a function reads.
pub fn entries(f: &Function) -> Vec<Entry> {
    let mut found = Vec::new();
    // `loops` clamps coordinates: `max(min(coordinate, last), 0)`.
    let mut least: FxHashMap<Value, Value> = FxHashMap::default();
    let mut most: FxHashMap<Value, Value> = FxHashMap::default();
    f.walk(|inst| {
        let data = &f.insts[inst];
        match data.op {
            Op::Walk(WalkOp::Entry, tree, node) => found.push((tree, node, inst)),
            Op::Binary(BinOp::Min) => {
                least.entry(data.args[0]).or_insert(data.results[0]);
            }
            Op::Binary(BinOp::Max) => {
                most.entry(data.args[0]).or_insert(data.results[0]);
            }
            _ => {}
        }
    });
    found
        .into_iter()
        .map(|(tree, node, inst)| {
            let results = &f.insts[inst].results;
            let coords = results[3..]
                .iter()
                .map(|c| least.get(c).and_then(|v| most.get(v)).copied());
            Entry {
                tree,
                node,
                offset: results[0],
                coords: coords.collect(),
            }
        })
        .collect()
}
