//! Cameras: views and projections.

use super::SceneError;
use super::math::{Mat4, Vec3, cross, dot, is_finite, normalize, sub};

/// Where a scene is seen from, and how it is projected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Camera {
    /// The position of the eye.
    pub position: Vec3,
    /// The point in the middle of the picture.
    pub look_at: Vec3,
    /// A direction that is upwards in the picture.
    pub up: Vec3,
    /// Perspective, or parallel rays.
    pub projection: Projection,
    /// What is nearer is not drawn.
    pub z_near: f32,
    /// What is farther is not drawn.
    pub z_far: f32,
}

/// How a camera projects.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Projection {
    /// Rays that start in the eye.
    Perspective {
        /// The vertical field of view, in degrees.
        fov: f32,
    },
    /// Parallel rays. The picture shows this rectangle, relative to the camera.
    Orthographic {
        /// The coordinate of the left edge.
        left: f32,
        /// The coordinate of the right edge.
        right: f32,
        /// The coordinate of the lower edge.
        bottom: f32,
        /// The coordinate of the upper edge.
        top: f32,
    },
}

impl Default for Camera {
    /// In the origin, along the z axis, with a field of view of 45 degrees.
    fn default() -> Camera {
        Camera {
            position: [0.0; 3],
            look_at: [0.0, 0.0, 1.0],
            up: [0.0, 1.0, 0.0],
            projection: Projection::Perspective { fov: 45.0 },
            z_near: 0.1,
            z_far: 1000.0,
        }
    }
}

impl Camera {
    /// An error if there is no such view: the camera is where it looks at, or its field of view is empty.
    pub fn check(&self) -> Result<(), SceneError> {
        let fail = |why| Err(SceneError::Camera(why));
        if ![self.position, self.look_at, self.up].map(is_finite)[..]
            .iter()
            .all(|f| *f)
        {
            return fail("its position, the point it looks at and its direction up must be finite");
        }
        let front = sub(self.look_at, self.position);
        if dot(front, front) == 0.0 {
            return fail("it is at the point that it looks at");
        }
        let side = cross(normalize(front), normalize(self.up));
        // NaN counts as parallel.
        if dot(side, side).is_nan() || dot(side, side) < 1e-12 {
            return fail("it looks along its direction up");
        }
        if !(self.z_near.is_finite() && self.z_far.is_finite() && self.z_near < self.z_far) {
            return fail("z_near must be less than z_far");
        }
        match self.projection {
            Projection::Perspective { fov } if !(fov > 0.0 && fov < 180.0) => {
                fail("its field of view must be between 0 and 180 degrees")
            }
            Projection::Perspective { .. } if self.z_near <= 0.0 => {
                fail("z_near must be positive in perspective")
            }
            Projection::Perspective { .. } => Ok(()),
            Projection::Orthographic {
                left,
                right,
                bottom,
                top,
            } => {
                let edges = [left, right, bottom, top];
                if edges.iter().any(|e| !e.is_finite()) || left == right || bottom == top {
                    return fail("its edges must be finite and different");
                }
                Ok(())
            }
        }
    }

    /// World to camera space: x to the right, y up, and z towards the viewer.
    pub fn view(&self) -> Mat4 {
        let front = normalize(sub(self.look_at, self.position));
        let side = normalize(cross(front, self.up));
        let up = cross(side, front);
        let row = |axis: Vec3, sign: f32| {
            let [x, y, z] = axis.map(|c| c * sign);
            [x, y, z, -sign * dot(axis, self.position)]
        };
        [
            row(side, 1.0),
            row(up, 1.0),
            row(front, -1.0),
            [0.0, 0.0, 0.0, 1.0],
        ]
    }

    /// Camera to clip space. Depth is 1 at `z_near` and 0 at `z_far`, which keeps it precise far away.
    pub fn projection(&self, aspect: f32) -> Mat4 {
        let (near, far) = (self.z_near, self.z_far);
        let range = far - near;
        match self.projection {
            Projection::Perspective { fov } => {
                let f = 1.0 / (fov.to_radians() / 2.0).tan();
                [
                    [f / aspect, 0.0, 0.0, 0.0],
                    [0.0, f, 0.0, 0.0],
                    [0.0, 0.0, near / range, near * far / range],
                    [0.0, 0.0, -1.0, 0.0],
                ]
            }
            Projection::Orthographic {
                left,
                right,
                bottom,
                top,
            } => {
                let (width, height) = (right - left, top - bottom);
                [
                    [2.0 / width, 0.0, 0.0, -(left + right) / width],
                    [0.0, 2.0 / height, 0.0, -(bottom + top) / height],
                    [0.0, 0.0, 1.0 / range, far / range],
                    [0.0, 0.0, 0.0, 1.0],
                ]
            }
        }
    }
}

/// A camera with a picture size: camera space to pixels and back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Viewport {
    projection: Mat4,
    pub(super) perspective: bool,
    pub(super) z_near: f32,
    size: [f32; 2],
    /// For each axis, the ray of a pixel position: slope and offset.
    rays: [[f32; 2]; 2],
}

/// A projected position: pixels, depth, and the reciprocal of the distance (1 for parallel rays).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Projected {
    pub(super) at: [f32; 2],
    pub(super) depth: f32,
    pub(super) inverse: f32,
}

impl Viewport {
    pub(super) fn new(camera: &Camera, [width, height]: [usize; 2]) -> Viewport {
        let size = [width.max(1) as f32, height.max(1) as f32];
        let projection = camera.projection(size[0] / size[1]);
        let perspective = matches!(camera.projection, Projection::Perspective { .. });
        let ray = |axis: usize| {
            let shift = if perspective {
                0.0
            } else {
                projection[axis][3]
            };
            let scale = 1.0 / projection[axis][axis];
            [2.0 / size[axis] * scale, (-1.0 - shift) * scale]
        };
        Viewport {
            projection,
            perspective,
            z_near: camera.z_near,
            size,
            rays: [ray(0), ray(1)],
        }
    }

    /// Projects a position in camera space that is not nearer than the near plane.
    pub(super) fn project(&self, p: Vec3) -> Projected {
        let m = &self.projection;
        let inverse = if self.perspective { -1.0 / p[2] } else { 1.0 };
        let ndc =
            |k: usize| (m[k][k] * p[k]) * inverse + if self.perspective { 0.0 } else { m[k][3] };
        Projected {
            at: [0, 1].map(|k| (ndc(k) + 1.0) * 0.5 * self.size[k]),
            depth: self.depth(p[2]),
            inverse,
        }
    }

    /// The depth of a `z` in camera space.
    pub(super) fn depth(&self, z: f32) -> f32 {
        let [_, _, row, _] = &self.projection;
        let depth = row[2] * z + row[3];
        if self.perspective { depth / -z } else { depth }
    }

    /// How the depth changes with `z` in camera space.
    pub(super) fn depth_slope(&self, z: f32) -> f32 {
        let [_, _, row, _] = &self.projection;
        if self.perspective {
            row[3] / (z * z)
        } else {
            row[2]
        }
    }

    /// Where the ray of a pixel position is in the plane at distance 1 (perspective), or in all planes.
    pub(super) fn ray(&self, axis: usize, pixel: f32) -> f32 {
        let [slope, offset] = self.rays[axis];
        pixel * slope + offset
    }

    /// The pixel of a ray.
    pub(super) fn pixel(&self, axis: usize, ray: f32) -> f32 {
        let [slope, offset] = self.rays[axis];
        (ray - offset) / slope
    }
}

#[cfg(test)]
mod tests {
    use super::super::math::{product, transform};
    use super::*;

    fn close(a: Mat4, b: Mat4) {
        for (x, y) in a.as_flattened().iter().zip(b.as_flattened()) {
            assert!((x - y).abs() < 1e-5, "{a:?} {b:?}");
        }
    }

    #[test]
    fn the_default_camera_looks_along_z() {
        let camera = Camera::default();
        assert_eq!(camera.check(), Ok(()));
        close(
            camera.view(),
            [
                [-1.0, 0.0, 0.0, 0.0],
                [0.0, 1.0, 0.0, 0.0],
                [0.0, 0.0, -1.0, 0.0],
                [0.0, 0.0, 0.0, 1.0],
            ],
        );
        close(
            camera.projection(2.0),
            [
                [1.207_107, 0.0, 0.0, 0.0],
                [0.0, 2.414_213, 0.0, 0.0],
                [0.0, 0.0, 0.0001, 0.10001],
                [0.0, 0.0, -1.0, 0.0],
            ],
        );
    }

    #[test]
    fn the_middle_of_the_picture_is_what_it_looks_at() {
        let camera = Camera {
            position: [1.0, 2.0, 3.0],
            look_at: [0.0, 0.5, 0.0],
            z_near: 0.2,
            z_far: 50.0,
            ..Camera::default()
        };
        for projection in [
            Projection::Perspective { fov: 60.0 },
            Projection::Orthographic {
                left: -2.0,
                right: 2.0,
                bottom: -1.0,
                top: 1.0,
            },
        ] {
            let camera = Camera {
                projection,
                ..camera
            };
            let viewport = Viewport::new(&camera, [200, 100]);
            let seen = viewport.project(transform(&camera.view(), [0.0, 0.5, 0.0]));
            assert!((seen.at[0] - 100.0).abs() < 1e-3 && (seen.at[1] - 50.0).abs() < 1e-3);
            assert!((viewport.depth(-0.2) - 1.0).abs() < 1e-5);
            assert!(viewport.depth(-50.0).abs() < 1e-5);
            let difference = (viewport.depth(-9.99) - viewport.depth(-10.01)) / 0.02;
            assert!((viewport.depth_slope(-10.0) / difference - 1.0).abs() < 1e-2);
            for axis in [0, 1] {
                assert!((viewport.pixel(axis, viewport.ray(axis, 37.0)) - 37.0).abs() < 1e-3);
            }
            // The matrix of both agrees.
            let whole = product(&camera.projection(2.0), &camera.view());
            let clip = transform(&whole, [0.0, 0.5, 0.0]);
            assert!(clip[0].abs() < 1e-5 && clip[1].abs() < 1e-5);
        }
    }

    #[test]
    fn impossible_cameras_are_errors() {
        let good = Camera::default();
        let parallel = |left, top| Projection::Orthographic {
            left,
            right: 1.0,
            bottom: -1.0,
            top,
        };
        let perspective = |fov| Projection::Perspective { fov };
        let with = |projection| Camera { projection, ..good };
        let bad = [
            (
                Camera {
                    look_at: [0.0; 3],
                    ..good
                },
                "is at the point",
            ),
            (
                Camera {
                    up: [0.0, 0.0, 2.0],
                    ..good
                },
                "along its direction up",
            ),
            (
                Camera {
                    up: [0.0; 3],
                    ..good
                },
                "along its direction up",
            ),
            (
                Camera {
                    position: [f32::NAN; 3],
                    ..good
                },
                "must be finite",
            ),
            (
                Camera {
                    z_near: 5.0,
                    z_far: 5.0,
                    ..good
                },
                "less than z_far",
            ),
            (
                Camera {
                    z_near: 0.0,
                    ..good
                },
                "positive",
            ),
            (with(perspective(0.0)), "field of view"),
            (with(perspective(180.0)), "field of view"),
            (with(perspective(f32::NAN)), "field of view"),
            (with(parallel(1.0, 1.0)), "different"),
            (with(parallel(0.0, f32::INFINITY)), "different"),
        ];
        for (camera, why) in bad {
            let found = camera.check().map_err(|e| e.to_string());
            assert!(
                found.clone().is_err_and(|e| e.contains(why)),
                "{found:?} {why}"
            );
        }
        assert_eq!(with(parallel(-1.0, 1.0)).check(), Ok(()));
    }
}
