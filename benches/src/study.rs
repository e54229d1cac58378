//! Benchmarks that need more than one pair of contenders and produce several rows.

use std::sync::Arc;

use wuji::{Tier, World, WorldBuilder};

use crate::case::{self, Contender};
use crate::measure::{Clock, Row, interleave};
use crate::pool::Pool;

/// A set of related measurements.
pub trait Study {
    fn name(&self) -> &'static str;
    /// For display: `2^24`, `4096x4096`.
    fn size(&self) -> String;
    /// Unit of the values in the first row.
    fn metric(&self) -> &'static str;
    fn rows(&self, bench: &Bench) -> Result<Vec<Row>, String>;
}

/// How to measure.
#[derive(Debug)]
pub struct Bench {
    pub pool: Arc<Pool>,
    pub threads: usize,
    pub pairs: usize,
    pub clock: Clock,
    /// Optimizations that are disabled in all worlds.
    pub without: Vec<String>,
}

/// One side of a comparison: a contender and the work of one sample.
pub struct Side<'a> {
    pub contender: &'a mut dyn Contender,
    pub work: f64,
}

fn built(builder: WorldBuilder) -> Result<World, String> {
    builder.build().map_err(|e| e.to_string())
}

impl Bench {
    /// A fresh world, with some optimizations disabled.
    pub fn world(&self, without: &[&str]) -> Result<World, String> {
        self.world_with(self.threads, without)
    }

    /// The same with another number of threads.
    pub fn world_with(&self, threads: usize, without: &[&str]) -> Result<World, String> {
        built(self.builder(threads, without))
    }

    /// A fresh lazy world, with some rules disabled.
    pub fn lazy_world(&self, without: &[&str]) -> Result<World, String> {
        built(self.builder(self.threads, without).lazy(true))
    }

    /// A world that has the best code from the first launch on.
    fn builder(&self, threads: usize, without: &[&str]) -> WorldBuilder {
        let never = self.without.iter().map(String::as_str);
        let without: Vec<&str> = without.iter().copied().chain(never).collect();
        World::builder()
            .cache(wuji::CacheChoice::Off)
            .threads(threads)
            .tier(Tier::Best)
            .without(&without)
    }

    /// A row that compares two contenders of different work: the ratio is that of their rates.
    pub fn compare(
        &self,
        study: &dyn Study,
        metric: &str,
        first: Side<'_>,
        second: Side<'_>,
    ) -> Result<Row, String> {
        let pair = interleave(first.contender, second.contender, self.pairs, self.clock)?;
        Ok(Row {
            workload: study.name().into(),
            size: study.size(),
            backend: "cpu".into(),
            metric: metric.into(),
            value: first.work / pair.first_s,
            reference: second.work / pair.second_s,
            ratio: pair.ratio * first.work / second.work,
            compile_ms: None,
        })
    }
}

/// Runs both once from the same start and compares the results.
pub fn agree(
    study: &dyn Study,
    a: &mut dyn Contender,
    b: &mut dyn Contender,
    tolerance: f32,
) -> Result<(), String> {
    case::agree(study.name(), a, b, tolerance)
}
