//! Loads and stores of fields, arrays, temps and locals.

use super::function::{FunctionGen, Hoisted};
use crate::emit::Val;
use inkwell::llvm_sys::LLVMIntPredicate::LLVMIntNE;
use inkwell::llvm_sys::LLVMOpcode;
use wuji_ir::Result;
use wuji_ir::entities::{Local, Value};
use wuji_ir::ops::Space;
use wuji_ir::types::Scalar;

impl FunctionGen<'_, '_, '_> {
    /// A `bool` is a byte in memory; any byte but 0 is true.
    pub(super) fn loaded(&self, v: Val, s: Scalar) -> Val {
        let e = &self.unit.emit;
        match s {
            Scalar::Bool => e.icmp(LLVMIntNE, v, e.zero(e.int_ty(8))),
            _ => v,
        }
    }

    pub(super) fn storable(&self, v: Val, s: Scalar) -> Val {
        let e = &self.unit.emit;
        match s {
            Scalar::Bool => e.cast(LLVMOpcode::LLVMZExt, v, e.int_ty(8)),
            _ => v,
        }
    }

    pub(super) fn address(&mut self, space: Space, offset: Value) -> Result<Val> {
        let base = self.hoisted(match space {
            Space::Tree(tree, _) | Space::Nodes(tree) | Space::Bytes(tree) => Hoisted::Tree(tree),
            Space::Array(array) => Hoisted::ArrayBase(array),
            Space::Temps => Hoisted::Temps,
        });
        let offset = self.get(offset)?;
        Ok(self.unit.emit.offset(base, offset))
    }

    /// Says which memory an access touches and which parallel loops it is in.
    pub(super) fn mark(&self, inst: Val, space: Space) {
        let e = &self.unit.emit;
        self.unit.scopes.mark(e, inst, space);
        match &self.groups[..] {
            [] => {}
            [one] => e.set_md(inst, e.kinds.access_group, *one),
            many => e.set_md(inst, e.kinds.access_group, e.md_node(many)),
        }
    }

    pub(super) fn mem_load(&mut self, space: Space, offset: Value, result: Value) -> Result<Val> {
        let s = self.scalar(result)?;
        let at = self.address(space, offset)?;
        let e = &self.unit.emit;
        let v = match space {
            // Pointers are followed: what was compared must be what is used.
            Space::Nodes(_) => e.load_unordered(e.memory_ty(s), at, s.bytes()),
            Space::Tree(..) | Space::Bytes(_) | Space::Array(_) | Space::Temps => {
                e.load(e.memory_ty(s), at, s.bytes())
            }
        };
        self.mark(v, space);
        Ok(self.loaded(v, s))
    }

    pub(super) fn mem_store(&mut self, space: Space, offset: Value, value: Value) -> Result<()> {
        let s = self.scalar(value)?;
        let at = self.address(space, offset)?;
        let v = self.storable(self.get(value)?, s);
        let inst = self.unit.emit.store(v, at, s.bytes());
        self.mark(inst, space);
        Ok(())
    }

    /// The stack slot of a local, zero at the start of the function.
    fn local(&mut self, local: Local) -> Result<(Val, Scalar)> {
        let data = &self.f.locals[local];
        let s = self.unit.only_scalar(self.f, data.ty)?;
        if let Some(slot) = self.locals.get(&local) {
            return Ok((*slot, s));
        }
        let slot = self.at_entry(|g| {
            let e = &g.unit.emit;
            let ty = e.memory_ty(s);
            match data.len {
                None => {
                    let slot = e.alloca(ty, s.bytes());
                    e.store(e.zero(ty), slot, s.bytes());
                    slot
                }
                Some(len) => {
                    let align = if len >= 16 { 64 } else { s.bytes().max(8) };
                    let slot = e.alloca(e.array_ty(ty, u64::from(len)), align);
                    e.memset_zero(slot, u64::from(len) * u64::from(s.bytes()), align);
                    slot
                }
            }
        });
        self.locals.insert(local, slot);
        Ok((slot, s))
    }

    /// Address of a local or of an element of a local array; the index is inside.
    fn local_address(&mut self, local: Local, index: &[Value]) -> Result<(Val, Scalar)> {
        let (slot, s) = self.local(local)?;
        let Some(index) = index.first() else {
            return Ok((slot, s));
        };
        let from = self.scalar(*index)?;
        let wide = self.convert_value(self.get(*index)?, from, Scalar::I64);
        let e = &self.unit.emit;
        Ok((e.element(e.memory_ty(s), slot, wide), s))
    }

    pub(super) fn load_local(&mut self, local: Local, index: &[Value]) -> Result<Val> {
        let (at, s) = self.local_address(local, index)?;
        let e = &self.unit.emit;
        let v = e.load(e.memory_ty(s), at, s.bytes());
        Ok(self.loaded(v, s))
    }

    pub(super) fn store_local(&mut self, local: Local, args: &[Value]) -> Result<()> {
        let Some((value, index)) = args.split_last() else {
            return Ok(());
        };
        let (at, s) = self.local_address(local, index)?;
        let v = self.storable(self.get(*value)?, s);
        self.unit.emit.store(v, at, s.bytes());
        Ok(())
    }
}
