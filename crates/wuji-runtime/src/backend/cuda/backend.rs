//! The CUDA backend, as a device uses it.

use super::captured;
use super::context::DeviceInfo;
use super::engine::CudaEngine;
use super::launch;
use super::load::CudaLoader;
use super::program::CudaProgram;
use super::tree::DeviceTree;
use crate::array::Owner;
use crate::backend::{
    Backend, BackendEnv, Capabilities, CapturedGraph, CodeTime, LaunchRequest, Loaded,
};
use crate::cache::Cache;
use crate::launch::{Bindings, Outcome};
use crate::log::Level;
use crate::memory::Storage;
use crate::options::DeviceOptions;
use crate::program::Program;
use std::sync::Arc;
use wuji_compile::Options;
use wuji_ir::Result;
use wuji_ir::layout::{TreeData, TreeMemory};
use wuji_ir::module::Module;

/// Compiles kernels to PTX, and runs them on an NVIDIA GPU.
#[derive(Debug)]
pub(crate) struct CudaBackend {
    loader: CudaLoader,
}

impl CudaBackend {
    pub(crate) fn new(
        ordinal: u32,
        options: &DeviceOptions,
        env: &BackendEnv,
    ) -> Result<CudaBackend> {
        let libdevice = options.libdevice.read()?;
        if let Some(library) = &libdevice {
            let path = library.path().display();
            env.log.say(Level::Info, || {
                format!("mathematical functions of `{path}`")
            });
        }
        let limit = options.time_limit;
        let engine = CudaEngine::new(ordinal as usize, &env.print_sink, &env.stop, limit)?;
        let cache = Cache::open(&options.cache, options.cache_limit, &env.log)?;
        Ok(CudaBackend {
            loader: CudaLoader {
                engine,
                libdevice,
                cache: cache.map(Arc::new),
                env: env.clone(),
            },
        })
    }

    fn engine(&self) -> &Arc<CudaEngine> {
        &self.loader.engine
    }
}

impl Backend for CudaBackend {
    fn name(&self) -> String {
        format!("Cuda({})", self.engine().context().info().ordinal)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            threads: 1,
            owner: Owner::Cuda(self.engine().context().info().ordinal as u32),
            asynchronous: true,
            graphs: true,
        }
    }

    fn allows(&self, options: &Options) -> Result<()> {
        CudaLoader::allows(options)
    }

    fn load(&self, module: Module, options: &Options, when: CodeTime) -> Result<Loaded> {
        self.loader.load(module, options, when)
    }

    fn allocate(&self, size: u64) -> Result<Box<dyn Storage>> {
        Ok(Box::new(DeviceTree::plain(self.engine(), size)?))
    }

    fn allocate_tree(
        &self,
        tree: &TreeData,
        layout: &TreeMemory,
        limit: u64,
    ) -> Result<Box<dyn Storage>> {
        Ok(Box::new(DeviceTree::new(
            self.engine(),
            tree,
            layout,
            limit,
        )?))
    }

    fn run(&self, request: &LaunchRequest<'_>) -> Result<Outcome> {
        let program: &CudaProgram = request.executable()?;
        let outcome = launch::run(request, program);
        for memory in request.bindings.trees {
            if let Some(tree) = memory.storage_if::<DeviceTree>() {
                memory.count(tree.used());
            }
        }
        outcome
    }

    fn fits_graph(&self, program: &Program, bindings: &Bindings<'_>) -> Result<()> {
        captured::fits(program, bindings)
    }

    fn capture(
        &self,
        steps: &[(&Program, Bindings<'_>)],
        seed: u64,
    ) -> Result<Option<Box<dyn CapturedGraph>>> {
        let captured = captured::capture(self.engine(), steps, seed)?;
        Ok(captured.map(|graph| Box::new(graph) as Box<dyn CapturedGraph>))
    }

    fn synchronize(&self) -> Result<()> {
        self.engine().finish()
    }

    fn is_idle(&self) -> bool {
        self.engine().is_settled()
    }

    fn gpu(&self) -> Option<&DeviceInfo> {
        Some(self.engine().context().info())
    }

    fn stream(&self) -> Option<usize> {
        Some(self.engine().stream.raw())
    }

    unsafe fn wait_for_stream(&self, raw: usize) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        unsafe { self.engine().wait_for_stream(raw) }
    }

    unsafe fn stream_waits(&self, raw: usize) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        unsafe { self.engine().stream_waits(raw) }
    }

    fn cache(&self) -> Option<&Cache> {
        self.loader.cache.as_deref()
    }
}
