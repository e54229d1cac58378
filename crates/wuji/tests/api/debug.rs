//! Debug worlds report index arithmetic that wraps, compiled and interpreted, and report nothing else.

use wuji::prelude::*;

#[kernel]
fn scaled(x: &Field<i32, 1>, step: i32) {
    for [i] in x {
        x[[i * step + 1]] += 1;
    }
}

#[kernel]
fn far(x: &Field<i32, 1>, a: i64, b: i64, op: i32) {
    for [_i] in x {
        if op == 0 {
            x[[a + b]] = 1;
        } else if op == 1 {
            x[[a - b]] = 1;
        } else {
            x[[a * b]] = 1;
        }
    }
}

#[kernel]
fn guarded(x: &Field<i32, 1>, step: i32) {
    for [i] in x {
        let at = i * step;
        if i == 0 {
            x[[at]] = 5;
        }
        let _hash = i * 1_000_000_007 + step;
    }
}

#[kernel]
fn host(_world: &World, a: &mut [i32], step: i32) {
    for [i] in grid([0..4]) {
        a[[i - step]] = 1;
    }
}

fn worlds() -> [World; 3] {
    let builder = || World::builder().debug(true);
    [
        builder().tier(Tier::Fast).build().unwrap(),
        builder().tier(Tier::Best).build().unwrap(),
        builder().interpreter().build().unwrap(),
    ]
}

#[test]
fn wrapped_indices_are_reported_with_line_and_values() {
    for world in worlds() {
        let x = world.field::<i32, 1>("x", 4).unwrap();
        scaled(&x, 0).unwrap();
        let error = scaled(&x, 1 << 30).unwrap_err();
        let told = "assertion failed in kernel `scaled`: an index overflows: 2 * 1073741824 does not fit `i32`";
        assert!(error.to_string().contains(told), "{error}");
        assert!(error.at.as_ref().is_some_and(|at| at.line == 8), "{error}");
        let error = scaled(&x, i32::MAX).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("an index overflows: 2147483647 + 1"),
            "{error}"
        );
    }
}

#[test]
fn wrapped_64_bit_indices_are_reported() {
    for world in worlds() {
        let x = world.field::<i32, 1>("x", 4).unwrap();
        for (a, b, op, wraps) in [
            (i64::MAX, 1, 0, true),
            (i64::MIN, -1, 0, true),
            (i64::MAX, -1, 0, false),
            (i64::MIN, 1, 1, true),
            (0, i64::MIN, 1, true),
            (-1, i64::MIN, 1, false),
            (1 << 32, 1 << 31, 2, true),
            (1 << 31, 1 << 31, 2, false),
            (i64::MIN, -1, 2, true),
            (-1, i64::MIN, 2, true),
            (i64::MIN, 0, 2, false),
            (3, 1, 2, false),
        ] {
            let wrapped = match far(&x, a, b, op) {
                Ok(()) => false,
                Err(error) => error.to_string().contains("an index overflows"),
            };
            assert_eq!(wrapped, wraps, "{a} {b} {op}");
        }
    }
}

#[test]
fn unused_index_arithmetic_may_wrap() {
    for world in worlds() {
        let x = world.field::<i32, 1>("x", 4).unwrap();
        guarded(&x, i32::MAX).unwrap();
        assert_eq!(x.to_vec().unwrap(), [5, 0, 0, 0]);
    }
}

#[test]
fn indices_of_host_arrays_count() {
    for world in worlds() {
        let mut a = [0; 4];
        host(&world, &mut a, 0).unwrap();
        let error = host(&world, &mut a, i32::MIN).unwrap_err();
        assert!(error.to_string().contains("an index overflows"), "{error}");
    }
}

#[test]
fn indices_wrap_without_debug_mode() {
    let world = World::builder().debug(false).build().unwrap();
    let x = world.field::<i32, 1>("x", 4).unwrap();
    // 4 * 2^30 is 0, so only 2 and 6 times 2^30 leave.
    let error = scaled(&x, 1 << 30).unwrap_err();
    assert_eq!(error.code, "W0401", "{error}");
}
