//! Writes of the host to fields, while tapes record or in forward mode.

use crate::autodiff::CellChange;
use crate::autodiff::modes::{Mode, Modes};
use crate::autodiff::trees::{active, import};
use crate::host::{ElementBox, FieldHandle, Window};
use crate::layout::{LeafHandle, TreeInner};
use std::ops::Range;
use std::sync::Arc;
use wuji_ir::Result;
use wuji_ir::entities::Field;

/// How much of a field is written.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Extent {
    Whole,
    Some,
}

/// Elements that the host writes to.
#[derive(Debug)]
pub(crate) enum Elements<'e> {
    All,
    Box(&'e Window),
    /// Some bytes of one.
    One(&'e [i64], Range<usize>),
    /// Those with these coordinates, one after the other.
    Rows(&'e [i32]),
}

impl Elements<'_> {
    /// These elements of a field that holds some bytes of each; `None` if it holds none of those that are written.
    fn within(&self, leaf: &LeafHandle) -> Option<Elements<'_>> {
        Some(match self {
            Elements::All => Elements::All,
            Elements::Box(window) => Elements::Box(window),
            Elements::Rows(rows) => Elements::Rows(rows),
            Elements::One(at, part) => {
                let from = part.start.max(leaf.bytes.start);
                let to = part.end.min(leaf.bytes.end);
                let start = leaf.bytes.start;
                (from < to).then(|| Elements::One(at, from - start..to - start))?
            }
        })
    }

    /// Makes these elements of a tangent zero. In a sparse tree, only those that are active.
    fn clear(&self, tangent: &FieldHandle) -> Result<()> {
        if !tangent.is_dense()? && !matches!(self, Elements::All) {
            return self.clear_active(tangent);
        }
        let (access, size) = (tangent.access()?, tangent.size()?);
        match self {
            Elements::All => tangent.clear(),
            Elements::Box(window) => {
                let elements = ElementBox::new(&access, (*window).clone(), size);
                if elements.fill(&vec![0; size])? {
                    return Ok(());
                }
                elements.fill_by_kernel(&vec![0; tangent.scalars()?.len()])
            }
            Elements::One(at, part) => {
                let done = access.write(at, part.clone(), |bytes| bytes.fill(0));
                done.map(|_| ())
            }
            Elements::Rows(rows) => {
                let rank = access.domain().len().max(1);
                for at in rows.chunks_exact(rank) {
                    let at: Vec<i64> = at.iter().map(|c| i64::from(*c)).collect();
                    access.write(&at, 0..size, |bytes| bytes.fill(0))?;
                }
                Ok(())
            }
        }
    }

    fn clear_active(&self, tangent: &FieldHandle) -> Result<()> {
        let size = tangent.size()?;
        let rank = tangent.domain()?.len().max(1);
        let mut cells = active(tangent, true)?;
        let mut bytes: Vec<u8> = cells.values.iter().flat_map(|w| w.to_ne_bytes()).collect();
        let mut any = false;
        for (row, at) in cells.coordinates.chunks_exact(rank).enumerate() {
            if let Some(part) = self.part_of(at, tangent.domain()?, size) {
                bytes[row * size..][part].fill(0);
                any = true;
            }
        }
        if !any {
            return Ok(());
        }
        let words = cells.values.iter_mut().zip(bytes.as_chunks().0);
        words.for_each(|(word, chunk)| *word = u64::from_ne_bytes(*chunk));
        import(tangent, &cells)
    }

    /// The bytes that are written of the element at some coordinates.
    fn part_of(&self, at: &[i32], domain: &[(i64, u64)], size: usize) -> Option<Range<usize>> {
        let own = at.iter().map(|c| i64::from(*c));
        match self {
            Elements::All => Some(0..size),
            Elements::Box(window) => {
                let mut axes = own.zip(domain).zip(window.iter());
                let inside = axes.all(|((c, (from, _)), (lo, hi))| {
                    u64::try_from(c - from).is_ok_and(|c| (*lo..*hi).contains(&c))
                });
                inside.then_some(0..size)
            }
            Elements::One(one, part) => own.eq(one.iter().copied()).then(|| part.clone()),
            Elements::Rows(rows) => {
                let mut rows = rows.chunks_exact(at.len().max(1));
                rows.any(|row| row == at).then_some(0..size)
            }
        }
    }
}

impl TreeInner {
    /// Makes all elements zero, and all cells inactive.
    pub(crate) fn clear(&self) -> Result<()> {
        let body = self.body()?;
        self.world.run_pending()?;
        if self.world.modes().are_used() {
            let fields = body.shape.fields.iter().enumerate();
            for (n, _) in fields.filter(|(_, f)| !f.view) {
                self.before_write(Field::from_u32(n as u32), Extent::Whole)?;
            }
        }
        let sparse = body.shape.data.is_sparse();
        let pending = sparse.then(|| self.before_cells(CellChange::Deactivates));
        let pending = pending.transpose()?;
        body.memory.lock()?.clear()?;
        pending.map_or(Ok(()), |pending| self.after_cells(pending))
    }

    /// Lets the tapes of this thread copy what gradients need of a field, before the host writes to it.
    /// In forward mode, a field that is written as a whole loses its tangents; [`TreeInner::end_tangents`] is for parts of it.
    pub(crate) fn before_write(&self, field: Field, extent: Extent) -> Result<()> {
        if !self.world.modes().are_used() {
            return Ok(());
        }
        self.inform(self.world.modes(), field, extent)?;
        match extent {
            Extent::Whole => self.clear_tangents(field, &Elements::All),
            Extent::Some => Ok(()),
        }
    }

    /// In forward mode, makes the tangents of elements zero that the host writes to: they are constants then.
    pub(crate) fn end_tangents(&self, field: Field, elements: &Elements<'_>) -> Result<()> {
        if self.world.modes().are_used() {
            self.clear_tangents(field, elements)
        } else {
            Ok(())
        }
    }

    #[cold]
    fn clear_tangents(&self, field: Field, elements: &Elements<'_>) -> Result<()> {
        // The modes around forward mode know the tangents as values that the host writes to.
        let Some(_inside) = self.world.modes().leave_forward_mode() else {
            return Ok(());
        };
        let trees = self.world.trees();
        let own = trees.iter().find(|t| std::ptr::eq(Arc::as_ptr(t), self));
        let Some(tree) = own.cloned() else {
            return Ok(());
        };
        for leaf in (FieldHandle { tree, field }).leaves()? {
            let Some(elements) = elements.within(&leaf) else {
                continue;
            };
            for tangent in leaf.handle.tangents() {
                elements.clear(&tangent)?;
            }
        }
        Ok(())
    }

    #[cold]
    fn inform(&self, modes: &Modes, field: Field, extent: Extent) -> Result<()> {
        let trees = self.world.trees();
        let own = trees.iter().find(|t| std::ptr::eq(Arc::as_ptr(t), self));
        let Some(tree) = own.cloned() else {
            return Ok(());
        };
        let leaves = FieldHandle { tree, field }.leaves()?;
        // What is rounded again, because it shares an exponent, keeps its adjoint.
        let mut rounded = Vec::new();
        for leaf in &leaves {
            rounded.extend(leaf.handle.rounded_with()?);
        }
        let mut taken = modes.take();
        let mut recorded = true;
        for mode in taken.stack.iter_mut().rev() {
            match mode {
                Mode::Tape(recorder) => {
                    for field in &rounded {
                        recorder.host_write(field, Extent::Some, false)?;
                    }
                    for leaf in &leaves {
                        recorder.host_write(&leaf.handle, extent, recorded)?;
                    }
                }
                Mode::Watch(watcher) => {
                    for leaf in &leaves {
                        watcher.add(&leaf.handle)?;
                    }
                }
                Mode::Paused | Mode::Replaced => recorded = false,
                Mode::Gradient | Mode::Tangent => {}
            }
        }
        Ok(())
    }
}
