//! Points and triangles with their attributes, and VTK files of them.

use super::at_caller;
use super::grid::{VtkFile, vtk_name};
use crate::lang::Vec3;
use std::panic::Location;
use std::path::Path;
use wuji_ir::types::Scalar;
use wuji_ir::{Error, Result};

/// Points, or a mesh of triangles between them, as files hold them.
///
/// ```
/// use wuji::files::Mesh;
/// use wuji::prelude::*;
/// # fn main() -> wuji::Result<()> {
/// # let path = std::env::temp_dir().join(format!("wuji-mesh-{}.ply", std::process::id()));
/// let corners = [vec3(0.0, 0.0, 0.0), vec3(1.0, 0.0, 0.0), vec3(0.0, 1.0, 0.0)];
/// let mesh = Mesh::points(&corners)
///     .with_normals(&[vec3(0.0, 0.0, 1.0); 3])
///     .with_colors(&[vec3(1.0, 0.5, 0.0); 3])
///     .with_attribute("heat", &[0.0, 1.0, 2.0])
///     .with_triangles(&[[0, 1, 2]]);
/// mesh.save_ply(&path)?;
/// let back = Mesh::load_ply(&path)?;
/// assert_eq!(back.positions(), corners);
/// assert_eq!(back.triangles(), [[0, 1, 2]]);
/// assert_eq!(back.attribute("heat"), Some(&[0.0, 1.0, 2.0][..]));
/// # std::fs::remove_file(&path).ok();
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mesh {
    pub(super) positions: Vec<Vec3>,
    pub(super) normals: Vec<Vec3>,
    /// From 0 to 1.
    pub(super) colors: Vec<Vec3>,
    pub(super) attributes: Vec<(String, Vec<f32>)>,
    pub(super) triangles: Vec<[u32; 3]>,
}

impl Mesh {
    /// Points without anything else.
    pub fn points(positions: &[Vec3]) -> Mesh {
        Mesh {
            positions: positions.to_vec(),
            ..Mesh::default()
        }
    }

    /// Adds a normal for each point.
    pub fn with_normals(mut self, normals: &[Vec3]) -> Mesh {
        self.normals = normals.to_vec();
        self
    }

    /// Adds a color for each point: red, green and blue from 0 to 1.
    pub fn with_colors(mut self, colors: &[Vec3]) -> Mesh {
        self.colors = colors.to_vec();
        self
    }

    /// Adds a number for each point.
    pub fn with_attribute(mut self, name: &str, values: &[f32]) -> Mesh {
        self.attributes.push((name.to_owned(), values.to_vec()));
        self
    }

    /// Adds triangles: the numbers of their corners, counterclockwise as seen from the front.
    pub fn with_triangles(mut self, triangles: &[[u32; 3]]) -> Mesh {
        self.triangles = triangles.to_vec();
        self
    }

    /// The points.
    pub fn positions(&self) -> &[Vec3] {
        &self.positions
    }

    /// The normals; none, or one for each point.
    pub fn normals(&self) -> &[Vec3] {
        &self.normals
    }

    /// The colors; none, or one for each point.
    pub fn colors(&self) -> &[Vec3] {
        &self.colors
    }

    /// The triangles.
    pub fn triangles(&self) -> &[[u32; 3]] {
        &self.triangles
    }

    /// The numbers of an attribute, if there is one of this name.
    pub fn attribute(&self, name: &str) -> Option<&[f32]> {
        let found = self.attributes.iter().find(|(n, _)| n == name);
        found.map(|(_, values)| &values[..])
    }

    /// The names of all attributes.
    pub fn attribute_names(&self) -> impl Iterator<Item = &str> {
        self.attributes.iter().map(|(name, _)| name.as_str())
    }

    /// Writes a PLY file with binary numbers.
    #[track_caller]
    pub fn save_ply(&self, path: impl AsRef<Path>) -> Result<()> {
        at_caller(self.write_ply(path.as_ref(), false), Location::caller())
    }

    /// Writes a PLY file that people can read.
    #[track_caller]
    pub fn save_ply_text(&self, path: impl AsRef<Path>) -> Result<()> {
        at_caller(self.write_ply(path.as_ref(), true), Location::caller())
    }

    /// Reads a PLY file, binary or text. Polygons become triangles; what is unknown is skipped.
    #[track_caller]
    pub fn load_ply(path: impl AsRef<Path>) -> Result<Mesh> {
        at_caller(Mesh::read_ply(path.as_ref()), Location::caller())
    }

    /// Writes a VTK file of polygonal data (`.vtp`), for ParaView.
    #[track_caller]
    pub fn save_vtp(&self, path: impl AsRef<Path>) -> Result<()> {
        at_caller(self.write_vtp(path.as_ref()), Location::caller())
    }

    /// An error if the parts do not fit together.
    pub(super) fn check(&self) -> Result<()> {
        let n = self.positions.len();
        let fail = |what: String, help: &str| Err(Error::new("W0533", what).help(help));
        if u32::try_from(n).is_err() {
            return fail(
                format!("a mesh of {n} points"),
                "at most 4294967295 points have numbers",
            );
        }
        let named = self
            .attributes
            .iter()
            .map(|(name, v)| (name.as_str(), v.len()));
        let given = [
            ("normals", self.normals.len()),
            ("colors", self.colors.len()),
        ];
        // There may be none of these.
        let given = given.into_iter().filter(|(_, count)| *count > 0);
        for (name, count) in given.chain(named.clone()) {
            if count != n {
                let what = format!("a mesh of {n} points has {count} values of `{name}`");
                return fail(what, "give one value for each point");
            }
        }
        for (k, (name, _)) in named.enumerate() {
            let known = self.attributes[..k].iter().any(|(other, _)| other == name);
            let reserved = super::ply::RESERVED.contains(&name);
            let plain = !name.is_empty()
                && name
                    .chars()
                    .all(|c| c.is_ascii_graphic() && !"<>&\"".contains(c));
            if known || reserved || !plain {
                let what = format!("a mesh cannot have a further attribute `{name}`");
                return fail(what, "use another name, without spaces");
            }
        }
        let outside = |t: &&[u32; 3]| t.iter().any(|k| *k as usize >= n);
        match self.triangles.iter().find(outside) {
            Some(t) => fail(
                format!("a mesh of {n} points has a triangle with the corners {t:?}"),
                "corners are numbers of points, the first of which is 0",
            ),
            None => Ok(()),
        }
    }

    fn write_vtp(&self, path: &Path) -> Result<()> {
        self.check()?;
        let (points, polygons) = (self.positions.len(), self.triangles.len());
        let vertices = if polygons == 0 { points } else { 0 };
        let mut file = VtkFile::new("PolyData");
        file.line("<PolyData>");
        file.line(&format!(
            "<Piece NumberOfPoints=\"{points}\" NumberOfVerts=\"{vertices}\" NumberOfPolys=\"{polygons}\">"
        ));
        file.line("<PointData>");
        if !self.normals.is_empty() {
            file.array("Normals", Scalar::F32, 3, points as u64);
        }
        if !self.colors.is_empty() {
            file.array("Colors", Scalar::F32, 3, points as u64);
        }
        for (name, _) in &self.attributes {
            file.array(&vtk_name(name), Scalar::F32, 1, points as u64);
        }
        file.line("</PointData>");
        file.line("<Points>");
        file.array("Points", Scalar::F32, 3, points as u64);
        file.line("</Points>");
        let (tag, corners) = if polygons == 0 {
            ("Verts", 1)
        } else {
            ("Polys", 3)
        };
        let cells = vertices.max(polygons) as u64;
        file.line(&format!("<{tag}>"));
        file.array("connectivity", Scalar::I64, 1, cells * corners);
        file.array("offsets", Scalar::I64, 1, cells);
        file.line(&format!("</{tag}>"));
        file.line("</Piece>");
        file.line("</PolyData>");
        let mut output = file.begin(path)?;
        for vectors in [&self.normals, &self.colors] {
            if !vectors.is_empty() {
                output.block(
                    vectors.iter().flat_map(|v| v.0).map(f32::to_le_bytes),
                    points * 3,
                )?;
            }
        }
        for (_, values) in &self.attributes {
            output.block(values.iter().map(|v| v.to_le_bytes()), points)?;
        }
        output.block(
            self.positions
                .iter()
                .flat_map(|v| v.0)
                .map(f32::to_le_bytes),
            points * 3,
        )?;
        let corner = self.triangles.iter().flatten().map(|k| i64::from(*k));
        let connectivity = corner.chain(0..vertices as i64);
        output.block(
            connectivity.map(i64::to_le_bytes),
            (cells * corners) as usize,
        )?;
        let offsets = (1..=cells as i64).map(|k| k * corners as i64);
        output.block(offsets.map(i64::to_le_bytes), cells as usize)?;
        output.finish()
    }
}
