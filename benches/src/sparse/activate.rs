//! Activating and deactivating 2^18 blocks, against `memset` of as many bytes.

use wuji::prelude::*;

use super::blocks::{B, CELLS, SIDE};
use crate::measure::{Row, median};
use crate::study::{Bench, Study};

const BLOCKS: usize = SIDE * SIDE * SIDE;
const BYTES: usize = BLOCKS * CELLS * 4;

pub struct Activate {
    name: &'static str,
    recycled: bool,
}

/// Fresh blocks cost page faults only when they are first written to; `memset` pays immediately. This row includes the
/// page faults.
const TOUCHED: &str = "touched_GB/s";

impl Activate {
    /// Memory that has not been touched before.
    pub const FRESH: Activate = Activate {
        name: "activate_fresh",
        recycled: false,
    };
    /// Memory of deactivated blocks.
    pub const RECYCLED: Activate = Activate {
        name: "activate_recycled",
        recycled: true,
    };
}

#[kernel]
fn activate(blocks: &Cells<3>, all: &Field<u8, 3>) {
    for [i, j, k] in all {
        blocks.activate([i, j, k]);
    }
}

#[kernel]
fn dirty(x: &Field<f32, 3>) {
    for [i, j, k] in x {
        x[[i, j, k]] = 1.0;
    }
}

#[kernel]
fn total(x: &Field<f32, 3>) -> f64 {
    let mut sum = 0.0f64;
    for [i, j, k] in x {
        sum += x[[i, j, k]] as f64;
    }
    sum
}

/// Memory from the system, on huge pages if available, like that of Wuji's trees.
struct Mapped(*mut u8);

impl Mapped {
    fn new() -> Result<Mapped, String> {
        // SAFETY: a new private mapping; the advice may be refused.
        let base = unsafe {
            let base = libc::mmap(
                std::ptr::null_mut(),
                BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            );
            if base == libc::MAP_FAILED {
                return Err("no memory for the reference".into());
            }
            #[cfg(target_os = "linux")]
            libc::madvise(base, BYTES, libc::MADV_HUGEPAGE);
            base
        };
        Ok(Mapped(base.cast()))
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the mapping has that many bytes, all zero or set by us.
        unsafe { std::slice::from_raw_parts_mut(self.0, BYTES) }
    }

    /// Sets all bytes; threads take one range after another.
    fn set(&mut self, bench: &Bench) {
        bench
            .pool
            .share(self.bytes(), 1 << 20, |_, part| part.fill(0));
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`.
        unsafe { libc::munmap(self.0.cast(), BYTES) };
    }
}

/// A tree of blocks.
struct Tree {
    blocks: Cells<3>,
    x: Field<f32, 3>,
    all: Field<u8, 3>,
}

impl Tree {
    fn new(world: &World) -> wuji::Result<Tree> {
        let (blocks, x) = world.layout(|root| {
            let block = root.pointer(IJK, SIDE as i64);
            (block.cells("blocks"), block.dense(IJK, B as i64).place("x"))
        })?;
        let all = world.layout(|root| root.dense(IJK, SIDE as i64).place("all"))?;
        Ok(Tree { blocks, x, all })
    }

    fn activate(&self) -> Result<(), String> {
        activate(&self.blocks, &self.all).map_err(|e| e.to_string())
    }

    /// Checks that all blocks are active and zero.
    fn check(&self) -> Result<(), String> {
        let count = self.blocks.count_active().map_err(|e| e.to_string())?;
        let sum = total(&self.x).map_err(|e| e.to_string())?;
        if count == BLOCKS as u64 && sum == 0.0 {
            return Ok(());
        }
        Err(format!(
            "activate: {count} of {BLOCKS} blocks are active, and the sum of their cells is {sum}"
        ))
    }
}

impl Study for Activate {
    fn name(&self) -> &'static str {
        self.name
    }
    fn size(&self) -> String {
        "2^18 of 8^3".into()
    }
    fn metric(&self) -> &'static str {
        "GB/s"
    }

    fn rows(&self, bench: &Bench) -> Result<Vec<Row>, String> {
        let text = |e: wuji::Error| e.to_string();
        let world = bench.world(&[])?;
        let mut tree = Tree::new(&world).map_err(text)?;
        tree.activate()?;
        tree.check()?;
        let mut memory = Mapped::new()?;
        memory.set(bench);
        let timed = |f: &mut dyn FnMut() -> Result<(), String>| {
            std::thread::sleep(std::time::Duration::from_millis(4));
            let start = bench.clock.now();
            f()?;
            Ok::<f64, String>(bench.clock.now() - start)
        };
        let (mut ours, mut theirs, mut ratios, mut gone) = (vec![], vec![], vec![], vec![]);
        let (mut touched, mut touched_ratios) = (vec![], vec![]);
        for k in 0..bench.pairs {
            if self.recycled {
                dirty(&tree.x).map_err(text)?;
                gone.push(timed(&mut || tree.blocks.deactivate_all().map_err(text))?);
            } else {
                // Free the old tree first: two trees at a time would be another workload.
                drop(tree);
                tree = Tree::new(&world).map_err(text)?;
                drop(memory);
                memory = Mapped::new()?;
            }
            let mut set = || {
                memory.set(bench);
                Ok(())
            };
            let (a, b) = if k % 2 == 0 {
                let a = timed(&mut || tree.activate())?;
                (a, timed(&mut set)?)
            } else {
                let b = timed(&mut set)?;
                (timed(&mut || tree.activate())?, b)
            };
            if k == 0 {
                tree.check()?;
            }
            if !self.recycled {
                let c = a + timed(&mut || dirty(&tree.x).map_err(text))?;
                touched.push(c);
                touched_ratios.push(b / c);
            }
            ours.push(a);
            theirs.push(b);
            ratios.push(b / a);
        }
        let bytes = BYTES as f64 / 1e9;
        let row = |metric: &str, value, reference, ratio| Row {
            workload: self.name.into(),
            size: self.size(),
            backend: "cpu".into(),
            metric: metric.into(),
            value,
            reference,
            ratio,
            compile_ms: None,
        };
        let mut rows = vec![row(
            self.metric(),
            bytes / median(&mut ours),
            bytes / median(&mut theirs),
            median(&mut ratios),
        )];
        if !self.recycled {
            let (value, reference) = (bytes / median(&mut touched), rows[0].reference);
            rows.push(row(TOUCHED, value, reference, median(&mut touched_ratios)));
        }
        if self.recycled {
            // The goal is 10 ms.
            let ms = median(&mut gone) * 1e3;
            rows.push(row("deactivate_all_ms", ms, 10.0, 10.0 / ms));
        }
        Ok(rows)
    }
}
