//! Launches that are optimized together, as in a lazy world: the tasks of the plan run on the interpreter one after the other.

use super::observe::{Observation, dense_fields, interpret};
use super::program::{Inputs, Program};
use wuji_compile::{Math, Options};
use wuji_flow::{Bank, Launch, Run, Switches, Window};
use wuji_ir::Result;
use wuji_ir::entities::Field;
use wuji_ir::interp::Order;
use wuji_ir::module::Module;
use wuji_ir::types::Imm;

/// How a window is run.
#[derive(Clone, PartialEq, Debug)]
pub struct WindowCheck {
    pub launches: u64,
    pub without: Vec<&'static str>,
    pub fuel: Option<u64>,
    pub order: Order,
}

/// Whether launches of a program can wait: nothing about them is ordered.
pub(super) fn can_wait(m: &Module) -> bool {
    let Ok(tasks) = Bank::new(&options(&[])).tasks_of(m) else {
        return true;
    };
    m.arrays.is_empty() && !tasks.iter().any(|t| t.summary.ordered)
}

/// What a program does in several launches.
pub(super) fn eager(program: &Program, launches: u64, max_steps: u64) -> Result<Observation> {
    let inputs = Inputs {
        again: launches - 1,
        ..program.inputs.clone()
    };
    let serial = Order::Serial;
    let seen = interpret(&program.module, false, serial, &inputs, max_steps, None)?;
    Ok(contents(seen))
}

/// The same launches as a window.
pub(super) fn lazy(program: &Program, how: &WindowCheck, max_steps: u64) -> Result<Observation> {
    let m = &program.module;
    let options = options(&how.without);
    let mut bank = Bank::new(&options);
    let launch = Launch {
        tasks: bank.tasks_of(m)?.into(),
        trees: (0..m.trees.len() as u32).collect(),
        params: program.inputs.params.iter().map(|p| p.bits()).collect(),
    };
    let window = Window {
        launches: vec![launch; how.launches as usize],
    };
    let mut switches = Switches::without(&options.without);
    switches.fuel = how.fuel;
    let plan = window.plan(&mut bank, &switches);
    let mut state = program.inputs.clone();
    state.again = 0;
    // Elements of a cell that is active for another field are there, too.
    let all: Vec<Field> = m.fields.keys().collect();
    let mut nothing = m.clone();
    nothing.kernel = None;
    nothing.funcs.clear();
    nothing.signatures.clear();
    step(&nothing, &all, 1, Order::Serial, max_steps, &mut state)?;
    for run in &plan.runs {
        match run {
            Run::Launch(_) => {
                step(m, &all, 1, how.order, max_steps, &mut state)?;
            }
            Run::Task(node) => {
                let task = &node.task.module;
                let fields = (task.fields.keys()).map(|f| original(m, task, &node.trees, f));
                let fields: Vec<Field> = fields.collect();
                let launches = node.launches.len();
                step(task, &fields, launches, how.order, max_steps, &mut state)?;
            }
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

/// What a window must not change. Reports name the fields of tasks, whose numbers are others.
fn contents(seen: Observation) -> Observation {
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

/// Runs a module whose fields are these fields of the program.
fn step(
    m: &Module,
    fields: &[Field],
    launches: usize,
    order: Order,
    max_steps: u64,
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
        buffers: Vec::new(),
        views: Vec::new(),
        seed: state.seed,
        launch: state.launch,
        again: 0,
    };
    let seen = interpret(m, false, order, &inputs, max_steps, None)?;
    for field in dense_fields(m) {
        let at = field.as_u32() as usize;
        state.fields[fields[at].as_u32() as usize] = seen.fields[at].clone();
    }
    for (field, cells) in seen.sparse {
        let original = fields[field.as_u32() as usize];
        for known in state.sparse.iter_mut().filter(|(f, _)| *f == original) {
            known.1 = cells.clone();
        }
    }
    Ok(())
}
