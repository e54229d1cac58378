//! Lowered memory: byte offsets, and checks of their ranges.

use super::*;
use wuji_ir::interp::{ArrayView, error};
use wuji_ir::types::{F32, I64};

/// `dense [i: 2] { place a: f32, b: f64x2; dense [i: 3] { place c: i16 } }`, in bytes:
/// a cell has `a` at 0, `b` at 8, `c` at 24, 26 and 28, and 32 bytes in all.
fn blocked() -> (Module, Tree, [Field; 3]) {
    let mut m = Module::default();
    let i = Axis::new(0).expect("an axis");
    let mut tree = TreeData::default();
    let outer = tree.add(tree.root(), NodeKind::Dense, &[(i, 2)]);
    let tree = m.trees.push(tree);
    let a = place(&mut m, tree, outer, "a", F32, &[(2, 0)]);
    let vector = Type::Vector(Scalar::F64, 2);
    let b = place(&mut m, tree, outer, "b", vector, &[(2, 0)]);
    let inner = m.trees[tree].add(outer, NodeKind::Dense, &[(i, 3)]);
    let short = Type::Scalar(Scalar::I16);
    let c = place(&mut m, tree, inner, "c", short, &[(6, -1)]);
    (m, tree, [a, b, c])
}

/// Loads an `i16` at an offset, doubles it and stores it back.
fn double(m: Module, space: Space) -> Module {
    kernel(m, &[I64], &[], |b, p| {
        let x = b.value(Op::MemLoad(space, Type::Scalar(Scalar::I16)), &[p[0]]);
        let y = b.binary(BinOp::Add, x, x);
        b.push(Op::MemStore(space), &[p[0], y]);
        smallvec![]
    })
}

fn offset(at: i64) -> Imm {
    Imm::int(Scalar::I64, i128::from(at))
}

#[test]
fn bytes_of_a_blocked_tree() {
    let (m, tree, [a, b, c]) = blocked();
    let m = double(m, Space::Tree(tree, c));
    let mut machine = Machine::lowered(&m, Config::default()).expect("a machine");
    let shorts: Vec<Imm> = (1..7).map(|k| Imm::int(Scalar::I16, k)).collect();
    machine.fill(c, &shorts).expect("fills");
    machine.fill(a, &f32s(&[1.0, 2.0])).expect("fills");
    // Second cell, second short: the fifth element.
    machine.run(&[offset(32 + 26)]).expect("runs");
    let doubled = [1, 2, 3, 4, 10, 6].map(|k| Imm::int(Scalar::I16, k));
    assert_eq!(machine.field(c), Ok(doubled.to_vec()));
    assert_eq!(machine.get(c, &[3]), Ok(vec![doubled[4]]));
    assert_eq!(machine.field(a), Ok(f32s(&[1.0, 2.0])));
    assert_eq!(machine.domain(c), [(-1, 6)]);
    assert_eq!(machine.domain(b), [(0, 2)]);
    // Out of range, in padding, misaligned, and of another field.
    for wrong in [-2, 64, i64::MAX - 1, i64::MIN, 30, 25, 0, 8] {
        let stopped = machine.run(&[offset(wrong)]);
        assert_eq!(
            stopped.expect_err("a bug").code,
            error::BAD_ADDRESS,
            "{wrong}"
        );
    }
}

#[test]
fn bytes_of_arrays_end_where_the_array_does() {
    let mut m = Module::default();
    let a = m.arrays.push(ArrayData {
        name: "a".into(),
        elem: Type::Scalar(Scalar::I16),
        rank: 1,
        writable: true,
        contiguous: false,
        unaliased: false,
        shape: None,
    });
    let m = double(m, Space::Array(a));
    let mut machine = Machine::lowered(&m, Config::default()).expect("a machine");
    assert!(machine.run(&[offset(0)]).is_err(), "empty");
    let buffer = machine.add_buffer(vec![1, 0, 2, 0, 3, 0, 4, 0]);
    let view = ArrayView {
        buffer,
        base: 6,
        extents: vec![3],
        strides: vec![-2],
    };
    machine.bind(a, view).expect("binds");
    machine.run(&[offset(-4)]).expect("runs");
    assert_eq!(machine.buffer(buffer), [1, 0, 4, 0, 3, 0, 4, 0]);
    for wrong in [-6, 2, -3] {
        let stopped = machine.run(&[offset(wrong)]);
        assert_eq!(stopped.expect_err("a bug").code, error::BAD_ADDRESS);
    }
}

#[test]
fn aggregates_and_atomics_on_bytes() {
    let (m, tree, [_, b, _]) = blocked();
    let space = Space::Tree(tree, b);
    let vector = Type::Vector(Scalar::F64, 2);
    let all = Type::Vector(Scalar::F64, 3);
    let m = kernel(m, &[], &[all], |bu, _| {
        let at = bu.i64(8);
        let x = bu.float(Scalar::F64, 1.5);
        let v = bu.value(Op::Splat(vector), &[x]);
        bu.push(Op::MemStore(space), &[at, v]);
        bu.value(
            Op::MemAtomic(AtomicOp::Add, space, Sharing::Shared),
            &[at, v],
        );
        let second = bu.i64(16);
        let three = bu.float(Scalar::F64, 3.0);
        let old = bu.value(Op::MemCompareExchange(space), &[second, three, x]);
        let v = bu.value(Op::MemLoad(space, vector), &[at]);
        let parts = [0, 1].map(|k| bu.value(Op::Extract(k), &[v]));
        smallvec![bu.value(Op::Compose(all), &[parts[0], parts[1], old])]
    });
    let mut machine = Machine::lowered(&m, Config::default()).expect("a machine");
    let outcome = machine.run(&[]).expect("runs");
    let expected = [3.0, 1.5, 3.0].map(|x| Imm::float(Scalar::F64, x));
    assert_eq!(outcome.result, Some(expected.to_vec()));
    assert_eq!(machine.get(b, &[0]), Ok(expected[..2].to_vec()));
}

#[test]
fn each_form_has_its_memory() {
    let (m, tree, [a, _, c]) = blocked();
    let lowered = double(m.clone(), Space::Tree(tree, c));
    let mut machine = Machine::new(&lowered, Config::default()).expect("a machine");
    let stopped = machine.run(&[offset(24)]);
    assert_eq!(stopped.expect_err("no bytes").code, error::NOT_RUNNABLE);
    let plain = kernel(m, &[], &[], |b, _| {
        let zero = b.i64(0);
        b.load(Place::Field(a), &[zero]);
        smallvec![]
    });
    let mut machine = Machine::lowered(&plain, Config::default()).expect("a machine");
    let stopped = machine.run(&[]);
    assert_eq!(
        stopped.expect_err("no coordinates").code,
        error::NOT_RUNNABLE
    );
}

/// Reports and returns, as lowered assertions do; temps hold a bound and the result.
#[test]
fn sites_and_temps() {
    let mut m = Module::default();
    let bound = m.temps.push(TempData {
        ty: wuji_ir::types::I32,
    });
    let out = m.temps.push(TempData { ty: F32 });
    let why = message(&mut m, "no", &[F32]);
    let shown = m.sites.push(SiteData {
        kind: SiteKind::Print(why),
        span: Span::UNKNOWN,
    });
    let bad = m.sites.push(SiteData {
        kind: SiteKind::BadIndex { len: 4 },
        span: Span::UNKNOWN,
    });
    let assert = m.sites.push(SiteData {
        kind: SiteKind::Assert(why),
        span: Span::UNKNOWN,
    });
    let start = function(&mut m, "start", &[], &[], |b, _| {
        let n = b.int(Scalar::I32, 3);
        let at = b.i64(0);
        b.push(Op::MemStore(Space::Temps), &[at, n]);
        smallvec![]
    });
    let chunks = function(&mut m, "chunks", &[I64, I64], &[], |b, p| {
        let one = b.i64(1);
        b.for_range(ForKind::Parallel, (p[0], p[1], one), &[], |b, _, i, _| {
            let x = b.convert(i, Scalar::F32);
            b.push(Op::Report(shown), &[i, x]);
            b.push(Op::Report(bad), &[i]);
            let at = b.i64(8);
            b.value(
                Op::MemAtomic(AtomicOp::Add, Space::Temps, Sharing::Shared),
                &[at, x],
            );
            smallvec![]
        });
        smallvec![]
    });
    let end = function(&mut m, "end", &[], &[], |b, _| {
        let x = b.imm(f32(0.5));
        b.push(Op::Report(assert), &[x]);
        smallvec![]
    });
    let dims = vec![RangeDim::new(Bound::Const(0), Bound::Temp(bound))];
    let chunk_kind = TaskKind::Chunks {
        dims,
        unit: 1,
        hints: LoopHints::default(),
    };
    for (ordinal, (kind, func)) in [(TaskKind::Serial, start), (chunk_kind, chunks)]
        .into_iter()
        .enumerate()
    {
        m.tasks.push(Task {
            flow: TaskFlow::default(),
            lists: None,
            slices: Vec::new(),
            copies: Copies::None,
            name: String::new(),
            kind,
            func,
            ordinal: ordinal as u32,
            span: Span::UNKNOWN,
        });
    }
    m.result = Some(out);
    for config in orders() {
        let mut machine = Machine::lowered(&m, config).expect("a machine");
        let outcome = machine.run(&[]).expect("runs");
        assert_eq!(outcome.result, Some(f32s(&[3.0])));
        let lines: Vec<&str> = outcome.printed.iter().map(|p| p.text.as_str()).collect();
        assert_eq!(lines, ["no0", "no1", "no2"]);
        assert_eq!(outcome.reports.len(), 3);
    }
    m.tasks.push(Task {
        flow: TaskFlow::default(),
        lists: None,
        slices: Vec::new(),
        copies: Copies::None,
        name: String::new(),
        kind: TaskKind::Serial,
        func: end,
        ordinal: 2,
        span: Span::UNKNOWN,
    });
    let mut machine = Machine::lowered(&m, Config::default()).expect("a machine");
    let outcome = machine.run(&[]).expect("runs");
    assert_eq!(outcome.result, None);
    assert_eq!(outcome.reports[3].kind, SiteKind::Assert(why));
}

/// A pointer node with two cells of 8 bytes, and the words of its header that matter here.
fn pointers(body: &str) -> (Module, wuji_ir::layout::TreeMemory) {
    let text = format!(
        r#"
        tree T0 {{ pointer S1 [i: 2] {{ place f0, f1 }} }}
        field f0 "x": f32 in T0.S1 (i)
        field f1 "y": f32 in T0.S1 (i)
        array a0 "runs": i64 rank 1 writable
        param p0: i64
        param p1: i64
        {body}
        "#
    );
    let m = wuji_ir::text::parse(&text, "test.wir").expect("a module");
    let tree = Tree::from_u32(0);
    let memory = wuji_ir::layout::TreeMemory::of(&m.trees[tree], &m.fields, &m.structs);
    (m, memory.expect("a layout"))
}

#[test]
fn lists_are_generated_when_cells_have_changed() {
    let (m, memory) = pointers(
        r#"
        fn fn0 "store"(v0: i64, v1: i64) {
          memstore T0.nodes [v0], v1
          return
        }
        fn fn1 "list"(v0: i64, v1: i64, v2: i64, v3: i64) {
          v4: i64 = const 0
          v5: i64 = const 1
          v6: i64 = mematomic add a0 [v4], v5
          return
        }
        fn fn2 "loop"(v0: i64, v1: i64, v2: i64, v3: i64) {
          v4: i64 = const 8
          v5: i64 = sub v3, v2
          v6: i64 = mematomic add a0 [v4], v5
          return
        }
        task "store" serial fn0 ordinal 0
        task "list" chunks (0..1) unit 1 fn1 ordinal 1 lists T0.S1
        task "loop" chunks (0..list T0.S1) unit 1 fn2 ordinal 1
        "#,
    );
    let header = memory.node(Node::from_u32(1)).expect("a header").header;
    let at = |word: u64| offset((header + word) as i64);
    let mut machine = Machine::lowered(&m, Config::default()).expect("a machine");
    let runs = Array::from_u32(0);
    machine
        .bind_values(runs, &[2], &[offset(0), offset(0)])
        .expect("binds");
    use wuji_ir::layout::header::{CHANGED, LISTED, RETURNED};
    // A fresh tree has no lists; then nothing changes; then something does.
    for (word, value, expected) in [
        (RETURNED, 0, [1, 0]),
        (RETURNED, 0, [1, 0]),
        (LISTED, 5, [1, 5]),
        (CHANGED, 1, [2, 5]),
        (RETURNED, 0, [2, 5]),
    ] {
        machine.run(&[at(word), offset(value)]).expect("runs");
        assert_eq!(machine.array(runs), expected.map(offset), "{word}");
    }
}

#[test]
fn bytes_of_cells_that_can_be_absent() {
    let (m, memory) = pointers(
        r#"
        kernel fn0 "k"(v0: i64, v1: i64) {
          v2: f32 = memload T0.f1 [v0]
          memstore T0.f1 [v1], v2
          return
        }
        "#,
    );
    let arena = memory
        .node(Node::from_u32(1))
        .and_then(|n| n.arena.as_ref());
    let arena = arena.expect("an arena");
    let first = arena.data as i64;
    let mut machine = Machine::lowered(&m, Config::default()).expect("a machine");
    // Absent cells read as zeros; in both cells `y` follows `x`.
    for (from, to) in [(4, first + 4), (first + 4, first + arena.cell as i64 + 4)] {
        machine.run(&[offset(from), offset(to)]).expect("runs");
    }
    // The zeros, `x` and everything outside of cells are invalid for this field.
    let header = memory
        .tree_header(&m.trees[Tree::from_u32(0)])
        .expect("a header") as i64;
    for wrong in [4, 0, first, first - 4, header, memory.size as i64, -4] {
        let stopped = machine.run(&[offset(4), offset(wrong)]);
        assert_eq!(
            stopped.expect_err("a bug").code,
            error::BAD_ADDRESS,
            "{wrong}"
        );
    }
}

/// Two workers add to the same elements; the copy of the second one is merged.
#[test]
fn copies_are_filled_and_merged() {
    let text = "tree T0 { dense S1 [i: 4] { place f0 } }
        field f0: f32 in T0.S1 (i)
        fn fn0 \"fill\"(v0: i64, v1: i64) {
          v2: i64 = const 16
          v3: i64 = const 0
          v4: i64 = const 4
          v5: f32 = const -0.0
          for L0 v6: i64 in v3..v2 step v4 {
            memstore T0.f0.private [v6], v5
            continue L0
          }
          return
        }
        fn fn1 \"work\"(v0: i64, v1: i64) {
          v2: i64 = const 1
          v3: f32 = const 1.0
          v5: i64 = const 0
          v6: i64 = const 4
          for.parallel L0 v7: i64 in v0..v1 step v2 {
            v8: i64 = rem v7, v6
            v9: i64 = mul v8, v6
            v10: f32 = mematomic.owned add T0.f0.private [v9], v3
            continue L0
          }
          return
        }
        fn fn2 \"merge\"(v0: i64, v1: i64) {
          v2: i64 = const 1
          v3: i64 = const 4
          v4: f32 = const -0.0
          for.parallel L0 v5: i64 in v0..v1 step v2 {
            v6: i64 = mul v5, v3
            v7: f32 = memload T0.f0.private [v6]
            memstore T0.f0.private [v6], v4
            v8: f32 = mematomic.owned add T0.f0 [v6], v7
            continue L0
          }
          return
        }
        task \"fill\" chunks (0..1) unit 4 fn0 ordinal 1 fills T0
        task \"work\" chunks (0..7) unit 1 fn1 ordinal 1 private (add f0) updates 1
        task \"merge\" chunks (0..4) unit 1 fn2 ordinal 1 merges T0";
    let m = wuji_ir::text::parse(text, "copies.wir").expect("a module");
    let field = Field::from_u32(0);
    for order in [Order::Serial, Order::Shuffled(1), Order::Shuffled(2)] {
        let config = Config {
            order,
            ..Config::default()
        };
        let mut machine = Machine::lowered(&m, config).expect("a machine");
        let start = f32s(&[10.0, -0.0, 0.0, 0.5]);
        machine.fill(field, &start).expect("fills");
        machine.run(&[]).expect("runs");
        machine.run(&[]).expect("runs again");
        let end = machine.field(field);
        assert_eq!(end, Ok(f32s(&[14.0, 4.0, 4.0, 2.5])), "{order:?}");
    }
}
