//! NumPy's `.npy` files.

use super::stream::{Input, Output};
use super::{at_caller, scalars};
use crate::element::Element;
use crate::field::Field;
use crate::nd_array::NdArray;
use crate::world::World;
use std::ops::Range;
use std::panic::Location;
use std::path::Path;
use wuji_ir::types::Scalar;
use wuji_ir::{Error, Result};

/// About as many bytes are in memory at a time.
const SLAB: u64 = 1 << 24;

const KIND: &str = "NPY";

impl<T: Element, const D: usize> Field<T, D> {
    /// Writes all elements to a file that `numpy.load` reads. Inactive elements are zero. Components of vectors are a further axis,
    /// those of matrices two.
    ///
    /// ```
    /// use wuji::prelude::*;
    /// # fn main() -> wuji::Result<()> {
    /// # let path = std::env::temp_dir().join(format!("wuji-doc-{}.npy", std::process::id()));
    /// let world = World::cpu()?;
    /// let x = world.field::<Vec2, 1>("x", 3)?; // shape (3, 2) in NumPy
    /// x.fill(vec2(1.0, 2.0))?;
    /// x.save_npy(&path)?;
    /// let y = world.load_npy::<Vec2, 1>("y", &path)?; // a new field
    /// assert_eq!(y.to_vec()?, x.to_vec()?);
    /// x.load_npy(&path)?; // into a field of the same shape
    /// # std::fs::remove_file(&path).ok();
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn save_npy(&self, path: impl AsRef<Path>) -> Result<()> {
        at_caller(save(self, path.as_ref()), Location::caller())
    }

    /// Takes all elements from an NPY file of the same shape and type, and activates them.
    #[track_caller]
    pub fn load_npy(&self, path: impl AsRef<Path>) -> Result<()> {
        at_caller(load(self, path.as_ref()), Location::caller())
    }
}

impl<T: Element, const D: usize> NdArray<T, D> {
    /// As [`Field::save_npy`].
    #[track_caller]
    pub fn save_npy(&self, path: impl AsRef<Path>) -> Result<()> {
        at_caller(save(self.as_field(), path.as_ref()), Location::caller())
    }

    /// As [`Field::load_npy`].
    #[track_caller]
    pub fn load_npy(&self, path: impl AsRef<Path>) -> Result<()> {
        at_caller(load(self.as_field(), path.as_ref()), Location::caller())
    }
}

impl World {
    /// A new dense field with the shape and the elements of an NPY file.
    #[track_caller]
    pub fn load_npy<T: Element, const D: usize>(
        &self,
        name: &str,
        path: impl AsRef<Path>,
    ) -> Result<Field<T, D>> {
        let made = new_field(self, name, path.as_ref());
        at_caller(made, Location::caller())
    }
}

fn new_field<T: Element, const D: usize>(
    world: &World,
    name: &str,
    path: &Path,
) -> Result<Field<T, D>> {
    let (_, components) = scalars::<T>("an NPY file")?;
    let mut input = Input::open(path)?;
    let header = Header::read(&mut input)?;
    let rank = header.shape.len();
    if rank != D + components.len() || header.shape[D..] != components {
        let wanted = format!("{D} axes{}", further(&components));
        let found = tuple(&header.shape);
        let what = format!("{} has the shape {found}", path.display());
        let note = format!("field `{name}` needs {wanted}");
        return Err(Error::new("W0532", what).note(note));
    }
    let extents: [u64; D] = std::array::from_fn(|k| header.shape[k]);
    let field = world.field(name, extents)?;
    read(&field, &mut input, &header)?;
    Ok(field)
}

/// The axes of components, in words.
fn further(components: &[u64]) -> String {
    match components {
        [] => String::new(),
        [n] => format!(" and one of {n} components"),
        more => format!(" and further ones of {} components", tuple(more)),
    }
}

/// A shape as Python writes it.
fn tuple(shape: &[u64]) -> String {
    let extents: Vec<String> = shape.iter().map(u64::to_string).collect();
    match &extents[..] {
        [one] => format!("({one},)"),
        more => format!("({})", more.join(", ")),
    }
}

/// The type as NumPy names it, without byte order.
fn type_name(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::Bool => "b1",
        Scalar::I8 => "i1",
        Scalar::I16 => "i2",
        Scalar::I32 => "i4",
        Scalar::I64 => "i8",
        Scalar::U8 => "u1",
        Scalar::U16 => "u2",
        Scalar::U32 => "u4",
        Scalar::U64 => "u8",
        Scalar::F16 => "f2",
        Scalar::F32 => "f4",
        Scalar::F64 => "f8",
    }
}

/// The whole shape of a field in NumPy.
fn full_shape<T: Element, const D: usize>(field: &Field<T, D>) -> Result<(Scalar, Vec<u64>)> {
    let (scalar, components) = scalars::<T>("an NPY file")?;
    let mut shape = field.shape()?.to_vec();
    shape.extend(components);
    Ok((scalar, shape))
}

fn save<T: Element, const D: usize>(field: &Field<T, D>, path: &Path) -> Result<()> {
    let (scalar, shape) = full_shape(field)?;
    let order = if scalar.bytes() == 1 { '|' } else { '<' };
    let (name, shape) = (type_name(scalar), tuple(&shape));
    let text = format!("{{'descr': '{order}{name}', 'fortran_order': False, 'shape': {shape}, }}");
    // The data starts at a multiple of 64.
    let length = (10 + text.len() + 1).next_multiple_of(64) - 10;
    let mut output = Output::create(path)?;
    output.put(b"\x93NUMPY\x01\x00")?;
    output.put((length as u16).to_le_bytes())?;
    output.put(format!("{text:<0$}\n", length - 1))?;
    for slab in slabs(field)? {
        let values = field.window(slab)?.to_vec()?;
        let mut bytes = vec![0; values.len() * T::SIZE];
        for (value, bytes) in values.iter().zip(bytes.chunks_exact_mut(T::SIZE)) {
            value.write(bytes);
        }
        output.put(bytes)?;
    }
    output.finish()
}

/// Windows of a field along its first axis, which fit into memory.
fn slabs<T: Element, const D: usize>(field: &Field<T, D>) -> Result<Vec<[Range<i64>; D]>> {
    let domain = field.domain()?;
    let whole = domain.map(|(from, extent)| from..from.saturating_add_unsigned(extent));
    let Some((from, extent)) = domain.first().copied() else {
        return Ok(vec![whole]);
    };
    let row: u64 = domain[1..].iter().map(|d| d.1).product();
    let rows = (SLAB / (row.saturating_mul(T::SIZE as u64)).max(1)).max(1);
    let starts = (0..extent).step_by(rows as usize);
    let slab = |start: u64| {
        let mut slab = whole.clone();
        let end = (start + rows).min(extent);
        slab[0] = from + start as i64..from + end as i64;
        slab
    };
    Ok(starts.map(slab).collect())
}

fn load<T: Element, const D: usize>(field: &Field<T, D>, path: &Path) -> Result<()> {
    let (_, shape) = full_shape(field)?;
    let mut input = Input::open(path)?;
    let header = Header::read(&mut input)?;
    if header.shape != shape {
        let what = format!("{} has the shape {}", path.display(), tuple(&header.shape));
        let note = format!("field `{}` has {}", field.name(), tuple(&shape));
        return Err(Error::new("W0532", what)
            .note(note)
            .help("`world.load_npy(name, path)` makes a field of the right shape"));
    }
    read(field, &mut input, &header)
}

fn read<T: Element, const D: usize>(
    field: &Field<T, D>,
    input: &mut Input,
    header: &Header,
) -> Result<()> {
    let (scalar, shape) = full_shape(field)?;
    if header.kind != type_name(scalar) {
        let path = input.path().display();
        let what = format!("{path} has elements of NumPy's type `{}`", header.kind);
        let wanted = type_name(scalar);
        let note = format!("field `{}` has those of `{wanted}`, {scalar}", field.name());
        let help = format!("convert it in NumPy: `array.astype('{wanted}')`");
        return Err(Error::new("W0532", what).note(note).help(help));
    }
    let bytes = shape
        .iter()
        .try_fold(u64::from(scalar.bytes()), |n, e| n.checked_mul(*e));
    if bytes.is_none_or(|n| n > input.left()) {
        let left = input.left();
        let why = format!(
            "it is truncated: its header names {} elements, and it has {left} bytes of them",
            tuple(&shape)
        );
        return Err(input.damaged(KIND, why));
    }
    if header.fortran_order {
        return read_columns(field, input, header, &shape);
    }
    for slab in slabs(field)? {
        let window = field.window(slab)?;
        let count: u64 = window.shape().iter().product();
        let mut bytes = input.take_vec(KIND, count * T::SIZE as u64)?;
        header.to_native(&mut bytes, scalar);
        let values: Vec<T> = bytes.chunks_exact(T::SIZE).map(T::read).collect();
        window.copy_from(&values)?;
    }
    Ok(())
}

/// Reads a file whose first index varies fastest.
fn read_columns<T: Element, const D: usize>(
    field: &Field<T, D>,
    input: &mut Input,
    header: &Header,
    shape: &[u64],
) -> Result<()> {
    let (scalar, _) = full_shape(field)?;
    let size = scalar.bytes() as usize;
    let count: u64 = shape.iter().product();
    let mut bytes = input.take_vec(KIND, count * size as u64)?;
    header.to_native(&mut bytes, scalar);
    let mut rows = vec![0; bytes.len()];
    for (n, to) in rows.chunks_exact_mut(size).enumerate() {
        let mut rest = n as u64;
        let mut from = 0;
        for (axis, extent) in shape.iter().enumerate().rev() {
            let stride: u64 = shape[..axis].iter().product();
            from += (rest % extent) * stride;
            rest /= extent;
        }
        let from = from as usize * size;
        to.copy_from_slice(&bytes[from..from + size]);
    }
    let values: Vec<T> = rows.chunks_exact(T::SIZE).map(T::read).collect();
    field.copy_from(&values)
}

/// What a file says about its data.
struct Header {
    /// Without byte order.
    kind: String,
    big_endian: bool,
    fortran_order: bool,
    shape: Vec<u64>,
}

impl Header {
    fn read(input: &mut Input) -> Result<Header> {
        let mut start = [0; 8];
        input.take(KIND, &mut start)?;
        if start[..6] != *b"\x93NUMPY" {
            return Err(input.damaged(KIND, "it does not start with `\\x93NUMPY`"));
        }
        let length = match start[6] {
            1 => {
                let mut length = [0; 2];
                input.take(KIND, &mut length)?;
                u64::from(u16::from_le_bytes(length))
            }
            2 | 3 => {
                let mut length = [0; 4];
                input.take(KIND, &mut length)?;
                u64::from(u32::from_le_bytes(length))
            }
            other => {
                let why = format!("it has version {other} of the format; 1 to 3 are known");
                return Err(input.damaged(KIND, why));
            }
        };
        let text = input.take_vec(KIND, length)?;
        let text = String::from_utf8_lossy(&text);
        let text = text.trim();
        Header::parse(text).ok_or_else(|| {
            let shown: String = text.chars().take(80).collect();
            input.damaged(KIND, format!("its header is not understood: {shown}"))
        })
    }

    /// `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`, in any order.
    fn parse(text: &str) -> Option<Header> {
        let value = |key: &str| {
            let (_, rest) = text.split_once(&format!("'{key}'"))?;
            Some(rest.trim_start().strip_prefix(':')?.trim_start())
        };
        let (descr, _) = value("descr")?.strip_prefix('\'')?.split_once('\'')?;
        let order = descr.chars().next()?;
        let kind = descr.trim_start_matches(['<', '>', '|', '=']);
        let fortran = value("fortran_order")?;
        let (shape, _) = value("shape")?.strip_prefix('(')?.split_once(')')?;
        let extents = shape.split(',').map(str::trim).filter(|e| !e.is_empty());
        Some(Header {
            kind: kind.to_owned(),
            big_endian: order == '>',
            fortran_order: if fortran.starts_with("True") {
                true
            } else if fortran.starts_with("False") {
                false
            } else {
                return None;
            },
            shape: extents.map(|e| e.parse().ok()).collect::<Option<_>>()?,
        })
    }

    fn to_native(&self, bytes: &mut [u8], scalar: Scalar) {
        if self.big_endian {
            let scalars = bytes.chunks_exact_mut(scalar.bytes() as usize);
            scalars.for_each(<[u8]>::reverse);
        }
    }
}
