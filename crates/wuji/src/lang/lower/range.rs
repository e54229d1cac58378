//! `for` loops.

use super::MISTAKE;
use super::binding::{ArrayVal, Binding, Data, Val};
use super::body::{Body, Exit, LoopTarget, Next};
use super::mentions::{leaves_loop, mentions};
use crate::lang::ast::{Adapter, At, Domain, Expr, For, LoopMode, Pat, Range};
use rustc_hash::FxHashSet;
use wuji_ir::Result;
use wuji_ir::entities::{Inst, Label, Value};
use wuji_ir::module::{Term, Values};
use wuji_ir::ops::{self, BinOp, CmpOp, ForKind, LoopHints, Op, Place};
use wuji_ir::types::{Scalar, Type};

/// More copies of a body than this are refused.
const MOST_COPIES: usize = 4096;

/// Larger local arrays than this are not handed to the iterations of a parallel loop.
const MOST_CAPTURED: u32 = 256;

/// The numbers a loop runs over, as a range that counts up and a way to each number.
struct Counted {
    lo: Value,
    hi: Value,
    step: Option<Value>,
    map: Map,
}

/// From the counter to the number.
#[derive(Copy, Clone)]
enum Map {
    Same,
    /// The counter has another type.
    Convert(Scalar),
    /// `total - counter`.
    Mirror(Value),
    /// `start + counter * stride`, in the type of `start`.
    Affine(Value, Value),
}

const UNROLL_LESS: &str = "leave out `unroll`; what is worth it are loops of a few turns";

impl Body<'_, '_> {
    pub(super) fn for_loop(&mut self, at: At, f: &'static For) -> Result<Val> {
        match (&f.mode, &f.domain) {
            (LoopMode::Unroll, Domain::Range(r)) => self.unrolled(at, f, r),
            (LoopMode::Unroll, _) => Err(self.fail(at, MISTAKE, "only ranges can be unrolled")),
            (LoopMode::Parallel { block_size, simd }, domain) => {
                let hints = LoopHints {
                    block_size: *block_size,
                    simd: *simd,
                    ..LoopHints::default()
                };
                self.parallel_for(at, f, domain, hints)
            }
            (LoopMode::Inner, Domain::Data(var))
                if !self.parallel
                    && self.kernel
                    && matches!(self.data(at, *var)?, Data::Field(f) if self.is_sparse(f)) =>
            {
                self.active_for(at, f)
            }
            (LoopMode::Inner | LoopMode::Serial, domain) => {
                let Some(axes) = self.axes(at, domain)? else {
                    return Ok(Val::Never);
                };
                let points = !matches!(domain, Domain::Range(_));
                self.nested(at, f, axes, Vec::new(), None, points)
            }
        }
    }

    /// One counted range per axis; `None` when control does not get past the bounds.
    fn axes(&mut self, at: At, domain: &'static Domain) -> Result<Option<Vec<Counted>>> {
        match domain {
            Domain::Range(r) => Ok(self.counted(r)?.map(|c| vec![c])),
            Domain::Grid(ranges) => {
                let mut axes = Vec::new();
                for r in *ranges {
                    match self.counted(r)? {
                        Some(c) => axes.push(c),
                        None => return Ok(None),
                    }
                }
                Ok(Some(axes))
            }
            Domain::Data(var) => {
                let data = self.data(at, *var)?;
                let mut axes = Vec::new();
                match data {
                    Data::World => return Err(self.fail(at, MISTAKE, "a world has no elements")),
                    Data::Field(field) => {
                        self.in_order(at, *var, field)?;
                        self.fits_i32(at, *var, field)?;
                        let m = &self.cx.module;
                        for (lo, extent) in m.fields[field].domain(&m.trees) {
                            let hi = i128::from(lo) + i128::from(extent);
                            // The end may be one more than fits.
                            let (s, map) = if hi > i128::from(i32::MAX) {
                                (Scalar::I64, Map::Convert(Scalar::I32))
                            } else {
                                (Scalar::I32, Map::Same)
                            };
                            axes.push(Counted {
                                lo: self.int(s, i128::from(lo)),
                                hi: self.int(s, hi),
                                step: None,
                                map,
                            });
                        }
                    }
                    Data::Array(a) => {
                        for k in 0..self.cx.module.arrays[a].rank {
                            axes.push(Counted {
                                lo: self.int(Scalar::I64, 0),
                                hi: self.op(Op::ArrayExtent(a, k), &[]),
                                step: None,
                                map: Map::Same,
                            });
                        }
                    }
                }
                Ok(Some(axes))
            }
        }
    }

    /// Only a parallel loop finds the elements that exist.
    fn in_order(&self, at: At, var: u32, field: wuji_ir::entities::Field) -> Result<()> {
        if !self.is_sparse(field) {
            return Ok(());
        }
        let name = self.name(var);
        Err(self
            .fail(
                at,
                "W0252",
                format!("an ordinary loop cannot run over `{name}`, whose elements need not exist"),
            )
            .note("a loop in the serial code of a kernel, without `serial(..)`, visits those that do")
            .help(format!(
                "loop over a range and ask `{name}.is_active(..)`, or up to `{name}.length(..)` of a list"
            )))
    }

    /// Whether a hash node without bounds is above: some of its coordinates may be beyond `i32`, where
    /// blocks do not divide it evenly, but none that an `i32` could have written to.
    fn is_hashed(&self, field: wuji_ir::entities::Field) -> bool {
        let m = &self.cx.module;
        let data = &m.fields[field];
        m.trees[data.tree].is_hashed(data.node)
    }

    fn fits_i32(&self, at: At, var: u32, field: wuji_ir::entities::Field) -> Result<()> {
        let m = &self.cx.module;
        for (lo, extent) in m.fields[field].domain(&m.trees) {
            let last = i128::from(lo) + i128::from(extent) - 1;
            if i32::try_from(lo).is_err() || i32::try_from(last).is_err() {
                return Err(self
                    .fail(
                        at,
                        "W0227",
                        format!(
                            "the coordinates of `{}` do not fit into `i32`",
                            self.name(var)
                        ),
                    )
                    .help("loop over a range of `i64` instead: `for i in 0..n`"));
            }
        }
        Ok(())
    }

    /// A range as one that counts up.
    fn counted(&mut self, r: &'static Range) -> Result<Option<Counted>> {
        let (Some(lo), Some(hi)) = (self.value(&r.low)?, self.value(&r.high)?) else {
            return Ok(None);
        };
        self.at(r.at);
        let Some(s) = self.ty(lo).as_scalar().filter(|s| s.is_int()) else {
            return Err(self.fail(r.at, MISTAKE, "a loop runs over integers"));
        };
        let max = s.int_range().map_or(0, |r| r.1);
        let known_end = self.known(hi).filter(|hi| *hi < max);
        let (hi, inclusive) = match (r.inclusive, known_end) {
            (true, Some(end)) => (self.int(s, end + 1), false),
            (inclusive, _) => (hi, inclusive),
        };
        match (inclusive, r.adapters) {
            (false, []) => Ok(Some(Counted {
                lo,
                hi,
                step: None,
                map: Map::Same,
            })),
            (false, [Adapter::Rev]) => {
                let one = self.int(s, 1);
                let sum = self.binary(BinOp::Add, lo, hi);
                let total = self.binary(BinOp::Sub, sum, one);
                Ok(Some(Counted {
                    lo,
                    hi,
                    step: None,
                    map: Map::Mirror(total),
                }))
            }
            (false, [Adapter::StepBy(step)]) => {
                let Some(step) = self.value(step)? else {
                    return Ok(None);
                };
                // A step beyond the type leaves the first number only, and so does the largest one.
                let most = self.int(Scalar::U64, max);
                let step = self.convert(step, Scalar::U64);
                let step = self.binary(BinOp::Min, step, most);
                let step = self.convert(step, s);
                Ok(Some(Counted {
                    lo,
                    hi,
                    step: Some(step),
                    map: Map::Same,
                }))
            }
            (true, []) if s.bits() <= 32 => {
                let one = self.int(Scalar::I64, 1);
                let (lo, hi) = (self.convert(lo, Scalar::I64), self.convert(hi, Scalar::I64));
                let hi = self.binary(BinOp::Add, hi, one);
                Ok(Some(Counted {
                    lo,
                    hi,
                    step: None,
                    map: Map::Convert(s),
                }))
            }
            (inclusive, adapters) => self.general(s, lo, hi, inclusive, adapters),
        }
    }

    /// Any range with any adapters: number `k` is `start + k * stride`.
    fn general(
        &mut self,
        s: Scalar,
        lo: Value,
        hi: Value,
        inclusive: bool,
        adapters: &'static [Adapter],
    ) -> Result<Option<Counted>> {
        let (zero, one) = (self.int(Scalar::U64, 0), self.int(Scalar::U64, 1));
        let mut count = self.count(s, lo, hi, inclusive);
        let mut start = lo;
        let mut stride = self.int(s, 1);
        for adapter in adapters {
            match adapter {
                Adapter::Rev => {
                    let last = self.binary(BinOp::Sub, count, one);
                    let last = self.convert(last, s);
                    let far = self.binary(BinOp::Mul, last, stride);
                    start = self.binary(BinOp::Add, start, far);
                    stride = self.negate(stride);
                }
                Adapter::StepBy(step) => {
                    let Some(step) = self.value(step)? else {
                        return Ok(None);
                    };
                    let step = self.convert(step, Scalar::U64);
                    count = self.stepped(count, step);
                    let step = self.convert(step, s);
                    stride = self.binary(BinOp::Mul, stride, step);
                }
            }
        }
        Ok(Some(Counted {
            lo: zero,
            hi: count,
            step: None,
            map: Map::Affine(start, stride),
        }))
    }

    fn mapped(&mut self, counter: Value, map: Map) -> Value {
        match map {
            Map::Same => counter,
            Map::Convert(s) => self.convert(counter, s),
            Map::Mirror(total) => self.binary(BinOp::Sub, total, counter),
            Map::Affine(start, stride) => match self.ty(start).as_scalar() {
                Some(s) => {
                    let k = self.convert(counter, s);
                    let far = self.binary(BinOp::Mul, k, stride);
                    self.binary(BinOp::Add, start, far)
                }
                None => start,
            },
        }
    }

    /// Loops inside each other, one per axis; the innermost has the body.
    fn nested(
        &mut self,
        at: At,
        f: &'static For,
        mut axes: Vec<Counted>,
        mut point: Vec<Value>,
        outermost: Option<Exit>,
        points: bool,
    ) -> Result<Val> {
        self.at(at);
        if axes.is_empty() {
            self.bind_point(at, &f.pat, &point, points)?;
            return self.expr(&f.body);
        }
        let axis = axes.remove(0);
        let label = self.f.fresh_label();
        let step = match axis.step {
            Some(step) => step,
            None => {
                let s = self.ty(axis.lo).as_scalar().unwrap_or(Scalar::I64);
                self.int(s, 1)
            }
        };
        let ty = self.ty(axis.lo);
        let inst = self.push_open(Op::For(label, ForKind::Serial), &[axis.lo, axis.hi, step]);
        let exit = outermost.unwrap_or(Exit { label, inst });
        self.frame_mut().loops.insert(
            f.label,
            LoopTarget {
                breaks: exit,
                continues: Next::Continue(label),
            },
        );
        let (region, ()) = self.region(&[ty], |b, params| {
            point.push(b.mapped(params[0], axis.map));
            let val = b.deeper(at, |b| b.nested(at, f, axes, point, Some(exit), points))?;
            if !matches!(val, Val::Never) {
                b.end(Term::Continue(label, Values::new()));
            }
            Ok(())
        })?;
        self.own(inst, region);
        Ok(Val::Unit)
    }

    /// Binds the pattern of a loop to a number, or to a point of as many coordinates as there are.
    fn bind_point(
        &mut self,
        at: At,
        pat: &'static Pat,
        point: &[Value],
        points: bool,
    ) -> Result<()> {
        match (pat, points, point) {
            (Pat::Parts(parts), true, _) => {
                for (part, v) in parts.iter().zip(point) {
                    self.bind(at, part, Val::Value(*v))?;
                }
                Ok(())
            }
            (_, true, [first, ..]) => {
                let s = self.ty(*first).elem().unwrap_or(Scalar::I32);
                let ty = Type::Vector(s, point.len() as u16);
                let v = self.op(Op::Compose(ty), point);
                self.bind(at, pat, Val::Value(v))
            }
            (_, false, [v]) => self.bind(at, pat, Val::Value(*v)),
            _ => Ok(()),
        }
    }

    pub(super) fn parallel_for(
        &mut self,
        at: At,
        f: &'static For,
        domain: &'static Domain,
        hints: LoopHints,
    ) -> Result<Val> {
        let points = !matches!(domain, Domain::Range(_));
        let field = match domain {
            Domain::Data(var) => match self.data(at, *var)? {
                Data::Field(field) => {
                    let fits = self.fits_i32(at, *var, field);
                    let wide = fits.is_err() && self.is_hashed(field);
                    if !wide {
                        fits?;
                    }
                    Some((field, wide))
                }
                Data::Array(_) | Data::World => None,
            },
            Domain::Range(_) | Domain::Grid(_) => None,
        };
        if let Some((field, wide)) = field {
            let rank = self.cx.module.fields[field].rank();
            let (index, map) = if wide {
                (Scalar::I64, Map::Convert(Scalar::I32))
            } else {
                (Scalar::I32, Map::Same)
            };
            let types = vec![Type::Scalar(index); rank];
            let label = self.f.fresh_label();
            self.at(at);
            let op = Op::ForEach(label, ops::Domain::Field(field), hints);
            let inst = self.push_open(op, &[]);
            let maps = vec![map; rank];
            return self.foreach_body(at, f, inst, label, &types, &maps, points);
        }
        let Some(axes) = self.axes(at, domain)? else {
            return Ok(Val::Never);
        };
        let mut args = Vec::new();
        let mut types = Vec::new();
        let mut maps = Vec::new();
        for axis in axes {
            let (lo, hi, map) = self.without_step(axis);
            types.push(self.ty(lo));
            args.extend([lo, hi]);
            maps.push(map);
        }
        let label = self.f.fresh_label();
        self.at(at);
        let rank = types.len() as u8;
        let op = Op::ForEach(label, ops::Domain::Range { rank }, hints);
        let inst = self.push_open(op, &args);
        self.foreach_body(at, f, inst, label, &types, &maps, points)
    }

    /// How many numbers a range has, as `u64`.
    fn count(&mut self, s: Scalar, lo: Value, hi: Value, inclusive: bool) -> Value {
        let distance = self.binary(BinOp::Sub, hi, lo);
        let distance = self.bitcast(distance, unsigned(s));
        let mut count = self.convert(distance, Scalar::U64);
        if inclusive {
            let one = self.int(Scalar::U64, 1);
            count = self.binary(BinOp::Add, count, one);
        }
        let op = if inclusive { CmpOp::Le } else { CmpOp::Lt };
        let any = self.compare(op, lo, hi);
        let zero = self.int(Scalar::U64, 0);
        self.select(any, count, zero)
    }

    /// How many of `count` numbers are left when only every `step`th is taken; none for a step of 0.
    fn stepped(&mut self, count: Value, step: Value) -> Value {
        let (zero, one) = (self.int(Scalar::U64, 0), self.int(Scalar::U64, 1));
        let last = self.binary(BinOp::Sub, count, one);
        let steps = self.binary(BinOp::Div, last, step);
        let steps = self.binary(BinOp::Add, steps, one);
        let (a, b) = (
            self.compare(CmpOp::Eq, count, zero),
            self.compare(CmpOp::Eq, step, zero),
        );
        let none = self.binary(BinOp::Or, a, b);
        self.select(none, zero, steps)
    }

    /// A range that counts by one: parallel loops have no step.
    fn without_step(&mut self, axis: Counted) -> (Value, Value, Map) {
        let Some(step) = axis.step else {
            return (axis.lo, axis.hi, axis.map);
        };
        let s = self.ty(axis.lo).as_scalar().unwrap_or(Scalar::I64);
        let count = self.count(s, axis.lo, axis.hi, false);
        let by = self.convert(step, Scalar::U64);
        let count = self.stepped(count, by);
        let zero = self.int(Scalar::U64, 0);
        (zero, count, Map::Affine(axis.lo, step))
    }

    #[allow(clippy::too_many_arguments)]
    fn foreach_body(
        &mut self,
        at: At,
        f: &'static For,
        inst: Inst,
        label: Label,
        types: &[Type],
        maps: &[Map],
        points: bool,
    ) -> Result<Val> {
        let target = LoopTarget {
            breaks: Exit { label, inst },
            continues: Next::Continue(label),
        };
        self.frame_mut().loops.insert(f.label, target);
        let arrays = self.captures(at, inst, &f.body)?;
        self.parallel = true;
        let filled = self.region(types, |b, params| {
            for (var, items) in arrays {
                let name = b.name(var);
                let place = b.materialize(at, name, items)?;
                b.set(var, Binding::Array(place));
            }
            let mut point = Vec::new();
            for (p, map) in params.iter().zip(maps) {
                point.push(b.mapped(*p, *map));
            }
            for var in f.cached {
                match b.data(at, *var)? {
                    Data::Field(field) => {
                        b.push(Op::Cache(field), &[]);
                    }
                    Data::Array(_) | Data::World => {
                        return Err(b.fail(at, MISTAKE, "only fields can be cached"));
                    }
                }
            }
            b.bind_point(at, &f.pat, &point, points)?;
            if !matches!(b.expr(&f.body)?, Val::Never) {
                b.end(Term::Continue(label, Values::new()));
            }
            Ok(())
        });
        self.parallel = false;
        for (var, binding) in std::mem::take(&mut self.captured) {
            self.set(var, binding);
        }
        self.own(inst, filled?.0);
        Ok(Val::Unit)
    }

    /// The iterations of a parallel loop have locals of their own, so what the loop uses of the
    /// variables around it comes along as values: they are read before the loop, whose instruction
    /// is the last one so far. Gives the arrays among them.
    fn captures(
        &mut self,
        at: At,
        foreach: Inst,
        body: &'static Expr,
    ) -> Result<Vec<(u32, ArrayVal)>> {
        let mut used: Vec<u32> = self.with_closures(body).into_iter().collect();
        used.sort_unstable();
        let mut arrays = Vec::new();
        let mut outer = Vec::new();
        let region = self.take_last(foreach);
        for var in used {
            let binding = self.frame().vars.get(var as usize).cloned().flatten();
            match binding {
                Some(Binding::Local(local, ty)) => {
                    let v = self.build().load(Place::Local(local), &[]);
                    outer.push((var, Binding::Local(local, ty)));
                    self.set(var, Binding::Value(v));
                }
                Some(Binding::Array(place)) => {
                    let len: u32 = place.dims.iter().product();
                    if len > MOST_CAPTURED {
                        return Err(self
                            .fail(
                                at,
                                "W0238",
                                format!(
                                    "the array `{}` is too large to be handed to every iteration of a parallel loop",
                                    self.name(var)
                                ),
                            )
                            .help("declare it inside of the loop, make it a `const`, or use a field"));
                    }
                    let items = match self.snapshots.get(&place.local) {
                        Some(items) => items.clone(),
                        None => self.stored_items(&place),
                    };
                    self.snapshots.insert(place.local, items.clone());
                    outer.push((var, Binding::Array(place)));
                    arrays.push((var, items));
                }
                _ => {}
            }
        }
        self.put_last(region, foreach);
        self.captured = outer;
        self.captured_in = self.frame_count();
        Ok(arrays)
    }

    /// The variables that an expression mentions, also through closures that it calls.
    fn with_closures(&self, body: &'static Expr) -> FxHashSet<u32> {
        let mut all = mentions(body);
        let mut waiting: Vec<u32> = all.iter().copied().collect();
        while let Some(var) = waiting.pop() {
            if let Some(Some(Binding::Closure(closure))) = self.frame().vars.get(var as usize) {
                for v in mentions(closure.body) {
                    if all.insert(v) {
                        waiting.push(v);
                    }
                }
            }
        }
        all
    }

    /// A copy of the body for each number.
    fn unrolled(&mut self, at: At, f: &'static For, r: &'static Range) -> Result<Val> {
        let Some(numbers) = self.numbers(r)? else {
            return Err(self
                .fail(r.at, "W0235", "only a loop over constants can be unrolled")
                .help("use numbers, `const` items or const parameters, or leave out `unroll`"));
        };
        if numbers.1.len() > MOST_COPIES {
            return Err(self
                .fail(
                    at,
                    "W0236",
                    format!("{} copies of a loop body are too many", numbers.1.len()),
                )
                .help(UNROLL_LESS));
        }
        let (s, numbers) = numbers;
        if !leaves_loop(&f.body, f.label) {
            for n in numbers {
                self.at(at);
                let v = self.int(s, n);
                self.bind(at, &f.pat, Val::Value(v))?;
                if let Val::Never = self.expr(&f.body)? {
                    return Ok(Val::Never);
                }
            }
            return Ok(Val::Unit);
        }
        self.at(at);
        let outer = self.f.fresh_label();
        let block = self.push_open(Op::Block(outer), &[]);
        let (region, fell) = self.region(&[], |b, _| {
            for n in numbers {
                let label = b.f.fresh_label();
                let inst = b.push_open(Op::Block(label), &[]);
                let target = LoopTarget {
                    breaks: Exit {
                        label: outer,
                        inst: block,
                    },
                    continues: Next::Break(label),
                };
                b.frame_mut().loops.insert(f.label, target);
                let val = b.block_body(inst, |b| {
                    let v = b.int(s, n);
                    b.bind(at, &f.pat, Val::Value(v))?;
                    match b.expr(&f.body)? {
                        Val::Never => Ok(Val::Never),
                        _ => Ok(Val::Unit),
                    }
                })?;
                if let Val::Never = val {
                    return Ok(false);
                }
            }
            b.end(Term::Yield(Values::new()));
            Ok(true)
        })?;
        self.own(block, region);
        if fell || self.is_left(block) {
            Ok(Val::Unit)
        } else {
            self.end(Term::Unreachable);
            Ok(Val::Never)
        }
    }

    /// The numbers of a range, when all are known.
    fn numbers(&mut self, r: &'static Range) -> Result<Option<(Scalar, Vec<i128>)>> {
        let (Some(lo), Some(hi)) = (self.value(&r.low)?, self.value(&r.high)?) else {
            return Ok(None);
        };
        let Some(s) = self.ty(lo).as_scalar() else {
            return Ok(None);
        };
        let (Some(lo), Some(hi)) = (self.known(lo), self.known(hi)) else {
            return Ok(None);
        };
        let hi = if r.inclusive { hi + 1 } else { hi };
        if hi - lo > 1 << 20 {
            return Err(self
                .fail(r.at, "W0236", "this loop is too long to be unrolled")
                .help(UNROLL_LESS));
        }
        let mut numbers: Vec<i128> = (lo..hi).collect();
        for adapter in r.adapters {
            match adapter {
                Adapter::Rev => numbers.reverse(),
                Adapter::StepBy(step) => {
                    let step = match self.value(step)? {
                        Some(step) => self.known(step),
                        None => None,
                    };
                    match step.and_then(|s| usize::try_from(s).ok()) {
                        Some(0) => numbers.clear(),
                        Some(step) => numbers = numbers.into_iter().step_by(step).collect(),
                        None => return Ok(None),
                    }
                }
            }
        }
        Ok(Some((s, numbers)))
    }
}

fn unsigned(s: Scalar) -> Scalar {
    match s {
        Scalar::I8 => Scalar::U8,
        Scalar::I16 => Scalar::U16,
        Scalar::I32 => Scalar::U32,
        Scalar::I64 => Scalar::U64,
        other => other,
    }
}
