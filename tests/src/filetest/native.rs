//! Launches of compiled code, for `; test: run`.

use super::run::{Left, Start, compare, site_name};
use super::run_line::Side;
use crate::sparse::{self, Cells, DeviceMovers};
use std::sync::OnceLock;
use wuji_compile::{Math, Options};
use wuji_ir::entities::{Array, Field};
use wuji_ir::interp::Outcome;
use wuji_ir::module::Module;
use wuji_ir::types::Imm;
use wuji_runtime::{Device, DeviceOptions, Instance, Tier};

/// The devices that files run on: one thread, several, and more for those with sparse trees.
fn devices() -> Result<&'static [Device], String> {
    static DEVICES: OnceLock<Result<Vec<Device>, String>> = OnceLock::new();
    let device = |threads| {
        Device::new(&DeviceOptions {
            cache: wuji_runtime::cache::Choice::Off,
            threads: Some(threads),
            tier: Tier::Best,
            ..DeviceOptions::default()
        })
    };
    let made = DEVICES.get_or_init(|| {
        let all = [1, 3, 8]
            .map(device)
            .into_iter()
            .collect::<wuji_ir::Result<_>>();
        all.map_err(|e| e.to_string())
    });
    made.as_deref().map_err(Clone::clone)
}

/// Compiles the module, launches it from each start and compares.
pub(super) fn launches(
    m: &Module,
    without: &[String],
    lines: &[(usize, Start, Side)],
) -> Result<(), String> {
    let options = Options {
        math: Math::Strict,
        without: without.to_vec(),
        ..Options::default()
    };
    for device in devices()? {
        let threads = device.threads();
        let sparse = sparse::fields(m);
        if threads > 3 && sparse.is_empty() {
            continue;
        }
        // With something left out, the device with most threads will do.
        let most = if sparse.is_empty() { 3 } else { 8 };
        if !without.is_empty() && threads != most {
            continue;
        }
        let mut movers = match sparse[..] {
            [] => None,
            _ => Some(DeviceMovers::new(device, m, &options).map_err(|e| e.to_string())?),
        };
        for (number, start, after) in lines {
            launch(device, m, &options, movers.as_mut(), start, after).map_err(|e| {
                format!(
                    "line {number}: machine code, {threads} threads, without {without:?}: {e}\n{m}"
                )
            })?;
        }
    }
    Ok(())
}

fn launch(
    device: &Device,
    m: &Module,
    options: &Options,
    mut movers: Option<&mut DeviceMovers<'_>>,
    start: &Start,
    after: &Side,
) -> Result<(), String> {
    let mut run = || {
        let mut instance = Instance::new(device, m.clone(), options)?;
        for (field, values) in &start.fields {
            instance.fill(*field, values)?;
        }
        for (field, at, values) in &start.elements {
            instance.set(*field, at, values)?;
        }
        let buffers: Vec<_> = start
            .buffers
            .iter()
            .map(|bytes| instance.add_buffer(bytes))
            .collect();
        for bound in &start.arrays {
            instance.bind(
                bound.array,
                buffers[bound.buffer],
                bound.base,
                &bound.extents,
                &bound.strides,
            )?;
        }
        if let Some(movers) = &mut movers {
            movers.write(&mut instance, &start.sparse)?;
        }
        let outcome = instance.run(&start.params, start.seed, start.launch)?;
        let sparse = match &mut movers {
            Some(movers) => movers.read(&mut instance)?,
            None => Vec::new(),
        };
        Ok(Launched {
            instance,
            outcome,
            sparse,
        })
    };
    let left = run().map_err(|e: wuji_ir::Error| e.to_string())?;
    compare(m, start, after, &left)
}

struct Launched<'d> {
    instance: Instance<'d>,
    outcome: Outcome,
    sparse: Vec<(Field, Cells)>,
}

impl Left for Launched<'_> {
    fn field(&self, field: Field) -> Result<Vec<Imm>, String> {
        self.instance.field(field).map_err(|e| e.to_string())
    }

    fn element(&self, field: Field, at: &[i64]) -> Result<Vec<Imm>, String> {
        self.instance.get(field, at).map_err(|e| e.to_string())
    }

    fn sparse(&self) -> &[(Field, Cells)] {
        &self.sparse
    }

    fn array(&self, array: Array) -> Result<Vec<Imm>, String> {
        self.instance.array(array).map_err(|e| e.to_string())
    }

    fn result(&self) -> Option<Vec<Imm>> {
        self.outcome.result.clone()
    }

    fn reports(&self) -> Vec<String> {
        let mut kinds: Vec<String> = self
            .outcome
            .reports
            .iter()
            .map(|r| site_name(&r.kind).to_owned())
            .collect();
        kinds.sort();
        kinds.dedup();
        kinds
    }

    fn prints(&self) -> Vec<String> {
        let lines = self.outcome.printed.iter();
        lines.map(|p| p.text.clone()).collect()
    }
}
