//! Fields, and how the host reaches their elements.
//!
//! Every access waits for the launches before it, so the host always sees what kernels have left.

use crate::ask::{Ask, pack, unpack, with_value};
use crate::axes::{Coordinates, ListCoordinates};
use crate::dense::{Elements, Side, copy_on_device};
use crate::element::Element;
use crate::layout::{Tree, TreeBody, TreeInner};
use crate::services::Service;
use crate::world::World;
use smallvec::SmallVec;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;
use wuji_ir::Result;
use wuji_ir::entities;
use wuji_runtime::address::Address;
use wuji_runtime::array::ArrayArg;

/// A handle to the elements that a layout has placed under one name. Handles are cheap to clone and
/// all mean the same elements; the memory goes with the last handle to any field of the tree.
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
    tree: Arc<TreeInner>,
    /// Its number within the tree.
    field: entities::Field,
    element: PhantomData<fn() -> T>,
}

impl<T, const D: usize> Clone for Field<T, D> {
    fn clone(&self) -> Field<T, D> {
        Field {
            tree: self.tree.clone(),
            field: self.field,
            element: PhantomData,
        }
    }
}

/// Whether two handles mean the same field.
impl<T, const D: usize> PartialEq for Field<T, D> {
    fn eq(&self, other: &Field<T, D>) -> bool {
        Arc::ptr_eq(&self.tree, &other.tree) && self.field == other.field
    }
}

impl<T, const D: usize> Eq for Field<T, D> {}

impl<T, const D: usize> fmt::Debug for Field<T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tree.body() {
            Ok(body) => write!(f, "Field({:?}, rank {D})", self.name_in(body)),
            Err(_) => write!(f, "Field(incomplete, rank {D})"),
        }
    }
}

impl<T, const D: usize> Field<T, D> {
    pub(crate) fn new(tree: Arc<TreeInner>, field: entities::Field) -> Field<T, D> {
        Field {
            tree,
            field,
            element: PhantomData,
        }
    }

    pub(crate) fn tree_inner(&self) -> &Arc<TreeInner> {
        &self.tree
    }

    pub(crate) fn number(&self) -> entities::Field {
        self.field
    }

    fn place(&self) -> usize {
        self.field.as_u32() as usize
    }

    fn name_in<'a>(&self, body: &'a TreeBody) -> &'a str {
        body.names.get(self.place()).map_or("", String::as_str)
    }

    /// The name it was placed under.
    pub fn name(&self) -> &str {
        self.tree.body().map_or("", |body| self.name_in(body))
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

    /// How many elements along each index.
    pub fn shape(&self) -> Result<[u64; D]> {
        Ok(self.domain(self.tree.body()?).map(|d| d.1))
    }

    /// The smallest coordinate along each index.
    pub fn offset(&self) -> Result<[i64; D]> {
        Ok(self.domain(self.tree.body()?).map(|d| d.0))
    }

    /// How many elements in all, those that do not exist in a sparse layout included; at most 2^64 - 1.
    pub fn len(&self) -> Result<u64> {
        let shape = self.shape()?;
        Ok(shape.iter().fold(1, |n, e| n.saturating_mul(*e)))
    }

    /// Never: every extent of a layout is at least 1. Here because `len` is.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Smallest coordinate and extent along each index.
    fn domain(&self, body: &TreeBody) -> [(i64, u64); D] {
        let domain = &body.domains[self.place()];
        std::array::from_fn(|k| domain.get(k).copied().unwrap_or((0, 1)))
    }

    pub(crate) fn domain_of(&self) -> Result<[(i64, u64); D]> {
        Ok(self.domain(self.tree.body()?))
    }

    /// Whether all elements exist always.
    pub(crate) fn is_dense(&self) -> Result<bool> {
        Ok(self.address(self.tree.body()?).is_some())
    }

    /// How elements are found; `None` where some node is sparse, and only kernels find them.
    fn address<'a>(&self, body: &'a TreeBody) -> Option<&'a Address> {
        body.addresses.get(self.place())
    }

    #[track_caller]
    fn ask(&self) -> Result<Ask<'_>> {
        Ask::new(&self.tree, self.field)
    }
}

impl<T: Element, const D: usize> Field<T, D> {
    /// One element; zero where it does not exist.
    #[track_caller]
    pub fn get(&self, at: impl Coordinates<D>) -> Result<T> {
        let (ask, at) = (self.ask()?, at.coordinates());
        let Some(address) = self.address(ask.body) else {
            return ask.get(&at);
        };
        ask.inside(&at)?;
        let offset = address.offset(at);
        let mut guard = ask.body.memory.lock();
        guard.fetch(offset..offset + T::SIZE)?;
        Ok(T::read(&guard.bytes()[offset..offset + T::SIZE]))
    }

    /// Puts a value into one element, which comes into being where it did not exist.
    #[track_caller]
    pub fn set(&self, at: impl Coordinates<D>, value: T) -> Result<()> {
        let (ask, at) = (self.ask()?, at.coordinates());
        let Some(address) = self.address(ask.body) else {
            return ask.set(&at, value);
        };
        ask.inside(&at)?;
        let offset = address.offset(at);
        let mut guard = ask.body.memory.lock();
        value.write(&mut guard.bytes_mut()[offset..offset + T::SIZE]);
        guard.send(offset..offset + T::SIZE)
    }

    /// All elements, row by row; those that do not exist are zero.
    #[track_caller]
    pub fn to_vec(&self) -> Result<Vec<T>> {
        self.all()?.to_vec()
    }

    /// Puts one value into every element that exists.
    #[track_caller]
    pub fn fill(&self, value: T) -> Result<()> {
        let ask = self.ask()?;
        if self.address(ask.body).is_none() {
            let params = with_value(Vec::new(), value);
            return ask.serve(Service::Fill, &params, &[]).map(|_| ());
        }
        self.all()?.fill(value)
    }

    /// Takes all elements from a slice, row by row. In a sparse layout all of them come into being.
    #[track_caller]
    pub fn copy_from(&self, values: &[T]) -> Result<()> {
        self.all()?.copy_from(values)
    }

    /// Takes all elements of another field of the same shape without the host, if both are dense and on the same GPU. Gives whether that
    /// is done.
    #[track_caller]
    pub(crate) fn copy_on_device(&self, other: &Field<T, D>) -> Result<bool> {
        let (asked, its) = (self.ask()?, other.ask()?);
        if !asked.body.memory.is_on_device() || !self.is_dense()? || !other.is_dense()? {
            return Ok(false);
        }
        let (to, from) = (self.all()?, other.all()?);
        match (to.side(&asked), from.side(&its)) {
            (Some(to), Some(from)) => copy_on_device(&to, &from),
            _ => Ok(false),
        }
    }

    /// All elements that exist with their coordinates, row by row, as they are now.
    #[track_caller]
    pub fn iter(&self) -> Result<impl Iterator<Item = ([i64; D], T)> + use<T, D>> {
        let body = self.tree.body()?;
        if self.address(body).is_none() {
            let (coordinates, values) = self.export()?;
            let coordinates = coordinates.into_iter().map(|c| c.map(i64::from));
            return Ok(Either::Sparse(coordinates.zip(values)));
        }
        let domain = self.domain(body);
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
        let body = self.tree.body()?;
        let mut window = SmallVec::new();
        for ((from, extent), range) in self.domain(body).iter().zip(&ranges) {
            let past = from + *extent as i64;
            if range.start > range.end || range.start < *from || range.end > past {
                let wanted: Vec<String> = ranges.iter().map(|r| format!("{r:?}")).collect();
                let mut error = self.ask()?.outside(&[]);
                error.message = format!(
                    "field `{}` has no window [{}]",
                    self.name_in(body),
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

    #[track_caller]
    fn all(&self) -> Result<Window<T, D>> {
        let ask = self.ask()?;
        if ask.is_unbounded() {
            let name = ask.name();
            return Err(ask
                .fail(
                    "W0129",
                    format!(
                        "field `{name}` has no bounds, so its elements cannot be listed row by row"
                    ),
                )
                .help("take a `window` of it, or those that exist: `export`, `iter`"));
        }
        let domain = self.domain(ask.body);
        Ok(Window {
            field: self.clone(),
            window: domain.iter().map(|d| (0, d.1)).collect(),
        })
    }
}

/// Whether elements exist, and what brings them about and makes them go. In a layout of dense nodes all of
/// them exist always.
impl<T: Element, const D: usize> Field<T, D> {
    /// Whether an element exists; those outside do not.
    #[track_caller]
    pub fn is_active(&self, at: impl Coordinates<D>) -> Result<bool> {
        self.ask()?.is_active(&at.coordinates())
    }

    /// Brings an element about, as writing to it does.
    #[track_caller]
    pub fn activate(&self, at: impl Coordinates<D>) -> Result<()> {
        self.ask()?.activate(&at.coordinates())
    }

    /// Deactivates the cell of an element, with everything in it; of a list, all of its cells.
    #[track_caller]
    pub fn deactivate(&self, at: impl Coordinates<D>) -> Result<()> {
        self.ask()?.deactivate(&at.coordinates())
    }

    /// Deactivates all cells of the innermost sparse node above the elements, with everything in them.
    #[track_caller]
    pub fn deactivate_all(&self) -> Result<()> {
        self.ask()?.deactivate_all()
    }

    /// Adds an element at the end of a list; gives its number. The list is named by all indices but
    /// its own.
    #[track_caller]
    pub fn append(&self, list: impl ListCoordinates<D>, value: T) -> Result<i32> {
        let value = with_value(Vec::new(), value);
        self.ask()?.append(&list.coordinates(), &value)
    }

    /// How many elements a list has.
    #[track_caller]
    pub fn length(&self, list: impl ListCoordinates<D>) -> Result<i32> {
        self.ask()?.length(&list.coordinates())
    }

    /// How many elements exist.
    #[track_caller]
    pub fn count_active(&self) -> Result<u64> {
        self.ask()?.count()
    }

    /// The coordinates of all elements that exist, row by row.
    #[track_caller]
    pub fn active(&self) -> Result<Vec<[i32; D]>> {
        Ok(self.ask()?.export(0)?.0)
    }

    /// The coordinates and values of all elements that exist, row by row.
    #[track_caller]
    pub fn export(&self) -> Result<(Vec<[i32; D]>, Vec<T>)> {
        let (coordinates, values) = self.ask()?.export(T::SIZE)?;
        let values = unpack(&values, coordinates.len());
        Ok((coordinates, values))
    }

    /// Puts values into elements, which come into being where they did not exist. Of several values
    /// for one element, any is kept.
    #[track_caller]
    pub fn import(&self, coordinates: &[[i32; D]], values: &[T]) -> Result<()> {
        let ask = self.ask()?;
        if coordinates.len() != values.len() {
            let (n, m, name) = (values.len(), coordinates.len(), ask.name());
            return Err(ask
                .fail(
                    "W0112",
                    format!("{n} values for {m} elements of field `{name}`"),
                )
                .help("give one value for each element"));
        }
        let mut buffer = ask.buffer(values.len() as u64, T::SIZE as u64)?;
        pack(values, &mut buffer);
        ask.import(coordinates, Some((&mut buffer, T::SIZE)))
    }
}

/// One of two iterators over the same things.
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
    /// Half-open, counted from the smallest coordinate.
    window: SmallVec<[(u64, u64); 3]>,
}

impl<T: Element, const D: usize> Window<T, D> {
    /// How many elements along each index.
    pub fn shape(&self) -> [u64; D] {
        std::array::from_fn(|k| self.window[k].1 - self.window[k].0)
    }

    fn count(&self) -> u64 {
        let shape = self.shape();
        shape.iter().fold(1, |n, e| n.saturating_mul(*e))
    }

    fn elements<'a>(&'a self, address: &'a Address) -> Elements<'a> {
        Elements {
            address,
            window: &self.window,
            size: T::SIZE,
        }
    }

    /// These elements as one side of a copy; `None` where some node is sparse.
    pub(crate) fn side<'a>(&'a self, ask: &'a Ask<'a>) -> Option<Side<'a>> {
        let address = self.field.address(ask.body)?;
        Some(Side {
            ask,
            elements: self.elements(address),
            corners: self.corners(ask),
            extents: self.extents(),
        })
    }

    /// The corners of the box, as services take them.
    fn corners(&self, ask: &Ask<'_>) -> Vec<u64> {
        let domain = ask.domain();
        let corner = |end: fn(&(u64, u64)) -> u64| {
            let ends = self.window.iter().zip(domain);
            ends.map(move |(w, (from, _))| (*from as u64).wrapping_add(end(w)))
        };
        corner(|w| w.0).chain(corner(|w| w.1)).collect()
    }

    fn extents(&self) -> Vec<usize> {
        let shape = self.shape();
        match D {
            0 => vec![1],
            _ => shape.iter().map(|e| *e as usize).collect(),
        }
    }

    /// The elements, row by row; those that do not exist are zero.
    #[track_caller]
    pub fn to_vec(&self) -> Result<Vec<T>> {
        let ask = self.field.ask()?;
        let body = ask.body;
        let Some(address) = self.field.address(body) else {
            let mut buffer = ask.buffer(self.count(), T::SIZE as u64)?;
            let array = ArrayArg::opaque(&mut buffer, T::SIZE, &self.extents(), true)?;
            ask.serve(Service::ReadBox, &self.corners(&ask), &[array])?;
            return Ok(unpack(&buffer, self.count() as usize));
        };
        let mut out = Vec::new();
        if out.try_reserve_exact(self.count() as usize).is_err() {
            let count = self.count();
            return Err(ask.fail("W0110", format!("no memory for a copy of {count} elements")));
        }
        let mut guard = body.memory.lock();
        guard.fetch(address.span(&self.window, T::SIZE))?;
        let bytes = guard.bytes();
        address.runs(&self.window, |run| {
            let bytes = &bytes[run.bytes(T::SIZE)];
            if run.stride == T::SIZE {
                out.extend(bytes.chunks_exact(T::SIZE).map(T::read));
            } else {
                out.extend(
                    bytes
                        .chunks(run.stride.max(T::SIZE))
                        .take(run.count)
                        .map(T::read),
                );
            }
        });
        Ok(out)
    }

    /// Puts one value into every element. In a sparse layout all of them come into being.
    #[track_caller]
    pub fn fill(&self, value: T) -> Result<()> {
        let ask = self.field.ask()?;
        let body = ask.body;
        if let Some(address) = self.field.address(body) {
            let mut pattern = vec![0; T::SIZE];
            value.write(&mut pattern);
            if self.elements(address).fill(&body.memory, &pattern)? {
                return Ok(());
            }
        }
        let params = with_value(self.corners(&ask), value);
        ask.serve(Service::FillBox, &params, &[]).map(|_| ())
    }

    /// Takes the elements from a slice, row by row. In a sparse layout all of them come into being.
    #[track_caller]
    pub fn copy_from(&self, values: &[T]) -> Result<()> {
        let ask = self.field.ask()?;
        let body = ask.body;
        let count = self.count();
        if values.len() as u64 != count {
            let (name, n) = (ask.name(), values.len());
            let what = format!("{n} values for {count} elements of field `{name}`");
            return Err(ask
                .fail("W0112", what)
                .help("give one value for each element, row by row"));
        }
        let Some(address) = self.field.address(body) else {
            let mut buffer = ask.buffer(count, T::SIZE as u64)?;
            pack(values, &mut buffer);
            let array = ArrayArg::opaque(&mut buffer, T::SIZE, &self.extents(), false)?;
            ask.serve(Service::WriteBox, &self.corners(&ask), &[array])?;
            return Ok(());
        };
        let mut guard = body.memory.lock();
        let span = address.span(&self.window, T::SIZE);
        // What lies between the elements stays.
        if !self.elements(address).cover_their_span() {
            guard.fetch(span.clone())?;
        }
        let bytes = guard.bytes_mut();
        let mut values = values;
        address.runs(&self.window, |run| {
            let (now, later) = values.split_at(run.count);
            values = later;
            let bytes = &mut bytes[run.bytes(T::SIZE)];
            if run.stride == T::SIZE {
                let cells = bytes.chunks_exact_mut(T::SIZE);
                cells.zip(now).for_each(|(b, v)| v.write(b));
            } else {
                let cells = bytes.chunks_mut(run.stride.max(T::SIZE));
                cells.zip(now).for_each(|(b, v)| v.write(b));
            }
        });
        guard.send(span)
    }
}
