//! The profile as a Chrome trace: a list of events in JSON, with times in microseconds.

use super::{Events, Kernel, lock};
use crate::tier::Tier;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// The row of the compiler; launching threads have numbers from 1 on.
const COMPILER: u64 = 0;

pub(super) fn json(kernels: &[Arc<Kernel>], events: &Events) -> String {
    let mut all = vec![json!({
        "ph": "M", "pid": 1, "tid": COMPILER, "name": "thread_name", "args": { "name": "compiler" },
    })];
    for kernel in kernels {
        for c in lock(&kernel.compilations).iter() {
            let tier = match c.tier {
                Tier::Auto | Tier::Fast => "fast",
                Tier::Best => "best",
            };
            let from = if c.cached { "cache" } else { "compiler" };
            let args = json!({ "tier": tier, "from": from, "bytes": c.bytes });
            let time = (c.begin, c.time);
            all.push(event(&kernel.name, "compile", COMPILER, time, args));
        }
    }
    for e in &events.all {
        let (name, at) = e.kernel.task(e.task);
        let mut args = json!({ "kernel": e.kernel.name, "iterations": e.iterations });
        if let Some(at) = at {
            args["at"] = json!(at.to_string());
        }
        all.push(event(name, "launch", e.thread, (e.begin, e.time), args));
    }
    let trace = json!({
        "displayTimeUnit": "ms",
        "traceEvents": all,
        "otherData": { "lost_events": events.lost },
    });
    format!("{trace}\n")
}

/// An event with a start and a duration.
fn event(name: &str, kind: &str, thread: u64, time: (Duration, Duration), args: Value) -> Value {
    let micros = |d: Duration| d.as_nanos() as f64 / 1e3;
    json!({
        "ph": "X", "pid": 1, "tid": thread, "cat": kind, "name": name,
        "ts": micros(time.0), "dur": micros(time.1), "args": args,
    })
}
