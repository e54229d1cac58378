//! Loads near the list entry of a loop: the neighbouring blocks are found once per entry.
//!
//! The path to a neighbouring block does not depend on the position of an iteration in its own block; only the choice
//! between two or three blocks does. So all of them are found after the entry, and each load selects one.
//! Blocks beyond the domain are absent like any other block, so no index is compared with the domain again.

use super::Lower;
use super::path::{AccessMode, TreePath};
use crate::analysis::affine::Affine;
use crate::analysis::entries::{Near, NearAxis, near};
use wuji_ir::entities::{Field, Value};
use wuji_ir::layout::ListEntry;
use wuji_ir::ops::*;
use wuji_ir::types::{Scalar, Type};

impl Lower<'_> {
    /// Loads an element near the list entry of the loop; `None` when the index is not known to be near.
    ///
    /// Which of two blocks an index falls into may change with every iteration of the innermost loop. Then
    /// both are loaded and one value is selected, so that the loads are contiguous. One of the two is outside of
    /// its block, but close to it, in memory of the tree.
    pub(super) fn near_load(
        &mut self,
        (op, access, ty): (&Op, &Access, Type),
        index_args: &[Value],
    ) -> Option<Value> {
        let Place::Field(field) = access.place else {
            return None;
        };
        let tree = self.b.env.fields[field].tree;
        if access.dynamic_steps() > 0 || !self.neighbours_wanted || self.changing.contains(&tree) {
            return None;
        }
        let near = near(
            self.b.env,
            &mut self.affine,
            &self.visible,
            field,
            index_args,
        )?;
        let index = self.innermost_index();
        let inner = |axis: &NearAxis| {
            axis.count == 2 && index.is_some_and(|i| axis.low.coefficient(i) != 0)
        };
        let within = self.path_offset(access, &[]);
        let mut loaded = Vec::new();
        for fixed in choices(&near, inner) {
            let at = self.outer_choice(field, &near, &fixed, |a| !inner(a))?;
            let at = self.sum(&at, &within, 1);
            let offset = self.materialize(&at);
            loaded.push(self.emit(op, access, ty, offset, &[])?);
        }
        for axis in near.axes.iter().filter(|a| inner(a)) {
            loaded = self.choose(axis, &loaded);
        }
        loaded.first().copied()
    }

    /// The index of the innermost loop around the access.
    fn innermost_index(&self) -> Option<Value> {
        let mut region = self.b.region;
        let f = self.affine.func;
        while region.as_u32() < f.regions.len() as u32 {
            let owner = self.affine.structure.owner[region].expand()?;
            if let Op::For(..) = f.insts[owner].op {
                return f.regions[region].params.first().copied();
            }
            region = self.affine.structure.region_of[owner].expand()?;
        }
        None
    }

    /// Selects along one axis: of every `count` values, the one of the block that contains the index.
    fn choose(&mut self, axis: &NearAxis, values: &[Value]) -> Vec<Value> {
        if axis.count == 1 {
            return values.to_vec();
        }
        let low = self.materialize(&axis.low);
        let mut beyond = Vec::new();
        for k in 1..axis.count {
            let start = self.b.i64(k as i64 * axis.by as i64);
            beyond.push(self.b.compare(CmpOp::Ge, low, start));
        }
        let groups = values.chunks(axis.count);
        groups
            .map(|group| {
                let rest = beyond.iter().zip(&group[1..]);
                rest.fold(group[0], |so_far, (is_beyond, v)| {
                    self.b.select(*is_beyond, *v, so_far)
                })
            })
            .collect()
    }

    /// Offset of an element. Along axes that are `open` the block is selected; along others it is the one in `fixed`.
    fn outer_choice(
        &mut self,
        field: Field,
        near: &Near,
        fixed: &[usize],
        open: impl Fn(&NearAxis) -> bool,
    ) -> Option<Affine> {
        let mut choices_of = Vec::new();
        for choice in choices(near, &open) {
            let both: Vec<usize> = choice.iter().zip(fixed).map(|(a, b)| a + b).collect();
            choices_of.push(self.choice(field, near, &both)?);
        }
        let choices = choices_of;
        // Terms that all choices share are added once, after the selection.
        let shared = choices[0].1.clone();
        let same = choices.iter().all(|(_, rest)| rest.terms == shared.terms);
        let mut values: Vec<Value> = Vec::new();
        for (base, rest) in &choices {
            let own = if same {
                Affine::constant(rest.constant.wrapping_sub(shared.constant))
            } else {
                rest.clone()
            };
            let sum = self.sum(&Affine::atom(*base), &own, 1);
            values.push(self.materialize(&sum));
        }
        for axis in near.axes.iter().filter(|a| open(a)) {
            values = self.choose(axis, &values);
        }
        let at = Affine::atom(values[0]);
        Some(if same { self.sum(&at, &shared, 1) } else { at })
    }

    /// One choice of blocks, a number for each axis: the offset of the block, and the rest of the path from there.
    fn choice(&mut self, field: Field, near: &Near, choice: &[usize]) -> Option<(Value, Affine)> {
        let data = self.b.env.fields[field].clone();
        let mut rest = vec![Affine::default(); data.axes.len()];
        let mut delta = Vec::new();
        for (index, expr) in &near.others {
            rest[*index] = expr.clone();
        }
        for (axis, k) in near.axes.iter().zip(choice) {
            delta.push(axis.first + *k as i64);
            let start = *k as i64 * axis.by as i64;
            rest[axis.index] = self.sum(&axis.low, &Affine::constant(start), -1);
        }
        let base = self.neighbour(field, near, &delta)?;
        let levels = self.levels(field);
        let first = levels.iter().position(|l| l.node == near.block)? + 1;
        let mut path = TreePath::at(data.tree, Affine::default(), rest);
        for level in &levels[first..] {
            // Bits need not be tested: inactive cells are zero.
            self.enter(&mut path, level);
            self.step(&mut path, level, AccessMode::Read);
        }
        let place = self.memory[data.tree].place(field) as i64;
        let at = self.sum(&path.at, &Affine::constant(place), 1);
        Some((base, at))
    }

    /// Offset of the block at a distance from that of the entry, found right after the entry.
    fn neighbour(&mut self, field: Field, near: &Near, delta: &[i64]) -> Option<Value> {
        let key = (near.entry.offset, near.block, delta.to_vec());
        if let Some(known) = self.neighbours.get(&key) {
            return Some(*known);
        }
        let entry = self.b.func.def(near.entry.offset)?;
        let region = self.affine.structure.region_of[entry].expand()?;
        let mut needed = vec![entry];
        for axis in &near.axes {
            needed.push(self.b.func.def(axis.coord)?);
        }
        let insts = &self.b.func.regions[region].insts;
        let mut at = 0;
        for inst in needed {
            at = at.max(insts.iter().position(|i| *i == inst)? + 1);
        }
        let after = self.b.func.regions[region].insts.split_off(at);
        let outer = std::mem::replace(&mut self.b.region, region);
        let value = self.find_neighbour(field, near, delta);
        self.b.region = outer;
        self.b.func.regions[region].insts.extend(after);
        self.neighbours.insert(key, value);
        Some(value)
    }

    fn find_neighbour(&mut self, field: Field, near: &Near, delta: &[i64]) -> Value {
        let data = self.b.env.fields[field].clone();
        if delta.iter().all(|d| *d == 0) {
            let tree = &self.b.env.trees[data.tree];
            let inner = match tree.nodes[near.entry.node].kind.format().list_entry() {
                ListEntry::MaskWord => self.memory[data.tree].node_offset[near.entry.node],
                ListEntry::Cell | ListEntry::Chunk { .. } => 0,
            };
            let back = self.b.i64(-(inner as i64));
            return self.b.binary(BinOp::Add, near.entry.offset, back);
        }
        let mut inside: Option<Value> = None;
        let mut coords = Vec::new();
        for (axis, d) in near.axes.iter().zip(delta) {
            let d = self.b.i64(*d);
            let mut c = self.b.binary(BinOp::Add, axis.coord, d);
            if axis.wraps {
                let mask = self.b.i64(axis.blocks as i64 - 1);
                c = self.b.binary(BinOp::And, c, mask);
            } else {
                let bits = self.b.value(Op::Bitcast(Scalar::U64), &[c]);
                let blocks = self.b.int(Scalar::U64, axis.blocks.into());
                let ok = self.b.compare(CmpOp::Lt, bits, blocks);
                inside = Some(match inside {
                    Some(all) => self.b.binary(BinOp::And, all, ok),
                    None => ok,
                });
            }
            coords.push(c);
        }
        let mut rest = vec![Affine::default(); data.axes.len()];
        for (axis, c) in near.axes.iter().zip(coords) {
            let safe = match inside {
                Some(inside) => self.b.select(inside, c, axis.coord),
                None => c,
            };
            rest[axis.index] = self.scale(&Affine::atom(safe), axis.by as i64);
        }
        let levels = self.levels(field);
        let root = self.memory[data.tree].node_offset[levels[0].node];
        let mut path = TreePath::at(data.tree, Affine::constant(root as i64), rest);
        for level in &levels[1..] {
            self.enter(&mut path, level);
            self.step(&mut path, level, AccessMode::Read);
            if level.node == near.block {
                break;
            }
        }
        let found = self.materialize(&path.at);
        let absent = self.b.i64(self.memory[data.tree].absent() as i64);
        let found = match inside {
            Some(inside) => self.b.select(inside, found, absent),
            None => found,
        };
        // Loads may read a little outside of the block.
        self.b.binary(BinOp::Max, found, absent)
    }
}

/// All choices of blocks along the wanted axes, with the first block along all others. The first axis changes
/// fastest.
fn choices(near: &Near, wanted: impl Fn(&NearAxis) -> bool) -> Vec<Vec<usize>> {
    let mut out = vec![vec![0; near.axes.len()]];
    for (k, axis) in near.axes.iter().enumerate() {
        if !wanted(axis) {
            continue;
        }
        let so_far = out.clone();
        for n in 1..axis.count {
            out.extend(so_far.iter().cloned().map(|mut choice| {
                choice[k] = n;
                choice
            }));
        }
    }
    out
}
