//! Regions, loops, calls and limits.

use super::*;
use wuji_ir::interp::error;
use wuji_ir::types::{BOOL, I32};

fn for_loop(scalar: Scalar, lo: i128, hi: i128, step: i128) -> Vec<i128> {
    // Prints every index, and counts them in a carried value.
    let mut m = Module::default();
    let show = message(&mut m, "", &[Type::Scalar(scalar)]);
    let m = kernel(m, &[], &[I32], |b, _| {
        let bounds = (b.int(scalar, lo), b.int(scalar, hi), b.int(scalar, step));
        let zero = b.int(Scalar::I32, 0);
        let inst = b.for_range(ForKind::Serial, bounds, &[zero], |b, _, i, carried| {
            b.push(Op::Print(show), &[i]);
            let one = b.int(Scalar::I32, 1);
            smallvec![b.binary(BinOp::Add, carried[0], one)]
        });
        smallvec![b.func.result(inst)]
    });
    let outcome = run(&m, &[]);
    let seen: Vec<i128> = outcome
        .printed
        .iter()
        .map(|p| p.text.parse().expect("a number"))
        .collect();
    let count = outcome.result.expect("a result")[0].as_int();
    assert_eq!(count, Some(seen.len() as i128));
    seen
}

#[test]
fn for_counts_without_wrapping() {
    assert_eq!(for_loop(Scalar::I32, 0, 4, 1), [0, 1, 2, 3]);
    assert_eq!(for_loop(Scalar::I32, 4, 0, 1), []);
    assert_eq!(for_loop(Scalar::I32, 4, 4, -1), []);
    assert_eq!(for_loop(Scalar::I32, 4, 0, -2), [4, 2]);
    assert_eq!(for_loop(Scalar::I32, 4, -1, -2), [4, 2, 0]);
    assert_eq!(for_loop(Scalar::I32, 0, 4, 0), []);
    assert_eq!(for_loop(Scalar::I8, 100, 127, 20), [100, 120]);
    assert_eq!(for_loop(Scalar::I8, -100, -128, -20), [-100, -120]);
    assert_eq!(for_loop(Scalar::U8, 250, 255, 3), [250, 253]);
    let top = i128::from(u64::MAX);
    assert_eq!(for_loop(Scalar::U64, top - 3, top, 2), [top - 3, top - 1]);
    let (low, high) = (i128::from(i64::MIN), i128::from(i64::MAX));
    assert_eq!(for_loop(Scalar::I64, low, high, high), [low, -1, high - 1]);
    assert_eq!(for_loop(Scalar::I64, high, low, low), [high, -1]);
}

/// `for i in 0..10 { if i == stop { break i * 100 } if i is odd { continue } sum += i }`
fn search(stop: i128) -> Vec<Imm> {
    let m = kernel(Module::default(), &[], &[I32], |b, _| {
        let bounds = (
            b.int(Scalar::I32, 0),
            b.int(Scalar::I32, 10),
            b.int(Scalar::I32, 1),
        );
        let zero = b.int(Scalar::I32, 0);
        let inst = b.for_range(ForKind::Serial, bounds, &[zero], |b, label, i, carried| {
            let at = b.int(Scalar::I32, stop);
            let found = b.compare(CmpOp::Eq, i, at);
            let branch = b.push_typed(Op::If, &[found], &[]);
            let yes = b.region(&[], |b, _| {
                let hundred = b.int(Scalar::I32, 100);
                let out = b.binary(BinOp::Mul, i, hundred);
                b.end(Term::Break(label, smallvec![out]));
            });
            let no = b.region(&[], |b, _| b.end(Term::Yield(smallvec![])));
            b.func.insts[branch].regions.extend([yes, no]);
            let one = b.int(Scalar::I32, 1);
            let odd = b.binary(BinOp::And, i, one);
            let odd = b.convert(odd, Scalar::Bool);
            let branch = b.push_typed(Op::If, &[odd], &[]);
            let yes = b.region(&[], |b, _| {
                b.end(Term::Continue(label, smallvec![carried[0]]));
            });
            let no = b.region(&[], |b, _| b.end(Term::Yield(smallvec![])));
            b.func.insts[branch].regions.extend([yes, no]);
            smallvec![b.binary(BinOp::Add, carried[0], i)]
        });
        smallvec![b.func.result(inst)]
    });
    result(&m)
}

#[test]
fn break_and_continue() {
    assert_eq!(search(5), i32s(&[500]));
    assert_eq!(search(99), i32s(&[20]));
}

/// Fibonacci by swapping carried values: a parallel assignment.
#[test]
fn loops_carry_in_parallel() {
    let m = kernel(Module::default(), &[I32], &[I32], |b, p| {
        let (zero, one) = (b.int(Scalar::I32, 0), b.int(Scalar::I32, 1));
        let label = b.func.fresh_label();
        let inst = b.push_typed(Op::Loop(label), &[zero, one, p[0]], &[I32]);
        let region = b.region(&[I32, I32, I32], |b, r| {
            let done = b.compare(CmpOp::Eq, r[2], zero);
            let branch = b.push_typed(Op::If, &[done], &[]);
            let yes = b.region(&[], |b, _| b.end(Term::Break(label, smallvec![r[0]])));
            let no = b.region(&[], |b, _| b.end(Term::Yield(smallvec![])));
            b.func.insts[branch].regions.extend([yes, no]);
            let sum = b.binary(BinOp::Add, r[0], r[1]);
            let left = b.binary(BinOp::Sub, r[2], one);
            b.end(Term::Continue(label, smallvec![r[1], sum, left]));
        });
        b.func.insts[inst].regions.push(region);
        smallvec![b.func.result(inst)]
    });
    assert_eq!(run(&m, &[int(10)]).result, Some(i32s(&[55])));
}

#[test]
fn blocks_yield_or_break() {
    for (leave, expected) in [(true, 1), (false, 2)] {
        let m = kernel(Module::default(), &[BOOL], &[I32], |b, p| {
            let label = b.func.fresh_label();
            let inst = b.push_typed(Op::Block(label), &[], &[I32]);
            let body = b.region(&[], |b, _| {
                let one = b.int(Scalar::I32, 1);
                let two = b.int(Scalar::I32, 2);
                let branch = b.push_typed(Op::If, &[p[0]], &[]);
                let yes = b.region(&[], |b, _| b.end(Term::Break(label, smallvec![one])));
                let no = b.region(&[], |b, _| b.end(Term::Yield(smallvec![])));
                b.func.insts[branch].regions.extend([yes, no]);
                b.end(Term::Yield(smallvec![two]));
            });
            b.func.insts[inst].regions.push(body);
            smallvec![b.func.result(inst)]
        });
        let outcome = run(&m, &[Imm::bool(leave)]);
        assert_eq!(outcome.result, Some(i32s(&[expected])));
    }
}

/// `fn f(n, x) { if n == 0 { return x } return f(n - 1, x + 1) }`, with a local to check that each activation
/// has its own.
fn countdown(m: &mut Module) -> Func {
    let mut f = Function::new("count", &[I32, I32], &[I32]);
    let id = m.add_func(f.clone());
    let p: Vec<Value> = f.params().to_vec();
    let local = f.locals.push(LocalData {
        name: "own".into(),
        ty: I32,
        len: None,
        shared: false,
        role: LocalRole::Variable,
    });
    let mut b = Builder::new(m, &mut f);
    let zero = b.int(Scalar::I32, 0);
    let one = b.int(Scalar::I32, 1);
    let done = b.compare(CmpOp::Eq, p[0], zero);
    let branch = b.push_typed(Op::If, &[done], &[]);
    let yes = b.region(&[], |b, _| b.end(Term::Return(smallvec![p[1]])));
    let no = b.region(&[], |b, _| b.end(Term::Yield(smallvec![])));
    b.func.insts[branch].regions.extend([yes, no]);
    let fresh = b.load(Place::Local(local), &[]);
    b.store(Place::Local(local), &[], one);
    let left = b.binary(BinOp::Sub, p[0], one);
    let more = b.binary(BinOp::Add, p[1], one);
    let more = b.binary(BinOp::Add, more, fresh);
    let out = b.value(Op::Call(id), &[left, more]);
    b.end(Term::Return(smallvec![out]));
    m.funcs[id] = f;
    id
}

#[test]
fn recursion_ends_at_its_limit() {
    let mut m = Module::default();
    let count = countdown(&mut m);
    // Functions that do not recurse do not count.
    let through = function(&mut m, "through", &[I32], &[I32], |b, p| {
        let zero = b.int(Scalar::I32, 0);
        smallvec![b.value(Op::Call(count), &[p[0], zero])]
    });
    let m = kernel(m, &[I32], &[I32], |b, p| {
        smallvec![b.value(Op::Call(through), &[p[0]])]
    });
    let deepest = MAX_CALL_DEPTH as i32 - 1;
    let outcome = run(&m, &[int(deepest)]);
    assert_eq!(outcome.result, Some(i32s(&[deepest])));
    assert!(outcome.reports.is_empty());
    let outcome = run(&m, &[int(deepest + 1)]);
    assert_eq!(outcome.result, None);
    assert_eq!(outcome.reports.len(), 1);
    assert_eq!(outcome.reports[0].kind, SiteKind::TooDeep(count));
}

#[test]
fn deep_recursion_through_deep_regions() {
    // 190 nested blocks around the recursive call would overflow a native stack.
    let mut m = Module::default();
    let mut f = Function::new("deep", &[I32], &[I32]);
    let id = m.add_func(f.clone());
    let param = f.params()[0];
    let mut b = Builder::new(&mut m, &mut f);
    fn nest(b: &mut Builder<'_>, levels: usize, id: Func, param: Value) -> Value {
        if levels == 0 {
            let one = b.int(Scalar::I32, 1);
            let next = b.binary(BinOp::Add, param, one);
            return b.value(Op::Call(id), &[next]);
        }
        let label = b.func.fresh_label();
        let inst = b.push_typed(Op::Block(label), &[], &[I32]);
        let body = b.region(&[], |b, _| {
            let out = nest(b, levels - 1, id, param);
            b.end(Term::Yield(smallvec![out]));
        });
        b.func.insts[inst].regions.push(body);
        b.func.result(inst)
    }
    let out = nest(&mut b, 190, id, param);
    b.end(Term::Return(smallvec![out]));
    m.funcs[id] = f;
    let m = kernel(m, &[], &[I32], |b, _| {
        let zero = b.int(Scalar::I32, 0);
        smallvec![b.value(Op::Call(id), &[zero])]
    });
    let outcome = run(&m, &[]);
    assert_eq!(outcome.reports.len(), 1);
}

#[test]
fn endless_loops_are_stopped() {
    let m = kernel(Module::default(), &[], &[], |b, _| {
        let label = b.func.fresh_label();
        let inst = b.push_typed(Op::Loop(label), &[], &[]);
        let body = b.region(&[], |b, _| b.end(Term::Continue(label, smallvec![])));
        b.func.insts[inst].regions.push(body);
        smallvec![]
    });
    let config = Config {
        max_steps: 1000,
        ..Config::default()
    };
    let stopped = Machine::new(&m, config).and_then(|mut machine| machine.run(&[]));
    assert_eq!(stopped.expect_err("too long").code, error::TOO_LONG);
}

#[test]
fn only_verified_modules_run() {
    let mut m = Module::default();
    let id = m.add_func(Function::new("nothing", &[], &[]));
    m.kernel = Some(id);
    let refused = Machine::new(&m, Config::default()).map(|_| ());
    assert_eq!(refused.expect_err("falls off its end").code, "W0034");
}

#[test]
fn a_failed_assertion_ends_the_kernel() {
    let mut m = Module::default();
    let total = field(&mut m, "total", I32, &[]);
    let why = message(&mut m, "n is ", &[I32]);
    let m = kernel(m, &[I32], &[I32], |b, p| {
        let three = b.int(Scalar::I32, 3);
        b.store(Place::Field(total), &[], three);
        let small = b.compare(CmpOp::Lt, p[0], three);
        b.push(Op::Assert(why), &[small, p[0]]);
        b.store(Place::Field(total), &[], p[0]);
        smallvec![p[0]]
    });
    let mut machine = Machine::new(&m, Config::default()).expect("a machine");
    let outcome = machine.run(&[int(2)]).expect("runs");
    assert_eq!(outcome.result, Some(i32s(&[2])));
    let outcome = machine.run(&[int(5)]).expect("runs");
    assert_eq!(outcome.result, None);
    assert_eq!(outcome.reports[0].kind, SiteKind::Assert(why));
    assert_eq!(outcome.reports[0].values, i32s(&[5]));
    assert_eq!(machine.field(total), Ok(i32s(&[3])));
}

#[test]
fn parameters_must_fit() {
    let m = kernel(Module::default(), &[I32], &[], |_, _| smallvec![]);
    let mut machine = Machine::new(&m, Config::default()).expect("a machine");
    for params in [&[][..], &[f32(1.0)], &[int(1), int(2)]] {
        assert_eq!(
            machine.run(params).expect_err("unfit").code,
            error::BAD_LAUNCH
        );
    }
}
