//! Sort and prefix sums.

use crate::backend::worlds;
use expect_test::{Expect, expect};
use std::cmp::Ordering;
use wuji::algorithms::{SortKey, exclusive_prefix_sum, prefix_sum, sort, sort_order, sort_pairs};
use wuji::prelude::*;

/// Lengths around those of blocks, on every backend.
const LENGTHS: [usize; 7] = [1, 2, 63, 64, 65, 4097, 20_000];

/// Bits without a pattern.
fn bits(n: usize) -> u64 {
    let mixed = (n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// Sorts keys in a field and in an array, with values, and compares with the standard library.
fn check<K: SortKey>(make: impl Fn(u64) -> K, compare: impl Fn(&K, &K) -> Ordering) {
    for world in worlds() {
        for n in LENGTHS {
            // The interpreter takes its time.
            let n = n.min(if world.threads() == 2 { n } else { 4097 });
            let keys: Vec<K> = (0..n).map(|k| make(bits(k))).collect();
            let mut order: Vec<u32> = (0..n as u32).collect();
            order.sort_by(|a, b| compare(&keys[*a as usize], &keys[*b as usize]));
            let sorted: Vec<K> = order.iter().map(|k| keys[*k as usize]).collect();
            let text = |keys: &[K]| format!("{keys:?}");

            let field = world.field::<K, 1>("keys", n as u64).unwrap();
            field.copy_from(&keys).unwrap();
            let found = sort_order(&field).unwrap();
            assert_eq!(found.to_vec().unwrap(), order);
            sort(&field).unwrap();
            assert_eq!(text(&field.to_vec().unwrap()), text(&sorted));

            let array = world.nd_array::<K, 1>("keys", n as u64).unwrap();
            array.copy_from(&keys).unwrap();
            let values = world.field::<(u32, Vec3), 1>("values", n as u64).unwrap();
            let pair = |k: u32| (k, vec3(k as f32, 1.0, 2.0));
            let pairs: Vec<_> = (0..n as u32).map(pair).collect();
            values.copy_from(&pairs).unwrap();
            sort_pairs(&array, &values).unwrap();
            assert_eq!(text(&array.to_vec().unwrap()), text(&sorted));
            let expected: Vec<_> = order.iter().map(|k| pair(*k)).collect();
            assert_eq!(values.to_vec().unwrap(), expected);
        }
    }
}

#[test]
fn sorts_32_bits() {
    check(|b| b as i32, i32::cmp);
    check(|b| (b % 5) as u32, u32::cmp); // stable
}

#[test]
fn sorts_64_bits() {
    check(|b| b as i64, i64::cmp);
    check(|b| b, u64::cmp);
}

#[test]
fn sorts_floats() {
    check(|b| (b as i32 % 1000) as f32 * 0.25, f32::total_cmp);
    check(|b| f64::from_bits(b & !(1 << 62)), f64::total_cmp);
}

#[test]
fn special_floats() {
    for world in worlds() {
        let x = world.field::<f32, 1>("x", 9).unwrap();
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        x.copy_from(&[
            nan,
            0.0,
            inf,
            -0.0,
            -nan,
            1.0,
            -inf,
            f32::MIN_POSITIVE / 2.0,
            -1.0,
        ])
        .unwrap();
        sort(&x).unwrap();
        expect!["[-inf, -1.0, -0.0, 0.0, 5.877472e-39, 1.0, inf, NaN, NaN]"]
            .assert_eq(&format!("{:?}", x.to_vec().unwrap()));
    }
}

fn sums<T: Num>(values: &[T], inclusive: bool, add: impl Fn(T, T) -> T) -> Vec<T> {
    let mut total = T::ZERO;
    let mut sums = Vec::new();
    for value in values {
        let before = total;
        total = add(total, *value);
        sums.push(if inclusive { total } else { before });
    }
    sums
}

fn check_sums<T: Num>(make: impl Fn(u64) -> T, add: impl Fn(T, T) -> T + Copy) {
    for world in worlds() {
        for n in LENGTHS {
            let values: Vec<T> = (0..n).map(|k| make(bits(k))).collect();
            let field = world.field::<T, 1>("x", n as u64).unwrap();
            field.copy_from(&values).unwrap();
            prefix_sum(&field).unwrap();
            assert_eq!(field.to_vec().unwrap(), sums(&values, true, add));
            let array = world.nd_array::<T, 1>("x", n as u64).unwrap();
            array.copy_from(&values).unwrap();
            exclusive_prefix_sum(&array).unwrap();
            assert_eq!(array.to_vec().unwrap(), sums(&values, false, add));
        }
    }
}

#[test]
fn prefix_sums() {
    check_sums(|b| b as i32, i32::wrapping_add);
    check_sums(|b| b, u64::wrapping_add);
    check_sums(|b| (b % 7) as f32, |a, b| a + b);
    check_sums(|b| (b % 7) as f64 * 0.5, |a, b| a + b);
}

#[test]
fn other_layouts() {
    for world in worlds() {
        let blocked = world.layout(|root| root.dense(I, 8).dense(I, 8).place::<i32, 1>("x"));
        let x = blocked.unwrap();
        let y = world
            .layout(|root| root.dense(I, 64).offset([-10]).place::<f64, 1>("y"))
            .unwrap();
        let keys: Vec<i32> = (0..64).map(|k| (k * 37) % 64).collect();
        x.copy_from(&keys).unwrap();
        y.copy_from(&keys.iter().map(|k| f64::from(*k)).collect::<Vec<_>>())
            .unwrap();
        sort_pairs(&x, &y).unwrap();
        assert_eq!(x.to_vec().unwrap(), (0..64).collect::<Vec<_>>());
        assert_eq!(y.get(-10).unwrap(), 0.0);
        assert_eq!(y.get(53).unwrap(), 63.0);
        prefix_sum(&y).unwrap();
        assert_eq!(y.get(53).unwrap(), 2016.0);
    }
}

#[test]
fn lazy_worlds() {
    let world = World::builder().lazy(true).threads(2).build().unwrap();
    let x = world.field::<u32, 1>("x", 10_000).unwrap();
    let keys: Vec<u32> = (0..10_000).map(|k| bits(k) as u32 % 100).collect();
    x.copy_from(&keys).unwrap();
    sort(&x).unwrap();
    exclusive_prefix_sum(&x).unwrap();
    let mut sorted = keys;
    sorted.sort();
    assert_eq!(x.to_vec().unwrap(), sums(&sorted, false, |a, b| a + b));
}

/// Code is compiled once for arrays of all lengths.
#[test]
fn lengths_share_code() {
    let world = World::cpu().unwrap();
    let kernels = |n: u64| {
        let x = world.nd_array::<u32, 1>("x", n).unwrap();
        sort(&x).unwrap();
        world.kernels()
    };
    let first = kernels(20_000);
    assert_eq!(kernels(30_000), first);
}

fn check_error(result: wuji::Result<()>, expected: Expect) {
    let error = result.unwrap_err().to_string();
    // The path of this file does not matter.
    expected.assert_eq(&error.replace("crates/wuji/tests/api/", ""));
}

#[test]
fn errors() {
    let world = World::interpreter().unwrap();
    let sparse = world.layout(|root| root.pointer(I, 4).dense(I, 4).place::<f32, 1>("mass"));
    let sparse = sparse.unwrap();
    check_error(
        prefix_sum(&sparse),
        expect![[r#"
            error[W0140]: `prefix_sum` of the sparse field `mass`
              --> algorithms.rs:186:9
              = note: it needs all elements of its range, and only some of a sparse field exist
              = help: copy the elements with `export` to a dense field first"#]],
    );
    let x = world.field::<f32, 1>("x", 4).unwrap();
    let y = world.field::<f32, 1>("y", 5).unwrap();
    check_error(
        sort_pairs(&x, &y),
        expect![[r#"
            error[W0140]: `sort_pairs` of 4 keys in `x` and 5 values in `y`
              --> algorithms.rs:196:9
              = help: give one value for each key"#]],
    );
    check_error(
        sort_pairs(&x, &x),
        expect![[r#"
            error[W0140]: `sort_pairs` of `x` as keys and as values
              --> algorithms.rs:203:9
              = help: use `sort`"#]],
    );
    let other = World::interpreter().unwrap();
    let z = other.field::<f32, 1>("z", 4).unwrap();
    check_error(
        sort_pairs(&x, &z),
        expect![[r#"
            error[W0140]: `sort_pairs` of `x` and `z`, which are in different worlds
              --> algorithms.rs:212:9
              = help: copy one of them to the world of the other"#]],
    );
    world.close();
    check_error(
        sort(&x),
        expect![[r#"
            error[W0132]: this world was closed
              --> algorithms.rs:220:9
              = note: its fields and kernels went with it
              = help: make a new world"#]],
    );
}
