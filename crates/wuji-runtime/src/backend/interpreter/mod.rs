//! Running a module on the interpreter: memory is copied into its stores and back.

use crate::address::Address;
use crate::array::ArrayArg;
use crate::launch::{Bindings, Outcome};
use crate::memory::Memory;
use crate::program::{Program, field_address};
use crate::report::Collected;
use std::sync::atomic::AtomicU32;
use wuji_ir::entities::{Array, Field, Tree};
use wuji_ir::interp::{self, Buffer, Config, Machine};
use wuji_ir::module::Module;
use wuji_ir::types::{Imm, Scalar};
use wuji_ir::{Error, Result};

/// Elements of a field that are copied for every launch.
const LARGEST: u64 = 1 << 24;

/// The caller holds the turn of the device and has checked the bindings.
pub(crate) fn run_interpreted<'p>(
    program: &'p Program,
    bindings: &Bindings<'_>,
    config: Config,
    stop: &'p AtomicU32,
) -> Result<Outcome> {
    let module = &program.module;
    let mut machine = Machine::new(module, config)?;
    machine.stop_by(stop);
    for tree in sparse_trees(module) {
        if let Some(state) = bindings.trees[tree.as_u32() as usize].take_state() {
            machine.put_tree(tree, state)?;
        }
    }
    let outcome = launch(&mut machine, program, bindings);
    for tree in sparse_trees(module) {
        bindings.trees[tree.as_u32() as usize].put_state(machine.take_tree(tree));
    }
    outcome
}

fn launch(
    machine: &mut Machine<'_>,
    program: &Program,
    bindings: &Bindings<'_>,
) -> Result<Outcome> {
    let module = &program.module;
    for field in dense_fields(module) {
        let memory = bindings.trees[module.fields[field].tree.as_u32() as usize];
        let elements = field_address(module, field)?
            .domain()
            .fold(1u64, |n, d| n.saturating_mul(d.1));
        if elements > LARGEST {
            let name = &module.fields[field].name;
            return Err(Error::new(
                "W0119",
                format!("field `{name}` is too large for the interpreter"),
            )
            .note(format!("it copies fields, of at most {LARGEST} elements")));
        }
        // SAFETY: the turn is held, and nothing else runs in this launch.
        let bytes = unsafe { memory.bytes_in_turn() };
        let values = read_field(module, field, bytes)?;
        // New stores are zero, and a field that is zero may be too large to list.
        let kept = module.trees[module.fields[field].tree].is_sparse();
        if kept || values.iter().any(|v| v.bits() != 0) {
            machine.fill(field, &values)?;
        }
    }
    let groups = Group::all(bindings.arrays);
    let mut buffers: Vec<Buffer> = Vec::new();
    for group in &groups {
        buffers.push(machine.add_buffer(group.copy_in(bindings.arrays)));
    }
    for (k, arg) in bindings.arrays.iter().enumerate() {
        let found = groups.iter().position(|g| g.members.contains(&k));
        // Arrays without elements are in no group; the machine has them empty already.
        let Some((group, buffer)) = found.map(|g| (&groups[g], buffers[g])) else {
            bind_empty(machine, k, arg)?;
            continue;
        };
        let view = interp::ArrayView {
            buffer,
            base: (arg.view().base as usize - group.start) as i64,
            extents: arg.extents().to_vec(),
            strides: arg.strides().to_vec(),
        };
        machine.bind(Array::from_u32(k as u32), view)?;
    }
    let params: Vec<Imm> = program
        .params
        .iter()
        .zip(bindings.params)
        .map(|(scalar, bits)| Imm::from_bits(*scalar, *bits))
        .collect();
    let outcome = machine.run(&params)?;
    for field in dense_fields(module) {
        let memory = bindings.trees[module.fields[field].tree.as_u32() as usize];
        // SAFETY: as above.
        let bytes = unsafe { memory.bytes_in_turn() };
        write_field(module, field, bytes, &machine.field(field)?)?;
    }
    for (group, buffer) in groups.iter().zip(&buffers) {
        group.copy_out(bindings.arrays, machine.buffer(*buffer));
    }
    Ok(convert(outcome))
}

/// Trees that stay as the interpreter has them; only elements that are always there are copied.
fn sparse_trees(module: &Module) -> impl Iterator<Item = Tree> {
    let trees = module.trees.iter();
    trees.filter(|(_, t)| t.is_sparse()).map(|(id, _)| id)
}

fn dense_fields(module: &Module) -> impl Iterator<Item = Field> {
    let fields = module.fields.iter();
    let dense = fields.filter(|(_, f)| module.trees[f.tree].sparse_path(f.node).is_empty());
    dense.map(|(id, _)| id)
}

fn bind_empty(machine: &mut Machine<'_>, k: usize, arg: &ArrayArg<'_>) -> Result<()> {
    machine.bind_values(Array::from_u32(k as u32), arg.extents(), &[])
}

fn convert(outcome: interp::Outcome) -> Outcome {
    let nothing = outcome.reports.is_empty() && outcome.printed.is_empty();
    let result = outcome.result.unwrap_or_default();
    Outcome {
        result: result.iter().map(|v| v.bits()).collect(),
        collected: (!nothing).then(|| {
            Box::new(Collected {
                total: outcome.reports.len() as u64,
                reports: outcome.reports,
                printed: outcome.printed,
                dropped_lines: 0,
            })
        }),
        earlier: None,
    }
}

/// Arrays that overlap each other, and the memory they span together.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) members: Vec<usize>,
    /// A multiple of 8, so that alignment in the copy is as in the original.
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Group {
    pub(crate) fn all(arrays: &[ArrayArg<'_>]) -> Vec<Group> {
        let mut spans: Vec<(usize, usize, usize)> = arrays
            .iter()
            .enumerate()
            .filter_map(|(k, a)| a.span().map(|(from, to)| (from, to, k)))
            .collect();
        spans.sort_unstable();
        let mut groups: Vec<Group> = Vec::new();
        for (from, to, k) in spans {
            match groups.last_mut() {
                Some(group) if from < group.end => {
                    group.end = group.end.max(to);
                    group.members.push(k);
                }
                _ => groups.push(Group {
                    members: vec![k],
                    start: from / 8 * 8,
                    end: to,
                }),
            }
        }
        groups
    }

    /// Bytes between the elements stay zero: they may be somebody else's.
    pub(crate) fn copy_in(&self, arrays: &[ArrayArg<'_>]) -> Vec<u8> {
        let mut bytes = vec![0; self.end - self.start];
        for k in &self.members {
            let arg = &arrays[*k];
            arg.visit(|address, size| {
                let at = address as usize - self.start;
                // SAFETY: the element belongs to the array, which the launch has borrowed.
                let element = unsafe { std::slice::from_raw_parts(address, size) };
                bytes[at..at + size].copy_from_slice(element);
            });
        }
        bytes
    }

    pub(crate) fn copy_out(&self, arrays: &[ArrayArg<'_>], bytes: &[u8]) {
        for k in &self.members {
            let arg = &arrays[*k];
            if !arg.is_writable() {
                continue;
            }
            arg.visit(|address, size| {
                let at = address as usize - self.start;
                // SAFETY: as in `copy_in`, and the array may be written to.
                let element = unsafe { std::slice::from_raw_parts_mut(address, size) };
                element.copy_from_slice(&bytes[at..at + size]);
            });
        }
    }
}

/// Every scalar of a field, elements in row-major order.
pub(crate) fn read_field(module: &Module, field: Field, bytes: &[u8]) -> Result<Vec<Imm>> {
    let mut values = Vec::new();
    let scalars = module.structs.scalar_offsets(module.fields[field].elem);
    elements(&field_address(module, field)?, |at| {
        for (scalar, offset) in &scalars {
            values.push(read_scalar(&bytes[at + *offset as usize..], *scalar));
        }
    });
    Ok(values)
}

/// Sets a whole field from its scalars; those that are missing stay as they are.
pub(crate) fn write_field(
    module: &Module,
    field: Field,
    bytes: &mut [u8],
    values: &[Imm],
) -> Result<()> {
    let scalars = module.structs.scalar_offsets(module.fields[field].elem);
    let mut values = values.iter();
    elements(&field_address(module, field)?, |at| {
        for ((scalar, offset), value) in scalars.iter().zip(&mut values) {
            let n = scalar.bytes() as usize;
            let at = at + *offset as usize;
            let word = value.bits().to_le_bytes();
            bytes[at..at + n].copy_from_slice(&word[..n]);
        }
    });
    Ok(())
}

fn elements(address: &Address, mut visit: impl FnMut(usize)) {
    let window: Vec<(u64, u64)> = address.domain().map(|d| (0, d.1)).collect();
    address.runs(&window, |run| {
        for k in 0..run.count {
            visit(run.offset + k * run.stride);
        }
    });
}

/// From the first byte of a field's elements to the last.
fn span(module: &Module, field: Field) -> Result<std::ops::Range<usize>> {
    let size = module.structs.size_align(module.fields[field].elem).0 as usize;
    let address = field_address(module, field)?;
    let window: Vec<(u64, u64)> = address.domain().map(|d| (0, d.1)).collect();
    Ok(address.span(&window, size))
}

/// The lowest byte first, as every processor has it that kernels are compiled for.
pub(crate) fn read_scalar(bytes: &[u8], scalar: Scalar) -> Imm {
    let mut word = [0; 8];
    let n = scalar.bytes() as usize;
    word[..n].copy_from_slice(&bytes[..n]);
    Imm::from_bits(scalar, u64::from_le_bytes(word))
}

impl Memory {
    /// Every scalar of a field of the tree that lies here, elements in row-major order.
    pub fn read_field(&self, module: &Module, field: Field) -> Result<Vec<Imm>> {
        let mut guard = self.lock();
        guard.fetch(span(module, field)?)?;
        read_field(module, field, guard.bytes())
    }

    /// Sets a whole field from its scalars.
    pub fn write_field(&self, module: &Module, field: Field, values: &[Imm]) -> Result<()> {
        let (mut guard, span) = (self.lock(), span(module, field)?);
        guard.fetch(span.clone())?;
        write_field(module, field, guard.bytes_mut(), values)?;
        guard.send(span)
    }
}
