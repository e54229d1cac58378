//! Loops that write what they do not read: `z = a`, `z = a x + y`. The references use non-temporal stores.

use std::sync::Arc;

use wuji::prelude::*;

use crate::case::{Case, Contender, launches, made, noise};
use crate::cpp::Cpp;
use crate::host::{Floats, Level};
use crate::pool::Pool;

const N: usize = 1 << 24;
const A: f32 = 1.5;

pub struct Fill;
pub struct Triad;

struct State {
    x: Floats,
    y: Floats,
    z: Floats,
}

impl State {
    fn new() -> State {
        State {
            x: Floats::new(N, |i| noise(i) - 0.5),
            y: Floats::new(N, |i| noise(i + N)),
            z: Floats::zeros(N),
        }
    }
}

/// `z` is aligned to a cache line and a multiple of it.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn fill_avx2(a: f32, z: &mut [f32]) {
    use std::arch::x86_64::*;
    let a = _mm256_set1_ps(a);
    let mut lines = z.chunks_exact_mut(16);
    for z in &mut lines {
        // SAFETY: sixteen floats, aligned to a cache line.
        unsafe {
            _mm256_stream_ps(z.as_mut_ptr(), a);
            _mm256_stream_ps(z.as_mut_ptr().add(8), a);
        }
    }
    assert!(lines.into_remainder().is_empty(), "whole lines");
    _mm_sfence();
}

/// As for `fill_avx2`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn triad_avx2(a: f32, x: &[f32], y: &[f32], z: &mut [f32]) {
    use std::arch::x86_64::*;
    let a = _mm256_set1_ps(a);
    let sources = x.chunks_exact(16).zip(y.chunks_exact(16));
    for (z, (x, y)) in z.chunks_exact_mut(16).zip(sources) {
        for k in [0, 8] {
            // SAFETY: sixteen floats each, those of `z` aligned to a cache line.
            unsafe {
                let (x, y) = (x.as_ptr().add(k), y.as_ptr().add(k));
                let sum = _mm256_fmadd_ps(a, _mm256_loadu_ps(x), _mm256_loadu_ps(y));
                _mm256_stream_ps(z.as_mut_ptr().add(k), sum);
            }
        }
    }
    _mm_sfence();
}

fn fill(a: f32, z: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if Level::detect() != Level::Baseline {
        // SAFETY: the CPU has these features.
        return unsafe { fill_avx2(a, z) };
    }
    z.fill(a);
}

fn triad(a: f32, x: &[f32], y: &[f32], z: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if Level::detect() != Level::Baseline {
        // SAFETY: the CPU has these features.
        return unsafe { triad_avx2(a, x, y, z) };
    }
    for (z, (x, y)) in z.iter_mut().zip(x.iter().zip(y)) {
        *z = a.mul_add(*x, *y);
    }
}

#[kernel]
fn fill_kernel(a: f32, z: &Field<f32, 1>) {
    for [i] in z {
        z[[i]] = a;
    }
}

#[kernel]
fn triad_kernel(a: f32, x: &Field<f32, 1>, y: &Field<f32, 1>, z: &Field<f32, 1>) {
    for [i] in z {
        z[[i]] = a * x[[i]] + y[[i]];
    }
}

fn field(world: &World, name: &str) -> wuji::Result<Field<f32, 1>> {
    world.layout(|root| root.dense(I, N as i64).place::<f32, 1>(name))
}

impl Case for Fill {
    fn name(&self) -> &'static str {
        "fill"
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
        0.0
    }

    fn reference(&self, pool: &Arc<Pool>) -> Box<dyn Contender> {
        let pool = Arc::clone(pool);
        made(
            Floats::zeros(N),
            move |z| pool.split(z, 16, |_, z| fill(A, z)),
            |z| z.to_vec(),
        )
    }

    fn wuji(&self, world: &World) -> wuji::Result<Box<dyn Contender>> {
        let z = field(world, "z")?;
        let out = z.clone();
        Ok(launches(move || fill_kernel(A, &z), move || out.to_vec()))
    }

    fn cpp(&self, cpp: &Cpp, _threads: usize) -> Result<Box<dyn Contender>, String> {
        // SAFETY: the signature in `benches/cpp/writes.cpp`.
        let f = unsafe { cpp.function::<unsafe extern "C" fn(f32, *mut f32, usize)>(c"cpp_fill")? };
        // SAFETY: it holds N floats.
        Ok(made(
            Floats::zeros(N),
            move |z| unsafe { f(A, z.as_mut_ptr(), N) },
            |z| z.to_vec(),
        ))
    }
}

impl Case for Triad {
    fn name(&self) -> &'static str {
        "triad"
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
                let (x, y): (&[f32], &[f32]) = (&s.x, &s.y);
                pool.split(&mut s.z, 16, |at, z| {
                    triad(A, &x[at..at + z.len()], &y[at..at + z.len()], z);
                });
            },
            |s| s.z.to_vec(),
        )
    }

    fn wuji(&self, world: &World) -> wuji::Result<Box<dyn Contender>> {
        let (x, y, z) = (field(world, "x")?, field(world, "y")?, field(world, "z")?);
        let start = State::new();
        x.copy_from(&start.x)?;
        y.copy_from(&start.y)?;
        let out = z.clone();
        Ok(launches(
            move || triad_kernel(A, &x, &y, &z),
            move || out.to_vec(),
        ))
    }

    fn cpp(&self, cpp: &Cpp, _threads: usize) -> Result<Box<dyn Contender>, String> {
        type Loop = unsafe extern "C" fn(f32, *const f32, *const f32, *mut f32, usize);
        // SAFETY: the signature in `benches/cpp/writes.cpp`.
        let f = unsafe { cpp.function::<Loop>(c"cpp_triad")? };
        // SAFETY: all hold N floats.
        Ok(made(
            State::new(),
            move |s| unsafe { f(A, s.x.as_ptr(), s.y.as_ptr(), s.z.as_mut_ptr(), N) },
            |s| s.z.to_vec(),
        ))
    }
}
