//! Long sums in loops with few iterations, which several threads of a GPU share.

use crate::backend;
use wuji::Result;
use wuji::prelude::*;

const TERMS: i32 = 5000;

#[kernel]
fn forces(x: &Field<Vec3, 1>, a: &Field<Vec3, 1>, n: i32) {
    for [i] in a {
        let me = x[[i]];
        let mut sum = vec3(1.0, 2.0, 3.0);
        for j in 0..n {
            let d = x[[j]] - me;
            sum += d / (d.norm_sqr() + 1.0);
        }
        a[[i]] = sum;
    }
}

#[kernel]
fn extremes(x: &Field<i32, 1>, out: &Field<IVec3, 1>) {
    for i in 0..100 {
        let (mut sum, mut least, mut most) = (i, i32::MAX, i32::MIN);
        for j in 0..TERMS {
            if x[[j]] % 3 == i % 3 {
                sum += x[[j]] * i;
                least = least.min(x[[j]]);
            }
            most = most.max(x[[j]] ^ i);
        }
        out[[i]] = ivec3(sum, least, most);
    }
}

#[test]
fn sums_of_floats() -> Result<()> {
    let w = backend::builder().math(Math::Fast).build()?;
    let x = w.field::<Vec3, 1>("x", TERMS as usize)?;
    // Not a multiple of the lanes of a warp.
    let a = w.field::<Vec3, 1>("a", 77)?;
    let at = |i: i32| {
        let i = i as f32;
        [(i * 0.1).sin(), (i * 0.07).cos(), i * 1e-3]
    };
    let values: Vec<Vec3> = (0..TERMS).map(|i| Vec3::from(at(i))).collect();
    x.copy_from(&values)?;
    for n in [0, 1, 31, 1000, TERMS] {
        forces(&x, &a, n)?;
        for (i, found) in (0..).zip(a.to_vec()?) {
            let me = at(i).map(f64::from);
            let mut sum = [1.0, 2.0, 3.0];
            for other in (0..n).map(at) {
                let d = [0, 1, 2].map(|k| f64::from(other[k]) - me[k]);
                let weight = d.iter().map(|d| d * d).sum::<f64>() + 1.0;
                for k in 0..3 {
                    sum[k] += d[k] / weight;
                }
            }
            for (k, sum) in sum.into_iter().enumerate() {
                let error = (f64::from(found[k]) - sum).abs();
                assert!(error < 1e-3 * (1.0 + sum.abs()), "{n} {i}: {found:?}");
            }
        }
    }
    Ok(())
}

#[test]
fn sums_and_extremes_of_integers() -> Result<()> {
    let w = backend::builder().build()?;
    let x = w.field::<i32, 1>("x", TERMS as usize)?;
    let out = w.field::<IVec3, 1>("out", 100)?;
    let values: Vec<i32> = (0..TERMS).map(|i| (i * 7919) % 10_007 - 5000).collect();
    x.copy_from(&values)?;
    extremes(&x, &out)?;
    for (i, found) in (0..100).zip(out.to_vec()?) {
        let mine = || values.iter().filter(|v| **v % 3 == i % 3);
        let sum = i + mine().map(|v| v * i).sum::<i32>();
        let least = mine().min().copied().unwrap_or(i32::MAX);
        let most = values.iter().map(|v| v ^ i).max().unwrap_or(i32::MIN);
        assert_eq!([found[0], found[1], found[2]], [sum, least, most], "{i}");
    }
    Ok(())
}
