//! Graphs: work for a device that is told once and done many times.

use super::context::Context;
use super::library::{RawGraph, RawGraphExec, call};
use super::stream::Stream;
use std::sync::Arc;
use wuji_ir::Result;

/// Work that was captured and can be launched as a whole.
#[derive(Debug)]
pub(crate) struct Graph {
    context: Arc<Context>,
    raw: RawGraphExec,
}

impl Drop for Graph {
    fn drop(&mut self) {
        if let Ok(_entered) = self.context.enter() {
            // SAFETY: nobody has it any more; a launch that is under way is finished first.
            let _ = unsafe { call!(self.context.driver, cuGraphExecDestroy(self.raw)) };
        }
    }
}

impl Stream {
    /// What `tell` tells the stream is not done, but becomes a graph. Meanwhile the stream cannot be waited for, and
    /// memory cannot be allocated by this thread.
    pub(crate) fn capture(&self, tell: impl FnOnce(&Stream) -> Result<()>) -> Result<Graph> {
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
        Ok(Graph {
            context: context.clone(),
            raw,
        })
    }

    /// Does the work of a graph.
    ///
    /// # Safety
    /// As for each part of what was captured: memory and code are still there, until it is done.
    pub(crate) unsafe fn launch_graph(&self, graph: &Graph) -> Result<()> {
        let _entered = self.context.enter()?;
        // SAFETY: both live; the rest is the caller's promise.
        unsafe { call!(self.context.driver, cuGraphLaunch(graph.raw, self.raw)) }
    }
}
