//! Lines with a width in pixels, and wireframes.

use super::camera::Projected;
use super::math::{Vec3, is_finite, mix, transform};
use super::strip::{Bins, Context, Strip, centers};
use super::triangles::Vertex;
use super::{Lines, Mat4};
use crate::framebuffer::shapes::for_line;
use crate::framebuffer::vertices::over;
use std::ops::Range;

/// Lines in pixels, and the strips they touch.
pub(super) struct Segments {
    segments: Vec<Segment>,
    /// Coverage is `radius - distance`, so this is half of the width and half a pixel.
    radius: f32,
    pub(super) bins: Bins,
}

struct Segment {
    ends: [Projected; 2],
    colors: [[f32; 4]; 2],
    columns: Range<usize>,
}

/// Some lines of a scene.
pub(super) fn prepare(
    lines: &Lines,
    range: Range<usize>,
    view: &Mat4,
    context: &Context,
) -> Segments {
    let mut found = Segments::new(lines.width, context);
    for k in range {
        let numbers = [2 * k, 2 * k + 1].map(|at| lines.vertex(at));
        let ends = numbers.map(|v| (transform(view, lines.vertices[v]), lines.colors.get(v)));
        found.add(ends, context);
    }
    found
}

/// The edges of some triangles, with the colors of their lit corners.
pub(super) fn wireframe<'a>(
    triangles: impl Iterator<Item = [&'a Vertex; 3]>,
    two_sided: bool,
    context: &Context,
) -> Segments {
    let mut found = Segments::new(1.0, context);
    for corners in triangles {
        let lit = corners.map(|v| (v.position, v.lit(two_sided, context)));
        for k in 0..3 {
            found.add([lit[k], lit[(k + 1) % 3]], context);
        }
    }
    found
}

impl Segments {
    fn new(width: f32, context: &Context) -> Segments {
        Segments {
            segments: Vec::new(),
            radius: width * 0.5 + 0.5,
            bins: Bins::new(context.strips()),
        }
    }

    /// Adds the part of a line that is behind the near plane.
    fn add(&mut self, [a, b]: [(Vec3, [f32; 4]); 2], context: &Context) {
        if !(is_finite(a.0) && is_finite(b.0)) {
            return;
        }
        let near = -context.viewport.z_near;
        if a.0[2] > near && b.0[2] > near {
            return;
        }
        let clipped = |p: (Vec3, [f32; 4]), other: (Vec3, [f32; 4])| {
            if p.0[2] <= near {
                return p;
            }
            let t = (near - p.0[2]) / (other.0[2] - p.0[2]);
            let mut at = mix(p.0, other.0, t);
            at[2] = near;
            (at, mix(p.1, other.1, t))
        };
        let (a, b) = (clipped(a, b), clipped(b, a));
        let ends = [a.0, b.0].map(|p| context.viewport.project(p));
        let [x, y] = ends.map(|end| end.at[0]);
        let columns = centers(
            x.min(y) - self.radius,
            x.max(y) + self.radius,
            context.size[0],
        );
        self.bins.add(self.segments.len(), &columns);
        self.segments.push(Segment {
            ends,
            colors: [a.1, b.1],
            columns,
        });
    }

    pub(super) fn draw(&self, number: u32, strip: &mut Strip<'_>) {
        let segment = &self.segments[number as usize];
        let columns = strip.within(&segment.columns);
        let first = columns.start as f64;
        let [a, b] = segment.ends.map(|end| end.at.map(f64::from));
        let ends = [[a[0] - first, a[1]], [b[0] - first, b[1]]];
        let along = [b[0] - a[0], b[1] - a[1]];
        let square = along[0] * along[0] + along[1] * along[1];
        let size = [columns.len(), strip.height];
        for_line(size, ends, f64::from(self.radius), |i, j, coverage| {
            let offset = [i as f64 + 0.5 - ends[0][0], j as f64 + 0.5 - ends[0][1]];
            let t = (offset[0] * along[0] + offset[1] * along[1]) / square;
            let t = if t > 0.0 { t.min(1.0) as f32 } else { 0.0 };
            let [from, to] = segment.ends;
            let depth = from.depth + (to.depth - from.depth) * t;
            let Some((pixel, stored)) = strip.column(columns.start + i, j..j + 1).next() else {
                return;
            };
            if depth > *stored && (0.0..=1.0).contains(&depth) {
                // Edges let through what is drawn later behind them.
                if coverage >= 0.5 {
                    *stored = depth;
                }
                over(
                    pixel,
                    mix(segment.colors[0], segment.colors[1], t),
                    coverage,
                );
            }
        });
    }
}
