//! Typed fields and host access to their elements.
//!
//! Every host access synchronizes: it sees what all launches before it have written.

use crate::axes::{Coordinates, ListCoordinates};
use crate::element::Element;
use crate::host::{self, ElementBox, FieldHandle, HostAccess, pack, unpack, with_value};
use crate::layout::{Tree, TreeInner};
use crate::services::Service;
use crate::world::World;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;
use wuji_ir::Result;
use wuji_ir::entities;

/// A handle to the elements that a layout has placed under one name. Handles are cheap to clone and
/// share the elements. The memory is freed with the last handle to any field of the tree.
///
/// ```
/// use wuji::prelude::*;
/// # fn main() -> wuji::Result<()> {
/// let world = World::interpreter()?;
/// let x = world.field::<i32, 2>("x", [3, 4])?;
/// x.copy_from(&(0..12).collect::<Vec<_>>())?;
/// assert_eq!(x.get([1, 2])?, 6);
/// x.window([0..2, 1..3])?.fill(-1)?;
/// assert_eq!(x.to_vec()?, [0, -1, -1, 3, 4, -1, -1, 7, 8, 9, 10, 11]);
/// assert!(x.get([3, 0]).is_err());
/// # Ok(())
/// # }
/// ```
pub struct Field<T, const D: usize> {
    handle: FieldHandle,
    element: PhantomData<fn() -> T>,
}

impl<T, const D: usize> Clone for Field<T, D> {
    fn clone(&self) -> Field<T, D> {
        Field {
            handle: self.handle.clone(),
            element: PhantomData,
        }
    }
}

/// Whether two handles refer to the same field.
impl<T, const D: usize> PartialEq for Field<T, D> {
    fn eq(&self, other: &Field<T, D>) -> bool {
        self.handle == other.handle
    }
}

impl<T, const D: usize> Eq for Field<T, D> {}

impl<T, const D: usize> fmt::Debug for Field<T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.handle.tree.body() {
            Ok(_) => write!(f, "Field({:?}, rank {D})", self.name()),
            Err(_) => write!(f, "Field(incomplete, rank {D})"),
        }
    }
}

impl<T, const D: usize> Field<T, D> {
    pub(crate) fn new(tree: Arc<TreeInner>, field: entities::Field) -> Field<T, D> {
        Field {
            handle: FieldHandle { tree, field },
            element: PhantomData,
        }
    }

    pub(crate) fn handle(&self) -> &FieldHandle {
        &self.handle
    }

    pub(crate) fn tree_inner(&self) -> &Arc<TreeInner> {
        &self.handle.tree
    }

    pub(crate) fn number(&self) -> entities::Field {
        self.handle.field
    }

    /// The name it was placed under.
    pub fn name(&self) -> &str {
        self.handle.name()
    }

    /// The tree it is placed in.
    pub fn tree(&self) -> Tree {
        self.handle.tree()
    }

    /// The world it lives in.
    pub fn world(&self) -> &World {
        self.handle.world()
    }

    /// How many elements along each index.
    pub fn shape(&self) -> Result<[u64; D]> {
        Ok(self.domain()?.map(|d| d.1))
    }

    /// The smallest coordinate along each index.
    pub fn offset(&self) -> Result<[i64; D]> {
        Ok(self.domain()?.map(|d| d.0))
    }

    /// Number of elements, inactive ones included; at most 2^64 - 1.
    pub fn len(&self) -> Result<u64> {
        let shape = self.shape()?;
        Ok(shape.iter().fold(1, |n, e| n.saturating_mul(*e)))
    }

    /// Never: every extent of a layout is at least 1. Here because `len` is.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Smallest coordinate and extent along each index.
    pub(crate) fn domain(&self) -> Result<[(i64, u64); D]> {
        self.handle.domain_of_rank()
    }

    /// Whether all elements always exist.
    pub(crate) fn is_dense(&self) -> Result<bool> {
        self.handle.is_dense()
    }

    #[track_caller]
    fn access(&self) -> Result<HostAccess<'_>> {
        self.handle.access()
    }
}

/// What to do instead of listing the elements of an unbounded field.
const UNBOUNDED: &str = "take a `window` of it, or those that exist: `export`, `iter`";

impl<T: Element, const D: usize> Field<T, D> {
    /// One element; zero where it is inactive.
    #[track_caller]
    pub fn get(&self, at: impl Coordinates<D>) -> Result<T> {
        let (access, at) = (self.access()?, at.coordinates());
        match access.read(&at, 0..T::SIZE, T::read)? {
            Some(value) => Ok(value),
            None => Ok(T::from_slots(&access.load(&at)?)),
        }
    }

    /// Stores a value in one element, and activates it.
    #[track_caller]
    pub fn set(&self, at: impl Coordinates<D>, value: T) -> Result<()> {
        let (access, at) = (self.access()?, at.coordinates());
        if access.write(&at, 0..T::SIZE, |bytes| value.write(bytes))? {
            return Ok(());
        }
        access.store(&at, &with_value(Vec::new(), value))
    }

    /// All elements, row by row; inactive ones are zero.
    #[track_caller]
    pub fn to_vec(&self) -> Result<Vec<T>> {
        let access = self.access()?;
        read_all(&access, &ElementBox::whole(&access, T::SIZE, UNBOUNDED)?)
    }

    /// Stores one value in every active element.
    #[track_caller]
    pub fn fill(&self, value: T) -> Result<()> {
        if self.handle.fill_later(&with_value(Vec::new(), value))? {
            return Ok(());
        }
        let access = self.access()?;
        if access.address().is_none() {
            let params = with_value(Vec::new(), value);
            return access.serve(Service::Fill, &params, &[]).map(|_| ());
        }
        fill_all(&ElementBox::whole(&access, T::SIZE, UNBOUNDED)?, value)
    }

    /// Copies all elements from a slice, row by row, and activates them.
    #[track_caller]
    pub fn copy_from(&self, values: &[T]) -> Result<()> {
        let access = self.access()?;
        let whole = ElementBox::whole(&access, T::SIZE, UNBOUNDED)?;
        write_all(&access, &whole, values)
    }

    /// Copies all elements of a field of the same shape without the host, if both are dense and on the same GPU. Returns whether
    /// it did.
    #[track_caller]
    pub(crate) fn copy_on_device(&self, other: &Field<T, D>) -> Result<bool> {
        let (access, its) = (self.access()?, other.access()?);
        if !access.body.memory.is_on_device() || !self.is_dense()? || !other.is_dense()? {
            return Ok(false);
        }
        let to = ElementBox::whole(&access, T::SIZE, UNBOUNDED)?;
        to.copy_on_device(&ElementBox::whole(&its, T::SIZE, UNBOUNDED)?)
    }

    /// All elements that exist with their coordinates, row by row, as they are now.
    #[track_caller]
    pub fn iter(&self) -> Result<impl Iterator<Item = ([i64; D], T)> + use<T, D>> {
        if !self.is_dense()? {
            let (coordinates, values) = self.export()?;
            let coordinates = coordinates.into_iter().map(|c| c.map(i64::from));
            return Ok(Either::Sparse(coordinates.zip(values)));
        }
        let domain = self.domain()?;
        let values = self.to_vec()?;
        let elements = values.into_iter().enumerate().map(move |(n, value)| {
            let mut n = n as u64;
            let mut at = [0; D];
            for k in (0..D).rev() {
                let (from, extent) = domain[k];
                at[k] = from + (n % extent) as i64;
                n /= extent;
            }
            (at, value)
        });
        Ok(Either::Dense(elements))
    }

    /// The elements whose coordinates are in the given range on each index.
    #[track_caller]
    pub fn window(&self, ranges: [Range<i64>; D]) -> Result<Window<T, D>> {
        let mut window = host::Window::new();
        for ((from, extent), range) in self.domain()?.iter().zip(&ranges) {
            let past = from + *extent as i64;
            if range.start > range.end || range.start < *from || range.end > past {
                let wanted: Vec<String> = ranges.iter().map(|r| format!("{r:?}")).collect();
                let mut error = self.access()?.outside(&[]);
                error.message = format!(
                    "field `{}` has no window [{}]",
                    self.name(),
                    wanted.join(", ")
                );
                return Err(error);
            }
            window.push(((range.start - from) as u64, (range.end - from) as u64));
        }
        Ok(Window {
            field: self.clone(),
            window,
        })
    }
}

/// Activation. In a layout of dense nodes all elements are always active.
impl<T: Element, const D: usize> Field<T, D> {
    /// Whether an element exists; those outside do not.
    #[track_caller]
    pub fn is_active(&self, at: impl Coordinates<D>) -> Result<bool> {
        self.access()?.is_active(&at.coordinates())
    }

    /// Activates an element, as writing to it does.
    #[track_caller]
    pub fn activate(&self, at: impl Coordinates<D>) -> Result<()> {
        self.access()?.activate(&at.coordinates())
    }

    /// Deactivates the cell of an element, with everything in it; of a list, all of its cells.
    #[track_caller]
    pub fn deactivate(&self, at: impl Coordinates<D>) -> Result<()> {
        self.access()?.deactivate(&at.coordinates())
    }

    /// Deactivates all cells of the innermost sparse node above the elements, with everything in them.
    #[track_caller]
    pub fn deactivate_all(&self) -> Result<()> {
        self.access()?.deactivate_all()
    }

    /// Adds an element at the end of a list; gives its number. The list is named by all indices but
    /// its own.
    #[track_caller]
    pub fn append(&self, list: impl ListCoordinates<D>, value: T) -> Result<i32> {
        let value = with_value(Vec::new(), value);
        self.access()?.append(&list.coordinates(), &value)
    }

    /// How many elements a list has.
    #[track_caller]
    pub fn length(&self, list: impl ListCoordinates<D>) -> Result<i32> {
        self.access()?.length(&list.coordinates())
    }

    /// How many elements exist.
    #[track_caller]
    pub fn count_active(&self) -> Result<u64> {
        self.access()?.count()
    }

    /// The coordinates of all elements that exist, row by row.
    #[track_caller]
    pub fn active(&self) -> Result<Vec<[i32; D]>> {
        Ok(self.access()?.export(0)?.0)
    }

    /// The coordinates and values of all elements that exist, row by row.
    #[track_caller]
    pub fn export(&self) -> Result<(Vec<[i32; D]>, Vec<T>)> {
        let (coordinates, values) = self.access()?.export(T::SIZE)?;
        let values = unpack(&values, coordinates.len());
        Ok((coordinates, values))
    }

    /// Stores values in elements, and activates them. Of several values for one element, any is kept.
    #[track_caller]
    pub fn import(&self, coordinates: &[[i32; D]], values: &[T]) -> Result<()> {
        let access = self.access()?;
        if coordinates.len() != values.len() {
            let (n, m, name) = (values.len(), coordinates.len(), access.name());
            return Err(access
                .fail(
                    "W0112",
                    format!("{n} values for {m} elements of field `{name}`"),
                )
                .help("give one value for each element"));
        }
        let mut buffer = access.buffer(values.len() as u64, T::SIZE as u64)?;
        pack(values, &mut buffer);
        access.import(coordinates, Some((&mut buffer, T::SIZE)))
    }
}

/// One of two iterators over the same items.
enum Either<A, B> {
    Dense(A),
    Sparse(B),
}

impl<T, A: Iterator<Item = T>, B: Iterator<Item = T>> Iterator for Either<A, B> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        match self {
            Either::Dense(a) => a.next(),
            Either::Sparse(b) => b.next(),
        }
    }
}

/// A box of elements of a field.
#[derive(Clone, Debug)]
pub struct Window<T, const D: usize> {
    field: Field<T, D>,
    window: host::Window,
}

impl<T: Element, const D: usize> Window<T, D> {
    /// How many elements along each index.
    pub fn shape(&self) -> [u64; D] {
        std::array::from_fn(|k| self.window[k].1 - self.window[k].0)
    }

    fn elements<'a>(&self, access: &'a HostAccess<'a>) -> ElementBox<'a> {
        ElementBox::new(access, self.window.clone(), T::SIZE)
    }

    /// The elements, row by row; inactive ones are zero.
    #[track_caller]
    pub fn to_vec(&self) -> Result<Vec<T>> {
        let access = self.field.access()?;
        read_all(&access, &self.elements(&access))
    }

    /// Stores one value in every element, and activates them.
    #[track_caller]
    pub fn fill(&self, value: T) -> Result<()> {
        let access = self.field.access()?;
        fill_all(&self.elements(&access), value)
    }

    /// Copies the elements from a slice, row by row, and activates them.
    #[track_caller]
    pub fn copy_from(&self, values: &[T]) -> Result<()> {
        let access = self.field.access()?;
        write_all(&access, &self.elements(&access), values)
    }
}

fn read_all<T: Element>(access: &HostAccess<'_>, elements: &ElementBox<'_>) -> Result<Vec<T>> {
    let count = elements.count();
    let mut out = Vec::new();
    if out.try_reserve_exact(count as usize).is_err() {
        return Err(access.fail("W0110", format!("no memory for a copy of {count} elements")));
    }
    elements.read(|bytes, stride| {
        if stride == T::SIZE {
            out.extend(bytes.chunks_exact(T::SIZE).map(T::read));
        } else {
            out.extend(bytes.chunks(stride).map(T::read));
        }
    })?;
    Ok(out)
}

fn fill_all<T: Element>(elements: &ElementBox<'_>, value: T) -> Result<()> {
    let mut pattern = vec![0; T::SIZE];
    value.write(&mut pattern);
    if elements.fill(&pattern)? {
        return Ok(());
    }
    elements.fill_by_kernel(&with_value(Vec::new(), value))
}

fn write_all<T: Element>(
    access: &HostAccess<'_>,
    elements: &ElementBox<'_>,
    values: &[T],
) -> Result<()> {
    let count = elements.count();
    if values.len() as u64 != count {
        let (name, n) = (access.name(), values.len());
        let what = format!("{n} values for {count} elements of field `{name}`");
        return Err(access
            .fail("W0112", what)
            .help("give one value for each element, row by row"));
    }
    let mut values = values.iter();
    elements.write(|bytes, stride| {
        if stride == T::SIZE {
            let elements = bytes.chunks_exact_mut(T::SIZE);
            elements.zip(&mut values).for_each(|(b, v)| v.write(b));
        } else {
            let elements = bytes.chunks_mut(stride);
            elements.zip(&mut values).for_each(|(b, v)| v.write(b));
        }
    })
}
