//! The iteration space of a parallel loop.

use super::Memory;
use super::error::{TOO_LARGE, TOO_LONG};
use super::launch::Launch;
use crate::Result;
use crate::entities::Field;
use crate::module::Span;
use smallvec::SmallVec;

/// The points of a loop, numbered from 0 in row-major order.
#[derive(Debug)]
pub(super) enum Points {
    /// Lower bound and extent of each axis.
    Box(SmallVec<[(i128, u64); 4]>),
    /// Cells that were active when the loop began: iteration number and coordinates.
    Listed(Vec<(u64, SmallVec<[i128; 4]>)>),
}

impl Points {
    /// `None` if there are too many to visit.
    pub(super) fn count(&self) -> Option<u64> {
        match self {
            Points::Box(axes) if axes.iter().any(|a| a.1 == 0) => Some(0),
            Points::Box(axes) => axes
                .iter()
                .try_fold(1u64, |n, a| n.checked_mul(a.1))
                .filter(|n| *n <= i64::MAX as u64),
            Points::Listed(cells) => Some(cells.len() as u64),
        }
    }

    /// The iteration number of a point, and its coordinates.
    pub(super) fn at(&self, k: u64) -> (u64, SmallVec<[i128; 4]>) {
        match self {
            Points::Box(axes) => {
                let mut number = k;
                let mut coords: SmallVec<[i128; 4]> = axes
                    .iter()
                    .rev()
                    .map(|(lo, extent)| {
                        let c = number % extent;
                        number /= extent;
                        lo + i128::from(c)
                    })
                    .collect();
                coords.reverse();
                (k, coords)
            }
            Points::Listed(cells) => cells[k as usize].clone(),
        }
    }
}

impl Launch<'_, '_> {
    /// The cells of a field that are active now.
    pub(super) fn cells_of(&self, field: Field, span: Span) -> Result<Points> {
        let domain = self.machine.field_domain(field);
        let axes = domain.axes.iter();
        if let Memory::Abstract { cells, routes, .. } = &self.machine.memory
            && routes[field].is_sparse()
        {
            let extents: SmallVec<[u64; 4]> = axes.map(|a| a.1).collect();
            let tree = self.machine.module.fields[field].tree;
            let Some(active) = cells[tree].active(&routes[field], &extents) else {
                return Err(self.error(TOO_LARGE, "too many cells are active", span));
            };
            let listed = active.iter();
            let listed = listed.map(|at| (domain.wrapped_number(at), domain.coords(at)));
            return Ok(Points::Listed(listed.collect()));
        }
        Ok(Points::Box(
            axes.map(|(lo, extent)| (i128::from(*lo), *extent))
                .collect(),
        ))
    }

    /// The number of points, if all can be visited.
    pub(super) fn turns(&self, points: &Points, span: Span) -> Result<u64> {
        let count = points.count();
        count.ok_or_else(|| self.error(TOO_LONG, "the loop has too many points", span))
    }
}
