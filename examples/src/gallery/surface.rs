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
    /// The colour of the front.
    pub front: Vec3,
    /// The colour of the back.
    pub back: Vec3,
}

/// The colour of a lit surface with a unit normal, as 24 bits.
#[func]
fn shade(normal: Vec3, color: Vec3) -> i64 {
    let lit = normal.dot(LAMP).max(0.0);
    let shine = (normal.dot((LAMP + vec3(0.0, 0.0, 1.0)).normalized()))
        .max(0.0)
        .powi(40);
    let color = color * (0.16 + 0.1 * normal.y + 0.84 * lit) + Vec3::splat(0.35 * shine);
    // Gamma correction, and 8 bits per channel.
    let color = (color.clamp(Vec3::splat(0.0), Vec3::splat(1.0)).sqrt() * 255.0).cast::<i64>();
    color.x << 16 | color.y << 8 | color.z
}

/// Draws a triangle. `color` gets the weights of the second and the third corner at a pixel.
#[func]
fn fill(a: Vec3, b: Vec3, c: Vec3, seen: &Field<i64, 2>, color: impl Fn(f32, f32) -> i64) {
    let n = seen.shape().x;
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
            let wb = (p - pa).cross(pc - pa) * inverse;
            let wc = (pb - pa).cross(p - pa) * inverse;
            if wb >= 0.0 && wc >= 0.0 && wb + wc <= 1.0 {
                let z = a.z + (b.z - a.z) * wb + (c.z - a.z) * wc;
                let near = ((z + 4.0) * 1e6) as i64;
                seen.at([i, j]).fetch_max(near << 24 | color(wb, wc));
            }
        }
    }
}

#[kernel]
fn draw(corners: &Field<Vec3, 1>, count: i32, view: Mat3, sides: Sides, seen: &Field<i64, 2>) {
    for t in 0..count {
        let a = view * corners[[3 * t]];
        let b = view * corners[[3 * t + 1]];
        let c = view * corners[[3 * t + 2]];
        let across = (b - a).cross(c - a);
        if across.z.abs() > 1e-12 {
            let front = across.z > 0.0;
            let normal = across.normalized() * (if front { 1.0 } else { -1.0 });
            let rgb = shade(normal, if front { sides.front } else { sides.back });
            fill(a, b, c, seen, |_, _| rgb);
        }
    }
}

/// Triangles between shared vertices, with the normals of those.
#[derive(Fields)]
struct Smooth {
    position: Field<Vec3, 1>,
    normal: Field<Vec3, 1>,
    corners: Field<UVec3, 1>,
    seen: Field<i64, 2>,
}

#[kernel]
impl Smooth {
    fn draw(&self, count: i32, view: Mat3, sides: Sides) {
        for t in 0..count {
            let k = self.corners[t];
            let a = view * self.position[k.x];
            let b = view * self.position[k.y];
            let c = view * self.position[k.z];
            let area = (b - a).cross(c - a).z;
            if area.abs() > 1e-12 {
                let front = area > 0.0;
                let side = if front { 1.0 } else { -1.0 };
                let color = if front { sides.front } else { sides.back };
                let na = view * self.normal[k.x] * side;
                let nb = view * self.normal[k.y] * side;
                let nc = view * self.normal[k.z] * side;
                fill(a, b, c, &self.seen, |wb, wc| {
                    shade((na + (nb - na) * wb + (nc - na) * wc).normalized(), color)
                });
            }
        }
    }
}

/// From a camera at `yaw` and `pitch`.
fn view([yaw, pitch]: [f32; 2]) -> Mat3 {
    let (s, c) = yaw.sin_cos();
    let turn = Matrix([[c, 0.0, -s], [0.0, 1.0, 0.0], [s, 0.0, c]]);
    let (s, c) = pitch.sin_cos();
    let tip = Matrix([[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]]);
    tip * turn
}

impl Screen {
    /// A square image that shows the unit sphere.
    pub fn new(world: &World, size: usize) -> wuji::Result<Screen> {
        let fine = FINE * size;
        let seen = world.field("seen", [fine, fine])?;
        Ok(Screen { size, seen })
    }

    /// Removes everything.
    pub fn clear(&self) -> wuji::Result<()> {
        self.seen.fill(0)
    }

    /// Draws `count` triangles, three corners each, from a camera at `yaw` and `pitch`.
    pub fn draw(
        &self,
        corners: &Field<Vec3, 1>,
        count: usize,
        camera: [f32; 2],
        sides: Sides,
    ) -> wuji::Result<()> {
        draw(corners, count as i32, view(camera), sides, &self.seen)
    }

    /// Draws `count` triangles between vertices, whose normals are interpolated.
    pub fn draw_smooth(
        &self,
        position: &Field<Vec3, 1>,
        normal: &Field<Vec3, 1>,
        corners: &Field<UVec3, 1>,
        count: usize,
        camera: [f32; 2],
        sides: Sides,
    ) -> wuji::Result<()> {
        let smooth = Smooth {
            position: position.clone(),
            normal: normal.clone(),
            corners: corners.clone(),
            seen: self.seen.clone(),
        };
        smooth.draw(count as i32, view(camera), sides)
    }

    /// What is seen, as a picture.
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
