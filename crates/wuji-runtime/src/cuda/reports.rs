//! What kernels report on a device, on its way to the host.

use super::engine::Engine;
use super::memory::Buffer;
use crate::report::Collector;
use std::mem::size_of;
use std::sync::Arc;
use wuji_ir::Result;
use wuji_ir::module::{Module, SiteKind};
use wuji_llvm::cuda::{DeviceReports, REPORT_WORDS};

/// Memory that the kernels of one program report to.
#[derive(Debug)]
pub(crate) struct Reports {
    engine: Arc<Engine>,
    buffer: Buffer,
    sites: usize,
    room: u64,
}

/// Words for details of problems, of which there are few; and for lines that are printed.
const WORDS: u64 = 1 << 12;
const LINE_WORDS: u64 = 1 << 20;

const HEAD: usize = size_of::<DeviceReports>();

impl Reports {
    /// `None` when there is nothing to report.
    pub(crate) fn new(engine: &Arc<Engine>, module: &Module) -> Result<Option<Reports>> {
        let sites = module.sites.len();
        if sites == 0 {
            return Ok(None);
        }
        let prints = module.sites.values();
        let prints = prints
            .map(|s| &s.kind)
            .any(|k| matches!(k, SiteKind::Print(_)));
        // Each site has room for as much as it may tell.
        let room = WORDS.max(sites as u64 * 16 * (REPORT_WORDS + 8));
        let room = room + if prints { LINE_WORDS } else { 0 };
        let bytes = HEAD as u64 + 8 * (sites as u64 + room);
        let reports = Reports {
            engine: engine.clone(),
            buffer: engine.context().alloc(bytes)?,
            sites,
            room,
        };
        engine.zero(reports.address(), bytes)?;
        reports.reset()?;
        Ok(Some(reports))
    }

    pub(crate) fn address(&self) -> u64 {
        self.buffer.address()
    }

    /// Nothing was reported yet.
    fn reset(&self) -> Result<()> {
        let head = DeviceReports {
            used: 0,
            room: self.room,
            told: self.engine.told(),
            failed: 0,
        };
        let mut bytes = vec![0; HEAD + 8 * self.sites];
        let words = [head.used, head.room, head.told, head.failed];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        self.engine.send(self.address(), &bytes)
    }

    /// Hands everything to the collector. The stream has done all its work.
    pub(crate) fn drain(&self, module: &Module, collector: &Collector) -> Result<()> {
        let head = self.words(0, HEAD / 8 + self.sites)?;
        let counts = &head[HEAD / 8..];
        if counts.iter().all(|c| *c == 0) {
            return Ok(());
        }
        let written = head[0].min(self.room) as usize;
        let words = self.words(HEAD + 8 * self.sites, written)?;
        collector.absorb(module, counts, &words);
        // Where something was, nothing may seem to be.
        let first = self.address() + (HEAD + 8 * self.sites) as u64;
        if written > 0 {
            self.engine.zero(first, 8 * written as u64)?;
        }
        self.reset()
    }

    fn words(&self, at: usize, count: usize) -> Result<Vec<u64>> {
        let mut bytes = vec![0; 8 * count];
        if count > 0 {
            self.engine.fetch(&mut bytes, self.address() + at as u64)?;
        }
        let words = bytes.chunks_exact(8);
        Ok(words
            .map(|w| w.try_into().map_or(0, u64::from_le_bytes))
            .collect())
    }
}
