//! All tiers of a kernel give the same bits.

use wuji::prelude::*;

/// Everything that a compiler might fuse, reassociate or approximate in one tier and not in the other.
#[kernel]
fn arithmetic(x: &Field<f32, 1>, y: &Field<f32, 2>) {
    for [i] in x {
        let a = x[[i]];
        let b = x[[(i * 7) % 4096]];
        y[[0, i]] = a * b + a * a - b;
        y[[1, i]] = a / b + 1.0 / b + (a + b) / b;
        y[[2, i]] = a / 3.0 * 0.7 * 0.3;
        y[[3, i]] = (a * a + b * b).rsqrt();
        y[[4, i]] = a.sqrt() * b.sqrt() - (a * b).sqrt();
        let mut sum = 0.0;
        for k in 0..20 {
            sum += x[[k]] * a / b;
        }
        y[[5, i]] = sum;
    }
}

#[kernel]
fn functions(x: &Field<f32, 1>, y: &Field<f32, 2>) {
    for [i] in x {
        let a = x[[i]];
        let b = x[[(i * 7) % 4096]];
        y[[0, i]] = a.sin() + a.cos();
        y[[1, i]] = (-a).exp();
        y[[2, i]] = a.powf(b);
        y[[3, i]] = a.atan2(b);
        y[[4, i]] = a.tanh() + (a + 1.0).ln();
        y[[5, i]] = a.powf(0.5);
    }
}

type Run = fn(&Field<f32, 1>, &Field<f32, 2>) -> wuji::Result<()>;

fn bits(run: Run, math: Math, tier: Tier) -> Vec<u32> {
    let world = World::builder().math(math).tier(tier).build().unwrap();
    let x = world.field::<f32, 1>("x", [4096]).unwrap();
    let y = world.field::<f32, 2>("y", [6, 4096]).unwrap();
    let values: Vec<f32> = (0..4096).map(|i| 0.01 + i as f32 * 0.003_17).collect();
    x.copy_from(&values).unwrap();
    run(&x, &y).unwrap();
    y.to_vec().unwrap().iter().map(|v| v.to_bits()).collect()
}

#[test]
fn all_tiers_round_alike() {
    for run in [arithmetic as Run, functions] {
        for math in [Math::Strict, Math::Contract, Math::Fast] {
            let best = bits(run, math, Tier::Best);
            for tier in [Tier::Fast, Tier::Scalar] {
                let other = bits(run, math, tier);
                let differ = other.iter().zip(&best).filter(|(a, b)| a != b).count();
                assert_eq!(differ, 0, "{math:?} {tier:?}");
            }
        }
    }
}
