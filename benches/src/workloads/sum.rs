//! The sum of many floats.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use wuji::prelude::*;

use crate::case::{Case, Contender, launches, made, noise};
use crate::cpp::Cpp;
use crate::host::Floats;
use crate::host_fn;
use crate::pool::Pool;

const N: usize = 1 << 24;
/// Independent partial sums: enough to hide the latency of four vector adds.
const LANES: usize = 128;

pub struct Sum;

struct State {
    x: Floats,
    total: f32,
}

impl State {
    fn new() -> State {
        State {
            x: Floats::new(N, noise),
            total: 0.0,
        }
    }
}

host_fn! {
    fn sum(x: &[f32]) -> f32 {
        let mut lanes = [0.0f32; LANES];
        let chunks = x.chunks_exact(LANES);
        let tail: f32 = chunks.remainder().iter().sum();
        for chunk in chunks {
            for k in 0..LANES {
                lanes[k] += chunk[k];
            }
        }
        let mut width = LANES / 2;
        while width > 0 {
            for k in 0..width {
                lanes[k] += lanes[k + width];
            }
            width /= 2;
        }
        lanes[0] + tail
    }
}

#[kernel]
fn sum_kernel(x: &Field<f32, 1>) -> f32 {
    let mut total = 0.0;
    for [i] in x {
        total += x[[i]];
    }
    total
}

impl Case for Sum {
    fn name(&self) -> &'static str {
        "sum"
    }
    fn size(&self) -> String {
        "2^24".into()
    }
    fn metric(&self) -> &'static str {
        "GB/s"
    }
    fn work(&self) -> f64 {
        4.0 * N as f64 / 1e9
    }
    fn tolerance(&self) -> f32 {
        1e-4
    }

    fn reference(&self, pool: &Arc<Pool>) -> Box<dyn Contender> {
        let pool = Arc::clone(pool);
        made(
            State::new(),
            move |s| {
                let (x, threads) = (&*s.x, pool.threads());
                let mut parts = vec![0.0f32; threads];
                pool.each(&mut parts, |t, part| {
                    *part = sum(&x[N * t / threads..N * (t + 1) / threads])
                });
                s.total = parts.iter().sum();
            },
            |s| vec![s.total],
        )
    }

    fn wuji(&self, world: &World) -> wuji::Result<Box<dyn Contender>> {
        let x = world.layout(|root| root.dense(I, N as i64).place::<f32, 1>("x"))?;
        x.copy_from(&State::new().x)?;
        let total = Rc::new(Cell::new(0.0));
        let out = Rc::clone(&total);
        let run = move || {
            total.set(sum_kernel(&x)?);
            Ok(())
        };
        Ok(launches(run, move || Ok(vec![out.get()])))
    }

    fn cpp(&self, cpp: &Cpp, _threads: usize) -> Result<Box<dyn Contender>, String> {
        // SAFETY: the signature in `benches/cpp/sum.cpp`.
        let f =
            unsafe { cpp.function::<unsafe extern "C" fn(*const f32, usize) -> f32>(c"cpp_sum")? };
        Ok(made(
            State::new(),
            move |s| {
                // SAFETY: N floats.
                s.total = unsafe { f(s.x.as_ptr(), N) };
            },
            |s| vec![s.total],
        ))
    }
}
