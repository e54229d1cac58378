//! Fields whose element type is known at run time.

use crate::dynamic::{read_slot, write_slot};
use crate::host::{ElementBox, FieldHandle, HostAccess};
use crate::layout::Tree;
use crate::services::Service;
use crate::world::World;
use smallvec::{SmallVec, smallvec};
use std::fmt;
use std::sync::Arc;
use wuji_ir::entities;
use wuji_ir::types::{Scalar, Structs, Type};
use wuji_ir::{Error, Result};
use wuji_runtime::array::ArrayArg;
use wuji_runtime::memory::Way;

/// A handle to the elements, or the cells, that a layout has placed under one number.
#[derive(Clone)]
pub struct Field {
    handle: FieldHandle,
    /// The scalar type and the number of scalars of an element; a view has none.
    elem: Option<(Scalar, u32)>,
    ty: Type,
}

/// The scalars of an element.
pub type Slots = SmallVec<[u64; 4]>;

/// A frontend reports positions in its own source, not in the caller of this crate.
fn without_position<T>(result: Result<T>) -> Result<T> {
    result.map_err(|mut error| {
        if error.code.starts_with("W01") {
            error.at = None;
        }
        error
    })
}

impl fmt::Debug for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Field({:?}, {})", self.name().unwrap_or(""), self.ty)
    }
}

impl PartialEq for Field {
    fn eq(&self, other: &Field) -> bool {
        self.handle == other.handle
    }
}

impl Eq for Field {}

impl Field {
    /// A field of a tree, by its number there.
    pub fn of(tree: &Tree, number: u32) -> Result<Field> {
        let body = tree.inner.body()?;
        let Some(placed) = body.shape.fields.get(number as usize) else {
            let what = format!("the tree has no field {number}");
            return Err(Error::new("W0111", what));
        };
        let ty = placed.elem.enter(&mut Structs::default());
        Ok(Field {
            handle: FieldHandle {
                tree: tree.inner.clone(),
                field: entities::Field::from_u32(number),
            },
            elem: ty.elem().zip(ty.lanes()),
            ty,
        })
    }

    /// A field of the typed API.
    pub fn typed<T, const D: usize>(field: &crate::field::Field<T, D>) -> Result<Field> {
        Field::of(&field.tree(), field.number().as_u32())
    }

    pub(crate) fn handle(&self) -> &FieldHandle {
        &self.handle
    }

    /// The tree it is placed in.
    pub fn tree(&self) -> Tree {
        self.handle.tree()
    }

    /// The world it lives in.
    pub fn world(&self) -> &World {
        self.handle.world()
    }

    /// Its number in the tree.
    pub fn number(&self) -> u32 {
        self.handle.field.as_u32()
    }

    /// What its elements are; a view has a struct without fields.
    pub fn ty(&self) -> Type {
        self.ty
    }

    /// Whether it stands for the cells of its node and has no elements.
    pub fn is_view(&self) -> bool {
        self.elem.is_none()
    }

    /// The scalar that elements are made of, and how many of it.
    pub fn parts(&self) -> Result<(Scalar, usize)> {
        match self.elem {
            Some((scalar, lanes)) => Ok((scalar, lanes as usize)),
            None => Err(Error::new(
                "W0107",
                format!("`{}` stands for cells and has no elements", self.name()?),
            )
            .help("ask whether they are active, or use a field in them")),
        }
    }

    /// The name it was placed under.
    pub fn name(&self) -> Result<&str> {
        Ok(self.access()?.name())
    }

    /// Smallest coordinate and extent along each index.
    pub fn domain(&self) -> Result<&[(i64, u64)]> {
        Ok(self.access()?.domain())
    }

    fn access(&self) -> Result<HostAccess<'_>> {
        without_position(self.handle.access())
    }

    /// Bytes of an element.
    fn size(&self) -> Result<usize> {
        let (scalar, lanes) = self.parts()?;
        Ok(scalar.bytes() as usize * lanes)
    }

    fn whole<'a>(&self, access: &'a HostAccess<'a>) -> Result<ElementBox<'a>> {
        let help = "ask for those that exist: `active`";
        without_position(ElementBox::whole(access, self.size()?, help))
    }

    /// One element; zero where it is inactive.
    pub fn get(&self, at: &[i64]) -> Result<Slots> {
        let ((scalar, _), access) = (self.parts()?, self.access()?);
        self.has_indices(&access, at, 0)?;
        let read = |bytes: &[u8]| {
            let parts = bytes.chunks_exact(scalar.bytes() as usize);
            parts.map(|b| read_slot(scalar, b)).collect()
        };
        without_position(match access.read(at, 0..self.size()?, read) {
            Ok(Some(value)) => Ok(value),
            Ok(None) => access.load(at),
            Err(error) => Err(error),
        })
    }

    /// Stores a value in one element, and activates it.
    pub fn set(&self, at: &[i64], value: &[u64]) -> Result<()> {
        let (scalar, _) = self.parts()?;
        self.fits(value)?;
        let access = self.access()?;
        self.has_indices(&access, at, 0)?;
        let write = |bytes: &mut [u8]| write_parts(scalar, value, bytes);
        without_position(match access.write(at, 0..self.size()?, write) {
            Ok(true) => Ok(()),
            Ok(false) => access.store(at, value),
            Err(error) => Err(error),
        })
    }

    /// One scalar of an element.
    pub fn get_part(&self, at: &[i64], part: usize) -> Result<u64> {
        self.has_part(part)?;
        // Elements are a few scalars.
        Ok(self.get(at)?.get(part).copied().unwrap_or(0))
    }

    /// Stores a value in one scalar of an element.
    pub fn set_part(&self, at: &[i64], part: usize, value: u64) -> Result<()> {
        let (scalar, _) = self.has_part(part)?;
        let access = self.access()?;
        self.has_indices(&access, at, 0)?;
        let size = scalar.bytes() as usize;
        let write = |bytes: &mut [u8]| write_slot(scalar, value, bytes);
        if without_position(access.write(at, part * size..(part + 1) * size, write))? {
            return Ok(());
        }
        let mut whole = self.get(at)?;
        if let Some(slot) = whole.get_mut(part) {
            *slot = value;
        }
        self.set(at, &whole)
    }

    fn has_part(&self, part: usize) -> Result<(Scalar, usize)> {
        let (scalar, lanes) = self.parts()?;
        if part < lanes {
            return Ok((scalar, lanes));
        }
        let what = format!("an element of type `{}` has no component {part}", self.ty);
        Err(Error::new("W0111", what))
    }

    fn fits(&self, value: &[u64]) -> Result<()> {
        let (_, lanes) = self.parts()?;
        if value.len() == lanes {
            return Ok(());
        }
        let (n, ty) = (value.len(), self.ty);
        Err(Error::new(
            "W0112",
            format!("{n} numbers for an element of type `{ty}`"),
        ))
    }

    /// Stores one value in every active element.
    pub fn fill(&self, value: &[u64]) -> Result<()> {
        let (scalar, _) = self.parts()?;
        self.fits(value)?;
        if without_position(self.handle.fill_later(value))? {
            return Ok(());
        }
        let access = self.access()?;
        if access.address().is_some() {
            let mut pattern: SmallVec<[u8; 64]> = smallvec![0; self.size()?];
            write_parts(scalar, value, &mut pattern);
            if self.whole(&access)?.fill(&pattern)? {
                return Ok(());
            }
        }
        without_position(access.serve(Service::Fill, value, &[]).map(|_| ()))
    }

    /// Number of bytes of all elements, row by row without gaps.
    pub fn bytes(&self) -> Result<u64> {
        Ok(self.whole(&self.access()?)?.bytes())
    }

    /// Reads all elements, row by row, in pieces; inactive ones are zero.
    pub fn read(&self, mut piece: impl FnMut(&[u8])) -> Result<()> {
        let (size, access) = (self.size()?, self.access()?);
        let elements = self.whole(&access)?;
        without_position(elements.read(|bytes, stride| {
            if stride == size {
                return piece(bytes);
            }
            for element in bytes.chunks(stride) {
                piece(&element[..size]);
            }
        }))
    }

    /// Copies all elements to a contiguous array of this shape, where kernels access it; inactive ones are zero.
    pub fn read_to(&self, array: ArrayArg<'_>) -> Result<()> {
        without_position(self.whole(&self.access()?)?.exchange(Way::ToArray, array))
    }

    /// Copies all elements from such an array, and activates them.
    pub fn write_from(&self, array: ArrayArg<'_>) -> Result<()> {
        without_position(self.whole(&self.access()?)?.exchange(Way::FromArray, array))
    }

    /// Writes all elements, row by row, in pieces, and activates them.
    pub fn write(&self, mut piece: impl FnMut(&mut [u8])) -> Result<()> {
        let (size, access) = (self.size()?, self.access()?);
        let elements = self.whole(&access)?;
        without_position(elements.write(|bytes, stride| {
            if stride == size {
                return piece(bytes);
            }
            for element in bytes.chunks_mut(stride) {
                piece(&mut element[..size]);
            }
        }))
    }

    /// Copies the elements of a field of the same type and shape, in any layout and any world. Where it has none, those of this field
    /// become zero; other fields in the same cells keep theirs.
    pub fn copy_from(&self, other: &Field) -> Result<()> {
        let (_, lanes) = self.parts()?;
        let (to, from) = (self.access()?, other.access()?);
        let shape =
            |access: &HostAccess<'_>| -> Vec<u64> { access.domain().iter().map(|d| d.1).collect() };
        if self.ty != other.ty || shape(&to) != shape(&from) {
            let described = |f: &Field, a: &HostAccess<'_>| {
                format!("`{}` is {} {:?}", a.name(), f.ty, shape(a))
            };
            let what = "fields of different types or shapes cannot be copied";
            return Err(Error::new("W0112", what)
                .note(described(self, &to))
                .note(described(other, &from)));
        }
        if self == other {
            return Ok(());
        }
        if from.address().is_none() {
            self.fill(&vec![0; lanes])?;
            return without_position(copy_active(&to, &from, self.size()?));
        }
        if to.address().is_some()
            && without_position(self.whole(&to)?.copy_on_device(&other.whole(&from)?))?
        {
            return Ok(());
        }
        self.copy_through_host(other)
    }

    fn copy_through_host(&self, other: &Field) -> Result<()> {
        let mut buffer = Vec::new();
        if buffer.try_reserve_exact(other.bytes()? as usize).is_err() {
            let what = format!("no memory for a copy of field `{}`", other.name()?);
            return Err(Error::new("W0110", what));
        }
        other.read(|piece| buffer.extend_from_slice(piece))?;
        let mut rest = &buffer[..];
        self.write(|piece| {
            let (now, later) = rest.split_at(piece.len());
            piece.copy_from_slice(now);
            rest = later;
        })
    }

    /// Whether an element exists; those outside do not.
    pub fn is_active(&self, at: &[i64]) -> Result<bool> {
        let access = self.access()?;
        self.has_indices(&access, at, 0)?;
        without_position(access.is_active(at))
    }

    /// Activates an element.
    pub fn activate(&self, at: &[i64]) -> Result<()> {
        let access = self.access()?;
        self.has_indices(&access, at, 0)?;
        without_position(access.activate(at))
    }

    /// Deactivates the cell of an element, with everything in it.
    pub fn deactivate(&self, at: &[i64]) -> Result<()> {
        let access = self.access()?;
        self.has_indices(&access, at, 0)?;
        without_position(access.deactivate(at))
    }

    /// Deactivates all cells of the innermost sparse node above the elements.
    pub fn deactivate_all(&self) -> Result<()> {
        without_position(self.access()?.deactivate_all())
    }

    /// Appends an element to a list, which all indices but its own select. Returns its number, or -1 when the list is full. A view
    /// takes no value.
    pub fn append(&self, at: &[i64], value: &[u64]) -> Result<i32> {
        let access = self.access()?;
        // A view without a value is complete; with one, `fits` reports that it has no elements.
        if !self.is_view() || !value.is_empty() {
            self.fits(value)?;
        }
        self.has_indices(&access, at, 1)?;
        without_position(access.append(at, value))
    }

    /// How many elements a list has.
    pub fn length(&self, at: &[i64]) -> Result<i32> {
        let access = self.access()?;
        self.has_indices(&access, at, 1)?;
        without_position(access.length(at))
    }

    /// How many elements exist.
    pub fn count_active(&self) -> Result<u64> {
        without_position(self.access()?.count())
    }

    /// The coordinates of all elements that exist, row by row: how many, and those of one after the other.
    pub fn active(&self) -> Result<(usize, Vec<i32>)> {
        let access = self.access()?;
        let found = without_position(access.export_cells(access.domain().len(), 0))?;
        Ok((found.rows, Arc::unwrap_or_clone(found.coordinates)))
    }

    /// Whether there is an index for each axis but some.
    fn has_indices(&self, access: &HostAccess<'_>, at: &[i64], but: usize) -> Result<()> {
        let rank = access.domain().len().saturating_sub(but);
        if at.len() == rank {
            return Ok(());
        }
        let (name, n) = (access.name(), at.len());
        let what = format!("`{name}` takes {rank} indices here, not {n}");
        Err(Error::new("W0111", what))
    }
}

fn write_parts(scalar: Scalar, value: &[u64], bytes: &mut [u8]) {
    let parts = bytes.chunks_exact_mut(scalar.bytes() as usize);
    for (bytes, slot) in parts.zip(value) {
        write_slot(scalar, *slot, bytes);
    }
}

/// Copies the active elements of a sparse layout.
fn copy_active(to: &HostAccess<'_>, from: &HostAccess<'_>, size: usize) -> Result<()> {
    let rank = from.domain().len();
    let mut found = from.export_cells(rank, size)?;
    for at in Arc::make_mut(&mut found.coordinates).chunks_exact_mut(rank.max(1)) {
        for ((c, to), from) in at.iter_mut().zip(to.domain()).zip(from.domain()) {
            *c = (i64::from(*c) - from.0 + to.0) as i32;
        }
    }
    let values = Some((&mut found.values[..], size));
    to.import_cells((found.rows, rank), &found.coordinates, values)
}
