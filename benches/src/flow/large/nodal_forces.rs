//! Nodal forces by automatic differentiation: MLS-MPM of a mesh of triangles, whose forces are the gradient of its energy. The program
//! never uses the energy itself.

use wuji::Result;
use wuji::prelude::*;

use crate::case::Contender;
use crate::flow::{Program, Size, repeated};

pub const AUTODIFF: Program = Program {
    name: "flow autodiff_mesh",
    sizes: ["10k triangles", "160k triangles", "160k triangles"],
    make,
    by_hand: None,
    tolerance: 1e-4,
};

const SUBSTEPS: usize = 8;
const DT: f32 = 1e-5;
const MU: f32 = 200.0;
const LAMBDA: f32 = 300.0;
const GRAVITY: f32 = 9.8;

/// The energy of a Neo-Hookean material.
#[kernel]
fn total_energy(
    x: &Field<Vec2, 1>,
    corners: &Field<IVec3, 1>,
    rest: &Field<Mat2, 1>,
    energy: &Field<f32, 0>,
    area: f32,
) {
    for [t] in corners {
        let c = corners[[t]];
        let origin = x[[c.x]];
        let edges = Mat2::from_cols([x[[c.y]] - origin, x[[c.z]] - origin]);
        let f = edges * rest[[t]];
        let volume = f.determinant().max(0.05);
        let log = volume.ln();
        let squares = (f.transpose() * f).trace();
        let density = 0.5 * MU * (squares - 2.0) - MU * log + 0.5 * LAMBDA * log * log;
        energy[[]] += density * area;
    }
}

#[kernel]
fn clear_gradient(gradient: &Field<Vec2, 1>, energy: &Field<f32, 0>) {
    energy[[]] = 0.0;
    for [i] in gradient {
        gradient[[i]] = Vec2::splat(0.0);
    }
}

#[kernel]
fn clear_grid(momentum: &Field<Vec2, 2>, mass: &Field<f32, 2>) {
    for [i, j] in mass {
        momentum[[i, j]] = Vec2::splat(0.0);
        mass[[i, j]] = 0.0;
    }
}

/// Quadratic B-spline weights of the three nodes around a vertex along each axis, one row per node.
#[func]
fn spline(f: Vec2) -> Matrix<f32, 3, 2> {
    let (a, b, c) = (
        Vec2::splat(1.5) - f,
        f - Vec2::splat(1.0),
        f - Vec2::splat(0.5),
    );
    Matrix::from_rows([a * a * 0.5, Vec2::splat(0.75) - b * b, c * c * 0.5])
}

#[kernel]
fn vertices_to_grid(
    x: &Field<Vec2, 1>,
    v: &Field<Vec2, 1>,
    c: &Field<Mat2, 1>,
    gradient: &Field<Vec2, 1>,
    momentum: &Field<Vec2, 2>,
    mass: &Field<f32, 2>,
    vertex_mass: f32,
    n: f32,
) {
    for [p] in x {
        let at = (x[[p]] * n - Vec2::splat(0.5)).floor().cast::<i32>();
        let part = x[[p]] * n - at.cast::<f32>();
        let w = spline(part);
        let moved = v[[p]] * vertex_mass - gradient[[p]] * DT;
        for i in unroll(0..3) {
            for j in unroll(0..3) {
                let offset = ivec2(i, j);
                let weight = w[[i, 0]] * w[[j, 1]];
                let d = (offset.cast::<f32>() - part) / n;
                momentum[at + offset] += (moved + c[[p]] * d * vertex_mass) * weight;
                mass[at + offset] += vertex_mass * weight;
            }
        }
    }
}

/// Gravity, a round obstacle and the ground.
#[kernel]
fn update_grid(momentum: &Field<Vec2, 2>, mass: &Field<f32, 2>, n: i32) {
    for [i, j] in mass {
        let m = mass[[i, j]];
        if m > 0.0 {
            let mut u = momentum[[i, j]] / m;
            u.y -= DT * GRAVITY;
            let from_obstacle = vec2(i as f32, j as f32) / n as f32 - vec2(0.5, 0.3);
            if from_obstacle.norm_sqr() < 0.01 {
                let normal = from_obstacle.normalized();
                u -= normal * u.dot(normal).min(0.0);
            }
            if j < 3 && u.y < 0.0 {
                u.y = 0.0;
            }
            momentum[[i, j]] = u;
        }
    }
}

#[kernel]
fn grid_to_vertices(
    x: &Field<Vec2, 1>,
    v: &Field<Vec2, 1>,
    c: &Field<Mat2, 1>,
    velocity: &Field<Vec2, 2>,
    n: f32,
) {
    for [p] in x {
        let at = (x[[p]] * n - Vec2::splat(0.5)).floor().cast::<i32>();
        let part = x[[p]] * n - at.cast::<f32>();
        let w = spline(part);
        let mut sum = Vec2::splat(0.0);
        let mut affine = Mat2::splat(0.0);
        for i in unroll(0..3) {
            for j in unroll(0..3) {
                let offset = ivec2(i, j);
                let u = velocity[at + offset] * (w[[i, 0]] * w[[j, 1]]);
                sum += u;
                affine += u.outer(offset.cast::<f32>() - part) * (4.0 * n);
            }
        }
        v[[p]] = sum;
        c[[p]] = affine;
        x[[p]] += sum * DT;
    }
}

struct Mesh {
    world: World,
    x: Field<Vec2, 1>,
    gradient: Field<Vec2, 1>,
    v: Field<Vec2, 1>,
    c: Field<Mat2, 1>,
    corners: Field<IVec3, 1>,
    rest: Field<Mat2, 1>,
    energy: Field<f32, 0>,
    momentum: Field<Vec2, 2>,
    mass: Field<f32, 2>,
    spacing: f32,
    n: i32,
}

impl Mesh {
    /// `2 height` x `height` squares of two triangles each, on a grid of `n`^2 nodes.
    fn new(world: &World, height: i32, n: i32) -> Result<Mesh> {
        let (rows, columns) = (height + 1, 2 * height + 1);
        let spacing = 0.2 / height as f32;
        let count = [i64::from(rows * columns)];
        let x = world.field::<Vec2, 1>("x", count)?.needs_grad()?;
        let place = |p: i32| vec2((p % columns) as f32, (p / columns) as f32) * spacing;
        // Slightly stretched, so that there are forces from the start.
        let start = (0..rows * columns).map(|p| place(p) * 1.02 + vec2(0.3, 0.45));
        x.copy_from(&start.collect::<Vec<_>>())?;
        let triangles = (0..2 * height * height).flat_map(|q| {
            let first = q / (columns - 1) * columns + q % (columns - 1);
            let (right, above) = (first + 1, first + columns);
            [ivec3(first, right, above), ivec3(above + 1, above, right)]
        });
        let triangles: Vec<IVec3> = triangles.collect();
        let corners = world.field::<IVec3, 1>("corners", [triangles.len() as i64])?;
        corners.copy_from(&triangles)?;
        let rest = world.field::<Mat2, 1>("rest", [triangles.len() as i64])?;
        let shape = |t: &IVec3| {
            let [a, b, c] = t.0.map(place);
            Mat2::from_cols([b - a, c - a]).inverse()
        };
        rest.copy_from(&triangles.iter().map(shape).collect::<Vec<_>>())?;
        let energy = world.scalar::<f32>("energy")?.needs_grad()?;
        energy.grad()?.fill(1.0)?;
        Ok(Mesh {
            world: world.clone(),
            gradient: x.grad()?,
            x,
            v: world.field("v", count)?,
            c: world.field("c", count)?,
            corners,
            rest,
            energy,
            momentum: world.field("momentum", [i64::from(n), i64::from(n)])?,
            mass: world.field("mass", [i64::from(n), i64::from(n)])?,
            spacing,
            n,
        })
    }

    fn substep(&self) -> Result<()> {
        let n = self.n as f32;
        let area = 0.5 * self.spacing * self.spacing;
        let energy = || total_energy(&self.x, &self.corners, &self.rest, &self.energy, area);
        clear_gradient(&self.gradient, &self.energy)?;
        energy()?;
        self.world.grad(energy)?;
        clear_grid(&self.momentum, &self.mass)?;
        vertices_to_grid(
            &self.x,
            &self.v,
            &self.c,
            &self.gradient,
            &self.momentum,
            &self.mass,
            self.spacing * self.spacing,
            n,
        )?;
        update_grid(&self.momentum, &self.mass, self.n)?;
        grid_to_vertices(&self.x, &self.v, &self.c, &self.momentum, n)
    }
}

fn make(world: &World, size: Size) -> Result<Box<dyn Contender>> {
    let (height, n) = match size {
        Size::Quick => (50, 128),
        Size::Paper | Size::Gpu => (200, 512),
    };
    let mesh = Mesh::new(world, height, n)?;
    let out = mesh.x.clone();
    let run = move || mesh.substep();
    Ok(repeated(world, SUBSTEPS, run, move || {
        let all = out.to_vec()?;
        Ok(all.iter().flat_map(|x| [x.x, x.y]).collect())
    }))
}
