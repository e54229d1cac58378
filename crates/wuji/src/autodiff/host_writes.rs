//! Writes of the host to fields, while tapes record.

use crate::autodiff::CellChange;
use crate::autodiff::modes::{Mode, Modes};
use crate::host::FieldHandle;
use crate::layout::TreeInner;
use std::sync::Arc;
use wuji_ir::Result;
use wuji_ir::entities::Field;

/// How much of a field is written.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Extent {
    Whole,
    Some,
}

impl TreeInner {
    /// Makes all elements zero, and all cells inactive.
    pub(crate) fn clear(&self) -> Result<()> {
        let body = self.body()?;
        if self.world.modes().are_used() {
            let fields = body.shape.fields.iter().enumerate();
            for (n, _) in fields.filter(|(_, f)| !f.view) {
                self.before_write(Field::from_u32(n as u32), Extent::Whole)?;
            }
        }
        let sparse = body.shape.data.is_sparse();
        if sparse {
            self.before_cells(CellChange::Deactivates)?;
        }
        body.memory.lock()?.clear()?;
        if sparse {
            self.after_cells()?;
        }
        Ok(())
    }

    /// Lets the tapes of this thread copy what gradients need of a field, before the host writes to it.
    pub(crate) fn before_write(&self, field: Field, extent: Extent) -> Result<()> {
        if self.world.modes().are_used() {
            self.inform(self.world.modes(), field, extent)
        } else {
            Ok(())
        }
    }

    #[cold]
    fn inform(&self, modes: &Modes, field: Field, extent: Extent) -> Result<()> {
        let trees = self.world.trees();
        let own = trees.iter().find(|t| std::ptr::eq(Arc::as_ptr(t), self));
        let Some(tree) = own.cloned() else {
            return Ok(());
        };
        let handle = FieldHandle { tree, field };
        let mut taken = modes.take();
        let mut recorded = true;
        for mode in taken.stack.iter_mut().rev() {
            match mode {
                Mode::Tape(recorder) => recorder.host_write(&handle, extent, recorded)?,
                Mode::Watch(watcher) => watcher.add(&handle)?,
                Mode::Paused => recorded = false,
                Mode::Gradient | Mode::Tangent => {}
            }
        }
        Ok(())
    }
}
