//! Horizontal fusion: small tasks that do not depend on each other run side by side, as iterations of one loop.

use crate::bank::Bank;
use crate::beside::{Axes, count};
use crate::graph::{Graph, Node};
use crate::rules::fusion::{fused_pair, joined, placed, same_space, sums_floats};
use crate::summary::{Space, leaves_early};
use crate::window::Fuel;
use wuji_compile::Options;
use wuji_ir::module::{Bound, Function};
use wuji_ir::ops::{ControlOp, LoopHints, OpClass};

/// The most estimated instructions of a task that is small: about what it costs to launch it. Its loop may not be vectorized any more.
const MOST_WORK: u64 = 2048;
/// The most kernels that run side by side.
const MOST_PARTS: usize = 8;

/// Fuses pairs until none is left.
pub fn fuse_small_tasks(mut graph: Graph, bank: &mut Bank, fuel: &mut Fuel) -> Graph {
    while let Some(next) = fuse_one(&graph, bank, fuel) {
        graph = next;
    }
    graph
}

fn fuse_one(graph: &Graph, bank: &mut Bank, fuel: &mut Fuel) -> Option<Graph> {
    let closure = graph.closure();
    let small: Vec<Option<Axes>> = (graph.nodes.iter())
        .map(|node| small_space(node, bank.options()))
        .collect();
    for b in 1..graph.nodes.len() {
        for a in 0..b {
            let (first, second) = (&graph.nodes[a], &graph.nodes[b]);
            let (Some(x), Some(y)) = (&small[a], &small[b]) else {
                continue;
            };
            let parts = first.task.parts.len() + second.task.parts.len();
            // Tasks over the same iterations have been fused, if they should be.
            let wanted = !same_space(first, second) && parts <= MOST_PARTS;
            if !wanted || closure.reaches(a, b) || !fuel.take() {
                continue;
            }
            let spaces = [x.clone(), y.clone()];
            if let Some(task) = bank.fuse_beside(placed(first), placed(second), spaces) {
                return Some(fused_pair(graph, a, b, joined(task, first, second)));
            }
        }
    }
    None
}

/// The iterations of a task, if it is small and they can be numbered.
fn small_space(node: &Node, options: &Options) -> Option<Axes> {
    let (m, summary) = (&node.task.module, &node.task.summary);
    let plain = summary.obstacle.is_none()
        && !summary.ordered
        && !node.task.whole
        && summary.hints == LoopHints::default()
        && summary.masks.is_empty()
        && summary.uniques.is_empty();
    if !plain || options.deterministic && sums_floats(node) {
        return None;
    }
    let f = m.kernel_func()?;
    let body = summary
        .foreach
        .map_or(f.entry, |inst| f.insts[inst].regions[0]);
    if leaves_early(f, body, summary.foreach) || has_loops(f) {
        return None;
    }
    let axes = match &summary.space {
        Space::Serial => Axes::new(),
        Space::Box(bounds) => (bounds.iter().map(|axis| {
            let (Bound::Const(lo), Bound::Const(hi)) = *axis else {
                return None;
            };
            Some((lo, u64::try_from(hi.checked_sub(lo)?).ok()?))
        }))
        .collect::<Option<Axes>>()?,
        Space::Cells(_) | Space::Unknown => return None,
    };
    let iterations = u64::try_from(count(&axes)?).ok()?;
    let work = iterations.checked_mul(summary.cost.max(1))?;
    // What was made of small tasks can take another one.
    let small = node.task.side_by_side || work <= MOST_WORK;
    (iterations > 0 && small).then_some(axes)
}

/// Whether an iteration may take longer than its instructions say.
fn has_loops(f: &Function) -> bool {
    let mut any = false;
    f.walk(|inst| {
        let class = f.insts[inst].op.class();
        any |= matches!(
            class,
            OpClass::Control(ControlOp::Loop(_) | ControlOp::For(..))
        );
    });
    any
}
