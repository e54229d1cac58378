//! What the methods of the builder have in common: finding what numbers and names stand for, and appending instructions.

use super::frame::{Frame, Owner};
use super::{Builder, Misfit};
use crate::convert::parse_type;
use crate::error::raised;
use pyo3::prelude::*;
use smallvec::SmallVec;
use wuji::{Error, Position};
use wuji_ir::entities::{Array, Field, Func, Inst, Label, Local, Message, Temp, Value};
use wuji_ir::module::{MessageData, Module, Piece, Term, Values};
use wuji_ir::ops::{Access, Activation, Guard, Op, Place, Step};
use wuji_ir::types::{Scalar, Type};

/// A hole of a message: a type, and digits behind the point; or a text.
#[derive(FromPyObject)]
pub(super) enum PieceLike {
    Text(String),
    Hole(String, Option<u8>),
}

/// A step into an element: a component, or a value that says which.
#[derive(FromPyObject)]
pub(super) enum StepLike {
    Const(u32),
    Dynamic((u32,)),
}

/// What a parallel loop runs over.
#[derive(FromPyObject)]
pub(super) enum DomainLike {
    Field(u32),
    Bounds(Vec<(u32, u32)>),
}

/// A place: what it is, and its number.
pub(super) type PlaceLike = (String, u32);

impl Builder {
    /// An error at the instruction that is being built.
    pub(super) fn wrong(&self, what: impl std::fmt::Display) -> PyErr {
        let what = format!("the frontend built something that does not fit: {what}");
        let error = Error::new("W0290", what).at(Position::of(&self.m, self.span));
        raised(&error)
    }

    pub(super) fn told<T>(&self, result: Result<T, Misfit>) -> PyResult<T> {
        result.map_err(|Misfit(what)| self.wrong(what))
    }

    pub(super) fn alive(&self) -> PyResult<()> {
        match self.finished {
            false => Ok(()),
            true => Err(self.wrong("the kernel is finished")),
        }
    }

    pub(super) fn frame(&self) -> PyResult<&Frame> {
        self.alive()?;
        self.frames
            .last()
            .ok_or_else(|| self.wrong("no function is open"))
    }

    /// Does something with the innermost function.
    pub(super) fn with<T>(
        &mut self,
        work: impl FnOnce(&mut Frame, &Module) -> Result<T, Misfit>,
    ) -> PyResult<T> {
        self.alive()?;
        let result = match self.frames.last_mut() {
            Some(frame) => work(frame, &self.m),
            None => Err(Misfit("no function is open".into())),
        };
        self.told(result)
    }

    pub(super) fn values(&self, numbers: &[u32]) -> PyResult<Values> {
        let frame = self.frame()?;
        let values = numbers.iter().map(|n| frame.value(*n));
        self.told(values.collect::<Result<Values, Misfit>>())
    }

    pub(super) fn ty(&self, text: &str) -> PyResult<Type> {
        match parse_type(text) {
            Some(Type::Struct(id)) if !self.m.structs.0.is_valid(id) => {
                Err(self.wrong(format!("there is no struct `{text}`")))
            }
            Some(ty) => Ok(ty),
            None => Err(self.wrong(format!("`{text}` is no type"))),
        }
    }

    pub(super) fn scalar(&self, text: &str) -> PyResult<Scalar> {
        Scalar::from_name(text).ok_or_else(|| self.wrong(format!("`{text}` is no scalar type")))
    }

    pub(super) fn push(&mut self, op: Op, args: &[u32]) -> PyResult<Inst> {
        let args = self.values(args)?;
        self.push_values(op, &args)
    }

    pub(super) fn push_values(&mut self, op: Op, args: &[Value]) -> PyResult<Inst> {
        let span = self.span;
        self.with(|frame, m| frame.push(m, span, op, args))
    }

    /// Appends an instruction that has one result.
    pub(super) fn one(&mut self, op: Op, args: &[u32]) -> PyResult<u32> {
        let inst = self.push(op, args)?;
        self.result_of(inst)
    }

    pub(super) fn result_of(&self, inst: Inst) -> PyResult<u32> {
        match self.frame()?.func.insts[inst].results[..] {
            [value] => Ok(value.as_u32()),
            _ => Err(self.wrong("an instruction has no result")),
        }
    }

    /// An operation by its name.
    pub(super) fn op<T>(&self, kind: &str, name: &str, found: Option<T>) -> PyResult<T> {
        found.ok_or_else(|| self.wrong(format!("`{name}` is no {kind}")))
    }

    pub(super) fn field(&self, number: u32) -> PyResult<Field> {
        let field = Field::from_u32(number);
        match self.m.fields.is_valid(field) {
            true => Ok(field),
            false => Err(self.wrong(format!("there is no field {number}"))),
        }
    }

    pub(super) fn array_id(&self, number: u32) -> PyResult<Array> {
        let array = Array::from_u32(number);
        match self.m.arrays.is_valid(array) {
            true => Ok(array),
            false => Err(self.wrong(format!("there is no array {number}"))),
        }
    }

    pub(super) fn function(&self, number: u32) -> PyResult<Func> {
        let func = Func::from_u32(number);
        match self.m.funcs.is_valid(func) {
            true => Ok(func),
            false => Err(self.wrong(format!("there is no function {number}"))),
        }
    }

    pub(super) fn place(&self, (kind, number): &PlaceLike) -> PyResult<Place> {
        match kind.as_str() {
            "f" => Ok(Place::Field(self.field(*number)?)),
            "a" => Ok(Place::Array(self.array_id(*number)?)),
            "l" => {
                let local = Local::from_u32(*number);
                match self.frame()?.func.locals.is_valid(local) {
                    true => Ok(Place::Local(local)),
                    false => Err(self.wrong(format!("there is no local {number}"))),
                }
            }
            "t" => {
                let temp = Temp::from_u32(*number);
                match self.m.temps.is_valid(temp) {
                    true => Ok(Place::Temp(temp)),
                    false => Err(self.wrong(format!("there is no shared variable {number}"))),
                }
            }
            other => Err(self.wrong(format!("`{other}` is no kind of place"))),
        }
    }

    /// An access, and its arguments up to the operands.
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
            return Err(self.wrong(format!("a place takes {rank} indices, found {n}")));
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
                    precision,
                },
            });
        }
        Ok(self.m.messages.push(MessageData { pieces: all }))
    }

    /// Opens the region of a new instruction.
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

    /// Closes the innermost region; behind what control does not come out of, nothing follows.
    pub(super) fn end_region(
        &mut self,
        what: &str,
        fits: impl FnOnce(Owner) -> bool,
    ) -> PyResult<()> {
        let span = self.span;
        self.with(|frame, _| {
            let (_, falls) = frame.leave(fits, what, span)?;
            match falls {
                true => Ok(()),
                false => frame.unreachable(span),
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

    /// The module as it is now, with everything open ended somehow.
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
}
