//! Lowers assertions, prints, index checks, random numbers and recursion checks to plain instructions and reports.
//!
//! Runs on the functions of tasks, where `return` ends an iteration, and on called functions, mostly recursive
//! ones. A called function takes three more parameters (iteration, draws made so far, depth) and returns two more
//! results (draws made, failed), so that a failed assertion in a callee ends the iteration. Depth counts only
//! activations of recursive functions.

use crate::analysis::calls::CallGraph;
use crate::options::Bounds;
use crate::passes::Cx;
use crate::rewrite::Substitution;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::smallvec;
use wuji_ir::Result;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Func, Inst, Local, Region, Temp, Value};
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{BOOL, I32, I64, Imm, Scalar, Type, U64};

/// The pass; the [module](self) describes it.
pub fn lower_checks(m: &mut Module, cx: &mut Cx) -> Result<()> {
    let tasks: FxHashSet<Func> = m.tasks.iter().map(|t| t.func).collect();
    let graph = CallGraph::of(m);
    let called = called(m, &tasks);
    for g in &called {
        extend_signature(&mut m.funcs[*g]);
        m.env.signatures[*g] = m.funcs[*g].signature();
    }
    let continued = continued_draws(m);
    for func in tasks.iter().chain(&called).copied() {
        let f = &mut m.funcs[func];
        let caller = if called.contains(&func) {
            Caller::Function
        } else {
            Caller::Runtime(continued.get(&func).copied())
        };
        lower_function(&mut m.env, (func, f), caller, &graph, cx.options.bounds);
    }
    Ok(())
}

/// What calls a function.
#[derive(Copy, Clone)]
enum Caller {
    Function,
    /// The function of a task. A temp has the draws that earlier tasks of the same serial code have made.
    Runtime(Option<Temp>),
}

/// Temps that count the draws of serial code which is several tasks, or is repeated.
fn continued_draws(m: &mut Module) -> FxHashMap<Func, Temp> {
    let draws = |t: &&Task| matches!(t.kind, TaskKind::Serial) && draws(&m.funcs[t.func]);
    let drawing: Vec<(u32, Func)> = (m.tasks.iter().filter(draws))
        .map(|t| (t.ordinal, t.func))
        .collect();
    let repeats = m.tasks.iter().any(|t| t.flow.repeat.is_some());
    let mut counts: FxHashMap<u32, usize> = FxHashMap::default();
    for (ordinal, _) in &drawing {
        *counts.entry(*ordinal).or_default() += 1;
    }
    let mut temps: FxHashMap<u32, Temp> = FxHashMap::default();
    let mut continued = FxHashMap::default();
    for (ordinal, func) in drawing {
        if repeats || counts[&ordinal] > 1 {
            let temp = temps.entry(ordinal);
            let temp = temp.or_insert_with(|| m.env.temps.push(TempData { ty: U64 }));
            continued.insert(func, *temp);
        }
    }
    continued
}

/// Whether a function draws random numbers, or may do so in what it calls.
fn draws(f: &Function) -> bool {
    uses(f, |op| matches!(op, Op::Random | Op::Call(_)))
}

/// The functions that tasks still call.
fn called(m: &Module, tasks: &FxHashSet<Func>) -> FxHashSet<Func> {
    let direct = tasks.iter().flat_map(|task| m.funcs[*task].callees());
    m.reachable(direct).into_iter().collect()
}

fn extend_signature(f: &mut Function) {
    let entry = f.entry;
    for ty in [I64, U64, I32] {
        f.add_region_param(entry, ty);
    }
    f.results.extend([U64, BOOL]);
}

fn lower_function(
    m: &mut Env,
    (func, f): (Func, &mut Function),
    caller: Caller,
    graph: &CallGraph,
    bounds: Bounds,
) {
    let (called, continued) = match caller {
        Caller::Function => (true, None),
        Caller::Runtime(temp) => (false, temp),
    };
    let draw = (called || draws(f)).then(|| {
        f.locals.push(LocalData {
            name: "draw".into(),
            ty: U64,
            len: None,
            shared: false,
            role: LocalRole::Variable,
        })
    });
    let given = called.then(|| {
        let p = f.params();
        let n = p.len();
        Given {
            iteration: p[n - 3],
            draw: p[n - 2],
            depth: p[n - 1],
        }
    });
    let regions = f.walk_regions();
    let entry = f.entry;
    let mut lower = Lower {
        b: Builder::new(m, f),
        func,
        draw,
        continued,
        given,
        graph,
        bounds,
        subst: Substitution::new(),
        recursion: Span::UNKNOWN,
    };
    for region in regions {
        lower.region(region);
    }
    let subst = std::mem::take(&mut lower.subst);
    lower.begin(entry);
    subst.apply(f);
}

fn uses(f: &Function, pred: impl Fn(&Op) -> bool) -> bool {
    let mut any = false;
    f.walk(|i| any |= pred(&f.insts[i].op));
    any
}

/// The extra parameters of a called function.
#[derive(Copy, Clone)]
struct Given {
    iteration: Value,
    draw: Value,
    depth: Value,
}

struct Lower<'a> {
    b: Builder<'a>,
    func: Func,
    draw: Option<Local>,
    /// What earlier tasks have drawn.
    continued: Option<Temp>,
    given: Option<Given>,
    graph: &'a CallGraph,
    bounds: Bounds,
    subst: Substitution,
    /// The first recursive call of the function.
    recursion: Span,
}

impl Lower<'_> {
    fn region(&mut self, region: Region) {
        let insts = std::mem::take(&mut self.b.func.regions[region].insts);
        self.b.region = region;
        for inst in insts {
            self.inst(inst);
        }
        if let (Some(_), Term::Return(values)) =
            (self.given, self.b.func.regions[region].term.clone())
        {
            let draws = self.load_draw();
            let failed = self.b.bool(false);
            let mut values = values;
            values.extend([draws, failed]);
            self.b.func.regions[region].term = Term::Return(values);
        }
        if let (Some(temp), Term::Return(_)) = (self.continued, &self.b.func.regions[region].term) {
            let draws = self.load_draw();
            self.b.store(Place::Temp(temp), &[], draws);
        }
    }

    fn inst(&mut self, inst: Inst) {
        let data = self.b.func.insts[inst].clone();
        self.b.span = self.b.func.spans[inst];
        match data.op.class() {
            OpClass::Check(CheckOp::Assert(message)) => {
                let site = self.site(SiteKind::Assert(message));
                let holes: Values = data.args[1..].into();
                self.unless(data.args[0], |l| {
                    l.b.push(Op::Report(site), &holes);
                    l.give_up()
                });
            }
            OpClass::Check(CheckOp::Print(message)) => {
                let site = self.site(SiteKind::Print(message));
                let mut args: Values = smallvec![self.iteration()];
                args.extend(data.args.iter().copied());
                self.b.push(Op::Report(site), &args);
            }
            OpClass::Check(CheckOp::CheckIndex(len)) => self.check_index(data.args[0], len),
            OpClass::Random => {
                let value = self.random();
                self.subst.set(data.results[0], value);
            }
            OpClass::Call(callee) => {
                if self.graph.recursive[callee] && !self.recursion.is_known() {
                    self.recursion = self.b.span;
                }
                self.call(inst, callee, &data);
            }
            OpClass::Check(CheckOp::Report(_))
            | OpClass::Constant(_)
            | OpClass::Elementwise(_)
            | OpClass::Component(_)
            | OpClass::Reduce(_)
            | OpClass::Algebra(_)
            | OpClass::Query(_)
            | OpClass::Hint(_)
            | OpClass::Access(..)
            | OpClass::Cell(..)
            | OpClass::TreeAccess(..)
            | OpClass::Memory(_)
            | OpClass::Control(_)
            | OpClass::Thread(_) => self.b.func.regions[self.b.region].insts.push(inst),
        }
    }

    fn site(&mut self, kind: SiteKind) -> wuji_ir::entities::Site {
        let span = self.b.span;
        self.b.env.sites.push(SiteData { kind, span })
    }

    /// Runs `otherwise` if the condition is false; it returns the terminator of its region.
    fn unless(&mut self, cond: Value, otherwise: impl FnOnce(&mut Self) -> Term) {
        let branch = self.b.push_typed(Op::If, &[cond], &[]);
        let outer = self.b.region;
        let (fine, bad) = (self.b.func.add_region(&[]), self.b.func.add_region(&[]));
        self.b.region = fine;
        self.b.end(Term::Yield(Values::new()));
        self.b.region = bad;
        let term = otherwise(self);
        self.b.end(term);
        self.b.region = outer;
        self.b.func.insts[branch].regions.extend([fine, bad]);
    }

    /// Ends the iteration: a called function returns zeros and the failure flag.
    fn give_up(&mut self) -> Term {
        let mut values = Values::new();
        if self.given.is_some() {
            let types: Vec<Type> = self.b.func.results.clone();
            for ty in &types[..types.len() - 2] {
                let zero = self.b.zero(*ty);
                values.push(zero);
            }
            values.push(self.load_draw());
            values.push(self.b.bool(true));
        }
        Term::Return(values)
    }

    fn iteration(&mut self) -> Value {
        match self.given {
            Some(g) => g.iteration,
            None => self.b.value(Op::Iteration, &[]),
        }
    }

    fn check_index(&mut self, index: Value, len: u32) {
        if self.bounds == Bounds::Unchecked {
            return;
        }
        let known = self.b.func.constant(index).and_then(Imm::as_int);
        if known.is_some_and(|k| (0..i128::from(len)).contains(&k)) {
            return;
        }
        let index = match self.b.func.ty(index).as_scalar() {
            // Reports saturate larger numbers to the largest `i64`.
            Some(Scalar::U64) => {
                let most = self.b.int(Scalar::U64, i64::MAX.into());
                self.b.binary(BinOp::Min, index, most)
            }
            _ => index,
        };
        let wide = self.b.convert(index, Scalar::I64);
        let bits = self.b.value(Op::Bitcast(Scalar::U64), &[wide]);
        let end = self.b.int(Scalar::U64, len.into());
        let ok = self.b.compare(CmpOp::Lt, bits, end);
        let site = self.site(SiteKind::BadIndex { len });
        self.unless(ok, |l| {
            l.b.push(Op::Report(site), &[wide]);
            Term::Yield(Values::new())
        });
    }

    fn load_draw(&mut self) -> Value {
        match self.draw {
            Some(local) => self.b.load(Place::Local(local), &[]),
            None => self.b.int(Scalar::U64, 0),
        }
    }

    /// `docs/ir.md`, section 5.
    fn random(&mut self) -> Value {
        const G: u64 = 0x9e37_79b9_7f4a_7c15;
        let draw = self.load_draw();
        let one = self.b.int(Scalar::U64, 1);
        let next = self.b.binary(BinOp::Add, draw, one);
        if let Some(local) = self.draw {
            self.b.store(Place::Local(local), &[], next);
        }
        let iteration = self.iteration();
        let iteration = self.b.value(Op::Bitcast(Scalar::U64), &[iteration]);
        let key = self.b.value(Op::RandomKey, &[]);
        let g = self.b.int(Scalar::U64, G.into());
        let key = self.mix(key);
        let shift = self.b.binary(BinOp::Mul, iteration, g);
        let key = self.b.binary(BinOp::Add, key, shift);
        let key = self.mix(key);
        let shift = self.b.binary(BinOp::Mul, next, g);
        let key = self.b.binary(BinOp::Add, key, shift);
        self.mix(key)
    }

    fn mix(&mut self, z: Value) -> Value {
        let mut z = z;
        for (shift, factor) in [(30, 0xbf58_476d_1ce4_e5b9u64), (27, 0x94d0_49bb_1331_11eb)] {
            let s = self.b.int(Scalar::U64, shift);
            let high = self.b.binary(BinOp::Shr, z, s);
            z = self.b.binary(BinOp::Xor, z, high);
            let factor = self.b.int(Scalar::U64, factor.into());
            z = self.b.binary(BinOp::Mul, z, factor);
        }
        let s = self.b.int(Scalar::U64, 31);
        let high = self.b.binary(BinOp::Shr, z, s);
        self.b.binary(BinOp::Xor, z, high)
    }

    /// Passes iteration, draws and depth to the callee, takes the draws back, and returns if the callee failed.
    fn call(&mut self, inst: Inst, callee: Func, data: &InstData) {
        let iteration = self.iteration();
        let draw = self.load_draw();
        let deeper = self.b.int(Scalar::I32, self.graph.recursive[callee].into());
        let depth = match self.given {
            Some(g) => self.b.binary(BinOp::Add, g.depth, deeper),
            None => deeper,
        };
        let mut args = data.args.clone();
        args.extend([iteration, draw, depth]);
        let mut types: Vec<Type> = data.results.iter().map(|r| self.b.func.ty(*r)).collect();
        types.extend([U64, BOOL]);
        let call = self.b.push_typed(Op::Call(callee), &args, &types);
        let results = self.b.func.insts[call].results.clone();
        for (old, new) in self.b.func.insts[inst].results.clone().iter().zip(&results) {
            self.subst.set(*old, *new);
        }
        let n = results.len();
        if let Some(local) = self.draw {
            self.b.store(Place::Local(local), &[], results[n - 2]);
        }
        let went_well = self.b.unary(UnOp::Not, results[n - 1]);
        self.unless(went_well, Self::give_up);
    }

    /// The prologue of every activation: its draws, and the depth check.
    fn begin(&mut self, entry: Region) {
        let body = std::mem::take(&mut self.b.func.regions[entry].insts);
        self.b.region = entry;
        self.b.span = Span::UNKNOWN;
        if let Some(local) = self.draw {
            let start = match (self.given, self.continued) {
                (Some(g), _) => g.draw,
                (None, Some(temp)) => self.b.load(Place::Temp(temp), &[]),
                (None, None) => self.b.int(Scalar::U64, 0),
            };
            self.b.store(Place::Local(local), &[], start);
        }
        if let Some(g) = self.given.filter(|_| self.graph.recursive[self.func]) {
            let limit = self.b.int(Scalar::I32, MAX_CALL_DEPTH.into());
            let fine = self.b.compare(CmpOp::Le, g.depth, limit);
            let func = self.func;
            self.b.span = self.recursion;
            let site = self.site(SiteKind::TooDeep(func));
            self.unless(fine, |l| {
                l.b.push(Op::Report(site), &[]);
                l.give_up()
            });
        }
        self.b.func.regions[entry].insts.extend(body);
    }
}
