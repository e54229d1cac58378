//! Lists: appending to many of them and to one, and deactivation.

use super::{Line, median, world};
use std::time::Instant;
use wuji::prelude::*;
use wuji::{Math, Result};

/// Lists along each axis, and elements of each.
const SIDE: i32 = 1024;
const EACH: i32 = 16;
/// Elements of the single list.
const ONE: i32 = 1 << 20;

/// Each thread appends to a list of its own.
#[kernel]
fn append_own(x: &Field<i32, 3>, each: i32) {
    for n in 0..SIDE * SIDE {
        for k in 0..each {
            x.append([n / SIDE, n % SIDE], k);
        }
    }
}

/// Neighbouring threads append to neighbouring lists.
#[kernel]
fn append_across(x: &Field<i32, 3>) {
    for n in 0..SIDE * SIDE * EACH {
        x.append([n / SIDE % SIDE, n % SIDE], n);
    }
}

/// All threads append to one list.
#[kernel]
fn append_one(x: &Field<i32, 1>, n: i32) {
    for i in 0..n {
        x.append((), i);
    }
}

fn seconds(world: &World, work: impl FnOnce() -> Result<()>) -> Result<f64> {
    world.synchronize()?;
    let begun = Instant::now();
    work()?;
    world.synchronize()?;
    Ok(begun.elapsed().as_secs_f64())
}

/// Lines of the table.
pub(super) fn lines() -> Result<Vec<Line>> {
    let world = world(Math::default())?;
    let x = world.layout(|root| {
        let cell = root.dense(IJ, SIDE as u32);
        cell.dynamic(K, EACH as u32).place::<i32, 3>("x")
    })?;
    let y = world.layout(|root| {
        let list = root.dynamic_chunked(I, ONE as u32, 1024);
        list.place::<i32, 1>("y")
    })?;
    let mut times: [Vec<f64>; 7] = Default::default();
    for run in 0..6 {
        let found = [
            seconds(&world, || append_own(&x, EACH / 2))?,
            seconds(&world, || append_own(&x, EACH / 2))?,
            seconds(&world, || x.deactivate_all())?,
            seconds(&world, || append_across(&x))?,
            seconds(&world, || append_one(&y, ONE))?,
            seconds(&world, || y.deactivate_all())?,
            seconds(&world, || append_one(&y, ONE / 2))?,
        ];
        x.deactivate_all()?;
        y.deactivate_all()?;
        // The first run compiles and allocates.
        if run > 0 {
            times
                .iter_mut()
                .zip(found)
                .for_each(|(all, new)| all.push(new));
        }
    }
    let all = f64::from(SIDE) * f64::from(SIDE) * f64::from(EACH);
    let (one, half) = (f64::from(ONE), f64::from(ONE / 2));
    // The appended elements, or none for milliseconds.
    let rows = [
        ("G appends/s, a thread per list", Some(all / 2.0)),
        (
            "G appends/s, a thread per list, second half",
            Some(all / 2.0),
        ),
        ("ms to deactivate 2^20 lists", None),
        ("G appends/s, a thread per element", Some(all)),
        ("G appends/s, one list", Some(one)),
        ("ms to deactivate one list of 2^20", None),
        ("G appends/s, one list, half as many", Some(half)),
    ];
    let lines = rows
        .into_iter()
        .zip(times)
        .map(|((metric, elements), times)| {
            let seconds = median(times);
            Line {
                name: "lists",
                size: "1024^2 of 16, one of 2^20".into(),
                metric,
                value: elements.map_or(seconds * 1e3, |n| n / seconds / 1e9),
                against: "",
                reference: None,
            }
        });
    Ok(lines.collect())
}
