//! Traces: memory, hash-consing, threads, drawings, generic code.

use num_traits::Float;
use wuji_symbolic::{Real, Sym, Trace};

fn chain(n: usize) -> Trace {
    Trace::record(&[n], |x| {
        let mut values = vec![Sym::new(0.0)];
        for k in 1..n {
            values.push(x[0][k] * x[0][k - 1] + Real::sin(values[k - 1]));
        }
        vec![values]
    })
    .unwrap()
}

#[test]
fn a_node_takes_at_most_24_bytes() {
    for n in [2_000, 3_333, 20_000, 70_000, 100_000] {
        let statistics = chain(n).statistics();
        let per_node = statistics.bytes as f64 / statistics.nodes as f64;
        assert!(
            per_node <= 24.0,
            "{per_node} bytes for each of {} nodes",
            statistics.nodes
        );
    }
}

#[test]
fn equal_expressions_are_one_node() {
    let trace = Trace::record(&[2], |x| {
        let (a, b) = (x[0][0], x[0][1]);
        vec![vec![a * b + a, a + b * a, (a - b) * 1.0, -(-(a - b))]]
    })
    .unwrap();
    let output = &trace.outputs()[0];
    assert_eq!(output[0], output[1]);
    assert_eq!(output[2], output[3]);
}

#[test]
fn constants_are_folded_without_a_trace() {
    let half = Sym::new(1.0) / 2.0;
    assert_eq!(half.as_const(), Some(0.5));
    assert!(half < Sym::new(1.0) && half == Sym::new(0.5));
    assert_eq!(Real::sqrt(Sym::new(9.0)).as_const(), Some(3.0));
}

fn norm<F: Float>(x: &[F]) -> F {
    x.iter().fold(F::zero(), |sum, x| sum + x.powi(2)).sqrt()
}

#[test]
fn code_written_against_num_traits_is_traced() {
    let trace = Trace::record(&[3], |x| {
        vec![vec![
            norm(&x[0]),
            Float::signum(x[0][0]),
            Float::hypot(x[0][0], x[0][1]),
        ]]
    })
    .unwrap();
    let found = trace.evaluate(&[&[-2.0, 3.0, 6.0]]).unwrap();
    assert_eq!(found[0], [7.0, -1.0, 13f64.sqrt()]);
}

#[test]
fn parts_are_recorded_on_threads_of_their_own() {
    let part =
        |part: usize, x: &[Vec<Sym>]| vec![vec![x[0][part] * x[0][2] + x[0][2], x[0][2] * 2.0]];
    let whole = Trace::record_parallel(&[3], 2, part).unwrap();
    let serial = Trace::record(&[3], |x| [part(0, x), part(1, x)].concat()).unwrap();
    assert_eq!(whole.arena().len(), serial.arena().len());
    let x = [1.0, 2.0, 3.0];
    assert_eq!(
        whole.evaluate(&[&x]).unwrap(),
        serial.evaluate(&[&x]).unwrap()
    );
}

#[test]
fn traces_can_be_nested() {
    let outer = Trace::record(&[1], |x| {
        let inner = Trace::record(&[1], |y| vec![vec![y[0][0] + 1.0]]).unwrap();
        let two = inner.evaluate(&[&[1.0]]).unwrap()[0][0];
        vec![vec![x[0][0] * two]]
    })
    .unwrap();
    assert_eq!(outer.evaluate(&[&[5.0]]).unwrap(), [[10.0]]);
}

#[test]
fn small_traces_are_drawn() {
    let trace = Trace::record(&[2], |x| vec![vec![x[0][0] * x[0][1] - 0.5]]).unwrap();
    expect_test::expect![[r#"
        digraph trace {
          n0 [label="x0[0]"];
          n1 [label="x0[1]"];
          n2 [label="mul"];
          n0 -> n2;
          n1 -> n2;
          n3 [label="-0.5"];
          n4 [label="add"];
          n2 -> n4;
          n3 -> n4;
          y0_0 [shape=box, label="y0[0]"];
          n4 -> y0_0;
        }
    "#]]
    .assert_eq(&trace.dot().unwrap());
    expect_test::expect![[r#"
        5 nodes in 45 bytes, depth 2, 2 inputs, 1 outputs
                   1 const
                   2 input
                   1 add
                   1 mul
    "#]]
    .assert_eq(&trace.statistics().to_string());
}

#[test]
fn fingerprints_differ() {
    let of = |c: f64| {
        Trace::record(&[1], |x| vec![vec![x[0][0] * c]])
            .unwrap()
            .fingerprint()
    };
    assert_eq!(of(2.0), of(2.0));
    assert_ne!(of(2.0), of(3.0));
}
