//! Stable fluids: semi-Lagrangian advection, and a pressure solve by Jacobi sweeps.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use wuji::prelude::*;

use crate::case::{Case, Contender, launches, made};
use crate::cpp::Cpp;
use crate::host::Floats;
use crate::host_fn;
use crate::pool::Pool;

pub const N: usize = 512;
const SWEEPS: usize = 20;
const DT: f32 = 0.5;

pub struct Fluids;

/// Cell-centred fields, `i` slow and `j` fast; indices outside are clamped to the edge cells.
struct State {
    u: Floats,
    v: Floats,
    dye: Floats,
    u_next: Floats,
    v_next: Floats,
    dye_next: Floats,
    divergence: Floats,
    pressure: Floats,
    pressure_next: Floats,
}

impl State {
    fn new() -> State {
        let at = |k: usize| {
            (
                (k / N) as f32 / N as f32 - 0.5,
                (k % N) as f32 / N as f32 - 0.5,
            )
        };
        let blob = |x: f32, y: f32| (-60.0 * (x * x + y * y)).exp();
        let zeros = || Floats::zeros(N * N);
        State {
            u: Floats::new(N * N, |k| {
                let (x, y) = at(k);
                8.0 * (blob(x + 0.2, y - 0.05) - blob(x - 0.2, y + 0.05)) - 6.0 * y
            }),
            v: Floats::new(N * N, |k| 6.0 * at(k).0),
            dye: Floats::new(N * N, |k| {
                let (x, y) = at(k);
                blob(x + 0.2, y) + blob(x - 0.2, y)
            }),
            u_next: zeros(),
            v_next: zeros(),
            dye_next: zeros(),
            divergence: zeros(),
            pressure: zeros(),
            pressure_next: zeros(),
        }
    }
}

#[inline(always)]
fn clamp(k: isize) -> usize {
    k.clamp(0, N as isize - 1) as usize
}

host_fn! {
    /// Follows the velocity back from every cell of some rows, and interpolates `from` there.
    fn advect(u: &[f32], v: &[f32], from: &[f32], first: usize, out: &mut [f32]) {
        assert!(u.len() == N * N && v.len() == N * N && from.len() == N * N);
        const TOP: f32 = (N - 1) as f32 - 0.001;
        for (r, out) in out.chunks_exact_mut(N).enumerate() {
            let i = first + r;
            for (j, out) in out.iter_mut().enumerate() {
                let x = (i as f32 - DT * u[i * N + j]).max(0.0).min(TOP);
                let y = (j as f32 - DT * v[i * N + j]).max(0.0).min(TOP);
                // SAFETY: both are within 0..N - 1.
                let (bx, by) = unsafe { (x.to_int_unchecked::<i32>(), y.to_int_unchecked::<i32>()) };
                let (fx, fy) = (x - bx as f32, y - by as f32);
                let k = bx as usize * N + by as usize;
                // SAFETY: `bx` and `by` are below N - 1, so all four corners lie within N * N.
                let [a, b, c, d] = unsafe {
                    [*from.get_unchecked(k), *from.get_unchecked(k + 1), *from.get_unchecked(k + N), *from.get_unchecked(k + N + 1)]
                };
                let (low, high) = ((b - a).mul_add(fy, a), (d - c).mul_add(fy, c));
                *out = (high - low).mul_add(fx, low);
            }
        }
    }
}

host_fn! {
    fn divergence(u: &[f32], v: &[f32], first: usize, out: &mut [f32]) {
        for (r, out) in out.chunks_exact_mut(N).enumerate() {
            let i = first + r;
            let up = &u[clamp(i as isize - 1) * N..][..N];
            let down = &u[clamp(i as isize + 1) * N..][..N];
            let v = &v[i * N..][..N];
            out[0] = 0.5 * (down[0] - up[0] + v[1] - v[0]);
            for j in 1..N - 1 {
                out[j] = 0.5 * (down[j] - up[j] + v[j + 1] - v[j - 1]);
            }
            out[N - 1] = 0.5 * (down[N - 1] - up[N - 1] + v[N - 1] - v[N - 2]);
        }
    }
}

host_fn! {
    fn sweep(p: &[f32], divergence: &[f32], first: usize, out: &mut [f32]) {
        for (r, out) in out.chunks_exact_mut(N).enumerate() {
            let i = first + r;
            let up = &p[clamp(i as isize - 1) * N..][..N];
            let down = &p[clamp(i as isize + 1) * N..][..N];
            let (p, d) = (&p[i * N..][..N], &divergence[i * N..][..N]);
            out[0] = 0.25 * (up[0] + down[0] + p[0] + p[1] - d[0]);
            for j in 1..N - 1 {
                out[j] = 0.25 * (up[j] + down[j] + p[j - 1] + p[j + 1] - d[j]);
            }
            out[N - 1] = 0.25 * (up[N - 1] + down[N - 1] + p[N - 2] + p[N - 1] - d[N - 1]);
        }
    }
}

host_fn! {
    /// `out` minus the gradient of the pressure along the slow axis.
    fn project_i(p: &[f32], first: usize, out: &mut [f32]) {
        for (r, out) in out.chunks_exact_mut(N).enumerate() {
            let i = first + r;
            let up = &p[clamp(i as isize - 1) * N..][..N];
            let down = &p[clamp(i as isize + 1) * N..][..N];
            for j in 0..N {
                out[j] -= 0.5 * (down[j] - up[j]);
            }
        }
    }
}

host_fn! {
    /// `out` minus the gradient of the pressure along the fast axis.
    fn project_j(p: &[f32], first: usize, out: &mut [f32]) {
        for (r, out) in out.chunks_exact_mut(N).enumerate() {
            let p = &p[(first + r) * N..][..N];
            out[0] -= 0.5 * (p[1] - p[0]);
            for j in 1..N - 1 {
                out[j] -= 0.5 * (p[j + 1] - p[j - 1]);
            }
            out[N - 1] -= 0.5 * (p[N - 1] - p[N - 2]);
        }
    }
}

fn step(s: &mut State, pool: &Pool) {
    let (u, v, dye) = (&*s.u, &*s.v, &*s.dye);
    pool.split(&mut s.u_next, N, |at, out| advect(u, v, u, at / N, out));
    pool.split(&mut s.v_next, N, |at, out| advect(u, v, v, at / N, out));
    pool.split(&mut s.dye_next, N, |at, out| advect(u, v, dye, at / N, out));
    std::mem::swap(&mut s.u, &mut s.u_next);
    std::mem::swap(&mut s.v, &mut s.v_next);
    std::mem::swap(&mut s.dye, &mut s.dye_next);
    let (u, v) = (&*s.u, &*s.v);
    pool.split(&mut s.divergence, N, |at, out| {
        divergence(u, v, at / N, out)
    });
    for _ in 0..SWEEPS {
        let (p, d) = (&*s.pressure, &*s.divergence);
        pool.split(&mut s.pressure_next, N, |at, out| sweep(p, d, at / N, out));
        std::mem::swap(&mut s.pressure, &mut s.pressure_next);
    }
    let p = &*s.pressure;
    pool.split(&mut s.u, N, |at, out| project_i(p, at / N, out));
    pool.split(&mut s.v, N, |at, out| project_j(p, at / N, out));
}

/// Bilinear interpolation of `from` at a position inside the grid.
#[func]
fn sample(from: &Field<f32, 2>, at: Vec2) -> f32 {
    let top = (N - 1) as f32 - 0.001;
    let at = at.clamp(vec2(0.0, 0.0), vec2(top, top));
    let base = at.cast::<i32>();
    let f = at - base.cast::<f32>();
    let (a, b) = (from[base], from[base + ivec2(0, 1)]);
    let (c, d) = (from[base + ivec2(1, 0)], from[base + ivec2(1, 1)]);
    let (low, high) = (a + (b - a) * f.y, c + (d - c) * f.y);
    low + (high - low) * f.x
}

#[kernel]
fn advect_kernel(
    u: &Field<f32, 2>,
    v: &Field<f32, 2>,
    dye: &Field<f32, 2>,
    u_next: &Field<f32, 2>,
    v_next: &Field<f32, 2>,
    dye_next: &Field<f32, 2>,
) {
    for [i, j] in u {
        let at = vec2(i as f32 - DT * u[[i, j]], j as f32 - DT * v[[i, j]]);
        u_next[[i, j]] = sample(u, at);
        v_next[[i, j]] = sample(v, at);
        dye_next[[i, j]] = sample(dye, at);
    }
}

#[kernel]
fn divergence_kernel(u: &Field<f32, 2>, v: &Field<f32, 2>, out: &Field<f32, 2>) {
    let last = N as i32 - 1;
    for [i, j] in out {
        let (up, down) = ((i - 1).max(0), (i + 1).min(last));
        let (left, right) = ((j - 1).max(0), (j + 1).min(last));
        out[[i, j]] = 0.5 * (u[[down, j]] - u[[up, j]] + v[[i, right]] - v[[i, left]]);
    }
}

#[kernel]
fn sweep_kernel(p: &Field<f32, 2>, divergence: &Field<f32, 2>, out: &Field<f32, 2>) {
    let last = N as i32 - 1;
    for [i, j] in out {
        let (up, down) = ((i - 1).max(0), (i + 1).min(last));
        let (left, right) = ((j - 1).max(0), (j + 1).min(last));
        out[[i, j]] =
            0.25 * (p[[up, j]] + p[[down, j]] + p[[i, left]] + p[[i, right]] - divergence[[i, j]]);
    }
}

#[kernel]
fn project_kernel(p: &Field<f32, 2>, u: &Field<f32, 2>, v: &Field<f32, 2>) {
    let last = N as i32 - 1;
    for [i, j] in p {
        let (up, down) = ((i - 1).max(0), (i + 1).min(last));
        let (left, right) = ((j - 1).max(0), (j + 1).min(last));
        u[[i, j]] -= 0.5 * (p[[down, j]] - p[[up, j]]);
        v[[i, j]] -= 0.5 * (p[[i, right]] - p[[i, left]]);
    }
}

/// The fields of `State` in a world; `next` fields swap with the current ones.
struct Fields {
    u: Field<f32, 2>,
    v: Field<f32, 2>,
    dye: Field<f32, 2>,
    u_next: Field<f32, 2>,
    v_next: Field<f32, 2>,
    dye_next: Field<f32, 2>,
    divergence: Field<f32, 2>,
    pressure: Field<f32, 2>,
    pressure_next: Field<f32, 2>,
}

impl Fields {
    fn new(world: &World) -> wuji::Result<Fields> {
        // A separate tree for each field: swapping two of them changes addresses, not code.
        let field =
            |name: &str| world.layout(|root| root.dense(IJ, N as i64).place::<f32, 2>(name));
        let fields = Fields {
            u: field("u")?,
            v: field("v")?,
            dye: field("dye")?,
            u_next: field("u_next")?,
            v_next: field("v_next")?,
            dye_next: field("dye_next")?,
            divergence: field("divergence")?,
            pressure: field("pressure")?,
            pressure_next: field("pressure_next")?,
        };
        let start = State::new();
        fields.u.copy_from(&start.u)?;
        fields.v.copy_from(&start.v)?;
        fields.dye.copy_from(&start.dye)?;
        Ok(fields)
    }

    fn step(&mut self) -> wuji::Result<()> {
        advect_kernel(
            &self.u,
            &self.v,
            &self.dye,
            &self.u_next,
            &self.v_next,
            &self.dye_next,
        )?;
        std::mem::swap(&mut self.u, &mut self.u_next);
        std::mem::swap(&mut self.v, &mut self.v_next);
        std::mem::swap(&mut self.dye, &mut self.dye_next);
        divergence_kernel(&self.u, &self.v, &self.divergence)?;
        for _ in 0..SWEEPS {
            sweep_kernel(&self.pressure, &self.divergence, &self.pressure_next)?;
            std::mem::swap(&mut self.pressure, &mut self.pressure_next);
        }
        project_kernel(&self.pressure, &self.u, &self.v)
    }
}

impl Case for Fluids {
    fn name(&self) -> &'static str {
        "stable_fluids"
    }
    fn size(&self) -> String {
        "512x512".into()
    }
    fn metric(&self) -> &'static str {
        "steps/s"
    }
    fn work(&self) -> f64 {
        1.0
    }
    fn tolerance(&self) -> f32 {
        1e-3
    }

    fn reference(&self, pool: &Arc<Pool>) -> Box<dyn Contender> {
        let pool = Arc::clone(pool);
        made(State::new(), move |s| step(s, &pool), |s| s.dye.to_vec())
    }

    fn wuji(&self, world: &World) -> wuji::Result<Box<dyn Contender>> {
        let fields = Rc::new(RefCell::new(Fields::new(world)?));
        let out = Rc::clone(&fields);
        Ok(launches(
            move || fields.borrow_mut().step(),
            move || out.borrow().dye.to_vec(),
        ))
    }

    fn cpp(&self, cpp: &Cpp, _threads: usize) -> Result<Box<dyn Contender>, String> {
        type Advect = unsafe extern "C" fn(*const f32, *const f32, *const f32, *mut f32);
        type Two = unsafe extern "C" fn(*const f32, *const f32, *mut f32);
        type Project = unsafe extern "C" fn(*const f32, *mut f32, *mut f32);
        // SAFETY: the signatures in `benches/cpp/fluids.cpp`.
        let (advect, divergence, sweep, project) = unsafe {
            (
                cpp.function::<Advect>(c"cpp_advect")?,
                cpp.function::<Two>(c"cpp_divergence")?,
                cpp.function::<Two>(c"cpp_sweep")?,
                cpp.function::<Project>(c"cpp_project")?,
            )
        };
        // SAFETY: all fields hold N * N floats, and the output is never one of the inputs.
        let run = move |s: &mut State| unsafe {
            let (u, v) = (s.u.as_ptr(), s.v.as_ptr());
            advect(u, v, u, s.u_next.as_mut_ptr());
            advect(u, v, v, s.v_next.as_mut_ptr());
            advect(u, v, s.dye.as_ptr(), s.dye_next.as_mut_ptr());
            std::mem::swap(&mut s.u, &mut s.u_next);
            std::mem::swap(&mut s.v, &mut s.v_next);
            std::mem::swap(&mut s.dye, &mut s.dye_next);
            divergence(s.u.as_ptr(), s.v.as_ptr(), s.divergence.as_mut_ptr());
            for _ in 0..SWEEPS {
                sweep(
                    s.pressure.as_ptr(),
                    s.divergence.as_ptr(),
                    s.pressure_next.as_mut_ptr(),
                );
                std::mem::swap(&mut s.pressure, &mut s.pressure_next);
            }
            project(s.pressure.as_ptr(), s.u.as_mut_ptr(), s.v.as_mut_ptr());
        };
        Ok(made(State::new(), run, |s| s.dye.to_vec()))
    }
}
