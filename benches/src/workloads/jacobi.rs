//! One sweep of the 5-point stencil, zero outside.

use std::sync::Arc;

use wuji::prelude::*;

use crate::case::{Case, Contender, launches, made, noise};
use crate::cpp::Cpp;
use crate::host::Floats;
use crate::host_fn;
use crate::pool::Pool;

const N: usize = 4096;

pub struct Jacobi;

struct State {
    u: Floats,
    v: Floats,
    zeros: Vec<f32>,
}

impl State {
    fn new() -> State {
        State {
            u: Floats::new(N * N, noise),
            v: Floats::zeros(N * N),
            zeros: vec![0.0; N],
        }
    }
}

host_fn! {
    fn rows(u: &[f32], zeros: &[f32], first: usize, out: &mut [f32]) {
        for (r, out) in out.chunks_exact_mut(N).enumerate() {
            let i = first + r;
            let mid = &u[i * N..][..N];
            let up = if i > 0 { &u[(i - 1) * N..][..N] } else { &zeros[..N] };
            let down = if i + 1 < N { &u[(i + 1) * N..][..N] } else { &zeros[..N] };
            out[0] = 0.25 * (up[0] + down[0] + mid[1]);
            for j in 1..N - 1 {
                out[j] = 0.25 * (up[j] + down[j] + mid[j - 1] + mid[j + 1]);
            }
            out[N - 1] = 0.25 * (up[N - 1] + down[N - 1] + mid[N - 2]);
        }
    }
}

#[kernel]
fn jacobi(u: &Field<f32, 2>, v: &Field<f32, 2>) {
    for [i, j] in v {
        v[[i, j]] = 0.25 * (u[[i - 1, j]] + u[[i + 1, j]] + u[[i, j - 1]] + u[[i, j + 1]]);
    }
}

impl Case for Jacobi {
    fn name(&self) -> &'static str {
        "jacobi"
    }
    fn size(&self) -> String {
        "4096x4096".into()
    }
    fn metric(&self) -> &'static str {
        "GB/s"
    }
    fn work(&self) -> f64 {
        2.0 * 4.0 * (N * N) as f64 / 1e9
    }
    fn tolerance(&self) -> f32 {
        1e-6
    }

    fn reference(&self, pool: &Arc<Pool>) -> Box<dyn Contender> {
        let pool = Arc::clone(pool);
        made(
            State::new(),
            move |s| {
                let (u, zeros): (&[f32], &[f32]) = (&s.u, &s.zeros);
                pool.split(&mut s.v, N, |at, out| rows(u, zeros, at / N, out));
            },
            |s| s.v.to_vec(),
        )
    }

    fn wuji(&self, world: &World) -> wuji::Result<Box<dyn Contender>> {
        let u = world.layout(|root| root.dense(IJ, N as i64).place::<f32, 2>("u"))?;
        let v = world.layout(|root| root.dense(IJ, N as i64).place::<f32, 2>("v"))?;
        u.copy_from(&State::new().u)?;
        let out = v.clone();
        Ok(launches(move || jacobi(&u, &v), move || out.to_vec()))
    }

    /// `u` is padded with a border of zeros, so that every neighbour is an element.
    fn wuji_inside(&self, world: &World) -> wuji::Result<Box<dyn Contender>> {
        let n = N as i64;
        let u = world.layout(|root| root.dense(IJ, n + 2).offset([-1, -1]).place::<f32, 2>("u"))?;
        let v = world.layout(|root| root.dense(IJ, n).place::<f32, 2>("v"))?;
        u.window([0..n, 0..n])?.copy_from(&State::new().u)?;
        let out = v.clone();
        Ok(launches(move || jacobi(&u, &v), move || out.to_vec()))
    }

    fn cpp(&self, cpp: &Cpp, _threads: usize) -> Result<Box<dyn Contender>, String> {
        // SAFETY: the signature in `benches/cpp/jacobi.cpp`.
        let f = unsafe {
            cpp.function::<unsafe extern "C" fn(*const f32, *mut f32, usize)>(c"cpp_jacobi")?
        };
        // SAFETY: both hold N * N floats.
        Ok(made(
            State::new(),
            move |s| unsafe { f(s.u.as_ptr(), s.v.as_mut_ptr(), N) },
            |s| s.v.to_vec(),
        ))
    }
}
