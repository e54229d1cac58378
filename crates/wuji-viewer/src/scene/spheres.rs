//! Particles: spheres, each pixel by the intersection of its ray.

use super::math::{Vec3, add, dot, is_finite, normalize, scale, sub, transform};
use super::shading::Directions;
use super::strip::{Bins, Context, Strip, centers};
use super::{Mat4, Particles};
use crate::framebuffer::vertices::over;
use std::ops::Range;

/// Spheres in camera space, and the strips they touch.
pub(super) struct Spheres {
    spheres: Vec<Sphere>,
    pub(super) bins: Bins,
}

struct Sphere {
    center: Vec3,
    radius: f32,
    color: [f32; 4],
    /// The depth of the nearest point.
    nearest: f32,
    columns: Range<usize>,
    rows: Range<usize>,
    /// Smaller than a pixel: it is drawn as the pixel that contains its center.
    tiny: bool,
}

/// See [`Sphere::small`].
struct Small {
    /// The direction to the eye, of length 1.
    to_eye: Vec3,
    /// From rays to positions in the plane through the center.
    distance: f32,
    lights: Directions,
}

/// Some particles of a scene.
pub(super) fn prepare(
    particles: &Particles,
    range: Range<usize>,
    view: &Mat4,
    context: &Context,
) -> Spheres {
    let mut found = Spheres {
        spheres: Vec::with_capacity(range.len()),
        bins: Bins::new(context.strips()),
    };
    for k in range {
        let center = transform(view, particles.centers[k]);
        let radius = particles.radii.get(k);
        let color = particles.colors.get(k);
        if let Some(sphere) = Sphere::new(center, radius, color, context) {
            found.bins.add(found.spheres.len(), &sphere.columns);
            found.spheres.push(sphere);
        }
    }
    found
}

impl Sphere {
    /// `None` if it is not in the picture.
    fn new(center: Vec3, radius: f32, color: [f32; 4], context: &Context) -> Option<Sphere> {
        let viewport = &context.viewport;
        let visible = is_finite(center) && radius.is_finite() && radius > 0.0;
        // Its farthest point must be behind the near plane.
        if !visible || -center[2] + radius <= viewport.z_near {
            return None;
        }
        let bounds = [0, 1].map(|axis| bounds(center, radius, axis, context));
        let tiny = bounds.iter().all(|[low, high]| high - low < 1.0);
        let [columns, rows] = [0, 1].map(|axis| {
            let [low, high] = bounds[axis];
            let extent = context.size[axis];
            if tiny {
                let middle = (0.5 * (low + high)).floor();
                centers(middle + 0.5, middle + 0.5, extent)
            } else {
                centers(low, high, extent)
            }
        });
        if columns.is_empty() || rows.is_empty() {
            return None;
        }
        let front = (center[2] + radius).min(-viewport.z_near);
        Some(Sphere {
            center,
            radius,
            color,
            nearest: viewport.depth(front),
            columns,
            rows,
            tiny,
        })
    }

    fn draw(&self, strip: &mut Strip<'_>, context: &Context) {
        match self.small(context) {
            Some(small) => self.draw_small(&small, strip, context),
            None => self.draw_exact(strip, context),
        }
    }

    fn draw_exact(&self, strip: &mut Strip<'_>, context: &Context) {
        for x in strip.within(&self.columns) {
            let across = context.viewport.ray(0, x as f32 + 0.5);
            let rows = self.rows.clone();
            for (y, (pixel, depth)) in rows.clone().zip(strip.column(x, rows)) {
                if self.nearest <= *depth {
                    continue;
                }
                let up = context.viewport.ray(1, y as f32 + 0.5);
                let Some(at) = self.hit(across, up, context) else {
                    continue;
                };
                let found = context.viewport.depth(at[2]);
                if found > *depth {
                    let normal = scale(sub(at, self.center), 1.0 / self.radius);
                    let color = context.lights.shade(self.color, at, normal, false);
                    *depth = found;
                    over(pixel, color, 1.0);
                }
            }
        }
    }

    /// What is the same for all pixels of a sphere that is small compared to its distance from the eye and from all lights.
    fn small(&self, context: &Context) -> Option<Small> {
        const FAR: f32 = 64.0;
        let viewport = &context.viewport;
        let ahead = -self.center[2];
        let (to_eye, distance) = if viewport.perspective {
            (normalize(scale(self.center, -1.0)), ahead)
        } else {
            ([0.0, 0.0, 1.0], 1.0)
        };
        let far = ahead > viewport.z_near + self.radius
            && (!viewport.perspective || ahead > FAR * self.radius);
        if self.tiny || !far {
            return None;
        }
        Some(Small {
            to_eye,
            distance,
            lights: context.lights.directions(self.center, self.radius)?,
        })
    }

    /// Draws it as if its rays were parallel.
    fn draw_small(&self, small: &Small, strip: &mut Strip<'_>, context: &Context) {
        let (viewport, eye, center) = (&context.viewport, small.to_eye, self.center);
        let (middle, slope) = (viewport.depth(center[2]), viewport.depth_slope(center[2]));
        let (square, inverse) = (self.radius * self.radius, 1.0 / self.radius);
        // Positions in the plane through the center, relative to it.
        let across = |x: usize| viewport.ray(0, x as f32 + 0.5) * small.distance - center[0];
        let up = |y: usize| viewport.ray(1, y as f32 + 0.5) * small.distance - center[1];
        for x in strip.within(&self.columns) {
            let dx = across(x);
            let rows = self.rows.clone();
            for (y, (pixel, depth)) in rows.clone().zip(strip.column(x, rows)) {
                if self.nearest <= *depth {
                    continue;
                }
                let dy = up(y);
                let along = dx * eye[0] + dy * eye[1];
                let inside = square - dx * dx - dy * dy + along * along;
                if inside < 0.0 {
                    continue;
                }
                let k = inside.sqrt() - along;
                let out = [dx + eye[0] * k, dy + eye[1] * k, eye[2] * k];
                let found = middle + out[2] * slope;
                if found > *depth {
                    *depth = found;
                    over(
                        pixel,
                        small.lights.shade(self.color, scale(out, inverse)),
                        1.0,
                    );
                }
            }
        }
    }

    /// Where a ray meets it first. The closest approach to the center keeps small spheres exact that are far away.
    fn hit(&self, across: f32, up: f32, context: &Context) -> Option<Vec3> {
        let perspective = context.viewport.perspective;
        if self.tiny {
            let to_eye = if perspective {
                normalize(scale(self.center, -1.0))
            } else {
                [0.0, 0.0, 1.0]
            };
            let at = add(self.center, scale(to_eye, self.radius));
            return (-at[2] >= context.viewport.z_near).then_some(at);
        }
        let (origin, ray) = if perspective {
            ([0.0; 3], [across, up, -1.0])
        } else {
            ([across, up, 0.0], [0.0, 0.0, -1.0])
        };
        let center = sub(self.center, origin);
        let length = dot(ray, ray);
        let closest = dot(ray, center) / length;
        let aside = sub(center, scale(ray, closest));
        let inside = self.radius * self.radius - dot(aside, aside);
        if inside < 0.0 {
            return None;
        }
        let t = closest - (inside / length).sqrt();
        (t >= context.viewport.z_near).then(|| add(origin, scale(ray, t)))
    }
}

/// The first and the last pixel position of a sphere along an axis.
fn bounds(center: Vec3, radius: f32, axis: usize, context: &Context) -> [f32; 2] {
    let viewport = &context.viewport;
    let (aside, ahead) = (center[axis], -center[2]);
    let rays = if !viewport.perspective {
        [aside - radius, aside + radius]
    } else if ahead - radius < viewport.z_near {
        // It may surround the eye.
        return [0.0, context.size[axis] as f32];
    } else {
        // Tangents through the eye.
        let square = (ahead - radius) * (ahead + radius);
        let root = radius * (aside * aside + square).sqrt();
        [
            (aside * ahead - root) / square,
            (aside * ahead + root) / square,
        ]
    };
    let [a, b] = rays.map(|ray| viewport.pixel(axis, ray));
    [a.min(b), a.max(b)]
}

impl Spheres {
    pub(super) fn draw(&self, number: u32, strip: &mut Strip<'_>, context: &Context) {
        self.spheres[number as usize].draw(strip, context);
    }
}
