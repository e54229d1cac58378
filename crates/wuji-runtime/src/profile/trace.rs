//! The profile as a Chrome trace: a list of events in JSON, with times in microseconds.

use super::{Events, Kernel, lock};
use crate::backend::cpu::tier::Tier;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

/// The row of the compiler; threads that launch have numbers from 1 on.
const COMPILER: u64 = 0;

pub(super) fn json(kernels: &[Arc<Kernel>], events: &Events) -> String {
    let mut out = String::from("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    out.push_str("{\"ph\":\"M\",\"pid\":1,\"tid\":0,\"name\":\"thread_name\",\"args\":{\"name\":\"compiler\"}}");
    for kernel in kernels {
        for c in lock(&kernel.compilations).iter() {
            let tier = match c.tier {
                Tier::Auto | Tier::Fast => "fast",
                Tier::Best => "best",
            };
            let from = if c.cached { "cache" } else { "compiler" };
            event(&mut out, &kernel.name, "compile", COMPILER, c.begin, c.time);
            let _ = write!(
                out,
                "\"tier\":\"{tier}\",\"from\":\"{from}\",\"bytes\":{}}}}}",
                c.bytes
            );
        }
    }
    for e in &events.all {
        let (name, at) = e.kernel.task(e.task);
        event(&mut out, name, "launch", e.thread, e.begin, e.time);
        let _ = write!(
            out,
            "\"kernel\":{},\"iterations\":{}",
            quoted(&e.kernel.name),
            e.iterations
        );
        if let Some(at) = at {
            let _ = write!(out, ",\"at\":{}", quoted(&at.to_string()));
        }
        out.push_str("}}");
    }
    let _ = write!(
        out,
        "\n],\"otherData\":{{\"lost_events\":{}}}}}\n",
        events.lost
    );
    out
}

/// The beginning of an event, up to its arguments.
fn event(out: &mut String, name: &str, kind: &str, thread: u64, begin: Duration, time: Duration) {
    let micros = |d: Duration| d.as_nanos() as f64 / 1e3;
    let _ = write!(
        out,
        ",\n{{\"ph\":\"X\",\"pid\":1,\"tid\":{thread},\"cat\":\"{kind}\",\"name\":{},\"ts\":{:.3},\"dur\":{:.3},\"args\":{{",
        quoted(name),
        micros(begin),
        micros(time)
    );
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if u32::from(c) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn names_are_quoted() {
        assert_eq!(quoted("a\"b\\c\nd"), "\"a\\\"b\\\\c\\u000ad\"");
    }
}
