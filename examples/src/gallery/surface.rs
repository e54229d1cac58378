//! A triangle rasterizer, shared by the examples with surfaces.

use wuji::prelude::*;
use wuji::viewer::Picture;

/// 2 x 2 supersampling.
const FINE: usize = 2;
const LAMP: Vec3 = vec3(0.42, 0.74, 0.52);

/// Depth and colour of the nearest triangle at each pixel. The depth is in the high bits, so that an atomic maximum is a depth test.
#[derive(Debug)]
pub struct Screen {
    size: usize,
    seen: Field<i64, 2>,
}

/// Colours of the front and back of a surface.
#[derive(Element, Clone, Copy, Debug)]
pub struct Sides {
    pub front: Vec3,
    pub back: Vec3,
}

#[kernel]
fn draw(corners: &Field<Vec3, 1>, count: i32, view: Mat3, sides: Sides, seen: &Field<i64, 2>) {
    let n = seen.shape().x;
    for t in 0..count {
        let a = view * corners[[3 * t]];
        let b = view * corners[[3 * t + 1]];
        let c = view * corners[[3 * t + 2]];
        let across = (b - a).cross(c - a);
        let area = across.z;
        if area.abs() > 1e-12 {
            let front = area > 0.0;
            let normal = across.normalized() * (if front { 1.0 } else { -1.0 });
            let lit = normal.dot(LAMP).max(0.0);
            let shine = (normal.dot((LAMP + vec3(0.0, 0.0, 1.0)).normalized()))
                .max(0.0)
                .powi(40);
            let color = if front { sides.front } else { sides.back };
            let color = color * (0.16 + 0.1 * normal.y + 0.84 * lit) + Vec3::splat(0.35 * shine);
            // Gamma correction, and 8 bits per channel.
            let color =
                (color.clamp(Vec3::splat(0.0), Vec3::splat(1.0)).sqrt() * 255.0).cast::<i64>();
            let rgb = color.x << 16 | color.y << 8 | color.z;

            let scale = n as f32 * 0.5;
            let corner = |p: Vec3| (p.xy() + Vec2::splat(1.0)) * scale - Vec2::splat(0.5);
            let (pa, pb, pc) = (corner(a), corner(b), corner(c));
            let last = Vec2::splat(n as f32 - 1.0);
            let low = pa
                .min(pb)
                .min(pc)
                .ceil()
                .max(Vec2::splat(0.0))
                .cast::<i32>();
            let high = pa.max(pb).max(pc).floor().min(last).cast::<i32>();
            let inverse = 1.0 / (pb - pa).cross(pc - pa);
            for i in low.x..high.x + 1 {
                for j in low.y..high.y + 1 {
                    let p = vec2(i as f32, j as f32);
                    // Barycentric coordinates of the pixel.
                    let wb = (p - pa).cross(pc - pa) * inverse;
                    let wc = (pb - pa).cross(p - pa) * inverse;
                    if wb >= 0.0 && wc >= 0.0 && wb + wc <= 1.0 {
                        let z = a.z + (b.z - a.z) * wb + (c.z - a.z) * wc;
                        let near = ((z + 4.0) * 1e6) as i64;
                        seen.at([i, j]).fetch_max(near << 24 | rgb);
                    }
                }
            }
        }
    }
}

impl Screen {
    /// A square image that shows the unit sphere.
    pub fn new(world: &World, size: usize) -> wuji::Result<Screen> {
        let fine = FINE * size;
        let seen = world.field("seen", [fine, fine])?;
        Ok(Screen { size, seen })
    }

    pub fn clear(&self) -> wuji::Result<()> {
        self.seen.fill(0)
    }

    /// Draws `count` triangles, three corners each, from a camera at `yaw` and `pitch`.
    pub fn draw(
        &self,
        corners: &Field<Vec3, 1>,
        count: usize,
        [yaw, pitch]: [f32; 2],
        sides: Sides,
    ) -> wuji::Result<()> {
        let (s, c) = yaw.sin_cos();
        let turn = Matrix([[c, 0.0, -s], [0.0, 1.0, 0.0], [s, 0.0, c]]);
        let (s, c) = pitch.sin_cos();
        let tip = Matrix([[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]]);
        draw(corners, count as i32, tip * turn, sides, &self.seen)
    }

    pub fn picture(&self) -> wuji::Result<Picture> {
        let seen = self.seen.to_vec()?;
        let (n, fine) = (self.size, FINE * self.size);
        Ok(Picture::from_fn(n, n, |x, y| {
            let ground = 0.1 + 0.12 * y as f32 / n as f32;
            let ground = [ground * 0.8, ground * 0.9, ground * 1.2].map(|c| (c * 255.0) as i64);
            let mut sum = [0; 3];
            for k in 0..FINE * FINE {
                let (i, j) = (FINE * x + k % FINE, FINE * (n - 1 - y) + k / FINE);
                let pixel = match seen[i * fine + j] {
                    0 => ground,
                    key => [16, 8, 0].map(|shift| key >> shift & 255),
                };
                (0..3).for_each(|c| sum[c] += pixel[c]);
            }
            sum.map(|c| (c / (FINE * FINE) as i64) as u8)
        }))
    }
}

/// The triangles of a ball.
pub fn ball(center: Vec3, radius: f32) -> Vec<Vec3> {
    let at = |i: usize, j: usize| {
        let (a, b) = (
            i as f32 / 24.0 * std::f32::consts::PI,
            j as f32 / 48.0 * std::f32::consts::TAU,
        );
        center + vec3(a.sin() * b.cos(), a.cos(), a.sin() * b.sin()) * radius
    };
    let square = |i, j| {
        [
            at(i, j),
            at(i, j + 1),
            at(i + 1, j),
            at(i + 1, j),
            at(i, j + 1),
            at(i + 1, j + 1),
        ]
    };
    (0..24)
        .flat_map(|i| (0..48).flat_map(move |j| square(i, j)))
        .collect()
}

/// The corners of the triangles between `rows` by `columns` points, three coordinates each.
pub fn squares(rows: usize, columns: usize, x: &[f64]) -> Vec<Vec3> {
    let at = |i: usize, j: usize| {
        let point = &x[3 * (i * columns + j)..];
        vec3(point[0] as f32, point[1] as f32, point[2] as f32)
    };
    let all = (0..rows - 1).flat_map(|i| (0..columns - 1).map(move |j| (i, j)));
    let corners = all.flat_map(|(i, j)| {
        let (a, b, c, d) = (at(i, j), at(i + 1, j), at(i, j + 1), at(i + 1, j + 1));
        [a, c, b, b, c, d]
    });
    corners.collect()
}
