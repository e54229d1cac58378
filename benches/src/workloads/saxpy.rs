//! `y = a x + y`.

use std::sync::Arc;

use wuji::prelude::*;

use crate::case::{Case, Contender, launches, made, noise};
use crate::cpp::Cpp;
use crate::host::Floats;
use crate::host_fn;
use crate::pool::Pool;

const N: usize = 1 << 24;
/// Small, so that `y` keeps its magnitude over many samples.
const A: f32 = 1.0 / 1024.0;

pub struct Saxpy;

struct State {
    x: Floats,
    y: Floats,
}

impl State {
    fn new() -> State {
        State {
            x: Floats::new(N, |i| noise(i) - 0.5),
            y: Floats::new(N, |i| noise(i + N)),
        }
    }
}

host_fn! {
    fn saxpy(a: f32, x: &[f32], y: &mut [f32]) {
        for (y, x) in y.iter_mut().zip(x) {
            *y = a.mul_add(*x, *y);
        }
    }
}

#[kernel]
fn saxpy_kernel(a: f32, x: &Field<f32, 1>, y: &Field<f32, 1>) {
    for [i] in y {
        y[[i]] = a * x[[i]] + y[[i]];
    }
}

impl Case for Saxpy {
    fn name(&self) -> &'static str {
        "saxpy"
    }
    fn size(&self) -> String {
        "2^24".into()
    }
    fn metric(&self) -> &'static str {
        "GB/s"
    }
    fn work(&self) -> f64 {
        3.0 * 4.0 * N as f64 / 1e9
    }
    fn tolerance(&self) -> f32 {
        1e-6
    }

    fn reference(&self, pool: &Arc<Pool>) -> Box<dyn Contender> {
        let pool = Arc::clone(pool);
        made(
            State::new(),
            move |s| {
                let x: &[f32] = &s.x;
                pool.split(&mut s.y, 16, |at, y| saxpy(A, &x[at..at + y.len()], y));
            },
            |s| s.y.to_vec(),
        )
    }

    fn wuji(&self, world: &World) -> wuji::Result<Box<dyn Contender>> {
        let x = world.layout(|root| root.dense(I, N as i64).place::<f32, 1>("x"))?;
        let y = world.layout(|root| root.dense(I, N as i64).place::<f32, 1>("y"))?;
        let start = State::new();
        x.copy_from(&start.x)?;
        y.copy_from(&start.y)?;
        let out = y.clone();
        Ok(launches(
            move || saxpy_kernel(A, &x, &y),
            move || out.to_vec(),
        ))
    }

    fn cpp(&self, cpp: &Cpp, _threads: usize) -> Result<Box<dyn Contender>, String> {
        // SAFETY: the signature in `benches/cpp/saxpy.cpp`.
        let f = unsafe {
            cpp.function::<unsafe extern "C" fn(f32, *const f32, *mut f32, usize)>(c"cpp_saxpy")?
        };
        // SAFETY: both hold N floats.
        Ok(made(
            State::new(),
            move |s| unsafe { f(A, s.x.as_ptr(), s.y.as_mut_ptr(), N) },
            |s| s.y.to_vec(),
        ))
    }
}
