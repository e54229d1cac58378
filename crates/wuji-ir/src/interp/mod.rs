//! The interpreter: the executable form of `docs/ir.md`, and the reference for every backend.
//!
//! It runs any verified module, before and after any pass, in one of two forms. A machine from
//! [`Machine::new`] stores fields as maps from coordinates to elements, independent of the layout, so it can
//! check layout code. One from [`Machine::lowered`] runs the lowered form on bytes and checks that every
//! access touches only its own memory.
//!
//! Problems of the program become [`Report`]s, as in a launch. An `Err` means that the module cannot be run,
//! that the step limit was reached, or that the compiler violated an invariant.
//!
//! Control flow uses an explicit stack, so no program overflows that of the host.

mod access;
mod aggregate;
mod array;
mod bytes;
mod compute;
mod control;
pub mod error;
mod launch;
mod order;
mod packed;
mod points;
mod prepare;
mod races;
mod sparse;
mod state;
mod store;
mod threads;

pub use array::{ArrayView, Buffer};
pub use error::STOPPED;
pub use order::Order;
pub use state::TreeState;

use crate::Result;
use crate::entities::{Array, Field, Tree};
use crate::module::{Module, SiteKind, Span};
use crate::types::Imm;
use crate::verify::verify;
use array::Arrays;
use bytes::{Bytes, TreeBytes};
use cranelift_entity::PrimaryMap;
use error::{BAD_LAUNCH, NOT_RUNNABLE, stop};
use prepare::Prepared;
use sparse::{Route, TreeCells};
use std::fmt;
use store::{FieldDomain, FieldStore};

/// How a machine runs programs.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The order of the iterations of parallel loops.
    pub order: Order,
    /// The world's seed for random numbers.
    pub seed: u64,
    /// The number of the launch, for random numbers.
    pub launch: u64,
    /// One run ends with an error after this many instructions and iterations.
    pub max_steps: u64,
    /// Reports reads outside of their place.
    pub check_reads: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            order: Order::Serial,
            seed: 0,
            launch: 0,
            max_steps: 1 << 32,
            check_reads: false,
        }
    }
}

/// A problem that a program reported.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Report {
    /// What was reported.
    pub kind: SiteKind,
    /// Where.
    pub span: Span,
    /// Number of the task, as for random numbers.
    pub task: u32,
    /// `None` in lowered code, whose reports do not contain it.
    pub iteration: Option<u64>,
    /// The values that [`SiteKind`] lists.
    pub values: Vec<Imm>,
}

/// A line that a program printed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Printed {
    /// The number of the task, as for random numbers.
    pub task: u32,
    /// The number of the iteration.
    pub iteration: u64,
    /// The line, without its end.
    pub text: String,
}

/// The outcome of a run, besides its effect on memory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// The scalars of the kernel's result; `None` without one, and when the kernel ended early.
    pub result: Option<Vec<Imm>>,
    /// In the order in which they happened.
    pub reports: Vec<Report>,
    /// By task and iteration, then in the order of the program.
    pub printed: Vec<Printed>,
    /// Instructions and iterations.
    pub steps: u64,
}

/// The memory of fields and temps.
#[derive(Debug)]
enum Memory {
    /// By coordinates.
    Abstract {
        fields: PrimaryMap<Field, FieldStore>,
        /// Active cells.
        cells: PrimaryMap<Tree, TreeCells>,
        routes: PrimaryMap<Field, Route>,
        /// The scalars of each temp.
        temps: Vec<Vec<Imm>>,
    },
    /// By byte offsets.
    Lowered {
        domains: PrimaryMap<Field, FieldDomain>,
        trees: PrimaryMap<Tree, TreeBytes>,
        temps: Bytes,
    },
}

/// Whether a run is to end.
#[derive(Copy, Clone)]
struct StopQuestion<'m>(&'m dyn Fn() -> bool);

impl fmt::Debug for StopQuestion<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StopQuestion")
    }
}

/// A module with the memory it runs on. Fields keep their contents from run to run.
#[derive(Debug)]
pub struct Machine<'m> {
    module: &'m Module,
    prepared: Prepared,
    /// How the machine runs programs.
    pub config: Config,
    /// Whether races between writes of parallel iterations are errors.
    pub watch_races: bool,
    stop: Option<StopQuestion<'m>>,
    memory: Memory,
    arrays: Arrays,
}

impl<'m> Machine<'m> {
    /// For modules that access fields by coordinates: before `lower_access`.
    pub fn new(module: &'m Module, config: Config) -> Result<Machine<'m>> {
        verify(module)?;
        let memory = Memory::Abstract {
            fields: module
                .fields
                .keys()
                .map(|f| FieldStore::new(module, f))
                .collect(),
            cells: module.trees.values().map(TreeCells::new).collect(),
            routes: module
                .fields
                .keys()
                .map(|f| Route::new(module, f))
                .collect(),
            temps: Vec::new(),
        };
        Machine::with_memory(module, config, memory)
    }

    /// Makes runs end with an error soon after a function returns `true`. It is called every thousand steps.
    pub fn stop_by(&mut self, is_stopped: &'m dyn Fn() -> bool) {
        self.stop = Some(StopQuestion(is_stopped));
    }

    /// For modules that access memory by byte offsets: after `lower_access`.
    pub fn lowered(module: &'m Module, config: Config) -> Result<Machine<'m>> {
        verify(module)?;
        let mut trees = PrimaryMap::new();
        for tree in module.trees.keys() {
            trees.push(TreeBytes::new(module, tree)?);
        }
        let memory = Memory::Lowered {
            domains: module
                .fields
                .keys()
                .map(|f| FieldDomain::new(module, f))
                .collect(),
            trees,
            temps: Bytes::default(),
        };
        Machine::with_memory(module, config, memory)
    }

    fn with_memory(module: &'m Module, config: Config, memory: Memory) -> Result<Machine<'m>> {
        Ok(Machine {
            module,
            prepared: Prepared::new(module)?,
            config,
            watch_races: false,
            stop: None,
            memory,
            arrays: Arrays::new(module),
        })
    }

    /// The program.
    pub fn module(&self) -> &'m Module {
        self.module
    }

    /// Smallest coordinate and extent of a field along each index.
    pub fn domain(&self, field: Field) -> &[(i64, u64)] {
        &self.field_domain(field).axes
    }

    fn field_domain(&self, field: Field) -> &FieldDomain {
        match &self.memory {
            Memory::Abstract { fields, .. } => &fields[field].domain,
            Memory::Lowered { domains, .. } => &domains[field],
        }
    }

    /// The scalars of one element; an error if it is out of range.
    pub fn get(&self, field: Field, coords: &[i64]) -> Result<Vec<Imm>> {
        let coords: Vec<i128> = coords.iter().map(|c| i128::from(*c)).collect();
        let at = self.inside(field, &coords)?;
        if self.module.fields[field].is_split() {
            return self.get_split(field, &coords);
        }
        if self.is_packed(field) {
            if let Memory::Lowered { .. } = self.memory {
                self.dense_only(field)?;
            }
            let scalars = 0..self.prepared.scalars(self.module.fields[field].elem);
            return Ok(scalars.map(|k| self.read_packed(field, &at, k)).collect());
        }
        Ok(match &self.memory {
            Memory::Abstract { fields, .. } => {
                let store = &fields[field];
                (0..store.scalars.len())
                    .map(|k| store.get(&at, k))
                    .collect()
            }
            Memory::Lowered { domains, trees, .. } => {
                self.dense_only(field)?;
                let data = &self.module.fields[field];
                let tree = &trees[data.tree];
                let start = tree.element(self.module, field, &domains[field], &coords);
                self.module
                    .structs
                    .scalar_offsets(data.elem)
                    .into_iter()
                    .map(|(ty, offset)| tree.bytes.read(start + offset, ty))
                    .collect()
            }
        })
    }

    /// Sets one element from its scalars. This activates it.
    pub fn set(&mut self, field: Field, coords: &[i64], values: &[Imm]) -> Result<()> {
        let coords: Vec<i128> = coords.iter().map(|c| i128::from(*c)).collect();
        let at = self.inside(field, &coords)?;
        let data = &self.module.fields[field];
        let scalars = self.module.structs.scalar_offsets(data.elem);
        if scalars.len() != values.len() || scalars.iter().zip(values).any(|(s, v)| s.0 != v.ty) {
            return Err(stop(
                BAD_LAUNCH,
                format!("elements of field `{}` are `{}`", data.name, data.elem),
            ));
        }
        if data.is_split() {
            return self.set_split(field, &coords, values);
        }
        if let Memory::Lowered { .. } = self.memory {
            self.dense_only(field)?;
        }
        match &mut self.memory {
            Memory::Abstract {
                fields,
                cells,
                routes,
                ..
            } => {
                cells[data.tree].activate(&routes[field], &at);
                if data.packing.is_some() {
                    self.write_packed(field, &at, (0, values), || 0);
                    return Ok(());
                }
                for (k, value) in values.iter().enumerate() {
                    fields[field].set(&at, k, *value);
                }
            }
            Memory::Lowered { .. } if data.packing.is_some() => {
                self.write_packed(field, &at, (0, values), || 0);
            }
            Memory::Lowered { domains, trees, .. } => {
                let tree = &mut trees[data.tree];
                let start = tree.element(self.module, field, &domains[field], &coords);
                for ((_, offset), value) in scalars.iter().zip(values) {
                    tree.bytes.write(start + offset, *value);
                }
            }
        }
        Ok(())
    }

    /// Whether an element is active; an error if it is out of range.
    pub fn is_active(&self, field: Field, coords: &[i64]) -> Result<bool> {
        let coords: Vec<i128> = coords.iter().map(|c| i128::from(*c)).collect();
        let at = self.inside(field, &coords)?;
        match &self.memory {
            Memory::Abstract { cells, routes, .. } => {
                let tree = self.module.fields[field].tree;
                Ok(cells[tree].exists(&routes[field], &at))
            }
            Memory::Lowered { .. } => self.dense_only(field).map(|()| true),
        }
    }

    /// The coordinates of the active elements of a field below sparse nodes, in row-major order.
    pub fn active(&self, field: Field) -> Result<Vec<Vec<i64>>> {
        let domain = self.field_domain(field);
        let extents: Vec<u64> = domain.axes.iter().map(|a| a.1).collect();
        let name = &self.module.fields[field].name;
        match &self.memory {
            Memory::Abstract { cells, routes, .. } if routes[field].is_sparse() => {
                let tree = self.module.fields[field].tree;
                let Some(active) = cells[tree].active(&routes[field], &extents) else {
                    let why = format!("too many elements of `{name}` exist");
                    return Err(stop(error::TOO_LARGE, why));
                };
                let points = active.iter().map(|at| domain.coords(at));
                Ok(points
                    .map(|at| at.iter().map(|c| *c as i64).collect())
                    .collect())
            }
            Memory::Abstract { .. } => {
                let count = self.listable(field)?;
                Ok((0..count).map(|n| self.point(field, n)).collect())
            }
            Memory::Lowered { .. } => {
                self.dense_only(field)?;
                let count = self.listable(field)?;
                Ok((0..count).map(|n| self.point(field, n)).collect())
            }
        }
    }

    /// An error for sparse fields of a lowered module, whose cells are managed by its code.
    fn dense_only(&self, field: Field) -> Result<()> {
        let data = &self.module.fields[field];
        match self.module.trees[data.tree].sparse_path(data.node)[..] {
            [] => Ok(()),
            _ => Err(stop(
                NOT_RUNNABLE,
                format!("lowered code manages the cells of `{}`", data.name),
            )),
        }
    }

    /// The scalars of one element of a split field.
    fn get_split(&self, field: Field, coords: &[i128]) -> Result<Vec<Imm>> {
        let coords: Vec<i64> = coords.iter().map(|c| *c as i64).collect();
        let mut out = Vec::new();
        for leaf in self.module.leaves(field) {
            out.extend(self.get(leaf.field, &coords)?);
        }
        Ok(out)
    }

    /// Sets one element of a split field from its scalars.
    fn set_split(&mut self, field: Field, coords: &[i128], values: &[Imm]) -> Result<()> {
        let coords: Vec<i64> = coords.iter().map(|c| *c as i64).collect();
        for leaf in self.module.leaves(field) {
            self.set(leaf.field, &coords, &values[leaf.scalars])?;
        }
        Ok(())
    }

    fn inside(&self, field: Field, coords: &[i128]) -> Result<store::Relative> {
        let domain = self.field_domain(field);
        let located = if coords.len() == domain.axes.len() {
            domain.locate(coords)
        } else {
            None
        };
        located.ok_or_else(|| {
            let name = &self.module.fields[field].name;
            stop(BAD_LAUNCH, format!("field `{name}` has no such element"))
        })
    }

    /// Every scalar of a field, elements in row-major order.
    pub fn field(&self, field: Field) -> Result<Vec<Imm>> {
        if let Memory::Abstract { fields, .. } = &self.memory
            && self.module.fields[field].has_memory()
        {
            return fields[field].all();
        }
        let mut out = Vec::new();
        for number in 0..self.listable(field)? {
            out.extend(self.get(field, &self.point(field, number))?);
        }
        Ok(out)
    }

    /// Sets a whole field from its scalars, elements in row-major order.
    pub fn fill(&mut self, field: Field, values: &[Imm]) -> Result<()> {
        let count = self.listable(field)?;
        let width = self.prepared.scalars(self.module.fields[field].elem);
        if values.len() as u64 != count * width as u64 {
            let name = &self.module.fields[field].name;
            return Err(stop(
                BAD_LAUNCH,
                format!("field `{name}` has {count} elements"),
            ));
        }
        for number in 0..count {
            let from = number as usize * width;
            let coords = self.point(field, number);
            self.set(field, &coords, &values[from..from + width])?;
        }
        Ok(())
    }

    fn listable(&self, field: Field) -> Result<u64> {
        let count = self.field_domain(field).count();
        if count > 1 << 24 {
            return Err(stop(error::TOO_LARGE, "the field is too large to list"));
        }
        Ok(count)
    }

    fn point(&self, field: Field, number: u64) -> Vec<i64> {
        let point = self.field_domain(field).point(number);
        point.iter().map(|c| *c as i64).collect()
    }

    /// New host memory for arrays.
    pub fn add_buffer(&mut self, bytes: Vec<u8>) -> Buffer {
        self.arrays.buffers.push(bytes);
        Buffer(self.arrays.buffers.len() - 1)
    }

    /// The bytes of a buffer.
    pub fn buffer(&self, buffer: Buffer) -> &[u8] {
        self.arrays.buffers.get(buffer.0).map_or(&[], |b| b)
    }

    /// Binds an array. An unbound array is empty.
    pub fn bind(&mut self, array: Array, view: ArrayView) -> Result<()> {
        self.arrays.bind(self.module, array, view)
    }

    /// Binds an array to its own memory, row-major, with the scalars of its elements.
    pub fn bind_values(&mut self, array: Array, extents: &[i64], values: &[Imm]) -> Result<()> {
        let name = &self.module.arrays[array].name;
        let wrong = || {
            stop(
                BAD_LAUNCH,
                format!("array `{name}` gets values that do not fit"),
            )
        };
        let scalars = self.arrays.get(array).scalars.clone();
        let size = self.arrays.element_size(array);
        let count = extents
            .iter()
            .try_fold(1i64, |n, e| n.checked_mul(*e))
            .filter(|n| *n >= 0 && *n as usize * scalars.len() == values.len())
            .ok_or_else(wrong)?;
        let mut bytes = vec![0; count as usize * size as usize];
        for (k, value) in values.iter().enumerate() {
            let (ty, offset) = scalars[k % scalars.len()];
            if ty != value.ty {
                return Err(wrong());
            }
            let at = (k / scalars.len()) * size as usize + offset as usize;
            array::write_scalar(&mut bytes[at..], *value);
        }
        let buffer = self.add_buffer(bytes);
        self.bind(array, ArrayView::contiguous(buffer, extents, size as i64))
    }

    /// Every scalar of an array, elements in row-major order.
    pub fn array(&self, array: Array) -> Vec<Imm> {
        self.arrays.all(array)
    }

    /// Runs the kernel or its tasks once. `params` are the scalars of the by-value parameters.
    pub fn run(&mut self, params: &[Imm]) -> Result<Outcome> {
        if self.module.kernel.is_none() && self.module.tasks.is_empty() {
            return Err(stop(
                NOT_RUNNABLE,
                "the module has neither kernel nor tasks",
            ));
        }
        launch::run(self, params)
    }
}
