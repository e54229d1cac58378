//! Programs as machine code: on the processor, or on the first GPU if `WUJI_TEST_BACKEND` is `cuda`.

use super::observe::{Observation, add, dense_fields, report};
use super::program::Program;
use std::cell::OnceCell;
use wuji_compile::{Math, Options};
use wuji_ir::entities::Array;
use wuji_ir::interp::Outcome;
use wuji_ir::{Error, Result};
use wuji_runtime::{BackendKind, Device, DeviceOptions, Instance, Tier};
use wuji_tools::script::elements::DeviceMovers;

/// Devices, by their number of threads.
type Devices = Vec<(usize, Result<Device>)>;

thread_local! {
    /// Those of one worker of the fuzzer, which never waits for another.
    static DEVICES: OnceCell<Devices> = const { OnceCell::new() };
}

/// Runs something with the device that has so many threads.
fn with_device<T>(threads: usize, run: impl FnOnce(&Device) -> Result<T>) -> Result<T> {
    DEVICES.with(|devices| run(device(devices, threads)?))
}

/// Whether machine code is that of a GPU.
fn on_gpu() -> bool {
    std::env::var_os("WUJI_TEST_BACKEND").is_some_and(|v| v == "cuda")
}

/// The numbers of threads that a program runs on, one after the other. A GPU has its own.
pub(super) fn thread_counts(program: &Program) -> &'static [usize] {
    match program.inputs.sparse[..] {
        _ if on_gpu() => &[1],
        [] => &[1, 3],
        _ => &[1, 8],
    }
}

fn device(devices: &OnceCell<Devices>, threads: usize) -> Result<&Device> {
    let devices = devices.get_or_init(|| {
        if on_gpu() {
            let made = Device::new(&DeviceOptions {
                backend: BackendKind::Cuda(0),
                cache: wuji_runtime::cache::Choice::Off,
                ..DeviceOptions::default()
            });
            return vec![(1, made)];
        }
        let new = |threads, tier| {
            let made = Device::new(&DeviceOptions {
                cache: wuji_runtime::cache::Choice::Off,
                threads: Some(threads),
                tier,
                // Unlimited: trees reserve much more than they use.
                memory_limit: Some(1 << 46),
                ..DeviceOptions::default()
            });
            (threads, made)
        };
        // Both tiers have the same results.
        vec![new(1, Tier::Best), new(3, Tier::Fast), new(8, Tier::Best)]
    });
    match devices.iter().find(|d| d.0 == threads) {
        Some((_, Ok(device))) => Ok(device),
        Some((_, Err(e))) => Err(e.clone()),
        None => Err(Error::new(
            "W0115",
            format!("no device has {threads} threads"),
        )),
    }
}

/// Compiles a program and launches it.
pub(super) fn launch(
    program: &Program,
    threads: usize,
    without: &[&'static str],
) -> Result<Observation> {
    with_device(threads, |device| launch_on(device, program, without))
}

fn launch_on(device: &Device, program: &Program, without: &[&'static str]) -> Result<Observation> {
    let Program { module, inputs } = program;
    let options = Options {
        math: Math::Strict,
        without: without.iter().map(|w| (*w).to_owned()).collect(),
        stream_from: Some(0),
        tasks_from: Some(0),
        ..Options::default()
    };
    let mut instance = Instance::new(device, module.clone(), &options)?;
    for field in dense_fields(module) {
        instance.fill(field, inputs.field(field))?;
    }
    let mut movers = match inputs.sparse[..] {
        [] => None,
        _ => Some(DeviceMovers::new(device, module, &options)?),
    };
    if let Some(movers) = &mut movers {
        movers.write(&mut instance, &inputs.sparse)?;
    }
    let buffers: Vec<_> = inputs
        .buffers
        .iter()
        .map(|bytes| instance.add_buffer(bytes))
        .collect();
    for (k, view) in inputs.views.iter().enumerate() {
        let array = Array::from_u32(k as u32);
        let buffer = buffers[view.buffer];
        instance.bind(array, buffer, view.base, &view.extents, &view.strides)?;
    }
    let mut outcome = Outcome::default();
    for again in 0..=inputs.again {
        let launch = inputs.launch + again;
        add(
            &mut outcome,
            instance.run(&inputs.params, inputs.seed, launch)?,
        );
    }
    let mut reports: Vec<String> = outcome
        .reports
        .iter()
        .map(|r| report(module, &r.kind))
        .collect();
    reports.sort();
    reports.dedup();
    let mut fields = vec![Vec::new(); module.fields.len()];
    for field in dense_fields(module) {
        fields[field.as_u32() as usize] = instance.field(field)?;
    }
    let sparse = match &mut movers {
        Some(movers) => movers.read(&mut instance)?,
        None => Vec::new(),
    };
    let mut seen = Observation {
        fields,
        sparse,
        buffers: buffers
            .iter()
            .zip(&inputs.buffers)
            .map(|(b, before)| {
                let mut bytes = instance.buffer(*b);
                bytes.truncate(before.len());
                bytes
            })
            .collect(),
        result: outcome.result,
        reports,
        printed: outcome
            .printed
            .into_iter()
            .map(|p| (p.iteration, p.text))
            .collect(),
    };
    seen.forget_nans(module, inputs);
    Ok(seen)
}
