//! Loops whose lanes diverge, and functions: vector code against scalar code of the same kernel.

use wuji::prelude::*;

use super::{Form, Forms};
use crate::case::{Contender, launches, noise};

pub(super) fn all() -> Vec<Forms> {
    vec![
        program("forms primes", "below 10^6", |w| {
            integers(w, 1_000_000, primes)
        }),
        program("forms pow_sin", "2^20", |w| floats(w, 1 << 20, pow_sin)),
        program("forms far_sin", "2^20", |w| floats(w, 1 << 20, far_sin)),
        program("forms far_exp", "2^20", |w| floats(w, 1 << 20, far_exp)),
        program("forms sort_vector", "2^16 x 16", |w| {
            floats(w, 1 << 20, sort_vector)
        }),
        program("forms sort16", "2^16 x 16", |w| floats(w, 1 << 20, sort16)),
        program("forms collatz", "2^20", |w| integers(w, 1 << 20, collatz)),
        program("forms search", "2^20 in 2^20", |w| {
            let keys = w.field::<i32, 1>("keys", [1 << 20])?;
            let sorted: Vec<i32> = (0..1 << 20).map(|i| 3 * i).collect();
            keys.copy_from(&sorted)?;
            integers(w, 1 << 20, move |out| search(out, &keys, 1 << 20))
        }),
        program("forms gcd", "2^20", |w| integers(w, 1 << 20, gcd)),
        program("forms spheres", "1024x1024", |w| {
            floats(w, 1 << 20, spheres)
        }),
    ]
}

/// Scalar code of the kernel is the reference: whichever the compiler chooses, it must not be slower.
fn program(
    name: &'static str,
    size: &'static str,
    make: fn(&World) -> wuji::Result<Box<dyn Contender>>,
) -> Forms {
    let form = |name, without| Form {
        name,
        without,
        make,
    };
    Forms {
        name,
        size,
        metric: "1/s",
        work: 1.0,
        tolerance: 1e-4,
        forms: vec![form("scalar", &["vectorize"]), form("chosen", &[])],
    }
}

fn integers(
    world: &World,
    n: usize,
    run: impl Fn(&Field<i32, 1>) -> wuji::Result<()> + 'static,
) -> wuji::Result<Box<dyn Contender>> {
    let x = world.field::<i32, 1>("x", [n])?;
    let out = x.clone();
    let result = move || Ok(out.to_vec()?.iter().map(|x| *x as f32).collect());
    Ok(launches(move || run(&x), result))
}

fn floats(
    world: &World,
    n: usize,
    run: impl Fn(&Field<f32, 1>, &Field<f32, 1>) -> wuji::Result<()> + 'static,
) -> wuji::Result<Box<dyn Contender>> {
    let x = world.field::<f32, 1>("x", [n])?;
    let y = world.field::<f32, 1>("y", [n])?;
    let start: Vec<f32> = (0..n).map(noise).collect();
    x.copy_from(&start)?;
    let out = y.clone();
    Ok(launches(move || run(&x, &y), move || out.to_vec()))
}

#[kernel]
fn primes(out: &Field<i32, 1>) {
    for [n] in out {
        let mut prime = 1;
        let mut k = 2;
        while k * k <= n {
            if n % k == 0 {
                prime = 0;
                break;
            }
            k += 1;
        }
        out[[n]] = prime;
    }
}

#[kernel]
fn pow_sin(x: &Field<f32, 1>, y: &Field<f32, 1>) {
    for [i] in x {
        y[[i]] = x[[i]].powf(2.3) + (50.0 * x[[i]]).sin();
    }
}

/// Arguments beyond the range that vector functions are made for.
#[kernel]
fn far_sin(x: &Field<f32, 1>, y: &Field<f32, 1>) {
    for [i] in x {
        let z = 1000.0 * x[[i]];
        y[[i]] = z.powf(2.3) * 1e-6 + (50.0 * z).sin();
    }
}

/// Results that are subnormal or zero.
#[kernel]
fn far_exp(x: &Field<f32, 1>, y: &Field<f32, 1>) {
    for [i] in x {
        y[[i]] = (-2500.0 * x[[i]]).exp();
    }
}

#[kernel]
fn sort_vector(x: &Field<f32, 1>, y: &Field<f32, 1>) {
    for i in 0..65536 {
        let mut a = Vector::<f32, 16>::splat(0.0);
        for k in 0..16 {
            a[k] = x[[16 * i + k]];
        }
        for k in 1..16 {
            let key = a[k];
            let mut j = k - 1;
            while j >= 0 && a[j] > key {
                a[j + 1] = a[j];
                j -= 1;
            }
            a[j + 1] = key;
        }
        for k in 0..16 {
            y[[16 * i + k]] = a[k];
        }
    }
}

#[kernel]
fn sort16(x: &Field<f32, 1>, y: &Field<f32, 1>) {
    for i in 0..65536 {
        let mut a = [0.0; 16];
        for k in 0..16 {
            a[k] = x[[16 * i + k]];
        }
        for k in 1..16 {
            let key = a[k];
            let mut j = k - 1;
            while j >= 0 && a[j] > key {
                a[j + 1] = a[j];
                j -= 1;
            }
            a[j + 1] = key;
        }
        for k in 0..16 {
            y[[16 * i + k]] = a[k];
        }
    }
}

#[kernel]
fn collatz(out: &Field<i32, 1>) {
    for [i] in out {
        let mut n = i + 1;
        let mut steps = 0;
        while n != 1 && steps < 1000 {
            n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 };
            steps += 1;
        }
        out[[i]] = steps;
    }
}

#[kernel]
fn search(out: &Field<i32, 1>, keys: &Field<i32, 1>, n: i32) {
    for [i] in out {
        let key = (i * 7919) % (3 * n);
        let mut lo = 0;
        let mut hi = n;
        while lo < hi {
            let mid = (lo + hi) / 2;
            if keys[[mid]] < key {
                lo = mid + 1;
            } else {
                hi = mid;
            }
        }
        out[[i]] = lo;
    }
}

#[kernel]
fn gcd(out: &Field<i32, 1>) {
    for [i] in out {
        let mut a = i * 7919 % 1_000_003;
        let mut b = 720_720;
        while b != 0 {
            let r = a % b;
            a = b;
            b = r;
        }
        out[[i]] = a;
    }
}

#[kernel]
fn spheres(x: &Field<f32, 1>, y: &Field<f32, 1>) {
    for [i] in x {
        let origin = vec3(
            (i % 1024) as f32 / 512.0 - 1.0,
            (i / 1024) as f32 / 512.0 - 1.0,
            -3.0,
        );
        let mut t = 0.0;
        for _step in 0..64 {
            let p = origin + vec3(0.0, 0.0, t);
            let d = (p.norm() - 0.8).min((p - vec3(0.5, 0.5, 0.0)).norm() - 0.4);
            t += d;
            if d < 1e-3 || t > 8.0 {
                break;
            }
        }
        y[[i]] = t;
    }
}
