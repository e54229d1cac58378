//! A coral that grows on a plane without edges: two substances that react and diffuse (Gray and Scott), in blocks that come
//! into being where the coral gets to. Far from it nothing is stored and nothing is computed.
//!
//! ```text
//! cargo run --release -p wuji-examples --bin coral -- [--steps N] [--out DIR]
//! ```

use std::collections::HashMap;
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use wuji::prelude::*;
use wuji_examples::canvas::light;
use wuji_examples::picture::Picture;
use wuji_examples::progress::Progress;

/// Cells along the side of a block.
const BLOCK: i32 = 16;
/// How fast the substances spread, one is fed and the other is removed.
const SPREAD: (f32, f32) = (0.21, 0.105);
const FEED: f32 = 0.0545;
const REMOVE: f32 = 0.062;
/// Less of the coral than this is none.
const TRACE: f32 = 1e-4;

/// `x` is the food that is missing, `y` the coral: nothing of both, far away, is zero.
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
            // At the edge of a block this brings the next one about; elsewhere it is there already.
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
        // A few seeds.
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

    /// Two steps, there and back.
    fn grow(&self) -> wuji::Result<()> {
        react(&self.fields[0], &self.fields[1])?;
        react(&self.fields[1], &self.fields[0])
    }

    /// What exists, with a margin, and the blocks it exists in.
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

struct Options {
    steps: usize,
    out: PathBuf,
}

fn options(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options {
        steps: 8000,
        out: PathBuf::from("."),
    };
    while let Some(word) = words.next() {
        let value = words.next().ok_or(format!("{word} needs a value"))?;
        match word.as_str() {
            "--steps" => options.steps = value.parse().map_err(|_| "--steps needs a number")?,
            "--out" => options.out = PathBuf::from(value),
            _ => return Err(format!("there is no option {word}")),
        }
    }
    Ok(options)
}

fn run() -> Result<(), Box<dyn Error>> {
    let options = options(std::env::args().skip(1))?;
    let world = World::cpu()?;
    let coral = Coral::new(&world)?;
    let rounds = options.steps.div_ceil(200).max(1);
    let mut progress = Progress::new(rounds);
    for round in 0..rounds {
        for _ in 0..100 {
            coral.grow()?;
        }
        progress.show(
            round + 1,
            &format!("{} blocks", coral.blocks.count_active()?),
        );
    }
    std::fs::create_dir_all(&options.out)?;
    let path = options.out.join("coral.png");
    coral.picture()?.save_png(&path)?;
    println!("{}", coral.blocks.tree().memory_report()?);
    println!("{}", path.display());
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same on a plane that is large enough to begin with.
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
