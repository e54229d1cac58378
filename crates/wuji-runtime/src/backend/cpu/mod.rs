//! The CPU backend: machine code on the threads of the host.
//!
//! - `load`: code from the cache, or from the compiler
//! - `program`, `storage`: the backend's data of a program and of memory
//! - `launch`: one launch
//! - `pool`: the worker threads
//! - `tiered`: code that is replaced by better code while it runs
//! - `versions`, `trial`: which version of a task's code is faster, by measurement
//! - `background`: the thread that compiles better code
//! - `copies`, `array_copies`: privatized copies of trees and arrays

mod array_copies;
mod background;
pub(crate) mod copies;
mod launch;
mod load;
pub mod pool;
mod program;
mod storage;
pub(crate) mod tiered;
mod trial;
pub(crate) mod versions;
#[cfg(test)]
mod versions_tests;

use super::{Backend, BackendEnv, Capabilities, CodeTime, LaunchRequest, Loaded};
use crate::array::Owner;
use crate::cache::Cache;
use crate::launch::Outcome;
use crate::memory::Storage;
use crate::options::DeviceOptions;
use crate::program::Program;
use background::Background;
use launch::NativeLaunch;
use load::Loader;
use pool::Pool;
use program::NativeProgram;
use std::sync::Arc;
use storage::CpuStorage;

use wuji_compile::Options;
use wuji_ir::Result;
use wuji_ir::layout::{TreeData, TreeMemory};
use wuji_ir::module::Module;
use wuji_llvm::{Jit, JitOptions};

/// Compiles kernels to machine code, and runs them on the processor.
#[derive(Debug)]
pub(crate) struct CpuBackend {
    loader: Loader,
    pool: Pool,
    background: Background,
}

impl CpuBackend {
    pub(crate) fn new(options: &DeviceOptions, env: &BackendEnv) -> Result<CpuBackend> {
        let jit = Arc::new(Jit::new(&JitOptions {
            effort: env.tier.first_effort(),
            ..JitOptions::default()
        })?);
        let pool = Pool::new(env.threads)?;
        let background = Background::new(jit.clone(), env);
        let cache = Cache::open(&options.cache, options.cache_limit, &env.log)?;
        let loader = Loader {
            jit,
            cache: cache.map(Arc::new),
            env: env.clone(),
        };
        Ok(CpuBackend {
            loader,
            pool,
            background,
        })
    }
}

impl Backend for CpuBackend {
    fn name(&self) -> String {
        "Cpu".to_owned()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            threads: self.loader.env.threads,
            owner: Owner::Host,
            asynchronous: false,
            graphs: false,
        }
    }

    fn load(&self, module: Module, options: &Options, when: CodeTime) -> Result<Loaded> {
        self.loader.load(module, options, when)
    }

    fn finish_compiling(&self, program: &Program) -> Result<()> {
        let native: &NativeProgram = program.executable()?;
        self.background.finish(&native.code)
    }

    fn allocate(&self, _size: u64) -> Result<Box<dyn Storage>> {
        Ok(Box::new(CpuStorage::default()))
    }

    fn allocate_tree(
        &self,
        _tree: &TreeData,
        _layout: &TreeMemory,
        _limit: u64,
    ) -> Result<Box<dyn Storage>> {
        Ok(Box::new(CpuStorage::default()))
    }

    fn run(&self, launch: &LaunchRequest<'_>) -> Result<Outcome> {
        let native: &NativeProgram = launch.executable()?;
        // The sparse trees of the launch share the remaining memory.
        let trees = native.sparse.iter().flatten().count() as u64;
        let sparse = || {
            let all = launch.bindings.trees.iter().zip(&native.sparse);
            all.filter_map(|(memory, plan)| Some((memory, plan.as_ref()?)))
        };
        for (memory, plan) in sparse() {
            plan.allow(memory, launch.memory_left / trees);
        }
        let outcome = NativeLaunch {
            pool: &self.pool,
            background: &self.background,
            threads: self.loader.env.threads as u64,
            request: launch,
            native,
        }
        .run();
        for (memory, plan) in sparse() {
            memory.count(plan.used(memory));
        }
        outcome
    }

    fn close(&self) {
        self.background.close();
        self.pool.close();
    }

    fn cache(&self) -> Option<&Cache> {
        self.loader.cache.as_deref()
    }
}
