//! Marching cubes: triangulates the zero level set of a function. Neighboring triangles share their vertices, and the mesh is watertight.
//! Writes it to a PLY file with normals, which Blender, MeshLab and most viewers read.

use super::surface::{Screen, Sides};
use super::{Example, Media, Outcome, Stage, Summary};
use wuji::algorithms::exclusive_prefix_sum;
use wuji::files::Mesh;
use wuji::prelude::*;

/// Marching cubes.
pub const ISOSURFACE: Example = Example {
    name: "isosurface",
    about: "marching cubes over a gyroid in a ball; also writes a PLY file",
    long: "The numbers of vertices and triangles are not known in advance: prefix sums over the edges and cubes of the grid tell each thread \
           where to write. A vertex belongs to an edge of the grid, so triangles of neighboring cubes share it. Normals are gradients \
           of the function, so the surface looks smooth. Writes the mesh to isosurface.ply and renders it on a turntable.",
    size: ("cubes along each side", 64),
    frames: 48,
    media: Media::Moving,
    run,
    file: file!(),
    source: include_str!("isosurface.rs"),
};

/// Triangles of a cube, for each of the 256 ways in which its corners can be inside.
///
/// Bit `axis` of the number of a corner is its coordinate. The edge from a corner along an axis has the number `3 * corner + axis`.
struct Cases {
    /// Where the edges of each case start, and the end.
    starts: Vec<u32>,
    /// Three for each triangle.
    edges: Vec<u32>,
}

fn edge(p: usize, q: usize) -> usize {
    3 * p.min(q) + (p ^ q).ilog2() as usize
}

/// Whether two edges are on one side of the cube.
fn share_a_side(e: usize, f: usize) -> bool {
    let on = |e: usize, axis: usize| (e % 3 != axis).then_some(((e / 3) >> axis) & 1);
    (0..3).any(|axis| on(e, axis).is_some() && on(e, axis) == on(f, axis))
}

impl Cases {
    fn new() -> Cases {
        let mut cases = Cases {
            starts: vec![0],
            edges: Vec::new(),
        };
        for case in 0..256 {
            let mut next = Cases::segments(case);
            while let Some(first) = next.iter().position(Option::is_some) {
                let mut polygon = vec![first];
                while let Some(e) = next[polygon[polygon.len() - 1]].take() {
                    polygon.push(e);
                }
                polygon.pop();
                cases.add(&mut polygon);
            }
            cases.starts.push(cases.edges.len() as u32);
        }
        cases
    }

    /// The next edge of the polygon through each edge. On each side of the cube, a segment cuts off each row of corners that are
    /// inside; a side of two cubes has the same segments in both, so there are no gaps.
    fn segments(case: usize) -> [Option<usize>; 24] {
        let mut next = [None; 24];
        for side in 0..6 {
            let (axis, far) = (side / 2, side % 2);
            let (b, c) = (1 << ((axis + 1) % 3), 1 << ((axis + 2) % 3));
            // Counterclockwise, as seen from outside.
            let mut ring = [0, b, b | c, c].map(|corner| corner | far << axis);
            if far == 0 {
                ring.reverse();
            }
            let inside = |k: usize| case >> ring[k % 4] & 1 == 1;
            for last in (0..4).filter(|k| inside(*k) && !inside(k + 1)) {
                let back = (0..4).take_while(|n| inside(last + 4 - n)).count();
                let first = last + 5 - back;
                let leaves = edge(ring[last], ring[(last + 1) % 4]);
                next[leaves] = Some(edge(ring[(first + 3) % 4], ring[first % 4]));
            }
        }
        next
    }

    /// A fan of triangles. No diagonal is on a side of the cube, where it could meet another one.
    fn add(&mut self, polygon: &mut [usize]) {
        let n = polygon.len();
        while (2..n - 1).any(|k| share_a_side(polygon[0], polygon[k])) {
            polygon.rotate_left(1);
        }
        for k in 1..n - 1 {
            let triangle = [polygon[0], polygon[k + 1], polygon[k]];
            self.edges.extend(triangle.map(|e| e as u32));
        }
    }
}

/// The function on a grid, and what is made of it.
#[derive(Fields)]
struct Cubes {
    f: Field<f32, 3>,
    starts: Field<u32, 1>,
    edges: Field<u32, 1>,
    /// Where the vertex of each edge, and the first triangle of each cube, go; at the end, how many there are.
    vertex: Field<u32, 1>,
    triangle: Field<u32, 1>,
    /// Points along each side.
    n: i32,
}

/// Vertices, normals and triangles.
#[derive(Fields)]
struct Surface {
    position: Field<Vec3, 1>,
    normal: Field<Vec3, 1>,
    corners: Field<UVec3, 1>,
}

/// Signed function, negative inside: a thickened gyroid in a ball.
#[func]
fn shape(p: Vec3) -> f32 {
    let q = p * 9.0;
    let gyroid = q.sin().dot(q.yzx().cos());
    (gyroid.abs() / 9.0 - 0.045).max(p.norm() - 0.85)
}

#[kernel]
impl Cubes {
    #[func]
    fn point(&self, at: IVec3) -> Vec3 {
        at.cast::<f32>() * (2.0 / (self.n - 1) as f32) - 1.0
    }

    #[func]
    fn number(&self, at: IVec3) -> i32 {
        (at.x * self.n + at.y) * self.n + at.z
    }

    /// Which corners of a cube are inside.
    #[func]
    fn case(&self, at: IVec3) -> u32 {
        let mut case = 0u32;
        for c in 0..8 {
            let corner = at + ivec3(c & 1, c >> 1 & 1, c >> 2);
            case |= ((self.f[corner] < 0.0) as u32) << (c as u32);
        }
        case
    }

    /// The gradient of the function at a point of the grid.
    #[func]
    fn slope(&self, at: IVec3) -> Vec3 {
        let mut slope = Vec3::splat(0.0);
        for axis in unroll(0..3) {
            let last = self.n - 1;
            let high = (at + unit::<3>(axis)).min(IVec3::splat(last));
            let low = (at - unit::<3>(axis)).max(IVec3::splat(0));
            slope[axis] = self.f[high] - self.f[low];
        }
        slope
    }

    fn evaluate(&self) {
        for [i, j, k] in self.f {
            self.f[[i, j, k]] = shape(self.point(ivec3(i, j, k)));
        }
    }

    /// Counts vertices and triangles.
    fn count(&self) {
        for [i, j, k] in self.f {
            let at = ivec3(i, j, k);
            let inside = self.f[at] < 0.0;
            for axis in unroll(0..3) {
                let end = at + unit::<3>(axis);
                if end[axis] < self.n && (self.f[end] < 0.0) != inside {
                    self.vertex[3 * self.number(at) + axis as i32] = 1;
                }
            }
            if i < self.n - 1 && j < self.n - 1 && k < self.n - 1 {
                let case = self.case(at);
                self.triangle[self.number(at)] = (self.starts[case + 1] - self.starts[case]) / 3;
            }
        }
    }

    /// Writes vertices and triangles to their places.
    fn triangulate(&self, surface: &Surface) {
        for [i, j, k] in self.f {
            let at = ivec3(i, j, k);
            for axis in unroll(0..3) {
                let e = 3 * self.number(at) + axis as i32;
                let end = at + unit::<3>(axis);
                if self.vertex[e + 1] > self.vertex[e] {
                    let t = self.f[at] / (self.f[at] - self.f[end]);
                    let v = self.vertex[e];
                    surface.position[v] = mix(self.point(at), self.point(end), t);
                    surface.normal[v] = mix(self.slope(at), self.slope(end), t).normalized();
                }
            }
            let first = self.triangle[self.number(at)];
            let count = self.triangle[self.number(at) + 1] - first;
            if count > 0 {
                let from = self.starts[self.case(at)];
                for t in 0..count {
                    let mut corners = UVec3::splat(0);
                    for c in unroll(0..3) {
                        let e = self.edges[from + 3 * t + c as u32] as i32;
                        let corner = e / 3;
                        let start = at + ivec3(corner & 1, corner >> 1 & 1, corner >> 2);
                        corners[c] = self.vertex[3 * self.number(start) + e % 3];
                    }
                    surface.corners[first + t] = corners;
                }
            }
        }
    }
}

/// A field with the elements of a slice, and one of zeros if there are none.
fn field<T: Element>(world: &World, name: &str, values: &[T]) -> wuji::Result<Field<T, 1>> {
    let field = world.field(name, values.len().max(1))?;
    if !values.is_empty() {
        field.copy_from(values)?;
    }
    Ok(field)
}

/// The mesh of the function on a grid of cubes.
fn march(world: &World, cubes: usize) -> wuji::Result<(Surface, Mesh)> {
    let n = cubes + 1;
    let cases = Cases::new();
    let grid = Cubes {
        f: world.field("f", [n, n, n])?,
        starts: field(world, "starts", &cases.starts)?,
        edges: field(world, "edges", &cases.edges)?,
        vertex: world.field("vertex", 3 * n * n * n + 1)?,
        triangle: world.field("triangle", n * n * n + 1)?,
        n: n as i32,
    };
    grid.evaluate()?;
    grid.count()?;
    exclusive_prefix_sum(&grid.vertex)?;
    exclusive_prefix_sum(&grid.triangle)?;
    let vertices = grid.vertex.get(3 * n * n * n)? as usize;
    let triangles = grid.triangle.get(n * n * n)? as usize;
    let surface = Surface {
        position: world.field("position", vertices.max(1))?,
        normal: world.field("normal", vertices.max(1))?,
        corners: world.field("corners", triangles.max(1))?,
    };
    grid.triangulate(&surface)?;
    let mut corners: Vec<[u32; 3]> = surface.corners.to_vec()?.iter().map(|c| c.0).collect();
    corners.truncate(triangles);
    let mesh = Mesh::points(&surface.position.to_vec()?[..vertices])
        .with_normals(&surface.normal.to_vec()?[..vertices])
        .with_triangles(&corners);
    Ok((surface, mesh))
}

fn run(stage: &mut Stage) -> Outcome<Summary> {
    let world = stage.world();
    let cubes = stage.size();
    let (surface, mesh) = march(&world, cubes)?;
    mesh.save_ply(stage.beside("ply")?)?;
    let screen = Screen::new(&world, 360)?;
    let frames = stage.frames() as f32;
    let count = mesh.triangles().len();
    stage.play(
        |input| {
            let yaw = input.frame as f32 / frames * std::f32::consts::TAU;
            let sides = Sides {
                front: vec3(0.1, 0.5, 0.55),
                back: vec3(0.8, 0.4, 0.15),
            };
            screen.clear()?;
            let (position, normal) = (&surface.position, &surface.normal);
            screen.draw_smooth(position, normal, &surface.corners, count, [yaw, 0.4], sides)
        },
        || screen.picture(),
    )?;
    Ok(Summary::new(
        format!(
            "{count} triangles between {} vertices in {cubes}x{cubes}x{cubes} cubes",
            mesh.positions().len()
        ),
        1,
        "pictures",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// As many triangles as in the table of Lorensen and Cline: five at most in a case, and 820 in all.
    #[test]
    fn cases() {
        let cases = Cases::new();
        assert_eq!(cases.starts.len(), 257);
        assert_eq!(cases.edges.len(), 820 * 3);
        let most = cases.starts.windows(2).map(|w| (w[1] - w[0]) / 3).max();
        assert_eq!(most, Some(5));
    }

    /// Every edge belongs to exactly two triangles, in opposite directions. Normals point outwards.
    #[test]
    fn the_mesh_is_watertight() {
        for world in [World::cpu().unwrap(), World::interpreter().unwrap()] {
            let (_, mesh) = march(&world, 24).unwrap();
            assert!(mesh.triangles().len() > 5000, "{}", mesh.triangles().len());
            let mut edges: HashMap<(u32, u32), usize> = HashMap::new();
            let (mut volume, mut inwards) = (0.0, 0);
            let mut used = vec![false; mesh.positions().len()];
            for t in mesh.triangles() {
                for k in 0..3 {
                    used[t[k] as usize] = true;
                    *edges.entry((t[k], t[(k + 1) % 3])).or_default() += 1;
                }
                let [a, b, c] = t.map(|v| mesh.positions()[v as usize]);
                volume += f64::from(a.dot(b.cross(c))) / 6.0;
                let normals = t.map(|v| mesh.normals()[v as usize]);
                let across = (b - a).cross(c - a);
                inwards += usize::from(across.dot(normals[0] + normals[1] + normals[2]) < 0.0);
            }
            assert!(
                used.iter().all(|u| *u),
                "every vertex belongs to a triangle"
            );
            for ((p, q), count) in &edges {
                assert_eq!(*count, 1, "an edge from {p} to {q}");
                assert_eq!(edges.get(&(*q, *p)), Some(&1), "an edge from {q} to {p}");
            }
            assert!(volume > 0.1, "{volume}");
            // The function has creases, where a gradient is that of one side.
            let count = mesh.triangles().len();
            assert!(inwards * 10 < count, "{inwards} of {count}");
        }
    }
}
