//! What a tape records: launches, and copies of what their gradients need.

use crate::autodiff::cells::CellState;
use crate::autodiff::derive::{DerivedTrees, accessed, written};
use crate::autodiff::modes::can_record;
use crate::autodiff::parts::{Prepared, SplitKernel};
use crate::autodiff::region::{Index, Region, Slice};
use crate::autodiff::saves::{Snapshot, Unit, WholeTree};
use crate::autodiff::trees::{Deactivated, First};
use crate::autodiff::{Derivative, Extent};
use crate::host::FieldHandle;
use crate::launch::{Compiled, Launch};
use crate::world::World;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::panic::Location;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use wuji_compile::autodiff::{CellVersion, UseKind};
use wuji_compile::{Decision, Remark};
use wuji_ir::entities;
use wuji_ir::module::{Module, Span};
use wuji_ir::ops::{Op, Place};
use wuji_ir::types::Scalar;
use wuji_ir::{Error, Position, Result};

/// What runs instead of gradient kernels.
pub(crate) type Backward = Arc<dyn Fn() -> Result<()> + Send + Sync>;

/// A tape while it records.
pub(crate) struct Recorder {
    pub(super) kernels: Vec<RecordedKernel>,
    /// By the addresses of the code and the trees, which the kernels keep alive.
    known: FxHashMap<SmallVec<[usize; 6]>, u32>,
    /// Kernels that run in parts, in the same way.
    pub(super) splits: FxHashMap<SmallVec<[usize; 6]>, SplitKernel>,
    pub(super) variants: Vec<Variant>,
    pub(super) entries: Vec<Entry>,
    /// Of all launches, one after the other.
    pub(super) params: Vec<u64>,
    pub(super) custom: Vec<Backward>,
    pub(super) fields: Vec<FieldState>,
    numbers: FxHashMap<FieldKey, u32>,
    /// What is copied: fields of dense trees, and sparse trees.
    pub(super) units: Vec<UnitState>,
    /// Elements whose adjoints end, because their cells are deactivated.
    pub(super) deactivated: Vec<Vec<Deactivated>>,
    /// The same for what runs now.
    pub(super) pending: Vec<Deactivated>,
    /// The fields that kernels access, and their gradients. A field that is both is a value on this tape.
    pub(super) accessed: FxHashSet<FieldKey>,
    pub(super) adjoints: FxHashSet<FieldKey>,
    /// Whether gradients have overwritten values of the tape.
    pub(super) is_spent: AtomicBool,
    /// Bytes of all copies, and the most that they may take.
    bytes: u64,
    limit: u64,
    /// Units with the kernels that need and overwrite them, of which `explain` knows.
    explained: Vec<(u32, u32, Option<u32>)>,
    /// Every field may have been used before the tape.
    pub(super) continues: bool,
}

/// The address of a tree, which the tape keeps alive, and the number of a field in it.
pub(super) type FieldKey = (usize, u32);

pub(super) fn key_of(field: &FieldHandle) -> FieldKey {
    (Arc::as_ptr(&field.tree).addr(), field.field.as_u32())
}

/// Code and trees that were launched.
pub(super) struct RecordedKernel {
    pub(super) compiled: Arc<Compiled>,
    pub(super) derived: DerivedTrees,
    pub(super) uses: Vec<RecordedUse>,
    pub(super) cells: Vec<CellState>,
    /// How many scalars its parameters have.
    pub(super) slots: usize,
}

pub(super) struct RecordedUse {
    /// In the tables of the tape.
    pub(super) field: u32,
    /// In the module, if a store to it may end the life of a value that has an adjoint.
    stored: Option<Place>,
    pub(super) kind: UseKind,
    index: SmallVec<[Index; 4]>,
    pub(super) span: Span,
}

/// A kernel whose gradient ends the adjoints of some fields that it stores to.
pub(super) struct Variant {
    pub(super) kernel: u32,
    pub(super) overwritten: SmallVec<[Place; 2]>,
    pub(super) gradient: Mutex<Option<Arc<Compiled>>>,
}

/// A launch: its variant, and where its parameters start; or a custom gradient.
pub(super) struct Entry {
    pub(super) what: u32,
    pub(super) params: u64,
}

/// The `params` of an entry that is a custom gradient.
pub(super) const CUSTOM: u64 = u64::MAX;
/// That of an entry that is a field whose elements the host has overwritten.
pub(super) const OVERWRITTEN: u64 = u64::MAX - 1;
/// That of an entry without a gradient, which separates the values before it from those after it.
pub(super) const NOTHING: u64 = u64::MAX - 2;
/// That of an entry that is a list of deactivated elements.
pub(super) const DEACTIVATED: u64 = u64::MAX - 3;

/// A field that a launch on the tape uses.
pub(super) struct FieldState {
    pub(super) handle: FieldHandle,
    /// What launches have accessed so far.
    pub(super) touched: Region,
    /// What gradient kernels need of the current values, and who needs it.
    pub(super) needed: Region,
    pub(super) needed_by: SourcePlace,
    pub(super) unit: u32,
}

/// A unit with its copies.
pub(super) struct UnitState {
    pub(super) unit: Unit,
    /// Who needs the cells of a sparse tree as they are now.
    pub(super) cells_needed_by: Option<SourcePlace>,
    /// What was active when the tape met it.
    pub(super) first: First,
    pub(super) copies: Vec<Saved>,
}

/// A place in a kernel on the tape.
#[derive(Copy, Clone)]
pub(super) struct SourcePlace {
    pub(super) kernel: u32,
    pub(super) span: Span,
}

/// A copy from before the launch with a number.
pub(super) struct Saved {
    pub(super) before: usize,
    pub(super) copy: Snapshot,
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
            splits: FxHashMap::default(),
            variants: Vec::new(),
            entries: Vec::new(),
            params: Vec::new(),
            custom: Vec::new(),
            fields: Vec::new(),
            numbers: FxHashMap::default(),
            units: Vec::new(),
            deactivated: Vec::new(),
            pending: Vec::new(),
            accessed: FxHashSet::default(),
            adjoints: FxHashSet::default(),
            is_spent: AtomicBool::new(false),
            bytes: 0,
            limit: world.tape_memory_limit(),
            explained: Vec::new(),
            continues: false,
        }
    }

    /// Treats every field as one that was used before.
    pub(crate) fn continuing(mut self) -> Recorder {
        self.continues = true;
        self
    }

    /// Gets ready for a launch that is about to run. One that runs in parts is not recorded itself.
    pub(crate) fn prepare(&mut self, world: &World, launch: &Launch<'_>) -> Result<Prepared> {
        if world.is_recording() {
            can_record(world)?;
        }
        let found = match self.find(launch) {
            Some(kernel) => Ok(kernel),
            None => self.enter(launch),
        };
        let found = found.and_then(|kernel| {
            self.old_and_new(kernel, launch.params)?;
            Ok(kernel)
        });
        let kernel = match found {
            Ok(kernel) => kernel,
            Err(error) => return self.split(world, launch, error),
        };
        let overwritten = self.overwritten(kernel, launch.params);
        self.save(kernel, launch.params)?;
        self.before_deactivation(kernel)?;
        if self.kernels[kernel as usize].derived.is_empty() {
            return Ok(Prepared::Whole(None));
        }
        Ok(Prepared::Whole(Some(self.variant(kernel, overwritten))))
    }

    /// Adds a launch that has run.
    pub(crate) fn add(&mut self, variant: Option<u32>, params: &[u64]) -> Result<()> {
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
        self.after_deactivation()
    }

    /// Separates later launches from the copies that were just made.
    pub(super) fn separate(&mut self) {
        let now = self.entries.len();
        let newest = self.units.iter().filter_map(|f| f.copies.last());
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
        for place in written(launch.compiled.source()?) {
            if let Some(handle) = launch.field_of(place) {
                self.host_write(&handle, Extent::Some, false)?;
            }
        }
        for used in launch.compiled.cell_uses()?.iter() {
            let (activates, deactivates) = (used.activates.is_some(), used.deactivates.is_some());
            if let Some(tree) = launch.trees.get(used.tree.as_u32() as usize)
                && (activates || deactivates)
            {
                self.host_cells(tree, deactivates, false)?;
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
        let known = self.numbers.get(&key_of(field)).copied();
        // What earlier steps may have used is known from now on.
        let known = match known {
            None if self.continues => Some(self.number_of(field)?),
            known => known,
        };
        let Some(number) = known else {
            return Ok(());
        };
        let state = &self.fields[number as usize];
        if !state.needed.is_empty() {
            let needed_by = state.needed_by;
            self.copy(state.unit, needed_by, None)?;
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
        self.known.get(&launch.address()).copied()
    }

    fn enter(&mut self, launch: &Launch<'_>) -> Result<u32> {
        let compiled = launch.compiled;
        self.note_levels(launch)?;
        let derived = DerivedTrees::adjoints(launch)?;
        let source = compiled.source()?;
        if !derived.is_empty() && launch.array_fields.len() < launch.arrays.len() {
            let what = format!(
                "kernel `{}` cannot be on a tape: one of its arguments is an array of the host",
                compiled.name()
            );
            return Err(Error::new("W0735", what)
                .note("its gradient kernel runs later, when the array may be gone")
                .help(
                    "copy the array into a field or a `NdArray`, or launch the kernel in `no_grad`",
                ));
        }
        let mut uses = Vec::new();
        if derived.is_empty() {
            // It has no gradient, but may overwrite what others need.
            for place in written(source) {
                uses.extend(self.recorded(launch, place, UseKind::Writes));
            }
        } else {
            let found = derived.uses(compiled)?;
            let (slots, stores) = (slots(source), stores(source));
            let fields = found.fields.iter();
            let fields = fields.map(|u| (Place::Field(u.field), u.kind, &u.index, u.span));
            let arrays = found.arrays.iter();
            let arrays = arrays.map(|u| (Place::Array(u.array), u.kind, &u.index, u.span));
            for (place, kind, index, span) in fields.chain(arrays) {
                let Some(mut recorded) = self.recorded(launch, place, kind) else {
                    continue;
                };
                recorded.index = index.iter().map(|r| Index::of(*r, &slots)).collect();
                recorded.span = span;
                let ends = derived.has(place) && stores.contains(&place);
                recorded.stored = ends.then_some(place);
                uses.push(recorded);
            }
        }
        for (_, field) in launch.scalars {
            // The host may set the parameter later.
            let field = self.number_of(field)?;
            uses.push(RecordedUse::anywhere(field, UseKind::Reads));
        }
        let cells = self.cells(compiled, launch.trees)?;
        if !derived.is_empty() {
            self.check_cells(compiled, &derived, &uses, &cells)?;
        }
        let number = self.kernels.len() as u32;
        self.known.insert(launch.address(), number);
        self.kernels.push(RecordedKernel {
            compiled: compiled.clone(),
            derived,
            uses,
            cells,
            slots: launch.params.len(),
        });
        Ok(number)
    }

    /// Notes which fields the tape accesses, and their gradients. A gradient that is accessed is a value as well: it gets a gradient of its
    /// own, and the tape another place for adjoints of its field (see `levels`).
    pub(super) fn note_levels(&mut self, launch: &Launch<'_>) -> Result<()> {
        let places = accessed(launch.compiled.source()?).into_iter();
        let fields = places.filter_map(|place| launch.field_of(place));
        let scalars = launch.scalars.iter().map(|(_, field)| field.clone());
        let fields: Vec<FieldHandle> = fields.chain(scalars).collect();
        for field in &fields {
            self.accessed.insert(key_of(field));
            let adjoint = field.derivative(Derivative::Adjoint);
            self.adjoints.extend(adjoint.as_ref().map(key_of));
        }
        for field in &fields {
            if self.adjoints.contains(&key_of(field)) {
                field.needs_derivative(Derivative::Adjoint, Location::caller())?;
            }
        }
        Ok(())
    }

    /// A use of a field at unknown indices.
    fn recorded(
        &mut self,
        launch: &Launch<'_>,
        place: Place,
        kind: UseKind,
    ) -> Option<RecordedUse> {
        let handle = launch.field_of(place)?;
        let number = self.number_of(&handle).ok()?;
        Some(RecordedUse::anywhere(number, kind))
    }

    /// The number of a field in the tables of the tape.
    pub(super) fn number_of(&mut self, handle: &FieldHandle) -> Result<u32> {
        let key = key_of(handle);
        if let Some(known) = self.numbers.get(&key) {
            return Ok(*known);
        }
        let unit = self.unit(Unit::of(handle)?)?;
        let number = self.fields.len() as u32;
        self.numbers.insert(key, number);
        self.fields.push(FieldState {
            handle: handle.clone(),
            touched: Region::default(),
            needed: Region::default(),
            needed_by: SourcePlace {
                kernel: 0,
                span: Span::UNKNOWN,
            },
            unit,
        });
        Ok(number)
    }

    /// The number of a unit in the tables of the tape.
    pub(super) fn unit(&mut self, unit: Unit) -> Result<u32> {
        let known = self.units.iter().position(|u| u.unit == unit);
        if let Some(known) = known {
            return Ok(known as u32);
        }
        self.units.push(UnitState {
            first: unit.first()?,
            unit,
            cells_needed_by: None,
            copies: Vec::new(),
        });
        Ok(self.units.len() as u32 - 1)
    }

    /// The fields of which a launch overwrites values that have an adjoint.
    fn overwritten(&mut self, kernel: u32, params: &[u64]) -> SmallVec<[Place; 2]> {
        let mut overwritten = SmallVec::new();
        let uses = &self.kernels[kernel as usize].uses;
        for field_use in uses.iter().filter(|u| u.kind == UseKind::Writes) {
            let Some(place) = field_use.stored else {
                continue;
            };
            let touched = &self.fields[field_use.field as usize].touched;
            let used = self.continues || touched.overlaps(&field_use.slice(params));
            if used && !overwritten.contains(&place) {
                overwritten.push(place);
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

    /// Copies what a launch overwrites and a gradient kernel needs.
    fn save(&mut self, kernel: u32, params: &[u64]) -> Result<()> {
        self.need_cells(kernel, CellVersion::Old);
        self.need(kernel, UseKind::NeedsOld, params);
        self.save_cells(kernel)?;
        for n in 0..self.kernels[kernel as usize].uses.len() {
            let field_use = &self.kernels[kernel as usize].uses[n];
            let state = &self.fields[field_use.field as usize];
            if field_use.kind == UseKind::Writes && state.needed.overlaps(&field_use.slice(params))
            {
                let span = field_use.span;
                let (unit, needed_by) = (state.unit, state.needed_by);
                self.copy(unit, needed_by, Some(SourcePlace { kernel, span }))?;
            }
        }
        self.need(kernel, UseKind::NeedsNew, params);
        self.need_cells(kernel, CellVersion::New);
        Ok(())
    }

    /// Notes what the gradient kernel of a launch needs of the current values.
    fn need(&mut self, kernel: u32, kind: UseKind, params: &[u64]) {
        let uses = &self.kernels[kernel as usize].uses;
        for field_use in uses.iter().filter(|u| u.kind == kind) {
            let state = &mut self.fields[field_use.field as usize];
            state.needed.add(&field_use.slice(params));
            let span = field_use.span;
            state.needed_by = SourcePlace { kernel, span };
        }
    }

    /// An error if a gradient kernel needs an element as it was before and as it is after the launch.
    fn old_and_new(&self, kernel: u32, params: &[u64]) -> Result<()> {
        let recorded = &self.kernels[kernel as usize];
        let both = old_and_new(&recorded.uses, |u| u.kind, |u| (u.field, u.slice(params)));
        let Some((old, new)) = both else {
            return Ok(());
        };
        let name = self.fields[new.field as usize].handle.name();
        needs_both(&recorded.compiled, name, old.span, new.span)
    }

    /// Copies a unit before a kernel, or the host, overwrites it.
    pub(super) fn copy(
        &mut self,
        unit: u32,
        needed: SourcePlace,
        by: Option<SourcePlace>,
    ) -> Result<()> {
        let position = |place: SourcePlace| {
            let recorded = self.kernels.get(place.kernel as usize)?;
            Position::of(recorded.compiled.source().ok()?, place.span)
        };
        let skipped = self.skipped(unit);
        let state = &self.units[unit as usize];
        let report = SavedField {
            name: state.unit.name(),
            bytes: state.unit.bytes(&skipped)?,
            needed_at: position(needed),
            overwritten_at: by.and_then(position),
        };
        if self.bytes.saturating_add(report.bytes) > self.limit {
            return Err(too_large(&report, self.bytes, self.limit));
        }
        let copy = state.unit.take(&skipped)?;
        let reason = (unit, needed.kernel, by.map(|place| place.kernel));
        if !self.explained.contains(&reason) {
            self.explained.push(reason);
            self.explain(unit, needed.kernel, &report);
        }
        self.bytes += report.bytes;
        let before = self.entries.len();
        for field in self.fields.iter_mut().filter(|f| f.unit == unit) {
            field.needed.clear();
        }
        let state = &mut self.units[unit as usize];
        state.cells_needed_by = None;
        state.copies.push(Saved {
            before,
            copy,
            report,
        });
        Ok(())
    }

    /// Adds a remark about a copy.
    fn explain(&self, unit: u32, kernel: u32, report: &SavedField) {
        let Some(needing) = self.kernels.get(kernel as usize) else {
            return;
        };
        let needed_at = report.needed_at.as_ref();
        let needed_at = needed_at.map_or_else(String::new, ToString::to_string);
        let at = report.overwritten_at.as_ref().or(report.needed_at.as_ref());
        let remark = Remark {
            task: needing.compiled.name().to_owned(),
            at: at.cloned(),
            decision: Decision::Saved {
                field: report.name.clone(),
                bytes: report.bytes,
                needed_at,
            },
        };
        self.units[unit as usize]
            .unit
            .world()
            .add_remarks(&[remark]);
    }

    /// The fields of a tree that are not copied with it: gradients, which are no part of its state.
    pub(super) fn skipped(&self, unit: u32) -> Vec<entities::Field> {
        let Unit::Tree(WholeTree(tree)) = &self.units[unit as usize].unit else {
            return Vec::new();
        };
        let address = Arc::as_ptr(tree).addr();
        let own = self.adjoints.iter().filter(|key| key.0 == address);
        let own = own.filter(|key| !self.accessed.contains(key));
        own.map(|key| entities::Field::from_u32(key.1)).collect()
    }

    fn variant(&mut self, kernel: u32, overwritten: SmallVec<[Place; 2]>) -> u32 {
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

    /// Where kernels read a field.
    pub(super) fn read_at(&self, field: &FieldHandle) -> Vec<Position> {
        let Some(number) = self.numbers.get(&key_of(field)) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        for kernel in &self.kernels {
            let uses = kernel.uses.iter().filter(|u| u.field == *number);
            for read in uses.filter(|u| u.kind == UseKind::Reads) {
                let source = kernel.compiled.source().ok();
                let at = source.and_then(|source| Position::of(source, read.span));
                found.extend(at.filter(|at| !found.contains(at)));
            }
        }
        found
    }

    /// Bytes of memory for launches.
    pub(crate) fn bytes(&self) -> u64 {
        let entries = self.entries.capacity() * size_of::<Entry>();
        (entries + self.params.capacity() * size_of::<u64>()) as u64
    }

    /// How many launches there are.
    pub(crate) fn len(&self) -> usize {
        let launches = self.entries.iter();
        launches
            .filter(|e| !matches!(e.params, OVERWRITTEN | NOTHING | DEACTIVATED))
            .count()
    }

    /// The copies that were made.
    pub(crate) fn saved(&self) -> Vec<SavedField> {
        let copies = self.units.iter().flat_map(|u| &u.copies);
        copies.map(|c| c.report.clone()).collect()
    }
}

/// A use of an old value, and one of a new value of the same field, if the kernel may overwrite both elements. `element` gives the
/// field of a use, and where in it.
pub(super) fn old_and_new<U>(
    uses: &[U],
    kind: impl Fn(&U) -> UseKind,
    element: impl Fn(&U) -> (u32, Slice),
) -> Option<(&U, &U)> {
    let (kind, element) = (&kind, &element);
    let of_kind = move |wanted: UseKind| uses.iter().filter(move |u| kind(u) == wanted);
    of_kind(UseKind::NeedsOld).next()?;
    let is_overwritten = move |u: &&U| {
        let (field, slice) = element(u);
        let mut written = Region::default();
        let writes = of_kind(UseKind::Writes).map(element);
        let same = writes.filter(|w| w.0 == field);
        same.for_each(|w| written.add(&w.1));
        written.overlaps(&slice)
    };
    let mut new = of_kind(UseKind::NeedsNew).filter(is_overwritten);
    new.find_map(|new| {
        let field = element(new).0;
        let mut old = of_kind(UseKind::NeedsOld).filter(is_overwritten);
        Some((old.find(|u| element(u).0 == field)?, new))
    })
}

/// The error of a kernel that needs old and new values of a field.
pub(super) fn needs_both(compiled: &Compiled, name: &str, old: Span, new: Span) -> Result<()> {
    let source = compiled.source()?;
    let what = format!(
        "the gradient of kernel `{}` needs values of field `{name}` from before and from after it",
        source.name
    );
    let mut error = Error::new("W0736", what).at(Position::of(source, new));
    if let Some(at) = Position::of(source, old) {
        error = error.note(format!("the value from before is needed at {at}"));
    }
    Err(error.help("write to another field, or split the kernel in two"))
}

impl RecordedUse {
    /// At unknown indices.
    fn anywhere(field: u32, kind: UseKind) -> RecordedUse {
        RecordedUse {
            field,
            stored: None,
            kind,
            index: SmallVec::new(),
            span: Span::UNKNOWN,
        }
    }

    fn slice(&self, params: &[u64]) -> Slice {
        self.index.iter().map(|i| i.value(params)).collect()
    }
}

impl Launch<'_> {
    /// What identifies it up to its parameters.
    pub(super) fn address(&self) -> SmallVec<[usize; 6]> {
        let trees = self.trees.iter().map(|t| Arc::as_ptr(t).addr());
        let held = self.scalars.iter().chain(self.array_fields);
        let held = held.map(|(_, field)| Arc::as_ptr(&field.tree).addr());
        std::iter::once(Arc::as_ptr(self.compiled).addr())
            .chain(trees)
            .chain(held)
            .collect()
    }
}

/// The first slot and the type of each parameter that is one integer.
pub(super) fn slots(source: &Module) -> Vec<Option<(usize, Scalar)>> {
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

/// The fields and arrays that a kernel stores to, other than by atomics.
fn stores(source: &Module) -> Vec<Place> {
    let insts = source.funcs.values().flat_map(|f| f.insts.values());
    let stored = insts.filter_map(|inst| {
        if let Op::Store(access) = &inst.op {
            return Some(access.place);
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
