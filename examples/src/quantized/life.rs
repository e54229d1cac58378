//! The Game of Life in two bits per cell, on a dense or a sparse plane.

use super::{Outcome, Report, Row, Run, Simulation, does_not_fit, time_steps};
use crate::differentiable::plot;
use wuji::prelude::*;
use wuji::viewer::Picture;
use wuji::{Cells, Result};

/// Game of Life, with a bit per cell.
pub const LIFE: Simulation = Simulation {
    name: "life",
    about: "Game of Life: glider guns; two generations in 2 bits per cell, dense and sparse",
    long: "Two generations, with one bit per cell in words of 64 cells. \
           The kernel is written for one cell; the compiler turns it into operations on words. \
           On the sparse plane, blocks without living cells take no memory. \
           A pattern reader (RLE) and a tiling compose the start of guns. \
           Tests compare all layouts with plain Rust, every 23rd generation.",
    size: ("cells along each side", 2048, 131_072),
    steps: 512,
    run,
    tune: None,
    file: file!(),
    source: include_str!("life.rs"),
};

/// A gun: it sends a glider every 30 generations.
const GUN: &str = "x = 36, y = 9, rule = B3/S23\n\
    24bo11b$22bobo11b$12b2o6b2o12b2o$11bo3bo4b2o12b2o$2o8bo5bo3b2o14b$\
    2o8bo3bob2o4bobo11b$10bo5bo7bo11b$11bo3bo20b$12b2o!";

/// Blocks of the sparse plane: rows, and words of 64 cells.
const ROWS: i64 = 64;
const WORDS: i64 = 2;
/// Generations until the blocks of the sparse plane are chosen again. Life moves by one cell per generation.
const EPOCH: usize = 32;

#[kernel]
fn generation(now: &Field<u32, 2>, next: &Field<u32, 2>) {
    for [i, j] in next {
        let mut around = 0u32;
        for a in -1..2 {
            for b in -1..2 {
                around += now[[i + a, j + b]];
            }
        }
        around -= now[[i, j]];
        next[[i, j]] = if around == 3 || around == 2 && now[[i, j]] == 1 {
            1
        } else {
            0
        };
    }
}

/// Activates the blocks that living cells can reach in an epoch.
#[kernel]
fn spread(now: &Field<u32, 2>, blocks: &Cells<2>, reach: i32, rows: i32, columns: i32) {
    let n = now.shape();
    for [i, j] in now {
        if now[[i, j]] == 1 {
            for a in -1..2 {
                for b in -1..2 {
                    let (i, j) = (i + a * reach, j + b * reach);
                    if i >= 0 && j >= 0 && i < n.x && j < n.y {
                        blocks.activate([i / rows, j / columns]);
                    }
                }
            }
        }
    }
}

#[kernel]
fn population(cells: &Field<u32, 2>) -> i64 {
    let mut sum = 0i64;
    for [i, j] in cells {
        sum += cells[[i, j]] as i64;
    }
    sum
}

/// Copies of a pattern, `every` cells apart, in a part of the plane.
#[kernel]
fn tile(cells: &Field<u32, 2>, pattern: &Field<u32, 2>, every: i32, to: i32) {
    let n = pattern.shape();
    for [i, j] in grid([0..to, 0..to]) {
        let (a, b) = (i % every, j % every);
        if a < n.x && b < n.y && pattern[[a, b]] == 1 {
            cells[[i, j]] = 1;
        }
    }
}

#[kernel]
fn paint(cells: &Field<u32, 2>, pixels: &Field<f32, 2>, first: i32) {
    for [x, y] in pixels {
        pixels[[x, y]] = cells[[first + x, first + y]] as f32;
    }
}

/// Reads a pattern in run-length encoding: `b` is dead, `o` alive, `$` ends a row, `!` the pattern.
pub fn read_rle(text: &str) -> Outcome<Vec<Vec<bool>>> {
    let lines = text
        .lines()
        .filter(|l| !l.starts_with('#') && !l.starts_with('x'));
    let mut rows = vec![Vec::new()];
    let mut count = 0usize;
    for letter in lines.flat_map(str::chars) {
        let times = count.max(1);
        match letter {
            '0'..='9' => {
                let digit = letter as usize - '0' as usize;
                count = count.saturating_mul(10).saturating_add(digit).min(1 << 20);
                continue;
            }
            'b' | 'o' => {
                if let Some(row) = rows.last_mut() {
                    row.extend(std::iter::repeat_n(letter == 'o', times));
                }
            }
            '$' => rows.extend(std::iter::repeat_n(Vec::new(), times)),
            '!' => return Ok(rows),
            c if c.is_whitespace() => {}
            c => return Err(format!("`{c}` is not part of a pattern").into()),
        }
        count = 0;
    }
    Err("the pattern has no end (`!`)".into())
}

/// How cells are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// A word per cell.
    Words,
    /// A bit per cell.
    Bits,
    /// A bit per cell, in blocks that are allocated when they are needed.
    SparseBits,
}

/// A plane of `n`^2 cells, with two generations.
#[derive(Debug)]
pub struct Life {
    n: usize,
    cells: [Field<u32, 2>; 2],
    /// The blocks of the sparse plane.
    blocks: Option<[Cells<2>; 2]>,
    steps: usize,
}

impl Life {
    /// A plane of dead cells.
    pub fn new(world: &World, n: usize, storage: Storage) -> Result<Life> {
        // Whole blocks.
        let n = n.div_ceil(128) * 128;
        let side = n as i64;
        let (mut cells, mut blocks) = (Vec::new(), Vec::new());
        for name in ["now", "next"] {
            let (field, parts) = world.layout(|root| match storage {
                Storage::Words => (root.dense(IJ, side).place(name), None),
                Storage::Bits => {
                    let words = root.dense(IJ, [side, side / 64]).bit_array(J, 64, 64);
                    (words.place(name, qint(1, false)), None)
                }
                Storage::SparseBits => {
                    let block = root.pointer(IJ, [side / ROWS, side / 64 / WORDS]);
                    let words = block.dense(IJ, [ROWS, WORDS]).bit_array(J, 64, 64);
                    let field = words.place(name, qint(1, false));
                    (field, Some(block.cells("blocks")))
                }
            })?;
            cells.push(field);
            blocks.extend(parts);
        }
        let wrong = |_| unreachable!("two generations");
        Ok(Life {
            n,
            cells: <[_; 2]>::try_from(cells).unwrap_or_else(wrong),
            blocks: <[_; 2]>::try_from(blocks).ok(),
            steps: 0,
        })
    }

    /// Tiles a part of the plane with a pattern.
    pub fn tile(
        &self,
        world: &World,
        pattern: &[Vec<bool>],
        every: usize,
        to: usize,
    ) -> Result<()> {
        let width = pattern.iter().map(Vec::len).max().unwrap_or(1).max(1);
        let field = world.field::<u32, 2>("pattern", [pattern.len(), width])?;
        let bit = |k: usize| {
            let row = &pattern[k / width];
            u32::from(row.get(k % width).copied().unwrap_or(false))
        };
        let bits: Vec<u32> = (0..pattern.len() * width).map(bit).collect();
        field.copy_from(&bits)?;
        let to = to.min(self.n) as i32;
        tile(&self.cells[self.steps % 2], &field, every as i32, to)
    }

    /// The next generation.
    pub fn step(&mut self) -> Result<()> {
        let (at, to) = (self.steps % 2, (self.steps + 1) % 2);
        let (now, next) = (&self.cells[at], &self.cells[to]);
        if let Some(blocks) = &self.blocks
            && self.steps.is_multiple_of(EPOCH)
        {
            blocks[to].deactivate_all()?;
            let columns = 64 * WORDS as i32;
            spread(now, &blocks[to], EPOCH as i32, ROWS as i32, columns)?;
            generation(now, next)?;
            // The other generation of the epoch has the same blocks.
            self.steps += 1;
            blocks[at].deactivate_all()?;
            blocks[at].import(&blocks[to].active()?)?;
            return Ok(());
        }
        generation(now, next)?;
        self.steps += 1;
        Ok(())
    }

    /// The current generation.
    pub fn cells(&self) -> &Field<u32, 2> {
        &self.cells[self.steps % 2]
    }

    /// Bytes of both generations.
    pub fn bytes(&self) -> u64 {
        self.cells.iter().map(|c| c.tree().memory_used()).sum()
    }

    fn picture(&self, world: &World) -> Result<Picture> {
        const SIDE: usize = 320;
        let pixels = world.field::<f32, 2>("pixels", [SIDE.min(self.n), SIDE.min(self.n)])?;
        paint(self.cells(), &pixels, 0)?;
        pixels.to_picture()
    }
}

fn run(run: &Run) -> Outcome<Report> {
    let gun = read_rle(GUN)?;
    let layouts = [
        ("u32", Storage::Words),
        ("bits", Storage::Bits),
        ("sparse bits", Storage::SparseBits),
    ];
    let (mut rows, mut pictures, mut what) = (Vec::new(), Vec::new(), String::new());
    for (layout, storage) in layouts {
        let mut life = match Life::new(&run.world, run.size, storage) {
            Err(error) if does_not_fit(&error) => {
                rows.push(Row::too_large(layout, 8.0));
                continue;
            }
            life => life?,
        };
        // Guns in a corner: a sparse plane has much empty space.
        life.tile(&run.world, &gun, 64, life.n / 4)?;
        let time = time_steps(&run.world, run.steps, |_| life.step())?;
        let cells = (life.n * life.n) as f64;
        rows.push(Row {
            layout,
            bytes: life.bytes() as f64 / cells,
            time: Some(time),
            note: format!(
                "{:.2} Gcells/s, {} alive",
                cells / time / 1e6,
                population(life.cells())?
            ),
        });
        if storage != Storage::Words {
            pictures.push(life.picture(&run.world)?);
        }
        what = format!("{0}x{0} cells, {1} generations", life.n, run.steps);
    }
    Ok(Report {
        what,
        unit: "cell",
        rows,
        picture: plot::beside(&pictures),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A generation in plain Rust.
    fn plain(cells: &[u32], n: usize) -> Vec<u32> {
        let at = |i: isize, j: isize| {
            let range = 0..n as isize;
            if range.contains(&i) && range.contains(&j) {
                cells[i as usize * n + j as usize]
            } else {
                0
            }
        };
        let next = |k: usize| {
            let (i, j) = ((k / n) as isize, (k % n) as isize);
            let near = [-1, 0, 1].map(|a| [-1, 0, 1].map(|b| at(i + a, j + b)));
            let all: u32 = near.iter().flatten().sum();
            u32::from(all == 3 || all == 4 && cells[k] == 1)
        };
        (0..n * n).map(next).collect()
    }

    #[test]
    fn every_layout_does_what_plain_rust_does() {
        let world = World::builder().threads(2).build().expect("a world");
        let gun = read_rle(GUN).expect("a pattern");
        let mut generations: Vec<Vec<u32>> = Vec::new();
        for storage in [Storage::Words, Storage::Bits, Storage::SparseBits] {
            let mut life = Life::new(&world, 256, storage).expect("fields");
            // Across the borders of words and blocks.
            life.tile(&world, &gun, 50, 90).expect("guns");
            if generations.is_empty() {
                generations.push(life.cells().to_vec().expect("cells"));
                for step in 0..70 {
                    generations.push(plain(&generations[step], life.n));
                }
            }
            assert!(generations[0].iter().sum::<u32>() > 100);
            for step in 0..70 {
                life.step().expect("a generation");
                if step % 23 == 0 || step > 68 {
                    let found = life.cells().to_vec().expect("cells");
                    let same = found == generations[step + 1];
                    assert!(same, "{storage:?}, generation {step}");
                }
            }
            let expected = &generations[70];
            let alive = i64::from(expected.iter().sum::<u32>());
            assert_eq!(population(life.cells()).expect("a sum"), alive);
            if storage == Storage::Bits {
                assert_eq!(life.bytes() as usize * 4, life.n * life.n);
            }
            if let Some(blocks) = &life.blocks {
                assert!(blocks[0].count_active().expect("blocks") < 16);
            }
        }
    }

    #[test]
    fn patterns_are_read_and_mistakes_are_errors() {
        let gun = read_rle(GUN).expect("a pattern");
        assert_eq!(gun.len(), 9);
        assert_eq!(gun.iter().flatten().filter(|c| **c).count(), 36);
        assert_eq!(
            read_rle("2o$$b o!").expect("a pattern"),
            [vec![true, true], vec![], vec![false, true]]
        );
        assert!(read_rle("3o").is_err() && read_rle("3q!").is_err());
    }
}
