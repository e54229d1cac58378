//! The cache slot of one kernel.

use super::{Cache, Entry, Key};
use crate::log::Log;
use crate::tier::Tier;
use std::sync::Arc;
use wuji_compile::{Lowered, Options};
use wuji_ir::Result;
use wuji_ir::module::Module;
use wuji_llvm::Object;

/// The cache slot of one kernel.
#[derive(Clone, Debug)]
pub(crate) struct CacheSlot {
    pub(crate) cache: Arc<Cache>,
    pub(crate) key: Key,
}

impl CacheSlot {
    /// The slot of a module, unless there is no cache or the environment requests compiler output. `target` describes
    /// the target of the code.
    pub(crate) fn of(
        cache: Option<&Arc<Cache>>,
        module: &Module,
        options: &Options,
        target: impl FnOnce() -> Result<String>,
    ) -> Result<Option<CacheSlot>> {
        let Some(cache) = cache.filter(|_| !compiler_is_observed()) else {
            return Ok(None);
        };
        Ok(Some(CacheSlot {
            cache: cache.clone(),
            key: Key::of(module, options, &target()?),
        }))
    }

    /// Stores the code.
    pub(crate) fn keep(&self, lowered: &Lowered, object: &Object, tier: Tier, log: &Log) {
        let entry = Entry {
            launch: lowered.module().without_bodies(),
            object: object.clone(),
            remarks: lowered.remarks().to_vec(),
        };
        self.cache.put(&self.key, tier, &entry, log);
    }
}

/// Whether the environment requests compiler output, so that the compiler has to run.
fn compiler_is_observed() -> bool {
    ["WUJI_PRINT_AFTER", "WUJI_EXPLAIN", "WUJI_PERF", "WUJI_GDB"]
        .iter()
        .any(|name| std::env::var_os(name).is_some_and(|v| !v.is_empty() && v != "0"))
}
