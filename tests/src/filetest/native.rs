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

/// The devices for a module: several threads, more of them for sparse trees, and one.
///
/// The best code takes most of the time, so it is that of the whole pipeline, once.
fn devices(is_sparse: bool, without: &[String]) -> Result<Vec<&'static Device>, String> {
    static DEVICES: OnceLock<Result<Vec<((usize, Tier), Device)>, String>> = OnceLock::new();
    let several = if is_sparse { MANY } else { FEW };
    let wanted: &[(usize, Tier)] = if on_gpu() {
        &[GPU]
    } else if without.is_empty() {
        &[(1, Tier::Fast), (several, Tier::Best)]
    } else {
        &[(several, Tier::Fast)]
    };
    let made = DEVICES.get_or_init(|| {
        let kinds: &[(usize, Tier)] = if on_gpu() {
            &[GPU]
        } else {
            &[
                (1, Tier::Fast),
                (FEW, Tier::Fast),
                (FEW, Tier::Best),
                (MANY, Tier::Fast),
                (MANY, Tier::Best),
            ]
        };
        kinds
            .iter()
            .map(|kind| Ok((*kind, device(*kind)?)))
            .collect()
    });
    let made = made.as_ref().map_err(String::clone)?;
    let wanted = made.iter().filter(|(kind, _)| wanted.contains(kind));
    Ok(wanted.map(|(_, device)| device).collect())
}

/// Threads for dense and for sparse modules.
const FEW: usize = 3;
const MANY: usize = 8;

/// What the device is called that is no CPU.
const GPU: (usize, Tier) = (0, Tier::Auto);

fn device(kind: (usize, Tier)) -> Result<Device, String> {
    let (threads, tier) = kind;
    let options = if kind == GPU {
        DeviceOptions {
            backend: BackendKind::Cuda(0),
            ..DeviceOptions::default()
        }
    } else {
        DeviceOptions {
            cache: wuji_runtime::cache::Choice::Off,
            threads: Some(threads),
            tier,
            // Unlimited: trees reserve much more than they use.
            memory_limit: Some(1 << 46),
            ..DeviceOptions::default()
        }
    };
    Device::new(&options).map_err(|e| e.to_string())
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
    let is_sparse = !elements::fields(m).is_empty();
    for device in devices(is_sparse, without)? {
        let what = match device.gpu() {
            Some(_) => "GPU".to_owned(),
            None => format!("machine code, {} threads", device.threads()),
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
