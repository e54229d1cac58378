//! A Julia set: a loop of data-dependent length per pixel.

use std::sync::Arc;

use wuji::prelude::*;

use crate::case::{Case, Contender, launches, made};
use crate::cpp::Cpp;
use crate::host::{Floats, Level};
use crate::pool::Pool;

const WIDTH: usize = 640;
const HEIGHT: usize = 320;
const N: f32 = 320.0;
const STEPS: u32 = 50;
const C: [f32; 2] = [-0.8, 0.156];

pub struct Julia;

/// One column of pixels, `i` fixed, by plain arithmetic.
fn column(i: usize, out: &mut [f32]) {
    for (j, out) in out.iter_mut().enumerate() {
        let mut z = [(i as f32 / N - 1.0) * 2.0, (j as f32 / N - 0.5) * 2.0];
        let mut n = 0;
        while z[0] * z[0] + z[1] * z[1] < 400.0 && n < STEPS {
            z = [z[0] * z[0] - z[1] * z[1] + C[0], z[0] * z[1] * 2.0 + C[1]];
            n += 1;
        }
        *out = 1.0 - n as f32 * 0.02;
    }
}

/// The same, 4 x 16 pixels at a time: four independent chains hide the latency of the arithmetic.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,fma")]
fn column_avx512(i: usize, out: &mut [f32]) {
    use std::arch::x86_64::*;
    const CHAINS: usize = 4;
    let lane = _mm512_set_ps(
        15., 14., 13., 12., 11., 10., 9., 8., 7., 6., 5., 4., 3., 2., 1., 0.,
    );
    let (cx, cy) = (_mm512_set1_ps(C[0]), _mm512_set1_ps(C[1]));
    let limit = _mm512_set1_ps(400.0);
    let one = _mm512_set1_epi32(1);
    let mut groups = out.chunks_exact_mut(16 * CHAINS);
    let mut at = 0;
    for group in &mut groups {
        let mut x = [_mm512_set1_ps((i as f32 / N - 1.0) * 2.0); CHAINS];
        let mut y = [_mm512_setzero_ps(); CHAINS];
        let mut count = [_mm512_setzero_si512(); CHAINS];
        let mut live = [0xffffu16; CHAINS];
        for k in 0..CHAINS {
            let j = _mm512_add_ps(lane, _mm512_set1_ps((at + 16 * k) as f32));
            let j = _mm512_div_ps(j, _mm512_set1_ps(N));
            y[k] = _mm512_mul_ps(_mm512_sub_ps(j, _mm512_set1_ps(0.5)), _mm512_set1_ps(2.0));
        }
        for _ in 0..STEPS {
            for k in 0..CHAINS {
                let xx = _mm512_mul_ps(x[k], x[k]);
                let norm = _mm512_fmadd_ps(y[k], y[k], xx);
                live[k] = _mm512_mask_cmp_ps_mask::<_CMP_LT_OQ>(live[k], norm, limit);
                count[k] = _mm512_mask_add_epi32(count[k], live[k], count[k], one);
                let xy = _mm512_mul_ps(x[k], y[k]);
                x[k] = _mm512_add_ps(_mm512_fnmadd_ps(y[k], y[k], xx), cx);
                y[k] = _mm512_add_ps(_mm512_add_ps(xy, xy), cy);
            }
            if live.iter().all(|live| *live == 0) {
                break;
            }
        }
        for (k, out) in group.chunks_exact_mut(16).enumerate() {
            let shade = _mm512_fnmadd_ps(
                _mm512_cvtepi32_ps(count[k]),
                _mm512_set1_ps(0.02),
                _mm512_set1_ps(1.0),
            );
            // SAFETY: the chunk has 16 floats.
            unsafe { _mm512_storeu_ps(out.as_mut_ptr(), shade) };
        }
        at += 16 * CHAINS;
    }
    assert!(
        groups.into_remainder().is_empty(),
        "the height is a multiple of the group"
    );
}

/// The same with 8 lanes.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn column_avx2(i: usize, out: &mut [f32]) {
    use std::arch::x86_64::*;
    const CHAINS: usize = 2;
    let lane = _mm256_set_ps(7., 6., 5., 4., 3., 2., 1., 0.);
    let (cx, cy) = (_mm256_set1_ps(C[0]), _mm256_set1_ps(C[1]));
    let limit = _mm256_set1_ps(400.0);
    let mut groups = out.chunks_exact_mut(8 * CHAINS);
    let mut at = 0;
    for group in &mut groups {
        let mut x = [_mm256_set1_ps((i as f32 / N - 1.0) * 2.0); CHAINS];
        let mut y = [_mm256_setzero_ps(); CHAINS];
        let mut count = [_mm256_setzero_ps(); CHAINS];
        let mut live = [_mm256_castsi256_ps(_mm256_set1_epi32(-1)); CHAINS];
        for k in 0..CHAINS {
            let j = _mm256_add_ps(lane, _mm256_set1_ps((at + 8 * k) as f32));
            let j = _mm256_div_ps(j, _mm256_set1_ps(N));
            y[k] = _mm256_mul_ps(_mm256_sub_ps(j, _mm256_set1_ps(0.5)), _mm256_set1_ps(2.0));
        }
        for _ in 0..STEPS {
            let mut any = 0;
            for k in 0..CHAINS {
                let xx = _mm256_mul_ps(x[k], x[k]);
                let norm = _mm256_fmadd_ps(y[k], y[k], xx);
                live[k] = _mm256_and_ps(live[k], _mm256_cmp_ps::<_CMP_LT_OQ>(norm, limit));
                count[k] = _mm256_add_ps(count[k], _mm256_and_ps(live[k], _mm256_set1_ps(1.0)));
                let xy = _mm256_mul_ps(x[k], y[k]);
                x[k] = _mm256_add_ps(_mm256_fnmadd_ps(y[k], y[k], xx), cx);
                y[k] = _mm256_add_ps(_mm256_add_ps(xy, xy), cy);
                any |= _mm256_movemask_ps(live[k]);
            }
            if any == 0 {
                break;
            }
        }
        for (k, out) in group.chunks_exact_mut(8).enumerate() {
            let shade = _mm256_fnmadd_ps(count[k], _mm256_set1_ps(0.02), _mm256_set1_ps(1.0));
            // SAFETY: the chunk has 8 floats.
            unsafe { _mm256_storeu_ps(out.as_mut_ptr(), shade) };
        }
        at += 8 * CHAINS;
    }
    assert!(
        groups.into_remainder().is_empty(),
        "the height is a multiple of the group"
    );
}

fn paint(i: usize, out: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    match Level::detect() {
        // SAFETY: the CPU has these features.
        Level::Avx512 => return unsafe { column_avx512(i, out) },
        // SAFETY: the CPU has these features.
        Level::Avx2 => return unsafe { column_avx2(i, out) },
        Level::Baseline => {}
    }
    column(i, out);
}

#[func]
fn complex_sqr(z: Vec2) -> Vec2 {
    vec2(z.x * z.x - z.y * z.y, z.x * z.y * 2.0)
}

#[kernel]
fn julia(pixels: &Field<f32, 2>) {
    for [i, j] in pixels {
        let c = vec2(C[0], C[1]);
        let mut z = vec2(i as f32 / N - 1.0, j as f32 / N - 0.5) * 2.0;
        let mut n = 0u32;
        while z.norm_sqr() < 400.0 && n < STEPS {
            z = complex_sqr(z) + c;
            n += 1;
        }
        pixels[[i, j]] = 1.0 - n as f32 * 0.02;
    }
}

impl Case for Julia {
    fn name(&self) -> &'static str {
        "julia"
    }
    fn size(&self) -> String {
        "640x320".into()
    }
    fn metric(&self) -> &'static str {
        "Mpix/s"
    }
    fn work(&self) -> f64 {
        (WIDTH * HEIGHT) as f64 / 1e6
    }
    fn tolerance(&self) -> f32 {
        0.01
    }
    /// The fraction of pixels that differ: at the edge of the set, rounding decides the number of iterations.
    fn difference(&self, a: &[f32], b: &[f32]) -> f32 {
        if a.len() != b.len() {
            return f32::INFINITY;
        }
        a.iter()
            .zip(b)
            .filter(|(a, b)| (*a - *b).abs() > 1e-5)
            .count() as f32
            / a.len() as f32
    }

    fn reference(&self, pool: &Arc<Pool>) -> Box<dyn Contender> {
        let pool = Arc::clone(pool);
        made(
            Floats::zeros(WIDTH * HEIGHT),
            move |pixels| {
                pool.share(pixels, 8 * HEIGHT, |at, columns| {
                    for (k, out) in columns.chunks_exact_mut(HEIGHT).enumerate() {
                        paint(at / HEIGHT + k, out);
                    }
                });
            },
            |pixels| pixels.to_vec(),
        )
    }

    fn wuji(&self, world: &World) -> wuji::Result<Box<dyn Contender>> {
        let size = [WIDTH as i64, HEIGHT as i64];
        let pixels = world.layout(|root| root.dense(IJ, size).place::<f32, 2>("pixels"))?;
        let out = pixels.clone();
        Ok(launches(move || julia(&pixels), move || out.to_vec()))
    }

    fn cpp(&self, cpp: &Cpp, _threads: usize) -> Result<Box<dyn Contender>, String> {
        // SAFETY: the signature in `benches/cpp/julia.cpp`.
        let f =
            unsafe { cpp.function::<unsafe extern "C" fn(*mut f32, usize, usize)>(c"cpp_julia")? };
        let state = Floats::zeros(WIDTH * HEIGHT);
        // SAFETY: WIDTH * HEIGHT floats.
        Ok(made(
            state,
            move |pixels| unsafe { f(pixels.as_mut_ptr(), WIDTH, HEIGHT) },
            |pixels| pixels.to_vec(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_paint_what_scalars_paint() {
        let (mut a, mut b) = (vec![0.0; HEIGHT], vec![0.0; HEIGHT]);
        let mut far = 0;
        for i in (0..WIDTH).step_by(7) {
            column(i, &mut a);
            paint(i, &mut b);
            far += a
                .iter()
                .zip(&b)
                .filter(|(a, b)| (*a - *b).abs() > 1e-5)
                .count();
        }
        assert!(far < HEIGHT, "{far} pixels differ");
    }
}
