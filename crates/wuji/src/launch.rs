//! Launches: finding or compiling the code for the arguments, and running it.
//!
//! Code is keyed by structure: the instance of the kernel, the shapes of the trees of its fields, which
//! arguments are the same field or in the same tree, and the flags of its arrays. Addresses are launch
//! arguments.

use crate::args::{Arg, ArgKind, ArrayData, ArrayOperand, KernelArg, TypeOf};
use crate::autodiff::{self, Derived, InMode, Mode};
use crate::dynamic::ArrayOwner;
use crate::element::Element;
use crate::graph::Step;
use crate::host::FieldHandle;
use crate::lang;
use crate::lang::ast::{Ast, ParamKind, Pat};
use crate::lang::recording::{Bound, Function, Recording, TypeTag};
use crate::layout::{TreeBody, TreeInner};
use crate::specialize::{Specialization, for_shapes};
use crate::world::{World, here, lock};
use smallvec::SmallVec;
use std::any::TypeId;
use std::panic::Location;
use std::sync::{Arc, Mutex};
use wuji_compile::passes::split_fields;
use wuji_flow::Task;
use wuji_ir::entities::{Array, Field};
use wuji_ir::module::{self, ArrayShape, Module};
use wuji_ir::{Error, Result};
use wuji_runtime::array::{ArrayArg, KeptArrays, unaliased};
use wuji_runtime::{Bindings, Collected, Memory, Outcome, Program, ReportContext};

/// The return type of a kernel.
pub trait KernelResult: Sized {
    /// How many scalars.
    const SCALARS: usize;

    /// The result, from the bits of its scalars.
    fn from_result(slots: &[u64]) -> Self;
}

impl KernelResult for () {
    const SCALARS: usize = 0;

    fn from_result(_: &[u64]) {}
}

impl<T: Element> KernelResult for T {
    const SCALARS: usize = T::SCALARS;

    fn from_result(slots: &[u64]) -> T {
        T::from_slots(slots)
    }
}

/// One call of a kernel, while its arguments are gathered.
#[derive(Debug)]
pub struct Call<'a> {
    name: &'static str,
    kernel: TypeId,
    caller: &'static Location<'static>,
    world: Option<World>,
    args: SmallVec<[Kind; 8]>,
    params: SmallVec<[u64; 16]>,
    /// The fields with the derivatives of by-value parameters, by number.
    scalars: SmallVec<[(u32, FieldHandle); 2]>,
    /// Each once, in the order of their first fields.
    trees: SmallVec<[Arc<TreeInner>; 4]>,
    arrays: SmallVec<[ArrayOperand<'a>; 2]>,
    /// The fields that hold arrays of the world, by the number of the array.
    array_fields: SmallVec<[(u32, FieldHandle); 2]>,
    /// The first error of an argument.
    error: Option<Error>,
    /// Tapes do not record it.
    no_grad: bool,
}

/// What the key of the code says about an argument.
#[derive(Copy, Clone, Debug)]
enum Kind {
    World,
    Value(TypeOf),
    /// Number of the tree, and of the field in it.
    Field(u32, Field),
    /// Number of the array.
    Array(u32),
}

/// The key that compiled code is found by.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Key {
    kernel: TypeId,
    /// The shape of each tree, then which field of which tree, or which array, each argument is, then what is known
    /// of each array. The kernel's type says how many of what there are.
    words: SmallVec<[usize; 16]>,
}

/// Compiled code and how arguments map to it.
#[derive(Debug)]
pub(crate) struct Compiled {
    program: Program,
    /// The number of the first field of each tree.
    first_field: SmallVec<[u32; 4]>,
    /// The kernel as the frontend made it, from which others are derived; services have none.
    source: Option<Module>,
    derived: Derived,
    /// The tasks that it is split into in a lazy world, for each shape of its arrays.
    tasks: Mutex<Vec<ShapedTasks>>,
    specialization: Specialization,
}

/// A launch of compiled code on all of its arguments.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Launch<'l> {
    pub(crate) compiled: &'l Arc<Compiled>,
    pub(crate) params: &'l [u64],
    pub(crate) trees: &'l [Arc<TreeInner>],
    pub(crate) arrays: &'l [ArrayArg<'l>],
    /// The fields with the derivatives of by-value parameters, by number.
    pub(crate) scalars: &'l [(u32, FieldHandle)],
    /// The fields that hold arrays of the world, by the number of the array.
    pub(crate) array_fields: &'l [(u32, FieldHandle)],
    /// The owners of arrays that no field holds, by the number of the array.
    pub(crate) owners: &'l [Option<ArrayOwner>],
}

/// What a launch that has run leaves.
#[derive(Debug)]
pub struct Launched {
    /// The scalars of the result, one per slot; none when the kernel gives none or ended early.
    pub result: SmallVec<[u64; 4]>,
    /// What went wrong on the way, such as writes outside of fields, which were dropped.
    pub error: Option<Error>,
}

impl<'a> Call<'a> {
    /// `kernel` is a type that no other kernel and no other instance of it has.
    #[track_caller]
    pub fn new(name: &'static str, kernel: TypeId) -> Call<'a> {
        Call {
            name,
            kernel,
            caller: Location::caller(),
            world: None,
            args: SmallVec::new(),
            params: SmallVec::new(),
            scalars: SmallVec::new(),
            trees: SmallVec::new(),
            arrays: SmallVec::new(),
            array_fields: SmallVec::new(),
            error: None,
            no_grad: false,
        }
    }

    /// Its writes are constants for tapes.
    pub fn no_grad(&mut self) {
        self.no_grad = true;
    }

    /// The next argument; gives what it is.
    pub fn arg(&mut self, arg: impl KernelArg<'a>) -> TypeTag {
        match arg.arg() {
            Ok(arg) => self.add(arg),
            Err(error) => self.refuse(error),
        }
    }

    /// An argument that cannot be passed.
    pub(crate) fn refuse(&mut self, error: Error) -> TypeTag {
        self.fail(error);
        TypeTag::Unit
    }

    /// The world of the kernel, unless an argument is in one.
    pub(crate) fn or_enter(&mut self, world: Option<&World>) {
        if let (None, Some(world)) = (&self.world, world) {
            self.enter(world);
        }
    }

    /// An argument, or all that a bundle holds.
    pub(crate) fn add(&mut self, arg: Arg<'a>) -> TypeTag {
        let (kind, tag) = match arg.0 {
            ArgKind::Bundle(members) => {
                let members = members.into_iter().map(|(name, m)| (name, self.add(m)));
                return TypeTag::Bundle(members.collect());
            }
            ArgKind::List(items) => {
                let n = items.len();
                let tags = items.into_iter().map(|m| self.add(m));
                return TypeTag::Array(Box::new(tags.last().unwrap_or(TypeTag::Unit)), n);
            }
            ArgKind::World(world) => {
                self.enter(world);
                (Kind::World, TypeTag::Data)
            }
            ArgKind::Value { ty, slots, field } => {
                self.params.extend(slots);
                if let Some(field) = field {
                    self.enter(&field.tree.world);
                    let values = self.args.iter().filter(|a| matches!(a, Kind::Value(_)));
                    self.scalars.push((values.count() as u32, field.clone()));
                }
                (Kind::Value(ty), TypeTag::Element(ty))
            }
            ArgKind::Field { tree, field } => {
                self.enter(&tree.world);
                let known = self.trees.iter().position(|t| Arc::ptr_eq(t, tree));
                let number = known.unwrap_or_else(|| {
                    self.trees.push(tree.clone());
                    self.trees.len() - 1
                });
                (Kind::Field(number as u32, field), TypeTag::Data)
            }
            ArgKind::Array(operand) => (Kind::Array(self.add_array(operand)), TypeTag::Data),
        };
        self.args.push(kind);
        tag
    }

    /// The number of an array; the same one has one number, as fields do.
    fn add_array(&mut self, operand: ArrayOperand<'a>) -> u32 {
        let number = self.arrays.len() as u32;
        if let ArrayData::Held(field) = &operand.data {
            let known = self.array_fields.iter().find(|(_, f)| f == field);
            if let Some((known, _)) = known {
                return *known;
            }
            self.enter(&field.tree.world);
            self.array_fields.push((number, field.clone()));
        }
        self.arrays.push(operand);
        number
    }

    fn fail(&mut self, error: Error) {
        self.error.get_or_insert(error);
    }

    /// All arguments live in one world, which is where the kernel runs.
    fn enter(&mut self, world: &World) {
        match &self.world {
            None => self.world = Some(world.clone()),
            Some(known) if known == world => {}
            Some(_) => {
                let name = self.name;
                self.fail(
                    Error::new("W0114", format!("kernel `{name}` got fields of two worlds"))
                        .help("copy the data into one world: `to_vec` and `copy_from`"),
                );
            }
        }
    }

    /// Runs the kernel. `record` gives its source when there is no code for it yet.
    pub fn run<R: KernelResult>(self, record: &dyn Fn() -> Recording) -> Result<R> {
        let (name, caller) = (self.name, self.caller);
        let slots = self.launch(record).and_then(|slots| {
            if slots.len() < R::SCALARS {
                let what = format!("kernel `{name}` ended without its result");
                return Err(Error::new("W0502", what));
            }
            Ok(slots)
        });
        match slots {
            Ok(slots) => Ok(R::from_result(&slots)),
            // An error inside the kernel has a position of its own.
            Err(e) if e.at.is_some() => Err(e),
            Err(e) => Err(e.at(Some(here(caller)))),
        }
    }

    fn launch(mut self, record: &dyn Fn() -> Recording) -> Result<SmallVec<[u64; 4]>> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let world = self.world.take().ok_or_else(|| {
            let name = self.name;
            Error::new("W0116", format!("kernel `{name}` has no world to run in"))
                .note("a kernel runs in the world of its fields, and it was given none")
                .help("give it the world as an argument: `_world: &World`")
        })?;
        world.ensure_open()?;
        let trees = std::mem::take(&mut self.trees);
        let bodies = trees
            .iter()
            .map(|t| t.body())
            .collect::<Result<SmallVec<[&TreeBody; 4]>>>()?;
        let types: SmallVec<[TypeOf; 2]> = self.arrays.iter().map(|a| a.ty).collect();
        let views = self.arrays.iter_mut().map(|a| a.data.view());
        let views = views.collect::<Result<SmallVec<[ArrayArg<'_>; 2]>>>()?;
        let key = Key::of(self.kernel, &self.args, &bodies, &views);
        let compiled = match world.kernel(&key) {
            Some(compiled) => compiled,
            None => {
                let source = Source {
                    name: self.name,
                    args: &self.args,
                    bodies: &bodies,
                    views: &views,
                    types: &types,
                };
                world.enter_kernel(key, source.compile(&world, &record())?)
            }
        };
        if self.no_grad && world.modes().are_used() && world.modes().is_gradient() {
            // Nothing depends on it.
            return Ok(compiled.no_result());
        }
        let mode = self.no_grad.then(|| InMode::enter(&world, Mode::Paused));
        let mode = mode.transpose()?;
        let launched = Launch {
            compiled: &compiled,
            params: &self.params,
            trees: &trees,
            arrays: &views,
            scalars: &self.scalars,
            array_fields: &self.array_fields,
            owners: &[],
        }
        .run(&world)?;
        drop(mode);
        drop(views);
        for array in &mut self.arrays {
            array.data.put_back();
        }
        match launched.error {
            Some(error) => Err(error),
            None => Ok(launched.result),
        }
    }
}

impl Launch<'_> {
    /// Runs it, or does with it what the mode of this thread says: records it, or runs a derivative of it.
    pub(crate) fn run(&self, world: &World) -> Result<Launched> {
        if world.modes().are_used() {
            autodiff::run(world, self)
        } else {
            self.run_primal(world)
        }
    }

    /// Runs it, or adds it to the graph that this thread records.
    pub(crate) fn run_primal(&self, world: &World) -> Result<Launched> {
        if world.is_recording() {
            return self.add_to_graph(world);
        }
        if let Some(launched) = self.join_window(world)? {
            return Ok(launched);
        }
        world.run_pending()?;
        let bodies = self.trees.iter().map(|t| t.body());
        let bodies = bodies.collect::<Result<SmallVec<[&TreeBody; 4]>>>()?;
        let memories: SmallVec<[&Memory; 4]> = bodies.iter().map(|b| &b.memory).collect();
        let bindings = Bindings {
            params: self.params,
            trees: &memories,
            arrays: self.arrays,
        };
        let device = world.device();
        let watch = world.watch();
        if let Some(watch) = &watch {
            watch.before(self.trees)?;
        }
        let special = match &watch {
            None => self.compiled.specialization.find(world, self),
            Some(_) => None,
        };
        let compiled = special.as_ref().unwrap_or(self.compiled);
        let outcome = device.run(&compiled.program, &bindings)?;
        if let Some(watch) = &watch {
            watch.after(self.compiled, self.trees)?;
        }
        let printed = match &outcome.collected {
            Some(collected) => device.print(collected),
            None => Ok(()),
        };
        let error = compiled.error_of(&bodies, self.arrays, &outcome);
        if error.is_none() {
            printed?;
        }
        Ok(Launched {
            result: outcome.result,
            error,
        })
    }

    fn add_to_graph(&self, world: &World) -> Result<Launched> {
        let held = self.array_fields.len() == self.arrays.len();
        let arrays = if held { &[] } else { self.arrays };
        let Some(arrays) = KeptArrays::of(arrays) else {
            let what = format!(
                "kernel `{}` cannot be in a graph: one of its arguments is an array of the host",
                self.compiled.name()
            );
            let help = "copy the array into a field, or use an array of the device";
            return Err(Error::new("W0134", what).help(help));
        };
        world.add_step(Step {
            compiled: self.compiled.clone(),
            params: self.params.into(),
            trees: self.trees.into(),
            arrays,
            array_fields: if held {
                self.array_fields.into()
            } else {
                SmallVec::new()
            },
        })?;
        Ok(Launched {
            result: SmallVec::new(),
            error: None,
        })
    }
}

impl Key {
    fn of(kernel: TypeId, args: &[Kind], bodies: &[&TreeBody], views: &[ArrayArg<'_>]) -> Key {
        let mut words = SmallVec::new();
        // A world keeps its shapes, so an address means one structure for as long as it lives.
        words.extend(bodies.iter().map(|b| Arc::as_ptr(&b.shape).addr()));
        for arg in args {
            match arg {
                Kind::World | Kind::Value(_) => {}
                Kind::Array(n) => words.push(*n as usize),
                Kind::Field(tree, field) => {
                    words.push(*tree as usize);
                    words.push(field.as_u32() as usize);
                }
            }
        }
        let flags = views.iter().zip(unaliased(views)).map(|(view, alone)| {
            usize::from(view.is_writable())
                | usize::from(view.is_contiguous()) << 1
                | usize::from(alone) << 2
        });
        words.extend(flags);
        Key { kernel, words }
    }
}

/// Everything that code is compiled from.
#[derive(Debug)]
struct Source<'c> {
    name: &'static str,
    args: &'c [Kind],
    bodies: &'c [&'c TreeBody],
    views: &'c [ArrayArg<'c>],
    types: &'c [TypeOf],
}

impl Source<'_> {
    fn compile(&self, world: &World, recording: &Recording) -> Result<Compiled> {
        let mut m = Module::new(self.name);
        let first_field = self.add_trees(&mut m);
        let names = recording
            .functions
            .first()
            .map_or(Vec::new(), argument_names);
        for (k, ((view, ty), alone)) in
            (self.views.iter().zip(self.types).zip(unaliased(self.views))).enumerate()
        {
            let place = self
                .args
                .iter()
                .position(|a| matches!(a, Kind::Array(n) if *n as usize == k));
            let elem = ty(&mut m.structs);
            m.arrays.push(module::ArrayData {
                name: name_of(&names, place.unwrap_or(usize::MAX)),
                elem,
                rank: view.rank() as u8,
                writable: view.is_writable(),
                contiguous: view.is_contiguous(),
                unaliased: alone,
                shape: None,
            });
        }
        let mut bounds = Vec::new();
        for (k, arg) in self.args.iter().enumerate() {
            bounds.push(match arg {
                Kind::World => Bound::World,
                Kind::Value(ty) => {
                    let ty = ty(&mut m.structs);
                    m.params.push(module::Param {
                        name: name_of(&names, k),
                        ty,
                    });
                    Bound::Value
                }
                Kind::Field(tree, field) => {
                    let first = first_field[*tree as usize];
                    Bound::Field(Field::from_u32(first + field.as_u32()))
                }
                Kind::Array(n) => Bound::Array(Array::from_u32(*n)),
            });
        }
        let mut m = lang::lower(recording, &bounds, m)?;
        split_fields::split(&mut m);
        Ok(Compiled::of(world.load_program(m.clone())?, &first_field).with_source(m))
    }

    /// Trees with their fields, each tree's one after the other.
    fn add_trees(&self, m: &mut Module) -> SmallVec<[u32; 4]> {
        let bodies = self.bodies.iter();
        bodies.map(|b| b.shape.enter(m, &b.names)).collect()
    }
}

impl Compiled {
    /// A program with one tree.
    pub(crate) fn new(program: Program) -> Compiled {
        Compiled::of(program, &[0])
    }

    /// A program, and the number of the first field of each of its trees.
    pub(crate) fn of(program: Program, first_field: &[u32]) -> Compiled {
        Compiled {
            program,
            first_field: SmallVec::from_slice(first_field),
            source: None,
            derived: Derived::default(),
            tasks: Mutex::default(),
            specialization: Specialization::default(),
        }
    }

    /// Keeps the kernel as it was before any pass.
    pub(crate) fn with_source(mut self, source: Module) -> Compiled {
        self.source = Some(source);
        self
    }

    pub(crate) fn source(&self) -> Result<&Module> {
        self.source.as_ref().ok_or_else(|| {
            let what = format!("kernel `{}` has no source to differentiate", self.name());
            Error::new("W0302", what).help("this is a bug in Wuji; please report it")
        })
    }

    /// Whether it has the source that a launch of it needs to wait.
    pub(crate) fn has_source(&self) -> bool {
        self.source.is_some()
    }

    /// Whether it gives a result.
    pub(crate) fn has_result(&self) -> bool {
        let func = self.source.as_ref().and_then(Module::kernel_func);
        func.is_some_and(|f| !f.results.is_empty())
    }

    /// The tasks that it is split into for arrays of these shapes, which `split` makes at the first call. `None` if there are too many
    /// shapes already.
    pub(crate) fn tasks(
        &self,
        shapes: &[ArrayShape],
        split: impl FnOnce(&Module) -> Result<Vec<Arc<Task>>>,
    ) -> Result<Option<Arc<[Arc<Task>]>>> {
        let mut known = lock(&self.tasks);
        if let Some((_, tasks)) = known.iter().find(|(s, _)| s == shapes) {
            return Ok(Some(tasks.clone()));
        }
        if known.len() >= MOST_SHAPES {
            return Ok(None);
        }
        let source = self.source()?;
        let tasks = if shapes.is_empty() {
            split(source)?
        } else {
            split(&for_shapes(source, shapes))?
        };
        let tasks: Arc<[Arc<Task>]> = tasks.into();
        known.push((shapes.to_vec(), tasks.clone()));
        Ok(Some(tasks))
    }

    pub(crate) fn specialization(&self) -> &Specialization {
        &self.specialization
    }

    pub(crate) fn derived(&self) -> &Derived {
        &self.derived
    }

    /// The number of the first field of each tree.
    pub(crate) fn first_fields(&self) -> &[u32] {
        &self.first_field
    }

    pub(crate) fn name(&self) -> &str {
        &self.program.module().name
    }

    /// A result of zeros, for a launch that did something else instead.
    pub(crate) fn no_result(&self) -> SmallVec<[u64; 4]> {
        let source = self.source.as_ref();
        let result = source.and_then(|m| Some((m, *m.kernel_func()?.results.first()?)));
        let count = result.map_or(0, |(m, ty)| m.structs.flatten(ty).len());
        SmallVec::from_elem(0, count)
    }

    pub(crate) fn program(&self) -> &Program {
        &self.program
    }

    /// The error of a launch, or of pending launches before it.
    pub(crate) fn error_of(
        &self,
        bodies: &[&TreeBody],
        views: &[ArrayArg<'_>],
        outcome: &Outcome,
    ) -> Option<Error> {
        let own = outcome
            .collected
            .as_ref()
            .and_then(|collected| self.own_error(bodies, views, collected));
        match (&outcome.earlier, own) {
            (None, own) => own,
            (Some(earlier), None) => Some((**earlier).clone()),
            (Some(earlier), Some(own)) => {
                let place = own.at.as_ref().map(|at| format!(" at {at}"));
                let place = place.unwrap_or_default();
                let also = format!("also: {}{place}", own.message);
                Some((**earlier).clone().note(also))
            }
        }
    }

    fn own_error(
        &self,
        bodies: &[&TreeBody],
        views: &[ArrayArg<'_>],
        collected: &Collected,
    ) -> Option<Error> {
        let extents: Vec<Vec<i64>> = views.iter().map(|v| v.extents().to_vec()).collect();
        collected.error(&ReportContext {
            module: self.program.module(),
            field_name: &|field| self.field_name(bodies, field),
            array_extents: &extents,
        })
    }

    /// The name of a field in the trees of this launch: code is shared by trees with other names.
    fn field_name(&self, bodies: &[&TreeBody], field: Field) -> Option<String> {
        let n = field.as_u32();
        let tree = self.first_field.iter().rposition(|first| *first <= n)?;
        let names = &bodies.get(tree)?.names;
        names.get((n - self.first_field[tree]) as usize).cloned()
    }
}

/// Tasks for arrays of known shapes.
type ShapedTasks = (Vec<ArrayShape>, Arc<[Arc<Task>]>);

/// A kernel has tasks for this many shapes of its arrays. Launches with others do not wait.
const MOST_SHAPES: usize = 16;

/// The name of the parameter that each argument belongs to.
fn argument_names(kernel: &Function) -> Vec<String> {
    let mut names = Vec::new();
    for (k, param) in kernel.ast.params.iter().enumerate() {
        let name = param_name(kernel.ast, k);
        match param.kind {
            ParamKind::Value(_)
            | ParamKind::Exclusive(_)
            | ParamKind::Closure
            | ParamKind::Data => names.push(name),
            ParamKind::Bundle(tag) => {
                if let Some(tag) = kernel.types.get(tag as usize) {
                    tag.name_leaves(&name, &mut names);
                }
            }
        }
    }
    names
}

fn name_of(names: &[String], argument: usize) -> String {
    let name = names.get(argument);
    name.cloned()
        .unwrap_or_else(|| format!("argument {argument}"))
}

/// The name of a parameter in the source.
fn param_name(ast: &Ast, param: usize) -> String {
    let name = || match ast.params.get(param)?.pat {
        Pat::Var { var, .. } => ast.vars.get(var as usize),
        Pat::Wild | Pat::Parts(_) | Pat::Fields(_) => None,
    };
    name().map_or_else(|| format!("argument {param}"), |n| (*n).to_owned())
}
