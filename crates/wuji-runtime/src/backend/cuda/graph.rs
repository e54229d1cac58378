//! CUDA graphs: work that is captured once and launched many times.

use super::context::CudaContext;
use super::library::{RawGraph, RawGraphExec, call};
use super::stream::CudaStream;
use std::sync::Arc;
use wuji_ir::Result;

/// Captured work that can be launched as a whole.
#[derive(Debug)]
pub struct CudaGraph {
    context: Arc<CudaContext>,
    raw: RawGraphExec,
}

impl Drop for CudaGraph {
    fn drop(&mut self) {
        if let Ok(_entered) = self.context.enter() {
            // SAFETY: no other code has it; the driver finishes a launch in flight first.
            let _ = unsafe { call!(self.context.driver, cuGraphExecDestroy(self.raw)) };
        }
    }
}

impl CudaStream {
    /// Captures the work that `record` enqueues as a graph, without running it. During the capture the stream cannot be
    /// synchronized, and this thread cannot allocate memory.
    pub fn capture(&self, record: impl FnOnce(&CudaStream) -> Result<()>) -> Result<CudaGraph> {
        /// `CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`: other threads are not restricted.
        const THREAD_LOCAL: i32 = 1;
        let context = &self.context;
        let _entered = context.enter()?;
        // SAFETY: the stream lives.
        unsafe { call!(context.driver, cuStreamBeginCapture(self.raw, THREAD_LOCAL)) }?;
        let reported = record(self);
        let mut graph = RawGraph::NULL;
        // SAFETY: it writes a handle. It is also called if `record` fails, because the stream is unusable until then.
        let ended = unsafe { call!(context.driver, cuStreamEndCapture(self.raw, &mut graph)) };
        let mut raw = RawGraphExec::NULL;
        let made = reported.and_then(|()| {
            ended?;
            // SAFETY: the graph was just captured; it writes a handle.
            unsafe { call!(context.driver, cuGraphInstantiate(&mut raw, graph, 0)) }
        });
        if graph != RawGraph::NULL {
            // SAFETY: the executable graph does not need it.
            let _ = unsafe { call!(context.driver, cuGraphDestroy(graph)) };
        }
        made?;
        Ok(CudaGraph {
            context: context.clone(),
            raw,
        })
    }

    /// Launches a graph.
    ///
    /// # Safety
    /// As for each captured operation: memory and code must exist until it is done.
    pub unsafe fn launch_graph(&self, graph: &CudaGraph) -> Result<()> {
        let _entered = self.context.enter()?;
        // SAFETY: both are live; the rest is guaranteed by the caller.
        unsafe { call!(self.context.driver, cuGraphLaunch(graph.raw, self.raw)) }
    }
}
