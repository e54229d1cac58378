//! Evaluates the body of a loop for all elements of a word.

use super::Refusal;
use super::lanes::{Lane, Periodic, PeriodicPart, Sum};
use rustc_hash::FxHashMap;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Inst, Label, Region, Value};
use wuji_ir::eval;
use wuji_ir::module::{Function, InstData, Term, Values};
use wuji_ir::ops::*;
use wuji_ir::types::{Imm, Scalar, Type};

/// The largest number of iterations of inner loops.
const MOST_UNROLLED: usize = 256;

pub(super) struct Evaluator<'a> {
    /// Builds the new body.
    pub(super) b: Builder<'a>,
    pub(super) old: &'a Function,
    /// The ranges of the indices of the loop.
    pub(super) loop_ranges: FxHashMap<Value, (i128, i128)>,
    /// What the values of the old body are.
    pub(super) lanes: FxHashMap<Value, Lane>,
    /// The number of the word, as `i64`.
    pub(super) counter: Value,
    /// The coordinate of the first bit of word 0.
    pub(super) first: i64,
    /// The coordinates of the loop along the bits.
    pub(super) range: (i64, i64),
    pub(super) bits: u32,
    pub(super) word: Scalar,
    pub(super) unrolled: usize,
    /// Instructions without effects so far, so that equal bits are one value; loads until the next store.
    pub(super) known: FxHashMap<(Op, Values), Value>,
}

impl Evaluator<'_> {
    /// The instructions of the loop body.
    pub(super) fn body(&mut self, entry: Region, mask: Option<Value>) -> Result<(), Refusal> {
        self.instructions(entry, mask)?;
        match &self.old.regions[entry].term {
            Term::Return(values) if values.is_empty() => Ok(()),
            _ => Err("the body has an early end".into()),
        }
    }

    fn instructions(&mut self, region: Region, mask: Option<Value>) -> Result<(), Refusal> {
        let insts = &self.old.regions[region].insts;
        insts
            .iter()
            .try_for_each(|inst| self.instruction(*inst, mask))
    }

    fn lane(&self, v: Value) -> Result<Lane, Refusal> {
        let lane = self.lanes.get(&v).cloned();
        lane.ok_or_else(|| "a value is not known".into())
    }

    fn args(&self, values: &[Value]) -> Result<Vec<Lane>, Refusal> {
        values.iter().map(|v| self.lane(*v)).collect()
    }

    /// A lane that is the same for all elements, as a value.
    pub(super) fn uniform(&mut self, lane: &Lane) -> Result<Value, Refusal> {
        match lane {
            Lane::Const(imm) => Ok(self.constant(*imm)),
            Lane::Uniform(v) => Ok(*v),
            Lane::Index(_) | Lane::Periodic(_) | Lane::Bits(_) => {
                Err("a value differs between the bits of a word".into())
            }
        }
    }

    pub(super) fn constant(&mut self, imm: Imm) -> Value {
        self.pure(Op::Const(imm), &[])
    }

    /// A result that was computed before, or a new instruction.
    pub(super) fn pure(&mut self, op: Op, args: &[Value]) -> Value {
        let key = (op, Values::from(args));
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let value = self.b.value(key.0.clone(), args);
        self.known.insert(key, value);
        value
    }

    /// An index plus a constant.
    pub(super) fn plus(&mut self, v: Value, by: i64) -> Value {
        if by == 0 {
            return v;
        }
        let ty = self.b.func.ty(v).as_scalar().unwrap_or(Scalar::I64);
        let by = self.constant(Imm::int(ty, by.into()));
        self.pure(Op::Binary(BinOp::Add), &[v, by])
    }

    fn instruction(&mut self, inst: Inst, mask: Option<Value>) -> Result<(), Refusal> {
        let old = self.old;
        let data = &old.insts[inst];
        self.b.span = old.spans[inst];
        let result = match data.op.class() {
            OpClass::Constant(imm) => Some(Lane::Const(imm)),
            OpClass::Elementwise(op) => Some(self.elementwise(op, data)?),
            OpClass::Component(_)
            | OpClass::Reduce(_)
            | OpClass::Algebra(_)
            | OpClass::Query(_) => Some(self.same_for_all(data)?),
            OpClass::Hint(HintOp::AssumeRange(..) | HintOp::Unique(_)) => {
                Some(self.lane(data.args[0])?)
            }
            OpClass::Hint(HintOp::Cache(_)) => None,
            OpClass::Access(op, access) => self.access(data, op, access, mask)?,
            OpClass::Control(ControlOp::If) => return self.branch(data, mask),
            OpClass::Control(ControlOp::For(label, _)) => return self.unroll(data, label, mask),
            OpClass::Control(_)
            | OpClass::Cell(..)
            | OpClass::TreeAccess(..)
            | OpClass::Memory(_)
            | OpClass::Call(_)
            | OpClass::Random
            | OpClass::Thread(_)
            | OpClass::Check(_) => {
                return Err(format!("`{}` has no form for bits", data.op.name()));
            }
        };
        if let (Some(v), Some(lane)) = (data.results.first(), result) {
            self.lanes.insert(*v, lane);
        }
        Ok(())
    }

    /// An instruction whose arguments are the same for all elements.
    fn same_for_all(&mut self, data: &InstData) -> Result<Lane, Refusal> {
        let mut args = Values::new();
        for lane in self.args(&data.args)? {
            args.push(self.uniform(&lane)?);
        }
        if let (Op::Binary(BinOp::Add), [a, b]) = (&data.op, &args[..]) {
            let zero = |v: Value| self.b.func.constant(v).and_then(Imm::as_int) == Some(0);
            if zero(*a) || zero(*b) {
                return Ok(Lane::Uniform(if zero(*a) { *b } else { *a }));
            }
        }
        if data.op.effect() == Effect::Pure && data.op.access().is_none() {
            return Ok(Lane::Uniform(self.pure(data.op.clone(), &args)));
        }
        let types: Vec<Type> = data.results.iter().map(|v| self.old.ty(*v)).collect();
        let inst = self.b.push_typed(data.op.clone(), &args, &types);
        Ok(Lane::Uniform(self.b.func.result(inst)))
    }

    fn elementwise(&mut self, op: ElementwiseOp, data: &InstData) -> Result<Lane, Refusal> {
        let args = self.args(&data.args)?;
        let constants: Option<Vec<Imm>> = args
            .iter()
            .map(|a| {
                if let Lane::Const(imm) = a {
                    Some(*imm)
                } else {
                    None
                }
            })
            .collect();
        if let Some(constants) = constants
            && let Some(value) = eval::elementwise(op, |k| constants[k])
        {
            return Ok(Lane::Const(value));
        }
        let same = |a: &Lane| matches!(a, Lane::Const(_) | Lane::Uniform(_));
        if args.iter().all(same) {
            return self.same_for_all(data);
        }
        let ty = self.old.ty(data.results[0]).as_scalar();
        let ty = ty.ok_or("there are vectors")?;
        if let Some(lane) = self.on_index(op, &args, ty)? {
            return Ok(lane);
        }
        match op {
            ElementwiseOp::Unary(op) => {
                let a = self.as_sum(&args[0])?;
                Ok(Lane::Bits(self.unary_op(op, &a, ty)?))
            }
            ElementwiseOp::Binary(op) => {
                let (a, b) = (self.as_sum(&args[0])?, self.as_sum(&args[1])?);
                Ok(Lane::Bits(self.binary_op(op, (&a, &b), ty)?))
            }
            ElementwiseOp::Compare(op) => {
                let a = self.binary_of(data.args[0])?;
                let b = self.binary_of(data.args[1])?;
                Ok(Lane::Bits(self.compare(op, &a, &b)?))
            }
            ElementwiseOp::Select => {
                let c = self.condition(&args[0])?;
                self.selected(c, &args[1], &args[2])
            }
            ElementwiseOp::Convert(to) => {
                let a = self.as_sum(&args[0])?;
                self.converted(a, to)
            }
            ElementwiseOp::Fma | ElementwiseOp::Bitcast(_) => {
                Err(format!("`{}` has no form for bits", data.op.name()))
            }
        }
    }

    /// An operation on the coordinate along the bits, and perhaps a constant.
    fn on_index(
        &mut self,
        op: ElementwiseOp,
        args: &[Lane],
        ty: Scalar,
    ) -> Result<Option<Lane>, Refusal> {
        if let Some(lane) = self.on_periodic(op, args) {
            return Ok(Some(lane));
        }
        let lane = self.on_coordinate(op, args)?;
        let Some(Lane::Index(by)) = lane else {
            return Ok(lane);
        };
        let (least, most) = self.moved_range(by);
        match ty.int_range() {
            Some((lo, hi)) if least >= lo && most <= hi => Ok(lane),
            _ => Err(format!("a coordinate may not fit `{ty}`")),
        }
    }

    /// The least and the largest coordinate plus a constant.
    fn moved_range(&self, by: i64) -> (i128, i128) {
        let (lo, hi) = self.range;
        let by = i128::from(by);
        (i128::from(lo) + by, i128::from(hi) - 1 + by)
    }

    /// A step of a remainder of the coordinate by a constant.
    fn on_periodic(&self, op: ElementwiseOp, args: &[Lane]) -> Option<Lane> {
        let (of, part) = self.remainder_of(op, args).or_else(|| lifted(op, args))?;
        Some(Lane::Periodic(Periodic { part, ..of }))
    }

    /// A remainder, or a mask of low bits.
    fn remainder_of(&self, op: ElementwiseOp, args: &[Lane]) -> Option<(Periodic, PeriodicPart)> {
        let ElementwiseOp::Binary(op) = op else {
            return None;
        };
        let (by, n, first) = match args {
            [Lane::Index(by), Lane::Const(n)] => (*by, small(*n).ok()?, true),
            [Lane::Const(n), Lane::Index(by)] => (*by, small(*n).ok()?, false),
            _ => return None,
        };
        let coordinate = PeriodicPart::Coordinate;
        let of = |period| Periodic {
            by,
            period,
            part: coordinate,
        };
        if op == BinOp::And && (0..i64::MAX).contains(&n) && n & (n + 1) == 0 {
            return Some((of(n + 1), coordinate));
        }
        if op != BinOp::Rem || !first || n <= 0 {
            return None;
        }
        let is_positive = self.moved_range(by).0 >= 0;
        let part = if is_positive {
            coordinate
        } else {
            PeriodicPart::Remainder
        };
        Some((of(n), part))
    }

    fn on_coordinate(&mut self, op: ElementwiseOp, args: &[Lane]) -> Result<Option<Lane>, Refusal> {
        if let (ElementwiseOp::Convert(to), [Lane::Index(by)]) = (op, args)
            && to.is_int()
        {
            return Ok(Some(Lane::Index(*by)));
        }
        let (by, c, first) = match args {
            [Lane::Index(by), Lane::Const(c)] => (*by, *c, true),
            [Lane::Const(c), Lane::Index(by)] => (*by, *c, false),
            _ => return Ok(None),
        };
        if op == ElementwiseOp::Binary(BinOp::Add) {
            return moved(by, c, 1).map(Some);
        }
        if op == ElementwiseOp::Binary(BinOp::Sub) && first {
            return moved(by, c, -1).map(Some);
        }
        if let ElementwiseOp::Compare(op) = op {
            let op = if first { op } else { swapped(op) };
            let bits = self.compare_index(op, by, small(c)?)?;
            return Ok(Some(Lane::Bits(bits)));
        }
        Ok(None)
    }

    /// An integer in binary, remembered for its next use.
    fn binary_of(&mut self, v: Value) -> Result<Sum, Refusal> {
        let lane = self.lane(v)?;
        let sum = self.as_sum(&lane)?;
        let sum = self.binary(&sum)?;
        if let Lane::Bits(_) = lane {
            self.lanes.insert(v, Lane::Bits(sum.clone()));
        }
        Ok(sum)
    }

    fn converted(&mut self, a: Sum, to: Scalar) -> Result<Lane, Refusal> {
        if to == Scalar::Bool {
            let zero = Sum::constant(0);
            return Ok(Lane::Bits(self.compare(CmpOp::Ne, &a, &zero)?));
        }
        match to.int_range() {
            Some((lo, hi)) if a.least >= lo && a.most <= hi => Ok(Lane::Bits(a)),
            _ => Err(format!("an integer may not fit `{to}`")),
        }
    }

    /// A bit for each element.
    fn condition(&mut self, lane: &Lane) -> Result<Value, Refusal> {
        let sum = self.as_sum(lane)?;
        self.low(&sum)
    }

    fn selected(&mut self, c: Value, a: &Lane, b: &Lane) -> Result<Lane, Refusal> {
        match (a, b) {
            (Lane::Const(x), Lane::Const(y)) if x == y => Ok(a.clone()),
            (Lane::Uniform(x), Lane::Uniform(y)) if x == y => Ok(a.clone()),
            (Lane::Index(x), Lane::Index(y)) if x == y => Ok(a.clone()),
            (Lane::Periodic(x), Lane::Periodic(y)) if x == y => Ok(a.clone()),
            _ => {
                let (a, b) = (self.as_sum(a)?, self.as_sum(b)?);
                Ok(Lane::Bits(self.select(c, &a, &b)?))
            }
        }
    }

    fn access(
        &mut self,
        data: &InstData,
        op: AccessOp,
        access: &Access,
        mask: Option<Value>,
    ) -> Result<Option<Lane>, Refusal> {
        let args = self.args(&data.args)?;
        let rank = self.b.env.place_elem(self.old, access.place).1;
        let refused = || Err(format!("`{}` has no form for bits", data.op.name()));
        match op {
            AccessOp::Load => match access.place {
                Place::Field(field) => {
                    if let Some(lane) = self.load(field, &args[..rank])? {
                        return Ok(Some(lane));
                    }
                    self.same_for_all(data).map(Some)
                }
                Place::Array(_) | Place::Temp(_) => self.same_for_all(data).map(Some),
                Place::Local(_) => refused(),
            },
            AccessOp::Store => match access.place {
                Place::Field(field) => {
                    let (at, value) = args.split_at(rank);
                    if access.guard == Guard::Checked && self.leaves(field, &data.args[..rank], at)
                    {
                        let name = &self.b.env.fields[field].name;
                        return Err(format!("stores to `{name}` may be outside"));
                    }
                    self.store((field, access), at, &value[0], mask)?;
                    Ok(None)
                }
                Place::Array(_) | Place::Temp(_) | Place::Local(_) => refused(),
            },
            AccessOp::Atomic(op) => match access.place {
                Place::Field(_) | Place::Temp(_) if op == AtomicOp::Add => {
                    self.count_up(data, &args, mask)?;
                    Ok(None)
                }
                Place::Field(_) | Place::Temp(_) | Place::Array(_) | Place::Local(_) => refused(),
            },
            AccessOp::CompareExchange => refused(),
        }
    }

    /// Adds the sum over the elements of a word to one number. The old value must be unused: reading it fails, because it
    /// is not known.
    fn count_up(
        &mut self,
        data: &InstData,
        args: &[Lane],
        mask: Option<Value>,
    ) -> Result<(), Refusal> {
        let (operand, address) = args.split_last().ok_or("there is no operand")?;
        let Lane::Bits(sum) = operand else {
            return Err("an atomic adds the same for all bits".into());
        };
        let mut new = Values::new();
        for lane in address {
            new.push(self.uniform(lane)?);
        }
        let ty = self.old.ty(data.results[0]).as_scalar();
        let ty = ty
            .filter(|t| t.is_int())
            .ok_or("an atomic adds to a float")?;
        let total = self.total(sum, mask);
        new.push(self.b.convert(total, ty));
        self.b.push(data.op.clone(), &new);
        Ok(())
    }

    // ---- control ----

    fn branch(&mut self, data: &InstData, mask: Option<Value>) -> Result<(), Refusal> {
        let cond = self.lane(data.args[0])?;
        let (then, otherwise) = (data.regions[0], data.regions[1]);
        if let Lane::Const(imm) = cond {
            let taken = if imm.as_bool() == Some(true) {
                then
            } else {
                otherwise
            };
            let values = self.side(taken, mask)?;
            self.lanes.extend(data.results.iter().copied().zip(values));
            return Ok(());
        }
        let c = self.condition(&cond)?;
        let within = |e: &mut Self, c: Value| match mask {
            Some(mask) => e.and(mask, c),
            None => c,
        };
        let yes = within(self, c);
        let a = self.side(then, Some(yes))?;
        let not = self.not(c);
        let no = within(self, not);
        let b = self.side(otherwise, Some(no))?;
        for (v, (a, b)) in data.results.iter().zip(a.iter().zip(&b)) {
            let lane = self.selected(c, a, b)?;
            self.lanes.insert(*v, lane);
        }
        Ok(())
    }

    /// One side of an `if`; the values it yields.
    fn side(&mut self, region: Region, mask: Option<Value>) -> Result<Vec<Lane>, Refusal> {
        self.instructions(region, mask)?;
        match &self.old.regions[region].term {
            Term::Yield(values) => self.args(values),
            _ => Err("a branch leaves the body".into()),
        }
    }

    /// Runs a loop with constant bounds.
    fn unroll(
        &mut self,
        data: &InstData,
        label: Label,
        mask: Option<Value>,
    ) -> Result<(), Refusal> {
        let bounds = self.args(&data.args[..3])?;
        let mut ends = [0; 3];
        for (end, lane) in ends.iter_mut().zip(&bounds) {
            let Lane::Const(imm) = lane else {
                return Err("an inner loop has bounds that are known at run time".into());
            };
            *end = small(*imm)?;
        }
        let [lo, hi, step] = ends;
        let mut carried = self.args(&data.args[3..])?;
        let region = data.regions[0];
        let params = self.old.regions[region].params.clone();
        let ty = self
            .old
            .ty(params[0])
            .as_scalar()
            .ok_or("a loop has no index")?;
        let mut at = lo;
        while step != 0 && (step > 0 && at < hi || step < 0 && at > hi) {
            self.unrolled += 1;
            if self.unrolled > MOST_UNROLLED {
                return Err("inner loops have too many iterations".into());
            }
            self.lanes
                .insert(params[0], Lane::Const(Imm::int(ty, at.into())));
            let values = params[1..].iter().copied().zip(carried);
            self.lanes.extend(values);
            self.instructions(region, mask)?;
            carried = match &self.old.regions[region].term {
                Term::Continue(to, values) if *to == label => self.args(values)?,
                _ => return Err("an inner loop has an early end".into()),
            };
            at = at.checked_add(step).ok_or("a loop is too long")?;
        }
        self.lanes.extend(data.results.iter().copied().zip(carried));
        Ok(())
    }
}

/// What makes a remainder one that is not negative, and a conversion of that.
fn lifted(op: ElementwiseOp, args: &[Lane]) -> Option<(Periodic, PeriodicPart)> {
    let is = |p: &Periodic, part| p.part == part;
    // A remainder that cannot be negative is a coordinate already.
    let is_remainder =
        |p: &Periodic| is(p, PeriodicPart::Remainder) || is(p, PeriodicPart::Coordinate);
    let equals = |c: &Imm, value| small(*c) == Ok(value);
    if let [Lane::Periodic(p), Lane::Const(c)] | [Lane::Const(c), Lane::Periodic(p)] = args
        && is_remainder(p)
    {
        if op == ElementwiseOp::Binary(BinOp::Add) && equals(c, p.period) {
            return Some((*p, PeriodicPart::Lifted));
        }
        let first = matches!(args[0], Lane::Periodic(_));
        if op == ElementwiseOp::Compare(CmpOp::Lt) && first && equals(c, 0) {
            return Some((*p, PeriodicPart::IsNegative));
        }
    }
    if let (ElementwiseOp::Select, [Lane::Periodic(c), Lane::Periodic(a), Lane::Periodic(b)]) =
        (op, args)
        && is(c, PeriodicPart::IsNegative)
        && is(a, PeriodicPart::Lifted)
        && is_remainder(b)
        && [a, b].iter().all(|p| (p.by, p.period) == (c.by, c.period))
    {
        return Some((*c, PeriodicPart::Coordinate));
    }
    if let (ElementwiseOp::Convert(to), [Lane::Periodic(p)]) = (op, args)
        && is(p, PeriodicPart::Coordinate)
        && i128::from(p.period) <= to.int_range()?.1
    {
        return Some((*p, p.part));
    }
    None
}

fn small(imm: Imm) -> Result<i64, Refusal> {
    let value = imm.as_int().and_then(|v| i64::try_from(v).ok());
    value.ok_or_else(|| "a number is not a small integer".into())
}

/// The coordinate plus a multiple of a constant.
fn moved(by: i64, c: Imm, factor: i64) -> Result<Lane, Refusal> {
    let far = small(c)?
        .checked_mul(factor)
        .and_then(|c| by.checked_add(c));
    let near = far.filter(|d| d.unsigned_abs() < 1 << 31);
    near.map(Lane::Index)
        .ok_or_else(|| "an index is too large".into())
}

fn swapped(op: CmpOp) -> CmpOp {
    match op {
        CmpOp::Eq => CmpOp::Eq,
        CmpOp::Ne => CmpOp::Ne,
        CmpOp::Lt => CmpOp::Gt,
        CmpOp::Le => CmpOp::Ge,
        CmpOp::Gt => CmpOp::Lt,
        CmpOp::Ge => CmpOp::Le,
    }
}
