//! Abstract stores: maps from coordinates to elements, independent of layouts.

use super::error::{TOO_LARGE, stop};
use crate::Result;
use crate::entities::Field;
use crate::module::Module;
use crate::types::{Imm, Scalar};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Coordinates minus the smallest ones of the field.
pub(super) type Relative = SmallVec<[u64; 4]>;

/// The domain of a field.
#[derive(Debug, Clone)]
pub(super) struct FieldDomain {
    /// Smallest coordinate and extent along each index.
    pub(super) axes: SmallVec<[(i64, u64); 4]>,
}

impl FieldDomain {
    pub(super) fn new(m: &Module, field: Field) -> FieldDomain {
        let data = &m.fields[field];
        let tree = &m.trees[data.tree];
        let path = tree.path(data.node);
        let axes = data
            .axes
            .iter()
            .map(|(axis, lo)| {
                let extent = path
                    .iter()
                    .flat_map(|n| &tree.nodes[*n].extents)
                    .filter(|e| e.0 == *axis)
                    .fold(1u64, |n, e| n.saturating_mul(e.1));
                (*lo, extent)
            })
            .collect();
        FieldDomain { axes }
    }

    /// `None` if the coordinates are out of range.
    pub(super) fn locate(&self, coords: &[i128]) -> Option<Relative> {
        self.axes
            .iter()
            .zip(coords)
            .map(|((lo, extent), c)| {
                let relative = c - i128::from(*lo);
                (0 <= relative && relative < i128::from(*extent)).then_some(relative as u64)
            })
            .collect()
    }

    /// Number of elements; saturates.
    pub(super) fn count(&self) -> u64 {
        self.axes
            .iter()
            .fold(1u64, |n, axis| n.saturating_mul(axis.1))
    }

    /// An element from its row-major number.
    fn relative(&self, mut number: u64) -> Relative {
        let mut at: Relative = self
            .axes
            .iter()
            .rev()
            .map(|(_, extent)| {
                let c = number % (*extent).max(1);
                number /= (*extent).max(1);
                c
            })
            .collect();
        at.reverse();
        at
    }

    /// The coordinates of an element.
    pub(super) fn coords(&self, at: &Relative) -> SmallVec<[i128; 4]> {
        let axes = self.axes.iter().zip(at);
        axes.map(|((lo, _), c)| i128::from(*lo) + i128::from(*c))
            .collect()
    }

    /// The coordinates of an element from its row-major number.
    pub(super) fn point(&self, number: u64) -> SmallVec<[i128; 4]> {
        self.coords(&self.relative(number))
    }

    /// The row-major number of an element, modulo 2^64.
    pub(super) fn wrapped_number(&self, at: &Relative) -> u64 {
        let axes = self.axes.iter().zip(at);
        axes.fold(0, |n, ((_, extent), c)| {
            n.wrapping_mul(*extent).wrapping_add(*c)
        })
    }
}

/// The elements of one field.
#[derive(Debug, Clone)]
pub(super) struct FieldStore {
    pub(super) domain: FieldDomain,
    /// The scalars of one element.
    pub(super) scalars: Vec<Scalar>,
    cells: Cells,
}

#[derive(Debug, Clone)]
enum Cells {
    /// Every element, row-major, as bits.
    All(Vec<u64>),
    /// Only the elements that were written to.
    Written(FxHashMap<Relative, Vec<u64>>),
}

impl FieldStore {
    /// Fields with more scalars than this store only written elements.
    const ALL_MAX: u64 = 1 << 24;

    pub(super) fn new(m: &Module, field: Field) -> FieldStore {
        let domain = FieldDomain::new(m, field);
        let scalars = m.structs.flatten(m.fields[field].elem);
        let total = domain.count().saturating_mul(scalars.len() as u64);
        let data = &m.fields[field];
        let sparse = !m.trees[data.tree].sparse_path(data.node).is_empty();
        let cells = if total <= Self::ALL_MAX && !sparse && data.has_memory() {
            Cells::All(vec![0; total as usize])
        } else {
            Cells::Written(FxHashMap::default())
        };
        FieldStore {
            domain,
            scalars,
            cells,
        }
    }

    /// Whether the other store has the same shape.
    pub(super) fn fits(&self, other: &FieldStore) -> bool {
        self.domain.axes == other.domain.axes
            && self.scalars == other.scalars
            && std::mem::discriminant(&self.cells) == std::mem::discriminant(&other.cells)
    }

    /// The row-major index of an element; callers have located it.
    fn number(&self, at: &Relative) -> usize {
        self.domain
            .axes
            .iter()
            .zip(at)
            .fold(0, |n, (axis, c)| n * axis.1 as usize + *c as usize)
    }

    pub(super) fn get(&self, at: &Relative, scalar: usize) -> Imm {
        let bits = match &self.cells {
            Cells::All(bits) => bits[self.number(at) * self.scalars.len() + scalar],
            Cells::Written(cells) => cells.get(at).map_or(0, |cell| cell[scalar]),
        };
        Imm::from_bits(self.scalars[scalar], bits)
    }

    pub(super) fn set(&mut self, at: &Relative, scalar: usize, value: Imm) {
        let width = self.scalars.len();
        let number = match self.cells {
            Cells::All(_) => self.number(at) * width + scalar,
            Cells::Written(_) => 0,
        };
        match &mut self.cells {
            Cells::All(bits) => bits[number] = value.bits(),
            Cells::Written(cells) => {
                cells.entry(at.clone()).or_insert_with(|| vec![0; width])[scalar] = value.bits();
            }
        }
    }

    /// Resets elements of a sparse field to zero.
    pub(super) fn remove(&mut self, which: impl Fn(&Relative) -> bool) {
        match &mut self.cells {
            Cells::All(_) => {}
            Cells::Written(cells) => cells.retain(|at, _| !which(at)),
        }
    }

    /// Every scalar, row-major.
    pub(super) fn all(&self) -> Result<Vec<Imm>> {
        match &self.cells {
            Cells::All(bits) => Ok(bits
                .iter()
                .zip(self.scalars.iter().cycle())
                .map(|(bits, ty)| Imm::from_bits(*ty, *bits))
                .collect()),
            Cells::Written(_) if self.domain.count() > Self::ALL_MAX => {
                Err(stop(TOO_LARGE, "the field is too large to list"))
            }
            Cells::Written(cells) => {
                let zeros = vec![0; self.scalars.len()];
                let mut all = Vec::new();
                for number in 0..self.domain.count() {
                    let at = self.domain.relative(number);
                    let bits = cells.get(&at).unwrap_or(&zeros);
                    let values = bits.iter().zip(&self.scalars);
                    all.extend(values.map(|(bits, ty)| Imm::from_bits(*ty, *bits)));
                }
                Ok(all)
            }
        }
    }
}
