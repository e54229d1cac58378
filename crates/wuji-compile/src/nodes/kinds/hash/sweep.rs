//! Containers with generations, and the cells that a cleared container leaves behind.
//!
//! A cell whose generation its container no longer has belongs to no container: nothing finds it. A sweep, the first step
//! of a collection, deactivates such cells, if containers were cleared since the last one.

use super::records::Records;
use crate::nodes::level::At;
use crate::nodes::words::*;
use crate::nodes::{Service, Services};
use wuji_ir::build::Builder;
use wuji_ir::entities::{Func, Value};
use wuji_ir::layout::header;
use wuji_ir::module::Env;
use wuji_ir::ops::*;

impl Services {
    /// The generation of a container that exists; an empty one gets a new generation.
    pub(super) fn generation(&self, b: &mut Builder, (tree, node): At, container: Value) -> Value {
        let count = self.node(tree, node).header + header::GENERATIONS;
        let seen = load(b, tree, container);
        or_else(b, seen, |b| {
            let one = b.i64(1);
            let before = add_at(b, tree, count, one);
            let new = plus(b, before, 1);
            let zero = b.i64(0);
            let old = exchange(b, tree, container, zero, new);
            let mine = is_zero(b, old);
            b.select(mine, new, old)
        })
    }

    /// Takes the generation from a container.
    pub(super) fn clear_container(&self, b: &mut Builder, (tree, node): At, container: Value) {
        let sweep = self.node(tree, node).header + header::SWEEP;
        let generation = load(b, tree, container);
        let some = not_zero(b, generation);
        when(b, some, |b| {
            let (zero, one) = (b.i64(0), b.i64(1));
            store(b, tree, container, zero);
            // Reading first keeps the cache line shared.
            let seen = load_at(b, tree, sweep);
            let not_yet = is_zero(b, seen);
            when(b, not_yet, |b| store_at(b, tree, sweep, one));
        });
    }

    /// `()`: stores how many cells a sweep visits, none if no container was cleared.
    pub(super) fn sweep_size(&mut self, m: &mut Env, at: At) -> Func {
        let (tree, node) = at;
        let temp = self.temp_offset(m);
        self.function(m, (Service::SweepSize, tree, node), (0, 0), |s, b, _| {
            let sweep = s.node(tree, node).header + header::SWEEP;
            let wanted = load_at(b, tree, sweep);
            let wanted = not_zero(b, wanted);
            let zero = b.i64(0);
            let cells = choose(
                b,
                wanted,
                |b| {
                    store_at(b, tree, sweep, zero);
                    s.ever_taken(b, tree, node)
                },
                |_| zero,
            );
            let temp = b.i64(temp as i64);
            b.push(Op::MemStore(Space::Temps), &[temp, cells]);
            Vec::new()
        })
    }

    /// `(begin, end)`: deactivates the cells with these numbers that belong to no container.
    pub(super) fn sweep(&mut self, m: &mut Env, at: At) -> Func {
        let (tree, node) = at;
        self.function(m, (Service::Sweep, tree, node), (2, 0), |s, b, p| {
            let records = Records::of(s, b.env, at);
            let retire = s.retire(b.env, tree, node);
            let count = b.binary(BinOp::Sub, p[1], p[0]);
            count_to(b, count, |b, k| {
                let number = b.binary(BinOp::Add, p[0], k);
                let record = records.at(b, number);
                let generation = records.generation(b, record);
                let active = not_zero(b, generation);
                when(b, active, |b| {
                    let container = records.container(b, record);
                    let current = load(b, tree, container);
                    let lost = b.compare(CmpOp::Ne, current, generation);
                    when(b, lost, |b| {
                        records.erase(b, record);
                        s.changed(b, tree, node);
                        let coords = records.coordinates(b, record);
                        let shard = s.key_shard(b, at, &coords);
                        let cell = records.cell(b, number);
                        call(b, retire, &[cell, shard]);
                    });
                });
            });
            Vec::new()
        })
    }
}
