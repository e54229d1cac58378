//! The table of operations: one row for each, and the meaning of its columns.

use super::*;

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

/// Derives `Op::info` and `Op::class` from the rows.
macro_rules! operations {
    ($($op:ident $(($($field:ident),*))? => $name:expr, $arity:expr, $class:expr, $effect:expr, $stage:expr, $cost:expr, $lanes:expr, $uniform:expr;)*) => {
        impl Op {
            /// The row of the operation.
            #[allow(unused_variables)]
            pub const fn info(&self) -> OpInfo {
                use {CostClass::*, Effect::*, LaneClass::*, Stage::*, Uniform::*};
                match self {
                    $(Op::$op $(($($field),*))? => OpInfo {
                        name: $name,
                        arity: $arity,
                        effect: $effect,
                        stage: $stage,
                        cost: $cost,
                        lanes: $lanes,
                        uniform: $uniform,
                    },)*
                }
            }

            /// The class of the operation.
            #[allow(unused_variables)]
            pub fn class(&self) -> OpClass<'_> {
                use OpClass::*;
                match self {
                    $(Op::$op $(($($field),*))? => $class,)*
                }
            }
        }
    };
}

operations! {
    // operation                     name                 arity             class                                                effect            stage         cost            lanes         uniform
    Const(imm)                    => "const",             Some(0),          Constant(*imm),                                      Pure,             Any,          Free,           PerVector,    OfArguments;
    Unary(op)                     => op.name(),           Some(1),          Elementwise(ElementwiseOp::Unary(*op)),              Pure,             Any,          op.cost(),      PerVector,    OfArguments;
    Binary(op)                    => op.name(),           Some(2),          Elementwise(ElementwiseOp::Binary(*op)),             Pure,             Any,          op.cost(),      PerVector,    OfArguments;
    Compare(op)                   => op.name(),           Some(2),          Elementwise(ElementwiseOp::Compare(*op)),            Pure,             Any,          Cheap,          PerVector,    OfArguments;
    Select                        => "select",            Some(3),          Elementwise(ElementwiseOp::Select),                  Pure,             Any,          Cheap,          PerVector,    OfArguments;
    Fma                           => "fma",               Some(3),          Elementwise(ElementwiseOp::Fma),                     Pure,             Any,          Cheap,          PerVector,    OfArguments;
    Convert(to)                   => "convert",           Some(1),          Elementwise(ElementwiseOp::Convert(*to)),            Pure,             Any,          Cheap,          PerVector,    OfArguments;
    Bitcast(to)                   => "bitcast",           Some(1),          Elementwise(ElementwiseOp::Bitcast(*to)),            Pure,             Any,          Cheap,          PerVector,    OfArguments;

    Splat(ty)                     => "splat",             Some(1),          Component(ComponentOp::Splat(*ty)),                  Pure,             Any,          Cheap,          PerVector,    OfArguments;
    Compose(ty)                   => "compose",           None,             Component(ComponentOp::Compose(*ty)),                Pure,             Any,          Cheap,          PerVector,    OfArguments;
    Extract(k)                    => "extract",           Some(1),          Component(ComponentOp::Extract(*k)),                 Pure,             Any,          Cheap,          PerVector,    OfArguments;
    Insert(k)                     => "insert",            Some(2),          Component(ComponentOp::Insert(*k)),                  Pure,             Frontend,     Cheap,          PerVector,    OfArguments;
    ExtractDyn                    => "extract",           Some(2),          Component(ComponentOp::ExtractDyn),                  Pure,             Any,          Moderate,       PerVector,    OfArguments;
    InsertDyn                     => "insert",            Some(3),          Component(ComponentOp::InsertDyn),                   Pure,             Any,          Moderate,       PerVector,    OfArguments;
    Shuffle(mask)                 => "shuffle",           Some(1),          Component(ComponentOp::Shuffle(mask)),               Pure,             Frontend,     Cheap,          PerVector,    OfArguments;
    Reduce(op)                    => "reduce",            Some(1),          Reduce(*op),                                         Pure,             Any,          Moderate,       PerVector,    OfArguments;
    Algebra(op)                   => op.name(),           Some(op.arity()), Algebra(*op),                                        Pure,             Frontend,     Moderate,       PerVector,    OfArguments;

    ArrayExtent(a, axis)          => "extent",            Some(0),          Query(QueryOp::ArrayExtent(*a, *axis)),              Pure,             Any,          Cheap,          PerVector,    OfArguments;
    ArrayStride(a, axis)          => "stride",            Some(0),          Query(QueryOp::ArrayStride(*a, *axis)),              Pure,             Lowered,      Cheap,          PerVector,    OfArguments;
    RandomKey                     => "random_key",        Some(0),          Query(QueryOp::RandomKey),                           Pure,             Lowered,      Moderate,       PerVector,    OfArguments;
    Iteration                     => "iteration",         Some(0),          Query(QueryOp::Iteration),                           Pure,             Intermediate, Moderate,       PerVector,    PerThread;
    AssumeRange(lo, hi)           => "assume_range",      Some(2),          Hint(HintOp::AssumeRange(*lo, *hi)),                 Pure,             Frontend,     Cheap,          PerVector,    OfArguments;
    Unique(count)                 => "unique",            Some(1),          Hint(HintOp::Unique(*count)),                        Pure,             Frontend,     Cheap,          PerVector,    OfArguments;
    Cache(field)                  => "cache",             Some(0),          Hint(HintOp::Cache(*field)),                         Writes,           Frontend,     Moderate,       Never,        OfArguments;

    Load(a)                       => "load",              None,             Access(AccessOp::Load, a),                           Reads,            Any,          PlainAccess,    LocalAccess,  OfMemory;
    Store(a)                      => "store",             None,             Access(AccessOp::Store, a),                          Writes,           Any,          PlainAccess,    LocalAccess,  OfArguments;
    Atomic(op, a)                 => "atomic",            None,             Access(AccessOp::Atomic(*op), a),                    Writes,           Any,          Moderate,       Never,        PerThread;
    CompareExchange(a)            => "cmpxchg",           None,             Access(AccessOp::CompareExchange, a),                Writes,           Any,          Moderate,       Never,        PerThread;
    Cell(op, field)               => op.name(),           None,             Cell(*op, *field),                                   op.effect(),      Frontend,     Moderate,       Never,        PerThread;
    TreeAccess(op, tree, node)    => op.name(),           None,             TreeAccess(*op, *tree, *node),                       op.effect(),      Intermediate, Moderate,       Never,        PerThread;

    MemLoad(space, ty)            => "memload",           None,             Memory(MemoryOp::Load(*space, *ty)),                 Reads,            Lowered,      PlainAccess,    MemoryAccess, OfMemory;
    MemStore(space)               => "memstore",          None,             Memory(MemoryOp::Store(*space)),                     Writes,           Lowered,      PlainAccess,    MemoryAccess, OfArguments;
    MemAtomic(op, space, sharing) => "mematomic",         Some(2),          Memory(MemoryOp::Atomic(*op, *space, *sharing)),     Writes,           Lowered,      sharing.cost(), LaneByLane,   PerThread;
    MemCompareExchange(space)     => "memcmpxchg",        Some(3),          Memory(MemoryOp::CompareExchange(*space)),           Writes,           Lowered,      Atomic,         LaneByLane,   PerThread;
    LoadInterleaved(rows)         => "load.interleaved",  None,             Memory(MemoryOp::LoadInterleaved(rows)),             Reads,            Lowered,      PlainAccess,    Never,        PerThread;
    StoreInterleaved(rows)        => "store.interleaved", None,             Memory(MemoryOp::StoreInterleaved(rows)),            Writes,           Lowered,      PlainAccess,    Never,        OfArguments;
    AddInterleaved(spaces)        => "add.interleaved",   None,             Memory(MemoryOp::AddInterleaved(spaces)),            Writes,           Lowered,      Update,         Never,        OfArguments;

    If                            => "if",                Some(1),          Control(ControlOp::If),                              Control,          Any,          Moderate,       Branching,    OfArguments;
    Loop(label)                   => "loop",              None,             Control(ControlOp::Loop(*label)),                    Control,          Any,          Moderate,       Branching,    OfArguments;
    For(label, kind)              => "for",               None,             Control(ControlOp::For(*label, *kind)),              Control,          Any,          Moderate,       Branching,    OfArguments;
    Block(label)                  => "block",             Some(0),          Control(ControlOp::Block(*label)),                   Control,          Any,          Moderate,       Branching,    OfArguments;
    ForEach(label, domain, hints) => "foreach",           None,             Control(ControlOp::ForEach(*label, domain, *hints)), Control,          Frontend,     Moderate,       Never,        OfArguments;
    Call(func)                    => "call",              None,             Call(*func),                                         Control,          Any,          Moderate,       LaneByLane,   PerThread;

    Random                        => "random",            Some(0),          Random,                                              Writes,           Frontend,     Moderate,       Never,        PerThread;
    Thread(op)                    => op.name(),           Some(op.arity()), Thread(*op),                                         op.info().effect, Any,          op.cost(),      op.lanes(),   op.info().uniform;
    Print(message)                => "print",             None,             Check(CheckOp::Print(*message)),                     Writes,           Frontend,     Moderate,       Never,        OfArguments;
    Assert(message)               => "assert",            None,             Check(CheckOp::Assert(*message)),                    Writes,           Frontend,     Moderate,       Never,        OfArguments;
    CheckIndex(len)               => "check_index",       Some(1),          Check(CheckOp::Index(*len)),                         Writes,           Frontend,     Moderate,       Never,        OfArguments;
    Report(site)                  => "report",            None,             Check(CheckOp::Report(*site)),                       Writes,           Lowered,      Free,           LaneByLane,   OfArguments;
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
