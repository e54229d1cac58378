//! Shared code of the builder's methods: lookup of ids and names, and appending of instructions.

use super::frame::{Frame, Owner};
use super::{Builder, Invalid};
use crate::convert::parse_type;
use crate::error::raised;
use crate::program::{Argument, passing};
use pyo3::prelude::*;
use smallvec::SmallVec;
use wuji::{Error, Position};
use wuji_ir::entities::{Array, Field, Func, Inst, Label, Local, Message, Value};
use wuji_ir::format::Format;
use wuji_ir::module::{MessageData, Module, Piece, Term, Values};
use wuji_ir::ops::{Access, Activation, Domain, Guard, Op, Place, Step};
use wuji_ir::types::{Scalar, Type};

/// A piece of a message: text, or a placeholder with a type and a number of decimals.
#[derive(FromPyObject)]
pub(super) enum PieceLike {
    Text(String),
    Hole(String, Option<u8>),
}

/// A step into an element: a constant component, or a value.
#[derive(FromPyObject)]
pub(super) enum StepLike {
    Const(u32),
    Dynamic((u32,)),
}

/// The domain of a parallel loop.
#[derive(FromPyObject)]
pub(super) enum DomainLike {
    Field(u32),
    Bounds(Vec<(u32, u32)>),
}

/// The base of an access: its kind and number.
pub(super) type PlaceLike = (String, u32);

impl Builder {
    /// An error at the instruction being built.
    pub(super) fn invalid(&self, what: impl std::fmt::Display) -> PyErr {
        let what = format!("the frontend built an invalid kernel: {what}");
        let error = Error::new("W0290", what).at(Position::of(&self.m, self.span));
        raised(&error)
    }

    pub(super) fn checked<T>(&self, result: Result<T, Invalid>) -> PyResult<T> {
        result.map_err(|Invalid(what)| self.invalid(what))
    }

    pub(super) fn ensure_open(&self) -> PyResult<()> {
        if self.finished {
            Err(self.invalid("the kernel is already finished"))
        } else {
            Ok(())
        }
    }

    pub(super) fn frame(&self) -> PyResult<&Frame> {
        self.ensure_open()?;
        self.frames
            .last()
            .ok_or_else(|| self.invalid("no function is open"))
    }

    /// Works on the innermost function.
    pub(super) fn with<T>(
        &mut self,
        work: impl FnOnce(&mut Frame, &Module) -> Result<T, Invalid>,
    ) -> PyResult<T> {
        self.ensure_open()?;
        let result = match self.frames.last_mut() {
            Some(frame) => work(frame, &self.m),
            None => Err(Invalid("no function is open".into())),
        };
        self.checked(result)
    }

    pub(super) fn values(&self, numbers: &[u32]) -> PyResult<Values> {
        let frame = self.frame()?;
        let values = numbers.iter().map(|n| frame.value(*n));
        self.checked(values.collect::<Result<Values, Invalid>>())
    }

    pub(super) fn ty(&self, text: &str) -> PyResult<Type> {
        match parse_type(text) {
            Some(Type::Struct(id)) if !self.m.structs.0.is_valid(id) => {
                Err(self.invalid(format!("unknown struct `{text}`")))
            }
            Some(ty) => Ok(ty),
            None => Err(self.invalid(format!("`{text}` is not a type"))),
        }
    }

    pub(super) fn scalar(&self, text: &str) -> PyResult<Scalar> {
        Scalar::from_name(text)
            .ok_or_else(|| self.invalid(format!("`{text}` is not a scalar type")))
    }

    pub(super) fn push(&mut self, op: Op, args: &[u32]) -> PyResult<Inst> {
        let args = self.values(args)?;
        self.push_values(op, &args)
    }

    pub(super) fn push_values(&mut self, op: Op, args: &[Value]) -> PyResult<Inst> {
        let span = self.span;
        self.with(|frame, m| frame.push(m, span, op, args))
    }

    /// Appends an instruction with one result.
    pub(super) fn one(&mut self, op: Op, args: &[u32]) -> PyResult<u32> {
        let inst = self.push(op, args)?;
        self.result_of(inst)
    }

    pub(super) fn result_of(&self, inst: Inst) -> PyResult<u32> {
        match self.frame()?.func.insts[inst].results[..] {
            [value] => Ok(value.as_u32()),
            _ => Err(self.invalid("an instruction has no result")),
        }
    }

    /// Looks up an operation by name.
    pub(super) fn op<T>(&self, kind: &str, name: &str, found: Option<T>) -> PyResult<T> {
        found.ok_or_else(|| self.invalid(format!("unknown {kind} `{name}`")))
    }

    /// An id, if the module or function has it.
    fn known<T>(&self, what: &str, number: u32, id: T, valid: bool) -> PyResult<T> {
        if valid {
            Ok(id)
        } else {
            Err(self.invalid(format!("unknown {what} {number}")))
        }
    }

    pub(super) fn field(&self, number: u32) -> PyResult<Field> {
        let field = Field::from_u32(number);
        self.known("field", number, field, self.m.fields.is_valid(field))
    }

    pub(super) fn array_id(&self, number: u32) -> PyResult<Array> {
        let array = Array::from_u32(number);
        self.known("array", number, array, self.m.arrays.is_valid(array))
    }

    pub(super) fn function(&self, number: u32) -> PyResult<Func> {
        let func = Func::from_u32(number);
        self.known("function", number, func, self.m.funcs.is_valid(func))
    }

    pub(super) fn place(&self, (kind, number): &PlaceLike) -> PyResult<Place> {
        let number = *number;
        match kind.as_str() {
            "f" => self.field(number).map(Place::Field),
            "a" => self.array_id(number).map(Place::Array),
            "l" => {
                let local = Local::from_u32(number);
                let frame = self.frame()?;
                let valid = frame.func.locals.is_valid(local);
                self.known("local", number, frame.variable(local), valid)
            }
            other => Err(self.invalid(format!("unknown kind of access base `{other}`"))),
        }
    }

    /// Builds an access and its arguments, operands excluded.
    pub(super) fn access(
        &self,
        place: &PlaceLike,
        indices: &[u32],
        path: &[StepLike],
        activation: Activation,
    ) -> PyResult<(Access, SmallVec<[u32; 8]>)> {
        let mut args: SmallVec<[u32; 8]> = indices.into();
        let mut steps = SmallVec::new();
        for step in path {
            match step {
                StepLike::Const(k) => steps.push(Step::Const(*k)),
                StepLike::Dynamic((value,)) => {
                    steps.push(Step::Dynamic);
                    args.push(*value);
                }
            }
        }
        let place = self.place(place)?;
        let (_, rank) = self.m.place_elem(&self.frame()?.func, place);
        if indices.len() != rank {
            let n = indices.len();
            return Err(self.invalid(format!("an access needs {rank} indices, found {n}")));
        }
        let access = Access {
            place,
            path: steps,
            activation,
            guard: Guard::Checked,
        };
        Ok((access, args))
    }

    pub(super) fn message(&mut self, pieces: Vec<PieceLike>) -> PyResult<Message> {
        let mut all = Vec::new();
        for piece in pieces {
            all.push(match piece {
                PieceLike::Text(text) => Piece::Text(text),
                PieceLike::Hole(ty, precision) => Piece::Hole {
                    ty: self.ty(&ty)?,
                    format: Format::with_precision(precision),
                },
            });
        }
        Ok(self.m.messages.push(MessageData { pieces: all }))
    }

    /// Appends an instruction and opens its region.
    pub(super) fn begin(
        &mut self,
        op: Op,
        args: &[u32],
        owner: fn(Inst) -> Owner,
        params: &[Type],
    ) -> PyResult<Values> {
        let label = op.label();
        let inst = self.push(op, args)?;
        self.with(|frame, _| frame.enter(inst, owner(inst), label, params))
    }

    /// Closes the innermost region. Marks the code after it as unreachable if control cannot get there.
    pub(super) fn end_region(
        &mut self,
        what: &str,
        fits: impl FnOnce(Owner) -> bool,
    ) -> PyResult<()> {
        let span = self.span;
        self.with(|frame, _| {
            let (_, falls) = frame.leave(fits, what, span)?;
            if falls {
                Ok(())
            } else {
                frame.unreachable(span)
            }
        })
    }

    pub(super) fn jump(&mut self, term: Term) -> PyResult<()> {
        let span = self.span;
        self.with(|frame, _| frame.end(term, span))
    }

    pub(super) fn fresh_label(&mut self) -> PyResult<Label> {
        self.with(|frame, _| Ok(frame.func.fresh_label()))
    }

    /// Returns a copy of the unfinished module, for printing.
    pub(super) fn printed(&self) -> Module {
        let mut m = self.m.clone();
        for (k, frame) in self.frames.iter().enumerate() {
            match (k, frame.target) {
                (0, None) => m.kernel = Some(m.add_func(frame.func.clone())),
                (_, Some(func)) => m.funcs[func] = frame.func.clone(),
                (_, None) => {}
            }
        }
        m
    }

    /// The domain of a parallel loop, its bounds, the types of its indices, and whether the indices are narrowed to `i32`.
    pub(super) fn domain(
        &self,
        domain: DomainLike,
    ) -> PyResult<(Domain, Vec<u32>, Vec<Type>, bool)> {
        match domain {
            DomainLike::Field(number) => {
                let field = self.field(number)?;
                let data = &self.m.fields[field];
                let domain = data.domain(&self.m.trees);
                let fits = domain.iter().all(|(from, extent)| {
                    let last = i128::from(*from) + i128::from(*extent) - 1;
                    i32::try_from(*from).is_ok() && i32::try_from(last).is_ok()
                });
                // Unbounded hash nodes have cells beyond that; only wider indices reach them.
                let narrowed = !fits && self.m.trees[data.tree].is_hashed(data.node);
                let ty = Type::Scalar(if fits { Scalar::I32 } else { Scalar::I64 });
                let params = vec![ty; data.rank()];
                Ok((Domain::Field(field), Vec::new(), params, narrowed))
            }
            DomainLike::Bounds(bounds) => {
                let rank = u8::try_from(bounds.len());
                let rank = rank.map_err(|_| self.invalid("the loop has too many axes"))?;
                let args: Vec<u32> = bounds.iter().flat_map(|(l, h)| [*l, *h]).collect();
                let low = self.values(&bounds.iter().map(|b| b.0).collect::<Vec<_>>())?;
                let frame = self.frame()?;
                let params = low.iter().map(|v| frame.func.ty(*v)).collect();
                Ok((Domain::Range { rank }, args, params, false))
            }
        }
    }

    /// How the arguments of a call are passed. They must name each parameter and each array once.
    pub(super) fn arguments(
        &self,
        arguments: &[(String, usize)],
        slots: &[usize],
    ) -> PyResult<Vec<Argument>> {
        passing(&self.m, arguments, slots).map_err(|what| self.invalid(what))
    }
}

pub(super) fn activation(activate: bool) -> Activation {
    if activate {
        Activation::IfAbsent
    } else {
        Activation::Never
    }
}

/// Formats a list of types for messages.
pub(super) fn type_list(types: &[Type]) -> String {
    match types {
        [] => "nothing".to_owned(),
        _ => types
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(", "),
    }
}
