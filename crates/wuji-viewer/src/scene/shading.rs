//! Light: ambient, and points without attenuation.

use super::math::{Mat4, Vec3, dot, scale, sub, transform};

/// A point that shines in all directions. Its light does not depend on the distance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PointLight {
    /// Where it is.
    pub position: Vec3,
    /// Its color.
    pub color: Vec3,
}

/// The lights of a scene, in camera space.
#[derive(Debug)]
pub(super) struct Lights {
    ambient: Vec3,
    points: Vec<PointLight>,
}

impl Lights {
    pub(super) fn new(ambient: Vec3, points: &[PointLight], view: &Mat4) -> Lights {
        let points = points.iter().map(|light| PointLight {
            position: transform(view, light.position),
            color: light.color,
        });
        Lights {
            ambient,
            points: points.collect(),
        }
    }

    /// The color of a surface with a normal of length 1: Lambert's cosine, on both sides if it has two.
    pub(super) fn shade(
        &self,
        color: [f32; 4],
        at: Vec3,
        normal: Vec3,
        two_sided: bool,
    ) -> [f32; 4] {
        let mut light = self.ambient;
        for point in &self.points {
            let ray = sub(point.position, at);
            let cosine = dot(normal, ray) / dot(ray, ray).sqrt().max(f32::MIN_POSITIVE);
            let factor = if two_sided {
                cosine.abs()
            } else {
                cosine.max(0.0)
            };
            (0..3).for_each(|k| light[k] += point.color[k] * factor);
        }
        lit(color, light)
    }
}

/// A color in a light.
#[inline]
fn lit([r, g, b, alpha]: [f32; 4], [x, y, z]: Vec3) -> [f32; 4] {
    let channel = |color: f32, light: f32| (color * light).clamp(0.0, 1.0);
    [channel(r, x), channel(g, y), channel(b, z), alpha]
}

/// The most lights of [`Directions`].
const MANY: usize = 4;

/// Lights around a small object that is far away from them: each has one direction.
pub(super) struct Directions {
    ambient: Vec3,
    /// Directions of length 1, and colors.
    lights: [(Vec3, Vec3); MANY],
    count: usize,
}

impl Lights {
    /// `None` if a light is near, or if there are many.
    pub(super) fn directions(&self, at: Vec3, radius: f32) -> Option<Directions> {
        const FAR: f32 = 32.0;
        let mut found = Directions {
            ambient: self.ambient,
            lights: [([0.0; 3], [0.0; 3]); MANY],
            count: self.points.len(),
        };
        let fits = self.points.len() <= MANY;
        for (light, point) in found.lights.iter_mut().zip(&self.points).filter(|_| fits) {
            let ray = sub(point.position, at);
            let distance = dot(ray, ray).sqrt();
            // Not finite counts as near.
            if distance.is_nan() || distance <= FAR * radius || distance == f32::INFINITY {
                return None;
            }
            *light = (scale(ray, 1.0 / distance), point.color);
        }
        fits.then_some(found)
    }
}

impl Directions {
    /// The color of a surface with a normal of length 1.
    #[inline]
    pub(super) fn shade(&self, color: [f32; 4], normal: Vec3) -> [f32; 4] {
        let mut light = self.ambient;
        for (direction, shine) in &self.lights[..self.count] {
            let factor = dot(normal, *direction).max(0.0);
            (0..3).for_each(|k| light[k] += shine[k] * factor);
        }
        lit(color, light)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDENTITY: Mat4 = [
        [1.0, 0.0, 0.0, 0.0],
        [0.0, 1.0, 0.0, 0.0],
        [0.0, 0.0, 1.0, 0.0],
        [0.0, 0.0, 0.0, 1.0],
    ];

    #[test]
    fn light_is_ambient_plus_cosines() {
        let point = |position, color| PointLight { position, color };
        let lights = Lights::new(
            [0.1; 3],
            &[
                point([0.0, 0.0, 7.0], [0.5, 0.0, 0.0]),
                point([3.0, 0.0, 0.0], [0.0, 0.4, 0.0]),
            ],
            &IDENTITY,
        );
        let shade = |normal, two_sided| lights.shade([1.0; 4], [0.0; 3], normal, two_sided);
        assert_eq!(shade([0.0, 0.0, 1.0], false), [0.6, 0.1, 0.1, 1.0]);
        let slanted = shade([0.6, 0.0, 0.8], false);
        assert!((slanted[0] - 0.5).abs() < 1e-6 && (slanted[1] - 0.34).abs() < 1e-6);
        assert_eq!(shade([0.0, 0.0, -1.0], false), [0.1, 0.1, 0.1, 1.0]);
        assert_eq!(shade([0.0, 0.0, -1.0], true), [0.6, 0.1, 0.1, 1.0]);
        // A light on the surface, and no normal at all.
        let on = lights.shade([1.0; 4], [0.0, 0.0, 7.0], [0.0, 0.0, 1.0], false);
        assert!(on.iter().all(|c| c.is_finite()));
        assert_eq!(shade([0.0; 3], false), [0.1, 0.1, 0.1, 1.0]);
    }

    #[test]
    fn far_lights_have_directions() {
        let point = |position| PointLight {
            position,
            color: [0.5, 0.25, 0.0],
        };
        let lights = |points: &[PointLight]| Lights::new([0.1; 3], points, &IDENTITY);
        let two = lights(&[point([0.0, 3.0, 90.0]), point([50.0, 0.0, 0.0])]);
        let at = [1.0, 2.0, 3.0];
        let far = two.directions(at, 0.01).expect("both are far away");
        for normal in [[0.0, 0.0, 1.0], [0.6, 0.0, 0.8], [0.0, -1.0, 0.0]] {
            let (exact, found) = (
                two.shade([1.0; 4], at, normal, false),
                far.shade([1.0; 4], normal),
            );
            assert!(
                (0..4).all(|k| (exact[k] - found[k]).abs() < 1e-5),
                "{exact:?} {found:?}"
            );
        }
        assert!(two.directions(at, 5.0).is_none());
        assert!(lights(&[point(at)]).directions(at, 0.01).is_none());
        assert!(
            lights(&[point([f32::NAN; 3])])
                .directions(at, 0.01)
                .is_none()
        );
        assert!(
            lights(&[point([99.0; 3]); 5])
                .directions(at, 0.01)
                .is_none()
        );
        let dark = lights(&[]).directions(at, 0.01).expect("no lights at all");
        assert_eq!(dark.shade([1.0; 4], [0.0, 0.0, 1.0]), [0.1, 0.1, 0.1, 1.0]);
    }
}
