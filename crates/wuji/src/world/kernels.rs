//! The kernels of a world: loading, finding and finishing them.

use super::{World, lock};
use crate::launch::{Compiled, Key};
use crate::services::ServiceKey;
use std::sync::{Arc, PoisonError, Weak};
use wuji_compile::Options;
use wuji_compile::passes::split_fields;
use wuji_ir::Result;
use wuji_ir::module::Module;
use wuji_runtime::{CodeTime, Instance, Program};

impl World {
    /// Waits for background compilation: every kernel launched so far then runs its best code. Benchmarks call this after a
    /// first run; other programs need not.
    ///
    /// Returns the first compilation error that no launch has returned yet. The kernels can still be launched.
    ///
    /// ```
    /// use wuji::prelude::*;
    /// # fn main() -> wuji::Result<()> {
    /// #[kernel]
    /// fn double(x: &Field<f32, 1>) {
    ///     for [i] in x {
    ///         x[[i]] *= 2.0;
    ///     }
    /// }
    /// let world = World::cpu()?;
    /// let x = world.field::<f32, 1>("x", 1000)?;
    /// double(&x)?; // first tier
    /// world.finish_compiling()?;
    /// double(&x)?; // best tier
    /// # Ok(())
    /// # }
    /// ```
    pub fn finish_compiling(&self) -> Result<()> {
        self.run_pending()?;
        let kernels = self.inner.kernels.read();
        let kernels = kernels.unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<Arc<Compiled>> = kernels.values().cloned().collect();
        drop(kernels);
        let services = self.inner.services.read();
        let services = services.unwrap_or_else(PoisonError::into_inner);
        all.extend(services.values().cloned());
        drop(services);
        let loaded = lock(&self.inner.loaded);
        all.extend(loaded.1.iter().filter_map(Weak::upgrade));
        drop(loaded);
        if self.specialization().is_some() {
            for compiled in &all {
                compiled.specialization().finish(self, compiled);
            }
            let special = all.iter().filter_map(|c| c.specialization().code());
            all.extend(special.collect::<Vec<_>>());
        }
        let outcomes: Vec<Result<()>> = all
            .iter()
            .map(|c| self.inner.device.finish_compiling(c.program()))
            .collect();
        outcomes.into_iter().collect()
    }

    pub(crate) fn kernel(&self, key: &Key) -> Option<Arc<Compiled>> {
        let kernels = self.inner.kernels.read();
        let kernels = kernels.unwrap_or_else(PoisonError::into_inner);
        kernels.get(key).cloned()
    }

    /// Inserts compiled code. If two threads compiled it at once, both use the first.
    pub(crate) fn enter_kernel(&self, key: Key, compiled: Compiled) -> Arc<Compiled> {
        let kernels = self.inner.kernels.write();
        let mut kernels = kernels.unwrap_or_else(PoisonError::into_inner);
        kernels
            .entry(key)
            .or_insert_with(|| Arc::new(compiled))
            .clone()
    }

    pub(crate) fn service(&self, key: &ServiceKey) -> Option<Arc<Compiled>> {
        let services = self.inner.services.read();
        let services = services.unwrap_or_else(PoisonError::into_inner);
        services.get(key).cloned()
    }

    pub(crate) fn enter_service(&self, key: ServiceKey, compiled: Compiled) -> Arc<Compiled> {
        let services = self.inner.services.write();
        let mut services = services.unwrap_or_else(PoisonError::into_inner);
        services
            .entry(key)
            .or_insert_with(|| Arc::new(compiled))
            .clone()
    }

    /// A kernel given as a module, with memory of its own, on the device of this world: how tools
    /// run textual IR.
    pub fn instance(&self, module: Module) -> Result<Instance<'_>> {
        Instance::new(&self.inner.device, module, &self.inner.options)
    }

    /// Loads a kernel that a frontend has built as a module.
    pub(crate) fn load_kernel(&self, mut module: Module, first: &[u32]) -> Result<Arc<Compiled>> {
        split_fields::split(&mut module);
        let compiled = Compiled::of(self.load_program(module.clone())?, first);
        let compiled = Arc::new(compiled.with_source(module));
        let mut loaded = lock(&self.inner.loaded);
        loaded.0 += 1;
        if loaded.1.len() == loaded.1.capacity() {
            loaded.1.retain(|k| k.strong_count() > 0);
        }
        loaded.1.push(Arc::downgrade(&compiled));
        Ok(compiled)
    }

    /// In a lazy world, a kernel that may only run fused with others gets machine code when it first runs by itself.
    pub(crate) fn load_program(&self, module: Module) -> Result<Program> {
        self.ensure_open()?;
        let when = match self.lazy() {
            Some(_) => CodeTime::FirstRun,
            None => CodeTime::Load,
        };
        self.inner.device.load_at(module, &self.inner.options, when)
    }

    /// Loads a service. Services sort their results, so the order of iterations does not matter.
    pub(crate) fn load_service(&self, module: Module, when: CodeTime) -> Result<Program> {
        let options = Options {
            deterministic: false,
            ..self.inner.options.clone()
        };
        self.inner.device.load_at(module, &options, when)
    }
}
