//! Limits of the kernel language that only long programs reach.

// Blocks in blocks are the point.
#![allow(clippy::all)]

use wuji::prelude::*;

fn field() -> Field<f32, 1> {
    World::interpreter().unwrap().field("x", [4]).unwrap()
}

/// A kernel whose body is inside of one `if` for each star.
macro_rules! nested {
    ($name:ident $i:ident $body:tt) => {
        #[kernel]
        fn $name(x: &Field<f32, 1>) {
            for [$i] in x {
                let $i = $i + 0;
                $body
            }
        }
    };
    ($name:ident $i:ident $body:tt * $($more:tt)*) => {
        nested!($name $i { if $i >= 0 $body } $($more)*);
    };
}

nested!(fits i { let _a = i; } * * * * * * * * * * * * * * * * * * * *);
nested!(too_deep i { let _a = i; } * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * *);

#[test]
fn nested_code() {
    assert_eq!(fits(&field()).map_err(|e| e.code), Ok(()));
    let error = too_deep(&field()).unwrap_err();
    assert_eq!(error.code, "W0205");
    assert!(error.at.is_some() && error.help.is_some(), "{error}");
}

/// Functions of fields that each call the next.
macro_rules! chain {
    ($last:ident) => {
        #[func]
        fn $last(x: &Field<f32, 1>) -> f32 {
            x[[0]]
        }
    };
    ($first:ident $next:ident $($more:ident)*) => {
        #[func]
        fn $first(x: &Field<f32, 1>) -> f32 {
            $next(x)
        }
        chain!($next $($more)*);
    };
}

chain!(f0 f1 f2 f3 f4 f5 f6 f7 f8 f9 f10 f11 f12 f13 f14 f15 f16 f17 f18 f19 f20 f21 f22 f23 f24 f25 f26 f27 f28 f29 f30 f31 f32 f33 f34 f35 f36 f37 f38 f39 f40 f41 f42 f43 f44 f45 f46 f47 f48 f49 f50 f51 f52 f53 f54 f55 f56 f57 f58 f59 f60 f61 f62 f63 f64 f65 f66);

#[kernel]
fn calls_some(x: &Field<f32, 1>) {
    for [i] in x {
        x[[i]] = f10(x);
    }
}

#[kernel]
fn calls_all(x: &Field<f32, 1>) {
    for [i] in x {
        x[[i]] = f0(x);
    }
}

#[test]
fn functions_in_functions() {
    assert_eq!(calls_some(&field()).map_err(|e| e.code), Ok(()));
    let error = calls_all(&field()).unwrap_err();
    assert_eq!(error.code, "W0242");
    assert!(error.at.is_some() && error.help.is_some(), "{error}");
}

/// 160 KB of local arrays in each iteration.
#[kernel]
fn large_arrays(x: &Field<f64, 1>, shift: i32) {
    for [i] in x {
        let mut a = [0.0f64; 20_000];
        for k in 0..20_000 {
            a[(k * 7 + shift) % 20_000] = (k + i) as f64;
        }
        x[[i]] = a[(i * 13 + shift) % 20_000];
    }
}

/// The same in serial code.
#[kernel]
fn large_array(x: &Field<f64, 1>, shift: i32) {
    let mut a = [0.0f64; 20_000];
    let mut k = 0;
    while k < 20_000 {
        a[(k * 7 + shift) % 20_000] = k as f64;
        k += 1;
    }
    x[[0]] = a[shift % 20_000];
    x[[1]] = a[(shift + 21) % 20_000];
}

#[func]
fn nested(x: f64, n: i32) -> f64 {
    let mut a = [0.0f64; 100];
    for k in 0..100 {
        a[(k * 3 + n) % 100] = x * k as f64;
    }
    let below = if n > 0 { nested(x, n - 1) } else { 0.0 };
    below + a[(n + 3) % 100]
}

/// Local arrays on every level of recursion.
#[kernel]
fn recursive_arrays(x: &Field<f64, 1>, n: i32) {
    x[[0]] = nested(x[[3]], n * 15);
}

/// Runs a kernel on this thread and on one with 128 KiB of stack.
#[test]
fn large_frames_run_on_threads_with_small_stacks() {
    type Run = fn(&Field<f64, 1>, i32) -> wuji::Result<()>;
    for threads in [1, 3] {
        for tier in [Tier::Fast, Tier::Best, Tier::Auto] {
            let world = World::builder()
                .threads(threads)
                .tier(tier)
                .build()
                .unwrap();
            for run in [large_arrays as Run, large_array, recursive_arrays] {
                let x = world.field::<f64, 1>("x", [500]).unwrap();
                let values: Vec<f64> = (0..500).map(f64::from).collect();
                let results = |small: bool| {
                    x.copy_from(&values).unwrap();
                    if small {
                        let thread = std::thread::Builder::new().stack_size(128 << 10);
                        std::thread::scope(|scope| {
                            let launch = thread.spawn_scoped(scope, || run(&x, 11).unwrap());
                            launch.unwrap().join().unwrap();
                        });
                    } else {
                        run(&x, 11).unwrap();
                    }
                    x.to_vec().unwrap()
                };
                let expected = results(false);
                assert_eq!(results(true), expected);
                assert!(expected[0] != 0.0 || expected[1] != 1.0);
            }
        }
    }
}
