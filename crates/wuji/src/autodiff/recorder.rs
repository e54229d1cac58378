//! What a tape records: launches, and copies of what their gradients need.

use crate::autodiff::derive::{DerivedTrees, accessed, handle_of, written};
use crate::autodiff::modes::{can_record, records};
use crate::autodiff::region::{Index, Region, Slice};
use crate::autodiff::saves::Copy;
use crate::autodiff::{Derivative, Extent};
use crate::host::FieldHandle;
use crate::launch::{Compiled, Launch};
use crate::layout::TreeInner;
use crate::world::{World, lock};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::sync::{Arc, Mutex};
use wuji_compile::autodiff::UseKind;
use wuji_ir::entities;
use wuji_ir::module::{Module, Span};
use wuji_ir::types::Scalar;
use wuji_ir::{Error, Position, Result};

/// What runs instead of gradient kernels.
pub(crate) type Backward = Arc<dyn Fn() -> Result<()> + Send + Sync>;

/// A tape while it records.
pub(crate) struct Recorder {
    kernels: Vec<RecordedKernel>,
    /// By the addresses of the code and the trees, which the kernels keep alive.
    known: FxHashMap<SmallVec<[usize; 6]>, u32>,
    variants: Vec<Variant>,
    entries: Vec<Entry>,
    /// Of all launches, one after the other.
    params: Vec<u64>,
    custom: Vec<Backward>,
    fields: Vec<FieldState>,
    numbers: FxHashMap<FieldKey, u32>,
    /// The fields that kernels access, and their gradients. No field can be both.
    accessed: FxHashSet<FieldKey>,
    adjoints: FxHashSet<FieldKey>,
    /// Bytes of all copies, and the most that they may take.
    bytes: u64,
    limit: u64,
    /// Every field may have been used before the tape.
    continues: bool,
}

/// The address of a tree, which the tape keeps alive, and the number of a field in it.
type FieldKey = (usize, u32);

fn key_of(field: &FieldHandle) -> FieldKey {
    (Arc::as_ptr(&field.tree).addr(), field.field.as_u32())
}

/// Code and trees that were launched.
struct RecordedKernel {
    compiled: Arc<Compiled>,
    derived: DerivedTrees,
    uses: Vec<RecordedUse>,
    /// How many scalars its parameters have.
    slots: usize,
}

struct RecordedUse {
    /// In the tables of the tape.
    field: u32,
    /// In the module, if a store to it may end the life of a value that has an adjoint.
    stored: Option<entities::Field>,
    kind: UseKind,
    index: SmallVec<[Index; 4]>,
    span: Span,
}

/// A kernel whose gradient ends the adjoints of some fields that it stores to.
struct Variant {
    kernel: u32,
    overwritten: SmallVec<[entities::Field; 2]>,
    gradient: Mutex<Option<Arc<Compiled>>>,
}

/// A launch: its variant, and where its parameters start; or a custom gradient.
struct Entry {
    what: u32,
    params: u64,
}

/// The `params` of an entry that is a custom gradient.
const CUSTOM: u64 = u64::MAX;
/// That of an entry that is a field whose elements the host has overwritten.
const OVERWRITTEN: u64 = u64::MAX - 1;
/// That of an entry without a gradient, which separates the values before it from those after it.
const NOTHING: u64 = u64::MAX - 2;

/// A field that a launch on the tape uses.
struct FieldState {
    handle: FieldHandle,
    /// What launches have accessed so far.
    touched: Region,
    /// What gradient kernels need of the current values, and who needs it: the kernel and its use.
    needed: Region,
    needed_by: (u32, u32),
    copies: Vec<Saved>,
}

/// A copy of a field from before the launch with a number.
struct Saved {
    before: usize,
    copy: Copy,
    report: SavedField,
}

/// A field that a tape has copied, because a launch overwrites values that an earlier gradient kernel needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedField {
    /// The name of the field.
    pub name: String,
    /// The size of the copy.
    pub bytes: u64,
    /// Where the value is read.
    pub needed_at: Option<Position>,
    /// Where it is overwritten.
    pub overwritten_at: Option<Position>,
}

impl Recorder {
    pub(crate) fn new(world: &World) -> Recorder {
        Recorder {
            kernels: Vec::new(),
            known: FxHashMap::default(),
            variants: Vec::new(),
            entries: Vec::new(),
            params: Vec::new(),
            custom: Vec::new(),
            fields: Vec::new(),
            numbers: FxHashMap::default(),
            accessed: FxHashSet::default(),
            adjoints: FxHashSet::default(),
            bytes: 0,
            limit: world.tape_memory_limit(),
            continues: false,
        }
    }

    /// Treats every field as one that was used before.
    pub(crate) fn continuing(mut self) -> Recorder {
        self.continues = true;
        self
    }

    /// Gets ready for a launch that is about to run; gives its variant, if it has a gradient.
    pub(crate) fn prepare(&mut self, world: &World, launch: &Launch<'_>) -> Result<Option<u32>> {
        if world.is_recording() {
            can_record(world)?;
        }
        let kernel = match self.find(launch) {
            Some(kernel) => kernel,
            None => self.enter(launch)?,
        };
        let overwritten = self.overwritten(kernel, launch.params);
        self.save(kernel, launch.params)?;
        if self.kernels[kernel as usize].derived.is_empty() {
            return Ok(None);
        }
        Ok(Some(self.variant(kernel, overwritten)))
    }

    /// Adds a launch that has run.
    pub(crate) fn add(&mut self, variant: Option<u32>, params: &[u64]) {
        if let Some(what) = variant {
            let start = self.params.len() as u64;
            self.params.extend_from_slice(params);
            self.entries.push(Entry {
                what,
                params: start,
            });
        } else {
            self.separate();
        }
    }

    /// Separates later launches from the copies that were just made.
    fn separate(&mut self) {
        let now = self.entries.len();
        let newest = self.fields.iter().filter_map(|f| f.copies.last());
        if newest.into_iter().any(|c| c.before == now) {
            self.entries.push(Entry {
                what: 0,
                params: NOTHING,
            });
        }
    }

    pub(crate) fn add_custom(&mut self, backward: Backward) {
        self.entries.push(Entry {
            what: self.custom.len() as u32,
            params: CUSTOM,
        });
        self.custom.push(backward);
    }

    /// Copies what gradients need of the fields that a launch overwrites, which is not recorded.
    pub(crate) fn note_writes(&mut self, launch: &Launch<'_>) -> Result<()> {
        for field in written(launch.compiled.source()?) {
            if let Some(handle) = handle_of(launch.compiled, launch.trees, field) {
                self.host_write(&handle, Extent::Some, false)?;
            }
        }
        Ok(())
    }

    /// Copies what gradients need of a field, before it is overwritten other than by a recorded launch.
    pub(crate) fn host_write(
        &mut self,
        field: &FieldHandle,
        extent: Extent,
        recorded: bool,
    ) -> Result<()> {
        let Some(number) = self.numbers.get(&key_of(field)).copied() else {
            return Ok(());
        };
        let state = &self.fields[number as usize];
        if !state.needed.is_empty() {
            self.copy(number, None)?;
        }
        let state = &self.fields[number as usize];
        let used = !state.touched.is_empty() || self.continues;
        if !recorded || !used || field.derivative(Derivative::Adjoint).is_none() {
            self.separate();
            return Ok(());
        }
        match extent {
            Extent::Whole => {
                self.entries.push(Entry {
                    what: number,
                    params: OVERWRITTEN,
                });
                Ok(())
            }
            Extent::Some => {
                let what = format!(
                    "the host writes to elements of field `{}` while a tape records",
                    field.name()
                );
                Err(Error::new("W0738", what)
                    .note("kernels on the tape have used the field, so the elements have gradients that would be wrong")
                    .help("write to them before the tape or in a kernel, or `fill` the whole field"))
            }
        }
    }

    fn find(&self, launch: &Launch<'_>) -> Option<u32> {
        self.known
            .get(&address(launch.compiled, launch.trees))
            .copied()
    }

    fn enter(&mut self, launch: &Launch<'_>) -> Result<u32> {
        let (compiled, trees) = (launch.compiled, launch.trees);
        let derived = DerivedTrees::adjoints(compiled, trees)?;
        let source = compiled.source()?;
        if !derived.is_empty() && !launch.arrays.is_empty() {
            let what = format!(
                "kernel `{}` cannot be on a tape: one of its arguments is an array of the host",
                compiled.name()
            );
            return Err(Error::new("W0735", what)
                .note("its gradient kernel runs later, when the array may be gone")
                .help("copy the array into a field, or launch the kernel in `no_grad`"));
        }
        self.check_levels(compiled, trees)?;
        let slots = slots(source);
        let stores = stores(source);
        let mut uses = Vec::new();
        if derived.is_empty() {
            // It has no gradient, but may overwrite what others need.
            for field in written(source) {
                uses.extend(self.recorded(compiled, trees, field, UseKind::Writes));
            }
        } else {
            for field_use in derived.uses(compiled)?.iter() {
                let field = field_use.field;
                let Some(mut recorded) = self.recorded(compiled, trees, field, field_use.kind)
                else {
                    continue;
                };
                let index = field_use.index.iter();
                recorded.index = index.map(|r| Index::of(*r, &slots)).collect();
                recorded.span = field_use.span;
                let ends = derived.has(field) && stores.contains(&field);
                recorded.stored = ends.then_some(field);
                uses.push(recorded);
            }
        }
        let number = self.kernels.len() as u32;
        self.known.insert(address(compiled, trees), number);
        self.kernels.push(RecordedKernel {
            compiled: compiled.clone(),
            derived,
            uses,
            slots: launch.params.len(),
        });
        Ok(number)
    }

    /// An error if a field is accessed on the tape and is also the gradient of one that is: its values would be mixed up.
    fn check_levels(&mut self, compiled: &Compiled, trees: &[Arc<TreeInner>]) -> Result<()> {
        let fields = accessed(compiled.source()?).into_iter();
        let fields: Vec<FieldHandle> = fields
            .filter_map(|f| handle_of(compiled, trees, f))
            .collect();
        for field in &fields {
            self.accessed.insert(key_of(field));
            let adjoint = field.derivative(Derivative::Adjoint);
            self.adjoints.extend(adjoint.as_ref().map(key_of));
        }
        let both = fields.iter().find_map(|field| {
            let adjoint = field.derivative(Derivative::Adjoint);
            let adjoint = adjoint.filter(|a| self.accessed.contains(&key_of(a)));
            let own = self.adjoints.contains(&key_of(field));
            adjoint.or_else(|| own.then(|| field.clone()))
        });
        let Some(field) = both else {
            return Ok(());
        };
        let (kernel, name) = (compiled.name(), field.name());
        let what = format!(
            "kernel `{kernel}` cannot be on this tape: field `{name}` would be a value and a gradient"
        );
        Err(Error::new("W0739", what)
            .note("a kernel on the tape accesses the field, and it is the gradient of another field on the tape")
            .help("use gradients after the tape; for second derivatives, use `forward_mode` around the tape"))
    }

    /// A use of a field at unknown indices.
    fn recorded(
        &mut self,
        compiled: &Compiled,
        trees: &[Arc<TreeInner>],
        field: entities::Field,
        kind: UseKind,
    ) -> Option<RecordedUse> {
        let handle = handle_of(compiled, trees, field)?;
        let key = key_of(&handle);
        let next = self.fields.len() as u32;
        let number = *self.numbers.entry(key).or_insert(next);
        if number == next {
            self.fields.push(FieldState {
                handle,
                touched: Region::default(),
                needed: Region::default(),
                needed_by: (0, 0),
                copies: Vec::new(),
            });
        }
        Some(RecordedUse {
            field: number,
            stored: None,
            kind,
            index: SmallVec::new(),
            span: Span::UNKNOWN,
        })
    }

    /// The fields of which a launch overwrites values that have an adjoint.
    fn overwritten(&mut self, kernel: u32, params: &[u64]) -> SmallVec<[entities::Field; 2]> {
        let mut overwritten = SmallVec::new();
        let uses = &self.kernels[kernel as usize].uses;
        for field_use in uses.iter().filter(|u| u.kind == UseKind::Writes) {
            let Some(field) = field_use.stored else {
                continue;
            };
            let touched = &self.fields[field_use.field as usize].touched;
            let used = self.continues || touched.overlaps(&field_use.slice(params));
            if used && !overwritten.contains(&field) {
                overwritten.push(field);
            }
        }
        for field_use in uses {
            match field_use.kind {
                UseKind::Reads | UseKind::Writes => {
                    let state = &mut self.fields[field_use.field as usize];
                    state.touched.add(&field_use.slice(params));
                }
                UseKind::NeedsOld | UseKind::NeedsNew => {}
            }
        }
        overwritten
    }

    /// Copies the fields of which a launch overwrites values that a gradient kernel needs.
    fn save(&mut self, kernel: u32, params: &[u64]) -> Result<()> {
        let count = self.kernels[kernel as usize].uses.len();
        for (n, kind) in [UseKind::NeedsOld, UseKind::Writes, UseKind::NeedsNew]
            .iter()
            .flat_map(|kind| (0..count).map(move |n| (n, *kind)))
        {
            let field_use = &self.kernels[kernel as usize].uses[n];
            if field_use.kind != kind {
                continue;
            }
            let slice = field_use.slice(params);
            let state = &mut self.fields[field_use.field as usize];
            match kind {
                UseKind::NeedsOld | UseKind::NeedsNew => {
                    state.needed.add(&slice);
                    state.needed_by = (kernel, n as u32);
                }
                UseKind::Writes if state.needed.overlaps(&slice) => {
                    let number = field_use.field;
                    self.copy(number, Some((kernel, n as u32)))?;
                }
                UseKind::Writes | UseKind::Reads => {}
            }
        }
        self.old_and_new(kernel, params)
    }

    /// An error if a gradient kernel needs an element as it was before and as it is after the launch.
    fn old_and_new(&self, kernel: u32, params: &[u64]) -> Result<()> {
        let recorded = &self.kernels[kernel as usize];
        let of = |kind: UseKind| recorded.uses.iter().filter(move |u| u.kind == kind);
        for new in of(UseKind::NeedsNew) {
            let mut written = Region::default();
            for write in of(UseKind::Writes).filter(|w| w.field == new.field) {
                written.add(&write.slice(params));
            }
            let old = of(UseKind::NeedsOld)
                .find(|o| o.field == new.field && written.overlaps(&o.slice(params)));
            if let Some(old) = old.filter(|_| written.overlaps(&new.slice(params))) {
                let source = recorded.compiled.source()?;
                let name = self.fields[new.field as usize].handle.name().to_owned();
                let what = format!(
                    "the gradient of kernel `{}` needs values of field `{name}` from before and from after it",
                    source.name
                );
                let mut error = Error::new("W0736", what).at(Position::of(source, new.span));
                if let Some(at) = Position::of(source, old.span) {
                    error = error.note(format!("the value from before is needed at {at}"));
                }
                return Err(error.help("write to another field, or split the kernel in two"));
            }
        }
        Ok(())
    }

    /// Copies a field before a use of a kernel, or the host, overwrites it.
    fn copy(&mut self, number: u32, by: Option<(u32, u32)>) -> Result<()> {
        let position = |(kernel, n): (u32, u32)| {
            let recorded = &self.kernels[kernel as usize];
            let span = recorded.uses.get(n as usize)?.span;
            Position::of(recorded.compiled.source().ok()?, span)
        };
        let number = number as usize;
        let state = &self.fields[number];
        let report = SavedField {
            name: state.handle.name().to_owned(),
            bytes: Copy::bytes_of(&state.handle)?,
            needed_at: position(state.needed_by),
            overwritten_at: by.and_then(position),
        };
        if self.bytes.saturating_add(report.bytes) > self.limit {
            return Err(too_large(&report, self.bytes, self.limit));
        }
        let copy = Copy::take(&state.handle)?;
        self.bytes += report.bytes;
        let before = self.entries.len();
        let state = &mut self.fields[number];
        state.needed.clear();
        state.copies.push(Saved {
            before,
            copy,
            report,
        });
        Ok(())
    }

    fn variant(&mut self, kernel: u32, overwritten: SmallVec<[entities::Field; 2]>) -> u32 {
        let same = |v: &Variant| v.kernel == kernel && v.overwritten == overwritten;
        // There are one or two for a kernel, the latest last.
        if let Some(known) = self.variants.iter().rposition(same) {
            return known as u32;
        }
        self.variants.push(Variant {
            kernel,
            overwritten,
            gradient: Mutex::default(),
        });
        self.variants.len() as u32 - 1
    }

    /// How many launches there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The copies that were made.
    pub(crate) fn saved(&self) -> Vec<SavedField> {
        let copies = self.fields.iter().flat_map(|f| &f.copies);
        copies.map(|c| c.report.clone()).collect()
    }

    /// Runs the gradients in reverse order.
    pub(crate) fn backward(&self, world: &World) -> Result<()> {
        can_record(world)?;
        let copied = self.fields.iter().find(|f| !f.copies.is_empty());
        if let Some(field) = copied.filter(|_| records(world)) {
            let name = field.handle.name();
            let what = format!(
                "an outer tape cannot record gradients that need earlier values of field `{name}`"
            );
            return Err(Error::new("W0739", what)
                .note("the inner tape has copied the field, because its launches overwrite it")
                .help(
                    "keep a history axis, `x[[t + 1, i]] = ..`, so that nothing is overwritten",
                ));
        }
        self.sweep(world, Restored::new(self)?)
    }

    fn sweep(&self, world: &World, mut restored: Restored<'_>) -> Result<()> {
        for (number, entry) in self.entries.iter().enumerate().rev() {
            if entry.params == CUSTOM {
                (self.custom[entry.what as usize])()?;
                continue;
            }
            if entry.params == NOTHING {
                continue;
            }
            if entry.params == OVERWRITTEN {
                let field = &self.fields[entry.what as usize].handle;
                field.expect_derivative(Derivative::Adjoint)?.clear()?;
                continue;
            }
            let variant = &self.variants[entry.what as usize];
            let kernel = &self.kernels[variant.kernel as usize];
            restored.bring(kernel, number)?;
            let gradient = self.gradient(world, variant)?;
            let start = entry.params as usize;
            let launched = Launch {
                compiled: &gradient,
                params: &self.params[start..start + kernel.slots],
                trees: &kernel.derived.trees,
                arrays: &[],
            }
            .run(world)?;
            if let Some(error) = launched.error {
                return Err(error);
            }
        }
        restored.finish()
    }

    fn gradient(&self, world: &World, variant: &Variant) -> Result<Arc<Compiled>> {
        let mut gradient = lock(&variant.gradient);
        if let Some(gradient) = &*gradient {
            return Ok(gradient.clone());
        }
        let kernel = &self.kernels[variant.kernel as usize];
        let found = kernel
            .derived
            .gradient(world, &kernel.compiled, &variant.overwritten)?;
        Ok(gradient.insert(found).clone())
    }
}

impl RecordedUse {
    fn slice(&self, params: &[u64]) -> Slice {
        self.index.iter().map(|i| i.value(params)).collect()
    }
}

/// Fields while gradients run, which get their last values back at the end.
struct Restored<'t> {
    recorder: &'t Recorder,
    /// Of each field with copies: its last values, and the copy that it has now.
    fields: FxHashMap<u32, (Copy, Option<usize>)>,
}

impl<'t> Restored<'t> {
    fn new(recorder: &'t Recorder) -> Result<Restored<'t>> {
        let mut fields = FxHashMap::default();
        for (number, state) in recorder.fields.iter().enumerate() {
            if !state.copies.is_empty() {
                fields.insert(number as u32, (Copy::take(&state.handle)?, None));
            }
        }
        Ok(Restored { recorder, fields })
    }

    /// Gives fields the values that the gradient kernel of a launch needs.
    fn bring(&mut self, kernel: &RecordedKernel, launch: usize) -> Result<()> {
        if self.fields.is_empty() {
            return Ok(());
        }
        // Where old values are needed, the others are the same before and after the launch.
        for (kind, time) in [(UseKind::NeedsNew, launch + 1), (UseKind::NeedsOld, launch)] {
            for field_use in kernel.uses.iter().filter(|u| u.kind == kind) {
                let number = field_use.field;
                let Some((last, now)) = self.fields.get_mut(&number) else {
                    continue;
                };
                let state = &self.recorder.fields[number as usize];
                let first = state.copies.partition_point(|c| c.before < time);
                let wanted = (first < state.copies.len()).then_some(first);
                if *now == wanted {
                    continue;
                }
                match wanted {
                    Some(n) => state.copies[n].copy.restore(&state.handle)?,
                    None => last.restore(&state.handle)?,
                }
                *now = wanted;
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        self.restore()
    }

    fn restore(&mut self) -> Result<()> {
        for (number, (last, now)) in self.fields.drain() {
            if now.is_some() {
                last.restore(&self.recorder.fields[number as usize].handle)?;
            }
        }
        Ok(())
    }
}

impl Drop for Restored<'_> {
    fn drop(&mut self) {
        // After an error, which is worth more than another one.
        let _ = self.restore();
    }
}

/// What identifies a launch up to its parameters.
fn address(compiled: &Arc<Compiled>, trees: &[Arc<TreeInner>]) -> SmallVec<[usize; 6]> {
    let trees = trees.iter().map(|t| Arc::as_ptr(t).addr());
    std::iter::once(Arc::as_ptr(compiled).addr())
        .chain(trees)
        .collect()
}

/// The first slot and the type of each parameter that is one integer.
fn slots(source: &Module) -> Vec<Option<(usize, Scalar)>> {
    let mut next = 0;
    let params = source.params.iter().map(|p| {
        let scalars = source.structs.flatten(p.ty);
        let slot = next;
        next += scalars.len();
        match *scalars {
            [scalar] if scalar.is_int() => Some((slot, scalar)),
            _ => None,
        }
    });
    params.collect()
}

/// The fields that a kernel stores to, other than by atomics.
fn stores(source: &Module) -> Vec<entities::Field> {
    use wuji_ir::ops::{Op, Place};
    let insts = source.funcs.values().flat_map(|f| f.insts.values());
    let stored = insts.filter_map(|inst| {
        if let Op::Store(access) = &inst.op
            && let Place::Field(field) = access.place
        {
            return Some(field);
        }
        None
    });
    stored.collect()
}

fn too_large(report: &SavedField, used: u64, limit: u64) -> Error {
    let name = &report.name;
    let what = format!(
        "a tape has no memory for another copy of field `{name}`, whose values are overwritten"
    );
    let mut error = Error::new("W0737", what).at(report.overwritten_at.clone());
    if let Some(at) = &report.needed_at {
        error = error.note(format!("the gradient needs the value that is read at {at}"));
    }
    let bytes = report.bytes;
    error
        .note(format!(
            "the copy has {bytes} bytes; the tape has {used} of at most {limit} bytes already"
        ))
        .help("keep a history axis, `x[[t + 1, i]] = ..`, use `tape_steps`, or raise `set_tape_memory_limit`")
}
