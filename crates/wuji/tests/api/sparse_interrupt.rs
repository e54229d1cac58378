//! A launch may be interrupted anywhere, also while tables and lists are updated: its trees stay consistent.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wuji::prelude::*;
use wuji::{Node, Result};

/// One element in each of some blocks, that says which.
#[kernel]
fn grow(x: &Field<i32, 1>, from: i32, to: i32) {
    for b in from..to {
        x[[b * 4 + 1]] = b;
    }
}

/// Every third block is no more.
#[kernel]
fn thin(blocks: &Cells<1>) {
    for [b] in blocks {
        if b % 3 == 0 {
            blocks.deactivate(b);
        }
    }
}

/// Of some blocks: how many are there, how many hold what they should, how many hold anything else but zero.
#[kernel]
fn inspect(blocks: &Cells<1>, x: &Field<i32, 1>, from: i32, to: i32) -> (i32, i32, i32) {
    let mut there = 0;
    let mut right = 0;
    let mut wrong = 0;
    for b in from..to {
        if blocks.is_active(b) {
            there += 1;
        }
        let found = x[[b * 4 + 1]];
        if found == b {
            right += 1;
        } else if found != 0 {
            wrong += 1;
        }
    }
    (there, right, wrong)
}

/// Launches, with an interrupt after some time; returns whether it came before the end.
fn interrupted(w: &World, after: Duration, launch: impl FnOnce() -> Result<()>) -> bool {
    let interrupter = w.interrupter();
    let (begun, done) = (AtomicBool::new(false), AtomicBool::new(false));
    let ended = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !begun.load(Ordering::Acquire) {
                std::hint::spin_loop();
            }
            let start = Instant::now();
            while start.elapsed() < after && !done.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            interrupter.interrupt();
        });
        begun.store(true, Ordering::Release);
        let ended = launch();
        done.store(true, Ordering::Relaxed);
        ended
    });
    match ended {
        Ok(()) => false,
        Err(e) => {
            assert_eq!(e.code, "W0405", "{e}");
            true
        }
    }
}

/// Grows and thins a tree, with interruptions; whatever was there before a launch, and is not its business, is there after it.
fn check(describe: fn(Node<'_>) -> (Cells<1>, Field<i32, 1>), most: i32) -> Result<()> {
    let w = World::builder().threads(2).lazy(false).build()?;
    let (blocks, x) = w.layout(describe)?;
    let mut dice = 12345u64;
    let mut delay = |most: u64| {
        dice = dice
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        Duration::from_nanos(((dice >> 33) * most) >> 31)
    };
    // How long launches take, more or less: interruptions are to hit all of their parts.
    let (mut grows, mut thins) = (1_000_000u64, 1_000_000u64);
    let mut hits = 0;
    let mut size = 1;
    let mut used = 0;
    while size < most {
        let next = (size + size / 4 + 100).min(most);
        for turn in 0..3 {
            // What is new may be there or not; what was there stays.
            hits += u32::from(interrupted(&w, delay(grows), || grow(&x, size, next)));
            let (there, right, wrong) = inspect(&blocks, &x, 1, size)?;
            assert_eq!(
                (there, right, wrong),
                (size - 1, size - 1, 0),
                "before {size}"
            );
            let (new, _, wrong) = inspect(&blocks, &x, size, next)?;
            assert_eq!(wrong, 0);
            assert_eq!(blocks.count_active()?, (size - 1 + new) as u64);
            let start = Instant::now();
            grow(&x, 1, next)?;
            grows = start.elapsed().as_nanos() as u64;
            assert_eq!(inspect(&blocks, &x, 1, next)?, (next - 1, next - 1, 0));
            assert_eq!(blocks.count_active()?, (next - 1) as u64);
            // Thinned in part; then all the way, and full again.
            hits += u32::from(interrupted(&w, delay(thins), || thin(&blocks)));
            let (there, right, wrong) = inspect(&blocks, &x, 1, next)?;
            let third = (next - 1) / 3;
            assert!(
                there >= next - 1 - third && there == right && wrong == 0,
                "{there} {right} {wrong}"
            );
            assert_eq!(blocks.count_active()?, there as u64);
            let start = Instant::now();
            thin(&blocks)?;
            thins = start.elapsed().as_nanos() as u64;
            let left = next - 1 - third;
            assert_eq!(inspect(&blocks, &x, 1, next)?, (left, left, 0));
            if turn < 2 {
                grow(&x, 1, size)?;
                // Those beyond are there in part.
                for b in size..next {
                    if blocks.is_active(b)? && b % 97 == 0 {
                        assert_eq!(x.get(b * 4 + 1)?, b);
                    }
                }
                let beyond: Vec<[i32; 1]> = blocks.active()?;
                assert!(beyond.iter().all(|[b]| *b < next));
                grow(&x, size, next)?;
                deactivate_beyond(&blocks, size)?;
            } else {
                grow(&x, 1, next)?;
            }
        }
        size = next;
        used = w.memory_used();
    }
    assert!(hits > 0, "{hits} interruptions came before the end");
    // Nothing has leaked: as many cells again fit into the memory that there is.
    for _ in 0..20 {
        interrupted(&w, delay(2 * thins), || blocks.deactivate_all());
        interrupted(&w, delay(2 * grows), || grow(&x, 1, size));
    }
    blocks.deactivate_all()?;
    grow(&x, 1, size)?;
    assert_eq!(inspect(&blocks, &x, 1, size)?, (size - 1, size - 1, 0));
    assert!(
        w.memory_used() <= used + used / 4,
        "{used} {}",
        w.memory_used()
    );
    Ok(())
}

#[kernel]
fn deactivate_beyond(blocks: &Cells<1>, from: i32) {
    for [b] in blocks {
        if b >= from {
            blocks.deactivate(b);
        }
    }
}

#[test]
fn interrupted_hash_tables_stay_consistent() -> Result<()> {
    check(
        |root| {
            let block = root.hash(I);
            (block.cells("blocks"), block.dense(I, 4).place("x"))
        },
        60_000,
    )
}

#[test]
fn interrupted_pointers_stay_consistent() -> Result<()> {
    check(
        |root| {
            let block = root.pointer(I, 256).pointer(I, 256);
            (block.cells("blocks"), block.dense(I, 4).place("x"))
        },
        60_000,
    )
}

#[test]
fn interrupted_bitmasks_stay_consistent() -> Result<()> {
    check(
        |root| {
            let block = root.hash(I).bitmasked(I, 128);
            (block.cells("blocks"), block.dense(I, 4).place("x"))
        },
        60_000,
    )
}
