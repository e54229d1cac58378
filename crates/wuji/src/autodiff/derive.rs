//! Kernels that are derived from others: gradient kernels of reverse mode, tangent kernels of forward mode.

use crate::autodiff::Derivative;
use crate::autodiff::parts::Parts;
use crate::autodiff::recorder::{needs_both, old_and_new, slots};
use crate::autodiff::region::Index;
use crate::host::FieldHandle;
use crate::launch::{Compiled, Launch};
use crate::layout::TreeInner;
use crate::world::{World, lock};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::{Arc, Mutex, OnceLock};
use wuji_compile::autodiff::{self, ArrayUse, CellUse, Derivatives, FieldUse, IndexRange};
use wuji_ir::entities::{Array, Field};
use wuji_ir::layout::FieldData;
use wuji_ir::module::{ArrayData, Module};
use wuji_ir::ops::{Access, CellOp, Op, OpClass, Place};
use wuji_ir::{Error, Result};
use wuji_runtime::array::{ArrayArg, unaliased};

pub(crate) type Trees = SmallVec<[Arc<TreeInner>; 4]>;

/// The kernels derived from one, by what they were derived for.
#[derive(Debug, Default)]
pub(crate) struct Derived {
    kernels: Mutex<FxHashMap<DerivedKey, Arc<Compiled>>>,
    uses: Mutex<FxHashMap<DerivedKey, Arc<Uses>>>,
    parts: Mutex<FxHashMap<DerivedKey, Option<Parts>>>,
    cells: OnceLock<Arc<[CellUse]>>,
}

impl Compiled {
    /// How it uses the cells of its sparse trees. Tapes copy whole trees.
    pub(crate) fn cell_uses(&self) -> Result<Arc<[CellUse]>> {
        let source = self.source()?;
        let cells = &self.derived().cells;
        Ok(cells
            .get_or_init(|| autodiff::tree_uses(autodiff::cell_uses(source)).into())
            .clone())
    }
}

/// How a kernel uses its fields and arrays, as far as its gradient kernel is concerned.
#[derive(Debug)]
pub(crate) struct Uses {
    pub(crate) fields: Vec<FieldUse>,
    pub(crate) arrays: Vec<ArrayUse>,
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

/// What the tangents of a kernel in forward mode are.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Tangents {
    Computed,
    /// The kernel is a constant: what it stores has none.
    Zero,
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
    /// The fields that hold arrays of the world, by the number of the array: those of the kernel, then those of derivatives.
    pub(crate) array_fields: ArrayFields,
    /// Of arrays, with the number of their direction. They follow the arrays of the kernel.
    arrays: Vec<(usize, ArrayDerivative)>,
    /// Arrays of the kernel that overlap one of a derivative.
    aliased: Vec<u32>,
    /// Whether fields count whose cells the kernel deactivates: their tangents end.
    deactivates: bool,
}

/// Gives the derivative of a field.
pub(crate) type Find<'f> = &'f dyn Fn(&FieldHandle) -> Option<FieldHandle>;
type Scalars = SmallVec<[(u32, FieldHandle); 2]>;
pub(crate) type ArrayArgs<'l> = SmallVec<[ArrayArg<'l>; 4]>;
pub(crate) type ArrayFields = SmallVec<[(u32, FieldHandle); 2]>;

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
        derived.add(launch, None, &|field| field.derivative(Derivative::Adjoint))?;
        derived.find_aliases(launch)?;
        Ok(derived)
    }

    /// The tangents of what a kernel accesses, in all directions that one of the fields has.
    pub(crate) fn tangents(launch: &Launch<'_>) -> Result<DerivedTrees> {
        let mut derived = DerivedTrees::new(launch);
        derived.deactivates = true;
        let mut direction = 0;
        while derived.add(launch, None, &|field| {
            field.derivative(Derivative::Tangent(direction))
        })? {
            direction += 1;
        }
        derived.find_aliases(launch)?;
        Ok(derived)
    }

    /// The adjoints of the same kernel, with others in place of some of them. All of its arrays belong to the world.
    pub(crate) fn with_adjoints(
        &self,
        compiled: &Arc<Compiled>,
        find: Find<'_>,
    ) -> Result<DerivedTrees> {
        let arrays = compiled.source()?.arrays.len();
        let own = self.array_fields.iter();
        let own: ArrayFields = own
            .filter(|(n, _)| (*n as usize) < arrays)
            .cloned()
            .collect();
        let args = own.iter().map(|(_, field)| field.array());
        let args = args.collect::<Result<ArrayArgs<'_>>>()?;
        let launch = Launch {
            compiled,
            params: &[],
            trees: &self.trees[..self.primal],
            arrays: &args,
            scalars: &self.scalars,
            array_fields: &own,
            owners: &[],
        };
        let mut derived = DerivedTrees::new(&launch);
        derived.add(&launch, Some(self), find)?;
        derived.find_aliases(&launch)?;
        Ok(derived)
    }

    /// With derivatives of arrays, which follow the arrays of the kernel.
    pub(crate) fn with_arrays(mut self, arrays: &[ArrayDerivative]) -> DerivedTrees {
        self.arrays = arrays.iter().map(|a| (0, *a)).collect();
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
            array_fields: launch.array_fields.into(),
            arrays: Vec::new(),
            aliased: Vec::new(),
            deactivates: false,
        }
    }

    /// Adds a direction; gives whether a field has a derivative in it. With `only`, just what has one there.
    fn add(
        &mut self,
        launch: &Launch<'_>,
        only: Option<&DerivedTrees>,
        find: Find<'_>,
    ) -> Result<bool> {
        let compiled = launch.compiled;
        let source = compiled.source()?;
        let mut direction = Direction::default();
        let mut any = false;
        for place in self.places(source) {
            if only.is_some_and(|o| !o.has(place)) {
                continue;
            }
            let Some(derivative) = launch.field_of(place).and_then(|h| find(&h)) else {
                continue;
            };
            derivative.tree.body()?;
            any = true;
            match place {
                Place::Field(field) => {
                    let number = self.number(compiled, source, &derivative)?;
                    direction.fields.push((field, number));
                }
                Place::Array(array) => self.add_array(source, array, derivative),
                Place::Local(_) | Place::Temp(_) => {}
            }
        }
        for (param, field) in self.scalars.clone() {
            let Some(derivative) = find(&field) else {
                continue;
            };
            derivative.tree.body()?;
            any = true;
            let number = self.number(compiled, source, &derivative)?;
            direction.params.push((param, number));
        }
        if any {
            self.directions.push(direction);
        }
        Ok(any)
    }

    /// What may have derivatives.
    fn places(&self, source: &Module) -> Vec<Place> {
        let mut places = accessed(source);
        if self.deactivates {
            let more = deactivated(source).into_iter().map(Place::Field);
            let more: Vec<Place> = more.filter(|p| !places.contains(p)).collect();
            places.extend(more);
        }
        places
    }

    /// Adds the derivative of an array in the direction that comes next.
    fn add_array(&mut self, source: &Module, array: Array, derivative: FieldHandle) {
        let number = source.arrays.len() + self.arrays.len();
        self.array_fields.push((number as u32, derivative));
        let added = ArrayDerivative {
            array: array.as_u32(),
            contiguous: true,
            unaliased: true,
        };
        self.arrays.push((self.directions.len(), added));
    }

    /// Finds out which arrays overlap, now that all are known.
    fn find_aliases(&mut self, launch: &Launch<'_>) -> Result<()> {
        if self.arrays.is_empty() {
            return Ok(());
        }
        let views = self.array_args(launch.arrays)?;
        let alone: Vec<bool> = unaliased(&views).collect();
        drop(views);
        let (kernel, derivatives) = alone.split_at(launch.arrays.len());
        for ((_, added), alone) in self.arrays.iter_mut().zip(derivatives) {
            added.unaliased = *alone;
        }
        let aliased = (0u32..).zip(kernel).filter(|(_, alone)| !**alone);
        self.aliased = aliased.map(|(n, _)| n).collect();
        Ok(())
    }

    /// The arrays of a launch of the derived kernel: these of the kernel, and then those of derivatives.
    pub(crate) fn array_args<'l>(&'l self, kernel: &[ArrayArg<'l>]) -> Result<ArrayArgs<'l>> {
        let mut args: ArrayArgs<'l> = kernel.iter().cloned().collect();
        for (_, field) in self
            .array_fields
            .iter()
            .filter(|(n, _)| *n as usize >= kernel.len())
        {
            args.push(field.array()?);
        }
        Ok(args)
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

    /// Whether a field or array of the kernel has one.
    pub(crate) fn has(&self, place: Place) -> bool {
        match place {
            Place::Field(field) => {
                (self.directions.iter().flat_map(|d| &d.fields)).any(|(of, _)| *of == field)
            }
            Place::Array(array) => (self.arrays.iter()).any(|(_, a)| a.array == array.as_u32()),
            Place::Local(_) | Place::Temp(_) => false,
        }
    }

    fn key(&self, kind: usize, overwritten: &[Place]) -> Result<DerivedKey> {
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
        for place in overwritten {
            match place {
                Place::Field(f) => words.extend([0, f.as_u32() as usize]),
                Place::Array(a) => words.extend([1, a.as_u32() as usize]),
                // They end with the launch.
                Place::Local(_) | Place::Temp(_) => {}
            }
        }
        for (direction, array) in &self.arrays {
            let flags = usize::from(array.contiguous) | usize::from(array.unaliased) << 1;
            words.extend([usize::MAX, *direction, array.array as usize, flags]);
        }
        words.push(usize::MAX);
        words.extend(self.aliased.iter().map(|n| *n as usize));
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
        for array in &self.aliased {
            if let Some(data) = module.arrays.get_mut(Array::from_u32(*array)) {
                data.unaliased = false;
            }
        }
        for (_, derivative) in &self.arrays {
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
                shape: None,
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
        let start = arrays - self.arrays.len();
        for ((direction, array), n) in self.arrays.iter().zip(start..) {
            if let Some(derivatives) = derivatives.get_mut(*direction) {
                let (of, derivative) = (Array::from_u32(array.array), Array::from_u32(n as u32));
                derivatives.arrays.insert(of, derivative);
            }
        }
        derivatives
    }

    /// How a kernel uses its fields and arrays, as far as its gradient kernel is concerned.
    pub(crate) fn uses(&self, compiled: &Compiled) -> Result<Arc<Uses>> {
        let key = self.key(0, &[])?;
        if let Some(uses) = lock(&compiled.derived().uses).get(&key) {
            return Ok(uses.clone());
        }
        let (module, _) = self.extended(compiled)?;
        let adjoints = self
            .derivatives(module.arrays.len())
            .pop()
            .unwrap_or_default();
        let gradient = autodiff::reverse(&module, &adjoints)?;
        let uses = Arc::new(Uses {
            fields: gradient.uses,
            arrays: gradient.array_uses,
        });
        lock(&compiled.derived().uses).insert(key, uses.clone());
        Ok(uses)
    }

    /// An error if a gradient kernel needs an element as it was before and as it is after a launch.
    pub(crate) fn check_versions(&self, launch: &Launch<'_>) -> Result<()> {
        let compiled = launch.compiled;
        let (uses, source) = (self.uses(compiled)?, compiled.source()?);
        let slots = slots(source);
        let slice = |index: &[IndexRange]| {
            let index = index.iter().map(|r| Index::of(*r, &slots));
            index.map(|i| i.value(launch.params)).collect()
        };
        let both = old_and_new(
            &uses.fields,
            |u| u.kind,
            |u| (u.field.as_u32(), slice(&u.index)),
        );
        if let Some((old, new)) = both {
            let name = &source.fields[new.field].name;
            return needs_both(compiled, name, old.span, new.span);
        }
        let both = old_and_new(
            &uses.arrays,
            |u| u.kind,
            |u| (u.array.as_u32(), slice(&u.index)),
        );
        match both {
            Some((old, new)) => {
                let name = &source.arrays[new.array].name;
                needs_both(compiled, name, old.span, new.span)
            }
            None => Ok(()),
        }
    }

    /// The parts of a kernel whose gradient needs values that it overwrites. `None` if it is one part.
    pub(crate) fn parts(&self, world: &World, compiled: &Compiled) -> Result<Option<Parts>> {
        let key = self.key(0, &[])?;
        if let Some(parts) = lock(&compiled.derived().parts).get(&key) {
            return Ok(parts.clone());
        }
        let source = compiled.source()?;
        let adjoints = self.derivatives(source.arrays.len() + self.arrays.len());
        let parts = autodiff::parts(source, adjoints.first().unwrap_or(&Derivatives::default()))?;
        let parts = if parts.len() > 1 {
            let load = |part| world.load_kernel(part, compiled.first_fields());
            let loaded = parts.into_iter().map(load);
            Some(loaded.collect::<Result<Parts>>()?)
        } else {
            None
        };
        lock(&compiled.derived().parts).insert(key, parts.clone());
        Ok(parts)
    }

    /// The gradient kernel.
    pub(crate) fn gradient(
        &self,
        world: &World,
        compiled: &Compiled,
        overwritten: &[Place],
    ) -> Result<Arc<Compiled>> {
        self.kernel(world, compiled, self.key(0, overwritten)?, |module| {
            let mut adjoints = self
                .derivatives(module.arrays.len())
                .pop()
                .unwrap_or_default();
            for place in overwritten {
                adjoints.add_overwritten(*place);
            }
            let gradient = autodiff::reverse(module, &adjoints)?;
            world.add_remarks(&gradient.remarks);
            Ok(gradient.module)
        })
    }

    /// The kernel that computes values and tangents.
    pub(crate) fn tangent(
        &self,
        world: &World,
        compiled: &Compiled,
        tangents: Tangents,
    ) -> Result<Arc<Compiled>> {
        let kind = match tangents {
            Tangents::Computed => 1,
            Tangents::Zero => 2,
        };
        self.kernel(world, compiled, self.key(kind, &[])?, |module| {
            let mut derivatives = self.derivatives(module.arrays.len());
            for direction in &mut derivatives {
                direction.constant = tangents == Tangents::Zero;
            }
            autodiff::forward(module, &derivatives)
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

/// The fields and arrays whose elements a kernel accesses, fields first.
pub(crate) fn accessed(source: &Module) -> Vec<Place> {
    places(source, |op| op.access())
}

/// The fields whose elements are in cells that a kernel deactivates.
fn deactivated(source: &Module) -> Vec<Field> {
    let insts = source.funcs.values().flat_map(|f| f.insts.values());
    let cells = insts.filter_map(|inst| {
        if let OpClass::Cell(CellOp::Deactivate | CellOp::DeactivateChunk, field) = inst.op.class()
        {
            return Some(field);
        }
        None
    });
    let mut found = Vec::new();
    for data in cells.map(|cells| &source.fields[cells]) {
        let below = |f: &FieldData| {
            f.tree == data.tree && source.trees[f.tree].path(f.node).contains(&data.node)
        };
        let fields = source.fields.iter().filter(|(_, f)| below(f));
        found.extend(fields.map(|(field, _)| field));
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// The fields and arrays that a kernel writes to, fields first.
pub(crate) fn written(source: &Module) -> Vec<Place> {
    let mut all = places(source, |op| op.written_access());
    let fields = all.iter().filter_map(|place| match place {
        Place::Field(field) => Some(*field),
        Place::Array(_) | Place::Local(_) | Place::Temp(_) => None,
    });
    // A store rounds the others of a group with a shared exponent again.
    let rounded: Vec<Field> = fields.flat_map(|f| source.sharing_exponents(f)).collect();
    for place in rounded.into_iter().map(Place::Field) {
        if !all.contains(&place) {
            all.insert(0, place);
        }
    }
    all
}

fn places(source: &Module, access: impl Fn(&Op) -> Option<&Access>) -> Vec<Place> {
    let insts = source.funcs.values().flat_map(|f| f.insts.values());
    let (mut fields, mut arrays) = (Vec::new(), Vec::new());
    for place in insts.filter_map(|inst| access(&inst.op).map(|a| a.place)) {
        match place {
            Place::Field(field) => fields.push(field),
            Place::Array(array) => arrays.push(array),
            Place::Local(_) | Place::Temp(_) => {}
        }
    }
    fields.sort_unstable();
    fields.dedup();
    arrays.sort_unstable();
    arrays.dedup();
    let fields = fields.into_iter().map(Place::Field);
    fields.chain(arrays.into_iter().map(Place::Array)).collect()
}

impl Launch<'_> {
    /// The field of the launch that a place in the module of the kernel is. `None` for an array of the host.
    pub(crate) fn field_of(&self, place: Place) -> Option<FieldHandle> {
        match place {
            Place::Field(field) => {
                let number = field.as_u32();
                let first = self.compiled.first_fields();
                let tree = first.iter().rposition(|first| *first <= number)?;
                Some(FieldHandle {
                    tree: self.trees.get(tree)?.clone(),
                    field: Field::from_u32(number - first[tree]),
                })
            }
            Place::Array(array) => {
                let mut held = self.array_fields.iter();
                let (_, field) = held.find(|(n, _)| *n == array.as_u32())?;
                Some(field.clone())
            }
            Place::Local(_) | Place::Temp(_) => None,
        }
    }
}
