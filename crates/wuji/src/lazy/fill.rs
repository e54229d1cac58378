//! Fills that wait: a field that is filled between launches does not end a window.

use crate::host::FieldHandle;
use crate::launch::Launch;
use crate::services::{Service, Subject};
use wuji_ir::Result;

impl FieldHandle {
    /// Adds a fill of all active elements to the window of a lazy world. `false`: the world does it now.
    pub(crate) fn fill_later(&self, value: &[u64]) -> Result<bool> {
        let world = &self.tree.world;
        // Tapes and tangents have work of their own with what the host writes.
        let plain = world.lazy().is_some() && !world.modes().are_used() && !world.is_recording();
        if !plain {
            return Ok(false);
        }
        world.ensure_open()?;
        let subject = Subject::Field(self.field);
        let (compiled, _) = self.tree.service(subject, Service::Fill)?;
        let launch = Launch {
            compiled: &compiled,
            params: value,
            trees: std::slice::from_ref(&self.tree),
            arrays: &[],
            scalars: &[],
            array_fields: &[],
            owners: &[],
        };
        Ok(launch.join_window(world)?.is_some())
    }
}
