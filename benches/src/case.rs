//! Workloads, and the contenders that run them.

use std::sync::Arc;

use wuji::World;

use crate::cpp::Cpp;
use crate::pool::Pool;

/// An implementation of a workload that can run repeatedly.
pub trait Contender {
    /// Runs one sample. The state carries over from the previous sample.
    fn run(&mut self) -> Result<(), String>;
    /// The current result, to compare contenders.
    fn result(&mut self) -> Result<Vec<f32>, String>;
}

/// One workload.
pub trait Case {
    fn name(&self) -> &'static str;
    /// For display: `2^24`, `4096x4096`.
    fn size(&self) -> String;
    /// Unit of the value in the table, such as `GB/s`.
    fn metric(&self) -> &'static str;
    /// The work of one sample, in units of the metric.
    fn work(&self) -> f64;
    /// The largest accepted [`difference`](Case::difference) of results.
    fn tolerance(&self) -> f32;
    /// The error of a result: by default the largest difference relative to the largest number.
    fn difference(&self, a: &[f32], b: &[f32]) -> f32 {
        difference(a, b)
    }
    /// The hand-written loop.
    fn reference(&self, pool: &Arc<Pool>) -> Box<dyn Contender>;
    /// The workload as Wuji kernels.
    fn wuji(&self, world: &World) -> wuji::Result<Box<dyn Contender>>;
    /// A variant without out-of-range accesses, for a world that does not check them.
    fn wuji_inside(&self, world: &World) -> wuji::Result<Box<dyn Contender>> {
        self.wuji(world)
    }
    /// The same loop in C++.
    fn cpp(&self, cpp: &Cpp, threads: usize) -> Result<Box<dyn Contender>, String>;
}

/// Largest difference relative to the largest number.
pub fn difference(a: &[f32], b: &[f32]) -> f32 {
    if a.len() != b.len() {
        return f32::INFINITY;
    }
    let scale = b.iter().fold(f32::MIN_POSITIVE, |m, x| m.max(x.abs()));
    a.iter().zip(b).fold(0.0, |m, (x, y)| {
        let d = (x - y).abs() / scale;
        if d.is_nan() {
            f32::INFINITY
        } else {
            f32::max(m, d)
        }
    })
}

/// A contender that consists of a state and two functions.
pub struct Made<S, R, V> {
    pub state: S,
    pub run: R,
    pub view: V,
}

impl<S, R: FnMut(&mut S), V: Fn(&S) -> Vec<f32>> Contender for Made<S, R, V> {
    fn run(&mut self) -> Result<(), String> {
        (self.run)(&mut self.state);
        Ok(())
    }
    fn result(&mut self) -> Result<Vec<f32>, String> {
        Ok((self.view)(&self.state))
    }
}

/// Makes a contender from a state, a function that runs a sample, and one that reads the result.
pub fn made<S: 'static>(
    state: S,
    run: impl FnMut(&mut S) + 'static,
    view: impl Fn(&S) -> Vec<f32> + 'static,
) -> Box<dyn Contender> {
    Box::new(Made { state, run, view })
}

/// Kernel launches, and a function that reads their result.
struct Launches<R, V> {
    run: R,
    view: V,
}

impl<R: FnMut() -> wuji::Result<()>, V: Fn() -> wuji::Result<Vec<f32>>> Contender
    for Launches<R, V>
{
    fn run(&mut self) -> Result<(), String> {
        (self.run)().map_err(|e| e.to_string())
    }
    fn result(&mut self) -> Result<Vec<f32>, String> {
        (self.view)().map_err(|e| e.to_string())
    }
}

/// Makes a contender from kernel launches.
pub fn launches(
    run: impl FnMut() -> wuji::Result<()> + 'static,
    view: impl Fn() -> wuji::Result<Vec<f32>> + 'static,
) -> Box<dyn Contender> {
    Box::new(Launches { run, view })
}

/// A deterministic hash of `i` in 0..1.
pub fn noise(i: usize) -> f32 {
    let mut x = (i as u64).wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((x ^ (x >> 31)) >> 40) as f32 / (1u64 << 24) as f32
}
