//! Graphs: work that is captured once and launched many times.

use super::context::CudaContext;
use super::library::{RawGraph, RawGraphExec, call};
use super::stream::CudaStream;
use std::sync::Arc;
use wuji_ir::Result;

/// Work that was captured and can be launched as a whole.
#[derive(Debug)]
pub struct CudaGraph {
    context: Arc<CudaContext>,
    raw: RawGraphExec,
}

impl Drop for CudaGraph {
    fn drop(&mut self) {
        if let Ok(_entered) = self.context.enter() {
            // SAFETY: no other code has it; a launch that is under way is finished first.
            let _ = unsafe { call!(self.context.driver, cuGraphExecDestroy(self.raw)) };
        }
    }
}

impl CudaStream {
    /// What `tell` enqueues is not run, but becomes a graph. Meanwhile the stream cannot be waited for, and
    /// memory cannot be allocated by this thread.
    pub fn capture(&self, tell: impl FnOnce(&CudaStream) -> Result<()>) -> Result<CudaGraph> {
        /// `CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`: other threads may do what they like.
        const THREAD_LOCAL: i32 = 1;
        let context = &self.context;
        let _entered = context.enter()?;
        // SAFETY: the stream lives.
        unsafe { call!(context.driver, cuStreamBeginCapture(self.raw, THREAD_LOCAL)) }?;
        let reported = tell(self);
        let mut graph = RawGraph::NULL;
        // SAFETY: it writes a handle. It is called however telling went, for the stream is of no use before.
        let ended = unsafe { call!(context.driver, cuStreamEndCapture(self.raw, &mut graph)) };
        let mut raw = RawGraphExec::NULL;
        let made = reported.and_then(|()| {
            ended?;
            // SAFETY: the graph was just captured; it writes a handle.
            unsafe { call!(context.driver, cuGraphInstantiate(&mut raw, graph, 0)) }
        });
        if graph != RawGraph::NULL {
            // SAFETY: what was made of it does not need it.
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
    /// As for each part of what was captured: memory and code are still there, until it is done.
    pub unsafe fn launch_graph(&self, graph: &CudaGraph) -> Result<()> {
        let _entered = self.context.enter()?;
        // SAFETY: both live; the rest is the caller's promise.
        unsafe { call!(self.context.driver, cuGraphLaunch(graph.raw, self.raw)) }
    }
}
