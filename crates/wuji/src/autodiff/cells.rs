//! Active cells of sparse trees, while tapes record: they are part of what gradient kernels need.

use crate::autodiff::Derivative;
use crate::autodiff::derive::DerivedTrees;
use crate::autodiff::modes::{Mode, Modes};
use crate::autodiff::recorder::{DEACTIVATED, Entry, RecordedUse, Recorder, SourcePlace};
use crate::autodiff::saves::{Unit, WholeTree};
use crate::autodiff::trees::Deactivated;
use crate::host::FieldHandle;
use crate::launch::Compiled;
use crate::layout::TreeInner;
use std::sync::Arc;
use wuji_compile::autodiff::{CellVersion, UseKind};
use wuji_ir::entities::Field;
use wuji_ir::module::Span;
use wuji_ir::{Error, Position, Result};

/// What the host does to cells.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum CellChange {
    Activates,
    Deactivates,
}

/// How a kernel on the tape uses the cells of a sparse tree.
pub(super) struct CellState {
    pub(super) unit: u32,
    pub(super) needs: Option<(CellVersion, Span)>,
    pub(super) activates: Option<Span>,
    pub(super) deactivates: Option<Span>,
}

impl Recorder {
    /// The sparse trees of a kernel.
    pub(super) fn cells(
        &mut self,
        compiled: &Compiled,
        trees: &[Arc<TreeInner>],
    ) -> Result<Vec<CellState>> {
        let mut cells = Vec::new();
        for used in compiled.cell_uses()?.iter() {
            let Some(tree) = trees.get(used.tree.as_u32() as usize) else {
                continue;
            };
            cells.push(CellState {
                unit: self.unit(Unit::Tree(WholeTree(tree.clone())))?,
                needs: used.needs,
                activates: used.activates,
                deactivates: used.deactivates,
            });
        }
        Ok(cells)
    }

    /// An error if a gradient kernel would not find the cells that it needs.
    pub(super) fn check_cells(
        &self,
        compiled: &Compiled,
        derived: &DerivedTrees,
        uses: &[RecordedUse],
        cells: &[CellState],
    ) -> Result<()> {
        let source = compiled.source()?;
        for state in cells {
            let own = || {
                uses.iter()
                    .filter(|u| self.fields[u.field as usize].unit == state.unit)
            };
            let changed = state.activates.or(state.deactivates);
            let fail = |at: Span, why: &str, help: &str| {
                let name = self.units[state.unit as usize].unit.name();
                let what = format!(
                    "kernel `{}` changes which cells of the tree of `{name}` are active, and its gradient needs them",
                    source.name
                );
                let mut error = Error::new("W0740", what).at(Position::of(source, at));
                if let Some(at) = changed.and_then(|span| Position::of(source, span)) {
                    error = error.note(format!("cells change at {at}"));
                }
                Err(error.note(why.to_owned()).help(help.to_owned()))
            };
            if let Some(at) = state.deactivates {
                let differentiable = |u: &RecordedUse| {
                    let field = &self.fields[u.field as usize].handle;
                    let has = field.derivative(Derivative::Adjoint).is_some();
                    has || matches!(u.kind, UseKind::NeedsOld | UseKind::NeedsNew)
                };
                if own().any(differentiable) && !derived.is_empty() {
                    return fail(
                        at,
                        "it deactivates cells and uses elements of the same tree",
                        "deactivate the cells in a kernel of its own, or with `deactivate_all` of the host",
                    );
                }
            }
            match state.needs {
                Some((CellVersion::Mixed, at)) => {
                    return fail(
                        at,
                        "it depends on the cells before and after that",
                        "split the kernel in two",
                    );
                }
                Some((CellVersion::Old, at)) if state.activates.is_some() => {
                    if own().any(|u| u.kind == UseKind::NeedsNew) {
                        return fail(
                            at,
                            "its gradient needs the cells from before it, and values from after it",
                            "split the kernel in two, or write to a field of another tree",
                        );
                    }
                    if self.has_own_gradients(state.unit) {
                        return fail(
                            at,
                            "its gradient needs the cells from before it, and gradients are in the cells that it activates",
                            "use `needs_grad` instead of `lazy_grad`: then gradients have a tree of their own",
                        );
                    }
                }
                Some((CellVersion::Same | CellVersion::Old | CellVersion::New, _)) | None => {}
            }
        }
        Ok(())
    }

    /// Whether the gradients of fields of a tree are in its own cells.
    fn has_own_gradients(&self, unit: u32) -> bool {
        let mut own = self.fields.iter().filter(|f| f.unit == unit);
        own.any(|f| {
            let adjoint = f.handle.derivative(Derivative::Adjoint);
            adjoint.is_some_and(|a| Arc::ptr_eq(&a.tree, &f.handle.tree))
        })
    }

    /// Notes that the gradient kernel of a launch needs the cells as they are now.
    pub(super) fn need_cells(&mut self, kernel: u32, version: CellVersion) {
        let recorded = &self.kernels[kernel as usize];
        if recorded.derived.is_empty() {
            return;
        }
        for state in &recorded.cells {
            if let Some((needed, span)) = state.needs
                && (needed == version || (needed, version) == (CellVersion::Same, CellVersion::New))
            {
                let place = SourcePlace { kernel, span };
                self.units[state.unit as usize].cells_needed_by = Some(place);
            }
        }
    }

    /// Copies the trees whose cells a launch changes, if a gradient kernel needs them.
    pub(super) fn save_cells(&mut self, kernel: u32) -> Result<()> {
        for n in 0..self.kernels[kernel as usize].cells.len() {
            let state = &self.kernels[kernel as usize].cells[n];
            let (unit, deactivates) = (state.unit, state.deactivates);
            if let Some(span) = deactivates.or(state.activates) {
                let by = Some(SourcePlace { kernel, span });
                self.change_cells(unit, deactivates.is_some(), by)?;
            }
        }
        Ok(())
    }

    /// Copies a tree before its cells change, if a gradient kernel needs it.
    fn change_cells(
        &mut self,
        unit: u32,
        deactivates: bool,
        by: Option<SourcePlace>,
    ) -> Result<()> {
        let mut needed = self.units[unit as usize].cells_needed_by;
        if deactivates && needed.is_none() {
            // An activated cell has the values that it had before: zeros. One that is deactivated loses them.
            let own = self.fields.iter().filter(|f| f.unit == unit);
            let field = own.into_iter().find(|f| !f.needed.is_empty());
            needed = field.map(|f| f.needed_by);
        }
        match needed {
            Some(needed) => self.copy(unit, needed, by),
            None => Ok(()),
        }
    }

    /// Notes the elements that a launch may deactivate.
    pub(super) fn before_deactivation(&mut self, kernel: u32) -> Result<()> {
        self.pending.clear();
        let cells = self.kernels[kernel as usize].cells.iter();
        let units: Vec<u32> = cells
            .filter(|c| c.deactivates.is_some())
            .map(|c| c.unit)
            .collect();
        units.into_iter().try_for_each(|unit| self.expect(unit))
    }

    fn expect(&mut self, unit: u32) -> Result<()> {
        if self.continues
            && let Unit::Tree(WholeTree(tree)) = &self.units[unit as usize].unit
        {
            // Earlier steps may have used all of its fields.
            let tree = tree.clone();
            let fields = tree.body()?.shape.fields.iter().enumerate();
            for (n, _) in fields.filter(|(_, f)| !f.view) {
                self.number_of(&FieldHandle {
                    tree: tree.clone(),
                    field: Field::from_u32(n as u32),
                })?;
            }
        }
        let mut handles: Vec<FieldHandle> = Vec::new();
        for field in self.fields.iter().filter(|f| f.unit == unit) {
            let used = self.continues || !field.touched.is_empty();
            if used && field.handle.derivative(Derivative::Adjoint).is_some() {
                handles.push(field.handle.clone());
            }
        }
        for handle in handles {
            let mut elements = Deactivated::before(&handle)?;
            elements.share(&self.pending);
            self.pending.push(elements);
        }
        Ok(())
    }

    /// Adds an entry for the elements that were deactivated.
    pub(super) fn after_deactivation(&mut self) -> Result<()> {
        let mut ended = Vec::new();
        for mut elements in std::mem::take(&mut self.pending) {
            if elements.after()? {
                ended.push(elements);
            }
        }
        if !ended.is_empty() {
            self.entries.push(Entry {
                what: self.deactivated.len() as u32,
                params: DEACTIVATED,
            });
            self.deactivated.push(ended);
        }
        Ok(())
    }

    /// Gets ready for a change of cells other than by a recorded launch.
    pub(crate) fn host_cells(
        &mut self,
        tree: &Arc<TreeInner>,
        deactivates: bool,
        recorded: bool,
    ) -> Result<()> {
        self.pending.clear();
        let whole = Unit::Tree(WholeTree(tree.clone()));
        let known = self.units.iter().position(|u| u.unit == whole);
        let unit = match known {
            Some(unit) => unit as u32,
            None if self.continues => self.unit(whole)?,
            None => return Ok(()),
        };
        self.change_cells(unit, deactivates, None)?;
        if recorded && deactivates {
            self.expect(unit)?;
        } else {
            self.separate();
        }
        Ok(())
    }

    /// After that.
    pub(crate) fn host_cells_changed(&mut self) -> Result<()> {
        self.after_deactivation()?;
        self.separate();
        Ok(())
    }
}

/// Elements with tangents in other cells, while the host deactivates some.
#[derive(Default)]
pub(crate) struct PendingCells(Vec<Deactivated>);

impl PendingCells {
    fn with_tangents(tree: &Arc<TreeInner>) -> Result<PendingCells> {
        let mut pending: Vec<Deactivated> = Vec::new();
        let fields = tree.body()?.shape.fields.iter().enumerate();
        for (n, _) in fields.filter(|(_, f)| !f.view) {
            let handle = FieldHandle {
                tree: tree.clone(),
                field: Field::from_u32(n as u32),
            };
            if !handle.tangents().is_empty() {
                let mut elements = Deactivated::before(&handle)?;
                elements.share(&pending);
                pending.push(elements);
            }
        }
        Ok(PendingCells(pending))
    }

    fn end_tangents(self, modes: &Modes) -> Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        // The modes around forward mode know the tangents as values that the host writes to.
        let _inside = modes.leave_forward_mode();
        for mut elements in self.0 {
            if elements.after()? {
                for tangent in elements.field.tangents() {
                    elements.end_tangents(&tangent)?;
                }
            }
        }
        Ok(())
    }
}

impl TreeInner {
    /// Lets the tapes of this thread copy a sparse tree that gradients need, before the host changes its cells.
    pub(crate) fn before_cells(&self, change: CellChange) -> Result<PendingCells> {
        let modes = self.world.modes();
        if modes.are_used() {
            return self.inform_of_cells(modes, change);
        }
        Ok(PendingCells::default())
    }

    #[cold]
    fn inform_of_cells(&self, modes: &Modes, change: CellChange) -> Result<PendingCells> {
        let mut pending = PendingCells::default();
        let trees = self.world.trees();
        let own = trees.iter().find(|t| std::ptr::eq(Arc::as_ptr(t), self));
        let Some(tree) = own else {
            return Ok(pending);
        };
        if change == CellChange::Deactivates && modes.leave_forward_mode().is_some() {
            pending = PendingCells::with_tangents(tree)?;
        }
        let mut taken = modes.take();
        let mut recorded = true;
        for mode in taken.stack.iter_mut().rev() {
            match mode {
                Mode::Tape(recorder) => {
                    recorder.host_cells(tree, change == CellChange::Deactivates, recorded)?;
                }
                Mode::Watch(watcher) => watcher.add_unit(Unit::Tree(WholeTree(tree.clone())))?,
                Mode::Paused | Mode::Replaced => recorded = false,
                Mode::Gradient | Mode::Tangent => {}
            }
        }
        Ok(pending)
    }

    /// Tells them that the cells have changed. In forward mode, elements that were deactivated have no tangents.
    pub(crate) fn after_cells(&self, pending: PendingCells) -> Result<()> {
        let modes = self.world.modes();
        if !modes.are_used() {
            return Ok(());
        }
        pending.end_tangents(modes)?;
        let mut taken = modes.take();
        for mode in &mut taken.stack {
            match mode {
                Mode::Tape(recorder) => recorder.host_cells_changed()?,
                Mode::Watch(_) | Mode::Paused | Mode::Replaced | Mode::Gradient | Mode::Tangent => {
                }
            }
        }
        Ok(())
    }
}
