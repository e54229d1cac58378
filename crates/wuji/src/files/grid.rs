//! VTK's XML files: image data of fields, and what they share with polygonal data.

use super::stream::Output;
use super::{at_caller, scalars};
use crate::element::Element;
use crate::field::Field;
use crate::lang::Vec3;
use std::fmt;
use std::panic::Location;
use std::path::Path;
use wuji_ir::types::Scalar;
use wuji_ir::{Error, Result};

/// Fields of one shape, with up to three axes, as a VTK file (`.vti`) that ParaView opens.
///
/// The first index is x. Inactive elements are zero.
#[derive(Debug, Default)]
pub struct Grid<'a> {
    spacing: Option<Vec3>,
    origin: Vec3,
    shape: Option<[u64; 3]>,
    arrays: Vec<GridArray<'a>>,
}

/// A field of a grid.
struct GridArray<'a> {
    name: String,
    scalar: Scalar,
    components: u64,
    /// The elements, x fastest.
    bytes: Box<dyn Fn() -> Result<Vec<u8>> + 'a>,
}

impl fmt::Debug for GridArray<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GridArray({:?})", self.name)
    }
}

impl<'a> Grid<'a> {
    /// A grid without fields. Neighbors have the distance 1.
    pub fn new() -> Grid<'a> {
        Grid::default()
    }

    /// The distance of neighbors, on all axes.
    pub fn spacing(mut self, distance: f32) -> Grid<'a> {
        self.spacing = Some(Vec3::splat(distance));
        self
    }

    /// The position of the first element.
    pub fn origin(mut self, origin: Vec3) -> Grid<'a> {
        self.origin = origin;
        self
    }

    /// Adds a field under its name. All fields have the same shape.
    #[track_caller]
    pub fn field<T: Element, const D: usize>(self, field: &'a Field<T, D>) -> Result<Grid<'a>> {
        at_caller(self.add(field), Location::caller())
    }

    fn add<T: Element, const D: usize>(mut self, field: &'a Field<T, D>) -> Result<Grid<'a>> {
        let name = field.name();
        let fail = |what: String| Err(Error::new("W0533", what));
        if !(1..=3).contains(&D) {
            return fail(format!(
                "field `{name}` has {D} axes, and a grid one to three"
            ));
        }
        let (scalar, components) = scalars::<T>("a VTK file")?;
        let own = field.shape()?;
        let shape = std::array::from_fn(|k| own.get(k).copied().unwrap_or(1));
        match self.shape {
            Some(other) if other != shape => {
                return fail(format!(
                    "field `{name}` has the shape {shape:?}, and the others of the grid {other:?}"
                ));
            }
            _ => self.shape = Some(shape),
        }
        if self.arrays.iter().any(|a| a.name == vtk_name(name)) {
            return fail(format!("a grid has two fields `{name}`"));
        }
        let cast = Scalar::stored_in_vtk(scalar);
        self.arrays.push(GridArray {
            name: vtk_name(name),
            scalar: cast,
            components: components.iter().product(),
            bytes: Box::new(move || x_fastest(field, scalar)),
        });
        Ok(self)
    }

    /// Writes the file.
    #[track_caller]
    pub fn save_vti(&self, path: impl AsRef<Path>) -> Result<()> {
        at_caller(self.write(path.as_ref()), Location::caller())
    }

    fn write(&self, path: &Path) -> Result<()> {
        let Some(shape) = self.shape else {
            return Err(
                Error::new("W0533", "a grid without fields cannot be written")
                    .help("add one: `grid.field(&density)?`"),
            );
        };
        let [x, y, z] = shape.map(|e| e - 1);
        let (spacing, origin) = (self.spacing.unwrap_or(Vec3::splat(1.0)), self.origin);
        let extent = format!("0 {x} 0 {y} 0 {z}");
        let mut file = VtkFile::new("ImageData");
        file.line(&format!(
            "<ImageData WholeExtent=\"{extent}\" Origin=\"{} {} {}\" Spacing=\"{} {} {}\">",
            origin.x, origin.y, origin.z, spacing.x, spacing.y, spacing.z
        ));
        file.line(&format!("<Piece Extent=\"{extent}\">"));
        file.line("<PointData>");
        let count: u64 = shape.iter().product();
        for array in &self.arrays {
            file.array(&array.name, array.scalar, array.components, count);
        }
        file.line("</PointData>");
        file.line("</Piece>");
        file.line("</ImageData>");
        let mut output = file.begin(path)?;
        for array in &self.arrays {
            output.bytes(&(array.bytes)()?)?;
        }
        output.finish()
    }
}

/// The elements of a field, the first index fastest.
fn x_fastest<T: Element, const D: usize>(field: &Field<T, D>, scalar: Scalar) -> Result<Vec<u8>> {
    let shape = field.shape()?;
    let extent = |k: usize| shape.get(k).copied().unwrap_or(1) as usize;
    let (nx, ny, nz) = (extent(0), extent(1), extent(2));
    let values = field.to_vec()?;
    let mut bytes = Vec::with_capacity(values.len() * T::SIZE);
    let mut own = vec![0; T::SIZE];
    for k in 0..nz {
        for j in 0..ny {
            for i in 0..nx {
                values[(i * ny + j) * nz + k].write(&mut own);
                match scalar {
                    Scalar::F16 => own.as_chunks().0.iter().for_each(|h| {
                        let wide = half::f16::from_le_bytes(*h).to_f32();
                        bytes.extend(wide.to_le_bytes());
                    }),
                    _ => bytes.extend(&own),
                }
            }
        }
    }
    Ok(bytes)
}

trait Stored {
    /// VTK has no half floats.
    fn stored_in_vtk(self) -> Scalar;
}

impl Stored for Scalar {
    fn stored_in_vtk(self) -> Scalar {
        match self {
            Scalar::F16 => Scalar::F32,
            other => other,
        }
    }
}

/// A name without characters that XML reserves.
pub(super) fn vtk_name(name: &str) -> String {
    name.replace(['<', '>', '&', '"'], "_")
}

fn vtk_type(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::Bool | Scalar::U8 => "UInt8",
        Scalar::I8 => "Int8",
        Scalar::I16 => "Int16",
        Scalar::I32 => "Int32",
        Scalar::I64 => "Int64",
        Scalar::U16 => "UInt16",
        Scalar::U32 => "UInt32",
        Scalar::U64 => "UInt64",
        Scalar::F16 | Scalar::F32 => "Float32",
        Scalar::F64 => "Float64",
    }
}

/// The text of a VTK file. Arrays follow it as bytes, each with its length in front.
pub(super) struct VtkFile {
    kind: &'static str,
    text: String,
    offset: u64,
}

impl VtkFile {
    pub(super) fn new(kind: &'static str) -> VtkFile {
        let text = format!(
            "<?xml version=\"1.0\"?>\n<VTKFile type=\"{kind}\" version=\"1.0\" byte_order=\"LittleEndian\" header_type=\"UInt64\">\n"
        );
        VtkFile {
            kind,
            text,
            offset: 0,
        }
    }

    pub(super) fn line(&mut self, text: &str) {
        self.text += text;
        self.text.push('\n');
    }

    /// Announces an array of so many elements.
    pub(super) fn array(&mut self, name: &str, scalar: Scalar, components: u64, count: u64) {
        let (ty, offset) = (vtk_type(scalar), self.offset);
        self.line(&format!(
            "<DataArray type=\"{ty}\" Name=\"{name}\" NumberOfComponents=\"{components}\" format=\"appended\" offset=\"{offset}\"/>"
        ));
        self.offset += 8 + count * components * u64::from(scalar.bytes());
    }

    /// Writes the text. The arrays come next, in the order in which they were announced.
    pub(super) fn begin(self, path: &Path) -> Result<VtkData> {
        debug_assert!(self.text.contains(self.kind));
        let mut output = Output::create(path)?;
        output.put(&self.text)?;
        output.put("<AppendedData encoding=\"raw\">\n_")?;
        Ok(VtkData { output })
    }
}

/// The arrays of a VTK file.
pub(super) struct VtkData {
    output: Output,
}

impl VtkData {
    /// Scalars, and how many.
    pub(super) fn block<const N: usize>(
        &mut self,
        scalars: impl Iterator<Item = [u8; N]>,
        count: usize,
    ) -> Result<()> {
        self.output.put(((count * N) as u64).to_le_bytes())?;
        scalars.into_iter().try_for_each(|s| self.output.put(s))
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.output.put((bytes.len() as u64).to_le_bytes())?;
        self.output.put(bytes)
    }

    pub(super) fn finish(mut self) -> Result<()> {
        self.output.put("\n</AppendedData>\n</VTKFile>\n")?;
        self.output.finish()
    }
}
