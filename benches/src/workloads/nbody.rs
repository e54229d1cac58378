//! All-pairs gravity, one step.

use std::sync::Arc;

use wuji::prelude::*;

use crate::case::{Case, Contender, launches, made, noise};
use crate::cpp::Cpp;
use crate::host::{Floats, Level};
use crate::pool::Pool;

const N: usize = 8192;
const EPS: f32 = 1e-3;
const DT: f32 = 1e-3;
const MASS: f32 = 1.0 / N as f32;

pub struct Nbody;

/// Positions and velocities, an array per component.
struct State {
    x: [Floats; 3],
    v: [Floats; 3],
    a: Floats,
}

impl State {
    fn new() -> State {
        let component = |d: usize| Floats::new(N, move |i| noise(3 * i + d) - 0.5);
        State {
            x: [component(0), component(1), component(2)],
            v: [Floats::zeros(N), Floats::zeros(N), Floats::zeros(N)],
            a: Floats::zeros(3 * N),
        }
    }
}

/// Accelerations of the 16 bodies from `first` on, as three groups of 16.
fn pull(x: [&[f32]; 3], first: usize, out: &mut [f32]) {
    for k in 0..16 {
        let i = first + k;
        let mut a = [0.0f32; 3];
        for j in 0..N {
            let d = [x[0][j] - x[0][i], x[1][j] - x[1][i], x[2][j] - x[2][i]];
            let inv = 1.0 / (d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + EPS).sqrt();
            let s = inv * inv * inv;
            for c in 0..3 {
                a[c] += d[c] * s;
            }
        }
        for c in 0..3 {
            out[c * 16 + k] = a[c] * MASS;
        }
    }
}

/// The same for AVX-512: an estimate of the reciprocal root with one Newton step (about 2 ulp).
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,fma")]
fn pull_avx512(x: [&[f32]; 3], first: usize, out: &mut [f32]) {
    use std::arch::x86_64::*;
    // SAFETY: the range has 16 floats (checked by the slice).
    let me: [__m512; 3] =
        std::array::from_fn(|c| unsafe { _mm512_loadu_ps(x[c][first..first + 16].as_ptr()) });
    let (half, three_halves) = (_mm512_set1_ps(0.5), _mm512_set1_ps(1.5));
    let eps = _mm512_set1_ps(EPS);
    // Two sets of accumulators hide the latency of the additions.
    let mut a = [[_mm512_setzero_ps(); 3]; 2];
    let bodies = x[0].iter().zip(x[1]).zip(x[2]);
    for (j, ((&bx, &by), &bz)) in bodies.enumerate() {
        let dx = _mm512_sub_ps(_mm512_set1_ps(bx), me[0]);
        let dy = _mm512_sub_ps(_mm512_set1_ps(by), me[1]);
        let dz = _mm512_sub_ps(_mm512_set1_ps(bz), me[2]);
        let r2 = _mm512_fmadd_ps(
            dx,
            dx,
            _mm512_fmadd_ps(dy, dy, _mm512_fmadd_ps(dz, dz, eps)),
        );
        let y = _mm512_rsqrt14_ps(r2);
        let y2 = _mm512_mul_ps(y, y);
        let y = _mm512_mul_ps(
            y,
            _mm512_fnmadd_ps(_mm512_mul_ps(r2, half), y2, three_halves),
        );
        let s = _mm512_mul_ps(_mm512_mul_ps(y, y), y);
        let a = &mut a[j % 2];
        a[0] = _mm512_fmadd_ps(dx, s, a[0]);
        a[1] = _mm512_fmadd_ps(dy, s, a[1]);
        a[2] = _mm512_fmadd_ps(dz, s, a[2]);
    }
    for (c, out) in out.chunks_exact_mut(16).enumerate() {
        let sum = _mm512_mul_ps(_mm512_add_ps(a[0][c], a[1][c]), _mm512_set1_ps(MASS));
        // SAFETY: the chunk has 16 floats.
        unsafe { _mm512_storeu_ps(out.as_mut_ptr(), sum) };
    }
}

/// The same for AVX2, in two halves; its estimate is coarser, so it takes two Newton steps.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn pull_avx2(x: [&[f32]; 3], first: usize, out: &mut [f32]) {
    use std::arch::x86_64::*;
    for part in 0..2 {
        let at = first + 8 * part;
        // SAFETY: the range has 8 floats (checked by the slice).
        let me: [__m256; 3] =
            std::array::from_fn(|c| unsafe { _mm256_loadu_ps(x[c][at..at + 8].as_ptr()) });
        let (half, three_halves) = (_mm256_set1_ps(0.5), _mm256_set1_ps(1.5));
        let mut a = [_mm256_setzero_ps(); 3];
        for ((&bx, &by), &bz) in x[0].iter().zip(x[1]).zip(x[2]) {
            let dx = _mm256_sub_ps(_mm256_set1_ps(bx), me[0]);
            let dy = _mm256_sub_ps(_mm256_set1_ps(by), me[1]);
            let dz = _mm256_sub_ps(_mm256_set1_ps(bz), me[2]);
            let r2 = _mm256_fmadd_ps(dz, dz, _mm256_set1_ps(EPS));
            let r2 = _mm256_fmadd_ps(dx, dx, _mm256_fmadd_ps(dy, dy, r2));
            let h = _mm256_mul_ps(r2, half);
            let mut y = _mm256_rsqrt_ps(r2);
            for _ in 0..2 {
                y = _mm256_mul_ps(y, _mm256_fnmadd_ps(h, _mm256_mul_ps(y, y), three_halves));
            }
            let s = _mm256_mul_ps(_mm256_mul_ps(y, y), y);
            a[0] = _mm256_fmadd_ps(dx, s, a[0]);
            a[1] = _mm256_fmadd_ps(dy, s, a[1]);
            a[2] = _mm256_fmadd_ps(dz, s, a[2]);
        }
        for (c, out) in out.chunks_exact_mut(16).enumerate() {
            let out = &mut out[8 * part..8 * part + 8];
            // SAFETY: 8 floats.
            unsafe {
                _mm256_storeu_ps(out.as_mut_ptr(), _mm256_mul_ps(a[c], _mm256_set1_ps(MASS)))
            };
        }
    }
}

fn accelerations(x: [&[f32]; 3], first: usize, out: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    match Level::detect() {
        // SAFETY: the CPU has these features.
        Level::Avx512 => return unsafe { pull_avx512(x, first, out) },
        // SAFETY: the CPU has these features.
        Level::Avx2 => return unsafe { pull_avx2(x, first, out) },
        Level::Baseline => {}
    }
    pull(x, first, out);
}

fn step(s: &mut State, pool: &Pool) {
    let x = [&*s.x[0], &*s.x[1], &*s.x[2]];
    pool.split(&mut s.a, 48, |at, out| {
        for (k, out) in out.chunks_exact_mut(48).enumerate() {
            accelerations(x, (at / 48 + k) * 16, out);
        }
    });
    for d in 0..3 {
        for i in 0..N {
            s.v[d][i] += DT * s.a[i / 16 * 48 + d * 16 + i % 16];
            s.x[d][i] += DT * s.v[d][i];
        }
    }
}

fn positions(s: &State) -> Vec<f32> {
    s.x.iter().flat_map(|x| x.iter().copied()).collect()
}

#[kernel]
fn gravity(
    x: &Field<f32, 1>,
    y: &Field<f32, 1>,
    z: &Field<f32, 1>,
    u: &Field<f32, 1>,
    v: &Field<f32, 1>,
    w: &Field<f32, 1>,
) {
    for [i] in x {
        let me = vec3(x[[i]], y[[i]], z[[i]]);
        let mut a = vec3(0.0, 0.0, 0.0);
        for j in 0..N as i32 {
            let d = vec3(x[[j]], y[[j]], z[[j]]) - me;
            let inv = (d.norm_sqr() + EPS).rsqrt();
            a += d * (inv * inv * inv);
        }
        u[[i]] += DT * MASS * a.x;
        v[[i]] += DT * MASS * a.y;
        w[[i]] += DT * MASS * a.z;
    }
    for [i] in x {
        x[[i]] += DT * u[[i]];
        y[[i]] += DT * v[[i]];
        z[[i]] += DT * w[[i]];
    }
}

impl Case for Nbody {
    fn name(&self) -> &'static str {
        "nbody"
    }
    fn size(&self) -> String {
        "8192".into()
    }
    fn metric(&self) -> &'static str {
        "Ginter/s"
    }
    fn work(&self) -> f64 {
        (N * N) as f64 / 1e9
    }
    fn tolerance(&self) -> f32 {
        1e-4
    }

    fn reference(&self, pool: &Arc<Pool>) -> Box<dyn Contender> {
        let pool = Arc::clone(pool);
        made(State::new(), move |s| step(s, &pool), positions)
    }

    fn wuji(&self, world: &World) -> wuji::Result<Box<dyn Contender>> {
        // A node for each component: struct of arrays (SoA).
        let [x, y, z, u, v, w] = world.layout(|root| {
            ["x", "y", "z", "u", "v", "w"].map(|name| root.dense(I, N as i64).place::<f32, 1>(name))
        })?;
        let start = State::new();
        for (field, values) in [&x, &y, &z].into_iter().zip(&start.x) {
            field.copy_from(values)?;
        }
        let out = [x.clone(), y.clone(), z.clone()];
        let view = move || {
            let mut all = Vec::with_capacity(3 * N);
            for field in &out {
                all.extend(field.to_vec()?);
            }
            Ok(all)
        };
        Ok(launches(move || gravity(&x, &y, &z, &u, &v, &w), view))
    }

    fn cpp(&self, cpp: &Cpp, _threads: usize) -> Result<Box<dyn Contender>, String> {
        type Step =
            unsafe extern "C" fn(*mut f32, *mut f32, *mut f32, *mut f32, *mut f32, *mut f32, usize);
        // SAFETY: the signature in `benches/cpp/nbody.cpp`.
        let f = unsafe { cpp.function::<Step>(c"cpp_nbody")? };
        Ok(made(
            State::new(),
            move |s| {
                let [x, y, z] = s.x.each_mut().map(|x| x.as_mut_ptr());
                let [u, v, w] = s.v.each_mut().map(|v| v.as_mut_ptr());
                // SAFETY: each holds N floats.
                unsafe { f(x, y, z, u, v, w, N) }
            },
            positions,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_is_good_enough() {
        let s = State::new();
        let x = [&*s.x[0], &*s.x[1], &*s.x[2]];
        let (mut a, mut b) = ([0.0; 48], [0.0; 48]);
        pull(x, 160, &mut a);
        accelerations(x, 160, &mut b);
        assert!(crate::case::difference(&b, &a) < 1e-4);
    }
}
