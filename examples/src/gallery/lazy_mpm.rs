//! Two blocks of jelly fall into a box (MLS-MPM), as separate kernels: clear, particle to grid (P2G), grid update, grid to particle
//! (G2P). Two grids are swapped in each substep. In a lazy world, G2P and the P2G of the next substep become one loop, and the
//! velocities between them need no memory.

use super::{Example, Media, Outcome, Stage, Summary};
use std::time::Instant;
use wuji::prelude::*;
use wuji::viewer::{Canvas, Light, Picture, light};

const GRID: i32 = 128;
const N: f32 = GRID as f32;
const DT: f32 = 2e-4;
/// Substeps of a frame; an even number, because grids are swapped.
const SUBSTEPS: usize = 14;
/// Particles of a block along each side, two in a cell.
const SIDE: i32 = 72;
const MU: f32 = 60.0;
const LAMBDA: f32 = 90.0;
const VOLUME: f32 = 0.25 / (N * N);
const WALL: i32 = 3;

/// The material point method in a lazy world.
pub const LAZY_MPM: Example = Example {
    name: "lazy_mpm",
    about: "jelly from separate kernels, which a lazy world fuses",
    long: "The kernels of the material point method as in a textbook, with two grids. With --lazy, launches wait, and the last \
           loop of a substep is fused with the first one of the next. The summary compares tasks and time of both kinds of worlds.",
    size: ("pixels along each side", 320),
    frames: 75,
    media: Media::Moving,
    run,
    file: file!(),
    source: include_str!("lazy_mpm.rs"),
};

/// Quadratic B-spline weights of the three nodes around a particle along each axis, one row per node.
#[func]
fn spline(f: Vec2) -> Matrix<f32, 3, 2> {
    let (a, b, c) = (
        Vec2::splat(1.5) - f,
        f - Vec2::splat(1.0),
        f - Vec2::splat(0.5),
    );
    Matrix::from_rows([a * a * 0.5, Vec2::splat(0.75) - b * b, c * c * 0.5])
}

/// The lowest of the nine nodes around a position.
#[func]
fn base(x: Vec2) -> IVec2 {
    (x * N - Vec2::splat(0.5)).floor().cast::<i32>()
}

#[kernel]
fn clear(momentum: &Field<Vec2, 2>, mass: &Field<f32, 2>) {
    for [i, j] in mass {
        momentum[[i, j]] = Vec2::splat(0.0);
        mass[[i, j]] = 0.0;
    }
}

#[kernel]
fn to_grid(
    x: &Field<Vec2, 1>,
    v: &Field<Vec2, 1>,
    c: &Field<Mat2, 1>,
    deformation: &Field<Mat2, 1>,
    momentum: &Field<Vec2, 2>,
    mass: &Field<f32, 2>,
) {
    for [p] in x {
        let f = (Mat2::identity() + c[[p]] * DT) * deformation[[p]];
        deformation[[p]] = f;
        let stress = (f * f.transpose() - Mat2::identity()) * MU
            + Mat2::identity() * (LAMBDA * f.determinant().max(0.1).ln());
        let affine = stress * (-DT * 4.0 * N * N * VOLUME) + c[[p]] * VOLUME;
        let at = base(x[[p]]);
        let part = x[[p]] * N - at.cast::<f32>();
        let w = spline(part);
        for i in unroll(0..3) {
            for j in unroll(0..3) {
                let offset = ivec2(i, j);
                let weight = w[[i, 0]] * w[[j, 1]];
                let d = (offset.cast::<f32>() - part) / N;
                momentum[at + offset] += (v[[p]] * VOLUME + affine * d) * weight;
                mass[at + offset] += VOLUME * weight;
            }
        }
    }
}

#[kernel]
fn on_grid(momentum: &Field<Vec2, 2>, mass: &Field<f32, 2>) {
    for [i, j] in mass {
        if mass[[i, j]] > 0.0 {
            let mut u = momentum[[i, j]] / mass[[i, j]];
            u.y -= DT * 9.8;
            if i < WALL && u.x < 0.0 || i + WALL > GRID && u.x > 0.0 {
                u.x = 0.0;
            }
            if j < WALL && u.y < 0.0 || j + WALL > GRID && u.y > 0.0 {
                u.y = 0.0;
            }
            momentum[[i, j]] = u;
        }
    }
}

#[kernel]
fn to_particles(
    x: &Field<Vec2, 1>,
    v: &Field<Vec2, 1>,
    c: &Field<Mat2, 1>,
    velocity: &Field<Vec2, 2>,
) {
    for [p] in x {
        let at = base(x[[p]]);
        let part = x[[p]] * N - at.cast::<f32>();
        let w = spline(part);
        let mut sum = Vec2::splat(0.0);
        let mut affine = Mat2::splat(0.0);
        for i in unroll(0..3) {
            for j in unroll(0..3) {
                let offset = ivec2(i, j);
                let u = velocity[at + offset] * (w[[i, 0]] * w[[j, 1]]);
                sum += u;
                affine += u.outer(offset.cast::<f32>() - part) * (4.0 * N);
            }
        }
        v[[p]] = sum;
        c[[p]] = affine;
        let edge = Vec2::splat(2.0 / N);
        x[[p]] = (x[[p]] + sum * DT).clamp(edge, Vec2::splat(1.0) - edge);
    }
}

struct Simulation {
    x: Field<Vec2, 1>,
    v: Field<Vec2, 1>,
    c: Field<Mat2, 1>,
    deformation: Field<Mat2, 1>,
    grids: [(Field<Vec2, 2>, Field<f32, 2>); 2],
}

impl Simulation {
    fn new(world: &World) -> wuji::Result<Simulation> {
        let count = i64::from(2 * SIDE * SIDE);
        let x = world.field::<Vec2, 1>("x", count)?;
        let place = |p: i32| {
            let corner = [vec2(0.3, 0.1), vec2(0.45, 0.6)][(p / (SIDE * SIDE)) as usize];
            let (i, j) = (p % SIDE, p / SIDE % SIDE);
            corner + vec2(i as f32 + 0.5, j as f32 + 0.5) / (2.0 * N)
        };
        x.copy_from(&(0..2 * SIDE * SIDE).map(place).collect::<Vec<_>>())?;
        let v = world.field::<Vec2, 1>("v", count)?;
        let speed = |p: i32| [vec2(0.0, -2.0), vec2(-1.0, -4.0)][(p / (SIDE * SIDE)) as usize];
        v.copy_from(&(0..2 * SIDE * SIDE).map(speed).collect::<Vec<_>>())?;
        let deformation = world.field("deformation", count)?;
        deformation.fill(Mat2::identity())?;
        let grid = || {
            let nodes = [i64::from(GRID); 2];
            Ok((world.field("momentum", nodes)?, world.field("mass", nodes)?))
        };
        Ok(Simulation {
            x,
            v,
            c: world.field("c", count)?,
            deformation,
            grids: [grid()?, grid()?],
        })
    }

    /// The substeps of a frame. In a lazy world, they run when the picture needs them.
    fn frame(&self) -> wuji::Result<()> {
        for step in 0..SUBSTEPS {
            let (momentum, mass) = &self.grids[step % 2];
            clear(momentum, mass)?;
            to_grid(&self.x, &self.v, &self.c, &self.deformation, momentum, mass)?;
            on_grid(momentum, mass)?;
            to_particles(&self.x, &self.v, &self.c, momentum)?;
        }
        Ok(())
    }

    fn draw(&self, canvas: &mut Canvas) -> wuji::Result<()> {
        let colors =
            [(0xff5c8a, 0xffb36b), (0x1f6feb, 0x9be7ff)].map(|(a, b)| (light(a), light(b)));
        canvas.clear();
        let (places, speeds) = (self.x.to_vec()?, self.v.to_vec()?);
        for (p, (x, v)) in places.into_iter().zip(speeds).enumerate() {
            let (slow, fast) = colors[p / (SIDE * SIDE) as usize];
            let t = (v.norm() / 4.0).min(1.0);
            let color: Light = std::array::from_fn(|k| slow[k] + (fast[k] - slow[k]) * t);
            canvas.dot(x.0, 0.004, color);
        }
        Ok(())
    }
}

/// Tasks of a frame, and the least time of one in milliseconds, in a world of its own.
fn measure(builder: wuji::WorldBuilder) -> wuji::Result<(u64, f64)> {
    let world = builder.build()?;
    let simulation = Simulation::new(&world)?;
    let frame = || simulation.frame().and_then(|()| world.synchronize());
    frame()?;
    world.finish_compiling()?;
    world.profiler().start();
    frame()?;
    world.profiler().stop();
    let kernels = world.kernel_history();
    let tasks = kernels.iter().flat_map(|k| &k.tasks).map(|t| t.count).sum();
    let mut least = f64::INFINITY;
    for _ in 0..6 {
        let begun = Instant::now();
        frame()?;
        least = least.min(begun.elapsed().as_secs_f64() * 1e3);
    }
    Ok((tasks, least))
}

fn run(stage: &mut Stage) -> Outcome<Summary> {
    let simulation = Simulation::new(&stage.world())?;
    let mut canvas = Canvas::new(stage.size());
    stage.play(
        |_| simulation.frame(),
        || -> wuji::Result<Picture> {
            simulation.draw(&mut canvas)?;
            Ok(canvas.develop(WALL as f32 / N))
        },
    )?;
    let threads = stage.world().threads();
    let (tasks, time) = measure(World::builder().threads(threads).lazy(false))?;
    let (fewer, faster) = measure(World::builder().threads(threads).lazy(true))?;
    let what = format!(
        "a frame is {tasks} tasks in {time:.2} ms in an eager world, {fewer} in {faster:.2} ms in a lazy one; {} particles on {GRID}x{GRID}",
        simulation.x.len()?
    );
    Ok(Summary::new(what, SUBSTEPS, "substeps"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same positions with fewer tasks.
    #[test]
    fn lazy_worlds_fuse_substeps() {
        let simulated = |lazy: bool| {
            let world = World::builder().lazy(lazy).build().expect("a world");
            let simulation = Simulation::new(&world).expect("fields");
            world.synchronize().expect("fills");
            let before = world.lazy_statistics();
            (0..3).for_each(|_| simulation.frame().expect("a frame"));
            let places = simulation.x.to_vec().expect("positions");
            let after = world.lazy_statistics();
            let launched = after.launched_tasks - before.launched_tasks;
            (places, launched, after.tasks - before.tasks)
        };
        let (expected, ..) = simulated(false);
        let (found, launched, ran) = simulated(true);
        // All but one of the G2P of a window are fused.
        assert_eq!(launched, 3 * 4 * SUBSTEPS as u64);
        assert!(4 * ran <= 3 * launched + 16, "{ran} of {launched}");
        for (a, b) in found.iter().zip(&expected) {
            assert!((*a - *b).norm() < 1e-4, "{a:?} {b:?}");
        }
    }
}
