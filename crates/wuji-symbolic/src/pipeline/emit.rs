//! Emits a module of the IR: a kernel with one parallel loop per group, over tables in fields.

use super::group::Source;
use super::place::{GroupLoop, Index};
use super::{Analysis, bug};
use crate::arena::{Id, Node};
use crate::op::{Binary, Op};
use wuji_ir::build::Builder;
use wuji_ir::entities::{Field, Value};
use wuji_ir::module::{Function, Module, Term, Values};
use wuji_ir::ops::{self, BinOp, Domain, LoopHints, Place, UnOp};
use wuji_ir::types::{Scalar, Type};
use wuji_ir::{Error, Result};

/// The fields of a module that a program uses.
#[derive(Clone, Debug)]
pub struct Fields {
    /// The inputs.
    pub inputs: Vec<Field>,
    /// The outputs.
    pub outputs: Vec<Field>,
    /// Values that are stored for later groups.
    pub intermediates: Field,
    /// The tables of indices.
    pub indices: Field,
    /// The tables of constants.
    pub constants: Field,
}

/// A template that is not decomposed into locals may have so many instructions.
const MOST_INSTRUCTIONS: usize = 4096;

/// Adds a kernel to a module whose fields are these.
pub fn emit(
    mut module: Module,
    analysis: &Analysis,
    fields: &Fields,
    scalar: Scalar,
) -> Result<Module> {
    let mut function = Function::new(module.name.clone(), &[], &[]);
    let mut builder = Builder::new(&mut module.env, &mut function);
    for group in &analysis.groups {
        let mut failed = None;
        foreach(&mut builder, group.members, |b, member| {
            let mut emitter = Emitter {
                b,
                group,
                fields,
                scalar,
                member,
                values: vec![None; group.template.arena.len()],
                tables: Vec::new(),
                instructions: 0,
                keep_all: analysis.local_decomposition,
            };
            failed = emitter.emit().err();
        });
        if let Some(error) = failed {
            return Err(error);
        }
    }
    builder.end(Term::Return(Values::new()));
    let kernel = module.add_func(function);
    module.kernel = Some(kernel);
    Ok(module)
}

fn foreach(b: &mut Builder<'_>, members: u32, body: impl FnOnce(&mut Builder<'_>, Value)) {
    let index = Type::Scalar(Scalar::I32);
    let lo = b.int(Scalar::I32, 0);
    let hi = b.int(Scalar::I32, i128::from(members));
    let label = b.func.fresh_label();
    let op = ops::Op::ForEach(label, Domain::Range { rank: 1 }, LoopHints::default());
    let inst = b.push_typed(op, &[lo, hi], &[]);
    let region = b.region(&[index], |b, indices| {
        body(b, indices[0]);
        b.end(Term::Continue(label, Values::new()));
    });
    b.func.insts[inst].regions.push(region);
}

struct Emitter<'a, 'b> {
    b: &'a mut Builder<'b>,
    group: &'a GroupLoop,
    fields: &'a Fields,
    scalar: Scalar,
    /// The number of the member.
    member: Value,
    values: Vec<Option<Value>>,
    /// Entries of tables that are loaded.
    tables: Vec<(usize, Value)>,
    instructions: usize,
    /// Every node is computed once, operands first. Otherwise those that are no locals are computed at each use.
    keep_all: bool,
}

impl Emitter<'_, '_> {
    fn emit(&mut self) -> Result<()> {
        let template = &self.group.template;
        if self.keep_all {
            let values = |id: &Id| template.arena.op(*id) != Op::Pair;
            for id in template.arena.ids().filter(values) {
                self.compute(id)?;
            }
        }
        for (root, write) in template.roots.iter().zip(&self.group.writes) {
            let value = self.value(*root)?;
            let place = self.place(write.to);
            let index = self.index(write.index);
            self.b.store(place, &[index], value);
        }
        Ok(())
    }

    fn place(&self, source: Source) -> Place {
        Place::Field(match source {
            Source::Constant => self.fields.constants,
            Source::Input(array) => self.fields.inputs[array as usize],
            Source::Intermediate => self.fields.intermediates,
            Source::Output(array) => self.fields.outputs[array as usize],
        })
    }

    fn offset(&mut self, value: Value, offset: i64) -> Value {
        if offset == 0 {
            return value;
        }
        let offset = self.b.int(Scalar::I32, i128::from(offset));
        self.b.binary(BinOp::Add, value, offset)
    }

    fn index(&mut self, index: Index) -> Value {
        match index {
            Index::Affine { first, stride: 0 } => self.b.int(Scalar::I32, i128::from(first)),
            Index::Affine { first, stride: 1 } => self.offset(self.member, i64::from(first)),
            Index::Affine { first, stride } => {
                let stride = self.b.int(Scalar::I32, i128::from(stride));
                let product = self.b.binary(BinOp::Mul, self.member, stride);
                self.offset(product, i64::from(first))
            }
            Index::Table { start, offset } => {
                let known = self.tables.iter().find(|t| t.0 == start).map(|t| t.1);
                let entry = known.unwrap_or_else(|| {
                    let at = self.offset(self.member, start as i64);
                    let entry = self.b.load(Place::Field(self.fields.indices), &[at]);
                    self.tables.push((start, entry));
                    entry
                });
                self.offset(entry, i64::from(offset))
            }
        }
    }

    /// The value of a slot.
    fn read(&mut self, slot: u32) -> Result<Value> {
        let read = self.group.reads.iter().find(|r| r.slot == slot).copied();
        let read = read.ok_or_else(|| bug("a slot of a template is not read"))?;
        let index = match (read.source, read.index) {
            (Source::Constant, Index::Table { start, .. }) => {
                self.offset(self.member, start as i64)
            }
            (_, index) => self.index(index),
        };
        let place = self.place(read.source);
        Ok(self.b.load(place, &[index]))
    }

    /// The value of a node, computed again unless it is kept.
    fn value(&mut self, id: Id) -> Result<Value> {
        match self.values[id.at()] {
            Some(value) => Ok(value),
            None => self.compute(id),
        }
    }

    fn compute(&mut self, id: Id) -> Result<Value> {
        let arena = &self.group.template.arena;
        self.instructions += 1;
        let kept = self.keep_all || self.group.locals[id.at()];
        let op = arena.op(id);
        let value = match arena.node(id) {
            Node::Const(value) => self.b.float(self.scalar, value),
            Node::Input { index, .. } => self.read(index)?,
            Node::Unary(op, a) => {
                let a = self.value(a)?;
                self.b.unary(op.ir(), a)
            }
            Node::Not(a) => {
                let a = self.value(a)?;
                self.b.unary(UnOp::Not, a)
            }
            Node::Binary(op, a, b) => self.binary(op, a, b)?,
            Node::Compare(op, a, b) => {
                let (a, b) = (self.value(a)?, self.value(b)?);
                self.b.compare(op.ir(), a, b)
            }
            Node::Logic(op, a, b) => {
                let (a, b) = (self.value(a)?, self.value(b)?);
                self.b.binary(op.ir(), a, b)
            }
            Node::Pair(..) => return Err(bug("the alternatives of a choice are not a value")),
            Node::Select(c, a, b) => {
                let (c, a, b) = (self.value(c)?, self.value(a)?, self.value(b)?);
                self.b.select(c, a, b)
            }
        };
        if kept {
            self.values[id.at()] = Some(value);
        } else if self.instructions > MOST_INSTRUCTIONS {
            let what = format!(
                "an expression has more than {MOST_INSTRUCTIONS} instructions, the last a `{}`",
                op.name()
            );
            return Err(Error::new("W0805", what).help("switch `Options::local_decomposition` on"));
        }
        Ok(value)
    }

    /// A sum with a negated term is a difference.
    fn binary(&mut self, op: Binary, a: Id, b: Id) -> Result<Value> {
        let arena = &self.group.template.arena;
        let sum = op == Binary::Add;
        let (a, b, op) = match (arena.negated(a), arena.negated(b)) {
            (_, Some(b)) if sum => (a, b, BinOp::Sub),
            (Some(a), None) if sum => (b, a, BinOp::Sub),
            (_, _) => (a, b, op.ir()),
        };
        let (a, b) = (self.value(a)?, self.value(b)?);
        Ok(self.b.binary(op, a, b))
    }
}
