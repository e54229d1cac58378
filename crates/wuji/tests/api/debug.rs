//! Debug worlds report index arithmetic that wraps, and reads that are out of range; other worlds check reads on request.

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
        let message = "assertion failed in kernel `scaled`: an index overflows: 2 * 1073741824 does not fit `i32`";
        assert!(error.to_string().contains(message), "{error}");
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
    let world = World::builder().debug(false).lazy(false).build().unwrap();
    let x = world.field::<i32, 1>("x", 4).unwrap();
    // 4 * 2^30 is 0, so only 2 and 6 times 2^30 leave.
    let error = scaled(&x, 1 << 30).unwrap_err();
    assert_eq!(error.code, "W0401", "{error}");
}

#[kernel]
fn neighbours(x: &Field<i32, 1>, y: &Field<i32, 1>, step: i32) {
    for [i] in y {
        y[[i]] = x[[i + step]];
    }
}

#[kernel]
fn guarded_neighbours(x: &Field<i32, 1>, y: &Field<i32, 1>, step: i32) {
    for [i] in y {
        if i + step >= 0 && i + step < 4 {
            y[[i]] = x[[i + step]];
        }
    }
}

#[kernel]
fn from_host(y: &Field<i32, 1>, a: &[i32], step: i32) {
    for [i] in y {
        y[[i]] = a[[i + step]];
    }
}

#[test]
fn reads_are_checked_on_request() {
    for (tier, interpreted) in [(Tier::Fast, false), (Tier::Best, false), (Tier::Fast, true)] {
        for check in [false, true] {
            let mut builder = World::builder().tier(tier).check_reads(check).lazy(false);
            if interpreted {
                builder = builder.interpreter();
            }
            let world = builder.build().unwrap();
            let x = world.field::<i32, 1>("x", 4).unwrap();
            let y = world.field::<i32, 1>("y", 4).unwrap();
            x.fill(7).unwrap();
            neighbours(&x, &y, 0).unwrap();
            guarded_neighbours(&x, &y, 2).unwrap();
            from_host(&y, &[1, 2, 3, 4], 0).unwrap();
            let read = neighbours(&x, &y, 1);
            assert_eq!(y.to_vec().unwrap(), [7, 7, 7, 0]);
            let host = from_host(&y, &[1, 2, 3, 4], 1);
            assert_eq!(y.to_vec().unwrap(), [2, 3, 4, 0]);
            if !check {
                read.unwrap();
                host.unwrap();
                continue;
            }
            let error = read.unwrap_err().to_string();
            let message = "kernel `neighbours` read field `x` outside of its bounds";
            assert!(
                error.contains(message) && error.contains("the index is [4]"),
                "{error}"
            );
            let error = host.unwrap_err().to_string();
            assert!(
                error.contains("read array `a` outside of its bounds"),
                "{error}"
            );
        }
    }
}

#[kernel]
fn first_of(a: &Array<f32, 2>, b: &NdArray<f32, 1>, y: &Field<f32, 1>, row: i32) {
    for [i] in y {
        y[[i]] = a[[row, 0]] + b[[row]];
    }
}

#[test]
fn debug_worlds_check_reads() {
    for world in worlds() {
        let x = world.field::<i32, 1>("x", 4).unwrap();
        let y = world.field::<i32, 1>("y", 4).unwrap();
        neighbours(&x, &y, 0).unwrap();
        let error = neighbours(&x, &y, 1).unwrap_err();
        assert_eq!(error.code, "W0401");
        let message = "kernel `neighbours` read field `x` outside of its bounds";
        assert_eq!(error.message, message);
        // The index, in `y[[i]] = x[[i + step]]`.
        let at = error.at.as_ref().map(|at| at.column);
        assert_eq!(at, Some(20), "{error}");
        let error = from_host(&y, &[1, 2, 3, 4], 1).unwrap_err();
        let message = "kernel `from_host` read array `a` outside of its bounds";
        assert_eq!(error.message, message);
        let z = world.field::<f32, 1>("z", 4).unwrap();
        let two = world.nd_array::<f32, 1>("two", [2]).unwrap();
        let numbers = [0.0; 4];
        let square = Array::new(&numbers, [2, 2]).unwrap();
        first_of(&square, &two, &z, 1).unwrap();
        let error = first_of(&square, &two, &z, 2).unwrap_err().to_string();
        for array in ["read array `a`", "read array `b`"] {
            assert!(error.contains(array), "{error}");
        }
    }
}

#[test]
fn debug_worlds_without_checks_of_reads() {
    let builder = World::builder().check_reads(false).debug(true);
    let world = builder.build().unwrap();
    let x = world.field::<i32, 1>("x", 4).unwrap();
    let y = world.field::<i32, 1>("y", 4).unwrap();
    neighbours(&x, &y, 1).unwrap();
}

#[kernel]
fn unused_reads(x: &Field<i32, 1>, y: &Field<i32, 1>, a: &[i32], at: i32) {
    for [i] in y {
        let _field = x[[at]];
        let _array = a[[at]];
        y[[i]] = i;
    }
}

#[kernel]
fn repeated_reads(x: &Field<i32, 1>, y: &Field<i32, 1>, at: i32) {
    let once = x[[at]];
    let again = x[[at]];
    y[[0]] = once + again;
}

#[test]
fn reads_are_checked_even_if_their_results_are_not_used() {
    for (tier, interpreted) in [(Tier::Fast, false), (Tier::Best, false), (Tier::Fast, true)] {
        let mut builder = World::builder().tier(tier).check_reads(true).lazy(false);
        if interpreted {
            builder = builder.interpreter();
        }
        let world = builder.build().unwrap();
        let x = world.field::<i32, 1>("x", 4).unwrap();
        let y = world.field::<i32, 1>("y", 4).unwrap();
        unused_reads(&x, &y, &[1, 2, 3, 4], 3).unwrap();
        let error = unused_reads(&x, &y, &[1, 2, 3, 4], 5).unwrap_err();
        let message = "kernel `unused_reads` read field `x` outside of its bounds";
        assert!(error.message.contains(message), "{error}");
        let also = error.to_string();
        assert!(
            also.contains("read array `a` outside of its bounds"),
            "{also}"
        );
        assert_eq!(y.to_vec().unwrap(), [0, 1, 2, 3]);
        // Both lines are reported.
        let error = repeated_reads(&x, &y, 5).unwrap_err().to_string();
        assert!(error.contains("\n  = note: also"), "{error}");
    }
}

#[kernel]
fn scale(x: &Field<f32, 1>, y: &Field<f64, 1>, a: f32, b: f64) {
    for [i] in x {
        x[[i]] *= a;
        y[[i]] *= b;
    }
}

#[test]
fn fast_math_flushes_subnormal_numbers() {
    for (tier, interpreted) in [(Tier::Fast, false), (Tier::Best, false), (Tier::Fast, true)] {
        for math in [Math::Strict, Math::Contract, Math::Fast] {
            let mut builder = World::builder().tier(tier).math(math).threads(2);
            if interpreted {
                builder = builder.interpreter();
            }
            let world = builder.build().unwrap();
            let x = world.field::<f32, 1>("x", 10_000).unwrap();
            let y = world.field::<f64, 1>("y", 10_000).unwrap();
            // A subnormal argument, and a subnormal result.
            for (from, by) in [(1e-40f32, 3.0f32), (1e-30, 1e-10)] {
                x.fill(from).unwrap();
                y.fill(f64::from(from) * 1e-280).unwrap();
                scale(&x, &y, by, f64::from(by)).unwrap();
                let flushed = math == Math::Fast;
                assert_eq!(x.get([9_999]).unwrap() == 0.0, flushed, "{math:?} {from}");
                assert_eq!(y.get([9_999]).unwrap() == 0.0, flushed, "{math:?} {from}");
            }
            // This thread computes as before.
            assert!(std::hint::black_box(1e-40f32) * std::hint::black_box(0.5) > 0.0);
        }
    }
}
