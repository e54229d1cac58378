//! Arrays that a launch accesses, on the host or on a GPU.

use crate::memory::{HostBytes, Memory};
use smallvec::SmallVec;
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use wuji_ir::layout::elements_apart;
use wuji_ir::module::ArrayShape;
use wuji_ir::types::{Scalar, Type};
use wuji_ir::{Error, Result};
use wuji_llvm::abi::{ArrayView, MAX_RANK};

/// A type with the memory layout of an array element: `LANES` consecutive scalars.
///
/// # Safety
/// Every value that a kernel can store in `LANES` elements of type `PART` (a `bool` is 0 or 1) is a value of the type.
/// The type has exactly that size and at most the alignment of a scalar.
pub unsafe trait Plain: Copy + 'static {
    /// The type of one component.
    const PART: Scalar;
    /// The number of components.
    const LANES: usize;
}

macro_rules! plain {
    ($($ty:ty = $scalar:ident),* $(,)?) => {$(
        // SAFETY: the type is the scalar.
        unsafe impl Plain for $ty {
            const PART: Scalar = Scalar::$scalar;
            const LANES: usize = 1;
        }
    )*};
}

plain! {
    bool = Bool, i8 = I8, i16 = I16, i32 = I32, i64 = I64, u8 = U8, u16 = U16, u32 = U32,
    u64 = U64, half::f16 = F16, f32 = F32, f64 = F64,
}

#[cfg(target_pointer_width = "64")]
plain! { isize = I64, usize = U64 }

// SAFETY: an array consists of consecutive elements.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {
    const PART: Scalar = T::PART;
    const LANES: usize = N * T::LANES;
}

/// The element type of an array.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Elements {
    Scalars(Scalar, usize),
    /// Bytes of any type with this size.
    Opaque {
        size: usize,
    },
}

/// The device whose memory holds an array.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Owner {
    /// In the memory of the host.
    Host,
    /// An NVIDIA GPU, by its number.
    Cuda(u32),
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Owner::Host => f.write_str("the CPU"),
            Owner::Cuda(n) => write!(f, "CUDA device {n}"),
        }
    }
}

/// An array argument, borrowed for the duration of a launch, so no other code can access it.
#[derive(Clone, Debug)]
pub struct ArrayArg<'a> {
    view: ArrayView,
    owner: Owner,
    rank: usize,
    elements: Elements,
    writable: bool,
    memory: PhantomData<&'a mut [u8]>,
}

/// The layout of an array in a slice, in units of elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strides {
    /// The lengths of the axes.
    pub extents: SmallVec<[usize; 4]>,
    /// The distances of two elements along each axis, in elements.
    pub strides: SmallVec<[isize; 4]>,
    /// The position of element `[0, 0, ...]` in the slice.
    pub start: usize,
}

impl Strides {
    /// Row-major, without gaps.
    pub fn contiguous(extents: &[usize]) -> Strides {
        let mut strides = SmallVec::from_elem(0, extents.len());
        let mut step = 1isize;
        for (stride, extent) in strides.iter_mut().zip(extents).rev() {
            *stride = step;
            step = step.saturating_mul((*extent).max(1).try_into().unwrap_or(isize::MAX));
        }
        Strides {
            extents: extents.into(),
            strides,
            start: 0,
        }
    }

    /// Checks that every element lies within `len` elements.
    pub fn check(&self, len: usize) -> Result<()> {
        let rank = self.extents.len();
        if rank > MAX_RANK || self.strides.len() != rank {
            return Err(Error::new(
                "W0117",
                format!(
                    "an array has {rank} extents and {} strides",
                    self.strides.len()
                ),
            )
            .help(format!(
                "an array has one stride for each of at most {MAX_RANK} axes"
            )));
        }
        if self.extents.contains(&0) {
            return Ok(());
        }
        let count = self
            .extents
            .iter()
            .try_fold(1usize, |n, e| n.checked_mul(*e));
        if count.is_none_or(|n| n > isize::MAX as usize) {
            let what = format!("an array of shape {:?} has too many elements", self.extents);
            return Err(Error::new("W0117", what));
        }
        let (mut low, mut high) = (self.start as i128, self.start as i128);
        for (extent, stride) in self.extents.iter().zip(&self.strides) {
            // The product of two 64-bit numbers fits, and so does the sum of eight.
            let far = (*extent as i128 - 1) * *stride as i128;
            low += far.min(0);
            high += far.max(0);
        }
        if low < 0 || high >= len as i128 {
            return Err(Error::new(
                "W0117",
                format!(
                    "an array of shape {:?} does not fit into {len} elements",
                    self.extents
                ),
            )
            .note(format!("its elements would be at {low} to {high}")));
        }
        Ok(())
    }
}

impl<'a> ArrayArg<'a> {
    /// An array that kernels only read.
    pub fn read<T: Plain>(data: &'a [T], strides: &Strides) -> Result<ArrayArg<'a>> {
        ArrayArg::of(data.as_ptr().cast_mut(), data.len(), strides, false)
    }

    /// An array that kernels may write to.
    pub fn write<T: Plain>(data: &'a mut [T], strides: &Strides) -> Result<ArrayArg<'a>> {
        ArrayArg::of(data.as_mut_ptr(), data.len(), strides, true)
    }

    /// An array that kernels may write to and that may overlap others: a `Cell` stays on its thread, which waits for
    /// the launch.
    pub fn cells<T: Plain>(data: &'a [Cell<T>], strides: &Strides) -> Result<ArrayArg<'a>> {
        let base = data.as_ptr().cast::<T>().cast_mut();
        ArrayArg::of(base, data.len(), strides, true)
    }

    fn of<T: Plain>(
        base: *mut T,
        len: usize,
        strides: &Strides,
        writable: bool,
    ) -> Result<ArrayArg<'a>> {
        strides.check(len)?;
        let elements = Elements::Scalars(T::PART, T::LANES);
        // `check` has verified that the element is in the slice, unless the array is empty.
        let base = base.wrapping_add(strides.start).cast();
        Ok(ArrayArg::new(
            base,
            strides,
            size_of::<T>(),
            elements,
            writable,
        ))
    }

    /// Elements of `size` bytes in a buffer. Elements that are not [`Plain`] are copied into one for the launch.
    pub fn opaque(
        buffer: &'a mut [u64],
        size: usize,
        extents: &[usize],
        writable: bool,
    ) -> Result<ArrayArg<'a>> {
        let strides = Strides::contiguous(extents);
        strides.check(size_of_val(buffer) / size.max(1))?;
        let elements = Elements::Opaque { size };
        let base = buffer.as_mut_ptr().cast();
        Ok(ArrayArg::new(base, &strides, size, elements, writable))
    }

    /// Elements of `size` bytes in device memory, row-major from its start.
    pub fn in_memory(
        memory: &'a Memory,
        size: usize,
        extents: &[usize],
        writable: bool,
    ) -> Result<ArrayArg<'a>> {
        let strides = Strides::contiguous(extents);
        strides.check(memory.size() / size.max(1))?;
        let (owner, base) = memory.place();
        let elements = Elements::Opaque { size };
        let mut arg = ArrayArg::new(base, &strides, size, elements, writable);
        arg.owner = owner;
        Ok(arg)
    }

    /// Elements of `size` bytes in memory of the host that counts for a device, row-major from its start. The launches of a device
    /// are serialized, so those of this one do not race.
    pub fn in_host_bytes(
        bytes: &'a HostBytes,
        size: usize,
        extents: &[usize],
    ) -> Result<ArrayArg<'a>> {
        if !bytes.belongs_to_device() {
            return Err(Error::new("W0117", "an array belongs to no device"));
        }
        let strides = Strides::contiguous(extents);
        strides.check(bytes.size() / size.max(1))?;
        let elements = Elements::Opaque { size };
        Ok(ArrayArg::new(bytes.base(), &strides, size, elements, true))
    }

    /// Elements of `size` bytes at byte offsets in a buffer, which other arrays may share.
    pub fn in_buffer(
        buffer: &'a [Cell<u64>],
        size: usize,
        base: i64,
        extents: &[i64],
        strides: &[i64],
    ) -> Result<ArrayArg<'a>> {
        let wrong = |what: &str| Err(Error::new("W0117", format!("an array {what}")));
        let rank = extents.len();
        if rank > MAX_RANK || strides.len() != rank || extents.iter().any(|e| *e < 0) {
            return wrong("has an invalid shape");
        }
        let empty = extents.contains(&0);
        let (mut low, mut high) = (i128::from(base), i128::from(base) + size as i128);
        for (extent, stride) in extents.iter().zip(strides) {
            let far = (i128::from(*extent) - 1) * i128::from(*stride);
            low += far.min(0);
            high += far.max(0);
        }
        if !empty && (low < 0 || high > size_of_val(buffer) as i128) {
            return wrong("exceeds its buffer");
        }
        let mut view = ArrayView {
            base: buffer
                .as_ptr()
                .cast::<u8>()
                .cast_mut()
                .wrapping_offset(base as isize),
            extents: [0; MAX_RANK],
            strides: [0; MAX_RANK],
        };
        view.extents[..rank].copy_from_slice(extents);
        view.strides[..rank].copy_from_slice(strides);
        Ok(ArrayArg {
            view,
            owner: Owner::Host,
            rank,
            elements: Elements::Opaque { size },
            writable: true,
            memory: PhantomData,
        })
    }

    /// Foreign memory, borrowed for the duration of a launch. An element consists of `lanes` consecutive scalars;
    /// strides are in bytes and may be negative.
    ///
    /// # Safety
    /// For every index within `extents`, the element at `base` plus the sum of index times stride is readable by its
    /// owner for the lifetime `'a`, and writable if `writable` is set. A `bool` there is 0 or 1. No other code relies
    /// on the memory being unchanged.
    ///
    /// GPU memory must stay allocated until the launch is done, which may be long after the call: its owner frees it in
    /// the order of a stream that waits for the launch ([`Device::stream_waits`](crate::Device::stream_waits)), or
    /// synchronizes. If the launch becomes part of a graph, the memory must outlive the graph.
    pub unsafe fn lent(
        (owner, base): (Owner, *mut u8),
        (scalar, lanes): (Scalar, usize),
        extents: &[i64],
        strides: &[i64],
        writable: bool,
    ) -> Result<ArrayArg<'a>> {
        let wrong = |what: &str| Err(Error::new("W0117", format!("an array {what}")));
        let rank = extents.len();
        if rank > MAX_RANK || strides.len() != rank {
            return wrong(&format!(
                "has {rank} axes; at most {MAX_RANK} are supported"
            ));
        }
        if extents.iter().any(|e| *e < 0) {
            return wrong("has an invalid shape");
        }
        let mut view = ArrayView {
            base,
            extents: [0; MAX_RANK],
            strides: [0; MAX_RANK],
        };
        view.extents[..rank].copy_from_slice(extents);
        view.strides[..rank].copy_from_slice(strides);
        let arg = ArrayArg {
            view,
            owner,
            rank,
            elements: Elements::Scalars(scalar, lanes),
            writable,
            memory: PhantomData,
        };
        if arg.is_empty() {
            return Ok(arg);
        }
        let bytes = i64::from(scalar.bytes());
        let crooked = |n: i64| n % bytes != 0;
        let uneven = |(extent, stride): (&i64, &i64)| *extent != 1 && crooked(*stride);
        if crooked(base as i64) || extents.iter().zip(strides).any(uneven) {
            return Err(Error::new(
                "W0117",
                format!("an array of `{scalar}` is not aligned to {bytes} bytes"),
            )
            .help("make a copy of it"));
        }
        // Sums of index times stride do not overflow, because the memory fits the address space.
        let far = extents.iter().zip(strides).try_fold(0i64, |sum, (e, s)| {
            (e - 1).checked_mul(*s)?.checked_abs()?.checked_add(sum)
        });
        match far {
            Some(_) => Ok(arg),
            None => wrong("has strides that exceed the address space"),
        }
    }

    fn new(
        base: *mut u8,
        strides: &Strides,
        size: usize,
        elements: Elements,
        writable: bool,
    ) -> ArrayArg<'a> {
        let mut view = ArrayView {
            base,
            extents: [0; MAX_RANK],
            strides: [0; MAX_RANK],
        };
        for (k, extent) in strides.extents.iter().enumerate() {
            view.extents[k] = i64::try_from(*extent).unwrap_or(i64::MAX);
            view.strides[k] = (strides.strides[k] as i64).wrapping_mul(size as i64);
        }
        ArrayArg {
            view,
            owner: Owner::Host,
            rank: strides.extents.len(),
            elements,
            writable,
            memory: PhantomData,
        }
    }

    /// The number of axes.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Whether it has a shape that code was specialized for.
    pub fn has_shape(&self, shape: &ArrayShape) -> bool {
        self.is_contiguous()
            && self.extents() == &shape.extents[..]
            && self.view.base.addr().is_multiple_of(shape.align as usize)
    }

    /// The address of the first element, on its device.
    pub fn address(&self) -> usize {
        self.view.base.addr()
    }

    /// The lengths of the axes.
    pub fn extents(&self) -> &[i64] {
        &self.view.extents[..self.rank]
    }

    /// In bytes.
    pub fn strides(&self) -> &[i64] {
        &self.view.strides[..self.rank]
    }

    /// The device whose memory holds the array.
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// Whether kernels may store to it.
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.extents().contains(&0)
    }

    /// The bytes of an element.
    pub fn elem_size(&self) -> usize {
        match self.elements {
            Elements::Scalars(s, lanes) => s.bytes() as usize * lanes,
            Elements::Opaque { size } => size,
        }
    }

    /// Row-major without gaps. The stride of an axis with extent 1 does not matter.
    pub fn is_contiguous(&self) -> bool {
        if self.is_empty() {
            return true;
        }
        let mut step = self.elem_size() as i64;
        for (extent, stride) in self.extents().iter().zip(self.strides()).rev() {
            if *extent != 1 && *stride != step {
                return false;
            }
            step = step.wrapping_mul(*extent);
        }
        true
    }

    /// No two elements share memory.
    pub(crate) fn elements_apart(&self) -> bool {
        let size = self.elem_size() as u64;
        self.is_contiguous() || elements_apart(self.extents(), self.strides(), size)
    }

    /// The first address of the array and the address past its end.
    pub(crate) fn span(&self) -> Option<(usize, usize)> {
        if self.is_empty() {
            return None;
        }
        let (mut low, mut high) = (self.view.base as usize, self.view.base as usize);
        for (extent, stride) in self.extents().iter().zip(self.strides()) {
            let far = (extent - 1) * stride;
            if far < 0 {
                low = low.wrapping_add_signed(far as isize);
            } else {
                high = high.wrapping_add_signed(far as isize);
            }
        }
        Some((low, high + self.elem_size()))
    }

    /// Whether two arrays may share a byte; exact for arrays without gaps.
    pub fn overlaps(&self, other: &ArrayArg<'_>) -> bool {
        match (self.span(), other.span()) {
            (Some((a, b)), Some((c, d))) => a < d && c < b,
            _ => false,
        }
    }

    /// Calls `visit` with the address and size of every element, in row-major order.
    pub(crate) fn visit(&self, mut visit: impl FnMut(*mut u8, usize)) {
        if self.is_empty() {
            return;
        }
        let mut at = [0i64; MAX_RANK];
        loop {
            let terms = at.iter().zip(self.strides()).map(|(c, s)| c * s);
            let offset = terms.sum::<i64>() as isize;
            visit(self.view.base.wrapping_offset(offset), self.elem_size());
            let mut k = self.rank;
            loop {
                if k == 0 {
                    return;
                }
                k -= 1;
                at[k] += 1;
                if at[k] < self.view.extents[k] {
                    break;
                }
                at[k] = 0;
            }
        }
    }

    pub(crate) fn view(&self) -> ArrayView {
        self.view
    }

    /// Whether the elements have type `elem`, with this size and alignment.
    pub(crate) fn holds(&self, elem: Type, size: u64, align: u64) -> bool {
        match self.elements {
            Elements::Scalars(scalar, lanes) => {
                elem.elem() == Some(scalar) && elem.lanes() == u32::try_from(lanes).ok()
            }
            Elements::Opaque { size: s } => {
                let aligned = |x: i64| x % align as i64 == 0;
                size == s as u64
                    && (self.is_empty()
                        || aligned(self.view.base as i64)
                            && self.strides().iter().all(|s| aligned(*s)))
            }
        }
    }
}

/// GPU arrays of a graph.
#[derive(Debug, Default)]
pub struct KeptArrays(Vec<ArrayArg<'static>>);

// SAFETY: they are GPU addresses, which the host never dereferences.
unsafe impl Send for KeptArrays {}
// SAFETY: as above.
unsafe impl Sync for KeptArrays {}

impl KeptArrays {
    /// `None` if one of them is not on a GPU. The lender guarantees that the memory outlives the graph.
    pub fn of(arrays: &[ArrayArg<'_>]) -> Option<KeptArrays> {
        let kept = arrays.iter().map(|a| match a.owner {
            Owner::Host => None,
            Owner::Cuda(_) => Some(ArrayArg {
                view: a.view,
                owner: a.owner,
                rank: a.rank,
                elements: a.elements,
                writable: a.writable,
                memory: PhantomData,
            }),
        });
        Some(KeptArrays(kept.collect::<Option<_>>()?))
    }
}

impl std::ops::Deref for KeptArrays {
    type Target = [ArrayArg<'static>];

    fn deref(&self) -> &[ArrayArg<'static>] {
        &self.0
    }
}

/// For each array, whether it overlaps no other one that matters: two read-only arrays may overlap.
pub fn unaliased(arrays: &[ArrayArg<'_>]) -> impl Iterator<Item = bool> {
    arrays.iter().enumerate().map(|(k, a)| {
        arrays
            .iter()
            .enumerate()
            .all(|(n, b)| n == k || !(a.writable || b.writable) || !a.overlaps(b))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_that_leave_their_slice_are_refused() {
        let data = [0f32; 12];
        let strides = |extents: &[usize], strides: &[isize], start| Strides {
            extents: extents.into(),
            strides: strides.into(),
            start,
        };
        let ok = |s: &Strides| ArrayArg::read(&data, s).is_ok();
        assert!(ok(&Strides::contiguous(&[3, 4])));
        assert!(!ok(&Strides::contiguous(&[3, 5])));
        assert!(ok(&strides(&[3, 2], &[4, 2], 0)));
        assert!(ok(&strides(&[12], &[-1], 11)));
        assert!(!ok(&strides(&[12], &[-1], 10)));
        assert!(!ok(&strides(&[2, 2], &[isize::MAX, isize::MAX], 0)));
        assert!(!ok(&strides(&[usize::MAX; 8], &[isize::MIN; 8], 0)));
        assert!(ok(&strides(&[0, 7], &[1, 1], 99)));
        assert!(ok(&strides(&[5, 5], &[0, 0], 3)));
        assert!(!ok(&strides(&[1; 9], &[0; 9], 0)));
        assert!(!ok(&strides(&[1, 1], &[0], 0)));
    }

    #[test]
    fn contiguous_means_row_major_without_gaps() {
        let mut data = [0f32; 12];
        let mut check = |extents: &[usize], strides: &[isize]| {
            let s = Strides {
                extents: extents.into(),
                strides: strides.into(),
                start: 0,
            };
            ArrayArg::write(&mut data, &s).unwrap().is_contiguous()
        };
        assert!(check(&[3, 4], &[4, 1]));
        assert!(!check(&[4, 3], &[1, 4]));
        assert!(!check(&[3, 2], &[4, 2]));
        assert!(check(&[1, 4], &[77, 1]));
        assert!(check(&[0, 4], &[3, 3]));
        assert!(check(&[], &[]));
    }

    #[test]
    fn lent_memory_is_aligned_and_near() {
        let mut data = [0u64; 16];
        let base = data.as_mut_ptr().cast::<u8>();
        let lent = |at: usize, extents: &[i64], strides: &[i64]| {
            // SAFETY: the arrays are rejected, or lie in `data`.
            unsafe {
                let base = base.wrapping_add(at);
                ArrayArg::lent(
                    (Owner::Host, base),
                    (Scalar::F32, 1),
                    extents,
                    strides,
                    true,
                )
            }
        };
        assert!(lent(0, &[4, 2], &[8, 4]).unwrap().is_contiguous());
        assert!(!lent(28, &[8], &[-4]).unwrap().is_contiguous());
        assert!(lent(0, &[1], &[3]).is_ok());
        assert!(lent(1, &[0, 3], &[7, 7]).is_ok());
        for (at, extents, strides) in [
            (2, &[4][..], &[4][..]),
            (0, &[4], &[6]),
            (0, &[-1], &[4]),
            (0, &[4, 4], &[4]),
            (0, &[1; 9], &[4; 9]),
            (0, &[i64::MAX, 2], &[4, 4]),
            (0, &[2, 2], &[i64::MIN, 4]),
        ] {
            let error = lent(at, extents, strides).unwrap_err();
            assert_eq!(error.code, "W0117", "{extents:?} {strides:?}");
        }
    }

    #[test]
    fn overlap_is_by_address() {
        let data: [Cell<i32>; 10] = Default::default();
        let part = |range: std::ops::Range<usize>| {
            let part = &data[range];
            ArrayArg::cells(part, &Strides::contiguous(&[part.len()])).unwrap()
        };
        let flags = |arrays: &[ArrayArg<'_>]| unaliased(arrays).collect::<Vec<_>>();
        assert_eq!(flags(&[part(0..5), part(5..10)]), [true, true]);
        assert_eq!(flags(&[part(0..6), part(5..10)]), [false, false]);
        assert_eq!(
            flags(&[part(0..4), part(3..6), part(6..8), part(2..2)]),
            [false, false, true, true]
        );
        let shared = [0f32; 4];
        let read = ArrayArg::read(&shared, &Strides::contiguous(&[4])).unwrap();
        assert_eq!(flags(&[read.clone(), read]), [true, true]);
    }
}
