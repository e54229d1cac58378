//! Scratchpads (block-local storage): the part of a cached field that one block of a loop accesses is kept in a
//! local array, which is filled once before the block or flushed once after it.
//!
//! The user gives a hint `cache(x)`, or the loop runs over a list of blocks and each element is accessed often
//! enough (`choice`). Each index of `x` in the loop is an affine expression with a part that is uniform in the
//! block and a part with a known range, from loop indices or from an assumption of the user. The union of these
//! ranges is the extent of the scratchpad. Assumptions are checked once for all accesses that follow; if one does
//! not hold, the iteration accesses the field directly. So a wrong assumption only costs time.

mod choice;
pub(crate) mod gpu;
mod parts;
mod sorted;

use crate::analysis::affine::{Affine, AffineAnalysis};
use crate::analysis::uses::used_values;
use crate::options::Target;
use crate::passes::Cx;
use crate::remark::{Decision, Remark};
use crate::rewrite::{Map, Structure, Substitution, clone_region};
use crate::rewrite::{identity, make_scalar, materialize};
use parts::Parts;
use rustc_hash::FxHashSet;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Field, Inst, Label, Local, Region, Value};
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{BOOL, Scalar};
use wuji_ir::{Position, Result};

/// The most bytes of a scratchpad: it should stay in the L1 cache.
const MOST_BYTES: u64 = 1 << 16;

/// The most bytes of all scratchpads in shared memory: most of what every GPU has per block.
const MOST_SHARED_BYTES: u64 = 40 << 10;

/// The pass; the [module](self) describes it.
pub fn scratchpads(m: &mut Module, cx: &mut Cx) -> Result<()> {
    let on_gpu = cx.options.target == Target::Cuda;
    for t in 0..m.tasks.len() {
        let threads = match m.tasks[t].kind {
            // On a GPU the threads of a block share a scratchpad, if a block takes an entry.
            TaskKind::Chunks { hints, .. } if hints.blocks || !on_gpu => {
                hints.block_size.unwrap_or(0)
            }
            _ => continue,
        };
        let func = m.tasks[t].func;
        let (name, span) = (m.tasks[t].name.clone(), m.tasks[t].span);
        // A pad is filled beyond the ends of its field, where single reads are to be reported.
        let hinted = if cx.uses("cache_hints") && !cx.options.check_reads {
            hints(&m.funcs[func])
        } else {
            Vec::new()
        };
        let decisions = if !hinted.is_empty() {
            let (env, f) = (&mut m.env, &mut m.funcs[func]);
            make_scalar(env, f);
            if on_gpu {
                gpu::from_hints(env, f, cx, hinted, threads)
            } else {
                from_hints(env, f, cx, hinted)
            }
        } else if !on_gpu && cx.uses("tiles") && choice::may_have_any(m, t, cx) {
            let (env, f) = (&mut m.env, &mut m.funcs[func]);
            make_scalar(env, f);
            choice::by_cost(env, f, cx)
        } else {
            continue;
        };
        m.add_defined();
        let at = Position::of(m, span);
        cx.remarks
            .extend(decisions.into_iter().map(|decision| Remark {
                task: name.clone(),
                at: at.clone(),
                decision,
            }));
    }
    Ok(())
}

/// The fields with a cache hint, and the loop around each hint.
fn hints(f: &Function) -> Vec<(Field, Option<Block>)> {
    let structure = Structure::of(f);
    let mut found: Vec<(Field, Option<Block>)> = Vec::new();
    f.walk(|inst| {
        if let Op::Cache(field) = f.insts[inst].op
            && !found.iter().any(|(known, _)| *known == field)
        {
            found.push((field, outermost_loop(f, &structure, inst)));
        }
    });
    found
}

/// Scratchpads for fields with a cache hint, regardless of the cost.
fn from_hints(
    m: &mut Env,
    f: &mut Function,
    cx: &mut Cx,
    fields: Vec<(Field, Option<Block>)>,
) -> Vec<Decision> {
    let (pads, mut decisions) = planned(m, f, cx, fields, |_| None);
    if compare_assumptions(m, f, &pads, None) {
        for pad in pads {
            decisions.push(pad.decision(m, 0));
            pad.apply(m, f, None);
        }
    } else {
        let why = "the assumptions are not in one region".to_owned();
        decisions.extend(pads.iter().map(|pad| no_pad(m, pad.field, why.clone())));
    }
    decisions
}

/// The scratchpads for these fields, and the reasons for those without; `refuse` may reject a scratchpad with a
/// reason.
fn planned(
    m: &Env,
    f: &Function,
    cx: &mut Cx,
    fields: Vec<(Field, Option<Block>)>,
    mut refuse: impl FnMut(&Pad) -> Option<String>,
) -> (Vec<Pad>, Vec<Decision>) {
    let (mut pads, mut decisions) = (Vec::new(), Vec::new());
    let structure = Structure::of(f);
    for (field, block) in fields {
        let pad = match block {
            Some(block) => Pad::plan(m, f, &structure, field, block),
            None => Err("there is no loop around it".to_owned()),
        };
        let pad = pad.and_then(|pad| refuse(&pad).map_or(Ok(pad), Err));
        match pad {
            Ok(pad) if cx.fuel() => pads.push(pad),
            Ok(_) => {}
            Err(why) => decisions.push(no_pad(m, field, why)),
        }
    }
    (pads, decisions)
}

fn no_pad(m: &Env, field: Field, why: String) -> Decision {
    let field = m.fields[field].name.clone();
    Decision::NoPad { field, why }
}

/// How a field is used in a loop.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Use {
    Gather,
    Scatter,
}

/// A loop over blocks.
#[derive(Copy, Clone)]
struct Block {
    body: Region,
    label: Label,
}

/// The array of a scratchpad, and the flags of the elements that were added to.
#[derive(Copy, Clone)]
struct Arrays {
    pad: Local,
    touched: Option<Local>,
}

/// The order in which the elements of a scratchpad are visited.
#[derive(Copy, Clone)]
enum Order {
    /// Axis by axis.
    Rows,
    /// In loops that end at block boundaries of the field, so that each piece lies in one block.
    CutRows,
    /// By the threads of a block, neighbouring elements by neighbouring threads.
    Threads,
}

impl Order {
    fn cut(self) -> Order {
        match self {
            Order::Rows | Order::CutRows => Order::CutRows,
            Order::Threads => Order::Threads,
        }
    }
}

/// One access of the field.
struct Touch {
    inst: Inst,
    /// Each index minus the shared part.
    offsets: Vec<Affine>,
    /// The assumptions that it relies on.
    assumed: Vec<Inst>,
}

struct Pad {
    field: Field,
    kind: Use,
    block: Block,
    /// The part of each index that is uniform in the block.
    shared: Vec<Affine>,
    /// The range of the rest of each index.
    ranges: Vec<(i64, i64)>,
    touches: Vec<Touch>,
}

impl Pad {
    /// The scratchpad, or the reason why the loop does not allow one.
    fn plan(
        m: &Env,
        f: &Function,
        structure: &Structure,
        field: Field,
        block: Block,
    ) -> std::result::Result<Pad, String> {
        let body = block.body;
        if leaves_early(f, block) {
            return Err("iterations of the loop exit early".into());
        }
        let mut affine = AffineAnalysis::new(f, structure);
        let mut pad = Pad {
            field,
            kind: Use::Gather,
            block,
            shared: Vec::new(),
            ranges: Vec::new(),
            touches: Vec::new(),
        };
        let rank = m.fields[field].rank();
        let mut kinds = Vec::new();
        let used = used_values(f);
        for inst in accesses(f, field) {
            let data = &f.insts[inst];
            let region = structure.region_of[inst].expand();
            if !region.is_some_and(|r| structure.is_inside(r, body)) {
                return Err("it is used outside of the loop, too".into());
            }
            kinds.push(use_of(data, &used)?);
            let mut touch = Touch {
                inst,
                offsets: Vec::new(),
                assumed: Vec::new(),
            };
            for (k, index) in data.args[..rank].iter().enumerate() {
                let parts = Parts::of(f, &mut affine, structure, body, *index)
                    .ok_or("its distance from the block is unknown; `assume_in_range` states it")?;
                if pad.touches.is_empty() && pad.shared.len() == k {
                    pad.shared.push(parts.shared.clone());
                    pad.ranges.push(parts.range);
                }
                if pad.shared[k] != parts.shared {
                    return Err("its indices have no common base".into());
                }
                let (lo, hi) = pad.ranges[k];
                pad.ranges[k] = (lo.min(parts.range.0), hi.max(parts.range.1));
                touch.offsets.push(parts.offset);
                touch.assumed.extend(parts.assumed);
            }
            pad.touches.push(touch);
        }
        pad.kind = *kinds.first().ok_or("it is not used")?;
        if kinds.iter().any(|k| *k != pad.kind) {
            return Err("it is both read and added to".into());
        }
        pad.check(m, structure)?;
        Ok(pad)
    }

    /// Whether it is worth its memory, or the reason why not.
    fn check(&self, m: &Env, structure: &Structure) -> std::result::Result<(), String> {
        // Sums are flushed as whole elements.
        let addable = |s: &Scalar| *s != Scalar::Bool;
        let scalars = m.structs.flatten(m.fields[self.field].elem);
        if self.kind == Use::Scatter && !scalars.iter().all(addable) {
            return Err("its elements cannot be added".into());
        }
        let size = m.structs.size_align(m.fields[self.field].elem).0.max(1);
        match self.len().and_then(|len| len.checked_mul(size)) {
            Some(bytes) if bytes <= MOST_BYTES => {}
            Some(bytes) => {
                return Err(format!(
                    "it would have {bytes} bytes, more than {MOST_BYTES}"
                ));
            }
            None => return Err("it would be too large".into()),
        }
        // There is no gain if every iteration is a block of its own.
        let inner = |t: &Touch| structure.region_of[t.inst].expand() != Some(self.block.body);
        if !self.touches.iter().all(inner) {
            return Err("every iteration is a block of its own".into());
        }
        Ok(())
    }

    fn decision(&self, m: &Env, from: u64) -> Decision {
        Decision::Pad {
            field: m.fields[self.field].name.clone(),
            elements: self.len().unwrap_or(1),
            from,
        }
    }

    fn extents(&self) -> Vec<u64> {
        let extent = |r: &(i64, i64)| (i128::from(r.1) - i128::from(r.0) + 1) as u64;
        self.ranges.iter().map(extent).collect()
    }

    fn len(&self) -> Option<u64> {
        let len = self
            .extents()
            .into_iter()
            .try_fold(1u64, u64::checked_mul)?;
        (len <= u64::from(u32::MAX)).then_some(len)
    }

    /// Redirects the accesses to the scratchpad, if `worth` holds.
    fn apply(&self, m: &mut Env, f: &mut Function, worth: Option<Value>) {
        let arrays = self.arrays(m, f, false);
        self.redirect_all(m, f, arrays);
        if self.kind == Use::Scatter {
            self.make_serial(f);
        }
        self.surround(m, f, arrays, worth);
    }

    /// Allocates the arrays of the scratchpad.
    fn arrays(&self, m: &Env, f: &mut Function, shared: bool) -> Arrays {
        let len = self.len().unwrap_or(1) as u32;
        let name = m.fields[self.field].name.clone();
        let pad = f.locals.push(LocalData {
            name: format!("pad.{name}"),
            ty: m.fields[self.field].elem,
            len: Some(len),
            shared,
            role: LocalRole::Scratchpad,
        });
        let touched = (self.kind == Use::Scatter).then(|| {
            f.locals.push(LocalData {
                name: format!("touched.{name}"),
                ty: BOOL,
                len: Some(len),
                shared,
                role: LocalRole::Variable,
            })
        });
        Arrays { pad, touched }
    }

    /// Redirects all accesses to the scratchpad.
    fn redirect_all(&self, m: &mut Env, f: &mut Function, arrays: Arrays) {
        let mut subst = Substitution::new();
        for touch in &self.touches {
            self.redirect(m, f, touch, arrays, &mut subst);
        }
        subst.apply(f);
    }

    /// Iterations of a block add to the same scratchpad, so they run serially.
    fn make_serial(&self, f: &mut Function) {
        let inside: Vec<Inst> = f.insts_in(self.block.body).collect();
        for i in inside {
            if let Op::For(_, kind @ ForKind::Parallel) = &mut f.insts[i].op {
                *kind = ForKind::Serial;
            }
        }
    }

    /// Redirects one access to the scratchpad.
    fn redirect(
        &self,
        m: &mut Env,
        f: &mut Function,
        touch: &Touch,
        Arrays { pad, touched }: Arrays,
        subst: &mut Substitution,
    ) {
        let structure = Structure::of(f);
        let Some(region) = structure.region_of[touch.inst].expand() else {
            return;
        };
        let insts = &f.regions[region].insts;
        let Some(at) = insts.iter().position(|i| *i == touch.inst) else {
            return;
        };
        let after = f.regions[region].insts.split_off(at + 1);
        f.regions[region].insts.pop();
        let data = f.insts[touch.inst].clone();
        let mut b = Builder::new(m, f);
        b.region = region;
        b.span = b.func.spans[touch.inst];
        let index = self.pad_index(&mut b, touch);
        let rank = self.ranges.len();
        let mut args: Values = [index].into_iter().collect();
        args.extend(data.args[rank..].iter().copied());
        let mut op = data.op.clone();
        if let Some(access) = op.access_mut() {
            access.place = Place::Local(pad);
            access.guard = Guard::InBounds;
        }
        let ty = data.results.first().map(|r| b.func.ty(*r));
        let types: Vec<_> = ty.into_iter().collect();
        let inst = b.push_typed(op, &args, &types);
        let results = b.func.insts[inst].results.clone();
        if let Some(touched) = touched {
            let mut access = Access::write(Place::Local(touched));
            access.guard = Guard::InBounds;
            let yes = b.bool(true);
            b.push(Op::Store(access), &[index, yes]);
        }
        for (old, new) in data.results.iter().zip(results) {
            subst.set(*old, new);
        }
        f.regions[region].insts.extend(after);
    }

    /// The index of an access in the scratchpad.
    fn pad_index(&self, b: &mut Builder, touch: &Touch) -> Value {
        let extents = self.extents();
        let mut index = b.i64(0);
        for (k, offset) in touch.offsets.iter().enumerate() {
            let offset = materialize(b, offset);
            let lo = b.i64(-self.ranges[k].0);
            let from_lo = b.binary(BinOp::Add, offset, lo);
            let extent = b.i64(extents[k] as i64);
            index = b.binary(BinOp::Mul, index, extent);
            index = b.binary(BinOp::Add, index, from_lo);
        }
        index
    }

    /// Fills the scratchpad at the start of a block, and flushes it at the end, if `worth` holds.
    fn surround(&self, m: &mut Env, f: &mut Function, arrays: Arrays, worth: Option<Value>) {
        let body = self.block.body;
        let needed = self.shared.iter().flat_map(|s| s.terms.iter().map(|t| t.0));
        let at = behind(f, body, needed.chain(worth));
        let after = f.regions[body].insts.split_off(at);
        let span = self.touches.first().map(|t| f.spans[t.inst]);
        let term = f.regions[body].term.clone();
        let mut b = Builder::new(m, f);
        b.region = body;
        b.span = span.unwrap_or(Span::UNKNOWN);
        let bases: Vec<Value> = self.shared.iter().map(|s| materialize(&mut b, s)).collect();
        provided(&mut b, worth, |b| self.fill(b, &bases, arrays, Order::Rows));
        b.func.regions[body].insts.extend(after);
        if self.kind == Use::Scatter {
            provided(&mut b, worth, |b| {
                self.flush(b, &bases, arrays, Order::Rows)
            });
        }
        debug_assert!(matches!(&term, Term::Continue(l, _) if *l == self.block.label));
        b.end(term);
    }

    fn fill(&self, b: &mut Builder, bases: &[Value], arrays: Arrays, order: Order) {
        let Arrays { pad, touched } = arrays;
        let elem = b.env.fields[self.field].elem;
        let inside = |local: Local| {
            let mut access = Access::write(Place::Local(local));
            access.guard = Guard::InBounds;
            access
        };
        match self.kind {
            Use::Gather => self.each(b, order.cut(), |b, pad_index, offsets| {
                let indices = added(b, bases, offsets);
                let value = b.value(Op::Load(Access::read(Place::Field(self.field))), &indices);
                b.push(Op::Store(inside(pad)), &[pad_index, value]);
            }),
            Use::Scatter => self.each(b, order, |b, pad_index, _| {
                let neutral = identity(b, AtomicOp::Add, elem);
                b.push(Op::Store(inside(pad)), &[pad_index, neutral]);
                if let Some(touched) = touched {
                    let no = b.bool(false);
                    b.push(Op::Store(inside(touched)), &[pad_index, no]);
                }
            }),
        }
    }

    /// Flushes the sums to the field.
    fn flush(&self, b: &mut Builder, bases: &[Value], arrays: Arrays, order: Order) {
        let Arrays {
            pad,
            touched: Some(touched),
        } = arrays
        else {
            return;
        };
        let inside = |local: Local| {
            let mut access = Access::read(Place::Local(local));
            access.guard = Guard::InBounds;
            access
        };
        self.each(b, order, |b, pad_index, offsets| {
            let set = b.value(Op::Load(inside(touched)), &[pad_index]);
            let indices = added(b, bases, offsets);
            b.if_else(
                set,
                &[],
                |b| {
                    let value = b.value(Op::Load(inside(pad)), &[pad_index]);
                    let mut args = indices.clone();
                    args.push(value);
                    let add = Op::Atomic(AtomicOp::Add, Access::write(Place::Field(self.field)));
                    b.push(add, &args);
                    Values::new()
                },
                |_| Values::new(),
            );
        });
    }

    /// Loops over the scratchpad: `visit` gets the index in it and the offsets of the field's indices.
    fn each(
        &self,
        b: &mut Builder,
        order: Order,
        mut visit: impl FnMut(&mut Builder, Value, &[Value]),
    ) {
        let start = b.i64(0);
        match order {
            Order::Threads => self.by_threads(b, visit),
            Order::Rows => self.axis(b, false, start, &mut Vec::new(), &mut visit),
            Order::CutRows => self.axis(b, true, start, &mut Vec::new(), &mut visit),
        }
    }

    fn axis(
        &self,
        b: &mut Builder,
        cut: bool,
        so_far: Value,
        offsets: &mut Vec<Value>,
        visit: &mut impl FnMut(&mut Builder, Value, &[Value]),
    ) {
        let k = offsets.len();
        if k == self.ranges.len() {
            visit(b, so_far, offsets);
            return;
        }
        let (lo, hi) = self.ranges[k];
        let block = match self.shared[k].terms[..] {
            [(_, by)] if cut && by > 1 => by,
            _ => i64::MAX,
        };
        let mut from = lo;
        while from <= hi {
            let last = match block {
                i64::MAX => hi,
                by => hi.min((from.div_euclid(by) + 1) * by - 1),
            };
            let (start, end, one) = (b.i64(from), b.i64(last + 1), b.i64(1));
            b.for_range(ForKind::Serial, (start, end, one), &[], |b, _, i, _| {
                let extent = b.i64(hi - lo + 1);
                let row = b.binary(BinOp::Mul, so_far, extent);
                let lowest = b.i64(-lo);
                let from_lo = b.binary(BinOp::Add, i, lowest);
                let index = b.binary(BinOp::Add, row, from_lo);
                offsets.push(i);
                self.axis(b, cut, index, offsets, visit);
                offsets.pop();
                Values::new()
            });
            from = last + 1;
        }
    }
}

fn added(b: &mut Builder, bases: &[Value], offsets: &[Value]) -> Values {
    let mut out = Values::new();
    for (base, offset) in bases.iter().zip(offsets) {
        out.push(b.binary(BinOp::Add, *base, *offset));
    }
    out
}

/// The first position in a region where all of these values are defined.
fn behind(f: &Function, region: Region, values: impl Iterator<Item = Value>) -> usize {
    let insts = &f.regions[region].insts;
    values
        .filter_map(|v| f.def(v))
        .filter_map(|d| insts.iter().position(|i| *i == d))
        .max()
        .map_or(0, |k| k + 1)
}

/// Emits code under a condition, if there is one.
fn provided(b: &mut Builder, condition: Option<Value>, write: impl FnOnce(&mut Builder)) {
    match condition {
        None => write(b),
        Some(condition) => {
            let then = |b: &mut Builder| {
                write(b);
                Values::new()
            };
            b.if_else(condition, &[], then, |_| Values::new());
        }
    }
}

/// Checks the assumptions and versions the code: redirected accesses where they hold and `worth` does, a copy
/// without scratchpads otherwise. Returns `false` if the code does not allow that.
fn compare_assumptions(m: &mut Env, f: &mut Function, pads: &[Pad], worth: Option<Value>) -> bool {
    let touches = || pads.iter().flat_map(|p| &p.touches);
    let mut assumed: Vec<Inst> = touches().flat_map(|t| t.assumed.iter().copied()).collect();
    assumed.sort_unstable();
    assumed.dedup();
    let Some(first) = assumed.first() else {
        return true;
    };
    let structure = Structure::of(f);
    let Some(region) = structure.region_of[*first].expand() else {
        return false;
    };
    let position = |inst: Inst| f.regions[region].insts.iter().position(|i| *i == inst);
    let Some(last) = assumed
        .iter()
        .map(|a| position(*a))
        .collect::<Option<Vec<_>>>()
        .and_then(|all| all.into_iter().max())
    else {
        return false;
    };
    // Every access that relies on them comes later, in the same region or in a nested one.
    let later = touches().filter(|t| !t.assumed.is_empty()).all(|t| {
        let mut at = t.inst;
        while structure.region_of[at].expand() != Some(region) {
            match structure.parent(at) {
                Some(parent) => at = parent,
                None => return false,
            }
        }
        position(at).is_some_and(|k| k > last)
    });
    if !later {
        return false;
    }
    let fork = Fork::at(f, region, last + 1);
    let mut b = Builder::new(m, f);
    b.region = region;
    let mut holds = worth;
    for inst in assumed {
        let Op::AssumeRange(lo, hi) = b.func.insts[inst].op else {
            continue;
        };
        let frozen = freeze(&mut b, region, inst);
        let args = b.func.insts[inst].args.clone();
        let value = b.convert(frozen, Scalar::I64);
        let base = b.convert(args[1], Scalar::I64);
        let from_base = b.binary(BinOp::Sub, value, base);
        let lowest = b.i64(lo);
        let from_lo = b.binary(BinOp::Sub, from_base, lowest);
        let bits = b.value(Op::Bitcast(Scalar::U64), &[from_lo]);
        let width = b.int(Scalar::U64, i128::from(hi) - i128::from(lo));
        let inside = b.compare(CmpOp::Lt, bits, width);
        holds = Some(match holds {
            Some(all) => b.binary(BinOp::And, all, inside),
            None => inside,
        });
    }
    let holds = match holds {
        Some(v) => v,
        None => b.bool(true),
    };
    fork.end(&mut b, holds);
    true
}

/// A number loaded from memory must be the same when it is compared and when it is used.
fn freeze(b: &mut Builder, region: Region, inst: Inst) -> Value {
    let insts = &b.func.regions[region].insts;
    let at = insts.iter().position(|i| *i == inst).unwrap_or(0);
    let after = b.func.regions[region].insts.split_off(at);
    let frozen = b.unary(UnOp::Freeze, b.func.insts[inst].args[0]);
    b.func.insts[inst].args[0] = frozen;
    b.func.regions[region].insts.extend(after);
    frozen
}

/// The rest of a region, duplicated.
struct Fork {
    fast: Region,
    slow: Region,
}

impl Fork {
    fn at(f: &mut Function, region: Region, at: usize) -> Fork {
        let fast = f.add_region(&[]);
        f.regions[fast].insts = f.regions[region].insts.split_off(at);
        f.regions[fast].term = f.regions[region].term.clone();
        f.regions[fast].term_span = f.regions[region].term_span;
        let slow = clone_region(f, fast, &mut Map::new());
        Fork { fast, slow }
    }

    /// Ends the region: the first copy if the condition holds, otherwise the second.
    fn end(self, b: &mut Builder, condition: Value) {
        let branch = b.push_typed(Op::If, &[condition], &[]);
        b.func.insts[branch].regions.extend([self.fast, self.slow]);
        b.end(Term::Unreachable);
    }
}

/// The outermost parallel loop around an instruction.
fn outermost_loop(f: &Function, structure: &Structure, inst: Inst) -> Option<Block> {
    let mut found = None;
    let mut at = structure.parent(inst);
    while let Some(i) = at {
        if let Op::For(label, ForKind::Parallel) = f.insts[i].op {
            let body = f.insts[i].regions[0];
            found = Some(Block { body, label });
        }
        at = structure.parent(i);
    }
    found
}

/// Whether the body of a loop contains a `continue` or `break` of the loop.
fn leaves_early(f: &Function, block: Block) -> bool {
    let inside = f.regions_in(block.body);
    inside[1..].iter().any(|r| match &f.regions[*r].term {
        Term::Continue(l, _) | Term::Break(l, _) => *l == block.label,
        Term::Return(_) => true,
        Term::Yield(_) | Term::Unreachable => false,
    })
}

fn accesses(f: &Function, field: Field) -> Vec<Inst> {
    let mut found = Vec::new();
    f.walk(|inst| {
        let access = f.insts[inst].op.access();
        if access.is_some_and(|a| a.place == Place::Field(field)) {
            found.push(inst);
        }
    });
    found
}

/// What an access does, or the reason why a scratchpad cannot serve it.
fn use_of(data: &InstData, used: &FxHashSet<Value>) -> std::result::Result<Use, String> {
    // A dynamic component index may be out of range, and is not checked any more.
    if data.op.access().is_none_or(|a| a.dynamic_steps() > 0) {
        return Err("the component index is dynamic".into());
    }
    if let Op::Load(_) = data.op {
        return Ok(Use::Gather);
    }
    let Op::Atomic(AtomicOp::Add, a) = &data.op else {
        return Err("it is neither only read nor only added to".into());
    };
    if a.activation == Activation::Never || used.contains(&data.results[0]) {
        return Err("old values of sums are used".into());
    }
    Ok(Use::Scatter)
}
