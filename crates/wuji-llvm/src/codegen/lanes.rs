//! Lanes of vectors: extraction, insertion, reduction, and vector loads and stores.

use super::function::FunctionGen;
use crate::emit::Val;
use inkwell::llvm_sys::LLVMOpcode;
use wuji_ir::Result;
use wuji_ir::entities::Value;
use wuji_ir::ops::{ReduceOp, Space};
use wuji_ir::types::{Scalar, Type};

impl FunctionGen<'_, '_, '_> {
    /// The number of lanes of a value; `None` for a scalar.
    pub(super) fn lane_count(&self, value: Value) -> Option<u32> {
        match self.f.ty(value) {
            Type::Vector(_, n) => Some(u32::from(n)),
            Type::Scalar(_) | Type::Matrix(..) | Type::Struct(_) => None,
        }
    }

    /// A lane index, wrapped into range: the number of lanes is a power of two.
    fn lane_index(&self, vector: Value, index: Value) -> Result<Val> {
        let from = self.scalar(index)?;
        let wide = self.convert_value(self.get(index)?, from, Scalar::I64);
        let e = &self.unit.emit;
        let most = i64::from(self.lane_count(vector).unwrap_or(1)) - 1;
        Ok(e.and(wide, e.const_i64(most)))
    }

    /// `(vector, number)`.
    pub(super) fn lane(&self, args: &[Value]) -> Result<Val> {
        let at = self.lane_index(args[0], args[1])?;
        Ok(self.unit.emit.lane(self.get(args[0])?, at))
    }

    /// `(vector, number, scalar)`.
    pub(super) fn set_lane(&self, args: &[Value]) -> Result<Val> {
        let at = self.lane_index(args[0], args[1])?;
        let (vector, v) = (self.get(args[0])?, self.get(args[2])?);
        Ok(self.unit.emit.set_lane(vector, at, v))
    }

    /// Combines all lanes from the first to the last.
    pub(super) fn reduce(&mut self, op: ReduceOp, arg: Value) -> Result<Val> {
        let (v, s) = (self.get(arg)?, self.scalar(arg)?);
        let e = &self.unit.emit;
        if op == ReduceOp::And {
            return Ok(e.intrinsic("llvm.vector.reduce.and", &[e.ty_of(v)], &[v]));
        }
        if op == ReduceOp::Or {
            return Ok(e.intrinsic("llvm.vector.reduce.or", &[e.ty_of(v)], &[v]));
        }
        let op = op.binary();
        let mut all = e.lane(v, e.const_i64(0));
        for k in 1..self.lane_count(arg).unwrap_or(1) {
            let e = &self.unit.emit;
            let one = e.lane(v, e.const_i64(i64::from(k)));
            all = self.binary_op(op, s, (all, one), 0, None);
        }
        Ok(all)
    }

    /// Loads a vector: contiguous, or a gather. Inactive lanes get 0.
    pub(super) fn load_lanes(
        &mut self,
        space: Space,
        args: &[Value],
        result: Value,
    ) -> Result<Val> {
        let s = self.scalar(result)?;
        let lanes = self.lane_count(result).unwrap_or(1);
        let scattered = self.lane_count(args[0]).is_some();
        let at = self.address(space, args[0])?;
        let mask = args.get(1).map(|m| self.get(*m)).transpose()?;
        let e = &self.unit.emit;
        let ty = e.vector_ty(e.memory_ty(s), lanes);
        let v = match (scattered, mask) {
            (false, None) => e.load(ty, at, s.bytes()),
            (false, Some(mask)) => {
                let v = e.intrinsic(
                    "llvm.masked.load",
                    &[ty, e.ptr_ty()],
                    &[at, mask, e.zero(ty)],
                );
                e.add_call_align(v, 0, s.bytes());
                v
            }
            (true, mask) => {
                let all = || e.const_int(e.vector_ty(e.int_ty(1), lanes), 1);
                let mask = mask.unwrap_or_else(all);
                let v = e.intrinsic(
                    "llvm.masked.gather",
                    &[ty, e.ty_of(at)],
                    &[at, mask, e.zero(ty)],
                );
                e.add_call_align(v, 0, s.bytes());
                v
            }
        };
        self.mark(v, space);
        Ok(self.loaded(v, s))
    }

    pub(super) fn store_lanes(&mut self, space: Space, args: &[Value]) -> Result<()> {
        let s = self.scalar(args[1])?;
        let lanes = self.lane_count(args[1]).unwrap_or(1);
        let scattered = self.lane_count(args[0]).is_some();
        let at = self.address(space, args[0])?;
        let mask = args.get(2).map(|m| self.get(*m)).transpose()?;
        let v = self.storable(self.get(args[1])?, s);
        let e = &self.unit.emit;
        let inst = match (scattered, mask) {
            (false, None) if matches!(space, Space::Streamed(_)) => {
                let inst = e.store(v, at, s.bytes() * lanes);
                self.stream(inst);
                inst
            }
            (false, None) => e.store(v, at, s.bytes()),
            (false, Some(mask)) => {
                let types = [e.ty_of(v), e.ptr_ty()];
                let inst = e.intrinsic("llvm.masked.store", &types, &[v, at, mask]);
                e.add_call_align(inst, 1, s.bytes());
                inst
            }
            (true, mask) => {
                let all = || e.const_int(e.vector_ty(e.int_ty(1), lanes), 1);
                let mask = mask.unwrap_or_else(all);
                let types = [e.ty_of(v), e.ty_of(at)];
                let inst = e.intrinsic("llvm.masked.scatter", &types, &[v, at, mask]);
                e.add_call_align(inst, 1, s.bytes());
                inst
            }
        };
        self.mark(inst, space);
        Ok(())
    }

    /// An offset, extended to 64 bits.
    pub(super) fn wide_offset(&self, offset: Value) -> Result<Val> {
        let v = self.get(offset)?;
        let e = &self.unit.emit;
        Ok(match self.scalar(offset)? {
            Scalar::I32 => e.cast(LLVMOpcode::LLVMSExt, v, e.scalar_like(Scalar::I64, v)),
            _ => v,
        })
    }
}
