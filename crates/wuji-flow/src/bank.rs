//! The bank: tasks by what they were made of, so that nothing is made twice.

use crate::combine::{Combined, Part, Piece, combine};
use crate::dataflow;
use crate::recompute::recompute;
use crate::split;
use crate::summary::Summary;
use crate::task::{Task, TaskId, TaskPart};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use wuji_compile::Options;
use wuji_compile::rewrite::sweep;
use wuji_ir::Result;
use wuji_ir::entities::{Field, Inst};
use wuji_ir::module::Module;
use wuji_ir::ops::{Activation, Op, Place};

/// The most tasks that are kept. A program whose windows never repeat starts again.
const MOST_TASKS: usize = 4096;

/// Two tasks that are fused: who they are, for each tree of the second one which tree of both it is, and for each of its parameters
/// which parameter of the first one has the same value.
type FusionKey = (TaskId, TaskId, Vec<u32>, Vec<Option<u32>>);

/// A task with its trees in a window.
pub type Placed<'a> = (&'a Arc<Task>, &'a [u32]);

/// What is in a task.
enum Parts<'a> {
    /// One kernel, by its name.
    Kernel(&'a str),
    Of(Vec<TaskPart>),
}

/// Makes tasks, and remembers them.
#[derive(Debug)]
pub struct Bank {
    options: Options,
    next: u32,
    fused: FxHashMap<FusionKey, Option<Arc<Task>>>,
    pruned: FxHashMap<(TaskId, Vec<Field>), Option<Arc<Task>>>,
    demoted: FxHashMap<(TaskId, Vec<Field>), Arc<Task>>,
    recomputed: FxHashMap<(FusionKey, Field), Option<Arc<Task>>>,
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
        if whole {
            summary.ordered |= !combined.module.arrays.is_empty();
        }
        let parts = match parts {
            Parts::Kernel(kernel) => vec![TaskPart {
                kernel: kernel.into(),
                cost: summary.cost,
            }],
            Parts::Of(parts) => parts,
        };
        Arc::new(Task {
            id,
            summary,
            module: Arc::new(combined.module),
            trees: combined.trees,
            parts,
            depth,
            whole,
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
        let trees = (0..prepared.trees.len() as u32).collect();
        let whole = Combined {
            module: prepared,
            trees,
        };
        Ok(vec![self.task(whole, Parts::Kernel(&module.name), 0, true)])
    }

    fn make_room(&mut self) {
        let kept =
            self.fused.len() + self.pruned.len() + self.demoted.len() + self.recomputed.len();
        if kept > MOST_TASKS {
            self.fused.clear();
            self.pruned.clear();
            self.demoted.clear();
            self.recomputed.clear();
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
        let pattern = pattern(a.1, b.1);
        let key = (a.0.id, b.0.id, pattern.clone(), equal.clone());
        if let Some(known) = self.fused.get(&key) {
            return known.clone();
        }
        self.make_room();
        let own: Vec<u32> = (0..a.1.len() as u32).collect();
        let fused = self.combined((a.0, &own), (b.0, &pattern), &equal);
        self.fused.insert(key, fused.clone());
        fused
    }

    fn combined(
        &mut self,
        a: Placed<'_>,
        b: Placed<'_>,
        equal: &[Option<u32>],
    ) -> Option<Arc<Task>> {
        let name = fused_name(a.0.name(), b.0.name());
        let parts = [part(a.0, a.1, &[])?, part(b.0, b.1, equal)?];
        let mut combined = combine(&name, &parts)?;
        dataflow::optimize(&mut combined.module, &self.options);
        self.made += 1;
        let parts = [&a.0.parts[..], &b.0.parts[..]].concat();
        let depth = a.0.depth.max(b.0.depth) + 1;
        Some(self.task(combined, Parts::Of(parts), depth, false))
    }

    /// The second task, which computes the elements of a field that the first one stores, instead of loading them. The field is one of
    /// the first task. `equal` is as in [`fuse`](Bank::fuse).
    pub fn recompute(
        &mut self,
        a: Placed<'_>,
        b: Placed<'_>,
        equal: Vec<Option<u32>>,
        field: Field,
    ) -> Option<Arc<Task>> {
        let pattern = pattern(a.1, b.1);
        let key = ((a.0.id, b.0.id, pattern.clone(), equal.clone()), field);
        if let Some(known) = self.recomputed.get(&key) {
            return known.clone();
        }
        self.make_room();
        let own: Vec<u32> = (0..a.1.len() as u32).collect();
        let recomputed = self.recomputing((a.0, &own), (b.0, &pattern), &equal, field);
        self.recomputed.insert(key, recomputed.clone());
        recomputed
    }

    fn recomputing(
        &mut self,
        a: Placed<'_>,
        b: Placed<'_>,
        equal: &[Option<u32>],
        field: Field,
    ) -> Option<Arc<Task>> {
        let name = fused_name(a.0.name(), b.0.name());
        let (first, second) = (part(a.0, a.1, &[])?, part(b.0, b.1, equal)?);
        let mut combined = recompute(&name, &first, &second, field)?;
        dataflow::optimize(&mut combined.module, &self.options);
        self.made += 1;
        let parts = [&a.0.parts[..], &b.0.parts[..]].concat();
        let depth = a.0.depth.max(b.0.depth) + 1;
        Some(self.task(combined, Parts::Of(parts), depth, false))
    }

    /// The task without its stores to some fields. `None` if it does nothing else.
    pub fn prune(&mut self, task: &Arc<Task>, fields: &[Field]) -> Option<Arc<Task>> {
        let key = (task.id, fields.to_vec());
        if let Some(known) = self.pruned.get(&key) {
            return known.clone();
        }
        self.make_room();
        let mut module = (*task.module).clone();
        remove_stores(&mut module, fields);
        self.made += 1;
        let combined = Combined {
            trees: (0..module.trees.len() as u32).collect(),
            module,
        };
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
        let combined = Combined {
            trees: (0..module.trees.len() as u32).collect(),
            module,
        };
        let demoted = self.task(combined, Parts::Of(task.parts.clone()), task.depth, false);
        self.demoted.insert(key, demoted.clone());
        demoted
    }
}

/// For each tree of the second of two tasks, its number among those of both.
fn pattern(first: &[u32], second: &[u32]) -> Vec<u32> {
    let mut fresh = first.len() as u32;
    let number = |tree: &u32| match first.iter().position(|t| t == tree) {
        Some(known) => known as u32,
        None => {
            fresh += 1;
            fresh - 1
        }
    };
    second.iter().map(number).collect()
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

fn part<'a>(task: &'a Task, trees: &'a [u32], equal: &'a [Option<u32>]) -> Option<Part<'a>> {
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
        trees,
        equal,
    })
}

fn remove_stores(m: &mut Module, fields: &[Field]) {
    let Some(kernel) = m.kernel else {
        return;
    };
    let f = &mut m.funcs[kernel];
    for region in f.walk_regions() {
        let insts = std::mem::take(&mut f.regions[region].insts);
        let kept = insts.into_iter().filter(|inst| {
            let written = f.insts[*inst].op.written_access().map(|a| a.place);
            let dead = matches!(written, Some(Place::Field(field)) if fields.contains(&field));
            !dead
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
