//! Elements and components: where they are, reading and writing them.

use super::MISTAKE;
use super::binding::{ArrayPlace, ArrayVal, Binding, Data, Val};
use super::body::{Body, get};
use super::struct_array::{ArrayFields, Parts};
use crate::lang::ast::{At, Expr, Kind};
use smallvec::SmallVec;
use wuji_ir::Result;
use wuji_ir::entities::Value;
use wuji_ir::ops::{Access, Activation, BinOp, Op, Place, Step};
use wuji_ir::types::{Scalar, Type};

/// A place with all that is needed to reach one component of it.
#[derive(Clone, Debug)]
pub(super) struct PlaceRef {
    pub(super) place: Place,
    indices: SmallVec<[Value; 4]>,
    path: SmallVec<[Step; 2]>,
    steps: SmallVec<[Value; 2]>,
    pub(super) ty: Type,
    /// The index of an element, where an access outside of the bounds is reported.
    at: Option<At>,
    /// Whether a write brings an element about that does not exist.
    activation: Activation,
    /// Behind `&mut`: no other iteration changes it at the same time.
    pub(super) exclusive: bool,
}

impl PlaceRef {
    fn new(place: Place, indices: SmallVec<[Value; 4]>, ty: Type) -> PlaceRef {
        PlaceRef {
            place,
            indices,
            path: SmallVec::new(),
            steps: SmallVec::new(),
            ty,
            at: None,
            activation: Activation::IfAbsent,
            exclusive: false,
        }
    }

    fn access(&self, mut access: Access) -> Access {
        access.path = self.path.clone();
        access
    }

    fn write(&self) -> Access {
        let mut access = self.access(Access::write(self.place));
        access.activation = self.activation;
        access
    }

    fn args(&self, rest: &[Value]) -> Vec<Value> {
        self.indices
            .iter()
            .chain(&self.steps)
            .chain(rest)
            .copied()
            .collect()
    }
}

/// What an expression on the left of an assignment stands for.
pub(super) enum Spot {
    Never,
    Place(PlaceRef),
    Array(ArrayPlace),
    /// An array in a struct.
    Parts(Parts),
    /// The element of such an array with a number that is known at run time only.
    OneOf(Vec<PlaceRef>, Value),
    /// A variable that has no type yet.
    Empty(u32),
}

impl Body<'_, '_> {
    pub(super) fn load(&mut self, p: &PlaceRef) -> Value {
        let access = p.access(Access::read(p.place));
        self.op(Op::Load(access), &p.args(&[]))
    }

    pub(super) fn store(&mut self, p: &PlaceRef, v: Value) {
        if let Place::Local(local) = p.place {
            self.snapshots.remove(&local);
        }
        self.at_index(p);
        let access = p.write();
        self.push(Op::Store(access), &p.args(&[v]));
    }

    pub(super) fn atomic(&mut self, op: wuji_ir::ops::AtomicOp, p: &PlaceRef, v: Value) -> Value {
        self.at_index(p);
        let access = p.write();
        self.op(Op::Atomic(op, access), &p.args(&[v]))
    }

    pub(super) fn compare_exchange(&mut self, p: &PlaceRef, expected: Value, new: Value) -> Value {
        self.at_index(p);
        let access = p.write();
        self.op(Op::CompareExchange(access), &p.args(&[expected, new]))
    }

    /// Moves to the index of an element.
    fn at_index(&mut self, p: &PlaceRef) {
        if let Some(at) = p.at {
            self.at(at);
        }
    }

    /// Whether an expression is a place, and not a value that is computed.
    pub(super) fn is_place(&self, e: &'static Expr) -> bool {
        match &e.kind {
            Kind::Var(var) => matches!(
                self.frame().vars.get(*var as usize),
                Some(Some(
                    Binding::Local(..)
                        | Binding::Temp(..)
                        | Binding::Array(_)
                        | Binding::Place(_)
                        | Binding::Empty
                ))
            ),
            Kind::Field(base, _) => self.is_place(base),
            Kind::Index(base, _) => self.is_data(base) || self.is_place(base),
            _ => false,
        }
    }

    fn is_data(&self, e: &'static Expr) -> bool {
        match e.kind {
            Kind::Var(var) => matches!(
                self.frame().vars.get(var as usize),
                Some(Some(Binding::Data(_)))
            ),
            _ => matches!(self.part_of_group(e), Some(Binding::Data(_))),
        }
    }

    /// Finds a place.
    pub(super) fn spot(&mut self, e: &'static Expr) -> Result<Spot> {
        match &e.kind {
            Kind::Var(var) => match self.var(e.at, *var)? {
                Binding::Local(l, ty) => Ok(Spot::Place(PlaceRef::new(
                    Place::Local(l),
                    SmallVec::new(),
                    ty,
                ))),
                Binding::Temp(t, ty) => Ok(Spot::Place(PlaceRef::new(
                    Place::Temp(t),
                    SmallVec::new(),
                    ty,
                ))),
                Binding::Array(place) => Ok(Spot::Array(place)),
                Binding::Place(place) => Ok(Spot::Place(place)),
                Binding::Empty => Ok(Spot::Empty(*var)),
                Binding::Unit
                | Binding::Value(_)
                | Binding::Data(_)
                | Binding::Group(_)
                | Binding::Closure(..) => Err(self.not_a_place(e.at)),
            },
            Kind::Field(base, name) => match self.spot(base)? {
                Spot::Place(p) => {
                    if let Some(ArrayFields { fields, dims }) = self.array_fields(p.ty, name) {
                        let places = fields.into_iter().map(|k| self.field_place(e.at, &p, k));
                        let places = places.collect::<Result<_>>()?;
                        let first = None;
                        return Ok(Spot::Parts(Parts {
                            places,
                            dims,
                            first,
                        }));
                    }
                    let k = self.component(e.at, p.ty, name)?;
                    self.field_place(e.at, &p, k).map(Spot::Place)
                }
                Spot::Never => Ok(Spot::Never),
                Spot::OneOf(parts, number) => {
                    let ty = parts.first().map(|p| p.ty);
                    if let Some(inner) = ty.and_then(|ty| self.array_fields(ty, name)) {
                        return self.array_of_one(e.at, &parts, number, &inner);
                    }
                    let fields = parts.iter().map(|p| {
                        let k = self.component(e.at, p.ty, name)?;
                        self.field_place(e.at, p, k)
                    });
                    Ok(Spot::OneOf(fields.collect::<Result<_>>()?, number))
                }
                Spot::Array(_) | Spot::Parts(_) | Spot::Empty(_) => Err(self.not_a_place(e.at)),
            },
            Kind::Index(base, indices) if self.is_data(base) => {
                let data = self.data_at(base)?;
                let (place, ty, rank) = match data {
                    Data::Field(f) => {
                        let field = &self.cx.module.fields[f];
                        (Place::Field(f), field.elem, field.rank())
                    }
                    Data::Array(a) => {
                        let array = &self.cx.module.arrays[a];
                        (Place::Array(a), array.elem, usize::from(array.rank))
                    }
                    Data::World => return Err(self.not_a_place(e.at)),
                };
                let Some(indices) = self.index_values(e.at, indices, rank)? else {
                    return Ok(Spot::Never);
                };
                self.at(e.at);
                let mut p = PlaceRef::new(place, indices, ty);
                p.at = Some(e.at);
                Ok(Spot::Place(p))
            }
            Kind::Existing(base, indices) => {
                let Data::Field(f) = self.data_at(base)? else {
                    return Err(self.not_a_place(e.at));
                };
                let field = &self.cx.module.fields[f];
                let (ty, rank) = (field.elem, field.rank());
                let Some(indices) = self.index_values(e.at, indices, rank)? else {
                    return Ok(Spot::Never);
                };
                self.at(e.at);
                let mut p = PlaceRef::new(Place::Field(f), indices, ty);
                p.at = Some(e.at);
                p.activation = Activation::Never;
                Ok(Spot::Place(p))
            }
            Kind::Index(base, indices) => match self.spot(base)? {
                Spot::Never => Ok(Spot::Never),
                Spot::Empty(_) => Err(self.not_a_place(e.at)),
                Spot::OneOf(parts, number) => {
                    let Some(values) = self.values(indices)? else {
                        return Ok(Spot::Never);
                    };
                    self.at(e.at);
                    let mut components = Vec::with_capacity(parts.len());
                    for part in parts {
                        components.push(self.component_place(e.at, part, &values)?);
                    }
                    Ok(Spot::OneOf(components, number))
                }
                Spot::Array(place) => self.array_element(e.at, place, indices),
                Spot::Parts(parts) => {
                    let Some(values) = self.values(indices)? else {
                        return Ok(Spot::Never);
                    };
                    self.at(e.at);
                    match values[..] {
                        [k] => self.part_of(e.at, parts, k),
                        _ => Err(self.not_a_place(e.at)),
                    }
                }
                Spot::Place(p) => {
                    let Some(values) = self.values(indices)? else {
                        return Ok(Spot::Never);
                    };
                    self.at(e.at);
                    self.component_place(e.at, p, &values).map(Spot::Place)
                }
            },
            _ => Err(self.not_a_place(e.at)),
        }
    }

    /// An array in the element of another array, with a number that is known at run time only.
    fn array_of_one(
        &mut self,
        at: At,
        parts: &[PlaceRef],
        number: Value,
        inner: &ArrayFields,
    ) -> Result<Spot> {
        let mut places = Vec::new();
        for p in parts {
            for k in &inner.fields {
                places.push(self.field_place(at, p, *k)?);
            }
        }
        let first = Some(self.row_number(None, number, inner.fields.len()));
        let dims = inner.dims.clone();
        Ok(Spot::Parts(Parts {
            places,
            dims,
            first,
        }))
    }

    /// A component of a vector or matrix in a place.
    fn component_place(&mut self, at: At, place: PlaceRef, indices: &[Value]) -> Result<PlaceRef> {
        let mut p = place;
        let step = self.component_number(at, p.ty, indices)?;
        match self.known(step) {
            Some(k) => p.path.push(Step::Const(k as u32)),
            None => {
                p.path.push(Step::Dynamic);
                p.steps.push(step);
            }
        }
        p.ty = self.component_type(at, p.ty, 0)?;
        Ok(p)
    }

    /// A field of a place.
    fn field_place(&self, at: At, place: &PlaceRef, k: u32) -> Result<PlaceRef> {
        let mut p = place.clone();
        p.path.push(Step::Const(k));
        p.ty = self.component_type(at, p.ty, k)?;
        Ok(p)
    }

    fn not_a_place(&self, at: At) -> wuji_ir::Error {
        self.fail(at, MISTAKE, "this cannot be assigned to")
    }

    /// An element, or a part with fewer dimensions, of a local array.
    fn array_element(
        &mut self,
        at: At,
        place: ArrayPlace,
        indices: &'static [Expr],
    ) -> Result<Spot> {
        let Some(values) = self.values(indices)? else {
            return Ok(Spot::Never);
        };
        self.at(at);
        let [k] = values[..] else {
            return Err(self.fail(at, MISTAKE, "an array takes one index at a time: `a[i][j]`"));
        };
        let n = place.dims[0];
        match self.known(k) {
            Some(k) if k < 0 || k >= i128::from(n) => {
                return Err(self.outside(at, k, n as usize));
            }
            Some(_) => {}
            // With more dimensions, a bad index could still fall on some other element.
            None if place.dims.len() > 1 || place.base.is_some() => {
                self.push(Op::CheckIndex(n), &[k]);
            }
            None => {}
        }
        let (part, index) = self.part_at(&place, k);
        if part.dims.is_empty() {
            let indices = [index].into_iter().collect();
            let p = PlaceRef::new(Place::Local(part.local), indices, part.elem);
            Ok(Spot::Place(p))
        } else {
            Ok(Spot::Array(part))
        }
    }

    /// One integer per axis, from as many expressions or from one index vector.
    pub(super) fn index_values(
        &mut self,
        at: At,
        indices: &'static [Expr],
        rank: usize,
    ) -> Result<Option<SmallVec<[Value; 4]>>> {
        let mut values: SmallVec<[Value; 4]> = SmallVec::new();
        for e in indices {
            match self.expr(e)? {
                Val::Never => return Ok(None),
                Val::Unit => {}
                Val::Array(array) => {
                    for item in self.array_items(e.at, &array)? {
                        if let Val::Value(v) = item {
                            values.push(v);
                        }
                    }
                }
                Val::Value(v) => match self.ty(v) {
                    Type::Vector(_, n) => {
                        for k in 0..u32::from(n) {
                            values.push(self.extract(v, k));
                        }
                    }
                    _ => values.push(v),
                },
            }
        }
        if values.len() != rank {
            let found = values.len();
            return Err(self.fail(
                at,
                MISTAKE,
                format!("{rank} indices are needed, not {found}"),
            ));
        }
        Ok(Some(values))
    }

    /// The number of a field or component with this name.
    pub(super) fn component(&self, at: At, ty: Type, name: &str) -> Result<u32> {
        let found = match ty {
            Type::Vector(_, n) => ["x", "y", "z", "w"]
                .iter()
                .position(|c| *c == name)
                .filter(|k| *k < usize::from(n)),
            Type::Struct(id) => {
                let fields = &self.cx.module.structs.0[id].fields;
                fields.iter().position(|f| f.0 == name)
            }
            Type::Scalar(_) | Type::Matrix(..) => None,
        };
        found
            .map(|k| k as u32)
            .ok_or_else(|| self.fail(at, MISTAKE, format!("there is no `{name}` in a `{ty}`")))
    }

    fn component_type(&self, at: At, ty: Type, k: u32) -> Result<Type> {
        let found = self.cx.module.structs.component(ty, k);
        found.ok_or_else(|| self.fail(at, MISTAKE, format!("a `{ty}` has no components")))
    }

    /// The number of a component of a vector or matrix. A constant one is inside.
    fn component_number(&mut self, at: At, ty: Type, indices: &[Value]) -> Result<Value> {
        match (ty, indices) {
            (Type::Vector(_, n), [k]) => {
                self.inside_of(at, *k, u32::from(n))?;
                Ok(*k)
            }
            (Type::Matrix(_, rows, cols), [r, c]) => {
                let inside = [
                    self.inside_of(at, *r, u32::from(rows))?,
                    self.inside_of(at, *c, u32::from(cols))?,
                ];
                if inside != [true, true] {
                    // A bad row or column could still fall on some component.
                    self.push(Op::CheckIndex(u32::from(rows)), &[*r]);
                    self.push(Op::CheckIndex(u32::from(cols)), &[*c]);
                }
                let (r, c) = (self.convert(*r, Scalar::I64), self.convert(*c, Scalar::I64));
                let width = self.int(Scalar::I64, i128::from(cols));
                let row = self.binary(BinOp::Mul, r, width);
                Ok(self.binary(BinOp::Add, row, c))
            }
            _ => Err(self.fail(at, MISTAKE, format!("a `{ty}` is not indexed like this"))),
        }
    }

    /// Whether a constant index is inside of `n` components; an error when it is outside.
    fn inside_of(&self, at: At, k: Value, n: u32) -> Result<bool> {
        match self.known(k) {
            Some(k) if k < 0 || k >= i128::from(n) => Err(self.outside(at, k, n as usize)),
            Some(_) => Ok(true),
            None => Ok(false),
        }
    }

    /// `a.b` that is read.
    pub(super) fn read_field(
        &mut self,
        e: &'static Expr,
        base: &'static Expr,
        name: &str,
    ) -> Result<Val> {
        if let Some(binding) = self.in_group(e)? {
            return self.read_binding(e.at, binding, name);
        }
        if self.is_place(base) {
            return self.read_place(e);
        }
        let v = get!(self.value(base));
        self.at(e.at);
        self.struct_field(e.at, v, name)
    }

    fn read_place(&mut self, e: &'static Expr) -> Result<Val> {
        match self.spot(e)? {
            Spot::Never => Ok(Val::Never),
            Spot::Place(p) => Ok(Val::Value(self.load(&p))),
            Spot::Array(place) => Ok(Val::Array(ArrayVal::Stored(place))),
            Spot::Parts(parts) => Ok(self.load_parts(&parts)),
            Spot::OneOf(parts, k) => Ok(Val::Value(self.load_one_of(&parts, k))),
            Spot::Empty(_) => Err(self.fail(e.at, MISTAKE, "this variable has no value yet")),
        }
    }

    /// `a[i]` that is read.
    pub(super) fn read_index(
        &mut self,
        e: &'static Expr,
        base: &'static Expr,
        indices: &'static [Expr],
    ) -> Result<Val> {
        if let Some(binding) = self.in_group(e)? {
            return self.read_binding(e.at, binding, "a member of a bundle");
        }
        if self.is_data(base) || self.is_place(base) {
            return self.read_place(e);
        }
        let val = self.expr(base)?;
        let v = match val {
            Val::Never => return Ok(Val::Never),
            Val::Unit => return Err(self.not_a_place(e.at)),
            Val::Array(array) => return self.index_array(e, array, indices),
            Val::Value(v) => v,
        };
        let values = get!(self.values(indices));
        self.at(e.at);
        let ty = self.ty(v);
        let k = self.component_number(e.at, ty, &values)?;
        match (self.known(k), ty) {
            (Some(k), _) => Ok(Val::Value(self.extract(v, k as u32))),
            (None, Type::Vector(_, n)) => {
                self.push(Op::CheckIndex(u32::from(n)), &[k]);
                Ok(Val::Value(self.op(Op::ExtractDyn, &[v, k])))
            }
            (None, _) => Ok(Val::Value(self.op(Op::ExtractDyn, &[v, k]))),
        }
    }

    /// An element of an array that is in no variable, as of a constant one.
    fn index_array(
        &mut self,
        e: &'static Expr,
        array: ArrayVal,
        indices: &'static [Expr],
    ) -> Result<Val> {
        let values = get!(self.values(indices));
        let [k] = values[..] else {
            return Err(self.fail(
                e.at,
                MISTAKE,
                "an array takes one index at a time: `a[i][j]`",
            ));
        };
        if let Some(k) = self.known(k) {
            let n = self.array_len(&array);
            return match usize::try_from(k) {
                Ok(k) if k < n => self.array_item(e.at, &array, k),
                _ => Err(self.outside(e.at, k, n)),
            };
        }
        let place = self.materialize(e.at, "table", array)?;
        let n = place.dims[0];
        self.at(e.at);
        self.push(Op::CheckIndex(n), &[k]);
        let (part, index) = self.part_at(&place, k);
        if part.dims.is_empty() {
            Ok(Val::Value(
                self.build().load(Place::Local(part.local), &[index]),
            ))
        } else {
            Ok(Val::Array(ArrayVal::Stored(part)))
        }
    }
}
