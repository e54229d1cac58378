//! `foreach`, tasks, their orders, and random numbers.

use super::*;
use wuji_ir::random;
use wuji_ir::types::{I32, I64, U64};

/// Checks that all orders give the same memory, lines and result; returns those of the serial order.
fn same_in_all_orders(m: &Module, fields: &[Field]) -> (Outcome, Vec<Vec<Imm>>) {
    let mut all = orders().into_iter().map(|config| {
        let mut machine = Machine::new(m, config).expect("a machine");
        let mut outcome = machine.run(&[]).expect("runs");
        outcome.reports.sort_by_key(|r| (r.task, r.iteration));
        let stores = fields
            .iter()
            .map(|f| machine.field(*f).expect("small"))
            .collect();
        (outcome, stores)
    });
    let first = all.next().expect("serial");
    for other in all {
        assert_eq!(first, other);
    }
    first
}

#[test]
fn foreach_visits_every_point_once() {
    let mut m = Module::default();
    let x = field(&mut m, "x", I32, &[(4, -1), (3, 2)]);
    let total = field(&mut m, "total", I32, &[]);
    let show = message(&mut m, "at ", &[I32, I32]);
    let m = kernel(m, &[], &[], |b, _| {
        foreach_in(b, Domain::Field(x), &[], 2, |b, p| {
            let sum = b.binary(BinOp::Add, p[0], p[1]);
            b.push(Op::Print(show), p);
            b.value(
                Op::Atomic(AtomicOp::Add, Access::write(Place::Field(x))),
                &[p[0], p[1], sum],
            );
            b.value(
                Op::Atomic(AtomicOp::Add, Access::write(Place::Field(total))),
                &[sum],
            );
        });
        smallvec![]
    });
    let (outcome, stores) = same_in_all_orders(&m, &[x, total]);
    assert_eq!(stores[0], i32s(&[1, 2, 3, 2, 3, 4, 3, 4, 5, 4, 5, 6]));
    assert_eq!(stores[1], i32s(&[42]));
    assert_eq!(outcome.printed.len(), 12);
    assert_eq!(outcome.printed[0].text, "at -12");
    assert_eq!(outcome.printed[4].text, "at 03");
    assert_eq!(outcome.printed[4].iteration, 4);
    assert_eq!(outcome.printed[4].task, 1);
}

#[test]
fn shuffled_orders_differ() {
    let mut m = Module::default();
    let last = field(&mut m, "last", I32, &[]);
    let m = kernel(m, &[], &[], |b, _| {
        foreach(b, &[(0, 100)], |b, p| {
            b.store(Place::Field(last), &[], p[0]);
        });
        smallvec![]
    });
    let seen: std::collections::HashSet<Imm> = orders()
        .into_iter()
        .map(|config| {
            let mut machine = Machine::new(&m, config).expect("a machine");
            machine.run(&[]).expect("runs");
            machine.field(last).expect("small")[0]
        })
        .collect();
    assert!(seen.contains(&int(99)) && seen.len() > 3);
}

#[test]
fn empty_and_reversed_ranges_run_nothing() {
    let mut m = Module::default();
    let x = field(&mut m, "x", I32, &[]);
    let m = kernel(m, &[], &[], |b, _| {
        foreach(b, &[(0, 5), (3, 3)], |b, p| {
            b.store(Place::Field(x), &[], p[0]);
        });
        foreach(b, &[(5, i32::MIN)], |b, p| {
            b.store(Place::Field(x), &[], p[0]);
        });
        smallvec![]
    });
    let (outcome, stores) = same_in_all_orders(&m, &[x]);
    assert_eq!(stores[0], i32s(&[0]));
    assert!(outcome.reports.is_empty());
}

#[test]
fn locals_start_afresh_in_each_iteration() {
    let mut m = Module::default();
    let x = field(&mut m, "x", I32, &[(5, 0)]);
    let m = kernel(m, &[], &[I32], |b, _| {
        let outer = b.func.locals.push(LocalData {
            name: "outer".into(),
            ty: I32,
            len: None,
            shared: false,
            role: LocalRole::Variable,
        });
        let inner = b.func.locals.push(LocalData {
            name: "inner".into(),
            ty: I32,
            len: Some(2),
            shared: false,
            role: LocalRole::Variable,
        });
        let ten = b.int(Scalar::I32, 10);
        b.store(Place::Local(outer), &[], ten);
        let one = b.int(Scalar::I32, 1);
        foreach(b, &[(0, 5)], |b, p| {
            let a = b.load(Place::Local(outer), &[]);
            let c = b.load(Place::Local(inner), &[one]);
            let sum = b.binary(BinOp::Add, a, c);
            b.store(Place::Field(x), &[p[0]], sum);
            b.store(Place::Local(outer), &[], p[0]);
            b.store(Place::Local(inner), &[one], p[0]);
        });
        smallvec![b.load(Place::Local(outer), &[])]
    });
    let (outcome, stores) = same_in_all_orders(&m, &[x]);
    assert_eq!(stores[0], i32s(&[10; 5]));
    assert_eq!(outcome.result, Some(i32s(&[10])));
}

#[test]
fn a_failed_assertion_ends_one_iteration() {
    let mut m = Module::default();
    let x = field(&mut m, "x", I32, &[(6, 0)]);
    let why = message(&mut m, "three", &[]);
    // The assertion is in a function, inside of a loop of the iteration.
    let check = function(&mut m, "check", &[I32], &[], |b, p| {
        let three = b.int(Scalar::I32, 3);
        let ok = b.compare(CmpOp::Ne, p[0], three);
        b.push(Op::Assert(why), &[ok]);
        smallvec![]
    });
    let m = kernel(m, &[], &[I32], |b, _| {
        let one = b.int(Scalar::I32, 1);
        foreach(b, &[(0, 6)], |b, p| {
            let bounds = (b.int(Scalar::I32, 0), one, one);
            b.for_range(ForKind::Serial, bounds, &[], |b, _, _, _| {
                b.push(Op::Call(check), &[p[0]]);
                smallvec![]
            });
            b.store(Place::Field(x), &[p[0]], one);
        });
        smallvec![one]
    });
    let (outcome, stores) = same_in_all_orders(&m, &[x]);
    assert_eq!(stores[0], i32s(&[1, 1, 1, 0, 1, 1]));
    assert_eq!(outcome.reports.len(), 1);
    assert_eq!(outcome.reports[0].iteration, Some(3));
    assert_eq!(outcome.result, Some(i32s(&[1])));
}

/// Two draws in each iteration and one in each part of serial code.
fn dicing() -> (Module, Field, Field) {
    let mut m = Module::default();
    let x = field(&mut m, "x", U64, &[(2, 0), (3, 0), (2, 0)]);
    let s = field(&mut m, "s", U64, &[(3, 0)]);
    let m = kernel(m, &[], &[], |b, _| {
        let index: Vec<Value> = (0..3).map(|k| b.int(Scalar::I32, k)).collect();
        let r = b.value(Op::Random, &[]);
        b.store(Place::Field(s), &[index[0]], r);
        foreach(b, &[(0, 2), (0, 3)], |b, p| {
            for k in &index[..2] {
                let r = b.value(Op::Random, &[]);
                b.store(Place::Field(x), &[p[0], p[1], *k], r);
            }
        });
        let r = b.value(Op::Random, &[]);
        b.store(Place::Field(s), &[index[1]], r);
        foreach(b, &[(0, 1)], |b, _| {
            b.value(Op::Random, &[]);
        });
        let r = b.value(Op::Random, &[]);
        b.store(Place::Field(s), &[index[2]], r);
        smallvec![]
    });
    (m, x, s)
}

#[test]
fn random_numbers_do_not_depend_on_order() {
    let (m, x, s) = dicing();
    let (_, stores) = same_in_all_orders(&m, &[x, s]);
    let expected: Vec<u64> = (0..6)
        .flat_map(|i| (0..2).map(move |d| random::draw(random::task_key(0, 0, 1), i, d)))
        .collect();
    assert_eq!(
        stores[0].iter().map(|x| x.bits()).collect::<Vec<_>>(),
        expected
    );
    let serial: Vec<u64> = [0, 2, 4]
        .map(|task| random::draw(random::task_key(0, 0, task), 0, 0))
        .to_vec();
    assert_eq!(
        stores[1].iter().map(|x| x.bits()).collect::<Vec<_>>(),
        serial
    );
}

#[test]
fn random_numbers_depend_on_seed_and_launch() {
    let (m, x, _) = dicing();
    let mut machine = Machine::new(&m, Config::default()).expect("a machine");
    let mut seen = std::collections::HashSet::new();
    for (seed, launch) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        machine.config.seed = seed;
        machine.config.launch = launch;
        machine.run(&[]).expect("runs");
        seen.insert(machine.field(x).expect("small"));
    }
    assert_eq!(seen.len(), 4);
}

/// The formula of the documentation, implemented independently.
#[test]
fn random_formula() {
    fn mix(z: u64) -> u64 {
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58476d1ce4e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d049bb133111eb);
        z ^ (z >> 31)
    }
    const G: u64 = 0x9e3779b97f4a7c15;
    let (seed, launch, task, iteration, draw) = (11u64, 22u64, 33u64, 44u64, 55u64);
    let key = mix(mix(seed.wrapping_add(G)).wrapping_add(launch.wrapping_mul(G)))
        .wrapping_add(task.wrapping_mul(G));
    let value = mix(mix(mix(key).wrapping_add(iteration.wrapping_mul(G)))
        .wrapping_add((draw + 1).wrapping_mul(G)));
    assert_eq!(random::task_key(seed, launch, task), key);
    assert_eq!(random::draw(key, iteration, draw), value);
}

/// A kernel as tasks: serial code stores a bound in a temp, then a range, a field and chunks.
#[test]
fn tasks_run_in_order() {
    let mut m = Module::default();
    m.params.push(Param {
        name: "n".into(),
        ty: I32,
    });
    let x = field(&mut m, "x", I64, &[(8, 0)]);
    let bound = m.temps.push(TempData { ty: I32 });
    let out = m.temps.push(TempData { ty: I64 });
    let start = function(&mut m, "start", &[I32], &[], |b, p| {
        let one = b.int(Scalar::I32, 1);
        let n = b.binary(BinOp::Add, p[0], one);
        b.store(Place::Temp(bound), &[], n);
        smallvec![]
    });
    let body = function(&mut m, "range", &[I32, I64], &[], |b, p| {
        let i = b.value(Op::Iteration, &[]);
        let sum = b.binary(BinOp::Add, i, p[1]);
        b.store(Place::Field(x), &[p[1]], sum);
        smallvec![]
    });
    let cells = function(&mut m, "cells", &[I32, I32], &[], |b, p| {
        let hundred = b.int(Scalar::I64, 100);
        let add = Op::Atomic(AtomicOp::Add, Access::write(Place::Field(x)));
        b.value(add, &[p[1], hundred]);
        smallvec![]
    });
    let chunks = function(&mut m, "chunks", &[I32, I64, I64], &[], |b, p| {
        let one = b.int(Scalar::I64, 1);
        b.for_range(ForKind::Parallel, (p[1], p[2], one), &[], |b, _, i, _| {
            let x = b.load(Place::Field(x), &[i]);
            b.value(
                Op::Atomic(AtomicOp::Add, Access::write(Place::Temp(out))),
                &[x],
            );
            smallvec![]
        });
        smallvec![]
    });
    let hints = LoopHints::default();
    let dims = vec![RangeDim::new(Bound::Param(0), Bound::Temp(bound))];
    let all = vec![RangeDim::new(Bound::Const(0), Bound::Const(8))];
    let kinds = [
        (TaskKind::Serial, start),
        (TaskKind::Range { dims, hints }, body),
        (TaskKind::Cells { field: x, hints }, cells),
        (
            TaskKind::Chunks {
                dims: all,
                unit: 1,
                hints,
            },
            chunks,
        ),
    ];
    for (k, (kind, func)) in kinds.into_iter().enumerate() {
        m.tasks.push(Task {
            flow: TaskFlow::default(),
            lists: None,
            slices: Vec::new(),
            copies: Copies::None,
            name: format!("t{k}"),
            kind,
            func,
            ordinal: k as u32,
            span: Span::UNKNOWN,
        });
    }
    m.result = Some(out);
    for config in orders() {
        let mut machine = Machine::new(&m, config).expect("a machine");
        let outcome = machine.run(&[int(5)]).expect("runs");
        assert_eq!(outcome.result, Some(vec![Imm::int(Scalar::I64, 805)]));
        let expected: Vec<Imm> = [100, 100, 100, 100, 100, 105, 100, 100]
            .map(|v| Imm::int(Scalar::I64, v))
            .to_vec();
        assert_eq!(machine.field(x), Ok(expected));
    }
}

#[test]
fn a_serial_task_that_fails_ends_the_kernel() {
    let mut m = Module::default();
    let x = field(&mut m, "x", I32, &[]);
    let why = message(&mut m, "no", &[]);
    let fails = function(&mut m, "fails", &[], &[], |b, _| {
        let no = b.bool(false);
        b.push(Op::Assert(why), &[no]);
        smallvec![]
    });
    let writes = function(&mut m, "writes", &[], &[], |b, _| {
        let one = b.int(Scalar::I32, 1);
        b.store(Place::Field(x), &[], one);
        smallvec![]
    });
    for (k, func) in [fails, writes].into_iter().enumerate() {
        m.tasks.push(Task {
            flow: TaskFlow::default(),
            lists: None,
            slices: Vec::new(),
            copies: Copies::None,
            name: String::new(),
            kind: TaskKind::Serial,
            func,
            ordinal: 2 * k as u32,
            span: Span::UNKNOWN,
        });
    }
    let (outcome, stores) = same_in_all_orders(&m, &[x]);
    assert_eq!(outcome.reports.len(), 1);
    assert_eq!(stores[0], i32s(&[0]));
}

/// 64 by 64 points with up to 50 steps each.
#[test]
fn julia_is_quick() {
    let f = Type::Scalar(Scalar::F32);
    let mut m = Module::default();
    let pixels = field(&mut m, "pixels", f, &[(64, 0), (64, 0)]);
    let m = kernel(m, &[], &[], |b, _| {
        foreach_in(b, Domain::Field(pixels), &[], 2, |b, p| {
            let scale = b.imm(f32(1.0 / 32.0));
            let one = b.imm(f32(1.0));
            let mut start = Vec::new();
            for index in p {
                let x = b.convert(*index, Scalar::F32);
                let x = b.binary(BinOp::Mul, x, scale);
                start.push(b.binary(BinOp::Sub, x, one));
            }
            let zero = b.int(Scalar::I32, 0);
            start.push(zero);
            let label = b.func.fresh_label();
            let inst = b.push_typed(Op::Loop(label), &start, &[I32]);
            let region = b.region(&[f, f, I32], |b, r| {
                let (xx, yy) = (
                    b.binary(BinOp::Mul, r[0], r[0]),
                    b.binary(BinOp::Mul, r[1], r[1]),
                );
                let norm = b.binary(BinOp::Add, xx, yy);
                let far = b.imm(f32(400.0));
                let out = b.compare(CmpOp::Gt, norm, far);
                let fifty = b.int(Scalar::I32, 50);
                let late = b.compare(CmpOp::Ge, r[2], fifty);
                let done = b.binary(BinOp::Or, out, late);
                let branch = b.push_typed(Op::If, &[done], &[]);
                let yes = b.region(&[], |b, _| b.end(Term::Break(label, smallvec![r[2]])));
                let no = b.region(&[], |b, _| b.end(Term::Yield(smallvec![])));
                b.func.insts[branch].regions.extend([yes, no]);
                let (cx, cy) = (b.imm(f32(-0.4)), b.imm(f32(0.6)));
                let x = b.binary(BinOp::Sub, xx, yy);
                let x = b.binary(BinOp::Add, x, cx);
                let xy = b.binary(BinOp::Mul, r[0], r[1]);
                let y = b.binary(BinOp::Add, xy, xy);
                let y = b.binary(BinOp::Add, y, cy);
                let one = b.int(Scalar::I32, 1);
                let n = b.binary(BinOp::Add, r[2], one);
                b.end(Term::Continue(label, smallvec![x, y, n]));
            });
            b.func.insts[inst].regions.push(region);
            let n = b.func.result(inst);
            let n = b.convert(n, Scalar::F32);
            b.store(Place::Field(pixels), p, n);
        });
        smallvec![]
    });
    let begin = std::time::Instant::now();
    let mut machine = Machine::new(&m, Config::default()).expect("a machine");
    let outcome = machine.run(&[]).expect("runs");
    let time = begin.elapsed();
    println!("{} steps in {time:?}", outcome.steps);
    // The host computes the same.
    for (i, j) in [(0, 0), (20, 33), (32, 32), (63, 1)] {
        let (mut x, mut y) = (i as f32 / 32.0 - 1.0, j as f32 / 32.0 - 1.0);
        let mut n = 0;
        while x * x + y * y <= 400.0 && n < 50 {
            (x, y) = (x * x - y * y - 0.4, x * y + x * y + 0.6);
            n += 1;
        }
        assert_eq!(machine.get(pixels, &[i, j]), Ok(f32s(&[n as f32])));
    }
}
