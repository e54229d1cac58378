//! Instructions that own no regions.

use super::aggregate;
use super::control::Next;
use super::error::NOT_RUNNABLE;
use super::launch::Launch;
use super::prepare::zero;
use crate::Result;
use crate::entities::{Inst, Site, Value};
use crate::eval;
use crate::module::{InstData, SiteKind};
use crate::ops::Op;
use crate::random;
use crate::types::{Imm, Scalar, Type};

impl Launch<'_, '_> {
    pub(super) fn compute(&mut self, inst: Inst) -> Result<Next> {
        let f = self.func();
        let data = &f.insts[inst];
        let span = f.spans[inst];
        match &data.op {
            Op::Load(access) => self.load(inst, access, span)?,
            Op::Store(access) => self.store(inst, access, span)?,
            Op::Atomic(op, access) => self.atomic(inst, *op, access, span)?,
            Op::CompareExchange(access) => self.compare_exchange(inst, access, span)?,
            Op::MemLoad(space, _) => self.mem_load(data, *space, span)?,
            Op::MemStore(space) => self.mem_store(data, *space, span)?,
            Op::LoadInterleaved(rows) => self.load_interleaved(data, rows, span)?,
            Op::StoreInterleaved(rows) => self.store_interleaved(data, rows, span)?,
            Op::AddInterleaved(spaces) => self.add_interleaved(data, spaces, span)?,
            Op::MemAtomic(op, space, _) => self.mem_atomic(data, *op, *space, span)?,
            Op::MemCompareExchange(space) => self.mem_compare_exchange(data, *space, span)?,
            Op::Cell(op, field) => self.cell(data, *op, *field, span)?,
            // What it asks for changes no meaning.
            Op::Cache(_) => {}
            Op::TreeAccess(..) => {
                let why = "a step of a walk that is not lowered yet";
                return Err(self.error(NOT_RUNNABLE, why, span));
            }
            Op::ArrayExtent(a, axis) => {
                let extent = self.machine.arrays.get(*a).view.extents[usize::from(*axis)];
                self.set_int(data.results[0], i128::from(extent));
            }
            Op::ArrayStride(a, axis) => {
                let stride = self.machine.arrays.get(*a).view.strides[usize::from(*axis)];
                self.set_int(data.results[0], i128::from(stride));
            }
            Op::Random => {
                let Some(iteration) = self.scope.iteration else {
                    let why = "`random` in a task of chunks has no iteration";
                    return Err(self.error(NOT_RUNNABLE, why, span));
                };
                let bits = random::draw(self.scope.key, iteration, self.scope.draws);
                self.scope.draws += 1;
                self.set_scalar(data.results[0], Imm::from_bits(Scalar::U64, bits));
            }
            Op::RandomKey => {
                let key = self.scope.key;
                self.set_scalar(data.results[0], Imm::from_bits(Scalar::U64, key));
            }
            Op::Iteration => {
                let Some(iteration) = self.scope.iteration else {
                    let why = "a task of chunks has no `iteration`";
                    return Err(self.error(NOT_RUNNABLE, why, span));
                };
                self.set_int(data.results[0], i128::from(iteration));
            }
            Op::Thread(op) => return self.thread_op(inst, *op),
            Op::Print(message) => {
                let values = self.scalars(&data.args);
                self.print(*message, self.scope.iteration.unwrap_or(0), &values);
            }
            Op::Assert(message) => {
                if self.scalar(data.args[0]).bits() == 0 {
                    let values = self.scalars(&data.args[1..]);
                    self.report(SiteKind::Assert(*message), span, values);
                    return Ok(Next::EndIteration);
                }
            }
            Op::CheckIndex(len) => {
                let index = self.scalar(data.args[0]).as_int().unwrap_or(0);
                if index < 0 || index >= i128::from(*len) {
                    self.report(
                        SiteKind::BadIndex { len: *len },
                        span,
                        vec![reported(index)],
                    );
                }
            }
            Op::Report(site) => self.report_site(*site, &data.args),
            Op::If | Op::Loop(_) | Op::For(..) | Op::Block(_) | Op::ForEach(..) | Op::Call(_) => {
                return Err(self.error(NOT_RUNNABLE, "control is run elsewhere", span));
            }
            Op::Const(imm) => self.set_scalar(data.results[0], *imm),
            Op::Unary(_)
            | Op::AssumeRange(..)
            | Op::Binary(_)
            | Op::Compare(_)
            | Op::Select
            | Op::Fma
            | Op::Convert(_)
            | Op::Bitcast(_)
            | Op::Splat(_)
            | Op::Compose(_)
            | Op::Extract(_)
            | Op::Insert(_)
            | Op::ExtractDyn
            | Op::InsertDyn
            | Op::Shuffle(_)
            | Op::MatMul
            | Op::Transpose
            | Op::Dot
            | Op::Cross
            | Op::Outer
            | Op::Determinant
            | Op::Inverse
            | Op::Reduce(_) => {
                if self.pure(data).is_none() {
                    let why = format!("`{:?}` is not defined on its arguments", data.op);
                    return Err(self.error(NOT_RUNNABLE, why, span));
                }
            }
        }
        Ok(Next::On)
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
            | SiteKind::BadIndex { .. }
            | SiteKind::Assert(_)
            | SiteKind::TooDeep(_)
            | SiteKind::OutOfMemory(..)
            | SiteKind::ListFull(_) => self.report(data.kind.clone(), data.span, values),
        }
    }

    /// Operations on values alone; `None` when a type does not fit.
    fn pure(&mut self, data: &InstData) -> Option<()> {
        let result = *data.results.first()?;
        let args = &data.args;
        let at = self.run_of(result);
        // Most values are scalars, and take no detour.
        if at.len() == 1
            && let Some(value) = self.pure_scalar(&data.op, args)?
        {
            self.stacks.values[at.start] = value;
            return Some(());
        }
        let f = self.func();
        let arg = |k: usize| self.value(args[k]);
        let index = |k: usize| self.scalar(args[k]).as_int();
        let ty = |k: usize| f.ty(args[k]);
        let out: Vec<Imm> = match &data.op {
            Op::Unary(op) => arg(0)
                .iter()
                .map(|a| eval::unary(*op, *a))
                .collect::<Option<_>>()?,
            Op::Binary(op) => zip(arg(0), arg(1))
                .map(|(a, b)| eval::binary(*op, a, b))
                .collect::<Option<_>>()?,
            Op::Compare(op) => zip(arg(0), arg(1))
                .map(|(a, b)| eval::compare(*op, a, b).map(Imm::bool))
                .collect::<Option<_>>()?,
            Op::Select => {
                let condition = arg(0);
                let sides = zip(arg(1), arg(2)).enumerate();
                let whole = ty(0).as_scalar().is_some();
                sides
                    .map(|(k, (a, b))| {
                        let c = condition[if whole { 0 } else { k }];
                        if c.bits() != 0 { a } else { b }
                    })
                    .collect()
            }
            Op::Fma => zip(arg(0), arg(1))
                .zip(arg(2))
                .map(|((a, b), c)| eval::fma(a, b, *c))
                .collect::<Option<_>>()?,
            Op::Convert(to) => arg(0).iter().map(|a| eval::convert(*a, *to)).collect(),
            Op::Bitcast(to) => arg(0)
                .iter()
                .map(|a| eval::bitcast(*a, *to))
                .collect::<Option<_>>()?,
            Op::Splat(_) => vec![self.scalar(args[0]); at.len()],
            Op::Compose(_) => self.scalars(args),
            Op::Extract(k) => {
                let start = self.machine.prepared.component_start(ty(0), *k);
                arg(0).get(start..start + at.len())?.to_vec()
            }
            Op::Insert(k) => {
                let start = self.machine.prepared.component_start(ty(0), *k);
                let mut out = arg(0).to_vec();
                let part = arg(1);
                out.get_mut(start..start + part.len())?
                    .copy_from_slice(part);
                out
            }
            Op::ExtractDyn => match usize::try_from(index(1)?) {
                Ok(k) if k < arg(0).len() => vec![arg(0)[k]],
                _ => zero(self.machine.module, f.ty(result)),
            },
            Op::InsertDyn => {
                let mut out = arg(0).to_vec();
                if let Some(slot) = usize::try_from(index(1)?).ok().and_then(|k| out.get_mut(k)) {
                    *slot = self.scalar(args[2]);
                }
                out
            }
            Op::Shuffle(mask) => mask
                .iter()
                .map(|k| arg(0).get(usize::from(*k)).copied())
                .collect::<Option<_>>()?,
            Op::MatMul => match (ty(0), ty(1)) {
                (Type::Matrix(_, r, k), Type::Matrix(_, _, c)) => {
                    aggregate::matmul(arg(0), arg(1), r.into(), k.into(), c.into())?
                }
                (Type::Matrix(_, r, k), Type::Vector(..)) => {
                    aggregate::matmul(arg(0), arg(1), r.into(), k.into(), 1)?
                }
                _ => return None,
            },
            Op::Transpose => match ty(0) {
                Type::Matrix(_, r, c) => aggregate::transpose(arg(0), r.into(), c.into()),
                _ => return None,
            },
            Op::Dot => vec![aggregate::dot(zip(arg(0), arg(1)))?],
            Op::Cross => aggregate::cross(arg(0), arg(1))?,
            Op::Outer => aggregate::outer(arg(0), arg(1))?,
            Op::Determinant => match ty(0) {
                Type::Matrix(_, n, _) => vec![aggregate::determinant(arg(0), n.into())?],
                _ => return None,
            },
            Op::Inverse => match ty(0) {
                Type::Matrix(s, n, _) => aggregate::inverse(arg(0), n.into(), s)?,
                _ => return None,
            },
            Op::Reduce(op) => {
                let op = eval::reduction(*op);
                let (first, rest) = arg(0).split_first()?;
                vec![
                    rest.iter()
                        .try_fold(*first, |sum, x| eval::binary(op, sum, *x))?,
                ]
            }
            Op::Const(imm) => vec![*imm],
            Op::AssumeRange(..) => arg(0).to_vec(),
            Op::Load(_)
            | Op::Store(_)
            | Op::Atomic(..)
            | Op::CompareExchange(_)
            | Op::Cell(..)
            | Op::TreeAccess(..)
            | Op::Cache(_)
            | Op::ArrayExtent(..)
            | Op::ArrayStride(..)
            | Op::MemLoad(..)
            | Op::MemStore(_)
            | Op::LoadInterleaved(_)
            | Op::StoreInterleaved(_)
            | Op::AddInterleaved(_)
            | Op::MemAtomic(..)
            | Op::MemCompareExchange(_)
            | Op::If
            | Op::Loop(_)
            | Op::For(..)
            | Op::Block(_)
            | Op::ForEach(..)
            | Op::Call(_)
            | Op::Random
            | Op::RandomKey
            | Op::Iteration
            | Op::Thread(_)
            | Op::Print(_)
            | Op::Assert(_)
            | Op::CheckIndex(_)
            | Op::Report(_) => return None,
        };
        if out.len() != at.len() {
            return None;
        }
        self.stacks.values[at].copy_from_slice(&out);
        Some(())
    }

    /// Scalar operations on scalars; `Some(None)` for others.
    fn pure_scalar(&self, op: &Op, args: &[Value]) -> Option<Option<Imm>> {
        let arg = |k: usize| self.scalar(args[k]);
        Some(Some(match op {
            Op::Unary(op) => eval::unary(*op, arg(0))?,
            Op::Binary(op) => eval::binary(*op, arg(0), arg(1))?,
            Op::Compare(op) => Imm::bool(eval::compare(*op, arg(0), arg(1))?),
            Op::Select => arg(if arg(0).bits() != 0 { 1 } else { 2 }),
            Op::Fma => eval::fma(arg(0), arg(1), arg(2))?,
            Op::Convert(to) => eval::convert(arg(0), *to),
            Op::Bitcast(to) => eval::bitcast(arg(0), *to)?,
            // Everything else goes the general way, which lists all of them.
            _ => return Some(None),
        }))
    }
}

fn zip(a: &[Imm], b: &[Imm]) -> impl Iterator<Item = (Imm, Imm)> {
    a.iter().copied().zip(b.iter().copied())
}

/// An index as reports carry it.
pub(super) fn reported(index: i128) -> Imm {
    let clamped = index.clamp(i128::from(i64::MIN), i128::from(i64::MAX));
    Imm::int(Scalar::I64, clamped)
}
