//! The profile as a Chrome trace: a list of events in JSON, with times in microseconds.

use super::{Event, Events, Kernel, lock};
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
            let tier = c.tier.label();
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
        all.extend(parts(e));
    }
    let trace = json!({
        "displayTimeUnit": "ms",
        "traceEvents": all,
        "otherData": { "lost_events": events.lost },
    });
    format!("{trace}\n")
}

/// The kernels in a fused task: events inside of its own, whose times are their shares of it.
fn parts(e: &Event) -> Vec<Value> {
    let parts = e.kernel.parts.get().map_or(&[][..], Vec::as_slice);
    if parts.iter().map(|p| p.count).sum::<u64>() < 2 {
        return Vec::new();
    }
    let mut before = 0.0;
    let inside = parts.iter().map(|part| {
        let at = |share: f64| e.time.mul_f64(share.clamp(0.0, 1.0));
        let (begin, end) = (at(before), at(before + part.share));
        before += part.share;
        let args = json!({ "fused into": e.kernel.name, "count": part.count, "share": part.share });
        let time = (e.begin + begin, end.saturating_sub(begin));
        event(&part.kernel, "kernel", e.thread, time, args)
    });
    inside.collect()
}

/// An event with a start and a duration.
fn event(name: &str, kind: &str, thread: u64, time: (Duration, Duration), args: Value) -> Value {
    let micros = |d: Duration| d.as_nanos() as f64 / 1e3;
    json!({
        "ph": "X", "pid": 1, "tid": thread, "cat": kind, "name": name,
        "ts": micros(time.0), "dur": micros(time.1), "args": args,
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Part, Profiler};
    use super::*;
    use wuji_ir::module::Module;

    #[test]
    fn the_kernels_in_a_fused_task_share_its_time() {
        let profiler = Profiler::new();
        let part = |kernel: &str, count, share| Part {
            kernel: kernel.to_owned(),
            count,
            share,
        };
        let kernel = profiler.enter(&Module::new("a+b"));
        kernel.set_parts(vec![part("a", 3, 0.25), part("b", 1, 0.75)]);
        let (begin, time) = (Duration::from_micros(100), Duration::from_micros(40));
        profiler.timed(&kernel, 0, 1000, (begin, time));
        // A task of one kernel, from which stores were removed.
        let alone = profiler.enter(&Module::new("c"));
        alone.set_parts(vec![part("c", 1, 1.0)]);
        profiler.timed(&alone, 0, 1000, (begin + time, time));
        let trace: Value = serde_json::from_str(&profiler.trace()).unwrap_or_default();
        let events = trace["traceEvents"].as_array().cloned().unwrap_or_default();
        let events: Vec<String> = (events.iter().filter(|e| e["ph"] == "X"))
            .map(|e| format!("{} {}: {} {}", e["cat"], e["name"], e["ts"], e["dur"]))
            .collect();
        assert_eq!(
            events,
            [
                r#""launch" "a+b": 100.0 40.0"#,
                r#""kernel" "a": 100.0 10.0"#,
                r#""kernel" "b": 110.0 30.0"#,
                r#""launch" "c": 140.0 40.0"#,
            ]
        );
    }
}
