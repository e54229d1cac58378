//! Quantized fields: life in bits, particles in 21 bits, and table 5.1 of the thesis.

use super::{Line, timed, without, world};
use crate::quantized::{COLUMNS, Program, contender};
use crate::workloads::quantized::{advect, life};
use wuji::prelude::*;
use wuji::{CacheChoice, Error, Math, Result};

/// Cells along each side: 17 G cells.
const SIDE: i64 = 1 << 17;
const PARTICLES: i64 = 1 << 26;

/// Lines of the table.
pub(super) fn lines() -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    for bits in [32, 64] {
        let world = world(Math::default())?;
        let grid = |name: &str| {
            world.layout(|root| {
                let words = root.dense(IJ, [SIDE, SIDE / i64::from(bits)]);
                let array = words.bit_array(J, i64::from(bits), bits);
                array.place::<u32, 2>(name, qint(1, false))
            })
        };
        let (x, y) = (grid("x")?, grid("y")?);
        x.fill(1)?;
        let time = timed(&world, || life(&x, &y))?;
        lines.push(Line {
            name: "life",
            size: format!("131072^2, u{bits}"),
            metric: "Gcells/s",
            value: (SIDE * SIDE) as f64 / time / 1e9,
            against: "",
            reference: None,
        });
    }
    let world = world(Math::default())?;
    let packed = world.layout(|root| {
        let word = root.dense(I, PARTICLES).bit_struct(64);
        word.place::<Vec3, 1>("x", qfixed(21, true, 4.0))
    })?;
    let plain = world.field::<Vec3, 1>("y", PARTICLES)?;
    let by = |time: f64| PARTICLES as f64 / time / 1e6;
    lines.push(Line {
        name: "advect, 21 bits",
        size: "64 M particles".into(),
        metric: "Mparticles/s",
        value: by(timed(&world, || advect(&packed))?),
        against: "f32",
        reference: Some(by(timed(&world, || advect(&plain))?)),
    });
    for program in Program::ALL {
        lines.extend(table(program)?);
    }
    Ok(lines)
}

/// A row of table 5.1: milliseconds, against plain fields.
fn table(program: Program) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    for (column, off) in COLUMNS {
        let off: Vec<&str> = off.iter().copied().chain(without()).collect();
        let world = World::builder()
            .cuda(0)
            .cache(CacheChoice::Off)
            .without(&off)
            .build()?;
        let time = |packed| {
            let mut ours = contender(program, &world, packed)?;
            timed(&world, || ours.run().map_err(|e| Error::new("W0502", e)))
        };
        let (packed, plain) = (time(true)?, time(false)?);
        lines.push(Line {
            name: program.name(),
            size: column.into(),
            metric: "1/s",
            value: 1.0 / packed,
            against: "plain fields",
            reference: Some(1.0 / plain),
        });
    }
    Ok(lines)
}
