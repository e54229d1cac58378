//! Chooses the functions in which vectors stay vectors.
//!
//! Usually the lanes of a vector register are iterations of a loop (`vectorize`), and the vectors of the program are
//! scalars by then. Where rows are short, or elements are as long as a register, the components of the program's own
//! vectors are the better lanes: they are contiguous in memory, none of them is inactive, and a sum of 16 components
//! takes one register instead of 16.

use crate::analysis::cost::trips;
use crate::options::Target;
use crate::passes::Cx;
use wuji_ir::entities::{Func, Inst, Region};
use wuji_ir::module::{Function, InstData, Module, TaskKind};
use wuji_ir::ops::*;
use wuji_ir::types::{Scalar, Type};

/// The most registers of one vector.
const MOST_REGISTERS: u32 = 4;
/// The fewest bits of one vector: shorter ones are left to LLVM.
const FEWEST_BITS: u32 = 128;
/// Loops with fewer iterations are not vectorized.
const FEWEST_TRIPS: u64 = 4;
/// Iterations of a loop whose trip count is unknown.
const TRIPS: u64 = 16;
/// The most iterations that count.
const MOST_TRIPS: u64 = 4096;
/// An operation on a scalar integer: most are parts of addresses, and leave the loop.
const INTEGER: f64 = 0.25;
/// A component of an interleaved load or store, in vectors of iterations.
const INTERLEAVED: f64 = 2.0;
/// The expected gain that pays for the change.
const GAIN: f64 = 1.25;

/// The vectors of a function that stay vectors.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Kept {
    /// The bits of a register; 0 if there are no such vectors.
    register: u32,
}

impl Kept {
    /// The vectors to keep in a function.
    pub(super) fn choose(m: &Module, func: Func, cx: &mut Cx) -> Kept {
        let kept = Kept {
            register: cx.options.vector_bits,
        };
        let f = &m.funcs[func];
        let enabled = kept.register > 0
            && cx.options.target == Target::Cpu
            && cx.uses("component_vectors")
            && !cx.options.without.iter().any(|w| w == "vectorize")
            && f.values.values().any(|v| kept.contains(v.ty));
        let simd = match m.tasks.iter().find(|t| t.func == func) {
            Some(task) if enabled && task.lists.is_none() => match &task.kind {
                TaskKind::Chunks { hints, .. } => hints.simd,
                TaskKind::Serial => None,
                TaskKind::Range { .. } | TaskKind::Cells { .. } => return Kept::default(),
            },
            Some(_) | None => return Kept::default(),
        };
        if simd != Some(true) && kept.pays(f, simd) && cx.fuel() {
            kept
        } else {
            Kept::default()
        }
    }

    /// Whether values of this type stay vectors.
    pub(super) fn contains(self, ty: Type) -> bool {
        let Type::Vector(s, n) = ty else {
            return false;
        };
        let bits = u32::from(n) * element_bits(s);
        self.register > 0
            && n.is_power_of_two()
            && bits >= FEWEST_BITS
            && bits <= MOST_REGISTERS * self.register
    }

    /// Whether an element-wise operation is one operation on vectors: its vectors are kept, and it is no function of a
    /// library.
    pub(super) fn is_whole(self, f: &Function, data: &InstData) -> bool {
        let function = matches!(
            data.op.cost(),
            CostClass::Function | CostClass::LongFunction
        );
        let fits = |v| self.contains(f.ty(v)) || f.ty(v).as_scalar().is_some();
        self.contains(f.ty(data.results[0])) && !function && data.args.iter().all(|a| fits(*a))
    }

    fn pays(self, f: &Function, simd: Option<bool>) -> bool {
        let mut loops = Vec::new();
        innermost(f, f.entry, &mut loops);
        let mut sum = Cost::default();
        for inst in &loops {
            let lanes = match simd {
                Some(_) => 1.0,
                None => self.lanes(f, *inst),
            };
            sum.add(self.of_region(f, f.insts[*inst].regions[0], lanes), 1.0);
        }
        if loops.is_empty() {
            sum = self.of_region(f, f.entry, 1.0);
        }
        sum.kept * GAIN <= sum.split
    }

    /// The lanes of a loop in vectors of iterations.
    fn lanes(self, f: &Function, inst: Inst) -> f64 {
        let body = f.insts[inst].regions[0];
        let mut widest = 4;
        for i in f.insts_in(body) {
            let data = &f.insts[i];
            if data.op.lanes() == LaneClass::Never {
                return 1.0;
            }
            let kept = data.results.iter().filter(|r| self.contains(f.ty(**r)));
            let bytes = kept.filter_map(|r| f.ty(*r).elem()).map(Scalar::bytes);
            widest = bytes.fold(widest, u32::max);
        }
        let most = u64::from(self.register / (8 * widest)).max(2);
        match trips(f, inst) {
            Some(n) if n < FEWEST_TRIPS => 1.0,
            Some(n) => most.min(1 << n.ilog2()) as f64,
            None => most as f64,
        }
    }

    fn of_region(self, f: &Function, region: Region, lanes: f64) -> Cost {
        let mut sum = Cost::default();
        for inst in &f.regions[region].insts {
            let data = &f.insts[*inst];
            let weight = match data.op.control() {
                Some(ControlOp::For(_, ForKind::Boundary)) => 0,
                Some(ControlOp::For(..)) => trips(f, *inst).unwrap_or(TRIPS).min(MOST_TRIPS),
                Some(ControlOp::Loop(_)) => TRIPS,
                Some(ControlOp::If | ControlOp::Block(_) | ControlOp::ForEach(..)) | None => 1,
            };
            for r in &data.regions {
                sum.add(self.of_region(f, *r, lanes), weight as f64);
            }
            sum.add(self.of_inst(f, data, lanes), 1.0);
        }
        sum
    }

    /// Cycles of an instruction for one iteration, without its regions.
    fn of_inst(self, f: &Function, data: &InstData, lanes: f64) -> Cost {
        let units = data.op.cost().units() as f64;
        let vector = data.results.iter().chain(&data.args).map(|v| f.ty(*v));
        let Some(ty) = vector
            .filter(|t| self.contains(*t))
            .max_by_key(|t| t.lanes())
        else {
            return scalar(f, data, units, lanes);
        };
        let n = f64::from(ty.lanes().unwrap_or(1));
        let whole = f64::from(self.registers(ty));
        let cost = |kept: f64, split: f64| Cost {
            kept,
            split: split / lanes,
        };
        match data.op.class() {
            OpClass::Elementwise(_) if self.is_whole(f, data) => cost(units * whole, units * n),
            OpClass::Elementwise(_) => cost(units * n + 2.0 * n, units * n),
            OpClass::Component(op) => match op {
                ComponentOp::Splat(_) => cost(whole, 0.0),
                ComponentOp::Extract(_) => cost(1.0, 0.0),
                ComponentOp::Compose(_) => cost(n, 0.0),
                ComponentOp::Insert(_) | ComponentOp::Shuffle(_) => cost(2.0 * n, 0.0),
                ComponentOp::ExtractDyn | ComponentOp::InsertDyn => cost(4.0 * n, 2.0 * n),
            },
            OpClass::Reduce(_) | OpClass::Algebra(_) => cost(3.0 * n, 2.0 * n),
            OpClass::Memory(MemoryOp::MemLoad(..) | MemoryOp::MemStore(_)) => {
                cost(whole, INTERLEAVED * n)
            }
            OpClass::Memory(_)
            | OpClass::Access(..)
            | OpClass::Call(_)
            | OpClass::Thread(_)
            | OpClass::Check(_) => cost(2.0 * n, n),
            OpClass::Constant(_)
            | OpClass::Query(_)
            | OpClass::Hint(_)
            | OpClass::Cell(..)
            | OpClass::TreeAccess(..)
            | OpClass::Control(_)
            | OpClass::Random => Cost::default(),
        }
    }

    fn registers(self, ty: Type) -> u32 {
        let bits = ty.lanes().unwrap_or(1) * ty.elem().map_or(32, element_bits);
        bits.div_ceil(self.register.max(1))
    }
}

/// A mask of lanes counts as what it selects, at least.
fn element_bits(s: Scalar) -> u32 {
    match s {
        Scalar::Bool => 32,
        _ => s.bits(),
    }
}

/// Cycles of one iteration: with vectors of components, and with vectors of iterations.
#[derive(Copy, Clone, Default, Debug)]
struct Cost {
    kept: f64,
    split: f64,
}

impl Cost {
    fn add(&mut self, other: Cost, times: f64) {
        self.kept += times * other.kept;
        self.split += times * other.split;
    }
}

/// An instruction without kept vectors.
fn scalar(f: &Function, data: &InstData, units: f64, lanes: f64) -> Cost {
    let float = data.results.iter().any(|r| {
        let elem = f.ty(*r).elem();
        elem.is_some_and(Scalar::is_float)
    });
    match data.op.lanes() {
        LaneClass::PerVector => {
            let units = if float { units } else { INTEGER * units };
            Cost {
                kept: units,
                split: units / lanes,
            }
        }
        // Lanes have addresses of their own, as far as is known here.
        LaneClass::MemoryAccess
        | LaneClass::LocalAccess
        | LaneClass::LaneByLane
        | LaneClass::Branching
        | LaneClass::Never => Cost {
            kept: 1.0,
            split: 1.0,
        },
    }
}

/// Parallel loops without parallel loops inside. Says whether the region has any parallel loop.
fn innermost(f: &Function, region: Region, found: &mut Vec<Inst>) -> bool {
    let mut any = false;
    for inst in &f.regions[region].insts {
        let data = &f.insts[*inst];
        let mut inside = false;
        for r in &data.regions {
            inside |= innermost(f, *r, found);
        }
        if !inside && matches!(data.op, Op::For(_, ForKind::Parallel)) {
            found.push(*inst);
            inside = true;
        }
        any |= inside;
    }
    any
}
