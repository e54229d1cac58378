//! A failing program as a filetest.

use super::Found;
use super::check;
use super::observe::Observation;
use super::program::Program;
use std::fmt::Write as _;
use wuji_ir::entities::{Array, Field};
use wuji_ir::module::Module;
use wuji_ir::types::Imm;
use wuji_tools::script::elements;

/// The program of a failure as the text of a filetest.
pub(super) fn text(seed: u64, found: &Found) -> String {
    let Program { module, inputs } = &found.program;
    let expected = match check::expected(&found.program) {
        Ok(Some(seen)) => Some(seen),
        Ok(None) | Err(_) => None,
    };
    let plain = inputs.again == 0 && module.arrays.keys().all(|a| is_plain(&found.program, a));
    let mut out = String::new();
    let why = found.why.replace('\n', "\n;   ");
    // A run line can only describe what the filetest runner supports: no overlapping arrays, one launch.
    let command = if plain && expected.is_some() {
        "run"
    } else {
        "verify"
    };
    let _ = write!(
        out,
        "; test: {command}\n; Seed {seed}: {}:\n;   {why}\n",
        found.check
    );
    if !plain {
        let _ = writeln!(out, "; launches {}", inputs.again + 1);
        let _ = writeln!(out, "; parameters {:?}", inputs.params);
        for (k, view) in inputs.views.iter().enumerate() {
            let _ = writeln!(out, "; a{k}: {view:?}");
        }
        for (k, bytes) in inputs.buffers.iter().enumerate() {
            let _ = writeln!(out, "; buffer {k}: {bytes:?}");
        }
    }
    let _ = write!(out, "\n{module}");
    if let Some(expected) = expected {
        let line = run_line(&found.program, &expected);
        let mark = if plain { "run" } else { "would run" };
        let _ = write!(out, "\n; {mark}: {line}\n");
    }
    out
}

/// Row-major, without gaps, alone in its buffer.
fn is_plain(program: &Program, array: Array) -> bool {
    let inputs = &program.inputs;
    let view = inputs.view(array);
    let size = program
        .module
        .structs
        .size_align(program.module.arrays[array].elem)
        .0 as i64;
    let alone = inputs
        .views
        .iter()
        .filter(|v| v.buffer == view.buffer)
        .count()
        == 1;
    let offsets = view.offsets();
    let in_order = offsets
        .iter()
        .enumerate()
        .all(|(k, at)| *at == view.base + k as i64 * size);
    alone && in_order
}

fn list(values: &[Imm]) -> String {
    let words: Vec<String> = values.iter().map(Imm::to_string).collect();
    words.join(", ")
}

fn array_values(m: &Module, program: &Program, buffers: &[Vec<u8>], array: Array) -> Vec<Imm> {
    let view = program.inputs.view(array);
    let scalars = m.structs.scalar_offsets(m.arrays[array].elem);
    let bytes = &buffers[view.buffer];
    let mut out = Vec::new();
    for at in view.offsets() {
        for (s, offset) in &scalars {
            let at = at as usize + *offset as usize;
            let width = s.bytes() as usize;
            let mut raw = [0; 8];
            raw[..width].copy_from_slice(&bytes[at..at + width]);
            out.push(Imm::from_bits(*s, u64::from_le_bytes(raw)));
        }
    }
    out
}

fn run_line(program: &Program, expected: &Observation) -> String {
    let Program { module: m, inputs } = program;
    let mut before = vec![
        format!("seed = {}", inputs.seed),
        format!("launch = {}", inputs.launch),
    ];
    let slots = m.param_slots();
    for k in 0..m.params.len() {
        let values = &inputs.params[slots[k]..slots[k + 1]];
        before.push(format!("p{k} = ({})", list(values)));
    }
    let mut after = Vec::new();
    for ((f, cells), (_, left)) in inputs.sparse.iter().zip(&expected.sparse) {
        for (side, cells) in [(&mut before, cells), (&mut after, left)] {
            let coords: Vec<String> = cells.keys().map(|at| format!("{at:?}")).collect();
            side.push(format!("active {f} = [{}]", coords.join(", ")));
            for (at, values) in cells.iter().filter(|c| !c.1.is_empty()) {
                side.push(format!("{f}{at:?} = ({})", list(values)));
            }
        }
    }
    for (k, values) in inputs.fields.iter().enumerate() {
        let own = elements::has_contents(m, Field::from_u32(k as u32));
        if !own || inputs.sparse.iter().any(|c| c.0.as_u32() as usize == k) {
            continue;
        }
        before.push(format!("f{k} = [{}]", list(values)));
        after.push(format!("f{k} = [{}]", list(&expected.fields[k])));
    }
    for a in m.arrays.keys() {
        let extents: Vec<String> = inputs.view(a).extents.iter().map(i64::to_string).collect();
        let old = array_values(m, program, &inputs.buffers, a);
        let new = array_values(m, program, &expected.buffers, a);
        before.push(format!("{a}({}) = [{}]", extents.join(", "), list(&old)));
        after.push(format!("{a} = [{}]", list(&new)));
    }
    if let Some(result) = &expected.result {
        after.push(format!("result = ({})", list(result)));
    }
    let kinds = [
        "out_of_range",
        "bad_index",
        "assert",
        "too_deep",
        "list_full",
    ];
    let kinds: Vec<&str> = kinds
        .into_iter()
        .filter(|kind| {
            let start = kind.replace('_', " ");
            expected.reports.iter().any(|r| r.starts_with(&start))
        })
        .collect();
    if !kinds.is_empty() {
        after.push(format!("reports = [{}]", kinds.join(", ")));
    }
    if !expected.printed.is_empty() {
        let lines: Vec<String> = expected
            .printed
            .iter()
            .map(|p| format!("{:?}", p.1))
            .collect();
        after.push(format!("prints = [{}]", lines.join(", ")));
    }
    let join = |parts: Vec<String>| parts.join(",\n;      ");
    format!("{}\n;      => {}", join(before), join(after))
}
