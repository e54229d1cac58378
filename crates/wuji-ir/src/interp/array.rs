//! Host arrays: strided views into byte buffers, so that arrays can overlap as they can in a host
//! program.

use super::error::{BAD_LAUNCH, stop};
use crate::Result;
use crate::entities::Array;
use crate::layout::elements_apart;
use crate::module::Module;
use crate::types::{Imm, Scalar};

/// A buffer of host memory.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Buffer(pub(super) usize);

/// The layout of an array argument.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArrayView {
    /// The memory with the elements.
    pub buffer: Buffer,
    /// Byte offset of element `[0, 0, ...]`.
    pub base: i64,
    /// The lengths of the axes.
    pub extents: Vec<i64>,
    /// Bytes from one element to the next along each axis; may be negative or 0.
    pub strides: Vec<i64>,
}

impl ArrayView {
    /// Row-major without gaps, from the start of a buffer.
    pub fn contiguous(buffer: Buffer, extents: &[i64], element_bytes: i64) -> ArrayView {
        let mut strides = vec![0; extents.len()];
        let mut step = element_bytes;
        for (stride, extent) in strides.iter_mut().zip(extents).rev() {
            *stride = step;
            step = step.saturating_mul((*extent).max(1));
        }
        ArrayView {
            buffer,
            base: 0,
            extents: extents.to_vec(),
            strides,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.extents.contains(&0)
    }

    /// Lowest and highest offset of an element from element zero; `None` when there are none.
    pub(super) fn reach(&self) -> Option<(i128, i128)> {
        if self.is_empty() {
            return None;
        }
        let (mut low, mut high) = (0, 0);
        for (extent, stride) in self.extents.iter().zip(&self.strides) {
            let far = i128::from(*extent - 1) * i128::from(*stride);
            low += far.min(0);
            high += far.max(0);
        }
        Some((low, high))
    }
}

/// The arrays of a launch and the memory they are in.
#[derive(Debug, Default)]
pub(super) struct Arrays {
    pub(super) buffers: Vec<Vec<u8>>,
    views: Vec<BoundArray>,
}

#[derive(Debug)]
pub(super) struct BoundArray {
    pub(super) view: ArrayView,
    /// The scalars of an element and their offsets.
    pub(super) scalars: Vec<(Scalar, u64)>,
    size: u64,
    /// The bytes of the buffer that the array spans.
    span: Option<(i64, i64)>,
}

impl Arrays {
    /// All arrays of the module, empty.
    pub(super) fn new(m: &Module) -> Arrays {
        let views = m
            .arrays
            .values()
            .map(|a| {
                let size = m.structs.size_align(a.elem).0;
                let extents = vec![0; usize::from(a.rank)];
                BoundArray {
                    view: ArrayView::contiguous(Buffer(0), &extents, size as i64),
                    scalars: m.structs.scalar_offsets(a.elem),
                    size,
                    span: None,
                }
            })
            .collect();
        Arrays {
            buffers: vec![Vec::new()],
            views,
        }
    }

    pub(super) fn get(&self, array: Array) -> &BoundArray {
        &self.views[array.0 as usize]
    }

    /// Checks that a view matches the array's declaration and its buffer, and binds it.
    pub(super) fn bind(&mut self, m: &Module, array: Array, view: ArrayView) -> Result<()> {
        let data = &m.arrays[array];
        let wrong = |why: String| Err(stop(BAD_LAUNCH, format!("array `{}` {why}", data.name)));
        let rank = usize::from(data.rank);
        if view.extents.len() != rank || view.strides.len() != rank {
            return wrong(format!("has {rank} axes"));
        }
        let (size, align) = m.structs.size_align(data.elem);
        if view.extents.iter().any(|e| *e < 0) {
            return wrong("has a negative extent".into());
        }
        let multiple = |x: i64| x % align as i64 == 0;
        if !multiple(view.base) || !view.strides.iter().all(|s| multiple(*s)) {
            return wrong("is not aligned".into());
        }
        let plain = ArrayView::contiguous(view.buffer, &view.extents, size as i64);
        let gapless = view.is_empty()
            || (0..rank).all(|k| view.extents[k] == 1 || view.strides[k] == plain.strides[k]);
        if data.contiguous && !gapless {
            return wrong("has gaps but is declared contiguous".into());
        }
        if let Some(shape) = &data.shape
            && (!gapless || shape.extents[..] != view.extents[..])
        {
            return wrong("does not have the shape it is declared with".into());
        }
        if data.writable && !elements_apart(&view.extents, &view.strides, size) {
            return wrong("is writable, but its elements overlap".into());
        }
        let Some(buffer) = self.buffers.get(view.buffer.0) else {
            return wrong("is in a buffer that does not exist".into());
        };
        let span = view.reach().map(|(low, high)| {
            let base = i128::from(view.base);
            (base + low, base + high + i128::from(size))
        });
        if span.is_some_and(|(from, to)| from < 0 || to > buffer.len() as i128) {
            return wrong("reaches beyond its buffer".into());
        }
        let bound = &mut self.views[array.0 as usize];
        bound.span = span.map(|(from, to)| (from as i64, to as i64));
        bound.view = view;
        Ok(())
    }

    /// Arrays that are declared `unaliased` must not overlap another one.
    pub(super) fn check_aliases(&self, m: &Module) -> Result<()> {
        for (a, data) in m.arrays.iter().filter(|(_, data)| data.unaliased) {
            let one = self.get(a);
            for b in m.arrays.keys().filter(|b| *b != a) {
                let other = self.get(b);
                let (Some(x), Some(y)) = (one.span, other.span) else {
                    continue;
                };
                if one.view.buffer == other.view.buffer && x.0 < y.1 && y.0 < x.1 {
                    return Err(stop(
                        BAD_LAUNCH,
                        format!("array `{}` overlaps {b} but is unaliased", data.name),
                    ));
                }
            }
        }
        Ok(())
    }

    /// The offset of an element from element zero; `None` if it is out of range.
    pub(super) fn locate(&self, array: Array, indices: &[i128]) -> Option<i64> {
        let view = &self.get(array).view;
        let mut offset = 0i64;
        for ((index, extent), stride) in indices.iter().zip(&view.extents).zip(&view.strides) {
            if *index < 0 || *index >= i128::from(*extent) {
                return None;
            }
            offset += *index as i64 * stride;
        }
        Some(offset)
    }

    /// Whether bytes `offset..offset + size` from element zero are in the array's span.
    pub(super) fn covers(&self, array: Array, offset: i64, size: u64) -> bool {
        let bound = self.get(array);
        bound.span.is_some_and(|(from, to)| {
            let at = i128::from(bound.view.base) + i128::from(offset);
            i128::from(from) <= at && at + i128::from(size) <= i128::from(to)
        })
    }

    /// Reads a scalar at a valid byte offset from element zero.
    pub(super) fn read(&self, array: Array, offset: i64, ty: Scalar) -> Imm {
        let view = &self.get(array).view;
        let at = (view.base + offset) as usize;
        read_scalar(&self.buffers[view.buffer.0][at..], ty)
    }

    pub(super) fn write(&mut self, array: Array, offset: i64, value: Imm) {
        let view = &self.views[array.0 as usize].view;
        let at = (view.base + offset) as usize;
        write_scalar(&mut self.buffers[view.buffer.0][at..], value);
    }

    /// Every scalar of an array, row-major.
    pub(super) fn all(&self, array: Array) -> Vec<Imm> {
        let bound = self.get(array);
        let mut out = Vec::new();
        for offset in offsets(&bound.view) {
            for (ty, at) in &bound.scalars {
                out.push(self.read(array, offset + *at as i64, *ty));
            }
        }
        out
    }

    /// Bytes of one element.
    pub(super) fn element_size(&self, array: Array) -> u64 {
        self.get(array).size
    }
}

/// Offsets of all elements, row-major.
fn offsets(view: &ArrayView) -> Vec<i64> {
    let mut out = vec![0];
    for (extent, stride) in view.extents.iter().zip(&view.strides) {
        out = out
            .into_iter()
            .flat_map(|at| (0..*extent).map(move |k| at + k * stride))
            .collect();
    }
    out
}

/// Reads a scalar from the start of a byte slice.
pub(super) fn read_scalar(bytes: &[u8], ty: Scalar) -> Imm {
    let mut word = [0; 8];
    let n = ty.bytes() as usize;
    word[..n].copy_from_slice(&bytes[..n]);
    Imm::from_bits(ty, u64::from_le_bytes(word))
}

pub(super) fn write_scalar(bytes: &mut [u8], value: Imm) {
    let n = value.ty.bytes() as usize;
    bytes[..n].copy_from_slice(&value.bits().to_le_bytes()[..n]);
}
