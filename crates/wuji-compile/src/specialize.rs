//! Kernels for known arguments: loop bounds that are parameters, and shapes of arrays, become constants.
//!
//! A loop whose bounds are constants is divided into rows and tiles, and its accesses to fields and arrays of known shapes are proved to
//! be in range. Iterations at periodic and clamped boundaries that are constants run apart. A launch has to check that its arguments are
//! those that the kernel was made for.

use crate::analysis::boundaries::boundaries;
use crate::analysis::uses::used_values;
use crate::rewrite::Substitution;
use wuji_ir::entities::{Array, Inst, Value};
use wuji_ir::module::{ArrayShape, Function, Module, Span, Values};
use wuji_ir::ops::{AtomicOp, Domain, Op, Place};
use wuji_ir::types::{Imm, Scalar};

/// What a kernel can be specialized for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Candidates {
    /// Integer parameters that bounds of loops or boundaries in indices depend on, by number.
    pub params: Vec<u32>,
    /// Their slots among the parameters of a launch.
    pub slots: Vec<usize>,
    /// Contiguous arrays.
    pub arrays: Vec<Array>,
}

impl Candidates {
    /// Those of a kernel before any pass.
    pub fn of(m: &Module) -> Candidates {
        let Some(f) = m.kernel_func() else {
            return Candidates::default();
        };
        let mut params = Vec::new();
        for inst in f.insts_in(f.entry) {
            for bound in bounds(f, inst) {
                add_params(f, *bound, &mut params);
            }
        }
        params.extend(boundaries(f).params);
        Candidates::new(m, params)
    }

    /// What a CPU profits from.
    ///
    /// - Boundaries in indices. There, [`bounds`](crate::passes::bounds) splits loops whose bounds are unknown, but cannot peel
    ///   iterations at unknown boundaries.
    /// - With several threads, shapes of arrays, if the kernel updates some of them by atomics whose old value is not used: workers
    ///   can have [private copies](crate::passes) of arrays whose shape is known.
    pub fn on_cpu(m: &Module, threads: usize) -> Candidates {
        let Some(f) = m.kernel_func() else {
            return Candidates::default();
        };
        let found = boundaries(f);
        let has_boundaries = found.extents || !found.params.is_empty();
        let with_arrays = Candidates::new(m, found.params);
        if has_boundaries || (threads > 1 && m.funcs.values().any(|f| scatters(m, f))) {
            with_arrays
        } else {
            Candidates::default()
        }
    }

    fn new(m: &Module, mut params: Vec<u32>) -> Candidates {
        params.sort_unstable();
        params.dedup();
        let slots = m.param_slots();
        let contiguous = m.arrays.iter().filter(|(_, a)| a.contiguous);
        Candidates {
            slots: params.iter().map(|p| slots[*p as usize]).collect(),
            params,
            arrays: contiguous.map(|(id, _)| id).collect(),
        }
    }

    /// Whether there is nothing to specialize for.
    pub fn is_empty(&self) -> bool {
        self.params.is_empty() && self.arrays.is_empty()
    }
}

/// Whether a function updates an array by atomics whose old value is not used.
fn scatters(m: &Module, f: &Function) -> bool {
    let used = used_values(f);
    let alone = |a: Array| m.arrays[a].contiguous && m.arrays[a].unaliased;
    f.insts.values().any(|data| {
        let Op::Atomic(op, access) = &data.op else {
            return false;
        };
        matches!(access.place, Place::Array(a) if alone(a))
            && *op != AtomicOp::Exchange
            && !data.results.iter().any(|v| used.contains(v))
    })
}

/// The bounds of a loop.
fn bounds(f: &Function, inst: Inst) -> &[Value] {
    let data = &f.insts[inst];
    if let Op::ForEach(_, Domain::Range { .. }, _) = data.op {
        return &data.args;
    }
    if let Op::For(..) = data.op {
        return &data.args[..2];
    }
    &[]
}

/// The most values that are visited for a bound.
const MOST: usize = 16;

/// The integer parameters that a value is computed from.
fn add_params(f: &Function, v: Value, params: &mut Vec<u32>) {
    let mut work = vec![v];
    for _ in 0..MOST {
        let Some(v) = work.pop() else {
            return;
        };
        if !f.ty(v).as_scalar().is_some_and(Scalar::is_int) {
            continue;
        }
        match f.params().iter().position(|p| *p == v) {
            Some(p) => params.push(p as u32),
            None => {
                if let Some(def) = f.def(v) {
                    work.extend(&f.insts[def].args);
                }
            }
        }
    }
}

/// What a launch passes for the candidates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arguments {
    /// The parameters by value, one slot for each scalar.
    pub params: Vec<u64>,
    /// The shapes of the arrays.
    pub shapes: Vec<ArrayShape>,
}

/// The kernel for launches with these arguments.
pub fn specialize(m: &Module, candidates: &Candidates, arguments: &Arguments) -> Module {
    let mut m = m.clone();
    for (array, shape) in candidates.arrays.iter().zip(&arguments.shapes) {
        m.arrays[*array].shape = Some(shape.clone());
    }
    for f in m.funcs.values_mut() {
        fix_extents(f, candidates, arguments);
    }
    if let Some(kernel) = m.kernel {
        fix_params(&mut m.funcs[kernel], candidates, arguments);
    }
    m
}

/// Makes extents of arrays constants.
fn fix_extents(f: &mut Function, candidates: &Candidates, arguments: &Arguments) {
    for inst in f.insts.values_mut() {
        let Op::ArrayExtent(array, axis) = inst.op else {
            continue;
        };
        let known = candidates.arrays.iter().position(|a| *a == array);
        let shape = known.and_then(|k| arguments.shapes.get(k));
        if let Some(extent) = shape.and_then(|s| s.extents.get(usize::from(axis))) {
            inst.op = Op::Const(Imm::int(Scalar::I64, i128::from(*extent)));
        }
    }
}

/// Makes parameters constants.
fn fix_params(f: &mut Function, candidates: &Candidates, arguments: &Arguments) {
    let mut subst = Substitution::new();
    let mut constants = Vec::new();
    for (param, bits) in candidates.params.iter().zip(&arguments.params) {
        let old = f.params()[*param as usize];
        let ty = f.ty(old);
        if let Some(scalar) = ty.as_scalar() {
            let op = Op::Const(Imm::from_bits(scalar, *bits));
            let inst = f.add_inst(op, Values::new(), &[ty], Span::UNKNOWN);
            constants.push(inst);
            let new = f.result(inst);
            subst.set(old, new);
        }
    }
    let entry = f.entry;
    f.regions[entry].insts.splice(0..0, constants);
    subst.apply(f);
}
