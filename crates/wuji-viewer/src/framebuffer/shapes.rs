//! Circles, lines, triangles and rectangles.

use super::{Framebuffer, Pixel, blend, clip};
use std::ops::{DerefMut, Range};

/// A position in pixels.
type Point = [f64; 2];

/// From this radius, the inside of a circle is worth a span of its own.
const LARGE: f64 = 8.0;

/// Wider lines look the same on any framebuffer, and lose precision.
const WIDEST: f64 = 1e9;

impl<P: DerefMut<Target = [Pixel]>> Framebuffer<P> {
    /// Draws a filled circle.
    pub fn circle(&mut self, [x, y]: Point, radius: f64, color: Pixel) {
        // Relative to the centers of pixels.
        let (x, y) = (x - 0.5, y - 0.5);
        if !(x.is_finite() && y.is_finite() && radius > 0.0) {
            return;
        }
        if radius < LARGE {
            self.small_circle([x, y], radius, color);
        } else {
            self.large_circle([x, y], radius, color);
        }
    }

    /// Visits all pixels of the bounding box.
    fn small_circle(&mut self, [x, y]: Point, radius: f64, color: Pixel) {
        let columns = clip(x - radius, x + radius, self.width);
        let rows = clip(y - radius, y + radius, self.height);
        let radius = radius as f32;
        for i in columns {
            let dx = (i as f64 - x) as f32;
            let mut dy = (rows.start as f64 - y) as f32;
            for pixel in self.column(i, rows.clone()) {
                blend(pixel, color, radius - (dx * dx + dy * dy).sqrt());
                dy += 1.0;
            }
        }
    }

    /// Fills the inside of each column, and visits the pixels at its ends.
    fn large_circle(&mut self, [x, y]: Point, radius: f64, color: Pixel) {
        for i in clip(x - radius, x + radius, self.width) {
            let dx = i as f64 - x;
            let half = ((radius - dx) * (radius + dx)).max(0.0).sqrt();
            let rows = clip(y - half, y + half, self.height);
            let inner = radius - 1.0;
            let solid = ((inner - dx) * (inner + dx)).sqrt(); // NaN: none
            let solid = if solid >= 0.0 {
                clip(y - solid, y + solid, self.height)
            } else {
                rows.start..rows.start
            };
            let first = solid.start.clamp(rows.start, rows.end);
            let last = solid.end.clamp(first, rows.end);
            self.column(i, first..last).fill(color);
            for ends in [rows.start..first, last..rows.end] {
                let start = ends.start as f64 - y;
                for (k, pixel) in self.column(i, ends).iter_mut().enumerate() {
                    let dy = start + k as f64;
                    blend(pixel, color, (radius - (dx * dx + dy * dy).sqrt()) as f32);
                }
            }
        }
    }

    /// Draws a line with round ends.
    pub fn line(&mut self, begin: Point, end: Point, radius: f64, color: Pixel) {
        let (size, height) = ([self.width, self.height], self.height);
        let pixels = &mut *self.pixels;
        for_line(size, [begin, end], radius, |x, y, coverage| {
            blend(&mut pixels[x * height + y], color, coverage);
        });
    }

    /// Fills a triangle: all pixels whose center is inside or on an edge.
    pub fn triangle(&mut self, corners: [Point; 3], color: Pixel) {
        for_triangle(0..self.width, self.height, corners, |x, rows| {
            self.column(x, rows).fill(color);
        });
    }

    /// Fills a rectangle, given by its lower left corner and its extents.
    pub fn rectangle(&mut self, corner: [i64; 2], extents: [i64; 2], color: Pixel) {
        let [columns, rows] = [(0, self.width), (1, self.height)].map(|(axis, extent)| {
            let inside = |c: i64| c.clamp(0, extent as i64) as usize;
            inside(corner[axis])..inside(corner[axis].saturating_add(extents[axis]))
        });
        if !rows.is_empty() {
            columns.for_each(|x| self.column(x, rows.clone()).fill(color));
        }
    }
}

/// An edge of a triangle, from left to right: two triangles compute the same points on the edge that they share.
struct Edge {
    left: Point,
    right: Point,
    slope: f64,
}

impl Edge {
    fn new([a, b]: [Point; 2]) -> Edge {
        let (left, right) = if a <= b { (a, b) } else { (b, a) };
        Edge {
            left,
            right,
            slope: (right[1] - left[1]) / (right[0] - left[0]),
        }
    }

    /// Where the upright line at `x` meets it: lowest and highest point.
    fn crossing(&self, x: f64) -> Option<(f64, f64)> {
        let (left, right) = (self.left, self.right);
        if !(left[0] <= x && x <= right[0]) {
            return None;
        }
        let (low, high) = (left[1].min(right[1]), left[1].max(right[1]));
        if left[0] == right[0] {
            return Some((low, high));
        }
        // Rounding does not lead beyond the ends.
        let y = (left[1] + (x - left[0]) * self.slope).clamp(low, high);
        Some((y, y))
    }
}

/// Calls `fill` with each of these columns that a triangle touches, and with its rows.
pub(crate) fn for_triangle(
    columns: Range<usize>,
    height: usize,
    corners: [Point; 3],
    mut fill: impl FnMut(usize, Range<usize>),
) {
    if !corners.as_flattened().iter().all(|c| c.is_finite()) {
        return;
    }
    let [a, b, c] = corners;
    let edges = [[a, b], [b, c], [c, a]].map(Edge::new);
    let left = a[0].min(b[0]).min(c[0]);
    let right = a[0].max(b[0]).max(c[0]);
    let touched = clip(left - 0.5, right - 0.5, columns.end);
    for i in touched.start.max(columns.start)..touched.end {
        let x = i as f64 + 0.5;
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for (first, last) in edges.iter().filter_map(|edge| edge.crossing(x)) {
            low = low.min(first);
            high = high.max(last);
        }
        fill(i, clip(low - 0.5, high - 0.5, height));
    }
}

/// Calls `paint` with the coordinates and the coverage of each pixel that a line touches.
pub(crate) fn for_line(
    size: [usize; 2],
    [begin, end]: [Point; 2],
    radius: f64,
    mut paint: impl FnMut(usize, usize, f32),
) {
    let finite = [begin, end].as_flattened().iter().all(|c| c.is_finite());
    let visible = finite && radius > 0.0; // not NaN
    if !visible {
        return;
    }
    let radius = radius.min(WIDEST);
    let Some([a, b]) = clip_line([begin, end], size, radius + 1.0) else {
        return;
    };
    let (dx, dy) = (b[0] - a[0], b[1] - a[1]);
    let length = (dx * dx + dy * dy).sqrt();
    let (ux, uy) = if length > 0.0 {
        (dx / length, dy / length)
    } else {
        (1.0, 0.0)
    };
    let (bottom, top) = (a[1].min(b[1]) - radius, a[1].max(b[1]) + radius);
    let (left, right) = (a[0].min(b[0]) - radius, a[0].max(b[0]) + radius);
    for i in clip(left - 0.5, right - 0.5, size[0]) {
        let x = i as f64 + 0.5 - a[0];
        // The column crosses the line, extended to both sides, between these rows; upright lines have no such limit.
        let (middle, half) = (a[1] + x * uy / ux, radius / ux.abs());
        let low = bottom.max(middle - half); // a NaN is ignored
        let high = top.min(middle + half);
        for j in clip(low - 0.5, high - 0.5, size[1]) {
            let y = j as f64 + 0.5 - a[1];
            let along = x * ux + y * uy;
            let distance = if along < 0.0 {
                (x * x + y * y).sqrt()
            } else if along > length {
                ((x - dx) * (x - dx) + (y - dy) * (y - dy)).sqrt()
            } else {
                (x * uy - y * ux).abs()
            };
            let coverage = radius - distance;
            if coverage > 0.0 {
                paint(i, j, coverage.min(1.0) as f32);
            }
        }
    }
}

/// The part of a line that is at most `margin` away from the framebuffer, which keeps distances exact for lines from far away.
fn clip_line([a, b]: [Point; 2], size: [usize; 2], margin: f64) -> Option<[Point; 2]> {
    let (mut first, mut last) = (0.0f64, 1.0f64);
    for axis in 0..2 {
        let along = b[axis] - a[axis];
        let low = -margin - a[axis];
        let high = size[axis] as f64 + margin - a[axis];
        if along == 0.0 {
            if low > 0.0 || high < 0.0 {
                return None;
            }
        } else {
            let (s, t) = (low / along, high / along);
            first = first.max(s.min(t));
            last = last.min(s.max(t));
        }
    }
    let at = |t: f64| [0, 1].map(|axis| a[axis] + (b[axis] - a[axis]) * t);
    let begin = if first == 0.0 { a } else { at(first) };
    let end = if last == 1.0 { b } else { at(last) };
    (first <= last).then_some([begin, end])
}

#[cfg(test)]
mod tests {
    use super::super::opaque;
    use super::*;

    const WHITE: Pixel = [1.0; 4];

    /// The red channel of a frame of 40 by 20 pixels after drawing in white on black.
    fn drawn(draw: impl FnOnce(&mut Framebuffer)) -> Vec<f32> {
        let mut frame = Framebuffer::new(40, 20, opaque(0));
        draw(&mut frame);
        frame.pixels().iter().map(|p| p[0]).collect()
    }

    fn sum(draw: impl FnOnce(&mut Framebuffer)) -> f32 {
        drawn(draw).iter().sum()
    }

    /// Calls `check` for coverages and their definition, for many shapes.
    fn compare(
        shape: impl Fn(&mut Framebuffer, [Point; 2], f64),
        distance: impl Fn([Point; 2], Point) -> f64,
    ) {
        let mut seed = 1u64;
        let mut random = |scale: f64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1);
            (seed >> 40) as f64 / (1u64 << 24) as f64 * scale
        };
        for _ in 0..200 {
            let points = [[0; 2]; 2].map(|p| p.map(|_| random(60.0) - 10.0));
            let radius = random(1.0).powi(3) * 30.0;
            let seen = drawn(|frame| shape(frame, points, radius));
            for (k, seen) in seen.into_iter().enumerate() {
                let center = [(k / 20) as f64 + 0.5, (k % 20) as f64 + 0.5];
                let expected = (radius - distance(points, center)).clamp(0.0, 1.0);
                let error = (f64::from(seen) - expected).abs();
                assert!(error < 1e-5, "{points:?} {radius} {center:?}");
            }
        }
    }

    #[test]
    fn circles_cover_radius_minus_distance() {
        compare(
            |frame, [center, _], radius| frame.circle(center, radius, WHITE),
            |[c, _], p| (p[0] - c[0]).hypot(p[1] - c[1]),
        );
        let covered = |radius| sum(|f| f.circle([20.5, 10.5], radius, WHITE));
        assert_eq!(covered(1.0), 1.0);
        assert!((covered(1.5) - 3.343).abs() < 1e-3);
        assert!((covered(5.0) - 63.267).abs() < 1e-3);
    }

    #[test]
    fn lines_cover_radius_minus_distance() {
        compare(
            |frame, [a, b], radius| frame.line(a, b, radius, WHITE),
            |[a, b], p| {
                let d = [b[0] - a[0], b[1] - a[1]];
                let t = ((p[0] - a[0]) * d[0] + (p[1] - a[1]) * d[1]) / (d[0] * d[0] + d[1] * d[1]);
                let t = t.clamp(0.0, 1.0);
                (p[0] - a[0] - t * d[0]).hypot(p[1] - a[1] - t * d[1])
            },
        );
        assert!((sum(|f| f.line([10., 10.], [20., 10.], 1.0, WHITE)) - 11.172).abs() < 1e-3);
        assert!((sum(|f| f.line([10., 5.], [20., 15.], 1.0, WHITE)) - 17.029).abs() < 1e-3);
        assert_eq!(sum(|f| f.line([10.5, 5.5], [10.5, 5.5], 1.0, WHITE)), 1.0);
    }

    #[test]
    fn lines_from_far_away_are_exact() {
        let near = drawn(|f| f.line([-50.0, 10.3], [90.0, 10.3], 2.0, WHITE));
        let far = drawn(|f| f.line([-1e15, 10.3], [1e200, 10.3], 2.0, WHITE));
        assert_eq!(near, far);
        let near = drawn(|f| f.line([5.0, -50.0], [5.0, 10.0], 2.0, WHITE));
        let far = drawn(|f| f.line([5.0, -1e12], [5.0, 10.0], 2.0, WHITE));
        assert!(near.iter().zip(far).all(|(n, f)| (n - f).abs() < 1e-3));
    }

    #[test]
    fn triangles_cover_the_centers_inside() {
        let corners = [[10.0, 5.0], [20.0, 15.0], [20.0, 5.0]];
        for turn in 0..6 {
            let mut corners = corners;
            corners.rotate_left(turn % 3);
            if turn >= 3 {
                corners.reverse();
            }
            let seen = drawn(|f| f.triangle(corners, WHITE));
            assert_eq!(seen.iter().sum::<f32>(), 55.0);
            assert_eq!([seen[10 * 20 + 5], seen[19 * 20 + 14]], [1.0; 2]);
            assert_eq!([seen[9 * 20 + 5], seen[20 * 20 + 5]], [0.0; 2]);
        }
    }

    #[test]
    fn meshes_have_no_seams() {
        // A fan around a point: together, its triangles are a square.
        let ring: Vec<Point> = (0..40)
            .map(|k| match (k / 10, f64::from(k % 10)) {
                (0, t) => [10.0 + t, 0.0],
                (1, t) => [20.0, t],
                (2, t) => [20.0 - t, 10.0],
                (_, t) => [10.0, 10.0 - t],
            })
            .collect();
        for center in [[15.0, 5.0], [14.5, 5.5], [13.7, 4.1], [10.2, 9.9]] {
            let seen = drawn(|f| {
                for k in 0..40 {
                    f.triangle([center, ring[k], ring[(k + 1) % 40]], WHITE);
                }
            });
            assert_eq!(seen.iter().sum::<f32>(), 100.0, "{center:?}");
        }
    }

    #[test]
    fn rectangles_are_clipped() {
        assert_eq!(sum(|f| f.rectangle([38, -3], [9, 5], WHITE)), 4.0);
        let all = |f: &mut Framebuffer| f.rectangle([-5, -5], [i64::MAX; 2], WHITE);
        assert_eq!(sum(all), 800.0);
        assert_eq!(sum(|f| f.rectangle([3, 3], [-2, 4], WHITE)), 0.0);
        assert_eq!(sum(|f| f.rectangle([3, 3], [4, -2], WHITE)), 0.0);
    }

    #[test]
    fn extreme_shapes_are_clipped() {
        let odd = [
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::MAX,
            -1e30,
            1e9,
            5.0,
            0.0,
            5e-324,
        ];
        for x in odd {
            for y in odd {
                for z in odd {
                    drawn(|f| {
                        f.circle([x, y], z, WHITE);
                        f.line([x, y], [z, 5.0], 2.0, WHITE);
                        f.line([x, 3.0], [5.0, y], z, WHITE);
                        f.triangle([[x, y], [z, 5.0], [5.0, z]], WHITE);
                    });
                }
            }
        }
        assert_eq!(sum(|f| f.circle([3.0, 3.0], f64::INFINITY, WHITE)), 800.0);
        assert_eq!(sum(|f| f.line([3.0, 3.0], [4.0, 4.0], 1e300, WHITE)), 800.0);
        assert_eq!(sum(|f| f.circle([3.0, 3.0], -1.0, WHITE)), 0.0);
        let huge = [[-1e12, -1e12], [1e12, -1e12], [0.0, 1e12]];
        assert_eq!(sum(|f| f.triangle(huge, WHITE)), 800.0);
    }

    #[test]
    fn what_was_there_shines_through_an_edge() {
        let mut frame = Framebuffer::new(3, 3, opaque(0xff0000));
        frame.circle([1.5, 1.5], 1.5, opaque(0x00ff00));
        assert_eq!(frame.pixels()[4], [0.0, 1.0, 0.0, 1.0]);
        assert_eq!(frame.pixels()[3], [0.5, 0.5, 0.0, 1.0]);
        frame.clear([f32::NAN; 4]);
        frame.circle([1.5, 1.5], 1.5, opaque(0x00ff00));
        assert_eq!(frame.pixels()[4], [0.0, 1.0, 0.0, 1.0]);
    }
}
