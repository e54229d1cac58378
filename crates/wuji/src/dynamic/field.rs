//! Fields by number.

use crate::ask::{Ask, words};
use crate::dense::{Elements, Side, copy_on_device};
use crate::dynamic::{read_slot, write_slot};
use crate::layout::{Tree, TreeInner};
use crate::services::Service;
use crate::world::World;
use smallvec::{SmallVec, smallvec};
use std::fmt;
use std::sync::Arc;
use wuji_ir::entities;
use wuji_ir::types::{Scalar, Structs, Type};
use wuji_ir::{Error, Result};
use wuji_runtime::address::Address;
use wuji_runtime::array::ArrayArg;
use wuji_runtime::memory::Way;

/// A handle to the elements, or the cells, that a layout has placed under one number.
#[derive(Clone)]
pub struct Field {
    tree: Arc<TreeInner>,
    field: entities::Field,
    /// Of a scalar, vector or matrix; a view has none.
    elem: Option<(Scalar, u32)>,
    ty: Type,
}

/// The scalars of an element.
pub type Slots = SmallVec<[u64; 4]>;

/// Errors of a face have its positions, not those of its implementation.
fn anywhere<T>(result: Result<T>) -> Result<T> {
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
        Arc::ptr_eq(&self.tree, &other.tree) && self.field == other.field
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
            tree: tree.inner.clone(),
            field: entities::Field::from_u32(number),
            elem: ty.elem().zip(ty.lanes()),
            ty,
        })
    }

    /// The tree it is placed in.
    pub fn tree(&self) -> Tree {
        Tree {
            inner: self.tree.clone(),
        }
    }

    /// The world it lives in.
    pub fn world(&self) -> &World {
        &self.tree.world
    }

    /// Its number in the tree.
    pub fn number(&self) -> u32 {
        self.field.as_u32()
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
        Ok(self.ask()?.name())
    }

    /// Smallest coordinate and extent along each index.
    pub fn domain(&self) -> Result<&[(i64, u64)]> {
        Ok(self.ask()?.domain())
    }

    fn ask(&self) -> Result<Ask<'_>> {
        anywhere(Ask::new(&self.tree, self.field))
    }

    /// How elements are found; `None` where some node is sparse.
    fn address<'a>(&self, ask: &Ask<'a>) -> Option<&'a Address> {
        ask.body.addresses.get(self.field.as_u32() as usize)
    }

    fn inside(&self, ask: &Ask<'_>, at: &[i64]) -> Result<()> {
        let rank = ask.domain().len();
        if at.len() != rank {
            let (name, n) = (ask.name(), at.len());
            let what = format!("field `{name}` has {rank} indices, not {n}");
            return Err(Error::new("W0111", what));
        }
        anywhere(ask.inside(at))
    }

    /// One element; zero where it does not exist.
    pub fn get(&self, at: &[i64]) -> Result<Slots> {
        let (scalar, lanes) = self.parts()?;
        let ask = self.ask()?;
        self.inside(&ask, at)?;
        let Some(address) = self.address(&ask) else {
            return anywhere(ask.slots(Service::Get, &words(at), &[]));
        };
        let (offset, size) = (address.offset(at.iter().copied()), scalar.bytes() as usize);
        let mut guard = ask.body.memory.lock();
        guard.fetch(offset..offset + size * lanes)?;
        let bytes = &guard.bytes()[offset..offset + size * lanes];
        let parts = bytes.chunks_exact(size);
        Ok(parts.map(|b| read_slot(scalar, b)).collect())
    }

    /// Puts a value into one element, which comes into being where it did not exist.
    pub fn set(&self, at: &[i64], value: &[u64]) -> Result<()> {
        let (scalar, _) = self.parts()?;
        self.fits(value)?;
        let ask = self.ask()?;
        self.inside(&ask, at)?;
        let Some(address) = self.address(&ask) else {
            let mut params = words(at);
            params.extend(value);
            return anywhere(ask.serve(Service::Set, &params, &[]).map(|_| ()));
        };
        let (offset, size) = (address.offset(at.iter().copied()), scalar.bytes() as usize);
        let mut guard = ask.body.memory.lock();
        let bytes = &mut guard.bytes_mut()[offset..offset + size * value.len()];
        write_parts(scalar, value, bytes);
        guard.send(offset..offset + size * value.len())
    }

    /// One scalar of an element.
    pub fn get_part(&self, at: &[i64], part: usize) -> Result<u64> {
        self.has_part(part)?;
        // Elements are a few scalars.
        Ok(self.get(at)?.get(part).copied().unwrap_or(0))
    }

    /// Puts a value into one scalar of an element.
    pub fn set_part(&self, at: &[i64], part: usize, value: u64) -> Result<()> {
        let (scalar, _) = self.has_part(part)?;
        let ask = self.ask()?;
        self.inside(&ask, at)?;
        let Some(address) = self.address(&ask) else {
            let mut whole = self.get(at)?;
            if let Some(slot) = whole.get_mut(part) {
                *slot = value;
            }
            return self.set(at, &whole);
        };
        let size = scalar.bytes() as usize;
        let offset = address.offset(at.iter().copied()) + part * size;
        let mut guard = ask.body.memory.lock();
        write_slot(scalar, value, &mut guard.bytes_mut()[offset..offset + size]);
        guard.send(offset..offset + size)
    }

    fn has_part(&self, part: usize) -> Result<(Scalar, usize)> {
        let (scalar, lanes) = self.parts()?;
        match part < lanes {
            true => Ok((scalar, lanes)),
            false => Err(Error::new(
                "W0111",
                format!("an element of type `{}` has no component {part}", self.ty),
            )),
        }
    }

    fn fits(&self, value: &[u64]) -> Result<()> {
        let (_, lanes) = self.parts()?;
        match value.len() == lanes {
            true => Ok(()),
            false => Err(Error::new(
                "W0112",
                format!(
                    "{} numbers for an element of type `{}`",
                    value.len(),
                    self.ty
                ),
            )),
        }
    }

    /// Puts one value into every element that exists.
    pub fn fill(&self, value: &[u64]) -> Result<()> {
        let (scalar, lanes) = self.parts()?;
        self.fits(value)?;
        let ask = self.ask()?;
        if let Some(address) = self.address(&ask) {
            let mut pattern: SmallVec<[u8; 64]> = smallvec![0; scalar.bytes() as usize * lanes];
            write_parts(scalar, value, &mut pattern);
            let elements = Elements {
                address,
                window: &whole(&ask),
                size: pattern.len(),
            };
            if elements.fill(&ask.body.memory, &pattern)? {
                return Ok(());
            }
        }
        anywhere(ask.serve(Service::Fill, value, &[]).map(|_| ()))
    }

    /// How many bytes all elements take, row by row.
    pub fn bytes(&self) -> Result<u64> {
        let (scalar, lanes) = self.parts()?;
        let ask = self.ask()?;
        bounded(&ask)?;
        let size = u64::from(scalar.bytes()) * lanes as u64;
        let count = ask.domain().iter();
        Ok(count.fold(size, |n, d| n.saturating_mul(d.1)))
    }

    /// All elements, row by row, in pieces; those that do not exist are zero.
    pub fn read(&self, mut piece: impl FnMut(&[u8])) -> Result<()> {
        let (scalar, lanes) = self.parts()?;
        let ask = self.ask()?;
        bounded(&ask)?;
        let size = scalar.bytes() as usize * lanes;
        let Some(address) = self.address(&ask) else {
            let count = self.bytes()? / size as u64;
            let mut buffer = anywhere(ask.buffer(count, size as u64))?;
            let array = ArrayArg::opaque(&mut buffer, size, &extents(&ask), true)?;
            anywhere(ask.serve(Service::ReadBox, &corners(&ask), &[array]))?;
            let mut left = count as usize * size;
            for word in buffer {
                let n = left.min(8);
                piece(&word.to_ne_bytes()[..n]);
                left -= n;
            }
            return Ok(());
        };
        let mut guard = ask.body.memory.lock();
        guard.fetch(address.span(&whole(&ask), size))?;
        let bytes = guard.bytes();
        address.runs(&whole(&ask), |run| {
            let bytes = &bytes[run.bytes(size)];
            if run.stride == size {
                return piece(bytes);
            }
            for element in bytes.chunks(run.stride.max(size)) {
                piece(&element[..size]);
            }
        });
        Ok(())
    }

    /// All elements to an array of this shape that lies where kernels find it, row by row without gaps; those that do not exist are zero.
    pub fn read_to(&self, array: ArrayArg<'_>) -> Result<()> {
        self.exchange(Way::ToArray, array)
    }

    /// Takes all elements from such an array. In a sparse layout all of them come into being.
    pub fn write_from(&self, array: ArrayArg<'_>) -> Result<()> {
        self.exchange(Way::FromArray, array)
    }

    fn exchange(&self, way: Way, array: ArrayArg<'_>) -> Result<()> {
        let (scalar, lanes) = self.parts()?;
        let ask = self.ask()?;
        bounded(&ask)?;
        let own = extents(&ask);
        let same = array
            .extents()
            .iter()
            .map(|e| *e as usize)
            .eq(own.iter().copied());
        if !same || !array.is_contiguous() {
            let what = format!("field `{}` and an array have different shapes", ask.name());
            let its = array.extents();
            return Err(Error::new("W0112", what).note(format!("{own:?} and {its:?}")));
        }
        if let Some(address) = self.address(&ask) {
            let elements = Elements {
                address,
                window: &whole(&ask),
                size: scalar.bytes() as usize * lanes,
            };
            let memory = &ask.body.memory;
            if elements.are_in_rows() && memory.exchange(elements.span(), &array, way)? {
                return Ok(());
            }
        }
        let service = match way {
            Way::ToArray => Service::ReadBox,
            Way::FromArray => Service::WriteBox,
        };
        anywhere(ask.serve(service, &corners(&ask), &[array]).map(|_| ()))
    }

    /// Takes all elements, row by row, in pieces. In a sparse layout all of them come into being.
    pub fn write(&self, mut piece: impl FnMut(&mut [u8])) -> Result<()> {
        let (scalar, lanes) = self.parts()?;
        let ask = self.ask()?;
        bounded(&ask)?;
        let size = scalar.bytes() as usize * lanes;
        let Some(address) = self.address(&ask) else {
            let count = self.bytes()? / size as u64;
            let mut buffer = anywhere(ask.buffer(count, size as u64))?;
            let mut left = count as usize * size;
            for word in &mut buffer {
                let mut own = [0; 8];
                let n = left.min(8);
                piece(&mut own[..n]);
                *word = u64::from_ne_bytes(own);
                left -= n;
            }
            let array = ArrayArg::opaque(&mut buffer, size, &extents(&ask), false)?;
            return anywhere(
                ask.serve(Service::WriteBox, &corners(&ask), &[array])
                    .map(|_| ()),
            );
        };
        let window = whole(&ask);
        let elements = Elements {
            address,
            window: &window,
            size,
        };
        let mut guard = ask.body.memory.lock();
        let span = elements.span();
        // What lies between the elements stays.
        if !elements.cover_their_span() {
            guard.fetch(span.clone())?;
        }
        let bytes = guard.bytes_mut();
        address.runs(&window, |run| {
            let bytes = &mut bytes[run.bytes(size)];
            if run.stride == size {
                return piece(bytes);
            }
            for element in bytes.chunks_mut(run.stride.max(size)) {
                piece(&mut element[..size]);
            }
        });
        guard.send(span)
    }

    /// Takes the elements that exist from another field of the same type and shape, however it is laid out, and in
    /// whichever world.
    pub fn copy_from(&self, other: &Field) -> Result<()> {
        let (scalar, lanes) = self.parts()?;
        let (to, from) = (self.ask()?, other.ask()?);
        let shape = |ask: &Ask<'_>| ask.domain().iter().map(|d| d.1).collect::<Vec<u64>>();
        if self.ty != other.ty || shape(&to) != shape(&from) {
            let told =
                |f: &Field, a: &Ask<'_>| format!("`{}` is {} {:?}", a.name(), f.ty, shape(a));
            return Err(Error::new(
                "W0112",
                "fields of different types or shapes cannot be copied",
            )
            .note(told(self, &to))
            .note(told(other, &from)));
        }
        if self == other {
            return Ok(());
        }
        let size = scalar.bytes() as usize * lanes;
        if other.address(&from).is_none() {
            let rank = from.domain().len();
            let mut found = anywhere(from.export_rows(rank, size))?;
            for at in found.coordinates.chunks_exact_mut(rank.max(1)) {
                for ((c, to), from) in at.iter_mut().zip(to.domain()).zip(from.domain()) {
                    *c = (i64::from(*c) - from.0 + to.0) as i32;
                }
            }
            let rows = (found.rows, rank);
            let values = Some((&mut found.values[..], size));
            return anywhere(to.import_rows(rows, &found.coordinates, values));
        }
        let (window, its) = (whole(&to), whole(&from));
        if let (Some(to), Some(from)) = (
            side(self.address(&to), &to, &window, size),
            side(other.address(&from), &from, &its, size),
        ) && anywhere(copy_on_device(&to, &from))?
        {
            return Ok(());
        }
        let mut buffer = Vec::new();
        if buffer.try_reserve_exact(other.bytes()? as usize).is_err() {
            let what = format!("no memory for a copy of field `{}`", from.name());
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
        let ask = self.ask()?;
        self.has_indices(&ask, at, 0)?;
        anywhere(ask.is_active(at))
    }

    /// Brings an element about.
    pub fn activate(&self, at: &[i64]) -> Result<()> {
        let ask = self.ask()?;
        self.has_indices(&ask, at, 0)?;
        anywhere(ask.activate(at))
    }

    /// Deactivates the cell of an element, with everything in it.
    pub fn deactivate(&self, at: &[i64]) -> Result<()> {
        let ask = self.ask()?;
        self.has_indices(&ask, at, 0)?;
        anywhere(ask.deactivate(at))
    }

    /// Deactivates all cells of the innermost sparse node above the elements.
    pub fn deactivate_all(&self) -> Result<()> {
        anywhere(self.ask()?.deactivate_all())
    }

    /// Adds an element at the end of a list, which is named by all indices but its own; gives its number, or -1 when the list is
    /// full. Of a view there is no value.
    pub fn append(&self, at: &[i64], value: &[u64]) -> Result<i32> {
        let ask = self.ask()?;
        match self.is_view() {
            false => self.fits(value)?,
            true if value.is_empty() => {}
            true => {
                self.parts()?;
            }
        }
        self.has_indices(&ask, at, 1)?;
        anywhere(ask.append(at, value))
    }

    /// How many elements a list has.
    pub fn length(&self, at: &[i64]) -> Result<i32> {
        let ask = self.ask()?;
        self.has_indices(&ask, at, 1)?;
        anywhere(ask.length(at))
    }

    /// How many elements exist.
    pub fn count_active(&self) -> Result<u64> {
        anywhere(self.ask()?.count())
    }

    /// The coordinates of all elements that exist, row by row: how many, and those of one after the other.
    pub fn active(&self) -> Result<(usize, Vec<i32>)> {
        let ask = self.ask()?;
        let found = anywhere(ask.export_rows(ask.domain().len(), 0))?;
        Ok((found.rows, found.coordinates))
    }

    /// Whether there is an index for each axis but some.
    fn has_indices(&self, ask: &Ask<'_>, at: &[i64], but: usize) -> Result<()> {
        let rank = ask.domain().len().saturating_sub(but);
        match at.len() == rank {
            true => Ok(()),
            false => Err(Error::new(
                "W0111",
                format!(
                    "`{}` takes {rank} indices here, not {}",
                    ask.name(),
                    at.len()
                ),
            )),
        }
    }
}

fn write_parts(scalar: Scalar, value: &[u64], bytes: &mut [u8]) {
    let parts = bytes.chunks_exact_mut(scalar.bytes() as usize);
    for (bytes, slot) in parts.zip(value) {
        write_slot(scalar, *slot, bytes);
    }
}

fn bounded(ask: &Ask<'_>) -> Result<()> {
    match ask.is_unbounded() {
        false => Ok(()),
        true => Err(Error::new(
            "W0129",
            format!(
                "field `{}` has no bounds, so its elements cannot be listed row by row",
                ask.name()
            ),
        )
        .help("ask for those that exist: `active`")),
    }
}

/// All of a field, counted from its first element.
fn whole(ask: &Ask<'_>) -> SmallVec<[(u64, u64); 4]> {
    ask.domain().iter().map(|d| (0, d.1)).collect()
}

/// All elements as one side of a copy; `None` where some node is sparse.
fn side<'a>(
    address: Option<&'a Address>,
    ask: &'a Ask<'a>,
    window: &'a [(u64, u64)],
    size: usize,
) -> Option<Side<'a>> {
    Some(Side {
        ask,
        elements: Elements {
            address: address?,
            window,
            size,
        },
        corners: corners(ask),
        extents: extents(ask),
    })
}

/// Where its elements begin and end, as services take it.
fn corners(ask: &Ask<'_>) -> Vec<u64> {
    let low = ask.domain().iter().map(|d| d.0 as u64);
    let high = ask.domain().iter().map(|d| (d.0 as u64).wrapping_add(d.1));
    low.chain(high).collect()
}

fn extents(ask: &Ask<'_>) -> Vec<usize> {
    match ask.domain() {
        [] => vec![1],
        domain => domain.iter().map(|d| d.1 as usize).collect(),
    }
}
