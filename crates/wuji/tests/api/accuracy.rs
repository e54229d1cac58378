//! Accuracy of approximate functions, in units of the last place.

use wuji::prelude::*;
use wuji::{Math, Result};

#[kernel]
fn roots(x: &Field<f32, 1>, y: &Field<f32, 1>) {
    for [i] in x {
        y[[i]] = x[[i]].rsqrt();
    }
}

#[kernel]
fn cubes(x: &Field<f32, 1>, y: &Field<f32, 1>) {
    for [i] in x {
        let r = x[[i]].rsqrt();
        y[[i]] = r * r * r;
    }
}

#[kernel]
fn waves(x: &Field<f32, 1>, y: &Field<f32, 1>) {
    for [i] in x {
        y[[i]] = x[[i]].sin() + x[[i]].exp();
    }
}

/// Distance in units of the last place.
fn ulps(found: f32, exact: f64) -> f64 {
    let nearest = exact as f32;
    if found == nearest || found.is_nan() && nearest.is_nan() {
        return 0.0;
    }
    let next = f32::from_bits(nearest.abs().to_bits() + 1);
    let unit = f64::from(next) - f64::from(nearest.abs());
    (f64::from(found) - exact).abs() / unit
}

fn worlds() -> [World; 2] {
    [Tier::Best, Tier::Fast].map(|tier| World::builder().tier(tier).build().unwrap())
}

/// All exponents, denormal numbers, signs, zeros, infinities and NaN among them.
fn all_kinds() -> Vec<f32> {
    let mut values: Vec<f32> = (0..1 << 18).map(|k| f32::from_bits(k * 16381)).collect();
    values[..6].copy_from_slice(&[0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -1.0]);
    values
}

/// In fast mode they are one step; products of three roots would be within 8.
#[test]
fn cubes_of_reciprocal_roots_are_within_five_ulps() -> Result<()> {
    let values = all_kinds();
    for math in [Math::Fast, Math::Contract] {
        let world = World::builder().tier(Tier::Best).math(math).build()?;
        let x = world.field::<f32, 1>("x", [values.len()])?;
        let y = world.field::<f32, 1>("y", [values.len()])?;
        x.copy_from(&values)?;
        cubes(&x, &y)?;
        let most = if math == Math::Fast { 5.0 } else { 8.0 };
        for (x, found) in values.iter().zip(y.to_vec()?) {
            let root = 1.0 / f64::from(*x).sqrt();
            let exact = root * root * root;
            // In fast mode, numbers that are too small to be normal are zero.
            let tiny = |v: f64| v != 0.0 && v.abs() < 2.0 * f64::from(f32::MIN_POSITIVE);
            if math == Math::Fast && (tiny(f64::from(*x)) || tiny(exact)) {
                continue;
            }
            let off = ulps(found, exact);
            assert!(
                off <= most,
                "rsqrt({x:e})^3 is {found:e}, {off} ulps off {exact:e} ({math:?})"
            );
        }
    }
    Ok(())
}

#[test]
fn reciprocal_roots_are_within_two_ulps() -> Result<()> {
    let values = all_kinds();
    let n = values.len();
    for world in worlds() {
        let x = world.field::<f32, 1>("x", [n])?;
        let y = world.field::<f32, 1>("y", [n])?;
        x.copy_from(&values)?;
        roots(&x, &y)?;
        for (x, found) in values.iter().zip(y.to_vec()?) {
            let exact = 1.0 / f64::from(*x).sqrt();
            let off = ulps(found, exact);
            assert!(
                off <= 2.0,
                "rsqrt({x:e}) is {found:e}, {off} ulps off {exact:e}"
            );
        }
    }
    Ok(())
}

#[test]
fn vector_math_is_within_its_bounds() -> Result<()> {
    let n = 1usize << 16;
    let values: Vec<f32> = (0..n).map(|k| (k as f32 - 32768.0) / 1500.0).collect();
    for world in worlds() {
        let x = world.field::<f32, 1>("x", [n])?;
        let y = world.field::<f32, 1>("y", [n])?;
        x.copy_from(&values)?;
        waves(&x, &y)?;
        for (x, found) in values.iter().zip(y.to_vec()?) {
            let (sine, power) = (f64::from(*x).sin(), f64::from(*x).exp());
            let unit = f64::from(f32::EPSILON);
            let room = unit * (4.0 * sine.abs() + 4.0 * power + (sine + power).abs());
            let off = (f64::from(found) - (sine + power)).abs();
            assert!(off <= room, "at {x}: {found}, {off:e} off");
        }
    }
    Ok(())
}
