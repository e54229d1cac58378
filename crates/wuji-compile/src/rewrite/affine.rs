//! Instructions that compute affine expressions.

use crate::analysis::affine::Affine;
use wuji_ir::build::Builder;
use wuji_ir::entities::Value;
use wuji_ir::ops::BinOp;
use wuji_ir::types::Scalar;

/// An affine expression as an `i64` value.
pub fn materialize(b: &mut Builder, expr: &Affine) -> Value {
    let mut out: Option<Value> = None;
    for (v, k) in &expr.terms {
        let mut term = b.convert(*v, Scalar::I64);
        if *k != 1 {
            let k = b.i64(*k);
            term = b.binary(BinOp::Mul, term, k);
        }
        out = Some(match out {
            Some(o) => b.binary(BinOp::Add, o, term),
            None => term,
        });
    }
    match out {
        Some(o) if expr.constant == 0 => o,
        Some(o) => {
            let c = b.i64(expr.constant);
            b.binary(BinOp::Add, o, c)
        }
        None => b.i64(expr.constant),
    }
}
