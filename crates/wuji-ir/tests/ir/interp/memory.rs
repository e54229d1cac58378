//! Fields, arrays and locals: in range, out of range, and overlapping.

use super::*;
use wuji_ir::interp::{ArrayView, Machine, error};
use wuji_ir::types::{F32, I32, StructType};

fn access(place: Place, path: &[Step]) -> Access {
    Access {
        path: path.iter().copied().collect(),
        ..Access::write(place)
    }
}

#[test]
fn outside_reads_zero_and_drops_writes() {
    let mut m = Module::default();
    let x = field(&mut m, "x", I32, &[(4, -2)]);
    let m = kernel(m, &[Type::Scalar(Scalar::I64)], &[I32], |b, p| {
        let nine = b.int(Scalar::I32, 9);
        b.store(Place::Field(x), &[p[0]], nine);
        smallvec![b.load(Place::Field(x), &[p[0]])]
    });
    let mut machine = Machine::new(&m, Config::default()).expect("a machine");
    machine.fill(x, &i32s(&[1, 2, 3, 4])).expect("fills");
    let inside = |i: i64| (-2..2).contains(&i);
    for i in [-2, 1, 2, -3, i64::MIN, i64::MAX, 1 << 32, -2 + (1 << 32)] {
        let index = Imm::int(Scalar::I64, i128::from(i));
        let outcome = machine.run(&[index]).expect("runs");
        let (value, reports) = if inside(i) { (9, 0) } else { (0, 1) };
        assert_eq!(outcome.result, Some(i32s(&[value])));
        assert_eq!(outcome.reports.len(), reports);
        if let Some(report) = outcome.reports.first() {
            assert_eq!(report.kind, SiteKind::OutOfRange(Place::Field(x)));
            assert_eq!(report.values, [index]);
        }
    }
    assert_eq!(machine.field(x), Ok(i32s(&[9, 2, 3, 9])));
    assert_eq!(machine.get(x, &[-2]), Ok(i32s(&[9])));
    assert!(machine.get(x, &[2]).is_err());
    assert!(machine.get(x, &[0, 0]).is_err());
    assert!(machine.set(x, &[0], &[f32(1.0)]).is_err());
}

#[test]
fn unsigned_indices_are_not_narrowed() {
    let mut m = Module::default();
    let x = field(&mut m, "x", I32, &[(4, -2)]);
    let m = kernel(m, &[], &[I32], |b, _| {
        // As a signed number this would be -1.
        let i = b.int(Scalar::U64, i128::from(u64::MAX));
        let one = b.int(Scalar::I32, 1);
        let old = b.value(
            Op::Atomic(AtomicOp::Add, Access::write(Place::Field(x))),
            &[i, one],
        );
        smallvec![old]
    });
    let outcome = run(&m, &[]);
    assert_eq!(outcome.result, Some(i32s(&[0])));
    let expected = Imm::int(Scalar::I64, i128::from(i64::MAX));
    assert_eq!(outcome.reports[0].values, [expected]);
}

#[test]
fn atomics_give_the_old_value() {
    let cases: &[(AtomicOp, i32, i32, i32)] = &[
        (AtomicOp::Add, 5, 3, 8),
        (AtomicOp::Mul, 5, 3, 15),
        (AtomicOp::Min, 5, 3, 3),
        (AtomicOp::Max, 5, 3, 5),
        (AtomicOp::And, 5, 3, 1),
        (AtomicOp::Or, 5, 3, 7),
        (AtomicOp::Xor, 5, 3, 6),
        (AtomicOp::Exchange, 5, 3, 3),
    ];
    for (op, old, operand, new) in cases {
        let mut m = Module::default();
        let x = field(&mut m, "x", Type::Vector(Scalar::I32, 2), &[]);
        let m = kernel(m, &[I32], &[I32], |b, p| {
            let one = access(Place::Field(x), &[Step::Const(1)]);
            smallvec![b.value(Op::Atomic(*op, one), &[p[0]])]
        });
        let mut machine = Machine::new(&m, Config::default()).expect("a machine");
        machine.set(x, &[], &i32s(&[77, *old])).expect("sets");
        let outcome = machine.run(&[int(*operand)]).expect("runs");
        assert_eq!(outcome.result, Some(i32s(&[*old])));
        assert_eq!(machine.field(x), Ok(i32s(&[77, *new])));
    }
}

#[test]
fn compare_exchange_compares_bits() {
    for (expected, found, left) in [(0.0, 0.0, 1.0), (-0.0, 0.0, 0.0)] {
        let mut m = Module::default();
        let x = field(&mut m, "x", F32, &[]);
        let m = kernel(m, &[F32, F32], &[F32], |b, p| {
            smallvec![b.value(Op::CompareExchange(Access::write(Place::Field(x))), p)]
        });
        let mut machine = Machine::new(&m, Config::default()).expect("a machine");
        let outcome = machine.run(&[f32(expected), f32(1.0)]).expect("runs");
        assert_eq!(outcome.result, Some(f32s(&[found])));
        assert_eq!(machine.field(x), Ok(f32s(&[left])));
    }
}

#[test]
fn paths_reach_into_elements() {
    let mut m = Module::default();
    let body = m.structs.intern(StructType {
        name: "Body".into(),
        fields: vec![
            ("mass".into(), F32),
            ("at".into(), Type::Vector(Scalar::I32, 3)),
        ],
    });
    let x = field(&mut m, "x", Type::Struct(body), &[(2, 0)]);
    let m = kernel(m, &[I32], &[I32], |b, p| {
        let at = access(Place::Field(x), &[Step::Const(1), Step::Dynamic]);
        let one = b.int(Scalar::I32, 1);
        let seven = b.int(Scalar::I32, 7);
        b.push(Op::Store(at.clone()), &[one, p[0], seven]);
        smallvec![b.value(Op::Load(at), &[one, p[0]])]
    });
    let mut machine = Machine::new(&m, Config::default()).expect("a machine");
    assert_eq!(
        machine.run(&[int(2)]).expect("runs").result,
        Some(i32s(&[7]))
    );
    let element = vec![f32(0.0), int(0), int(0), int(7)];
    assert_eq!(machine.get(x, &[1]), Ok(element));
    // The store is reported, the load gives zero.
    let outcome = machine.run(&[int(3)]).expect("runs");
    assert_eq!(outcome.result, Some(i32s(&[0])));
    assert_eq!(outcome.reports.len(), 1);
    let report = &outcome.reports[0];
    assert_eq!(report.kind, SiteKind::OutOfRange(Place::Field(x)));
    assert_eq!(report.values, [Imm::int(Scalar::I64, 1)]);
}

#[test]
fn bad_components_of_locals_are_like_insert() {
    let m = kernel(Module::default(), &[I32], &[I32], |b, p| {
        let v = b.func.locals.push(LocalData {
            name: "v".into(),
            ty: Type::Vector(Scalar::I32, 2),
            len: None,
            shared: false,
            role: LocalRole::Variable,
        });
        let at = access(Place::Local(v), &[Step::Dynamic]);
        let five = b.int(Scalar::I32, 5);
        b.push(Op::Store(at.clone()), &[p[0], five]);
        smallvec![b.value(Op::Load(at), &[p[0]])]
    });
    assert_eq!(run(&m, &[int(1)]).result, Some(i32s(&[5])));
    let outcome = run(&m, &[int(2)]);
    assert_eq!(outcome.result, Some(i32s(&[0])));
    assert!(outcome.reports.is_empty());
}

#[test]
fn a_wrong_inbounds_is_an_error() {
    let mut m = Module::default();
    let x = field(&mut m, "x", I32, &[(4, 0)]);
    let m = kernel(m, &[I32], &[I32], |b, p| {
        let sure = Access {
            guard: Guard::InBounds,
            ..Access::read(Place::Field(x))
        };
        smallvec![b.value(Op::Load(sure), &[p[0]])]
    });
    let mut machine = Machine::new(&m, Config::default()).expect("a machine");
    assert!(machine.run(&[int(3)]).is_ok());
    assert_eq!(
        machine.run(&[int(4)]).expect_err("a bug").code,
        error::NOT_INSIDE
    );
}

#[test]
fn local_arrays_and_check_index() {
    let m = kernel(Module::default(), &[I32], &[I32], |b, p| {
        let stack = b.func.locals.push(LocalData {
            name: "stack".into(),
            ty: I32,
            len: Some(3),
            shared: false,
            role: LocalRole::Variable,
        });
        b.push(Op::CheckIndex(3), &[p[0]]);
        let five = b.int(Scalar::I32, 5);
        b.store(Place::Local(stack), &[p[0]], five);
        smallvec![b.load(Place::Local(stack), &[p[0]])]
    });
    assert_eq!(run(&m, &[int(2)]).result, Some(i32s(&[5])));
    let outcome = run(&m, &[int(-1)]);
    assert_eq!(outcome.result, Some(i32s(&[0])));
    let stack = Place::Local(Local::from_u32(0));
    let kinds: Vec<SiteKind> = outcome.reports.iter().map(|r| r.kind.clone()).collect();
    assert_eq!(
        kinds,
        [SiteKind::BadIndex { len: 3 }, SiteKind::OutOfRange(stack)]
    );
}

fn array(m: &mut Module, name: &str, elem: Type, rank: u8) -> Array {
    m.arrays.push(ArrayData {
        name: name.into(),
        elem,
        rank,
        writable: true,
        contiguous: false,
        unaliased: false,
        shape: None,
    })
}

/// `for i in 0..3 { b[i] = a[i] + 1 }`, serially.
fn shift_up(m: Module, a: Array, b_array: Array) -> Module {
    kernel(m, &[], &[], |b, _| {
        let bounds = (
            b.int(Scalar::I32, 0),
            b.int(Scalar::I32, 3),
            b.int(Scalar::I32, 1),
        );
        b.for_range(ForKind::Serial, bounds, &[], |b, _, i, _| {
            let x = b.load(Place::Array(a), &[i]);
            let one = b.int(Scalar::I32, 1);
            let y = b.binary(BinOp::Add, x, one);
            b.store(Place::Array(b_array), &[i], y);
            smallvec![]
        });
        smallvec![]
    })
}

#[test]
fn arrays_may_overlap() {
    let mut m = Module::default();
    let a = array(&mut m, "a", I32, 1);
    let b = array(&mut m, "b", I32, 1);
    let mut m = shift_up(m, a, b);
    let bytes: Vec<u8> = [10i32, 20, 30, 40]
        .iter()
        .flat_map(|x| x.to_le_bytes())
        .collect();
    {
        let mut machine = Machine::new(&m, Config::default()).expect("a machine");
        let buffer = machine.add_buffer(bytes.clone());
        let view = ArrayView::contiguous(buffer, &[3], 4);
        machine.bind(a, view.clone()).expect("binds");
        machine
            .bind(b, ArrayView { base: 4, ..view })
            .expect("binds");
        machine.run(&[]).expect("runs");
        // Each store is what the next iteration loads.
        assert_eq!(machine.array(a), i32s(&[10, 11, 12]));
        assert_eq!(machine.array(b), i32s(&[11, 12, 13]));
    }
    m.arrays[a].unaliased = true;
    let mut machine = Machine::new(&m, Config::default()).expect("a machine");
    let buffer = machine.add_buffer(bytes);
    let view = ArrayView::contiguous(buffer, &[3], 4);
    machine.bind(a, view.clone()).expect("binds");
    machine
        .bind(b, ArrayView { base: 4, ..view })
        .expect("binds");
    assert_eq!(
        machine.run(&[]).expect_err("aliases").code,
        error::BAD_LAUNCH
    );
}

#[test]
fn strided_empty_and_reversed_arrays() {
    let mut m = Module::default();
    let a = array(&mut m, "a", I32, 2);
    let m = kernel(m, &[], &[Type::Scalar(Scalar::I64)], |b, _| {
        let (zero, one) = (b.int(Scalar::U8, 0), b.int(Scalar::U8, 1));
        let seven = b.int(Scalar::I32, 7);
        b.store(Place::Array(a), &[one, zero], seven);
        smallvec![b.value(Op::ArrayExtent(a, 1), &[])]
    });
    let mut machine = Machine::new(&m, Config::default()).expect("a machine");
    let outcome = machine.run(&[]).expect("runs");
    assert_eq!(outcome.reports.len(), 1, "empty until bound");
    let buffer = machine.add_buffer(vec![0; 48]);
    // Reversed columns, and every other one of three rows.
    let view = ArrayView {
        buffer,
        base: 8,
        extents: vec![2, 3],
        strides: vec![24, -4],
    };
    machine.bind(a, view.clone()).expect("binds");
    let outcome = machine.run(&[]).expect("runs");
    assert_eq!(outcome.result, Some(vec![Imm::int(Scalar::I64, 3)]));
    assert_eq!(machine.array(a), i32s(&[0, 0, 0, 7, 0, 0]));
    assert_eq!(machine.buffer(buffer)[32], 7);
    for wrong in [
        ArrayView {
            base: 4,
            ..view.clone()
        },
        ArrayView {
            base: 2,
            ..view.clone()
        },
        ArrayView {
            extents: vec![2, -3],
            ..view.clone()
        },
        ArrayView {
            extents: vec![2],
            ..view.clone()
        },
        ArrayView {
            strides: vec![24, 6],
            ..view.clone()
        },
        ArrayView {
            strides: vec![i64::MAX & !3, 4],
            ..view.clone()
        },
    ] {
        assert_eq!(
            machine.bind(a, wrong).expect_err("unfit").code,
            error::BAD_LAUNCH
        );
    }
}

#[test]
fn huge_fields_keep_what_is_written() {
    let mut m = Module::default();
    let x = field(&mut m, "x", F32, &[(1 << 40, 0), (1 << 18, -5)]);
    let m = kernel(m, &[], &[F32], |b, _| {
        let i = b.int(Scalar::I64, (1 << 40) - 1);
        let j = b.int(Scalar::I64, -5);
        let two = b.imm(f32(2.0));
        b.store(Place::Field(x), &[i, j], two);
        smallvec![b.load(Place::Field(x), &[i, j])]
    });
    let mut machine = Machine::new(&m, Config::default()).expect("a machine");
    assert_eq!(machine.run(&[]).expect("runs").result, Some(f32s(&[2.0])));
    assert!(machine.field(x).is_err());
    assert_eq!(machine.get(x, &[(1 << 40) - 1, -5]), Ok(f32s(&[2.0])));
}
