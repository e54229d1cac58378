//! Scenes in space: meshes, particles and lines, lit and drawn on a [`Framebuffer`] with a depth buffer.
//!
//! ```
//! use wuji_viewer::scene::{Camera, Colors, Particles, Radii, Scene};
//! use wuji_viewer::{Framebuffer, opaque};
//!
//! let mut scene = Scene::new(Camera {
//!     position: [0.0, 0.0, 4.0],
//!     look_at: [0.0; 3],
//!     ..Camera::default()
//! });
//! scene.ambient_light([0.2; 3]);
//! scene.point_light([3.0, 3.0, 5.0], [0.8; 3]);
//! scene.particles(Particles {
//!     centers: vec![[0.0; 3], [1.0, 0.0, 0.0]],
//!     radii: Radii::All(0.5),
//!     colors: Colors::All([1.0, 0.5, 0.0, 1.0]),
//! })?;
//! let mut frame = Framebuffer::new(64, 48, opaque(0x112f41));
//! let mut depth = vec![0.0; 64 * 48];
//! scene.draw(&mut frame, &mut depth)?;
//! assert!(depth[32 * 48 + 24] > 0.0);
//! # Ok::<(), wuji_viewer::scene::SceneError>(())
//! ```
//!
//! Everything is drawn by the processor, on all of its cores: the picture is divided into strips of columns, and each thread draws those
//! of its strips. Pictures do not depend on the number of threads.
//!
//! Surfaces are matte: their color is multiplied by the ambient light and, for each point light, by the cosine of the angle between the
//! normal and the light. Colors have an alpha; what shines through is what was drawn before. What has a coordinate that is infinite or
//! NaN is not drawn.

mod camera;
mod math;
mod segments;
mod shading;
mod spheres;
mod strip;
mod triangles;
mod workers;

#[cfg(test)]
mod tests;

pub use camera::{Camera, Projection};
pub use math::{Mat4, Vec3};
pub use shading::PointLight;

use crate::framebuffer::{Framebuffer, Pixel};
use camera::Viewport;
use segments::Segments;
use shading::Lights;
use spheres::Spheres;
use std::fmt;
use std::ops::{DerefMut, Range};
use strip::{Bins, Context, Strip};
use triangles::{Transformed, Triangles};
use workers::parallel;

/// What is to be drawn, and how it is seen and lit.
#[derive(Clone, Debug, PartialEq)]
pub struct Scene {
    /// Where it is seen from.
    pub camera: Camera,
    ambient: Vec3,
    lights: Vec<PointLight>,
    items: Vec<Item>,
}

#[derive(Clone, Debug, PartialEq)]
enum Item {
    Mesh(Mesh),
    Particles(Particles),
    Lines(Lines),
}

/// Triangles.
#[derive(Clone, Debug, PartialEq)]
pub struct Mesh {
    /// The positions of vertices.
    pub vertices: Vec<Vec3>,
    /// Three for each triangle; `None` if each three vertices are one.
    pub indices: Option<Vec<u32>>,
    /// One for each vertex; `None` computes them: the normals of triangles, averaged where they share vertices.
    pub normals: Option<Vec<Vec3>>,
    /// Colors, interpolated between vertices.
    pub colors: Colors,
    /// Whether the side that normals point away from is lit as well.
    pub two_sided: bool,
    /// Draws edges instead of surfaces.
    pub wireframe: bool,
    /// Draws the mesh once for each matrix, transformed by it.
    pub instances: Option<Vec<Mat4>>,
}

/// Spheres.
#[derive(Clone, Debug, PartialEq)]
pub struct Particles {
    /// The positions of centers.
    pub centers: Vec<Vec3>,
    /// In units of space. Spheres without a positive radius are not drawn, and those smaller than a pixel are drawn as one.
    pub radii: Radii,
    /// Colors.
    pub colors: Colors,
}

/// Straight lines.
#[derive(Clone, Debug, PartialEq)]
pub struct Lines {
    /// The positions of vertices.
    pub vertices: Vec<Vec3>,
    /// Two for each line; `None` if each two vertices are one.
    pub indices: Option<Vec<u32>>,
    /// In pixels.
    pub width: f32,
    /// Colors, interpolated between vertices. Lines are not lit.
    pub colors: Colors,
}

/// Red, green, blue and alpha of vertices.
#[derive(Clone, Debug, PartialEq)]
pub enum Colors {
    /// The same for all.
    All([f32; 4]),
    /// One for each.
    Each(Vec<[f32; 4]>),
}

/// The radii of particles.
#[derive(Clone, Debug, PartialEq)]
pub enum Radii {
    /// The same for all.
    All(f32),
    /// One for each.
    Each(Vec<f32>),
}

/// Why a scene cannot be drawn.
#[derive(Clone, Debug, PartialEq)]
pub enum SceneError {
    /// There must be as many of these as vertices.
    Count {
        /// What there is too many or too few of.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many there should be.
        needed: usize,
    },
    /// A number of corners that makes no whole triangles or lines.
    Incomplete {
        /// The number of indices, or of vertices without indices.
        corners: usize,
        /// How many make one.
        each: usize,
    },
    /// An index without a vertex.
    Index {
        /// The index.
        index: u32,
        /// Its position.
        at: usize,
        /// The number of vertices.
        vertices: usize,
    },
    /// A radius or width that is not positive.
    NotPositive {
        /// The quantity.
        what: &'static str,
        /// Its value.
        value: f32,
    },
    /// All instances together have more vertices than can be drawn.
    TooLarge,
    /// An impossible camera, and why.
    Camera(&'static str),
}

impl fmt::Display for SceneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SceneError::Count {
                what,
                found,
                needed,
            } => write!(f, "{found} {what} instead of {needed}"),
            SceneError::Incomplete { corners, each: 3 } => {
                write!(f, "{corners} corners do not make whole triangles")
            }
            SceneError::Incomplete { corners, .. } => {
                write!(f, "{corners} ends do not make whole lines")
            }
            SceneError::Index {
                index,
                at,
                vertices,
            } => write!(
                f,
                "index {index} at position {at} has no vertex: there are {vertices}"
            ),
            SceneError::NotPositive { what, value } => {
                write!(f, "a {what} must be positive and finite, not {value}")
            }
            SceneError::TooLarge => {
                write!(
                    f,
                    "all instances together have more than 2^27 vertices, or more than there is memory for"
                )
            }
            SceneError::Camera(why) => write!(f, "the camera shows nothing: {why}"),
        }
    }
}

impl std::error::Error for SceneError {}

impl Scene {
    /// A scene without anything in it. Its ambient light is 0.1.
    pub fn new(camera: Camera) -> Scene {
        Scene {
            camera,
            ambient: [0.1; 3],
            lights: Vec::new(),
            items: Vec::new(),
        }
    }

    /// Sets the light that comes from all sides.
    pub fn ambient_light(&mut self, color: Vec3) {
        self.ambient = color;
    }

    /// Adds a light that shines in all directions.
    pub fn point_light(&mut self, position: Vec3, color: Vec3) {
        self.lights.push(PointLight { position, color });
    }

    /// Adds triangles.
    pub fn mesh(&mut self, mesh: Mesh) -> Result<(), SceneError> {
        mesh.check()?;
        self.items.push(Item::Mesh(mesh));
        Ok(())
    }

    /// Adds spheres.
    pub fn particles(&mut self, particles: Particles) -> Result<(), SceneError> {
        particles.check()?;
        self.items.push(Item::Particles(particles));
        Ok(())
    }

    /// Adds lines.
    pub fn lines(&mut self, lines: Lines) -> Result<(), SceneError> {
        lines.check()?;
        self.items.push(Item::Lines(lines));
        Ok(())
    }

    /// Moves meshes, particles, lines and point lights to a new scene, with the same camera and ambient light.
    pub fn take(&mut self) -> Scene {
        Scene {
            camera: self.camera,
            ambient: self.ambient,
            lights: std::mem::take(&mut self.lights),
            items: std::mem::take(&mut self.items),
        }
    }

    /// Draws everything, over what is there. `depth` has a number for each pixel of the frame, in the same order: 1 at the near plane of
    /// the camera and 0 at its far plane, or where nothing is. Only what is nearer is drawn.
    pub fn draw<P>(&self, frame: &mut Framebuffer<P>, depth: &mut [f32]) -> Result<(), SceneError>
    where
        P: DerefMut<Target = [Pixel]>,
    {
        self.camera.check()?;
        let size = [frame.width(), frame.height()];
        count("depths", depth.len(), frame.pixels().len())?;
        if size.contains(&0) {
            return Ok(());
        }
        let view = self.camera.view();
        let context = Context {
            viewport: Viewport::new(&self.camera, size),
            lights: Lights::new(self.ambient, &self.lights, &view),
            size,
        };
        let prepared = self.items.iter().map(|item| {
            Ok(match item {
                Item::Mesh(mesh) => Prepared::Mesh(Transformed::new(mesh, &view, &context)?),
                Item::Particles(particles) => Prepared::Particles(particles),
                Item::Lines(lines) => Prepared::Lines(lines),
            })
        });
        let prepared: Vec<Prepared<'_>> = prepared.collect::<Result<_, SceneError>>()?;
        let jobs = prepared.iter().flat_map(Prepared::jobs).collect();
        let batches = parallel(jobs, |(item, range)| item.batch(range, &view, &context));
        let strips = Strip::all(size[1], frame.pixels_mut(), depth);
        parallel(
            strips.into_iter().enumerate().collect(),
            |(number, mut strip)| {
                for batch in &batches {
                    batch.draw(number, &mut strip, &context);
                }
            },
        );
        Ok(())
    }
}

/// An item in camera space.
enum Prepared<'a> {
    Mesh(Transformed<'a>),
    Particles(&'a Particles),
    Lines(&'a Lines),
}

/// The number of primitives that one thread prepares at once.
const CHUNK: usize = 1 << 12;

impl Prepared<'_> {
    /// Ranges of primitives.
    fn jobs(&self) -> impl Iterator<Item = (&Self, Range<usize>)> {
        let count = match self {
            Prepared::Mesh(mesh) => mesh.count(),
            Prepared::Particles(particles) => particles.centers.len(),
            Prepared::Lines(lines) => lines.corners() / 2,
        };
        (0..count)
            .step_by(CHUNK)
            .map(move |start| (self, start..(start + CHUNK).min(count)))
    }

    fn batch(&self, range: Range<usize>, view: &Mat4, context: &Context) -> Batch<'_> {
        match self {
            Prepared::Mesh(mesh) if mesh.is_wireframe() => {
                Batch::Segments(mesh.wireframe(range, context))
            }
            Prepared::Mesh(mesh) => Batch::Triangles(mesh.prepare(range, context)),
            Prepared::Particles(particles) => {
                Batch::Spheres(spheres::prepare(particles, range, view, context))
            }
            Prepared::Lines(lines) => {
                Batch::Segments(segments::prepare(lines, range, view, context))
            }
        }
    }
}

/// Primitives in the picture.
enum Batch<'a> {
    Triangles(Triangles<'a>),
    Spheres(Spheres),
    Segments(Segments),
}

impl Batch<'_> {
    fn draw(&self, number: usize, strip: &mut Strip<'_>, context: &Context) {
        let each = |bins: &Bins, draw: &mut dyn FnMut(u32)| {
            bins.of(number).iter().copied().for_each(draw);
        };
        match self {
            Batch::Triangles(all) => each(&all.bins, &mut |k| all.draw(k, strip, context)),
            Batch::Spheres(all) => each(&all.bins, &mut |k| all.draw(k, strip, context)),
            Batch::Segments(all) => each(&all.bins, &mut |k| all.draw(k, strip)),
        }
    }
}

impl Mesh {
    fn triangles(&self) -> usize {
        self.indices.as_ref().map_or(self.vertices.len(), Vec::len) / 3
    }

    fn vertex(&self, corner: usize) -> usize {
        self.indices.as_ref().map_or(corner, |i| i[corner] as usize)
    }

    fn check(&self) -> Result<(), SceneError> {
        let vertices = self.vertices.len();
        check_corners(self.indices.as_deref(), vertices, 3)?;
        self.colors.check(vertices)?;
        if let Some(normals) = &self.normals {
            count("normals", normals.len(), vertices)?;
        }
        let instances = self.instances.as_ref().map_or(1, Vec::len);
        countable(vertices, instances)
    }
}

impl Particles {
    fn check(&self) -> Result<(), SceneError> {
        self.colors.check(self.centers.len())?;
        match &self.radii {
            Radii::All(radius) => positive("radius", *radius),
            Radii::Each(radii) => count("radii", radii.len(), self.centers.len()),
        }
    }
}

impl Lines {
    fn corners(&self) -> usize {
        self.indices.as_ref().map_or(self.vertices.len(), Vec::len)
    }

    fn vertex(&self, corner: usize) -> usize {
        self.indices.as_ref().map_or(corner, |i| i[corner] as usize)
    }

    fn check(&self) -> Result<(), SceneError> {
        positive("width", self.width)?;
        check_corners(self.indices.as_deref(), self.vertices.len(), 2)?;
        self.colors.check(self.vertices.len())
    }
}

impl Colors {
    fn get(&self, vertex: usize) -> [f32; 4] {
        match self {
            Colors::All(color) => *color,
            Colors::Each(colors) => colors[vertex],
        }
    }

    fn check(&self, vertices: usize) -> Result<(), SceneError> {
        match self {
            Colors::All(_) => Ok(()),
            Colors::Each(colors) => count("colors", colors.len(), vertices),
        }
    }
}

impl Radii {
    fn get(&self, particle: usize) -> f32 {
        match self {
            Radii::All(radius) => *radius,
            Radii::Each(radii) => radii[particle],
        }
    }
}

fn count(what: &'static str, found: usize, needed: usize) -> Result<(), SceneError> {
    if found == needed {
        Ok(())
    } else {
        Err(SceneError::Count {
            what,
            found,
            needed,
        })
    }
}

/// The most vertices of a mesh with all of its instances.
const VERTICES: usize = 1 << 27;

fn countable(vertices: usize, instances: usize) -> Result<(), SceneError> {
    match vertices.checked_mul(instances) {
        Some(total) if total <= VERTICES => Ok(()),
        _ => Err(SceneError::TooLarge),
    }
}

fn positive(what: &'static str, value: f32) -> Result<(), SceneError> {
    if value > 0.0 && value.is_finite() {
        Ok(())
    } else {
        Err(SceneError::NotPositive { what, value })
    }
}

/// An error unless corners make whole primitives, with `each` of them, of vertices that exist. Without indices, corners are all vertices.
pub fn check_corners(
    indices: Option<&[u32]>,
    vertices: usize,
    each: usize,
) -> Result<(), SceneError> {
    let corners = indices.map_or(vertices, <[u32]>::len);
    if !corners.is_multiple_of(each) {
        return Err(SceneError::Incomplete { corners, each });
    }
    let indices = indices.unwrap_or_default();
    let missing = indices.iter().position(|index| *index as usize >= vertices);
    missing.map_or(Ok(()), |at| {
        Err(SceneError::Index {
            index: indices[at],
            at,
            vertices,
        })
    })
}
