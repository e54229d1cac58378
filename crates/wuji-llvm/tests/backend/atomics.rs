//! Atomic updates: their results, and that no concurrent update is lost.

use crate::harness::{Aligned, Launch, compile_with, jit, plain_jit};
use crate::operators::interesting;
use std::fmt::Write;
use wuji_compile::Math;
use wuji_ir::eval;
use wuji_ir::infer;
use wuji_ir::ops::AtomicOp;
use wuji_ir::types::{Imm, Scalar};

/// One task per operation: `old[i] = atomic op cell[i], operand[i]`; the last is a compare-exchange.
fn module(s: Scalar, ops: &[AtomicOp]) -> String {
    let mut text = String::from("module \"atomics\"\n");
    for (a, name) in ["cell", "operand", "old"].iter().enumerate() {
        let _ = writeln!(
            text,
            "array a{a} \"{name}\": {s} rank 1 writable contiguous unaliased"
        );
    }
    let exchange = "memcmpxchg a0 [v6], v11, v12".to_string();
    let operations: Vec<String> = ops
        .iter()
        .map(|op| format!("mematomic {} a0 [v6], v11", op.name()))
        .chain([exchange])
        .collect();
    for (k, operation) in operations.iter().enumerate() {
        let _ = writeln!(
            text,
            "fn fn{k} \"f{k}\"(v0: i64, v1: i64) {{
  v2: i64 = const 1
  v3: i64 = const {}
  for.parallel L0 v5: i64 in v0..v1 step v2 {{
    v6: i64 = mul v5, v3
    v11: {s} = memload a1 [v6]
    v12: {s} = memload a2 [v6]
    v13: {s} = {operation}
    memstore a2 [v6], v13
    continue L0
  }}
  return
}}",
            s.bytes()
        );
    }
    for k in 0..operations.len() {
        let _ = writeln!(
            text,
            "task \"atomics.{k}\" chunks (0..1) unit 1 fn{k} ordinal 1"
        );
    }
    text
}

fn bytes(values: &[Imm]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|v| v.bits().to_le_bytes()[..v.ty.bytes() as usize].to_vec())
        .collect()
}

fn values(s: Scalar, bytes: &[u8]) -> Vec<Imm> {
    bytes
        .chunks(s.bytes() as usize)
        .map(|c| {
            let mut slot = [0; 8];
            slot[..c.len()].copy_from_slice(c);
            Imm::from_bits(s, u64::from_le_bytes(slot))
        })
        .collect()
}

fn same(a: Imm, b: Imm) -> bool {
    let nan = |v: Imm| v.as_float().is_some_and(f64::is_nan);
    a == b || (nan(a) && nan(b))
}

#[test]
fn atomics_on_every_type() {
    for s in Scalar::ALL {
        let ops: Vec<AtomicOp> = AtomicOp::ALL
            .iter()
            .copied()
            .filter(|op| infer::atomic(*op, s).is_ok())
            .collect();
        let text = module(s, &ops);
        let all = interesting(s);
        let (mut cells, mut operands) = (Vec::new(), Vec::new());
        for x in &all {
            for y in &all {
                cells.push(*x);
                operands.push(*y);
            }
        }
        let third: Vec<Imm> = (0..cells.len()).map(|i| all[i * 3 % all.len()]).collect();
        let count = cells.len();
        for jit in [jit(), plain_jit()] {
            let kernel = compile_with(jit, &text, Math::Strict);
            for k in 0..=ops.len() {
                let mut memory = [&cells, &operands, &third].map(|v| Aligned::from(&bytes(v)));
                let mut launch = Launch::default();
                for m in &mut memory {
                    launch.array(m.ptr(), &[count as i64], &[i64::from(s.bytes())]);
                }
                launch.run(&kernel, k, 0, count as i64);
                let after = values(s, &memory[0].values::<u8>());
                let old = values(s, &memory[2].values::<u8>());
                for i in 0..count {
                    let (cell, operand) = (cells[i], operands[i]);
                    let want = match ops.get(k) {
                        Some(op) => eval::combine(*op, cell, operand).unwrap(),
                        None if cell == operand => third[i],
                        None => cell,
                    };
                    assert!(
                        same(after[i], want) && same(old[i], cell),
                        "{s} {:?}: {cell:?}, {operand:?}: left {:?}, should be {want:?}; old {:?}",
                        ops.get(k),
                        after[i],
                        old[i]
                    );
                }
            }
        }
    }
}

#[test]
fn no_update_is_lost() {
    for s in [
        Scalar::I32,
        Scalar::F16,
        Scalar::F32,
        Scalar::F64,
        Scalar::U8,
    ] {
        let text = format!(
            "module \"count\"
array a0 \"cell\": {s} rank 1 writable contiguous unaliased
fn fn0 \"f\"(v0: i64, v1: i64) {{
  v2: i64 = const 1
  v3: i64 = const 0
  v4: {s} = const {one}
  for.parallel L0 v5: i64 in v0..v1 step v2 {{
    v6: {s} = mematomic add a0 [v3], v4
    continue L0
  }}
  return
}}
task \"count.0\" chunks (0..1) unit 1 fn0 ordinal 1
",
            one = if s.is_float() { "1.0" } else { "1" }
        );
        let kernel = compile_with(jit(), &text, Math::Strict);
        let mut cell = Aligned::from(&[0u64]);
        let at = cell.ptr() as usize;
        let each = 1000;
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut launch = Launch::default();
                    launch.array(at as *mut u8, &[1], &[8]);
                    launch.run(&kernel, 0, 0, each);
                });
            }
        });
        let got = Imm::from_bits(s, cell.values::<u64>()[0]);
        assert_eq!(got, Imm::int(s, 2 * i128::from(each)));
    }
}
