//! Launches of compiled code, for `; test: run`.

use std::sync::OnceLock;
use wuji_compile::Options;
use wuji_ir::Error;
use wuji_ir::module::Module;
use wuji_runtime::{BackendKind, Device, DeviceOptions, Tier};
use wuji_tools::script::{Run, Start, Subject, check, elements};

/// Whether files run on the first GPU: the environment variable `WUJI_TEST_BACKEND` says `cuda`.
pub(super) fn on_gpu() -> bool {
    std::env::var_os("WUJI_TEST_BACKEND").is_some_and(|v| v == "cuda")
}

/// The devices for files: one thread, several, and more for those with sparse trees.
fn devices() -> Result<&'static [Device], String> {
    static DEVICES: OnceLock<Result<Vec<Device>, String>> = OnceLock::new();
    let device = |threads| {
        Device::new(&DeviceOptions {
            cache: wuji_runtime::cache::Choice::Off,
            threads: Some(threads),
            tier: Tier::Best,
            // Unlimited: trees reserve much more than they use.
            memory_limit: Some(1 << 46),
            ..DeviceOptions::default()
        })
    };
    let made = DEVICES.get_or_init(|| {
        let all = if on_gpu() {
            Device::new(&DeviceOptions {
                backend: BackendKind::Cuda(0),
                ..DeviceOptions::default()
            })
            .map(|d| vec![d])
        } else {
            [1, 3, 8].map(device).into_iter().collect()
        };
        all.map_err(|e| e.to_string())
    });
    made.as_deref().map_err(Clone::clone)
}

/// Compiles the module, launches it from each start and compares the outputs.
pub(super) fn launches(m: &Module, chosen: &Options, lines: &[(Run, Start)]) -> Result<(), String> {
    let without = &chosen.without;
    let options = Options {
        math: chosen.math,
        functions: chosen.functions.clone(),
        without: without.clone(),
        stream_from: Some(0),
        rows_from: Some(0),
        tasks_from: Some(0),
        ..Options::default()
    };
    let sparse = !elements::fields(m).is_empty();
    for device in devices()? {
        let threads = device.threads();
        if threads > 3 && !sparse {
            continue;
        }
        // With passes disabled, the device with the most threads suffices.
        let most = if sparse { 8 } else { 3 };
        if !without.is_empty() && threads != most && !on_gpu() {
            continue;
        }
        let what = match device.gpu() {
            Some(_) => "GPU".to_owned(),
            None => format!("machine code, {threads} threads"),
        };
        let wrong = |e: Error| format!("{what}, without {without:?}: {e}\n{m}");
        let mut subject = Subject::new(device, m, &options).map_err(wrong)?;
        for (run, start) in lines {
            let done = subject.run(start);
            let done = done.and_then(|()| check(m, run, start, &subject));
            done.map_err(wrong)?;
        }
    }
    Ok(())
}
