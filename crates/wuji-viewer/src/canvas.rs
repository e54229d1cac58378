//! Particles as soft dots of light on a dark ground.

use crate::picture::Picture;

/// A colour in linear light.
pub type Light = [f32; 3];

/// A colour as it is usually written, `0xrrggbb`, in linear light.
pub fn light(rgb: u32) -> Light {
    [16, 8, 0].map(|shift| ((rgb >> shift & 255) as f32 / 255.0).powf(2.2))
}

/// A square picture in the making; coordinates are 0 to 1, with `y` up.
#[derive(Debug)]
pub struct Canvas {
    size: usize,
    /// Colour times weight, and weight, of the dots over each pixel.
    dots: Vec<[f32; 4]>,
}

/// The ground at the top and at the bottom.
const SKY: u32 = 0x0a0d18;
const FLOOR: u32 = 0x141a2c;
/// The walls around the box.
const WALL: u32 = 0x2b3450;

impl Canvas {
    /// A square canvas without shapes.
    pub fn new(size: usize) -> Canvas {
        Canvas {
            size,
            dots: vec![[0.0; 4]; size * size],
        }
    }

    /// Takes all dots away.
    pub fn clear(&mut self) {
        self.dots.fill([0.0; 4]);
    }

    /// A dot with a soft edge; `radius` in units of the canvas. Dots outside are cut off.
    pub fn dot(&mut self, at: [f32; 2], radius: f32, color: Light) {
        let n = self.size as f32;
        let (x, y, r) = (
            at[0] * n - 0.5,
            (1.0 - at[1]) * n - 0.5,
            (radius * n).max(0.5),
        );
        if !(x > -r && y > -r && x < n + r && y < n + r) {
            return;
        }
        let range = |c: f32| {
            (c - r).ceil().max(0.0) as usize
                ..=(c + r).floor().clamp(-1.0, n - 1.0).max(0.0) as usize
        };
        for j in range(y) {
            for i in range(x) {
                let (dx, dy) = (i as f32 - x, j as f32 - y);
                let falloff = 1.0 - (dx * dx + dy * dy) / (r * r);
                if falloff > 0.0 {
                    let weight = falloff * falloff;
                    let pixel = &mut self.dots[j * self.size + i];
                    for k in 0..3 {
                        pixel[k] += color[k] * weight;
                    }
                    pixel[3] += weight;
                }
            }
        }
    }

    /// The picture: dots over the ground, each with a faint halo; `wall` is the thickness of the box.
    pub fn develop(&self, wall: f32) -> Picture {
        let halo = self.halo();
        let n = self.size;
        let (sky, floor, frame) = (light(SKY), light(FLOOR), light(WALL));
        let edge = (wall * n as f32).round() as usize;
        let mut pixels = Vec::with_capacity(n * n);
        for j in 0..n {
            let t = j as f32 / n as f32;
            for i in 0..n {
                let inside = i >= edge && i + edge < n && j >= edge && j + edge < n;
                let line = !inside
                    && i + 2 >= edge
                    && i < n + 2 - edge
                    && j + 2 >= edge
                    && j < n + 2 - edge;
                let [r, g, b, weight] = self.dots[j * n + i];
                let cover = 1.0 - (-1.6 * weight).exp();
                let scale = if weight > 0.0 { cover / weight } else { 0.0 };
                let glow = halo[j * n + i];
                let dots = [r, g, b];
                let pixel = std::array::from_fn(|k| {
                    let ground = if line {
                        frame[k]
                    } else {
                        sky[k] + (floor[k] - sky[k]) * t * t
                    };
                    let linear = ground * (1.0 - cover) + dots[k] * scale + 0.16 * glow[k];
                    (linear.clamp(0.0, 1.0).powf(1.0 / 2.2) * 255.0 + 0.5) as u8
                });
                pixels.push(pixel);
            }
        }
        Picture {
            width: n,
            height: n,
            pixels,
        }
    }

    /// The dots, blurred: three box filters in each direction come close to a Gaussian.
    fn halo(&self) -> Vec<[f32; 3]> {
        let n = self.size;
        let radius = (n / 64).max(1);
        let mut image: Vec<[f32; 3]> = self
            .dots
            .iter()
            .map(|d| {
                let scale = (1.0 - (-1.6 * d[3]).exp()) / d[3].max(1e-6);
                [d[0] * scale, d[1] * scale, d[2] * scale]
            })
            .collect();
        let mut line = vec![[0.0f32; 3]; n];
        for _ in 0..3 {
            for k in 0..n {
                box_filter(&mut image, &mut line, k * n, 1, radius);
                box_filter(&mut image, &mut line, k, n, radius);
            }
        }
        image
    }
}

/// Averages one row or column (from `start`, every `step`) over `2 radius + 1` pixels.
fn box_filter(
    image: &mut [[f32; 3]],
    line: &mut [[f32; 3]],
    start: usize,
    step: usize,
    radius: usize,
) {
    let n = line.len();
    let share = 1.0 / (2 * radius + 1) as f32;
    let mut sum = [0.0f32; 3];
    let add = |sum: &mut [f32; 3], pixel: [f32; 3], sign: f32| {
        (0..3).for_each(|k| sum[k] += sign * pixel[k])
    };
    for k in 0..radius.min(n) {
        add(&mut sum, image[start + k * step], 1.0);
    }
    for (k, out) in line.iter_mut().enumerate() {
        if k + radius < n {
            add(&mut sum, image[start + (k + radius) * step], 1.0);
        }
        *out = sum.map(|s| (s * share).max(0.0));
        if k >= radius {
            add(&mut sum, image[start + (k - radius) * step], -1.0);
        }
    }
    for (k, pixel) in line.iter().enumerate() {
        image[start + k * step] = *pixel;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dot_is_where_it_was_put() {
        let mut canvas = Canvas::new(64);
        let dark = canvas.develop(0.0);
        canvas.dot([0.25, 0.75], 0.05, [1.0, 0.0, 0.0]);
        canvas.dot([7.0, f32::NAN], 0.05, [1.0; 3]);
        canvas.dot([1.0, 0.0], 0.05, [1.0; 3]);
        let lit = canvas.develop(0.0);
        let at = |picture: &Picture, i: usize, j: usize| picture.pixels[j * 64 + i];
        assert!(at(&lit, 16, 16)[0] > 150, "{:?}", at(&lit, 16, 16));
        assert_eq!(at(&lit, 48, 8), at(&dark, 48, 8));
        canvas.clear();
        assert_eq!(canvas.develop(0.0), dark);
    }

    #[test]
    fn blurring_keeps_the_light() {
        let mut image = vec![[0.0; 3]; 9];
        image[4] = [9.0, 0.0, 0.0];
        box_filter(&mut image, &mut [[0.0; 3]; 9], 0, 1, 1);
        assert_eq!(
            image.iter().map(|p| p[0]).collect::<Vec<_>>(),
            [0., 0., 0., 3., 3., 3., 0., 0., 0.]
        );
    }
}
