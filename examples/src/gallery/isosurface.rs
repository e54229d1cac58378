//! Triangulates the zero level set of a function: marching tetrahedra, with six tetrahedra per cube, which needs no table of 256 cases.
//! Writes the triangles to a PLY file, which Blender, MeshLab and most viewers read.

use super::surface::{Screen, Sides};
use super::{Example, Media, Outcome, Stage, Summary};
use wuji::prelude::*;

/// The six paths from corner (0, 0, 0) of a cube to (1, 1, 1) along its edges, by axes: each is a tetrahedron.
const WAYS: [[usize; 3]; 6] = [
    [0, 1, 2],
    [0, 2, 1],
    [1, 0, 2],
    [1, 2, 0],
    [2, 0, 1],
    [2, 1, 0],
];

pub const ISOSURFACE: Example = Example {
    name: "isosurface",
    about: "marching tetrahedra over a gyroid in a ball; also writes a PLY file",
    long: "The number of triangles is not known in advance: all threads append to a `dynamic` list in parallel. Local arrays are indexed \
           at run time. Writes the mesh to isosurface.ply and renders it on a turntable.",
    size: ("cubes along each side", 48),
    frames: 48,
    media: Media::Moving,
    run,
    file: file!(),
    source: include_str!("isosurface.rs"),
};

#[derive(Element, Clone, Copy, Debug)]
struct Triangle {
    a: Vec3,
    b: Vec3,
    c: Vec3,
}

/// Signed function, negative inside: a thickened gyroid in a ball.
#[func]
fn shape(p: Vec3) -> f32 {
    let q = p * 9.0;
    let gyroid = q.sin().dot(q.yzx().cos());
    (gyroid.abs() / 9.0 - 0.045).max(p.norm() - 0.85)
}

#[kernel]
fn evaluate(f: &Field<f32, 3>) {
    let n = f.shape().x - 1;
    for [i, j, k] in f {
        f[[i, j, k]] =
            shape(vec3(i as f32, j as f32, k as f32) * (2.0 / n as f32) - Vec3::splat(1.0));
    }
}

/// The zero crossing on the edge from `p` to `q`.
#[func]
fn crossing(p: Vec3, q: Vec3, fp: f32, fq: f32) -> Vec3 {
    mix(p, q, fp / (fp - fq))
}

/// Orients a triangle so that its normal points along `out`.
#[func]
fn facing(a: Vec3, b: Vec3, c: Vec3, out: Vec3) -> Triangle {
    if (b - a).cross(c - a).dot(out) > 0.0 {
        Triangle { a, b, c }
    } else {
        Triangle { a, b: c, c: b }
    }
}

#[kernel]
fn march(f: &Field<f32, 3>, triangles: &Field<Triangle, 1>) {
    let n = f.shape().x - 1;
    for [i, j, k] in grid([0..n, 0..n, 0..n]) {
        for w in unroll(0..6) {
            let mut p = [Vec3::splat(0.0); 4];
            let mut d = [0.0; 4];
            let mut corner = ivec3(i, j, k);
            for c in unroll(0..4) {
                p[c] = corner.cast::<f32>() * (2.0 / n as f32) - Vec3::splat(1.0);
                d[c] = f[corner];
                if c < 3 {
                    corner += unit::<3>(WAYS[w][c % 3]);
                }
            }
            // Corners inside of the surface first.
            let mut order = [0, 0, 0, 0];
            let mut inside = 0;
            for c in unroll(0..4) {
                if d[c] < 0.0 {
                    order[inside] = c;
                    inside += 1;
                }
            }
            let mut next = inside;
            for c in unroll(0..4) {
                if d[c] >= 0.0 {
                    order[next] = c;
                    next += 1;
                }
            }
            let (o, q, r, s) = (order[0], order[1], order[2], order[3]);
            if inside == 1 {
                let out = p[q] + p[r] + p[s] - p[o] * 3.0;
                let (a, b, c) = (
                    crossing(p[o], p[q], d[o], d[q]),
                    crossing(p[o], p[r], d[o], d[r]),
                    crossing(p[o], p[s], d[o], d[s]),
                );
                triangles.append((), facing(a, b, c, out));
            } else if inside == 3 {
                let out = p[s] * 3.0 - p[o] - p[q] - p[r];
                let (a, b, c) = (
                    crossing(p[s], p[o], d[s], d[o]),
                    crossing(p[s], p[q], d[s], d[q]),
                    crossing(p[s], p[r], d[s], d[r]),
                );
                triangles.append((), facing(a, b, c, out));
            } else if inside == 2 {
                let out = p[r] + p[s] - p[o] - p[q];
                let (a, b) = (
                    crossing(p[o], p[r], d[o], d[r]),
                    crossing(p[o], p[s], d[o], d[s]),
                );
                let (c, e) = (
                    crossing(p[q], p[s], d[q], d[s]),
                    crossing(p[q], p[r], d[q], d[r]),
                );
                triangles.append((), facing(a, b, c, out));
                triangles.append((), facing(a, c, e, out));
            }
        }
    }
}

/// The bytes of a PLY file, with three vertices per triangle.
fn ply(triangles: &[Triangle]) -> Vec<u8> {
    let header = format!(
        "ply\nformat binary_little_endian 1.0\nelement vertex {}\nproperty float x\nproperty float y\nproperty float z\n\
         element face {}\nproperty list uchar int vertex_indices\nend_header\n",
        3 * triangles.len(),
        triangles.len()
    );
    let mut bytes = header.into_bytes();
    for corner in triangles.iter().flat_map(|t| [t.a, t.b, t.c]) {
        corner.0.iter().for_each(|c| bytes.extend(c.to_le_bytes()));
    }
    for t in 0..triangles.len() as i32 {
        bytes.push(3);
        (0..3).for_each(|c| bytes.extend((3 * t + c).to_le_bytes()));
    }
    bytes
}

fn run(stage: &mut Stage) -> Outcome<Summary> {
    let world = stage.world();
    let n = stage.size() + 1;
    let f = world.field::<f32, 3>("f", [n, n, n])?;
    // The extent is an upper bound; memory is allocated as the list grows.
    let triangles =
        world.layout(|root| root.dynamic(I, 1 << 26).place::<Triangle, 1>("triangles"))?;
    evaluate(&f)?;
    march(&f, &triangles)?;
    let (_, mesh) = triangles.export()?;
    stage.write("ply", &ply(&mesh))?;

    let corners = world.field::<Vec3, 1>("corners", 3 * mesh.len().max(1))?;
    if !mesh.is_empty() {
        corners.copy_from(
            &mesh
                .iter()
                .flat_map(|t| [t.a, t.b, t.c])
                .collect::<Vec<_>>(),
        )?;
    }
    let screen = Screen::new(&world, 360)?;
    let frames = stage.frames() as f32;
    stage.play(
        |input| {
            let yaw = input.frame as f32 / frames * std::f32::consts::TAU;
            let sides = Sides {
                front: vec3(0.1, 0.5, 0.55),
                back: vec3(0.8, 0.4, 0.15),
            };
            screen.clear()?;
            screen.draw(&corners, mesh.len(), [yaw, 0.4], sides)
        },
        || screen.picture(),
    )?;
    Ok(Summary::new(
        format!("{} triangles in {1}x{1}x{1} cubes", mesh.len(), n - 1),
        1,
        "pictures",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The surface is closed: every edge belongs to two triangles. All normals point outwards, so the enclosed volume is positive.
    #[test]
    fn the_surface_is_closed() {
        let world = World::cpu().unwrap();
        let f = world.field::<f32, 3>("f", [25, 25, 25]).unwrap();
        let triangles = world
            .layout(|root| root.dynamic(I, 1 << 20).place::<Triangle, 1>("triangles"))
            .unwrap();
        evaluate(&f).unwrap();
        march(&f, &triangles).unwrap();
        let (_, mesh) = triangles.export().unwrap();
        assert!(mesh.len() > 5000, "{}", mesh.len());
        let key = |p: Vec3| p.0.map(|c| (c * 1e4).round() as i32);
        let mut edges = std::collections::HashMap::new();
        let mut volume = 0.0;
        for t in &mesh {
            let corners = [t.a, t.b, t.c].map(key);
            for k in 0..3 {
                let (p, q) = (corners[k], corners[(k + 1) % 3]);
                if p != q {
                    *edges.entry((p, q)).or_insert(0) += 1;
                    *edges.entry((q, p)).or_insert(0) -= 1;
                }
            }
            volume += f64::from(t.a.dot(t.b.cross(t.c))) / 6.0;
        }
        let open = edges.values().filter(|n| **n != 0).count();
        assert!(open * 200 < edges.len(), "{open} of {}", edges.len());
        assert!(volume > 0.1, "{volume}");
    }
}
