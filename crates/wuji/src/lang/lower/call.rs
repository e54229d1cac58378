//! Calls of functions and closures, and the functions of the language itself.

use super::MISTAKE;
use super::binding::{ArrayVal, Binding, Shape, Val};
use super::body::{Body, Exit, Frame, get};
use super::mentions::returns;
use super::place::Spot;
use crate::lang::ast::{At, Expr, Kind, ParamKind, Pat};
use crate::lang::recording::CallTarget;
use wuji_ir::Result;
use wuji_ir::entities::Value;
use wuji_ir::ops::{AlgebraOp, BinOp, CmpOp, Op};
use wuji_ir::types::{Imm, Scalar, Type};

/// Functions inlined into each other deeper than this are refused.
const DEEPEST: usize = 64;

impl<'r> Body<'_, 'r> {
    pub(super) fn call(&mut self, at: At, number: u32, args: &'static [Expr]) -> Result<Val> {
        let callee = self.callee_of(at, number)?;
        match &callee.target {
            CallTarget::Function(k) => self.call_function(at, *k, args),
            CallTarget::Builtin(name) => {
                let shape = self.cx.shape(&callee.result);
                self.builtin(at, name, &shape, args)
            }
            CallTarget::Method(name) => {
                let shape = self.cx.shape(&callee.result);
                self.method(at, name, &shape, args)
            }
            CallTarget::Constructor => {
                let shape = self.cx.shape(&callee.result);
                self.construct(at, &shape, args)
            }
            CallTarget::Variant(name) => {
                let shape = self.cx.shape(&callee.result);
                self.construct_variant(at, &shape, name, args)
            }
            CallTarget::Unknown(name) => Err(self.not_a_func(at, name)),
        }
    }

    pub(super) fn method_call(
        &mut self,
        at: At,
        number: u32,
        name: &str,
        args: &'static [Expr],
    ) -> Result<Val> {
        let callee = self.callee_of(at, number)?;
        match &callee.target {
            CallTarget::Function(k) => self.call_function(at, *k, args),
            CallTarget::Method(name) => {
                let shape = self.cx.shape(&callee.result);
                self.method(at, name, &shape, args)
            }
            CallTarget::Builtin(_)
            | CallTarget::Constructor
            | CallTarget::Variant(_)
            | CallTarget::Unknown(_) => Err(self.not_a_func(at, name)),
        }
    }

    fn not_a_func(&self, at: At, name: &str) -> wuji_ir::Error {
        // The path is for rustc; the position says which function of that name it is.
        let name = if name.contains('<') {
            name
        } else {
            name.rsplit("::").next().unwrap_or(name)
        };
        self.fail(
            at,
            "W0240",
            format!("`{name}` is not a `#[func]`, so a kernel cannot call it"),
        )
        .help("put `#[func]` in front of it, or compute its result before the launch; of the standard library, kernels know the functions of numbers")
    }

    pub(super) fn call_function(&mut self, at: At, k: usize, args: &'static [Expr]) -> Result<Val> {
        let Some(id) = self.cx.declare(k) else {
            return self.inline(at, k, args);
        };
        let values = get!(self.values(args));
        self.at(at);
        let inst = self.push(Op::Call(id), &values);
        Ok(self.result_of(inst))
    }

    /// A function that takes data or arrays: its body, with the parameters bound to the arguments.
    fn inline(&mut self, at: At, k: usize, args: &'static [Expr]) -> Result<Val> {
        let recording = self.cx.recording;
        let source: &'r crate::lang::recording::Function = &recording.functions[k];
        let name = source.ast.name;
        if source.reverse.is_some() {
            let why = "it takes or returns an array";
            return Err(self.cx.bad_reverse(source, why));
        }
        if self.is_open(k) || self.frame().number == k {
            return Err(self
                .fail(at, "W0241", format!("`{name}` calls itself"))
                .note("functions that take fields, arrays or `&mut` are inlined into their callers")
                .help("pass values, or write a loop"));
        }
        if self.inlined() >= DEEPEST {
            return Err(self
                .fail(at, "W0242", "too many functions call each other here")
                .note("functions that take fields, arrays or `&mut` are inlined into their callers")
                .help("pass values, or join some of them"));
        }
        let mut bound = Vec::new();
        for (param, arg) in source.ast.params.iter().zip(args) {
            match (param.kind, &arg.kind) {
                (ParamKind::Data | ParamKind::Bundle(_), _) => {
                    bound.push(Err(self.data_binding(arg)?));
                }
                (ParamKind::Value(_), _) => match self.expr(arg)? {
                    Val::Never => return Ok(Val::Never),
                    val => bound.push(Ok(val)),
                },
                (ParamKind::Closure, _) => bound.push(Err(self.passed_closure(arg)?)),
                (ParamKind::Exclusive(_), _) => match self.lend(arg)? {
                    None => return Ok(Val::Never),
                    Some(binding) => bound.push(Err(binding)),
                },
            }
        }
        self.at(at);
        let file = self.cx.file(source.ast.file);
        let mut frame = Frame::new(k, source, file);
        let bind = |b: &mut Self| {
            for (param, val) in source.ast.params.iter().zip(bound) {
                match (val, &param.pat) {
                    (Ok(val), pat) => b.bind(param.at, pat, val)?,
                    (Err(data), Pat::Var { var, .. }) => b.set(*var, data),
                    (Err(_), _) => {}
                }
            }
            Ok(())
        };
        if !returns(&source.ast.body) {
            return self.inside(frame, |b| {
                bind(b)?;
                match b.expr(&source.ast.body)? {
                    // A copy of its own: what it was made from may go on changing.
                    Val::Array(array) => {
                        let place = b.materialize(at, name, array)?;
                        Ok(Val::Array(ArrayVal::Stored(place)))
                    }
                    val => Ok(val),
                }
            });
        }
        if let Shape::Array(..) = self.cx.shape(&source.result) {
            return Err(self
                .fail(
                    at,
                    "W0239",
                    format!("`{name}` returns an array, so it cannot `return` in the middle"),
                )
                .help("fill an array that was declared first, and let it be the last expression"));
        }
        let label = self.f.fresh_label();
        let inst = self.push_open(Op::Block(label), &[]);
        frame.exit = Some(Exit { label, inst });
        self.inside(frame, |b| {
            b.block_body(inst, |b| {
                bind(b)?;
                b.expr(&source.ast.body)
            })
        })
    }

    /// `std::mem::swap(&mut a, &mut b)`.
    fn swap_places(&mut self, at: At, a: &'static Expr, b: &'static Expr) -> Result<Val> {
        match (self.spot(a)?, self.spot(b)?) {
            (Spot::Place(p), Spot::Place(q)) => {
                self.at(at);
                let (x, y) = (self.load(&p), self.load(&q));
                self.store(&p, y);
                self.store(&q, x);
                Ok(Val::Unit)
            }
            (Spot::Array(p), Spot::Array(q)) => {
                let old = self.materialize(at, "", ArrayVal::Stored(p.clone()))?;
                self.fill(at, &p, ArrayVal::Stored(q.clone()))?;
                self.fill(at, &q, ArrayVal::Stored(old))?;
                Ok(Val::Unit)
            }
            (Spot::Never, _) | (_, Spot::Never) => Ok(Val::Never),
            _ => Err(self.fail(at, MISTAKE, "these cannot be exchanged")),
        }
    }

    /// What `&mut e` refers to; `None` when control does not get past it.
    pub(super) fn lend(&mut self, e: &'static Expr) -> Result<Option<Binding>> {
        self.check_lent(e)?;
        if !self.is_place(e) {
            let val = self.expr(e)?;
            self.at(e.at);
            return match val {
                Val::Never => Ok(None),
                Val::Unit => Ok(Some(Binding::Unit)),
                Val::Array(array) => Ok(Some(Binding::Array(self.materialize(e.at, "", array)?))),
                Val::Value(v) => Ok(Some(self.nameless_local(v))),
            };
        }
        match self.spot(e)? {
            Spot::Never => Ok(None),
            Spot::Array(place) => Ok(Some(Binding::Array(place))),
            Spot::Place(mut place) => {
                place.exclusive = true;
                Ok(Some(Binding::Place(place)))
            }
            Spot::Parts(_) | Spot::OneOf(..) => Err(self.no_array(e.at)),
            Spot::Empty(_) => Err(self.fail(e.at, MISTAKE, "this variable has no value yet")),
        }
    }

    pub(super) fn call_closure(&mut self, at: At, var: u32, args: &'static [Expr]) -> Result<Val> {
        let Binding::Closure(closure) = self.var(at, var)? else {
            return Err(self.fail(at, MISTAKE, "this cannot be called"));
        };
        let mut vals = Vec::new();
        for arg in args {
            match self.expr(arg)? {
                Val::Never => return Ok(Val::Never),
                val => vals.push(val),
            }
        }
        self.inside_closure(&closure, |b| {
            for (pat, val) in closure.params.iter().zip(vals) {
                b.bind(at, pat, val)?;
            }
            b.expr(closure.body)
        })
    }

    /// A closure that is passed to a function.
    fn passed_closure(&self, e: &'static Expr) -> Result<Binding> {
        match &e.kind {
            Kind::Closure(params, body) => Ok(Binding::Closure(self.closure(params, body))),
            Kind::Var(var) => self.var(e.at, *var),
            _ => Err(self.fail(e.at, MISTAKE, "this is not a closure")),
        }
    }

    /// `P(a, b)` of a tuple struct, and `Vector([a, b])`.
    fn construct(&mut self, at: At, shape: &Shape, args: &'static [Expr]) -> Result<Val> {
        let Shape::Value(ty) = *shape else {
            return Err(self.no_array(at));
        };
        match ty {
            Type::Vector(..) | Type::Matrix(..) => self.compose_parts(at, ty, args),
            Type::Struct(_) | Type::Scalar(_) => {
                let values = get!(self.values(args));
                self.at(at);
                Ok(Val::Value(self.op(Op::Compose(ty), &values)))
            }
        }
    }

    /// All scalars of some arguments: numbers, vectors, and arrays of them.
    fn scalars(&mut self, at: At, vals: Vec<Val>, out: &mut Vec<Value>) -> Result<()> {
        for val in vals {
            match val {
                Val::Unit | Val::Never => {}
                Val::Array(array) => {
                    let items = self.array_items(at, &array)?;
                    self.scalars(at, items, out)?;
                }
                Val::Value(v) => match self.ty(v) {
                    Type::Scalar(_) => out.push(v),
                    ty => {
                        for k in 0..self.cx.module.structs.arity(ty) {
                            out.push(self.extract(v, k));
                        }
                    }
                },
            }
        }
        Ok(())
    }

    fn vals(&mut self, args: &'static [Expr]) -> Result<Option<Vec<Val>>> {
        let mut vals = Vec::new();
        for arg in args {
            match self.expr(arg)? {
                Val::Never => return Ok(None),
                val => vals.push(val),
            }
        }
        Ok(Some(vals))
    }

    /// A vector or matrix from its scalars, row by row.
    fn compose_parts(&mut self, at: At, ty: Type, args: &'static [Expr]) -> Result<Val> {
        let vals = get!(self.vals(args));
        self.at(at);
        let mut parts = Vec::new();
        self.scalars(at, vals, &mut parts)?;
        if Some(parts.len()) != ty.lanes().map(|n| n as usize) {
            let n = parts.len();
            return Err(self.fail(at, MISTAKE, format!("{n} numbers do not make a `{ty}`")));
        }
        Ok(Val::Value(self.op(Op::Compose(ty), &parts)))
    }

    fn builtin(&mut self, at: At, name: &str, shape: &Shape, args: &'static [Expr]) -> Result<Val> {
        if let Some(val) = self.simt(at, name, shape, args)? {
            return Ok(val);
        }
        if let ("mem::swap", [a, b]) = (name, args) {
            return self.swap_places(at, a, b);
        }
        let Some(ty) = Body::shape_is_value(shape) else {
            return Err(self.not_a_func(at, name));
        };
        match name {
            "vec2" | "vec3" | "vec4" | "dvec2" | "dvec3" | "dvec4" | "ivec2" | "ivec3"
            | "ivec4" | "uvec2" | "uvec3" | "uvec4" | "bvec2" | "bvec3" | "bvec4" | "mat2"
            | "Vector::new" | "Vector::from_array" | "Matrix::new" | "Matrix::from_rows" => {
                self.compose_parts(at, ty, args)
            }
            "Matrix::from_cols" => {
                let Type::Matrix(s, r, c) = ty else {
                    return Err(self.not_a_func(at, name));
                };
                let Val::Value(rows) = self.compose_parts(at, Type::Matrix(s, c, r), args)? else {
                    return Ok(Val::Never);
                };
                Ok(Val::Value(
                    self.op(Op::Algebra(AlgebraOp::Transpose), &[rows]),
                ))
            }
            "random" => Ok(Val::Value(self.random(ty))),
            "Default::default" => Ok(Val::Value(self.build().zero(ty))),
            "Matrix::identity" => {
                let one = ty.elem().map(|s| self.float(s, 1.0));
                self.diagonal(at, ty, one.into_iter().collect())
            }
            "unit" => self.unit(at, ty, args),
            _ => {
                let values = get!(self.values(args));
                self.at(at);
                self.builtin_of_values(at, name, ty, &values)
            }
        }
    }

    fn builtin_of_values(&mut self, at: At, name: &str, ty: Type, values: &[Value]) -> Result<Val> {
        let v = match (name, values) {
            ("Vector::splat" | "Matrix::splat", [v]) => self.splat(*v, ty),
            ("Matrix::from_diagonal", [v]) => {
                let n = self.cx.module.structs.arity(self.ty(*v));
                let parts = (0..n).map(|k| self.extract(*v, k)).collect();
                return self.diagonal(at, ty, parts);
            }
            ("Num::from_f64" | "From::from" | "f16::from_f32" | "f16::from_f64", [v]) => {
                return self.convert_to(at, *v, ty);
            }
            ("f16::from_bits" | "f32::from_bits" | "f64::from_bits", [v]) => match ty.elem() {
                Some(s) => self.bitcast(*v, s),
                None => return Err(self.not_a_func(at, name)),
            },
            ("min", [a, b]) => self.smaller(*a, *b),
            ("max", [a, b]) => self.larger(*a, *b),
            ("clamp", [x, lo, hi]) => {
                let x = self.larger(*x, *lo);
                self.smaller(x, *hi)
            }
            ("select", [c, a, b]) => self.select(*c, *a, *b),
            ("mix", [a, b, t]) => {
                let d = self.binary(BinOp::Sub, *b, *a);
                let (d, t) = self.widen(d, *t);
                let d = self.binary(BinOp::Mul, d, t);
                self.binary(BinOp::Add, *a, d)
            }
            ("assume_in_range", [value, base, lo, hi]) => {
                let number = |v: &Value| {
                    let imm = self.f.constant(*v)?;
                    i64::try_from(imm.as_int()?).ok()
                };
                match (number(lo), number(hi)) {
                    (Some(lo), Some(hi)) if lo < hi => {
                        self.op(Op::AssumeRange(lo, hi), &[*value, *base])
                    }
                    _ => {
                        let why = "the range of `assume_in_range` is two constants, the first below the second";
                        return Err(self.fail(at, "W0253", why).help("as in `assume_in_range(j, i, -1, 2)`: `j` is one of `i - 1`, `i`, `i + 1`"));
                    }
                }
            }
            ("loop_unique", [value]) => self.op(Op::Unique(None), &[*value]),
            ("loop_permutation", [value, count]) => {
                let count = self.f.constant(*count).and_then(Imm::as_int);
                let Some(count) = count.and_then(|n| u64::try_from(n).ok()) else {
                    let why = "the count of `loop_permutation` is a constant that is not negative";
                    return Err(self.fail(at, "W0253", why).help("as in `loop_permutation(order[[i]], 1000)`; `loop_unique(order[[i]])` needs no count"));
                };
                self.op(Op::Unique(Some(count)), &[*value])
            }
            ("random_range", [lo, hi]) => self.random_range(*lo, *hi, ty),
            _ => return Err(self.not_a_func(at, name)),
        };
        Ok(Val::Value(v))
    }

    /// By value to another scalar type.
    pub(super) fn convert_to(&mut self, at: At, v: Value, ty: Type) -> Result<Val> {
        match (self.ty(v), ty.elem()) {
            (Type::Struct(_), _) | (_, None) => {
                Err(self.fail(at, MISTAKE, format!("there is no conversion to `{ty}`")))
            }
            (_, Some(s)) => Ok(Val::Value(self.convert(v, s))),
        }
    }

    fn unit(&mut self, at: At, ty: Type, args: &'static [Expr]) -> Result<Val> {
        let Some(axis) = args.first() else {
            return Err(self.not_a_func(at, "unit"));
        };
        let axis = get!(self.value(axis));
        let (Type::Vector(s, n), Some(u)) = (ty, self.ty(axis).as_scalar()) else {
            return Err(self.not_a_func(at, "unit"));
        };
        self.at(at);
        let mut parts = Vec::new();
        for k in 0..n {
            let number = self.int(u, i128::from(k));
            let here = self.compare(CmpOp::Eq, axis, number);
            parts.push(self.convert(here, s));
        }
        Ok(Val::Value(self.op(Op::Compose(ty), &parts)))
    }

    /// A square matrix with these on the diagonal; one stands for all.
    fn diagonal(&mut self, at: At, ty: Type, parts: Vec<Value>) -> Result<Val> {
        let (Type::Matrix(s, rows, cols), false) = (ty, parts.is_empty()) else {
            return Err(self.fail(at, MISTAKE, format!("a `{ty}` has no diagonal")));
        };
        let zero = self.int(s, 0);
        let mut all = Vec::new();
        for r in 0..usize::from(rows) {
            for c in 0..usize::from(cols) {
                all.push(if r == c { parts[r % parts.len()] } else { zero });
            }
        }
        Ok(Val::Value(self.op(Op::Compose(ty), &all)))
    }

    /// A random value, with the same meaning as on the host.
    fn random(&mut self, ty: Type) -> Value {
        match ty {
            Type::Vector(s, n) => {
                let parts: Vec<Value> = (0..n).map(|_| self.random_scalar(s)).collect();
                self.op(Op::Compose(ty), &parts)
            }
            Type::Scalar(s) | Type::Matrix(s, _, _) => self.random_scalar(s),
            Type::Struct(_) => self.build().zero(ty),
        }
    }

    fn random_scalar(&mut self, s: Scalar) -> Value {
        let bits = self.op(Op::Random, &[]);
        // As many of the upper bits as the type holds exactly.
        let (drop, scale) = match s {
            Scalar::F16 => (53, Some(1.0 / 2048.0)),
            Scalar::F32 => (40, Some(1.0 / 16_777_216.0)),
            Scalar::F64 => (11, Some(1.0 / 9_007_199_254_740_992.0)),
            Scalar::Bool => (63, None),
            Scalar::I8
            | Scalar::I16
            | Scalar::I32
            | Scalar::I64
            | Scalar::U8
            | Scalar::U16
            | Scalar::U32
            | Scalar::U64 => (64 - s.bits(), None),
        };
        let upper = if drop == 0 {
            bits
        } else {
            let amount = self.int(Scalar::U64, i128::from(drop));
            self.binary(BinOp::Shr, bits, amount)
        };
        let value = self.convert(upper, s);
        match scale {
            Some(scale) => {
                let scale = self.float(s, scale);
                self.binary(BinOp::Mul, value, scale)
            }
            None => value,
        }
    }

    fn random_range(&mut self, lo: Value, hi: Value, ty: Type) -> Value {
        let s = ty.elem().unwrap_or(Scalar::F32);
        let distance = self.binary(BinOp::Sub, hi, lo);
        if s.is_float() {
            let t = self.random_scalar(s);
            let part = self.binary(BinOp::Mul, distance, t);
            return self.binary(BinOp::Add, lo, part);
        }
        let bits = self.op(Op::Random, &[]);
        let span = self.convert(distance, Scalar::U64);
        let part = self.binary(BinOp::Rem, bits, span);
        let part = self.convert(part, s);
        let inside = self.binary(BinOp::Add, lo, part);
        let empty = self.compare(CmpOp::Le, hi, lo);
        self.select(empty, lo, inside)
    }
}
