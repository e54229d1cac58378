//! Kernels that are derived from others: gradient kernels of reverse mode, tangent kernels of forward mode.

use crate::autodiff::Derivative;
use crate::host::FieldHandle;
use crate::launch::{Compiled, Launch};
use crate::layout::TreeInner;
use crate::world::{World, lock};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::{Arc, Mutex, OnceLock};
use wuji_compile::autodiff::{self, CellUse, Derivatives, FieldUse};
use wuji_ir::entities::{Array, Field};
use wuji_ir::module::{ArrayData, Module};
use wuji_ir::ops::Place;
use wuji_ir::{Error, Result};

pub(crate) type Trees = SmallVec<[Arc<TreeInner>; 4]>;

/// The kernels derived from one, by what they were derived for.
#[derive(Debug, Default)]
pub(crate) struct Derived {
    kernels: Mutex<FxHashMap<DerivedKey, Arc<Compiled>>>,
    uses: Mutex<FxHashMap<DerivedKey, Arc<[FieldUse]>>>,
    cells: OnceLock<Arc<[CellUse]>>,
}

impl Compiled {
    /// How it uses the cells of its sparse trees.
    pub(crate) fn cell_uses(&self) -> Result<Arc<[CellUse]>> {
        let source = self.source()?;
        let cells = &self.derived().cells;
        Ok(cells
            .get_or_init(|| autodiff::cell_uses(source).into())
            .clone())
    }
}

/// Where the derivatives are, and which fields are overwritten. The kernel itself has a key of its own.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct DerivedKey {
    words: Vec<usize>,
}

/// The derivative of an array argument: an array of the same shape.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct ArrayDerivative {
    /// The number of the array among the arguments that are arrays.
    pub array: u32,
    /// Whether the derivative is row-major without gaps.
    pub contiguous: bool,
    /// Whether it overlaps no other array of the launch.
    pub unaliased: bool,
}

/// The derivatives of the fields that a kernel accesses in its trees.
#[derive(Debug)]
pub(crate) struct DerivedTrees {
    /// Those of the kernel, then those of derivatives.
    pub(crate) trees: Trees,
    /// How many of them are the kernel's.
    primal: usize,
    directions: Vec<Direction>,
    /// The fields with the derivatives of by-value parameters, by number.
    pub(crate) scalars: Scalars,
    /// Of arrays, in the first direction.
    arrays: Vec<ArrayDerivative>,
}

type Scalars = SmallVec<[(u32, FieldHandle); 2]>;

/// Where the derivatives in one direction are, by numbers in the derived module.
#[derive(Debug, Default)]
struct Direction {
    fields: Vec<(Field, Field)>,
    /// Of by-value parameters.
    params: Vec<(u32, Field)>,
}

impl DerivedTrees {
    /// The adjoints of what a kernel accesses.
    pub(crate) fn adjoints(launch: &Launch<'_>) -> Result<DerivedTrees> {
        let mut derived = DerivedTrees::new(launch);
        derived.add(launch.compiled, Derivative::Adjoint)?;
        Ok(derived)
    }

    /// The tangents of what a kernel accesses, in all directions that one of the fields has.
    pub(crate) fn tangents(launch: &Launch<'_>) -> Result<DerivedTrees> {
        let mut derived = DerivedTrees::new(launch);
        let mut direction = 0;
        while derived.add(launch.compiled, Derivative::Tangent(direction))? {
            direction += 1;
        }
        Ok(derived)
    }

    /// With derivatives of arrays, which follow the arrays of the kernel.
    pub(crate) fn with_arrays(mut self, arrays: &[ArrayDerivative]) -> DerivedTrees {
        self.arrays = arrays.to_vec();
        if self.directions.is_empty() && !arrays.is_empty() {
            self.directions.push(Direction::default());
        }
        self
    }

    fn new(launch: &Launch<'_>) -> DerivedTrees {
        DerivedTrees {
            trees: launch.trees.into(),
            primal: launch.trees.len(),
            directions: Vec::new(),
            scalars: launch.scalars.into(),
            arrays: Vec::new(),
        }
    }

    /// Adds a direction; gives whether a field has a derivative in it.
    fn add(&mut self, compiled: &Compiled, which: Derivative) -> Result<bool> {
        let source = compiled.source()?;
        let mut direction = Direction::default();
        for field in accessed(source) {
            let handle = handle_of(compiled, &self.trees, field);
            let Some(derivative) = handle.and_then(|h| h.derivative(which)) else {
                continue;
            };
            derivative.tree.body()?;
            let number = self.number(compiled, source, &derivative)?;
            direction.fields.push((field, number));
        }
        for (param, field) in self.scalars.clone() {
            let Some(derivative) = field.derivative(which) else {
                continue;
            };
            derivative.tree.body()?;
            let number = self.number(compiled, source, &derivative)?;
            direction.params.push((param, number));
        }
        let any = !direction.fields.is_empty() || !direction.params.is_empty();
        if any {
            self.directions.push(direction);
        }
        Ok(any)
    }

    /// The number of a field in the derived module.
    fn number(
        &mut self,
        compiled: &Compiled,
        source: &Module,
        field: &FieldHandle,
    ) -> Result<Field> {
        let known = self.trees.iter().position(|t| Arc::ptr_eq(t, &field.tree));
        let tree = known.unwrap_or_else(|| {
            self.trees.push(field.tree.clone());
            self.trees.len() - 1
        });
        let first = match compiled.first_fields().get(tree) {
            Some(first) if tree < self.primal => *first,
            _ => {
                let mut first = source.fields.len();
                for other in &self.trees[self.primal..tree] {
                    first += other.body()?.shape.fields.len();
                }
                first as u32
            }
        };
        Ok(Field::from_u32(first + field.field.as_u32()))
    }

    /// Whether no field of the kernel has a derivative.
    pub(crate) fn is_empty(&self) -> bool {
        self.directions.is_empty()
    }

    /// Whether a field of the kernel has one.
    pub(crate) fn has(&self, field: Field) -> bool {
        (self.directions.iter().flat_map(|d| &d.fields)).any(|(of, _)| *of == field)
    }

    fn key(&self, kind: usize, overwritten: &[Field]) -> Result<DerivedKey> {
        let mut words = vec![kind];
        for tree in &self.trees[self.primal..] {
            // A world keeps its shapes, so an address means one structure for as long as it lives.
            words.push(Arc::as_ptr(&tree.body()?.shape).addr());
        }
        for direction in &self.directions {
            words.push(usize::MAX);
            for (field, derivative) in &direction.fields {
                words.push(field.as_u32() as usize);
                words.push(derivative.as_u32() as usize);
            }
            words.push(usize::MAX - 1);
            for (param, derivative) in &direction.params {
                words.push(*param as usize);
                words.push(derivative.as_u32() as usize);
            }
        }
        words.push(usize::MAX);
        words.extend(overwritten.iter().map(|f| f.as_u32() as usize));
        for array in &self.arrays {
            let flags = usize::from(array.contiguous) | usize::from(array.unaliased) << 1;
            words.extend([usize::MAX, array.array as usize, flags]);
        }
        Ok(DerivedKey { words })
    }

    /// The kernel with the trees of the derivatives, and the number of the first field of each tree.
    fn extended(&self, compiled: &Compiled) -> Result<(Module, SmallVec<[u32; 4]>)> {
        let mut module = compiled.source()?.clone();
        let mut first = SmallVec::from_slice(compiled.first_fields());
        for tree in &self.trees[self.primal..] {
            let body = tree.body()?;
            first.push(body.shape.enter(&mut module, &body.names));
        }
        for derivative in &self.arrays {
            let array = Array::from_u32(derivative.array);
            let Some(primal) = module.arrays.get(array) else {
                let what = format!("kernel `{}` has no array {array}", module.name);
                return Err(Error::new("W0118", what));
            };
            let data = ArrayData {
                name: format!("{}.grad", primal.name),
                writable: true,
                contiguous: derivative.contiguous,
                unaliased: derivative.unaliased,
                ..primal.clone()
            };
            module.arrays.push(data);
        }
        Ok((module, first))
    }

    /// For a module with as many arrays, derivatives included.
    fn derivatives(&self, arrays: usize) -> Vec<Derivatives> {
        let directions = self.directions.iter();
        let derivatives = directions.map(|direction| Derivatives {
            fields: direction.fields.iter().copied().collect(),
            params: direction.params.iter().copied().collect(),
            ..Derivatives::default()
        });
        let mut derivatives: Vec<Derivatives> = derivatives.collect();
        if let Some(first) = derivatives.first_mut() {
            let start = arrays - self.arrays.len();
            let pairs = self.arrays.iter().zip(start..);
            let pairs = pairs.map(|(a, n)| (Array::from_u32(a.array), Array::from_u32(n as u32)));
            first.arrays = pairs.collect();
        }
        derivatives
    }

    /// How a kernel uses its fields, as far as its gradient kernel is concerned.
    pub(crate) fn uses(&self, compiled: &Compiled) -> Result<Arc<[FieldUse]>> {
        let key = self.key(0, &[])?;
        if let Some(uses) = lock(&compiled.derived().uses).get(&key) {
            return Ok(uses.clone());
        }
        let (module, _) = self.extended(compiled)?;
        let adjoints = self
            .derivatives(module.arrays.len())
            .pop()
            .unwrap_or_default();
        let uses: Arc<[FieldUse]> = autodiff::reverse(&module, &adjoints)?.uses.into();
        lock(&compiled.derived().uses).insert(key, uses.clone());
        Ok(uses)
    }

    /// The gradient kernel.
    pub(crate) fn gradient(
        &self,
        world: &World,
        compiled: &Compiled,
        overwritten: &[Field],
    ) -> Result<Arc<Compiled>> {
        self.kernel(world, compiled, self.key(0, overwritten)?, |module| {
            let mut adjoints = self
                .derivatives(module.arrays.len())
                .pop()
                .unwrap_or_default();
            adjoints.overwritten = overwritten.to_vec();
            let gradient = autodiff::reverse(module, &adjoints)?;
            world.add_remarks(&gradient.remarks);
            Ok(gradient.module)
        })
    }

    /// The kernel that computes values and tangents.
    pub(crate) fn tangent(&self, world: &World, compiled: &Compiled) -> Result<Arc<Compiled>> {
        self.kernel(world, compiled, self.key(1, &[])?, |module| {
            autodiff::forward(module, &self.derivatives(module.arrays.len()))
        })
    }

    fn kernel(
        &self,
        world: &World,
        compiled: &Compiled,
        key: DerivedKey,
        derive: impl FnOnce(&Module) -> Result<Module>,
    ) -> Result<Arc<Compiled>> {
        let kernels = &compiled.derived().kernels;
        if let Some(kernel) = lock(kernels).get(&key) {
            return Ok(kernel.clone());
        }
        let (module, first) = self.extended(compiled)?;
        let kernel = world.load_kernel(derive(&module)?, &first)?;
        // If two threads compiled it at once, both use the first.
        Ok(lock(kernels).entry(key).or_insert(kernel).clone())
    }
}

/// The fields whose elements a kernel accesses.
pub(crate) fn accessed(source: &Module) -> Vec<Field> {
    let insts = source.funcs.values().flat_map(|f| f.insts.values());
    let mut fields: Vec<Field> = insts
        .filter_map(|inst| match inst.op.access()?.place {
            Place::Field(field) => Some(field),
            Place::Array(_) | Place::Local(_) | Place::Temp(_) => None,
        })
        .collect();
    fields.sort_unstable();
    fields.dedup();
    fields
}

/// The fields that a kernel writes to.
pub(crate) fn written(source: &Module) -> Vec<Field> {
    let insts = source.funcs.values().flat_map(|f| f.insts.values());
    let mut fields: Vec<Field> = insts
        .filter_map(|inst| match inst.op.written_access()?.place {
            Place::Field(field) => Some(field),
            Place::Array(_) | Place::Local(_) | Place::Temp(_) => None,
        })
        .collect();
    fields.sort_unstable();
    fields.dedup();
    fields
}

/// The field of the launch that has a number in the module of the kernel.
pub(crate) fn handle_of(
    compiled: &Compiled,
    trees: &[Arc<TreeInner>],
    field: Field,
) -> Option<FieldHandle> {
    let number = field.as_u32();
    let first = compiled.first_fields();
    let tree = first.iter().rposition(|first| *first <= number)?;
    Some(FieldHandle {
        tree: trees.get(tree)?.clone(),
        field: Field::from_u32(number - first[tree]),
    })
}
