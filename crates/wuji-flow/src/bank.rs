//! The bank: tasks by what they were made of, so that nothing is made twice.

use crate::beside::{Axes, beside, count};
use crate::combine::{Combined, Part, Piece, combine};
use crate::dataflow;
use crate::recompute::recompute;
use crate::split;
use crate::storage::Storage;
use crate::summary::Summary;
use crate::task::{Task, TaskId, TaskPart};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use wuji_compile::Options;
use wuji_compile::rewrite::sweep;
use wuji_ir::Result;
use wuji_ir::entities::{Array, Field, Inst};
use wuji_ir::module::Module;
use wuji_ir::ops::{Activation, Op, Place};

/// The most tasks that are kept. A program whose windows never repeat starts again.
const MOST_TASKS: usize = 4096;

/// Two tasks that are fused: who they are, for each tree and array of the second one which one of both it is, and for each of its parameters
/// which parameter of the first one has the same value.
type FusionKey = (TaskId, TaskId, Vec<u32>, Vec<Option<u32>>);

/// A task with the numbers of its trees and arrays in a window.
#[derive(Copy, Clone, Debug)]
pub struct Placed<'a> {
    /// The task.
    pub task: &'a Arc<Task>,
    /// The number of each of its trees.
    pub trees: &'a [u32],
    /// The number of each of its arrays.
    pub arrays: &'a [u32],
}

impl Placed<'_> {
    fn numbers(&self) -> impl Iterator<Item = u32> {
        self.trees.iter().chain(self.arrays).copied()
    }
}

/// What is in a task.
enum Parts<'a> {
    /// One kernel, by its name.
    Kernel(&'a str),
    Of(Vec<TaskPart>),
    /// Side by side, with the instructions of all iterations.
    Beside(Vec<TaskPart>),
}

/// Makes tasks, and remembers them.
#[derive(Debug)]
pub struct Bank {
    options: Options,
    next: u32,
    fused: FxHashMap<FusionKey, Option<Arc<Task>>>,
    pruned: FxHashMap<(TaskId, Vec<Storage>), Option<Arc<Task>>>,
    demoted: FxHashMap<(TaskId, Vec<Field>), Arc<Task>>,
    recomputed: FxHashMap<(FusionKey, Storage), Option<Arc<Task>>>,
    beside: FxHashMap<FusionKey, Option<Arc<Task>>>,
    made: u64,
}

impl Bank {
    /// A bank without tasks.
    pub fn new(options: &Options) -> Bank {
        Bank {
            options: options.clone(),
            next: 0,
            fused: FxHashMap::default(),
            pruned: FxHashMap::default(),
            demoted: FxHashMap::default(),
            recomputed: FxHashMap::default(),
            beside: FxHashMap::default(),
            made: 0,
        }
    }

    /// The options that tasks are compiled with.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// How many tasks rules have made.
    pub fn made(&self) -> u64 {
        self.made
    }

    fn task(&mut self, combined: Combined, parts: Parts, depth: usize, whole: bool) -> Arc<Task> {
        let id = TaskId(self.next);
        self.next += 1;
        let mut summary = Summary::of(&combined.module);
        // Arrays of the host are only lent for a launch.
        summary.ordered |= combined.module.arrays.values().any(|a| a.shape.is_none());
        let side_by_side = matches!(parts, Parts::Beside(_));
        let parts = match parts {
            Parts::Kernel(kernel) => vec![TaskPart {
                kernel: kernel.into(),
                cost: summary.cost,
            }],
            Parts::Of(parts) | Parts::Beside(parts) => parts,
        };
        Arc::new(Task {
            id,
            summary,
            module: Arc::new(combined.module),
            trees: combined.trees,
            arrays: combined.arrays,
            parts,
            depth,
            whole,
            side_by_side,
        })
    }

    /// The tasks of a kernel, a module before any pass, in order. A kernel that cannot be split is one task.
    pub fn tasks_of(&mut self, module: &Module) -> Result<Vec<Arc<Task>>> {
        let prepared = split::prepare(module.clone(), &self.options)?;
        if let Some(pieces) = split::split(&prepared) {
            let tasks = pieces
                .into_iter()
                .map(|p| self.task(p, Parts::Kernel(&module.name), 0, false));
            return Ok(tasks.collect());
        }
        let whole = Combined::whole(prepared);
        Ok(vec![self.task(whole, Parts::Kernel(&module.name), 0, true)])
    }

    fn make_room(&mut self) {
        let derived = self.pruned.len() + self.demoted.len() + self.recomputed.len();
        let kept = self.fused.len() + self.beside.len() + derived;
        if kept > MOST_TASKS {
            self.fused.clear();
            self.pruned.clear();
            self.demoted.clear();
            self.recomputed.clear();
            self.beside.clear();
        }
    }

    /// One task that does what two do, one after the other. For each parameter of the second one, `equal` is the parameter of the
    /// first one that has the same value in this window.
    pub fn fuse(
        &mut self,
        a: Placed<'_>,
        b: Placed<'_>,
        equal: Vec<Option<u32>>,
    ) -> Option<Arc<Task>> {
        let pattern = pattern(&a, &b);
        let key = (a.task.id, b.task.id, pattern.clone(), equal.clone());
        if let Some(known) = self.fused.get(&key) {
            return known.clone();
        }
        self.make_room();
        let own: Vec<u32> = (0..a.numbers().count() as u32).collect();
        let fused = self.combined(renumbered(a, &own), renumbered(b, &pattern), &equal);
        self.fused.insert(key, fused.clone());
        fused
    }

    fn combined(
        &mut self,
        a: Placed<'_>,
        b: Placed<'_>,
        equal: &[Option<u32>],
    ) -> Option<Arc<Task>> {
        let name = fused_name(a.task.name(), b.task.name());
        if reports_other_name(&a, &b) {
            return None;
        }
        let parts = [part(a, &[])?, part(b, equal)?];
        let mut combined = combine(&name, &parts)?;
        dataflow::optimize(&mut combined.module, &self.options);
        self.made += 1;
        let parts = [&a.task.parts[..], &b.task.parts[..]].concat();
        let depth = a.task.depth.max(b.task.depth) + 1;
        Some(self.task(combined, Parts::Of(parts), depth, false))
    }

    /// The second task, which computes the elements that the first one stores to `output`, instead of loading them. `equal` is as in [`fuse`](Bank::fuse).
    pub fn recompute(
        &mut self,
        a: Placed<'_>,
        b: Placed<'_>,
        equal: Vec<Option<u32>>,
        output: Storage,
    ) -> Option<Arc<Task>> {
        let pattern = pattern(&a, &b);
        let ids = (a.task.id, b.task.id);
        let key = ((ids.0, ids.1, pattern.clone(), equal.clone()), output);
        if let Some(known) = self.recomputed.get(&key) {
            return known.clone();
        }
        self.make_room();
        let own: Vec<u32> = (0..a.numbers().count() as u32).collect();
        let (first, second) = (renumbered(a, &own), renumbered(b, &pattern));
        let recomputed = self.recomputing(first, second, &equal, output);
        self.recomputed.insert(key, recomputed.clone());
        recomputed
    }

    fn recomputing(
        &mut self,
        a: Placed<'_>,
        b: Placed<'_>,
        equal: &[Option<u32>],
        output: Storage,
    ) -> Option<Arc<Task>> {
        let name = fused_name(a.task.name(), b.task.name());
        if reports_other_name(&a, &b) {
            return None;
        }
        let (first, second) = (part(a, &[])?, part(b, equal)?);
        let mut combined = recompute(&name, &first, &second, output)?;
        dataflow::optimize(&mut combined.module, &self.options);
        self.made += 1;
        let parts = [&a.task.parts[..], &b.task.parts[..]].concat();
        let depth = a.task.depth.max(b.task.depth) + 1;
        Some(self.task(combined, Parts::Of(parts), depth, false))
    }

    /// One task whose iterations are those of two that do not depend on each other.
    pub(crate) fn fuse_beside(
        &mut self,
        a: Placed<'_>,
        b: Placed<'_>,
        spaces: [Axes; 2],
    ) -> Option<Arc<Task>> {
        let pattern = pattern(&a, &b);
        // Their iterations are constants, so the tasks say what they are.
        let key = (a.task.id, b.task.id, pattern.clone(), Vec::new());
        if let Some(known) = self.beside.get(&key) {
            return known.clone();
        }
        self.make_room();
        let own: Vec<u32> = (0..a.numbers().count() as u32).collect();
        let made = self.beside(renumbered(a, &own), renumbered(b, &pattern), spaces);
        self.beside.insert(key, made.clone());
        made
    }

    fn beside(&mut self, a: Placed<'_>, b: Placed<'_>, spaces: [Axes; 2]) -> Option<Arc<Task>> {
        if reports_other_name(&a, &b) {
            return None;
        }
        let counts = [count(&spaces[0])?, count(&spaces[1])?];
        let [x, y] = spaces;
        let parts = [(part(a, &[])?, x), (part(b, &[])?, y)];
        let combined = beside(&fused_name(a.task.name(), b.task.name()), &parts)?;
        self.made += 1;
        let of = |task: &Task, count: i64| -> Vec<TaskPart> {
            let times = if task.side_by_side {
                1
            } else {
                count.unsigned_abs()
            };
            let parts = task.parts.iter().map(|part| TaskPart {
                kernel: part.kernel.clone(),
                cost: part.cost.saturating_mul(times),
            });
            parts.collect()
        };
        let parts = [of(a.task, counts[0]), of(b.task, counts[1])].concat();
        let depth = a.task.depth.max(b.task.depth) + 1;
        Some(self.task(combined, Parts::Beside(parts), depth, false))
    }

    /// The task without its stores to some fields and arrays. `None` if it does nothing else.
    pub fn prune(&mut self, task: &Arc<Task>, dead: &[Storage]) -> Option<Arc<Task>> {
        let key = (task.id, dead.to_vec());
        if let Some(known) = self.pruned.get(&key) {
            return known.clone();
        }
        self.make_room();
        let mut module = (*task.module).clone();
        remove_stores(&mut module, dead);
        self.made += 1;
        let combined = Combined::whole(module);
        let pruned = self.task(combined, Parts::Of(task.parts.clone()), task.depth, false);
        let pruned = pruned.summary.has_effects().then_some(pruned);
        self.pruned.insert(key, pruned.clone());
        pruned
    }

    /// The task, whose writes to some fields find every cell active.
    pub fn demote_activations(&mut self, task: &Arc<Task>, fields: &[Field]) -> Arc<Task> {
        let key = (task.id, fields.to_vec());
        if let Some(known) = self.demoted.get(&key) {
            return known.clone();
        }
        self.make_room();
        let mut module = (*task.module).clone();
        if let Some(kernel) = module.kernel {
            for data in module.funcs[kernel].insts.values_mut() {
                if data.op.written_access().is_none() {
                    continue;
                }
                let Some(access) = data.op.access_mut() else {
                    continue;
                };
                // Not `KnownActive`: the earlier launch may have found no memory for them.
                if matches!(access.place, Place::Field(field) if fields.contains(&field)) {
                    access.activation = Activation::Never;
                }
            }
        }
        self.made += 1;
        let combined = Combined::whole(module);
        let demoted = self.task(combined, Parts::Of(task.parts.clone()), task.depth, false);
        self.demoted.insert(key, demoted.clone());
        demoted
    }
}

/// The numbers of the trees and arrays of the first of two tasks, then those that only the second one has.
pub(crate) fn numbers_of_both(first: &Placed<'_>, second: &Placed<'_>) -> Vec<u32> {
    let mut all: Vec<u32> = first.numbers().collect();
    for number in second.numbers() {
        if !all.contains(&number) {
            all.push(number);
        }
    }
    all
}

/// For each tree and array of the second of two tasks, its position among those of both.
fn pattern(first: &Placed<'_>, second: &Placed<'_>) -> Vec<u32> {
    let all = numbers_of_both(first, second);
    let position = |number: u32| all.iter().position(|n| *n == number);
    let known = second.numbers().filter_map(position);
    known.map(|at| at as u32).collect()
}

/// The task with other numbers.
fn renumbered<'a>(placed: Placed<'a>, numbers: &'a [u32]) -> Placed<'a> {
    let (trees, arrays) = numbers.split_at(placed.trees.len());
    Placed {
        task: placed.task,
        trees,
        arrays,
    }
}

/// Whether one of two tasks may report a write outside of an array to which its kernel gives another name.
fn reports_other_name(a: &Placed<'_>, b: &Placed<'_>) -> bool {
    let reports = |placed: &Placed<'_>, at: usize| {
        let array = Array::from_u32(at as u32);
        let used = placed.task.summary.use_of(Storage::Array(array));
        used.is_some_and(|used| used.writes && !used.exists)
    };
    let name = |placed: &Placed<'_>, at: usize| {
        let array = Array::from_u32(at as u32);
        placed.task.module.arrays[array].name.clone()
    };
    a.arrays.iter().enumerate().any(|(x, number)| {
        let same = b.arrays.iter().enumerate().filter(|(_, n)| *n == number);
        same.into_iter()
            .any(|(y, _)| name(a, x) != name(b, y) && (reports(a, x) || reports(b, y)))
    })
}

/// A task that is made of many has a name that says so.
fn fused_name(a: &str, b: &str) -> String {
    const LONGEST: usize = 60;
    let name = format!("{a}+{b}");
    if name.len() <= LONGEST {
        return name;
    }
    let first = a.split('+').next().unwrap_or(a);
    let last = b.rsplit('+').next().unwrap_or(b);
    let count = name.matches('+').count() + 1;
    format!("{first}+..+{last} ({count})")
}

fn part<'a>(placed: Placed<'a>, equal: &'a [Option<u32>]) -> Option<Part<'a>> {
    let task = placed.task;
    let f = task.module.kernel_func()?;
    let piece = match task.summary.foreach {
        Some(inst) => Piece::Loop(inst),
        None => {
            let insts: Vec<Inst> = f.regions[f.entry].insts.clone();
            Piece::Serial(insts)
        }
    };
    Some(Part {
        module: &task.module,
        piece,
        trees: placed.trees,
        arrays: placed.arrays,
        equal,
    })
}

fn remove_stores(m: &mut Module, dead: &[Storage]) {
    let Some(kernel) = m.kernel else {
        return;
    };
    let f = &mut m.funcs[kernel];
    for region in f.walk_regions() {
        let insts = std::mem::take(&mut f.regions[region].insts);
        let kept = insts.into_iter().filter(|inst| {
            let written = f.insts[*inst].op.written_access();
            let written = written.and_then(|a| Storage::of(a.place));
            !written.is_some_and(|storage| dead.contains(&storage))
        });
        let kept: Vec<Inst> = kept.collect();
        f.regions[region].insts = kept;
    }
    sweep(f);
    let empty = |inst: &Inst| {
        let data = &f.insts[*inst];
        let quiet = |r: &wuji_ir::entities::Region| f.regions[*r].insts.is_empty();
        matches!(data.op, Op::ForEach(..)) && data.regions.iter().all(quiet)
    };
    let entry = f.entry;
    let left: Vec<Inst> = (f.regions[entry].insts.iter())
        .copied()
        .filter(|inst| !empty(inst))
        .collect();
    f.regions[entry].insts = left;
}
