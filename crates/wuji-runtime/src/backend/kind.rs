//! The available backends.

use super::cpu::CpuBackend;
use super::cuda::CudaBackend;
use super::{Backend, BackendEnv, InterpreterBackend};
use crate::options::DeviceOptions;
use wuji_ir::Result;

/// Selects the backend of a device.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum BackendKind {
    /// Machine code on the processor.
    #[default]
    Cpu,
    /// The interpreter, which defines the semantics of kernels.
    Interpreter,
    /// An NVIDIA GPU, by its number.
    Cuda(u32),
}

impl BackendKind {
    pub(crate) fn create(
        self,
        options: &DeviceOptions,
        env: &BackendEnv,
    ) -> Result<Box<dyn Backend>> {
        Ok(match self {
            BackendKind::Cpu => Box::new(CpuBackend::new(options, env)?),
            BackendKind::Interpreter => Box::new(InterpreterBackend::new()),
            BackendKind::Cuda(ordinal) => Box::new(CudaBackend::new(ordinal, options, env)?),
        })
    }
}
