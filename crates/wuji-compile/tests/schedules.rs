//! The allocator under every schedule that a seed can think of: lowered code of several threads, one
//! memory access at a time, in random order.
//!
//! After each round no cell may be in two places: under a pointer, free, returned, or waiting for a collection.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Condvar, Mutex};
use wuji_compile::{Options, compile};
use wuji_ir::entities::{Func, Label, Node, Region, Tree, Value};
use wuji_ir::eval;
use wuji_ir::layout::{TreeMemory, header, shard, tree_header};
use wuji_ir::module::{Function, Module, Term};
use wuji_ir::ops::{ForKind, Op, Space};
use wuji_ir::text::parse;
use wuji_ir::types::{Imm, Scalar};

/// Whose turn it is.
struct Schedule {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Threads that are still running.
    alive: Vec<usize>,
    turn: usize,
    seed: u64,
    memory: BTreeMap<i64, u64>,
}

impl State {
    fn next(&mut self) {
        self.seed = self
            .seed
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        if !self.alive.is_empty() {
            self.turn = self.alive[(self.seed >> 33) as usize % self.alive.len()];
        }
    }
}

impl Schedule {
    /// Does something to memory when it is this thread's turn, and gives the turn to any of them.
    fn step<R>(&self, me: usize, what: impl FnOnce(&mut BTreeMap<i64, u64>) -> R) -> R {
        let mut state = self.state.lock().unwrap();
        while state.turn != me {
            state = self.changed.wait(state).unwrap();
        }
        let result = what(&mut state.memory);
        state.next();
        self.changed.notify_all();
        result
    }

    fn leave(&self, me: usize) {
        let mut state = self.state.lock().unwrap();
        state.alive.retain(|t| *t != me);
        if state.turn == me {
            state.next();
        }
        self.changed.notify_all();
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
            let results = match &data.op {
                Op::Const(imm) => vec![*imm],
                Op::Unary(op) => vec![eval::unary(*op, args[0]).unwrap()],
                Op::Binary(op) => vec![eval::binary(*op, args[0], args[1]).unwrap()],
                Op::Compare(op) => vec![Imm::bool(eval::compare(*op, args[0], args[1]).unwrap())],
                Op::Select => vec![args[if args[0].bits() != 0 { 1 } else { 2 }]],
                Op::Convert(to) => vec![eval::convert(args[0], *to)],
                Op::Bitcast(to) => vec![eval::bitcast(args[0], *to).unwrap()],
                Op::Report(_) => vec![],
                Op::Call(callee) => self.call(*callee, &args),
                Op::MemLoad(..)
                | Op::MemStore(_)
                | Op::MemAtomic(..)
                | Op::MemCompareExchange(_) => self.access(&data.op, &args),
                Op::If => {
                    let side = data.regions[usize::from(args[0].bits() == 0)];
                    match self.region(f, side, &[], values) {
                        Exit::Yield(results) => results,
                        exit => return exit,
                    }
                }
                Op::Loop(label) => {
                    let mut carried = args;
                    loop {
                        match self.region(f, data.regions[0], &carried, values) {
                            Exit::Continue(l, next) if l == *label => carried = next,
                            Exit::Break(l, results) if l == *label => break results,
                            exit => return exit,
                        }
                    }
                }
                Op::For(label, ForKind::Serial | ForKind::Parallel | ForKind::Boundary) => {
                    let int = |k: usize| args[k].as_int().unwrap();
                    let mut carried = args[3..].to_vec();
                    let mut index = int(0);
                    while index < int(1) {
                        let mut params = vec![Imm::int(args[0].ty, index)];
                        params.extend(&carried);
                        match self.region(f, data.regions[0], &params, values) {
                            Exit::Continue(l, next) if l == *label => carried = next,
                            exit => return exit,
                        }
                        index += int(2);
                    }
                    carried
                }
                op => panic!("{op:?} is nothing that an allocator does"),
            };
            values.extend(data.results.iter().copied().zip(results));
        }
        let hand = |v: &[Value]| v.iter().map(|v| values[v]).collect();
        match &f.regions[region].term {
            Term::Yield(v) => Exit::Yield(hand(v)),
            Term::Break(l, v) => Exit::Break(*l, hand(v)),
            Term::Continue(l, v) => Exit::Continue(*l, hand(v)),
            Term::Return(v) => Exit::Return(hand(v)),
            Term::Unreachable => panic!("control got where it cannot"),
        }
    }

    /// One indivisible access.
    fn access(&self, op: &Op, args: &[Imm]) -> Vec<Imm> {
        let at = args[0].as_int().unwrap() as i64;
        let space = match op {
            Op::MemLoad(s, _) | Op::MemStore(s) => s,
            Op::MemAtomic(_, s, _) | Op::MemCompareExchange(s) => s,
            _ => unreachable!(),
        };
        // Zeros in a cell that only this thread has: nobody can tell when.
        if let Space::Bytes(_) | Space::Streamed(_) = space {
            return vec![];
        }
        if let Space::Temps = space {
            return vec![];
        }
        self.schedule.step(self.number, |memory| {
            let old = memory.get(&at).copied().unwrap_or(0);
            let seen = |ty: Scalar| vec![Imm::from_bits(ty, old)];
            match op {
                Op::MemLoad(_, ty) => seen(ty.as_scalar().unwrap()),
                Op::MemStore(_) => {
                    memory.insert(at, args[1].bits());
                    vec![]
                }
                Op::MemAtomic(op, ..) => {
                    let now = match op {
                        wuji_ir::ops::AtomicOp::Exchange => args[1],
                        wuji_ir::ops::AtomicOp::Add => {
                            eval::binary(wuji_ir::ops::BinOp::Add, seen(args[1].ty)[0], args[1])
                                .unwrap()
                        }
                        op => panic!("{op:?} is nothing that an allocator does"),
                    };
                    memory.insert(at, now.bits());
                    seen(args[1].ty)
                }
                Op::MemCompareExchange(_) => {
                    if old == args[1].bits() {
                        memory.insert(at, args[2].bits());
                    }
                    seen(args[1].ty)
                }
                _ => unreachable!(),
            }
        })
    }
}

/// Two slots that share a shard, and one far away.
const SLOTS: [i64; 3] = [0, 1, 1500];

fn module(order: &str) -> Module {
    let text = format!(
        "module \"m\"\nstruct s0 {{ }}\ntree T0 {{ pointer S1 [i: 2048] {{ place f0, f1 }} }}\n\
         field f0 \"cells\": s0 in T0.S1 (i)\nfield f1 \"x\": i64 in T0.S1 (i)\nparam p0 \"i\": i64\n\
         kernel fn0 \"m\"(v0: i64) {{\n{order} f0[v0]\nreturn\n}}\n"
    );
    let parsed = parse(&text, "m.wir").unwrap_or_else(|e| panic!("{e}"));
    compile(parsed, &Options::default())
        .unwrap_or_else(|e| panic!("{e}"))
        .module()
        .clone()
}

fn word(memory: &BTreeMap<i64, u64>, at: u64) -> u64 {
    memory.get(&(at as i64)).copied().unwrap_or(0)
}

/// Every cell that was handed out is in exactly one place.
fn check(memory: &BTreeMap<i64, u64>, layout: &TreeMemory, elsewhere: u64, seed: u64) {
    let node = layout.node(Node::from_u32(1)).unwrap();
    let arena = node.arena.as_ref().unwrap();
    let head = |at: u64| word(memory, node.header + at);
    let run = |k: u64, what: u64| {
        let run = word(memory, arena.shards + k * shard::SIZE + what);
        assert_ne!(run, shard::BUSY, "seed {seed}: nobody fetches any more");
        (run & 0xffff_ffff)..(run >> 32)
    };
    let runs = |what: u64| (0..shard::COUNT).flat_map(move |k| run(k, what));
    let mut places: Vec<u64> = Vec::new();
    let slots = layout.node_offset[Node::from_u32(0)] + layout.node_offset[Node::from_u32(1)];
    places.extend(SLOTS.map(|k| word(memory, slots + 8 * k as u64)));
    places.retain(|cell| *cell != 0);
    let queue = head(header::TAKEN)..head(header::FREE);
    let queue = queue.chain(runs(shard::RECYCLED));
    places.extend(queue.map(|k| word(memory, arena.free + 8 * k)));
    let gaps: BTreeSet<u64> = runs(shard::PENDING).collect();
    let pending = (0..head(header::PENDING)).filter(|k| !gaps.contains(k));
    places.extend(pending.map(|k| word(memory, arena.pending + 8 * k)));
    places.extend(runs(shard::FRESH).map(|k| arena.data + k * arena.cell));
    let mut top = head(header::RETURNED) & 0xffff_ffff;
    while top != 0 {
        places.push(arena.data + (top - 1) * arena.cell);
        top = word(memory, arena.next + 8 * (top - 1));
    }
    let distinct: BTreeSet<u64> = places.iter().copied().collect();
    assert_eq!(
        distinct.len(),
        places.len(),
        "seed {seed}: a cell is in two places"
    );
    assert_eq!(
        distinct.len() as u64 + elsewhere,
        head(header::HIGH),
        "seed {seed}: a cell is nowhere"
    );
}

/// A tree with so many cells, some of which were used before, the others being in use elsewhere. Shards take several
/// at once when there are many.
fn used_before(layout: &TreeMemory, cells: u64, free: u64, ahead: bool) -> BTreeMap<i64, u64> {
    let node = layout.node(Node::from_u32(1)).unwrap();
    let arena = node.arena.as_ref().unwrap();
    let queue = (0..free).map(|k| (arena.free + 8 * k, arena.data + k * arena.cell));
    let words = [
        (node.header + header::HIGH, cells),
        (node.header + header::FREE, free),
        (node.header + header::AHEAD, u64::from(ahead)),
    ];
    queue.chain(words).map(|(at, v)| (at as i64, v)).collect()
}

#[test]
fn no_cell_is_in_two_places() {
    let (on, off) = (module("activate"), module("deactivate"));
    let tree = &on.trees[Tree::from_u32(0)];
    let layout = TreeMemory::of(tree, &on.fields, &on.structs).unwrap();
    let limit = layout.tree_header(tree).unwrap() + tree_header::LIMIT;
    for seed in 0..120u64 {
        // Runs of one cell; of a few; of many; of many that were never used.
        let (cells, free) = [(0, 0), (300, 300), (1000, 1000), (1000, 4)][seed as usize % 4];
        let elsewhere = cells - free;
        let mut memory = used_before(&layout, cells, free, seed % 8 < 4);
        memory.insert(limit as i64, i64::MAX as u64);
        for round in 0..4u64 {
            const THREADS: usize = 6;
            let schedule = Schedule {
                state: Mutex::new(State {
                    alive: (0..THREADS).collect(),
                    turn: 0,
                    seed: seed * 1000 + round,
                    memory,
                }),
                changed: Condvar::new(),
            };
            std::thread::scope(|scope| {
                for number in 0..THREADS {
                    let (schedule, on, off) = (&schedule, &on, &off);
                    scope.spawn(move || {
                        let mut dice = seed.wrapping_mul(31) + round * 7 + number as u64;
                        for _ in 0..12 {
                            dice = dice.wrapping_mul(6364136223846793005).wrapping_add(99991);
                            // Mostly activation, of few cells, so that threads meet.
                            let module = if (dice >> 40).is_multiple_of(2) {
                                off
                            } else {
                                on
                            };
                            let slot = SLOTS[(dice >> 33) as usize % SLOTS.len()];
                            let slot = Imm::int(Scalar::I64, i128::from(slot));
                            let thread = Thread {
                                number,
                                module,
                                schedule,
                            };
                            thread.call(module.tasks[0].func, &[slot]);
                        }
                        schedule.leave(number);
                    });
                }
            });
            memory = schedule.state.into_inner().unwrap().memory;
            check(&memory, &layout, elsewhere, seed);
            // Between tasks: a collection, alone.
            let schedule = Schedule {
                state: Mutex::new(State {
                    alive: vec![0],
                    turn: 0,
                    seed: 0,
                    memory,
                }),
                changed: Condvar::new(),
            };
            let thread = Thread {
                number: 0,
                module: &off,
                schedule: &schedule,
            };
            thread.call(off.tasks[1].func, &[Imm::int(Scalar::I64, 0)]);
            memory = schedule.state.into_inner().unwrap().memory;
            check(&memory, &layout, elsewhere, seed);
        }
    }
}
