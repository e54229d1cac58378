//! Random sequences of launches: a lazy world gives what an eager one gives.

use wuji::prelude::*;

const N: i32 = 48;

type Line = Field<i32, 1>;
type Square = Field<i32, 2>;
type Point = Field<i32, 0>;

#[kernel]
fn add(x: &Line, k: i32) {
    for [i] in x {
        x[[i]] += k;
    }
}

#[kernel]
fn set(x: &Line, k: i32) {
    for [i] in x {
        x[[i]] = i * k;
    }
}

#[kernel]
fn copy(x: &Line, y: &Line, k: i32) {
    for [i] in y {
        y[[i]] = x[[i]] + k;
    }
}

#[kernel]
fn shift(x: &Line, y: &Line, k: i32) {
    for [i] in x {
        y[[i]] = x[[i + 1]] - x[[i - k % 3]];
    }
}

#[kernel]
fn shifted_store(x: &Line, y: &Line) {
    for i in 0..N - 1 {
        y[[i + 1]] = x[[i]] + 1;
    }
}

#[kernel]
fn reverse(x: &Line, y: &Line) {
    for i in 0..N {
        y[[N - 1 - i]] = x[[i]];
    }
}

#[kernel]
fn some(x: &Line, y: &Line, k: i32) {
    for [i] in x {
        if i % 3 == k % 3 {
            continue;
        }
        if x[[i]] > k {
            y[[i]] = x[[i]] / 2;
        }
        x[[i]] = y[[i]] + 1;
    }
}

#[kernel]
fn scatter(x: &Line, y: &Line, k: i32) {
    for [i] in x {
        y[[(i * 7 + k) % N]] += x[[i]] % 5;
    }
}

#[kernel]
fn largest(x: &Line, y: &Line) {
    for [i] in x {
        y.at([i / 4]).fetch_max(x[[i]]);
    }
}

#[kernel]
fn partly(x: &Line, count: i32, k: i32) {
    for i in 0..count {
        x[[i]] += k;
    }
}

#[kernel]
fn sum(x: &Line, r: &Point) {
    r[[]] = 0;
    for [i] in x {
        r[[]] += x[[i]];
    }
}

#[kernel]
fn spread(r: &Point, x: &Line, k: i32) {
    for [i] in x {
        x[[i]] += r[[]] % 11 + k;
    }
}

#[kernel]
fn serial(r: &Point, q: &Point, k: i32) {
    r[[]] = q[[]] + k;
    q[[]] += 1;
}

#[kernel]
fn two_loops(x: &Line, y: &Line, k: i32) {
    for [i] in x {
        x[[i]] = y[[i]] + k;
    }
    for [i] in y {
        y[[i]] = x[[(i + 1) % N]];
    }
}

#[kernel]
fn hand_over(r: &Point, x: &Line) {
    let first = x[[0]] % 7;
    for [i] in x {
        x[[i]] += first;
    }
    r[[]] = first;
}

#[kernel]
fn transpose(m: &Square, n: &Square) {
    for [i, j] in m {
        n[[j, i]] = m[[i, j]] + i;
    }
}

#[kernel]
fn plus(m: &Square, n: &Square, k: i32) {
    for [i, j] in n {
        n[[i, j]] = m[[i, j]] * 2 + k;
    }
}

#[kernel]
fn rows(m: &Square, x: &Line) {
    for i in 0..8 {
        let mut total = 0;
        for j in 0..6 {
            total += m[[i, j]];
            m[[i, j]] = total % 13;
        }
        x[[i]] = total;
    }
}

#[kernel]
fn activate(x: &Line, k: i32) {
    for i in 0..5 {
        x[[(i * 9 + k * 5) % N]] = k;
    }
}

#[kernel]
fn off(x: &Line, k: i32) {
    for [i] in x {
        if x[[i]] % 4 == k % 4 {
            x.deactivate([i]);
        }
    }
}

struct Data {
    world: World,
    /// The last two are sparse.
    lines: Vec<Line>,
    squares: Vec<Square>,
    points: Vec<Point>,
}

impl Data {
    fn new(builder: wuji::WorldBuilder) -> Data {
        let world = builder.build().unwrap();
        let alone = |name: &str| world.field::<i32, 1>(name, N as usize).unwrap();
        let (a, b) = (alone("a"), alone("b"));
        let pair = |root: wuji::Node<'_>| {
            let cell = root.dense(I, N as usize);
            (cell.place::<i32, 1>("c"), cell.place::<i32, 1>("d"))
        };
        let (c, d) = world.layout(pair).unwrap();
        let sparse = |root: wuji::Node<'_>| {
            let cell = root.pointer(I, N as usize / 8).dense(I, 8);
            (cell.place::<i32, 1>("s"), cell.place::<i32, 1>("t"))
        };
        let (s, t) = world.layout(sparse).unwrap();
        let square = |name: &str| world.field::<i32, 2>(name, [8, 8]).unwrap();
        let point = |name: &str| world.field::<i32, 0>(name, [0_usize; 0]).unwrap();
        Data {
            squares: vec![square("m"), square("n")],
            points: vec![point("r"), point("q")],
            lines: vec![a, b, c, d, s, t],
            world,
        }
    }

    fn launch(&self, random: &mut Random) -> wuji::Result<()> {
        let k = random.below(20) as i32;
        let x = &self.lines[random.below(6)];
        let y = &self.lines[random.below(6)];
        let dense = &self.lines[random.below(4)];
        let sparse = &self.lines[4 + random.below(2)];
        let m = random.below(2);
        let (m, n) = (&self.squares[m], &self.squares[1 - m]);
        let r = random.below(2);
        let (r, q) = (&self.points[r], &self.points[1 - r]);
        match random.below(24) {
            0 | 20 => add(x, k),
            1 => set(dense, k),
            2 | 21 => copy(x, y, k),
            3 => shift(x, y, k),
            4 => shifted_store(x, y),
            5 => reverse(x, y),
            6 => some(x, y, k),
            7 => scatter(x, y, k),
            8 => largest(x, y),
            9 => partly(x, 10 * (1 + k % 3), k),
            10 => sum(x, r),
            11 => spread(r, x, k),
            12 => serial(r, q, k),
            13 => two_loops(x, y, k),
            14 => hand_over(r, x),
            15 => transpose(m, n),
            16 | 22 => plus(m, n, k),
            17 => rows(m, x),
            18 => activate(sparse, k),
            19 => off(sparse, k),
            _ => set(dense, k),
        }
    }

    fn state(&self) -> Vec<Vec<i32>> {
        let lines = self.lines.iter().map(|x| x.to_vec().unwrap());
        let squares = self.squares.iter().map(|x| x.to_vec().unwrap());
        let points = self.points.iter().map(|x| x.to_vec().unwrap());
        lines.chain(squares).chain(points).collect()
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }
}

/// Runs the same programs in both worlds; gives how many tasks were launched, and how many ran instead.
fn compare(lazy: &Data, eager: &Data, programs: u64) -> (u64, u64) {
    for seed in 0..programs {
        let run = |data: &Data| {
            let mut random = Random(seed * 2 + 1);
            for _ in 0..30 {
                // Writes outside are reported, in a lazy world by a later call.
                let _ = data.launch(&mut random);
                if random.below(12) == 0 {
                    let _ = data.world.flush();
                }
            }
            let _ = data.world.flush();
            data.state()
        };
        assert_eq!(run(lazy), run(eager), "program {seed}");
    }
    let statistics = lazy.world.lazy_statistics();
    (statistics.launched_tasks, statistics.tasks)
}

#[test]
fn interpreted_programs_agree() {
    let programs = std::env::var("WUJI_LAZY_PROGRAMS").ok();
    let programs = programs.and_then(|n| n.parse().ok()).unwrap_or(60);
    for window in [64, 7] {
        let lazy = Data::new(World::builder().interpreter().lazy(true).window(window));
        let eager = Data::new(World::builder().interpreter().lazy(false));
        let (launched, ran) = compare(&lazy, &eager, programs);
        assert!(ran * 10 < launched * 9, "{ran} of {launched} tasks ran");
    }
}

#[test]
fn compiled_programs_agree() {
    let lazy = Data::new(World::builder().lazy(true).threads(2));
    let eager = Data::new(World::builder().lazy(false).threads(2));
    compare(&lazy, &eager, 3);
}
