//! References in CUDA: `benches/gpu/paper.cu`, included as PTX.

use wuji_tools::gpu_measure::Reference;

use crate::measure::median;

const PTX: &str = include_str!("../../gpu/paper.ptx");

/// Lines of code of a kernel.
pub fn lines(anchor: &str) -> usize {
    super::lines::count(include_str!("../../gpu/paper.cu"), &[anchor])
}

/// Brings a result into the order of ours.
type View = dyn Fn(&[f32]) -> Vec<f32>;

/// A kernel with its arguments in device memory.
pub struct Cuda {
    pub device: Reference,
    /// The name of the kernel, the number of blocks, threads per block, and arguments.
    pub launch: (&'static str, u32, u32, Vec<u64>),
    /// Where its result is, and how many floats there are.
    pub output: (u64, usize),
    pub view: Box<View>,
}

impl Cuda {
    /// The device, with the kernels loaded.
    pub fn device() -> wuji::Result<Reference> {
        Reference::new(0, PTX)
    }

    /// The median time of some launches, in seconds, by device events.
    pub fn time(&self, runs: usize) -> wuji::Result<f64> {
        let (kernel, blocks, threads, words) = &self.launch;
        let mut times = Vec::new();
        for _ in 0..runs + 2 {
            // SAFETY: the arguments are those of the kernel, in memory of this device.
            times.push(unsafe { self.device.launch(kernel, *blocks, *threads, words) }?);
        }
        Ok(median(&mut times[2..]))
    }

    pub fn result(&self) -> wuji::Result<Vec<f32>> {
        let (at, count) = self.output;
        Ok((self.view)(&self.device.download::<f32>(at, count)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_are_in_the_file() {
        for kernel in ["fem", "conv"] {
            assert!(
                PTX.contains(&format!(".visible .entry {kernel}(")),
                "{kernel}"
            );
            let source = include_str!("../../gpu/paper.cu");
            assert!(source.contains(&format!(" {kernel}(const")), "{kernel}");
            assert!(lines(kernel) > 20, "{kernel}");
        }
    }
}
