//! Sort, prefix sum and conjugate gradients of the library, against what one writes without it.

use wuji::algorithms::{prefix_sum, sort};
use wuji::linalg::{Stop, conjugate_gradient};
use wuji::prelude::*;

use crate::case::Contender;
use crate::measure::Row;
use crate::study::{Bench, Side, Study, agree};

/// All studies of the library.
pub fn all() -> Vec<Box<dyn Study>> {
    vec![
        Box::new(Sort { bits: 22 }),
        Box::new(Scan { bits: 24 }),
        Box::new(Solver { n: 512 }),
    ]
}

fn text(error: wuji::Error) -> String {
    error.to_string()
}

/// A row: the work of a sample of either side per second, after both have given the same result.
fn row(
    study: &dyn Study,
    bench: &Bench,
    metric: &str,
    work: f64,
    (ours, other): (&mut dyn Contender, &mut dyn Contender),
) -> Result<Row, String> {
    agree(study, ours, other, 1e-2)?;
    let first = Side {
        contender: ours,
        work,
    };
    let second = Side {
        contender: other,
        work,
    };
    bench.compare(study, metric, first, second)
}

/// Keys that look random.
fn key(i: u32) -> u32 {
    let mixed = (i ^ (i >> 16)).wrapping_mul(0x045d_9f3b);
    (mixed ^ (mixed >> 16)).wrapping_mul(0x045d_9f3b)
}

/// Some elements, as numbers to compare.
fn samples(values: &[u32]) -> Vec<f32> {
    let step = (values.len() / 1000).max(1);
    values.iter().step_by(step).map(|v| *v as f32).collect()
}

struct Sort {
    bits: u32,
}

struct SortedField {
    start: Vec<u32>,
    keys: Field<u32, 1>,
}

/// A vector, and what sorts it.
struct SortedVec {
    start: Vec<u32>,
    keys: Vec<u32>,
    sort: Sorting,
}

type Sorting = fn(&mut Vec<u32>);

impl Contender for SortedField {
    fn run(&mut self) -> Result<(), String> {
        self.keys.copy_from(&self.start).map_err(text)?;
        sort(&self.keys).map_err(text)?;
        self.keys.world().synchronize().map_err(text)
    }
    fn result(&mut self) -> Result<Vec<f32>, String> {
        Ok(samples(&self.keys.to_vec().map_err(text)?))
    }
}

impl Contender for SortedVec {
    fn run(&mut self) -> Result<(), String> {
        self.keys.copy_from_slice(&self.start);
        (self.sort)(&mut self.keys);
        Ok(())
    }
    fn result(&mut self) -> Result<Vec<f32>, String> {
        Ok(samples(&self.keys))
    }
}

/// A radix sort of bytes, on one thread.
fn radix(keys: &mut Vec<u32>) {
    let mut to = vec![0; keys.len()];
    for shift in [0, 8, 16, 24] {
        let mut places = [0_usize; 257];
        for k in keys.iter() {
            places[(k >> shift & 255) as usize + 1] += 1;
        }
        for digit in 0..256 {
            places[digit + 1] += places[digit];
        }
        for k in keys.iter() {
            let place = &mut places[(k >> shift & 255) as usize];
            to[*place] = *k;
            *place += 1;
        }
        std::mem::swap(keys, &mut to);
    }
}

impl Study for Sort {
    fn name(&self) -> &'static str {
        "sort"
    }
    fn size(&self) -> String {
        format!("2^{} u32", self.bits)
    }
    fn metric(&self) -> &'static str {
        "Mkeys/s"
    }

    /// The references are `sort_unstable` and a radix sort, on one thread.
    fn rows(&self, bench: &Bench) -> Result<Vec<Row>, String> {
        let start: Vec<u32> = (0..1 << self.bits).map(key).collect();
        let work = start.len() as f64 / 1e6;
        let world = bench.world(&[])?;
        let keys = world.field("keys", start.len() as u64).map_err(text)?;
        let mut field = SortedField {
            start: start.clone(),
            keys,
        };
        let references: [(&str, Sorting); 2] = [
            ("Mkeys/s", |keys| keys.sort_unstable()),
            ("radix_Mkeys/s", radix),
        ];
        let mut rows = Vec::new();
        for (metric, sort) in references {
            let mut own = SortedVec {
                start: start.clone(),
                keys: start.clone(),
                sort,
            };
            rows.push(row(self, bench, metric, work, (&mut field, &mut own))?);
        }
        Ok(rows)
    }
}

struct Scan {
    bits: u32,
}

struct ScannedField {
    values: Field<u32, 1>,
}

struct ScannedVec {
    values: Vec<u32>,
}

impl Contender for ScannedField {
    fn run(&mut self) -> Result<(), String> {
        prefix_sum(&self.values).map_err(text)?;
        self.values.world().synchronize().map_err(text)
    }
    fn result(&mut self) -> Result<Vec<f32>, String> {
        Ok(samples(&self.values.to_vec().map_err(text)?))
    }
}

impl Contender for ScannedVec {
    fn run(&mut self) -> Result<(), String> {
        let mut sum = 0_u32;
        for v in &mut self.values {
            sum = sum.wrapping_add(*v);
            *v = sum;
        }
        Ok(())
    }
    fn result(&mut self) -> Result<Vec<f32>, String> {
        Ok(samples(&self.values))
    }
}

impl Study for Scan {
    fn name(&self) -> &'static str {
        "prefix_sum"
    }
    fn size(&self) -> String {
        format!("2^{} u32", self.bits)
    }
    fn metric(&self) -> &'static str {
        "GB/s"
    }

    /// The reference is a loop on one thread.
    fn rows(&self, bench: &Bench) -> Result<Vec<Row>, String> {
        let values: Vec<u32> = (0..1 << self.bits).map(key).collect();
        let work = 8.0 * values.len() as f64 / 1e9;
        let world = bench.world(&[])?;
        let field = world.field("values", values.len() as u64).map_err(text)?;
        field.copy_from(&values).map_err(text)?;
        let mut ours = ScannedField { values: field };
        let mut own = ScannedVec { values };
        let sides = (
            &mut ours as &mut dyn Contender,
            &mut own as &mut dyn Contender,
        );
        Ok(vec![row(self, bench, "GB/s", work, sides)?])
    }
}

/// Steps of one sample.
const STEPS: u32 = 50;

struct Solver {
    n: usize,
}

#[kernel]
fn laplace(x: &Field<f32, 2>, y: &Field<f32, 2>) {
    for [i, j] in x {
        let around = x[[i - 1, j]] + x[[i + 1, j]] + x[[i, j - 1]] + x[[i, j + 1]];
        y[[i, j]] = 4.0 * x[[i, j]] - around;
    }
}

fn right_hand_side(n: usize) -> Vec<f32> {
    let value = |k: u32| key(k) as f32 / u32::MAX as f32 - 0.5;
    (0..(n * n) as u32).map(value).collect()
}

struct SolvedField {
    b: Field<f32, 2>,
    x: Field<f32, 2>,
}

impl Contender for SolvedField {
    fn run(&mut self) -> Result<(), String> {
        self.x.fill(0.0).map_err(text)?;
        let stop = Stop {
            tolerance: 0.0,
            max_steps: STEPS,
        };
        let report = conjugate_gradient(laplace, &self.b, &self.x, stop).map_err(text)?;
        match report.steps {
            STEPS => Ok(()),
            other => Err(format!("it took {other} steps")),
        }
    }
    fn result(&mut self) -> Result<Vec<f32>, String> {
        self.x.to_vec().map_err(text)
    }
}

/// Conjugate gradients in plain loops, on one thread.
struct SolvedVec {
    n: usize,
    b: Vec<f32>,
    x: Vec<f32>,
}

impl SolvedVec {
    fn apply(&self, x: &[f32], y: &mut [f32]) {
        let n = self.n;
        for i in 0..n {
            for j in 0..n {
                let k = i * n + j;
                let mut around = 0.0;
                if i > 0 {
                    around += x[k - n];
                }
                if i + 1 < n {
                    around += x[k + n];
                }
                if j > 0 {
                    around += x[k - 1];
                }
                if j + 1 < n {
                    around += x[k + 1];
                }
                y[k] = 4.0 * x[k] - around;
            }
        }
    }
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    let pairs = a.iter().zip(b);
    pairs.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

fn add(to: &mut [f32], factor: f64, by: &[f32]) {
    for (t, b) in to.iter_mut().zip(by) {
        *t += factor as f32 * b;
    }
}

impl Contender for SolvedVec {
    fn run(&mut self) -> Result<(), String> {
        let mut x = vec![0.0; self.b.len()];
        let (mut r, mut p) = (self.b.clone(), self.b.clone());
        let mut q = vec![0.0; self.b.len()];
        let mut square = dot(&r, &r);
        for _ in 0..STEPS {
            self.apply(&p, &mut q);
            let alpha = square / dot(&p, &q);
            add(&mut x, alpha, &p);
            add(&mut r, -alpha, &q);
            let next = dot(&r, &r);
            let beta = (next / square) as f32;
            for (p, r) in p.iter_mut().zip(&r) {
                *p = *r + beta * *p;
            }
            square = next;
        }
        self.x = x;
        Ok(())
    }
    fn result(&mut self) -> Result<Vec<f32>, String> {
        Ok(self.x.clone())
    }
}

impl Study for Solver {
    fn name(&self) -> &'static str {
        "conjugate_gradient"
    }
    fn size(&self) -> String {
        format!("{0}x{0}, {STEPS} steps", self.n)
    }
    fn metric(&self) -> &'static str {
        "steps/s"
    }

    /// The reference is plain loops on one thread.
    fn rows(&self, bench: &Bench) -> Result<Vec<Row>, String> {
        let b = right_hand_side(self.n);
        let world = bench.world(&[])?;
        let shape = [self.n as u64; 2];
        let mut ours = SolvedField {
            b: world.field("b", shape).map_err(text)?,
            x: world.field("x", shape).map_err(text)?,
        };
        ours.b.copy_from(&b).map_err(text)?;
        let (n, x) = (self.n, Vec::new());
        let mut own = SolvedVec { n, b, x };
        let sides = (
            &mut ours as &mut dyn Contender,
            &mut own as &mut dyn Contender,
        );
        Ok(vec![row(self, bench, "steps/s", f64::from(STEPS), sides)?])
    }
}
