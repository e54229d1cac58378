//! Stress tests: many threads contend for the same cells; millions of cells are activated and deactivated.

use wuji::prelude::*;
use wuji::{Node, Result};

fn world() -> World {
    World::builder().threads(8).build().unwrap()
}

/// A hash that spreads the same few coordinates over all iterations.
#[func]
fn scramble(n: i32) -> i32 {
    let mut z = n as u32 as u64;
    z = ((z ^ (z >> 16)) * 0x7feb_352d) & 0xffff_ffff;
    z = ((z ^ (z >> 15)) * 0x846c_a68b) & 0xffff_ffff;
    ((z ^ (z >> 16)) >> 1) as i32
}

/// Every cell is touched by many iterations at once.
#[kernel]
fn fight(count: &Field<i32, 1>, n: i32, range: i32, round: i32) {
    for k in 0..n {
        let i = scramble(k * 31 + round) % range;
        count[[i - range / 2]] += 1;
    }
}

/// How many were counted, and a number that shows whether something was counted twice or lost.
#[kernel]
fn settle(count: &Field<i32, 1>) -> (i64, i64) {
    let mut sum = 0;
    let mut cells = 0;
    for [i] in count {
        if count[[i]] > 0 {
            sum += count[[i]] as i64;
            cells += 1;
        }
    }
    (sum, cells)
}

fn expected(n: i32, range: i32, round: i32) -> i64 {
    let mut seen = vec![false; range as usize];
    for k in 0..n {
        let i = scramble(k * 31 + round) % range;
        seen[i as usize] = true;
    }
    seen.iter().filter(|s| **s).count() as i64
}

fn check(describe: fn(Node<'_>) -> (Cells<1>, Field<i32, 1>), n: i32, range: i32) -> Result<()> {
    let w = world();
    let (cells, count) = w.layout(|root| describe(root.offset([i64::from(-range / 2)])))?;
    let start = w.memory_used();
    let mut used = 0;
    for round in 0..6 {
        fight(&count, n, range, round)?;
        assert_eq!(settle(&count)?, (n.into(), expected(n, range, round)));
        cells.deactivate_all()?;
        assert_eq!(count.count_active()?, 0);
        assert_eq!(settle(&count)?, (0, 0));
        // What one round has given back is enough for the next one, but for cells that threads held
        // while they lost a race.
        if round > 0 {
            assert!(
                w.memory_used() <= used + used / 50,
                "{used} {}",
                w.memory_used()
            );
        }
        used = used.max(w.memory_used());
    }
    count.tree().clear()?;
    assert_eq!(w.memory_used(), start);
    Ok(())
}

#[test]
fn cells_of_pointers() {
    check(
        |root| {
            let node = root.pointer(I, 1 << 14);
            (node.offset([0]).cells("cells"), node.dense(I, 4).place("x"))
        },
        400_000,
        1 << 16,
    )
    .unwrap();
}

#[test]
fn pointers_below_pointers() {
    check(
        |root| {
            let top = root.pointer(I, 16);
            let leaf = top.pointer(I, 64).pointer(I, 64);
            (top.offset([0]).cells("cells"), leaf.place("x"))
        },
        300_000,
        1 << 16,
    )
    .unwrap();
}

#[test]
fn tables() {
    check(
        |root| {
            let node = root.hash_sized(I, 1 << 16);
            (node.cells("cells"), node.place("x"))
        },
        300_000,
        1 << 16,
    )
    .unwrap();
}

#[test]
fn tables_of_masks() {
    check(
        |root| {
            let node = root.hash_sized(I, 1 << 10);
            let leaf = node.bitmasked(I, 64);
            (node.offset([0]).cells("cells"), leaf.place("x"))
        },
        300_000,
        1 << 16,
    )
    .unwrap();
}

#[test]
fn tables_below_pointers() {
    check(
        |root| {
            let node = root.pointer(I, 1 << 6);
            let leaf = node.hash_sized(I, 1 << 10);
            (node.offset([0]).cells("cells"), leaf.place("x"))
        },
        300_000,
        1 << 16,
    )
    .unwrap();
}

#[test]
fn tables_below_masks() {
    check(
        |root| {
            let node = root.bitmasked(I, 1 << 8);
            let leaf = node.dense(I, 4).hash_sized(I, 1 << 6);
            (node.offset([0]).cells("cells"), leaf.place("x"))
        },
        300_000,
        1 << 16,
    )
    .unwrap();
}

#[test]
fn tables_below_tables() {
    check(
        |root| {
            let node = root.hash_sized(I, 1 << 8);
            let leaf = node.hash_sized(I, 1 << 8);
            (node.offset([0]).cells("cells"), leaf.place("x"))
        },
        300_000,
        1 << 16,
    )
    .unwrap();
}

#[kernel]
fn throw(lists: &Field<i32, 2>, n: i32, range: i32) {
    for k in 0..n {
        lists.append([scramble(k) % range], k);
    }
}

#[kernel]
fn weigh(lists: &Field<i32, 2>) -> (i64, i64) {
    let mut sum = 0;
    let mut count = 0;
    for at in lists {
        sum += lists[at] as i64;
        count += 1;
    }
    (sum, count)
}

#[test]
fn lists() {
    let w = world();
    let (cells, lists) = w
        .layout(|root| {
            let node = root.pointer(I, 512);
            let list = node.dynamic_chunked(J, 100_000, 16);
            (node.cells::<1>("cells"), list.place::<i32, 2>("lists"))
        })
        .unwrap();
    let mut used = 0;
    for round in 0..5 {
        let (n, range) = (300_000, [512, 3, 1, 40, 512][round]);
        let n = if range < 4 { 90_000 } else { n };
        throw(&lists, n, range).unwrap();
        let total = i64::from(n) * i64::from(n - 1) / 2;
        assert_eq!(weigh(&lists).unwrap(), (total, n.into()));
        match round % 2 {
            0 => cells.deactivate_all().unwrap(),
            _ => lists.deactivate_all().unwrap(),
        }
        assert_eq!(weigh(&lists).unwrap(), (0, 0));
        used = used.max(w.memory_used());
    }
    cells.deactivate_all().unwrap();
    throw(&lists, 300_000, 512).unwrap();
    assert!(w.memory_used() <= used + used / 20);
}

/// Half of the iterations deactivate what the other half writes to: a cell is there or not, and what is
/// the value is one that a thread wrote, or zero.
#[kernel]
fn quarrel(cells: &Cells<1>, x: &Field<i32, 1>, n: i32, round: i32) {
    for k in 0..n {
        let i = scramble(k + round * n) % 64;
        if k % 2 == 0 {
            x[[i * 4 + 1]] = i + 1;
        } else {
            cells.deactivate([i]);
        }
    }
}

#[kernel]
fn wrong(cells: &Cells<1>, x: &Field<i32, 1>) -> i32 {
    let mut n = 0;
    for [i] in cells {
        let v = x[[i * 4 + 1]];
        if (v != 0 && v != i + 1) || x[[i * 4]] != 0 || x[[i * 4 + 2]] != 0 {
            n += 1;
        }
    }
    n
}

#[test]
fn writers_against_deactivators() {
    let w = world();
    let (cells, x) = w
        .layout(|root| {
            let node = root.pointer(I, 512);
            (
                node.cells::<1>("cells"),
                node.dense(I, 4).place::<i32, 1>("x"),
            )
        })
        .unwrap();
    // Cells that go wait for the end of the loop, so one that comes and goes takes memory every time.
    for round in 0..200 {
        quarrel(&cells, &x, 6000, round).unwrap();
        assert_eq!(wrong(&cells, &x).unwrap(), 0);
    }
    cells.deactivate_all().unwrap();
    assert_eq!(x.count_active().unwrap(), 0);
}

#[kernel]
fn dirty(x: &Field<i32, 2>) {
    for [i, j] in x {
        x[[i, j]] = -1;
    }
}

#[kernel]
fn mark_blocks(count: i32, x: &Field<i32, 2>) {
    for i in 0..count {
        x[[i, i & 255]] += 1;
    }
}

#[kernel]
fn sum_blocks(x: &Field<i32, 2>) -> i64 {
    let mut sum = 0i64;
    for [i, j] in x {
        sum += x[[i, j]] as i64;
    }
    sum
}

/// More bytes than fit into caches: they are cleared many cells at a time.
#[test]
fn large_freed_volumes_are_zero_again() {
    const CELLS: i32 = 72 << 10;
    let w = world();
    let (cells, x) = w
        .layout(|root| {
            let block = root.pointer(I, i64::from(CELLS));
            (
                block.cells::<1>("cells"),
                block.dense(J, 256).place::<i32, 2>("x"),
            )
        })
        .unwrap();
    for round in 0..4 {
        // Not always all of them: some of what is cleared ahead is not used before the next collection.
        let count = CELLS - round * 1000;
        mark_blocks(count, &x).unwrap();
        assert_eq!(cells.count_active().unwrap(), count as u64);
        assert_eq!(sum_blocks(&x).unwrap(), i64::from(count), "round {round}");
        dirty(&x).unwrap();
        cells.deactivate_all().unwrap();
    }
}
