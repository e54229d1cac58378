//! Times of the applications: ours against the references, and ours with parts of the compiler disabled.

use std::sync::Arc;

use wuji::World;

use super::{Make, Size};
use crate::case::Contender;
use crate::measure::{Clock, Pair, interleave, median};
use crate::pool::Pool;

/// Makes a fresh world, without some passes, that has the best code from the first launch on.
pub type Worlds<'a> = dyn Fn(Threads, &[&str]) -> Result<World, String> + 'a;

/// Where and how to measure.
pub struct Request<'a> {
    pub size: Size,
    /// Interleaved pairs per row.
    pub pairs: usize,
    pub clock: Clock,
    pub json: Option<&'a str>,
    /// The threads of the references.
    pub pool: Arc<Pool>,
    pub worlds: &'a Worlds<'a>,
    pub device: Device,
}

/// The number of threads of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    All,
    One,
}

/// The device of the worlds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    Cpu,
    Gpu,
}

/// A program with some parts of the compiler disabled, or with another layout.
#[derive(Clone, Copy)]
pub struct Variant {
    pub name: &'static str,
    pub without: &'static [&'static str],
    pub threads: Threads,
    pub make: Make,
}

/// An application in its own world.
pub struct Running {
    world: World,
    pub contender: Box<dyn Contender>,
}

/// What compilation gave, over all kernels of a world.
#[derive(Clone, Copy, Debug, Default)]
pub struct Code {
    pub compile_ms: f64,
    pub kilobytes: f64,
}

impl Request<'_> {
    pub fn start(&self, variant: &Variant) -> Result<Running, String> {
        let world = (self.worlds)(variant.threads, variant.without)?;
        let contender = (variant.make)(&world, self.size).map_err(|e| e.to_string())?;
        Ok(Running { world, contender })
    }

    /// Interleaved times of ours and of a reference.
    pub fn against(
        &self,
        ours: &mut Running,
        reference: &mut dyn Contender,
    ) -> Result<Pair, String> {
        interleave(&mut *ours.contender, reference, self.pairs, self.clock)
    }

    /// Interleaved times of two variants; on a GPU, device times of one after the other.
    pub fn compare(&self, a: &mut Running, b: &mut Running) -> Result<Pair, String> {
        match self.device {
            Device::Cpu => self.against(a, &mut *b.contender),
            Device::Gpu => {
                let (first_s, second_s) = (a.device_time(self.pairs)?, b.device_time(self.pairs)?);
                Ok(Pair {
                    first_s,
                    second_s,
                    ratio: second_s / first_s,
                })
            }
        }
    }
}

impl Running {
    /// Compile time and code size of everything that has run so far.
    pub fn code(&self) -> Code {
        let kernels = self.world.kernel_history();
        let all = kernels.iter().flat_map(|kernel| &kernel.compilations);
        all.fold(Code::default(), |code, compilation| Code {
            compile_ms: code.compile_ms + compilation.time.as_secs_f64() * 1e3,
            kilobytes: code.kilobytes + compilation.bytes as f64 / 1024.0,
        })
    }

    /// The median time of the tasks of a run, in seconds, by the profiler: device events on a GPU.
    pub fn device_time(&mut self, runs: usize) -> Result<f64, String> {
        let times = self.by_kernel(runs)?;
        Ok(times.iter().map(|(_, seconds)| seconds).sum())
    }

    /// The median time of each kernel in a run, in seconds.
    pub fn by_kernel(&mut self, runs: usize) -> Result<Vec<(String, f64)>, String> {
        for _ in 0..2 {
            self.contender.run()?;
        }
        self.world.finish_compiling().map_err(|e| e.to_string())?;
        let mut times: Vec<(String, Vec<f64>)> = Vec::new();
        for _ in 0..runs {
            self.world.profiler().clear();
            self.world.profiler().start();
            self.contender.run()?;
            self.world.profiler().stop();
            for kernel in self.world.kernel_history() {
                let spent: f64 = kernel.tasks.iter().map(|t| t.total.as_secs_f64()).sum();
                match times.iter_mut().find(|(name, _)| *name == kernel.name) {
                    Some((_, times)) => times.push(spent),
                    None => times.push((kernel.name, vec![spent])),
                }
            }
        }
        let of = |(name, mut times): (String, Vec<f64>)| (name, median(&mut times));
        Ok(times.into_iter().map(of).collect())
    }
}
