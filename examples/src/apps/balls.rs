//! Particles as a shaded surface: balls in a depth buffer, smoothed, with normals from its slopes and shadows on the floor.

use wuji::prelude::*;
use wuji::viewer::Picture;

/// Towards the lamp.
const LAMP: Vec3 = vec3(0.301, 0.860, -0.412);
/// Cells of the shadow map along each side. It covers the floor from -1 to 2.
const SHADOWS: usize = 384;
const CENTER: Vec3 = vec3(0.5, 0.32, 0.5);
const SCALE: f32 = 0.74;

/// A picture of the unit cube, seen from a camera above its side.
#[derive(Debug)]
pub(super) struct Balls {
    size: usize,
    floor: f32,
    /// Distance and color of the nearest ball at each pixel.
    depth: Vec<f32>,
    color: Vec<Vec3>,
    shadow: Vec<f32>,
    /// Right, up and away from the camera.
    right: Vec3,
    up: Vec3,
    away: Vec3,
}

impl Balls {
    /// A square picture with a floor at a height.
    pub(super) fn new(size: usize, floor: f32) -> Balls {
        let (yaw, pitch) = (0.55f32, 0.34f32);
        let away = vec3(yaw.sin(), 0.0, yaw.cos());
        let down = vec3(0.0, -1.0, 0.0);
        Balls {
            size,
            floor,
            depth: vec![f32::INFINITY; size * size],
            color: vec![Vec3::splat(0.0); size * size],
            shadow: vec![0.0; SHADOWS * SHADOWS],
            right: vec3(yaw.cos(), 0.0, -yaw.sin()),
            up: away * pitch.sin() - down * pitch.cos(),
            away: away * pitch.cos() + down * pitch.sin(),
        }
    }

    /// Adds a ball.
    pub(super) fn add(&mut self, center: Vec3, radius: f32, color: Vec3) {
        let q = center - CENTER;
        let pixels = self.size as f32;
        let at = [self.right, self.up].map(|axis| (0.5 + q.dot(axis) * SCALE) * pixels);
        let (r, middle) = (radius * SCALE * pixels, q.dot(self.away));
        let range = |c: f32| {
            let low = (c - r).ceil().max(0.0) as usize;
            low..((c + r).floor() + 1.0).clamp(0.0, pixels) as usize
        };
        for y in range(at[1]) {
            for x in range(at[0]) {
                let (dx, dy) = ((x as f32 - at[0]) / r, (y as f32 - at[1]) / r);
                let inside = 1.0 - dx * dx - dy * dy;
                let depth = middle - radius * inside.max(0.0).sqrt();
                let pixel = y * self.size + x;
                if inside > 0.0 && depth < self.depth[pixel] {
                    (self.depth[pixel], self.color[pixel]) = (depth, color);
                }
            }
        }
        let on_floor = center - LAMP * ((center.y - self.floor) / LAMP.y);
        let cell = |c: f32| ((c + 1.0) / 3.0 * SHADOWS as f32) as usize;
        let (x, z) = (cell(on_floor.x), cell(on_floor.z));
        if x < SHADOWS && z < SHADOWS {
            self.shadow[x * SHADOWS + z] += 1.0;
        }
    }

    /// The mean of the depths around a pixel that belong to the same surface.
    fn smooth(&mut self, radius: f32) {
        let n = self.size;
        let old = self.depth.clone();
        for y in 2..n - 2 {
            for x in 2..n - 2 {
                let own = old[y * n + x];
                if own == f32::INFINITY {
                    continue;
                }
                let (mut sum, mut count) = (0.0, 0.0);
                for k in 0..25 {
                    let near = old[(y + k / 5 - 2) * n + x + k % 5 - 2];
                    if (near - own).abs() < 2.0 * radius {
                        sum += near;
                        count += 1.0;
                    }
                }
                self.depth[y * n + x] = sum / count;
            }
        }
    }

    /// How much light reaches a point of the floor.
    fn lit(&self, at: Vec3) -> f32 {
        let cell = |c: f32| (c + 1.0) / 3.0 * SHADOWS as f32 - 0.5;
        let (x, z) = (cell(at.x), cell(at.z));
        let mut sum = 0.0;
        for k in 0..49 {
            let (i, j) = (x + (k / 7) as f32 - 3.0, z + (k % 7) as f32 - 3.0);
            let inside = [i, j].iter().all(|c| (0.0..SHADOWS as f32).contains(c));
            if inside && self.shadow[i as usize * SHADOWS + j as usize] > 0.0 {
                sum += 1.0 / 49.0;
            }
        }
        1.0 - 0.75 * sum
    }

    fn floor_color(&self, x: usize, y: usize) -> Vec3 {
        let screen = |k: usize| (k as f32 / self.size as f32 - 0.5) / SCALE;
        let start = CENTER + self.right * screen(x) + self.up * screen(y);
        let at = start + self.away * ((self.floor - start.y) / self.away.y);
        let far = ((at - CENTER).norm() - 0.6).max(0.0);
        let line = |c: f32| (((c * 8.0).fract() + 1.0).fract() - 0.5).abs() > 0.485;
        let inside = (0.0..1.0).contains(&at.x) && (0.0..1.0).contains(&at.z);
        let tile = if inside && (line(at.x) || line(at.z)) {
            0.8
        } else {
            1.0
        };
        let ground = vec3(0.62, 0.66, 0.72) * tile * self.lit(at);
        mix(ground, vec3(0.8, 0.87, 0.95), (far * 0.55).min(1.0))
    }

    /// The picture; `radius` is that of the balls.
    pub(super) fn picture(mut self, radius: f32) -> Picture {
        for _ in 0..3 {
            self.smooth(radius);
        }
        let n = self.size;
        let lamp = vec3(LAMP.dot(self.right), LAMP.dot(self.up), LAMP.dot(self.away));
        let half = (lamp - vec3(0.0, 0.0, 1.0)).normalized();
        let slope = |a: f32, b: f32| {
            let s = (b - a) * (n as f32 * SCALE * 0.5);
            if s.is_finite() {
                s.clamp(-3.0, 3.0)
            } else {
                0.0
            }
        };
        Picture::from_fn(n, n, |x, row| {
            let y = n - 1 - row;
            let pixel = y * n + x;
            let color =
                if self.depth[pixel] == f32::INFINITY || x < 1 || y < 1 || x + 1 >= n || y + 1 >= n
                {
                    self.floor_color(x, y)
                } else {
                    let d = &self.depth;
                    let normal = vec3(
                        slope(d[pixel - 1], d[pixel + 1]),
                        slope(d[pixel - n], d[pixel + n]),
                        -1.0,
                    )
                    .normalized();
                    let lit = normal.dot(lamp).max(0.0);
                    let shine = normal.dot(half).max(0.0).powi(30);
                    self.color[pixel] * (0.3 + 0.1 * normal.y + 0.7 * lit) + 0.25 * shine
                };
            color.0.map(|c| (c.clamp(0.0, 1.0).sqrt() * 255.0) as u8)
        })
    }
}
