//! Deterministic worlds give the same bits from run to run and for any number of threads.

use expect_test::{Expect, expect};
use wuji::Result;
use wuji::prelude::*;

/// The bits that a test leaves are the same for any number of threads, and twice in a row.
fn same_everywhere(test: impl Fn(&World) -> Result<Vec<u64>>) {
    let mut first: Option<Vec<u64>> = None;
    for threads in [1, 2, 3, 8, 2, 8] {
        let world = World::builder().threads(threads).deterministic(true);
        let bits = test(&world.build().unwrap()).unwrap_or_else(|e| panic!("{threads}: {e}"));
        assert!(bits.iter().any(|b| *b != 0));
        match &first {
            None => first = Some(bits),
            Some(first) => assert!(*first == bits, "{threads} threads"),
        }
    }
}

/// Numbers whose sums depend on the order.
fn noise(i: i64) -> f32 {
    let x = (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    (x as f32 / (1 << 24) as f32 - 0.5) * [1.0, 1e3, 1e-3][i as usize % 3]
}

const N: i64 = 30_001;

fn numbers(w: &World) -> Result<Field<f32, 1>> {
    let x = w.field::<f32, 1>("x", [N])?;
    x.copy_from(&(0..N).map(noise).collect::<Vec<_>>())?;
    Ok(x)
}

#[kernel]
fn scatter(x: &Field<f32, 1>, y: &Field<f32, 1>, low: &Field<f64, 1>) {
    for [i] in x {
        y[[i * 7 % 101]] += x[[i]];
        y[[i % 100 + 1]] -= x[[i]] * 0.3;
        low.at([i % 5]).fetch_min(x[[i]] as f64);
    }
}

#[test]
fn scatters() {
    same_everywhere(|w| {
        let (x, y) = (numbers(w)?, w.field::<f32, 1>("y", [101])?);
        let low = w.field::<f64, 1>("low", [5])?;
        for _ in 0..3 {
            scatter(&x, &y, &low)?;
        }
        let y = y.to_vec()?.into_iter().map(|v| u64::from(v.to_bits()));
        let low = low.to_vec()?.into_iter().map(f64::to_bits);
        Ok(y.chain(low).collect())
    });
}

#[kernel]
fn sums(x: &Field<f32, 1>, total: &Field<f64, 1>) -> (f32, f32, i32) {
    let mut sum = 0.0;
    let mut most = -1e9;
    let mut positive = 0;
    for [i] in x {
        sum += x[[i]];
        most = most.max(x[[i]]);
        if x[[i]] > 0.0 {
            positive += 1;
        }
        total[[0]] += (x[[i]] * x[[i]]) as f64;
    }
    (sum, most, positive)
}

#[test]
fn reductions() {
    same_everywhere(|w| {
        let (x, total) = (numbers(w)?, w.field::<f64, 1>("total", [1])?);
        let (sum, most, positive) = sums(&x, &total)?;
        let expected: f64 = (0..N).map(|i| f64::from(noise(i))).sum();
        assert!((f64::from(sum) - expected).abs() < 1.0);
        Ok(vec![
            u64::from(sum.to_bits()),
            u64::from(most.to_bits()),
            positive as u64,
            total.get([0])?.to_bits(),
        ])
    });
}

#[kernel]
fn spread(x: &Field<f32, 1>, large: &Field<f32, 1>) {
    for [i] in x {
        large[[i * 31 % 1000003]] += x[[i]];
        large[[(i + 5) * 31 % 1000003]] += x[[i]] * 0.1;
    }
}

#[test]
fn targets_too_large_for_copies() {
    same_everywhere(|w| {
        let (x, large) = (numbers(w)?, w.field::<f32, 1>("large", [1_000_003])?);
        spread(&x, &large)?;
        spread(&x, &large)?;
        let all = large.to_vec()?;
        Ok(all.into_iter().map(|v| u64::from(v.to_bits())).collect())
    });
}

#[kernel]
fn fill_cells(x: &Field<f32, 1>, y: &Field<f32, 2>) {
    for [i] in x {
        y[[i * 13 % 256, i * 29 % 256]] += x[[i]];
        y[[i * 17 % 256, 3]] += x[[i]] * 0.7;
    }
}

#[kernel]
fn gather_cells(y: &Field<f32, 2>, z: &Field<f32, 1>) -> f32 {
    let mut sum = 0.0;
    for [i, j] in y {
        sum += y[[i, j]] * 1.1;
        z[[(i + j) % 17]] += y[[i, j]];
    }
    sum
}

/// Fills a sparse field, loops over it, takes part of it away and does it again.
fn sparse(w: &World, y: &Field<f32, 2>) -> Result<Vec<u64>> {
    let (x, z) = (numbers(w)?, w.field::<f32, 1>("z", [17])?);
    let mut bits = Vec::new();
    for _ in 0..2 {
        fill_cells(&x, y)?;
        bits.push(u64::from(gather_cells(y, &z)?.to_bits()));
        bits.extend(z.to_vec()?.into_iter().map(|v| u64::from(v.to_bits())));
        bits.push(u64::from(y.get([13, 29])?.to_bits()));
        let window = y.active()?;
        bits.extend(window.iter().flatten().map(|c| *c as u64));
    }
    Ok(bits)
}

#[test]
fn sparse_loops() {
    same_everywhere(|w| {
        let y = w.layout(|root| {
            let block = root.pointer(IJ, 32).bitmasked(IJ, 8);
            block.place::<f32, 2>("y")
        })?;
        sparse(w, &y)
    });
    same_everywhere(|w| {
        let y = w.layout(|root| {
            let block = root.pointer(IJ, 64).dense(IJ, 4);
            block.place::<f32, 2>("y")
        })?;
        sparse(w, &y)
    });
    same_everywhere(|w| {
        let y = w.layout(|root| root.hash(IJ).dense(IJ, 4).place::<f32, 2>("y"))?;
        sparse(w, &y)
    });
}

#[kernel]
fn smooth(x: &Field<f32, 1>, y: &Field<f32, 1>) {
    for [i] in x {
        let a = x[[i - 1]] * 0.3 + x[[i]] * 0.7 + x[[i + 1]] * 1.3;
        y[[i]] = a * a - x[[i]] * 0.9 + a.sin();
    }
}

#[test]
fn element_by_element() {
    same_everywhere(|w| {
        let (x, y) = (numbers(w)?, w.field::<f32, 1>("y", [N])?);
        for _ in 0..4 {
            smooth(&x, &y)?;
            smooth(&y, &x)?;
        }
        let all = y.to_vec()?;
        Ok(all.into_iter().map(|v| u64::from(v.to_bits())).collect())
    });
}

fn refused(outcome: Result<()>, expected: Expect) {
    let error = outcome.unwrap_err();
    expected.assert_eq(&format!(
        "{}: {}\n{}",
        error.code,
        error.message,
        error.notes.join("\n")
    ));
}

#[kernel]
fn old_float(x: &Field<f32, 1>, y: &Field<f32, 1>, z: &Field<f32, 1>) {
    for [i] in x {
        y[[i]] = z.at([0]).fetch_add(x[[i]]);
    }
}

#[kernel]
fn own_old_float(x: &Field<f32, 1>, y: &Field<f32, 1>) {
    for [i] in x {
        y[[i]] = x.at([i]).fetch_add(1.0);
    }
}

#[kernel]
fn push(x: &Field<f32, 1>, list: &Field<f32, 2>) {
    for [i] in x {
        list.append(i % 4, x[[i]]);
    }
}

#[kernel]
fn ticket(x: &Field<f32, 1>, next: &Field<i32, 1>) {
    for [i] in x {
        let k = next.at([0]).fetch_add(1);
        x[[i]] = k as f32;
    }
}

#[test]
fn order_dependent_results_are_rejected() {
    let w = World::builder().deterministic(true).build().unwrap();
    let (x, y) = (numbers(&w).unwrap(), numbers(&w).unwrap());
    let z = w.field::<f32, 1>("z", [1]).unwrap();
    refused(
        old_float(&x, &y, &z),
        expect![[r#"
        W0340: the old value of an atomic on `z` depends on the order of iterations
        in a deterministic world no result may depend on it"#]],
    );
    own_old_float(&x, &y).unwrap();
    let next = w.field::<i32, 1>("next", [1]).unwrap();
    refused(
        ticket(&x, &next),
        expect![[r#"
        W0340: the old value of an atomic on `next` depends on the order of iterations
        in a deterministic world no result may depend on it"#]],
    );
    let list = w.layout(|root| root.dense(I, 4).dynamic(J, 1 << 16).place::<f32, 2>("list"));
    refused(
        push(&x, &list.unwrap()),
        expect![[r#"
        W0341: the index that an append to `list` returns depends on the order of iterations
        in a deterministic world no result may depend on it"#]],
    );
}
