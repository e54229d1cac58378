//! Expressions and statements.

use super::MISTAKE;
use super::binding::{ArrayVal, Binding, Shape, Val};
use super::body::{Body, get};
use super::group::values_of;
use super::mentions::extreme;
use super::place::{PlaceRef, Spot};
use crate::element::tuple_type;
use crate::lang::ast::{At, Atomic, Binary, Expr, Kind, Node, Query, Unary};
use wuji_ir::Result;
use wuji_ir::entities::Value;
use wuji_ir::ops::{AtomicOp, BinOp, Op, Place, UnOp};
use wuji_ir::types::{Imm, Scalar, Type};

use super::binding::Data;

impl Body<'_, '_> {
    pub(super) fn expr(&mut self, e: &'static Expr) -> Result<Val> {
        self.deeper(e.at, |b| {
            b.at(e.at);
            b.expr_here(e)
        })
    }

    fn expr_here(&mut self, e: &'static Expr) -> Result<Val> {
        match &e.kind {
            Kind::Int(digits, ty) => {
                let ty = self.type_of(e.at, *ty)?;
                self.int_literal(e.at, digits, ty).map(Val::Value)
            }
            Kind::Float(digits, ty) => {
                let ty = self.type_of(e.at, *ty)?;
                self.float_literal(e.at, digits, ty).map(Val::Value)
            }
            Kind::Bool(value) => Ok(Val::Value(self.imm(Imm::bool(*value)))),
            Kind::Var(var) => self.read_var(e.at, *var),
            Kind::Const(number) => {
                let constant = self.constant_of(e.at, *number)?;
                let shape = self.cx.shape(&constant.ty);
                Ok(self.constant_val(&shape, &mut &constant.bits[..]))
            }
            Kind::Unary(op, a) => {
                let a = get!(self.value(a));
                self.at(e.at);
                Ok(Val::Value(match op {
                    Unary::Neg => self.negate(a),
                    Unary::Not => self.unary(UnOp::Not, a),
                }))
            }
            Kind::Binary(op, a, b) => {
                let (a, b) = (get!(self.value(a)), get!(self.value(b)));
                self.at(e.at);
                self.operator(e.at, *op, a, b).map(Val::Value)
            }
            Kind::OwnUnary(callee, op, a) => self.own_unary(e.at, *callee, *op, a),
            Kind::OwnBinary(callee, op, list) => self.own_binary(e.at, *callee, *op, list),
            Kind::OwnAssign(callee, op, list) => self.own_assign(e.at, *callee, *op, list),
            Kind::And(a, b) => self.short_circuit(e, a, b, true),
            Kind::Or(a, b) => self.short_circuit(e, a, b, false),
            Kind::Cast(a, ty) => {
                let a = get!(self.value(a));
                let ty = self.type_of(e.at, *ty)?;
                self.at(e.at);
                match ty.as_scalar() {
                    Some(to) if self.is_enum(self.ty(a)) => match self.discriminant(a, to) {
                        Some(v) => Ok(Val::Value(v)),
                        None => Err(self.fail(e.at, MISTAKE, "this has no discriminant")),
                    },
                    Some(to) => Ok(Val::Value(self.convert(a, to))),
                    None => Err(self.fail(e.at, MISTAKE, format!("a cast to `{ty}`"))),
                }
            }
            Kind::Tuple([]) => Ok(Val::Unit),
            Kind::Tuple(parts) => {
                let values = get!(self.values(parts));
                self.at(e.at);
                Ok(Val::Value(self.tuple(&values)))
            }
            Kind::Array(items) => {
                let mut vals = Vec::with_capacity(items.len());
                for item in *items {
                    match self.expr(item)? {
                        Val::Never => return Ok(Val::Never),
                        val => vals.push(val),
                    }
                }
                Ok(Val::Array(ArrayVal::Items(vals)))
            }
            Kind::Repeat(item, len) => {
                let item = match self.expr(item)? {
                    Val::Never => return Ok(Val::Never),
                    item => item,
                };
                let n = get!(self.value(len));
                match self.known(n).and_then(|n| usize::try_from(n).ok()) {
                    Some(n) => Ok(Val::Array(ArrayVal::Repeat(Box::new(item), n))),
                    None => Err(self.fail(e.at, MISTAKE, "the length of an array is a constant")),
                }
            }
            Kind::Struct(ty, name, fields, rest) => {
                self.struct_literal(e.at, *ty, name, fields, *rest)
            }
            Kind::Field(base, name) => self.read_field(e, base, name),
            Kind::Index(base, indices) => self.read_index(e, base, indices),
            Kind::Len(array) => match self.expr(array)? {
                Val::Array(array) => {
                    let n = self.array_len(&array);
                    Ok(Val::Value(self.int(Scalar::U64, n as i128)))
                }
                Val::Never => Ok(Val::Never),
                Val::Unit | Val::Value(_) => Err(self.fail(e.at, MISTAKE, "this is not an array")),
            },
            Kind::Call(callee, args) => self.call(e.at, *callee, args),
            Kind::Method(callee, name, args) => self.method_call(e.at, *callee, name, args),
            Kind::CallClosure(var, args) => self.call_closure(e.at, *var, args),
            Kind::Atomic(op, place, operands) => self.fetch(e.at, *op, place, operands),
            Kind::Existing(..) | Kind::Closure(..) => {
                Err(self.fail(e.at, MISTAKE, "this is not a value"))
            }
            Kind::Cell(op, var, indices, value) => self.cell(e.at, *op, *var, indices, *value),
            Kind::Query(query, var, _) => self.query(e.at, *query, *var),
            Kind::Block(block) => self.block(e.at, block),
            Kind::If(cond, then, other) => self.if_expr(e.at, cond, then, *other),
            Kind::Match(value, arms) => self.match_expr(e.at, value, arms),
            Kind::While(number, cond, body) => self.while_loop(e.at, *number, cond, body),
            Kind::Loop(number, body) => self.endless_loop(e.at, *number, body),
            Kind::For(f) => self.for_loop(e.at, f),
            Kind::Break(number, value) => self.break_expr(e.at, *number, *value),
            Kind::Continue(number) => self.continue_expr(e.at, *number),
            Kind::Return(value) => self.return_expr(e.at, *value),
            Kind::Try(value) => self.try_expr(e.at, value),
            Kind::Let(pat, None) => {
                if let crate::lang::ast::Pat::Var { var, .. } = pat {
                    self.set(*var, Binding::Empty);
                }
                Ok(Val::Unit)
            }
            Kind::Let(pat, Some(value)) => {
                let val = self.expr(value)?;
                if let Val::Never = val {
                    return Ok(Val::Never);
                }
                self.at(e.at);
                self.bind(e.at, pat, val)?;
                Ok(Val::Unit)
            }
            Kind::LetElse(pat, value, other) => self.let_else(e.at, pat, value, other),
            Kind::LetRef(var, place) => match self.lend(place)? {
                None => Ok(Val::Never),
                Some(binding) => {
                    self.set(*var, binding);
                    Ok(Val::Unit)
                }
            },
            Kind::LetData(var, data) => {
                let binding = self.named_binding(data)?;
                self.set(*var, binding);
                Ok(Val::Unit)
            }
            Kind::LetClosure(var, params, body) => {
                let closure = self.closure(params, body);
                self.set(*var, Binding::Closure(closure));
                Ok(Val::Unit)
            }
            Kind::Assign(place, value) => match extreme(place, value) {
                Some((op, v)) if self.is_shared(place) => self.assign_extreme(e.at, op, place, v),
                Some(_) | None => self.assign(e.at, place, value),
            },
            Kind::AssignOp(op, place, value) => self.assign_op(e.at, *op, place, value),
            Kind::AssignExtreme(op, place, value) => self.assign_extreme(e.at, *op, place, value),
            Kind::Print(text) => {
                let (message, args) = get!(self.text(e.at, text));
                self.at(e.at);
                self.push(Op::Print(message), &args);
                Ok(Val::Unit)
            }
            Kind::Assert(cond, text) => {
                let cond = get!(self.value(cond));
                let (message, mut args) = get!(self.text(e.at, text));
                args.insert(0, cond);
                self.at(e.at);
                self.push(Op::Assert(message), &args);
                Ok(Val::Unit)
            }
        }
    }

    pub(super) fn int_literal(&mut self, at: At, digits: &str, ty: Type) -> Result<Value> {
        // Rust allows literals up to 2^128 where its lint is switched off; they wrap.
        let value = digits.parse::<i128>().ok();
        let value = value.or_else(|| digits.parse::<u128>().ok().map(|v| v as i128));
        match (value, ty.as_scalar()) {
            (Some(value), Some(s)) => Ok(self.int(s, value)),
            _ => Err(self.fail(at, MISTAKE, format!("`{digits}` is not a valid `{ty}`"))),
        }
    }

    pub(super) fn float_literal(&mut self, at: At, digits: &str, ty: Type) -> Result<Value> {
        // Straight to the type, so that it is rounded once.
        let imm = match ty.as_scalar() {
            Some(Scalar::F32) => digits
                .parse::<f32>()
                .ok()
                .map(|x| Imm::from_bits(Scalar::F32, u64::from(x.to_bits()))),
            Some(s) if s.is_float() => digits.parse::<f64>().ok().map(|x| Imm::float(s, x)),
            _ => None,
        };
        match imm {
            Some(imm) => Ok(self.imm(imm)),
            None => Err(self.fail(at, MISTAKE, format!("`{digits}` is not a valid `{ty}`"))),
        }
    }

    fn read_var(&mut self, at: At, var: u32) -> Result<Val> {
        let binding = self.var(at, var)?;
        self.read_binding(at, binding, self.name(var))
    }

    pub(super) fn read_binding(&mut self, at: At, binding: Binding, name: &str) -> Result<Val> {
        match binding {
            Binding::Unit => Ok(Val::Unit),
            Binding::Value(v) => Ok(Val::Value(v)),
            Binding::Local(l, _) => Ok(Val::Value(self.build().load(Place::Local(l), &[]))),
            Binding::Temp(t, _) => Ok(Val::Value(self.build().load(Place::Temp(t), &[]))),
            Binding::Array(place) => Ok(Val::Array(ArrayVal::Stored(place))),
            Binding::Place(place) => Ok(Val::Value(self.load(&place))),
            Binding::Empty => Err(self.fail(at, MISTAKE, "this variable has no value yet")),
            Binding::Group(_) if values_of(&binding).is_some() => {
                Ok(values_of(&binding).unwrap_or(Val::Unit))
            }
            Binding::Data(_) | Binding::Group(_) | Binding::Closure(..) => {
                Err(self.fail(at, MISTAKE, format!("`{name}` is not a value")))
            }
        }
    }

    pub(super) fn tuple(&mut self, values: &[Value]) -> Value {
        let types: Vec<Type> = values.iter().map(|v| self.ty(*v)).collect();
        let ty = tuple_type(&mut self.cx.module.structs, &types);
        self.op(Op::Compose(ty), values)
    }

    fn struct_literal(
        &mut self,
        at: At,
        ty: u32,
        name: &str,
        fields: &'static [(&'static str, Expr)],
        rest: Option<Node>,
    ) -> Result<Val> {
        let ty = self.type_of(at, ty)?;
        if self.is_enum(ty) {
            let mut given = Vec::new();
            for (field, value) in fields {
                given.push((field.to_string(), get!(self.value(value))));
            }
            self.at(at);
            return self.build_variant(at, ty, name, &given).map(Val::Value);
        }
        let Type::Struct(id) = ty else {
            return Err(self.fail(at, MISTAKE, format!("`{ty}` is not a struct")));
        };
        let names: Vec<String> = self.cx.module.structs.0[id]
            .fields
            .iter()
            .map(|f| f.0.clone())
            .collect();
        // In the order they are written; then into the order they have.
        let mut given: Vec<Option<Value>> = vec![None; names.len()];
        for (name, value) in fields {
            let val = self.expr(value)?;
            let places = match (&val, names.iter().position(|n| n == name)) {
                (Val::Never, _) => return Ok(Val::Never),
                (_, Some(k)) => vec![k as u32],
                (_, None) => self.array_fields(ty, name).map_or(Vec::new(), |a| a.fields),
            };
            let mut values = Vec::new();
            match val {
                Val::Array(array) => self.flat_items(at, &array, &mut values)?,
                Val::Value(v) => values.push(v),
                Val::Unit | Val::Never => return Err(self.no_array(at)),
            }
            for (k, v) in places.into_iter().zip(values) {
                given[k as usize] = Some(v);
            }
        }
        let rest = match rest {
            Some(rest) => Some(get!(self.value(rest))),
            None => None,
        };
        self.at(at);
        let mut parts = Vec::new();
        for (k, v) in given.into_iter().enumerate() {
            match (v, rest) {
                (Some(v), _) => parts.push(v),
                (None, Some(rest)) => parts.push(self.extract(rest, k as u32)),
                (None, None) => {
                    return Err(self.fail(at, MISTAKE, format!("`{}` is missing", names[k])));
                }
            }
        }
        Ok(Val::Value(self.op(Op::Compose(ty), &parts)))
    }

    /// Whether the iterations of the parallel loop around share a variable.
    fn is_shared(&self, place: Node) -> bool {
        let binding = match place.kind {
            Kind::Var(var) => self.frame().vars.get(var as usize),
            _ => None,
        };
        self.parallel && matches!(binding, Some(Some(Binding::Temp(..))))
    }

    /// `place = place.max(value)`, at once.
    fn assign_extreme(&mut self, at: At, op: Atomic, place: Node, value: Node) -> Result<Val> {
        let v = get!(self.value(value));
        match self.spot(place)? {
            Spot::Place(p) => {
                self.at(at);
                self.update(at, op, &p, v)?;
                Ok(Val::Unit)
            }
            Spot::Never => Ok(Val::Never),
            Spot::Array(_) | Spot::Parts(_) | Spot::OneOf(..) | Spot::Empty(_) => {
                Err(self.no_array(at))
            }
        }
    }

    fn assign(&mut self, at: At, place: Node, value: Node) -> Result<Val> {
        let val = self.expr(value)?;
        if let Val::Never = val {
            return Ok(Val::Never);
        }
        self.assign_val(at, place, val)
    }

    fn assign_val(&mut self, at: At, place: Node, val: Val) -> Result<Val> {
        if let (Kind::Tuple(places), Val::Value(v)) = (&place.kind, &val) {
            for (k, place) in places.iter().enumerate() {
                let part = self.extract(*v, k as u32);
                self.assign_val(at, place, Val::Value(part))?;
            }
            return Ok(Val::Unit);
        }
        match (self.spot(place)?, val) {
            (Spot::Never, _) => return Ok(Val::Never),
            (Spot::Place(p), Val::Value(v)) => {
                self.at(at);
                self.store(&p, v);
            }
            (Spot::Array(to), Val::Array(array)) => {
                self.at(at);
                self.fill(at, &to, array)?;
            }
            (Spot::Parts(parts), Val::Array(array)) => {
                self.at(at);
                self.store_parts(at, &parts, &array)?;
            }
            (Spot::OneOf(parts, k), Val::Value(v)) => {
                self.at(at);
                self.store_one_of(&parts, k, v);
            }
            (Spot::Empty(var), Val::Value(v)) => {
                let binding = self.new_local(var, v);
                self.set(var, binding);
            }
            (Spot::Empty(var), Val::Array(array)) => {
                let name = self.name(var);
                let array = self.materialize(at, name, array)?;
                self.set(var, Binding::Array(array));
            }
            (_, Val::Unit) => {}
            _ => return Err(self.no_array(at)),
        }
        Ok(Val::Unit)
    }

    pub(super) fn assign_op(
        &mut self,
        at: At,
        op: Binary,
        place: Node,
        value: Node,
    ) -> Result<Val> {
        let v = get!(self.value(value));
        let p = match self.spot(place)? {
            Spot::Never => return Ok(Val::Never),
            Spot::Place(p) => p,
            Spot::OneOf(parts, k) if parts.iter().all(|p| matches!(p.place, Place::Local(_))) => {
                let old = self.load_one_of(&parts, k);
                let new = self.operator(at, op, old, v)?;
                self.store_one_of(&parts, k, new);
                return Ok(Val::Unit);
            }
            Spot::OneOf(..) => {
                let why = "an array in an element of a field is updated with a constant index only";
                return Err(self
                    .fail(at, "W0204", why)
                    .help("change a copy of the element, and store it"));
            }
            Spot::Array(_) | Spot::Parts(_) | Spot::Empty(_) => return Err(self.no_array(at)),
        };
        self.at(at);
        let shared = match p.place {
            _ if p.exclusive => false,
            Place::Field(_) | Place::Array(_) => true,
            Place::Temp(_) => self.parallel,
            Place::Local(l) => {
                // Others wait behind a barrier for what is not atomic.
                self.f.locals[l].shared
                    && !matches!(op, Binary::Div | Binary::Rem | Binary::Shl | Binary::Shr)
            }
        };
        if shared {
            let Some(op) = op.atomic() else {
                return Err(self.fail(at, MISTAKE, "this operator is not atomic"));
            };
            self.update(at, op, &p, v)?;
        } else {
            let old = self.load(&p);
            let new = self.operator(at, op, old, v)?;
            self.store(&p, new);
        }
        Ok(Val::Unit)
    }

    /// Changes a place that others may change too; gives the old value.
    fn update(&mut self, at: At, op: Atomic, p: &PlaceRef, v: Value) -> Result<Value> {
        let v = self.splat(v, p.ty);
        if self.ty(v) != p.ty {
            let (found, expected) = (self.ty(v), p.ty);
            return Err(self.fail(
                at,
                MISTAKE,
                format!("a `{expected}` cannot be updated with a `{found}` at once"),
            ));
        }
        let (op, v) = match op {
            Atomic::Add => (AtomicOp::Add, v),
            Atomic::Sub => (AtomicOp::Add, self.negate(v)),
            Atomic::Mul => (AtomicOp::Mul, v),
            Atomic::Min => (AtomicOp::Min, v),
            Atomic::Max => (AtomicOp::Max, v),
            Atomic::And => (AtomicOp::And, v),
            Atomic::Or => (AtomicOp::Or, v),
            Atomic::Xor => (AtomicOp::Xor, v),
            Atomic::Exchange => (AtomicOp::Exchange, v),
            Atomic::CompareExchange => {
                return Err(self.fail(at, MISTAKE, "this operator is not atomic"));
            }
        };
        for s in self.cx.module.structs.flatten(p.ty) {
            if let Err(why) = wuji_ir::infer::atomic(op, s) {
                return Err(self.fail(at, MISTAKE, why));
            }
        }
        Ok(self.atomic(op, p, v))
    }

    /// `x.at(i).fetch_add(v)`.
    fn fetch(&mut self, at: At, op: Atomic, place: Node, operands: &'static [Expr]) -> Result<Val> {
        let p = match self.spot(place)? {
            Spot::Never => return Ok(Val::Never),
            Spot::Place(p) => p,
            Spot::Array(_) | Spot::Parts(_) | Spot::OneOf(..) | Spot::Empty(_) => {
                return Err(self.no_array(at));
            }
        };
        let values = get!(self.values(operands));
        self.at(at);
        match (op, &values[..]) {
            (Atomic::CompareExchange, [expected, new]) => {
                Ok(Val::Value(self.compare_exchange(&p, *expected, *new)))
            }
            (op, [v]) => self.update(at, op, &p, *v).map(Val::Value),
            _ => Err(self.fail(at, MISTAKE, "wrong number of operands")),
        }
    }

    /// Minus a value; unsigned ones wrap.
    pub(super) fn negate(&mut self, v: Value) -> Value {
        let ty = self.ty(v);
        if ty.elem().is_some_and(Scalar::is_unsigned_int) {
            let zero = self.build().zero(ty);
            self.binary(BinOp::Sub, zero, v)
        } else {
            self.unary(UnOp::Neg, v)
        }
    }

    /// `x.shape()` and the like.
    fn query(&mut self, at: At, query: Query, var: u32) -> Result<Val> {
        let data = self.data(at, var)?;
        let name = self.name(var);
        match data {
            Data::World => Err(self.fail(at, MISTAKE, format!("`{name}` is not a field or array"))),
            Data::Field(f) => {
                let m = &self.cx.module;
                let domain = m.fields[f].domain(&m.trees);
                if query == Query::Len {
                    let len = domain.iter().fold(1u64, |n, d| n.saturating_mul(d.1));
                    return Ok(Val::Value(self.int(Scalar::U64, i128::from(len))));
                }
                let mut parts = Vec::new();
                for (lo, extent) in &domain {
                    let n = match query {
                        Query::Offset => i128::from(*lo),
                        Query::Shape | Query::Len => i128::from(*extent),
                    };
                    if i32::try_from(n).is_err() {
                        return Err(self
                            .fail(
                                at,
                                "W0227",
                                format!("`{name}` is too large for coordinates of type `i32`"),
                            )
                            .note("below `hash(..)` a field has every coordinate there is"));
                    }
                    parts.push(self.int(Scalar::I32, n));
                }
                self.vector_of(at, Scalar::I32, &parts)
            }
            Data::Array(a) => {
                let rank = self.cx.module.arrays[a].rank;
                let mut parts = Vec::new();
                for k in 0..rank {
                    parts.push(match query {
                        Query::Offset => self.int(Scalar::I64, 0),
                        Query::Shape | Query::Len => self.op(Op::ArrayExtent(a, k), &[]),
                    });
                }
                if query == Query::Len {
                    let mut len = self.int(Scalar::I64, 1);
                    for (k, p) in parts.into_iter().enumerate() {
                        len = if k == 0 {
                            p
                        } else {
                            self.binary(BinOp::Mul, len, p)
                        };
                    }
                    return Ok(Val::Value(self.convert(len, Scalar::U64)));
                }
                self.vector_of(at, Scalar::I64, &parts)
            }
        }
    }

    fn vector_of(&mut self, at: At, s: Scalar, parts: &[Value]) -> Result<Val> {
        match u16::try_from(parts.len()) {
            Ok(n) if n > 0 => Ok(Val::Value(self.op(Op::Compose(Type::Vector(s, n)), parts))),
            _ => Err(self
                .fail(at, "W0228", "something without axes has no shape")
                .help("it has one element, `x[[]]`")),
        }
    }

    /// The type of a callee's result.
    pub(super) fn shape_is_value(shape: &Shape) -> Option<Type> {
        match shape {
            Shape::Value(ty) => Some(*ty),
            Shape::Unit | Shape::Array(..) | Shape::Data => None,
        }
    }
}
