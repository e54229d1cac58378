//! The table of operations: names, round trips, and the scalar types of each row.

use wuji_ir::ops::{AlgebraOp, BinOp, CmpOp, Op, ScalarSet, ThreadOp, UnOp};
use wuji_ir::text::parse;
use wuji_ir::types::Scalar;
use wuji_ir::verify::verify;

/// Every operation whose text is its name and its arguments.
fn regular() -> Vec<Op> {
    let unary = UnOp::ALL.iter().map(|op| Op::Unary(*op));
    let binary = BinOp::ALL.iter().map(|op| Op::Binary(*op));
    let compare = CmpOp::ALL.iter().map(|op| Op::Compare(*op));
    let algebra = AlgebraOp::ALL.iter().map(|op| Op::Algebra(*op));
    let thread = ThreadOp::ALL.iter().map(|op| Op::Thread(*op));
    let plain = [
        Op::Select,
        Op::Fma,
        Op::Random,
        Op::RandomKey,
        Op::Iteration,
    ];
    (unary.chain(binary).chain(compare))
        .chain(algebra)
        .chain(thread)
        .chain(plain)
        .collect()
}

/// A function that applies an operation to parameters of one type.
fn text(op: &Op, ty: Scalar, result: Scalar) -> String {
    let arity = op.info().arity.unwrap_or(0);
    let list = |item: &dyn Fn(u8) -> String| -> String {
        let items: Vec<String> = (0..arity).map(item).collect();
        items.join(", ")
    };
    let params = list(&|k| format!("v{k}: {ty}"));
    let args = list(&|k| format!("v{k}"));
    let separator = if arity > 0 { " " } else { "" };
    format!(
        "fn fn0({params}) {{\n  v{arity}: {result} = {}{separator}{args}\n  return\n}}\n",
        op.name()
    )
}

#[test]
fn names_are_unique() {
    for op in regular() {
        assert_eq!(Op::regular(op.name()), Some(op.clone()), "{op:?}");
    }
}

#[test]
fn rows_round_trip_through_text() {
    for op in regular() {
        let text = text(&op, Scalar::F32, Scalar::F32);
        let module = parse(&text, "test.wir").unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!(module.to_string(), text);
        let function = module.funcs.values().next().expect("a function");
        let inst = function.insts.values().next().expect("an instruction");
        assert_eq!(inst.op, op);
    }
}

#[test]
fn rows_decide_the_scalar_types() {
    let check = |op: Op, on: ScalarSet, result: Option<Scalar>| {
        for ty in Scalar::ALL.iter().copied() {
            let text = text(&op, ty, result.unwrap_or(ty));
            let module = parse(&text, "test.wir").expect("a module");
            assert_eq!(verify(&module).is_ok(), on.contains(ty), "{text}");
        }
    };
    for op in UnOp::ALL {
        check(Op::Unary(*op), op.defined_on(), None);
    }
    for op in BinOp::ALL {
        check(Op::Binary(*op), op.defined_on(), None);
    }
    for op in CmpOp::ALL {
        check(Op::Compare(*op), op.defined_on(), Some(Scalar::Bool));
    }
}
