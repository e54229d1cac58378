//! Meshes: triangles with normals and colors at their corners.

use super::camera::Projected;
use super::math::{
    Vec3, add, cross, is_finite, mix, normal_matrix, normalize, product, rotate, scale, sub,
    transform,
};
use super::segments::{Segments, wireframe};
use super::strip::{Bins, Context, Strip, centers};
use super::workers::parallel;
use super::{Mat4, Mesh, SceneError};
use crate::framebuffer::shapes::for_triangle;
use crate::framebuffer::vertices::over;
use std::ops::Range;

/// A corner in camera space, its color, and where it is in the picture.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Vertex {
    pub(super) position: Vec3,
    normal: Vec3,
    color: [f32; 4],
    projected: Projected,
}

impl Vertex {
    /// Its color under the lights.
    pub(super) fn lit(&self, two_sided: bool, context: &Context) -> [f32; 4] {
        let normal = normalize(self.normal);
        context
            .lights
            .shade(self.color, self.position, normal, two_sided)
    }

    fn between(&self, other: &Vertex, t: f32) -> Vertex {
        Vertex {
            position: mix(self.position, other.position, t),
            normal: mix(self.normal, other.normal, t),
            color: mix(self.color, other.color, t),
            projected: Projected::default(),
        }
    }
}

/// All instances of a mesh in camera space.
pub(super) struct Transformed<'a> {
    mesh: &'a Mesh,
    vertices: Vec<Vertex>,
}

/// The number of vertices that one thread transforms at once.
const CHUNK: usize = 1 << 13;

impl<'a> Transformed<'a> {
    /// An error if there is not enough memory.
    pub(super) fn new(
        mesh: &'a Mesh,
        view: &Mat4,
        context: &Context,
    ) -> Result<Transformed<'a>, SceneError> {
        let computed;
        let normals = match &mesh.normals {
            Some(normals) => normals.as_slice(),
            None => {
                computed = mesh.computed_normals();
                computed.as_slice()
            }
        };
        let count = mesh.vertices.len();
        let spaces: Vec<(Mat4, Mat4)> = match &mesh.instances {
            Some(instances) => {
                let spaces = instances.iter().map(|m| product(view, m));
                spaces.map(|m| (m, normal_matrix(&m))).collect()
            }
            // A view is a rotation.
            None => vec![(*view, *view)],
        };
        let mut vertices = Vec::new();
        let reserved = vertices.try_reserve_exact(count * spaces.len());
        reserved.map_err(|_| SceneError::TooLarge)?;
        vertices.resize(count * spaces.len(), Vertex::default());
        let jobs = vertices.chunks_mut(CHUNK).enumerate().collect();
        parallel(jobs, |(chunk, vertices): (usize, &mut [Vertex])| {
            for (number, vertex) in (chunk * CHUNK..).zip(vertices) {
                let (space, normal_space) = &spaces[number / count];
                let k = number % count;
                let position = transform(space, mesh.vertices[k]);
                *vertex = Vertex {
                    position,
                    normal: normalize(rotate(normal_space, normals[k])),
                    color: mesh.colors.get(k),
                    projected: context.viewport.project(position),
                };
            }
        });
        Ok(Transformed { mesh, vertices })
    }

    /// The number of triangles in all instances.
    pub(super) fn count(&self) -> usize {
        self.mesh.triangles() * self.mesh.instances.as_ref().map_or(1, Vec::len)
    }

    /// The corners of a triangle, as numbers of vertices.
    fn corners(&self, number: usize) -> [usize; 3] {
        let triangles = self.mesh.triangles();
        let (instance, triangle) = (number / triangles, number % triangles);
        let first = instance * self.mesh.vertices.len();
        [0, 1, 2].map(|k| first + self.mesh.vertex(3 * triangle + k))
    }

    /// Some of the triangles, ready to be drawn.
    pub(super) fn prepare(&self, range: Range<usize>, context: &Context) -> Triangles<'_> {
        let mut found = Triangles {
            vertices: &self.vertices,
            clipped: Vec::new(),
            corners: Vec::with_capacity(range.len()),
            two_sided: self.mesh.two_sided,
            bins: Bins::new(context.strips()),
        };
        for number in range {
            found.add(self.corners(number), context);
        }
        found
    }

    /// The edges of some of the triangles.
    pub(super) fn wireframe(&self, range: Range<usize>, context: &Context) -> Segments {
        let triangles = range.map(|number| self.corners(number).map(|k| &self.vertices[k]));
        wireframe(triangles, self.mesh.two_sided, context)
    }

    pub(super) fn is_wireframe(&self) -> bool {
        self.mesh.wireframe
    }
}

/// Triangles behind the near plane, and the strips they touch.
pub(super) struct Triangles<'a> {
    vertices: &'a [Vertex],
    /// Corners on the near plane. Their numbers follow those of the other vertices.
    clipped: Vec<Vertex>,
    corners: Vec<[u32; 3]>,
    two_sided: bool,
    pub(super) bins: Bins,
}

impl Triangles<'_> {
    fn vertex(&self, number: u32) -> &Vertex {
        let number = number as usize;
        let whole = self.vertices.get(number);
        whole.unwrap_or_else(|| &self.clipped[number - self.vertices.len()])
    }

    /// Adds the part of a triangle that is behind the near plane: up to two triangles.
    fn add(&mut self, corners: [usize; 3], context: &Context) {
        let near = -context.viewport.z_near;
        let vertices = corners.map(|k| &self.vertices[k]);
        if !vertices.iter().all(|v| is_finite(v.position)) {
            return;
        }
        let behind = vertices.map(|v| v.position[2] <= near);
        if behind == [true; 3] {
            return self.push(corners.map(|k| k as u32), context);
        }
        let mut polygon = Vec::with_capacity(4);
        for k in 0..3 {
            let next = (k + 1) % 3;
            if behind[k] {
                polygon.push(corners[k] as u32);
            }
            if behind[k] != behind[next] {
                let (a, b) = (vertices[k], vertices[next]);
                let t = (near - a.position[2]) / (b.position[2] - a.position[2]);
                let mut vertex = a.between(b, t);
                vertex.position[2] = near;
                vertex.projected = context.viewport.project(vertex.position);
                polygon.push((self.vertices.len() + self.clipped.len()) as u32);
                self.clipped.push(vertex);
            }
        }
        if let [a, b, c, rest @ ..] = &polygon[..] {
            self.push([*a, *b, *c], context);
            if let [d] = rest {
                self.push([*a, *c, *d], context);
            }
        }
    }

    fn push(&mut self, corners: [u32; 3], context: &Context) {
        let at = corners.map(|k| self.vertex(k).projected.at);
        let [x, y] = [0, 1].map(|axis| {
            let [a, b, c] = at.map(|p| p[axis]);
            centers(a.min(b).min(c), a.max(b).max(c), context.size[axis])
        });
        if !(x.is_empty() || y.is_empty()) {
            self.bins.add(self.corners.len(), &x);
            self.corners.push(corners);
        }
    }

    pub(super) fn draw(&self, number: u32, strip: &mut Strip<'_>, context: &Context) {
        let corners = self.corners[number as usize].map(|k| self.vertex(k));
        let Some(gradients) = Gradients::new(corners.map(|v| v.projected.at)) else {
            return;
        };
        let points = corners.map(|v| v.projected.at.map(f64::from));
        let [a, b, c] = corners.map(|v| v.projected);
        let (columns, height) = (strip.columns.clone(), strip.height);
        for_triangle(columns, height, points, |x, rows| {
            for (y, (pixel, stored)) in rows.clone().zip(strip.column(x, rows)) {
                let [u, v] = gradients.at(x, y);
                let depth = a.depth + u * (b.depth - a.depth) + v * (c.depth - a.depth);
                if !(depth > *stored && depth <= 1.0) {
                    continue;
                }
                // Attributes are linear in space, not in the picture.
                let weights = [(1.0 - u - v) * a.inverse, u * b.inverse, v * c.inverse];
                let whole = 1.0 / (weights[0] + weights[1] + weights[2]);
                let color = self.shade(corners, [weights[1] * whole, weights[2] * whole], context);
                *stored = depth;
                over(pixel, color, 1.0);
            }
        });
    }

    /// The color between three corners. Where they agree, the result is exactly their value.
    fn shade(&self, [a, b, c]: [&Vertex; 3], [u, v]: [f32; 2], context: &Context) -> [f32; 4] {
        let sum = |p: Vec3, q: Vec3, r: Vec3| add(add(p, scale(sub(q, p), u)), scale(sub(r, p), v));
        let channel =
            |k: usize| a.color[k] + (b.color[k] - a.color[k]) * u + (c.color[k] - a.color[k]) * v;
        let normal = normalize(sum(a.normal, b.normal, c.normal));
        let at = sum(a.position, b.position, c.position);
        let color = std::array::from_fn(channel);
        context.lights.shade(color, at, normal, self.two_sided)
    }
}

/// Barycentric coordinates of the second and third corner as functions of the pixel.
struct Gradients {
    origin: [f32; 2],
    u: [f32; 2],
    v: [f32; 2],
}

impl Gradients {
    /// `None` for a triangle without an area.
    fn new([a, b, c]: [[f32; 2]; 3]) -> Option<Gradients> {
        let (p, q) = ([b[0] - a[0], b[1] - a[1]], [c[0] - a[0], c[1] - a[1]]);
        let inverse = 1.0 / (p[0] * q[1] - p[1] * q[0]);
        inverse.is_finite().then(|| Gradients {
            origin: a,
            u: [q[1] * inverse, -q[0] * inverse],
            v: [-p[1] * inverse, p[0] * inverse],
        })
    }

    fn at(&self, x: usize, y: usize) -> [f32; 2] {
        let dx = x as f32 + 0.5 - self.origin[0];
        let dy = y as f32 + 0.5 - self.origin[1];
        [
            dx * self.u[0] + dy * self.u[1],
            dx * self.v[0] + dy * self.v[1],
        ]
    }
}

impl Mesh {
    /// Normals of a mesh without them: of each triangle, or with shared vertices the mean, weighted by area.
    fn computed_normals(&self) -> Vec<Vec3> {
        let mut normals = vec![[0.0; 3]; self.vertices.len()];
        for triangle in 0..self.triangles() {
            let corners = [0, 1, 2].map(|k| self.vertex(3 * triangle + k));
            let [a, b, c] = corners.map(|k| self.vertices[k]);
            let normal = cross(sub(b, a), sub(c, a));
            if is_finite(normal) {
                corners
                    .iter()
                    .for_each(|k| normals[*k] = add(normals[*k], normal));
            }
        }
        normals.into_iter().map(normalize).collect()
    }
}
