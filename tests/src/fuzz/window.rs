//! Launches that are optimized together, as in a lazy world: the tasks of the plan run on the interpreter one after the other.

use super::inputs::contiguous;
use super::observe::{Observation, dense_fields, interpret};
use super::program::{Inputs, Program};
use std::sync::Arc;
use wuji_compile::specialize::{Arguments, Candidates, specialize};
use wuji_compile::{Math, Options};
use wuji_flow::{Bank, Launch, LaunchPlan, Run, Switches, Task, Window};
use wuji_ir::Result;
use wuji_ir::entities::Field;
use wuji_ir::interp::Order;
use wuji_ir::module::{ArrayShape, Module};
use wuji_ir::types::Imm;

/// How a window is run.
#[derive(Clone, PartialEq, Debug)]
pub struct WindowCheck {
    pub launches: Launches,
    /// Trees that nothing reads afterwards, as bits.
    pub temporaries: u64,
    pub without: Vec<&'static str>,
    pub fuel: Option<u64>,
    pub order: Order,
}

/// What is launched.
#[derive(Clone, PartialEq, Debug)]
pub enum Launches {
    /// The program, so many times.
    Program(u64),
    /// Its tasks as kernels of their own, in this order; numbers above theirs start again.
    Tasks(Vec<usize>),
}

/// Whether launches of a program can wait: nothing about them is ordered.
pub(super) fn can_wait(program: &Program) -> bool {
    let Some(m) = for_shapes(program) else {
        return false;
    };
    let Ok(tasks) = Bank::new(&options(&[])).tasks_of(&m) else {
        return true;
    };
    !tasks.iter().any(|t| t.summary.ordered)
}

/// The kernel for the shapes of its arrays; `None` if one of them is a view of a part of its memory, or shares it.
fn for_shapes(program: &Program) -> Option<Module> {
    let m = &program.module;
    let views = &program.inputs.views;
    let mut shapes = Vec::new();
    for (k, (array, data)) in m.arrays.iter().enumerate() {
        let view = program.inputs.view(array);
        let shared = views[..k].iter().any(|v| v.buffer == view.buffer);
        let size = m.structs.size_align(data.elem).0 as i64;
        let whole = *view == contiguous(view.buffer, &view.extents, size);
        if shared || !whole || !data.contiguous || !data.unaliased {
            return None;
        }
        shapes.push(ArrayShape {
            extents: view.extents.iter().copied().collect(),
            align: 1,
        });
    }
    let candidates = Candidates {
        arrays: m.arrays.keys().collect(),
        ..Candidates::default()
    };
    let arguments = Arguments {
        shapes,
        ..Arguments::default()
    };
    Some(specialize(m, &candidates, &arguments))
}

/// What a program does in several launches.
pub(super) fn eager(program: &Program, how: &WindowCheck, max_steps: u64) -> Result<Observation> {
    let seen = match &how.launches {
        Launches::Program(times) => {
            let inputs = Inputs {
                again: times - 1,
                ..program.inputs.clone()
            };
            let serial = Order::Serial;
            interpret(&program.module, false, serial, &inputs, max_steps, None)?
        }
        Launches::Tasks(_) => {
            let (window, _) = window_of(program, how)?;
            let plan = window.plan_of(&window.graph());
            run(program, &window, &plan, Order::Serial, max_steps)?
        }
    };
    Ok(contents(program, how, seen))
}

/// The same launches as a window.
pub(super) fn lazy(program: &Program, how: &WindowCheck, max_steps: u64) -> Result<Observation> {
    let (window, mut bank) = window_of(program, how)?;
    let mut switches = Switches::without(&bank.options().without);
    switches.fuel = how.fuel;
    let plan = window.plan(&mut bank, &switches);
    let seen = run(program, &window, &plan, how.order, max_steps)?;
    Ok(contents(program, how, seen))
}

fn window_of(program: &Program, how: &WindowCheck) -> Result<(Window, Bank)> {
    let m = &for_shapes(program).unwrap_or_else(|| program.module.clone());
    let mut bank = Bank::new(&options(&how.without));
    let tasks = bank.tasks_of(m)?;
    let trees = m.trees.len() as u32;
    let launch = |tasks: &[Arc<Task>]| Launch {
        tasks: tasks.into(),
        trees: (0..trees).collect(),
        arrays: (trees..trees + m.arrays.len() as u32).collect(),
        params: program.inputs.params.iter().map(|p| p.bits()).collect(),
    };
    let launches = match &how.launches {
        Launches::Program(times) => vec![launch(&tasks); *times as usize],
        Launches::Tasks(order) => {
            let some = order.iter().filter(|_| !tasks.is_empty());
            some.map(|k| launch(&[tasks[k % tasks.len()].clone()]))
                .collect()
        }
    };
    let trees = 0..trees.min(64);
    let window = Window {
        launches,
        temporaries: trees.filter(|t| how.temporaries >> t & 1 == 1).collect(),
    };
    Ok((window, bank))
}

/// Runs a plan on the interpreter.
fn run(
    program: &Program,
    window: &Window,
    plan: &LaunchPlan,
    order: Order,
    max_steps: u64,
) -> Result<Observation> {
    let m = &program.module;
    let mut state = program.inputs.clone();
    state.again = 0;
    // Elements of a cell that is active for another field are there, too.
    let all: Vec<Field> = m.fields.keys().collect();
    let mut nothing = m.clone();
    nothing.kernel = None;
    nothing.funcs.clear();
    nothing.signatures.clear();
    let arrays: Vec<usize> = (0..m.arrays.len()).collect();
    step(
        &nothing,
        (&all, &arrays),
        1,
        (Order::Serial, max_steps),
        &mut state,
    )?;
    for run in &plan.runs {
        let (tasks, launches): (&[Arc<Task>], usize) = match run {
            Run::Launch(k) => (&window.launches[*k].tasks, 1),
            Run::Task(node) => (std::slice::from_ref(&node.task), node.launches.len()),
        };
        for task in tasks {
            let (trees, arrays) = match run {
                Run::Launch(_) => (task.trees.clone(), task.arrays.clone()),
                Run::Task(node) => {
                    let first = m.trees.len() as u32;
                    let arrays = node.arrays.iter().map(|n| n - first);
                    (node.trees.clone(), arrays.collect())
                }
            };
            let arrays: Vec<usize> = arrays.iter().map(|n| *n as usize).collect();
            let module = &task.module;
            let fields = (module.fields.keys()).map(|f| original(m, module, &trees, f));
            let fields: Vec<Field> = fields.collect();
            let data = (&fields[..], &arrays[..]);
            step(module, data, launches, (order, max_steps), &mut state)?;
        }
    }
    Ok(Observation {
        fields: state.fields,
        sparse: state.sparse,
        buffers: state.buffers,
        ..Observation::default()
    })
}

fn options(without: &[&'static str]) -> Options {
    Options {
        math: Math::Strict,
        without: without.iter().map(|w| (*w).to_owned()).collect(),
        ..Options::default()
    }
}

/// What a window must not change. Reports name the fields of tasks, whose numbers are others. Nothing reads temporaries.
fn contents(program: &Program, how: &WindowCheck, mut seen: Observation) -> Observation {
    for (field, data) in program.module.fields.iter() {
        let tree = data.tree.as_u32();
        if tree < 64 && how.temporaries >> tree & 1 == 1 {
            if let Some(values) = seen.fields.get_mut(field.as_u32() as usize) {
                values.clear();
            }
            seen.sparse.retain(|(f, _)| *f != field);
        }
    }
    Observation {
        result: None,
        reports: Vec::new(),
        printed: Vec::new(),
        ..seen
    }
}

/// The field of the program that a field of a task is.
fn original(m: &Module, task: &Module, trees: &[u32], field: Field) -> Field {
    let own = task.fields[field].tree;
    let number = (task.fields.iter())
        .take_while(|(f, _)| *f != field)
        .filter(|(_, data)| data.tree == own)
        .count();
    let tree = trees[own.as_u32() as usize];
    let mut fields = m.fields.iter().filter(|(_, d)| d.tree.as_u32() == tree);
    fields.nth(number).map_or(field, |(f, _)| f)
}

/// Runs a module whose fields and arrays are these of the program.
fn step(
    m: &Module,
    (fields, arrays): (&[Field], &[usize]),
    launches: usize,
    (order, max_steps): (Order, u64),
    state: &mut Inputs,
) -> Result<()> {
    let own = |field: Field| fields.iter().position(|f| *f == field);
    let sparse = state.sparse.iter();
    let sparse = sparse.filter_map(|(field, cells)| {
        let own = own(*field)?;
        Some((Field::from_u32(own as u32), cells.clone()))
    });
    let params: Vec<Imm> = (0..launches).flat_map(|_| state.params.clone()).collect();
    let inputs = Inputs {
        params,
        fields: fields.iter().map(|f| state.field(*f).to_vec()).collect(),
        sparse: sparse.collect(),
        buffers: state.buffers.clone(),
        views: arrays.iter().map(|k| state.views[*k].clone()).collect(),
        seed: state.seed,
        launch: state.launch,
        again: 0,
    };
    let seen = interpret(m, false, order, &inputs, max_steps, None)?;
    for field in dense_fields(m) {
        let at = field.as_u32() as usize;
        state.fields[fields[at].as_u32() as usize] = seen.fields[at].clone();
    }
    state.buffers = seen.buffers;
    for (field, cells) in seen.sparse {
        let original = fields[field.as_u32() as usize];
        for known in state.sparse.iter_mut().filter(|(f, _)| *f == original) {
            known.1 = cells.clone();
        }
    }
    Ok(())
}
