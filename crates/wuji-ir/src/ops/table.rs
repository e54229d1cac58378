//! The table of operations: one row for each, and the meaning of its columns.

use super::*;
use crate::module::{Function, Module};
use crate::verify::Immediate;

/// Side effects of an operation, without those of its regions.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// None: may be removed if unused, merged and moved.
    Pure,
    /// Depends on memory: may be removed if unused.
    Reads,
    /// Must stay, in order.
    Writes,
    /// Has regions or calls: look inside.
    Control,
}

/// The stages of the pipeline in which an operation may occur.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Stage {
    /// Created by frontends; lowered by passes before `legality`.
    Frontend,
    /// Created by passes; lowered by other passes before `legality`.
    Intermediate,
    /// Created by frontends; supported by backends.
    Any,
    /// Created by passes; supported by backends.
    Lowered,
}

/// The approximate cost of an operation, in ascending order.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CostClass {
    /// Constants, and rarely executed operations.
    Free,
    /// One instruction: worth computing even if the result is not needed.
    Cheap,
    /// A few instructions.
    Moderate,
    /// A plain load or store.
    PlainAccess,
    /// A square root.
    Root,
    /// A read-modify-write of thread-private memory.
    Update,
    /// An integer or float quotient.
    Division,
    /// A transcendental function.
    Function,
    /// A transcendental function of two arguments.
    LongFunction,
    /// An atomic read-modify-write of shared memory.
    Atomic,
}

impl CostClass {
    /// In units of an addition.
    pub const fn units(self) -> u64 {
        match self {
            CostClass::Free => 0,
            CostClass::Cheap | CostClass::Moderate => 1,
            CostClass::PlainAccess => 2,
            CostClass::Root | CostClass::Update => 6,
            CostClass::Division => 8,
            CostClass::Function => 20,
            CostClass::LongFunction => 40,
            CostClass::Atomic => 80,
        }
    }
}

/// How the lanes of a vectorized loop run an operation.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum LaneClass {
    /// Once for uniform arguments, else once for each vector of lanes.
    PerVector,
    /// An access of a local variable or array.
    LocalAccess,
    /// A vector load or store, a gather or a scatter.
    MemoryAccess,
    /// One lane after the other.
    LaneByLane,
    /// A branch or loop, which lanes may leave at different times.
    Branching,
    /// Not in vectorized loops.
    Never,
}

/// The threads among which the results of an operation are uniform.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Uniform {
    /// Those with uniform arguments.
    OfArguments,
    /// As `OfArguments`, unless the memory has been written to.
    OfMemory,
    /// The threads of a block.
    PerBlock,
    /// The threads of a warp.
    PerWarp,
    /// None: each thread has its own.
    PerThread,
}

/// A row: the columns of one operation.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct OpInfo {
    /// The first word in the text format.
    pub name: &'static str,
    /// The number of arguments, where it is fixed.
    pub arity: Option<u8>,
    /// What it does with memory and control.
    pub effect: Effect,
    /// The stages of compilation in which it occurs.
    pub stage: Stage,
    /// What it costs.
    pub cost: CostClass,
    /// What vectorization makes of it.
    pub lanes: LaneClass,
    /// The threads among which its results are uniform.
    pub uniform: Uniform,
}

/// Defines an enum of operations from its rows: the name in the text format, and one value with the other columns.
macro_rules! op_enum {
    (
        $(#[$meta:meta])*
        $ty:ident: $row:ty { $($(#[$doc:meta])* $variant:ident = $name:literal, $columns:expr;)* }
    ) => {
        $(#[$meta])*
        #[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
        pub enum $ty {
            $(
                $(#[$doc])*
                #[doc = concat!("\nIn the text format: `", $name, "`.")]
                $variant,
            )*
        }

        impl $ty {
            /// All of them, in the order of their declaration.
            pub const ALL: &[$ty] = &[$($ty::$variant),*];

            /// The spelling in the text format.
            pub const fn name(self) -> &'static str {
                match self { $($ty::$variant => $name),* }
            }

            /// The one with a name of the text format.
            pub fn from_name(name: &str) -> Option<$ty> {
                match name { $($name => Some($ty::$variant),)* _ => None }
            }

            #[allow(dead_code)]
            const fn row(self) -> $row {
                match self { $($ty::$variant => $columns),* }
            }
        }
    };
}
pub(super) use op_enum;

/// The payload of a variant of a class: `Copy` types as they are, others borrowed from the operation.
macro_rules! payload_type {
    ($ty:ty) => { $ty };
    ($ty:ty, borrowed) => { &'a $ty };
}
macro_rules! payload {
    ($field:ident) => {
        *$field
    };
    ($field:ident, borrowed) => {
        $field
    };
}

/// Defines `Op` and the enums of its classes from the rows.
macro_rules! operations {
    (
        $(
            $(#[$about:meta])*
            class $class:ident($enum:ident $(<$life:lifetime>)?) {
                $(
                    $(#[$doc:meta])*
                    $op:ident $(($($field:ident: $ty:ty $(as $by:ident)?),*))? =
                        $name:expr, $arity:expr, $effect:expr, $stage:expr, $cost:expr, $lanes:expr, $uniform:expr;
                )*
            }
        )*
        others {
            $(
                $(#[$other_doc:meta])*
                $other:ident $(($($other_field:ident: $other_ty:ty),*))? => $other_class:expr,
                    $other_name:expr, $other_arity:expr, $other_effect:expr, $other_stage:expr, $other_cost:expr,
                    $other_lanes:expr, $other_uniform:expr;
            )*
        }
    ) => {
        /// An operation.
        #[derive(Clone, PartialEq, Eq, Hash, Debug)]
        pub enum Op {
            $($($(#[$doc])* $op $(($($ty),*))?,)*)*
            $($(#[$other_doc])* $other $(($($other_ty),*))?,)*
        }

        $(
            $(#[$about])*
            #[derive(Copy, Clone, PartialEq, Eq, Debug)]
            pub enum $enum $(<$life>)? {
                $($(#[$doc])* $op $(($(payload_type!($ty $(, $by)?)),*))?,)*
            }
        )*

        impl Op {
            /// The row of the operation.
            #[allow(unused_variables)]
            pub const fn info(&self) -> OpInfo {
                use {CostClass::*, Effect::*, LaneClass::*, Stage::*, Uniform::*};
                match self {
                    $($(Op::$op $(($($field),*))? => OpInfo {
                        name: $name,
                        arity: $arity,
                        effect: $effect,
                        stage: $stage,
                        cost: $cost,
                        lanes: $lanes,
                        uniform: $uniform,
                    },)*)*
                    $(Op::$other $(($($other_field),*))? => OpInfo {
                        name: $other_name,
                        arity: $other_arity,
                        effect: $other_effect,
                        stage: $other_stage,
                        cost: $other_cost,
                        lanes: $other_lanes,
                        uniform: $other_uniform,
                    },)*
                }
            }

            /// The class of the operation.
            #[allow(unused_variables)]
            pub fn class(&self) -> OpClass<'_> {
                use OpClass::*;
                match self {
                    $($(Op::$op $(($($field),*))? => $class($enum::$op $(($(payload!($field $(, $by)?)),*))?),)*)*
                    $(Op::$other $(($($other_field),*))? => $other_class,)*
                }
            }

            /// Verifies that what its immediates refer to exists.
            pub(crate) fn verify_immediates(&self, m: &Module, f: &Function) -> Result<(), String> {
                match self {
                    $($(Op::$op $(($($field),*))? => { $($($field.verify(m, f)?;)*)? })*)*
                    $(Op::$other $(($($other_field),*))? => { $($($other_field.verify(m, f)?;)*)? })*
                }
                Ok(())
            }
        }
    };
}

operations! {
    // Each row: the operation, and its name, arity, effect, stage, cost, lanes and uniformity.

    /// A scalar operation, element by element on vectors and matrices.
    class Elementwise(ElementwiseOp) {
        /// An operation with one argument.
        Unary(op: UnOp) = op.name(), Some(1), Pure, Any, op.cost(), PerVector, OfArguments;
        /// An operation with two arguments.
        Binary(op: BinOp) = op.name(), Some(2), Pure, Any, op.cost(), PerVector, OfArguments;
        /// Result `bool` of the shape of the arguments.
        Compare(op: CmpOp) = op.name(), Some(2), Pure, Any, Cheap, PerVector, OfArguments;
        /// `(condition, if_true, if_false)`; the condition is `bool` or `bool` of the same shape.
        Select = "select", Some(3), Pure, Any, Cheap, PerVector, OfArguments;
        /// `a * b + c`, rounded once.
        Fma = "fma", Some(3), Pure, Any, Cheap, PerVector, OfArguments;
        /// Element by element to another scalar type, by value.
        Convert(to: Scalar) = "convert", Some(1), Pure, Any, Cheap, PerVector, OfArguments;
        /// Element by element to another scalar type of equal width, by bits.
        Bitcast(to: Scalar) = "bitcast", Some(1), Pure, Any, Cheap, PerVector, OfArguments;
    }

    /// Composes or decomposes an aggregate.
    class Component(ComponentOp<'a>) {
        /// One scalar in every component of a vector or matrix.
        Splat(ty: Type) = "splat", Some(1), Pure, Any, Cheap, PerVector, OfArguments;
        /// A vector or matrix from its scalars, a struct from its fields.
        Compose(ty: Type) = "compose", None, Pure, Any, Cheap, PerVector, OfArguments;
        /// Component of a vector or matrix, field of a struct.
        Extract(component: u32) = "extract", Some(1), Pure, Any, Cheap, PerVector, OfArguments;
        /// `(aggregate, component)`.
        Insert(component: u32) = "insert", Some(2), Pure, Frontend, Cheap, PerVector, OfArguments;
        /// `(vector or matrix, index)`; zero outside.
        ExtractDyn = "extract", Some(2), Pure, Any, Moderate, PerVector, OfArguments;
        /// `(vector or matrix, index, scalar)`; unchanged outside.
        InsertDyn = "insert", Some(3), Pure, Any, Moderate, PerVector, OfArguments;
        /// A vector of the listed components of a vector.
        Shuffle(mask: SmallVec<[u8; 4]> as borrowed) = "shuffle", Some(1), Pure, Frontend, Cheap, PerVector, OfArguments;
    }

    /// A number that is known at launch.
    class Query(QueryOp) {
        /// Extent of an axis of an array, `i64`.
        ArrayExtent(array: Array, axis: u8) = "extent", Some(0), Pure, Any, Cheap, PerVector, OfArguments;
        /// Distance in bytes between neighbours along an axis of an array, `i64`. Only after lowering.
        ArrayStride(array: Array, axis: u8) = "stride", Some(0), Pure, Lowered, Cheap, PerVector, OfArguments;
        /// The task's key for random bits, `u64`; see `docs/ir.md`. Only after lowering.
        RandomKey = "random_key", Some(0), Pure, Lowered, Moderate, PerVector, OfArguments;
        /// The row-major number of the iteration a task's function runs, `i64`. Only in tasks.
        Iteration = "iteration", Some(0), Pure, Intermediate, Moderate, PerVector, PerThread;
    }

    /// A hint to the compiler.
    class Hint(HintOp) {
        /// `(value, base)`: the value. Hint: it is in `base + lo .. base + hi`. Code is correct in any case.
        AssumeRange(lo: i64, hi: i64) = "assume_range", Some(2), Pure, Frontend, Cheap, PerVector, OfArguments;
        /// The value. Hint: it is another one in every iteration of the parallel loop, and if there is a count, the values of all
        /// iterations are the numbers below it. A wrong hint is a data race.
        Unique(count: Option<u64>) = "unique", Some(1), Pure, Frontend, Cheap, PerVector, OfArguments;
        /// Hint: the enclosing loop should keep the field's elements in a scratchpad.
        Cache(field: Field) = "cache", Some(0), Writes, Frontend, Moderate, Never, OfArguments;
    }

    /// An access of bytes.
    class Memory(MemoryOp<'a>) {
        /// Bytes to value: `(offset: i64)`. Only after lowering. A vector may have an offset for each lane (`i64`
        /// or `i32`), followed by an optional mask: inactive lanes give 0.
        MemLoad(space: Space, ty: Type) = "memload", None, Reads, Lowered, PlainAccess, MemoryAccess, OfMemory;
        /// `(offset: i64, value)`. Only after lowering. Vectors as in `MemLoad`; lanes are stored in order.
        MemStore(space: Space) = "memstore", None, Writes, Lowered, PlainAccess, MemoryAccess, OfArguments;
        /// `(offset: i64, operand)`, gives the old value. Only after lowering.
        MemAtomic(op: AtomicOp, space: Space, sharing: Sharing) = "mematomic", Some(2), Writes, Lowered, sharing.cost(), LaneByLane, PerThread;
        /// `(offset: i64, expected, new)`, gives the old value. Only after lowering.
        MemCompareExchange(space: Space) = "memcmpxchg", Some(3), Writes, Lowered, Atomic, LaneByLane, PerThread;
        /// `(offset: i64, optional mask)`: a vector for each column; inactive lanes give 0. Bytes between columns
        /// may be read as well. Only after lowering.
        LoadInterleaved(rows: Interleaved as borrowed) = "load.interleaved", None, Reads, Lowered, PlainAccess, Never, PerThread;
        /// `(offset: i64, a vector for each column, optional mask)`. Only after lowering.
        StoreInterleaved(rows: Interleaved as borrowed) = "store.interleaved", None, Writes, Lowered, PlainAccess, Never, OfArguments;
        /// `(offsets, vectors..., optional mask)`: every lane in order adds its numbers to consecutive numbers
        /// that start at its offset; each has its space. No other thread accesses them at the same time. Only
        /// after lowering.
        AddInterleaved(spaces: SmallVec<[Space; 4]> as borrowed) = "add.interleaved", None, Writes, Lowered, Update, Never, OfArguments;
    }

    /// An operation that owns regions.
    class Control(ControlOp<'a>) {
        /// `(condition)`; regions then, else; results by `yield`.
        If = "if", Some(1), Control, Any, Moderate, Branching, OfArguments;
        /// Runs its region again on `continue`, ends on `break`. Arguments start the region's parameters.
        Loop(label: Label) = "loop", None, Control, Any, Moderate, Branching, OfArguments;
        /// `(lo, hi, step, initial...)`; region parameters are the index and the carried values, which `continue`
        /// passes on; `break` leaves with values, and at the end of the range the results are the carried values.
        For(label: Label, kind: ForKind) = "for", None, Control, Any, Moderate, Branching, OfArguments;
        /// `break` leaves it with values, and so does `yield` at its end.
        Block(label: Label) = "block", Some(0), Control, Any, Moderate, Branching, OfArguments;
        /// Iterations in parallel; only at the top level of a kernel. Region parameters: one index per axis.
        ForEach(label: Label, domain: Domain as borrowed, hints: LoopHints) = "foreach", None, Control, Frontend, Moderate, Never, OfArguments;
    }

    /// A check or a message.
    class Check(CheckOp) {
        /// Arguments fill the holes of the message.
        Print(message: Message) = "print", None, Writes, Frontend, Moderate, Never, OfArguments;
        /// `(condition, holes...)`; a false condition fails the launch and ends the iteration.
        Assert(message: Message) = "assert", None, Writes, Frontend, Moderate, Never, OfArguments;
        /// `(index)`: reports an index outside `0..len` of a vector or local array.
        CheckIndex(len: u32) = "check_index", Some(1), Writes, Frontend, Moderate, Never, OfArguments;
        /// Reports a problem at run time, with the arguments. Only after lowering.
        Report(site: Site) = "report", None, Writes, Lowered, Free, LaneByLane, OfArguments;
    }

    // Operations with a class of their own, or one that is not an enum.
    others {
        /// A constant.
        Const(imm: Imm) => Constant(*imm), "const", Some(0), Pure, Any, Free, PerVector, OfArguments;
        /// The elements of a value become one.
        Reduce(op: ReduceOp) => Reduce(*op), "reduce", Some(1), Pure, Any, Moderate, PerVector, OfArguments;
        /// Linear algebra on vectors and matrices.
        Algebra(op: AlgebraOp) => Algebra(*op), op.name(), Some(op.arity()), Pure, Frontend, Moderate, PerVector, OfArguments;
        /// `indices, dynamic steps`.
        Load(access: Access) => Access(AccessOp::Load, access), "load", None, Reads, Any, PlainAccess, LocalAccess, OfMemory;
        /// `indices, dynamic steps, value`.
        Store(access: Access) => Access(AccessOp::Store, access), "store", None, Writes, Any, PlainAccess, LocalAccess, OfArguments;
        /// `indices, dynamic steps, operand`, gives the old value. Component by component on aggregates.
        Atomic(op: AtomicOp, access: Access) => Access(AccessOp::Atomic(*op), access), "atomic", None, Writes, Any, Moderate, Never, PerThread;
        /// `indices, dynamic steps, expected, new`, gives the old value; scalars only, compared by bits.
        CompareExchange(access: Access) => Access(AccessOp::CompareExchange, access), "cmpxchg", None, Writes, Any, Moderate, Never, PerThread;
        /// An operation on the cell of the field's node that holds an element.
        Cell(op: CellOp, field: Field) => Cell(*op, *field), op.name(), None, op.effect(), Frontend, Moderate, Never, PerThread;
        /// A step from the root of a tree to a cell; all numbers are `i64`. Only after lowering.
        TreeAccess(op: TreeAccessOp, tree: Tree, node: Node) => TreeAccess(*op, *tree, *node), op.name(), None, op.effect(), Intermediate, Moderate, Never, PerThread;
        /// A call: `(arguments...)`.
        Call(func: Func) => Call(*func), "call", None, Control, Any, Moderate, LaneByLane, PerThread;
        /// 64 random bits, `u64`.
        Random => Random, "random", Some(0), Writes, Frontend, Moderate, Never, PerThread;
        /// An operation of the threads of a block.
        Thread(op: ThreadOp) => Thread(*op), op.name(), Some(op.arity()), op.info().effect, Any, op.cost(), op.lanes(), op.info().uniform;
    }
}

impl Op {
    /// Operations without immediates, except for those of an enum.
    const PLAIN: [Op; 5] = [
        Op::Select,
        Op::Fma,
        Op::Random,
        Op::RandomKey,
        Op::Iteration,
    ];

    /// The regular operation with a name: its text is the name and its arguments.
    pub fn regular(name: &str) -> Option<Op> {
        UnOp::from_name(name)
            .map(Op::Unary)
            .or_else(|| BinOp::from_name(name).map(Op::Binary))
            .or_else(|| CmpOp::from_name(name).map(Op::Compare))
            .or_else(|| AlgebraOp::from_name(name).map(Op::Algebra))
            .or_else(|| ThreadOp::from_name(name).map(Op::Thread))
            .or_else(|| Op::PLAIN.into_iter().find(|op| op.name() == name))
    }

    /// The first word in the text format.
    pub const fn name(&self) -> &'static str {
        self.info().name
    }

    /// What it does with memory and control.
    pub const fn effect(&self) -> Effect {
        self.info().effect
    }

    /// What it costs.
    pub const fn cost(&self) -> CostClass {
        self.info().cost
    }

    /// What vectorization makes of it.
    pub const fn lanes(&self) -> LaneClass {
        self.info().lanes
    }
}

impl Sharing {
    const fn cost(self) -> CostClass {
        match self {
            Sharing::Owned => CostClass::Update,
            Sharing::Shared => CostClass::Atomic,
        }
    }
}

impl ThreadOp {
    const fn cost(self) -> CostClass {
        if self.is_pure() {
            CostClass::Cheap
        } else {
            CostClass::Moderate
        }
    }

    const fn lanes(self) -> LaneClass {
        if self.is_pure() {
            LaneClass::PerVector
        } else {
            LaneClass::Never
        }
    }
}
