//! A kernel on a device that runs from a start.

use super::check::Left;
use super::elements::{self, Cells, DeviceMovers};
use super::start::Start;
use wuji_compile::Options;
use wuji_ir::entities::{Array, Field};
use wuji_ir::interp::{Printed, Report};
use wuji_ir::module::Module;
use wuji_ir::types::Imm;
use wuji_ir::{Error, Result};
use wuji_runtime::{Collected, Device, Instance};

/// A module on a device with its own memory, which can be run repeatedly from the beginning.
#[derive(Debug)]
pub struct Subject<'d> {
    instance: Instance<'d>,
    /// For fields below sparse nodes.
    movers: Option<DeviceMovers<'d>>,
    launches: u64,
    result: Option<Vec<Imm>>,
    collected: Collected,
    sparse: Vec<(Field, Cells)>,
}

impl<'d> Subject<'d> {
    /// Compiles a kernel.
    pub fn new(device: &'d Device, module: &Module, options: &Options) -> Result<Subject<'d>> {
        let movers = match elements::fields(module)[..] {
            [] => None,
            _ => Some(DeviceMovers::new(device, module, options)?),
        };
        Ok(Subject {
            instance: Instance::new(device, module.clone(), options)?,
            movers,
            launches: 0,
            result: None,
            collected: Collected::default(),
            sparse: Vec::new(),
        })
    }

    /// The instance that runs.
    pub fn instance(&self) -> &Instance<'d> {
        &self.instance
    }

    /// Resets everything, and sets memory to the inputs.
    pub fn begin(&mut self, start: &Start) -> Result<()> {
        self.launches = 0;
        self.result = None;
        self.collected = Collected::default();
        self.sparse.clear();
        let instance = &mut self.instance;
        instance.clear()?;
        for (field, values) in &start.fields {
            instance.fill(*field, values)?;
        }
        for (field, at, values) in &start.elements {
            instance.set(*field, at, values)?;
        }
        let buffers = start.buffers.iter();
        let buffers: Vec<_> = buffers.map(|bytes| instance.add_buffer(bytes)).collect();
        for bound in &start.arrays {
            instance.bind(
                bound.array,
                buffers[bound.buffer],
                bound.base,
                &bound.extents,
                &bound.strides,
            )?;
        }
        if let Some(movers) = &mut self.movers {
            movers.write(instance, &start.sparse)?;
        }
        Ok(())
    }

    /// Runs the kernel once more.
    pub fn launch(&mut self, start: &Start) -> Result<()> {
        let number = start.launch.wrapping_add(self.launches);
        let done = self.instance.launch(&start.params, start.seed, number);
        let (result, collected) = done?;
        self.launches += 1;
        self.result = result;
        self.collected.reports.extend(collected.reports);
        self.collected.printed.extend(collected.printed);
        self.collected.total += collected.total;
        self.collected.dropped_lines += collected.dropped_lines;
        Ok(())
    }

    /// Fetches the outputs.
    pub fn finish(&mut self) -> Result<()> {
        if let Some(movers) = &mut self.movers {
            self.sparse = movers.read(&mut self.instance)?;
        }
        Ok(())
    }

    /// Sets the inputs, launches once, and fetches the outputs.
    pub fn run(&mut self, start: &Start) -> Result<()> {
        self.begin(start)?;
        self.launch(start)?;
        self.finish()
    }

    /// The reports of the launches as an error; `None` without reports.
    pub fn reported(&self) -> Option<Error> {
        self.instance.reported(&self.collected)
    }

    /// The number of dropped lines.
    pub fn dropped_lines(&self) -> u64 {
        self.collected.dropped_lines
    }
}

impl Left for Subject<'_> {
    fn field(&self, field: Field) -> Result<Vec<Imm>> {
        self.instance.field(field)
    }

    fn element(&self, field: Field, at: &[i64]) -> Result<Vec<Imm>> {
        self.instance.get(field, at)
    }

    fn sparse(&self) -> &[(Field, Cells)] {
        &self.sparse
    }

    fn array(&self, array: Array) -> Result<Vec<Imm>> {
        self.instance.array(array)
    }

    fn result(&self) -> Option<&[Imm]> {
        self.result.as_deref()
    }

    fn reports(&self) -> &[Report] {
        &self.collected.reports
    }

    fn printed(&self) -> &[Printed] {
        &self.collected.printed
    }
}
