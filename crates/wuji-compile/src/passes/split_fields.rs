//! Accesses of split fields become accesses of the fields of their components.
//!
//! A split field places no memory: each component of its elements is a field of its own, in any node of the tree. Loads
//! compose what the components hold, stores and atomics take values apart. Everything behind this pass, differentiation and
//! windows of launches included, knows the fields of components only; so frontends apply [`split`] before they derive
//! kernels from kernels.

use crate::passes::Cx;
use crate::rewrite::{Substitution, expand_dynamic_components};
use wuji_ir::Result;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Field, Inst, Value};
use wuji_ir::module::{Env, Function, Module, Values};
use wuji_ir::ops::*;
use wuji_ir::types::Type;

/// The pass; the [module](self) describes it.
pub fn split_fields(m: &mut Module, _: &mut Cx) -> Result<()> {
    split(m);
    Ok(())
}

/// Replaces all operations on split fields.
pub fn split(m: &mut Module) {
    if !m.fields.values().any(|f| f.is_split()) {
        return;
    }
    for f in m.funcs.values_mut() {
        expand_dynamic_components(&mut m.env, f, |data| data.is_split());
        function(&mut m.env, f);
    }
}

fn function(env: &mut Env, f: &mut Function) {
    let mut subst = Substitution::new();
    for region in f.walk_regions() {
        let insts = std::mem::take(&mut f.regions[region].insts);
        for inst in insts {
            if !is_on_split(env, f, inst) {
                f.regions[region].insts.push(inst);
                continue;
            }
            let mut b = Builder::new(env, f);
            b.region = region;
            b.span = b.func.spans[inst];
            let result = replaced(&mut b, inst);
            let old = b.func.insts[inst].results.first().copied();
            if let (Some(old), Some(new)) = (old, result) {
                subst.set(old, new);
            }
        }
    }
    subst.apply(f);
}

/// Whether an instruction names a split field. Loops are changed in place.
fn is_on_split(env: &Env, f: &mut Function, inst: Inst) -> bool {
    let op = &mut f.insts[inst].op;
    if let Op::ForEach(_, Domain::Field(field), _) = op {
        *field = env.lead(*field);
        return false;
    }
    let place = op.access().map(|a| a.place);
    let field = if let Op::Cache(field) | Op::Cell(_, field) = op {
        *field
    } else if let Some(Place::Field(field)) = place {
        field
    } else {
        return false;
    };
    env.fields[field].is_split()
}

/// Emits what replaces an instruction; gives its result.
fn replaced(b: &mut Builder, inst: Inst) -> Option<Value> {
    let data = b.func.insts[inst].clone();
    match data.op.class() {
        OpClass::Hint(HintOp::Cache(field)) => {
            for leaf in b.env.leaves(field) {
                b.push(Op::Cache(leaf.field), &data.args);
            }
            None
        }
        OpClass::Cell(op, field) => cell(b, op, field, &data.args),
        OpClass::Access(op, access) => {
            let Place::Field(field) = access.place else {
                return None;
            };
            let (_, rank) = b.env.place_elem(b.func, access.place);
            let (at, operands) = data.args.split_at(rank);
            let mut parts = Parts {
                op,
                template: access.clone(),
                at,
            };
            let (field, path) = parts.resolve(b, field, &access.path);
            parts.access(b, field, path, operands)
        }
        OpClass::Constant(_)
        | OpClass::Elementwise(_)
        | OpClass::Component(_)
        | OpClass::Reduce(_)
        | OpClass::Algebra(_)
        | OpClass::Query(_)
        | OpClass::Hint(_)
        | OpClass::Random
        | OpClass::TreeAccess(..)
        | OpClass::Memory(_)
        | OpClass::Control(_)
        | OpClass::Call(_)
        | OpClass::Thread(_)
        | OpClass::Check(_) => None,
    }
}

fn cell(b: &mut Builder, op: CellOp, field: Field, at: &[Value]) -> Option<Value> {
    match op {
        CellOp::IsActive | CellOp::Append | CellOp::Length => {
            let lead = b.env.lead(field);
            Some(b.value(Op::Cell(op, lead), at))
        }
        CellOp::Activate | CellOp::Deactivate | CellOp::DeactivateChunk => {
            let mut nodes = Vec::new();
            for leaf in b.env.leaves(field) {
                let node = b.env.fields[leaf.field].node;
                if !nodes.contains(&node) {
                    nodes.push(node);
                    b.push(Op::Cell(op, leaf.field), at);
                }
            }
            None
        }
    }
}

/// An access of a split field, on its way to the components.
struct Parts<'a> {
    op: AccessOp,
    template: Access,
    at: &'a [Value],
}

impl Parts<'_> {
    /// Follows a path as far as it leads from field to field.
    fn resolve<'p>(
        &self,
        b: &Builder,
        mut field: Field,
        mut path: &'p [Step],
    ) -> (Field, &'p [Step]) {
        while let [Step::Const(k), rest @ ..] = path {
            let Some(component) = b.env.fields[field].components.get(*k as usize) else {
                break;
            };
            (field, path) = (*component, rest);
        }
        (field, path)
    }

    /// Accesses an element, or a part of one, component by component.
    fn access(
        &mut self,
        b: &mut Builder,
        field: Field,
        path: &[Step],
        operands: &[Value],
    ) -> Option<Value> {
        let components = b.env.fields[field].components.clone();
        if components.is_empty() {
            return self.leaf(b, field, path, operands);
        }
        let ty = b.env.fields[field].elem;
        let mut results = Values::new();
        for (k, component) in components.into_iter().enumerate() {
            let part = |v: &Value| b.value(Op::Extract(k as u32), &[*v]);
            let operands: Values = operands.iter().map(part).collect();
            results.extend(self.access(b, component, &[], &operands));
        }
        let gives = match self.op {
            AccessOp::Load | AccessOp::Atomic(_) | AccessOp::CompareExchange => true,
            AccessOp::Store => false,
        };
        gives.then(|| compose(b, ty, &results))
    }

    fn leaf(
        &mut self,
        b: &mut Builder,
        field: Field,
        path: &[Step],
        operands: &[Value],
    ) -> Option<Value> {
        let mut access = self.template.clone();
        access.place = Place::Field(field);
        access.path = path.into();
        self.report_once();
        let mut args: Values = self.at.into();
        args.extend(operands.iter().copied());
        let inst = b.push(self.op.on(access), &args);
        b.func.insts[inst].results.first().copied()
    }

    /// All components have the same coordinates, so the first write reports an index outside for all of them.
    fn report_once(&mut self) {
        let writes = match self.op {
            AccessOp::Load => false,
            AccessOp::Store | AccessOp::Atomic(_) | AccessOp::CompareExchange => true,
        };
        if writes && self.template.guard == Guard::Checked {
            self.template.guard = Guard::Silent;
        }
    }
}

fn compose(b: &mut Builder, ty: Type, parts: &[Value]) -> Value {
    b.value(Op::Compose(ty), parts)
}
