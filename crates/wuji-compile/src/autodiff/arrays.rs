//! Turns local arrays into vectors, which are values like any other.
//!
//! An array of scalars is one vector, an array of vectors or matrices one vector of all their components, and an array
//! of structs one vector for each of these among the fields. A load is `extract`, a store `insert`. So an access out of
//! range gives zero or does nothing, but it is not reported: the kernel itself has done that.

use crate::passes::promote::promote_function;
use crate::rewrite::Substitution;
use rustc_hash::FxHashMap;
use wuji_ir::build::Builder;
use wuji_ir::entities::*;
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{Imm, Scalar, Type};
use wuji_ir::{Error, Position, Result};

/// The most components of a vector.
const MAX_COMPONENTS: u64 = u16::MAX as u64;

/// Removes local arrays from a function. Shared arrays stay.
pub(super) fn arrays_to_values(env: &mut Env, f: &mut Function) -> Result<()> {
    if !f.locals.values().any(is_own_array) {
        return Ok(());
    }
    // Arrays with constant indices become variables, and atomics loads and stores.
    promote_function(env, f)?;
    let arrays = vectors(env, f)?;
    if arrays.is_empty() {
        return Ok(());
    }
    let entry = f.entry;
    let mut rewriter = Rewriter {
        b: Builder::new(env, f),
        arrays,
        substitution: Substitution::new(),
    };
    rewriter.region(entry);
    promote_function(env, f)
}

fn is_own_array(local: &LocalData) -> bool {
    local.len.is_some() && !local.shared
}

/// A local array that has become vectors.
struct Vectors {
    elem: Type,
    len: u32,
    /// One for each scalar, vector or matrix of an element, depth first.
    parts: Vec<Part>,
}

#[derive(Copy, Clone)]
struct Part {
    variable: Local,
    /// Of one element.
    components: u32,
    /// Of all elements.
    all: u32,
}

/// Adds the variables that take the place of arrays.
fn vectors(env: &Env, f: &mut Function) -> Result<FxHashMap<Local, Vectors>> {
    let mut arrays = FxHashMap::default();
    for local in f.locals.keys().collect::<Vec<_>>() {
        let data = f.locals[local].clone();
        let Some(len) = data.len.filter(|_| is_own_array(&data)) else {
            continue;
        };
        let mut parts = Vec::new();
        for ty in leaves(env, data.ty) {
            let components = ty.lanes().unwrap_or(1);
            let all = u64::from(len) * u64::from(components);
            let (Some(s), true) = (ty.elem(), all <= MAX_COMPONENTS) else {
                return Err(too_large(env, f, local, all));
            };
            let variable = f.locals.push(LocalData {
                name: data.name.clone(),
                ty: Type::Vector(s, all.max(1) as u16),
                len: None,
                shared: false,
                role: data.role,
            });
            parts.push(Part {
                variable,
                components,
                all: all as u32,
            });
        }
        // The array itself is an unused variable from now on.
        f.locals[local].len = None;
        let elem = data.ty;
        arrays.insert(local, Vectors { elem, len, parts });
    }
    Ok(arrays)
}

/// The scalars, vectors and matrices of a type, depth first.
fn leaves(env: &Env, ty: Type) -> Vec<Type> {
    if !matches!(ty, Type::Struct(_)) {
        return vec![ty];
    }
    let fields = (0..env.structs.arity(ty)).filter_map(|k| env.structs.component(ty, k));
    fields.flat_map(|t| leaves(env, t)).collect()
}

fn too_large(env: &Env, f: &Function, local: Local, numbers: u64) -> Error {
    let mut uses = f.insts_in(f.entry).filter(|i| {
        let place = f.insts[*i].op.access().map(|a| a.place);
        place == Some(Place::Local(local))
    });
    let span = uses.next().map_or(Span::UNKNOWN, |i| f.spans[i]);
    let name = &f.locals[local].name;
    Error::new(
        "W0710",
        format!("the local array `{name}` is too large to be differentiated"),
    )
    .at(Position::of(env, span))
    .note(format!(
        "it has {numbers} numbers of one kind, and at most {MAX_COMPONENTS} are supported"
    ))
    .help("use a field instead, or a smaller array")
}

/// A component of an element.
#[derive(Copy, Clone)]
enum Component {
    Known(u32),
    Given(Value),
}

/// An element of an array.
#[derive(Copy, Clone)]
enum Index {
    Known(u32),
    /// May be outside, unless it is known not to be.
    Given(Value, Guard),
    Outside,
}

/// The part of an array that an access is about.
struct Spot<'a> {
    index: Index,
    array: &'a Vectors,
    ty: Type,
    /// The first of its parts.
    part: usize,
    component: Option<Component>,
}

struct Rewriter<'a> {
    b: Builder<'a>,
    arrays: FxHashMap<Local, Vectors>,
    substitution: Substitution,
}

impl Rewriter<'_> {
    fn region(&mut self, region: Region) {
        let insts = std::mem::take(&mut self.b.func.regions[region].insts);
        let outer = std::mem::replace(&mut self.b.region, region);
        for inst in insts {
            self.substitution.apply_to_inst(self.b.func, inst);
            self.b.span = self.b.func.spans[inst];
            self.inst(inst);
        }
        self.substitution.apply_to_term(self.b.func, region);
        self.b.region = outer;
    }

    fn inst(&mut self, inst: Inst) {
        let InstData {
            op, args, regions, ..
        } = self.b.func.insts[inst].clone();
        let arrays = std::mem::take(&mut self.arrays);
        let array = match op.access().map(|a| a.place) {
            Some(Place::Local(local)) => arrays.get(&local),
            Some(Place::Field(_) | Place::Array(_) | Place::Temp(_)) | None => None,
        };
        let done = if let (Some(array), Some(access)) = (array, op.access()) {
            self.access(inst, array, access, &args);
            true
        } else {
            self.fill(inst, &arrays)
        };
        self.arrays = arrays;
        if !done {
            self.b.func.regions[self.b.region].insts.push(inst);
            for region in regions {
                self.region(region);
            }
        }
    }

    fn access(&mut self, inst: Inst, array: &Vectors, access: &Access, args: &[Value]) {
        let spot = self.spot(array, access, args);
        match self.b.func.insts[inst].results.first().copied() {
            Some(result) => {
                let value = self.get(&spot, spot.ty, spot.part);
                self.substitution.set(result, value);
            }
            None => {
                if let Some(value) = args.last() {
                    self.put(&spot, spot.ty, spot.part, *value);
                }
            }
        }
    }

    fn spot<'v>(&self, array: &'v Vectors, access: &Access, args: &[Value]) -> Spot<'v> {
        let known = self.b.func.constant(args[0]).and_then(Imm::as_int);
        let index = match known {
            Some(i) if (0..i128::from(array.len)).contains(&i) => Index::Known(i as u32),
            Some(_) => Index::Outside,
            None => Index::Given(args[0], access.guard),
        };
        let mut spot = Spot {
            index,
            array,
            ty: array.elem,
            part: 0,
            component: None,
        };
        let mut given = args[1..].iter();
        let structs = &self.b.env.structs;
        for step in &access.path {
            let at = match step {
                Step::Const(k) => Component::Known(*k),
                Step::Dynamic => given
                    .next()
                    .map_or(Component::Known(0), |v| Component::Given(*v)),
            };
            if let (Type::Struct(_), Component::Known(k)) = (spot.ty, at) {
                for before in (0..k).filter_map(|k| structs.component(spot.ty, k)) {
                    spot.part += leaves(self.b.env, before).len();
                }
                spot.ty = structs.component(spot.ty, k).unwrap_or(spot.ty);
            } else {
                spot.ty = structs.component(spot.ty, 0).unwrap_or(spot.ty);
                spot.component = Some(at);
            }
        }
        spot
    }

    /// The value at a spot, or of a field inside it.
    fn get(&mut self, spot: &Spot, ty: Type, part: usize) -> Value {
        if let Index::Outside = spot.index {
            return self.b.zero(ty);
        }
        if let Type::Struct(_) = ty {
            let mut part = part;
            let fields: Values = self
                .fields(ty)
                .into_iter()
                .map(|t| {
                    let value = self.get(spot, t, part);
                    part += leaves(self.b.env, t).len();
                    value
                })
                .collect();
            return self.b.value(Op::Compose(ty), &fields);
        }
        let part = spot.array.parts[part];
        if let (Some(n), None) = (ty.lanes(), spot.component)
            && ty.as_scalar().is_none()
        {
            let base = self.base(spot, part);
            let values: Values = (0..n)
                .map(|k| self.read(part, base, Component::Known(k)))
                .collect();
            return self.b.value(Op::Compose(ty), &values);
        }
        let base = self.base(spot, part);
        self.read(part, base, spot.component.unwrap_or(Component::Known(0)))
    }

    fn put(&mut self, spot: &Spot, ty: Type, part: usize, value: Value) {
        if let Index::Outside = spot.index {
            return;
        }
        if let Type::Struct(_) = ty {
            let mut part = part;
            for (k, t) in self.fields(ty).into_iter().enumerate() {
                let field = self.b.value(Op::Extract(k as u32), &[value]);
                self.put(spot, t, part, field);
                part += leaves(self.b.env, t).len();
            }
            return;
        }
        let part = spot.array.parts[part];
        let base = self.base(spot, part);
        if ty.as_scalar().is_some() {
            let component = spot.component.unwrap_or(Component::Known(0));
            return self.write(part, base, component, value);
        }
        for k in 0..ty.lanes().unwrap_or(0) {
            let x = self.b.value(Op::Extract(k), &[value]);
            self.write(part, base, Component::Known(k), x);
        }
    }

    fn fields(&self, ty: Type) -> Vec<Type> {
        let structs = &self.b.env.structs;
        (0..structs.arity(ty))
            .filter_map(|k| structs.component(ty, k))
            .collect()
    }

    /// The number of the first component of an element; as large as the vector if the element is outside.
    fn base(&mut self, spot: &Spot, part: Part) -> Component {
        match spot.index {
            Index::Known(i) => Component::Known(i * part.components),
            Index::Outside => Component::Known(part.all),
            Index::Given(i, _) if part.components == 1 => Component::Given(i),
            Index::Given(i, guard) => {
                let wide = self.b.convert(i, Scalar::I64);
                let size = self.b.i64(part.components.into());
                let first = self.b.binary(BinOp::Mul, wide, size);
                Component::Given(match guard {
                    Guard::InBounds => first,
                    Guard::Checked | Guard::Silent => {
                        self.within(wide, spot.array.len, first, part)
                    }
                })
            }
        }
    }

    /// `value` if a number is less than `len`, and otherwise a component that the vector does not have.
    fn within(&mut self, number: Value, len: u32, value: Value, part: Part) -> Value {
        let (zero, len) = (self.b.i64(0), self.b.i64(len.into()));
        let low = self.b.compare(CmpOp::Ge, number, zero);
        let high = self.b.compare(CmpOp::Lt, number, len);
        let inside = self.b.binary(BinOp::And, low, high);
        let outside = self.b.i64(part.all.into());
        self.b.select(inside, value, outside)
    }

    /// The number of a component of the vector.
    fn number(&mut self, part: Part, base: Component, component: Component) -> Component {
        match (base, component) {
            (Component::Known(base), Component::Known(k)) => Component::Known(base + k),
            (Component::Given(_), Component::Known(0)) => base,
            (Component::Given(base), Component::Known(k)) => {
                let k = self.b.i64(k.into());
                Component::Given(self.b.binary(BinOp::Add, base, k))
            }
            (base, Component::Given(k)) => {
                let k = self.b.convert(k, Scalar::I64);
                let base = match base {
                    Component::Known(base) => self.b.i64(base.into()),
                    Component::Given(base) => self.b.convert(base, Scalar::I64),
                };
                let sum = self.b.binary(BinOp::Add, base, k);
                Component::Given(self.within(k, part.components, sum, part))
            }
        }
    }

    /// The access of one component of a vector, and its argument.
    fn component(&mut self, part: Part, base: Component, component: Component) -> (Access, Values) {
        let (step, given) = match self.number(part, base, component) {
            Component::Known(k) => (Step::Const(k), None),
            Component::Given(v) => (Step::Dynamic, Some(v)),
        };
        let access = Access {
            path: [step].into_iter().collect(),
            ..Access::read(Place::Local(part.variable))
        };
        (access, given.into_iter().collect())
    }

    fn read(&mut self, part: Part, base: Component, component: Component) -> Value {
        let (access, args) = self.component(part, base, component);
        self.b.value(Op::Load(access), &args)
    }

    fn write(&mut self, part: Part, base: Component, component: Component, value: Value) {
        let (access, mut args) = self.component(part, base, component);
        let access = Access {
            activation: Activation::IfAbsent,
            ..access
        };
        args.push(value);
        self.b.push(Op::Store(access), &args);
    }

    /// A loop that stores the same scalar to all elements is one store. Inlining makes such loops, because the locals of
    /// a function are zero whenever it is called.
    fn fill(&mut self, inst: Inst, arrays: &FxHashMap<Local, Vectors>) -> bool {
        let Some((array, value)) = self.is_fill(inst, arrays) else {
            return false;
        };
        let part = array.parts[0];
        let ty = self.b.func.locals[part.variable].ty;
        let whole = self.b.value(Op::Splat(ty), &[value]);
        self.b.store(Place::Local(part.variable), &[], whole);
        true
    }

    fn is_fill<'v>(
        &self,
        inst: Inst,
        arrays: &'v FxHashMap<Local, Vectors>,
    ) -> Option<(&'v Vectors, Value)> {
        let f = &*self.b.func;
        let data = &f.insts[inst];
        let Op::For(..) = data.op else { return None };
        let body = &f.regions[data.regions[0]];
        let [store] = body.insts[..] else { return None };
        let Op::Store(access) = &f.insts[store].op else {
            return None;
        };
        let Place::Local(local) = access.place else {
            return None;
        };
        let array = arrays.get(&local)?;
        let [index, value] = f.insts[store].args[..] else {
            return None;
        };
        let range = [0, 1, 2].map(|k| f.constant(data.args[k]).and_then(Imm::as_int));
        let all = range == [Some(0), Some(i128::from(array.len)), Some(1)];
        let scalar = array.elem.as_scalar().is_some() && access.path.is_empty();
        let plain = data.args.len() == 3 && index == body.params[0] && value != index;
        (all && scalar && plain && array.len > 0).then_some((array, self.substitution.get(value)))
    }
}
