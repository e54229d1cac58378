//! The ranges of loop indices.

use wuji_ir::entities::{Func, Value};
use wuji_ir::module::*;

/// The ranges of the indices of a task's loop, where they are known: the first and the last number.
pub fn loop_ranges(m: &Module, func: Func) -> Vec<(Value, (i128, i128))> {
    let Some(task) = m.tasks.iter().find(|t| t.func == func) else {
        return Vec::new();
    };
    let ranges: Vec<Option<(i128, i128)>> = match &task.kind {
        TaskKind::Serial | TaskKind::Chunks { .. } => Vec::new(),
        TaskKind::Cells { field, .. } => {
            let domain = m.fields[*field].domain(&m.trees);
            let ends = domain
                .into_iter()
                .map(|(lo, n)| (i128::from(lo), i128::from(n)));
            ends.map(|(lo, n)| Some((lo, lo + n - 1))).collect()
        }
        TaskKind::Range { dims, .. } => {
            let ends = dims.iter().map(|dim| match (dim.lo, dim.hi) {
                (Bound::Const(lo), Bound::Const(hi)) => Some((lo.into(), i128::from(hi) - 1)),
                _ => None,
            });
            ends.collect()
        }
    };
    let indices = m.funcs[func].params()[m.params.len()..].iter();
    let known = indices.zip(ranges);
    known
        .filter_map(|(index, range)| Some((*index, range?)))
        .collect()
}
