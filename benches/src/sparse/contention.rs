//! Contention of threads that activate cells and append to lists concurrently: nanoseconds per operation, from 1 to 8
//! threads.

use wuji::prelude::*;

use crate::measure::{Clock, Row, median};
use crate::study::{Bench, Study};

pub struct Contention;

/// Operations of one launch.
const COUNT: i32 = 1 << 20;
/// Cells, when each thread uses different ones.
const CELLS: i64 = 1 << 20;
/// Lists, when each thread uses different ones.
const LISTS: i64 = 1 << 8;

#[kernel]
fn activate_same(count: i32, x: &Field<i32, 1>) {
    for i in 0..count {
        // All threads access the same few cells at the same time.
        x.activate([i & 15]);
    }
}

#[kernel]
fn activate_different(count: i32, x: &Field<i32, 1>) {
    for i in 0..count {
        x.activate([i]);
    }
}

#[kernel]
fn append_same(count: i32, x: &Field<i32, 1>) {
    for i in 0..count {
        x.append((), i);
    }
}

#[kernel]
fn append_different(count: i32, x: &Field<i32, 2>) {
    for i in 0..count {
        x.append([i / 4096], i);
    }
}

impl Contention {
    /// Nanoseconds per operation: times `run`, but not `reset`.
    fn nanoseconds(
        bench: &Bench,
        reset: impl Fn() -> wuji::Result<()>,
        run: impl Fn() -> wuji::Result<()>,
        check: impl Fn() -> wuji::Result<bool>,
    ) -> Result<f64, String> {
        let text = |e: wuji::Error| e.to_string();
        // Compile and allocate first.
        run().map_err(text)?;
        let mut times = Vec::new();
        for _ in 0..bench.pairs.min(7) {
            reset().map_err(text)?;
            // Always wall time: a thread that waits for a lock uses no CPU time.
            let start = Clock::Wall.now();
            run().map_err(text)?;
            times.push((Clock::Wall.now() - start) / COUNT as f64 * 1e9);
            if !check().map_err(text)? {
                return Err("contention: cells or elements are missing".into());
            }
        }
        Ok(median(&mut times))
    }
}

impl Study for Contention {
    fn name(&self) -> &'static str {
        "contention"
    }
    fn size(&self) -> String {
        "2^20 operations".into()
    }
    fn metric(&self) -> &'static str {
        "ns"
    }

    /// Rows of `ns` per operation; the reference is one thread.
    fn rows(&self, bench: &Bench) -> Result<Vec<Row>, String> {
        let text = |e: wuji::Error| e.to_string();
        let mut rows: Vec<Row> = Vec::new();
        let mut alone = [f64::NAN; 4];
        for threads in 1..=8 {
            let builder = World::builder()
                .cache(wuji::CacheChoice::Off)
                .threads(threads)
                .tier(Tier::Best);
            let world = builder.build().map_err(text)?;
            let cells = world
                .layout(|root| root.pointer(I, CELLS).place::<i32, 1>("x"))
                .map_err(text)?;
            let list = world
                .layout(|root| root.dynamic(I, CELLS).place::<i32, 1>("x"))
                .map_err(text)?;
            let lists = world
                .layout(|root| {
                    let list = root.dense(I, LISTS).dynamic(L, CELLS / LISTS);
                    list.place::<i32, 2>("x")
                })
                .map_err(text)?;
            let all = COUNT as u64;
            let clear = || cells.deactivate_all();
            let results = [
                (
                    "activate_same",
                    Self::nanoseconds(
                        bench,
                        clear,
                        || activate_same(COUNT, &cells),
                        || Ok(cells.count_active()? == 16),
                    )?,
                ),
                (
                    "activate_different",
                    Self::nanoseconds(
                        bench,
                        clear,
                        || activate_different(COUNT, &cells),
                        || Ok(cells.count_active()? == all),
                    )?,
                ),
                (
                    "append_same",
                    Self::nanoseconds(
                        bench,
                        || list.deactivate_all(),
                        || append_same(COUNT, &list),
                        || Ok(list.count_active()? == all),
                    )?,
                ),
                (
                    "append_different",
                    Self::nanoseconds(
                        bench,
                        || lists.deactivate_all(),
                        || append_different(COUNT, &lists),
                        || Ok(lists.count_active()? == all),
                    )?,
                ),
            ];
            for (k, (metric, ns)) in results.into_iter().enumerate() {
                if threads == 1 {
                    alone[k] = ns;
                }
                rows.push(Row {
                    workload: self.name().into(),
                    size: format!("{threads} threads"),
                    backend: "cpu".into(),
                    metric: format!("{metric}_ns"),
                    value: ns,
                    reference: alone[k],
                    ratio: alone[k] / ns,
                    compile_ms: None,
                });
            }
        }
        rows.sort_by(|a, b| a.metric.cmp(&b.metric));
        Ok(rows)
    }
}
