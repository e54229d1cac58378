//! Computes indices that are components of integer vectors as scalars, so that the constants of `base + offset` are
//! visible.

use super::Structure;
use rustc_hash::FxHashMap;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Inst, Value};
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::Type;

/// The depth of vector operations to split.
const DEPTH: u32 = 8;

/// Replaces `extract (a + b).k` by `extract a.k + extract b.k` if it is a checked index, or the base of an
/// assumption.
pub fn make_scalar(m: &mut Env, f: &mut Function) {
    let mut wanted: Vec<(Inst, usize)> = Vec::new();
    f.walk(|inst| {
        if let Op::AssumeRange(..) = f.insts[inst].op
            && component_of_vector(f, f.insts[inst].args[1]).is_some()
        {
            wanted.push((inst, 1));
        }
        let access = f.insts[inst].op.access();
        if let Some(access) = access.filter(|a| a.guard.is_checked()) {
            let count = m.place_elem(f, access.place).1;
            for k in 0..count {
                if component_of_vector(f, f.insts[inst].args[k]).is_some() {
                    wanted.push((inst, k));
                }
            }
        }
    });
    if wanted.is_empty() {
        return;
    }
    let mut parts = Parts {
        structure: Structure::of(f),
        known: FxHashMap::default(),
    };
    for (inst, k) in wanted {
        let Some((vector, component)) = component_of_vector(f, f.insts[inst].args[k]) else {
            continue;
        };
        let scalar = parts.component(m, f, vector, component, DEPTH);
        f.insts[inst].args[k] = scalar;
    }
}

/// The vector and component of an index, if the vector was computed from others.
fn component_of_vector(f: &Function, index: Value) -> Option<(Value, u32)> {
    let def = f.def(index)?;
    let Op::Extract(k) = f.insts[def].op else {
        return None;
    };
    let vector = f.insts[def].args[0];
    let computed = f
        .def(vector)
        .is_some_and(|d| is_element_wise(&f.insts[d].op));
    let integers = matches!(f.ty(vector), Type::Vector(s, _) if s.is_int());
    (computed && integers).then_some((vector, k))
}

fn is_element_wise(op: &Op) -> bool {
    matches!(
        op,
        Op::Compose(_)
            | Op::Insert(_)
            | Op::Splat(_)
            | Op::Binary(BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Min | BinOp::Max)
    )
}

struct Parts {
    structure: Structure,
    /// Components computed so far, by vector and number. Each is defined right after its vector, so it is available
    /// wherever the vector is.
    known: FxHashMap<(Value, u32), Value>,
}

impl Parts {
    fn component(
        &mut self,
        m: &mut Env,
        f: &mut Function,
        vector: Value,
        k: u32,
        depth: u32,
    ) -> Value {
        if let Some(known) = self.known.get(&(vector, k)) {
            return *known;
        }
        let data = f.def(vector).map(|d| f.insts[d].clone());
        let looked_through = data.filter(|d| depth > 0 && is_element_wise(&d.op));
        let value = match looked_through {
            Some(data) => self.component_of(m, f, vector, &data, k, depth),
            None => self.behind(m, f, vector, Op::Extract(k), &[vector]),
        };
        self.known.insert((vector, k), value);
        value
    }

    /// A component of the result of an element-wise instruction.
    fn component_of(
        &mut self,
        m: &mut Env,
        f: &mut Function,
        vector: Value,
        data: &InstData,
        k: u32,
        depth: u32,
    ) -> Value {
        let args = &data.args;
        if let Op::Compose(_) = data.op {
            return args[k as usize];
        }
        if let Op::Splat(_) = data.op {
            return args[0];
        }
        if let Op::Insert(other) = data.op {
            return if other == k {
                args[1]
            } else {
                self.component(m, f, args[0], k, depth - 1)
            };
        }
        let a = self.component(m, f, args[0], k, depth - 1);
        let b = self.component(m, f, args[1], k, depth - 1);
        self.behind(m, f, vector, data.op.clone(), &[a, b])
    }

    /// Inserts an instruction after the definition of a value and of everything derived from it.
    fn behind(&mut self, m: &mut Env, f: &mut Function, v: Value, op: Op, args: &[Value]) -> Value {
        let region = self.structure.def_region(f, v).unwrap_or(f.entry);
        // After the latest of the arguments in this region.
        let at = args
            .iter()
            .chain([&v])
            .filter_map(|a| f.def(*a))
            .filter_map(|d| f.regions[region].insts.iter().position(|i| *i == d))
            .max()
            .map_or(0, |k| k + 1);
        let rest = f.regions[region].insts.split_off(at);
        let mut b = Builder::new(m, f);
        b.region = region;
        let value = b.value(op, args);
        if let Some(def) = b.func.def(value) {
            self.structure.region_of[def] = region.into();
        }
        f.regions[region].insts.extend(rest);
        value
    }
}
