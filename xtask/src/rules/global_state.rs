//! Mutable statics are listed, with the reason: everything else belongs to a `World`.

use super::Violation;
use super::sources::{Source, Sources, line_of, words};

/// Types that make a static mutable.
const MUTABLE: [&str; 10] = [
    "AtomicBool",
    "AtomicPtr",
    "AtomicU32",
    "AtomicU64",
    "AtomicUsize",
    "Cell",
    "Mutex",
    "Once",
    "OnceLock",
    "RefCell",
];

/// Why a static cannot belong to a world.
const LLVM: &str = "one LLVM per process";
const CUDA: &str = "one CUDA driver per process; after a fatal error it refuses every call";
const SIGNALS: &str = "signal handlers, fork handlers and exit handlers belong to the process";
const COUNTER: &str = "a counter that makes names unique";
const THREAD: &str = "state of the calling thread";

/// The crate and name of each mutable static, with the reason.
const LISTED: &[(&str, &str, &str)] = &[
    ("wuji", "NEXT", COUNTER),
    ("wuji", "RECORDING", THREAD),
    ("wuji", "STATE", THREAD),
    ("wuji-llvm", "ACTIVE", LLVM),
    ("wuji-llvm", "COUNT", COUNTER),
    ("wuji-llvm", "DEPTH", THREAD),
    ("wuji-llvm", "EXITING", SIGNALS),
    ("wuji-llvm", "FOUND", LLVM),
    ("wuji-llvm", "HANDLERS", LLVM),
    ("wuji-llvm", "LOCK", LLVM),
    ("wuji-llvm", "ONCE", LLVM),
    ("wuji-llvm", "REGISTER", LLVM),
    ("wuji-llvm", "TABLE", LLVM),
    ("wuji-llvm", "WAITING", THREAD),
    ("wuji-llvm", "wuji_llvm_slots", LLVM),
    ("wuji-py", "EXITING", SIGNALS),
    ("wuji-py", "MAIN", THREAD),
    ("wuji-py", "PRINTING_FAILED", THREAD),
    ("wuji-py", "TAKERS", SIGNALS),
    ("wuji-py", "TAKES", THREAD),
    ("wuji-py", "USERS", SIGNALS),
    ("wuji-runtime", "POLLED", THREAD),
    ("wuji-runtime", "BEFORE", SIGNALS),
    ("wuji-runtime", "COMPILATION", THREAD),
    ("wuji-runtime", "CONTEXTS", CUDA),
    ("wuji-runtime", "COUNT", COUNTER),
    ("wuji-runtime", "DRIVER", CUDA),
    ("wuji-runtime", "FAULT", CUDA),
    ("wuji-runtime", "FORKS", SIGNALS),
    ("wuji-runtime", "INSIDE", THREAD),
    ("wuji-runtime", "LIBRARY", CUDA),
    ("wuji-runtime", "LISTENING", SIGNALS),
    ("wuji-runtime", "LOWEST", THREAD),
    ("wuji-runtime", "NEXT", COUNTER),
    ("wuji-runtime", "ONCE", SIGNALS),
    ("wuji-runtime", "TICKER", SIGNALS),
    ("wuji-symbolic", "NEXT", COUNTER),
    ("wuji-symbolic", "RECORDING", THREAD),
];

pub(super) fn check(sources: &Sources) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut seen = Vec::new();
    for source in sources.0.iter().filter(|s| s.is_crate_code()) {
        let own = source.path.split('/').nth(1).unwrap_or_default();
        for (line, name) in mutable_statics(source) {
            let listed = LISTED
                .iter()
                .find(|(owner, listed, _)| *owner == own && *listed == name);
            match listed {
                Some(row) => seen.push(row),
                None => found.push(Violation::new(
                    &source.path,
                    line,
                    format!("`{name}` is global state: let it belong to a world, or list it in `rules/global_state.rs`"),
                )),
            }
        }
    }
    for row in LISTED.iter().filter(|row| !seen.contains(row)) {
        found.push(Violation::new(
            format!("crates/{}", row.0),
            0,
            format!(
                "has no static `{}`: remove it from the list in `rules/global_state.rs`",
                row.1
            ),
        ));
    }
    found
}

/// Mutable statics of a file, without those of its tests.
fn mutable_statics(source: &Source) -> Vec<(usize, String)> {
    let code = source.code();
    let tests = code.find("#[cfg(test)]\nmod tests {").unwrap_or(code.len());
    let code = &code[..tests];
    let mut found = Vec::new();
    for at in words(code, "static") {
        // A lifetime is no item.
        if code[..at].ends_with('\'') {
            continue;
        }
        let item = code[at + "static".len()..].trim_start();
        let (item, declared_mutable) = match item.strip_prefix("mut ") {
            Some(rest) => (rest, true),
            None => (item, false),
        };
        let Some((name, rest)) = item.split_once(':') else {
            continue;
        };
        let kind = rest.split(['=', ';']).next().unwrap_or_default();
        let cells = MUTABLE.iter().any(|m| words(kind, m).next().is_some());
        if declared_mutable || cells {
            found.push((line_of(code, at), name.trim().to_string()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutable_statics_are_found() {
        let text = "static A: AtomicU32 = AtomicU32::new(0);\nstatic B: &'static str = \"\";\nthread_local!(static C: Cell<u8> = const { Cell::new(0) });\nstatic mut D: u8 = 0;";
        let source = &Sources::of(&[("crates/a/src/a.rs", text)]).0[0];
        let found = mutable_statics(source);
        let names: Vec<&str> = found.iter().map(|(_, name)| name.as_str()).collect();
        assert_eq!(names, ["A", "C", "D"]);
        assert_eq!(found[2].0, 4);
    }
}
