//! Modules, functions, regions and tasks.

use crate::entities::*;
pub use crate::env::*;
use crate::ops::{AtomicOp, Effect, Op, Place};
use crate::types::{Imm, Scalar, Structs, Type};
use cranelift_entity::{PrimaryMap, SecondaryMap};
use smallvec::SmallVec;
use std::num::NonZeroU32;
use std::ops::{Deref, DerefMut};

/// A short list of values.
pub type Values = SmallVec<[Value; 4]>;

/// A kernel: the environment its functions refer to, and the functions themselves.
///
/// A module dereferences to its environment (`m.trees` is `m.env.trees`). A pass that rewrites functions
/// borrows both parts:
///
/// ```
/// # use wuji_ir::module::Module;
/// # let mut m = Module::default();
/// for (_, f) in m.funcs.iter_mut() {
///     let b = wuji_ir::build::Builder::new(&mut m.env, f);
///     assert!(b.env.trees.is_empty());
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Module {
    /// The declarations.
    pub env: Env,
    /// Add with [`Module::add_func`], so that the environment has the signature.
    pub funcs: PrimaryMap<Func, Function>,
    /// The kernel itself, until it is offloaded into tasks.
    pub kernel: Option<Func>,
    /// The tasks of the kernel after offloading, in order.
    pub tasks: Vec<Task>,
}

impl Deref for Module {
    type Target = Env;

    fn deref(&self) -> &Env {
        &self.env
    }
}

impl DerefMut for Module {
    fn deref_mut(&mut self) -> &mut Env {
        &mut self.env
    }
}

/// Recursion deeper than this ends the iteration with an error.
pub const MAX_CALL_DEPTH: u32 = 256;

/// The maximal nesting of regions, so that no recursive walk overflows the stack.
pub const MAX_NESTING: usize = 200;

/// A function: instructions in regions.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// What is known about its effects.
    pub traits: Traits,
    /// The function to use for its reverse sweep, instead of one that is derived from the body: it takes the
    /// parameters, the results and the adjoints of results with floats, and returns the adjoints of parameters with
    /// floats. Such a function has no side effects. Only differentiation looks at it.
    pub reverse: Option<Func>,
    /// Frontends return at most one; lowering adds more, and `scalarize` splits them.
    pub results: Vec<Type>,
    /// Its parameters are those of the function.
    pub entry: Region,
    /// The instructions.
    pub insts: PrimaryMap<Inst, InstData>,
    /// The regions.
    pub regions: PrimaryMap<Region, RegionData>,
    /// The values.
    pub values: PrimaryMap<Value, ValueData>,
    /// The local variables.
    pub locals: PrimaryMap<Local, LocalData>,
    /// The number of labels in use.
    pub labels: u32,
    /// Where instructions come from.
    pub spans: SecondaryMap<Inst, Span>,
}

/// Properties of a function for backends.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Traits {
    /// The function is always inlined, except at low optimization effort.
    pub inline: bool,
    /// Its loops are bounded and do not poll the interrupt flag: interrupting the function would leave
    /// inconsistent data.
    pub uninterrupted: bool,
    /// Every operation is rounded as written, in any math mode: the code compensates for rounding errors.
    pub precise: bool,
    /// Concurrent calls with equal arguments have the same result: one thread may call it for several.
    pub once: bool,
    /// On a GPU, what other threads stored before they published a word is visible after a load of that word. Otherwise, loads
    /// and atomics order nothing: what a launch finds in a cell was there before it.
    pub ordered: bool,
    /// The function is never inlined: with many calls, it would be most of the code.
    pub outlined: bool,
    /// On a GPU, other threads hide latency rather than registers: as many as possible are resident.
    pub many_threads: bool,
}

/// An instruction.
#[derive(Clone, Debug, PartialEq)]
pub struct InstData {
    /// The operation.
    pub op: Op,
    /// The arguments.
    pub args: Values,
    /// The regions inside, in the order of the operation.
    pub regions: SmallVec<[Region; 2]>,
    /// The values it defines.
    pub results: SmallVec<[Value; 1]>,
}

impl InstData {
    /// Whether it only computes its results, without regions: it may be executed earlier, speculatively or again.
    pub fn is_pure(&self) -> bool {
        self.regions.is_empty() && self.op.effect() == Effect::Pure
    }
}

/// A sequence of instructions with parameters and a terminator.
#[derive(Clone, Debug, PartialEq)]
pub struct RegionData {
    /// The values it is entered with.
    pub params: Values,
    /// The instructions, in order.
    pub insts: Vec<Inst>,
    /// How it ends.
    pub term: Term,
    /// Where its end is in the source.
    pub term_span: Span,
}

/// How a region ends.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Term {
    /// Passes results to the `if` or `block` that owns the region.
    Yield(Values),
    /// Leaves an enclosing loop or block with its results.
    Break(Label, Values),
    /// Starts the next iteration of an enclosing loop with its carried values.
    Continue(Label, Values),
    /// Leaves the function.
    Return(Values),
    /// Unreachable: the instruction before it does not fall through.
    Unreachable,
}

impl Term {
    /// The values that it passes on.
    pub fn args(&self) -> &[Value] {
        match self {
            Term::Yield(v) | Term::Break(_, v) | Term::Continue(_, v) | Term::Return(v) => v,
            Term::Unreachable => &[],
        }
    }

    /// The values that it passes on, to be changed.
    pub fn args_mut(&mut self) -> &mut [Value] {
        match self {
            Term::Yield(v) | Term::Break(_, v) | Term::Continue(_, v) | Term::Return(v) => v,
            Term::Unreachable => &mut [],
        }
    }
}

/// A value.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ValueData {
    /// Its type.
    pub ty: Type,
    /// Where it is defined.
    pub def: ValueDef,
}

/// The definition of a value.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ValueDef {
    /// A result of an instruction, by its number.
    Result(Inst, u16),
    /// A parameter of a region, by its number.
    Param(Region, u16),
}

/// A local variable, zero until it is stored to. `len` makes it an array.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LocalData {
    /// Its name in the source.
    pub name: String,
    /// The type, of an element if there is a length.
    pub ty: Type,
    /// The number of elements of an array.
    pub len: Option<u32>,
    /// An array in shared memory.
    pub shared: bool,
    /// What it is for.
    pub role: LocalRole,
}

/// The purpose of a local, if passes and backends treat it specially.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum LocalRole {
    /// A variable of the source, or of a pass.
    #[default]
    Variable,
    /// The partial result of a reduction. Its updates may be applied in any order and association.
    Accumulator,
    /// A scratchpad: elements of a field that a block caches.
    Scratchpad,
}

impl LocalRole {
    /// The keyword in the text format, after the type. Variables have none.
    pub fn name(self) -> Option<&'static str> {
        match self {
            LocalRole::Variable => None,
            LocalRole::Accumulator => Some("accumulator"),
            LocalRole::Scratchpad => Some("scratchpad"),
        }
    }
}

/// A part of a kernel that a device runs as a unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// A name for profiles and listings.
    pub name: String,
    /// What it loops over.
    pub kind: TaskKind,
    /// The function that it runs.
    pub func: Func,
    /// Number of the task for random bits: 2s for the s-th part of serial code, 2p + 1 for the p-th parallel
    /// loop of the kernel.
    pub ordinal: u32,
    /// The task generates the list of active cells of this node; a no-op if it is up to date.
    pub lists: Option<(Tree, Node)>,
    /// Its role in privatization.
    pub copies: Copies,
    /// Fields of which the task updates only one slice.
    pub slices: Vec<Slice>,
    /// Its place in the control flow of the kernel.
    pub flow: TaskFlow,
    /// Where the loop is in the source.
    pub span: Span,
}

/// The place of a task in the control flow of its kernel.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TaskFlow {
    /// Steps do not decrease from task to task. All are 0 in a kernel that repeats no task.
    pub step: u32,
    /// Of the last task of a loop around tasks.
    pub repeat: Option<Repeat>,
}

impl TaskFlow {
    /// Of a task that is added beside one of this step.
    pub fn beside(self) -> TaskFlow {
        TaskFlow {
            step: self.step,
            repeat: None,
        }
    }
}

/// The end of a loop around tasks: if the temp is at most the step of the task, the tasks from step `from` on run again.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Repeat {
    /// An `i32`: the step that is next.
    pub temp: Temp,
    /// The first step of the loop.
    pub from: u32,
}

/// The elements of a field with one index along its first axis. A task with such a slice updates elements in it by atomics, and
/// accesses no element of it in another way; it may access other elements of the field.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Slice {
    /// The field.
    pub field: Field,
    /// The number of a kernel parameter.
    pub param: Option<u32>,
    /// The index, or its distance from the parameter.
    pub offset: i64,
}

/// The role of a task in privatization.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Copies {
    /// It has nothing to do with copies.
    #[default]
    None,
    /// Its workers update fields and arrays in private copies, only by these operations.
    Uses {
        /// Privatized fields.
        fields: Vec<(Field, AtomicOp)>,
        /// Privatized arrays, of known shape.
        arrays: Vec<(Array, AtomicOp)>,
        /// Privatized temps, updated only by these operations.
        temps: Vec<(Temp, AtomicOp)>,
        /// The approximate number of scalars that an iteration updates.
        updates: u64,
    },
    /// Sets every element of the fields that the next task uses to the identity, in one copy of the tree.
    Fills(Tree),
    /// Merges one copy of the tree from the previous task into the tree, and resets the copy to identities.
    Merges(Tree),
}

/// What a task loops over.
#[derive(Clone, Debug, PartialEq)]
pub enum TaskKind {
    /// The function takes the kernel's parameters.
    Serial,
    /// The function takes the kernel's parameters, then one index per axis.
    Range {
        /// The ranges, one per axis.
        dims: Vec<RangeDim>,
        /// What the program said about the loop.
        hints: crate::ops::LoopHints,
    },
    /// The function takes the kernel's parameters, then one index per axis of the field.
    Cells {
        /// The field whose active cells are visited.
        field: Field,
        /// What the program said about the loop.
        hints: crate::ops::LoopHints,
    },
    /// The function takes the kernel's parameters, then `begin: i64, end: i64`, and runs the units
    /// numbered `begin..end` of as many as the product of the dimensions.
    Chunks {
        /// The ranges that are counted in units.
        dims: Vec<RangeDim>,
        /// Iterations in one unit, for sizing chunks.
        unit: u64,
        /// What the program said about the loop.
        hints: crate::ops::LoopHints,
    },
}

/// The half-open range `lo..hi`, empty when `hi <= lo`.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct RangeDim {
    /// The first number.
    pub lo: Bound,
    /// The end, exclusive.
    pub hi: Bound,
    /// The distance between two numbers of the range.
    pub step: NonZeroU32,
}

impl RangeDim {
    /// Every number of `lo..hi`.
    pub fn new(lo: Bound, hi: Bound) -> RangeDim {
        RangeDim {
            lo,
            hi,
            step: NonZeroU32::MIN,
        }
    }

    /// How many numbers there are between two bounds.
    pub fn count(&self, lo: i128, hi: i128) -> u128 {
        let long = hi.saturating_sub(lo).max(0) as u128;
        long.div_ceil(u128::from(self.step.get()))
    }

    /// How many numbers there are, if that is known.
    pub fn constant_count(&self) -> Option<u64> {
        match (self.lo, self.hi) {
            (Bound::Const(lo), Bound::Const(hi)) => {
                Some(u64::try_from(self.count(lo.into(), hi.into())).unwrap_or(u64::MAX))
            }
            _ => None,
        }
    }
}

/// A bound of a range, known at launch.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Bound {
    /// A constant.
    Const(i64),
    /// A by-value integer parameter of the kernel.
    Param(u32),
    /// Known at launch: the sum of a base and a constant, wrapped to an integer type.
    Sum {
        /// The base.
        base: BoundBase,
        /// The constant.
        plus: i64,
        /// The integer type.
        scalar: Scalar,
    },
    /// An integer that an earlier task has stored.
    Temp(Temp),
    /// The number of entries of a node's list of active cells.
    List(Tree, Node),
}

/// What a [`Bound::Sum`] adds to.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum BoundBase {
    /// A by-value integer parameter of the kernel.
    Param(u32),
    /// The extent of an array argument along an axis.
    Extent(Array, u8),
}

impl Bound {
    /// The parameter that it depends on.
    pub fn param(self) -> Option<u32> {
        match self {
            Bound::Param(p) => Some(p),
            Bound::Sum { base, .. } => match base {
                BoundBase::Param(p) => Some(p),
                BoundBase::Extent(..) => None,
            },
            Bound::Const(_) | Bound::Temp(_) | Bound::List(..) => None,
        }
    }

    /// The value of a [`Bound::Sum`].
    pub fn sum(base: i128, plus: i64, scalar: Scalar) -> i128 {
        let wrapped = Imm::int(scalar, base.wrapping_add(plus.into()));
        wrapped.as_int().unwrap_or(0)
    }
}

impl Function {
    /// Moves a local to a temp of its type, in all accesses so far.
    pub fn move_to_temp(&mut self, local: Local, temp: Temp) {
        for inst in self.insts.values_mut() {
            if let Some(access) = inst.op.access_mut()
                && access.place == Place::Local(local)
            {
                access.place = Place::Temp(temp);
            }
        }
    }

    /// A function with parameters and an empty body that is still `unreachable`.
    pub fn new(name: impl Into<String>, params: &[Type], results: &[Type]) -> Function {
        let mut f = Function {
            name: name.into(),
            traits: Traits::default(),
            reverse: None,
            results: results.to_vec(),
            entry: Region::from_u32(0),
            insts: PrimaryMap::new(),
            regions: PrimaryMap::new(),
            values: PrimaryMap::new(),
            locals: PrimaryMap::new(),
            labels: 0,
            spans: SecondaryMap::new(),
        };
        f.entry = f.add_region(params);
        f
    }

    /// Adds an empty region with parameters of these types.
    pub fn add_region(&mut self, params: &[Type]) -> Region {
        let region = self.regions.push(RegionData {
            params: Values::new(),
            insts: Vec::new(),
            term: Term::Unreachable,
            term_span: Span::UNKNOWN,
        });
        for ty in params {
            self.add_region_param(region, *ty);
        }
        region
    }

    /// Adds a parameter to a region.
    pub fn add_region_param(&mut self, region: Region, ty: Type) -> Value {
        let n = self.regions[region].params.len() as u16;
        let value = self.values.push(ValueData {
            ty,
            def: ValueDef::Param(region, n),
        });
        self.regions[region].params.push(value);
        value
    }

    /// Creates an instruction without inserting it into a region.
    pub fn add_inst(&mut self, op: Op, args: Values, results: &[Type], span: Span) -> Inst {
        let inst = self.insts.push(InstData {
            op,
            args,
            regions: SmallVec::new(),
            results: SmallVec::new(),
        });
        for ty in results {
            self.add_result(inst, *ty);
        }
        if span.is_known() {
            self.spans[inst] = span;
        }
        inst
    }

    /// Adds a result to an instruction.
    pub fn add_result(&mut self, inst: Inst, ty: Type) -> Value {
        let n = self.insts[inst].results.len() as u16;
        let value = self.values.push(ValueData {
            ty,
            def: ValueDef::Result(inst, n),
        });
        self.insts[inst].results.push(value);
        value
    }

    /// A label that is not in use.
    pub fn fresh_label(&mut self) -> Label {
        let label = Label::from_u32(self.labels);
        self.labels += 1;
        label
    }

    /// The type of a value.
    pub fn ty(&self, value: Value) -> Type {
        self.values[value].ty
    }

    /// The parameters of the function.
    pub fn params(&self) -> &[Value] {
        &self.regions[self.entry].params
    }

    /// The instruction that defines a value; `None` for parameters.
    pub fn def(&self, value: Value) -> Option<Inst> {
        match self.values[value].def {
            ValueDef::Result(inst, _) => Some(inst),
            ValueDef::Param(..) => None,
        }
    }

    /// The value of a constant, if it is one.
    pub fn constant(&self, value: Value) -> Option<crate::types::Imm> {
        let Op::Const(imm) = self.insts[self.def(value)?].op else {
            return None;
        };
        Some(imm)
    }

    /// The signature.
    pub fn signature(&self) -> Signature {
        Signature {
            params: self.params().iter().map(|p| self.ty(*p)).collect(),
            results: self.results.clone(),
        }
    }

    /// The signature that the function for its reverse sweep must have.
    pub fn reverse_signature(&self, structs: &Structs) -> Signature {
        let own = self.signature();
        let floats = |list: &[Type]| -> Vec<Type> {
            let has_floats = |ty: &Type| structs.flatten(*ty).iter().any(|s| s.is_float());
            list.iter().copied().filter(has_floats).collect()
        };
        let adjoints = floats(&own.results);
        let results = floats(&own.params);
        let params = own.params.into_iter().chain(own.results).chain(adjoints);
        Signature {
            params: params.collect(),
            results,
        }
    }

    /// Whether a function of this signature can do its reverse sweep. The adjoints of several parameters can also be the
    /// members of one struct.
    pub fn is_reversed_by(&self, signature: &Signature, structs: &Structs) -> bool {
        let wanted = self.reverse_signature(structs);
        let members = match signature.results[..] {
            [Type::Struct(_)] => structs.components(signature.results[0]),
            _ => Vec::new(),
        };
        signature.params == wanted.params
            && (signature.results == wanted.results
                || wanted.results.len() > 1 && members == wanted.results)
    }

    /// The only result of an instruction.
    pub fn result(&self, inst: Inst) -> Value {
        self.insts[inst].results[0]
    }

    /// Whether an operation is about the threads of a block: shared arrays, thread indices, barriers.
    pub fn is_among_threads(&self, op: &Op) -> bool {
        match op.access().map(|a| a.place) {
            Some(Place::Local(l)) => self.locals[l].shared,
            Some(Place::Field(_) | Place::Array(_) | Place::Temp(_)) => false,
            None => matches!(op, Op::Thread(_)),
        }
    }
}

impl Module {
    /// An empty module of this name.
    pub fn new(name: impl Into<String>) -> Module {
        let mut m = Module::default();
        m.env.name = name.into();
        m
    }

    /// The function of the kernel, before it is split into tasks.
    pub fn kernel_func(&self) -> Option<&Function> {
        self.kernel.map(|k| &self.funcs[k])
    }

    /// The first task at a step, or at a later one.
    pub fn first_of_step(&self, step: u32) -> usize {
        self.tasks.partition_point(|t| t.flow.step < step)
    }

    /// An instruction of a region, or of its callees, that is about the threads of a block.
    pub fn among_threads(&self, func: Func, region: Region) -> Option<(Func, Inst)> {
        let found = |func: Func, region: Region| {
            let f = &self.funcs[func];
            let mut insts = f.insts_in(region);
            let inst = insts.find(|i| f.is_among_threads(&f.insts[*i].op))?;
            Some((func, inst))
        };
        found(func, region).or_else(|| {
            let called = self.called_by(self.funcs[func].callees_in(region));
            let mut others = called.into_iter().filter(|callee| *callee != func);
            others.find_map(|callee| found(callee, self.funcs[callee].entry))
        })
    }

    /// Adds a function and declares its signature.
    pub fn add_func(&mut self, f: Function) -> Func {
        self.add_defined();
        self.env.signatures.push(f.signature());
        self.funcs.push(f)
    }

    /// Replaces a function and its signature.
    pub fn set_func(&mut self, id: Func, f: Function) {
        self.env.signatures[id] = f.signature();
        self.funcs[id] = f;
    }

    /// Replaces all functions, and declares their signatures.
    pub fn set_funcs(&mut self, funcs: PrimaryMap<Func, Function>) {
        self.env.signatures = funcs.values().map(Function::signature).collect();
        self.funcs = funcs;
    }

    /// Adds the functions that were declared and defined in the environment while others were rewritten.
    pub fn add_defined(&mut self) {
        let mut defined = std::mem::take(&mut self.env.defined);
        defined.sort_by_key(|(id, _)| *id);
        for (id, f) in defined {
            let added = self.funcs.push(f);
            debug_assert_eq!(id, added, "a function was declared but never defined");
        }
    }

    /// Everything except the bodies of functions, which only keep their names. It cannot be run.
    pub fn without_bodies(&self) -> Module {
        let names = self.funcs.values().map(|f| f.name.clone());
        let funcs = names.map(|n| Function::new(n, &[], &[])).collect();
        let mut out = Module {
            env: self.env.clone(),
            funcs: PrimaryMap::new(),
            kernel: self.kernel,
            tasks: self.tasks.clone(),
        };
        out.set_funcs(funcs);
        out
    }
}
