//! Ranges of fields during a run: they are looked at after every launch that writes to them.

use super::storage::Range;
use crate::dynamic::{Field, read_slot};
use crate::host::FieldHandle;
use crate::launch::Compiled;
use crate::layout::TreeInner;
use crate::world::World;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use wuji_ir::Result;
use wuji_ir::entities;
use wuji_ir::ops::Place;
use wuji_ir::types::{Imm, Scalar};

/// Fields whose ranges are observed.
#[derive(Debug, Default)]
pub struct Watch {
    fields: Mutex<Vec<Watched>>,
    /// Fields of these names are added when a launch uses them: frontends may allocate them late.
    names: Mutex<Vec<String>>,
}

#[derive(Debug)]
struct Watched {
    handle: FieldHandle,
    range: Range,
    /// Whether it was looked at. The host may have written to it before the first launch.
    is_known: bool,
}

impl Watch {
    /// Observes all later launches of a world.
    pub fn start(self: &Arc<Watch>, world: &World) {
        world.set_watch(Some(Arc::downgrade(self)));
    }

    /// Ends it.
    pub fn stop(world: &World) {
        world.set_watch(None);
    }

    /// Adds all fields of a name, as soon as a launch uses them.
    pub fn add_name(&self, name: &str) {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.push(name.to_owned());
    }

    /// The range of a field, which is looked at once more.
    pub fn range_of(&self, field: &Field) -> Result<Range> {
        let known = |f: &Watched| f.handle == *field.handle();
        if !self.lock().iter().any(known) {
            self.add_handle(field.handle());
        }
        let mut fields = self.lock();
        let Some(watched) = fields.iter_mut().find(|f| known(f)) else {
            return Ok(Range::default());
        };
        watched.look()?;
        Ok(watched.range)
    }

    /// Adds fields by their names.
    fn find(&self, trees: &[Arc<TreeInner>]) -> Result<()> {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if names.is_empty() {
            return Ok(());
        }
        for tree in trees {
            let body = tree.body()?;
            for (number, name) in body.names.iter().enumerate() {
                let handle = FieldHandle {
                    tree: tree.clone(),
                    field: entities::Field::from_u32(number as u32),
                };
                let is_new = !self.lock().iter().any(|f| f.handle == handle);
                if names.contains(name) && !body.shape.fields[number].view && is_new {
                    self.add_handle(&handle);
                }
            }
        }
        Ok(())
    }

    pub(crate) fn add_handle(&self, handle: &FieldHandle) {
        self.lock().push(Watched {
            handle: handle.clone(),
            range: Range::default(),
            is_known: false,
        });
    }

    /// The ranges of the fields, which are looked at once more, in the order in which they were added.
    pub fn ranges(&self) -> Result<Vec<Range>> {
        let mut fields = self.lock();
        for field in fields.iter_mut() {
            field.look()?;
        }
        Ok(fields.iter().map(|f| f.range).collect())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Watched>> {
        self.fields.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Before a launch: what the host wrote.
    pub(crate) fn before(&self, trees: &[Arc<TreeInner>]) -> Result<()> {
        self.find(trees)?;
        for field in self.lock().iter_mut().filter(|f| !f.is_known) {
            if trees.iter().any(|t| Arc::ptr_eq(t, &field.handle.tree)) {
                field.look()?;
            }
        }
        Ok(())
    }

    /// After a launch: what it wrote.
    pub(crate) fn after(&self, compiled: &Compiled, trees: &[Arc<TreeInner>]) -> Result<()> {
        let Ok(module) = compiled.source() else {
            return Ok(());
        };
        let mut written: Vec<entities::Field> = Vec::new();
        for function in module.funcs.values() {
            function.walk(|inst| {
                let access = function.insts[inst].op.written_access();
                if let Some(Place::Field(field)) = access.map(|a| a.place) {
                    written.push(field);
                }
            });
        }
        written.sort();
        written.dedup();
        let first = compiled.first_fields();
        for watched in self.lock().iter_mut() {
            let tree = trees
                .iter()
                .position(|t| Arc::ptr_eq(t, &watched.handle.tree));
            let number = tree
                .and_then(|t| first.get(t))
                .map(|f| f + watched.handle.field.as_u32());
            if number.is_some_and(|n| written.contains(&entities::Field::from_u32(n))) {
                watched.look()?;
            }
        }
        Ok(())
    }
}

impl Watched {
    fn look(&mut self) -> Result<()> {
        self.is_known = true;
        let field = Field::of(&self.handle.tree(), self.handle.field.as_u32())?;
        let range = &mut self.range;
        field.visit(|x| range.add(x))
    }
}

impl Field {
    /// All numbers of the elements that exist, row by row.
    pub fn visit(&self, mut visit: impl FnMut(f64)) -> Result<()> {
        let (scalar, lanes) = self.parts()?;
        let size = scalar.bytes() as usize;
        let mut all = |bytes: &[u8]| {
            for one in bytes.chunks_exact(size) {
                visit(to_f64(scalar, read_slot(scalar, one)));
            }
        };
        if self.handle().is_dense()? {
            return self.read(all);
        }
        let access = self.handle().access()?;
        let found = access.export_cells(access.domain().len(), size * lanes)?;
        let bytes: Vec<u8> = found.values.iter().flat_map(|w| w.to_ne_bytes()).collect();
        all(&bytes[..found.rows * size * lanes]);
        Ok(())
    }
}

/// A scalar as a number.
pub(super) fn to_f64(scalar: Scalar, slot: u64) -> f64 {
    let value = Imm::from_bits(scalar, slot);
    value
        .as_float()
        .or_else(|| value.as_int().map(|n| n as f64))
        .unwrap_or(0.0)
}

impl World {
    /// Who observes the launches of this world.
    pub(crate) fn watch(&self) -> Option<Arc<Watch>> {
        self.watch_cell().get()
    }

    fn set_watch(&self, watch: Option<Weak<Watch>>) {
        self.watch_cell().set(watch);
    }
}

/// The observer of the launches of a world. Every launch looks for one; without, that is one load.
#[derive(Debug, Default)]
pub(crate) struct WatchCell {
    is_set: AtomicBool,
    watch: Mutex<Option<Weak<Watch>>>,
}

impl WatchCell {
    fn get(&self) -> Option<Arc<Watch>> {
        if !self.is_set.load(Ordering::Relaxed) {
            return None;
        }
        let watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        watch.as_ref().and_then(Weak::upgrade)
    }

    fn set(&self, watch: Option<Weak<Watch>>) {
        self.is_set.store(watch.is_some(), Ordering::Relaxed);
        *self.watch.lock().unwrap_or_else(PoisonError::into_inner) = watch;
    }
}
