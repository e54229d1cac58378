//! Loads near the entry of a list that a loop is at: the blocks around it are found once per entry.
//!
//! The walk to a neighbouring block does not depend on where in its own block an iteration is; only which of
//! two blocks an index falls into does. So both are found behind the entry, and each load chooses.
//! What lies beyond the domain is absent like any other block, and no index is compared with the domain again.

use super::Lower;
use super::walk::{How, Walk};
use crate::analysis::entries::{Near, NearAxis, near};
use crate::analysis::linear::Linear;
use wuji_ir::entities::{Field, Value};
use wuji_ir::layout::NodeKind;
use wuji_ir::ops::*;
use wuji_ir::types::{Scalar, Type};

impl Lower<'_> {
    /// Loads an element near the entry that the loop is at; `None` when that cannot be told.
    ///
    /// Which of two blocks an index falls into may change with every turn of the innermost loop. Then
    /// both are read and the values are chosen, so that the reads go along memory. One of the two lies
    /// outside of its block, but not far, and everything around is memory of the tree.
    pub(super) fn near_load(
        &mut self,
        (op, access, ty): (&Op, &Access, Type),
        index_args: &[Value],
    ) -> Option<Value> {
        let Place::Field(field) = access.place else {
            return None;
        };
        let tree = self.b.module.fields[field].tree;
        if access.dynamic_steps() > 0 || !self.neighbours_wanted || self.changing.contains(&tree) {
            return None;
        }
        let near = near(
            self.b.module,
            &mut self.sums,
            &self.entries,
            field,
            index_args,
        )?;
        let index = self.innermost_index();
        let inner =
            |axis: &NearAxis| axis.two && index.is_some_and(|i| axis.low.coefficient(i) != 0);
        let inner_bits: usize = choice_bits(&near, inner);
        let outer_bits: usize = choice_bits(&near, |a| !inner(a));
        let within = self.path_offset(access, &[]);
        let mut loaded = Vec::new();
        for choice in subsets(inner_bits) {
            let at = self.outer_choice(field, &near, choice, outer_bits)?;
            let at = self.sum(&at, &within, 1);
            let offset = self.materialize(&at);
            loaded.push(self.emit(op, access, ty, offset, &[])?);
        }
        for axis in near.axes.iter().filter(|a| inner(a)) {
            let second = self.in_second(axis);
            loaded = loaded
                .chunks(2)
                .map(|pair| self.b.select(second, pair[1], pair[0]))
                .collect();
        }
        loaded.first().copied()
    }

    /// The index of the loop directly around.
    fn innermost_index(&self) -> Option<Value> {
        let mut region = self.b.region;
        let f = self.sums.func;
        while region.as_u32() < f.regions.len() as u32 {
            let owner = self.sums.structure.owner[region].expand()?;
            if let Op::For(..) = f.insts[owner].op {
                return f.regions[region].params.first().copied();
            }
            region = self.sums.structure.region_of[owner].expand()?;
        }
        None
    }

    /// Whether an index is in the second of two blocks.
    fn in_second(&mut self, axis: &NearAxis) -> Value {
        let low = self.materialize(&axis.low);
        let by = self.b.i64(axis.by as i64);
        self.b.compare(CmpOp::Ge, low, by)
    }

    /// Offset of an element, with the axes of `fixed` in the blocks that its bits say, and those of
    /// `open` wherever they are.
    fn outer_choice(
        &mut self,
        field: Field,
        near: &Near,
        fixed: usize,
        open: usize,
    ) -> Option<Linear> {
        let mut choices = Vec::new();
        for choice in subsets(open) {
            choices.push(self.choice(field, near, fixed | choice)?);
        }
        // What all choices share is added once, behind the choosing.
        let shared = choices[0].1.clone();
        let same = choices.iter().all(|(_, rest)| rest.terms == shared.terms);
        let mut values: Vec<Value> = Vec::new();
        for (base, rest) in &choices {
            let own = if same {
                Linear::constant(rest.constant.wrapping_sub(shared.constant))
            } else {
                rest.clone()
            };
            let sum = self.sum(&Linear::atom(*base), &own, 1);
            values.push(self.materialize(&sum));
        }
        for (k, axis) in near.axes.iter().enumerate() {
            if open >> k & 1 == 1 {
                let second = self.in_second(axis);
                values = values
                    .chunks(2)
                    .map(|pair| self.b.select(second, pair[1], pair[0]))
                    .collect();
            }
        }
        let at = Linear::atom(values[0]);
        Some(if same { self.sum(&at, &shared, 1) } else { at })
    }

    /// One choice of blocks, bit `k` for the second along axis `k`: the offset of the block, and the rest of the way from there.
    fn choice(&mut self, field: Field, near: &Near, choice: usize) -> Option<(Value, Linear)> {
        let data = self.b.module.fields[field].clone();
        let mut rest = vec![Linear::default(); data.axes.len()];
        let mut delta = Vec::new();
        for (k, axis) in near.axes.iter().enumerate() {
            let second = choice >> k & 1 == 1;
            delta.push(axis.first + i64::from(second));
            let start = if second { axis.by as i64 } else { 0 };
            rest[axis.index] = self.sum(&axis.low, &Linear::constant(start), -1);
        }
        let base = self.neighbour(field, near, &delta)?;
        let levels = self.levels(field);
        let first = levels.iter().position(|l| l.node == near.block)? + 1;
        let mut walk = Walk::at(data.tree, Linear::default(), rest);
        for level in &levels[first..] {
            // Bits need not be looked at: what is inactive is zero.
            self.enter(&mut walk, level);
            self.step(&mut walk, level, How::Look);
        }
        let place = self.memory[data.tree].place(field) as i64;
        let at = self.sum(&walk.at, &Linear::constant(place), 1);
        Some((base, at))
    }

    /// Offset of the block so many blocks from that of the entry, found right behind the entry.
    fn neighbour(&mut self, field: Field, near: &Near, delta: &[i64]) -> Option<Value> {
        let key = (near.entry.offset, near.block, delta.to_vec());
        if let Some(known) = self.neighbours.get(&key) {
            return Some(*known);
        }
        let entry = self.b.func.def(near.entry.offset)?;
        let region = self.sums.structure.region_of[entry].expand()?;
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
        let data = self.b.module.fields[field].clone();
        if delta.iter().all(|d| *d == 0) {
            let tree = &self.b.module.trees[data.tree];
            let inner = match tree.nodes[near.entry.node].kind {
                NodeKind::Bitmasked => self.memory[data.tree].node_offset[near.entry.node],
                _ => 0,
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
        let mut rest = vec![Linear::default(); data.axes.len()];
        for (axis, c) in near.axes.iter().zip(coords) {
            let safe = match inside {
                Some(inside) => self.b.select(inside, c, axis.coord),
                None => c,
            };
            rest[axis.index] = self.scale(&Linear::atom(safe), axis.by as i64);
        }
        let levels = self.levels(field);
        let root = self.memory[data.tree].node_offset[levels[0].node];
        let mut walk = Walk::at(data.tree, Linear::constant(root as i64), rest);
        for level in &levels[1..] {
            self.enter(&mut walk, level);
            self.step(&mut walk, level, How::Look);
            if level.node == near.block {
                break;
            }
        }
        let found = self.materialize(&walk.at);
        let absent = self.b.i64(self.memory[data.tree].absent() as i64);
        let found = match inside {
            Some(inside) => self.b.select(inside, found, absent),
            None => found,
        };
        // Loads may look a little beside the block.
        self.b.binary(BinOp::Max, found, absent)
    }
}

/// A bit for each axis with two blocks that is wanted.
fn choice_bits(near: &Near, wanted: impl Fn(&NearAxis) -> bool) -> usize {
    let axes = near.axes.iter().enumerate();
    axes.filter(|(_, a)| a.two && wanted(a))
        .fold(0, |bits, (k, _)| bits | 1 << k)
}

/// All sets of the given bits; the lowest bit changes fastest.
fn subsets(bits: usize) -> Vec<usize> {
    let mut out = vec![0];
    for k in (0..usize::BITS).filter(|k| bits >> k & 1 == 1) {
        let with: Vec<usize> = out.iter().map(|s| s | 1 << k).collect();
        out.extend(with);
    }
    // The lowest bit fastest: neighbours in pairs differ in it.
    out.sort_unstable();
    out
}
