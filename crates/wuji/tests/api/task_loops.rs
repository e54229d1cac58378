//! Control flow around parallel loops: a `for` under a `while` or an `if` whose iterations are independent.

use crate::backend;
use expect_test::expect;
use std::time::{Duration, Instant};
use wuji::Result;
use wuji::prelude::*;

const N: i32 = 20_000;

fn world() -> World {
    backend::builder().build().unwrap()
}

/// Conjugate gradients for a matrix with 2.1 on the diagonal and -1 beside it.
#[kernel]
fn solve(
    x: &Field<f64, 1>,
    r: &Field<f64, 1>,
    p: &Field<f64, 1>,
    ap: &Field<f64, 1>,
    tolerance: f64,
) -> i32 {
    let mut rounds = 0;
    let mut rr = 0.0f64;
    for i in 0..N {
        p[[i]] = r[[i]];
        rr += r[[i]] * r[[i]];
    }
    while rr > tolerance * tolerance && rounds < 500 {
        let mut pap = 0.0f64;
        for i in 0..N {
            ap[[i]] = 2.1 * p[[i]] - p[[i - 1]] - p[[i + 1]];
            pap += p[[i]] * ap[[i]];
        }
        let alpha = rr / pap;
        let mut next = 0.0f64;
        for i in 0..N {
            x[[i]] += alpha * p[[i]];
            r[[i]] -= alpha * ap[[i]];
            next += r[[i]] * r[[i]];
        }
        let beta = next / rr;
        for i in 0..N {
            p[[i]] = r[[i]] + beta * p[[i]];
        }
        rr = next;
        rounds += 1;
    }
    rounds
}

#[test]
fn an_iterative_solver_is_one_kernel() -> Result<()> {
    let w = world();
    let [x, r, p, ap] = ["x", "r", "p", "ap"].map(|name| w.field::<f64, 1>(name, N as usize));
    let (x, r, p, ap) = (x?, r?, p?, ap?);
    let b: Vec<f64> = (0..N).map(|i| f64::from(i % 17) - 3.0).collect();
    r.copy_from(&b)?;
    let rounds = solve(&x, &r, &p, &ap, 1e-9)?;
    assert!((20..200).contains(&rounds), "{rounds}");
    let x = x.to_vec()?;
    let at = |i: i32| {
        let inside = usize::try_from(i).ok().and_then(|i| x.get(i));
        inside.copied().unwrap_or(0.0)
    };
    for (i, b) in (0..N).zip(&b) {
        let residual = b - (2.1 * at(i) - at(i - 1) - at(i + 1));
        assert!(residual.abs() < 1e-7, "{i}: {residual}");
    }
    let serial = w.explain();
    let serial: Vec<String> = (serial.iter().map(ToString::to_string))
        .filter(|l| l.contains("one thread:"))
        .collect();
    assert!(serial.is_empty(), "{serial:?}");
    Ok(())
}

/// Every kind of jump: `continue`, `break`, `return`, nested loops, branches with results.
#[kernel]
fn jumps(x: &Field<i32, 1>, stop: i32, leave: i32) -> i32 {
    let mut rounds = 0;
    let mut weight = 1;
    let mut last;
    'outer: loop {
        rounds += 1;
        if rounds % 3 == 0 {
            continue;
        }
        weight = if rounds % 2 == 0 {
            for i in 0..N {
                x[[i]] += weight;
            }
            weight + 1
        } else {
            weight
        };
        let mut inner = 0;
        while inner < rounds {
            let mut largest = i32::MIN;
            for i in 0..N {
                if x[[i]] > 2 {
                    largest = largest.max(x[[i]] + i % 3);
                }
            }
            last = largest;
            inner += 2;
            if inner == leave {
                return -last;
            }
            if inner + rounds == stop {
                break 'outer;
            }
        }
    }
    for i in 0..N {
        x[[i]] += 100;
    }
    last
}

/// What `jumps` does, on the host; the result and an element.
fn jumps_on_host(stop: i32, leave: i32) -> (i32, i32) {
    let (mut x, mut rounds, mut weight) = (0, 0, 1);
    let mut last;
    'outer: loop {
        rounds += 1;
        if rounds % 3 == 0 {
            continue;
        }
        if rounds % 2 == 0 {
            x += weight;
            weight += 1;
        }
        let mut inner = 0;
        while inner < rounds {
            last = if x > 2 { x + 2 } else { i32::MIN };
            inner += 2;
            if inner == leave {
                return (last.wrapping_neg(), x);
            }
            if inner + rounds == stop {
                break 'outer;
            }
        }
    }
    (last, x + 100)
}

#[test]
fn every_kind_of_jump() -> Result<()> {
    let w = world();
    let x = w.field::<i32, 1>("x", N as usize)?;
    for (stop, leave) in [(6, -1), (12, -1), (20, -1), (100, 6), (100, 16), (100, 2)] {
        x.fill(0)?;
        let result = jumps(&x, stop, leave)?;
        let (expected, element) = jumps_on_host(stop, leave);
        assert_eq!(result, expected, "{stop} {leave}");
        assert!(x.to_vec()?.iter().all(|v| *v == element), "{stop} {leave}");
    }
    Ok(())
}

/// Bounds that only the launch knows, and arrays.
#[kernel]
fn rounds_of(x: &NdArray<f32, 1>, n: i32, rounds: i32) -> f32 {
    let mut k = 0;
    let mut sum = 0.0f32;
    while k < rounds {
        for i in 0..n {
            x[[i]] += 1.0;
        }
        sum = 0.0;
        for i in 0..n {
            sum += x[[i]];
        }
        k += 1;
    }
    sum
}

#[test]
fn the_launch_knows_how_long_a_loop_is() -> Result<()> {
    let w = world();
    for (n, rounds) in [(0, 5), (3, 4), (5000, 3), (100_000, 2)] {
        let x = w.nd_array::<f32, 1>("x", [100_000])?;
        let sum = rounds_of(&x, n, rounds)?;
        assert_eq!(sum, (n * rounds) as f32, "{n} {rounds}");
        let values = x.to_vec()?;
        let (inside, outside) = values.split_at(n as usize);
        assert!(inside.iter().all(|v| *v == rounds as f32));
        assert!(outside.iter().all(|v| *v == 0.0));
    }
    Ok(())
}

/// A sum over two axes, some terms of which do not count.
#[kernel]
fn energy(x: &Field<f64, 2>, rounds: i32) -> f64 {
    let mut k = 0;
    let (mut sum, mut count) = (0.0f64, 0);
    while k < rounds {
        sum = 1.0;
        count = 0;
        for [i, j] in x {
            let v = x[[i, j]];
            x[[i, j]] = 0.5 * v;
            sum += v;
            if v > 1.0 {
                count += 1;
            }
        }
        k += 1;
    }
    sum + f64::from(count)
}

#[test]
fn sums_over_two_axes() -> Result<()> {
    let w = world();
    let x = w.field::<f64, 2>("x", [170, 190])?;
    let values: Vec<f64> = (0..170 * 190).map(|i| f64::from(i % 37) * 0.25).collect();
    x.copy_from(&values)?;
    let found = energy(&x, 3)?;
    let term = |v: f64| if v > 1.0 { v + 1.0 } else { v };
    let expected = 1.0 + values.iter().map(|v| term(0.25 * v)).sum::<f64>();
    assert!(
        (found - expected).abs() < 1e-9 * expected,
        "{found} {expected}"
    );
    assert!(
        !w.explain()
            .iter()
            .any(|r| r.to_string().contains("one thread:"))
    );
    Ok(())
}

/// A serial loop around a stencil.
#[kernel]
fn smooth(x: &Field<f32, 2>, y: &Field<f32, 2>, rounds: i32) {
    for k in serial(0..rounds) {
        if k % 2 == 0 {
            for [i, j] in x {
                y[[i, j]] = 0.25 * (x[[i - 1, j]] + x[[i + 1, j]] + x[[i, j - 1]] + x[[i, j + 1]]);
            }
        } else {
            for [i, j] in x {
                x[[i, j]] = 0.25 * (y[[i - 1, j]] + y[[i + 1, j]] + y[[i, j - 1]] + y[[i, j + 1]]);
            }
        }
    }
}

#[kernel]
fn smooth_once(x: &Field<f32, 2>, y: &Field<f32, 2>) {
    for [i, j] in x {
        y[[i, j]] = 0.25 * (x[[i - 1, j]] + x[[i + 1, j]] + x[[i, j - 1]] + x[[i, j + 1]]);
    }
}

#[test]
fn a_serial_loop_around_a_stencil() -> Result<()> {
    for lazy in [false, true] {
        let w = backend::builder().lazy(lazy).build()?;
        let fields = ["x", "y", "u", "v"].map(|name| w.field::<f32, 2>(name, [96, 130]));
        let [x, y, u, v] = fields;
        let (x, y, u, v) = (x?, y?, u?, v?);
        let start: Vec<f32> = (0..96 * 130).map(|i| (i % 23) as f32).collect();
        x.copy_from(&start)?;
        u.copy_from(&start)?;
        smooth(&x, &y, 10)?;
        for _ in 0..5 {
            smooth_once(&u, &v)?;
            smooth_once(&v, &u)?;
        }
        assert_eq!(x.to_vec()?, u.to_vec()?);
        assert_eq!(y.to_vec()?, v.to_vec()?);
    }
    Ok(())
}

/// Sums stay in order where that is promised.
#[kernel]
fn sum_in_while(x: &Field<f32, 1>) -> f32 {
    let mut k = 0;
    let mut sum = 0.0f32;
    while k < 2 {
        for i in 0..N {
            sum += x[[i]];
        }
        k += 1;
    }
    sum
}

#[test]
fn strict_sums_stay_in_order() -> Result<()> {
    let b = backend::builder;
    for (builder, math) in [(b().math(Math::Strict), true), (b(), false)] {
        let w = builder.build()?;
        let x = w.field::<f32, 1>("x", N as usize)?;
        let values: Vec<f32> = (0..N).map(|i| 1.0 / (1 + i % 1000) as f32).collect();
        x.copy_from(&values)?;
        let sum = sum_in_while(&x)?;
        let in_order = values.iter().chain(&values).sum::<f32>();
        let exact: f64 = 2.0 * values.iter().map(|v| f64::from(*v)).sum::<f64>();
        if math {
            assert_eq!(sum, in_order);
        }
        assert!(
            (f64::from(sum) - exact).abs() < 1e-4 * exact,
            "{sum} {exact}"
        );
    }
    Ok(())
}

/// Serial code between parallel loops prints and checks.
#[kernel]
fn checked(x: &Field<i32, 1>, limit: i32) -> i32 {
    let mut k = 0;
    while k < 10 {
        for i in 0..N {
            x[[i]] += 1;
        }
        println!("round {}", k);
        assert!(k < limit, "round {} is too much", k);
        k += 1;
    }
    k
}

#[test]
fn serial_code_between_loops_prints_and_fails() -> Result<()> {
    let w = world();
    let lines = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
    let said = lines.clone();
    w.on_print(move |text| said.lock().unwrap().push_str(text));
    let x = w.field::<i32, 1>("x", N as usize)?;
    assert_eq!(checked(&x, 100)?, 10);
    let text: String = (0..10).map(|k| format!("round {k}\n")).collect();
    assert_eq!(*lines.lock().unwrap(), text);
    lines.lock().unwrap().clear();
    x.fill(0)?;
    let error = checked(&x, 3).and_then(|_| w.synchronize()).unwrap_err();
    assert!(error.to_string().contains("round 3 is too much"), "{error}");
    assert_eq!(x.get([7])?, 4);
    assert_eq!(
        *lines.lock().unwrap(),
        "round 0\nround 1\nround 2\nround 3\n"
    );
    Ok(())
}

#[kernel]
fn forever(x: &Field<i32, 1>) {
    let mut k = 0;
    while k < 1 {
        for i in 0..N {
            x[[i]] += 1;
        }
        if x[[0]] < 0 {
            k += 1;
        }
    }
}

#[test]
fn endless_loops_are_stopped() -> Result<()> {
    let limit = Duration::from_millis(200);
    let w = backend::builder().time_limit(limit).build()?;
    let x = w.field::<i32, 1>("x", N as usize)?;
    let begun = Instant::now();
    let error = forever(&x).and_then(|()| w.synchronize()).unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert_eq!(error.code, "W0409", "{error}");
    // The world goes on.
    x.fill(0)?;
    assert_eq!(jumps(&x, 6, -1)?, jumps_on_host(6, -1).0);
    Ok(())
}

/// A Poisson solver on the active cells, as people write it.
#[kernel]
fn conjugate_gradients(
    x: &Field<f32, 2>,
    r: &Field<f32, 2>,
    p: &Field<f32, 2>,
    q: &Field<f32, 2>,
    most: i32,
) -> i32 {
    let mut old = 0.0;
    for [i, j] in x {
        x[[i, j]] = 0.0;
        r[[i, j]] = 1.0;
        p[[i, j]] = 1.0;
        old += 1.0;
    }
    let mut rounds = 0;
    while rounds < most && old > 1e-6 {
        let mut curvature = 0.0;
        for [i, j] in p {
            let around = p[[i - 1, j]] + p[[i + 1, j]] + p[[i, j - 1]] + p[[i, j + 1]];
            q[[i, j]] = 5.0 * p[[i, j]] - around;
            curvature += p[[i, j]] * q[[i, j]];
        }
        let alpha = old / curvature;
        let mut new = 0.0;
        for [i, j] in p {
            x[[i, j]] += alpha * p[[i, j]];
            r[[i, j]] -= alpha * q[[i, j]];
            new += r[[i, j]] * r[[i, j]];
        }
        let beta = new / old;
        old = new;
        for [i, j] in p {
            p[[i, j]] = r[[i, j]] + beta * p[[i, j]];
        }
        rounds += 1;
    }
    rounds
}

#[test]
fn active_elements_are_visited_inside_of_control_flow() -> Result<()> {
    let world = world();
    let (x, r, p, q) = world.layout(|root| {
        let cell = root.pointer(IJ, 8).dense(IJ, 8);
        let place = |name| cell.place::<f32, 2>(name);
        (place("x"), place("r"), place("p"), place("q"))
    })?;
    for [i, j] in [[3, 5], [20, 20], [21, 50]] {
        x.set([i, j], 1.0)?;
    }
    let rounds = conjugate_gradients(&x, &r, &p, &q, 100)?;
    assert!((5..40).contains(&rounds), "{rounds}");
    // What lies in a block without active cells is zero.
    let at = |i: i32, j: i32| x.get([i, j]).unwrap_or(0.0);
    let left = 5.0 * at(20, 20) - at(19, 20) - at(21, 20) - at(20, 19) - at(20, 21);
    assert!((left - 1.0).abs() < 1e-3, "{left}");
    Ok(())
}

#[kernel]
fn range_of(x: &Field<i32, 1>, rounds: i32) -> IVec2 {
    let mut range = ivec2(0, 0);
    let mut shift: i32 = -1;
    for _ in serial(0..rounds) {
        shift += 1;
        let (mut low, mut high) = (i32::MAX, i32::MIN);
        for [i] in x {
            low = low.min(x[[i]] + shift.abs());
            high = high.max(x[[i]] - shift.abs());
        }
        range = ivec2(low, high);
    }
    range
}

#[test]
fn extremes_of_active_elements() -> Result<()> {
    let world = world();
    let x = world.layout(|root| root.pointer(I, 8).bitmasked(I, 8).place::<i32, 1>("x"))?;
    for (i, value) in [(3, -7), (20, 5), (63, 30)] {
        x.set(i, value)?;
    }
    assert_eq!(range_of(&x, 3)?, ivec2(-5, 28));
    Ok(())
}

#[kernel]
fn assigns(x: &Field<i32, 1>, n: i32) -> i32 {
    let mut last = 0;
    if n > 0 {
        for [i] in x {
            last = i;
        }
    }
    last
}

#[kernel]
fn reads_the_sum(x: &Field<i32, 1>, n: i32) -> i32 {
    let mut sum = 0;
    if n > 0 {
        for [i] in x {
            sum += i;
            x[[i]] = sum;
        }
    }
    sum
}

#[kernel]
fn reads_a_sum_again(x: &Field<i32, 1>, n: i32) -> i32 {
    let mut sum = 0;
    for [i] in x {
        sum += i;
    }
    if n > 0 {
        for [i] in x {
            sum += i;
            x[[i]] = sum;
        }
    }
    sum
}

/// Two copies of a loop with variables of its own.
#[kernel]
fn unrolled(x: &Field<i32, 1>, n: i32) -> i32 {
    let mut total = 0;
    if n > 0 {
        for k in unroll(1..=2) {
            for [i] in x {
                let mut value = i;
                value *= k;
                let mut parts = [value; 2];
                parts[1] = k;
                value = parts[0] + parts[1];
                total += value;
            }
        }
    }
    total
}

#[test]
fn copies_of_a_loop_over_active_elements() -> Result<()> {
    let world = world();
    let x = world.layout(|root| root.pointer(I, 8).bitmasked(I, 8).place::<i32, 1>("x"))?;
    for i in [3, 20] {
        x.set(i, 1)?;
    }
    assert_eq!(unrolled(&x, 1)?, 23 + 2 + 46 + 4);
    assert_eq!(unrolled(&x, 0)?, 0);
    Ok(())
}

#[kernel]
fn stops_early(x: &Field<i32, 1>, n: i32) {
    for _ in serial(0..n) {
        for [i] in x {
            if i > 3 {
                break;
            }
        }
    }
}

#[kernel]
fn leaves_the_outer_loop(x: &Field<i32, 1>, n: i32) {
    'rounds: for _ in serial(0..n) {
        for [i] in x {
            if i > 3 {
                continue 'rounds;
            }
        }
    }
}

#[func]
fn raise(n: &mut i32) {
    *n += 1;
}

#[kernel]
fn lends(x: &Field<i32, 1>, n: i32) -> i32 {
    let mut count = 0;
    if n > 0 {
        for [_] in x {
            raise(&mut count);
        }
    }
    count
}

#[kernel]
fn changes_an_array(x: &Field<i32, 1>, n: i32) -> i32 {
    let mut counts = [0; 4];
    if n > 0 {
        for [i] in x {
            counts[i % 4] += 1;
        }
    }
    counts[0]
}

#[kernel]
fn draws(x: &Field<f32, 1>, n: i32) {
    if n > 0 {
        for [i] in x {
            x[[i]] = random();
        }
    }
}

#[test]
fn what_iterations_over_active_elements_cannot_share() -> Result<()> {
    let world = world();
    let x = world.layout(|root| root.pointer(I, 8).dense(I, 8).place::<i32, 1>("x"))?;
    let y = world.layout(|root| root.pointer(I, 8).dense(I, 8).place::<f32, 1>("y"))?;
    let mut found = String::new();
    let results = [
        assigns(&x, 1).map(|_| ()),
        reads_the_sum(&x, 1).map(|_| ()),
        reads_a_sum_again(&x, 1).map(|_| ()),
        stops_early(&x, 1),
        leaves_the_outer_loop(&x, 1),
        lends(&x, 1).map(|_| ()),
        changes_an_array(&x, 1).map(|_| ()),
        draws(&y, 1),
    ];
    for result in results {
        let Err(error) = result else {
            found += "no error\n";
            continue;
        };
        found += &format!("error[{}]: {}\n", error.code, error.message);
    }
    expect![[r#"
        error[W0252]: the iterations of a loop over a sparse field run at once, so they cannot change `last`, which all of them share
        error[W0252]: `sum` is being summed up by this loop over a sparse field: its value is known after the loop
        error[W0252]: `sum` is being summed up by this loop over a sparse field: its value is known after the loop
        error[W0252]: a loop over a sparse field cannot be left in the middle: its iterations run at once
        error[W0252]: a loop over a sparse field cannot be left in the middle: its iterations run at once
        error[W0252]: the iterations of a loop over a sparse field run at once, so they cannot change `count`, which all of them share
        error[W0252]: the iterations of a loop over a sparse field run at once, so they cannot change `counts`, which all of them share
        error[W0252]: a loop over a sparse field inside of control flow neither draws random numbers nor prints nor calls recursive functions
    "#]].assert_eq(&found);
    Ok(())
}
