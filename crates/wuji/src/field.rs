//! Fields, and how the host reaches their elements.
//!
//! Every access waits for the launches before it, so the host always sees what kernels have left.

use crate::axes::Coordinates;
use crate::element::Element;
use crate::layout::{Tree, TreeBody, TreeInner};
use crate::world::{World, here};
use smallvec::SmallVec;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::panic::Location;
use std::sync::Arc;
use wuji_ir::entities;
use wuji_ir::{Error, Result};
use wuji_runtime::address::Address;

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

    /// How many elements in all.
    pub fn len(&self) -> Result<u64> {
        Ok(self.shape()?.iter().product())
    }

    /// Never: every extent of a layout is at least 1. Here because `len` is.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Smallest coordinate and extent along each index.
    fn domain(&self, body: &TreeBody) -> [(i64, u64); D] {
        let mut domain = self.address(body).domain();
        std::array::from_fn(|_| domain.next().unwrap_or((0, 1)))
    }

    fn address<'a>(&self, body: &'a TreeBody) -> &'a Address {
        &body.addresses[self.place()]
    }
}

impl<T: Element, const D: usize> Field<T, D> {
    /// One element.
    #[track_caller]
    pub fn get(&self, at: impl Coordinates<D>) -> Result<T> {
        let body = self.tree.body()?;
        let offset = self.element(body, at.coordinates(), Location::caller())?;
        let guard = body.memory.lock();
        Ok(T::read(&guard.bytes()[offset..offset + T::SIZE]))
    }

    /// Puts a value into one element.
    #[track_caller]
    pub fn set(&self, at: impl Coordinates<D>, value: T) -> Result<()> {
        let body = self.tree.body()?;
        let offset = self.element(body, at.coordinates(), Location::caller())?;
        let mut guard = body.memory.lock();
        value.write(&mut guard.bytes_mut()[offset..offset + T::SIZE]);
        Ok(())
    }

    fn element(
        &self,
        body: &TreeBody,
        at: [i64; D],
        caller: &'static Location<'static>,
    ) -> Result<usize> {
        let address = self.address(body);
        let inside = address.domain().zip(at).all(|((from, extent), c)| {
            // Both fit: a layout whose coordinates do not is refused.
            c >= from && (c.wrapping_sub(from) as u64) < extent
        });
        if !inside {
            return Err(self.outside(body, &at, caller));
        }
        Ok(address.offset(at))
    }

    #[cold]
    fn outside(&self, body: &TreeBody, at: &[i64], caller: &'static Location<'static>) -> Error {
        let name = self.name_in(body);
        let bounds: Vec<String> = self
            .domain(body)
            .iter()
            .map(|(from, extent)| format!("{from}..{}", from + *extent as i64))
            .collect();
        Error::new("W0111", format!("field `{name}` has no element {at:?}"))
            .at(Some(here(caller)))
            .note(format!("its elements are [{}]", bounds.join(", ")))
    }

    /// All elements, row by row.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        self.all()?.to_vec()
    }

    /// Puts one value into every element.
    pub fn fill(&self, value: T) -> Result<()> {
        self.all()?.fill(value)
    }

    /// Takes all elements from a slice, row by row.
    #[track_caller]
    pub fn copy_from(&self, values: &[T]) -> Result<()> {
        self.all()?.copy_from(values)
    }

    /// All elements with their coordinates, row by row, as they are now.
    pub fn iter(&self) -> Result<impl Iterator<Item = ([i64; D], T)> + use<T, D>> {
        let domain = self.domain(self.tree.body()?);
        let values = self.to_vec()?;
        Ok(values.into_iter().enumerate().map(move |(n, value)| {
            let mut n = n as u64;
            let mut at = [0; D];
            for k in (0..D).rev() {
                let (from, extent) = domain[k];
                at[k] = from + (n % extent) as i64;
                n /= extent;
            }
            (at, value)
        }))
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
                let mut error = self.outside(body, &[], Location::caller());
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

    fn all(&self) -> Result<Window<T, D>> {
        let domain = self.domain(self.tree.body()?);
        Ok(Window {
            field: self.clone(),
            window: domain.iter().map(|d| (0, d.1)).collect(),
        })
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
        self.shape().iter().product()
    }

    /// The elements, row by row.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        let body = self.field.tree.body()?;
        let mut out = Vec::new();
        if out.try_reserve_exact(self.count() as usize).is_err() {
            let count = self.count();
            return Err(Error::new(
                "W0110",
                format!("no memory for a copy of {count} elements"),
            ));
        }
        let guard = body.memory.lock();
        let bytes = guard.bytes();
        self.field.address(body).runs(&self.window, |run| {
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

    /// Puts one value into every element.
    pub fn fill(&self, value: T) -> Result<()> {
        let body = self.field.tree.body()?;
        let mut guard = body.memory.lock();
        let bytes = guard.bytes_mut();
        self.field.address(body).runs(&self.window, |run| {
            let bytes = &mut bytes[run.bytes(T::SIZE)];
            if run.stride == T::SIZE {
                bytes.chunks_exact_mut(T::SIZE).for_each(|b| value.write(b));
            } else {
                bytes
                    .chunks_mut(run.stride.max(T::SIZE))
                    .for_each(|b| value.write(b));
            }
        });
        Ok(())
    }

    /// Takes the elements from a slice, row by row.
    #[track_caller]
    pub fn copy_from(&self, values: &[T]) -> Result<()> {
        let body = self.field.tree.body()?;
        let count = self.count();
        if values.len() as u64 != count {
            let (name, n) = (self.field.name_in(body), values.len());
            return Err(Error::new(
                "W0112",
                format!("{n} values for {count} elements of field `{name}`"),
            )
            .at(Some(here(Location::caller())))
            .help("give one value for each element, row by row"));
        }
        let mut guard = body.memory.lock();
        let bytes = guard.bytes_mut();
        let mut values = values;
        self.field.address(body).runs(&self.window, |run| {
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
        Ok(())
    }
}
