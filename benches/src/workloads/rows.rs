//! `y -= a (x . y) x` on fields of vectors with 2, 3 and 4 interleaved components, in cache.

use std::sync::Arc;

use wuji::prelude::*;

use crate::case::{Case, Contender, launches, made, noise};
use crate::cpp::Cpp;
use crate::host::Floats;
use crate::host_fn;
use crate::pool::Pool;

const N: usize = 1 << 15;
/// Sweeps per sample.
const SWEEPS: usize = 20;
/// Small, so that `y` keeps its magnitude over many samples.
const A: f32 = 1.0 / 4096.0;

struct State {
    x: Floats,
    y: Floats,
}

impl State {
    fn new(width: usize) -> State {
        State {
            x: Floats::new(N * width, |i| noise(i) - 0.5),
            y: Floats::new(N * width, |i| noise(i + N)),
        }
    }
}

macro_rules! rows {
    ($case:ident, $name:literal, $width:literal, $vector:ident, $host:ident, $kernel:ident, $cpp:literal) => {
        pub struct $case;

        host_fn! {
            fn $host(a: f32, x: &[f32], y: &mut [f32]) {
                let (x, _) = x.as_chunks::<$width>();
                let (y, _) = y.as_chunks_mut::<$width>();
                for (y, x) in y.iter_mut().zip(x) {
                    let mut along = 0.0f32;
                    for k in 0..$width {
                        along = x[k].mul_add(y[k], along);
                    }
                    for k in 0..$width {
                        y[k] = (-a * along).mul_add(x[k], y[k]);
                    }
                }
            }
        }

        #[kernel]
        fn $kernel(a: f32, x: &Field<$vector, 1>, y: &Field<$vector, 1>) {
            for [i] in y {
                let along = x[[i]].dot(y[[i]]);
                y[[i]] = y[[i]] - x[[i]] * (a * along);
            }
        }

        impl Case for $case {
            fn name(&self) -> &'static str {
                $name
            }
            fn size(&self) -> String {
                "2^15".into()
            }
            fn metric(&self) -> &'static str {
                "M/s"
            }
            fn work(&self) -> f64 {
                (SWEEPS * N) as f64 / 1e6
            }
            fn tolerance(&self) -> f32 {
                1e-5
            }

            fn reference(&self, pool: &Arc<Pool>) -> Box<dyn Contender> {
                let pool = Arc::clone(pool);
                made(
                    State::new($width),
                    move |s| {
                        let x: &[f32] = &s.x;
                        for _ in 0..SWEEPS {
                            pool.split(&mut s.y, 16 * $width, |at, y| {
                                $host(A, &x[at..at + y.len()], y)
                            });
                        }
                    },
                    |s| s.y.to_vec(),
                )
            }

            fn wuji(&self, world: &World) -> wuji::Result<Box<dyn Contender>> {
                let x = world.field::<$vector, 1>("x", N as i64)?;
                let y = world.field::<$vector, 1>("y", N as i64)?;
                let start = State::new($width);
                let vectors = |data: &[f32]| -> Vec<$vector> {
                    let (rows, _) = data.as_chunks::<$width>();
                    rows.iter().map(|r| $vector::from(*r)).collect()
                };
                x.copy_from(&vectors(&start.x))?;
                y.copy_from(&vectors(&start.y))?;
                let out = y.clone();
                Ok(launches(
                    move || (0..SWEEPS).try_for_each(|_| $kernel(A, &x, &y)),
                    move || {
                        let rows = out.to_vec()?;
                        Ok(rows.into_iter().flat_map(<[f32; $width]>::from).collect())
                    },
                ))
            }

            fn cpp(&self, cpp: &Cpp, _threads: usize) -> Result<Box<dyn Contender>, String> {
                // SAFETY: the signature in `benches/cpp/rows.cpp`.
                let f = unsafe {
                    cpp.function::<unsafe extern "C" fn(f32, *const f32, *mut f32, usize)>($cpp)?
                };
                Ok(made(
                    State::new($width),
                    move |s| {
                        for _ in 0..SWEEPS {
                            // SAFETY: both hold N rows.
                            unsafe { f(A, s.x.as_ptr(), s.y.as_mut_ptr(), N) }
                        }
                    },
                    |s| s.y.to_vec(),
                ))
            }
        }
    };
}

rows!(Rows2, "rows2", 2, Vec2, host2, kernel2, c"cpp_rows2");
rows!(Rows3, "rows3", 3, Vec3, host3, kernel3, c"cpp_rows3");
rows!(Rows4, "rows4", 4, Vec4, host4, kernel4, c"cpp_rows4");
