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

/// Runs both once from the same start and compares the results.
pub fn agree(
    name: &str,
    a: &mut dyn Contender,
    b: &mut dyn Contender,
    tolerance: f32,
) -> Result<(), String> {
    a.run()?;
    b.run()?;
    compare(name, &a.result()?, &b.result()?, tolerance).map(|_| ())
}

/// Compares two results. Returns the largest difference, relative to the largest number; an error shows where they differ.
pub fn compare(name: &str, found: &[f32], expected: &[f32], tolerance: f32) -> Result<f32, String> {
    let far = difference(found, expected);
    if far <= tolerance {
        return Ok(far);
    }
    let scale = expected.iter().fold(0.0f32, |m, x| m.max(x.abs()));
    let mut wrong = found
        .iter()
        .zip(expected)
        .enumerate()
        .filter(|(_, (a, b))| (*a - *b).is_nan() || (*a - *b).abs() > tolerance * scale);
    let shown = wrong.next().map_or(String::new(), |(at, (a, b))| {
        format!("; first at {at}: {a:e} instead of {b:e}")
    });
    Err(format!(
        "{name}: the results differ by {far:.1e}, more than {tolerance:.1e}: {} of {} numbers (expected {}), the largest is {scale:e}{shown}",
        wrong.count() + 1,
        found.len(),
        expected.len(),
    ))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_shown() {
        let expected = [1.0, 2.0, 4.0];
        assert_eq!(compare("a", &[1.0, 2.0, 4.25], &expected, 0.1), Ok(0.0625));
        let wrong = compare("a", &[1.0, 3.0, f32::NAN], &expected, 0.1);
        let shown = "a: the results differ by inf, more than 1.0e-1: 2 of 3 numbers (expected 3), the largest is 4e0; \
                     first at 1: 3e0 instead of 2e0";
        assert_eq!(wrong, Err(shown.into()));
        assert!(compare("a", &[1.0], &expected, 0.1).is_err());
    }
}
