//! Launches that activate many more cells than were ever active before. The system, or the driver of a GPU, allocates their
//! pages on first access.

use super::backend::{builder, on_gpu};
use wuji::prelude::*;

/// Blocks of 4 KiB.
const BLOCK: i32 = 1024;

/// Many times as many as are prefetched on a GPU, and more than there are resident threads.
fn many() -> i32 {
    if on_gpu() { 1 << 18 } else { 1 << 12 }
}

#[kernel]
fn fill_blocks(x: &Field<f32, 1>, n: i32) {
    for i in 0..n {
        x[[i * BLOCK]] = i as f32;
    }
}

#[kernel]
fn wrong_blocks(x: &Field<f32, 1>, n: i32) -> i32 {
    let mut wrong = 0;
    for i in 0..n {
        if x[[i * BLOCK]] != i as f32 || x[[i * BLOCK + 1]] != 0.0 {
            wrong += 1;
        }
    }
    wrong
}

#[kernel]
fn elements(x: &Field<f32, 1>) -> i32 {
    let mut count = 0;
    for _ in x {
        count += 1;
    }
    count
}

#[kernel]
fn active(x: &Field<i32, 2>) -> i32 {
    let mut count = 0;
    for i in x {
        count += x[i];
    }
    count
}

fn blocks(w: &World, name: &str) -> Field<f32, 1> {
    w.layout(|root| {
        let blocks = root.pointer(I, 1 << 20);
        blocks.dense(I, BLOCK as u32).place::<f32, 1>(name)
    })
    .unwrap()
}

#[test]
fn one_launch_activates_many_cells() -> wuji::Result<()> {
    let w = builder().build()?;
    let x = blocks(&w, "x");
    fill_blocks(&x, many())?;
    assert_eq!(wrong_blocks(&x, many())?, 0);
    // All cells are in its list.
    assert_eq!(elements(&x)?, many() * BLOCK);
    x.tree().clear()?;
    fill_blocks(&x, many() / 2)?;
    assert_eq!(wrong_blocks(&x, many() / 2)?, 0);
    Ok(())
}

#[kernel]
fn fill_all(hash: &Field<f32, 1>, deep: &Field<i32, 2>, list: &Field<i32, 2>, n: i32) {
    for i in 0..n {
        hash[[i * 64]] = 1.0;
        deep[[i, i]] = 1;
        list.append([i % 64], i);
    }
}

#[test]
fn every_kind_of_node_grows() -> wuji::Result<()> {
    let w = builder().build()?;
    let n = many() * 4;
    let (hash, deep, list) = w.layout(|root| {
        (
            root.hash(I).dense(I, 64).place::<f32, 1>("hash"),
            root.pointer(IJ, 1024)
                .pointer(IJ, 64)
                .bitmasked(IJ, 16)
                .place::<i32, 2>("deep"),
            root.dense(I, 64)
                .dynamic_chunked(L, 1 << 16, 64)
                .place::<i32, 2>("list"),
        )
    })?;
    fill_all(&hash, &deep, &list, n)?;
    assert_eq!(elements(&hash)?, 64 * n);
    assert_eq!(active(&deep)?, n);
    assert_eq!(list.export()?.1.len(), n as usize);
    Ok(())
}

#[test]
fn a_field_is_dropped_while_it_grows() -> wuji::Result<()> {
    let w = builder().build()?;
    for k in 0..3 {
        let (x, y) = (blocks(&w, "x"), blocks(&w, "y"));
        fill_blocks(&x, many())?;
        fill_blocks(&y, many() / 2 + k)?;
        drop(x);
        assert_eq!(wrong_blocks(&y, many() / 2 + k)?, 0);
    }
    w.synchronize()
}

#[kernel]
fn other(x: &Field<i32, 1>, k: i32) {
    for i in x {
        x[i] += k;
    }
}

/// Loading code and freeing memory wait for kernels, which wait for pages.
#[test]
fn worlds_grow_beside_each_other() {
    let grows = || {
        for _ in 0..3 {
            let w = builder().build().unwrap();
            let x = blocks(&w, "x");
            fill_blocks(&x, many()).unwrap();
            assert_eq!(wrong_blocks(&x, many()).unwrap(), 0);
        }
    };
    let compiles = || {
        for k in 0..6 {
            let w = builder().build().unwrap();
            let x = w.field::<i32, 1>("x", 64).unwrap();
            other(&x, k).unwrap();
            assert_eq!(x.get(7).unwrap(), k);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(grows);
        scope.spawn(grows);
        scope.spawn(compiles);
    });
}

/// The limit is exact, although many threads allocate at the same time.
#[test]
fn a_memory_limit_is_obeyed() -> wuji::Result<()> {
    const LIMIT: i32 = 64 << 20;
    let w = builder().memory_limit(LIMIT as u64).build()?;
    let x = blocks(&w, "x");
    let error = fill_blocks(&x, 1 << 15)
        .and_then(|()| w.synchronize())
        .unwrap_err();
    assert_eq!(error.code, "W0407", "{error}");
    let bytes = elements(&x)? * 4;
    assert!((LIMIT / 2..=LIMIT).contains(&bytes), "{bytes}");
    x.tree().clear()?;
    fill_blocks(&x, 1 << 12)?;
    assert_eq!(wrong_blocks(&x, 1 << 12)?, 0);
    w.synchronize()
}

/// Only a GPU that has no memory left refuses cells.
#[test]
#[ignore = "takes all memory of a GPU"]
fn the_memory_of_a_gpu_runs_out() -> wuji::Result<()> {
    if !on_gpu() {
        return Ok(());
    }
    let w = builder().build()?;
    let x = rows(&w)?;
    let error = fill_rows(&x, 1 << 20)
        .and_then(|()| w.synchronize())
        .unwrap_err();
    assert_eq!(error.code, "W0407", "{error}");
    assert!(error.to_string().contains("share"), "{error}");
    x.tree().clear()?;
    fill_rows(&x, 100)?;
    assert_eq!(x.get([99, 7])?, 1.0);
    Ok(())
}

/// Rows of 4 MiB.
fn rows(w: &World) -> wuji::Result<Field<f32, 2>> {
    w.layout(|root| {
        let rows = root.pointer(I, 1 << 20);
        rows.dense(J, 1 << 20).place::<f32, 2>("x")
    })
}

#[test]
#[ignore = "takes most of the memory of a large GPU"]
fn cells_use_the_memory_of_dropped_fields() -> wuji::Result<()> {
    if !on_gpu() {
        return Ok(());
    }
    let w = builder().build()?;
    let large = w.field::<f32, 1>("large", [1i64 << 34])?;
    let x = rows(&w)?;
    fill_rows(&x, 100)?;
    w.synchronize()?;
    drop(large);
    // 100 GiB, beside which the field had no place.
    fill_rows(&x, 25_600)?;
    w.synchronize()?;
    assert_eq!(x.get([25_599, 7])?, 1.0);
    Ok(())
}

#[kernel]
fn fill_rows(x: &Field<f32, 2>, n: i32) {
    for i in 0..n {
        x[[i, 7]] = 1.0;
    }
}
