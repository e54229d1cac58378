//! Programs from the builder, with results computed by hand or by the host.

mod aggregates;
mod control;
mod lowered;
mod memory;
mod parallel;
mod races;
mod scalars;
mod sparse;

use smallvec::smallvec;
use wuji_ir::build::Builder;
use wuji_ir::entities::*;
use wuji_ir::format::Format;
use wuji_ir::interp::{Config, Machine, Order, Outcome};
use wuji_ir::layout::{Axis, Child, FieldData, NodeKind, TreeData};
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{Imm, Scalar, Type};

/// A module whose kernel has the given body, which returns the kernel's result.
fn kernel(
    m: Module,
    params: &[Type],
    results: &[Type],
    body: impl FnOnce(&mut Builder<'_>, &[Value]) -> Values,
) -> Module {
    let mut m = m;
    for (k, ty) in params.iter().enumerate() {
        m.params.push(Param {
            name: format!("p{k}"),
            ty: *ty,
        });
    }
    let id = function(&mut m, "kernel", params, results, body);
    m.kernel = Some(id);
    m
}

fn function(
    m: &mut Module,
    name: &str,
    params: &[Type],
    results: &[Type],
    body: impl FnOnce(&mut Builder<'_>, &[Value]) -> Values,
) -> Func {
    let mut f = Function::new(name, params, results);
    let params: Values = f.params().iter().copied().collect();
    let mut b = Builder::new(m, &mut f);
    let values = body(&mut b, &params);
    b.end(Term::Return(values));
    m.add_func(f)
}

/// Adds a field on a dense node of its own tree.
fn field(m: &mut Module, name: &str, elem: Type, axes: &[(u64, i64)]) -> Field {
    let mut tree = TreeData::default();
    let root = tree.root();
    let axis = |k: usize| Axis::new(k).expect("at most eight axes");
    let node = if axes.is_empty() {
        root
    } else {
        let extents: Vec<(Axis, u64)> = axes
            .iter()
            .enumerate()
            .map(|(k, a)| (axis(k), a.0))
            .collect();
        tree.add(root, NodeKind::Dense, &extents)
    };
    let tree = m.trees.push(tree);
    place(m, tree, node, name, elem, axes)
}

fn place(
    m: &mut Module,
    tree: Tree,
    node: Node,
    name: &str,
    elem: Type,
    axes: &[(u64, i64)],
) -> Field {
    let data = FieldData {
        name: name.into(),
        elem,
        tree,
        node,
        axes: axes
            .iter()
            .enumerate()
            .map(|(k, a)| (Axis::new(k).expect("at most eight axes"), a.1))
            .collect(),
        packing: None,
        components: Vec::new(),
    };
    let field = m.fields.push(data);
    m.trees[tree].nodes[node].children.push(Child::Place(field));
    field
}

fn message(m: &mut Module, text: &str, holes: &[Type]) -> Message {
    let mut pieces = vec![Piece::Text(text.into())];
    for ty in holes {
        pieces.push(Piece::Hole {
            ty: *ty,
            format: Format::default(),
        });
    }
    m.messages.push(MessageData { pieces })
}

/// `foreach` over ranges of `i32`.
fn foreach(
    b: &mut Builder<'_>,
    ranges: &[(i32, i32)],
    body: impl FnOnce(&mut Builder<'_>, &[Value]),
) {
    let mut args = Vec::new();
    for (lo, hi) in ranges {
        args.push(b.int(Scalar::I32, i128::from(*lo)));
        args.push(b.int(Scalar::I32, i128::from(*hi)));
    }
    let domain = Domain::Range {
        rank: ranges.len() as u8,
    };
    foreach_in(b, domain, &args, ranges.len(), body);
}

fn foreach_in(
    b: &mut Builder<'_>,
    domain: Domain,
    args: &[Value],
    rank: usize,
    body: impl FnOnce(&mut Builder<'_>, &[Value]),
) {
    let label = b.func.fresh_label();
    let op = Op::ForEach(label, domain, LoopHints::default());
    let inst = b.push_typed(op, args, &[]);
    let types = vec![wuji_ir::types::I32; rank];
    let region = b.region(&types, |b, p| {
        body(b, p);
        b.end(Term::Continue(label, Values::new()));
    });
    b.func.insts[inst].regions.push(region);
}

fn run(m: &Module, params: &[Imm]) -> Outcome {
    Machine::new(m, Config::default())
        .and_then(|mut machine| machine.run(params))
        .unwrap_or_else(|e| panic!("{e}"))
}

/// The only result of a kernel without parameters.
fn result(m: &Module) -> Vec<Imm> {
    run(m, &[]).result.expect("a result")
}

fn i32s(values: &[i32]) -> Vec<Imm> {
    values.iter().map(|v| int(*v)).collect()
}

fn int(value: i32) -> Imm {
    Imm::int(Scalar::I32, i128::from(value))
}

fn f32s(values: &[f32]) -> Vec<Imm> {
    values.iter().map(|v| f32(*v)).collect()
}

fn f32(value: f32) -> Imm {
    Imm::from_bits(Scalar::F32, u64::from(value.to_bits()))
}

fn orders() -> Vec<Config> {
    let config = |order| Config {
        order,
        ..Config::default()
    };
    let mut all = vec![config(Order::Serial)];
    all.extend((0..5).map(|s| config(Order::Shuffled(s))));
    all
}
