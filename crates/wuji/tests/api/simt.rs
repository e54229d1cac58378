//! Cooperative thread blocks: on the interpreter, and on a GPU if `WUJI_TEST_BACKEND=cuda` is set.

use crate::backend::on_gpu;
use wuji::prelude::*;
use wuji::simt::{block, grid as whole, shared, warp};

fn world() -> World {
    if on_gpu() {
        World::cuda(0)
    } else {
        World::interpreter()
    }
    .expect("a world")
}

#[kernel]
fn turn(x: &Field<f32, 1>, y: &Field<f32, 1>) {
    for [i] in block_size(64, x) {
        let mut tile = shared::<f32, 64>();
        let t = block::thread();
        tile[t] = x[i] + 1.0;
        block::sync();
        y[i] = tile[63 - t];
    }
}

#[test]
fn shared_memory_is_visible_to_the_thread_block() {
    let w = world();
    let x = w.field::<f32, 1>("x", 150).unwrap();
    let y = w.field::<f32, 1>("y", 150).unwrap();
    x.copy_from(&(0..150).map(|i| i as f32).collect::<Vec<_>>())
        .unwrap();
    turn(&x, &y).unwrap();
    let expected: Vec<f32> = (0..150)
        .map(|i| {
            let other = i / 64 * 64 + 63 - i % 64;
            // No thread writes the end of the last block.
            if other < 150 { other as f32 + 1.0 } else { 0.0 }
        })
        .collect();
    assert_eq!(y.to_vec().unwrap(), expected);
}

#[kernel]
fn multiply(a: &Field<f32, 2>, b: &Field<f32, 2>, c: &Field<f32, 2>, n: i32) {
    let tiles = n / 16;
    for [tile, t] in block_size(256, grid([0..tiles * tiles, 0..256])) {
        let mut left = shared::<[f32; 16], 16>();
        let mut right = shared::<f32, 256>();
        let (row, column) = (t / 16, t % 16);
        let (i, j) = (tile / tiles * 16 + row, tile % tiles * 16 + column);
        let mut sum = 0.0;
        for k in 0..tiles {
            left[row][column] = a[[i, k * 16 + column]];
            right[t] = b[[k * 16 + row, j]];
            block::sync();
            for l in 0..16 {
                sum += left[row][l] * right[l * 16 + column];
            }
            block::sync();
        }
        c[[i, j]] = sum;
    }
}

#[test]
fn a_product_in_tiles() {
    let w = world();
    let n = 32usize;
    let field = |name: &str| w.field::<f32, 2>(name, [n, n]).unwrap();
    let (a, b, c) = (field("a"), field("b"), field("c"));
    let x: Vec<f32> = (0..n * n).map(|k| (k * 7 % 11) as f32).collect();
    let y: Vec<f32> = (0..n * n).map(|k| (k * 5 % 13) as f32).collect();
    a.copy_from(&x).unwrap();
    b.copy_from(&y).unwrap();
    multiply(&a, &b, &c, n as i32).unwrap();
    let expected: Vec<f32> = (0..n * n)
        .map(|k| (0..n).map(|l| x[k / n * n + l] * y[l * n + k % n]).sum())
        .collect();
    assert_eq!(c.to_vec().unwrap(), expected);
}

#[func]
fn over_warp(v: i32) -> i32 {
    let mut sum = v;
    let mut by = 16;
    while by > 0 {
        sum += warp::shuffle_down(sum, by);
        by /= 2;
    }
    sum
}

#[kernel]
fn sums(x: &Field<i32, 1>, out: &Field<i32, 1>) {
    for [i] in x {
        let mut parts = shared::<i32, 8>();
        let sum = over_warp(x[i]);
        let t = block::thread();
        if warp::lane() == 0 {
            parts[t / 32] = sum;
        }
        block::sync();
        if t / 32 == 0 {
            let mut all = 0;
            if t < 8 {
                all = parts[t];
            }
            all += warp::shuffle_xor(all, 4);
            all += warp::shuffle_xor(all, 2);
            all += warp::shuffle_xor(all, 1);
            if t == 0 {
                out[block::index()] = all;
            }
        }
    }
}

#[test]
fn sums_by_shuffles() {
    let w = world();
    let x = w.field::<i32, 1>("x", 512).unwrap();
    let out = w.field::<i32, 1>("out", 2).unwrap();
    x.copy_from(&(0..512).collect::<Vec<_>>()).unwrap();
    sums(&x, &out).unwrap();
    assert_eq!(out.to_vec().unwrap(), [32640, 98176]);
}

#[kernel]
fn ask(out: &Field<i32, 2>) {
    for i in block_size(40, 0..80) {
        let t = block::thread();
        let some = block::sync_count(i % 3 == 0);
        let all = block::sync_all(i < 40);
        let any = block::sync_any(i == 40);
        block::fence();
        whole::fence();
        warp::sync();
        let mut numbers = shared::<i32, 1>();
        numbers[0] += 1;
        let lanes = warp::ballot(i % 3 == 0).count_ones() as i32;
        let same = warp::match_any(i % 2).count_ones() as i32;
        let unanimous = warp::all(i >= 0) && !warp::any(i < 0);
        let own = warp::active_mask() >> (warp::lane() as u32) & 1;
        let first = warp::shuffle(i, 0);
        let above = warp::shuffle_up(i, 1);
        block::sync();
        if t == 39 {
            let b = block::index();
            out[[b, 0]] = some;
            out[[b, 1]] = all as i32 + 2 * any as i32 + 4 * unanimous as i32;
            out[[b, 2]] = block::size() + 100 * block::count();
            out[[b, 3]] = numbers[0];
            out[[b, 4]] = lanes + 100 * same;
            out[[b, 5]] = first + 100 * above + 10000 * own as i32;
        }
    }
}

#[test]
fn warp_votes_and_shuffles() {
    let w = world();
    let out = w.field::<i32, 2>("out", [2, 6]).unwrap();
    ask(&out).unwrap();
    let expected = [
        [14, 5, 240, 40, 403, 10000 + 32 + 3800],
        [13, 6, 240, 40, 403, 10000 + 72 + 7800],
    ];
    assert_eq!(out.to_vec().unwrap(), expected.concat());
}

#[kernel]
fn retire(x: &Field<i32, 1>) {
    for [i] in block_size(64, x) {
        if i % 3 == 0 {
            continue;
        }
        assert!(i < 50, "{} is too large", i);
        x[i] = block::sync_count(true);
    }
}

#[test]
fn barriers_ignore_retired_threads() {
    let w = world();
    let x = w.field::<i32, 1>("x", 64).unwrap();
    // On a GPU it comes out of what waits for the kernel.
    let error = retire(&x).and_then(|()| w.synchronize()).unwrap_err();
    assert_eq!(error.code, "W0403", "{error}");
    let there = (0..50).filter(|i| i % 3 != 0).count() as i32;
    for (i, v) in x.to_vec().unwrap().into_iter().enumerate() {
        assert_eq!(v, if i < 50 && i % 3 != 0 { there } else { 0 }, "{i}");
    }
}

#[kernel]
fn alone(world: &World) -> i32 {
    block::sync();
    over_warp(block::thread() + 7) + block::size()
}

/// In serial code, and on the host, a thread is alone in its block.
#[test]
fn serial_code_is_a_block_of_one_thread() {
    let host = over_warp(block::thread() + 7) + block::size();
    assert_eq!(host, 7 * 32 + 1);
    let cpu = World::cpu().unwrap();
    assert_eq!(alone(&cpu).unwrap_err().code, "W0350");
}

#[kernel]
fn part(x: &Field<i32, 1>) {
    for [i] in x {
        if x[i] > 0 {
            block::sync();
        }
    }
}

#[kernel]
fn large(x: &Field<i32, 1>) {
    for [i] in x {
        let mut tile = shared::<f64, 8192>();
        tile[i] = 1.0;
        block::sync();
        x[i] = tile[i + 1] as i32;
    }
}

#[test]
fn unsupported_simt_kernels_are_rejected() {
    let cpu = World::cpu().unwrap();
    let x = cpu.field::<i32, 1>("x", 64).unwrap();
    let y = cpu.field::<f32, 1>("y", 64).unwrap();
    let error = turn(&y, &y).unwrap_err();
    assert_eq!(error.code, "W0350");
    assert!(error.to_string().contains("needs a GPU"), "{error}");
    let error = part(&x).unwrap_err();
    assert_eq!(error.code, "W0352");
    let text = error.to_string();
    assert!(
        text.contains("control flow diverges at") && text.contains("simt.rs"),
        "{text}"
    );
    assert_eq!(large(&x).unwrap_err().code, "W0350");
    // Whether threads come together is looked at first: these do.
    let z = cpu.field::<i32, 2>("z", [2, 6]).unwrap();
    let m = cpu.field::<f32, 2>("m", [16, 16]).unwrap();
    for error in [sums(&x, &x), ask(&z), multiply(&m, &m, &m, 16), retire(&x)] {
        assert_eq!(error.unwrap_err().code, "W0350");
    }
}
