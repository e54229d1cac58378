//! A coral grows on an unbounded plane: Gray-Scott reaction-diffusion in sparse blocks that are activated as the coral
//! grows. Inactive blocks cost neither memory nor time.

use super::{Example, Media, Outcome, Stage, Summary};
use std::collections::HashMap;
use wuji::prelude::*;
use wuji::viewer::{Picture, light};

/// A coral on an unbounded plane.
pub const CORAL: Example = Example {
    name: "coral",
    about: "a coral grows on an unbounded plane, in blocks that are activated on demand",
    long: "The layout is `hash`, `pointer`, `dense`: memory is allocated only near the coral, and coordinates may be negative. The kernel is \
           that of a dense grid, plus one line that activates neighbours.",
    size: ("steps per frame", 200),
    frames: 32,
    media: Media::Still,
    run,
    file: file!(),
    source: include_str!("coral.rs"),
};

/// Side length of a block in cells.
const BLOCK: i32 = 16;
/// Diffusion rates, feed rate and kill rate.
const SPREAD: (f32, f32) = (0.21, 0.105);
const FEED: f32 = 0.0545;
const REMOVE: f32 = 0.062;
/// Concentrations below this are treated as zero.
const TRACE: f32 = 1e-4;

/// `x` is the missing food, `y` the coral: both are zero far away.
#[kernel]
fn react(from: &Field<Vec2, 2>, to: &Field<Vec2, 2>) {
    for [i, j] in from {
        let here = from[[i, j]];
        let beside = from[[i - 1, j]] + from[[i + 1, j]] + from[[i, j - 1]] + from[[i, j + 1]];
        let flow = beside - here * 4.0;
        let food = 1.0 - here.x;
        let eaten = food * here.y * here.y;
        let next = vec2(
            here.x + SPREAD.0 * flow.x + eaten - FEED * here.x,
            here.y + SPREAD.1 * flow.y + eaten - (FEED + REMOVE) * here.y,
        );
        to[[i, j]] = next;
        if next.y > TRACE {
            // At the border of a block this activates the neighbouring block.
            to.activate([i - 1, j]);
            to.activate([i + 1, j]);
            to.activate([i, j - 1]);
            to.activate([i, j + 1]);
        }
    }
}

struct Coral {
    fields: [Field<Vec2, 2>; 2],
    blocks: Cells<2>,
}

impl Coral {
    fn new(world: &World) -> wuji::Result<Coral> {
        let plane = || {
            world.layout(|root| {
                let block = root.hash(IJ).pointer(IJ, 8);
                let cell = block.dense(IJ, BLOCK).place::<Vec2, 2>("substances");
                (block.cells::<2>("blocks"), cell)
            })
        };
        let ((blocks, a), (_, b)) = (plane()?, plane()?);
        // Seeds.
        for [i, j] in [[0, 0], [70, 25], [-48, 61], [-20, -75]] {
            let (i, j) = (i64::from(i), i64::from(j));
            let around = |n: i64| a.window([i - n..i + n, j - n..j + n]);
            around(BLOCK.into())?.fill(vec2(0.0, 0.0))?;
            around(4)?.fill(vec2(0.5, 0.25))?;
        }
        Ok(Coral {
            fields: [a, b],
            blocks,
        })
    }

    /// Two steps, which swap the buffers twice.
    fn grow(&self) -> wuji::Result<()> {
        react(&self.fields[0], &self.fields[1])?;
        react(&self.fields[1], &self.fields[0])
    }

    /// Draws the active region with a margin, and the outlines of active blocks.
    fn picture(&self) -> wuji::Result<Picture> {
        let (coordinates, values) = self.fields[0].export()?;
        let cells: HashMap<[i32; 2], Vec2> = coordinates.iter().copied().zip(values).collect();
        let reach = coordinates.iter().flatten().map(|c| c.abs()).max();
        let reach = reach.unwrap_or(0) + BLOCK;
        let side = 2 * reach as usize;
        let (night, line, stem, tip) = (
            light(0x070b14),
            light(0x1b2638),
            light(0xd8432f),
            light(0xffe9b8),
        );
        let mut pixels = Vec::with_capacity(side * side);
        for j in (-reach..reach).rev() {
            for i in -reach..reach {
                let edge = i.rem_euclid(BLOCK) == 0 || j.rem_euclid(BLOCK) == 0;
                let coral = cells.get(&[i, j]).map(|c| (c.y * 2.6).clamp(0.0, 1.0));
                let pixel = std::array::from_fn(|k| {
                    let ground = match coral {
                        Some(_) if edge => line[k],
                        _ => night[k],
                    };
                    let amount = coral.unwrap_or(0.0);
                    let body = stem[k] + (tip[k] - stem[k]) * amount * amount;
                    let cover = (amount * 1.8).min(1.0);
                    let linear = ground * (1.0 - cover) + body * cover;
                    (linear.clamp(0.0, 1.0).powf(1.0 / 2.2) * 255.0 + 0.5) as u8
                });
                pixels.push(pixel);
            }
        }
        Ok(Picture {
            width: side,
            height: side,
            pixels,
        })
    }
}

fn run(stage: &mut Stage) -> Outcome<Summary> {
    let coral = Coral::new(&stage.world())?;
    let pairs = stage.size().div_ceil(2);
    stage.play(
        |_| (0..pairs).try_for_each(|_| coral.grow()),
        || coral.picture(),
    )?;
    let bytes = coral.blocks.tree().memory_report()?.bytes() as f64 / 1e6;
    let what = format!("{} blocks in {bytes:.1} MB", coral.blocks.count_active()?);
    Ok(Summary::new(what, 2 * pairs, "steps"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with a dense plane that is large enough.
    #[test]
    fn the_edge_of_what_is_stored_is_not_seen() {
        let world = World::cpu().expect("a world");
        let coral = Coral::new(&world).expect("fields");
        let dense = || world.layout(|root| root.dense(IJ, 512).offset([-256, -256]).place("dense"));
        let (a, b): (Field<Vec2, 2>, Field<Vec2, 2>) = (dense().unwrap(), dense().unwrap());
        let (coordinates, values) = coral.fields[0].export().unwrap();
        a.import(&coordinates, &values).unwrap();
        for _ in 0..100 {
            coral.grow().unwrap();
            react(&a, &b).unwrap();
            react(&b, &a).unwrap();
        }
        let (coordinates, values) = coral.fields[0].export().unwrap();
        assert!(coordinates.len() < 256 * 256);
        let largest = (coordinates.iter().zip(values))
            .map(|(at, value)| (value - a.get(*at).unwrap()).norm())
            .fold(0.0, f32::max);
        assert!(largest < 2e-3, "{largest}");
    }
}
