//! The scene of a `ui.Window`: meshes, particles, lines, lights and a camera.

use crate::vertices::{colors, failed, floats, indices, rows};
use pyo3::prelude::*;
use std::sync::{Mutex, PoisonError};
use wuji_viewer::scene::{self, Camera, Lines, Mat4, Mesh, Particles, Projection, Radii, Vec3};

/// What is to be drawn. Positions are rows of three floats.
#[pyclass(frozen, module = "wuji._native")]
pub(crate) struct Scene {
    scene: Mutex<scene::Scene>,
}

/// Position, point to look at, direction up, near and far plane.
type Eye = (Vec3, Vec3, Vec3, f32, f32);

/// A camera with a field of view in degrees, or one with parallel rays between left, right, bottom and top.
fn camera(eye: Eye, fov: Option<f32>, edges: [f32; 4]) -> Camera {
    let (position, look_at, up, z_near, z_far) = eye;
    let [left, right, bottom, top] = edges;
    let parallel = Projection::Orthographic {
        left,
        right,
        bottom,
        top,
    };
    Camera {
        position,
        look_at,
        up,
        projection: fov.map_or(parallel, |fov| Projection::Perspective { fov }),
        z_near,
        z_far,
    }
}

/// Returns the rows of the matrices for column vectors: world to camera space, and camera to clip space. Raises `ValueError` if the
/// camera shows nothing.
#[pyfunction]
pub(crate) fn camera_matrices(
    eye: Eye,
    fov: Option<f32>,
    edges: [f32; 4],
    aspect: f32,
) -> PyResult<(Mat4, Mat4)> {
    let camera = camera(eye, fov, edges);
    camera.check().map_err(failed)?;
    Ok((camera.view(), camera.projection(aspect)))
}

#[pymethods]
impl Scene {
    #[new]
    fn new() -> Scene {
        Scene {
            scene: Mutex::new(scene::Scene::new(Camera::default())),
        }
    }

    fn set_camera(&self, eye: Eye, fov: Option<f32>, edges: [f32; 4]) {
        self.with(|scene| scene.camera = camera(eye, fov, edges));
    }

    fn ambient_light(&self, color: Vec3) {
        self.with(|scene| scene.ambient_light(color));
    }

    fn point_light(&self, position: Vec3, color: Vec3) {
        self.with(|scene| scene.point_light(position, color));
    }

    fn mesh(
        &self,
        vertices: &Bound<'_, PyAny>,
        index: Option<&Bound<'_, PyAny>>,
        normals: Option<&Bound<'_, PyAny>>,
        color: &Bound<'_, PyAny>,
        two_sided: bool,
        wireframe: bool,
        transforms: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let instances = transforms.map(rows::<4>).transpose()?;
        let mesh = Mesh {
            vertices: rows(vertices)?,
            indices: indices(index)?,
            normals: normals.map(rows).transpose()?,
            colors: colors(color)?,
            two_sided,
            wireframe,
            instances: instances.map(|rows| rows.as_chunks().0.to_vec()),
        };
        self.with(|scene| scene.mesh(mesh)).map_err(failed)
    }

    fn particles(
        &self,
        centers: &Bound<'_, PyAny>,
        radius: f32,
        radii: Option<&Bound<'_, PyAny>>,
        color: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let particles = Particles {
            centers: rows(centers)?,
            radii: match radii {
                Some(radii) => Radii::Each(floats(radii)?),
                None => Radii::All(radius),
            },
            colors: colors(color)?,
        };
        self.with(|scene| scene.particles(particles))
            .map_err(failed)
    }

    fn lines(
        &self,
        vertices: &Bound<'_, PyAny>,
        index: Option<&Bound<'_, PyAny>>,
        width: f32,
        color: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let lines = Lines {
            vertices: rows(vertices)?,
            indices: indices(index)?,
            width,
            colors: colors(color)?,
        };
        self.with(|scene| scene.lines(lines)).map_err(failed)
    }

    /// Moves everything but the camera and the ambient light to a new scene. Raises `ValueError` if the camera shows nothing.
    fn take(&self) -> PyResult<Scene> {
        let taken = self.with(|scene| scene.camera.check().map(|()| scene.take()));
        Ok(Scene {
            scene: Mutex::new(taken.map_err(failed)?),
        })
    }
}

impl Scene {
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut scene::Scene) -> R) -> R {
        work(&mut self.scene.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
