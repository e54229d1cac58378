//! Halo recomputation: a task that reads the neighbourhood of what another one has stored computes it instead, so that the field
//! between them is neither stored nor loaded.

use crate::bank::Bank;
use crate::dataflow::may_bypass;
use crate::graph::{Graph, Node, State};
use crate::recompute::{loads_of, only_store};
use crate::rules::dead_stores::is_dead_after;
use crate::rules::fusion::{equal_params, joined, placed, refusal, value};
use crate::storage::Storage;
use crate::summary::{IndexSource, Reach, Space};
use crate::window::Fuel;
use wuji_compile::Options;
use wuji_ir::ops::{ControlOp, Effect, Op, OpClass};

/// The most additions that are computed in vain for an element of the field, on average: about what it costs to store it and to load
/// it again, on vectors of a CPU as on a GPU, if it does not fit a cache.
const MOST_EXTRA_COST: u64 = 60;
/// The most instructions of the new task.
const MOST_COST: u64 = 1500;

/// Lets tasks compute what they read, where that is cheap and nothing else needs the field.
pub fn recompute_halos(
    mut graph: Graph,
    temporaries: &[u32],
    bank: &mut Bank,
    fuel: &mut Fuel,
) -> Graph {
    let mut first = 0;
    while first < graph.nodes.len() {
        match recompute_one(&graph, first, temporaries, bank, fuel) {
            // The next one is at its place.
            Some(next) => graph = next,
            None => first += 1,
        }
    }
    graph
}

fn recompute_one(
    graph: &Graph,
    first: usize,
    temporaries: &[u32],
    bank: &mut Bank,
    fuel: &mut Fuel,
) -> Option<Graph> {
    let producer = &graph.nodes[first];
    let output = only_output(producer, bank.options())?;
    let state = producer.state_of(output);
    // A task that overwrites the field ends the search: the values that are read after it are its own.
    let uses = |node: &Node| node.reads.contains(&state) || node.writes.contains(&state);
    let second = first + 1 + graph.nodes[first + 1..].iter().position(uses)?;
    let consumer = &graph.nodes[second];
    let needed = !is_dead_after(graph.nodes[second + 1..].iter(), temporaries, state);
    // What the producer reads has to be the same where the consumer is.
    let changed = graph.nodes[first + 1..=second]
        .iter()
        .any(|node| node.writes.iter().any(|s| producer.reads.contains(s)));
    if needed || changed || !can_recompute(consumer, state) || !pays(producer, consumer, state) {
        return None;
    }
    // Tasks over the same iterations are fused.
    if refusal(graph, bank.options(), first, second).is_none() || !fuel.take() {
        return None;
    }
    let equal = equal_params(producer, consumer);
    let task = bank.recompute(placed(producer), placed(consumer), equal, output)?;
    let node = joined(task, producer, consumer);
    let mut nodes = graph.nodes.clone();
    nodes[second] = node;
    nodes.remove(first);
    Some(Graph::of(nodes))
}

/// The field or array that a task stores, if it does nothing else: each iteration stores the element at its own indices.
fn only_output(node: &Node, options: &Options) -> Option<Storage> {
    let (m, summary) = (&node.task.module, &node.task.summary);
    let mut written = summary.uses.iter().filter(|used| used.writes);
    let used = written.next().filter(|_| written.next().is_none())?;
    let Reach::Own(own) = &used.reach else {
        return None;
    };
    let plain = own
        .iter()
        .enumerate()
        .all(|(axis, own)| matches!(own, (a, IndexSource::Loop(_), 1, 0) if *a == axis));
    let only = plain
        && own.len() == used.storage.rank(m)
        && used.covers
        && !used.reads
        && !used.storage.is_packed(m)
        && !used.storage.is_sparse(m)
        && summary.obstacle.is_none()
        && summary.masks.iter().all(|m| !m.activates && !m.deactivates)
        && may_bypass(m, used.storage, options);
    let f = m.kernel_func()?;
    let body = f.insts[summary.foreach?].regions[0];
    let store = only_store(f, body)?;
    // Local arrays would have to be made anew for every element.
    let mut pure = true;
    for inst in &f.regions[body].insts {
        f.insts_of(*inst).for_each(|inst| {
            let op = &f.insts[inst].op;
            let reads = match op.effect() {
                Effect::Pure | Effect::Reads => true,
                Effect::Control => matches!(op, Op::If),
                Effect::Writes => false,
            };
            let access = (op.access()).is_none_or(|a| Storage::of(a.place).is_some());
            pure &= (inst == store || reads) && access;
        });
    }
    (only && pure).then_some(used.storage)
}

/// Whether a task only loads a field or array, outside of inner loops.
fn can_recompute(node: &Node, state: State) -> bool {
    let (m, summary) = (&node.task.module, &node.task.summary);
    let parallel = matches!(summary.space, Space::Box(_) | Space::Cells(_));
    if summary.obstacle.is_some() || node.task.whole || !parallel || node.writes.contains(&state) {
        return false;
    }
    let Some(f) = m.kernel_func() else {
        return false;
    };
    let mut looped = false;
    f.walk(|inst| {
        let class = f.insts[inst].op.class();
        if matches!(
            class,
            OpClass::Control(ControlOp::Loop(_) | ControlOp::For(..))
        ) {
            f.insts_of(inst).for_each(|i| {
                if let Op::Load(access) = &f.insts[i].op
                    && let Some(storage) = Storage::of(access.place)
                {
                    looped |= node.state_of(storage) == state;
                }
            });
        }
    });
    !looped
}

/// Whether computing is cheaper than storing and loading.
fn pays(producer: &Node, consumer: &Node, state: State) -> bool {
    let Some(f) = consumer.task.module.kernel_func() else {
        return false;
    };
    let uses = consumer.task.summary.uses.iter();
    let read = uses.filter(|used| consumer.state_of(used.storage) == state);
    let loads: usize = read.map(|used| loads_of(f, used.storage).len()).sum();
    let cost = producer.task.summary.cost;
    let all = loads as u64 * cost;
    // The elements that the consumer computes, over those of the field.
    let (of_field, of_consumer) = match (iterations(producer), iterations(consumer)) {
        (Some(p), Some(c)) if p > 0 => (p, c.min(p)),
        _ => (1, 1),
    };
    let computed = u128::from(all) * of_consumer;
    computed <= u128::from(cost + MOST_EXTRA_COST) * of_field
        && all + consumer.task.summary.cost <= MOST_COST
}

/// How many iterations a task has.
fn iterations(node: &Node) -> Option<u128> {
    let Space::Box(bounds) = &node.task.summary.space else {
        return None;
    };
    bounds.iter().try_fold(1u128, |all, (lo, hi)| {
        let count = value(node, *hi)?.saturating_sub(value(node, *lo)?).max(0);
        all.checked_mul(count.unsigned_abs())
    })
}
