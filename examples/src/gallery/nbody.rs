//! Two galaxies collide. All-pairs gravity: no tree, no cut-off.

use super::{Example, Media, Outcome, Stage, Summary};
use wuji::prelude::*;
use wuji::viewer::{Canvas, Picture, light};

const STEPS: usize = 2;
const DT: f32 = 0.004;
/// Softening, so that close stars do not fling each other away.
const SOFT: f32 = 4e-4;

/// Gravity among all pairs of bodies.
pub const NBODY: Example = Example {
    name: "nbody",
    about: "two galaxies collide; all-pairs gravity, vectorized",
    long: "A parallel loop over the stars with a loop over all stars inside. Positions and velocities are stored as struct of arrays; \
           the kernel does not depend on the layout. Most of the mass is in the two centres.",
    size: ("stars", 3072),
    frames: 120,
    media: Media::Moving,
    run,
    file: file!(),
    source: include_str!("nbody.rs"),
};

#[kernel]
fn attract(x: &Field<Vec3, 1>, v: &Field<Vec3, 1>, mass: &Field<f32, 1>) {
    for [i] in x {
        let here = x[[i]];
        let mut pull = Vec3::splat(0.0);
        for k in 0..x.shape().x {
            let way = x[[k]] - here;
            let r = (way.norm_sqr() + SOFT).rsqrt();
            pull += way * (mass[[k]] * r * r * r);
        }
        v[[i]] += pull * DT;
    }
}

#[kernel]
fn drift(x: &Field<Vec3, 1>, v: &Field<Vec3, 1>) {
    for [i] in x {
        x[[i]] += v[[i]] * DT;
    }
}

/// A disc around each centre: the first star is the centre, the others orbit it. Returns positions, velocities and masses.
fn galaxies(count: usize) -> (Vec<Vec3>, Vec<Vec3>, Vec<f32>) {
    let half = (count / 2).max(1);
    let (mut x, mut v, mut mass) = (Vec::new(), Vec::new(), Vec::new());
    for k in 0..count {
        let side = if k < half { -1.0 } else { 1.0 };
        let center = vec3(0.42 * side, 0.12 * side, 0.0);
        let speed = vec3(-0.42 * side, 0.12 * side, 0.0);
        let n = if k < half { k } else { k - half };
        // The golden angle spreads the stars evenly.
        let (r, angle) = (
            0.04 + 0.3 * (n as f32 / half as f32).sqrt(),
            n as f32 * 2.399_963_2,
        );
        let tilt = 0.5 * side;
        let (s, c) = angle.sin_cos();
        let spread = if n == 0 { 0.0 } else { r };
        let turn = if n == 0 {
            0.0
        } else {
            (1.0 / (r * r + SOFT).sqrt()).sqrt()
        };
        x.push(center + vec3(c, s * tilt.cos(), s * tilt.sin()) * spread);
        v.push(speed + vec3(-s, c * tilt.cos(), c * tilt.sin()) * (turn * side));
        mass.push(if n == 0 { 1.0 } else { 0.1 / half as f32 });
    }
    (x, v, mass)
}

fn run(stage: &mut Stage) -> Outcome<Summary> {
    let world = stage.world();
    let count = stage.size().max(2);
    // Structure of arrays: all x, then all y, then all z. Kernels see no difference.
    let x = world.soa_field::<Vec3, 1>("x", count as i64)?;
    let v = world.soa_field::<Vec3, 1>("v", count as i64)?;
    let mass = world.field::<f32, 1>("mass", count as i64)?;
    let (places, speeds, masses) = galaxies(count);
    x.copy_from(&places)?;
    v.copy_from(&speeds)?;
    mass.copy_from(&masses)?;
    let mut canvas = Canvas::new(400);
    let draw = || -> wuji::Result<Picture> {
        canvas.clear();
        for (k, p) in x.to_vec()?.into_iter().enumerate() {
            let heavy = masses[k] >= 1.0;
            let color = light(match (heavy, k < count / 2) {
                (true, _) => 0xffffff,
                (_, true) => 0xffb46b,
                (_, false) => 0x7db4ff,
            });
            let near = 1.0 / (1.6 - p.z);
            let at = [0.5 + p.x * near * 0.75, 0.5 + p.y * near * 0.75];
            canvas.dot(at, if heavy { 0.012 } else { 0.0034 }, color);
        }
        Ok(canvas.develop(0.0))
    };
    stage.play(
        |_| {
            (0..STEPS).try_for_each(|_| {
                attract(&x, &v, &mass)?;
                drift(&x, &v)
            })
        },
        draw,
    )?;
    Ok(Summary::new(format!("{count} stars"), STEPS, "steps"))
}
