//! Random operations on random sparse layouts have the same results compiled and interpreted.
//!
//! `WUJI_SEEDS=100 cargo test -p wuji sparse_random` does more of it; a failure names its seed, and
//! `WUJI_SEED=n` repeats it.

use wuji::axes::*;
use wuji::prelude::*;
use wuji::{Node, Result};

struct Dice(u64);

impl Dice {
    fn roll(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

/// One node of a layout, with its extents along `i` and `j`.
#[derive(Copy, Clone, Debug)]
enum Level {
    Dense(u64, u64),
    Bitmasked(u64, u64, bool),
    Pointer(u64, u64, bool),
    HashSized(u64, u64),
    Hash,
    List(u64, u32),
}

/// A random path down from the root, or from below it; exactly one list where `list`.
fn path(dice: &mut Dice, root: bool, list: bool) -> Vec<Level> {
    let mut levels = Vec::new();
    match dice.roll(4) {
        0 if root => levels.push(Level::Hash),
        1 if root => levels.push(Level::HashSized(1 + dice.roll(5), 1 + dice.roll(5))),
        _ => {}
    }
    for _ in 0..1 + dice.roll(3) {
        let morton = dice.roll(3) == 0;
        let mut extent = || {
            if morton {
                1 << dice.roll(3)
            } else {
                1 + dice.roll(6)
            }
        };
        let (i, j) = (extent(), extent());
        levels.push(match dice.roll(5) {
            0 => Level::Dense(i, j),
            1 => Level::Bitmasked(i, j, morton),
            2 => Level::HashSized(i, j),
            _ => Level::Pointer(i, j, morton),
        });
    }
    if list {
        let most = 1 + dice.roll(40);
        let at = usize::from(root) + dice.roll(levels.len() as u64) as usize;
        levels.insert(at, Level::List(most, 1 + dice.roll(most) as u32));
    }
    levels
}

/// The way to each of two fields, and how far they go together.
#[derive(Clone, Debug)]
struct Layout {
    shared: Vec<Level>,
    rest: [Vec<Level>; 2],
}

impl Layout {
    fn random(dice: &mut Dice, list: bool) -> Layout {
        let mut shared = path(dice, true, list);
        if dice.roll(2) == 0 {
            return Layout {
                shared,
                rest: [Vec::new(), Vec::new()],
            };
        }
        let rest = shared.split_off(1 + dice.roll(shared.len() as u64) as usize);
        let listed = shared.iter().any(|l| matches!(l, Level::List(..)));
        let other = path(dice, false, list && !listed);
        Layout {
            shared,
            rest: [rest, other],
        }
    }
}

fn ordered(node: Node<'_>, morton: bool) -> Node<'_> {
    if morton { node.morton() } else { node }
}

fn hang(node: Node<'_>, level: Level) -> Node<'_> {
    match level {
        Level::Dense(i, j) => node.dense(IJ, [i, j]),
        Level::Bitmasked(i, j, morton) => ordered(node.bitmasked(IJ, [i, j]), morton),
        Level::Pointer(i, j, morton) => ordered(node.pointer(JI, [j, i]), morton),
        Level::HashSized(i, j) => node.hash_sized(IJ, [i, j]),
        Level::Hash => node.hash(IJ),
        Level::List(most, chunk) => node.dynamic_chunked(L, most, chunk),
    }
}

#[kernel]
fn blur<const D: usize>(from: &Field<i64, D>, to: &Field<i64, D>, step: Vector<i32, D>) {
    for at in from {
        let ahead = from[at + step];
        let behind = from[at - step];
        // Far away additions to an index wrap, which both worlds do alike.
        to[at] = from[at] * 3 + ahead - behind;
    }
}

#[kernel]
fn scatter<const D: usize>(from: &Field<i64, D>, to: &Field<i64, D>, step: Vector<i32, D>) {
    for at in from {
        to[at + step] += from[at] + 1;
    }
    for at in from {
        to[at] *= 5;
    }
    for at in from {
        to.no_activate(at - step) += 7;
    }
    for at in to {
        if from.is_active(at + step) && !from.is_active(at - step) {
            to[at] += 1000;
        }
    }
}

#[kernel]
fn thin<const D: usize>(x: &Field<i64, D>, cells: &Cells<D>, one_in: i64) {
    for at in cells {
        if x[at] % one_in == 0 {
            cells.deactivate(at);
        }
    }
}

#[kernel]
fn total<const D: usize>(x: &Field<i64, D>) -> i64 {
    let mut sum = 0;
    for at in x {
        sum += x[at] + 1;
    }
    sum
}

/// The same tree in two worlds.
struct Pair<const D: usize> {
    x: [Field<i64, D>; 2],
    y: [Field<i64, D>; 2],
    cells: [Cells<D>; 2],
    sparse_leaf: bool,
}

impl<const D: usize> Pair<D> {
    fn new(worlds: &[World; 2], layout: &Layout) -> Result<Pair<D>> {
        let make = |w: &World| {
            w.layout(|root| {
                let down = |node, levels: &[Level]| levels.iter().fold(node, |n, l| hang(n, *l));
                let fork = down(root, &layout.shared);
                let leaf = down(fork, &layout.rest[0]);
                let x = leaf.place::<i64, D>("x");
                let y = down(fork, &layout.rest[1]).place::<i64, D>("y");
                (x, y, leaf.cells::<D>("cells"))
            })
        };
        let leaf = layout.rest[0].last().or(layout.shared.last());
        let ((x0, y0, c0), (x1, y1, c1)) = (make(&worlds[0])?, make(&worlds[1])?);
        Ok(Pair {
            x: [x0, x1],
            y: [y0, y1],
            cells: [c0, c1],
            sparse_leaf: !matches!(leaf, Some(Level::Dense(..))),
        })
    }

    fn point(&self, dice: &mut Dice) -> Result<[i32; D]> {
        let (from, shape) = (self.x[0].offset()?, self.x[0].shape()?);
        Ok(std::array::from_fn(|k| {
            let near = if shape[k] > 1000 { 20 } else { shape[k] };
            let start = if near == shape[k] { from[k] } else { -10 };
            (start + dice.roll(near) as i64) as i32
        }))
    }

    /// One thing, in both worlds. The two fields share some or all of their cells.
    fn act(&self, dice: &mut Dice) -> Result<String> {
        let at = self.point(dice)?;
        let v = dice.roll(100) as i64;
        let said = match dice.roll(10) {
            0 | 1 => {
                let mut at = Vec::new();
                for _ in 0..1 + dice.roll(30) {
                    at.push(self.point(dice)?);
                }
                at.sort();
                at.dedup();
                let values: Vec<i64> = at.iter().map(|_| dice.roll(1000) as i64).collect();
                self.x.iter().try_for_each(|x| x.import(&at, &values))?;
                format!("import {at:?} {values:?}")
            }
            2 => {
                self.x.iter().try_for_each(|x| x.set(at, v))?;
                format!("set {at:?} {v}")
            }
            3 => {
                self.cells.iter().try_for_each(|c| c.activate(at))?;
                format!("activate {at:?}")
            }
            4 if self.sparse_leaf => {
                self.cells.iter().try_for_each(|c| c.deactivate(at))?;
                format!("deactivate {at:?}")
            }
            5 => {
                let step = Vector(std::array::from_fn(|_| dice.roll(3) as i32 - 1));
                // Writes beyond the edges are reported, and dropped.
                let codes: Vec<Option<&str>> = (self.x.iter().zip(&self.y))
                    .flat_map(|(x, y)| [blur(x, y, step), blur(y, x, step)])
                    .map(|done| done.err().map(|e| e.code))
                    .collect();
                assert_eq!(codes[..2], codes[2..]);
                format!("blur {step:?} {codes:?}")
            }
            6 if self.sparse_leaf => {
                let one_in = 2 + dice.roll(3) as i64;
                for (x, cells) in self.x.iter().zip(&self.cells) {
                    thin(x, cells, one_in)?;
                }
                format!("thin {one_in}")
            }
            8 => {
                let step = Vector(std::array::from_fn(|_| dice.roll(5) as i32 - 2));
                let codes: Vec<Option<&str>> = (self.x.iter().zip(&self.y))
                    .map(|(x, y)| scatter(x, y, step).err().map(|e| e.code))
                    .collect();
                assert_eq!(codes[0], codes[1]);
                format!("scatter {step:?} {codes:?}")
            }
            7 if dice.roll(4) == 0 => {
                let dense = self.x.each_ref().map(|x| x.deactivate_all().is_err());
                assert_eq!(dense[0], dense[1]);
                "deactivate all".to_owned()
            }
            _ => {
                self.y.iter().try_for_each(|y| y.fill(v))?;
                format!("fill {v}")
            }
        };
        Ok(said)
    }

    fn same(&self, what: &str) -> Result<()> {
        let [a, b] = &self.x;
        assert_eq!(a.export()?, b.export()?, "{what}");
        assert_eq!(total(a)?, total(b)?, "{what}");
        assert_eq!(self.y[0].export()?, self.y[1].export()?, "{what}");
        assert_eq!(self.cells[0].active()?, self.cells[1].active()?, "{what}");
        Ok(())
    }
}

fn play<const D: usize>(seed: u64) -> Result<()> {
    let mut dice = Dice(seed);
    let layout = Layout::random(&mut dice, D == 3);
    let worlds = [
        World::builder().interpreter().lazy(false).build()?,
        World::builder().threads(3).lazy(false).build()?,
    ];
    let pair = Pair::<D>::new(&worlds, &layout)?;
    let mut story = format!("seed {seed}: {layout:?}");
    for _ in 0..25 {
        let said = pair.act(&mut dice)?;
        story = format!("{story}\n{said}");
        pair.same(&story)?;
    }
    Ok(())
}

#[test]
fn compiled_and_interpreted_trees_agree() {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let seeds = match number("WUJI_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("WUJI_SEEDS").unwrap_or(6),
    };
    for seed in seeds {
        let played = match seed % 2 {
            0 => play::<2>(seed),
            _ => play::<3>(seed),
        };
        played.unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    }
}
