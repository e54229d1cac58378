//! Interprets lowered code of several threads, one memory access at a time, in a pseudo-random order.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex};
use wuji_compile::nodes::UPKEEP;
use wuji_ir::entities::{Func, Label, Region, Value};
use wuji_ir::eval;
use wuji_ir::module::{Bound, Function, Module, Task, TaskKind, Term};
use wuji_ir::ops::{CheckOp, ControlOp, MemoryOp, OpClass, Space};
use wuji_ir::types::{Imm, Scalar};

/// Words by offset; missing ones are zero.
pub(crate) type Memory = BTreeMap<i64, u64>;

/// The scheduler of the threads.
struct Schedule {
    state: Mutex<State>,
    /// One for each thread.
    turns: Vec<Condvar>,
}

struct State {
    /// Threads that are still running.
    alive: Vec<usize>,
    turn: usize,
    seed: u64,
    /// The average number of accesses between two thread switches.
    patience: u64,
    memory: Memory,
}

impl State {
    fn next(&mut self) {
        self.seed = self
            .seed
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        let stays =
            self.alive.contains(&self.turn) && !(self.seed >> 50).is_multiple_of(self.patience);
        if !self.alive.is_empty() && !stays {
            self.turn = self.alive[(self.seed >> 33) as usize % self.alive.len()];
        }
    }
}

impl Schedule {
    /// Executes one access when it is this thread's turn, and passes the turn to a random thread.
    fn step<R>(&self, me: usize, what: impl FnOnce(&mut Memory) -> R) -> R {
        let mut state = self.state.lock().unwrap();
        while state.turn != me {
            state = self.turns[me].wait(state).unwrap();
        }
        let result = what(&mut state.memory);
        state.next();
        self.turns[state.turn].notify_one();
        result
    }

    fn leave(&self, me: usize) {
        let mut state = self.state.lock().unwrap();
        state.alive.retain(|t| *t != me);
        if state.turn == me {
            state.next();
        }
        self.turns[state.turn].notify_one();
    }
}

/// How control leaves a region.
enum Exit {
    Yield(Vec<Imm>),
    Break(Label, Vec<Imm>),
    Continue(Label, Vec<Imm>),
    Return(Vec<Imm>),
}

struct Thread<'a> {
    number: usize,
    module: &'a Module,
    schedule: &'a Schedule,
    /// Temps of this launch.
    temps: &'a Mutex<Memory>,
}

impl Thread<'_> {
    fn call(&self, func: Func, args: &[Imm]) -> Vec<Imm> {
        let f = &self.module.funcs[func];
        let mut values = BTreeMap::new();
        match self.region(f, f.entry, args, &mut values) {
            Exit::Return(values) => values,
            _ => panic!("a function ends by `return`"),
        }
    }

    fn region(
        &self,
        f: &Function,
        region: Region,
        params: &[Imm],
        values: &mut BTreeMap<Value, Imm>,
    ) -> Exit {
        values.extend(
            f.regions[region]
                .params
                .iter()
                .copied()
                .zip(params.iter().copied()),
        );
        for inst in &f.regions[region].insts {
            let data = &f.insts[*inst];
            let args: Vec<Imm> = data.args.iter().map(|a| values[a]).collect();
            let results = match data.op.class() {
                OpClass::Constant(imm) => vec![imm],
                OpClass::Elementwise(op) => vec![eval::elementwise(op, |k| args[k]).unwrap()],
                OpClass::Check(CheckOp::Report(_)) => vec![],
                OpClass::Call(callee) => self.call(callee, &args),
                OpClass::Memory(op) => self.access(op, &args),
                OpClass::Control(ControlOp::If) => {
                    let side = data.regions[usize::from(args[0].bits() == 0)];
                    match self.region(f, side, &[], values) {
                        Exit::Yield(results) => results,
                        exit => return exit,
                    }
                }
                OpClass::Control(ControlOp::Loop(label)) => {
                    let mut carried = args;
                    loop {
                        match self.region(f, data.regions[0], &carried, values) {
                            Exit::Continue(l, next) if l == label => carried = next,
                            Exit::Break(l, results) if l == label => break results,
                            exit => return exit,
                        }
                    }
                }
                OpClass::Control(ControlOp::For(label, _)) => {
                    let int = |k: usize| args[k].as_int().unwrap();
                    let mut carried = args[3..].to_vec();
                    let mut index = int(0);
                    while index < int(1) {
                        let mut params = vec![Imm::int(args[0].ty, index)];
                        params.extend(&carried);
                        match self.region(f, data.regions[0], &params, values) {
                            Exit::Continue(l, next) if l == label => carried = next,
                            exit => return exit,
                        }
                        index += int(2);
                    }
                    carried
                }
                op @ (OpClass::Component(_)
                | OpClass::Reduce(_)
                | OpClass::Algebra(_)
                | OpClass::Query(_)
                | OpClass::Hint(_)
                | OpClass::Access(..)
                | OpClass::Cell(..)
                | OpClass::TreeAccess(..)
                | OpClass::Control(ControlOp::Block(_) | ControlOp::ForEach(..))
                | OpClass::Random
                | OpClass::Thread(_)
                | OpClass::Check(
                    CheckOp::Print(_) | CheckOp::Assert(_) | CheckOp::CheckIndex(_),
                )) => {
                    panic!("{op:?} is not used by allocators")
                }
            };
            values.extend(data.results.iter().copied().zip(results));
        }
        let hand = |v: &[Value]| v.iter().map(|v| values[v]).collect();
        match &f.regions[region].term {
            Term::Yield(v) => Exit::Yield(hand(v)),
            Term::Break(l, v) => Exit::Break(*l, hand(v)),
            Term::Continue(l, v) => Exit::Continue(*l, hand(v)),
            Term::Return(v) => Exit::Return(hand(v)),
            Term::Unreachable => panic!("reached unreachable code"),
        }
    }

    /// One atomic access.
    fn access(&self, op: MemoryOp<'_>, args: &[Imm]) -> Vec<Imm> {
        let at = args[0].as_int().unwrap() as i64;
        let space = match op {
            MemoryOp::MemLoad(s, _) | MemoryOp::MemStore(s) => s,
            MemoryOp::MemAtomic(_, s, _) | MemoryOp::MemCompareExchange(s) => s,
            MemoryOp::LoadInterleaved(_)
            | MemoryOp::StoreInterleaved(_)
            | MemoryOp::AddInterleaved(_) => panic!("{op:?} is not used by allocators"),
        };
        match space {
            // Clears a cell that only this thread can access, so the timing does not matter.
            Space::Bytes(_) | Space::Streamed(_) => {
                let mut state = self.schedule.state.lock().unwrap();
                apply(&mut state.memory, op, at, args)
            }
            Space::Temps => apply(&mut self.temps.lock().unwrap(), op, at, args),
            _ => self
                .schedule
                .step(self.number, |memory| apply(memory, op, at, args)),
        }
    }
}

/// Applies an access, and returns its results.
fn apply(memory: &mut Memory, op: MemoryOp<'_>, at: i64, args: &[Imm]) -> Vec<Imm> {
    let old = memory.get(&at).copied().unwrap_or(0);
    let seen = |ty: Scalar| vec![Imm::from_bits(ty, old)];
    match op {
        MemoryOp::MemLoad(_, ty) => seen(ty.as_scalar().unwrap()),
        MemoryOp::MemStore(_) => {
            memory.insert(at, args[1].bits());
            vec![]
        }
        MemoryOp::MemAtomic(op, ..) => {
            let (ty, value) = (args[1].ty, args[1]);
            let now = eval::combine(op, Imm::from_bits(ty, old), value).unwrap();
            memory.insert(at, now.bits());
            seen(ty)
        }
        MemoryOp::MemCompareExchange(_) => {
            if old == args[1].bits() {
                memory.insert(at, args[2].bits());
            }
            seen(args[1].ty)
        }
        MemoryOp::LoadInterleaved(_)
        | MemoryOp::StoreInterleaved(_)
        | MemoryOp::AddInterleaved(_) => panic!("{op:?} is not used by allocators"),
    }
}

/// A kernel and its arguments.
pub(crate) type Call<'a> = (&'a Module, Vec<i64>);

/// Runs the calls of each thread concurrently; then the upkeep tasks that follow the kernels, on one thread. The
/// tasks that precede them have been run before.
pub(crate) fn run_concurrently(memory: Memory, seed: u64, threads: Vec<Vec<Call<'_>>>) -> Memory {
    let used: Vec<&Module> = threads.iter().flatten().map(|c| c.0).collect();
    let mut modules: Vec<&Module> = Vec::new();
    for m in used {
        if !modules.iter().any(|other| std::ptr::eq(*other, m)) {
            modules.push(m);
        }
    }
    let memory = modules.iter().fold(memory, |memory, m| {
        let before = m.tasks.iter().take_while(|t| t.ordinal == UPKEEP);
        alone(memory, m, before)
    });
    let schedule = Schedule {
        state: Mutex::new(State {
            alive: (0..threads.len()).collect(),
            turn: 0,
            seed: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            patience: [1, 1, 2, 6][seed as usize % 4],
            memory,
        }),
        turns: threads.iter().map(|_| Condvar::new()).collect(),
    };
    std::thread::scope(|scope| {
        for (number, calls) in threads.into_iter().enumerate() {
            let schedule = &schedule;
            scope.spawn(move || {
                for (module, args) in calls {
                    let thread = Thread {
                        number,
                        module,
                        schedule,
                        temps: &Mutex::default(),
                    };
                    let mut tasks = module.tasks.iter();
                    let main = tasks.find(|t| t.ordinal != UPKEEP).unwrap();
                    let args: Vec<Imm> = args.into_iter().map(int).collect();
                    thread.call(main.func, &args);
                }
                schedule.leave(number);
            });
        }
    });
    let memory = schedule.state.into_inner().unwrap().memory;
    modules.into_iter().fold(memory, |memory, m| {
        let main = m.tasks.iter().rposition(|t| t.ordinal != UPKEEP).unwrap();
        alone(memory, m, m.tasks[main + 1..].iter())
    })
}

fn int(v: i64) -> Imm {
    Imm::int(Scalar::I64, v.into())
}

/// Runs tasks in order, on one thread.
fn alone<'t>(memory: Memory, module: &Module, tasks: impl Iterator<Item = &'t Task>) -> Memory {
    let schedule = Schedule {
        state: Mutex::new(State {
            alive: vec![0],
            turn: 0,
            seed: 0,
            patience: 1,
            memory,
        }),
        turns: vec![Condvar::new()],
    };
    let temps = Mutex::default();
    let thread = Thread {
        number: 0,
        module,
        schedule: &schedule,
        temps: &temps,
    };
    for task in tasks {
        let mut args = vec![int(0); module.params.len()];
        if let TaskKind::Chunks { dims, .. } = &task.kind {
            let end = match dims[..] {
                [ref dim] => match dim.hi {
                    Bound::Temp(t) => {
                        let at = module.temp_offsets().0[t.as_u32() as usize];
                        temps.lock().unwrap().get(&(at as i64)).copied()
                    }
                    _ => None,
                },
                _ => None,
            };
            args.extend([int(0), int(end.unwrap_or(0) as i64)]);
        }
        thread.call(task.func, &args);
    }
    schedule.state.into_inner().unwrap().memory
}
