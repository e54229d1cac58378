//! The cost model: estimated cycles of an iteration in scalar code, and of a vector of iterations.
//!
//! The numbers are throughputs of recent x86 processors, rounded. Most loops gain so much that they do not matter. What
//! matters is where vectors do not help: operations that LLVM splits into scalars, memory that lanes access one by one,
//! and lanes that wait for each other.

use super::interleave::Groups;
use super::locals::{Role, Roles, local_of};
use super::shapes::{Shape, Shapes};
use wuji_ir::entities::*;
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{Imm, Scalar};

/// Iterations of a loop whose trip count is unknown.
const TRIPS: f64 = 16.0;
/// The most iterations that count, so that no loop outweighs everything else beyond measure.
const MOST_TRIPS: f64 = 4096.0;
/// A mispredicted branch.
const MISPREDICTION: f64 = 15.0;
/// A branch on data, which is mispredicted now and then.
const BRANCH: f64 = 4.0;
/// A gather or scatter takes this long for each lane.
const GATHER: f64 = 1.5;
const SCATTER: f64 = 2.0;
/// To extract the arguments of a lane and insert its result.
const EXCHANGE: f64 = 3.0;
/// How much longer than the average iteration the longest of all lanes takes: in a loop with one condition...
const WAITING: f64 = 1.5;
/// ... and in one that lanes leave early, for each doubling of the lanes. That can be half as much, as in a ray marcher, or more than
/// twice, as in a search whose first try is the last one for half of all lanes. If it is too little, measurement finds out
/// (`docs/design/tiers.md`); if it is too much, the loop stays scalar.
const WAITING_FOR_EXITS: f64 = 0.5;

/// The machine and its options.
#[derive(Copy, Clone, Debug)]
pub(super) struct Machine {
    pub(super) vector_bits: u32,
    /// Whether mathematical functions have vector variants.
    pub(super) vector_math: bool,
}

/// Cycles of one iteration, and of one vector of iterations.
#[derive(Copy, Clone, Default, Debug)]
pub(super) struct Cost {
    pub(super) scalar: f64,
    pub(super) vector: f64,
}

impl Cost {
    /// The speedup of vector code over scalar code.
    pub(super) fn speedup(self, lanes: u16) -> f64 {
        self.scalar * f64::from(lanes) / self.vector.max(1e-3)
    }

    fn add(&mut self, other: Cost, (scalar, vector): (f64, f64)) {
        self.scalar += scalar * other.scalar;
        self.vector += vector * other.vector;
    }
}

/// An operation that takes the same time on a scalar and on a vector.
fn same(cycles: f64) -> Cost {
    Cost {
        scalar: cycles,
        vector: cycles,
    }
}

pub(super) struct CostModel<'a> {
    pub(super) f: &'a Function,
    pub(super) shapes: &'a Shapes<'a>,
    pub(super) roles: &'a Roles,
    pub(super) groups: &'a Groups,
    pub(super) machine: Machine,
    pub(super) lanes: u16,
}

impl CostModel<'_> {
    pub(super) fn of_region(&self, region: Region) -> Cost {
        let mut sum = Cost::default();
        for inst in &self.f.regions[region].insts {
            sum.add(self.of_inst(*inst), (1.0, 1.0));
        }
        sum
    }

    fn of_inst(&self, inst: Inst) -> Cost {
        let data = &self.f.insts[inst];
        match data.op.lanes() {
            LaneClass::PerVector => self.pure(data),
            LaneClass::MemoryAccess => self.memory(inst, data),
            LaneClass::LocalAccess => self.local(data),
            // Active lanes run them as scalar code does; `plan` limits how many there are.
            LaneClass::LaneByLane => Cost::default(),
            LaneClass::Branching => self.control(inst, data),
            LaneClass::Never => Cost::default(),
        }
    }

    fn control(&self, inst: Inst, data: &InstData) -> Cost {
        let inside = || {
            let mut sum = Cost::default();
            for r in &data.regions {
                sum.add(self.of_region(*r), (1.0, 1.0));
            }
            sum
        };
        let divergent = self.shapes.divergent.contains(&inst);
        let mut cost = Cost::default();
        match data.op.control() {
            // The exit of a loop is predicted, except for the last time.
            Some(ControlOp::If) if self.shapes.escapes.contains(&inst) => {
                cost.add(same(1.0), (1.0, 1.0));
                cost.add(inside(), (1.0, 1.0));
            }
            Some(ControlOp::If) if divergent => {
                // Scalar code runs one side, vector code both.
                cost.scalar += BRANCH;
                cost.vector += 2.0;
                cost.add(inside(), (0.5, 1.0));
            }
            Some(ControlOp::If) => cost.add(inside(), (0.5, 0.5)),
            Some(ControlOp::Loop(_) | ControlOp::For(..)) => {
                let trips = self.trips(data);
                let mut body = inside();
                body.scalar += 1.0;
                body.vector += 1.0;
                let waiting = match (divergent, self.exits(data)) {
                    (false, _) => 1.0,
                    (true, ..=1) => WAITING,
                    (true, _) => 1.0 + WAITING_FOR_EXITS * f64::from(self.lanes).log2(),
                };
                let waiting = waiting.min(trips.max(1.0));
                if divergent {
                    cost.scalar += MISPREDICTION;
                    // Masks, and carried values of lanes that have left.
                    body.vector += 2.0 + 2.0 * data.results.len() as f64;
                }
                cost.add(body, (trips, trips * waiting));
            }
            Some(ControlOp::Block(_) | ControlOp::ForEach(..)) | None => {
                cost.add(inside(), (1.0, 1.0));
            }
        }
        cost
    }

    /// The ways out of a loop: its bound, and every `break`.
    fn exits(&self, data: &InstData) -> usize {
        let label = data.op.label();
        let jumps = label.and_then(|l| self.shapes.jumps.get(&l));
        let breaks = jumps.map_or(0, |j| j.breaks.len());
        breaks + usize::from(matches!(data.op, Op::For(..)))
    }

    fn trips(&self, data: &InstData) -> f64 {
        let Op::For(..) = data.op else { return TRIPS };
        let number = |k: usize| self.f.constant(data.args[k]).and_then(Imm::as_int);
        match (number(0), number(1), number(2)) {
            (Some(lo), Some(hi), Some(step)) if step != 0 => {
                (((hi - lo) / step).max(0) as f64).min(MOST_TRIPS)
            }
            _ => TRIPS,
        }
    }

    /// The registers of a vector of these scalars.
    fn registers(&self, s: Option<Scalar>) -> f64 {
        let bits = s.map_or(32, Scalar::bits).max(8) * u32::from(self.lanes);
        f64::from(bits.div_ceil(self.machine.vector_bits.max(128)))
    }

    /// An operation that every lane runs by itself.
    fn split(&self, cycles: f64, overhead: f64) -> Cost {
        Cost {
            scalar: cycles,
            vector: f64::from(self.lanes) * (cycles + overhead),
        }
    }

    fn pure(&self, data: &InstData) -> Cost {
        let Some(result) = data.results.first() else {
            return Cost::default();
        };
        let units = data.op.cost().units() as f64;
        if self.shapes.shape(*result) != Shape::Varying {
            return same(units);
        }
        let elem = |v: &Value| self.f.ty(*v).elem();
        let s = data.args.first().and_then(elem);
        let registers = self.registers(s);
        let cost = |scalar: f64, vector: f64| Cost {
            scalar,
            vector: vector * registers,
        };
        let wide = s.is_some_and(|s| s.bits() == 64);
        let float = s.is_some_and(Scalar::is_float);
        match data.op.cost() {
            CostClass::Division if !float => self.int_division(data, s),
            CostClass::Division if data.op == Op::Binary(BinOp::Rem) => self.split(20.0, EXCHANGE),
            CostClass::Division => cost(4.0, if wide { 16.0 } else { 10.0 }),
            CostClass::Root => cost(5.0, if wide { 24.0 } else { 12.0 }),
            CostClass::Function if self.machine.vector_math => cost(20.0, 40.0),
            CostClass::LongFunction if self.machine.vector_math => cost(30.0, 80.0),
            CostClass::Function => self.split(20.0, EXCHANGE),
            CostClass::LongFunction => self.split(30.0, EXCHANGE),
            CostClass::Free
            | CostClass::Cheap
            | CostClass::Moderate
            | CostClass::PlainAccess
            | CostClass::Update
            | CostClass::Atomic => {
                if let Op::Convert(to) = data.op {
                    let registers = registers.max(self.registers(Some(to)));
                    let saturates = float && to.is_int();
                    let cycles: f64 = if saturates { 4.0 } else { 1.0 };
                    return Cost {
                        scalar: cycles.min(2.0),
                        vector: cycles * registers,
                    };
                }
                if data.op == Op::Binary(BinOp::Mul) && wide && !float {
                    return cost(1.0, 3.0);
                }
                cost(units, units)
            }
        }
    }

    /// Up to 32 bits, integers are divided as floats (`wuji_llvm`).
    fn int_division(&self, data: &InstData, s: Option<Scalar>) -> Cost {
        let bits = s.map_or(32, Scalar::bits);
        if self.f.constant(data.args[1]).is_some() {
            return match bits {
                64 => self.split(4.0, EXCHANGE),
                _ => Cost {
                    scalar: 3.0,
                    vector: 5.0 * self.registers(s),
                },
            };
        }
        match bits {
            64 => self.split(12.0, EXCHANGE),
            32 => Cost {
                scalar: 7.0,
                vector: 20.0 * self.registers(Some(Scalar::F64)),
            },
            _ => Cost {
                scalar: 7.0,
                vector: 16.0 * self.registers(Some(Scalar::F32)),
            },
        }
    }

    fn memory(&self, inst: Inst, data: &InstData) -> Cost {
        let (s, each) = if let Op::MemLoad(_, ty) = data.op {
            (ty.elem(), GATHER)
        } else {
            (self.f.ty(data.args[1]).elem(), SCATTER)
        };
        let registers = self.registers(s);
        let run = s.map_or(0, |s| i64::from(s.bytes()));
        let vector = match self.shapes.shape(data.args[0]) {
            Shape::Uniform => 1.0,
            _ if self.groups.contains(inst) => 2.0 * registers,
            Shape::Strided(stride) if stride == run => registers,
            Shape::Strided(_) | Shape::Varying => each * f64::from(self.lanes),
        };
        Cost {
            scalar: 1.0,
            vector,
        }
    }

    /// A variable is a register. The elements of an array are in memory, those of all lanes side by side.
    fn local(&self, data: &InstData) -> Cost {
        let Some(local) = local_of(&data.op) else {
            return Cost::default();
        };
        let array = &self.f.locals[local];
        if array.len.is_none() {
            return Cost::default();
        }
        let loads = matches!(data.op, Op::Load(_));
        let vector = match (self.shapes.is_uniform(data.args[0]), self.roles.of(local)) {
            (true, Role::Shared) => 1.0,
            (true, Role::Private | Role::Sum(_)) => self.registers(array.ty.elem()),
            (false, _) if loads => GATHER * f64::from(self.lanes),
            (false, _) => SCATTER * f64::from(self.lanes),
        };
        Cost {
            scalar: 1.0,
            vector,
        }
    }
}
