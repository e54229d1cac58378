//! What a block of a loop touches of a cached field is kept in a local array: read once before, or added up
//! and written back once after.
//!
//! The user says `cache(x)`. Each index of `x` inside of the loop is a sum: one part that is the same for the
//! whole block, and a part whose range is known, because it is made of loop indices or because the user
//! assumes it. The union of those ranges is the pad. Assumptions are compared, once for all accesses that follow, and
//! where one does not hold the iteration works on the field itself: a wrong assumption costs time, nothing else.

use crate::analysis::linear::{Linear, Range, Sums};
use crate::options::Target;
use crate::passes::Cx;
use crate::passes::bounds::indices::make_scalar;
use crate::passes::bounds::materialize;
use crate::rewrite::{Map, Structure, Substitution, clone_region};
use wuji_ir::Result;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Field, Inst, Label, Local, Region, Value};
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{BOOL, Scalar};

/// The names of pads start with this.
pub const PAD: &str = "pad.";

/// A pad takes at most so many bytes: it is to stay in the nearest cache.
const MOST_BYTES: u64 = 1 << 16;

pub fn scratchpads(m: &mut Module, cx: &mut Cx) -> Result<()> {
    // Blocks of threads are for the backend to make.
    if cx.options.target == Target::Cuda {
        return Ok(());
    }
    for t in 0..m.tasks.len() {
        if !matches!(m.tasks[t].kind, TaskKind::Chunks { .. }) {
            continue;
        }
        let func = m.tasks[t].func;
        let hinted = hints(&m.funcs[func]);
        if hinted.is_empty() {
            continue;
        }
        let mut f = m.take_func(func);
        make_scalar(m, &mut f);
        let mut pads = Vec::new();
        for field in hinted {
            pads.extend(Pad::plan(m, &f, field).filter(|_| cx.fuel()));
        }
        if compare_assumptions(m, &mut f, &pads) {
            for pad in pads {
                pad.apply(m, &mut f);
            }
        }
        m.funcs[func] = f;
    }
    Ok(())
}

fn hints(f: &Function) -> Vec<Field> {
    let mut found = Vec::new();
    f.walk(|inst| {
        if let Op::Cache(field) = f.insts[inst].op
            && !found.contains(&field)
        {
            found.push(field);
        }
    });
    found
}

/// How a field is used in a loop.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Use {
    Gather,
    Scatter,
}

/// One access of the field.
struct Touch {
    inst: Inst,
    /// Each index less the part that all share.
    offsets: Vec<Linear>,
    /// What is assumed for it.
    assumed: Vec<Inst>,
}

struct Pad {
    field: Field,
    kind: Use,
    /// The body of the loop over blocks, and its label.
    body: Region,
    label: Label,
    /// The part of each index that is the same for a block.
    shared: Vec<Linear>,
    /// Smallest and largest rest of each index.
    ranges: Vec<(i64, i64)>,
    touches: Vec<Touch>,
}

impl Pad {
    /// `None` when something about the loop does not fit.
    fn plan(m: &Module, f: &Function, field: Field) -> Option<Pad> {
        let structure = Structure::of(f);
        let mut cache = None;
        f.walk(|inst| {
            if f.insts[inst].op == Op::Cache(field) {
                cache = Some(inst);
            }
        });
        let (block, label) = outermost_loop(f, &structure, cache?)?;
        let body = f.insts[block].regions[0];
        if leaves_early(f, body, label) {
            return None;
        }
        let mut sums = Sums::new(f, &structure);
        let mut pad = Pad {
            field,
            kind: Use::Gather,
            body,
            label,
            shared: Vec::new(),
            ranges: Vec::new(),
            touches: Vec::new(),
        };
        let rank = m.fields[field].rank();
        let mut kinds = Vec::new();
        let used = used_results(f);
        for inst in accesses(f, field) {
            let data = &f.insts[inst];
            let region = structure.region_of[inst].expand()?;
            if !structure.is_inside(region, body) {
                return None;
            }
            // A component that is known only at run time may be outside: nobody compares it any more.
            if data.op.access()?.dynamic_steps() > 0 {
                return None;
            }
            kinds.push(match &data.op {
                Op::Load(_) => Use::Gather,
                Op::Atomic(AtomicOp::Add, a)
                    if a.activation != Activation::Never && !used(data.results[0]) =>
                {
                    Use::Scatter
                }
                _ => return None,
            });
            let mut touch = Touch {
                inst,
                offsets: Vec::new(),
                assumed: Vec::new(),
            };
            for (k, index) in data.args[..rank].iter().enumerate() {
                let parts = Parts::of(f, &mut sums, &structure, body, *index)?;
                if pad.touches.is_empty() && pad.shared.len() == k {
                    pad.shared.push(parts.shared.clone());
                    pad.ranges.push(parts.range);
                }
                if pad.shared[k] != parts.shared {
                    return None;
                }
                let (lo, hi) = pad.ranges[k];
                pad.ranges[k] = (lo.min(parts.range.0), hi.max(parts.range.1));
                touch.offsets.push(parts.offset);
                touch.assumed.extend(parts.assumed);
            }
            pad.touches.push(touch);
        }
        pad.kind = *kinds.first()?;
        // What is added up is written back as a whole.
        let addable = |s: &Scalar| *s != Scalar::Bool;
        let scalars = m.structs.flatten(m.fields[field].elem);
        if pad.kind == Use::Scatter && !scalars.iter().all(addable) {
            return None;
        }
        let bytes = m.structs.size_align(m.fields[field].elem).0;
        let fits = kinds.iter().all(|k| *k == pad.kind)
            && pad.len()?.checked_mul(bytes.max(1))? <= MOST_BYTES;
        // Nothing is gained where every iteration is a block of its own.
        let inner = pad
            .touches
            .iter()
            .all(|t| structure.region_of[t.inst].expand() != Some(body));
        (fits && inner).then_some(pad)
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

    fn apply(&self, m: &mut Module, f: &mut Function) {
        let len = self.len().unwrap_or(1) as u32;
        let name = m.fields[self.field].name.clone();
        let pad = f.locals.push(LocalData {
            name: format!("{PAD}{name}"),
            ty: m.fields[self.field].elem,
            len: Some(len),
            shared: false,
        });
        let touched = (self.kind == Use::Scatter).then(|| {
            f.locals.push(LocalData {
                name: format!("touched.{name}"),
                ty: BOOL,
                len: Some(len),
                shared: false,
            })
        });
        let mut subst = Substitution::new();
        for touch in &self.touches {
            self.redirect(m, f, touch, pad, touched, &mut subst);
        }
        subst.apply(f);
        if self.kind == Use::Scatter {
            self.make_serial(f);
        }
        self.surround(m, f, pad, touched);
    }

    /// Iterations of a block add to the same pad: they run in order.
    fn make_serial(&self, f: &mut Function) {
        let mut regions = vec![self.body];
        while let Some(r) = regions.pop() {
            for i in f.regions[r].insts.clone() {
                regions.extend(f.insts[i].regions.iter().copied());
                if let Op::For(_, kind @ ForKind::Parallel) = &mut f.insts[i].op {
                    *kind = ForKind::Serial;
                }
            }
        }
    }

    /// The access goes to the pad.
    fn redirect(
        &self,
        m: &mut Module,
        f: &mut Function,
        touch: &Touch,
        pad: Local,
        touched: Option<Local>,
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

    /// Where in the pad an access goes.
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

    /// Fills the pad at the start of a block, writes it back at the end.
    fn surround(&self, m: &mut Module, f: &mut Function, pad: Local, touched: Option<Local>) {
        let structure = Structure::of(f);
        let needed = self.shared.iter().flat_map(|s| s.terms.iter().map(|t| t.0));
        let at = needed
            .filter_map(|v| f.def(v))
            .filter(|d| structure.region_of[*d].expand() == Some(self.body))
            .filter_map(|d| f.regions[self.body].insts.iter().position(|i| *i == d))
            .max()
            .map_or(0, |k| k + 1);
        let after = f.regions[self.body].insts.split_off(at);
        let elem = m.fields[self.field].elem;
        let span = self.touches.first().map(|t| f.spans[t.inst]);
        let term = f.regions[self.body].term.clone();
        let mut b = Builder::new(m, f);
        b.region = self.body;
        b.span = span.unwrap_or(Span::UNKNOWN);
        let bases: Vec<Value> = self.shared.iter().map(|s| materialize(&mut b, s)).collect();
        let inside = |local: Local| {
            let mut access = Access::write(Place::Local(local));
            access.guard = Guard::InBounds;
            access
        };
        match self.kind {
            Use::Gather => self.each(&mut b, true, |b, pad_index, offsets| {
                let indices = added(b, &bases, offsets);
                let value = b.value(Op::Load(Access::read(Place::Field(self.field))), &indices);
                b.push(Op::Store(inside(pad)), &[pad_index, value]);
            }),
            Use::Scatter => self.each(&mut b, false, |b, pad_index, _| {
                let zero = b.zero(elem);
                b.push(Op::Store(inside(pad)), &[pad_index, zero]);
                if let Some(touched) = touched {
                    let no = b.bool(false);
                    b.push(Op::Store(inside(touched)), &[pad_index, no]);
                }
            }),
        }
        b.func.regions[self.body].insts.extend(after);
        let Some(touched) = touched else { return };
        self.each(&mut b, false, |b, pad_index, offsets| {
            let mut access = inside(touched);
            access.activation = Activation::Never;
            let set = b.value(Op::Load(access), &[pad_index]);
            let indices = added(b, &bases, offsets);
            b.if_else(
                set,
                &[],
                |b| {
                    let mut access = inside(pad);
                    access.activation = Activation::Never;
                    let value = b.value(Op::Load(access), &[pad_index]);
                    let mut args = indices.clone();
                    args.push(value);
                    let add = Op::Atomic(AtomicOp::Add, Access::write(Place::Field(self.field)));
                    b.push(add, &args);
                    Values::new()
                },
                |_| Values::new(),
            );
        });
        debug_assert!(matches!(&term, Term::Continue(l, _) if *l == self.label));
        b.end(term);
    }

    /// Loops over the pad: `visit` gets the index in the pad and the offsets of the field's indices.
    ///
    /// With `cut`, loops end where blocks of the field do, so that each piece lies in one.
    fn each(
        &self,
        b: &mut Builder,
        cut: bool,
        mut visit: impl FnMut(&mut Builder, Value, &[Value]),
    ) {
        let start = b.i64(0);
        self.axis(b, cut, start, &mut Vec::new(), &mut visit);
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

/// An index, taken apart.
struct Parts {
    /// Without its constant, but for that of an origin far away.
    shared: Linear,
    offset: Linear,
    range: (i64, i64),
    assumed: Option<Inst>,
}

impl Parts {
    fn of(
        f: &Function,
        sums: &mut Sums<'_>,
        structure: &Structure,
        body: Region,
        index: Value,
    ) -> Option<Parts> {
        let form = sums.form(index);
        let whole = f.ty(index).as_scalar()?.int_range()?;
        let mut shared = Linear::default();
        let mut offset = Linear::constant(form.constant);
        let mut range: Range = (form.constant.into(), form.constant.into());
        let mut assumed = None;
        for (v, c) in &form.terms {
            let here = structure.def_region(f, *v)?;
            let fixed = here == body || !structure.is_inside(here, body);
            if fixed {
                shared = shared.add_scaled(&Linear::atom(*v), *c)?;
                continue;
            }
            let (lo, hi) = match assumption(f, *v) {
                Some((inst, base, lo, hi)) if *c == 1 && assumed.is_none() => {
                    let base = sums.form(base);
                    let known = base.terms.iter().all(|(t, _)| {
                        let at = structure.def_region(f, *t);
                        at.is_some_and(|r| r == body || !structure.is_inside(r, body))
                    });
                    if !known {
                        return None;
                    }
                    // The value is near a sum that is the same for the block.
                    let constant = base.constant;
                    let base = base.add_scaled(&Linear::constant(constant), -1)?;
                    shared = shared.add_scaled(&base, 1)?;
                    offset = offset.add_scaled(&base, -1)?;
                    assumed = Some(inst);
                    (
                        i128::from(lo) + i128::from(constant),
                        i128::from(hi - 1) + i128::from(constant),
                    )
                }
                _ => {
                    let (lo, hi) = sums.range(*v);
                    let (a, b) = (lo.checked_mul((*c).into())?, hi.checked_mul((*c).into())?);
                    (a.min(b), a.max(b))
                }
            };
            offset = offset.add_scaled(&Linear::atom(*v), *c)?;
            range = (range.0 + lo, range.1 + hi);
        }
        // Where a field has no bounds its origin is far away: that part is the same for all blocks.
        let far = (range.0 + (1 << 19)).div_euclid(1 << 20) << 20;
        let origin = Linear::constant(i64::try_from(far).ok()?);
        shared = shared.add_scaled(&origin, 1)?;
        offset = offset.add_scaled(&origin, -1)?;
        range = (range.0 - far, range.1 - far);
        let near = |n: i128| n.abs() < 1 << 20;
        if !near(range.0) || !near(range.1) {
            return None;
        }
        // A machine integer may wrap where its form does not.
        let (lo, hi) = sums.range_of(&form);
        if assumed.is_none() && (lo < whole.0 || hi > whole.1) {
            let (lo, hi) = sums.range_of(&shared);
            if lo + range.0 < whole.0 || hi + range.1 > whole.1 {
                return None;
            }
        }
        Some(Parts {
            shared,
            offset,
            range: (range.0 as i64, range.1 as i64),
            assumed,
        })
    }
}

/// What the user assumes of a value: where, its base and range.
fn assumption(f: &Function, v: Value) -> Option<(Inst, Value, i64, i64)> {
    let inst = f.def(v)?;
    let data = &f.insts[inst];
    match data.op {
        Op::AssumeRange(lo, hi) => Some((inst, data.args[1], lo, hi)),
        Op::Convert(_) => assumption(f, data.args[0]),
        _ => None,
    }
}

/// Compares what is assumed, and leaves the accesses where all of it holds; elsewhere a copy of the code
/// does without pads. `false` when the code does not allow that.
fn compare_assumptions(m: &mut Module, f: &mut Function, pads: &[Pad]) -> bool {
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
    // Every access that relies on them comes later, in the same region or deeper.
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
    let rest = f.regions[region].insts.split_off(last + 1);
    let (term, span) = (f.regions[region].term.clone(), f.regions[region].term_span);
    let fast = f.add_region(&[]);
    f.regions[fast].insts = rest;
    f.regions[fast].term = term;
    f.regions[fast].term_span = span;
    let slow = clone_region(f, fast, &mut Map::new());
    let mut b = Builder::new(m, f);
    b.region = region;
    let mut holds: Option<Value> = None;
    for inst in assumed {
        let Op::AssumeRange(lo, hi) = b.func.insts[inst].op else {
            continue;
        };
        let args = b.func.insts[inst].args.clone();
        let value = b.convert(args[0], Scalar::I64);
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
    let branch = b.push_typed(Op::If, &[holds], &[]);
    b.func.insts[branch].regions.extend([fast, slow]);
    b.end(Term::Unreachable);
    true
}

/// The outermost loop around an instruction, with its label.
fn outermost_loop(f: &Function, structure: &Structure, inst: Inst) -> Option<(Inst, Label)> {
    let mut found = None;
    let mut at = structure.parent(inst);
    while let Some(i) = at {
        if let Op::For(label, ForKind::Parallel) = f.insts[i].op {
            found = Some((i, label));
        }
        at = structure.parent(i);
    }
    found
}

/// Whether something inside of a loop's body goes on with its next iteration, or leaves it.
fn leaves_early(f: &Function, body: Region, label: Label) -> bool {
    let mut regions: Vec<Region> = f.regions[body]
        .insts
        .iter()
        .flat_map(|i| f.insts[*i].regions.iter().copied())
        .collect();
    while let Some(r) = regions.pop() {
        let leaves = match &f.regions[r].term {
            Term::Continue(l, _) | Term::Break(l, _) => *l == label,
            Term::Return(_) => true,
            Term::Yield(_) | Term::Unreachable => false,
        };
        if leaves {
            return true;
        }
        for i in &f.regions[r].insts {
            regions.extend(&f.insts[*i].regions);
        }
    }
    false
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

fn used_results(f: &Function) -> impl Fn(Value) -> bool {
    let mut used = cranelift_entity::EntitySet::new();
    f.walk(|inst| used.extend(f.insts[inst].args.iter().copied()));
    for r in f.walk_regions() {
        used.extend(f.regions[r].term.args().iter().copied());
    }
    move |v| used.contains(v)
}
