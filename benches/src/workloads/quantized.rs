//! Quantized fields: the game of life with one bit per cell, and particles with positions of 21 bits.

// Windows of fields with one index.
#![allow(clippy::single_range_in_vec_init)]

use std::sync::Arc;

use wuji::prelude::*;

use crate::case::{Case, Contender, launches, made};
use crate::cpp::Cpp;
use crate::host::Floats;
use crate::host_fn;
use crate::pool::Pool;

/// Cells along each side.
const N: usize = 16384;
const WORDS: usize = N / 64;
const GENERATIONS: usize = 2;

pub struct Life;

/// A generation, with a row of zeros above and below and a word of zeros at both ends of a row.
struct Cells(Vec<u64>);

const ROW: usize = WORDS + 2;

fn start(word: usize) -> u64 {
    let x = (word as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) & x.rotate_left(17)
}

impl Cells {
    fn new() -> Cells {
        let mut words = vec![0; ROW * (N + 2)];
        for i in 0..N {
            for j in 0..WORDS {
                words[(i + 1) * ROW + j + 1] = start(i * WORDS + j);
            }
        }
        Cells(words)
    }

    /// Living cells of each row.
    fn rows(&self) -> Vec<f32> {
        let row = |i: usize| &self.0[(i + 1) * ROW..][..ROW];
        let count = |i| row(i).iter().map(|w| w.count_ones() as f32).sum();
        (0..N).map(count).collect()
    }
}

/// The reference, with vectors of 512 bits where the processor has them.
fn generation(x: &[u64], first: usize, out: &mut [u64]) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq")]
        fn wide(x: &[u64], first: usize, out: &mut [u64]) {
            packed_rows(x, first, out);
        }
        if std::is_x86_feature_detected!("avx512dq") && std::is_x86_feature_detected!("avx512bw") {
            // SAFETY: the processor has these features.
            return unsafe { wide(x, first, out) };
        }
    }
    narrow_rows(x, first, out);
}

host_fn! {
    fn narrow_rows(x: &[u64], first: usize, out: &mut [u64]) {
        packed_rows(x, first, out);
    }
}

#[inline(always)]
fn packed_rows(x: &[u64], first: usize, out: &mut [u64]) {
    let full = |a: u64, b: u64, c: u64| (a ^ b ^ c, a & b | (a ^ b) & c);
    for (r, out) in out.chunks_exact_mut(ROW).enumerate() {
        let i = first + r;
        if i == 0 || i > N {
            continue;
        }
        let up = &x[(i - 1) * ROW..][..ROW];
        let mid = &x[i * ROW..][..ROW];
        let down = &x[(i + 1) * ROW..][..ROW];
        // Slices of one length, so that indices need no checks.
        let [u0, u1, u2] = [0, 1, 2].map(|k| &up[k..k + WORDS]);
        let [m0, m1, m2] = [0, 1, 2].map(|k| &mid[k..k + WORDS]);
        let [d0, d1, d2] = [0, 1, 2].map(|k| &down[k..k + WORDS]);
        let out = &mut out[1..=WORDS];
        for j in 0..WORDS {
            let west = |before: u64, here: u64| here << 1 | before >> 63;
            let east = |here: u64, after: u64| here >> 1 | after << 63;
            let (a, b) = full(west(u0[j], u1[j]), u1[j], east(u1[j], u2[j]));
            let (c, d) = full(west(d0[j], d1[j]), d1[j], east(d1[j], d2[j]));
            let (e, f) = (west(m0[j], m1[j]), east(m1[j], m2[j]));
            let (g, h) = (e ^ f, e & f);
            let (ones, carry) = full(a, c, g);
            let (twos, fours) = full(b, d, h);
            let (two, four) = (twos ^ carry, fours ^ twos & carry);
            out[j] = two & !four & (ones | m1[j]);
        }
    }
}

#[kernel]
pub fn life(x: &Field<u32, 2>, y: &Field<u32, 2>) {
    for [i, j] in x {
        let mut n = 0u32;
        for a in -1..2 {
            for b in -1..2 {
                n += x[[i + a, j + b]];
            }
        }
        n -= x[[i, j]];
        y[[i, j]] = if n == 3 || n == 2 && x[[i, j]] == 1 {
            1
        } else {
            0
        };
    }
}

#[kernel]
fn count(x: &Field<u32, 2>, rows: &Field<i32, 1>) {
    for [i, j] in x {
        rows[[i]] += x[[i, j]] as i32;
    }
}

#[kernel]
fn seed(x: &Field<u32, 2>, words: &Array<u64, 2>) {
    for [i, j] in x {
        x[[i, j]] = (words[[i, j / 64]] >> (j % 64) as u64) as u32 & 1u32;
    }
}

impl Case for Life {
    fn name(&self) -> &'static str {
        "life"
    }
    fn size(&self) -> String {
        "16384x16384".into()
    }
    fn metric(&self) -> &'static str {
        "Gcells/s"
    }
    fn work(&self) -> f64 {
        (GENERATIONS * N * N) as f64 / 1e9
    }
    fn tolerance(&self) -> f32 {
        0.0
    }

    fn reference(&self, pool: &Arc<Pool>) -> Box<dyn Contender> {
        let pool = Arc::clone(pool);
        made(
            (Cells::new(), Cells(vec![0; ROW * (N + 2)])),
            move |(x, y)| {
                pool.split(&mut y.0, ROW, |at, out| generation(&x.0, at / ROW, out));
                pool.split(&mut x.0, ROW, |at, out| generation(&y.0, at / ROW, out));
            },
            |(x, _)| x.rows(),
        )
    }

    fn wuji(&self, world: &World) -> wuji::Result<Box<dyn Contender>> {
        let grid = |name: &str| {
            world.layout(|root| {
                let words = root.dense(IJ, [N as i64, WORDS as i64]);
                let bits = words.bit_array(J, 64, 64);
                bits.place::<u32, 2>(name, qint(1, false))
            })
        };
        let (x, y) = (grid("x")?, grid("y")?);
        let words: Vec<u64> = (0..N * WORDS).map(start).collect();
        seed(&x, &Array::new(&words, [N, WORDS])?)?;
        let rows = world.field::<i32, 1>("rows", N as i64)?;
        let out = x.clone();
        Ok(launches(
            move || {
                life(&x, &y)?;
                life(&y, &x)
            },
            move || {
                rows.fill(0)?;
                count(&out, &rows)?;
                Ok(rows.to_vec()?.into_iter().map(|n| n as f32).collect())
            },
        ))
    }

    fn cpp(&self, _: &Cpp, _: usize) -> Result<Box<dyn Contender>, String> {
        Err("there is no C++ version".into())
    }
}

/// Particles.
const P: usize = 1 << 22;
const STEP: [f32; 3] = [1e-3, -2e-3, 5e-4];

pub struct Advect;

fn position(k: usize) -> f32 {
    (k % 1009) as f32 / 1009.0 - 0.5
}

host_fn! {
    fn move_all(x: &mut [f32]) {
        for p in x.chunks_exact_mut(3) {
            p[0] += STEP[0];
            p[1] += STEP[1];
            p[2] += STEP[2];
        }
    }
}

#[kernel]
pub fn advect(x: &Field<Vec3, 1>) {
    for [p] in x {
        x[[p]] = x[[p]] + Vec3::new(1e-3, -2e-3, 5e-4);
    }
}

impl Case for Advect {
    fn name(&self) -> &'static str {
        "advect, 21 bits"
    }
    fn size(&self) -> String {
        "4 M particles".into()
    }
    fn metric(&self) -> &'static str {
        "Mparticles/s"
    }
    fn work(&self) -> f64 {
        P as f64 / 1e6
    }
    fn tolerance(&self) -> f32 {
        2e-4
    }

    fn reference(&self, pool: &Arc<Pool>) -> Box<dyn Contender> {
        let pool = Arc::clone(pool);
        made(
            Floats::new(3 * P, position),
            move |x| pool.split(x, 3, |_, part| move_all(part)),
            |x| x[..3000].to_vec(),
        )
    }

    fn wuji(&self, world: &World) -> wuji::Result<Box<dyn Contender>> {
        let x = world.layout(|root| {
            let particle = root.dense(I, P as i64).bit_struct(64);
            particle.place::<Vec3, 1>("x", qfixed(21, true, 4.0))
        })?;
        let at = |k: usize| Vec3::new(position(3 * k), position(3 * k + 1), position(3 * k + 2));
        x.copy_from(&(0..P).map(at).collect::<Vec<_>>())?;
        let out = x.clone();
        Ok(launches(
            move || advect(&x),
            move || {
                let all = out.window([0..1000])?.to_vec()?;
                Ok(all.iter().flat_map(|v| [v[0], v[1], v[2]]).collect())
            },
        ))
    }

    fn cpp(&self, _: &Cpp, _: usize) -> Result<Box<dyn Contender>, String> {
        Err("there is no C++ version".into())
    }
}
