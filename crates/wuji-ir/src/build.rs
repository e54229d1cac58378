//! Building function bodies, one instruction after the other.

use crate::entities::*;
use crate::infer;
use crate::module::*;
use crate::ops::*;
use crate::types::{I64, Imm, Scalar, Type};
use smallvec::SmallVec;

/// Appends instructions to one region of a function. Type errors are bugs of the caller: frontends check
/// first, and the verifier runs afterwards. So a type error here panics in debug builds, with the violated
/// rule.
#[derive(Debug)]
pub struct Builder<'a> {
    /// The declarations of the module.
    pub env: &'a mut Env,
    /// The function that instructions are added to.
    pub func: &'a mut Function,
    /// The region that instructions are added to, at its end.
    pub region: Region,
    /// The source position of new instructions.
    pub span: Span,
}

impl<'a> Builder<'a> {
    /// Starts at the end of the function's entry region.
    pub fn new(env: &'a mut Env, func: &'a mut Function) -> Builder<'a> {
        let region = func.entry;
        Builder {
            env,
            func,
            region,
            span: Span::UNKNOWN,
        }
    }

    /// Appends an instruction whose results follow from its arguments.
    pub fn push(&mut self, op: Op, args: &[Value]) -> Inst {
        let types: Vec<Type> = args.iter().map(|a| self.func.ty(*a)).collect();
        let results = match infer::results(self.env, self.func, &op, &types) {
            Ok(results) => results.unwrap_or_default(),
            Err(why) => {
                debug_assert!(false, "building {op:?} on {types:?}: {why}");
                SmallVec::new()
            }
        };
        self.push_typed(op, args, &results)
    }

    /// Appends an instruction with given result types.
    pub fn push_typed(&mut self, op: Op, args: &[Value], results: &[Type]) -> Inst {
        let inst = self
            .func
            .add_inst(op, args.iter().copied().collect(), results, self.span);
        self.func.regions[self.region].insts.push(inst);
        inst
    }

    /// Appends an instruction and returns its only result.
    /// The extent of an array along an axis, a constant if its shape is known.
    pub fn extent(&mut self, array: Array, axis: u8) -> Value {
        let shape = self.env.arrays[array].shape.as_ref();
        match shape.and_then(|s| s.extents.get(usize::from(axis)).copied()) {
            Some(extent) => self.i64(extent),
            None => self.value(Op::ArrayExtent(array, axis), &[]),
        }
    }

    /// Adds an instruction with one result.
    pub fn value(&mut self, op: Op, args: &[Value]) -> Value {
        let inst = self.push(op, args);
        self.func.result(inst)
    }

    /// Adds a constant.
    pub fn imm(&mut self, imm: Imm) -> Value {
        self.value(Op::Const(imm), &[])
    }

    /// Adds a constant of an integer type.
    pub fn int(&mut self, ty: Scalar, value: i128) -> Value {
        self.imm(Imm::int(ty, value))
    }

    /// Adds a constant of type `i64`.
    pub fn i64(&mut self, value: i64) -> Value {
        self.int(Scalar::I64, i128::from(value))
    }

    /// Adds a constant of a float type.
    pub fn float(&mut self, ty: Scalar, value: f64) -> Value {
        self.imm(Imm::float(ty, value))
    }

    /// Adds a constant of type `bool`.
    pub fn bool(&mut self, value: bool) -> Value {
        self.imm(Imm::bool(value))
    }

    /// All-zero value of any type.
    pub fn zero(&mut self, ty: Type) -> Value {
        match ty {
            Type::Scalar(s) => self.imm(Imm::zero(s)),
            Type::Vector(s, _) | Type::Matrix(s, _, _) => {
                let z = self.imm(Imm::zero(s));
                self.value(Op::Splat(ty), &[z])
            }
            Type::Struct(_) => {
                let parts: Vec<Value> = (0..self.env.structs.arity(ty))
                    .filter_map(|k| self.env.structs.component(ty, k))
                    .collect::<Vec<_>>()
                    .into_iter()
                    .map(|t| self.zero(t))
                    .collect();
                self.value(Op::Compose(ty), &parts)
            }
        }
    }

    /// Adds an operation with one argument.
    pub fn unary(&mut self, op: UnOp, a: Value) -> Value {
        self.value(Op::Unary(op), &[a])
    }

    /// Adds an operation with two arguments.
    pub fn binary(&mut self, op: BinOp, a: Value, b: Value) -> Value {
        self.value(Op::Binary(op), &[a, b])
    }

    /// Adds a comparison.
    pub fn compare(&mut self, op: CmpOp, a: Value, b: Value) -> Value {
        self.value(Op::Compare(op), &[a, b])
    }

    /// Adds `c ? a : b`.
    pub fn select(&mut self, c: Value, a: Value, b: Value) -> Value {
        self.value(Op::Select, &[c, a, b])
    }

    /// Converts by value to another element type; a no-op for the same type.
    pub fn convert(&mut self, a: Value, to: Scalar) -> Value {
        if self.func.ty(a).elem() == Some(to) {
            a
        } else {
            self.value(Op::Convert(to), &[a])
        }
    }

    /// Adds a checked load of an element.
    pub fn load(&mut self, place: Place, indices: &[Value]) -> Value {
        self.value(Op::Load(Access::read(place)), indices)
    }

    /// Adds a checked store to an element.
    pub fn store(&mut self, place: Place, indices: &[Value], value: Value) -> Inst {
        let mut args: Values = indices.iter().copied().collect();
        args.push(value);
        self.push(Op::Store(Access::write(place)), &args)
    }

    /// Adds a barrier: the threads of a block wait for each other.
    pub fn barrier(&mut self) {
        self.push(Op::Thread(ThreadOp::Barrier), &[]);
    }

    /// Ends the current region.
    pub fn end(&mut self, term: Term) {
        let span = self.span;
        let region = &mut self.func.regions[self.region];
        region.term = term;
        region.term_span = span;
    }

    /// Runs `fill` with a new region as the current one; `fill` must end it.
    pub fn region(&mut self, params: &[Type], fill: impl FnOnce(&mut Self, &[Value])) -> Region {
        let (outer, values) = self.enter(params);
        fill(self, &values);
        std::mem::replace(&mut self.region, outer)
    }

    /// Makes a new region the current one. The old one, and the parameters. Not generic: it is compiled once.
    fn enter(&mut self, params: &[Type]) -> (Region, Values) {
        let region = self.func.add_region(params);
        let values = self.func.regions[region].params.clone();
        (std::mem::replace(&mut self.region, region), values)
    }

    /// A parallel loop whose coordinates are `i64`.
    pub fn foreach(
        &mut self,
        domain: Domain,
        args: &[Value],
        rank: usize,
        body: impl FnOnce(&mut Builder<'_>, &[Value]),
    ) -> Inst {
        let label = self.func.fresh_label();
        let op = Op::ForEach(label, domain, LoopHints::default());
        let inst = self.push_typed(op, args, &[]);
        let region = self.region(&vec![I64; rank], |b, at| {
            body(b, at);
            b.end(Term::Continue(label, Values::new()));
        });
        self.func.insts[inst].regions.push(region);
        inst
    }

    /// `if`, with the values of each side.
    pub fn if_else(
        &mut self,
        cond: Value,
        results: &[Type],
        then: impl FnOnce(&mut Self) -> Values,
        otherwise: impl FnOnce(&mut Self) -> Values,
    ) -> Inst {
        let inst = self.push_typed(Op::If, &[cond], results);
        self.side(inst, then);
        self.side(inst, otherwise);
        inst
    }

    /// The next side of an `if`.
    fn side(&mut self, inst: Inst, fill: impl FnOnce(&mut Self) -> Values) {
        let region = self.region(&[], |b, _| {
            let values = fill(b);
            b.end(Term::Yield(values));
        });
        self.func.insts[inst].regions.push(region);
    }

    /// `for`, with a body that returns the carried values of the next iteration.
    pub fn for_range(
        &mut self,
        kind: ForKind,
        (lo, hi, step): (Value, Value, Value),
        carried: &[Value],
        body: impl FnOnce(&mut Self, Label, Value, &[Value]) -> Values,
    ) -> Inst {
        let (inst, label, params) = self.loop_header(kind, &[lo, hi, step], carried);
        let region = self.region(&params, |b, p| {
            let next = body(b, label, p[0], &p[1..]);
            b.end(Term::Continue(label, next));
        });
        self.func.insts[inst].regions.push(region);
        inst
    }

    /// A `for` without its body, whose parameters have these types. Not generic: it is compiled once.
    fn loop_header(
        &mut self,
        kind: ForKind,
        range: &[Value; 3],
        carried: &[Value],
    ) -> (Inst, Label, Vec<Type>) {
        let label = self.func.fresh_label();
        let types: Vec<Type> = carried.iter().map(|v| self.func.ty(*v)).collect();
        let inst = self.push_typed(Op::For(label, kind), &[range, carried].concat(), &types);
        let params = [vec![self.func.ty(range[0])], types].concat();
        (inst, label, params)
    }
}

impl Access {
    /// A whole-element read.
    pub fn read(place: Place) -> Access {
        Access {
            place,
            path: SmallVec::new(),
            activation: Activation::Never,
            guard: Guard::Checked,
        }
    }

    /// A whole-element write or atomic.
    pub fn write(place: Place) -> Access {
        Access {
            activation: Activation::IfAbsent,
            ..Access::read(place)
        }
    }
}
