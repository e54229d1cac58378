//! Shapes with a color at each vertex, which may have an alpha.

use super::shapes::{for_line, for_triangle};
use super::{Framebuffer, Pixel, clip};
use std::ops::DerefMut;

type Point = [f64; 2];

impl<P: DerefMut<Target = [Pixel]>> Framebuffer<P> {
    /// Draws a line whose color changes from its begin to its end. Alpha lets through what is below.
    pub fn gradient_line(&mut self, ends: [Point; 2], radius: f64, colors: [Pixel; 2]) {
        let (size, height) = ([self.width, self.height], self.height);
        let pixels = &mut *self.pixels;
        let [a, b] = ends;
        let along = [b[0] - a[0], b[1] - a[1]];
        let square = along[0] * along[0] + along[1] * along[1];
        for_line(size, ends, radius, |x, y, coverage| {
            let offset = [x as f64 + 0.5 - a[0], y as f64 + 0.5 - a[1]];
            let t = (offset[0] * along[0] + offset[1] * along[1]) / square;
            // A line without a length has the color of its begin.
            let t = if t > 0.0 { t.min(1.0) as f32 } else { 0.0 };
            let color = std::array::from_fn(|k| colors[0][k] + (colors[1][k] - colors[0][k]) * t);
            over(&mut pixels[x * height + y], color, coverage);
        });
    }

    /// Fills a triangle, with colors interpolated between its corners. Alpha lets through what is below.
    pub fn gradient_triangle(&mut self, corners: [Point; 3], colors: [Pixel; 3]) {
        let [a, b, c] = corners;
        let (p, q) = ([b[0] - a[0], b[1] - a[1]], [c[0] - a[0], c[1] - a[1]]);
        let area = p[0] * q[1] - p[1] * q[0];
        // Without an area, any weights will do.
        let inverse = if area == 0.0 { 0.0 } else { 1.0 / area };
        for_triangle(0..self.width, self.height, corners, |x, rows| {
            let dx = x as f64 + 0.5 - a[0];
            for (y, pixel) in rows.clone().zip(self.column(x, rows)) {
                let dy = y as f64 + 0.5 - a[1];
                let u = ((dx * q[1] - dy * q[0]) * inverse) as f32;
                let v = ((dy * p[0] - dx * p[1]) * inverse) as f32;
                let color = std::array::from_fn(|k| {
                    colors[0][k] * (1.0 - u - v) + colors[1][k] * u + colors[2][k] * v
                });
                over(pixel, color, 1.0);
            }
        });
    }

    /// Draws a filled circle. Alpha lets through what is below.
    pub fn disc(&mut self, [x, y]: Point, radius: f64, color: Pixel) {
        // Relative to the centers of pixels, with half a pixel more so that the edge is at the radius.
        let (x, y, reach) = (x - 0.5, y - 0.5, radius + 0.5);
        if !(x.is_finite() && y.is_finite() && radius > 0.0) {
            return;
        }
        let rows = clip(y - reach, y + reach, self.height);
        for i in clip(x - reach, x + reach, self.width) {
            let dx = (i as f64 - x) as f32;
            let mut dy = (rows.start as f64 - y) as f32;
            for pixel in self.column(i, rows.clone()) {
                let coverage = reach as f32 - (dx * dx + dy * dy).sqrt();
                over(pixel, color, coverage.min(1.0));
                dy += 1.0;
            }
        }
    }

    /// Draws a color over a rectangle, given by its lower left corner and its extents. Alpha lets through what is below.
    pub fn blend_rectangle(&mut self, corner: [i64; 2], extents: [i64; 2], color: Pixel) {
        let end = |axis: usize| corner[axis].saturating_add(extents[axis]);
        let inside = |c: i64, extent: usize| c.clamp(0, extent as i64) as usize;
        let rows = inside(corner[1], self.height)..inside(end(1), self.height);
        if rows.is_empty() {
            return;
        }
        for x in inside(corner[0], self.width)..inside(end(0), self.width) {
            for pixel in self.column(x, rows.clone()) {
                over(pixel, color, 1.0);
            }
        }
    }
}

/// Draws a color over a part of a pixel. Alpha lets through what is below.
#[inline]
pub(crate) fn over(pixel: &mut Pixel, color: Pixel, coverage: f32) {
    let alpha = (color[3] * coverage).clamp(0.0, 1.0);
    if alpha >= 1.0 {
        *pixel = [color[0], color[1], color[2], 1.0];
    } else if alpha > 0.0 {
        (0..3).for_each(|k| pixel[k] += (color[k] - pixel[k]) * alpha);
        pixel[3] += (1.0 - pixel[3]) * alpha;
    }
}

#[cfg(test)]
mod tests {
    use super::super::opaque;
    use super::*;

    const RED: Pixel = [1.0, 0.0, 0.0, 1.0];
    const BLUE: Pixel = [0.0, 0.0, 1.0, 1.0];

    fn drawn(draw: impl FnOnce(&mut Framebuffer)) -> impl Fn(usize, usize) -> Pixel {
        let mut frame = Framebuffer::new(40, 20, opaque(0));
        draw(&mut frame);
        move |x, y| frame.pixels()[x * 20 + y]
    }

    #[test]
    fn lines_change_their_color() {
        let at = drawn(|f| f.gradient_line([[5.0, 10.5], [35.0, 10.5]], 1.5, [RED, BLUE]));
        assert_eq!(at(20, 12), opaque(0));
        let middle = at(20, 10);
        assert!((middle[0] - 0.483).abs() < 1e-3 && (middle[2] - 0.517).abs() < 1e-3);
        assert!(at(5, 10)[0] > 0.98 && at(34, 10)[2] > 0.98);
        // The ends are round, and have one color.
        assert_eq!(at(4, 10), RED);
    }

    #[test]
    fn triangles_interpolate() {
        let corners = [[0.0, 0.0], [40.0, 0.0], [0.0, 20.0]];
        let at = drawn(|f| f.gradient_triangle(corners, [RED, BLUE, opaque(0x00ff00)]));
        assert_eq!(at(39, 19), opaque(0));
        let near = |pixel: Pixel, other: Pixel| (0..3).all(|k| (pixel[k] - other[k]).abs() < 0.06);
        assert!(near(at(0, 0), RED) && near(at(38, 0), BLUE) && near(at(0, 19), opaque(0x00ff00)));
        assert!(near(at(13, 6), [0.33, 0.33, 0.33, 1.0]));
        // Neighbors share no pixels and leave none out.
        let mut frame = Framebuffer::new(40, 20, opaque(0));
        let half = [0.0, 0.0, 1.0, 0.5];
        frame.gradient_triangle([[0.0, 0.0], [40.0, 0.1], [0.0, 20.0]], [half; 3]);
        assert_eq!(frame.pixels()[0], [0.0, 0.0, 0.5, 1.0]);
        let at = drawn(|f| f.gradient_triangle([[3.0, 3.0]; 3], [RED; 3]));
        assert_eq!(at(3, 3), opaque(0));
    }

    #[test]
    fn discs_reach_their_radius() {
        let at = drawn(|f| f.disc([20.0, 10.0], 5.0, RED));
        let covered: f32 = (0..40)
            .flat_map(|x| (0..20).map(move |y| (x, y)))
            .map(|(x, y)| at(x, y)[0])
            .sum();
        assert!(
            (covered - 25.0 * std::f32::consts::PI).abs() < 0.5,
            "{covered}"
        );
        let at = drawn(|f| f.disc([20.5, 10.5], 2.0, [1.0, 1.0, 1.0, 0.25]));
        assert_eq!(at(20, 10), [0.25, 0.25, 0.25, 1.0]);
        for odd in [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e300] {
            drawn(|f| f.disc([odd, 5.0], 2.0, RED))(0, 0);
            let at = drawn(|f| f.disc([20.0, 10.0], odd, RED));
            assert_eq!(at(20, 10)[0], f32::from(u8::from(odd > 1.0)));
        }
    }

    #[test]
    fn rectangles_blend_and_are_clipped() {
        let at = drawn(|f| f.blend_rectangle([-5, 18], [10, i64::MAX], [1.0, 1.0, 1.0, 0.5]));
        assert_eq!(at(0, 18), [0.5, 0.5, 0.5, 1.0]);
        assert_eq!([at(5, 18), at(4, 17)], [opaque(0); 2]);
        let at = drawn(|f| f.blend_rectangle([3, 3], [-2, 4], RED));
        assert_eq!(at(2, 4), opaque(0));
    }
}
