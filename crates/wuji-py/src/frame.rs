//! The frame of a `ui.Window`: pixels and their depths.

use crate::scene::Scene;
use crate::vertices::{colors, extents, failed, floats, indices, rows};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::{Mutex, MutexGuard, PoisonError};
use wuji_viewer::scene::{self, Colors};
use wuji_viewer::{Framebuffer, Picture, Pixel};

/// Draws on RGBA floats, column by column from the left and each column upwards.
///
/// Positions are normalized to [0, 1]; radii and widths are relative to the height. Colors have one row for all vertices or one for each.
#[pyclass(frozen, module = "wuji._native")]
pub(crate) struct Frame {
    surface: Mutex<Surface>,
    size: [usize; 2],
}

struct Surface {
    pixels: Framebuffer,
    /// 1 at the near plane of the camera, 0 at its far plane and where nothing is.
    depths: Vec<f32>,
}

#[pymethods]
impl Frame {
    #[new]
    fn new(width: usize, height: usize) -> PyResult<Frame> {
        if !(1..=65_535).contains(&width) || !(1..=65_535).contains(&height) {
            let what = format!("a frame of {width}x{height} pixels: each side has 1 to 65535");
            return Err(PyValueError::new_err(what));
        }
        Ok(Frame {
            surface: Mutex::new(Surface {
                pixels: Framebuffer::new(width, height, [0.0, 0.0, 0.0, 1.0]),
                depths: vec![0.0; width * height],
            }),
            size: [width, height],
        })
    }

    /// Starts a new picture.
    fn clear(&self, py: Python<'_>, color: [f32; 3]) {
        let [r, g, b] = color;
        self.draw(py, |surface| {
            surface.pixels.clear([r, g, b, 1.0]);
            surface.depths.fill(0.0);
        });
    }

    /// Fills everything with an image of shape `(w, h, 4)`, stretched to the frame. Alpha is ignored.
    fn set_image(&self, py: Python<'_>, image: &Bound<'_, PyAny>) -> PyResult<()> {
        let shape = extents::<2>(image)?;
        let mut image = rows::<4>(image)?;
        self.draw(py, |surface| {
            for pixel in &mut image {
                // NaN becomes 0.
                let [r, g, b, _] = pixel.map(|c| if c > 0.0 { c.min(1.0) } else { 0.0 });
                *pixel = [r, g, b, 1.0];
            }
            surface.pixels.stretch(shape, &image);
        });
        Ok(())
    }

    /// Draws a scalar field as colors: dark blue is `low` or less, yellow `high` or more.
    fn contour(
        &self,
        py: Python<'_>,
        values: &Bound<'_, PyAny>,
        low: f64,
        high: f64,
    ) -> PyResult<()> {
        let shape = extents::<2>(values)?;
        let values = floats(values)?;
        let value = |i: usize, j: usize| f64::from(values[i * shape[1] + j]);
        self.draw(py, |surface| {
            surface.pixels.contour(shape, value, [low, high])
        });
        Ok(())
    }

    /// Draws a circle at each row of `centers`, with one radius for each.
    fn circles(
        &self,
        py: Python<'_>,
        centers: &Bound<'_, PyAny>,
        radii: &Bound<'_, PyAny>,
        color: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (centers, radii, colors) = (rows::<2>(centers)?, floats(radii)?, colors(color)?);
        if radii.len() != centers.len() {
            let what = format!("{} radii instead of {}", radii.len(), centers.len());
            return Err(PyValueError::new_err(what));
        }
        let color = vertex_colors(&colors, centers.len())?;
        self.draw(py, |surface| {
            for (k, (center, radius)) in centers.iter().zip(&radii).enumerate() {
                if *radius > 0.0 {
                    let radius = f64::from(*radius) * self.size[1] as f64;
                    surface.pixels.disc(self.scaled(*center), radius, color(k));
                }
            }
        });
        Ok(())
    }

    /// Draws lines between each two vertices, or between those with these indices.
    fn lines(
        &self,
        py: Python<'_>,
        vertices: &Bound<'_, PyAny>,
        index: Option<&Bound<'_, PyAny>>,
        width: f64,
        color: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (vertices, index, colors) = (rows::<2>(vertices)?, indices(index)?, colors(color)?);
        let color = vertex_colors(&colors, vertices.len())?;
        let corners = corners::<2>(index, vertices.len())?;
        let radius = 0.5 * width * self.size[1] as f64 + 0.5;
        self.draw(py, |surface| {
            for ends in corners {
                let at = ends.map(|k| self.scaled(vertices[k]));
                surface.pixels.gradient_line(at, radius, ends.map(&color));
            }
        });
        Ok(())
    }

    /// Draws a triangle for each three vertices, or for those with these indices.
    fn triangles(
        &self,
        py: Python<'_>,
        vertices: &Bound<'_, PyAny>,
        index: Option<&Bound<'_, PyAny>>,
        color: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (vertices, index, colors) = (rows::<2>(vertices)?, indices(index)?, colors(color)?);
        let color = vertex_colors(&colors, vertices.len())?;
        let corners = corners::<3>(index, vertices.len())?;
        self.draw(py, |surface| {
            for corners in corners {
                let at = corners.map(|k| self.scaled(vertices[k]));
                surface.pixels.gradient_triangle(at, corners.map(&color));
            }
        });
        Ok(())
    }

    /// Draws a scene, in front of what is farther away.
    fn scene(&self, py: Python<'_>, scene: &Scene) -> PyResult<()> {
        let drawn = self.draw(py, |surface| {
            let Surface { pixels, depths } = surface;
            scene.with(|scene| scene.draw(pixels, depths))
        });
        drawn.map_err(failed)
    }

    /// Draws a color with alpha over a rectangle, in pixels from the lower left corner.
    fn rectangle(&self, py: Python<'_>, corner: [i64; 2], extents: [i64; 2], color: Pixel) {
        self.draw(py, |surface| {
            surface.pixels.blend_rectangle(corner, extents, color)
        });
    }

    /// Draws text. `x` is the left edge and `top` the upper edge of its first line, in pixels from the lower left corner.
    fn text(&self, py: Python<'_>, content: &str, at: [f64; 2], size: f64, color: Pixel) {
        self.draw(py, |surface| surface.pixels.text(content, at, size, color));
    }

    /// Returns all pixels: floats of red, green, blue and alpha in [0, 1].
    fn pixels<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let clamp = |c: f32| if c > 0.0 { c.min(1.0) } else { 0.0 };
        let bytes = self.draw(py, |surface| {
            let channels = surface.pixels.pixels().as_flattened().iter();
            let bytes: Vec<u8> = channels.flat_map(|c| clamp(*c).to_ne_bytes()).collect();
            bytes
        });
        PyBytes::new(py, &bytes)
    }

    /// Returns the depths of all pixels as floats.
    fn depths<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let bytes = self.draw(py, |surface| {
            let bytes: Vec<u8> = surface
                .depths
                .iter()
                .flat_map(|d| d.to_ne_bytes())
                .collect();
            bytes
        });
        PyBytes::new(py, &bytes)
    }

    /// Returns rows of RGB from top to bottom, with one byte per channel.
    fn rows<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.picture(py).pixels.as_flattened())
    }
}

impl Frame {
    pub(crate) fn picture(&self, py: Python<'_>) -> Picture {
        self.draw(py, |surface| surface.pixels.to_picture())
    }

    /// Works on the pixels without the GIL.
    fn draw<R: Send>(&self, py: Python<'_>, work: impl Send + FnOnce(&mut Surface) -> R) -> R {
        crate::exit::detach(py, || work(&mut self.surface()))
    }

    fn surface(&self) -> MutexGuard<'_, Surface> {
        self.surface.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn scaled(&self, [x, y]: [f32; 2]) -> [f64; 2] {
        let [width, height] = self.size;
        [f64::from(x) * width as f64, f64::from(y) * height as f64]
    }
}

/// The color of each vertex.
fn vertex_colors(colors: &Colors, vertices: usize) -> PyResult<impl Fn(usize) -> Pixel + Sync> {
    match colors {
        Colors::Each(colors) if colors.len() != vertices => {
            let what = format!("{} colors instead of {vertices}", colors.len());
            Err(PyValueError::new_err(what))
        }
        Colors::All(_) | Colors::Each(_) => Ok(|k: usize| match colors {
            Colors::All(color) => *color,
            Colors::Each(colors) => colors[k],
        }),
    }
}

/// Raises `ValueError` unless indices make whole primitives, with `each` of them, of vertices that exist.
#[pyfunction]
pub(crate) fn check_corners(
    index: Option<&Bound<'_, PyAny>>,
    vertices: usize,
    each: usize,
) -> PyResult<()> {
    let index = indices(index)?;
    scene::check_corners(index.as_deref(), vertices, each.max(1)).map_err(failed)
}

/// The vertices of each primitive.
fn corners<const N: usize>(
    indices: Option<Vec<u32>>,
    vertices: usize,
) -> PyResult<impl Iterator<Item = [usize; N]> + Send> {
    scene::check_corners(indices.as_deref(), vertices, N).map_err(failed)?;
    let count = indices.as_ref().map_or(vertices, Vec::len);
    Ok((0..count / N).map(move |number| {
        std::array::from_fn(|k| {
            let corner = N * number + k;
            indices.as_ref().map_or(corner, |all| all[corner] as usize)
        })
    }))
}
