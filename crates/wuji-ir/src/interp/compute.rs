//! Instructions without regions.

use super::aggregate;
use super::control::Next;
use super::error::NOT_RUNNABLE;
use super::launch::Launch;
use super::prepare::zero;
use crate::Result;
use crate::entities::{Inst, Site, Value};
use crate::eval;
use crate::module::{InstData, SiteKind, Span};
use crate::ops::{AccessOp, CheckOp, ComponentOp, HintOp, MemoryOp, OpClass, QueryOp};
use crate::random;
use crate::types::{Imm, Scalar, Type};
use smallvec::SmallVec;

impl Launch<'_, '_> {
    pub(super) fn compute(&mut self, inst: Inst, class: OpClass<'_>) -> Result<Next> {
        let f = self.func();
        let data = &f.insts[inst];
        let span = f.spans[inst];
        match class {
            OpClass::Constant(imm) => self.set_scalar(data.results[0], imm),
            OpClass::Elementwise(_)
            | OpClass::Component(_)
            | OpClass::Reduce(_)
            | OpClass::Algebra(_) => {
                if self.pure(data, class).is_none() {
                    let why = format!("`{:?}` is not defined on its arguments", data.op);
                    return Err(self.error(NOT_RUNNABLE, why, span));
                }
            }
            OpClass::Query(op) => self.query(op, data.results[0], span)?,
            OpClass::Hint(HintOp::AssumeRange(..)) => {
                let value = self.scalar(data.args[0]);
                self.set_scalar(data.results[0], value);
            }
            OpClass::Hint(HintOp::Unique(count)) => {
                let value = self.scalar(data.args[0]);
                self.check_unique(inst, value, count)?;
                self.set_scalar(data.results[0], value);
            }
            // It does not change results.
            OpClass::Hint(HintOp::Cache(_)) => {}
            OpClass::Access(op, access) => match op {
                AccessOp::Load => self.load(inst, access, span)?,
                AccessOp::Store => self.store(inst, access, span)?,
                AccessOp::Atomic(op) => self.atomic(inst, op, access, span)?,
                AccessOp::CompareExchange => self.compare_exchange(inst, access, span)?,
            },
            OpClass::Cell(op, field) => self.cell(data, op, field, span)?,
            OpClass::TreeAccess(..) => {
                let why = "a step of a tree access that is not lowered yet";
                return Err(self.error(NOT_RUNNABLE, why, span));
            }
            OpClass::Memory(op) => match op {
                MemoryOp::MemLoad(space, _) => self.mem_load(data, space, span)?,
                MemoryOp::MemStore(space) => self.mem_store(data, space, span)?,
                MemoryOp::MemAtomic(op, space, _) => self.mem_atomic(data, op, space, span)?,
                MemoryOp::MemCompareExchange(space) => {
                    self.mem_compare_exchange(data, space, span)?
                }
                MemoryOp::LoadInterleaved(rows) => self.load_interleaved(data, rows, span)?,
                MemoryOp::StoreInterleaved(rows) => self.store_interleaved(data, rows, span)?,
                MemoryOp::AddInterleaved(spaces) => self.add_interleaved(data, spaces, span)?,
            },
            OpClass::Control(_) | OpClass::Call(_) => {
                return Err(self.error(NOT_RUNNABLE, "control is run elsewhere", span));
            }
            OpClass::Random => {
                let bits = self.draw(span)?;
                self.set_scalar(data.results[0], Imm::from_bits(Scalar::U64, bits));
            }
            OpClass::Thread(op) => return self.thread_op(inst, op),
            OpClass::Check(op) => return Ok(self.check(op, &data.args, span)),
        }
        Ok(Next::On)
    }

    /// The next random number of the iteration.
    pub(super) fn draw(&mut self, span: Span) -> Result<u64> {
        let Some(iteration) = self.scope.iteration else {
            let why = "`random` in a task of chunks has no iteration";
            return Err(self.error(NOT_RUNNABLE, why, span));
        };
        let bits = random::draw(self.scope.key, iteration, self.scope.draws);
        self.scope.draws += 1;
        Ok(bits)
    }

    fn query(&mut self, op: QueryOp, result: Value, span: Span) -> Result<()> {
        match op {
            QueryOp::ArrayExtent(a, axis) => {
                let extent = self.machine.arrays.get(a).view.extents[usize::from(axis)];
                self.set_int(result, i128::from(extent));
            }
            QueryOp::ArrayStride(a, axis) => {
                let stride = self.machine.arrays.get(a).view.strides[usize::from(axis)];
                self.set_int(result, i128::from(stride));
            }
            QueryOp::RandomKey => {
                let key = self.scope.key;
                self.set_scalar(result, Imm::from_bits(Scalar::U64, key));
            }
            QueryOp::Iteration => {
                let Some(iteration) = self.scope.iteration else {
                    let why = "a task of chunks has no `iteration`";
                    return Err(self.error(NOT_RUNNABLE, why, span));
                };
                self.set_int(result, i128::from(iteration));
            }
        }
        Ok(())
    }

    fn check(&mut self, op: CheckOp, args: &[Value], span: Span) -> Next {
        match op {
            CheckOp::Print(message) => {
                let values = self.scalars(args);
                self.print(message, self.scope.iteration.unwrap_or(0), &values);
            }
            CheckOp::Assert(message) => {
                if self.scalar(args[0]).bits() == 0 {
                    let values = self.scalars(&args[1..]);
                    self.report(SiteKind::Assert(message), span, values);
                    return Next::EndIteration;
                }
            }
            CheckOp::CheckIndex(len) => {
                let index = self.scalar(args[0]).as_int().unwrap_or(0);
                if index < 0 || index >= i128::from(len) {
                    self.report(SiteKind::BadIndex { len }, span, vec![reported(index)]);
                }
            }
            CheckOp::Report(site) => self.report_site(site, args),
        }
        Next::On
    }

    /// The scalars of several values.
    fn scalars(&self, values: &[Value]) -> Vec<Imm> {
        values
            .iter()
            .flat_map(|v| self.value(*v).iter().copied())
            .collect()
    }

    fn report_site(&mut self, site: Site, args: &[Value]) {
        let data = &self.machine.module.sites[site];
        let mut values = self.scalars(args);
        match data.kind {
            SiteKind::Print(message) => {
                let iteration = if values.is_empty() {
                    0
                } else {
                    values.remove(0).as_int().unwrap_or(0)
                };
                self.print(message, iteration as u64, &values);
            }
            SiteKind::OutOfRange(_)
            | SiteKind::ReadOutOfRange(_)
            | SiteKind::BadIndex { .. }
            | SiteKind::Assert(_)
            | SiteKind::TooDeep(_)
            | SiteKind::OutOfMemory(..)
            | SiteKind::ListFull(_) => self.report(data.kind.clone(), data.span, values),
        }
    }

    /// Pure operations; `None` if a type does not match.
    fn pure(&mut self, data: &InstData, class: OpClass<'_>) -> Option<()> {
        let result = *data.results.first()?;
        let args = &data.args;
        let at = self.run_of(result);
        let out: Vec<Imm> = match class {
            // Fast path: most values are scalars.
            OpClass::Elementwise(op) if at.len() == 1 => {
                self.stacks.values[at.start] = eval::elementwise(op, |k| self.scalar(args[k]))?;
                return Some(());
            }
            OpClass::Elementwise(op) => (0..at.len())
                .map(|i| eval::elementwise(op, |k| self.lane(args[k], i)))
                .collect::<Option<_>>()?,
            OpClass::Constant(imm) => vec![imm],
            OpClass::Component(op) => self.component(op, args, result)?,
            OpClass::Reduce(op) => {
                let (first, rest) = self.value(args[0]).split_first()?;
                let mut rest = rest.iter();
                vec![rest.try_fold(*first, |sum, x| eval::binary(op.binary(), sum, *x))?]
            }
            OpClass::Algebra(op) => {
                let f = self.func();
                let args: SmallVec<[(Type, &[Imm]); 2]> =
                    args.iter().map(|a| (f.ty(*a), self.value(*a))).collect();
                aggregate::algebra(op, &args)?
            }
            OpClass::Query(_)
            | OpClass::Hint(_)
            | OpClass::Access(..)
            | OpClass::Cell(..)
            | OpClass::TreeAccess(..)
            | OpClass::Memory(_)
            | OpClass::Control(_)
            | OpClass::Call(_)
            | OpClass::Random
            | OpClass::Thread(_)
            | OpClass::Check(_) => return None,
        };
        if out.len() != at.len() {
            return None;
        }
        self.stacks.values[at].copy_from_slice(&out);
        Some(())
    }

    /// An element of a value; a scalar is broadcast.
    fn lane(&self, v: Value, i: usize) -> Imm {
        let elements = self.value(v);
        elements[if elements.len() == 1 { 0 } else { i }]
    }

    fn component(&self, op: ComponentOp<'_>, args: &[Value], result: Value) -> Option<Vec<Imm>> {
        let f = self.func();
        let arg = |k: usize| self.value(args[k]);
        let index = |k: usize| self.scalar(args[k]).as_int();
        let start = |k: u32| self.machine.prepared.component_start(f.ty(args[0]), k);
        let len = self.run_of(result).len();
        Some(match op {
            ComponentOp::Splat(_) => vec![self.scalar(args[0]); len],
            ComponentOp::Compose(_) => self.scalars(args),
            ComponentOp::Extract(k) => arg(0).get(start(k)..start(k) + len)?.to_vec(),
            ComponentOp::Insert(k) => {
                let mut out = arg(0).to_vec();
                let part = arg(1);
                out.get_mut(start(k)..start(k) + part.len())?
                    .copy_from_slice(part);
                out
            }
            ComponentOp::ExtractDyn => match usize::try_from(index(1)?) {
                Ok(k) if k < arg(0).len() => vec![arg(0)[k]],
                Ok(_) | Err(_) => zero(self.machine.module, f.ty(result)),
            },
            ComponentOp::InsertDyn => {
                let mut out = arg(0).to_vec();
                if let Some(slot) = usize::try_from(index(1)?).ok().and_then(|k| out.get_mut(k)) {
                    *slot = self.scalar(args[2]);
                }
                out
            }
            ComponentOp::Shuffle(mask) => mask
                .iter()
                .map(|k| arg(0).get(usize::from(*k)).copied())
                .collect::<Option<_>>()?,
        })
    }
}

/// An index as in reports.
pub(super) fn reported(index: i128) -> Imm {
    let clamped = index.clamp(i128::from(i64::MIN), i128::from(i64::MAX));
    Imm::int(Scalar::I64, clamped)
}
