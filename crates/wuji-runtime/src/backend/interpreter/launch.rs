//! A launch on the interpreter: memory is copied to its stores and back.

use super::InterpretedTree;
use crate::array::ArrayArg;
use crate::backend::LaunchRequest;
use crate::launch::Outcome;
use crate::memory::{Memory, read_field, write_field};
use crate::overlap::OverlapGroup;
use crate::program::field_address;
use crate::report::Collected;
use wuji_ir::entities::{Array, Field, Tree};
use wuji_ir::interp::{self, Buffer, Config, Machine, Order};
use wuji_ir::module::Module;
use wuji_ir::types::Imm;
use wuji_ir::{Error, Result};

/// The most elements of a field; they are copied for every launch.
const LARGEST: u64 = 1 << 24;

pub(super) fn run(request: &LaunchRequest<'_>, check_reads: bool) -> Result<Outcome> {
    let module = request.program.module();
    let config = Config {
        order: Order::Serial,
        seed: request.seed,
        launch: request.number,
        check_reads,
        ..Config::default()
    };
    let stop = || request.interrupt.is_set();
    let mut machine = Machine::new(module, config)?;
    machine.stop_by(&stop);
    for tree in sparse_trees(module) {
        if let Some(state) = stored(request, tree)?.take() {
            machine.put_tree(tree, state)?;
        }
    }
    let outcome = launch(&mut machine, request);
    for tree in sparse_trees(module) {
        stored(request, tree)?.put(machine.take_tree(tree));
    }
    outcome
}

/// The interpreter's data of a tree.
fn stored<'a>(request: &LaunchRequest<'a>, tree: Tree) -> Result<&'a InterpretedTree> {
    let memory: &Memory = request.bindings.trees[tree.as_u32() as usize];
    memory.storage()
}

fn launch(machine: &mut Machine<'_>, request: &LaunchRequest<'_>) -> Result<Outcome> {
    let LaunchRequest {
        program, bindings, ..
    } = *request;
    let module = program.module();
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
        // SAFETY: the device lock is held, and nothing else runs in this launch.
        let bytes = unsafe { memory.bytes_locked() };
        let values = read_field(module, field, bytes)?;
        // New stores are zero, and a zero field may be too large to copy.
        let kept = module.trees[module.fields[field].tree].is_sparse();
        if kept || values.iter().any(|v| v.bits() != 0) {
            machine.fill(field, &values)?;
        }
    }
    let groups = OverlapGroup::all(bindings.arrays);
    let mut buffers: Vec<Buffer> = Vec::new();
    for group in &groups {
        buffers.push(machine.add_buffer(group.copy_in(bindings.arrays)));
    }
    for (k, arg) in bindings.arrays.iter().enumerate() {
        let found = groups.iter().position(|g| g.members.contains(&k));
        // Empty arrays are in no group; in the machine they are empty already.
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
        let bytes = unsafe { memory.bytes_locked() };
        write_field(module, field, bytes, &machine.field(field)?)?;
    }
    for (group, buffer) in groups.iter().zip(&buffers) {
        group.copy_out(bindings.arrays, machine.buffer(*buffer));
    }
    Ok(convert(outcome))
}

/// Sparse trees, whose state the interpreter keeps; only their always-active elements are copied.
fn sparse_trees(module: &Module) -> impl Iterator<Item = Tree> {
    let trees = module.trees.iter();
    trees.filter(|(_, t)| t.is_sparse()).map(|(id, _)| id)
}

fn dense_fields(module: &Module) -> impl Iterator<Item = Field> {
    let fields = module.fields.iter();
    // The elements of packed fields are in their words, those of split ones in their components.
    let stored = fields.filter(|(_, f)| f.has_memory());
    let dense = stored.filter(|(_, f)| module.trees[f.tree].sparse_path(f.node).is_empty());
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
