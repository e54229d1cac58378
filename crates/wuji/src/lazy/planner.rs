//! Plans: what runs instead of the launches of a window, with its code.

use super::replay::{Bound, Replay};
use super::{HeldArray, LazyStatistics, Pending};
use crate::launch::Compiled;
use crate::layout::TreeBody;
use crate::world::World;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use wuji_flow::graph::Node;
use wuji_flow::print::Names;
use wuji_flow::summary::Space;
use wuji_flow::{Bank, LaunchPlan, Run, Switches, Task, TaskId, Window};
use wuji_ir::types::Scalar;
use wuji_ir::{Error, Result};
use wuji_runtime::log::Level;
use wuji_runtime::profile::Part;

/// The most plans that are kept. A program whose windows never repeat starts again.
const MOST_PLANS: usize = 256;

/// Makes plans, and remembers them.
#[derive(Debug)]
pub(super) struct Planner {
    pub(super) bank: Bank,
    pub(super) switches: Switches,
    pub(super) limit: usize,
    plans: FxHashMap<Vec<u64>, Arc<Ready>>,
    code: FxHashMap<TaskId, Arc<Compiled>>,
    pub(super) statistics: LazyStatistics,
}

/// A plan with its code.
#[derive(Debug)]
pub(super) struct Ready {
    steps: Vec<Step>,
    /// What the key names by address.
    _kernels: Vec<Arc<Compiled>>,
    pub(super) replay: Mutex<Replay>,
}

/// Something of a plan without machine code.
enum Missing<'a> {
    Task(&'a Task),
    /// A kernel that runs as it is.
    Kernel(&'a Compiled),
}

#[derive(Debug)]
enum Step {
    /// A launch as it is.
    Launch(usize),
    Task {
        compiled: Arc<Compiled>,
        /// Numbers of trees in the window.
        trees: Vec<u32>,
        /// A launch that has each array, and its number there.
        arrays: Vec<(usize, usize)>,
        /// The launches whose parameters it has, one after the other.
        launches: Vec<usize>,
    },
}

/// The trees and arrays of a window with numbers: a tree that is used as an array has one.
pub(super) struct Numbered<'a> {
    /// Of the trees and of the arrays of each launch.
    pub(super) numbers: Vec<(Vec<u32>, Vec<u32>)>,
    data: Vec<Data<'a>>,
}

/// A tree or an array of a window.
enum Data<'a> {
    Tree(&'a Arc<TreeBody>),
    /// With the name that its first kernel gives it, for those that have none.
    Array(&'a HeldArray, &'a str),
}

impl Data<'_> {
    fn handles(&self) -> usize {
        match self {
            Data::Tree(body) => Arc::strong_count(body),
            Data::Array(array, _) => array.handles(),
        }
    }

    fn names(&self) -> Vec<String> {
        match self {
            Data::Tree(body) => body.names.clone(),
            Data::Array(array, name) => vec![array.name().unwrap_or(name).to_owned()],
        }
    }
}

impl<'a> Numbered<'a> {
    pub(super) fn of(launches: &'a [Pending]) -> Numbered<'a> {
        let mut known: FxHashMap<usize, u32> = FxHashMap::default();
        let mut data: Vec<Data<'a>> = Vec::new();
        let mut number = |address: usize, new: Data<'a>| {
            let number = *known.entry(address).or_insert(data.len() as u32);
            let at = number as usize;
            match data.get_mut(at) {
                None => data.push(new),
                // Only a tree can be bound as one.
                Some(old @ Data::Array(..)) if matches!(new, Data::Tree(_)) => *old = new,
                Some(_) => {}
            }
            number
        };
        let numbers = launches.iter().map(|launch| {
            let trees = launch.trees.iter();
            let trees = trees.map(|tree| number(Arc::as_ptr(tree).addr(), Data::Tree(tree)));
            let trees: Vec<u32> = trees.collect();
            let names = launch.compiled.program().module().arrays.values();
            let arrays = launch.arrays.iter().zip(names);
            let arrays =
                arrays.map(|(a, data)| number(a.address(), Data::Array(a, data.name.as_str())));
            (trees, arrays.collect())
        });
        let numbers = numbers.collect();
        Numbered { numbers, data }
    }

    /// The tree with a number.
    fn tree(&self, number: u32) -> Option<&'a TreeBody> {
        match self.data.get(number as usize)? {
            Data::Tree(body) => Some(body),
            Data::Array(..) => None,
        }
    }

    /// What only a window refers to, of which there are so many copies: nothing can read it after it.
    fn temporaries(&self, copies: usize) -> Vec<u32> {
        let mut references = vec![0usize; self.data.len()];
        for (trees, arrays) in &self.numbers {
            for number in trees.iter().chain(arrays) {
                references[*number as usize] += copies;
            }
        }
        let data = self.data.iter().zip(references).enumerate();
        let alone = data.filter(|(_, (data, own))| data.handles() == *own);
        alone.map(|(number, _)| number as u32).collect()
    }

    /// For each array of a task, a launch of it that has it, and its number there.
    fn array_arguments(&self, launches: &[Pending], node: &Node) -> Result<Vec<(usize, usize)>> {
        let arrays = node.arrays.iter().zip(node.task.module.arrays.values());
        let found = arrays.map(|(number, data)| {
            let shape = data.shape.as_ref()?;
            node.launches.iter().find_map(|k| {
                let (_, numbers) = self.numbers.get(*k)?;
                let held = &launches[*k].arrays;
                let at = (numbers.iter().zip(held)).position(|(n, array)| {
                    n == number && array.extents().eq(shape.extents.iter().copied())
                })?;
                Some((*k, at))
            })
        });
        found
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| Error::new("W0118", "an array of a task is in none of its launches"))
    }
}

/// The launches as rules see them, and the names of fields and arrays. There are so many copies of the window.
pub(super) fn window_of(launches: &[Pending], copies: usize) -> (Window, Names) {
    let numbered = Numbered::of(launches);
    let temporaries = numbered.temporaries(copies);
    let names = Names(numbered.data.iter().map(Data::names).collect());
    let launches = launches.iter().zip(numbered.numbers);
    let launches = launches.map(|(launch, (trees, arrays))| wuji_flow::Launch {
        tasks: launch.tasks.clone(),
        trees,
        arrays,
        params: launch.params.to_vec(),
    });
    let window = Window {
        launches: launches.collect(),
        temporaries,
    };
    (window, names)
}

impl Ready {
    /// The steps with their arguments.
    pub(super) fn bind<'a>(
        &'a self,
        launches: &'a [Pending],
        numbered: &Numbered<'a>,
    ) -> Result<Vec<Bound<'a>>> {
        let steps = self.steps.iter().map(|step| {
            Ok(match step {
                Step::Launch(k) => Bound {
                    compiled: &launches[*k].compiled,
                    trees: launches[*k].trees.iter().map(|t| &**t).collect(),
                    params: launches[*k].params.iter().copied().collect(),
                    arrays: (launches[*k].arrays.iter().map(HeldArray::view))
                        .collect::<Result<_>>()?,
                },
                Step::Task {
                    compiled,
                    trees,
                    arrays,
                    launches: parts,
                } => Bound {
                    compiled,
                    trees: trees.iter().filter_map(|t| numbered.tree(*t)).collect(),
                    params: (parts.iter())
                        .flat_map(|k| launches[*k].params.iter().copied())
                        .collect(),
                    arrays: (arrays.iter().map(|(k, at)| launches[*k].arrays[*at].view()))
                        .collect::<Result<_>>()?,
                },
            })
        });
        steps.collect()
    }
}

impl Planner {
    pub(super) fn new(bank: Bank, switches: Switches, limit: usize) -> Planner {
        Planner {
            bank,
            switches,
            limit,
            plans: FxHashMap::default(),
            code: FxHashMap::default(),
            statistics: LazyStatistics::default(),
        }
    }

    /// The plan of a window, from the table or a new one.
    pub(super) fn ready(
        &mut self,
        world: &World,
        launches: &[Pending],
        numbered: &Numbered<'_>,
    ) -> Arc<Ready> {
        let tasks: usize = launches.iter().map(|l| l.tasks.len()).sum();
        self.statistics.windows += 1;
        self.statistics.launches += launches.len() as u64;
        self.statistics.launched_tasks += tasks as u64;
        let key = key(launches, numbered, &numbered.temporaries(1));
        let ready = match self.plans.get(&key) {
            Some(known) => {
                self.statistics.known_windows += 1;
                known.clone()
            }
            None => {
                let ready = Arc::new(self.plan(world, launches, numbered));
                if self.plans.len() >= MOST_PLANS {
                    self.plans.clear();
                    self.code.clear();
                }
                self.plans.insert(key, ready.clone());
                ready
            }
        };
        let ran = ready.steps.iter().map(|step| match step {
            Step::Launch(k) => launches[*k].tasks.len() as u64,
            Step::Task { .. } => 1,
        });
        self.statistics.tasks += ran.sum::<u64>();
        ready
    }

    fn plan(&mut self, world: &World, launches: &[Pending], numbered: &Numbered<'_>) -> Ready {
        let (window, _) = window_of(launches, 1);
        let plan = window.plan(&mut self.bank, &self.switches);
        let steps = self.load(world, plan, launches, numbered);
        let steps = steps.unwrap_or_else(|error| {
            world.device().log().say(Level::Warn, || {
                format!("launches run as they are, because code for them together could not be made: {error}")
            });
            (0..launches.len()).map(Step::Launch).collect()
        });
        Ready {
            steps,
            _kernels: launches.iter().map(|l| l.compiled.clone()).collect(),
            replay: Mutex::default(),
        }
    }

    /// Code for everything in a plan.
    fn load(
        &mut self,
        world: &World,
        plan: LaunchPlan,
        launches: &[Pending],
        numbered: &Numbered<'_>,
    ) -> Result<Vec<Step>> {
        self.compile_missing(world, &plan, launches)?;
        let runs = plan.runs.into_iter();
        runs.map(|run| match run {
            Run::Launch(k) => Ok(Step::Launch(k)),
            Run::Task(node) => Ok(Step::Task {
                compiled: match self.code.get(&node.task.id) {
                    Some(known) => known.clone(),
                    None => compile(world, &node.task)?,
                },
                arrays: numbered.array_arguments(launches, &node)?,
                trees: node.trees,
                launches: node.launches,
            }),
        })
        .collect()
    }

    /// Compiles the tasks and kernels of a plan that have no code yet, several at a time.
    fn compile_missing(
        &mut self,
        world: &World,
        plan: &LaunchPlan,
        launches: &[Pending],
    ) -> Result<()> {
        let missing = self.missing(plan, launches);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let workers = missing.len().min(cores);
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            while let Some(work) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
                match work {
                    Missing::Task(task) => done.push((task.id, compile(world, task))),
                    // An error comes again when it runs, alone.
                    Missing::Kernel(kernel) => drop(kernel.program().make_code()),
                }
            }
            done
        };
        let compiled = std::thread::scope(|scope| {
            // If a thread cannot start, the others do its work.
            let others = (1..workers).filter_map(|_| {
                let thread = std::thread::Builder::new().name("wuji-lazy".to_owned());
                thread.spawn_scoped(scope, work).ok()
            });
            let others: Vec<_> = others.collect();
            let mut all = work();
            all.extend(others.into_iter().filter_map(|t| t.join().ok()).flatten());
            all
        });
        for (id, compiled) in compiled {
            self.code.insert(id, compiled?);
        }
        Ok(())
    }

    /// Each once.
    fn missing<'a>(&self, plan: &'a LaunchPlan, launches: &'a [Pending]) -> Vec<Missing<'a>> {
        let mut missing = Vec::new();
        let mut tasks: FxHashSet<TaskId> = FxHashSet::default();
        let mut kernels: FxHashSet<usize> = FxHashSet::default();
        for run in &plan.runs {
            match run {
                Run::Task(node) => {
                    let id = node.task.id;
                    if !self.code.contains_key(&id) && tasks.insert(id) {
                        missing.push(Missing::Task(&node.task));
                    }
                }
                Run::Launch(k) => {
                    let kernel = &launches[*k].compiled;
                    if !kernel.program().has_code() && kernels.insert(Arc::as_ptr(kernel).addr()) {
                        missing.push(Missing::Kernel(kernel));
                    }
                }
            }
        }
        missing
    }
}

fn compile(world: &World, task: &Task) -> Result<Arc<Compiled>> {
    let module = (*task.module).clone();
    let first: Vec<u32> = (module.trees.keys())
        .map(|tree| {
            let own = module.fields.iter().find(|(_, data)| data.tree == tree);
            own.map_or(0, |(field, _)| field.as_u32())
        })
        .collect();
    let compiled = world.load_kernel(module, &first)?;
    compiled.program().make_code()?;
    compiled.program().set_parts(profile_parts(task));
    Ok(compiled)
}

/// The kernels in a task, with their shares of its time.
fn profile_parts(task: &Task) -> Vec<Part> {
    let all: u64 = task.parts.iter().map(|p| p.cost.max(1)).sum();
    let mut out: Vec<Part> = Vec::new();
    for part in &task.parts {
        let share = part.cost.max(1) as f64 / all.max(1) as f64;
        match out.iter_mut().find(|p| *p.kernel == *part.kernel) {
            Some(known) => {
                known.count += 1;
                known.share += share;
            }
            None => out.push(Part {
                kernel: part.kernel.to_string(),
                count: 1,
                share,
            }),
        }
    }
    out
}

/// What a plan depends on: kernels, which trees and arrays are the same, and which temporary, the bounds of loops, and which floats are the same.
fn key(launches: &[Pending], numbered: &Numbered<'_>, temporaries: &[u32]) -> Vec<u64> {
    let mut key = Vec::with_capacity(launches.len() * 4);
    key.push(temporaries.len() as u64);
    key.extend(temporaries.iter().map(|t| u64::from(*t)));
    let mut floats: FxHashMap<(Scalar, u64), u64> = FxHashMap::default();
    for (launch, (trees, arrays)) in launches.iter().zip(&numbered.numbers) {
        // Different for each shape of arrays.
        key.push(Arc::as_ptr(&launch.tasks).addr() as u64);
        key.extend(trees.iter().chain(arrays).map(|n| u64::from(*n)));
        if let Some(task) = launch.tasks.first() {
            for (_, scalar, slot) in &task.summary.floats {
                let value = launch.params.get(*slot).copied().unwrap_or(0);
                let next = floats.len() as u64;
                key.push(*floats.entry((*scalar, value)).or_insert(next));
            }
        }
        for task in launch.tasks.iter() {
            if let Space::Box(bounds) = &task.summary.space {
                for bound in bounds.iter().flat_map(|(lo, hi)| [lo, hi]) {
                    if let Some(n) = bound.param() {
                        let slots = task.module.param_slots();
                        let slot = slots.get(n as usize).copied().unwrap_or(0);
                        key.push(launch.params.get(slot).copied().unwrap_or(0));
                    }
                }
            }
        }
    }
    key
}
