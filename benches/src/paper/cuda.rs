//! References in CUDA: the sources in `benches/gpu`, included as PTX.

use std::collections::BTreeMap;

use wuji_tools::gpu_measure::{Launch, Reference};

use crate::measure::median;

/// A source, and what NVRTC made of it.
pub struct Kernels {
    source: &'static str,
    ptx: &'static str,
}

macro_rules! kernels {
    ($($(#[$doc:meta])* $name:ident = $file:literal;)*) => {
        $(
            $(#[$doc])*
            pub const $name: Kernels = Kernels {
                source: include_str!(concat!("../../gpu/", $file, ".cu")),
                ptx: include_str!(concat!("../../gpu/", $file, ".ptx")),
            };
        )*

        const ALL: &[Kernels] = &[$($name),*];
    };
}

kernels! {
    /// The elasticity operator and the convolution.
    OPERATORS = "paper";
    MPM = "mpm";
    MGPCG = "mgpcg";
    VOLUME = "volume";
}

/// Lines of code of a reference.
pub fn lines(anchor: &str) -> usize {
    let of = |kernels: &Kernels| super::lines::count(kernels.source, &[anchor]);
    ALL.iter().map(of).sum()
}

/// Runs a reference once.
type Run = dyn FnMut(&mut Queue<'_>) -> wuji::Result<()>;
/// Reads a result, in the order of ours.
type View = dyn Fn(&Reference) -> wuji::Result<Vec<f32>>;

/// Kernels with their state in device memory.
pub struct Cuda {
    pub device: Reference,
    pub run: Box<Run>,
    pub view: Box<View>,
}

/// The launches of a run, and the device time that they take.
pub struct Queue<'a> {
    pub device: &'a Reference,
    seconds: f64,
    /// The time of each kernel, if they are timed one by one.
    kernels: Option<BTreeMap<&'static str, f64>>,
}

/// An argument of a kernel, in the low bytes of a word.
pub fn float(value: f32) -> u64 {
    u64::from(value.to_bits())
}

pub fn launch(kernel: &'static str, blocks: u32, threads: u32, words: &[u64]) -> Launch<'static> {
    Launch {
        kernel,
        blocks,
        threads,
        words: words.to_vec(),
    }
}

impl Queue<'_> {
    /// Runs kernels one after the other.
    ///
    /// # Safety
    /// Their arguments are in memory of the device.
    pub unsafe fn launch(&mut self, launches: &[Launch<'static>]) -> wuji::Result<()> {
        match &mut self.kernels {
            // SAFETY: guaranteed by the caller.
            None => self.seconds += unsafe { self.device.launch_all(launches) }?,
            Some(kernels) => {
                for one in launches {
                    // SAFETY: as above.
                    let seconds = unsafe { self.device.launch_all(std::slice::from_ref(one)) }?;
                    *kernels.entry(one.kernel).or_default() += seconds;
                }
            }
        }
        Ok(())
    }
}

impl Cuda {
    /// The device, with kernels loaded.
    pub fn device(kernels: &Kernels) -> wuji::Result<Reference> {
        Reference::new(0, kernels.ptx)
    }

    /// One launch, and where its result is.
    pub fn one(
        device: Reference,
        only: Launch<'static>,
        (at, count): (u64, usize),
        view: impl Fn(&[f32]) -> Vec<f32> + 'static,
    ) -> Cuda {
        Cuda {
            device,
            // SAFETY: the arguments are those of the kernel, in memory of this device.
            run: Box::new(move |queue| unsafe { queue.launch(std::slice::from_ref(&only)) }),
            view: Box::new(move |device| Ok(view(&device.download::<f32>(at, count)?))),
        }
    }

    /// Runs once; device time in seconds.
    pub fn run(&mut self) -> wuji::Result<f64> {
        let mut queue = Queue {
            device: &self.device,
            seconds: 0.0,
            kernels: None,
        };
        (self.run)(&mut queue)?;
        Ok(queue.seconds)
    }

    /// The median time of some runs, in seconds, by device events.
    pub fn time(&mut self, runs: usize) -> wuji::Result<f64> {
        let mut times = Vec::new();
        for _ in 0..runs + 2 {
            times.push(self.run()?);
        }
        Ok(median(&mut times[2..]))
    }

    /// Runs once; the time of each kernel, with the gaps between them left out.
    pub fn by_kernel(&mut self) -> wuji::Result<BTreeMap<&'static str, f64>> {
        let mut queue = Queue {
            device: &self.device,
            seconds: 0.0,
            kernels: Some(BTreeMap::new()),
        };
        (self.run)(&mut queue)?;
        Ok(queue.kernels.unwrap_or_default())
    }

    pub fn result(&self) -> wuji::Result<Vec<f32>> {
        (self.view)(&self.device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of the kernels in a source.
    fn entries(source: &'static str) -> Vec<&'static str> {
        let lines = source.lines().filter(|l| l.contains("__global__ void"));
        let words = |line: &'static str| line.split(['(', ' ', ')']);
        let name = |word: &&str| word.starts_with(|c: char| c.is_ascii_lowercase());
        lines
            .filter_map(|line| {
                words(line)
                    .filter(name)
                    .find(|w| !matches!(*w, "extern" | "void"))
            })
            .collect()
    }

    #[test]
    fn the_kernels_of_a_source_are_in_its_ptx() {
        for kernels in ALL {
            let names = entries(kernels.source);
            assert!(!names.is_empty());
            for name in &names {
                let entry = format!(".visible .entry {name}(");
                assert!(kernels.ptx.contains(&entry), "{name}");
            }
            assert_eq!(kernels.ptx.matches(".visible .entry").count(), names.len());
        }
        for application in super::super::ALL {
            assert!(lines(application.kernels) > 20, "{}", application.name);
        }
    }
}
