//! Throughput of mathematical functions on a GPU, with Wuji's implementations and, if it is installed, with NVIDIA's
//! `libdevice`.

use super::{Line, timed, without};
use wuji::prelude::*;
use wuji::{CacheChoice, LibdeviceChoice, Math, Result};

/// The number of threads, and of evaluations per thread.
const THREADS: i64 = 1 << 21;
const ROUNDS: i32 = 128;

/// A function, its type, and the kernel that evaluates it on a range of arguments.
macro_rules! functions {
    ($($kernel:ident $name:literal $ty:ident ($from:literal, $to:literal) $x:ident { $($value:tt)* })*) => {
        $(
            #[kernel]
            fn $kernel(out: &Field<$ty, 1>) {
                for [i] in out {
                    let step = ($to - $from) / 160.0;
                    let mut $x = $from + step * ((i % 32) as $ty);
                    let mut sum = 0.0;
                    for _ in 0..ROUNDS {
                        sum += $($value)*;
                        $x += step;
                    }
                    out[[i]] = sum;
                }
            }
        )*

        /// The time of each function in a world, in seconds.
        fn times(world: &World) -> Result<Vec<(&'static str, &'static str, f64)>> {
            let mut times = Vec::new();
            $(
                let out = world.field::<$ty, 1>("out", [THREADS])?;
                times.push(($name, stringify!($ty), timed(world, || $kernel(&out))?));
            )*
            Ok(times)
        }
    };
}

functions! {
    sin32 "sin" f32 (-8.0, 8.0) x { x.sin() }
    cos32 "cos" f32 (-8.0, 8.0) x { x.cos() }
    tan32 "tan" f32 (-8.0, 8.0) x { x.tan() }
    asin32 "asin" f32 (-1.0, 1.0) x { x.asin() }
    acos32 "acos" f32 (-1.0, 1.0) x { x.acos() }
    atan32 "atan" f32 (-8.0, 8.0) x { x.atan() }
    sinh32 "sinh" f32 (-8.0, 8.0) x { x.sinh() }
    cosh32 "cosh" f32 (-8.0, 8.0) x { x.cosh() }
    tanh32 "tanh" f32 (-8.0, 8.0) x { x.tanh() }
    exp32 "exp" f32 (-8.0, 8.0) x { x.exp() }
    exp2_32 "exp2" f32 (-8.0, 8.0) x { x.exp2() }
    log32 "log" f32 (0.1, 8.0) x { x.ln() }
    log2_32 "log2" f32 (0.1, 8.0) x { x.log2() }
    log10_32 "log10" f32 (0.1, 8.0) x { x.log10() }
    pow32 "pow" f32 (0.1, 8.0) x { x.powf(x) }
    atan2_32 "atan2" f32 (-8.0, 8.0) x { x.atan2(1.5) }
    sin64 "sin" f64 (-8.0, 8.0) x { x.sin() }
    cos64 "cos" f64 (-8.0, 8.0) x { x.cos() }
    tan64 "tan" f64 (-8.0, 8.0) x { x.tan() }
    asin64 "asin" f64 (-1.0, 1.0) x { x.asin() }
    acos64 "acos" f64 (-1.0, 1.0) x { x.acos() }
    atan64 "atan" f64 (-8.0, 8.0) x { x.atan() }
    sinh64 "sinh" f64 (-8.0, 8.0) x { x.sinh() }
    cosh64 "cosh" f64 (-8.0, 8.0) x { x.cosh() }
    tanh64 "tanh" f64 (-8.0, 8.0) x { x.tanh() }
    exp64 "exp" f64 (-8.0, 8.0) x { x.exp() }
    exp2_64 "exp2" f64 (-8.0, 8.0) x { x.exp2() }
    log64 "log" f64 (0.1, 8.0) x { x.ln() }
    log2_64 "log2" f64 (0.1, 8.0) x { x.log2() }
    log10_64 "log10" f64 (0.1, 8.0) x { x.log10() }
    pow64 "pow" f64 (0.1, 8.0) x { x.powf(x) }
    atan2_64 "atan2" f64 (-8.0, 8.0) x { x.atan2(1.5) }
}

/// Rows of the table, for both math modes that use the library.
pub(super) fn lines() -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    for (math, mode) in [(Math::Contract, "default"), (Math::Fast, "fast")] {
        let own = times(&world(math, LibdeviceChoice::Off)?)?;
        let library = match LibdeviceChoice::Find.path() {
            Some(_) => times(&world(math, LibdeviceChoice::Find)?)?,
            None => Vec::new(),
        };
        let per_second = |time: f64| THREADS as f64 * f64::from(ROUNDS) / time / 1e9;
        for (k, (name, ty, time)) in own.into_iter().enumerate() {
            lines.push(Line {
                name,
                size: format!("{ty}, {mode}"),
                metric: "G/s",
                value: per_second(time),
                against: "with libdevice",
                reference: library.get(k).map(|(_, _, time)| per_second(*time)),
            });
        }
    }
    Ok(lines)
}

fn world(math: Math, libdevice: LibdeviceChoice) -> Result<World> {
    World::builder()
        .cuda(0)
        .math(math)
        .cache(CacheChoice::Off)
        .libdevice(libdevice)
        .without(&without())
        .build()
}
